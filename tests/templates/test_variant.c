/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the field table and what is made of it: values by id, names, canonical text. Tests iterate
 * over the table, so that they cover a new field without a change.
 */
#include <stdlib.h>
#include <string.h>

#include <ctype.h>

#include "templates/template.h"
#include "tests/unit_test.h"

/* An op that takes every field. */
static const struct att_template everything = {.name = "op", .takes = UINT64_MAX};

static struct att_variant plain(void)
{
    struct att_variant v;
    att_variant_init(&v, &everything, "gfx942");
    v.head_dim = 128;
    att_variant_resolve(&v);
    return v;
}

TEST(rows_of_the_table_make_sense)
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *info = &att_fields[f];
        assert_true(strlen(info->name) < 20 && strlen(info->help) > 10);
        if (info->kind == ATT_KIND_ENUM)
            assert_true(info->dflt >= 0 && info->dflt < info->value_count);
        if (info->kind != ATT_KIND_INT)
            continue;
        assert_true(info->min < info->max);
        assert_true((info->min == 0) == (info->zero != NULL));
        if (info->follows)
            assert_true(att_fields[info->like].kind == ATT_KIND_INT);
        else if (!info->required)
            assert_true(info->dflt >= info->min && info->dflt <= info->max);
    }
}

/* In a name, two enumerated fields without a tag may not share a value, and no tag may equal a
   value. */
TEST(what_stands_in_a_name_is_unambiguous)
{
    const char *seen[256];
    size_t count = 0;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *info = &att_fields[f];
        bool values = info->kind == ATT_KIND_ENUM && !info->tag[0];
        for (int i = 0; i < (values ? info->value_count : 1); i++) {
            const char *part = values ? info->values[i].name : info->tag;
            assert_true(part[0] != '\0');
            for (size_t k = 0; k < count; k++)
                assert_string_not_equal(part, seen[k]);
            seen[count++] = part;
        }
    }
}

TEST(following_fields_take_their_leaders_value_unless_set)
{
    struct att_variant v = plain();
    assert_int_equal(v.head_dim_v, 128);
    assert_int_equal(v.rotary_dim, 128);
    v.head_dim_v = 64;
    v.loc[ATT_HEAD_DIM_V].line = 1;
    v.head_dim = 192;
    att_variant_resolve(&v);
    assert_int_equal(v.head_dim_v, 64);
    assert_int_equal(v.rotary_dim, 192);
}

TEST(a_cache_of_the_ops_own_dtype_is_said_in_one_way)
{
    struct att_variant v = plain();
    v.kv_dtype = ATT_KV_DTYPE_BF16;
    att_variant_resolve(&v);
    assert_int_equal(v.kv_dtype, ATT_KV_DTYPE_SAME);
    v.dtype = ATT_DTYPE_FP16;
    v.kv_dtype = ATT_KV_DTYPE_BF16;
    att_variant_resolve(&v);
    assert_int_equal(v.kv_dtype, ATT_KV_DTYPE_BF16);
}

TEST(without_rotation_nothing_says_how_much_rotates)
{
    struct att_variant v = plain();
    v.rope = ATT_ROPE_NONE;
    v.rotary_dim = 64;
    v.loc[ATT_ROTARY_DIM].line = 1;
    att_variant_resolve(&v);
    assert_int_equal(v.rotary_dim, 128);
}

/* Sets field f to its next value. False if there is no further one. */
static bool vary(struct att_variant *v, enum att_field f, int step)
{
    static const char *const paths[] = {"a/alibi.c", "cap.c"};
    const struct att_field_info *info = &att_fields[f];
    if (info->kind == ATT_KIND_FILE) {
        if (step < 2)
            att_set_file(v, f, paths[step]);
        return step < 2;
    }
    int low = info->kind == ATT_KIND_INT ? info->min : 0;
    int high = info->kind == ATT_KIND_ENUM ? info->value_count - 1 : info->max;
    if (low + step > high || step > 40)
        return false;
    att_set(v, f, low + step);
    v->loc[f].line = 1;
    return true;
}

/* Every change of a single field changes the name, the text and the identity, and can be read
   back. */
TEST(every_value_of_every_field_shows)
{
    const struct att_variant base = plain();
    char base_name[ATT_NAME_MAX], base_text[ATT_TEXT_MAX];
    att_variant_name(&base, base_name);
    att_variant_text(&base, base_text);
    assert_string_equal(base_name, "op_bf16_d128_gfx942");
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        struct att_variant v = base;
        for (int step = 0; vary(&v, f, step); step++) {
            char name[ATT_NAME_MAX], text[ATT_TEXT_MAX];
            att_variant_name(&v, name);
            att_variant_text(&v, text);
            bool same = att_variant_same(&v, &base);
            assert_true(same == (strcmp(name, base_name) == 0));
            assert_true(same == (strcmp(text, base_text) == 0));
        }
    }
}

TEST(names_are_c_identifiers)
{
    struct att_variant v = plain();
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        vary(&v, f, 1);
        char name[ATT_NAME_MAX];
        att_variant_name(&v, name);
        assert_true(isalpha((unsigned char)name[0]));
        for (const char *c = name; *c; c++)
            assert_true(isalnum((unsigned char)*c) || *c == '_');
    }
}

/* The longest spelling of all fields of an op fits, with room for the op's own additions. */
TEST(the_longest_name_fits)
{
    for (const struct att_template *const *t = att_templates; *t; t++) {
        size_t name = strlen((*t)->name) + 10, text = name;
        for (int f = 0; f < ATT_FIELD_COUNT; f++) {
            const struct att_field_info *info = &att_fields[f];
            size_t longest = info->kind == ATT_KIND_FILE ? 48 : info->kind == ATT_KIND_INT ? 5 : 4;
            for (int i = 0; i < info->value_count; i++)
                longest =
                    strlen(info->values[i].name) > longest ? strlen(info->values[i].name) : longest;
            if (!((*t)->takes >> f & 1))
                continue;
            name += 1 + strlen(info->tag) + (info->kind == ATT_KIND_FLAG ? 0 : longest);
            text += 2 + strlen(info->name) + longest;
        }
        assert_true(name < ATT_NAME_MAX);
        assert_true(text < ATT_TEXT_MAX);
    }
}

TEST(a_cache_of_the_same_type_has_that_type)
{
    struct att_variant v = plain();
    assert_int_equal(att_kv_dtype(&v), ATT_KV_DTYPE_BF16);
    v.dtype = ATT_DTYPE_FP16;
    assert_int_equal(att_kv_dtype(&v), ATT_KV_DTYPE_FP16);
    v.kv_dtype = ATT_KV_DTYPE_FP8;
    assert_int_equal(att_kv_dtype(&v), ATT_KV_DTYPE_FP8);
}

/* Every row is complete and takes only fields that exist. */
TEST(templates_are_complete)
{
    for (const struct att_template *const *t = att_templates; *t; t++) {
        assert_true((*t)->name && (*t)->description && (*t)->check && (*t)->build);
        /* A template may take no field, so that it has one kernel for all descriptions. */
        assert_true((*t)->takes >> (ATT_FIELD_COUNT - 1) >> 1 == 0);
    }
}

int main(void) { return run_unit_tests(); }

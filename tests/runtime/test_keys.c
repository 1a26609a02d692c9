/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds the compiler and libattn to the same dispatch keys: for every op family that both
 * know, the key's fields are those that the template takes, spelt the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/family.h"
#include "templates/template.h"

static const struct attn_family *const families[] = {
#define FAMILY(name) &attn_family_##name,
#include "runtime/families.def"
};

static const struct att_template *find_template(const char *op)
{
    for (size_t i = 0; att_templates[i]; i++) {
        if (!strcmp(att_templates[i]->name, op))
            return att_templates[i];
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_value(const struct att_field_info *f, const char *text)
{
    if (f->kind == ATT_KIND_FLAG)
        return !strcmp(text, "true") || !strcmp(text, "false");
    if (f->kind == ATT_KIND_FILE)
        return true;
    if (f->kind == ATT_KIND_INT && f->zero && !strcmp(text, f->zero))
        return true;
    if (f->kind == ATT_KIND_INT)
        return atoi(text) >= f->min && atoi(text) <= f->max;
    for (int i = 0; i < f->value_count; i++) {
        if (!strcmp(f->values[i].name, text))
            return true;
    }
    return false;
}

/* A descriptor of every family, as normalise() leaves it. */
static const struct {
    const char *op;
    union attn_desc desc;
} descs[] = {
    {"prefill",
     {.prefill = {.dtype = ATTN_BF16,
                  .head_dim = 128,
                  .head_dim_v = 128,
                  .heads = 8,
                  .kv_heads = 2,
                  .mask = ATTN_MASK_CAUSAL,
                  .cache = {.dtype = ATTN_BF16}}}},
    {"prefill",
     {.prefill = {.dtype = ATTN_BF16,
                  .head_dim = 128,
                  .head_dim_v = 128,
                  .heads = 8,
                  .kv_heads = 2,
                  .mask = ATTN_MASK_WINDOW,
                  .paged = true,
                  .page_table = ATTN_PAGES_INDICES,
                  .cache = {.dtype = ATTN_INT8,
                            .layout = ATTN_KV_SHUFFLE,
                            .scale = ATTN_KV_SCALE_BLOCK,
                            .page_size = 64}}}},
    {"decode",
     {.decode = {.dtype = ATTN_BF16,
                 .head_dim = 128,
                 .head_dim_v = 128,
                 .heads = 8,
                 .kv_heads = 2,
                 .q_len = 1,
                 .mask = ATTN_MASK_CAUSAL,
                 .cache = {.dtype = ATTN_FP8, .scale = ATTN_KV_SCALE_TOKEN, .page_size = 16}}}},
    {"cache_write",
     {.cache_write = {.dtype = ATTN_BF16,
                      .head_dim = 128,
                      .head_dim_v = 64,
                      .kv_heads = 2,
                      .cache = {.dtype = ATTN_INT8,
                                .scale = ATTN_KV_SCALE_TOKEN,
                                .layout = ATTN_KV_SHUFFLE,
                                .page_size = 16}}}},
    {"cache_gather",
     {.cache_gather = {.dtype = ATTN_FP16,
                       .head_dim = 64,
                       .head_dim_v = 128,
                       .kv_heads = 1,
                       .cache = {.dtype = ATTN_FP8, .scale = ATTN_KV_SCALE_BLOCK, .page_size = 64},
                       .page_table = ATTN_PAGES_INDICES}}},
    {"cache_copy", {.cache_copy = {.head_dim = 128, .head_dim_v = 128, .kv_heads = 1}}},
    {"rope_qk_norm_cache",
     {.rope = {.dtype = ATTN_BF16,
               .head_dim = 128,
               .heads = 8,
               .kv_heads = 2,
               .rope = ATTN_ROPE_NEOX,
               .rotary_dim = 128,
               .norm = ATTN_NORM_RMS,
               .mrope = ATTN_MROPE_INTERLEAVED,
               .q_out_dtype = ATTN_FP8,
               .cache = {.dtype = ATTN_BF16, .page_size = 16}}}},
    {"metadata", {.metadata = {.kind = ATTN_METADATA_DRAFT_SLOTS}}},
    {"plan", {.plan = {.size = sizeof(struct attn_plan_desc)}}},
    {"combine",
     {.combine = {.dtype = ATTN_BF16,
                  .out_dtype = ATTN_FP8,
                  .head_dim = 128,
                  .heads = 8,
                  .partials = ATTN_PARTIALS_PAIR}}},
};

static void check_key(const struct attn_family *family, const struct att_template *template,
                      const union attn_desc *desc)
{
    struct attn_key key = {.count = 0};
    family->make_key(desc, &key);
    const char *taken[ATT_FIELD_COUNT];
    unsigned count = 0;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (template->takes >> f & 1 && att_fields[f].role == ATT_ROLE_KEY)
            taken[count++] = att_fields[f].name;
    }
    qsort(taken, count, sizeof(taken[0]), by_name);
    assert_int_equal(key.count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_string_equal(key.fields[i].field, taken[i]);
        int f = 0;
        while (strcmp(att_fields[f].name, taken[i]))
            f++;
        for (unsigned c = 0; c < key.fields[i].count; c++)
            assert_true(is_value(&att_fields[f], key.fields[i].choices[c]));
    }
}

static void check_family(const struct attn_family *family, const struct att_template *template)
{
    unsigned checked = 0;
    for (size_t i = 0; i < sizeof(descs) / sizeof(descs[0]); i++) {
        if (strcmp(descs[i].op, family->op))
            continue;
        check_key(family, template, &descs[i].desc);
        checked++;
    }
    if (!checked)
        fail_msg("there is no descriptor of %s here", family->op);
}

static void compiler_and_library_agree_on_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct att_template *template = find_template(families[i]->op);
        assert_non_null(template);
        check_family(families[i], template);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiler_and_library_agree_on_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

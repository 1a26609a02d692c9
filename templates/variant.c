/* SPDX-License-Identifier: Apache-2.0
 *
 * This file implements access to the fields of variants: the table att_fields[], which fields.def
 * generates, get and set by field id, defaults, and values as text.
 */
#include "templates/variant.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FIELD_ENUM(ID, id, tag, dflt, role, help) static const struct att_value values_##id[] = {
#define VALUE(ID, name, help) {name, help},
#define FIELD_END(id) \
    }                 \
    ;
#include "ops/fields.def"

#define DEFAULT(value) .dflt = (value)
#define REQUIRED .required = true
#define SAME_AS(ID) .follows = true, .like = ATT_##ID
#define ROW(ID, id, tag_, role_, help_)                                \
    .name = #id, .tag = tag_, .help = help_, .role = ATT_ROLE_##role_, \
    .offset = offsetof(struct att_variant, id)

const struct att_field_info att_fields[ATT_FIELD_COUNT] = {
#define FIELD_ENUM(ID, id, tag, default_, role, help)                            \
    [ATT_##ID] = {ROW(ID, id, tag, role, help), .kind = ATT_KIND_ENUM, default_, \
                  .values = values_##id,                                         \
                  .value_count = sizeof(values_##id) / sizeof(values_##id[0])},
#define FIELD_INT(ID, id, tag, unit_, default_, min_, max_, zero_, role, help) \
    [ATT_##ID] = {ROW(ID, id, tag, role, help),                                \
                  .kind = ATT_KIND_INT,                                        \
                  default_,                                                    \
                  .unit = unit_,                                               \
                  .min = min_,                                                 \
                  .max = max_,                                                 \
                  .zero = zero_},
#define FIELD_FLAG(ID, id, tag, role, help) \
    [ATT_##ID] = {ROW(ID, id, tag, role, help), .kind = ATT_KIND_FLAG, .max = 1},
#define FIELD_FILE(ID, id, tag, role, help) \
    [ATT_##ID] = {ROW(ID, id, tag, role, help), .kind = ATT_KIND_FILE},
#include "ops/fields.def"
};

#undef DEFAULT
#undef REQUIRED
#undef SAME_AS
#undef ROW

static_assert(ATT_FIELD_COUNT <= 128, "a set of fields has 128 bits");

/* Checks that every enumerated field has the size of an int, since att_get() and att_set() access
 * it as one. */
#define FIELD_ENUM(ID, id, tag, dflt, role, help) \
    static_assert(sizeof(enum att_##id) == sizeof(int), "read as int");
#include "ops/fields.def"

/* Returns the address of field `f` in a variant. */
static void *slot(const struct att_variant *v, enum att_field f)
{
    return (char *)v + att_fields[f].offset;
}

int att_get(const struct att_variant *v, enum att_field f)
{
    assert(att_fields[f].kind != ATT_KIND_FILE);
    if (att_fields[f].kind == ATT_KIND_FLAG)
        return *(const bool *)slot(v, f);
    return *(const int *)slot(v, f);
}

void att_set(struct att_variant *v, enum att_field f, int value)
{
    assert(att_fields[f].kind != ATT_KIND_FILE);
    if (att_fields[f].kind == ATT_KIND_FLAG)
        *(bool *)slot(v, f) = value != 0;
    else
        *(int *)slot(v, f) = value;
}

const char *att_get_file(const struct att_variant *v, enum att_field f)
{
    assert(att_fields[f].kind == ATT_KIND_FILE);
    return *(const char *const *)slot(v, f);
}

void att_set_file(struct att_variant *v, enum att_field f, const char *path)
{
    assert(att_fields[f].kind == ATT_KIND_FILE);
    *(const char **)slot(v, f) = path;
}

void att_variant_init(struct att_variant *v, const struct att_template *op, const char *target)
{
    *v = (struct att_variant){.op = op, .target = target};
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (att_fields[f].kind != ATT_KIND_FILE)
            att_set(v, f, att_fields[f].dflt);
    }
}

/* Returns the kv_dtype that equals `dtype`. */
static enum att_kv_dtype cache_dtype(enum att_dtype dtype)
{
    return dtype == ATT_DTYPE_BF16 ? ATT_KV_DTYPE_BF16 : ATT_KV_DTYPE_FP16;
}

void att_variant_resolve(struct att_variant *v)
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (att_fields[f].follows && v->loc[f].line == 0)
            att_set(v, f, att_get(v, att_fields[f].like));
    }
    if (v->kv_dtype == cache_dtype(v->dtype))
        v->kv_dtype = ATT_KV_DTYPE_SAME;
    if (v->rope == ATT_ROPE_NONE) /* rotary_dim has no effect: one kernel for all values */
        v->rotary_dim = v->head_dim;
}

enum att_kv_dtype att_kv_dtype(const struct att_variant *v)
{
    if (v->kv_dtype != ATT_KV_DTYPE_SAME)
        return v->kv_dtype;
    return cache_dtype(v->dtype);
}

/* Returns a pointer to the stem of `path`, and sets *length to its length: "alibi" of
 * "hooks/alibi.c". */
static const char *stem(const char *path, int *length)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strchr(base, '.');
    *length = dot ? (int)(dot - base) : (int)strlen(base);
    return base;
}

int att_format_value(const struct att_variant *v, enum att_field f, char *buf, size_t size)
{
    const struct att_field_info *info = &att_fields[f];
    if (info->kind == ATT_KIND_FILE) {
        const char *path = att_get_file(v, f);
        if (!path)
            return snprintf(buf, size, "none");
        int length;
        const char *base = stem(path, &length);
        return snprintf(buf, size, "%.*s", length, base);
    }
    int value = att_get(v, f);
    switch (info->kind) {
    case ATT_KIND_ENUM: return snprintf(buf, size, "%s", info->values[value].name);
    case ATT_KIND_FLAG: return snprintf(buf, size, "%s", value ? "true" : "false");
    default:
        if (value == 0 && info->zero)
            return snprintf(buf, size, "%s", info->zero);
        return snprintf(buf, size, "%d", value);
    }
}

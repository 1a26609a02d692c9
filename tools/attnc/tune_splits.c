/* SPDX-License-Identifier: Apache-2.0
 *
 * How the keys of a decode call are split: shapes with `lists=*` are timed without work lists, and
 * with one to four for each compute unit. Parts are added up by a combine launch, whose time is
 * added, or in the kernel, by the key's sibling with one_launch.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "targets/tgt.h"
#include "tools/attnc/trace.h"
#include "tools/attnc/tune.h"

enum { LISTS_A_UNIT = TUNE_SPLITS - 1, COMBINE_TILES = 4, INFO = 8 /* integers of an item */ };

static const struct att_template *find_template(const char *name)
{
    const struct att_template *const *t = att_templates;
    while (strcmp((*t)->name, name))
        t++;
    return *t;
}

static bool has_lists(const struct att_variant *v)
{
    return !strcmp(v->op->name, "decode") || !strcmp(v->op->name, "mla_decode");
}

static bool is_open(const struct tune_shapes *shapes, const char *op)
{
    for (size_t i = 0; i < shapes->count; i++) {
        if (shapes->rows[i].any_lists && !strcmp(shapes->rows[i].op, op))
            return true;
    }
    return false;
}

/* The combine kernel that follows a key's launches. */
static struct att_variant combine_of(const struct att_variant *v)
{
    struct att_variant c;
    att_variant_init(&c, find_template("combine"), v->target);
    c.dtype = v->dtype;
    c.head_dim = v->head_dim_v;
    c.partials = ATT_PARTIALS_CSR;
    att_variant_resolve(&c);
    return c;
}

static struct att_variant sibling_of(const struct att_variant *v)
{
    struct att_variant sibling = *v;
    sibling.one_launch = true;
    return sibling;
}

static bool is_possible(const struct att_variant *v)
{
    struct att_why why;
    return (!v->one_launch || v->op->takes & ATT_BIT(ONE_LAUNCH)) &&
           v->op->check(v, &tgt_find(v->target)->machine, &why);
}

static int units_of(const char *target)
{
    const struct tgt_parameter *p = tgt_find(target)->parameters;
    while (p->name && strcmp(p->name, "cus"))
        p++;
    return (int)p->value;
}

/* The counts that are tried; a kernel that adds up parts itself is not tried without any. */
static void list_splits(struct tune_key *key)
{
    const int units = units_of(key->variant.target);
    key->split_count = 0;
    for (int n = key->variant.one_launch; n <= LISTS_A_UNIT; n++)
        key->splits[key->split_count++] = n * units;
}

bool tune_add_split_keys(struct tune_sweep *sweep, const struct tune_shapes *shapes)
{
    const size_t count = sweep->key_count, tiles = sweep->max_tiles;
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        const struct att_variant v = sweep->keys[i].variant;
        const size_t before = sweep->key_count;
        if (!has_lists(&v) || v.one_launch || !is_open(shapes, v.op->name))
            continue;
        const struct att_variant sibling = sibling_of(&v), combine = combine_of(&v);
        good = !is_possible(&sibling) || tune_add_key(sweep, &sibling);
        sweep->max_tiles = tiles < COMBINE_TILES ? tiles : COMBINE_TILES;
        good = good && (!is_possible(&combine) || tune_add_key(sweep, &combine));
        sweep->max_tiles = tiles;
        for (size_t k = before; k < sweep->key_count; k++)
            sweep->keys[k].extra = true;
    }
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (has_lists(&sweep->keys[i].variant))
            list_splits(&sweep->keys[i]);
    }
    return good;
}

/* A number of a shape by name. */
static int number(const struct tune_shape *s, const char *name)
{
    const struct verify_op *op = trace_find_op(s->op);
    int sizes[VERIFY_DIMENSIONS] = {0};
    trace_parse_shape(op, s->text, sizes);
    for (unsigned i = 0; i < VERIFY_DIMENSIONS && op->dimensions[i].name; i++) {
        if (!strcmp(op->dimensions[i].name, name))
            return sizes[i];
    }
    return 0;
}

/* Partial rows that the plan makes of a shape's sequences. */
static int count_parts(const struct tune_shape *s)
{
    const int kv_heads = number(s, "kv_heads");
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = number(s, "batch"),
        .q_len = number(s, "q"),
        .heads = number(s, "heads"),
        .kv_heads = kv_heads ? kv_heads : 1,
        .lists = s->lists,
        .window = number(s, "window"),
    };
    struct attn_decode_plan_sizes sizes;
    if (attn_decode_plan_sizes(&shape, &sizes))
        return 0;
    const size_t batch = (size_t)shape.batch;
    int32_t *lens = calloc(batch, sizeof(*lens));
    const struct attn_decode_plan plan = {
        .work_indptr = calloc((size_t)shape.lists + 1, sizeof(int32_t)),
        .work_info = calloc((size_t)sizes.work_items + 1, INFO * sizeof(int32_t)),
        .reduce_indptr = calloc(batch + 1, sizeof(int32_t)),
        .reduce_final_map = calloc(batch + 1, 2 * sizeof(int32_t)),
        .reduce_partial_map = calloc((size_t)sizes.partials + 1, sizeof(int32_t)),
    };
    int parts = 0;
    for (size_t i = 0; lens && i < batch; i++)
        lens[i] = number(s, "k");
    if (lens &&
        !attn_decode_plan(&shape, &(struct attn_decode_plan_lengths){.kv_lens = lens}, &plan))
        parts = plan.reduce_indptr[batch];
    free(lens);
    free(plan.work_indptr);
    free(plan.work_info);
    free(plan.reduce_indptr);
    free(plan.reduce_final_map);
    free(plan.reduce_partial_map);
    return parts;
}

/* The combine launch behind a shape; false: nothing was cut. */
static bool find_combine(const struct tune_shape *s, struct tune_shape *out)
{
    const int parts = s->lists ? count_parts(s) : 0, batch = number(s, "batch");
    *out = (struct tune_shape){.op = "combine"};
    snprintf(out->text, sizeof(out->text), "tokens=%d,parts=%d,heads=%d", batch * number(s, "q"),
             (parts + batch - 1) / batch, number(s, "heads"));
    return parts > 0;
}

static struct tune_key *find_key(const struct tune_sweep *sweep, const struct att_variant *v)
{
    char text[ATT_TEXT_MAX];
    att_variant_text(v, text);
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (!strcmp(sweep->keys[i].text, text))
            return &sweep->keys[i];
    }
    return NULL;
}

/* A key's shape by its text; NULL: it has none. */
static const struct tune_shape *find_shape(const struct tune_key *key, const char *text)
{
    for (size_t i = 0; i < key->shape_count; i++) {
        if (!strcmp(key->shapes[i].text, text))
            return &key->shapes[i];
    }
    return NULL;
}

static bool add_shape(struct tune_key *key, const struct tune_shape *s)
{
    if (find_shape(key, s->text))
        return true;
    struct tune_shape *grown = realloc(key->shapes, (key->shape_count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    key->shapes = grown;
    grown[key->shape_count++] = *s;
    return true;
}

bool tune_add_combine_shapes(struct tune_sweep *sweep)
{
    bool good = true;
    for (size_t i = 0; i < sweep->key_count; i++) {
        const struct tune_key *key = &sweep->keys[i];
        for (size_t s = 0; good && s < key->shape_count; s++) {
            struct tune_shape after;
            if (!key->shapes[s].call[0] || key->variant.one_launch ||
                !find_combine(&key->shapes[s], &after))
                continue;
            const struct att_variant v = combine_of(&key->variant);
            struct tune_key *combine = find_key(sweep, &v);
            good = !combine || add_shape(combine, &after);
        }
    }
    return good;
}

/* A shape with everything that its result needs; 0: not known. */
static double whole_time(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                         const struct tune_key *key, size_t shape)
{
    struct tune_shape after;
    const double own = tune_chosen_time(key, tuning, shape);
    if (key->variant.one_launch || !find_combine(&key->shapes[shape], &after))
        return own;
    const struct att_variant v = combine_of(&key->variant);
    const struct tune_key *combine = find_key(sweep, &v);
    const struct tune_shape *s = combine ? find_shape(combine, after.text) : NULL;
    const double more = s ? tune_chosen_time(combine, tuning, (size_t)(s - combine->shapes)) : 0;
    return own > 0 && more > 0 ? own + more : 0;
}

/* Takes the fastest of a key's shapes that are this call. */
static void offer(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                  const struct tune_key *key, struct attnc_split *best)
{
    for (size_t i = 0; key && i < key->shape_count; i++) {
        if (strcmp(key->shapes[i].call, best->call))
            continue;
        const double us = whole_time(sweep, tuning, key, i);
        if (!key->shapes[i].lists)
            best->whole_us = us;
        if (us <= 0 || (best->us > 0 && us >= best->us))
            continue;
        best->us = us;
        best->lists = key->shapes[i].lists;
        best->one_launch = key->variant.one_launch;
    }
}

static bool is_first(const struct tune_key *key, size_t shape)
{
    for (size_t i = 0; i < shape; i++) {
        if (!strcmp(key->shapes[i].call, key->shapes[shape].call))
            return false;
    }
    return key->shapes[shape].call[0];
}

bool tune_choose_splits(const struct tune_sweep *sweep, struct attnc_tuning *tuning)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        const struct tune_key *key = &sweep->keys[i];
        const struct att_variant sibling = sibling_of(&key->variant);
        for (size_t s = 0; s < key->shape_count && !key->variant.one_launch; s++) {
            struct attnc_split split = {.key = (char *)key->text, .call = key->shapes[s].call};
            if (!is_first(key, s))
                continue;
            offer(sweep, tuning, key, &split);
            offer(sweep, tuning, find_key(sweep, &sibling), &split);
            if (split.us > 0 && !attnc_tuning_add_split(tuning, &split))
                return false;
        }
    }
    return true;
}

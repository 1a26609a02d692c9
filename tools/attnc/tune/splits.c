/* SPDX-License-Identifier: Apache-2.0
 *
 * This file tunes how the keys of a decode call are split. Shapes with `lists=*` are timed without
 * work lists, and with one to four lists for each compute unit; some also with half a list.
 * Split-KV partials are added by a combine launch, whose time counts, or in the same launch by the
 * key's sibling with one_launch.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "targets/tgt.h"
#include "tools/attnc/trace/trace.h"
#include "tools/attnc/tune/tune.h"

/* The most work lists for a compute unit; the most candidates of a combine kernel. */
enum { LISTS_A_UNIT = 4, COMBINE_TILES = 4 };

/* True if calls of the op can have work lists, whose number can be tuned. */
static bool has_lists(const struct att_variant *v)
{
    return !strcmp(v->op->name, "decode") || !strcmp(v->op->name, "rope_decode") ||
           !strcmp(v->op->name, "mla_decode");
}

/* True if `shapes` has a shape of the op that leaves the number of lists open (lists=*). */
static bool is_open(const struct tune_shapes *shapes, const char *op)
{
    for (size_t i = 0; i < shapes->count; i++) {
        if (shapes->rows[i].any_lists && !strcmp(shapes->rows[i].op, op))
            return true;
    }
    return false;
}

/* Returns the number of compute units of a target. */
static int units_of(const char *target)
{
    const struct tgt_parameter *p = tgt_find(target)->parameters;
    while (p->name && strcmp(p->name, "cus"))
        p++;
    return (int)p->value;
}

/* True if several workgroups may share a work list: mla_decode with more than 64 rows of queries
 * and heads. */
static bool is_shared(const struct att_variant *v)
{
    enum { ROWS = 64 };
    return !strcmp(v->op->name, "mla_decode") && v->gqa * v->q_len > ROWS && !v->one_launch;
}

/* Sets key->splits to the numbers of work lists to try; 0 is a call without lists. A kernel with
 * one_launch always has lists. */
static void list_splits(struct tune_key *key)
{
    const int units = units_of(key->variant.target);
    key->split_count = 0;
    for (int n = key->variant.one_launch; n <= LISTS_A_UNIT; n++)
        key->splits[key->split_count++] = n * units;
    if (is_shared(&key->variant))
        key->splits[key->split_count++] = units / 2;
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
        struct att_variant sibling, combine;
        good = !attnc_split_sibling(&v, &sibling) || tune_add_key(sweep, &sibling);
        sweep->max_tiles = tiles < COMBINE_TILES ? tiles : COMBINE_TILES;
        good = good && (!attnc_split_combine(&v, &combine) || tune_add_key(sweep, &combine));
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

bool tune_find_combine(const struct tune_shape *s, struct tune_shape *out)
{
    const struct tune_plan plan = tune_plan_shape(s);
    *out = (struct tune_shape){.op = "combine"};
    if (!plan.parts)
        return false;
    snprintf(out->text, sizeof(out->text), "tokens=%d,parts=%d,heads=%d",
             tune_shape_number(s, "batch") * tune_shape_number(s, "q"),
             (plan.parts + plan.tiles - 1) / plan.tiles, tune_shape_number(s, "heads"));
    tune_find_values(out);
    return true;
}

struct tune_key *tune_find_key(const struct tune_sweep *sweep, const struct att_variant *v)
{
    char text[ATT_TEXT_MAX];
    attnc_key_text(v, text);
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (!strcmp(sweep->keys[i].text, text))
            return &sweep->keys[i];
    }
    return NULL;
}

/* Returns the key's shape with this text; NULL if it has none. */
static const struct tune_shape *find_shape(const struct tune_key *key, const char *text)
{
    for (size_t i = 0; i < key->shape_count; i++) {
        if (!strcmp(key->shapes[i].text, text))
            return &key->shapes[i];
    }
    return NULL;
}

/* Adds a shape to a key, unless the key has it. Returns false if memory is exhausted. */
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
                !tune_find_combine(&key->shapes[s], &after))
                continue;
            struct att_variant v;
            struct tune_key *combine =
                attnc_split_combine(&key->variant, &v) ? tune_find_key(sweep, &v) : NULL;
            good = !combine || add_shape(combine, &after);
        }
    }
    return good;
}

/* Returns the time in us of a key's chosen kernel on a shape, and of the combine launch that it
 * needs; 0 if one is unknown. */
static double whole_time(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                         const struct tune_key *key, size_t shape)
{
    struct tune_shape after;
    const double own = tune_chosen_time(key, tuning, shape);
    if (key->variant.one_launch || !tune_find_combine(&key->shapes[shape], &after))
        return own;
    struct att_variant v;
    const struct tune_key *combine =
        attnc_split_combine(&key->variant, &v) ? tune_find_key(sweep, &v) : NULL;
    const struct tune_shape *s = combine ? find_shape(combine, after.text) : NULL;
    const double more = s ? tune_chosen_time(combine, tuning, (size_t)(s - combine->shapes)) : 0;
    return own > 0 && more > 0 ? own + more : 0;
}

/* Compares the key's shapes of the call best->call with `best`, and stores a faster split there.
 * Also stores the time without lists. `key` may be NULL. */
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

/* True if the shape comes from lists=* and no earlier shape of the key has the same call. */
static bool is_first(const struct tune_key *key, size_t shape)
{
    for (size_t i = 0; i < shape; i++) {
        if (!strcmp(key->shapes[i].call, key->shapes[shape].call))
            return false;
    }
    return key->shapes[shape].call[0];
}

/* True if the pack needs a kernel of the key: a description has the key, or a chosen split uses it
 * as a sibling with one_launch. */
static bool is_wanted(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                      const struct tune_key *key)
{
    bool wanted = !key->extra;
    for (size_t i = 0; i < sweep->key_count; i++) {
        struct att_variant sibling;
        if (!attnc_split_sibling(&sweep->keys[i].variant, &sibling) ||
            tune_find_key(sweep, &sibling) != key)
            continue;
        for (size_t s = 0; s < tuning->split_count; s++)
            wanted = wanted || (tuning->splits[s].one_launch &&
                                !strcmp(tuning->splits[s].key, sweep->keys[i].text));
    }
    return wanted;
}

/* True if the tuning has a row of the key; it has none if the budget ended before. */
static bool has_row(const struct attnc_tuning *tuning, const struct tune_key *key)
{
    size_t i = 0;
    while (i < tuning->count && strcmp(tuning->rows[i].key, key->text))
        i++;
    return i < tuning->count;
}

/* Adds the fastest split of each call of a key to the tuning. Returns false if memory is
 * exhausted. */
static bool choose_splits(const struct tune_sweep *sweep, const struct tune_key *key,
                          struct attnc_tuning *tuning)
{
    struct att_variant sibling;
    const bool has_sibling = attnc_split_sibling(&key->variant, &sibling);
    for (size_t s = 0; s < key->shape_count; s++) {
        struct attnc_split split = {.key = (char *)key->text, .call = key->shapes[s].call};
        if (!is_first(key, s))
            continue;
        offer(sweep, tuning, key, &split);
        if (has_sibling)
            offer(sweep, tuning, tune_find_key(sweep, &sibling), &split);
        if (split.us > 0 && !attnc_tuning_add_split(tuning, &split))
            return false;
    }
    return true;
}

bool tune_choose_splits(const struct tune_sweep *sweep, struct attnc_tuning *tuning)
{
    bool good = true;
    for (int alone = 0; alone < 2; alone++) { /* keys without one_launch first */
        for (size_t i = 0; good && i < sweep->key_count; i++) {
            const struct tune_key *key = &sweep->keys[i];
            if (key->variant.one_launch == alone && has_row(tuning, key) &&
                is_wanted(sweep, tuning, key))
                good = choose_splits(sweep, key, tuning);
        }
    }
    return good;
}

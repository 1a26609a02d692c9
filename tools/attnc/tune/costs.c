/* SPDX-License-Identifier: Apache-2.0
 *
 * This file tunes the numbers by which the planner divides keys: item_cost, merge_rate and
 * unit_keys. A call whose keys are split is also timed with other numbers, if these give another
 * plan. At that point its kernel and its number of work lists are already chosen.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/attn.h"
#include "tools/attnc/trace/trace.h"
#include "tools/attnc/tune/tune.h"

/* Integers of a work item in a plan; most other plans that are tried for a call. */
enum { INFO = 8, TRIALS = 40 };

/* Values to try, in all combinations; 0 is the planner's default. */
static const int item_costs[] = {0, 1, 4, 8, 16}, merge_rates[] = {0, 1, 16, 64}, units[] = {0, 32};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Makes a plan on the host for sequences of `lens` keys, and returns its sizes and hash. Returns
 * zeros if it cannot be made. */
static struct tune_plan make_plan(const struct attn_decode_plan_shape *shape, const int32_t *lens)
{
    struct attn_decode_plan_sizes sizes;
    struct tune_plan plan = {0};
    if (attn_decode_plan_sizes(shape, &sizes))
        return plan;
    const size_t tiles = (size_t)sizes.tiles, lists = (size_t)shape->lists;
    const size_t items = INFO * (size_t)sizes.work_items;
    const size_t words = lists + 1 + items + tiles + 1 + 2 * tiles + (size_t)sizes.partials;
    int32_t *all = calloc(words, sizeof(*all));
    const struct attn_decode_plan tensors = {
        .work_info = all,
        .work_indptr = all + items,
        .reduce_indptr = all + items + lists + 1,
        .reduce_final_map = all + items + lists + tiles + 2,
        .reduce_partial_map = all + items + lists + 3 * tiles + 2,
    };
    const struct attn_decode_plan_lengths lengths = {.kv_lens = lens};
    if (all && !attn_decode_plan(shape, &lengths, &tensors))
        plan = (struct tune_plan){
            .tiles = sizes.tiles,
            .parts = tensors.reduce_indptr[tiles],
            .hash = XXH3_64bits(all, words * sizeof(*all)),
        };
    free(all);
    return plan;
}

struct tune_plan tune_plan_shape(const struct tune_shape *s)
{
    const int kv_heads = tune_shape_number(s, "kv_heads"), keys = tune_shape_number(s, "k");
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = tune_shape_number(s, "batch"),
        .q_len = tune_shape_number(s, "q"),
        .heads = tune_shape_number(s, "heads"),
        .kv_heads = kv_heads ? kv_heads : 1,
        .lists = s->lists,
        .window = tune_shape_number(s, "window"),
        .item_cost = s->item_cost,
        .merge_rate = s->merge_rate,
        .q_tile = tune_shape_number(s, "q_tile"),
        .unit_keys = s->unit_keys,
    };
    int32_t *lens = s->lists ? calloc((size_t)shape.batch + 1, sizeof(*lens)) : NULL;
    for (int i = 0; lens && i < shape.batch; i++)
        lens[i] = keys;
    const struct tune_plan plan = lens ? make_plan(&shape, lens) : (struct tune_plan){0};
    free(lens);
    return plan;
}

/* A launch of a key's kernel on a shape that was added after the sweep, and its time. */
struct part {
    struct tune_key *key; /* NULL: there is nothing to launch */
    size_t candidate, shape;
    struct tune_value value;
};

/* A decode call with another plan: its own launch, and the combine launch after it. */
struct trial {
    struct tune_shape shape;
    struct part own, combine;
};

/* Adds the shape `s` to a key after the sweep. Sets *p to its launch with the candidate that the
 * tuning chooses. Returns false if memory is exhausted. */
static bool add_late(struct part *p, struct tune_key *key, const struct attnc_tuning *tuning,
                     const struct tune_shape *s)
{
    const size_t count = key->shape_count + key->late_count;
    struct tune_shape *grown = realloc(key->shapes, (count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    key->shapes = grown;
    grown[count] = *s;
    key->late_count++;
    *p = (struct part){
        .key = key, .candidate = tune_chosen_candidate(key, tuning, s), .shape = count};
    return true;
}

/* Appends ",NAME=NUMBER" to the text of a shape; nothing if `number` is 0. */
static void add_number(struct tune_shape *s, const char *name, int number)
{
    const size_t length = strlen(s->text);
    if (number)
        snprintf(s->text + length, sizeof(s->text) - length, ",%s=%d", name, number);
}

/* Lists the numbers with which the planner makes another plan of the shape `base` for a variant,
 * one for each different plan. All have the unit_keys of `base`, if the user gave these. Returns
 * their number. */
static size_t find_trials(const struct att_variant *v, const struct tune_shape *base,
                          struct trial trials[TRIALS])
{
    const size_t costs = COUNT(item_costs), rates = COUNT(merge_rates);
    const bool open = !base->unit_keys && attnc_split_takes_units(v);
    const size_t combinations = costs * rates * (open ? COUNT(units) : 1);
    uint64_t seen[TRIALS + 1] = {tune_plan_shape(base).hash};
    size_t count = 0;
    for (size_t i = 0; i < combinations; i++) {
        struct tune_shape s = *base;
        s.item_cost = item_costs[i % costs];
        s.merge_rate = merge_rates[i / costs % rates];
        s.unit_keys = open ? units[i / costs / rates] : base->unit_keys;
        const uint64_t hash = tune_plan_shape(&s).hash;
        size_t k = 0;
        while (k <= count && seen[k] != hash)
            k++;
        if (k <= count || count == TRIALS)
            continue;
        seen[count + 1] = hash;
        add_number(&s, "item_cost", s.item_cost);
        add_number(&s, "merge_rate", s.merge_rate);
        add_number(&s, "unit_keys", open ? s.unit_keys : 0); /* else the text may have it */
        trials[count++] = (struct trial){.shape = s};
    }
    return count;
}

/* Times a launch; does nothing if it has no key or its kernel was not compiled. Returns false if
 * the database cannot be written. */
static bool time_part(struct tune_sweep *sweep, struct part *p)
{
    const struct tune_item item = {p->key, p->candidate, p->shape, sweep->parameters, &p->value};
    if (!p->key || p->candidate == p->key->candidate_count ||
        !p->key->candidates[p->candidate].kernel)
        return true;
    return p->key->on_gpu ? tune_time_gpu(sweep, p->key, p->candidate, p->shape, &p->value)
                          : tune_time_items(sweep, &item, 1);
}

/* True if there is nothing to launch, or if the launch has a time. */
static bool is_known(const struct part *p)
{
    return !p->key || (p->value.runs && !p->value.fault[0] && p->value.us > 0);
}

/* Times a call with other numbers. Stores them in `split` if the upper end of the time's
 * interval is below the present time. Returns false if the database cannot be written. */
static bool try(struct tune_sweep *sweep, struct tune_key *key, const struct attnc_tuning *tuning,
                struct trial *t, struct attnc_split *split)
{
    struct tune_shape after;
    struct att_variant v;
    const bool cut = !split->one_launch && tune_find_combine(&t->shape, &after);
    struct tune_key *combine =
        cut && attnc_split_combine(&key->variant, &v) ? tune_find_key(sweep, &v) : NULL;
    if ((cut && !combine) || !add_late(&t->own, key, tuning, &t->shape) ||
        (combine && !add_late(&t->combine, combine, tuning, &after)))
        return true; /* nothing is launched, so that the split keeps its costs */
    if (!time_part(sweep, &t->own) || !time_part(sweep, &t->combine))
        return false;
    const double high = t->own.value.us_high + t->combine.value.us_high;
    if (!is_known(&t->own) || !is_known(&t->combine) || high >= split->us)
        return true;
    split->us = t->own.value.us + t->combine.value.us;
    split->item_cost = t->shape.item_cost;
    split->merge_rate = t->shape.merge_rate;
    split->unit_keys = t->shape.unit_keys;
    return true;
}

/* Returns the key whose kernel runs the call of a split, and sets *base to the call's shape.
 * Returns NULL if the sweep lacks it. */
static struct tune_key *find_base(const struct tune_sweep *sweep, const struct attnc_split *split,
                                  struct tune_shape *base)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        struct tune_key *key = &sweep->keys[i];
        struct att_variant sibling;
        const bool same = !strcmp(key->text, split->key);
        if (same && split->one_launch && attnc_split_sibling(&key->variant, &sibling))
            key = tune_find_key(sweep, &sibling);
        for (size_t s = 0; same && key && s < key->shape_count; s++) {
            if (strcmp(key->shapes[s].call, split->call) || key->shapes[s].lists != split->lists)
                continue;
            *base = key->shapes[s];
            return key;
        }
    }
    return NULL;
}

bool tune_choose_costs(struct tune_sweep *sweep, struct attnc_tuning *tuning)
{
    bool good = true;
    for (size_t i = 0; good && i < tuning->split_count; i++) {
        struct attnc_split *split = &tuning->splits[i];
        struct tune_shape base;
        struct trial trials[TRIALS];
        struct tune_key *key = split->lists ? find_base(sweep, split, &base) : NULL;
        if (key)
            split->unit_keys = base.unit_keys;
        const size_t count = key ? find_trials(&key->variant, &base, trials) : 0;
        for (size_t t = 0; good && t < count; t++)
            good = try(sweep, key, tuning, &trials[t], split);
    }
    return good;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file prints the summary of attnc tune: gains over a plain build, splits, decisions that need
 * a GPU, and how much the budget has left out.
 */
#include <math.h>
#include <string.h>

#include "tools/attnc/cli/json.h"
#include "tools/attnc/tune/tune.h"

/* The sweep and its result. */
struct summary {
    const struct tune_sweep *sweep;
    const struct attnc_tuning *tuning;
};

/* Numbers of the sweep's dispatch keys: all launches timed, some timed, none timed. */
struct reach {
    size_t whole, part, none;
};

/* The gain over a plain build on some pairs of key and shape. */
struct gain {
    /* Sum of the natural logarithms of the plain build's time over the tuned time. */
    double sum;
    /* Number of pairs, and of those that tuning has made slower. */
    size_t pairs, slower;
};

/* Returns the geometric mean of the gains, as a factor; 1 if there are no pairs. */
static double mean(const struct gain *g) { return g->pairs ? exp(g->sum / (double)g->pairs) : 1; }

/* Returns the gain of a key's chosen kernels over the plain build's; no pairs if the key is
 * extra. */
static struct gain find_gain(const struct summary *r, const struct tune_key *key)
{
    struct gain g = {0};
    for (size_t s = 0; s < key->shape_count && !key->extra; s++) {
        const double first = tune_own_time(key, s);
        const double tuned = tune_chosen_time(key, r->tuning, s);
        if (first > 0 && tuned > 0) {
            g.sum += log(first / tuned);
            g.pairs++;
            g.slower += tuned > first;
        }
    }
    return g;
}

/* Adds the gain `g` to `to`. */
static void add_gain(struct gain *to, const struct gain *g)
{
    to->sum += g->sum;
    to->pairs += g->pairs;
    to->slower += g->slower;
}

/* Returns the number of tiles that the tuning has chosen for calls of the key. */
static size_t count_kernels(const struct summary *r, const struct tune_key *key)
{
    size_t kernels = 0;
    for (size_t i = 0; i < r->tuning->count; i++)
        kernels += !strcmp(r->tuning->rows[i].key, key->text) &&
                   strcmp(r->tuning->rows[i].tile, ATTNC_AUTO);
    return kernels;
}

/* Prints the table's line of a key. */
static void print_key(const struct summary *r, const struct tune_key *key)
{
    const struct gain g = find_gain(r, key);
    const size_t kernels = count_kernels(r, key);
    char name[ATT_NAME_MAX];
    att_variant_name(&key->variant, name);
    printf("%-56s %5zu %6zu %7zu  %.3f\n", name, key->candidate_count, g.pairs, kernels, mean(&g));
}

/* Prints the mean gain for each op and target. */
static void print_families(const struct summary *r)
{
    const struct tune_sweep *s = r->sweep;
    for (size_t i = 0; i < s->key_count; i++) {
        const struct att_variant *v = &s->keys[i].variant;
        struct gain g = {0};
        bool first = true;
        for (size_t k = 0; k < s->key_count; k++) {
            const struct att_variant *w = &s->keys[k].variant;
            if (v->op != w->op || strcmp(v->target, w->target) || s->keys[k].extra)
                continue;
            first = first && k >= i;
            const struct gain one = find_gain(r, &s->keys[k]);
            add_gain(&g, &one);
        }
        if (first && g.pairs && !s->keys[i].extra)
            printf("%s on %s: %zu pairs, %.3f\n", v->op->name, v->target, g.pairs, mean(&g));
    }
}

/* Returns the numbers of dispatch keys whose launches were all timed, timed in part and not
 * timed. */
static struct reach find_reach(const struct tune_sweep *s)
{
    struct reach reach = {0};
    for (size_t k = 0; k < s->key_count; k++) {
        const struct tune_key *const key = &s->keys[k];
        reach.whole += key->whole;
        reach.part += key->begun && !key->whole;
        reach.none += !key->begun && !key->whole;
    }
    return reach;
}

/* Prints the numbers of dispatch keys whose launches were all timed, timed in part and not
 * timed. */
static void print_reach(const struct tune_sweep *s)
{
    const struct reach reach = find_reach(s);
    printf("%zu keys measured, %zu in part, %zu left to the build", reach.whole, reach.part,
           reach.none);
    if (s->refused)
        printf("; %zu results refused", s->refused);
    printf("\n");
}

/* Prints the table of all keys with their gains, and the totals. */
static void print_table(const struct summary *r)
{
    struct gain all = {0};
    const struct tune_sweep *s = r->sweep;
    printf("%-56s %5s %6s %7s  %s\n", "KEY", "TILES", "SHAPES", "CHOSEN", "GAIN");
    for (size_t i = 0; i < s->key_count; i++) {
        const struct gain g = find_gain(r, &s->keys[i]);
        if (!s->keys[i].extra)
            print_key(r, &s->keys[i]);
        add_gain(&all, &g);
    }
    print_families(r);
    if (all.pairs)
        printf(
            "%zu pairs of key and shape: %.3f times as fast as a build on the %s, geometric mean; "
            "%zu slower\n",
            all.pairs, mean(&all), s->gpu_races ? "GPU" : "model", all.slower);
    else
        printf("no shape was timed: all keys are left to the build\n");
    printf(
        "%zu measured, %zu known, %zu left out by the budget, %zu failed; %zu candidates pruned, "
        "%zu wrong\n",
        s->measured, s->known, tune_count_left(s), s->failed, s->pruned, s->wrong);
    print_reach(s);
}

/* Writes a key and its gain as a JSON object. */
static void key_json(struct json *j, const struct summary *r, const struct tune_key *key,
                     const struct gain *g)
{
    char name[ATT_NAME_MAX];
    att_variant_name(&key->variant, name);
    json_begin_object(j, NULL);
    json_string(j, "kernel", name);
    json_string(j, "key", key->text);
    json_integer(j, "tiles", (int64_t)key->candidate_count);
    json_integer(j, "shapes", (int64_t)g->pairs);
    json_integer(j, "kernels", (int64_t)count_kernels(r, key));
    json_real(j, "gain", mean(g));
    json_end(j);
}

/* Writes the JSON list of the tuning's rows that only a measurement on a GPU can confirm. Each has
 * the names of the timing model's parameters that could change its tile. */
static void open_json(struct json *j, const struct summary *r)
{
    json_begin_list(j, "for_hardware");
    for (size_t i = 0; i < r->tuning->count; i++) {
        const struct attnc_tuned *row = &r->tuning->rows[i];
        if (!row->open)
            continue;
        json_begin_object(j, NULL);
        json_string(j, "key", row->key);
        json_string(j, "tile", row->tile);
        json_string(j, "unless", row->open);
        json_end(j);
    }
    json_end(j);
}

/* Writes the chosen splits as a JSON list. */
static void splits_json(struct json *j, const struct summary *r)
{
    json_begin_list(j, "splits");
    for (size_t i = 0; i < r->tuning->split_count; i++) {
        const struct attnc_split *row = &r->tuning->splits[i];
        json_begin_object(j, NULL);
        json_string(j, "key", row->key);
        json_string(j, "call", row->call);
        json_integer(j, "lists", row->lists);
        json_integer(j, "one_launch", row->one_launch);
        json_integer(j, "item_cost", row->item_cost);
        json_integer(j, "merge_rate", row->merge_rate);
        json_integer(j, "unit_keys", row->unit_keys);
        json_real(j, "us", row->us);
        json_real(j, "whole_us", row->whole_us);
        json_end(j);
    }
    json_end(j);
}

/* Prints the summary of the sweep as JSON. */
static void print_json(const struct summary *r)
{
    struct json j = {.out = stdout};
    struct gain all = {0};
    const struct tune_sweep *s = r->sweep;
    const struct reach reach = find_reach(s);
    json_begin_object(&j, NULL);
    json_string(&j, "device", s->gpu_races ? "hip" : "sim");
    json_begin_list(&j, "keys");
    for (size_t i = 0; i < s->key_count; i++) {
        if (s->keys[i].extra)
            continue;
        const struct gain g = find_gain(r, &s->keys[i]);
        key_json(&j, r, &s->keys[i], &g);
        add_gain(&all, &g);
    }
    json_end(&j);
    json_integer(&j, "pairs", (int64_t)all.pairs);
    json_integer(&j, "slower", (int64_t)all.slower);
    json_real(&j, "gain", mean(&all));
    json_integer(&j, "measured", (int64_t)s->measured);
    json_integer(&j, "known", (int64_t)s->known);
    json_integer(&j, "left_out", (int64_t)tune_count_left(s));
    json_integer(&j, "keys_measured", (int64_t)reach.whole);
    json_integer(&j, "keys_in_part", (int64_t)reach.part);
    json_integer(&j, "keys_left", (int64_t)reach.none);
    json_integer(&j, "refused", (int64_t)s->refused);
    json_integer(&j, "failed", (int64_t)s->failed);
    json_integer(&j, "pruned", (int64_t)s->pruned);
    json_integer(&j, "wrong", (int64_t)s->wrong);
    open_json(&j, r);
    splits_json(&j, r);
    json_end(&j);
}

/* Prints the tuning's rows that only a measurement on a GPU can confirm. Each has the names of the
 * timing model's parameters that could change its tile. */
static void print_open(const struct summary *r)
{
    for (size_t i = 0; i < r->tuning->count; i++) {
        const struct attnc_tuned *row = &r->tuning->rows[i];
        if (row->open)
            printf("for hardware: %s\n    %s wins, unless %s\n", row->key, row->tile, row->open);
    }
}

/* Prints the chosen split of a call and its time. */
static void print_split(const struct attnc_split *row)
{
    if (!row->lists) {
        printf("    %s: no lists: %.1f us\n", row->call, row->us);
        return;
    }
    printf("    %s: %lld lists, added up %s", row->call, (long long)row->lists,
           row->one_launch ? "in one launch" : "by combine");
    if (row->item_cost)
        printf(", item_cost %lld", (long long)row->item_cost);
    if (row->merge_rate)
        printf(", merge_rate %lld", (long long)row->merge_rate);
    if (row->unit_keys)
        printf(", units of %lld keys", (long long)row->unit_keys);
    printf(": %.1f us", row->us);
    if (row->whole_us > 0)
        printf(", %.1f without", row->whole_us);
    printf("\n");
}

/* Prints the chosen splits by key. A caller of libattn passes their numbers. */
static void print_splits(const struct summary *r)
{
    for (size_t k = 0; r->tuning->split_count && k < r->sweep->key_count; k++) {
        const struct tune_key *key = &r->sweep->keys[k];
        char name[ATT_NAME_MAX];
        size_t printed = 0;
        att_variant_name(&key->variant, name);
        for (size_t i = 0; i < r->tuning->split_count; i++) {
            if (strcmp(r->tuning->splits[i].key, key->text))
                continue;
            if (!printed++)
                printf("splits of %s:\n", name);
            print_split(&r->tuning->splits[i]);
        }
    }
}

void tune_print_summary(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                        bool json)
{
    const struct summary r = {sweep, tuning};
    if (json) {
        print_json(&r);
        return;
    }
    print_table(&r);
    print_open(&r);
    print_splits(&r);
}

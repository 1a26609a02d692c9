/* SPDX-License-Identifier: Apache-2.0
 *
 * This file chooses kernels from times. The calls of a key are divided by values that libattn has
 * at a launch, such as batch. A cut is at the geometric mean of two neighbouring values, where it
 * gains most.
 * Each part gets its fastest candidate. A candidate that is slower than the plain build's kernel on
 * a shape of the part is left out. A candidate gets only calls near its shapes; all others stay
 * with the plain build's kernels.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/tune/tune.h"

/* The most parts that the calls of a key are divided into. */
enum { MOST_LEAVES = 12 };

/* Least gain of a cut, for each shape of the leaf: a decrease of the natural logarithm of time. */
static const double WORTH = 0.004;

/* A part of a key's calls, a leaf of the tree of cuts. */
struct leaf {
    /* Ranges of the launch values that the part has. */
    struct att_box box;
    bool *in; /* by shape: true if the leaf has it, owned */
    /* Number of shapes that `in` marks. */
    size_t shapes;
    /* Index of the candidate for these calls; candidate_count: the plain build's kernels. */
    size_t candidate;
    double cost; /* sum of the natural logarithms of the shapes' times with that candidate */
    /* Sum of the natural logarithms of the shapes' times with the plain build's kernels. */
    double own_cost;
};

/* True if the plain build's kernels run the calls of the leaf. */
static bool is_own(const struct tune_key *key, const struct leaf *l)
{
    return l->candidate == key->candidate_count;
}

/* A cut of a leaf in two at a launch value. */
struct cut {
    /* Index of the leaf. */
    size_t leaf;
    /* Name of the launch value; NULL: there is no cut. */
    const char *arg;
    int64_t last; /* largest value in the lower part */
    double gain;  /* decrease, by the cut, of the sum of the natural logarithms of times */
};

/* Returns the launch value of a shape called `arg`; NULL if it has none. */
static const struct tune_launch_value *find_value(const struct tune_shape *s, const char *arg)
{
    for (unsigned i = 0; i < s->value_count; i++) {
        if (!strcmp(s->values[i].arg, arg))
            return &s->values[i];
    }
    return NULL;
}

/* True if a launch was timed without a fault. */
static bool is_timed(const struct tune_value *v) { return v->runs && !v->fault[0] && v->us > 0; }

/* Returns the sum of the logarithms of the plain build's times over the shapes that `in` marks.
 * *count gets the number of these shapes that have a time. */
static double find_own_cost(const struct tune_key *key, const bool *in, size_t *count)
{
    double cost = 0;
    *count = 0;
    for (size_t s = 0; s < key->shape_count; s++) {
        const double us = in[s] ? tune_own_time(key, s) : 0;
        cost += us > 0 ? log(us) : 0;
        *count += us > 0;
    }
    return cost;
}

/* Returns the sum of the logarithms of a candidate's times over the shapes that `in` marks.
 * INFINITY if it has no time on one of them, or is slower there than the plain build's kernel. */
static double find_cost(const struct tune_key *key, size_t candidate, const bool *in)
{
    const struct tune_value *const times = tune_times(key, candidate);
    double cost = 0;
    for (size_t s = 0; s < key->shape_count && cost < INFINITY; s++) {
        const double own = in[s] ? tune_own_time(key, s) : 0;
        if (own <= 0)
            continue;
        cost += is_timed(&times[s]) && times[s].us <= own ? log(times[s].us) : INFINITY;
    }
    return cost;
}

/* Sets *best to the index of the fastest candidate over the shapes that `in` marks. Returns the sum
 * of the natural logarithms of its times. If none gains enough, *best is candidate_count, and the
 * sum is the plain build's. */
static double find_best(const struct tune_key *key, const bool *in, size_t *best)
{
    size_t count;
    const double own = find_own_cost(key, in, &count);
    double least = own - WORTH * (double)count;
    *best = key->candidate_count;
    for (size_t c = 1; c < key->candidate_count; c++) {
        const bool takes_part = key->candidates[c].kernel && !key->candidates[c].dropped;
        const double cost = takes_part ? find_cost(key, c, in) : INFINITY;
        if (cost < least) {
            least = cost;
            *best = c;
        }
    }
    return *best == key->candidate_count ? own : least;
}

/* Divides the shapes of a leaf at the launch value `arg`. Sets low[s] if shape s has a value of at
 * most `last`, and high[s] if its value is larger or it has none. */
static void split(const struct tune_key *key, const struct leaf *l, const char *arg, int64_t last,
                  bool *low, bool *high)
{
    for (size_t s = 0; s < key->shape_count; s++) {
        const struct tune_launch_value *v = find_value(&key->shapes[s], arg);
        low[s] = l->in[s] && v && v->value <= last;
        high[s] = l->in[s] && !low[s];
    }
}

/* Returns how many kernels a cut of the leaf adds to the pack, if its two parts get the candidates
 * `a` and `b`. */
static size_t count_new(const struct tune_key *key, const struct leaf *l, size_t a, size_t b)
{
    const size_t own = key->candidate_count;
    const size_t now = (a != own) + (b != own && b != a), before = !is_own(key, l);
    return now > before ? now - before : 0;
}

/* Tries each cut of leaf `l` into launches with at most, and with more than, a value of the launch
 * argument `arg`. Replaces *best by the cut that saves most time, if that is more than *best saves.
 * Skips cuts that add more than `spare` kernels to the pack. `number` is the index of the leaf;
 * `room` is scratch memory, two flags for each shape. */
static void try_argument(const struct tune_key *key, const struct leaf *l, size_t number,
                         const char *arg, size_t spare, bool *room, struct cut *best)
{
    bool *low = room, *high = room + key->shape_count;
    for (size_t s = 0; s < key->shape_count; s++) {
        const struct tune_launch_value *v = l->in[s] ? find_value(&key->shapes[s], arg) : NULL;
        int64_t next = INT64_MAX;
        for (size_t o = 0; v && o < key->shape_count; o++) {
            const struct tune_launch_value *w = l->in[o] ? find_value(&key->shapes[o], arg) : NULL;
            if (w && w->value > v->value && w->value < next)
                next = w->value;
        }
        if (!v || next == INT64_MAX)
            continue;
        const int64_t last = (int64_t)sqrt((double)v->value * (double)(next - 1));
        size_t a, b;
        split(key, l, arg, last, low, high);
        const double gain = l->cost - find_best(key, low, &a) - find_best(key, high, &b);
        if (gain > WORTH * (double)l->shapes && count_new(key, l, a, b) <= spare &&
            (!best->arg || gain > best->gain + 1e-9))
            *best = (struct cut){number, arg, last, gain};
    }
}

/* Returns the number of shapes that `in` marks. */
static size_t count_shapes(const struct tune_key *key, const bool *in)
{
    size_t count = 0;
    for (size_t s = 0; s < key->shape_count; s++)
        count += in[s];
    return count;
}

/* Limits a box to values of `arg` from `min` to `max`. Returns false if the box has no room for
 * another value. */
static bool narrow(struct att_box *box, const char *arg, int64_t min, int64_t max)
{
    unsigned i = 0;
    while (i < box->count && strcmp(box->rows[i].arg, arg))
        i++;
    if (i == ATT_WHEN_MAX)
        return false;
    if (i == box->count)
        box->rows[box->count++] = (struct att_when){arg, 0, INT_MAX};
    struct att_when *row = &box->rows[i];
    row->min = row->min > min ? row->min : min;
    row->max = row->max < max ? row->max : max;
    return true;
}

/* Sets a leaf's candidate, its number of shapes, and the sums of the logarithms of times with that
 * candidate and with the plain build's kernels. */
static void settle(const struct tune_key *key, struct leaf *l)
{
    size_t count;
    l->shapes = count_shapes(key, l->in);
    l->own_cost = find_own_cost(key, l->in, &count);
    l->cost = find_best(key, l->in, &l->candidate);
}

/* Carries out a cut: the upper part becomes a new leaf, the lower part stays in the old one.
 * Returns false if memory is exhausted or a box is full. */
static bool carry_out(const struct tune_key *key, struct leaf *leaves, size_t *count,
                      const struct cut *cut)
{
    struct leaf *l = &leaves[cut->leaf], *upper = &leaves[*count];
    bool *low = calloc(2 * key->shape_count, sizeof(*low));
    if (!low)
        return false;
    *upper = (struct leaf){.box = l->box, .in = calloc(key->shape_count, sizeof(bool))};
    const bool good = upper->in && narrow(&upper->box, cut->arg, cut->last + 1, INT_MAX) &&
                      narrow(&l->box, cut->arg, 0, cut->last);
    (*count)++;
    if (good) {
        split(key, l, cut->arg, cut->last, low, upper->in);
        memcpy(l->in, low, key->shape_count * sizeof(*low));
        settle(key, l);
        settle(key, upper);
    }
    free(low);
    return good;
}

/* Returns the number of different candidates that the `count` leaves use. */
static size_t count_kernels(const struct tune_key *key, const struct leaf *leaves, size_t count)
{
    size_t kernels = 0;
    for (size_t c = 0; c < key->candidate_count; c++) {
        bool used = false;
        for (size_t i = 0; i < count; i++)
            used = used || leaves[i].candidate == c;
        kernels += used;
    }
    return kernels;
}

/* Returns the cut that gains most with at most `most` kernels in total; its `arg` is NULL if none
 * is worth it. `room` is memory for two flags per shape. */
static struct cut find_cut(const struct tune_key *key, const struct leaf *leaves, size_t count,
                           size_t most, bool *room)
{
    struct cut best = {0};
    const size_t kernels = count_kernels(key, leaves, count);
    const size_t spare = most > kernels ? most - kernels : 0;
    for (size_t i = 0; i < count; i++) {
        for (unsigned v = 0; v < key->shapes[0].value_count; v++)
            try_argument(key, &leaves[i], i, key->shapes[0].values[v].arg, spare, room, &best);
    }
    return best;
}

/* Divides the calls of a key: starts with one leaf, and cuts until no cut is worth it. Returns
 * false if memory is exhausted. */
static bool grow(const struct tune_sweep *sweep, const struct tune_key *key, struct leaf *leaves,
                 size_t *count)
{
    bool *room = calloc(2 * key->shape_count + 1, sizeof(*room));
    bool good = room && (leaves[0].in = calloc(key->shape_count + 1, sizeof(bool)));
    *count = 1;
    for (size_t s = 0; good && s < key->shape_count; s++)
        leaves[0].in[s] = tune_own_time(key, s) > 0;
    if (good)
        settle(key, &leaves[0]);
    while (good && *count < MOST_LEAVES) {
        const struct cut cut = find_cut(key, leaves, *count, sweep->max_kernels, room);
        if (!cut.arg)
            break;
        good = carry_out(key, leaves, count, &cut);
    }
    free(room);
    return good;
}

/* Verifies the candidates of all leaves. Returns false if one is wrong or could not be verified;
 * that candidate is then dropped. */
static bool verify_leaves(struct tune_sweep *sweep, struct tune_key *key, const struct leaf *leaves,
                          size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        struct tune_candidate *c = &key->candidates[leaves[i].candidate];
        if (!is_own(key, &leaves[i]) && !c->dropped)
            good = tune_verify(sweep, key, c) == TUNE_RIGHT && good;
    }
    return good;
}

/* Limits a box to calls near the leaf's shapes: each launch value from the least divided by sqrt(2)
 * to the largest times sqrt(2). Returns false if the box is full. */
static bool close_in(const struct tune_key *key, const struct leaf *l, struct att_box *box)
{
    const double margin = sqrt(2);
    const struct tune_shape *const shapes = key->shapes;
    for (unsigned v = 0; v < shapes[0].value_count; v++) {
        const char *const arg = shapes[0].values[v].arg;
        double least = INFINITY, most = 0;
        for (size_t s = 0; s < key->shape_count; s++) {
            const struct tune_launch_value *const value =
                l->in[s] ? find_value(&shapes[s], arg) : NULL;
            least = value && (double)value->value < least ? (double)value->value : least;
            most = value && (double)value->value > most ? (double)value->value : most;
        }
        const double high = floor(most * margin);
        if (most <= 0)
            continue;
        if (!narrow(box, arg, (int64_t)ceil(least / margin),
                    high < INT_MAX ? (int64_t)high : INT_MAX))
            return false;
    }
    return true;
}

/* Adds a row with a candidate to the tuning, with a box for each leaf that has the candidate. A row
 * without a box takes all calls that no earlier row takes. Returns false if memory is exhausted. */
static bool write_candidate(const struct tune_key *key, const struct leaf *leaves, size_t count,
                            size_t candidate, struct attnc_tuning *out)
{
    struct attnc_tuned *row = NULL;
    for (size_t i = 0; i < count; i++) {
        struct att_box box = leaves[i].box;
        if (leaves[i].candidate != candidate)
            continue;
        row = row ? row : attnc_tuning_add(out, key->text, key->candidates[candidate].tile);
        if (!row || !close_in(key, &leaves[i], &box))
            return false;
        struct att_box *const added = box.count ? attnc_choice_add(&row->choice) : NULL;
        if (box.count && !added)
            return false;
        if (added)
            *added = box;
    }
    return true;
}

/* Adds the rows of a key to the tuning; the last one takes all remaining calls. Returns false if
 * memory is exhausted. */
static bool write_result(const struct tune_key *key, const struct leaf *leaves, size_t count,
                         struct attnc_tuning *out)
{
    bool all = false; /* true: a row without a box takes all calls */
    const size_t before = out->count;
    for (size_t c = 0; c < key->candidate_count; c++) {
        if (!write_candidate(key, leaves, count, c, out))
            return false;
    }
    for (size_t i = before; i < out->count; i++)
        all = all || !out->rows[i].choice.count;
    return all || attnc_tuning_add(out, key->text, ATTNC_AUTO);
}

/* Gives the calls of the leaf with the least gain back to the plain build's kernels. Returns false
 * if all leaves have these. */
static bool give_up_one(const struct tune_key *key, struct leaf *leaves, size_t count)
{
    size_t worst = count;
    for (size_t i = 0; i < count; i++) {
        if (!is_own(key, &leaves[i]) &&
            (worst == count ||
             leaves[i].own_cost - leaves[i].cost < leaves[worst].own_cost - leaves[worst].cost))
            worst = i;
    }
    if (worst == count)
        return false;
    leaves[worst].candidate = key->candidate_count;
    leaves[worst].cost = leaves[worst].own_cost;
    return true;
}

/* Adds the rows of a key to the tuning, and drops leaves while the pack format cannot hold all
 * their boxes. Returns false if memory is exhausted. */
static bool write_what_fits(const struct tune_key *key, struct leaf *leaves, size_t count,
                            struct attnc_tuning *out)
{
    for (bool more = true; more; more = give_up_one(key, leaves, count)) {
        struct attnc_description desc;
        attnc_tuning_remove(out, key->text);
        if (!write_result(key, leaves, count, out))
            return false;
        const bool fits = tune_describe(key, out, &desc);
        attnc_description_free(&desc);
        if (fits)
            return true;
    }
    return false;
}

bool tune_choose(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *out)
{
    bool good = true, right = false;
    while (good && !right) {
        struct leaf leaves[MOST_LEAVES] = {0};
        size_t count;
        good = grow(sweep, key, leaves, &count);
        right = good && verify_leaves(sweep, key, leaves, count);
        if (right)
            good = write_what_fits(key, leaves, count, out);
        for (size_t i = 0; i < MOST_LEAVES; i++)
            free(leaves[i].in);
    }
    return good;
}

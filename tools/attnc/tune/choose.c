/* SPDX-License-Identifier: Apache-2.0
 *
 * From times to kernels. The calls of a key are cut by launch values, at the geometric mean of the
 * two neighbouring shapes where a cut gains most. Each part gets its fastest candidate. A candidate
 * that is slower than the build's kernel on any shape of the part is left out. A candidate gets the
 * calls around its shapes; all others are left to the build.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/tune/tune.h"

enum { MOST_LEAVES = 12 };

static const double WORTH = 0.004; /* the least gain a shape, as a logarithm, for a cut */

struct leaf {
    struct att_box box;
    bool *in; /* by shape: true if the leaf has it */
    size_t shapes;
    size_t candidate; /* index; the count of candidates: the kernels that a build makes */
    double cost;      /* sum of the logarithms of its shapes' times */
    double own_cost;  /* the same with the kernels that a build makes */
};

/* True if no candidate runs the calls of leaf `l`: a build's usual kernels run them. */
static bool is_own(const struct tune_key *key, const struct leaf *l)
{
    return l->candidate == key->candidate_count;
}

struct cut {
    size_t leaf;
    const char *arg;
    int64_t last; /* largest value of the argument in the lower part */
    double gain;
};

/* Returns the launch argument of a shape called `arg`, or NULL. */
static const struct tune_launch_value *find_value(const struct tune_shape *s, const char *arg)
{
    for (unsigned i = 0; i < s->value_count; i++) {
        if (!strcmp(s->values[i].arg, arg))
            return &s->values[i];
    }
    return NULL;
}

/* True if a time was measured without fault. */
static bool is_timed(const struct tune_value *v) { return v->runs && !v->fault[0] && v->us > 0; }

/* Returns the cost of a build's kernels on the shapes of `in`; sets *count to the number of these
 * with a time. */
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

/* Returns the sum of a candidate's log times over the shapes of `in`; INFINITY if one of them has
 * no time or is slower than a plain build's kernel. */
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

/* Sets *best to the candidate with the least cost over the shapes of `in`, and returns that cost.
 * If none gains enough, *best is the number of candidates and the result the cost of the plain
 * build. */
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

/* Divides the shapes of a leaf by argument `arg`. Sets low[s] if shape s has a value of at most
 * `last`, and high[s] if it has a larger one or none. */
static void split(const struct tune_key *key, const struct leaf *l, const char *arg, int64_t last,
                  bool *low, bool *high)
{
    for (size_t s = 0; s < key->shape_count; s++) {
        const struct tune_launch_value *v = find_value(&key->shapes[s], arg);
        low[s] = l->in[s] && v && v->value <= last;
        high[s] = l->in[s] && !low[s];
    }
}

/* Returns the number of kernels that splitting leaf `l` adds to the pack, when its two parts take
 * candidates `a` and `b`. */
static size_t count_new(const struct tune_key *key, const struct leaf *l, size_t a, size_t b)
{
    const size_t own = key->candidate_count;
    const size_t now = (a != own) + (b != own && b != a), before = !is_own(key, l);
    return now > before ? now - before : 0;
}

/* Splits leaf `l` at each threshold on argument `arg` that lies between two values of its shapes.
 * Stores the split with the largest gain in `best`, among those that add at most `spare` kernels to
 * the pack. */
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

/* Narrows a box's range of one argument. */
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

/* Sets the best candidate of a leaf and the costs with it and with the op's own tiles. */
static void settle(const struct tune_key *key, struct leaf *l)
{
    size_t count;
    l->shapes = count_shapes(key, l->in);
    l->own_cost = find_own_cost(key, l->in, &count);
    l->cost = find_best(key, l->in, &l->candidate);
}

/* Carries out a cut: the upper part is a new leaf. */
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

/* Returns the number of different candidates that the leaves use. */
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

/* Returns the cut of a leaf that saves most, with at most `most` kernels in total. */
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

/* Cuts leaves at the best threshold until no cut gains enough. */
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

/* Verifies the kernels of all leaves. Returns false if one was wrong or could not be verified; its
 * candidate is then dropped. */
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

/* Narrows a box to the calls around a leaf's shapes: half an octave beyond the least and the most
 * of each value. */
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

/* Adds a candidate's row to the tuning file, with one box of argument ranges for each decision-tree
 * leaf that chose it. A row without a box takes all calls that no earlier row takes. Returns false
 * if memory is exhausted. */
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

/* Writes the key's rows; the last one is for all other calls. */
static bool write_result(const struct tune_key *key, const struct leaf *leaves, size_t count,
                         struct attnc_tuning *out)
{
    bool all = false; /* a row takes all calls */
    const size_t before = out->count;
    for (size_t c = 0; c < key->candidate_count; c++) {
        if (!write_candidate(key, leaves, count, c, out))
            return false;
    }
    for (size_t i = before; i < out->count; i++)
        all = all || !out->rows[i].choice.count;
    return all || attnc_tuning_add(out, key->text, ATTNC_AUTO);
}

/* Gives the calls of the leaf with the least gain back to the kernels of a plain build. Returns
 * false if all leaves have these already. */
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

/* Writes as many of the leaves as a pack has room for. */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * From times to kernels: the calls of a key are cut by launch values, at the geometric mean of two
 * neighbouring shapes, where that gains most, and each part has the candidate that is fastest on it
 * among those that are slower than the first on none of its shapes.
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
    bool *in; /* per shape */
    size_t shapes;
    size_t candidate;
    double cost; /* sum of the logarithms of its shapes' times */
};

struct cut {
    size_t leaf;
    const char *arg;
    int64_t last; /* of the lower part */
    double gain;
};

static const struct tune_launch_value *find_value(const struct tune_shape *s, const char *arg)
{
    for (unsigned i = 0; i < s->value_count; i++) {
        if (!strcmp(s->values[i].arg, arg))
            return &s->values[i];
    }
    return NULL;
}

const struct tune_value *tune_times(const struct tune_key *key, size_t candidate)
{
    const struct tune_candidate *c = &key->candidates[candidate];
    return key->on_gpu ? c->measured : c->times;
}

static bool is_timed(const struct tune_value *v) { return v->runs && !v->fault[0] && v->us > 0; }

/* The best candidate for the shapes of `in`, and what they cost then. */
static double find_best(const struct tune_key *key, const bool *in, size_t *best)
{
    double least = INFINITY;
    *best = 0;
    for (size_t c = 0; c < key->candidate_count; c++) {
        const struct tune_candidate *const k = &key->candidates[c];
        const struct tune_value *const times = tune_times(key, c);
        double cost = 0;
        for (size_t s = 0; s < key->shape_count && cost < INFINITY; s++) {
            const struct tune_value *first = &tune_times(key, 0)[s];
            if (!in[s] || !is_timed(first))
                continue;
            const bool good = is_timed(&times[s]) && times[s].us <= first->us;
            cost += good ? log(times[s].us) : INFINITY;
        }
        if ((!k->dropped || c == 0) && cost < least) {
            least = cost;
            *best = c;
        }
    }
    return least;
}

static void split(const struct tune_key *key, const struct leaf *l, const char *arg, int64_t last,
                  bool *low, bool *high)
{
    for (size_t s = 0; s < key->shape_count; s++) {
        const struct tune_launch_value *v = find_value(&key->shapes[s], arg);
        low[s] = l->in[s] && v && v->value <= last;
        high[s] = l->in[s] && !low[s];
    }
}

/* Tries to cut a leaf behind each value of one argument that its shapes have. */
static void try_argument(const struct tune_key *key, const struct leaf *l, size_t number,
                         const char *arg, bool *room, struct cut *best)
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
        if (gain > WORTH * (double)l->shapes && (!best->arg || gain > best->gain + 1e-9))
            *best = (struct cut){number, arg, last, gain};
    }
}

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

static void settle(const struct tune_key *key, struct leaf *l)
{
    l->shapes = count_shapes(key, l->in);
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

static struct cut find_cut(const struct tune_key *key, const struct leaf *leaves, size_t count,
                           bool *room)
{
    struct cut best = {0};
    for (size_t i = 0; i < count; i++) {
        for (unsigned v = 0; v < (key->shape_count ? key->shapes[0].value_count : 0); v++)
            try_argument(key, &leaves[i], i, key->shapes[0].values[v].arg, room, &best);
    }
    return best;
}

/* Cuts while it is worth it. */
static bool grow(const struct tune_sweep *sweep, const struct tune_key *key, struct leaf *leaves,
                 size_t *count)
{
    bool *room = calloc(2 * key->shape_count + 1, sizeof(*room));
    bool good = room && (leaves[0].in = calloc(key->shape_count + 1, sizeof(bool)));
    *count = 1;
    for (size_t s = 0; good && s < key->shape_count; s++)
        leaves[0].in[s] = true;
    if (good)
        settle(key, &leaves[0]);
    while (good && *count < MOST_LEAVES &&
           count_kernels(key, leaves, *count) < sweep->max_kernels) {
        const struct cut cut = find_cut(key, leaves, *count, room);
        if (!cut.arg)
            break;
        good = carry_out(key, leaves, count, &cut);
    }
    free(room);
    return good;
}

/* Verifies the kernels of all leaves. False where one was wrong, which is then out of the race. */
static bool verify_leaves(struct tune_sweep *sweep, struct tune_key *key, const struct leaf *leaves,
                          size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        struct tune_candidate *c = &key->candidates[leaves[i].candidate];
        if (!c->dropped)
            good = tune_verify(sweep, key, c) && good;
    }
    return good;
}

/* The candidate that most shapes take: calls that no box names are its. */
static size_t find_rest(const struct tune_key *key, const struct leaf *leaves, size_t count)
{
    size_t rest = leaves[0].candidate, most = 0;
    for (size_t c = 0; c < key->candidate_count; c++) {
        size_t shapes = 0;
        for (size_t i = 0; i < count; i++)
            shapes += leaves[i].candidate == c ? leaves[i].shapes : 0;
        if (shapes > most) {
            most = shapes;
            rest = c;
        }
    }
    return rest;
}

static bool write_result(const struct tune_key *key, const struct leaf *leaves, size_t count,
                         struct attnc_tuning *out)
{
    const size_t rest = find_rest(key, leaves, count);
    for (size_t c = 0; c < key->candidate_count; c++) {
        struct attnc_tuned *row = NULL;
        for (size_t i = 0; i < count; i++) {
            if (leaves[i].candidate != c)
                continue;
            row = row ? row : attnc_tuning_add(out, key->text, key->candidates[c].tile);
            struct att_box *box = row && c != rest ? attnc_choice_add(&row->choice) : NULL;
            if (!row || (c != rest && !box))
                return false;
            if (box)
                *box = leaves[i].box;
        }
    }
    return true;
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
            good = write_result(key, leaves, count, out);
        for (size_t i = 0; i < MOST_LEAVES; i++)
            free(leaves[i].in);
    }
    return good;
}

static bool holds(const struct att_box *box, const struct tune_shape *s)
{
    for (unsigned i = 0; i < box->count; i++) {
        const struct tune_launch_value *v = find_value(s, box->rows[i].arg);
        if (!v || v->value < box->rows[i].min || v->value > box->rows[i].max)
            return false;
    }
    return true;
}

const struct attnc_tuned *tune_find_row(const struct tune_key *key, const struct attnc_tuning *t,
                                        const struct tune_shape *s)
{
    const struct attnc_tuned *rest = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct attnc_tuned *row = &t->rows[i];
        if (strcmp(row->key, key->text))
            continue;
        for (unsigned b = 0; b < row->choice.count; b++) {
            if (holds(&row->choice.boxes[b], s))
                return row;
        }
        rest = row->choice.count ? rest : row;
    }
    return rest;
}

size_t tune_chosen_candidate(const struct tune_key *key, const struct attnc_tuning *t,
                             const struct tune_shape *s)
{
    const struct attnc_tuned *row = tune_find_row(key, t, s);
    size_t c = 0;
    while (c < key->candidate_count && (!row || strcmp(key->candidates[c].tile, row->tile)))
        c++;
    return c;
}

double tune_chosen_time(const struct tune_key *key, const struct attnc_tuning *t, size_t shape)
{
    const size_t c = tune_chosen_candidate(key, t, &key->shapes[shape]);
    return c < key->candidate_count ? tune_times(key, c)[shape].us : 0;
}

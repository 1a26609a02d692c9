/* SPDX-License-Identifier: Apache-2.0
 *
 * This file finds the kernel of a key that a shape gets: from a plain build, and under a tuning
 * file. libattn decides the same from the pack's rows; check.c and the timed launches test that
 * both agree.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/second.h"
#include "tools/attnc/tune/tune.h"

/* True if the shape's launch values are in all ranges of the box. */
static bool holds(const struct att_box *box, const struct tune_shape *s)
{
    for (unsigned i = 0; i < box->count; i++) {
        const struct att_when *const row = &box->rows[i];
        unsigned v = 0;
        while (v < s->value_count && strcmp(s->values[v].arg, row->arg))
            v++;
        if (v == s->value_count || s->values[v].value < row->min || s->values[v].value > row->max)
            return false;
    }
    return true;
}

bool tune_takes(const struct att_choice *choice, const struct tune_shape *s)
{
    for (unsigned i = 0; choice && i < choice->count; i++) {
        if (holds(&choice->boxes[i], s))
            return true;
    }
    return false;
}

size_t tune_own_candidate(const struct tune_key *key, const struct tune_shape *s)
{
    if (s->own)
        return s->own - 1;
    for (size_t c = 1; c < key->own_count; c++) {
        if (tune_takes(key->own.variants[c].choice, s))
            return c;
    }
    return 0;
}

const struct attnc_tuned *tune_find_row(const struct tune_key *key, const struct attnc_tuning *t,
                                        const struct tune_shape *s)
{
    const struct attnc_tuned *rest = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct attnc_tuned *row = &t->rows[i];
        if (strcmp(row->key, key->text))
            continue;
        if (tune_takes(&row->choice, s))
            return row;
        rest = row->choice.count ? rest : row;
    }
    return rest;
}

size_t tune_chosen_candidate(const struct tune_key *key, const struct attnc_tuning *t,
                             const struct tune_shape *s)
{
    const struct attnc_tuned *row = tune_find_row(key, t, s);
    if (!row || !strcmp(row->tile, ATTNC_AUTO))
        return tune_own_candidate(key, s);
    /* Candidate 0, the plain build's first kernel, is left out: a row names it by ATTNC_AUTO. */
    size_t c = 1;
    while (c < key->candidate_count && strcmp(key->candidates[c].tile, row->tile))
        c++;
    return c;
}

const struct tune_value *tune_times(const struct tune_key *key, size_t candidate)
{
    const struct tune_candidate *c = &key->candidates[candidate];
    return key->on_gpu ? c->measured : c->times;
}

/* Returns the microseconds of a candidate on a shape; 0 if they are unknown. */
static double time_of(const struct tune_key *key, size_t candidate, size_t shape)
{
    const struct tune_value *const times =
        candidate < key->candidate_count ? tune_times(key, candidate) : NULL;
    return times && times[shape].runs && !times[shape].fault[0] ? times[shape].us : 0;
}

double tune_chosen_time(const struct tune_key *key, const struct attnc_tuning *t, size_t shape)
{
    return time_of(key, tune_chosen_candidate(key, t, &key->shapes[shape]), shape);
}

double tune_own_time(const struct tune_key *key, size_t shape)
{
    return time_of(key, tune_own_candidate(key, &key->shapes[shape]), shape);
}

bool tune_describe(const struct tune_key *key, struct attnc_tuning *t,
                   struct attnc_description *out)
{
    struct attnc_diag d = {.file = "tuning"};
    *out = (struct attnc_description){.variants = malloc(sizeof(*out->variants)), .count = 1};
    if (!out->variants)
        return false;
    out->variants[0] = key->variant;
    const bool good = attnc_tuning_apply(t, out, &d) && attnc_add_seconds(out, &d);
    attnc_diag_clear(&d);
    return good;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file finds winners that depend on open parameters of the timing model: at one end of a
 * parameter's range another candidate is faster. Only a measurement on a GPU can decide these.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/tune/tune.h"

/* Most shapes of a trial. Rivals are the winner, the plain build's kernel and the best of the
 * others. */
enum { MOST_SHAPES = 4, RIVALS = 3 };

/* A winner of the sweep and its rivals, with some of the shapes that it won. */
struct trial {
    struct tune_key *key;
    struct attnc_tuned *row;
    /* Candidates; the first is the winner. */
    size_t rivals[RIVALS], rival_count;
    size_t shapes[MOST_SHAPES], shape_count;
};

/* Returns the sum of the logarithms of a candidate's modelled times over the trial's shapes;
 * INFINITY if one is missing. */
static double cost(const struct trial *t, size_t candidate)
{
    double sum = 0;
    for (size_t s = 0; s < t->shape_count; s++) {
        const struct tune_value *v = &t->key->candidates[candidate].times[t->shapes[s]];
        sum += v->runs && !v->fault[0] && v->us > 0 ? log(v->us) : INFINITY;
    }
    return sum;
}

/* Sets the rivals: the winner, the plain build's kernel and the fastest other candidate. */
static void find_rivals(struct trial *t, size_t winner)
{
    const size_t own = tune_own_candidate(t->key, &t->key->shapes[t->shapes[0]]);
    size_t best = winner;
    double least = INFINITY;
    for (size_t c = 0; c < t->key->candidate_count; c++) {
        const bool out = c == winner || t->key->candidates[c].dropped;
        const double sum = out || !t->key->candidates[c].kernel ? INFINITY : cost(t, c);
        if (sum < least) {
            least = sum;
            best = c;
        }
    }
    t->rival_count = 0;
    t->rivals[t->rival_count++] = winner;
    if (own != winner)
        t->rivals[t->rival_count++] = own;
    if (best != winner && best != own)
        t->rivals[t->rival_count++] = best;
}

/* Prepares the trial of a row of the tuning. Returns false if it has no shape or the winner has no
 * rival. */
static bool prepare(struct trial *t, struct tune_key *key, struct attnc_tuned *row,
                    const struct attnc_tuning *tuning)
{
    *t = (struct trial){.key = key, .row = row};
    size_t winner = key->candidate_count;
    for (size_t s = 0; s < key->shape_count && t->shape_count < MOST_SHAPES; s++) {
        const size_t chosen = tune_chosen_candidate(key, tuning, &key->shapes[s]);
        if (tune_find_row(key, tuning, &key->shapes[s]) != row ||
            (t->shape_count && chosen != winner))
            continue;
        winner = chosen;
        t->shapes[t->shape_count++] = s;
    }
    if (winner < key->candidate_count)
        find_rivals(t, winner);
    return t->shape_count && t->rival_count > 1;
}

/* True if with these parameters of the model no rival is faster than the winner. *good is false if
 * the database cannot be written. */
static bool holds(struct tune_sweep *sweep, const struct trial *t, const char *parameters,
                  bool *good)
{
    struct tune_value values[RIVALS][MOST_SHAPES] = {0};
    struct tune_item items[RIVALS * MOST_SHAPES];
    double sums[RIVALS] = {0};
    size_t count = 0;
    for (size_t r = 0; r < t->rival_count; r++) {
        for (size_t s = 0; s < t->shape_count; s++)
            items[count++] =
                (struct tune_item){t->key, t->rivals[r], t->shapes[s], parameters, &values[r][s]};
    }
    *good = tune_time_items(sweep, items, count);
    for (size_t r = 0; r < t->rival_count; r++) {
        for (size_t s = 0; s < t->shape_count; s++)
            sums[r] += values[r][s].us > 0 ? log(values[r][s].us) : 0;
    }
    for (size_t r = 1; r < t->rival_count; r++) {
        if (sums[r] < sums[0] - 1e-9)
            return false;
    }
    return true;
}

/* Appends a parameter's name to row->open, the parameters that decide whether the row wins. Returns
 * false if memory is exhausted. */
static bool add_name(struct attnc_tuned *row, const char *name)
{
    const size_t length = row->open ? strlen(row->open) : 0;
    char *grown = realloc(row->open, length + strlen(name) + 2);
    if (!grown)
        return false;
    sprintf(grown + length, "%s%s", length ? " " : "", name);
    row->open = grown;
    return true;
}

/* Sets each open parameter of the model to both ends of its range. If a rival wins there, adds the
 * parameter to row->open. Returns false on failure. */
static bool try_parameters(struct tune_sweep *sweep, const struct trial *t)
{
    bool good = true;
    const struct tgt_parameter *p = tgt_find(t->key->variant.target)->parameters;
    for (; good && p->name; p++) {
        bool held = true;
        const bool open = p->tag == TGT_TAG_U && p->low < p->high;
        for (int end = 0; end < 2 && good && held && open; end++) {
            char text[256];
            snprintf(text, sizeof(text), "%s%s%s=%g", sweep->parameters ? sweep->parameters : "",
                     sweep->parameters ? "," : "", p->name, end ? p->high : p->low);
            held = holds(sweep, t, text, &good);
        }
        if (good && !held)
            good = add_name(t->row, p->name);
    }
    return good;
}

bool tune_find_open(struct tune_sweep *sweep, struct attnc_tuning *tuning)
{
    bool good = true;
    for (size_t i = 0; i < tuning->count && good; i++) {
        struct trial t;
        struct tune_key *key = sweep->keys;
        while (strcmp(key->text, tuning->rows[i].key))
            key++;
        if (prepare(&t, key, &tuning->rows[i], tuning))
            good = try_parameters(sweep, &t);
    }
    return good;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file runs a sweep: each key is compiled, timed, chosen for, verified, checked and written
 * before the next. Keys with few launches come first, so that a budget reaches as many keys as it
 * can. Each key gets an equal share of the time that is left. Keys whose share was too short get
 * another one while there is time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/tune/tune.h"

/* Seconds on one processor to compile a tile and to model a launch, roughly, for the estimate. From
 * the sweep of docs/tuning.md. */
static const double COMPILE_SECONDS = 0.1, LAUNCH_SECONDS = 0.2;

/* Part of a key's time in which launches are timed; the rest is for verification. */
static const double SEARCH_PART = 0.8;

/* True if the key has shapes and not all of its launches are timed. */
static bool is_open(const struct tune_key *key) { return key->shape_count && !key->whole; }

/* Returns the number of the sweep's dispatch keys with launches that are not timed. */
static size_t count_open(const struct tune_sweep *sweep)
{
    size_t count = 0;
    for (size_t k = 0; k < sweep->key_count; k++)
        count += is_open(&sweep->keys[k]);
    return count;
}

size_t tune_count_left(const struct tune_sweep *sweep)
{
    size_t left = sweep->skipped;
    for (size_t k = 0; k < sweep->key_count; k++) {
        const struct tune_key *const key = &sweep->keys[k];
        const bool reached = key->begun || key->left || key->whole;
        left += reached ? key->left : key->candidate_count * key->shape_count;
    }
    return left;
}

/* Returns an estimate of the seconds that the end of a sweep takes: to compile the plain build's
 * kernels of keys that were not reached, and to write the pack. At most a fifth of the budget. */
static double reserve(const struct tune_sweep *sweep)
{
    double seconds = 1;
    for (size_t k = 0; k < sweep->key_count; k++) {
        if (!sweep->keys[k].candidates[0].tried)
            seconds += COMPILE_SECONDS * (double)sweep->keys[k].own_count;
    }
    const double most = (sweep->deadline - sweep->started) / 5;
    return seconds < most ? seconds : most;
}

/* Returns the time of steady_seconds() at which the share of a key ends, if `keys` keys share what
 * is left of the budget; 0: no budget. */
static double end_of_share(const struct tune_sweep *sweep, size_t keys)
{
    const double now = steady_seconds();
    const double left = sweep->deadline - reserve(sweep) - now;
    if (sweep->deadline <= 0)
        return 0;
    return now + (left > 0 ? SEARCH_PART * left / (double)keys : 0);
}

/* Sorts the rows of a tuning in the order of the sweep's keys. Returns false if memory is
 * exhausted. */
static bool sort_rows(const struct tune_sweep *sweep, struct attnc_tuning *tuning)
{
    struct attnc_tuned *const rows = malloc((tuning->count + 1) * sizeof(*rows));
    size_t count = 0;
    for (size_t k = 0; rows && k < sweep->key_count; k++) {
        for (size_t i = 0; i < tuning->count; i++) {
            if (!strcmp(tuning->rows[i].key, sweep->keys[k].text))
                rows[count++] = tuning->rows[i];
        }
    }
    if (!rows)
        return false;
    memcpy(tuning->rows, rows, count * sizeof(*rows));
    free(rows);
    return true;
}

/* Chooses, verifies and checks the kernels of a key, then calls `write` with `context`. Does
 * nothing in a share of --shard. Returns an exit_code after a message. */
static int finish_key(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *tuning,
                      tune_write_fn *write, void *context)
{
    if (!key->begun || sweep->shard.count > 1)
        return EXIT_GOOD;
    if (!tune_choose(sweep, key, tuning) || !sort_rows(sweep, tuning))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (!tune_check(sweep, key, tuning))
        return complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    return write(context);
}

/* Times the candidates of a key until `until`, a time of steady_seconds(), and finishes the key.
 * Returns an exit_code after a message. */
static int sweep_key(struct tune_sweep *sweep, struct tune_key *key, double until,
                     struct attnc_tuning *tuning, tune_write_fn *write, void *context)
{
    if (!tune_measure(sweep, key, until))
        return complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (sweep->gpu_races && !tune_measure_gpu(sweep, key))
        return complain(EXIT_ENVIRONMENT, "the race has stopped");
    return finish_key(sweep, key, tuning, write, context);
}

/* Compares two pointers to keys by target, then by number of launches, for qsort(). */
static int by_work(const void *a, const void *b)
{
    const struct tune_key *const *const x = a, *const *const y = b;
    const int target = strcmp((*x)->variant.target, (*y)->variant.target);
    const size_t m = (*x)->candidate_count * (*x)->shape_count;
    const size_t n = (*y)->candidate_count * (*y)->shape_count;
    if (target || m != n)
        return target ? target : m < n ? -1 : 1;
    return *x < *y ? -1 : 1;
}

/* Sweeps each key in `order` that still has launches to time. Returns an exit_code after a
 * message. */
static int pass(struct tune_sweep *sweep, struct tune_key **order, struct attnc_tuning *tuning,
                tune_write_fn *write, void *context)
{
    int code = EXIT_GOOD;
    size_t open = count_open(sweep);
    for (size_t k = 0; k < sweep->key_count && code == EXIT_GOOD; k++) {
        if (!is_open(order[k]) || tune_is_late(sweep))
            continue;
        sweep->place = k + 1;
        code = sweep_key(sweep, order[k], end_of_share(sweep, open--), tuning, write, context);
    }
    return code;
}

int tune_run(struct tune_sweep *sweep, struct attnc_tuning *tuning, tune_write_fn *write,
             void *context)
{
    struct tune_key **const order = calloc(sweep->key_count, sizeof(struct tune_key *));
    int code = EXIT_GOOD;
    if (!order)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t k = 0; k < sweep->key_count; k++)
        order[k] = &sweep->keys[k];
    qsort(order, sweep->key_count, sizeof(struct tune_key *), by_work);
    while (code == EXIT_GOOD && count_open(sweep) && !tune_is_late(sweep))
        code = pass(sweep, order, tuning, write, context);
    free(order);
    return code;
}

/* Writes a duration with its unit, hours, minutes or seconds, to `text`. */
static void write_time(double seconds, char text[32])
{
    if (seconds < 120)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600);
}

void tune_print_estimate(const struct tune_sweep *sweep)
{
    size_t keys = 0, tiles = 0, launches = 0;
    char time[32], budget[64] = "";
    for (size_t k = 0; k < sweep->key_count; k++) {
        const struct tune_key *const key = &sweep->keys[k];
        keys += key->shape_count > 0;
        tiles += key->shape_count ? key->candidate_count : 0;
        launches += key->candidate_count * key->shape_count;
    }
    const double seconds = (COMPILE_SECONDS * (double)tiles + LAUNCH_SECONDS * (double)launches) /
                           (double)sweep->jobs / sweep->shard.count;
    write_time(seconds, time);
    if (sweep->deadline > 0)
        snprintf(budget, sizeof(budget), "; the budget is %.0f s",
                 sweep->deadline - sweep->started);
    fprintf(
        stderr,
        "attnc: tune: %zu keys, %zu tiles, at most %zu launches: about %s on %u processor%s%s\n",
        keys, tiles, launches, time, sweep->jobs, sweep->jobs == 1 ? "" : "s", budget);
    if (keys < sweep->key_count)
        fprintf(stderr, "attnc: tune: %zu keys have no shape and are left to the build\n",
                sweep->key_count - keys);
}

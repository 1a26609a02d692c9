/* SPDX-License-Identifier: Apache-2.0 */
#include "time_work.h"

#include <math.h>
#include <stdlib.h>

#define MANY (UINT64_C(1) << 24)
#define SAMPLES_MAX 64

/* Instruction counts of a launch's workgroups, and samples of their clocks. */
struct time_work {
    uint64_t workgroups;
    uint32_t *executed; /* number of instructions by workgroup; 0: the workgroup has not run */
    uint8_t *idle;      /* by workgroup; true: the workgroup has stored nothing */
    unsigned nsamples;
    struct {
        double instructions, clocks;
        /* Number of timed workgroups that the sample averages. */
        unsigned count;
    } samples[SAMPLES_MAX]; /* samples in ascending order of instructions */
};

struct time_work *time_work_create(uint64_t workgroups)
{
    struct time_work *w = workgroups <= MANY ? calloc(1, sizeof(*w)) : NULL;
    if (!w)
        return NULL;
    w->workgroups = workgroups;
    w->executed = calloc(workgroups, sizeof(*w->executed));
    w->idle = calloc(workgroups, sizeof(*w->idle));
    if (w->executed && w->idle)
        return w;
    time_work_destroy(w);
    return NULL;
}

void time_work_destroy(struct time_work *w)
{
    if (!w)
        return;
    free(w->executed);
    free(w->idle);
    free(w);
}

void time_work_note(struct time_work *w, uint64_t index, uint64_t instructions, bool idle)
{
    w->idle[index] = idle;
    w->executed[index] = instructions > UINT32_MAX ? UINT32_MAX : (uint32_t)instructions;
}

bool time_group_idle(const struct workgroup *wg)
{
    for (uint32_t i = 0; i < wg->nwaves; i++)
        if (wg->waves[i]->acted)
            return false;
    return true;
}

/* Records the instruction count of a workgroup that has ended. */
static void ended(void *ctx, struct workgroup *wg)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        sum += wg->waves[i]->executed;
    time_work_note(ctx, wg->index, sum, time_group_idle(wg));
}

struct observer time_work_observer(struct time_work *w)
{
    return (struct observer){.ctx = w, .workgroup_end = ended};
}

/* Returns `index` if that workgroup has run, otherwise its nearest neighbour that has.
 * w->workgroups if none has. */
static uint64_t nearest_run(const struct time_work *w, uint64_t index)
{
    for (uint64_t away = 0; away < w->workgroups; away++) {
        if (index >= away && w->executed[index - away])
            return index - away;
        if (index + away < w->workgroups && w->executed[index + away])
            return index + away;
    }
    return w->workgroups;
}

double time_work_of(const struct time_work *w, uint64_t index)
{
    index = nearest_run(w, index);
    return index < w->workgroups ? w->executed[index] : 0;
}

bool time_work_idle(const struct time_work *w, uint64_t index)
{
    index = nearest_run(w, index);
    return index < w->workgroups && w->idle[index];
}

double time_work_total(const struct time_work *w)
{
    double sum = 0;
    for (uint64_t i = 0; i < w->workgroups; i++)
        sum += w->executed[i];
    return sum;
}

void time_work_sample(struct time_work *w, double instructions, double clocks)
{
    unsigned at = 0;
    while (at < w->nsamples && w->samples[at].instructions < instructions)
        at++;
    if (at < w->nsamples && w->samples[at].instructions == instructions) {
        const double n = w->samples[at].count++;
        w->samples[at].clocks = (w->samples[at].clocks * n + clocks) / (n + 1);
        return;
    }
    if (w->nsamples == SAMPLES_MAX)
        return;
    for (unsigned i = w->nsamples++; i > at; i--)
        w->samples[i] = w->samples[i - 1];
    w->samples[at].instructions = instructions;
    w->samples[at].clocks = clocks;
    w->samples[at].count = 1;
}

double time_work_distance(const struct time_work *w, double instructions)
{
    double least = INFINITY;
    for (unsigned i = 0; i < w->nsamples; i++) {
        const double factor = instructions / w->samples[i].instructions;
        least = fmin(least, factor < 1 ? 1 / factor : factor);
    }
    return least;
}

double time_work_clocks(const struct time_work *w, uint64_t index)
{
    const double x = time_work_of(w, index);
    unsigned i = 0;
    while (i < w->nsamples && w->samples[i].instructions < x)
        i++;
    if (i == 0)
        return w->samples[0].clocks * x / w->samples[0].instructions;
    if (i == w->nsamples)
        return w->samples[i - 1].clocks * x / w->samples[i - 1].instructions;
    const double x0 = w->samples[i - 1].instructions, y0 = w->samples[i - 1].clocks;
    return y0 + (w->samples[i].clocks - y0) * (x - x0) / (w->samples[i].instructions - x0);
}

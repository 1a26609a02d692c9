/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a timed launch:
 * 1. Neighbours on an XCD run untimed, to measure which lines they share.
 * 2. The first workgroup runs timed, on a compute unit that is as full as in the launch.
 * 3. All workgroups but a few candidates run untimed.
 * 4. Candidates whose instruction counts are least like any sample run timed.
 * 5. The dispatch model combines the durations.
 *
 * The duration of a workgroup is interpolated linearly between samples by its instruction count. If
 * only samples run, it is interpolated by position between the first, middle and last workgroup of
 * every dimension of the grid.
 *
 * If workgroups depend on each other, or the grid is small, all of them run timed.
 */
#include "time_launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "code_object.h"
#include "decode.h"
#include "gfx_part.h"
#include "time_device.h"
#include "time_dispatch.h"
#include "time_sharing.h"
#include "time_whole.h"
#include "time_work.h"

#define DIMENSIONS TIME_DIMENSIONS
#define MAX_RUN 1024 /* most workgroups in samples and probes */
#define SAMPLES_DEFAULT 8
#define PROBES 8
#define MAX_RESIDENT 64
#define MAX_CANDIDATES 24
/* Factor between amounts of work up to which a workgroup needs no sample of its own. */
#define ALIKE 1.02
/* Bandwidth part of a workgroup's time from which the launch counts as memory bound. */
#define BOUND 0.5
#define MORE 2 /* factor on a sample's share of bandwidth, to find the bandwidth part of its time */

/* Workgroups that run after the others, so that they can be timed together if needed. */
struct candidate {
    uint64_t index[MAX_RESIDENT];
    unsigned n;
    bool done;
};

struct timed {
    struct launch *launch;
    const struct time_config *config;
    struct time_code *code;
    struct time_occupancy occupancy;
    struct time_share share;
    struct hipsim_time_report *report;
    uint64_t groups[DIMENSIONS], total;
    uint32_t resident;     /* workgroups that a compute unit holds at once */
    bool warm;             /* true: the code is in the instruction cache */
    uint64_t run[MAX_RUN]; /* indices of the workgroups that have run, ascending */
    unsigned nrun;
    struct time_figures latest; /* figures of a workgroup of the latest sample */
    struct time_whole whole;    /* samples by position in the grid */
    double bandwidth;           /* part of a workgroup's time that depends on bandwidth */
    unsigned samples;
    struct time_cu_result sum;
    /* workgroups, instructions and bytes (loaded and stored) of the samples */
    double groups_timed, work_timed, moved_timed;
    struct time_work *work; /* instruction counts; NULL: not counted */
    struct time_busy busy;
    struct time_trace *trace; /* trace file; NULL: not requested, or not open yet */
    struct counters counters;
};

static bool has_run(const struct timed *t, uint64_t index)
{
    for (unsigned i = 0; i < t->nrun; i++)
        if (t->run[i] == index)
            return true;
    return false;
}

static void note_run(struct timed *t, uint64_t index)
{
    unsigned at = t->nrun++;
    for (; at > 0 && t->run[at - 1] > index; at--)
        t->run[at] = t->run[at - 1];
    t->run[at] = index;
}

/* Runs the `count` workgroups from number `first` on untimed. False after a fault. */
static bool run_untimed(struct timed *t, uint64_t first, uint64_t count,
                        const struct observer *observer)
{
    struct launch *l = t->launch;
    const struct observer *before = l->observer;
    uint64_t first_before = l->first_workgroup, count_before = l->count_workgroup;
    l->first_workgroup = first;
    l->count_workgroup = count;
    if (observer)
        l->observer = observer;
    bool ok = engine_run(l) == 0;
    l->observer = before;
    l->first_workgroup = first_before;
    l->count_workgroup = count_before;
    counters_add(&t->counters, &l->counters);
    if (t->work && count == 1)
        time_work_note(t->work, first, l->counters.instructions, l->counters.store_bytes == 0);
    return ok;
}

/* Sets of the lines that neighbouring workgroups load, one for each. */
struct probes {
    struct time_lines *lines[PROBES + 1];
    unsigned n;
};

/* Runs workgroup `index` untimed and appends the set of lines that it loads to *p. False after a
 * fault. */
static bool probe(struct timed *t, uint64_t index, struct probes *p)
{
    struct time_lines *const lines = time_lines_create();
    if (!lines)
        return false;
    const struct observer see = time_lines_observer(lines);
    p->lines[p->n++] = lines;
    note_run(t, index);
    t->launch->tensor = time_lines_tensor(lines);
    const bool ok = run_untimed(t, index, 1, &see);
    t->launch->tensor = NULL;
    return ok;
}

static void free_probes(struct probes *p)
{
    for (unsigned i = 0; i < p->n; i++)
        time_lines_destroy(p->lines[i]);
}

/* Computes the exponent with which the loaded lines grow with the number of workgroups, and the
 * average bytes per workgroup. False without memory. */
static bool measure_growth(const struct probes *p, double *growth, double *average)
{
    struct time_lines *const all = time_lines_create();
    double sum = 0;
    if (!all)
        return false;
    for (unsigned i = 0; i < p->n; i++) {
        sum += time_lines_bytes(p->lines[i]);
        time_lines_merge(all, p->lines[i]);
    }
    *growth = time_lines_growth(time_lines_bytes(all), sum, p->n);
    *average = sum / p->n;
    time_lines_destroy(all);
    return true;
}

/*
 * Sets t->share.sharers to the number of workgroups on an XCD that share lines, measured from
 * workgroup `one` on. Workgroups i, i + xcds, i + 2 xcds ... run on the same XCD at the same time.
 * If n workgroups load n^b times the lines of one, n^(1 - b) of them share a line.
 *
 * An exception: the device holds the whole grid, and workgroups share in groups. No other workgroup
 * then loads a group's lines, and one more probe gives the size of the groups.
 */
static bool probe_xcd(struct timed *t, uint64_t one, double *average)
{
    const struct time_params *const p = &t->config->params;
    const uint64_t step = (uint64_t)p->xcds;
    const double held = p->cus * t->resident, total = (double)t->total;
    const double n = fmax(1, fmin(total, held) / p->xcds);
    struct probes near = {.n = 0};
    double growth;
    bool ok = true;
    uint64_t next = one;
    for (; ok && next < t->total && near.n < PROBES; next += step)
        ok = probe(t, next, &near);
    if (ok && (ok = measure_growth(&near, &growth, average)))
        t->share.sharers = pow(n, 1 - growth);
    const bool alone = near.n == PROBES && next < t->total && total <= held;
    if (ok && alone && time_lines_in_groups(near.lines, PROBES)) {
        ok = probe(t, next, &near);
        if (ok)
            t->share.sharers = fmin(n, time_lines_group(near.lines, near.n));
    }
    free_probes(&near);
    return ok;
}

/* Sets t->share.first to the part of the lines that other L2s do not load, measured on neighbours
 * of workgroup `one` on other XCDs. XCDs that have one L2 add to its sharers. */
static bool probe_device(struct timed *t, uint64_t one)
{
    const struct time_params *const p = &t->config->params;
    struct probes far = {.n = 0};
    double growth, average;
    bool ok = true;
    for (uint64_t i = one + 1; ok && i < one + (uint64_t)p->xcds && i < t->total; i++)
        if (far.n < PROBES / 2)
            ok = probe(t, i, &far);
    if (ok && (ok = measure_growth(&far, &growth, &average))) {
        t->share.first = pow(time_l2s(p), growth - 1);
        t->share.sharers *= pow(p->xcds / time_l2s(p), 1 - growth);
    }
    free_probes(&far);
    return ok;
}

static bool probe_at(struct timed *t, uint64_t one)
{
    double average;
    if (!probe_xcd(t, one, &average) || !probe_device(t, one))
        return false;
    if (average > 0)
        t->share.footprint = average * (double)t->total / t->share.sharers;
    else
        t->share.sharers = t->share.first = 1;
    return true;
}

/* Probes several positions of the grid until one loads something. False after a fault. */
static bool probe_sharing(struct timed *t)
{
    const struct time_params *p = &t->config->params;
    /* Workgroups, not compute units, divide the memory bandwidth: a full compute unit gets more if
     * others are not full. */
    const double active = fmin((double)t->total / t->resident, p->cus);
    t->share = (struct time_share){.cus_active = active, .sharers = 1, .first = 1};
    const uint64_t few = 2 * PROBES * (uint64_t)p->xcds;
    if (t->total < 2 * (uint64_t)p->xcds)
        return true;
    for (uint64_t part = 2; part <= 8 && t->share.footprint == 0; part *= 2)
        if (!probe_at(t, t->total / part) || t->total < few)
            return t->launch->fault.kind == FAULT_NONE;
    return true;
}

/* Lists workgroups that have not run and would share a compute unit with workgroup `index`, and
 * records them as run. Returns their number. */
static unsigned companions(struct timed *t, uint64_t index, uint64_t *list)
{
    uint64_t step =
        t->total > (uint64_t)t->config->params.cus ? (uint64_t)t->config->params.cus : 1;
    unsigned n = 0;
    for (uint64_t tried = 0; n < t->resident && tried < t->total && t->nrun < MAX_RUN; tried++) {
        if (!has_run(t, index)) {
            note_run(t, index);
            list[n++] = index;
            index = (index + step) % t->total;
        } else {
            index = (index + 1) % t->total;
        }
    }
    return n;
}

/* Returns the largest instruction count of the candidate's workgroups. The counts of those that
 * have not run are estimated from neighbours. */
static double candidate_work(const struct timed *t, const struct candidate *c)
{
    double most = 0;
    for (unsigned i = 0; i < c->n; i++)
        most = fmax(most, time_work_of(t->work, c->index[i]));
    return most;
}

/* Creates the trace file if one is requested, and sets *sink to it. False if that fails. */
static bool open_trace(struct timed *t, struct time_sink *sink)
{
    if (!t->config->trace_path)
        return true;
    t->trace = time_trace_open(t->config->trace_path, t->launch->kernel, t->code);
    if (t->trace)
        *sink = time_trace_sink(t->trace);
    return t->trace != NULL;
}

static double moved(const struct counters *c) { return (double)(c->load_bytes + c->store_bytes); }

/* Times the candidate's workgroups together on a compute unit with the share `share` of memory.
 * False after a fault. */
static bool run_candidate(struct timed *t, struct candidate *c, const struct time_share *share,
                          const struct time_sink *sink, struct time_cu_result *result)
{
    static const struct observer nothing = {0};
    const struct observer *before = t->launch->observer;
    const struct observer see = t->work ? time_work_observer(t->work) : nothing;
    const struct time_cu_setup setup = {
        .share = *share,
        .mhz = t->config->params.max_mhz,
        .warm_code = t->warm,
        .sink = sink,
    };
    t->launch->observer = &see;
    const bool ok = time_cu_run(t->launch, t->code, &setup, c->index, c->n, result);
    t->launch->observer = before;
    counters_add(&t->counters, &t->launch->counters);
    c->done = true;
    return ok;
}

/* Times the candidate's workgroups together, records them as a sample, and sets *clocks to its
 * duration. False after a fault. */
static bool sample_candidate(struct timed *t, struct candidate *c, double *clocks)
{
    struct time_sink sink;
    if (!t->samples && !open_trace(t, &sink))
        return false;
    struct time_cu_result result;
    const bool first = !t->samples && t->trace;
    const bool ok = run_candidate(t, c, &t->share, first ? &sink : NULL, &result);
    t->samples++;
    t->groups_timed += c->n;
    t->work_timed += (double)t->launch->counters.instructions;
    t->moved_timed += moved(&t->launch->counters);
    time_cu_result_add(&t->sum, &result);
    *clocks = (double)result.clocks;
    t->latest = (struct time_figures){
        .clocks = *clocks,
        .matrix_clocks = (double)result.matrix_clocks / c->n,
        .far_bytes = (double)(result.bytes[LEVEL_MALL] + result.bytes[LEVEL_HBM]) / c->n,
        .load_bytes = (double)t->launch->counters.load_bytes / c->n,
        .store_bytes = (double)t->launch->counters.store_bytes / c->n,
    };
    if (ok && t->work)
        time_work_sample(t->work, candidate_work(t, c), *clocks);
    return ok;
}

static uint64_t position(const struct timed *t, unsigned d, uint64_t at)
{
    uint64_t stride = 1;
    for (unsigned i = 0; i < d; i++)
        stride *= t->groups[i];
    return at * stride;
}

/* Times workgroup `index`, or one near it that has not run, together with its companions. Sets
 * *figures to a workgroup's. False after a fault. */
static bool sample(struct timed *t, uint64_t index, struct time_figures *figures)
{
    struct candidate c = {0};
    double clocks;
    c.n = companions(t, index, c.index);
    if (c.n && !sample_candidate(t, &c, &clocks))
        return false;
    *figures = c.n ? t->latest : t->whole.first; /* all have run, since the grid is small */
    return true;
}

/* Times the workgroup at position `at` of dimension `d`, and stores its figures in positions[d].
 * False after a fault. */
static bool sample_at(struct timed *t, unsigned d, uint64_t at, struct time_position *positions)
{
    positions[d].sampled = true;
    return sample(t, position(t, d, at), &positions[d].figures);
}

static unsigned most_samples(const struct timed *t)
{
    return t->config->samples ? t->config->samples : SAMPLES_DEFAULT;
}

/* Times the workgroups at the ends and middles of the grid's dimensions. Used if only samples run.
 * False after a fault. */
static bool sample_positions(struct timed *t)
{
    const unsigned most = most_samples(t);
    for (unsigned d = 0; d < DIMENSIONS && t->samples < most; d++) {
        if (t->groups[d] >= 2 && !sample_at(t, d, t->groups[d] - 1, t->whole.last))
            return false;
    }
    for (unsigned d = 0; d < DIMENSIONS && t->samples < most; d++) {
        const double first = t->whole.first.clocks;
        const struct time_position *const last = &t->whole.last[d];
        if (t->groups[d] < 4 || !last->sampled || fabs(last->figures.clocks - first) < 0.01 * first)
            continue;
        if (!sample_at(t, d, t->groups[d] / 2, t->whole.middle))
            return false;
    }
    return true;
}

/* Selects candidates: the ends and middles of the dimensions, and others at even distances. Returns
 * their number. */
static unsigned keep_candidates(struct timed *t, struct candidate kept[MAX_CANDIDATES])
{
    const unsigned most =
        most_samples(t) < MAX_CANDIDATES / 3 ? 3 * most_samples(t) : MAX_CANDIDATES;
    const double golden = 0.6180339887498949;
    unsigned n = 0;
    for (unsigned i = 0; i < most && t->nrun < MAX_RUN && 2 * t->nrun < t->total; i++) {
        const unsigned d = i / 2;
        const double part = (i + 1) * golden - floor((i + 1) * golden);
        uint64_t at = (uint64_t)(part * (double)t->total);
        if (d < DIMENSIONS && t->groups[d] > 1)
            at = position(t, d, i % 2 ? t->groups[d] / 2 : t->groups[d] - 1);
        kept[n] = (struct candidate){0};
        kept[n].n = companions(t, at, kept[n].index);
        n += kept[n].n > 0;
    }
    return n;
}

/* Returns the candidate whose work differs most from all samples; NULL if each is like one. */
static struct candidate *next_candidate(struct timed *t, struct candidate *kept, unsigned n)
{
    struct candidate *best = NULL;
    double farthest = t->samples < 2 ? 0 : ALIKE;
    for (unsigned i = 0; i < n; i++) {
        const double far = time_work_distance(t->work, candidate_work(t, &kept[i]));
        if (kept[i].done || far <= farthest)
            continue;
        farthest = far;
        best = &kept[i];
    }
    return best;
}

static bool run_rest(struct timed *t);
static double sampled_clocks(const struct timed *t, uint64_t index);

/* Returns the number of workgroups that the device can hold at once. */
static uint64_t slots(const struct timed *t)
{
    return (uint64_t)t->config->params.cus * t->resident;
}

/* Sets t->bandwidth to the part of a workgroup's time that depends on memory bandwidth. It times
 * similar workgroups with MORE times the share of bandwidth. Only later rounds of a grid need it.
 * False after a fault. */
static bool sample_bandwidth(struct timed *t, struct candidate *c)
{
    struct time_share more = t->share;
    struct time_cu_result result;
    double expected = 0;
    more.cus_active /= MORE;
    if (!run_candidate(t, c, &more, NULL, &result))
        return false;
    for (unsigned k = 0; k < c->n; k++)
        expected = fmax(expected, sampled_clocks(t, c->index[k]));
    const double saved = expected - (double)result.clocks;
    t->bandwidth = fmax(0, fmin(1, saved * MORE / (MORE - 1) / expected));
    return true;
}

/* Returns the unused candidate whose work is most like a sample; NULL if there is none. */
static struct candidate *spare_candidate(struct timed *t, struct candidate *kept, unsigned n)
{
    struct candidate *best = NULL;
    double least = INFINITY;
    for (unsigned i = 0; i < n; i++) {
        const double far = time_work_distance(t->work, candidate_work(t, &kept[i]));
        if (kept[i].done || far >= least)
            continue;
        least = far;
        best = &kept[i];
    }
    return best;
}

/* Runs all workgroups, first the ones that are no candidates. Their instruction counts decide which
 * candidates are timed. False after a fault. */
static bool sample_by_work(struct timed *t)
{
    struct candidate kept[MAX_CANDIDATES], *c;
    const unsigned n = keep_candidates(t, kept), most = most_samples(t);
    double clocks;
    if (!run_rest(t))
        return false;
    while (t->samples < most && (c = next_candidate(t, kept, n)) != NULL)
        if (!sample_candidate(t, c, &clocks))
            return false;
    c = t->total > slots(t) ? spare_candidate(t, kept, n) : NULL;
    if (c && !sample_bandwidth(t, c))
        return false;
    const struct observer see = time_work_observer(t->work);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; !kept[i].done && k < kept[i].n; k++)
            if (!run_untimed(t, kept[i].index[k], 1, &see))
                return false;
    return true;
}

/* Sets t->bandwidth from neighbours of workgroup 0, for launches that run only samples. False after
 * a fault. */
static bool sample_bandwidth_near(struct timed *t)
{
    struct candidate c = {0};
    if (t->total <= slots(t))
        return true;
    c.n = companions(t, 1, c.index);
    return !c.n || sample_bandwidth(t, &c);
}

static bool take_samples(struct timed *t)
{
    if (!sample(t, 0, &t->whole.first))
        return false;
    t->report->workgroup_cycles = t->whole.first.clocks;
    if (t->work)
        return sample_by_work(t);
    return sample_positions(t) && sample_bandwidth_near(t) &&
           (t->config->samples_only || run_rest(t));
}

/* Returns the fitted clocks of a workgroup beyond its instructions. `idle`: it stores nothing. */
static double start_cost(const struct timed *t, bool idle)
{
    const struct time_params *p = &t->config->params;
    const double cost = p->workgroup_cycles * t->occupancy.part;
    return idle ? fmin(cost, p->workgroup_idle_cycles) : cost;
}

/* Returns the clocks of workgroup `index` as if it ran in the first round. Interpolates samples by
 * its instruction count if the launch has counts, otherwise by its position in the grid. */
static double sampled_clocks(const struct timed *t, uint64_t index)
{
    double clocks = t->whole.first.clocks;
    if (t->work)
        return time_work_clocks(t->work, index);
    for (unsigned d = 0; d < DIMENSIONS; d++) {
        clocks += time_whole_added(&t->whole, d, index % t->groups[d], t->groups[d]);
        index /= t->groups[d];
    }
    return clocks > 0 ? clocks : 0;
}

/*
 * Returns the time of a workgroup divided by the time that it would have in the first round. In
 * that round, workgroups start together and wait for the same units at the same time, so memory is
 * idle meanwhile. Later workgroups start one by one. Memory is then idle only if no workgroup waits
 * for bandwidth.
 *
 * A compute unit gets the bandwidth that others leave, up to the rate of its L1. In a partial last
 * round fewer workgroups divide the bandwidth. Workgroups that are not memory bound have the same
 * time in all rounds: the fit of workgroup_cycles already includes their waits at the end.
 */
static double round_part(const struct timed *t, uint64_t index)
{
    const struct time_params *const p = &t->config->params;
    const uint64_t first = index / slots(t) * slots(t);
    if (first == 0 || t->bandwidth < BOUND)
        return 1;
    const double active = fmin((double)slots(t), (double)(t->total - first));
    const double share = p->hbm_gb_per_s / (p->max_mhz / 1000) / p->cus;
    const double least = fmin(1, share / p->l1_bytes_per_clk);
    return fmax(t->bandwidth * active / (double)slots(t), 1 - t->bandwidth + t->bandwidth * least);
}

static double duration(const void *ctx, uint64_t index)
{
    const struct timed *t = ctx;
    const bool idle = t->work && time_work_idle(t->work, index);
    return sampled_clocks(t, index) * round_part(t, index) + start_cost(t, idle);
}

/* Runs the workgroups that are in no sample. An observer counts their bytes. False after a
 * fault. */
static bool run_rest(struct timed *t)
{
    static const struct observer nothing = {0};
    const struct observer see = t->work ? time_work_observer(t->work) : nothing;
    uint64_t next = 0;
    for (unsigned i = 0; i < t->nrun; i++) {
        if (t->run[i] > next && !run_untimed(t, next, t->run[i] - next, &see))
            return false;
        next = t->run[i] + 1;
    }
    return next >= t->total || run_untimed(t, next, t->total - next, &see);
}

/* Returns the clock in MHz that the power law has for an activity of the device, in percent. 100 is
 * bf16 matrix instructions all the time. */
static double power_clock(const struct time_params *p, double percent)
{
    return fmax(p->min_mhz, fmin(p->max_mhz, p->law_mhz - p->law_slope * percent));
}

/* Returns the activity of the device, 0 to about 1: `duty`, the matrix units' busy part, weighted
 * by the power of each operand class, plus the vector units' and the memory's. */
static double activity(const struct timed *t, double duty)
{
    const struct time_params *p = &t->config->params;
    const double weight[MATRIX_CLASSES] = {
        [MATRIX_16] = 1,
        [MATRIX_8] = p->power_matrix_8,
        [MATRIX_4] = p->power_matrix_4,
        [MATRIX_32] = p->power_matrix_32,
    };
    double weighted = 0, simd_clocks = 4.0 * (double)t->sum.clocks;
    for (unsigned i = 0; i < MATRIX_CLASSES; i++)
        weighted += weight[i] * (double)t->sum.matrix_by[i];
    if (t->sum.matrix_clocks)
        duty *= weighted / (double)t->sum.matrix_clocks;
    const double bytes = (double)(t->sum.bytes[LEVEL_MALL] + t->sum.bytes[LEVEL_HBM]);
    const double cus = t->share.cus_active > 0 ? t->share.cus_active : p->cus;
    const double share = p->hbm_peak_gb_per_s * 1e3 / p->max_mhz / cus;
    const double memory = share > 0 ? fmin(1, bytes / (double)t->sum.clocks / share) : 0;
    return duty + p->power_vector * fmin(1, (double)t->sum.valu_clocks / simd_clocks) +
           p->power_memory * memory;
}

/* Returns the busy part of the matrix units' time: of all time, or the hottest loop's if larger. */
static double matrix_duty(struct timed *t)
{
    struct time_loop loop;
    double all = (double)t->sum.matrix_clocks / (4.0 * (double)t->sum.clocks);
    if (!time_hottest_loop(t->code, t->sum.waves, &loop))
        return all;
    t->report->loop_bound = loop.bound;
    t->report->loop_cycles = loop.clocks;
    double duty = loop.waves * (double)loop.mix.matrix / loop.clocks;
    return fmax(all, fmin(duty, 1));
}

/* True if only samples run, so that the grid's figures are interpolated by position. */
static bool is_by_position(const struct timed *t) { return !t->work && !t->report->together; }

/* Returns the figures of the whole grid. count_bytes() must have set the byte counts. */
static struct time_figures grid_figures(const struct timed *t)
{
    if (is_by_position(t))
        return time_whole_sum(&t->whole, t->groups);
    /* Work of all workgroups divided by the work of the timed ones. */
    const double per_group =
        t->work ? time_work_total(t->work) / t->work_timed : (double)t->total / t->groups_timed;
    /* Bytes, not instructions, since a workgroup with many instructions may load few. */
    const double far = (double)(t->sum.bytes[LEVEL_MALL] + t->sum.bytes[LEVEL_HBM]);
    const double all = t->report->load_bytes + t->report->store_bytes;
    return (struct time_figures){
        .matrix_clocks = (double)t->sum.matrix_clocks * per_group,
        .far_bytes = t->moved_timed > 0 ? far * all / t->moved_timed : 0,
    };
}

static double part_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* Sets the figures that rocprof's derived counters have too, from the timed workgroups. */
static void fill_counters(struct timed *t)
{
    const struct time_cu_result *sum = &t->sum;
    struct hipsim_time_report *r = t->report;
    const double l2 = (double)sum->bytes[LEVEL_L2], hbm = (double)sum->bytes[LEVEL_HBM];
    const double far = hbm + (double)sum->bytes[LEVEL_MALL];
    r->valu_busy = part_of((double)sum->valu_clocks, SIMDS * (double)sum->clocks);
    r->lds_conflict = part_of((double)sum->lds_conflicts, (double)sum->lds_clocks);
    r->l2_hit = far < l2 ? 1 - far / l2 : 0;
    r->hbm_bytes = r->memory_bytes * part_of(hbm, far);
}

static void fill_report(struct timed *t, struct time_dispatch d)
{
    const struct time_params *p = &t->config->params;
    struct hipsim_time_report *r = t->report;
    const struct time_figures sums = grid_figures(t);
    r->workgroups = t->total;
    r->sampled = (uint64_t)t->groups_timed;
    r->cycles = d.clocks;
    r->tail = 1 - d.busy;
    r->xcds = (uint32_t)p->xcds;
    for (unsigned x = 0; x < r->xcds && x < HIPSIM_TIME_XCDS; x++)
        time_busy_parts(&t->busy, x, p->cus / p->xcds * t->resident, d.clocks, r->taken[x]);
    r->launch_us = t->launch->follows ? p->graph_node_us : p->launch_us;
    r->max_mhz = p->max_mhz;
    r->matrix_duty = matrix_duty(t);
    r->matrix_fraction = sums.matrix_clocks / (4 * p->cus * d.clocks);
    r->power_mhz = power_clock(p, 100 * activity(t, r->matrix_duty) * d.busy);
    r->us_at_max = r->launch_us + d.clocks / p->max_mhz;
    r->us_at_power = r->launch_us + d.clocks / r->power_mhz;
    r->memory_bytes = sums.far_bytes;
    r->memory_fraction = r->memory_bytes / (r->us_at_power * 1e3 * p->hbm_peak_gb_per_s);
    r->memory_gb_per_s = p->hbm_gb_per_s;
    r->l2_sharers = t->share.sharers;
    r->issue_cycles = t->sum.issue;
    memcpy(r->stall_cycles, t->sum.stall, sizeof(r->stall_cycles));
    fill_counters(t);
}

static void start_report(struct timed *t)
{
    struct hipsim_time_report *r = t->report;
    *r = (struct hipsim_time_report){.size = sizeof(*r)};
    const char *name = t->launch->kernel ? t->launch->kernel : "";
    strncpy(r->kernel, name, sizeof(r->kernel) - 1);
    const enum gfx_target target = code_target(t->launch->code);
    const struct gfx_part *part = t->launch->part;
    strcpy(r->target, part && part != gfx_part_of(target) ? part->name : gfx_name(target));
    r->workgroups_per_cu = t->resident;
    r->waves_per_simd = (t->resident * t->occupancy.waves_per_workgroup + 3) / 4;
}

static bool prepare(struct timed *t)
{
    const struct launch *l = t->launch;
    const struct time_params *p = &t->config->params;
    t->total = 1;
    for (unsigned d = 0; d < DIMENSIONS; d++) {
        if (!l->grid[d] || !l->block[d])
            return false;
        t->groups[d] = ((uint64_t)l->grid[d] + l->block[d] - 1) / l->block[d];
        if (__builtin_mul_overflow(t->total, t->groups[d], &t->total))
            return false;
    }
    t->occupancy = time_occupancy(p, code_isa(l->code), l);
    uint64_t share = (t->total + (uint64_t)p->cus - 1) / (uint64_t)p->cus;
    t->resident =
        share < t->occupancy.workgroups_per_cu ? (uint32_t)share : t->occupancy.workgroups_per_cu;
    t->warm = p->code_warm > 0 || share > t->resident;
    return true;
}

/* Sets the bytes of the launch: exact if every workgroup ran, otherwise extrapolated. */
static void count_bytes(struct timed *t)
{
    if (is_by_position(t)) {
        const struct time_figures sums = time_whole_sum(&t->whole, t->groups);
        t->report->load_bytes = sums.load_bytes;
        t->report->store_bytes = sums.store_bytes;
        return;
    }
    const double ran = (double)t->counters.workgroups;
    const double scale = ran > 0 ? (double)t->total / ran : 0;
    t->report->load_bytes = scale * (double)t->counters.load_bytes;
    t->report->store_bytes = scale * (double)t->counters.store_bytes;
}

/* Times all workgroups at once on all compute units. False after a fault. */
static bool run_together(struct timed *t, struct time_dispatch *d)
{
    struct time_sink sink;
    if (!open_trace(t, &sink))
        return false;
    const struct time_device_setup setup = {
        .workgroups = t->total,
        .resident = t->resident,
        .extra = start_cost(t, false),
        .idle_extra = start_cost(t, true),
        .warm_code = t->warm,
        .sink = t->trace ? &sink : NULL,
    };
    struct time_device_result result;
    const bool ok = time_device_run(t->launch, t->code, &setup, &result);
    t->counters = t->launch->counters;
    t->sum = result.sum;
    t->groups_timed = (double)t->total;
    t->moved_timed = moved(&t->counters);
    t->report->workgroup_cycles = result.first;
    t->report->together = true;
    t->busy = result.over_time;
    *d = (struct time_dispatch){.clocks = result.clocks, .busy = result.busy};
    return ok;
}

static bool run_sampled(struct timed *t, struct time_dispatch *d)
{
    if (!t->config->samples_only)
        t->work = time_work_create(t->total);
    if (!probe_sharing(t) || !take_samples(t))
        return false;
    *d = time_dispatch(&t->config->params, t->total, t->resident, duration, t, &t->busy);
    return true;
}

static uint64_t entry_offset(const struct launch *l)
{
    return l->entry_pc + l->entry_skip - code_address(l->code);
}

int time_launch_run(struct launch *launch, const struct time_config *config,
                    struct hipsim_time_report *report)
{
    struct timed t = {.launch = launch, .config = config, .report = report};
    struct time_dispatch dispatch;
    /* the engine reports invalid launches; a part of a grid is not timed */
    if (!prepare(&t) || launch->count_workgroup)
        return engine_run(launch);
    t.code = time_code_create(launch->code, &config->params);
    start_report(&t);
    const bool together = t.code && (launch_is_resident(launch) || t.total <= most_samples(&t) ||
                                     time_code_communicates(launch->code, entry_offset(launch)));
    bool ok = t.code && (together ? run_together(&t, &dispatch) : run_sampled(&t, &dispatch));
    report->complete = together || !config->samples_only || t.nrun == t.total;
    if (ok) {
        count_bytes(&t);
        fill_report(&t, dispatch);
    }
    if (t.trace && !time_trace_close(t.trace, ok ? report : NULL))
        ok = false;
    if (ok && config->annotate_path)
        ok = time_annotate(t.code, launch->kernel, config->annotate_path);
    time_code_destroy(t.code);
    time_work_destroy(t.work);
    launch->counters = t.counters;
    if (!ok && launch->fault.kind == FAULT_NONE) {
        launch->fault.kind = FAULT_TRAP;
        strcpy(launch->fault.text, "the timing model lacks memory, or cannot write its files");
    }
    return ok ? 0 : -1;
}

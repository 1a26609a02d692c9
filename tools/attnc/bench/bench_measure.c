/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/bench/bench.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/trace/events.h"
#include "tools/attnc/trace/trace.h"

/* Seconds after which a simulated launch counts as hung. */
enum { MODEL_SECONDS = 3600 };

/* Returns the size of dimension `name`, such as "batch", in a run's shape; 0 if the op has no such
 * dimension. */
static double dimension(const struct trace_run *run, const char *name)
{
    return trace_dimension(trace_find_op(run->info->op), run->shape, name);
}

/* Returns how many keys all queries of one head of a sequence see together. With `causal` the last
 * of `q` queries sees all `k` keys, and each earlier query one fewer. */
static double count_pairs(double q, double k, bool causal)
{
    const double seen = q < k ? q : k; /* queries that see at least one key */
    return causal ? seen * k - seen * (seen - 1) / 2 : q * k;
}

/* Returns the floating-point operations and the fewest bytes of a launch. Ops other than attention
 * have bytes only. */
static struct bench_work count_work(const struct trace_run *run)
{
    const bool prefill = !strcmp(run->info->op, "prefill");
    const bool decode = strstr(run->info->op, "decode") != NULL;
    const double q = dimension(run, "q"), k = dimension(run, "k"), batch = dimension(run, "batch");
    const double heads = dimension(run, "heads"), kv_heads = dimension(run, "kv_heads");
    const double d = atof(verify_field(run->pack, run->n, "head_dim"));
    const char *mask = verify_field(run->pack, run->n, "mask");
    double dv = atof(verify_field(run->pack, run->n, "head_dim_v"));
    const double window = dimension(run, "window");
    struct bench_work w = {.bytes = run->least_bytes};
    if (!prefill && !decode)
        return w;
    dv = dv > 0 ? dv : d;
    const double seen = window > 0 && window < k ? window : k;
    const bool causal = !strcmp(mask, "causal");
    w.flops = 2 * batch * heads * (d + dv) * count_pairs(q, seen, causal);
    if (prefill && w.bytes <= 0)
        w.bytes = 2 * batch * (heads * q + kv_heads * k) * (d + dv);
    return w;
}

/* The functions from here on time launches in child processes. */

/* The arguments of bench_model() and bench_measure(), for the child process. */
struct pair_call {
    const struct bench_pair *pair;
    const struct bench_options *o; /* NULL for the model */
};

/* Times a launch by the simulator's model, in a child process. `context` is a struct pair_call;
 * fills the struct bench_model `answer`. Returns an exit_code. */
static int call_model(void *context, void *answer)
{
    const struct pair_call *c = context;
    struct bench_model *m = answer;
    const struct hipsim_time_options time = {.size = sizeof(time), .samples_only = true};
    struct trace_session t;
    struct hipsim_time_report r = {.size = sizeof(r)};
    int code = trace_open_any(&t, c->pair->pack, c->pair->shape, NULL);
    if (code == EXIT_GOOD)
        code = trace_time(&t, &time, &r);
    if (code == EXIT_GOOD)
        *m = (struct bench_model){
            .us = r.us_at_power,
            .cycles = r.cycles,
            .launch_us = r.launch_us,
            .matrix_fraction = r.matrix_fraction,
            .memory_fraction = r.memory_fraction,
            .work = count_work(&t.run),
        };
    snprintf(m->kernel, sizeof(m->kernel), "%s", t.info.name ? t.info.name : "");
    return code; /* nothing is closed: the child process ends */
}

bool bench_model(const struct bench_pair *pair, struct bench_model *model, char fault[200])
{
    struct pair_call call = {.pair = pair};
    return child_call(call_model, &call, model, sizeof(*model), MODEL_SECONDS, fault);
}

/* A launch that is timed on the GPU again and again, as race_run()'s context. */
struct lane {
    struct events events;
    struct trace_session session;
    double clocks[RACE_ROUNDS]; /* clock after each launch in MHz, `clock_count` of them */
    size_t clock_count;
    char why[160];
};

/* Launches once on the GPU, sets *us to the time in microseconds and notes the clock. Returns false
 * if the launch failed. `which` is unused: the race has one runner. */
static bool sample(void *context, size_t which, double *us)
{
    struct lane *l = context;
    (void)which;
    const bool good = events_time(&l->events, &l->session, us, l->why, sizeof(l->why));
    const double mhz = events_clock(&l->events);
    if (mhz > 0 && l->clock_count < RACE_ROUNDS)
        l->clocks[l->clock_count++] = mhz;
    return good;
}

/* Measures a launch on the GPU, in a child process. `context` is a struct pair_call; fills the
 * struct bench_measured `answer`. Returns an exit_code. */
static int call_measure(void *context, void *answer)
{
    const struct pair_call *c = context;
    struct bench_measured *m = answer;
    struct lane *l = calloc(1, sizeof(*l));
    struct race_result r;
    if (!l)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    const int code = trace_open_any(&l->session, c->pair->pack, c->pair->shape,
                                    &(struct trace_gpu){.real = true});
    if (code != EXIT_GOOD)
        return code;
    if (!events_open(&l->events, &l->session, c->o->flush, l->why, sizeof(l->why)))
        return complain(EXIT_ENVIRONMENT, "%s", l->why);
    race_run(&c->o->race, 1, sample, l, &r);
    if (r.figures[0].faulty || !r.figures[0].runs)
        return complain(EXIT_ENVIRONMENT, "%s", l->why);
    *m = (struct bench_measured){
        .figure = r.figures[0], .drift = r.drift, .work = count_work(&l->session.run)};
    snprintf(m->kernel, sizeof(m->kernel), "%s", l->session.info.name);
    snprintf(m->device, sizeof(m->device), "%.159s", l->session.gpu.title);
    if (l->clock_count) {
        double ignored;
        race_median(l->clocks, l->clock_count, &m->mhz, &ignored, &ignored);
        m->mhz_low = l->clocks[0];
    }
    return EXIT_GOOD;
}

bool bench_measure(const struct bench_pair *pair, const struct bench_options *o,
                   struct bench_measured *measured, char fault[200])
{
    struct pair_call call = {pair, o};
    const double seconds = o->patience + 4 * o->race.seconds;
    return child_call(call_measure, &call, measured, sizeof(*measured), seconds, fault);
}

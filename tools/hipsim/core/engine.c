/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs dispatches: host threads start workgroups in the order of their numbers. One thread runs all
 * waves of a workgroup, alternating between them (time_slice.c).
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "decode.h"
#include "gfx_part.h"
#include "sample.h"
#include "spin.h"
#include "time_slice.h"
#include "worker.h"

/*
 * A host thread and its resident workgroups. Normally a host runs one workgroup at a time.
 * Workgroups of a cooperative launch are all resident, since they wait for each other. A workgroup
 * that waits, or that has run for very long, may need another one to progress. The host then adds
 * workers and alternates between their workgroups.
 */
struct host {
    struct engine *engine;
    struct worker **workers;
    uint32_t n;
    bool alone;       /* true: the launch's other threads have not been started */
    double alone_for; /* CLOCK_MONOTONIC, in seconds, after which they are started */
    /* 1 + engine.changes at the start of the latest round, if all workgroups only waited in it. 0:
     * some progressed; UINT64_MAX: the host has finished. */
    _Atomic uint64_t waits;
    /* CLOCK_MONOTONIC, in seconds, since which all hosts have been found waiting; 0: they are
     * not */
    double waits_since;
};

#define ALONE_SECONDS 40e-6 /* seconds that starting and joining a thread costs */
#define CLUSTER_MAX 16u     /* most workgroups of a cluster (CDNA5 ISA, 2.3) */
/* Most resident workgroups of a host thread, except in cooperative launches. */
#define RESIDENTS_MAX 256u

void counters_add(struct counters *sum, const struct counters *c)
{
    sum->instructions += c->instructions;
    sum->salu += c->salu;
    sum->valu += c->valu;
    sum->mfma += c->mfma;
    sum->vmem += c->vmem;
    sum->smem += c->smem;
    sum->lds += c->lds;
    sum->branch += c->branch;
    sum->workgroups += c->workgroups;
    sum->waves += c->waves;
    sum->load_bytes += c->load_bytes;
    sum->store_bytes += c->store_bytes;
}

/* Adds a worker to the host thread. False without memory. */
static bool add_worker(struct host *h)
{
    struct worker **grown = realloc(h->workers, (h->n + 1) * sizeof(*grown));
    struct worker *k = malloc(sizeof(*k));
    if (grown)
        h->workers = grown;
    if (!grown || !k || !worker_init(k, h->engine)) {
        free(k);
        return false;
    }
    h->workers[h->n++] = k;
    return true;
}

/* Frees the workers of a host thread. */
static void host_free(struct host *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        worker_free(h->workers[i]);
        free(h->workers[i]);
    }
    free(h->workers);
}

/* Begins the launch's next workgroup on the worker. False if none is left. */
static bool begin_next(struct worker *k)
{
    struct engine *e = k->engine;
    uint64_t index = atomic_load(&e->next) < e->last ? atomic_fetch_add(&e->next, 1) : e->last;
    if (index >= e->last)
        return false;
    slice_begin(k, e->sample ? e->sample[index] : index);
    return true;
}

/* Reports a grid barrier that cannot open, after a round in which no wave executed an
 * instruction. */
static void report_grid_deadlock(struct host *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        struct workgroup *wg = &h->workers[i]->wg;
        for (uint32_t j = 0; h->workers[i]->busy && j < wg->nwaves; j++) {
            struct wave *w = wg->waves[j];
            if (w->state != WAVE_AT_GRID_BARRIER)
                continue;
            wave_fault(w, NULL, FAULT_DEADLOCK, 0,
                       "no wave can run: wave %u waits at a barrier of the grid for %u more", w->id,
                       w->grid_barrier->left + 1);
            return;
        }
    }
}

/* Returns the host's monotonic time in seconds. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void start_others(struct host *first);

/* Returns the number of workgroups that the GPU can hold, limited by its wave slots. A compute unit
 * of gfx9 has 32 (CDNA3 ISA, 3.1). */
static uint32_t residents_of_hardware(const struct launch *l)
{
    const struct gfx_part *part = l->part ? l->part : gfx_part_of(code_target(l->code));
    const struct isa *isa = code_isa(l->code);
    const uint32_t items = l->block[0] * l->block[1] * l->block[2];
    const uint32_t waves = (items + isa->lanes - 1) / isa->lanes;
    return part->compute_units * 4 * isa->wave_slots / waves;
}

/* True if each host thread only found waiting waves in a round that began at the change number
 * `changes`, and none has come since. */
static bool all_wait(const struct engine *e, uint64_t changes)
{
    for (uint32_t i = 0; i < e->started; i++) {
        const uint64_t waits = atomic_load(&e->hosts[i].waits);
        if (waits != changes + 1 && waits != UINT64_MAX)
            return false;
    }
    return atomic_load(&e->changes) == changes;
}

/* Handles a round in which all workgroups of this host only waited. `changes` is engine.changes at
 * the round's start. True if the dispatch is in deadlock. */
static bool wait_for_others(struct host *h, uint64_t changes)
{
    struct engine *e = h->engine;
    if (atomic_load(&e->next) < e->last && h->n < residents_of_hardware(e->launch)) {
        add_worker(h); /* the others may wait for this workgroup */
        atomic_store(&h->waits, 0);
        return false;
    }
    atomic_store(&h->waits, changes + 1);
    if (!all_wait(e, changes)) {
        h->waits_since = 0;
        return false;
    }
    if (!h->waits_since)
        h->waits_since = seconds();
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->workers[i]->busy)
            return spin_deadlock(h->workers[i], h->waits_since);
    }
    return false;
}

/* Runs a worker for one time slice, or without other threads until its workgroup ends. Clears
 * *waits if the worker progressed. False if the dispatch must end. */
static bool run_slice(struct host *h, struct worker *k, bool *waits)
{
    struct engine *e = h->engine;
    while (k->busy || begin_next(k)) {
        if (!slice_run(k, h->alone))
            return false;
        if (k->busy && spin_waits(k)) {
            k->paused = true;
        } else {
            atomic_fetch_add(&e->changes, 1);
            *waits = false;
        }
        if (h->alone && seconds() >= h->alone_for)
            start_others(h);
        else if (k->busy && !h->alone)
            break;
    }
    return true;
}

/* Runs each resident workgroup for one time slice. False if no workgroup is left. */
static bool run_round(struct host *h)
{
    struct engine *e = h->engine;
    const uint32_t limit = launch_is_resident(e->launch) ? UINT32_MAX : RESIDENTS_MAX;
    const uint64_t changes = atomic_load(&e->changes);
    uint64_t before = 0, after = 0;
    bool busy = false, waits = true;
    for (uint32_t i = 0; i < h->n; i++) {
        struct worker *k = h->workers[i];
        before += k->counters.instructions;
        if (!run_slice(h, k, &waits)) {
            atomic_store(&e->stop, true);
            return false;
        }
        after += k->counters.instructions;
        busy |= k->busy;
        if (k->busy && k->paused && i + 1 == h->n && h->n < limit &&
            atomic_load(&e->next) < e->last)
            add_worker(h);
    }
    if (busy && before == after) {
        report_grid_deadlock(h);
        atomic_store(&e->stop, true);
    } else if (busy && waits) {
        if (wait_for_others(h, changes))
            atomic_store(&e->stop, true);
    } else {
        atomic_store(&h->waits, 0);
    }
    return busy;
}

/* Runs a host thread's workgroups until none is left or a fault stops the launch. */
static void *host_main(void *arg)
{
    struct host *h = arg;
    struct engine *e = h->engine;
    while (!atomic_load(&e->stop) && run_round(h))
        ;
    atomic_store(&h->waits, UINT64_MAX);
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < h->n; i++) {
        const struct counters c = worker_counters(h->workers[i]);
        counters_add(&e->launch->counters, &c);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Sets the fault that a launch is invalid. Returns -1. */
static int refuse(struct launch *l, const char *why)
{
    l->fault.kind = FAULT_TRAP;
    size_t n = strlen(why);
    memcpy(l->fault.text, why, n < sizeof(l->fault.text) ? n + 1 : 0);
    return -1;
}

/* Starts the host threads after the first one. Threads only save time, so the launch runs without
 * those that cannot be started. */
static void start_others(struct host *first)
{
    struct engine *e = first->engine;
    first->alone = false;
    while (e->started < e->threads) {
        struct host *h = &e->hosts[e->started];
        h->engine = e;
        if (!add_worker(h) || pthread_create(&e->ids[e->started], NULL, host_main, h) != 0) {
            host_free(h);
            h->workers = NULL;
            h->n = 0;
            return;
        }
        e->started++;
    }
}

/*
 * Runs the launch on up to `threads` threads, including the caller's. The others start when the
 * launch has lasted longer than starting them would. With a seeded wave order they start at once,
 * since its result must not depend on time.
 */
static int run_hosts(struct engine *e, uint32_t threads)
{
    e->threads = threads;
    e->hosts = calloc(threads, sizeof(*e->hosts));
    e->ids = calloc(threads, sizeof(*e->ids));
    struct host *first = e->hosts;
    bool runs = false;
    if (e->hosts && e->ids) {
        first->engine = e;
        runs = add_worker(first);
    }
    if (runs) {
        e->started = 1;
        first->alone = threads > 1 && e->launch->order != ORDER_SEEDED;
        first->alone_for = seconds() + ALONE_SECONDS;
        if (!first->alone)
            start_others(first);
        host_main(first);
    } else if (first) {
        host_free(first);
    }
    for (uint32_t i = 0; i < e->started; i++) {
        if (i > 0)
            pthread_join(e->ids[i], NULL);
        host_free(&e->hosts[i]);
    }
    free(e->hosts);
    free(e->ids);
    return runs ? 0 : -1;
}

/* Checks the clusters of a launch and creates their barriers. On failure returns false and sets
 * launch->fault. */
static bool prepare_clusters(const struct engine *e, struct launch *l)
{
    uint64_t clusters = 1;
    uint32_t size = 1;
    l->cluster_barrier = NULL;
    if (!l->cluster[0])
        return true;
    for (unsigned d = 0; d < 3; d++) {
        if (!l->cluster[d] || l->cluster[d] > CLUSTER_MAX || e->groups[d] % l->cluster[d]) {
            refuse(l, "the clusters do not divide the grid");
            return false;
        }
        clusters *= e->groups[d] / l->cluster[d];
        size *= l->cluster[d];
    }
    if (size > CLUSTER_MAX) {
        refuse(l, "a cluster has more than 16 workgroups");
        return false;
    }
    l->cluster_barrier = calloc(clusters, sizeof(*l->cluster_barrier));
    if (!l->cluster_barrier) {
        refuse(l, "out of memory for the barriers of clusters");
        return false;
    }
    for (uint64_t i = 0; i < clusters; i++)
        l->cluster_barrier[i].left = size - 1;
    return true;
}

/* Frees what prepare() has allocated, except the state of the checks. */
static void free_prepared(struct engine *e)
{
    free(e->sample);
    free(e->launch->cluster_barrier);
    e->launch->cluster_barrier = NULL;
    pthread_mutex_destroy(&e->lock);
}

/* Checks the launch and prepares its engine. Returns 0; on failure -1 with launch->fault set. */
static int prepare(struct engine *e, struct launch *l)
{
    *e = (struct engine){.launch = l, .lock = PTHREAD_MUTEX_INITIALIZER};
    l->fault = (struct fault){0};
    l->counters = (struct counters){0};
    memset(l->margins, 0xff, sizeof(l->margins));
    uint64_t items = 1, groups = 1;
    for (unsigned d = 0; d < 3; d++) {
        if (!l->grid[d] || !l->block[d])
            return refuse(l, "a grid or workgroup dimension is zero");
        e->groups[d] = (uint32_t)(((uint64_t)l->grid[d] + l->block[d] - 1) / l->block[d]);
        items *= l->block[d];
        if (items > 1024)
            return refuse(l, "a workgroup has more than 1024 work-items");
        if (__builtin_mul_overflow(groups, e->groups[d], &groups))
            return refuse(l, "the grid has more than 2^64 workgroups");
    }
    if (l->nvgpr > VGPR_FILE || l->nagpr > AGPR_FILE || l->nuser_sgpr > 32)
        return refuse(l, "the launch asks for more registers than a wave has");
    l->checks &= code_isa(l->code)->checks;
    for (uint32_t i = 0; i < GRID_BARRIERS; i++) /* as the runtime initialises them */
        l->grid_barrier[i] = (struct grid_barrier){.left = (uint32_t)groups - 1};
    e->next = l->first_workgroup;
    e->last = groups;
    if (l->count_workgroup && l->first_workgroup + l->count_workgroup < groups)
        e->last = l->first_workgroup + l->count_workgroup;
    if (!prepare_clusters(e, l))
        return -1;
    if (l->sample && l->sample < groups && !l->count_workgroup && !launch_is_resident(l)) {
        e->sample = sample_choose(e->groups, l->sample, &e->last);
        if (!e->sample) {
            free_prepared(e);
            return refuse(l, "out of memory for the sample of workgroups");
        }
    }
    if (checks_launch_begin(&e->checks, l, e->next, e->last))
        return 0;
    free_prepared(e);
    return refuse(l, "out of memory for the checks");
}

/* Ends the checks and frees the state of a launch. */
static void finish(struct engine *e)
{
    checks_launch_end(&e->checks, e->launch);
    free_prepared(e);
}

/* Returns the number of the host's cores. */
static uint64_t cores(void)
{
    static _Atomic uint64_t known; /* number of cores; a query takes longer than a short launch */
    if (!known)
        known = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return known;
}

int engine_run(struct launch *l)
{
    struct engine e;
    if (prepare(&e, l) < 0)
        return -1;
    uint64_t remaining = e.last > e.next ? e.last - e.next : 0;
    uint64_t threads = l->threads ? l->threads : cores();
    if (launch_is_resident(l))
        threads = 1;
    if (threads > remaining)
        threads = remaining ? remaining : 1;
    const int started = run_hosts(&e, (uint32_t)threads);
    finish(&e);
    if (started < 0)
        return refuse(l, "out of memory for the waves of a workgroup");
    return l->fault.kind == FAULT_NONE ? 0 : -1;
}

/* A workgroup that the caller steps: a worker that no host thread runs. */
struct engine_group {
    struct engine own;
    struct engine *engine; /* the group's own engine, or the engine of the group passed as `with` */
    struct worker worker;
};

struct engine_group *engine_group_create(struct launch *l, struct engine_group *with)
{
    struct engine_group *g = calloc(1, sizeof(*g));
    if (!g) {
        refuse(l, "out of memory for a workgroup");
        return NULL;
    }
    g->engine = with ? with->engine : &g->own;
    if (!with && prepare(&g->own, l) < 0) {
        free(g);
        return NULL;
    }
    if (!worker_init(&g->worker, g->engine)) {
        refuse(l, "out of memory for the waves of a workgroup");
        if (!with)
            finish(&g->own);
        free(g);
        return NULL;
    }
    return g;
}

void engine_group_destroy(struct engine_group *g)
{
    if (!g)
        return;
    worker_free(&g->worker);
    if (g->engine == &g->own)
        finish(&g->own);
    free(g);
}

struct workgroup *engine_group_start(struct engine_group *g, uint64_t index)
{
    slice_begin(&g->worker, index);
    return &g->worker.wg;
}

const struct inst *engine_group_fetch(struct wave *w)
{
    struct code_slots code = code_slots(w->launch->code);
    const struct inst *in = slice_fetch(&code, w);
    uint64_t budget = w->launch->budget;
    if (!in || !budget || w->executed < budget)
        return in;
    wave_fault(w, in, FAULT_BUDGET, 0, "%llu instructions executed",
               (unsigned long long)w->executed);
    return NULL;
}

bool engine_group_step(struct engine_group *g, struct wave *w, const struct inst *in)
{
    slice_step(&g->worker, w, in);
    return w->state != WAVE_FAULTED && w->launch->fault.kind == FAULT_NONE;
}

bool engine_group_release(struct engine_group *g)
{
    uint64_t passed = g->worker.wg.barriers;
    slice_release(&g->worker.wg);
    return g->worker.wg.barriers != passed;
}

bool engine_group_wait_for_grid(struct engine_group *g)
{
    return slice_wait_for_grid(&g->worker.wg);
}

bool engine_group_finish(struct engine_group *g) { return slice_end(&g->worker); }

struct counters engine_group_counters(const struct engine_group *g)
{
    return worker_counters(&g->worker);
}

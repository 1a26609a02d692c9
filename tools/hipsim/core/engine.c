/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs dispatches. Host threads take workgroups in order; the waves of a workgroup take turns on
 * one thread.
 *
 * Order of waves. By default a workgroup behaves as if its waves ran side by side, each by its own
 * clock, which is what some hand-written kernels need. Other waves see only instructions with
 * ROW_SHARED, so a wave runs ahead through everything else and stops at a shared one until no
 * runnable wave is behind it (clock, then id). The outcome is that of stepping every instruction in
 * its time, without the cost of changing waves at each.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "decode.h"
#include "parts.h"
#include "wait.h"
#include "worker.h"

/*
 * A host thread and the workgroups that are resident on it. Normally that is one after the other.
 * Workgroups of a cooperative launch are all resident, since they wait for each other; and one
 * that has run for very long may be waiting for another too, so from then on it takes turns with
 * further ones.
 */
struct host {
    struct engine *engine;
    struct worker **workers;
    uint32_t n;
    bool alone;       /* other threads have not been started yet, */
    double alone_for; /* and are not before this many seconds of CLOCK_MONOTONIC */
};

#define LONG_STEP 4096u
#define SHORT_STEP 64u
#define ALONE_SECONDS 40e-6 /* what it takes to start a thread and to wait for its end */
#define LONG_TURN 8192u /* 32 M instructions: more than workgroups of attention kernels execute */
#define SHORT_TURN 16u
#define RESIDENTS_MAX 256u /* of a thread, if the launch is not cooperative */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void count(struct counters *c, const struct inst *in)
{
    uint32_t f = in->row->flags;
    c->instructions++;
    c->salu += (f & ROW_SALU) != 0;
    c->valu += (f & ROW_VALU) != 0;
    c->mfma += (f & ROW_MFMA) != 0;
    c->vmem += (f & ROW_VMEM) != 0;
    c->smem += (f & ROW_SMEM) != 0;
    c->lds += (f & ROW_LDS) != 0;
    c->branch += (f & ROW_BRANCH) != 0;
}

/* Lanes with an address that no earlier lane has. */
static unsigned distinct_lanes(const struct mem_access *a)
{
    enum { SLOTS = 2 * WAVE_LANES };
    uint64_t seen[SLOTS], used[SLOTS / 64] = {0};
    unsigned n = 0;
    for (uint64_t rest = a->lanes; rest; rest &= rest - 1) {
        const uint64_t address = a->addr[__builtin_ctzll(rest)];
        unsigned slot = (unsigned)(address * UINT64_C(0x9e3779b97f4a7c15) >> 57);
        while (used[slot / 64] >> slot % 64 & 1 && seen[slot] != address)
            slot = (slot + 1) % SLOTS;
        n += !(used[slot / 64] >> slot % 64 & 1);
        used[slot / 64] |= UINT64_C(1) << slot % 64;
        seen[slot] = address;
    }
    return n;
}

/* Only where an observer has accesses recorded. */
static void count_bytes(struct counters *c, const struct mem_access *a)
{
    const uint64_t bytes = (uint64_t)distinct_lanes(a) * a->bytes;
    c->load_bytes += a->is_load ? bytes : 0;
    c->store_bytes += a->is_store ? bytes : 0;
}

/*
 * The register file is unified: v[nvgpr + i] is a[i], and hand-written kernels use it so. Their
 * rows are adjacent; validity is kept under the name that was used.
 */
static bool registers_exist(struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    if (in->max_vgpr < (int)(l->nvgpr + l->nagpr) && in->max_agpr < (int)l->nagpr &&
        (!l->nsgpr || in->max_sgpr < (int)l->nsgpr))
        return true;
    if (in->max_vgpr >= (int)(l->nvgpr + l->nagpr))
        wave_fault(w, in, FAULT_REGISTER, 0, "v%d is used, the kernel has %u", in->max_vgpr,
                   l->nvgpr);
    else if (in->max_agpr >= (int)l->nagpr)
        wave_fault(w, in, FAULT_REGISTER, 0, "a%d is used, the kernel has %u", in->max_agpr,
                   l->nagpr);
    else
        wave_fault(w, in, FAULT_REGISTER, 0, "s%d is used, the kernel has %u", in->max_sgpr,
                   l->nsgpr);
    return false;
}

/*
 * s_set_gpr_idx_on: vector registers that M0[15:12] selects are relative to M0[7:0], those of
 * v_accvgpr_read as well: the register file is one. `moved` becomes `in` with the registers meant.
 */
static bool index_registers(struct wave *w, const struct inst *in, struct inst *moved)
{
    *moved = *in;
    struct opnd *operands[4] = {&moved->src[0], &moved->src[1], &moved->src[2], &moved->dst};
    uint32_t m0 = w->sgpr[SGPR_M0], nvgpr = w->launch->nvgpr, nagpr = w->launch->nagpr;
    for (unsigned i = 0; i < 4; i++) {
        struct opnd *o = operands[i];
        bool is_agpr = o->kind == OPND_AGPR;
        if (!(m0 >> (12 + i) & 1) || (o->kind != OPND_VGPR && !is_agpr))
            continue;
        o->reg = (uint16_t)(o->reg + (m0 & 0xff));
        bool exists = o->reg + o->dwords <= (is_agpr ? nagpr : nvgpr + nagpr);
        if (!is_agpr && o->reg + o->dwords > VGPR_FILE) { /* v256 has no other name than a0's */
            exists &= o->reg >= nvgpr;
            o->kind = OPND_AGPR;
            o->reg = (uint16_t)(o->reg - nvgpr);
        }
        if (!exists) {
            wave_fault(w, in, FAULT_REGISTER, 0, "indexed register %c%u, the kernel has %u",
                       is_agpr ? 'a' : 'v',
                       operands[i] == &moved->dst ? in->dst.reg + (m0 & 0xff)
                                                  : in->src[i].reg + (m0 & 0xff),
                       is_agpr ? nagpr : nvgpr);
            return false;
        }
    }
    if (in->row->flags & ROW_DST_IS_SRC) { /* what is read of a destination is where it lies */
        struct opnd *read = &moved->src[in->row->src[3] ? 3 : 2];
        read->kind = moved->dst.kind;
        read->reg = moved->dst.reg;
    }
    return true;
}

/* What S_SETVSKIP keeps from being issued (CDNA3 ISA, SOPC). */
#define VECTOR_ROWS (ROW_VALU | ROW_MFMA | ROW_VMEM | ROW_LDS)

/* What the instruction takes of the wave's time. A matrix instruction is done beside what follows,
 * unless that is another one. */
static void advance(struct wave *w, const struct inst *in)
{
    if (in->matrix_passes) {
        const uint64_t start = w->clock > w->matrix_free ? w->clock : w->matrix_free;
        w->matrix_free = start + 4u * in->matrix_passes;
        w->clock = start;
    }
    w->clock += in->clocks;
}

static bool is_skipped(const struct wave *w, const struct inst *in)
{
    return w->mode & MODE_VSKIP && in->row->flags & VECTOR_ROWS;
}

/* Waits for room in the counters of `in`, before the order of waves is decided and `in` starts. */
static void make_room(struct wave *w, const struct inst *in)
{
    if (w->outstanding && in->row && in->row->wait && !is_skipped(w, in))
        wave_make_room(w, in);
}

/* Executes one instruction that has been fetched. */
static void step(struct worker *k, struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    const struct inst *run = in;
    struct inst moved;
    enum wait_verdict verdict = WAIT_FINE;
    make_room(w, in);
    w->pc += in->size;
    w->executed++;
    advance(w, in);
    w->access.space = ACCESS_NONE;
    if (in->row) {
        if (is_skipped(w, in))
            return;
        count(&k->counters, in);
        if (!registers_exist(w, in))
            return;
        if (w->mode & MODE_GPR_IDX_EN && in->row->flags & ROW_VALU) {
            if (!index_registers(w, in, &moved))
                return;
            run = &moved;
        }
        if (w->outstanding)
            verdict = wave_check_wait(w, run);
        if (verdict == WAIT_FAULTED)
            return;
        if (!checks_fetched(w, in))
            return;
        if (in->row->wait && in->dst.kind != OPND_NONE)
            wave_keep(w, in);
    }
    simulator_parts.execute(w, run);
    if (verdict == WAIT_STALE)
        wave_undefine_results(w, run);
    if (w->access.space == ACCESS_GLOBAL || w->access.space == ACCESS_SCALAR)
        count_bytes(&k->counters, &w->access);
    if (w->wg->unsettled)
        checks_settle(w, in);
    if (l->observer && l->observer->inst && w->state != WAVE_FAULTED)
        l->observer->inst(l->observer->ctx, w, in, &w->access);
}

static const struct inst *fetch(const struct code_slots *code, struct wave *w)
{
    uint64_t offset = w->pc - code->address;
    const struct inst *in = NULL;
    if (offset / 4 < code->count && offset % 4 == 0)
        in = atomic_load_explicit(&code->slots[offset / 4], memory_order_acquire);
    if (!in)
        in = code_inst(w->launch->code, offset);
    if (!in)
        wave_fault(w, NULL, FAULT_DECODE, 0, "the program counter 0x%llx lies outside of the code",
                   (unsigned long long)w->pc);
    return in;
}

static bool before(const struct wave *a, const struct wave *b)
{
    return a->clock < b->clock || (a->clock == b->clock && a->id < b->id);
}

/* The running wave that is furthest behind, other than `not`. */
static struct wave *behind(const struct workgroup *wg, const struct wave *not)
{
    struct wave *best = NULL;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w != not && w->state == WAVE_RUNNING && (!best || before(w, best)))
            best = w;
    }
    return best;
}

static struct wave *random_wave(struct worker *k)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < k->wg.nwaves; i++)
        running += k->waves[i].state == WAVE_RUNNING;
    if (!running)
        return NULL;
    uint32_t pick = (uint32_t)(next_random(&k->random) % running);
    for (uint32_t i = 0;; i++)
        if (k->waves[i].state == WAVE_RUNNING && pick-- == 0)
            return &k->waves[i];
}

/*
 * Runs `w` until it leaves the running state or meets a shared instruction at which it must let
 * `other` go first. In seeded order it stops after a random number of shared instructions.
 */
static void run_wave(struct worker *k, struct wave *w, const struct wave *other)
{
    const struct launch *l = w->launch;
    bool seeded = l->order == ORDER_SEEDED;
    uint64_t turn = seeded ? next_random(&k->random) % 8 : 0;
    uint64_t budget = l->budget ? l->budget : UINT64_MAX;
    while (w->state == WAVE_RUNNING) {
        const struct inst *in = fetch(&k->code, w);
        if (!in)
            return;
        if (in->row && in->row->flags & ROW_SHARED && other) {
            make_room(w, in);
            if (seeded ? turn-- == 0 : before(other, w))
                return;
        }
        if (w->executed >= budget) {
            wave_fault(w, in, FAULT_BUDGET, 0, "%llu instructions executed",
                       (unsigned long long)w->executed);
            return;
        }
        step(k, w, in);
        if ((w->executed & k->step) == 0 &&
            (--k->turn == 0 || atomic_load_explicit(&k->engine->stop, memory_order_relaxed)))
            return;
    }
}

/* All work-items of the wave have returned before it did anything: `if (i >= n) return;`. The
 * hardware's barrier, which counts the waves that have not ended, allows for that. */
static bool left_early(const struct wave *w) { return w->went_round && !w->acted; }

static void report_unequal(struct workgroup *wg, struct wave *first, const struct wave *ended,
                           uint32_t waiting)
{
    const struct launch *l = wg->launch;
    const uint64_t after = first->pc - code_address(l->code);
    const struct inst *in = after >= 4 ? code_inst(l->code, after - 4) : NULL;
    wave_finding(first, in, FAULT_BARRIER, 0,
                 "%u of %u waves wait at barrier %llu, the others have ended: wave %u at "
                 "entry%+lld",
                 waiting, wg->nwaves, (unsigned long long)wg->barriers, ended->id,
                 (long long)(ended->pc - 4 - l->entry_pc));
}

/* Opens the barrier when every wave that has not ended is at it. */
static void release_barrier(struct workgroup *wg)
{
    uint64_t clock = 0;
    uint32_t waiting = 0, ended = 0;
    const struct wave *missing = NULL;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        const struct wave *w = wg->waves[i];
        waiting += w->state == WAVE_AT_BARRIER;
        ended += w->state == WAVE_ENDED;
        if (w->state == WAVE_ENDED && !left_early(w))
            missing = w;
        if (w->state == WAVE_AT_BARRIER && w->clock > clock)
            clock = w->clock;
    }
    wg->at_barrier = waiting;
    if (!waiting || waiting + ended < wg->nwaves)
        return;
    struct wave *first = NULL;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w->state != WAVE_AT_BARRIER)
            continue;
        w->state = WAVE_RUNNING;
        w->clock = clock;
        first = first ? first : w;
    }
    wg->at_barrier = 0;
    wg->barriers++;
    lds_deliver(wg, clock);
    checks_barrier(wg);
    if (missing && wg->launch->checks & CHECK_BARRIER)
        report_unequal(wg, first, missing, waiting);
}

static void report_deadlock(struct workgroup *wg)
{
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w->state == WAVE_ENDED)
            continue;
        wave_fault(w, NULL, FAULT_DEADLOCK, 0, "no wave can run: wave %u is %s", w->id,
                   w->state == WAVE_AT_BARRIER        ? "at a barrier"
                   : w->state == WAVE_AT_GRID_BARRIER ? "at a barrier of the grid"
                                                      : "halted");
        return;
    }
}

/* Waves whose barrier of the grid has opened go on. True if one waits still. */
static bool wait_for_grid(struct workgroup *wg)
{
    bool waits = false;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w->state != WAVE_AT_GRID_BARRIER)
            continue;
        if (wg->launch->grid_barrier[w->grid_barrier].opened == w->grid_opened) {
            waits = true;
            continue;
        }
        w->state = WAVE_RUNNING;
        checks_grid_pass(w);
    }
    return waits;
}

static void begin_workgroup(struct worker *k, uint64_t index)
{
    const struct launch *l = k->engine->launch;
    worker_begin(k, index);
    if (l->observer && l->observer->workgroup_begin)
        l->observer->workgroup_begin(l->observer->ctx, &k->wg);
    k->busy = true;
    k->paused = false;
}

/* No wave can run: has the workgroup ended? If not, that is a deadlock. */
static bool end_workgroup(struct worker *k)
{
    struct workgroup *wg = &k->wg;
    const struct launch *l = k->engine->launch;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        if (wg->waves[i]->state != WAVE_ENDED) {
            report_deadlock(wg);
            return false;
        }
    }
    if (l->observer && l->observer->workgroup_end)
        l->observer->workgroup_end(l->observer->ctx, wg);
    k->counters.workgroups++;
    k->counters.waves += wg->nwaves;
    k->busy = false;
    return !launch_faulted(l);
}

/* Runs the workgroup until it has ended, waits for others, or its turn is over, which is one step
 * if it is `brief`. False when the dispatch has come to its end. */
static bool take_turn(struct worker *k, bool brief)
{
    struct workgroup *wg = &k->wg;
    const struct launch *l = k->engine->launch;
    const bool waits = wait_for_grid(wg);
    k->turn = brief ? 1 : k->paused || l->cooperative ? SHORT_TURN : LONG_TURN;
    k->step = (brief ? SHORT_STEP : LONG_STEP) - 1;
    while (k->turn > 0) {
        struct wave *w = l->order == ORDER_SEEDED ? random_wave(k) : behind(wg, NULL);
        if (!w)
            break;
        run_wave(k, w, behind(wg, w));
        if (atomic_load_explicit(&k->engine->stop, memory_order_relaxed) ||
            w->state == WAVE_FAULTED)
            return false;
        if (w->state != WAVE_RUNNING)
            release_barrier(wg);
        if (launch_faulted(l))
            return false;
    }
    k->paused = !brief;
    if (k->turn == 0 || waits || wait_for_grid(wg))
        return true;
    return end_workgroup(k);
}

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

static void host_free(struct host *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        worker_free(h->workers[i]);
        free(h->workers[i]);
    }
    free(h->workers);
}

static bool begin_next(struct worker *k)
{
    struct engine *e = k->engine;
    uint64_t index = atomic_load(&e->next) < e->last ? atomic_fetch_add(&e->next, 1) : e->last;
    if (index >= e->last)
        return false;
    begin_workgroup(k, index);
    return true;
}

/* Nobody has executed anything since all were asked: a barrier of the grid that cannot open. */
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
                       wg->launch->grid_barrier[w->grid_barrier].left + 1);
            return;
        }
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void start_others(struct host *first);

/* A turn for each resident workgroup. False when there is nothing left to do. */
static bool run_round(struct host *h)
{
    struct engine *e = h->engine;
    const uint32_t limit = e->launch->cooperative ? UINT32_MAX : RESIDENTS_MAX;
    uint64_t before = 0, after = 0;
    bool busy = false;
    for (uint32_t i = 0; i < h->n; i++) {
        struct worker *k = h->workers[i];
        before += k->counters.instructions;
        while (k->busy || begin_next(k)) {
            if (!take_turn(k, h->alone)) {
                atomic_store(&e->stop, true);
                return false;
            }
            if (h->alone && seconds() >= h->alone_for)
                start_others(h);
            else if (k->busy && !h->alone)
                break;
        }
        after += k->counters.instructions;
        busy |= k->busy;
        if (k->busy && i + 1 == h->n && h->n < limit && atomic_load(&e->next) < e->last)
            add_worker(h);
    }
    if (busy && before == after) {
        report_grid_deadlock(h);
        atomic_store(&e->stop, true);
    }
    return busy;
}

static void *host_main(void *arg)
{
    struct host *h = arg;
    struct engine *e = h->engine;
    while (!atomic_load(&e->stop) && run_round(h))
        ;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < h->n; i++)
        counters_add(&e->launch->counters, &h->workers[i]->counters);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static int refuse(struct launch *l, const char *why)
{
    l->fault.kind = FAULT_TRAP;
    size_t n = strlen(why);
    memcpy(l->fault.text, why, n < sizeof(l->fault.text) ? n + 1 : 0);
    return -1;
}

/* Threads beyond the first are a matter of speed only: those that cannot start are done without. */
static void start_others(struct host *first)
{
    struct engine *e = first->engine;
    first->alone = false;
    while (e->started < e->threads) {
        struct host *h = &e->hosts[e->started];
        h->engine = e;
        if (!add_worker(h) || pthread_create(&e->ids[e->started], NULL, host_main, h) != 0) {
            host_free(h);
            *h = (struct host){0};
            return;
        }
        e->started++;
    }
}

/*
 * The caller is the first thread. The others are started when the launch turns out to take longer
 * than that does; the order of waves by a seed must not depend on the clock.
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

/* Checks the launch and prepares its engine. 0, or -1 with the reason in launch->fault. */
static int prepare(struct engine *e, struct launch *l)
{
    *e = (struct engine){.launch = l, .lock = PTHREAD_MUTEX_INITIALIZER};
    l->fault = (struct fault){0};
    l->counters = (struct counters){0};
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
    if (l->nvgpr > VGPR_FILE || l->nagpr > VGPR_FILE || l->nuser_sgpr > 32)
        return refuse(l, "the launch asks for more registers than a wave has");
    for (uint32_t i = 0; i < GRID_BARRIERS; i++) /* as the runtime's own kernel sets them */
        l->grid_barrier[i] = (struct grid_barrier){.left = (uint32_t)groups - 1};
    e->next = l->first_workgroup;
    e->last = groups;
    if (l->count_workgroup && l->first_workgroup + l->count_workgroup < groups)
        e->last = l->first_workgroup + l->count_workgroup;
    if (!checks_launch_begin(&e->checks, l, e->next, e->last))
        return refuse(l, "out of memory for the checks");
    return 0;
}

static void finish(struct engine *e)
{
    checks_launch_end(&e->checks, e->launch);
    pthread_mutex_destroy(&e->lock);
}

static uint64_t cores(void)
{
    static _Atomic uint64_t known; /* to ask takes longer than a short launch */
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
    if (l->cooperative)
        threads = 1;
    if (threads > remaining)
        threads = remaining ? remaining : 1;
    const int started = run_hosts(&e, (uint32_t)threads);
    finish(&e);
    if (started < 0)
        return refuse(l, "out of memory for the waves of a workgroup");
    return l->fault.kind == FAULT_NONE ? 0 : -1;
}

/* A workgroup that the caller steps: a worker without a thread, and an engine of its own. */
struct engine_group {
    struct engine own;
    struct engine *engine; /* own, or that of a group of the same launch */
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
    begin_workgroup(&g->worker, index);
    return &g->worker.wg;
}

const struct inst *engine_group_fetch(struct wave *w)
{
    struct code_slots code = code_slots(w->launch->code);
    const struct inst *in = fetch(&code, w);
    uint64_t budget = w->launch->budget;
    if (!in || !budget || w->executed < budget)
        return in;
    wave_fault(w, in, FAULT_BUDGET, 0, "%llu instructions executed",
               (unsigned long long)w->executed);
    return NULL;
}

bool engine_group_step(struct engine_group *g, struct wave *w, const struct inst *in)
{
    step(&g->worker, w, in);
    return w->state != WAVE_FAULTED && w->launch->fault.kind == FAULT_NONE;
}

bool engine_group_release(struct engine_group *g)
{
    uint64_t passed = g->worker.wg.barriers;
    release_barrier(&g->worker.wg);
    return g->worker.wg.barriers != passed;
}

bool engine_group_wait_for_grid(struct engine_group *g) { return wait_for_grid(&g->worker.wg); }

bool engine_group_finish(struct engine_group *g) { return end_workgroup(&g->worker); }

const struct counters *engine_group_counters(const struct engine_group *g)
{
    return &g->worker.counters;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules the waves of a workgroup. By default they behave as if they ran in parallel, each by
 * its own clock; some hand-written kernels depend on this. Other waves only see the effects of
 * instructions with ROW_SHARED. A wave therefore executes all other instructions without regard to
 * the others. Before a shared one it waits until no runnable wave is earlier (by clock, then id).
 * The results are the same as if all instructions were executed in the order of the clocks. The
 * waves change less often.
 */
#include "time_slice.h"

#include <stdatomic.h>
#include <string.h>

#include "parts.h"
#include "spin.h"
#include "straight.h"
#include "wait.h"

/* Instructions of a step: of most slices, and of brief ones. */
#define LONG_STEP 4096u
#define SHORT_STEP 64u
/* Steps of a slice. A long one, of 1 M instructions, is followed by a short one that is watched. */
#define LONG_SLICE 256u
#define SHORT_SLICE 16u
/* Instructions that are executed one by one after run_straight() was false. */
#define STRAIGHT_RETRY 6u
/* Slices after which a workgroup may be one that waits for others, so that the host alternates
 * between them: 32 M instructions, more than workgroups of attention kernels execute. */
#define SLICES_ALONE 64u

/* Returns the next pseudo-random number of 64 bits. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Counts an instruction by its kinds, from which worker_counters() computes the counts. */
static void count(struct worker *k, const struct inst *in)
{
    k->counters.instructions++;
    k->kinds[in->row->flags & ROW_KINDS]++;
}

/* Returns the number of different addresses among the lanes of the access. */
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

/* Adds the bytes of the wave's memory access to *c. Accesses are recorded only if there is an
 * observer. */
static void count_bytes(struct counters *c, const struct wave *w)
{
    const struct mem_access *a = &w->access;
    const uint64_t bytes =
        w->tensor_bytes ? w->tensor_bytes : (uint64_t)distinct_lanes(a) * a->bytes;
    c->load_bytes += a->is_load ? bytes : 0;
    c->store_bytes += a->is_store ? bytes : 0;
}

/* Reports a register that the kernel has not allocated. Always returns false. */
static __attribute__((noinline)) bool report_register(struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
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
 * True if the kernel has allocated all registers of the instruction; reports others. The register
 * file is unified: v[nvgpr + i] is a[i], and hand-written kernels rely on it. Their rows are
 * adjacent. Each name has its own mask of defined lanes.
 */
static inline bool registers_exist(struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    return (in->max_vgpr < (int)(l->nvgpr + l->nagpr) && in->max_agpr < (int)l->nagpr &&
            (!l->nsgpr || in->max_sgpr < (int)l->nsgpr)) ||
           report_register(w, in);
}

/*
 * Applies s_set_gpr_idx_on: adds M0[7:0] to the register numbers of the vector operands that
 * M0[15:12] selects. The source of v_accvgpr_read is among them, since the register file is
 * unified. Sets *moved to `in` with the new registers. False after a report.
 */
static bool index_registers(struct wave *w, const struct inst *in, struct inst *moved)
{
    *moved = *in;
    moved->plain = false;
    struct opnd *operands[4] = {&moved->src[0], &moved->src[1], &moved->src[2], &moved->dst};
    uint32_t m0 = w->sgpr[SGPR_M0], nvgpr = w->launch->nvgpr, nagpr = w->launch->nagpr;
    if (!m0_defined(w, in, 0xf0ff, "the index of registers"))
        return false;
    for (unsigned i = 0; i < 4; i++) {
        struct opnd *o = operands[i];
        bool is_agpr = o->kind == OPND_AGPR;
        if (!(m0 >> (12 + i) & 1) || (o->kind != OPND_VGPR && !is_agpr))
            continue;
        o->reg = (uint16_t)(o->reg + (m0 & 0xff));
        bool exists = o->reg + o->dwords <= (is_agpr ? nagpr : nvgpr + nagpr);
        if (!is_agpr && o->reg + o->dwords > 256) { /* v256 and above have names of AGPRs only */
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
    if (in->row->flags & ROW_DST_IS_SRC) { /* such instructions read the destination, now at its new
                                              number */
        struct opnd *read = &moved->src[in->row->src[3] ? 3 : 2];
        read->kind = moved->dst.kind;
        read->reg = moved->dst.reg;
    }
    return true;
}

/* Adds `by` to the register number of a VGPR operand of V_MOVREL*. False after a report. */
static bool move_register(struct wave *w, const struct inst *in, struct opnd *o, uint32_t by)
{
    const uint32_t reg = o->reg + by, nvgpr = w->launch->nvgpr;
    if (o->kind != OPND_VGPR || reg >= nvgpr) {
        wave_fault(w, in, FAULT_REGISTER, 0, "relative register v%u, the kernel has %u", reg,
                   nvgpr);
        return false;
    }
    o->reg = (uint16_t)reg;
    return true;
}

/* Sets *moved to `in`, V_MOVREL* or V_SWAPREL, with the register numbers that M0 gives (RDNA4 ISA,
 * 16.8). False after a report. */
static bool relative_registers(struct wave *w, const struct inst *in, struct inst *moved)
{
    const unsigned which = in->row->arg;
    const uint32_t m0 = w->sgpr[SGPR_M0], mask = which & RELATIVE_FIELDS ? 0x3ff : UINT32_MAX;
    *moved = *in;
    moved->plain = false;
    if (!m0_defined(w, in, which & RELATIVE_FIELDS ? 0x3ff03ff : UINT32_MAX, "the register index"))
        return false;
    return (!(which & RELATIVE_SRC) || move_register(w, in, &moved->src[0], m0 & mask)) &&
           (!(which & RELATIVE_DST) ||
            move_register(w, in, &moved->dst, which & RELATIVE_FIELDS ? m0 >> 16 & mask : m0));
}

/* Instructions that S_SETVSKIP skips (CDNA3 ISA, SOPC). */
#define VECTOR_ROWS (ROW_VALU | ROW_MFMA | ROW_VMEM | ROW_LDS)

/* Adds the instruction's clocks to the wave's. A matrix instruction overlaps the ones after it,
 * until the next matrix instruction. */
static void advance(struct wave *w, const struct inst *in)
{
    if (in->matrix_passes) {
        const uint64_t start = w->clock > w->matrix_free ? w->clock : w->matrix_free;
        w->matrix_free = start + 4u * in->matrix_passes;
        w->clock = start;
    }
    w->clock += in->clocks;
}

/* True if the wave skips vector instructions (S_SETVSKIP), and this is one. */
static bool is_skipped(const struct wave *w, const struct inst *in)
{
    return w->mode & MODE_VSKIP && in->row->flags & VECTOR_ROWS;
}

/* Waits until the counters of `in` can count one more operation. Call it before waves are compared
 * by clock and before `in` starts. */
static void make_room(struct wave *w, const struct inst *in)
{
    if (w->outstanding && in->row && in->row->wait && !is_skipped(w, in))
        wave_make_room(w, in);
}

/* Calls the checks that have fetched(). False if one has stopped the wave. */
static inline bool checks_fetched(struct wave *w, const struct inst *in)
{
    for (unsigned left = w->wg->fetches; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        if (!simulator_parts.checks[i]->fetched(w->wg->check[i], w, in))
            return false;
    }
    return true;
}

/* Moves the wave's pc, clock and trail past the instruction, which is executed next. */
static inline void pass(struct wave *w, const struct inst *in)
{
    w->pc += in->size;
    w->trail[w->executed++ % WAVE_TRAIL] = (uint32_t)(in->offset / 4);
    advance(w, in);
}

/* True if step_alone() suffices for the instruction unless it is observed: it accesses no memory,
 * and nothing in the wave's state changes how it is executed. */
static inline bool is_alone(const struct wave *w, const struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t never = ROW_VMEM | ROW_SMEM | ROW_LDS | (uint32_t)ROW_RELATIVE;
    return row && !(row->flags & never) && !row->wait && !w->outstanding && !w->spin &&
           !(w->mode & (MODE_VSKIP | MODE_GPR_IDX_EN));
}

/* Executes an instruction for which is_alone() is true. */
static inline void step_alone(struct worker *k, struct wave *w, const struct inst *in)
{
    pass(w, in);
    count(k, in);
    if (registers_exist(w, in) && checks_fetched(w, in))
        simulator_parts.execute(w, in);
}

/* Returns how many of the first `n` instructions of `s` precede the first one in which a check
 * finds something. 0 if several checks have fetched(), or one has no fetched_straight(). */
static unsigned checked_straight(struct wave *w, const struct straight *s, unsigned n)
{
    for (unsigned left = w->wg->fetches; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        const struct check *c = simulator_parts.checks[i];
        /* A second check could end earlier, after the first one has counted all instructions. */
        if (left & (left - 1) || !c->fetched_straight)
            return 0;
        n = c->fetched_straight(w->wg->check[i], w, s, n);
    }
    return n;
}

/* Counts the first `n` instructions of `s`, which are executed next, and moves the wave past
 * them. */
static void pass_straight(struct worker *k, struct wave *w, const struct straight *s, unsigned n)
{
    unsigned vector = 0; /* number of vector instructions; the others are scalar */
    uint64_t clocks = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct inst *in = s->in[i];
        w->trail[(w->executed + i) % WAVE_TRAIL] = (uint32_t)(in->offset / 4);
        vector += (in->row->flags & ROW_KINDS) == ROW_VALU;
        clocks += in->clocks;
    }
    k->counters.instructions += n;
    k->kinds[ROW_VALU] += vector;
    k->kinds[ROW_SALU] += n - vector;
    w->executed += n;
    w->clock += clocks;
    w->pc += s->in[n - 1]->offset + s->in[n - 1]->size - s->in[0]->offset;
}

/* Executes the straight-line code that begins with `in`, if it ends within the time slice's step.
 * The wave may execute `budget` instructions in total. False if nothing was executed. */
static bool run_straight(struct worker *k, struct wave *w, const struct inst *in, uint64_t budget)
{
    const struct straight *s = straight_of(w->launch->code, in);
    const uint64_t left = k->step - (w->executed & k->step);
    if (s->n < 2 || s->n > left || s->n > budget - w->executed || !straight_applies(w, s))
        return false;
    const unsigned n = checked_straight(w, s, s->n);
    if (!n)
        return false;
    pass_straight(k, w, s, n);
    simulator_parts.straight(w, s->in, n);
    return true;
}

void slice_step(struct worker *k, struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    const struct inst *run = in;
    struct inst moved;
    enum wait_verdict verdict = WAIT_FINE;
    make_room(w, in);
    pass(w, in);
    w->access.space = ACCESS_NONE;
    w->tensor_bytes = 0;
    if (in->row) {
        if (is_skipped(w, in))
            return;
        count(k, in);
        if (!registers_exist(w, in))
            return;
        if (w->mode & MODE_GPR_IDX_EN && in->row->flags & ROW_VALU) {
            if (!index_registers(w, in, &moved))
                return;
            run = &moved;
        }
        if (in->row->flags & (uint32_t)ROW_RELATIVE) {
            if (!relative_registers(w, in, &moved))
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
    if (w->spin)
        spin_settle(w->spin);
    if (verdict == WAIT_STALE)
        wave_undefine_results(w, run);
    if (w->access.space == ACCESS_GLOBAL || w->access.space == ACCESS_SCALAR)
        count_bytes(&k->counters, w);
    if (w->wg->unsettled)
        checks_settle(w, in);
    if (l->observer && l->observer->inst && w->state != WAVE_FAULTED)
        l->observer->inst(l->observer->ctx, w, in, &w->access);
}

/* Returns the decoded instruction at the wave's program counter. NULL after a fault. */
static inline const struct inst *fetch(const struct code_slots *code, struct wave *w)
{
    uint64_t offset = w->pc - code->address;
    const struct inst *in = NULL;
    if (offset / 4 < code->count && offset % 4 == 0)
        in = atomic_load_explicit(&code->slots[offset / 4], memory_order_acquire);
    if (!in)
        in = code_inst(w->launch->code, offset);
    if (w->vgpr_msb && in && in->takes_msb)
        in = code_variant(w->launch->code, in, w->vgpr_msb);
    if (!in)
        wave_fault(w, NULL, FAULT_DECODE, 0, "the program counter 0x%llx lies outside of the code",
                   (unsigned long long)w->pc);
    return in;
}

const struct inst *slice_fetch(const struct code_slots *code, struct wave *w)
{
    return fetch(code, w);
}

/* True if wave a executes its next instruction before wave b. */
static bool before(const struct wave *a, const struct wave *b)
{
    return a->clock < b->clock || (a->clock == b->clock && a->id < b->id);
}

/* Returns `first`, or if it is NULL the running wave with the earliest clock. Sets *second to the
 * earliest of the other running waves. Either is NULL if there is none. */
static struct wave *earliest_waves(const struct workgroup *wg, struct wave *first,
                                   struct wave **second)
{
    const struct wave *const given = first;
    *second = NULL;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w == given || w->state != WAVE_RUNNING)
            continue;
        if (!first || (!given && before(w, first))) {
            *second = first;
            first = w;
        } else if (!*second || before(w, *second)) {
            *second = w;
        }
    }
    return first;
}

/* Returns a random running wave. NULL: none is running. */
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

/* Returns the wave to run next; NULL if none can run. Sets *other to the earliest of the others,
 * NULL if there is none. */
static struct wave *next_wave(struct worker *k, struct wave **other)
{
    const bool seeded = k->wg.launch->order == ORDER_SEEDED;
    return earliest_waves(&k->wg, seeded ? random_wave(k) : NULL, other);
}

/*
 * Runs `w` until it leaves the running state or reaches a shared instruction before which `other`
 * must run. In seeded order it stops after a random number of shared instructions instead.
 */
static void run_wave(struct worker *k, struct wave *w, const struct wave *other)
{
    const struct launch *l = w->launch;
    bool seeded = l->order == ORDER_SEEDED;
    uint64_t shared_left = seeded ? next_random(&k->random) % 8 : 0;
    uint64_t budget = l->budget ? l->budget : UINT64_MAX;
    const uint64_t opened = w->wg->barriers;
    const bool observed = l->observer && l->observer->inst;
    /* straight-line code needs waves of 64 lanes */
    const bool tries = !observed && w->all == UINT64_MAX;
    uint64_t retry = 0; /* value of w->executed at which straight-line code is tried again */
    while (w->state == WAVE_RUNNING) {
        const struct inst *in = fetch(&k->code, w);
        if (!in)
            return;
        if (w->wg->barriers != opened && in->row && in->row->flags & ROW_SHARED)
            return; /* w has opened a barrier, and a wave that it resumed may be earlier than w */
        if (in->row && in->row->flags & ROW_SHARED && other) {
            make_room(w, in);
            if (seeded ? shared_left-- == 0 : before(other, w))
                return;
        }
        if (w->executed >= budget) {
            wave_fault(w, in, FAULT_BUDGET, 0, "%llu instructions executed",
                       (unsigned long long)w->executed);
            return;
        }
        if (tries && w->executed >= retry) {
            if (run_straight(k, w, in, budget))
                continue;
            retry = in->straight->n < 2 ? 0 : w->executed + STRAIGHT_RETRY;
        }
        const uint64_t at = w->pc;
        if (!observed && is_alone(w, in)) {
            step_alone(k, w, in);
        } else {
            slice_step(k, w, in);
            if (w->spin && w->pc <= at)
                spin_went_back(k, w);
        }
        if ((w->executed & k->step) == 0 &&
            (--k->steps_left == 0 || atomic_load_explicit(&k->engine->stop, memory_order_relaxed)))
            return;
    }
}

/* True if all work-items of the wave returned before they did anything, as in `if (i >= n)
 * return;`. A hardware barrier counts only waves that have not ended, so it allows this. */
static bool left_early(const struct wave *w) { return w->went_round && !w->acted; }

/* Reports that some waves ended while `waiting` waves wait at a barrier. */
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

/* True if the wave has signalled the workgroup's barrier and has not reached its wait. The barrier
 * may open without it. */
static bool has_signalled(const struct workgroup *wg, const struct wave *w)
{
    return w->signalled && w->signalled_at == wg->opened && w->state != WAVE_AT_BARRIER &&
           w->state != WAVE_ENDED;
}

void slice_release(struct workgroup *wg)
{
    uint64_t clock = wg->signal_clock;
    uint32_t waiting = 0, ended = 0;
    const struct wave *missing = NULL;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        const struct wave *w = wg->waves[i];
        waiting += w->state == WAVE_AT_BARRIER || has_signalled(wg, w);
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
        w->signalled = false;
        w->clock = clock;
        first = first ? first : w;
    }
    wg->at_barrier = 0;
    wg->barriers++;
    wg->opened++;
    wg->opened_clock = clock;
    lds_deliver(wg, clock);
    checks_barrier(wg);
    if (first && missing && wg->launch->checks & CHECK_BARRIER)
        report_unequal(wg, first, missing, waiting);
}

/* Reports that no wave of the workgroup can run. */
static void report_deadlock(struct workgroup *wg)
{
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w->state == WAVE_ENDED)
            continue;
        wave_fault(w, NULL, FAULT_DEADLOCK, 0, "no wave can run: wave %u is %s", w->id,
                   w->state == WAVE_AT_BARRIER         ? "at a barrier"
                   : w->state == WAVE_AT_GRID_BARRIER  ? "at a barrier of the grid or cluster"
                   : w->state == WAVE_AT_NAMED_BARRIER ? "at a named barrier"
                                                       : "halted");
        return;
    }
}

bool slice_wait_for_grid(struct workgroup *wg)
{
    bool waits = false;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *w = wg->waves[i];
        if (w->state != WAVE_AT_GRID_BARRIER)
            continue;
        if (w->grid_barrier->opened == w->grid_opened) {
            waits = true;
            continue;
        }
        w->state = WAVE_RUNNING;
        checks_grid_pass(w);
    }
    return waits;
}

void slice_begin(struct worker *k, uint64_t index)
{
    const struct launch *l = k->engine->launch;
    worker_begin(k, index);
    if (l->observer && l->observer->workgroup_begin)
        l->observer->workgroup_begin(l->observer->ctx, &k->wg);
    k->busy = true;
    k->paused = false;
    k->slices = 0;
}

bool slice_end(struct worker *k)
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

bool slice_run(struct worker *k, bool brief)
{
    struct workgroup *wg = &k->wg;
    const struct launch *l = k->engine->launch;
    const bool waits = slice_wait_for_grid(wg);
    const bool watched = !brief && (k->paused || k->slices % 2 == 1);
    k->steps_left = brief ? 1 : watched || launch_is_resident(l) ? SHORT_SLICE : LONG_SLICE;
    k->step = (brief ? SHORT_STEP : LONG_STEP) - 1;
    if (watched)
        spin_watch(k);
    else
        spin_leave(k);
    while (k->steps_left > 0) {
        struct wave *other, *w = next_wave(k, &other);
        if (!w) { /* another workgroup may have opened the cluster's barrier since */
            slice_wait_for_grid(wg);
            w = next_wave(k, &other);
        }
        if (!w)
            break;
        run_wave(k, w, other);
        if (atomic_load_explicit(&k->engine->stop, memory_order_relaxed) ||
            w->state == WAVE_FAULTED)
            return false;
        if (w->state != WAVE_RUNNING)
            slice_release(wg);
        if (launch_faulted(l))
            return false;
    }
    k->slices += !brief;
    k->paused |= k->slices > SLICES_ALONE || launch_is_resident(l);
    if (k->steps_left == 0 || waits || slice_wait_for_grid(wg))
        return true;
    return slice_end(k);
}

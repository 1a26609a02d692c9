/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gfx1250's split barriers: of a workgroup, of some waves of a workgroup (named barriers), and of a
 * cluster of workgroups. Source: CDNA5 ISA, 5.6 and the pseudo-code of S_BARRIER_*. A wave may pass
 * one wait for each opening of the barrier, at once if the barrier has opened before the wait.
 *
 * An opening of a named barrier orders all waves of the workgroup for the race check. These include
 * waves that are not members, so the check may miss their races.
 */
#include "check.h"
#include "exec_salu.h"
#include "isa.h"
#include "tables.h"
#include "time_slice.h"
#include "wait.h"

/* Numbers of barriers in the operand. Named barriers are numbered from 1. */
enum {
    BARRIER_CLUSTER_TRAP = -4,
    BARRIER_CLUSTER = -3,
    BARRIER_TRAP = -2,
    BARRIER_WORKGROUP = -1,
    BARRIER_NONE = 0,
};

/* A decoded operand: the barrier's number, and from M0 also a count of members. */
struct barrier_operand {
    int32_t id;
    uint8_t members : 7; /* new number of member waves; 0: the number does not change */
};

/* Decodes the operand of `in`: SIMM16, an inline constant, or M0. */
static struct barrier_operand operand(struct wave *w, const struct inst *in)
{
    const struct opnd *o = &in->src[0];
    const uint32_t value = (uint32_t)src_scalar(w, o);
    if (o->kind == OPND_NONE)
        return (struct barrier_operand){.id = (int16_t)in->simm16};
    if (o->kind != OPND_SGPR)
        return (struct barrier_operand){.id = (int32_t)value};
    return (struct barrier_operand){(int32_t)(value & 31), value >> 16 & 127};
}

/* Returns named barrier `id` of the wave's workgroup; NULL if the workgroup lacks it. */
static struct named_barrier *named(struct wave *w, int32_t id)
{
    const bool exists = w->wg->nwaves > 1 && id > 0 && id <= (int32_t)w->launch->named_barriers;
    return exists ? &w->wg->named[id] : NULL;
}

/* Returns the barrier of the wave's cluster; NULL if the launch has no clusters. */
static struct grid_barrier *cluster(struct wave *w)
{
    return w->launch->cluster[0] ? &w->launch->cluster_barrier[w->wg->cluster] : NULL;
}

/* The functions from here on signal barriers. */

/* Signals the barrier of the wave's workgroup. It opens when all waves that have not ended have
 * signalled. */
static void signal_workgroup(struct wave *w, const struct inst *in)
{
    struct workgroup *wg = w->wg;
    if (w->signalled)
        wave_finding(w, in, FAULT_BARRIER, 0, "the wave signals the barrier again before its wait");
    w->signalled = true;
    w->signalled_at = wg->opened;
    if (wg->signal_clock < w->clock)
        wg->signal_clock = w->clock;
    slice_release(wg);
}

/* Opens the barrier at the largest clock of its signals and of `w`, and resumes the waves that wait
 * at it. */
static void open_named(struct wave *w, int32_t id)
{
    struct workgroup *wg = w->wg;
    struct named_barrier *b = &wg->named[id];
    b->opened_clock = b->signal_clock > w->clock ? b->signal_clock : w->clock;
    b->signals = 0;
    b->signal_clock = 0;
    b->opened++;
    wg->barriers++;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        struct wave *other = wg->waves[i];
        if (other->state != WAVE_AT_NAMED_BARRIER || other->named != id)
            continue;
        other->state = WAVE_RUNNING;
        other->named_seen = b->opened;
        if (other->clock < b->opened_clock)
            other->clock = b->opened_clock;
    }
    checks_barrier(wg);
}

/* Counts a signal to a named barrier. The barrier opens when it has as many signals as members. */
static void signal_named(struct wave *w, struct named_barrier *b, struct barrier_operand o)
{
    if (o.members)
        b->members = o.members;
    if (b->signal_clock < w->clock)
        b->signal_clock = w->clock;
    if (++b->signals == b->members)
        open_named(w, o.id);
}

/* Counts a workgroup's signal to the cluster's barrier. It opens when all workgroups have
 * signalled. */
static void signal_cluster(struct wave *w, struct grid_barrier *b)
{
    checks_grid_arrive(w);
    if (b->left) {
        b->left--;
        return;
    }
    const uint32_t *n = w->launch->cluster;
    b->left = n[0] * n[1] * n[2] - 1;
    b->opened_tick = w->tick;
    b->opened++;
}

/* Signals the barrier that `o` names. Has no effect if that barrier does not exist or its workgroup
 * has one wave. */
static void signal(struct wave *w, const struct inst *in, struct barrier_operand o)
{
    struct named_barrier *b = named(w, o.id);
    if (o.id == BARRIER_WORKGROUP && w->wg->nwaves > 1)
        signal_workgroup(w, in);
    else if (o.id == BARRIER_CLUSTER && cluster(w))
        signal_cluster(w, cluster(w));
    else if (b)
        signal_named(w, b, o);
}

/* S_BARRIER_SIGNAL: signals the barrier that the operand names. */
static void exec_signal(struct wave *w, const struct inst *in) { signal(w, in, operand(w, in)); }

/* True if no wave has signalled the barrier since its last opening. */
static bool is_unsignalled(struct wave *w, struct barrier_operand o)
{
    const struct named_barrier *b = named(w, o.id);
    if (b)
        return b->signals == 0;
    for (uint32_t i = 0; i < w->wg->nwaves; i++) {
        const struct wave *other = w->wg->waves[i];
        if (other->signalled && other->signalled_at == w->wg->opened)
            return false;
    }
    return true;
}

/* S_BARRIER_SIGNAL_ISFIRST: signals a barrier and sets SCC if this wave is the first since the last
 * opening. KMcnt counts the instruction until SCC can be read (CDNA5 ISA, table 22); LLVM's
 * SIInsertWaitcnts waits for it too. */
static void exec_signal_isfirst(struct wave *w, const struct inst *in)
{
    const struct barrier_operand o = operand(w, in);
    if (o.id == BARRIER_CLUSTER) {
        wave_fault(w, in, FAULT_TRAP, 0, "S_BARRIER_SIGNAL_ISFIRST on a cluster's barrier");
        return;
    }
    if (w->wg->nwaves < 2 || (o.id != BARRIER_WORKGROUP && !named(w, o.id))) {
        if (!code_isa(w->launch->code)->clusters) { /* RDNA4 ISA, S_BARRIER_SIGNAL_ISFIRST */
            w->scc = 0;
            w->scc_valid = 1;
        }
        return;
    }
    w->scc = is_unsignalled(w, o);
    w->scc_valid = 1;
    wave_issue_scc(w, in);
    signal(w, in, o);
}

/* The functions from here on wait for barriers. */

/* Suspends the wave unless the workgroup's barrier has opened since the wave signalled it. */
static void wait_workgroup(struct wave *w, const struct inst *in)
{
    if (w->launch->checks & CHECK_DIVERGE)
        salu_check_divergence(w, in);
    if (!w->signalled) {
        wave_fault(w, in, FAULT_BARRIER, 0,
                   "the wave waits at a barrier that it has not signalled");
        return;
    }
    if (w->signalled_at == w->wg->opened) {
        w->state = WAVE_AT_BARRIER;
        return;
    }
    w->signalled = false; /* the barrier has opened since the signal */
    if (w->clock < w->wg->opened_clock)
        w->clock = w->wg->opened_clock;
}

/* Suspends the wave unless the cluster's barrier has opened since the wave last passed it. */
static void wait_cluster(struct wave *w, const struct grid_barrier *b)
{
    if (b->opened != w->cluster_seen) {
        w->cluster_seen = b->opened;
        checks_grid_pass(w);
        return;
    }
    w->cluster_seen = b->opened + 1; /* the opening that resumes it */
    w->grid_barrier = b;
    w->grid_opened = b->opened;
    w->state = WAVE_AT_GRID_BARRIER;
}

/* Suspends the wave unless the named barrier `b` has opened since the wave last passed it.
 * open_named() resumes the wave. */
static void wait_named(struct wave *w, const struct named_barrier *b)
{
    if (b->opened == w->named_seen)
        w->state = WAVE_AT_NAMED_BARRIER;
    else if (w->clock < b->opened_clock)
        w->clock = b->opened_clock;
    w->named_seen = b->opened;
}

/* S_BARRIER_WAIT: waits at the barrier that the operand names. Has no effect if that barrier does
 * not exist or its workgroup has one wave. */
static void exec_wait(struct wave *w, const struct inst *in)
{
    const int32_t id = (int16_t)in->simm16;
    if (id == BARRIER_WORKGROUP && w->wg->nwaves > 1)
        wait_workgroup(w, in);
    else if (id == BARRIER_CLUSTER && cluster(w))
        wait_cluster(w, cluster(w));
    else if (id > 0 && named(w, w->named)) /* any positive number: the named barrier that the wave
                                              has joined */
        wait_named(w, named(w, w->named));
}

/* The functions from here on execute the other instructions of named barriers. */

/* S_BARRIER_INIT: sets the signals of a named barrier to 0, and its number of members unless the
 * operand's is 0. */
static void exec_init(struct wave *w, const struct inst *in)
{
    const struct barrier_operand o = operand(w, in);
    struct named_barrier *b = named(w, o.id);
    if (!b)
        return;
    if (o.members)
        b->members = o.members;
    b->signals = 0;
    b->signal_clock = 0;
}

/* S_BARRIER_JOIN: makes the named barrier the one at which the wave's waits stop; number 0:
 * none. */
static void exec_join(struct wave *w, const struct inst *in)
{
    const struct barrier_operand o = operand(w, in);
    const struct named_barrier *b = named(w, o.id);
    if (!b && o.id != BARRIER_NONE)
        return;
    w->named = (uint8_t)o.id;
    w->named_seen = b ? b->opened : 0;
}

/* S_BARRIER_LEAVE: ends the wave's membership of its named barrier. SCC is set if no member
 * remains, and can be read after a wait for KMcnt (CDNA5 ISA, S_BARRIER_LEAVE). */
static void exec_leave(struct wave *w, const struct inst *in)
{
    struct named_barrier *b = named(w, w->named);
    const int32_t id = w->named;
    w->named = BARRIER_NONE;
    if (b)
        b->members--;
    w->scc = b && b->members == 0;
    w->scc_valid = 1;
    wave_issue_scc(w, in);
    if (b && b->signals && b->signals == b->members)
        open_named(w, id);
}

/* S_GET_BARRIER_STATE: reads a barrier's state. Bit 0 is 1, members begin at bit 4, and signals at
 * bit 16. From bit 24 on is the number of named barriers divided by 4. */
static void exec_state(struct wave *w, const struct inst *in)
{
    const struct barrier_operand o = operand(w, in);
    const struct named_barrier *b = named(w, o.id);
    uint32_t members = w->wg->nwaves, signals = 0;
    for (uint32_t i = 0; i < w->wg->nwaves; i++)
        signals += w->wg->waves[i]->signalled && w->wg->waves[i]->signalled_at == w->wg->opened;
    if (b) {
        members = b->members;
        signals = b->signals;
    }
    salu_write(w, &in->dst, 1 | members << 4 | signals << 16 | w->launch->named_barriers / 4 << 24,
               UINT32_MAX);
    wave_issue(w, in, WAIT_KM, OPND_SGPR, in->dst.reg, in->dst.dwords, true);
}

/* S_WAKEUP_BARRIER: has no effect. It ends other waves' S_SLEEP, which takes no time here. */
static void exec_wakeup(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

#define BARRIER(op, fn)              \
    {.name = "s_" #op,               \
     .exec = fn,                     \
     .src = {T_I32},                 \
     .flags = ROW_SALU | ROW_SHARED, \
     .targets = GFX1250}
#define SOPP(op, fn) \
    {.name = "s_" #op, .exec = fn, .flags = ROW_SALU | ROW_SHARED, .targets = GFX1250}

const struct op_row exec_barrier_rows[] = {
    BARRIER(barrier_signal, exec_signal),
    BARRIER(barrier_init, exec_init),
    BARRIER(barrier_join, exec_join),
    BARRIER(wakeup_barrier, exec_wakeup),
    SOPP(barrier_wait, exec_wait),
    {.name = "s_barrier_signal_isfirst",
     .exec = exec_signal_isfirst,
     .src = {T_I32},
     .flags = ROW_SALU | ROW_SHARED,
     .wait = 1 + WAIT_KM,
     .targets = GFX1250},
    {.name = "s_barrier_leave",
     .exec = exec_leave,
     .flags = ROW_SALU | ROW_SHARED,
     .wait = 1 + WAIT_KM,
     .targets = GFX1250},
    {.name = "s_get_barrier_state",
     .exec = exec_state,
     .dst = T_B32,
     .src = {T_I32},
     .flags = ROW_SMEM | ROW_SHARED,
     .wait = 1 + WAIT_KM,
     .targets = GFX1250},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "time_cu.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "isa.h"
#include "row.h"
#include "time_cast.h"
#include "time_lds.h"
#include "time_wave.h"
#include "time_work.h"

#define NEVER UINT64_MAX
#define LDS_FIFO_MAX 64
#define FETCH_LINE 128
#define LDS_SEGMENTS 8

/* Clocks from which the ports of a SIMD are free, and its number of waves that have not ended. */
struct simd {
    uint64_t valu_free, matrix_free, scalar_free, memory_free;
    enum hipsim_stall valu_cause;
    unsigned waves;
};

/* The LDS queue of two SIMDs. */
struct lds_pair {
    uint64_t bus_free[2]; /* clocks at which the buses from and to the LDS are free */
    /* clocks at which the latest requests in the FIFO start; a ring */
    uint64_t started[LDS_FIFO_MAX];
    uint64_t requests;
};

/* A modelled compute unit. A group is a slot for a workgroup. */
struct time_cu {
    struct launch *launch;
    struct time_code *code;
    const struct time_params *p;
    enum gfx_target target;
    const struct isa *isa;
    struct engine_group **groups;
    unsigned ngroups;
    unsigned *left;   /* number of waves that have not ended, by group (slot of a workgroup) */
    uint64_t *opened; /* clock from which waves pass the group's barrier, by group */
    unsigned waves_per_group;
    struct time_wave *waves; /* waves; group g has those from g * waves_per_group on */
    unsigned nwaves;
    struct time_wave *best; /* wave that issues next; NULL: not computed */
    struct simd simds[SIMDS];
    struct lds_pair pairs[SIMDS / 2];
    /* Clock from which each LDS segment is free. */
    uint64_t lds_free[LDS_SEGMENTS];
    struct time_memory memory;
    struct time_cache *icache;
    uint64_t *line_ready; /* clock at which a code line arrives in the instruction cache, by line */
    bool *fetched;        /* true: the line was requested, by code line */
    size_t nfetched;
    bool warm_code;
    uint64_t end;
    const struct time_sink *sink;
    /* cache lines of the tensor copy that issues; n is 0 for other instructions */
    struct tensor_lines lines;
    bool settled; /* true: the instruction has set completion times of other waves */
    struct time_cu_result result;
};

/* Returns the instruction's timing, which is computed at first use. NULL: no memory. */
static struct time_op *op_of(struct time_cu *cu, const struct inst *in)
{
    struct time_op **slot = &cu->code->ops[in->offset / 4];
    if (!*slot) {
        *slot = malloc(sizeof(**slot));
        if (*slot)
            **slot = time_op_make(cu->p, cu->target, in);
    }
    return *slot;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Raises *t to the clock `to` and sets its cause, unless *t is later. */
static void raise_to(uint64_t *t, enum hipsim_stall *cause, uint64_t to, enum hipsim_stall why)
{
    if (to > *t) {
        *t = to;
        *cause = why;
    }
}

/* Returns the clock from which the LDS queue of the SIMD pair has room. */
static uint64_t fifo_room(const struct time_cu *cu, const struct lds_pair *pair)
{
    unsigned size = (unsigned)cu->p->lds_fifo;
    size = size < 1 ? 1 : size > LDS_FIFO_MAX ? LDS_FIFO_MAX : size;
    return pair->requests < size ? 0 : pair->started[(pair->requests - size) % LDS_FIFO_MAX];
}

/* Raises *t to the clock from which the ports of the wave's next instruction are free, and sets
 * *cause. */
static void port_times(struct time_cu *cu, const struct time_wave *tw, uint64_t *t,
                       enum hipsim_stall *cause)
{
    const struct simd *s = &cu->simds[tw->simd];
    const struct time_op *op = tw->op;
    switch ((enum time_unit)op->unit) {
    case UNIT_MATRIX:
        raise_to(t, cause, s->valu_free, s->valu_cause);
        raise_to(t, cause, s->matrix_free, HIPSIM_STALL_MATRIX);
        break;
    case UNIT_VALU:
        raise_to(t, cause, s->valu_free, s->valu_cause);
        if (op->kind != KIND_PACKED_F32 || cu->p->packed_f32_stalls <= 0)
            break;
        raise_to(t, cause, s->matrix_free, HIPSIM_STALL_MATRIX);
        if (tw->matrix_end)
            raise_to(t, cause, tw->matrix_end + (uint64_t)cu->p->packed_f32_hazard,
                     HIPSIM_STALL_SHADOW);
        break;
    case UNIT_SCALAR:
    case UNIT_BRANCH: raise_to(t, cause, s->scalar_free, HIPSIM_STALL_SCALAR); break;
    case UNIT_SMEM:
        raise_to(t, cause, s->scalar_free, HIPSIM_STALL_SCALAR);
        raise_to(t, cause, time_counter_room(cu->isa, tw, WAIT_LGKM), HIPSIM_STALL_COUNTER);
        break;
    case UNIT_LDS:
        if (op->wide_store) /* the data of a wide store cannot leave during the wave's own matrix
                               instruction */
            raise_to(t, cause, tw->matrix_end, HIPSIM_STALL_MATRIX);
        if (tw->matrix_end && cu->p->matrix_lds_cycles > 0)
            raise_to(t, cause, tw->matrix_end + (uint64_t)cu->p->matrix_lds_cycles,
                     HIPSIM_STALL_MATRIX);
        raise_to(t, cause, s->memory_free, HIPSIM_STALL_LDS_QUEUE);
        raise_to(t, cause, fifo_room(cu, &cu->pairs[tw->simd / 2]), HIPSIM_STALL_LDS_QUEUE);
        raise_to(t, cause, time_counter_room(cu->isa, tw, WAIT_LGKM), HIPSIM_STALL_COUNTER);
        break;
    case UNIT_VMEM:
        raise_to(t, cause, s->memory_free, HIPSIM_STALL_VMEM_QUEUE);
        if (op->kind != KIND_TENSOR)
            raise_to(t, cause, time_memory_accepts(&cu->memory), HIPSIM_STALL_VMEM_QUEUE);
        raise_to(t, cause, time_counter_room(cu->isa, tw, WAIT_VM), HIPSIM_STALL_COUNTER);
        break;
    default: break;
    }
}

/* Returns the stall that a wait for `counter` (enum wait_counter) causes. */
static enum hipsim_stall stall_of(unsigned counter)
{
    return counter == WAIT_LGKM || counter == WAIT_KM ? HIPSIM_STALL_WAIT_LDS
                                                      : HIPSIM_STALL_WAIT_VMEM;
}

/* Returns the clock at which the wave's next instruction can issue. Sets *cause to what delays
 * it. */
static uint64_t earliest(struct time_cu *cu, const struct time_wave *tw, enum hipsim_stall *cause)
{
    const struct time_op *op = tw->op;
    uint64_t t = tw->came;
    *cause = HIPSIM_STALL_NONE;
    raise_to(&t, cause, tw->ready, tw->ready_cause);
    raise_to(&t, cause, tw->fetched, HIPSIM_STALL_FETCH);
    if (tw->result_end > t)
        raise_to(&t, cause, time_operands_ready(cu->p, tw, op), HIPSIM_STALL_RESULT);
    if (op->kind == KIND_WAITCNT) {
        for (unsigned c = 0; c < WAIT_COUNTERS; c++)
            if (op->wait[c] != UINT16_MAX && c != WAIT_EXP)
                raise_to(&t, cause, time_counter_at(&tw->counters[c], op->wait[c]), stall_of(c));
        return t;
    }
    if (op->kind == KIND_END) { /* the workgroup's resources are free only when its stores are in
                                   memory */
        raise_to(&t, cause, time_counter_at(&tw->counters[WAIT_VM], 0), HIPSIM_STALL_WAIT_VMEM);
        raise_to(&t, cause, time_counter_at(&tw->counters[WAIT_STORE], 0), HIPSIM_STALL_WAIT_VMEM);
    }
    port_times(cu, tw, &t, cause);
    return t;
}

/* True if the code line is in the instruction cache. With warm code the first access also hits, as
 * long as all accessed lines fit in the cache. */
static bool has_code(struct time_cu *cu, uint64_t line)
{
    if (time_cache_touch(cu->icache, line * FETCH_LINE))
        return true;
    const bool first = !cu->fetched[line];
    cu->fetched[line] = true;
    const double bytes = (double)(cu->nfetched += first) * FETCH_LINE;
    return first && cu->warm_code && bytes <= cu->p->icache_bytes;
}

/* Loads the code line of the wave's next instruction at clock `now`; a miss also loads the next
 * line. */
static void fetch_line(struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    uint64_t line = tw->next->offset / FETCH_LINE;
    uint64_t lines = (code_size(cu->code->code) + FETCH_LINE - 1) / FETCH_LINE;
    if (line == tw->line)
        return;
    tw->line = line;
    for (uint64_t l = line; l <= line + 1 && l < lines; l++)
        if (!has_code(cu, l))
            cu->line_ready[l] = now + (uint64_t)cu->p->ifetch_latency;
    tw->fetched = cu->line_ready[line];
}

/* Loads fetch windows into the wave's instruction buffer. An instruction in two windows waits for
 * the second one. */
static void fetch_window(struct time_cu *cu, struct time_wave *tw)
{
    const uint64_t window = (uint64_t)cu->p->fetch_bytes;
    const struct inst *in = tw->next;
    if (window == 0 || in->offset % window + in->size <= window)
        return;
    const bool jumped = in->offset != tw->expected;
    const double late = jumped ? cu->p->branch_straddle_cycles : cu->p->straddle_cycles;
    tw->fetched = later(tw->fetched, later(tw->came, jumped ? tw->ready : 0) + (uint64_t)late);
}

/* Fetches the wave's next instruction, with its cost. False after a fault or without memory. */
static bool fetch_next(struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    tw->next = engine_group_fetch(tw->w);
    if (!tw->next)
        return false;
    tw->op = op_of(cu, tw->next);
    if (!tw->op)
        return false;
    fetch_line(cu, tw, now);
    fetch_window(cu, tw);
    tw->expected = tw->next->offset + tw->next->size;
    tw->at = later(tw->came, tw->ready);
    return true;
}

/* Returns the LDS cost of the access; for read2 and write2 of both addresses. */
static struct time_lds_cost lds_cost(const struct time_cu *cu, const struct time_op *op,
                                     const struct mem_access *access, bool is_store)
{
    struct time_lds_cost cost =
        time_lds_cost(cu->p, cu->target, is_store, access->bytes, access->lanes, access->addr);
    if (!op->two)
        return cost;
    uint64_t addr[WAVE_LANES];
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = access->addr[l] + (uint64_t)(int64_t)op->second;
    const struct time_lds_cost other =
        time_lds_cost(cu->p, cu->target, is_store, access->bytes, access->lanes, addr);
    cost.clocks += other.clocks;
    cost.floor += other.floor;
    cost.bus_bytes += other.bus_bytes;
    return cost;
}

/* Returns a pointer to the clock from which the LDS segment of an access is free. */
static uint64_t *segment_of(struct time_cu *cu, const struct mem_access *access)
{
    const bool known = access->space == ACCESS_LDS && access->lanes;
    const uint64_t at = known ? access->addr[__builtin_ctzll(access->lanes)] : 0;
    const uint64_t bytes = later(1, (uint64_t)cu->p->lds_segment_bytes);
    return &cu->lds_free[at / bytes % LDS_SEGMENTS];
}

/* Queues an LDS request that arrives at clock `now`, on the banks and on the SIMD pair's bus.
 * Returns the clock at which it completes. */
static uint64_t lds_request(struct time_cu *cu, const struct time_wave *tw, uint64_t now,
                            const struct mem_access *access)
{
    struct lds_pair *pair = &cu->pairs[tw->simd / 2];
    uint64_t *const lds_free = segment_of(cu, access);
    struct time_lds_cost cost = {.clocks = 2, .floor = 2, .bus_bytes = 4u * cu->isa->lanes};
    bool is_store = false;
    if (access->space == ACCESS_LDS) {
        is_store = access->is_store && !access->is_load;
        cost = lds_cost(cu, tw->op, access, is_store);
        if (access->is_store && access->is_load) { /* an atomic reads and writes */
            cost.clocks *= 2;
            cost.floor *= 2;
        }
    }
    double bus = cost.bus_bytes / cu->p->lds_pair_bytes;
    uint64_t *bus_free = &pair->bus_free[is_store];
    uint64_t start, done;
    if (is_store) { /* data of a store pass the bus before the banks */
        *bus_free = later(now, *bus_free) + (uint64_t)(bus + 0.5);
        start = later(*bus_free, *lds_free);
        done = start + cost.clocks;
        pair->started[pair->requests++ % LDS_FIFO_MAX] = start;
    } else {
        start = later(now, *lds_free);
        uint64_t send = later(start, *bus_free);
        done = later(start + cost.clocks, send + (uint64_t)(bus + 0.5));
        *bus_free = done;
        pair->started[pair->requests++ % LDS_FIFO_MAX] = send;
    }
    *lds_free = start + cost.clocks;
    cu->result.lds_clocks += cost.clocks;
    cu->result.lds_conflicts += cost.clocks > cost.floor ? cost.clocks - cost.floor : 0;
    return done + (uint64_t)cu->p->lds_latency;
}

/* Computes the addresses of private memory: interleaved by lane in dwords, in a region of its own
 * for every wave. */
static void scratch_addresses(const struct time_wave *tw, const struct mem_access *access,
                              unsigned lanes, uint64_t addr[WAVE_LANES])
{
    uint64_t base = UINT64_C(1) << 60 | (uint64_t)tw->slot << 40 | (uint64_t)tw->group << 48;
    for (unsigned l = 0; l < lanes; l++)
        addr[l] = base + access->addr[l] / 4 * 4 * lanes + l * (uint64_t)access->bytes;
}

/* Returns the kind of a vector memory request. SC1 means device or system scope, which bypasses the
 * L1 (LLVM, memory model gfx942). */
static enum time_request request_kind(const struct time_wave *tw, const struct mem_access *access)
{
    if (access->is_store)
        return access->is_load ? REQUEST_ATOMIC : REQUEST_STORE;
    return tw->next->sc1 && access->space == ACCESS_GLOBAL ? REQUEST_COHERENT : REQUEST_LOAD;
}

/* Requests the lines of a tensor copy at clock `now`; a copy for several workgroups is a multicast
 * load. Returns the clock at which it completes. */
static uint64_t tensor_request(struct time_cu *cu, struct time_wave *tw, uint64_t now,
                               bool is_store)
{
    const struct tensor_lines *const t = &cu->lines;
    struct time_counter *const c = &tw->counters[WAIT_TENSOR];
    const struct time_cast_request r = {tw, c, c->issued, t};
    if (cu->memory.casts && t->n && t->mask & (t->mask - 1))
        return time_cast(&cu->memory, now, &r, &cu->settled);
    return time_memory_copy(&cu->memory, now, is_store ? COPY_STORE : COPY_LOAD, t->line, t->n);
}

/* Requests a vector memory access. Returns the clock at which it is done. */
static uint64_t vmem_request(struct time_cu *cu, struct time_wave *tw, uint64_t now,
                             const struct mem_access *access)
{
    uint64_t scratch[WAVE_LANES];
    const uint64_t *addr = access->addr;
    if (access->space == ACCESS_LDS) /* FLAT addresses in the aperture of LDS */
        return lds_request(cu, tw, now, access);
    if (tw->op->kind == KIND_TENSOR)
        return tensor_request(cu, tw, now, access->is_store);
    if (tw->op->kind == KIND_WRITE_BACK)
        return time_memory_write_back(&cu->memory, now);
    if (tw->op->kind == KIND_INVALIDATE)
        time_memory_invalidate(&cu->memory, now);
    if (access->space == ACCESS_NONE)
        return now + (uint64_t)cu->p->l1_latency;
    if (access->space == ACCESS_SCRATCH) {
        scratch_addresses(tw, access, cu->isa->lanes, scratch);
        addr = scratch;
    }
    return time_memory_request(&cu->memory, now, request_kind(tw, access), access->bytes,
                               access->lanes, addr);
}

/* Makes the units busy for the wave's matrix instruction, which issues at clock `now`. */
static void matrix_issued(struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    const struct time_op *op = tw->op;
    struct simd *s = &cu->simds[tw->simd];
    s->valu_free = now + op->closed;
    s->valu_cause = HIPSIM_STALL_SHADOW;
    s->matrix_free = now + op->matrix;
    tw->matrix_end = now + op->matrix;
    time_note_result(cu->p, tw, op->writes, now + op->result, op->writes.first);
    cu->result.matrix_clocks += op->matrix;
    cu->result.matrix_by[op->matrix_class] += op->matrix;
}

static void valu_issued(struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    const struct time_op *op = tw->op;
    struct simd *s = &cu->simds[tw->simd];
    uint64_t issue = op->issue;
    if (op->kind == KIND_PACKED_F32 && cu->p->packed_f32_stalls > 0)
        s->matrix_free = later(s->matrix_free, now + op->issue);
    else if (op->kind == KIND_PACKED_F32 && s->matrix_free > now)
        issue = (uint64_t)cu->p->packed_f32_shadow;
    s->valu_free = now + issue;
    s->valu_cause = HIPSIM_STALL_VALU;
    cu->result.valu_clocks += issue;
    if (op->result) {
        time_note_result(cu->p, tw, op->writes, now + op->result, TIME_NO_OWNER);
        time_note_result(cu->p, tw, op->writes_too, now + op->result, TIME_NO_OWNER);
        return;
    }
    /* Registers that are overwritten no longer have the result of a matrix instruction. */
    for (unsigned r = op->writes.first; r < (unsigned)op->writes.first + op->writes.count; r++)
        tw->owner[r % TIME_REGS] = TIME_NO_OWNER;
}

static void scalar_issued(struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    const struct time_op *op = tw->op;
    cu->simds[tw->simd].scalar_free = now + op->issue;
    if (op->result)
        time_note_result(cu->p, tw, op->writes, now + op->result, TIME_NO_OWNER);
}

static bool is_flat(const struct inst *in)
{
    return in->row && strncmp(in->row->name, "flat_", 5) == 0;
}

/* Makes the units that an executed instruction uses busy, from clock `now` on. Returns the clock at
 * which its result is available. */
static uint64_t occupy(struct time_cu *cu, struct time_wave *tw, const struct inst *in,
                       uint64_t now)
{
    const struct time_op *op = tw->op;
    const struct mem_access *access = &tw->w->access;
    struct simd *s = &cu->simds[tw->simd];
    uint64_t done = now + op->issue;
    switch ((enum time_unit)op->unit) {
    case UNIT_MATRIX: matrix_issued(cu, tw, now); return now + op->matrix;
    case UNIT_VALU: valu_issued(cu, tw, now); return done;
    case UNIT_SCALAR: scalar_issued(cu, tw, now); return done;
    case UNIT_BRANCH: {
        bool taken = tw->w->pc != code_address(cu->code->code) + in->offset + in->size;
        s->scalar_free = now + op->issue;
        tw->ready =
            now + (uint64_t)(taken ? cu->p->branch_taken_cycles : cu->p->branch_fall_cycles);
        tw->ready_cause = HIPSIM_STALL_FETCH;
        return done;
    }
    case UNIT_SMEM:
        s->scalar_free = now + op->issue;
        done = access->space == ACCESS_SCALAR
                   ? time_memory_scalar(&cu->memory, now, access->addr[0], access->bytes)
                   : now + (uint64_t)cu->p->scalar_latency;
        time_count(tw, WAIT_LGKM, done);
        return done;
    case UNIT_LDS:
        s->memory_free = now + op->issue;
        if (op->wide_store) {
            tw->ready = now + op->issue;
            tw->ready_cause = HIPSIM_STALL_LDS_QUEUE;
        }
        done = lds_request(cu, tw, now, access);
        time_count(tw, WAIT_LGKM, done);
        return done;
    case UNIT_VMEM:
        s->memory_free = now + op->issue;
        done = vmem_request(cu, tw, now, access);
        if (op->kind != KIND_INVALIDATE) /* an invalidation has no counter; later requests are after
                                            it in any case */
            time_count(tw, WAIT_VM, done);
        if (is_flat(in))
            time_count(tw, WAIT_LGKM, done);
        return done;
    default: return done;
    }
}

/* Returns the barrier of the wave's cluster; NULL if the launch has no clusters. */
static const struct grid_barrier *cluster_of(const struct time_cu *cu, const struct time_wave *tw)
{
    return cu->launch->cluster[0] ? &cu->launch->cluster_barrier[tw->w->wg->cluster] : NULL;
}

/* Returns the clock from which the wave passes the barrier that its s_barrier_wait names. */
static uint64_t barrier_passed(const struct time_cu *cu, const struct time_wave *tw, uint64_t now)
{
    if (!tw->op->cluster)
        return cu->opened[tw->group];
    const struct grid_barrier *const b = cluster_of(cu, tw);
    return b ? b->opened_tick + (uint64_t)cu->p->cluster_barrier_cycles : now;
}

/* Delays the wave for an instruction that affects no other wave. */
static void pause_wave(const struct time_cu *cu, struct time_wave *tw, uint64_t now)
{
    static const uint8_t causes[] = {
        [KIND_NOP] = HIPSIM_STALL_DEPENDENCY,     [KIND_SLEEP] = HIPSIM_STALL_SLEEP,
        [KIND_WAITCNT] = HIPSIM_STALL_DEPENDENCY, [KIND_MSB] = HIPSIM_STALL_DEPENDENCY,
        [KIND_BARRIER] = HIPSIM_STALL_BARRIER,
    };
    const struct time_op *op = tw->op;
    if (op->kind >= sizeof(causes) || !causes[op->kind])
        return;
    tw->ready_cause = causes[op->kind];
    tw->ready =
        op->kind == KIND_BARRIER ? barrier_passed(cu, tw, now) : now + time_pause_clocks(cu->p, tw);
}

/* Adds an instruction that issues at clock `now` to the profile and the sums. */
static void note_issue(struct time_cu *cu, const struct time_wave *tw, const struct inst *in,
                       uint64_t now)
{
    struct time_line *line = &cu->code->lines[in->offset / 4];
    struct time_cu_result *r = &cu->result;
    const uint64_t period = (uint64_t)cu->p->issue_period, stalled = now - tw->came;
    line->count++;
    line->waves += cu->simds[tw->simd].waves;
    line->clocks += stalled + period;
    line->stall[tw->cause] += stalled;
    r->stall[tw->cause] += stalled;
    r->issue += period;
    r->instructions++;
}

static void emit(struct time_cu *cu, const struct time_wave *tw, const struct inst *in,
                 uint64_t now, uint64_t done)
{
    if (!cu->sink)
        return;
    struct time_event event = {
        .wg = tw->w->wg,
        .wave = tw->w,
        .in = in,
        .op = tw->op,
        .slot = tw->slot,
        .ready = tw->came,
        .issued = now,
        .done = done,
        .cause = tw->cause,
    };
    const struct mem_access *a = &tw->w->access;
    if (a->space != ACCESS_NONE)
        event.lanes_bytes = (uint64_t)__builtin_popcountll(a->lanes) * a->bytes;
    cu->sink->event(cu->sink->ctx, &event);
}

/* Resumes the waves of a group that a barrier has released, at clock `at`. False after a fault. */
static bool wake(struct time_cu *cu, unsigned group, uint64_t now, uint64_t at)
{
    struct time_wave *waves = cu->waves + (size_t)group * cu->waves_per_group;
    for (unsigned i = 0; i < cu->waves_per_group; i++) {
        struct time_wave *tw = &waves[i];
        if (!tw->w || tw->at != NEVER || tw->w->state != WAVE_RUNNING)
            continue;
        tw->ready = at;
        tw->ready_cause = HIPSIM_STALL_BARRIER;
        if (!fetch_next(cu, tw, now))
            return false;
    }
    return true;
}

/* Records that a group's barrier opened at clock `now`, and resumes its waves. False after a
 * fault. */
static bool barrier_opened(struct time_cu *cu, unsigned group, uint64_t now)
{
    cu->opened[group] = now + (uint64_t)cu->p->barrier_cycles;
    return wake(cu, group, now, cu->opened[group]) && cu->launch->fault.kind == FAULT_NONE;
}

/* Opens the group's barrier if every wave has reached it or ended. False after a fault. */
static bool release(struct time_cu *cu, unsigned group, uint64_t now)
{
    if (!engine_group_release(cu->groups[group]))
        return cu->launch->fault.kind == FAULT_NONE;
    return barrier_opened(cu, group, now);
}

bool time_cu_grid_opened(struct time_cu *cu, uint64_t now, uint64_t at)
{
    for (unsigned g = 0; g < cu->ngroups; g++) {
        if (!cu->left[g])
            continue;
        engine_group_wait_for_grid(cu->groups[g]);
        if (!wake(cu, g, now, at))
            return false;
    }
    cu->best = NULL;
    return true;
}

void time_cu_recheck(struct time_cu *cu)
{
    for (unsigned i = 0; i < cu->nwaves; i++) {
        struct time_wave *tw = &cu->waves[i];
        if (tw->at != NEVER)
            tw->at = later(tw->came, tw->ready);
    }
    cu->best = NULL;
}

/* True if `a` issues before `b` when both could issue at the same clock. */
static bool goes_first(const struct time_wave *a, const struct time_wave *b)
{
    if (a->at != b->at)
        return a->at < b->at;
    if (a->w->priority != b->w->priority)
        return a->w->priority > b->w->priority;
    return a < b; /* lower slot */
}

/*
 * Returns the wave that issues next, with `at` and `cause` updated; NULL if all are blocked. Until
 * it is computed again, a wave's `at` is only a lower bound, since ports never become free earlier.
 */
static struct time_wave *next_wave(struct time_cu *cu)
{
    while (!cu->best) {
        struct time_wave *best = NULL;
        for (unsigned i = 0; i < cu->nwaves; i++) {
            struct time_wave *tw = &cu->waves[i];
            if (tw->at != NEVER && (!best || goes_first(tw, best)))
                best = tw;
        }
        if (!best)
            return NULL;
        uint64_t at = earliest(cu, best, &best->cause);
        if (at == best->at)
            cu->best = best;
        best->at = at;
    }
    return cu->best;
}

uint64_t time_cu_next(struct time_cu *cu)
{
    const struct time_wave *tw = next_wave(cu);
    return tw ? tw->at : NEVER;
}

bool time_cu_step(struct time_cu *cu, struct time_step *step)
{
    struct time_wave *tw = next_wave(cu);
    const struct inst *in = tw->next;
    uint64_t now = tw->at;
    *step = (struct time_step){
        .ended = cu->ngroups,
        .resume = in->gds ? now + (uint64_t)cu->p->grid_barrier_cycles : 0,
    };
    cu->best = NULL;
    tw->w->tick = now;
    cu->lines.n = 0;
    cu->settled = false;
    cu->launch->tensor = &cu->lines;
    const uint64_t openings = tw->w->wg->barriers;
    const struct grid_barrier *const cluster = cluster_of(cu, tw);
    const uint64_t cluster_openings = cluster ? cluster->opened : 0;
    if (!engine_group_step(cu->groups[tw->group], tw->w, in))
        return false;
    note_issue(cu, tw, in, now);
    tw->ready = 0;
    tw->ready_cause = HIPSIM_STALL_NONE;
    uint64_t done = occupy(cu, tw, in, now);
    if (cluster && cluster->opened != cluster_openings)
        step->resume = now + (uint64_t)cu->p->cluster_barrier_cycles;
    /* A signal of a split barrier has opened the workgroup's barrier. */
    if (tw->w->wg->barriers != openings && !barrier_opened(cu, tw->group, now))
        return false;
    step->settled = cu->settled;
    pause_wave(cu, tw, now);
    if (tw->op->unit != UNIT_NONE)
        tw->unit = tw->op->unit;
    emit(cu, tw, in, now, done);
    tw->came = now + (uint64_t)cu->p->issue_period;
    cu->end = later(cu->end, tw->came);
    if (tw->w->state == WAVE_RUNNING)
        return fetch_next(cu, tw, now);
    tw->at = NEVER;
    cu->simds[tw->simd].waves -= tw->w->state == WAVE_ENDED;
    if (tw->w->state == WAVE_ENDED && --cu->left[tw->group] == 0) {
        step->ended = tw->group;
        step->idle = time_group_idle(tw->w->wg);
        return engine_group_finish(cu->groups[tw->group]);
    }
    return release(cu, tw->group, now);
}

bool time_cu_start(struct time_cu *cu, unsigned group, uint64_t index, uint64_t at)
{
    struct workgroup *wg = engine_group_start(cu->groups[group], index);
    cu->best = NULL;
    cu->left[group] = wg->nwaves;
    cu->opened[group] = 0;
    for (uint32_t i = 0; i < cu->waves_per_group; i++) {
        const unsigned slot = group * cu->waves_per_group + i;
        struct time_wave *tw = &cu->waves[slot];
        *tw = (struct time_wave){.at = NEVER, .came = at, .line = UINT64_MAX};
        if (i >= wg->nwaves)
            continue;
        tw->w = wg->waves[i];
        tw->group = group;
        tw->slot = slot;
        tw->simd = slot % SIMDS;
        cu->simds[tw->simd].waves++;
        memset(tw->owner, 0xff, sizeof(tw->owner));
        if (!fetch_next(cu, tw, at))
            return false;
    }
    cu->result.waves += wg->nwaves;
    return true;
}

/* Allocates the state of the compute unit and its workgroup slots. False if that fails. */
static bool prepare(struct time_cu *cu, const struct time_cu_setup *setup, unsigned groups)
{
    const size_t waves = (size_t)groups * cu->waves_per_group;
    const size_t lines = code_size(cu->code->code) / FETCH_LINE + 2;
    cu->groups = calloc(groups, sizeof(*cu->groups));
    cu->left = calloc(groups, sizeof(*cu->left));
    cu->opened = calloc(groups, sizeof(*cu->opened));
    cu->waves = calloc(waves, sizeof(*cu->waves));
    cu->line_ready = calloc(lines, sizeof(*cu->line_ready));
    cu->fetched = calloc(lines, sizeof(*cu->fetched));
    cu->warm_code = setup->warm_code;
    cu->icache = time_cache_create(cu->p->icache_bytes, cu->p->icache_ways, FETCH_LINE);
    if (!cu->groups || !cu->left || !cu->opened || !cu->waves || !cu->line_ready || !cu->fetched ||
        !cu->icache ||
        !time_memory_init(&cu->memory, cu->p, &setup->share, setup->mhz, setup->shared))
        return false;
    cu->nwaves = (unsigned)waves;
    for (size_t i = 0; i < waves; i++)
        cu->waves[i].at = NEVER;
    for (; cu->ngroups < groups; cu->ngroups++) {
        struct engine_group *with = setup->with   ? setup->with->groups[0]
                                    : cu->ngroups ? cu->groups[0]
                                                  : NULL;
        cu->groups[cu->ngroups] = engine_group_create(cu->launch, with);
        if (!cu->groups[cu->ngroups])
            return false;
    }
    return true;
}

struct time_cu *time_cu_create(struct launch *launch, struct time_code *code,
                               const struct time_cu_setup *setup, unsigned groups)
{
    const uint32_t items = launch->block[0] * launch->block[1] * launch->block[2];
    struct time_cu *cu = calloc(1, sizeof(*cu));
    if (!cu)
        return NULL;
    cu->launch = launch;
    cu->code = code;
    cu->p = code->p;
    cu->target = code_target(code->code);
    cu->isa = code_isa(code->code);
    cu->sink = setup->sink;
    cu->waves_per_group = (items + cu->isa->lanes - 1) / cu->isa->lanes;
    if (prepare(cu, setup, groups))
        return cu;
    time_cu_destroy(cu);
    return NULL;
}

void time_cu_destroy(struct time_cu *cu)
{
    if (!cu)
        return;
    for (unsigned g = cu->ngroups; g-- > 0;) /* the first group owns what the groups share, so it is
                                                the last */
        engine_group_destroy(cu->groups[g]);
    free(cu->groups);
    free(cu->left);
    free(cu->opened);
    free(cu->waves);
    free(cu->line_ready);
    free(cu->fetched);
    free(cu->lines.line);
    time_cache_destroy(cu->icache);
    time_memory_free(&cu->memory);
    free(cu);
}

bool time_cu_finish(struct time_cu *cu, bool ok, struct time_cu_result *result)
{
    for (unsigned g = 0; g < cu->ngroups; g++) {
        if (ok && cu->left[g]) /* deadlock: no wave can issue, but the workgroup has not ended */
            ok = engine_group_finish(cu->groups[g]);
        {
            const struct counters c = engine_group_counters(cu->groups[g]);
            counters_add(&cu->launch->counters, &c);
        }
    }
    *result = cu->result;
    result->clocks = time_memory_drained(&cu->memory, cu->end);
    result->drain = result->clocks - cu->end;
    result->l1_clocks = cu->memory.l1_busy;
    memcpy(result->bytes, cu->memory.bytes, sizeof(result->bytes));
    return ok;
}

bool time_cu_run(struct launch *launch, struct time_code *code, const struct time_cu_setup *setup,
                 const uint64_t *workgroups, unsigned count, struct time_cu_result *result)
{
    const struct observer *observer = launch->observer;
    *result = (struct time_cu_result){0};
    time_begin(launch);
    struct time_cu *cu = time_cu_create(launch, code, setup, count);
    bool ok = cu != NULL;
    struct time_step step;
    for (unsigned g = 0; ok && g < count; g++)
        ok = time_cu_start(cu, g, workgroups[g], 0);
    while (ok && time_cu_next(cu) != NEVER)
        ok = time_cu_step(cu, &step);
    launch->counters = (struct counters){0};
    if (cu)
        ok = time_cu_finish(cu, ok, result);
    time_cu_destroy(cu);
    time_end(launch, observer, ok);
    return ok;
}

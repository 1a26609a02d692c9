/* SPDX-License-Identifier: Apache-2.0 */
#include "time_wave.h"

#include "isa.h"
#include "row.h"

/* Returns the later clock. */
static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t time_counter_at(const struct time_counter *c, unsigned left)
{
    if (c->issued <= left || left >= COUNTER_RING)
        return 0;
    return c->done[(c->issued - left - 1) % COUNTER_RING];
}

/* Adds an operation that is done at clock `done`. The counter counts it down after all earlier
 * ones. */
static void counter_push(struct time_counter *c, uint64_t done)
{
    uint64_t before = c->issued ? c->done[(c->issued - 1) % COUNTER_RING] : 0;
    c->own[c->issued % COUNTER_RING] = done;
    c->done[c->issued++ % COUNTER_RING] = later(done, before);
}

void time_counter_set(struct time_counter *c, uint64_t number, uint64_t done)
{
    if (number >= c->issued || c->issued - number >= COUNTER_RING)
        return;
    uint64_t before = number ? c->done[(number - 1) % COUNTER_RING] : 0;
    c->own[number % COUNTER_RING] = done;
    for (uint64_t i = number; i < c->issued; i++)
        before = c->done[i % COUNTER_RING] = later(c->own[i % COUNTER_RING], before);
}

/* Returns the clocks by which the result in register `i` is later for instruction `op` than for the
 * unit that wrote it. */
static uint64_t lateness(const struct time_wave *tw, const struct time_op *op, unsigned i)
{
    if (i < TIME_SGPR)
        return op->late_vector;
    return tw->scalar[i - TIME_SGPR] ? op->late_scalar : 0;
}

/* Returns the clock at which the registers of `r` have their results. */
static uint64_t regs_ready(const struct time_wave *tw, const struct time_op *op, struct time_regs r)
{
    uint64_t t = 0;
    for (unsigned i = r.first; i < (unsigned)r.first + r.count && i < TIME_REGS; i++)
        if (tw->result[i])
            t = later(t, tw->result[i] + lateness(tw, op, i));
    return t;
}

/* Returns the clock at which the registers `r` have no pending result of a matrix instruction. */
static uint64_t products_ready(const struct time_wave *tw, struct time_regs r)
{
    uint64_t t = 0;
    for (unsigned i = r.first; i < (unsigned)r.first + r.count && i < TIME_REGS; i++)
        if (tw->owner[i] != TIME_NO_OWNER)
            t = later(t, tw->result[i]);
    return t;
}

/* True if the matrix instruction accumulates into the registers of the one before it, so that it
 * waits only for the matrix unit. */
static bool accumulates(const struct time_params *p, const struct time_wave *tw,
                        const struct time_op *op)
{
    return op->unit == UNIT_MATRIX && op->acc.count && tw->owner[op->acc.first] == op->acc.first &&
           p->matrix_chain_waits <= 0;
}

uint64_t time_operands_ready(const struct time_params *p, const struct time_wave *tw,
                             const struct time_op *op)
{
    uint64_t t = 0;
    for (unsigned i = 0; i < op->nreads; i++)
        t = later(t, regs_ready(tw, op, op->reads[i]));
    if (!accumulates(p, tw, op))
        t = later(t, regs_ready(tw, op, op->acc));
    if (op->unit != UNIT_MATRIX) /* the matrix unit writes its results in order */
        t = later(t, later(products_ready(tw, op->writes), products_ready(tw, op->writes_too)));
    return t;
}

/* Returns the target's counter for an instruction that GFX9 counts in `counter`. */
static unsigned counter_of(const struct inst *in, enum wait_counter counter)
{
    return in->row->wait > 1 + WAIT_EXP ? in->row->wait - 1u : in->counter[counter];
}

uint64_t time_counter_room(const struct isa *isa, const struct time_wave *tw,
                           enum wait_counter counter)
{
    const unsigned c = counter_of(tw->next, counter);
    return time_counter_at(&tw->counters[c], isa->counter_max[c] - 1u);
}

void time_count(struct time_wave *tw, enum wait_counter counter, uint64_t done)
{
    counter_push(&tw->counters[counter_of(tw->next, counter)], done);
}

void time_note_result(const struct time_params *p, struct time_wave *tw, struct time_regs regs,
                      uint64_t at, uint16_t owner)
{
    const uint64_t late = later((uint64_t)p->salu_valu_latency, (uint64_t)p->valu_memory_latency);
    tw->result_end = later(tw->result_end, at + late);
    for (unsigned r = regs.first; r < (unsigned)regs.first + regs.count && r < TIME_REGS; r++) {
        tw->result[r] = at;
        tw->owner[r] = owner;
        if (r >= TIME_SGPR)
            tw->scalar[r - TIME_SGPR] = tw->op->unit == UNIT_SCALAR;
    }
}

/* Returns the clocks of an s_set_vgpr_msb after the wave's last instruction. */
static uint64_t msb_clocks(const struct time_params *p, const struct time_wave *tw)
{
    if (tw->unit == UNIT_LDS || tw->unit == UNIT_VMEM)
        return (uint64_t)(p->issue_period + p->msb_memory_cycles);
    return (uint64_t)(p->issue_period + (tw->unit == UNIT_SCALAR ? p->msb_scalar_cycles : 0));
}

uint64_t time_pause_clocks(const struct time_params *p, const struct time_wave *tw)
{
    if (tw->op->kind == KIND_MSB)
        return msb_clocks(p, tw);
    if (tw->op->kind != KIND_SLEEP || !tw->next->nsrc)
        return tw->op->issue;
    const uint64_t units = src_scalar(tw->w, &tw->next->src[0]) & 0x7f; /* S_SLEEP_VAR */
    return tw->op->issue + (uint64_t)p->sleep_cycles * units;
}

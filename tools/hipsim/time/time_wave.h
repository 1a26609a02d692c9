/* SPDX-License-Identifier: Apache-2.0 */
/* A wave on a modelled compute unit: its counters, and the clocks at which the results in its
 * registers can be read. */
#ifndef HIPSIM_TIME_WAVE_H
#define HIPSIM_TIME_WAVE_H

#include "hipsim_time.h"
#include "time_op.h"

#define COUNTER_RING 64
#define TIME_NO_OWNER UINT16_MAX

/* Completion times of operations in flight: entry i % COUNTER_RING is for the i-th operation. */
struct time_counter {
    uint64_t own[COUNTER_RING];  /* clock at which the operation itself completes */
    uint64_t done[COUNTER_RING]; /* clock at which all operations up to this one have completed */
    uint64_t issued;             /* number of operations so far */
};

struct time_wave {
    struct wave *w;
    unsigned group;      /* index of the wave's workgroup on the compute unit */
    unsigned simd, slot; /* numbers of the wave's SIMD and of its slot on the compute unit */
    const struct inst *next;
    struct time_op *op; /* cost of `next` */
    uint64_t at;        /* clock before which `next` cannot issue; NEVER: blocked */
    enum hipsim_stall cause;
    uint64_t ready; /* clock at which the previous instruction allows the next issue */
    enum hipsim_stall ready_cause;
    /* clock at which the wave reached `next`: one issue period after its last issue */
    uint64_t came;
    uint64_t fetched;    /* clock at which the code line of `next` has arrived */
    uint64_t line;       /* code line in the wave's instruction buffer */
    uint64_t expected;   /* code offset of the instruction after `next`, unless `next` jumps */
    uint64_t matrix_end; /* end of the wave's last matrix instruction */
    uint64_t result_end; /* clock from which no result is pending */
    struct time_counter counters[WAIT_COUNTERS];
    /* clock at which each register can be read by the unit that wrote it */
    uint64_t result[TIME_REGS];
    /* number of the first result register of the matrix instruction that wrote each register;
     * TIME_NO_OWNER: another instruction wrote it */
    uint16_t owner[TIME_REGS];
    bool scalar[SGPR_FILE + 1]; /* true: a scalar instruction wrote the scalar register, or SCC */
    uint8_t unit;               /* enum time_unit of the last instruction */
};

struct isa;

/* Returns the clock from which at most `left` operations of the counter are in flight. */
uint64_t time_counter_at(const struct time_counter *c, unsigned left);

/* Sets the clock at which operation `number` of the counter completes, and updates the clocks of
 * later ones. Changes nothing if the ring no longer has the operation. */
void time_counter_set(struct time_counter *c, uint64_t number, uint64_t done);

/* Returns the clock at which the counter of the wave's next instruction can count one more
 * operation. `counter` is GFX9's name for it. */
uint64_t time_counter_room(const struct isa *isa, const struct time_wave *tw,
                           enum wait_counter counter);

/* Counts an operation that completes at clock `done`. `counter` is GFX9's name for its counter. */
void time_count(struct time_wave *tw, enum wait_counter counter, uint64_t done);

/* Returns the clock at which an instruction can read and write its registers. */
uint64_t time_operands_ready(const struct time_params *p, const struct time_wave *tw,
                             const struct time_op *op);

/* Records that the result in `regs` can be read from clock `at` on. `owner` is the first register
 * of a matrix instruction's result; TIME_NO_OWNER for other instructions. */
void time_note_result(const struct time_params *p, struct time_wave *tw, struct time_regs regs,
                      uint64_t at, uint16_t owner);

/* Returns the clocks from the issue of the wave's next instruction, which uses no unit, until the
 * one after it may issue. Barriers have others. */
uint64_t time_pause_clocks(const struct time_params *p, const struct time_wave *tw);

#endif

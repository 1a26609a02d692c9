/* SPDX-License-Identifier: Apache-2.0 */
/* A wave on a modelled compute unit: its counters, and when the results in its registers can be
 * read. */
#ifndef HIPSIM_TIME_WAVE_H
#define HIPSIM_TIME_WAVE_H

#include "hipsim_time.h"
#include "time_op.h"

#define COUNTER_RING 64
#define TIME_NO_OWNER UINT16_MAX

/* Completion times of outstanding operations. Entry i belongs to the i-th operation issued. */
struct time_counter {
    uint64_t own[COUNTER_RING];  /* clock at which the operation itself completes */
    uint64_t done[COUNTER_RING]; /* clock at which it and all earlier ones have completed */
    uint64_t issued;             /* operations so far */
};

struct time_wave {
    struct wave *w;
    unsigned group;      /* index of its workgroup */
    unsigned simd, slot; /* its SIMD, and its wave slot on the compute unit */
    const struct inst *next;
    struct time_op *op; /* cost of `next` */
    uint64_t at;        /* lower bound of the clock at which `next` can issue; NEVER: blocked */
    enum hipsim_stall cause;
    uint64_t ready; /* clock at which the previous instruction allows the next issue */
    enum hipsim_stall ready_cause;
    uint64_t came;       /* clock at which the wave reached `next`: one issue period after the
                          * last */
    uint64_t fetched;    /* clock at which the code line of `next` has arrived */
    uint64_t line;       /* code line in the wave's instruction buffer */
    uint64_t expected;   /* code offset of the instruction after `next`, unless `next` jumps */
    uint64_t matrix_end; /* end of the wave's last matrix instruction */
    uint64_t result_end; /* clock from which no result is pending */
    struct time_counter counters[WAIT_COUNTERS];
    uint64_t result[TIME_REGS]; /* clock at which a result register can be read by its own unit */
    uint16_t
        owner[TIME_REGS]; /* first register of that matrix instruction's result; TIME_NO_OWNER: of
                            * another instruction */
    bool scalar[SGPR_FILE + 1]; /* a scalar instruction wrote the scalar register, or SCC */
    uint8_t unit;               /* enum time_unit of the last instruction */
};

struct isa;

/* Returns the clock from which at most `left` operations of the counter are outstanding. */
uint64_t time_counter_at(const struct time_counter *c, unsigned left);

/* Sets the clock at which operation `number` of the counter completes, and updates the clocks of
 * later ones. Changes nothing if the number is too old for the ring. */
void time_counter_set(struct time_counter *c, uint64_t number, uint64_t done);

/* Returns the clock at which the counter of the wave's next instruction can count one more
 * operation. `counter` is gfx9's name for the counter. */
uint64_t time_counter_room(const struct isa *isa, const struct time_wave *tw,
                           enum wait_counter counter);

/* Counts an operation that completes at clock `done`. `counter` is gfx9's name for the counter. */
void time_count(struct time_wave *tw, enum wait_counter counter, uint64_t done);

/* Returns the clock at which the registers of an instruction can be read and written. */
uint64_t time_operands_ready(const struct time_params *p, const struct time_wave *tw,
                             const struct time_op *op);

/* Records that a result can be read from clock `at` on. `owner` is the first register of a matrix
 * instruction's result, TIME_NO_OWNER for other instructions. */
void time_note_result(const struct time_params *p, struct time_wave *tw, struct time_regs regs,
                      uint64_t at, uint16_t owner);

/* Returns the clocks that s_set_vgpr_msb takes after the wave's last instruction. */
uint64_t time_msb_clocks(const struct time_params *p, const struct time_wave *tw);

#endif

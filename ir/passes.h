/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline is the table in ir/passes.def: each pass's requirements, what it keeps, and one line
 * that says what it does. The driver prints, verifies and round-trips between them.
 */
#ifndef IR_PASSES_H
#define IR_PASSES_H

#include <stdio.h>

#include "ir/ir.h"

/**
 * The schedule of a variant's loop; the tile table of its template has it. Passes read it,
 * templates only tag stages and phases.
 */
struct tir_schedule {
    uint8_t stages;        /* software-pipeline stages of the main loop; 1 leaves it alone */
    uint8_t matrix_phases; /* bit per phase: matrix instructions and what hides under them */
    uint8_t joined_phases; /* bit per phase: no barrier between it and the next */
    uint8_t interleave;    /* 1: other work stands between matrix instructions */
    uint8_t fill;          /* 1: as much as fits under each; 0: evenly spread over all */
    uint8_t mixed;         /* 1: exponentials stand among other work, as it fits under each */
    uint8_t bare_last;  /* 1: nothing behind a phase's last matrix instruction that can help it */
    uint8_t read_ahead; /* matrix instructions from an LDS read to what takes its data; 0: 5 */
    uint8_t turn_ahead; /* the same from what turns bytes of LDS in registers; 0: like other work */
    uint8_t late_ahead; /* with alone: the same from the last read for the next phase to its end */
    uint8_t exchange_ahead; /* the same from an exchange of lanes by way of LDS, which then goes
                               before other work; 0: like other work */
    uint8_t result_after;   /* matrix instructions between one and what reads its result in the same
                             phase, where there are as many */
    uint8_t hoist_vgprs;    /* vector registers that opt_hoist may take through a loop */
    uint8_t ping_pong;      /* wave groups a phase apart: 1 (off) or 2 */
    uint8_t part_early;     /* 1: the groups part before the prologue's last round, not behind it */
    uint8_t alone; /* 1: nothing but a wave's own work hides beside its matrix instructions:
                            copies to LDS and scalar ops stand between them too, and reads for the
                            next phase */
    uint8_t holds; /* 1: what a phase makes for another stays in it, scalars and joined registers
                      too, which LLVM else makes where they are used */
    uint8_t reads_apart; /* 1: reads for matrix instructions are not spread with the other work */
    uint8_t bare_rounds; /* rounds that begin the prologue and have stages' barriers alone */
    uint8_t apart;       /* 1: waves share nothing in the loop, and run it without barriers */
    uint8_t memory_priority; /* s_setprio of memory phases, 0 in matrix phases; 0: never set */
    uint8_t early_priority;  /* 1: it is 0 again while waves wait for the matrix phase, not behind
                            their barrier; for groups a phase apart */
    uint8_t even_code;       /* 1: the steady loop's matrix phases begin at multiples of 8 bytes, as
                            almost all of their instructions have */
    uint8_t round_pairs;     /* 1: the steady loop has two rounds, so that it knows whose turn it is
                            among two buffers */
    uint8_t
        late_rounds; /* rounds behind the steady loop, without stages that have no tile any more */
    uint8_t late_from, late_to; /* phases: what the first stage of the first of these does in one
                                   stands in the other one there */
    uint8_t loop_at; /* 1 + words from a window of instruction fetch to where the steady loop's
                        guard begins; 0: wherever it comes to be */
};

struct tir_pass_options {
    const struct tir_schedule *schedule;
    const char *print;      /* pass after which to print to `out`, "all", or NULL */
    const char *stop_after; /* last pass to run, or NULL */
    const char *disable;    /* comma-separated names of passes not to run, or NULL */
    FILE *out;
    bool round_trip; /* after each pass: parse(print(f)) must print alike. For tests */
    /* If not NULL, called before the first pass (pass NULL) and after each: the function as it then
     * is. For tests. */
    void (*observe)(void *context, const char *pass, const struct tir_func *f);
    void *context;
    /* If not NULL: the text of the function as lower_tiles gets it, for the caller to free; ops of
     * the result carry the line that they come from. */
    char **tiles;
    size_t *tiles_size;
};

/* The words in passes.def. */
enum tir_pass_level { TIR_PASS_any, TIR_PASS_tiles, TIR_PASS_registers };
enum tir_pass_order {
    TIR_PASS_nothing = 0,
    TIR_PASS_branches = 1,
    TIR_PASS_writes = 2,
    TIR_PASS_spine = TIR_PASS_branches | TIR_PASS_writes,
    TIR_PASS_effects = 4 | TIR_PASS_spine,
};

/** A row of the table; passes named lower_* may not be disabled. */
struct tir_pass {
    const char *name, *description;
    enum tir_pass_level requires_;
    enum tir_pass_order keeps;
    bool (*run)(struct tir_func *f, const struct tir_schedule *s); /* did anything change? */
};
extern const struct tir_pass tir_passes[];
extern const unsigned tir_n_passes;

/* Every pass of the table as a function: tir_opt_dce(f, schedule), ... */
#define PASS(name, ...) bool tir_##name(struct tir_func *f, const struct tir_schedule *s);
#include "ir/passes.def"
#undef PASS

/**
 * Runs the table. False, with a sentence in `why` and nothing run, when an option names no pass or
 * disables a required one, or when the function breaks a rule, as one does that asks lower_pipeline
 * for what it does not do; it is then shown on `out` (stderr without one). Where asserts are on,
 * each pass's result is verified too, with the pass to blame, and a failure aborts the process.
 */
bool tir_run_passes(struct tir_func *f, const struct tir_pass_options *o, char why[128]);

/** Prints a function; parse(print(f)) is f. */
void tir_print(const struct tir_func *f, FILE *out);

/** Parses the printed form. NULL with line:column and a sentence in `error` on bad input. */
struct tir_func *tir_parse(const char *text, size_t size, const struct tir_machine *machine,
                           char error[256]);

/** Checks every rule of ir.h and ops.def; collects all failures, each beside its op in the printed
 * function, to `out`. `after` names the pass to blame. True when there are none. */
bool tir_verify(const struct tir_func *f, const char *after, FILE *out);

#endif

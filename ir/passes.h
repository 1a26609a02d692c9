/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline is the table in ir/passes.def: each pass's requirements, what it keeps, and one line
 * that says what it does. The driver prints, verifies and round-trips between them.
 */
#ifndef IR_PASSES_H
#define IR_PASSES_H

#include <stdio.h>

#include "ir/ir.h"

/** The phases that end with a barrier, with one role. */
enum tir_loop_barriers {
    TIR_BARRIERS_PROLOGUE, /* where an op is one, and after each phase of the prologue */
    TIR_BARRIERS_OPS       /* only where an op is one */
};

/**
 * The structure of a kernel's pipelined loop: what lower_pipeline makes of the stages and phases
 * that its ops carry. Templates derive it from a table (templates/pipeline/).
 */
struct tir_loop_plan {
    uint8_t stages;          /* of the loop's ops; 0 and 1: it is left as it is */
    uint8_t matrix_phases;   /* bit per phase: matrix instructions and what hides under them */
    uint8_t open_phases;     /* bit per phase: no boundary between it and the next */
    uint8_t roles;           /* equal groups of waves, each a group of phases apart: 2, else one */
    uint8_t shift_early;     /* 1: roles part before the prologue's last iteration, not after it */
    uint8_t barriers;        /* enum tir_loop_barriers; with two roles every boundary is one */
    uint8_t bare_iterations; /* of the prologue, from its first on: only ops' own barriers */
    uint8_t unroll;          /* 2: the steady loop has two iterations, whose buffers alternate */
    uint8_t drain;           /* iterations after the steady loop, without stages that have no tile
                                any more */
    uint8_t drain_from, drain_to; /* phases: what the first stage of the first of these does in one
                                     runs in the other one there */
    uint8_t one_wave; /* 1: a SIMD has one wave, which hides nothing but its own work: copies to
                         LDS, scalar ops and reads for the next phase are spread too */
};

/** The spread of other work under the matrix instructions of a phase. */
enum tir_cover {
    TIR_COVER_NONE,  /* the order of the template stays */
    TIR_COVER_EVEN,  /* evenly over all of them */
    TIR_COVER_FILL,  /* as much as fits under each */
    TIR_COVER_MIXED, /* evenly, with exponentials among other work */
};

/** The schedule of a kernel: its loop's structure, and knobs that say how code is ordered. */
struct tir_schedule {
    struct tir_loop_plan loop;
    uint8_t cover;      /* enum tir_cover */
    uint8_t bare_last;  /* 1: no work after a phase's last matrix instruction, if it can be had */
    uint8_t read_ahead; /* matrix instructions from an LDS read to what takes its data; 0: 5 */
    uint8_t turn_ahead; /* the same from what transposes bytes of LDS in registers; 0: as other
                           work */
    uint8_t late_ahead; /* with one_wave: the same from the last read for the next phase to its
                           end */
    uint8_t exchange_ahead; /* the same from an exchange of lanes by way of LDS, which then goes
                               before other work; 0: as other work */
    uint8_t result_after;   /* matrix instructions between one and what reads its result in the same
                               phase, where there are as many */
    uint8_t hoist_vgprs;    /* vector registers that opt_hoist may take through a loop */
    uint8_t holds; /* 1: what a phase makes for another stays in it, scalars and joined registers
                      too, which LLVM else makes where they are used */
    uint8_t reads_apart;     /* 1: reads for matrix instructions are not spread with other work */
    uint8_t memory_priority; /* s_setprio of memory phases, 0 in matrix phases; 0: never set */
    uint8_t early_priority;  /* 1: it is 0 again while waves wait for the matrix phase, not after
                                their barrier; with two roles */
    uint8_t even_code;       /* 1: the steady loop's matrix phases begin at multiples of 8 bytes, as
                                almost all of their instructions have */
    uint8_t loop_at; /* 1 + words from a window of instruction fetch to where the steady loop's
                        guard begins; 0: anywhere */
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

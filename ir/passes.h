/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline is the table in ir/passes.def: each pass's requirements, what it keeps, and one line
 * that says what it does. The driver prints, verifies and round-trips between them.
 */
#ifndef IR_PASSES_H
#define IR_PASSES_H

#include <stdio.h>

#include "ir/ir.h"

/** The phases that end with a barrier when the waves have one role. */
enum tir_loop_barriers {
    TIR_BARRIERS_PROLOGUE, /* at ops that are barriers, and after each phase of the prologue */
    TIR_BARRIERS_OPS       /* only at ops that are barriers */
};

/**
 * The structure of a kernel's pipelined loop: how lower_pipeline arranges ops by their stages and
 * phases. Templates derive it from a pipeline's table (templates/pipeline/).
 */
struct tir_loop_plan {
    uint8_t stages;        /* number of the loop's stages; 0 or 1: the loop is not changed */
    uint8_t matrix_phases; /* bit for each phase with matrix instructions */
    uint8_t open_phases;   /* bit for each phase without a boundary to the next phase */
    /* 2: two equal groups of waves, the second one group of phases later; else one role */
    uint8_t roles;
    /* 1: the roles are shifted before the prologue's last iteration, not after it */
    uint8_t shift_early;
    /* enum tir_loop_barriers; with two roles every boundary is a barrier */
    uint8_t barriers;
    /* first iterations of the prologue in which only barrier ops are barriers */
    uint8_t bare_iterations;
    uint8_t unroll; /* 2: the steady loop has two iterations, whose buffers alternate */
    uint8_t drain;  /* iterations after the steady loop that omit stages without a tile */
    /* phases: in the first drained iteration, ops of the first stage move from phase drain_from to
     * drain_to */
    uint8_t drain_from, drain_to;
    /* 1: one wave per SIMD, so only its own work hides latency: copies to LDS, scalar ops and reads
     * for the next phase are spread under matrix instructions too */
    uint8_t one_wave;
};

/** The placement of other work between the matrix instructions of a phase. */
enum tir_cover {
    TIR_COVER_NONE,  /* in the template's order */
    TIR_COVER_EVEN,  /* spread evenly over all matrix instructions */
    TIR_COVER_FILL,  /* after each as much as fits into its shadow_slots */
    TIR_COVER_MIXED, /* spread evenly, with exponentials and other work alternating */
};

/** The schedule of a kernel: the structure of its loop, and parameters of the instruction order. */
struct tir_schedule {
    struct tir_loop_plan loop;
    uint8_t cover; /* enum tir_cover */
    /* 1: no work after a phase's last matrix instruction if all of it fits under the others */
    uint8_t bare_last;
    /* prefetch distance: matrix instructions from an LDS read to the use of its data; 0: 5 */
    uint8_t read_ahead;
    /* matrix instructions between two groups of LDS reads that feed matrix instructions, at least
     * 2; 0: reads are placed one by one */
    uint8_t read_group;
    /* matrix instructions from an op that transposes LDS data in registers to the use of its
     * result; 0: placed like other work */
    uint8_t transpose_ahead;
    /* with one_wave: matrix instructions from the last read for the next phase to the phase's
     * end */
    uint8_t late_ahead;
    /* matrix instructions from a lane exchange through LDS to the use of its result; the exchange
     * is placed before other work. 0: placed like other work */
    uint8_t exchange_ahead;
    /* matrix instructions between a matrix instruction and the use of its result in the same phase,
     * if as many follow it there; 0: no minimum */
    uint8_t result_after;
    uint8_t hoist_vgprs; /* vector registers that opt_hoist may occupy through a loop */
    /* 1: values that a phase computes for another are computed in it, scalars and joined registers
     * included. LLVM would otherwise sink them to their use */
    uint8_t holds;
    /* 1: LDS reads for matrix instructions are not counted as work when other work is spread */
    uint8_t reads_apart;
    /* s_setprio level of memory phases; matrix phases have 0. 0: never set */
    uint8_t memory_priority;
    /* with two roles, 1: the priority returns to 0 before the barrier at the start of a matrix
     * phase, not after it */
    uint8_t early_priority;
    /* 1: matrix phases of the steady loop begin at multiples of 8 bytes, the size of most of their
     * instructions */
    uint8_t even_code;
    /* 1: what lanes compute of their numbers after a loop is computed again there, so that no
     * register has it through the loop */
    uint8_t fresh_lanes;
    /* 1 + words from a fetch window's start to the steady loop's guard; 0: no alignment */
    uint8_t loop_at;
};

/* Options of a run of the passes. */
struct tir_pass_options {
    const struct tir_schedule *schedule;
    const char *print;      /* name of the pass after which to print to `out`, "all", or NULL */
    const char *stop_after; /* last pass to run, or NULL */
    const char *disable;    /* comma-separated names of passes not to run, or NULL */
    FILE *out;              /* for `print`; NULL: nothing is printed but errors, on stderr */
    bool round_trip;        /* for tests: check after each pass that parse(print(f)) prints alike */
    /* For tests, if not NULL: called with the function before the first pass (`pass` NULL) and
     * after each pass. `context` is passed on. */
    void (*observe)(void *context, const char *pass, const struct tir_func *f);
    void *context;
    /* If not NULL: receives the text of the function before lower_tiles, which the caller frees,
     * and its bytes. Ops of the result carry their line in it. */
    char **tiles;
    size_t *tiles_size;
};

/* Values of the columns `requires` and `keeps` in passes.def. An order is what a pass keeps. */
enum tir_pass_level { TIR_PASS_any, TIR_PASS_tiles, TIR_PASS_registers };
enum tir_pass_order {
    TIR_PASS_nothing = 0,
    TIR_PASS_branches = 1,
    TIR_PASS_writes = 2,
    TIR_PASS_spine = TIR_PASS_branches | TIR_PASS_writes,
    TIR_PASS_effects = 4 | TIR_PASS_spine,
};

/** A row of the table. Passes named lower_* may not be disabled. */
struct tir_pass {
    const char *name, *description;
    /* Level of ops that the pass requires, and order that it keeps. */
    enum tir_pass_level requires_;
    enum tir_pass_order keeps;
    /* runs the pass and returns true if it changed anything */
    bool (*run)(struct tir_func *f, const struct tir_schedule *s);
};
extern const struct tir_pass tir_passes[];
extern const unsigned tir_n_passes;

/* Declares each pass of the table as a function: tir_opt_dce(f, schedule), ... */
#define PASS(name, ...) bool tir_##name(struct tir_func *f, const struct tir_schedule *s);
#include "ir/passes.def"
#undef PASS

/**
 * Runs the table of passes on f.
 * Returns false, with a sentence in `why` and nothing run, in two cases. Either an option names no
 * pass or disables a required one, or f breaks a rule of the verifier. In the second case f is
 * printed on `out` (stderr if NULL).
 * If asserts are enabled, each pass's result is verified too. A failure names the pass and aborts
 * the process.
 */
bool tir_run_passes(struct tir_func *f, const struct tir_pass_options *o, char why[128]);

/** Prints a function; parse(print(f)) is f. */
void tir_print(const struct tir_func *f, FILE *out);

/** Parses the printed form. Returns NULL on bad input, with line:column and a sentence in
 * `error`. */
struct tir_func *tir_parse(const char *text, size_t size, const struct tir_machine *machine,
                           char error[256]);

/** Checks every rule of ir.h and ops.def. True if there are no findings. All findings are printed
 * to `out`, each beside its op in the printed function. `after` names the pass to blame. */
bool tir_verify(const struct tir_func *f, const char *after, FILE *out);

#endif

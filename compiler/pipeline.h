/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles one variant to one kernel: template, passes, lowering, link, analysis. The build driver
 * calls it in its worker processes. The cache and the pack writer store the result.
 */
#ifndef COMPILER_PIPELINE_H
#define COMPILER_PIPELINE_H

#include <stdio.h>

#include "targets/codegen.h"
#include "templates/template.h"

/** Bytes of a message, most arguments of a kernel, and bytes of an argument's name. Sizes of texts
 * include the NUL. */
enum { ATTNC_WHY = 256, ATTNC_MAX_ARGS = 96, ATTNC_ARG_NAME = 32 };

/** The stage at which compilation stops; attnc_kernel.code holds that stage's output. */
enum attnc_stage {
    ATTNC_STAGE_PASSES, /* no output: the passes have run */
    ATTNC_STAGE_IR,     /* tile IR after the last pass that ran, as text */
    ATTNC_STAGE_LLVM,   /* LLVM IR, as text */
    ATTNC_STAGE_ASM,    /* assembly, as text */
    ATTNC_STAGE_OBJECT, /* relocatable ELF */
    ATTNC_STAGE_LINKED, /* loadable code object; attnc_kernel.facts is set too */
};

/** Options that all compilations of a build share; they are only read. */
struct attnc_compile_options {
    enum attnc_stage stage;
    /* name of the pass after which to print the IR, "all", or NULL: no pass */
    const char *print;
    const char *stop_after; /* name of the last pass to run; NULL: run all */
    const char *disable;    /* comma-separated names of passes not to run; NULL: none */
    /* true: the code object has the tile IR, and for each instruction the IR's line, for
     * debuggers */
    bool lines;
};

/** An argument of a kernel, which libattn writes to the kernarg segment. */
struct attnc_arg {
    char name[ATTNC_ARG_NAME]; /* name in the op's schema in ops/ */
    uint8_t dtype;             /* enum tir_dtype; TIR_I64 for a pointer */
    uint16_t offset;           /* byte offset in the kernarg segment */
};

/** The number of workgroups in one dimension of the grid: the launch argument `arg` divided by
 * `divide`, rounded up, times `times`. It is `times` if `arg` is "". */
struct attnc_grid {
    char arg[ATTNC_ARG_NAME];
    uint32_t divide, times;
};

/**
 * A compiled kernel. The members other than `code` contain no pointers, so that the cache can store
 * the struct. attnc_kernel_free() frees the bytes of `code`.
 */
struct attnc_kernel {
    /* name of the kernel and of its symbol; the symbol of its descriptor is NAME.kd */
    char name[ATT_NAME_MAX];
    struct attnc_arg args[ATTNC_MAX_ARGS];
    uint32_t arg_count;
    struct attnc_grid grid[3]; /* workgroups in x, y and z */
    /* most workgroups of a row of the grid; 0: no limit. See struct att_kernel */
    uint16_t workgroups_most;
    char tuning[128];              /* the tile as text, "rows=32 keys=64 ..."; may be cut off */
    struct tgt_kernel_facts facts; /* all 0 unless the stage is ATTNC_STAGE_LINKED */
    struct tgt_blob code;          /* output of the stage at which the compilation stopped */
};

/* Frees the code of a kernel. */
static inline void attnc_kernel_free(struct attnc_kernel *k) { tgt_blob_free(&k->code); }

/**
 * Compiles `v`, which its template's check has accepted, to `out`. `hooks` is LLVM bitcode for the
 * variant's target that defines attn_logits(); it is empty if the variant has no hook. The IR that
 * o->print selects goes to `log`. On failure returns false with a sentence in `why`, and leaves
 * `out` unchanged. May run on any thread.
 */
bool attnc_compile(const struct att_variant *v, const struct tgt_blob *hooks,
                   const struct attnc_compile_options *o, FILE *log, struct attnc_kernel *out,
                   char why[ATTNC_WHY]);

/**
 * Like attnc_compile(), but if the kernel spills and the variant names no tile, compiles it with
 * other tiles. These are rows of the template's table, then rows with one knob changed, at most
 * SPARE_TILES tiles. The first tile without spills is used, otherwise the one that spills least.
 */
bool attnc_compile_unspilled(const struct att_variant *v, const struct tgt_blob *hooks,
                             const struct attnc_compile_options *o, FILE *log,
                             struct attnc_kernel *out, char why[ATTNC_WHY]);

#endif

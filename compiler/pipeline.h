/* SPDX-License-Identifier: Apache-2.0
 *
 * One variant in, one kernel out: template, passes, lowering, link. The build driver calls it from
 * its worker threads; what it returns is what the cache keeps and the pack writer writes.
 */
#ifndef COMPILER_PIPELINE_H
#define COMPILER_PIPELINE_H

#include <stdio.h>

#include "targets/codegen.h"
#include "templates/template.h"

enum { ATTNC_WHY = 256, ATTNC_MAX_ARGS = 96, ATTNC_ARG_NAME = 32 };

/** The stage at which compilation stops; attnc_kernel.code holds that stage's output. */
enum attnc_stage {
    ATTNC_STAGE_IR,     /* tile IR after the last pass that ran, as text */
    ATTNC_STAGE_LLVM,   /* LLVM IR, as text */
    ATTNC_STAGE_ASM,    /* assembly, as text */
    ATTNC_STAGE_OBJECT, /* relocatable ELF */
    ATTNC_STAGE_LINKED, /* loadable code object, analysed */
};

/** Shared by every compile of a build; read only. */
struct attnc_compile_options {
    enum attnc_stage stage;
    const char *print;      /* pass after which to print the IR, "all", or NULL */
    const char *stop_after; /* last pass to run, or NULL */
    const char *disable;    /* comma-separated passes not to run, or NULL */
    bool lines;             /* keep the tile IR in the code object, and the lines of instructions */
};

/** A kernel argument as the runtime packs it. */
struct attnc_arg {
    char name[ATTNC_ARG_NAME]; /* as in op_args.def, which is made from ops/ */
    uint8_t dtype;             /* enum tir_dtype; pointers are i64 */
    uint16_t offset;           /* bytes in the kernarg segment */
};

/** A dimension of the grid: ceil(argument / divide) * times; without an argument, times. */
struct attnc_grid {
    char arg[ATTNC_ARG_NAME];
    uint32_t divide, times;
};

/**
 * A compiled kernel. Plain data but for `code`, whose bytes the holder frees with
 * attnc_kernel_free(): the cache stores the struct as it is.
 */
struct attnc_kernel {
    char name[ATT_NAME_MAX]; /* the symbol; its descriptor is NAME.kd */
    struct attnc_arg args[ATTNC_MAX_ARGS];
    uint32_t arg_count;
    struct attnc_grid grid[3];
    uint16_t workgroups_most; /* of att_kernel */
    char tuning[128];
    struct tgt_kernel_facts facts; /* all 0 unless the stage is ATTNC_STAGE_LINKED */
    struct tgt_blob code;
};

static inline void attnc_kernel_free(struct attnc_kernel *k) { tgt_blob_free(&k->code); }

/**
 * Compiles `v`, which its template's check has accepted. `hooks` is LLVM bitcode for the variant's
 * target that defines attn_logits(), empty when the variant names no file. What --print asks for
 * goes to `log`. On failure: false, a sentence in `why`, `out` untouched. Any thread.
 */
bool attnc_compile(const struct att_variant *v, const struct tgt_blob *hooks,
                   const struct attnc_compile_options *o, FILE *log, struct attnc_kernel *out,
                   char why[ATTNC_WHY]);

/**
 * attnc_compile(), but a kernel that spills is compiled again with other tiles, where the variant
 * does not name one: the rows that fit, then rows with one knob turned, SPARE_TILES of them at the
 * most. The first that spills nothing is taken; where each spills, the one that spills least.
 */
bool attnc_compile_unspilled(const struct att_variant *v, const struct tgt_blob *hooks,
                             const struct attnc_compile_options *o, FILE *log,
                             struct attnc_kernel *out, char why[ATTNC_WHY]);

#endif

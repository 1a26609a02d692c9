/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles one variant to one kernel: template, passes, lowering, link. The build driver calls it
 * in its workers. The cache and the pack writer store its result.
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

/** A kernel argument that the runtime packs. */
struct attnc_arg {
    char name[ATTNC_ARG_NAME]; /* as in op_args.def, generated from ops/ */
    uint8_t dtype;             /* enum tir_dtype; pointers are i64 */
    uint16_t offset;           /* bytes in the kernarg segment */
};

/** A dimension of the grid: ceil(argument / divide) * times, or `times` without an argument. */
struct attnc_grid {
    char arg[ATTNC_ARG_NAME];
    uint32_t divide, times;
};

/**
 * A compiled kernel. Everything but `code` is plain data, so that the cache can store the struct.
 * Free the bytes of `code` with attnc_kernel_free().
 */
struct attnc_kernel {
    char name[ATT_NAME_MAX]; /* the symbol; its descriptor is NAME.kd */
    struct attnc_arg args[ATTNC_MAX_ARGS];
    uint32_t arg_count;
    struct attnc_grid grid[3];
    uint16_t workgroups_most; /* as in struct att_kernel */
    char tuning[128];
    struct tgt_kernel_facts facts; /* all 0 unless the stage is ATTNC_STAGE_LINKED */
    struct tgt_blob code;
};

/* Frees the code and texts of a kernel. */
static inline void attnc_kernel_free(struct attnc_kernel *k) { tgt_blob_free(&k->code); }

/**
 * Compiles `v`, which its template's check has accepted. `hooks` is LLVM bitcode for the variant's
 * target that defines attn_logits(); empty: the variant has no hook. The output of --print goes to
 * `log`. On failure: false, a sentence in `why`, `out` unchanged. Any thread.
 */
bool attnc_compile(const struct att_variant *v, const struct tgt_blob *hooks,
                   const struct attnc_compile_options *o, FILE *log, struct attnc_kernel *out,
                   char why[ATTNC_WHY]);

/**
 * Compiles like attnc_compile(), but retries a kernel that spills with other tiles, unless the
 * variant names one. It tries rows that fit, then rows with one knob changed, at most SPARE_TILES.
 * It takes the first without spills, else the one that spills least.
 */
bool attnc_compile_unspilled(const struct att_variant *v, const struct tgt_blob *hooks,
                             const struct attnc_compile_options *o, FILE *log,
                             struct attnc_kernel *out, char why[ATTNC_WHY]);

#endif

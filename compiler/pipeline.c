/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles one variant: template, passes, lowering, link, analysis.
 */
#include "compiler/pipeline.h"

#include "compiler/kernel_args.h"
#include "ir/ir.h"
#include "ir/passes.h"

#include <stdlib.h>
#include <string.h>

/* Stores the message `sentence` and returns false. */
static bool fail(char why[ATTNC_WHY], const char *sentence)
{
    snprintf(why, ATTNC_WHY, "%s", sentence);
    return false;
}

/* Prints the function's IR as text to `out`. Returns false if memory is exhausted. */
static bool print_function(const struct tir_func *f, struct tgt_blob *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return false;
    tir_print(f, stream);
    if (fclose(stream)) {
        free(text);
        return false;
    }
    *out = (struct tgt_blob){(uint8_t *)text, size};
    return true;
}

/* True if the kernel's descriptor claims all registers that its code uses. A trimmed kernel must
 * have no AGPRs, because tgt_trim_descriptor() counts only VGPRs. */
static bool has_its_registers(const struct tir_func *f, const struct tgt_kernel_facts *facts,
                              char why[ATTNC_WHY])
{
    return !f->trimmed || !facts->agprs || fail(why, "a trimmed kernel uses AGPRs");
}

/* Emits a kernel of the op named `op` as tile IR, LLVM IR, assembly, object or linked code, as
 * `stage` says, to k->code. `hooks` is the bitcode of hooks, `ir` the text of the tile IR for debug
 * lines; both may be empty. */
static bool emit(const char *op, const struct tir_func *f, const struct tgt *t,
                 const struct tgt_blob *hooks, const struct tgt_blob *ir, enum attnc_stage stage,
                 struct attnc_kernel *k, char why[ATTNC_WHY])
{
    if (stage == ATTNC_STAGE_PASSES)
        return true;
    if (stage == ATTNC_STAGE_IR)
        return print_function(f, &k->code) || fail(why, "out of memory");
    bool pointers[ATTNC_MAX_ARGS];
    for (uint32_t i = 0; i < k->arg_count; i++) {
        const struct attnc_kernel_arg *a = attnc_find_kernel_arg(op, k->args[i].name);
        pointers[i] = a && a->pointer;
    }
    const struct tgt_codegen_options o = {
        .kind = stage == ATTNC_STAGE_LLVM  ? TGT_EMIT_LLVM
                : stage == ATTNC_STAGE_ASM ? TGT_EMIT_ASM
                                           : TGT_EMIT_OBJECT,
        .hooks = hooks->data,
        .hooks_size = hooks->size,
        .ir = *ir,
        .pointers = pointers,
        .producer = ATTNC_PROVENANCE,
    };
    if (stage != ATTNC_STAGE_LINKED)
        return tgt_emit(f, t, &o, &k->code, why);

    struct tgt_blob object;
    if (!tgt_emit(f, t, &o, &object, why))
        return false;
    const bool linked = tgt_link(&object, &k->code, why);
    tgt_blob_free(&object);
    if (!linked)
        return false;
    if (tgt_analyze(k->code.data, k->code.size, f->name, t, &k->facts, why) &&
        has_its_registers(f, &k->facts, why))
        return true;
    tgt_blob_free(&k->code);
    return false;
}

/* True if the function's LDS fits on its machine. The check exists because LLVM's message is less
 * clear. */
static bool fits(const struct tir_func *f, char why[ATTNC_WHY])
{
    if (f->lds_bytes <= f->machine->lds_bytes)
        return true;
    snprintf(why, ATTNC_WHY, "the kernel needs %u bytes of LDS, %s has %u", f->lds_bytes,
             f->machine->name, f->machine->lds_bytes);
    return false;
}

/* True if libattn passes an argument `name` of type `dtype` to kernels of the op, or if the op is
 * one of a test. */
static bool is_given(const char *op, const char *name, unsigned dtype, char why[ATTNC_WHY])
{
    const struct attnc_kernel_arg *const a = attnc_find_kernel_arg(op, name);
    if (!attnc_has_kernel_args(op) || (a && a->dtype == dtype))
        return true;
    snprintf(why, ATTNC_WHY,
             "the template of %s names an argument '%s', which ops/%s.def does "
             "not give as this type",
             op, name, op);
    return false;
}

/* Sets name, tile, arguments and grid of `k` from the kernel that the template of `v` has built.
 * Returns false with a message in `why` if they do not fit the record. */
static bool describe(const struct att_variant *v, const struct att_kernel *built,
                     struct attnc_kernel *k, char why[ATTNC_WHY])
{
    const struct tir_func *f = built->func;
    if (f->n_args > ATTNC_MAX_ARGS)
        return fail(why, "the kernel has more arguments than a record holds");
    snprintf(k->name, sizeof(k->name), "%s", f->name);
    snprintf(k->tuning, sizeof(k->tuning), "%s", built->tuning);
    k->arg_count = f->n_args;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (!is_given(v->op->name, f->args[i].name, f->args[i].dtype, why))
            return false;
        snprintf(k->args[i].name, sizeof(k->args[i].name), "%s", f->args[i].name);
        k->args[i].dtype = f->args[i].dtype;
        k->args[i].offset = f->args[i].offset;
    }
    k->workgroups_most = built->workgroups_most;
    for (int i = 0; i < 3; i++) {
        const struct att_grid *g = &built->grid[i];
        if (g->arg && !is_given(v->op->name, g->arg, TIR_I32, why))
            return false;
        snprintf(k->grid[i].arg, sizeof(k->grid[i].arg), "%s", g->arg ? g->arg : "");
        k->grid[i].divide = g->divide ? (uint32_t)g->divide : 1;
        k->grid[i].times = g->times ? (uint32_t)g->times : 1;
    }
    return true;
}

bool attnc_compile(const struct att_variant *v, const struct tgt_blob *hooks,
                   const struct attnc_compile_options *o, FILE *log, struct attnc_kernel *out,
                   char why[ATTNC_WHY])
{
    const struct tgt *t = tgt_find(v->target);
    if (!t)
        return fail(why, "unknown target");
    struct att_kernel built;
    v->op->build(v, &t->machine, &built);

    struct attnc_kernel k;
    memset(&k, 0, sizeof(k)); /* the cache stores the struct with its padding */
    char *tiles = NULL;
    size_t tiles_size = 0;
    const struct tir_pass_options passes = {.schedule = &built.schedule,
                                            .print = o->print,
                                            .stop_after = o->stop_after,
                                            .disable = o->disable,
                                            .out = log,
                                            .tiles = o->lines ? &tiles : NULL,
                                            .tiles_size = &tiles_size};
    bool ok = fits(built.func, why) && tir_run_passes(built.func, &passes, why) &&
              describe(v, &built, &k, why);
    const struct tgt_blob ir = {(uint8_t *)tiles, tiles_size};
    ok = ok && emit(v->op->name, built.func, t, hooks, &ir, o->stage, &k, why);
    free(tiles);
    tir_func_destroy(built.func);
    if (ok)
        *out = k;
    return ok;
}

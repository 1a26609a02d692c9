/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales that a page's elements of one head share, computed while tokens are written. The tokens
 * that one call has for a page are a run: they are neighbours in slot_mapping and in the page,
 * since a sequence's new tokens follow each other. Over the elements x of a run, for K and V
 * separately,
 *
 *   s = max(1e-6, max |x|) / largest number of the cache
 *
 * becomes the page's scale if the run begins with the page's first token. It also becomes the
 * page's scale if it is larger than the old one; the stored numbers of tokens before the run are
 * then multiplied by old / s. Otherwise the page keeps its scale. The run's tokens are stored as x
 * / scale (reshape_and_cache_with_block_quant in ROCm/aiter's csrc/kernels/cache_kernels.cu).
 *
 * A run of a head must therefore have one owner: the workgroup that has the run's first token.
 */
#ifndef TEMPLATES_CACHE_BLOCK_SCALE_H
#define TEMPLATES_CACHE_BLOCK_SCALE_H

#include "templates/cache/cache.h"

/** A run: tokens of one call that are neighbours in one page. Scalars that are equal in all waves
 * of the workgroup; i32 unless stated. */
struct att_page_run {
    struct tir_value token; /* index in the call of the run's first token */
    struct tir_value page;  /* i64: slot of the first token of the run's page */
    /* Indices in the page of the run's first token, and of the first token after the run. */
    struct tir_value begin, end;
};

/** State of the loop between att_begin_page_runs() and att_end_page_runs(); the caller only passes
 * it on. */
struct att_page_runs {
    struct tir_loop loop;
    struct tir_if inside, begins;
    struct tir_value token, next;
};
/** Begins a loop over the runs that begin with one of the call's tokens `first` to `end` - 1 (i32).
 * Returns the run of one iteration. The builder is in the loop's body until att_end_page_runs(). */
struct att_page_run att_begin_page_runs(const struct att_cache *c, struct tir_value first,
                                        struct tir_value end, struct att_page_runs *runs);
/** Ends the loop of att_begin_page_runs(). */
void att_end_page_runs(const struct att_cache *c, struct att_page_runs *runs);

/** Returns the slots (i64, of type `column`) of tokens of the run's page. Row i of `column` is the
 * token with index `first` + i (i32) in the page. Slots of tokens outside `begin` to `end` - 1
 * (i32) are negative. */
struct tir_value att_page_run_slots(const struct att_cache *c, const struct att_page_run *run,
                                    struct tir_value first, struct tir_value begin,
                                    struct tir_value end, struct tir_type column);

/** Stores `scalar` (f32), which is the same in all lanes of this wave, at LDS address `lds` (i32).
 */
void att_lds_put(struct tir_builder *b, struct tir_value lds, struct tir_value scalar);
/** Returns the largest of one f32 scalar for each wave. The scalars are adjacent in LDS from
 * address `lds` (i32) on. */
struct tir_value att_lds_max(struct tir_builder *b, struct tir_value lds);

/** Bytes of LDS for each wave in att_workgroup_max(); a single wave needs none. */
enum { ATT_BLOCK_LDS = 8 };
/** Replaces each of the `n` f32 scalars v[] by its largest value over all waves of the workgroup.
 * It has a barrier. `lds` (i32) is the LDS address of ATT_BLOCK_LDS bytes for each wave. */
void att_workgroup_max(struct tir_builder *b, struct tir_value lds, struct tir_value *v,
                       unsigned n);

/** Returns the stored scale (f32) of the run's page; 0 for a run that begins with the page's first
 * token. A barrier, such as in att_workgroup_max(), must follow before a wave writes the scale. */
struct tir_value att_block_load_scale(const struct att_cache *c, const struct att_page_run *run);

/** The scale of a run's page, and factors that follow from it, as scalars. */
struct att_block_scale {
    struct tir_value scale; /* f32: new scale of the page's tokens */
    /* i1: true if the scale is larger than the page's old one, so that older tokens must be
     * requantised. */
    struct tir_value grows;
    /* f32: old scale / new scale, the factor for stored numbers of older tokens. */
    struct tir_value shrink;
    /* f32: 1 / scale, the factor for the run's tokens before they are rounded. */
    struct tir_value inverse;
};

/** Returns the scale for a run whose largest magnitude is `absmax` (f32). `old` (f32) is the page's
 * scale, 0 if the run begins the page. */
struct att_block_scale att_block_scale(const struct att_cache *c, struct tir_value absmax,
                                       struct tir_value old);

/** Multiplies the stored numbers of the page's tokens before the run by s->shrink, one tile after
 * the other. Does nothing if s->grows is false. */
void att_block_requantise(const struct att_cache *c, const struct att_page_run *run,
                          const struct att_block_scale *s, const struct att_cache_tiles *tiles);

/** Stores s->scale as the scale of the run's page. One lane of each wave writes it. */
void att_block_store_scale(const struct att_cache *c, const struct att_page_run *run,
                           const struct att_block_scale *s);

#endif

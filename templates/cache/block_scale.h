/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales that a page's elements of one head share, found while tokens are written. The tokens that
 * one call has for a page are a run: neighbours in slot_mapping as they are in the page, since a
 * sequence's new tokens follow each other. Over the elements x of a run, K and V apart,
 *
 *   s = max(1e-6, max |x|) / largest number of the cache
 *
 * becomes the page's scale if the run begins with the page's first token. It also becomes the
 * page's scale if it is larger than the old one: tokens before the run are then x * old / s. Else
 * the page keeps its scale. The run's tokens are x / scale (reshape_and_cache_with_block_quant in
 * ROCm/aiter's csrc/kernels/cache_kernels.cu).
 *
 * So a run and head must have one owner: the workgroup that looks at the run's first token.
 */
#ifndef TEMPLATES_CACHE_BLOCK_SCALE_H
#define TEMPLATES_CACHE_BLOCK_SCALE_H

#include "templates/cache/cache.h"

/** A run of tokens in a page. Scalars, equal in all waves of the workgroup; i32 except the page. */
struct att_page_run {
    struct tir_value token;      /* the run's first token in the call */
    struct tir_value page;       /* i64: slot of the page's token 0 */
    struct tir_value begin, end; /* its tokens in the page: the first, and one past the last */
};

/**
 * Visits the runs that begin with one of the tokens `first` .. `end` - 1, one after the other. The
 * builder moves into the body, which runs for each; att_end_page_runs() ends it.
 */
struct att_page_runs {
    struct tir_loop loop;
    struct tir_if inside, begins;
    struct tir_value token, next;
};
struct att_page_run att_begin_page_runs(const struct att_cache *c, struct tir_value first,
                                        struct tir_value end, struct att_page_runs *runs);
void att_end_page_runs(const struct att_cache *c, struct att_page_runs *runs);

/**
 * Returns the slots of the page's tokens first + i, one in each row of an i64 column. Slots outside
 * `begin` .. `end` - 1 are negative. All scalars are i32.
 */
struct tir_value att_page_run_slots(const struct att_cache *c, const struct att_page_run *run,
                                    struct tir_value first, struct tir_value begin,
                                    struct tir_value end, struct tir_type column);

/** Store this wave's f32 scalar at an LDS address; return the largest of the scalars that all waves
 * stored, which begin at an LDS address. */
void att_lds_put(struct tir_builder *b, struct tir_value lds, struct tir_value scalar);
struct tir_value att_lds_max(struct tir_builder *b, struct tir_value lds);

/** Returns the largest value over all waves of the workgroup: n f32 scalars at once. It has a
 * barrier. lds has ATT_BLOCK_LDS bytes for each wave; a single wave needs none. */
enum { ATT_BLOCK_LDS = 8 };
void att_workgroup_max(struct tir_builder *b, struct tir_value lds, struct tir_value *v,
                       unsigned n);

/** Returns the page's scale, an f32; 0 for a run that begins with the page. A barrier, such as in
 * att_workgroup_max(), must follow before a wave writes the scale. */
struct tir_value att_block_load_scale(const struct att_cache *c, const struct att_page_run *run);

/** The scale of a run, as scalars. */
struct att_block_scale {
    struct tir_value scale;   /* f32: new scale of the page's tokens */
    struct tir_value grows;   /* i1: the scale increased, so older tokens must be requantised */
    struct tir_value shrink;  /* f32: old scale / new scale, the factor for the older stored
                                 numbers */
    struct tir_value inverse; /* f32: 1 / scale, the factor for the new tokens */
};

/** Computes the scale of a run from its largest |x| and the page's old scale, both f32. */
struct att_block_scale att_block_scale(const struct att_cache *c, struct tir_value absmax,
                                       struct tir_value old);

/** Requantises the page's tokens before the run if the scale grows, in a loop of tiles. */
void att_block_requantise(const struct att_cache *c, const struct att_page_run *run,
                          const struct att_block_scale *s, const struct att_cache_tiles *tiles);

/** Stores the page's scale, by one lane of each wave. */
void att_block_store_scale(const struct att_cache *c, const struct att_page_run *run,
                           const struct att_block_scale *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares prefill's pipelines, each in a file of this folder, with their steps and
 * features.
 */
#ifndef TEMPLATES_PREFILL_PIPELINES_PIPELINES_H
#define TEMPLATES_PREFILL_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"

/** Indices in pipeline.buffers for the depths of the LDS buffers of K and of V. */
enum { PREFILL_LDS_K, PREFILL_LDS_V };
extern const struct pipe_buffer prefill_buffers[];

/** Features of a kernel besides enum att_feature: numbers of bits of pipe_row.needs. */
enum prefill_feature {
    /* K and V are in pages of a cache, and pass through registers. */
    PREFILL_HAS_PAGES = ATT_HAS_FAMILY,
    PREFILL_HAS_V_STORED,   /* V passes through registers on its way to LDS */
    PREFILL_HAS_PANELS,     /* K has more than one panel */
    PREFILL_HAS_V_PARTS,    /* V is read and multiplied in two parts or more */
    PREFILL_HAS_V_QUARTERS, /* V is read and multiplied in four parts or more */
    /* Some exponentials of a tile are computed one iteration later: att_tile.late_power. */
    PREFILL_HAS_LATE_EXP2,
    PREFILL_HAS_EARLY_MASK,   /* the mask is applied in phase EDGE */
    PREFILL_HAS_EARLY_COPIES, /* K is copied to LDS in phase EDGE */
    PREFILL_HAS_KEYS_FIRST,   /* K is read from LDS before V is stored there */
    PREFILL_HAS_WHOLE_KEYS,   /* all panels of K are read before the product K Q^T */
    /* K and V have q's type, so that V is loaded late from pages. */
    PREFILL_HAS_LATE_V,
    PREFILL_HAS_PAGE_COPIES, /* K and V of a cache are copied to LDS without registers */
    PREFILL_N_FEATURES
};
/** Names of the features, for drawings, indexed by bit; NULL at the end. */
extern const char *const prefill_features[];

/** The bit of feature PREFILL_HAS_<name> in pipe_row.needs and pipe_row.unless. */
#define HAS(name) (1u << PREFILL_HAS_##name)

/* Steps of prefill's pipelines. Steps on K have two parts: part 0 for the first panel of K, part 1
 * for all other panels. */
/* Find the byte offset of a page-table entry, for K and for V. */
extern const struct pipe_op prefill_find_k_entry, prefill_find_v_entry;
/* Load the page numbers of a tile of K, and of V. */
extern const struct pipe_op prefill_find_k, prefill_find_v;
extern const struct pipe_op prefill_issue_k, prefill_issue_v; /* issue copies of K, of V to LDS */
/* K through registers: load from pages, store to LDS. */
extern const struct pipe_op prefill_load_k, prefill_store_k;
/* V of a tensor through registers: load, store to LDS. */
extern const struct pipe_op prefill_load_v, prefill_store_v;
/* V of a cache through registers: load, clear rows that no query sees. */
extern const struct pipe_op prefill_load_v_pages, prefill_clear_v;
/** Stores V of a cache to LDS, after prefill_clear_v. */
extern const struct pipe_op prefill_store_v_ready;
/** Load the mask of a tile; find whether it hides a key. */
extern const struct pipe_op prefill_load_mask, prefill_check_mask;
/** Read operands of the products from LDS; prefill_read_v_rest reads V's last rows for
 * PREFILL_TAIL_REST. */
extern const struct pipe_op prefill_read_k, prefill_read_v, prefill_read_v_rest;
/** Computes S^T = K Q^T. */
extern const struct pipe_op prefill_product_qk;

/** Rows of steps that several pipelines share, in shared_rows.c: mask and rescale check of scores,
 * exponents and powers, sums and rounded weights. */
extern const struct pipe_row prefill_rows_mask[], prefill_rows_exponents[];
extern const struct pipe_row prefill_rows_weights[];

/** Phases, and rows of the steps from weights to O, of the pipelines one_wave_transposed and
 * one_wave_pages. */
extern const struct pipe_phase prefill_transposed_phases[];
extern const struct pipe_row prefill_rows_values[];

/** All of prefill's pipelines; NULL at the end. */
extern const struct pipeline *const prefill_pipelines[];
extern const struct pipeline prefill_ping_pong, prefill_one_wave, prefill_one_wave_transposed,
    prefill_one_wave_pages;

#endif

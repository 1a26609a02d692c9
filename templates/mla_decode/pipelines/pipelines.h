/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and features of mla_decode's pipelines, each a file of this folder.
 */
#ifndef TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/mla_decode/mla_decode.h"

/** Buffers of tiles in LDS. */
enum { MLA_LDS_BLOCK, MLA_LDS_P, MLA_LDS_ENTRIES };
/** Buffers of blocks in halves: of columns, or of cache lines. P of row_pairs is after its entries. */
enum { MLA_LDS_FIRST, MLA_LDS_LAST, MLA_LDS_PAIR_P = 3 };
/** Of dv_split: the factors of O's columns, which pad the rows of a block. */
enum { MLA_LDS_ALPHA = MLA_LDS_ENTRIES, MLA_DV_P_BUFFERS = 2 /* places for P */ };
/** Queues of copies. */
enum { MLA_COPIES_FIRST, MLA_COPIES_LAST };

/** Features of a kernel, beside attention's own: bits of pipe_row.needs. */
enum mla_feature {
    MLA_HAS_SCALED = ATT_HAS_FAMILY, /* weights of fp8 with a scale for each block */
    MLA_HAS_STREAMS,                 /* each block is read once: HBM limits the loop */
    MLA_HAS_ROTATED,                 /* rows have a rotated key */
    MLA_HAS_LISTS,                   /* rows are slots of a sparse list */
    MLA_HAS_ONE_P,                   /* LDS has one place for the weights of a pair */
};
extern const char *const mla_features[];

/* Steps of one wave a SIMD: one_wave.c. */
extern const struct pipe_op mla_find_pages, mla_copy_block, mla_read_k, mla_product_qk;
extern const struct pipe_op
    mla_read_c; /* parts 0 and 1: of the first keys; others: of later ones */
extern const struct pipe_op mla_make_scaled, mla_rescale_scaled, mla_round_scaled,
    mla_product_scaled;

/* Steps of one wave a SIMD that transposes c in registers: register_transpose.c. */
extern const struct pipe_op mla_transpose_find_page, mla_transpose_find_block;
extern const struct pipe_op mla_transpose_copy_rows; /* part: which half */
extern const struct pipe_op mla_transpose_copy_first, mla_transpose_copy_last; /* parts 0 and 1 */
extern const struct pipe_op mla_transpose_copy_rotated;
extern const struct pipe_op mla_transpose_read_k, mla_transpose_product_qk;
extern const struct pipe_op mla_transpose_follow, mla_transpose_rescale, mla_transpose_order_p;
/* Quarters of c: parts 0 and 1 are in the first half of the columns, 2 and 3 in the last. */
extern const struct pipe_op mla_transpose_read_first, mla_transpose_read_last;
extern const struct pipe_op mla_transpose_turn, mla_transpose_product_pv;

/* Steps of dv_split.c, beside those of register_transpose.c. */
extern const struct pipe_op mla_dv_find_page, mla_dv_load_page, mla_dv_keep_page, mla_dv_copy;
extern const struct pipe_op mla_dv_read_k, mla_dv_check_max, mla_dv_follow_max;
extern const struct pipe_op mla_dv_store_p, mla_dv_sum, mla_dv_read_alpha, mla_dv_rescale;
extern const struct pipe_op mla_dv_read_c, mla_dv_turn_c;              /* part: half of the keys */
extern const struct pipe_op mla_dv_read_p, mla_dv_take_o;              /* part: quarter of O */
extern const struct pipe_op mla_dv_product_first, mla_dv_product_last; /* halves of the keys */
extern const struct pipe_op mla_dv_join;

/* Steps of wave pairs: one_wave.c, wave_pair.c, and gather.c for lists. */
extern const struct pipe_op mla_find_lane_pages, mla_find_run_rows, mla_copy_run_rows;
extern const struct pipe_op mla_list_copy_entries, mla_list_read_entries, mla_list_find;
extern const struct pipe_op mla_list_copy, mla_list_clear;
extern const struct pipe_op mla_pair_exponent, mla_pair_make_p, mla_pair_read_p;
extern const struct pipe_op mla_pair_rescale, mla_pair_sum;
extern const struct pipe_op mla_pair_product; /* part: of the keys */

/* Steps of wave pairs with row pairs in LDS: gather.c, one_wave.c, wave_pair_exchange.c. */
extern const struct pipe_op mla_lines_copy_entries, mla_lines_find; /* entries: of the next block */
extern const struct pipe_op mla_lines_copy_first, mla_lines_copy_last; /* parts 0 and 1 */
extern const struct pipe_op mla_lines_read_k, mla_lines_read_c;
extern const struct pipe_op mla_lines_store_p, mla_lines_read_p, mla_lines_sum;
extern const struct pipe_op mla_lines_rescale, mla_lines_scales, mla_lines_product;

/** All of mla_decode's pipelines; NULL at the end. */
extern const struct pipeline *const mla_pipelines[];
extern const struct pipeline mla_one_wave, mla_register_transpose, mla_wave_pair, mla_row_pairs,
    mla_dv_split;

#endif

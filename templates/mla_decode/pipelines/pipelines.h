/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and features of mla_decode's pipelines. Each pipeline is a file of this folder.
 */
#ifndef TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/mla_decode/mla_decode.h"

/** Returns the kernel that a step's context belongs to. */
static inline struct mla *mla_of(void *context)
{
    return ((struct att_attention *)context)->family;
}

/** Returns the number (i32) of the block whose step is being built. */
static inline struct tir_value mla_block_of(const struct mla *s)
{
    return s->d.attention.now.block.index;
}

/** Numbers of the buffers of tiles in LDS. */
enum {
    MLA_LDS_BLOCK,
    MLA_LDS_P,
    MLA_LDS_ENTRIES,
    MLA_LDS_S,
    MLA_LDS_FIRST_PIECE /* first piece of a block, with K's first panels */
};
/** Numbers of the buffers of pipelines that copy a block in two halves, of its columns or cache
 * lines. MLA_LDS_ENTRIES keeps its number, 2, so P of pipeline row_pairs has the next one. */
enum { MLA_LDS_FIRST, MLA_LDS_LAST, MLA_LDS_PAIR_P = 3 };
/** dv_split has alpha in the padding of a block's rows. */
enum { MLA_LDS_ALPHA = MLA_LDS_ENTRIES, MLA_DV_P_BUFFERS = 2 /* places for P */ };
/** Queues of copies to LDS: a wait is for all copies of one queue. */
enum { MLA_COPIES_FIRST, MLA_COPIES_LAST };

/** Features of a kernel, beside attention's own: bits of pipe_row.needs. */
enum mla_feature {
    MLA_HAS_SCALED = ATT_HAS_FAMILY, /* weights of fp8 with a scale for each block */
    MLA_HAS_STREAMS,                 /* HBM limits the loop: each block is read once, or rows are
                                        slots of a list */
    MLA_HAS_ROTATED,                 /* rows have a rotated key */
    MLA_HAS_LISTS,                   /* rows are slots of a sparse list */
    MLA_HAS_ONE_P,                   /* LDS has one place for the weights of a pair */
    MLA_HAS_HALVES,                  /* the latent passes to LDS in two pieces */
    MLA_HAS_PIECES,                  /* a block has more than one piece */
    MLA_HAS_ROW_PARTS,               /* waves split the contraction of K Q^T, and sum S */
    MLA_HAS_KEY_PARTS,  /* waves split the keys, and agree on a maximum that has grown */
    MLA_HAS_SHARED_MAX, /* waves split the keys, and exchange maxima before weights are
                                        made */
    MLA_HAS_ONE_BLOCK,  /* LDS has one block */
    MLA_HAS_TWO_BLOCKS, /* LDS has two blocks and no room for a third */
    MLA_HAS_EARLY_K,    /* K's first panels are read before the block's last barrier */
};
extern const char *const mla_features[];

/* Bits of pipe_row.needs and pipe_row.unless. */
#define HAS(name) (1u << MLA_HAS_##name)

/* Steps of waves that share scores: block.c, weights.c, scaled.c and share.c. */
extern const struct pipe_op mla_find_piece, mla_load_piece, mla_store_piece; /* part: see block.c */
extern const struct pipe_op mla_store_first; /* of a block that is read before it is complete */
extern const struct pipe_op mla_load_mask, mla_store_list, mla_read_list;
extern const struct pipe_op mla_read_early, mla_multiply_keys, mla_multiply_early;
extern const struct pipe_op mla_load_c, mla_transpose_c, mla_product;
extern const struct pipe_op mla_max, mla_own_max, mla_store_tops, mla_read_tops, mla_shared_max;
extern const struct pipe_op mla_make_p, mla_rescale_own, mla_sum, mla_store_p, mla_store_own_p;
extern const struct pipe_op mla_read_alpha, mla_rescale, mla_rescale_columns, mla_agree, mla_read_p;
extern const struct pipe_op mla_scaled_exponent, mla_scaled_store_p, mla_scaled_agree,
    mla_scaled_sum, mla_scaled_product;
extern const struct pipe_op mla_store_s, mla_read_s, mla_sum_s;

/* Rows that tables of these waves share. Stages and phases count from the row pipe_part. */
extern const struct pipe_row mla_rows_first_piece[], mla_rows_other_pieces[]; /* of a block */
extern const struct pipe_row mla_rows_scores[];  /* QK in phase 0, mask and sums in phase 1 */
extern const struct pipe_row mla_rows_weights[]; /* from scores to P in LDS */
extern const struct pipe_row mla_rows_product[]; /* from P in LDS to O */

/* Rows from a block's arrival in LDS to its product, of tables with lists and without: one_wave.c,
 * and register_transpose.c. Stages count from the block's arrival. */
extern const struct pipe_row mla_rows_one_wave[], mla_rows_transpose[];

/* Steps of waves with columns of their own: block.c. Parts of K: the first panels, the others. */
extern const struct pipe_op mla_read_k, mla_read_k_in_halves, mla_product_qk;

/* Steps of one wave a SIMD: one_wave.c. */
extern const struct pipe_op mla_find_pages, mla_copy_block;
/* Parts of c for the first keys: 0 has the first columns, 1 the others. Further parts are of later
 * keys, with all columns. */
extern const struct pipe_op mla_read_c;
extern const struct pipe_op mla_rescale_some; /* rescale branch: att_softmax_rescale_some() */
extern const struct pipe_op mla_make_scaled, mla_rescale_scaled, mla_round_scaled,
    mla_product_scaled;

/* Steps of one wave a SIMD that transposes c in registers: register_transpose.c. */
extern const struct pipe_op mla_transpose_find_page, mla_transpose_find_block;
/* copy_rows: part 0 or 1 is the first or the last half of a block's rows. copy_first has part 0,
 * the first half of the latent's columns, and copy_last part 1, the last half. */
extern const struct pipe_op mla_transpose_copy_rows;
extern const struct pipe_op mla_transpose_copy_first, mla_transpose_copy_last;
extern const struct pipe_op mla_transpose_copy_rotated;
extern const struct pipe_op mla_transpose_follow, mla_transpose_order_p;
/* Quarters of c: parts 0 and 1 are in the first half of the columns, 2 and 3 in the last. */
extern const struct pipe_op mla_transpose_read_first, mla_transpose_read_last;
extern const struct pipe_op mla_transpose_quarter, mla_transpose_product_pv;

/* Steps of dv_split.c. Its table has some of register_transpose.c too. */
extern const struct pipe_op mla_dv_find_page, mla_dv_load_page, mla_dv_keep_page, mla_dv_copy;
extern const struct pipe_op mla_dv_check_max, mla_dv_follow_max;
extern const struct pipe_op mla_dv_store_p, mla_dv_sum, mla_dv_read_alpha, mla_dv_rescale;
extern const struct pipe_op mla_dv_read_c, mla_dv_transpose_c;         /* part: half of the keys */
extern const struct pipe_op mla_dv_read_p, mla_dv_take_o;              /* part: quarter of O */
extern const struct pipe_op mla_dv_product_first, mla_dv_product_last; /* halves of the keys */
extern const struct pipe_op mla_dv_join;

/* Steps of wave pairs: one_wave.c, wave_pair.c, and gather.c for lists. */
extern const struct pipe_op mla_find_lane_pages, mla_find_run_rows, mla_copy_run_rows;
extern const struct pipe_op mla_list_copy_entries, mla_list_read_entries, mla_list_find;
extern const struct pipe_op mla_list_copy, mla_list_clear;
/* Steps of lists where c is transposed in registers: gather.c. copy_first has part 0, the first
 * half of the columns, and copy_last part 1. */
extern const struct pipe_op mla_list_copy_first, mla_list_copy_last;
extern const struct pipe_op mla_pair_exponent, mla_pair_make_p, mla_pair_read_p;
extern const struct pipe_op mla_pair_rescale, mla_pair_sum;
extern const struct pipe_op mla_pair_product; /* part: of the keys */

/* Steps of wave pairs with row pairs in LDS: gather.c, one_wave.c, wave_pair_exchange.c. */
extern const struct pipe_op mla_lines_copy_entries;                    /* of the next block */
extern const struct pipe_op mla_lines_copy_first, mla_lines_copy_last; /* parts 0 and 1 */
extern const struct pipe_op mla_lines_read_c;
extern const struct pipe_op mla_lines_store_p, mla_lines_read_p, mla_lines_sum;
extern const struct pipe_op mla_lines_rescale, mla_lines_scales, mla_lines_product;

/** All of mla_decode's pipelines; NULL at the end. */
extern const struct pipeline *const mla_pipelines[];
extern const struct pipe_buffer mla_shared_buffers[];
extern const struct pipe_phase mla_shared_phases[];    /* of shared_scores, replicated_scores */
extern const struct pipe_phase mla_one_wave_phases[];  /* enum one_wave_phase */
extern const struct pipe_phase mla_transpose_phases[]; /* of both register_transpose tables */
extern const struct pipeline mla_one_wave, mla_one_wave_lists, mla_register_transpose,
    mla_register_transpose_lists, mla_wave_pair, mla_row_pairs, mla_dv_split;
extern const struct pipeline mla_replicated_scores, mla_shared_scores, mla_deferred_values,
    mla_values_between, mla_early_copy;

#endif

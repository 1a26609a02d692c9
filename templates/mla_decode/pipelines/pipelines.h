/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and features of mla_decode's pipelines, and the lists of rows that tables share. Each
 * pipeline is a file of this folder. A comment names the file with the steps; c is a block's latent
 * rows.
 */
#ifndef TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/mla_decode/mla_decode.h"

/** Returns the kernel of a step's context, which is the address of its struct att_attention. */
static inline struct mla *mla_of(void *context)
{
    return ((struct att_attention *)context)->family;
}

/** Returns the index (i32) of the block whose step is being built. */
static inline struct tir_value mla_block_of(const struct mla *s)
{
    return s->d.attention.now.block.index;
}

/** Indices in pipeline.buffers of the buffers in LDS: a block, P, entries of a sparse list, and
 * parts or maxima of S^T that waves exchange. */
enum {
    MLA_LDS_BLOCK,
    MLA_LDS_P,
    MLA_LDS_ENTRIES,
    MLA_LDS_S,
    MLA_LDS_FIRST_PIECE /* the first piece of a block, with the columns of K's first panels */
};
/** Indices in pipeline.buffers for pipelines that copy a block in two halves, of its columns or
 * cache lines. Entries of lists are still MLA_LDS_ENTRIES (2), so P of pipeline row_pairs has the
 * next index. */
enum { MLA_LDS_FIRST, MLA_LDS_LAST, MLA_LDS_PAIR_P = 3 };
/** MLA_LDS_ALPHA: index of the buffer of rescale factors alpha in dv_split, in the padding of a
 * block's rows. MLA_DV_P_BUFFERS: number of places for P in LDS in dv_split. */
enum { MLA_LDS_ALPHA = MLA_LDS_ENTRIES, MLA_DV_P_BUFFERS = 2 /* a count, not an index */ };
/** Queues of copies to LDS of a block's first and last half; a wait is for all copies of one
 * queue. */
enum { MLA_COPIES_FIRST, MLA_COPIES_LAST };

/** Features of a kernel, in addition to enum att_feature: bits of pipe_row.needs. */
enum mla_feature {
    MLA_HAS_SCALED = ATT_HAS_FAMILY, /* weights of fp8 with a scale for each column and 32 keys */
    /* HBM limits the loop, since each block is read once or rows are slots of a list. */
    MLA_HAS_STREAMS,
    MLA_HAS_ROTATED, /* cache rows have a rotated key */
    MLA_HAS_LISTS,   /* cache rows are slots or blocks of a sparse list */
    /* LDS has one place, not two, for the weights of a wave pair. */
    MLA_HAS_ONE_P,
    MLA_HAS_HALVES, /* the latent passes through registers to LDS in two halves */
    /* A block passes through registers to LDS in more than one piece. */
    MLA_HAS_PIECES,
    /* Waves split the columns of K in K Q^T, and add their parts of S^T. */
    MLA_HAS_ROW_PARTS,
    MLA_HAS_KEY_PARTS,  /* waves split the keys, and agree on a maximum only after it has grown */
    MLA_HAS_SHARED_MAX, /* waves split the keys, and exchange maxima in every block */
    MLA_HAS_ONE_BLOCK,  /* LDS has room for only one block */
    MLA_HAS_TWO_BLOCKS, /* LDS has room for two blocks, not for a third */
    /* K's first panels are read before the barrier after which a block is complete. */
    MLA_HAS_EARLY_K,
};
/** Names of the features, for drawings, indexed by bit; NULL at the end. */
extern const char *const mla_features[];

/* The bit of feature MLA_HAS_<name> in pipe_row.needs and pipe_row.unless. */
#define HAS(name) (1u << MLA_HAS_##name)

/* Steps of waves that share scores, in block.c, weights.c, scaled.c and share.c. */

/* Steps on a piece of a block: load its page numbers, load its rows, store them to LDS. Part 0 is
 * the latent or its first half, part 1 the other half, part 2 the rotated key. */
extern const struct pipe_op mla_find_piece, mla_load_piece, mla_store_piece;
/* Stores piece 0 to LDS, in kernels that read panels of K from this piece before the block is
 * complete. */
extern const struct pipe_op mla_store_first;
/* Load bytes of a custom mask; store entries of a sparse list to LDS, and read them. */
extern const struct pipe_op mla_load_mask, mla_store_list, mla_read_list;
/* Read the first panels of K early; compute S^T without (mla_multiply_keys) and with
 * (mla_multiply_early) panels that were read early. */
extern const struct pipe_op mla_read_early, mla_multiply_keys, mla_multiply_early;
/* Read the latent c from LDS, convert it to c^T, and add c^T P^T to O^T. */
extern const struct pipe_op mla_load_c, mla_transpose_c, mla_product;
/* Update the maximum m. Waves agree on m in one of the ways of enum mla_agreement. */
extern const struct pipe_op mla_max, mla_own_max, mla_store_tops, mla_read_tops, mla_shared_max;
/* Compute weights from scores, add their sum to l, and store them to LDS. */
extern const struct pipe_op mla_make_p, mla_rescale_own, mla_sum, mla_store_p, mla_store_own_p;
/* Read the rescale factors alpha and the weights from LDS, and rescale O. */
extern const struct pipe_op mla_read_alpha, mla_rescale, mla_rescale_columns, mla_agree, mla_read_p;
/* Steps on fp8 weights with scales: compute exponents, store weights, raise m, sum, multiply. They
 * are in scaled.c. */
extern const struct pipe_op mla_scaled_exponent, mla_scaled_store_p, mla_scaled_agree,
    mla_scaled_sum, mla_scaled_product;
/* Store a wave's part of S^T to LDS, read all parts, and add them. */
extern const struct pipe_op mla_store_s, mla_read_s, mla_sum_s;

/* Rows of pipeline tables for waves that share scores. A table includes a list of rows by a row
 * pipe_part, whose stage and phase the rows' stages and phases count from. */

/* Table rows that bring a block to LDS: its first piece, and the other pieces. */
extern const struct pipe_row mla_rows_first_piece[], mla_rows_other_pieces[];
/* Table rows of K Q^T (phase 0), and of the mask and the sums of S^T (phase 1). */
extern const struct pipe_row mla_rows_scores[];
/* Table rows that compute P from scores and store it to LDS. */
extern const struct pipe_row mla_rows_weights[];
/* Table rows that read P from LDS and add c^T P^T to O^T. */
extern const struct pipe_row mla_rows_product[];

/* Table rows from a block's arrival in LDS to its product with P, for pipelines with and without
 * sparse lists: one_wave and register_transpose. Stages count from the block's arrival. */
extern const struct pipe_row mla_rows_one_wave[], mla_rows_transpose[];

/* Steps of waves that have columns of their own, in block.c: read panels of K from LDS (part 0: the
 * first panels, part 1: all other panels), and compute S^T. */
extern const struct pipe_op mla_read_k, mla_read_k_in_halves, mla_product_qk;

/* Steps of one wave per SIMD, in one_wave.c: load page numbers, and copy a block to LDS. */
extern const struct pipe_op mla_find_pages, mla_copy_block;
/* Reads c^T from LDS. Part 0: the latent's first columns for the first keys. Part 1: the other
 * columns for these keys. Further parts: all columns for later keys. */
extern const struct pipe_op mla_read_c;
/* Rescales O and l: att_softmax_rescale_some(). */
extern const struct pipe_op mla_rescale_some;
/* Steps of fp8 weights with scales: compute, rescale, round, multiply. */
extern const struct pipe_op mla_make_scaled, mla_rescale_scaled, mla_round_scaled,
    mla_product_scaled;

/* Steps of one wave per SIMD whose blocks the tensor data mover copies, in tensor_rows.c: load a
 * page number, and copy the wave's rows of a block to LDS. */
extern const struct pipe_op mla_find_row_page, mla_move_rows;
/* Add c^T P^T to O^T; separate the last product from the next iteration. */
extern const struct pipe_op mla_moved_product, mla_settle;

/* Steps of one wave per SIMD that transposes c in registers, in register_transpose.c: load a page
 * number, and compute the addresses of a block. */
extern const struct pipe_op mla_transpose_find_page, mla_transpose_find_block;
/* Copies half of a block's latents to LDS, by rows: part 0 the first half, part 1 the last. */
extern const struct pipe_op mla_transpose_copy_rows;
/* Copy half of the columns of a block's latents to LDS: copy_first copies the first half, copy_last
 * the last half. */
extern const struct pipe_op mla_transpose_copy_first, mla_transpose_copy_last;
/* Copies the rotated keys of a block to LDS. */
extern const struct pipe_op mla_transpose_copy_rotated;
/* Raise m if the rescale check has found growth; move P to the lanes of its operand. */
extern const struct pipe_op mla_transpose_follow, mla_transpose_order_p;
/* Read a quarter of the latent's columns from LDS. Parts 0 and 1 are in the first half
 * (read_first), parts 2 and 3 in the last. */
extern const struct pipe_op mla_transpose_read_first, mla_transpose_read_last;
/* Convert a quarter of the latent's columns c to c^T, and multiply it with P^T. The step's part is
 * the index of the quarter. */
extern const struct pipe_op mla_transpose_quarter, mla_transpose_product_pv;

/* Steps of dv_split.c: load a page number, and copy a block to LDS. The table has some steps of
 * register_transpose.c too. */
extern const struct pipe_op mla_dv_find_page, mla_dv_load_page, mla_dv_keep_page, mla_dv_copy;
/* Find whether a weight would be too large for fp8, and raise m then. */
extern const struct pipe_op mla_dv_check_max, mla_dv_follow_max;
/* Store P and alpha to LDS, sum P, read alpha, and rescale O. */
extern const struct pipe_op mla_dv_store_p, mla_dv_sum, mla_dv_read_alpha, mla_dv_rescale;
/* Read the latent c from LDS, and convert it to an operand. Part 0 or 1 of the step is for half of
 * the block's keys. */
extern const struct pipe_op mla_dv_read_c, mla_dv_transpose_c;
/* Read P of a quarter of the columns, and take that quarter out of O. The step's part is the index
 * of the quarter. */
extern const struct pipe_op mla_dv_read_p, mla_dv_take_o;
/* Add the product of P and c for the first, or the last, half of the keys to a quarter of O. The
 * step's part is the index of the quarter. */
extern const struct pipe_op mla_dv_product_first, mla_dv_product_last;
/* Joins the quarters of O. */
extern const struct pipe_op mla_dv_join;

/* Steps of wave pairs over pages, in one_wave.c: load page numbers to lanes, make views of runs of
 * rows, and copy these rows to LDS. */
extern const struct pipe_op mla_find_lane_pages, mla_find_run_rows, mla_copy_run_rows;
/* Steps of sparse lists, in gather.c: copy entries to LDS, read slots from LDS, and compute
 * addresses of rows. */
extern const struct pipe_op mla_list_copy_entries, mla_list_read_entries, mla_list_find;
/* Copy the wave's rows of a block to LDS, and write zeros to its rows without a key. */
extern const struct pipe_op mla_list_copy, mla_list_clear;
/* Copy half of the columns of the wave's rows to LDS, for kernels that transpose the latent in
 * registers: copy_first copies the first half, copy_last the last half. */
extern const struct pipe_op mla_list_copy_first, mla_list_copy_last;
/* Steps of wave pairs in 16 bits, in wave_pair.c: compute exponents, store P to LDS, and read P of
 * both waves. */
extern const struct pipe_op mla_pair_exponent, mla_pair_make_p, mla_pair_read_p;
/* Rescale O, l and P to the pair's maximum, and add P to l. */
extern const struct pipe_op mla_pair_rescale, mla_pair_sum;
/* Adds c^T P^T to O^T; part 0 is for the keys of the pair's first wave, part 1 for the keys of its
 * second wave. */
extern const struct pipe_op mla_pair_product;

/* Steps of wave pairs in fp8 (row pairs), in gather.c, one_wave.c and wave_pair_exchange.c. */

/* Copies the entries of the block after the current one to LDS. */
extern const struct pipe_op mla_lines_copy_entries;
/* Copy half of a block's cache lines to LDS: copy_first copies half 0, copy_last half 1
 * (mla_row_pairs_copy()). */
extern const struct pipe_op mla_lines_copy_first, mla_lines_copy_last;
/* Reads c^T from LDS. Part 0 reads the latent's first columns, part 1 the other columns. */
extern const struct pipe_op mla_lines_read_c;
/* Store P to LDS, read P of both waves, and sum the wave's P. */
extern const struct pipe_op mla_lines_store_p, mla_lines_read_p, mla_lines_sum;
/* Rescale O and l, compute the scales of P, and add c^T P^T to O^T. */
extern const struct pipe_op mla_lines_rescale, mla_lines_scales, mla_lines_product;

/** All of mla_decode's pipelines; NULL at the end. */
extern const struct pipeline *const mla_pipelines[];
/* LDS buffers of the pipelines for waves that share scores, indexed by MLA_LDS_BLOCK and others. */
extern const struct pipe_buffer mla_shared_buffers[];
/* phases of pipelines shared_scores and replicated_scores */
extern const struct pipe_phase mla_shared_phases[];
/* phases of one_wave pipelines, indexed by enum one_wave_phase */
extern const struct pipe_phase mla_one_wave_phases[];
/* Phases of register_transpose, with lists or without. */
extern const struct pipe_phase mla_transpose_phases[];
extern const struct pipeline mla_one_wave, mla_one_wave_lists, mla_one_wave_tensor,
    mla_register_transpose, mla_register_transpose_lists, mla_wave_pair, mla_row_pairs,
    mla_dv_split;
extern const struct pipeline mla_replicated_scores, mla_replicated_tensor, mla_shared_scores,
    mla_deferred_values, mla_values_between, mla_early_copy;

#endif

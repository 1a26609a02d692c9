/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that several tables of waves with shared scores have: a block to LDS in pieces, S^T,
 * weights to all waves, and the product with c. A table has the stage and phase in which each list
 * begins. The product may be in the same iteration as the scores, or in the next.
 */
#include "templates/mla_decode/pipelines/pipelines.h"

#define MASK ATT_HAS(MASK_BYTES)

enum { PAGES, LOADS, QK };

const struct pipe_buffer mla_shared_buffers[] = {
    [MLA_LDS_BLOCK] = {"block", 0, PIPE_WORKGROUP},
    [MLA_LDS_P] = {"P", 0, PIPE_WORKGROUP},
    [MLA_LDS_ENTRIES] = {"entries", 0, PIPE_WORKGROUP, .with = 1 + MLA_LDS_BLOCK},
    [MLA_LDS_S] = {"S", 0, PIPE_WORKGROUP},
    {0}};

const struct pipe_row mla_rows_first_piece[] = {
    {&mla_find_piece, PAGES, 0, .part = 0},
    {&mla_load_piece, LOADS, 0, .part = 0},
    {&mla_find_piece, PAGES, 0, .part = 2, .needs = HAS(ROTATED)},
    {&mla_load_mask, LOADS, 0, .needs = MASK, .unless = HAS(PIECES)},
    {&mla_store_piece, QK, 0, .part = 0},
    {0}};

const struct pipe_row mla_rows_other_pieces[] = {
    {&mla_load_piece, LOADS, 0, .part = 1, .needs = HAS(HALVES)},
    {&mla_load_piece, LOADS, 0, .part = 2, .needs = HAS(ROTATED)},
    {&mla_load_mask, LOADS, 0, .needs = MASK | HAS(PIECES)},
    {&mla_store_piece, QK, 0, .part = 1, .needs = HAS(HALVES)},
    {&mla_store_piece, QK, 0, .part = 2, .needs = HAS(ROTATED)},
    {&mla_store_list, QK, 0, .needs = HAS(LISTS)},
    {&pipe_await_stores, QK, 0, .part = MLA_LDS_BLOCK},
    {&pipe_barrier, QK, 0, .part = 0},
    {0}};

const struct pipe_row mla_rows_scores[] = {
    {&mla_read_list, 0, 0, .needs = HAS(LISTS)},
    {&mla_multiply_keys, 0, 0, .part = 0},
    {&mla_store_s, 0, 0, .needs = HAS(ROW_PARTS)},
    {&pipe_await_stores, 0, 0, .part = MLA_LDS_S, .needs = HAS(ROW_PARTS)},
    {&pipe_barrier, 0, 0, .needs = HAS(ROW_PARTS)},
    {&mla_read_s, 0, 1, .needs = HAS(ROW_PARTS)},
    {&mla_sum_s, 0, 1, .needs = HAS(ROW_PARTS)},
    {&att_mask, 0, 0, .needs = HAS(SCALED), .unless = MASK | HAS(LISTS)},
    {&att_mask_bytes, 0, 0, .needs = HAS(SCALED) | MASK},
    {&att_mask_bytes, 0, 0, .needs = HAS(SCALED) | HAS(LISTS), .unless = MASK},
    {&att_mask, 0, 1, .unless = MASK | HAS(LISTS) | HAS(SCALED)},
    {&att_mask_bytes, 0, 1, .needs = MASK, .unless = HAS(SCALED)},
    {&att_mask_bytes, 0, 1, .needs = HAS(LISTS), .unless = MASK | HAS(SCALED)},
    {&mla_store_tops, 0, 0, .needs = HAS(SHARED_MAX)},
    {&pipe_await_stores, 0, 0, .part = MLA_LDS_S, .needs = HAS(SHARED_MAX)},
    {&pipe_barrier, 0, 0, .needs = HAS(SHARED_MAX)},
    {&mla_read_tops, 0, 1, .needs = HAS(SHARED_MAX)},
    {0}};

const struct pipe_row mla_rows_weights[] = {
    {&mla_max, 0, 0, .unless = HAS(KEY_PARTS) | HAS(SHARED_MAX) | HAS(SCALED)},
    {&mla_shared_max, 0, 0, .needs = HAS(SHARED_MAX)},
    {&mla_own_max, 0, 0, .needs = HAS(KEY_PARTS), .unless = HAS(SCALED)},
    {&mla_scaled_exponent, 0, 0, .needs = HAS(SCALED)},
    {&mla_make_p, 0, 0, .part = 0},
    {&mla_sum, 0, 0, .unless = HAS(KEY_PARTS) | HAS(SCALED)},
    {&mla_store_p, 0, 0, .unless = HAS(KEY_PARTS) | HAS(SCALED)},
    {&mla_store_own_p, 0, 0, .needs = HAS(KEY_PARTS), .unless = HAS(SCALED)},
    {&mla_scaled_store_p, 0, 0, .needs = HAS(SCALED)},
    {0}};

const struct pipe_row mla_rows_product[] = {
    {&mla_read_alpha, 0, 0, .unless = HAS(KEY_PARTS) | HAS(SCALED)},
    {&mla_rescale, 0, 0, .unless = HAS(KEY_PARTS) | HAS(SCALED)},
    {&mla_agree, 0, 0, .needs = HAS(KEY_PARTS), .unless = HAS(SCALED)},
    {&mla_scaled_agree, 0, 0, .needs = HAS(SCALED)},
    {&mla_scaled_sum, 0, 0, .needs = HAS(SCALED)},
    {&mla_read_p, 0, 0, .unless = HAS(SCALED)},
    {&mla_load_c, 0, 0, .part = 0},
    {&mla_transpose_c, 0, 0, .part = 0},
    {&mla_product, 0, 0, .unless = HAS(SCALED)},
    {&mla_read_p, 0, 0, .needs = HAS(SCALED)},
    {&mla_scaled_product, 0, 0, .needs = HAS(SCALED)},
    {0}};

const struct pipeline *const mla_pipelines[] = {&mla_one_wave,
                                                &mla_one_wave_lists,
                                                &mla_one_wave_tensor,
                                                &mla_register_transpose,
                                                &mla_register_transpose_lists,
                                                &mla_dv_split,
                                                &mla_wave_pair,
                                                &mla_row_pairs,
                                                &mla_replicated_scores,
                                                &mla_replicated_tensor,
                                                &mla_shared_scores,
                                                &mla_deferred_values,
                                                &mla_values_between,
                                                &mla_early_copy,
                                                NULL};

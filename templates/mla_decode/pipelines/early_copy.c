/* SPDX-License-Identifier: Apache-2.0
 *
 * This pipeline is for targets with small LDS: waves of the same columns split the columns of K or
 * the keys of S^T. They add parts of S^T through LDS, or exchange its maxima, with two barriers per
 * block. A block is loaded an iteration before its scores, one half before each barrier. HBM then
 * has two requests per iteration, and the next step waits for neither. c is read before the second
 * barrier, so two blocks in LDS are enough. The last two iterations load nothing.
 *
 *     early_copy: mla_decode: 32 and 64 columns where LDS is small
 *     loads have an iteration to arrive, and the softmax runs beside the product
 *     PLACE   memory    read alpha[4], read P[4], find pages.0[0], (find pages.2[0])
 *     SCORES  matrix    transpose c[4], (read entries[3]), (QK[3]), (S to LDS[3]), (mask[3]),
 *                       (max to LDS[3])
 *     EXCHANGE memory   (block to LDS.0[2]), (block to LDS[2]), load.0[1], S here[3], barrier[3],
 *                       (first piece here[2]), (barrier[2])
 *     SOFTMAX memory    (read S[3]), (read max[3]), read c[3], (load mask[2]),
 *                       (block to LDS.1[2]), (block to LDS.2[2]), (load.1[1]), (load.2[1])
 *     FOLLOW  memory    rescale[4], (sum S[3]), (mask[3]), (max[3])
 *     VALUES  matrix    PV[4], exp2[3], sum P[3], P to LDS[3]
 *     REST    memory    (load mask[2]), (entries to LDS[2]), (read K[2]), block here[2],
 *                       barrier[2]
 *     LDS               block of a workgroup, P of a workgroup, entries of a workgroup,
 *                       S of a workgroup, first piece of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

#define MASK ATT_HAS(MASK_BYTES)

enum { PAGES, LOADS, PLACES, QK, PV };
enum { PLACE, SCORES, EXCHANGE, SOFTMAX, FOLLOW, VALUES, REST };

/* A wait for stores covers all stores: the wait for the block's stores is before P is read. */
static const struct pipe_buffer buffers[] = {
    [MLA_LDS_BLOCK] = {"block", 0, PIPE_WORKGROUP},
    [MLA_LDS_P] = {"P", 0, PIPE_WORKGROUP, .with = 1 + MLA_LDS_BLOCK},
    [MLA_LDS_ENTRIES] = {"entries", 0, PIPE_WORKGROUP, .with = 1 + MLA_LDS_BLOCK},
    [MLA_LDS_S] = {"S", 0, PIPE_WORKGROUP},
    [MLA_LDS_FIRST_PIECE] = {"first piece", 0, PIPE_WORKGROUP},
    {0}};

static const struct pipe_phase phases[] = {[PLACE] = {"PLACE", PIPE_MEMORY, .open = 0},
                                           [SCORES] = {"SCORES", PIPE_MATRIX, .branches = 1},
                                           [EXCHANGE] = {"EXCHANGE", PIPE_MEMORY, .open = 0},
                                           [SOFTMAX] = {"SOFTMAX", PIPE_MEMORY, .open = 0},
                                           [FOLLOW] = {"FOLLOW", PIPE_MEMORY, .open = 0},
                                           [VALUES] = {"VALUES", PIPE_MATRIX, .open = 0},
                                           [REST] = {"REST", PIPE_MEMORY, .open = 0},
                                           [REST + 1] = {0}};

static const struct pipe_row rows[] = {
    {&mla_find_piece, PAGES, PLACE, .part = 0},
    {&mla_load_piece, LOADS, EXCHANGE, .part = 0},
    {&mla_load_piece, LOADS, SOFTMAX, .part = 1, .needs = HAS(HALVES)},
    {&mla_find_piece, PAGES, PLACE, .part = 2, .needs = HAS(ROTATED)},
    {&mla_load_piece, LOADS, SOFTMAX, .part = 2, .needs = HAS(ROTATED)},
    {&mla_load_mask, PLACES, SOFTMAX, .needs = MASK | HAS(SHARED_MAX)},
    {&mla_load_mask, PLACES, REST, .needs = MASK, .unless = HAS(SHARED_MAX)},
    {&mla_store_piece, PLACES, EXCHANGE, .unless = HAS(EARLY_K)},
    {&mla_store_first, PLACES, EXCHANGE, .needs = HAS(EARLY_K)},
    {&mla_store_piece, PLACES, SOFTMAX, .part = 1, .needs = HAS(HALVES)},
    {&mla_store_piece, PLACES, SOFTMAX, .part = 2, .needs = HAS(ROTATED)},
    {&mla_store_list, PLACES, REST, .needs = HAS(LISTS)},
    {&pipe_await_stores, PLACES, EXCHANGE, .part = MLA_LDS_FIRST_PIECE, .needs = HAS(EARLY_K)},
    {&pipe_barrier, PLACES, EXCHANGE, .needs = HAS(EARLY_K)},
    {&mla_read_early, PLACES, REST, .needs = HAS(EARLY_K)},
    {&pipe_await_stores, PLACES, REST, .part = MLA_LDS_BLOCK},
    {&pipe_barrier, PLACES, REST, .part = 0},
    {&mla_read_list, QK, SCORES, .needs = HAS(LISTS)},
    {&mla_multiply_early, QK, SCORES, .needs = HAS(EARLY_K)},
    {&mla_multiply_keys, QK, SCORES, .unless = HAS(EARLY_K)},
    {&mla_store_s, QK, SCORES, .needs = HAS(ROW_PARTS)},
    {&mla_read_s, QK, SOFTMAX, .needs = HAS(ROW_PARTS)},
    {&mla_sum_s, QK, FOLLOW, .needs = HAS(ROW_PARTS)},
    {&att_mask, QK, SCORES, .needs = HAS(SHARED_MAX), .unless = MASK | HAS(LISTS)},
    {&att_mask_bytes, QK, SCORES, .needs = HAS(SHARED_MAX) | MASK},
    {&att_mask_bytes, QK, SCORES, .needs = HAS(SHARED_MAX) | HAS(LISTS), .unless = MASK},
    {&att_mask, QK, FOLLOW, .unless = MASK | HAS(LISTS) | HAS(SHARED_MAX)},
    {&att_mask_bytes, QK, FOLLOW, .needs = MASK, .unless = HAS(SHARED_MAX)},
    {&att_mask_bytes, QK, FOLLOW, .needs = HAS(LISTS), .unless = MASK | HAS(SHARED_MAX)},
    {&mla_store_tops, QK, SCORES, .needs = HAS(SHARED_MAX)},
    {&pipe_await_stores, QK, EXCHANGE, .part = MLA_LDS_S},
    {&pipe_barrier, QK, EXCHANGE, .part = 0},
    {&mla_read_tops, QK, SOFTMAX, .needs = HAS(SHARED_MAX)},
    {&mla_max, QK, FOLLOW, .unless = HAS(SHARED_MAX)},
    {&mla_shared_max, QK, FOLLOW, .needs = HAS(SHARED_MAX)},
    {&mla_make_p, QK, VALUES, .part = 0},
    {&mla_sum, QK, VALUES, .part = 0},
    {&mla_store_p, QK, VALUES, .part = 0},
    {&mla_read_alpha, PV, PLACE, .part = 0},
    {&mla_rescale_columns, PV, FOLLOW, .part = 0},
    {&mla_read_p, PV, PLACE, .part = 0},
    {&mla_load_c, QK, SOFTMAX, .part = 0},
    {&mla_transpose_c, PV, SCORES, .part = 0},
    {&mla_product, PV, VALUES, .part = 0},
    {0}};

const struct pipeline mla_early_copy = {
    .name = "early_copy",
    .when = "mla_decode: 32 and 64 columns where LDS is small",
    .why = "loads have an iteration to arrive, and the softmax runs beside the product",
    .phases = phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN},
    .roles = 1,
    .bare = PIPE_ALL,
    .drain = 2,
    .drain_from = SOFTMAX,
    .drain_to = REST,
    .barrier_last = 1,
};

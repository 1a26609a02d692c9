/* SPDX-License-Identifier: Apache-2.0
 *
 * As one_wave, where the tensor data mover copies blocks and a product takes all keys of a block.
 * An iteration has one barrier: after it the next block is in LDS, and all waves have read the
 * block before the previous one.
 *
 *     one_wave_tensor: mla_decode: 65 columns or more where the tensor data mover copies blocks
 *     a wave has 32 columns, all keys and all of O: waves exchange nothing
 *     M1      memory    (rescale[6]), block to LDS[1]
 *     BEGIN   matrix +  nothing
 *     C1      matrix    (sum P[6]), (round P[6]), read c.0[6], read K.1[5], QK[5]
 *     M2      memory    mask[5], max[5], find pages[0], block here[3], barrier[3]
 *     M3      memory    nothing
 *     C2      matrix    read c.1[6], PV[6], (sum P[6]), exponents[5], exp2.0[5], exp2.1[5],
 *                       (round P[5]), read K.0[4]
 *     LDS               block of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGE, COPY, ARRIVES = COPY + 2, READ, SCORES, VALUES };

static const struct pipe_buffer buffers[] = {{"block", GROUP, .scope = PIPE_WORKGROUP}, {0}};

static const struct pipe_row rows[] = {
    {&mla_find_row_page, PAGE, M2, .part = 0},
    {&mla_move_rows, COPY, M1, .part = 0},
    {&pipe_await, ARRIVES, M2, .part = MLA_LDS_BLOCK},
    {&pipe_barrier, ARRIVES, M2, .part = 0},
    {&mla_read_k, READ, C2, .part = 0},
    {&mla_read_k, SCORES, C1, .part = 1},
    {&mla_product_qk, SCORES, C1, .part = 0},
    {&att_mask, SCORES, M2, .part = 0},
    {&att_check_scores, SCORES, M2, .part = 0},
    {&att_exponent, SCORES, C2, .part = 0},
    {&att_exp2, SCORES, C2, .part = 0},
    {&mla_rescale_some, VALUES, M1, .unless = ATT_HAS(SUM_PRODUCT)},
    {&att_rescale, VALUES, M1, .needs = ATT_HAS(SUM_PRODUCT)},
    {&att_exp2, SCORES, C2, .part = 1},
    {&att_round_fp8, SCORES, C2, .needs = ATT_HAS(FP8_WEIGHTS)},
    {&att_sum, VALUES, C1, .unless = ATT_HAS(FP8_WEIGHTS)},
    {&att_round, VALUES, C1, .unless = ATT_HAS(FP8_WEIGHTS)},
    {&mla_read_c, VALUES, C1, .part = 0},
    {&mla_read_c, VALUES, C2, .part = 1},
    {&mla_moved_product, VALUES, C2, .part = 0},
    {&att_product_sum, VALUES, C2, .needs = ATT_HAS(SUM_PRODUCT)},
    {0}};

/* Reads are in groups of 16 products, since the first LDS access after a product waits. A group is
 * read from LDS while the products of the previous group run. */
const struct pipeline mla_one_wave_tensor = {
    .name = "one_wave_tensor",
    .when = "mla_decode: 65 columns or more where the tensor data mover copies blocks",
    .why = "a wave has 32 columns, all keys and all of O: waves exchange nothing",
    .phases = mla_one_wave_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_FILL, .read_ahead = 24, .read_group = 16, .reads_apart = 1},
    .roles = 1,
    .hides_itself = 1,
    .bare = PIPE_ALL,
    .late = 1,
};

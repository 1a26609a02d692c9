/* SPDX-License-Identifier: Apache-2.0
 *
 * As one_wave, for targets whose LDS does not transpose and has room for three blocks. c is
 * transposed in registers, and multiplied by quarters of the latent. The quarters run when the
 * matrix unit would otherwise wait for the scores or the softmax. If each block is read once, HBM
 * must always have copies in flight: a second barrier after the first quarter allows copies of half
 * of the columns from C3 on.
 *
 *     register_transpose: mla_decode: 128 columns of 16 bits, where LDS does not transpose c
 *     as one_wave; the quarters of the product fill the waits of the softmax
 *     M1      memory    rescale[4]
 *     C1      matrix    sum P[4], round P[4], order P[4], read c.0[4], read K.1[3], QK[3],
 *                       (rows to LDS.1[2]), (k_pe to LDS[2]), find rows[1]
 *     M2      memory    mask[3]
 *     C2      matrix    transpose c.0[4], read c.1[4], PV.0[4], check max[3]
 *     M3      memory    max[3], (LDS free[4]), (barrier[4])
 *     C3      matrix    transpose c.1[4], read c.2[4], transpose c.2[4], read c.3[4], PV.1[4],
 *                       PV.2[4], exponents[3], exp2.0[3], exp2.1[3], (columns to LDS[1])
 *     M4      memory    LDS free[4], last columns here[2], barrier[2]
 *     C4      matrix    transpose c.3[4], PV.3[4], read K.0[2], (columns to LDS.1[1]),
 *                       (rows to LDS.0[1]), find page[0]
 *     LDS               first columns of a workgroup, last columns of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/mla_decode/register_transpose.h"

enum { M1, C1, M2, C2, M3, C3, M4, C4 };
enum { T_PAGES, T_COPY, T_ARRIVE };

#define STREAMS (1u << MLA_HAS_STREAMS)
#define ROTATED (1u << MLA_HAS_ROTATED)

const struct pipe_phase mla_transpose_phases[] = {[M1] = {"M1", PIPE_MEMORY, .open = 0},
                                                  [C1] = {"C1", PIPE_MATRIX, .open = 0},
                                                  [M2] = {"M2", PIPE_MEMORY, .open = 0},
                                                  [C2] = {"C2", PIPE_MATRIX, .open = 0},
                                                  [M3] = {"M3", PIPE_MEMORY, .open = 0},
                                                  [C3] = {"C3", PIPE_MATRIX, .open = 0},
                                                  [M4] = {"M4", PIPE_MEMORY, .open = 0},
                                                  [C4] = {"C4", PIPE_MATRIX, .open = 0},
                                                  [C4 + 1] = {0}};

static const struct pipe_buffer buffers[] = {
    {"first columns", MLA_COPIES_FIRST, PIPE_WORKGROUP, .with = 1 + MLA_LDS_LAST},
    {"last columns", MLA_COPIES_LAST, PIPE_WORKGROUP, .with = 0},
    {0}};

/* Stages of the rows that two pipelines share. ARRIVES: a block arrives in LDS. SCORES: its scores
 * are computed. VALUES: its latent is multiplied with P. */
enum { ARRIVES, SCORES, VALUES };

const struct pipe_row mla_rows_transpose[] = {{&pipe_await, ARRIVES, M4, .part = MLA_LDS_LAST},
                                              {&pipe_barrier, ARRIVES, M4, .part = 0},
                                              {&mla_read_k_in_halves, ARRIVES, C4, .part = 0},
                                              {&mla_read_k_in_halves, SCORES, C1, .part = 1},
                                              {&mla_product_qk, SCORES, C1, .part = 0},
                                              {&att_mask, SCORES, M2, .part = 0},
                                              {&att_check_previous, SCORES, C2, .part = 0},
                                              {&mla_transpose_follow, SCORES, M3, .part = 0},
                                              {&att_exponent, SCORES, C3, .part = 0},
                                              {&att_exp2, SCORES, C3, .part = 0},
                                              {&att_exp2, SCORES, C3, .part = 1},
                                              {&mla_rescale_some, VALUES, M1, .part = 0},
                                              {&att_sum, VALUES, C1, .part = 0},
                                              {&att_round, VALUES, C1, .part = 0},
                                              {&mla_transpose_order_p, VALUES, C1, .part = 0},
                                              {&mla_transpose_read_first, VALUES, C1, .part = 0},
                                              {&mla_transpose_quarter, VALUES, C2, .part = 0},
                                              {&mla_transpose_read_first, VALUES, C2, .part = 1},
                                              {&mla_transpose_quarter, VALUES, C3, .part = 1},
                                              {&mla_transpose_read_last, VALUES, C3, .part = 2},
                                              {&mla_transpose_quarter, VALUES, C3, .part = 2},
                                              {&mla_transpose_read_last, VALUES, C3, .part = 3},
                                              {&mla_transpose_quarter, VALUES, C4, .part = 3},
                                              {&pipe_release, VALUES, M3, .needs = STREAMS},
                                              {&pipe_barrier, VALUES, M3, .needs = STREAMS},
                                              {&pipe_release, VALUES, M4, .part = 0},
                                              {&mla_transpose_product_pv, VALUES, C2, .part = 0},
                                              {&mla_transpose_product_pv, VALUES, C3, .part = 1},
                                              {&mla_transpose_product_pv, VALUES, C3, .part = 2},
                                              {&mla_transpose_product_pv, VALUES, C4, .part = 3},
                                              {0}};

static const struct pipe_row rows[] = {
    {&mla_transpose_find_page, T_PAGES, C4, .part = 0},
    {&mla_transpose_find_block, T_COPY, C1, .part = 0},
    {&mla_transpose_copy_first, T_COPY, C3, .part = 0, .needs = STREAMS},
    {&mla_transpose_copy_last, T_COPY, C4, .part = 1, .needs = STREAMS},
    {&mla_transpose_copy_rows, T_COPY, C4, .part = 0, .unless = STREAMS},
    {&mla_transpose_copy_rows, T_ARRIVE, C1, .part = 1, .unless = STREAMS},
    {&mla_transpose_copy_rotated, T_ARRIVE, C1, .needs = ROTATED},
    {&pipe_part, T_ARRIVE, M1, .rows = mla_rows_transpose},
    {0}};

/* A read from LDS is scheduled 8 MFMAs of 16 clocks before its use: 128 clocks. Lane permutes of
 * the latent are 3 MFMAs before their product. The last reads for the next phase are 3 MFMAs before
 * the end of a phase. A phase ends with an MFMA, so that the next phase's scalar work runs beside
 * it. */
const struct pipeline mla_register_transpose = {
    .name = "register_transpose",
    .when = "mla_decode: 128 columns of 16 bits, where LDS does not transpose c",
    .why = "as one_wave; the quarters of the product fill the waits of the softmax",
    .phases = mla_transpose_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 8, .transpose_ahead = 3, .late_ahead = 3,
               .bare_last = 1, .holds = 1},
    .roles = 1,
    .hides_itself = 1,
};

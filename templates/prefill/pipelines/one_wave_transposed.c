/* SPDX-License-Identifier: Apache-2.0
 *
 * As one_wave, for targets whose LDS reads do not transpose V. V passes through registers, and is
 * stored to LDS in C2, a stage earlier than its copy would be issued.
 *
 *     one_wave_transposed: prefill, tiles of 4 waves, where LDS does not transpose V
 *     as one_wave; V is transposed in registers on its way to LDS
 *     M1      memory    (rescale[3]), V here[3], barrier[3]
 *     C1      matrix    (sum P[3]), (round P[3]), (check P[3]), (read V rest[3]), read V[3],
 *                       (read K.1[2]), QK[2], (check mask[2]), load V[2]
 *     EDGE    memory +  (check P[3]), (rescale[3])
 *     M2      memory    (mask[2]), (max[2]), (load mask[1]), LDS free[3], K here[1], barrier[1]
 *     FIRST   matrix +  K to LDS.0[0]
 *     C2      matrix    PV[3], (sum P[3]), (PV rest[3]), (check max[2]), exponents[2], exp2.0[2],
 *                       store V[2], exp2.1[2], read K.0[1], (K to LDS.1[0])
 *     LDS               K of a workgroup, V of a workgroup
 *     waves             all run the same phase
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Phases of an iteration. M phases are for memory and C phases for matrix products. EDGE is the
 * beginning of M2: its steps end before the steps of M2, which can have the same registers. FIRST
 * is the beginning of C2: copies issued there are newer than the loads that C2 waits for. */
enum { M1, C1, EDGE, M2, FIRST, C2 };
enum { COPY_K, WAIT_K, SCORES, VALUES };

const struct pipe_phase prefill_transposed_phases[] = {{"M1", PIPE_MEMORY, .open = 0},
                                                       {"C1", PIPE_MATRIX, .open = 0},
                                                       {"EDGE", PIPE_MEMORY, .open = 1},
                                                       {"M2", PIPE_MEMORY, .open = 0},
                                                       {"FIRST", PIPE_MATRIX, .open = 1},
                                                       {"C2", PIPE_MATRIX, .open = 0},
                                                       {0}};

/* Rows of the steps from weights to O. Stages count from SCORES. one_wave_pages uses these rows
 * too. */
const struct pipe_row prefill_rows_values[] = {
    {&att_rescale, 1, M1, .needs = ATT_HAS(CHECK_SCORES)},
    {&att_rescale_previous, 1, M1, .needs = ATT_HAS(CHECK_PREVIOUS)},
    {&pipe_await_stores, 1, M1, .part = PREFILL_LDS_V},
    {&pipe_barrier, 1, M1, .part = 0},
    {&att_exp2, 0, C2, .part = 1},
    {&pipe_part, 1, C1, .rows = prefill_rows_weights},
    {&att_rescale_weights, 1, EDGE, .needs = ATT_HAS(CHECK_WEIGHTS)},
    {&prefill_read_v_rest, 1, C1, .needs = ATT_HAS(REST)},
    {&prefill_read_v, 1, C1, .part = 0},
    {&pipe_release, 1, M2, .part = 0},
    {&att_product, 1, C2, .part = 0},
    {&att_product_sum, 1, C2, .needs = ATT_HAS(SUM_PRODUCT)},
    {&att_product_rest, 1, C2, .needs = ATT_HAS(REST)},
    {0}};

static const struct pipe_row rows[] = {
    {&prefill_issue_k, COPY_K, FIRST, .part = 0},
    {&prefill_issue_k, COPY_K, C2, .part = 1, .needs = HAS(PANELS)},
    {&pipe_await, WAIT_K, M2, .part = PREFILL_LDS_K},
    {&prefill_load_mask, WAIT_K, M2, .needs = ATT_HAS(MASK_BYTES)},
    {&pipe_barrier, WAIT_K, M2, .part = 0},
    {&prefill_read_k, WAIT_K, C2, .part = 0},
    {&prefill_read_k, SCORES, C1, .part = 1, .needs = HAS(PANELS)},
    {&prefill_product_qk, SCORES, C1, .part = 0},
    {&prefill_check_mask, SCORES, C1, .needs = ATT_HAS(MASK_BYTES)},
    {&prefill_load_v, SCORES, C1, .part = 0},
    {&pipe_part, SCORES, M2, .rows = prefill_rows_mask},
    {&pipe_part, SCORES, C2, .rows = prefill_rows_exponents},
    {&prefill_store_v, SCORES, C2, .part = 0},
    {&pipe_part, SCORES, M1, .rows = prefill_rows_values},
    {0}};

static const struct pipe_move moves[] = {
    {&att_exp2, 1, VALUES, C1, HAS(LATE_EXP2)}, {&att_mask, 0, SCORES, EDGE, HAS(EARLY_MASK)}, {0}};

const struct pipeline prefill_one_wave_transposed = {
    .name = "one_wave_transposed",
    .when = "prefill, tiles of 4 waves, where LDS does not transpose V",
    .why = "as one_wave; V is transposed in registers on its way to LDS",
    .phases = prefill_transposed_phases,
    .buffers = prefill_buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = prefill_features,
    .roles = 1,
    .hides_itself = 1,
};

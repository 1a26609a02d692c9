/* SPDX-License-Identifier: Apache-2.0
 *
 * This pipeline is for a wave that has its SIMD to itself, and so has only its own work to hide
 * under its products. Phases M1 and M2 have barriers and branches, and all else runs in C1 and C2.
 * The operands of a phase's first product are read in the phase before it.
 *
 *     one_wave: prefill, tiles of 4 waves, where LDS transposes V
 *     a wave reads half as much LDS for a product; its own work hides under its products
 *     M1      memory    (rescale[3]), (entry of K[0]), V here[3], LDS free[3], barrier[3]
 *     C1      matrix    (sum P[3]), (round P[3]), (check P[3]), read V.0[3], (read K.1[2]),
 *                       QK[2], (check mask[2]), V to LDS[2], (find K[0])
 *     EDGE    memory +  (check P[3]), (rescale[3])
 *     M2      memory    (mask[2]), (max[2]), (entry of V[1]), (find V[1]), (load mask[1]),
 *                       K here[1], barrier[1]
 *     C2      matrix    PV.0[3], (sum P[3]), (read V.1[3]), (PV.1[3]), (read V.2[3]), (PV.2[3]),
 *                       (read V.3[3]), (PV.3[3]), (check max[2]), exponents[2], exp2.0[2],
 *                       exp2.1[2], read K.0[1], K to LDS.0[0], (K to LDS.1[0])
 *     LDS               K of a workgroup, V of a workgroup
 *     waves             all run the same phase
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Phases of an iteration. M phases are for memory and C phases for matrix products. EDGE is the
 * beginning of M2: its steps end before the steps of M2, which can have the same registers. */
enum { M1, C1, EDGE, M2, C2 };
enum { COPY_K, WAIT_K, SCORES, VALUES };

static const struct pipe_phase phases[] = {
    {"M1", PIPE_MEMORY, .open = 0},   {"C1", PIPE_MATRIX, .open = 0},
    {"EDGE", PIPE_MEMORY, .open = 1}, {"M2", PIPE_MEMORY, .open = 0},
    {"C2", PIPE_MATRIX, .open = 0},   {0}};

static const struct pipe_row rows[] = {
    {&prefill_find_k_entry, COPY_K, M1, .needs = HAS(PAGE_COPIES)},
    {&prefill_find_k, COPY_K, C1, .needs = HAS(PAGE_COPIES)},
    {&prefill_issue_k, COPY_K, C2, .part = 0},
    {&prefill_issue_k, COPY_K, C2, .part = 1, .needs = HAS(PANELS)},
    {&pipe_await, WAIT_K, M2, .part = PREFILL_LDS_K},
    {&prefill_find_v_entry, WAIT_K, M2, .needs = HAS(PAGE_COPIES)},
    {&prefill_find_v, WAIT_K, M2, .needs = HAS(PAGE_COPIES)},
    {&prefill_load_mask, WAIT_K, M2, .needs = ATT_HAS(MASK_BYTES)},
    {&pipe_barrier, WAIT_K, M2, .part = 0},
    {&prefill_read_k, WAIT_K, C2, .part = 0},
    {&prefill_read_k, SCORES, C1, .part = 1, .needs = HAS(PANELS)},
    {&prefill_product_qk, SCORES, C1, .part = 0},
    {&prefill_check_mask, SCORES, C1, .needs = ATT_HAS(MASK_BYTES)},
    {&prefill_issue_v, SCORES, C1, .part = 0},
    {&pipe_part, SCORES, M2, .rows = prefill_rows_mask},
    {&pipe_part, SCORES, C2, .rows = prefill_rows_exponents},
    {&pipe_await, VALUES, M1, .part = PREFILL_LDS_V},
    {&att_rescale, VALUES, M1, .needs = ATT_HAS(CHECK_SCORES)},
    {&att_rescale_previous, VALUES, M1, .needs = ATT_HAS(CHECK_PREVIOUS)},
    {&pipe_release, VALUES, M1, .part = 0},
    {&pipe_barrier, VALUES, M1, .part = 0},
    {&att_exp2, SCORES, C2, .part = 1},
    {&pipe_part, VALUES, C1, .rows = prefill_rows_weights},
    {&prefill_read_v, VALUES, C1, .part = 0},
    {&att_rescale_weights, VALUES, EDGE, .needs = ATT_HAS(CHECK_WEIGHTS)},
    {&att_product, VALUES, C2, .part = 0},
    {&att_product_sum, VALUES, C2, .needs = ATT_HAS(SUM_PRODUCT)},
    {&prefill_read_v, VALUES, C2, .part = 1, .needs = HAS(V_PARTS)},
    {&att_product, VALUES, C2, .part = 1, .needs = HAS(V_PARTS)},
    {&prefill_read_v, VALUES, C2, .part = 2, .needs = HAS(V_QUARTERS)},
    {&att_product, VALUES, C2, .part = 2, .needs = HAS(V_QUARTERS)},
    {&prefill_read_v, VALUES, C2, .part = 3, .needs = HAS(V_QUARTERS)},
    {&att_product, VALUES, C2, .part = 3, .needs = HAS(V_QUARTERS)},
    {0}};

static const struct pipe_move moves[] = {
    {&att_exp2, 1, VALUES, C1, HAS(LATE_EXP2)}, {&att_mask, 0, SCORES, EDGE, HAS(EARLY_MASK)}, {0}};

const struct pipeline prefill_one_wave = {
    .name = "one_wave",
    .when = "prefill, tiles of 4 waves, where LDS transposes V",
    .why = "a wave reads half as much LDS for a product; its own work hides under its products",
    .phases = phases,
    .buffers = prefill_buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = prefill_features,
    .roles = 1,
    .hides_itself = 1,
};

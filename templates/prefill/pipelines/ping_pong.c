/* SPDX-License-Identifier: Apache-2.0
 *
 * Two roles of waves run one group of phases apart, so that each SIMD has a wave of both. The reads
 * and stores of a role in M1 and M2 hide under the products of the other role. Kernels over pages,
 * and kernels whose waves split the keys, run the same table.
 *
 *     ping_pong: prefill, tiles of 8 waves: D up to 192, and 256 with a custom mask
 *     one half of the waves reads and stores while the other multiplies
 *     READ    memory +  nothing
 *     M1      memory    (clear V[4]), (store V[4]), (rescale[4]), read K.0[3], (V to LDS[3]),
 *                       (load V[3]), (entry of V[2]), (load mask[2]), (V here[4]), (LDS free[4])
 *     C1      matrix    (sum P[4]), (round P[4]), (check P[4]), (read K.1[3]), QK[3],
 *                       (check mask[3]), (find V[2])
 *     EDGE    memory +  (check P[4]), (read V.0[4]), (rescale[4])
 *     M2      memory    (read V rest[4]), (read V.0[4]), (read V.1[4]), (read V.2[4]),
 *                       (read V.3[4]), (mask[3]), (max[3]), (store K[2]), (find V[2]),
 *                       (K to LDS.0[1]), (K to LDS.1[1]), (load K.0[1]), (load K.1[1]),
 *                       (find K[0]), (entry of K[0]), (LDS free[4]), (K here[2])
 *     C2      matrix    PV.0[4], (sum P[4]), (PV.1[4]), (PV.2[4]), (PV.3[4]), (PV rest[4]),
 *                       (check max[3]), exponents[3], exp2.0[3], exp2.1[3], (find K[0])
 *     LDS               K of a workgroup, V of a workgroup
 *     waves             two halves, the second one group of phases later
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Phases of an iteration. M phases are for memory and C phases for matrix products. READ is the
 * beginning of M1, for tiles that read K before V is stored to LDS. EDGE is the beginning of M2:
 * its steps end before V is read in M2, so that V can have their registers. */
enum { READ, M1, C1, EDGE, M2, C2 };
enum { PAGES, COPY_K, WAIT_K, SCORES, VALUES };

static const struct pipe_phase phases[] = {{"READ", PIPE_MEMORY, .open = 1},
                                           {"M1", PIPE_MEMORY, .open = 0},
                                           {"C1", PIPE_MATRIX, .open = 0},
                                           {"EDGE", PIPE_MEMORY, .open = 1},
                                           {"M2", PIPE_MEMORY, .open = 0},
                                           {"C2", PIPE_MATRIX, .open = 0},
                                           {0}};

static const struct pipe_row rows[] = {
    {&prefill_find_k, PAGES, M2, .needs = HAS(PAGES)},
    {&prefill_find_k_entry, PAGES, M2, .needs = HAS(PAGE_COPIES)},
    {&prefill_find_k, PAGES, C2, .needs = HAS(PAGE_COPIES)},
    {&prefill_issue_k, COPY_K, M2, .unless = HAS(PAGES)},
    {&prefill_issue_k, COPY_K, M2, .part = 1, .needs = HAS(PANELS), .unless = HAS(PAGES)},
    {&prefill_load_k, COPY_K, M2, .needs = HAS(PAGES)},
    {&prefill_load_k, COPY_K, M2, .part = 1, .needs = HAS(PAGES) | HAS(PANELS)},
    {&prefill_store_k, WAIT_K, M2, .needs = HAS(PAGES)},
    {&pipe_await, WAIT_K, M2, .part = PREFILL_LDS_K, .unless = HAS(PAGES)},
    {&pipe_await_stores, WAIT_K, M2, .part = PREFILL_LDS_K, .needs = HAS(PAGES)},
    {&prefill_find_v, WAIT_K, M2, .needs = HAS(PAGES)},
    {&prefill_find_v_entry, WAIT_K, M1, .needs = HAS(PAGE_COPIES)},
    {&prefill_find_v, WAIT_K, C1, .needs = HAS(PAGE_COPIES)},
    {&prefill_load_mask, WAIT_K, M1, .needs = ATT_HAS(MASK_BYTES)},
    {&prefill_read_k, SCORES, M1, .part = 0},
    {&prefill_read_k, SCORES, C1, .part = 1, .needs = HAS(PANELS)},
    {&prefill_product_qk, SCORES, C1, .part = 0},
    {&prefill_check_mask, SCORES, C1, .needs = ATT_HAS(MASK_BYTES)},
    {&prefill_issue_v, SCORES, M1, .unless = HAS(V_STORED)},
    {&prefill_load_v, SCORES, M1, .needs = HAS(V_STORED), .unless = HAS(PAGES)},
    {&prefill_load_v_pages, SCORES, M1, .needs = HAS(PAGES)},
    {&pipe_part, SCORES, M2, .rows = prefill_rows_mask},
    {&pipe_part, SCORES, C2, .rows = prefill_rows_exponents},
    {&prefill_clear_v, VALUES, M1, .needs = HAS(PAGES)},
    {&prefill_store_v, VALUES, M1, .needs = HAS(V_STORED), .unless = HAS(PAGES)},
    {&prefill_store_v_ready, VALUES, M1, .needs = HAS(PAGES)},
    {&pipe_await, VALUES, M1, .part = PREFILL_LDS_V, .unless = HAS(V_STORED)},
    {&att_rescale, VALUES, M1, .needs = ATT_HAS(CHECK_SCORES)},
    {&att_rescale_previous, VALUES, M1, .needs = ATT_HAS(CHECK_PREVIOUS)},
    {&pipe_await_stores, VALUES, M1, .part = PREFILL_LDS_V, .needs = HAS(V_STORED)},
    {&pipe_release, VALUES, M1, .unless = HAS(V_STORED)},
    {&att_exp2, SCORES, C2, .part = 1},
    {&pipe_part, VALUES, C1, .rows = prefill_rows_weights},
    {&prefill_read_v, VALUES, EDGE, .needs = HAS(V_PARTS)},
    {&att_rescale_weights, VALUES, EDGE, .needs = ATT_HAS(CHECK_WEIGHTS)},
    {&prefill_read_v_rest, VALUES, M2, .needs = ATT_HAS(REST)},
    {&prefill_read_v, VALUES, M2, .unless = HAS(V_PARTS)},
    {&pipe_release, VALUES, M2, .unless = HAS(V_PARTS)},
    {&att_product, VALUES, C2, .part = 0},
    {&att_product_sum, VALUES, C2, .needs = ATT_HAS(SUM_PRODUCT)},
    {&prefill_read_v, VALUES, M2, .part = 1, .needs = HAS(V_PARTS)},
    {&pipe_release, VALUES, M2, .needs = HAS(V_PARTS), .unless = HAS(V_QUARTERS)},
    {&att_product, VALUES, C2, .part = 1, .needs = HAS(V_PARTS)},
    {&prefill_read_v, VALUES, M2, .part = 2, .needs = HAS(V_QUARTERS)},
    {&att_product, VALUES, C2, .part = 2, .needs = HAS(V_QUARTERS)},
    {&prefill_read_v, VALUES, M2, .part = 3, .needs = HAS(V_QUARTERS)},
    {&pipe_release, VALUES, M2, .needs = HAS(V_QUARTERS)},
    {&att_product, VALUES, C2, .part = 3, .needs = HAS(V_QUARTERS)},
    {&att_product_rest, VALUES, C2, .needs = ATT_HAS(REST)},
    {0}};

static const struct pipe_move moves[] = {
    {&att_exp2, 1, VALUES, C1, HAS(LATE_EXP2)},
    {&att_mask, 0, SCORES, EDGE, HAS(EARLY_MASK)},
    {&prefill_issue_k, 0, COPY_K, EDGE, HAS(EARLY_COPIES)},
    {&prefill_read_k, 0, SCORES, READ, HAS(KEYS_FIRST)},
    {&prefill_read_k, 1, SCORES, M1, HAS(WHOLE_KEYS)},
    {&prefill_read_k, 1, SCORES, READ, HAS(WHOLE_KEYS) | HAS(KEYS_FIRST)},
    {0}};

const struct pipeline prefill_ping_pong = {
    .name = "ping_pong",
    .when = "prefill, tiles of 8 waves: D up to 192, and 256 with a custom mask",
    .why = "one half of the waves reads and stores while the other multiplies",
    .phases = phases,
    .buffers = prefill_buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = prefill_features,
    .roles = 2,
};

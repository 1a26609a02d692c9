/* SPDX-License-Identifier: Apache-2.0
 *
 * As one_wave_transposed, for K and V in pages. They pass through registers, where elements are
 * converted to the type of the products.
 *
 *     one_wave_pages: prefill over pages, tiles of 4 waves, where LDS does not transpose V
 *     as one_wave_transposed; K passes through registers too, where it is converted
 *     M1      memory    (rescale[4]), find V[1], V here[4], barrier[4]
 *     C1      matrix    (sum P[4]), (round P[4]), (check P[4]), (read V rest[4]), read V[4],
 *                       (read K.1[3]), QK[3], (check mask[3]), store K[2], load V[2],
 *                       load K.0[1], (load K.1[1])
 *     EDGE    memory +  (check P[4]), (rescale[4])
 *     M2      memory    (mask[3]), (max[3]), clear V[3], (load mask[2]), find K[0], LDS free[4],
 *                       K here[2], barrier[2]
 *     FIRST   matrix +  nothing
 *     C2      matrix    PV[4], (sum P[4]), (PV rest[4]), (check max[3]), exponents[3], exp2.0[3],
 *                       store V[3], exp2.1[3], read K.0[2]
 *     LDS               K of a workgroup, V of a workgroup
 *     waves             all run the same phase
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Phases of an iteration. M phases are for memory and C phases for matrix products. EDGE is the
 * beginning of M2: its steps end before the steps of M2, which can have the same registers. FIRST
 * is the beginning of C2. */
enum { M1, C1, EDGE, M2, FIRST, C2 };
enum { PAGES, COPY_K, WAIT_K, SCORES, VALUES };

static const struct pipe_row rows[] = {
    {&prefill_find_k, PAGES, M2, .part = 0},
    {&prefill_load_k, COPY_K, C1, .part = 0},
    {&prefill_load_k, COPY_K, C1, .part = 1, .needs = HAS(PANELS)},
    {&prefill_store_k, WAIT_K, C1, .part = 0},
    {&pipe_await_stores, WAIT_K, M2, .part = PREFILL_LDS_K},
    {&prefill_find_v, COPY_K, M1, .part = 0},
    {&prefill_load_mask, WAIT_K, M2, .needs = ATT_HAS(MASK_BYTES)},
    {&pipe_barrier, WAIT_K, M2, .part = 0},
    {&prefill_read_k, WAIT_K, C2, .part = 0},
    {&prefill_read_k, SCORES, C1, .part = 1, .needs = HAS(PANELS)},
    {&prefill_product_qk, SCORES, C1, .part = 0},
    {&prefill_check_mask, SCORES, C1, .needs = ATT_HAS(MASK_BYTES)},
    {&prefill_load_v_pages, WAIT_K, C1, .part = 0},
    {&pipe_part, SCORES, M2, .rows = prefill_rows_mask},
    {&pipe_part, SCORES, C2, .rows = prefill_rows_exponents},
    {&prefill_clear_v, SCORES, M2, .part = 0},
    {&prefill_store_v_ready, SCORES, C2, .part = 0},
    {&pipe_part, SCORES, M1, .rows = prefill_rows_values},
    {0}};

static const struct pipe_move moves[] = {{&att_exp2, 1, VALUES, C1, HAS(LATE_EXP2)},
                                         {&att_mask, 0, SCORES, EDGE, HAS(EARLY_MASK)},
                                         /* A late load: V occupies registers only from this phase
                                          * on. */
                                         {&prefill_load_v_pages, 0, WAIT_K, C2, HAS(LATE_V)},
                                         {0}};

const struct pipeline prefill_one_wave_pages = {
    .name = "one_wave_pages",
    .when = "prefill over pages, tiles of 4 waves, where LDS does not transpose V",
    .why = "as one_wave_transposed; K passes through registers too, where it is converted",
    .phases = prefill_transposed_phases,
    .buffers = prefill_buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = prefill_features,
    .roles = 1,
    .hides_itself = 1,
};

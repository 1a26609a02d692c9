/* SPDX-License-Identifier: Apache-2.0
 *
 * Two waves have the same queries: each has half of the keys in the product with K and half of the
 * latent in the product with c. They exchange P and the exponents that it is relative to through
 * LDS. The copy of a block has two iterations to arrive. If LDS has room, it has two places for P,
 * so that no wave waits until all have read P.
 *
 *     wave_pair: mla_decode: 65 to 128 rows of 16 bits, and lists, where LDS transposes c
 *     half of the keys and half of the latent for each wave: one pass
 *     M1      memory    (clear gaps[4]), (find pages[0]), (entries to LDS[0]), P here[5],
 *                       barrier[5], block here[4], barrier[4], (entries here[1])
 *     BEGIN   matrix +  (block to LDS[2])
 *     C1      matrix    read P[5], read c.0[5], read K.0[4], read K.1[4], QK[4],
 *                       (read entries[1])
 *     M2      memory    rescale[5], sum P[5], mask[4], (barrier[5])
 *     M3      memory    exponent[4]
 *     C2      matrix    read c.1[5], PV.0[5], read c.2[5], PV.1[5], P to LDS[4], (find rows[1])
 *     LDS               block of a workgroup, P of a workgroup, entries of a wave
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGE = A_PAGES, FIND = A_FIND, COPY = A_COPY, QK = A_SCORES, PV = A_VALUES };

#define LISTS (1u << MLA_HAS_LISTS)
#define ONE_P (1u << MLA_HAS_ONE_P)

static const struct pipe_buffer buffers[] = {{"block", GROUP, .scope = PIPE_WORKGROUP},
                                             {"P", GROUP, .scope = PIPE_WORKGROUP},
                                             {"entries", ENTRIES, .scope = PIPE_WAVE},
                                             {0}};

static const struct pipe_row rows[] = {
    {&mla_find_lane_pages, PAGE, M1, .unless = LISTS},
    {&mla_find_run_rows, FIND, C2, .unless = LISTS},
    {&mla_copy_run_rows, COPY, BEGIN, .unless = LISTS},
    {&mla_list_copy_entries, PAGE, M1, .needs = LISTS},
    {&pipe_await, FIND, M1, .part = MLA_LDS_ENTRIES, .needs = LISTS},
    {&mla_list_read_entries, FIND, C1, .needs = LISTS},
    {&mla_list_find, FIND, C2, .needs = LISTS},
    {&mla_list_copy, COPY, BEGIN, .needs = LISTS},
    {&mla_list_clear, QK, M1, .needs = LISTS},
    {&pipe_await, QK, M1, .part = MLA_LDS_BLOCK},
    {&pipe_barrier, QK, M1, .part = 0},
    {&mla_read_k, QK, C1, .part = 0},
    {&mla_read_k, QK, C1, .part = 1},
    {&mla_product_qk, QK, C1, .part = 0},
    {&att_mask, QK, M2, .part = 0},
    {&mla_pair_exponent, QK, M3, .part = 0},
    {&mla_pair_make_p, QK, C2, .part = 0},
    {&pipe_await_stores, PV, M1, .part = MLA_LDS_P},
    {&pipe_barrier, PV, M1, .part = 0},
    {&mla_pair_read_p, PV, C1, .part = 0},
    {&mla_pair_rescale, PV, M2, .part = 0},
    {&pipe_barrier, PV, M2, .needs = ONE_P},
    {&mla_pair_sum, PV, M2, .part = 0},
    {&mla_read_c, PV, C1, .part = 0},
    {&mla_read_c, PV, C2, .part = 1},
    {&mla_pair_product, PV, C2, .part = 0},
    {&mla_read_c, PV, C2, .part = 2},
    {&mla_pair_product, PV, C2, .part = 1},
    {0}};

/* A read from LDS is scheduled 6 MFMAs before its use: 144 clocks, since the products have MFMAs of
 * 16 and 32 clocks. The loop has a read for each short MFMA, so the schedule does not spread reads.
 * 8 registers are free in addition to half of O. */
const struct pipeline mla_wave_pair = {
    .name = "wave_pair",
    .when = "mla_decode: 65 to 128 rows of 16 bits, and lists, where LDS transposes c",
    .why = "half of the keys and half of the latent for each wave: one pass",
    .phases = mla_one_wave_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 6, .hoist_vgprs = 8, .reads_apart = 1},
    .roles = 1,
    .hides_itself = 1,
};

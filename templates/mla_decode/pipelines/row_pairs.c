/* SPDX-License-Identifier: Apache-2.0
 *
 * As wave_pair, in fp8, where HBM limits the loop: the L1 has room for little more than one block
 * in flight. So a block is copied in two halves, which are cache lines of pairs of rows, and lanes
 * compute the rows' addresses. Entries of a list, or page numbers, are copied one block ahead:
 * vmcnt counts in order, and entries that are issued after lines would arrive after them. c^T P^T
 * has a scale for the keys of each wave. So no wave needs the exponents of the pair's other wave
 * before that product. The last block's product is after the loop.
 *
 *     row_pairs: mla_decode: 65 to 128 rows of fp8, where LDS transposes c
 *     as wave_pair; each cache line is touched once, and HBM is busy at both ends of an item
 *     M1      memory    clear gaps[4], entries to LDS[0], P here[5], barrier[5],
 *                       first lines here[4], last lines here[4], barrier[4], entries here[1]
 *     BEGIN   matrix +  find rows[2], lines to LDS[2]
 *     C1      matrix    read P[5], sum P[5], read K.0[4], read K.1[4], QK[4]
 *     M2      memory    read c.0[5], rescale[5], scales[5], mask[4], barrier[4]
 *     M3      memory    nothing
 *     C2      matrix    read c.1[5], PV[5], P by blocks[4], P to LDS[4], lines to LDS.1[2],
 *                       read entries[1]
 *     LDS               first lines of a workgroup, last lines of a workgroup,
 *                       entries of a wave (written 1 early), P of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGE = A_PAGES, FIND = A_FIND, COPY = A_COPY, QK = A_SCORES, PV = A_VALUES };

static const struct pipe_buffer buffers[] = {
    [MLA_LDS_FIRST] = {"first lines", GROUP, .scope = PIPE_WORKGROUP},
    [MLA_LDS_LAST] = {"last lines", LATER, .scope = PIPE_WORKGROUP},
    [MLA_LDS_ENTRIES] = {"entries", ENTRIES, .scope = PIPE_WAVE, .early = 1},
    [MLA_LDS_PAIR_P] = {"P", GROUP, .scope = PIPE_WORKGROUP},
    {0}};

static const struct pipe_row rows[] = {{&mla_lines_copy_entries, PAGE, M1, .part = 0},
                                       {&pipe_await, FIND, M1, .part = MLA_LDS_ENTRIES},
                                       {&mla_list_read_entries, FIND, C2, .part = 0},
                                       {&mla_list_find, COPY, BEGIN, .part = 0},
                                       {&mla_lines_copy_first, COPY, BEGIN, .part = 0},
                                       {&mla_lines_copy_last, COPY, C2, .part = 1},
                                       {&mla_list_clear, QK, M1, .part = 0},
                                       {&pipe_await, QK, M1, .part = MLA_LDS_FIRST},
                                       {&pipe_await, QK, M1, .part = MLA_LDS_LAST},
                                       {&pipe_barrier, QK, M1, .part = 0},
                                       {&mla_read_k_in_halves, QK, C1, .part = 0},
                                       {&mla_read_k_in_halves, QK, C1, .part = 1},
                                       {&mla_product_qk, QK, C1, .part = 0},
                                       {&att_mask, QK, M2, .part = 0},
                                       {&mla_make_scaled, QK, C2, .part = 0},
                                       {&pipe_barrier, QK, M2, .part = 0},
                                       {&mla_lines_store_p, QK, C2, .part = 0},
                                       {&pipe_await_stores, PV, M1, .part = MLA_LDS_PAIR_P},
                                       {&pipe_barrier, PV, M1, .part = 0},
                                       {&mla_lines_read_p, PV, C1, .part = 0},
                                       {&mla_lines_sum, PV, C1, .part = 0},
                                       {&mla_lines_read_c, PV, M2, .part = 0},
                                       {&mla_lines_rescale, PV, M2, .part = 0},
                                       {&mla_lines_scales, PV, M2, .part = 0},
                                       {&mla_lines_read_c, PV, C2, .part = 1},
                                       {&mla_lines_product, PV, C2, .part = 0},
                                       {0}};

/* A read from LDS is scheduled 2 MFMAs of 64 clocks before its use. The other numbers of the
 * schedule are as in pipeline wave_pair. */
const struct pipeline mla_row_pairs = {
    .name = "row_pairs",
    .when = "mla_decode: 65 to 128 rows of fp8, where LDS transposes c",
    .why = "as wave_pair; each cache line is touched once, and HBM is busy at both ends of an item",
    .phases = mla_one_wave_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 2, .hoist_vgprs = 8, .reads_apart = 1},
    .roles = 1,
    .hides_itself = 1,
    .bare = 1,
};

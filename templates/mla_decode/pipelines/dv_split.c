/* SPDX-License-Identifier: Apache-2.0
 *
 * As register_transpose, in fp8. The target's MFMA has no scale for weights, so O must be rescaled
 * when a column's maximum exceeds the range of fp8. The product is P c instead of c^T P^T, so that
 * a column is in one register of 16. Waves split the latent, and the columns of S^T. They exchange
 * P and the rescale factors alpha through LDS. After the one barrier of an iteration, the next
 * block and P are in LDS, and the place of this block is free. Blocks that are read once are copied
 * an iteration earlier, so that HBM is busy.
 *
 *     dv_split: mla_decode: 128 columns of fp8, where LDS does not transpose c
 *     rescales one register in 16 of O; its quarters fill the waits of the softmax
 *     C1      matrix    sum P[5], read alpha[5], transpose c.0[5], transpose c.1[5], read P.0[5],
 *                       read P.1[5], read K.1[4], QK[4], block to LDS[3], find rows[2]
 *     M2      memory    rescale[5], mask[4]
 *     C2      matrix    quarter of O.0[5], PV first keys.0[5], PV last keys.0[5],
 *                       quarter of O.1[5], read P.2[5], quarter of O.2[5], quarter of O.3[5],
 *                       check max[4], read c.0[4]
 *     M3      memory    max[4]
 *     C3      matrix    PV first keys.1[5], PV last keys.1[5], PV first keys.2[5],
 *                       PV last keys.2[5], read P.3[5], P to LDS[4], read c.1[4], find page[1]
 *     LATER   matrix    PV first keys.3[5], load page[1]
 *     M4      memory    keep page[1], P here[4], block here[3], barrier[3]
 *     C4      matrix    PV last keys.3[5], join O[5], read K.0[3]
 *     LDS               block of a workgroup, P of a workgroup, alpha of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

enum { C1, M2, C2, M3, C3, LATER, M4, C4 };
enum { STREAM_PAGE, PAGE, FIND, ARRIVE, QK, PV };
enum { STREAM_FIND = PAGE, STREAM_COPY = FIND };

#define STREAMS (1u << MLA_HAS_STREAMS)

static const struct pipe_phase phases[] = {[C1] = {"C1", PIPE_MATRIX, .open = 0},
                                           [M2] = {"M2", PIPE_MEMORY, .open = 0},
                                           [C2] = {"C2", PIPE_MATRIX, .open = 0},
                                           [M3] = {"M3", PIPE_MEMORY, .open = 0},
                                           [C3] = {"C3", PIPE_MATRIX, .open = 0},
                                           [LATER] = {"LATER", PIPE_MATRIX, .open = 0},
                                           [M4] = {"M4", PIPE_MEMORY, .open = 0},
                                           [C4] = {"C4", PIPE_MATRIX, .open = 0},
                                           [C4 + 1] = {0}};

static const struct pipe_buffer buffers[] = {
    [MLA_LDS_BLOCK] = {"block", MLA_COPIES_FIRST, PIPE_WORKGROUP},
    [MLA_LDS_P] = {"P", MLA_COPIES_LAST, PIPE_WORKGROUP},
    [MLA_LDS_ALPHA] = {"alpha", MLA_COPIES_LAST, PIPE_WORKGROUP, .with = 1 + MLA_LDS_P},
    {0}};

/* The page number is a scalar load. The wait for LDS in phase M4 is also a wait for this load. */
static const struct pipe_row rows[] = {{&mla_dv_find_page, PAGE, C3, .part = 0},
                                       {&mla_dv_load_page, PAGE, LATER, .part = 0},
                                       {&mla_dv_keep_page, PAGE, M4, .part = 0},
                                       {&mla_transpose_find_block, FIND, C1, .part = 0},
                                       {&mla_dv_copy, ARRIVE, C1, .part = 0},
                                       {&pipe_await, ARRIVE, M4, .part = MLA_LDS_BLOCK},
                                       {&pipe_barrier, ARRIVE, M4, .part = 0},
                                       {&mla_read_k, ARRIVE, C4, .part = 0},
                                       {&mla_read_k, QK, C1, .part = 1},
                                       {&mla_product_qk, QK, C1, .part = 0},
                                       {&att_mask, QK, M2, .part = 0},
                                       {&mla_dv_check_max, QK, C2, .part = 0},
                                       {&mla_dv_follow_max, QK, M3, .part = 0},
                                       {&mla_dv_store_p, QK, C3, .part = 0},
                                       {&pipe_await_stores, QK, M4, .part = MLA_LDS_P},
                                       {&mla_dv_sum, PV, C1, .part = 0},
                                       {&mla_dv_read_alpha, PV, C1, .part = 0},
                                       {&mla_dv_rescale, PV, M2, .part = 0},
                                       {&mla_dv_read_c, QK, C2, .part = 0},
                                       {&mla_dv_transpose_c, PV, C1, .part = 0},
                                       {&mla_dv_read_c, QK, C3, .part = 1},
                                       {&mla_dv_transpose_c, PV, C1, .part = 1},
                                       {&mla_dv_read_p, PV, C1, .part = 0},
                                       {&mla_dv_take_o, PV, C2, .part = 0},
                                       {&mla_dv_product_first, PV, C2, .part = 0},
                                       {&mla_dv_product_last, PV, C2, .part = 0},
                                       {&mla_dv_read_p, PV, C1, .part = 1},
                                       {&mla_dv_take_o, PV, C2, .part = 1},
                                       {&mla_dv_product_first, PV, C3, .part = 1},
                                       {&mla_dv_product_last, PV, C3, .part = 1},
                                       {&mla_dv_read_p, PV, C2, .part = 2},
                                       {&mla_dv_take_o, PV, C2, .part = 2},
                                       {&mla_dv_product_first, PV, C3, .part = 2},
                                       {&mla_dv_product_last, PV, C3, .part = 2},
                                       {&mla_dv_read_p, PV, C3, .part = 3},
                                       {&mla_dv_take_o, PV, C2, .part = 3},
                                       {&mla_dv_product_first, PV, LATER, .part = 3},
                                       {&mla_dv_product_last, PV, C4, .part = 3},
                                       {&mla_dv_join, PV, C4, .part = 0},
                                       {0}};

static const struct pipe_move moves[] = {{&mla_dv_find_page, 0, STREAM_PAGE, C3, STREAMS},
                                         {&mla_dv_load_page, 0, STREAM_PAGE, LATER, STREAMS},
                                         {&mla_dv_keep_page, 0, STREAM_PAGE, M4, STREAMS},
                                         {&mla_transpose_find_block, 0, STREAM_FIND, C1, STREAMS},
                                         {&mla_dv_copy, 0, STREAM_COPY, C1, STREAMS},
                                         {0}};

/* The schedule's distances (in MFMAs) are as in register_transpose. An MFMA of 32 clocks hides no
 * exponential in addition to other work (MIXED), and an exchange of maxima takes the time of 2
 * MFMAs. 4 registers are left for hoisted addresses. */
const struct pipeline mla_dv_split = {
    .name = "dv_split",
    .when = "mla_decode: 128 columns of fp8, where LDS does not transpose c",
    .why = "rescales one register in 16 of O; its quarters fill the waits of the softmax",
    .phases = phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = mla_features,
    .spread = {TIR_COVER_MIXED, .read_ahead = 8, .transpose_ahead = 3, .late_ahead = 3,
               .exchange_ahead = 2, .hoist_vgprs = 4, .bare_last = 1, .holds = 1},
    .roles = 1,
    .hides_itself = 1,
};

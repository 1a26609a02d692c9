/* SPDX-License-Identifier: Apache-2.0
 *
 * Waves split the columns of S^T, and its keys if there are more waves than column groups. They
 * store P and the rescale factors alpha to LDS for all waves, in the same iteration. A barrier is
 * before P is read.
 *
 *     shared_scores: mla_decode: more columns, one block in LDS, or 128 columns with scaled weights
 *     needs LDS for one block, and few registers
 *     FIRST   memory    block to LDS.0[2], load.0[1], (load mask[1]), find pages.0[0],
 *                       (find pages.2[0])
 *     PLACE   memory    (block to LDS.1[2]), (block to LDS.2[2]), (entries to LDS[2]),
 *                       (load.1[1]), (load.2[1]), (load mask[1]), block here[2], barrier[2]
 *     SCORES  matrix    (read entries[2]), QK[2], (S to LDS[2]), (mask[2]), (max to LDS[2]),
 *                       (S here[2]), (barrier[2]), (S here[2]), (barrier[2])
 *     SOFTMAX memory    (read S[2]), (sum S[2]), (mask[2]), (read max[2]), (max[2]),
 *                       (exponent[2]), exp2[2], (sum P[2]), (P to LDS[2]), P here[2], barrier[2]
 *     VALUES  matrix    (read alpha[2]), (rescale[2]), (agree[2]), (sum P[2]), (read P[2]),
 *                       read c[2], transpose c[2], (PV[2]), (read P[2]), (PV[2]), (LDS free[2]),
 *                       (barrier[2])
 *     LDS               block of a workgroup, P of a workgroup, entries of a workgroup,
 *                       S of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGES, LOADS, QK };
enum { FIRST, PLACE, SCORES, SOFTMAX, VALUES };

#define SHARED_MAX HAS(SHARED_MAX)

const struct pipe_phase mla_shared_phases[] = {[FIRST] = {"FIRST", PIPE_MEMORY, .open = 0},
                                               [PLACE] = {"PLACE", PIPE_MEMORY, .open = 0},
                                               [SCORES] = {"SCORES", PIPE_MATRIX, .branches = 1},
                                               [SOFTMAX] = {"SOFTMAX", PIPE_MEMORY, .open = 0},
                                               [VALUES] = {"VALUES", PIPE_MATRIX, .open = 0},
                                               [VALUES + 1] = {0}};

static const struct pipe_row rows[] = {{&pipe_part, 0, FIRST, .rows = mla_rows_first_piece},
                                       {&pipe_part, 0, PLACE, .rows = mla_rows_other_pieces},
                                       {&pipe_part, QK, SCORES, .rows = mla_rows_scores},
                                       {&pipe_part, QK, SOFTMAX, .rows = mla_rows_weights},
                                       {&pipe_await_stores, QK, SOFTMAX, .part = MLA_LDS_P},
                                       {&pipe_barrier, QK, SOFTMAX, .part = 0},
                                       {&pipe_part, QK, VALUES, .rows = mla_rows_product},
                                       {&pipe_release, QK, VALUES, .needs = HAS(ONE_BLOCK)},
                                       {&pipe_barrier, QK, VALUES, .needs = HAS(ONE_BLOCK)},
                                       {0}};

static const struct pipe_move moves[] = {
    {&att_mask, 0, QK, SCORES, SHARED_MAX}, {&att_mask_bytes, 0, QK, SCORES, SHARED_MAX}, {0}};

const struct pipeline mla_shared_scores = {
    .name = "shared_scores",
    .when = "mla_decode: more columns, one block in LDS, or 128 columns with scaled weights",
    .why = "needs LDS for one block, and few registers",
    .phases = mla_shared_phases,
    .buffers = mla_shared_buffers,
    .slots = att_slots,
    .rows = rows,
    .moves = moves,
    .features = mla_features,
    .spread = {TIR_COVER_FILL},
    .roles = 1,
    .bare = PIPE_ALL,
};

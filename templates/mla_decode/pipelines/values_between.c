/* SPDX-License-Identifier: Apache-2.0
 *
 * As deferred_values, but the product of a block is between the first piece of the next block and
 * its other pieces. HBM loads these pieces meanwhile. P is in LDS after the barrier before the
 * product. The place of c is free after the barrier that follows all pieces. So two blocks in LDS
 * are enough.
 *
 *     values_between: mla_decode: 32 and 64 columns where LDS is large, without a custom mask
 *     HBM never waits for the product
 *     FIRST   memory    block to LDS.0[2], load.0[1], (load mask[1]), find pages.0[0],
 *                       (find pages.2[0]), P here[3], barrier[3]
 *     VALUES  matrix    (read alpha[3]), (rescale[3]), (agree[3]), (sum P[3]), (read P[3]),
 *                       read c[3], transpose c[3], (PV[3]), (read P[3]), (PV[3])
 *     PLACE   memory    (block to LDS.1[2]), (block to LDS.2[2]), (entries to LDS[2]),
 *                       (load.1[1]), (load.2[1]), (load mask[1]), block here[2], barrier[2]
 *     SCORES  matrix    (read entries[2]), (QK[2]), (S to LDS[2]), (mask[2]), (max to LDS[2]),
 *                       (S here[2]), (barrier[2]), (S here[2]), (barrier[2])
 *     SOFTMAX memory    (read S[2]), (sum S[2]), (mask[2]), (read max[2]), (max[2]),
 *                       (exponent[2]), exp2[2], (sum P[2]), (P to LDS[2])
 *     LDS               block of a workgroup, P of a workgroup, entries of a workgroup,
 *                       S of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGES, LOADS, QK, PV };
enum { FIRST, VALUES, PLACE, SCORES, SOFTMAX };

static const struct pipe_phase phases[] = {[FIRST] = {"FIRST", PIPE_MEMORY, .open = 0},
                                           [VALUES] = {"VALUES", PIPE_MATRIX, .open = 0},
                                           [PLACE] = {"PLACE", PIPE_MEMORY, .open = 0},
                                           [SCORES] = {"SCORES", PIPE_MATRIX, .branches = 1},
                                           [SOFTMAX] = {"SOFTMAX", PIPE_MEMORY, .open = 0},
                                           [SOFTMAX + 1] = {0}};

static const struct pipe_row rows[] = {
    {&pipe_part, 0, FIRST, .rows = mla_rows_first_piece},
    {&pipe_part, 0, PLACE, .rows = mla_rows_other_pieces},
    {&pipe_await_stores, PV, FIRST, .part = MLA_LDS_P},
    {&pipe_barrier, PV, FIRST, .part = 0},
    {&pipe_part, QK, SCORES, .rows = mla_rows_scores, .unless = HAS(ROW_PARTS) | HAS(SHARED_MAX)},
    {&pipe_part, QK, SOFTMAX, .rows = mla_rows_weights},
    {&pipe_part, PV, VALUES, .rows = mla_rows_product},
    {0}};

const struct pipeline mla_values_between = {
    .name = "values_between",
    .when = "mla_decode: 32 and 64 columns where LDS is large, without a custom mask",
    .why = "HBM never waits for the product",
    .phases = phases,
    .buffers = mla_shared_buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN},
    .roles = 1,
    .bare = PIPE_ALL,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Every wave computes all of S^T, or a part of the sum that waves add. Every wave has rows of O^T
 * of its own. So P stays in registers. Two workgroups share a compute unit, so that one loads while
 * the other computes.
 *
 *     replicated_scores: mla_decode: up to 16 columns
 *     P needs no exchange: one barrier a block
 *     FIRST   memory    block to LDS.0[2], load.0[1], (load mask[1]), find pages.0[0],
 *                       (find pages.2[0])
 *     PLACE   memory    (block to LDS.1[2]), (block to LDS.2[2]), (entries to LDS[2]),
 *                       (load.1[1]), (load.2[1]), (load mask[1]), block here[2], barrier[2]
 *     SCORES  matrix    (read entries[2]), QK[2], (S to LDS[2]), (mask[2]), (max to LDS[2]),
 *                       (S here[2]), (barrier[2]), (S here[2]), (barrier[2])
 *     SOFTMAX memory    (read S[2]), (sum S[2]), (mask[2]), (read max[2]), max[2], exp2[2],
 *                       rescale[2]
 *     VALUES  matrix    read c[2], transpose c[2], PV[2], (LDS free[2]), (barrier[2])
 *     LDS               block of a workgroup, P of a workgroup, entries of a workgroup,
 *                       S of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGES, LOADS, QK };
enum { FIRST, PLACE, SCORES, SOFTMAX, VALUES };

static const struct pipe_row rows[] = {{&pipe_part, 0, FIRST, .rows = mla_rows_first_piece},
                                       {&pipe_part, 0, PLACE, .rows = mla_rows_other_pieces},
                                       {&pipe_part, QK, SCORES, .rows = mla_rows_scores},
                                       {&mla_max, QK, SOFTMAX, .part = 0},
                                       {&mla_make_p, QK, SOFTMAX, .part = 0},
                                       {&mla_rescale_own, QK, SOFTMAX, .part = 0},
                                       {&mla_load_c, QK, VALUES, .part = 0},
                                       {&mla_transpose_c, QK, VALUES, .part = 0},
                                       {&mla_product, QK, VALUES, .part = 0},
                                       {&pipe_release, QK, VALUES, .needs = HAS(ONE_BLOCK)},
                                       {&pipe_barrier, QK, VALUES, .needs = HAS(ONE_BLOCK)},
                                       {0}};

const struct pipeline mla_replicated_scores = {
    .name = "replicated_scores",
    .when = "mla_decode: up to 16 columns",
    .why = "P needs no exchange: one barrier a block",
    .phases = mla_shared_phases,
    .buffers = mla_shared_buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_FILL},
    .roles = 1,
    .bare = PIPE_ALL,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * As replicated_scores, where the tensor data mover copies blocks. LDS has three: after the barrier
 * of an iteration its block is there, and the place of the one before is free for a copy.
 *
 *     replicated_tensor: mla_decode: up to 16 columns where the tensor data mover copies blocks
 *     rows pass through no registers, and two blocks are in flight
 *     FIRST   memory    find pages[0], block here[3], barrier[3]
 *     PLACE   memory    block to LDS[1]
 *     SCORES  matrix    (read entries[3]), QK[3], (S to LDS[3]), (mask[3]), (max to LDS[3]),
 *                       (S here[3]), (barrier[3]), (S here[3]), (barrier[3])
 *     SOFTMAX memory    (read S[3]), (sum S[3]), (mask[3]), (read max[3]), max[3], exp2[3],
 *                       rescale[3]
 *     VALUES  matrix    read c[3], transpose c[3], PV[3], settle[3]
 *     LDS               block of a workgroup, P of a workgroup, entries of a workgroup,
 *                       S of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGES, COPY, QK = COPY + 2 };
enum { FIRST, PLACE, SCORES, SOFTMAX, VALUES };

static const struct pipe_row rows[] = {{&mla_find_row_page, PAGES, FIRST, .part = 0},
                                       {&mla_move_rows, COPY, PLACE, .part = 0},
                                       {&pipe_await, QK, FIRST, .part = MLA_LDS_BLOCK},
                                       {&pipe_barrier, QK, FIRST, .part = 0},
                                       {&pipe_part, QK, SCORES, .rows = mla_rows_scores},
                                       {&mla_max, QK, SOFTMAX, .part = 0},
                                       {&mla_make_p, QK, SOFTMAX, .part = 0},
                                       {&mla_rescale_own, QK, SOFTMAX, .part = 0},
                                       {&mla_load_c, QK, VALUES, .part = 0},
                                       {&mla_transpose_c, QK, VALUES, .part = 0},
                                       {&mla_product, QK, VALUES, .part = 0},
                                       {&mla_settle, QK, VALUES, .part = 0},
                                       {0}};

const struct pipeline mla_replicated_tensor = {
    .name = "replicated_tensor",
    .when = "mla_decode: up to 16 columns where the tensor data mover copies blocks",
    .why = "rows pass through no registers, and two blocks are in flight",
    .phases = mla_shared_phases,
    .buffers = mla_shared_buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_FILL},
    .roles = 1,
    .bare = PIPE_ALL,
};

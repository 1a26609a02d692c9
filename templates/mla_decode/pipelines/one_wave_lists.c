/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of one_wave for sparse lists. A block's list entries are in LDS an iteration before its
 * rows are requested, and stay there until its scores are masked.
 *
 *     one_wave_lists: mla_decode: more than 64 rows of 16 bits and lists, where LDS transposes c
 *     as one_wave: a row of a list is copied to LDS once for 128 columns
 *     M1      memory    (rescale[5]), entries to LDS[0], barrier[5], entries here[1]
 *     BEGIN   matrix +  block to LDS[2]
 *     C1      matrix    (sum P[5]), (round P[5]), read c.0[5], read K.1[4], QK[4],
 *                       read entries[1]
 *     M2      memory    mask[4], (max[4]), clear gaps[3], LDS free[3], block here[3], barrier[3]
 *     M3      memory    nothing
 *     C2      matrix    read c.1[5], (PV.0[5]), (PV[5]), (read c.2[5]), (PV.1[5]),
 *                       (exponents[4]), (exp2.0[4]), (P by blocks[4]), (exp2.1[4]), read K.0[3],
 *                       find rows[1]
 *     LDS               block of a workgroup, entries of a wave
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGE = A_PAGES, FIND = A_FIND, COPY = A_COPY, WAIT = A_WAIT };

static const struct pipe_buffer buffers[] = {
    [MLA_LDS_BLOCK] = {"block", GROUP, .scope = PIPE_WORKGROUP},
    [MLA_LDS_P] = {"", 0},
    [MLA_LDS_ENTRIES] = {"entries", ENTRIES, .scope = PIPE_WAVE},
    {0}};

static const struct pipe_row rows[] = {{&mla_list_copy_entries, PAGE, M1, .part = 0},
                                       {&pipe_await, FIND, M1, .part = MLA_LDS_ENTRIES},
                                       {&mla_list_read_entries, FIND, C1, .part = 0},
                                       {&mla_list_find, FIND, C2, .part = 0},
                                       {&mla_list_copy, COPY, BEGIN, .part = 0},
                                       {&mla_list_clear, WAIT, M2, .part = 0},
                                       {&pipe_release, WAIT, M2, .part = 0},
                                       {&pipe_part, WAIT, M1, .rows = mla_rows_one_wave},
                                       {0}};

/* Distances (in MFMAs) between LDS reads and their uses are as in pipeline one_wave. */
const struct pipeline mla_one_wave_lists = {
    .name = "one_wave_lists",
    .when = "mla_decode: more than 64 rows of 16 bits and lists, where LDS transposes c",
    .why = "as one_wave: a row of a list is copied to LDS once for 128 columns",
    .phases = mla_one_wave_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 4},
    .roles = 1,
    .hides_itself = 1,
};

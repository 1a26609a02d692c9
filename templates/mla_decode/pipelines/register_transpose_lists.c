/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of register_transpose for sparse lists. A block's list entries are in LDS an iteration
 * before its rows are requested, and stay there until its scores are masked.
 *
 *     register_transpose_lists: mla_decode: as one_wave_lists, where LDS does not transpose c
 *     as register_transpose: a row of a list is copied to LDS once for 128 columns
 *     M1      memory    rescale[4]
 *     C1      matrix    sum P[4], round P[4], order P[4], read c.0[4], read K.1[3], QK[3],
 *                       entries to LDS[0]
 *     M2      memory    mask[3], entries here[1]
 *     C2      matrix    transpose c.0[4], read c.1[4], PV.0[4], check max[3], read entries[1],
 *                       find rows[1]
 *     M3      memory    max[3], (LDS free[4]), (barrier[4])
 *     C3      matrix    transpose c.1[4], read c.2[4], transpose c.2[4], read c.3[4], PV.1[4],
 *                       PV.2[4], exponents[3], exp2.0[3], exp2.1[3], columns to LDS[1]
 *     M4      memory    clear gaps[2], LDS free[4], last columns here[2], barrier[2]
 *     C4      matrix    transpose c.3[4], PV.3[4], read K.0[2], columns to LDS.1[1]
 *     LDS               first columns of a workgroup, last columns of a workgroup,
 *                       entries of a wave
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/mla_decode/register_transpose.h"

enum { T_M1, T_C1, T_M2, T_C2, T_M3, T_C3, T_M4, T_C4 };
enum { T_PAGES, T_COPY, T_ARRIVE };

static const struct pipe_buffer buffers[] = {
    [MLA_LDS_FIRST] = {"first columns", GROUP, PIPE_WORKGROUP, .with = 1 + MLA_LDS_LAST},
    [MLA_LDS_LAST] = {"last columns", LATER, PIPE_WORKGROUP},
    [MLA_LDS_ENTRIES] = {"entries", ENTRIES, PIPE_WAVE},
    {0}};

static const struct pipe_row rows[] = {{&mla_list_copy_entries, T_PAGES, T_C1, .part = 0},
                                       {&pipe_await, T_COPY, T_M2, .part = MLA_LDS_ENTRIES},
                                       {&mla_list_read_entries, T_COPY, T_C2, .part = 0},
                                       {&mla_list_find, T_COPY, T_C2, .part = 0},
                                       {&mla_list_copy_first, T_COPY, T_C3, .part = 0},
                                       {&mla_list_copy_last, T_COPY, T_C4, .part = 1},
                                       {&mla_list_clear, T_ARRIVE, T_M4, .part = 0},
                                       {&pipe_part, T_ARRIVE, T_M1, .rows = mla_rows_transpose},
                                       {0}};

/* Distances (in MFMAs) between LDS reads and their uses are as in pipeline register_transpose. */
const struct pipeline mla_register_transpose_lists = {
    .name = "register_transpose_lists",
    .when = "mla_decode: as one_wave_lists, where LDS does not transpose c",
    .why = "as register_transpose: a row of a list is copied to LDS once for 128 columns",
    .phases = mla_transpose_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 8, .transpose_ahead = 3, .late_ahead = 3,
               .bare_last = 1, .holds = 1},
    .roles = 1,
    .hides_itself = 1,
};

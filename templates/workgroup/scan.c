/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/workgroup/scan.h"

#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"

enum { BYTES = 2 * ATT_SCAN_ROWS * 4 }; /* bytes of LDS of a wave */

struct att_scan att_scan_begin(struct tir_builder *b)
{
    const struct tir_layout lane = tir_spread_column(b->f->machine, 1, ATT_SCAN_ROWS);
    struct att_scan s = {.map = tir_row_major(ATT_SCAN_ROWS, 1)};
    s.lane = tir_tile(b->f, TIR_I32, ATT_SCAN_ROWS, 1, &lane);
    const struct tir_value all = tir_lds_buffer(b, b->f->waves * BYTES, 16);
    s.lds = tir_add(b, all, att_times(b, tir_wave_id(b), BYTES));
    tir_tile_lds_store(b, s.lds, tir_splat(b, tir_i32(b, 0), s.lane), &s.map);
    return s;
}

struct tir_value att_scan_shift(struct tir_builder *b, const struct att_scan *s, struct tir_value a,
                                int distance)
{
    const struct tir_value numbers = att_plus(b, s->lds, ATT_SCAN_ROWS * 4);
    /* Lanes read what other lanes wrote, which LLVM, which considers single lanes, cannot know. The
     * waits keep accesses to LDS from being moved past them. */
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_tile_lds_store(b, numbers, a, &s->map);
    tir_wait(b, TIR_LDS_WRITES, 0);
    return tir_tile_lds_load(b, att_plus(b, numbers, -distance * 4), s->lane, &s->map);
}

/* Implements the declaration in scan.h by adding rows at doubling distances: Hillis and Steele,
 * Data parallel algorithms, CACM 29 (1986). */
struct tir_value att_scan_before(struct tir_builder *b, const struct att_scan *s,
                                 struct tir_value a)
{
    struct tir_value sum = a;
    for (int distance = 1; distance < ATT_SCAN_ROWS; distance *= 2)
        sum = tir_add(b, sum, att_scan_shift(b, s, sum, distance));
    return tir_sub(b, sum, a);
}

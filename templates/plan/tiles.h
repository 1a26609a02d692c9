/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of queries, which the plan kernel cuts as if each were a sequence: docs/planning.md. They
 * are written to the argument tile_info, since each wave reads them more than once.
 */
#ifndef TEMPLATES_PLAN_TILES_H
#define TEMPLATES_PLAN_TILES_H

#include "ir/builder.h"
#include "templates/workgroup/scan.h"

/** The kinds of numbers in tile_info, most_tiles of each kind one after the other. */
enum att_plan_word {
    ATT_PLAN_SEQUENCE,
    ATT_PLAN_Q_START,
    ATT_PLAN_Q_END,
    ATT_PLAN_SKIP, /* keys before the window */
    ATT_PLAN_KEYS, /* keys that the tile's queries see, after the skipped ones */
    ATT_PLAN_WORDS
};

/** Writes the tiles of the batch; every wave takes part. Returns their number, i32. Later loads
 * see what any wave has written. */
struct tir_value att_plan_write_tiles(struct tir_builder *b, const struct att_scan *scan,
                                      int waves);

/** Returns the address (i64) of the numbers of one kind, i32 each. */
struct tir_value att_plan_tile_words(struct tir_builder *b, enum att_plan_word word);

#endif

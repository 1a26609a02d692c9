/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of queries, which the plan kernel cuts as if each were a sequence: docs/planning.md. They
 * are written to the argument tile_info, since each wave reads them more than once.
 */
#ifndef TEMPLATES_PLAN_TILES_H
#define TEMPLATES_PLAN_TILES_H

#include "ir/builder.h"
#include "templates/workgroup/scan.h"

/** Kinds of numbers in argument tile_info, which has most_tiles numbers of each kind, kind after
 * kind. */
enum att_plan_word {
    ATT_PLAN_SEQUENCE,
    ATT_PLAN_Q_START,
    ATT_PLAN_Q_END,
    ATT_PLAN_SKIP, /* keys before the window */
    ATT_PLAN_KEYS, /* keys that the tile's queries see, after the skipped ones */
    ATT_PLAN_WORDS
};

/** Writes the words of all tiles of the batch to tile_info, and returns the number of tiles (i32).
 * Every wave must run this code, which ends with a barrier: later loads see what any wave has
 * written. */
struct tir_value att_plan_write_tiles(struct tir_builder *b, const struct att_scan *scan,
                                      int waves);

/** Returns the address (i64) in tile_info of the numbers of kind `word`, an i32 for each tile. */
struct tir_value att_plan_tile_words(struct tir_builder *b, enum att_plan_word word);

#endif

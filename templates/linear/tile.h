/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the tile of a recurrence: how many elements of a state, K x V, a wave keeps in
 * registers. The ops that read and write such states share it.
 */
#ifndef TEMPLATES_LINEAR_TILE_H
#define TEMPLATES_LINEAR_TILE_H

#include "templates/template.h"

/** Index in att_tile.own: number of elements of a state that a wave holds. */
enum { ATT_STATE_ELEMENTS };

enum { ATT_STATE_TILES = 1 }; /* rows of att_state_tiles[] */
extern const struct att_tile att_state_tiles[ATT_STATE_TILES];

/** Returns the number of value elements of a state that a wave has with tile `t`. The wave has all
 * K elements of each. */
unsigned att_state_rows(const struct att_variant *v, const struct att_tile *t);

/** True if head_dim and head_dim_v are each 64, 128 or 256; if not, the reason is in `why`. */
bool att_state_check_dims(const struct att_variant *v, struct att_why *why);

/** True if ssd and ssd_prefill, the ops of state spaces, serve the variant; if not, the reason is
 * in `why`. */
bool att_state_space_check(const struct att_variant *v, const struct tir_machine *m,
                           struct att_why *why);

/** True if tile `t` gives each wave of a workgroup a part of the state, and registers for that
 * part; if not, the reason is in `why`. */
bool att_state_fits(const struct att_variant *v, const struct att_tile *t,
                    const struct tir_machine *m, struct att_why *why);

#endif

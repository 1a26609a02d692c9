/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a tuning file: fields by name, and those at their default left out, so that a field
 * that comes later changes no key.
 */
#ifndef COMPILER_TUNING_KEY_H
#define COMPILER_TUNING_KEY_H

#include <stdbool.h>

#include "templates/variant.h"

enum { ATTNC_KEY_WHY = 160 };

/** Writes a variant's key: the target, the op, and each field of the dispatch key that is not at
 * its default, in the order of fields.def: "gfx950 decode head_dim=64 gqa=8". Its tile is no part.
 */
void attnc_key_text(const struct att_variant *v, char text[ATT_TEXT_MAX]);

/** Rewrites a key as attnc_key_text() has it, whatever the order of its fields is and whether it
 * says defaults. False: it is the key of no kernel, for the reason in `why`. */
bool attnc_key_normalise(const char *key, char text[ATT_TEXT_MAX], char why[ATTNC_KEY_WHY]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a tuning file: fields by name, without fields that have their default. A field that is
 * added to an op later therefore changes no key.
 */
#ifndef COMPILER_TUNING_KEY_H
#define COMPILER_TUNING_KEY_H

#include <stdbool.h>

#include "templates/variant.h"

enum { ATTNC_KEY_WHY = 160 };

/** Writes a variant's key: the target, the op, and each field of the dispatch key that differs from
 * its default, in the order of fields.def: "gfx950 decode head_dim=64 gqa=8". The tile is not part
 * of it. */
void attnc_key_text(const struct att_variant *v, char text[ATT_TEXT_MAX]);

/** Rewrites a key in the form of attnc_key_text(). Its fields may have any order and may include
 * defaults. Returns false if no kernel has such a key, and `why` has the reason. */
bool attnc_key_normalise(const char *key, char text[ATT_TEXT_MAX], char why[ATTNC_KEY_WHY]);

#endif

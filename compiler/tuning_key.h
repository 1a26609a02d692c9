/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch keys as text in tuning files: fields by name, without fields that have their default. A
 * field that is added to an op later therefore changes no key.
 */
#ifndef COMPILER_TUNING_KEY_H
#define COMPILER_TUNING_KEY_H

#include <stdbool.h>

#include "templates/variant.h"

enum { ATTNC_KEY_WHY = 160 }; /* bytes of a message, with the NUL */

/** Writes a variant's key: the target, the op, and each field of the dispatch key that differs from
 * its default, in the order of fields.def: "gfx950 decode head_dim=64 gqa=8". The tile is not part
 * of it. */
void attnc_key_text(const struct att_variant *v, char text[ATT_TEXT_MAX]);

/** Sets *v to the variant that has the key `key`, whose fields may have any order and may include
 * defaults; the tile is left open. Names of files in *v point to `copy`. Returns false with the
 * reason in `why` if no kernel can have such a key. */
bool attnc_key_variant(const char *key, char copy[ATT_TEXT_MAX], struct att_variant *v,
                       char why[ATTNC_KEY_WHY]);

/** Writes `key` in the form of attnc_key_text() to `text`. The fields of `key` may have any order
 * and may include defaults. Returns false with the reason in `why` if no kernel can have such a
 * key. */
bool attnc_key_normalise(const char *key, char text[ATT_TEXT_MAX], char why[ATTNC_KEY_WHY]);

/** Returns the op called `name`; NULL if there is none, or if `name` is NULL. */
const struct att_template *attnc_find_op(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares which targets compile a variant, and which values of an integer field have a
 * kernel. The check of the variant's template decides. */
#ifndef TOOLS_ATTNC_LIMITS_SWEEP_H
#define TOOLS_ATTNC_LIMITS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "templates/template.h"
#include "tools/attnc/limits/limits_text.h"

/* The targets that have kernels of the op: bit i for target i of tgt_all. "Every target" means
 * these. */
extern uint8_t limits_served;

/** Sets field `f` of a variant as if the description gave it. A file field gets a file name unless
 * `value` is 0. */
void limits_set(struct att_variant *v, enum att_field f, int value);

/** Returns the set `found` with the targets in limits_served whose check accepts the variant: bit i
 * for target i of tgt_all. Targets in `found` are not checked. `why`, unless NULL, gets the last
 * refusal. */
uint8_t limits_add_targets(const struct att_variant *v, uint8_t found, struct att_why *why);

/** Returns the set of targets whose check accepts the variant, as limits_add_targets(). */
uint8_t limits_targets(const struct att_variant *v, struct att_why *why);

/** Sets has[i] to the targets that compile the variant with sample i in the integer field `f`. With
 * `pairs`, head_dim and head_dim_v are tried with each common size of the other. */
void limits_sweep(const struct att_variant *v, enum att_field f, bool pairs,
                  uint8_t has[LIMITS_SAMPLES]);

#endif

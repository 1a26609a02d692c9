/* SPDX-License-Identifier: Apache-2.0
 *
 * Suggests ops for an unknown name: by names from other projects, by spelling, or by a shared word.
 */
#ifndef COMPILER_OP_WORDS_H
#define COMPILER_OP_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "templates/template.h"

/**
 * Writes the ops of `templates` (NULL at the end) that `name` may mean to `text` of `size` bytes,
 * as in "'prefill' or 'decode'". If no op is close, returns false and an empty text.
 */
bool attnc_suggest_ops(const struct att_template *const *templates, const char *name, char *text,
                       size_t size);

#endif

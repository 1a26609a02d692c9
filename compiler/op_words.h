/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops that an unknown name was meant to be: by the names that other projects use, by spelling,
 * or by a word that both names have.
 */
#ifndef COMPILER_OP_WORDS_H
#define COMPILER_OP_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "templates/template.h"

/**
 * Writes the ops of `templates` (NULL at the end) that `name` may mean to `text`, as in
 * "'prefill' or 'decode'". False, and an empty text, where there is none.
 */
bool attnc_suggest_ops(const struct att_template *const *templates, const char *name, char *text,
                       size_t size);

#endif

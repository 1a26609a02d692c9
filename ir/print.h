/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a printer that adds remarks to ops. The verifier shows its findings with it.
 */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include <stdio.h>

#include "ir/ir.h"

/** Prints remarks on `op` to `out` as whole lines; an op of id 0 means remarks on the whole
 * function. */
typedef void tir_remarks(void *context, struct tir_ref op, FILE *out);

/** Prints a function with remarks on its ops; `context` is passed to `remarks`. */
void tir_print_remarked(const struct tir_func *f, FILE *out, tir_remarks *remarks, void *context);

/** Prints a function into memory that the caller frees. Sets each op's `line` to the number of its
 * line in the text, from 1. Returns NULL if memory is exhausted. */
char *tir_number_lines(struct tir_func *f, size_t *size);

#endif

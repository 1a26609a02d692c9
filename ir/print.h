/* SPDX-License-Identifier: Apache-2.0
 *
 * The printer, with remarks beside ops: what the verifier shows its findings with.
 */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include <stdio.h>

#include "ir/ir.h"

/** Prints remarks on `op` (0: on the function), each as a whole line. */
typedef void tir_remarks(void *context, struct tir_ref op, FILE *out);

void tir_print_remarked(const struct tir_func *f, FILE *out, tir_remarks *remarks, void *context);

/** The printed function, and its size, on the heap for the caller to free; each op gets the number
 * of its line, from 1. NULL: out of memory. */
char *tir_number_lines(struct tir_func *f, size_t *size);

#endif

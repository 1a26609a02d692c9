/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the printer with remarks beside ops, by which the verifier shows its findings.
 */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include <stdio.h>

#include "ir/ir.h"

/** Prints remarks on `op` (0: on the function) as whole lines. */
typedef void tir_remarks(void *context, struct tir_ref op, FILE *out);

void tir_print_remarked(const struct tir_func *f, FILE *out, tir_remarks *remarks, void *context);

/** Prints a function into memory that the caller frees. Each op gets the number of its line, from
 * 1. NULL if memory is exhausted. */
char *tir_number_lines(struct tir_func *f, size_t *size);

#endif

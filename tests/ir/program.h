/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes programs of bytes. Every string of bytes is a sound program, so random bytes test what all
 * programs have in common.
 */
#ifndef TESTS_IR_PROGRAM_H
#define TESTS_IR_PROGRAM_H

#include "ir/builder.h"

/** Numbers of words that a wave of a program writes, and that a program may read. */
enum { PROGRAM_OUTPUTS = 64 * 8, PROGRAM_INPUTS = 64 };

/**
 * Makes a lowered function of two waves from bytes: scalars and vecs of i32, branches that waves
 * take differently, loops with carried values, cross-lane moves and LDS. Arguments: "in" and "out",
 * pointers to PROGRAM_INPUTS and 2 * PROGRAM_OUTPUTS words.
 */
struct tir_func *program_of_bytes(const uint8_t *bytes, size_t size);

#endif

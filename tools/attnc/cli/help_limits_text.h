/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the text of limits: sets of numbers in words, and lines that are wrapped. */
#ifndef TOOLS_ATTNC_HELP_LIMITS_TEXT_H
#define TOOLS_ATTNC_HELP_LIMITS_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A line that is being put together; what does not fit is cut off. */
struct text {
    char at[2048];
    size_t length;
};

/** Appends formatted text; what does not fit is cut off. */
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Prints the line in at most 100 columns, `first` before it and `next` before what is left of it,
 * and empties it. */
void text_print(struct text *t, const char *first, const char *next);

/* The samples of a field's values: every number up to 1024, then every multiple of 64 and its
 * neighbour. */
enum { LIMITS_DENSE = 1025, LIMITS_SAMPLES = LIMITS_DENSE + 2 * 1008 };

/** Returns sample i; samples ascend. */
int limits_sample(int i);

/** Appends to `t` the samples whose entry in `has` shares a bit with `mask`: "64 to 128 by 8, 144
 * to 256 by 16". `zero` is the word for sample 0; NULL: its digit. */
void limits_describe(const uint8_t has[LIMITS_SAMPLES], uint8_t mask, const char *zero,
                     struct text *t);

#endif

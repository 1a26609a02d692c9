/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the texts of `attnc help limits`: sets of numbers in words, and lines that are
 * wrapped. Lines are printed as strings of C, since the build makes a C file of them. */
#ifndef TOOLS_ATTNC_LIMITS_TEXT_H
#define TOOLS_ATTNC_LIMITS_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A line that grows by text_add(). What does not fit is cut off. */
struct text {
    char at[2048];
    size_t length;
};

/** Appends formatted text; what does not fit is cut off. */
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Prints a line as it is. */
void text_line(const char *line);

/** Prints a line with an empty one before and after it. */
void text_heading(const char *line);

/** Prints the line, wrapped at 100 columns, and empties it. `first` begins its first printed line,
 * `next` every other. */
void text_print(struct text *t, const char *first, const char *next);

/* Number of samples of an integer field: every value below LIMITS_DENSE, then every multiple of 64
 * and the value after it, up to 65536. */
enum { LIMITS_DENSE = 1025, LIMITS_SAMPLES = LIMITS_DENSE + 2 * 1008 };

/** Returns the value of sample i. Values ascend. */
int limits_sample(int i);

/** Appends to `t` the values of the samples whose entry in `has` shares a bit with `mask`: "64 to
 * 128 by 8, 144 to 256 by 16". `zero` is the word for the value 0; NULL: a digit. */
void limits_describe(const uint8_t has[LIMITS_SAMPLES], uint8_t mask, const char *zero,
                     struct text *t);

/** Returns 1, 2 or 4 if head_dim_v may be any value of `base` that is at most that many times
 * head_dim; 0 if no such factor describes `sets`. sets[d] has the targets by head_dim_v for
 * head_dim d. */
int limits_ratio(uint8_t sets[LIMITS_DENSE][LIMITS_SAMPLES], const uint8_t base[LIMITS_SAMPLES]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares operands that hold weights of heads, [head, row, column], and the scales of
 * weights of fp8.
 */
#ifndef TOOLS_VERIFY_WEIGHTS_H
#define TOOLS_VERIFY_WEIGHTS_H

#include "tools/verify/operand.h"

enum {
    WEIGHTS_BLOCK = 128,  /* rows and columns of a head that share a scale */
    WEIGHTS_COLUMNS = 512 /* most columns of a row */
};

/* The weights of an op's heads. */
struct weights {
    struct operand *w;     /* [head, row, column] */
    struct operand *scale; /* float32 scales; left out (not `given`): w has no scales */
    /* true: each block of 128 x 128 elements has a scale; false: each head has one */
    bool blocks;
};

/** A row of weights that the kernel multiplies by. */
struct weights_row {
    double w[WEIGHTS_COLUMNS];                     /* elements without their scale */
    double scale[WEIGHTS_COLUMNS / WEIGHTS_BLOCK]; /* scale of each block of columns */
};

/** Sets the alignment and the strides of weights: both are multiples of 16 bytes in all element
 * types. */
void weights_place(struct operand *w);

/** Sets all elements to numbers of magnitude `limit` at most, and scales to powers of 2 with any
 * exponent from -4 to 4. */
void weights_fill(const struct weights *w, double limit, uint64_t *random);

/** Reads row `n` of a head, as it was uploaded. */
void weights_read(const struct weights *w, int64_t head, int64_t n, struct weights_row *row);

/** Returns the bytes of the elements of `w`, and of `scale` if that operand is given. */
double weights_bytes(const struct operand *w, const struct operand *scale);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the product of heads' weights with a few tokens, as a part of a kernel that
 * does other work too: out[t, h] = w[h] x[t, h]. The op head_product is this product only.
 *
 * A wave multiplies slices of 16 rows of w with all tokens. Each lane loads the 16 bytes of a row
 * that the matrix instruction takes from it, so waves need neither LDS nor barriers.
 * Weights of fp8 are converted to dtype, exactly; their scales multiply the sums of a block.
 */
#ifndef TEMPLATES_WORKGROUP_ROW_PRODUCT_H
#define TEMPLATES_WORKGROUP_ROW_PRODUCT_H

#include "templates/template.h"
#include "templates/workgroup/scalar.h"

enum {
    ATT_PRODUCT_ROWS = 16,    /* rows of w in a slice */
    ATT_PRODUCT_COLUMNS = 64, /* columns of a load; w and x have a multiple of it */
    ATT_PRODUCT_MOST = 512,   /* most columns of w and x */
    ATT_PRODUCT_BLOCK = 128   /* rows and columns that share a scale: ATT_WEIGHTS_FP8_BLOCK */
};

/** The product of each token's row x with a head's matrix w, and the arguments that name the
 * tensors. */
struct att_row_product {
    struct tir_builder *b;
    unsigned dtype;   /* of x and of the products, 16 bits: enum tir_dtype */
    int weights;      /* how w is stored: enum att_weights */
    unsigned columns; /* of w and x */
    int rows;         /* of a head's w, a multiple of ATT_PRODUCT_ROWS */
    const char *w, *w_head_stride, *w_row_stride; /* arguments of w [head, row, column] */
    const char *w_scale;                          /* argument of the scales of w; NULL: none */
    struct att_tensor x, out;                     /* [token, head, column] and [token, head, row] */
    int out_size;                                 /* bytes of an element of out */
    struct tir_value tokens;                      /* i32: rows of x and out */
    /** Converts sums (f32) to the elements of out. NULL: they are rounded to dtype. */
    struct tir_value (*convert)(void *family, struct tir_value sums);
    void *family; /* argument of convert */
};

/** True if the variant has no product of its own, or if its product has a kernel: the machine has
 * an instruction for dtype, and product_dim is a multiple of `multiple`. */
bool att_row_product_check(const struct att_variant *v, const struct tir_machine *m, int multiple,
                           struct att_why *why);
/** Multiplies slice `number` (i32) with all tokens. A head has rows / ATT_PRODUCT_ROWS slices, and
 * the next head's follow. */
void att_row_product_slice(const struct att_row_product *p, struct tir_value number);

#endif

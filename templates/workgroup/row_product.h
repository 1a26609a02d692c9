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
    ATT_PRODUCT_ROWS = 16, /* number of rows of w in a slice */
    /* Number of columns of a load; the columns of w and x are a multiple of it. */
    ATT_PRODUCT_COLUMNS = 64,
    ATT_PRODUCT_MOST = 512, /* most columns of w and x */
    /* Number of rows, and of columns, of a block of w that shares a scale:
     * ATT_WEIGHTS_FP8_BLOCK. */
    ATT_PRODUCT_BLOCK = 128
};

/** The product of each token's row x with a head's matrix w, and the names of the arguments of the
 * tensors. */
struct att_row_product {
    struct tir_builder *b;
    unsigned dtype;   /* enum tir_dtype of x and of the products, 16 bits */
    int weights;      /* form in which w is stored: enum att_weights */
    unsigned columns; /* number of columns of w and x */
    int rows;         /* number of rows of a head's w, a multiple of ATT_PRODUCT_ROWS */
    /* Names of the arguments of w [head, row, column] and of its strides in elements. */
    const char *w, *w_head_stride, *w_row_stride;
    const char *w_scale;      /* name of the argument with the scales of w; NULL: w has no scales */
    struct att_tensor x, out; /* tensors x [token, head, column] and out [token, head, row] */
    int out_size;             /* bytes of an element of out */
    struct tir_value tokens;  /* i32: number of tokens, rows of x and out */
    /** Returns the elements of out for sums (f32) of a product. NULL: sums are rounded to dtype. */
    struct tir_value (*convert)(void *family, struct tir_value sums);
    void *family; /* state of the caller, the first argument of convert */
};

/** True if the variant has no field product_dim, or if its product has a kernel; if not, the reason
 * is in `why`. The machine must have an instruction for dtype, and product_dim must be a multiple
 * of `multiple`. */
bool att_row_product_check(const struct att_variant *v, const struct tir_machine *m, int multiple,
                           struct att_why *why);
/** Multiplies slice `number` (i32 index) of w with all tokens and writes the products to out. A
 * head has rows / ATT_PRODUCT_ROWS slices, and the next head's slices follow. */
void att_row_product_slice(const struct att_row_product *p, struct tir_value number);

#endif

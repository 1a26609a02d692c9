/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes and reads weights of heads: operands of head_product, mla_rope_cache and
 * mla_decode.
 */
#include "tools/verify/weights.h"

#include <math.h>

enum { ALIGN = 16 /* alignment of the address and of strides, in bytes */ };

/* Returns the number of blocks with a scale of their own in `n` rows or columns of a head; 1 if the
 * head has one scale. */
static int64_t blocks_of(const struct weights *w, int64_t n)
{
    return w->blocks ? (n + WEIGHTS_BLOCK - 1) / WEIGHTS_BLOCK : 1;
}

void weights_place(struct operand *w)
{
    w->align = ALIGN;
    if ((w->strides[0] | w->strides[1]) * w->size % ALIGN == 0)
        return;
    /* strides with gaps of 8 elements: doubled, the gaps have 16 */
    for (int axis = 0; axis < 2; axis++)
        operand_set_stride(w, axis, 2 * w->strides[axis]);
}

void weights_fill(const struct weights *w, double limit, uint64_t *random)
{
    const int64_t *const dims = w->w->dims;
    for (int64_t h = 0; h < dims[0]; h++)
        for (int64_t n = 0; n < dims[1]; n++)
            operand_set_random_run(w->w, AT(h, n), dims[2], limit, random);
    for (int64_t h = 0; h < dims[0] && w->scale->given; h++)
        for (int64_t n = 0; n < blocks_of(w, dims[1]); n++)
            for (int64_t k = 0; k < blocks_of(w, dims[2]); k++)
                operand_set(w->scale, AT(h, n, k), (float)exp2(4 * random_value(random)));
}

void weights_read(const struct weights *w, int64_t head, int64_t n, struct weights_row *row)
{
    const int64_t columns = w->w->dims[2];
    operand_read(w->w, AT(head, n, 0), columns, row->w);
    for (int64_t k = 0; k * WEIGHTS_BLOCK < columns; k++)
        row->scale[k] = !w->scale->given ? 1
                        : w->blocks      ? operand_value(w->scale, AT(head, n / WEIGHTS_BLOCK, k))
                                         : operand_value(w->scale, AT(head));
}

double weights_bytes(const struct operand *w, const struct operand *scale)
{
    const double scales = scale->given ? 4.0 * (double)operand_count(scale) : 0;
    return (double)w->size * (double)operand_count(w) + scales;
}

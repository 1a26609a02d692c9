/* SPDX-License-Identifier: Apache-2.0
 *
 * This file looks up rows in a machine's tables of matrix instructions and copies.
 */
#include "ir/machine.h"

#include <string.h>

int tir_find_mma(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned k,
                 unsigned in_dtype)
{
    for (unsigned i = 0; i < m->n_mma; i++) {
        const struct tir_mma *const row = &m->mma[i];
        const bool fits = !row->scaled && (k ? row->k == k : !row->by_k);
        if (row->m == rows && row->n == cols && row->in_dtype == in_dtype && fits)
            return (int)i;
    }
    return -1;
}

int tir_find_mma_scaled(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned left,
                        unsigned right)
{
    for (unsigned i = 0; i < m->n_mma; i++) {
        const struct tir_mma *const row = &m->mma[i];
        if (row->scaled && row->m == rows && row->n == cols && row->left_format == left &&
            row->right_format == right)
            return (int)i;
    }
    return -1;
}

int tir_find_mma_name(const struct tir_machine *m, const char *name)
{
    for (unsigned i = 0; i < m->n_mma; i++)
        if (!strcmp(m->mma[i].name, name))
            return (int)i;
    return -1;
}

const struct tir_copy *tir_find_copy(const struct tir_machine *m, enum tir_space from,
                                     enum tir_space to, unsigned bytes, unsigned element_bits,
                                     bool descriptor)
{
    for (unsigned i = 0; i < m->n_copies; i++) {
        const struct tir_copy *const row = &m->copies[i];
        if (row->from == from && row->to == to && row->element_bits == element_bits &&
            row->descriptor == descriptor && (!bytes || row->bytes == bytes))
            return row;
    }
    return NULL;
}

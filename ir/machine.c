/* SPDX-License-Identifier: Apache-2.0
 *
 * This file looks up rows in a machine's table of matrix instructions.
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

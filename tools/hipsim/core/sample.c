/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <stdbool.h>
#include <stdlib.h>

enum { CORNERS = 8 };

/* Compares workgroup indices, for qsort(). */
static int by_index(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns the index of a corner of the grid. Bit d of `corner` selects the last workgroup of
 * dimension d instead of the first. */
static uint64_t corner_index(const uint32_t groups[3], unsigned corner)
{
    uint64_t at[3];
    for (unsigned d = 0; d < 3; d++)
        at[d] = corner >> d & 1 ? groups[d] - 1 : 0;
    return (at[2] * groups[1] + at[1]) * groups[0] + at[0];
}

/* Sets index[] to at most `n` different corners, each followed by the opposite one. Returns their
 * number. */
static uint64_t add_corners(const uint32_t groups[3], uint64_t n, uint64_t *index)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < CORNERS && taken < n; i++) {
        const uint64_t corner = corner_index(groups, i & 1 ? CORNERS - 1 - i / 2 : i / 2);
        bool is_new = true;
        for (uint64_t j = 0; j < taken; j++)
            is_new &= index[j] != corner;
        if (is_new)
            index[taken++] = corner;
    }
    return taken;
}

uint64_t *sample_choose(const uint32_t groups[3], uint64_t n, uint64_t *chosen)
{
    const uint64_t total = (uint64_t)groups[0] * groups[1] * groups[2];
    uint64_t *index = n ? malloc(n * sizeof(*index)) : NULL;
    *chosen = 0;
    if (!index)
        return NULL;
    uint64_t taken = add_corners(groups, n, index);
    const double step = (double)total / (double)(n - taken + 1);
    for (uint64_t i = 1; taken < n; i++)
        index[taken++] = (uint64_t)(step * (double)i);
    qsort(index, n, sizeof(*index), by_index);
    for (uint64_t i = 0; i < n; i++)
        if (!*chosen || index[i] != index[*chosen - 1])
            index[(*chosen)++] = index[i];
    return index;
}

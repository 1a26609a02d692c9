/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A score and its position. */
struct entry {
    float score;
    /* Position of the score in the input, and its rank among equal scores: the lowest is taken
     * first. */
    int32_t position, rank;
};

/* Compares two entries by score, highest first and NaNs last, then by rank, for qsort(). */
static int by_score(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (isnan(x->score) != isnan(y->score))
        return isnan(x->score) ? 1 : -1;
    if (!isnan(x->score) && x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* Compares two positions, for qsort(). */
static int by_position(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

int32_t ref_topk(const float *scores, int32_t n, int32_t k, bool later, int32_t *out)
{
    struct entry *entries = malloc((size_t)(n > 0 ? n : 1) * sizeof(*entries));
    int32_t count = 0;
    if (!entries)
        abort();
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &scores[i], sizeof(bits));
        if (bits != UINT32_MAX)
            entries[count++] = (struct entry){scores[i], i, later ? -i : i};
    }
    qsort(entries, (size_t)count, sizeof(*entries), by_score);
    count = count < k ? count : k;
    for (int32_t i = 0; i < count; i++)
        out[i] = entries[i].position;
    qsort(out, (size_t)count, sizeof(*out), by_position);
    free(entries);
    return count;
}

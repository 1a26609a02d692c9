/* SPDX-License-Identifier: Apache-2.0
 *
 * Edit distance between short names: insertions, deletions, substitutions and swaps of neighbours
 * (optimal string alignment).
 */
#include "compiler/nearest.h"

#include <string.h>

enum { LONGEST = 127 }; /* most bytes of a name; longer names match nothing */

/* Returns the lesser of two numbers. */
static size_t min(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the edit distance of `a`, `n` bytes, and `b`, `m` bytes. Three rows of the matrix
 * suffice, because a swap looks two rows back. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = min(min(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

struct attnc_nearest attnc_nearest_to(const char *wanted)
{
    /* Allows edits of a third of the letters, and at least one edit if the name has two letters or
     * more. */
    size_t length = strlen(wanted);
    size_t too_far = length < 2 || length > LONGEST ? 0 : length / 3 + (length < 3) + 1;
    return (struct attnc_nearest){.wanted = wanted, .distance = too_far};
}

void attnc_nearest_offer(struct attnc_nearest *n, const char *name)
{
    size_t length = strlen(name);
    if (n->distance == 0 || length > LONGEST)
        return;
    size_t d = distance(n->wanted, strlen(n->wanted), name, length);
    if (d < n->distance) {
        n->distance = d;
        n->name = name;
    }
}

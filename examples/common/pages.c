/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns pages and slots to sequences. */
#include "pages.h"

#include <math.h>
#include <stdlib.h>

#include "gpu.h"

int page_of(struct paging p, int sequence, int i)
{
    return (sequence * p.pages + i) * 7 % (p.batch * p.pages);
}

int64_t slot_of(struct paging p, int sequence, int token)
{
    return (int64_t)page_of(p, sequence, token / p.page) * p.page + token % p.page;
}

void fill_block_table(struct paging p, int32_t *table)
{
    for (int i = 0; i < p.batch * p.pages; i++)
        table[i] = page_of(p, i / p.pages, i % p.pages);
}

void fill_cos_sin(float *table, int positions, int dim, double base)
{
    for (int t = 0; t < positions; t++, table += dim) {
        for (int i = 0; i < dim / 2; i++) {
            const double angle = t * pow(base, -2.0 * i / dim);
            table[i] = (float)cos(angle);
            table[i + dim / 2] = (float)sin(angle);
        }
    }
}

void upload_paging(struct paging p, int32_t *block_table, float *cos_sin, int positions, int dim,
                   double base)
{
    const size_t entries = (size_t)p.batch * (size_t)p.pages * sizeof(int32_t);
    const size_t size = (size_t)positions * (size_t)dim * sizeof(float);
    int32_t *pages = malloc(entries);
    float *angles = malloc(size);
    if (!pages || !angles)
        exit(2);
    fill_block_table(p, pages);
    fill_cos_sin(angles, positions, dim, base);
    gpu_upload(block_table, pages, entries);
    gpu_upload(cos_sin, angles, size);
    free(pages);
    free(angles);
}

int pack_tokens(struct paging p, const int *lengths, const int *added, int32_t *ends,
                int64_t *positions, int64_t *slots)
{
    int n = 0;
    ends[0] = 0;
    for (int s = 0; s < p.batch; s++) {
        for (int i = 0; i < added[s]; i++, n++) {
            positions[n] = lengths[s] - added[s] + i;
            slots[n] = slot_of(p, s, (int)positions[n]);
        }
        ends[s + 1] = n;
    }
    return n;
}

int longest_of(struct paging p, const int *lengths)
{
    int longest = 0;
    for (int s = 0; s < p.batch; s++)
        longest = lengths[s] > longest ? lengths[s] : longest;
    return longest;
}

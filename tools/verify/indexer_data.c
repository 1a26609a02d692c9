/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/indexer_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = REF_INDEX_DIM, TILE = 16 };

int index_data_page(bool small_pages, unsigned choice)
{
    static const int pages[2][3] = {{64, 32, 256}, {16, 544, 48}};
    return pages[small_pages][choice % 3];
}

void *index_data_allocate(struct index_data *d, size_t count, size_t size)
{
    return d->call ? call_allocate(d->call, count, size) : verify_allocate(count, size);
}

/* A finite element of fp8, at most about 2, of either sign; or its magnitude. */
static uint8_t make_element(const struct index_data *d, uint64_t *random)
{
    for (;;) {
        const uint8_t bits = (uint8_t)random_bits(random);
        const double v = decode_element(d->fp8, bits);
        if (isfinite(v) && fabs(v) <= 2)
            return bits;
    }
}

static uint8_t with_sign(uint8_t bits, bool negative)
{
    const uint8_t magnitude = bits & 0x7f;
    return negative && magnitude ? magnitude | 0x80 : magnitude;
}

static void make_queries(struct index_data *d, uint64_t *random)
{
    const size_t rows = (size_t)(d->rows * d->heads), n = rows * DIM;
    d->q = index_data_allocate(d, n, sizeof(*d->q));
    d->q_bytes = index_data_allocate(d, n, 1);
    d->weights = index_data_allocate(d, rows, sizeof(*d->weights));
    for (size_t i = 0; i < n; i++) {
        uint8_t bits = make_element(d, random);
        if (d->kind == KEYS_NEGATIVE)
            bits = with_sign(bits, false);
        d->q_bytes[i] = bits;
        d->q[i] = decode_element(d->fp8, bits);
    }
    for (size_t i = 0; i < rows; i++)
        d->weights[i] = (float)random_value(random);
}

static float make_scale(const struct index_data *d, int key, uint64_t *random)
{
    const uint64_t bits = random_bits(random);
    switch (d->kind) {
    case KEYS_RISING: return 1e-3f * (float)(key + 1);
    case KEYS_FALLING: return 10.0f / (float)(key + 1);
    case KEYS_HUGE_RANGE:
        return (bits & 1 ? -1.0f : 1.0f) * powf(10.0f, (float)((bits >> 1) % 31) - 20.0f);
    case KEYS_NANS: return bits % 8 == 0 ? NAN : bits % 8 == 1 ? INFINITY : 0.5f;
    case KEYS_RANDOM: return (float)(1 + bits % 100) / 64.0f;
    default: return 0.25f;
    }
}

static uint8_t nan_of(const struct index_data *d)
{
    return isnan(decode_element(d->fp8, 0x80)) ? 0x80 : 0x7f;
}

/* The bytes of one key, and its class: its own number where no other is meant to be alike. */
static int make_key(const struct index_data *d, int key, uint8_t models[2][DIM], uint64_t *random,
                    uint8_t out[DIM])
{
    const uint64_t bits = random_bits(random);
    const int model = d->kind == KEYS_TWO ? bits % 3 == 0 : 0;
    const bool alike = d->kind == KEYS_EQUAL || d->kind == KEYS_TWO || d->kind == KEYS_RISING ||
                       d->kind == KEYS_FALLING;
    for (int i = 0; i < DIM; i++)
        out[i] = alike ? models[model][i] : make_element(d, random);
    for (int i = 0; d->kind == KEYS_NEGATIVE && i < DIM; i++)
        out[i] = with_sign(out[i], true);
    if (d->kind == KEYS_NANS && bits % 4 != 0)
        out[bits / 4 % DIM] = nan_of(d);
    if (d->kind == KEYS_NEGATIVE)
        return 0;
    return d->kind == KEYS_EQUAL || d->kind == KEYS_TWO ? model : key;
}

/* Where element e of token n of a page (or of the tensor) is. */
static size_t element_at(const struct index_data *d, int n, int e)
{
    if (!d->shuffle)
        return (size_t)n * DIM + (size_t)e;
    return (size_t)(n / TILE) * TILE * DIM +
           (size_t)(e / TILE * TILE * TILE + n % TILE * TILE + e % TILE);
}

static void make_sequence(struct index_data *d, int s, uint64_t *random)
{
    const int n = d->keys[s];
    uint8_t models[2][DIM], key[DIM];
    for (int i = 0; i < 2 * DIM; i++)
        models[i / DIM][i % DIM] = make_element(d, random);
    d->k[s] = index_data_allocate(d, (size_t)n * DIM + 1, sizeof(double));
    d->scales[s] = index_data_allocate(d, (size_t)n + 1, sizeof(float));
    d->classes[s] = index_data_allocate(d, (size_t)n + 1, sizeof(int));
    for (int i = 0; i < n; i++) {
        d->classes[s][i] = make_key(d, i, models, random, key);
        d->scales[s][i] = make_scale(d, i, random);
        uint8_t *page = d->image;
        int token = i;
        if (d->paged) {
            page +=
                (size_t)d->table[s * d->table_stride + i / d->page] * (d->page * INDEX_TOKEN_BYTES);
            token = i % d->page;
            memcpy(page + d->page * DIM + 4 * token, &d->scales[s][i], sizeof(float));
        }
        for (int e = 0; e < DIM; e++) {
            page[element_at(d, token, e)] = key[e];
            d->k[s][(size_t)i * DIM + (size_t)e] = decode_element(d->fp8, key[e]);
        }
    }
}

/* Pages in random order, all of NaNs at first. */
static void make_image(struct index_data *d, uint64_t *random)
{
    for (int s = 0; s < d->sequences; s++) {
        const int pages = (d->keys[s] + d->page - 1) / d->page;
        d->table_stride = pages + 1 > d->table_stride ? pages + 1 : d->table_stride;
    }
    d->pages = d->sequences * d->table_stride;
    d->table = index_data_allocate(d, (size_t)d->pages, sizeof(*d->table));
    for (int i = 0; i < d->pages; i++) {
        const int other = (int)(random_bits(random) % (unsigned)(i + 1));
        d->table[i] = d->table[other];
        d->table[other] = i;
    }
    d->image_bytes =
        d->paged ? (size_t)d->pages * d->page * INDEX_TOKEN_BYTES : (size_t)d->keys[0] * DIM + DIM;
    d->image = index_data_allocate(d, d->image_bytes, 1);
    memset(d->image, nan_of(d), d->image_bytes);
}

void index_data_make(struct index_data *d, uint64_t *random)
{
    const size_t n = (size_t)d->sequences;
    d->keys = index_data_allocate(d, n, sizeof(*d->keys));
    d->k = index_data_allocate(d, n, sizeof(*d->k));
    d->scales = index_data_allocate(d, n, sizeof(*d->scales));
    d->classes = index_data_allocate(d, n, sizeof(*d->classes));
    for (int r = 0; r < d->rows; r++) {
        int *const keys = &d->keys[d->row_sequences[r]];
        *keys = d->ends[r] > *keys ? d->ends[r] : *keys;
    }
    make_image(d, random);
    make_queries(d, random);
    for (int s = 0; s < d->sequences; s++)
        make_sequence(d, s, random);
}

void index_data_free(struct index_data *d)
{
    for (int s = 0; s < d->sequences; s++) {
        free(d->k[s]);
        free(d->scales[s]);
        free(d->classes[s]);
    }
    free(d->starts);
    free(d->ends);
    free(d->row_sequences);
    free(d->keys);
    free(d->q);
    free(d->weights);
    free(d->k);
    free(d->scales);
    free(d->classes);
    free(d->table);
    free(d->q_bytes);
    free(d->image);
}

/*
 * Products of fp8 are exact in single precision. With f = 2^-24: 128 of them are added, each time
 * with an error of at most 2 f (the matrix instruction may truncate) of what is there; so q . k is
 * off by 256 f of the sum of magnitudes. The maximum with 0 makes no error larger. Products with
 * weights are added by fma, at most heads / 4 + 8 times in all for a padded number of heads below
 * twice theirs, and at least 32: (heads / 4 + 16) f. The scale is one more rounding, and what is
 * subnormal may be lost at every step.
 */
struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound)
{
    static const double f = 0x1p-24;
    const int s = d->row_sequences[row];
    const struct ref_index_score r =
        ref_index_score(d->q + (size_t)row * (size_t)d->heads * DIM, d->weights + row * d->heads,
                        d->heads, d->k[s] + (size_t)n * DIM, d->scales[s][n]);
    *bound = 256 * f * r.products + (d->heads / 4 + 17) * f * (r.sums + 256 * f * r.products) +
             0x1p-126 * (1 + fabs(d->scales[s][n])) * d->heads * DIM;
    return r;
}

int32_t index_data_slot(const struct index_data *d, int row, int n)
{
    const int s = d->row_sequences[row];
    return d->table[s * d->table_stride + n / d->page] * d->page + n % d->page;
}

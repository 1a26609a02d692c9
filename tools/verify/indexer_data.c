/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/indexer_data.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify/paged.h"

/* Number of elements of a key; keys of a group in SHUFFLE pages. */
enum { DIM = REF_INDEX_DIM, TILE = 16 };

/* The first tensors of indexer_logits and of indexer_topk, in their order. */
enum { Q, WEIGHTS, KEYS, KEY_SCALES, ROW_STARTS, ROW_ENDS, BLOCK_TABLE, ROW_SEQUENCES };

static_assert(INDEXER_LOGITS_ROW_SEQUENCES - INDEXER_LOGITS_Q == ROW_SEQUENCES &&
                  INDEXER_TOPK_ROW_SEQUENCES - INDEXER_TOPK_Q == ROW_SEQUENCES &&
                  INDEXER_LOGITS_KEYS - INDEXER_LOGITS_Q == KEYS &&
                  INDEXER_TOPK_KEYS - INDEXER_TOPK_Q == KEYS,
              "the tensors of both ops come in one order");

/* Allocates zeroed memory that is freed with the call. */
static void *allocate(struct index_data *d, size_t count, size_t size)
{
    return call_allocate(d->call, count, size);
}

int index_data_page(bool small_pages, unsigned choice)
{
    static const int pages[2][3] = {{64, 32, 256}, {16, 544, 48}};
    return pages[small_pages][choice % 3];
}

struct index_data index_data_of(struct call *c, int heads, int rows,
                                const struct index_cache *cache, enum index_keys kind)
{
    const bool mxfp4 = cache->keys == ATTN_INDEX_KEYS_MXFP4;
    const bool fp16 = cache->keys == ATTN_INDEX_KEYS_FP16;
    const bool wide = fp16 || cache->keys == ATTN_INDEX_KEYS_BF16;
    const int key_bytes = mxfp4 ? DIM / 2 : wide ? 2 * DIM : DIM;
    const int scale_bytes = wide ? 0 : INDEX_SCALE_BYTES;
    struct index_data d = {
        .call = c,
        .fp8 = find_cache_precision(ATTN_FP8, c->target),
        .wide_elements = find_cache_precision(fp16 ? ATTN_FP16 : ATTN_BF16, c->target),
        .heads = heads,
        .rows = rows,
        .paged = cache->page > 0,
        .page = cache->page,
        .page_bytes = (cache->page * (key_bytes + scale_bytes) + 15) / 16 * 16,
        .shuffle = cache->layout == ATTN_KV_SHUFFLE,
        .mxfp4 = mxfp4,
        .wide = wide,
        .key_bytes = key_bytes,
        .scale_bytes = scale_bytes,
        .kind = kind,
    };
    d.starts = allocate(&d, (size_t)rows, sizeof(*d.starts));
    d.ends = allocate(&d, (size_t)rows, sizeof(*d.ends));
    d.row_sequences = allocate(&d, (size_t)rows, sizeof(*d.row_sequences));
    return d;
}

/* Returns a finite fp8 element of either sign, of magnitude `most` at most. Keys use the whole
   range, as quantised keys do. */
static uint8_t make_element(const struct index_data *d, double most, uint64_t *random)
{
    for (;;) {
        const uint8_t bits = (uint8_t)random_bits(random);
        const double v = decode_element(d->fp8, bits);
        if (isfinite(v) && fabs(v) <= most)
            return bits;
    }
}

/* Returns the bits of an fp8 element with the given sign; zeros stay positive. */
static uint8_t with_sign(uint8_t bits, bool negative)
{
    const uint8_t magnitude = bits & 0x7f;
    return negative && magnitude ? magnitude | 0x80 : magnitude;
}

/* Makes element i of q at random: its value, and for fp8 its byte. */
static void make_query(struct index_data *d, size_t i, uint64_t *random)
{
    if (d->wide) {
        const double value = random_value(random);
        d->q[i] = d->kind == KEYS_NEGATIVE ? fabs(value) : value;
        return;
    }
    uint8_t bits = make_element(d, 2, random);
    if (d->kind == KEYS_NEGATIVE)
        bits = with_sign(bits, false);
    d->q_bytes[i] = bits;
    d->q[i] = decode_element(d->fp8, bits);
}

/* Sets d->bounds[row] from the row's queries and weights. */
static void make_bounds(struct index_data *d, int row)
{
    struct index_row *const b = &d->bounds[row];
    for (int i = row * d->heads; i < (row + 1) * d->heads; i++) {
        double sum = 0;
        for (int e = 0; e < DIM; e++)
            sum += fabs(d->q[i * DIM + e]);
        b->most = fmax(b->most, sum);
        b->weights += fabs(d->weights[i]);
        b->largest = fmax(b->largest, fabs(d->weights[i]));
    }
}

/* Makes the queries and their weights. */
static void make_queries(struct index_data *d, uint64_t *random)
{
    const size_t rows = (size_t)(d->rows * d->heads), n = rows * DIM;
    d->q = allocate(d, n, sizeof(*d->q));
    d->q_bytes = allocate(d, n, 1);
    d->weights = allocate(d, rows, sizeof(*d->weights));
    for (size_t i = 0; i < n; i++)
        make_query(d, i, random);
    for (size_t i = 0; i < rows; i++)
        d->weights[i] = (float)random_value(random);
    d->bounds = allocate(d, (size_t)d->rows, sizeof(*d->bounds));
    for (int row = 0; row < d->rows; row++)
        make_bounds(d, row);
}

/* Returns the scale of a key, for the kind of keys in `d`. */
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

/* Returns the bits of an fp8 NaN. */
static uint8_t nan_of(const struct index_data *d)
{
    return isnan(decode_element(d->fp8, 0x80)) ? 0x80 : 0x7f;
}

/* True if keys of this kind are copies of one or two random keys, which are called models. */
static bool are_alike(enum index_keys kind)
{
    return kind == KEYS_EQUAL || kind == KEYS_TWO || kind == KEYS_RISING || kind == KEYS_FALLING;
}

/* Makes the bytes of a key. Returns the key's class, a number that equal keys share; a unique key
 * has its own index. */
static int make_key(const struct index_data *d, int key, uint8_t models[2][DIM], uint64_t *random,
                    uint8_t out[DIM])
{
    const uint64_t bits = random_bits(random);
    const int model = d->kind == KEYS_TWO ? bits % 3 == 0 : 0;
    const bool alike = are_alike(d->kind);
    for (int i = 0; i < DIM; i++)
        out[i] = alike ? models[model][i] : make_element(d, d->fp8->limit, random);
    for (int i = 0; d->kind == KEYS_NEGATIVE && i < DIM; i++)
        out[i] = with_sign(out[i], true);
    if (d->kind == KEYS_NANS && bits % 4 != 0)
        out[bits / 4 % DIM] = nan_of(d);
    if (d->kind == KEYS_NEGATIVE)
        return 0;
    return d->kind == KEYS_EQUAL || d->kind == KEYS_TWO ? model : key;
}

/* The functions from here on make keys of 16 bits. */

/* Returns the bits of v as a 16-bit number, truncated toward 0. In fp16 a magnitude below 2^-14
 * becomes 0, and a finite magnitude of 65,536 or more becomes the largest number. */
static uint16_t cut_to_16_bits(const struct index_data *d, float v)
{
    enum { LARGEST = 0x7bff, INFINITE = 0x7c00, NOT_A_NUMBER = 0x7e00, SIGN = 0x8000 };
    if (d->wide_elements->dtype == ATTN_BF16)
        return encode_element(d->wide_elements, (double)v);
    if (isnan(v))
        return NOT_A_NUMBER;
    if (fabsf(v) >= 65536.0f)
        return (uint16_t)((signbit(v) ? SIGN : 0) | (isinf(v) ? INFINITE : LARGEST));
    return encode_element(d->wide_elements, fabsf(v) < 0x1p-14f ? 0 : (double)v);
}

/* Makes the 256 bytes of a 16-bit key and the values of its elements. They are a model's or random
 * elements, times a scale, truncated to 16 bits. A kernel scores an infinity as a NaN. Returns the
 * key's class. */
static int make_wide_key(const struct index_data *d, int key, uint8_t models[2][DIM],
                         uint64_t *random, uint8_t out[2 * DIM], double value[DIM])
{
    const int model = d->kind == KEYS_TWO ? random_bits(random) % 3 == 0 : 0;
    const float scale = make_scale(d, key, random);
    for (int i = 0; i < DIM; i++) {
        const double model_value = decode_element(d->fp8, models[model][i]) / 64;
        const double own = are_alike(d->kind) ? model_value : random_value(random);
        const float v = scale * (float)(d->kind == KEYS_NEGATIVE ? -fabs(own) : own);
        const uint16_t bits = cut_to_16_bits(d, v);
        out[2 * i] = (uint8_t)bits;
        out[2 * i + 1] = (uint8_t)(bits >> 8);
        value[i] = decode_element(d->wide_elements, bits);
        if (!isfinite(value[i]))
            value[i] = NAN;
    }
    if (d->kind == KEYS_NEGATIVE)
        return 0;
    return d->kind == KEYS_EQUAL || d->kind == KEYS_TWO ? model : key;
}

/* The functions from here on make keys in mxfp4. */

/* Makes the e8m0 scales of a key's blocks. */
static void make_block_scales(const struct index_data *d, int key, uint64_t *random,
                              uint8_t out[INDEX_SCALE_BYTES])
{
    enum { NAN_SCALE = 255, ONE = 127, KEYS_OF_A_SCALE = 256 };
    const uint64_t bits = random_bits(random);
    for (int i = 0; i < INDEX_SCALE_BYTES; i++) {
        const unsigned own = bits >> (8 * i) & 255;
        switch (d->kind) {
        case KEYS_RISING: out[i] = (uint8_t)(ONE - 30 + key / KEYS_OF_A_SCALE % 64); break;
        case KEYS_FALLING: out[i] = (uint8_t)(ONE + 30 - key / KEYS_OF_A_SCALE % 64); break;
        case KEYS_HUGE_RANGE: out[i] = (uint8_t)(ONE - 66 + own % 100); break;
        case KEYS_NANS: out[i] = own % 8 == 0 ? NAN_SCALE : ONE; break;
        case KEYS_RANDOM: out[i] = (uint8_t)(ONE - 4 + own % 6); break;
        default: out[i] = ONE - 2; break;
        }
    }
    /* The scale of a zero key is 2^-127. */
    for (int i = 0; d->kind == KEYS_RANDOM && bits >> 60 == 0 && i < INDEX_SCALE_BYTES; i++)
        out[i] = 0;
}

/* Makes the 64 bytes of an mxfp4 key, its scales, and the values of its elements. Returns the key's
 * class. */
static int make_mxfp4_key(const struct index_data *d, int key, uint8_t models[2][DIM],
                          uint64_t *random, uint8_t out[DIM], uint8_t scales[INDEX_SCALE_BYTES],
                          double value[DIM])
{
    const uint64_t bits = random_bits(random);
    const int model = d->kind == KEYS_TWO ? bits % 3 == 0 : 0;
    const bool alike = are_alike(d->kind);
    make_block_scales(d, key, random, scales);
    for (int i = 0; i < d->key_bytes; i++) {
        out[i] = alike ? models[model][i] : (uint8_t)random_bits(random);
        if (d->kind == KEYS_NEGATIVE)
            out[i] |= 0x88;
        for (int half = 0; half < 2; half++) {
            const int e = 2 * i + half;
            value[e] = ref_e2m1_value(out[i] >> (4 * half) & 15) *
                       ref_e8m0_value(scales[e / REF_MX_BLOCK]);
        }
    }
    if (d->kind == KEYS_NEGATIVE)
        return 0;
    return d->kind == KEYS_EQUAL || d->kind == KEYS_TWO ? model : key;
}

/* The functions from here on make the cache of keys. */

/* Returns the offset, in bytes, of byte e of the key of token n, in a page or in a tensor without
 * pages. */
static size_t element_at(const struct index_data *d, int n, int e)
{
    if (!d->shuffle)
        return (size_t)(n * d->key_bytes) + (size_t)e;
    return (size_t)(n / TILE * TILE * d->key_bytes) +
           (size_t)(e / TILE * TILE * TILE + n % TILE * TILE + e % TILE);
}

/* Makes the bytes of key i of sequence s, the bytes of its scales, and its values. Returns the
 * key's class. */
static int make_values(struct index_data *d, int s, int i, uint8_t models[2][DIM], uint64_t *random,
                       uint8_t key[2 * DIM], uint8_t scale[INDEX_SCALE_BYTES])
{
    double *const value = d->k[s] + (size_t)i * DIM;
    d->scales[s][i] = 1;
    if (d->wide)
        return make_wide_key(d, i, models, random, key, value);
    if (d->mxfp4)
        return make_mxfp4_key(d, i, models, random, key, scale, value);
    const int class = make_key(d, i, models, random, key);
    d->scales[s][i] = make_scale(d, i, random);
    memcpy(scale, &d->scales[s][i], INDEX_SCALE_BYTES);
    for (int e = 0; e < DIM; e++)
        value[e] = decode_element(d->fp8, key[e]);
    return class;
}

/* Makes the keys and scales of sequence `s`. */
static void make_sequence(struct index_data *d, int s, uint64_t *random)
{
    const int n = d->keys[s];
    uint8_t models[2][DIM], key[2 * DIM], scale[INDEX_SCALE_BYTES];
    for (int i = 0; i < 2 * DIM; i++)
        models[i / DIM][i % DIM] =
            d->mxfp4 ? (uint8_t)random_bits(random) : make_element(d, d->fp8->limit, random);
    d->k[s] = allocate(d, (size_t)n * DIM + 1, sizeof(double));
    d->scales[s] = allocate(d, (size_t)n + 1, sizeof(float));
    d->classes[s] = allocate(d, (size_t)n + 1, sizeof(int));
    for (int i = 0; i < n; i++) {
        d->classes[s][i] = make_values(d, s, i, models, random, key, scale);
        uint8_t *page = d->image;
        int token = i;
        if (d->paged) {
            page += (size_t)d->table[s * d->table_stride + i / d->page] * d->page_bytes;
            token = i % d->page;
            memcpy(page + d->page * d->key_bytes + d->scale_bytes * token, scale,
                   (size_t)d->scale_bytes);
        }
        for (int e = 0; e < d->key_bytes; e++)
            page[element_at(d, token, e)] = key[e];
    }
}

/* Returns the number of pages of sequence `s`; 0 if keys have no pages. The sequence has one more
 * page than its keys need, which no row sees, except in a trace. */
static int pages_of(const struct index_data *d, int s)
{
    const int unused = d->call->traced ? 0 : 1;
    return d->paged ? (d->keys[s] + d->page - 1) / d->page + unused : 0;
}

/* Sets the page table: each sequence gets the next numbers of `order`, a permutation of all page
 * numbers. NULL: numbers are ascending. */
static void number_pages(struct index_data *d, const int32_t *order)
{
    int next = 0;
    for (int s = 0; s < d->sequences; s++) {
        for (int i = 0; i < pages_of(d, s); i++, next++)
            d->table[s * d->table_stride + i] = order ? order[next] : next;
    }
}

/* Makes the contents of the cache: pages in random order, with NaNs except for keys. A trace has
 * consecutive pages and no contents here. */
static void make_image(struct index_data *d, uint64_t *random)
{
    int pages = 0;
    for (int s = 0; s < d->sequences; s++) {
        pages += pages_of(d, s);
        d->table_stride = pages_of(d, s) > d->table_stride ? pages_of(d, s) : d->table_stride;
    }
    d->table = allocate(d, (size_t)d->sequences * (size_t)d->table_stride, sizeof(*d->table));
    int32_t *const order = d->call->traced ? NULL : shuffled_pages(pages, random);
    number_pages(d, order);
    free(order);
    d->image_bytes = d->paged ? (size_t)pages * (size_t)d->page_bytes
                              : (size_t)((d->keys[0] + 1) * d->key_bytes);
    if (d->call->traced)
        return;
    d->image = allocate(d, d->image_bytes, 1);
    memset(d->image, d->mxfp4 || d->wide ? UINT8_MAX : nan_of(d), d->image_bytes);
}

void index_data_make(struct index_data *d)
{
    uint64_t *const random = &d->call->random;
    const size_t n = (size_t)d->sequences;
    d->keys = allocate(d, n, sizeof(*d->keys));
    d->k = allocate(d, n, sizeof(*d->k));
    d->scales = allocate(d, n, sizeof(*d->scales));
    d->classes = allocate(d, n, sizeof(*d->classes));
    for (int r = 0; r < d->rows; r++) {
        int *const keys = &d->keys[d->row_sequences[r]];
        *keys = d->ends[r] > *keys ? d->ends[r] : *keys;
    }
    make_image(d, random);
    make_queries(d, random);
    for (int s = 0; s < d->sequences && d->image; s++)
        make_sequence(d, s, random);
}

void index_data_place(const struct index_data *d, struct operand *q)
{
    operand_resize(&q[KEYS], 0, (int64_t)d->image_bytes);
    operand_resize(&q[KEY_SCALES], 0, d->keys[0]);
    operand_resize(&q[BLOCK_TABLE], 0, d->sequences);
    operand_resize(&q[BLOCK_TABLE], 1, d->table_stride);
    if (!d->has_starts)
        operand_leave_out(&q[ROW_STARTS]);
    if (d->paged || d->wide)
        operand_leave_out(&q[KEY_SCALES]);
    if (d->paged)
        return;
    operand_leave_out(&q[BLOCK_TABLE]);
    operand_leave_out(&q[ROW_SEQUENCES]);
}

/* Fills the table of pages. Entries of pages that no row sees are far outside the cache. */
static void fill_table(const struct index_data *d, struct operand *table)
{
    for (int i = 0; i < d->sequences * d->table_stride; i++)
        operand_set_int(table, AT(i / d->table_stride, i % d->table_stride), INT32_MAX);
    for (int r = 0; r < d->rows; r++) {
        const int s = d->row_sequences[r];
        for (int i = d->starts[r] / d->page; i * d->page < d->ends[r]; i++)
            operand_set_int(table, AT(s, i), d->table[s * d->table_stride + i]);
    }
}

/* Fills the keys and their scales. */
static void fill_keys(const struct index_data *d, struct operand *q)
{
    if (d->image)
        memcpy(q[KEYS].image, d->image, d->image_bytes);
    else
        operand_set_table(&q[KEYS], 1, &d->call->random);
    q[KEYS].filled = true;
    for (int i = 0; q[KEY_SCALES].given && i < d->keys[0]; i++)
        operand_set(&q[KEY_SCALES], AT(i), d->image ? d->scales[0][i] : 1);
    if (q[BLOCK_TABLE].given)
        fill_table(d, &q[BLOCK_TABLE]);
}

/* Sets the element `at` of operand q to element i of d->q. */
static void set_query(const struct index_data *d, struct operand *q, const int64_t at[], int i)
{
    if (d->wide)
        operand_set(q, at, d->q[i]);
    else
        operand_set_int(q, at, d->q_bytes[i]);
}

void index_data_fill(const struct index_data *d, struct operand *q)
{
    for (int r = 0; r < d->rows; r++) {
        for (int h = 0; h < d->heads; h++) {
            const int at = r * d->heads + h;
            operand_set(&q[WEIGHTS], AT(r, h), d->weights[at]);
            for (int e = 0; e < DIM; e++)
                set_query(d, &q[Q], AT(r, h, e), at * DIM + e);
        }
    }
    for (int r = 0; d->has_starts && r < d->rows; r++) { /* a negative start means 0 */
        const int below = r == 1 ? INT32_MIN : -1 - 70 * r;
        operand_set_int(&q[ROW_STARTS], AT(r), d->starts[r] ? d->starts[r] : below);
    }
    operand_set_ints(&q[ROW_ENDS], d->ends, d->rows);
    operand_set_ints(&q[ROW_SEQUENCES], d->row_sequences, d->rows);
    fill_keys(d, q);
}

double index_data_bytes(const struct index_data *d)
{
    double keys = 0;
    for (int s = 0; s < d->sequences; s++)
        keys += d->keys[s];
    const int q_bytes = d->wide ? 2 * DIM : DIM;
    return keys * (d->key_bytes + d->scale_bytes) + (double)d->rows * d->heads * (q_bytes + 4);
}

/*
 * Returns a bound of the error of a score. Products of fp8 or of 16 bits are exact in float32. So
 * are products with e2m1, and with the scales of mxfp4, which are powers of two. With f = 2^-24,
 * each of 128 additions has an error of at most 2 f, since the matrix instruction may truncate. So
 * q . k has an error of 256 f of the sum of magnitudes. The maximum with 0 increases no error.
 * Products with weights are added by at most heads / 4 + 8 fma instructions: (heads / 4 + 16) f.
 * Heads are padded to less than twice their number, and to at least 32. The scale is one more
 * rounding. Every step may lose subnormal numbers.
 */
static double sum_bound(const struct index_data *d, const struct ref_index_score *r)
{
    static const double f = 0x1p-24;
    return 256 * f * r->products + (d->heads / 4 + 17) * f * (r->sums + 256 * f * r->products);
}

/* Returns t of pair_bound(): the power of two above the largest sum of |q| of a head times 448. */
static double product_limit(const struct index_row *b)
{
    const double most = 448 * b->most;
    return most < 1 ? 2 : ldexp(1, ilogb(most) + 1);
}

/*
 * Returns a bound of the error of a score in a kernel that multiplies in pairs of f16. Products are
 * less than t and become f16 in units of t. Their error is 2^-11 of the product, or 2^-14 t for
 * subnormal numbers, which the sum flushes to 0. Weights become f16 in units of 2^-14 of the
 * largest weight or less. Their error is 2^-11 of the weight, or 2^-28 of the largest weight. An
 * instruction adds two products with three roundings. There are at most as many such instructions
 * as fma instructions in sum_bound().
 */
static double pair_bound(const struct index_data *d, int row, double scale,
                         const struct ref_index_score *r)
{
    static const double f = 0x1p-24, half = 0x1p-11;
    const struct index_row *const b = &d->bounds[row];
    const double t = product_limit(b) * fabs(scale);
    const double sums = r->sums + 256 * f * r->products;
    const double product = 256 * f * r->products + half * sums + 0x1p-14 * t * b->weights;
    const double weight = half * (sums + product) + 0x1p-28 * b->largest * d->heads * t;
    return product + weight + 3 * (d->heads / 4 + 17) * f * (sums + product + weight);
}

/* Returns a bound of the error of a score whose key has this scale. */
static double error_bound(const struct index_data *d, int row, double scale,
                          const struct ref_index_score *r)
{
    return (d->pairs ? pair_bound(d, row, scale, r) : sum_bound(d, r)) +
           0x1p-126 * (1 + fabs(scale)) * d->heads * DIM;
}

struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound)
{
    const int s = d->row_sequences[row];
    const double scale = d->scales[s][n];
    const double *const q = d->q + (size_t)row * (size_t)d->heads * DIM;
    const double *const k = d->k[s] + (size_t)n * DIM;
    const float *const weights = d->weights + row * d->heads;
    const struct ref_index_score r = ref_index_score(q, weights, d->heads, d->all_signs, k, scale);
    *bound = error_bound(d, row, scale, &r);
    if (!isinf(scale))
        return r;
    const struct ref_index_score sum = ref_index_score(q, weights, d->heads, d->all_signs, k, 1);
    *bound = fabs(sum.score) <= error_bound(d, row, 1, &sum) ? INFINITY : 0;
    return r;
}

int32_t index_data_slot(const struct index_data *d, int row, int n)
{
    const int s = d->row_sequences[row];
    return d->table[s * d->table_stride + n / d->page] * d->page + n % d->page;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements paged caches of a call: where the elements and scales of a token are, their
 * values, and the lists of pages. */
#include "tools/verify/paged.h"
#include "tools/verify/pooled_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of unused pages; distance of pages that no query sees beyond the cache; rotated elements
 * of a packed row. */
enum { SPARE = 3, FAR_BEHIND = 1 << 20, PACKED_ROTATED = 64 };

/* Returns the operand of a part's elements, or with `scale` of its scales. `first` is the number of
 * the cache's first operand. */
static struct operand *operand_of(struct call *c, unsigned first, enum cache_part part, bool scale)
{
    return call_operand(c, first + part + (scale ? CACHE_PARTS : 0));
}

/* True if pages have a SHUFFLE layout, in which keys, or keys and values, are in groups of 16
 * bytes. */
static bool is_shuffled(const struct attn_cache_desc *d)
{
    return d->layout == ATTN_KV_SHUFFLE || d->layout == ATTN_KV_SHUFFLE_K;
}

/* True if rows are latent rows of 656 bytes, which contain their scales. */
static bool is_packed(const struct paged *p) { return p->desc.layout == ATTN_KV_PACKED; }

/* True if rows are 576 bytes of two element types, and a page ends with the scales of its rows. */
static bool is_mixed(const struct paged *p) { return p->desc.layout == ATTN_KV_SCALES_LAST; }

/* True if fp8 elements and rotated 16-bit elements of a row are in two tensors. */
static bool is_planes(const struct paged *p) { return p->desc.layout == ATTN_KV_PLANES; }

/* Returns the number with these bits: struct ref_cache.decode. `type` is a struct precision. */
static double decode(const void *type, uint32_t bits)
{
    return decode_element(type, (uint16_t)bits);
}

/* Returns the format of rows of 512 elements that end with their scales; NULL for other layouts. */
static const struct ref_pooled_row *row_of(const struct paged *p)
{
    return paged_row(p->desc.layout);
}

/* True if rows have 448 elements of fp8 with a scale for each 64, and 64 elements of 16 bits. */
static bool has_runs_of_64(const struct paged *p) { return is_mixed(p) || is_planes(p); }

/* Returns `p` with the sizes and element types of packed rows. `first` is the number of the cache's
 * first operand. The dtype is read from cache_write's descriptor, since every op's descriptor
 * begins with its size and its dtype. With `latent` a row is key and value. */
static struct paged packed_of(struct call *c, unsigned first, bool latent, struct paged p)
{
    struct operand *rows = call_operand(c, first);
    p.rotated = find_cache_precision(c->desc.cache_write.dtype, c->target);
    p.parts = row_of(&p) && latent ? 1 : CACHE_PARTS;
    p.kv_heads = 1;
    p.page_count = (int)rows->dims[0];
    p.dim[CACHE_K] =
        has_runs_of_64(&p) || (row_of(&p) && !latent) ? REF_MIXED_FP8 : REF_PACKED_LATENT;
    p.dim[CACHE_V] = PACKED_ROTATED;
    for (int part = 0; part < CACHE_PARTS; part++) {
        p.elements[part] = is_planes(&p) ? operand_of(c, first, part, false) : rows;
        /* the call has no tensor of scales, so this operand is left out */
        p.scales[part] = operand_of(c, first, CACHE_K, true);
    }
    return p;
}

struct paged paged_of(struct call *c, unsigned first, const struct attn_cache_desc *desc,
                      bool latent)
{
    const bool nhd = !is_shuffled(desc), columns = desc->layout == ATTN_KV_SHUFFLE_K;
    struct paged p = {
        .desc = *desc,
        .precision = find_cache_precision(desc->dtype, c->target),
        .parts = latent ? 1 : CACHE_PARTS,
    };
    if (paged_has_rows(desc))
        return packed_of(c, first, latent, p);
    for (int part = 0; part < p.parts; part++) {
        struct operand *o = operand_of(c, first, part, false);
        p.elements[part] = o;
        p.scales[part] = operand_of(c, first, part, true);
        p.page_count = (int)o->dims[0];
        p.kv_heads = (int)o->dims[nhd ? 2 : 1];
        p.dim[part] = (int)(nhd               ? o->dims[3]
                            : part == CACHE_V ? o->dims[columns ? 2 : 3]
                                              : o->dims[2] * o->dims[4]);
    }
    return p;
}

void paged_spread(struct call *c, unsigned first, int64_t bytes)
{
    for (unsigned i = 0; i < CACHE_PARTS; i++) {
        struct operand *o = call_operand(c, first + i);
        if (!o->given) /* a latent cache has no values of its own */
            return;
        operand_set_stride(o, 0, bytes / o->size);
        o->far = true;
    }
}

void paged_share_scales(struct call *c, unsigned first, const struct attn_cache_desc *desc)
{
    if (desc->scale != ATTN_KV_SCALE_HEAD)
        return;
    int64_t *const stride = operand_of(c, first, CACHE_K, true)->schema.strides[0];
    for (unsigned i = 0; i < c->count; i++)
        if (c->operands[i].schema.free && c->operands[i].schema.strides[0] == stride)
            operand_set_stride(&c->operands[i], 0, 0);
}

void paged_leave_out(struct call *c, unsigned first)
{
    for (unsigned i = 0; i < 2 * CACHE_PARTS; i++)
        operand_leave_out(call_operand(c, first + i));
}

/* Returns the indices of an element. NHD: [page, token, head, d]. SHUFFLE, with x elements in 16
 * bytes: K [page, head, d / x, token, d % x], V [page, head, token / x, d, token % x]. SHUFFLE_K: V
 * [page, head, d, token]. */
static const int64_t *element_at(const struct paged *p, enum cache_part part, struct slot s, int d,
                                 int64_t at[])
{
    const int x = 16 / p->precision->size;
    const int row = part == CACHE_V ? REF_PACKED_LATENT + d : d;
    const int mixed = part == CACHE_V ? REF_MIXED_FP8 + d : d;
    const int64_t *from = p->desc.layout == ATTN_KV_NHD ? AT(s.page, s.token, s.head, d)
                          : is_mixed(p)     ? AT(s.page, ref_mixed_element(s.token, mixed))
                          : row_of(p)       ? AT(s.page, s.token, 0, mixed * row_of(p)->bits / 8)
                          : is_planes(p)    ? AT(s.page, s.token, 0, part == CACHE_V ? 2 * d : d)
                          : is_packed(p)    ? AT(s.page, s.token, 0, ref_packed_element(row))
                          : part == CACHE_K ? AT(s.page, s.head, d / x, s.token, d % x)
                          : p->desc.layout == ATTN_KV_SHUFFLE
                              ? AT(s.page, s.head, s.token / x, d, s.token % x)
                              : AT(s.page, s.head, d, s.token);
    return memcpy(at, from, ATTN_DIMENSIONS_MAX * sizeof(*at));
}

bool paged_has_rows(const struct attn_cache_desc *desc)
{
    return desc->layout == ATTN_KV_PACKED || desc->layout == ATTN_KV_SCALES_LAST ||
           desc->layout == ATTN_KV_PLANES || paged_row(desc->layout);
}

/* True if the elements of the cache's tensors are bytes: see paged_has_rows(). */
static bool has_rows(const struct paged *p) { return paged_has_rows(&p->desc); }

/* Returns the number of the index, among element_at()'s, that counts the bytes of packed rows. */
static int byte_axis(const struct paged *p) { return is_mixed(p) ? 1 : 3; }

/* Sets `at` to the indices of byte `first` of a slot's packed row, and returns `at`. With layout
 * SCALES_LAST `first` counts from the beginning of the slot's page. */
static const int64_t *byte_at(const struct paged *p, struct slot s, int64_t first, int64_t at[])
{
    const int64_t row[ATTN_DIMENSIONS_MAX] = {s.page, s.token, 0, first};
    const int64_t page[ATTN_DIMENSIONS_MAX] = {s.page, first};
    return memcpy(at, is_mixed(p) ? page : row, sizeof(row));
}

/* Returns `bytes` bytes of a slot's row from byte `first` on, as a little-endian integer. `of`
 * reads a byte of the tensor. */
static uint32_t row_bits(const struct paged *p, enum cache_part part, struct slot s, int64_t first,
                         int bytes, uint32_t (*of)(const struct operand *, const int64_t *))
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    uint32_t bits = 0;
    for (int i = 0; i < bytes; i++)
        bits |= of(p->elements[part], byte_at(p, s, first + i, at)) << 8 * i;
    return bits;
}

/* Writes `bytes` bytes of a slot's row from byte `first` on, little-endian. */
static void set_row_bits(struct paged *p, enum cache_part part, struct slot s, int64_t first,
                         int bytes, uint32_t bits)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    for (int i = 0; i < bytes; i++)
        operand_set_bits(p->elements[part], byte_at(p, s, first + i, at), bits >> 8 * i & 0xff);
}

/* Returns the type of a packed row's scales: e8m0 in rows with runs of 64, else the
 * descriptor's. */
static enum ref_scale scale_kind(const struct paged *p)
{
    return has_runs_of_64(p) ? REF_SCALE_E8M0 : (enum ref_scale)p->desc.scale;
}

int packed_run(const struct paged *p)
{
    return row_of(p)           ? row_of(p)->run
           : has_runs_of_64(p) ? REF_MIXED_RUN
                               : ref_packed_run(scale_kind(p));
}

/* Returns the index of the byte, in byte_at()'s count, at which the scale of element d begins. */
static int64_t scale_byte(const struct paged *p, struct slot s, int d)
{
    return is_mixed(p)    ? ref_mixed_scale(p->desc.page_size, s.token, d)
           : is_planes(p) ? ref_plane_scale(d)
           : row_of(p)    ? row_of(p)->scales + d / row_of(p)->run
                          : ref_packed_scale(scale_kind(p), d);
}

/* Returns the number of adjacent bytes of a row that each repeat a scale. */
static int scale_copies(const struct paged *p) { return is_planes(p) ? 2 : 1; }

/* Returns the scale of element d of a packed row. `of` reads a byte, before or after the launch. */
static double scale_value(const struct paged *p, struct slot s, int d,
                          uint32_t (*of)(const struct operand *, const int64_t *))
{
    const enum ref_scale kind = scale_kind(p);
    return ref_packed_decode(
        kind, row_bits(p, CACHE_K, s, scale_byte(p, s, d), ref_packed_scale_size(kind), of));
}

double packed_result_scale(const struct paged *p, struct slot s, int d)
{
    return scale_value(p, s, d, operand_result_bits);
}

void packed_compare_scale(struct call *c, struct paged *p, struct slot s, int d, double largest,
                          double off)
{
    const enum ref_scale kind = scale_kind(p);
    const double got = packed_result_scale(p, s, d), limit = p->precision->limit;
    const double least_scale = has_runs_of_64(p) ? 1e-4 : 1e-12;
    const double least = fmax((largest - off) / limit, least_scale),
                 most = fmax((largest + off) / limit, least_scale);
    int64_t at[ATTN_DIMENSIONS_MAX];
    int exponent;
    for (int i = 0; i < scale_copies(p) * ref_packed_scale_size(kind); i++)
        operand_allow(p->elements[CACHE_K], byte_at(p, s, scale_byte(p, s, d) + i, at));
    const bool same = scale_copies(p) == 1 ||
                      row_bits(p, CACHE_K, s, scale_byte(p, s, d), 1, operand_result_bits) ==
                          row_bits(p, CACHE_K, s, scale_byte(p, s, d) + 1, 1, operand_result_bits);
    const bool right = kind == REF_SCALE_E8M0
                           ? frexp(got, &exponent) == 0.5 && got >= least && got < 2 * most
                           : fabs(got * limit - largest) <= off;
    if (!right || !same)
        verify_fail(c->row, "the scale of elements %d.. of page %lld, token %d is %g, expected %g",
                    d, (long long)s.page, s.token, got, largest / limit);
}

/* True if the rows of a part contain scales of its elements. */
static bool has_scales(const struct paged *p, enum cache_part part)
{
    return has_rows(p) && (part == CACHE_K || row_of(p));
}

/* True if an element of a part has two bytes in a tensor of bytes. Writes of both are then allowed
 * together. */
static bool has_two_bytes(const struct paged *p, enum cache_part part)
{
    return has_rows(p) && part == CACHE_V && !row_of(p);
}

/* Returns the type of a part's elements. Rotated elements may have another type. */
static const struct precision *precision_of(const struct paged *p, enum cache_part part)
{
    return has_two_bytes(p, part) ? p->rotated : p->precision;
}

/* Returns the indices of a scale: [1], [page, head, token], [page, head] or [sequence, head]. */
static const int64_t *scale_at(const struct paged *p, struct slot s, int64_t at[])
{
    const int64_t one[ATTN_DIMENSIONS_MAX] = {0};
    const int64_t of_page[ATTN_DIMENSIONS_MAX] = {s.page, s.head, s.token};
    const int64_t of_sequence[ATTN_DIMENSIONS_MAX] = {s.sequence, s.head};
    const int64_t *from = p->desc.scale <= ATTN_KV_SCALE_TENSOR ? one
                          : p->desc.scale == ATTN_KV_SCALE_HEAD ? of_sequence
                                                                : of_page;
    return memcpy(at, from, sizeof(one));
}

struct ref_cache paged_reference(const struct paged *p, enum cache_part part, int dim)
{
    const struct operand *o = p->elements[part], *scale = p->scales[part];
    const bool shuffle = is_shuffled(&p->desc);
    return (struct ref_cache){
        .shuffle = shuffle,
        .columns = p->desc.layout == ATTN_KV_SHUFFLE_K,
        .transposed = part == CACHE_V,
        .packed = p->desc.layout == ATTN_KV_PACKED,
        .scales_last = is_mixed(p),
        .planes = is_planes(p),
        .row = row_of(p),
        .plane = p->elements[CACHE_V] ? p->elements[CACHE_V]->image : NULL,
        .plane_page_stride = p->elements[CACHE_V] ? p->elements[CACHE_V]->strides[0] : 0,
        .plane_token_stride = p->elements[CACHE_V] ? p->elements[CACHE_V]->strides[1] : 0,
        .page_size = p->desc.page_size,
        .dim = dim,
        .element_size = p->precision->size,
        .page_stride = o->strides[0],
        .token_stride = shuffle ? 0 : o->strides[1],
        .head_stride = o->strides[shuffle ? 1 : 2],
        .elements = o->image,
        .decode = decode,
        .type = p->precision,
        .rotated = p->rotated,
        .scale = (enum ref_scale)p->desc.scale,
        .scales = (const float *)scale->image,
        .scale_page_stride = scale->strides[0],
        .scale_head_stride = scale->strides[1],
    };
}

uint32_t paged_bits(const struct paged *p, enum cache_part part, struct slot s, int d)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    element_at(p, part, s, d, at);
    return has_two_bytes(p, part) ? row_bits(p, part, s, at[byte_axis(p)], 2, operand_bits)
                                  : operand_bits(p->elements[part], at);
}

uint32_t paged_result_bits(const struct paged *p, enum cache_part part, struct slot s, int d)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    element_at(p, part, s, d, at);
    return has_two_bytes(p, part) ? row_bits(p, part, s, at[byte_axis(p)], 2, operand_result_bits)
                                  : operand_result_bits(p->elements[part], at);
}

/* Sets the bits of an element before the launch. For e2m1, which has two elements in a byte, an
 * even d sets the other element to 0. */
static void set_bits(struct paged *p, enum cache_part part, struct slot s, int d, uint32_t bits)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    element_at(p, part, s, d, at);
    if (row_of(p) && row_of(p)->bits == 4) {
        const uint32_t old = d % 2 ? operand_bits(p->elements[part], at) & 15 : 0;
        operand_set_bits(p->elements[part], at, old | (bits & 15) << 4 * (d % 2));
    } else if (has_two_bytes(p, part))
        set_row_bits(p, part, s, at[byte_axis(p)], 2, bits);
    else
        operand_set_bits(p->elements[part], at, bits);
}

double paged_scale(const struct paged *p, enum cache_part part, struct slot s)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    return p->scales[part]->given ? operand_value(p->scales[part], scale_at(p, s, at)) : 1;
}

double paged_result_scale(const struct paged *p, enum cache_part part, struct slot s)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    return p->scales[part]->given ? operand_result(p->scales[part], scale_at(p, s, at)) : 1;
}

/* Sets the scale of a slot before the launch. */
static void set_scale(struct paged *p, enum cache_part part, struct slot s, double scale)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    operand_set(p->scales[part], scale_at(p, s, at), scale);
}

int paged_shared_scales(const struct paged *p)
{
    const bool shared =
        p->desc.scale == ATTN_KV_SCALE_TENSOR || p->desc.scale == ATTN_KV_SCALE_HEAD;
    return shared ? (int)operand_count(p->scales[CACHE_K]) : 0;
}

/* Returns a slot whose scale is the shared scale number i. */
static struct slot shared_slot(const struct paged *p, int i)
{
    return (struct slot){.head = i % p->kv_heads, .sequence = i / p->kv_heads};
}

void paged_set_shared_scale(struct paged *p, enum cache_part part, int i, double scale)
{
    set_scale(p, part, shared_slot(p, i), scale);
}

/* Returns the column of an element of `part` in a row that ends with its scales. */
static int column_of(enum cache_part part, int d)
{
    return part == CACHE_V ? REF_MIXED_FP8 + d : d;
}

/* Returns the row of a slot, for a cache whose rows end with their scales. */
static struct pooled_row pooled_of(const struct paged *p, struct slot s)
{
    return (struct pooled_row){row_of(p), p->elements[CACHE_K], {s.page, s.token}, byte_axis(p)};
}

double paged_value(const struct paged *p, enum cache_part part, struct slot s, int d)
{
    const struct pooled_row row = pooled_of(p, s);
    if (row.format)
        return pooled_row_value(&row, column_of(part, d), p->precision, operand_bits);
    const double scale = has_rows(p) && part == CACHE_K ? scale_value(p, s, d, operand_bits)
                                                        : paged_scale(p, part, s);
    return decode(precision_of(p, part), paged_bits(p, part, s, d)) * scale;
}

double paged_result_value(const struct paged *p, enum cache_part part, struct slot s, int d)
{
    const struct pooled_row row = pooled_of(p, s);
    if (row.format)
        return pooled_row_value(&row, column_of(part, d), p->precision, operand_result_bits);
    const double scale = has_rows(p) && part == CACHE_K ? packed_result_scale(p, s, d)
                                                        : paged_result_scale(p, part, s);
    return decode(precision_of(p, part), paged_result_bits(p, part, s, d)) * scale;
}

void paged_allow(struct paged *p, enum cache_part part, struct slot s, int d)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    operand_allow(p->elements[part], element_at(p, part, s, d, at));
    at[byte_axis(p)] += 1;
    if (has_two_bytes(p, part))
        operand_allow(p->elements[part], at);
}

void paged_allow_scale(struct paged *p, enum cache_part part, struct slot s)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    operand_allow(p->scales[part], scale_at(p, s, at));
}

void paged_compare(struct call *c, struct paged *p, enum cache_part part, struct slot s, int d,
                   double expected, double bound)
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    call_compare_value(c, p->elements[part], element_at(p, part, s, d, at),
                       paged_result_value(p, part, s, d), expected, bound);
    at[byte_axis(p)] += 1;
    if (has_two_bytes(p, part))
        operand_allow(p->elements[part], at);
}

double paged_move_bytes(const struct attn_cache_desc *desc, double rows, int dim)
{
    const double scales =
        desc->scale == ATTN_KV_SCALE_TOKEN    ? 2 * sizeof(float)
        : desc->scale == ATTN_KV_SCALE_BLOCK  ? 2.0 * sizeof(float) / desc->page_size
        : desc->layout == ATTN_KV_PACKED      ? REF_PACKED_ROW - REF_PACKED_LATENT - PACKED_ROTATED
        : desc->layout == ATTN_KV_SCALES_LAST ? REF_MIXED_SCALES + PACKED_ROTATED
        : paged_row(desc->layout) ? paged_row(desc->layout)->bytes - paged_row(desc->layout)->scales
        : desc->layout == ATTN_KV_PLANES ? 2 * REF_MIXED_SCALES + PACKED_ROTATED
                                         : 0;
    return rows * (dim * (2 + attn_dtype_size(desc->dtype)) + scales);
}

void paged_touch(struct paged *p, int64_t page)
{
    for (int part = 0; part < p->parts; part++) {
        for (int token = 0; token < p->desc.page_size; token++) {
            for (int head = 0; head < p->kv_heads; head++) {
                int64_t at[ATTN_DIMENSIONS_MAX];
                const struct slot s = {.page = page, .token = token, .head = head};
                operand_touch(p->elements[part], element_at(p, part, s, 0, at));
            }
        }
    }
}

/* The functions from here on fill caches with values. */

/* Returns the largest number that a part stores. Scales are 1 to 2 divided by this number, so that
 * values are less than 2. */
static double stored_limit(const struct paged *p, enum cache_part part)
{
    if (has_rows(p))
        return has_scales(p, part) ? 16 : 2;
    if (p->desc.scale == ATTN_KV_SCALE_NONE)
        return 2;
    return p->desc.dtype == ATTN_INT8 ? 128 : 16;
}

double paged_scale_fraction(enum cache_part part, double of_k, uint64_t *random)
{
    const double fraction = (double)(random_bits(random) >> 40) * 0x1p-24;
    const double beyond_k = of_k + 0.25 + fraction / 2;
    return part == CACHE_K ? fraction : beyond_k - floor(beyond_k);
}

/* Sets a slot's scale at random, so that values are less than 2. Does nothing if the scale is set
 * already. */
static void fill_scale(struct paged *p, enum cache_part part, struct slot s, uint64_t *random)
{
    const double most = 2 / stored_limit(p, part);
    const double of_k = 2 * paged_scale(p, CACHE_K, s) / most - 1;
    if (isnan(paged_scale(p, part, s)))
        set_scale(p, part, s, (0.5 + paged_scale_fraction(part, of_k, random) / 2) * most);
}

/* Sets the scale of the elements from d on that share one, so that values are less than 2. */
static void fill_packed_scale(struct paged *p, struct slot s, int d, uint64_t *random)
{
    const enum ref_scale kind = scale_kind(p);
    const float scale = (float)ldexp(1 + (double)(random_bits(random) >> 40) * 0x1p-24, -4);
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    if (kind == REF_SCALE_E8M0 || (row_of(p) && row_of(p)->e8m0))
        bits = 121 + (random_bits(random) >> 60) % 4; /* 2^-6 to 2^-3 */
    if (row_of(p) && !row_of(p)->e8m0)
        bits = 16 + (uint32_t)(random_bits(random) >> 60); /* 2^-6 to 2^-3 in either fp8 */
    if (row_of(p) && !row_of(p)->e8m0 && p->powers)
        bits &= ~UINT32_C(7);
    const int size = row_of(p) ? 1 : ref_packed_scale_size(kind);
    for (int copy = 0; copy < scale_copies(p); copy++)
        set_row_bits(p, CACHE_K, s, scale_byte(p, s, d) + copy, size, bits);
}

void paged_fill_token(struct paged *p, struct slot at, uint64_t *random)
{
    for (int part = 0; part < p->parts; part++) {
        for (int head = 0; head < p->kv_heads; head++) {
            const struct slot s = {at.page, at.token, head, at.sequence};
            if (p->scales[part]->given)
                fill_scale(p, part, s, random);
            for (int d = 0; has_scales(p, part) && d < p->dim[part]; d += packed_run(p))
                fill_packed_scale(p, s, column_of(part, d), random);
            for (int d = 0; d < p->dim[part]; d++)
                set_bits(p, part, s, d,
                         random_element(precision_of(p, part), stored_limit(p, part), random));
        }
    }
}

void paged_fill_page(struct paged *p, int64_t page, int tokens, uint64_t *random)
{
    for (int at = 0; at < tokens; at++)
        paged_fill_token(p, (struct slot){.page = page, .token = at}, random);
    for (int part = 0; part < p->parts && tokens > 0; part++) {
        for (int head = 0; head < p->kv_heads; head++) {
            const struct slot s = {.page = page, .head = head};
            const double of_k = (log2(paged_scale(p, CACHE_K, s)) + 9) / 6;
            set_scale(p, part, s, exp2(-9 + 6 * paged_scale_fraction(part, of_k, random)));
        }
    }
}

int slots_run_end(int page_size, const int64_t *slots, int tokens, int token)
{
    int end = token + 1;
    while (end < tokens && slots[end] == slots[end - 1] + 1 && slots[end] % page_size)
        end++;
    return end;
}

/* The functions from here on make page lists. */

/* Returns the number of pages of sequence s. */
static int page_count(const struct page_lists *l, int s) { return l->first[s + 1] - l->first[s]; }

struct slot page_lists_slot(const struct page_lists *l, int s, int64_t t, int head)
{
    return (struct slot){
        .page = l->pages[l->first[s] + t / l->page_size],
        .token = (int)(t % l->page_size),
        .head = head,
        .sequence = s,
    };
}

void page_lists_make(struct call *c, struct page_lists *l, enum attn_page_table table,
                     struct attn_cache *cache, struct attn_pages *pages)
{
    l->spare = l->in_order ? 0 : l->far ? PAGES_FAR_SPARE : SPARE;
    l->first = call_allocate(c, (size_t)l->count + 1, sizeof(*l->first));
    pages->entries = 0;
    for (int s = 0; s < l->count; s++) {
        const int count = (l->lens[s] + l->page_size - 1) / l->page_size;
        l->first[s + 1] = l->first[s] + count;
        pages->entries = pages->entries > count ? pages->entries : count;
    }
    pages->entries += l->in_order || l->exact ? 0 : 2;
    if (table == ATTN_PAGES_INDICES)
        pages->entries = l->first[l->count];
    if (cache)
        cache->page_count = l->first[l->count] + l->spare;
}

/* Chooses the pages of all sequences: in order, shuffled, or far from the first pages. */
static void choose_pages(struct call *c, struct page_lists *l)
{
    const int used = l->first[l->count];
    l->pages = call_allocate(c, (size_t)used + 1, sizeof(*l->pages));
    int32_t *order = l->in_order ? NULL : shuffled_pages(used + l->spare, &c->random);
    for (int i = 0; i < used; i++)
        l->pages[i] = l->in_order ? i : l->far ? l->spare + i : order[i];
    for (int i = 0; l->spare_first && !l->in_order && !l->far && i < used; i++) {
        if (l->pages[i] == 0)
            l->pages[i] = order[used]; /* exchanges page 0 for the first unused page */
    }
    free(order);
}

void page_lists_hide(struct call *c, struct page_lists *l, const int32_t *first_query, int64_t left,
                     int chunk)
{
    l->unseen = call_allocate(c, (size_t)l->count + 1, sizeof(*l->unseen));
    for (int s = 0; s < l->count; s++) {
        const int64_t own = (int64_t)l->lens[s] - (first_query[s + 1] - first_query[s]);
        const int64_t from = own < 0 ? 0 : chunk ? own / chunk * chunk : own - left;
        l->unseen[s] = from < 0 ? 0 : (int32_t)from;
    }
}

/* Returns the number that lists have for page i of sequence s. The number is far beyond the cache's
 * last page if no query sees the page's tokens. */
static int32_t listed_page(const struct page_lists *l, int s, int i)
{
    if (l->unseen && (int64_t)(i + 1) * l->page_size <= l->unseen[s])
        return FAR_BEHIND;
    return l->pages[l->first[s] + i];
}

void page_lists_set(struct call *c, const struct page_lists *l, unsigned first)
{
    struct operand *const lens = call_operand(c, first), *const blocks = lens + 1;
    struct operand *const indptr = lens + 2, *const indices = lens + 3;
    if (lens->given)
        operand_set_ints(lens, l->lens, l->count);
    if (indptr->given)
        operand_set_ints(indptr, l->first, l->count + 1);
    for (int s = 0; s < l->count; s++) {
        for (int i = 0; i < page_count(l, s); i++) {
            if (indices->given)
                operand_set_int(indices, AT(l->first[s] + i), listed_page(l, s, i));
            if (blocks->given)
                operand_set_int(blocks, AT(s, i), listed_page(l, s, i));
        }
        for (int i = page_count(l, s); blocks->given && i < blocks->dims[1]; i++)
            operand_set_int(blocks, AT(s, i), FAR_BEHIND);
    }
}

/* Fills the whole cache of a trace from a small table, in the order of memory, which is fast.
 * Returns false if the call is not traced or the cache is filled otherwise. */
static bool fill_traced(struct call *c, struct paged *p)
{
    if (!c->traced || has_rows(p))
        return false;
    for (int part = 0; part < p->parts; part++) {
        operand_set_table(p->elements[part], stored_limit(p, part), &c->random);
        if (p->scales[part]->given)
            operand_set_table(p->scales[part], 1, &c->random);
    }
    return true;
}

void page_lists_fill_tokens(struct call *c, struct page_lists *l, struct paged *p)
{
    choose_pages(c, l);
    if (fill_traced(c, p))
        return;
    for (int i = 0; l->far && i < l->first[l->count]; i++)
        paged_touch(p, l->pages[i]);
    for (int i = 0; i < paged_shared_scales(p); i++) /* also scales of sequences without tokens */
        for (int part = 0; part < p->parts; part++)
            fill_scale(p, (enum cache_part)part, shared_slot(p, i), &c->random);
    for (int s = 0; s < l->count; s++) {
        for (int64_t t = 0; t < l->lens[s]; t++) {
            paged_fill_token(p, page_lists_slot(l, s, t, 0), &c->random);
        }
    }
}

void page_lists_fill(struct call *c, struct page_lists *l, struct paged *p, unsigned first)
{
    page_lists_fill_tokens(c, l, p);
    page_lists_set(c, l, first);
}

int32_t *shuffled_pages(int count, uint64_t *random)
{
    int32_t *pages = verify_allocate((size_t)count, sizeof(*pages));
    for (int i = 0; i < count; i++) {
        const int j = (int)(random_bits(random) % (uint64_t)(i + 1));
        pages[i] = pages[j];
        pages[j] = i;
    }
    return pages;
}

int paged_size(const struct attn_cache_desc *desc, int size, int step)
{
    const int run = desc->dtype == ATTN_FP8 || desc->dtype == ATTN_INT8 ? 16 : 8;
    const bool shuffle = is_shuffled(desc);
    if (desc->page_size)
        return desc->page_size;
    return (shuffle && size < run ? run : size) << step;
}

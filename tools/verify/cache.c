/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 };

static void *allocate(size_t size)
{
    void *p = calloc(size ? size : 1, 1);
    if (!p)
        abort();
    return p;
}

static double decode(const void *type, uint32_t bits)
{
    return decode_element(type, (uint16_t)bits);
}

/* Strides of K or V; with gaps the heads of an NHD page come before its tokens, as some pools
 * have it. */
static void set_strides(struct paged_cache *c, struct ref_cache *part, int64_t *page_elements,
                        bool gaps)
{
    const int64_t x = 16 / part->element_size, gap = gaps ? x : 0;
    const int row = part->packed ? REF_PACKED_ROW : part->dim;
    if (part->shuffle) {
        part->head_stride = (int64_t)part->dim * part->page_size + gap;
        *page_elements = c->kv_heads * part->head_stride + 2 * gap;
    } else if (gaps) {
        part->token_stride = row + gap;
        part->head_stride = part->page_size * part->token_stride + gap;
        *page_elements = c->kv_heads * part->head_stride + 2 * gap;
    } else {
        part->head_stride = row;
        part->token_stride = (int64_t)c->kv_heads * row;
        *page_elements = part->page_size * part->token_stride;
    }
    part->page_stride = *page_elements;
}

static void set_scale_strides(struct paged_cache *c, struct ref_cache *part, bool gaps)
{
    const int64_t tokens = part->scale == REF_SCALE_TOKEN ? part->page_size : 1;
    part->scale_head_stride = tokens + (gaps ? 3 : 0);
    part->scale_page_stride = c->kv_heads * part->scale_head_stride + (gaps ? 2 : 0);
}

static size_t count_scales(const struct paged_cache *c)
{
    if (c->desc.scale <= ATTN_KV_SCALE_TENSOR)
        return (size_t)c->desc.scale;
    return (size_t)(c->page_count * c->part[CACHE_K].scale_page_stride);
}

static size_t image_bytes(const struct paged_cache *c, enum cache_part p)
{
    return (size_t)(c->page_count * c->page_elements[p]) * c->precision->size + 2 * GUARD_BYTES;
}

static void make_part(struct paged_cache *c, enum cache_part p, int dim, bool gaps)
{
    struct ref_cache *part = &c->part[p];
    *part = (struct ref_cache){
        .shuffle = c->desc.layout == ATTN_KV_SHUFFLE,
        .transposed = p == CACHE_V,
        .packed = c->desc.layout == ATTN_KV_PACKED,
        .page_size = c->desc.page_size,
        .dim = dim,
        .element_size = c->precision->size,
        .decode = decode,
        .type = c->precision,
        .scale = (enum ref_scale)c->desc.scale,
    };
    set_strides(c, part, &c->page_elements[p], gaps);
    set_scale_strides(c, part, gaps);
    c->device_page_stride[p] = c->page_elements[p];
    const size_t bytes = image_bytes(c, p), size = (size_t)c->precision->size;
    c->image[p] = allocate(bytes);
    for (size_t at = 0; at < bytes; at += size)
        memcpy(c->image[p] + at, &c->precision->poison, size);
    part->elements = c->image[p] + GUARD_BYTES;
    c->scale_count = count_scales(c);
    c->scales[p] = allocate(c->scale_count * sizeof(float));
    for (size_t i = 0; i < c->scale_count; i++)
        c->scales[p][i] = NAN;
    part->scales = c->scales[p];
}

void cache_init(struct paged_cache *c, const struct attn_cache_desc *desc, const char *target,
                int kv_heads, int head_dim, int head_dim_v, int page_count, bool gaps)
{
    *c = (struct paged_cache){
        .desc = *desc,
        .precision = find_cache_precision(desc->dtype, target),
        .kv_heads = kv_heads,
        .page_count = page_count,
        .used = allocate((size_t)page_count),
    };
    make_part(c, CACHE_K, head_dim, gaps);
    make_part(c, CACHE_V, head_dim_v, gaps);
}

void cache_spread(struct paged_cache *c, int64_t bytes)
{
    for (int p = 0; p < CACHE_PARTS; p++)
        c->device_page_stride[p] = bytes / c->precision->size;
}

static uint8_t *element(const struct paged_cache *c, enum cache_part p, int page, int token,
                        int head, int d)
{
    return c->image[p] + GUARD_BYTES +
           ref_cache_offset(&c->part[p], page, token, head, d) * c->precision->size;
}

uint32_t cache_bits(const struct paged_cache *c, enum cache_part p, int page, int token, int head,
                    int d)
{
    uint32_t bits = 0;
    memcpy(&bits, element(c, p, page, token, head, d), (size_t)c->precision->size);
    return bits;
}

void cache_set_bits(struct paged_cache *c, enum cache_part p, int page, int token, int head, int d,
                    uint32_t bits)
{
    memcpy(element(c, p, page, token, head, d), &bits, (size_t)c->precision->size);
    c->used[page] = true;
}

double cache_value(const struct paged_cache *c, enum cache_part p, int page, int token, int head,
                   int d)
{
    return ref_cache_value(&c->part[p], page, token, head, d);
}

float *cache_scale(struct paged_cache *c, enum cache_part p, int page, int token, int head)
{
    return &c->scales[p][ref_cache_scale_offset(&c->part[p], page, token, head)];
}

/* What is stored is at most this; a scale is 1 to 2 divided by it, so that values are below 2. */
static double stored_limit(const struct paged_cache *c)
{
    if (c->desc.scale == ATTN_KV_SCALE_NONE)
        return 2;
    return c->desc.dtype == ATTN_INT8 ? 128 : 16;
}

static void fill_scale(struct paged_cache *c, enum cache_part p, int page, int token, int head,
                       uint64_t *random)
{
    float *scale = cache_scale(c, p, page, token, head);
    if (!isnan(*scale))
        return;
    const double fraction = (double)(random_bits(random) >> 40) * 0x1p-24;
    *scale = (float)((0.5 + fraction / 2) * 2 / stored_limit(c));
}

/* A packed row: the 16-bit elements have the op's type, which the caller set. */
static void fill_packed(struct paged_cache *c, int page, int token, uint64_t *random)
{
    const struct ref_cache *k = &c->part[CACHE_K];
    uint8_t *row =
        c->image[CACHE_K] + GUARD_BYTES + page * k->page_stride + token * k->token_stride;
    for (int d = 0; d < k->dim; d++) {
        const bool latent = d < REF_PACKED_LATENT;
        const uint16_t bits =
            random_element(latent ? c->precision : k->rotated, latent ? 16 : 2, random);
        memcpy(row + ref_packed_element(d), &bits, latent ? 1 : 2);
    }
    for (int d = 0; d < REF_PACKED_LATENT; d += REF_PACKED_RUN) {
        const float scale = (float)ldexp(1 + (double)(random_bits(random) >> 40) * 0x1p-24, -4);
        memcpy(row + ref_packed_scale(d), &scale, sizeof(scale));
    }
    c->used[page] = true;
}

void cache_fill_token(struct paged_cache *c, int page, int token, uint64_t *random)
{
    if (c->desc.layout == ATTN_KV_PACKED) {
        fill_packed(c, page, token, random);
        return;
    }
    for (int p = 0; p < CACHE_PARTS; p++) {
        for (int head = 0; head < c->kv_heads; head++) {
            if (c->desc.scale != ATTN_KV_SCALE_NONE)
                fill_scale(c, p, page, token, head, random);
            for (int d = 0; d < c->part[p].dim; d++)
                cache_set_bits(c, p, page, token, head, d,
                               random_element(c->precision, stored_limit(c), random));
        }
    }
}

/* Pages far apart: only those with tokens, since the memory between them is never touched. */
static char *upload_pages(struct paged_cache *c, enum cache_part p, struct device_memory *m)
{
    const size_t size = (size_t)c->precision->size, page = (size_t)c->page_elements[p] * size;
    const size_t stride = (size_t)c->device_page_stride[p] * size;
    char *base = device_allocate(m, (size_t)c->page_count * stride);
    for (int i = 0; i < c->page_count && base; i++) {
        if (c->used[i])
            device_write(m, base + i * stride, c->image[p] + GUARD_BYTES + i * page, page);
    }
    return base;
}

static void upload_part(struct paged_cache *c, enum cache_part p, struct device_memory *m)
{
    if (c->device_page_stride[p] == c->page_elements[p]) {
        char *block = device_copy(m, c->image[p], image_bytes(c, p));
        c->device[p] = block ? block + GUARD_BYTES : NULL;
    } else {
        c->device[p] = upload_pages(c, p, m);
    }
    if (c->scale_count)
        c->device_scales[p] = device_copy(m, c->scales[p], c->scale_count * sizeof(float));
}

void cache_upload(struct paged_cache *c, struct device_memory *m, struct attn_cache *args)
{
    upload_part(c, CACHE_K, m);
    upload_part(c, CACHE_V, m);
    const struct ref_cache *k = &c->part[CACHE_K], *v = &c->part[CACHE_V];
    *args = (struct attn_cache){
        .k = c->device[CACHE_K],
        .v = c->device[CACHE_V],
        .k_scale = c->device_scales[CACHE_K],
        .v_scale = c->device_scales[CACHE_V],
        .k_page_stride = c->device_page_stride[CACHE_K],
        .k_token_stride = k->token_stride,
        .k_head_stride = k->head_stride,
        .v_page_stride = c->device_page_stride[CACHE_V],
        .v_token_stride = v->token_stride,
        .v_head_stride = v->head_stride,
        .scale_page_stride = k->scale_page_stride,
        .scale_head_stride = k->scale_head_stride,
        .page_count = c->page_count,
    };
}

void cache_free(struct paged_cache *c)
{
    for (int p = 0; p < CACHE_PARTS; p++) {
        free(c->image[p]);
        free(c->scales[p]);
        c->image[p] = NULL;
        c->scales[p] = NULL;
    }
    free(c->used);
    c->used = NULL;
}

int32_t *shuffled_pages(int count, uint64_t *random)
{
    int32_t *pages = allocate((size_t)count * sizeof(*pages));
    for (int i = 0; i < count; i++) {
        const int j = (int)(random_bits(random) % (uint64_t)(i + 1));
        pages[i] = pages[j];
        pages[j] = i;
    }
    return pages;
}

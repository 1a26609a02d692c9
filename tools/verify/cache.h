/* SPDX-License-Identifier: Apache-2.0
 *
 * Paged caches of attnc verify: any layout, element type and scale, on the host as the very bits
 * that the device has. What belongs to no element, and slots that hold no token, are NaNs.
 */
#ifndef TOOLS_VERIFY_CACHE_H
#define TOOLS_VERIFY_CACHE_H

#include "tools/verify/paged.h"
#include "tools/verify/tensor.h"
#include "tools/reference/cache.h"

struct paged_cache {
    struct attn_cache_desc desc; /* dtype is that of the elements, never 0 */
    const struct precision *precision;
    int kv_heads, page_count;

    /* As reference/cache.h reads it. The host's copy has page_stride == page_elements. */
    struct ref_cache part[CACHE_PARTS];

    int64_t device_page_stride[CACHE_PARTS]; /* elements; may be larger: only pages are uploaded */
    int64_t page_elements[CACHE_PARTS];      /* from an element of a page to that of the next */
    size_t scale_count;
    uint8_t *image[CACHE_PARTS];
    float *scales[CACHE_PARTS];
    bool *used; /* [page]: only these are uploaded to far pages */
    char *device[CACHE_PARTS];
    float *device_scales[CACHE_PARTS];
};

/**
 * A cache of `page_count` pages, all NaN, in host memory. With `gaps` strides leave memory between
 * tokens (NHD), heads and pages. `desc->dtype` is one of the cache, `target` says which fp8.
 */
void cache_init(struct paged_cache *c, const struct attn_cache_desc *desc, const char *target,
                int kv_heads, int head_dim, int head_dim_v, int page_count, bool gaps);

/** Spreads the pages on the device: so many bytes from one to the next, only those in use there. */
void cache_spread(struct paged_cache *c, int64_t bytes);

/** Random keys, values and scales for one slot; a page's shared scale is set by its first token. */
void cache_fill_token(struct paged_cache *c, int page, int token, uint64_t *random);

/** The bits of an element, and what they are worth with their scale. */
uint32_t cache_bits(const struct paged_cache *c, enum cache_part part, int page, int token,
                    int head, int d);
void cache_set_bits(struct paged_cache *c, enum cache_part part, int page, int token, int head,
                    int d, uint32_t bits);
double cache_value(const struct paged_cache *c, enum cache_part part, int page, int token, int head,
                   int d);
float *cache_scale(struct paged_cache *c, enum cache_part part, int page, int token, int head);

/** Allocates and copies; sets the pointers, strides and page_count of `args`. */
void cache_upload(struct paged_cache *c, struct device_memory *m, struct attn_cache *args);

void cache_free(struct paged_cache *c);

#endif

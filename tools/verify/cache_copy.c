/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of cache_copy kernels: compares every byte of both caches, for each kind of cache.
 */
#include <stdlib.h>

#include "tools/verify/paged.h"
#include "tools/verify/pooled_row.h"

/* Number of pages of a cache, also of one with pages far apart. */
enum { PAGES = 12 };

/* Flags of a shape. */
enum {
    FAR = 1 << 0,    /* pages of the written cache are spread over more than 4 GiB */
    WITHIN = 1 << 1, /* source and target are one cache */
    SKIPS = 1 << 2,  /* some pairs of pages are padding */
    HALVES = 1 << 3, /* the first half of the pages is copied to the second, in order */
};

/* The shapes. The kernel copies bytes, whatever they mean, so each shape has another kind of cache.
 * `pairs` is the number of pairs of pages. */
static const struct shape {
    struct verify_shape is;
    int head_dim, head_dim_v, kv_heads;
    struct attn_cache_desc cache;
    int pairs;
} shapes[] = {
    {{"one", 0}, 128, 128, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 16}, 1},
    {{"none", 0}, 64, 64, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 16}, 0},
    {{"within", WITHIN}, 64, 64, 3, {ATTN_FP16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 32}, 5},
    {{"shuffle", SKIPS}, 128, 64, 2, {ATTN_BF16, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_NONE, 64}, 6},
    {{"columns of V", SKIPS}, 72, 72, 2, {ATTN_BF16, ATTN_KV_SHUFFLE_K, ATTN_KV_SCALE_NONE, 16}, 4},
    {{"fp8", WITHIN}, 128, 128, 2, {ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TENSOR, 16}, 4},
    {{"head scales", WITHIN}, 128, 64, 2, {ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_HEAD, 16}, 4},
    {{"token scales", SKIPS}, 64, 64, 2, {ATTN_INT8, ATTN_KV_NHD, ATTN_KV_SCALE_TOKEN, 512}, 3},
    {{"block scales", 0}, 32, 32, 5, {ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_BLOCK, 16}, 6},
    {{"views", VERIFY_VIEWS}, 80, 80, 3, {ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_TOKEN, 48}, 4},
    {{"views shuffle", VERIFY_VIEWS}, 96, 96, 2, {ATTN_BF16, ATTN_KV_SHUFFLE, 0, 272}, 4},
    {{"packed rows", SKIPS}, 576, 512, 1, {ATTN_FP8, ATTN_KV_PACKED, ATTN_KV_SCALE_NONE, 16}, 5},
    {{"packed views", VERIFY_VIEWS},
     512,
     64,
     1,
     {ATTN_FP8, ATTN_KV_PACKED, ATTN_KV_SCALE_E8M0, 3},
     4},
    {{"two planes", SKIPS}, 512, 512, 1, {ATTN_FP8, ATTN_KV_PLANES, ATTN_KV_SCALE_NONE, 16}, 5},
    {{"views of planes", VERIFY_VIEWS},
     448,
     64,
     1,
     {ATTN_FP8, ATTN_KV_PLANES, ATTN_KV_SCALE_NONE, 3},
     4},
    {{"rows of e2m1", 0}, 512, 512, 1, {ATTN_FP8, ATTN_KV_PACKED_FP4, ATTN_KV_SCALE_NONE, 16}, 5},
    {{"e2m1 and e8m0", 0}, 512, 512, 1, {ATTN_FP8, ATTN_KV_PACKED_MXFP4, ATTN_KV_SCALE_NONE, 3}, 5},
    {{"fp8 and e8m0", 0}, 512, 512, 1, {ATTN_FP8, ATTN_KV_PACKED_MXFP8, ATTN_KV_SCALE_NONE, 8}, 5},
    {{"beyond 4 GiB", FAR}, 64, 64, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 8}, 3},
    {{"single slots", WITHIN}, 128, 128, 4, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 1}, 6},
};

/* The shape with which a trace begins. */
static const struct shape traced = {
    {"trace", WITHIN | HALVES}, 128, 0, 8, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 16}, 256};

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_cache_copy_desc *d = &c->desc.cache_copy;
    d->head_dim = s->head_dim;
    d->head_dim_v = s->head_dim_v ? s->head_dim_v : s->head_dim;
    d->kv_heads = s->kv_heads;
    d->cache = s->cache;
    c->args.cache_copy.pairs = s->pairs;
    c->args.cache_copy.from.page_count = PAGES;
    c->args.cache_copy.to.page_count =
        call_has(c, HALVES) ? 2 * s->pairs : PAGES + (call_has(c, FAR) ? PAGES_FAR_SPARE : 0);
}

/* Leaves out scales of whole tensors, since a copy of pages does not need them. */
static void leave_out_scales(struct call *c)
{
    static const unsigned scales[] = {CACHE_COPY_FROM_K_SCALE, CACHE_COPY_FROM_V_SCALE,
                                      CACHE_COPY_TO_K_SCALE, CACHE_COPY_TO_V_SCALE};
    for (unsigned i = 0; i < COUNT(scales); i++)
        operand_leave_out(call_operand(c, scales[i]));
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    if (c->desc.cache_copy.cache.scale == ATTN_KV_SCALE_TENSOR ||
        c->desc.cache_copy.cache.scale == ATTN_KV_SCALE_HEAD)
        leave_out_scales(c);
    if (call_has(c, WITHIN))
        paged_leave_out(c, CACHE_COPY_FROM_K_CACHE);
    if (call_has(c, FAR))
        paged_spread(c, CACHE_COPY_TO_K_CACHE, PAGES_FAR_STRIDE);
}

/* Fills the pairs of pages: odd pages are read, even pages are written. */
static void fill_pairs(struct call *c)
{
    const struct shape *s = c->shape;
    int32_t *pages = shuffled_pages(PAGES / 2, &c->random);
    for (int i = 0; i < s->pairs; i++) {
        int64_t pair[2] = {i, s->pairs + i};
        if (!call_has(c, HALVES)) {
            pair[0] = 2 * pages[i] + 1;
            pair[1] = 2 * pages[(i + 1) % (PAGES / 2)] + (call_has(c, FAR) ? PAGES_FAR_SPARE : 0);
        }
        if (call_has(c, SKIPS) && i % 3 == 1)
            pair[i % 2] = -1 - i;
        operand_set_int(call_operand(c, CACHE_COPY_PAGE_PAIRS), AT(i, 0), pair[0]);
        operand_set_int(call_operand(c, CACHE_COPY_PAGE_PAIRS), AT(i, 1), pair[1]);
    }
    free(pages);
}

/* Returns the cache whose first operand has number `first`. The op's descriptor has no dtype, so
 * either 16-bit type may be assumed for rotated elements of packed rows. */
static struct paged cache_of(struct call *c, unsigned first)
{
    struct paged p = paged_of(c, first, &c->desc.cache_copy.cache, false);
    p.rotated = find_cache_precision(ATTN_BF16, c->target);
    return p;
}

/* Fills the pages of a cache whose first operand is `first`. */
static void fill_cache(struct call *c, unsigned first)
{
    struct paged p = cache_of(c, first);
    for (int page = call_has(c, HALVES) ? 0 : p.page_count - PAGES; page < p.page_count; page++)
        for (int token = 0; token < p.desc.page_size; token++)
            paged_fill_token(&p, (struct slot){.page = page, .token = token}, &c->random);
}

/* Fills the pairs of pages and both caches. */
static void fill(struct call *c)
{
    fill_pairs(c);
    fill_cache(c, CACHE_COPY_TO_K_CACHE);
    if (!call_has(c, WITHIN))
        fill_cache(c, CACHE_COPY_FROM_K_CACHE);
}

/* Compares every byte of a page's rows in the tensor of `part`. Layout PACKED has both parts in the
 * tensor of CACHE_K; PLANES has a tensor for each part. */
static void compare_rows(struct call *c, const struct paged *from, int64_t from_page,
                         struct paged *to, int64_t to_page, enum cache_part part)
{
    struct operand *rows = to->elements[part];
    for (int token = 0; token < to->desc.page_size; token++)
        for (int i = 0; i < rows->dims[3]; i++) {
            const int64_t target[ATTN_DIMENSIONS_MAX] = {to_page, token, 0, i};
            operand_allow(rows, target);
            if (operand_bits(from->elements[part], AT(from_page, token, 0, i)) !=
                operand_result_bits(rows, target))
                verify_fail(c->row,
                            "byte %d of token %d of page %lld is not what it was copied from", i,
                            token, (long long)to_page);
        }
}

/* Compares the bits and scales of the written page to_page with the copied page from_page, for one
 * part. */
static void compare_page(struct call *c, const struct paged *from, int64_t from_page,
                         struct paged *to, int64_t to_page, enum cache_part part)
{
    for (int token = 0; token < to->desc.page_size; token++)
        for (int head = 0; head < to->kv_heads; head++) {
            const struct slot source = {from_page, token, head, 0},
                              target = {to_page, token, head, 0};
            const bool scaled = paged_scales_rows(&to->desc);
            bool same =
                !scaled || paged_scale(from, part, source) == paged_result_scale(to, part, target);
            for (int d = 0; d < to->dim[part]; d++) {
                same &= paged_bits(from, part, source, d) == paged_result_bits(to, part, target, d);
                paged_allow(to, part, target, d);
            }
            if (scaled)
                paged_allow_scale(to, part, target);
            if (!same)
                verify_fail(c->row,
                            "%s: token %d, head %d of page %lld is not what it was copied from",
                            part == CACHE_K ? "k" : "v", token, head, (long long)to_page);
        }
}

/* Compares each target page with the source page that it copies. */
static void compare(struct call *c)
{
    const struct attn_cache_desc *desc = &c->desc.cache_copy.cache;
    struct paged to = cache_of(c, CACHE_COPY_TO_K_CACHE);
    const struct paged from = call_has(c, WITHIN) ? to : cache_of(c, CACHE_COPY_FROM_K_CACHE);
    const struct operand *pairs = call_operand(c, CACHE_COPY_PAGE_PAIRS);
    for (int i = 0; i < c->args.cache_copy.pairs; i++) {
        const int64_t source = operand_int(pairs, AT(i, 0)), target = operand_int(pairs, AT(i, 1));
        if (source < 0 || target < 0)
            continue;
        const bool packed = desc->layout == ATTN_KV_PACKED || paged_row(desc->layout);
        for (int part = 0; part < (packed ? 1 : CACHE_PARTS); part++) {
            if (packed || desc->layout == ATTN_KV_PLANES)
                compare_rows(c, &from, source, &to, target, part);
            else
                compare_page(c, &from, source, &to, target, part);
        }
    }
}

/* Returns the bytes that a launch reads and writes. */
static double least_bytes(const struct call *c)
{
    const struct attn_cache_copy_desc *d = &c->desc.cache_copy;
    const double tokens = (double)c->args.cache_copy.pairs * d->cache.page_size;
    return 2 * tokens * d->kv_heads * (d->head_dim + d->head_dim_v) *
               attn_dtype_size(d->cache.dtype) +
           c->args.cache_copy.pairs * 16.0;
}

const struct verify_op verify_cache_copy = {
    .op = "cache_copy",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"pairs=64"},
    .dimensions =
        {
            {"pairs", offsetof(struct shape, pairs), 1 << 16, "pages that are copied"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024, "key/value heads"},
            {"head_dim", offsetof(struct shape, head_dim), 1024, "elements of each, of 2 bytes"},
            {"page_size", offsetof(struct shape, cache.page_size), 65536, "tokens in a page"},
        },
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};

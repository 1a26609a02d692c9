/* SPDX-License-Identifier: Apache-2.0 */
/* Describes cache pages to the kernel of cache_copy as contiguous runs, which it copies as
 * bytes. */
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/fill.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* A workgroup copies this many times as many bytes of K or V as of scales. */
enum { SCALE_WEIGHT = 8 };

/* A page of K or V as `outer` times `inner` contiguous runs of elements. */
struct parts {
    int64_t outer, inner;                /* numbers of runs */
    int64_t outer_step, inner_step, run; /* distances of runs, and length of a run, in elements */
};

/* Returns the runs of a page of K or V: a head's row each, or with layout SHUFFLE all rows of a
 * head. `dim` is the length of a row; `token` and `head` are strides. All are in elements. */
static struct parts parts_of(const struct attn_cache_desc *c, int32_t kv_heads, int64_t dim,
                             int64_t token, int64_t head)
{
    if (attn_is_shuffled(c))
        return (struct parts){1, kv_heads, 0, head, dim * c->page_size};
    return (struct parts){c->page_size, kv_heads, token, head, dim};
}

/* Joins runs that follow each other without a gap, first the inner ones. */
static void join(struct parts *p)
{
    if (p->inner > 1 && p->inner_step != p->run)
        return;
    p->run *= p->inner;
    p->inner = 1;
    if (p->outer > 1 && p->outer_step != p->run)
        return;
    p->run *= p->outer;
    p->outer = 1;
}

/* Exchanges outer and inner runs. In a pool whose outer dimension is heads, the tokens of a head
 * may be contiguous. */
static void exchange(struct parts *p)
{
    const int64_t count = p->outer, step = p->outer_step;
    p->outer = p->inner;
    p->outer_step = p->inner_step;
    p->inner = count;
    p->inner_step = step;
}

/* Returns `p` with the smaller distance inside, and with runs joined that follow each other without
 * a gap. */
static struct parts joined(struct parts p)
{
    if (p.outer > 1 && p.outer_step < p.inner_step)
        exchange(&p);
    join(&p);
    return p;
}

/* Sets in `v` the runs of a page of K and of V: counts, distances and lengths in bytes. `to` has
 * the kernel arguments of the destination cache. Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
static int set_parts(const struct attn_cache_copy_desc *d, const union attn_value *to,
                     union attn_value *v)
{
    const int64_t size = attn_dtype_size(d->cache.dtype);
    const enum attn_kv_layout layout = d->cache.layout;
    struct parts k = parts_of(&d->cache, d->kv_heads, attn_row_length(layout, false, d->head_dim),
                              to[ATTN_ARG_K_TOKEN_STRIDE].i64, to[ATTN_ARG_K_HEAD_STRIDE].i64);
    struct parts w = parts_of(&d->cache, d->kv_heads, attn_row_length(layout, true, d->head_dim_v),
                              to[ATTN_ARG_V_TOKEN_STRIDE].i64, to[ATTN_ARG_V_HEAD_STRIDE].i64);
    const struct parts k_joined = joined(k), v_joined = joined(w);
    /* K and V must have equal numbers of runs, since the kernel has one pair of counts. */
    if (k_joined.outer == v_joined.outer && k_joined.inner == v_joined.inner) {
        k = k_joined;
        w = v_joined;
    }
    if (layout == ATTN_KV_SCALES_LAST) {
        k = (struct parts){.outer = 1, .inner = 1, .run = attn_mixed_page(d->cache.page_size)};
        w = (struct parts){.outer = 1, .inner = 1};
    }
    if (attn_packed_row(layout))
        w.run = 0; /* no runs of V: rows in the tensor of k contain the values too */
    if (k.run * size > INT32_MAX || w.run * size > INT32_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_copy: a page has 2 GiB or more");
    v[ATTN_ARG_OUTER_PARTS].i64 = k.outer;
    v[ATTN_ARG_INNER_PARTS].i64 = k.inner;
    v[ATTN_ARG_K_OUTER_BYTES].i64 = k.outer_step * size;
    v[ATTN_ARG_K_INNER_BYTES].i64 = k.inner_step * size;
    v[ATTN_ARG_K_RUN_BYTES].i64 = k.run * size;
    v[ATTN_ARG_V_OUTER_BYTES].i64 = w.outer_step * size;
    v[ATTN_ARG_V_INNER_BYTES].i64 = w.inner_step * size;
    v[ATTN_ARG_V_RUN_BYTES].i64 = w.run * size;
    return ATTN_OK;
}

/* Sets in `v` the runs of a page's scales: count, distance and length in bytes. `to` has the kernel
 * arguments of the destination cache. */
static void set_scales(const struct attn_cache_copy_desc *d, const union attn_value *to,
                       union attn_value *v)
{
    const enum attn_kv_scale scale = d->cache.scale;
    const int64_t size = sizeof(float);
    const bool any = scale == ATTN_KV_SCALE_TOKEN || scale == ATTN_KV_SCALE_BLOCK;
    const int64_t tokens = scale == ATTN_KV_SCALE_TOKEN ? d->cache.page_size : 1;
    v[ATTN_ARG_SCALE_PARTS].i64 = d->kv_heads;
    v[ATTN_ARG_SCALE_INNER_BYTES].i64 = to[ATTN_ARG_SCALE_HEAD_STRIDE].i64 * size;
    v[ATTN_ARG_SCALE_RUN_BYTES].i64 = any ? tokens * size : 0;
}

/* Sets in `v` the addresses of the source cache `from` and its scales, and the bytes between pages
 * in both caches. */
static void set_caches(const struct attn_cache_copy_desc *d, const union attn_value *from,
                       const union attn_value *to, union attn_value *v)
{
    const int64_t size = attn_dtype_size(d->cache.dtype);
    v[ATTN_ARG_K_FROM] = from[ATTN_ARG_K];
    v[ATTN_ARG_V_FROM] = from[ATTN_ARG_V];
    v[ATTN_ARG_K_SCALE_FROM] = from[ATTN_ARG_K_SCALE];
    v[ATTN_ARG_V_SCALE_FROM] = from[ATTN_ARG_V_SCALE];
    v[ATTN_ARG_K_FROM_PAGE_BYTES].i64 = from[ATTN_ARG_K_PAGE_STRIDE].i64 * size;
    v[ATTN_ARG_V_FROM_PAGE_BYTES].i64 = from[ATTN_ARG_V_PAGE_STRIDE].i64 * size;
    v[ATTN_ARG_SCALE_FROM_PAGE_BYTES].i64 =
        from[ATTN_ARG_SCALE_PAGE_STRIDE].i64 * (int64_t)sizeof(float);
    v[ATTN_ARG_K_PAGE_BYTES].i64 = to[ATTN_ARG_K_PAGE_STRIDE].i64 * size;
    v[ATTN_ARG_V_PAGE_BYTES].i64 = to[ATTN_ARG_V_PAGE_STRIDE].i64 * size;
    v[ATTN_ARG_SCALE_PAGE_BYTES].i64 = to[ATTN_ARG_SCALE_PAGE_STRIDE].i64 * (int64_t)sizeof(float);
}

/* Sets in `v` the bytes of a run and the number of runs of a page, by which the grid is divided.
 * Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
static int set_grid(union attn_value *v)
{
    const int64_t bytes =
        attn_larger(attn_larger(v[ATTN_ARG_K_RUN_BYTES].i64, v[ATTN_ARG_V_RUN_BYTES].i64),
                    SCALE_WEIGHT * v[ATTN_ARG_SCALE_RUN_BYTES].i64);
    const int64_t parts =
        attn_larger(v[ATTN_ARG_OUTER_PARTS].i64 * v[ATTN_ARG_INNER_PARTS].i64,
                    v[ATTN_ARG_SCALE_RUN_BYTES].i64 ? v[ATTN_ARG_SCALE_PARTS].i64 : 0);
    if (parts > INT32_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_copy: a page has more than 2^31 parts");
    v[ATTN_ARG_COPY_BYTES].i64 = bytes;
    v[ATTN_ARG_COPY_PARTS].i64 = parts;
    return ATTN_OK;
}

/* Checks that the caches `from` and `to`, given as kernel arguments, have equal strides of tokens
 * and heads. */
static int check_strides(const union attn_value *from, const union attn_value *to)
{
    static const enum attn_arg strides[] = {
        ATTN_ARG_K_TOKEN_STRIDE, ATTN_ARG_K_HEAD_STRIDE,     ATTN_ARG_V_TOKEN_STRIDE,
        ATTN_ARG_V_HEAD_STRIDE,  ATTN_ARG_SCALE_HEAD_STRIDE,
    };
    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        if (from[strides[i]].i64 != to[strides[i]].i64)
            return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_copy: from and to differ in a stride "
                                                      "of tokens or heads");
    }
    return ATTN_OK;
}

int attn_cache_copy_fill(const struct attn_cache_copy_desc *d, const struct attn_cache_copy_args *a,
                         union attn_value *v)
{
    union attn_value from[ATTN_ARG_COUNT], to[ATTN_ARG_COUNT];
    const struct attn_cache_heads heads = {d->kv_heads, d->head_dim, d->head_dim_v};
    struct attn_cache_desc cache = d->cache;
    if (cache.scale == ATTN_KV_SCALE_TENSOR || cache.scale == ATTN_KV_SCALE_HEAD)
        cache.scale = ATTN_KV_SCALE_NONE; /* scales outside of the pages are not copied */
    int r = attn_cache_fill(&cache, &heads, &a->to, to);
    if (!r)
        r = attn_cache_fill(&cache, &heads, a->from.k ? &a->from : &a->to, from);
    if (!r)
        r = check_strides(from, to);
    if (!r)
        r = set_parts(d, to, v);
    if (r)
        return r;
    set_caches(d, from, to, v);
    set_scales(d, to, v);
    v[ATTN_ARG_K] = to[ATTN_ARG_K];
    v[ATTN_ARG_V] = to[ATTN_ARG_V];
    v[ATTN_ARG_K_SCALE] = to[ATTN_ARG_K_SCALE];
    v[ATTN_ARG_V_SCALE] = to[ATTN_ARG_V_SCALE];
    return set_grid(v);
}

int attn_cache_copy_check_pairs(const struct attn_op *op, const struct attn_cache_copy_args *a)
{
    const int32_t limits[] = {
        a->from.k ? a->from.page_count : a->to.page_count,
        a->to.page_count,
    };
    void *copy = NULL;
    int r = attn_read_back(op->device, a->page_pairs, (size_t)a->pairs * 2 * sizeof(int64_t),
                           a->stream, &copy);
    const int64_t *page = copy;
    for (int64_t i = 0; !r && copy && i < 2 * (int64_t)a->pairs; i++) {
        const int32_t limit = limits[i % 2];
        if (limit && page[i] >= limit)
            r = attn_fail(ATTN_BAD_DATA, "page_pairs[%lld][%d] is %lld, the cache has %d pages",
                          (long long)i / 2, (int)(i % 2), (long long)page[i], limit);
    }
    free(copy);
    return r;
}

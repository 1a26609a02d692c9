/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for cache_copy kernels: every byte of both caches, for caches of every kind.
 */
#include <stdlib.h>

#include "tools/verify/verify.h"
#include "tools/verify/cache.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { PAGES = 12 };

enum {
    GAPS = 1 << 0,   /* strides that leave memory between tokens, heads and pages */
    FAR = 1 << 1,    /* pages spread over 4 GiB and more, in the cache that is written */
    WITHIN = 1 << 2, /* one cache */
    SKIPS = 1 << 3,  /* pairs of padding */
};

/* The kernel does not know what it copies: shapes are kinds of caches. */
static const struct shape {
    const char *name;
    unsigned flags;
    int head_dim, head_dim_v, kv_heads;
    struct attn_cache_desc cache;
    int pairs;
} shapes[] = {
    {"one", 0, 128, 128, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 16}, 1},
    {"none", 0, 64, 64, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 16}, 0},
    {"within", WITHIN, 64, 64, 3, {ATTN_FP16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 32}, 5},
    {"shuffle", SKIPS, 128, 64, 2, {ATTN_BF16, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_NONE, 64}, 6},
    {"fp8", WITHIN, 128, 128, 2, {ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TENSOR, 16}, 4},
    {"token scales", SKIPS, 64, 64, 2, {ATTN_INT8, ATTN_KV_NHD, ATTN_KV_SCALE_TOKEN, 512}, 3},
    {"block scales", 0, 32, 32, 5, {ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_BLOCK, 16}, 6},
    {"views", GAPS, 80, 80, 3, {ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_TOKEN, 16}, 4},
    {"views shuffle", GAPS, 96, 96, 2, {ATTN_BF16, ATTN_KV_SHUFFLE, 0, 32}, 4},
    {"beyond 4 GiB", FAR, 64, 64, 1, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 8}, 3},
    {"single slots", WITHIN, 128, 128, 4, {ATTN_BF16, ATTN_KV_NHD, ATTN_KV_SCALE_NONE, 1}, 6},
};

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    struct attn_cache_copy_desc desc;
    struct attn_cache_copy_args args;
    struct paged_cache from, to, expected; /* from: not with WITHIN */
    int64_t pairs[PAGES][2];
    struct device_memory memory;
    struct verify_row *row;
};

/* What a page holds, into another of a cache alike; gaps stay as they are. */
static void copy_page(const struct paged_cache *from, int64_t from_page, struct paged_cache *to,
                      int64_t to_page)
{
    for (int part = 0; part < CACHE_PARTS; part++)
        for (int token = 0; token < to->desc.page_size; token++)
            for (int head = 0; head < to->kv_heads; head++) {
                for (int d = 0; d < to->part[part].dim; d++)
                    cache_set_bits(to, part, (int)to_page, token, head, d,
                                   cache_bits(from, part, (int)from_page, token, head, d));
                if (to->desc.scale >= ATTN_KV_SCALE_TOKEN)
                    *cache_scale(to, part, (int)to_page, token, head) =
                        *cache_scale((struct paged_cache *)from, part, (int)from_page, token, head);
            }
}

/* Pages that are read are the odd ones, those that are written the even. */
static void make_pairs(struct problem *p, uint64_t *random)
{
    const bool far = p->shape->flags & FAR;
    int32_t *pages = shuffled_pages(PAGES / 2, random);
    for (int i = 0; i < p->shape->pairs; i++) {
        p->pairs[i][0] = 2 * pages[i] + 1;
        p->pairs[i][1] = 2 * pages[(i + 1) % (PAGES / 2)] + (far ? 64 : 0);
        if (p->shape->flags & SKIPS && i % 3 == 1)
            p->pairs[i][i % 2] = -1 - i;
    }
    free(pages);
}

static void fill(struct problem *p, struct paged_cache *c, int pages, uint64_t *random)
{
    cache_init(c, &p->desc.cache, p->run->gpu->target, p->desc.kv_heads, p->desc.head_dim,
               p->desc.head_dim_v, pages, p->shape->flags & GAPS);
    for (int page = pages - PAGES; page < pages; page++)
        for (int token = 0; token < p->desc.cache.page_size; token++)
            cache_fill_token(c, page, token, random);
}

static void make_caches(struct problem *p, uint64_t *random)
{
    const bool within = p->shape->flags & WITHIN, far = p->shape->flags & FAR;
    fill(p, &p->to, PAGES + (far ? 64 : 0), random);
    if (far)
        cache_spread(&p->to, 64 << 20);
    if (!within)
        fill(p, &p->from, PAGES, random);
    cache_copy(&p->expected, &p->to);
    for (int i = 0; i < p->shape->pairs; i++) {
        if (p->pairs[i][0] >= 0 && p->pairs[i][1] >= 0)
            copy_page(within ? &p->to : &p->from, p->pairs[i][0], &p->expected, p->pairs[i][1]);
    }
}

static void compare(struct problem *p)
{
    for (int part = 0; part < CACHE_PARTS; part++) {
        if (!cache_same(&p->to, &p->expected, part))
            verify_fail(p->row, "%s: not every byte is what it was or what it was copied from",
                        part == CACHE_K ? "k" : "v");
    }
}

static void run_problem(struct problem *p)
{
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    cache_download(&p->to, &p->memory);
    if (verify_copied(&p->memory, p->row))
        compare(p);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i)
{
    const struct shape *shape = &shapes[i];
    struct verify_row row = {.kernel = info->name, .shape = shape->name};
    struct problem p = {
        .run = run,
        .shape = shape,
        .row = &row,
        .desc =
            {
                .size = sizeof(p.desc),
                .head_dim = shape->head_dim,
                .head_dim_v = shape->head_dim_v,
                .kv_heads = shape->kv_heads,
                .cache = shape->cache,
            },
        .args = {.size = sizeof(p.args), .pairs = shape->pairs},
        .memory = {.gpu = run->gpu},
    };
    uint64_t random = run->seed * 1000003 + i;
    make_pairs(&p, &random);
    make_caches(&p, &random);
    cache_upload(&p.to, &p.memory, &p.args.to);
    if (!(shape->flags & WITHIN))
        cache_upload(&p.from, &p.memory, &p.args.from);
    p.args.page_pairs = device_copy(&p.memory, p.pairs, sizeof(p.pairs));
    run_problem(&p);
    device_free(&p.memory);
    cache_free(&p.to);
    cache_free(&p.from);
    cache_free(&p.expected);
    verify_report(run, &row);
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    (void)n;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i);
}

const struct verify_family verify_cache_copy = {.op = "cache_copy", .verify = verify};

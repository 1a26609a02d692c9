/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of cache_gather kernels: gathers whole sequences, and parts of sequences, from pages
 * in random order.
 */
#include <math.h>

#include "tools/verify/paged.h"

enum { SEQUENCES_MAX = 5 };

/* Flags of a shape. */
enum {
    FAR = 1 << 0, /* pages are spread over more than 4 GiB */
    /* outputs have rows after the last sequence, and some workgroups have no work */
    PADDED = 1 << 1,
    WHOLE = 1 << 2,    /* seq_starts is NULL; the whole sequences are gathered */
    IN_ORDER = 1 << 3, /* pages are consecutive; kv_lens is NULL */
};

/*
 * The matrix of shapes: for each sequence the number of tokens in the cache and the range first ..
 * end - 1 of tokens to gather; the page size for kernels that take any.
 */
static const struct shape {
    struct verify_shape is;
    int page_size, kv_heads;
    int count;
    struct {
        int tokens, first, end;
    } sequences[SEQUENCES_MAX];
} shapes[] = {
    {{"one", WHOLE}, 16, 2, 1, {{1, 0, 1}}},
    {{"none", 0}, 16, 1, 2, {{5, 3, 3}, {0, 0, 0}}},
    {{"whole", WHOLE}, 16, 1, 3, {{96, 0, 96}, {33, 0, 33}, {7, 0, 7}}},
    {{"chunks", 0}, 32, 2, 4, {{90, 5, 77}, {64, 32, 64}, {40, 39, 40}, {50, 0, 17}}},
    {{"empty", PADDED}, 64, 1, 5, {{0, 0, 0}, {70, 7, 70}, {9, 0, 0}, {3, 1, 2}, {0, 3, 3}}},
    {{"views", VERIFY_VIEWS | PADDED}, 64, 3, 2, {{80, 9, 80}, {30, 0, 30}}},
    {{"beyond 4 GiB", FAR}, 16, 1, 2, {{40, 0, 40}, {37, 19, 37}}},
    {{"large pages", 0}, 1024, 1, 2, {{200, 100, 200}, {1030, 1000, 1030}}},
    {{"single slots", 0}, 1, 2, 2, {{21, 3, 20}, {5, 0, 5}}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", WHOLE | IN_ORDER}, 16, 8, 1, {{1024, 0, 0}}};

/* The data of a call: tokens in the cache, first gathered token, and first output row of each
 * sequence. */
struct own {
    int32_t lens[SEQUENCES_MAX], starts[SEQUENCES_MAX], cu[SEQUENCES_MAX + 1];
    struct page_lists lists;
};

/* Sets the length, the first gathered token and the first output row of each sequence. */
static void set_lengths(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_cache_gather_args *a = &c->args.cache_gather;
    a->batch = s->count;
    for (int i = 0; i < s->count; i++) {
        const int end = call_has(c, WHOLE) ? s->sequences[i].tokens : s->sequences[i].end;
        const int rows = end - s->sequences[i].first;
        own->lens[i] = s->sequences[i].tokens;
        own->starts[i] = s->sequences[i].first;
        own->cu[i + 1] = own->cu[i] + rows;
        a->max_seqlen_k = rows > a->max_seqlen_k ? rows : a->max_seqlen_k;
    }
    a->total_k = own->cu[s->count] + (call_has(c, PADDED) ? 5 : 0);
    a->max_seqlen_k += call_has(c, PADDED) ? 100 : 0;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_cache_gather_desc *d = &c->desc.cache_gather;
    d->kv_heads = paged_has_rows(&d->cache) ? 1 : s->kv_heads;
    d->cache.page_size = paged_size(&d->cache, s->page_size, c->step);
    set_lengths(c);
    own->lists = (struct page_lists){
        .count = s->count,
        .lens = own->lens,
        .page_size = d->cache.page_size,
        .far = call_has(c, FAR),
        .in_order = call_has(c, IN_ORDER),
    };
    page_lists_make(c, &own->lists, d->page_table, &c->args.cache_gather.cache,
                    &c->args.cache_gather.pages);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    if (call_has(c, FAR))
        paged_spread(c, CACHE_GATHER_K_CACHE, PAGES_FAR_STRIDE);
    if (call_has(c, WHOLE))
        operand_leave_out(call_operand(c, CACHE_GATHER_SEQ_STARTS));
    if (call_has(c, IN_ORDER))
        operand_leave_out(call_operand(c, CACHE_GATHER_KV_LENS));
}

/* Fills the cache, its lists of pages, and the first output row of each sequence. */
static void fill(struct call *c)
{
    struct own *own = c->own;
    const int batch = c->args.cache_gather.batch;
    struct paged p = paged_of(c, CACHE_GATHER_K_CACHE, &c->desc.cache_gather.cache, false);
    own->lists.unseen = own->starts;
    page_lists_fill(c, &own->lists, &p, CACHE_GATHER_KV_LENS);
    operand_set_ints(call_operand(c, CACHE_GATHER_CU_SEQLENS_K), own->cu, batch + 1);
    operand_set_ints(call_operand(c, CACHE_GATHER_SEQ_STARTS), own->starts, batch);
}

/* Returns a bound of the error of a gathered element: a float32 product, rounded once more to the
 * type of `out`. Without a scale the copy is exact. */
static double bound_of(const struct call *c, const struct operand *out, double expected)
{
    const struct precision *p = out->precision;
    const struct attn_cache_desc *cache = &c->desc.cache_gather.cache;
    if (cache->scale == ATTN_KV_SCALE_NONE && !paged_has_rows(cache))
        return 0;
    return fmax(p->unit * fabs(expected), p->tiny) + 0x1p-24 * fabs(expected);
}

/* Compares gathered row `i` of sequence `s`, in K or V, with the cache. */
static void compare_row(struct call *c, const struct paged *p, enum cache_part part, int s, int i)
{
    const struct own *own = c->own;
    struct operand *out = call_operand(c, CACHE_GATHER_K_OUT + part);
    for (int head = 0; head < p->kv_heads; head++) {
        const struct slot slot = page_lists_slot(&own->lists, s, own->starts[s] + i, head);
        for (int d = 0; d < p->dim[part]; d++) {
            const double expected = paged_value(p, part, slot, d);
            call_compare(c, out, AT(own->cu[s] + i, head, d), expected, bound_of(c, out, expected));
        }
    }
}

/* Compares all gathered rows with the cache. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    const struct paged p = paged_of(c, CACHE_GATHER_K_CACHE, &c->desc.cache_gather.cache, false);
    for (int part = 0; part < CACHE_PARTS; part++)
        for (int s = 0; s < c->args.cache_gather.batch; s++)
            for (int i = 0; i < own->cu[s + 1] - own->cu[s]; i++)
                compare_row(c, &p, part, s, i);
}

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct attn_cache_gather_desc *d = &c->desc.cache_gather;
    return paged_move_bytes(&d->cache, (double)c->args.cache_gather.total_k * d->kv_heads,
                            d->head_dim + d->head_dim_v) +
           4.0 * ((const struct own *)c->own)->lists.first[c->args.cache_gather.batch];
}

const struct verify_op verify_cache_gather = {
    .op = "cache_gather",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=4096"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, sequences[0].tokens), 1 << 20, "of one sequence"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024, "key/value heads"},
            {"page_size", offsetof(struct shape, page_size), 65536, "for a kernel that takes any"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .steps = 4,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};

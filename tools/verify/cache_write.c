/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of cache_write kernels: compares every byte of the cache after a launch, also bytes
 * that must be unchanged.
 *
 * If a page has one scale, a call must have all tokens of a page one after the other. Shapes with
 * tokens in random order, or with gaps, then change the order within each page only.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/verify/paged.h"
#include "tools/verify/pooled_row.h"

/* Largest number of runs in a shape's list; number of launches with STEPS. */
enum { RUNS_MAX = 6, LAUNCHES = 20 };

/* Flags of a shape. */
enum {
    SHUFFLED = 1 << 0, /* slots are in random order */
    GAPS = 1 << 1,     /* every third token has no slot */
    PACKED = 1 << 2,   /* k_in and v_in are slices of one tensor */
    FAR = 1 << 3,      /* pages are spread over more than 4 GiB */
    HUGE = 1 << 4,     /* some numbers exceed the cache type's largest, and some rows are zeros */
    /* the call makes LAUNCHES launches one after the other, for scales that the tokens of a page
     * share */
    STEPS = 1 << 5,
    IN_ORDER = 1 << 6, /* pages are consecutive, and all slots have held a token before */
};

/*
 * The matrix of shapes: runs of consecutive tokens with their first position, and the page size for
 * kernels that take any size. The pages of a sequence are in random order.
 */
static const struct shape {
    struct verify_shape is;
    int page_size, kv_heads;
    int count;
    struct {
        int first, tokens;
    } runs[RUNS_MAX];
} shapes[] = {
    {{"one", 0}, 16, 2, 1, {{0, 1}}},
    {{"none", 0}, 16, 1, 0, {{0, 0}}},
    {{"whole pages", 0}, 16, 2, 1, {{0, 96}}},
    {{"sequences", PACKED}, 32, 1, 4, {{0, 37}, {30, 3}, {5, 70}, {63, 1}}},
    {{"decode", 0}, 64, 3, 5, {{63, 1}, {0, 1}, {64, 1}, {7, 1}, {130, 1}}},
    {{"any order", SHUFFLED}, 16, 1, 2, {{0, 40}, {3, 50}}},
    {{"padded", GAPS | PACKED}, 128, 2, 2, {{0, 64}, {120, 20}}},
    {{"views", VERIFY_VIEWS}, 64, 2, 2, {{0, 50}, {60, 9}}},
    {{"beyond 4 GiB", FAR}, 16, 1, 2, {{0, 20}, {9, 30}}},
    {{"huge numbers", HUGE}, 16, 1, 1, {{0, 33}}},
    {{"steps", STEPS}, 16, 2, 4, {{0, 1}, {5, 1}, {14, 1}, {31, 1}}},
    {{"drafts", STEPS}, 32, 1, 3, {{0, 4}, {29, 2}, {7, 3}}},
    {{"single slots", 0}, 1, 1, 2, {{0, 9}, {4, 5}}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", IN_ORDER}, 16, 8, 1, {{0, 1024}}};

/* The data of a call, in call->own. */
struct own {
    int32_t *pages;  /* page numbers of all runs, run by run */
    int64_t *slots;  /* [tokens]: slot of each token; negative: none */
    int used, spare; /* numbers of pages that runs use, and of other pages */
};

/* True if each page of a head has one scale. */
static bool block_scaled(const struct call *c)
{
    return c->desc.cache_write.cache.scale == ATTN_KV_SCALE_BLOCK;
}

/* Returns the cache of the call. */
static struct paged cache_of(struct call *c)
{
    return paged_of(c, CACHE_WRITE_K_CACHE, &c->desc.cache_write.cache, false);
}

/* Returns the operand of the new keys or values. */
static struct operand *input(struct call *c, enum cache_part part)
{
    return call_operand(c, CACHE_WRITE_K_IN + part);
}

/* Returns the slot with number `slot` for a head, as page and token. */
static struct slot slot_of(const struct call *c, int64_t slot, int head)
{
    const int size = c->desc.cache_write.cache.page_size;
    return (struct slot){slot / size, (int)(slot % size), head, 0};
}

/* The functions from here on compare the results of a call. */

/*
 * Returns the number that x becomes in the cache, and a bound of its error. Let u = precision->unit
 * and tiny = precision->tiny. Rounding has an error of u |x| or tiny. A scaled number has tiny
 * times the scale. x * inverse is a float32 product. The inverse has an error of up to 1 ulp of
 * float32 (2^-23), and so has the scale. Together they shift the point of rounding by up to four
 * units of 2^-23. Numbers beyond the largest become the largest.
 */
static double nearest(const struct call *c, const struct precision *p, double x, double scale,
                      double *bound)
{
    const double most = x < 0 && p->dtype == ATTN_INT8 ? p->limit + 1 : p->limit;
    const double largest = scale * most, arithmetic = 4 * 0x1p-23 * fabs(x);
    *bound = 0;
    if (p->dtype == c->desc.cache_write.dtype)
        return x;
    if (fabs(x) >= largest) {
        *bound = arithmetic;
        return copysign(largest, x);
    }
    *bound = fmax(p->unit * fabs(x), p->tiny * scale) + arithmetic;
    return x;
}

/* Compares an element that the device has stored for x. */
static void compare_element(struct call *c, struct paged *p, enum cache_part part, struct slot s,
                            int d, double x)
{
    double bound;
    const bool packed = paged_has_rows(&p->desc);
    const struct precision *type = packed && part == CACHE_V ? p->rotated : p->precision;
    const double scale =
        packed && part == CACHE_K ? packed_result_scale(p, s, d) : paged_result_scale(p, part, s);
    const double expected = nearest(c, type, x, scale, &bound);
    paged_compare(c, p, part, s, d, expected, bound);
}

/* Compares the scale of a slot; `exact` requires equality, else an error of one rounding is
 * allowed. */
static void check_scale(struct call *c, struct paged *p, enum cache_part part, struct slot s,
                        double expected, bool exact)
{
    const double got = paged_result_scale(p, part, s);
    paged_allow_scale(p, part, s);
    if (exact ? got != expected : !(fabs(got - expected) <= 0x1p-23 * expected))
        verify_fail(c->row, "the scale of %s of page %lld, token %d, head %d is %g, expected %g",
                    part == CACHE_K ? "k" : "v", (long long)s.page, s.token, s.head, got, expected);
}

/* Compares the row that a token has in the cache, for rows that end with their scales. */
static void compare_pooled(struct call *c, const struct paged *p, int token)
{
    const int64_t slot = ((const struct own *)c->own)->slots[token];
    const struct slot s = slot_of(c, slot, 0);
    const struct pooled_row row = {.format = paged_row(p->desc.layout),
                                   .tensor = p->elements[CACHE_K],
                                   .at = {s.page, s.token},
                                   .axis = 3};
    static const double exact[REF_PACKED_LATENT];
    double x[REF_PACKED_LATENT];
    for (int d = 0; d < REF_PACKED_LATENT; d++)
        x[d] = d < REF_MIXED_FP8
                   ? operand_value(input(c, CACHE_K), AT(token, 0, d))
                   : operand_value(input(c, CACHE_V), AT(token, 0, d - REF_MIXED_FP8));
    if (slot >= 0)
        pooled_row_compare(c, &row, x, exact);
}

/* Compares a token's scale: its largest |x| over the type's largest number, a float32 product with
   a constant that was rounded to float32. */
static void compare_token(struct call *c, struct paged *p, enum cache_part part, int token)
{
    const int64_t slot = ((const struct own *)c->own)->slots[token];
    for (int head = 0; head < p->kv_heads && slot >= 0; head++) {
        const struct slot s = slot_of(c, slot, head);
        double largest = 0;
        for (int d = 0; d < p->dim[part]; d++) {
            const double x = operand_value(input(c, part), AT(token, head, d));
            compare_element(c, p, part, s, d, x);
            largest = fmax(largest, fabs(x));
            if (!paged_has_rows(&p->desc) || part == CACHE_V || (d + 1) % packed_run(p) != 0)
                continue;
            packed_compare_scale(c, p, s, d + 1 - packed_run(p), largest, 0x1p-23 * largest);
            largest = 0;
        }
        if (p->desc.scale == ATTN_KV_SCALE_TOKEN)
            check_scale(c, p, part, s, largest / p->precision->limit, false);
    }
}

/* Returns the scale of a block after tokens `token` to `end` - 1 are written; `old` is the scale
 * before. */
static double expected_scale(struct call *c, const struct paged *p, enum cache_part part, int token,
                             int end, int head, double old)
{
    const int64_t dim = p->dim[part], count = (end - token) * dim;
    double *x = verify_allocate((size_t)count, sizeof(*x));
    for (int64_t i = 0; i < count; i++)
        x[i] = operand_value(input(c, part), AT(token + i / dim, head, i % dim));
    const int begin = slot_of(c, ((const struct own *)c->own)->slots[token], head).token;
    const double scale = ref_cache_block_scale(x, count, begin, old, p->precision->limit);
    free(x);
    return scale;
}

/* Compares the scale of a page, whose error is bounded like a token's, and the page's older tokens,
 * which the kernel rounds again. */
static void compare_run(struct call *c, struct paged *p, enum cache_part part, int token, int end,
                        int head)
{
    struct slot s = slot_of(c, ((const struct own *)c->own)->slots[token], head);
    const int begin = s.token;
    const double old = paged_scale(p, part, s);
    const double expected = expected_scale(c, p, part, token, end, head, old);
    check_scale(c, p, part, s, expected, begin > 0 && expected == old);
    for (s.token = 0; s.token < begin && paged_result_scale(p, part, s) != old; s.token++) {
        for (int d = 0; d < p->dim[part]; d++)
            compare_element(c, p, part, s, d, paged_value(p, part, s, d));
    }
}

/* Compares each written token and scale with the reference. */
static void compare(struct call *c)
{
    const int64_t *slots = ((const struct own *)c->own)->slots;
    const int tokens = c->args.cache_write.tokens;
    struct paged p = cache_of(c);
    for (int part = 0; part < CACHE_PARTS; part++) {
        for (int token = 0; token < tokens && !paged_row(p.desc.layout); token++)
            compare_token(c, &p, part, token);
        for (int token = 0; token < tokens && paged_row(p.desc.layout) && part == CACHE_K; token++)
            compare_pooled(c, &p, token);
        for (int token = 0, end; block_scaled(c) && token < tokens; token = end) {
            end = slots_run_end(p.desc.page_size, slots, tokens, token);
            for (int head = 0; head < p.kv_heads && slots[token] >= 0; head++)
                compare_run(c, &p, part, token, end, head);
        }
    }
}

/* The functions from here on choose the sizes of a call. */

/* Returns the number of launches that the shape makes. */
static int launches(const struct call *c) { return call_has(c, STEPS) ? LAUNCHES : 1; }

/* Returns the number of pages that run `i` uses in all launches. */
static int count_pages(const struct call *c, int i)
{
    const struct shape *s = c->shape;
    const int size = c->desc.cache_write.cache.page_size;
    return (s->runs[i].first + s->runs[i].tokens * launches(c) + size - 1) / size;
}

/* Sets the counts of a call: pages for all runs, and some that stay empty. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_cache_write_desc *d = &c->desc.cache_write;
    d->kv_heads = paged_has_rows(&d->cache) ? 1 : s->kv_heads;
    d->cache.page_size = paged_size(&d->cache, s->page_size, c->step);
    own->used = 0;
    for (int i = 0; i < s->count; i++) {
        own->used += count_pages(c, i);
        c->args.cache_write.tokens += s->runs[i].tokens;
    }
    own->spare = call_has(c, IN_ORDER) ? 0 : call_has(c, FAR) ? PAGES_FAR_SPARE : 3;
    c->args.cache_write.cache.page_count = own->used + own->spare;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    struct operand *k = input(c, CACHE_K), *v = input(c, CACHE_V);
    const int64_t row = k->dims[1] * k->dims[2], more = v->dims[1] * v->dims[2];
    if (call_has(c, FAR))
        paged_spread(c, CACHE_WRITE_K_CACHE, PAGES_FAR_STRIDE);
    if (!call_has(c, PACKED))
        return;
    /* a token's stride as if q with three times as many heads were in the same row */
    operand_set_stride(k, 0, 4 * row + more);
    operand_set_stride(v, 0, 4 * row + more);
    operand_place_inside(v, k, row);
}

/* The functions from here on fill the inputs of a call. */

/* Exchanges two numbers. */
static void swap(int64_t *a, int64_t *b)
{
    const int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Reverses an array. */
static void reverse(int64_t *a, int count)
{
    for (int i = 0; i < count / 2; i++)
        swap(&a[i], &a[count - 1 - i]);
}

/* Reverses the order of the pages in `slots`: tokens of the last page come first. */
static void reverse_pages(const struct call *c, int64_t *slots)
{
    const int tokens = c->args.cache_write.tokens, size = c->desc.cache_write.cache.page_size;
    reverse(slots, tokens);
    for (int i = 0, end; i < tokens; i = end) {
        end = i + 1;
        while (end < tokens && slots[end] == slots[end - 1] - 1 && slots[end - 1] % size)
            end++;
        reverse(&slots[i], end - i);
    }
}

/* Shuffles the slots and replaces some by negative ones, by the shape's flags. */
static void change_slots(struct call *c, int64_t *slots)
{
    const bool whole = block_scaled(c);
    const int tokens = c->args.cache_write.tokens, size = c->desc.cache_write.cache.page_size;
    if (call_has(c, SHUFFLED) && whole)
        reverse_pages(c, slots);
    for (int i = tokens - 1; call_has(c, SHUFFLED) && !whole && i > 0; i--)
        swap(&slots[i], &slots[random_bits(&c->random) % (uint64_t)(i + 1)]);
    for (int i = 0; call_has(c, GAPS) && i < tokens; i++) {
        const bool gap = whole ? i >= tokens - 3 || slots[i] % size * 3 > size * 2 : i % 3 == 2;
        if (gap)
            slots[i] = i % 2 ? -1 : INT64_MIN;
    }
}

/* Fills in the slots of all runs in this launch. */
static void fill_slots(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    const int size = c->desc.cache_write.cache.page_size;
    for (int i = 0, token = 0, first = 0; i < s->count; first += count_pages(c, i++)) {
        for (int t = 0; t < s->runs[i].tokens; t++, token++) {
            const int at = s->runs[i].first + c->launches * s->runs[i].tokens + t;
            own->slots[token] = (int64_t)own->pages[first + at / size] * size + at % size;
        }
    }
    change_slots(c, own->slots);
    for (int t = 0; t < c->args.cache_write.tokens; t++)
        operand_set_int(call_operand(c, CACHE_WRITE_SLOT_MAPPING), AT(t), own->slots[t]);
}

/* Fills the new keys and values; with HUGE some rows have extreme numbers. */
static void fill_inputs(struct call *c)
{
    const int last = c->args.cache_write.tokens - 1;
    for (int part = 0; part < CACHE_PARTS; part++) {
        struct operand *in = input(c, part);
        operand_set_random(in, &c->random);
        for (int64_t i = 0; call_has(c, HUGE) && i < in->dims[2]; i++) {
            operand_set(in, AT(1, 0, i), 0);
            operand_set(in, AT(2, 0, i), i % 2 ? 128 * (1 + (double)(i % 255)) : -1024);
            operand_set(in, AT(last, 0, i), 0);
        }
    }
}

/* Fills the cache before the launch: tokens in some slots, and the scale of the tensor. */
static void fill_cache(struct call *c)
{
    const struct own *own = c->own;
    const int tokens = c->args.cache_write.tokens;
    struct paged p = cache_of(c);
    for (int page = call_has(c, FAR) ? own->spare : 0; page < p.page_count; page++) {
        paged_touch(&p, page);
        if (!block_scaled(c) || page % 2 || call_has(c, FAR))
            paged_fill_token(&p, (struct slot){.page = page, .token = page % p.desc.page_size},
                             &c->random);
    }
    for (int token = 0, end; block_scaled(c) && token < tokens; token = end) {
        const int64_t slot = own->slots[token];
        end = slots_run_end(p.desc.page_size, own->slots, tokens, token);
        if (slot >= 0)
            paged_fill_page(&p, slot / p.desc.page_size, (int)(slot % p.desc.page_size),
                            &c->random);
    }
}

/* Makes all inputs. With pages far apart, the last pages are the ones in use. */
static void fill(struct call *c)
{
    struct own *own = c->own;
    int32_t *order = shuffled_pages(own->used + own->spare, &c->random);
    own->pages = call_allocate(c, (size_t)own->used + 1, sizeof(*own->pages));
    own->slots = call_allocate(c, (size_t)c->args.cache_write.tokens + 1, sizeof(*own->slots));
    for (int i = 0; i < own->used; i++)
        own->pages[i] = call_has(c, FAR) || call_has(c, IN_ORDER) ? own->spare + i : order[i];
    free(order);
    fill_slots(c);
    fill_inputs(c);
    fill_cache(c);
}

/* Prepares the next launch, with other slots and inputs. Returns false after the last launch. */
static bool again(struct call *c)
{
    if (c->launches == launches(c))
        return false;
    fill_slots(c);
    fill_inputs(c);
    return true;
}

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c) { return block_scaled(c) || !call_has(c, STEPS); }

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct attn_cache_write_desc *d = &c->desc.cache_write;
    const double tokens = c->args.cache_write.tokens;
    return paged_move_bytes(&d->cache, tokens * d->kv_heads, d->head_dim + d->head_dim_v) +
           8 * tokens;
}

const struct verify_op verify_cache_write = {
    .op = "cache_write",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=4096"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, runs[0].tokens), 1 << 20, "of one sequence"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024, "key/value heads"},
            {"page_size", offsetof(struct shape, page_size), 65536, "for a kernel that takes any"},
        },
    .own_size = sizeof(struct own),
    .takes = takes,
    .size = size,
    .steps = 4,
    .place = place,
    .fill = fill,
    .compare = compare,
    .again = again,
    .least_bytes = least_bytes,
};

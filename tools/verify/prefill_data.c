/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes inputs of prefill's calls: tokens, scales, masks, work lists, and keys and
 * queries with large logits.
 */
#include <math.h>

#include "tools/verify/compare.h"
#include "tools/verify/prefill.h"

/* Fills all tokens of `o` from token `first` on; tokens before `first` stay poison. */
static void fill_tokens(struct call *c, struct operand *o, int64_t first)
{
    for (int64_t t = first; t < o->dims[0]; t++)
        for (int64_t h = 0; h < o->dims[1]; h++)
            operand_set_random_run(o, AT(t, h), o->dims[2], o->size == 1 ? 16 : 2, &c->random);
}

/* Fills the scales of q, k and v, different for each head, so that logits are a few units for
 * elements up to 16. */
static void fill_descales(struct call *c)
{
    static const struct {
        unsigned operand;
        float least;
    } scales[] = {{PREFILL_Q_DESCALE, 0.06f}, {PREFILL_K_DESCALE, 0.4f}, {PREFILL_V_DESCALE, 0.1f}};
    for (size_t i = 0; i < COUNT(scales); i++) {
        struct operand *o = call_operand(c, scales[i].operand);
        const int64_t heads = o->schema.ndim > 1 ? o->dims[1] : 1;
        for (int64_t at = 0; o->given && at < operand_count(o); at++)
            operand_set(o, AT(at / heads, at % heads), scales[i].least * (1 + (float)(at % 5) / 8));
    }
}

double prefill_descale(struct call *c, unsigned number, int64_t s, int64_t head)
{
    const struct operand *o = call_operand(c, number);
    if (!o->given)
        return 1;
    const struct attn_prefill_desc *desc = &c->desc.prefill;
    if (number == PREFILL_Q_DESCALE && desc->qkv_scale == ATTN_QKV_SCALE_KV_HEAD)
        head = head * desc->kv_heads / desc->heads;
    return o->schema.ndim > 1 ? operand_value(o, AT(s, head)) : operand_value(o, AT(0));
}

/* Writes a key of sequence s to `to`: the cache's key, or for keys in tensors new elements of 6 or
 * -6, times the scale. */
static void choose_key(struct call *c, int s, int key, int head, double *to)
{
    const struct own *own = c->own;
    struct operand *k = call_operand(c, PREFILL_K);
    const struct paged p = k->given ? (struct paged){0} : prefill_cache(c);
    for (int d = 0; d < c->desc.prefill.head_dim; d++) {
        to[d] = d % 3 ? 6 : -6;
        if (k->given)
            operand_set(k, AT(own->cu_k[s] + key, head, d), to[d]);
        if (k->given)
            to[d] *= prefill_descale(c, PREFILL_K_DESCALE, s, head);
        else
            to[d] = paged_value(&p, CACHE_K, page_lists_slot(&own->lists, s, key, head), d);
    }
}

/* Gives the last query of each sequence the signs of the sequence's first key, or with LATE of its
 * last key. */
static void point_the_same_way(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_prefill_desc *desc = &c->desc.prefill;
    struct operand *q = call_operand(c, PREFILL_Q);
    double *key = call_allocate(c, (size_t)desc->head_dim, sizeof(*key));
    for (int s = 0; s < c->args.prefill.batch; s++) {
        for (int h = 0; h < desc->heads; h++) {
            choose_key(c, s, call_has(c, LATE) ? own->kv_lens[s] - 1 : 0,
                       h / (desc->heads / desc->kv_heads), key);
            const double scale =
                c->args.prefill.scale * prefill_descale(c, PREFILL_Q_DESCALE, s, h);
            double size = desc->q_dtype == ATTN_FP8 ? 64 : desc->paged ? 16 : 6;
            /* every other sequence has a smaller scale: logits of 71 to 141 as exponents of 2 */
            if (call_has(c, LATE))
                size = late_query(key, desc->head_dim, s % 2 ? 0.4 * scale : scale);
            if (call_has(c, SLIGHT))
                size = slight_query(key, desc->head_dim, scale);
            if (desc->q_dtype == ATTN_FP8)
                size = fmin(size, 128); /* the largest fnuz number is 240 */
            for (int d = 0; d < desc->head_dim; d++)
                operand_set(q, AT(own->cu_q[s + 1] - 1, h, d), key[d] < 0 ? -size : size);
        }
    }
}

/* Makes lists name no real page for pages that no query sees because of the mask's window or
 * chunks. */
static void hide_pages(struct call *c)
{
    struct own *own = c->own;
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    if (mask == ATTN_MASK_WINDOW && a->window_left >= 0)
        page_lists_hide(c, &own->lists, own->cu_q, a->window_left, 0);
    if (mask == ATTN_MASK_CHUNK)
        page_lists_hide(c, &own->lists, own->cu_q, 0, a->chunk);
}

/* Fills the keys and values, in a cache or in tensors. */
static void fill_keys(struct call *c)
{
    struct own *own = c->own;
    const int batch = c->args.prefill.batch;
    if (c->desc.prefill.paged) {
        struct paged p = prefill_cache(c);
        hide_pages(c);
        page_lists_fill(c, &own->lists, &p, PREFILL_KV_LENS);
        return;
    }
    fill_tokens(c, call_operand(c, PREFILL_K), own->cu_k[0]);
    fill_tokens(c, call_operand(c, PREFILL_V), own->cu_k[0]);
    operand_set_ints(call_operand(c, PREFILL_CU_SEQLENS_K), own->cu_k, batch + 1);
}

/* Sets queries and keys so that the maximum grows with every tile of keys. All elements of queries
 * are 1, and the elements of a key are equal. A key has 2^growth times the weight of the key 64
 * tokens before. */
static void grow_keys(struct call *c)
{
    const struct attn_prefill_desc *d = &c->desc.prefill;
    struct operand *q = call_operand(c, PREFILL_Q), *k = call_operand(c, PREFILL_K);
    const double step =
        ((const struct shape *)c->shape)->trace.growth / (64 * sqrt(d->head_dim) * 1.44269504);
    const int keys = c->args.prefill.max_seqlen_k;
    for (int64_t t = 0; t < q->dims[0]; t++)
        for (int64_t h = 0; h < q->dims[1]; h++)
            for (int64_t e = 0; e < q->dims[2]; e++)
                operand_set(q, AT(t, h, e), 1);
    for (int64_t t = 0; t < k->dims[0]; t++)
        for (int64_t h = 0; h < k->dims[1]; h++)
            for (int64_t e = 0; e < k->dims[2]; e++)
                operand_set(k, AT(t, h, e), step * (double)(t % keys));
}

/* True if a random custom mask shows key `k` to a query: always in the prefix, else with a chance
 * of two thirds. With PREFIX one of 4,096 keys of the prefix is hidden, so that a tile has at most
 * a few hidden keys. */
static bool shows(struct call *c, int64_t k)
{
    enum { SELDOM = 4096 };
    const bool prefix = k < ((const struct shape *)c->shape)->trace.prefix;
    return prefix ? !call_has(c, PREFIX) || random_bits(&c->random) % SELDOM != 0
                  : random_bits(&c->random) % 3 != 0;
}

/* Sets a query's row of a mask of blocks, which begins at byte `at`. Sets the query's row of a
 * custom mask, `seen`, which hides the same keys. The query sees all or some of the sequence's
 * `keys` keys. */
static void fill_blocks(struct call *c, int64_t at, int64_t keys, uint8_t *seen)
{
    struct operand *const mask = call_operand(c, PREFILL_CUSTOM_MASK);
    const int64_t bytes = prefill_row_bytes(keys);
    const bool whole = c->traced || random_bits(&c->random) % 2;
    const int64_t sees = whole ? keys : (int64_t)(random_bits(&c->random) % (unsigned)(keys + 1));
    for (int64_t i = 0; i < bytes; i++)
        operand_set_int(mask, AT(at + i), i < 4 ? sees >> 8 * i & 255 : 0);
    for (int64_t block = 0; block * 64 < keys; block++) {
        const int64_t byte = at + 4 + block / 8;
        if (!shows(c, block * 64))
            continue;
        operand_set_int(mask, AT(byte), operand_int(mask, AT(byte)) | 1 << block % 8);
        for (int64_t k = block * 64; k < block * 64 + 64 && k < sees; k++)
            seen[k] = 1;
    }
}

/* Fills the mask of blocks. */
static void fill_all_blocks(struct call *c)
{
    struct own *own = c->own;
    const int32_t batch = c->args.prefill.batch;
    own->seen = call_allocate(c, (size_t)own->seen_indptr[batch] + 1, 1);
    for (int s = 0; s < batch; s++)
        for (int64_t t = 0; t < own->cu_q[s + 1] - own->cu_q[s]; t++)
            fill_blocks(c, own->mask_indptr[s] + t * prefill_row_bytes(own->kv_lens[s]),
                        own->kv_lens[s], own->seen + own->seen_indptr[s] + t * own->kv_lens[s]);
}

/* Fills the custom mask. own->mask_indptr has the first byte of each sequence in the mask. */
static void fill_mask(struct call *c)
{
    const struct own *own = c->own;
    struct operand *mask = call_operand(c, PREFILL_CUSTOM_MASK);
    for (int s = 0; mask->given && s <= c->args.prefill.batch; s++)
        operand_set_int(call_operand(c, PREFILL_MASK_INDPTR), AT(s), own->mask_indptr[s]);
    if (c->desc.prefill.mask == ATTN_MASK_BLOCKS) {
        fill_all_blocks(c);
        return;
    }
    for (int s = 0; mask->given && s < c->args.prefill.batch; s++)
        for (int64_t i = own->mask_indptr[s]; i < own->mask_indptr[s + 1]; i++)
            operand_set_int(mask, AT(i), shows(c, (i - own->mask_indptr[s]) % own->kv_lens[s]));
}

/* Fills the lists of the reduction, as the plan has made them. */
static void fill_reduction(struct call *c)
{
    const struct own *own = c->own;
    operand_set_ints(call_operand(c, PREFILL_REDUCE_INDPTR), own->plan.reduce_indptr,
                     own->sizes.tiles + 1);
    operand_set_ints(call_operand(c, PREFILL_REDUCE_PARTIAL_MAP), own->plan.reduce_partial_map,
                     own->plan.reduce_indptr[own->sizes.tiles]);
    operand_clear(call_operand(c, PREFILL_TICKETS));
}

void prefill_fill(struct call *c)
{
    struct own *own = c->own;
    struct operand *out = call_operand(c, PREFILL_OUT);
    fill_mask(c);
    fill_descales(c);
    fill_tokens(c, call_operand(c, PREFILL_Q), own->cu_q[0]);
    for (int64_t t = own->cu_q[0]; t < out->dims[0]; t++)
        for (int64_t h = 0; h < out->dims[1]; h++)
            operand_touch(out, AT(t, h));
    fill_keys(c);
    operand_set_ints(call_operand(c, PREFILL_CU_SEQLENS_Q), own->cu_q, c->args.prefill.batch + 1);
    if (call_has(c, HUGE_LOGIT | LATE | SLIGHT))
        point_the_same_way(c);
    if (((const struct shape *)c->shape)->trace.growth)
        grow_keys(c);
    operand_set_ints(call_operand(c, PREFILL_WORK_INDPTR), own->plan.work_indptr,
                     c->args.prefill.work_lists + 1);
    operand_set_ints(call_operand(c, PREFILL_WORK_INFO), own->plan.work_info,
                     8 * (int64_t)prefill_items(c));
    if (c->desc.prefill.one_launch)
        fill_reduction(c);
    call_fill_sinks(c, call_operand(c, PREFILL_SINKS));
    c->args.prefill.hook_arg = call_fill_hook(c);
}

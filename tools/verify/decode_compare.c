/* SPDX-License-Identifier: Apache-2.0
 *
 * This file compares the results of decode, rope_decode and mla_decode kernels with the reference:
 * whole sequences, and the parts into which a work list splits them. A task is one KV head of one
 * sequence.
 */
#include <stdlib.h>

#include "tools/verify/compare.h"
#include "tools/verify/decode.h"

/* A call, and the reference with the call's inputs: comparison.problem. */
struct expectation {
    struct call *call;
    struct ref_decode reference;
};

/* A part of a sequence that one work item covers, or the whole sequence, for one KV head. */
struct piece {
    int s, kv_head;
    /* First row of the partial results; negative: the results are final. */
    int partial_row;
    struct ref_part part;
    double *scratch;
};

/* Compares the rows of a piece with the reference: final results, or partial results. */
static void compare_piece(struct comparison *comparison, const struct piece *piece)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int32_t *qo = ((const struct own *)c->own)->qo;
    const int s = piece->s, group = DESC(c, heads) / kv_heads(c);
    const bool partial = piece->part.partial;
    struct operand *out = partial ? OPERAND(c, PARTIAL_OUT) : OPERAND(c, OUT);
    struct operand *lse = partial ? OPERAND(c, PARTIAL_LSE) : OPERAND(c, LSE);
    const int64_t first = partial ? piece->partial_row : qo[s];
    struct ref_row *r = verify_allocate(1, sizeof(*r));
    for (int h = piece->kv_head * group; h < (piece->kv_head + 1) * group; h++) {
        struct place at = {.s = s, .head = h};
        for (; at.row < qo[s + 1] - qo[s]; at.row++) {
            const int64_t row = first + at.row;
            ref_decode_row(&e->reference, s, h, at.row, &piece->part, piece->scratch, r);
            compare_result(comparison, &at, out, row, lse->given ? lse : NULL,
                           partial ? AT(row, h) : AT(h, row), r);
        }
    }
    free(r);
}

/* Compares the pieces into which the work list divides a sequence, for one KV head. */
static void compare_items(struct comparison *comparison, struct piece *piece)
{
    struct call *c = ((const struct expectation *)comparison->problem)->call;
    const struct own *own = c->own;
    const int group = DESC(c, heads) / kv_heads(c);
    const int64_t keys = piece->part.end;
    for (int32_t i = 0; i < own->items; i++) {
        const int32_t *info = own->plan.work_info + INFO * i;
        if (info[0] != piece->s || (info[7] & 0xffff) != piece->kv_head * group)
            continue;
        const bool partial = info[1] >= 0; /* false: it covers all visible keys */
        piece->partial_row = info[1];
        piece->part.partial = partial;
        piece->part.first = partial ? info[4] : 0;
        piece->part.end = partial && info[5] < keys ? info[5] : keys;
        compare_piece(comparison, piece);
    }
}

/* Compares the query heads of one KV head and sequence; `task` is the index of the pair. */
static void compare_kv_head(struct comparison *comparison, int task)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int s = task / kv_heads(c), kv_head = task % kv_heads(c);
    const int keys = ((const struct own *)c->own)->kv_lens[s];
    const size_t room = (size_t)keys + 1;
    double *k = verify_allocate(room * (size_t)DESC(c, head_dim), sizeof(*k));
    double *v = verify_allocate(room * (size_t)DESC(c, head_dim_v), sizeof(*v));
    struct piece piece = {
        .s = s,
        .kv_head = kv_head,
        .part = {.k = k, .v = v, .end = keys},
        .scratch = verify_allocate(room, sizeof(double)),
    };
    ref_decode_gather(&e->reference, s, kv_head, k, v);
    if (is_step(c))
        rope_decode_replace(c, s, kv_head, k, v);
    if (is_split(c))
        compare_items(comparison, &piece);
    if (!is_split(c) || at_once(c)) {
        piece.part = (struct ref_part){.k = k, .v = v, .end = keys};
        compare_piece(comparison, &piece);
    }
    free(piece.scratch);
    free(v);
    free(k);
}

/* Sets the keys that a query sees in the reference, from the mask and window. */
static void set_window(const struct call *c, struct ref_decode *r)
{
    const bool window = !is_latent(c) && DESC(c, mask) == ATTN_MASK_WINDOW;
    const int left = window ? PLAIN_ARG(c, window_left) : -1;
    const int right = window ? PLAIN_ARG(c, window_right) : -1;
    r->left = left >= 0 ? left : INT32_MAX;
    r->right = right >= 0 ? right : INT32_MAX;
    if (DESC(c, mask) == ATTN_MASK_CAUSAL && !is_sharded(c))
        r->right = 0;
    if (DESC(c, mask) == ATTN_MASK_CHUNK) {
        r->right = 0;
        r->chunk = PLAIN_ARG(c, chunk);
    }
}

/* Reads the queries and sinks as doubles. */
static void read_inputs(struct call *c)
{
    struct own *own = c->own;
    const struct operand *q = OPERAND(c, Q), *sinks = OPERAND(c, SINKS);
    const int64_t row = q->dims[1] * q->dims[2], count = own->qo[ARG(c, batch)] * row;
    own->q =
        is_step(c) ? rope_decode_queries(c) : call_allocate(c, (size_t)count + 1, sizeof(*own->q));
    double scale = 1;
    for (int64_t i = 0; i < count && !is_step(c); i++) {
        const int64_t token = i / row, head = i % row / q->dims[2], d = i % q->dims[2];
        scale = d ? scale : decode_q_scale(c, token, head);
        own->q[i] = scale * operand_value(q, AT(token, head, d));
    }
    if (!sinks->given)
        return;
    own->sinks = call_allocate(c, (size_t)DESC(c, heads), sizeof(*own->sinks));
    for (int h = 0; h < DESC(c, heads); h++)
        own->sinks[h] = operand_value(sinks, AT(h));
}

/* Returns the largest relative error of the inputs of products (q, keys and values). Queries of
 * rope_decode are rounded once, by u |q|. The arithmetic before the rounding has an error of 2^-16
 * of the magnitudes of its terms. Another u covers this error if the terms' magnitudes, summed over
 * a head, are below 2^7 times q (fp16: 2^5). */
static double inputs_error(const struct call *c, const struct precision *p)
{
    return is_step(c) ? 2 * p->unit : DESC(c, cache).layout == ATTN_KV_PACKED ? p->unit : 0;
}

void decode_compare(struct call *c)
{
    const struct own *own = c->own;
    const enum cache_part value = is_latent(c) ? CACHE_K : CACHE_V;
    read_inputs(c);
    struct expectation e = {
        .call = c,
        .reference =
            {
                .attention = decode_attention(c),
                .q = own->q,
                .qo_indptr = own->qo,
                .kv_lens = own->kv_lens,
                .pages = decode_lists(c)->pages,
                .first_page = decode_lists(c)->first,
                .there = own->there,
                .k = paged_reference(&own->cache, CACHE_K, DESC(c, head_dim)),
                .v = paged_reference(&own->cache, value, DESC(c, head_dim_v)),
                .heads = DESC(c, heads),
                .kv_heads = kv_heads(c),
                .sinks = own->sinks,
                .mask = has_masks(c) ? SEPARATE_OPERAND(c, CUSTOM_MASK)->image : own->seen,
                .mask_indptr = own->mask_indptr,
            },
    };
    set_window(c, &e.reference);
    if (has_weights_fp8(c))
        comparison_weights_fp8(&e.reference.attention, c->target,
                               call_is_tuned(c, "weights=scaled"));
    const struct precision *precision = OPERAND(c, OUT)->precision;
    struct comparison comparison = {
        .precision = precision,
        .attention = &e.reference.attention,
        .inputs = inputs_error(c, precision),
        .tasks = ARG(c, batch) * kv_heads(c),
        .threads = c->threads,
        .task = compare_kv_head,
        .problem = &e,
    };
    if (is_step(c))
        rope_decode_compare_cache(c);
    value_product_compare(c);
    comparison_run(&comparison, c->row);
}

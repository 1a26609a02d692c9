/* SPDX-License-Identifier: Apache-2.0
 *
 * This file compares the results of prefill kernels with the reference. A task is one head of one
 * sequence. compare.c derives the bounds.
 */
#include <stdlib.h>

#include "tools/reference/prefill.h"
#include "tools/verify/compare.h"
#include "tools/verify/hook.h"
#include "tools/verify/prefill.h"

/* A call, and the reference with the call's inputs: comparison.problem. */
struct expectation {
    struct call *call;
    struct ref_prefill reference;
};

/* Compares the rows of a work item for one head: final results, or partial results. */
static void compare_item(struct comparison *comparison, const int32_t *info, struct place at,
                         double *scratch)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int32_t first = ((const struct own *)c->own)->cu_q[at.s];
    const bool part = info[1] >= 0;
    struct operand *out = call_operand(c, part ? PREFILL_PARTIAL_OUT : PREFILL_OUT);
    struct operand *lse = call_operand(c, part ? PREFILL_PARTIAL_LSE : PREFILL_LSE);
    struct ref_row *r = verify_allocate(1, sizeof(*r));
    for (int32_t token = info[2]; token < info[3]; token++) {
        const int64_t row = part ? info[1] + (token - info[2]) : token;
        at.row = token - first;
        if (part)
            ref_prefill_part(&e->reference, at.s, at.head, at.row, (int64_t[]){info[4], info[5]},
                             scratch, r);
        else
            ref_prefill_row(&e->reference, at.s, at.head, at.row, scratch, r);
        compare_result(comparison, &at, out, row, lse->given ? lse : NULL,
                       part ? AT(row, at.head) : AT(at.head, row), r);
    }
    free(r);
}

/* Compares a head's rows of one sequence item by item. */
static void compare_items(struct comparison *comparison, struct place at, double *scratch)
{
    struct call *c = ((const struct expectation *)comparison->problem)->call;
    const struct own *own = c->own;
    for (int32_t i = 0; i < prefill_items(c); i++) {
        const int32_t *info = own->plan.work_info + 8 * (size_t)i;
        const int first = info[7] & 0xffff, end = info[7] >> 16 & 0xffff;
        /* an item of a one-launch kernel without partial results is compared with all rows of the
         * sequence */
        const bool compared = info[1] >= 0 || !c->desc.prefill.one_launch;
        if (compared && info[0] == at.s && first <= at.head && at.head < end)
            compare_item(comparison, info, at, scratch);
    }
}

/* Compares the rows of one sequence and head; `task` is the index of the pair. */
static void compare_head(struct comparison *comparison, int task)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int32_t *cu_q = ((const struct own *)c->own)->cu_q;
    struct operand *lse = call_operand(c, PREFILL_LSE);
    struct ref_row *r = verify_allocate(1, sizeof(*r));
    double *scratch = verify_allocate((size_t)c->args.prefill.max_seqlen_k + 1, sizeof(*scratch));
    struct place at = {.s = task / c->desc.prefill.heads, .head = task % c->desc.prefill.heads};
    const bool by_items = c->desc.prefill.planned && !c->desc.prefill.one_launch;
    if (c->desc.prefill.planned)
        compare_items(comparison, at, scratch);
    for (; !by_items && at.row < cu_q[at.s + 1] - cu_q[at.s]; at.row++) {
        const int64_t token = cu_q[at.s] + at.row;
        ref_prefill_row(&e->reference, at.s, at.head, at.row, scratch, r);
        compare_result(comparison, &at, call_operand(c, PREFILL_OUT), token,
                       lse->given ? lse : NULL, AT(at.head, token), r);
    }
    free(scratch);
    free(r);
}

/* Returns a dense copy, in doubles, of operand `number`, times the scales of operand `descale`.
 * `cu`: first token of each sequence. */
static double *read_rows(struct call *c, unsigned number, unsigned descale, const int32_t *cu)
{
    const struct operand *o = call_operand(c, number);
    const int64_t first = cu[0], end = cu[c->args.prefill.batch];
    double *values =
        call_allocate(c, (size_t)((end - first) * o->dims[1] * o->dims[2]) + 1, sizeof(*values));
    double *to = values;
    int64_t s = 0;
    for (int64_t t = first; t < end; t++) {
        while (t >= cu[s + 1])
            s++;
        for (int64_t h = 0; h < o->dims[1]; h++) {
            const double scale = prefill_descale(c, descale, s, h);
            for (int64_t d = 0; d < o->dims[2]; d++)
                *to++ = scale * operand_value(o, AT(t, h, d));
        }
    }
    return values;
}

/* Returns the keys or values of all sequences in the cache, as a dense copy in doubles. */
static double *read_pages(struct call *c, const struct paged *p, enum cache_part part)
{
    const struct own *own = c->own;
    const size_t tokens = (size_t)own->cu_k[c->args.prefill.batch];
    double *values =
        call_allocate(c, tokens * (size_t)p->kv_heads * (size_t)p->dim[part] + 1, sizeof(*values));
    double *to = values;
    for (int s = 0; s < c->args.prefill.batch; s++)
        for (int t = 0; t < own->kv_lens[s]; t++)
            for (int h = 0; h < p->kv_heads; h++)
                for (int d = 0; d < p->dim[part]; d++)
                    *to++ = paged_value(p, part, page_lists_slot(&own->lists, s, t, h), d);
    return values;
}

/* Reads the queries, keys, values and sinks as doubles. */
static void read_inputs(struct call *c)
{
    struct own *own = c->own;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const struct operand *sinks = call_operand(c, PREFILL_SINKS);
    const int batch = c->args.prefill.batch;
    own->q = read_rows(c, PREFILL_Q, PREFILL_Q_DESCALE, own->cu_q);
    if (d->paged) {
        const struct paged p = prefill_cache(c);
        own->k = read_pages(c, &p, CACHE_K);
        own->v = read_pages(c, &p, CACHE_V);
    } else {
        own->k = read_rows(c, PREFILL_K, PREFILL_K_DESCALE, own->cu_k);
        own->v = read_rows(c, PREFILL_V, PREFILL_V_DESCALE, own->cu_k);
    }
    own->sinks = d->sinks ? call_allocate(c, (size_t)d->heads, sizeof(*own->sinks)) : NULL;
    for (int h = 0; d->sinks && h < d->heads; h++)
        own->sinks[h] = operand_value(sinks, AT(h));
    own->dense_q = call_allocate(c, (size_t)batch + 1, sizeof(*own->dense_q));
    own->dense_k = call_allocate(c, (size_t)batch + 1, sizeof(*own->dense_k));
    for (int s = 0; s <= batch; s++) {
        own->dense_q[s] = own->cu_q[s] - own->cu_q[0];
        own->dense_k[s] = own->cu_k[s] - own->cu_k[0];
    }
}

/* Sets the keys that a query sees in the reference, from the mask and window. */
static void set_window(const struct call *c, struct ref_prefill *r)
{
    if (c->desc.prefill.mask == ATTN_MASK_CHUNK)
        r->chunk = c->args.prefill.chunk;
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    r->left = r->right = INT32_MAX;
    if (mask == ATTN_MASK_CAUSAL || mask == ATTN_MASK_CHUNK)
        r->right = 0;
    if (mask == ATTN_MASK_WINDOW && a->window_left >= 0)
        r->left = a->window_left;
    if (mask == ATTN_MASK_WINDOW && a->window_right >= 0)
        r->right = a->window_right;
}

void prefill_compare(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    read_inputs(c);
    struct expectation e = {
        .call = c,
        .reference =
            {
                .q = own->q,
                .k = own->k,
                .v = own->v,
                .cu_q = own->dense_q,
                .cu_k = own->dense_k,
                .batch = c->args.prefill.batch,
                .heads = d->heads,
                .kv_heads = d->kv_heads,
                .sinks = own->sinks,
                .mask = own->seen ? own->seen : call_operand(c, PREFILL_CUSTOM_MASK)->image,
                .mask_indptr = own->seen_indptr,
                .attention =
                    {
                        .dim = d->head_dim,
                        .dim_v = d->head_dim_v,
                        .scale = c->args.prefill.scale,
                        .soft_cap = d->soft_cap ? c->args.prefill.soft_cap : 0,
                        .logits = c->hook ? hook_function(c->hook) : NULL,
                        .logits_arg = c->hook_arg,
                    },
            },
    };
    set_window(c, &e.reference);
    const struct precision *precision = call_operand(c, PREFILL_OUT)->precision;
    if (d->q_dtype == ATTN_FP8)
        comparison_weights_fp8(&e.reference.attention, c->target, false);
    else if (call_is_tuned(c, "sums=rounded"))
        comparison_weights_rounded(&e.reference.attention, precision);
    else if (call_is_tuned(c, "sums=cut"))
        comparison_weights_cut(&e.reference.attention, precision);
    struct comparison comparison = {
        .precision = precision,
        .attention = &e.reference.attention,
        .inputs = paged_scales_rows(&d->cache) ? precision->unit : 0,
        .tasks = c->args.prefill.batch * d->heads,
        .threads = c->threads,
        .task = compare_head,
        .problem = &e,
    };
    comparison_run(&comparison, c->row);
}

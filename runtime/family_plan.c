/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the plan family: work lists of decode, made on the device from lengths there. */
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"
#include "runtime/plan.h"

/* Two counts of a chunk of 64 sequences share a register: 64 + parts pieces are below 2^16. */
enum { PARTS_MAX = 65536 - 64 - 1 };

static int normalise(const void *given, union attn_desc *out)
{
    out->plan = *(const struct attn_plan_desc *)given;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    (void)desc;
    (void)key; /* one kernel plans for every shape */
}

static int check(const struct attn_plan_args *a, const struct attn_plan_numbers *n)
{
    const struct attn_decode_plan *p = &a->plan;
    if (!a->lengths.kv_lens)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: lengths.kv_lens is NULL");
    if (!p->work_indptr || !p->reduce_indptr || !p->reduce_final_map || !p->reduce_partial_map)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: a tensor of args.plan is NULL");
    if (!p->work_info || (uintptr_t)p->work_info % 16)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "plan: plan.work_info is NULL or not aligned to 16 bytes");
    if (n->parts > PARTS_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: more than 65471 lists for a kv head");
    return ATTN_OK;
}

static void set_tensors(const struct attn_plan_args *a, union attn_value *v)
{
    v[ATTN_ARG_KV_LENS].ptr = a->lengths.kv_lens;
    v[ATTN_ARG_QO_INDPTR].ptr = a->lengths.qo_indptr;
    v[ATTN_ARG_KV_INDPTR].ptr = a->lengths.kv_indptr;
    v[ATTN_ARG_WORK_INDPTR].ptr = a->plan.work_indptr;
    v[ATTN_ARG_WORK_INFO].ptr = a->plan.work_info;
    v[ATTN_ARG_REDUCE_INDPTR].ptr = a->plan.reduce_indptr;
    v[ATTN_ARG_REDUCE_FINAL_MAP].ptr = a->plan.reduce_final_map;
    v[ATTN_ARG_REDUCE_PARTIAL_MAP].ptr = a->plan.reduce_partial_map;
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    (void)desc;
    const struct attn_plan_args *a = args;
    const struct attn_decode_plan_shape *s = &a->shape;
    union attn_value *v = call->values;
    int r = attn_plan_check(s);
    if (r)
        return r;
    const struct attn_plan_numbers n = attn_plan_numbers(s);
    call->stream = a->stream;
    call->empty = s->batch == 0;
    if (call->empty)
        return ATTN_OK;
    r = check(a, &n);
    if (r)
        return r;
    set_tensors(a, v);
    v[ATTN_ARG_BATCH].i64 = s->batch;
    v[ATTN_ARG_MAX_SEQLEN_Q].i64 = s->q_len;
    v[ATTN_ARG_KV_HEADS].i64 = s->kv_heads;
    v[ATTN_ARG_GQA].i64 = s->heads / s->kv_heads;
    v[ATTN_ARG_WORKGROUPS].i64 = s->lists;
    v[ATTN_ARG_PAGE_SHIFT].i64 = __builtin_ctz((unsigned)s->page_size);
    v[ATTN_ARG_PARTS].i64 = n.parts;
    v[ATTN_ARG_PAIRS_PER_LIST].i64 = n.pairs_per_list;
    v[ATTN_ARG_UNIT_SHIFT].i64 = __builtin_ctzll((unsigned long long)n.unit);
    v[ATTN_ARG_UNIT_OVERHEAD].i64 = n.overhead;
    v[ATTN_ARG_GRAIN].i64 = n.grain;
    v[ATTN_ARG_REACH].i64 = n.reach;
    return ATTN_OK;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_plan_args *a = args;
    const struct attn_indptr q = {
        .name = "qo_indptr",
        .data = a->lengths.qo_indptr,
        .batch = a->shape.batch,
        .total = INT32_MAX,
        .longest = a->shape.q_len,
    };
    return a->lengths.qo_indptr ? attn_check_indptr(op->device, &q, a->stream) : ATTN_OK;
}

const struct attn_family attn_family_plan = {
    .op = "plan",
    .desc_size = sizeof(struct attn_plan_desc),
    .args_size = sizeof(struct attn_plan_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_SETS(KV_LENS),
            ATTN_SETS(QO_INDPTR),
            ATTN_SETS(KV_INDPTR),
            ATTN_SETS(WORK_INDPTR),
            ATTN_SETS(WORK_INFO),
            ATTN_SETS(REDUCE_INDPTR),
            ATTN_SETS(REDUCE_FINAL_MAP),
            ATTN_SETS(REDUCE_PARTIAL_MAP),
            ATTN_SETS(BATCH),
            ATTN_SETS(MAX_SEQLEN_Q),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(GQA),
            ATTN_SETS(WORKGROUPS),
            ATTN_SETS(PAGE_SHIFT),
            ATTN_SETS(PARTS),
            ATTN_SETS(PAIRS_PER_LIST),
            ATTN_SETS(UNIT_SHIFT),
            ATTN_SETS(UNIT_OVERHEAD),
            ATTN_SETS(GRAIN),
            ATTN_SETS(REACH),
        },
};

ATTN_PUBLIC int attn_plan_lookup(struct attn_device *device, const struct attn_plan_desc *desc,
                                 struct attn_op **op)
{
    return attn_lookup(device, &attn_family_plan, desc, op);
}

ATTN_PUBLIC int attn_plan_launch(const struct attn_op *op, const struct attn_plan_args *args)
{
    return attn_launch(op, &attn_family_plan, args);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the decode family: a few queries per sequence over a paged cache. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

enum { UNLIMITED = 1 << 30 }; /* of a window, as kernels see it: a sum of two still fits 32 bits */
enum { QUERIES_MAX = 64 };    /* of a sequence: what a description may say */
enum { WORK_WORDS = 8 };      /* of an item: struct attn_decode_plan */

static struct attn_cache_heads heads_of(const struct attn_decode_desc *d)
{
    return (struct attn_cache_heads){
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .head_dim_v = d->head_dim_v,
    };
}

static int check_desc(const struct attn_decode_desc *d)
{
    if (d->dtype != ATTN_BF16 && d->dtype != ATTN_FP16)
        return attn_fail(ATTN_BAD_ARGUMENT, "decode: dtype %d is neither ATTN_BF16 nor ATTN_FP16",
                         (int)d->dtype);
    if ((unsigned)d->mask > ATTN_MASK_CUSTOM)
        return attn_fail(ATTN_BAD_ARGUMENT, "decode: mask %d is none of enum attn_mask",
                         (int)d->mask);
    if ((unsigned)d->page_table > ATTN_PAGES_INDICES)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "decode: page_table %d is none of enum "
                         "attn_page_table",
                         (int)d->page_table);
    if (d->head_dim <= 0 || d->head_dim_v <= 0 || d->head_dim > 65536 || d->head_dim_v > 65536)
        return attn_fail(ATTN_BAD_ARGUMENT, "decode: head_dim %d and head_dim_v %d", d->head_dim,
                         d->head_dim_v);
    if (d->kv_heads <= 0 || d->heads <= 0 || d->heads % d->kv_heads)
        return attn_fail(ATTN_BAD_ARGUMENT, "decode: %d heads are not a multiple of %d kv_heads",
                         d->heads, d->kv_heads);
    if (d->q_len < 1 || d->q_len > QUERIES_MAX)
        return attn_fail(ATTN_BAD_ARGUMENT, "decode: q_len %d is not 1 to %d", d->q_len,
                         QUERIES_MAX);
    return ATTN_OK;
}

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_decode_desc d = *(const struct attn_decode_desc *)given;
    if (d.head_dim_v == 0)
        d.head_dim_v = d.head_dim;
    if (d.q_len == 0)
        d.q_len = 1;
    int r = check_desc(&d);
    if (r)
        return r;
    const struct attn_cache_heads heads = heads_of(&d);
    r = attn_cache_normalise("decode", d.dtype, &heads, &d.cache);
    if (r)
        return r;
    out->decode = d;
    return ATTN_OK;
}

/* A kernel of more queries has rows to spare; its loads, which take the time, are the same. */
static void add_q_len(struct attn_key *key, int q_len)
{
    static const struct {
        int q_len;
        const char *text;
    } larger[] = {
        {2, "2"}, {3, "3"}, {4, "4"},   {5, "5"},   {6, "6"},
        {7, "7"}, {8, "8"}, {16, "16"}, {32, "32"}, {64, "64"},
    };
    struct attn_key_field *field = attn_key_add_number(key, "q_len", q_len);
    for (unsigned i = 0, steps = 0; i < sizeof(larger) / sizeof(larger[0]); i++) {
        if (larger[i].q_len > q_len)
            attn_key_cover(field, larger[i].text, 5 + ++steps);
    }
}

/* The query of a q_len of 1 is the last one, which sees every key with either mask. */
static void add_mask(struct attn_key *key, const struct attn_decode_desc *d)
{
    static const char *const masks[] = {"none", "causal", "window", "custom"};
    struct attn_key_field *mask = attn_key_add(key, "mask", masks[d->mask]);
    if (d->mask != ATTN_MASK_NONE && d->mask != ATTN_MASK_CAUSAL)
        return;
    if (d->q_len == 1)
        attn_key_cover(mask, masks[d->mask == ATTN_MASK_NONE ? ATTN_MASK_CAUSAL : ATTN_MASK_NONE],
                       0);
    attn_key_cover(mask, "window", d->mask == ATTN_MASK_CAUSAL ? 2 : 4);
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_decode_desc *d = &desc->decode;
    attn_key_add(key, "dtype", attn_dtype_name(d->dtype));
    attn_key_cover(attn_key_add_number(key, "gqa", d->heads / d->kv_heads), "any", 1);
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add_number(key, "head_dim_v", d->head_dim_v);
    attn_cache_add_key(key, d->dtype, &d->cache);
    attn_key_add(key, "logits", d->logits ? d->logits : "none");
    attn_key_add_flag(key, "lse", d->lse);
    add_mask(key, d);
    attn_cache_add_page_size(key, &d->cache);
    attn_pages_add_key(key, d->page_table);
    add_q_len(key, d->q_len);
    attn_key_add_flag(key, "sinks", d->sinks);
    attn_key_add_flag(key, "soft_cap", d->soft_cap);
}

/* Launch. */

static bool aligned(const void *p) { return p && (uintptr_t)p % 16 == 0; }

static int check_work_list(const struct attn_decode_args *a)
{
    if (a->work_lists < 0 || a->partial_rows < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: a negative count");
    if (!a->work_indptr)
        return ATTN_OK;
    if (a->work_lists == 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: work_indptr is set, work_lists is 0");
    if (!aligned(a->work_info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: work_info is NULL or not aligned to 16 bytes");
    if (!aligned(a->partial_out) || !a->partial_lse)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: with work_indptr, partial_lse is NULL "
                               "or partial_out is NULL or not aligned to 16 bytes");
    return ATTN_OK;
}

/* What the variant needs besides tensors. */
static int check_features(const struct attn_decode_desc *d, const struct attn_decode_args *a)
{
    if (d->lse && !a->lse)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: desc.lse is set, lse is NULL");
    if (d->sinks && !a->sinks)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: desc.sinks is set, sinks is NULL");
    if (d->soft_cap && !(a->soft_cap > 0))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: desc.soft_cap is set, soft_cap is not positive");
    if (d->mask == ATTN_MASK_WINDOW && (a->window_left < -1 || a->window_right < -1))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: a window distance is below -1 (no limit)");
    if (d->mask == ATTN_MASK_CUSTOM && (!a->custom_mask || !a->mask_indptr))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: desc.mask is ATTN_MASK_CUSTOM, "
                                                  "custom_mask or mask_indptr is NULL");
    if (!isfinite(a->scale))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: scale is not finite");
    return ATTN_OK;
}

static int32_t queries(const struct attn_decode_desc *d, const struct attn_decode_args *a)
{
    return a->q_len ? a->q_len : d->q_len;
}

static int check(const struct attn_decode_desc *d, const struct attn_decode_args *a)
{
    if (!aligned(a->q) || !aligned(a->out))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: q or out is NULL or not aligned to 16 bytes");
    if (a->q_len < 0 || a->q_len > d->q_len)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: q_len is negative or above desc.q_len");
    if (!a->qo_indptr && a->total_q < (int64_t)a->batch * queries(d, a))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: total_q is below batch * q_len, and qo_indptr is NULL");
    int r = check_features(d, a);
    return r ? r : check_work_list(a);
}

static int64_t distance(int32_t d) { return d < 0 || d > UNLIMITED ? UNLIMITED : d; }

/* The mask of the descriptor, as a kernel with a run-time window sees it. */
static void set_window(union attn_value *v, enum attn_mask mask, const struct attn_decode_args *a)
{
    v[ATTN_ARG_WINDOW_LEFT].i64 = mask == ATTN_MASK_WINDOW ? distance(a->window_left) : UNLIMITED;
    v[ATTN_ARG_WINDOW_RIGHT].i64 = mask == ATTN_MASK_WINDOW   ? distance(a->window_right)
                                   : mask == ATTN_MASK_CAUSAL ? 0
                                                              : UNLIMITED;
}

/* Contiguous where 0. Elements of q and out have 2 bytes, so that 8 are 16 bytes. */
static int set_strides(const struct attn_decode_desc *d, const struct attn_decode_args *a,
                       union attn_value *v)
{
    const int64_t q_head = a->q_head_stride ? a->q_head_stride : d->head_dim;
    const int64_t out_head = a->out_head_stride ? a->out_head_stride : d->head_dim_v;
    const int64_t q = a->q_token_stride ? a->q_token_stride : d->heads * q_head;
    const int64_t out = a->out_token_stride ? a->out_token_stride : d->heads * out_head;
    if ((q | q_head | out | out_head) & 7)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "decode: a stride of q or out is not a multiple of 16 bytes");
    v[ATTN_ARG_Q_TOKEN_STRIDE].i64 = q;
    v[ATTN_ARG_Q_HEAD_STRIDE].i64 = q_head;
    v[ATTN_ARG_OUT_TOKEN_STRIDE].i64 = out;
    v[ATTN_ARG_OUT_HEAD_STRIDE].i64 = out_head;
    v[ATTN_ARG_LSE_TOKEN_STRIDE].i64 = a->lse_token_stride ? a->lse_token_stride : 1;
    v[ATTN_ARG_LSE_HEAD_STRIDE].i64 = a->lse_head_stride ? a->lse_head_stride : a->total_q;
    return ATTN_OK;
}

static void set_tensors(const struct attn_decode_args *a, union attn_value *v)
{
    v[ATTN_ARG_Q].ptr = a->q;
    v[ATTN_ARG_OUT].ptr = a->out;
    v[ATTN_ARG_LSE].ptr = a->lse;
    v[ATTN_ARG_SINKS].ptr = a->sinks;
    v[ATTN_ARG_QO_INDPTR].ptr = a->qo_indptr;
    v[ATTN_ARG_CUSTOM_MASK].ptr = a->custom_mask;
    v[ATTN_ARG_MASK_INDPTR].ptr = a->mask_indptr;
    v[ATTN_ARG_WORK_INDPTR].ptr = a->work_indptr;
    v[ATTN_ARG_WORK_INFO].ptr = a->work_info;
    v[ATTN_ARG_PARTIAL_OUT].ptr = a->partial_out;
    v[ATTN_ARG_PARTIAL_LSE].ptr = a->partial_lse;
    v[ATTN_ARG_HOOK_ARG].ptr = a->hook_arg;
}

static void set_counts(const struct attn_decode_desc *d, const struct attn_decode_args *a,
                       union attn_value *v)
{
    v[ATTN_ARG_HEADS].i64 = d->heads;
    v[ATTN_ARG_KV_HEADS].i64 = d->kv_heads;
    v[ATTN_ARG_GQA].i64 = d->heads / d->kv_heads;
    v[ATTN_ARG_BATCH].i64 = a->batch;
    v[ATTN_ARG_TOTAL_Q].i64 = a->total_q;
    v[ATTN_ARG_MAX_SEQLEN_Q].i64 = queries(d, a);
    const float scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)d->head_dim);
    v[ATTN_ARG_SCALE].f32 = scale;
    v[ATTN_ARG_SCALE_LOG2].f32 = scale * 1.44269504f; /* log2(e) */
    v[ATTN_ARG_SOFT_CAP].f32 = a->soft_cap;
}

static int set_workgroups(const struct attn_decode_desc *d, const struct attn_decode_args *a,
                          union attn_value *v)
{
    const int64_t workgroups = a->work_indptr ? a->work_lists : (int64_t)a->batch * d->kv_heads;
    if (workgroups > INT32_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: more than 2^31 workgroups");
    v[ATTN_ARG_WORKGROUPS].i64 = workgroups;
    return ATTN_OK;
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_decode_desc *d = &desc->decode;
    const struct attn_decode_args *a = args;
    union attn_value *v = call->values;
    call->stream = a->stream;
    call->empty = a->batch == 0 || a->total_q == 0; /* pointers may be anything then */
    if (a->batch < 0 || a->total_q < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "decode: a negative count");
    if (call->empty)
        return ATTN_OK;
    const struct attn_cache_heads heads = heads_of(d);
    int r = check(d, a);
    if (!r)
        r = attn_cache_fill(&d->cache, &heads, &a->cache, v);
    if (!r)
        r = attn_pages_fill(d->page_table, &a->pages, v);
    if (!r)
        r = set_strides(d, a, v);
    if (!r)
        r = set_workgroups(d, a, v);
    if (r)
        return r;
    set_tensors(a, v);
    set_counts(d, a, v);
    set_window(v, d->mask, a);
    return ATTN_OK;
}

/* ATTN_CHECK_DATA. */

static int bad_item(int32_t i, int word, int32_t value, const char *what, int32_t limit)
{
    return attn_fail(ATTN_BAD_DATA, "work_info[%d][%d] is %d, %s %d", i, word, value, what, limit);
}

static int check_item(const struct attn_decode_desc *d, const struct attn_decode_args *a, int32_t i,
                      const int32_t *w)
{
    const int32_t rows = a->partial_rows ? a->partial_rows : INT32_MAX;
    const int32_t heads = w[7] & 0xffff, heads_end = w[7] >> 16 & 0xffff;
    if (w[0] < 0 || w[0] >= a->batch)
        return bad_item(i, 0, w[0], "sequences are", a->batch);
    if (w[2] < 0 || w[2] > w[3] || w[3] > a->total_q)
        return bad_item(i, 3, w[3], "queries begin at 0, end in order, and their room is",
                        a->total_q);
    if (w[3] - w[2] > queries(d, a))
        return bad_item(i, 3, w[3], "and a sequence's queries are at most", queries(d, a));
    if (w[1] < -1 || (w[1] >= 0 && w[1] > rows - (w[3] - w[2])))
        return bad_item(i, 1, w[1], "partial rows are", rows);
    if (w[4] < 0 || w[4] > w[5] || (a->pages.entries && w[5] > a->pages.entries))
        return bad_item(i, 5, w[5], "pages begin at 0, end in order, and their list has",
                        a->pages.entries);
    if (heads >= heads_end || heads_end > d->heads)
        return bad_item(i, 7, w[7], "head ranges are not empty and end by", d->heads);
    return ATTN_OK;
}

static int check_items(const struct attn_op *op, const struct attn_decode_args *a, int32_t count)
{
    const size_t bytes = (size_t)count * WORK_WORDS * sizeof(int32_t);
    void *copy;
    int r = attn_read_back(op->device, a->work_info, bytes, a->stream, &copy);
    for (int32_t i = 0; !r && copy && i < count; i++)
        r = check_item(&op->desc.decode, a, i, (const int32_t *)copy + (size_t)i * WORK_WORDS);
    free(copy);
    return r;
}

static int check_work(const struct attn_op *op, const struct attn_decode_args *a)
{
    const struct attn_indptr lists = {
        .name = "work_indptr",
        .data = a->work_indptr,
        .batch = a->work_lists,
        .total = INT32_MAX,
        .longest = INT32_MAX,
    };
    int r = attn_check_indptr(op->device, &lists, a->stream);
    if (r)
        return r;
    void *last;
    r = attn_read_back(op->device, a->work_indptr + a->work_lists, sizeof(int32_t), a->stream,
                       &last);
    if (!r && last)
        r = check_items(op, a, *(const int32_t *)last);
    free(last);
    return r;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_decode_desc *d = &op->desc.decode;
    const struct attn_decode_args *a = args;
    const struct attn_indptr q = {
        .name = "qo_indptr",
        .data = a->qo_indptr,
        .batch = a->batch,
        .total = a->total_q,
        .longest = queries(d, a),
    };
    int r = a->qo_indptr ? attn_check_indptr(op->device, &q, a->stream) : ATTN_OK;
    if (!r)
        r = attn_pages_check(op->device, &d->cache, d->page_table, &a->cache, &a->pages, a->batch,
                             a->stream);
    return r || !a->work_indptr ? r : check_work(op, a);
}

const struct attn_family attn_family_decode = {
    .op = "decode",
    .desc_size = sizeof(struct attn_decode_desc),
    .args_size = sizeof(struct attn_decode_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_CACHE_SETS,
            ATTN_PAGES_SETS,
            ATTN_SETS(Q),
            ATTN_SETS(OUT),
            ATTN_SETS(LSE),
            ATTN_SETS(SINKS),
            ATTN_SETS(QO_INDPTR),
            ATTN_SETS(CUSTOM_MASK),
            ATTN_SETS(MASK_INDPTR),
            ATTN_SETS(WORK_INDPTR),
            ATTN_SETS(WORK_INFO),
            ATTN_SETS(PARTIAL_OUT),
            ATTN_SETS(PARTIAL_LSE),
            ATTN_SETS(HOOK_ARG),
            ATTN_SETS(Q_TOKEN_STRIDE),
            ATTN_SETS(Q_HEAD_STRIDE),
            ATTN_SETS(OUT_TOKEN_STRIDE),
            ATTN_SETS(OUT_HEAD_STRIDE),
            ATTN_SETS(LSE_TOKEN_STRIDE),
            ATTN_SETS(LSE_HEAD_STRIDE),
            ATTN_SETS(HEADS),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(GQA),
            ATTN_SETS(BATCH),
            ATTN_SETS(TOTAL_Q),
            ATTN_SETS(MAX_SEQLEN_Q),
            ATTN_SETS(WORKGROUPS),
            ATTN_SETS(SCALE),
            ATTN_SETS(SCALE_LOG2),
            ATTN_SETS(SOFT_CAP),
            ATTN_SETS(WINDOW_LEFT),
            ATTN_SETS(WINDOW_RIGHT),
        },
};

ATTN_PUBLIC int attn_decode_lookup(struct attn_device *device, const struct attn_decode_desc *desc,
                                   struct attn_op **op)
{
    return attn_lookup(device, &attn_family_decode, desc, op);
}

ATTN_PUBLIC int attn_decode_launch(const struct attn_op *op, const struct attn_decode_args *args)
{
    return attn_launch(op, &attn_family_decode, args);
}

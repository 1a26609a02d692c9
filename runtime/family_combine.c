/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the combine family: partial attention outputs become one. */
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_combine_desc d = *(const struct attn_combine_desc *)given;
    if (d.out_dtype == 0)
        d.out_dtype = d.dtype;
    if (d.dtype != ATTN_BF16 && d.dtype != ATTN_FP16)
        return attn_fail(ATTN_BAD_ARGUMENT, "combine: dtype %d is neither ATTN_BF16 nor ATTN_FP16",
                         (int)d.dtype);
    if (d.out_dtype != d.dtype && d.out_dtype != ATTN_FP8)
        return attn_fail(ATTN_BAD_ARGUMENT, "combine: out_dtype %d is neither dtype nor ATTN_FP8",
                         (int)d.out_dtype);
    if ((unsigned)d.partials > ATTN_PARTIALS_PAIR)
        return attn_fail(ATTN_BAD_ARGUMENT, "combine: partials %d is none of enum attn_partials",
                         (int)d.partials);
    if (d.head_dim <= 0 || d.head_dim > 65536 || d.heads <= 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "combine: head_dim %d and heads %d", d.head_dim,
                         d.heads);
    out->combine = d;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_combine_desc *d = &desc->combine;
    static const char *const partials[] = {"csr", "dense", "pair"};
    attn_key_add(key, "dtype", attn_dtype_name(d->dtype));
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add(key, "out_dtype", d->out_dtype == d->dtype ? "same" : "fp8");
    attn_key_add(key, "partials", partials[d->partials]);
}

static bool aligned(const void *p, uintptr_t bytes) { return p && (uintptr_t)p % bytes == 0; }

static int check_lists(const struct attn_combine_desc *d, const struct attn_combine_args *a)
{
    if (!aligned(a->partial_out, 16) || !a->partial_lse)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: partial_lse is NULL, or partial_out "
                                                  "is NULL or not aligned to 16 bytes");
    if (d->partials == ATTN_PARTIALS_DENSE && a->splits <= 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: splits is not positive");
    if (d->partials == ATTN_PARTIALS_DENSE)
        return ATTN_OK;
    if (!a->reduce_indptr || !a->reduce_final_map || !a->reduce_partial_map)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: reduce_indptr, reduce_final_map or "
                                                  "reduce_partial_map is NULL");
    return ATTN_OK;
}

static int check_pair(const struct attn_combine_desc *d, const struct attn_combine_args *a)
{
    if (!aligned(a->prefix, 16) || !aligned(a->suffix, 16))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "combine: prefix or suffix is NULL or not aligned to 16 bytes");
    if (!a->prefix_lse || !a->suffix_lse)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: prefix_lse or suffix_lse is NULL");
    if (d->out_dtype == ATTN_FP8 && (a->out == a->prefix || a->out == a->suffix))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "combine: with ATTN_FP8, out cannot be prefix or suffix");
    return ATTN_OK;
}

static int check(const struct attn_combine_desc *d, const struct attn_combine_args *a)
{
    if (!aligned(a->out, d->out_dtype == ATTN_FP8 ? 8 : 16))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: out is NULL or not aligned to 16 "
                                                  "bytes, or 8 with ATTN_FP8");
    if (d->out_dtype == ATTN_FP8 && !a->out_scale)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "combine: desc.out_dtype is ATTN_FP8, out_scale is NULL");
    return d->partials == ATTN_PARTIALS_PAIR ? check_pair(d, a) : check_lists(d, a);
}

/* [token, head, head_dim] where 0; the next value is the head's. A lane has 8 elements. */
static bool set_strides(const struct attn_combine_desc *d, union attn_value *values,
                        int64_t token_stride, int64_t head_stride)
{
    values[1].i64 = head_stride ? head_stride : d->head_dim;
    values[0].i64 = token_stride ? token_stride : d->heads * values[1].i64;
    return ((values[0].i64 | values[1].i64) & 7) == 0;
}

/* [head, token] where 0. */
static void set_lse_strides(const struct attn_combine_args *a, union attn_value *values,
                            int64_t token_stride, int64_t head_stride)
{
    values[0].i64 = token_stride ? token_stride : 1;
    values[1].i64 = head_stride ? head_stride : a->total_q;
}

static_assert(ATTN_ARG_OUT_HEAD_STRIDE == ATTN_ARG_OUT_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_LSE_HEAD_STRIDE == ATTN_ARG_LSE_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_PREFIX_HEAD_STRIDE == ATTN_ARG_PREFIX_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_SUFFIX_HEAD_STRIDE == ATTN_ARG_SUFFIX_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_PREFIX_LSE_HEAD_STRIDE == ATTN_ARG_PREFIX_LSE_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_SUFFIX_LSE_HEAD_STRIDE == ATTN_ARG_SUFFIX_LSE_TOKEN_STRIDE + 1,
              "set_strides() and set_lse_strides() set both");

static int set_all_strides(const struct attn_combine_desc *d, const struct attn_combine_args *a,
                           union attn_value *v)
{
    set_lse_strides(a, &v[ATTN_ARG_LSE_TOKEN_STRIDE], a->lse_token_stride, a->lse_head_stride);
    set_lse_strides(a, &v[ATTN_ARG_PREFIX_LSE_TOKEN_STRIDE], a->prefix_lse_token_stride,
                    a->prefix_lse_head_stride);
    set_lse_strides(a, &v[ATTN_ARG_SUFFIX_LSE_TOKEN_STRIDE], a->suffix_lse_token_stride,
                    a->suffix_lse_head_stride);
    if (!set_strides(d, &v[ATTN_ARG_OUT_TOKEN_STRIDE], a->out_token_stride, a->out_head_stride) ||
        !set_strides(d, &v[ATTN_ARG_PREFIX_TOKEN_STRIDE], a->prefix_token_stride,
                     a->prefix_head_stride) ||
        !set_strides(d, &v[ATTN_ARG_SUFFIX_TOKEN_STRIDE], a->suffix_token_stride,
                     a->suffix_head_stride))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: a stride of out, prefix or suffix is "
                                                  "not a multiple of 8 elements");
    return ATTN_OK;
}

static void set_tensors(const struct attn_combine_args *a, union attn_value *v)
{
    v[ATTN_ARG_OUT].ptr = a->out;
    v[ATTN_ARG_LSE].ptr = a->lse;
    v[ATTN_ARG_SINKS].ptr = a->sinks;
    v[ATTN_ARG_OUT_SCALE].ptr = a->out_scale;
    v[ATTN_ARG_PARTIAL_OUT].ptr = a->partial_out;
    v[ATTN_ARG_PARTIAL_LSE].ptr = a->partial_lse;
    v[ATTN_ARG_REDUCE_INDPTR].ptr = a->reduce_indptr;
    v[ATTN_ARG_REDUCE_FINAL_MAP].ptr = a->reduce_final_map;
    v[ATTN_ARG_REDUCE_PARTIAL_MAP].ptr = a->reduce_partial_map;
    v[ATTN_ARG_SPLIT_COUNTS].ptr = a->split_counts;
    v[ATTN_ARG_PREFIX].ptr = a->prefix;
    v[ATTN_ARG_PREFIX_LSE].ptr = a->prefix_lse;
    v[ATTN_ARG_SUFFIX].ptr = a->suffix;
    v[ATTN_ARG_SUFFIX_LSE].ptr = a->suffix_lse;
}

static int32_t queries(const struct attn_combine_args *a) { return a->q_len ? a->q_len : 1; }

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_combine_desc *d = &desc->combine;
    const struct attn_combine_args *a = args;
    union attn_value *v = call->values;
    if (a->total_q < 0 || a->reduce_tiles < 0 || a->q_len < 0 || a->splits < 0 ||
        a->partial_rows < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "combine: a negative count");
    call->stream = a->stream;
    call->empty = a->total_q == 0 || (d->partials == ATTN_PARTIALS_CSR && a->reduce_tiles == 0);
    if (call->empty)
        return ATTN_OK; /* pointers may be anything */
    int r = check(d, a);
    if (!r)
        r = set_all_strides(d, a, v);
    if (r)
        return r;
    set_tensors(a, v);
    v[ATTN_ARG_HEADS].i64 = d->heads;
    v[ATTN_ARG_TOTAL_Q].i64 = a->total_q;
    v[ATTN_ARG_MAX_SEQLEN_Q].i64 = queries(a);
    v[ATTN_ARG_REDUCE_TILES].i64 = a->reduce_tiles;
    v[ATTN_ARG_SPLITS].i64 = a->splits;
    return ATTN_OK;
}

/* The tokens of a tile with parts, and where its parts are. */
static int check_tile(const struct attn_combine_args *a, int32_t tile, const int32_t *indptr,
                      const int32_t *tokens, const int32_t *map)
{
    if (indptr[tile] == indptr[tile + 1])
        return ATTN_OK;
    const int32_t first = tokens[2 * tile], end = tokens[2 * tile + 1];
    if (first < 0 || end < first || end > a->total_q || end - first > queries(a))
        return attn_fail(ATTN_BAD_DATA,
                         "reduce_final_map[%d] is %d to %d of %d tokens, at most "
                         "%d in a tile",
                         tile, first, end, a->total_q, queries(a));
    for (int32_t i = indptr[tile]; a->partial_rows && i < indptr[tile + 1]; i++) {
        if (map[i] < 0 || map[i] > a->partial_rows - (end - first))
            return attn_fail(ATTN_BAD_DATA,
                             "reduce_partial_map[%d] is %d, partial_out has %d "
                             "rows",
                             i, map[i], a->partial_rows);
    }
    return ATTN_OK;
}

static int check_tiles(const struct attn_op *op, const struct attn_combine_args *a)
{
    const struct attn_device *device = op->device;
    const size_t tiles = (size_t)a->reduce_tiles;
    const struct attn_indptr lists = {
        .name = "reduce_indptr",
        .data = a->reduce_indptr,
        .batch = a->reduce_tiles,
        .total = INT32_MAX,
        .longest = INT32_MAX,
    };
    void *indptr = NULL, *tokens = NULL, *map = NULL;
    int r = attn_check_indptr(device, &lists, a->stream);
    if (!r)
        r = attn_read_back(device, a->reduce_indptr, (tiles + 1) * sizeof(int32_t), a->stream,
                           &indptr);
    if (!r && indptr)
        r = attn_read_back(device, a->reduce_final_map, 2 * tiles * sizeof(int32_t), a->stream,
                           &tokens);
    const size_t parts = indptr ? (size_t)((int32_t *)indptr)[tiles] : 0;
    if (!r && tokens && parts)
        r = attn_read_back(device, a->reduce_partial_map, parts * sizeof(int32_t), a->stream, &map);
    for (int32_t i = 0; !r && map && i < a->reduce_tiles; i++)
        r = check_tile(a, i, indptr, tokens, map);
    free(indptr);
    free(tokens);
    free(map);
    return r;
}

static int check_data(const struct attn_op *op, const void *args)
{
    return op->desc.combine.partials == ATTN_PARTIALS_CSR ? check_tiles(op, args) : ATTN_OK;
}

const struct attn_family attn_family_combine = {
    .op = "combine",
    .desc_size = sizeof(struct attn_combine_desc),
    .args_size = sizeof(struct attn_combine_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_SETS(OUT),
            ATTN_SETS(LSE),
            ATTN_SETS(SINKS),
            ATTN_SETS(OUT_SCALE),
            ATTN_SETS(PARTIAL_OUT),
            ATTN_SETS(PARTIAL_LSE),
            ATTN_SETS(REDUCE_INDPTR),
            ATTN_SETS(REDUCE_FINAL_MAP),
            ATTN_SETS(REDUCE_PARTIAL_MAP),
            ATTN_SETS(SPLIT_COUNTS),
            ATTN_SETS(PREFIX),
            ATTN_SETS(PREFIX_LSE),
            ATTN_SETS(SUFFIX),
            ATTN_SETS(SUFFIX_LSE),
            ATTN_SETS(OUT_TOKEN_STRIDE),
            ATTN_SETS(OUT_HEAD_STRIDE),
            ATTN_SETS(LSE_TOKEN_STRIDE),
            ATTN_SETS(LSE_HEAD_STRIDE),
            ATTN_SETS(PREFIX_TOKEN_STRIDE),
            ATTN_SETS(PREFIX_HEAD_STRIDE),
            ATTN_SETS(SUFFIX_TOKEN_STRIDE),
            ATTN_SETS(SUFFIX_HEAD_STRIDE),
            ATTN_SETS(PREFIX_LSE_TOKEN_STRIDE),
            ATTN_SETS(PREFIX_LSE_HEAD_STRIDE),
            ATTN_SETS(SUFFIX_LSE_TOKEN_STRIDE),
            ATTN_SETS(SUFFIX_LSE_HEAD_STRIDE),
            ATTN_SETS(HEADS),
            ATTN_SETS(TOTAL_Q),
            ATTN_SETS(MAX_SEQLEN_Q),
            ATTN_SETS(REDUCE_TILES),
            ATTN_SETS(SPLITS),
        },
};

ATTN_PUBLIC int attn_combine_lookup(struct attn_device *device,
                                    const struct attn_combine_desc *desc, struct attn_op **op)
{
    return attn_lookup(device, &attn_family_combine, desc, op);
}

ATTN_PUBLIC int attn_combine_launch(const struct attn_op *op, const struct attn_combine_args *args)
{
    return attn_launch(op, &attn_family_combine, args);
}

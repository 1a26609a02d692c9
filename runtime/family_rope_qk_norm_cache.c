/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the rope_qk_norm_cache family: what follows the QKV projection. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

#define OP "rope_qk_norm_cache"

enum {
    WORKGROUPS = 256, /* keep the memory of every GPU busy; each goes on over its run of tokens */
    WAVES = 8,        /* of a workgroup */
    HEADS_LEAST = 8,  /* of a token that are worth a wave of their own */
    TOKENS_SHARE = 32 /* that make what a workgroup reads for each head once a small part */
};

/* A kernel reaches the heads of a token by 32-bit byte offsets. */
#define TOKEN_BYTES_MAX (INT64_C(1) << 31)

static struct attn_cache_heads heads_of(const struct attn_rope_qk_norm_cache_desc *d)
{
    return (struct attn_cache_heads){
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .head_dim_v = d->head_dim,
    };
}

static int check_desc(const struct attn_rope_qk_norm_cache_desc *d)
{
    if (d->dtype != ATTN_BF16 && d->dtype != ATTN_FP16)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": dtype %d is neither ATTN_BF16 nor ATTN_FP16",
                         (int)d->dtype);
    if ((unsigned)d->rope > ATTN_ROPE_GPTJ)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": rope %d is none of enum attn_rope", (int)d->rope);
    if ((unsigned)d->mrope > ATTN_MROPE_INTERLEAVED)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": mrope %d is none of enum attn_mrope",
                         (int)d->mrope);
    if (d->mrope != ATTN_MROPE_NONE && d->rope == ATTN_ROPE_NONE)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": desc.mrope is set, desc.rope is ATTN_ROPE_NONE");
    if (d->q_out_dtype != d->dtype && d->q_out_dtype != ATTN_FP8)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": q_out_dtype %d is neither dtype nor ATTN_FP8",
                         (int)d->q_out_dtype);
    if ((unsigned)d->norm > ATTN_NORM_FULL)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": norm %d is none of enum attn_norm", (int)d->norm);
    if (d->head_dim <= 0 || d->head_dim > 65536)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": head_dim %d", d->head_dim);
    if (d->rotary_dim < 0 || d->rotary_dim > d->head_dim || d->rotary_dim % 2)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         OP ": rotary_dim %d is odd, negative or more than "
                            "head_dim %d",
                         d->rotary_dim, d->head_dim);
    if (d->heads <= 0 || d->kv_heads <= 0)
        return attn_fail(ATTN_BAD_ARGUMENT, OP ": %d heads and %d kv_heads", d->heads, d->kv_heads);
    return ATTN_OK;
}

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_rope_qk_norm_cache_desc d = *(const struct attn_rope_qk_norm_cache_desc *)given;
    if (d.q_out_dtype == 0)
        d.q_out_dtype = d.dtype;
    int r = check_desc(&d);
    if (r)
        return r;
    if (d.rotary_dim == 0 || d.rope == ATTN_ROPE_NONE)
        d.rotary_dim = d.head_dim;
    const struct attn_cache_heads heads = heads_of(&d);
    r = attn_cache_normalise(OP, d.dtype, &heads, &d.cache);
    if (r)
        return r;
    out->rope = d;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_rope_qk_norm_cache_desc *d = &desc->rope;
    static const char *const ropes[] = {"none", "neox", "gptj"};
    static const char *const norms[] = {"none", "rms", "gemma_rms", "full"};
    static const char *const mropes[] = {"none", "sections", "interleaved"};
    attn_key_add_flag(key, "bias", d->bias);
    attn_key_add(key, "cos_sin", d->cos_sin_short ? "same" : "f32");
    attn_key_add(key, "dtype", attn_dtype_name(d->dtype));
    attn_key_add_flag(key, "gate", d->gate);
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add_flag(key, "keep_kv", d->keep_kv);
    attn_cache_add_key(key, d->dtype, &d->cache);
    attn_key_add(key, "mrope", mropes[d->mrope]);
    attn_key_add(key, "norm", norms[d->norm]);
    attn_key_add(key, "out_dtype", d->q_out_dtype == d->dtype ? "same" : "fp8");
    attn_key_add(key, "rope", ropes[d->rope]);
    attn_key_add_number(key, "rotary_dim", d->rotary_dim);
}

/* Launch. */

/* A tensor [token, head, element] of a call: where its address and its strides go. */
struct tensor {
    const void *address;
    int64_t token_stride, head_stride;
    enum attn_arg arg, stride; /* `stride`: of tokens; that of heads follows */
    int32_t heads;
    int32_t dim; /* elements from a head to the next where they are contiguous */
};

#define STRIDES_FOLLOW(ID) \
    static_assert(ATTN_ARG_##ID##_HEAD_STRIDE == ATTN_ARG_##ID##_TOKEN_STRIDE + 1, "set_tensor")
STRIDES_FOLLOW(Q);
STRIDES_FOLLOW(K_IN);
STRIDES_FOLLOW(V_IN);
STRIDES_FOLLOW(OUT);
STRIDES_FOLLOW(K_OUT);
STRIDES_FOLLOW(V_OUT);
STRIDES_FOLLOW(GATE);

/* Elements have 2 bytes, so that 8 are 16 bytes. */
static int set_tensor(const struct tensor *t, int32_t head_dim, union attn_value *v)
{
    int64_t head = t->head_stride ? t->head_stride : t->dim;
    if (t->heads == 1)
        head = t->dim; /* whatever was given: there is no second head */
    const int64_t token = t->token_stride ? t->token_stride : t->heads * head;
    if ((uintptr_t)t->address % 16 || (token | head) & 7)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               OP ": a tensor or a stride is not a multiple of 16 bytes");
    if (head < head_dim || head > TOKEN_BYTES_MAX / 2 / t->heads)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": a head stride is below head_dim, or the "
                                                     "heads of a token do not lie within 2 GiB");
    v[t->arg].ptr = t->address;
    v[t->stride].i64 = token;
    v[t->stride + 1].i64 = head;
    return ATTN_OK;
}

/* An output that is not given is its input. */
static struct tensor output(const struct tensor *in, const void *address, int64_t token_stride,
                            int64_t head_stride, int32_t dim)
{
    struct tensor t = *in;
    if (!address)
        return t;
    t.address = address;
    t.token_stride = token_stride;
    t.head_stride = head_stride;
    t.dim = dim;
    return t;
}

static int set_tensors(const struct attn_rope_qk_norm_cache_desc *d,
                       const struct attn_rope_qk_norm_cache_args *a, union attn_value *v)
{
    const int32_t dim = d->head_dim;
    struct tensor t[7] = {
        {a->q, a->q_token_stride, a->q_head_stride, ATTN_ARG_Q, ATTN_ARG_Q_TOKEN_STRIDE, d->heads,
         d->gate ? 2 * dim : dim},
        {a->k, a->k_token_stride, a->k_head_stride, ATTN_ARG_K_IN, ATTN_ARG_K_IN_TOKEN_STRIDE,
         d->kv_heads, dim},
        {a->v, a->v_token_stride, a->v_head_stride, ATTN_ARG_V_IN, ATTN_ARG_V_IN_TOKEN_STRIDE,
         d->kv_heads, dim},
        [6] = {a->gate, a->gate_token_stride, a->gate_head_stride, ATTN_ARG_GATE,
               ATTN_ARG_GATE_TOKEN_STRIDE, d->heads, dim},
    };
    t[3] = output(&t[0], a->q_out, a->q_out_token_stride, a->q_out_head_stride, dim);
    t[3].arg = ATTN_ARG_OUT;
    t[3].stride = ATTN_ARG_OUT_TOKEN_STRIDE;
    t[4] = output(&t[1], a->k_out, a->k_out_token_stride, a->k_out_head_stride, dim);
    t[4].arg = ATTN_ARG_K_OUT;
    t[4].stride = ATTN_ARG_K_OUT_TOKEN_STRIDE;
    t[5] = output(&t[2], a->v_out, a->v_out_token_stride, a->v_out_head_stride, dim);
    t[5].arg = ATTN_ARG_V_OUT;
    t[5].stride = ATTN_ARG_V_OUT_TOKEN_STRIDE;
    for (int i = 0; i < 7; i++) {
        int r = set_tensor(&t[i], dim, v);
        if (r)
            return r;
    }
    return ATTN_OK;
}

static bool missing(const void *p) { return !p || (uintptr_t)p % 16; }

static int check_norm(const struct attn_rope_qk_norm_cache_desc *d,
                      const struct attn_rope_qk_norm_cache_args *a)
{
    if (d->norm == ATTN_NORM_NONE)
        return ATTN_OK;
    if (missing(a->q_weight) || missing(a->k_weight))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.norm is set, q_weight or k_weight is "
                                                     "NULL or not aligned to 16 bytes");
    if (!(a->eps >= 0) || !isfinite(a->eps))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": eps is negative or not finite");
    if (d->norm != ATTN_NORM_FULL)
        return ATTN_OK;
    if (!a->q_squares || !a->k_squares)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.norm is ATTN_NORM_FULL, q_squares or "
                                                     "k_squares is NULL");
    if (a->q_count <= 0 || a->k_count <= 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.norm is ATTN_NORM_FULL, q_count or "
                                                     "k_count is not positive");
    return ATTN_OK;
}

static int check_sections(const struct attn_rope_qk_norm_cache_desc *d,
                          const struct attn_rope_qk_norm_cache_args *a)
{
    if (d->mrope == ATTN_MROPE_NONE)
        return ATTN_OK;
    const int32_t *s = a->sections;
    if (s[0] < 0 || s[1] < 0 || s[2] < 0 || (int64_t)s[0] + s[1] + s[2] != d->rotary_dim / 2)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.mrope is set, sections do not add up "
                                                     "to rotary_dim / 2");
    if (a->positions_stride && a->positions_stride < a->tokens)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": positions_stride is below tokens");
    return ATTN_OK;
}

static int check(const struct attn_rope_qk_norm_cache_desc *d,
                 const struct attn_rope_qk_norm_cache_args *a)
{
    if (!a->q || !a->k)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": q or k is NULL");
    if (d->gate && !a->gate)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.gate is set, gate is NULL");
    if (a->slot_mapping && !a->v)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": slot_mapping is set, v is NULL");
    if (d->bias && (missing(a->q_bias) || missing(a->k_bias) || missing(a->v_bias)))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.bias is set, a bias is NULL or not "
                                                     "aligned to 16 bytes");
    if (d->rope != ATTN_ROPE_NONE && (!a->positions || missing(a->cos_sin)))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.rope is set, positions is NULL, or "
                                                     "cos_sin is NULL or not aligned to 16 bytes");
    if (d->q_out_dtype == ATTN_FP8 && (!a->q_out || !a->q_out_scale))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": desc.q_out_dtype is ATTN_FP8, q_out or "
                                                     "q_out_scale is NULL");
    int r = check_sections(d, a);
    return r ? r : check_norm(d, a);
}

/* Values of so many tokens are neighbours in the cache. */
static int32_t tokens_together(const struct attn_cache_desc *cache)
{
    return cache->layout == ATTN_KV_SHUFFLE ? 16 / attn_dtype_size(cache->dtype) : 1;
}

/* Tokens of a workgroup. It reads biases and the weights of a full norm for itself, as many bytes
 * as a token has: half the workgroups then take runs twice as long, unless there are too few. */
static int32_t run_tokens(const struct attn_rope_qk_norm_cache_desc *d, int32_t tokens)
{
    const int32_t even = (int32_t)(((int64_t)tokens + WORKGROUPS - 1) / WORKGROUPS);
    const bool vectors = d->bias || d->norm == ATTN_NORM_FULL;
    if (tokens <= WORKGROUPS)
        return even;
    int32_t run = even;
    if (vectors && even < TOKENS_SHARE)
        run = 2 * even < TOKENS_SHARE ? 2 * even : TOKENS_SHARE;
    const int32_t x = tokens_together(&d->cache);
    return (run + x - 1) / x * x;
}

/* log2 of the waves that share the heads of a token where a workgroup has more waves than
 * tokens. */
static int32_t head_part_shift(const struct attn_rope_qk_norm_cache_desc *d, int32_t run)
{
    int32_t shift = 0;
    while (run << (shift + 1) <= WAVES && d->heads >= HEADS_LEAST << (shift + 1))
        shift++;
    return shift;
}

static void set_numbers(const struct attn_rope_qk_norm_cache_desc *d,
                        const struct attn_rope_qk_norm_cache_args *a, union attn_value *v)
{
    v[ATTN_ARG_SLOT_MAPPING].ptr = a->slot_mapping;
    v[ATTN_ARG_POSITIONS].ptr = a->positions;
    v[ATTN_ARG_POSITIONS_STRIDE].i64 = a->positions_stride ? a->positions_stride : a->tokens;
    v[ATTN_ARG_SECTION_T].i64 = a->sections[0];
    v[ATTN_ARG_SECTION_H].i64 = a->sections[1];
    v[ATTN_ARG_SECTION_W].i64 = a->sections[2];
    v[ATTN_ARG_COS_SIN].ptr = a->cos_sin;
    v[ATTN_ARG_OUT_SCALE].ptr = a->q_out_scale;
    v[ATTN_ARG_Q_WEIGHT].ptr = a->q_weight;
    v[ATTN_ARG_K_WEIGHT].ptr = a->k_weight;
    v[ATTN_ARG_Q_BIAS].ptr = a->q_bias;
    v[ATTN_ARG_K_BIAS].ptr = a->k_bias;
    v[ATTN_ARG_V_BIAS].ptr = a->v_bias;
    v[ATTN_ARG_Q_SQUARES].ptr = a->q_squares;
    v[ATTN_ARG_K_SQUARES].ptr = a->k_squares;
    v[ATTN_ARG_Q_SQUARES_SHARE].f32 = 1 / (float)a->q_count;
    v[ATTN_ARG_K_SQUARES_SHARE].f32 = 1 / (float)a->k_count;
    v[ATTN_ARG_EPS].f32 = a->eps;
    v[ATTN_ARG_HEADS].i64 = d->heads;
    v[ATTN_ARG_KV_HEADS].i64 = d->kv_heads;
    v[ATTN_ARG_TOKENS].i64 = a->tokens;
    const int32_t run = run_tokens(d, a->tokens);
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_TOKEN_RUNS].i64 = ((int64_t)a->tokens + run - 1) / run;
    v[ATTN_ARG_HEAD_PART_SHIFT].i64 = head_part_shift(d, run);
}

/* Without slots the kernel reads what belongs to the cache, but never goes there. */
static int set_no_cache(union attn_value *v)
{
    static const enum attn_arg args[] = {
        ATTN_ARG_K,
        ATTN_ARG_V,
        ATTN_ARG_K_SCALE,
        ATTN_ARG_V_SCALE,
        ATTN_ARG_K_PAGE_STRIDE,
        ATTN_ARG_K_TOKEN_STRIDE,
        ATTN_ARG_K_HEAD_STRIDE,
        ATTN_ARG_V_PAGE_STRIDE,
        ATTN_ARG_V_TOKEN_STRIDE,
        ATTN_ARG_V_HEAD_STRIDE,
        ATTN_ARG_SCALE_PAGE_STRIDE,
        ATTN_ARG_SCALE_HEAD_STRIDE,
        ATTN_ARG_PAGE_SIZE,
        ATTN_ARG_PAGE_SHIFT,
    };
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        v[args[i]].i64 = 0;
    return ATTN_OK;
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_rope_qk_norm_cache_desc *d = &desc->rope;
    const struct attn_rope_qk_norm_cache_args *a = args;
    call->stream = a->stream;
    call->empty = a->tokens == 0; /* pointers may be anything then */
    if (a->tokens < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, OP ": tokens is negative");
    if (call->empty)
        return ATTN_OK;
    const struct attn_cache_heads heads = heads_of(d);
    int r = check(d, a);
    if (!r)
        r = set_tensors(d, a, call->values);
    if (!r)
        r = a->slot_mapping ? attn_cache_fill(&d->cache, &heads, &a->cache, call->values)
                            : set_no_cache(call->values);
    if (r)
        return r;
    set_numbers(d, a, call->values);
    return ATTN_OK;
}

/* ATTN_CHECK_DATA: each position of a stream has a row of the table. */
static int check_positions(const struct attn_op *op, const struct attn_rope_qk_norm_cache_args *a,
                           const int64_t *positions)
{
    void *copy;
    int r = attn_read_back(op->device, positions, (size_t)a->tokens * sizeof(*positions), a->stream,
                           &copy);
    const int64_t *position = copy;
    for (int32_t i = 0; !r && copy && i < a->tokens; i++) {
        if (position[i] >= a->max_position || position[i] < 0)
            r = attn_fail(ATTN_BAD_DATA, "positions[%d] is %lld, its limit is %d", i,
                          (long long)position[i], a->max_position);
    }
    free(copy);
    return r;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_rope_qk_norm_cache_desc *d = &op->desc.rope;
    const struct attn_rope_qk_norm_cache_args *a = args;
    const int streams = d->mrope == ATTN_MROPE_NONE ? 1 : 3;
    const int64_t stride = a->positions_stride ? a->positions_stride : a->tokens;
    int r = ATTN_OK;
    for (int i = 0; i < streams && !r && d->rope != ATTN_ROPE_NONE && a->max_position; i++)
        r = check_positions(op, a, a->positions + i * stride);
    if (!r && a->slot_mapping)
        r = attn_cache_check_slots(op->device, &d->cache, &a->cache, a->slot_mapping, a->tokens,
                                   a->stream);
    return r;
}

const struct attn_family attn_family_rope_qk_norm_cache = {
    .op = OP,
    .desc_size = sizeof(struct attn_rope_qk_norm_cache_desc),
    .args_size = sizeof(struct attn_rope_qk_norm_cache_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_CACHE_SETS,
            ATTN_SETS(Q),
            ATTN_SETS(K_IN),
            ATTN_SETS(V_IN),
            ATTN_SETS(OUT),
            ATTN_SETS(K_OUT),
            ATTN_SETS(V_OUT),
            ATTN_SETS(GATE),
            ATTN_SETS(SLOT_MAPPING),
            ATTN_SETS(POSITIONS),
            ATTN_SETS(COS_SIN),
            ATTN_SETS(Q_WEIGHT),
            ATTN_SETS(K_WEIGHT),
            ATTN_SETS(Q_BIAS),
            ATTN_SETS(K_BIAS),
            ATTN_SETS(V_BIAS),
            ATTN_SETS(Q_SQUARES),
            ATTN_SETS(K_SQUARES),
            ATTN_SETS(Q_TOKEN_STRIDE),
            ATTN_SETS(Q_HEAD_STRIDE),
            ATTN_SETS(K_IN_TOKEN_STRIDE),
            ATTN_SETS(K_IN_HEAD_STRIDE),
            ATTN_SETS(V_IN_TOKEN_STRIDE),
            ATTN_SETS(V_IN_HEAD_STRIDE),
            ATTN_SETS(OUT_TOKEN_STRIDE),
            ATTN_SETS(OUT_HEAD_STRIDE),
            ATTN_SETS(K_OUT_TOKEN_STRIDE),
            ATTN_SETS(K_OUT_HEAD_STRIDE),
            ATTN_SETS(V_OUT_TOKEN_STRIDE),
            ATTN_SETS(V_OUT_HEAD_STRIDE),
            ATTN_SETS(GATE_TOKEN_STRIDE),
            ATTN_SETS(GATE_HEAD_STRIDE),
            ATTN_SETS(Q_SQUARES_SHARE),
            ATTN_SETS(K_SQUARES_SHARE),
            ATTN_SETS(EPS),
            ATTN_SETS(HEADS),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(TOKENS),
            ATTN_SETS(HEAD_PART_SHIFT),
            ATTN_SETS(OUT_SCALE),
            ATTN_SETS(RUN_TOKENS),
            ATTN_SETS(TOKEN_RUNS),
            ATTN_SETS(POSITIONS_STRIDE),
            ATTN_SETS(SECTION_T),
            ATTN_SETS(SECTION_H),
            ATTN_SETS(SECTION_W),
        },
};

ATTN_PUBLIC int attn_rope_qk_norm_cache_lookup(struct attn_device *device,
                                               const struct attn_rope_qk_norm_cache_desc *desc,
                                               struct attn_op **op)
{
    return attn_lookup(device, &attn_family_rope_qk_norm_cache, desc, op);
}

ATTN_PUBLIC int attn_rope_qk_norm_cache_launch(const struct attn_op *op,
                                               const struct attn_rope_qk_norm_cache_args *args)
{
    return attn_launch(op, &attn_family_rope_qk_norm_cache, args);
}

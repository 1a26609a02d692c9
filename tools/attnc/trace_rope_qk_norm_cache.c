/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for rope_qk_norm_cache kernels: one sequence from its start, packed q, k and v.
 */
#include <stdlib.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"
#include "tools/verify/cache.h"

enum dimension { TOKENS, HEADS, KV_HEADS, PAGE_SIZE };

/* 0, 1, ... in each of `rows` rows. */
static int64_t *count_up(struct trace_run *run, int count, int rows)
{
    int64_t *numbers = malloc((size_t)count * (size_t)rows * sizeof(*numbers));
    for (int i = 0; numbers && i < count * rows; i++)
        numbers[i] = i % count;
    int64_t *device =
        device_copy(&run->memory, numbers, (size_t)count * (size_t)rows * sizeof(*numbers));
    free(numbers);
    return device;
}

/* Sizes of a token's heads in elements: q, with its gate, and k or v. */
struct sizes {
    size_t q, kv, gate, all;
};

static struct sizes count(const struct attn_rope_qk_norm_cache_desc *d)
{
    const size_t q = (size_t)d->heads * (size_t)d->head_dim;
    const size_t kv = (size_t)d->kv_heads * (size_t)d->head_dim, gate = d->gate ? q : 0;
    return (struct sizes){q, kv, gate, q + gate + 2 * kv};
}

/* What a token's results take. */
static double stored_bytes(const struct attn_rope_qk_norm_cache_desc *d, const struct sizes *n)
{
    const double kv = d->cache.dtype == ATTN_FP8 || d->cache.dtype == ATTN_INT8 ? 1 : 2;
    double bytes = (double)n->q * (d->q_out_dtype == ATTN_FP8 ? 1 : 2) + 2.0 * (double)n->gate;
    bytes += 2.0 * (double)n->kv * (kv + (d->keep_kv ? 2 : 0));
    if (d->cache.scale == ATTN_KV_SCALE_TOKEN)
        bytes += 2.0 * d->kv_heads * sizeof(float);
    return bytes;
}

static void set_norm(struct trace_run *run, const struct attn_rope_qk_norm_cache_desc *d,
                     const char *dtype, struct attn_rope_qk_norm_cache_args *a)
{
    const bool full = d->norm == ATTN_NORM_FULL;
    const size_t dim = (size_t)d->head_dim;
    const size_t q = (full ? (size_t)d->heads : 1) * dim;
    const size_t k = (full ? (size_t)d->kv_heads : 1) * dim;
    if (d->norm == ATTN_NORM_NONE)
        return;
    a->q_weight = trace_random(run, dtype, q);
    a->k_weight = trace_random(run, dtype, k);
    a->q_squares = trace_random(run, "f32", (size_t)a->tokens);
    a->k_squares = trace_random(run, "f32", (size_t)a->tokens);
    run->least_bytes += 2.0 * (double)(q + k) + (full ? 8.0 * a->tokens : 0);
}

static void set_inputs(struct trace_run *run, const struct attn_rope_qk_norm_cache_desc *d,
                       struct attn_rope_qk_norm_cache_args *a)
{
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    const struct sizes n = count(d);
    const size_t tokens = (size_t)a->tokens;
    const uint16_t *qkv = trace_random(run, dtype, tokens * n.all);
    a->q = qkv;
    a->k = qkv + n.q + n.gate;
    a->v = qkv + n.q + n.gate + n.kv;
    a->q_token_stride = a->k_token_stride = a->v_token_stride = (int64_t)n.all;
    run->least_bytes += (double)tokens * (2.0 * (double)n.all + stored_bytes(d, &n));
    if (d->bias) {
        a->q_bias = trace_random(run, dtype, n.q);
        a->k_bias = trace_random(run, dtype, n.kv);
        a->v_bias = trace_random(run, dtype, n.kv);
        run->least_bytes += 2.0 * (double)(n.q + 2 * n.kv);
    }
    if (d->rope != ATTN_ROPE_NONE) {
        const int streams = d->mrope == ATTN_MROPE_NONE ? 1 : 3;
        a->positions = count_up(run, a->tokens, streams);
        a->cos_sin =
            trace_random(run, d->cos_sin_short ? dtype : "f32", tokens * (size_t)d->rotary_dim);
        a->sections[0] = d->rotary_dim / 2;
        run->least_bytes +=
            (double)tokens * (8.0 * streams + d->rotary_dim * (d->cos_sin_short ? 2.0 : 4.0));
    }
    set_norm(run, d, dtype, a);
}

static void set_outputs(struct trace_run *run, const struct attn_rope_qk_norm_cache_desc *d,
                        struct attn_rope_qk_norm_cache_args *a)
{
    const struct sizes n = count(d);
    const size_t tokens = (size_t)a->tokens;
    a->q_out = trace_room(run, tokens * n.q, 2);
    a->q_out_scale = trace_random(run, "f32", 1);
    a->gate = d->gate ? trace_room(run, tokens * n.gate, 2) : NULL;
    if (d->keep_kv) {
        a->k_out = trace_room(run, tokens * n.kv, 2);
        a->v_out = trace_room(run, tokens * n.kv, 2);
    }
    const size_t page = (size_t)d->cache.page_size, pages = (tokens + page - 1) / page;
    trace_cache(run, &d->cache, pages * page * (size_t)d->kv_heads, d->head_dim, d->head_dim,
                &a->cache);
    a->slot_mapping = count_up(run, a->tokens, 1);
    run->least_bytes += 8.0 * (double)tokens;
}

static int prepare(struct trace_run *run)
{
    const int *s = run->shape;
    struct attn_rope_qk_norm_cache_desc desc = verify_rope_qk_norm_cache_desc(run->pack, run->n);
    desc.heads = s[HEADS];
    desc.kv_heads = s[KV_HEADS];
    desc.cache.page_size = s[PAGE_SIZE];
    const int code = trace_check_elements((double)s[TOKENS] * s[HEADS] * desc.head_dim);
    if (code != EXIT_GOOD)
        return code;
    struct attn_rope_qk_norm_cache_args *a = run->args;
    *a = (struct attn_rope_qk_norm_cache_args){
        .size = sizeof(*a),
        .tokens = s[TOKENS],
        .eps = 1e-6f,
        .q_count = 1,
        .k_count = 1,
    };
    set_inputs(run, &desc, a);
    set_outputs(run, &desc, a);
    return trace_lookup(run, &desc);
}

const struct trace_family trace_rope_qk_norm_cache = {
    .op = "rope_qk_norm_cache",
    .args_size = sizeof(struct attn_rope_qk_norm_cache_args),
    .dimensions =
        {
            [TOKENS] = {"tokens", 512, 1 << 20, "tokens of one sequence"},
            [HEADS] = {"heads", 32, 1024, "query heads"},
            [KV_HEADS] = {"kv_heads", 8, 1024, "key/value heads"},
            [PAGE_SIZE] = {"page_size", 64, 65536, "tokens in a page"},
        },
    .prepare = prepare,
};

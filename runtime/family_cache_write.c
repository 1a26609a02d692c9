/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the cache_write family: new keys and values into a paged cache. */
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

static struct attn_cache_heads heads_of(const struct attn_cache_write_desc *d)
{
    return (struct attn_cache_heads){
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .head_dim_v = d->head_dim_v,
    };
}

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_cache_write_desc d = *(const struct attn_cache_write_desc *)given;
    struct attn_cache_heads heads = heads_of(&d);
    int r = attn_cache_normalise_op("cache_write", d.dtype, &heads, &d.cache);
    if (r)
        return r;
    d.head_dim_v = heads.head_dim_v;
    out->cache_write = d;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_cache_write_desc *d = &desc->cache_write;
    attn_key_add(key, "dtype", attn_dtype_name(d->dtype));
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add_number(key, "head_dim_v", d->head_dim_v);
    attn_cache_add_key(key, d->dtype, &d->cache);
    attn_cache_add_page_size(key, &d->cache);
}

static_assert(ATTN_ARG_K_IN_HEAD_STRIDE == ATTN_ARG_K_IN_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_V_IN_TOKEN_STRIDE == ATTN_ARG_K_IN_TOKEN_STRIDE + 2 &&
                  ATTN_ARG_V_IN_HEAD_STRIDE == ATTN_ARG_K_IN_TOKEN_STRIDE + 3,
              "attn_kv_rows_fill() sets all four");

/* Waves that keep a device busy; the tokens of a page that are worth one, and a workgroup's most;
 * tokens that a workgroup looks through one by one. */
enum { WAVES_WANTED = 2048, WAVE_TOKENS = 32, WAVES_MOST = 8, RUN_TOKENS_MOST = 16 };

/* How many tokens a workgroup looks for the beginning of a run in, where it owns whole runs: more
 * where pages are large, since fewer begin there. */
static int32_t run_tokens(const struct attn_cache_write_desc *d, int32_t tokens)
{
    const int32_t page = d->cache.page_size / WAVE_TOKENS;
    const int32_t waves = page < 1 ? 1 : page < WAVES_MOST ? page : WAVES_MOST;
    const int64_t each = (int64_t)tokens * d->kv_heads * waves / WAVES_WANTED;
    const int32_t most = RUN_TOKENS_MOST * waves;
    return each < 1 ? 1 : each < most ? (int32_t)each : most;
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_cache_write_desc *d = &desc->cache_write;
    const struct attn_cache_write_args *a = args;
    union attn_value *v = call->values;
    call->stream = a->stream;
    call->empty = a->tokens == 0; /* pointers may be anything then */
    if (a->tokens < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_write: tokens is negative");
    if (call->empty)
        return ATTN_OK;
    if (!a->slot_mapping || (uintptr_t)a->slot_mapping % sizeof(int64_t))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache_write: slot_mapping is NULL or not aligned to 8 bytes");
    const struct attn_cache_heads heads = heads_of(d);
    const struct attn_kv_rows rows = {
        .k = a->k_in,
        .v = a->v_in,
        .k_token_stride = a->k_in_token_stride,
        .k_head_stride = a->k_in_head_stride,
        .v_token_stride = a->v_in_token_stride,
        .v_head_stride = a->v_in_head_stride,
    };
    int r = attn_cache_fill(&d->cache, &heads, &a->cache, v);
    if (!r)
        r = attn_kv_rows_fill(&heads, &rows, ATTN_ARG_K_IN, ATTN_ARG_V_IN,
                              ATTN_ARG_K_IN_TOKEN_STRIDE, v);
    v[ATTN_ARG_SLOT_MAPPING].ptr = a->slot_mapping;
    v[ATTN_ARG_KV_HEADS].i64 = d->kv_heads;
    v[ATTN_ARG_TOKENS].i64 = a->tokens;
    const int32_t run = run_tokens(d, a->tokens);
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_TOKEN_RUNS].i64 = ((int64_t)a->tokens + run - 1) / run;
    return r;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_cache_write_args *a = args;
    return attn_cache_check_slots(op->device, &op->desc.cache_write.cache, &a->cache,
                                  a->slot_mapping, a->tokens, a->stream);
}

const struct attn_family attn_family_cache_write = {
    .op = "cache_write",
    .desc_size = sizeof(struct attn_cache_write_desc),
    .args_size = sizeof(struct attn_cache_write_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_CACHE_SETS,
            ATTN_SETS(K_IN),
            ATTN_SETS(V_IN),
            ATTN_SETS(K_IN_TOKEN_STRIDE),
            ATTN_SETS(K_IN_HEAD_STRIDE),
            ATTN_SETS(V_IN_TOKEN_STRIDE),
            ATTN_SETS(V_IN_HEAD_STRIDE),
            ATTN_SETS(SLOT_MAPPING),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(TOKENS),
            ATTN_SETS(RUN_TOKENS),
            ATTN_SETS(TOKEN_RUNS),
        },
};

ATTN_PUBLIC int attn_cache_write_lookup(struct attn_device *device,
                                        const struct attn_cache_write_desc *desc,
                                        struct attn_op **op)
{
    return attn_lookup(device, &attn_family_cache_write, desc, op);
}

ATTN_PUBLIC int attn_cache_write_launch(const struct attn_op *op,
                                        const struct attn_cache_write_args *args)
{
    return attn_launch(op, &attn_family_cache_write, args);
}

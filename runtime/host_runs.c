/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the number of tokens of a workgroup of cache_write and of rope_qk_norm_cache. */
#include "runtime/cache_args.h"
#include "runtime/fill.h"
#include "runtime/host.h"

/* The functions from here on divide the tokens of cache_write. */

/* Waves of a launch that keep a GPU busy; tokens of a page for each wave of a workgroup; most waves
 * of a workgroup; most tokens of a wave. */
enum { WAVES_WANTED = 2048, WAVE_TOKENS = 32, WAVES_MOST = 8, RUN_TOKENS_MOST = 16 };

/* Returns the number of tokens of a workgroup of cache_write. It has a wave for each WAVE_TOKENS
 * tokens of a page, and as many tokens as leave WAVES_WANTED waves in the launch. */
int32_t attn_cache_write_run(int32_t page_size, int32_t kv_heads, int32_t tokens)
{
    const int32_t page = page_size / WAVE_TOKENS;
    const int32_t waves = page < 1 ? 1 : page < WAVES_MOST ? page : WAVES_MOST;
    const int64_t each = (int64_t)tokens * kv_heads * waves / WAVES_WANTED;
    const int32_t most = RUN_TOKENS_MOST * waves;
    return each < 1 ? 1 : each < most ? (int32_t)each : most;
}

/* The functions from here on divide the tokens of rope_qk_norm_cache. */

enum {
    WORKGROUPS = 256, /* enough workgroups to saturate the memory of every GPU */
    WAVES = 8,        /* waves of a workgroup */
    HEADS_LEAST = 8,  /* fewest heads of a token that a wave processes */
    /* with that many tokens, a workgroup's reads of biases and weights are a small share of its
     * reads */
    TOKENS_SHARE = 32
};

/* Returns the number of neighbouring tokens in a group. With SHUFFLE layouts the cache stores the
 * same element of v of such tokens side by side. 1: a token's row of v is contiguous. */
static int32_t tokens_together(const struct attn_cache_desc *cache)
{
    return attn_is_shuffled(cache) ? 16 / attn_element_size(cache->dtype) : 1;
}

/* Returns the number of tokens of a workgroup of rope_qk_norm_cache. If the op has biases or a full
 * norm, each workgroup reads vectors of as many bytes as a token has. Half as many workgroups then
 * get twice the tokens, up to TOKENS_SHARE. */
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

/* Returns log2 of the number of waves that share the heads of a token. It is above 0 if a workgroup
 * of `run` tokens has more waves than tokens. */
static int32_t head_part_shift(const struct attn_rope_qk_norm_cache_desc *d, int32_t run)
{
    int32_t shift = 0;
    while (run << (shift + 1) <= WAVES && d->heads >= HEADS_LEAST << (shift + 1))
        shift++;
    return shift;
}

int attn_rope_fill_runs(const struct attn_rope_qk_norm_cache_desc *d,
                        const struct attn_rope_qk_norm_cache_args *a, union attn_value *v)
{
    const int32_t run = run_tokens(d, a->tokens);
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_TOKEN_RUNS].i64 = attn_parts(a->tokens, run);
    v[ATTN_ARG_HEAD_PART_SHIFT].i64 = head_part_shift(d, run);
    return ATTN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the work of mla_rope_cache, head_product and qk_rmsnorm among workgroups. */
#include "runtime/fill.h"
#include "runtime/host.h"

/* Waves of a workgroup and heads of a part in kernels of mla_rope_cache, as in
 * templates/mla_rope_cache.c. A part is a group of heads of a token's query. */
enum { WAVES = 4, PART_HEADS = 16 };

/* Rows of w_uk that a wave multiplies in mla_rope_cache with product_dim: ATT_PRODUCT_ROWS of the
 * template. */
enum { SLICE_ROWS = 16 };

/* Returns the number of tokens of a wave that writes latents. The wave reads the norm's weight,
 * which has as many bytes as a token's latent, once for all its tokens. */
static int64_t run_tokens(int32_t tokens)
{
    enum { WAVES_WANTED = 1024, MOST = 8 };
    const int64_t run = tokens / WAVES_WANTED;
    return run < 1 ? 1 : run < MOST ? run : MOST;
}

/* Returns how many of the `parts`, each PART_HEADS heads of a token, a wave processes, so that at
 * most WAVES_WANTED waves run. With more waves, a partial last round would cost as much as a full
 * one. Returns 0 if queries and latents get separate waves, because there are few parts or
 * heads. */
static int64_t run_parts(int64_t parts, int32_t heads)
{
    enum { LEAST = 4096, WAVES_WANTED = 8192 };
    return parts < LEAST || heads < PART_HEADS ? 0 : attn_parts(parts, WAVES_WANTED);
}

/* Sets pointer and strides of the output of q's rotated part: after the latent in q_out, or in
 * place if q_out is NULL. */
static void fill_rotated(const struct attn_mla_rope_cache_desc *d,
                         const struct attn_mla_rope_cache_args *a, union attn_value *v)
{
    v[ATTN_ARG_Q_PE_OUT].ptr = a->q_pe;
    v[ATTN_ARG_Q_PE_OUT_TOKEN_STRIDE].i64 = v[ATTN_ARG_Q_PE_TOKEN_STRIDE].i64;
    v[ATTN_ARG_Q_PE_OUT_HEAD_STRIDE].i64 = v[ATTN_ARG_Q_PE_HEAD_STRIDE].i64;
    if (!a->q_out)
        return;
    const int latent = d->head_dim_v * attn_element_size(d->q_out_dtype);
    v[ATTN_ARG_Q_PE_OUT].ptr = (const char *)a->q_out + latent;
    v[ATTN_ARG_Q_PE_OUT_TOKEN_STRIDE].i64 = v[ATTN_ARG_Q_OUT_TOKEN_STRIDE].i64;
    v[ATTN_ARG_Q_PE_OUT_HEAD_STRIDE].i64 = v[ATTN_ARG_Q_OUT_HEAD_STRIDE].i64;
}

int attn_mla_rope_fill(const struct attn_mla_rope_cache_desc *d,
                       const struct attn_mla_rope_cache_args *a, union attn_value *v)
{
    const bool rotates = d->head_dim > d->head_dim_v;
    const int64_t parts = attn_parts(d->heads, PART_HEADS), items = a->tokens * parts;
    const int64_t whole = rotates && a->q_nope && !d->product_dim ? run_parts(items, d->heads) : 0;
    const int64_t queries = whole            ? attn_parts(items, WAVES * whole)
                            : d->product_dim ? d->heads * (d->head_dim_v / SLICE_ROWS / WAVES)
                            : a->q_nope      ? items
                                             : 0;
    const int64_t run = whole ? attn_parts(a->tokens, queries) : run_tokens(a->tokens);
    const int64_t rows = whole ? 0 : attn_parts(a->tokens, WAVES * run);
    const int64_t rotated = rotates && !whole ? attn_parts(items, WAVES) : 0;
    fill_rotated(d, a, v);
    v[ATTN_ARG_RUN_PARTS].i64 = whole;
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_HEAD_PARTS].i64 = parts;
    v[ATTN_ARG_ROW_GROUPS].i64 = rows;
    v[ATTN_ARG_ROTATED_GROUPS].i64 = rotated;
    v[ATTN_ARG_WORKGROUPS].i64 = rows + rotated + queries;
    return ATTN_OK;
}

/* Rows of w that a workgroup of head_product multiplies: if its waves have separate rows, and if
 * they share the columns. */
enum { KEPT_ROWS = 128, SHARED_ROWS = 32 };

/* True if the waves of a workgroup of head_product share the columns of SHARED_ROWS rows of w,
 * which is faster with few tokens. Only kernels with 512 columns can. If all heads of a model are
 * on one rank, there are more rows of w, so the limit of tokens is higher. */
static bool shares_columns(const struct attn_head_product_desc *d, int32_t tokens)
{
    enum { FEW_TOKENS = 128, ALL_HEADS = 128, SHARED_COLUMNS = 512 };
    const int few = d->heads < ALL_HEADS ? FEW_TOKENS : 2 * FEW_TOKENS;
    return tokens <= few && d->head_dim == SHARED_COLUMNS;
}

/* Divides the tokens of head_product into groups. A workgroup reads its rows of w once and then at
 * least TOKENS_LEAST tokens. The kernel uses fewer groups if the device cannot hold all of them at
 * once. */
int attn_head_product_fill(const struct attn_head_product_desc *d,
                           const struct attn_head_product_args *a, union attn_value *v)
{
    enum { WORKGROUPS_WANTED = 1280, TOKENS_LEAST = 64, LARGE_COLUMNS = 256 };
    const int64_t all = d->head_dim > LARGE_COLUMNS ? WORKGROUPS_WANTED / 2 : WORKGROUPS_WANTED;
    const int64_t kept = d->heads * attn_parts(d->head_dim_v, KEPT_ROWS);
    const int64_t wanted = attn_parts(all, kept), most = attn_parts(a->tokens, TOKENS_LEAST);
    const int64_t groups = wanted < most ? wanted : most;
    if (d->shared)
        v[ATTN_ARG_X_HEAD_STRIDE].i64 = 0;
    const bool share = shares_columns(d, a->tokens);
    v[ATTN_ARG_SHARE_COLUMNS].i64 = share;
    v[ATTN_ARG_TOKEN_GROUPS].i64 = share ? 1 : groups;
    v[ATTN_ARG_WORKGROUPS].i64 = share ? d->heads * (d->head_dim_v / SHARED_ROWS) : groups * kept;
    return ATTN_OK;
}

/* Sets the number of tokens of a wave and of workgroups of qk_rmsnorm. A wave reads the weight,
 * which has as many bytes as a row, once for all its tokens. For BOTH_FROM to BOTH_TO tokens a
 * workgroup has rows of q and of kv, and reads both weights once for two tokens of each wave. */
int attn_qk_rmsnorm_fill(const struct attn_qk_rmsnorm_desc *d, const struct attn_qk_rmsnorm_args *a,
                         union attn_value *v)
{
    enum { BOTH_FROM = 4096, BOTH_TO = 12288, BOTH_RUN = 2 };
    (void)d;
    const bool both = a->kv && a->tokens >= BOTH_FROM && a->tokens <= BOTH_TO;
    const int64_t run = both ? BOTH_RUN : run_tokens(a->tokens);
    const int64_t groups = attn_parts(a->tokens, WAVES * run);
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_ROW_GROUPS].i64 = both ? 0 : groups;
    v[ATTN_ARG_WORKGROUPS].i64 = a->kv && !both ? 2 * groups : groups;
    return ATTN_OK;
}

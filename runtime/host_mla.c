/* SPDX-License-Identifier: Apache-2.0 */
/* This file divides the work of the ops around latent attention among workgroups. */
#include "runtime/fill.h"
#include "runtime/host.h"

/* mla_rope_cache: templates/mla_rope_cache.c has as many waves, and as many heads of each. */
enum { WAVES = 4, PART_HEADS = 16 };

/* Tokens of a wave that writes latents: it reads the weight of the norm, as much as one, once. */
static int64_t run_tokens(int32_t tokens)
{
    enum { WAVES_WANTED = 1024, MOST = 8 };
    const int64_t run = tokens / WAVES_WANTED;
    return run < 1 ? 1 : run < MOST ? run : MOST;
}

/* The rotated part of q: behind the latent in q_out, or in place. */
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
    const int64_t parts = attn_parts(d->heads, PART_HEADS), run = run_tokens(a->tokens);
    const int64_t rows = attn_parts(a->tokens, WAVES * run);
    const bool rotates = d->head_dim > d->head_dim_v;
    const int64_t rotated = rotates ? attn_parts(a->tokens * parts, WAVES) : 0;
    fill_rotated(d, a, v);
    v[ATTN_ARG_RUN_TOKENS].i64 = run;
    v[ATTN_ARG_HEAD_PARTS].i64 = parts;
    v[ATTN_ARG_ROW_GROUPS].i64 = rows;
    v[ATTN_ARG_ROTATED_GROUPS].i64 = rotated;
    v[ATTN_ARG_WORKGROUPS].i64 = rows + rotated + (a->q_nope ? a->tokens * parts : 0);
    return ATTN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what the files about the GPU share: kernels, memory, launches. */
#ifndef PARTS_H
#define PARTS_H

#include "gpu.h"
#include "layer.h"
#include "work.h"

/* The kernels of a layer. `keys` and `values` are products of latents, as those of absorption. */
struct kernels {
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *norm, *rotate, *rotate_step, *keys, *values, *prefill, *chunk, *merge;
    struct attn_op *gather, *plan, *absorb, *decode, *combine, *raise;
    struct attn_op *index_rotate, *choose, *join, *sparse; /* with an indexer */
};

/* Inputs that calls read from device memory, so that a graph finds new values there. */
struct inputs {
    int64_t *positions; /* [token] */
    int64_t *slots;     /* [token]: where its row goes; -1: nowhere */
    int32_t *q_ends;    /* [BATCH + 1]: first new token of each sequence */
    int32_t *k_ends;    /* [BATCH + 1]: first row of each sequence's chunk */
    int32_t *starts;    /* [BATCH]: first token of each sequence's chunk */
    int32_t *kv_lens;   /* [BATCH] */
};

struct memory {
    struct inputs in;
    struct tensors t;
    uint16_t *q_norm, *kv_norm, *kv_b, *absorb;
    uint16_t *chunk_out;    /* [token, heads, value] */
    float *lse, *chunk_lse; /* [heads, TOKENS] */
    float *cos_sin;         /* [LONGEST, ROPE] */
    uint8_t *cache;         /* [page, page size, ROW] */
    float *scale;           /* of the cache, where it is fp8 */
    int32_t *block_table;   /* [BATCH, pages of a sequence] */
    struct work work;
    float *index_norm, *index_bias;
    struct attn_indexer_topk_workspace places; /* in the indexer's workspace */
    int32_t *row_sequences, *row_ends; /* [TOKENS]: of each token its sequence, and keys it sees */
};

struct layer {
    const struct model *model;
    const struct shape *shape;
    struct kernels kernels;
    struct memory memory;
    hipStream_t stream;
    hipGraphExec_t step;
    struct index index;
    bool fnuz; /* fp8 of this GPU */
};

void kernels_open(struct kernels *k, const struct shape *s);
void kernels_close(struct kernels *k);

void launch_norm(const struct layer *l, int tokens);

/* Rotation and cache write; `step`: of a step's absorbed queries. */
void launch_rotate(const struct layer *l, int tokens, bool step);

/* Keys and values of `tokens` rows of latents with their rotated keys. */
void launch_up(const struct layer *l, const uint16_t *rows, int tokens);

/* Causal over the new tokens; or over a chunk's, of which `longest` is the most of a sequence. */
void launch_prefill(const struct layer *l, const struct call *call);
void launch_chunk(const struct layer *l, const struct call *call);
void launch_gather(const struct layer *l);

/* W_UK before the attention over latents, W_UV behind it. */
void launch_absorb(const struct layer *l, int tokens);
void launch_raise(const struct layer *l, int tokens);

/* All of a step. */
void launch_step(const struct layer *l);

struct attn_cache latent_cache(const struct layer *l);

/* sparse.c: all of a call where an indexer chooses the keys, and its memory. */
void sparse_allocate(struct layer *l);
void sparse_free(struct layer *l);
void launch_sparse(const struct layer *l);

#endif

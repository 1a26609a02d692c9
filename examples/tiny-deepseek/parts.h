/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the GPU files share: kernels, memory, launches. */
#ifndef PARTS_H
#define PARTS_H

#include "gpu.h"
#include "layer.h"
#include "work.h"

/* The kernels of a layer. `keys` and `values` multiply latents by parts of kv_b. */
struct kernels {
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *norm, *rotate, *rotate_step, *keys, *values, *prefill, *chunk, *merge;
    struct attn_op *gather, *plan, *decode;
    struct attn_op *absorb, *raise, *index_rotate, *choose, *join,
        *sparse; /* attention to chosen keys, only with an indexer */
};

/* Inputs that calls read from device memory, so that a replayed graph sees new values. */
struct inputs {
    int64_t *positions; /* [token]: position in its sequence */
    int64_t *slots;     /* [token]: slot of the token's row in the cache; -1: none */
    int32_t *q_ends;    /* [BATCH + 1]: first new token of each sequence */
    int32_t *k_ends;    /* [BATCH + 1]: first row of each sequence's chunk */
    int32_t *starts;    /* [BATCH]: first token of each sequence's chunk */
    int32_t *kv_lens;   /* [BATCH]: keys of each sequence */
};

struct memory {
    struct inputs in;
    struct tensors t;
    uint16_t *q_norm, *kv_norm, *kv_b, *absorb;
    uint16_t *chunk_out;    /* [token, heads, value]: attention to a chunk */
    float *lse, *chunk_lse; /* [heads, TOKENS]: LSE of the output and of a chunk */
    float *cos_sin;         /* [LONGEST, ROPE]: cosines, then sines, of each position */
    uint8_t *cache;         /* [page, page size, ROW]: cached rows */
    float *scale;           /* scale of an fp8 cache */
    int32_t *block_table;   /* [BATCH, pages of a sequence]: page numbers */
    struct work work;
    int32_t *tickets, *product_tickets; /* counters of a step's workgroups, 0 between launches */
    float *index_norm, *index_bias;
    struct attn_indexer_topk_workspace places; /* offsets in the indexer's workspace */
    int32_t *row_sequences, *row_ends; /* [TOKENS]: each token's sequence, and number of visible
                                        * keys */
};

struct layer {
    const struct model *model;
    const struct shape *shape;
    struct kernels kernels;
    struct memory memory;
    hipStream_t stream;
    hipGraphExec_t step;
    struct index index;
    bool fnuz; /* this GPU's fp8 is FNUZ */
};

void kernels_open(struct kernels *k, const struct shape *s);
void kernels_close(struct kernels *k);

void launch_norm(const struct layer *l, int tokens);

/* Launches rotation and cache write. With `step` it also multiplies a step's queries by W_UK; if
 * there is an indexer, launch_absorb() has done so. */
void launch_rotate(const struct layer *l, int tokens, bool step);

/* Launches the products that make keys and values from `tokens` rows of latents with their rotated
 * keys. */
void launch_up(const struct layer *l, const uint16_t *rows, int tokens);

/* launch_prefill() is causal over the new tokens. launch_chunk() attends to a chunk, in which a
 * sequence has at most CHUNK tokens, and merges the result into the output. */
void launch_prefill(const struct layer *l, const struct call *call);
void launch_chunk(const struct layer *l, const struct call *call);
void launch_gather(const struct layer *l);

/* Multiply by W_UK before the attention over lists of latents, and by W_UV after it. */
void launch_absorb(const struct layer *l, int tokens);
void launch_raise(const struct layer *l, int tokens);

/* Launches all kernels of a step. */
void launch_step(const struct layer *l);

struct attn_cache latent_cache(const struct layer *l);

/* sparse.c: launches all kernels of a call with an indexer, and allocates its memory. */
void sparse_allocate(struct layer *l);
void sparse_free(struct layer *l);
void launch_sparse(const struct layer *l);

#endif

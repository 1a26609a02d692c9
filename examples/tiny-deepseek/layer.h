/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the layer's attention on the GPU, through libattn only: norms, prefill that
 * does not absorb, with chunks of what is cached already, and absorbed decode of one or more
 * queries a sequence as one captured graph.
 */
#ifndef LAYER_H
#define LAYER_H

#include "model.h"

enum {
    BATCH = 4,               /* sequences; a row without one is padding */
    QUERIES = 4,             /* of a sequence in a step: its token, and up to 3 drafts */
    STEP = BATCH * QUERIES,  /* tokens of a step */
    TOKENS = 256,            /* room for a prefill's new tokens */
    CHUNK = 64,              /* cached tokens of a sequence that prefill takes at a time */
    CHUNKED = BATCH * CHUNK, /* of all sequences */
    LONGEST = 256,           /* tokens of a sequence */
    MOST_TOKENS = TOKENS > CHUNKED ? TOKENS : CHUNKED
};

/* The sequences of a call. Their new tokens lie one sequence behind the other. */
struct call {
    int lengths[BATCH]; /* of a sequence with its new tokens; 0: the row is padding */
    int added[BATCH];   /* new tokens among these, the last ones */
};

int call_tokens(const struct call *call);

/* Returns how many tokens of chunk `number` a sequence has in the cache; 0 if it has no new
 * tokens. */
int call_chunk(const struct call *call, int sequence, int number);

struct layer;

/* Ends the program with a message where something fails; so do all functions here. */
struct layer *layer_open(const struct model *m);
void layer_close(struct layer *l);

/* Norms of both: q_a [tokens, q_lora] and the latents of kv_a [tokens, ROW], in place. */
void layer_norm(struct layer *l, int tokens, uint16_t *q_a, uint16_t *kv_a);

/*
 * The new tokens, which see each other: rotation, cache, keys and values from the latents that
 * layer_norm() has left on the device. q is [tokens, heads, nope + ROPE].
 */
void layer_prefill(struct layer *l, const struct call *call, const uint16_t *q);

/* Adds the attention of the new tokens to tokens number * CHUNK .. of the cache to the result. */
void layer_prefill_chunk(struct layer *l, const struct call *call, int number);

/* A step: replays the graph. */
void layer_step(struct layer *l, const struct call *call, const uint16_t *q);

/*
 * A call of any kind where an indexer chooses the keys: prompts, chunks of prompts and generated
 * tokens beside each other, all of them absorbed. Replays the graph, whatever the call has.
 */
struct index_inputs {
    const uint16_t *q;       /* [token, index_heads, INDEX] */
    const uint16_t *k;       /* [token, INDEX] */
    const uint16_t *weights; /* [token, index_heads] */
};
void layer_sparse(struct layer *l, const struct call *call, const uint16_t *q,
                  const struct index_inputs *index);

/* The indexer's numbers on the device. */
struct index {
    uint16_t *q, *k, *weights; /* as above */
    uint8_t *q_out;            /* fp8 [token, index_heads, INDEX] */
    float *weights_out;        /* [token, index_heads], with the scales of q */
    uint8_t *cache;            /* [page, page size, key]: keys, then 4 bytes of scale each */
    int32_t *slots;            /* [token, chosen] of the latent cache; then -1 */
    int32_t *counts;           /* [token] */
    char *workspace;           /* the plan, and the lists of tokens that it cuts */
};
const struct index *layer_index(const struct layer *l);
size_t layer_index_page(const struct layer *l); /* bytes */
int64_t layer_slot(const struct layer *l, int sequence, int token);

/* These return where a byte of a token's key, and its scale, or the first of its four scales, are
 * in the indexer's cache, in bytes. */
size_t layer_index_key(const struct layer *l, int sequence, int token, int byte);
size_t layer_index_scale(const struct layer *l, int sequence, int token);

/* These return an fp8 of this GPU as a number, and the largest. */
double layer_fp8(const struct layer *l, uint8_t bits);
double layer_fp8_largest(const struct layer *l);

/* Results that calls leave on the device. */
struct tensors {
    uint16_t *q_a;      /* [token, q_lora] */
    uint16_t *kv_a;     /* [token, ROW]: normalised, and by layer_prefill() rotated */
    uint16_t *q;        /* [token, heads, nope + ROPE], by layer_prefill() rotated */
    uint16_t *k;        /* [token, heads, nope + ROPE] of the new tokens or of a chunk */
    uint16_t *v;        /* [token, heads, value] */
    uint16_t *gathered; /* [token, ROW] of a chunk */
    uint16_t *absorbed; /* [token, heads, ROW] of a step, or with an indexer of a call */
    uint16_t *latent;   /* [token, heads, LATENT]: what its attention gives */
    uint16_t *out;      /* [token, heads, value] */
};

const struct tensors *layer_tensors(const struct layer *l);
void layer_download(struct layer *l, void *to, const void *from, size_t size);

/* A token's row of the cache as numbers: what is stored times the scale, which is also returned. */
float layer_read_row(struct layer *l, int sequence, int token, double row[ROW]);

#endif

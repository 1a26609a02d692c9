/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer's attention on the GPU, through libattn only: norms; prefill without absorption, over
 * cached tokens in chunks; and absorbed decode of one or more queries per sequence as one captured
 * graph.
 */
#ifndef LAYER_H
#define LAYER_H

#include "model.h"

enum {
    BATCH = 4,               /* sequences; unused rows are padding */
    QUERIES = 4,             /* queries of a sequence in a step: its token and up to 3 drafts */
    STEP = BATCH * QUERIES,  /* tokens per step */
    TOKENS = 256,            /* most new tokens of a prefill */
    CHUNK = 64,              /* most cached tokens of a sequence in a prefill chunk */
    CHUNKED = BATCH * CHUNK, /* most cached tokens of all sequences in a prefill chunk */
    LONGEST = 256,           /* most tokens of a sequence */
    MOST_TOKENS = TOKENS > CHUNKED ? TOKENS : CHUNKED
};

/* The sequences of a call. Their new tokens are packed sequence after sequence. */
struct call {
    int lengths[BATCH]; /* tokens of a sequence including the new ones; 0: the row is padding */
    int added[BATCH];   /* number of new tokens, which are the last ones */
};

int call_tokens(const struct call *call);

/* Returns how many cached tokens of a sequence are in chunk `number`; 0 if it has no new tokens. */
int call_chunk(const struct call *call, int sequence, int number);

struct layer;

/* Opens a layer. This and all functions below end the program with a message on failure. */
struct layer *layer_open(const struct model *m);
void layer_close(struct layer *l);

/* Normalises q_a [tokens, q_lora] and the latents of kv_a [tokens, ROW] in place. */
void layer_norm(struct layer *l, int tokens, uint16_t *q_a, uint16_t *kv_a);

/*
 * Computes the attention of the new tokens among themselves: rotation, cache, keys and values. It
 * uses the latents that layer_norm() has left on the device. q is [tokens, heads, nope + ROPE].
 */
void layer_prefill(struct layer *l, const struct call *call, const uint16_t *q);

/* Merges the new tokens' attention to chunk `number` of the cache into the result. */
void layer_prefill_chunk(struct layer *l, const struct call *call, int number);

/* Runs a decode step by replaying the graph. */
void layer_step(struct layer *l, const struct call *call, const uint16_t *q);

/*
 * Runs a call of any kind if an indexer chooses the keys: prompts, chunks of prompts and generated
 * tokens together, all absorbed. Replays the same graph for every call.
 */
struct index_inputs {
    const uint16_t *q;       /* [token, index_heads, INDEX]: queries */
    const uint16_t *k;       /* [token, INDEX]: keys */
    const uint16_t *weights; /* [token, index_heads]: weights of the heads' scores */
};
void layer_sparse(struct layer *l, const struct call *call, const uint16_t *q,
                  const struct index_inputs *index);

/* The indexer's tensors on the device. */
struct index {
    uint16_t *q, *k, *weights; /* as in struct index_inputs */
    uint8_t *q_out;            /* rotated queries in fp8, [token, index_heads, INDEX] */
    float *weights_out;        /* [token, index_heads]: weights times the scales of q_out */
    uint8_t *cache;            /* [page, page size, key]: keys, then 4 bytes of scales per key */
    int32_t *slots;  /* [token, chosen]: chosen slots of the latent cache, filled up with -1 */
    int32_t *counts; /* [token]: number of chosen slots */
    char *workspace; /* the plan, and the lists of tokens whose keys it cuts */
};
const struct index *layer_index(const struct layer *l);
/* Returns the bytes of a page of the indexer's cache. */
size_t layer_index_page(const struct layer *l);
int64_t layer_slot(const struct layer *l, int sequence, int token);

/* Return the byte offsets in the indexer's cache of a byte of a token's key, and of its (first)
 * scale. */
size_t layer_index_key(const struct layer *l, int sequence, int token, int byte);
size_t layer_index_scale(const struct layer *l, int sequence, int token);

/* Return the value of an fp8 number of this GPU, and the largest one. */
double layer_fp8(const struct layer *l, uint8_t bits);
double layer_fp8_largest(const struct layer *l);

/* Results of calls on the device. */
struct tensors {
    uint16_t *q_a;      /* [token, q_lora]: first projection of the queries, normalised */
    uint16_t *kv_a;     /* [token, ROW]: normalised latents and keys; rotated by layer_prefill() */
    uint16_t *q;        /* [token, heads, nope + ROPE]: queries; rotated by layer_prefill() */
    uint16_t *k;        /* [token, heads, nope + ROPE]: keys of the new tokens or of a chunk */
    uint16_t *v;        /* [token, heads, value]: values of the new tokens or of a chunk */
    uint16_t *gathered; /* [token, ROW]: rows of a chunk, gathered from the cache */
    /* [token, heads, ROW]: absorbed queries of a step, or of any call with an indexer */
    uint16_t *absorbed;
    uint16_t *latent; /* [token, heads, LATENT]: result of the absorbed attention */
    uint16_t *out;    /* [token, heads, value]: result of attention */
};

const struct tensors *layer_tensors(const struct layer *l);
void layer_download(struct layer *l, void *to, const void *from, size_t size);

/* Reads a token's row of the cache as numbers: stored values times the scale, which is returned. */
float layer_read_row(struct layer *l, int sequence, int token, double row[ROW]);

#endif

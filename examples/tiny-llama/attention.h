/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer's attention on the GPU, through libattn only: QK norm, rotation and cache write,
 * prefill, and decode steps as one captured graph.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "model.h"

enum {
    BATCH = 4,  /* sequences of a decode step; unused rows are padding */
    PAGE = 16,  /* tokens per page of the cache */
    PAGES = 32, /* most pages of a sequence */
    LONGEST = PAGE * PAGES,
    TOKENS = BATCH * LONGEST /* most tokens of a prefill */
};

struct attention;

/*
 * Opens the attention. This and all functions below end the program with a message on failure. A
 * decode step is one launch, which is faster for up to 64 sequences, or with `separate` three.
 */
struct attention *attention_open(const struct model *m, bool separate);
void attention_close(struct attention *a);

/*
 * Computes the attention of the sequences' packed prompts: lengths[s] tokens each, 0 for none.
 * Writes their keys and values to the cache; `out` is [token, QUERY].
 */
void attention_prefill(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                       uint16_t *out);

/*
 * Runs a decode step with one new token per live sequence by replaying the graph. lengths[s]
 * includes the new token; 0: padding. qkv is [BATCH, QKV], out [BATCH, QUERY].
 */
void attention_step(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                    uint16_t *out);

/* Reads the rotated queries of the last call, [token, HEADS, DIM]. */
void attention_read_queries(struct attention *a, int tokens, uint16_t *queries);

/* Reads key and value of a token from the cache: [KV_HEADS, DIM] each. */
void attention_read_cache(struct attention *a, int sequence, int token, uint16_t *key,
                          uint16_t *value);

#endif

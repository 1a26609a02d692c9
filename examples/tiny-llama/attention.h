/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the layer's attention on the GPU, through libattn only: QK norm, rotation and
 * cache write, prefill, and decode steps that are one captured graph.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "model.h"

enum {
    BATCH = 4,  /* sequences of a decode step; a row without one is padding */
    PAGE = 16,  /* tokens in a page of the cache */
    PAGES = 32, /* pages that a sequence may have */
    LONGEST = PAGE * PAGES,
    TOKENS = BATCH * LONGEST /* room for a prefill */
};

struct attention;

/* Ends the program with a message where something fails; so do all functions here. */
struct attention *attention_open(const struct model *m);
void attention_close(struct attention *a);

/*
 * The prompts of the sequences, packed one behind the other: lengths[s] tokens each, 0 for none.
 * Their keys and values go to the cache, `out` is [token, QUERY].
 */
void attention_prefill(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                       uint16_t *out);

/*
 * One new token for each sequence that has one, of which lengths[s] counts it too, 0 for none:
 * replays the graph. qkv is [BATCH, QKV], out [BATCH, QUERY].
 */
void attention_step(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                    uint16_t *out);

/* The rotated queries of the last call, [token, HEADS, DIM]. */
void attention_read_queries(struct attention *a, int tokens, uint16_t *queries);

/* Key and value of a token of a sequence, read from the cache: [KV_HEADS, DIM] each. */
void attention_read_cache(struct attention *a, int sequence, int token, uint16_t *key,
                          uint16_t *value);

#endif

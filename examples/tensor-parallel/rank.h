/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank: its part of the heads on its own GPU. Ranks share nothing. The output projections,
 * which an engine sums over ranks, are left out.
 */
#ifndef RANK_H
#define RANK_H

#include "shapes.h"

struct rank;

/* Opens a rank; sinks is [LAYERS, HEADS]. This and all functions below end the program with a
 * message on failure. */
struct rank *rank_open(int ordinal, const float *sinks);
void rank_close(struct rank *r);

/*
 * Computes the attention of the sequences' packed prompts: lengths[s] tokens each, 0 for none.
 * Writes their keys and values to the layer's cache. qkv is [token, QKV], out [token, QUERY].
 */
void rank_prefill(struct rank *r, int layer, const uint16_t *qkv, const int lengths[BATCH],
                  uint16_t *out);

/*
 * A decode step of all layers, with a new token for each live sequence. rank_begin_step() replays
 * the graph without waiting, so that ranks work concurrently; rank_end_step() waits. qkv is
 * [LAYERS, BATCH, QKV], out [LAYERS, BATCH, QUERY].
 */
void rank_begin_step(struct rank *r, const uint16_t *qkv);
void rank_end_step(struct rank *r, uint16_t *out);

/* Ends sequence s: its row is padding from now on. */
void rank_drop(struct rank *r, int s);

/* Reads a layer's rotated queries of the last call, [token, QUERY]. */
void rank_read_queries(struct rank *r, int layer, int tokens, uint16_t *queries);

/* Reads a sequence's keys and values from a layer's cache, [tokens, KEY] each. */
void rank_read_cache(struct rank *r, int layer, int s, int tokens, uint16_t *keys,
                     uint16_t *values);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares one rank: its part of the heads, on a GPU of its own. Ranks share nothing. The
 * output projections, which an engine adds up over ranks, are not here.
 */
#ifndef RANK_H
#define RANK_H

#include "shapes.h"

struct rank;

/* sinks is [LAYERS, HEADS]. Ends the program with a message where something fails; so do all
 * functions here. */
struct rank *rank_open(int ordinal, const float *sinks);
void rank_close(struct rank *r);

/*
 * The prompts of the sequences, packed: lengths[s] tokens each, 0 for none. Their keys and values
 * go to the layer's cache. qkv is [token, QKV], out [token, QUERY].
 */
void rank_prefill(struct rank *r, int layer, const uint16_t *qkv, const int lengths[BATCH],
                  uint16_t *out);

/*
 * A step of all layers: a new token for each sequence that has one. Begin replays the graph and
 * does not wait, so that ranks work at the same time; end waits. qkv is [LAYERS, BATCH, QKV], out
 * [LAYERS, BATCH, QUERY].
 */
void rank_begin_step(struct rank *r, const uint16_t *qkv);
void rank_end_step(struct rank *r, uint16_t *out);

/* Sequence s is over: its row is padding from now on. */
void rank_drop(struct rank *r, int s);

/* Reads a layer's queries as the last call rotated them, [token, QUERY]. */
void rank_read_queries(struct rank *r, int layer, int tokens, uint16_t *queries);

/* Reads a sequence's keys and values out of a layer's cache, [tokens, KEY] each. */
void rank_read_cache(struct rank *r, int layer, int s, int tokens, uint16_t *keys,
                     uint16_t *values);

#endif

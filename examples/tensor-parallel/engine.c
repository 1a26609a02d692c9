/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs two ranks with two kinds of layer. Prompts go through a paged prefill; each decode step
 * replays one graph per rank. The graph counts tokens, finds slots and plans the work on the
 * device. The host only uploads new queries, keys and values. Those are made-up numbers:
 * ../tiny-llama has the rest of a layer. All results of the GPUs are checked after every call. Exit
 * status: 0 all right, 1 wrong results, 2 no GPU or no memory.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "formulas.h"
#include "numbers.h"
#include "rank.h"

enum { STEPS = 12, LAST_STEP_OF_1 = 5 };

static const int prompts[BATCH] = {37, 5, 300, 0, 129}; /* one row is padding from the start */

struct engine {
    struct rank *ranks[RANKS];
    float sinks[RANKS][LAYERS][HEADS];
    int lengths[BATCH]; /* tokens of each sequence; 0: the row is padding */
    uint16_t qkv[RANKS][LAYERS][TOKENS * QKV];
    uint16_t out[RANKS][LAYERS][TOKENS * QUERY];
    uint16_t queries[TOKENS * QUERY], keys[LONGEST * KEY], values[LONGEST * KEY];
};

/* Returns a random number from -1 to 1 that bf16 represents exactly. */
static uint16_t random_bf16(uint64_t *state)
{
    return bf16_from_float((float)random_byte(state) / 128);
}

static void fill(uint16_t *row, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < QKV; i++)
        row[i] = random_bf16(&state);
}

/* Checks the last `count` tokens of a sequence, whose rows begin at `first`. */
static void check_sequence(struct engine *e, int rank, int layer, int s, int first, int count,
                           struct verdict *verdict)
{
    const int length = e->lengths[s];
    const uint16_t *const qkv = e->qkv[rank][layer], *const out = e->out[rank][layer];
    rank_read_cache(e->ranks[rank], layer, s, length, e->keys, e->values);
    for (int i = 0; i < count; i++) {
        const int t = length - count + i, row = first + i;
        check_rotated(verdict, qkv + row * QKV, t, e->queries + row * QUERY, e->keys + t * KEY,
                      e->values + t * KEY);
        check_attention(verdict, e->queries + row * QUERY, t + 1, has_window(layer) ? WINDOW : 0,
                        e->sinks[rank][layer], e->keys, e->values, out + row * QUERY);
    }
}

static bool prefill(struct engine *e)
{
    int tokens = 0;
    struct verdict verdict = {0};
    for (int s = 0; s < BATCH; s++) {
        e->lengths[s] = prompts[s];
        tokens += prompts[s];
    }
    for (int rank = 0; rank < RANKS; rank++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            uint16_t *const qkv = e->qkv[rank][layer];
            for (int i = 0; i < tokens; i++)
                fill(qkv + i * QKV, 1 + (uint64_t)(i * LAYERS + layer) * RANKS + rank);
            rank_prefill(e->ranks[rank], layer, qkv, e->lengths, e->out[rank][layer]);
            rank_read_queries(e->ranks[rank], layer, tokens, e->queries);
            for (int s = 0, first = 0; s < BATCH; first += prompts[s++])
                check_sequence(e, rank, layer, s, first, prompts[s], &verdict);
        }
    }
    return report_call("prefill", tokens, e->lengths, BATCH, verdict.rotated, verdict.attention);
}

static bool step(struct engine *e, int number)
{
    static uint16_t qkv[RANKS][LAYERS][BATCH][QKV], out[RANKS][LAYERS][BATCH][QUERY];
    struct verdict verdict = {0};
    for (int s = 0; s < BATCH; s++)
        e->lengths[s] += e->lengths[s] != 0;
    for (int rank = 0; rank < RANKS; rank++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            for (int s = 0; s < BATCH; s++)
                fill(qkv[rank][layer][s],
                     1000000 + (uint64_t)((number * BATCH + s) * LAYERS + layer) * RANKS + rank);
            memcpy(e->qkv[rank][layer], qkv[rank][layer], sizeof(qkv[rank][layer]));
        }
        rank_begin_step(e->ranks[rank], qkv[rank][0][0]);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        rank_end_step(e->ranks[rank], out[rank][0][0]);
        for (int layer = 0; layer < LAYERS; layer++) {
            memcpy(e->out[rank][layer], out[rank][layer], sizeof(out[rank][layer]));
            rank_read_queries(e->ranks[rank], layer, BATCH, e->queries);
            for (int s = 0; s < BATCH; s++)
                check_sequence(e, rank, layer, s, s, e->lengths[s] != 0, &verdict);
        }
    }
    return report_call("step   ", number, e->lengths, BATCH, verdict.rotated, verdict.attention);
}

int main(void)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return 2;
    uint64_t state = 7;
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < LAYERS * HEADS; i++)
            e->sinks[rank][i / HEADS][i % HEADS] = 2 * bf16_to_float(random_bf16(&state));
        e->ranks[rank] = rank_open(rank, e->sinks[rank][0]);
    }
    bool ok = prefill(e);
    for (int number = 0; number < STEPS; number++) {
        for (int rank = 0; rank < RANKS && number == LAST_STEP_OF_1 + 1; rank++) {
            rank_drop(e->ranks[rank], 1);
            e->lengths[1] = 0;
        }
        ok &= step(e, number);
    }
    for (int rank = 0; rank < RANKS; rank++)
        rank_close(e->ranks[rank]);
    free(e);
    return !ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine with one decoder layer of Qwen3-8B. It fills the cache from prompts of several lengths,
 * then generates: each step's result is the next step's input. The contexts grow, then one sequence
 * ends and its row becomes padding. All results of the GPU are checked after every call. Exit
 * status: 0 all right, 1 wrong results, 2 no GPU or no memory.
 */
#include <stdbool.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "formulas.h"

enum { STEPS = 24, LAST_STEP_OF_1 = 11 };

static const int prompts[BATCH] = {37, 5, 470, 0}; /* the last row is padding from the start */

struct engine {
    struct model model;
    struct attention *attention;
    int lengths[BATCH]; /* tokens of each sequence; 0: the row is padding */
    float hidden[BATCH][HIDDEN];
    uint16_t qkv[TOKENS * QKV];
    uint16_t queries[TOKENS * QUERY];
    uint16_t out[TOKENS * QUERY];
    uint16_t keys[LONGEST * KEY], values[LONGEST * KEY]; /* of one sequence */
};

/* Checks `count` new tokens at the end of a sequence, whose rows begin at `first`. */
static void check_sequence(struct engine *e, int s, int first, int count, struct verdict *verdict)
{
    const int length = e->lengths[s];
    for (int t = 0; t < length; t++)
        attention_read_cache(e->attention, s, t, e->keys + t * KEY, e->values + t * KEY);
    for (int i = 0; i < count; i++) {
        const int t = length - count + i, row = first + i;
        check_rotated(verdict, &e->model, e->qkv + row * QKV, t, e->queries + row * QUERY,
                      e->keys + t * KEY, e->values + t * KEY);
        check_attention(verdict, e->queries + row * QUERY, t + 1, e->keys, e->values,
                        e->out + row * QUERY);
    }
}

static bool prefill(struct engine *e)
{
    static float hidden[TOKENS][HIDDEN];
    int tokens = 0;
    for (int s = 0; s < BATCH; s++) {
        e->lengths[s] = prompts[s];
        for (int t = 0; t < prompts[s]; t++, tokens++) {
            embed(s * LONGEST + t, hidden[tokens], HIDDEN);
            model_project(&e->model, hidden[tokens], e->qkv + tokens * QKV);
        }
    }
    attention_prefill(e->attention, e->qkv, e->lengths, e->out);
    attention_read_queries(e->attention, tokens, e->queries);
    struct verdict verdict = {0};
    for (int s = 0, first = 0; s < BATCH; first += prompts[s++]) {
        check_sequence(e, s, first, prompts[s], &verdict);
        if (prompts[s] == 0)
            continue;
        const int last = first + prompts[s] - 1; /* a model would sample from it */
        memcpy(e->hidden[s], hidden[last], sizeof(e->hidden[s]));
        model_add_output(&e->model, e->out + last * QUERY, e->hidden[s]);
    }
    return report_call("prefill", tokens, e->lengths, BATCH, verdict.rotated, verdict.attention);
}

static bool step(struct engine *e, int number)
{
    if (number > LAST_STEP_OF_1)
        e->lengths[1] = 0;
    for (int s = 0; s < BATCH; s++) {
        if (e->lengths[s] == 0)
            continue;
        e->lengths[s]++;
        model_project(&e->model, e->hidden[s], e->qkv + s * QKV);
    }
    attention_step(e->attention, e->qkv, e->lengths, e->out);
    attention_read_queries(e->attention, BATCH, e->queries);
    struct verdict verdict = {0};
    for (int s = 0; s < BATCH; s++) {
        if (e->lengths[s] == 0) { /* no visible keys: zeros */
            check_attention(&verdict, e->queries + s * QUERY, 0, NULL, NULL, e->out + s * QUERY);
            continue;
        }
        check_sequence(e, s, s, 1, &verdict);
        model_add_output(&e->model, e->out + s * QUERY, e->hidden[s]);
    }
    return report_call("step   ", number, e->lengths, BATCH, verdict.rotated, verdict.attention);
}

int main(int argc, char **argv)
{
    static struct engine e;
    e.model = model_make();
    e.attention = attention_open(&e.model, argc > 1 && strcmp(argv[1], "separate") == 0);
    bool ok = prefill(&e);
    for (int number = 0; number < STEPS; number++)
        ok &= step(&e, number);
    attention_close(e.attention);
    model_free(&e.model);
    return !ok;
}

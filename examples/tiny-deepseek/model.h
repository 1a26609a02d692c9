/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's part of the layer: projections outside attention, in plain C with made-up weights, and
 * the shapes of a rank.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "numbers.h"

/* Sizes that the models share, or the largest of those that differ. */
enum {
    LATENT = 512,
    ROPE = 64,
    ROW = LATENT + ROPE, /* elements of a row of the cache, of kv_a and of an absorbed query */
    MOST_HIDDEN = 7168,
    MOST_Q_LORA = 2048,
    MOST_QUERY = 3072,        /* most elements of a token's queries: heads * (nope + ROPE) */
    MOST_OUT = 2048,          /* most elements of a token's output: heads * value */
    MOST_ABSORBED = 16 * ROW, /* most elements of a token's absorbed queries: heads * ROW */
    INDEX = 128,              /* elements of an indexer's head; the first ROPE rotate */
    MOST_INDEX_HEADS = 64,
    MOST_CHOSEN = 64 /* keys that an indexer chooses */
};

/* A rank's part of a model's attention. */
struct shape {
    const char *name;
    int hidden, heads, nope, value, q_lora;
    double rope_base, yarn; /* yarn: factor by which the context is extended; 1: none */
    bool fp8;               /* the cache is fp8, with one scale per tensor */
    int page;               /* tokens per page of the cache */
    int index_heads;        /* heads of the sparse indexer; 0: attention is dense */
    int chosen;             /* keys that the indexer chooses for a query */
    bool mxfp4;             /* the indexer's keys are mxfp4, on MI355X; else fp8 */
};

/* The shapes of all models. main() runs the last shape only if it is named, since not every GPU
 * supports it. */
extern const struct shape shapes[];
enum { SHAPES = 4 };

static inline int key_dim(const struct shape *s) { return s->nope + ROPE; }
static inline int query_size(const struct shape *s) { return s->heads * key_dim(s); }
static inline int out_size(const struct shape *s) { return s->heads * s->value; }

static const float rms_eps = 1e-6f;

/* Returns the factor of the scores: 1 / sqrt(nope + rope), times the square of YaRN's mscale. */
double softmax_scale(const struct shape *s);

/* Returns the angle by which pair i of ROPE / 2 rotates at a position. */
double rope_angle(const struct shape *s, int position, int i);

struct model {
    const struct shape *shape;
    int8_t *q_a;                  /* [q_lora, hidden] */
    int8_t *kv_a;                 /* [ROW, hidden] */
    int8_t *q_b;                  /* [heads, nope + ROPE, q_lora] */
    int8_t *output;               /* [hidden, heads, value] */
    uint16_t *kv_b;               /* bf16 [heads, nope + value, LATENT], as in a checkpoint */
    uint16_t *absorb;             /* W_UK, bf16 [heads, LATENT, nope]: keys of kv_b, transposed */
    uint16_t q_norm[MOST_Q_LORA]; /* bf16 */
    uint16_t kv_norm[LATENT];
    int8_t *index_q;       /* [index_heads, INDEX, q_lora] */
    int8_t *index_k;       /* [INDEX, hidden] */
    int8_t *index_weights; /* [index_heads, hidden] */
    float index_norm[INDEX], index_bias[INDEX];
};

struct model model_make(const struct shape *shape);
void model_free(struct model *m);

/* Computes RMSNorm and the first projections: q_a [q_lora] and kv_a [ROW] in bf16, the kernels'
 * format. */
void model_project(const struct model *m, const float *hidden, uint16_t *q_a, uint16_t *kv_a);

/* Projects the normalised q_a to queries, [heads, nope + ROPE]. */
void model_project_q(const struct model *m, const uint16_t *q_a, uint16_t *q);

/* Computes the indexer's queries from the normalised q_a, [index_heads, INDEX], and its key and
 * weights from the hidden state. */
void model_project_index(const struct model *m, const float *hidden, const uint16_t *q_a,
                         uint16_t *q, uint16_t *k, uint16_t *weights);

/* Adds this rank's part of the output projection to the hidden state. */
void model_add_output(const struct model *m, const uint16_t *attention, float *hidden);

#endif

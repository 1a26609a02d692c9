/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder layer without its attention. */
#include "model.h"

#include <math.h>
#include <stdlib.h>

const struct shape shapes[SHAPES] = {
    {"deepseek-v3", 7168, 16, 128, 128, 1536, 1e4, 40, true, 64, 0, 0, false},
    {"glm-5", 6144, 8, 192, 256, 2048, 1e6, 1, false, 16, 0, 0, false},
    {"deepseek-v3.2", 7168, 16, 128, 128, 1536, 1e4, 40, true, 64, 64, 64, false},
    {"deepseek-v3.2-mxfp4", 7168, 16, 128, 128, 1536, 1e4, 40, true, 64, 64, 64, true},
};

double softmax_scale(const struct shape *s)
{
    const double mscale = s->yarn > 1 ? 0.1 * log(s->yarn) + 1 : 1;
    return mscale * mscale / sqrt(key_dim(s));
}

/*
 * Returns an angle with YaRN: within the 4,096 tokens of the training context, pairs that rotate
 * more than 32 times keep their frequency. Pairs that rotate less than once have it divided by
 * yarn. Between them is a ramp.
 */
double rope_angle(const struct shape *s, int position, int i)
{
    const double trained = 4096, two_pi = 6.283185307179586;
    const double frequency = pow(s->rope_base, -2.0 * i / ROPE);
    if (s->yarn <= 1)
        return position * frequency;
    const double per_turn = ROPE / (2 * log(s->rope_base));
    const double low = floor(per_turn * log(trained / (32 * two_pi)));
    const double high = ceil(per_turn * log(trained / two_pi));
    const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return position * frequency * (1 - ramp + ramp / s->yarn);
}

/* Makes weights of kv_b, scaled so that products with a normalised latent have about its size. */
static void make_kv_b(struct model *m)
{
    const struct shape *s = m->shape;
    const int rows = s->nope + s->value;
    m->kv_b = host_allocate((size_t)s->heads * rows * LATENT * sizeof(*m->kv_b));
    m->absorb = host_allocate((size_t)s->heads * LATENT * s->nope * sizeof(*m->absorb));
    uint64_t state = 5;
    for (int i = 0; i < s->heads * rows * LATENT; i++)
        m->kv_b[i] = bf16_from_float((float)random_byte(&state) / (74 * sqrtf(LATENT)));
    for (int h = 0; h < s->heads; h++) {
        for (int c = 0; c < LATENT; c++) {
            for (int n = 0; n < s->nope; n++)
                m->absorb[(h * LATENT + c) * s->nope + n] = m->kv_b[(h * rows + n) * LATENT + c];
        }
    }
}

static void make_index(struct model *m)
{
    const struct shape *s = m->shape;
    uint64_t state = 10;
    m->index_q = make_weights((size_t)s->index_heads * INDEX * s->q_lora, 7);
    m->index_k = make_weights((size_t)INDEX * s->hidden, 8);
    m->index_weights = make_weights((size_t)s->index_heads * s->hidden, 9);
    for (int i = 0; i < INDEX; i++) {
        m->index_norm[i] = 1 + (float)random_byte(&state) / 512;
        m->index_bias[i] = (float)random_byte(&state) / 512;
    }
}

struct model model_make(const struct shape *s)
{
    struct model m = {
        .shape = s,
        .q_a = make_weights((size_t)s->q_lora * s->hidden, 1),
        .kv_a = make_weights((size_t)ROW * s->hidden, 2),
        .q_b = make_weights((size_t)query_size(s) * s->q_lora, 3),
        .output = make_weights((size_t)s->hidden * out_size(s), 4),
    };
    make_kv_b(&m);
    if (s->index_heads)
        make_index(&m);
    uint64_t state = 6;
    make_norm(m.q_norm, s->q_lora, &state);
    make_norm(m.kv_norm, LATENT, &state);
    return m;
}

void model_free(struct model *m)
{
    void *const memory[] = {m->q_a,    m->kv_a,    m->q_b,     m->output,       m->kv_b,
                            m->absorb, m->index_q, m->index_k, m->index_weights};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        free(memory[i]);
}

void model_project(const struct model *m, const float *hidden, uint16_t *q_a, uint16_t *kv_a)
{
    const int count = m->shape->hidden;
    float x[MOST_HIDDEN];
    normalise(hidden, count, rms_eps, x);
    project_rows(m->q_a, m->shape->q_lora, x, count, q_a);
    project_rows(m->kv_a, ROW, x, count, kv_a);
}

void model_project_q(const struct model *m, const uint16_t *q_a, uint16_t *q)
{
    float x[MOST_Q_LORA];
    for (int i = 0; i < m->shape->q_lora; i++)
        x[i] = bf16_to_float(q_a[i]);
    project_rows(m->q_b, query_size(m->shape), x, m->shape->q_lora, q);
}

void model_project_index(const struct model *m, const float *hidden, const uint16_t *q_a,
                         uint16_t *q, uint16_t *k, uint16_t *weights)
{
    const struct shape *s = m->shape;
    float x[MOST_HIDDEN];
    normalise(hidden, s->hidden, rms_eps, x);
    project_rows(m->index_k, INDEX, x, s->hidden, k);
    project_rows(m->index_weights, s->index_heads, x, s->hidden, weights);
    for (int i = 0; i < s->q_lora; i++)
        x[i] = bf16_to_float(q_a[i]);
    project_rows(m->index_q, s->index_heads * INDEX, x, s->q_lora, q);
}

void model_add_output(const struct model *m, const uint16_t *attention, float *hidden)
{
    add_product(m->output, m->shape->hidden, attention, out_size(m->shape), hidden);
}

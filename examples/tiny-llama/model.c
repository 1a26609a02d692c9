/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder layer without its attention. */
#include "model.h"

#include <stdlib.h>

struct model model_make(void)
{
    struct model m = {
        .qkv = make_weights((size_t)QKV * HIDDEN, 1),
        .output = make_weights((size_t)HIDDEN * QUERY, 2),
    };
    uint64_t state = 3;
    make_norm(m.q_norm, DIM, &state);
    make_norm(m.k_norm, DIM, &state);
    return m;
}

void model_free(struct model *m)
{
    free(m->qkv);
    free(m->output);
}

void model_project(const struct model *m, const float *hidden, uint16_t *qkv)
{
    float x[HIDDEN];
    normalise(hidden, HIDDEN, rms_eps, x);
    project_rows(m->qkv, QKV, x, HIDDEN, qkv);
}

void model_add_output(const struct model *m, const uint16_t *attention, float *hidden)
{
    add_product(m->output, HIDDEN, attention, QUERY, hidden);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a token's heads against the formulas; ../common/formulas.c derives the bounds. */
#include "check.h"

#include <math.h>

#include "formulas.h"

void check_rotated(struct verdict *verdict, const struct model *m, const uint16_t *given,
                   int position, const uint16_t *q, const uint16_t *k, const uint16_t *v)
{
    const struct rotation of_q = {DIM, rope_base, rms_eps, m->q_norm};
    const struct rotation of_k = {DIM, rope_base, rms_eps, m->k_norm};
    for (int h = 0; h < HEADS; h++)
        check_head(&verdict->rotated, &of_q, given + h * DIM, position, q + h * DIM);
    for (int h = 0; h < KV_HEADS; h++)
        check_head(&verdict->rotated, &of_k, given + QUERY + h * DIM, position, k + h * DIM);
    for (int i = 0; i < KEY; i++) /* an exact copy */
        note_error(&verdict->rotated, v[i], given[QUERY + KEY + i], 0);
}

void check_attention(struct verdict *verdict, const uint16_t *q, int keys, const uint16_t *k,
                     const uint16_t *v, const uint16_t *out)
{
    for (int h = 0; h < HEADS; h++) {
        const int kv = h / (HEADS / KV_HEADS) * DIM;
        const struct seen_keys seen = {DIM, 0, keys, KEY, -INFINITY, k + kv, v + kv};
        check_row(&verdict->attention, &seen, q + h * DIM, out + h * DIM);
    }
}

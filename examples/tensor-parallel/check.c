/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a token's heads against the formulas; ../common/formulas.c derives the bounds. */
#include "check.h"

#include "formulas.h"

void check_rotated(struct verdict *verdict, const uint16_t *given, int position, const uint16_t *q,
                   const uint16_t *k, const uint16_t *v)
{
    const struct rotation r = {.dim = DIM, .base = rope_base};
    for (int h = 0; h < HEADS; h++)
        check_head(&verdict->rotated, &r, given + h * DIM, position, q + h * DIM);
    for (int h = 0; h < KV_HEADS; h++)
        check_head(&verdict->rotated, &r, given + QUERY + h * DIM, position, k + h * DIM);
    for (int i = 0; i < KEY; i++) /* an exact copy */
        note_error(&verdict->rotated, v[i], given[QUERY + KEY + i], 0);
}

void check_attention(struct verdict *verdict, const uint16_t *q, int keys, int window,
                     const float sinks[HEADS], const uint16_t *k, const uint16_t *v,
                     const uint16_t *out)
{
    const int first = window && keys > window ? keys - window : 0;
    for (int h = 0; h < HEADS; h++) {
        const int kv = h / (HEADS / KV_HEADS) * DIM;
        const struct seen_keys seen = {DIM, first, keys, KEY, sinks[h], k + kv, v + kv};
        check_row(&verdict->attention, &seen, q + h * DIM, out + h * DIM);
    }
}

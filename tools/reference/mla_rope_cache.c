/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is the formulas and nothing else:
 *
 *   out[0 .. latent)  = c / sqrt(mean(c^2) + eps) * weight, or c
 *   out[latent ..)    = the pairs of pe turned by the token's angles: rope_qk_norm_cache.c
 */
#include "tools/reference/mla_rope_cache.h"

#include <string.h>

/* Appends `count` elements of a head to another one from element `at` on, with their magnitudes. */
static void append(struct ref_rope_head *to, int at, const struct ref_rope_head *from, int count)
{
    memcpy(to->out + at, from->out, (size_t)count * sizeof(*to->out));
    memcpy(to->magnitude + at, from->magnitude, (size_t)count * sizeof(*to->magnitude));
}

void ref_mla_row(const struct ref_mla_row *p, struct ref_rope_head *result)
{
    struct ref_rope_head part;
    if (p->c) {
        const struct ref_rope latent = {
            .dim = p->latent,
            .norm = p->norm,
            .eps = p->eps,
            .x = p->c,
            .weight = p->weight,
        };
        ref_rope_head(&latent, &part);
        append(result, 0, &part, p->latent);
    }
    const struct ref_rope turned = {
        .dim = p->rotary,
        .rotary_dim = p->rotary,
        .pairs = p->pairs,
        .x = p->pe,
        .cos = p->cos,
        .sin = p->sin,
    };
    ref_rope_head(&turned, &part);
    append(result, p->latent, &part, p->rotary);
}

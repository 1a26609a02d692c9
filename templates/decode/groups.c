/* SPDX-License-Identifier: Apache-2.0
 *
 * decode: tiles for a group of the query heads of a KV head. As many workgroups as groups share a
 * work list, and are neighbours on one XCD. Each loads, merges and adds up only the rows of its
 * group, but reads all keys, most of them from the L2.
 */
#include "templates/decode/decode.h"

/* Most groups of heads: 128 rows in tiles of 16. Each group has two of the 32 counters of a ticket,
 * which therefore has counters for at most 16 groups. */
enum { MOST_GROUPS = 8 };

unsigned decode_head_groups(const struct att_variant *v, const struct att_tile *t)
{
    unsigned n = 1;
    while (t->own[DECODE_BY_GROUPS] && n < (unsigned)v->gqa &&
           (v->gqa % (int)n || v->gqa / (int)n * v->q_len > t->rows))
        n++;
    return n;
}

bool decode_fits_groups(const struct att_variant *v, const struct att_tile *t,
                        const struct tir_machine *m, struct att_why *why)
{
    const unsigned n = decode_head_groups(v, t);
    if (m->lane_bits < TIR_WAVE_BITS)
        return att_reject(why, ATT_TILE,
                          "the tile has no registers for groups of heads in waves of %s", m->name);
    if (n < 2 || n > MOST_GROUPS || v->gqa / (int)n * v->q_len > t->rows)
        return att_reject(
            why, ATT_TILE,
            "the tile is for more than %d rows, gqa times q_len, in 2 to %d groups of heads",
            t->rows, MOST_GROUPS);
    return true;
}

bool decode_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    struct att_tile first;
    if (n || !v->gqa || !att_find_tile(v, m, &first, NULL) || first.waves_per_simd > 1)
        return false;
    for (unsigned i = 0; i < DECODE_TILES; i++) {
        const struct att_tile *const t = &decode_tiles[i];
        if (!t->own[DECODE_BY_GROUPS] || !decode_fits(v, t, m, NULL))
            continue;
        const int most = (int)(m->cus / decode_head_groups(v, t));
        *second = (struct att_second){.tile = i + 1,
                                      .calls = {.rows = {{ARG_WORKGROUPS, 0, most}}, .count = 1}};
        return true;
    }
    return false;
}

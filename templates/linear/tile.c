/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/tile.h"

#include "ir/bits.h"
#include "templates/linear/state.h"

/* Least and largest head_dim and head_dim_v. */
enum { LEAST_DIM = 64, MOST_DIM = 256 };

const struct att_tile att_state_tiles[ATT_STATE_TILES] = {
    {.waves = 1,
     .waves_per_simd = 2,
     .own = {[ATT_STATE_ELEMENTS] = 4096},
     .why = "64 registers of state under way at once; rows of memory are lines of 128 bytes"},
};

unsigned att_state_rows(const struct att_variant *v, const struct att_tile *t)
{
    const unsigned rows = t->own[ATT_STATE_ELEMENTS] / (unsigned)v->head_dim;
    return rows < (unsigned)v->head_dim_v ? rows : (unsigned)v->head_dim_v;
}

bool att_state_check_dims(const struct att_variant *v, struct att_why *why)
{
    static const enum att_field dims[] = {ATT_HEAD_DIM, ATT_HEAD_DIM_V};
    for (int i = 0; i < 2; i++) {
        const int dim = att_get(v, dims[i]);
        if (!tir_is_power(dim) || dim < LEAST_DIM || dim > MOST_DIM)
            return att_reject(why, dims[i], "%d is not 64, 128 or 256", dim);
    }
    return true;
}

bool att_state_space_check(const struct att_variant *v, const struct tir_machine *m,
                           struct att_why *why)
{
    if (!att_state_check_dims(v, why))
        return false;
    if (v->gates == ATT_GATES_BOUNDED)
        return att_reject(why, ATT_GATES, "decays of state spaces have no lower bound");
    if (v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU)
        return att_reject(why, ATT_ACT, "z goes through silu");
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS)
        return att_reject(why, ATT_STATE_LAYOUT, "is v_major or k_major");
    return att_check_tile(v, m, why);
}

bool att_state_fits(const struct att_variant *v, const struct att_tile *t,
                    const struct tir_machine *m, struct att_why *why)
{
    const unsigned rows = att_state_rows(v, t), parts = (unsigned)v->head_dim_v / rows;
    if (v->state_layout == ATT_STATE_LAYOUT_V_MAJOR && rows < att_state_least_rows(v, m))
        return att_reject(why, ATT_TILE, "%u value elements of %d keys leave lanes without a part",
                          rows, v->head_dim);
    if (parts < t->waves)
        return att_reject(why, ATT_HEAD_DIM_V, "%u waves have %u parts of %d elements", t->waves,
                          parts, v->head_dim_v);
    return att_fits_waves(v, t, m, why);
}

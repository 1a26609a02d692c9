/* SPDX-License-Identifier: Apache-2.0
 *
 * This file says where the pipeline of `prefill` runs each step of its loop: stage and phase.
 *
 * Two groups of waves a phase apart have phases of memory, M1 and M2, and of products, C1 and C2:
 *
 *   PAGES   look up the pages of K, with a paged cache only    M2
 *   COPY_K  copy K to LDS                                      M2
 *   WAIT_K  K has arrived                                      M2
 *   SCORES  read K, load V  M1       S = K Q  C1      mask  EDGE    running maximum, P  C2
 *   VALUES  V to LDS, rescale  M1    sum of P, P to 16 bits  C1    read V  M2    O += V P  C2
 *
 * A wave that has its SIMD to itself has nothing but its own work beside its products: M1 and M2
 * are barriers and branches, and all else stands in C1 and C2. What the first product of a phase
 * takes is read in the phase before it.
 *
 *   COPY_K  copy K to LDS  C2
 *   WAIT_K  K has arrived  M2    read its first columns  C2
 *   SCORES  read the rest of K, S = K Q, copy V to LDS  C1    mask  M2    P  C2
 *   VALUES  V is there, rescale  M1    sum of P, read the first of V  C1    the rest, O += V P  C2
 *
 * There V that passes through registers goes to LDS a stage earlier, in C2.
 */
#include "templates/prefill/prefill.h"

/* READ is the beginning of M1, for tiles that read K before V is written. EDGE is the beginning of
 * M2: what it makes needs no registers once V is there. FIRST is that of C2: copies that stand
 * there are newer than loads which C2 waits for. */
enum phase { READ, M1, C1, EDGE, M2, FIRST, C2 };
enum stage { PAGES, COPY_K, WAIT_K, SCORES, VALUES, N_STAGES };

/* Plain tensors have no stage for page numbers. */
static struct att_place at(const struct prefill *p, struct att_place place)
{
    const unsigned first = p->v->paged ? PAGES : COPY_K;
    return (struct att_place){(uint8_t)(place.stage - first), place.phase};
}

typedef struct att_place places[PREFILL_N_STEPS];

static const places in_groups = {
    [PREFILL_FIND_K_PAGES] = {PAGES, M2},  [PREFILL_FETCH_K] = {COPY_K, M2},
    [PREFILL_PLACE_K] = {WAIT_K, M2},      [PREFILL_AWAIT_K] = {WAIT_K, M2},
    [PREFILL_FIND_V_PAGES] = {WAIT_K, M2}, [PREFILL_READ_K] = {SCORES, M1},
    [PREFILL_READ_MORE_K] = {SCORES, C1},  [PREFILL_SCORES] = {SCORES, C1},
    [PREFILL_FETCH_V] = {SCORES, M1},      [PREFILL_CLEAR_V] = {VALUES, M1},
    [PREFILL_PLACE_V] = {VALUES, M1},      [PREFILL_AWAIT_V] = {VALUES, M1},
    [PREFILL_READ_V] = {VALUES, M2},       [PREFILL_READ_MORE_V] = {VALUES, M2},
    [PREFILL_HAVE_V] = {VALUES, M2},
};

static const places alone = {
    [PREFILL_FETCH_K] = {COPY_K, C2},     [PREFILL_PLACE_K] = {WAIT_K, M2},
    [PREFILL_AWAIT_K] = {WAIT_K, M2},     [PREFILL_READ_K] = {WAIT_K, C2},
    [PREFILL_READ_MORE_K] = {SCORES, C1}, [PREFILL_SCORES] = {SCORES, C1},
    [PREFILL_FETCH_V] = {SCORES, C1},     [PREFILL_PLACE_V] = {VALUES, M1},
    [PREFILL_AWAIT_V] = {VALUES, M1},     [PREFILL_READ_V] = {VALUES, C1},
    [PREFILL_READ_MORE_V] = {VALUES, C2}, [PREFILL_HAVE_V] = {VALUES, M2},
};

/* V alone passes through registers: it is transposed there. */
static const places alone_turned = {
    [PREFILL_FETCH_K] = {COPY_K, FIRST},  [PREFILL_PLACE_K] = {WAIT_K, M2},
    [PREFILL_AWAIT_K] = {WAIT_K, M2},     [PREFILL_READ_K] = {WAIT_K, C2},
    [PREFILL_READ_MORE_K] = {SCORES, C1}, [PREFILL_SCORES] = {SCORES, C1},
    [PREFILL_FETCH_V] = {SCORES, C1},     [PREFILL_PLACE_V] = {SCORES, C2},
    [PREFILL_AWAIT_V] = {VALUES, M1},     [PREFILL_READ_V] = {VALUES, C1},
    [PREFILL_HAVE_V] = {VALUES, M2},      [PREFILL_FETCH_MORE_K] = {COPY_K, C2},
};

/* K and V of a paged cache pass through registers, where they get the type to compute with. */
static const places alone_paged = {
    [PREFILL_FIND_K_PAGES] = {PAGES, M2},  [PREFILL_FETCH_K] = {COPY_K, C1},
    [PREFILL_FIND_V_PAGES] = {COPY_K, M1}, [PREFILL_PLACE_K] = {WAIT_K, C1},
    [PREFILL_AWAIT_K] = {WAIT_K, M2},      [PREFILL_READ_K] = {WAIT_K, C2},
    [PREFILL_READ_MORE_K] = {SCORES, C1},  [PREFILL_SCORES] = {SCORES, C1},
    [PREFILL_FETCH_V] = {WAIT_K, C1},      [PREFILL_CLEAR_V] = {SCORES, M2},
    [PREFILL_PLACE_V] = {SCORES, C2},      [PREFILL_AWAIT_V] = {VALUES, M1},
    [PREFILL_READ_V] = {VALUES, C1},       [PREFILL_HAVE_V] = {VALUES, M2},
};

static struct att_place place_of(const struct prefill *p, enum prefill_step s)
{
    const bool turned = prefill_is_alone(p) && p->by_columns && !p->v->paged;
    if (s == PREFILL_FETCH_MORE_K && !turned)
        return place_of(p, PREFILL_FETCH_K);
    if (!prefill_is_alone(p)) {
        struct att_place place = in_groups[s];
        if (s == PREFILL_READ_K && p->tile->own[PREFILL_KEYS_FIRST])
            place.phase = READ;
        if (s == PREFILL_READ_V && prefill_reads_before_vote(p))
            place.phase = EDGE;
        /* Scalars, which nothing waits for there: reads of LDS would wait for them too. */
        if (p->page_copies && (s == PREFILL_FIND_K_PAGES || s == PREFILL_FIND_V_PAGES))
            place.phase = C1;
        if (s == PREFILL_READ_MORE_K && p->tile->whole_keys)
            return place_of(p, PREFILL_READ_K);
        return place;
    }
    /* V that is transposed holds registers from here on, and a round is long enough without C1. */
    const bool turns_late = p->v->paged && p->v->kv_dtype == ATT_KV_DTYPE_SAME;
    if (s == PREFILL_FETCH_V && turns_late)
        return (struct att_place){WAIT_K, C2};
    return p->v->paged ? alone_paged[s] : turned ? alone_turned[s] : alone[s];
}

void prefill_place(struct prefill *p, enum prefill_step s)
{
    const struct att_place place = at(p, place_of(p, s));
    p->b.stage = place.stage;
    p->b.phase = place.phase;
}

/* Two rounds take registers of both, and groups that share keys in 16 bits have no vector registers
 * for that. On gfx942 more than 32 values of V a lane fill them too, and the loop of D 128, which
 * has 2 % beside its matrix clocks, was 1 % longer. */
bool prefill_has_round_pairs(const struct prefill *p)
{
    const bool full = prefill_has_full_turns(p) || (p->groups > 1 && p->bytes == 2);
    const bool square = p->v->head_dim == 128 && p->v->head_dim_v == 128;
    const unsigned values = p->kv * p->dv / (p->waves * TIR_WAVE_LANES);
    const bool fits = p->m->has_lds_read_tr || (!square && values <= 32);
    const bool moves = p->v->paged && !p->page_copies;
    return !moves && !att_scales_scores(p->v) && !full && fits;
}

/* Scores that are kept until the weights are made take 32 registers, and no moves where a loop has
 * two rounds, whose scores take turns. */
bool prefill_votes_late(const struct prefill *p)
{
    const int most = p->m->has_pk_max3 ? 96 : 64;
    /* With 96 columns and a causal mask this would spill two scalar registers. */
    if (p->v->head_dim > 64 && !p->sum_rows && p->v->mask == ATT_MASK_CAUSAL)
        return false;
    return prefill_has_round_pairs(p) && p->bytes == 2 && p->rows == 32 && p->v->head_dim <= most &&
           p->v->head_dim_v <= most;
}

/* Is M2 longer than the other group's C1? */
static bool has_long_m2(const struct prefill *p) { return prefill_votes_late(p) && p->sum_rows; }

/* The vote is on its way while V of the first keys is read. A loop of more than 80 columns was 1 %
 * longer. */
bool prefill_reads_before_vote(const struct prefill *p)
{
    enum { COLUMNS = 80 };
    return has_long_m2(p) && p->v->head_dim <= COLUMNS;
}

/* The first product has room for half of the exponentials beside a vote on the weights. */
uint8_t prefill_late_eighths(const struct prefill *p)
{
    enum { HALF = 4 };
    const bool halves = prefill_votes_late(p) && p->m->has_pk_max3;
    return halves ? HALF : (uint8_t)p->tile->own[PREFILL_LATE_EIGHTHS];
}

/* Tiles of 64 keys on gfx942 have room for more where bf16 is cut and l a row of O^T: loops of 72
 * to 88 were up to 1.5 % shorter. Those with LSE or sinks, and fp16, were up to 0.6 % longer. */
uint8_t prefill_hoisted(const struct prefill *p)
{
    enum { MORE = 12, KEYS = 64 };
    const bool turns = p->v->mask == ATT_MASK_NONE || p->v->mask == ATT_MASK_CAUSAL;
    const bool cut = p->sum_rows && p->by_columns && p->dtype == TIR_BF16 && !p->v->sinks;
    return cut && turns && p->kv == KEYS ? MORE : p->tile->hoist_vgprs;
}

/* Branches must not stand among matrix instructions. */
void prefill_place_attention(struct prefill *p)
{
    static const struct att_place steps[ATT_N_STEPS] = {
        [ATT_STEP_MODIFY] = {SCORES, M2},   [ATT_STEP_MAXIMUM] = {SCORES, M2},
        [ATT_STEP_EXPONENT] = {SCORES, C2}, [ATT_STEP_POWER] = {SCORES, C2},
        [ATT_STEP_POWER_2] = {SCORES, C2},  [ATT_STEP_RESCALE] = {VALUES, M1},
        [ATT_STEP_SUM] = {VALUES, C1},      [ATT_STEP_PRODUCT] = {VALUES, C2},
    };
    for (int i = 0; i < ATT_N_STEPS; i++)
        p->steps[i] = at(p, steps[i]);
    if (p->tile->late_power)
        p->steps[ATT_STEP_POWER_2] = p->steps[ATT_STEP_SUM];
    if (p->tile->late_maximum)
        p->steps[ATT_STEP_MAXIMUM] = p->steps[ATT_STEP_EXPONENT];
    if (prefill_votes_late(p))
        p->steps[ATT_STEP_RESCALE] = at(p, (struct att_place){VALUES, EDGE});
    /* Not where it is work enough to hide the way of V, nor where M2 is long: V is read before the
     * mask's branch there. */
    const bool short_mask = !att_scales_scores(p->v) && p->v->mask != ATT_MASK_CUSTOM;
    if (p->tile->late_maximum && short_mask && !has_long_m2(p))
        p->steps[ATT_STEP_MODIFY].phase = EDGE;
}

void prefill_schedule(const struct prefill *p, struct tir_schedule *s)
{
    s->stages = p->v->paged ? N_STAGES : N_STAGES - COPY_K;
    s->matrix_phases = 1u << C1 | 1u << FIRST | 1u << C2;
    s->joined_phases = 1u << READ | 1u << EDGE | 1u << FIRST;
    s->alone = prefill_is_alone(p);
    s->ping_pong = prefill_is_alone(p) ? 1 : 2;
}

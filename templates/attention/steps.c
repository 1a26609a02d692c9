/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores to weights, O and l: each step of the online softmax as an op of a pipeline. Pipelines
 * differ in the rescale check that their tables have:
 *
 *     check_scores    m follows the scores before they become weights
 *     check_previous  weights are made with the m of the block before; it is checked beside that,
 *                     and if m is updated, these weights are computed again
 *     check_weights   the weights are compared with a limit; m is updated if one exceeds it
 *
 * exp2 takes about half of the softmax's issue slots. A block's keys are therefore divided into
 * parts. The powers of the first parts are computed in the iteration of their scores. The powers of
 * the last late_eighths are computed in the next iteration.
 */
#include "templates/attention/steps.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

#include "ir/arith.h"

const struct pipe_slot att_slots[ATT_N_SLOTS + 1] = {
    [ATT_SLOT_M] = {"m", 1},
    [ATT_SLOT_L] = {"l", 1},
    [ATT_SLOT_O] = {"O", 1},
    [ATT_SLOT_REST] = {"last rows of O", 1},
    [ATT_SLOT_K_PAGES] = {"pages of K", 0},
    [ATT_SLOT_V_PAGES] = {"pages of V", 0},
    [ATT_SLOT_K_DATA] = {"K from memory", 0},
    [ATT_SLOT_V_DATA] = {"V from memory", 0},
    [ATT_SLOT_V_READY] = {"V as it is stored", 0},
    [ATT_SLOT_MASK] = {"mask bytes", 0},
    [ATT_SLOT_K] = {"K", 0},
    [ATT_SLOT_K_MORE] = {"the rest of K", 0},
    [ATT_SLOT_V] = {"V", 0},
    [ATT_SLOT_V_MORE] = {"the rest of V", 0},
    [ATT_SLOT_V_REST] = {"the last columns of V", 0},
    [ATT_SLOT_S] = {"S", 0},
    [ATT_SLOT_GROWN] = {"the check of m", 0},
    [ATT_SLOT_EXPONENT] = {"exponents", 0},
    [ATT_SLOT_P] = {"P", 0},
    [ATT_SLOT_P16] = {"rounded P", 0},
    [ATT_SLOT_TOP] = {"the largest P", 0},
    [ATT_SLOT_E] = {"the block's exponent", 0},
    [ATT_SLOT_QUARTERS] = {"the first quarter", 0},
    [ATT_SLOT_QUARTERS + 1] = {"the second quarter", 0},
    [ATT_SLOT_QUARTERS + 2] = {"the third quarter", 0},
    [ATT_SLOT_LAST_QUARTER] = {"the last quarter", 0},
    [ATT_SLOT_O_QUARTERS] = {"O, first quarter", 0},
    [ATT_SLOT_O_QUARTERS + 1] = {"O, second quarter", 0},
    [ATT_SLOT_O_QUARTERS + 2] = {"O, third quarter", 0},
    [ATT_SLOT_LAST_O_QUARTER] = {"O, last quarter", 0},
};

void att_begin_block(struct att_attention *a, struct tir_value index, struct tir_value *carried)
{
    a->now = (struct att_now){.block = {.index = index}, .carried = carried};
}

/* ---- Weights: powers of exponents, in parts ---- */

/* Returns the weights 2^exponent, f32. With a->wide_powers `exponent` is negated. */
static struct tir_value power_of(const struct att_attention *a, struct tir_value exponent)
{
    return tir_exp2(a->b, a->wide_powers ? tir_neg(a->b, exponent) : exponent);
}

/* Returns the weights `p` (f32) in 16 bits. They are truncated if l is the sum of the truncated
 * weights, since a common factor of both cancels out. Otherwise they are rounded. */
static struct tir_value round_weights(const struct att_attention *a, struct tir_value p)
{
    if (a->cut && a->sum_row)
        return tir_convert_toward_zero(a->b, p, a->dtype);
    return a->ties_any ? tir_convert_ties_any(a->b, p, a->dtype)
                       : tir_convert_short(a->b, p, a->dtype);
}

/* Appends `eighths` eighths of the block's keys, whose exponents are `exponent`, to the parts of
 * *r. The first `packed` eighths become 16-bit powers, and the last `late` remain exponents.
 * Eighths that are treated differently become separate parts. */
static void begin_part(const struct att_attention *a, struct att_powers *r,
                       struct tir_value exponent, unsigned eighths, unsigned packed, unsigned late)
{
    if ((late && late < eighths) || (packed && packed < eighths)) {
        const unsigned half = eighths / 2, lower = late < half ? late : half;
        const unsigned upper = packed < half ? packed : half;
        begin_part(a, r, tir_half(a->b, exponent, 0), half, upper, late - lower);
        begin_part(a, r, tir_half(a->b, exponent, 1), half, packed - upper, lower);
        return;
    }
    r->part[r->n] = late ? exponent : power_of(a, exponent);
    if (packed)
        r->part[r->n] = round_weights(a, r->part[r->n]);
    r->made[r->n] = !late;
    r->packed[r->n] = packed;
    r->eighths[r->n++] = (uint8_t)eighths;
}

/* Returns the exponents (log2) of the weights of scores `s`, relative to the maximum `m` (1 x
 * queries). With a->wide_powers they are negated. */
static struct tir_value exponents(const struct att_attention *a, struct tir_value s,
                                  struct tir_value m)
{
    return a->wide_powers ? att_softmax_fall(a->b, &a->softmax, s, m)
                          : att_softmax_exponent(a->b, &a->softmax, s, m);
}

/* Returns tile x (keys x queries) with its register bits reordered. The order is: columns, rows
 * within an eighth, number of the eighth. Each eighth of the rows is then a run of registers. If
 * several matrix instructions cover the columns, the instruction's number is the last bit. */
static struct tir_value rows_last(struct tir_builder *b, struct tir_value x)
{
    const struct tir_type t = tir_typeof(b->f, x);
    const struct tir_layout *const own = tir_layout_of(b->f, t);
    const struct tir_layout apart = tir_layout_regs_first(own, TIR_RC(t.rows / 8 - 1, t.cols - 1));
    return tir_layout_equal(own, &apart) ? x : tir_relayout(b, x, &apart);
}

/* Returns the powers of `exponent` (exponents of the block's weights) in parts. The last
 * a->late_eighths remain exponents. */
static struct att_powers begin_powers(const struct att_attention *a, struct tir_value exponent)
{
    struct att_powers r = {.n = 0};
    const bool cuts = a->late_eighths || a->packed_eighths;
    begin_part(a, &r, cuts ? rows_last(a->b, exponent) : exponent, 8, a->packed_eighths,
               a->late_eighths);
    return r;
}

/* Joins parts of *r, from part *at on, to one tile of `eighths` eighths of the keys. Sets *at to
 * the index after the last joined part. */
static struct tir_value join_parts(struct tir_builder *b, const struct att_powers *r, unsigned *at,
                                   unsigned eighths)
{
    if (r->eighths[*at] == eighths)
        return r->part[(*at)++];
    const struct tir_value upper = join_parts(b, r, at, eighths / 2);
    return tir_stack(b, upper, join_parts(b, r, at, eighths / 2));
}

/* Computes the powers of the parts of `r` that are still exponents, and returns all parts as one
 * tile. The tile has 16 bits if some part has 16 bits, else f32. */
static struct tir_value finish_powers(struct att_attention *a, struct att_powers *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->made[i])
            r->part[i] = power_of(a, r->part[i]);
        if (a->packed_eighths && !r->packed[i])
            r->part[i] = round_weights(a, r->part[i]);
    }
    unsigned at = 0;
    const struct tir_value p = join_parts(a->b, r, &at, 8);
    const struct tir_layout *const own = tir_layout_of(a->b->f, a->softmax.scores);
    const bool same = tir_layout_equal(own, tir_layout_of(a->b->f, tir_typeof(a->b->f, p)));
    return tir_named(a->b, "p", same ? p : tir_relayout(a->b, p, own));
}

/* Computes the exponents (log2) of the block's weights from its scores. */
static void build_exponent(void *context)
{
    struct att_attention *const a = context;
    a->now.exponent = exponents(a, a->now.s, a->now.carried[ATT_CARRY_M]);
}

/* Computes the powers of a block's weights: part 0 for the first keys, part 1 for the last
 * late_eighths. */
static void build_exp2(void *context, unsigned part)
{
    struct att_attention *const a = context;
    if (part)
        a->now.p = finish_powers(a, &a->now.powers);
    else
        a->now.powers = begin_powers(a, a->now.exponent);
}

/* ---- Steps of the mask and of the rescale check ---- */

/* Applies soft cap, hook and mask to the block's scores. */
static void build_mask(void *context)
{
    struct att_attention *const a = context;
    a->now.s = att_attention_modify(a, a->now.s, &a->now.block);
}

/* Returns the factor alpha for a block whose check does not update m; no step uses this number. The
 * number 1 costs an instruction, which matters only in loops limited by the VALU: these get an
 * undefined number. In other loops, code without that instruction lies in other fetch windows and
 * was up to 1.5 % slower. */
static struct tir_value unused_alpha(const struct att_attention *a)
{
    return att_attention_sums_pairs(a) ? tir_undef(a->b, a->softmax.vector)
                                       : tir_splat(a->b, tir_f32(a->b, 1.0f), a->softmax.vector);
}

/* Makes the rescale check of the block's scores, and updates m and alpha if a score exceeds its
 * limit. */
static void build_check_scores(void *context)
{
    struct att_attention *const a = context;
    a->now.step = att_softmax_maximum(a->b, &a->softmax, a->now.s, unused_alpha(a),
                                      &a->now.carried[ATT_CARRY_M]);
}

/* Makes the rescale check of the block's scores: sets now.step.grown if a score exceeds its limit.
 * m is not updated here. */
static void build_check_previous(void *context)
{
    struct att_attention *const a = context;
    a->now.step.grown = att_softmax_grown(a->b, &a->softmax, a->now.s, a->now.carried[ATT_CARRY_M]);
}

/* Makes the rescale check of the weights: sets now.step.grown to a scalar i1 that is true if
 * a->now.top exceeds a->most in some lane. */
static void build_check_weights(void *context)
{
    struct att_attention *const a = context;
    struct tir_builder *const b = a->b;
    if (a->sum_row) {
        a->now.step.grown = tir_any_above(b, a->now.top, a->most);
        return;
    }
    const struct tir_value grown = tir_cmp_gt(b, a->now.top, a->most);
    a->now.step.grown =
        a->wide_powers ? tir_cmp_ne(b, tir_lane_count(b, grown), tir_i32(b, 0)) : tir_any(b, grown);
}

/* ---- Steps that sum and round weights ---- */

/* Sets w->l to `l` plus the weights `p`, before they are rounded. Adds nothing if O^T includes l,
 * or if l is the sum of the rounded weights. */
static void sum_weights(struct att_attention *a, struct tir_value p, struct tir_value l,
                        struct att_p16 *w)
{
    w->l = l;
    if (a->sum_row || att_attention_sums_pairs(a))
        return;
    w->sum = tir_col_fold_sum(a->b, p);
    w->l = tir_named(a->b, "l", tir_add(a->b, l, w->sum));
}

/* Sets w->p16 to the weights `p` rounded to 16 bits. If the denominator is the sum of rounded
 * weights, also sets w->l to `l` plus these weights. */
static void finish_weights(struct att_attention *a, struct tir_value p, struct tir_value l,
                           struct att_p16 *w)
{
    struct tir_builder *const b = a->b;
    w->p16 = tir_typeof(b->f, p).dtype == TIR_F32 ? round_weights(a, p) : p;
    if (!att_attention_sums_pairs(a))
        return;
    if (a->check == ATT_CHECK_WEIGHTS) {
        w->sum = tir_col_fold_dot(b, w->p16, tir_float_like(b, l, 0.0f));
        w->l = tir_named(b, "l", tir_add(b, l, w->sum));
    } else {
        w->l = tir_named(b, "l", tir_col_fold_dot(b, w->p16, l));
    }
}

/* Adds the block's weights to l, before they are rounded. */
static void build_sum(void *context)
{
    struct att_attention *const a = context;
    sum_weights(a, a->now.p, a->now.carried[ATT_CARRY_L], &a->now.weights);
}

/* Rounds the weights for the product with V. Also updates the l that the loop carries, unless a
 * product computes l. With ATT_CHECK_WEIGHTS l is updated only after the rescale check. For that
 * check, sets now.top to the largest rounded weight if O^T includes l, else to the sum of each
 * lane's weights. */
static void build_round(void *context)
{
    struct att_attention *const a = context;
    struct att_p16 *const w = &a->now.weights;
    finish_weights(a, a->now.p, a->now.carried[ATT_CARRY_L], w);
    if (a->sum.ones.id)
        return;
    if (a->check != ATT_CHECK_WEIGHTS) {
        a->now.carried[ATT_CARRY_L] = w->l;
        return;
    }
    a->now.top = a->sum_row ? tir_col_fold_top(a->b, w->p16) : w->sum;
}

/* Rounds P to fp8. A product adds the rounded P to l, so that the output is a weighted mean of
 * values whatever the rounding errors are. */
static void build_round_fp8(void *context)
{
    struct att_attention *const a = context;
    assert(a->softmax.rise > 0); /* else small weights round to 0: att_softmax_range_fp8() */
    a->now.weights.p16 = tir_convert_in_range(a->b, a->now.p, TIR_FP8);
}

/* ---- Steps that rescale O and l if m was updated ---- */

/* Multiplies O and l by alpha if the rescale check has updated m. */
static void build_rescale(void *context)
{
    struct att_attention *const a = context;
    struct tir_builder *const b = a->b;
    const struct att_softmax_step *const step = &a->now.step;
    struct tir_value *const carried = a->now.carried;
    if (!a->sum.ones.id) {
        att_softmax_rescale(b, step, &carried[ATT_CARRY_O], &carried[ATT_CARRY_L]);
        return;
    }
    struct tir_value both[] = {carried[ATT_CARRY_L], carried[ATT_CARRY_O]};
    const struct tir_type t[] = {tir_typeof(b->f, both[0]), tir_typeof(b->f, both[1])};
    struct tir_if branch = tir_begin_if(b, step->grown, true, t, 2);
    const struct tir_value scaled[] = {
        att_attention_scale_carried(a, ATT_CARRY_L, both[0], step->alpha),
        att_attention_scale_carried(a, ATT_CARRY_O, both[1], step->alpha)};
    tir_else(b, &branch, scaled);
    tir_end_if(b, &branch, both);
    carried[ATT_CARRY_L] = both[0];
    carried[ATT_CARRY_O] = both[1];
}

/* Updates m, rescales O and l and computes weights again, if a score exceeded its limit. The
 * weights were computed with the previous block's m, and a large exponent has lost its last bits.
 * They are therefore computed anew from the scores, and overflowed values are dropped. */
static void build_rescale_previous(void *context)
{
    struct att_attention *const a = context;
    struct tir_builder *const b = a->b;
    struct tir_value *const carried = a->now.carried, s = a->now.s, grown = a->now.step.grown;
    struct att_powers *const powers = &a->now.powers;
    enum { MOST = ATT_MOST_CARRY + ATT_POWER_PARTS };
    struct tir_value *part[MOST];
    struct tir_value now[MOST], next[MOST];
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (att_attention_is_carried(a, i))
            part[n++] = &carried[i];
    const unsigned n_carried = n;
    for (unsigned i = 0; i < powers->n; i++)
        part[n++] = &powers->part[i];
    for (unsigned i = 0; i < n; i++)
        now[i] = *part[i];
    const struct tir_value some = a->wide_powers ? tir_cmp_ne(b, grown, tir_i32(b, 0)) : grown;
    struct tir_if branch = tir_begin_if_like(b, some, true, now, n);
    const struct tir_value m = att_softmax_next(b, &a->softmax, s, now[ATT_CARRY_M]);
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, now[ATT_CARRY_M], m));
    *powers = begin_powers(a, exponents(a, s, m));
    next[ATT_CARRY_M] = m;
    for (unsigned i = 1; i < n_carried; i++)
        next[i] =
            att_attention_scale_carried(a, (enum att_carry)(part[i] - carried), now[i], alpha);
    for (unsigned i = n_carried; i < n; i++)
        next[i] = *part[i];
    tir_else(b, &branch, next);
    tir_end_if(b, &branch, now);
    for (unsigned i = 0; i < n; i++)
        *part[i] = now[i];
}

/* Updates m, rescales l and O of the previous blocks, and computes the weights again from the
 * scores, if a weight exceeded its limit (now.step.grown). */
static void build_rescale_weights(void *context)
{
    struct att_attention *const a = context;
    struct tir_builder *const b = a->b;
    struct tir_value *const carried = a->now.carried, s = a->now.s;
    struct att_p16 *const w = &a->now.weights;
    enum { M, O, P, L, REST, N };
    struct tir_value *const part[N] = {&carried[ATT_CARRY_M], &carried[ATT_CARRY_O], &w->p16, &w->l,
                                       &carried[ATT_CARRY_REST]};
    const unsigned n = a->sum_row ? L : att_attention_has_rest(a) ? N : REST;
    struct tir_value now[N], next[N];
    for (unsigned i = 0; i < n; i++)
        now[i] = *part[i];
    struct tir_if branch = tir_begin_if_like(b, a->now.step.grown, true, now, n);
    next[M] = att_softmax_next(b, &a->softmax, s, now[M]);
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, now[M], next[M]));
    next[O] = att_attention_scale_carried(a, ATT_CARRY_O, now[O], alpha);
    struct tir_value l = carried[ATT_CARRY_L];
    if (!a->sum_row)
        l = att_attention_scale_carried(a, ATT_CARRY_L, l, alpha);
    struct att_p16 anew = {.p16 = {0}};
    const struct tir_value p = power_of(a, exponents(a, s, next[M]));
    sum_weights(a, p, l, &anew);
    finish_weights(a, p, l, &anew);
    next[P] = anew.p16;
    next[L] = anew.l;
    tir_else(b, &branch, next);
    tir_end_if(b, &branch, now);
    for (unsigned i = 0; i < n; i++)
        *part[i] = now[i];
    carried[ATT_CARRY_L] = w->l;
}

/* ---- Steps that multiply with V^T, or with ones ---- */

/* Adds V^T P^T to O^T for part `part` (index) of the block's keys. */
static void build_product(void *context, unsigned part)
{
    struct att_attention *const a = context;
    struct tir_value *const o = &a->now.carried[ATT_CARRY_O], v = a->now.v;
    const unsigned parts = a->value_parts ? a->value_parts : 1;
    const struct tir_value p16 = att_part(a->b, a->now.weights.p16, part, parts);
    *o = tir_named(a->b, "o",
                   a->in_agprs ? tir_mma_in_agprs(a->b, a->product, v, p16, *o)
                               : tir_mma(a->b, a->product, v, p16, *o));
}

/* Adds the product of the last 8 rows of V^T with P^T to the last 8 rows of O^T. */
static void build_product_rest(void *context)
{
    struct att_attention *const a = context;
    struct tir_value *const rest = &a->now.carried[ATT_CARRY_REST];
    *rest =
        tir_named(a->b, "rest",
                  tir_mma_halves(a->b, a->rest_product, a->now.v_rest, a->now.weights.p16, *rest));
}

/* Adds the product of ones and P^T to l. */
static void build_product_sum(void *context)
{
    struct att_attention *const a = context;
    struct tir_value *const l = &a->now.carried[ATT_CARRY_L];
    *l = tir_named(a->b, "l", att_weight_sum_add(a->b, &a->sum, a->now.weights.p16, *l));
}

/* ---- The steps as ops of pipelines ---- */

#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))

const struct pipe_op att_mask = {"mask", build_mask, ATT_SLOT(S), ATT_SLOT(S),
                                 .flags = PIPE_BRANCH};
const struct pipe_op att_mask_bytes = {"mask", build_mask, ATT_SLOT(S) | ATT_SLOT(MASK),
                                       ATT_SLOT(S), .flags = PIPE_BRANCH};
const struct pipe_op att_check_scores = {"max", build_check_scores, ATT_SLOT(S) | ATT_SLOT(M),
                                         ATT_SLOT(GROWN) | ATT_SLOT(M), .flags = PIPE_BRANCH};
const struct pipe_op att_check_previous = {"check max", build_check_previous,
                                           ATT_SLOT(S) | ATT_SLOT(M), ATT_SLOT(GROWN), .flags = 0};
const struct pipe_op att_check_weights = {"check P", build_check_weights, ATT_SLOT(TOP),
                                          ATT_SLOT(GROWN), .flags = 0};
const struct pipe_op att_exponent = {"exponents", build_exponent, ATT_SLOT(S) | ATT_SLOT(M),
                                     ATT_SLOT(EXPONENT), .flags = 0};
const struct pipe_op att_exp2 = {"exp2", .build_part = build_exp2, .reads = ATT_SLOT(EXPONENT),
                                 .writes = ATT_SLOT(P)};
const struct pipe_op att_rescale = {"rescale", build_rescale,
                                    ATT_SLOT(GROWN) | ATT_SLOT(L) | ATT_SLOT(O),
                                    ATT_SLOT(L) | ATT_SLOT(O), .flags = PIPE_BRANCH};
const struct pipe_op att_rescale_previous = {
    "rescale", build_rescale_previous,
    CARRIED | ATT_SLOT(REST) | ATT_SLOT(GROWN) | ATT_SLOT(S) | ATT_SLOT(P),
    CARRIED | ATT_SLOT(REST) | ATT_SLOT(P), .flags = PIPE_BRANCH};
const struct pipe_op att_rescale_weights = {"rescale", build_rescale_weights,
                                            CARRIED | ATT_SLOT(GROWN) | ATT_SLOT(S) | ATT_SLOT(P16),
                                            CARRIED | ATT_SLOT(P16), .flags = PIPE_BRANCH};
const struct pipe_op att_sum = {"sum P", build_sum, ATT_SLOT(P) | ATT_SLOT(L), ATT_SLOT(L),
                                .flags = 0};
const struct pipe_op att_round = {"round P", build_round, ATT_SLOT(P) | ATT_SLOT(L),
                                  ATT_SLOT(P16) | ATT_SLOT(TOP) | ATT_SLOT(L), .flags = 0};
const struct pipe_op att_round_fp8 = {"round P", build_round_fp8, ATT_SLOT(P), ATT_SLOT(P16),
                                      .flags = 0};
const struct pipe_op att_product = {"PV", .build_part = build_product,
                                    .reads = ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O),
                                    .writes = ATT_SLOT(O), .flags = PIPE_PRODUCT};
const struct pipe_op att_product_rest = {"PV rest", build_product_rest,
                                         ATT_SLOT(P16) | ATT_SLOT(V_REST) | ATT_SLOT(REST),
                                         ATT_SLOT(REST), .flags = PIPE_PRODUCT};
const struct pipe_op att_product_sum = {"sum P", build_product_sum, ATT_SLOT(P16) | ATT_SLOT(L),
                                        ATT_SLOT(L), .flags = PIPE_PRODUCT};

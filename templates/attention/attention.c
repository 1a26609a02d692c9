/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/attention/attention.h"

#include <assert.h>
#include <math.h>

#include "ir/arith.h"
#include "op_names.h"
#include "templates/workgroup/scalar.h"

static const float LOG2E = 1.4426950408889634f;

static void set_step(struct att_attention *a, enum att_step s)
{
    a->b->stage = a->steps[s].stage;
    a->b->phase = a->steps[s].phase;
}

/* ---- Scale, soft cap, hook ---- */

bool att_scales_scores(const struct att_variant *v) { return v->soft_cap || v->logits; }

static struct tir_value scaled(struct tir_builder *b, const char *arg, struct tir_value k_scale)
{
    const struct tir_value scale = tir_arg(b, arg, TIR_F32);
    return k_scale.id ? tir_mul(b, scale, k_scale) : scale;
}

/* Sets what a vote compares with, 2^room. Where O^T has l there are two of 16 bits, in a register
 * of each lane, as the exponent's factor has one with a causal mask: such loops take all scalar
 * registers, and one more would be spilled. */
static void keep_limits(struct att_attention *a)
{
    struct tir_builder *const b = a->b;
    struct att_softmax *const s = &a->softmax;
    const float most = ldexpf(1, (int)s->room);
    struct tir_type t = s->folded;
    if (!a->sum_row) {
        const struct tir_value sum = tir_f32(b, most);
        a->most = tir_splat(b, a->wide_powers ? tir_materialize(b, sum) : sum, t);
        return;
    }
    const int bits = (int)tir_from_float(a->dtype, most, false);
    t.dtype = TIR_I32;
    a->most = tir_materialize(b, tir_splat(b, tir_i32(b, bits << 16 | bits), t));
    if (a->v->mask == ATT_MASK_CAUSAL)
        s->exponents = tir_materialize(b, tir_splat(b, s->exponent, s->vector));
}

/* Returns log2 of the largest weight where weights are truncated. A weight loses up to a step.
 * The mean loss is 0.7213 of half a step at 1, relative to the weight: the mean of 2^-x over 0
 * <= x < 1 is 1 / (2 ln 2). The largest weight of a row would lose nothing at 1, and outputs
 * would move towards its value. That much above 1 it loses as much as the others. */
static float rise_of_cut(const struct att_attention *a)
{
    const float half_step = a->dtype == TIR_BF16 ? 0x1p-8f : 0x1p-11f;
    return log2f(1 + 0.7213f * half_step);
}

void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale)
{
    const bool before = att_scales_scores(a->v);
    const struct tir_value exponent =
        before ? tir_f32(a->b, LOG2E) : scaled(a->b, ARG_SCALE_LOG2, k_scale);
    a->softmax = att_softmax(a->b, scores, exponent);
    if (a->room)
        a->softmax.room = a->room;
    if (a->cut && a->sum_row)
        a->softmax.rise = rise_of_cut(a);
    if (a->late_vote)
        keep_limits(a);
    else if (a->wide_powers)
        a->softmax.threshold = tir_materialize(a->b, tir_f32(a->b, a->softmax.room));
    if (before)
        a->score_scale = scaled(a->b, ARG_SCALE, k_scale);
}

static struct tir_value cap_scores(struct att_attention *a, struct tir_value s)
{
    struct tir_builder *const b = a->b;
    const struct tir_value cap = tir_arg(b, ARG_SOFT_CAP, TIR_F32);
    return att_soft_cap(b, s, cap, tir_mul(b, a->score_scale, tir_rcp(b, cap)));
}

/* Indices of a block's elements have the shape of its scores. */
static struct tir_type index_type(const struct att_attention *a)
{
    const struct tir_type t = tir_with_dtype(a->softmax.scores, TIR_I32);
    return t;
}

static struct tir_type query_type(const struct att_attention *a)
{
    const struct tir_type t = tir_with_dtype(a->softmax.vector, TIR_I32);
    return t;
}

static struct tir_value key_index(struct att_attention *a, struct tir_value key)
{
    const struct tir_type t = index_type(a);
    return tir_add(a->b, tir_row_index(a->b, t), tir_splat(a->b, key, t));
}

static struct tir_value call_logits(struct att_attention *a, struct tir_value s,
                                    struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    if (!a->v->soft_cap)
        s = tir_mul(b, s, tir_splat(b, a->score_scale, a->softmax.scores));
    const struct tir_value before = tir_sub(b, at->kv_len, at->q_len);
    const struct tir_value query = tir_sub(b, at->diagonal, tir_splat(b, before, query_type(a)));
    const bool one_head = tir_typeof(b->f, at->head).kind == TIR_SCALAR;
    const struct tir_value operands[] = {
        s,
        tir_broadcast(b, query, index_type(a)),
        key_index(a, key),
        one_head ? at->head : tir_broadcast(b, at->head, index_type(a)),
        at->q_len,
        at->kv_len,
        tir_arg(b, ARG_HOOK_ARG, TIR_I64),
    };
    const struct tir_value x =
        tir_call_hook(b, "attn_logits", operands, sizeof(operands) / sizeof(operands[0]));
    if (!a->sum.ones.id)
        return x;
    /* Sums of fp8 weights are products of two queries' weights and of zeros: a NaN of a query that
     * there is not would be another one's. */
    const struct tir_type t = index_type(a);
    const struct tir_value there =
        tir_cmp_lt(b, tir_broadcast(b, query, t), tir_splat(b, at->q_len, t));
    return tir_select(b, there, x, tir_float_like(b, x, -INFINITY));
}

/* ---- Mask ---- */

struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query)
{
    struct tir_builder *const b = a->b;
    const struct tir_value at = tir_shl(b, att_wide(b, sequence), tir_i64(b, 3));
    const struct tir_value begin = tir_add(b, tir_arg(b, ARG_MASK_INDPTR, TIR_I64), at);
    const struct tir_value first = tir_scalar_load(b, begin, tir_i32(b, 0), TIR_I64);
    const struct tir_value wide = tir_convert(b, query, TIR_I64);
    const struct tir_type t = tir_typeof(b->f, wide);
    return tir_add(b, tir_mul(b, wide, tir_splat(b, att_wide(b, a->at.kv_len), t)),
                   tir_splat(b, first, t));
}

/* Byte by byte: the rows of a mask begin anywhere. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct tir_value keys = key_index(a, key);
    const struct tir_type t = tir_typeof(b->f, keys);
    const struct tir_value end = tir_max(b, att_plus(b, a->at.end, -1), tir_i32(b, 0));
    const struct tir_value last = tir_splat(b, end, t);
    const struct tir_value there = tir_zext(b, tir_min(b, keys, last), TIR_I64);
    const struct tir_value at =
        tir_add(b, there, tir_broadcast(b, a->at.mask_row, tir_typeof(b->f, there)));
    const struct tir_value rows = tir_split_blocks(b, at, 1);
    const struct tir_type bytes = tir_with_dtype(tir_typeof(b->f, rows), TIR_I8);
    const struct tir_value base = a->at.mask.id ? a->at.mask : tir_arg(b, ARG_CUSTOM_MASK, TIR_I64);
    const struct tir_value mask = tir_tile_gather(b, base, rows, tir_i32(b, 0), bytes);
    return tir_join_blocks(b, mask, a->softmax.scores.rows);
}

bool att_hides_early(const struct att_variant *v)
{
    return v->mask == ATT_MASK_WINDOW || v->mask == ATT_MASK_CHUNK;
}

bool att_hides_late(const struct att_variant *v)
{
    return v->mask == ATT_MASK_CAUSAL || att_hides_early(v);
}

struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v)
{
    return tir_arg(b, v->mask == ATT_MASK_CHUNK ? ARG_CHUNK_START : ARG_WINDOW_LEFT, TIR_I32);
}

struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal)
{
    const struct tir_type t = tir_typeof(b->f, diagonal);
    if (t.kind != TIR_SCALAR)
        reach = tir_splat(b, reach, t);
    return v->mask == ATT_MASK_CHUNK ? tir_and(b, diagonal, reach) : tir_sub(b, diagonal, reach);
}

/* Keys of the block that a query may not see, keys x queries of i1. Rows of the block are compared
 * with where the reach of each query ends within it. */
static struct tir_value is_hidden(struct att_attention *a, const struct att_block *block,
                                  struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    const struct tir_type t = index_type(a), vector = query_type(a);
    const struct tir_value row = tir_row_index(b, t);
    const struct tir_value start = tir_splat(b, key, vector);
    struct tir_value last = tir_splat(b, att_plus(b, at->end, -1), vector);
    if (att_hides_late(a->v))
        last = tir_min(b, tir_add(b, at->diagonal, tir_splat(b, at->right, vector)), last);
    struct tir_value hidden = tir_cmp_gt(b, row, tir_broadcast(b, tir_sub(b, last, start), t));
    if (att_hides_early(a->v)) {
        const struct tir_value begin = att_first_seen(b, a->v, at->reach, at->diagonal);
        const struct tir_value first = tir_broadcast(b, tir_sub(b, begin, start), t);
        hidden = tir_or(b, hidden, tir_cmp_lt(b, row, first));
    }
    if (block->entries.id || block->gaps.id) {
        const struct tir_value entries =
            block->gaps.id ? a->source->entries(a->family, block) : block->entries;
        const struct tir_value entry = tir_broadcast(b, entries, t);
        hidden = tir_or(b, hidden, tir_cmp_lt(b, entry, tir_int_like(b, entry, 0)));
    }
    if (!block->mask.id)
        return hidden;
    const struct tir_value byte = tir_zext(b, block->mask, TIR_I32);
    return tir_or(b, hidden, tir_cmp_eq(b, byte, tir_int_like(b, byte, 0)));
}

/* Is there a key in the block that some query of the wave does not see? */
static struct tir_value is_edge(struct att_attention *a, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    struct tir_value last = att_plus(b, at->end, -1);
    if (att_hides_late(a->v))
        last = tir_min(b, last, tir_add(b, at->lowest, at->right));
    const int rows = (int)a->softmax.scores.rows;
    const struct tir_value beyond = tir_cmp_gt(b, att_plus(b, key, rows - 1), last);
    if (!att_hides_early(a->v))
        return beyond;
    return tir_or(b, beyond, tir_cmp_lt(b, key, att_first_seen(b, a->v, at->reach, at->highest)));
}

struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries)
{
    return tir_any(b, tir_cmp_lt(b, entries, tir_int_like(b, entries, 0)));
}

/* Hidden keys get -inf. Only blocks at an edge take the branch; a mask of bytes is asked always. */
static struct tir_value hide(struct att_attention *a, struct tir_value s,
                             const struct att_block *block, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct tir_value none = tir_float_like(b, s, -INFINITY);
    if (block->mask.id)
        return tir_select(b, is_hidden(a, block, key), none, s);
    struct tir_value edge = is_edge(a, key);
    if (block->entries.id)
        edge = tir_or(b, edge, att_has_gaps(b, block->entries));
    if (block->gaps.id)
        edge = tir_or(b, edge, tir_cmp_ne(b, block->gaps, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, edge, true, &a->softmax.scores, 1);
    const struct tir_value masked = tir_select(b, is_hidden(a, block, key), none, s);
    tir_else(b, &branch, &masked);
    tir_end_if(b, &branch, &s);
    return s;
}

/* ---- Weights in fp8 ---- */

void att_attention_weights_fp8(struct att_attention *a)
{
    att_softmax_range_fp8(a->b, &a->softmax);
    a->sum = att_weight_sum(a->b, a->softmax.scores);
}

/* l, which eight rows of O^T have alike. */
static struct tir_value rows_of_sums(struct att_attention *a, struct tir_value output)
{
    enum { ROWS = 8 };
    struct tir_builder *const b = a->b;
    for (unsigned n = tir_typeof(b->f, output).rows, row = a->sum_row; n > ROWS; row %= n) {
        n /= 2;
        output = tir_half(b, output, row >= n);
    }
    return tir_relayout(b, tir_col_max(b, output), tir_layout_of(b->f, a->softmax.vector));
}

struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[])
{
    const struct tir_value l = carried[ATT_CARRY_L];
    if (a->sum_row)
        return rows_of_sums(a, carried[ATT_CARRY_O]);
    return a->sum.ones.id ? att_weight_sum_vector(a->b, l, a->softmax.vector) : l;
}

static bool has_rest(const struct att_attention *a) { return a->rest.kind == TIR_TILE; }

struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(a->b->f, a->rest), 0);
    return tir_mul(a->b, rest, tir_broadcast(a->b, tir_relayout(a->b, factor, &l), a->rest));
}

/* l and O times a factor, 1 x queries. */
static struct tir_value scale_carried(struct att_attention *a, enum att_carry which,
                                      struct tir_value value, struct tir_value factor)
{
    struct tir_builder *const b = a->b;
    if (which == ATT_CARRY_L && a->sum.ones.id)
        return att_weight_sum_scale(b, value, factor);
    if (which == ATT_CARRY_REST)
        return att_attention_scale_rest(a, value, factor);
    return tir_mul(b, value, tir_broadcast(b, factor, tir_typeof(b->f, value)));
}

/* ---- A block of keys ---- */

void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    const struct tir_value zero = tir_f32(b, 0.0f);
    carried[ATT_CARRY_M] = att_softmax_lowest(b, &a->softmax);
    carried[ATT_CARRY_L] = tir_splat(b, zero, a->sum.ones.id ? a->sum.sums : a->softmax.folded);
    carried[ATT_CARRY_O] = tir_splat(b, zero, output);
    assert(!has_rest(a) || (a->late_maximum && !a->late_vote));
    if (has_rest(a))
        carried[ATT_CARRY_REST] = tir_splat(b, zero, a->rest);
}

/* Does the loop carry this? */
static bool is_carried(const struct att_attention *a, unsigned which)
{
    return which == ATT_CARRY_REST ? has_rest(a) : which != ATT_CARRY_L || !a->sum_row;
}

unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY])
{
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (is_carried(a, i))
            kept[n++] = carried[i];
    return n;
}

void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY])
{
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (is_carried(a, i))
            carried[i] = kept[n++];
}

struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block)
{
    set_step(a, ATT_STEP_MODIFY);
    const struct tir_value key = a->source->first_key(a->family, block->index);
    if (a->v->soft_cap)
        s = cap_scores(a, s);
    if (a->v->logits)
        s = call_logits(a, s, key);
    return hide(a, s, block, key);
}

/* Exponentials take as many slots under matrix instructions as all the rest of the softmax: the
 * steps say which of them stand in the iteration of their scores and which are left for later. The
 * scores are taken apart into halves of halves, until all of a part stands in one place. */
enum { POWER_PARTS = 6 /* each time a half, and what is left */ };

struct power {
    struct tir_value part[POWER_PARTS]; /* exponents, powers that are made, or these in 16 bits */
    bool made[POWER_PARTS], packed[POWER_PARTS];
    uint8_t eighths[POWER_PARTS]; /* of all keys */
    unsigned n;
};

static bool is_late(const struct att_attention *a, enum att_step s)
{
    return a->steps[s].stage != a->steps[ATT_STEP_EXPONENT].stage;
}

static unsigned late_eighths(const struct att_attention *a)
{
    if (is_late(a, ATT_STEP_POWER))
        return 8;
    if (!is_late(a, ATT_STEP_POWER_2))
        return 0;
    return a->late_eighths ? a->late_eighths : 4;
}

static struct tir_value power_of(const struct att_attention *a, struct tir_value exponent)
{
    return tir_exp2(a->b, a->wide_powers ? tir_neg(a->b, exponent) : exponent);
}

/* This rounds weights, toward zero where out is a mean: a factor of all of them leaves it alone. */
static struct tir_value round_weights(const struct att_attention *a, struct tir_value p)
{
    if (a->cut && a->sum_row)
        return tir_convert_toward_zero(a->b, p, a->dtype);
    return a->ties_any ? tir_convert_ties_any(a->b, p, a->dtype)
                       : tir_convert_short(a->b, p, a->dtype);
}

/* The first `packed` eighths of a part are rounded at once, and of the last `late` nothing is made.
 */
static void begin_part(const struct att_attention *a, struct power *r, struct tir_value exponent,
                       unsigned eighths, unsigned packed, unsigned late)
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

static struct tir_value exponents(const struct att_attention *a, struct tir_value s,
                                  struct tir_value m)
{
    return a->wide_powers ? att_softmax_fall(a->b, &a->softmax, s, m)
                          : att_softmax_exponent(a->b, &a->softmax, s, m);
}

/* Values that the steps leave for the iteration of the scores; they have one stage in it. */
static struct power begin_power(const struct att_attention *a, struct tir_value exponent)
{
    struct power r = {.n = 0};
    begin_part(a, &r, exponent, 8, a->packed_eighths, late_eighths(a));
    return r;
}

/* Parts from *at on that are so many eighths together, as one. */
static struct tir_value join_parts(struct tir_builder *b, const struct power *r, unsigned *at,
                                   unsigned eighths)
{
    if (r->eighths[*at] == eighths)
        return r->part[(*at)++];
    const struct tir_value upper = join_parts(b, r, at, eighths / 2);
    return tir_stack(b, upper, join_parts(b, r, at, eighths / 2));
}

/* All powers, in 16 bits where some are already. */
static struct tir_value finish_power(struct att_attention *a, struct power *r)
{
    set_step(a, ATT_STEP_POWER_2);
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->made[i])
            r->part[i] = power_of(a, r->part[i]);
        if (a->packed_eighths && !r->packed[i])
            r->part[i] = round_weights(a, r->part[i]);
    }
    unsigned at = 0;
    return tir_named(a->b, "p", join_parts(a->b, r, &at, 8));
}

/*
 * The exponents were made with the m of the block before. Where that is too far below they are made
 * anew with the one that follows, from the scores: an exponent that is large has lost their last
 * bits. What has overflowed on the way is dropped.
 */
static void follow_late(struct att_attention *a, struct tir_value s, struct tir_value grown,
                        struct power *powers, struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    enum { MOST = ATT_MOST_CARRY + POWER_PARTS };
    struct tir_value *part[MOST];
    struct tir_type types[MOST];
    struct tir_value now[MOST], next[MOST];
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (is_carried(a, i))
            part[n++] = &carried[i];
    const unsigned n_carried = n;
    for (unsigned i = 0; i < powers->n; i++)
        part[n++] = &powers->part[i];
    for (unsigned i = 0; i < n; i++) {
        now[i] = *part[i];
        types[i] = tir_typeof(b->f, now[i]);
    }
    const struct tir_value some = a->wide_powers ? tir_cmp_ne(b, grown, tir_i32(b, 0)) : grown;
    struct tir_if branch = tir_begin_if(b, some, true, types, n);
    const struct tir_value m = att_softmax_next(b, &a->softmax, s, now[ATT_CARRY_M]);
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, now[ATT_CARRY_M], m));
    *powers = begin_power(a, exponents(a, s, m));
    next[ATT_CARRY_M] = m;
    for (unsigned i = 1; i < n_carried; i++)
        next[i] = scale_carried(a, (enum att_carry)(part[i] - carried), now[i], alpha);
    for (unsigned i = n_carried; i < n; i++)
        next[i] = *part[i];
    tir_else(b, &branch, next);
    tir_end_if(b, &branch, now);
    for (unsigned i = 0; i < n; i++)
        *part[i] = now[i];
}

/* P is rounded first and then summed: out is a mean of values, whatever the roundings were. */
static void accumulate_fp8(struct att_attention *a, const struct att_block *block,
                           struct tir_value p, struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    set_step(a, ATT_STEP_SUM);
    const struct tir_value p8 = tir_convert_in_range(b, p, TIR_FP8);
    const struct tir_value v = a->source->values(a->family, block);
    set_step(a, ATT_STEP_PRODUCT);
    carried[ATT_CARRY_O] = tir_named(b, "o", tir_mma(b, a->product, v, p8, carried[ATT_CARRY_O]));
    carried[ATT_CARRY_L] =
        tir_named(b, "l", att_weight_sum_add(b, &a->sum, p8, carried[ATT_CARRY_L]));
}

/* O and l follow the maximum, as att_softmax_rescale() does it. */
static void rescale(struct att_attention *a, const struct att_softmax_step *step,
                    struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    if (!a->sum.ones.id) {
        att_softmax_rescale(b, step, &carried[ATT_CARRY_O], &carried[ATT_CARRY_L]);
        return;
    }
    struct tir_value both[] = {carried[ATT_CARRY_L], carried[ATT_CARRY_O]};
    const struct tir_type t[] = {tir_typeof(b->f, both[0]), tir_typeof(b->f, both[1])};
    struct tir_if branch = tir_begin_if(b, step->grown, true, t, 2);
    const struct tir_value scaled[] = {scale_carried(a, ATT_CARRY_L, both[0], step->alpha),
                                       scale_carried(a, ATT_CARRY_O, both[1], step->alpha)};
    tir_else(b, &branch, scaled);
    tir_end_if(b, &branch, both);
    carried[ATT_CARRY_L] = both[0];
    carried[ATT_CARRY_O] = both[1];
}

bool att_attention_sums_pairs(const struct att_attention *a)
{
    return a->sum_pairs && !a->sum_row && a->dtype == TIR_BF16 && a->b->f->machine->has_dot_bf16;
}

/* Part i of n of the rows of weights. */
static struct tir_value part_of_keys(struct tir_builder *b, struct tir_value p, unsigned i,
                                     unsigned n)
{
    for (; n > 1; n /= 2, i %= n)
        p = tir_half(b, p, i >= n / 2);
    return p;
}

/* Weights of a block in 16 bits, their sum in a lane, and l with it. */
struct weights {
    struct tir_value p16;
    struct tir_value sum; /* none where O^T has l, or the block is added to l at once */
    struct tir_value l;
};

static struct weights weigh(struct att_attention *a, struct tir_value p, struct tir_value l)
{
    struct tir_builder *const b = a->b;
    struct weights w = {.l = l};
    const bool pairs = att_attention_sums_pairs(a);
    if (!a->sum_row && !pairs) {
        w.sum = tir_col_fold_sum(b, p);
        w.l = tir_named(b, "l", tir_add(b, l, w.sum));
    }
    if (a->source->scale_weights)
        p = a->source->scale_weights(a->family, p);
    w.p16 = tir_typeof(b->f, p).dtype == TIR_F32 ? round_weights(a, p) : p;
    if (pairs && a->late_vote) {
        w.sum = tir_col_fold_dot(b, w.p16, tir_float_like(b, l, 0.0f));
        w.l = tir_named(b, "l", tir_add(b, l, w.sum));
    } else if (pairs) {
        w.l = tir_named(b, "l", tir_col_fold_dot(b, w.p16, l));
    }
    return w;
}

/* A vote compares a lane's largest weights, or their sum. */
static struct tir_value largest(const struct att_attention *a, const struct weights *w)
{
    return a->sum_row ? tir_col_fold_top(a->b, w->p16) : w->sum;
}

/* Is it above a->most, so that a weight may be? A scalar i1. */
static struct tir_value have_grown(struct att_attention *a, struct tir_value top)
{
    struct tir_builder *const b = a->b;
    if (a->sum_row)
        return tir_any_above(b, top, a->most);
    const struct tir_value grown = tir_cmp_gt(b, top, a->most);
    return a->wide_powers ? tir_cmp_ne(b, tir_lane_count(b, grown), tir_i32(b, 0))
                          : tir_any(b, grown);
}

/* l and O as they are before the block follow the maximum, and the weights are made anew, from the
 * scores. */
static void follow_weights(struct att_attention *a, struct tir_value s, struct tir_value grown,
                           struct weights *w, struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    enum { M, O, P, L, REST, N };
    struct tir_value *const part[N] = {&carried[ATT_CARRY_M], &carried[ATT_CARRY_O], &w->p16, &w->l,
                                       &carried[ATT_CARRY_REST]};
    const unsigned n = a->sum_row ? L : has_rest(a) ? N : REST;
    struct tir_type types[N];
    struct tir_value now[N], next[N];
    for (unsigned i = 0; i < n; i++) {
        now[i] = *part[i];
        types[i] = tir_typeof(b->f, now[i]);
    }
    struct tir_if branch = tir_begin_if(b, grown, true, types, n);
    next[M] = att_softmax_next(b, &a->softmax, s, now[M]);
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, now[M], next[M]));
    next[O] = scale_carried(a, ATT_CARRY_O, now[O], alpha);
    struct tir_value l = carried[ATT_CARRY_L];
    if (!a->sum_row)
        l = scale_carried(a, ATT_CARRY_L, l, alpha);
    const struct weights anew = weigh(a, power_of(a, exponents(a, s, next[M])), l);
    next[P] = anew.p16;
    next[L] = anew.l;
    tir_else(b, &branch, next);
    tir_end_if(b, &branch, now);
    for (unsigned i = 0; i < n; i++)
        *part[i] = now[i];
}

static void multiply(struct att_attention *a, struct tir_value v, struct tir_value p16,
                     struct tir_value *o)
{
    set_step(a, ATT_STEP_PRODUCT);
    *o = tir_named(a->b, "o",
                   a->in_agprs ? tir_mma_in_agprs(a->b, a->product, v, p16, *o)
                               : tir_mma(a->b, a->product, v, p16, *o));
}

static unsigned parts_of_values(const struct att_attention *a)
{
    return a->value_parts ? a->value_parts : 1;
}

static struct tir_value read_values(const struct att_attention *a, const struct att_block *block,
                                    unsigned part)
{
    return parts_of_values(a) > 1 ? a->source->part_of_values(a->family, block, part)
                                  : a->source->values(a->family, block);
}

/* O += V p, of whose parts the first one has been read. */
static void multiply_parts(struct att_attention *a, const struct att_block *block,
                           struct tir_value v, struct tir_value p16, struct tir_value *o)
{
    const unsigned parts = parts_of_values(a);
    for (unsigned i = 0; i < parts; i++) {
        if (i)
            v = read_values(a, block, i);
        multiply(a, v, part_of_keys(a->b, p16, i, parts), o);
    }
}

/* l += p, and O += V p. */
static void accumulate(struct att_attention *a, const struct att_block *block, struct tir_value p,
                       struct tir_value carried[])
{
    set_step(a, ATT_STEP_SUM);
    const struct weights w = weigh(a, p, carried[ATT_CARRY_L]);
    struct tir_value *const rest = &carried[ATT_CARRY_REST], v = {0};
    carried[ATT_CARRY_L] = w.l;
    if (has_rest(a))
        v = a->source->rest_of_values(a->family, block);
    multiply_parts(a, block, read_values(a, block, 0), w.p16, &carried[ATT_CARRY_O]);
    if (has_rest(a))
        *rest = tir_named(a->b, "rest", tir_mma_halves(a->b, a->rest_product, v, w.p16, *rest));
}

/* Accumulates like the function above, and asks the weights whether the maximum has grown before V
 * is read, but for V's first part. It asks the largest of them, under the product of the phase
 * before: a sum is made later and would make that phase longer. */
static void accumulate_and_vote(struct att_attention *a, const struct att_block *block,
                                struct tir_value s, struct tir_value p, struct tir_value carried[])
{
    set_step(a, ATT_STEP_SUM);
    struct weights w = weigh(a, p, carried[ATT_CARRY_L]);
    const struct tir_value top = largest(a, &w);
    set_step(a, a->sum_row ? ATT_STEP_SUM : ATT_STEP_RESCALE);
    const struct tir_value grown = have_grown(a, top);
    const bool early = parts_of_values(a) > 1;
    struct tir_value v = {0};
    if (early)
        v = read_values(a, block, 0);
    set_step(a, ATT_STEP_RESCALE);
    follow_weights(a, s, grown, &w, carried);
    if (!early)
        v = read_values(a, block, 0);
    carried[ATT_CARRY_L] = w.l;
    multiply_parts(a, block, v, w.p16, &carried[ATT_CARRY_O]);
}

/* Alpha of a tile whose maximum stays: nobody looks at it. Only where the VALU is the limit is it
 * worth the instruction: without it other loops have another place in the windows of fetch, which
 * made them up to 1.5 % longer. */
static struct tir_value unmoved(const struct att_attention *a)
{
    return att_attention_sums_pairs(a) ? tir_undef(a->b, a->softmax.vector)
                                       : tir_splat(a->b, tir_f32(a->b, 1.0f), a->softmax.vector);
}

void att_attention_visit(struct att_attention *a, struct att_block block,
                         struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    const struct att_source *const source = a->source;
    source->fetch_keys(a->family, &block);
    struct tir_value s = source->scores(a->family, &block);
    if (source->fetch_values)
        source->fetch_values(a->family, &block);
    s = att_attention_modify(a, s, &block);

    struct att_softmax_step step = {{0}, {0}};
    set_step(a, ATT_STEP_MAXIMUM);
    if (a->late_maximum && !a->late_vote)
        step.grown = att_softmax_grown(b, &a->softmax, s, carried[ATT_CARRY_M]);
    else if (!a->late_vote)
        step = att_softmax_maximum(b, &a->softmax, s, unmoved(a), &carried[ATT_CARRY_M]);
    set_step(a, ATT_STEP_EXPONENT);
    const struct tir_value exponent = exponents(a, s, carried[ATT_CARRY_M]);
    set_step(a, ATT_STEP_POWER);
    struct power powers = begin_power(a, exponent);

    if (source->place_values)
        source->place_values(a->family, &block);
    set_step(a, ATT_STEP_RESCALE);
    if (a->late_maximum && !a->late_vote)
        follow_late(a, s, step.grown, &powers, carried);
    else if (!a->late_vote)
        rescale(a, &step, carried);
    if (source->await_values)
        source->await_values(a->family);
    const struct tir_value p = finish_power(a, &powers);
    if (a->sum.ones.id)
        accumulate_fp8(a, &block, p, carried);
    else if (a->late_vote)
        accumulate_and_vote(a, &block, s, p, carried);
    else
        accumulate(a, &block, p, carried);
}

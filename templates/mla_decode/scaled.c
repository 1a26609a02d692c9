/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: weights P of fp8 with scales. The MFMA multiplies the weights of each column and 32
 * keys by a power of two, their scale.
 *
 * A wave rounds the weights of its keys relative to the largest of them: p = 2^(s - e), with an
 * integer e for each column. With it, the largest p of a column is at the top of fp8's range:
 * (2^7.75, 2^8.75]. The MFMA multiplies them by 2^(e - m), where O and l of the column are relative
 * to m. So rounding does not depend on m, on which all waves agree. m changes only if an e exceeds
 * it by more than MLA_GROWTH, since f32 has the range for less. That is rare after the first
 * keys.
 */
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum {
    /* BYTE: the e8m0 byte of the scale of P, 2^(e - m - MLA_GROWTH), is e - m + BYTE. Its highest
     * bit is set if e exceeds m by more than MLA_GROWTH. e: exponent that weights are relative to.
     * The scale of the latent c is 2^MLA_GROWTH. */
    BYTE = MLA_SCALE_BIAS - MLA_GROWTH,
    MOST_BYTE = 255
};

/* Log2 of the largest weight: the most by which a score (log2) may exceed the exponent e of its
 * column. It is 0.06 below log2(448), the top of fp8. e is computed from a score without its last
 * bits, which are up to 2^-5 for scores below 2^20. Each block and wave has an e of its own, so the
 * largest weight is not the same number in all rows. */
static const float MOST_WEIGHT = 8.75f;

struct tir_value mla_scale_exponent(struct mla *s, struct tir_value x)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax *const softmax = &s->softmax;
    const struct tir_value top = tir_col_max(b, x);
    const struct tir_value exponent = tir_splat(b, softmax->exponent, softmax->vector);
    return tir_ceil(b, tir_fma(b, top, exponent, tir_float_like(b, top, -MOST_WEIGHT)));
}

/* Returns an exponent e for each column: the weights of scores `x` are divided by 2^e.
 * `x`: scores of the wave's own keys. `m`: the running maximum (log2). e is at least m - BYTE, so
 * that the scale's byte is not negative. */
static struct tir_value own_exponent(struct mla *s, struct tir_value x, struct tir_value m)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value e = mla_scale_exponent(s, x);
    return tir_max(b, e, tir_sub(b, m, tir_float_like(b, m, BYTE)));
}

/* Returns the scales (i8, e8m0) of weights relative to exponent e, for O relative to m. After a
 * raise of m, e may be too low for a byte; such weights are negligible with any scale. A large m
 * may make e - m inexact, so the byte is clamped to its range. */
static struct tir_value scale_bytes(struct mla *s, struct tir_value e, struct tir_value m)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value byte = tir_add(b, tir_sub(b, e, m), tir_float_like(b, e, BYTE));
    const struct tir_value no_less = tir_max(b, byte, tir_float_like(b, byte, 0));
    const struct tir_value in_range = tir_min(b, no_less, tir_float_like(b, byte, MOST_BYTE));
    return tir_convert(b, tir_convert(b, in_range, TIR_I32), TIR_I8);
}

/* Stores the scales of the weights of block `block` (i32) in LDS. `e`: the exponents that the
 * weights are relative to. `m`: the maximum that O and l are relative to. */
static void store_scales(struct mla *s, struct tir_value block, struct tir_value e,
                         struct tir_value m)
{
    mla_store_scales(s, block, scale_bytes(s, e, m));
}

/* ---- Steps of fp8 weights with scales ---- */

/* Selects the scores of the wave's own keys (mla_own_keys()), and computes for each column the
 * exponent e that its weights are relative to. */
static void find_exponent(void *context)
{
    struct mla *const s = mla_of(context);
    struct att_now *const now = &s->d.attention.now;
    now->s = mla_own_keys(s, now->s);
    s->d.attention.now.exponent = own_exponent(s, now->s, now->carried[ATT_CARRY_M]);
}

/* Stores the wave's weights of the block, and their scales, in LDS for all waves. */
static void store_weights(void *context)
{
    struct mla *const s = mla_of(context);
    const struct att_now *const now = &s->d.attention.now;
    struct tir_if writers = mla_begin_writers(s);
    mla_store_weights(s, mla_block_of(s), mla_all_keys(s, now->weights.p16));
    store_scales(s, mla_block_of(s), s->d.attention.now.exponent, now->carried[ATT_CARRY_M]);
    mla_end_writers(s, &writers);
}

/* Raises m in each column to the largest exponent e of all waves, if e is larger than m, and
 * rescales O and l. The branch is taken if a scale in LDS has its highest bit set. It contains its
 * own barriers. */
static void agree(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const carried = s->d.attention.now.carried;
    const struct tir_value block = mla_block_of(s), e = s->d.attention.now.exponent;
    const struct tir_value m = carried[ATT_CARRY_M];
    enum { OWN_M, OWN_E };
    struct tir_if branch =
        tir_begin_if_like(b, mla_find_high_scale(s, block), true, carried, ATT_N_CARRY);
    struct tir_if writers = mla_begin_writers(s);
    mla_store_vector(s, tir_i32(b, OWN_M), m);
    mla_store_vector(s, tir_i32(b, OWN_E), e);
    mla_end_writers(s, &writers);
    att_lds_barrier(&s->d.b);
    const struct tir_value next = tir_max(b, m, mla_largest_of_parts(s, tir_i32(b, OWN_E)));
    const struct tir_value before = mla_load_vector(s, tir_i32(b, OWN_M), 0, s->type.vector);
    const struct tir_value after =
        tir_max(b, before, mla_largest(s, tir_i32(b, OWN_E), s->type.vector));
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, m, next));
    const struct tir_value o_alpha = tir_exp2(b, tir_sub(b, before, after));
    writers = mla_begin_writers(s);
    store_scales(s, block, e, next);
    mla_end_writers(s, &writers);
    att_lds_barrier(&s->d.b);
    const struct tir_value followed[] = {
        [ATT_CARRY_M] = next,
        [ATT_CARRY_L] = att_scaled(b, carried[ATT_CARRY_L], alpha),
        [ATT_CARRY_O] = att_scaled(b, carried[ATT_CARRY_O], o_alpha),
    };
    tir_else(b, &branch, followed);
    tir_end_if(b, &branch, carried);
}

/* Adds the sum of the block's weights, which are relative to the exponent e, to l. */
static void sum_weights(void *context)
{
    struct mla *const s = mla_of(context);
    mla_add_scaled_sum(s, s->d.attention.now.weights.sum, s->d.attention.now.exponent);
}

/* Adds the product of c^T and P^T to O^T, with the scales of P from LDS. */
static void product(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O];
    *o = tir_named(b, "o",
                   tir_mma_scaled(b, s->type.scaled, now->v, now->weights.p16, *o,
                                  tir_i32(b, MLA_SCALE_BIAS + MLA_GROWTH),
                                  mla_load_scales(s, mla_block_of(s))));
}

#define P_LDS (1u << MLA_LDS_P)
#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))

const struct pipe_op mla_scaled_exponent = {"exponent", find_exponent, ATT_SLOT(S) | ATT_SLOT(M),
                                            ATT_SLOT(S) | ATT_SLOT(EXPONENT), .flags = 0};
const struct pipe_op mla_scaled_store_p = {
    "P to LDS", .build = store_weights, .reads = ATT_SLOT(P16) | ATT_SLOT(EXPONENT) | ATT_SLOT(M),
    .lds_writes = P_LDS};
const struct pipe_op mla_scaled_agree = {"agree",
                                         .build = agree,
                                         .reads = CARRIED | ATT_SLOT(EXPONENT),
                                         .writes = CARRIED | ATT_SLOT(E),
                                         .lds_reads = P_LDS,
                                         .flags = PIPE_BRANCH};
const struct pipe_op mla_scaled_sum = {"sum P", sum_weights,
                                       ATT_SLOT(P) | ATT_SLOT(EXPONENT) | ATT_SLOT(M) | ATT_SLOT(L),
                                       ATT_SLOT(L), .flags = 0};
const struct pipe_op mla_scaled_product = {"PV",
                                           .build = product,
                                           .reads = ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O),
                                           .writes = ATT_SLOT(O),
                                           .lds_reads = P_LDS,
                                           .flags = PIPE_PRODUCT};

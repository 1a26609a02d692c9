/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the parts of the softmax in the interpreter. Each lane has a query, with the scores of four
 * keys in its registers.
 */
#include "ir/interp.h"
#include "ir/ir.h"
#include "targets/tgt.h"
#include "templates/workgroup/scalar.h"
#include "templates/attention/softmax.h"
#include "tests/unit_test.h"

#include <math.h>
#include <string.h>

enum { KEYS = 4, LANES = 64 };

struct program {
    struct tir_func *f;
    struct tir_builder b;
    struct tir_type scores;
};

static struct program begin(void)
{
    struct program p = {.f = tir_func_create("test", &tgt_find("gfx942")->machine, 1)};
    p.b = tir_at_end(p.f, p.f->body);
    struct tir_layout l = {.reg_bits = 2, .lane_bits = 6};
    for (unsigned i = 0; i < 2; i++)
        l.basis[i] = TIR_RC(1u << i, 0);
    for (unsigned i = 0; i < 6; i++)
        l.basis[2 + i] = TIR_RC(0, 1u << i);
    p.scores = tir_tile(p.f, TIR_F32, KEYS, LANES, &l);
    return p;
}

static struct tir_view view(struct program *p, const char *name, int rows)
{
    struct tir_builder *const b = &p->b;
    return att_view(b, tir_arg(b, name, TIR_I64), tir_i32(b, rows), tir_i32(b, LANES * 4),
                    LANES * 4, 0);
}

static void run(struct program *p, const float *in, float *out, const float numbers[2])
{
    tir_return(&p->b);
    uint8_t kernarg[64] = {0};
    for (uint32_t i = 0; i < p->f->n_args; i++) {
        const char *const name = p->f->args[i].name;
        const void *const pointer = !strcmp(name, "in") ? (const void *)in : (const void *)out;
        uint8_t *const at = kernarg + p->f->args[i].offset;
        if (p->f->args[i].dtype == TIR_I64)
            memcpy(at, &pointer, sizeof(pointer));
        else
            memcpy(at, &numbers[strcmp(name, "cap") != 0], sizeof(float));
    }
    char why[TIR_WHY];
    if (!tir_interpret(p->f, kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why))
        fail_msg("%s", why);
    tir_func_destroy(p->f);
}

/* Returns the logits of scores `s` after the soft cap. If `softmax`, computes them from the scores
 * of att_softmax_cap(), times exponent, plus shift; else by att_soft_cap(). */
static struct tir_value cap_of(struct program *p, struct tir_value s, bool softmax)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value cap = tir_arg(b, "cap", TIR_F32), rate = tir_arg(b, "rate", TIR_F32);
    if (!softmax)
        return att_soft_cap(b, s, cap, rate);
    struct att_softmax x = att_softmax(b, p->scores, rate);
    att_softmax_set_cap(b, &x, cap);
    const struct tir_value log2 =
        tir_fma(b, att_softmax_cap(b, s, cap, rate), tir_splat(b, x.exponent, p->scores),
                tir_splat(b, x.shift, p->scores));
    return tir_mul(b, log2, tir_float_like(b, log2, ATT_LN2));
}

/* Checks results of cap_of() for scores s from far below the cap to far above. The error of each
 * may be `bound` times its logit, or `bound` if the logit is below 1. */
static void check_cap_of(float cap, double bound, bool softmax)
{
    static float in[KEYS * LANES], out[KEYS * LANES];
    const float rate = 1 / cap;
    for (int i = 0; i < KEYS * LANES; i++)
        in[i] = (float)((i & 1 ? -1 : 1) * exp(i * (log(cap) + 4) / (KEYS * LANES)) - 0.5);
    struct program p = begin();
    struct tir_builder *const b = &p.b;
    const struct tir_value s = tir_tile_load(b, view(&p, "in", KEYS), tir_i32(b, 0), p.scores);
    tir_tile_store(b, view(&p, "out", KEYS), tir_i32(b, 0), cap_of(&p, s, softmax));
    run(&p, in, out, (const float[]){cap, rate});
    for (int i = 0; i < KEYS * LANES; i++) {
        const double want = cap * tanh((double)in[i] / cap);
        if (!(fabs(out[i] - want) <= bound * fmax(1, fabs(want))))
            fail_msg("cap %g of %g is %.9g, not %.9g", (double)cap, (double)in[i], (double)out[i],
                     want);
    }
}

static void check_cap(float cap, double bound)
{
    check_cap_of(cap, bound, false);
    check_cap_of(cap, bound, true);
}

/* An error of a logit is a relative error of p: 2^-12 is an eighth of bf16's rounding of p. */
TEST(soft_cap_is_accurate_for_any_cap)
{
    check_cap(0.5f, ldexp(1, -18));
    check_cap(30, ldexp(1, -16));
    check_cap(512, ldexp(1, -12));
    check_cap(513, ldexp(1, -18));
    check_cap(5e4f, ldexp(1, -18));
    check_cap(1e9f, ldexp(1, -18));
}

/* Checks that the maximum is updated if it grows by more than 2^8, for all queries of the wave or
   none. */
static void check_maximum(float top, bool follows)
{
    static float in[KEYS * LANES], out[LANES];
    for (int i = 0; i < KEYS * LANES; i++)
        in[i] = -1;
    in[2 * LANES + 17] = top;
    struct program p = begin();
    struct tir_builder *const b = &p.b;
    const struct tir_value s = tir_tile_load(b, view(&p, "in", KEYS), tir_i32(b, 0), p.scores);
    const struct att_softmax softmax = att_softmax(b, p.scores, tir_arg(b, "exponent", TIR_F32));
    struct tir_value m = tir_splat(b, tir_f32(b, -4.0f), softmax.vector);
    att_softmax_maximum(b, &softmax, s, tir_float_like(b, m, 1.0f), &m);
    tir_tile_store(b, view(&p, "out", 1), tir_i32(b, 0), m);
    run(&p, in, out, (const float[]){0, 2});
    for (int i = 0; i < LANES; i++)
        assert_float_equal(out[i], !follows ? -4 : i == 17 ? 2 * top : -2, 0);
}

TEST(maximum_follows_past_the_threshold)
{
    check_maximum(1.99f, false); /* times 2, the exponent's factor, this is 7.98 above -4 */
    check_maximum(2.01f, true);
}

/* Sinks that outweigh all keys, and sinks of no weight, with and without keys. Without keys O is 0,
 * and any finite inverse is correct. */
TEST(sinks_may_be_infinite)
{
    static const struct {
        float m, l, sink, inverse, lse;
    } rows[] = {
        {3, 2, INFINITY, 0, INFINITY},       {-1e30f, 0, INFINITY, 0, INFINITY},
        {3, 2, -INFINITY, 0.5f, 2.7725887f}, {-1e30f, 0, -INFINITY, 0x1p126f, -INFINITY},
        {0, 1, 0, 0.5f, 0.6931472f},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static float in[1], out[2 * LANES];
        struct program p = begin();
        struct tir_builder *const b = &p.b;
        const struct att_softmax s = att_softmax(b, p.scores, tir_arg(b, "exponent", TIR_F32));
        const struct att_softmax_end end = att_softmax_finish(
            b, &s, tir_splat(b, tir_f32(b, rows[i].m), s.vector),
            tir_splat(b, tir_f32(b, rows[i].l), s.folded), tir_arg(b, "cap", TIR_F32));
        tir_tile_store(b, view(&p, "out", 1), tir_i32(b, 0), end.inverse);
        tir_tile_store(b, view(&p, "out", 2), tir_i32(b, 1), att_softmax_lse(b, &end));
        run(&p, in, out, (const float[]){rows[i].sink, 1});
        assert_float_equal(out[17], rows[i].inverse, 1e-6);
        if (isinf(rows[i].lse))
            assert_true(out[LANES + 17] == rows[i].lse);
        else
            assert_float_equal(out[LANES + 17], rows[i].lse, 1e-6);
    }
}

/* If scores are lower than logits by the shift, LSE and the sink's weight still follow from the
 * logits. Two keys and a sink with the logit 8 ln 2, each of weight 2^8, make a denominator of
 * 3 * 2^8. */
TEST(shift_is_added_to_m)
{
    static float in[1], out[2 * LANES];
    struct program p = begin();
    struct tir_builder *const b = &p.b;
    struct att_softmax s = att_softmax(b, p.scores, tir_arg(b, "exponent", TIR_F32));
    s.shift = tir_f32(b, 5);
    const struct tir_value m =
        att_softmax_end_maximum(b, &s, tir_splat(b, tir_f32(b, 3), s.vector));
    const struct att_softmax_end end = att_softmax_finish(
        b, &s, m, tir_splat(b, tir_f32(b, 2), s.folded), tir_arg(b, "cap", TIR_F32));
    tir_tile_store(b, view(&p, "out", 1), tir_i32(b, 0), end.inverse);
    tir_tile_store(b, view(&p, "out", 2), tir_i32(b, 1), att_softmax_lse(b, &end));
    run(&p, in, out, (const float[]){(float)(8 * log(2)), 1});
    assert_float_equal(out[17], 1 / 3.0f, 1e-6);
    assert_float_equal(out[LANES + 17], log(3 * 256), 1e-5);
}

/* Rounds to fp8 e4m3: four significant bits. */
static double round_fp8(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent); /* 0.5 .. 1 */
    return ldexp(nearbyint(ldexp(fraction, 4)), exponent - 4);
}

/* The largest weight of a row is an fp8 number, and none overflows if exp2 is slightly high. The
 * maximum has room to grow before O is rescaled. Weights far below the largest are normal
 * numbers. */
TEST(fp8_has_room_and_bits)
{
    static const struct {
        const char *target;
        double most, least; /* largest number; least normal number */
    } types[] = {{"gfx942", 240, 0x1p-7}, {"gfx950", 448, 0x1p-6}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct tir_func *f = tir_func_create("test", &tgt_find(types[i].target)->machine, 1);
        const struct tir_builder b = tir_at_end(f, f->body);
        struct att_softmax s = {.room = 0};
        att_softmax_range_fp8(&b, &s);
        const double largest = exp2((double)s.rise), most = exp2((double)s.room);
        assert_true(fabs(largest / round_fp8(largest) - 1) < 0x1p-20);
        assert_true(round_fp8(most * 1.02) <= types[i].most);
        assert_true(s.room - s.rise >= 4);
        assert_true(largest * exp2(-10.8) >= types[i].least);
        tir_func_destroy(f);
    }
}

int main(void) { return run_unit_tests(); }

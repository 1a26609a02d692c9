/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares kernels of a few ops on the simulator's engine with C.
 */
#include "ir/arith.h"
#include "tests/targets/run.h"

#include <math.h>
#include <string.h>

static const struct tir_type f32 = {.kind = TIR_VEC, .dtype = TIR_F32, .count = 1};
static const struct tir_type i32 = {.kind = TIR_VEC, .dtype = TIR_I32, .count = 1};

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* The functions from here on test conversions. */

/* Returns values around every rounding decision of bf16: ties to both sides, carries into the
 * exponent, the largest finite number, infinities, NaNs with various fractions. */
static uint32_t interesting_bits(unsigned i)
{
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x3f800000, 0x3f808000, 0x3f818000, 0x3f807fff,
        0x3f808001, 0x3fffffff, 0xbf818000, 0x7f7fffff, 0x7f7f7fff, 0xff7fffff,
        0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff,
        0x7fc00001, 0xffff8000, 0x00008000, 0x00018000, 0x007fffff, 0x00800000,
    };
    enum { N = sizeof(bits) / sizeof(bits[0]) };
    return i < N ? bits[i] : 0x3f000000 + i * 0x01234567u % 0x02000000;
}

static void check_bf16(uint32_t from, uint16_t to)
{
    if (isnan(float_of(from))) {
        assert_true(isnan(float_of((uint32_t)to << 16)));
        return;
    }
    uint32_t rounded = (from + 0x7fff + (from >> 16 & 1)) >> 16;
    if (to != rounded)
        fail_msg("%08x became %04x, not %04x", from, to, rounded);
}

TEST(two_f32_become_bf16_by_nearest_even)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
        keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, 0, 0, 0));
        struct tir_value one = ab[0];
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_BF16, 1), &one, 1, 0, 0, 0));
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            v.in[0][lane].u[0] = interesting_bits(lane);
            v.in[1][lane].u[0] = interesting_bits(63 - lane);
        }
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            check_bf16(v.in[0][lane].u[0], v.out[0][lane].h[0]);
            check_bf16(v.in[1][lane].u[0], v.out[0][lane].h[1]);
            check_bf16(v.in[0][lane].u[0], v.out[1][lane].h[0]);
        }
    }
}

/* The short form may lose a NaN with a fraction in the low half only; 16-bit data have none. */
TEST(rounding_without_a_check_keeps_the_nans_of_16_bit_data)
{
    static struct values v;
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
    keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, 1, 0, 0));
    for (unsigned lane = 0; lane < 64; lane++) {
        v.in[0][lane].u[0] = interesting_bits(lane) & 0xffff0000;
        v.in[1][lane].u[0] = 0x7f810000 + lane * 0x10000;
    }
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned lane = 0; lane < 64; lane++) {
        check_bf16(v.in[0][lane].u[0], v.out[0][lane].h[0]);
        check_bf16(v.in[1][lane].u[0], v.out[0][lane].h[1]);
    }
}

/* A tie may be rounded to either neighbour; other values are rounded to nearest. */
TEST(ties_may_be_rounded_either_way)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
        keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, 1, 1, 0));
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            v.in[0][lane].u[0] = 0x3f800000 + lane * 0x01234567u % 0x02000000;
            v.in[1][lane].u[0] = 0x3f808000 + lane * 0x10000;
        }
        v.in[0][1].u[0] = 0x7f800000;
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            check_bf16(v.in[0][lane].u[0], v.out[0][lane].h[0]);
            assert_in_range(v.out[0][lane].h[1], 0x3f80 + lane, 0x3f81 + lane);
        }
    }
}

TEST(rounding_toward_zero_is_the_interpreters)
{
    static const uint32_t ends[] = {0x7f800000, 0xff800000, 0x7f7fffff, 0x00000001, 0x80000000};
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        for (int half = 0; half < 2; half++) {
            static struct values v;
            const unsigned dtype = half ? TIR_F16 : TIR_BF16;
            struct kernel k = kernel_create((*t)->machine.name, 1, 1);
            struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
            keep(&k, make(&k, TIR_convert_pair, tir_vec(dtype, 2), ab, 2, 1, TIR_TOWARD_ZERO, 0));
            for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
                v.in[0][lane].u[0] = lane < 5 ? ends[lane] : 0x33000000 + lane * 0x00345678;
                v.in[1][lane].u[0] = 0xbf800000 + lane * 0x1357;
            }
            compile_and_run(&k, &v, NULL, 0);
            for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
                for (unsigned i = 0; i < 2; i++)
                    assert_int_equal(v.out[0][lane].h[i],
                                     tir_cut_float(dtype, v.in[i][lane].f[0]) & 0xffff);
        }
    }
}

static float float_of_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double m = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(h & 0x8000 ? -m : m);
}

/* Rounds x, in the normal range of f16, to 11 significant bits, ties to even. */
static float round_to_half(float x)
{
    int exponent;
    frexpf(x, &exponent);
    return ldexpf(nearbyintf(ldexpf(x, 11 - exponent)), exponent - 11);
}

TEST(two_f32_become_f16_by_nearest_even)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
        keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_F16, 2), ab, 2, 0, 0, 0));
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            v.in[0][lane].f[0] = 1 + (float)lane / 2048; /* every other one is a tie */
            v.in[1][lane].f[0] = -ldexpf(1 + (float)lane / 4096, (int)lane % 28 - 13);
        }
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            float a = float_of_half(v.out[0][lane].h[0]), b = float_of_half(v.out[0][lane].h[1]);
            assert_true(a == round_to_half(v.in[0][lane].f[0]));
            assert_true(b == round_to_half(v.in[1][lane].f[0]));
        }
    }
}

TEST(integers_and_floats_convert_by_value)
{
    static struct values v;
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value i = unknown(&k, i32), f = unknown(&k, f32);
    keep(&k, make(&k, TIR_convert, f32, &i, 1, 0, 0, 0));
    keep(&k, make(&k, TIR_convert, i32, &f, 1, 0, 0, 0));
    for (unsigned lane = 0; lane < 64; lane++) {
        v.in[0][lane].i[0] = (int)lane * 1000 - 32000;
        v.in[1][lane].f[0] = (float)lane * 1.75f - 50;
    }
    v.in[1][0].f[0] = 1e20f;
    v.in[1][1].f[0] = -INFINITY;
    v.in[1][2].f[0] = NAN;
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned lane = 0; lane < 64; lane++)
        assert_true(v.out[0][lane].f[0] == (float)v.in[0][lane].i[0]);
    assert_int_equal(v.out[1][0].i[0], INT32_MAX);
    assert_int_equal(v.out[1][1].i[0], INT32_MIN);
    assert_int_equal(v.out[1][2].i[0], 0);
    for (unsigned lane = 3; lane < 64; lane++)
        assert_int_equal(v.out[1][lane].i[0], (int)nearbyintf(v.in[1][lane].f[0]));
}

/* Converting bytes to f32 and back gives the same bytes, except for NaN. */
TEST(fp8_survives_the_way_through_f32)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value bytes = unknown(&k, tir_vec(TIR_FP8, 4));
        struct tir_value wide = make(&k, TIR_convert, tir_vec(TIR_F32, 4), &bytes, 1, 0, 0, 0);
        keep(&k, wide);
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_FP8, 4), &wide, 1, 0, 0, 0));
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
            for (unsigned e = 0; e < 4; e++)
                v.in[0][lane].b[e] = (uint8_t)(4 * lane + e);
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
            for (unsigned e = 0; e < 4; e++)
                if (!isnan(v.out[0][lane].f[e]))
                    assert_int_equal(v.out[1][lane].b[e], v.in[0][lane].b[e]);
        const unsigned one = (*t)->machine.fp8_is_fnuz ? 0x40 : 0x38;
        assert_true(v.out[0][one / 4].f[one % 4] == 1.0f);
    }
}

/* Returns halfway cases, saturating and underflowing values, infinities, NaN. */
static float interesting_float(unsigned i)
{
    static const float floats[] = {
        0.0f,
        -0.0f,
        1e-9f,
        0.0009765625f,
        0.00048828125f,
        0.00146484375f,
        17,
        19,
        -21,
        23,
        239.9f,
        240,
        241,
        248,
        249,
        -256,
        447,
        448,
        449,
        -464,
        465,
        480,
        1e9f,
        -INFINITY,
        INFINITY,
        NAN,
        0.5f,
        1.5f,
        -2.5f,
        126.5f,
        127,
        127.4f,
        127.5f,
        -127.5f,
        -128,
        -128.5f,
        -129,
        3e9f,
    };
    enum { N = sizeof(floats) / sizeof(floats[0]) };
    return i < N ? floats[i] : ldexpf(1 + (float)(i * 37 % 64) / 64, (int)(i % 12) - 4);
}

/* Compares with the interpreter's tables, an independent computation. */
static void check_fp8(const struct tgt *t, float from, uint8_t to)
{
    const bool fnuz = t->machine.fp8_is_fnuz;
    if (isnan(from))
        assert_true(isnan(tir_to_float(TIR_FP8, to, fnuz)));
    else if (to != tir_from_float(TIR_FP8, from, fnuz))
        fail_msg("%s: %g became %02x, not %02x", t->machine.name, (double)from, to,
                 (unsigned)tir_from_float(TIR_FP8, from, fnuz));
}

static void check_int8(float from, int8_t to)
{
    const float rounded = isnan(from) ? 0 : nearbyintf(from);
    assert_int_equal(to, (int)fminf(fmaxf(rounded, -128), 127));
}

TEST(bytes_made_of_f32_are_rounded_and_saturate)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value wide = unknown(&k, tir_vec(TIR_F32, 4));
        struct tir_value two = make(&k, TIR_extract, tir_vec(TIR_F32, 2), &wide, 1, 2, 0, 0);
        struct tir_value one = make(&k, TIR_extract, f32, &wide, 1, 1, 0, 0);
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_FP8, 4), &wide, 1, 0, 0, 0));
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_FP8, 2), &two, 1, 0, 0, 0));
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_FP8, 1), &one, 1, 0, 0, 0));
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_I8, 4), &wide, 1, 0, 0, 0));
        keep(&k, make(&k, TIR_convert, tir_vec(TIR_I8, 1), &one, 1, 0, 0, 0));
        struct tir_value last = make(&k, TIR_extract, tir_vec(TIR_F32, 3), &wide, 1, 1, 0, 0);
        const struct tir_value bytes[] = {
            make(&k, TIR_convert, tir_vec(TIR_FP8, 3), &last, 1, 0, 0, 0),
            make(&k, TIR_convert, tir_vec(TIR_FP8, 1), &one, 1, 0, 0, 0),
        };
        keep(&k, make(&k, TIR_concat, tir_vec(TIR_FP8, 4), bytes, 2, 0, 0, 0));
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
            for (unsigned e = 0; e < 4; e++)
                v.in[0][lane].f[e] = interesting_float((lane + 16 * e) % 64);
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++) {
            const float *in = v.in[0][lane].f;
            for (unsigned e = 0; e < 4; e++)
                check_fp8(*t, in[e < 3 ? e + 1 : 1], v.out[5][lane].b[e]);
            for (unsigned e = 0; e < 4; e++) {
                check_fp8(*t, in[e], v.out[0][lane].b[e]);
                check_int8(in[e], (int8_t)v.out[3][lane].b[e]);
            }
            check_fp8(*t, in[2], v.out[1][lane].b[0]);
            check_fp8(*t, in[3], v.out[1][lane].b[1]);
            check_fp8(*t, in[1], v.out[2][lane].b[0]);
            check_int8(in[1], (int8_t)v.out[4][lane].b[0]);
        }
    }
}

/* Checks the bytes from `first` on, `count` for each lane. Every fp8 and int8 value is a bf16 and
 * an f16 value, so nothing is rounded. */
static void check_bytes(const struct tgt *t, unsigned count, unsigned first)
{
    static struct values v;
    static const uint8_t from[] = {TIR_FP8, TIR_I8}, to[] = {TIR_BF16, TIR_F16};
    const unsigned lanes = tir_lanes(&t->machine);
    struct kernel k = kernel_create(t->machine.name, 1, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct tir_value bytes = unknown(&k, tir_vec(from[i], count));
        for (unsigned j = 0; j < 2; j++)
            keep(&k, make(&k, TIR_convert, tir_vec(to[j], count), &bytes, 1, 0, 0, 0));
    }
    for (unsigned lane = 0; lane < lanes; lane++)
        for (unsigned e = 0; e < count; e++)
            v.in[0][lane].b[e] = v.in[1][lane].b[e] = (uint8_t)(first + count * lane + e);
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned n = 0; n < count * lanes; n++) {
        const unsigned i = (first + n) % 256, lane = n / count, e = n % count;
        const float fp8 = tir_to_float(TIR_FP8, i, t->machine.fp8_is_fnuz);
        for (unsigned j = 0; j < 2; j++) {
            const float a = tir_to_float(to[j], v.out[j][lane].h[e], false);
            assert_true(isnan(fp8) ? isnan(a) : a == fp8);
            assert_true(tir_to_float(to[j], v.out[2 + j][lane].h[e], false) == (int8_t)i);
        }
    }
}

TEST(bytes_become_halves_exactly)
{
    for (const struct tgt *const *t = tgt_all; *t; t++)
        for (unsigned count = 2; count <= 8; count *= 2)
            for (unsigned first = 0; first < 256; first += count * tir_lanes(&(*t)->machine))
                check_bytes(*t, count, first);
}

/* Each half keeps its place, also in a maximum that the next one reads. */
TEST(halves_of_maxima_keep_their_places)
{
    static struct values v;
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value a[3] = {unknown(&k, i32), unknown(&k, i32), unknown(&k, i32)};
    a[0] = make(&k, TIR_max3_pair, i32, a, 3, 0, 0, 0);
    a[1] = make(&k, TIR_max3_pair, i32, a, 3, 0, 0, 0);
    keep(&k, a[0]);
    keep(&k, a[1]);
    for (unsigned lane = 0; lane < 64; lane++)
        for (unsigned i = 0; i < 3; i++)
            v.in[i][lane].u[0] = (lane + 20 * i) % 64 << 24 | (lane + 20 * i) * 5 % 64 << 8;
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned lane = 0; lane < 64; lane++) {
        uint16_t most[2] = {0, 0};
        for (unsigned i = 0; i < 6; i++)
            if (most[i % 2] < v.in[i / 2][lane].h[i % 2])
                most[i % 2] = v.in[i / 2][lane].h[i % 2];
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(v.out[i / 2][lane].h[i % 2], most[i % 2]);
    }
}

/* The functions from here on test control flow. */

/* Sums index * x over the iterations; if the flag is set, a cold branch negates the sum in each. */
TEST(loops_and_branches_carry_their_values)
{
    static const int rounds[] = {0, 1, 2, 9};
    for (unsigned r = 0; r < 4; r++) {
        static struct values v;
        struct kernel k = kernel_create("gfx942", 1, 1);
        struct tir_value x = unknown(&k, i32), flag = unknown(&k, i32);
        struct tir_value zero = tir_int_like(&k.b, flag, 0);
        struct tir_value set = tir_any(&k.b, tir_cmp_ne(&k.b, flag, zero));
        struct tir_value sum = zero, start = tir_i32(&k.b, 0), step = tir_i32(&k.b, 1);
        struct tir_loop loop =
            tir_begin_for(&k.b, start, tir_arg(&k.b, "n", TIR_I32), step, &sum, 1);
        struct tir_value index = make(&k, TIR_splat, i32, &loop.index, 1, 0, 0, 0);
        sum = tir_add(&k.b, sum, tir_mul(&k.b, index, x));
        struct tir_if cold = tir_begin_if(&k.b, set, true, &i32, 1);
        struct tir_value negated = tir_neg(&k.b, sum), merged = sum;
        tir_else(&k.b, &cold, &negated);
        tir_end_if(&k.b, &cold, &merged);
        sum = merged;
        tir_end_for(&k.b, &loop, &sum, 1);
        keep(&k, sum);
        struct compiled c = kernel_compile(&k);
        for (int flagged = 0; flagged < 2; flagged++) {
            const struct setting n = {"n", rounds[r]};
            int expected = 0;
            for (unsigned lane = 0; lane < 64; lane++) {
                v.in[0][lane].i[0] = (int)lane - 5;
                v.in[1][lane].i[0] = flagged && lane == 17;
            }
            for (int i = 0; i < rounds[r]; i++)
                expected = (expected + i) * (flagged ? -1 : 1);
            run(&c, &v, &n, 1);
            for (unsigned lane = 0; lane < 64; lane++)
                assert_int_equal(v.out[0][lane].i[0], expected * ((int)lane - 5));
        }
        compiled_free(&c);
    }
}

TEST(uniform_division_is_exact)
{
    static const uint32_t cases[][2] = {
        {0, 1},
        {7, 3},
        {4294967295u, 1},
        {4294967295u, 4294967295u},
        {4294967294u, 4294967295u},
        {2147483648u, 3},
        {1000000007u, 65537},
        {65535, 65536},
    };
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value a = tir_arg(&k.b, "a", TIR_I32), b = tir_arg(&k.b, "b", TIR_I32);
    struct tir_value both[2] = {tir_div(&k.b, a, b), tir_rem(&k.b, a, b)};
    for (unsigned i = 0; i < 2; i++)
        keep(&k, make(&k, TIR_splat, i32, &both[i], 1, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct values v;
        const struct setting s[2] = {{"a", cases[i][0]}, {"b", cases[i][1]}};
        run(&c, &v, s, 2);
        assert_int_equal(v.out[0][9].u[0], cases[i][0] / cases[i][1]);
        assert_int_equal(v.out[1][9].u[0], cases[i][0] % cases[i][1]);
    }
    compiled_free(&c);
}

TEST(transcendentals_are_close)
{
    static struct values v;
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value a = unknown(&k, f32);
    static const unsigned ops[] = {TIR_exp2, TIR_log2, TIR_rcp, TIR_rsq};
    for (unsigned i = 0; i < 4; i++)
        keep(&k, make(&k, ops[i], f32, &a, 1, 0, 0, 0));
    for (unsigned lane = 0; lane < 64; lane++)
        v.in[0][lane].f[0] = 0.07f * (float)(lane + 1);
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned lane = 0; lane < 64; lane++) {
        double x = v.in[0][lane].f[0];
        const double expected[4] = {exp2(x), log2(x), 1 / x, 1 / sqrt(x)};
        for (unsigned i = 0; i < 4; i++)
            assert_true(fabs(v.out[i][lane].f[0] - expected[i]) <=
                        2.5e-7 * fmax(1, fabs(expected[i])));
    }
}

int main(void) { return run_unit_tests(); }

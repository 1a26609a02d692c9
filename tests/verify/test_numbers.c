/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests the element types of attnc verify, code by code: IEEE 754 binary16, bfloat16,
 * OFP8 e4m3 and its fnuz kind (CDNA3 ISA), int8. It also tests the random numbers that fill
 * tensors.
 */
#include <math.h>
#include <stdbool.h>

#include "tests/unit_test.h"
#include "tools/verify/numbers.h"

/* A format of `mantissa` bits after an exponent of the given bias; `one` is the code of 1.0. */
struct format {
    const struct precision *p;
    int mantissa, bias;
    unsigned sign, largest, one;
    double most;
};

static int formats_of(struct format to[4])
{
    const struct format all[] = {
        {find_precision("fp16"), 10, 15, 0x8000, 0x7bff, 0x3c00, 65504},
        {find_precision("bf16"), 7, 127, 0x8000, 0x7f7f, 0x3f80, 0x1.fep127},
        {find_cache_precision(ATTN_FP8, "gfx950"), 3, 7, 0x80, 0x7e, 0x38, 448},
        {find_cache_precision(ATTN_FP8, "gfx942"), 3, 8, 0x80, 0x7f, 0x40, 240},
    };
    for (int i = 0; i < 4; i++)
        to[i] = all[i];
    return 4;
}

/* The next code is the next number of the format, from zero to the largest. */
TEST(codes_are_the_numbers_of_their_format)
{
    struct format formats[4];
    for (int k = formats_of(formats); k-- > 0;) {
        const struct format *f = &formats[k];
        assert_true(decode_element(f->p, 0) == 0);
        assert_true(decode_element(f->p, (uint16_t)f->one) == 1);
        assert_true(decode_element(f->p, (uint16_t)f->largest) == f->most);
        assert_true(f->p->limit == (f->p->size == 1 ? f->most : INFINITY));
        for (unsigned code = 0; code < f->largest; code++) {
            const int exponent = (int)(code >> f->mantissa);
            const double step = ldexp(1, (exponent ? exponent : 1) - f->bias - f->mantissa);
            const double here = decode_element(f->p, (uint16_t)code);
            assert_true(decode_element(f->p, (uint16_t)(code + 1)) - here == step);
            if (code)
                assert_true(decode_element(f->p, (uint16_t)(code | f->sign)) == -here);
        }
    }
}

TEST(what_is_no_number_is_none)
{
    struct format formats[4];
    formats_of(formats);
    assert_true(decode_element(formats[0].p, 0x7c00) == INFINITY);
    assert_true(decode_element(formats[0].p, 0xfc00) == -INFINITY);
    for (unsigned code = 0x7c01; code < 0x8000; code++)
        assert_true(isnan(decode_element(formats[0].p, (uint16_t)code)) &&
                    isnan(decode_element(formats[0].p, (uint16_t)(code | 0x8000))));
    assert_true(decode_element(formats[1].p, 0xff80) == -INFINITY);
    assert_true(isnan(decode_element(formats[1].p, 0x7f81)));
    assert_true(isnan(decode_element(formats[2].p, 0x7f)));
    assert_true(isnan(decode_element(formats[2].p, 0xff)));
    assert_true(decode_element(formats[2].p, 0x80) == 0);
    assert_true(isnan(decode_element(formats[3].p, 0x80)));
    assert_true(decode_element(formats[3].p, 0xff) == -240);
    const struct precision *int8 = find_cache_precision(ATTN_INT8, "gfx942");
    assert_true(decode_element(int8, 0x80) == -128 && decode_element(int8, 0x7f) == 127);
    assert_true(decode_element(int8, 0xff) == -1);
    for (int k = 0; k < 4; k++) /* tensors are filled with it as poison */
        assert_true(isnan(decode_element(formats[k].p, (uint16_t)formats[k].p->poison)));
}

/* Only zero and the normal numbers of fp16 and bf16 can be encoded. */
TEST(numbers_have_the_code_that_they_came_from)
{
    struct format formats[4];
    for (int k = formats_of(formats); k-- > 0;) {
        const struct format *f = &formats[k];
        const unsigned normal = f->sign == 0x80 ? 1 : 1u << f->mantissa;
        assert_int_equal(encode_element(f->p, 0), 0);
        for (unsigned code = normal; code <= f->largest; code++) {
            const double v = decode_element(f->p, (uint16_t)code);
            assert_int_equal(encode_element(f->p, v), code);
            assert_int_equal(encode_element(f->p, -v), code | f->sign);
        }
    }
    assert_int_equal(encode_element(formats[0].p, -0.0), 0x8000);
}

/* A rounding is half the distance of neighbours, relative to the smaller: it is largest just above
   a power of two. */
TEST(roundings_are_half_a_step)
{
    struct format formats[4];
    for (int k = formats_of(formats); k-- > 0;) {
        const struct format *f = &formats[k];
        const double next = decode_element(f->p, (uint16_t)(f->one + 1));
        assert_true(f->p->unit == (next - 1) / 2);
        assert_true(f->p->tiny == decode_element(f->p, 1) / 2);
        assert_true(f->p->size == (f->sign == 0x80 ? 1 : 2));
    }
    assert_null(find_precision("fp8"));
    assert_null(find_precision("int8"));
    assert_null(find_precision("fp32"));
}

/* SplitMix64 with seed 0 gives the numbers of its authors' program, as Java's SplittableRandom
   does. */
TEST(random_numbers_are_those_of_their_generator)
{
    uint64_t seed = 0;
    assert_int_equal(random_bits(&seed), UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(random_bits(&seed), UINT64_C(0x6e789e6aa1b965f4));
    assert_int_equal(random_bits(&seed), UINT64_C(0x06c45d188009454f));
}

/* Values are multiples of 2^-10 with 8 bits and a sign, large and small. */
TEST(random_values_reach_both_ends)
{
    uint64_t seed = 1;
    double least = 2, most = 0;
    bool negative = false;
    for (int i = 0; i < 4000; i++) {
        const double v = random_value(&seed), size = fabs(v);
        assert_true(size <= 2 && v * 1024 == nearbyint(v * 1024));
        least = size > 0 && size < least ? size : least;
        most = size > most ? size : most;
        negative |= v < -1;
    }
    assert_true(least <= 0x1p-9 && most > 1.9 && negative);
    struct format formats[4];
    for (int k = formats_of(formats); k-- > 0;) {
        most = 0;
        for (int i = 0; i < 4000; i++) {
            const double size =
                fabs(decode_element(formats[k].p, random_element(formats[k].p, 16, &seed)));
            assert_true(size <= 16);
            most = size > most ? size : most;
        }
        assert_true(most > 15);
    }
}

int main(void) { return run_unit_tests(); }

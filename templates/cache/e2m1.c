/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/cache/e2m1.h"

enum { CODE_BITS = 4, CODE = 15, MAGNITUDE = 7, SIGN = 8 };

struct tir_value att_e2m1_add(struct tir_builder *b, struct tir_value code, struct tir_value size)
{
    static const float middles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    for (unsigned i = 0; i < sizeof(middles) / sizeof(middles[0]); i++) {
        const struct tir_value middle = tir_float_like(b, size, middles[i]);
        const struct tir_value above =
            i % 2 ? tir_cmp_ge(b, size, middle) : tir_cmp_gt(b, size, middle);
        code = tir_add(b, code,
                       tir_select(b, above, tir_int_like(b, code, 1), tir_int_like(b, code, 0)));
    }
    return code;
}

/* Returns the codes (i32) of the e2m1 numbers nearest to x (f32). */
static struct tir_value nearest(struct tir_builder *b, struct tir_value x)
{
    enum { SIGN_BIT = 28 };
    const struct tir_value size = tir_abs(b, x);
    const struct tir_value bits = tir_bitcast(b, x, tir_with_dtype(tir_typeof(b->f, x), TIR_I32));
    const struct tir_value sign =
        tir_and(b, tir_shr(b, bits, tir_int_like(b, bits, SIGN_BIT)), tir_int_like(b, bits, SIGN));
    return att_e2m1_add(b, sign, size);
}

struct tir_value att_e2m1_bytes(struct tir_builder *b, struct tir_value x)
{
    const struct tir_value codes = tir_convert(b, nearest(b, x), TIR_I8);
    const struct tir_type t = tir_typeof(b->f, codes);
    const struct tir_layout *const l = tir_layout_of(b->f, t);
    const unsigned bits = tir_layout_has_neighbours(l, 2) ? 2 : 1;
    const struct tir_layout joined_layout = tir_layout_join_cols(l, bits);
    const struct tir_type words = tir_tile(b->f, bits == 2 ? TIR_I32 : TIR_I16, t.rows,
                                           (unsigned)t.cols >> bits, &joined_layout);
    const struct tir_value w = tir_bitcast(b, codes, words);
    struct tir_value joined = tir_and(b, w, tir_int_like(b, w, CODE));
    for (int i = 1; i < 1 << bits; i++) {
        const struct tir_value down = tir_shr(b, w, tir_int_like(b, w, CODE_BITS * i));
        joined = tir_or(b, joined, tir_and(b, down, tir_int_like(b, w, CODE << CODE_BITS * i)));
    }
    return tir_convert(b, joined, bits == 2 ? TIR_I16 : TIR_I8);
}

struct tir_value att_e2m1_pairs(struct tir_builder *b, struct tir_value even, struct tir_value odd)
{
    const struct tir_value high = nearest(b, odd);
    const struct tir_value up = tir_shl(b, high, tir_int_like(b, high, CODE_BITS));
    return tir_convert(b, tir_or(b, nearest(b, even), up), TIR_I8);
}

/* Returns the bits (i32) of the f32 number 2 * half * e. The code of the e2m1 number e is in the
 * lowest 4 bits of `code`; higher bits are ignored. The constant TWICE has 2 |e| of each code, in 4
 * bits. */
static struct tir_value number_bits(struct tir_builder *b, struct tir_value code,
                                    struct tir_value half)
{
    enum { TWICE = (int)0xc8643210, TO_SIGN = 28 };
    const struct tir_value at =
        tir_shl(b, tir_and(b, code, tir_int_like(b, code, MAGNITUDE)), tir_int_like(b, code, 2));
    const struct tir_value twice =
        tir_and(b, tir_shr(b, tir_int_like(b, code, TWICE), at), tir_int_like(b, code, CODE));
    const struct tir_value size = tir_mul(b, tir_convert(b, twice, TIR_F32), half);
    const struct tir_value sign =
        tir_shl(b, tir_and(b, code, tir_int_like(b, code, SIGN)), tir_int_like(b, code, TO_SIGN));
    return tir_or(b, tir_bitcast(b, size, tir_typeof(b->f, code)), sign);
}

/* Multiplies in f32. A product of an e2m1 element and a scale has at most 6 significant bits, so
 * its bf16 is the upper half of the f32. */
struct tir_value att_e2m1_elements(struct tir_builder *b, struct tir_value bytes,
                                   struct tir_value scale, unsigned dtype)
{
    const struct tir_type t = tir_typeof(b->f, bytes);
    const struct tir_value code = tir_zext(b, bytes, TIR_I32);
    const struct tir_value scales = tir_broadcast(b, scale, tir_with_dtype(t, TIR_F32));
    const struct tir_value half = tir_mul(b, scales, tir_float_like(b, scales, 0.5f));
    const struct tir_value even = number_bits(b, code, half);
    const struct tir_value odd =
        number_bits(b, tir_shr(b, code, tir_int_like(b, code, CODE_BITS)), half);
    const struct tir_value both = tir_or(b, tir_shr(b, even, tir_int_like(b, even, 16)),
                                         tir_and(b, odd, tir_int_like(b, odd, (int)0xffff0000)));
    const struct tir_layout l = tir_layout_split_cols(tir_layout_of(b->f, t), 1);
    const struct tir_value x =
        tir_bitcast(b, both, tir_tile(b->f, TIR_BF16, t.rows, 2u * t.cols, &l));
    return dtype == TIR_BF16 ? x : tir_convert(b, tir_convert(b, x, TIR_F32), dtype);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on uniform scalars, as every template needs it for addresses and counts.
 */
#ifndef TEMPLATES_WORKGROUP_SCALAR_H
#define TEMPLATES_WORKGROUP_SCALAR_H

#include "ir/builder.h"
#include "op_names.h"

/**
 * A tensor argument and the arguments that are its strides from a token, and from a head, to the
 * next. ATT_TOKENS(KV_C) is for a tensor [token, element], ATT_HEADS(Q) for [token, head, element];
 * neither compiles where the schemas of ops/ have no argument of such a name.
 */
struct att_tensor {
    const char *arg, *token_stride, *head_stride;
};
#define ATT_TOKENS(T) ((struct att_tensor){ARG_##T, ARG_##T##_TOKEN_STRIDE, NULL})
#define ATT_HEADS(T) ((struct att_tensor){ARG_##T, ARG_##T##_TOKEN_STRIDE, ARG_##T##_HEAD_STRIDE})

/** a + n, of an i32. */
static inline struct tir_value att_plus(struct tir_builder *b, struct tir_value a, int n)
{
    return n ? tir_add(b, a, tir_i32(b, n)) : a;
}

/** a * n, of an i32. */
static inline struct tir_value att_times(struct tir_builder *b, struct tir_value a, int n)
{
    return tir_mul(b, a, tir_i32(b, n));
}

/** An i32 as i64, sign-extended. */
static inline struct tir_value att_wide(struct tir_builder *b, struct tir_value a)
{
    return tir_convert(b, a, TIR_I64);
}

/** Bytes (i64) of a stride argument, which counts elements of `size` bytes. */
static inline struct tir_value att_stride(struct tir_builder *b, const char *arg, int size)
{
    return tir_mul(b, tir_arg(b, arg, TIR_I64), tir_i64(b, size));
}

/** The same as i32, for the rows of an att_view(). */
static inline struct tir_value att_stride32(struct tir_builder *b, const char *arg, int size)
{
    return tir_convert(b, att_stride(b, arg, size), TIR_I32);
}

/** Bytes (i64) from row 0 to row `index` (i32); `arg` is the stride in elements of `size` bytes. */
static inline struct tir_value att_offset(struct tir_builder *b, struct tir_value index,
                                          const char *arg, int size)
{
    return tir_mul(b, att_wide(b, index), att_stride(b, arg, size));
}

/** The address of that row of a tensor at `base` (i64). */
static inline struct tir_value att_row(struct tir_builder *b, struct tir_value base,
                                       struct tir_value index, const char *arg, int size)
{
    return tir_add(b, base, att_offset(b, index, arg, size));
}

/** Element `index` (i32) of the array `arg`, of 32 bits as `dtype` says; all uniform. */
static inline struct tir_value att_entry(struct tir_builder *b, const char *arg,
                                         struct tir_value index, unsigned dtype)
{
    return tir_scalar_load(b, tir_arg(b, arg, TIR_I64), tir_shl(b, index, tir_i32(b, 2)), dtype);
}

/** The f32 that `arg` points to, a scale of a whole tensor. */
static inline struct tir_value att_scale(struct tir_builder *b, const char *arg)
{
    return tir_scalar_load(b, tir_arg(b, arg, TIR_I64), tir_i32(b, 0), TIR_F32);
}

/**
 * Rows of `row_bytes` at `base`, `stride` bytes apart; `rows` may be <= 0: nothing is in range.
 * Rows past the end read as 0 and are not written. All i32 but the base, which is i64.
 */
static inline struct tir_view att_view(struct tir_builder *b, struct tir_value base,
                                       struct tir_value rows, struct tir_value stride,
                                       int row_bytes, int byte)
{
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value last = tir_mul(b, att_plus(b, rows, -1), stride);
    const struct tir_value bytes =
        tir_select(b, tir_cmp_gt(b, rows, zero), att_plus(b, last, row_bytes), zero);
    return (struct tir_view){tir_make_rsrc(b, base, bytes), stride, tir_i32(b, byte)};
}

#endif

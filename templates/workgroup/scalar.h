/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has arithmetic on scalars that are the same in all lanes, as every template needs it
 * for addresses and counts.
 */
#ifndef TEMPLATES_WORKGROUP_SCALAR_H
#define TEMPLATES_WORKGROUP_SCALAR_H

#include "ir/builder.h"
#include "op_names.h"

/**
 * Names of a tensor's argument, and of the arguments with its strides between tokens and heads, in
 * elements. ATT_TOKENS(KV_C) is for a tensor [token, element], which has no head_stride, and
 * ATT_HEADS(Q) for [token, head, element]. Neither compiles if the schemas of ops/ have no argument
 * of such a name.
 */
struct att_tensor {
    const char *arg, *token_stride, *head_stride;
};
#define ATT_TOKENS(T) ((struct att_tensor){ARG_##T, ARG_##T##_TOKEN_STRIDE, NULL})
#define ATT_HEADS(T) ((struct att_tensor){ARG_##T, ARG_##T##_TOKEN_STRIDE, ARG_##T##_HEAD_STRIDE})

/** log2(e) and the natural logarithm of 2: exp(x) is 2^(x ATT_LOG2E), log(x) is log2(x) ATT_LN2. */
static const float ATT_LOG2E = 1.4426950408889634f, ATT_LN2 = 0.6931471805599453f;

/** Returns a + n, both i32; n is a constant. */
static inline struct tir_value att_plus(struct tir_builder *b, struct tir_value a, int n)
{
    return n ? tir_add(b, a, tir_i32(b, n)) : a;
}

/** Returns a * n, both i32; n is a constant. */
static inline struct tir_value att_times(struct tir_builder *b, struct tir_value a, int n)
{
    return tir_mul(b, a, tir_i32(b, n));
}

/** Returns part i (index) of n equal parts of a tile's rows; n is a power of two. */
static inline struct tir_value att_part(struct tir_builder *b, struct tir_value tile, unsigned i,
                                        unsigned n)
{
    for (; n > 1; n /= 2, i %= n)
        tile = tir_half(b, tile, i >= n / 2);
    return tile;
}

/** Returns `scalar` in every element of a tile with the shape and layout of `v`; `scalar` itself if
 * `v` is a scalar. The result has the dtype of `scalar`. */
static inline struct tir_value att_like(struct tir_builder *b, struct tir_value scalar,
                                        struct tir_value v)
{
    const struct tir_type t = tir_typeof(b->f, v);
    return t.kind == TIR_SCALAR ? scalar : tir_splat(b, scalar, t);
}

/** Returns `a` (integers, a scalar or a tile) modulo n, a power of two. */
static inline struct tir_value att_modulo(struct tir_builder *b, struct tir_value a, int n)
{
    return tir_and(b, a, tir_int_like(b, a, n - 1));
}

/** Returns the LDS address (i32) of buffer i % n in a ring of n buffers of `bytes` bytes. `i` is
 * i32, and n a power of two. `first` (i32): LDS address of buffer 0. */
static inline struct tir_value att_ring_buffer(struct tir_builder *b, struct tir_value first,
                                               struct tir_value i, unsigned n, unsigned bytes)
{
    if (n == 1)
        return first;
    return tir_add(b, first, att_times(b, att_modulo(b, i, (int)n), (int)bytes));
}

/** Returns a / n, rounded down, for i32 from 0 to 2^24 - 1, both scalars or both tiles. With this
 * bound, a division takes a third of the instructions of a division of any i32. */
static inline struct tir_value att_divide_short(struct tir_builder *b, struct tir_value a,
                                                struct tir_value n)
{
    const struct tir_value mask = tir_int_like(b, a, 0xffffff);
    return tir_div(b, tir_and(b, a, mask), tir_and(b, n, mask));
}

/** Returns `a` (i32) as i64, sign-extended. */
static inline struct tir_value att_wide(struct tir_builder *b, struct tir_value a)
{
    return tir_convert(b, a, TIR_I64);
}

/** Returns a * n as i64; `a` is an i32, and n a constant. */
static inline struct tir_value att_wide_times(struct tir_builder *b, struct tir_value a, int64_t n)
{
    return tir_mul(b, att_wide(b, a), tir_i64(b, n));
}

/** Returns the address (i64) that is `offset` bytes (i64) after the pointer in argument `arg`. */
static inline struct tir_value att_at(struct tir_builder *b, const char *arg,
                                      struct tir_value offset)
{
    return tir_add(b, tir_arg(b, arg, TIR_I64), offset);
}

/** Begins an if without results, whose block is not `cold`: see tir_begin_if(). */
static inline struct tir_if att_begin_if(struct tir_builder *b, struct tir_value cond)
{
    return tir_begin_if(b, cond, false, NULL, 0);
}

/** Returns the stride in argument `arg` in bytes (i64). The argument counts elements of `size`
 * bytes. */
static inline struct tir_value att_stride(struct tir_builder *b, const char *arg, int size)
{
    return tir_mul(b, tir_arg(b, arg, TIR_I64), tir_i64(b, size));
}

/** Returns the stride in argument `arg` in bytes (i32), for the rows of an att_view(). The argument
 * counts elements of `size` bytes. */
static inline struct tir_value att_stride32(struct tir_builder *b, const char *arg, int size)
{
    return tir_convert(b, att_stride(b, arg, size), TIR_I32);
}

/** Returns tile x times `factor`: a scalar, or a row or a column that is broadcast to the type of
 * x. */
static inline struct tir_value att_scaled(struct tir_builder *b, struct tir_value x,
                                          struct tir_value factor)
{
    const struct tir_type t = tir_typeof(b->f, x);
    const bool one = tir_typeof(b->f, factor).kind == TIR_SCALAR;
    return tir_mul(b, x, one ? tir_splat(b, factor, t) : tir_broadcast(b, factor, t));
}

/** Returns the byte offset (i64) of row `index` (i32) of a tensor from its row 0. Argument `arg`
 * has the stride of rows, in elements of `size` bytes. */
static inline struct tir_value att_offset(struct tir_builder *b, struct tir_value index,
                                          const char *arg, int size)
{
    return tir_mul(b, att_wide(b, index), att_stride(b, arg, size));
}

/** Returns the address (i64) of row `index` (i32) of a tensor at address `base` (i64). Argument
 * `arg` has the stride of rows, in elements of `size` bytes. */
static inline struct tir_value att_row(struct tir_builder *b, struct tir_value base,
                                       struct tir_value index, const char *arg, int size)
{
    return tir_add(b, base, att_offset(b, index, arg, size));
}

/** Returns element `index` (i32) of the array of 32-bit elements in argument `arg`, as type `dtype`
 * (enum tir_dtype). The index and the result are scalars. */
static inline struct tir_value att_entry(struct tir_builder *b, const char *arg,
                                         struct tir_value index, unsigned dtype)
{
    return tir_scalar_load(b, tir_arg(b, arg, TIR_I64), tir_shl(b, index, tir_i32(b, 2)), dtype);
}

/** Returns the same as att_entry(), also for arrays of 4 GiB and more. */
static inline struct tir_value att_far_entry(struct tir_builder *b, const char *arg,
                                             struct tir_value index, unsigned dtype)
{
    const struct tir_value at = tir_shl(b, att_wide(b, index), tir_i64(b, 2));
    return tir_scalar_load(b, att_at(b, arg, at), tir_i32(b, 0), dtype);
}

/** Returns an i1: true if argument `arg`, a pointer, is not NULL. */
static inline struct tir_value att_is_given(struct tir_builder *b, const char *arg)
{
    return tir_cmp_ne(b, tir_arg(b, arg, TIR_I64), tir_i64(b, 0));
}

/** Returns an i1: true if argument `arg`, a pointer, is NULL. */
static inline struct tir_value att_is_null(struct tir_builder *b, const char *arg)
{
    return tir_cmp_eq(b, tir_arg(b, arg, TIR_I64), tir_i64(b, 0));
}

/** Returns element `index` (i32) of the array of 32-bit elements in argument `arg`, or `otherwise`
 * if the argument is NULL. */
static inline struct tir_value att_entry_or(struct tir_builder *b, const char *arg,
                                            struct tir_value index, struct tir_value otherwise)
{
    struct tir_if given = tir_begin_if_like(b, att_is_given(b, arg), false, &otherwise, 1);
    struct tir_value entry = att_entry(b, arg, index, tir_typeof(b->f, otherwise).dtype);
    tir_else(b, &given, &entry);
    entry = otherwise;
    tir_end_if(b, &given, &entry);
    return entry;
}

/** Returns the f32 to which argument `arg` points, a scale of a whole tensor. */
static inline struct tir_value att_scale(struct tir_builder *b, const char *arg)
{
    return tir_scalar_load(b, tir_arg(b, arg, TIR_I64), tir_i32(b, 0), TIR_F32);
}

/**
 * Returns a view of `rows` (i32) rows of `row_bytes` bytes at address `base` (i64), `stride` (i32)
 * bytes apart. Its columns begin at byte `byte` of each row. Rows from `rows` on read as 0 and are
 * not written; with `rows` <= 0 that is so for all rows. All rows must span less than 4 GiB. A
 * caller with more rows passes only as many as its tile has. Otherwise the bound wraps and is too
 * small, which the interpreter of tile IR reports.
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

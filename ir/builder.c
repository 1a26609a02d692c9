/* SPDX-License-Identifier: Apache-2.0
 *
 * This file implements the builder. The type of a result follows from the op's row in ops.def. */
#include "ir/builder.h"

#include <assert.h>
#include <string.h>

static const struct tir_type no_type;

struct tir_builder tir_at_end(struct tir_func *f, struct tir_block *block)
{
    return (struct tir_builder){.f = f, .block = block, .at = TIR_AT_END, .stage = TIR_NO_STAGE};
}

/* Inserts `op` at the builder's position: at the end of the block, or before a given index. */
static void place(struct tir_builder *b, struct tir_ref op)
{
    if (b->at == TIR_AT_END)
        tir_append(b->f, b->block, op);
    else
        tir_insert(b->f, b->block, b->at++, op);
}

/* Creates an op at the builder's stage, phase and line. A NULL `imm` sets the attributes to 0. */
static struct tir_ref build_op(struct tir_builder *b, unsigned opcode,
                               const struct tir_value *operands, unsigned n,
                               const struct tir_type *result, const int64_t *imm)
{
    const struct tir_ref r = tir_create_op(b->f, opcode, operands, n, result, result ? 1 : 0);
    struct tir_op *const op = tir_op(b->f, r);
    op->stage = b->stage;
    op->phase = b->phase;
    op->line = b->line;
    for (unsigned i = 0; imm && i < tir_n_attrs(opcode); i++)
        op->imm[i] = imm[i];
    return r;
}

struct tir_value tir_build(struct tir_builder *b, unsigned opcode, struct tir_type given,
                           const struct tir_value *operands, unsigned n, const int64_t *imm)
{
    assert(opcode < TIR_N_OPCODES);
    const struct tir_op_info *const info = &tir_ops[opcode];
    assert(info->operands < 0 || (unsigned)info->operands == n);
    for (unsigned i = 0; i < n; i++)
        assert(operands[i].id && operands[i].id < b->f->n_values);
    struct tir_type t = given;
    if (info->result_rule == TIR_RESULT_SAME || info->result_rule == TIR_RESULT_PRED)
        t = tir_typeof(b->f, operands[info->result_operand]);
    if (info->result_rule == TIR_RESULT_PRED)
        t.dtype = TIR_I1;
    const bool has_result = info->result_rule != TIR_RESULT_NONE;
    const struct tir_ref r = build_op(b, opcode, operands, n, has_result ? &t : NULL, imm);
    place(b, r);
    return tir_op(b->f, r)->result;
}

struct tir_value tir_named(struct tir_builder *b, const char *name, struct tir_value v)
{
    tir_name(b->f, v, name);
    return v;
}

/* Asserts that both values have the same type. */
static void agree(const struct tir_builder *b, struct tir_value a, struct tir_value c)
{
    assert(tir_type_equal(tir_typeof(b->f, a), tir_typeof(b->f, c)));
    (void)b, (void)a, (void)c;
}

#define BUILD_none(name)
#define BUILD_one(name)                                                    \
    struct tir_value tir_##name(struct tir_builder *b, struct tir_value a) \
    {                                                                      \
        return tir_build(b, TIR_##name, no_type, &a, 1, NULL);             \
    }
#define BUILD_two(name)                                                                        \
    struct tir_value tir_##name(struct tir_builder *b, struct tir_value a, struct tir_value c) \
    {                                                                                          \
        agree(b, a, c);                                                                        \
        return tir_build(b, TIR_##name, no_type, (struct tir_value[]){a, c}, 2, NULL);         \
    }
#define BUILD_ternary(name, first)                                                             \
    struct tir_value tir_##name(struct tir_builder *b, struct tir_value a, struct tir_value c, \
                                struct tir_value d)                                            \
    {                                                                                          \
        agree(b, first, d);                                                                    \
        agree(b, c, d);                                                                        \
        return tir_build(b, TIR_##name, no_type, (struct tir_value[]){a, c, d}, 3, NULL);      \
    }
#define BUILD_three(name) BUILD_ternary(name, a)
#define BUILD_choice(name) BUILD_ternary(name, c)
#define OP(name, operands, result, level, flags, attrs, signature, builder, ...) \
    BUILD_##builder(name)
#include "ir/ops.def"
#undef OP

/* Creates an integer constant `v` of type `t`, the same in all elements. */
static struct tir_value int_of_type(struct tir_builder *b, struct tir_type t, int64_t v)
{
    return tir_build(b, TIR_const_int, t, NULL, 0, &v);
}

/* Creates a float constant `v` of type `t`, the same in all elements. The op holds f32 bits. */
static struct tir_value float_of_type(struct tir_builder *b, struct tir_type t, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return tir_build(b, TIR_const_float, t, NULL, 0, &(int64_t){bits});
}

struct tir_value tir_undef(struct tir_builder *b, struct tir_type t)
{
    return tir_build(b, TIR_undef, t, NULL, 0, NULL);
}

struct tir_value tir_i32(struct tir_builder *b, int32_t v)
{
    return int_of_type(b, tir_scalar(TIR_I32), v);
}

struct tir_value tir_i64(struct tir_builder *b, int64_t v)
{
    return int_of_type(b, tir_scalar(TIR_I64), v);
}

struct tir_value tir_f32(struct tir_builder *b, float v)
{
    return float_of_type(b, tir_scalar(TIR_F32), v);
}

struct tir_value tir_bool(struct tir_builder *b, bool v)
{
    return int_of_type(b, tir_scalar(TIR_I1), v);
}

struct tir_value tir_int_like(struct tir_builder *b, struct tir_value like, int64_t v)
{
    return int_of_type(b, tir_typeof(b->f, like), v);
}

struct tir_value tir_float_like(struct tir_builder *b, struct tir_value like, float v)
{
    return float_of_type(b, tir_typeof(b->f, like), v);
}

/* Converts `a` to `dtype` with `opcode`; returns `a` itself if it already has that dtype. */
static struct tir_value with_dtype(struct tir_builder *b, unsigned opcode, struct tir_value a,
                                   unsigned dtype)
{
    const struct tir_type t = tir_typeof(b->f, a);
    if (t.dtype == dtype)
        return a;
    return tir_build(b, opcode, tir_with_dtype(t, dtype), &a, 1, NULL);
}

struct tir_value tir_convert(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    return with_dtype(b, TIR_convert, a, dtype);
}

struct tir_value tir_convert_short(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    const struct tir_value v = tir_convert(b, a, dtype);
    tir_op(b->f, b->f->values[v.id].def)->imm[0] = 1;
    return v;
}

/* Like tir_convert_short(), with `rounding` instead of rounding to nearest even. */
static struct tir_value convert_rounded(struct tir_builder *b, struct tir_value a, unsigned dtype,
                                        enum tir_rounding rounding)
{
    const struct tir_value v = tir_convert_short(b, a, dtype);
    tir_op(b->f, b->f->values[v.id].def)->imm[2] = rounding;
    return v;
}

struct tir_value tir_convert_ties_any(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    return convert_rounded(b, a, dtype, TIR_TIES_ANY);
}

struct tir_value tir_convert_toward_zero(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    return convert_rounded(b, a, dtype, TIR_TOWARD_ZERO);
}

struct tir_value tir_convert_in_range(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    const struct tir_value v = tir_convert(b, a, dtype);
    tir_op(b->f, b->f->values[v.id].def)->imm[1] = 1;
    return v;
}

struct tir_value tir_zext(struct tir_builder *b, struct tir_value a, unsigned dtype)
{
    return with_dtype(b, TIR_zext, a, dtype);
}

struct tir_value tir_bitcast(struct tir_builder *b, struct tir_value a, struct tir_type t)
{
    return tir_build(b, TIR_bitcast, t, &a, 1, NULL);
}

struct tir_value tir_words(struct tir_builder *b, struct tir_value bytes)
{
    enum { LOG = 2 /* log2 of the bytes of a word */ };
    const struct tir_type t = tir_typeof(b->f, bytes);
    const struct tir_layout l = tir_layout_join_cols(tir_layout_of(b->f, t), LOG);
    return tir_bitcast(b, bytes, tir_tile(b->f, TIR_I32, t.rows, t.cols >> LOG, &l));
}

struct tir_value tir_arg(struct tir_builder *b, const char *name, unsigned dtype)
{
    const unsigned index = tir_add_arg(b->f, name, dtype);
    return tir_named(b, name, tir_build(b, TIR_arg, tir_scalar(dtype), NULL, 0, &(int64_t){index}));
}

struct tir_value tir_block_id(struct tir_builder *b, unsigned dim)
{
    assert(dim < 3);
    return tir_build(b, TIR_block_id, tir_scalar(TIR_I32), NULL, 0, &(int64_t){dim});
}

struct tir_value tir_wave_id(struct tir_builder *b)
{
    return tir_build(b, TIR_wave_id, tir_scalar(TIR_I32), NULL, 0, NULL);
}

struct tir_value tir_lane_id(struct tir_builder *b)
{
    return tir_build(b, TIR_lane_id, tir_vec(TIR_I32, 1), NULL, 0, NULL);
}

struct tir_value tir_lds_buffer(struct tir_builder *b, unsigned bytes, unsigned align)
{
    const unsigned to = align > 16 ? align : 16;
    const unsigned offset = (b->f->lds_bytes + to - 1) / to * to;
    b->f->lds_bytes = offset + bytes;
    return tir_build(b, TIR_lds_base, tir_scalar(TIR_I32), NULL, 0, &(int64_t){offset});
}

struct tir_value tir_splat(struct tir_builder *b, struct tir_value scalar, struct tir_type t)
{
    t.dtype = tir_typeof(b->f, scalar).dtype;
    return tir_build(b, TIR_splat, t, &scalar, 1, NULL);
}

struct tir_value tir_row_index(struct tir_builder *b, struct tir_type t)
{
    t.dtype = TIR_I32;
    return tir_build(b, TIR_row_index, t, NULL, 0, NULL);
}

struct tir_value tir_col_index(struct tir_builder *b, struct tir_type t)
{
    t.dtype = TIR_I32;
    return tir_build(b, TIR_col_index, t, NULL, 0, NULL);
}

struct tir_value tir_broadcast(struct tir_builder *b, struct tir_value a, struct tir_type t)
{
    t.dtype = tir_typeof(b->f, a).dtype;
    return tir_build(b, TIR_broadcast, t, &a, 1, NULL);
}

/* Reduces rows (axis 1) to a column vector Mx1, or columns (axis 0) to a row vector 1xN. */
static struct tir_value reduce(struct tir_builder *b, unsigned opcode, struct tir_value a, int axis)
{
    struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), axis);
    t = tir_tile(b->f, t.dtype, axis ? t.rows : 1, axis ? 1 : t.cols, &l);
    return tir_build(b, opcode, t, &a, 1, NULL);
}

struct tir_value tir_row_max(struct tir_builder *b, struct tir_value a)
{
    return reduce(b, TIR_row_max, a, 1);
}

struct tir_value tir_row_sum(struct tir_builder *b, struct tir_value a)
{
    return reduce(b, TIR_row_sum, a, 1);
}

struct tir_value tir_row_dot(struct tir_builder *b, struct tir_value a, struct tir_value c)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_type d = tir_tile(b->f, t.dtype, t.rows, 1, &l);
    return tir_build(b, TIR_row_dot, d, (struct tir_value[]){a, c}, 2, NULL);
}

struct tir_value tir_col_max(struct tir_builder *b, struct tir_value a)
{
    return reduce(b, TIR_col_max, a, 0);
}

struct tir_value tir_col_sum(struct tir_builder *b, struct tir_value a)
{
    return reduce(b, TIR_col_sum, a, 0);
}

/* Folds the rows that a lane holds in registers, by `opcode`. The result has fewer rows. */
static struct tir_value fold(struct tir_builder *b, unsigned opcode, struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    unsigned rows;
    const struct tir_layout l = tir_layout_fold_rows(tir_layout_of(b->f, t), &rows);
    return tir_build(b, opcode, tir_tile(b->f, t.dtype, rows, t.cols, &l), &a, 1, NULL);
}

struct tir_value tir_col_fold_max(struct tir_builder *b, struct tir_value a)
{
    return fold(b, TIR_col_fold_max, a);
}

struct tir_value tir_col_fold_sum(struct tir_builder *b, struct tir_value a)
{
    return fold(b, TIR_col_fold_sum, a);
}

struct tir_value tir_col_fold_dot(struct tir_builder *b, struct tir_value a, struct tir_value c)
{
    return tir_build(b, TIR_col_fold_dot, no_type, (struct tir_value[]){a, c}, 2, NULL);
}

struct tir_value tir_col_fold_top(struct tir_builder *b, struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    unsigned rows;
    const struct tir_layout l = tir_layout_fold_rows(tir_layout_of(b->f, t), &rows);
    return tir_build(b, TIR_col_fold_top, tir_tile(b->f, TIR_I32, rows, t.cols, &l), &a, 1, NULL);
}

struct tir_value tir_any_above(struct tir_builder *b, struct tir_value top, struct tir_value limit)
{
    const struct tir_value low = tir_convert(b, top, TIR_I16);
    return tir_or(b, tir_any(b, tir_cmp_ult(b, limit, top)),
                  tir_any(b, tir_cmp_ult(b, tir_convert(b, limit, TIR_I16), low)));
}

struct tir_value tir_relayout(struct tir_builder *b, struct tir_value a,
                              const struct tir_layout *to)
{
    struct tir_type t = tir_typeof(b->f, a);
    const uint32_t layout = tir_intern_layout(b->f, to);
    if (t.layout == layout)
        return a;
    t.layout = layout;
    return tir_build(b, TIR_relayout, t, &a, 1, NULL);
}

struct tir_value tir_transpose(struct tir_builder *b, struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, t));
    return tir_build(b, TIR_transpose, tir_tile(b->f, t.dtype, t.cols, t.rows, &l), &a, 1, NULL);
}

struct tir_value tir_stack(struct tir_builder *b, struct tir_value a, struct tir_value c)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_stack(tir_layout_of(b->f, t), t.rows);
    return tir_build(b, TIR_stack, tir_tile(b->f, t.dtype, 2 * t.rows, t.cols, &l),
                     (struct tir_value[]){a, c}, 2, NULL);
}

struct tir_value tir_half(struct tir_builder *b, struct tir_value a, int which)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_half(tir_layout_of(b->f, t));
    return tir_build(b, TIR_half, tir_tile(b->f, t.dtype, t.rows / 2, t.cols, &l), &a, 1,
                     (const int64_t[]){which});
}

struct tir_value tir_col_flip(struct tir_builder *b, struct tir_value a, unsigned cols)
{
    return tir_build(b, TIR_col_flip, tir_typeof(b->f, a), &a, 1, (const int64_t[]){cols});
}

struct tir_value tir_join_blocks(struct tir_builder *b, struct tir_value a, unsigned rows)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_join_blocks(tir_layout_of(b->f, t), rows, t.cols);
    const struct tir_type d = tir_tile(b->f, t.dtype, rows, t.rows / rows * t.cols, &l);
    return tir_build(b, TIR_join_blocks, d, &a, 1, NULL);
}

struct tir_value tir_split_blocks(struct tir_builder *b, struct tir_value a, unsigned width)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_layout l = tir_layout_split_blocks(tir_layout_of(b->f, t), t.rows, width);
    const struct tir_type d = tir_tile(b->f, t.dtype, t.cols / width * t.rows, width, &l);
    return tir_build(b, TIR_split_blocks, d, &a, 1, NULL);
}

struct tir_value tir_tile_load(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                               struct tir_type t)
{
    const struct tir_value operands[] = {v.rsrc, row0, v.row_stride, v.byte};
    return tir_build(b, TIR_tile_load, t, operands, 4, NULL);
}

void tir_tile_store(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                    struct tir_value a)
{
    const struct tir_value operands[] = {v.rsrc, row0, v.row_stride, v.byte, a};
    tir_build(b, TIR_tile_store, no_type, operands, 5, NULL);
}

struct tir_value tir_tile_fetch(struct tir_builder *b, struct tir_value rsrc,
                                struct tir_value row_addr, unsigned offset, struct tir_type t)
{
    return tir_build(b, TIR_tile_fetch, t, (struct tir_value[]){rsrc, row_addr}, 2,
                     &(int64_t){offset});
}

struct tir_value tir_tile_gather(struct tir_builder *b, struct tir_value base,
                                 struct tir_value row_addr, struct tir_value byte,
                                 struct tir_type t)
{
    const struct tir_value operands[] = {base, row_addr, byte};
    return tir_build(b, TIR_tile_gather, t, operands, 3, (int64_t[]){0, 0});
}

struct tir_value tir_tile_gather_constant(struct tir_builder *b, struct tir_value base,
                                          struct tir_value row_addr, struct tir_type t)
{
    const struct tir_value operands[] = {base, row_addr, tir_i32(b, 0)};
    return tir_build(b, TIR_tile_gather, t, operands, 3, (int64_t[]){0, 1});
}

void tir_tile_scatter(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                      struct tir_value byte, struct tir_value a)
{
    tir_tile_scatter_apart(b, base, row_addr, byte, 0, a);
}

void tir_tile_scatter_apart(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                            struct tir_value byte, unsigned apart, struct tir_value a)
{
    const struct tir_value operands[] = {base, row_addr, byte, a};
    tir_build(b, TIR_tile_scatter, no_type, operands, 4, &(int64_t){apart});
}

void tir_copy_to_lds(struct tir_builder *b, int group, struct tir_view v, struct tir_value row0,
                     struct tir_value lds, struct tir_type t, const struct tir_layout *address_map)
{
    const struct tir_value operands[] = {v.rsrc, row0, v.row_stride, v.byte, lds};
    const int64_t imm[] = {group, tir_pack_type(t), tir_intern_layout(b->f, address_map)};
    tir_build(b, TIR_copy_to_lds, no_type, operands, 5, imm);
}

void tir_gather_to_lds(struct tir_builder *b, int group, struct tir_value base,
                       struct tir_value row_addr, struct tir_value byte, struct tir_value lds,
                       unsigned offset, struct tir_type t, const struct tir_layout *address_map)
{
    const struct tir_value operands[] = {base, row_addr, byte, lds};
    const int64_t imm[] = {group, tir_pack_type(t), tir_intern_layout(b->f, address_map), offset,
                           0};
    tir_build(b, TIR_gather_to_lds, no_type, operands, 4, imm);
}

void tir_gather_both_to_lds(struct tir_builder *b, int group, struct tir_value row_addr,
                            struct tir_value lds, unsigned offset, unsigned both, struct tir_type t,
                            const struct tir_layout *address_map)
{
    const struct tir_value operands[] = {tir_i64(b, 0), row_addr, tir_i32(b, 0), lds};
    const int64_t imm[] = {group, tir_pack_type(t), tir_intern_layout(b->f, address_map), offset,
                           both};
    tir_build(b, TIR_gather_to_lds, no_type, operands, 4, imm);
}

struct tir_value tir_tile_lds_load(struct tir_builder *b, struct tir_value lds, struct tir_type t,
                                   const struct tir_layout *address_map)
{
    return tir_tile_lds_load_first(b, lds, t, address_map, 0);
}

struct tir_value tir_tile_lds_load_first(struct tir_builder *b, struct tir_value lds,
                                         struct tir_type t, const struct tir_layout *address_map,
                                         unsigned columns)
{
    const int64_t imm[] = {tir_intern_layout(b->f, address_map), columns, 0};
    return tir_build(b, TIR_tile_lds_load, t, &lds, 1, imm);
}

struct tir_value tir_tile_lds_load_from(struct tir_builder *b, struct tir_value lds,
                                        struct tir_type t, const struct tir_layout *address_map,
                                        unsigned first)
{
    const int64_t imm[] = {tir_intern_layout(b->f, address_map), 0, first};
    return tir_build(b, TIR_tile_lds_load, t, &lds, 1, imm);
}

void tir_tile_lds_store(struct tir_builder *b, struct tir_value lds, struct tir_value a,
                        const struct tir_layout *address_map)
{
    const int64_t imm[] = {tir_intern_layout(b->f, address_map)};
    tir_build(b, TIR_tile_lds_store, no_type, (struct tir_value[]){lds, a}, 2, imm);
}

struct tir_value tir_call_hook(struct tir_builder *b, const char *hook,
                               const struct tir_value *operands, unsigned n)
{
    assert(n > 0);
    return tir_build(b, TIR_call_hook, tir_typeof(b->f, operands[0]), operands, n,
                     &(int64_t){tir_hook(b->f, hook)});
}

struct tir_value tir_make_rsrc(struct tir_builder *b, struct tir_value base, struct tir_value bytes)
{
    return tir_build(b, TIR_make_rsrc, tir_scalar(TIR_RSRC), (struct tir_value[]){base, bytes}, 2,
                     NULL);
}

struct tir_value tir_scalar_load(struct tir_builder *b, struct tir_value base,
                                 struct tir_value offset, unsigned dtype)
{
    return tir_build(b, TIR_scalar_load, tir_scalar(dtype), (struct tir_value[]){base, offset}, 2,
                     (int64_t[]){0, 0});
}

struct tir_value tir_any(struct tir_builder *b, struct tir_value a)
{
    return tir_build(b, TIR_any, tir_scalar(TIR_I1), &a, 1, NULL);
}

struct tir_value tir_first_lane(struct tir_builder *b, struct tir_value a)
{
    return tir_build(b, TIR_first_lane, tir_scalar(tir_typeof(b->f, a).dtype), &a, 1, NULL);
}

struct tir_value tir_lane_count(struct tir_builder *b, struct tir_value a)
{
    return tir_build(b, TIR_lane_count, tir_scalar(TIR_I32), &a, 1, NULL);
}

struct tir_value tir_lane_mask(struct tir_builder *b, struct tir_value a)
{
    return tir_build(b, TIR_lane_mask, tir_scalar(TIR_I64), &a, 1, NULL);
}

struct tir_value tir_lane_read(struct tir_builder *b, struct tir_value a, struct tir_value lane)
{
    return tir_build(b, TIR_lane_read, tir_scalar(tir_typeof(b->f, a).dtype),
                     (struct tir_value[]){a, lane}, 2, NULL);
}

/* Returns the type of `like` with its elements' type replaced by `dtype`. */
static struct tir_type like_but(struct tir_builder *b, struct tir_value like, unsigned dtype)
{
    return tir_with_dtype(tir_typeof(b->f, like), dtype);
}

struct tir_value tir_unit_pair(struct tir_builder *b, struct tir_value a, struct tir_value c)
{
    return tir_build(b, TIR_unit_pair, like_but(b, a, TIR_I32), (struct tir_value[]){a, c}, 2,
                     NULL);
}

struct tir_value tir_dot2(struct tir_builder *b, struct tir_value a, struct tir_value c,
                          struct tir_value sum)
{
    return tir_build(b, TIR_dot2, no_type, (struct tir_value[]){a, c, sum}, 3, NULL);
}

struct tir_value tir_lanes_below(struct tir_builder *b, struct tir_value a)
{
    return tir_build(b, TIR_lanes_below, like_but(b, a, TIR_I32), &a, 1, NULL);
}

struct tir_value tir_lds_gather(struct tir_builder *b, struct tir_value address, unsigned dtype)
{
    return tir_build(b, TIR_lds_gather, like_but(b, address, dtype), &address, 1, &(int64_t){0});
}

void tir_lds_scatter_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                        struct tir_value a)
{
    tir_build(b, TIR_lds_scatter_if, no_type, (struct tir_value[]){mask, address, a}, 3,
              &(int64_t){0});
}

void tir_lds_add_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                    struct tir_value a)
{
    tir_build(b, TIR_lds_add_if, no_type, (struct tir_value[]){mask, address, a}, 3, &(int64_t){0});
}

void tir_wait(struct tir_builder *b, int group, int pending)
{
    tir_build(b, TIR_wait, no_type, NULL, 0, (int64_t[]){group, pending});
}

void tir_wait_memory(struct tir_builder *b)
{
    tir_build(b, TIR_waitcnt, no_type, NULL, 0, (int64_t[]){0, -1});
}

void tir_settle(struct tir_builder *b, int states)
{
    tir_build(b, TIR_settle, no_type, NULL, 0, (int64_t[]){states});
}

void tir_barrier(struct tir_builder *b) { tir_build(b, TIR_barrier, no_type, NULL, 0, NULL); }

void tir_barrier_signal(struct tir_builder *b)
{
    tir_build(b, TIR_barrier_signal, no_type, NULL, 0, NULL);
}

void tir_barrier_wait(struct tir_builder *b)
{
    tir_build(b, TIR_barrier_wait, no_type, NULL, 0, NULL);
}

struct tir_value tir_arrive(struct tir_builder *b, struct tir_value address, struct tir_value n)
{
    return tir_build(b, TIR_arrive, tir_scalar(TIR_I32), (struct tir_value[]){address, n}, 2, NULL);
}

struct tir_value tir_atomic_add(struct tir_builder *b, struct tir_value address, struct tir_value n,
                                bool release)
{
    return tir_build(b, TIR_atomic_add, tir_scalar(TIR_I32), (struct tir_value[]){address, n}, 2,
                     &(int64_t){release});
}

struct tir_value tir_await(struct tir_builder *b, struct tir_value address, struct tir_value n,
                           unsigned polls, unsigned sleep)
{
    return tir_build(b, TIR_await, tir_scalar(TIR_I32), (struct tir_value[]){address, n}, 2,
                     (int64_t[]){polls, sleep});
}

void tir_acquire(struct tir_builder *b) { tir_build(b, TIR_acquire, no_type, NULL, 0, NULL); }

void tir_align_code(struct tir_builder *b, unsigned words, unsigned of)
{
    tir_build(b, TIR_align_code, no_type, NULL, 0, (int64_t[]){words, of});
}

void tir_only_copies(struct tir_builder *b, struct tir_value cond)
{
    tir_build(b, TIR_only_copies, no_type, &cond, 1, NULL);
}

void tir_set_priority(struct tir_builder *b, int level)
{
    tir_build(b, TIR_set_priority, no_type, NULL, 0, &(int64_t){level});
}

void tir_anchor(struct tir_builder *b, struct tir_value a) { tir_anchor_all(b, &a, 1); }

void tir_anchor_all(struct tir_builder *b, const struct tir_value *values, unsigned n)
{
    tir_build(b, TIR_anchor, no_type, values, n, NULL);
}

void tir_phase(struct tir_builder *b, int kind)
{
    tir_build(b, TIR_phase, no_type, NULL, 0, &(int64_t){kind});
}

/* Ends the current block of a loop or an if with a yield of `n` values. */
static void yield(struct tir_builder *b, const struct tir_value *values, unsigned n)
{
    place(b, build_op(b, TIR_yield, values, n, NULL, NULL));
}

struct tir_loop tir_begin_for(struct tir_builder *b, struct tir_value first, struct tir_value bound,
                              struct tir_value step, struct tir_value *carried, unsigned n)
{
    agree(b, first, bound);
    agree(b, first, step);
    struct tir_loop loop = {.outer = *b};
    loop.op = build_op(b, TIR_for, (struct tir_value[]){first, bound, step}, 3, NULL, NULL);
    tir_add_operands(b->f, loop.op, carried, n);
    place(&loop.outer, loop.op);
    struct tir_block *const body = tir_create_block(b->f, b->block, loop.op);
    tir_op(b->f, loop.op)->blocks[0] = body;
    loop.index = tir_add_param(b->f, body, tir_typeof(b->f, first));
    for (unsigned i = 0; i < n; i++) {
        const struct tir_type t = tir_typeof(b->f, carried[i]);
        const char *const name = b->f->values[carried[i].id].name;
        carried[i] = tir_add_param(b->f, body, t);
        b->f->values[carried[i].id].name = name;
    }
    b->block = body;
    b->at = TIR_AT_END;
    return loop;
}

void tir_end_for(struct tir_builder *b, struct tir_loop *loop, struct tir_value *carried,
                 unsigned n)
{
    yield(b, carried, n);
    for (unsigned i = 0; i < n; i++)
        carried[i] = tir_add_result(b->f, loop->op, tir_typeof(b->f, carried[i]));
    *b = loop->outer;
}

struct tir_if tir_begin_if(struct tir_builder *b, struct tir_value cond, bool cold,
                           const struct tir_type *results, unsigned n)
{
    struct tir_if s = {.outer = *b, .n = n};
    s.op = tir_create_op(b->f, TIR_if, &cond, 1, results, n);
    struct tir_op *const op = tir_op(b->f, s.op);
    op->stage = b->stage;
    op->phase = b->phase;
    op->line = b->line;
    op->imm[0] = cold;
    place(&s.outer, s.op);
    op->blocks[0] = tir_create_block(b->f, b->block, s.op);
    op->blocks[1] = tir_create_block(b->f, b->block, s.op);
    b->block = op->blocks[0];
    b->at = TIR_AT_END;
    return s;
}

struct tir_if tir_begin_if_like(struct tir_builder *b, struct tir_value cond, bool cold,
                                const struct tir_value *like, unsigned n)
{
    struct tir_type types[TIR_MOST_LIKE];
    assert(n <= TIR_MOST_LIKE);
    for (unsigned i = 0; i < n; i++)
        types[i] = tir_typeof(b->f, like[i]);
    return tir_begin_if(b, cond, cold, types, n);
}

struct tir_if tir_begin_bare_if(struct tir_builder *b, struct tir_value cond,
                                const struct tir_type *results, unsigned n)
{
    const struct tir_if s = tir_begin_if(b, cond, true, results, n);
    tir_op(b->f, s.op)->imm[1] = true;
    return s;
}

void tir_else(struct tir_builder *b, struct tir_if *s, const struct tir_value *values)
{
    yield(b, values, s->n);
    b->block = tir_op(b->f, s->op)->blocks[1];
    b->at = TIR_AT_END;
}

void tir_end_if(struct tir_builder *b, struct tir_if *s, struct tir_value *values)
{
    struct tir_op *const op = tir_op(b->f, s->op);
    if (b->block == op->blocks[0]) {
        assert(s->n == 0 && "an if with results has an else");
        tir_else(b, s, NULL);
    }
    assert(b->block == op->blocks[1]);
    yield(b, values, s->n);
    *b = s->outer;
    for (unsigned i = 0; i < s->n; i++)
        values[i] = tir_result(op, i);
}

void tir_return(struct tir_builder *b) { tir_build(b, TIR_return, no_type, NULL, 0, NULL); }

/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/sequence.h"

#include "ir/spread.h"

enum { INT = 4 };

/* Returns byte `index` (i32) of argument has_state as an i32 scalar, or 1 if the argument is
 * NULL. */
static struct tir_value flag_or_set(struct tir_builder *b, struct tir_value index)
{
    const struct tir_type t = tir_scalar(TIR_I32);
    const struct tir_layout one = tir_spread_one(b->f->machine);
    struct tir_if given = tir_begin_if(b, att_is_given(b, ARG_HAS_STATE), false, &t, 1);
    const struct tir_value base = att_at(b, ARG_HAS_STATE, att_wide(b, index));
    const struct tir_view view = att_view(b, base, tir_i32(b, 1), tir_i32(b, 0), 1, 0);
    const struct tir_value byte =
        tir_tile_load(b, view, tir_i32(b, 0), tir_tile(b->f, TIR_I8, 1, 1, &one));
    struct tir_value flag = tir_first_lane(b, tir_convert(b, byte, TIR_I32));
    tir_else(b, &given, &flag);
    flag = tir_i32(b, 1);
    tir_end_if(b, &given, &flag);
    return flag;
}

/* Sets s's first token, end and count from cu_seqlens, or from max_seqlen tokens for every sequence
 * if cu_seqlens is NULL. */
static void read_tokens(struct tir_builder *b, struct att_sequence *s)
{
    const struct tir_value most = tir_arg(b, ARG_MAX_SEQLEN, TIR_I32);
    const struct tir_value uniform = tir_mul(b, s->index, most);
    s->start = att_entry_or(b, ARG_CU_SEQLENS, s->index, uniform);
    s->end = att_entry_or(b, ARG_CU_SEQLENS, att_plus(b, s->index, 1), tir_add(b, uniform, most));
    s->count = tir_sub(b, s->end, s->start);
}

/* Sets s->has_state from the sequence's byte of the argument has_state. */
static void read_has_state(struct tir_builder *b, struct att_sequence *s)
{
    s->has_state = tir_cmp_ne(b, flag_or_set(b, s->index), tir_i32(b, 0));
}

struct att_sequence att_sequence(struct tir_builder *b, struct tir_value index)
{
    struct att_sequence s = {.index = index, .verifies = att_is_given(b, ARG_ACCEPTED)};
    read_tokens(b, &s);
    s.accepted = att_accepted(b, index);
    read_has_state(b, &s);
    return s;
}

struct att_sequence att_sequence_tokens(struct tir_builder *b, struct tir_value index)
{
    struct att_sequence s = {.index = index};
    read_tokens(b, &s);
    return s;
}

struct att_sequence att_sequence_of_prompt(struct tir_builder *b, struct tir_value index)
{
    struct att_sequence s = att_sequence_tokens(b, index);
    read_has_state(b, &s);
    return s;
}

struct tir_value att_accepted(struct tir_builder *b, struct tir_value index)
{
    const struct tir_value zero = tir_i32(b, 0);
    return tir_max(b, att_plus(b, att_entry_or(b, ARG_ACCEPTED, index, zero), -1), zero);
}

struct tir_value att_matrix_entry(struct tir_builder *b, const char *arg, const char *row_stride,
                                  struct tir_value row, const char *column_stride,
                                  struct tir_value column)
{
    const struct tir_value at =
        tir_add(b, tir_mul(b, att_wide(b, row), att_stride(b, row_stride, INT)),
                tir_mul(b, att_wide(b, column), att_stride(b, column_stride, INT)));
    return tir_scalar_load(b, att_at(b, arg, at), tir_i32(b, 0), TIR_I32);
}

struct tir_value att_strided_entry(struct tir_builder *b, const char *arg, const char *stride,
                                   struct tir_value index)
{
    const struct tir_value at = tir_mul(b, att_wide(b, index), att_stride(b, stride, INT));
    return tir_scalar_load(b, att_at(b, arg, at), tir_i32(b, 0), TIR_I32);
}

struct tir_value att_parent(struct tir_builder *b, const struct att_sequence *s,
                            struct tir_value token)
{
    const struct tir_value given = att_entry(b, ARG_PARENTS, token, TIR_I32);
    const struct tir_value before = att_plus(b, tir_sub(b, token, s->start), -1);
    return tir_max(b, tir_min(b, given, before), tir_i32(b, 0));
}

struct tir_value att_is_slot(struct tir_builder *b, struct tir_value slot)
{
    return tir_cmp_ge(b, slot, tir_arg(b, ARG_FIRST_SLOT, TIR_I32));
}

struct tir_value att_value_head_row(struct tir_builder *b, const char *arg, struct tir_value row,
                                    struct tir_value head, int bytes)
{
    const struct tir_value heads = att_wide(b, tir_arg(b, ARG_VALUE_HEADS, TIR_I32));
    const struct tir_value number =
        tir_add(b, tir_mul(b, att_wide(b, row), heads), att_wide(b, head));
    return att_at(b, arg, tir_mul(b, number, tir_i64(b, bytes)));
}

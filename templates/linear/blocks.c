/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/blocks.h"

/* bytes of a slot's number; log2 of a unit of tokens; bits after the binary point of a number of
 * blocks */
enum { INT = 4, UNIT_BITS = 5 /* callers pass multiples of 32 tokens */, FRACTION_BITS = 38 };

struct tir_value att_block_row(struct tir_builder *b, const struct att_sequence *s)
{
    const struct tir_value row =
        tir_mul(b, att_wide(b, s->index), att_stride(b, ARG_BLOCK_SLOTS_SEQUENCE_STRIDE, INT));
    return att_at(b, ARG_BLOCK_SLOTS, row);
}

/* Returns the number of blocks of a prefix cache that the tokens up to `after` (i32) fill, times
 * 2^FRACTION_BITS (i64). The error is less than the argument block_inverse, within the schema's
 * limits of block_tokens and max_seqlen. block_inverse is 0 in a call that keeps no states of
 * blocks, and the result is then 0. */
static struct tir_value blocks_of(struct tir_builder *b, const struct att_sequence *s,
                                  struct tir_value after)
{
    const struct tir_value tokens = tir_sub(b, after, s->start);
    const struct tir_value units = att_wide(b, tir_shr(b, tokens, tir_i32(b, UNIT_BITS)));
    return tir_mul(b, units, tir_arg(b, ARG_BLOCK_INVERSE, TIR_I64));
}

struct att_block_end att_begin_block_end(struct tir_builder *b, const struct att_sequence *s,
                                         struct tir_value row, struct tir_value after)
{
    struct att_block_end e;
    const struct tir_value inverse = tir_arg(b, ARG_BLOCK_INVERSE, TIR_I64);
    e.within = att_begin_if(b, tir_cmp_le(b, after, s->end));
    const struct tir_value blocks = blocks_of(b, s, after);
    const struct tir_value mask = tir_i64(b, (INT64_C(1) << FRACTION_BITS) - 1);
    e.ends = att_begin_if(b, tir_cmp_lt(b, tir_and(b, blocks, mask), inverse));
    const struct tir_value whole =
        tir_convert(b, tir_shr(b, blocks, tir_i64(b, FRACTION_BITS)), TIR_I32);
    const struct tir_value at =
        tir_mul(b, att_plus(b, whole, -1), att_stride32(b, ARG_BLOCK_SLOTS_BLOCK_STRIDE, INT));
    e.slot = tir_scalar_load(b, row, at, TIR_I32);
    e.kept = att_begin_if(b, att_is_slot(b, e.slot));
    return e;
}

void att_finish_block_end(struct tir_builder *b, struct att_block_end *e)
{
    tir_end_if(b, &e->kept, NULL);
    tir_end_if(b, &e->ends, NULL);
    tir_end_if(b, &e->within, NULL);
}

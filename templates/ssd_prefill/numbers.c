/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes the f32 numbers of tokens in ssd_prefill (enum ssd_number): time steps, sums
 * of g over a chunk, and their powers. Each wave makes the numbers of one chunk of a group, since
 * all waves would wait for a wave that makes all.
 */
#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/linear/gates.h"
#include "templates/ssd_prefill/ssd_prefill.h"

enum { CHUNK_BYTES = SSD_NUMBERS * ATT_CHUNK * SSD_FLOAT }; /* bytes of LDS of a chunk's numbers */

unsigned ssd_numbers_bytes(unsigned waves) { return waves * CHUNK_BYTES; }

/* Returns the row in the batch (i32) of the first token of this wave's chunk. The group of chunks
 * begins at token `group` (i32). */
static struct tir_value own_token(struct ssd_prefill *s, struct tir_value group)
{
    struct tir_builder *b = &s->b;
    return tir_add(b, group, att_times(b, tir_wave_id(b), ATT_CHUNK));
}

struct tir_value ssd_load_steps(struct ssd_prefill *s, struct tir_value group)
{
    struct tir_builder *b = &s->b;
    const struct tir_value token = own_token(s, group), left = tir_sub(b, s->end, token);
    if (!ssd_has_steps(s))
        return tir_i32(b, 0);
    const struct tir_view view =
        att_chunk_numbers(b, ATT_TOKENS(DT), token, left, s->value_head, SSD_ELEM);
    return tir_tile_load(b, view, tir_i32(b, 0), att_chunk_numbers_type(b, s->dtype));
}

/* Returns w, the time steps of a chunk's 64 tokens (64 x 1, f32), from `raw`, the tokens' dt as
 * loaded. */
static struct tir_value steps_of(struct ssd_prefill *s, struct tir_value raw)
{
    struct tir_builder *b = &s->b;
    if (!ssd_has_steps(s))
        return tir_splat(b, tir_f32(b, 1), att_chunk_numbers_type(b, TIR_F32));
    return att_time_step(b, s->v, raw, tir_splat(b, s->bias, att_chunk_numbers_type(b, TIR_F32)));
}

/* Returns `a` with 0 in rows from `left` (i32) on, for which the sequence has no token. */
static struct tir_value clear_rows(struct tir_builder *b, struct tir_value a, struct tir_value left)
{
    struct tir_type t = tir_typeof(b->f, a);
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t);
    return tir_select(b, tir_cmp_lt(b, row, tir_splat(b, left, t)), a, tir_float_like(b, a, 0));
}

/* Stores `a`, a number for each of a chunk's 64 tokens, in LDS. `which`: kind of the numbers.
 * `chunk` (i32): LDS address of all numbers of the chunk. */
static void store_numbers(struct tir_builder *b, struct tir_value chunk, enum ssd_number which,
                          struct tir_value a)
{
    const struct tir_layout map = tir_row_major(1, ATT_CHUNK);
    tir_tile_lds_store(b, att_plus(b, chunk, (int)which * ATT_CHUNK * SSD_FLOAT), a, &map);
}

void ssd_make_numbers(struct ssd_prefill *s, struct tir_value group, struct tir_value raw)
{
    enum { LEAST = -150 };
    struct tir_builder *b = &s->b;
    const struct tir_value left = tir_sub(b, s->end, own_token(s, group));
    const struct tir_value chunk =
        tir_add(b, s->numbers, att_times(b, tir_wave_id(b), CHUNK_BYTES));
    const struct tir_value w = tir_transpose(b, clear_rows(b, steps_of(s, raw), left));
    const struct tir_type t = tir_typeof(b->f, w);
    const struct tir_value g = tir_mul(b, w, tir_splat(b, s->rate, t));
    const struct tir_value sums = tir_row_prefix_sum(b, tir_max(b, g, tir_float_like(b, g, LEAST)));
    const struct tir_value all = att_chunk_last(b, tir_transpose(b, sums));
    const struct tir_value after = tir_exp2(b, tir_sub(b, tir_splat(b, all, t), sums));
    store_numbers(b, chunk, SSD_SUMS, sums);
    store_numbers(b, chunk, SSD_WEIGHTS, w);
    store_numbers(b, chunk, SSD_GROWN, tir_exp2(b, sums));
    store_numbers(b, chunk, SSD_LEFT, tir_mul(b, after, w));
}

struct tir_value ssd_spread_numbers(struct ssd_prefill *s, enum ssd_number which,
                                    struct tir_type over, int axis)
{
    struct tir_builder *b = &s->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, over), axis);
    const struct tir_layout map = axis ? tir_row_major(ATT_CHUNK, 1) : tir_row_major(1, ATT_CHUNK);
    const struct tir_type t = axis ? tir_tile(b->f, TIR_F32, ATT_CHUNK, 1, &l)
                                   : tir_tile(b->f, TIR_F32, 1, ATT_CHUNK, &l);
    const struct tir_value at = att_plus(b, s->chunk_numbers, (int)which * ATT_CHUNK * SSD_FLOAT);
    over.dtype = TIR_F32;
    return tir_broadcast(b, tir_tile_lds_load(b, at, t, &map), over);
}

struct tir_value ssd_sum_of_chunk(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_layout one = tir_spread_one(b->f->machine), map = tir_row_major(1, 1);
    const int last = (SSD_SUMS * ATT_CHUNK + ATT_CHUNK - 1) * SSD_FLOAT;
    const struct tir_type t = tir_tile(b->f, TIR_F32, 1, 1, &one);
    return tir_first_lane(b, tir_tile_lds_load(b, att_plus(b, s->chunk_numbers, last), t, &map));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the kernel of op compress. One wave, or all waves of a workgroup together,
 * make the row of one group of tokens. pool.c computes the weighted sum of the tokens. row.c
 * normalises, rotates and stores it.
 */
#ifndef TEMPLATES_COMPRESS_COMPRESS_H
#define TEMPLATES_COMPRESS_COMPRESS_H

#include "templates/template.h"
#include "templates/workgroup/scalar.h"

/** Names of the arguments of two tensors: one has a row for each token of the call, the other has
 * rings of earlier tokens. */
struct compress_source {
    /* Names of arguments: address of [tokens, columns]; distance of two rows in elements. */
    const char *rows, *rows_stride;
    /* Names of arguments: address of [slots, ring rows, columns]; distances in elements of two
     * slots, and of two rows of a ring. */
    const char *ring, *slot_stride, *ring_stride;
};
/* The sources of x and of its scores. */
extern const struct compress_source compress_x, compress_scores;

/** The kernel under construction: its builder, sizes, and values that several functions use. */
struct compress {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    struct att_tile tile; /* row of the tile table for the variant */
    /* true: the waves of a workgroup share a group; false: each wave has a group of its own */
    bool shared;
    struct tir_value lds; /* i32: LDS address of the waves' partial sums; set if `shared` */
    int size;             /* bytes of an element of x */
    /* type of a row of the pool: f32, 1 x head_dim; a lane has adjacent elements of the row */
    struct tir_type row;
    struct tir_type raw;    /* type `row` with the dtype of x */
    struct tir_value ratio; /* i32: number of tokens of a group */
    /* i32: 1: a row of the pool is the sum of its own group and the group before it; 0: of its own
     * group only */
    struct tir_value overlap;
    struct tir_value window; /* i32: number of tokens that a row of the pool adds up */
    struct tir_value ring;   /* i32: number of rows of a ring, one for each of the latest tokens */
    /* The workgroup's sequence, all i32. Its tokens with indices `first` to `end` - 1 are in the
     * call. Token `first` is row `start` of the call's tensors. */
    struct tir_value start, first, end;
    /* i32, indices. slot: the slot whose ring is written. slot_in: the slot whose ring is read */
    struct tir_value slot, slot_in;
};

/** Returns the address (i64) of the row of token `token` (i32 index in the sequence) in source `s`.
 * The row is in the call's tensor. If the token came before the call, the row is row `place` (i32)
 * of the ring in slot c->slot_in. */
struct tir_value compress_row_of(struct compress *c, const struct compress_source *s,
                                 struct tir_value token, struct tir_value place);

/** Returns the address (i64) of row `place` (i32) of the ring in slot `slot` (i32) of source
 * `s`. */
struct tir_value compress_ring_row(struct compress *c, const struct compress_source *s,
                                   struct tir_value slot, struct tir_value place);

/** Issues the load of head_dim elements of x's dtype from address `base` (i64), as type c->raw;
 * zeros if `there` (i1) is false. */
struct tir_value compress_load(struct compress *c, struct tir_value base, struct tir_value there);

/** Returns the bytes of LDS through which waves that share a group exchange sums; 0 if each wave
 * has a group of its own. */
unsigned compress_shared_bytes(const struct compress *c);

/** Returns the registers of a lane for tokens that are loaded, or for sums that are joined: three
 * quarters of those that a wave of c->tile has. The others are for addresses and the sum so far. */
static inline unsigned compress_registers(const struct compress *c)
{
    return tir_wave_vgprs(c->m, (unsigned)c->tile.waves_per_simd) * 3 / 4;
}

/** Returns the registers of a lane that the sums of all waves take as they are joined. */
unsigned compress_sum_registers(const struct compress *c);

/** Returns the weighted sum of the tokens of group `group` (i32 index in the sequence), of type
 * c->row. With c->shared every wave must run this code, and gets the whole sum. */
struct tir_value compress_pool(struct compress *c, struct tir_value group);

/** Normalises, rotates and stores the pool's row of group `group` (i32 index in the sequence). `z`
 * is the weighted sum of the group's tokens. `token` (i32) is the row of the call that has the
 * group's last token. */
void compress_finish(struct compress *c, struct tir_value group, struct tir_value token,
                     struct tir_value z);

#endif

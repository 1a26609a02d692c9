/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of the `lower_tiles` pass share: the registers of each tile.
 */
#ifndef IR_LOWER_TILES_H
#define IR_LOWER_TILES_H

#include "ir/builder.h"

/* The registers of a tile, in the order of its layout: n vecs of `per` elements each. */
struct tir_pieces {
    unsigned n, per;
    struct tir_value *v;
};

struct tir_expander {
    struct tir_func *f;
    struct tir_builder b;      /* where expanded ops go */
    struct tir_pieces *pieces; /* by id of the tile value */
    struct tir_value *scalars; /* by id: what a scalar is called now; 0: itself */
    uint32_t n;                /* ids below this are of the function before the pass */
    struct tir_value lane, wave;
    bool even_code;   /* tir_schedule.even_code */
    uint32_t scratch; /* byte of LDS behind the buffers: what waves hand to each other */
};

/* Elements of one 32-bit register (2 for 16-bit types), or all that a lane holds if fewer. */
unsigned tir_unit(unsigned dtype, const struct tir_layout *l);
struct tir_value tir_scalar_now(const struct tir_expander *x, struct tir_value v);
struct tir_pieces tir_pieces_of(struct tir_expander *x, struct tir_value tile);
struct tir_pieces tir_alloc_pieces(struct tir_expander *x, unsigned n, unsigned per);
void tir_set_pieces(struct tir_expander *x, struct tir_value tile, struct tir_pieces p);

/* Elements first .. first + count of some registers as one vec: a piece, a part of one, or
 * several side by side. `count` divides the piece size or is a multiple of it. */
struct tir_value tir_take(struct tir_expander *x, const struct tir_pieces *p, unsigned dtype,
                          unsigned first, unsigned count);
/* tir_take() of a tile's registers. */
struct tir_value tir_elements(struct tir_expander *x, struct tir_value tile, unsigned first,
                              unsigned count);

/**
 * The part of an index that lane and wave make: the xor of images[i] over the set bits i of the
 * lane, and of images[lane_bits + i] over those of the wave. A vec of i32.
 */
struct tir_value tir_lane_index(struct tir_expander *x, const uint32_t *images, unsigned wave_bits);

/* Registers to and from the LDS buffer at address `lds` (i32) under an address map. */
void tir_store_pieces(struct tir_expander *x, struct tir_value lds, const struct tir_layout *map,
                      const struct tir_layout *l, unsigned dtype, const struct tir_pieces *a);
struct tir_pieces tir_load_pieces(struct tir_expander *x, struct tir_value lds,
                                  const struct tir_layout *map, const struct tir_layout *l,
                                  unsigned dtype, unsigned columns, unsigned first);

/**
 * Gives every wave the values of all waves whose bits are set in `waves`. `part` is the
 * layout of a vector without `axis`, in which those waves repeat each other; here each has its own.
 * The result has a register more for each wave, lowest, in the order of the waves.
 */
struct tir_pieces tir_gather_waves(struct tir_expander *x, struct tir_pieces a, unsigned dtype,
                                   const struct tir_layout *part, uint32_t waves, int axis);

/* The words in ops.def's column `expand`: each leaves the result's pieces behind. */
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, ...) \
    void tir_expand_##expand(struct tir_expander *x, const struct tir_op *op);
#include "ir/ops.def"
#undef OP

#endif

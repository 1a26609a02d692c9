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

/* The state of the pass: what replaces each value of the function. */
struct tir_expander {
    struct tir_func *f;
    struct tir_builder b;      /* expanded ops are inserted here */
    struct tir_pieces *pieces; /* by id of the tile value */
    struct tir_value *scalars; /* by id of a scalar: the value that replaces it; id 0: none */
    uint32_t n;                /* number of value ids before the pass */
    /* The lane's index in its wave, an i32 vec; the wave's index in the workgroup, a scalar i32. */
    struct tir_value lane, wave;
    bool even_code; /* as tir_schedule.even_code: matrix phases begin at multiples of 8 bytes */
    /* as tir_schedule.fresh_lanes: lane numbers are computed again after a loop */
    bool fresh_lanes;
    uint32_t scratch; /* byte of LDS after the buffers, for values that waves exchange */
};

/* Returns the elements of one 32-bit register (2 for 16-bit types), or all elements of a lane if
   there are fewer. */
unsigned tir_unit(unsigned dtype, const struct tir_layout *l);
/* Returns the value that replaces scalar v in the expanded function. */
struct tir_value tir_scalar_now(const struct tir_expander *x, struct tir_value v);
/* Returns the vecs that replace `tile`. */
struct tir_pieces tir_pieces_of(struct tir_expander *x, struct tir_value tile);
/* Allocates `n` pieces of `per` elements each, without values. */
struct tir_pieces tir_alloc_pieces(struct tir_expander *x, unsigned n, unsigned per);
/* Sets the vecs that replace `tile`. */
void tir_set_pieces(struct tir_expander *x, struct tir_value tile, struct tir_pieces p);

/* Returns elements first .. first + count of some registers as one vec. `count` divides the size of
 * a piece or is a multiple of it. */
struct tir_value tir_take(struct tir_expander *x, const struct tir_pieces *p, unsigned dtype,
                          unsigned first, unsigned count);
/* Calls tir_take() on a tile's registers. */
struct tir_value tir_elements(struct tir_expander *x, struct tir_value tile, unsigned first,
                              unsigned count);

/**
 * Returns the part of an index that lane and wave determine, as a vec of i32: an xor of images.
 * images[i] is taken for each set bit i of the lane, images[lane_bits + i] for each set bit i of
 * the wave.
 */
struct tir_value tir_lane_index(struct tir_expander *x, const uint32_t *images, unsigned wave_bits);

/* Store and load the registers of a tile of layout `l` in the LDS buffer at address `lds` (i32)
 * under address map `map`. */
void tir_store_pieces(struct tir_expander *x, struct tir_value lds, const struct tir_layout *map,
                      const struct tir_layout *l, unsigned dtype, const struct tir_pieces *a);
struct tir_pieces tir_load_pieces(struct tir_expander *x, struct tir_value lds,
                                  const struct tir_layout *map, const struct tir_layout *l,
                                  unsigned dtype, unsigned columns, unsigned first);

/**
 * Gives every wave the values of all waves that differ in bits of `waves`. `part` is the layout of
 * a vector without `axis`; it says that those waves repeat each other, although each has a value of
 * its own. The result has one more register for each wave, in the lowest register bits.
 */
struct tir_pieces tir_gather_waves(struct tir_expander *x, struct tir_pieces a, unsigned dtype,
                                   const struct tir_layout *part, uint32_t waves, int axis);

/* The words of ops.def's column `expand`. Each function leaves the result's pieces in x->pieces. */
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, ...) \
    void tir_expand_##expand(struct tir_expander *x, const struct tir_op *op);
#include "ir/ops.def"
#undef OP

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layouts: which element of a tile lives in which register of which lane of which wave.
 *
 * A layout is a linear map over bits (GF(2)): (register, lane, wave) -> (row, col), given by the
 * image of each input bit (arXiv 2505.23819). Matrix-instruction operands, LDS swizzles and vector
 * widths are all such maps, so a conversion is read off the composition of two of them. An input
 * bit whose image is 0 repeats the same element; that is how row and column vectors are held.
 *
 * LDS buffers use the same struct in the role (byte address bits) -> (row, col): `reg` bits only,
 * element-sized units.
 */
#ifndef IR_LAYOUT_H
#define IR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum { TIR_LAYOUT_MAX_BITS = 32 };

/** Image of one input bit: row in the low 16 bits, column in the high 16 bits. */
#define TIR_RC(row, col) ((uint32_t)(row) | (uint32_t)(col) << 16)

/* 4-byte words of code that are fetched at once, from an address of as many. */
enum { TIR_FETCH_WORDS = 8, TIR_PAIR_WORDS = 2 };

/* The lanes of a wave that templates and the interpreter count on. Passes ask the machine; the
 * build checks the facts of each target. */
enum { TIR_WAVE_BITS = 6, TIR_WAVE_LANES = 1 << TIR_WAVE_BITS };

struct tir_layout {
    uint8_t reg_bits;  /* log2 of elements a lane holds */
    uint8_t lane_bits; /* of the machine's wave; 0 for an LDS address map */
    uint8_t wave_bits; /* log2 of the waves that hold different parts; the others repeat them */
    uint8_t pad_shift; /* address maps only: after every 2^pad_shift elements ... */
    uint16_t pad;      /* ... so many elements are left out; 0: none */
    uint32_t basis[TIR_LAYOUT_MAX_BITS]; /* registers first, then lanes, then waves */
};

static inline int tir_layout_bits(const struct tir_layout *l)
{
    return l->reg_bits + l->lane_bits + l->wave_bits;
}

/** Packed (row, col) of the element that (reg, lane, wave) holds. */
uint32_t tir_layout_apply(const struct tir_layout *l, unsigned reg, unsigned lane, unsigned wave);

/** The input bit whose image is `rc`, or -1. */
int tir_layout_find_bit(const struct tir_layout *l, uint32_t rc);

static inline unsigned tir_rc_row(uint32_t rc) { return rc & 0xffff; }
static inline unsigned tir_rc_col(uint32_t rc) { return rc >> 16; }

/** Byte address of element number `index` of an LDS address map, padding included. */
static inline unsigned tir_lds_address(const struct tir_layout *map, unsigned index,
                                       unsigned elem_bytes)
{
    return (index + (index >> map->pad_shift) * map->pad) * elem_bytes;
}

/** Rows that are held by lanes or waves, packed: row bits of register inputs are dropped and the
 * others move down. The layout of col_fold_max and col_fold_sum. rows is 0 when registers hold
 * combinations of row bits, which cannot be folded. */
struct tir_layout tir_layout_fold_rows(const struct tir_layout *l, unsigned *rows);

/** Same inputs, rows and columns exchanged. */
struct tir_layout tir_layout_transpose(const struct tir_layout *l);

/** Row bit i becomes row bit to[i]: the same registers, with the rows in another order. `to` has an
 * entry for every row bit that the layout sets. */
struct tir_layout tir_layout_permute_rows(const struct tir_layout *l, const uint8_t *to);

/** The same layout where the inputs with these images, of one bit each, have each other's; as it
 * was where one of them is not there. */
struct tir_layout tir_layout_swap(const struct tir_layout *l, uint32_t image, uint32_t other);

/** The same elements a lane, in registers that walk the rows and then the columns, upwards. */
struct tir_layout tir_layout_sort_regs(const struct tir_layout *l);

/** The same elements a lane; register bits whose image has a bit of `mask` (TIR_RC) come first. */
struct tir_layout tir_layout_regs_first(const struct tir_layout *l, uint32_t mask);

/** The last `n` of the first `regs` register bits become wave bits: the parts that a wave takes of
 * what each of them holds alike. */
struct tir_layout tir_layout_deal_regs(const struct tir_layout *l, unsigned regs, unsigned n);

/* The layout of join_blocks' result with `rows` rows, of an operand with `width` columns; and of
 * split_blocks' result. Both are powers of two. */
struct tir_layout tir_layout_join_blocks(const struct tir_layout *l, unsigned rows, unsigned width);
struct tir_layout tir_layout_split_blocks(const struct tir_layout *l, unsigned rows,
                                          unsigned width);

/** Returns the layout of two tiles of `rows` rows, one above the other; a new highest register bit
 * chooses the tile. */
struct tir_layout tir_layout_stack(const struct tir_layout *l, unsigned rows);
/** The way back: without the last register bit. */
struct tir_layout tir_layout_half(const struct tir_layout *l);
/** Does that bit tell the upper half of `rows` rows from the lower one? */
bool tir_layout_has_halves(const struct tir_layout *l, unsigned rows);

/** Numbers parts that waves hold: the wave bits in `waves` become new lowest bits of the rows (axis
 * 0) or columns (axis 1), which the images of `l` leave free. tir_layout_name_waves(): the wave
 * still holds its own part. tir_layout_hold_waves(): every wave holds all of them, in new lowest
 * registers. */
struct tir_layout tir_layout_name_waves(const struct tir_layout *l, uint32_t waves, int axis);
struct tir_layout tir_layout_hold_waves(const struct tir_layout *l, uint32_t waves, int axis);

/** The layout of one wave, which all waves repeat. */
struct tir_layout tir_layout_of_one_wave(const struct tir_layout *l);

/** Axis 0 drops the rows (leaves a 1xN vector), axis 1 drops the columns (leaves Mx1): the image
 * keeps only the other axis; register bits that become 0 are removed. */
struct tir_layout tir_layout_slice(const struct tir_layout *l, int axis);

/** Every element of rows x cols (powers of two) is held by some input. */
bool tir_layout_covers(const struct tir_layout *l, unsigned rows, unsigned cols);

/** Equal as maps, with the same split into registers, lanes and waves. */
bool tir_layout_equal(const struct tir_layout *a, const struct tir_layout *b);

/**
 * Solves to o m = from for m: for every input of `from`, an input of `to` that holds the same
 * element. m[i] is the packed input of `to` (registers low, then lanes, then waves) for input bit i
 * of `from`. False when some element of `from` is not in `to`. Free bits of `to` are 0.
 */
bool tir_layout_solve(const struct tir_layout *to, const struct tir_layout *from,
                      uint32_t m[TIR_LAYOUT_MAX_BITS]);

/** log2 of the consecutive elements along columns (axis 1) or rows (axis 0) that the low register
 * bits walk: basis[0] = 1, basis[1] = 2, ... of that axis; no other bit steps inside of them. */
int tir_layout_contiguous(const struct tir_layout *l, int axis);

/** Counts how many of the first `regs` images are 1, 2, 4, ..., while none of the `all` images
 * behind them has any of those bits. */
int tir_low_bits_alone(const uint32_t *images, int regs, int all);

/** A linear map over bits: image of each input bit. */
struct tir_matrix {
    uint8_t n_bits; /* inputs */
    uint32_t column[TIR_LAYOUT_MAX_BITS];
};

uint32_t tir_matrix_apply(const struct tir_matrix *m, uint32_t x);
/** outer o inner: first inner, then outer, whose inputs are inner's output bits. */
struct tir_matrix tir_matrix_compose(const struct tir_matrix *outer,
                                     const struct tir_matrix *inner);
/** Inverse of a square map of n_bits bits; false when it has none. */
bool tir_matrix_invert(const struct tir_matrix *m, struct tir_matrix *inverse);

/** The means by which elements of layout `from` get to layout `to`; each kind includes the
 * possibilities of those before it. */
enum tir_conversion_kind {
    TIR_CONVERT_NONE,      /* register r of `to` is register r of `from`, in the same lane */
    TIR_CONVERT_REGISTERS, /* another register of the same lane */
    TIR_CONVERT_LANES,     /* another lane of the same wave */
    TIR_CONVERT_LDS,       /* another wave, or a lane that depends on the wave */
};

struct tir_conversion {
    enum tir_conversion_kind kind;
    bool selects;          /* which register it is depends on the lane or the wave */
    uint32_t lanes;        /* lane bits in which source and destination lane differ */
    struct tir_matrix map; /* packed (reg, lane, wave) of `to` -> that of `from` */
};

/** The cheapest conversion, read off the two maps. False when `from` lacks elements of `to`. */
bool tir_layout_conversion(const struct tir_layout *from, const struct tir_layout *to,
                           struct tir_conversion *c);

#endif

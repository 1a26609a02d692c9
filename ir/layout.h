/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layouts: the register, lane and wave in which each element of a tile lives.
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

/* Most input bits of a layout: registers, lanes and waves together. */
enum { TIR_LAYOUT_MAX_BITS = 32 };

/** Packs the image of an input bit: the row in the low 16 bits, the column in the high 16 bits. */
#define TIR_RC(row, col) ((uint32_t)(row) | (uint32_t)(col) << 16)

/* Sizes of code in words of 4 bytes: a fetch window, which is aligned to its size, and an
 * instruction of 8 bytes. */
enum { TIR_FETCH_WORDS = 8, TIR_PAIR_WORDS = 2 };

/* Log2 and number of the lanes of the largest wave. Templates and the interpreter use them as
 * constants; passes read the machine's lane_bits. The build checks each target against them. */
enum { TIR_WAVE_BITS = 6, TIR_WAVE_LANES = 1 << TIR_WAVE_BITS };

struct tir_layout {
    uint8_t reg_bits;  /* log2 of the elements that a lane holds */
    uint8_t lane_bits; /* log2 of a wave's lanes; 0 in an LDS address map */
    uint8_t wave_bits; /* log2 of the waves that hold different parts; further waves repeat them */
    uint8_t pad_shift; /* address maps only: log2 of the elements between two paddings */
    uint16_t pad;      /* unused elements after each 2^pad_shift elements; 0: none */
    /* images of the register bits, then of the lane bits, then of the wave bits, each a TIR_RC() */
    uint32_t basis[TIR_LAYOUT_MAX_BITS];
};

/* Returns the number of bits of an element's index: registers, lanes and waves. */
static inline int tir_layout_bits(const struct tir_layout *l)
{
    return l->reg_bits + l->lane_bits + l->wave_bits;
}

/** Returns the packed (row, col) of the element that (reg, lane, wave) holds. */
uint32_t tir_layout_apply(const struct tir_layout *l, unsigned reg, unsigned lane, unsigned wave);

/** Returns the number of the input bit (registers first, then lanes, then waves) whose image is
 * `rc`, or -1 if there is none. */
int tir_layout_find_bit(const struct tir_layout *l, uint32_t rc);

/* Returns the row of a packed row and column. */
static inline unsigned tir_rc_row(uint32_t rc) { return rc & 0xffff; }
/* Returns the column of a packed row and column. */
static inline unsigned tir_rc_col(uint32_t rc) { return rc >> 16; }

/** Returns the byte address, from the start of the buffer, of element number `index` of an LDS
 * address map. Padding is counted. */
static inline unsigned tir_lds_address(const struct tir_layout *map, unsigned index,
                                       unsigned elem_bytes)
{
    return (index + (index >> map->pad_shift) * map->pad) * elem_bytes;
}

/** Returns the layout of col_fold_max's and col_fold_sum's result. Row bits that registers hold are
 * dropped, and the other row bits move down. *rows is 0 if a register bit combines several row
 * bits, which cannot be folded. */
struct tir_layout tir_layout_fold_rows(const struct tir_layout *l, unsigned *rows);

/** Returns the layout with rows and columns exchanged. */
struct tir_layout tir_layout_transpose(const struct tir_layout *l);

/** Returns the layout with row bit i renamed to row bit to[i]. `to` has an entry for every row bit
 * that the layout sets. */
struct tir_layout tir_layout_permute_rows(const struct tir_layout *l, const uint8_t *to);

/** Returns the layout with two input bits exchanged: those whose images are `image` and `other`. If
 * one of them does not exist, returns `l` unchanged. */
struct tir_layout tir_layout_swap(const struct tir_layout *l, uint32_t image, uint32_t other);

/** Returns the layout with each lane's registers sorted: first by column, then by row,
 * ascending. */
struct tir_layout tir_layout_sort_regs(const struct tir_layout *l);

/** Returns the layout with reordered register bits: first the bits whose image shares a set bit
 * with `mask` (a TIR_RC()), then the others. */
struct tir_layout tir_layout_regs_first(const struct tir_layout *l, uint32_t mask);

/** Returns the layout in which the highest `n` of the lowest `regs` register bits have become wave
 * bits. So 2^n waves share the elements that each wave held. */
struct tir_layout tir_layout_deal_regs(const struct tir_layout *l, unsigned regs, unsigned n);

/* Return the layout of the result of join_blocks, with `rows` rows, for an operand with layout `l`
 * and `width` columns; and of the result of split_blocks, with `width` columns, for an operand with
 * `rows` rows. Both numbers are powers of two. */
struct tir_layout tir_layout_join_blocks(const struct tir_layout *l, unsigned rows, unsigned width);
struct tir_layout tir_layout_split_blocks(const struct tir_layout *l, unsigned rows,
                                          unsigned width);

/** Returns the layout of two tiles of `rows` rows, one above the other. A new highest register bit
 * selects the tile. */
struct tir_layout tir_layout_stack(const struct tir_layout *l, unsigned rows);
/** Returns the layout of one of the two tiles of tir_layout_stack(): it lacks the last register
 * bit. */
struct tir_layout tir_layout_half(const struct tir_layout *l);
/** Returns the layout of the tile that has one element for each 2^bits neighbouring columns of a
 * tile of layout `l`. The first `bits` register bits of `l` select among these neighbours. */
struct tir_layout tir_layout_join_cols(const struct tir_layout *l, unsigned bits);
/** Returns the layout of the tile that has 2^bits neighbouring columns for each column of a tile of
 * layout `l`. New lowest register bits select among these neighbours. */
struct tir_layout tir_layout_split_cols(const struct tir_layout *l, unsigned bits);
/** True if the first `bits` register bits select columns 0 to 2^bits - 1, and no other bit contains
 * one of these column bits. */
bool tir_layout_has_neighbours(const struct tir_layout *l, unsigned bits);
/** True if the last register bit selects the upper or lower half of `rows` rows. */
bool tir_layout_has_halves(const struct tir_layout *l, unsigned rows);

/** Name the parts that different waves hold. The wave bits in `waves` become new lowest bits of the
 * rows (axis 0) or columns (axis 1). With tir_layout_name_waves() a wave still holds only its own
 * part. With tir_layout_hold_waves() every wave holds all parts, in new lowest registers. */
struct tir_layout tir_layout_name_waves(const struct tir_layout *l, uint32_t waves, int axis);
struct tir_layout tir_layout_hold_waves(const struct tir_layout *l, uint32_t waves, int axis);

/** Returns the layout of one wave's part, which all waves repeat. */
struct tir_layout tir_layout_of_one_wave(const struct tir_layout *l);

/** Returns the layout of a vector. Axis 0 drops the rows (leaves 1xN), axis 1 drops the columns
 * (leaves Mx1). Register bits whose image becomes 0 are removed. */
struct tir_layout tir_layout_slice(const struct tir_layout *l, int axis);

/** True if each element of rows x cols (powers of two) is held by some input, and no input holds an
 * element outside. */
bool tir_layout_covers(const struct tir_layout *l, unsigned rows, unsigned cols);

/** True if both are the same map with the same split into registers, lanes and waves. */
bool tir_layout_equal(const struct tir_layout *a, const struct tir_layout *b);

/**
 * Finds the linear map m with to(m(x)) = from(x): it maps every input of `from` to an input of `to`
 * that holds the same element. m[i] is the packed input of `to` (registers low, then lanes, then
 * waves) for input bit i of `from`. Free bits of `to` are 0. Returns false if `to` lacks an element
 * of `from`.
 */
bool tir_layout_solve(const struct tir_layout *to, const struct tir_layout *from,
                      uint32_t m[TIR_LAYOUT_MAX_BITS]);

/** Returns log2 of the elements that the low register bits step through one by one along columns
 * (axis 1) or rows (axis 0): basis[0] = 1, basis[1] = 2, ... of that axis. No other bit may step
 * inside them. */
int tir_layout_contiguous(const struct tir_layout *l, int axis);

/** Returns the largest n, at most `regs`, such that images[0..n-1] are 1, 2, 4, ... and no later
 * image contains one of these bits. `images` has `all` entries. */
int tir_low_bits_alone(const uint32_t *images, int regs, int all);

/** A linear map over bits. */
struct tir_matrix {
    uint8_t n_bits; /* number of input bits */
    uint32_t column[TIR_LAYOUT_MAX_BITS];
};

/** The data path by which elements of layout `from` get to layout `to`. Each kind may also use the
 * paths of the kinds before it. */
enum tir_conversion_kind {
    TIR_CONVERT_NONE,      /* register r of `to` is register r of `from`, in the same lane */
    TIR_CONVERT_REGISTERS, /* another register of the same lane */
    TIR_CONVERT_LANES,     /* another lane of the same wave */
    TIR_CONVERT_LDS,       /* another wave, or a lane that depends on the wave */
};

struct tir_conversion {
    enum tir_conversion_kind kind;
    bool selects;          /* true: the source register depends on the lane or the wave */
    uint32_t lanes;        /* lane bits in which source and destination lane differ */
    struct tir_matrix map; /* packed (reg, lane, wave) of `to` -> packed source in `from` */
};

/** Finds the cheapest conversion from layout `from` to layout `to`. Returns false if `from` lacks
 * elements of `to`. */
bool tir_layout_conversion(const struct tir_layout *from, const struct tir_layout *to,
                           struct tir_conversion *c);

#endif

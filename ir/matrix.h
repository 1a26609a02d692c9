/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the tile layouts that matrix instructions require. An operand tile covers many
 * instructions. Its registers walk the contraction first, then the blocks of rows (of A) or columns
 * (of B).
 */
#ifndef IR_MATRIX_H
#define IR_MATRIX_H

#include "ir/machine.h"

/* Most bits of the contraction index k. */
enum { TIR_MAX_K_BITS = 16 };

/**
 * The spread of the contraction index k over an operand: the bit of k that each register bit and
 * each upper lane bit selects. Any bijection is correct if A and B agree. So the result of one
 * product can be an operand of the next without moving any element.
 */
struct tir_contraction {
    uint8_t n_reg, n_lane;        /* register bits, and lane bits, that select a part of k */
    uint16_t reg[TIR_MAX_K_BITS]; /* images of register bits */
    uint16_t lane[4];             /* images of lane bits log2(m) and above */
};

/** Spreads `extent` elements of k in memory order. The low bits of k select one of `vector`
 * registers (a power of two), the next ones a lane, and the rest further registers. */
struct tir_contraction tir_contract_rows(const struct tir_mma *mma, unsigned extent,
                                         unsigned vector);

/** Spreads `extent` elements of k in a scaled instruction's own order for its A (`right`: its B).
 * Elements beyond the instruction's k are in further registers. */
struct tir_contraction tir_contract_instruction(const struct tir_mma *mma, bool right,
                                                unsigned extent);

/** Spreads k as an earlier product's accumulator holds its rows, which become k: S = K Q, then O =
 * V S. `d` is the accumulator's layout. Its low `lane_low_bits` lane bits select columns. Waves may
 * split its columns, but not its rows, since each would then hold only a part of k. */
struct tir_contraction tir_contract_acc(const struct tir_layout *d, unsigned lane_low_bits);

/**
 * The division of a product D[rows x cols] = A[rows x k] . B[k x cols] among the waves of a
 * workgroup: log2 of the number that split the rows, and of the number that split the columns. A
 * wave's low bits select its columns, the bits above its rows; each takes the top bits of its axis.
 * Waves never split k. Waves that split only rows all hold the same B, and waves that split only
 * columns the same A.
 */
struct tir_waves {
    uint8_t rows, cols;
};

/** Returns the layout of A[rows x k]. */
struct tir_layout tir_mma_left(const struct tir_mma *mma, unsigned rows,
                               const struct tir_contraction *k, struct tir_waves waves);

/** Returns the layout of B in memory order, [cols x k]. B[k x cols] is its transpose. */
struct tir_layout tir_mma_right(const struct tir_mma *mma, unsigned cols,
                                const struct tir_contraction *k, struct tir_waves waves);

/** Returns the layout of D[rows x cols]. */
struct tir_layout tir_mma_result(const struct tir_mma *mma, unsigned rows, unsigned cols,
                                 struct tir_waves waves);

/** Return the layouts of A[16 x k] and D[8 x cols] of mma_halves. `right` is the layout of B[cols x
 * k] for an instruction of 32 columns. */
struct tir_layout tir_mma_halves_left(const struct tir_layout *right);
struct tir_layout tir_mma_halves_result(const struct tir_mma *mma, const struct tir_layout *right);

/**
 * Finds the bit of the product's k that each bit of the instruction's k selects. `l` is the layout
 * of an operand: A, [rows x k], or with `right` B, [cols x k]. k[] gets the images for these bits,
 * then for the bits of further registers. Returns the number of entries, or 0 if `l` is no operand
 * of the instruction.
 */
unsigned tir_mma_contraction(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                             uint32_t k[TIR_MAX_K_BITS]);

/** Computes the layout of the scales of an operand with layout `l`: of A, [rows x k / 32], or with
 * `right` of B, [cols x k / 32]. Returns false if a block of 32 along k does not coincide with one
 * that the instruction scales. */
bool tir_mma_scales(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                    struct tir_layout *scales);

/** Returns the number of elements of A (in), B (right) or D (acc) that one instruction takes from
 * each lane. */
unsigned tir_mma_in_regs(const struct tir_mma *mma);
unsigned tir_mma_right_regs(const struct tir_mma *mma);
unsigned tir_mma_acc_regs(const struct tir_mma *mma);

#endif

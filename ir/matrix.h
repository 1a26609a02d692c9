/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile layouts that a matrix instruction asks for. An operand tile covers many instructions: its
 * registers walk the contraction first, then the blocks of rows (of A) or columns (of B).
 */
#ifndef IR_MATRIX_H
#define IR_MATRIX_H

#include "ir/machine.h"

enum { TIR_MAX_K_BITS = 16 };

/**
 * The spread of a contraction index over one operand: the bit of k that each register bit and each
 * upper lane bit stands for. Any bijection will do, as long as A and B agree: that is what lets the
 * result of one product be an operand of the next with no move at all.
 */
struct tir_contraction {
    uint8_t n_reg, n_lane;
    uint16_t reg[TIR_MAX_K_BITS]; /* images of register bits */
    uint16_t lane[4];             /* images of lane bits log2(m) .. 5 */
};

/** `extent` elements of k in memory order: `vector` consecutive ones per lane (a power of two, at
 * least what one instruction takes), then lanes, then registers. */
struct tir_contraction tir_contract_rows(const struct tir_mma *mma, unsigned extent,
                                         unsigned vector);

/** `extent` elements of k in a scaled instruction's own order, as its A (`right`: its B) has them;
 * what is beyond the instruction's k is in further registers. */
struct tir_contraction tir_contract_instruction(const struct tir_mma *mma, bool right,
                                                unsigned extent);

/** The contraction that the accumulator of an earlier product is held in, when its rows become k:
 * S = K Q, then O = V S. `d` is the layout of that accumulator tile; waves may split its columns,
 * but not its rows, since they would then each hold a part of k. */
struct tir_contraction tir_contract_acc(const struct tir_layout *d, unsigned lane_low_bits);

/**
 * The division of a product among the waves of a workgroup: D[rows x cols] = A[rows x k] . B[k x
 * cols]: log2 of how many split the rows, and of how many split the columns. A wave's low bits
 * choose its columns, the bits above its rows. Each takes the top bits of its axis. Waves never
 * split k: those that split only rows all hold the same B, those that split only columns the same
 * A.
 */
struct tir_waves {
    uint8_t rows, cols;
};

/** Layout of A[rows x k]. */
struct tir_layout tir_mma_left(const struct tir_mma *mma, unsigned rows,
                               const struct tir_contraction *k, struct tir_waves waves);

/** Layout of B as it lies in memory, [cols x k]: B[k x cols] is its transpose. */
struct tir_layout tir_mma_right(const struct tir_mma *mma, unsigned cols,
                                const struct tir_contraction *k, struct tir_waves waves);

/** Layout of D[rows x cols]. */
struct tir_layout tir_mma_result(const struct tir_mma *mma, unsigned rows, unsigned cols,
                                 struct tir_waves waves);

/** The layouts of A[16 x k] and D[8 x cols] of mma_halves, for a B[cols x k] with the layout
 * `right` of an instruction of 32 columns. */
struct tir_layout tir_mma_halves_left(const struct tir_layout *right);
struct tir_layout tir_mma_halves_result(const struct tir_mma *mma, const struct tir_layout *right);

/**
 * Finds which k of the product each bit of the instruction's k stands for, when its A (`right`: its
 * B) has layout `l`, [rows x k] or [cols x k]. k[] gets those bits and then the bits of further
 * registers. Returns how many there are, or 0 if `l` is no operand of the instruction.
 */
unsigned tir_mma_contraction(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                             uint32_t k[TIR_MAX_K_BITS]);

/** The layout of the scales, [rows x k / 32] or [cols x k / 32], that go with an operand held as
 * `l`. False where a block of its k is not one that the instruction takes a scale for. */
bool tir_mma_scales(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                    struct tir_layout *scales);

/** Elements of A, B or D that one instruction takes from each lane. */
unsigned tir_mma_in_regs(const struct tir_mma *mma);
unsigned tir_mma_right_regs(const struct tir_mma *mma);
unsigned tir_mma_acc_regs(const struct tir_mma *mma);

#endif

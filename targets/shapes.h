/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros that turn the rows of matrix instructions and copies in targets/facts/ into initialisers
 * of struct tir_mma and struct tir_copy. The C file of each target, which target.c.in becomes, uses
 * them.
 */
#ifndef TARGETS_SHAPES_H
#define TARGETS_SHAPES_H

#include "ir/ir.h"
#include "ir/mma_operands.h"

/* SIDE_<shape>: rows and columns of the result of a matrix instruction. OPERANDS_<shape>: the
 * layouts of its operands, whose elements have `bits` bits. SCALED_<shape>: the same with scales;
 * `right` is the format of the right operand. */
enum {
    SIDE_32x32x = 32,
    SIDE_32x32x64_f8f6f4 = 32,
    SIDE_16x16x = 16,
    SIDE_16x16x128_f8f6f4 = 16,
    SIDE_16x16x4_f32 = 16,
    SIDE_wmma_16x16x = 16,
    SIDE_wmma_16x16x128_fp8 = 16,
    SIDE_wmma_16x16x4_f32 = 16,
    SIDE_wmma_16x16x16_fp8 = 16,
    SIDE_wmma_16x16x16_iu8 = 16,
    SIDE_wmma_16x16x64_iu8 = 16
};
#define OPERANDS_32x32x(bits) MMA32_OPERANDS(bits)
#define OPERANDS_32x32x64_f8f6f4(bits) MMA32_OPERANDS(bits)
#define OPERANDS_16x16x(bits) MMA16_OPERANDS(bits)
#define OPERANDS_16x16x128_f8f6f4(bits) MMA16_OPERANDS(bits)
#define OPERANDS_16x16x4_f32(bits) MMA16_SINGLE
#define OPERANDS_wmma_16x16x(bits) WMMA16_OPERANDS(bits)
#define OPERANDS_wmma_16x16x128_fp8(bits) WMMA16_OPERANDS(bits)
#define OPERANDS_wmma_16x16x4_f32(bits) WMMA16_PAIRS
#define OPERANDS_wmma_16x16x16_fp8(bits) WMMA16_OPERANDS(bits)
#define OPERANDS_wmma_16x16x16_iu8(bits) WMMA16_OPERANDS(bits)
#define OPERANDS_wmma_16x16x64_iu8(bits) WMMA16_OPERANDS(bits)

#define SCALED_32x32x64_f8f6f4(right) MMA32_SCALED(right)
#define SCALED_16x16x128_f8f6f4(right) MMA16_SCALED(right)

/* The dtypes of the IR for elements in these formats. A byte has two E2M1 elements. */
enum { DTYPE_E4M3 = TIR_FP8, DTYPE_E2M1 = TIR_I8 };

/* The clocks of a matrix instruction of `clocks` clocks in which the SIMD issues no other
 * instruction. FACT_<name> and CLOCKS_<shape> are rows of the facts. */
#define SHAPES_CLOSED(clocks) ((clocks) > 16 ? FACT_matrix_closed : FACT_matrix_closed_short)

/* The clocks of a matrix instruction of `clocks` clocks in which other instructions issue: all but
 * `closed`. */
#define SHAPES_OPEN(clocks, closed) ((clocks) > (closed) ? (clocks) - (closed) : 0)

/* Initialises the members of struct tir_mma that follow from shape, depth (inner dimension) and
 * names. */
#define SHAPES_ROW(shape, depth, mnemonic, llvm)                                              \
    .name = mnemonic, .intrinsic = "llvm.amdgcn." llvm, .m = SIDE_##shape, .n = SIDE_##shape, \
    .k = depth, .cycles = CLOCKS_##shape,                                                     \
    .shadow_slots = SHAPES_OPEN(CLOCKS_##shape, SHAPES_CLOSED(CLOCKS_##shape)) / FACT_issue_period

/* Initialises struct tir_mma from a row MMA or MMA_LONG. `long_` is true for MMA_LONG: `in`, `acc`
 * are dtypes of operands and accumulator. */
#define SHAPES_MMA(long_, shape, depth, bits, in, acc, mnemonic, llvm) \
    {SHAPES_ROW(shape, depth, mnemonic, llvm),                         \
     .by_k = long_,                                                    \
     .in_dtype = TIR_##in,                                             \
     .right_dtype = TIR_##in,                                          \
     .acc_dtype = TIR_##acc,                                           \
     OPERANDS_##shape(bits)}

/* Initialises struct tir_mma from a row MMA_SCALED. `left` and `right` are the formats of the
 * operands. */
#define SHAPES_SCALED(shape, depth, left, right, mnemonic, llvm) \
    {SHAPES_ROW(shape, depth, mnemonic, llvm),                   \
     .scaled = true,                                             \
     .left_format = TIR_MX_##left,                               \
     .right_format = TIR_MX_##right,                             \
     .in_dtype = DTYPE_##left,                                   \
     .right_dtype = DTYPE_##right,                               \
     .acc_dtype = TIR_F32,                                       \
     SCALED_##shape(right)}

/* Values of tir_copy.descriptor by their names in rows COPY: each lane has an address, or one
 * descriptor names all rows. */
enum { ADDRESSES_LANE = false, ADDRESSES_DESCRIPTOR = true };

/* Initialises struct tir_copy from a row COPY. */
#define SHAPES_COPY(mnemonic, from_, to_, bytes_, bits, lanes, run, addresses, counter_, ...) \
    {.name = mnemonic,                                                                        \
     .from = TIR_IN_##from_,                                                                  \
     .to = TIR_IN_##to_,                                                                      \
     .bytes = bytes_,                                                                         \
     .element_bits = bits,                                                                    \
     .block_lanes = lanes,                                                                    \
     .run_lanes = run,                                                                        \
     .descriptor = ADDRESSES_##addresses,                                                     \
     .counter = TIR_COUNTER_##counter_}

#endif

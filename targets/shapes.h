/* SPDX-License-Identifier: Apache-2.0
 *
 * This file describes how matrix instructions of each shape spread their operands over a wave of 64
 * lanes.
 *
 * In every dense MFMA with one block, lane l holds row (A) or column (B, D) l mod m. The lanes
 * above count k in steps of the elements that a lane holds. D goes in groups of 4 rows: first the 4
 * of a lane, then the lane groups, then (32x32) the next registers. Source: the register maps of
 * AMD's matrix instruction calculator; tests/targets checks them element by element.
 */
#ifndef TARGETS_SHAPES_H
#define TARGETS_SHAPES_H

#include "ir/ir.h"

/* Images of the low n bits of an index that walks rows or columns from `step` on. */
#define ROWS1(step) TIR_RC(step, 0)
#define ROWS2(step) ROWS1(step), ROWS1(2 * (step))
#define ROWS3(step) ROWS2(step), ROWS1(4 * (step))
#define ROWS4(step) ROWS3(step), ROWS1(8 * (step))
#define ROWS5(step) ROWS4(step), ROWS1(16 * (step))
#define COLS1(step) TIR_RC(0, step)
#define COLS2(step) COLS1(step), COLS1(2 * (step))
#define COLS3(step) COLS2(step), COLS1(4 * (step))
#define COLS4(step) COLS3(step), COLS1(8 * (step))
#define COLS5(step) COLS4(step), COLS1(16 * (step))

/* Operands of m = n = 32 with 2^bits elements of k a lane (64 lanes: 2 steps of k). */
#define MMA32_OPERANDS(bits)                                       \
    .a = {.reg_bits = bits,                                        \
          .lane_bits = 6,                                          \
          .basis = {COLS##bits(1), ROWS5(1), COLS1(1 << (bits))}}, \
    .b = {.reg_bits = bits,                                        \
          .lane_bits = 6,                                          \
          .basis = {ROWS##bits(1), COLS5(1), ROWS1(1 << (bits))}}, \
    .d = {.reg_bits = 4, .lane_bits = 6, .basis = {ROWS2(1), ROWS2(8), COLS5(1), ROWS1(4)}}

/* Operands of m = n = 16 with 2^bits elements of k a lane (4 steps of k). */
#define MMA16_OPERANDS(bits)                                       \
    .a = {.reg_bits = bits,                                        \
          .lane_bits = 6,                                          \
          .basis = {COLS##bits(1), ROWS4(1), COLS2(1 << (bits))}}, \
    .b = {.reg_bits = bits,                                        \
          .lane_bits = 6,                                          \
          .basis = {ROWS##bits(1), COLS4(1), ROWS2(1 << (bits))}}, \
    .d = {.reg_bits = 2, .lane_bits = 6, .basis = {ROWS2(1), COLS4(1), ROWS2(4)}}

/* The facts name a shape by its side and its operands. */
enum { SIDE_32x32x = 32, SIDE_32x32x64_f8f6f4 = 32, SIDE_16x16x = 16, SIDE_16x16x128_f8f6f4 = 16 };
#define OPERANDS_32x32x(bits) MMA32_OPERANDS(bits)
#define OPERANDS_32x32x64_f8f6f4(bits) MMA32_OPERANDS(bits)
#define OPERANDS_16x16x(bits) MMA16_OPERANDS(bits)
#define OPERANDS_16x16x128_f8f6f4(bits) MMA16_OPERANDS(bits)

/* Clocks in which an instruction admits no other one, by its length. FACT_<name> and
 * CLOCKS_<shape> are the rows of the facts. */
#define SHAPES_CLOSED(clocks) ((clocks) > 16 ? FACT_matrix_closed : FACT_matrix_closed_short)

/* A row MMA or MMA_LONG of the facts, as struct tir_mma. */
#define SHAPES_MMA(long_, shape, depth, bits, in, acc, mnemonic, llvm)                     \
    {.name = mnemonic,                                                                     \
     .intrinsic = "llvm.amdgcn." llvm,                                                     \
     .m = SIDE_##shape,                                                                    \
     .n = SIDE_##shape,                                                                    \
     .k = depth,                                                                           \
     .by_k = long_,                                                                        \
     .in_dtype = TIR_##in,                                                                 \
     .acc_dtype = TIR_##acc,                                                               \
     .cycles = CLOCKS_##shape,                                                             \
     .shadow_slots = (CLOCKS_##shape - SHAPES_CLOSED(CLOCKS_##shape)) / FACT_issue_period, \
     OPERANDS_##shape(bits)}

#endif

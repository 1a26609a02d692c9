/* SPDX-License-Identifier: Apache-2.0
 *
 * This file describes how matrix instructions of each shape spread their operands over a wave, as
 * constant initialisers of struct tir_mma.
 *
 * In every dense MFMA with one block, lane l holds row (A) or column (B, D) l mod m. The lanes
 * above count k in steps of the elements that a lane holds. D goes in groups of 4 rows: first the 4
 * of a lane, then the lane groups, then (32x32) the next registers. Source: the register maps of
 * AMD's matrix instruction calculator; tests/targets checks them element by element.
 */
#ifndef IR_MMA_OPERANDS_H
#define IR_MMA_OPERANDS_H

#include "ir/layout.h"

/* Images of the n lowest bits of an index that walks rows, or columns, in steps of `step`. */
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

/* Operands of m = n = 32 with 2^bits elements of k in a lane (2 steps of k). */
#define MMA32_OPERANDS(bits)                                       \
    .a = {.reg_bits = bits,                                        \
          .lane_bits = TIR_WAVE_BITS,                              \
          .basis = {COLS##bits(1), ROWS5(1), COLS1(1 << (bits))}}, \
    .b = {.reg_bits = bits,                                        \
          .lane_bits = TIR_WAVE_BITS,                              \
          .basis = {ROWS##bits(1), COLS5(1), ROWS1(1 << (bits))}}, \
    .d = {.reg_bits = 4,                                           \
          .lane_bits = TIR_WAVE_BITS,                              \
          .basis = {ROWS2(1), ROWS2(8), COLS5(1), ROWS1(4)}}

/* Operands of m = n = 16 with 2^bits elements of k in a lane (4 steps of k). */
#define MMA16_OPERANDS(bits)                                       \
    .a = {.reg_bits = bits,                                        \
          .lane_bits = TIR_WAVE_BITS,                              \
          .basis = {COLS##bits(1), ROWS4(1), COLS2(1 << (bits))}}, \
    .b = {.reg_bits = bits,                                        \
          .lane_bits = TIR_WAVE_BITS,                              \
          .basis = {ROWS##bits(1), COLS4(1), ROWS2(1 << (bits))}}, \
    .d = {.reg_bits = 2, .lane_bits = TIR_WAVE_BITS, .basis = {ROWS2(1), COLS4(1), ROWS2(4)}}

/* Operands of m = n = 16 with one element of k a lane. */
#define MMA16_SINGLE                                                  \
    .a = {.lane_bits = TIR_WAVE_BITS, .basis = {ROWS4(1), COLS2(1)}}, \
    .b = {.lane_bits = TIR_WAVE_BITS, .basis = {COLS4(1), ROWS2(1)}}, \
    .d = {.reg_bits = 2, .lane_bits = TIR_WAVE_BITS, .basis = {ROWS2(1), COLS4(1), ROWS2(4)}}

/*
 * WMMA: a wave has 32 lanes, in two halves. Along k, groups of 8 neighbours alternate between the
 * halves. Each half has 8 rows of D. Source: CDNA5 ISA manual, "WMMA matrix layouts".
 *
 * RDNA4 has another order of k for elements of 16 bits: groups of 4 neighbours alternate (RDNA4
 * ISA, 7.12.2). These tables keep groups of 8 there. A and B have the same order, so the product is
 * the same sum. A lane's elements are then 16 adjacent bytes in memory, and the layout of D is that
 * of B in the next product.
 */
enum { WMMA_WAVE_BITS = 5 };
/* Images of register bits 3 to n - 1, each after a comma: elements 16 apart along k. */
#define WMMA16_MORE_3(axis)
#define WMMA16_MORE_4(axis) , axis##1(16)
#define WMMA16_MORE_5(axis) , axis##2(16)
#define WMMA16_MORE_6(axis) , axis##3(16)
#define WMMA16_D \
    .d = {.reg_bits = 3, .lane_bits = WMMA_WAVE_BITS, .basis = {ROWS3(1), COLS4(1), ROWS1(8)}}

/* Operands with 2^bits elements of k in a lane. An element has 8 or 16 bits. */
#define WMMA16_OPERANDS(bits)                                                \
    .a = {.reg_bits = bits,                                                  \
          .lane_bits = WMMA_WAVE_BITS,                                       \
          .basis = {COLS3(1) WMMA16_MORE_##bits(COLS), ROWS4(1), COLS1(8)}}, \
    .b = {.reg_bits = bits,                                                  \
          .lane_bits = WMMA_WAVE_BITS,                                       \
          .basis = {ROWS3(1) WMMA16_MORE_##bits(ROWS), COLS4(1), ROWS1(8)}}, \
    WMMA16_D

/* Operands of f32 with k = 4: two neighbours along k in a lane. */
#define WMMA16_PAIRS                                                                            \
    .a = {.reg_bits = 1, .lane_bits = WMMA_WAVE_BITS, .basis = {COLS1(1), ROWS4(1), COLS1(2)}}, \
    .b = {.reg_bits = 1, .lane_bits = WMMA_WAVE_BITS, .basis = {ROWS1(1), COLS4(1), ROWS1(2)}}, \
    WMMA16_D

/* Scaled products. The 32 elements of e4m3 in a lane are 16 of each half of k; elements of e2m1 are
 * consecutive. Source: Triton's layouts for gfx950
 * (test/TritonGPU/amd/accelerate-amd-matmul-mfma-gfx950.mlir), and the ROCm blog "Matrix Core
 * Programming on AMD CDNA3 and CDNA4". */
#define MMA32_RIGHT_E4M3                                      \
    {                                                         \
        .reg_bits = 5, .lane_bits = TIR_WAVE_BITS, .basis = { \
            ROWS4(1),                                         \
            ROWS1(32),                                        \
            COLS5(1),                                         \
            ROWS1(16)                                         \
        }                                                     \
    }
#define MMA32_RIGHT_E2M1                                                                      \
    {                                                                                         \
        .reg_bits = 4, .lane_bits = TIR_WAVE_BITS, .basis = { ROWS4(1), COLS5(1), ROWS1(16) } \
    }
#define MMA32_SCALED(right)                                     \
    .a = {.reg_bits = 5,                                        \
          .lane_bits = TIR_WAVE_BITS,                           \
          .basis = {COLS4(1), COLS1(32), ROWS5(1), COLS1(16)}}, \
    .b = MMA32_RIGHT_##right,                                   \
    .d = {.reg_bits = 4,                                        \
          .lane_bits = TIR_WAVE_BITS,                           \
          .basis = {ROWS2(1), ROWS2(8), COLS5(1), ROWS1(4)}}
#define MMA16_RIGHT_E4M3                                      \
    {                                                         \
        .reg_bits = 5, .lane_bits = TIR_WAVE_BITS, .basis = { \
            ROWS4(1),                                         \
            ROWS1(64),                                        \
            COLS4(1),                                         \
            ROWS2(16)                                         \
        }                                                     \
    }
#define MMA16_RIGHT_E2M1                                                                      \
    {                                                                                         \
        .reg_bits = 4, .lane_bits = TIR_WAVE_BITS, .basis = { ROWS4(1), COLS4(1), ROWS2(16) } \
    }
#define MMA16_SCALED(right)                                     \
    .a = {.reg_bits = 5,                                        \
          .lane_bits = TIR_WAVE_BITS,                           \
          .basis = {COLS4(1), COLS1(64), ROWS4(1), COLS2(16)}}, \
    .b = MMA16_RIGHT_##right,                                   \
    .d = {.reg_bits = 2, .lane_bits = TIR_WAVE_BITS, .basis = {ROWS2(1), COLS4(1), ROWS2(4)}}

#endif

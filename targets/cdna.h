/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CDNA targets share: facts that are the same on each, and how their matrix instructions
 * spread operands over a wave.
 *
 * In every dense MFMA with one block, lane l holds row (A) or column (B, D) l mod m. The lanes
 * above count k in steps of the elements that a lane holds. D goes in groups of 4 rows: first the 4
 * of a lane, then the lane groups, then (32x32) the next registers. Source: the register maps of
 * AMD's matrix instruction calculator; tests/targets checks them element by element.
 */
#ifndef TARGETS_CDNA_H
#define TARGETS_CDNA_H

#include "ir/ir.h"
#include "targets/tgt.h"

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

/* One row: 32x32 and 16x16 shapes take 32 and 16 clocks at every k below (AMD's calculator for
 * CDNA3; LLVM SISchedule.td's passes for gfx950's own). `open` is what a gfx leaves for
 * other instructions. */
#define MMA32(depth, bits, in, acc, mnemonic, llvm, open) \
    {.name = mnemonic,                                    \
     .intrinsic = "llvm.amdgcn." llvm,                    \
     .m = 32,                                             \
     .n = 32,                                             \
     .k = depth,                                          \
     .in_dtype = in,                                      \
     .acc_dtype = acc,                                    \
     .cycles = 32,                                        \
     .shadow_slots = open,                                \
     MMA32_OPERANDS(bits)}
#define MMA16(depth, bits, in, acc, mnemonic, llvm, open) \
    {.name = mnemonic,                                    \
     .intrinsic = "llvm.amdgcn." llvm,                    \
     .m = 16,                                             \
     .n = 16,                                             \
     .k = depth,                                          \
     .in_dtype = in,                                      \
     .acc_dtype = acc,                                    \
     .cycles = 16,                                        \
     .shadow_slots = open,                                \
     MMA16_OPERANDS(bits)}

/* Fields of struct tir_machine and struct tgt that are the same on every CDNA3 and CDNA4 part. */
#define CDNA_MACHINE                                \
    .lane_bits = 6,           /* 64 lanes a wave */ \
        .vgprs_per_simd = 512 /* LLVM AMDGPUBaseInfo, getTotalNumVGPRs with gfx90a-insts */

#define CDNA_UNIT                                                                        \
    .simds = 4,                    /* CDNA3 white paper, "Compute units" */              \
        .wave_slots = 8,           /* LLVM AMDGPUBaseInfo, getMaxWavesPerEU */           \
        .vgpr_granule = 8,         /* LLVM AMDGPUBaseInfo, getVGPRAllocGranule */        \
        .max_vgprs = 512,          /* LLVM AMDGPUBaseInfo: 256 VGPRs and 256 AGPRs */    \
        .max_waves = 16,           /* LLVM AMDGPUBaseInfo: 1024 threads a workgroup */   \
        .code_bytes = 65536,       /* CDNA3 white paper: shared by two CUs */            \
        .l2_bytes = 4 << 20,       /* CDNA3 white paper: 16 channels of 256 KB an XCD */ \
        .xcds = 8,                 /* CDNA3 white paper; MI355X data sheet */            \
        .pk_f32_stalls_mfma = true /* LLVM SIInstrInfo, neverCoissue() */

#endif

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
 * CDNA3; LLVM SISchedule.td's passes for gfx950's own). Of these the facts say how many are closed
 * to other instructions. FACT_<name> are the rows of targets/facts/. */
#define OPEN_SLOTS(cycles, closed) (((cycles) - (closed)) / FACT_issue_period)

#define MMA32(depth, bits, in, acc, mnemonic, llvm)      \
    {.name = mnemonic,                                   \
     .intrinsic = "llvm.amdgcn." llvm,                   \
     .m = 32,                                            \
     .n = 32,                                            \
     .k = depth,                                         \
     .in_dtype = in,                                     \
     .acc_dtype = acc,                                   \
     .cycles = 32,                                       \
     .shadow_slots = OPEN_SLOTS(32, FACT_matrix_closed), \
     MMA32_OPERANDS(bits)}
/* A row that is found only by its k: 2^bits elements of k a lane, twice the clocks. */
#define MMA32_LONG(depth, bits, in, acc, mnemonic, llvm) \
    {.name = mnemonic,                                   \
     .intrinsic = "llvm.amdgcn." llvm,                   \
     .m = 32,                                            \
     .n = 32,                                            \
     .k = depth,                                         \
     .by_k = true,                                       \
     .in_dtype = in,                                     \
     .acc_dtype = acc,                                   \
     .cycles = 64,                                       \
     .shadow_slots = OPEN_SLOTS(64, FACT_matrix_closed), \
     MMA32_OPERANDS(bits)}
#define MMA16(depth, bits, in, acc, mnemonic, llvm)            \
    {.name = mnemonic,                                         \
     .intrinsic = "llvm.amdgcn." llvm,                         \
     .m = 16,                                                  \
     .n = 16,                                                  \
     .k = depth,                                               \
     .in_dtype = in,                                           \
     .acc_dtype = acc,                                         \
     .cycles = 16,                                             \
     .shadow_slots = OPEN_SLOTS(16, FACT_matrix_closed_short), \
     MMA16_OPERANDS(bits)}

/* Fields of struct tir_machine and struct tgt that the facts have, or that are the same on every
 * CDNA3 and CDNA4 part. Registers (256 VGPRs and 256 AGPRs) and 1024 threads a workgroup: LLVM
 * AMDGPUBaseInfo, getTotalNumVGPRs with gfx90a-insts. SIMDs: CDNA3 white paper, "Compute units".
 * Packed floats: LLVM SIInstrInfo, neverCoissue(). */
#define CDNA_MACHINE                                                       \
    .lane_bits = 6, .vgprs_per_simd = 512, .lds_bytes = FACT_lds_bytes,    \
    .lds_granule = FACT_lds_granule, .lds_bank_bytes = 4 * FACT_lds_banks, \
    .exp_slots = FACT_trans_cycles / FACT_issue_period

#define CDNA_UNIT                                                                                  \
    .simds = 4, .wave_slots = FACT_wave_slots, .vgpr_granule = FACT_vgpr_granule,                  \
    .max_vgprs = 512, .max_waves = 16, .code_bytes = FACT_icache_bytes, .l2_bytes = FACT_l2_bytes, \
    .xcds = FACT_xcds, .cus = FACT_cus, .clock_mhz = FACT_max_mhz,                                 \
    .hbm_gb_per_s = FACT_hbm_peak_gb_per_s, .pk_f32_stalls_mfma = true

#endif

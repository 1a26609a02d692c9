/* SPDX-License-Identifier: Apache-2.0
 *
 * gfx950: CDNA4, as MI355X.
 */
#include "targets/cdna.h"

enum {
#define P(name, value, unit, tag, low, high, source) FACT_##name = (int)(value),
#include "targets/facts/gfx950.def"
};

/* First match wins, larger k first; CDNA3's shapes remain, at half the rate. 24 of the 32 clocks
 * are open (measured on MI355X: ROCm/gfx950-gluon-tutorials, mfma_coissue_scheduling.md); for 16x16
 * nobody has published a figure, and the same 8 closed clocks are assumed. */
static const struct tir_mma mma[] = {
    MMA32(16, 3, TIR_BF16, TIR_F32, "mfma_f32_32x32x16_bf16", "mfma.f32.32x32x16.bf16"),
    MMA32(16, 3, TIR_F16, TIR_F32, "mfma_f32_32x32x16_f16", "mfma.f32.32x32x16.f16"),
    MMA32(8, 2, TIR_BF16, TIR_F32, "mfma_f32_32x32x8_bf16", "mfma.f32.32x32x8bf16.1k"),
    MMA32(8, 2, TIR_F16, TIR_F32, "mfma_f32_32x32x8_f16", "mfma.f32.32x32x8f16"),
    MMA32(16, 3, TIR_FP8, TIR_F32, "mfma_f32_32x32x16_fp8_fp8", "mfma.f32.32x32x16.fp8.fp8"),
    MMA32_LONG(64, 5, TIR_FP8, TIR_F32, "mfma_f32_32x32x64_f8f6f4",
               "mfma.scale.f32.32x32x64.f8f6f4"),
    MMA32(32, 4, TIR_I8, TIR_I32, "mfma_i32_32x32x32_i8", "mfma.i32.32x32x32.i8"),
    MMA32(16, 3, TIR_I8, TIR_I32, "mfma_i32_32x32x16_i8", "mfma.i32.32x32x16.i8"),
    MMA16(32, 3, TIR_BF16, TIR_F32, "mfma_f32_16x16x32_bf16", "mfma.f32.16x16x32.bf16"),
    MMA16(32, 3, TIR_F16, TIR_F32, "mfma_f32_16x16x32_f16", "mfma.f32.16x16x32.f16"),
    MMA16(16, 2, TIR_BF16, TIR_F32, "mfma_f32_16x16x16_bf16", "mfma.f32.16x16x16bf16.1k"),
    MMA16(16, 2, TIR_F16, TIR_F32, "mfma_f32_16x16x16_f16", "mfma.f32.16x16x16f16"),
    MMA16(32, 3, TIR_FP8, TIR_F32, "mfma_f32_16x16x32_fp8_fp8", "mfma.f32.16x16x32.fp8.fp8"),
    MMA16(64, 4, TIR_I8, TIR_I32, "mfma_i32_16x16x64_i8", "mfma.i32.16x16x64.i8"),
    MMA16(32, 3, TIR_I8, TIR_I32, "mfma_i32_16x16x32_i8", "mfma.i32.16x16x32.i8"),
};

const struct tgt tgt_gfx950 = {
    .machine =
        {
            CDNA_MACHINE,
            .name = "gfx950",
            .mma = mma,
            .n_mma = sizeof(mma) / sizeof(mma[0]),
            .to_lds_max_bytes = 16, /* llvm-mc: buffer_load_dwordx4 ... lds */
            .swap_slots = FACT_lane_swap_cycles / FACT_issue_period,
            .has_lane_swap = true,   /* LLVM: permlane16-swap, permlane32-swap */
            .has_lds_read_tr = true, /* LLVM: gfx950-insts */
            .has_cvt_pk_bf16 = true, /* LLVM: bf16-cvt-insts */
            .has_cvt_scale = true,   /* LLVM: fp8-cvt-scale-insts */
            .fp8_is_fnuz = false,    /* CDNA4 white paper: OCP e4m3fn */
        },
    CDNA_UNIT,
    .features = "",
    .product = "MI355X",
    .bf16_flop_per_clk = 1024, /* data sheet: 2516 TFLOP/s over 1024 SIMDs at 2.4 GHz */
};

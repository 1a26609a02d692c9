/* SPDX-License-Identifier: Apache-2.0
 *
 * gfx950: CDNA4, as MI355X.
 */
#include "targets/cdna.h"

/* First match wins, larger k first; CDNA3's shapes remain, at half the rate. 24 of the 32 clocks
 * are open (measured on MI355X: ROCm/gfx950-gluon-tutorials, mfma_coissue_scheduling.md); for 16x16
 * nobody has published a figure, and the same 8 closed clocks are assumed. */
static const struct tir_mma mma[] = {
    MMA32(16, 3, TIR_BF16, TIR_F32, "mfma_f32_32x32x16_bf16", "mfma.f32.32x32x16.bf16", 6),
    MMA32(16, 3, TIR_F16, TIR_F32, "mfma_f32_32x32x16_f16", "mfma.f32.32x32x16.f16", 6),
    MMA32(8, 2, TIR_BF16, TIR_F32, "mfma_f32_32x32x8_bf16", "mfma.f32.32x32x8bf16.1k", 6),
    MMA32(8, 2, TIR_F16, TIR_F32, "mfma_f32_32x32x8_f16", "mfma.f32.32x32x8f16", 6),
    MMA32(16, 3, TIR_FP8, TIR_F32, "mfma_f32_32x32x16_fp8_fp8", "mfma.f32.32x32x16.fp8.fp8", 6),
    MMA32(32, 4, TIR_I8, TIR_I32, "mfma_i32_32x32x32_i8", "mfma.i32.32x32x32.i8", 6),
    MMA32(16, 3, TIR_I8, TIR_I32, "mfma_i32_32x32x16_i8", "mfma.i32.32x32x16.i8", 6),
    MMA16(32, 3, TIR_BF16, TIR_F32, "mfma_f32_16x16x32_bf16", "mfma.f32.16x16x32.bf16", 2),
    MMA16(32, 3, TIR_F16, TIR_F32, "mfma_f32_16x16x32_f16", "mfma.f32.16x16x32.f16", 2),
    MMA16(16, 2, TIR_BF16, TIR_F32, "mfma_f32_16x16x16_bf16", "mfma.f32.16x16x16bf16.1k", 2),
    MMA16(16, 2, TIR_F16, TIR_F32, "mfma_f32_16x16x16_f16", "mfma.f32.16x16x16f16", 2),
    MMA16(32, 3, TIR_FP8, TIR_F32, "mfma_f32_16x16x32_fp8_fp8", "mfma.f32.16x16x32.fp8.fp8", 2),
    MMA16(64, 4, TIR_I8, TIR_I32, "mfma_i32_16x16x64_i8", "mfma.i32.16x16x64.i8", 2),
    MMA16(32, 3, TIR_I8, TIR_I32, "mfma_i32_16x16x32_i8", "mfma.i32.16x16x32.i8", 2),
};

const struct tgt tgt_gfx950 = {
    .machine =
        {
            CDNA_MACHINE,
            .name = "gfx950",
            .mma = mma,
            .n_mma = sizeof(mma) / sizeof(mma[0]),
            .lds_bytes = 163840,     /* LLVM AMDGPU.td, addressable LDS */
            .lds_granule = 1280,     /* LLVM AMDGPUBaseInfo: 320 dwords */
            .lds_bank_bytes = 256,   /* CDNA4 white paper: 160 KB, twice the rate */
            .to_lds_max_bytes = 16,  /* llvm-mc: buffer_load_dwordx4 ... lds */
            .exp_slots = 2,          /* 8 clocks, from instruction traces: gfx950-gluon-tutorials */
            .swap_slots = 5,         /* 20 clocks, likewise */
            .has_lane_swap = true,   /* LLVM: permlane16-swap, permlane32-swap */
            .has_lds_read_tr = true, /* LLVM: gfx950-insts */
            .has_cvt_pk_bf16 = true, /* LLVM: bf16-cvt-insts */
            .fp8_is_fnuz = false,    /* CDNA4 white paper: OCP e4m3fn */
        },
    CDNA_UNIT,
    .features = "",
    .product = "MI355X",
    .cus = 256,                /* MI355X data sheet */
    .clock_mhz = 2400,         /* MI355X data sheet */
    .hbm_gb_per_s = 8000,      /* MI355X data sheet */
    .bf16_flop_per_clk = 1024, /* data sheet: 2516 TFLOP/s over 1024 SIMDs at 2.4 GHz */
};

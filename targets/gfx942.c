/* SPDX-License-Identifier: Apache-2.0
 *
 * gfx942: CDNA3, as MI300X.
 */
#include "targets/cdna.h"

enum {
#define P(name, value, unit, tag, low, high, source) FACT_##name = (int)(value),
#include "targets/facts/gfx942.def"
};

/* First match wins, larger k first. AMD's calculator, --detail-instruction: other vector
 * instructions may execute in 28 of the 32 and 12 of the 16 clocks. */
static const struct tir_mma mma[] = {
    MMA32(8, 2, TIR_BF16, TIR_F32, "mfma_f32_32x32x8_bf16", "mfma.f32.32x32x8bf16.1k"),
    MMA32(8, 2, TIR_F16, TIR_F32, "mfma_f32_32x32x8_f16", "mfma.f32.32x32x8f16"),
    MMA32(16, 3, TIR_FP8, TIR_F32, "mfma_f32_32x32x16_fp8_fp8", "mfma.f32.32x32x16.fp8.fp8"),
    MMA32(16, 3, TIR_I8, TIR_I32, "mfma_i32_32x32x16_i8", "mfma.i32.32x32x16.i8"),
    MMA16(16, 2, TIR_BF16, TIR_F32, "mfma_f32_16x16x16_bf16", "mfma.f32.16x16x16bf16.1k"),
    MMA16(16, 2, TIR_F16, TIR_F32, "mfma_f32_16x16x16_f16", "mfma.f32.16x16x16f16"),
    MMA16(32, 3, TIR_FP8, TIR_F32, "mfma_f32_16x16x32_fp8_fp8", "mfma.f32.16x16x32.fp8.fp8"),
    MMA16(32, 3, TIR_I8, TIR_I32, "mfma_i32_16x16x32_i8", "mfma.i32.16x16x32.i8"),
};

const struct tgt tgt_gfx942 = {
    .machine =
        {
            CDNA_MACHINE,
            .name = "gfx942",
            .mma = mma,
            .n_mma = sizeof(mma) / sizeof(mma[0]),
            .to_lds_max_bytes = 4, /* llvm-mc rejects wider */
            .swap_slots = 0,       /* no such instruction */
            .has_lane_swap = false,
            .has_lds_read_tr = false,
            .has_cvt_pk_bf16 = false,
            .has_cvt_scale = false,
            .fp8_is_fnuz = true, /* LLVM AMDGPU.td, FeatureFP8ConversionInsts: fnuz */
        },
    CDNA_UNIT,
    .features = "",
    .product = "MI300X",
    .bf16_flop_per_clk = 512, /* data sheet: 1307.4 TFLOP/s over 1216 SIMDs at 2.1 GHz */
};

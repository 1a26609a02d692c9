; SPDX-License-Identifier: Apache-2.0
; Loops written from published descriptions: the numbers of instructions and their order. They contain
; no code of the described kernels, and their results are meaningless. The file is assembled once per
; target. Every kernel has at most 512 work-items and no arguments.

.set gfx950, 0
.ifdef TARGET_GFX950
.set gfx950, 1
.endif

.macro kernel name, lds
  .text
  .globl \name
  .p2align 8
  .type \name,@function
  .section .rodata,"a"
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_group_segment_fixed_size \lds
    .amdhsa_next_free_vgpr 256
    .amdhsa_next_free_sgpr 96
    .amdhsa_accum_offset 256
    .amdhsa_system_sgpr_workgroup_id_x 1
  .end_amdhsa_kernel
  .pushsection .kernels,"e",@progbits ; metadata.py reads it
  .ascii "\name 512\n"
  .popsection
  .text
\name:
.endm

; Sets v0 to the lane's number in its wave times \stride.
.macro lane_offset stride
  v_and_b32 v0, 0x3f, v0
  v_mul_u32_u24 v0, \stride, v0
  s_nop 4
.endm

; Sets the registers that loops read to ones of bf16; zeros would not be typical operands.
.macro clear
  .set i, 1
  .rept 250
    v_mov_b32 v[i], 0x3f803f80
    .set i, i + 1
  .endr
.endm

; --- 64 LDS reads by four waves (row A8). The clocks of the kernel without reads are subtracted.
.macro lds_block name, stride, count, read:vararg
  kernel \name, 65536
  lane_offset \stride
  .rept \count
    \read
  .endr
  s_waitcnt lgkmcnt(0)
  s_endpgm
.endm
lds_block lds_none, 4, 0, s_nop 0
lds_block lds_b32, 4, 64, ds_read_b32 v100, v0
lds_block lds_b64, 8, 64, ds_read_b64 v[100:101], v0
lds_block lds_b128, 16, 64, ds_read_b128 v[100:103], v0
lds_block lds_b32_128, 128, 64, ds_read_b32 v100, v0
lds_block lds_b64_128, 128, 64, ds_read_b64 v[100:101], v0
lds_block lds_b128_128, 128, 64, ds_read_b128 v[100:103], v0
lds_block lds_b64_256, 256, 64, ds_read_b64 v[100:101], v0

; --- Attention loops of gfx950 (A1, A2, C1): two tiles of 64 keys per iteration, 32 rows per wave,
; head dim 128, eight waves. A tile has 16 + 16 matrix instructions and, by the instruction counts of
; targets/facts, 16 v_max3, 32 v_fma, 32 v_exp, 32 v_add, 16 v_cvt_pk_bf16 and, eager only, 64
; v_mul. LDS reads, 48 per tile, are between the matrix runs. The upper half of the workgroup runs one
; run later than the lower half.
.if gfx950
.macro matrix reg
  v_mfma_f32_32x32x16_bf16 v[\reg:\reg+15], v[200:203], v[204:207], v[\reg:\reg+15]
.endm

.macro memory_phase reads
  .rept \reads
    ds_read_b64_tr_b16 v[222:223], v0
  .endr
  s_waitcnt lgkmcnt(0)
  s_barrier
.endm

; The matrix instructions between two barriers. One half of the workgroup uses the matrix units while
; the other reads LDS.
.macro end_matrix_run
  s_barrier
.endm

; Under every matrix instruction are vector instructions for 5 issue slots of 4 clocks, of 6 that are
; open; with eager rescaling for 7.
.macro lazy_tile
  .rept 8
    matrix 16
    v_max3_f32 v210, v211, v212, v213
    v_fma_f32 v214, v215, v216, v217
    v_fma_f32 v218, v215, v216, v217
    v_exp_f32 v219, v218
    matrix 32
    v_exp_f32 v220, v214
    v_add_f32 v224, v225, v226
    v_add_f32 v227, v225, v226
    v_cvt_pk_bf16_f32 v228, v225, v226
  .endr
  end_matrix_run
  memory_phase 24
  .rept 8
    matrix 48
    v_max3_f32 v210, v211, v212, v213
    v_fma_f32 v214, v215, v216, v217
    v_fma_f32 v218, v215, v216, v217
    v_exp_f32 v219, v218
    matrix 64
    v_exp_f32 v220, v214
    v_add_f32 v224, v225, v226
    v_add_f32 v227, v225, v226
    v_cvt_pk_bf16_f32 v228, v225, v226
  .endr
  end_matrix_run
  memory_phase 24
.endm

.macro eager_tile
  .rept 8
    matrix 16
    v_max3_f32 v210, v211, v212, v213
    v_fma_f32 v214, v215, v216, v217
    v_fma_f32 v218, v215, v216, v217
    v_exp_f32 v219, v218
    v_mul_f32 v229, v225, v226
    v_mul_f32 v230, v225, v226
    matrix 32
    v_exp_f32 v220, v214
    v_add_f32 v224, v225, v226
    v_add_f32 v227, v225, v226
    v_cvt_pk_bf16_f32 v228, v225, v226
    v_mul_f32 v231, v225, v226
    v_mul_f32 v232, v225, v226
  .endr
  end_matrix_run
  memory_phase 24
  .rept 8
    matrix 48
    v_max3_f32 v210, v211, v212, v213
    v_fma_f32 v214, v215, v216, v217
    v_fma_f32 v218, v215, v216, v217
    v_exp_f32 v219, v218
    v_mul_f32 v229, v225, v226
    v_mul_f32 v230, v225, v226
    matrix 64
    v_exp_f32 v220, v214
    v_add_f32 v224, v225, v226
    v_add_f32 v227, v225, v226
    v_cvt_pk_bf16_f32 v228, v225, v226
    v_mul_f32 v231, v225, v226
    v_mul_f32 v232, v225, v226
  .endr
  end_matrix_run
  memory_phase 24
.endm

; The same work without interleaving: the matrix instructions first, the softmax after them.
.macro apart_tile
  .rept 16
    matrix 16
  .endr
  end_matrix_run
  memory_phase 24
  s_nop 15
  .rept 16
    v_max3_f32 v210, v211, v212, v213
    v_fma_f32 v214, v215, v216, v217
    v_fma_f32 v218, v215, v216, v217
    v_exp_f32 v219, v218
    v_exp_f32 v220, v214
    v_add_f32 v224, v225, v226
    v_add_f32 v227, v225, v226
    v_cvt_pk_bf16_f32 v228, v225, v226
    .rept 4
      v_mul_f32 v229, v225, v226
    .endr
  .endr
  .rept 16
    matrix 48
  .endr
  end_matrix_run
  memory_phase 24
.endm

.macro attention_loop name, tile
  kernel \name, 65536
  v_readfirstlane_b32 s2, v0
  lane_offset 8
  clear_from_16
  s_cmp_lt_u32 s2, 256
  s_cbranch_scc1 1f
  s_barrier            ; delays the upper half by half a tile
1:
  s_movk_i32 s0, 16
  .p2align 5           ; a fetch window, so that the iteration time does not depend on preceding code
2:
  \tile
  \tile
  s_sub_u32 s0, s0, 1
  s_cmp_lg_u32 s0, 0
  s_cbranch_scc1 2b
  s_cmp_lt_u32 s2, 256
  s_cbranch_scc0 3f
  s_barrier
3:
  s_endpgm
.endm
.macro clear_from_16
  .set i, 16
  .rept 230
    v_mov_b32 v[i], 0x3f803f80
    .set i, i + 1
  .endr
.endm

; --- The matrix instructions (row A6) without the softmax, with the same barriers and LDS reads.
.macro bare_tile
  .rept 16
    matrix 16
  .endr
  end_matrix_run
  memory_phase 24
  .rept 16
    matrix 48
  .endr
  end_matrix_run
  memory_phase 24
.endm

; --- A5: the first run of a tile as published. Packed instructions are between the matrix instructions in
; the version before, and after them in the version after. Where the publication has an ellipsis (four
; matrix instructions), six instructions follow each. The second run spreads its 54 + 33 instructions
; evenly, in both versions.
.macro singles count
  .rept \count
    v_add_f32 v224, v225, v226
  .endr
.endm
.macro packed count
  .rept \count
    v_pk_mul_f32 v[224:225], v[226:227], v[228:229]
  .endr
.endm
.macro converts count
  .rept \count
    v_cvt_pk_bf16_f32 v228, v225, v226
  .endr
.endm
.macro second_run
  end_matrix_run
  memory_phase 24
  .rept 16
    matrix 48
    singles 3
    v_exp_f32 v219, v218
    v_exp_f32 v220, v218
  .endr
  singles 6
  v_exp_f32 v219, v218
  end_matrix_run
  memory_phase 24
.endm
.macro packed_between_tile
  .rept 5
    matrix 16
    singles 6
    packed 4
  .endr
  .rept 4
    matrix 16
    singles 6
  .endr
  matrix 16
  converts 5
  .rept 6
    matrix 16
  .endr
  singles 3
  converts 11
  second_run
.endm
.macro packed_behind_tile
  .rept 16
    matrix 16
    singles 6
  .endr
  packed 3
  singles 1
  converts 16
  second_run
.endm

attention_loop fa_bare, bare_tile
attention_loop fa_packed_between, packed_between_tile
attention_loop fa_packed_behind, packed_behind_tile
attention_loop fa_lazy, lazy_tile
attention_loop fa_eager, eager_tile
attention_loop fa_apart, apart_tile

.endif

; --- Rates (row C4, and peaks of the data sheets): loops of one instruction.
.macro rate name, text:vararg
  kernel \name, 0
  clear
  s_movk_i32 s0, 16
  .p2align 5
1:
  .rept 128
    \text
  .endr
  s_sub_u32 s0, s0, 1
  s_cmp_lg_u32 s0, 0
  s_cbranch_scc1 1b
  s_endpgm
.endm
rate peak_fma_f64, v_fma_f64 v[16:17], v[200:201], v[204:205], v[16:17]
rate peak_pk_fma_f32, v_pk_fma_f32 v[16:17], v[200:201], v[204:205], v[16:17]
rate peak_f64, v_mfma_f64_16x16x4_f64 v[16:23], v[200:201], v[204:205], v[16:23]
rate peak_f32, v_mfma_f32_32x32x2_f32 v[16:31], v200, v204, v[16:31]
.if gfx950
rate peak_f16, v_mfma_f32_32x32x16_f16 v[16:31], v[200:203], v[204:207], v[16:31]
rate peak_i8, v_mfma_i32_32x32x32_i8 v[16:31], v[200:203], v[204:207], v[16:31]
rate peak_fp8, v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[200:207], v[208:215], v[16:31]
rate peak_fp6, v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[200:205], v[208:213], v[16:31] cbsz:2 blgp:2
rate peak_fp4, v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[200:203], v[208:211], v[16:31] cbsz:4 blgp:4
rate rate_bf16, v_mfma_f32_16x16x32_bf16 v[16:19], v[200:203], v[204:207], v[16:19]
rate rate_fp8, v_mfma_f32_16x16x32_fp8_fp8 v[16:19], v[200:201], v[204:205], v[16:19]
rate rate_f8f6f4, v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[200:207], v[208:215], v[16:19]
.else
rate peak_f16, v_mfma_f32_32x32x8_f16 v[16:31], v[200:201], v[204:205], v[16:31]
rate peak_i8, v_mfma_i32_32x32x16_i8 v[16:31], v[200:201], v[204:205], v[16:31]
rate peak_fp8, v_mfma_f32_32x32x16_fp8_fp8 v[16:31], v[200:201], v[204:205], v[16:31]
rate peak_xf32, v_mfma_f32_32x32x4_xf32 v[16:31], v[200:201], v[204:205], v[16:31]
.endif

; SPDX-License-Identifier: Apache-2.0
; Loops that each measure one parameter of the timing model; probe_run.c launches them. Most kernels run their
; body twice: once to warm the caches, once to measure. Work-item 0 stores the clocks of the second run.
; Kernel arguments: address of the result in s[4:5], address of the data in s[6:7].

.set gfx950, 0
.ifdef TARGET_GFX950
.set gfx950, 1
.endif

.set kernarg, 16 ; bytes of kernel arguments; 0: the kernel has none
; Begins a kernel: its descriptor, a line of metadata, the loads of its arguments. `lds` is in bytes. `vgprs`
; counts VGPRs and AGPRs, `accum` is the first AGPR, `first` an instruction before all others. Sets v1 to the
; work-item, v2 to 0, and v3 to v62 to 1.0 as bf16.
.macro kernel name, lds=0, vgprs=128, accum=128, first:vararg
  .text
  .globl \name
  .p2align 8
  .type \name,@function
  .section .rodata,"a"
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_group_segment_fixed_size \lds
    .amdhsa_kernarg_size kernarg
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr \vgprs
    .amdhsa_next_free_sgpr 64
    .amdhsa_accum_offset \accum
    .amdhsa_system_sgpr_workgroup_id_x 1
  .end_amdhsa_kernel
  .pushsection .kernels,"e",@progbits ; metadata.py reads it
  .if kernarg
    .ascii "\name 256 global_buffer:8 global_buffer:8\n"
  .else
    .ascii "\name 256\n"
  .endif
  .popsection
  .text
\name:
  \first
  .if kernarg
    s_load_dwordx4 s[4:7], s[0:1], 0x0
  .endif
  v_and_b32 v1, 0x3ff, v0
  v_mov_b32 v2, 0
  .set i, 3
  .rept 60
    v_mov_b32 v[i], 0x3f803f80
    .set i, i + 1
  .endr
  s_waitcnt lgkmcnt(0)
.endm

; Begins the measured part of a kernel, which runs `rounds` times. Copies the address of the data to s[20:21].
.macro begin rounds=2
  s_mov_b64 s[20:21], s[6:7]
  s_movk_i32 s10, \rounds
  .p2align 5
9:
  s_barrier
  s_memtime s[12:13]
  s_waitcnt lgkmcnt(0)
  .p2align 5
.endm

; Ends the measured part: repeats it until s10, the rounds left, is 0, stores the clocks and ends the kernel.
.macro finish
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_memtime s[14:15]
  s_waitcnt lgkmcnt(0)
  s_sub_u32 s16, s14, s12
  s_sub_u32 s10, s10, 1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc0 8f
  s_getpc_b64 s[22:23]
7:
  s_add_u32 s22, s22, 9b-7b
  s_addc_u32 s23, s23, -1
  s_setpc_b64 s[22:23]
8:
  v_cmp_eq_u32 vcc, 0, v1
  s_and_saveexec_b64 s[18:19], vcc
  v_mov_b32 v3, s16
  global_store_dword v2, v3, s[4:5]
  s_endpgm
.endm

; Defines a kernel whose measured part is the instruction or macro `text`, `count` times.
.macro probe name, count, text:vararg
  kernel \name
  begin
  .rept \count
    \text
  .endr
  finish
.endm

; No instruction: the clocks of the two s_memtime alone.
probe nothing, 0, s_nop 0

; --- Issue
probe mul32, 128, v_mul_lo_u32 v10, v11, v12
probe trans, 128, v_exp_f32 v10, v11
.if gfx950
.macro swaps ; two wait states pass before a register is used again
  v_permlane32_swap_b32 v10, v11
  v_permlane32_swap_b32 v12, v13
  v_permlane32_swap_b32 v14, v15
  v_permlane32_swap_b32 v16, v17
.endm
probe lane_swap, 32, swaps
.endif

; Packed instructions under an MFMA, which wait for a hazard.
.macro packed
  v_mfma_f32_32x32x8_f16 v[16:31], v[32:33], v[34:35], v[16:31]
  v_pk_mul_f32 v[36:37], v[38:39], v[40:41]
  v_pk_mul_f32 v[42:43], v[38:39], v[40:41]
.endm
probe packed_f32, 32, packed

; An MFMA of 16 clocks, and three VALU instructions. They fit under it if the VALU may issue 4 clocks after the
; MFMA.
.if gfx950
.macro short_shadow_body
  v_mfma_f32_16x16x16_f16 v[16:19], v[32:33], v[34:35], v[16:19]
  v_add_f32 v36, v38, v39
  v_add_f32 v37, v38, v39
  v_add_f32 v40, v38, v39
.endm
probe short_shadow, 32, short_shadow_body
.endif

; A taken branch to the next 32-byte fetch window.
.macro jump
  s_branch 1f
  .p2align 5
1:
.endm
probe branch_taken, 64, jump

; Branches that are not taken.
kernel branch_fall
  s_cmp_eq_u32 s4, s4
  begin
  .rept 64
    s_cbranch_scc0 1f
    1:
  .endr
  finish

; Instructions of 8 bytes, every fourth of them in two 32-byte fetch windows.
kernel straddle
  begin
  s_nop 0
  .rept 128
    v_add_f32 v10, 0x40490fdb, v11
  .endr
  finish

; A branch to an instruction of 8 bytes that begins 4 bytes before the end of a fetch window.
.macro jump_late
  s_branch 1f
  .rept 6
    s_nop 0
  .endr
1:
  v_add_f32 v10, 0x40490fdb, v11
  .p2align 5
.endm
probe branch_straddle, 64, jump_late

probe barrier, 64, s_barrier

; 96 KiB of code, more than the instruction cache holds.
probe fetch, 12288, v_add_f32 v10, 0x40490fdb, v11

; 8 KiB of code, executed once: tests whether earlier launches leave it in the instruction cache.
kernel code
  begin 1
  .rept 1024
    v_add_f32 v10, 0x40490fdb, v11
  .endr
  finish

; --- LDS
; A chain of LDS loads: each gives the address of the next.
kernel lds_chain, 4096
  v_lshlrev_b32 v3, 2, v1
  ds_write_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  v_mov_b32 v10, 0
  begin
  .rept 32
    ds_read_b32 v10, v10
    s_waitcnt lgkmcnt(0)
  .endr
  finish

; LDS loads with bank conflicts: work-items read 128 bytes apart.
kernel lds_stride, 65536
  v_lshlrev_b32 v3, 7, v1
  begin
  .rept 64
    ds_read_b32 v10, v3
  .endr
  finish

; LDS stores of 16 bytes per work-item.
kernel lds_write, 65536
  v_lshlrev_b32 v3, 4, v1
  begin
  .rept 64
    ds_write_b128 v3, v[12:15]
  .endr
  finish

; --- Memory: chains of loads. Each load gives the next one's address: the address itself for scalar loads, an
; offset for vector loads.
kernel scalar_chain
  begin
  .rept 32
    s_load_dwordx2 s[20:21], s[20:21], 0x0
    s_waitcnt lgkmcnt(0)
  .endr
  finish

.macro chain name, rounds
kernel \name
  v_mov_b32 v10, 0
  begin \rounds
  .rept 32
    global_load_dword v10, v10, s[6:7]
    s_waitcnt vmcnt(0)
  .endr
  finish
.endm
chain near_chain, 2
chain far_chain, 1

; Fences of device scope: a release without dirty lines, and an acquire with a load after it.
.macro release
  buffer_wbl2 sc1
  s_waitcnt vmcnt(0)
.endm
probe writeback, 16, release
.macro acquire
  buffer_inv sc1
  global_load_dword v10, v2, s[6:7]
  s_waitcnt vmcnt(0)
.endm
probe invalidate, 16, acquire

; Atomic additions of all lanes to one address, which memory executes one after the other.
probe atomic, 32, global_atomic_add v2, v3, s[6:7]

; --- Power: MFMAs without a pause on all SIMDs, long enough for the clock to adapt. The number in a name is the
; bits of an operand's element.
.macro heat name, text:vararg
kernel \name
  s_movk_i32 s10, 16
  .p2align 5
1:
  .rept 16
    \text
  .endr
  s_sub_u32 s10, s10, 1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 1b
  s_endpgm
.endm
; The clock law is a function of the share of clocks with a 16-bit MFMA: here all, in warm_16 4 of 10. There is
; one wave per SIMD, without other work.
heat heat_16, v_mfma_f32_32x32x8_f16 v[16:31], v[32:33], v[34:35], v[16:31]
kernel warm_16, 0, 512, 256
  s_movk_i32 s10, 16
  .p2align 5
1:
  .rept 16
    v_mfma_f32_32x32x8_f16 v[16:31], v[32:33], v[34:35], v[16:31]
    s_nop 15
    s_nop 5
  .endr
  s_sub_u32 s10, s10, 1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 1b
  s_endpgm
heat heat_8, v_mfma_f32_32x32x16_fp8_fp8 v[16:31], v[32:33], v[34:35], v[16:31]
heat heat_32, v_mfma_f32_32x32x2_f32 v[16:31], v32, v33, v[16:31]
.if gfx950
heat heat_4, v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[32:35], v[36:39], v[16:31] cbsz:4 blgp:4
.endif

; A cooperative launch without arguments: 256 workgroups of one wave pass 40 global barriers. Each barrier sets
; the number of other waves (v2) for the next one; the runtime has set the number for the first.
.set kernarg, 0
kernel meet, 0, 64, 64, s_mov_b32 m0, 0
  v_mov_b32 v2, 255
  .rept 40
    ds_gws_barrier v2 gds
    s_waitcnt lgkmcnt(0)
  .endr
  s_endpgm
.set kernarg, 16

; --- Launches: an empty kernel with few registers (tiny) and with all (idle), and a store with all (full).
.macro kernel_of_nothing name, vgprs, accum
kernel \name, 0, \vgprs, \accum, s_endpgm
.endm
kernel_of_nothing tiny, 8, 8
kernel_of_nothing idle, 512, 256

kernel full, 0, 512, 256
  s_lshl_b32 s3, s2, 6
  v_lshl_add_u32 v3, v1, 2, s3
  v_and_b32 v3, 0xffc, v3
  global_store_dword v3, v2, s[4:5]
  s_endpgm

; Copies 16 bytes per work-item from data to results.
kernel copy, 0, 64, 64
  s_lshl_b32 s3, s2, 8
  v_add_u32 v3, s3, v1
  v_lshlrev_b32 v3, 4, v3
  global_load_dwordx4 v[4:7], v3, s[6:7]
  s_waitcnt vmcnt(0)
  global_store_dwordx4 v3, v[4:7], s[4:5]
  s_endpgm

; One workgroup of each XCD reads the same 512 KiB. The first of them gets the data from memory, the others from
; the MALL. Workgroups of the same XCD read different data, so that its L2 does not help.
kernel again, 0, 64, 64
  s_lshr_b32 s3, s2, 3
  s_lshl_b32 s3, s3, 19
  v_lshl_add_u32 v3, v1, 4, s3
  s_movk_i32 s10, 16
1:
  .set i, 8
  .rept 8
    global_load_dwordx4 v[i:i+3], v3, s[6:7]
    v_add_u32 v3, 0x1000, v3
    .set i, i + 4
  .endr
  s_sub_u32 s10, s10, 1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 1b
  s_waitcnt vmcnt(0)
  s_endpgm

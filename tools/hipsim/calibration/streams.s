; SPDX-License-Identifier: Apache-2.0
; Streams of floats: c = a + b, and c = max(a, 0). A work-item has one element, a workgroup 256
; work-items. Arguments: the addresses a, b and c; in loops the third one is the number of iterations.

.macro kernel name, third=global_buffer
  .text
  .globl \name
  .p2align 8
  .type \name,@function
  .section .rodata,"a"
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_kernarg_size 24
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 8
    .amdhsa_next_free_sgpr 16
    .amdhsa_accum_offset 8
    .amdhsa_system_sgpr_workgroup_id_x 1
  .end_amdhsa_kernel
  .pushsection .kernels,"e",@progbits ; metadata.py reads it
  .ascii "\name 256 global_buffer:8 global_buffer:8 \third:8\n"
  .popsection
  .text
\name:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[8:9], s[0:1], 0x10
  s_lshl_b32 s3, s2, 10
  v_and_b32 v0, 0x3ff, v0
  v_lshl_add_u32 v0, v0, 2, s3
  s_waitcnt lgkmcnt(0)
.endm

kernel vectoradd
  global_load_dword v1, v0, s[4:5]
  global_load_dword v2, v0, s[6:7]
  s_waitcnt vmcnt(0)
  v_add_f32 v1, v1, v2
  global_store_dword v0, v1, s[8:9]
  s_endpgm

kernel relu
  global_load_dword v1, v0, s[4:5]
  s_waitcnt vmcnt(0)
  v_max_f32 v1, 0, v1
  global_store_dword v0, v1, s[8:9]
  s_endpgm

; A chain of dependent loads (row A10): every dword that it reads has the byte offset of the next. The
; third argument is the number of iterations, of 16 loads each.
kernel chase, by_value
  v_mov_b32 v1, 0
1:
  .rept 16
    global_load_dword v1, v1, s[4:5]
    s_waitcnt vmcnt(0)
  .endr
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 1b
  s_endpgm

; Loads of 16 bytes per lane from the same addresses, repeated, so that the L1 serves them (row C5).
; Groups of `lanes` lanes are neighbours in a line of 128 bytes.
.macro rows name, lanes, shift
kernel \name, by_value
  v_and_b32 v0, 0xff, v0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_mbcnt_hi_u32_b32 v0, -1, v0
  v_lshrrev_b32 v1, \shift, v0
  v_and_b32 v2, \lanes - 1, v0
  v_lshlrev_b32 v1, 7, v1
  v_lshl_add_u32 v1, v2, 4, v1
1:
  .rept 32
    global_load_dwordx4 v[4:7], v1, s[4:5]
  .endr
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 1b
  s_waitcnt vmcnt(0)
  s_endpgm
.endm
rows rows_of_128, 8, 3
rows rows_of_64, 4, 2

; SPDX-License-Identifier: Apache-2.0
; Loops of matrix products, written from published descriptions (GLUON). The descriptions say which
; loads, LDS reads, LDS writes and matrix instructions a K step has, and their order. The loops contain
; no code of the described kernels, and their results are meaningless. Arguments: the addresses of A
; and B; the address of a table with the byte offsets of every workgroup's rows of A and B; the number
; of K steps; the bytes of a row.

.macro kernel name, vgprs, items ; items: work-items of a workgroup
  .text
  .globl \name
  .p2align 8
  .type \name,@function
  .section .rodata,"a"
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_group_segment_fixed_size 65536
    .amdhsa_kernarg_size 32
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr \vgprs
    .amdhsa_next_free_sgpr 100
    .amdhsa_accum_offset 256
    .amdhsa_system_sgpr_workgroup_id_x 1
  .end_amdhsa_kernel
  .pushsection .kernels,"e",@progbits ; metadata.py reads it
  .ascii "\name \items global_buffer:8 global_buffer:8 global_buffer:8 by_value:4 by_value:4\n"
  .popsection
  .text
\name:
.endm

; Sets the addresses of `na` loads of A and `nb` loads of B. s[32 + 2j : 33 + 2j] is the address of the
; rows of load j, first the loads of A, then those for B. v1 and v2 are the lane's byte offset from it
; in A and B; eight lanes have a row of 128 bytes. v3 is an LDS address without bank conflicts.
.macro setup na, nb
  s_load_dwordx8 s[4:11], s[0:1], 0x0
  s_lshl_b32 s3, s2, 3
  v_lshrrev_b32 v4, 6, v0
  s_waitcnt lgkmcnt(0)
  s_load_dwordx2 s[12:13], s[8:9], s3
  v_and_b32 v0, 63, v0
  v_lshrrev_b32 v5, 3, v0
  v_and_b32 v6, 7, v0
  v_lshlrev_b32 v6, 4, v6
  v_mul_u32_u24 v1, 8 * \na, v4
  v_mul_u32_u24 v2, 8 * \nb, v4
  v_add_u32 v1, v1, v5
  v_add_u32 v2, v2, v5
  v_mul_lo_u32 v1, v1, s11
  v_mul_lo_u32 v2, v2, s11
  v_add_u32 v1, v1, v6
  v_add_u32 v2, v2, v6
  v_lshlrev_b32 v3, 4, v0
  s_lshl_b32 s14, s11, 3
  s_waitcnt lgkmcnt(0)
  s_add_u32 s4, s4, s12
  s_addc_u32 s5, s5, 0
  s_add_u32 s6, s6, s13
  s_addc_u32 s7, s7, 0
  .set j, 0
  .rept \na
    s_mov_b64 s[32 + 2 * j:33 + 2 * j], s[4:5]
    s_add_u32 s4, s4, s14
    s_addc_u32 s5, s5, 0
    .set j, j + 1
  .endr
  .rept \nb
    s_mov_b64 s[32 + 2 * j:33 + 2 * j], s[6:7]
    s_add_u32 s6, s6, s14
    s_addc_u32 s7, s7, 0
    .set j, j + 1
  .endr
  s_mov_b32 m0, 0
  .set i, 16
  .rept 240
    v_mov_b32 v[i], 0x3f803f80
    .set i, i + 1
  .endr
.endm

.macro next_step
  v_add_u32 v1, 0x80, v1
  v_add_u32 v2, 0x80, v2
  s_sub_u32 s10, s10, 1
  s_cmp_lg_u32 s10, 0
.endm

.ifdef TARGET_GFX950
; --- Tiles of BM x BN x 64 on gfx950 (row A9): four waves, MFMAs of 16x16x32, direct-to-LDS loads, as
; many LDS buffers as fit. Loads and LDS reads are spread evenly over the MFMAs. With n buffers, every
; quarter of a step waits for the loads that the same quarter issued n - 1 steps before.
.macro tile_loop name, bm, bn, buffers
  kernel \name, 512, 256
  .set na, \bm / 32
  .set nb, \bn / 32
  .set mfmas, \bm * \bn / 512
  .set reads, \bm / 16 + \bn / 16
  .set loads, na + nb
  setup \bm / 32, \bn / 32
1:
  .set i, 0
  .rept mfmas
    .if i % (mfmas / 4) == 0
      s_waitcnt vmcnt(loads * (\buffers - 1) - loads / 4)
    .endif
    v_mfma_f32_16x16x32_f16 v[16 + i % 16 * 4:19 + i % 16 * 4], v[200:203], v[204:207], v[16 + i % 16 * 4:19 + i % 16 * 4]
    .rept (i + 1) * (na + nb) / mfmas - i * (na + nb) / mfmas
      .if i * (na + nb) / mfmas < na
        global_load_lds_dwordx4 v1, s[32 + 2 * (i * (na + nb) / mfmas):33 + 2 * (i * (na + nb) / mfmas)]
      .else
        global_load_lds_dwordx4 v2, s[32 + 2 * (i * (na + nb) / mfmas):33 + 2 * (i * (na + nb) / mfmas)]
      .endif
    .endr
    .rept (i + 1) * reads / mfmas - i * reads / mfmas
      ds_read_b128 v[208:211], v3
    .endr
    .set i, i + 1
  .endr
  next_step
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_cbranch_scc1 1b
  s_endpgm
.endm
tile_loop tile_256_256, 256, 256, 2
tile_loop tile_256_128, 256, 128, 3
tile_loop tile_128_128, 128, 128, 5
tile_loop tile_256_64, 256, 64, 4
tile_loop tile_128_64, 128, 64, 6

.else
; Sets the LDS address of an operand of 16x16x16 in rows of 128 bytes: lane l reads the 16 bytes number
; l / 16 of row l % 16. That number is swizzled by (row / per_phase) % 8: swizzles (8, per_phase, 8) of
; GLUON, row C6.
.macro swizzled_address per_phase
  v_and_b32 v4, 15, v0
  v_lshrrev_b32 v5, \per_phase - 1, v4
  v_and_b32 v5, 7, v5
  v_lshrrev_b32 v6, 4, v0
  v_xor_b32 v5, v5, v6
  v_lshlrev_b32 v5, 4, v5
  v_lshlrev_b32 v4, 7, v4
  v_add_u32 v3, v4, v5
.endm

; LDS only, four waves: an iteration has \reads reads of operands and \writes writes of whole rows.
.macro swizzle_loop name, per_phase, reads, writes
  kernel \name, 256, 256
  setup 1, 1
  v_mov_b32 v7, v3
  swizzled_address \per_phase
1:
  .rept 4
    .rept \reads
      ds_read_b128 v[208:211], v3
    .endr
    .rept \writes
      ds_write_b128 v7, v[16:19] offset:16384
    .endr
  .endr
  next_step
  s_cbranch_scc1 1b
  s_endpgm
.endm
swizzle_loop swizzle_1, 1, 24, 8
swizzle_loop swizzle_2, 2, 24, 8
swizzle_loop swizzle_2_intra, 2, 32, 16

; --- Four waves on gfx942 (row A7, intra_wave). A K step has two barriers and four regions, each of 64
; MFMAs of 16x16x16, 8 LDS reads, 4 LDS writes and 4 loads. The reads are first, the writes last.
.macro mfmas count
  .rept \count
    v_mfma_f32_16x16x16_f16 a[i % 16 * 4:3 + i % 16 * 4], v[200:201], v[204:205], a[i % 16 * 4:3 + i % 16 * 4]
    .set i, i + 1
  .endr
.endm

.macro intra_region writes, barrier
  .if \barrier
    s_waitcnt lgkmcnt(0)
    s_barrier
  .else
    s_waitcnt lgkmcnt(4 * \writes)
  .endif
  .rept 8
    mfmas 2
    ds_read_b128 v[208:211], v3
  .endr
  mfmas 16
  .if \writes
    s_waitcnt vmcnt(12)
  .endif
  .rept 4
    mfmas 4
    .if \writes
      ds_write_b128 v3, v[16 + 4 * load:19 + 4 * load] offset:16384
    .endif
    mfmas 4
    .if load < 8
      global_load_dwordx4 v[16 + 4 * load:19 + 4 * load], v1, s[32 + 2 * load:33 + 2 * load]
    .else
      global_load_dwordx4 v[16 + 4 * load:19 + 4 * load], v2, s[32 + 2 * load:33 + 2 * load]
    .endif
    .set load, load + 1
  .endr
.endm

.macro intra name, writes
  kernel \name, 512, 256
  setup 8, 8
  .set i, 0
1:
  .set load, 0
  intra_region \writes, 1
  intra_region \writes, 0
  intra_region \writes, 1
  intra_region \writes, 0
  next_step
  s_cbranch_scc1 1b
  s_endpgm
.endm
intra intra_wave, 1
intra intra_wave_no_writes, 0

; --- Eight waves on gfx942 (inter_wave). A step has eight regions, alternately of memory and of matrix
; instructions. The upper half of the workgroup is one region later than the lower half.
.macro inter_dot
  .set i, 0
  .rept 32
    v_mfma_f32_16x16x16_f16 v[64 + i % 16 * 4:67 + i % 16 * 4], v[200:201], v[204:205], v[64 + i % 16 * 4:67 + i % 16 * 4]
    .set i, i + 1
  .endr
  s_barrier
.endm

.macro inter_memory loads, reads, writes
  .rept \loads
    .if load < 4
      global_load_dwordx4 v[16 + 4 * load:19 + 4 * load], v1, s[32 + 2 * load:33 + 2 * load]
    .else
      global_load_dwordx4 v[16 + 4 * load:19 + 4 * load], v2, s[32 + 2 * load:33 + 2 * load]
    .endif
    .set load, load + 1
  .endr
  .rept \reads
    ds_read_b128 v[208:211], v3
  .endr
  .if \writes
    s_waitcnt vmcnt(4 - 4 * (store / 4))
    .rept \writes
      ds_write_b128 v7, v[16 + 4 * store:19 + 4 * store] offset:16384
      .set store, store + 1
    .endr
  .endif
  s_waitcnt lgkmcnt(0)
  s_barrier
.endm

.macro inter name, swizzle
  kernel \name, 256, 512
  v_readfirstlane_b32 s15, v0
  setup 4, 4
  v_mov_b32 v7, v3
  swizzled_address \swizzle
  s_cmp_lt_u32 s15, 256
  s_cbranch_scc1 1f
  s_barrier
1:
  .set load, 0
  .set store, 0
  inter_memory 4, 8, 0
  inter_dot
  inter_memory 4, 4, 0
  inter_dot
  inter_memory 0, 8, 4
  inter_dot
  inter_memory 0, 4, 4
  inter_dot
  next_step
  s_cbranch_scc1 1b
  s_cmp_lt_u32 s15, 256
  s_cbranch_scc0 2f
  s_barrier
2:
  s_endpgm
.endm
inter inter_wave, 1
inter inter_wave_conflicts, 2
.endif

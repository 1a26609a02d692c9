; SPDX-License-Identifier: Apache-2.0
; Kernels for metadata.hip: the note names the first, forgets the second and misnames the third.
.macro kernel name
  .text
  .globl \name
  .p2align 8
  .type \name,@function
\name:
  s_endpgm
  .section .rodata,"a"
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_next_free_vgpr 8
    .amdhsa_next_free_sgpr 16
    .amdhsa_accum_offset 8
  .end_amdhsa_kernel
.endm
kernel named
kernel forgotten
kernel misnamed

.ifndef NO_NOTE
.amdgpu_metadata
amdhsa.version: [ 1, 2 ]
amdhsa.kernels:
  - { .name: named, .symbol: named.kd, .kernarg_segment_size: 0, .kernarg_segment_align: 8,
      .group_segment_fixed_size: 0, .private_segment_fixed_size: 0, .wavefront_size: 64,
      .sgpr_count: 32, .vgpr_count: 8, .max_flat_workgroup_size: 64 }
  - { .name: other, .symbol: misnamed.kd, .kernarg_segment_size: 0, .kernarg_segment_align: 8,
      .group_segment_fixed_size: 0, .private_segment_fixed_size: 0, .wavefront_size: 64,
      .sgpr_count: 32, .vgpr_count: 8, .max_flat_workgroup_size: 64 }
.end_amdgpu_metadata
.endif

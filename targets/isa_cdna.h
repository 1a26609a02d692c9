/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the functions of struct lower_isa that CDNA3 and CDNA4 share, for the tables in
 * isa_cdna3.c and isa_cdna4.c. GFX12 shares some of them (isa_gfx12.h). lower_isa.h describes the
 * functions.
 */
#ifndef TARGETS_ISA_CDNA_H
#define TARGETS_ISA_CDNA_H

#include "targets/lower_isa.h"

/** Word 3 of a buffer resource, its flags: DATA_FORMAT is 32, all other fields are 0 (CDNA3 ISA
 * manual, "Buffer resource descriptor"). */
enum { CDNA_RSRC_FLAGS = 0x20000 };

void cdna_set_registers(struct lower *l, unsigned waves);
void cdna_wait(struct lower *l, int64_t vm, int64_t lgkm);
void cdna_barrier(struct lower *l);
void cdna_set_priority(struct lower *l, unsigned level);
LLVMValueRef cdna_copy_to_lds(struct lower *l, const struct lower_copy *c);
void cdna_gather_to_lds(struct lower *l, const struct lower_gather *g);
LLVMValueRef cdna_multiply(struct lower *l, const struct lower_product *p);
LLVMValueRef cdna_lane_gather(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword);
LLVMValueRef cdna_lane_sum(struct lower *l, LLVMValueRef dword);
LLVMValueRef cdna_lanes_below(struct lower *l, LLVMValueRef set);
LLVMValueRef cdna_to_fp8(struct lower *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef dword,
                         bool high);
LLVMValueRef cdna_fp8_to_f32(struct lower *l, LLVMValueRef dword);
LLVMValueRef cdna_fp8_pair_to_f32(struct lower *l, LLVMValueRef dword, bool high);

/** Converts `count` f32 to bf16, nearest even, by LLVM's fptrunc, for which LLVM selects
 * v_cvt_pk_bf16_f32. */
LLVMValueRef cdna_truncate_to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                                   struct lower_rounding how);

/** Converts `count` f32 to bf16, nearest even, by integer arithmetic, for targets without
 * v_cvt_pk_bf16_f32. */
LLVMValueRef cdna_round_to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                                struct lower_rounding how);

/** Returns for each lane the dword of lane ^ `mask`. The mask is 0 to 15, so that both lanes are in
 * the same row of 16. */
LLVMValueRef cdna_xor_in_row(struct lower *l, LLVMValueRef dword, unsigned mask);

/** Initialises the members of struct lower_isa that are the same for CDNA3 and CDNA4. */
#define LOWER_ISA_CDNA                                                                     \
    .set_registers = cdna_set_registers, .wait = cdna_wait, .barrier = cdna_barrier,       \
    .set_priority = cdna_set_priority, .rsrc_flags = CDNA_RSRC_FLAGS,                      \
    .copy_to_lds = cdna_copy_to_lds, .gather_to_lds = cdna_gather_to_lds,                  \
    .multiply = cdna_multiply, .lane_gather = cdna_lane_gather, .lane_sum = cdna_lane_sum, \
    .lanes_below = cdna_lanes_below, .to_fp8 = cdna_to_fp8, .fp8_to_f32 = cdna_fp8_to_f32, \
    .fp8_pair_to_f32 = cdna_fp8_pair_to_f32

#endif

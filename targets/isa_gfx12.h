/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares instructions that CDNA5 and RDNA4 share, for the tables in isa_cdna5.c and
 * isa_rdna4.c. lower_isa.h describes the functions.
 */
#ifndef TARGETS_ISA_GFX12_H
#define TARGETS_ISA_GFX12_H

#include "targets/isa_cdna.h"

/* Lanes of a row, the unit of DPP. */
enum { GFX12_ROW_LANES = 16 };

void gfx12_set_registers(struct lower *l, unsigned waves);
/** Waits until a counter is at most `most`. Below 0, or at the counter's largest value, there is no
 * wait. */
void gfx12_wait_counter(struct lower *l, enum tir_counter counter, int64_t most);
LLVMValueRef gfx12_lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask);
LLVMValueRef gfx12_lane_sum(struct lower *l, LLVMValueRef sum);
LLVMValueRef gfx12_lanes_below(struct lower *l, LLVMValueRef set);

#endif

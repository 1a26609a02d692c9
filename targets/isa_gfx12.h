/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the functions of struct lower_isa that CDNA5 and RDNA4 share, for the tables in
 * isa_cdna5.c and isa_rdna4.c. lower_isa.h describes the functions.
 */
#ifndef TARGETS_ISA_GFX12_H
#define TARGETS_ISA_GFX12_H

#include "targets/isa_cdna.h"

/* Lanes of a row, within which DPP moves data. */
enum { GFX12_ROW_LANES = 16 };

void gfx12_set_registers(struct lower *l, unsigned waves);
/** Emits a wait until the counter is at most `most`. Emits nothing if `most` is negative or the
 * counter's largest value. */
void gfx12_wait_counter(struct lower *l, enum tir_counter counter, int64_t most);
LLVMValueRef gfx12_lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask);
LLVMValueRef gfx12_lane_sum(struct lower *l, LLVMValueRef sum);
LLVMValueRef gfx12_lanes_below(struct lower *l, LLVMValueRef set);

#endif

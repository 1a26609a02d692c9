/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix instructions of the facts as rows of struct tir_machine.
 */
#ifndef TARGETS_SHAPES_H
#define TARGETS_SHAPES_H

#include "ir/ir.h"
#include "ir/mma_operands.h"

/* The facts name a shape by its side and its operands. */
enum { SIDE_32x32x = 32, SIDE_32x32x64_f8f6f4 = 32, SIDE_16x16x = 16, SIDE_16x16x128_f8f6f4 = 16 };
#define OPERANDS_32x32x(bits) MMA32_OPERANDS(bits)
#define OPERANDS_32x32x64_f8f6f4(bits) MMA32_OPERANDS(bits)
#define OPERANDS_16x16x(bits) MMA16_OPERANDS(bits)
#define OPERANDS_16x16x128_f8f6f4(bits) MMA16_OPERANDS(bits)

/* Clocks in which an instruction admits no other one, by its length. FACT_<name> and
 * CLOCKS_<shape> are the rows of the facts. */
#define SHAPES_CLOSED(clocks) ((clocks) > 16 ? FACT_matrix_closed : FACT_matrix_closed_short)

/* A row MMA or MMA_LONG of the facts, as struct tir_mma. */
#define SHAPES_MMA(long_, shape, depth, bits, in, acc, mnemonic, llvm)                     \
    {.name = mnemonic,                                                                     \
     .intrinsic = "llvm.amdgcn." llvm,                                                     \
     .m = SIDE_##shape,                                                                    \
     .n = SIDE_##shape,                                                                    \
     .k = depth,                                                                           \
     .by_k = long_,                                                                        \
     .in_dtype = TIR_##in,                                                                 \
     .acc_dtype = TIR_##acc,                                                               \
     .cycles = CLOCKS_##shape,                                                             \
     .shadow_slots = (CLOCKS_##shape - SHAPES_CLOSED(CLOCKS_##shape)) / FACT_issue_period, \
     OPERANDS_##shape(bits)}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of RDNA4, and its own functions. The target has no direct-to-LDS loads, so a copy to
 * LDS is a load to registers. The wait for the copy stores the registers to LDS. lower_isa.h
 * describes the functions. Source: RDNA4 ISA manual.
 */
#include "targets/isa_gfx12.h"

#include <string.h>

/* The functions from here on copy to LDS. */

/* Emits stores to LDS of the data of all held copies except the newest `most`. LLVM adds the waits
 * for their loads. */
static void store_copies(struct lower *l, unsigned most)
{
    const unsigned n = l->n_copies > most ? l->n_copies - most : 0;
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef store = LLVMBuildStore(l->b, l->copies[i].data, l->copies[i].lds);
        LLVMSetAlignment(store, 4);
    }
    l->n_copies -= n;
    memmove(l->copies, l->copies + n, l->n_copies * sizeof(l->copies[0]));
}

/* Emits stores to LDS of the data of all held copies. */
static void end_copies(struct lower *l) { store_copies(l, 0); }

/* Records a copy whose `data` are loaded and must later be stored at lds + lane * bytes. If
 * LOWER_HELD copies are held already, emits the store of the oldest first. */
static void hold(struct lower *l, LLVMValueRef data, LLVMValueRef lds, unsigned bytes)
{
    if (l->n_copies == LOWER_HELD)
        store_copies(l, LOWER_HELD - 1);
    LLVMValueRef each = LLVMBuildMul(l->b, l->lane, lower_i32(l, bytes), "");
    l->copies[l->n_copies++] =
        (struct lower_held){data, LLVMBuildGEP2(l->b, l->i8, lds, &each, 1, "")};
}

/* Returns the LLVM type of `bytes` bytes of a lane, a multiple of 4. */
static LLVMTypeRef data_type(struct lower *l, unsigned bytes)
{
    return bytes == 4 ? l->i32 : LLVMVectorType(l->i32, bytes / 4);
}

/* Returns the LDS pointer `lds` plus `bytes` bytes. */
static LLVMValueRef advance(struct lower *l, LLVMValueRef lds, unsigned bytes)
{
    LLVMValueRef by = lower_i32(l, bytes);
    return bytes ? LLVMBuildGEP2(l->b, l->i8, lds, &by, 1, "") : lds;
}

/* Emits a load from a buffer to registers, which a later wait stores to LDS. */
static LLVMValueRef copy_to_lds(struct lower *l, const struct lower_copy *c)
{
    LLVMTypeRef type = data_type(l, c->bytes);
    LLVMValueRef at = LLVMBuildAdd(l->b, c->lane_offset, lower_i32(l, c->both), "");
    LLVMValueRef args[4] = {c->rsrc, at, c->offset, lower_i32(l, 0)};
    LLVMValueRef data = emit_intrinsic(l, "llvm.amdgcn.raw.ptr.buffer.load", &type, 1, args, 4);
    if (data)
        hold(l, data, advance(l, c->lds, c->both), c->bytes);
    return data;
}

/* Emits a load from memory to registers, which a later wait stores to LDS. */
static void gather_to_lds(struct lower *l, const struct lower_gather *g)
{
    LLVMValueRef offset = LLVMTypeOf(g->lane_offset) == l->i64
                              ? g->lane_offset
                              : LLVMBuildZExt(l->b, g->lane_offset, l->i64, "");
    LLVMValueRef at[2] = {LLVMBuildAdd(l->b, offset, LLVMConstInt(l->i64, g->both, false), "")};
    LLVMValueRef base = LLVMBuildIntToPtr(l->b, g->base, l->global_ptr, "");
    LLVMValueRef data = LLVMBuildLoad2(l->b, data_type(l, g->bytes),
                                       LLVMBuildGEP2(l->b, l->i8, base, at, 1, ""), "");
    LLVMSetAlignment(data, 4);
    LLVMValueRef lds = LLVMBuildAdd(l->b, g->lds, lower_i32(l, g->lds_offset), "");
    hold(l, data, advance(l, LLVMBuildIntToPtr(l->b, lds, l->lds_ptr, ""), g->both), g->bytes);
}

/* The functions from here on emit waits. */

/* Completes all copies to LDS except the newest `vm`: emits stores of their data and a wait for
 * LDS. LLVM adds the waits for loads to registers. A `vm` of any size waits for LDS, since stores
 * of copies older than the newest LOWER_HELD may be outstanding. A wait for all copies (vm 0) also
 * waits for stores to memory, as on CDNA5. */
static void wait(struct lower *l, int64_t vm, int64_t lgkm)
{
    if (vm >= 0) {
        store_copies(l, (unsigned)vm);
        lgkm = 0;
    }
    if (vm == 0)
        gfx12_wait_counter(l, TIR_COUNTER_STORE, 0);
    gfx12_wait_counter(l, TIR_COUNTER_DS, lgkm);
}

/* The functions from here on emit matrix instructions. */

/* Emits a WMMA of operands a, b and c. The intrinsics for floats have only these parameters. Those
 * for integers also have a flag before a and before b, here 1 for signed, and a clamp flag at the
 * end, here 0. */
static LLVMValueRef multiply(struct lower *l, const struct lower_product *p)
{
    const unsigned in = p->row->in_dtype;
    LLVMTypeRef number = in == TIR_F16 ? l->f16 : in == TIR_BF16 ? l->i16 : l->i32;
    const unsigned each = number == l->i32 ? 4 : 1; /* elements in a `number` */
    LLVMTypeRef types[2] = {LLVMTypeOf(p->operands[2]),
                            LLVMVectorType(number, p->counts[0] / each)};
    LLVMValueRef a = lower_bitcast(l, p->operands[0], types[1]);
    LLVMValueRef b = lower_bitcast(l, p->operands[1], types[1]), c = p->operands[2];
    LLVMValueRef no = LLVMConstNull(l->i1), yes = LLVMConstInt(l->i1, 1, false);
    if (in == TIR_I8)
        return emit_intrinsic(l, p->row->intrinsic, types, 2,
                              (LLVMValueRef[]){yes, a, yes, b, c, no}, 6);
    return emit_intrinsic(l, p->row->intrinsic, types, 2, (LLVMValueRef[]){a, b, c}, 3);
}

/* Word 3 of a buffer resource, its flags. OOB_SELECT is 3, which checks byte offsets. FORMAT is 4,
 * since 0 would mean an unbound resource (RDNA4 ISA, table 57; RDNA3 ISA, table 46). */
enum { RSRC_FLAGS = 3 << 28 | 4 << 12 };

const struct lower_isa lower_isa_rdna4 = {
    .set_registers = gfx12_set_registers,
    .wait = wait,
    .barrier = cdna_barrier,
    .set_priority = cdna_set_priority,
    .rsrc_flags = RSRC_FLAGS,
    .copy_to_lds = copy_to_lds,
    .gather_to_lds = gather_to_lds,
    .end_copies = end_copies,
    .multiply = multiply,
    .lane_xor = gfx12_lane_xor,
    .lane_gather = cdna_lane_gather,
    .lane_sum = gfx12_lane_sum,
    .lanes_below = gfx12_lanes_below,
    .to_bf16 = cdna_round_to_bf16,
    .to_fp8 = cdna_to_fp8,
    .fp8_to_f32 = cdna_fp8_to_f32,
    .fp8_pair_to_f32 = cdna_fp8_pair_to_f32,
};

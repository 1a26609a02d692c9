/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the table of functions that each generation of the instruction set has for
 * what differs between generations. The tables stand in targets/isa_*.c; targets.def gives each
 * target its own. Everything else of the lowering is the same for all of them and asks no target
 * what it is.
 *
 * The pieces work on dwords and pointers; what an op is made of stands in lower_*.c. A slot marked
 * optional is NULL where a generation has no such instruction: struct tir_machine says so to passes
 * and templates, and lower_isa_of() asserts that the two agree.
 */
#ifndef TARGETS_LOWER_ISA_H
#define TARGETS_LOWER_ISA_H

#include "targets/lower.h"

/** A copy of `bytes` a lane from memory to LDS: lane i's go to lds + i * bytes. */
struct lower_copy {
    LLVMValueRef rsrc, lane_offset, offset; /* buffer; byte offsets, of the lane and uniform */
    LLVMValueRef lds;                       /* pointer, uniform */
    unsigned bytes;
    unsigned both; /* bytes further in memory and in LDS */
};

/** A copy from an address of each lane; lane i's bytes go to lds + lds_offset + i * bytes. */
struct lower_gather {
    LLVMValueRef base;        /* i64, uniform */
    LLVMValueRef lane_offset; /* i32, unsigned, or i64 */
    LLVMValueRef lds;         /* i32, uniform */
    int lds_offset;
    unsigned bytes;
    unsigned both; /* bytes further in memory and in LDS */
};

/** This says how f32 becomes 16-bit floats: see `convert` in ops.def. to_bf16() is not asked to
 * round toward zero. */
struct lower_rounding {
    bool short_nan;
    enum tir_rounding rounding;
};

struct lower_isa {
    /* Registers: attributes of the kernel that divide them. `waves` are those of a SIMD. */
    void (*set_registers)(struct lower *l, unsigned waves);

    /* Waits until no more than `vm` memory and `lgkm` LDS and scalar ops are under way; a negative
     * number leaves its counter alone. */
    void (*wait)(struct lower *l, int64_t vm, int64_t lgkm);
    /* Waits for all waves of the workgroup. */
    void (*barrier)(struct lower *l);
    /* Sets the wave's priority among those of its SIMD: 0 to 3. */
    void (*set_priority)(struct lower *l, unsigned level);

    /* Buffer resource of the i64 `bytes` from `base` on: what lies beyond reads 0. */
    LLVMValueRef (*make_rsrc)(struct lower *l, LLVMValueRef base, LLVMValueRef bytes);
    /* The load that goes to LDS; NULL when it failed. Of no more than to_lds_max_bytes a lane. */
    LLVMValueRef (*copy_to_lds)(struct lower *l, const struct lower_copy *c);
    /* The load to LDS of 4 or 16 bytes a lane from base + lane_offset. */
    void (*gather_to_lds)(struct lower *l, const struct lower_gather *g);
    /* Optional: 64 bits of an LDS address, blocks transposed over 16 lanes: 16x4 elements of 16
     * bits, 16x8 of 8. */
    LLVMValueRef (*read_transposed)(struct lower *l, LLVMValueRef address, unsigned bits);

    /* Dword of lane ^ mask, 1 to 63. */
    LLVMValueRef (*lane_xor)(struct lower *l, LLVMValueRef dword, unsigned mask);
    /* Dword of the lane that `byte_address` / 4 names. */
    LLVMValueRef (*lane_gather)(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword);
    /* Optional: odd groups of `half` lanes of a exchanged with even ones of b; both in a struct. */
    LLVMValueRef (*lane_swap)(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b);
    /* Sum of an i32 over this lane and those below. */
    LLVMValueRef (*lane_sum)(struct lower *l, LLVMValueRef dword);
    /* In how many lanes below this one an i1 is set, as i32. */
    LLVMValueRef (*lanes_below)(struct lower *l, LLVMValueRef set);

    /* `count` f32 to bf16, nearest even. */
    LLVMValueRef (*to_bf16)(struct lower *l, LLVMValueRef v, unsigned count,
                            struct lower_rounding how);
    /* Two f32 to fp8, nearest even, in the low or the high half of `dword`; the other half stays.
     * They lie in fp8's range. */
    LLVMValueRef (*to_fp8)(struct lower *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef dword,
                           bool high);
    /* The fp8 in the lowest byte of a dword to f32; two of its low or its high half to a vector. */
    LLVMValueRef (*fp8_to_f32)(struct lower *l, LLVMValueRef dword);
    LLVMValueRef (*fp8_pair_to_f32)(struct lower *l, LLVMValueRef dword, bool high);
    /* Optional: bytes of fp8, a multiple of 4, to a 16-bit float, without a way through f32. */
    LLVMValueRef (*fp8_to_half)(struct lower *l, LLVMValueRef v, struct tir_type to);
};

/* One table for each generation that some target is of. */
#define TARGET(name, isa) extern const struct lower_isa lower_isa_##isa;
#include "targets/targets.def"
#undef TARGET

/** The table of a target's generation. */
const struct lower_isa *lower_isa_of(const struct tgt *t);

#endif

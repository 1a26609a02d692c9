/* SPDX-License-Identifier: Apache-2.0
 *
 * Table of the functions that differ between generations of the instruction set. The tables are in
 * targets/isa_*.c; targets.def assigns one to each target. The rest of the lowering is the same for
 * all targets and never tests which target it compiles for.
 *
 * The functions work on dwords and pointers; lower_*.c compose ops from them. A function marked
 * optional is NULL where a generation has no such instruction. struct tir_machine has the same
 * information for passes and templates, and lower_isa_of() asserts that both agree.
 */
#ifndef TARGETS_LOWER_ISA_H
#define TARGETS_LOWER_ISA_H

#include "targets/lower.h"

/** A copy of `bytes` per lane from memory to LDS: lane i's bytes go to lds + i * bytes. */
struct lower_copy {
    LLVMValueRef rsrc, lane_offset, offset; /* buffer; byte offset per lane; uniform byte offset */
    LLVMValueRef lds;                       /* pointer, uniform */
    unsigned bytes;
    unsigned both; /* instruction offset in bytes, added in memory and in LDS */
};

/** A copy from an address per lane; lane i's bytes go to lds + lds_offset + i * bytes. */
struct lower_gather {
    LLVMValueRef base;        /* i64, uniform */
    LLVMValueRef lane_offset; /* unsigned i32, or i64 */
    LLVMValueRef lds;         /* i32, uniform */
    int lds_offset;
    unsigned bytes;
    unsigned both; /* instruction offset in bytes, added in memory and in LDS */
};

/** A copy of rows to LDS by the tensor data mover: see tensor_to_lds in ops.def. */
struct lower_tensor {
    LLVMValueRef base, stride, there, lds; /* address of the first row, i64; bytes between rows,
                                            * i64; number of rows that exist, i32; LDS address, i32;
                                            * all uniform */
    unsigned rows, bytes, span, pad;       /* rows to copy; bytes of a row; after each `span` bytes
                                            * `pad` bytes of LDS stay unwritten */
};

/** Rounding of f32 to 16-bit floats: see `convert` in ops.def. to_bf16() never gets rounding
 * toward zero. */
struct lower_rounding {
    bool short_nan;
    enum tir_rounding rounding;
};

/** A matrix instruction's operands. */
struct lower_product {
    const struct tir_mma *row;
    LLVMValueRef operands[3];   /* a, b, c */
    unsigned counts[3];         /* elements of each in a lane */
    LLVMValueRef const *scales; /* six: formats of a and b, byte and register of a's scale, then
                                   of b's, as MFMA's intrinsic takes them; NULL: no scales */
};

struct lower_isa {
    /* Sets the kernel attributes that divide the registers. `waves` is the number per SIMD. */
    void (*set_registers)(struct lower *l, unsigned waves);

    /* Waits until at most `vm` ops of the counter of a lane's copies to LDS (struct tir_copy), and
     * `lgkm` LDS and scalar ops, are in flight. A negative number does not wait for its counter. */
    void (*wait)(struct lower *l, int64_t vm, int64_t lgkm);
    /* Waits for all waves of the workgroup. */
    void (*barrier)(struct lower *l);
    /* Sets the wave's priority among the waves of its SIMD: 0 to 3. */
    void (*set_priority)(struct lower *l, unsigned level);

    /* Flags of a buffer resource without stride and swizzle, whose reads past its end return 0. */
    int rsrc_flags;
    /* Loads bytes per lane to LDS, as many as a copy atom of the machine has. Returns the load, or
     * NULL if it failed. */
    LLVMValueRef (*copy_to_lds)(struct lower *l, const struct lower_copy *c);
    /* Loads 4 or 16 bytes per lane from base + lane_offset to LDS. */
    void (*gather_to_lds)(struct lower *l, const struct lower_gather *g);
    /* For targets whose copies to LDS are in registers until a wait, else NULL: stores all of them.
     * Called at the end of a block, before an op that has blocks, and before a return. */
    void (*end_copies)(struct lower *l);
    /* Copies rows to LDS; NULL without a tensor data mover. */
    void (*tensor_to_lds)(struct lower *l, const struct lower_tensor *t);
    /* Waits until at most `most` copies of tensor_to_lds are in flight; NULL without
     * a tensor data mover. */
    void (*wait_tensor)(struct lower *l, int64_t most);
    /* Reads elements of `bits` bits from LDS, with blocks transposed between lanes; NULL if the
     * machine has no such copy atom. In CDNA4 a lane reads 64 bits, and 16 lanes have a block: 16x4
     * elements of 16 bits, or 16x8 of 8 bits. In CDNA5 a lane reads 128 bits, and 8 lanes have a
     * block: 8x8 elements of 16 bits. Or a lane reads 64 bits, and 16 lanes have 16x8 elements of
     * 8 bits. */
    LLVMValueRef (*read_transposed)(struct lower *l, LLVMValueRef address, unsigned bits);

    /* Emits a matrix instruction and returns its result. */
    LLVMValueRef (*multiply)(struct lower *l, const struct lower_product *p);

    /* Returns the dword of lane ^ mask. The mask is not 0 and below the lanes of a wave. */
    LLVMValueRef (*lane_xor)(struct lower *l, LLVMValueRef dword, unsigned mask);
    /* Returns the dword of lane byte_address / 4. */
    LLVMValueRef (*lane_gather)(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword);
    /* Optional: exchanges odd groups of `half` lanes of a with even groups of b. Returns both in a
     * struct. */
    LLVMValueRef (*lane_swap)(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b);
    /* Returns the sum of an i32 over this lane and all lower lanes. */
    LLVMValueRef (*lane_sum)(struct lower *l, LLVMValueRef dword);
    /* Returns the number of lower lanes in which the i1 is set, as i32. */
    LLVMValueRef (*lanes_below)(struct lower *l, LLVMValueRef set);

    /* Converts `count` f32 to bf16, nearest even. */
    LLVMValueRef (*to_bf16)(struct lower *l, LLVMValueRef v, unsigned count,
                            struct lower_rounding how);
    /* Converts two f32 within fp8's range to fp8, nearest even, in the low or high half of
     * `dword`. The other half is kept. */
    LLVMValueRef (*to_fp8)(struct lower *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef dword,
                           bool high);
    /* The first converts the fp8 in the lowest byte of a dword to f32. The second converts the two
     * fp8 in its low or high half to a vector of two f32. */
    LLVMValueRef (*fp8_to_f32)(struct lower *l, LLVMValueRef dword);
    LLVMValueRef (*fp8_pair_to_f32)(struct lower *l, LLVMValueRef dword, bool high);
    /* Optional: converts fp8 bytes, a multiple of 4, directly to a 16-bit float type. */
    LLVMValueRef (*fp8_to_half)(struct lower *l, LLVMValueRef v, struct tir_type to);
};

/* One table for each generation in targets.def. */
#define TARGET(name, isa) extern const struct lower_isa lower_isa_##isa;
#include "targets/targets.def"
#undef TARGET

/** Returns the table of a target's generation. */
const struct lower_isa *lower_isa_of(const struct tgt *t);

#endif

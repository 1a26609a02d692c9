/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the lowering that differ between generations of the instruction set, as a table
 * per generation in targets/isa_*.c. targets.def assigns a table to each target. The rest of the
 * lowering never tests for which target it compiles.
 *
 * The functions work on dwords and pointers; lower_*.c compose ops from them. An optional function
 * is NULL if a generation has no such instruction. struct tir_machine has the same information for
 * passes and templates, and lower_isa_of() asserts that both agree.
 */
#ifndef TARGETS_LOWER_ISA_H
#define TARGETS_LOWER_ISA_H

#include "targets/lower.h"

/** A copy from a buffer to LDS. Lane i copies `bytes` bytes from its place in the buffer to lds + i
 * * bytes. */
struct lower_copy {
    /* buffer resource; byte offset of the lane, i32; uniform byte offset, i32 */
    LLVMValueRef rsrc, lane_offset, offset;
    LLVMValueRef lds; /* LDS pointer, uniform */
    unsigned bytes;
    unsigned both; /* the instruction's offset in bytes, which is added to both addresses */
};

/** A copy from memory to LDS. Lane i copies `bytes` bytes from base + lane_offset to lds +
 * lds_offset + i * bytes. */
struct lower_gather {
    LLVMValueRef base;        /* address, i64, uniform */
    LLVMValueRef lane_offset; /* byte offset of the lane in memory, unsigned i32 or i64 */
    LLVMValueRef lds;         /* LDS address, i32, uniform */
    int lds_offset;           /* constant byte offset in LDS */
    unsigned bytes;
    unsigned both; /* the instruction's offset in bytes, which is added to both addresses */
};

/** A copy of rows from memory to LDS by the tensor data mover: see tensor_to_lds in ir/ops.def. */
struct lower_tensor {
    /* address of the first row, i64; bytes between rows, i64; number of rows that exist, i32; LDS
     * address, i32; all uniform */
    LLVMValueRef base, stride, there, lds;
    /* rows to copy; bytes of a row; after each `span` bytes `pad` bytes of LDS stay unwritten */
    unsigned rows, bytes, span, pad;
};

/** The rounding of f32 to 16-bit floats: see `convert` in ir/ops.def. lower_isa.to_bf16() never
 * gets rounding toward zero. */
struct lower_rounding {
    bool short_nan; /* true: every NaN has a zero low half, so rounding needs no check */
    enum tir_rounding rounding;
};

/** A matrix instruction and its operands. */
struct lower_product {
    const struct tir_mma *row;
    LLVMValueRef operands[3]; /* left, right, accumulator */
    unsigned counts[3];       /* elements of each operand in a lane */
    /* six arguments of MFMA's intrinsic: formats of left and right operand, then byte and register
     * of the left scale and of the right scale; NULL: no scales */
    LLVMValueRef const *scales;
};

/** The functions of one generation. */
struct lower_isa {
    /* Sets the kernel's attributes that limit its registers, so that a SIMD can hold `waves`
     * waves. */
    void (*set_registers)(struct lower *l, unsigned waves);

    /* Emits a wait until at most `vm` and `lgkm` ops are outstanding: `vm` of the counter that
     * counts a lane's copies to LDS (tir_copy.counter), `lgkm` of LDS and scalar ops. A negative
     * number means no wait for that counter. */
    void (*wait)(struct lower *l, int64_t vm, int64_t lgkm);
    /* Emits a barrier: a wait for all waves of the workgroup. */
    void (*barrier)(struct lower *l);
    /* Emits half of a barrier: the wave's signal, or the wait for all waves. NULL: barriers have no
     * halves. */
    void (*half_barrier)(struct lower *l, bool wait);
    /* Sets the wave's priority among the waves of its SIMD to `level`, 0 to 3. */
    void (*set_priority)(struct lower *l, unsigned level);

    /* Word 3 of a buffer resource without stride and swizzle, so that reads past its end return
     * 0. */
    int rsrc_flags;
    /* Emits the copy `c`, whose bytes are the bytes of a copy atom of the machine. Returns the
     * emitted load, or NULL if the lowering failed. */
    LLVMValueRef (*copy_to_lds)(struct lower *l, const struct lower_copy *c);
    /* Emits the copy `g` of 4 or 16 bytes per lane. */
    void (*gather_to_lds)(struct lower *l, const struct lower_gather *g);
    /* Stores the data of all copies to LDS that are still in registers. NULL for targets with
     * direct-to-LDS loads. Called at the end of a block, before an op that has blocks, and before a
     * return. */
    void (*end_copies)(struct lower *l);
    /* Emits the copy `t` of rows to LDS. NULL: the target has no tensor data mover. */
    void (*tensor_to_lds)(struct lower *l, const struct lower_tensor *t);
    /* Emits a wait until at most `most` copies of tensor_to_lds() are outstanding. NULL: the target
     * has no tensor data mover. */
    void (*wait_tensor)(struct lower *l, int64_t most);
    /* Reads elements of `bits` bits from LDS, transposed between the lanes of a block. NULL: the
     * target has no such instruction. In CDNA4 a lane reads 64 bits, and 16 lanes form a block of
     * 16x4 elements of 16 bits, or 16x8 of 8 bits. In CDNA5 8 lanes that read 128 bits each form a
     * block of 8x8 elements of 16 bits. For elements of 8 bits, 16 lanes that read 64 bits each
     * form a block of 16x8. */
    LLVMValueRef (*read_transposed)(struct lower *l, LLVMValueRef address, unsigned bits);

    /* Emits a matrix instruction and returns its result. */
    LLVMValueRef (*multiply)(struct lower *l, const struct lower_product *p);

    /* Returns for each lane the dword of lane ^ `mask`. The mask is 1 to the lanes of a wave -
     * 1. */
    LLVMValueRef (*lane_xor)(struct lower *l, LLVMValueRef dword, unsigned mask);
    /* Returns for each lane the dword of lane `byte_address` / 4. */
    LLVMValueRef (*lane_gather)(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword);
    /* Exchanges the odd groups of `half` lanes of `a` with the even groups of `b`. Returns both in
     * a struct. NULL: the target has no such instruction. */
    LLVMValueRef (*lane_swap)(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b);
    /* Returns for each lane the sum of the i32 `dword` over this lane and all lower lanes. */
    LLVMValueRef (*lane_sum)(struct lower *l, LLVMValueRef dword);
    /* Returns for each lane the number of lower lanes in which the i1 `set` is true, as i32. */
    LLVMValueRef (*lanes_below)(struct lower *l, LLVMValueRef set);

    /* Converts a vector of `count` f32 to bf16 with rounding to the nearest even. */
    LLVMValueRef (*to_bf16)(struct lower *l, LLVMValueRef v, unsigned count,
                            struct lower_rounding how);
    /* Converts two f32 within fp8's range to fp8 with rounding to the nearest even. Returns `dword`
     * with the results in its low or, if `high` is true, high half. */
    LLVMValueRef (*to_fp8)(struct lower *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef dword,
                           bool high);
    /* Converts the fp8 in the lowest byte of a dword to f32. */
    LLVMValueRef (*fp8_to_f32)(struct lower *l, LLVMValueRef dword);
    /* Converts the two fp8 in the low or, if `high` is true, high half of a dword to a vector of
     * two f32. */
    LLVMValueRef (*fp8_pair_to_f32)(struct lower *l, LLVMValueRef dword, bool high);
    /* Converts a vector of fp8, a multiple of 4 elements, directly to the 16-bit float type `to`.
     * NULL: the target has no such instruction. */
    LLVMValueRef (*fp8_to_half)(struct lower *l, LLVMValueRef v, struct tir_type to);
};

/* The table of each generation in targets.def. */
#define TARGET(name, isa) extern const struct lower_isa lower_isa_##isa;
#include "targets/targets.def"
#undef TARGET

/** Returns the table of a target's generation. */
const struct lower_isa *lower_isa_of(const struct tgt *t);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the builder of tile IR. A builder is a cursor: a block, and the pipeline stage
 * and phase that new ops carry. Wrong types or arity fail an assertion, since only templates call
 * it.
 *
 * C leaves the order in which a call's arguments are evaluated open. So only constants and pure ops
 * may be nested in another builder call. An op with an effect gets a statement of its own. The
 * order of nested pure ops, and of some instructions with it, depends on the C compiler that built
 * attnc.
 */
#ifndef IR_BUILDER_H
#define IR_BUILDER_H

#include "ir/ir.h"

struct tir_builder {
    struct tir_func *f;
    struct tir_block *block;
    uint32_t at; /* new ops are inserted before this index; TIR_AT_END appends */
    /* Stage and phase of a pipelined loop that new ops carry; TIR_NO_STAGE: none. */
    uint8_t stage, phase;
    uint32_t line; /* source line that new ops carry; see struct tir_op */
};

#define TIR_AT_END UINT32_MAX

/** Returns a builder that appends to `block`. Its ops have no pipeline stage. */
struct tir_builder tir_at_end(struct tir_func *f, struct tir_block *block);

/** Builds any op. The result type follows from the op's row in ops.def, or is `given`. */
struct tir_value tir_build(struct tir_builder *b, unsigned opcode, struct tir_type given,
                           const struct tir_value *operands, unsigned n, const int64_t *imm);

/** Names a value in dumps and returns it. */
struct tir_value tir_named(struct tir_builder *b, const char *name, struct tir_value v);

/* One builder function for each op whose row in ops.def names its kind of builder. */
#define TIR_BUILD_none(name)
#define TIR_BUILD_one(name) struct tir_value tir_##name(struct tir_builder *b, struct tir_value a);
#define TIR_BUILD_two(name) \
    struct tir_value tir_##name(struct tir_builder *b, struct tir_value a, struct tir_value c);
#define TIR_BUILD_three(name)                                                                  \
    struct tir_value tir_##name(struct tir_builder *b, struct tir_value a, struct tir_value c, \
                                struct tir_value d);
#define TIR_BUILD_choice(name) TIR_BUILD_three(name)
#define OP(name, operands, result, level, flags, attrs, signature, builder, ...) \
    TIR_BUILD_##builder(name)
#include "ir/ops.def"
#undef OP
#undef TIR_BUILD_none
#undef TIR_BUILD_one
#undef TIR_BUILD_two
#undef TIR_BUILD_three
#undef TIR_BUILD_choice

/** Builds a scalar constant; the name ends in its type. */
struct tir_value tir_i32(struct tir_builder *b, int32_t v);
struct tir_value tir_i64(struct tir_builder *b, int64_t v);
struct tir_value tir_f32(struct tir_builder *b, float v);
/** Builds a value that no result may depend on, such as the value of a branch that computes none.
 * It emits no instruction. The interpreter fills it with NaNs. */
struct tir_value tir_undef(struct tir_builder *b, struct tir_type t);
struct tir_value tir_bool(struct tir_builder *b, bool v);
/** Builds an integer or float constant in every element of a value of the type of `like`. */
struct tir_value tir_int_like(struct tir_builder *b, struct tir_value like, int64_t v);
struct tir_value tir_float_like(struct tir_builder *b, struct tir_value like, float v);
/** Converts the elements of a to `dtype`; floats are rounded to nearest even. */
struct tir_value tir_convert(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Like tir_convert(), for values computed from 16-bit data; see `short_nan` in ops.def. */
struct tir_value tir_convert_short(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Like tir_convert_short(), but may round ties either way, which is cheaper; see `rounding` in
 * ops.def. */
struct tir_value tir_convert_ties_any(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Like tir_convert_short(), but rounds toward zero. */
struct tir_value tir_convert_toward_zero(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Converts f32 to fp8 or i8 for numbers that the dtype can represent after rounding. NaNs are
 * converted as tir_convert() does. */
struct tir_value tir_convert_in_range(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Packs two f16 between 0 and 1 into an i32: a in the low half, c in the high half. */
struct tir_value tir_unit_pair(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** Returns a0 c0 + a1 c1 + sum. a and c are i32 that hold two f16 each; sum is f32. */
struct tir_value tir_dot2(struct tir_builder *b, struct tir_value a, struct tir_value c,
                          struct tir_value sum);
/** Extends integers to `dtype` with zeros. */
struct tir_value tir_zext(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Returns the bits of a as type t. */
struct tir_value tir_bitcast(struct tir_builder *b, struct tir_value a, struct tir_type t);
/** Returns M x N bytes as M x N/4 words, i32: each joins four neighbours of a row, the first one in
 * the lowest bits. The first two register bits of the layout of `bytes` select the neighbours. */
struct tir_value tir_words(struct tir_builder *b, struct tir_value bytes);

/** Reads a kernel argument. It is declared if no argument has this name. */
struct tir_value tir_arg(struct tir_builder *b, const char *name, unsigned dtype);
/** Returns the number of the workgroup in dimension `dim` of the grid. */
struct tir_value tir_block_id(struct tir_builder *b, unsigned dim);
/** Returns the number of the wave in its workgroup. */
struct tir_value tir_wave_id(struct tir_builder *b);
/** Returns the number of each lane in its wave. */
struct tir_value tir_lane_id(struct tir_builder *b);

/** Reserves `bytes` of LDS and returns its address. The alignment is 16 bytes, or `align` if that
 * is larger. */
struct tir_value tir_lds_buffer(struct tir_builder *b, unsigned bytes, unsigned align);

/* Builds an op on tiles, named as in ops.def; `t` is the type of the result. So do the functions
 * below. */
struct tir_value tir_splat(struct tir_builder *b, struct tir_value scalar, struct tir_type t);
struct tir_value tir_row_index(struct tir_builder *b, struct tir_type t);
struct tir_value tir_col_index(struct tir_builder *b, struct tir_type t);
struct tir_value tir_broadcast(struct tir_builder *b, struct tir_value a, struct tir_type t);
struct tir_value tir_row_max(struct tir_builder *b, struct tir_value a);
struct tir_value tir_row_sum(struct tir_builder *b, struct tir_value a);
/** Returns the dot product of each row of a with the same row of c. Both are f32 of one type, and a
 * wave must hold whole rows. */
struct tir_value tir_row_dot(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** Returns the maximum of each column of a, as a tile of one row. */
struct tir_value tir_col_max(struct tir_builder *b, struct tir_value a);
/** Returns the sum of each column of a, as a tile of one row. */
struct tir_value tir_col_sum(struct tir_builder *b, struct tir_value a);
/** Reduces over the rows that a lane holds in registers, without traffic between lanes. The result
 * has one row for each combination of the row bits that lanes hold. col_max or col_sum completes
 * the reduction. */
struct tir_value tir_col_fold_max(struct tir_builder *b, struct tir_value a);
/** Like tir_col_fold_max(), with sums. */
struct tir_value tir_col_fold_sum(struct tir_builder *b, struct tir_value a);
/** Adds tir_col_fold_sum() of a (bf16) to c (f32). The registers of a lane must hold rows of one
 * column, and the machine must have has_dot_bf16. */
struct tir_value tir_col_fold_dot(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** Like tir_col_fold_max(), for 16-bit floats that are not negative. An i32 of the result has the
 * maxima of two groups of rows, see ops.def. The registers of a lane must hold rows of one column,
 * and the machine must have has_pk_max3. */
struct tir_value tir_col_fold_top(struct tir_builder *b, struct tir_value a);
/** Returns a scalar i1: true if in some lane of the wave a maximum of tir_col_fold_top() exceeds
 * the limit or is a NaN. Both 16-bit halves of `limit` hold the limit. */
struct tir_value tir_any_above(struct tir_builder *b, struct tir_value top, struct tir_value limit);
/** Returns acc + a c by matrix instruction `instr`, an index into the machine's table. */
struct tir_value tir_mma(struct tir_builder *b, int instr, struct tir_value a, struct tir_value c,
                         struct tir_value acc);
/** Multiplies the first k columns of a by the first k rows of c only. k is a multiple of the
 * instruction's k. */
struct tir_value tir_mma_first(struct tir_builder *b, int instr, struct tir_value a,
                               struct tir_value c, struct tir_value acc, unsigned k);
/** Multiplies a, of 16 rows, by one block of 32 columns per wave; see mma_halves in ops.def. */
struct tir_value tir_mma_halves(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc);
/** Like tir_mma(), with its accumulator in accumulation registers, for kernels with one wave per
 * SIMD. An op other than such a product that reads the accumulator moves it to vector registers
 * first. */
struct tir_value tir_mma_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                  struct tir_value c, struct tir_value acc);
/** Like tir_mma(), with instructions on the same rows of a after each other: a may be read while
 * they run, and few of its rows are in registers. */
struct tir_value tir_mma_by_rows(struct tir_builder *b, int instr, struct tir_value a,
                                 struct tir_value c, struct tir_value acc);

/** Builds a scaled product. `left` and `right` are the e8m0 scales of a and c: tiles of i8 in the
 * layout of tir_mma_scales(), or a scalar i32. tir_i32(b, 127) is a scale of 1. */
struct tir_value tir_mma_scaled(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc, struct tir_value left,
                                struct tir_value right);
/** Like tir_mma_scaled(), with its accumulator in accumulation registers; see
 * tir_mma_in_agprs(). */
struct tir_value tir_mma_scaled_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                         struct tir_value c, struct tir_value acc,
                                         struct tir_value left, struct tir_value right);
/** Returns a in the layout `to`. */
struct tir_value tir_relayout(struct tir_builder *b, struct tir_value a,
                              const struct tir_layout *to);
/** Returns a with rows and columns exchanged. */
struct tir_value tir_transpose(struct tir_builder *b, struct tir_value a);

/** Returns the rows of a followed by the rows of c, which has the same type. The registers of both
 * are used as they are. */
struct tir_value tir_stack(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** Returns the upper (`which` = 0) or lower (1) half of the rows of a: one operand of tir_stack().
 * The last register bit of a must select the half. */
struct tir_value tir_half(struct tir_builder *b, struct tir_value a, int which);

/** Returns d with d[i][j] = a[i][j xor cols], by renaming registers or exchanging lanes. `cols` is
 * a power of two: one bit of a's layout must have it as its image, and no other image may contain
 * it. */
struct tir_value tir_col_flip(struct tir_builder *b, struct tir_value a, unsigned cols);

/** Return the tile `a` in another shape. Join sets its C blocks of `rows` rows side by side, the
 * first at the left: (C rows) x X becomes rows x (C X). Split sets its blocks of `width` columns
 * below each other. `rows` and `width` are powers of two that divide a's rows or columns. */
struct tir_value tir_join_blocks(struct tir_builder *b, struct tir_value a, unsigned rows);
struct tir_value tir_split_blocks(struct tir_builder *b, struct tir_value a, unsigned width);

/** A two-dimensional region of global memory, accessed through a buffer resource, with rows of
 * `row_stride` bytes. */
struct tir_view {
    struct tir_value rsrc;       /* TIR_RSRC */
    struct tir_value row_stride; /* i32, bytes */
    struct tir_value byte;       /* i32, byte offset of column 0 within a row */
};
/** Loads a tile of type t from rows `row0` and following of a view. Elements beyond the buffer are
 * 0. */
struct tir_value tir_tile_load(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                               struct tir_type t);
/** Stores a to rows `row0` and following of a view. Elements beyond the buffer are dropped. */
void tir_tile_store(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                    struct tir_value a);
/** Loads rows at base + row_addr[i] + byte. row_addr is an Mx1 tile of i64 byte offsets. */
struct tir_value tir_tile_gather(struct tir_builder *b, struct tir_value base,
                                 struct tir_value row_addr, struct tir_value byte,
                                 struct tir_type t);
/** Like tir_tile_gather(), from memory that no kernel writes during the launch, such as an array of
 * indices. */
struct tir_value tir_tile_gather_constant(struct tir_builder *b, struct tir_value base,
                                          struct tir_value row_addr, struct tir_type t);
/** Loads rows at row_addr[i] + offset of the buffer resource `rsrc`. row_addr is an Mx1 tile of i32
 * byte offsets; `offset` is in bytes. */
struct tir_value tir_tile_fetch(struct tir_builder *b, struct tir_value rsrc,
                                struct tir_value row_addr, unsigned offset, struct tir_type t);
/** Stores rows at base + row_addr[i] + byte. Rows with a negative row_addr are skipped. */
void tir_tile_scatter(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                      struct tir_value byte, struct tir_value a);
/** Like tir_tile_scatter(), for rows whose elements are `apart` bytes apart. */
void tir_tile_scatter_apart(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                            struct tir_value byte, unsigned apart, struct tir_value a);
/** Copies a tile from global memory to LDS, asynchronously. `address_map` is the LDS buffer's
 * layout (address bits -> row, col), which also decides which lane copies what. `t` gives shape and
 * dtype. */
void tir_copy_to_lds(struct tir_builder *b, int group, struct tir_view v, struct tir_value row0,
                     struct tir_value lds, struct tir_type t, const struct tir_layout *address_map);
/** Rows in memory that the tensor data mover copies to LDS: the operands of tir_tensor_to_lds(). */
struct tir_rows {
    struct tir_value base, stride; /* i64: address of the first row; bytes from a row to the next */
    struct tir_value there; /* i32: number of rows that exist, 0 or more; the rest become zeros */
    unsigned rows, bytes;   /* rows to copy; bytes of a row, a multiple of 4 */
};
/** Copies rows to consecutive LDS bytes from `lds` (i32 address) on, asynchronously. After every
 * `span` bytes `pad` bytes stay unwritten; pad 0: none. The bounds are at tensor_to_lds in ops.def.
 * Each wave makes the copy that its own operands describe. */
static inline void tir_tensor_to_lds(struct tir_builder *b, int group, const struct tir_rows *r,
                                     struct tir_value lds, unsigned span, unsigned pad)
{
    const struct tir_value operands[] = {r->base, r->stride, r->there, lds};
    const int64_t imm[] = {group, r->rows, r->bytes, span, pad};
    tir_build(b, TIR_tensor_to_lds, (struct tir_type){0}, operands, 4, imm);
}
/** Copies rows at base + row_addr[i] + byte to lds + offset, asynchronously. row_addr is an Mx1
 * tile of i64 or i32 with the rows of tir_map_lanes(). Each wave makes the whole copy that its own
 * operands describe. */
void tir_gather_to_lds(struct tir_builder *b, int group, struct tir_value base,
                       struct tir_value row_addr, struct tir_value byte, struct tir_value lds,
                       unsigned offset, struct tir_type t, const struct tir_layout *address_map);
/** Like tir_gather_to_lds(), for rows at row_addr[i] + both that go to lds + offset + both.
 * row_addr has i64 addresses; `both` is in bytes. */
void tir_gather_both_to_lds(struct tir_builder *b, int group, struct tir_value row_addr,
                            struct tir_value lds, unsigned offset, unsigned both, struct tir_type t,
                            const struct tir_layout *address_map);
/** Loads a tile of type t from the LDS buffer at address `lds`. `address_map` is the buffer's
 * layout. */
struct tir_value tir_tile_lds_load(struct tir_builder *b, struct tir_value lds, struct tir_type t,
                                   const struct tir_layout *address_map);
/** Like tir_tile_lds_load(), but reads columns from `columns` on from the padding of the address
 * map. All padding must hold the same data. The buffer must have one more padding after its last
 * span. */
struct tir_value tir_tile_lds_load_first(struct tir_builder *b, struct tir_value lds,
                                         struct tir_type t, const struct tir_layout *address_map,
                                         unsigned columns);
/** Like tir_tile_lds_load(), but begins at column `first` of the map, a multiple of the tile's
 * columns. */
struct tir_value tir_tile_lds_load_from(struct tir_builder *b, struct tir_value lds,
                                        struct tir_type t, const struct tir_layout *address_map,
                                        unsigned first);
/** Stores a to the LDS buffer at address `lds`. `address_map` is the buffer's layout. */
void tir_tile_lds_store(struct tir_builder *b, struct tir_value lds, struct tir_value a,
                        const struct tir_layout *address_map);
/** Calls the user's function `hook` for every element of operands[0]. The result has the type of
 * operands[0]. */
struct tir_value tir_call_hook(struct tir_builder *b, const char *hook,
                               const struct tir_value *operands, unsigned n);

/** Builds a buffer resource of `bytes` (i32, unsigned) that begins at `base` (i64). */
struct tir_value tir_make_rsrc(struct tir_builder *b, struct tir_value base,
                               struct tir_value bytes);
/** Loads one uniform value at base (i64) + offset (i32) from memory that no kernel writes during
 * the launch. */
struct tir_value tir_scalar_load(struct tir_builder *b, struct tir_value base,
                                 struct tir_value offset, unsigned dtype);
/** Like tir_scalar_load(), for a load that stays before the branches that follow it. LLVM may move
 * other loads into the last branch before their use. */
static inline struct tir_value tir_scalar_load_here(struct tir_builder *b, struct tir_value base,
                                                    struct tir_value offset, unsigned dtype)
{
    const struct tir_value operands[] = {base, offset};
    const int64_t imm[] = {0, 1};
    return tir_build(b, TIR_scalar_load, tir_scalar(dtype), operands, 2, imm);
}
/** Returns a scalar i1: true if `a` is set in some active lane of the wave. */
struct tir_value tir_any(struct tir_builder *b, struct tir_value a);
/** Returns as a scalar the value that all lanes of the wave hold. If they differ, it is the value
 * of the first active lane. */
struct tir_value tir_first_lane(struct tir_builder *b, struct tir_value a);
/** Counts the elements of the wave that are set. The result is an i32 scalar. */
struct tir_value tir_lane_count(struct tir_builder *b, struct tir_value a);
/** Returns an i64 scalar with a bit for each lane of the wave in which `a` is set. For a tile it
 * looks at the first register. */
struct tir_value tir_lane_mask(struct tir_builder *b, struct tir_value a);
/** Returns the element of lane number `lane` as a scalar. */
struct tir_value tir_lane_read(struct tir_builder *b, struct tir_value a, struct tir_value lane);
/** Counts, for each lane, the lower-numbered lanes in which the i1 is set. */
struct tir_value tir_lanes_below(struct tir_builder *b, struct tir_value a);

/* Builds an op that loads, or stores where `mask` is set, 32-bit elements at an LDS address of each
 * element. No lane of the tile may repeat another lane's elements. */
struct tir_value tir_lds_gather(struct tir_builder *b, struct tir_value address, unsigned dtype);
void tir_lds_scatter_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                        struct tir_value a);
/** Adds a to the i32 at an LDS address atomically, for elements whose `mask` is set. The old value
 * is not returned. */
void tir_lds_add_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                    struct tir_value a);

/** Groups of tir_wait() beside the copies' own: TIR_LDS_WRITES waits for LDS writes. TIR_LDS_ORDER
 * waits for nothing and only keeps program order, for a wave that reads what it wrote. That
 * suffices, since the LDS executes the accesses of a wave in order. CDNA3 ISA, 4.4, says that LDS
 * returns in order, and LLVM puts no wait between such a write and read. */
enum { TIR_LDS_WRITES = -1, TIR_LDS_ORDER = -2 };
/** Waits until at most `pending` rounds of copies of `group` have not completed for this wave. */
void tir_wait(struct tir_builder *b, int group, int pending);
/** Waits until all loads and stores of this wave have completed. */
void tir_wait_memory(struct tir_builder *b);
/** Waits until all waves of the workgroup arrive. LDS writes for which a wave has waited are
 * visible after it. */
void tir_barrier(struct tir_builder *b);
/** Tells the workgroup that this wave has arrived at a barrier. The wave goes on. */
void tir_barrier_signal(struct tir_builder *b);
/** Waits until all waves of the workgroup have signalled the barrier that this wave signalled last.
 * LDS writes for which a wave has waited before its signal are visible after it. */
void tir_barrier_wait(struct tir_builder *b);
/** Emits here up to `states` of the MFMA wait states that must pass before results in accumulation
 * registers are read. The first read then waits only for the rest. Use it at places at which the
 * wave has to wait anyway. */
void tir_settle(struct tir_builder *b, int states);
/** Counts this wave at `address` (i64). Returns how many of n waves had arrived before it; the last
 * gets n - 1 and resets the counter to 0. Stores before this op are visible after tir_acquire(), on
 * any compute unit, to a wave that arrives later or learns from one that did. */
struct tir_value tir_arrive(struct tir_builder *b, struct tir_value address, struct tir_value n);
/** Adds n (i32) atomically, in the scope of the device, to the i32 at `address` (i64) and returns
 * the old value. With `release`, earlier stores become visible as with tir_arrive(); otherwise the
 * op orders nothing. */
struct tir_value tir_atomic_add(struct tir_builder *b, struct tir_value address, struct tir_value n,
                                bool release);
/** Waits for n waves of the device (n < 65536). A wave adds 1 to the i32 at `address` (i64) on
 * arrival. Returns how many waves gave up before all had arrived. A wave gives up after at least
 * `polls` reads and then gets -1. So no wave waits forever for one that may not have begun. Between
 * reads it sleeps `sleep` times 64 clocks, which keeps waiting waves from blocking the counter's L2
 * channel. A wave that sees all n may reset the counter to 0. */
struct tir_value tir_await(struct tir_builder *b, struct tir_value address, struct tir_value n,
                           unsigned polls, unsigned sleep);
/** Makes stores of other waves visible to later loads of this wave, once it knows of their arrival;
 * see tir_arrive(). */
void tir_acquire(struct tir_builder *b);
/** Restricts waves for which `cond` is true to the copies of the next pipelined loop. */
void tir_only_copies(struct tir_builder *b, struct tir_value cond);
/** Sets the wave's priority among the waves of its SIMD: 0 to 3. */
void tir_set_priority(struct tir_builder *b, int level);
/** Aligns the next instruction: it is placed `words` after a multiple of `of` words. `of` is
 * TIR_FETCH_WORDS, a fetch window, or TIR_PAIR_WORDS, a long instruction. */
void tir_align_code(struct tir_builder *b, unsigned words, unsigned of);
/** Keeps order around a tile: ops that compute it stay before the anchor, and later ops stay after
 * it. */
void tir_anchor(struct tir_builder *b, struct tir_value a);
/** Builds one anchor, see tir_anchor(), for n scalars that are loaded. All of their loads are
 * issued before the wait for the first. */
void tir_anchor_all(struct tir_builder *b, const struct tir_value *values, unsigned n);
/** Begins a phase of the schedule: kind 0 is a memory phase, 1 a matrix phase. */
void tir_phase(struct tir_builder *b, int kind);

/**
 * A loop: for (index = first; index < bound; index += step) with carried values. The builder moves
 * into the body, and carried[i] becomes the body's parameter. tir_end_for() yields `carried` and
 * leaves the loop's results there.
 */
struct tir_loop {
    /* The builder outside the loop, the loop's op, and the index of the current iteration. */
    struct tir_builder outer;
    struct tir_ref op;
    struct tir_value index;
};
struct tir_loop tir_begin_for(struct tir_builder *b, struct tir_value first, struct tir_value bound,
                              struct tir_value step, struct tir_value *carried, unsigned n);
void tir_end_for(struct tir_builder *b, struct tir_loop *loop, struct tir_value *carried,
                 unsigned n);

/** An if. The builder moves into the then-block. tir_else() ends that block with its values and
 * moves to the else-block. tir_end_if() ends the else-block and replaces `values` by the
 * merged ones. Without results, tir_else() may be omitted. `cold` places the then-block out of
 * line. */
struct tir_if {
    /* The builder outside the if, the op, and the number of its results. */
    struct tir_builder outer;
    struct tir_ref op;
    unsigned n;
};
struct tir_if tir_begin_if(struct tir_builder *b, struct tir_value cond, bool cold,
                           const struct tir_type *results, unsigned n);
enum { TIR_MOST_LIKE = 16 /* results of tir_begin_if_like() */ };
/** Begins an if whose n results, at most TIR_MOST_LIKE, have the types of the values in `like`. */
struct tir_if tir_begin_if_like(struct tir_builder *b, struct tir_value cond, bool cold,
                                const struct tir_value *like, unsigned n);
/** Begins an if that is rarely taken and needs no wait states at its head; see `bare` in
 * ops.def. */
struct tir_if tir_begin_bare_if(struct tir_builder *b, struct tir_value cond,
                                const struct tir_type *results, unsigned n);
void tir_else(struct tir_builder *b, struct tir_if *s, const struct tir_value *values);
void tir_end_if(struct tir_builder *b, struct tir_if *s, struct tir_value *values);
/** Ends the kernel for this wave. */
void tir_return(struct tir_builder *b);

#endif

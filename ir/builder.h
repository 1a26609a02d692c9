/* SPDX-License-Identifier: Apache-2.0
 *
 * Building tile IR. A builder is a cursor: a block, and the pipeline stage and phase that new ops
 * carry. Misuse (wrong types, wrong arity) asserts: templates are ours.
 *
 * C leaves the order of a call's arguments, and of an initializer's, open. Nested builder calls are
 * fine for constants and pure ops; an op that is not pure gets a statement of its own. The order of
 * pure ops is still that of the C compiler that built attnc, and so is that of some instructions.
 */
#ifndef IR_BUILDER_H
#define IR_BUILDER_H

#include "ir/ir.h"

struct tir_builder {
    struct tir_func *f;
    struct tir_block *block;
    uint32_t at; /* ops are inserted before this index; TIR_AT_END appends */
    uint8_t stage, phase;
    uint32_t line; /* that new ops carry; see struct tir_op */
};

#define TIR_AT_END UINT32_MAX

/** A builder that appends to `block`; its ops have no stage. */
struct tir_builder tir_at_end(struct tir_func *f, struct tir_block *block);

/** The general form; the result type follows from the op's row, or is `given`. */
struct tir_value tir_build(struct tir_builder *b, unsigned opcode, struct tir_type given,
                           const struct tir_value *operands, unsigned n, const int64_t *imm);

/** Names the value in dumps; returns it. */
struct tir_value tir_named(struct tir_builder *b, const char *name, struct tir_value v);

/* One function for each op whose row in ops.def has a word for its builder. */
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

/** Scalar constants. */
struct tir_value tir_i32(struct tir_builder *b, int32_t v);
struct tir_value tir_i64(struct tir_builder *b, int64_t v);
struct tir_value tir_f32(struct tir_builder *b, float v);
/** A value that no result may depend on, such as a branch yields on the side that has none. It
 * takes no instruction; the interpreter fills it with NaNs. */
struct tir_value tir_undef(struct tir_builder *b, struct tir_type t);
struct tir_value tir_bool(struct tir_builder *b, bool v);
/** An integer, or a float, in every element of a value of the type of `like`. */
struct tir_value tir_int_like(struct tir_builder *b, struct tir_value like, int64_t v);
struct tir_value tir_float_like(struct tir_builder *b, struct tir_value like, float v);
struct tir_value tir_convert(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** tir_convert() of values computed from 16-bit data: see short_nan in ops.def. */
struct tir_value tir_convert_short(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** tir_convert_short() that may round ties either way, which is cheaper: see `rounding` in
 * ops.def. */
struct tir_value tir_convert_ties_any(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** tir_convert_short() that rounds toward zero. */
struct tir_value tir_convert_toward_zero(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** tir_convert() of f32 to fp8 or i8, where no number rounds beyond the dtype. NaNs are converted
 * as tir_convert() does. */
struct tir_value tir_convert_in_range(struct tir_builder *b, struct tir_value a, unsigned dtype);
/** Two f16 between 0 and 1 in an i32: a in its low half, c in its high one. */
struct tir_value tir_unit_pair(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** a0 c0 + a1 c1 + sum: a and c are i32 that hold two f16 each, sum is f32. */
struct tir_value tir_dot2(struct tir_builder *b, struct tir_value a, struct tir_value c,
                          struct tir_value sum);
struct tir_value tir_zext(struct tir_builder *b, struct tir_value a, unsigned dtype);
struct tir_value tir_bitcast(struct tir_builder *b, struct tir_value a, struct tir_type t);

/** Declares a kernel argument (or finds it by name) and reads it. */
struct tir_value tir_arg(struct tir_builder *b, const char *name, unsigned dtype);
struct tir_value tir_block_id(struct tir_builder *b, unsigned dim);
struct tir_value tir_wave_id(struct tir_builder *b);
struct tir_value tir_lane_id(struct tir_builder *b);

/** Reserves `bytes` of LDS, aligned to 16 (or `align` if larger); the value is its address. */
struct tir_value tir_lds_buffer(struct tir_builder *b, unsigned bytes, unsigned align);

/* Tiles. `t` is the type of the result. */
struct tir_value tir_splat(struct tir_builder *b, struct tir_value scalar, struct tir_type t);
struct tir_value tir_row_index(struct tir_builder *b, struct tir_type t);
struct tir_value tir_col_index(struct tir_builder *b, struct tir_type t);
struct tir_value tir_broadcast(struct tir_builder *b, struct tir_value a, struct tir_type t);
struct tir_value tir_row_max(struct tir_builder *b, struct tir_value a);
struct tir_value tir_row_sum(struct tir_builder *b, struct tir_value a);
/** Adds up the products of each row of a and the same row of c, both f32 and of one type. A wave
 * must have whole rows. */
struct tir_value tir_row_dot(struct tir_builder *b, struct tir_value a, struct tir_value c);
struct tir_value tir_col_max(struct tir_builder *b, struct tir_value a);
struct tir_value tir_col_sum(struct tir_builder *b, struct tir_value a);
/** Reduce over the rows that a lane holds in registers only: no cross-lane traffic. The result has
 * one row per row bit held by lanes; col_max / col_sum finish it. */
struct tir_value tir_col_fold_max(struct tir_builder *b, struct tir_value a);
struct tir_value tir_col_fold_sum(struct tir_builder *b, struct tir_value a);
/** c (f32) plus tir_col_fold_sum() of a (bf16). Registers of a lane must hold rows of one column,
 * and the machine must have has_dot_bf16. */
struct tir_value tir_col_fold_dot(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** tir_col_fold_max() of 16-bit floats that are not negative: an i32 has the maxima of two groups
 * of rows, see ops.def. Registers of a lane must hold rows of one column, and the machine must have
 * has_pk_max3. */
struct tir_value tir_col_fold_top(struct tir_builder *b, struct tir_value a);
/** A scalar i1: is a maximum of tir_col_fold_top() above the limit, or a NaN, in some lane of the
 * wave? Both halves of `limit` hold it. */
struct tir_value tir_any_above(struct tir_builder *b, struct tir_value top, struct tir_value limit);
struct tir_value tir_mma(struct tir_builder *b, int instr, struct tir_value a, struct tir_value c,
                         struct tir_value acc);
/** Multiplies only the first k columns of a with the first k rows of c; k is a multiple of the
 * instruction's. */
struct tir_value tir_mma_first(struct tir_builder *b, int instr, struct tir_value a,
                               struct tir_value c, struct tir_value acc, unsigned k);
/** The product of one block of 32 columns a wave with a of 16 rows, see ops.def. */
struct tir_value tir_mma_halves(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc);
/** tir_mma() whose accumulator stays in accumulation registers, for waves that have a SIMD to
 * themselves. Any op but such a product that reads it moves it to vector registers first. */
struct tir_value tir_mma_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                  struct tir_value c, struct tir_value acc);

/** The scaled product: `left` and `right` are the scales of a and c, tiles of i8 as
 * tir_mma_scales() lays them out, or a scalar i32. tir_i32(b, 127) is 1. */
struct tir_value tir_mma_scaled(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc, struct tir_value left,
                                struct tir_value right);
/** The scaled product with an accumulator like that of tir_mma_in_agprs(). */
struct tir_value tir_mma_scaled_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                         struct tir_value c, struct tir_value acc,
                                         struct tir_value left, struct tir_value right);
struct tir_value tir_relayout(struct tir_builder *b, struct tir_value a,
                              const struct tir_layout *to);
struct tir_value tir_transpose(struct tir_builder *b, struct tir_value a);

/** The rows of a above those of c, of the same type: registers side by side. */
struct tir_value tir_stack(struct tir_builder *b, struct tir_value a, struct tir_value c);
/** The upper (which 0) or lower (1) half of the rows of a, whose last register bit tells them
 * apart: one operand of the stack that a is like. */
struct tir_value tir_half(struct tir_builder *b, struct tir_value a, int which);

/** d[i][j] = a[i][j xor cols]: registers are renamed or lanes exchange. One bit of a's layout
 * stands for `cols`, and for nothing else. */
struct tir_value tir_col_flip(struct tir_builder *b, struct tir_value a, unsigned cols);

/* (C rows) x X as rows x (C X), and back: `width` is X. Powers of two that divide a's sizes. */
struct tir_value tir_join_blocks(struct tir_builder *b, struct tir_value a, unsigned rows);
struct tir_value tir_split_blocks(struct tir_builder *b, struct tir_value a, unsigned width);

/** A 2-D region of global memory: rows of `row_stride` bytes behind a buffer resource. */
struct tir_view {
    struct tir_value rsrc;       /* TIR_RSRC */
    struct tir_value row_stride; /* i32, bytes */
    struct tir_value byte;       /* i32, byte offset of column 0 within a row */
};
struct tir_value tir_tile_load(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                               struct tir_type t);
void tir_tile_store(struct tir_builder *b, struct tir_view v, struct tir_value row0,
                    struct tir_value a);
/** Rows at base + row_addr[i] + byte; row_addr is an Mx1 tile of i64 byte offsets. */
struct tir_value tir_tile_gather(struct tir_builder *b, struct tir_value base,
                                 struct tir_value row_addr, struct tir_value byte,
                                 struct tir_type t);
/** tir_tile_gather() from memory that no kernel writes meanwhile: an array of indices. */
struct tir_value tir_tile_gather_constant(struct tir_builder *b, struct tir_value base,
                                          struct tir_value row_addr, struct tir_type t);
/** Rows at row_addr + offset through a resource; row_addr is an Mx1 tile of i32 byte offsets. */
struct tir_value tir_tile_fetch(struct tir_builder *b, struct tir_value rsrc,
                                struct tir_value row_addr, unsigned offset, struct tir_type t);
/** Rows with a negative row_addr are skipped. */
void tir_tile_scatter(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                      struct tir_value byte, struct tir_value a);
/** tir_tile_scatter() of rows whose elements lie `apart` bytes from each other. */
void tir_tile_scatter_apart(struct tir_builder *b, struct tir_value base, struct tir_value row_addr,
                            struct tir_value byte, unsigned apart, struct tir_value a);
/** `address_map` is the LDS buffer's layout (address bits -> row, col); `t` gives shape and dtype:
 * which lane copies what follows from the address map. */
void tir_copy_to_lds(struct tir_builder *b, int group, struct tir_view v, struct tir_value row0,
                     struct tir_value lds, struct tir_type t, const struct tir_layout *address_map);
/** Copies rows at base + row_addr[i] + byte to lds + offset, asynchronously. row_addr is an Mx1
 * tile of i64 or i32, laid out like the rows of tir_map_lanes(). Each wave makes the whole copy
 * that its own operands describe. */
void tir_gather_to_lds(struct tir_builder *b, int group, struct tir_value base,
                       struct tir_value row_addr, struct tir_value byte, struct tir_value lds,
                       unsigned offset, struct tir_type t, const struct tir_layout *address_map);
/** tir_gather_to_lds() of rows at row_addr[i] + both to lds + offset + both; row_addr holds i64
 * addresses. */
void tir_gather_both_to_lds(struct tir_builder *b, int group, struct tir_value row_addr,
                            struct tir_value lds, unsigned offset, unsigned both, struct tir_type t,
                            const struct tir_layout *address_map);
struct tir_value tir_tile_lds_load(struct tir_builder *b, struct tir_value lds, struct tir_type t,
                                   const struct tir_layout *address_map);
/** tir_tile_lds_load() whose columns from `columns` on are read from the padding of the address
 * map. All padding must hold the same, and the buffer must have one more behind its last span. */
struct tir_value tir_tile_lds_load_first(struct tir_builder *b, struct tir_value lds,
                                         struct tir_type t, const struct tir_layout *address_map,
                                         unsigned columns);
/** tir_tile_lds_load() that begins with column `first` of the map, a multiple of the tile's
 * columns. */
struct tir_value tir_tile_lds_load_from(struct tir_builder *b, struct tir_value lds,
                                        struct tir_type t, const struct tir_layout *address_map,
                                        unsigned first);
void tir_tile_lds_store(struct tir_builder *b, struct tir_value lds, struct tir_value a,
                        const struct tir_layout *address_map);
/** User function `hook` on every element of operands[0]; the result has operands[0]'s type. */
struct tir_value tir_call_hook(struct tir_builder *b, const char *hook,
                               const struct tir_value *operands, unsigned n);

/** A buffer resource of `bytes` (i32, unsigned) from `base` (i64) on. */
struct tir_value tir_make_rsrc(struct tir_builder *b, struct tir_value base,
                               struct tir_value bytes);
/** One uniform value at base (i64) + offset (i32), of memory that no kernel writes meanwhile. */
struct tir_value tir_scalar_load(struct tir_builder *b, struct tir_value base,
                                 struct tir_value offset, unsigned dtype);
/** A scalar i1: is `a` set in some active lane of the wave? */
struct tir_value tir_any(struct tir_builder *b, struct tir_value a);
/** A scalar of the value that all lanes of the wave hold; of lanes that differ, that of the first
 * active one. */
struct tir_value tir_first_lane(struct tir_builder *b, struct tir_value a);
/** Counts the elements of the wave that are set; the result is an i32 scalar. */
struct tir_value tir_lane_count(struct tir_builder *b, struct tir_value a);
/** An i64 scalar with a bit for each lane of the wave in which `a` is set; of a tile, its first
 * register. */
struct tir_value tir_lane_mask(struct tir_builder *b, struct tir_value a);
/** Returns one lane's element as a scalar. */
struct tir_value tir_lane_read(struct tir_builder *b, struct tir_value a, struct tir_value lane);
/** Counts, for each lane, the lanes below it in which the i1 is set. */
struct tir_value tir_lanes_below(struct tir_builder *b, struct tir_value a);

/* Elements at LDS addresses of their own: 32 bits each, in tiles that no lane repeats. */
struct tir_value tir_lds_gather(struct tir_builder *b, struct tir_value address, unsigned dtype);
void tir_lds_scatter_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                        struct tir_value a);
/** Atomic; what was there is not returned. */
void tir_lds_add_if(struct tir_builder *b, struct tir_value mask, struct tir_value address,
                    struct tir_value a);

/** Groups of a wait: for LDS writes; and for none, where a wave reads what it wrote itself. The LDS
 * executes the accesses of a wave in order, so that these only have to stand in that order: CDNA3
 * ISA, 4.4, lets LDS return in order, and LLVM puts no wait between such a write and read. */
enum { TIR_LDS_WRITES = -1, TIR_LDS_ORDER = -2 };
void tir_wait(struct tir_builder *b, int group, int pending);
/** All loads and stores of this wave have completed. */
void tir_wait_memory(struct tir_builder *b);
void tir_barrier(struct tir_builder *b);
/** So many of the wait states until results in accumulation registers can be read stand here, where
 * the wave waits for something else, and not in front of the first read: as many as are left. */
void tir_settle(struct tir_builder *b, int states);
/** Counts this wave at `address` (i64) and returns how many of n waves had arrived before it: n - 1
 * to the last, which leaves 0 there. Stores that come before are seen, on any compute unit, behind
 * tir_acquire() of a wave that arrived later or was told so by one that did. */
struct tir_value tir_arrive(struct tir_builder *b, struct tir_value address, struct tir_value n);
/** Adds n (i32) to the i32 at `address` (i64) and returns what it was, in one step for all waves of
 * the device. With `release` stores that come before are seen as those before tir_arrive() are;
 * else it orders nothing. */
struct tir_value tir_atomic_add(struct tir_builder *b, struct tir_value address, struct tir_value n,
                                bool release);
/** Waits for n waves of the device, each of which adds 1 to the i32 at `address` (i64) when it
 * arrives; whoever sees all of them there may make it 0. Returns how many have left before all were
 * there, or, after `polls` reads at least, -1: this wave has left. So no wave waits for another
 * that may not have begun. It sleeps `sleep` times 64 clocks between reads, so that many who wait
 * leave the counter's part of the L2 to those who arrive. n is less than 65536. */
struct tir_value tir_await(struct tir_builder *b, struct tir_value address, struct tir_value n,
                           unsigned polls, unsigned sleep);
void tir_acquire(struct tir_builder *b);
/** Waves of which `cond` is true do no more in the pipelined loop that comes next than to copy. */
void tir_only_copies(struct tir_builder *b, struct tir_value cond);
void tir_set_priority(struct tir_builder *b, int level);
/** The next instruction stands `words` behind a multiple of `of` words: TIR_FETCH_WORDS, a window
 * of instruction fetch, or TIR_PAIR_WORDS, a long instruction. */
void tir_align_code(struct tir_builder *b, unsigned words, unsigned of);
/** Ops that compute the tile stay above, and ops that come behind stay below. */
void tir_anchor(struct tir_builder *b, struct tir_value a);
/** Scalars that are loaded, all asked for before the first is waited for. */
void tir_anchor_all(struct tir_builder *b, const struct tir_value *values, unsigned n);
/** Begins a phase of the schedule: kind 0 memory, 1 matrix. */
void tir_phase(struct tir_builder *b, int kind);

/**
 * for (index = first; index < bound; index += step) with carried values. The builder moves into the
 * body; carried[i] becomes the body's parameter. tir_end_for() yields `carried` and leaves results
 * there.
 */
struct tir_loop {
    struct tir_builder outer;
    struct tir_ref op;
    struct tir_value index;
};
struct tir_loop tir_begin_for(struct tir_builder *b, struct tir_value first, struct tir_value bound,
                              struct tir_value step, struct tir_value *carried, unsigned n);
void tir_end_for(struct tir_builder *b, struct tir_loop *loop, struct tir_value *carried,
                 unsigned n);

/** if: the builder moves into the then-block; tir_else() ends it with its values and moves on;
 * tir_end_if() ends the else-block and leaves the merged values in `values`. Without results,
 * tir_else() may be left out. */
struct tir_if {
    struct tir_builder outer;
    struct tir_ref op;
    unsigned n;
};
struct tir_if tir_begin_if(struct tir_builder *b, struct tir_value cond, bool cold,
                           const struct tir_type *results, unsigned n);
/** A cold one that needs no wait states at its head: see bare in ops.def. */
struct tir_if tir_begin_bare_if(struct tir_builder *b, struct tir_value cond,
                                const struct tir_type *results, unsigned n);
void tir_else(struct tir_builder *b, struct tir_if *s, const struct tir_value *values);
void tir_end_if(struct tir_builder *b, struct tir_if *s, struct tir_value *values);
void tir_return(struct tir_builder *b);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the state of a workgroup of ssd_prefill, and its parts: numbers of tokens, and
 * states of segments.
 */
#ifndef TEMPLATES_SSD_PREFILL_SSD_PREFILL_H
#define TEMPLATES_SSD_PREFILL_SSD_PREFILL_H

#include "templates/linear/chunk.h"
#include "templates/template.h"

enum { SSD_ELEM = 2, SSD_FLOAT = 4 }; /* bytes of an element of 16 bits, and of an f32 */

/* The f32 numbers of each token of a chunk in LDS. G is the sum of the log decays g of the chunk's
 * tokens up to and including the token. */
enum ssd_number {
    SSD_SUMS,    /* G log2(e), the exponent x for which 2^x is exp(G) */
    SSD_WEIGHTS, /* w: the token's time step, or 1 without time steps; 0 after the last token */
    SSD_GROWN,   /* exp(G), the decay from the chunk's start to the token */
    /* exp(G[63] - G) times the time step w: the weight of the token in the state after the chunk */
    SSD_LEFT,
    SSD_NUMBERS
};

/* Indices of the tensors of a chunk, which are loaded to registers before the chunk is multiplied:
 * b, x and c. */
enum { SSD_B, SSD_X, SSD_C, SSD_LOADED };

/** A kernel of ssd_prefill under construction. The header of ssd_prefill.c defines b, c, x, N, M, S
 * and out. */
struct ssd_prefill {
    const struct att_variant *v;
    struct tir_builder b;
    /* dtype: enum tir_dtype of x, b, c and out. values: number of value elements of the workgroup.
     * waves: number of waves. */
    unsigned dtype, values, waves;
    bool shares_lds; /* true: b and the state use one LDS buffer, one after the other */
    int instr;       /* index in tir_machine.mma of the matrix instruction */
    /* by_token: split of M^T (weights of tokens) and out^T over waves, by tokens. by_key: split of
     * the state S over waves, by elements of a key */
    struct tir_waves by_token, by_key;
    /* Order of the inner dimension of products: over the N key elements, and over the tokens of a
     * chunk. */
    struct tir_contraction keys, tokens;
    /* f32 types. scores: M^T, weights of tokens in outputs, 64 x 64. out: out^T, values x 64 */
    struct tir_type scores, out;
    struct att_state state; /* the workgroup's part of a state, and its form in the pool */
    struct att_state entry; /* the form of a state in segment_states */
    struct tir_layout b_map, x_map, s_map; /* LDS layouts of b, x and S^T of a chunk */
    struct tir_value b_lds, x_lds, s_lds;  /* i32: LDS addresses of the buffers of b, x and S^T */
    struct tir_value numbers; /* i32: LDS address of the enum ssd_number of a group of chunks */
    struct tir_value chunk_numbers; /* i32: LDS address of the current chunk's part of `numbers` */
    struct att_sequence sequence;   /* the workgroup's sequence */
    /* i32: row in the batch of the workgroup's first token, and of the token after its last one. */
    struct tir_value first_token, end;
    struct tir_value segment;     /* i32: index of the workgroup's segment in the sequence */
    struct tir_value segment_row; /* i32: row of the segment in segment_states */
    /* i32: index of the head of b and c; of the head of x; of the workgroup's first value
     * element. */
    struct tir_value head, value_head, first;
    /* i1: the sequence is one of the batch; false: the sequence is padding. */
    struct tir_value real;
    /* i64: address of the sequence's row of block_slots: att_block_row(). */
    struct tir_value block_row;
    /* f32 scalars of the value head. rate: decay rate times log2(e), so that `rate` w is g log2(e).
     * bias: added to dt; 0 if argument dt_bias is NULL. skip: d, the factor of x in out; 0 if
     * argument skip is NULL. */
    struct tir_value rate, bias, skip;
};

/** True if the kernel computes outputs; false if it computes only states of segments. */
static inline bool ssd_has_outputs(const struct ssd_prefill *s)
{
    return s->v->segments != ATT_SEGMENTS_STATES;
}

/* ---- Numbers ---- */

/** True if tokens have time steps (argument dt); false if each token has step 1. */
static inline bool ssd_has_steps(const struct ssd_prefill *s)
{
    return s->v->gates != ATT_GATES_CONSTANT;
}

/** Returns the bytes of LDS of the numbers (enum ssd_number) of a group of chunks, one chunk for
 * each of `waves` waves. */
unsigned ssd_numbers_bytes(unsigned waves);

/** Loads dt, from which time steps follow, of the tokens of this wave's chunk. The chunk is in the
 * group of chunks that begins at token `group` (i32). Returns 0 if tokens have no time steps. */
struct tir_value ssd_load_steps(struct ssd_prefill *s, struct tir_value group);

/** Computes the numbers (enum ssd_number) of this wave's chunk and stores them in LDS. The group of
 * chunks begins at token `group` (i32). `raw` is the result of ssd_load_steps(). */
void ssd_make_numbers(struct ssd_prefill *s, struct tir_value group, struct tir_value raw);

/** Reads number `which` of the chunk's tokens from LDS, repeated over a tile of type `over`. Tokens
 * are the tile's rows if `axis` is 1, its columns if `axis` is 0. */
struct tir_value ssd_spread_numbers(struct ssd_prefill *s, enum ssd_number which,
                                    struct tir_type over, int axis);

/** Returns G[63] log2(e) of the current chunk as an f32 scalar, for exponents to the base 2. G[63]
 * is the sum of the log decays g of all of its tokens. */
struct tir_value ssd_sum_of_chunk(struct ssd_prefill *s);

/* ---- Segments ---- */

/** Sets the workgroup's sequence and its range of tokens: all of the sequence, or one segment of
 * it. */
void ssd_choose_tokens(struct ssd_prefill *s);

/** Returns the state before the workgroup's first token, a tile of N x values: zeros in the launch
 * that makes states of segments. */
struct tir_value ssd_first_state(struct ssd_prefill *s);

/** Stores `state`, the state after the workgroup's last token, in the pool, if that token is the
 * sequence's last one. */
void ssd_store_last_state(struct ssd_prefill *s, struct tir_value state);

/** Stores `state`, the state before token `after` (i32), in the pool if a block of a prefix cache
 * ends before that token. */
void ssd_store_block_state(struct ssd_prefill *s, struct tir_value after, struct tir_value state);

/** Stores the state before the sequence's first token in segment_states, for all segments to
 * read. */
void ssd_share_first_state(struct ssd_prefill *s);

/** Stores the effect of the segment's tokens in row segment_row + 1 of segment_states, and in
 * segment_sums. `state`: the state that the tokens make from a state of zeros. `sum` (f32 scalar):
 * the sum of the tokens' log decays g, times log2(e). */
void ssd_store_segment(struct ssd_prefill *s, struct tir_value state, struct tir_value sum);

#endif

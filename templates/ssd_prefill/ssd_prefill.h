/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the state of a workgroup of ssd_prefill, and its parts: numbers of tokens, and
 * states of segments.
 */
#ifndef TEMPLATES_SSD_PREFILL_SSD_PREFILL_H
#define TEMPLATES_SSD_PREFILL_SSD_PREFILL_H

#include "templates/linear/chunk.h"
#include "templates/template.h"

enum { SSD_ELEM = 2, SSD_FLOAT = 4 }; /* bytes */

/* Numbers of each token of a chunk, in LDS. */
enum ssd_number {
    SSD_SUMS,    /* G to the base 2: sums of g times log2(e) */
    SSD_WEIGHTS, /* w: the time step, or 1 without steps; 0 after the last token */
    SSD_GROWN,   /* exp(G) */
    SSD_LEFT,    /* exp(G[63] - G) w */
    SSD_NUMBERS
};

/* Tensors of a chunk that are loaded before it is multiplied. */
enum { SSD_B, SSD_X, SSD_C, SSD_LOADED };

/** A kernel of ssd_prefill. ssd_prefill.c defines M, S and out. */
struct ssd_prefill {
    const struct att_variant *v;
    struct tir_builder b;
    unsigned dtype, values, waves;     /* of tokens; value elements of the workgroup */
    bool shares_lds;                   /* b and the state use one LDS buffer, one after the other */
    int instr;                         /* number of the matrix instruction */
    struct tir_waves by_token, by_key; /* division of M^T and out^T by waves; of S */
    struct tir_contraction keys, tokens; /* of products over N; over the tokens of a chunk */
    struct tir_type scores, out;         /* M^T, 64 x 64, and out^T, values x 64; f32 */
    struct att_state state;
    struct att_state entry;                /* the form of a state in segment_states */
    struct tir_layout b_map, x_map, s_map; /* LDS layouts of b, x and S^T of a chunk */
    struct tir_value b_lds, x_lds, s_lds;  /* i32: buffers */
    struct tir_value numbers;              /* i32: LDS of enum ssd_number of a group of chunks */
    struct tir_value chunk_numbers;        /* i32: LDS of the chunk's part of `numbers` */
    struct att_sequence sequence;
    struct tir_value first_token, end;        /* i32: of the workgroup's tokens */
    struct tir_value segment;                 /* i32: number in the sequence */
    struct tir_value segment_row;             /* i32: its row in segment_states */
    struct tir_value head, value_head, first; /* i32: head of b and c; of x; first value element */
    struct tir_value real;                    /* i1: false: the sequence is padding of a batch */
    struct tir_value block_row;               /* i64: att_block_row() of the sequence */
    struct tir_value rate, bias, skip;        /* f32 scalars; rate for exponents to the base 2 */
};

/** True if the kernel computes outputs; false if it computes only states of segments. */
static inline bool ssd_has_outputs(const struct ssd_prefill *s)
{
    return s->v->segments != ATT_SEGMENTS_STATES;
}

/* ---- Numbers ---- */

/** True if tokens have time steps. */
static inline bool ssd_has_steps(const struct ssd_prefill *s)
{
    return s->v->gates != ATT_GATES_CONSTANT;
}

/** Returns the bytes of LDS that the numbers of a group of chunks take, one for each wave. */
unsigned ssd_numbers_bytes(unsigned waves);

/** Loads dt of the tokens of this wave's chunk, in the group of chunks that begins at token
 * `group`. Returns 0 if tokens have no time steps. */
struct tir_value ssd_load_steps(struct ssd_prefill *s, struct tir_value group);

/** Makes the numbers of this wave's chunk and stores them to LDS; `raw` is of ssd_load_steps(). */
void ssd_make_numbers(struct ssd_prefill *s, struct tir_value group, struct tir_value raw);

/** Loads a number for each row (axis 1) or column (axis 0) of a tile of the chunk, repeated. */
struct tir_value ssd_spread_numbers(struct ssd_prefill *s, enum ssd_number which,
                                    struct tir_type over, int axis);

/** Returns the sum G[63] of the chunk, a scalar for exponents to the base 2. */
struct tir_value ssd_sum_of_chunk(struct ssd_prefill *s);

/* ---- Segments ---- */

/** Sets the workgroup's sequence and its tokens: all of the sequence, or one segment of it. */
void ssd_choose_tokens(struct ssd_prefill *s);

/** Loads the state before the workgroup's first token, N x values. */
struct tir_value ssd_first_state(struct ssd_prefill *s);

/** Stores the state after the workgroup's last token where it is the sequence's last. */
void ssd_store_last_state(struct ssd_prefill *s, struct tir_value state);

/** Stores the state before token `after` (i32) if a block of a prefix cache ends there. */
void ssd_store_block_state(struct ssd_prefill *s, struct tir_value after, struct tir_value state);

/** Stores the state before the sequence's first token in segment_states, for all segments to
 * read. */
void ssd_share_first_state(struct ssd_prefill *s);

/** Stores the state that the segment's tokens make of state 0, and the sum of their g (f32
 * scalar). */
void ssd_store_segment(struct ssd_prefill *s, struct tir_value state, struct tir_value sum);

#endif

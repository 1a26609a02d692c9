/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what a workgroup of gated_delta_prefill has of a chunk of 64 tokens.
 *
 * With K and Q the raw keys and queries of the chunk, r and s what divides them by their lengths
 * and scales the queries, and D the decays between two tokens, a chunk's coefficients are
 *
 *     N[i][j] = r_i D_ij K_i . K_j           below the diagonal
 *     M = (I + diag(beta r) N)^-1 diag(beta r)
 *     P[i][j] = s_i D_ij Q_i . K_j           up to the diagonal.
 *
 * Each of the four waves makes 16 rows of these. Then each wave has some value elements of
 *
 *     W = M (V - r (decayed K) S),  out = s (decayed Q) S + P W,  S = decay S + (K decayed)^T W
 *
 * with W = r u. Rows of float products are divided by the lengths of keys, so that no key is
 * rounded after its division. Only the four 16 x 16 diagonal blocks of I + diag(beta r) N are
 * inverted; the scan substitutes forward over them with the blocks of N below the diagonal.
 *
 * What a product takes lies in LDS in panels and blocks, in rows of 16-bit elements.
 */
#ifndef TEMPLATES_GATED_DELTA_PREFILL_CHUNK_H
#define TEMPLATES_GATED_DELTA_PREFILL_CHUNK_H

#include "ir/matrix.h"
#include "templates/linear/sequence.h"
#include "templates/variant.h"

enum { DELTA_CHUNK = 64, DELTA_BLOCK = 16, DELTA_BLOCKS = DELTA_CHUNK / DELTA_BLOCK };
enum { DELTA_WAVES = DELTA_BLOCKS };
enum { DELTA_TRIANGLE = DELTA_BLOCKS * (DELTA_BLOCKS + 1) / 2 /* blocks up to the diagonal */ };
enum { DELTA_ELEM = 2, DELTA_FLOAT = 4 };

/* Raw rows of a chunk that a wave loads: its 16 rows of keys, queries and, by channel, gates; its
 * value elements of all rows; gates and betas of all rows. */
struct delta_rows {
    struct tir_value q, k, gate, beta, v[DELTA_BLOCKS];
};

struct delta_types {
    struct tir_type strip;        /* 16 x K, 16-bit: rows in registers, columns in lanes */
    struct tir_type keys;         /* 1 x K, f32, beside it */
    struct tir_type left, right;  /* 16 x K, 16-bit: operands of a product over K; right: its
                                     transpose is one */
    struct tir_type line;         /* 64 x 1, f32: a token a lane */
    struct tir_type block;        /* 16 x 16, f32: result of a product */
    struct tir_type rows, cols;   /* 16 x 1 and 1 x 16 beside it */
    struct tir_type coefficients; /* 16 x 16, 16-bit: left operand over 16 tokens */
    struct tir_type values;       /* 16 x value elements of a wave, f32: result */
    struct tir_type value_rows;   /* 16 x 1 beside it */
    struct tir_type stored;       /* the same in 16 bits, as memory has it */
    struct tir_type tokens;       /* 32 x value elements, 16-bit: right operand over tokens */
    struct tir_type turned;       /* K x 32, 16-bit: left operand over tokens */
    struct tir_type state;        /* K x value elements, f32: result */
    struct tir_type state_rows;   /* K x 1 beside it */
    struct tir_type operand;      /* the state in 16 bits: right operand over K */
};

/* Address maps. */
struct delta_maps {
    struct tir_layout strip;       /* 16 x K of 16 bits */
    struct tir_layout panel;       /* K x 16 of 16 bits: the keys of one strip, transposed */
    struct tir_layout turned;      /* K x 32 of 16 bits: two such panels */
    struct tir_layout block;       /* 16 x 16 of 16 bits */
    struct tir_layout line;        /* 64 x 1 floats */
    struct tir_layout rows, cols;  /* 16 x 1 and 1 x 16 floats */
    struct tir_layout keys, state; /* 1 x K and K x 1 floats */
};

/* Addresses in LDS (i32). */
struct delta_lds {
    struct tir_value k, q, turned; /* of 64 rows each */
    struct tir_value n, p;         /* blocks up to the diagonal; on it n has the blocks of M */
    struct tir_value sums;         /* by wave, a line each: enum delta_line */
    struct tir_value scales;       /* lines r and s of all rows */
    struct tir_value totals;       /* by channel: K floats for each block */
    struct tir_value scratch;      /* by channel, of the wave: two strips */
};

/* Lines of `sums`: betas. Not by channel also log2 of the decay from the chunk's first token on,
 * that decay, and the decay from the row to the last. */
enum delta_line { DELTA_BETA, DELTA_SUM, DELTA_FROM_FIRST, DELTA_TO_LAST, DELTA_LINES };

struct delta {
    struct tir_builder b;
    const struct att_variant *v;
    const struct tir_machine *m;
    unsigned dtype;
    unsigned values;                      /* value elements of a wave */
    int over_keys, over_tokens, by_block; /* matrix instructions */
    struct tir_contraction keys;
    struct delta_types t;
    struct delta_maps map;
    struct delta_lds lds;

    struct att_sequence sequence;
    struct tir_value head, value_head, wave; /* i32 */
    struct tir_value first;                  /* i32: value element of the wave */
    struct tir_value real;                   /* i1: no padding */
    struct tir_value a, bias;                /* exp(a_log); dt_bias, by channel 1 x K */

    struct tir_value left;   /* i32: tokens from the chunk's first one on */
    struct tir_value loaded; /* i32: the same, or 0 for padding */
    struct tir_value decay;  /* of the state over the chunk, f32; not by channel */
    struct tir_value before; /* by channel, 1 x K: log2 of the decay up to this wave's block */
    struct tir_value after;  /* likewise from the end of its block on */
    struct tir_value local;  /* by channel, 16 x K: log2 of the decay within the block */
};

static inline bool delta_by_channel(const struct delta *d)
{
    return d->v->decay == ATT_DECAY_CHANNEL;
}

/* ---- layouts.c ---- */

/** Chooses instructions, types, address maps and places in LDS. */
void delta_choose(struct delta *d);

/** Returns how many bytes of LDS a workgroup takes. */
unsigned delta_lds_bytes(const struct att_variant *v);

/** Returns the address of this wave's part, of `bytes` bytes, of an LDS region. */
struct tir_value delta_own(struct delta *d, struct tir_value region, int bytes);

/** Waits until all waves are here and what they wrote to LDS can be read. */
void delta_sync(struct delta *d);

/* ---- rows.c ---- */

/** Loads what all chunks of the value head share. */
void delta_load_head(struct delta *d);

/** Loads the rows of the chunk at `token`; rows that the sequence does not have are 0. */
void delta_load_rows(struct delta *d, struct tir_value token, struct delta_rows *rows);

/** Computes gates: the lines of `sums`, and by channel `local` and the block's total. */
void delta_gates(struct delta *d, const struct delta_rows *rows);

/** Returns log2 of the decay over the wave's block, 1 x K. */
struct tir_value delta_total(struct delta *d);

/** Adds up the totals of the other blocks: `before` and `after`. */
void delta_add_totals(struct delta *d);

/** Multiplies the state with its decay over the chunk. */
struct tir_value delta_fade(struct delta *d, struct tir_value state);

/** Multiplies a strip with 2^exponent (16 x K, f32) and rounds it. */
struct tir_value delta_decayed(struct delta *d, struct tir_value strip, struct tir_value exponent);

/** Returns the last row of a tile. Its highest register bits number rows. */
struct tir_value delta_last_row(struct delta *d, struct tir_value a);

/** Repeats 1 x K numbers for 16 rows. */
struct tir_value delta_spread(struct delta *d, struct tir_value keys);

/* ---- coefficients.c ---- */

/** Stores a strip, 16 x K, to LDS. */
void delta_store_strip(struct delta *d, struct tir_value at, struct tir_value strip);

/** Computes this wave's rows of M, N and P, and r and s, and stores them to LDS. */
void delta_coefficients(struct delta *d, const struct delta_rows *rows);

/* ---- scan.c ---- */

/** Stores this wave's keys as columns, which the state's product takes. */
void delta_store_turned(struct delta *d, struct tir_value strip);

/** Computes the chunk's output, stores it, and advances the state. */
struct tir_value delta_scan(struct delta *d, struct tir_value token, const struct delta_rows *rows,
                            struct tir_value state);

#endif

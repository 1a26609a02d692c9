/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the data and the functions with which a workgroup of gated_delta_prefill
 * processes a chunk of 64 tokens.
 *
 * K, Q and V are the raw keys, queries and values of the chunk, a row for each token. S is the
 * state, head_dim x head_dim_v. r has the inverse length of each key. s has the inverse length of
 * each query, times the scale. beta is the update's weight of each token. D_ij is the decay from
 * token j to token i. A chunk's coefficients are
 *
 *     N[i][j] = r_i D_ij K_i . K_j           below the diagonal
 *     M = (I + diag(beta r) N)^-1 diag(beta r)
 *     P[i][j] = s_i D_ij Q_i . K_j           up to the diagonal.
 *
 * Each of the four waves computes 16 rows of N, M and P. Then each wave processes some value
 * elements (columns of V) of
 *
 *     W = M (V - r (decayed K) S),  out = s (decayed Q) S + P W,  S = decay S + (K decayed)^T W
 *
 * W is the update u of the delta rule times r: rows of float products are divided by the lengths of
 * keys, so that no key is rounded after its division. Only the four 16 x 16 diagonal blocks of I +
 * diag(beta r) N are inverted. The scan substitutes forward over them with the blocks of N below
 * the diagonal.
 *
 * Operands of products are in LDS as panels and blocks, in rows of 16-bit elements.
 */
#ifndef TEMPLATES_GATED_DELTA_PREFILL_CHUNK_H
#define TEMPLATES_GATED_DELTA_PREFILL_CHUNK_H

#include "ir/matrix.h"
#include "templates/linear/sequence.h"
#include "templates/variant.h"

/* DELTA_CHUNK: number of tokens of a chunk. DELTA_BLOCK: number of tokens of a block. DELTA_BLOCKS:
 * number of blocks of a chunk. DELTA_WAVES: number of waves, each for a block, that compute
 * coefficients. */
enum { DELTA_CHUNK = 64, DELTA_BLOCK = 16, DELTA_BLOCKS = DELTA_CHUNK / DELTA_BLOCK };
enum { DELTA_WAVES = DELTA_BLOCKS };
enum {
    DELTA_TRIANGLE = DELTA_BLOCKS * (DELTA_BLOCKS + 1) / 2 /* number of 16 x 16 blocks of a chunk
                                                                 up to the diagonal */
};
/* Bytes of a 16-bit element and of an f32 number. */
enum { DELTA_ELEM = 2, DELTA_FLOAT = 4 };
/* Bytes of a 16 x 16 block of 16-bit elements, of a line of numbers (f32) for 64 tokens, and of
 * numbers for 16 tokens. */
enum {
    DELTA_BLOCK_BYTES = DELTA_BLOCK * DELTA_BLOCK * DELTA_ELEM,
    DELTA_LINE_BYTES = DELTA_CHUNK * DELTA_FLOAT,
    DELTA_ROWS_BYTES = DELTA_BLOCK * DELTA_FLOAT
};

/* Rows of a chunk as a wave loads them, not yet converted. q, k: queries and keys of the wave's 16
 * tokens. v: V of all 64 tokens at the wave's value elements, by block. beta: a number for each of
 * the 64 tokens. gate: a number for each of the 64 tokens, or with a decay per channel, one for
 * each channel of the wave's 16 tokens. */
struct delta_rows {
    struct tir_value q, k, gate, beta, v[DELTA_BLOCKS];
};

/* Types of the kernel's tiles. A channel is an element of a key; there are head_dim. A wave has
 * `values` (of struct delta) value elements: columns of V. */
struct delta_types {
    /* 16 tokens x head_dim, 16-bit: a wave's rows of keys or queries. Registers select rows, and
     * lanes columns. */
    struct tir_type strip;
    /* f32, 1 x head_dim: a number for each channel, in the lanes of the columns of `strip`. */
    struct tir_type keys;
    /* 16 tokens x head_dim, 16-bit: `left` is a left operand of matrix products over head_dim. The
     * transpose of `right` is a right operand of such products. */
    struct tir_type left, right;
    struct tir_type line; /* f32, 64 x 1: a number for each token of the chunk, one in a lane */
    /* f32, 16 x 16: result of a product of two strips, with a row and a column for each token of a
     * block. */
    struct tir_type block;
    /* f32, 16 x 1 and 1 x 16: a number for each token of a block, in the lanes of the rows, or of
     * the columns, of `block`. */
    struct tir_type rows, cols;
    /* 16 x 16, 16-bit: a block of coefficients (M, N or P of the file's header) as left operand of
     * products over 16 tokens */
    struct tir_type coefficients;
    /* f32, 16 tokens x `values`: result of a product of `coefficients` and tokens, or of `left` and
     * the state. */
    struct tir_type values;
    /* f32, 16 x 1: a number for each token of a block, in the lanes of the rows of tile
     * `values`. */
    struct tir_type value_rows;
    /* 16 tokens x `values`, 16-bit, in the order in which V and out are in memory. */
    struct tir_type stored;
    /* 32 tokens x `values`, 16-bit: right operand of products over tokens. */
    struct tir_type tokens;
    struct tir_type padded; /* `tokens` for 16 tokens, with 16 rows of zeros after them */
    /* head_dim x 32 tokens, 16-bit: keys as left operand of products over tokens. */
    struct tir_type transposed;
    /* `transposed`, and two tiles `coefficients`, in the order of a chunk's record: rows of 16
     * bytes. */
    struct tir_type packed_transposed, packed_blocks;
    struct tir_type v_rows; /* 64 tokens x `values`, 16-bit: V in the layout of the widest loads */
    struct tir_type state;  /* f32, head_dim x `values`: the state S as result of a product */
    /* f32, head_dim x 1: a number for each channel, in the lanes of the rows of `state`. */
    struct tir_type state_rows;
    /* head_dim x `values`, 16-bit: the state as right operand of products over head_dim. */
    struct tir_type operand;
    /* `values` x head_dim, 16-bit: the transpose of `operand`, in the order of a chunk's record. */
    struct tir_type value_keys;
    /* `values` x 16 tokens, 16-bit: W (the updates of values) of a block, in the order of a chunk's
     * record. */
    struct tir_type value_tokens;
    struct tir_type value_numbers; /* f32, 1 x 16: the transpose of value_rows */
    /* head_dim x head_dim, 16-bit: the transition of a segment as left operand of products over
     * head_dim. */
    struct tir_type transition;
    struct tir_type one; /* f32, 1 x 1: one number */
};

/* Layouts in LDS of tiles with the shapes of struct delta_types. */
struct delta_maps {
    struct tir_layout strip; /* 16 tokens x head_dim of 16 bits */
    /* head_dim x 16 tokens of 16 bits: the keys of one strip, transposed. */
    struct tir_layout panel;
    struct tir_layout transposed; /* head_dim x 32 tokens of 16 bits: two tiles `panel` */
    struct tir_layout block;      /* 16 x 16 of 16 bits: a block of coefficients */
    struct tir_layout line;       /* 64 x 1 of f32: a number for each token */
    /* 16 x 1 and 1 x 16 of f32: a number for each token of a block */
    struct tir_layout rows, cols;
    /* 1 x head_dim and head_dim x 1 of f32: a number for each channel. */
    struct tir_layout keys, state;
    /* 64 tokens, and 16 tokens, x a wave's value elements of 16 bits: V. */
    struct tir_layout v, v_block;
};

/** LDS addresses (i32) of regions. All waves share them, except `sums`, `scratch` and `v`. */
struct delta_lds {
    /* i32, LDS addresses: keys of 64 tokens; queries of 64 tokens; keys as columns
     * (delta_maps.panel for each block). */
    struct tir_value k, q, transposed;
    /* i32, LDS addresses: 16 x 16 blocks of the coefficients N (key by key) and P (query by key) up
     * to the diagonal, in the order of delta_block_of(). On the diagonal `n` has blocks of the
     * inverse M instead of N. */
    struct tir_value n, p;
    /* i32, LDS address: this wave's copy of the lines of enum delta_line, 64 f32 each. */
    struct tir_value sums;
    /* i32, LDS address: f32 inverse lengths r of the keys of all 64 tokens, then factors s of the
     * queries: inverse length times the scale */
    struct tir_value scales;
    /* i32, LDS address, with a decay per channel: f32, log2 of the decay over each block of 16
     * tokens, head_dim numbers for each block. */
    struct tir_value totals;
    /* i32, LDS address, with a decay per channel: region of this wave only, for a strip that it
     * stores and loads again as an operand. */
    struct tir_value scratch;
    /* i32, LDS address, in a call of several launches: region of this wave only, for V of 64 tokens
     * at its value elements. */
    struct tir_value v;
};

/* Lines of delta_lds.sums: 64 f32, a number for each token. DELTA_BETA: beta. The other lines exist
 * only if all channels share a decay. DELTA_SUM: log2 of the decay from the chunk's first token on.
 * DELTA_FROM_FIRST: the decay, 2^ that sum. DELTA_TO_LAST: the decay from the token to the chunk's
 * last one. */
enum delta_line { DELTA_BETA, DELTA_SUM, DELTA_FROM_FIRST, DELTA_TO_LAST, DELTA_LINES };

/** The kernel of gated_delta_prefill under construction, and the chunk that its workgroup
 * processes. */
struct delta {
    struct tir_builder b;
    const struct att_variant *v;
    const struct tir_machine *m;
    unsigned dtype;  /* enum tir_dtype of q, k, v and out */
    unsigned values; /* number of value elements (columns of V) of a wave */
    unsigned waves;  /* number of waves of the workgroup */
    /* Indices in m->mma of the instructions for products over head_dim, over 32 tokens, and over
     * one block of 16 tokens. The instruction for 16 tokens contracts 32 if the machine has none
     * for 16. */
    int over_keys, over_tokens, by_block;
    struct tir_contraction keys; /* order in which products over head_dim sum over channels */
    struct delta_types t;
    struct delta_maps map;
    struct delta_lds lds;

    struct att_sequence sequence;
    /* i32, indices: head of q and k; head of v (value head); wave in the workgroup. */
    struct tir_value head, value_head, wave;
    struct tir_value first;     /* i32: index of the wave's first value element in a row of V */
    struct tir_value real;      /* i1: the sequence has a state; false: it is padding of a batch */
    struct tir_value block_row; /* i64: result of att_block_row() for the sequence */
    /* f32, of the value head: exp(a_log), one number; dt_bias, one number, or 1 x head_dim with a
     * decay per channel. No values if the gates are given as decays. */
    struct tir_value a, bias;

    struct tir_value token; /* i32: index of the chunk's first token, a row of q */
    /* i32: number of the sequence's tokens from the chunk's first one on; 0 or less: the chunk is
     * after the sequence's end. */
    struct tir_value left;
    struct tir_value loaded; /* i32: number of tokens to load: `left`, or 0 if `real` is false */
    /* i1, in the launch of segments: the wave computes the segment's state B from V. False: the
     * wave computes columns of the transition A, and V counts as 0. The state S before a segment
     * becomes A S + B. */
    struct tir_value seen;
    /* f32: decay of the state over the chunk; no value with a decay per channel. */
    struct tir_value decay;
    /* f32, 1 x head_dim: log2 of the decay from the chunk's start up to this wave's block; no value
     * if all channels share a decay. */
    struct tir_value before;
    /* f32, 1 x head_dim: log2 of the decay from the end of this wave's block to the chunk's end; no
     * value if all channels share a decay. */
    struct tir_value after;
    /* f32, 16 x head_dim: log2 of the decay from the start of this wave's block up to each of its
     * tokens; no value if all channels share a decay. */
    struct tir_value local;

    struct tir_value segment_row; /* i32: row index of the segment in argument `segments` */
    struct tir_value segment;     /* i32: index of the segment in the sequence */
    struct tir_value end;         /* i32: index of the first token after the segment, a row of q */
    /* i32: row index of the chunk in argument `chunks`; no value with ATT_STAGE_ALL */
    struct tir_value row;
    struct tir_value record; /* i64: address of the chunk's record in argument `chunks` */
};

/* Parts of the record of a chunk and value head, in their order in memory. Channels are the
 * head_dim elements of a key. */
enum delta_part {
    /* With a decay per channel: 64 tokens x head_dim of 16 bits, keys times their decay from the
     * chunk's start on; else empty. */
    DELTA_KEYS,
    /* With a decay per channel: queries times their decay from the chunk's start on, in the order
     * of DELTA_KEYS; else empty. */
    DELTA_QUERIES,
    /* Keys as columns, 16-bit; with a decay per channel, times their decay up to the chunk's end.
     * Order: half of the tokens, group of four tokens, channel, four tokens of each of two
     * blocks. */
    DELTA_KEY_COLUMNS,
    /* 16-bit blocks of coefficients of keys: of N below the diagonal, of its inverse M on the
     * diagonal. Order: pair of blocks, group of four columns, row, block of the pair, column of the
     * group */
    DELTA_N,
    /* 16-bit blocks of P, coefficients of queries, up to the diagonal, in the order of DELTA_N */
    DELTA_P,
    DELTA_NUMBERS, /* lines of 64 f32, a number for each token, in the order of enum delta_number */
    /* Decay of the state over the chunk: one f32, or head_dim f32 with a decay per channel. */
    DELTA_FADE,
    DELTA_STATE, /* head_dim_v x head_dim of 16 bits: the state S before the chunk */
    /* head_dim_v x 64 tokens of 16 bits: W of the chunk: the updates of values that advance the
     * state */
    DELTA_W,
    DELTA_PARTS
};

/* Lines of DELTA_NUMBERS, a factor for each token. DELTA_OF_KEYS: of the product of keys with the
 * state. DELTA_OF_QUERIES: of the product of queries with the state. DELTA_OF_W: of W (updates of
 * values), before W advances the state; not set with a decay per channel, for which it would be
 * 1. */
enum delta_number { DELTA_OF_KEYS, DELTA_OF_QUERIES, DELTA_OF_W, DELTA_NUMBER_LINES };

/* True if the call is computed by several launches, a stage each. */
static inline bool delta_in_stages(const struct delta *d) { return d->v->stage != ATT_STAGE_ALL; }

/* True if each channel (element of a key) has a decay of its own. False if all channels of a head
 * share one. */
static inline bool delta_by_channel(const struct delta *d)
{
    return d->v->decay == ATT_DECAY_CHANNEL;
}

/* ---- layouts.c ---- */

/** Sets d's matrix instructions, types, LDS layouts and LDS addresses. */
void delta_choose(struct delta *d);

/** Returns the bytes of LDS that a workgroup uses; 0 if the launch uses none. */
unsigned delta_lds_bytes(const struct att_variant *v);

/** Returns the LDS address (i32) of this wave's part of the region at LDS address `region` (i32).
 * Each wave's part has `bytes` bytes. */
struct tir_value delta_own(struct delta *d, struct tir_value region, int bytes);

/** Emits a barrier of the workgroup. After it, all waves can read what any wave stored to LDS
 * before it. */
void delta_sync(struct delta *d);

/* ---- rows.c ---- */

/** Sets d->a and d->bias, which all chunks of the value head share. Does nothing if the gates are
 * given as decays. */
void delta_load_head(struct delta *d);

/** Sets d->token, d->left and d->loaded for the chunk whose first token is `token` (i32, row index
 * in q). */
void delta_begin_chunk(struct delta *d, struct tir_value token);

/** Loads keys, queries, gates and betas of the chunk into *rows. Rows after the sequence's end are
 * 0. */
void delta_load_factors(struct delta *d, struct delta_rows *rows);

/** Loads V of the chunk, at the wave's value elements, into rows->v. Rows after the sequence's end
 * are 0. */
void delta_load_values(struct delta *d, struct delta_rows *rows);

/** Returns a view of the chunk's rows of V, at the wave's value elements. The view is empty, so
 * that loads return 0, if d->seen is false in stage ATT_STAGE_SEGMENTS. */
struct tir_view delta_rows_of_v(struct delta *d);

/** Returns a view of the chunk's rows of tensor `t`, K_IN or Q, at the workgroup's head d->head. */
struct tir_view delta_rows_of_head(struct delta *d, struct att_tensor t);

/** Computes decays and betas of the chunk from `rows`, and stores them to LDS as the lines of enum
 * delta_line. Sets d->decay. With a decay per channel it sets d->local instead, and stores the
 * total of the wave's block to LDS. */
void delta_gates(struct delta *d, const struct delta_rows *rows);

/** Returns log2 of the decay over this wave's block of 16 tokens: f32, 1 x head_dim. Only with a
 * decay per channel, after delta_gates(). */
struct tir_value delta_total(struct delta *d);

/** Sets d->before and d->after to the sums of delta_total() over the blocks before and after this
 * wave's block. Only with a decay per channel, after delta_gates() and a barrier. */
void delta_add_totals(struct delta *d);

/** Returns `state` (f32, head_dim x value elements) times its decay over the chunk. */
struct tir_value delta_fade(struct delta *d, struct tir_value state);

/** Returns the state's decay of each channel over the chunk, as a tile of type `t` (f32). `map` is
 * the layout of that tile in LDS. Only with a decay per channel. */
struct tir_value delta_fade_of_channels(struct delta *d, struct tir_type t,
                                        const struct tir_layout *map);

/** Returns `strip`, 16 x head_dim of 16 bits, times 2^exponent, rounded to 16 bits. `exponent` is
 * f32, 16 x head_dim. */
struct tir_value delta_decayed(struct delta *d, struct tir_value strip, struct tir_value exponent);

/** Returns the last row of tile `a`. The highest register bits of the tile's layout select rows. */
struct tir_value delta_last_row(struct delta *d, struct tir_value a);

/** Returns `keys`, 1 x head_dim of f32, repeated for 16 rows. */
struct tir_value delta_spread(struct delta *d, struct tir_value keys);

/* ---- coefficients.c ---- */

/** Stores `strip`, 16 x head_dim of 16 bits, at LDS address `at` (i32). */
void delta_store_strip(struct delta *d, struct tir_value at, struct tir_value strip);

/** Computes the wave's 16 rows of the coefficients M, N and P (file header), and the inverse
 * lengths r and s of its keys and queries. Stores the coefficients to LDS, or to the chunk's record
 * in a call of several launches. Stores r and s to LDS. */
void delta_coefficients(struct delta *d, const struct delta_rows *rows);

/* ---- scan.c ---- */

/** Returns the transpose of `strip`, head_dim x 16. A lane's registers hold adjacent tokens, so
 * that a store writes several at once. */
struct tir_value delta_transposed(struct delta *d, struct tir_value strip);

/** Stores `strip`, this wave's keys, transposed to d->lds.transposed. The product that advances the
 * state reads these columns. */
void delta_store_transposed(struct delta *d, struct tir_value strip);

/** Computes the chunk's outputs and stores them to out. `state`: the state S before the chunk.
 * Returns S after the chunk. Of `rows` only member v is read. */
struct tir_value delta_scan(struct delta *d, const struct delta_rows *rows, struct tir_value state);

/** Returns `a` (f32) rounded to d->dtype, the 16-bit dtype of operands. */
struct tir_value delta_rounded(struct delta *d, struct tir_value a);

/** Returns f32 zeros, 16 x value elements of a wave. */
struct tir_value delta_zeros(struct delta *d);

/** Returns the index of block [i][j], j <= i, among a chunk's blocks up to the diagonal, row by
 * row. */
static inline int delta_block_of(int i, int j) { return i * (i + 1) / 2 + j; }

/** Returns `sum` plus the product of `coefficients`, a 16 x 16 block, with `rows`, 16 tokens x
 * value elements. Both operands are padded with zeros if d->by_block contracts 32 tokens. */
struct tir_value delta_add_block(struct delta *d, struct tir_value coefficients,
                                 struct tir_value rows, struct tir_value sum);

/** Returns `a`, 16 tokens x value elements, with each row multiplied by its number in `rows`, 16 x
 * 1. */
struct tir_value delta_times_rows(struct delta *d, struct tir_value a, struct tir_value rows);

/** Returns `state` rounded to 16 bits, as right operand of products over head_dim. */
struct tir_value delta_operand(struct delta *d, struct tir_value state);

/** Returns `v`, V of a block of 16 tokens, minus `known`: the product of the block's keys with the
 * state, as f32. */
struct tir_value delta_without(struct delta *d, struct tir_value v, struct tir_value known);

/** Returns `state` advanced by 32 tokens: plus the product of `keys`, the tokens' keys as columns,
 * with w[0] and w[1], W (updates of values) of their two blocks. Keys or w[] are decayed up to the
 * chunk's end. */
struct tir_value delta_advance(struct delta *d, struct tir_value keys, const struct tir_value *w,
                               struct tir_value state);

/** Returns a view of the chunk's rows of `out`, at the wave's value elements. */
struct tir_view delta_out_view(struct delta *d);

/** Stores `out` (f32), the outputs of block i (index) of the chunk, at the wave's value elements.
 * `view` is the result of delta_out_view(). */
void delta_store_out(struct delta *d, struct tir_view view, int i, struct tir_value out);

/* ---- whole.c ---- */

/** Stores to LDS the wave's rows from which coefficients are computed: keys and queries. With a
 * decay per channel these are keys only, decayed to the end of the block. */
void delta_store_factors(struct delta *d, const struct delta_rows *rows);

/** Strips of a wave with a decay per channel: keys and queries times their decays from the chunk's
 * start on, and keys times their decays up to the chunk's end. */
struct delta_decayed {
    struct tir_value k, q, to_last;
};

/** Returns the wave's strips of `rows`, times their decays per channel. */
struct delta_decayed delta_decay_rows(struct delta *d, const struct delta_rows *rows);

/** Builds the kernel of a call in one launch: computes all chunks of d->sequence, and stores the
 * state after them. */
void delta_visit_sequence(struct delta *d);

/* ---- states.c ---- */

/** Sets d->real to whether the sequence has a slot in the pool of states. */
void delta_find_slot(struct delta *d);

/** Returns the state S (f32) with which the sequence begins: zeros if the sequence has no stored
 * state, or if d->real is false. Needs delta_find_slot(). */
struct tir_value delta_load_state(struct delta *d);

/** Stores `state`, the state before token `after` (i32, row index in q), in the pool. Does nothing
 * unless a block of a prefix cache ends before that token, and the block has a slot. */
void delta_store_block_state(struct delta *d, struct tir_value after, struct tir_value state);

/** Stores `state`, the state after the sequence, to the sequence's slot of the pool. Stores nothing
 * if the sequence has no slot or d->real is false. */
void delta_store_state(struct delta *d, struct tir_value state);

/* ---- record.c ---- */

/** Sets d->sequence, d->row and d->record for the chunk with row `row` (i32, index) of `chunks`.
 * Returns the index of the chunk's first token. If the row has no chunk, that index is at or after
 * the sequence's end. */
struct tir_value delta_find_chunk(struct delta *d, struct tir_value row);

/** Sets d->sequence, d->segment_row, d->segment, d->token and d->end for the segment with row `row`
 * (i32, index) of `segments`. If the row has no segment, d->token is at or after the sequence's
 * end. */
void delta_find_segment(struct delta *d, struct tir_value row);

/** Returns the row index (i32) in `chunks` of the first chunk of sequence `index` (i32). `start`
 * (i32) is the row index in q of the sequence's first token. */
struct tir_value delta_first_row(struct delta *d, struct tir_value start, struct tir_value index);

/** Sets d->row to `row` (i32, row index in `chunks`), and d->record to the address of that row's
 * record. */
void delta_set_record(struct delta *d, struct tir_value row);

/** Returns a view of part `part` of the record at d->record, as rows of `row_bytes` bytes. The view
 * begins at byte offset `byte` of each row. */
struct tir_view delta_part(struct delta *d, enum delta_part part, int row_bytes, int byte);

/** Stores `a`, 16 x 16 of 16 bits, in the chunk's record as block `n` of `part`, DELTA_N or
 * DELTA_P. `n` (i32) is an index as delta_block_of() returns it. */
void delta_store_block(struct delta *d, enum delta_part part, struct tir_value n,
                       struct tir_value a);

/** Loads all DELTA_TRIANGLE blocks of `part`, DELTA_N or DELTA_P, from the chunk's record into
 * blocks[], as left operands of products. */
void delta_load_blocks(struct delta *d, enum delta_part part, struct tir_value *blocks);

/** Stores `strip`, the wave's keys, transposed in the chunk's record. */
void delta_store_columns(struct delta *d, struct tir_value strip);

/** Loads the keys of 32 tokens, head_dim x 32, from the chunk's record: of the first 32 if `half`
 * is 0, of the last 32 if 1. */
struct tir_value delta_load_columns(struct delta *d, int half);

/** Loads line `line` of the chunk's record for the tokens of block i (index): f32, 16 x 1. */
struct tir_value delta_load_numbers(struct delta *d, enum delta_number line, int i);

/* ---- stages.c ---- */

/** Returns `state` (f32) advanced over all chunks of the segment, from d->token to d->end. With
 * `records`, the state before each chunk and the updates W are stored in the chunks' records for
 * the launch of outputs. */
struct tir_value delta_scan_chunks(struct delta *d, struct tir_value state, bool records);

/** Builds the kernel that computes a chunk's coefficients and stores its record. */
void delta_make_chunk(struct delta *d);
/** Builds the kernel that scans the chunks of a segment. The kernel stores the updates W and the
 * states before chunks to records, and the state after the sequence to the pool. */
void delta_scan_segment(struct delta *d);
/** Builds the kernel that computes a chunk's outputs from its record. */
void delta_make_outputs(struct delta *d);

/* ---- segments.c ---- */

/** Builds the kernel that stores A and B of each segment. A is the segment's transition, head_dim x
 * head_dim, and B the state after the segment if the state before it is 0. The state S before the
 * segment becomes A S + B. */
void delta_make_segment(struct delta *d);

/** Returns the state (f32) before the segment, computed from the transition A and the state B of
 * each earlier segment of the sequence. Loads the sequence's state if no sequence of the call is
 * cut into segments. */
struct tir_value delta_state_before(struct delta *d);

#endif

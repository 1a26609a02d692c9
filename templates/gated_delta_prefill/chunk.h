/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what a workgroup of gated_delta_prefill has of a chunk of 64 tokens.
 *
 * K and Q are the raw keys and queries of the chunk. r divides keys by their lengths, s does so for
 * queries and scales them, and D has the decays between two tokens. A chunk's coefficients are
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
enum {
    DELTA_TRIANGLE = DELTA_BLOCKS * (DELTA_BLOCKS + 1) / 2 /* number of 16 x 16 blocks of a chunk
                                                                 up to the diagonal */
};
enum { DELTA_ELEM = 2, DELTA_FLOAT = 4 };

/* Rows of a chunk that a wave loads, not yet converted. q, k: queries and keys of the wave's 16
 * tokens; gate: with a decay per channel the gates of these tokens. v: V of all 64 tokens at the
 * wave's value elements; beta, and otherwise gate: numbers of all 64 tokens. */
struct delta_rows {
    struct tir_value q, k, gate, beta, v[DELTA_BLOCKS];
};

struct delta_types {
    struct tir_type strip;        /* 16 tokens x K, 16-bit: a wave's rows of keys or queries;
                                     registers select rows, lanes columns */
    struct tir_type keys;         /* f32, 1 x K: a number for each channel, in the lanes of strip's
                                     columns */
    struct tir_type left, right;  /* 16 tokens x K, 16-bit: `left` is a left operand of products
                                     over K; the transpose of `right` is a right operand */
    struct tir_type line;         /* f32, 64 x 1: a number for each token of the chunk, one in a
                                     lane */
    struct tir_type block;        /* f32, 16 x 16: result of a product of two blocks of tokens */
    struct tir_type rows, cols;   /* f32, 16 x 1 and 1 x 16: a number for each token of a block, in
                                     the layout of `block` */
    struct tir_type coefficients; /* 16 x 16, 16-bit: a block of M, N or P as left operand of
                                     products over 16 tokens */
    struct tir_type values;       /* f32, 16 tokens x a wave's value elements: result of such a
                                     product */
    struct tir_type value_rows;   /* f32, 16 x 1: a number for each token, in the layout of
                                     `values` */
    struct tir_type stored;       /* `values` in 16 bits, in the order of memory */
    struct tir_type tokens;       /* 32 tokens x a wave's value elements, 16-bit: right operand of
                                     products over tokens */
    struct tir_type padded;       /* like `tokens`, with 16 tokens and then 16 rows of zeros */
    struct tir_type transposed;   /* K x 32 tokens, 16-bit: keys as left operand of products over
                                     tokens */
    struct tir_type packed_transposed, packed_blocks; /* `transposed`, and two blocks of
                                                         `coefficients`, in the order of records:
                                                         rows of 16 bytes */
    struct tir_type v_rows;        /* 64 tokens x a wave's value elements, 16-bit: V as the widest
                                      loads read it */
    struct tir_type state;         /* f32, K x a wave's value elements: the state S as result of a
                                      product */
    struct tir_type state_rows;    /* f32, K x 1: a number for each channel, in the layout of
                                      `state` */
    struct tir_type operand;       /* the state in 16 bits, as right operand of products over K */
    struct tir_type value_keys;    /* the transpose of `operand`, in the order of memory */
    struct tir_type value_tokens;  /* a wave's value elements x 16 tokens, 16-bit: W of a block in
                                      the order of memory */
    struct tir_type value_numbers; /* the transpose of value_rows, 1 x 16 */
    struct tir_type transition;    /* K x K, 16-bit: the transition of a segment as left operand of
                                      products over K */
    struct tir_type one;           /* f32, 1 x 1: one number */
};

/* Address maps in LDS of tiles that have the shapes of struct delta_types. */
struct delta_maps {
    struct tir_layout strip;       /* 16 tokens x K of 16 bits */
    struct tir_layout panel;       /* K x 16 tokens of 16 bits: the keys of one strip, transposed */
    struct tir_layout transposed;  /* K x 32 tokens of 16 bits: two such panels */
    struct tir_layout block;       /* 16 x 16 of 16 bits: a block of M, N or P */
    struct tir_layout line;        /* 64 x 1 of f32: a number for each token */
    struct tir_layout rows, cols;  /* 16 x 1 and 1 x 16 of f32: a number for each token of a
                                      block */
    struct tir_layout keys, state; /* 1 x K and K x 1 of f32: a number for each channel */
    struct tir_layout v, v_block;  /* V of 64, and of 16, tokens x value elements of 16 bits */
};

/** LDS addresses (i32) of the regions that the waves share, except `scratch` and `v`. */
struct delta_lds {
    struct tir_value k, q, transposed; /* keys of 64 tokens; queries of 64 tokens; keys as
                                          columns */
    struct tir_value n, p;             /* 16 x 16 blocks of N, and of P, up to the diagonal; on the
                                          diagonal `n` has the blocks of M */
    struct tir_value sums;             /* lines of numbers for each token, in the order of enum
                                          delta_line, a copy for each wave */
    struct tir_value scales;           /* f32: factors r of the keys of all 64 tokens, then factors
                                          s of the queries */
    struct tir_value totals;           /* with a decay per channel: f32, log2 of the decay over each
                                          block of 16 tokens, K numbers a block */
    struct tir_value scratch; /* with a decay per channel: memory of this wave only, for a strip
                                 that is stored and read back as an operand */
    struct tir_value v;       /* memory of this wave only, for its value elements of V; for calls in
                                 several launches */
};

/* Lines of delta_lds.sums, a number for each token. DELTA_BETA: the betas. The others only if all
 * channels share a decay. DELTA_SUM: log2 of the decay from the chunk's first token on.
 * DELTA_FROM_FIRST: that decay. DELTA_TO_LAST: the decay from the token to the chunk's last one. */
enum delta_line { DELTA_BETA, DELTA_SUM, DELTA_FROM_FIRST, DELTA_TO_LAST, DELTA_LINES };

/** The state of a kernel of gated_delta_prefill while it is built, and the chunk that its workgroup
 * has. */
struct delta {
    struct tir_builder b;
    const struct att_variant *v;
    const struct tir_machine *m;
    unsigned dtype;                       /* enum tir_dtype of q, k, v and out */
    unsigned values;                      /* number of value elements of a wave */
    unsigned waves;                       /* number of waves of the workgroup */
    int over_keys, over_tokens, by_block; /* indices of the matrix instructions of products over K,
                                             over 32 tokens, and over one block of 16 tokens (over
                                             32 if the machine has none for 16) */
    struct tir_contraction keys;          /* contraction of products over K */
    struct delta_types t;
    struct delta_maps map;
    struct delta_lds lds;

    struct att_sequence sequence;
    struct tir_value head, value_head, wave; /* i32, indices: head of q and k; head of v; wave in
                                                the workgroup */
    struct tir_value first;                  /* i32: index of the wave's first value element in a
                                                row of V */
    struct tir_value real;                   /* i1: false: the sequence is padding of a batch, and
                                                has no state */
    struct tir_value block_row;              /* i64: result of att_block_row() for the sequence */
    struct tir_value a, bias;                /* f32: a is exp(a_log), one number; bias is dt_bias,
                                                one number or with a decay per channel 1 x K */

    struct tir_value token;  /* i32: index of the chunk's first token, a row of q */
    struct tir_value left;   /* i32: number of the sequence's tokens from the chunk's first one
                                on */
    struct tir_value loaded; /* i32: `left`, or 0 if `real` is false: number of tokens that are
                                loaded */
    struct tir_value seen;   /* i1: V is loaded; false: V counts as 0, from which the transition of
                                a segment follows */
    struct tir_value decay;  /* f32: decay of the state over the chunk, if all channels share it;
                                else no value */
    struct tir_value before; /* with a decay per channel: f32, 1 x K, log2 of the decay from the
                                chunk's start up to this wave's block */
    struct tir_value after;  /* with a decay per channel: f32, 1 x K, log2 of the decay from the end
                                of this wave's block to the chunk's end */
    struct tir_value local;  /* with a decay per channel: f32, 16 x K, log2 of the decay from the
                                start of this wave's block up to each of its tokens */

    struct tir_value segment_row; /* i32: row index of the segment in argument `segments` */
    struct tir_value segment;     /* i32: index of the segment in the sequence */
    struct tir_value end;         /* i32: index of the first token after the segment */
    struct tir_value row;         /* i32: row index of the chunk in argument `chunks`; no value with
                                     ATT_STAGE_ALL */
    struct tir_value record;      /* i64: address of the chunk's record in argument `chunks` */
};

/* Parts of the record of a chunk and value head, in their order in memory. Channels are elements of
 * a key. */
enum delta_part {
    DELTA_KEYS,        /* with a decay per channel: 64 tokens x K of 16 bits, keys times their decay
                          from the chunk's start on */
    DELTA_QUERIES,     /* with a decay per channel: queries, like DELTA_KEYS */
    DELTA_KEY_COLUMNS, /* keys as columns, 16-bit, with a decay per channel times their decay up to
                          the chunk's end. Order: half of the tokens, group of tokens, element of
                          the key, four tokens of each of two blocks */
    DELTA_N,       /* 16-bit blocks of N below the diagonal, and of M on it. Order: pair of blocks,
                      group of four columns, row, block of the pair, column of the group */
    DELTA_P,       /* blocks of P up to the diagonal, in the order of DELTA_N */
    DELTA_NUMBERS, /* lines of 64 f32, a number for each token, in the order of enum delta_number */
    DELTA_FADE,    /* decay of the state over the chunk: one f32, with a decay per channel K of
                      them */
    DELTA_STATE,   /* V x K of 16 bits: the state S before the chunk */
    DELTA_W,       /* V x 64 tokens of 16 bits: W of the chunk */
    DELTA_PARTS
};

/* Lines of DELTA_NUMBERS, factors of each token: for the products of keys with the state, for the
 * products of queries with the state, and for W before W advances the state. With a decay per
 * channel the factors of W are 1. */
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

/** Sets d's matrix instructions, types, address maps and LDS addresses. */
void delta_choose(struct delta *d);

/** Returns the number of bytes of LDS that a workgroup uses. */
unsigned delta_lds_bytes(const struct att_variant *v);

/** Returns the LDS address (i32) of this wave's part of the region at `region` (i32), in which each
 * wave has `bytes` bytes. */
struct tir_value delta_own(struct delta *d, struct tir_value region, int bytes);

/** Emits a barrier of the workgroup. After it, all waves can read what any wave stored to LDS
 * before it. */
void delta_sync(struct delta *d);

/* ---- rows.c ---- */

/** Loads the numbers that all chunks of the value head share: exp(a_log) and dt_bias. */
void delta_load_head(struct delta *d);

/** Sets the members of `d` that belong to a chunk, for the chunk whose first token is `token` (i32,
 * row index in q). */
void delta_begin_chunk(struct delta *d, struct tir_value token);

/** Loads keys, queries, gates and betas of the chunk into *rows. Rows after the sequence's end are
 * 0. */
void delta_load_factors(struct delta *d, struct delta_rows *rows);

/** Loads V of the chunk, at the wave's value elements, into rows->v. Rows after the sequence's end
 * are 0. */
void delta_load_values(struct delta *d, struct delta_rows *rows);

/** Returns a view of the chunk's rows of V, at the wave's value elements. */
struct tir_view delta_rows_of_v(struct delta *d);

/** Returns a view of the chunk's rows of tensor `t`, K_IN or Q, at the workgroup's head. */
struct tir_view delta_rows_of_head(struct delta *d, struct att_tensor t);

/** Computes the chunk's decays from the gates in `rows`: the lines of delta_lds.sums in LDS. With a
 * decay per channel: d->local, and in LDS the total of the wave's block. */
void delta_gates(struct delta *d, const struct delta_rows *rows);

/** Returns log2 of the decay over this wave's block of 16 tokens, f32, 1 x K. Only with a decay per
 * channel. */
struct tir_value delta_total(struct delta *d);

/** Sets d->before and d->after to the sums of the totals of the blocks before and after this wave's
 * block. Only with a decay per channel. */
void delta_add_totals(struct delta *d);

/** Returns `state` times its decay over the chunk. */
struct tir_value delta_fade(struct delta *d, struct tir_value state);

/** Returns the state's decay over the chunk, with a decay per channel, as a tile of type `t` (f32).
 * `map` is the address map of that tile in LDS. */
struct tir_value delta_fade_of_channels(struct delta *d, struct tir_type t,
                                        const struct tir_layout *map);

/** Returns a strip (16 x K) times 2^exponent (16 x K, f32), rounded to its dtype. */
struct tir_value delta_decayed(struct delta *d, struct tir_value strip, struct tir_value exponent);

/** Returns the last row of tile `a`. The highest register bits of the tile's layout select rows. */
struct tir_value delta_last_row(struct delta *d, struct tir_value a);

/** Returns `keys`, 1 x K numbers, repeated for 16 rows. */
struct tir_value delta_spread(struct delta *d, struct tir_value keys);

/* ---- coefficients.c ---- */

/** Stores `strip`, 16 x K, at LDS address `at` (i32). */
void delta_store_strip(struct delta *d, struct tir_value at, struct tir_value strip);

/** Computes the wave's 16 rows of the inverse M, the key products N and the query products P, and
 * the factors of keys and queries. Stores all to LDS, or to the chunk's record. */
void delta_coefficients(struct delta *d, const struct delta_rows *rows);

/* ---- scan.c ---- */

/** Returns the transpose of `strip`, K x 16. A lane's registers hold adjacent tokens, as stores
 * need them. */
struct tir_value delta_transposed(struct delta *d, struct tir_value strip);

/** Stores this wave's strip of keys to LDS as columns. The product that advances the state reads
 * them. */
void delta_store_transposed(struct delta *d, struct tir_value strip);

/** Computes the chunk's output and stores it. `state` is S before the chunk; returns S after the
 * chunk. */
struct tir_value delta_scan(struct delta *d, const struct delta_rows *rows, struct tir_value state);

/** Returns `a` (f32) rounded to the 16-bit dtype of operands, d->dtype. */
struct tir_value delta_rounded(struct delta *d, struct tir_value a);

/** Returns f32 zeros, 16 x value elements of a wave. */
struct tir_value delta_zeros(struct delta *d);

/** Returns the index of block [i][j], j <= i, among the blocks up to the diagonal. */
static inline int delta_block_of(int i, int j) { return i * (i + 1) / 2 + j; }

/** Returns `sum` plus the product of `coefficients`, a 16 x 16 block, with `rows`, 16 tokens x
 * value elements. Both operands are padded with zeros if d->by_block contracts 32 tokens. */
struct tir_value delta_add_block(struct delta *d, struct tir_value coefficients,
                                 struct tir_value rows, struct tir_value sum);

/** Returns `a`, tokens x value elements, with each row multiplied by its number in `rows`. */
struct tir_value delta_times_rows(struct delta *d, struct tir_value a, struct tir_value rows);

/** Returns `state` rounded to 16 bits, as right operand of products over K. */
struct tir_value delta_operand(struct delta *d, struct tir_value state);

/** Returns `v`, V of a block, minus `known`, the values that the state predicts: the product of the
 * block's keys with the state. */
struct tir_value delta_without(struct delta *d, struct tir_value v, struct tir_value known);

/** Returns `state` plus the product of `keys` with the updates w[] of two blocks, decayed up to the
 * chunk's end. `keys` are the columns of these 32 tokens. */
struct tir_value delta_advance(struct delta *d, struct tir_value keys, const struct tir_value *w,
                               struct tir_value state);

/** Returns a view of the chunk's rows of `out`, at the wave's value elements. */
struct tir_view delta_out_view(struct delta *d);

/** Returns `a`, rows of 32 tokens, in the token order of records: four tokens of the first block,
 * the same four of the second block, then the next four. */
struct tir_value delta_pack_tokens(struct delta *d, struct tir_value a);

/** Stores `out`, the outputs of block i (index) of the chunk, at the wave's value elements. `view`
 * is the result of delta_out_view(). */
void delta_store_out(struct delta *d, struct tir_view view, int i, struct tir_value out);

/* ---- whole.c ---- */

/** Stores to LDS the rows from which coefficients are computed: keys and queries. With a decay per
 * channel these are keys only, decayed to the ends of their blocks. */
void delta_store_factors(struct delta *d, const struct delta_rows *rows);

/** Strips of a wave with a decay per channel: keys and queries times their decays from the chunk's
 * start on, and keys times their decays up to the chunk's end. */
struct delta_decayed {
    struct tir_value k, q, to_last;
};

/** Returns the wave's strips of `rows`, times their decays per channel. */
struct delta_decayed delta_decay_rows(struct delta *d, const struct delta_rows *rows);

/** Computes all chunks of a sequence, and stores the state after them. */
void delta_visit_sequence(struct delta *d);

/* ---- states.c ---- */

/** Sets d->real: false if the sequence has no slot in the pool of states. */
void delta_find_slot(struct delta *d);

/** Returns the state S with which the sequence begins: zeros if it has none, or if d->real is
 * false. delta_find_slot() has set d->real. */
struct tir_value delta_load_state(struct delta *d);

/** Stores `state`, S before token `after` (i32), if a block of a prefix cache ends there. */
void delta_store_block_state(struct delta *d, struct tir_value after, struct tir_value state);

/** Stores `state`, S after the sequence, to the sequence's slot. */
void delta_store_state(struct delta *d, struct tir_value state);

/* ---- record.c ---- */

/** Sets `d` to the chunk of row `row` (i32, index) of `chunks`: sequence, `row` and `record`.
 * Returns the chunk's first token, which is after the sequence's end if the row has no chunk. */
struct tir_value delta_find_chunk(struct delta *d, struct tir_value row);

/** Sets `d` to the segment of row `row` (i32, index) of `segments`: sequence, segment_row, number,
 * first token and end. These are after the sequence's end if the row has no segment. */
void delta_find_segment(struct delta *d, struct tir_value row);

/** Returns the row index (i32) in `segments` of the first segment of sequence `index`. `start` is
 * the row of q of the sequence's first token. */
struct tir_value delta_first_segment(struct delta *d, struct tir_value start,
                                     struct tir_value index);

/** Returns the row index (i32) in `chunks` of the first chunk of sequence `index`. `start` is the
 * row of q of the sequence's first token. */
struct tir_value delta_first_row(struct delta *d, struct tir_value start, struct tir_value index);

/** Sets d->row and d->record to row `row` (i32, index) of `chunks`. */
void delta_set_record(struct delta *d, struct tir_value row);

/** Returns a view of part `part` of the chunk's record as rows of `row_bytes` bytes. The view
 * begins at byte `byte` of each row. */
struct tir_view delta_part(struct delta *d, enum delta_part part, int row_bytes, int byte);

/** Stores `a` in the chunk's record as block `n` (i32, delta_block_of()) of `part`, DELTA_N or
 * DELTA_P. */
void delta_store_block(struct delta *d, enum delta_part part, struct tir_value n,
                       struct tir_value a);

/** Loads all blocks of `part`, DELTA_N or DELTA_P, from the chunk's record into blocks[], as left
 * operands of products. */
void delta_load_blocks(struct delta *d, enum delta_part part, struct tir_value *blocks);

/** Stores `strip`, the wave's keys, transposed in the chunk's record. */
void delta_store_columns(struct delta *d, struct tir_value strip);

/** Loads the transposed keys of 32 tokens from the chunk's record: the first 32 if `half` is 0, the
 * last 32 if 1. */
struct tir_value delta_load_columns(struct delta *d, int half);

/** Loads a number for each token of block i (index) from line `line` of the chunk's record. */
struct tir_value delta_load_numbers(struct delta *d, enum delta_number line, int i);

/* ---- stages.c ---- */

/** Returns `state` advanced over all chunks of the segment. With `records` the state before each
 * chunk and the updates W are stored in the chunks' records for the launch of outputs. */
struct tir_value delta_scan_chunks(struct delta *d, struct tir_value state, bool records);

/** Builds the kernel that computes a chunk's coefficients and stores its record. */
void delta_make_chunk(struct delta *d);
/** Builds the kernel that scans the chunks of a segment. It stores W and states to records, and the
 * state after the sequence to the pool. */
void delta_scan_segment(struct delta *d);
/** Builds the kernel that computes a chunk's outputs from its record. */
void delta_make_outputs(struct delta *d);

/* ---- segments.c ---- */

/** Builds the kernel that stores A and B of each segment: its K x K transition, and the state
 * that it makes of state 0. The state before a segment follows from A and B of the earlier
 * ones. */
void delta_make_segment(struct delta *d);

/** Returns the state before the segment, from A and B of the earlier segments. */
struct tir_value delta_state_before(struct delta *d);

#endif

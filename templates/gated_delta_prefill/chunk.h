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
enum { DELTA_TRIANGLE = DELTA_BLOCKS * (DELTA_BLOCKS + 1) / 2 /* blocks up to the diagonal */ };
enum { DELTA_ELEM = 2, DELTA_FLOAT = 4 };

/* Rows of a chunk that a wave loads, not yet converted: keys and queries of its 16 tokens, and
 * by channel their gates. Also V of all tokens at its value elements, and all tokens' betas and
 * gates. */
struct delta_rows {
    struct tir_value q, k, gate, beta, v[DELTA_BLOCKS];
};

struct delta_types {
    struct tir_type strip;        /* 16 x K, 16-bit: rows in registers, columns in lanes */
    struct tir_type keys;         /* 1 x K, f32, in the lanes of strip's columns */
    struct tir_type left, right;  /* 16 x K, 16-bit: `left` is a left operand of products over K;
                                     the transpose of `right` is a right one */
    struct tir_type line;         /* 64 x 1, f32: a token a lane */
    struct tir_type block;        /* 16 x 16, f32: result of a product */
    struct tir_type rows, cols;   /* 16 x 1 and 1 x 16, in the layout of `block` */
    struct tir_type coefficients; /* 16 x 16, 16-bit: left operand over 16 tokens */
    struct tir_type values;       /* 16 x value elements of a wave, f32: result */
    struct tir_type value_rows;   /* 16 x 1, in the layout of `values` */
    struct tir_type stored;       /* `values` in 16 bits, as memory has it */
    struct tir_type tokens;       /* 32 x value elements, 16-bit: right operand over tokens */
    struct tir_type padded;       /* 32 x value elements: 16 tokens, then 16 rows of zeros */
    struct tir_type transposed;   /* K x 32, 16-bit: left operand over tokens */
    struct tir_type packed_transposed, packed_blocks; /* `transposed`, and two blocks of
                                                         `coefficients`, as records have
                                                         them: rows of 16 bytes */
    struct tir_type v_rows;        /* 64 x value elements of a wave, 16-bit: as loads are widest */
    struct tir_type state;         /* K x value elements, f32: result */
    struct tir_type state_rows;    /* K x 1, in the layout of `state` */
    struct tir_type operand;       /* the state in 16 bits: right operand over K */
    struct tir_type value_keys;    /* the transpose of `operand`, as memory has it */
    struct tir_type value_tokens;  /* value elements x 16, 16-bit: W of a block in memory */
    struct tir_type value_numbers; /* the transpose of value_rows */
    struct tir_type transition;    /* K x K, 16-bit: left operand over K */
    struct tir_type one;           /* 1 x 1, f32 */
};

/* Address maps of the tiles in LDS. */
struct delta_maps {
    struct tir_layout strip;       /* 16 x K of 16 bits */
    struct tir_layout panel;       /* K x 16 of 16 bits: the keys of one strip, transposed */
    struct tir_layout transposed;  /* K x 32 of 16 bits: two such panels */
    struct tir_layout block;       /* 16 x 16 of 16 bits */
    struct tir_layout line;        /* 64 x 1 floats */
    struct tir_layout rows, cols;  /* 16 x 1 and 1 x 16 floats */
    struct tir_layout keys, state; /* 1 x K and K x 1 floats */
    struct tir_layout v, v_block;  /* 64 and 16 x value elements of 16 bits */
};

/** Addresses in LDS (i32) of the regions that the waves share. */
struct delta_lds {
    struct tir_value k, q, transposed; /* 64 rows of keys, of queries; keys as columns */
    struct tir_value n, p;             /* blocks of N and P up to the diagonal; on the diagonal n
                                          has the blocks of M */
    struct tir_value sums;             /* by wave, a line each: enum delta_line */
    struct tir_value scales;           /* f32 factors r of keys, then s of queries, of all 64
                                          tokens */
    struct tir_value totals;           /* by channel: K floats for each block */
    struct tir_value scratch; /* by channel: LDS of this wave only; a strip is stored here, and
                                 read back as an operand */
    struct tir_value v;       /* this wave's value elements of V; for calls in several launches */
};

/* Lines of `sums`, a number for each token: betas. Not by channel, decays come after them: log2 of
 * the decay from the chunk's first token on, that decay itself, and the decay from the token to the
 * last one. */
enum delta_line { DELTA_BETA, DELTA_SUM, DELTA_FROM_FIRST, DELTA_TO_LAST, DELTA_LINES };

/** A kernel of gated_delta_prefill, and the chunk that its workgroup has. */
struct delta {
    struct tir_builder b;
    const struct att_variant *v;
    const struct tir_machine *m;
    unsigned dtype;                       /* type of q, k, v and out: enum tir_dtype */
    unsigned values;                      /* value elements of a wave */
    unsigned waves;                       /* of a workgroup */
    int over_keys, over_tokens, by_block; /* numbers of the matrix instructions over K, over 32
                                             tokens, and over one block of 16 tokens (32 if the
                                             machine has none of 16) */
    struct tir_contraction keys;          /* of products over K */
    struct delta_types t;
    struct delta_maps map;
    struct delta_lds lds;

    struct att_sequence sequence;
    struct tir_value head, value_head, wave; /* i32: head of q and k; head of v; wave */
    struct tir_value first;                  /* i32: first value element of the wave */
    struct tir_value real;                   /* i1: false: the sequence is padding of a batch */
    struct tir_value block_row;              /* i64: att_block_row() of the sequence */
    struct tir_value a, bias;                /* exp(a_log); dt_bias, by channel 1 x K */

    struct tir_value token;  /* i32: first token of the chunk */
    struct tir_value left;   /* i32: tokens of the sequence from the chunk's first one on */
    struct tir_value loaded; /* i32: `left`, or 0 where `real` is false */
    struct tir_value seen;   /* i1: V is loaded; false: V counts as 0, for the transitions of
                                segments */
    struct tir_value decay;  /* f32: decay of the state over the chunk; not by channel */
    struct tir_value before; /* by channel, 1 x K: log2 of the decay from the chunk's start up to
                                this wave's block */
    struct tir_value after;  /* by channel, 1 x K: log2 of the decay from the end of this wave's
                                block to the chunk's end */
    struct tir_value local;  /* by channel, 16 x K: log2 of the decay from the block's start up
                                to each row */

    struct tir_value segment_row; /* i32: the segment's row in `segments` */
    struct tir_value segment;     /* i32: the segment's number in the sequence */
    struct tir_value end;         /* i32: one past the segment's last token */
    struct tir_value row;         /* i32: the chunk's row in `chunks`; not with ATT_STAGE_ALL */
    struct tir_value record;      /* i64: the address of the chunk's record in `chunks` */
};

/* Parts of the record of a chunk and value head, in their order in memory. */
enum delta_part {
    DELTA_KEYS,        /* by channel, 64 x K of 16 bits: keys, decayed from the chunk's start on */
    DELTA_QUERIES,     /* by channel: queries, decayed as the keys */
    DELTA_KEY_COLUMNS, /* keys as columns, 16-bit, by channel decayed up to the chunk's end. Order:
                          half, group of tokens, element of the key, four tokens of each of two
                          blocks */
    DELTA_N,       /* 16-bit blocks of N below the diagonal, and of M on it. Order: pair of blocks,
                      group of four columns, row, block of the pair, column of the group */
    DELTA_P,       /* blocks of P up to the diagonal, in the order of DELTA_N */
    DELTA_NUMBERS, /* enum delta_number: lines of 64 floats */
    DELTA_FADE,    /* decay of the state over the chunk, a float; by channel K floats */
    DELTA_STATE,   /* V x K of 16 bits: the state before the chunk */
    DELTA_W,       /* V x 64 of 16 bits: W of the chunk */
    DELTA_PARTS
};

/* Factors of tokens, in the record: of products of keys with the state, of products of queries
 * with it, and of W before it advances the state. By channel the factors of W are 1. */
enum delta_number { DELTA_OF_KEYS, DELTA_OF_QUERIES, DELTA_OF_W, DELTA_NUMBER_LINES };

/* True if the call is in several launches. */
static inline bool delta_in_stages(const struct delta *d) { return d->v->stage != ATT_STAGE_ALL; }

/* True if each channel of a key has a decay of its own. */
static inline bool delta_by_channel(const struct delta *d)
{
    return d->v->decay == ATT_DECAY_CHANNEL;
}

/* ---- layouts.c ---- */

/** Sets d's matrix instructions, types, address maps and LDS addresses. */
void delta_choose(struct delta *d);

/** Returns how many bytes of LDS a workgroup takes. */
unsigned delta_lds_bytes(const struct att_variant *v);

/** Returns the address of this wave's part of the LDS region at `region`, in which each wave has
 * `bytes` bytes. */
struct tir_value delta_own(struct delta *d, struct tir_value region, int bytes);

/** Emits a barrier of the workgroup, after which stores to LDS before it can be read. */
void delta_sync(struct delta *d);

/* ---- rows.c ---- */

/** Loads the numbers that all chunks of the value head share: exp(a_log) and dt_bias. */
void delta_load_head(struct delta *d);

/** Sets d's members for the chunk whose first token is `token` (i32, a row of q). */
void delta_begin_chunk(struct delta *d, struct tir_value token);

/** Loads keys, queries, gates and betas of the chunk; rows that the sequence does not have are
 * 0. */
void delta_load_factors(struct delta *d, struct delta_rows *rows);

/** Loads the wave's value elements of the chunk's V; rows that the sequence does not have are 0. */
void delta_load_values(struct delta *d, struct delta_rows *rows);

/** Returns a view of the chunk's rows of V, at the wave's value elements. */
struct tir_view delta_rows_of_v(struct delta *d);

/** Returns a view of the chunk's rows of tensor `t`, K_IN or Q, at the workgroup's head. */
struct tir_view delta_rows_of_head(struct delta *d, struct att_tensor t);

/** Computes the chunk's gates from `rows`: the lines of `sums`, and by channel `local` and the
 * total of the wave's block, which goes to LDS. */
void delta_gates(struct delta *d, const struct delta_rows *rows);

/** Returns log2 of the decay over this wave's block of 16 tokens, 1 x K; by channel only. */
struct tir_value delta_total(struct delta *d);

/** Sets `before` and `after` to sums of the totals of the blocks before and after this wave's. */
void delta_add_totals(struct delta *d);

/** Returns the state times its decay over the chunk. */
struct tir_value delta_fade(struct delta *d, struct tir_value state);

/** Returns the state's decay over the chunk by channel, as a tile of type `t` whose address map in
 * LDS is `map`. */
struct tir_value delta_fade_of_channels(struct delta *d, struct tir_type t,
                                        const struct tir_layout *map);

/** Returns a strip (16 x K) times 2^exponent (16 x K, f32), rounded to its dtype. */
struct tir_value delta_decayed(struct delta *d, struct tir_value strip, struct tir_value exponent);

/** Returns the last row of a tile whose highest register bits number its rows. */
struct tir_value delta_last_row(struct delta *d, struct tir_value a);

/** Returns 1 x K numbers repeated for 16 rows. */
struct tir_value delta_spread(struct delta *d, struct tir_value keys);

/* ---- coefficients.c ---- */

/** Stores a strip, 16 x K, at LDS address `at`. */
void delta_store_strip(struct delta *d, struct tir_value at, struct tir_value strip);

/** Computes the wave's 16 rows of the inverse M, the key products N and the query products P, and
 * the factors of keys and queries. Stores all to LDS, or to the chunk's record. */
void delta_coefficients(struct delta *d, const struct delta_rows *rows);

/* ---- scan.c ---- */

/** Returns the transpose of a strip, K x 16. A lane's registers hold adjacent tokens, as stores
 * need them. */
struct tir_value delta_transposed(struct delta *d, struct tir_value strip);

/** Stores this wave's strip of keys to LDS as columns. The product that advances the state reads
 * them. */
void delta_store_transposed(struct delta *d, struct tir_value strip);

/** Computes the chunk's output and stores it. Returns the state after the chunk. */
struct tir_value delta_scan(struct delta *d, const struct delta_rows *rows, struct tir_value state);

/** Returns `a` rounded to the dtype of operands. */
struct tir_value delta_rounded(struct delta *d, struct tir_value a);

/** Returns f32 zeros, 16 x value elements of a wave. */
struct tir_value delta_zeros(struct delta *d);

/** Returns the number of block [i][j] in a triangle of blocks. */
static inline int delta_block_of(int i, int j) { return i * (i + 1) / 2 + j; }

/** Returns `sum` plus the product of a block of coefficients, 16 x 16, with 16 rows of value
 * elements. Both are padded with zeros if by_block takes 32 tokens. */
struct tir_value delta_add_block(struct delta *d, struct tir_value coefficients,
                                 struct tir_value rows, struct tir_value sum);

/** Returns rows of value elements, each times its number in `rows`. */
struct tir_value delta_times_rows(struct delta *d, struct tir_value a, struct tir_value rows);

/** Returns the state, rounded, as the operand of products over keys. */
struct tir_value delta_operand(struct delta *d, struct tir_value state);

/** Returns V of a block minus `known`, the values that the state predicts: the product of the
 * block's keys with it. */
struct tir_value delta_without(struct delta *d, struct tir_value v, struct tir_value known);

/** Returns the state plus the product of `keys` with the updates w[] of two blocks, decayed up to
 * the chunk's end. `keys` are the columns of these 32 tokens. */
struct tir_value delta_advance(struct delta *d, struct tir_value keys, const struct tir_value *w,
                               struct tir_value state);

/** Returns a view of the chunk's rows of `out`, at the wave's value elements. */
struct tir_view delta_out_view(struct delta *d);

/** Returns rows of 32 tokens, two blocks of 16, in the token order of records: four tokens of the
 * first block, the same four of the second block, then the next four. */
struct tir_value delta_pack_tokens(struct delta *d, struct tir_value a);

/** Stores the outputs of block i of the chunk, at the wave's value elements. */
void delta_store_out(struct delta *d, struct tir_view view, int i, struct tir_value out);

/* ---- whole.c ---- */

/** Stores the rows from which coefficients are computed to LDS: keys and queries. By channel these
 * are keys only, decayed to the ends of their blocks. */
void delta_store_factors(struct delta *d, const struct delta_rows *rows);

/** Strips of a wave by channel: keys and queries with their decays from the chunk's start on, keys
 * with those up to its end. */
struct delta_decayed {
    struct tir_value k, q, to_last;
};

/** Returns the wave's strips, decayed by channel. */
struct delta_decayed delta_decay_rows(struct delta *d, const struct delta_rows *rows);

/** Computes all chunks of a sequence, and stores the state after them. */
void delta_visit_sequence(struct delta *d);

/* ---- states.c ---- */

/** Sets `real`: false if the sequence has no slot. */
void delta_find_slot(struct delta *d);

/** Loads the state that the sequence begins with, and sets `real`. */
struct tir_value delta_load_state(struct delta *d);

/** Stores the state before token `after` (i32) if a block of a prefix cache ends there. */
void delta_store_block_state(struct delta *d, struct tir_value after, struct tir_value state);

/** Stores the state after the sequence. */
void delta_store_state(struct delta *d, struct tir_value state);

/* ---- record.c ---- */

/** Finds the chunk of a row (i32) of `chunks`: sequence and its first token, which is beyond the
 * sequence's end where the row has no chunk. Sets `row` and `record`. */
struct tir_value delta_find_chunk(struct delta *d, struct tir_value row);

/** Finds the segment of a row (i32) of `segments`: sequence, number, first token and end, which are
 * beyond the sequence's end where the row has no segment. Sets `segment_row`. */
void delta_find_segment(struct delta *d, struct tir_value row);

/** Returns the row in `segments` of the first segment of sequence `index`, whose first token is
 * `start`. */
struct tir_value delta_first_segment(struct delta *d, struct tir_value start,
                                     struct tir_value index);

/** Returns the row in `chunks` of the first chunk of sequence `index`, whose first token is
 * `start`. */
struct tir_value delta_first_row(struct delta *d, struct tir_value start, struct tir_value index);

/** Sets `row` and `record` to a row (i32) of `chunks`. */
void delta_set_record(struct delta *d, struct tir_value row);

/** Returns a view of a part of the chunk's record as rows of `row_bytes` bytes, from byte `byte`
 * of each row on. */
struct tir_view delta_part(struct delta *d, enum delta_part part, int row_bytes, int byte);

/** Stores `a`, block n (i32) of the triangle N or P, in the chunk's record. */
void delta_store_block(struct delta *d, enum delta_part part, struct tir_value n,
                       struct tir_value a);

/** Loads all blocks of the triangle N or P from the record, as the left operands of products. */
void delta_load_blocks(struct delta *d, enum delta_part part, struct tir_value *blocks);

/** Stores the wave's strip of keys, transposed, in the record. */
void delta_store_columns(struct delta *d, struct tir_value strip);

/** Loads the transposed keys of the first or second 32 tokens from the record. */
struct tir_value delta_load_columns(struct delta *d, int half);

/** Loads a number for each token of block i from a line of the record. */
struct tir_value delta_load_numbers(struct delta *d, enum delta_number line, int i);

/* ---- stages.c ---- */

/** Advances `state` over all chunks of the segment, and returns it. With `records` the state before
 * each chunk and the updates W are stored for the launch of outputs. */
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

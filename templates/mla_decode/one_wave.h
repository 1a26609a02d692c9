/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions of the pipelines with one wave per SIMD. one_wave.c has the stages and
 * phases.
 */
#ifndef TEMPLATES_MLA_DECODE_ONE_WAVE_H
#define TEMPLATES_MLA_DECODE_ONE_WAVE_H

#include "templates/mla_decode/mla_decode.h"

enum one_wave_phase { M1, BEGIN, C1, M2, M3 /* of pairs */, C2 };
enum one_wave_stage { A_PAGES, A_FIND, A_COPY, A_WAIT, A_SCORES, A_VALUES, A_N_STAGES };
/** Queues of copies to LDS: of a block or its first half; of list entries; of Q; of the second half
 * of a block. LATENT: number of columns of the latent. */
enum { GROUP = 0, ENTRIES, QUERIES, LATER, LATENT = 512 };

/** True if lanes compute the address of each row of a block, from a list or the page table. */
static inline bool mla_one_wave_gathers(const struct mla *s)
{
    return s->d.v->sparse != ATT_SPARSE_NONE || mla_has_row_pairs(s);
}

/** Returns the number of a stage in this kernel's loop. Only pairs and lists have A_FIND. */
static inline uint8_t mla_one_wave_stage(const struct mla *s, enum one_wave_stage stage)
{
    const bool finds = s->split.pairs || mla_one_wave_gathers(s);
    return (uint8_t)(stage - (stage > A_FIND && !finds));
}

/** Returns the number of the half of a block's keys that a wave of a pair has: 0 or 1, i32. */
static inline struct tir_value mla_one_wave_half(struct mla *s)
{
    return tir_shr(&s->d.b, s->d.wave, tir_i32(&s->d.b, (int)mla_wave_bits(s) - 1));
}

/* one_wave.c */

/** Returns the layout of a pair's weights for the product with c, keys x columns. */
struct tir_layout mla_one_wave_weights(const struct mla *s);

/** Returns the LDS layout of `keys` rows of a part, `width` columns each. */
struct tir_layout mla_one_wave_map(const struct mla *s, unsigned keys, unsigned width);
/** Returns the LDS address of a part of block `block` (i32). */
struct tir_value mla_one_wave_place(struct mla *s, const struct part *p, struct tir_value block);

/** Returns the bytes in LDS of part p of a block before row `rows`. `rows` is even if waves have
 * halves of the latent. */
unsigned mla_one_wave_before(const struct mla *s, const struct part *p, unsigned rows);

/** Returns the first of a wave's own keys of a block: att_attention.first_key. */
struct tir_value mla_one_wave_first_key(void *family, struct tir_value block);
/** Raises m to the larger of m and e in all columns if an e is far above m, and rescales O and l.
 * `e`: exponents of columns, a vector or a row for each part of the keys. */
void mla_one_wave_rescale_to(struct mla *s, struct tir_value e,
                             struct tir_value carried[ATT_N_CARRY]);
/** Rescales O and l in 1 or MLA_RESCALE_PARTS parts, each in a branch of its own. */
enum { MLA_RESCALE_PARTS = 4 /* all of O of pairs at once would take registers */ };
void mla_one_wave_rescale(struct mla *s, const struct att_softmax_step *step, struct tir_value *o,
                          struct tir_value *l, unsigned parts);
/** Returns the product's scales of weights relative to e, where O is relative to m: 2^(e - m) as
 * e8m0, of type t. */
struct tir_value mla_one_wave_scales(struct mla *s, struct tir_value e, struct tir_value m,
                                     struct tir_type t);
/** Returns o + the product of c and scaled weights of fp8. */
struct tir_value mla_one_wave_multiply(struct mla *s, struct tir_value c, struct tir_value weights,
                                       struct tir_value scales, struct tir_value o);
/** Returns the type of scales for weights of layout `right`, [columns x keys]. */
struct tir_type mla_one_wave_scales_type(struct mla *s, const struct tir_layout *right);

/* wave_pair.c */

/** Copies Q to LDS before the loop over keys, and reads it as operands: mla_form.load_q of wave
 * pairs, and of one wave per SIMD with lists. */
void mla_wave_pair_load_q(struct mla *s);
/** Returns the addresses (i64) of the wave's rows of Q, from the pass's row `first` on. */
struct tir_value mla_wave_pair_query_rows(struct mla *s, struct tir_value first);

/* wave_pair_exchange.c */

/** Loads the arguments that an item's first copies depend on, together with the item. */
void mla_exchange_load_arguments(struct mla *s);
/** Builds a pass over an item's keys and the store of its results, in fp8: mla_form.pass. */
void mla_exchange_pass(struct mla *s);
/** Merges the states of a wave pair. Sets d.value.width and d.first_value to the wave's half of
 * O. */
void mla_exchange_join(struct mla *s, struct split_kv_state *state);
/** Permutes the rows of a layout of S^T or of K into the order of keys. */
struct tir_layout mla_exchange_with_keys(const struct tir_layout *l);
/** Allocates LDS for `blocks` blocks, and for the weights that the waves of a pair exchange. */
void mla_exchange_take_lds(struct mla *s, unsigned blocks);

/** Stores the weights of the wave's keys of a block in LDS, and their exponents e, one per
 * column. */
void mla_exchange_store(struct mla *s, struct tir_value block, struct tir_value weights,
                        struct tir_value e);
/** Loads the exponents of the pair's other wave, as a vector of type t. */
struct tir_value mla_exchange_load_exponent(struct mla *s, struct tir_value block,
                                            struct tir_type t);
/** Loads the weights of wave `part` of the pair as the product's operand, keys x columns. */
struct tir_value mla_exchange_load_weights(struct mla *s, struct tir_value block, unsigned part);

/* row_pairs.c */

enum { MLA_ROW_PAIR_COLUMNS = 64 /* columns that are contiguous in LDS */ };
/** Returns the bytes of a block in LDS. */
unsigned mla_row_pairs_bytes(const struct mla *s);
/** Returns the bytes in LDS of a block before the cache line with column `column` of row 0. */
unsigned mla_row_pairs_before(const struct mla *s, unsigned column);
/** Reads a tile of type t from `rows` rows at the LDS address `at` (i32); that number may differ
 * from the keys of a block. The tile begins with column `column` of row 0 and ends before the next
 * multiple of MLA_ROW_PAIR_COLUMNS. */
struct tir_value mla_row_pairs_read(struct mla *s, struct tir_value at, struct tir_type t,
                                    unsigned rows, unsigned column);
/** Returns the addresses of the cache lines of rows that begin at addresses `rows` (i64), with one
 * or more lanes per row. */
struct mla_row_pairs mla_row_pairs_find(struct mla *s, struct tir_value rows);
/** Issues the copies of half of the cache lines of the wave's rows. Half 0 has the lines with
 * columns of even rows, half 1 the others. `at`: LDS address of the first row. `group`: the copies'
 * queue. */
void mla_row_pairs_copy(struct mla *s, int group, struct tir_value at, unsigned rows,
                        const struct mla_row_pairs *lines, unsigned half);
/** Returns the bytes from row 0 to the n-th piece of row `row`'s latent. Sets *width to its
 * columns; 0: there is no such piece. */
enum { MLA_ROW_PAIR_PIECES = 5 };
unsigned mla_row_pairs_piece(const struct mla *s, unsigned row, unsigned n, unsigned *width);

/* gather.c */

/** A way in which a wave copies its rows of a block to LDS, where rows are found one by one. */
struct mla_row_copies {
    /** Describes the wave's rows of a block, with one lane or a few lanes per row. */
    struct att_paged_tile (*own_tile)(struct mla *s);
    unsigned (*lanes)(const struct mla *s); /* Returns the number of lanes per row in own_tile(). */
    /** Returns the LDS address (i32) of part `p` of block number `block`. */
    struct tir_value (*place)(struct mla *s, const struct part *p, struct tir_value block);
    /** Sets s->now for the copies of block number `block` from rows at addresses `rows` (i64). */
    void (*find)(struct mla *s, struct tir_value block, struct tir_value rows);
    /** Returns the LDS layout of `width` columns of a row. */
    struct tir_layout (*row_map)(const struct mla *s, unsigned width);
    /** Returns the columns in piece n of the wave's row `row`, contiguous in LDS; 0: the row has no
     * such piece. Sets *before to the bytes from the wave's first row to the piece. */
    unsigned (*piece)(const struct mla *s, unsigned row, unsigned n, unsigned *before);
    uint8_t pieces; /* number of pieces of a row, at most */
    bool in_halves; /* true: halves of a block are copied in queues GROUP and LATER; false: all of
                       it in GROUP */
};

/** Whole rows; halves of the columns of rows without rotated keys, for c that is transposed in
 * registers; cache lines of pairs of rows. */
extern const struct mla_row_copies mla_whole_rows, mla_columns_of_rows, mla_lines_of_row_pairs;

/** Returns the type of one i32 for each row that a wave copies: rows x 1. */
struct tir_type mla_gather_rows(struct mla *s);
/** Issues the copies to LDS of rows at addresses `rows` (i64), as the wave's rows of a block. */
void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows);
/** Issues the copies of all cache lines of the wave's rows of a block. */
void mla_gather_lines(struct mla *s, int group, struct tir_value block,
                      const struct mla_row_pairs *lines);
/** Allocates LDS for list entries and for stores that nobody reads. */
void mla_gather_take_lds(struct mla *s);
/** Loads the page numbers of a block's keys, one per lane: keys x 1. */
struct tir_value mla_gather_pages(struct mla *s, struct tir_value block);
/** Issues the copies to LDS of the first block's list entries. The loop copies entries of later
 * blocks an iteration early. */
void mla_gather_begin(struct mla *s);
/** Reads a block's entries of a sparse list: att_attention.entries. */
struct tir_value mla_gather_entries(void *family, const struct att_block *block);

#endif

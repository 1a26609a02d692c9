/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions of the pipelines with one wave per SIMD. one_wave.c describes the kernels;
 * pipelines/one_wave.c has the table.
 */
#ifndef TEMPLATES_MLA_DECODE_ONE_WAVE_H
#define TEMPLATES_MLA_DECODE_ONE_WAVE_H

#include "templates/mla_decode/mla_decode.h"

/** Phases of an iteration of these pipelines, in order. M1, M2 and M3 have memory and vector work.
 * BEGIN, C1 and C2 have matrix instructions; BEGIN and C1 are one group. */
enum one_wave_phase { M1, BEGIN, C1, M2, M3 /* only in wave pairs */, C2 };
/** Stages of the pipeline, in the order in which a block passes through them. A_PAGES: its page
 * numbers are loaded. A_FIND: addresses of its rows are computed. A_COPY, A_WAIT: its rows are
 * copied to LDS, and arrive. A_SCORES: scores. A_VALUES: product with P. */
enum one_wave_stage { A_PAGES, A_FIND, A_COPY, A_WAIT, A_SCORES, A_VALUES, A_N_STAGES };
/** Queues of copies to LDS; a wait is for all copies of one queue. GROUP: a block, or its first
 * half. ENTRIES: list entries. QUERIES: Q. LATER: the second half of a block. LATENT: no queue, but
 * the number of columns of the latent. */
enum { GROUP = 0, ENTRIES, QUERIES, LATER, LATENT = 512 };

/** True if lanes compute the address of each row of a block, from a sparse list or the page table.
 * False: rows of a page are copied as a run. */
static inline bool mla_one_wave_gathers(const struct mla *s)
{
    return s->d.v->sparse != ATT_SPARSE_NONE || mla_has_row_pairs(s);
}

/** Returns the index of stage `stage` in this kernel's loop. Only wave pairs and kernels with an
 * address per row have stage A_FIND; in others, later stages have an index one lower. */
static inline uint8_t mla_one_wave_stage(const struct mla *s, enum one_wave_stage stage)
{
    const bool finds = s->split.pairs || mla_one_wave_gathers(s);
    return (uint8_t)(stage - (stage > A_FIND && !finds));
}

/** Returns the number (i32) of the half of a block's keys that this wave of a pair has: 0 or 1. */
static inline struct tir_value mla_one_wave_half(struct mla *s)
{
    return tir_shr(&s->d.b, s->d.wave, tir_i32(&s->d.b, (int)mla_wave_bits(s) - 1));
}

/** True if the tensor data mover copies blocks to LDS: tensor_rows.c. */
static inline bool mla_one_wave_moves(const struct mla *s)
{
    return tir_tensor_copy(s->d.m) != NULL;
}

/* Functions of one_wave.c: layouts, blocks and products. */

/** Returns the layout in registers of one wave's weights as operand of the product c^T P^T: keys x
 * columns. */
struct tir_layout mla_one_wave_weights(const struct mla *s);

/** Returns the LDS layout of `keys` rows of a part of a block, with `width` columns each. */
struct tir_layout mla_one_wave_map(const struct mla *s, unsigned keys, unsigned width);
/** Returns the LDS address (i32) of part p of block `block` (i32), in one of the four places for
 * blocks. */
struct tir_value mla_one_wave_place(struct mla *s, const struct part *p, struct tir_value block);

/** Returns the bytes in LDS of part p of a block before row `rows`. `rows` must be even if each
 * wave of a pair has half of the latent. */
unsigned mla_one_wave_before(const struct mla *s, const struct part *p, unsigned rows);

/** Returns the index (i32) of the first key of block `block` (i32) whose scores this wave computes:
 * att_attention.first_key. */
struct tir_value mla_one_wave_first_key(void *family, struct tir_value block);
/** Raises m to the larger of m and e in all columns, and rescales O and l. Does nothing unless an e
 * exceeds m by more than MLA_GROWTH.
 * `e`: exponents of columns, as a vector or as a row for each part of the keys. `carried`: m, l and
 * O. */
void mla_one_wave_rescale_to(struct mla *s, struct tir_value e,
                             struct tir_value carried[ATT_N_CARRY]);
/** Number of parts of O^T in mla_one_wave_rescale() for wave pairs. */
enum { MLA_RESCALE_PARTS = 4 /* registers have no room for a copy of all of O^T */ };
/** Rescales O^T (*o) and l by step->alpha if step->grown. `parts`: 1, or the number of parts of O^T
 * that have a branch each, a power of two. */
void mla_one_wave_rescale(struct mla *s, const struct att_softmax_step *step, struct tir_value *o,
                          struct tir_value *l, unsigned parts);
/** Returns the scales that MFMAs apply to weights relative to e if O is relative to m: 2^(e - m) as
 * e8m0, of type t. */
struct tir_value mla_one_wave_scales(struct mla *s, struct tir_value e, struct tir_value m,
                                     struct tir_type t);
/** Returns o + c^T P^T, for P of fp8 with scales. `c`: c^T, the left operand. `weights`: P, keys x
 * columns. */
struct tir_value mla_one_wave_multiply(struct mla *s, struct tir_value c, struct tir_value weights,
                                       struct tir_value scales, struct tir_value o);
/** Returns the type of the scales of weights. `right`: layout of the weights, [columns x keys], as
 * right operand. */
struct tir_type mla_one_wave_scales_type(struct mla *s, const struct tir_layout *right);

/* Functions of wave_pair.c: Q of wave pairs. */

/** Copies rows of Q to LDS before the loop over keys, and reads them as operands: mla_form.load_q
 * of wave pairs, and of one wave per SIMD with lists. */
void mla_wave_pair_load_q(struct mla *s);
/** Returns the addresses (i64) in memory of the rows of Q that the wave copies, from row `first`
 * (i32) of the pass on. */
struct tir_value mla_wave_pair_query_rows(struct mla *s, struct tir_value first);

/* Functions of wave_pair_exchange.c: weights and l between the waves of a pair. */

/** Issues loads of the arguments on which an item's first copies depend, so that they arrive
 * together with the item: mla_form.load_arguments. */
void mla_exchange_load_arguments(struct mla *s);
/** Builds a pass over an item's keys and the store of its results, for wave pairs with rows of fp8:
 * mla_form.pass. */
void mla_exchange_pass(struct mla *s);
/** Adds up l of the pair's two waves, and sets d.value.width and d.first_value to the wave's half
 * of O. */
void mla_exchange_join(struct mla *s, struct split_kv_state *state);
/** Returns layout l of S^T or K with its rows permuted into the order of keys, for row pairs. */
struct tir_layout mla_exchange_with_keys(const struct tir_layout *l);
/** Allocates LDS for `blocks` blocks, and for the weights that the waves of a pair exchange. */
void mla_exchange_take_lds(struct mla *s, unsigned blocks);

/** Stores in LDS the weights of the wave's keys of block `block` (i32), and their exponents `e`
 * (f32), one per column. */
void mla_exchange_store(struct mla *s, struct tir_value block, struct tir_value weights,
                        struct tir_value e);
/** Loads from LDS the exponents of the pair's other wave for block `block` (i32), as a vector of
 * type t. */
struct tir_value mla_exchange_load_exponent(struct mla *s, struct tir_value block,
                                            struct tir_type t);
/** Loads from LDS the weights of wave `part` (0 or 1) of the pair for block `block` (i32). They are
 * keys x columns, an operand of c^T P^T. */
struct tir_value mla_exchange_load_weights(struct mla *s, struct tir_value block, unsigned part);

/* Functions of tensor_rows.c: blocks and Q that the tensor data mover copies. */

/** Returns the bytes in LDS of `rows` rows of part p of a block, with their padding. */
static inline unsigned mla_tensor_rows_bytes(const struct mla *s, const struct part *p,
                                             unsigned rows)
{
    return rows * (p->width + p->lds.pad) * mla_kq_bytes(s);
}
/** Loads Q, through LDS if a wave's columns are heads of one token: mla_form.load_q. */
void mla_tensor_load_q(struct mla *s);

/* Functions of row_pairs.c: pairs of rows in LDS as cache lines. */

enum {
    /* Columns of a row that are contiguous in LDS: half a cache line. */
    MLA_ROW_PAIR_COLUMNS = 64
};
/** Returns the bytes that a block of keys takes in LDS as row pairs. */
unsigned mla_row_pairs_bytes(const struct mla *s);
/** Returns the bytes in LDS from the start of a block to the cache line with column `column` of row
 * 0. */
unsigned mla_row_pairs_before(const struct mla *s, unsigned column);
/** Reads a tile of type t from LDS. `at` (i32): LDS address of the rows. `rows`: number of rows at
 * that address, which may differ from the keys of a block. The tile begins with column `column` of
 * row 0 and ends before the next multiple of MLA_ROW_PAIR_COLUMNS. */
struct tir_value mla_row_pairs_read(struct mla *s, struct tir_value at, struct tir_type t,
                                    unsigned rows, unsigned column);
/** Returns the addresses from which lanes copy the cache lines of pairs of rows. `rows`: addresses
 * (i64) of the rows, with one or more lanes per row. */
struct mla_row_pairs mla_row_pairs_find(struct mla *s, struct tir_value rows);
/** Issues the copies to LDS of half of the cache lines of `rows` rows. Half 0 has the lines with
 * columns of even rows, half 1 the others. `at`: LDS address of the first row. `group`: the copies'
 * queue. */
void mla_row_pairs_copy(struct mla *s, int group, struct tir_value at, unsigned rows,
                        const struct mla_row_pairs *lines, unsigned half);
/** Most pieces of a row's latent that are contiguous in LDS. */
enum { MLA_ROW_PAIR_PIECES = 5 };
/** Returns the bytes in LDS from row 0 to piece n of row `row`'s latent. Sets *width to the piece's
 * number of columns; 0: the row has no such piece. */
unsigned mla_row_pairs_piece(const struct mla *s, unsigned row, unsigned n, unsigned *width);

/* Functions of gather.c: rows that are found one by one. */

/** Functions by which a wave copies its rows of a block to LDS, if each row has an address of its
 * own. There is a struct for each way. */
struct mla_row_copies {
    /** Describes the cache rows of a block that the wave copies, with one lane or a few lanes per
     * row. */
    struct att_paged_tile (*own_tile)(struct mla *s);
    unsigned (*lanes)(const struct mla *s); /* returns the number of lanes per row in own_tile() */
    /** Returns the LDS address (i32) of part `p` of the block with index `block` (i32). */
    struct tir_value (*place)(struct mla *s, const struct part *p, struct tir_value block);
    /** Sets members of s->now for the copies of block `block` (i32) from rows at addresses `rows`
     * (i64). */
    void (*find)(struct mla *s, struct tir_value block, struct tir_value rows);
    /** Returns the LDS layout of `width` columns of one row. */
    struct tir_layout (*row_map)(const struct mla *s, unsigned width);
    /** Returns the number of columns in piece n of the wave's row `row`, which are contiguous in
     * LDS; 0: the row has no such piece. Sets *before to the bytes from the wave's first row to the
     * piece. */
    unsigned (*piece)(const struct mla *s, unsigned row, unsigned n, unsigned *before);
    uint8_t pieces; /* most pieces of a row */
    /* True: halves of a block are copied in queues GROUP and LATER; false: all of it in GROUP. */
    bool in_halves;
};

/** mla_whole_rows: copies of whole rows. mla_columns_of_rows: copies of halves of the columns,
 * without rotated keys, for kernels that transpose the latent in registers. mla_lines_of_row_pairs:
 * copies of the cache lines of row pairs. */
extern const struct mla_row_copies mla_whole_rows, mla_columns_of_rows, mla_lines_of_row_pairs;

/** Returns the type of a tile with one i32 for each row that a wave copies, rows x 1. */
struct tir_type mla_gather_rows(struct mla *s);
/** Issues the copies to LDS of rows at addresses `rows` (i64) to the LDS place of the wave's rows
 * of block `block` (i32: index). `group`: the copies' queue. */
void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows);
/** Issues the copies to LDS of all cache lines of the wave's rows of block `block` (i32). `lines`:
 * addresses of these lines. */
void mla_gather_lines(struct mla *s, int group, struct tir_value block,
                      const struct mla_row_pairs *lines);
/** Allocates LDS for entries of sparse lists and a place for stores whose data nobody reads. */
void mla_gather_take_lds(struct mla *s);
/** Loads the page numbers (i32, keys x 1) of the keys of block `block` (i32), one key per lane. */
struct tir_value mla_gather_pages(struct mla *s, struct tir_value block);
/** Issues the copies to LDS of the first block's entries of the sparse list. The loop copies
 * entries of later blocks an iteration early. */
void mla_gather_begin(struct mla *s);
/** Reads a block's entries of the sparse list from LDS, for the mask: att_attention.entries. */
struct tir_value mla_gather_entries(void *family, const struct att_block *block);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files share whose waves have a SIMD to themselves:
 * one_wave.c says what the stages and phases are.
 */
#ifndef TEMPLATES_MLA_DECODE_ONE_WAVE_H
#define TEMPLATES_MLA_DECODE_ONE_WAVE_H

#include "templates/mla_decode/mla_decode.h"

enum one_wave_phase { M1, BEGIN, C1, M2, M3 /* of pairs */, C2 };
enum one_wave_stage { A_PAGES, A_FIND, A_COPY, A_WAIT, A_SCORES, A_VALUES, A_N_STAGES };
enum { GROUP = 0, ENTRIES, QUERIES, LATER /* of copies to LDS */, LATENT = 512 };

/** The number of a stage in this kernel's loop: only pairs have A_FIND. */
static inline uint8_t mla_one_wave_stage(const struct mla *s, enum one_wave_stage stage)
{
    return (uint8_t)(stage - (stage > A_FIND && !s->split.pairs));
}

/** True if a lane finds the address of each row of a block, from a list or the table of pages. */
static inline bool mla_one_wave_gathers(const struct mla *s)
{
    return s->d.v->sparse != ATT_SPARSE_NONE || s->source.row_pairs;
}

/** Returns which half of a block's keys a wave of a pair has, 0 or 1; i32. */
static inline struct tir_value mla_one_wave_half(struct mla *s)
{
    return tir_shr(&s->d.b, s->d.wave, tir_i32(&s->d.b, (int)s->split.waves - 1));
}

/* one_wave.c */

/** Returns the layout of a pair's weights for the product with c, keys x columns. */
struct tir_layout mla_one_wave_weights(const struct mla *s);

/** Returns the LDS layout of `keys` rows of a part, `width` columns each. */
struct tir_layout mla_one_wave_map(const struct mla *s, unsigned keys, unsigned width);
/** Returns the LDS address of a part of block `block` (i32). */
struct tir_value mla_one_wave_place(struct mla *s, const struct part *p, struct tir_value block);

/** Returns how many bytes of a block's part are in front of row `rows`. Where waves have halves of
 * the latent, that is an even one. */
unsigned mla_one_wave_before(const struct mla *s, const struct part *p, unsigned rows);

/** Returns the first of a wave's own keys of a block: att_attention.first_key. */
struct tir_value mla_one_wave_first_key(void *family, struct tir_value block);
/** O and l follow the largest e of their columns, where one is far above m: a vector, or a tile of
 * one for each part of the keys. */
void mla_one_wave_follow(struct mla *s, struct tir_value e, struct tir_value carried[ATT_N_CARRY]);
/** Rescales O and l in 1 or MLA_RESCALE_PARTS parts, each in a branch of its own. */
enum { MLA_RESCALE_PARTS = 4 /* all of O of pairs at once would take registers */ };
void mla_one_wave_rescale(struct mla *s, const struct att_softmax_step *step, struct tir_value *o,
                          struct tir_value *l, unsigned parts);
/** The product's scales of weights that are relative to e, of which O is relative to m, and their
 * type beside weights that are held as `right`, [columns x keys]. */
struct tir_value mla_one_wave_scales(struct mla *s, struct tir_value e, struct tir_value m,
                                     struct tir_type t);
struct tir_type mla_one_wave_scales_type(struct mla *s, const struct tir_layout *right);

/* wave_pair.c */

/** Issues the loads of Q before the loop over keys. */
void mla_wave_pair_load_q(struct mla *s);
/** Finds where the wave's rows of Q begin in memory, i64: from the pass's row `first` on. */
struct tir_value mla_wave_pair_query_rows(struct mla *s, struct tir_value first);

/* wave_pair_exchange.c */

/** Loads the arguments that an item's first copies depend on, together with the item. */
void mla_exchange_load_arguments(struct mla *s);
/** Appends a pass over an item's keys and the store of its results, in fp8. */
void mla_exchange_pass(struct mla *s);
/** Merges the states of a wave pair. Each wave then has half of O, as d.output and d.first_value
 * say. */
void mla_exchange_join(struct mla *s, struct split_kv_state *state);
/** Rows of S^T and of K as keys. */
struct tir_layout mla_exchange_with_keys(const struct tir_layout *l);
/** Allocates LDS for `blocks` blocks, and for the weights that the waves of a pair exchange. */
void mla_exchange_take_lds(struct mla *s, unsigned blocks);

/** Tells the other wave of the pair the weights of own keys of a block, and what they are relative
 * to, one for each column. */
void mla_exchange_tell(struct mla *s, struct tir_value block, struct tir_value weights,
                       struct tir_value e);
/** Reads what the weights of the other wave are relative to, as a vector of type t; and the weights
 * of wave `part` of the pair as the product takes them, keys x columns. */
struct tir_value mla_exchange_other(struct mla *s, struct tir_value block, struct tir_type t);
struct tir_value mla_exchange_part(struct mla *s, struct tir_value block, unsigned part);

/* row_pairs.c */

enum { MLA_ROW_PAIR_COLUMNS = 64 /* that lie side by side in LDS */ };
/** Returns how many bytes a block takes, and how many are in front of a column of row 0. */
unsigned mla_row_pairs_bytes(const struct mla *s);
unsigned mla_row_pairs_before(const struct mla *s, unsigned column);
/** Reads t from a block of `rows` rows at `at`. It begins with a column of row 0 and ends before
 * the next multiple of MLA_ROW_PAIR_COLUMNS; the block may have fewer rows. */
struct tir_value mla_row_pairs_read(struct mla *s, struct tir_value at, struct tir_type t,
                                    unsigned rows, unsigned column);
/** Finds what to copy, where rows begin at these addresses, i64 and a lane or some for each. */
struct mla_row_pairs mla_row_pairs_find(struct mla *s, struct tir_value rows);
/** Copies one half of the wave's rows, and then the other, to where its first one is. */
void mla_row_pairs_copy(struct mla *s, int group, struct tir_value at, unsigned rows,
                        const struct mla_row_pairs *lines, unsigned half);
/** Returns where the n-th piece of row `row`'s latent is, bytes from row 0's first, and how many
 * columns it has: 0, where it has none. */
enum { MLA_ROW_PAIR_PIECES = 5 };
unsigned mla_row_pairs_piece(const struct mla *s, unsigned row, unsigned n, unsigned *width);

/* gather.c */

/** Returns the type of rows that a wave copies, i32 of each. */
struct tir_type mla_gather_rows(struct mla *s);
/** Copies rows at these addresses, i64, to where the wave has rows of a block. */
void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows);
/** The same of all lines of the wave's rows, where these are copied line by line. */
void mla_gather_lines(struct mla *s, int group, struct tir_value block,
                      const struct mla_row_pairs *lines);
/** Allocates what rows that are found one by one need of LDS. */
void mla_gather_take_lds(struct mla *s);
/** Asks for the page numbers of a block's keys, a lane for each: keys x 1. */
struct tir_value mla_gather_pages(struct mla *s, struct tir_value block);
/** Loads the first block's page entries. The loop loads each later block's one round early. */
void mla_gather_begin(struct mla *s);
/** att_attention.entries of lists. */
struct tir_value mla_gather_entries(void *family, const struct att_block *block);

#endif

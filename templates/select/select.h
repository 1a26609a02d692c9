/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of a stream of scores, kept by one workgroup in LDS.
 *
 * Scores come in chunks, in the order of their positions. Those above a limit are appended to a
 * buffer of k entries and some chunks; when it would overflow, a radix selection leaves the k
 * largest of it, and the smallest of those is the new limit. So a row of any length is read once,
 * and what is in the buffer is ordered by position throughout: of equal scores the earlier ones are
 * kept, however many workgroups share a row. To keep the later ones, the limit is just below the
 * smallest of the k largest: later scores that equal it come into the buffer too.
 *
 * All values are tiles of a row a lane, or scalars that are the same in all waves.
 */
#ifndef TEMPLATES_SELECT_SELECT_H
#define TEMPLATES_SELECT_SELECT_H

#include "ir/builder.h"

enum { ATT_SELECT_EACH_MAX = 8 };

struct att_select {
    struct tir_builder *b;
    unsigned lanes; /* of a wave */
    unsigned k;
    unsigned each, chunk; /* scores that a lane, and a workgroup, inserts at once */
    unsigned most;        /* scores that an insertion, or a step of one, adds at most */
    unsigned steps;       /* steps in which a chunk is inserted if the buffer has no room for it */
    unsigned room;        /* entries of the buffer */
    bool later;           /* of equal scores the later ones are kept */
    struct tir_type lane; /* i32, lanes x 1: a row for each lane */
    struct tir_value wave, lane_index;
    struct tir_value keys, positions; /* LDS addresses of the buffer */
    struct tir_value counts;          /* LDS: counts of each wave; two for insertions, one for
                                         selections */
    struct tir_value histogram;       /* LDS: a histogram for each digit */
};

/** The state of a selection, which the caller's loop carries: entries in the buffer, limit, and
 * which counts come next. */
enum { ATT_SELECT_COUNT, ATT_SELECT_LIMIT, ATT_SELECT_PARITY, ATT_SELECT_N };

/** The size of a buffer. */
struct att_select_size {
    unsigned k;     /* largest scores that are selected */
    unsigned each;  /* scores of a lane in a chunk */
    unsigned most;  /* scores that an insertion, or a step of one, adds at most */
    unsigned steps; /* steps of att_select_insert() for a chunk of more scores than `most`, each
                       with a part of the waves; 1: chunks have no more */
    unsigned room;  /* entries: k + most at least */
    bool later;     /* of equal scores the later ones are kept */
};

/** Returns the size of a buffer whose chunks are inserted in one step. It has up to a quarter of
 * `most` more room, as lds_bytes permit. */
struct att_select_size att_select_size(unsigned k, unsigned each, unsigned most, unsigned waves,
                                       unsigned lds_bytes);

/** True if a workgroup of `threads` lanes can select among the entries of such a buffer, which
 * lanes hold in registers. */
bool att_select_holds(unsigned room, unsigned threads);

/** Return the bytes of LDS that a buffer of `room` entries needs: the first function for the
 * kernel's only selection, the second for a selection that shares LDS with another one. */
unsigned att_select_lds_bytes(unsigned room, unsigned waves);
unsigned att_select_beside_bytes(unsigned room, unsigned waves);

/** Reserves the LDS and initialises the state of an empty buffer. Part of the LDS is shared with
 * the selection `beside`, unless NULL. */
struct att_select att_select_begin(struct tir_builder *b, const struct att_select_size *size,
                                   const struct att_select *beside,
                                   struct tir_value state[ATT_SELECT_N]);

/** Returns an f32 as a key: an i32 with the order of the numbers. Both zeros are equal, and a NaN
 * is less than all. If `there` (i1) is false it is the key of no score. */
struct tir_value att_select_key(struct tir_builder *b, struct tir_value score,
                                struct tir_value there);

/** Returns att_select_key() of a score that is present and no NaN, without tests for these. */
struct tir_value att_select_number_key(struct tir_builder *b, struct tir_value score);

/** Returns the number in the chunk (i32 scalar) of this wave's first score in its tile `j` of
 * keys. */
struct tir_value att_select_place(const struct att_select *s, unsigned j);

/** Clears the histograms for att_select_guess(). It has a barrier, and is best called while the
 * sample is loaded. */
void att_select_begin_guess(const struct att_select *s);

/**
 * Sets the limit of an empty buffer to about the `rank`-th largest of a sample, `n` tiles of keys
 * of each wave. If fewer than k of all keys exceed it, the caller starts again without a limit:
 * att_select_restart().
 */
void att_select_guess(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *sample, unsigned n, struct tir_value rank);

/** Empties the buffer and removes the limit if `is`, a scalar i1, is true. */
void att_select_restart(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                        struct tir_value is);

/**
 * Inserts a chunk: `each` tiles of keys. `first` is the position of the chunk's first score; a
 * lane's positions follow from att_select_place(). Every wave of the workgroup must call it.
 */
void att_select_insert(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                       const struct tir_value *keys, struct tir_value first);

/* The steps of an insertion, for callers with other work between them. */

/** Returns how many of this wave's keys in one tile are above the limit; a scalar. */
struct tir_value att_select_passing(const struct att_select *s, struct tir_value limit,
                                    struct tir_value key);

/** Reserves entries for the chunk's keys; `own` of them are this wave's and above the limit, which
 * may rise. Returns the wave's first entry. Every wave must call it, and must have appended its
 * previous chunk. */
struct tir_value att_select_reserve(const struct att_select *s,
                                    struct tir_value state[ATT_SELECT_N],
                                    const struct tir_value *keys, struct tir_value own);

/** Reserves entries as att_select_reserve() does, for a chunk of each of two selections, with
 * one barrier. to[] are set to the wave's first entries. */
void att_select_reserve_both(const struct att_select *const s[2], struct tir_value *const state[2],
                             const struct tir_value *const keys[2], const struct tir_value own[2],
                             struct tir_value to[2]);

/** Appends the keys of a tile that exceed the limit to the buffer, from entry `to` on. `first`
 * is the position of the first lane's key. Returns the entry after the last one. */
struct tir_value att_select_append(const struct att_select *s, struct tir_value limit,
                                   struct tir_value key, struct tir_value first,
                                   struct tir_value to);

/** Return the key of no score, and the key of a NaN. */
struct tir_value att_select_no_key(const struct att_select *s);
struct tir_value att_select_nan_key(const struct att_select *s);

/** Leaves the k largest, or all if there are fewer, in the buffer, ordered by position. Every wave
 * may then read it. Returns how many there are. */
struct tir_value att_select_end(const struct att_select *s, struct tir_value state[ATT_SELECT_N]);

/** Selects at once, as att_select_insert() and att_select_end() do, for a row whose scores are one
 * chunk, `each` tiles of keys of each wave. The buffer is empty. */
struct tir_value att_select_whole(const struct att_select *s, const struct tir_value *keys);

/** Return the positions, and the scores, of the buffer's entries `entry`, one in each lane. -0
 * has become 0, and every NaN the same NaN. `entry` must be less than the number of entries. */
struct tir_value att_select_position(const struct att_select *s, struct tir_value entry);
struct tir_value att_select_score(const struct att_select *s, struct tir_value entry);

#endif

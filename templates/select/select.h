/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the selection of the k largest of a stream of scores by one workgroup, in LDS.
 *
 * Scores come in chunks, in the order of their positions. Scores above a limit are appended to a
 * buffer, which has room for k entries and some chunks. When the buffer would overflow, a radix
 * selection leaves its k largest scores, and the smallest of these is the new limit. So each score
 * of a row is read once, however long the row is. The buffer is always ordered by position, so the
 * earlier of equal scores are kept, for any number of workgroups that share a row. To keep the
 * later ones, the limit is just below the smallest of the k largest. Later scores that equal that
 * one then enter the buffer too.
 *
 * All values are tiles with a row for each lane, or scalars that are the same in all waves.
 */
#ifndef TEMPLATES_SELECT_SELECT_H
#define TEMPLATES_SELECT_SELECT_H

#include "ir/builder.h"

enum { ATT_SELECT_EACH_MAX = 8 }; /* most scores of a lane in a chunk */

/** A selection under construction: its buffer of the largest scores, and sizes. Values are i32. */
struct att_select {
    struct tir_builder *b;
    unsigned lanes;       /* number of lanes of a wave */
    unsigned k;           /* number of largest scores that are selected */
    unsigned each, chunk; /* number of scores of a lane, and of a workgroup, in a chunk */
    /* most scores that an insertion, or one step of an insertion, adds to the buffer */
    unsigned most;
    /* number of steps in which a chunk is inserted if the buffer has no room for all of it */
    unsigned steps;
    unsigned room; /* number of entries that the buffer has room for */
    bool later;    /* true: of equal scores the later ones are kept; false: the earlier ones */
    struct tir_type lane; /* type i32, lanes x 1: a row for each lane */
    /* i32: index of the wave (scalar); index of each lane (lanes x 1). */
    struct tir_value wave, lane_index;
    /* i32: LDS addresses of the entries' keys, and of their positions */
    struct tir_value keys, positions;
    /* i32: LDS address of three arrays of a count for each wave: two for insertions, one for
     * selections. */
    struct tir_value counts;
    /* i32: LDS address of the histograms, one for each digit of a key. */
    struct tir_value histogram;
};

/** Indices in a selection's state, i32 values that the caller's loop carries. COUNT: number of
 * entries in the buffer. LIMIT: the key that entries exceed. PARITY: 0 or 1, the array of counts of
 * the next insertion. N: length of the state. */
enum { ATT_SELECT_COUNT, ATT_SELECT_LIMIT, ATT_SELECT_PARITY, ATT_SELECT_N };

/** The sizes of a selection's buffer and chunks. */
struct att_select_size {
    unsigned k;    /* number of largest scores that are selected */
    unsigned each; /* number of scores of a lane in a chunk */
    /* most scores that an insertion, or one step of an insertion, adds to the buffer */
    unsigned most;
    /* number of steps of att_select_insert() for a chunk of more scores than `most`, each for the
     * scores of some of the waves; 1: a chunk has at most `most` scores */
    unsigned steps;
    unsigned room; /* number of entries of the buffer: k + most at least */
    bool later;    /* true: of equal scores the later ones are kept; false: the earlier ones */
};

/** Returns the sizes for a buffer of the k largest scores in a workgroup of `waves` waves. A chunk
 * has `each` scores a lane, and is inserted in one step of at most `most` scores. The buffer has up
 * to most / 4 entries more than needed, if `lds_bytes` permit. */
struct att_select_size att_select_size(unsigned k, unsigned each, unsigned most, unsigned waves,
                                       unsigned lds_bytes);

/** True if a workgroup of `threads` lanes can hold a buffer of `room` entries in its registers
 * while it selects. */
bool att_select_holds(unsigned room, unsigned threads);

/** Return the bytes of LDS for a selection with a buffer of `room` entries in a workgroup of
 * `waves` waves. att_select_lds_bytes() is for a kernel's first selection, and includes the
 * histograms. The other function is for a second selection, which shares the histograms. */
unsigned att_select_lds_bytes(unsigned room, unsigned waves);
unsigned att_select_beside_bytes(unsigned room, unsigned waves);

/** Reserves LDS for a selection, returns the selection, and sets `state` to an empty buffer without
 * limit. `beside`: an earlier selection, whose histograms this one shares; NULL: the selection has
 * histograms of its own. */
struct att_select att_select_begin(struct tir_builder *b, const struct att_select_size *size,
                                   const struct att_select *beside,
                                   struct tir_value state[ATT_SELECT_N]);

/** Returns the selection key of a score (f32): an i32 that has the order of the scores. Both zeros
 * have one key, and a NaN has a key below all numbers. If `there` (i1) is false there is no score,
 * and the key is att_select_no_key(). */
struct tir_value att_select_key(struct tir_builder *b, struct tir_value score,
                                struct tir_value there);

/** Like att_select_key(), for a score that is present and not NaN. */
struct tir_value att_select_number_key(struct tir_builder *b, struct tir_value score);

/** Returns the index in the chunk (i32 scalar) of this wave's first score in tile `j` (index) of
 * its scores. */
struct tir_value att_select_place(const struct att_select *s, unsigned j);

/** Clears the histograms for att_select_guess(). The function has a barrier, which costs least
 * while the sample is being loaded. */
void att_select_begin_guess(const struct att_select *s);

/** Sets the limit in state[] of an empty buffer to about the `rank`-th (i32) largest key of a
 * sample. Each wave has `n` tiles sample[] of keys. If fewer than k of all keys exceed the limit,
 * the caller calls att_select_restart() and inserts all keys again. */
void att_select_guess(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *sample, unsigned n, struct tir_value rank);

/** Empties the buffer and removes the limit in state[] if `is` (scalar i1) is true. */
void att_select_restart(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                        struct tir_value is);

/** Inserts a chunk: s->each tiles keys[] of every wave. `first` (i32) is the position of the
 * chunk's first score; a lane's positions follow from att_select_place(). Updates state[]. Every
 * wave of the workgroup must call it. */
void att_select_insert(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                       const struct tir_value *keys, struct tir_value first);

/* The steps of an insertion, for callers with other work between them. */

/** Returns the number (i32 scalar) of this wave's keys in tile `key` that exceed `limit`. */
struct tir_value att_select_passing(const struct att_select *s, struct tir_value limit,
                                    struct tir_value key);

/** Reserves entries of the buffer for a chunk whose tiles of this wave are keys[]. `own` (i32) is
 * the number of this wave's keys above the limit. Returns the index (i32) of the wave's first
 * entry. Updates state[], in which the limit may rise. Every wave must call it, and must have
 * appended its previous chunk. */
struct tir_value att_select_reserve(const struct att_select *s,
                                    struct tir_value state[ATT_SELECT_N],
                                    const struct tir_value *keys, struct tir_value own);

/** Reserves entries of two buffers, as two calls of att_select_reserve() with s[i], state[i],
 * keys[i] and own[i] would, but with one barrier. Sets to[i] to the index (i32) of the wave's first
 * entry in buffer i. */
void att_select_reserve_both(const struct att_select *const s[2], struct tir_value *const state[2],
                             const struct tir_value *const keys[2], const struct tir_value own[2],
                             struct tir_value to[2]);

/** Appends the keys of tile `key` that exceed `limit` to the buffer, from entry `to` (index) on.
 * `first` (i32) is the position of the first lane's key. Returns the index after the last entry. */
struct tir_value att_select_append(const struct att_select *s, struct tir_value limit,
                                   struct tir_value key, struct tir_value first,
                                   struct tir_value to);

/** Returns a tile with the lowest key in every lane. It marks a missing score and is below all keys
 * of scores. */
struct tir_value att_select_no_key(const struct att_select *s);
/** Returns a tile with the key of a NaN in every lane. */
struct tir_value att_select_nan_key(const struct att_select *s);

/** Removes all but the k largest keys, or none if there are fewer, from the buffer, which stays
 * ordered by position. Returns the number (i32) of keys left. state[] is the selection's state.
 * Every wave may read the buffer afterwards. */
struct tir_value att_select_end(const struct att_select *s, struct tir_value state[ATT_SELECT_N]);

/** Selects from a row whose scores are a single chunk, with s->each tiles keys[] of each wave, as
 * att_select_insert() and att_select_end() do. The buffer must be empty. Returns the number (i32)
 * of entries. */
struct tir_value att_select_whole(const struct att_select *s, const struct tir_value *keys);

/** Returns the positions (i32) of buffer entries `entry`, an index in each lane, all less than the
 * number of entries. */
struct tir_value att_select_position(const struct att_select *s, struct tir_value entry);
/** Returns the scores (f32) of buffer entries `entry`, an index in each lane, all less than the
 * number of entries. A score of -0 is returned as 0, and every NaN as the same NaN. */
struct tir_value att_select_score(const struct att_select *s, struct tir_value entry);

#endif

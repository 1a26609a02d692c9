/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of a stream of scores, kept by one workgroup in LDS.
 *
 * Scores come in chunks, in the order of their positions. Those above a limit are appended to a
 * buffer of k entries and some chunks; when it would overflow, a radix selection leaves the k
 * largest of it, and the smallest of those is the new limit. So a row of any length is read once,
 * and what is in the buffer is ordered by position throughout: of equal scores the earlier ones are
 * kept, however many workgroups share a row.
 *
 * All values are tiles of a row a lane, or scalars that are the same in all waves.
 */
#ifndef TEMPLATES_SELECT_SELECT_H
#define TEMPLATES_SELECT_SELECT_H

#include "ir/builder.h"

enum { ATT_SELECT_LANES = TIR_WAVE_LANES, ATT_SELECT_EACH_MAX = 8 };

struct att_select {
    struct tir_builder *b;
    unsigned k;
    unsigned each, chunk; /* scores that a lane, and a workgroup, offers at once */
    unsigned most;        /* of a chunk, or of a turn of it, that may be above the limit */
    unsigned turns;       /* in which a chunk is offered that the buffer has no room for */
    unsigned room;        /* entries of the buffer */
    struct tir_type lane; /* i32, 64 x 1 */
    struct tir_value wave, lane_index;
    struct tir_value keys, positions; /* LDS: the buffer */
    struct tir_value counts;          /* LDS: of each wave; two for offers, one for selections */
    struct tir_value histogram;       /* LDS: one for each digit */
};

/** The state that the caller's loop carries. */
enum { ATT_SELECT_COUNT, ATT_SELECT_LIMIT, ATT_SELECT_TURN, ATT_SELECT_N };

/** The room of a buffer: the k largest, and `most` that a chunk may add to them. */
struct att_select_size {
    unsigned k, each, most;
    unsigned turns; /* of a chunk that has more, in att_select_offer(): a part of the waves each */
    unsigned room;  /* entries */
};

/** With more room than that where the LDS has it; one turn. */
struct att_select_size att_select_size(unsigned k, unsigned each, unsigned most, unsigned waves,
                                       unsigned lds_bytes);

/** Can so many waves select among the entries of such a buffer? Lanes hold them in registers. */
bool att_select_holds(unsigned room, unsigned waves);

/** Bytes of LDS that a buffer of `room` entries takes, and a second one beside it. */
unsigned att_select_lds_bytes(unsigned room, unsigned waves);
unsigned att_select_beside_bytes(unsigned room, unsigned waves);

/** Reserves the LDS and sets the state to that of an empty buffer. Part of the LDS is shared with
 * the selection `beside`, or NULL. */
struct att_select att_select_begin(struct tir_builder *b, const struct att_select_size *size,
                                   const struct att_select *beside,
                                   struct tir_value state[ATT_SELECT_N]);

/** An f32 as a key: i32, ordered like the numbers; both zeros are alike, a NaN is below all. Where
 * `there` (i1) is not set the key is that of no score. */
struct tir_value att_select_key(struct tir_builder *b, struct tir_value score,
                                struct tir_value there);

/** The key of a score that is there and is no NaN. */
struct tir_value att_select_number_key(struct tir_builder *b, struct tir_value score);

/** Index in the chunk of the first lane's element `j`; a scalar. */
struct tir_value att_select_place(const struct att_select *s, unsigned j);

/** Comes before att_select_guess(), best while the sample is on its way: waves meet. */
void att_select_begin_guess(const struct att_select *s);

/**
 * Sets the limit of an empty buffer to about the `rank`-th largest of a sample, `n` tiles of keys
 * of each wave. If fewer than k of all keys turn out to be above it, the caller starts again
 * without a limit: att_select_restart().
 */
void att_select_guess(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *sample, unsigned n, struct tir_value rank);

/** Empties the buffer where `is`, a scalar i1, and lifts the limit. */
void att_select_restart(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                        struct tir_value is);

/**
 * Offers a chunk: `each` tiles of keys. `first` is the position of the chunk's first score; those
 * of a lane follow from att_select_place(). Every wave of the workgroup comes by.
 */
void att_select_offer(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *keys, struct tir_value first);

/* The steps of an offer, for those who have other work between them. */

/** Counts this wave's keys above the limit; a scalar. */
struct tir_value att_select_passing(const struct att_select *s, struct tir_value limit,
                                    struct tir_value key);

/** Reserves entries for the chunk's keys, `own` of which are this wave's and above the limit; that
 * may rise. Returns the wave's first entry. Every wave comes by, and has appended what it offered
 * before. */
struct tir_value att_select_reserve(const struct att_select *s,
                                    struct tir_value state[ATT_SELECT_N],
                                    const struct tir_value *keys, struct tir_value own);

/** att_select_reserve() for two selections, to each of which each wave offers a chunk: the waves
 * meet once. */
void att_select_reserve_both(const struct att_select *const s[2], struct tir_value *const state[2],
                             const struct tir_value *const keys[2], const struct tir_value own[2],
                             struct tir_value to[2]);

/** Appends those of a tile of keys that are above the limit, from entry `to` on, `first` being the
 * first lane's position. Returns the entry behind them. */
struct tir_value att_select_append(const struct att_select *s, struct tir_value limit,
                                   struct tir_value key, struct tir_value first,
                                   struct tir_value to);

/** The key of no score, and that of a NaN. */
struct tir_value att_select_no_key(const struct att_select *s);
struct tir_value att_select_nan_key(const struct att_select *s);

/** Leaves the k largest, or all if there are fewer, in the buffer, ordered by position; every wave
 * may read it then. Returns how many. */
struct tir_value att_select_end(const struct att_select *s, struct tir_value state[ATT_SELECT_N]);

/** Does the work of an offer and of att_select_end() for a row whose scores are all in one chunk,
 * `each` tiles of keys of each wave; the buffer is empty. */
struct tir_value att_select_whole(const struct att_select *s, const struct tir_value *keys);

/** Positions of entries by number, and their scores, of which -0 has become 0 and every NaN the
 * same; `entry` below the count, in every lane. */
struct tir_value att_select_position(const struct att_select *s, struct tir_value entry);
struct tir_value att_select_score(const struct att_select *s, struct tir_value entry);

#endif

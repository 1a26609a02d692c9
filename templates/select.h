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
#ifndef TEMPLATES_SELECT_H
#define TEMPLATES_SELECT_H

#include "ir/builder.h"

enum { ATT_SELECT_LANES = 64, ATT_SELECT_EACH_MAX = 8 };

struct att_select {
    struct tir_builder *b;
    unsigned k;
    unsigned each, chunk; /* scores that a lane, and a workgroup, offers at once */
    unsigned room;        /* entries of the buffer */
    struct tir_type lane; /* i32, 64 x 1 */
    struct tir_value wave, lane_index;
    struct tir_value keys, positions; /* LDS: the buffer */
    struct tir_value counts;          /* LDS: of each wave; two for offers, one for selections */
    struct tir_value histogram;       /* LDS: one for each digit */
};

/** What changes: carried through the caller's loop. */
enum { ATT_SELECT_COUNT, ATT_SELECT_LIMIT, ATT_SELECT_TURN, ATT_SELECT_N };

/** Entries of a buffer with room for so many chunks beside the k largest: at least one. The more
 * there are, the fewer selections. */
unsigned att_select_room(unsigned k, unsigned each, unsigned waves, unsigned chunks);

/** Bytes of LDS that a buffer of `room` entries takes. */
unsigned att_select_lds_bytes(unsigned room, unsigned waves);

/** Reserves the LDS and sets the state to that of an empty buffer. */
struct att_select att_select_begin(struct tir_builder *b, unsigned k, unsigned each, unsigned room,
                                   struct tir_value state[ATT_SELECT_N]);

/** An f32 as a key: i32, ordered like the numbers; both zeros are alike, a NaN is below all. */
struct tir_value att_select_key(struct tir_builder *b, struct tir_value score);

/** Where element `j` of this wave's part of a chunk is in it: the first lane's, a scalar. */
struct tir_value att_select_place(const struct att_select *s, unsigned j);

/**
 * Offers a chunk: `each` tiles of keys and of i1, whether there is such a score. `first` is the
 * position of the chunk's first score; those of a lane follow from att_select_place(). Every wave
 * of the workgroup comes by.
 */
void att_select_offer(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *keys, const struct tir_value *there,
                      struct tir_value first);

/** Leaves the k largest, or all if there are fewer, in the buffer, ordered by position; every wave
 * may read it then. Returns how many. */
struct tir_value att_select_end(const struct att_select *s, struct tir_value state[ATT_SELECT_N]);

/** Positions of entries by number, and their scores, of which -0 has become 0 and every NaN the
 * same; `entry` below the count, in every lane. */
struct tir_value att_select_position(const struct att_select *s, struct tir_value entry);
struct tir_value att_select_score(const struct att_select *s, struct tir_value entry);

#endif

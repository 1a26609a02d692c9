/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the `rope_decode` template: new tokens on their way from arguments to LDS, to the
 * products of decode, and to the cache.
 */
#ifndef TEMPLATES_ROPE_DECODE_ROPE_DECODE_H
#define TEMPLATES_ROPE_DECODE_ROPE_DECODE_H

#include "templates/decode/decode.h"
#include "templates/rope/rope.h"

enum {
    ROPE_DECODE_BLOCK = 16, /* columns of q that pass through LDS at once */
    ROPE_DECODE_PAD = 8, /* elements between rows of q in LDS, so that rows begin in other banks */
    ROPE_DECODE_TILES = 32, /* the most tiles of a token's query heads */
};

/** A token's queries, their biases, angles and weights, as loaded. */
struct rope_decode_queries {
    struct rope rope;          /* has the angles */
    struct rope_source source; /* has the weights of the norm */
    struct tir_value raw[ROPE_DECODE_TILES][ROPE_MAX_SPANS];
    struct tir_value bias[ROPE_DECODE_TILES][ROPE_MAX_SPANS];
};

/** A token's key and value, their biases, angles and weights, as loaded. */
struct rope_decode_news {
    struct rope rope;
    struct rope_source source;
    struct tir_value mine; /* i1: true: the key is in a tile of this wave: rope_decode_is_mine() */
    struct tir_value raw[2][ROPE_MAX_SPANS], bias[2][ROPE_MAX_SPANS]; /* of the key, of the value */
};

struct rope_decode {
    struct rope rope, kv;   /* tiles of q, and of k and v */
    int tiles;              /* tiles of a token's query heads */
    struct tir_value lds_q; /* i32: LDS address of this wave's rows of q */
    struct tir_value lds;   /* i32: LDS address of all new tokens' rows of k and v, in the
                               products' dtype */
    int stored, scales;     /* bytes from `lds` to the rows as the cache stores them, and to their
                               scales */
    struct rope_decode_queries first; /* of the first token: loaded before the cache */
    struct rope_decode_news first_news;
};

/** Returns the state of the kernel's new tokens. */
static inline struct rope_decode *rope_decode_of(const struct decode *d) { return d->arriving; }

/** True if the cache stores other elements than the products take. */
static inline bool rope_decode_is_narrow(const struct decode *d)
{
    return d->kv.kv_dtype != d->kv.dtype;
}

/* lds.c */

/** Returns the bytes from a row of q in LDS to the next. */
int rope_decode_q_bytes(const struct decode *d);
/** Reserves LDS for the new tokens. The shapes of `rope` and `kv` must be set before. */
void rope_decode_reserve(struct decode *d);
/** Returns the LDS address of a token's first row of k or of v. Rows of `row_bytes` begin `area`
 * bytes after rope_decode.lds. */
struct tir_value rope_decode_address(struct decode *d, int area, int row_bytes, int token,
                                     bool value);
/** Returns the type of a span of a tile of heads with elements as the cache stores them. */
struct tir_type rope_decode_stored_type(const struct decode *d, const struct rope_shape *shape,
                                        unsigned span);

/** A span of a tile of heads in LDS. */
struct rope_decode_place {
    struct tir_value at;   /* i32: its address */
    struct tir_layout map; /* its address map, relative to `at` */
};

/** Returns the place of a span in rows of head_dim elements of `size` bytes, from the address `row`
 * on, with `pad` unused elements after each. */
struct rope_decode_place rope_decode_span(struct decode *d, const struct rope_shape *shape,
                                          unsigned span, struct tir_value row, int size, int pad);
/** Stores `raw`, all spans of a tile of heads, in LDS at the places of rope_decode_span(). */
void rope_decode_put(struct decode *d, const struct rope_shape *shape, struct tir_value row,
                     int size, int pad, const struct tir_value *raw);

/* make.c */

/** Returns the key of a new token, i32; below 0 if the sequence has no such key. */
struct tir_value rope_decode_key(struct decode *d, int token);
/** Returns an i1: true if the sequence has this new token. */
struct tir_value rope_decode_exists(struct decode *d, int token);
/** Returns an i1: true if a new token's key is the item's, and in a tile of this wave. */
struct tir_value rope_decode_is_mine(struct decode *d, int token);
/** Issues the loads of a token's queries. Angles are loaded in a stage of the loop over keys, since
 * they wait for a position. */
void rope_decode_load_queries(struct decode *d, int token, uint8_t stage,
                              struct rope_decode_queries *q);
/** Issues the loads of a token's key and value, if they are this wave's. `of` has its position. */
void rope_decode_load_new_rows(struct decode *d, int token, const struct rope *of,
                               struct rope_decode_news *w);
/** Puts a tile of queries into LDS, from a row of the wave's block on. */
void rope_decode_make_queries(struct decode *d, struct rope_decode_queries *q, int tile, int row);
/** Puts a token's key and value into LDS, if they are this wave's. */
void rope_decode_make_news(struct decode *d, struct rope_decode_news *w, int token);

/* replace.c: members of struct decode_arrivals. */

/** Return a tile of K, or of V, whose rows of new tokens are replaced by those in LDS. In a scaled
 * cache they also replace the rows' scales in d->now. `key` is the tile's first key. */
struct tir_value rope_decode_replace_keys(struct decode *d, struct tir_value k,
                                          struct tir_value key);
struct tir_value rope_decode_replace_values(struct decode *d, struct tir_value v,
                                            struct tir_value key);
/** Writes the wave's new tokens from LDS to their slots of the cache, with their scales. */
void rope_decode_store(struct decode *d);

#endif

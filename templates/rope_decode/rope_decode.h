/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of template rope_decode share. New tokens pass from arguments
 * to LDS, and from there to the products of decode and to the cache.
 */
#ifndef TEMPLATES_ROPE_DECODE_ROPE_DECODE_H
#define TEMPLATES_ROPE_DECODE_ROPE_DECODE_H

#include "templates/decode/decode.h"
#include "templates/rope/rope.h"

enum {
    ROPE_DECODE_BLOCK = 16, /* number of rows of q (columns of Q^T) that pass through LDS at once */
    /* Number of unused elements after each row of q in LDS, so that rows begin in other banks. */
    ROPE_DECODE_PAD = 8,
    ROPE_DECODE_TILES = 32, /* most tiles of a token's query heads */
};

/** A token's queries as loaded, with their biases, angles and norm weights. */
struct rope_decode_queries {
    struct rope rope;          /* rotation of the token's tiles of q: shapes, angles and position */
    struct rope_source source; /* source of the heads of q, with the weights of the norm */
    /* Loaded spans of each tile of heads, and of their biases. */
    struct tir_value raw[ROPE_DECODE_TILES][ROPE_MAX_SPANS];
    struct tir_value bias[ROPE_DECODE_TILES][ROPE_MAX_SPANS];
};

/** A new token's key and value as loaded, with their biases, angles and norm weights. */
struct rope_decode_news {
    struct rope rope;          /* rotation of the token's tile of k and v */
    struct rope_source source; /* source of k, with the weights of the norm */
    /* i1: true if this wave computes the token's key and value: rope_decode_is_mine(). */
    struct tir_value mine;
    /* Loaded spans, and their biases; [0]: of the key; [1]: of the value. */
    struct tir_value raw[2][ROPE_MAX_SPANS], bias[2][ROPE_MAX_SPANS];
};

/** The part of a rope_decode kernel under construction that concerns new tokens. */
struct rope_decode {
    struct rope rope, kv;   /* rotation of tiles of q, and of tiles of k and v */
    int tiles;              /* number of tiles of a token's query heads */
    struct tir_value lds_q; /* i32: LDS address of this wave's block of rows of q */
    /* i32: LDS address of all new tokens' rows of k and v, in the products' dtype */
    struct tir_value lds;
    /* Byte offsets in LDS from `lds`. stored: rows of k and v in the cache's dtype. scales: scales
     * of these rows. */
    int stored, scales;
    /* Queries of the first token; their loads precede the loads of the cache. */
    struct rope_decode_queries first;
    /* Key and value of the first new token. */
    struct rope_decode_news first_news;
};

/** Returns the struct rope_decode of the kernel whose struct decode is `d`. */
static inline struct rope_decode *rope_decode_of(const struct decode *d) { return d->arriving; }

/* True if the cache's elements have another dtype than the operands of the products. */
static inline bool rope_decode_is_narrow(const struct decode *d)
{
    return d->kv.kv_dtype != d->kv.dtype;
}

/* Functions of lds.c: places of new tokens in LDS. */

/** Returns the distance in bytes of two rows of q in LDS. */
int rope_decode_q_bytes(const struct decode *d);
/** Reserves LDS for the new tokens. The shapes of rope_decode.rope and rope_decode.kv must be
 * set. */
void rope_decode_reserve(struct decode *d);
/** Returns the LDS address (i32) of the first row of k, or of v if `value`, of new token `token`
 * (index). The rows of an area have `row_bytes` bytes each and begin `area` bytes after
 * rope_decode.lds. */
struct tir_value rope_decode_address(struct decode *d, int area, int row_bytes, int token,
                                     bool value);
/** Returns the tile type of span `span` (index) of a tile of heads, with elements as the cache
 * stores them. */
struct tir_type rope_decode_stored_type(const struct decode *d, const struct rope_shape *shape,
                                        unsigned span);

/** The place in LDS of a span of a tile of heads. */
struct rope_decode_place {
    struct tir_value at;   /* i32: LDS address at which the map begins */
    struct tir_layout map; /* LDS map of the span's heads x elements, relative to `at` */
};

/** Returns the place in LDS of span `span` (index) of a tile of heads. Rows of head_dim elements of
 * `size` bytes begin at LDS address `row` (i32), and `pad` unused elements follow each row. */
struct rope_decode_place rope_decode_span(struct decode *d, const struct rope_shape *shape,
                                          unsigned span, struct tir_value row, int size, int pad);
/** Stores raw[], all spans of a tile of heads, in LDS at the places that rope_decode_span() returns
 * for the same arguments. */
void rope_decode_put(struct decode *d, const struct rope_shape *shape, struct tir_value row,
                     int size, int pad, const struct tir_value *raw);

/* Functions of make.c: queries, keys and values of new tokens. */

/** Returns the index in the sequence (i32) of new token `token` (index); below 0 if the sequence
 * has no such token. */
struct tir_value rope_decode_key(struct decode *d, int token);
/** Returns an i1: true if the sequence has at least `token` + 1 new tokens. */
struct tir_value rope_decode_exists(struct decode *d, int token);
/** Returns an i1: true if the key of new token `token` (index) is one of the item's keys, and in a
 * tile of keys that this wave multiplies. */
struct tir_value rope_decode_is_mine(struct decode *d, int token);
/** Issues the loads of the queries of new token `token` (index) into `q`. Loads of angles wait for
 * the token's position. They are therefore placed in pipeline stage `stage` of the loop over
 * keys. */
void rope_decode_load_queries(struct decode *d, int token, uint8_t stage,
                              struct rope_decode_queries *q);
/** Issues the loads of the key and value of new token `token` (index) into `w`, if this wave
 * computes key and value of this token. `of` has the token's row and position. */
void rope_decode_load_new_rows(struct decode *d, int token, const struct rope *of,
                               struct rope_decode_news *w);
/** Computes tile `tile` (index) of the query heads `q`, and stores it in LDS, from row `row`
 * (index) of the wave's block on. */
void rope_decode_make_queries(struct decode *d, struct rope_decode_queries *q, int tile, int row);
/** Computes the key and value of new token `token` (index) from their loads `w`, and stores them in
 * LDS. Does nothing in waves that do not compute this token. */
void rope_decode_make_news(struct decode *d, struct rope_decode_news *w, int token);

/* Functions of replace.c, which are members of struct decode_arrivals. */

/** Return tile `k` of K, or `v` of V, with the rows of new tokens replaced by their rows in LDS. If
 * each token of the cache has a scale, the scales of these rows in d->now are replaced too. `key`
 * (i32) is the tile's first key. */
struct tir_value rope_decode_replace_keys(struct decode *d, struct tir_value k,
                                          struct tir_value key);
struct tir_value rope_decode_replace_values(struct decode *d, struct tir_value v,
                                            struct tir_value key);
/** Writes this wave's new tokens and their scales from LDS to their slots of the cache. */
void rope_decode_store(struct decode *d);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the state of template decode: split-KV attention with K and V in registers.
 */
#ifndef TEMPLATES_DECODE_DECODE_H
#define TEMPLATES_DECODE_DECODE_H

#include "templates/pipeline/pipeline.h"
#include "templates/split_kv/split_kv.h"
#include "templates/template.h"

enum { DECODE_MAX_BLOCKS = 4 /* most blocks of SPLIT_KV_BLOCK keys in a tile */ };

/** The layouts of a tile of keys of K or of V in a wave's registers. */
struct decode_tile {
    struct tir_layout part;  /* layout of a part of a block as it is loaded: SPLIT_KV_BLOCK keys x
                                the columns of the part */
    struct tir_layout block; /* layout of a block as it is loaded: SPLIT_KV_BLOCK keys x all
                                columns */
    struct tir_layout tile;  /* layout of a tile: all its keys x all columns */
    struct tir_type rows;    /* type of an i32 for each key, keys x 1, in the lanes that have the
                                key's row */
};

/** Page numbers (i32) of a tile of keys. block[]: a scalar for each block of SPLIT_KV_BLOCK keys,
 * if a block is in one page. Else k and v: a number for each row of K and of V. */
struct decode_pages {
    struct tir_value block[DECODE_MAX_BLOCKS], k, v;
};

/** Scales (f32) of a tile of K or V. rows: a number for each key, keys x 1 in the layout of the
 * scores' rows. Else block[]: a scalar for each block of keys. */
struct decode_scales {
    struct tir_value rows, block[DECODE_MAX_BLOCKS];
};

/** Q^T, the right operand of S^T = K Q^T. */
struct decode_query {
    unsigned dtype, bytes;        /* enum tir_dtype of an element of Q, and of K as an operand, and
                                     bytes of such an element */
    struct tir_contraction depth; /* contraction of S^T = K Q^T, over head_dim */
    struct tir_value q;           /* Q^T, head_dim x columns; a column is a query and head */
    struct tir_value scales;      /* f32, 1 x columns: scale of each column; no value: all queries
                                     and heads share one scale, or have none */
    struct tir_value lds;         /* i32: LDS address of Q^T for head dims that are too large for
                                     registers; else no value */
    struct tir_layout map;        /* address map of Q^T in LDS */
};

/** Values of one tile of keys that the pipeline's steps pass to each other. */
struct decode_now {
    struct tir_value key;  /* i32: index of the tile's first key, in the stage that looks up page
                              numbers */
    struct tir_value k, v; /* the tiles of K and V as loaded */
    struct tir_value k_used,
        v_used; /* the tiles of K and V with rows of new tokens, in the type of the products; no
                   value: the kernel has no new tokens */
    struct decode_pages pages;
    struct decode_scales k_scales, v_scales;
};

struct decode;

/** The functions by which a kernel computes its newest keys, which are arguments and not in the
 * cache yet. None is NULL. */
struct decode_arrivals {
    /** Reserves LDS for the new tokens. Called once, before the loop over items. */
    void (*begin)(struct decode *d);
    /** Issues the loads of rows of q, k and v, before the loads of the first tile of K. */
    void (*load)(struct decode *d);
    /** Computes queries, keys and values of the new tokens into LDS, and returns Q^T in the layout
     * of decode_query.q. */
    struct tir_value (*prepare)(struct decode *d);
    /** Return the tile `k` of K, or `v` of V, with the rows of new tokens, and replace these rows'
     * scales in d->now. The tile has elements of the product's type, and its first key has index
     * `key` (i32). */
    struct tir_value (*replace_keys)(struct decode *d, struct tir_value k, struct tir_value key);
    struct tir_value (*replace_values)(struct decode *d, struct tir_value v, struct tir_value key);
    /** Writes an item's new tokens to the cache, after all waves have read their tiles. */
    void (*store)(struct decode *d);
};

/** The state of a decode kernel while it is built. */
struct decode {
    struct split_kv kv;
    struct pipe_plan plan; /* the pipeline of the loop over keys */
    uint8_t compute;       /* index of the pipeline's stage that computes the products */
    struct decode_tile k_tile, v_tile;
    struct tir_layout k_operand; /* K as the left operand of S^T = K Q^T: keys x width */
    bool whole_lines;            /* loads of K read whole rows, which are reordered through LDS;
                                    false: loads read operands */
    struct tir_layout k_lds;     /* address map in LDS of a tile of K, with whole_lines */
    struct tir_value lines;      /* i32: LDS address of the wave's tile of K, with whole_lines */
    struct tir_layout v_operand; /* V as the left operand of O^T = V^T P^T: keys x dv */
    struct decode_query query;
    struct tir_value in_step; /* i1; true: each tile of the loop has a barrier of all waves; false:
                                 this launch has none. No value: the code has no such barriers */
    struct decode_now now;
    const struct decode_arrivals *arrivals; /* functions for newest keys that are arguments; NULL:
                                               all keys are in the cache */
    void *arriving;                         /* the state that the functions of `arrivals` use */
};

/* decode.c */

enum { DECODE_TILES = 9 };
extern const struct att_tile decode_tiles[DECODE_TILES];

/** Names of att_tile.own in rows of decode_tiles. */
#define DECODE_OWN {"ahead", "in_order", "whole_lines"}

/** Knobs of decode_tiles that the tuning files of targets may set. */
enum { DECODE_N_FITTED = 1 };
extern const struct att_knob decode_fitted[DECODE_N_FITTED];

/** Builds the kernel of a variant of `decode` into `k`. For newest keys that are arguments,
 * `arrivals` is not NULL, and decode.arriving is set to `arriving`. */
void decode_build(const struct att_variant *v, const struct tir_machine *m,
                  const struct decode_arrivals *arrivals, void *arriving, struct att_kernel *k);

/** Returns the bytes of LDS that decode_build() would reserve with tile `t`. The other arguments
 * are as for decode_build(). */
unsigned decode_lds_bytes(const struct att_variant *v, const struct tir_machine *m,
                          const struct att_tile *t, const struct decode_arrivals *arrivals,
                          void *arriving);

/** True if tile `t` of decode_tiles serves the variant; if not, the reason is in `why`. It is the
 * member `fits` of a template. */
bool decode_fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why);

/* load.c */

/** Returns a tile of c->width columns whose halves are part[0] and part[1] of rows of `c`. If rows
 * have one part, returns part[0]. */
struct tir_value decode_join(struct decode *d, struct tir_value part[2],
                             const struct split_kv_cache *c);
/** Sets the layouts of K and V as loaded and as operands, and the types of S^T and O^T. Must be
 * called before any op is built. */
void decode_choose_layouts(struct decode *d);
/** Reserves LDS in which each wave reorders a tile of K. Does nothing if decode.whole_lines is
 * false. */
void decode_reserve_lines(struct decode *d);
/** Sets kv.k.c and kv.value.c to the caches of K and V at the item's KV head. */
void decode_find_cache(struct decode *d);
/** Loads the page numbers of the tile whose first key has index `key` (i32). Keys after the last
 * one get the last one's page. */
struct decode_pages decode_find_pages(struct decode *d, struct tir_value key);
/** Issue the loads of the tile of K, or of V, whose first key has index `key` (i32): keys x width.
 * Rows after the last key are not defined. */
struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
/** Issues the loads of the scales of the tile of `c`, K or V. Its first key has index `key` (i32).
 */
struct decode_scales decode_load_scales(struct decode *d, const struct split_kv_cache *c,
                                        struct tir_value key, const struct decode_pages *pages);
/** Returns `loaded`, a tile of K, as the left operand of S^T = K Q^T. */
struct tir_value decode_use_k(struct decode *d, struct tir_value loaded);
/** Returns tile `v`, from decode_widen_v(), as the left operand of O^T += V^T P^T. Its first key is
 * `key` (i32). */
struct tir_value decode_use_v(struct decode *d, struct tir_value v, struct tir_value key);
/** Returns `loaded`, a tile of V, with elements of the product's type, for decode_use_v(). */
struct tir_value decode_widen_v(struct decode *d, struct tir_value loaded);
/** Returns `a`, in the layout of the scores, with each row multiplied by its key's scale in `s`.
 * Returns `a` itself if all rows share a scale. */
struct tir_value decode_scale(struct decode *d, struct tir_value a, const struct decode_scales *s);

#endif

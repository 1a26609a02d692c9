/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the `decode` template: split-KV with K and V in registers.
 */
#ifndef TEMPLATES_DECODE_DECODE_H
#define TEMPLATES_DECODE_DECODE_H

#include "templates/pipeline/pipeline.h"
#include "templates/split_kv/split_kv.h"
#include "templates/template.h"

enum { DECODE_MAX_BLOCKS = 4 /* of SPLIT_KV_BLOCK keys, in a tile */ };

/** The layouts of a tile of K or V in a wave's registers. */
struct decode_tile {
    struct tir_layout part;  /* of SPLIT_KV_BLOCK keys x a part of a row */
    struct tir_layout block; /* of SPLIT_KV_BLOCK keys x width, as loaded */
    struct tir_layout tile;  /* of keys x width */
    struct tir_type rows;    /* keys x 1 of i32, with a key's row in the lanes that hold it */
};

/** Page numbers of a tile of keys: a scalar for each block, or by row of K and of V. */
struct decode_pages {
    struct tir_value block[DECODE_MAX_BLOCKS], k, v;
};

/** Scales of a tile of keys: keys x 1 in the layout of the scores, or a scalar for each block. */
struct decode_scales {
    struct tir_value rows, block[DECODE_MAX_BLOCKS];
};

/** Q^T, the right operand of S^T = K Q^T. */
struct decode_query {
    unsigned dtype, bytes;        /* of an element of Q, and of K as the product takes it */
    struct tir_contraction depth; /* over head_dim */
    struct tir_value q;           /* head_dim x columns */
    struct tir_value scales;      /* 1 x columns; none: one scale for all queries and heads */
    struct tir_value lds;         /* i32: Q^T in LDS, for head dims that registers cannot hold */
    struct tir_layout map;        /* address map of Q^T in LDS */
};

/** Values of the tile of keys that the pipeline's steps work on. */
struct decode_now {
    struct tir_value key;  /* i32: its first key, in the stage of the page numbers */
    struct tir_value k, v; /* as loaded */
    struct tir_value k_used,
        v_used; /* with rows of new tokens, in the type of the products; none */
    struct decode_pages pages;
    struct decode_scales k_scales, v_scales;
};

struct decode;

/** The functions of a family whose newest keys are arguments and not in the cache yet. None is
 * NULL. */
struct decode_arrivals {
    /** Reserves LDS, before the items. */
    void (*begin)(struct decode *d);
    /** Issues the loads of rows of q, k and v, before the loads of the first tile of K. */
    void (*load)(struct decode *d);
    /** Puts queries, keys and values of the new tokens into LDS, and returns Q^T as `decode` holds
     * it. */
    struct tir_value (*prepare)(struct decode *d);
    /** Replace the rows of new tokens in a tile of K or of V, and their scales in d->now. The tile
     * has elements of the product's type and begins at `key`. */
    struct tir_value (*replace_keys)(struct decode *d, struct tir_value k, struct tir_value key);
    struct tir_value (*replace_values)(struct decode *d, struct tir_value v, struct tir_value key);
    /** Writes the new tokens of an item to the cache. All waves have read their tiles. */
    void (*store)(struct decode *d);
};

struct decode {
    struct split_kv kv;
    struct pipe_plan plan; /* the pipeline of the loop over keys */
    uint8_t compute;       /* stage of the pipeline that computes the products */
    struct decode_tile k_tile, v_tile;
    struct tir_layout k_operand; /* K as the left operand of S^T = K Q^T: keys x width */
    bool whole_lines;            /* loads of K take whole rows; LDS reorders them */
    struct tir_layout k_lds;     /* address map of that tile in LDS */
    struct tir_value lines;      /* i32: the wave's tile of K in LDS */
    struct tir_layout v_operand; /* V as the left operand of O^T = V^T P^T: keys x dv */
    struct decode_query query;
    struct tir_value in_step; /* i1: true: a barrier of all waves in each tile; none: no barriers */
    struct decode_now now;
    const struct decode_arrivals *arrivals; /* NULL: all keys are in the cache */
    void *arriving;                         /* the state of `arrivals` */
};

/* decode.c */

enum { DECODE_TILES = 9 };
extern const struct att_tile decode_tiles[DECODE_TILES];

/** Names of att_tile.own in rows of decode_tiles. */
#define DECODE_OWN {"ahead", "in_order", "whole_lines"}

/** Knobs of decode_tiles that the tuning files of targets may set. */
enum { DECODE_N_FITTED = 1 };
extern const struct att_knob decode_fitted[DECODE_N_FITTED];

/** Builds the kernel of a variant of `decode`. With new tokens `arrivals` is not NULL, and its
 * functions find `arriving` in the state. */
void decode_build(const struct att_variant *v, const struct tir_machine *m,
                  const struct decode_arrivals *arrivals, void *arriving, struct att_kernel *k);

/** Returns the bytes of LDS that decode_build() would reserve with this tile. The other arguments
 * are as for decode_build(). */
unsigned decode_lds_bytes(const struct att_variant *v, const struct tir_machine *m,
                          const struct att_tile *t, const struct decode_arrivals *arrivals,
                          void *arriving);

/** True if a row of decode_tiles is for a variant: the member `fits` of a template. */
bool decode_fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why);

/* load.c */

/** Joins the parts of rows of `c` side by side, as a tile of c->width columns. */
struct tir_value decode_join(struct decode *d, struct tir_value part[2],
                             const struct split_kv_cache *c);
/** Sets the layouts of K and V as loaded and as operands, and the types of S^T and O^T. Call it
 * before any op is built. */
void decode_choose_layouts(struct decode *d);
/** Reserves LDS in which each wave reorders a tile of K, if loads of K take whole rows. */
void decode_reserve_lines(struct decode *d);
/** Sets kv.k.c and kv.value.c to the caches of K and V at the item's KV head. */
void decode_find_cache(struct decode *d);
/** Loads the page numbers of a tile's keys. Keys past the last one have its page. */
struct decode_pages decode_find_pages(struct decode *d, struct tir_value key);
/** Issues the loads of a tile of K or V, keys x width. Rows past the last key may be anything. */
struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
/** Issues the loads of the scales of a tile of K or V. */
struct decode_scales decode_load_scales(struct decode *d, const struct split_kv_cache *c,
                                        struct tir_value key, const struct decode_pages *pages);
/** Converts a loaded tile to the left operand of S^T = K Q^T, or of O^T += V^T P^T. */
struct tir_value decode_use_k(struct decode *d, struct tir_value loaded);
struct tir_value decode_use_v(struct decode *d, struct tir_value v, struct tir_value key);
/** Returns a loaded tile of V with elements of the product's type, for decode_use_v(). */
struct tir_value decode_widen_v(struct decode *d, struct tir_value loaded);
/** Multiplies rows of `a`, of the scores' type, by the scales of their keys. Returns `a` if rows
 * have no scales of their own. */
struct tir_value decode_scale(struct decode *d, struct tir_value a, const struct decode_scales *s);

#endif

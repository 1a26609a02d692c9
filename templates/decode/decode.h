/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of template decode share: split-KV attention with K and V in
 * registers.
 */
#ifndef TEMPLATES_DECODE_DECODE_H
#define TEMPLATES_DECODE_DECODE_H

#include "templates/pipeline/pipeline.h"
#include "templates/split_kv/split_kv.h"
#include "templates/template.h"

enum { DECODE_MAX_BLOCKS = 4 /* most blocks of SPLIT_KV_BLOCK keys in a tile */ };

/** Layouts in a wave's registers of a tile of K or of V, and of the loads that make up the tile. */
struct decode_tile {
    /* Layout of a part of a block as it is loaded: SPLIT_KV_BLOCK keys x the columns of the part */
    struct tir_layout part;
    /* Layout of a block as it is loaded: SPLIT_KV_BLOCK keys x all columns */
    struct tir_layout block;
    struct tir_layout tile; /* layout of a tile: all its keys x all columns */
    /* type of an i32 for each key, keys x 1, in the lanes that have the key's row */
    struct tir_type rows;
};

/** Page numbers (i32) of a tile of keys. block[] has a scalar for each block of SPLIT_KV_BLOCK
 * keys, if a block is in one page. Otherwise k and v have a number for each row of K and of V, keys
 * x 1. */
struct decode_pages {
    struct tir_value block[DECODE_MAX_BLOCKS], k, v;
};

/** Scales (f32) of a tile of K or V. `rows` has a number for each key, keys x 1 in the layout of
 * the scores' rows. If `rows` has no value, block[] has a scalar for each block of keys. */
struct decode_scales {
    struct tir_value rows, block[DECODE_MAX_BLOCKS];
};

/** Q^T, the right operand of S^T = K Q^T. */
struct decode_query {
    /* dtype: enum tir_dtype of elements of Q, and of K as an operand. bytes: bytes of such an
     * element. */
    unsigned dtype, bytes;
    struct tir_contraction depth; /* contraction of S^T = K Q^T, over head_dim */
    struct tir_value q;           /* Q^T, head_dim x columns; a column is a query and head */
    /* f32, 1 x columns: scale of each column's query; no value: all queries and heads share one
     * scale, or have none. */
    struct tir_value scales;
    /* i32: LDS address of Q^T for head dims that are too large for registers; else no value. */
    struct tir_value lds;
    struct tir_layout map; /* LDS layout of Q^T */
};

/** Values of one tile of keys that the pipeline's steps pass to each other. */
struct decode_now {
    /* i32: index of the tile's first key, of the pipeline stage that looks up page numbers */
    struct tir_value key;
    struct tir_value k, v; /* the tiles of K and V as loaded */
    /* The tiles of K and V with the rows of new tokens filled in, in the dtype of the products; no
     * value: the kernel has no new tokens. */
    struct tir_value k_used, v_used;
    struct decode_pages pages;               /* page numbers of the tile */
    struct decode_scales k_scales, v_scales; /* scales of the tile's keys */
};

struct decode;

/** Functions for the newest keys of a call, which are arguments and not in the cache yet. No
 * function is NULL. */
struct decode_arrivals {
    /** Reserves LDS for the new tokens. Called once, before the loop over items. */
    void (*begin)(struct decode *d);
    /** Issues the loads of rows of q, k and v, before the loads of the first tile of K. */
    void (*load)(struct decode *d);
    /** Computes queries, keys and values of the new tokens into LDS, and returns Q^T in the layout
     * of decode_query.q. */
    struct tir_value (*prepare)(struct decode *d);
    /** Return the tile `k` of K, or `v` of V, with the rows of new tokens replaced, and replace
     * these rows' scales in d->now. The tile has the dtype of the products, and its first key has
     * index `key` (i32). */
    struct tir_value (*replace_keys)(struct decode *d, struct tir_value k, struct tir_value key);
    struct tir_value (*replace_values)(struct decode *d, struct tir_value v, struct tir_value key);
    /** Writes an item's new tokens to the cache, after all waves have read their tiles. */
    void (*store)(struct decode *d);
};

/** A decode kernel under construction. */
struct decode {
    struct split_kv kv;    /* builder, sizes, caches and the item: what split_kv/ uses */
    struct pipe_plan plan; /* the pipeline of the loop over keys */
    uint8_t compute;       /* index of the pipeline's stage that computes the products */
    struct decode_tile k_tile, v_tile; /* layouts of tiles of K and of V as loaded */
    struct tir_layout k_operand; /* layout of K as the left operand of S^T = K Q^T: keys x width */
    /* True: loads of K read whole rows, which are reordered through LDS; false: loads read
     * operands. */
    bool whole_lines;
    struct tir_layout k_lds; /* LDS layout of a tile of K; set with whole_lines */
    struct tir_value lines;  /* i32: LDS address of the wave's tile of K; set with whole_lines */
    /* Layout of V, the transpose of the left operand of O^T = V^T P^T: keys x head_dim_v. */
    struct tir_layout v_operand;
    struct decode_query query; /* Q^T of the item */
    /* i1: true if this launch keeps waves in step, by a barrier in each iteration; false: this
     * launch does not. No value: the kernel's code has no such barriers. */
    struct tir_value in_step;
    struct decode_now now; /* values of the tile in progress */
    /* Functions for newest keys that are arguments; NULL: all keys are in the cache */
    const struct decode_arrivals *arrivals;
    void *arriving; /* the state that the functions of `arrivals` use */
};

/* Functions of decode.c: the algorithm, its tiles and its LDS. */

enum { DECODE_TILES = 12 };
extern const struct att_tile decode_tiles[DECODE_TILES];

/** Indices of att_tile.own. AHEAD: number of tiles of keys in flight beyond the next one. IN_ORDER:
 * 1 if matrix instructions stay in the order of the template, 0 if the scheduler moves them.
 * WHOLE_LINES: 1 if a load of K reads whole rows, 0 if it reads an operand. BY_GROUPS: 1 if
 * workgroups that share a work list have a group of the query heads each, 0 if a workgroup has all
 * heads. */
enum { DECODE_AHEAD, DECODE_IN_ORDER, DECODE_WHOLE_LINES, DECODE_BY_GROUPS };

/** Initialises att_template.own: the names of att_tile.own in rows of decode_tiles. */
#define DECODE_OWN {"ahead", "in_order", "whole_lines", "by_groups"}

/** Knobs of decode_tiles that fitted rows may set: att_template.fitted. */
enum { DECODE_N_FITTED = 1 };
extern const struct att_knob decode_fitted[DECODE_N_FITTED];

/** Builds the kernel of a variant of `decode` into `k`. If the newest keys are arguments,
 * `arrivals` is not NULL, and decode.arriving is set to `arriving`. */
void decode_build(const struct att_variant *v, const struct tir_machine *m,
                  const struct decode_arrivals *arrivals, void *arriving, struct att_kernel *k);

/** Returns the bytes of LDS that decode_build() would reserve with tile `t`. The other arguments
 * are as for decode_build(). */
unsigned decode_lds_bytes(const struct att_variant *v, const struct tir_machine *m,
                          const struct att_tile *t, const struct decode_arrivals *arrivals,
                          void *arriving);

/** True if tile `t` of decode_tiles serves the variant; if not, the reason is in `why`. The
 * function is att_template.fits. */
bool decode_fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why);

/** True if a tile of K, a tile of V and O take all vector registers of a wave or more: the member
 * `fills` of att_template. */
bool decode_fills(const struct att_variant *v, const struct att_tile *t,
                  const struct tir_machine *m);

/* Functions of groups.c: tiles for a group of the query heads of a KV head. */

/** Returns the number of groups into which tile `t` divides the query heads of a KV head: the least
 * number of groups of equally many heads whose rows are columns of the tile. Returns 1 if the tile
 * has all heads. */
unsigned decode_head_groups(const struct att_variant *v, const struct att_tile *t);
/** True if tile `t` with own[DECODE_BY_GROUPS] serves the variant's numbers of heads and queries;
 * if not, the reason is in `why`. */
bool decode_fits_groups(const struct att_variant *v, const struct att_tile *t,
                        const struct tir_machine *m, struct att_why *why);
/** Sets *second to the kernel of a tile for groups of heads, if a SIMD holds only one wave of the
 * variant's first kernel. Returns false if there is none, or if n > 0. The second kernel serves
 * launches whose lists, or sequences without a plan, give each group a compute unit of the target's
 * largest device. The function is att_template.second. */
bool decode_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second);

/* Functions of load.c: loads of K and V, and their layouts. */

/** Returns a tile of c->width columns from its loads part[0] and part[1], the two parts of rows of
 * *c. If rows have one part, returns part[0]. */
struct tir_value decode_join(struct decode *d, struct tir_value part[2],
                             const struct split_kv_cache *c);
/** Sets the layouts of K and V as loaded and as operands, and the types of S^T and O^T. It must be
 * called before any op is appended. */
void decode_choose_layouts(struct decode *d);
/** Reserves LDS in which each wave reorders a tile of K. Does nothing if decode.whole_lines is
 * false. */
void decode_reserve_lines(struct decode *d);
/** Sets d->kv.k.c and d->kv.value.c to the caches of K and V at the item's KV head. */
void decode_find_cache(struct decode *d);
/** Issues the loads of the page numbers of the tile whose first key has index `key` (i32). Keys
 * after the last one get the last one's page. */
struct decode_pages decode_find_pages(struct decode *d, struct tir_value key);
/** Issue the loads of the tile of K, or of V, whose first key has index `key` (i32), by the page
 * numbers *pages. The result is keys x width. Rows after the last key are not defined. */
struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
/** Issues the loads of the scales of a tile of *c, which is K or V. The tile's first key has index
 * `key` (i32), and *pages are its page numbers. The result has no values if all keys share a
 * scale. */
struct decode_scales decode_load_scales(struct decode *d, const struct split_kv_cache *c,
                                        struct tir_value key, const struct decode_pages *pages);
/** Returns `loaded`, a tile of K, as the left operand of S^T = K Q^T. */
struct tir_value decode_use_k(struct decode *d, struct tir_value loaded);
/** Returns tile `v`, a result of decode_widen_v(), as the left operand of O^T += V^T P^T. Its first
 * key has index `key` (i32). */
struct tir_value decode_use_v(struct decode *d, struct tir_value v, struct tir_value key);
/** Returns `loaded`, a tile of V, in the dtype of the products, for decode_use_v(). */
struct tir_value decode_widen_v(struct decode *d, struct tir_value loaded);
/** Returns `a`, in the layout of the scores, with each row multiplied by its key's scale in *s.
 * Returns `a` itself if all rows share a scale. */
struct tir_value decode_scale(struct decode *d, struct tir_value a, const struct decode_scales *s);

#endif

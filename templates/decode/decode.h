/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of the `decode` template share.
 */
#ifndef TEMPLATES_DECODE_DECODE_H
#define TEMPLATES_DECODE_DECODE_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/attention/attention.h"
#include "templates/cache/cache.h"
#include "templates/pipeline/pipeline.h"
#include "templates/variant.h"

/* Tokens that one buffer resource covers: pages of a multiple of it are read block by block. */
enum { DECODE_BLOCK = 16, DECODE_MAX_BLOCKS = 4, DECODE_MAX_WAVES = 8 };

/* One of K and V: where its pages are and how a wave holds a tile of it. A head dim that is no
 * power of two is held as the next one, its first and its last `width` / 2 columns side by side,
 * so that no load leaves the row. */
struct decode_cache {
    unsigned width;          /* head_dim or head_dim_v, up to a power of two */
    unsigned overlap;        /* columns that both halves have; 0: it is loaded whole */
    struct tir_layout part;  /* of DECODE_BLOCK tokens x a half, or all, of width */
    struct tir_layout block; /* of DECODE_BLOCK tokens x width, as loaded */
    struct tir_layout tile;  /* of keys x width */
    struct tir_type rows;    /* keys x 1 of i32, as held beside the tile */
    struct att_cache c;      /* at the item's kv head */
};

/* Page numbers of a tile of keys: a scalar a block, or by row of K and of V. */
struct decode_pages {
    struct tir_value block[DECODE_MAX_BLOCKS], k, v;
};

/* Scales of a tile of keys: keys x 1 as the scores have them, or a scalar a block. */
struct decode_scales {
    struct tir_value rows, block[DECODE_MAX_BLOCKS];
};

/* A workgroup's item: some queries of a sequence, over a range of its keys, for the query heads of
 * one kv head. Scalars, uniform over the workgroup. */
struct decode_item {
    struct tir_value sequence, kv_head;
    struct tir_value kv_len, first_key, end_key;
    struct tir_value first_token, end_token; /* the sequence's queries, as rows of q */
    struct tir_value diagonal; /* the last key that the query at row 0 of q would see */
    struct tir_value partial;  /* row of partial_out, or -1: write the result */
    struct tir_value table;    /* i64: the sequence's page numbers */
};

enum { DECODE_BESIDE = 16 };

struct decode {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype, kv_dtype, kv_bytes; /* of an element of the cache */
    unsigned q_dtype, q_size;           /* of an element of Q, and of K as the product takes it */
    unsigned waves, waves_per_simd;
    bool own_columns;             /* of each wave: none has what another one has */
    unsigned row_columns;         /* columns that have rows of their own, which the others
                                            repeat; 0: all have */
    struct tir_value first_value; /* i32: the first element of head_dim_v that the wave
                                            writes; or none: it writes all of its columns */
    struct tir_value divisors;    /* i32, LDS: where waves that have all columns of a part
                                            of O leave 1 / l of their own columns, and
                                            where their rows go; or none */
    bool zero_late;               /* O is made zero after the first loads */
    bool neighbours;              /* items that follow each other go to one XCD */
    struct pipe_plan plan;        /* the pipeline of the loop over keys */
    uint8_t compute;              /* its stage of the products */
    unsigned keys;                /* of a tile, a multiple of DECODE_BLOCK */
    unsigned columns;             /* queries x heads that are worked on at once */
    int qk, pv;                   /* matrix instructions */
    struct tir_contraction depth; /* of K Q: head_dim */

    struct att_paging paging;
    struct decode_cache k, value;
    struct tir_layout v_operand; /* V as the left operand of O^T = V^T P^T: keys x dv */
    struct tir_type scores, output;
    struct att_attention attention;
    struct tir_value lds;
    struct tir_value lds_q; /* where Q^T lies that registers have no room for */
    struct tir_layout q_map;

    struct tir_value wave, gqa;
    struct tir_value list;    /* i32: whose items are to be found; or none: the workgroup's own */
    struct tir_value in_step; /* i1: waves meet once a tile; or none, where they never do */
    struct decode_item item;
    struct tir_value part_ends[2]; /* i32: of its parts in reduce_partial_map */
    struct tir_value ticket;       /* i64: where these count themselves */
    struct tir_value touched;      /* i32 tile: what decode_touch_ticket() asked for */
    struct tir_value first_row;    /* of the item's queries x heads: column 0 */
    struct tir_value n_rows;
    struct tir_value q;
    struct tir_value q_scales; /* of the columns, 1 x columns, where each has its own; or none */

    /* A template may ask for the first n_beside of these when an item is asked for; they arrive
     * with it. */
    struct tir_value beside[DECODE_BESIDE];
    unsigned n_beside;

    /* O^T of own columns is written part by part. Where finish_part is set, it makes a part of
     * what O^T has of it. `found` says where results go, if that is known before. */
    struct tir_value (*finish_part)(void *family, struct tir_value part, unsigned number);
    void *family;
    const struct decode_places *found;

    /* The block of keys that is being built. */
    struct tir_value tile_key; /* i32: its first key, in the stage of the page numbers */
    struct tir_value k_loaded, v_loaded;
    struct decode_pages pages;
    struct decode_scales k_scales, v_scales;
};

/* items.c */

/** Asks for arguments at the kernel's beginning; of a latent cache or of keys and values. */
void decode_ask_arguments(struct decode *d, bool latent);
/** First and one-past-last item of this workgroup. */
void decode_find_items(struct decode *d, struct tir_value range[2]);
/** Reads an item of the work list, or makes it of its number where there is none. */
void decode_find_item(struct decode *d, struct tir_value index);

/* load.c */

/** A cache of rows of `dim` elements; before anything is built. */
struct decode_cache decode_cache(int dim);
/** A row is loaded in 1 or 2 parts. These return their number, their columns, and where part i
 * begins. */
static inline unsigned decode_parts(const struct decode_cache *c) { return c->overlap ? 2 : 1; }
static inline unsigned decode_part_width(const struct decode_cache *c)
{
    return c->width / decode_parts(c);
}
static inline int decode_part_first(const struct decode_cache *c, unsigned i)
{
    return i ? (int)(c->width / 2 - c->overlap) : 0;
}
/** Parts of rows, rows x a half of the width, side by side. */
struct tir_value decode_join(struct decode *d, struct tir_value part[2],
                             const struct decode_cache *c);

/** Layouts of K and V as they are loaded and used; before anything is built. */
void decode_choose_layouts(struct decode *d);
/** The cache at the item's kv head. */
void decode_find_cache(struct decode *d);
/** Are pages so small, so unknown or so odd, or rows so long, that each key's is looked up? */
bool decode_by_lane(const struct att_variant *v);
/** Page numbers of a tile's keys; those beyond the last repeat it. */
struct decode_pages decode_find_pages(struct decode *d, struct tir_value key);
/** Starts a tile on its way, keys x width. What stands for keys beyond the end may be anything. */
struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages);
struct decode_scales decode_load_scales(struct decode *d, const struct decode_cache *c,
                                        struct tir_value key, const struct decode_pages *pages);
/** Loaded tiles as the left operands of S^T = K Q^T and O^T += V^T P^T. */
struct tir_value decode_use_k(struct decode *d, struct tir_value loaded);
struct tir_value decode_use_v(struct decode *d, struct tir_value loaded, struct tir_value key);
/** Rows of `a`, of the scores' type, times the scale of their key; `a` where there are none. */
struct tir_value decode_scale(struct decode *d, struct tir_value a, const struct decode_scales *s);

/* merge.c */

/** A wave's state over its keys. l is 1 x columns, or rows whose sum that is. */
struct decode_state {
    struct tir_value m, l, o;
};

/** Every wave's LDS accesses are done, and all may go on. */
void decode_meet(struct decode *d);
/** LDS that decode_merge() needs. */
unsigned decode_merge_bytes(const struct decode *d);
/** The states of all waves become one, and what the item asks for is written: its result or a
 * partial result. Every wave takes part. */
void decode_end_item(struct decode *d, struct decode_state *s);

/* write.c */

/** A tensor [row, head, ...], where row0 stands for the item's first token. */
struct decode_tensor {
    struct tir_value base;                  /* i64 */
    struct tir_value row0;                  /* i32 */
    struct tir_value row_bytes, head_bytes; /* i64, from one to the next */
};

/** Rows of all heads with `bytes` a head. */
struct decode_tensor decode_partial(struct decode *d, const char *tensor, int bytes,
                                    struct tir_value row0);
/** i64 of each row of a tile of type `t`, columns x anything. */
struct tir_value decode_offsets(struct decode *d, struct tir_type t,
                                const struct decode_tensor *tensor);

/** A state is what its item says, a result or a part of one; or one of these; or a sum of parts, to
 * which scales of the cache were applied. */
enum decode_kind { DECODE_EITHER, DECODE_RESULT, DECODE_PART, DECODE_SUM };

/** This says where a state goes, of d's columns and its type of O. */
struct decode_places {
    enum decode_kind kind;
    bool own_lse;           /* each wave writes the values it has; else the first one writes all */
    struct tir_value final; /* i1: it is the result, and no part */
    struct decode_tensor out, lse;
    struct tir_value out_at, lse_at; /* i64 of each row */
    struct tir_value sinks;          /* of the columns, or none */
    struct tir_value scale;          /* what V is multiplied with, or none */
};

/** The type of O with registers in the order of dv, so that a lane has neighbours; what tells
 * halves of it apart is the last. */
struct tir_type decode_in_order(struct decode *d);
/** Asks for what says where tensors are. */
struct decode_places decode_ask_places(struct decode *d, enum decode_kind kind);
/** Find the rows of O and of the log of the denominator, of d's type of O and columns. */
void decode_find_out(struct decode *d, struct decode_places *p);
void decode_find_lse(struct decode *d, struct decode_places *p);
/** Writes the log of the denominator, and returns its inverse, 1 x columns. */
struct tir_value decode_write_lse(struct decode *d, const struct decode_state *s,
                                  const struct decode_places *p);
/** Writes O, of d's type of it, which has been divided. */
void decode_write_out(struct decode *d, struct tir_value o, const struct decode_places *p);
/** Finds where the result of an item goes, for d->found. */
struct decode_places decode_find_result(struct decode *d);
/** Every wave writes what it holds of O; the log of the denominator is wave 0's to write. */
void decode_write_state(struct decode *d, const struct decode_state *s);

/* parts.c */

/** i1: is the item a part of its sequence's keys, with rows to be summed up? */
struct tir_value decode_is_part(struct decode *d);

/** Parts that other workgroups have of the same rows: whoever ends last adds up all of them and
 * writes the result. Behind the passes over an item. */
void decode_join_parts(struct decode *d);
/** Reads what says where the parts are, so that it is near when decode_join_parts() reads it.
 * Returns what is to be waited for, or no value. */
struct tir_value decode_ask_for_parts(struct decode *d);

/* share.c */

/** Asks for the ends of the item's parts in reduce_partial_map and sets d->part_ends, to something
 * where the item is no part, and d->ticket. The caller anchors them behind its first loads. */
void decode_ask_part_ends(struct decode *d);
/** Brings the ticket's line to the L2 while the workgroup's part is being written: asks for a word
 * of it, d->touched, for which decode_share_parts() waits. */
void decode_touch_ticket(struct decode *d);
/** d->touched of an item that has not asked yet. */
struct tir_value decode_untouched(struct decode *d);
/** decode_join_parts() for parts that are too much for one workgroup: all workgroups that end about
 * when the last one does add them up. Needs 4 free bytes of d's lds. */
void decode_share_parts(struct decode *d);

/* decode.c */

/** The query and the head of each column: tokens are outer, heads of the kv head inner. */
struct decode_rows {
    struct tir_value row;   /* clamped to the last */
    struct tir_value token; /* row of q */
    struct tir_value head;  /* query head */
    struct tir_value valid; /* i1: not beyond the last */
};

/** Sets attention.at, the keys that each column sees, in the shape of attention.softmax. */
void decode_find_position(struct decode *d);

/**
 * Ends the loop over blocks of keys, and the branch of items with keys around it. `inside` holds
 * what the loop carries, `carried` the state of an item without keys. Returns the wave's state.
 */
struct decode_state decode_end_keys(struct decode *d, struct tir_if *some, struct tir_loop *loop,
                                    struct tir_value inside[ATT_N_CARRY],
                                    struct tir_value carried[ATT_N_CARRY]);

/** For a vector of column numbers, i32 of any shape. */
struct decode_rows decode_rows(struct decode *d, struct tir_value column);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the library of kernels that split a sequence's keys over workgroups
 * (split-KV): work items, the queries and heads of an item, results and partials, and sums of
 * partials. `decode` and `mla_decode` add their loops over keys.
 */
#ifndef TEMPLATES_SPLIT_KV_SPLIT_KV_H
#define TEMPLATES_SPLIT_KV_SPLIT_KV_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/attention/attention.h"
#include "templates/cache/cache.h"
#include "templates/variant.h"

/* Keys of a block, which one buffer resource covers: pages of a multiple of as many keys are read
 * block by block. The most waves of a workgroup. */
enum { SPLIT_KV_BLOCK = 16, SPLIT_KV_MAX_WAVES = 8 };

/** The cache of K or of V, and the width of its rows in registers. A head dim that is no power of
 * two is held as the next one: its first and its last `width` / 2 columns, side by side. */
struct split_kv_cache {
    unsigned width;     /* head_dim or head_dim_v, rounded up to a power of two */
    unsigned overlap;   /* columns that both halves have; 0: a row is loaded whole */
    struct att_cache c; /* at the item's KV head */
};

/** A workgroup's item: some queries of a sequence and a range of its keys, for the query heads of
 * one KV head. Scalars, uniform over the workgroup; i32 unless stated. */
struct split_kv_item {
    struct tir_value sequence, kv_head;
    struct tir_value kv_len, first_key, end_key;
    struct tir_value first_token, end_token; /* the sequence's queries, as rows of q */
    struct tir_value diagonal; /* the last key that the query at row 0 of q would see */
    struct tir_value partial;  /* row of partial_out; -1: the result is written */
    struct tir_value table;    /* i64: address of the sequence's page numbers */
};

enum { SPLIT_KV_BESIDE = 16 /* the most arguments that are loaded together with an item */ };

struct split_kv_places;

/** The state of a kernel. Members without a value ("none") have the id 0. */
struct split_kv {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype;              /* of P and out: enum tir_dtype */
    unsigned kv_dtype, kv_bytes; /* of an element of the cache */
    unsigned waves, waves_per_simd;
    unsigned keys;                /* of a tile or block, a multiple of SPLIT_KV_BLOCK */
    unsigned columns;             /* queries x heads that one pass works on */
    unsigned row_columns;         /* columns with rows of their own, which the other columns
                                     repeat; 0: all columns */
    bool own_columns;             /* true: no two waves have the same column of O^T */
    bool zero_late;               /* true: O is set to zero after the first loads of K */
    bool new_rows;                /* true: the newest rows of k and v are arguments of the call */
    bool neighbours;              /* true: items with neighbouring numbers go to one XCD */
    int qk, pv;                   /* matrix instructions of the two products */
    struct tir_value first_value; /* i32: the first element of head_dim_v that the wave writes;
                                     none: it writes all elements of its columns */
    struct tir_value divisors;    /* i32, LDS: 1 / l of each column and the address of its row,
                                     for waves that have all columns of a part of O; none */
    struct att_paging paging;
    struct split_kv_cache k, value;
    struct tir_type scores, output; /* types of S^T and of O^T */
    struct att_attention attention;
    struct tir_value lds; /* i32: LDS address of the buffer of split_kv_merge_bytes() bytes */

    struct tir_value wave, gqa; /* i32: the wave's number; query heads of a KV head */
    struct tir_value list;      /* i32: number of the list of items; none: the workgroup's number */
    struct split_kv_item item;
    struct tir_value part_ends[2]; /* i32: range of the item's partials in reduce_partial_map */
    struct tir_value ticket;       /* i64: address of the count of these partials */
    struct tir_value last;    /* i1: the item is the list's last one; none: each counts as such */
    struct tir_value touched; /* i32 tile: the word that split_kv_touch_ticket() loads; none: it is
                                 not called */
    struct tir_value first_row; /* i32: row of column 0, among the item's queries x heads */
    struct tir_value n_rows;    /* i32: queries x heads of the item */

    struct tir_value beside[SPLIT_KV_BESIDE]; /* arguments that are loaded together with an item */
    unsigned n_beside;                        /* 0: an item is loaded without any */

    /** Finishes part `number` of O^T before it is divided and written. NULL: O^T is final. Only
     * for `own_columns`. */
    struct tir_value (*finish_part)(void *family, struct tir_value part, unsigned number);
    void *family; /* argument of finish_part */
    const struct split_kv_places
        *found; /* addresses of the result; NULL: found when it is stored */
};

/* items.c */

/** Loads arguments at the kernel's beginning. `latent`: K and V are one latent cache. */
void split_kv_load_arguments(struct split_kv *d, bool latent);
/** Sets `range` to the numbers (i32) of the first and the one-past-last item of this workgroup. */
void split_kv_find_items(struct split_kv *d, struct tir_value range[2]);
/** Sets d->item to item number `index` of the work list. Without a list, derives the item from that
 * number. */
void split_kv_find_item(struct split_kv *d, struct tir_value index);

/* rows.c */

/** Returns `width` and `overlap` of rows of `dim` elements. */
struct split_kv_cache split_kv_cache(int dim);
/** Returns in how many parts a row is loaded: 1 or 2. */
static inline unsigned split_kv_parts(const struct split_kv_cache *c) { return c->overlap ? 2 : 1; }
/** Returns the columns of a part. */
static inline unsigned split_kv_part_width(const struct split_kv_cache *c)
{
    return c->width / split_kv_parts(c);
}
/** Returns the first column of part i. */
static inline int split_kv_part_first(const struct split_kv_cache *c, unsigned i)
{
    return i ? (int)(c->width / 2 - c->overlap) : 0;
}

/** True if each key's page is looked up, and not the page of a block of 16 keys: pages have no
 * multiple of 16 keys or an unknown size, or rows are long. */
bool split_kv_by_lane(const struct att_variant *v);

/** The query and the head of each column: tokens are outer, heads of the KV head inner. */
struct split_kv_rows {
    struct tir_value row;   /* among the item's queries x heads, at most the last one */
    struct tir_value token; /* row of q */
    struct tir_value head;  /* query head */
    struct tir_value valid; /* i1: the column has a row of its own */
};

/** Returns the rows of a vector of column numbers, i32 of any shape. */
struct split_kv_rows split_kv_rows(struct split_kv *d, struct tir_value column);
/** Sets attention.at, the keys that each column sees, in the shape of attention.softmax. */
void split_kv_find_position(struct split_kv *d);

/** The state of a wave over its keys. l is 1 x columns, or rows that add up to it. */
struct split_kv_state {
    struct tir_value m, l, o;
};

/**
 * Ends the loop over blocks of keys, and the branch of items with keys around it. `inside` holds
 * what the loop carries, `carried` the state of an item without keys. Returns the wave's state.
 */
struct split_kv_state split_kv_end_keys(struct split_kv *d, struct tir_if *some,
                                        struct tir_loop *loop, struct tir_value inside[ATT_N_CARRY],
                                        struct tir_value carried[ATT_N_CARRY]);

/* merge.c */

/** Returns the bytes of LDS that split_kv_end_item() needs. */
unsigned split_kv_merge_bytes(const struct split_kv *d);
/** Merges the states of all waves and writes the item's result or partial. All waves call it. */
void split_kv_end_item(struct split_kv *d, struct split_kv_state *s);

/* write.c */

/** A tensor [row, head, ...] that begins with the item's first token. */
struct split_kv_tensor {
    struct tir_value base;                  /* i64 */
    struct tir_value row0;                  /* i32: the row of the item's first token */
    struct tir_value row_bytes, head_bytes; /* i64: strides */
};

/** Returns a tensor of partials, with rows of all heads and `bytes` a head. */
struct split_kv_tensor split_kv_partial(struct split_kv *d, const char *tensor, int bytes,
                                        struct tir_value row0);
/** Returns the byte offsets (i64) of the rows of a tile of type `t`, columns x anything. */
struct tir_value split_kv_offsets(struct split_kv *d, struct tir_type t,
                                  const struct split_kv_tensor *tensor);

/** The kinds of a state: EITHER is a result if item.partial is below 0, else a partial. A SUM of
 * partials includes the scales of the cache already. */
enum split_kv_kind { SPLIT_KV_EITHER, SPLIT_KV_RESULT, SPLIT_KV_PART, SPLIT_KV_SUM };

/** The addresses of a state, whose type and columns are split_kv.output and split_kv.columns. */
struct split_kv_places {
    enum split_kv_kind kind;
    bool own_lse;           /* true: each wave writes its own LSE; false: the first wave all */
    struct tir_value final; /* i1: the state is a result */
    struct split_kv_tensor out, lse;
    struct tir_value out_at, lse_at; /* i64: byte offset of each row in out and in lse */
    struct tir_value sinks;          /* f32: the sink of each column's head; none: no sinks */
    struct tir_value scale;          /* f32: scale of V; none: 1 */
};

/** Returns the type of O with registers in the order of dv, so that a lane has neighbours. The last
 * register bit selects the half of a row in two parts. */
struct tir_type split_kv_in_order(struct split_kv *d);
/** Loads the arguments that locate the tensors of a state. */
struct split_kv_places split_kv_load_places(struct split_kv *d, enum split_kv_kind kind);
/** Computes the addresses of the rows of O. */
void split_kv_find_out(struct split_kv *d, struct split_kv_places *p);
/** Computes the addresses of LSE and loads the sinks. */
void split_kv_find_lse(struct split_kv *d, struct split_kv_places *p);
/** Writes LSE and returns the inverse of the denominator, 1 x columns. */
struct tir_value split_kv_write_lse(struct split_kv *d, const struct split_kv_state *s,
                                    const struct split_kv_places *p);
/** Writes O, of type split_kv.output, which has been divided. */
void split_kv_write_out(struct split_kv *d, struct tir_value o, const struct split_kv_places *p);
/** Finds the addresses of an item's result, for split_kv.found. */
struct split_kv_places split_kv_find_result(struct split_kv *d);
/** Writes the item's result or partial: each wave its part of O, wave 0 the LSE. */
void split_kv_write_state(struct split_kv *d, const struct split_kv_state *s);

/* parts.c */

/** Returns i1: true if the item is a part of its sequence's keys and has rows. */
struct tir_value split_kv_is_part(struct split_kv *d);
/** Counts the workgroup's partial. The last workgroup of a sequence adds up its partials and writes
 * the result. If the partials are many, all of its workgroups do. Call it after the passes over an
 * item. */
void split_kv_join_parts(struct split_kv *d);
/** Loads early what split_kv_join_parts() needs to find the partials. Returns the loaded value,
 * which the caller anchors, or none. */
struct tir_value split_kv_prefetch_parts(struct split_kv *d);

/* share.c */

/** Loads part_ends and the address `ticket`. part_ends may be anything if the item is no part. The
 * caller anchors them after its first loads. */
void split_kv_load_part_ends(struct split_kv *d);
/** Loads a word of the ticket's cache line, so that it is in the L2 when partials are counted. Sets
 * `touched`, which split_kv_share_parts() waits for. */
void split_kv_touch_ticket(struct split_kv *d);
/** Returns an undefined value for `touched`, of an item that does not call
 * split_kv_touch_ticket(). */
struct tir_value split_kv_untouched(struct split_kv *d);
/** Adds up partials as split_kv_join_parts() does, with all workgroups that end at about the same
 * time. Needs 4 free bytes at `lds`. */
void split_kv_share_parts(struct split_kv *d);
/** Adds up partials as split_kv_share_parts() does, but with eight partials side by side. A slice
 * has 32 elements; for few partials of many rows see SPLIT_KV_PARTS_OF_ROWS. The caller has set
 * `ticket` and part_ends. head_dim_v may be any of 64 or more. */
void split_kv_share_narrow(struct split_kv *d);

#endif

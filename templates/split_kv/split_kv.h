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

/** SPLIT_KV_BLOCK: number of keys that one buffer resource covers. Keys are read block by block if
 * a page has a multiple of this number. SPLIT_KV_MAX_WAVES: most waves of a workgroup. */
enum { SPLIT_KV_BLOCK = 16, SPLIT_KV_MAX_WAVES = 8 };

/** The cache of K or of V, and the width of its rows in registers. A head dim that is no power of
 * two is rounded up to the next power of two. The row's first and its last `width` / 2 columns are
 * then loaded as two parts, which overlap. */
struct split_kv_cache {
    /* Number of columns of a row in registers: head_dim or head_dim_v, rounded up to a power of
     * two. */
    unsigned width;
    /* Number of columns that both parts of a row have; 0: a row is loaded whole. */
    unsigned overlap;
    struct att_cache c; /* the cache of K or V, with its address at the item's KV head */
};

/** A workgroup's item: some queries of a sequence and a range of its keys, for the query heads of
 * one KV head. Scalars, the same in all waves; i32 unless stated. */
struct split_kv_item {
    struct tir_value sequence, kv_head; /* i32: indices of the sequence and of the KV head */
    /* i32: number of keys of the sequence; index of the item's first key, and of the key after its
     * last one. */
    struct tir_value kv_len, first_key, end_key;
    /* i32: row in q of the sequence's first query, and of the query after its last one. */
    struct tir_value first_token, end_token;
    /* i32: index of the last key that a causal query in row 0 of q would see: row r sees up to key
     * diagonal + r. */
    struct tir_value diagonal;
    struct tir_value
        partial; /* i32: row of partial_out that the item writes; -1: it writes the result */
    struct tir_value table; /* i64: address of the sequence's page numbers */
};

enum { SPLIT_KV_BESIDE = 16 /* most arguments that are loaded together with an item */ };

struct split_kv_places;

/** The kernel under construction: its builder, sizes, and values that all of split_kv/ uses. In
 * comments, "none" says what it means if a member has no value. */
struct split_kv {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype;                 /* enum tir_dtype of P (softmax weights) and out */
    unsigned kv_dtype, kv_bytes;    /* enum tir_dtype of an element of the cache, and its bytes */
    unsigned waves, waves_per_simd; /* number of waves of a workgroup, and of waves on a SIMD */
    unsigned keys;                  /* number of keys of a tile, a multiple of SPLIT_KV_BLOCK */
    /* Number of rows of Q of one pass over the keys, one for each query and head; columns of S^T
     * and O^T. */
    unsigned columns;
    /* Number of columns with rows of Q of their own; the other columns repeat these rows. 0: all
     * columns have rows of their own. */
    unsigned row_columns;
    /* Number of equal groups of the query heads of a KV head; 1: they are not divided. A workgroup
     * processes one group of its items' query heads. `head_groups` workgroups, one for each group,
     * share a work list. */
    unsigned head_groups;
    bool own_columns; /* true: no two waves have the same column of O^T */
    /* True: O is set to zero while the first loads of K are in flight; false: LLVM may set it
     * before these loads. */
    bool zero_late;
    bool new_rows;   /* true: the newest rows of k and v are arguments of the call */
    bool neighbours; /* true: workgroups on one XCD have items with consecutive indices */
    int qk, pv;      /* indices in tir_machine.mma of the instructions of K Q^T and of P V */
    /* i32: index of the first element of head_dim_v that the wave writes; none: the wave writes all
     * elements of its columns. */
    struct tir_value first_value;
    /* i32: LDS address of an f32 1 / l for each column, followed by an i64 byte offset of the row
     * for each column. Only waves that have all columns of a part of O use it; none: other
     * kernels */
    struct tir_value divisors;
    /* i32: LDS address of a buffer through which O passes to lanes with neighbouring parts of a
     * row. It is free after the loop over keys. Only with own_columns; none: lanes store O as
     * products leave it. */
    struct tir_value lines;
    struct att_paging paging;       /* size of pages */
    struct split_kv_cache k, value; /* caches of K and of V */
    struct tir_type scores, output; /* types of S^T (scores) and of O^T (output) */
    struct att_attention attention; /* softmax and masks of the loop over keys */
    struct tir_value lds; /* i32: LDS address of the buffer of split_kv_merge_bytes() bytes */

    /* i32: index of the wave in the workgroup; number of query heads of a KV head, or of one of its
     * head_groups. */
    struct tir_value wave, gqa;
    struct tir_value head_group; /* i32: index of the workgroup's group; none: no head_groups */
    /* i32: index of the workgroup's list of items; none: the workgroup's own number is the
     * index. */
    struct tir_value list;
    struct split_kv_item item; /* the item that is processed */
    /* i32: index of the first entry of the sequence's partials in reduce_partial_map, and of the
     * entry after the last. */
    struct tir_value part_ends[2];
    /* i64: address of the ticket, the count of the sequence's partials that are written. */
    struct tir_value ticket;
    /* i1: the item is the last one of its list; none: each item is treated as the last */
    struct tir_value last;
    /* i32 tile: the word that split_kv_touch_ticket() loads; none: it was not called */
    struct tir_value touched;
    /* i32: index of the row of Q in column 0, among the item's rows of Q. */
    struct tir_value first_row;
    struct tir_value n_rows; /* i32: number of rows of Q of the item, one for each query and head */

    /* Loaded values of arguments for which the kernel waits together with the words of an item. */
    struct tir_value beside[SPLIT_KV_BESIDE];
    unsigned n_beside; /* number of values in beside[] */

    /** Returns part `number` (index) of O^T in its final form, from `part`, the same rows after the
     * loop over keys. NULL: the loop computes the final form. Only with own_columns. */
    struct tir_value (*finish_part)(void *family, struct tir_value part, unsigned number);
    void *family; /* state of the family, the first argument of finish_part */
    const struct split_kv_places
        /* addresses of the item's result; NULL: they are computed when the result is stored */
        *found;
};

/* Functions of items.c: the items of a workgroup. */

/** Loads the arguments that all items share, at the start of the kernel. `latent` is true if K and
 * V are one latent cache. */
void split_kv_load_arguments(struct split_kv *d, bool latent);
/** Sets range[] to the indices (i32) of this workgroup's first item, and of the item after its last
 * one. */
void split_kv_find_items(struct split_kv *d, struct tir_value range[2]);
/** Sets d->item to the item with index `index` (i32) of the work list. Without a list, computes the
 * item from that index. */
void split_kv_find_item(struct split_kv *d, struct tir_value index);

/** Returns the index (i32), among all query heads, of the first one in the item's rows of Q. */
struct tir_value split_kv_first_head(struct split_kv *d);
/** Returns the maximum number of rows of Q in an item, a row for each query and query head; 0: not
 * known, since the kernel serves any number of heads. */
unsigned split_kv_known_rows(const struct split_kv *d);

/* Functions of rows.c: rows of Q, rows of the cache, and the end of the loop over keys. */

/** Returns a struct split_kv_cache for rows of `dim` elements, with only `width` and `overlap`
 * set. */
struct split_kv_cache split_kv_cache(int dim);
/* Returns the number of parts (1 or 2) in which a row of the cache is loaded. */
static inline unsigned split_kv_parts(const struct split_kv_cache *c) { return c->overlap ? 2 : 1; }
/* Returns the number of columns of a part of a row of the cache. */
static inline unsigned split_kv_part_width(const struct split_kv_cache *c)
{
    return c->width / split_kv_parts(c);
}
/* Returns the index of the first column of part i (0 or 1) of a row of the cache. */
static inline int split_kv_part_first(const struct split_kv_cache *c, unsigned i)
{
    return i ? (int)(c->width / 2 - c->overlap) : 0;
}

/** True if a kernel looks up the page of each key. False if it looks up the page of a block of 16
 * keys. Blocks need pages of a multiple of 16 keys, and rows that are not long. */
bool split_kv_by_lane(const struct att_variant *v);

/** The query and the head of each column, in tiles of one shape. Columns are ordered by token, then
 * by query head of the KV head. */
struct split_kv_rows {
    struct tir_value row;   /* i32: index among the item's rows of Q, at most the last row */
    struct tir_value token; /* i32: row of the query's token in q */
    struct tir_value head;  /* i32: index of the query head */
    struct tir_value valid; /* i1: true if the column's row exists, and no other column has it */
};

/** Returns query and head of the columns `column` (i32 indices, of any shape). */
struct split_kv_rows split_kv_rows(struct split_kv *d, struct tir_value column);
/** Sets attention.at, the keys that each column sees, in the layout of attention.softmax. */
void split_kv_find_position(struct split_kv *d);

/** A wave's softmax state after its keys: maximum m (1 x columns), sum l, and output O^T. l is 1 x
 * columns, or has several rows whose sum is l. */
struct split_kv_state {
    struct tir_value m, l, o;
};

/** Ends the loop over blocks of keys, and the branch `some` around it, which items with keys take.
 * inside[] has the values that the loop carries, carried[] the state of an item without keys.
 * Returns the wave's state. */
struct split_kv_state split_kv_end_keys(struct split_kv *d, struct tir_if *some,
                                        struct tir_loop *loop, struct tir_value inside[ATT_N_CARRY],
                                        struct tir_value carried[ATT_N_CARRY]);

/* Functions of merge.c: the merge of the waves' states. */

/** Returns the bytes of LDS that split_kv_end_item() needs. */
unsigned split_kv_merge_bytes(const struct split_kv *d);
/** Merges the states *s of all waves and writes the item's result or partial. All waves must call
 * it. */
void split_kv_end_item(struct split_kv *d, struct split_kv_state *s);

/* Functions of write.c: writes of results and partials. */

/** A tensor [row, head, ...] that begins with the item's first token. */
struct split_kv_tensor {
    struct tir_value base; /* i64: address of the tensor */
    struct tir_value row0; /* i32: row of the item's first token in the tensor */
    struct tir_value row_bytes,
        head_bytes; /* i64: distance in bytes of two rows, and of two heads */
};

/** Returns the tensor of partials in argument `tensor`, whose rows have all heads with `bytes`
 * bytes each. `row0` (i32) is the row of the item's first token. */
struct split_kv_tensor split_kv_partial(struct split_kv *d, const char *tensor, int bytes,
                                        struct tir_value row0);
/** Returns the byte offset (i64) in *tensor of the query and head of each row of a tile of type
 * `t`. The tile's rows are the wave's columns. */
struct tir_value split_kv_offsets(struct split_kv *d, struct tir_type t,
                                  const struct split_kv_tensor *tensor);

/** Kinds of output that a softmax state is written as. EITHER: a result if item.partial is below 0,
 * else a partial. RESULT and PART: only one of the two. SUM: a result that is a sum of partials,
 * which already include the scales of the cache. */
enum split_kv_kind { SPLIT_KV_EITHER, SPLIT_KV_RESULT, SPLIT_KV_PART, SPLIT_KV_SUM };

/** The addresses to which a state (O^T of type split_kv.output, and LSE) is written. */
struct split_kv_places {
    enum split_kv_kind kind;
    /* True: each wave writes the LSE of its columns; false: the first wave writes all */
    bool own_lse;
    struct tir_value final; /* i1: the state is written as a result; false: as a partial */
    /* Tensors of O and of its LSE; lse.base has no value if no LSE is written. */
    struct split_kv_tensor out, lse;
    /* i64: byte offset of each column's row in out and in lse; -1: the column has no row. */
    struct tir_value out_at, lse_at;
    /* f32: the sink of each column's head; no value: the variant has no sinks. */
    struct tir_value sinks;
    struct tir_value scale; /* f32: scale of V; no value: 1 */
};

/** Returns the type of O^T whose registers have the order of head_dim_v, so that a lane has
 * adjacent elements of a row. If a row has two parts, the last register bit selects the part. */
struct tir_type split_kv_in_order(struct split_kv *d);
/** Loads the arguments that locate the tensors of a state of kind `kind`. */
struct split_kv_places split_kv_load_places(struct split_kv *d, enum split_kv_kind kind);
/** Computes the byte offsets of the rows of O in tensor p->out into p->out_at. */
void split_kv_find_out(struct split_kv *d, struct split_kv_places *p);
/** Computes the byte offsets of the rows' LSE in tensor p->lse into p->lse_at, and loads the
 * sinks. */
void split_kv_find_lse(struct split_kv *d, struct split_kv_places *p);
/** Writes the LSE of state `s`. Returns the inverse of the softmax denominator of each column, 1 x
 * columns. */
struct tir_value split_kv_write_lse(struct split_kv *d, const struct split_kv_state *s,
                                    const struct split_kv_places *p);
/** Writes `o`, of type split_kv.output and already divided by the softmax denominator, to the rows
 * p->out_at. */
void split_kv_write_out(struct split_kv *d, struct tir_value o, const struct split_kv_places *p);
/** Returns the places of the current item's result, for split_kv.found. */
struct split_kv_places split_kv_find_result(struct split_kv *d);
/** Writes the item's result or partial: each wave writes its part of O, and wave 0 the LSE. */
void split_kv_write_state(struct split_kv *d, const struct split_kv_state *s);

/* Functions of parts.c: partials that the last workgroup of a sequence adds up. */

/** Returns an i1: true if the item has only a part of its sequence's keys, so that it writes a
 * partial, and has rows. */
struct tir_value split_kv_is_part(struct split_kv *d);
/** Counts the workgroup's partial. The last workgroup of a sequence adds up the sequence's partials
 * and writes the result. If there are many partials, all of the sequence's workgroups add them up
 * together. Must be called after the passes over an item. */
void split_kv_join_parts(struct split_kv *d);
/** Loads, before they are needed, the words by which split_kv_join_parts() finds the partials, so
 * that they are in a cache. Returns the loaded value, which the caller anchors, or no value without
 * one_launch. */
struct tir_value split_kv_prefetch_parts(struct split_kv *d);

/* Functions of share.c: partials that several workgroups add up together. */

/** Loads d->part_ends and sets d->ticket. part_ends are undefined if the item is not a part. The
 * caller anchors part_ends after its own first loads. */
void split_kv_load_part_ends(struct split_kv *d);
/** Loads a word of the ticket's cache line into `touched`, so that the line is in the L2 when
 * partials are counted. split_kv_share_parts() waits for that load. */
void split_kv_touch_ticket(struct split_kv *d);
/** Returns an undefined value for `touched`, for an item that does not call
 * split_kv_touch_ticket(). */
struct tir_value split_kv_untouched(struct split_kv *d);
/** Adds up partials as split_kv_join_parts() does, by all workgroups that end at about the same
 * time. Needs 4 unused bytes at LDS address `lds`. */
void split_kv_share_parts(struct split_kv *d);
/** Adds up partials as split_kv_share_parts() does, but with eight partials side by side. A slice
 * has 32 elements, or for few partials of many rows the elements of SPLIT_KV_PARTS_OF_ROWS. The
 * caller has set `ticket` and part_ends. head_dim_v must be at least 64. */
void split_kv_share_narrow(struct split_kv *d);

#endif

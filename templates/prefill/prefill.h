/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a prefill kernel while it is built (struct prefill), and the functions that the
 * template's files share. A file is named in a comment before its functions.
 *
 * Names: Q, K and V are inputs of the two products S^T = K Q^T and O^T += V^T P^T. A tile is the
 * keys of one iteration, a work tile the queries of a head that a workgroup has at once. An item is
 * an entry of a plan's work list (field planned). A value (struct tir_value) whose id is 0 is meant
 * by "no value".
 */
#ifndef TEMPLATES_PREFILL_PREFILL_H
#define TEMPLATES_PREFILL_PREFILL_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "ir/passes.h"
#include "templates/attention/attention.h"
#include "templates/cache/pages.h"
#include "templates/pipeline/pipeline.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

enum { PREFILL_OUT_BYTES = 2 /* bytes of an element of the output */, PREFILL_MAX_PANELS = 5 };
enum { PREFILL_MERGE_PARTS = 4 /* most parts of O that one key group passes to the other */ };

/** The matrix instruction, the element type and the scores of the products S^T = K Q^T and O^T +=
 * V^T P^T. */
struct prefill_shape {
    /* Index in tir_machine.mma of the matrix instruction of both products; below 0: the machine has
     * none. */
    int product;
    unsigned dtype;         /* enum tir_dtype of Q, K and V in LDS and registers */
    struct tir_type scores; /* type of S^T: keys x queries */
};

/** A panel of columns of Q and K, a power of two wide: head_dim 192 is 128 + 64. A panel wider than
 * the rest of head_dim begins before that rest: 88 is 64 + 16 + 16, and the last panel repeats 8
 * columns. Q is zero in repeated columns. */
struct prefill_panel {
    unsigned first, width;    /* index in head_dim of the first column, and number of columns */
    unsigned repeated;        /* number of leading columns that another panel also has */
    struct tir_contraction k; /* order in which K Q^T sums over these columns */
    struct tir_value buffer;  /* i32: LDS address of the panel's tiles of K */
    /* i32: LDS address of the tiles of K that the wave multiplies with `q`. With
     * prefill_has_halves(), it is the address of this panel's tiles or of the other panel's tiles.
     * No value: `buffer`. */
    struct tir_value read_from;
    unsigned q_at;   /* byte offset in LDS of this panel of Q from the start of Q */
    unsigned q_part; /* index of the part of Q that has the panel */
    /* The panel of Q^T in registers, columns x queries: the right operand of K Q^T. */
    struct tir_value q;
    /* For planned kernels: this panel of an item's rows of Q, loaded to registers and not yet
     * stored to LDS. */
    struct tir_value q_rows;
    /* For PREFILL_PAGES: which elements of this panel of a tile of K each lane loads. */
    struct att_paged_tile paged;
    /* i32, for PREFILL_PAGES: page number of each row of the tile of K that is loaded next. */
    struct tir_value pages;
    struct att_paged_data fetched; /* this panel of the tile of K, as loaded from pages */
};

/** K in LDS, divided into panels of columns. */
struct prefill_keys {
    struct prefill_panel panels[PREFILL_MAX_PANELS];
    unsigned n_panels; /* number of panels; 0: the tile's panels are too narrow for the head dim */
    unsigned tiles;    /* number of tiles in LDS, a power of two */
    /* Bytes in LDS of the first panel's tiles, or of the merge of key groups if that is more. */
    unsigned room;
};

/** The use of the last rows of O^T, if head_dim_v is not a multiple of the 32 rows that an
 * instruction computes. */
enum prefill_tail {
    PREFILL_TAIL_NONE, /* the rows are padding, and are not stored */
    /* V has columns of ones there, so that these rows of O^T are the denominator l */
    PREFILL_TAIL_SUM,
    PREFILL_TAIL_REST /* a separate instruction (mma_halves) computes the last 8 rows */
};

/** V in LDS. */
struct prefill_value {
    enum prefill_tail tail;
    /* i32: LDS address of V's tiles: of all columns, or of the first half with
     * prefill_has_halves(). */
    struct tir_value buffer;
    /* i32: LDS address of the second half of the columns, with prefill_has_halves(). */
    struct tir_value other;
    /* i32: LDS addresses of the columns of V for the first and the second half of the wave's O^T,
     * with prefill_has_halves(). */
    struct tir_value read_from[2];
    unsigned tiles; /* number of tiles in LDS, a power of two */
    /* Bytes in LDS of all tiles, or of a part of O if that is more. */
    unsigned room;
};

/** The place in LDS for rows of Q and O, between memory and registers. */
enum prefill_room {
    PREFILL_NO_ROOM,  /* rows do not pass through LDS */
    PREFILL_OWN_ROOM, /* a buffer that serves nothing else */
    PREFILL_V_ROOM,   /* V's buffer, before and after the loop over keys */
    PREFILL_KV_ROOM   /* the buffers of K and V, before and after the loop over keys */
};

/** The place of O, queries x columns, in LDS on its way to memory. */
struct prefill_out_place {
    struct tir_layout lds; /* LDS map of a part of the columns */
    /* Number of parts into which columns of O are divided, stored one after the other; 0: O is not
     * in LDS. */
    unsigned parts;
    /* Byte offset in LDS of the first part from staging.buffer, and from each part to the next.
     * Step 0: all parts use one place, one after the other. */
    unsigned at, step;
    /* True: O is in V's buffer, and `at` is an offset from the start of V. False: `at` is an offset
     * from staging.buffer. */
    bool in_v;
};

/** The way of Q before the loop, and of O after it, through LDS in whole rows. */
struct prefill_staging {
    enum prefill_room home; /* the place of a work tile's Q and O */
    /* Bytes in LDS of the place `home`; 0: Q and O do not pass through LDS. */
    unsigned bytes;
    /* i32: LDS address of the place `home`; in planned kernels, of the place of an item's rows. */
    struct tir_value buffer;
    /* Place of O in LDS after the loop over keys. */
    struct prefill_out_place o;
    /* Place of O in LDS while the next work tile's Q is copied to `home`. If its parts are 0, Q is
     * copied only when the work tile begins. */
    struct prefill_out_place o_beside_q;
    enum prefill_room item_q; /* for planned kernels: the place of an item's rows of Q */
    /* For planned kernels: bytes of LDS through which an item's rows of Q and O pass. `home` is
     * PREFILL_KV_ROOM if they are the buffers of K and V, which only O passes through. 0: O does
     * not pass through LDS. */
    unsigned item_bytes;
};

/** The work tile of the workgroup: some queries of one head of a sequence, or wave tiles
 * with prefill_shares_heads(). In planned kernels it is some rows of an item. Members are i32
 * scalars, equal in all waves unless stated. */
struct prefill_work {
    /* Indices of the sequence, the query head and the KV head. With prefill_shares_heads(), `head`
     * is the head of the work tile's first wave tile, counted from the KV head's first one. */
    struct tir_value sequence, head, kv_head;
    /* With prefill_shares_heads(): the GQA ratio, the number of KV heads, and 2^28 divided by the
     * ratio, rounded up. Else no value. */
    struct tir_value gqa, kv_heads, reciprocal;
    /* Rows of the sequence's first token in q, and in k and v. */
    struct tir_value q_begin, kv_begin;
    struct tir_value q_len, kv_len; /* number of queries and keys of the sequence */
    /* Index in the sequence of the work tile's first query; in planned kernels index of the item's
     * first row. */
    struct tir_value row0;
    struct tir_value offset;    /* kv_len - q_len: index of the key at the position of query 0 */
    struct tir_value first_key; /* index in the sequence of the first key of the first tile */
    /* Index of the wave's key group, which differs between waves; no value: there is only one. */
    struct tir_value group;
};

/** The way of K and V from memory to LDS. */
enum prefill_source_kind {
    PREFILL_TENSOR,     /* from tensors, one row per token */
    PREFILL_PAGES,      /* from pages of a cache, through registers, where elements are converted */
    PREFILL_PAGE_COPIES /* from pages of a cache by direct copies: prefill_copies_pages() */
};

/** K or V in memory at the workgroup's KV head. */
struct prefill_tensor {
    /* i64, for PREFILL_TENSOR: address of the sequence's first token, and bytes from a token to the
     * next. */
    struct tir_value base, stride;
    /* f32: scale of all elements; no value: elements are not scaled by one factor. */
    struct tir_value scale;
    struct att_cache cache; /* the cache of K or V; not set for PREFILL_TENSOR */
};

/** The tensors or pages from which a workgroup loads K and V. */
struct prefill_source {
    enum prefill_source_kind kind;
    struct prefill_tensor k, v;
    struct tir_value q_scale; /* f32: factor of all elements of Q; no value: 1 */
    struct att_pages pages;   /* the sequence's page table; not set for PREFILL_TENSOR */
    /* i32: index of the first key that a query of the workgroup sees; may be below 0. */
    struct tir_value first_seen;
    /* For PREFILL_PAGES: which elements each lane loads of each of the prefill_v_parts() parts of a
     * tile of V. */
    struct att_paged_tile paged_v[2];
};

/** Values of one tile of keys that the pipeline's steps pass to each other, in addition to the
 * members of struct att_now. */
struct prefill_now {
    /* i32: index of the first key of the tile of K whose copy is being issued. */
    struct tir_value copied_key;
    /* i32: byte offsets in the page table, from prefill_find_entry(), for the rows of K and of V
     * that the wave copies next. */
    struct tir_value k_entry, v_entry;
    /* i32: page number of the rows of K that the wave copies next. */
    struct tir_value k_page;
    /* i32, for V: page number of the rows that the wave copies next, or of each row of the tile
     * that is loaded next. */
    struct tir_value v_pages;
    /* The prefill_v_parts() parts of a tile of V, in the cache's element type, as loaded to
     * registers. */
    struct att_paged_data v_loaded[2];
    struct tir_value cleared_v;             /* a tile of V with zeros in rows that no query sees */
    struct tir_value k[PREFILL_MAX_PANELS]; /* panels of K in registers, left operands of K Q^T */
};

/** An item of a plan's work list: some rows and a range of keys of a sequence. A row is a query and
 * one of the heads that share a KV head; heads are inner. work.row0 counts rows. Members are
 * i32. */
struct prefill_item {
    struct tir_value
        partial; /* row of partial_out for the item's first token; -1: the item writes the result */
    struct tir_value first_token; /* row of the item's first token in q and out */
    struct tir_value n_rows;      /* number of the item's rows */
    struct tir_value end_key;     /* index of the key after the item's last one */
    struct tir_value position;    /* index of the key at the position of the item's first token */
    struct tir_value gqa;         /* number of query heads of a KV head */
};

/** A prefill kernel while its code is built: variant, tile, layouts and values. */
struct prefill {
    const struct att_variant *v;
    const struct tir_machine *m;
    const struct att_tile *tile;
    struct tir_builder b;
    struct prefill_shape shape;
    struct prefill_keys k;
    struct prefill_value value;
    struct prefill_staging staging;
    /* Number of parts in which one key group passes O to the other, through the LDS of K. */
    unsigned merge_parts;
    struct pipe_plan plan;  /* the pipeline of the loop over tiles of keys */
    char refused[PIPE_WHY]; /* the reason why the tile has no pipeline; empty: it has one */
    /* The attention of the kernel: softmax, masks, and values of the current block of keys. */
    struct att_attention attention;
    struct prefill_work work;
    struct prefill_item item; /* the item of a planned kernel */
    struct prefill_source source;
    struct prefill_now now;
    /* i1: true if the wave multiplies the second half of the columns of K and V first; no value:
     * the tile has no halves. */
    struct tir_value swapped;
    /* i1: true if the wave copies the second half of the columns of K and V; no value: the tile has
     * no halves. */
    struct tir_value second;
    /* Values that the loop over keys carries, after the loop: m, l, O^T and the last rows of O^T.
     * The index is an enum att_carry. */
    struct tir_value carried[ATT_MOST_CARRY];
};

/* Returns the matrix instruction of both products. */
static inline const struct tir_mma *prefill_mma(const struct prefill *p)
{
    return &p->m->mma[p->shape.product];
}

/* Returns the number of rows, and of columns, of the matrix instruction's result. A wave has the
 * queries of one or several instructions. */
static inline unsigned prefill_side(const struct prefill *p) { return prefill_mma(p)->m; }

/* Returns the number of rows of the smallest block of O^T that occupies consecutive registers in
 * all lanes of a wave. */
static inline unsigned prefill_block_rows(const struct prefill *p)
{
    enum { ELEMENTS = 256 };
    return ELEMENTS / prefill_side(p);
}

/** Returns the bytes of an element of Q, K and V in LDS and registers. */
static inline unsigned prefill_bytes(const struct prefill *p)
{
    return tir_dtype_bits(p->shape.dtype) / 8;
}

/* True if Q of the next work tile is copied to LDS while O of the current one is stored. */
static inline bool prefill_fetches_ahead(const struct prefill *p)
{
    return p->staging.o_beside_q.parts > 0;
}

/** Returns the address (i64) of head `head` (i32) of token `token` (i32) in tensor `t`, with
 * elements of `bytes` bytes. */
struct tir_value prefill_head_base(struct prefill *p, struct att_tensor t, struct tir_value token,
                                   struct tir_value head, unsigned bytes);

/* Functions of out.c: the end of a work tile. */

/** Writes O / l and LSE = m + log l of the work tile from p->carried, with sinks in the
 * denominator. Rows without a visible key get 0 and -infinity. O passes through `place` in LDS. */
void prefill_finish(struct prefill *p, const struct prefill_out_place *place);

/* Functions of prefill.c: the algorithm. */

/** Returns the index (i32) of the key at the position of the workgroup's first query. */
struct tir_value prefill_first_position(struct prefill *p);

/** Issues the copies of Q and of the first tile of K, for the work tile in p->work. */
void prefill_fetch(struct prefill *p);

/** Queues of copies to LDS of K, V and Q. A wait is for all copies of one queue. */
enum prefill_copies { PREFILL_COPIES_OF_K, PREFILL_COPIES_OF_V, PREFILL_COPIES_OF_Q };

/* Functions of query.c: Q from memory to registers. */

/** Issues the copies to LDS of part `part` of Q. Parts pass through LDS one after the other. */
void prefill_copy_q(struct prefill *p, unsigned part);
/** Reads part `part` of Q from LDS into registers. If Q does not pass through LDS, loads all of Q
 * from memory. */
void prefill_load_q(struct prefill *p, unsigned part);
/** Returns the LDS address (i32) of panel n of Q, for the wave's key group. */
struct tir_value prefill_q_buffer(struct prefill *p, const struct prefill_panel *n);
/** Copies the parts of Q to LDS one after the other, and reads each into registers once it has
 * arrived. The copies of part 0 must have been issued. */
void prefill_await_q(struct prefill *p);

/* Functions of shared_heads.c: work tiles with several heads. */

/** True if a work tile may hold several query heads of a KV head, which read the same keys. Each
 * wave then computes one wave tile, which is tile->rows tokens of one of these heads. */
bool prefill_shares_heads(const struct prefill *p);

/** Sets work.gqa, work.kv_heads and work.reciprocal with prefill_shares_heads(). */
void prefill_find_heads(struct prefill *p);

/** Returns the number (i32) of wave tiles of a KV head in a sequence of `tokens` tokens (i32). */
struct tir_value prefill_count_wave_tiles(struct prefill *p, struct tir_value tokens);

/** Sets work.head and work.row0 to the first wave tile of work tile `tile` (i32: index) of a KV
 * head. */
void prefill_find_wave_tiles(struct prefill *p, struct tir_value tile);

/** Returns the number (i32) of tokens that a work tile covers; some may be after the last token. */
struct tir_value prefill_tile_tokens(struct prefill *p);

/** Returns the index (i32) of the query head of the wave's rows. */
struct tir_value prefill_own_head(struct prefill *p);

/** Returns the index (i32) in the sequence of the first query of the wave, less the wave's number
 * multiplied by the rows of a wave. It may be below 0 if the waves share heads. */
struct tir_value prefill_first_row(struct prefill *p);

/** Returns the number of queries (i32) from prefill_first_row() to the end of the sequence, but at
 * most prefill_queries(). The limit is there so that the bytes of a view do not pass 32 bits. */
struct tir_value prefill_rows_left(struct prefill *p);

/** Issues the copies to LDS of the wave's rows of panel n of Q. Rows after the sequence's last
 * query are copies of the last one. */
void prefill_copy_own_q(struct prefill *p, const struct prefill_panel *n);

/* Functions of keys.c: K and V from memory to registers. */

/** Returns the index (i32) of the first key of the wave's key group in iteration `index` (i32) of
 * the loop over keys: att_attention.first_key. */
struct tir_value prefill_key_of_block(void *family, struct tir_value index);

/** Sets addresses and strides of K and V, or the page table, in p->source for the sequence and KV
 * head of p->work. */
void prefill_locate_keys(struct prefill *p);

/** Issues the copies of the first tile of K. */
void prefill_copy_first_keys(struct prefill *p);

/** Waits for all copies of K to LDS, and for all waves. The loop also copies tiles after the last
 * one, and these copies may still be in flight after the loop. */
void prefill_await_keys(struct prefill *p);

/* Functions of mask.c: masks in memory. */

/** Loads the bytes of a custom mask for the tile whose first key is `key` (i32): keys x queries of
 * i8, as att_block.seen. Bytes of keys after the last one are 0. */
struct tir_value prefill_load_seen(struct prefill *p, struct tir_value key);

/** Sets block.hides (i1): true if this wave has a byte other than 1 in block.seen, the result of
 * prefill_load_seen(). */
void prefill_check_seen(struct prefill *p);

/** Sets attention.at.last, the index of the last key that each query sees with a mask of blocks.
 * The first word of the query's mask row is that index plus 1. Does nothing for other masks. */
void prefill_find_last_keys(struct prefill *p);

/** Loads, for each query, the word of a mask of blocks with the bit of the tile whose first key is
 * `key` (i32): i32, 1 x queries, for att_block.word. Tiles after the last key get the last key's
 * word. */
struct tir_value prefill_load_words(struct prefill *p, struct tir_value key);

/** Sets block.last, block.hides and block.ends from block.word, the result of prefill_load_words()
 * for the same `key` (i32). */
void prefill_check_words(struct prefill *p, struct tir_value key);

/* Functions of page_copy.c: direct copies from pages to LDS. */

/** True if K and V are copied from pages to LDS without registers. This needs elements of Q's type,
 * and pages that each have all of a wave's rows of a tile. */
bool prefill_copies_pages(const struct prefill *p);

/** Loads an entry of each cache line of the page table, from the first key's page to the last key's
 * page. The loop's loads of page numbers then hit the L2. Returns the entries, which are not used.
 * Each lane loads one line, so entries after the first 16,384 (waves of 64 lanes) are not
 * loaded. */
struct tir_value prefill_request_pages(struct prefill *p);

/** Returns the byte offset (i32) in the page table of the entry for the rows that the wave copies
 * of tile `tile` (i32). */
struct tir_value prefill_find_entry(struct prefill *p, struct tir_value tile);

/** Returns the page number (i32) at byte offset `entry` (i32) of the page table, loaded as a
 * scalar. */
struct tir_value prefill_load_page(struct prefill *p, struct tir_value entry);

/** A copy of columns of a tile of K or V from pages to LDS. */
struct prefill_page_copy {
    const struct att_cache *cache;
    /* i32: page number of the wave's rows of the tile: prefill_load_page(). */
    struct tir_value page;
    unsigned first, width;        /* index of the first column, and number of columns */
    struct tir_value to;          /* i32: LDS address of the tile */
    const struct tir_layout *lds; /* LDS map of the tile */
    int queue;                    /* queue of the copies: enum prefill_copies */
};

/** Issues copy c to LDS of the wave's rows of tile `tile` (i32: index). */
void prefill_copy_page(struct prefill *p, const struct prefill_page_copy *c, struct tir_value tile);

/* Functions of pipeline.c: the choice of the pipeline. */

/** Sets p->plan to the kernel's pipeline. Returns false if the tile's pipeline cannot be built,
 * with a sentence in `why`. */
bool prefill_plan(struct prefill *p, char why[PIPE_WHY]);

/** True if the loop over keys is unrolled by two. */
bool prefill_unrolls(const struct prefill *p);

/** Returns the number of eighths of a tile's exponentials that are computed beside the next
 * iteration's first product; 0: none. */
uint8_t prefill_late_eighths(const struct prefill *p);

/** True if l is a product of the rounded weights with ones. Some matrix instructions then replace
 * an addition of the VALU for each weight, and the output is a mean with exactly these weights.
 * Kernels with LSE add weights in f32, since LSE would have the weights' rounding error. */
bool prefill_sums_by_product(const struct prefill *p);

/** Returns what the rescale check compares with its limit: an enum att_check. */
uint8_t prefill_find_check(const struct prefill *p);

/** True if the rescale check compares weights P instead of scores S. S then occupies registers
 * until P is computed. */
bool prefill_checks_weights(const struct prefill *p);

/** True if V of a tile's first keys is read from LDS before the rescale check. */
bool prefill_reads_before_check(const struct prefill *p);

/* Functions of work_tiles.c: the work tiles of a workgroup, and further kernels. */

/** True if each of the last work tiles of a launch is divided between two workgroups if there are
 * enough workgroups. Waves without queries then only copy K and V: prefill_is_spare(). */
bool prefill_splits_last_tiles(const struct prefill *p);
/** Returns an i1: true in the second half of the waves if the work tile has at most half of its
 * queries. These waves then have no queries. */
struct tir_value prefill_is_spare(struct prefill *p);

/** Returns the number of workgroups of a launch of a persistent kernel; 0: the kernel is not
 * persistent, and each work tile has its own workgroup. */
int prefill_workgroups(const struct prefill *p);

/** True if a persistent kernel has no registers for a loop unrolled by two. Scalar registers are
 * full with fp8, and with head_dim above 128 and head_dim_v 128. Vector registers are full with the
 * padding of head_dim 120, and with the store of a causal LSE. */
bool prefill_fills_registers(const struct prefill *p);

/** Builds the work on all work tiles of a workgroup: a loop in a persistent kernel, else one tile.
 * `attend` builds the work on the tile in p->work, up to prefill_finish(); it is called once. */
void prefill_walk_tiles(struct prefill *p, void (*attend)(struct prefill *));

/** Sets *second to the n-th further kernel, for launches of few work tiles or few keys:
 * att_template.second(). Returns false if there is none. */
bool prefill_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                    struct att_second *second);

/* Functions of work_items.c and item_rows.c: kernels with `planned`. */

/** Builds the loop over the items of the workgroup's list, and the passes over an item with more
 * rows than the workgroup. `attend` builds the work on a pass's rows, up to prefill_finish(); it is
 * called once. */
void prefill_walk_items(struct prefill *p, void (*attend)(struct prefill *));

/** Loads the workgroup's rows of Q of an item from memory: queries x the columns of panel n, as
 * type t. */
struct tir_value prefill_gather_q(struct prefill *p, const struct prefill_panel *n,
                                  struct tir_type t);

/** Sets attention.at, which says which keys each row of the item sees. */
void prefill_find_item_position(struct prefill *p);

/** Writes output and LSE of the workgroup's rows of an item from m, l and o (O^T): as the result if
 * the item has all keys, else as a partial. */
void prefill_write_item(struct prefill *p, struct tir_value m, struct tir_value l,
                        struct tir_value o);

/* Functions of tiles.c and tile.c: the table of tiles, and what a row of it takes. */

/** Number of rows of prefill's tile table, prefill_tiles[]. */
enum { PREFILL_N_TILES = 51 };
extern const struct att_tile prefill_tiles[PREFILL_N_TILES];

enum { PREFILL_N_FITTED = 7 };
extern const struct att_knob prefill_fitted[PREFILL_N_FITTED];

/** Sets hoist_vgprs and memory_priority of tile t: att_template.rules. */
void prefill_rules(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t);

/* Indices of prefill's knobs in att_tile.own. */
enum {
    PREFILL_K_BUFFERS, /* number of tiles of K in LDS; 0: the fewest that the pipeline needs */
    /* Number of workgroups that a persistent kernel launches per compute unit; 0: the kernel is not
     * persistent. */
    PREFILL_PERSISTENT,
    PREFILL_FP8,     /* 1: the row is for Q, K and V of fp8; 0: of 16 bits */
    PREFILL_LOOP_AT, /* value of tir_schedule.loop_at; 0: the loop's code is not aligned */
    /* 1: an iteration reads K from LDS before it stores V to LDS; 0: after it. */
    PREFILL_KEYS_FIRST,
    /* Number of eighths of a tile's exponentials that late_power moves to the next iteration; 0:
     * four. */
    PREFILL_LATE_EIGHTHS,
    /* 1: the roles are shifted before the prologue's last iteration; 0: after it
     * (tir_loop_plan.shift_early). */
    PREFILL_SHIFT_EARLY,
    PREFILL_KEY_GROUPS, /* number of groups of waves that split the keys of a work tile; 0: one */
    /* 1: without a causal mask, the work tiles of a head follow each other in a persistent kernel;
     * 0: work tiles of the same queries of all heads do. */
    PREFILL_WHOLE_HEADS,
    /* With two roles: 1: a wave's priority returns to 0 before the barrier at the start of a matrix
     * phase; 0: after it (tir_schedule.early_priority). */
    PREFILL_EARLY_PRIORITY,
    /* Number of workgroups that share a compute unit, each with one wave per SIMD; 0: one workgroup
     * with two waves per SIMD. */
    PREFILL_WORKGROUPS,
    /* 1: tir_schedule.even_code is set; tiles with copy_bytes 16 always set it. */
    PREFILL_EVEN_CODE,
    /* 1: byte offsets of lanes into K and V are computed in each iteration, and take no registers
     * in the rest of it; 0: they are kept in registers. */
    PREFILL_FRESH_OFFSETS,
    /* Most keys of a launch for which this row of the tile table is a second kernel; 0: any number.
     * Launches with more keys take the next row that fits. */
    PREFILL_MOST_KEYS,
    PREFILL_HALVES, /* 1: the tile has halves of K and V: prefill_has_halves() */
    /* Number of rows, and of columns, of the matrix instruction in tiles for waves of 32 lanes. One
     * or several instructions cover a wave's queries; 0: one instruction, with as many columns as
     * queries. */
    PREFILL_SIDE,
};
enum { PREFILL_N_KNOBS = 10 };
extern const struct att_knob prefill_knobs[PREFILL_N_KNOBS];

/* Returns the number of key groups of a workgroup. Each group has all queries of the workgroup, and
 * every n-th tile of keys. */
static inline unsigned prefill_groups(const struct prefill *p)
{
    return p->tile->own[PREFILL_KEY_GROUPS] ? p->tile->own[PREFILL_KEY_GROUPS] : 1;
}

/* Returns the number of workgroups that share a compute unit's registers and LDS. */
static inline unsigned prefill_residents(const struct att_tile *t)
{
    return t->own[PREFILL_WORKGROUPS] > 1 ? t->own[PREFILL_WORKGROUPS] : 1;
}

/* True if four waves or more share a SIMD, so that none has registers for a second iteration. */
static inline bool prefill_has_few_registers(const struct prefill *p)
{
    enum { SIMDS = 4, MANY = 4 };
    return p->tile->waves / SIMDS * prefill_residents(p->tile) >= MANY;
}

/** True if a kernel of the variant can be built with tile t on machine m; if not, a sentence is in
 * `why`. */
bool prefill_fits(const struct att_variant *v, const struct att_tile *t,
                  const struct tir_machine *m, struct att_why *why);
/** True if prefill can be built for the variant on machine m; if not, a sentence is in `why`. It is
 * att_template.check. */
bool prefill_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** Returns the state of a kernel as variant, machine and tile determine it, before any op is built.
 * shape.product is below 0 if the machine has no suitable matrix instruction. */
struct prefill prefill_with_tile(const struct att_variant *v, const struct tir_machine *m,
                                 const struct att_tile *t);

/* True if a tile of one wave per SIMD (PREFILL_WORKGROUPS 1) runs the ping-pong pipeline. That is
 * so for SHUFFLE caches, and for any cache on targets with transposing LDS reads. For these,
 * one_wave_pages would have waits for all loads, or copies of O. */
static inline bool prefill_shares_no_simd(const struct prefill *p)
{
    return p->tile->own[PREFILL_WORKGROUPS] == 1 && p->v->paged &&
           (att_transposes_8_bytes(p->m) || att_is_shuffled(p->v));
}

/** True if the tile runs one of the pipelines for one wave per SIMD. */
static inline bool prefill_is_one_wave(const struct prefill *p)
{
    return p->tile->own[PREFILL_WORKGROUPS] && !prefill_shares_no_simd(p);
}

/* Returns the number of rows of O^T: head_dim_v, rounded up to a power of two of at least 64. */
static inline unsigned prefill_dv(const struct prefill *p)
{
    unsigned dv = 64;
    while (dv < (unsigned)p->v->head_dim_v)
        dv *= 2;
    return dv;
}

/* True if LDS has V^T and not V: for caches in SHUFFLE, and on targets without transposing LDS
 * reads of V's type. */
static inline bool prefill_transposes_v(const struct prefill *p)
{
    return !tir_transposing_read(p->m, 0, 8 * prefill_bytes(p)) ||
           (p->v->paged && att_is_shuffled(p->v));
}

/* True if the tensor data mover copies K and V to LDS, each wave an equal part of the rows. The
 * mover writes zeros for rows after the last key. Rows of a page before the first visible key are
 * copied unchanged, so masks that hide such rows (att_hides_early()) exclude it. */
static inline bool prefill_moves_tensors(const struct prefill *p)
{
    const bool pages = p->source.kind == PREFILL_PAGE_COPIES && !att_hides_early(p->v);
    return tir_tensor_copy(p->m) && prefill_bytes(p) == 2 &&
           (pages || p->source.kind == PREFILL_TENSOR) && p->tile->copy_bytes >= 16 &&
           prefill_groups(p) == 1 && !prefill_transposes_v(p) &&
           prefill_dv(p) == (unsigned)p->v->head_dim_v;
}

/* True if the two halves of the columns of K and V are in two LDS segments. Waves on the second
 * pair of SIMDs read the second half first, so that both pairs read at the same time. In these
 * waves the columns of Q and the rows of O^T have that order too. */
static inline bool prefill_has_halves(const struct prefill *p)
{
    return p->tile->own[PREFILL_HALVES];
}

/* Returns the number of waves that copy the same columns of K and V: all of them, or half of them
 * if the tile has halves. */
static inline unsigned prefill_copying_waves(const struct prefill *p)
{
    return p->tile->waves / (prefill_has_halves(p) ? 2 : 1);
}

/* Returns the number of rows of K or V that a wave copies in an iteration. */
static inline unsigned prefill_copied_rows(const struct prefill *p)
{
    return p->tile->keys * prefill_groups(p) / prefill_copying_waves(p);
}

/** Returns the wave's index (i32) among the waves that copy the same columns:
 * prefill_copying_waves(). */
struct tir_value prefill_copying_wave(struct prefill *p);

/** Returns the byte offset (i64) in a row from which on the wave copies `bytes` bytes: `first`, or
 * `first` + `bytes` in waves that copy the second half of the columns (prefill_has_halves()). */
struct tir_value prefill_copied_from(struct prefill *p, unsigned first, unsigned bytes);

/* Returns the number of columns of V in one buffer in LDS: all, or half of them if the tile has
 * halves. */
static inline unsigned prefill_v_columns(const struct prefill *p)
{
    return prefill_dv(p) / (prefill_has_halves(p) ? 2 : 1);
}

/** Returns the number of parts of columns in which V of a cache is loaded: 2 if head_dim_v is no
 * power of two, its first and its last prefill_dv() / 2 columns; else 1. */
static inline unsigned prefill_v_parts(const struct prefill *p)
{
    return p->v->paged && prefill_dv(p) != (unsigned)p->v->head_dim_v ? 2 : 1;
}
/* Returns the number of columns of a part of V: prefill_v_parts(). */
static inline unsigned prefill_v_width(const struct prefill *p)
{
    return prefill_dv(p) / prefill_v_parts(p);
}
/** Returns the index of the first column of part i (0 or 1) of V: prefill_v_parts(). */
static inline unsigned prefill_v_first(const struct prefill *p, unsigned i)
{
    return i ? (unsigned)p->v->head_dim_v - prefill_dv(p) / 2 : 0;
}

enum {
    PREFILL_REST_ROWS = 8 /* number of rows of O^T that PREFILL_TAIL_REST computes separately */
};

/* Returns the number of rows of O^T that the main product computes and that are stored: head_dim_v,
 * less the rows of PREFILL_TAIL_REST. */
static inline unsigned prefill_main_rows(const struct prefill *p)
{
    return (unsigned)p->v->head_dim_v -
           (p->value.tail == PREFILL_TAIL_REST ? PREFILL_REST_ROWS : 0);
}

/** Returns the number of queries of a workgroup. */
static inline unsigned prefill_queries(const struct prefill *p)
{
    return p->tile->rows * p->tile->waves / prefill_groups(p);
}

/** Returns how the waves of a key group divide a product: each wave has its own queries and all
 * keys of the group. */
struct tir_waves prefill_waves(const struct prefill *p);

/* Functions of layouts.c: sizes and LDS layouts. */

/** Returns the number of columns of panel n that are columns of Q and K; the others up to n->width
 * are padding. */
unsigned prefill_valid(const struct prefill *p, const struct prefill_panel *n);

/** Returns the number of columns of panel n that the products multiply: a multiple of an
 * instruction's step. */
unsigned prefill_multiplied(const struct prefill *p, const struct prefill_panel *n);

/** True if panel n has padding columns that the products multiply. */
bool prefill_is_padded(const struct prefill *p, const struct prefill_panel *n);

/** Returns the LDS map of panel n of K for the tiles of `groups` key groups, one after the
 * other. */
struct tir_layout prefill_k_lds(const struct prefill *p, const struct prefill_panel *n,
                                unsigned groups);

/** Returns the bytes in LDS of panel n of K for the tiles of all key groups in one iteration, with
 * padding. */
unsigned prefill_k_bytes(const struct prefill *p, const struct prefill_panel *n);

/** Returns the LDS map of panel `n` of Q. */
struct tir_layout prefill_q_lds(const struct prefill *p, const struct prefill_panel *n);

/** Returns the bytes in LDS of panel n of Q, a multiple of 16. */
unsigned prefill_q_bytes(const struct prefill *p, const struct prefill_panel *n);

/** Returns the number of keys of a tile of V that are read and multiplied at once: all, or a
 * part. */
unsigned prefill_v_part_keys(const struct prefill *p);

/** Returns the order in which V^T P^T sums over the keys of a tile. */
struct tir_contraction prefill_v_contraction(const struct prefill *p);

/** Returns the LDS map of one key group's tile of V. */
struct tir_layout prefill_v_lds(const struct prefill *p);

/** Returns the LDS map of the tiles of V that are copied at once: of all key groups, or of one
 * group if LDS has V^T. */
struct tir_layout prefill_v_copied(const struct prefill *p);

/** Returns the bytes in LDS of the tiles of V of all key groups in one iteration, with padding. */
unsigned prefill_v_bytes(const struct prefill *p);

/** Returns the index in tir_machine.mma of the instruction of PREFILL_TAIL_REST; below 0: the
 * machine has none. */
int prefill_rest_product(const struct prefill *p);

/** Returns the LDS map of a part of O that one key group passes to the other. */
struct tir_layout prefill_merge_lds(const struct prefill *p);

/** Returns the bytes in LDS of the part of O in prefill_merge_lds(), a multiple of 16. m and l of
 * the queries follow it. */
unsigned prefill_merge_bytes(const struct prefill *p);

/* Functions of values.c: V in registers and LDS. */

/** Returns the type of a part (prefill_v_parts()) of the columns of V, of `keys` keys, in
 * registers: as loaded, or with `lds_order` as stored to LDS. */
struct tir_type prefill_v_registers(struct prefill *p, unsigned keys, bool lds_order);

/** Reads V^T of all keys of the tile at LDS address `buffer` (i32), prefill_v_columns() x keys: the
 * left operand of V^T P^T. */
struct tir_value prefill_v_operand(struct prefill *p, struct tir_value buffer);
/** Reads V^T of part `part` of the keys of the tile at LDS address `buffer` (i32), as
 * prefill_v_operand() does. A part has prefill_v_part_keys() keys. */
struct tir_value prefill_v_part(struct prefill *p, struct tir_value buffer, unsigned part);

/** Returns the type of the rows of O^T that PREFILL_TAIL_REST computes. */
struct tir_type prefill_rest(struct prefill *p);
/** Reads the last rows of V^T, for PREFILL_TAIL_REST, from the tile of V at LDS address `buffer`
 * (i32), as left operand of mma_halves. */
struct tir_value prefill_v_rest(struct prefill *p, struct tir_value buffer);

/** Returns tile `v` of V with zeros in rows after the sequence's last token or before the first
 * visible key. `key` (i32) is the index of the tile's first key. */
struct tir_value prefill_clear_unseen(struct prefill *p, struct tir_value v, struct tir_value key);

/** Writes the padding columns of K and V in LDS: ones for K and for V of PREFILL_TAIL_SUM, zeros
 * for V of PREFILL_TAIL_REST. Q is zero in K's padding, whose numbers only have to be finite. */
void prefill_fill_padding(struct prefill *p);

/** Returns the layout of the scores S^T in registers, keys x queries. */
struct tir_layout prefill_scores_layout(const struct prefill *p);

#endif

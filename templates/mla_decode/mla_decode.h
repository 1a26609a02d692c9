/* SPDX-License-Identifier: Apache-2.0
 *
 * This header has the state of an mla_decode kernel while it is built (struct mla), and the
 * functions that the template's files share. A file is named in a comment before its functions.
 *
 * Names: c is a block's latent rows, which are keys and values; K is c with the rotated key. S^T =
 * K Q^T are the scores, P^T the softmax weights, O^T += c^T P^T the output. Columns are queries and
 * heads of a sequence. A block is the keys of one iteration.
 */
#ifndef TEMPLATES_MLA_DECODE_MLA_DECODE_H
#define TEMPLATES_MLA_DECODE_MLA_DECODE_H

#include "ir/bits.h"
#include "templates/split_kv/split_kv.h"
#include "templates/cache/pages.h"
#include "templates/pipeline/pipeline.h"

/** Number of rows, and of columns, of the result of the 16 x 16 matrix instructions. */
enum { MFMA_ROWS = 16 };
enum {
    /* Columns of K that one step of K Q^T multiplies; also the columns of a rotated key. */
    PANEL = 64,
    /* Most panels of a cache row: 8 of a latent of 512 columns, and one of the rotated key. */
    MAX_PANELS = 9,
    /* Most pieces of a block that passes through registers: two of the latent, and the rotated
     * key. */
    MAX_PIECES = 3,
    /* Number of parts into which some pipelines divide c^T or O^T. */
    MLA_QUARTERS = 4,
    /* In pipelines of shared scores: index of the stage in which the loads of a block are in
     * flight. */
    MLA_STAGE_LOADS = 1,
    /* In pipelines of shared scores: index of the stage in which a block arrives and is stored to
     * LDS. */
    MLA_STAGE_ARRIVES = 2,
    MLA_SCORES_PHASE = 3 /* index of the phase in which pipeline values_between computes S^T */,
    MLA_MOST_ROWS = 16 /* most rows of a block that a wave copies */,
    MLA_MAX_RUNS = 4 /* most runs of a block's keys; a run is in one page */
};
/* Numbers of the vectors in LDS that waves exchange. A vector has an f32 per column of S^T. At the
 * end of an item, vectors VECTOR_M and VECTOR_L are m and l. In the loop, vector 0 or 1
 * (mla_weights_slot()) is the rescale factor alpha, or its logarithm. If waves split the keys,
 * vector VECTOR_OWN_M + 0 or 1 is each wave's m. */
enum { VECTOR_M, VECTOR_L, N_VECTORS, VECTOR_OWN_M = N_VECTORS };

/** A part of the columns of cache rows: the latent, or the rotated key. */
struct part {
    unsigned first, width; /* the part's first column in the row, and its number of columns */
    struct tir_layout lds; /* LDS layout of the part of a block */
    unsigned bytes;        /* bytes in LDS of the part, for all rows of a block or of Q */
    /* If the parts of a block share a buffer: bytes from the block's start in LDS to this part. */
    unsigned before;
    struct tir_value buffer; /* i32: LDS address of this part of the first block */
};

/** A panel: the columns of a cache row that one step of S^T = K Q^T multiplies. */
struct panel {
    unsigned first, width;    /* the panel's first column in the row, and its number of columns */
    int product;              /* index in tir_machine.mma of the matrix instruction */
    struct tir_contraction k; /* order in which the product sums over the panel's columns */
    struct tir_type q;        /* type of the panel of Q: columns of O^T x width */
    /* True: each group of waves has `width` columns of its own, from mla_own_first() on. False: all
     * groups have the same columns. */
    bool divided;
};

/** Columns of a part that pass from the cache to LDS together. */
struct piece {
    struct part *part;
    unsigned column; /* index in `part` of the first column */
    /* The piece's columns of a block's rows, and their layout in registers between cache and
     * LDS. */
    struct att_paged_tile paged;
    /* i32: page number, or list entry, of each row of the block that is loaded next. */
    struct tir_value pages;
    struct att_paged_data fetched; /* the loaded columns, until they are stored to LDS */
};

/** Slots (i32, rows x 1) of a block's rows, as the list or the page table names them; below 0: no
 * key. `all`: of all rows of the block. `own`: of the rows that this wave copies. */
struct mla_slots {
    struct tir_value all, own;
};

/** Addresses (i64, in bytes) of the cache rows that a wave copies for a block. All lanes copy a row
 * of the latent together, so its address is a scalar. */
struct mla_found {
    /* For rotated keys, each copied by a few lanes: in each lane, the address of the row that the
     * lane copies a part of. */
    struct tir_value rows;
    struct tir_value row[MLA_MOST_ROWS]; /* address of each row as a scalar, for latents */
};

/** A block whose copy to LDS is in flight. `place` (i32): its LDS address. `from` (i64): address in
 * the cache of the block's first row. `there` (i32): number of the block's rows before the item's
 * end. */
struct mla_flight {
    struct tir_value place, from, there;
};

/** The addresses from which a wave copies its pairs of rows, i64 in each lane: row_pairs.c. */
struct mla_row_pairs {
    /* Addresses of the cache lines of the even row, of the line that both rows share, and of the
     * lines of the odd row. */
    struct tir_value even, middle, odd;
};

/** The factors by which half of O^T's columns are rescaled. A register of O^T has one column in the
 * lower half of the lanes and another in the upper half. */
struct mla_alpha {
    struct tir_value of_lanes; /* f32, columns x 1: the rescale factor alpha of each column */
    struct tir_value lanes;    /* i64: mask of the lanes whose factor in `of_lanes` is not 1 */
    /* i32: mask of the registers of O^T that contain a column with a factor that is not 1. */
    struct tir_value registers;
};

/** Element types, each an enum tir_dtype. */
struct mla_numbers {
    unsigned q;  /* enum tir_dtype of Q in memory */
    unsigned kq; /* enum tir_dtype of Q and of the cache's rows in LDS */
    unsigned p;  /* enum tir_dtype of P and c as operands of c^T P^T */
};

/** The way in which waves with the same columns of S^T (rows of Q) agree on the running maximum m
 * of each column. */
enum mla_agreement {
    /* Each wave has all keys of its columns, so its maximum is the column's. */
    MLA_OWN_MAX,
    /* Each wave has the maximum of its own keys; once one has grown, all waves take the largest. */
    MLA_AGREE_ON_GROWTH,
    MLA_EXCHANGE_MAX, /* waves exchange maxima in every block, before they compute weights */
    /* Each wave's weights are fp8 with a scale, which the MFMAs of c^T P^T apply. Waves need no
     * common maximum. */
    MLA_SCALE_OWN_WEIGHTS
};

/** The work split: for each dimension, log2 of the number of waves that divide it. */
struct mla_work_split {
    uint8_t columns;      /* log2 of the number of waves that divide the columns of S^T */
    uint8_t product_keys; /* log2 of the number of waves that divide a block's keys in K Q^T */
    /* Log2 of the number of waves that divide a block's keys in the softmax. */
    uint8_t softmax_keys;
    /* Log2 of the number of waves that divide the columns of a cache row, over which K Q^T sums.
     * These waves add their parts of S^T through LDS. */
    uint8_t depth;
    /* 1: wave pairs: two waves with the same columns of S^T divide the keys in K Q^T, and the
     * latent in c^T P^T. 0: no wave pairs. */
    uint8_t pairs;
    /* how waves with the same columns of S^T agree on a maximum: enum mla_agreement */
    uint8_t agree;
};

/** The cache's rows, and how a block of rows gets to LDS. */
struct mla_source {
    struct att_pages pages;
    struct part part[2];
    /* Pieces of a block, if it passes through registers on its way to LDS. */
    struct piece piece[MAX_PIECES];
    uint8_t n_pieces;
    uint8_t moved; /* 1: the tensor data mover copies blocks of waves that share scores; 0: not */
    /* 1: a block is in LDS one iteration before its scores are computed; 0: in the same
     * iteration. */
    uint8_t lead;
    /* i32: bytes from a cache row to the next; no value: the form does not need it. */
    struct tir_value row_stride;
};

/** Buffers in LDS. The places of a buffer are contiguous. */
struct mla_lds {
    /* Number of blocks of keys in LDS; before mla_form.take_lds(): the most that the tile
     * allows. */
    uint8_t blocks;
    /* Number of places, 1 or 2, for a block's P and the vectors that belong to it. */
    uint8_t p_places;
    /* i32, LDS addresses. p: P. vectors: the exchanged vectors (VECTOR_M). scales: scales of P.
     * scores: parts or maxima of S^T that waves exchange. */
    struct tir_value p, vectors, scales, scores;
    /* i32: LDS address of the entries (i32, keys x 1) of the sparse list, for each block in LDS. */
    struct tir_value entries;
    /* i32: LDS address of a row that nobody reads, for lanes that have nothing to store:
     * gather.c. */
    struct tir_value unread;
};

/** Q of a pass: its panels of columns, and their places in registers or LDS. */
struct mla_query {
    struct panel panel[MAX_PANELS];
    struct tir_value q[MAX_PANELS];
    /* Number of all panels, and of the last panels, which are in LDS instead of registers. */
    uint8_t n_panels, n_in_lds;
    /* 1: waves load whole rows of Q to LDS, and read their operands there: query.c. 0: each wave
     * loads its operands from memory. */
    uint8_t shared;
    /* With `shared`, 1: the rows of Q are in the LDS place of the second block, until all waves
     * have read their operands; 0: they have a buffer of their own. */
    uint8_t in_block;
    /* With `shared`: the latent part and the rotated part of Q's rows in LDS. */
    struct part part[2];
    struct tir_value buffer; /* i32: LDS address of the last n_in_lds panels */
};

/** Types of values in registers. */
struct mla_types {
    /* Type of the result of K Q^T: S^T, or a part of that sum if waves divide the columns of K. */
    struct tir_type product;
    /* Order in which c^T P^T sums over the keys. It follows the order of keys in the registers of
     * S^T. */
    struct tir_contraction keys;
    /* Type of P, keys x columns; its transpose is the right operand of c^T P^T. */
    struct tir_type weights;
    struct tir_type v_loaded; /* type of the latent c as it is read from LDS: keys x latent */
    struct tir_type vector;   /* type of m and l: f32, 1 x columns, in the lanes of O^T */
    struct tir_type scales;   /* type of the scales of P: i8, one for each 32 keys of a column */
    /* Index in tir_machine.mma of the MFMA of c^T P^T that applies scales to P; -1: P has no
     * scales. */
    int scaled;
};

/** Values of the current block that one step of the pipeline sets and other steps read, in addition
 * to struct att_now. The steps of the pipeline's table decide which members a kernel uses. */
struct mla_block {
    /* i32: for each run of keys in one page, the page's number, or, before it is loaded, its byte
     * offset in the page table. */
    struct tir_value pages[MLA_MAX_RUNS];
    /* View of the cache rows of each run of keys. */
    struct tir_view runs[MLA_MAX_RUNS];
    /* Addresses of the block whose copy to LDS is in flight. */
    struct mla_flight flight;
    /* Slots of the block's rows, in kernels that read a list or a page table row by row. */
    struct mla_slots slots;
    /* Addresses of the cache rows that the wave copies to LDS. */
    struct mla_found found;
    /* Addresses of the cache lines that the wave copies, for wave pairs in fp8. */
    struct mla_row_pairs lines;
    struct tir_value gaps; /* i32: number of the block's rows without a key */
    /* Panels of K that a step has read from LDS; no value: the product reads the panel. */
    struct tir_value k[MAX_PANELS];
    /* Depending on the pipeline: quarters of c^T or of O^T, halves of the latent c, or the waves'
     * parts of S^T. */
    struct tir_value quarter[MLA_QUARTERS];
    /* For dv_split: P and O of a quarter of the columns. */
    struct tir_value p_quarter[MLA_QUARTERS], o_quarter[MLA_QUARTERS];
    /* For dv_split: rescale factors of each half of the columns. */
    struct mla_alpha alpha[2];
    /* i64: mask of lanes with a factor in alpha[] that is not 1. */
    struct tir_value alpha_lanes;
    /* For wave pairs: exponents (log2) that the other wave's weights are relative to, and P of each
     * wave of the pair. In fp8: exponents of both waves, and P of both in pair_weights[0]. */
    struct tir_value other_exponent, pair_weights[2];
    /* Scales (e8m0) of P in fp8, an operand of c^T P^T. */
    struct tir_value scales;
};

/** The passes of this workgroup over an item's rows, i32 each. */
struct mla_passes {
    /* Index of the first pass's first row of Q, and number of rows of Q from a pass of this
     * workgroup to the next one. */
    struct tir_value first, step;
};

struct mla;

/** The code of a kernel outside of its loop over keys, for a group of pipelines. A kernel skips a
 * function that is NULL. */
struct mla_form {
    void (*choose_layouts)(struct mla *s); /* sets types and layouts before any op is built */
    /* Allocates the buffers in LDS and chooses the pipeline, mla.plan. */
    void (*take_lds)(struct mla *s);
    /* Issues loads of arguments, so that they arrive together with the words of the item. */
    void (*load_arguments)(struct mla *s);
    /* Sets mla.source, from which an item's blocks are copied. */
    void (*find_source)(struct mla *s);
    /* Sets members of s->d.attention that the form needs, before scales are set. */
    void (*begin_pass)(struct mla *s);
    /* Loads Q to registers or LDS before the loop over keys. */
    void (*load_q)(struct mla *s);
    /** Reads a panel of K of the current block from LDS. */
    struct tir_value (*read_panel)(struct mla *s, const struct panel *n);
    /** Builds the loop over an item's keys. Returns the state of the wave's columns. */
    struct split_kv_state (*walk)(struct mla *s);
    /** Builds the exchange of m and l between waves at an item's end: then every wave has m and l
     * of the columns of its O^T. */
    void (*join)(struct mla *s, struct split_kv_state *state);
    /* Builds one pass over the item's keys, and the store of its results. */
    void (*pass)(struct mla *s);
    /* Sets members of *schedule after the pipeline's table has set them. */
    void (*adjust_schedule)(const struct mla *s, struct tir_schedule *schedule);
    /* The way in which a wave copies rows whose addresses it finds one by one; NULL: it copies runs
     * of rows of a page. */
    const struct mla_row_copies *copies;
    /* Number of panels of K that are read from LDS one phase before K Q^T; 0: none. */
    uint8_t first_panels;
    /* 1: HBM limits the loop, whatever matrix instruction it uses. 0: loaded_keys() decides by the
     * instruction. */
    uint8_t hbm_bound;
    /* 1: walk() returns m and l as mla_types.vector, and in the loop l and O are 0 while m is the
     * lowest value. 0: m and l are in the lanes of S^T. */
    uint8_t ends_beside_output;
};

/** Forms of waves that share scores: mla_early_form if a block is in LDS one iteration early, else
 * mla_shared_form. mla_one_wave_form: one wave per SIMD. */
extern const struct mla_form mla_shared_form, mla_early_form, mla_one_wave_form;
/** Forms of wave pairs: for rows of 16-bit elements, and of fp8 (row pairs in LDS). */
extern const struct mla_form mla_wave_pair_form, mla_row_pairs_form;
/** Forms of targets whose LDS reads do not transpose the latent: for rows of 16-bit elements, and
 * of fp8 (dv-split). */
extern const struct mla_form mla_transpose_form, mla_dv_split_form;

/** An mla_decode kernel while its code is built: work split, types, LDS, and values of the current
 * block. */
struct mla {
    struct split_kv d;
    const struct mla_form *form;
    struct pipe_plan plan;
    struct mla_numbers number;
    struct mla_work_split split;
    struct mla_source source;
    struct mla_lds lds;
    struct mla_query query;
    struct mla_types type;
    struct mla_block now;
    /* Softmax of the scores in the layout of mla_own_keys(): each wave has the columns of its own
     * keys. */
    struct att_softmax softmax;
    /* f32: scale of all elements of the cache; no value: the cache has none. */
    struct tir_value kv_scale;
    struct tir_value last_block; /* i32: index of the item's last block of keys */
};

/** Returns the bytes of an element of Q or of a cache row in LDS. */
static inline unsigned mla_kq_bytes(const struct mla *s)
{
    return tir_dtype_bits(s->number.kq) / 8;
}

/** Returns log2 of the number of waves of the workgroup. */
static inline unsigned mla_wave_bits(const struct mla *s) { return tir_bits(s->d.waves); }

/** Returns the number of parts of a cache row: 2 with a rotated key, else 1. */
static inline unsigned mla_count_parts(const struct mla *s)
{
    return s->d.v->head_dim > s->d.v->head_dim_v ? 2 : 1;
}

/** True if one pass covers all rows of Q of an item. Each block of keys is then read once, so HBM
 * limits the loop. */
static inline bool mla_reads_once(const struct mla *s)
{
    return s->d.v->gqa * s->d.v->q_len <= (int)s->d.columns;
}

/* Functions of lds.c: layouts in registers, buffers in LDS, and what is exchanged through them. */

/** Chooses the layouts of all values in registers, for waves that share scores:
 * mla_form.choose_layouts. Call it before any op is built. */
void mla_choose_layouts(struct mla *s);
/** Returns the layout in registers of the latent c, keys x latent, whose transpose is the left
 * operand of c^T P^T. */
struct tir_layout mla_values_operand(const struct mla *s);
/** Allocates LDS for blocks of keys, P and panels of Q, and chooses the pipeline: mla_form.take_lds
 * of waves that share scores. */
void mla_take_lds(struct mla *s);
/** Returns the matrix instruction that multiplies panel p in S^T = K Q^T. */
const struct tir_mma *mla_qk(const struct mla *s, const struct panel *p);
/** Returns the matrix instruction of O^T += c^T P^T. */
const struct tir_mma *mla_pv(const struct mla *s);
/** Returns how waves divide S^T in K Q^T: log2 of the number that divides the rows (keys), and of
 * the number that divides the columns. */
struct tir_waves mla_split(const struct mla *s);
/** True if waves split the columns of S^T, so that P passes through LDS. */
bool mla_exchanges(const struct mla *s);
/** Returns the LDS address (i32) of part p (latent or rotated key) of the block with index `block`
 * (i32). */
struct tir_value mla_buffer_of(struct mla *s, const struct part *p, struct tir_value block);
/** Stores the entries (i32, keys x 1) of the sparse list for the block with index `block` in
 * LDS. */
void mla_store_entries(struct mla *s, struct tir_value block, struct tir_value entries);
/** Loads from LDS the entries of the sparse list for the block with index `block`: i32, keys x 1,
 * in the lanes of S^T. */
struct tir_value mla_load_entries(struct mla *s, struct tir_value block);
/** True if panel n of Q is in LDS, not in registers. Then sets *at to its LDS address (i32). */
bool mla_find_query(struct mla *s, unsigned n, struct tir_value *at);
/** Returns the LDS map of panel p of Q. */
struct tir_layout mla_query_map(const struct mla *s, const struct panel *p);
/** True if P and c are fp8 in c^T P^T. l then is the sum of the rounded weights. */
static inline bool mla_weights_fp8(const struct mla *s) { return s->number.p == TIR_FP8; }
/** Begins a branch for stores to LDS. Of the waves that have the same part of S^T, one takes it. */
struct tir_if mla_begin_writers(struct mla *s);
/** Ends the branch that mla_begin_writers() has begun. */
void mla_end_writers(struct mla *s, struct tir_if *writers);
/** Returns the index (i32: 0 or 1) of the place in LDS of P and alpha for block `block`: `block`
 * modulo s->lds.p_places. */
struct tir_value mla_weights_slot(struct mla *s, struct tir_value block);
/** Stores P (keys x columns) of block `block` in LDS, where all waves read it. */
void mla_store_weights(struct mla *s, struct tir_value block, struct tir_value p);
/** Loads P of block `block` from LDS as operand of c^T P^T: mla_types.weights. */
struct tir_value mla_load_weights(struct mla *s, struct tir_value block);
/** Stores the scales of P of block `block` in LDS: an i8 (e8m0) per column and part of the keys. */
void mla_store_scales(struct mla *s, struct tir_value block, struct tir_value scales);
/** Loads the scales of P of block `block` from LDS as operand of c^T P^T: mla_types.scales. */
struct tir_value mla_load_scales(struct mla *s, struct tir_value block);
/** Returns an i1: true if a scale of P of block `block` has its highest bit set, which means that
 * its exponent is too far above m. */
struct tir_value mla_find_high_scale(struct mla *s, struct tir_value block);
/** Stores `a` in LDS as exchanged vector n (i32; VECTOR_M or another). `a` has an f32 for each
 * column of S^T and part of the keys. */
void mla_store_vector(struct mla *s, struct tir_value n, struct tir_value a);
/** Loads exchanged vector n (i32; VECTOR_M or another) from LDS, as type t: f32, 1 x columns.
 * `part`: index of the part of the keys. */
struct tir_value mla_load_vector(struct mla *s, struct tir_value n, unsigned part,
                                 struct tir_type t);
/** True if blocks are in LDS as cache lines of pairs of rows: row_pairs.c. */
static inline bool mla_has_row_pairs(const struct mla *s)
{
    return s->split.pairs && mla_weights_fp8(s);
}
/** Returns the index (i32) of the wave's part of the columns of K, into which waves divide a cache
 * row: mla_work_split.depth. */
struct tir_value mla_row_part(struct mla *s);
/** Returns the offset (i32) in a cache row of the wave's first column of panel p. `size`: unit of
 * the result: bytes of an element for an offset in bytes, 1 for an offset in elements. */
struct tir_value mla_own_first(struct mla *s, const struct panel *p, unsigned size);
/** Returns the number of parts into which waves divide a block's keys in the softmax. */
static inline unsigned mla_parts(const struct mla *s) { return 1u << s->split.softmax_keys; }
/** Converts a tile [keys x columns] to [keys of a part x columns of all parts side by side]. In the
 * result each wave has whole columns, with the scores of its own keys. */
struct tir_value mla_own_keys(struct mla *s, struct tir_value a);
/** Converts the result of mla_own_keys() back to [keys x columns]. */
struct tir_value mla_all_keys(struct mla *s, struct tir_value a);

/** Returns the split of a product over waves in which each wave has columns of its own. */
static inline struct tir_waves mla_own_waves(const struct mla *s)
{
    return (struct tir_waves){.cols = (uint8_t)mla_wave_bits(s)};
}
/** Sets s->query.panel for waves that divide the columns. `product`: index of the matrix
 * instruction. `k`: order in which this instruction sums over a panel's columns. */
void mla_add_panels(struct mla *s, int product, const struct tir_contraction *k);
/** Returns l summed over its rows, the partial sums of the wave's keys: one number per column. If
 * each part of the keys has an l of its own, the columns of all parts are side by side. */
struct tir_value mla_sum_own(struct mla *s, struct tir_value l);
/** Adds `sum`, the sum of a block's weights relative to m, to the carried l. */
void mla_add_sum(struct mla *s, struct tir_value sum);
/** Adds `sum`, the sum of weights relative to `exponent` (log2, 1 x columns), to the carried l. l
 * is relative to m, so the sum is first multiplied by 2^(exponent - m). */
void mla_add_scaled_sum(struct mla *s, struct tir_value sum, struct tir_value exponent);
/** Returns the part of a cache row with the columns of panel n: the latent or the rotated key. */
static inline struct part *mla_part_of(struct mla *s, const struct panel *n)
{
    return n->first < s->source.part->width ? s->source.part : s->source.part + 1;
}
/** Returns the tile whose rows are those in part[0] to part[3], in this order. */
static inline struct tir_value mla_join_quarters(struct tir_builder *b,
                                                 const struct tir_value part[4])
{
    const struct tir_value low = tir_stack(b, part[0], part[1]);
    return tir_stack(b, low, tir_stack(b, part[2], part[3]));
}

/* Functions of query.c: Q through LDS in whole rows. */

/** Sets s->query.part for kernels in which waves load whole rows of Q to LDS. Returns the bytes of
 * Q in LDS, which mla_take_query() allocates. */
unsigned mla_count_query(struct mla *s);
/** Allocates LDS for the rows of Q, or puts them in the place of the second block
 * (mla_query.in_block). */
void mla_take_query(struct mla *s);
/** Loads whole rows of Q before the loop, stores them to LDS, and reads each wave's operands after
 * all rows have arrived. */
void mla_share_query(struct mla *s);

/* Functions of share.c: waves that divide S^T. */

/** Sets s->split: how waves divide S^T in K Q^T and in the softmax. `product_keys`: log2 of the
 * number of waves that divide the keys of K Q^T. */
void mla_divide_scores(struct mla *s, unsigned product_keys);
/** Returns the bytes of LDS for what waves with the same columns of S^T exchange: maxima of keys,
 * or parts of S^T that they add. 0: they exchange neither. */
unsigned mla_shared_bytes(const struct mla *s);
/** Returns the LDS layout of the maxima or the parts of S^T that waves exchange:
 * mla_shared_bytes(). */
struct tir_layout mla_scores_map(const struct mla *s);
/** Returns the type of a block's maxima as a wave reads them from LDS: f32, for each column one
 * maximum per lane that has scores of it. */
struct tir_type mla_tops_type(const struct mla *s);
/** Returns the number of panels of K, in the first half of the latent, that are read early: before
 * the block is complete in LDS. 0: none; always 0 without source.lead. */
unsigned mla_early_panels(const struct mla *s);
/** Ends the loop over keys, and the branch `some` around it, which items with keys take. Waves
 * exchange m and l during the last product. `inside`: the values
 * that the loop carries. Returns the wave's state. */
struct split_kv_state mla_share_end(struct mla *s, struct tir_if *some, struct tir_loop *loop,
                                    struct tir_value inside[ATT_N_CARRY]);

/* Functions of one_wave.c: one wave per SIMD. */

/** True if one of the pipelines of one wave per SIMD can build this variant on the machine. */
bool mla_one_wave_takes(const struct att_variant *v, const struct tir_machine *m);

/** Returns the byte offset (i32) in the sequence's page table of the entry for key `key` (i32).
 * Keys past the last one have the last key's page. */
struct tir_value mla_page_offset(struct mla *s, struct tir_value key);
/** Returns the number (i32) of the page of key `key` (i32). Keys past the last one have the last
 * key's page. */
struct tir_value mla_one_wave_page(struct mla *s, struct tir_value key);

/* Functions of register_transpose.c: kernels that transpose the latent c in registers. */

/** True if kernels transpose the latent c in registers: the machine has no LDS read that transposes
 * 8 bytes of each of 16 lanes. */
bool mla_transpose_takes(const struct tir_machine *m);

/* Functions of item.c: items, passes and the loop over keys. */

/** Loads the wave's columns of Q, panel by panel, in stage `stage` of the loop's prologue. Panels
 * that stay in LDS are stored there. */
void mla_load_q(struct mla *s, uint8_t stage);
/** Builds the loop over an item's keys: mla_form.walk. Returns the state of the wave's columns. */
struct split_kv_state mla_walk(struct mla *s);
/** Builds a pass with the form's walk() and join(), and stores the results: mla_form.pass. */
void mla_walk_and_store(struct mla *s);
/** Builds the work on item `index` (i32) of the work list, pass by pass. */
void mla_work_on(struct mla *s, struct tir_value index, const struct mla_passes *passes);
/** Returns the byte offset (i64) in argument q of each of `rows`, for its query and head. */
struct tir_value mla_query_offsets(struct mla *s, const struct split_kv_rows *rows);

/** Loads the scalar scales of Q and of the cache, if the variant has them. Called before the loop
 * over items, so that later uses find the scales in registers. */
void mla_load_tensor_scales(struct mla *s);
/** Returns the number (i32) of blocks that the item's keys fill, the last one perhaps in part. */
struct tir_value mla_count_blocks(struct mla *s);
/** Sets s->d.attention.at for the rows of a pass: the positions that the mask compares with the
 * indices of keys. */
void mla_find_position(struct mla *s);

/* Functions of weights.c: vectors with a value per column. */

/** Returns vector `v`, a value per column of S^T, moved from the lanes of S^T to the lanes of
 * O^T. */
struct tir_value mla_beside_output(struct mla *s, struct tir_value v);

/* Functions of wave_pair.c: wave pairs. */

/** True if the pipelines of wave pairs can build this variant: 65 to 128 rows, without
 * one_launch. */
bool mla_wave_pair_take(const struct att_variant *v);

/* Functions of passes.c: passes over an item's rows. */

/** Returns the number of workgroups that share a work list: one for each pass over an item's rows
 * of Q. */
unsigned mla_sharers(const struct mla *s);
/** Sets s->d.list if workgroups share lists, and returns this workgroup's passes over an item. */
struct mla_passes mla_find_passes(struct mla *s);

/* Functions of weights.c and block.c: maxima of waves, and blocks of the cache. */

/** Loads exchanged vector n (i32; VECTOR_M or another) of all parts of the keys from LDS. Returns
 * the largest value of each column as type t. */
struct tir_value mla_largest(struct mla *s, struct tir_value n, struct tir_type t);
/** Returns the values of mla_largest() as a vector of type s->softmax.vector. The values are
 * repeated for each part of the keys, side by side, in the lanes of the part's waves. */
struct tir_value mla_largest_of_parts(struct mla *s, struct tir_value n);
/** Returns a tile of v's type whose elements are all `scalar`. */
struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v);
/** Returns the index (i32) in the sequence of the first key of block `block` (i32):
 * att_attention.first_key. */
struct tir_value mla_first_key(void *family, struct tir_value block);
/** Reads a panel of K of the current block from LDS: mla_form.read_panel. */
struct tir_value mla_read_panel(struct mla *s, const struct panel *panel);
/** Chooses the pieces in which the latent and the rotated key of a block pass from the cache to
 * LDS: mla_form.find_source. */
void mla_find_pieces(struct mla *s);

/** Returns the features that follow from a block's pieces as bits of pipe_variant.has:
 * MLA_HAS_HALVES, MLA_HAS_ROTATED and MLA_HAS_PIECES. */
uint32_t mla_piece_features(const struct mla *s);

/* Functions of value_product.c: the product with W_UV. */

/** True if the variant has no product with W_UV, or this op can build the product; if not, the
 * reason is in `why`. */
bool mla_product_check(const struct att_variant *v, const struct tir_machine *m,
                       struct att_why *why);
/** Builds the product of each head's output with its rows of w_uv, after the workgroup's last item.
 * `has_items` (i1): true if the workgroup had items. */
void mla_multiply_output(struct mla *s, struct tir_value has_items);

/* Functions of scaled.c: weights of fp8 with scales. */

/* MLA_SCALE_BIAS: the byte of the e8m0 scale 1. MLA_GROWTH: log2 of the largest weight, relative to
 * m, for which m is not raised. */
enum { MLA_SCALE_BIAS = 127, MLA_GROWTH = 24 };

/** Returns, for each column (row of Q) of the scores x, the least integer e for which all weights
 * 2^(f x - e) fit fp8: f32, 1 x columns. f is softmax.exponent, the scale of scores times
 * log2(e). */
struct tir_value mla_scale_exponent(struct mla *s, struct tir_value x);

#endif

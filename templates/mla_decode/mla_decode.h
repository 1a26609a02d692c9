/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of the `mla_decode` template share.
 */
#ifndef TEMPLATES_MLA_DECODE_MLA_DECODE_H
#define TEMPLATES_MLA_DECODE_MLA_DECODE_H

#include "ir/bits.h"
#include "templates/split_kv/split_kv.h"
#include "templates/cache/pages.h"
#include "templates/pipeline/pipeline.h"

enum { MFMA_ROWS = 16 };
enum {
    PANEL = 64 /* columns of K in one step of the contraction, or of the rotated key */,
    MAX_PANELS = 9,
    MAX_PIECES = 3,
    MLA_QUARTERS = 4,
    MLA_STAGE_LOADS = 1 /* stage of a block whose loads are in flight: tables of shared scores */,
    MLA_STAGE_ARRIVES = 2 /* stage in which a block arrives and is stored to LDS */,
    MLA_SCORES_PHASE = 3 /* number of the phase of S^T in pipeline values_between */,
    MLA_MAX_ROW_PARTS = 4 /* groups of waves that split the contraction of K Q^T, at most */,
    MLA_MOST_ROWS = 16 /* rows of a block that a wave copies, at most */,
    MLA_MAX_RUNS = 4 /* runs of a block's keys, each in one page, at most */
};
/* LDS slots of the vectors that waves exchange, one number per column of O^T. At the end of an item
 * they hold m and l. In the loop, the slot of the block's parity (0 or 1) holds the rescale factor
 * alpha or its logarithm; if waves split the keys, m is VECTOR_OWN_M slots after it. */
enum { VECTOR_M, VECTOR_L, N_VECTORS, VECTOR_OWN_M = N_VECTORS };

/** Part of a cache row: the latent, or the rotated key. */
struct part {
    unsigned first, width;   /* the part's first column in the row, and its number of columns */
    struct tir_layout lds;   /* LDS layout of the part of a block */
    unsigned bytes;          /* bytes of LDS of the part of a block, or of Q */
    unsigned before;         /* bytes in LDS of the block before this part, if its parts share a
                                buffer */
    struct tir_value buffer; /* i32: LDS address */
};

/** Columns of a cache row that one step of S^T = K Q^T multiplies. */
struct panel {
    unsigned first, width;    /* the panel's first column in the row, and its number of columns */
    int product;              /* number of the matrix instruction */
    struct tir_contraction k; /* order of these columns in the product */
    struct tir_type q;        /* type of the panel of Q: columns of O^T x width */
    bool divided;             /* true: each group of waves has `width` columns of its own:
                                 mla_own_first() */
};

/** Columns of a part that pass from the cache to LDS together. */
struct piece {
    struct part *part;
    unsigned column;               /* number of the first column, in the part */
    struct att_paged_tile paged;   /* registers through which a block's columns pass */
    struct tir_value pages;        /* i32: page numbers of the block that is loaded next */
    struct att_paged_data fetched; /* the loaded columns, until they are stored to LDS */
};

/** Slots (i32) of a block's keys from a sparse list: of all rows, and of the rows that the wave
 * copies. */
struct mla_slots {
    struct tir_value all, own;
};

/** Addresses (i64) of the block's rows that a wave copies. All lanes copy a row of the latent, so
 * its address is a scalar. */
struct mla_found {
    struct tir_value rows;               /* addresses in lanes, for rotated keys: a few lanes copy a
                                            row */
    struct tir_value row[MLA_MOST_ROWS]; /* the same addresses as scalars, for latents */
};

/** A block whose copy to LDS is in flight: its LDS address (i32), the address of its first row in
 * the cache (i64), and the number of its rows before the item's end (i32). */
struct mla_flight {
    struct tir_value place, from, there;
};

/** The addresses from which lanes copy a wave's pairs of rows, i64 in each lane. */
struct mla_row_pairs {
    struct tir_value even, middle, odd; /* addresses of the even row's lines; of the line that both
                                           rows share; of the odd row's lines */
};

/** The factors by which half of O's columns are rescaled. A register of O has a column in each half
 * of the lanes. */
struct mla_alpha {
    struct tir_value of_lanes;  /* f32, columns x 1: the factors */
    struct tir_value lanes;     /* i64: mask of lanes whose factor is not 1 */
    struct tir_value registers; /* i32: mask of registers of O with a factor that is not 1 */
};

/** Types of numbers: enum tir_dtype. */
struct mla_numbers {
    unsigned q;  /* type of Q in memory */
    unsigned kq; /* type of Q and of the cache's rows in LDS */
    unsigned p;  /* type of P and c in the second product */
};

/** The way in which waves with the same columns of S^T get one maximum of each column. */
enum mla_agreement {
    MLA_OWN_MAX,          /* each wave has all keys of its columns */
    MLA_AGREE_ON_GROWTH,  /* each wave has a maximum of its own keys, until one of them has grown */
    MLA_EXCHANGE_MAX,     /* waves exchange maxima before weights are made */
    MLA_SCALE_OWN_WEIGHTS /* each wave's weights have a scale of their own */
};

/** The work split: for each dimension, log2 of the number of waves that divide it. */
struct mla_work_split {
    uint8_t columns;      /* columns of S^T */
    uint8_t product_keys; /* keys in K Q^T */
    uint8_t softmax_keys; /* keys in the softmax */
    uint8_t depth;        /* the contraction of K Q^T; waves sum their parts of S^T through LDS */
    uint8_t pairs;        /* 1: waves of a pair divide the keys in K Q^T, and the latent in P c */
    uint8_t agree;        /* enum mla_agreement */
};

/** The cache's rows, and the way of a block of them to LDS. */
struct mla_source {
    struct att_pages pages;
    struct part part[2];
    struct piece piece[MAX_PIECES]; /* pieces of blocks that pass through registers */
    uint8_t n_pieces;
    uint8_t lead;                /* 1: a block is in LDS an iteration before its scores; 0: not */
    struct tir_value row_stride; /* i32: bytes from a cache row to the next; none: not used */
};

/** Places in LDS. n places of a buffer are contiguous. */
struct mla_lds {
    uint8_t blocks;   /* number of blocks; before mla_form.take_lds(): the tile's maximum */
    uint8_t p_places; /* number of places for P and what is exchanged with it: 1 or 2 */
    struct tir_value p, vectors, scales, scores; /* i32: addresses */
    struct tir_value entries;                    /* i32: address of entries of sparse lists, which
                                                    are i32, keys x 1 */
    struct tir_value unread;                     /* i32: address of a row for stores that nobody
                                                    reads: gather.c */
};

/** Q, in panels. */
struct mla_query {
    struct panel panel[MAX_PANELS];
    struct tir_value q[MAX_PANELS];
    uint8_t n_panels, n_in_lds; /* number of panels; number of the last panels, which are in LDS */
    uint8_t shared;             /* 1: waves load whole rows, and read their columns from LDS */
    uint8_t in_block;           /* 1: these rows are in the place of the second block, until all
                                   waves have read their columns */
    struct part part[2];        /* the latent and the rotated key of Q's rows in LDS: query.c */
    struct tir_value buffer;    /* i32: LDS address of panels */
};

/** Types of values in registers. */
struct mla_types {
    struct tir_type product;     /* S^T as K Q^T leaves it */
    struct tir_contraction keys; /* order of the keys in P c, as S^T has them in registers */
    struct tir_type weights;     /* P^T as the right operand of the second product */
    struct tir_type v_loaded;    /* c as it is read from LDS: keys x latent */
    struct tir_type vector;      /* m and l: 1 x columns, in the layout of O^T */
    struct tir_type scales;      /* scales of P^T: one for each 32 keys of a column */
    int scaled; /* number of the second product's MFMA with scales for P; -1: none */
};

/** Values of one block that one step sets and others read, beside those in att_now. */
struct mla_block {
    struct tir_value pages[MLA_MAX_RUNS]; /* i32: page numbers, or before they are loaded, their
                                             byte offsets */
    struct tir_view runs[MLA_MAX_RUNS];
    struct mla_flight flight;
    struct mla_slots slots;
    struct mla_found found;
    struct mla_row_pairs lines;
    struct tir_value gaps;                  /* i32: number of the block's rows without a key */
    struct tir_value k[MAX_PANELS];         /* panels of K */
    struct tir_value quarter[MLA_QUARTERS]; /* of c^T or O, halves of c, or the waves' parts of S */
    struct tir_value p_quarter[MLA_QUARTERS], o_quarter[MLA_QUARTERS];
    struct mla_alpha alpha[2];
    struct tir_value alpha_lanes;
    struct tir_value other_exponent, pair_weights[2]; /* of wave pairs: the other wave's exponents,
                                                         and P of each wave. In fp8: exponents of
                                                         both waves, and in [0] P of both */
    struct tir_value scales;                          /* scales of fp8 weights, for the second
                                                         product */
};

/** The passes of this workgroup over an item's rows, i32 each. */
struct mla_passes {
    struct tir_value first, step; /* first row of the first pass; rows from a pass to the next */
};

struct mla;

/** The parts of a kernel outside of its loop, for a group of pipelines. NULL: nothing to do. */
struct mla_form {
    void (*choose_layouts)(struct mla *s); /* sets types and layouts before any op is built */
    void (*take_lds)(struct mla *s);       /* allocates LDS and sets mla.plan */
    void (*load_arguments)(struct mla *s); /* loads arguments together with an item */
    void (*find_source)(struct mla *s);    /* sets mla.source for an item's blocks */
    void (*begin_pass)(struct mla *s);     /* sets members of s->d.attention */
    void (*load_q)(struct mla *s);         /* issues the loads of Q before the loop */
    /** Reads a panel of K of the current block from LDS. */
    struct tir_value (*read_panel)(struct mla *s, const struct panel *n);
    /** Builds the loop over an item's keys. Returns the state of the wave's columns. */
    struct split_kv_state (*walk)(struct mla *s);
    /** Builds the exchange of m and l at an item's end: every wave gets m and l of the columns of
     * its O^T. */
    void (*join)(struct mla *s, struct split_kv_state *state);
    void (*pass)(struct mla *s); /* builds the loop and the store of its results */
    void (*adjust_schedule)(const struct mla *s, struct tir_schedule *schedule);
    const struct mla_row_copies *copies; /* for rows whose addresses are found one by one; NULL: no
                                            such rows */
    uint8_t first_panels;                /* number of panels of K that are read in the phase before
                                            K Q^T */
    uint8_t hbm_bound;                   /* 1: HBM limits the loop, whatever the dtypes */
    uint8_t ends_beside_output; /* 1: walk() returns m and l in the lanes of O^T. l and O are 0
                                   while m is the lowest value */
};

/** Forms: waves that share scores, with a block's copy an iteration early or not; one wave per
 * SIMD; wave pairs, in 16 bits and in fp8; transposition in registers, in 16 bits and in fp8. */
extern const struct mla_form mla_shared_form, mla_early_form, mla_one_wave_form;
extern const struct mla_form mla_wave_pair_form, mla_row_pairs_form;
extern const struct mla_form mla_transpose_form, mla_dv_split_form;

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
    struct att_softmax softmax;  /* softmax over the wave's own keys: mla_own_keys() */
    struct tir_value kv_scale;   /* f32: scale of the whole cache; none: the cache has none */
    struct tir_value last_block; /* i32: number of the item's last block of keys */
};

/** Returns the bytes of a number of Q or of a cache row in LDS. */
static inline unsigned mla_kq_bytes(const struct mla *s)
{
    return tir_dtype_bits(s->number.kq) / 8;
}

/** Returns log2 of the workgroup's waves. */
static inline unsigned mla_wave_bits(const struct mla *s) { return tir_bits(s->d.waves); }

/** Returns the number of parts of a cache row: 2 with a rotated key, else 1. */
static inline unsigned mla_count_parts(const struct mla *s)
{
    return s->d.v->head_dim > s->d.v->head_dim_v ? 2 : 1;
}

/** True if a pass has all rows of an item. Each block is then read once, so that HBM limits the
 * loop. */
static inline bool mla_reads_once(const struct mla *s)
{
    return s->d.v->gqa * s->d.v->q_len <= (int)s->d.columns;
}

/* lds.c */

/** Chooses the layouts of all values in registers. Call it before any op is built. */
void mla_choose_layouts(struct mla *s);
/** Returns the layout of c, keys x latent, whose transpose is the left operand of the second
 * product. */
struct tir_layout mla_values_operand(const struct mla *s);
/** Allocates LDS for blocks of keys, P and panels of Q. */
void mla_take_lds(struct mla *s);
/** Returns the MFMA of a panel of S^T = K Q^T, and of O^T = c^T P^T. */
const struct tir_mma *mla_qk(const struct mla *s, const struct panel *p);
const struct tir_mma *mla_pv(const struct mla *s);
/** Returns which waves divide the rows and the columns of S^T. */
struct tir_waves mla_split(const struct mla *s);
/** True if waves split the columns of S^T, so that P passes through LDS. */
bool mla_exchanges(const struct mla *s);
/** Returns the LDS address of a part of block `block` (i32). */
struct tir_value mla_buffer_of(struct mla *s, const struct part *p, struct tir_value block);
/** Store a block's entries of a sparse list in LDS, and load them as i32, keys x 1. */
void mla_store_entries(struct mla *s, struct tir_value block, struct tir_value entries);
struct tir_value mla_load_entries(struct mla *s, struct tir_value block);
/** True if panel n of Q is in LDS. Then sets *at to its LDS address (i32). */
bool mla_find_query(struct mla *s, unsigned n, struct tir_value *at);
/** Returns the address map in LDS of a panel of Q. */
struct tir_layout mla_query_map(const struct mla *s, const struct panel *p);
/** True if the second product is in fp8; l then sums the rounded weights. */
static inline bool mla_weights_fp8(const struct mla *s) { return s->number.p == TIR_FP8; }
/** Begin and end a branch for stores to LDS. One of the waves with the same part of S^T takes the
 * branch. */
struct tir_if mla_begin_writers(struct mla *s);
void mla_end_writers(struct mla *s, struct tir_if *writers);
/** Returns the number (i32) of the place in LDS of P and alpha for block `block`: `block` modulo
 * s->lds.p_places. */
struct tir_value mla_weights_slot(struct mla *s, struct tir_value block);
/** Store P of block `block`, keys x columns, in LDS for all waves, and load it. */
void mla_store_weights(struct mla *s, struct tir_value block, struct tir_value p);
struct tir_value mla_load_weights(struct mla *s, struct tir_value block);
/** Store the scales of P in LDS, and load them as an operand of the second product. A scale is an
 * i8 per column and part of the keys. mla_find_high_scale() returns i1: true if a scale has its
 * highest bit set. */
void mla_store_scales(struct mla *s, struct tir_value block, struct tir_value scales);
struct tir_value mla_load_scales(struct mla *s, struct tir_value block);
struct tir_value mla_find_high_scale(struct mla *s, struct tir_value block);
/** Stores `a` in LDS as vector n (VECTOR_M or another): f32 for each column of S^T and part of the
 * keys. The second function loads vector n of one part as type t. */
void mla_store_vector(struct mla *s, struct tir_value n, struct tir_value a);
struct tir_value mla_load_vector(struct mla *s, struct tir_value n, unsigned part,
                                 struct tir_type t);
/** True if blocks are in LDS as cache lines of pairs of rows: row_pairs.c. */
static inline bool mla_has_row_pairs(const struct mla *s)
{
    return s->split.pairs && mla_weights_fp8(s);
}
/** Returns the number (i32) of the wave's part of the contraction of K Q^T, which
 * mla_work_split.depth divides. */
struct tir_value mla_row_part(struct mla *s);
/** Returns the first of the wave's columns of panel p, as a column of the row, times `size`;
 * i32. */
struct tir_value mla_own_first(struct mla *s, const struct panel *p, unsigned size);
/** Returns the number of parts into which waves divide a block's keys. */
static inline unsigned mla_parts(const struct mla *s) { return 1u << s->split.softmax_keys; }
/** Converts a tile [keys x columns] to [keys of a part x columns], with the columns of all parts
 * side by side. A wave then has columns of its own. The second function converts back. */
struct tir_value mla_own_keys(struct mla *s, struct tir_value a);
struct tir_value mla_all_keys(struct mla *s, struct tir_value a);

/** Returns the work split of waves with columns of their own. */
static inline struct tir_waves mla_own_waves(const struct mla *s)
{
    return (struct tir_waves){.cols = (uint8_t)mla_wave_bits(s)};
}
/** Adds the panels of K and Q for waves with columns of their own. `product`: number of the
 * instruction. `k`: order of a panel's columns in it. */
void mla_add_panels(struct mla *s, int product, const struct tir_contraction *k);
/** Returns l summed over the rows of the wave's own keys, one number per column. If each part of
 * the keys has an l of its own, the columns of all parts are side by side. */
struct tir_value mla_sum_own(struct mla *s, struct tir_value l);
/** Adds the sum of a block's weights to l. */
void mla_add_sum(struct mla *s, struct tir_value sum);
/** Adds the sum of weights relative to `exponent` (of the columns) to l, which is relative to m. */
void mla_add_scaled_sum(struct mla *s, struct tir_value sum, struct tir_value exponent);
/** Returns the part of a cache row with the columns of panel n: the latent or the rotated key. */
static inline struct part *mla_part_of(struct mla *s, const struct panel *n)
{
    return n->first < s->source.part->width ? s->source.part : s->source.part + 1;
}
/** Joins four quarters of the rows of a tile. */
static inline struct tir_value mla_join_quarters(struct tir_builder *b,
                                                 const struct tir_value part[4])
{
    const struct tir_value low = tir_stack(b, part[0], part[1]);
    return tir_stack(b, low, tir_stack(b, part[2], part[3]));
}

/* query.c */

/** Sets the LDS maps of Q, for kernels whose waves each load a part of Q's rows. Returns the bytes
 * of Q in LDS, which mla_take_query() allocates. */
unsigned mla_count_query(struct mla *s);
void mla_take_query(struct mla *s);
/** Issues the loads of Q before the loop over keys. Waves read their columns after all have
 * arrived. */
void mla_share_query(struct mla *s);

/* share.c */

/** Sets s->split: how waves divide S^T in K Q^T and in the softmax. `product_keys`: log2 of the
 * number of waves that divide the keys of K Q^T. */
void mla_divide_scores(struct mla *s, unsigned product_keys);
/** Returns the bytes of LDS for what waves with the same columns of S^T exchange: row maxima, or
 * parts of S^T that they sum. 0: neither. */
unsigned mla_shared_bytes(const struct mla *s);
/** Returns the layout in LDS of the row maxima or parts of S^T of mla_shared_bytes(). */
struct tir_layout mla_scores_map(const struct mla *s);
/** Returns the type of a block's maxima as they are read: for each column, a maximum of each lane
 * that has scores of it. */
struct tir_type mla_tops_type(const struct mla *s);
/** Returns how many panels of K are read before the block's last barrier. They are in the first
 * half of a block. It is 0 if source.lead is 0. */
unsigned mla_early_panels(const struct mla *s);
/** Ends the loop over keys and the branch of items with keys around it. Waves exchange m and l
 * during the last product. `inside`: the values that the loop carries. Returns the state of the
 * wave's columns. */
struct split_kv_state mla_share_end(struct mla *s, struct tir_if *some, struct tir_loop *loop,
                                    struct tir_value inside[ATT_N_CARRY]);

/* one_wave.c */

/** True if a one-wave-per-SIMD pipeline serves this variant. */
bool mla_one_wave_takes(const struct att_variant *v, const struct tir_machine *m);

/** Returns the byte offset of the entry of a key's page in the page table. Keys past the last one
 * have its page. */
struct tir_value mla_page_offset(struct mla *s, struct tir_value key);
/** Returns the number of a key's page; keys past the last one get the last one's page. */
struct tir_value mla_one_wave_page(struct mla *s, struct tir_value key);

/* register_transpose.c: kernels that transpose c in registers */

/** True if the machine has no LDS reads that transpose 8 bytes of each of 16 lanes. */
bool mla_transpose_takes(const struct tir_machine *m);

/* item.c */

/** Issues the loads of the wave's columns of Q, panel by panel, in stage `stage` of the loop's
 * prologue. */
void mla_load_q(struct mla *s, uint8_t stage);
/** Builds the loop over an item's keys: mla_form.walk. Returns the state of the wave's columns. */
struct split_kv_state mla_walk(struct mla *s);
/** Builds a pass: the form's walk and join, and the store of results. */
void mla_walk_and_store(struct mla *s);
/** Builds the work on item `index` (i32) of the work list, pass by pass. */
void mla_work_on(struct mla *s, struct tir_value index, const struct mla_passes *passes);
/** Returns the byte offset (i64) of each of `rows` in Q. */
struct tir_value mla_query_offsets(struct mla *s, const struct split_kv_rows *rows);

/** Loads the scales of Q and of the cache. */
void mla_load_tensor_scales(struct mla *s);
/** Returns the number of blocks of an item's keys, i32. */
struct tir_value mla_count_blocks(struct mla *s);
/** Sets s->d.attention.at for the rows of a pass: the positions that the mask compares with
 * keys. */
void mla_find_position(struct mla *s);

/* block.c */

/** Moves a vector over columns from the lanes of S^T to the lanes of O^T. */
struct tir_value mla_beside_output(struct mla *s, struct tir_value v);

/* wave_pair.c and, with fp8, wave_pair_exchange.c */

/** True if the wave-pair pipeline serves this variant. */
bool mla_wave_pair_take(const struct att_variant *v);

/* passes.c */

/** Returns the number of workgroups that share a list of items. */
unsigned mla_sharers(const struct mla *s);
/** Sets s->d.list if workgroups share lists, and returns this workgroup's passes over an item. */
struct mla_passes mla_find_passes(struct mla *s);

/* block.c */

/** Loads vector n of each part of the keys, and returns the largest number of each column as type
 * t. The second form returns it once for each part, side by side, as the parts' waves hold it. */
struct tir_value mla_largest(struct mla *s, struct tir_value n, struct tir_type t);
struct tir_value mla_largest_of_parts(struct mla *s, struct tir_value n);
/** Broadcasts a scalar to a tile of v's shape. */
struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v);
/** Returns the first key of a block: att_attention.first_key. */
struct tir_value mla_first_key(void *family, struct tir_value block);
/** Reads a panel of K of the current block from LDS: mla_form.read_panel. */
struct tir_value mla_read_panel(struct mla *s, const struct panel *panel);
/** Chooses the pieces in which the latent and the rotated key of a block pass from the cache to
 * LDS: mla_form.find_source. */
void mla_find_pieces(struct mla *s);

/** Returns the features of a block's pieces as bits: MLA_HAS_HALVES, MLA_HAS_ROTATED and
 * MLA_HAS_PIECES. */
uint32_t mla_piece_features(const struct mla *s);

/* value_product.c */

/** True if the variant has no product with W_UV, or its kernel supports it; if not, the reason is
 * in `why`. */
bool mla_product_check(const struct att_variant *v, const struct tir_machine *m,
                       struct att_why *why);
/** Builds the product of each head's output with its rows of w_uv, after the last item of the
 * launch. `has_items` (i1): the workgroup had items. */
void mla_multiply_output(struct mla *s, struct tir_value has_items);

/* scaled.c */

/* The bias of e8m0. MLA_GROWTH is log2 of the most by which weights may exceed 2^m, which O and l
 * are relative to. */
enum { MLA_SCALE_BIAS = 127, MLA_GROWTH = 24 };

/** Returns the least integer e for each column of the scores x with which 2^(s - e) fits fp8. */
struct tir_value mla_scale_exponent(struct mla *s, struct tir_value x);

#endif

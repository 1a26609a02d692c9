/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of the `mla_decode` template share.
 */
#ifndef TEMPLATES_MLA_DECODE_MLA_DECODE_H
#define TEMPLATES_MLA_DECODE_MLA_DECODE_H

#include "templates/decode/decode.h"
#include "templates/cache/pages.h"
#include "templates/pipeline/pipeline.h"

enum { MFMA_ROWS = 16 };
enum {
    PANEL = 64 /* columns of K that one step of the contraction takes, or of the rotated key */,
    MAX_PANELS = 9,
    MAX_PIECES = 3,
    MLA_QUARTERS = 4,
    MLA_STAGE_LOADS = 1 /* stages of tables whose waves share scores: their loads are in flight */,
    MLA_STAGE_ARRIVES = 2 /* a block is stored to LDS */,
    MLA_SCORES_PHASE = 3 /* of values_between */,
    MLA_MAX_ROW_PARTS = 4 /* of the contraction of K Q^T, at most */,
    MLA_MOST_ROWS = 16 /* rows of a block that a wave copies, at most */,
    MLA_MAX_RUNS = 4 /* runs of a block's keys, each in one page, at most */
};
/* LDS slots of the vectors that waves exchange, one number per column of O^T. At the end of an item
 * they hold m and l. In the loop, the slot of the block's parity (0 or 1) holds the rescale factor
 * alpha or its logarithm; if waves split the keys, m is VECTOR_OWN_M slots after it. */
enum { VECTOR_M, VECTOR_L, N_VECTORS, VECTOR_OWN_M = N_VECTORS };

/* Part of a cache row: the latent, or the rotated key. */
struct part {
    unsigned first, width;
    struct tir_layout lds; /* of a block */
    unsigned bytes;        /* bytes of it in LDS, or of Q */
    unsigned before;       /* bytes of the block before this part, if its parts share a buffer */
    struct tir_value buffer;
};

/* Columns of a row of the cache that one step of S^T = K Q^T takes. */
struct panel {
    unsigned first, width;
    int product; /* the matrix instruction */
    struct tir_contraction k;
    struct tir_type q; /* columns x width */
    bool divided;      /* true if each group of waves has `width` columns of its own */
};

/* Columns of a part that pass from the cache to LDS together. */
struct piece {
    struct part *part;
    unsigned column; /* first column, counted in the part */
    struct att_paged_tile paged;
    struct tir_value pages;
    struct att_paged_data fetched;
};

/* Slots of a block's keys in a sparse list: of all rows, and of the rows that the wave copies. */
struct mla_slots {
    struct tir_value all, own;
};

/* Addresses of the block's rows that a wave copies. A row of the latent takes all lanes, so that
 * its address is a scalar. */
struct mla_found {
    struct tir_value rows; /* i64 per row; a few lanes share a row */
    struct tir_value row[MLA_MOST_ROWS];
};

/* A block whose copy is in flight: its LDS buffer `place`, and the `there` rows from `from` on that
 * the item has. */
struct mla_flight {
    struct tir_value place, from, there;
};

/* The addresses from which lanes copy a wave's rows, i64 of each lane. */
struct mla_row_pairs {
    struct tir_value even, middle, odd; /* of lines of these rows, and of the one they share */
};

/* The factors of half of O's columns: `of_lanes`, columns x 1, are not 1 in `lanes`, i64. So
 * `registers` of O are rescaled, i32. Each register has a column in each half of the lanes. */
struct mla_alpha {
    struct tir_value of_lanes, lanes, registers;
};

struct mla {
    struct att_variant variant; /* the variant that d.v points to */
    struct decode d;
    unsigned buffers; /* blocks in LDS: 1 to 3 */
    unsigned most_buffers;
    unsigned turns;                  /* buffers for P and alpha: 1 or 2 */
    bool ahead;                      /* blocks are copied one iteration before their scores */
    const struct pipeline *pipeline; /* of waves that share scores */
    unsigned q_dtype;                /* of q in memory */
    unsigned kq_dtype, kq_bytes;     /* of Q and of the cache's rows in LDS */
    unsigned p_dtype;                /* of P and c in the second product */
    int scaled;                      /* the second product's MFMA with scales for P; -1: none */
    struct part part[2];
    unsigned n_parts;
    struct piece piece[MAX_PIECES];
    unsigned n_pieces;

    struct tir_value first_pass, pass_step; /* i32, rows: the passes of this workgroup */
    bool one_wave;   /* one wave per SIMD, each with its own columns: one_wave.c */
    bool transposes; /* one_wave, with c transposed in registers: register_transpose.c */
    bool streams;    /* transposes, and each block is read once, so that HBM bounds the loop */
    bool pairs;      /* one_wave, in wave pairs with the same queries: a wave has half of the keys
                        in the first product and half of the latent in the second */
    bool row_pairs;  /* pairs, with fp8 rows that are copied two at a time: row_pairs.c */
    struct tir_value row_stride; /* i32, bytes between cache rows; set if `transposes` */
    unsigned score_waves;        /* log2 of the waves that split the columns of S^T */
    unsigned product_keys;       /* log2 of the waves that split its keys in K Q^T */
    unsigned key_waves;          /* log2 of the waves that split its keys in the softmax */
    unsigned row_waves;          /* log2 of the waves that split the contraction of K Q^T; they add
                                    S^T through LDS */
    bool told;                   /* waves of the same columns exchange row maxima before exp2 */
    struct tir_type product;     /* S^T as K Q^T leaves it */
    struct tir_type tops;        /* the row maxima that all lanes of a column found */
    struct tir_value score_buffer;
    struct tir_layout scores_lds;
    struct pipe_plan plan; /* the pipeline of the loop, if it is a table */
    struct tir_value run_pages[MLA_MAX_RUNS], block_exponent; /* of the current block */
    struct mla_flight flight;
    struct tir_view run_rows[MLA_MAX_RUNS];
    struct mla_slots slots;
    struct mla_found found;
    struct mla_row_pairs lines;
    struct tir_value gaps; /* i32: rows of the block without a key */
    struct tir_value growth, o_alpha,
        score_part[MLA_MAX_ROW_PARTS];                         /* of waves that share scores */
    struct tir_value other_exponent, own_sum, pair_weights[2]; /* of a wave pair */
    struct tir_value quarter[MLA_QUARTERS]; /* quarters of c^T, and of O after the product */
    struct tir_value page_byte, alpha_lanes;
    struct mla_alpha alpha[2];
    struct tir_value p_quarter[MLA_QUARTERS], o_quarter[MLA_QUARTERS];
    struct tir_value kv_scale;  /* scale of the whole cache; none without one */
    struct att_softmax softmax; /* over the wave's own keys: see mla_own_keys() */
    unsigned wave_bits;
    struct panel panel[MAX_PANELS];
    unsigned n_panels;
    struct tir_value early[MAX_PANELS]; /* panels of K that are read one iteration early */
    struct tir_contraction keys;        /* order of the keys in P c, as S^T has them in registers */
    struct tir_layout p_lds;            /* keys x columns */
    struct tir_type weights;            /* P^T as the right operand */
    struct tir_type v_loaded;           /* c as it is read from LDS: keys x latent */
    struct tir_layout v_operand;
    struct tir_type vector; /* 1 x columns beside O^T */
    struct tir_type scales; /* scales of P^T: one for each 32 keys of a column */
    struct tir_layout scales_lds;
    struct tir_value p_buffer, vector_buffer, scale_buffer;
    /* Values of the last block, whose product is after the loop: wave_pair_exchange.c. */
    struct tir_value last_scales, last_weights, first_part;
    struct decode_places places; /* addresses of its results */
    struct tir_value unread;     /* LDS row for copies that nobody reads: gather.c */
    struct tir_value entries;    /* sparse lists: keys x 1 of i32 in LDS for each block buffer */
    struct att_pages pages;
    struct tir_value last_block; /* i32: number of the item's last block of keys */
    unsigned q_in_lds;           /* number of panels of Q, counted from the last, that are in LDS */
    struct tir_value q_buffer, q[MAX_PANELS];
    bool q_shared; /* Q passes through LDS, cut like a cache row: query.c */
    struct part q_part[2];
};

/* lds.c */

/** Chooses the layouts of all values in registers. Call it before any op is built. */
void mla_choose_layouts(struct mla *s);
/** Allocates LDS for blocks of keys, P and panels of Q. */
void mla_take_lds(struct mla *s);
/** Returns the MFMA of a panel of S^T = K Q^T, and of O^T = c^T P^T. */
const struct tir_mma *mla_qk(const struct mla *s, const struct panel *p);
const struct tir_mma *mla_pv(const struct mla *s);
/** Returns how the waves split S^T. */
struct tir_waves mla_split(const struct mla *s);
/** True if waves split the columns of S^T, so that P passes through LDS. */
bool mla_exchanges(const struct mla *s);
/** Returns the LDS address of a part of block `block` (i32). */
struct tir_value mla_buffer_of(struct mla *s, const struct part *p, struct tir_value block);
/** Stores a block's part of a sparse list in LDS; loads it as a column keys x 1. */
void mla_store_entries(struct mla *s, struct tir_value block, struct tir_value entries);
struct tir_value mla_load_entries(struct mla *s, struct tir_value block);
/** True if panel n of Q is in LDS; `at` is set to its address. */
bool mla_find_query(struct mla *s, unsigned n, struct tir_value *at);
struct tir_layout mla_query_map(const struct mla *s, const struct panel *p);
/** True if the second product is in fp8; l then sums the rounded weights. */
static inline bool mla_weights_fp8(const struct mla *s) { return s->p_dtype == TIR_FP8; }
/** Appends a barrier: every wave may then read what the others have written to LDS. */
void mla_meet(struct mla *s);
/** Opens a branch for one wave of those that hold the same columns of S^T, and closes it. */
struct tir_if mla_begin_writers(struct mla *s);
void mla_end_writers(struct mla *s, struct tir_if *writers);
/** Returns the buffer of P and alpha for block `block`: its number modulo s->turns; i32. */
struct tir_value mla_turn(struct mla *s, struct tir_value block);
/** Stores P of block `block`, keys x columns, in LDS for all waves; loads it. */
void mla_store_weights(struct mla *s, struct tir_value block, struct tir_value p);
struct tir_value mla_load_weights(struct mla *s, struct tir_value block);
/** Stores the scales of P, i8 per column and part of the keys, in LDS; loads them as the second
 * product takes them. mla_find_high_scale() returns i1: true if a scale has its highest bit set. */
void mla_store_scales(struct mla *s, struct tir_value block, struct tir_value scales);
struct tir_value mla_load_scales(struct mla *s, struct tir_value block);
struct tir_value mla_find_high_scale(struct mla *s, struct tir_value block);
/** Stores vector n, a number per column of S^T and part of the keys, in LDS; loads a part's
 * vector as type t. */
void mla_store_vector(struct mla *s, struct tir_value n, struct tir_value a);
struct tir_value mla_load_vector(struct mla *s, struct tir_value n, unsigned part,
                                 struct tir_type t);
/** Returns how many columns of the latent a wave's panels have. */
static inline unsigned mla_own_columns(const struct mla *s)
{
    return s->part->width >> s->row_waves;
}
/** Returns the number of the wave's part of a row; i32. */
struct tir_value mla_row_part(struct mla *s);
/** Returns the wave's first column of panel p times `size`; i32. */
struct tir_value mla_own_first(struct mla *s, const struct panel *p, unsigned size);
/** True if a barrier separates K Q^T from the softmax. */
static inline bool mla_shares(const struct mla *s) { return s->row_waves || s->told; }
/** Returns the number of parts that waves cut a block's keys into. */
static inline unsigned mla_parts(const struct mla *s) { return 1u << s->key_waves; }
/** Converts a tile of keys x columns to the wave's own keys, with parts x columns side by side, and
 * back. Each wave then works on its own columns. */
struct tir_value mla_own_keys(struct mla *s, struct tir_value a);
struct tir_value mla_all_keys(struct mla *s, struct tir_value a);

/* query.c */

/** Returns the LDS bytes of Q, if every wave loads a part of its rows. */
unsigned mla_count_query(struct mla *s);
void mla_take_query(struct mla *s);
/** Issues the loads of Q before the loop over keys. Waves read their columns after all have
 * arrived. */
void mla_share_query(struct mla *s);

/* share.c */

/** Chooses which waves have which part of S^T, in its product and in the softmax. */
void mla_divide_scores(struct mla *s, unsigned product_keys);
/** Chooses the types and LDS of the maxima and sums that these waves exchange. */
void mla_choose_shared(struct mla *s);
unsigned mla_shared_bytes(const struct mla *s);
/** Returns the panels of K that are in LDS after the products of the block before: with s->ahead
 * the first half of a block, else none. */
unsigned mla_early_panels(const struct mla *s);
/** Ends the loop over keys and the branch around it. Waves exchange m and l during the last
 * product. */
struct decode_state mla_share_end(struct mla *s, struct tir_if *some, struct tir_loop *loop,
                                  struct tir_value inside[ATT_N_CARRY]);

/* one_wave.c */

/** True if a one-wave-per-SIMD pipeline serves this variant. */
bool mla_one_wave_takes(const struct att_variant *v, const struct tir_machine *m);
/** Like mla_choose_layouts() and mla_take_lds(), for one wave per SIMD. */
void mla_one_wave_choose_layouts(struct mla *s);
void mla_one_wave_take_lds(struct mla *s);
/** Sets the members of s->d.attention that the loop reads. Call it before att_attention_scale(). */
void mla_one_wave_attention(struct mla *s);
void mla_one_wave_schedule(const struct mla *s, struct tir_schedule *schedule);
/** Returns the stage whose first iteration issues the loads of Q, after the first block's copy. */
uint8_t mla_one_wave_q_stage(const struct mla *s);

/** Returns the number of a key's page; keys past the last one get the last one's page. */
struct tir_value mla_one_wave_page(struct mla *s, struct tir_value key);

/* register_transpose.c: the same functions for c that is transposed in registers */

bool mla_transpose_takes(const struct tir_machine *m);
/** Returns the matrix instruction of the product with c. */
int mla_transpose_product(const struct mla *s);
void mla_transpose_choose_layouts(struct mla *s);
void mla_transpose_take_lds(struct mla *s);
void mla_transpose_attention(struct mla *s);
void mla_transpose_schedule(const struct mla *m, struct tir_schedule *s);
/** Gives every wave m and l of the columns of its O^T. */
void mla_transpose_share(struct mla *s, struct decode_state *state);

/* mla_decode.c */

/** Returns the i64 bytes from the beginning of Q to each of these rows. */
struct tir_value mla_query_offsets(struct mla *s, const struct decode_rows *rows);

/** Loads the scales of Q and of the cache. */
void mla_ask_scales(struct mla *s);
/** Counts the blocks of an item's keys, i32. */
struct tir_value mla_count_blocks(struct mla *s);
/** Finds which keys the rows of a pass see. */
void mla_find_position(struct mla *s);

/* block.c */

/** Converts a vector over columns from the lanes of S^T to the lanes of O^T. */
struct tir_value mla_beside_output(struct mla *s, struct tir_value v);

/* wave_pair.c and, with fp8, wave_pair_exchange.c */

/** True if the wave-pair pipeline serves this variant. */
bool mla_wave_pair_take(const struct att_variant *v);
/** Issues the loads of Q before the loop over keys. */
void mla_wave_pair_load_q(struct mla *s);
/** Issues the loads that an item's first copies depend on, together with the item's. */
void mla_exchange_ask(struct mla *s);
/** Appends a pass over an item's keys and the store of its results, for wave pairs that split the
 * latent. */
void mla_exchange_pass(struct mla *s);
/** Merges the states of a wave pair. Each wave then has half of O, as d.output and d.first_value
 * say. */
void mla_exchange_join(struct mla *s, struct decode_state *state);

/* passes.c */

/** Returns the number of workgroups that share a list of items. */
unsigned mla_sharers(const struct mla *s);
/** Finds the list and the passes of this workgroup. */
void mla_find_passes(struct mla *s);

/* block.c */

/** Returns the largest of what the parts left in vector n, as type t has it; or that for each part,
 * side by side, as its waves hold it. */
struct tir_value mla_largest(struct mla *s, struct tir_value n, struct tir_type t);
struct tir_value mla_largest_of_parts(struct mla *s, struct tir_value n);
/** P as the second product takes it, and in *sum what l gains by it. */
struct tir_value mla_round_weights(struct mla *s, struct tir_value p, struct tir_value *sum);
/** A scalar as a tile of v's shape. */
struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v);
/** Returns the first key of a block: att_attention.first_key. */
struct tir_value mla_first_key(void *family, struct tir_value block);
/** Chooses how the latent and the rotated key of a block come from the cache. */
void mla_find_pieces(struct mla *s);
/** Makes the plan of the pipeline that mla_take_lds() has chosen. */
void mla_choose_pipeline(struct mla *s);
/** True if the product with c of a block is in the iteration after its scores. */
bool mla_defers_values(const struct mla *s);

/** Returns the features of a block's pieces: MLA_HAS_HALVES, _ROTATED, _PIECES. */
uint32_t mla_piece_features(const struct mla *s);

/* scaled.c */

/* The bias of e8m0, and the powers of two by which weights may outgrow what O and l are relative
 * to. */
enum { MLA_SCALE_BIAS = 127, MLA_GROWTH = 24 };

/** Finds the least integer e for each column of the scores x with which 2^(s - e) fits fp8. */
struct tir_value mla_scale_exponent(struct mla *s, struct tir_value x);

#endif

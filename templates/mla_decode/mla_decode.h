/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of the `mla_decode` template share.
 */
#ifndef TEMPLATES_MLA_DECODE_MLA_DECODE_H
#define TEMPLATES_MLA_DECODE_MLA_DECODE_H

#include "templates/decode/decode.h"
#include "templates/cache/pages.h"
#include "templates/pipeline/pipeline.h"

/* A block goes to LDS in the first two phases, or a round ahead in AHEAD and SOFTMAX. Kernels have
 * EARLIER_VALUES, or AHEAD. */
enum phase {
    PLACE_FIRST,
    PLACE,
    EARLIER_VALUES,
    SCORES,
    AHEAD,
    SOFTMAX,
    FOLLOW,
    VALUES,
    REST,
    N_PHASES
};
enum stage { PAGES, LOADS, PLACES, COMPUTE, LATE, N_STAGES };
enum { MFMA_ROWS = 16 };
enum {
    PANEL = 64 /* columns of K that one step of the contraction takes, or of the rotated key */,
    MAX_PANELS = 9,
    MAX_PIECES = 3,
    MLA_QUARTERS = 4,
    MLA_MOST_ROWS = 16 /* of a block, that a wave copies */,
    MLA_MAX_RUNS = 4 /* of a block's keys, each in one page */
};
/* Places in LDS of vectors beside O^T that waves exchange: m and l at the end of an item. In the
 * loop, what O follows by (alpha or its logarithm) is in the place of the block's turn, 0 or 1;
 * where waves split keys, m is VECTOR_OWN_M places behind it. */
enum { VECTOR_M, VECTOR_L, N_VECTORS, VECTOR_OWN_M = N_VECTORS };

/* Part of a cache row: the latent, or the rotated key. */
struct part {
    unsigned first, width;
    struct tir_layout lds; /* of a block */
    unsigned bytes;        /* of that, or of Q */
    unsigned before;       /* bytes of a block in front of it, where its parts are one buffer */
    struct tir_value buffer;
};

/* Columns of a row of the cache that one step of S^T = K Q^T takes. */
struct panel {
    unsigned first, width;
    int product; /* the matrix instruction */
    struct tir_contraction k;
    struct tir_type q; /* columns x width */
    bool divided;      /* each part of the waves has `width` columns of its own */
};

/* Columns of a part that pass from the cache to LDS together. */
struct piece {
    struct part *part;
    unsigned column; /* of the part, where it begins */
    struct att_paged_tile paged;
    struct tir_value pages;
    struct att_paged_data fetched;
};

/* A slot of the loop's schedule. */
struct mla_place {
    uint8_t stage, phase;
};

/* Slots of a block's keys in a list: of all rows, and of the wave's own. */
struct mla_slots {
    struct tir_value all, own;
};

/* Rows of a block that a wave copies. One of the latent takes all lanes, so that its address is a
 * scalar. */
struct mla_found {
    struct tir_value rows; /* i64 of each, a few lanes to a row */
    struct tir_value row[MLA_MOST_ROWS];
};

/* A block in flight goes to `place`; the item has `there` of its rows, from `from` on. */
struct mla_flight {
    struct tir_value place, from, there;
};

struct mla {
    struct att_variant variant; /* what d.v says */
    struct decode d;
    unsigned buffers; /* blocks in LDS: 1 to 3 */
    unsigned most_buffers;
    unsigned turns;   /* places for P and alpha: 1 or 2 */
    bool late;        /* O += c P of a block stands in the round of the next one: stage LATE */
    bool between;     /* late, and it stands between the first piece of a block and the others */
    bool ahead;       /* blocks go to LDS a round before that of their scores: stage PLACES */
    unsigned q_dtype; /* of q in memory */
    unsigned kq_dtype, kq_bytes; /* of Q, and of the cache's rows as they stand in LDS */
    unsigned p_dtype;            /* of P and c in the second product */
    int scaled;                  /* that product's instruction with scales for P, or -1 */
    struct part part[2];
    unsigned n_parts;
    struct piece piece[MAX_PIECES];
    unsigned n_pieces;

    struct tir_value first_pass, pass_step; /* i32, rows: of passes that this workgroup makes */
    bool one_wave;   /* waves have a SIMD and columns of their own: one_wave.c */
    bool transposes; /* these turn c in registers: register_transpose.c */
    bool streams;    /* and each block is read once: memory has something to bring all the time */
    bool pairs; /* waves alone, and two have the same queries: half of the keys each, and half of
                     the latent in the product with c */
    bool row_pairs;              /* with rows of fp8, which are copied two by two: row_pairs.c */
    struct tir_value row_stride; /* i32, of the cache: set where these turn c */
    unsigned score_waves;        /* log2 of the waves that split the columns of S^T */
    unsigned product_keys;       /* of those that split its keys in K Q^T */
    unsigned key_waves;          /* of those that split them in the softmax */
    unsigned row_waves;      /* of those that split a row of K and Q: they add up S^T through LDS */
    bool told;               /* those of the same columns tell each other their largest scores */
    struct tir_type product; /* S^T as K Q^T leaves it */
    struct tir_type tops;    /* the largest scores that all lanes of a column found */
    struct tir_value score_buffer;
    struct tir_layout scores_lds;
    struct mla_place mask_at; /* where soft cap, hook and mask run */
    struct pipe_plan plan;    /* the pipeline of the loop; of waves alone, not in pairs */
    struct tir_value run_pages[MLA_MAX_RUNS], block_exponent; /* of the block that is being built */
    struct mla_flight flight;
    struct tir_view run_rows[MLA_MAX_RUNS];
    struct mla_slots slots;
    struct mla_found found;
    struct tir_value other_exponent, own_sum, pair_weights[2]; /* of a pair */
    struct tir_value quarter[MLA_QUARTERS]; /* of c^T, and of O when it is multiplied */
    struct tir_value kv_scale;              /* of the tensor, or none */
    struct att_softmax softmax;             /* of a wave's own keys: see mla_own_keys() */
    unsigned wave_bits;
    struct panel panel[MAX_PANELS];
    unsigned n_panels;
    struct tir_value early[MAX_PANELS]; /* panels of K that are read before their round */
    struct tir_contraction keys;        /* of P and c: as S^T lies in registers */
    struct tir_layout p_lds;            /* keys x columns */
    struct tir_type weights;            /* P^T as the right operand */
    struct tir_type v_loaded;           /* c as it comes out of LDS: keys x latent */
    struct tir_layout v_operand;
    struct tir_type vector; /* 1 x columns beside O^T */
    struct tir_type scales; /* of P^T: one for each 32 keys of a column */
    struct tir_layout scales_lds;
    struct tir_value p_buffer, vector_buffer, scale_buffer;
    /* Values of the last block, whose product is after the loop: wave_pair_exchange.c. */
    struct tir_value last_scales, last_weights, first_part;
    struct decode_places places; /* of its results */
    struct tir_value unread;     /* a row of LDS that nobody reads: gather.c */
    struct tir_value entries;    /* of sparse lists: keys x 1 of i32 in LDS, as often as blocks */
    struct att_pages pages;
    struct tir_value last_block; /* i32: the number of the item's last block of keys */
    unsigned q_in_lds;           /* of the panels of Q, the last */
    struct tir_value q_buffer, q[MAX_PANELS];
    bool q_shared; /* Q passes through LDS, in the parts of a row: query.c */
    struct part q_part[2];
};

/* lds.c */

/** Layouts of everything that passes through registers; before anything is built. */
void mla_choose_layouts(struct mla *s);
/** Allocates LDS: one block of keys or two, P, panels of Q. */
void mla_take_lds(struct mla *s);
/** The matrix instructions of a panel of S^T = K Q^T, and of O^T = c^T P^T. */
const struct tir_mma *mla_qk(const struct mla *s, const struct panel *p);
const struct tir_mma *mla_pv(const struct mla *s);
/** The waves that split S^T. */
struct tir_waves mla_split(const struct mla *s);
/** Do waves split the columns of S^T, so that P goes through LDS? */
bool mla_exchanges(const struct mla *s);
/** LDS address of a part of block `block` (i32). */
struct tir_value mla_buffer_of(struct mla *s, const struct part *p, struct tir_value block);
/** A block's part of a sparse list goes to LDS; it comes back beside the scores, keys x 1. */
void mla_store_entries(struct mla *s, struct tir_value block, struct tir_value entries);
struct tir_value mla_load_entries(struct mla *s, struct tir_value block);
/** Does the n-th panel of Q stand in LDS, and where? */
bool mla_find_query(struct mla *s, unsigned n, struct tir_value *at);
struct tir_layout mla_query_map(const struct mla *s, const struct panel *p);
/** Is the second product one of fp8, with weights that are summed as they are rounded? */
static inline bool mla_weights_fp8(const struct mla *s) { return s->p_dtype == TIR_FP8; }
/** All waves may read what the others wrote to LDS before. */
void mla_meet(struct mla *s);
/** Waves that hold the same columns of S^T: one of them writes. */
struct tir_if mla_begin_writers(struct mla *s);
void mla_end_writers(struct mla *s, struct tir_if *writers);
/** The buffer for P and alpha of block `block`, of those that take turns; i32. */
struct tir_value mla_turn(struct mla *s, struct tir_value block);
/** P of block `block`, keys x columns, goes to LDS for all waves, and comes back. */
void mla_store_weights(struct mla *s, struct tir_value block, struct tir_value p);
struct tir_value mla_load_weights(struct mla *s, struct tir_value block);
/** A column's scales, i8 and one for each part of the keys, go to LDS the same way. They come back
 * as the second product takes them. mla_find_high_scale() returns i1: has one its highest bit? */
void mla_store_scales(struct mla *s, struct tir_value block, struct tir_value scales);
struct tir_value mla_load_scales(struct mla *s, struct tir_value block);
struct tir_value mla_find_high_scale(struct mla *s, struct tir_value block);
/** Vector n of S^T's columns, one for each part of the keys, goes to LDS; a part's comes back as a
 * vector of type t. */
void mla_store_vector(struct mla *s, struct tir_value n, struct tir_value a);
struct tir_value mla_load_vector(struct mla *s, struct tir_value n, unsigned part,
                                 struct tir_type t);
/** Returns how many columns of the latent a wave's panels have. */
static inline unsigned mla_own_columns(const struct mla *s)
{
    return s->part->width >> s->row_waves;
}
/** Returns the number of the part of a row that a wave has; i32. */
struct tir_value mla_row_part(struct mla *s);
/** Returns the first column of panel p, as the wave has it, times `size`; i32. */
struct tir_value mla_own_first(struct mla *s, const struct panel *p, unsigned size);
/** Do waves meet between K Q^T and the softmax? */
static inline bool mla_shares(const struct mla *s) { return s->row_waves || s->told; }
/** Parts of a block's keys, a wave's own among them. */
static inline unsigned mla_parts(const struct mla *s) { return 1u << s->key_waves; }
/** A tile of a block's keys x columns as a wave's own keys, parts x columns side by side; and back.
 * Each wave then works on its own columns. */
struct tir_value mla_own_keys(struct mla *s, struct tir_value a);
struct tir_value mla_all_keys(struct mla *s, struct tir_value a);

/* query.c */

/** Counts the bytes of LDS that Q takes, where every wave asks for a part of its rows. */
unsigned mla_count_query(struct mla *s);
void mla_take_query(struct mla *s);
/** Asks for Q, in front of the loop over keys; waves read their columns when all of it is there. */
void mla_share_query(struct mla *s);

/* share.c */

/** Chooses who has which part of S^T in its product and in the softmax. */
void mla_divide_scores(struct mla *s, unsigned product_keys);
/** Types and LDS of what these waves tell each other. */
void mla_choose_shared(struct mla *s);
unsigned mla_shared_bytes(const struct mla *s);
/** Counts the panels of K that stand in LDS when those of the block before have been multiplied:
 * where blocks go ahead, their first half does. */
unsigned mla_early_panels(const struct mla *s);
/** A wave leaves its part of S^T in LDS, and when all have met it reads the sum. */
struct tir_value mla_sum_scores(struct mla *s, struct tir_value scores);
/** P^T of scores x, for which waves find one maximum. */
struct tir_value mla_told_weights(struct mla *s, struct tir_value x, struct tir_value block,
                                  struct tir_value carried[ATT_N_CARRY]);
/** Ends the loop over keys and the branch around it: what waves know of m and l passes between them
 * while they make the last product. */
struct decode_state mla_share_end(struct mla *s, struct tir_if *some, struct tir_loop *loop,
                                  struct tir_value inside[ATT_N_CARRY]);

/* one_wave.c */

/** Do waves that are alone take this variant? */
bool mla_one_wave_takes(const struct att_variant *v, const struct tir_machine *m);
/** mla_choose_layouts() and mla_take_lds() for waves that are alone. */
void mla_one_wave_choose_layouts(struct mla *s);
void mla_one_wave_take_lds(struct mla *s);
/** Sets what the loop needs of s->d.attention, before att_attention_scale(). */
void mla_one_wave_attention(struct mla *s);
void mla_one_wave_schedule(const struct mla *s, struct tir_schedule *schedule);
/** Returns the stage with whose first round Q is asked for: behind the first block. */
uint8_t mla_one_wave_q_stage(const struct mla *s);
/** Appends one block of keys, in program order. */
void mla_one_wave_visit(struct mla *s, struct att_block block,
                        struct tir_value carried[ATT_N_CARRY]);

/** Returns the number of a key's page; a key behind the last one has that one's. */
struct tir_value mla_one_wave_page(struct mla *s, struct tir_value key);

/* register_transpose.c: the same where c is turned in registers */

bool mla_transpose_takes(const struct tir_machine *m);
/** Returns the matrix instruction of the product with c. */
int mla_transpose_product(const struct mla *s);
void mla_transpose_choose_layouts(struct mla *s);
void mla_transpose_take_lds(struct mla *s);
void mla_transpose_attention(struct mla *s);
void mla_transpose_schedule(const struct mla *m, struct tir_schedule *s);
void mla_transpose_visit(struct mla *s, struct att_block block,
                         struct tir_value carried[ATT_N_CARRY]);
/** Maximum and denominator as O^T has its columns. */
void mla_transpose_share(struct mla *s, struct decode_state *state);

/* mla_decode.c */

/** Returns the i64 bytes from the beginning of Q to each of these rows. */
struct tir_value mla_query_offsets(struct mla *s, const struct decode_rows *rows);

/** Asks for the scales of Q and the cache; they are there behind it. */
void mla_ask_scales(struct mla *s);
/** Counts the blocks of an item's keys, i32. */
struct tir_value mla_count_blocks(struct mla *s);
/** Finds which keys the rows of a pass see. */
void mla_find_position(struct mla *s);

/* block.c */

/** A vector of the scores' columns as O^T has its own, which may lie in other lanes. */
struct tir_value mla_beside_output(struct mla *s, struct tir_value v);

/* wave_pair.c and, with fp8, wave_pair_exchange.c */

/** Do pairs of such waves take this variant? */
bool mla_wave_pair_take(const struct att_variant *v);
/** Asks for Q, in front of the loop over keys. */
void mla_wave_pair_load_q(struct mla *s);
/** Appends one block of keys, in program order. */
void mla_wave_pair_visit(struct mla *s, struct att_block block,
                         struct tir_value carried[ATT_N_CARRY]);
/** Asks for all that the first copies of an item need, beside the item. */
void mla_exchange_ask(struct mla *s);
/** A pass over an item's keys and its results, of pairs that have halves of the latent. */
void mla_exchange_pass(struct mla *s);
/** The states of two waves become one: each has half of its O then, which d.output and
 * d.first_value say. */
void mla_exchange_join(struct mla *s, struct decode_state *state);

/* passes.c */

/** Returns how many workgroups a list of items has. */
unsigned mla_sharers(const struct mla *s);
/** Finds the list and the passes of this workgroup. */
void mla_find_passes(struct mla *s);

/* block.c */

/** Sets the stage and phase of what is built next; or those of the second product. */
void mla_set_stage(struct mla *s, enum stage stage, enum phase phase);
void mla_set_product_stage(struct mla *s);
/** Returns the largest of what the parts left in vector n, as type t has it; or that for each part,
 * side by side, as its waves hold it. */
struct tir_value mla_largest(struct mla *s, struct tir_value n, struct tir_type t);
struct tir_value mla_largest_of_parts(struct mla *s, struct tir_value n);
/** P^T of scores x, relative to the maximum that a step of the softmax has left in `carried`, as
 * the right operand of the product with c; O and l follow and gain what they have to. */
struct tir_value mla_use_scores(struct mla *s, const struct att_softmax_step *step,
                                struct tir_value x, struct tir_value block,
                                struct tir_value carried[ATT_N_CARRY]);
/** P as the second product takes it, and in *sum what l gains by it. */
struct tir_value mla_round_weights(struct mla *s, struct tir_value p, struct tir_value *sum);
/** c of a block as the left operand of the second product. */
struct tir_value mla_read_values(struct mla *s, struct tir_value block);
/** The number of a stage in this kernel's loop, where PLACES is COMPUTE unless blocks go ahead. */
static inline uint8_t mla_stage(const struct mla *s, enum stage stage)
{
    return (uint8_t)(stage - (stage > PLACES && !s->ahead));
}

/** The number of a phase there. */
static inline uint8_t mla_phase(const struct mla *s, enum phase phase)
{
    if (s->between && (phase == PLACE || phase == EARLIER_VALUES))
        return phase == PLACE ? EARLIER_VALUES : PLACE;
    return (uint8_t)(phase - (phase > (s->ahead ? EARLIER_VALUES : AHEAD)));
}

/** The phase of mask and maximum: when blocks go ahead, one half has gone between by then. */
static inline enum phase mla_softmax_phase(const struct mla *s)
{
    return s->ahead ? FOLLOW : SOFTMAX;
}

/** Applies soft cap, hook and mask to the scores, in the slot s->mask_at. */
struct tir_value mla_mask_scores(struct mla *s, struct tir_value x, const struct att_block *block);

/** A scalar as a tile of v's shape. */
struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v);
/** Returns the first key of a block: att_attention.first_key. */
struct tir_value mla_first_key(void *family, struct tir_value block);
/** Chooses how the latent and the rotated key of a block come from the cache. */
void mla_find_pieces(struct mla *s);
/** Appends one block of keys, in program order. */
void mla_visit(struct mla *s, struct att_block block, struct tir_value carried[ATT_N_CARRY]);

/* scaled.c */

/* The bias of e8m0, and the powers of two by which weights may outgrow what O and l are relative
 * to. */
enum { MLA_SCALE_BIAS = 127, MLA_GROWTH = 24 };

/** Finds the least integer e for each column of the scores x with which 2^(s - e) fits fp8. */
struct tir_value mla_scale_exponent(struct mla *s, struct tir_value x);
/** O and l gain what weights with scales of scores x of a block say. */
void mla_use_scaled_weights(struct mla *s, struct tir_value x, struct tir_value block,
                            struct tir_value carried[ATT_N_CARRY]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over one block of keys after the other, as all families of kernels compute it: scores
 * S^T = K Q^T, changes of the scores, the online softmax with weights P, output O^T += V^T P^T. A
 * family is a group of kernels with one loop, such as prefill. It says which queries are the
 * columns of S^T (struct att_position). The table of its pipeline has steps of this folder
 * (steps.h), and steps of the family, which load K and V.
 *
 * A value of the builder (struct tir_value) whose id is 0 is meant by "no value".
 */
#ifndef TEMPLATES_ATTENTION_ATTENTION_H
#define TEMPLATES_ATTENTION_ATTENTION_H

#include "ir/builder.h"
#include "templates/attention/softmax.h"
#include "templates/variant.h"
#include "templates/attention/weight_sum.h"

/** A block of keys: the keys of one iteration of the key loop. S^T = K Q^T, the scores of the
 * block, has a row for each key and a column for each query. */
struct att_block {
    /* i32: index of the block, which is the number of the loop's iteration. */
    struct tir_value index;
    /* i8, keys x queries: bytes of the custom mask, 0: the query does not see the key; no value: no
     * custom mask. */
    struct tir_value mask;
    /* i8, keys x queries, used in place of `mask`. 0: the mask hides the key, or it is after the
     * last key. A lane's registers have neighbouring keys. No value: `mask` is used. */
    struct tir_value seen;
    /* i32, 1 x queries: for a mask of blocks (a bit for 64 keys), the word of the query's mask row
     * that has this block's bit; no value: no mask of blocks. */
    struct tir_value word;
    /* i32, 1 x queries, with `word`: index of the last key that a query sees; -1: the block is
     * hidden from the query. */
    struct tir_value last;
    /* i1. With `seen`: true if a byte of `seen` is 0. With `last`: true if the block is hidden from
     * a query. No value: neither `seen` nor `last`. */
    struct tir_value hides;
    /* i1, with `last`: true if a query that sees the block has its last key before the block's last
     * key. */
    struct tir_value ends;
    /* i32, keys x 1: entries of the sparse list, slots or blocks of the cache; negative: no key. No
     * value: no sparse list, or `gaps` is used. */
    struct tir_value entries;
    /* i32, used in place of `entries`: number of the block's entries that name no key;
     * att_attention.entries() returns the entries. No value: `entries` is used. */
    struct tir_value gaps;
};

/** The values that the rescale check compares with their limit. */
enum att_check {
    ATT_CHECK_SCORES, /* scores S, before weights are computed from them */
    /* Scores S. Meanwhile weights are computed with the running maximum m of the previous block. */
    ATT_CHECK_PREVIOUS,
    ATT_CHECK_WEIGHTS /* weights P; the registers of S stay occupied until P is checked */
};

enum {
    /* Most parts of a block's exponentials. Each part has half of the keys that remain; the last
     * has all that remain. */
    ATT_POWER_PARTS = 6
};

/** The exponentials of a block's scores. Each part has some of the block's keys, and may be
 * computed later than another part. */
struct att_powers {
    /* Weights of a part's keys: f32 exponents (log2) if not `made`; else powers of two, in 16 bits
     * if `packed` and in f32 if not. */
    struct tir_value part[ATT_POWER_PARTS];
    /* made: part[i] has powers; false: exponents. packed: part[i] will have, or has, powers of 16
     * bits; false: f32. */
    bool made[ATT_POWER_PARTS], packed[ATT_POWER_PARTS];
    /* Number of eighths of the block's keys that are in each part. */
    uint8_t eighths[ATT_POWER_PARTS];
    unsigned n; /* number of parts */
};

/** The weights P of a block, and sums of weights. */
struct att_p16 {
    /* P rounded to the type of the product with V: keys x queries, 16 bits or fp8. */
    struct tir_value p16;
    /* Sum of the block's weights over each lane's keys; no value: O^T includes l, or the weights
     * are added to l directly. */
    struct tir_value sum;
    /* The loop's l with this block's weights added. */
    struct tir_value l;
};

/** The keys that the queries of a wave see. Keys are indices in the sequence. Values are i32
 * scalars unless stated. */
struct att_position {
    struct tir_value q_len, kv_len; /* number of queries and keys of the sequence */
    /* Index of the first key that no query may read, at most kv_len. */
    struct tir_value end;
    /* 1 x queries: index of the key at the query's own position, kv_len - q_len + the query's
     * index. */
    struct tir_value diagonal;
    struct tir_value lowest, highest; /* least and largest `diagonal` of the wave's queries */
    /* Result of att_reach(), for masks that hide keys before visible ones; else no value. */
    struct tir_value reach;
    /* With a window: number of keys after `diagonal` that a query sees; else no value. */
    struct tir_value right;
    struct tir_value head; /* index of the query head: a scalar, or 1 x queries */
    /* With a custom mask: i64, 1 x queries, byte offset of the query's row from `mask`. */
    struct tir_value mask_row;
    /* i64: address of the custom mask, from which mask_row counts; no value: the argument
     * custom_mask. */
    struct tir_value mask;
    /* i32, 1 x queries, with a mask of blocks: index of the last key that a query sees; else no
     * value. */
    struct tir_value last;
};

/** Values of one block that steps (attention/steps.h) pass to each other. */
struct att_now {
    struct att_block block;
    /* Values that the loop carries (m, l, O^T), indexed by enum att_carry. */
    struct tir_value *carried;
    /* s: scores S^T, f32, keys x queries. exponent: log2 of the weights, keys x queries; in
     * families that have it besides m, the exponent that weights are relative to, 1 x queries. p:
     * weights P in f32, before rounding. top: for a rescale check of weights, the largest weight or
     * the sum of weights of each lane. */
    struct tir_value s, exponent, p, top;
    /* Operands of O^T += V^T P^T: V^T for the part of the keys that is multiplied next, and the
     * last 8 rows of V^T. */
    struct tir_value v, v_rest;
    /* Result of the block's rescale check: true if m was updated, and the factor alpha of O and
     * l. */
    struct att_softmax_step step;
    /* Weights whose powers are not all computed yet. */
    struct att_powers powers;
    /* Weights of the block, rounded for the product with V, and sums of weights. */
    struct att_p16 weights;
};

/** Attention in a kernel's key loop while it is built: constants of the kernel, and values of the
 * current block. */
struct att_attention {
    struct tir_builder *b;
    const struct att_variant *v;
    /* Types and limits of the online softmax, and the factor of its exponents. */
    struct att_softmax softmax;
    /* f32: factor from scores to logits, if a soft cap or a hook needs it; else no value. */
    struct tir_value score_scale;
    /* The keys that the wave's queries see. */
    struct att_position at;
    int product;    /* index in tir_machine.mma of the matrix instruction of O^T += V^T P^T */
    unsigned dtype; /* enum tir_dtype of the weights P as operand of that instruction */
    void *family;   /* state of the family's kernel: first argument of first_key() and entries() */
    /** Returns the index (i32) in the sequence of the first key of the block of iteration `index`
     * (i32). The caller has set the builder's stage. */
    struct tir_value (*first_key)(void *family, struct tir_value index);
    /** Returns the entries of the sparse list for a block with `gaps`, as in att_block.entries.
     * They are loaded only if the block has entries that name no key. */
    struct tir_value (*entries)(void *family, const struct att_block *block);
    /* Values of the block of keys whose pipeline steps are being built. */
    struct att_now now;
    /* With ATT_CHECK_WEIGHTS: the largest weight that needs no rescaling, 2^room, in the type of
     * the values that the check compares; else no value. */
    struct tir_value most;
    /* The product of the weights with sum.ones that computes l. If sum.ones has no value, vector
     * instructions add weights to l. */
    struct att_weight_sum sum;
    /* True: powers are computed as exp2(-x) with x = m - s * exponent, an instruction of 8 bytes
     * like its neighbours, for schedules with even_code; false: as exp2 of the exponent. */
    bool wide_powers;
    /* Log2 of the largest weight for which m is not updated (softmax.room); 0: the default of the
     * weights' type. */
    uint8_t room;
    uint8_t check; /* enum att_check: the values that the rescale check compares */
    /* Number of eighths of a block's keys, the last ones, whose powers part 1 of att_exp2 computes,
     * in the next iteration; 0: none. */
    uint8_t late_eighths;
    /* Number of eighths of a block's keys, the first ones, whose powers are rounded to 16 bits in
     * part 0 of att_exp2; 0: none. Needs sum_row. */
    uint8_t packed_eighths;
    /* True: O^T stays in accumulation registers (AGPRs) during the loop; false: in VGPRs. */
    bool in_agprs;
    /* Number of parts, a power of two, into which a block's keys are divided for O^T += V^T P^T,
     * one step each; 0: one part. */
    uint8_t value_parts;
    /* True: weights are rounded to the nearest, with ties in either direction; false: with ties to
     * even. */
    bool ties_any;
    /* True: weights are truncated, and l is the sum of the truncated weights; needs sum_row. False:
     * weights are rounded. */
    bool cut;
    /* True: l is the sum of the rounded weights, and an instruction adds two weights. False:
     * weights are added one by one, before rounding. */
    bool sum_pairs;
    /* Index in tir_machine.mma of the instruction that computes the last 8 rows of O^T, if `rest`
     * is set. */
    int rest_product;
    /* Type of the last 8 rows of O^T if a separate product computes these rows. Needs
     * ATT_CHECK_PREVIOUS. Kind 0: one product computes all rows. */
    struct tir_type rest;
    /* Index of the first of eight rows of O^T that hold l, so that the loop does not carry l; 0:
     * O^T has no such rows. */
    unsigned sum_row;
};

/** Indices of the values that the key loop carries: the running maximum m (log2), the denominator
 * l, O^T, and the last 8 rows of O^T if att_attention.rest is set. ATT_N_CARRY: number of values
 * without these last rows. */
enum att_carry {
    ATT_CARRY_M,
    ATT_CARRY_L,
    ATT_CARRY_O,
    ATT_N_CARRY,
    ATT_CARRY_REST = ATT_N_CARRY,
    ATT_MOST_CARRY
};

/** Sets carried[] (enum att_carry) to the state before the first key: m to the lowest number, l and
 * O^T to 0. `output` is the type of O^T. */
void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[]);

/** Sets the limits of a->softmax and the type of P for weights of fp8. The caller has called
 * att_attention_scale(), which does not depend on the type of P. */
void att_attention_weights_fp8(struct att_attention *a);

/** Sets a->sum so that l is a product of the rounded 16-bit weights with ones. The caller has
 * called att_attention_scale(). */
void att_attention_sum_by_product(struct att_attention *a);

/** Copies to kept[] the values of carried[] that the key loop carries, and returns their number.
 * Leaves out l if O^T includes l, and the last rows of O^T if these are not separate. */
unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY]);
/** Copies kept[], in the order of att_attention_kept(), back to the members of carried[]. */
void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY]);

/** Returns `rest`, the last rows of O^T, times `factor`, 1 x queries. */
struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor);

/** True if l is the sum of the rounded weights, and each instruction adds two of them. */
bool att_attention_sums_pairs(const struct att_attention *a);

/** Returns the maximum m after the loop: the carried one plus softmax.shift, for parameter m of
 * att_softmax_finish(). */
struct tir_value att_attention_maximum(const struct att_attention *a,
                                       const struct tir_value carried[]);

/** Returns the denominator l after the loop, as parameter l of att_softmax_finish(). */
struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[]);

/** True if a separate product computes the last 8 rows of O^T. */
bool att_attention_has_rest(const struct att_attention *a);

/** True if the loop carries the value with index `which` of enum att_carry. */
bool att_attention_is_carried(const struct att_attention *a, unsigned which);

/** Returns `value` times `factor` (1 x queries). `which` says what it is: l, O^T or the last rows
 * of O^T. */
struct tir_value att_attention_scale_carried(const struct att_attention *a, enum att_carry which,
                                             struct tir_value value, struct tir_value factor);

/** Returns the scores `s` (S^T of a block) after soft cap, hook and mask. A returned score times
 * softmax.exponent, plus softmax.shift, is log2(e) times the logit. The score of a masked key is
 * -infinity. */
struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block);

/** True if scores are multiplied by the softmax scale before the softmax. False if the factor in
 * the exponent, softmax.exponent, includes the scale. */
bool att_scales_scores(const struct att_variant *v);

/** Sets a->softmax for scores of type `scores`, and a->score_scale, from the arguments scale and
 * scale_log2. `k_scale` (f32) is the scale of the whole of K; no value: K has none. */
void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale);

/** Loads the bytes of a custom mask for a block whose first key is `key` (i32): i8, keys x queries.
 * A query has a row of kv_len bytes, at a->at.mask_row. Keys from a->at.end on repeat the last
 * key's byte. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key);

/** True if each query has a row of a mask in memory: a custom mask, or a mask of blocks. */
bool att_has_mask_rows(const struct att_variant *v);

/** True if the mask hides keys before visible keys: a window, or chunks. */
bool att_hides_early(const struct att_variant *v);

/** Returns the index of the first key that the query at `diagonal` (i32 of any shape) sees, for
 * masks that hide keys before visible ones. `reach` is the value of att_reach(). The result may be
 * negative. */
struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal);

/** Returns the limit (i32) of a mask that hides keys before visible ones. For a window: number of
 * keys before a query's position that the query sees. For chunks: the bit mask that rounds a key's
 * index down to the chunk's first key. */
struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v);

/** True if the mask hides all keys after a query's own position, or after a fixed distance from
 * that position. */
bool att_hides_late(const struct att_variant *v);

/** Returns a scalar i1: true if one of `entries` (i32), entries of a sparse list, is negative,
 * which means no key. */
struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries);

/** Returns the byte offsets (i64, 1 x queries) of the mask rows of queries `query`, for
 * att_position.mask_row. `query` (i32): indices from the first query of sequence `sequence` (i32)
 * on. */
struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query);

#endif

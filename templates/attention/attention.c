/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/attention/attention.h"

#include <assert.h>
#include <math.h>

#include "ir/arith.h"
#include "ir/bits.h"
#include "op_names.h"
#include "templates/workgroup/scalar.h"

/* ---- The softmax scale, and changes of scores: soft cap, hook ---- */

bool att_scales_scores(const struct att_variant *v) { return v->soft_cap || v->logits; }

/* True if scores are capped by att_softmax_cap(), whose results are no logits. With a hook, which
 * takes logits, att_soft_cap() is used in its place. */
static bool caps_in_softmax(const struct att_variant *v) { return v->soft_cap && !v->logits; }

/* Returns argument `arg` (f32), times `k_scale` (f32), the scale of the whole of K, if that has a
 * value. */
static struct tir_value scaled(struct tir_builder *b, const char *arg, struct tir_value k_scale)
{
    const struct tir_value scale = tir_arg(b, arg, TIR_F32);
    return k_scale.id ? tir_mul(b, scale, k_scale) : scale;
}

/* Sets a->most, the largest weight 2^room that needs no rescaling. If O^T includes l, a->most is a
 * register with two copies of that number in 16 bits. With a causal mask, also copies
 * softmax.exponent to vector registers, since loops of causal kernels use all scalar registers. */
static void keep_limits(struct att_attention *a)
{
    struct tir_builder *const b = a->b;
    struct att_softmax *const s = &a->softmax;
    const float most = ldexpf(1, (int)s->room);
    struct tir_type t = s->folded;
    if (!a->sum_row) {
        const struct tir_value sum = tir_f32(b, most);
        a->most = tir_splat(b, a->wide_powers ? tir_materialize(b, sum) : sum, t);
        return;
    }
    const int bits = (int)tir_from_float(a->dtype, most, false);
    t.dtype = TIR_I32;
    a->most = tir_materialize(b, tir_splat(b, tir_i32(b, bits << 16 | bits), t));
    if (a->v->mask == ATT_MASK_CAUSAL)
        s->exponents = tir_materialize(b, tir_splat(b, s->exponent, s->vector));
}

/* Returns log2 of the weight that a row's largest score gets if weights are truncated. Truncation
 * takes up to one step of the 16-bit type from a weight. Relative to the weight, the mean loss is
 * 0.7213 of half a step at 1. The mean of 2^-x over 0 <= x < 1 is 1 / (2 ln 2). A largest weight of
 * exactly 1 would lose nothing, and the output would drift towards that key's value. With this rise
 * the largest weight loses as much as the others. */
static float rise_of_cut(const struct att_attention *a)
{
    const float half_step = a->dtype == TIR_BF16 ? 0x1p-8f : 0x1p-11f;
    return log2f(1 + 0.7213f * half_step);
}

void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale)
{
    const bool before = att_scales_scores(a->v);
    const struct tir_value exponent =
        before ? tir_f32(a->b, ATT_LOG2E) : scaled(a->b, ARG_SCALE_LOG2, k_scale);
    a->softmax = att_softmax(a->b, scores, exponent);
    if (caps_in_softmax(a->v))
        att_softmax_set_cap(a->b, &a->softmax, tir_arg(a->b, ARG_SOFT_CAP, TIR_F32));
    if (a->room)
        a->softmax.room = a->room;
    if (a->cut && a->sum_row)
        a->softmax.rise = rise_of_cut(a);
    if (a->check == ATT_CHECK_WEIGHTS)
        keep_limits(a);
    else if (a->wide_powers)
        a->softmax.threshold = tir_materialize(a->b, tir_f32(a->b, a->softmax.room));
    if (before)
        a->score_scale = scaled(a->b, ARG_SCALE, k_scale);
}

/* Returns scores `s` with the variant's soft cap applied. */
static struct tir_value cap_scores(struct att_attention *a, struct tir_value s)
{
    struct tir_builder *const b = a->b;
    const struct tir_value cap = tir_arg(b, ARG_SOFT_CAP, TIR_F32);
    const struct tir_value rate = tir_mul(b, a->score_scale, tir_rcp(b, cap));
    return caps_in_softmax(a->v) ? att_softmax_cap(b, s, cap, rate) : att_soft_cap(b, s, cap, rate);
}

/* Returns the i32 type with the shape and layout of a block's scores, for indices of keys and
 * queries. */
static struct tir_type index_type(const struct att_attention *a)
{
    const struct tir_type t = tir_with_dtype(a->softmax.scores, TIR_I32);
    return t;
}

/* Returns the i32 type, 1 x queries, for indices of queries. */
static struct tir_type query_type(const struct att_attention *a)
{
    const struct tir_type t = tir_with_dtype(a->softmax.vector, TIR_I32);
    return t;
}

/* Returns the index (i32) of the key of each score, keys x queries, of a block whose first key is
 * `key` (i32). */
static struct tir_value key_index(struct att_attention *a, struct tir_value key)
{
    const struct tir_type t = index_type(a);
    return tir_add(a->b, tir_row_index(a->b, t), tir_splat(a->b, key, t));
}

/* Returns scores `s` after the user's hook on logits. `key` (i32) is the first key of their
 * block. */
static struct tir_value call_logits(struct att_attention *a, struct tir_value s,
                                    struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    if (!a->v->soft_cap)
        s = tir_mul(b, s, tir_splat(b, a->score_scale, a->softmax.scores));
    const struct tir_value before = tir_sub(b, at->kv_len, at->q_len);
    const struct tir_value query = tir_sub(b, at->diagonal, tir_splat(b, before, query_type(a)));
    const bool one_head = tir_typeof(b->f, at->head).kind == TIR_SCALAR;
    const struct tir_value operands[] = {
        s,
        tir_broadcast(b, query, index_type(a)),
        key_index(a, key),
        one_head ? at->head : tir_broadcast(b, at->head, index_type(a)),
        at->q_len,
        at->kv_len,
        tir_arg(b, ARG_HOOK_ARG, TIR_I64),
    };
    const struct tir_value x =
        tir_call_hook(b, "attn_logits", operands, sizeof(operands) / sizeof(operands[0]));
    if (!a->sum.ones.id)
        return x;
    /* att_weight_sum_folded() adds the weights of two queries in one product, so a NaN of a query
     * that does not exist would reach another query's sum. */
    const struct tir_type t = index_type(a);
    const struct tir_value there =
        tir_cmp_lt(b, tir_broadcast(b, query, t), tir_splat(b, at->q_len, t));
    return tir_select(b, there, x, tir_float_like(b, x, -INFINITY));
}

/* ---- Masks: which keys are hidden, and the masking of scores ---- */

/* Returns the bytes (i32) from a query's row of the mask to the next query's row. A custom mask has
 * a byte per key. A mask of blocks has one word and the words with the blocks' bits. */
static struct tir_value mask_row_bytes(struct att_attention *a)
{
    enum { KEYS = 2048 /* keys whose bits one word of 32 bits has */ };
    struct tir_builder *const b = a->b;
    if (a->v->mask == ATT_MASK_CUSTOM)
        return a->at.kv_len;
    const struct tir_value words =
        tir_shr(b, att_plus(b, a->at.kv_len, KEYS - 1), tir_i32(b, (int)tir_bits(KEYS)));
    return tir_shl(b, att_plus(b, words, 1), tir_i32(b, 2));
}

struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query)
{
    struct tir_builder *const b = a->b;
    const struct tir_value at = tir_shl(b, att_wide(b, sequence), tir_i64(b, 3));
    const struct tir_value begin = att_at(b, ARG_MASK_INDPTR, at);
    const struct tir_value first = tir_scalar_load(b, begin, tir_i32(b, 0), TIR_I64);
    const struct tir_value wide = tir_convert(b, query, TIR_I64);
    const struct tir_type t = tir_typeof(b->f, wide);
    return tir_add(b, tir_mul(b, wide, tir_splat(b, att_wide(b, mask_row_bytes(a)), t)),
                   tir_splat(b, first, t));
}

/* Loads the mask bytes of a block byte by byte, since a row of a mask may begin at any address. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct tir_value keys = key_index(a, key);
    const struct tir_type t = tir_typeof(b->f, keys);
    const struct tir_value end = tir_max(b, att_plus(b, a->at.end, -1), tir_i32(b, 0));
    const struct tir_value last = tir_splat(b, end, t);
    const struct tir_value there = tir_zext(b, tir_min(b, keys, last), TIR_I64);
    const struct tir_value at =
        tir_add(b, there, tir_broadcast(b, a->at.mask_row, tir_typeof(b->f, there)));
    const struct tir_value rows = tir_split_blocks(b, at, 1);
    const struct tir_type bytes = tir_with_dtype(tir_typeof(b->f, rows), TIR_I8);
    const struct tir_value base = a->at.mask.id ? a->at.mask : tir_arg(b, ARG_CUSTOM_MASK, TIR_I64);
    const struct tir_value mask = tir_tile_gather(b, base, rows, tir_i32(b, 0), bytes);
    return tir_join_blocks(b, mask, a->softmax.scores.rows);
}

bool att_has_mask_rows(const struct att_variant *v)
{
    return v->mask == ATT_MASK_CUSTOM || v->mask == ATT_MASK_BLOCKS;
}

bool att_hides_early(const struct att_variant *v)
{
    return v->mask == ATT_MASK_WINDOW || v->mask == ATT_MASK_CHUNK;
}

bool att_hides_late(const struct att_variant *v)
{
    return v->mask == ATT_MASK_CAUSAL || att_hides_early(v);
}

struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v)
{
    return tir_arg(b, v->mask == ATT_MASK_CHUNK ? ARG_CHUNK_START : ARG_WINDOW_LEFT, TIR_I32);
}

struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal)
{
    const struct tir_type t = tir_typeof(b->f, diagonal);
    if (t.kind != TIR_SCALAR)
        reach = tir_splat(b, reach, t);
    return v->mask == ATT_MASK_CHUNK ? tir_and(b, diagonal, reach) : tir_sub(b, diagonal, reach);
}

/* Returns an i1 for each score, keys x queries: true if the key is hidden from the query. `key`
 * (i32) is the block's first key. Compares indices of keys in the block with the first and the last
 * one that the query sees. */
static struct tir_value is_hidden(struct att_attention *a, const struct att_block *block,
                                  struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    const struct tir_type t = index_type(a), vector = query_type(a);
    const struct tir_value row = tir_row_index(b, t);
    const struct tir_value start = tir_splat(b, key, vector);
    struct tir_value last = tir_splat(b, att_plus(b, at->end, -1), vector);
    if (att_hides_late(a->v))
        last = tir_min(b, tir_add(b, at->diagonal, tir_splat(b, at->right, vector)), last);
    if (block->last.id)
        last = tir_min(b, block->last, last);
    struct tir_value hidden = tir_cmp_gt(b, row, tir_broadcast(b, tir_sub(b, last, start), t));
    if (att_hides_early(a->v)) {
        const struct tir_value begin = att_first_seen(b, a->v, at->reach, at->diagonal);
        const struct tir_value first = tir_broadcast(b, tir_sub(b, begin, start), t);
        hidden = tir_or(b, hidden, tir_cmp_lt(b, row, first));
    }
    if (block->entries.id || block->gaps.id) {
        const struct tir_value entries =
            block->gaps.id ? a->entries(a->family, block) : block->entries;
        const struct tir_value entry = tir_broadcast(b, entries, t);
        hidden = tir_or(b, hidden, tir_cmp_lt(b, entry, tir_int_like(b, entry, 0)));
    }
    if (!block->mask.id)
        return hidden;
    const struct tir_value byte = tir_zext(b, block->mask, TIR_I32);
    return tir_or(b, hidden, tir_cmp_eq(b, byte, tir_int_like(b, byte, 0)));
}

/* Returns a scalar i1: true if the block has keys after the sequence's end, or keys beyond the
 * causal, window or chunk limit of some query. `key` (i32) is the block's first key. */
static struct tir_value is_edge(struct att_attention *a, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct att_position *const at = &a->at;
    struct tir_value last = att_plus(b, at->end, -1);
    if (att_hides_late(a->v))
        last = tir_min(b, last, tir_add(b, at->lowest, at->right));
    const int rows = (int)a->softmax.scores.rows;
    const struct tir_value beyond = tir_cmp_gt(b, att_plus(b, key, rows - 1), last);
    if (!att_hides_early(a->v))
        return beyond;
    return tir_or(b, beyond, tir_cmp_lt(b, key, att_first_seen(b, a->v, at->reach, at->highest)));
}

struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries)
{
    return tir_any(b, tir_cmp_lt(b, entries, tir_int_like(b, entries, 0)));
}

/* Returns bytes (i8) in the layout of the scores: the sign bit of a byte is set if the byte of
 * `seen` is not 0. */
static struct tir_value signs_of_bytes(struct att_attention *a, struct tir_value seen)
{
    enum { LOW = 0x7f7f7f7f };
    struct tir_builder *const b = a->b;
    const struct tir_value bytes = tir_transpose(b, seen), words = tir_words(b, bytes);
    const struct tir_value low = tir_int_like(b, words, LOW);
    /* The sum sets a byte's sign if its low bits are not all 0, and carries into no other byte. */
    const struct tir_value signs = tir_or(b, tir_add(b, tir_and(b, words, low), low), words);
    const struct tir_value marked = tir_bitcast(b, signs, tir_typeof(b->f, bytes));
    return tir_relayout(b, tir_transpose(b, marked), tir_layout_of(b->f, a->softmax.scores));
}

/* Returns scores `s` with -infinity for each key whose byte in block->seen is 0. The sign of a byte
 * becomes 32 equal bits that choose between two numbers, so that no instruction waits for a
 * comparison. */
static struct tir_value hide_by_sign(struct att_attention *a, struct tir_value s,
                                     const struct att_block *block)
{
    enum { SIGN = 31 };
    struct tir_builder *const b = a->b;
    const struct tir_type bits = index_type(a);
    struct tir_if branch = tir_begin_if(b, block->hides, false, &a->softmax.scores, 1);
    const struct tir_value wide = tir_convert(b, signs_of_bytes(a, block->seen), TIR_I32);
    const struct tir_value shown = tir_sar(b, wide, tir_int_like(b, wide, SIGN));
    const struct tir_value none = tir_bitcast(b, tir_float_like(b, s, -INFINITY), bits);
    const struct tir_value masked =
        tir_or(b, tir_and(b, tir_bitcast(b, s, bits), shown),
               tir_and(b, tir_xor(b, shown, tir_int_like(b, shown, -1)), none));
    const struct tir_value result = tir_bitcast(b, masked, a->softmax.scores);
    tir_else(b, &branch, &result);
    tir_end_if(b, &branch, &s);
    return s;
}

/* Returns scores `s` with -infinity in the columns of queries from which a mask of blocks hides the
 * whole block. Only a wave with such a query executes the branch. */
static struct tir_value hide_columns(struct att_attention *a, struct tir_value s,
                                     const struct att_block *block)
{
    struct tir_builder *const b = a->b;
    struct tir_if branch = tir_begin_if(b, block->hides, false, &a->softmax.scores, 1);
    const struct tir_value last = tir_broadcast(b, block->last, index_type(a));
    const struct tir_value hidden = tir_cmp_lt(b, last, tir_int_like(b, last, 0));
    const struct tir_value masked = tir_select(b, hidden, tir_float_like(b, s, -INFINITY), s);
    tir_else(b, &branch, &masked);
    tir_end_if(b, &branch, &s);
    return s;
}

/* Returns scores `s` with -infinity for hidden keys. `key` (i32) is the block's first key. The code
 * is in a branch that only a wave with a hidden key in the block executes. */
static struct tir_value hide(struct att_attention *a, struct tir_value s,
                             const struct att_block *block, struct tir_value key)
{
    struct tir_builder *const b = a->b;
    const struct tir_value none = tir_float_like(b, s, -INFINITY);
    if (block->mask.id)
        return tir_select(b, is_hidden(a, block, key), none, s);
    if (block->seen.id)
        return hide_by_sign(a, s, block);
    struct tir_value edge = is_edge(a, key);
    if (block->last.id) {
        s = hide_columns(a, s, block);
        edge = tir_or(b, edge, block->ends);
    }
    if (block->entries.id)
        edge = tir_or(b, edge, att_has_gaps(b, block->entries));
    if (block->gaps.id)
        edge = tir_or(b, edge, tir_cmp_ne(b, block->gaps, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, edge, true, &a->softmax.scores, 1);
    const struct tir_value masked = tir_select(b, is_hidden(a, block, key), none, s);
    tir_else(b, &branch, &masked);
    tir_end_if(b, &branch, &s);
    return s;
}

/* ---- Weights of fp8, and sums of weights by a product ---- */

void att_attention_weights_fp8(struct att_attention *a)
{
    enum {
        /* Columns of the matrix instructions for which att_weight_sum_folded() is used. */
        FOLDED = 32
    };
    att_softmax_range_fp8(a->b, &a->softmax);
    if (a->b->f->machine->mma[a->product].n == FOLDED)
        a->sum = att_weight_sum_folded(a->b, a->softmax.scores);
    else
        att_attention_sum_by_product(a);
}

void att_attention_sum_by_product(struct att_attention *a)
{
    a->sum = att_weight_sum_whole(a->b, a->softmax.scores, a->product, a->dtype);
}

/* Returns l, 1 x queries. Eight rows of O^T (`output`), from row a->sum_row on, all hold l. */
static struct tir_value rows_of_sums(struct att_attention *a, struct tir_value output)
{
    enum { ROWS = 8 };
    struct tir_builder *const b = a->b;
    for (unsigned n = tir_typeof(b->f, output).rows, row = a->sum_row; n > ROWS; row %= n) {
        n /= 2;
        output = tir_half(b, output, row >= n);
    }
    return tir_relayout(b, tir_col_max(b, output), tir_layout_of(b->f, a->softmax.vector));
}

struct tir_value att_attention_maximum(const struct att_attention *a,
                                       const struct tir_value carried[])
{
    return att_softmax_end_maximum(a->b, &a->softmax, carried[ATT_CARRY_M]);
}

struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[])
{
    const struct tir_value l = carried[ATT_CARRY_L];
    if (a->sum_row)
        return rows_of_sums(a, carried[ATT_CARRY_O]);
    return a->sum.ones.id ? att_weight_sum_vector(a->b, &a->sum, l, a->softmax.vector) : l;
}

bool att_attention_has_rest(const struct att_attention *a) { return a->rest.kind == TIR_TILE; }

struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(a->b->f, a->rest), 0);
    return tir_mul(a->b, rest, tir_broadcast(a->b, tir_relayout(a->b, factor, &l), a->rest));
}

struct tir_value att_attention_scale_carried(const struct att_attention *a, enum att_carry which,
                                             struct tir_value value, struct tir_value factor)
{
    struct tir_builder *const b = a->b;
    if (which == ATT_CARRY_L && a->sum.ones.id)
        return att_weight_sum_scale(b, &a->sum, value, factor);
    if (which == ATT_CARRY_REST)
        return att_attention_scale_rest(a, value, factor);
    return att_scaled(b, value, factor);
}

/* ---- The values that a key loop carries, and the scores of a block of keys ---- */

void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[])
{
    struct tir_builder *const b = a->b;
    const struct tir_value zero = tir_f32(b, 0.0f);
    carried[ATT_CARRY_M] = att_softmax_lowest(b, &a->softmax);
    carried[ATT_CARRY_L] = tir_splat(b, zero, a->sum.ones.id ? a->sum.sums : a->softmax.folded);
    carried[ATT_CARRY_O] = tir_splat(b, zero, output);
    assert(!att_attention_has_rest(a) || a->check == ATT_CHECK_PREVIOUS);
    if (att_attention_has_rest(a))
        carried[ATT_CARRY_REST] = tir_splat(b, zero, a->rest);
}

bool att_attention_is_carried(const struct att_attention *a, unsigned which)
{
    return which == ATT_CARRY_REST ? att_attention_has_rest(a)
                                   : which != ATT_CARRY_L || !a->sum_row;
}

unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY])
{
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (att_attention_is_carried(a, i))
            kept[n++] = carried[i];
    return n;
}

void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY])
{
    unsigned n = 0;
    for (unsigned i = 0; i < ATT_MOST_CARRY; i++)
        if (att_attention_is_carried(a, i))
            carried[i] = kept[n++];
}

struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block)
{
    const struct tir_value key = a->first_key(a->family, block->index);
    if (a->v->soft_cap)
        s = cap_scores(a, s);
    if (a->v->logits)
        s = call_logits(a, s, key);
    return hide(a, s, block, key);
}

bool att_attention_sums_pairs(const struct att_attention *a)
{
    return a->sum_pairs && !a->sum_row && a->dtype == TIR_BF16 && a->b->f->machine->has_dot_bf16;
}

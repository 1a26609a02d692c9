/* SPDX-License-Identifier: Apache-2.0
 *
 * This file finds a workgroup's work items: the items of its work list, or without a list the one
 * item that follows from its index. Dependent rounds of scalar loads precede the first load of K,
 * so each round issues every load whose address is known.
 */
#include "templates/split_kv/split_kv.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/scalar.h"

#include <string.h>

enum { WORK_WORDS = 8 }; /* i32 words of an item of a work list */

/* The time at which split_kv_load_arguments() declares or loads an argument. */
enum when {
    NEVER, /* does not declare the argument */
    NOW,   /* declares and loads the argument */
    LATER, /* declares the argument, which the code that uses it loads */
    SPARED /* NOW, but LATER with one_launch, which lacks scalar registers for the argument */
};

/* Kinds of kernels that have an argument: all, with a block table, with a sparse list, and so
 * on. */
enum needs { ALWAYS, BLOCK_TABLES, INDICES, ONE_LAUNCH, TENSOR_SCALES, FP8_QUERIES, NEW_ROWS };

/* Arguments that precede the first load of K, in the order of use: the first ones may be preloaded
 * in registers. One argument of every other cache line is loaded too, so that loads of its
 * neighbours hit.
 * Columns: name, type, when with K and V as two tensors, when with a latent cache, needs. */
static const struct argument {
    const char *name;
    uint8_t dtype, of_two, of_latent, needs;
} arguments[] = {
    {ARG_WORK_INDPTR, TIR_I64, NOW, NOW, ALWAYS},
    {ARG_WORK_INFO, TIR_I64, NOW, NOW, ALWAYS},
    {ARG_KV_LENS, TIR_I64, SPARED, SPARED, ALWAYS},
    {ARG_BLOCK_TABLE, TIR_I64, NOW, NOW, BLOCK_TABLES},
    {ARG_KV_INDICES, TIR_I64, NOW, NOW, INDICES},
    {ARG_BLOCK_TABLE_STRIDE, TIR_I64, NOW, NOW, BLOCK_TABLES},
    {ARG_KV_INDPTR, TIR_I64, NOW, NOW, INDICES},
    {ARG_WORKGROUPS, TIR_I32, NOW, NOW, ALWAYS},
    {ARG_REDUCE_INDPTR, TIR_I64, NEVER, NOW, ALWAYS},
    {ARG_TICKETS, TIR_I64, NEVER, NOW, ONE_LAUNCH},
    {ARG_KV_HEADS, TIR_I32, SPARED, SPARED, ALWAYS},
    {ARG_MAX_SEQLEN_Q, TIR_I32, SPARED, SPARED, ALWAYS},
    {ARG_QO_INDPTR, TIR_I64, SPARED, SPARED, ALWAYS},
    {ARG_SCALE_LOG2, TIR_F32, NOW, NOW, ALWAYS},
    {ARG_K, TIR_I64, LATER, NOW, ALWAYS},
    {ARG_K_HEAD_STRIDE, TIR_I64, LATER, NEVER, ALWAYS},
    {ARG_K_PAGE_STRIDE, TIR_I64, LATER, NOW, ALWAYS},
    {ARG_K_TOKEN_STRIDE, TIR_I64, NEVER, NOW, ALWAYS},
    {ARG_K_SCALE, TIR_I64, NEVER, NOW, TENSOR_SCALES},
    {ARG_Q_SCALE, TIR_I64, NEVER, NOW, FP8_QUERIES},
    {ARG_V, TIR_I64, LATER, NEVER, ALWAYS},
    {ARG_V_HEAD_STRIDE, TIR_I64, LATER, NEVER, ALWAYS},
    {ARG_V_PAGE_STRIDE, TIR_I64, LATER, NEVER, ALWAYS},
    {ARG_Q, TIR_I64, LATER, NOW, ALWAYS},
    {ARG_Q_TOKEN_STRIDE, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_Q_HEAD_STRIDE, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_OUT, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_OUT_TOKEN_STRIDE, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_OUT_HEAD_STRIDE, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_HEADS, TIR_I32, NOW, NOW, ALWAYS},
    {ARG_PARTIAL_OUT, TIR_I64, LATER, LATER, ALWAYS},
    {ARG_PARTIAL_LSE, TIR_I64, NEVER, NOW, ALWAYS},
    {ARG_POSITIONS, TIR_I64, NOW, NOW, NEW_ROWS},
    {ARG_COS_SIN, TIR_I64, NOW, NOW, NEW_ROWS},
    {ARG_K_IN, TIR_I64, NOW, NOW, NEW_ROWS},
    {ARG_K_IN_TOKEN_STRIDE, TIR_I64, LATER, LATER, NEW_ROWS},
    {ARG_K_IN_HEAD_STRIDE, TIR_I64, LATER, LATER, NEW_ROWS},
    {ARG_V_IN, TIR_I64, LATER, LATER, NEW_ROWS},
    {ARG_V_IN_TOKEN_STRIDE, TIR_I64, LATER, LATER, NEW_ROWS},
    {ARG_V_IN_HEAD_STRIDE, TIR_I64, NOW, NOW, NEW_ROWS},
};
enum { N_ARGUMENTS = sizeof(arguments) / sizeof(arguments[0]) };

/* True if the kernel has the arguments of kind `needs`. */
static bool has(const struct split_kv *d, enum needs needs)
{
    const bool table = d->v->page_table == ATT_PAGE_TABLE_BLOCKS;
    const bool all[] = {
        [ALWAYS] = true,
        [BLOCK_TABLES] = table,
        [INDICES] = !table,
        [ONE_LAUNCH] = d->v->one_launch,
        [TENSOR_SCALES] = d->v->kv_scale == ATT_KV_SCALE_TENSOR,
        [FP8_QUERIES] = d->v->q_dtype == ATT_Q_DTYPE_FP8,
        [NEW_ROWS] = d->new_rows,
    };
    return all[needs];
}

void split_kv_load_arguments(struct split_kv *d, bool latent)
{
    struct tir_value loaded[N_ARGUMENTS];
    unsigned n = 0;
    for (unsigned i = 0; i < N_ARGUMENTS; i++) {
        const struct argument *const a = &arguments[i];
        const unsigned when = latent ? a->of_latent : a->of_two;
        if (when == NEVER || !has(d, (enum needs)a->needs))
            continue;
        tir_add_arg(d->b.f, a->name, a->dtype);
        if (when == NOW || (when == SPARED && !d->v->one_launch))
            loaded[n++] = tir_arg(&d->b, a->name, a->dtype);
    }
    for (unsigned i = 0; i < n; i++)
        tir_anchor(&d->b, loaded[i]);
}

/* Sets range[] to the row in q (i32) of the first query of sequence `sequence` (i32), and of the
 * query after its last one. */
static void find_queries(struct split_kv *d, struct tir_value sequence, struct tir_value range[2])
{
    struct tir_builder *b = &d->b;
    const struct tir_type i32[] = {tir_scalar(TIR_I32), tir_scalar(TIR_I32)};
    struct tir_if given = tir_begin_if(b, att_is_given(b, ARG_QO_INDPTR), false, i32, 2);
    const struct tir_value first = att_far_entry(b, ARG_QO_INDPTR, sequence, TIR_I32);
    const struct tir_value end = att_far_entry(b, ARG_QO_INDPTR, att_plus(b, sequence, 1), TIR_I32);
    tir_else(b, &given, (struct tir_value[]){first, end});
    const struct tir_value n = tir_arg(b, ARG_MAX_SEQLEN_Q, TIR_I32);
    range[0] = tir_mul(b, sequence, n);
    range[1] = tir_add(b, range[0], n);
    tir_end_if(b, &given, range);
}

/* Returns the number of keys (i32) of sequence `sequence` (i32), or with field sparse the number of
 * slots of its list. Without argument kv_lens a list has all slots of its row, or of its range in
 * kv_indptr. */
static struct tir_value count_keys(struct split_kv *d, struct tir_value sequence)
{
    struct tir_builder *b = &d->b;
    if (d->v->sparse == ATT_SPARSE_NONE)
        return att_far_entry(b, ARG_KV_LENS, sequence, TIR_I32);
    const struct tir_type i32 = tir_scalar(TIR_I32);
    struct tir_if given = tir_begin_if(b, att_is_given(b, ARG_KV_LENS), false, &i32, 1);
    const struct tir_value len = att_far_entry(b, ARG_KV_LENS, sequence, TIR_I32);
    tir_else(b, &given, &len);
    struct tir_value room;
    if (d->v->page_table == ATT_PAGE_TABLE_BLOCKS)
        room = tir_arg(b, ARG_LIST_ENTRIES, TIR_I32);
    else
        room = tir_sub(b, att_far_entry(b, ARG_KV_INDPTR, att_plus(b, sequence, 1), TIR_I32),
                       att_far_entry(b, ARG_KV_INDPTR, sequence, TIR_I32));
    room = att_page_first(&d->paging, room);
    tir_end_if(b, &given, &room);
    return room;
}

/* Indices of the words of an item. They come from the work list, or without a list from the
 * workgroup's number. KEYS_AFTER is the number of the sequence's keys after the item's last one. */
enum item_word { SEQUENCE, PARTIAL, FIRST_TOKEN, END_TOKEN, FIRST_KEY, END_KEY, KEYS_AFTER, HEAD };

/* Waits once for the item's words w[] and for the arguments in d->beside[], which are loaded
 * together. */
static void await_beside(struct split_kv *d, const struct tir_value w[WORK_WORDS])
{
    struct tir_value all[WORK_WORDS + SPLIT_KV_BESIDE];
    memcpy(all, w, WORK_WORDS * sizeof(w[0]));
    memcpy(all + WORK_WORDS, d->beside, d->n_beside * sizeof(w[0]));
    tir_anchor_all(&d->b, all, WORK_WORDS + d->n_beside);
}

/* Returns `heads` (i32), an index or a number of KV heads, times the number of query heads of a KV
 * head. */
static struct tir_value query_heads(struct split_kv *d, struct tir_value heads)
{
    if (d->head_groups <= 1)
        return tir_mul(&d->b, heads, d->gqa);
    return att_times(&d->b, heads, d->v->gqa);
}

struct tir_value split_kv_first_head(struct split_kv *d)
{
    const struct tir_value first = query_heads(d, d->item.kv_head);
    if (d->head_groups <= 1)
        return first;
    return tir_add(&d->b, first, tir_mul(&d->b, d->head_group, d->gqa));
}

unsigned split_kv_known_rows(const struct split_kv *d)
{
    return (unsigned)(d->v->gqa * d->v->q_len) / (d->head_groups ? d->head_groups : 1);
}

/* Returns the KV head (i32) of an item's first query head, which is in the low 16 bits of
 * `word`. */
static struct tir_value kv_head(struct split_kv *d, struct tir_value word)
{
    const struct tir_value head = tir_and(&d->b, word, tir_i32(&d->b, 0xffff));
    return tir_div(&d->b, head, d->head_groups > 1 ? tir_i32(&d->b, d->v->gqa) : d->gqa);
}

/* Sets w[] to the words of the item with index `index` (i32). HEAD becomes the KV head. With a work
 * list, the loads of d->beside[] are issued before a word of the item is used. */
static void read_item(struct split_kv *d, struct tir_value index, struct tir_value w[WORK_WORDS])
{
    struct tir_builder *b = &d->b;
    struct tir_type i32[WORK_WORDS];
    for (int i = 0; i < WORK_WORDS; i++)
        i32[i] = tir_scalar(TIR_I32);
    struct tir_if listed =
        tir_begin_if(b, att_is_given(b, ARG_WORK_INDPTR), false, i32, WORK_WORDS);
    const struct tir_value at = tir_shl(b, att_wide(b, index), tir_i64(b, 5));
    const struct tir_value item = att_at(b, ARG_WORK_INFO, at);
    for (int i = 0; i < WORK_WORDS; i++)
        w[i] = tir_scalar_load(b, item, tir_i32(b, 4 * i), TIR_I32);
    const bool beside = d->n_beside > 0;
    if (!beside)
        w[HEAD] = kv_head(d, w[HEAD]);
    tir_else(b, &listed, w);
    const struct tir_value kv_heads = tir_arg(b, ARG_KV_HEADS, TIR_I32);
    w[SEQUENCE] = tir_div(b, index, kv_heads);
    w[HEAD] = tir_sub(b, index, tir_mul(b, w[SEQUENCE], kv_heads));
    if (beside)
        w[HEAD] = query_heads(d, w[HEAD]);
    w[PARTIAL] = tir_i32(b, -1);
    find_queries(d, w[SEQUENCE], &w[FIRST_TOKEN]); /* also sets w[END_TOKEN], the next word */
    w[FIRST_KEY] = w[KEYS_AFTER] = tir_i32(b, 0);
    w[END_KEY] = count_keys(d, w[SEQUENCE]);
    tir_end_if(b, &listed, w);
    if (!beside)
        return;
    await_beside(d, w);
    w[HEAD] = kv_head(d, w[HEAD]);
}

/* Returns the address (i64) of the page numbers of sequence `sequence` (i32). */
static struct tir_value table_of(struct split_kv *d, struct tir_value sequence)
{
    struct tir_builder *b = &d->b;
    const struct tir_value four = tir_i64(b, 4);
    if (d->v->page_table == ATT_PAGE_TABLE_BLOCKS) {
        const struct tir_value stride =
            tir_mul(b, tir_arg(b, ARG_BLOCK_TABLE_STRIDE, TIR_I64), four);
        return att_at(b, ARG_BLOCK_TABLE, tir_mul(b, att_wide(b, sequence), stride));
    }
    const struct tir_value first = att_wide(b, att_far_entry(b, ARG_KV_INDPTR, sequence, TIR_I32));
    return att_at(b, ARG_KV_INDICES, tir_mul(b, first, four));
}

/* Returns the alignment of an item's first key: the key's index is a multiple of the result. Loads
 * of blocks, or groups, of keys begin at a block of the page. Other loads begin at the first
 * visible key, since rows before it may hold anything. */
static int alignment(const struct split_kv *d)
{
    if (!split_kv_by_lane(d->v) || (d->v->page_size && d->v->page_size % SPLIT_KV_BLOCK == 0))
        return SPLIT_KV_BLOCK;
    return att_is_shuffled(d->v) ? 16 / (int)d->kv_bytes : 1;
}

/* Reduces the item's range of keys to the keys that at least one of its queries sees. */
static void narrow_to_window(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    struct split_kv_item *const item = &d->item;
    const struct tir_value first =
        att_first_seen(b, d->v, att_reach(b, d->v), tir_add(b, item->diagonal, item->first_token));
    item->first_key =
        tir_max(b, item->first_key,
                tir_and(b, tir_max(b, first, tir_i32(b, 0)), tir_i32(b, -alignment(d))));
    if (d->v->mask != ATT_MASK_WINDOW)
        return;
    const struct tir_value right = tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32);
    const struct tir_value end = tir_add(b, tir_add(b, item->diagonal, item->end_token), right);
    item->end_key = tir_min(b, item->end_key, end);
}

void split_kv_find_item(struct split_kv *d, struct tir_value index)
{
    struct tir_builder *b = &d->b;
    struct tir_value w[WORK_WORDS];
    const bool lists = d->v->sparse != ATT_SPARSE_NONE;
    d->paging = lists ? att_paging_of_lists(b, d->v) : att_paging(b, d->v);
    read_item(d, index, w);
    struct split_kv_item *const item = &d->item;
    *item = (struct split_kv_item){
        .sequence = w[SEQUENCE],
        .kv_head = w[HEAD],
        .partial = w[PARTIAL],
        .first_token = w[FIRST_TOKEN],
        .end_token = w[END_TOKEN],
        .first_key = w[FIRST_KEY],
        .end_key = w[END_KEY],
        .kv_len = tir_add(b, w[END_KEY], w[KEYS_AFTER]),
        .table = table_of(d, w[SEQUENCE]),
    };
    item->diagonal = tir_sub(b, item->kv_len, item->end_token);
    if (att_hides_early(d->v))
        narrow_to_window(d);
}

void split_kv_find_items(struct split_kv *d, struct tir_value range[2])
{
    struct tir_builder *b = &d->b;
    const struct tir_type i32[] = {tir_scalar(TIR_I32), tir_scalar(TIR_I32)};
    /* With this anchor the argument is loaded in the same round as the list's ends, not in a later
     * one. */
    tir_anchor(b, tir_arg(b, ARG_WORK_INFO, TIR_I64));
    struct tir_value group = d->list.id ? d->list : tir_block_id(b, 0);
    if (d->neighbours)
        group = att_xcd_item(b, group, tir_i32(b, 0), tir_arg(b, ARG_WORKGROUPS, TIR_I32));
    struct tir_if listed = tir_begin_if(b, att_is_given(b, ARG_WORK_INDPTR), false, i32, 2);
    range[0] = att_far_entry(b, ARG_WORK_INDPTR, group, TIR_I32);
    range[1] = att_far_entry(b, ARG_WORK_INDPTR, att_plus(b, group, 1), TIR_I32);
    tir_else(b, &listed, range);
    range[0] = group;
    range[1] = att_plus(b, group, 1);
    tir_end_if(b, &listed, range);
}

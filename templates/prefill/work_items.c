/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefill by work lists: a workgroup works on the items of its list, one after the other. An item
 * is a range of keys for a tile of queries and the heads that share a KV head (docs/planning.md).
 * These heads are rows of one product, as in decode: row r is query r / gqa and head r % gqa. So a
 * short sequence fills the rows of a tile with its heads, and K and V are read once for all of
 * them.
 */
#include "ir/bits.h"
#include "templates/prefill/item_parts.h"
#include "templates/prefill/item_rows.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/scalar.h"

/* Indices of the i32 words of an item in the argument work_info: see struct attn_decode_plan. */
enum word {
    SEQUENCE,
    PARTIAL,
    FIRST_TOKEN,
    END_TOKEN,
    FIRST_KEY,
    END_KEY,
    KEYS_AFTER,
    HEADS,
    N_WORDS,
};

/* ---- The words of an item, and the keys that its queries see ---- */

/* True if a mask or a hook needs the numbers of queries and keys of the whole sequence. False: the
 * ranges in the item are enough. */
static bool needs_sequence(const struct att_variant *v)
{
    return v->logits || v->mask == ATT_MASK_WINDOW || att_has_mask_rows(v);
}

/* Sets the sequence's lengths in p->work and p->item.position from the words w of the item. Without
 * needs_sequence() the item's last query counts as the sequence's last one. */
static void find_sequence(struct prefill *p, const struct tir_value w[N_WORDS])
{
    struct tir_builder *b = &p->b;
    const struct tir_value keys = tir_add(b, w[END_KEY], w[KEYS_AFTER]);
    p->work.kv_len = keys;
    p->work.q_len = tir_sub(b, w[END_TOKEN], w[FIRST_TOKEN]);
    p->item.position = tir_sub(b, keys, p->work.q_len);
    p->work.q_begin = w[FIRST_TOKEN];
    if (!needs_sequence(p->v))
        return;
    const struct tir_value first = att_far_entry(b, ARG_CU_SEQLENS_Q, w[SEQUENCE], TIR_I32);
    const struct tir_value end =
        att_far_entry(b, ARG_CU_SEQLENS_Q, att_plus(b, w[SEQUENCE], 1), TIR_I32);
    p->work.kv_len = att_far_entry(b, ARG_KV_LENS, w[SEQUENCE], TIR_I32);
    p->work.q_begin = first;
    p->work.q_len = tir_sub(b, end, first);
    p->item.position = tir_add(b, tir_sub(b, p->work.kv_len, end), w[FIRST_TOKEN]);
}

/* Loads the words of item `index` (i32) of work_info to w[], as scalars. */
static void load_item(struct prefill *p, struct tir_value index, struct tir_value w[N_WORDS])
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_shl(b, att_wide(b, index), tir_i64(b, 5));
    const struct tir_value item = att_at(b, ARG_WORK_INFO, at);
    for (int i = 0; i < N_WORDS; i++)
        w[i] = tir_scalar_load(b, item, tir_i32(b, 4 * i), TIR_I32);
    tir_anchor_all(b, w, N_WORDS);
}

/* Sets p->item and p->work to the item with index `index` (i32) of work_info. */
static void read_item(struct prefill *p, struct tir_value index)
{
    struct tir_builder *b = &p->b;
    struct tir_value w[N_WORDS];
    load_item(p, index, w);
    p->item.partial = w[PARTIAL];
    p->item.first_token = w[FIRST_TOKEN];
    p->item.end_key = w[END_KEY];
    p->item.n_rows = tir_mul(b, tir_sub(b, w[END_TOKEN], w[FIRST_TOKEN]), p->item.gqa);
    p->work.sequence = w[SEQUENCE];
    p->work.kv_head = tir_div(b, tir_and(b, w[HEADS], tir_i32(b, 0xffff)), p->item.gqa);
    p->work.first_key = w[FIRST_KEY];
    find_sequence(p, w);
}

/* Sets at->lowest and at->highest to the least and the largest key position of the wave's
 * queries. */
static void find_bounds(struct prefill *p, struct att_position *at)
{
    struct tir_builder *b = &p->b;
    const int waves = (int)(p->tile->waves / prefill_groups(p));
    const struct tir_value wave = tir_and(b, tir_wave_id(b), tir_i32(b, waves - 1));
    const struct tir_value row = tir_add(b, p->work.row0, att_times(b, wave, (int)p->tile->rows));
    const struct tir_value last = att_plus(b, row, (int)p->tile->rows - 1);
    at->lowest = tir_add(b, p->item.position, tir_div(b, row, p->item.gqa));
    at->highest = tir_add(b, p->item.position, tir_div(b, last, p->item.gqa));
}

/* Raises work.first_key to the first key that a row of the pass sees with a sliding window, rounded
 * down to a multiple of 16. */
static void narrow_to_window(struct prefill *p)
{
    enum { GRAIN = 16 };
    struct tir_builder *b = &p->b;
    const struct tir_value seen =
        att_first_seen(b, p->v, p->attention.at.reach, prefill_first_position(p));
    const struct tir_value from = tir_and(b, tir_max(b, seen, tir_i32(b, 0)), tir_i32(b, -GRAIN));
    p->work.first_key = tir_max(b, p->work.first_key, from);
}

void prefill_find_item_position(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    struct att_position *const at = &p->attention.at;
    const struct tir_type t = tir_with_dtype(p->attention.softmax.vector, TIR_I32);
    const struct prefill_rows r = prefill_find_rows(p, tir_col_index(b, t));
    const bool window = p->v->mask == ATT_MASK_WINDOW;
    *at = (struct att_position){
        .q_len = p->work.q_len,
        .kv_len = p->work.kv_len,
        .end = p->item.end_key,
        .diagonal = tir_add(b, r.token, att_like(b, p->item.position, r.token)),
        .right = window ? tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32) : tir_i32(b, 0),
        .head = r.head,
    };
    find_bounds(p, at);
    if (att_hides_early(p->v)) {
        at->reach = att_reach(b, p->v);
        narrow_to_window(p);
    }
    if (!att_has_mask_rows(p->v))
        return;
    const struct tir_value before = tir_sub(b, p->item.first_token, p->work.q_begin);
    at->mask_row = att_mask_row(&p->attention, p->work.sequence,
                                tir_add(b, r.token, att_like(b, before, r.token)));
    prefill_find_last_keys(p);
}

/* ---- The loops over items and passes ---- */

/* Loads the arguments that items need before the loop over items. In the loop, each use would wait
 * for a load. */
static void read_arguments(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value loaded[] = {
        tir_arg(b, ARG_WORK_INDPTR, TIR_I64),
        tir_arg(b, ARG_WORK_INFO, TIR_I64),
        tir_arg(b, ARG_Q, TIR_I64),
    };
    tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]));
}

/* Builds the workgroup's share in adding up the partials of the work tile of item `index` (i32).
 * `end` (i32): index after the last item of the workgroup's list. Loads the item again, so that no
 * loop keeps its words in registers. */
static void share_part(struct prefill *p, struct tir_value index, struct tir_value end)
{
    struct tir_builder *b = &p->b;
    const struct tir_value again = tir_materialize(b, index);
    struct tir_value w[N_WORDS];
    load_item(p, again, w);
    prefill_share_part(p, &(struct prefill_part){
                              .row = w[PARTIAL],
                              .first_token = w[FIRST_TOKEN],
                              .end_token = w[END_TOKEN],
                              .first_head = tir_and(b, w[HEADS], tir_i32(b, 0xffff)),
                              .last = tir_cmp_ge(b, att_plus(b, again, 1), end),
                          });
}

/* Returns log2 of the length of a run: the largest power of two that is at most the number of
 * compute units of an XCD. So the lists of a run begin at the same time, one on each unit. */
static unsigned run_bits(const struct tir_machine *m)
{
    unsigned bits = 0;
    while (2u << bits <= m->cus / m->xcds)
        bits++;
    return bits;
}

/* Returns the index (i32) of the workgroup's work list. If workgroups share a compute unit, items
 * are short, and waves wait for each item's first keys. Runs of consecutive lists are then on one
 * XCD, whose L2 has the keys that these lists share. With longer runs, some XCDs would idle if only
 * the first lists have items. Lists after the last full round over the XCDs keep their places. */
static struct tir_value find_list(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value place = tir_block_id(b, 0);
    if (prefill_residents(p->tile) == 1)
        return place;
    const int xcds = (int)p->m->xcds;
    const int bits = (int)run_bits(p->m), near = 1 << bits, round = near * xcds;
    const struct tir_value whole =
        tir_and(b, tir_arg(b, ARG_WORKGROUPS, TIR_I32), tir_i32(b, -round));
    const struct tir_value xcd = tir_and(b, place, tir_i32(b, xcds - 1));
    const struct tir_value in_xcd =
        tir_and(b, tir_shr(b, place, tir_i32(b, (int)tir_bits(p->m->xcds))), tir_i32(b, near - 1));
    const struct tir_value begin = tir_and(b, place, tir_i32(b, -round));
    const struct tir_value run = tir_shl(b, xcd, tir_i32(b, bits));
    const struct tir_value list = tir_add(b, begin, tir_add(b, run, in_xcd));
    return tir_select(b, tir_cmp_lt(b, place, whole), list, place);
}

void prefill_walk_items(struct prefill *p, void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const struct tir_value one = tir_i32(b, 1), list = find_list(p);
    const struct tir_value queries = tir_i32(b, (int)prefill_queries(p));
    read_arguments(p);
    p->item.gqa = p->v->gqa ? tir_i32(b, p->v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    const struct tir_value begin = att_far_entry(b, ARG_WORK_INDPTR, list, TIR_I32);
    const struct tir_value end = att_far_entry(b, ARG_WORK_INDPTR, att_plus(b, list, 1), TIR_I32);
    struct tir_loop items = tir_begin_for(b, begin, end, one, NULL, 0);
    read_item(p, items.index);
    const struct tir_value first = p->work.first_key;
    struct tir_loop pass = tir_begin_for(b, tir_i32(b, 0), p->item.n_rows, queries, NULL, 0);
    p->work.row0 = pass.index;
    p->work.first_key = first;
    attend(p);
    /* Copies of V's rows after the last key may be in flight. */
    tir_wait(b, PREFILL_COPIES_OF_V, 0);
    prefill_await_keys(p);
    prefill_finish(p, &p->staging.o);
    tir_barrier(b); /* after it, other waves store rows of the next Q in O's place */
    tir_end_for(b, &pass, NULL, 0);
    if (p->v->one_launch)
        share_part(p, items.index, end);
    tir_end_for(b, &items, NULL, 0);
}

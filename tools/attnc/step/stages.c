/* SPDX-License-Identifier: Apache-2.0
 *
 * This file adds the stages that several kinds of layers have: attention with all its ways, and the
 * choice of an indexer.
 */
#include "tools/attnc/step/stages.h"

#include <stdio.h>
#include <string.h>

#include "runtime/attn.h"
#include "targets/tgt.h"

enum {
    /* Keys of the short sequence that struct step_way's `probe` has. */
    PROBE_KEYS = 64,
    ANY_PAGE = 16, /* tokens of a page if the deployment fixes no size */
    /* The most groups of a list for which attnc trace can make inputs of chosen_lists. */
    LISTED_GROUPS = 4096
};

/* Limits of rope_decode. */
enum {
    WHOLE_QUERIES = 8, /* most new tokens of a sequence */
    WHOLE_BATCH = 64,  /* most sequences */
};

void step_add_field(struct step_call *c, enum att_field field, int value)
{
    c->fields[c->field_count].field = field;
    c->fields[c->field_count++].value = value;
}

struct step_call *step_add_launch(struct step_way *w, const char *op)
{
    struct step_call *c = &w->launches[w->count++].call;
    c->op = op;
    return c;
}

struct step_way *step_add_way(struct step_stage *stage, const char *name, const char *op)
{
    struct step_way *w = &stage->ways[stage->count++];
    w->name = name;
    step_add_launch(w, op);
    return w;
}

struct step_call *step_add_call(struct step_kind *k, const char *op)
{
    return &step_add_way(&k->stages[k->count++], op, op)->launches[0].call;
}

long step_page_size(const struct step_load *l) { return l->page_size ? l->page_size : ANY_PAGE; }

/* Writes the shape of an attention launch over `batch` sequences of `keys` keys to `text`,
 * TUNE_SHAPE_TEXT bytes. */
static void write_shape(const struct step_attention *a, long batch, long keys, char *text)
{
    const int n = snprintf(
        text, TUNE_SHAPE_TEXT, "batch=%ld,k=%ld,q=%ld,heads=%ld,kv_heads=%ld,page_size=%ld", batch,
        keys, a->queries, a->heads, a->kv_heads, a->page ? a->page : step_page_size(a->load));
    if (a->window)
        snprintf(text + n, TUNE_SHAPE_TEXT - (size_t)n, ",window=%ld", a->window);
}

/* Writes the shape of one short sequence, for which the same kernels are made, to `text`,
 * TUNE_SHAPE_TEXT bytes. */
static void write_probe(const struct step_attention *a, char *text)
{
    write_shape(a, 1, PROBE_KEYS > a->queries ? PROBE_KEYS : a->queries, text);
}

void step_add_dims(struct step_call *c, long head_dim, long head_dim_v)
{
    step_add_field(c, ATT_HEAD_DIM, (int)head_dim);
    step_add_field(c, ATT_HEAD_DIM_V, (int)head_dim_v);
}

void step_add_decode(struct step_stage *stage, const struct step_attention *a, const char *name,
                     bool whole, bool split, bool one_launch)
{
    struct step_way *w = step_add_way(stage, name, whole && a->rope ? "rope_decode" : a->op);
    struct step_call *c = &w->launches[0].call;
    step_add_dims(c, a->head_dim, a->head_dim_v);
    step_add_field(c, ATT_GQA, (int)(a->heads / a->kv_heads));
    step_add_field(c, ATT_Q_LEN, (int)a->queries);
    step_add_field(c, ATT_MASK, a->mask);
    step_add_field(c, ATT_SPARSE, a->sparse);
    step_add_field(c, ATT_SINKS, a->sinks);
    step_add_field(c, ATT_ONE_LAUNCH, one_launch);
    step_add_field(c, ATT_PRODUCT_DIM, (int)a->product);
    if (a->page)
        step_add_field(c, ATT_PAGE_SIZE, (int)a->page);
    for (unsigned i = 0; whole && a->rope && i < a->rope->field_count; i++) {
        const enum att_field field = a->rope->fields[i].field;
        if (field == ATT_ROPE || field == ATT_ROTARY_DIM)
            step_add_field(c, field, a->rope->fields[i].value);
    }
    w->whole = whole;
    w->split = split;
    write_shape(a, a->batch, a->keys, c->shape);
    write_probe(a, w->probe);
}

/* Adds a way of prefill over a paged cache. `planned`: a plan splits the keys. `one_launch`: the
 * launch also adds the split-KV partials. */
static void add_paged_prefill(struct step_stage *stage, const struct step_attention *a,
                              const char *name, bool planned, bool one_launch)
{
    struct step_way *w = step_add_way(stage, name, "prefill");
    struct step_call *c = &w->launches[0].call;
    step_add_dims(c, a->head_dim, a->head_dim_v);
    step_add_field(c, ATT_MASK, a->mask);
    step_add_field(c, ATT_SINKS, a->sinks);
    step_add_field(c, ATT_PAGED, true);
    step_add_field(c, ATT_PLANNED, planned);
    step_add_field(c, ATT_ONE_LAUNCH, one_launch);
    w->split = planned;
    write_shape(a, a->batch, a->keys, c->shape);
    write_probe(a, w->probe);
}

void step_add_attention(struct step_kind *k, const struct step_attention *a)
{
    struct step_stage *stage = &k->stages[k->count++];
    stage->name = "Attention";
    if (a->queries <= STEP_DECODE_QUERIES) {
        step_add_decode(stage, a, "one launch", false, true, true);
        step_add_decode(stage, a, "plan and combine", false, true, false);
        step_add_decode(stage, a, "no plan", false, false, false);
    }
    if (a->rope && a->queries <= WHOLE_QUERIES && a->batch <= WHOLE_BATCH) {
        step_add_decode(stage, a, "rope_decode in one launch", true, true, true);
        step_add_decode(stage, a, "rope_decode, no plan", true, false, true);
    }
    if (a->queries > 1 && !strcmp(a->op, "decode")) {
        add_paged_prefill(stage, a, "planned prefill in one launch", true, true);
        add_paged_prefill(stage, a, "planned prefill and combine", true, false);
        add_paged_prefill(stage, a, "paged prefill", false, false);
    }
}

/* The functions from here on list the launches that choose keys by an indexer. */

/* Returns into how many parts libattn cuts the keys of a row of indexer_topk; 1: it does not cut
 * them. */
static long parts_of(const struct step_load *l, const struct step_index *x)
{
    const struct attn_indexer_topk_desc desc = {.size = sizeof(desc),
                                                .top_k = (int32_t)x->top_k,
                                                .top_blocks = (int32_t)x->top_blocks,
                                                .listed = x->listed};
    const struct attn_indexer_topk_shape shape = {.size = sizeof(shape),
                                                  .rows = (int32_t)x->rows,
                                                  .max_keys = (int32_t)x->scored,
                                                  .compute_units =
                                                      (int32_t)tgt_find(l->target)->machine.cus};
    struct attn_indexer_topk_workspace w;
    return attn_indexer_topk_workspace_size(&desc, &shape, &w) ? 1 : w.splits;
}

/* Adds a launch of topk to a way. It merges the `parts` lists of each row, `top_k` entries each. */
static void add_merge(struct step_way *w, long rows, long parts, long top_k)
{
    struct step_call *c = step_add_launch(w, "topk");
    step_add_field(c, ATT_TOP_K, (int)top_k);
    snprintf(c->shape, sizeof(c->shape), "rows=%ld,columns=%ld", rows, parts * top_k);
}

/* Adds a way with a launch of indexer_topk that cuts each row's keys into `parts` parts and selects
 * in each part. Returns the way. */
static struct step_way *add_choice(struct step_stage *stage, const struct step_index *x,
                                   const char *name, long parts)
{
    struct step_way *w = step_add_way(stage, name, "indexer_topk");
    struct step_call *c = &w->launches[0].call;
    const bool small = x->page < 32 || (x->page & (x->page - 1));
    step_add_field(c, ATT_TOP_BLOCKS, (int)x->top_blocks);
    step_add_field(c, ATT_LISTED, x->listed);
    step_add_field(c, ATT_SMALL_PAGES, small);
    snprintf(c->shape, sizeof(c->shape), "rows=%ld,keys=%ld,page=%ld,splits=%ld", x->rows, x->keys,
             x->page, parts);
    return w;
}

void step_add_index(struct step_kind *k, const struct step_load *l, const struct step_index *x)
{
    struct step_stage *stage = &k->stages[k->count++];
    const long parts = parts_of(l, x);
    stage->name = "Choice";
    add_choice(stage, x, "whole rows", 1);
    if (parts == 1)
        return;
    struct step_way *w = add_choice(stage, x, "parts and topk", parts);
    if (!x->only_blocks)
        add_merge(w, x->rows, parts, x->top_k);
    if (x->top_blocks)
        add_merge(w, x->rows, parts, x->top_blocks);
}

void step_add_index_queries(struct step_kind *k, const struct step_load *l,
                            const struct step_index *x, long heads)
{
    struct step_call *c = step_add_call(k, "indexer_rope_cache");
    snprintf(c->shape, sizeof(c->shape), "heads=%ld,tokens=%ld,page=%ld", heads,
             l->batch * l->queries, x->page);
}

void step_add_lists(struct step_kind *k, long tokens, const struct step_lists *x)
{
    const long groups = x->groups < LISTED_GROUPS ? x->groups : LISTED_GROUPS;
    struct step_call *c = step_add_call(k, "chosen_lists");
    snprintf(c->shape, sizeof(c->shape), "queries=%ld,keys=%ld,ratio=%ld,top_k=%ld,kv_heads=%ld",
             tokens, x->keys, x->ratio, groups, x->kv_heads);
}

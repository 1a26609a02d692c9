/* SPDX-License-Identifier: Apache-2.0
 *
 * This file lists the calls of layers that attend to groups of tokens; docs/pooled.md describes
 * these layers. DeepSeek-V4 has a pooled row for each group, and attends to such rows beside a
 * window. MiniMax-M3 and Qwen3.8-Flash-Next attend to the keys of the groups that an indexer
 * chooses.
 */
#include <stdio.h>
#include <string.h>

#include "tools/attnc/step/stages.h"

enum {
    INDEX_DIM = 128, /* elements of an indexer's key */
    /* Tokens of a group in calls of layers without groups, the most that chosen_lists accepts.
     * Lists then have little but the window. */
    MOST_RATIO = 4096
};

/* Returns the lesser of two numbers. */
static long least(long a, long b) { return a < b ? a : b; }

/* Returns the new tokens of all sequences of a step. */
static long tokens_of(const struct step_load *l) { return l->batch * l->queries; }

long step_pool_page(const struct step_load *l, long pool)
{
    const long page = step_page_size(l) / pool;
    return page > 0 ? page : 1;
}

/* Adds a launch of compress, which makes a row of `dim` elements from each `ratio` tokens. Returns
 * its call. */
static struct step_call *add_compress(struct step_kind *k, const struct step_load *l, long dim,
                                      long ratio)
{
    struct step_call *c = step_add_call(k, "compress");
    step_add_field(c, ATT_HEAD_DIM, (int)dim);
    snprintf(c->shape, sizeof(c->shape), "ratio=%ld,batch=%ld,length=%ld", ratio, l->batch,
             l->queries);
    return c;
}

/* Adds a launch of rope_heads for `tokens` tokens with `heads` heads of `dim` elements. Returns its
 * call. */
static struct step_call *add_heads(struct step_kind *k, long dim, long tokens, long heads)
{
    struct step_call *c = step_add_call(k, "rope_heads");
    step_add_field(c, ATT_HEAD_DIM, (int)dim);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld", tokens, heads);
    return c;
}

void step_add_pooled_keys(struct step_kind *k, const struct step_load *l, long pool, long heads)
{
    struct step_call *c = add_heads(k, INDEX_DIM, tokens_of(l), heads);
    step_add_field(c, ATT_NORM, ATT_NORM_RMS);
    add_compress(k, l, INDEX_DIM, pool);
}

/* The functions from here on list launches of layers that attend to pooled rows beside a window. */

/* Returns which rows the layers of a share attend to, for the name of their kind. */
static const char *name_of(const struct model_share *s)
{
    static const char *const levels[] = {
        [MODEL_ALL_ROWS] = "its own choice",
        [MODEL_ROWS_BLOCKS] = "its own choice, and blocks",
        [MODEL_ROWS_OF_BLOCKS] = "its own choice in blocks",
    };
    return s->chooses ? levels[s->level] : "a layer's before";
}

/* Writes the name of the kind of layers that a share is, such as "window 128, every row of 4". */
static void name_share(const struct model_group *g, const struct model_share *s, char name[64])
{
    const int n = snprintf(name, 64, "window %ld", g->window);
    if (s->pool && s->chosen)
        snprintf(name + n, 64 - (size_t)n, ", rows of %ld: %s", s->pool, name_of(s));
    else if (s->pool)
        snprintf(name + n, 64 - (size_t)n, ", every row of %ld", s->pool);
}

/* Returns the group of layers that a share belongs to. */
static const struct model_group *group_of(const struct model *m, const struct model_share *s)
{
    unsigned i = 0;
    while (i + 1 < m->group_count &&
           (m->groups[i].pool != s->pool || m->groups[i].chosen != s->chosen))
        i++;
    return &m->groups[i];
}

/* Returns how many pooled rows a sequence has; 0: the layers attend to a window only. */
static long rows_of(const struct step_load *l, const struct model_share *s)
{
    return s->pool ? l->context / s->pool : 0;
}

/* Adds the launches of the indexer, for a share whose layers choose rows. These make the indexer's
 * keys, unless it shares the layer's rows, then its queries and the choice. */
static void add_share_choice(struct step_kind *k, const struct model *m,
                             const struct model_share *s, const struct step_load *l)
{
    const struct model_pooled *p = &m->pooled;
    const long keys = rows_of(l, s) ? rows_of(l, s) : 1;
    const bool listed = s->level == MODEL_ROWS_OF_BLOCKS;
    const struct step_index x = {
        .rows = tokens_of(l),
        .keys = keys,
        .scored = listed ? least(keys, p->top_blocks * p->block_size) : keys,
        .page = step_pool_page(l, s->pool),
        .top_k = p->index_topk,
        .top_blocks = s->level == MODEL_ROWS_BLOCKS ? p->top_blocks : 0,
        .listed = listed,
    };
    if (!p->shared)
        add_compress(k, l, INDEX_DIM, s->pool);
    step_add_index_queries(k, l, &x, p->index_heads);
    step_add_index(k, l, &x);
}

/* Adds the launches of attention over a list of rows for each query, and of the rotation of its
 * output. */
static void add_list_attention(struct step_kind *k, const struct model *m,
                               const struct model_group *g, const struct model_share *s,
                               const struct step_load *l)
{
    const long rows = rows_of(l, s);
    const long groups = s->chosen ? least(m->pooled.index_topk, rows) : rows;
    /* A list names rows of the window in the layer's own cache, so that each layer makes its
     * lists. */
    step_add_lists(
        k, tokens_of(l),
        &(struct step_lists){l->context, s->pool ? s->pool : MOST_RATIO, groups ? groups : 1, 1});
    const struct step_attention a = {
        .op = "mla_decode",
        .load = l,
        .head_dim = g->head_dim,
        .head_dim_v = g->head_dim,
        .heads = k->heads,
        .kv_heads = 1,
        .batch = tokens_of(l),
        .queries = 1,
        .keys = groups + least(g->window, l->context),
        .mask = ATT_MASK_CAUSAL,
        .sparse = ATT_SPARSE_SLOTS,
        .sinks = g->sinks,
    };
    step_add_attention(k, &a);
    step_add_field(add_heads(k, g->head_dim, tokens_of(l), k->heads), ATT_NORM, ATT_NORM_NONE);
}

/* Adds the layers of a share as a kind, with all their launches. */
static void list_share(const struct model *m, const struct model_share *s, struct step *step)
{
    struct step_kind *k = &step->kinds[step->kind_count++];
    const struct step_load *l = &step->load;
    const struct model_group *g = group_of(m, s);
    struct rank_heads r;
    share_heads(g, l->ranks, &r);
    name_share(g, s, k->name);
    k->layers = s->layers;
    k->heads = r.heads;
    k->kv_heads = 1;
    if (m->pooled.q_lora_rank > 0) {
        struct step_call *c = step_add_call(k, "qk_rmsnorm");
        snprintf(c->shape, sizeof(c->shape), "tokens=%ld", tokens_of(l));
    }
    step_add_field(add_heads(k, g->head_dim, tokens_of(l), r.heads), ATT_NORM,
                   m->pooled.shared ? ATT_NORM_NONE : ATT_NORM_RMS);
    struct step_call *const window = add_compress(k, l, g->head_dim, 1);
    if (l->fp8_windows)
        step_add_field(window, ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED_MXFP8);
    if (s->makes)
        add_compress(k, l, g->head_dim, s->pool);
    if (s->chooses)
        add_share_choice(k, m, s, l);
    add_list_attention(k, m, g, s, l);
}

void step_list_rows(const struct model *m, struct step *s)
{
    for (unsigned i = 0; i < m->pooled.share_count; i++)
        list_share(m, &m->pooled.shares[i], s);
}

/* The functions from here on list launches of layers that attend to the keys of chosen groups. */

/* Adds the launches of the indexer. A pooled indexer has a key for each group of tokens.
 * MiniMax-M3's has a key for each token, and chooses for each KV head with a head of its own. */
static void add_choice(struct step_kind *k, const struct model_choice *c, const struct step_load *l)
{
    const long keys = c->pooled ? l->context / c->group : l->context;
    const long heads = c->pooled ? c->heads : k->kv_heads;
    const struct step_index x = {
        .rows = tokens_of(l) * (c->pooled ? 1 : k->kv_heads),
        .keys = keys ? keys : 1,
        .scored = keys ? keys : 1,
        .page = c->pooled ? step_pool_page(l, c->group) : step_page_size(l),
        .top_k = c->top,
        .top_blocks = c->pooled ? 0 : c->top,
        .only_blocks = !c->pooled,
    };
    if (c->pooled) {
        step_add_pooled_keys(k, l, c->group, heads);
    } else {
        step_add_field(add_heads(k, INDEX_DIM, tokens_of(l), heads), ATT_NORM, ATT_NORM_RMS);
        step_add_index_queries(k, l, &x, heads);
    }
    step_add_index(k, l, &x);
}

void step_list_choice(const struct model *m, struct step *s)
{
    struct step_kind *k = &s->kinds[s->kind_count++];
    const struct step_load *l = &s->load;
    const struct model_choice *c = &m->choice;
    const struct model_group *g = &m->groups[0];
    struct rank_heads r;
    share_heads(g, l->ranks, &r);
    snprintf(k->name, sizeof(k->name), "%ld chosen groups of %ld", c->top, c->group);
    k->layers = c->layers;
    k->heads = r.heads;
    k->kv_heads = r.kv_heads;
    step_add_rope(k, m, g, l, tokens_of(l));
    add_choice(k, c, l);
    const long lists = c->pooled ? 1 : r.kv_heads; /* lists of each query */
    step_add_lists(k, tokens_of(l), &(struct step_lists){l->context, c->group, c->top, lists});
    const struct step_attention a = {
        .op = "decode",
        .load = l,
        .head_dim = g->head_dim,
        .head_dim_v = g->head_dim_v,
        .heads = r.heads / lists,
        .kv_heads = r.kv_heads / lists,
        .batch = tokens_of(l) * lists,
        .queries = 1,
        .keys = least(c->top * c->group, l->context),
        .page = c->pooled || l->page_size ? list_page_size(l->page_size, c->group) : 0,
        .mask = ATT_MASK_CAUSAL,
        .sinks = g->sinks,
    };
    step_add_attention(k, &a);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file lists the calls of each kind of layer; docs/decode.md and docs/latent.md describe them.
 * The fields of a call select one kernel among those that attnc describe writes for the model.
 */
#include <stdio.h>
#include <string.h>

#include "tools/attnc/describe/describe_mixers.h"
#include "tools/attnc/step/stages.h"

enum {
    /* Most new tokens of a step with which latent layers multiply by W_UK or W_UV inside another
     * launch. */
    PRODUCT_TOKENS = 64
};

/* The functions from here on list launches of layers with a key and a value per KV head. */

/* Returns the window in tokens, at most STEP_MOST_KEYS, since no sequence is longer; 0: none. */
static long window_of(const struct model_group *g)
{
    return g->window < STEP_MOST_KEYS ? g->window : STEP_MOST_KEYS;
}

/* Returns the mask of the attention of a group of layers. */
static enum att_mask mask_of(const struct model_group *g)
{
    return g->window      ? ATT_MASK_WINDOW
           : g->chunk     ? ATT_MASK_CHUNK
           : g->both_ways ? ATT_MASK_NONE
                          : ATT_MASK_CAUSAL;
}

const struct step_call *step_add_rope(struct step_kind *k, const struct model *m,
                                      const struct model_group *g, const struct step_load *l,
                                      long tokens)
{
    static const enum att_rope ropes[] = {[MODEL_ROPE_NO_ROPE] = ATT_ROPE_NONE,
                                          [MODEL_ROPE_NEOX] = ATT_ROPE_NEOX,
                                          [MODEL_ROPE_GPTJ] = ATT_ROPE_GPTJ};
    struct step_call *c = step_add_call(k, "rope_qk_norm_cache");
    step_add_dims(c, g->head_dim, g->head_dim_v);
    step_add_field(c, ATT_ROPE, ropes[g->rotates ? m->rope : MODEL_ROPE_NO_ROPE]);
    if (g->rotates)
        step_add_field(c, ATT_ROTARY_DIM, (int)g->rotary_dim);
    step_add_field(c, ATT_MROPE, ATT_MROPE_NONE);
    step_add_field(c, ATT_KEEP_KV, g->both_ways);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,kv_heads=%ld,page_size=%ld", tokens,
             k->heads, k->kv_heads, step_page_size(l));
    return c;
}

/* Adds a launch of prefill over whole sequences in tensors, for layers without a causal mask, such
 * as an encoder's. */
static void add_encoder(struct step_kind *k, const struct model_group *g, const struct step_load *l)
{
    struct step_call *c = step_add_call(k, "prefill");
    step_add_dims(c, g->head_dim, g->head_dim_v);
    step_add_field(c, ATT_MASK, mask_of(g));
    step_add_field(c, ATT_SINKS, g->sinks);
    step_add_field(c, ATT_PAGED, false);
    step_add_field(c, ATT_PLANNED, false);
    const int n =
        snprintf(c->shape, sizeof(c->shape), "batch=%ld,q=%ld,k=%ld,heads=%ld,kv_heads=%ld",
                 l->batch, l->context, l->context, k->heads, k->kv_heads);
    if (g->window)
        snprintf(c->shape + n, sizeof(c->shape) - (size_t)n, ",window=%ld", window_of(g));
}

/* Writes the name of a group of layers, such as "window 128, no rotation". */
static void name_group(const struct model_group *g, char name[64])
{
    const char *rest = g->rotates ? "" : ", no rotation";
    if (g->window)
        snprintf(name, 64, "window %ld%s", g->window, rest);
    else if (g->chunk)
        snprintf(name, 64, "chunk %ld%s", g->chunk, rest);
    else
        snprintf(name, 64, "%s%s", g->both_ways ? "no mask" : "full", rest);
}

/* Adds a kind with `layers` layers of the group `g`, and all their launches. */
static void list_group(const struct model *m, const struct model_group *g, long layers,
                       struct step *s)
{
    struct step_kind *k = &s->kinds[s->kind_count++];
    const struct step_load *l = &s->load;
    struct rank_heads r;
    share_heads(g, l->ranks, &r);
    name_group(g, k->name);
    k->layers = layers;
    k->heads = r.heads;
    k->kv_heads = r.kv_heads;
    const struct step_call *rope =
        step_add_rope(k, m, g, l, l->batch * (g->both_ways ? l->context : l->queries));
    if (g->both_ways) {
        add_encoder(k, g, l);
        return;
    }
    const struct step_attention a = {
        .op = "decode",
        .load = l,
        .rope = rope,
        .head_dim = g->head_dim,
        .head_dim_v = g->head_dim_v,
        .heads = r.heads,
        .kv_heads = r.kv_heads,
        .batch = l->batch,
        .queries = l->queries,
        /* With chunks, the keys of the newest one. */
        .keys = g->chunk ? (l->context - 1) % g->chunk + 1 : l->context,
        .window = window_of(g),
        .mask = mask_of(g),
        .sinks = g->sinks,
    };
    step_add_attention(k, &a);
}

/* Adds a kind for each group of layers. Layers whose keys an indexer chooses are counted in the
 * first group, but become a kind of their own. */
static void list_groups(const struct model *m, struct step *s)
{
    for (unsigned i = 0; i < m->group_count; i++) {
        const long chosen = i ? 0 : m->choice.layers;
        if (m->groups[i].layers > chosen)
            list_group(m, &m->groups[i], m->groups[i].layers - chosen, s);
    }
    if (m->choice.layers)
        step_list_choice(m, s);
}

/* The functions from here on list the launches of layers of latent attention. */

/* Adds a launch of head_product: each head's row of `from` elements becomes one of `to`
 * elements. */
static void add_product(struct step_kind *k, long tokens, long from, long to)
{
    struct step_call *c = step_add_call(k, "head_product");
    step_add_dims(c, from, to);
    step_add_field(c, ATT_SHARED, false);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld", tokens, k->heads);
}

/* Adds mla_rope_cache to a stage, as the way `name`. If `product` is not 0, the launch also
 * multiplies heads of q of that many elements by W_UK. */
static void add_latent_rope(struct step_stage *stage, long heads, const struct step_load *l,
                            const char *name, long product)
{
    struct step_call *c = &step_add_way(stage, name, "mla_rope_cache")->launches[0].call;
    step_add_field(c, ATT_KEEP_KV, false);
    step_add_field(c, ATT_PRODUCT_DIM, (int)product);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,page=%ld", l->batch * l->queries,
             heads, step_page_size(l));
}

/* Adds the launches that make q and write the latent to the cache. With few tokens the stage has a
 * second way, in which one launch also multiplies q by W_UK. */
static void add_latent_write(struct step_kind *k, const struct model_latent *m,
                             const struct step_load *l)
{
    const long tokens = l->batch * l->queries;
    if (m->q_lora_rank > 0) {
        struct step_call *c = step_add_call(k, "qk_rmsnorm");
        snprintf(c->shape, sizeof(c->shape), "tokens=%ld", tokens);
    }
    add_product(k, tokens, m->nope, m->kv_lora_rank);
    struct step_stage *const stage = &k->stages[k->count++];
    stage->name = "Queries and cache";
    add_latent_rope(stage, k->heads, l, "mla_rope_cache", 0);
    if (tokens > PRODUCT_TOKENS)
        return;
    add_latent_rope(stage, k->heads, l, "with the absorption", m->nope);
    stage->ways[1].whole = true;
}

/* Adds the launches of the sparse indexer. In GLM-5.3-Flash it has a key for each group of tokens,
 * and chosen_lists turns its choice into lists of pages. */
static void add_indexer(struct step_kind *k, const struct model_latent *m,
                        const struct step_load *l)
{
    const long tokens = l->batch * l->queries, pool = m->index_pool;
    const long keys = l->context / pool ? l->context / pool : 1;
    const struct step_index x = {.rows = tokens,
                                 .keys = keys,
                                 .scored = keys,
                                 .page = pool > 1 ? step_pool_page(l, pool) : step_page_size(l),
                                 .top_k = m->index_topk / pool};
    if (pool > 1)
        step_add_pooled_keys(k, l, pool, 1);
    step_add_index_queries(k, l, &x, m->index_heads);
    step_add_index(k, l, &x);
    if (pool > 1)
        step_add_lists(k, tokens, &(struct step_lists){l->context, pool, x.top_k, 1});
}

/* Adds the launch that multiplies the output by W_UV, giving heads of `value` elements. With few
 * tokens there are also ways in which decode does this in its own launch; `a` is that decode. */
static void add_output(struct step_kind *k, const struct step_attention *a, long value)
{
    struct step_attention with = *a;
    add_product(k, a->batch * a->queries, a->head_dim_v, value);
    struct step_stage *const stage = &k->stages[k->count - 1];
    stage->name = "Output";
    with.product = value;
    if (a->batch * a->queries > PRODUCT_TOKENS)
        return;
    step_add_decode(stage, &with, "in the launch of attention", true, true, true);
    step_add_decode(stage, &with, "in that of attention, no plan", true, false, true);
}

/* Adds a kind with `layers` latent attention layers and all their launches. `scores` is true for
 * layers that have an indexer of their own. */
static void list_latent(const struct model *m, struct step *s, long layers, bool scores)
{
    struct step_kind *k = &s->kinds[s->kind_count++];
    const struct step_load *l = &s->load;
    const struct model_latent *latent = &m->latent;
    const bool sparse = latent->index_topk > 0;
    struct rank_heads r;
    share_heads(&m->groups[0], l->ranks, &r);
    snprintf(k->name, sizeof(k->name), "MLA%s",
             scores   ? ", indexer"
             : sparse ? ", keys of the layer before"
                      : "");
    k->layers = layers;
    k->heads = r.heads;
    k->kv_heads = 1;
    add_latent_write(k, latent, l);
    if (scores)
        add_indexer(k, latent, l);
    const struct step_attention a = {
        .op = "mla_decode",
        .load = l,
        .head_dim = latent->kv_lora_rank + latent->rope,
        .head_dim_v = latent->kv_lora_rank,
        .heads = r.heads,
        .kv_heads = 1,
        .batch = sparse ? l->batch * l->queries : l->batch,
        .queries = sparse ? 1 : l->queries,
        .keys = sparse && latent->index_topk < l->context ? latent->index_topk : l->context,
        .mask = ATT_MASK_CAUSAL,
        .page =
            sparse && latent->index_pool > 1 ? list_page_size(l->page_size, latent->index_pool) : 0,
        .sparse = sparse && latent->index_pool == 1 ? ATT_SPARSE_SLOTS : ATT_SPARSE_NONE,
    };
    step_add_attention(k, &a);
    add_output(k, &a, latent->value);
}

/* Adds the kinds of latent attention layers: the ones whose indexer chooses keys, and the ones that
 * use the choice of an earlier layer or attend to all keys. */
static void list_latents(const struct model *m, struct step *s)
{
    long layers = 0, own = 0;
    for (unsigned i = 0; i < m->group_count; i++)
        layers += m->groups[i].layers;
    for (long i = 0; m->latent.scores && i < m->layers; i++)
        own += m->latent.scores[i];
    if (own)
        list_latent(m, s, own, true);
    if (layers > own)
        list_latent(m, s, layers - own, false);
}

/* The functions from here on list the launches of linear attention and Mamba layers. */

enum { VERIFIED = 8 /* most new tokens of a sequence that count as drafts to verify */ };

/* Returns how many states the step stores for each sequence: one after each new token if these are
 * drafts, else only the last. */
static long stored_states(const struct step_load *l)
{
    return l->queries <= VERIFIED ? l->queries : 1;
}

/* Sets the fields and the shape of a launch of conv1d. `r` has the layer's sizes on this rank. */
static void set_conv(struct step_call *c, const struct model_mixer *x, const struct rank_mixer *r,
                     const struct step_load *l)
{
    step_add_field(c, ATT_TAPS, (int)x->taps);
    int n = snprintf(c->shape, sizeof(c->shape), "channels=%ld,batch=%ld,length=%ld", r->channels,
                     l->batch, l->queries);
    if (stored_states(l) > 1)
        snprintf(c->shape + n, sizeof(c->shape) - (size_t)n, ",drafts=%ld", stored_states(l) - 1);
}

/* True if the recurrence is a gated delta rule, of GDN or KDA layers. */
static bool is_delta(const struct model_mixer *x)
{
    return x->recurrence == MODEL_DELTA_NET || x->recurrence == MODEL_KDA;
}

/* Sets the fields and the shape of the launch of a recurrence. `r` has the layer's sizes on this
 * rank. Drafts are verified with a stored state for each, not with ATT_REPLAY. */
static void set_recurrence(struct step_call *c, const struct model_mixer *x,
                           const struct rank_mixer *r, const struct step_load *l)
{
    step_add_dims(c, x->head_dim, x->head_dim_v);
    if (is_delta(x))
        step_add_field(c, ATT_REPLAY, false);
    int n = snprintf(c->shape, sizeof(c->shape), "heads=%ld,value_heads=%ld,batch=%ld,length=%ld",
                     r->heads, r->value_heads, l->batch, l->queries);
    if (stored_states(l) > 1)
        snprintf(c->shape + n, sizeof(c->shape) - (size_t)n, ",state_steps=%ld", stored_states(l));
}

/* Sets the fields and the shape of a launch of gated_rmsnorm; `stage` is an ATT_STAGE_ value. */
static void set_norm(struct step_call *c, const struct rank_mixer *r, int stage, long tokens)
{
    step_add_field(c, ATT_WIDTH, (int)r->norm_width);
    step_add_field(c, ATT_STAGE, stage);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,groups=%ld", tokens, r->norm_groups);
}

/* Adds the launches of the gated norm: two if its sums cross ranks. The all-reduce between them is
 * no launch of attnc. */
static void add_norm(struct step_kind *k, const struct rank_mixer *r, long tokens)
{
    if (!r->norm_groups)
        return;
    if (r->norm_ranks > 1)
        set_norm(step_add_call(k, "gated_rmsnorm"), r, ATT_STAGE_SUMS, tokens);
    set_norm(step_add_call(k, "gated_rmsnorm"), r,
             r->norm_ranks > 1 ? ATT_STAGE_OUTPUTS : ATT_STAGE_ALL, tokens);
}

/* Adds the launches of a linear layer, each as a stage: convolution, recurrence and gated norm. */
static void add_launches(struct step_kind *k, const struct model_mixer *x,
                         const struct rank_mixer *r, const struct step_load *l)
{
    const bool scan = x->recurrence == MODEL_MAMBA1;
    const char *const recurrence = is_delta(x) ? "gated_delta" : scan ? "selective_scan" : "ssd";
    if (x->taps)
        set_conv(step_add_call(k, "conv1d"), x, r, l);
    set_recurrence(step_add_call(k, recurrence), x, r, l);
    add_norm(k, r, l->batch * l->queries);
}

/* Adds a decode step of a GDN or KDA layer as one stage with two ways: three launches, or the
 * single gated_delta_step. */
static void add_delta_step(struct step_kind *k, const struct model_mixer *x,
                           const struct rank_mixer *r, const struct step_load *l)
{
    struct step_stage *const stage = &k->stages[k->count++];
    stage->name = "Linear attention";
    struct step_way *const three = step_add_way(stage, "three launches", "conv1d");
    set_conv(&three->launches[0].call, x, r, l);
    set_recurrence(step_add_launch(three, "gated_delta"), x, r, l);
    set_norm(step_add_launch(three, "gated_rmsnorm"), r, ATT_STAGE_ALL, l->batch * l->queries);
    struct step_call *const one =
        &step_add_way(stage, "one launch", "gated_delta_step")->launches[0].call;
    step_add_dims(one, x->head_dim, x->head_dim_v);
    step_add_field(one, ATT_DRAFTS, l->queries > 1);
    snprintf(one->shape, sizeof(one->shape), "heads=%ld,batch=%ld,length=%ld", r->heads, l->batch,
             l->queries);
}

/* Adds the launch that rotates q and k; nothing for layers that do not rotate. */
static void add_mixer_rope(struct step_kind *k, const struct model_mixer *x,
                           const struct rank_mixer *r, long tokens)
{
    if (!x->rotates)
        return;
    struct step_call *c = step_add_call(k, "rope_qk_norm_cache");
    step_add_dims(c, x->head_dim, x->head_dim_v);
    step_add_field(c, ATT_KEEP_KV, true);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,kv_heads=%ld", tokens, r->heads,
             r->heads);
}

/* Adds the linear layers of one recurrence as a kind, with all their launches. Adds nothing if the
 * ranks cannot share the layers. */
static void list_mixer(const struct model_mixer *x, struct step *s)
{
    const struct step_load *l = &s->load;
    struct rank_mixer r;
    if (!share_mixer(x, l->ranks, &r))
        return;
    struct step_kind *k = &s->kinds[s->kind_count++];
    snprintf(k->name, sizeof(k->name), "%s", mixer_name(x->recurrence));
    k->linear = true;
    k->layers = x->layers;
    k->heads = r.value_heads;
    k->kv_heads = r.heads;
    add_mixer_rope(k, x, &r, l->batch * l->queries);
    if (is_delta(x) && x->taps && r.norm_groups && r.norm_ranks == 1 && l->queries <= VERIFIED)
        add_delta_step(k, x, &r, l);
    else
        add_launches(k, x, &r, l);
}

bool step_list_layers(const struct model *m, struct step *s, char why[200])
{
    const struct step_load *l = &s->load;
    if (l->queries > l->context) {
        snprintf(why, 200, "%ld queries of a sequence, but only %ld keys", l->queries, l->context);
        return false;
    }
    for (unsigned i = 0; i < m->group_count; i++) {
        const struct model_group *g = &m->groups[i];
        struct rank_heads r;
        if (share_heads(g, l->ranks, &r))
            continue;
        snprintf(why, 200, "TP %ld: %ld query heads and %ld key/value heads cannot be shared out",
                 l->ranks, g->heads, g->kv_heads);
        return false;
    }
    if (m->latent.kv_lora_rank && l->queries > STEP_DECODE_QUERIES) {
        snprintf(why, 200, "absorbed decode has at most %d queries a sequence",
                 STEP_DECODE_QUERIES);
        return false;
    }
    if (m->pooled.is)
        step_list_rows(m, s);
    else if (m->latent.kv_lora_rank)
        list_latents(m, s);
    else
        list_groups(m, s);
    for (unsigned i = 0; i < m->mixer_count; i++)
        list_mixer(&m->mixers[i], s);
    return true;
}

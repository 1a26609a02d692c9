/* SPDX-License-Identifier: Apache-2.0
 *
 * This file lists what an engine calls in each kind of layer: docs/decode.md and docs/latent.md as
 * data. The fields of a call pick one kernel among those that attnc describe writes for the model.
 */
#include <stdio.h>
#include <string.h>

#include "tools/attnc/describe/describe_mixers.h"
#include "tools/attnc/step/step.h"

enum { PROBE_KEYS = 64, DECODE_QUERIES = 64, ANY_PAGE = 16 };

enum {
    WHOLE_QUERIES = 8,  /* maximum of a sequence's new tokens for rope_decode */
    WHOLE_BATCH = 64,   /* maximum of sequences for rope_decode */
    PRODUCT_TOKENS = 64 /* maximum of new tokens for products in the launches of latent layers */
};

static void add_field(struct step_call *c, enum att_field field, int value)
{
    c->fields[c->field_count].field = field;
    c->fields[c->field_count++].value = value;
}

static struct step_way *add_way(struct step_stage *stage, const char *name, const char *op)
{
    struct step_way *w = &stage->ways[stage->count++];
    w->name = name;
    w->launches[w->count++].call.op = op;
    return w;
}

/* Adds a stage with one way of one launch. */
static struct step_call *add_call(struct step_kind *k, const char *op)
{
    return &add_way(&k->stages[k->count++], op, op)->launches[0].call;
}

static long page_size(const struct step_load *l) { return l->page_size ? l->page_size : ANY_PAGE; }

/* Attention over pages. */

/* A layer's attention: sizes, and which keys a query sees. */
struct attention {
    const char *op;
    const struct step_load *load;
    const struct step_call *rope; /* the launch before it, which rope_decode includes; NULL: none */
    long head_dim, head_dim_v, heads, kv_heads;
    long batch, queries, keys; /* as they are passed: lists of slots have a sequence for a query */
    long window;               /* tokens; 0: none */
    long product;              /* elements of a head after the launch's product; 0: it has none */
    enum att_mask mask;
    enum att_sparse sparse;
    bool sinks;
};

/* Writes the shape of a call over `batch` sequences of `keys` keys. */
static void write_shape(const struct attention *a, long batch, long keys, char *text)
{
    const int n = snprintf(text, TUNE_SHAPE_TEXT,
                           "batch=%ld,k=%ld,q=%ld,heads=%ld,kv_heads=%ld,page_size=%ld", batch,
                           keys, a->queries, a->heads, a->kv_heads, page_size(a->load));
    if (a->window)
        snprintf(text + n, TUNE_SHAPE_TEXT - (size_t)n, ",window=%ld", a->window);
}

/* Writes the shape of a small call of the same kernel. */
static void write_probe(const struct attention *a, char *text)
{
    write_shape(a, 1, PROBE_KEYS > a->queries ? PROBE_KEYS : a->queries, text);
}

static void add_dims(struct step_call *c, long head_dim, long head_dim_v)
{
    add_field(c, ATT_HEAD_DIM, (int)head_dim);
    add_field(c, ATT_HEAD_DIM_V, (int)head_dim_v);
}

/* Adds decode. With `whole` the launch does the work of the stage before it too: as rope_decode, or
 * as the latent decode that ends with the product of this stage. */
static void add_decode(struct step_stage *stage, const struct attention *a, const char *name,
                       bool whole, bool split, bool one_launch)
{
    struct step_way *w = add_way(stage, name, whole && a->rope ? "rope_decode" : a->op);
    struct step_call *c = &w->launches[0].call;
    add_dims(c, a->head_dim, a->head_dim_v);
    add_field(c, ATT_GQA, (int)(a->heads / a->kv_heads));
    add_field(c, ATT_Q_LEN, (int)a->queries);
    add_field(c, ATT_MASK, a->mask);
    add_field(c, ATT_SPARSE, a->sparse);
    add_field(c, ATT_SINKS, a->sinks);
    add_field(c, ATT_ONE_LAUNCH, one_launch);
    add_field(c, ATT_PRODUCT_DIM, (int)a->product);
    for (unsigned i = 0; whole && a->rope && i < a->rope->field_count; i++) {
        const enum att_field field = a->rope->fields[i].field;
        if (field == ATT_ROPE || field == ATT_ROTARY_DIM)
            add_field(c, field, a->rope->fields[i].value);
    }
    w->whole = whole;
    w->split = split;
    write_shape(a, a->batch, a->keys, c->shape);
    write_probe(a, w->probe);
}

static void add_paged_prefill(struct step_stage *stage, const struct attention *a, const char *name,
                              bool planned, bool one_launch)
{
    struct step_way *w = add_way(stage, name, "prefill");
    struct step_call *c = &w->launches[0].call;
    add_dims(c, a->head_dim, a->head_dim_v);
    add_field(c, ATT_MASK, a->mask);
    add_field(c, ATT_SINKS, a->sinks);
    add_field(c, ATT_PAGED, true);
    add_field(c, ATT_PLANNED, planned);
    add_field(c, ATT_ONE_LAUNCH, one_launch);
    w->split = planned;
    write_shape(a, a->batch, a->keys, c->shape);
    write_probe(a, w->probe);
}

/* Adds every way that libattn has: keys split by a plan or not, parts added up in the same launch
 * or by combine. */
static void add_attention(struct step_kind *k, const struct attention *a)
{
    struct step_stage *stage = &k->stages[k->count++];
    stage->name = "Attention";
    if (a->queries <= DECODE_QUERIES) {
        add_decode(stage, a, "one launch", false, true, true);
        add_decode(stage, a, "plan and combine", false, true, false);
        add_decode(stage, a, "no plan", false, false, false);
    }
    if (a->rope && a->queries <= WHOLE_QUERIES && a->batch <= WHOLE_BATCH) {
        add_decode(stage, a, "rope_decode in one launch", true, true, true);
        add_decode(stage, a, "rope_decode, no plan", true, false, true);
    }
    if (a->queries > 1 && !strcmp(a->op, "decode")) {
        add_paged_prefill(stage, a, "planned prefill in one launch", true, true);
        add_paged_prefill(stage, a, "planned prefill and combine", true, false);
        add_paged_prefill(stage, a, "paged prefill", false, false);
    }
}

/* Layers with a key and a value per head. */

/* Returns the tokens of the window, at most the longest sequence: a longer window holds every
 * sequence. */
static long window_of(const struct model_group *g)
{
    return g->window < STEP_MOST_KEYS ? g->window : STEP_MOST_KEYS;
}

static enum att_mask mask_of(const struct model_group *g)
{
    return g->window      ? ATT_MASK_WINDOW
           : g->chunk     ? ATT_MASK_CHUNK
           : g->both_ways ? ATT_MASK_NONE
                          : ATT_MASK_CAUSAL;
}

static const struct step_call *add_rope(struct step_kind *k, const struct model *m,
                                        const struct model_group *g, const struct step_load *l,
                                        long tokens)
{
    static const enum att_rope ropes[] = {[MODEL_ROPE_NO_ROPE] = ATT_ROPE_NONE,
                                          [MODEL_ROPE_NEOX] = ATT_ROPE_NEOX,
                                          [MODEL_ROPE_GPTJ] = ATT_ROPE_GPTJ};
    struct step_call *c = add_call(k, "rope_qk_norm_cache");
    add_dims(c, g->head_dim, g->head_dim_v);
    add_field(c, ATT_ROPE, ropes[g->rotates ? m->rope : MODEL_ROPE_NO_ROPE]);
    if (g->rotates)
        add_field(c, ATT_ROTARY_DIM, (int)g->rotary_dim);
    add_field(c, ATT_MROPE, ATT_MROPE_NONE);
    add_field(c, ATT_KEEP_KV, g->both_ways);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,kv_heads=%ld,page_size=%ld", tokens,
             k->heads, k->kv_heads, page_size(l));
    return c;
}

/* Adds attention without a mask, which has no cache: all tokens of a sequence are queries of one
 * launch. */
static void add_encoder(struct step_kind *k, const struct model_group *g, const struct step_load *l)
{
    struct step_call *c = add_call(k, "prefill");
    add_dims(c, g->head_dim, g->head_dim_v);
    add_field(c, ATT_MASK, mask_of(g));
    add_field(c, ATT_SINKS, g->sinks);
    add_field(c, ATT_PAGED, false);
    add_field(c, ATT_PLANNED, false);
    const int n =
        snprintf(c->shape, sizeof(c->shape), "batch=%ld,q=%ld,k=%ld,heads=%ld,kv_heads=%ld",
                 l->batch, l->context, l->context, k->heads, k->kv_heads);
    if (g->window)
        snprintf(c->shape + n, sizeof(c->shape) - (size_t)n, ",window=%ld", window_of(g));
}

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

static void list_group(const struct model *m, const struct model_group *g, struct step *s)
{
    struct step_kind *k = &s->kinds[s->kind_count++];
    const struct step_load *l = &s->load;
    struct rank_heads r;
    share_heads(g, l->ranks, &r);
    name_group(g, k->name);
    k->layers = g->layers;
    k->heads = r.heads;
    k->kv_heads = r.kv_heads;
    const struct step_call *rope =
        add_rope(k, m, g, l, l->batch * (g->both_ways ? l->context : l->queries));
    if (g->both_ways) {
        add_encoder(k, g, l);
        return;
    }
    const struct attention a = {
        .op = "decode",
        .load = l,
        .rope = rope,
        .head_dim = g->head_dim,
        .head_dim_v = g->head_dim_v,
        .heads = r.heads,
        .kv_heads = r.kv_heads,
        .batch = l->batch,
        .queries = l->queries,
        .keys = g->chunk ? (l->context - 1) % g->chunk + 1 : l->context, /* of the newest chunk */
        .window = window_of(g),
        .mask = mask_of(g),
        .sinks = g->sinks,
    };
    add_attention(k, &a);
}

/* Layers with a latent cache. */

static void add_product(struct step_kind *k, long tokens, long from, long to)
{
    struct step_call *c = add_call(k, "head_product");
    add_dims(c, from, to);
    add_field(c, ATT_SHARED, false);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld", tokens, k->heads);
}

/* Adds mla_rope_cache. It multiplies heads of q of `product` elements by W_UK; 0: it does not. */
static void add_latent_rope(struct step_stage *stage, long heads, const struct step_load *l,
                            const char *name, long product)
{
    struct step_call *c = &add_way(stage, name, "mla_rope_cache")->launches[0].call;
    add_field(c, ATT_KEEP_KV, false);
    add_field(c, ATT_PRODUCT_DIM, (int)product);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,page=%ld", l->batch * l->queries,
             heads, page_size(l));
}

static void add_latent_write(struct step_kind *k, const struct model_latent *m,
                             const struct step_load *l)
{
    const long tokens = l->batch * l->queries;
    if (m->q_lora_rank > 0) {
        struct step_call *c = add_call(k, "qk_rmsnorm");
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

static void add_indexer(struct step_kind *k, const struct model_latent *m,
                        const struct step_load *l)
{
    struct step_call *c = add_call(k, "indexer_rope_cache");
    add_field(c, ATT_HADAMARD, false);
    snprintf(c->shape, sizeof(c->shape), "heads=%ld,tokens=%ld,page=%ld", m->index_heads,
             l->batch * l->queries, page_size(l));
    c = add_call(k, "indexer_topk");
    snprintf(c->shape, sizeof(c->shape), "rows=%ld,keys=%ld,page=%ld", l->batch * l->queries,
             l->context, page_size(l));
}

/* Adds the product out of the latent, and decode in one launch that includes it. */
static void add_output(struct step_kind *k, const struct attention *a, long value)
{
    struct attention with = *a;
    add_product(k, a->batch * a->queries, a->head_dim_v, value);
    struct step_stage *const stage = &k->stages[k->count - 1];
    stage->name = "Output";
    with.product = value;
    if (a->batch * a->queries > PRODUCT_TOKENS)
        return;
    add_decode(stage, &with, "in the launch of attention", true, true, true);
    add_decode(stage, &with, "in that of attention, no plan", true, false, true);
}

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
    const struct attention a = {
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
        .sparse = sparse ? ATT_SPARSE_SLOTS : ATT_SPARSE_NONE,
    };
    add_attention(k, &a);
    add_output(k, &a, latent->value);
}

/* Lists the stages of latent layers. In some layers a sparse indexer selects keys; the others use
 * the selection of an earlier layer. */
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

/* Linear layers. */

static void add_conv(struct step_kind *k, const struct model_mixer *x, const struct rank_mixer *r,
                     const struct step_load *l)
{
    if (!x->taps)
        return;
    struct step_call *c = add_call(k, "conv1d");
    add_field(c, ATT_TAPS, (int)x->taps);
    snprintf(c->shape, sizeof(c->shape), "channels=%ld,batch=%ld,length=%ld", r->channels, l->batch,
             l->queries);
}

/* Adds the recurrence of a step, which writes states, without records of drafts. */
static void add_recurrence(struct step_kind *k, const struct model_mixer *x,
                           const struct rank_mixer *r, const struct step_load *l)
{
    const bool delta = x->recurrence == MODEL_DELTA_NET || x->recurrence == MODEL_KDA;
    const bool scan = x->recurrence == MODEL_MAMBA1;
    struct step_call *c = add_call(k, delta ? "gated_delta" : scan ? "selective_scan" : "ssd");
    add_dims(c, x->head_dim, x->head_dim_v);
    if (delta)
        add_field(c, ATT_REPLAY, false);
    snprintf(c->shape, sizeof(c->shape), "heads=%ld,value_heads=%ld,batch=%ld,length=%ld", r->heads,
             r->value_heads, l->batch, l->queries);
}

static void add_norm(struct step_kind *k, const struct model_mixer *x, const struct rank_mixer *r,
                     long tokens)
{
    if (!r->norm_groups)
        return;
    struct step_call *c = add_call(k, "gated_rmsnorm");
    add_field(c, ATT_WIDTH, (int)(x->value_heads * x->head_dim_v / x->norm_groups));
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,groups=%ld", tokens, r->norm_groups);
}

static void add_mixer_rope(struct step_kind *k, const struct model_mixer *x,
                           const struct rank_mixer *r, long tokens)
{
    if (!x->rotates)
        return;
    struct step_call *c = add_call(k, "rope_qk_norm_cache");
    add_dims(c, x->head_dim, x->head_dim_v);
    add_field(c, ATT_KEEP_KV, true);
    snprintf(c->shape, sizeof(c->shape), "tokens=%ld,heads=%ld,kv_heads=%ld", tokens, r->heads,
             r->heads);
}

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
    add_conv(k, x, &r, l);
    add_recurrence(k, x, &r, l);
    add_norm(k, x, &r, l->batch * l->queries);
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
    if (m->latent.kv_lora_rank && l->queries > DECODE_QUERIES) {
        snprintf(why, 200, "absorbed decode has at most %d queries a sequence", DECODE_QUERIES);
        return false;
    }
    if (m->latent.kv_lora_rank)
        list_latents(m, s);
    for (unsigned i = 0; !m->latent.kv_lora_rank && i < m->group_count; i++)
        list_group(m, &m->groups[i], s);
    for (unsigned i = 0; i < m->mixer_count; i++)
        list_mixer(&m->mixers[i], s);
    return true;
}

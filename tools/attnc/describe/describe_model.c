/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_model.h"

#include "tools/attnc/describe/describe_mixers.h"
#include "tools/attnc/describe/model_layers.h"

/* Names of enum model_rope in comments. */
static const char *const ropes[] = {"no rotation", "pairs of halves (neox)",
                                    "pairs of neighbours "
                                    "(gptj)"};
/* Names of enum model_norm in comments. */
static const char *const norms[] = {
    "none",      "RMS of each head",  "RMS of each head, times 1 + w", "RMS over all heads",
    "LayerNorm", "after the rotation"};
/* Names of enum model_mrope in comments, after the rotation. */
static const char *const mropes[] = {"", ", positions in sections", ", positions interleaved"};

/* Prints which keys a query of the group sees. */
static void print_keys(const struct model_group *g, FILE *out)
{
    const char *sides = g->both_ways ? " on each side" : "";
    if (g->window)
        fprintf(out, "a window of %ld keys%s", g->window, sides);
    if (g->pool)
        fprintf(out, " and %s of %ld tokens", g->chosen ? "chosen rows" : "every row", g->pool);
    if (g->window)
        return;
    if (g->chunk)
        fprintf(out, "chunks of %ld keys", g->chunk);
    else
        fputs(g->both_ways ? "all keys, no causal mask" : "all keys up to the query's own", out);
}

/* Prints a group of attention layers: its number of layers, its heads and what a query sees. */
static void print_group(const struct model_group *g, const struct deployment *d, FILE *out)
{
    fprintf(out, "# %ld layers: ", g->layers);
    print_keys(g, out);
    fprintf(out, "%s%s; %ld query heads, %ld key/value heads of %ld", g->sinks ? ", sinks" : "",
            g->rotates ? "" : ", no rotation", g->heads, g->kv_heads, g->head_dim);
    if (g->head_dim_v != g->head_dim)
        fprintf(out, " (values %ld)", g->head_dim_v);
    if (g->rotates)
        fprintf(out, ", %ld rotate", g->rotary_dim);
    fprintf(out, "; scale %.9g\n", g->scale);
    for (unsigned i = 0; i < d->rank_count; i++) {
        struct rank_heads r;
        if (share_heads(g, d->ranks[i], &r))
            fprintf(out, "#   TP %ld: %ld query heads and %ld key/value heads a rank%s\n",
                    d->ranks[i], r.heads, r.kv_heads, r.copies ? " (copies)" : "");
    }
}

/* Prints the sizes of a linear layer on a rank. Also prints the tokens of an attention page as
 * large as its state, for states of 4 and of 2 bytes an element. */
static void print_mixer_rank(const struct model *m, const struct model_mixer *x,
                             const struct deployment *d, long ranks, FILE *out)
{
    struct rank_mixer r;
    const long wide = mixer_page(m, x, d, ranks, 4), narrow = mixer_page(m, x, d, ranks, 2);
    if (!wide || !share_mixer(x, ranks, &r))
        return;
    fprintf(out, "#   TP %ld: %ld heads and %ld value heads a rank", ranks, r.heads, r.value_heads);
    if (r.channels)
        fprintf(out, ", %ld channels", r.channels);
    fprintf(out, "; a page as large as its state has %ld tokens, %ld with states of 16 bits\n",
            wide, narrow);
}

/* Prints a group of linear layers: its heads, its states and its sizes on each rank. */
static void print_mixer(const struct model *m, const struct model_mixer *x,
                        const struct deployment *d, FILE *out)
{
    fprintf(out, "# %ld layers of %s: %ld heads of %ld, %ld value heads of %ld", x->layers,
            mixer_name(x->recurrence), x->heads, x->head_dim, x->value_heads, x->head_dim_v);
    if (x->taps)
        fprintf(out, "; convolution of %ld taps%s", x->taps, x->conv_bias ? ", bias" : "");
    if (x->lower_bound < 0)
        fprintf(out, "; decays above %.9g", x->lower_bound);
    if (x->rotates)
        fprintf(out, "; rotation%s", x->qk_norm ? " after a norm of q and k" : "");
    if (x->norm_groups)
        fprintf(out, "; %ld groups of the norm, gate %s\n", x->norm_groups, x->act);
    else
        fputs("; no norm, gate silu\n", out);
    for (unsigned i = 0; i < d->rank_count; i++)
        print_mixer_rank(m, x, d, d->ranks[i], out);
}

/* Returns the number of layers whose indexer chooses keys. */
static long count_index_layers(const struct model *m)
{
    long count = 0;
    for (long i = 0; i < m->layers; i++)
        count += m->latent.scores[i];
    return count;
}

/* Returns the number of layers with softmax attention. */
static long count_softmax_layers(const struct model *m)
{
    long count = 0;
    for (unsigned i = 0; i < m->group_count; i++)
        count += m->groups[i].layers;
    return count;
}

/* Prints the sparse indexer of latent attention and the layers that have it; nothing if there is
 * none. */
static void print_indexer(const struct model *m, FILE *out)
{
    const struct model_latent *const l = &m->latent;
    char layers[2000];
    if (!l->scores)
        return;
    const long own = count_index_layers(m);
    if (l->index_pool > 1)
        fprintf(out,
                "# The indexer's keys are of %ld tokens each; the tokens after the last whole "
                "group are added\n",
                l->index_pool);
    fprintf(out, "# Sparse indexer: %ld heads of %ld choose %ld keys a query, in ", l->index_heads,
            l->index_dim, l->index_topk);
    if (own == count_softmax_layers(m)) {
        fputs(own == m->layers ? "every layer\n" : "every layer with this attention\n", out);
        return;
    }
    layers_text(l->scores, m->layers, layers, sizeof(layers));
    fprintf(out,
            "%ld layers: %s.\n#   The other %ld take the keys that the layer before them has\n",
            own, layers, count_softmax_layers(m) - own);
}

/* Prints how an indexer chooses groups of keys; nothing if no layer has such a choice. */
static void print_choice(const struct model_choice *c, FILE *out)
{
    if (!c->layers)
        return;
    fprintf(out,
            "# %ld layers attend to chosen groups of keys: an indexer of %ld heads of %ld chooses "
            "%ld of "
            "%ld tokens a query",
            c->layers, c->heads, c->dim, c->top, c->group);
    if (c->pooled)
        fputs(", by the means of their keys; the tokens after the last whole group are added\n",
              out);
    else
        fprintf(out, ", by their largest scores; the first %ld and the last %ld in any case\n",
                c->first, c->last);
}

/* Prints pooled attention: its rows, its indexer, and which layers make and choose rows. */
static void print_pooled(const struct model *m, FILE *out)
{
    const struct model_pooled *const p = &m->pooled;
    if (!p->is)
        return;
    fprintf(out,
            "# Rows are key and value: %ld elements, the last %ld of which rotate; q of rank %ld\n",
            m->groups[0].head_dim, m->groups[0].rotary_dim, p->q_lora_rank);
    if (p->shared)
        fprintf(out, "# Rows of groups are made in layers %s; other layers use them\n", p->makers);
    if (p->choosers[0])
        fprintf(out, "# Indexer: %ld heads of %ld choose %ld rows a query, in layers %s\n",
                p->index_heads, p->index_dim, p->index_topk, p->choosers);
    if (p->top_blocks)
        fprintf(out, "#   in two levels, the first of %ld blocks of %ld rows\n", p->top_blocks,
                p->block_size);
}

/* Prints latent attention, the scale of the scores, rotation, norms, gates and encoder. */
static void print_scores(const struct model *m, FILE *out)
{
    const struct model_latent *const l = &m->latent;
    if (l->kv_lora_rank)
        fprintf(out,
                "# Latent attention: q of rank %ld, keys and values of rank %ld and %ld rotated "
                "elements\n",
                l->q_lora_rank, l->kv_lora_rank, l->rope);
    if (l->scores)
        fprintf(out, "# Rotation of the indexer: %s\n", ropes[l->index_rope]);
    fprintf(out, "# Scale of the scores: %s. Rotation: %s%s. Norm of q and k: %s%s%s\n",
            m->scale_from, ropes[m->rope], mropes[m->mrope], norms[m->norm],
            m->bias ? ". Bias" : "", m->gate || m->gates_out ? ". Output gate" : "");
    if (m->gates_heads)
        fputs("# A gate for each head of the output\n", out);
    if (m->out_scale != 1)
        fprintf(out, "# The output is multiplied by %.9g\n", m->out_scale);
    if (m->soft_cap > 0)
        fprintf(out, "# Cap of the scores: %.9g\n", m->soft_cap);
    if (m->image_prefix)
        fputs("# Tokens of an image or a prefix see each other: prefill with a mask of its own\n",
              out);
    if (m->vision.layers)
        fprintf(out, "# Encoder: %ld layers of %ld heads of %ld, no mask\n", m->vision.layers,
                m->vision.heads, m->vision.head_dim);
    else if (m->vision.heads)
        fprintf(out, "# Encoder: %ld heads of %ld, no mask\n", m->vision.heads, m->vision.head_dim);
    if (m->draft_tokens > 0)
        fprintf(out, "# Multi-token prediction: %ld layers\n", m->draft_tokens);
}

void print_model(const struct model *m, const struct deployment *d, FILE *out)
{
    const char *name = m->architecture[0] ? m->architecture : "A model";
    fprintf(out, "# %s (%s%s), %ld layers, %s\n", name,
            m->type[0] ? "model_type " : "no model_type", m->type, m->layers,
            m->fp16 ? "fp16" : "bf16");
    for (unsigned i = 0; i < m->group_count; i++)
        print_group(&m->groups[i], d, out);
    for (unsigned i = 0; i < m->mixer_count; i++)
        print_mixer(m, &m->mixers[i], d, out);
    print_indexer(m, out);
    print_pooled(m, out);
    print_choice(&m->choice, out);
    print_scores(m, out);
    for (unsigned i = 0; i < m->notes.count; i++)
        fprintf(out, "# NOTE: %s\n", m->notes.texts[i]);
    for (unsigned i = 0; i < m->gaps.count; i++)
        fprintf(out, "# MISSING: %s\n", m->gaps.texts[i]);
}

void print_settings(const struct model *m, FILE *out)
{
    if (m->read && m->read[0])
        fprintf(out, "# Settings read: %s\n", m->read);
    if (m->neutral && m->neutral[0])
        fprintf(out, "# Settings without effect on kernels: %s\n", m->neutral);
}

/* Writes a group of attention layers as a JSON object. */
static void group_json(struct json *j, const struct model_group *g, const struct deployment *d)
{
    json_begin_object(j, NULL);
    json_integer(j, "layers", g->layers);
    json_integer(j, "heads", g->heads);
    json_integer(j, "kv_heads", g->kv_heads);
    json_integer(j, "head_dim", g->head_dim);
    json_integer(j, "head_dim_v", g->head_dim_v);
    json_integer(j, "window", g->window);
    json_integer(j, "chunk", g->chunk);
    json_integer(j, "pool", g->pool);
    json_flag(j, "causal", !g->both_ways);
    json_flag(j, "rotates", g->rotates);
    json_integer(j, "rotary_dim", g->rotary_dim);
    json_flag(j, "sinks", g->sinks);
    json_real(j, "scale", g->scale);
    json_begin_list(j, "ranks");
    for (unsigned i = 0; i < d->rank_count; i++) {
        struct rank_heads r;
        if (!share_heads(g, d->ranks[i], &r))
            continue;
        json_begin_object(j, NULL);
        json_integer(j, "tp", d->ranks[i]);
        json_integer(j, "heads", r.heads);
        json_integer(j, "kv_heads", r.kv_heads);
        json_flag(j, "copies", r.copies);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

/* Writes a group of linear layers as a JSON object. */
static void mixer_json(struct json *j, const struct model_mixer *x, const struct deployment *d)
{
    json_begin_object(j, NULL);
    json_string(j, "recurrence", mixer_name(x->recurrence));
    json_integer(j, "layers", x->layers);
    json_integer(j, "heads", x->heads);
    json_integer(j, "value_heads", x->value_heads);
    json_integer(j, "head_dim", x->head_dim);
    json_integer(j, "head_dim_v", x->head_dim_v);
    json_integer(j, "taps", x->taps);
    json_begin_list(j, "ranks");
    for (unsigned i = 0; i < d->rank_count; i++) {
        struct rank_mixer r;
        if (!share_mixer(x, d->ranks[i], &r))
            continue;
        json_begin_object(j, NULL);
        json_integer(j, "tp", d->ranks[i]);
        json_integer(j, "heads", r.heads);
        json_integer(j, "value_heads", r.value_heads);
        json_integer(j, "channels", r.channels);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

/* Writes the sparse indexer of latent attention as a JSON object. */
static void indexer_json(struct json *j, const struct model *m)
{
    const struct model_latent *const l = &m->latent;
    if (!l->scores)
        return;
    json_begin_object(j, "indexer");
    json_integer(j, "heads", l->index_heads);
    json_integer(j, "head_dim", l->index_dim);
    json_integer(j, "top_k", l->index_topk);
    json_begin_list(j, "layers");
    for (long i = 0; i < m->layers; i++) {
        if (l->scores[i])
            json_integer(j, NULL, i);
    }
    json_end(j);
    json_end(j);
}

/* Writes a list of sentences as the JSON list `name`. */
static void texts_json(struct json *j, const char *name, const struct model_texts *t)
{
    json_begin_list(j, name);
    for (unsigned i = 0; i < t->count; i++)
        json_string(j, NULL, t->texts[i]);
    json_end(j);
}

void model_json(struct json *j, const struct model *m, const struct deployment *d)
{
    json_string(j, "architecture", m->architecture);
    json_string(j, "model_type", m->type);
    json_integer(j, "layers", m->layers);
    json_begin_list(j, "attention");
    for (unsigned i = 0; i < m->group_count; i++)
        group_json(j, &m->groups[i], d);
    json_end(j);
    json_begin_list(j, "linear");
    for (unsigned i = 0; i < m->mixer_count; i++)
        mixer_json(j, &m->mixers[i], d);
    json_end(j);
    indexer_json(j, m);
    texts_json(j, "notes", &m->notes);
    texts_json(j, "missing", &m->gaps);
}

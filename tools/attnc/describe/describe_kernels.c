/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "targets/tgt.h"
#include "tools/attnc/describe/describe_choice.h"
#include "tools/attnc/describe/describe_entry.h"
#include "tools/attnc/describe/describe_mixers.h"
#include "tools/attnc/describe/describe_pooled.h"

bool share_heads(const struct model_group *g, long ranks, struct rank_heads *out)
{
    if (g->heads % ranks || (g->kv_heads % ranks && ranks % g->kv_heads))
        return false;
    out->heads = g->heads / ranks;
    out->copies = g->kv_heads < ranks;
    out->kv_heads = out->copies ? 1 : g->kv_heads / ranks;
    return true;
}

/* Adds the head dims of a group of layers. */
static void head_fields(struct entry_writer *w, const struct model_group *g)
{
    entry_field(w, "head_dim: %ld", g->head_dim);
    if (g->head_dim_v != g->head_dim)
        entry_field(w, "head_dim_v: %ld", g->head_dim_v);
}

/* Adds the head dims, mask, sinks and soft cap of a group of layers. `tree`: the entry also has a
 * custom mask, for trees of drafts. */
static void score_fields(struct entry_writer *w, const struct model_group *g, bool tree)
{
    head_fields(w, g);
    entry_field(w, tree ? "mask: [%s, custom] # custom: a tree of drafts" : "mask: %s",
                g->window      ? "window"
                : g->chunk     ? "chunk"
                : g->both_ways ? "none"
                               : "causal");
    if (g->sinks)
        entry_field(w, "sinks: true");
    if (w->m->soft_cap > 0)
        entry_field(w, "soft_cap: true");
}

/* True if the same attention kernels serve both groups of layers. */
static bool same_attention(const struct model_group *a, const struct model_group *b)
{
    return !a->window == !b->window && !a->chunk == !b->chunk && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->sinks == b->sinks && a->head_dim == b->head_dim &&
           a->head_dim_v == b->head_dim_v && a->both_ways == b->both_ways;
}

/* True if the attention kernels of group `n` also serve an earlier group. */
static bool is_repeated(const struct model *m, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (same_attention(&m->groups[i], &m->groups[n]))
            return true;
    }
    return false;
}

/* Writes the decode entry for `q_len` queries of a sequence. `ratios` is the list of GQA ratios,
 * `seen` describes the visible keys. */
static void write_decode(struct entry_writer *w, const struct model_group *g, const char *ratios,
                         long q_len, const char *seen)
{
    char label[80], comment[200];
    snprintf(label, sizeof(label), "decode of %ld queries at head_dim %ld", q_len, g->head_dim);
    snprintf(comment, sizeof(comment), "Decode%s, %s; pass scale %.9g.",
             q_len > 1 ? " that verifies draft tokens" : "", seen, g->scale);
    entry_begin(w, "decode");
    score_fields(w, g, q_len > 1 && w->d->draft_tree);
    entry_field(w, "gqa: %s", ratios);
    if (q_len > 1)
        entry_field(w, "q_len: %ld", q_len);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    entry_one_launch(w);
    entry_end(w, label, comment);
}

/* Writes which keys a query of the group sees, for comments. */
static void seen_text(const struct model_group *g, char seen[80])
{
    const char *sides = g->both_ways ? " on each side" : "";
    if (g->window)
        snprintf(seen, 80, "a window of %ld keys%s", g->window, sides);
    else if (g->chunk)
        snprintf(seen, 80, "chunks of %ld keys", g->chunk);
    else
        snprintf(seen, 80, g->both_ways ? "every key" : "every key up to the query's own");
}

/* Writes the entry of prefill over a paged cache. A planned one gets its work from lists, so that
 * chunks and mixed batches fill a GPU. */
static void write_paged_prefill(struct entry_writer *w, const struct model_group *g, bool planned)
{
    char label[80];
    snprintf(label, sizeof(label), "%s prefill at head_dim %ld", planned ? "planned" : "paged",
             g->head_dim);
    entry_begin(w, "prefill");
    score_fields(w, g, false);
    entry_field(w, "paged: true");
    if (planned)
        entry_field(w, "planned: true");
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    if (planned)
        entry_one_launch(w);
    w->tiles |= entry_end(w, label,
                          planned ? "The same by work lists: chunks of prompts, and mixed batches."
                                  : "The same after a prefix that the cache holds.") &&
                planned;
}

/* Writes the entry of prefill with a custom mask, for prompts in which tokens of an image or a
 * prefix see each other. */
static void write_prefix(struct entry_writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "prefill with a custom mask at head_dim %ld", g->head_dim);
    entry_begin(w, "prefill");
    head_fields(w, g);
    entry_field(w, "mask: custom");
    if (g->sinks)
        entry_field(w, "sinks: true");
    if (w->m->soft_cap > 0)
        entry_field(w, "soft_cap: true");
    entry_end(w, label, "Prompts with images or a prefix, whose tokens see each other.");
}

/* Names of enum model_rope in descriptions. */
static const char *const ropes[] = {"none", "neox", "gptj"};

/* Names of enum model_norm in descriptions. */
static const char *const norms[] = {"none", "rms", "gemma_rms", "full", "none", "none"};

/* Adds the fields of rotation, norm and bias, but not of positions in images. */
static void turn_fields(struct entry_writer *w, const struct model_group *g)
{
    entry_field(w, "rope: %s", ropes[g->rotates ? w->m->rope : MODEL_ROPE_NO_ROPE]);
    if (g->rotates && g->rotary_dim != g->head_dim)
        entry_field(w, "rotary_dim: %ld", g->rotary_dim);
    if (w->m->norm)
        entry_field(w, "norm: %s", norms[w->m->norm]);
    if (w->m->bias)
        entry_field(w, "bias: true");
}

/* Ends the present entry: writes it if every target accepts it, otherwise drops it without a
 * gap of the model. */
static void end_if_everywhere(struct entry_writer *w, const char *comment)
{
    char good[64], bad[64], why[200];
    entry_sort_targets(w, good, bad, why);
    if (!bad[0])
        entry_end(w, "", comment);
}

/* Writes the entry of rope_decode, for steps of few sequences, if every target has that kernel.
 * `ratios` is the list of GQA ratios. */
static void write_rope_decode(struct entry_writer *w, const struct model_group *g,
                              const char *ratios, long q_len)
{
    const bool images = g->rotates && w->m->mrope;
    if (!w->d->whole || images || w->m->gate || w->m->norm > MODEL_NORM_GEMMA_RMS)
        return;
    entry_begin(w, "rope_decode");
    score_fields(w, g, false);
    entry_field(w, "gqa: %s", ratios);
    if (q_len > 1)
        entry_field(w, "q_len: %ld", q_len);
    turn_fields(w, g);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    entry_field(w, "one_launch: true");
    end_if_everywhere(w, q_len > 1
                             ? "The same with the steps before it, which verifies draft tokens."
                             : "Steps of up to 64 sequences: the steps before attention, and "
                               "decode, in one launch.");
}

/* Writes the entries of one group of attention layers: prefill from tensors and from pages, and
 * decode. Decode needs the GQA ratios, since these decide the rows of a tile. */
static void write_group(struct entry_writer *w, const struct model_group *g)
{
    char ratios[ENTRY_LIST], label[80], comment[200], seen[80];
    if (!entry_ratios(w, g, ratios))
        return;
    seen_text(g, seen);
    snprintf(label, sizeof(label), "prefill at head_dim %ld", g->head_dim);
    snprintf(comment, sizeof(comment),
             "Prefill, %s; pass scale %.9g; lse: true merges chunks of a long prompt.", seen,
             g->scale);
    entry_begin(w, "prefill");
    score_fields(w, g, false);
    entry_field(w, g->both_ways ? "lse: false" : "lse: [false, true]");
    entry_end(w, label, comment);
    if (w->m->image_prefix)
        write_prefix(w, g);
    if (w->m->latent.kv_lora_rank || g->both_ways)
        return;

    write_paged_prefill(w, g, false);
    write_paged_prefill(w, g, true);
    write_decode(w, g, ratios, 1, seen);
    if (w->d->draft_tokens > 0)
        write_decode(w, g, ratios, w->d->draft_tokens + 1, seen);
    write_rope_decode(w, g, ratios, 1);
    if (w->d->draft_tokens > 0)
        write_rope_decode(w, g, ratios, w->d->draft_tokens + 1);
}

/* Writes the entries for the earlier chunks of a prompt: prefill in which every query sees all of
 * their keys, and the gather of these keys. combine merges the results of two chunks. */
static void write_context_chunk(struct entry_writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "prefill of context chunks at head_dim %ld", g->head_dim);
    entry_begin(w, "prefill");
    head_fields(w, g);
    entry_field(w, "mask: none");
    if (w->m->soft_cap > 0)
        entry_field(w, "soft_cap: true");
    entry_field(w, "lse: true");
    entry_end(w, label, "Chunks of the context before a prompt's newest chunk.");
    if (w->m->latent.kv_lora_rank)
        return;
    snprintf(label, sizeof(label), "cache_gather at head_dim %ld", g->head_dim);
    entry_begin(w, "cache_gather");
    head_fields(w, g);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    entry_end(w, label, "Keys and values of such a chunk out of the cache.");
}

/* Writes the entry that only fills the cache, for an engine that rotates by itself. */
static void write_cache_write(struct entry_writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "cache_write at head_dim %ld", g->head_dim);
    entry_begin(w, "cache_write");
    head_fields(w, g);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    entry_end(w, label, "The write into the cache alone, for an engine that rotates by itself.");
}

/* Writes the entry that normalises and rotates q and k and writes the cache. */
static void write_rope(struct entry_writer *w, const struct model_group *g)
{
    static const char *const mropes[] = {"none", "sections", "interleaved"};
    char label[80];
    snprintf(label, sizeof(label), "rope_qk_norm_cache at head_dim %ld", g->head_dim);
    entry_begin(w, "rope_qk_norm_cache");
    head_fields(w, g);
    turn_fields(w, g);
    if (g->rotates && w->m->mrope)
        entry_field(w, "mrope: [none, %s] # none: text alone", mropes[w->m->mrope]);
    if (w->m->gate)
        entry_field(w, "gate: true");
    entry_cache(w);
    entry_field(w, "keep_kv: [false, true] # true: the prefill of the same step reads k and v");
    entry_end(w, label,
              g->rotates ? "The steps before attention, with the write into the cache."
                         : "The same for layers without rotation.");
}

/* Writes the entry that multiplies the output by its gates and its factor, if the model has any.
 * With `gate: true` the rotation has only split the gates off q. Such a model's entry is written if
 * a kernel has the head dim. */
static void write_out_gate(struct entry_writer *w, const struct model_group *g)
{
    char label[80], why[200];
    const bool gates = w->m->gate || w->m->gates_out || w->m->gates_heads;
    const bool needed = w->m->gates_out || w->m->gates_heads || w->m->out_scale != 1;
    if (!gates && w->m->out_scale == 1)
        return;
    snprintf(label, sizeof(label), "gates of the output at head_dim %ld", g->head_dim_v);
    entry_begin(w, "rope_heads");
    entry_field(w, "head_dim: %ld", g->head_dim_v);
    entry_field(w, "rope: none");
    if (gates)
        entry_field(w, "act: sigmoid");
    if (needed || entry_is_accepted(w->entry, entry_dtype(w->m), tgt_all[0]->machine.name, why))
        entry_end(w, label, "The output times its gates, and times `scale`.");
}

/* True if the same rotation kernel serves both groups of layers. */
static bool same_rope(const struct model_group *a, const struct model_group *b)
{
    return a->rotates == b->rotates && a->rotary_dim == b->rotary_dim &&
           a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v;
}

/* Writes a rotation entry for each head dim and number of rotated elements; layers that rotate come
 * first. */
static void write_ropes(struct entry_writer *w)
{
    const struct model_group *const groups = w->m->groups;
    for (int rotates = 1; rotates >= 0; rotates--) {
        for (unsigned i = 0; i < w->m->group_count; i++) {
            unsigned before = 0;
            while (before < i && !same_rope(&groups[before], &groups[i]))
                before++;
            if (groups[i].rotates == rotates && before == i)
                write_rope(w, &groups[i]);
        }
    }
}

/* Begins an entry of mla_decode: all query heads of a rank read the same latent row. `ratios` is
 * the list of their numbers, `sparse` says that the keys are chosen. */
static void begin_latent_decode(struct entry_writer *w, const struct model_latent *l,
                                const char *ratios, long q_len, bool sparse)
{
    entry_begin(w, "mla_decode");
    entry_field(w, "head_dim: %ld", l->kv_lora_rank + l->rope);
    entry_field(w, "head_dim_v: %ld", l->kv_lora_rank);
    if (w->m->groups[0].sinks)
        entry_field(w, "sinks: true");
    entry_field(w, "gqa: %s", ratios);
    if (q_len > 1)
        entry_field(w, "q_len: %ld", q_len);
    if (sparse && l->index_pool > 1)
        entry_field(w, "page_size: %ld", entry_list_page(w, l->index_pool));
    else
        entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    if (sparse && l->index_pool == 1)
        entry_field(w, "sparse: slots");
}

/* Adds the type of W_UK and W_UV, if these are stored as fp8 blocks. */
static void write_weights(struct entry_writer *w, const struct model_latent *l)
{
    if (l->block_weights)
        entry_field(w, "weights: fp8_block # same: for weights that the engine has converted");
}

/* Writes the entry of latent decode. With d->whole also the one that multiplies the output by W_UV
 * in its launch. `sparse`: the keys are chosen by an indexer. */
static void write_latent_decode(struct entry_writer *w, const struct model_latent *l, long q_len,
                                bool sparse)
{
    struct model_group latent = w->m->groups[0];
    char ratios[ENTRY_LIST], label[80], comment[120];
    latent.kv_heads = 1;
    if (!entry_ratios(w, &latent, ratios))
        return;
    snprintf(label, sizeof(label), "absorbed decode of %ld queries over %s", q_len,
             sparse ? "chosen keys" : "the latent cache");
    begin_latent_decode(w, l, ratios, q_len, sparse);
    if (q_len > 1 && w->d->draft_tree)
        entry_field(w, "mask: [causal, custom] # custom: a tree of drafts");
    entry_one_launch(w);
    snprintf(comment, sizeof(comment), "%s; pass scale %.9g.",
             sparse ? "The same over the keys that the indexer chose for each query"
                    : "Decode over the latent cache, absorbed",
             w->m->groups[0].scale);
    entry_end(w, label, comment);
    if (!w->d->whole)
        return;
    begin_latent_decode(w, l, ratios, q_len, sparse);
    entry_field(w, "one_launch: true");
    entry_field(w, "product_dim: %ld", l->value);
    write_weights(w, l);
    end_if_everywhere(w, "Steps of up to 64 tokens: the same with the product out of the latent.");
}

/* Returns the values of the field small_pages. It is true if a page has fewer than 32 keys, or a
 * number that is no power of two. A key is made from `pool` tokens. */
static const char *has_small_pages(const char *page_size, long pool)
{
    const long tokens = strtol(page_size, NULL, 10), keys = tokens / pool;
    if (tokens == 0)
        return "[false, true]";
    return keys < 32 || (keys & (keys - 1)) ? "true" : "false";
}

/* Writes the entries that make one key of an indexer from several tokens (GLM-5.3-Flash). */
static void write_index_pools(struct entry_writer *w, const struct model_latent *l)
{
    entry_begin(w, "rope_heads");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "norm: rms");
    entry_field(w, "layer_norm: true");
    entry_field(w, "rope: none");
    entry_end(w, "the LayerNorm of the indexer's keys", "LayerNorm of the indexer's keys.");
    entry_begin(w, "compress");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "state_dtype: %s", entry_dtype(w->m));
    entry_field(w, "rope: none");
    entry_field(w, "hadamard: true");
    entry_field(w, "kv_dtype: fp8");
    entry_index_layout(w, l->index_pool);
    entry_end(w, "the indexer's keys", "Keys of the indexer, a key for each group.");
    if (l->rope == 0)
        model_note(w->m, "the indexer does not rotate: pass cosines of 1 and sines of 0");
}

/* Writes the entries of a sparse indexer, and of decode over the keys that it chooses. */
static void write_indexer(struct entry_writer *w, const struct model_latent *l)
{
    if (l->index_dim != ENTRY_INDEX_DIM) {
        model_lacks(w->m, "the sparse indexer: %ld heads of %ld, not of %d", l->index_heads,
                    l->index_dim, ENTRY_INDEX_DIM);
        return;
    }
    if (l->index_pool > 1)
        write_index_pools(w, l);
    entry_begin(w, "indexer_rope_cache");
    entry_field(w, "rope: %s", ropes[l->index_rope]);
    entry_field(w, "layer_norm: true");
    entry_field(
        w, "hadamard: [false, true] # true: as DeepSeek's code and SGLang's; false: as vLLM's");
    entry_written_index_keys(w);
    entry_index_layout(w, l->index_pool);
    entry_end(w, "rotation and cache of the indexer", "Queries and keys of the sparse indexer.");
    entry_begin(w, "indexer_topk");
    entry_field(w, "index_heads: %ld", l->index_heads);
    entry_field(w, "top_k: %ld", l->index_topk / l->index_pool);
    entry_field(w, "paged: true");
    entry_field(w, "index_keys: fp8");
    entry_field(w, "small_pages: %s", has_small_pages(w->d->page_size, l->index_pool));
    entry_index_layout(w, l->index_pool);
    entry_end(w, "the keys that the indexer chooses", "The best keys of each query, as slots.");
    write_topk_merge(w, l->index_topk / l->index_pool, 0);
    if (l->index_pool > 1)
        write_group_lists(w, l->index_pool);
    write_latent_decode(w, l, 1, true);
}

/* Begins an entry of mla_rope_cache. */
static void begin_latent_rope(struct entry_writer *w, const struct model_latent *l)
{
    entry_begin(w, "mla_rope_cache");
    entry_field(w, "head_dim: %ld", l->kv_lora_rank + l->rope);
    entry_field(w, "head_dim_v: %ld", l->kv_lora_rank);
    entry_field(w, "rope: %s", ropes[w->m->groups[0].rotates ? w->m->rope : MODEL_ROPE_NO_ROPE]);
    entry_field(w, "norm: rms");
    entry_cache(w);
}

/* Writes the entry that rotates q and writes latent rows. With d->whole also the one that
 * multiplies q by W_UK in its launch. */
static void write_latent_rope(struct entry_writer *w, const struct model_latent *l)
{
    begin_latent_rope(w, l);
    entry_field(w, "keep_kv: [false, true] # true: the prefill of the same step reads the row");
    entry_end(w, "rotation and write of the latent cache",
              "Queries and rows of the latent cache: rotation, norm and write.");
    if (!w->d->whole)
        return;
    begin_latent_rope(w, l);
    entry_field(w, "product_dim: %ld", l->nope);
    write_weights(w, l);
    end_if_everywhere(w, "Steps of up to 64 tokens: the same with the absorption into q.");
}

/* Writes the entry of a product that turns each head's `from` elements into `to` elements. `what`
 * is its comment. */
static void write_product(struct entry_writer *w, const struct model_latent *l, long from, long to,
                          const char *what)
{
    char label[80];
    snprintf(label, sizeof(label), "the product from %ld to %ld elements", from, to);
    entry_begin(w, "head_product");
    entry_field(w, "head_dim: %ld", from);
    entry_field(w, "head_dim_v: %ld", to);
    write_weights(w, l);
    entry_end(w, label, what);
}

/* Writes the entry of a product that turns one latent into `to` elements of every head, if a kernel
 * has these sizes. */
static void write_up_projection(struct entry_writer *w, const struct model_latent *l, long to)
{
    char why[200];
    entry_begin(w, "head_product");
    entry_field(w, "head_dim: %ld", l->kv_lora_rank);
    entry_field(w, "head_dim_v: %ld", to);
    entry_field(w, "shared: true");
    write_weights(w, l);
    if (entry_is_accepted(w->entry, entry_dtype(w->m), tgt_all[0]->machine.name, why))
        entry_end(w, "the up-projection of latents", "The same for the many tokens of a chunk.");
}

/* Writes the entries of the norms of compressed q and latent, and of the products with W_UK and
 * W_UV. */
static void write_latent_products(struct entry_writer *w, const struct model_latent *l)
{
    if (l->q_lora_rank > 0) {
        entry_begin(w, "qk_rmsnorm");
        entry_field(w, "width: %ld", l->q_lora_rank);
        entry_field(w, "width_kv: %ld", l->kv_lora_rank);
        entry_end(w, "the norms of q_a and kv_a", "Norms of the compressed q and of the latent.");
    }
    write_product(w, l, l->nope, l->kv_lora_rank, "Absorption into q.");
    write_product(w, l, l->kv_lora_rank, l->value,
                  "Out of the latent: values of a chunk of the context, and each head's output.");
    write_up_projection(w, l, l->value);
    if (l->nope == l->value)
        return;
    write_product(w, l, l->kv_lora_rank, l->nope, "Keys of a chunk of the context.");
    write_up_projection(w, l, l->nope);
}

/* Writes the entry that gathers latent rows: the latent as keys, the rotated part after it as
 * values. Rows without a rotated part are gathered as two halves. */
static void write_latent_gather(struct entry_writer *w, const struct model_latent *l)
{
    const long keys = l->rope > 0 ? l->kv_lora_rank : l->kv_lora_rank / 2;
    entry_begin(w, "cache_gather");
    entry_field(w, "head_dim: %ld", keys);
    entry_field(w, "head_dim_v: %ld", l->rope > 0 ? l->rope : l->kv_lora_rank - keys);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_cache(w);
    entry_end(w, "gather of the latent cache",
              l->rope > 0
                  ? "Chunks of the latent cache: latents as keys, rotated keys as values."
                  : "Chunks of the latent cache: halves of a latent as keys and values, side by "
                    "side in one tensor.");
}

/* Writes the entries of latent attention, and of its indexer if there is one. */
static void write_latent(struct entry_writer *w)
{
    const struct model_latent *l = &w->m->latent;
    write_latent_decode(w, l, 1, false);
    if (w->d->draft_tokens > 0)
        write_latent_decode(w, l, w->d->draft_tokens + 1, false);
    entry_begin(w, "combine");
    entry_field(w, "head_dim: %ld", l->kv_lora_rank);
    entry_field(w, "partials: csr");
    entry_end(w, "combine of the latent decode", "Sums of the parts of a split decode.");
    write_latent_rope(w, l);
    write_latent_products(w, l);
    write_latent_gather(w, l);
    if (l->index_topk > 0)
        write_indexer(w, l);
}

/* Writes the combine entry for a group's head dim. */
static void write_combine(struct entry_writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "combine at head_dim %ld", g->head_dim_v);
    entry_begin(w, "combine");
    entry_field(w, "head_dim: %ld", g->head_dim_v);
    entry_field(w, "partials: %s", w->m->latent.kv_lora_rank ? "pair" : "[csr, pair]");
    entry_end(w, label, "Sums of parts: csr of a split decode, pair of two chunks of a prompt.");
}

/* Writes the entries that every model needs: plan, metadata and cache_copy. */
static void write_shared(struct entry_writer *w)
{
    entry_begin(w, "plan");
    if (w->tiles)
        entry_field(w, "q_tiles: [false, true] # true: for a planned prefill");
    entry_end(w, "plan", "Work lists, made on the device.");
    entry_begin(w, "metadata");
    entry_field(w, "metadata: [indptr, kv_indices, page_table, last_page_len, draft_slots]");
    entry_end(w, "metadata", "Index arrays of a step, made on the device.");
    entry_begin(w, "cache_copy");
    entry_end(w, "cache_copy", "Pages from cache to cache.");
}

/* Writes the attention entry of an image or audio encoder. */
static void write_vision(struct entry_writer *w)
{
    const struct model_encoder *v = &w->m->vision;
    char label[80];
    snprintf(label, sizeof(label), "the encoder's attention (%ld heads of %ld, no mask)", v->heads,
             v->head_dim);
    entry_begin(w, "prefill");
    entry_field(w, "head_dim: %ld", v->head_dim);
    entry_field(w, "gqa: 1");
    entry_field(w, "mask: none");
    entry_end(w, label, "The encoder.");
}

/* True if an earlier group has the same head dims and a causal mask, so that its entries serve
 * group `n` too. */
static bool has_size_before(const struct model *m, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (m->groups[i].head_dim == m->groups[n].head_dim &&
            m->groups[i].head_dim_v == m->groups[n].head_dim_v && !m->groups[i].both_ways)
            return true;
    }
    return false;
}

unsigned write_kernels(struct model *m, const struct deployment *d, FILE *out)
{
    struct entry_writer w = {.m = m, .d = d, .out = out};
    /* Without a causal mask there is no decode, and there are no chunks. */
    const bool causal = !m->groups[0].both_ways;
    for (unsigned i = 0; i < m->group_count; i++) {
        if (!is_repeated(m, i) && !m->pooled.is)
            write_group(&w, &m->groups[i]);
    }
    for (unsigned i = 0; causal && !m->pooled.is && i < m->group_count; i++) {
        if (!has_size_before(m, i))
            write_context_chunk(&w, &m->groups[i]);
    }
    if (m->choice.layers)
        write_choice_layers(&w);
    if (m->pooled.is)
        write_pooled(&w);
    else if (m->latent.kv_lora_rank)
        write_latent(&w);
    else
        write_ropes(&w);
    for (unsigned i = 0; causal && i < m->group_count; i++) {
        if (has_size_before(m, i))
            continue;
        if (!m->pooled.is && !m->latent.kv_lora_rank)
            write_cache_write(&w, &m->groups[i]);
        write_combine(&w, &m->groups[i]);
        write_out_gate(&w, &m->groups[i]);
    }
    if (causal)
        write_shared(&w);
    write_mixers(&w);
    if (d->draft_tree && (m->pooled.is || m->choice.layers || m->latent.index_topk > 0))
        model_lacks(m, "trees of drafts over keys that an indexer chooses: it has no mask");
    if (m->vision.heads)
        write_vision(&w);
    return w.entries;
}

long list_page_size(long page_size, long group)
{
    long page = group, rest = page_size;
    while (rest) {
        const long next = page % rest;
        page = rest;
        rest = next;
    }
    return page;
}

bool deployment_has_e2m1_rows(const struct deployment *d)
{
    return strcmp(d->kv_layout, "packed_fp4") == 0 || strcmp(d->kv_layout, "packed_mxfp4") == 0;
}

bool deployment_has_pooled_rows(const struct deployment *d)
{
    return strcmp(d->kv_layout, "scales_last") == 0 || strcmp(d->kv_layout, "planes") == 0 ||
           deployment_has_e2m1_rows(d) || strcmp(d->kv_layout, "packed_mxfp8") == 0;
}

bool check_deployment(const struct deployment *d, char why[200])
{
    struct model m = {0};
    struct entry_writer w = {.m = &m, .d = d};
    /* Rows of a latent and a rotated key. */
    const bool packed = strcmp(d->kv_layout, "packed") == 0;
    const bool rows = deployment_has_pooled_rows(d);
    entry_begin(&w, rows ? "mla_decode" : "cache_write");
    entry_field(&w, packed || rows ? "head_dim: 512" : "head_dim: 64");
    entry_field(&w, rows ? "head_dim_v: 512" : "head_dim_v: 64");
    entry_field(&w, "page_size: %s", d->page_size);
    entry_cache(&w);
    return entry_is_accepted(w.entry, "bf16", tgt_all[0]->machine.name, why);
}

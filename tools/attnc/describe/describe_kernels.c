/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_kernels.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/description.h"
#include "targets/tgt.h"

enum { MAX_ENTRY = 2048, MAX_LIST = 96, INDEX_DIM = 128 };

struct writer {
    struct model *m;
    const struct deployment *d;
    FILE *out;
    unsigned entries;
    bool tiles;            /* a planned prefill is written, whose plans are of tiles */
    char entry[MAX_ENTRY]; /* the one that is being written */
    size_t length;
};

bool share_heads(const struct model_group *g, long ranks, struct rank_heads *out)
{
    if (g->heads % ranks || (g->kv_heads % ranks && ranks % g->kv_heads))
        return false;
    out->heads = g->heads / ranks;
    out->copies = g->kv_heads < ranks;
    out->kv_heads = out->copies ? 1 : g->kv_heads / ranks;
    return true;
}

static void begin(struct writer *w, const char *op)
{
    w->length = (size_t)snprintf(w->entry, MAX_ENTRY, "  - op: %s\n", op);
}

static void field(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void field(struct writer *w, const char *format, ...)
{
    const size_t room = MAX_ENTRY - w->length;
    va_list args;
    va_start(args, format);
    int n = snprintf(w->entry + w->length, room, "    ");
    n += vsnprintf(w->entry + w->length + n, room - (size_t)n, format, args);
    va_end(args);
    if ((size_t)n + 1 < room) {
        w->length += (size_t)n;
        w->entry[w->length++] = '\n';
        w->entry[w->length] = '\0';
    }
}

/* Reads a description of this one entry; `why` is the first error. */
static bool is_accepted(const char *entry, const char *dtype, const char *target, char why[200])
{
    char text[MAX_ENTRY + 200];
    const char *const targets[] = {target, NULL};
    const struct attnc_read_options options = {.targets = targets};
    struct attnc_description description = {0};
    struct attnc_diag d = {.file = "entry"};
    const int size =
        snprintf(text, sizeof(text), "defaults: { dtype: %s }\nkernels:\n%s", dtype, entry);
    const bool good =
        attnc_read_description_bytes(text, (size_t)size, ".", &options, &description, &d);
    if (!good)
        snprintf(why, 200, "%s", d.count ? d.messages[0].text : "out of memory");
    attnc_description_free(&description);
    attnc_diag_clear(&d);
    return good;
}

static const char *dtype(const struct model *m) { return m->fp16 ? "fp16" : "bf16"; }

/* Names of the targets that take the entry, and of the others; `why` is the last refusal. */
static void sort_targets(const struct writer *w, char good[64], char bad[64], char why[200])
{
    good[0] = bad[0] = why[0] = '\0';
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const char *name = (*t)->machine.name;
        char *list = is_accepted(w->entry, dtype(w->m), name, why) ? good : bad;
        const size_t at = strlen(list);
        snprintf(list + at, 64 - at, "%s%s", at ? ", " : "", name);
    }
}

/* Ends an entry: writes it for the targets that take it, and a gap for the others. Returns whether
 * there is such a target. */
static bool end(struct writer *w, const char *label, const char *comment)
{
    char good[64], bad[64], why[200];
    sort_targets(w, good, bad, why);
    if (bad[0] && good[0])
        model_lacks(w->m, "%s on %s: %s", label, bad, why);
    else if (bad[0])
        model_lacks(w->m, "%s: %s", label, why);
    if (!good[0])
        return false;
    if (bad[0])
        field(w, "targets: [%s]", good);
    if (comment[0])
        fprintf(w->out, "  # %s\n", comment);
    fputs(w->entry, w->out);
    w->entries++;
    return true;
}

/*
 * Adds one_launch to an entry whose keys a plan cuts, where all targets of the entry have that
 * kernel. A step of few sequences then takes one launch. Splits that `combine` sums stay possible.
 */
static void add_one_launch(struct writer *w)
{
    char good[64], single[64], bad[64], why[200];
    const size_t length = w->length;
    if (!w->d->one_launch)
        return;
    sort_targets(w, good, bad, why);
    field(w, "one_launch: true");
    sort_targets(w, single, bad, why);
    w->length = length;
    w->entry[length] = '\0';
    if (good[0] && strcmp(good, single) == 0)
        field(w, "one_launch: [false, true] # true: no combine, for steps of few sequences");
}

/* "8", or "[8, 16]": the ratios of heads that the ranks have. False: no rank can run the model. */
static bool list_ratios(const struct writer *w, const struct model_group *g, char list[MAX_LIST])
{
    long ratios[MAX_TENSOR_PARALLEL];
    unsigned count = 0;
    for (unsigned i = 0; i < w->d->rank_count; i++) {
        struct rank_heads r;
        if (!share_heads(g, w->d->ranks[i], &r))
            continue;
        unsigned at = 0;
        while (at < count && ratios[at] != r.heads / r.kv_heads)
            at++;
        ratios[at] = r.heads / r.kv_heads;
        count += at == count;
    }
    size_t length = 0;
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, MAX_LIST - length, "%s%ld",
                                   i           ? ", "
                                   : count > 1 ? "["
                                               : "",
                                   ratios[i]);
    if (count > 1)
        snprintf(list + length, MAX_LIST - length, "]");
    return count > 0;
}

static void head_fields(struct writer *w, const struct model_group *g)
{
    field(w, "head_dim: %ld", g->head_dim);
    if (g->head_dim_v != g->head_dim)
        field(w, "head_dim_v: %ld", g->head_dim_v);
}

static void cache_fields(struct writer *w)
{
    if (strcmp(w->d->kv_dtype, "same") != 0)
        field(w, "kv_dtype: %s", w->d->kv_dtype);
    if (strcmp(w->d->kv_scale, "none") != 0)
        field(w, "kv_scale: %s", w->d->kv_scale);
    if (strcmp(w->d->kv_layout, "nhd") != 0)
        field(w, "kv_layout: %s", w->d->kv_layout);
}

static void score_fields(struct writer *w, const struct model_group *g)
{
    head_fields(w, g);
    field(w, "mask: %s",
          g->window      ? "window"
          : g->chunk     ? "chunk"
          : g->both_ways ? "none"
                         : "causal");
    if (g->sinks)
        field(w, "sinks: true");
    if (w->m->soft_cap > 0)
        field(w, "soft_cap: true");
}

static bool same_attention(const struct model_group *a, const struct model_group *b)
{
    return !a->window == !b->window && !a->chunk == !b->chunk && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->sinks == b->sinks && a->head_dim == b->head_dim &&
           a->head_dim_v == b->head_dim_v && a->both_ways == b->both_ways;
}

/* A group whose kernels an earlier one has too: it differs in the rotation or the distance. */
static bool is_repeated(const struct model *m, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (same_attention(&m->groups[i], &m->groups[n]))
            return true;
    }
    return false;
}

static void write_decode(struct writer *w, const struct model_group *g, const char *ratios,
                         long q_len, const char *seen)
{
    char label[80], comment[200];
    snprintf(label, sizeof(label), "decode of %ld queries at head_dim %ld", q_len, g->head_dim);
    snprintf(comment, sizeof(comment), "Decode%s, %s; pass scale %.9g.",
             q_len > 1 ? " that verifies draft tokens" : "", seen, g->scale);
    begin(w, "decode");
    score_fields(w, g);
    field(w, "gqa: %s", ratios);
    if (q_len > 1)
        field(w, "q_len: %ld", q_len);
    field(w, "page_size: %s", w->d->page_size);
    cache_fields(w);
    add_one_launch(w);
    end(w, label, comment);
}

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

/* Prefill over pages. Planned, its work is cut by lists, so that chunks and mixed batches fill a GPU. */
static void write_paged_prefill(struct writer *w, const struct model_group *g, bool planned)
{
    char label[80];
    snprintf(label, sizeof(label), "%s prefill at head_dim %ld", planned ? "planned" : "paged",
             g->head_dim);
    begin(w, "prefill");
    score_fields(w, g);
    field(w, "paged: true");
    if (planned)
        field(w, "planned: true");
    field(w, "page_size: %s", w->d->page_size);
    cache_fields(w);
    if (planned)
        add_one_launch(w);
    w->tiles |= end(w, label,
                    planned ? "The same by work lists: chunks of prompts, and mixed batches."
                            : "The same after a prefix that the cache holds.") &&
                planned;
}

/* Prompts with images or a prefix, whose tokens see each other. */
static void write_prefix(struct writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "prefill with a custom mask at head_dim %ld", g->head_dim);
    begin(w, "prefill");
    head_fields(w, g);
    field(w, "mask: custom");
    if (g->sinks)
        field(w, "sinks: true");
    if (w->m->soft_cap > 0)
        field(w, "soft_cap: true");
    end(w, label, "Prompts with images or a prefix, whose tokens see each other.");
}

/*
 * Attention of one kind of layer: prompts from tensors and from pages, and decode. A prefill takes
 * any ratio of heads; for decode the ratio decides how many rows a tile has.
 */
static void write_group(struct writer *w, const struct model_group *g)
{
    char ratios[MAX_LIST], label[80], comment[200], seen[80];
    if (!list_ratios(w, g, ratios))
        return;
    seen_text(g, seen);
    snprintf(label, sizeof(label), "prefill at head_dim %ld", g->head_dim);
    snprintf(comment, sizeof(comment),
             "Prefill, %s; pass scale %.9g; lse: true merges chunks of a long prompt.", seen,
             g->scale);
    begin(w, "prefill");
    score_fields(w, g);
    field(w, g->both_ways ? "lse: false" : "lse: [false, true]");
    end(w, label, comment);
    if (w->m->image_prefix)
        write_prefix(w, g);
    if (w->m->latent.kv_lora_rank || g->both_ways)
        return;

    write_paged_prefill(w, g, false);
    write_paged_prefill(w, g, true);
    write_decode(w, g, ratios, 1, seen);
    if (w->d->draft_tokens > 0)
        write_decode(w, g, ratios, w->d->draft_tokens + 1, seen);
}

/* Earlier chunks of a prompt: seen whole by every query, merged by `combine` in pairs. */
static void write_context_chunk(struct writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "prefill of context chunks at head_dim %ld", g->head_dim);
    begin(w, "prefill");
    head_fields(w, g);
    field(w, "mask: none");
    if (w->m->soft_cap > 0)
        field(w, "soft_cap: true");
    field(w, "lse: true");
    end(w, label, "Chunks of the context before a prompt's newest chunk.");
    if (w->m->latent.kv_lora_rank)
        return;
    snprintf(label, sizeof(label), "cache_gather at head_dim %ld", g->head_dim);
    begin(w, "cache_gather");
    head_fields(w, g);
    field(w, "page_size: %s", w->d->page_size);
    cache_fields(w);
    end(w, label, "Keys and values of such a chunk out of the cache.");
}

static const char *const ropes[] = {"none", "neox", "gptj"};

static void write_rope(struct writer *w, const struct model_group *g)
{
    static const char *const norms[] = {"none", "rms", "gemma_rms", "full", "none", "none"};
    static const char *const mropes[] = {"none", "sections", "interleaved"};
    char label[80];
    snprintf(label, sizeof(label), "rope_qk_norm_cache at head_dim %ld", g->head_dim);
    begin(w, "rope_qk_norm_cache");
    head_fields(w, g);
    field(w, "rope: %s", ropes[g->rotates ? w->m->rope : MODEL_ROPE_NO_ROPE]);
    if (g->rotates && g->rotary_dim != g->head_dim)
        field(w, "rotary_dim: %ld", g->rotary_dim);
    if (g->rotates && w->m->mrope)
        field(w, "mrope: [none, %s] # none: text alone", mropes[w->m->mrope]);
    if (w->m->norm)
        field(w, "norm: %s", norms[w->m->norm]);
    if (w->m->bias)
        field(w, "bias: true");
    if (w->m->gate)
        field(w, "gate: true");
    cache_fields(w);
    field(w, "keep_kv: [false, true] # true: the prefill of the same step reads k and v");
    end(w, label,
        g->rotates ? "The steps before attention, with the write into the cache."
                   : "The same for layers without rotation.");
}

static bool same_rope(const struct model_group *a, const struct model_group *b)
{
    return a->rotates == b->rotates && a->rotary_dim == b->rotary_dim &&
           a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v;
}

/* One entry for each size of heads and of what rotates, those that rotate first. */
static void write_ropes(struct writer *w)
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

/* Every query head of a rank reads the one row that the latent cache has of a token. */
static void write_latent_decode(struct writer *w, const struct model_latent *l, long q_len,
                                bool sparse)
{
    struct model_group latent = w->m->groups[0];
    char ratios[MAX_LIST], label[80], comment[120];
    latent.kv_heads = 1;
    if (!list_ratios(w, &latent, ratios))
        return;
    snprintf(label, sizeof(label), "absorbed decode of %ld queries over %s", q_len,
             sparse ? "lists of slots" : "the latent cache");
    begin(w, "mla_decode");
    field(w, "head_dim: %ld", l->kv_lora_rank + l->rope);
    field(w, "head_dim_v: %ld", l->kv_lora_rank);
    field(w, "gqa: %s", ratios);
    if (q_len > 1)
        field(w, "q_len: %ld", q_len);
    field(w, "page_size: %s", w->d->page_size);
    cache_fields(w);
    if (sparse)
        field(w, "sparse: slots");
    add_one_launch(w);
    snprintf(comment, sizeof(comment), "%s; pass scale %.9g.",
             sparse ? "The same over the keys that the indexer chose for each query"
                    : "Decode over the latent cache, absorbed",
             w->m->groups[0].scale);
    end(w, label, comment);
}

/* Pages that the indexer finds key by key: below 32 tokens, or no power of two. */
static const char *has_small_pages(const char *page_size)
{
    const long tokens = strtol(page_size, NULL, 10);
    if (tokens == 0)
        return "[false, true]";
    return tokens < 32 || (tokens & (tokens - 1)) ? "true" : "false";
}

static void write_indexer(struct writer *w, const struct model_latent *l)
{
    if (l->index_dim != INDEX_DIM) {
        model_lacks(w->m, "the sparse indexer: %ld heads of %ld, not of %d", l->index_heads,
                    l->index_dim, INDEX_DIM);
        return;
    }
    begin(w, "indexer_rope_cache");
    field(w, "rope: %s", ropes[l->index_rope]);
    field(w, "layer_norm: true");
    field(w, "hadamard: [false, true] # true: as DeepSeek's code and SGLang's; false: as vLLM's");
    field(w, "index_keys: fp8 # mxfp4, here and below, for MI355X alone: half the bytes");
    end(w, "rotation and cache of the indexer", "Queries and keys of the sparse indexer.");
    begin(w, "indexer_topk");
    field(w, "index_heads: %ld", l->index_heads);
    field(w, "top_k: %ld", l->index_topk);
    field(w, "paged: true");
    field(w, "index_keys: fp8");
    field(w, "small_pages: %s", has_small_pages(w->d->page_size));
    end(w, "the keys that the indexer chooses", "The best keys of each query, as slots.");
    write_latent_decode(w, l, 1, true);
}

static void write_latent_rope(struct writer *w, const struct model_latent *l)
{
    begin(w, "mla_rope_cache");
    field(w, "head_dim: %ld", l->kv_lora_rank + l->rope);
    field(w, "head_dim_v: %ld", l->kv_lora_rank);
    field(w, "rope: %s", ropes[w->m->groups[0].rotates ? w->m->rope : MODEL_ROPE_NO_ROPE]);
    field(w, "norm: rms");
    cache_fields(w);
    field(w, "keep_kv: [false, true] # true: the prefill of the same step reads the row");
    end(w, "rotation and write of the latent cache",
        "Queries and rows of the latent cache: rotation, norm and write.");
}

static void write_product(struct writer *w, long from, long to, const char *what)
{
    char label[80];
    snprintf(label, sizeof(label), "the product from %ld to %ld elements", from, to);
    begin(w, "head_product");
    field(w, "head_dim: %ld", from);
    field(w, "head_dim_v: %ld", to);
    end(w, label, what);
}

/* The product of one latent with the weights of all heads, where there is a kernel made for it. */
static void write_up_projection(struct writer *w, const struct model_latent *l, long to)
{
    char why[200];
    begin(w, "head_product");
    field(w, "head_dim: %ld", l->kv_lora_rank);
    field(w, "head_dim_v: %ld", to);
    field(w, "shared: true");
    if (is_accepted(w->entry, dtype(w->m), tgt_all[0]->machine.name, why))
        end(w, "the up-projection of latents", "The same for the many tokens of a chunk.");
}

static void write_latent_products(struct writer *w, const struct model_latent *l)
{
    if (l->q_lora_rank > 0) {
        begin(w, "qk_rmsnorm");
        field(w, "width: %ld", l->q_lora_rank);
        field(w, "width_kv: %ld", l->kv_lora_rank);
        end(w, "the norms of q_a and kv_a", "Norms of the compressed q and of the latent.");
    }
    write_product(w, l->nope, l->kv_lora_rank, "Absorption into q.");
    write_product(w, l->kv_lora_rank, l->value,
                  "Out of the latent: values of a chunk of the context, and each head's output.");
    write_up_projection(w, l, l->value);
    if (l->nope == l->value)
        return;
    write_product(w, l->kv_lora_rank, l->nope, "Keys of a chunk of the context.");
    write_up_projection(w, l, l->nope);
}

/* Writes the gather of latent rows: the latent as keys, the rotated key after it as values. A row
 * without a rotated key is gathered as two halves. */
static void write_latent_gather(struct writer *w, const struct model_latent *l)
{
    const long keys = l->rope > 0 ? l->kv_lora_rank : l->kv_lora_rank / 2;
    begin(w, "cache_gather");
    field(w, "head_dim: %ld", keys);
    field(w, "head_dim_v: %ld", l->rope > 0 ? l->rope : l->kv_lora_rank - keys);
    field(w, "page_size: %s", w->d->page_size);
    cache_fields(w);
    end(w, "gather of the latent cache",
        l->rope > 0 ? "Chunks of the latent cache: latents as keys, rotated keys as values."
                    : "Chunks of the latent cache: halves of a latent as keys and values, side by "
                      "side in one tensor.");
}

static void write_latent(struct writer *w)
{
    const struct model_latent *l = &w->m->latent;
    write_latent_decode(w, l, 1, false);
    if (w->d->draft_tokens > 0)
        write_latent_decode(w, l, w->d->draft_tokens + 1, false);
    begin(w, "combine");
    field(w, "head_dim: %ld", l->kv_lora_rank);
    field(w, "partials: csr");
    end(w, "combine of the latent decode", "Sums of the parts of a split decode.");
    write_latent_rope(w, l);
    write_latent_products(w, l);
    write_latent_gather(w, l);
    if (l->index_topk > 0)
        write_indexer(w, l);
}

static void write_combine(struct writer *w, const struct model_group *g)
{
    char label[80];
    snprintf(label, sizeof(label), "combine at head_dim %ld", g->head_dim_v);
    begin(w, "combine");
    field(w, "head_dim: %ld", g->head_dim_v);
    field(w, "partials: %s", w->m->latent.kv_lora_rank ? "pair" : "[csr, pair]");
    end(w, label, "Sums of parts: csr of a split decode, pair of two chunks of a prompt.");
}

static void write_shared(struct writer *w)
{
    begin(w, "plan");
    if (w->tiles)
        field(w, "q_tiles: [false, true] # true: for a planned prefill");
    end(w, "plan", "Work lists, made on the device.");
    begin(w, "metadata");
    field(w, "metadata: [indptr, kv_indices, page_table, last_page_len, draft_slots]");
    end(w, "metadata", "Index arrays of a step, made on the device.");
    begin(w, "cache_copy");
    end(w, "cache_copy", "Pages from cache to cache.");
}

static void write_vision(struct writer *w)
{
    const struct model_encoder *v = &w->m->vision;
    char label[80];
    snprintf(label, sizeof(label), "the encoder's attention (%ld heads of %ld, no mask)", v->heads,
             v->head_dim);
    begin(w, "prefill");
    field(w, "head_dim: %ld", v->head_dim);
    field(w, "gqa: 1");
    field(w, "mask: none");
    end(w, label, "The encoder.");
}

/* True if an earlier group has heads of the same size, for which its entries are written. */
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
    struct writer w = {.m = m, .d = d, .out = out};
    const bool causal = !m->groups[0].both_ways; /* else there is no decode, and no chunk */
    for (unsigned i = 0; i < m->group_count; i++) {
        if (!is_repeated(m, i))
            write_group(&w, &m->groups[i]);
    }
    for (unsigned i = 0; causal && i < m->group_count; i++) {
        if (!has_size_before(m, i))
            write_context_chunk(&w, &m->groups[i]);
    }
    if (m->latent.kv_lora_rank)
        write_latent(&w);
    else
        write_ropes(&w);
    for (unsigned i = 0; causal && i < m->group_count; i++) {
        if (!has_size_before(m, i))
            write_combine(&w, &m->groups[i]);
    }
    if (causal)
        write_shared(&w);
    if (m->vision.heads)
        write_vision(&w);
    return w.entries;
}

bool check_deployment(const struct deployment *d, char why[200])
{
    struct model m = {0};
    struct writer w = {.m = &m, .d = d};
    const bool packed = strcmp(d->kv_layout, "packed") == 0; /* rows of a latent and a key */
    begin(&w, "cache_write");
    field(&w, packed ? "head_dim: 512" : "head_dim: 64");
    field(&w, "head_dim_v: 64");
    field(&w, "page_size: %s", d->page_size);
    cache_fields(&w);
    return is_accepted(w.entry, "bf16", tgt_all[0]->machine.name, why);
}

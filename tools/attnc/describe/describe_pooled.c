/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_pooled.h"

#include <string.h>

#include "tools/attnc/describe/describe_choice.h"

/* Writes the norm of compressed q, if the model compresses q. */
static void write_norms(struct entry_writer *w, const struct model_group *g)
{
    if (w->m->pooled.q_lora_rank <= 0)
        return;
    entry_begin(w, "qk_rmsnorm");
    entry_field(w, "width: %ld", w->m->pooled.q_lora_rank);
    entry_field(w, "width_kv: %ld", g->head_dim);
    entry_end(w, "the norm of q_a", "The norm of the compressed q; kv NULL: compress has its own.");
}

/* Begins an entry of rope_heads with the norm `norm`. */
static void begin_heads(struct entry_writer *w, const struct model_group *g, const char *norm)
{
    entry_begin(w, "rope_heads");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "norm: %s", norm);
    entry_field(w, "rope: gptj");
    entry_field(w, "rotary_dim: %ld", g->rotary_dim);
}

/* Writes the entries that normalise and rotate q's heads, and rotate the output's heads
 * backwards. */
static void write_heads(struct entry_writer *w, const struct model_group *g)
{
    if (!w->m->pooled.shared) { /* DeepSeek-V4.1 normalises q only before its last projection */
        begin_heads(w, g, "rms");
        entry_end(w, "the heads of q", "Norm, without a weight, and rotation of q's heads.");
    }
    begin_heads(w, g, "none");
    entry_field(w,
                "out_dtype: [same, fp8] # fp8: for a projection of fp8 with a scale for each 128");
    entry_end(w, "the heads of the output",
              w->m->pooled.shared ? "The rotation of q, and of the output backwards."
                                  : "The rotation of the output, backwards.");
}

/* Writes the entry of compress that makes cached rows: one from each token, for the window, and one
 * from each group of tokens. */
static void write_rows(struct entry_writer *w, const struct model_group *g)
{
    entry_begin(w, "compress");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "state_dtype: [f32, %s]", entry_dtype(w->m));
    entry_field(w, "norm: rms");
    entry_field(w, "rope: gptj");
    entry_field(w, "rotary_dim: %ld", g->rotary_dim);
    entry_row_caches(w);
    entry_end(w, "the rows of the window and of groups",
              "Rows of the window (ratio 1) and of groups, whose last elements rotate "
              "(rotary_first).");
}

/* Adds the layout of the indexer's keys. Layers with different groups have the same kernels, so the
 * largest group decides. */
static void add_key_layout(struct entry_writer *w)
{
    long pool = 1;
    for (unsigned i = 0; i < w->m->group_count; i++) {
        const struct model_group *const g = &w->m->groups[i];
        if (g->chosen && g->pool > pool)
            pool = g->pool;
    }
    entry_index_layout(w, pool);
}

/* Writes the entry of compress that makes an indexer's keys from projections of their own, as in
 * DeepSeek-V4. */
static void write_index_keys(struct entry_writer *w, const struct model_group *g)
{
    entry_begin(w, "compress");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "state_dtype: [f32, %s]", entry_dtype(w->m));
    entry_field(w, "norm: rms");
    entry_field(w, "rope: gptj");
    entry_field(w, "rotary_dim: %ld", g->rotary_dim);
    entry_field(w, "hadamard: true");
    entry_field(w, "kv_dtype: fp8");
    add_key_layout(w);
    entry_end(w, "the indexer's keys", "Keys of the indexer, of groups likewise.");
}

/* Writes the entry of the indexer that chooses rows. With `blocks` it also chooses the best blocks
 * of rows. With `listed` it chooses only among rows of blocks that an earlier layer chose. */
static void write_choice(struct entry_writer *w, bool blocks, bool listed, const char *comment)
{
    const struct model_pooled *const p = &w->m->pooled;
    entry_begin(w, "indexer_topk");
    entry_field(w, "index_heads: %ld", p->index_heads);
    entry_field(w, "top_k: %ld", p->index_topk);
    entry_field(w, "paged: true");
    entry_field(w, "index_keys: fp8");
    entry_field(w, "small_pages: [false, true] # true: fewer than 32 rows in a page");
    add_key_layout(w);
    if (blocks)
        entry_field(w, "top_blocks: %ld", p->top_blocks);
    if (blocks || listed)
        entry_field(w, "block_size: %ld", p->block_size);
    if (listed)
        entry_field(w, "listed: true");
    entry_end(w, "the rows that the indexer chooses", comment);
}

/* Writes the entries of the indexer that chooses pooled rows. */
static void write_index(struct entry_writer *w, const struct model_group *g)
{
    const struct model_pooled *const p = &w->m->pooled;
    if (p->index_dim != ENTRY_INDEX_DIM) {
        model_lacks(w->m, "the indexer of rows: %ld heads of %ld, not of %d", p->index_heads,
                    p->index_dim, ENTRY_INDEX_DIM);
        return;
    }
    if (!p->shared)
        write_index_keys(w, g);
    entry_begin(w, "indexer_rope_cache");
    entry_field(w, "rope: gptj");
    entry_field(w, "hadamard: true");
    if (p->shared)
        entry_written_index_keys(w);
    else
        entry_field(w, "index_keys: fp8");
    add_key_layout(w);
    entry_end(w, "rotation of the indexer's queries",
              p->shared ? "Queries of the indexer, and its keys from `latent` of compress."
                        : "Queries of the indexer; with slots below 0 no key is written.");
    write_choice(w, false, false, "The best rows of each query.");
    write_topk_merge(w, p->index_topk, p->top_blocks);
    if (p->top_blocks <= 0)
        return;
    write_choice(w, true, false, "The same with the best blocks; last_blocks 1 keeps the newest.");
    write_choice(w, false, true, "The best rows of these blocks, in later layers.");
}

/* Begins an entry of attention over lists of rows; with `two_sources` the lists name rows of two
 * tensors. `ratios` lists the numbers of heads on a rank. */
static void begin_lists(struct entry_writer *w, const struct model_group *g, const char *ratios,
                        bool two_sources)
{
    entry_begin(w, "mla_decode");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "head_dim_v: %ld", g->head_dim);
    if (g->sinks)
        entry_field(w, "sinks: true");
    entry_field(w, "gqa: %s", ratios);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_field(w, "page_table: [blocks, indices]");
    entry_cache(w);
    entry_field(w, "sparse: slots");
    if (two_sources)
        entry_field(w, "two_sources: true");
}

/* Writes the entries that convert cached rows to 16 bits, and attend to converted rows. `ratios`
 * lists the numbers of heads on a rank. */
static void write_converted(struct entry_writer *w, const struct model_group *g, const char *ratios)
{
    if (!deployment_has_pooled_rows(w->d))
        return;
    entry_begin(w, "cache_gather");
    entry_field(w, "head_dim: %ld", g->head_dim - g->rotary_dim);
    entry_field(w, "head_dim_v: %ld", g->rotary_dim);
    entry_field(w, "page_size: %s", w->d->page_size);
    entry_row_caches(w);
    entry_end(
        w, "rows of 16 bits for prompts",
        "Rows of 16 bits for a prompt: attn_mla_decode_gather_plan() says when to make them.");
    entry_begin(w, "mla_decode");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "head_dim_v: %ld", g->head_dim);
    if (g->sinks)
        entry_field(w, "sinks: true");
    entry_field(w, "gqa: %s", ratios);
    entry_field(w, "page_size: 1");
    entry_field(w, "page_table: [blocks, indices]");
    entry_field(w, "sparse: slots");
    entry_end(w, "attention over rows of 16 bits", "Attention over lists of these rows.");
}

/* Writes the entries of attention over lists of rows, for prompts and for steps. With main rows of
 * e2m1 all lists name rows of two tensors, since rows of the window are fp8. */
static void write_attention(struct entry_writer *w, const struct model_group *g)
{
    const bool e2m1 = deployment_has_e2m1_rows(w->d);
    char ratios[ENTRY_LIST], comment[160];
    if (!entry_ratios(w, g, ratios))
        return;
    begin_lists(w, g, ratios, e2m1);
    entry_one_launch(w);
    snprintf(comment, sizeof(comment),
             "Prefill and decode over a list of rows for each query%s; pass scale %.9g.",
             e2m1 ? ", of the window's and the chunk's in second" : "", g->scale);
    entry_end(w, "attention over lists of rows", comment);
    if (strcmp(w->d->kv_dtype, "same") != 0 && !deployment_has_pooled_rows(w->d))
        return; /* with two sources, elements are 16-bit or rows are key and value */
    if (!e2m1) {
        begin_lists(w, g, ratios, true);
        entry_end(w, "attention over two sources",
                  "The same over lists that name rows of a prompt's chunk too (second).");
    }
    write_converted(w, g, ratios);
}

/* Returns a group of layers that attend to chosen rows; NULL if there is none. */
static const struct model_group *find_chosen(const struct model *m)
{
    for (unsigned i = 0; i < m->group_count; i++) {
        if (m->groups[i].chosen)
            return &m->groups[i];
    }
    return NULL;
}

void write_pooled(struct entry_writer *w)
{
    const struct model_group *const g = &w->m->groups[0], *const chosen = find_chosen(w->m);
    write_norms(w, g);
    write_heads(w, g);
    write_rows(w, g);
    if (chosen)
        write_index(w, chosen);
    write_chosen_lists(w, "Lists of chosen rows, or of all, and of the window's.");
    write_attention(w, g);
}

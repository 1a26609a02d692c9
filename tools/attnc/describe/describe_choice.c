/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_ROTARY = 64 /* elements of an indexer's queries and keys that rotate */ };

void write_chosen_lists(struct entry_writer *w, const char *comment)
{
    entry_begin(w, "chosen_lists");
    entry_end(w, "lists of what the indexer chose", comment);
}

void write_group_lists(struct entry_writer *w, long group)
{
    const long page = entry_list_page(w, group);
    char comment[140];
    snprintf(comment, sizeof(comment),
             "Lists of the chosen groups and the newest tokens, as pages of %ld token%s: "
             "group_entries %ld.",
             page, page > 1 ? "s" : "", group / page);
    write_chosen_lists(w, comment);
}

void write_topk_merge(struct entry_writer *w, long top_k, long top_blocks)
{
    entry_begin(w, "topk");
    if (top_blocks > 0 && top_blocks != top_k)
        entry_field(w, "top_k: [%ld, %ld]", top_k, top_blocks);
    else
        entry_field(w, "top_k: %ld", top_k);
    entry_end(w, "the merge of a row's parts", "The merge of parts, where few rows are cut.");
}

/* Writes the entry that normalises and rotates the queries of a pooled indexer, which stay
 * 16-bit. */
static void write_pooled_queries(struct entry_writer *w)
{
    entry_begin(w, "rope_heads");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "norm: rms");
    entry_field(w, "rope: neox");
    entry_field(w, "rotary_dim: %d", INDEX_ROTARY);
    entry_end(w, "the indexer's queries",
              "Norm and rotation of the indexer's q; weight has 1 + w.");
}

/* Writes the entries that normalise an indexer's queries, rotate them, and rotate and store a key
 * of each token. */
static void write_queries(struct entry_writer *w)
{
    entry_begin(w, "rope_heads");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "norm: rms");
    entry_field(w, "rope: none");
    entry_end(w, "the norm of the indexer's queries",
              "The norm of the indexer's q; weight has 1 + w.");
    entry_begin(w, "indexer_rope_cache");
    entry_field(w, "rope: neox");
    entry_field(w, "index_keys: fp8");
    entry_index_layout(w, 1);
    entry_end(w, "rotation and cache of the indexer",
              "Rotation of q and of the key of each token.");
}

/* Writes the entry that makes the indexer's keys, one from each group of tokens. */
static void write_keys(struct entry_writer *w, const struct model_choice *c)
{
    entry_begin(w, "compress");
    entry_field(w, "head_dim: %d", ENTRY_INDEX_DIM);
    entry_field(w, "state_dtype: %s", entry_dtype(w->m));
    entry_field(w, "norm: gemma_rms");
    entry_field(w, "rope: neox");
    entry_field(w, "rotary_dim: %d", INDEX_ROTARY);
    entry_index_layout(w, c->group);
    entry_end(w, "the indexer's keys", "Means of the keys of groups, normalised and rotated.");
}

/* Writes the entry that chooses groups: by a key of each group if the indexer is pooled, otherwise
 * by the keys of its tokens. */
static void write_topk(struct entry_writer *w, const struct model_choice *c)
{
    entry_begin(w, "indexer_topk");
    entry_field(w, "index_heads: %ld", c->pooled ? c->heads : 1);
    entry_field(w, "top_k: %ld", c->top);
    entry_field(w, "paged: true");
    entry_field(w, "index_keys: %s", c->pooled ? "bf16" : "fp8");
    entry_field(w, "small_pages: [false, true] # true: fewer than 32 keys in a page");
    entry_index_layout(w, c->pooled ? c->group : 1);
    if (!c->pooled) {
        entry_field(w, "all_signs: true");
        entry_field(w, "top_blocks: %ld", c->top);
        entry_field(w, "block_size: %ld", c->group);
    }
    entry_end(w, "the groups that the indexer chooses",
              c->pooled ? "The best groups of each query."
                        : "The best blocks of each query and head; last_blocks keeps the newest.");
}

/* Writes the decode entry for lists of chosen groups, whose pages have `page` tokens. */
static void write_group_decode(struct entry_writer *w, const struct model_group *g, long page)
{
    char ratios[ENTRY_LIST];
    if (!entry_ratios(w, g, ratios))
        return;
    entry_begin(w, "decode");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "gqa: %s", ratios);
    entry_field(w, "page_size: %ld", page);
    entry_cache(w);
    entry_one_launch(w);
    entry_end(w, "decode over chosen groups",
              "Prefill and decode over the lists: a sequence for each query.");
}

/* Writes the entries for prompts: lists of blocks that neighbouring tokens share, and prefill that
 * loads each block once. `page_size`: value of that field, for pages of the lists. */
static void write_shared_prefill(struct entry_writer *w, const struct model_group *g,
                                 const char *page_size)
{
    char ratios[ENTRY_LIST];
    if (!entry_ratios(w, g, ratios))
        return;
    entry_begin(w, "shared_lists");
    entry_end(w, "lists that neighbours share",
              "Lists of blocks for tiles of neighbouring tokens, and masks of who sees what.");
    entry_begin(w, "prefill");
    entry_field(w, "head_dim: %ld", g->head_dim);
    entry_field(w, "gqa: %s", ratios);
    entry_field(w, "mask: blocks");
    entry_field(w, "paged: true");
    entry_field(w, "planned: true");
    entry_field(w, "page_size: %s", page_size);
    entry_cache(w);
    entry_end(w, "prefill over shared lists",
              "Prefill over these lists: a launch for each KV head of the rank.");
}

/* Writes the entries of the lists of chosen groups, and of attention over them. Blocks of whole
 * pages of the cache need no decode entry: the kernel of layers that see all keys reads them. */
static void write_chosen_groups(struct entry_writer *w, const struct model_choice *c,
                                const struct model_group *g)
{
    const long tokens = strtol(w->d->page_size, NULL, 10), page = entry_list_page(w, c->group);
    char text[24];
    if (tokens == 0 && !c->pooled) {
        write_chosen_lists(w, "Lists of the chosen groups and the newest tokens, as pages.");
        write_shared_prefill(w, g, w->d->page_size);
        return;
    }
    if (page != tokens && !c->pooled && strncmp(w->d->kv_layout, "shuffle", 7) == 0) {
        model_lacks(w->m,
                    "attention over chosen blocks: a page of %ld tokens in kv_layout %s cannot "
                    "be read as pages of %ld",
                    tokens, w->d->kv_layout, page);
        return;
    }
    write_group_lists(w, c->group);
    if (page != tokens)
        write_group_decode(w, g, page);
    snprintf(text, sizeof(text), "%ld", page);
    if (!c->pooled)
        write_shared_prefill(w, g, text);
}

void write_choice_layers(struct entry_writer *w)
{
    const struct model_choice *const c = &w->m->choice;
    const struct model_group *const g = &w->m->groups[0];
    if (c->dim != ENTRY_INDEX_DIM || g->rotary_dim != INDEX_ROTARY) {
        model_lacks(w->m, "an indexer of %ld elements, of which %ld rotate: it has %d and %d",
                    c->dim, g->rotary_dim, ENTRY_INDEX_DIM, INDEX_ROTARY);
        return;
    }
    if (c->pooled) {
        write_pooled_queries(w);
        write_keys(w, c);
    } else {
        write_queries(w);
    }
    if (c->pooled && w->m->fp16)
        model_lacks(w->m, "an indexer of fp16: its keys and queries are bf16");
    write_topk(w, c);
    write_topk_merge(w, c->top, 0);
    write_chosen_groups(w, c, g);
}

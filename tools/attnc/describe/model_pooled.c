/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads layers that attend to groups of tokens. DeepSeek-V4 and V4.1 attend to rows of groups
 * beside a window (compress_ratios, or layer_types with compress_rates). MiniMax-M3
 * (sparse_attention_config) and Qwen3.8-Flash-Next (indexer_budget) attend to the keys of chosen
 * groups.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/attnc/describe/model_read.h"

/* Most tokens of a group. */
enum {
    MAX_RATIO = 128,
    /* Tokens of the groups among whose rows DeepSeek-V4 chooses; rows of other groups are all
     * seen. */
    OVERLAPPING = 4
};

/* Returns the tokens of a group for a word of layer_types; 0: the layer attends to its window only.
 * *chosen says whether an indexer chooses rows. */
static long ratio_of_word(const struct config *c, const char *word, bool *chosen)
{
    *chosen = strcasecmp(word, "compressed_sparse_attention") == 0;
    if (*chosen)
        return config_number(c, CONFIG_POOL_CHOSEN);
    if (strcasecmp(word, "heavily_compressed_attention") == 0)
        return config_number(c, CONFIG_POOL_SEEN);
    if (strcasecmp(word, "sliding_attention") != 0)
        config_fault(c, "layer_types has '%.40s', which is no kind of pooled attention", word);
    return 0;
}

/* Returns the tokens of a group of layer `i`. A list of ratios prevails over words. *chosen says
 * whether an indexer chooses rows. */
static long ratio_of(const struct reader *r, long i, bool *chosen)
{
    const struct config *const c = &r->c;
    const char *word = config_element(c, config_find(c, CONFIG_KIND_WORDS), i);
    bool by_word = false;
    const long worded = word ? ratio_of_word(c, word, &by_word) : -1;
    const long given = config_whole_of_layer(c, CONFIG_KIND_NUMBERS, i, r->rules.layers);
    const long ratio = given >= 0 ? given : worded;
    if (ratio < 0 || ratio > MAX_RATIO)
        config_fault(c, "layer %ld: neither compress_ratios nor layer_types says 0 to %d tokens", i,
                     MAX_RATIO);
    *chosen = given < 0 ? by_word : ratio == OVERLAPPING;
    return ratio;
}

void read_pool_of(struct reader *r, long i, struct model_group *g)
{
    const struct config *const c = &r->c;
    const long rotary = config_number(c, CONFIG_ROPE_DIM);
    g->rows = true;
    g->window = config_number(c, CONFIG_WINDOW);
    if (g->window <= 0)
        config_fault(c, "sliding_window is not there, or 0, which pooled attention needs");
    g->pool = ratio_of(r, i, &g->chosen);
    if (config_find(c, CONFIG_POOL_CHOOSERS))
        g->chosen = g->pool > 0;
    g->rotary_dim = rotary > 0 ? rotary : g->rotary_dim;
    if (g->rotary_dim > g->head_dim)
        config_fault(c, "%ld elements of a head of %ld rotate", g->rotary_dim, g->head_dim);
}

/* Writes the layers in the list of `key` to `text`. A number that is no layer is a fault. */
static void list_layers(struct reader *r, enum config_key key, char text[MODEL_LISTED])
{
    const struct attnc_yaml_node *list = config_find(&r->c, key);
    const long length = config_length(&r->c, list);
    bool set[MAX_LAYERS] = {false};
    long count = 0;
    for (long i = 0; i < r->m->layers; i++) {
        set[i] = config_holds(&r->c, list, i);
        count += set[i];
    }
    if (count != length) {
        char name[CONFIG_PATH];
        config_fault(&r->c, "%s has %ld entries, of which %ld are layers of the model",
                     config_name(&r->c, key, name), length, count);
    }
    layers_text(set, r->m->layers, text, MODEL_LISTED);
}

/* Reads which layers make rows and which choose among them, in models where other layers use both
 * (DeepSeek-V4.1). */
static void read_shared(struct reader *r, struct model_pooled *p)
{
    const char *ties = config_text(&r->c, CONFIG_INDEX_TIES);
    list_layers(r, CONFIG_POOL_CHOOSERS, p->choosers);
    list_layers(r, CONFIG_POOL_MAKERS, p->makers);
    p->top_blocks = config_number(&r->c, CONFIG_POOL_BLOCKS);
    p->block_size = config_number(&r->c, CONFIG_POOL_BLOCK);
    if (p->top_blocks > 0)
        model_note(r->m,
                   "layer %ld chooses blocks of rows first (top_blocks), and later layers "
                   "choose among these (listed)",
                   config_number(&r->c, CONFIG_POOL_BLOCKS_FROM));
    if (ties && strcmp(ties, "small_position") != 0)
        model_lacks(r->m,
                    "index_topk_tie_break '%.40s': of equal scores the smaller positions "
                    "are chosen",
                    ties);
}

/* Sets p->choosers for a file without a list of them: every layer with chosen rows has its own
 * indexer. */
static void list_choosers(struct reader *r, struct model_pooled *p)
{
    bool set[MAX_LAYERS] = {false};
    for (long i = 0; i < r->m->layers; i++) {
        bool chosen;
        set[i] = ratio_of(r, i, &chosen) > 0 && chosen;
    }
    layers_text(set, r->m->layers, p->choosers, MODEL_LISTED);
}

/* Returns what layer `i` makes and chooses. In a file without lists of makers and choosers each
 * layer does both for itself. */
static struct model_share share_of(const struct reader *r, long i)
{
    const struct config *const c = &r->c;
    const struct model_pooled *p = &r->m->pooled;
    const long from = p->top_blocks > 0 ? config_number(c, CONFIG_POOL_BLOCKS_FROM) : -1;
    struct model_share s = {.layers = 1};
    s.pool = ratio_of(r, i, &s.chosen);
    s.chosen = p->shared ? s.pool > 0 : s.chosen && s.pool > 0;
    s.makes = p->shared ? config_holds(c, config_find(c, CONFIG_POOL_MAKERS), i) : s.pool > 0;
    s.chooses = p->shared ? config_holds(c, config_find(c, CONFIG_POOL_CHOOSERS), i) : s.chosen;
    if (s.chooses && from >= 0 && i >= from)
        s.level = i == from ? MODEL_ROWS_BLOCKS : MODEL_ROWS_OF_BLOCKS;
    return s;
}

/* True if both layers make and choose rows in the same way. */
static bool is_alike(const struct model_share *a, const struct model_share *b)
{
    return a->pool == b->pool && a->chosen == b->chosen && a->makes == b->makes &&
           a->chooses == b->chooses && a->level == b->level;
}

/* Groups the layers into p->shares. A layer that makes or chooses rows must have a compress
 * ratio. */
static void count_shares(struct reader *r, struct model_pooled *p)
{
    for (long i = 0; i < r->m->layers; i++) {
        const struct model_share s = share_of(r, i);
        if ((s.makes || s.chooses) && s.pool <= 0)
            config_fault(&r->c, "layer %ld %s rows, but its compress ratio is 0", i,
                         s.makes ? "makes" : "chooses");
        unsigned n = 0;
        while (n < p->share_count && !is_alike(&p->shares[n], &s))
            n++;
        if (n < p->share_count)
            p->shares[n].layers++;
        else if (n < MODEL_MAX_SHARES)
            p->shares[p->share_count++] = s;
        else
            config_fault(&r->c, "layers make and choose rows in more than %d ways",
                         MODEL_MAX_SHARES);
    }
}

void read_pooled(struct reader *r)
{
    const struct config *const c = &r->c;
    struct model_pooled *const p = &r->m->pooled;
    for (unsigned i = 0; i < r->m->group_count; i++)
        p->is = p->is || r->m->groups[i].rows;
    if (!p->is)
        return;
    p->q_lora_rank = config_number(c, CONFIG_Q_LORA);
    p->index_heads = config_number(c, CONFIG_INDEX_HEADS);
    p->index_dim = config_number(c, CONFIG_INDEX_DIM);
    p->index_topk = config_number(c, CONFIG_INDEX_TOPK);
    p->shared = config_find(c, CONFIG_POOL_CHOOSERS) != NULL;
    if (p->shared)
        read_shared(r, p);
    else
        list_choosers(r, p);
    count_shares(r, p);
    if (p->choosers[0] && (p->index_heads <= 0 || p->index_dim <= 0 || p->index_topk <= 0))
        config_fault(c, "index_n_heads, index_head_dim and index_topk are not all there");
}

bool read_choice(struct reader *r, long layers)
{
    const struct config *const c = &r->c;
    const long budget = config_number(c, CONFIG_SPARSE_BUDGET);
    const long ratio = config_number(c, CONFIG_CHOICE_RATIO);
    struct model_choice choice = {
        .layers = layers,
        .group = config_number(c, CONFIG_CHOICE_BLOCK),
        .top = config_number(c, CONFIG_CHOICE_TOP),
        .heads = config_number(c, CONFIG_CHOICE_HEADS),
        .dim = config_number(c, CONFIG_CHOICE_DIM),
        .pooled = ratio > 0,
        .first = config_number(c, CONFIG_CHOICE_FIRST),
        .last = config_given(c, CONFIG_CHOICE_LAST) ? config_number(c, CONFIG_CHOICE_LAST) : 1,
    };
    if (choice.pooled) {
        choice.group = ratio;
        choice.top = budget / ratio;
        choice.last = 0;
    }
    if (choice.group <= 0 || choice.top <= 0 || choice.heads <= 0 || choice.dim <= 0)
        return false;
    r->m->choice = choice;
    return true;
}

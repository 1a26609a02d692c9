/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the kind of attention of each layer. Every model family has a key of its own for it.
 */
#include "tools/attnc/model_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    enum layer_kind kind;
} words[] = {
    {"full_attention", LAYER_FULL},
    {"attention", LAYER_FULL},
    {"sliding_attention", LAYER_WINDOW},
    {"sliding_window_attention", LAYER_WINDOW},
    {"chunked_attention", LAYER_CHUNK},
    {"linear_attention", LAYER_DELTA_NET},
    {"gated_delta_net", LAYER_DELTA_NET},
    {"kda", LAYER_KDA},
    {"mamba", LAYER_MAMBA},
    {"mamba2", LAYER_MAMBA},
    {"lightning", LAYER_LIGHTNING},
    {"conv", LAYER_CONVOLUTION},
    {"mlp", LAYER_NOTHING},
    {"moe", LAYER_NOTHING},
};

long config_window(const struct config *c)
{
    const long window = config_number(c, "sliding_window|sliding_window_size");
    const long longest = config_number(c, "max_position_embeddings|seq_length");
    if (!config_flag(c, "use_sliding_window", true))
        return 0;
    return window > 0 && (longest == 0 || window < longest) ? window : 0;
}

static enum layer_kind by_word(const struct config *c, const char *word, char unknown[64])
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, word) != 0)
            continue;
        if (words[i].kind == LAYER_DELTA_NET && strncmp(c->type, "minimax", 7) == 0)
            return LAYER_LIGHTNING;
        /* A window that holds every sequence masks nothing. */
        const bool full = words[i].kind == LAYER_WINDOW && config_window(c) == 0;
        return full ? LAYER_FULL : words[i].kind;
    }
    snprintf(unknown, 64, "%s", word);
    return LAYER_UNKNOWN;
}

/* NVIDIA's pattern: M Mamba, * attention, - MLP, E experts. */
static enum layer_kind by_letter(char letter)
{
    switch (letter) {
    case 'M': return LAYER_MAMBA;
    case '*': return LAYER_FULL;
    default: return LAYER_NOTHING;
    }
}

/* Hybrids that name neither layer: an interval, a period, or the indices of one kind. */
static bool by_index(const struct config *c, long i, enum layer_kind *kind)
{
    const struct attnc_yaml_node *list;
    const long interval = config_number(c, "full_attention_interval");
    const long period = config_number(c, "attn_layer_period");
    if (interval > 0) {
        *kind = (i + 1) % interval == 0 ? LAYER_FULL : LAYER_DELTA_NET;
    } else if (period > 0) {
        const bool attends = i % period == config_number(c, "attn_layer_offset");
        *kind = attends ? LAYER_FULL : LAYER_MAMBA;
    } else if ((list = config_find(c, "linear_attn_config.full_attn_layers")) != NULL) {
        *kind = config_holds(c, list, i + 1) ? LAYER_FULL : LAYER_KDA; /* counted from 1 */
    } else if ((list = config_find(c, "attn_layer_indices")) != NULL) {
        *kind = config_holds(c, list, i) ? LAYER_FULL : LAYER_MAMBA;
    } else if ((list = config_find(c, "full_attn_idxs")) != NULL) {
        *kind = config_holds(c, list, i) ? LAYER_FULL : LAYER_CONVOLUTION;
    } else {
        return false;
    }
    return true;
}

static enum layer_kind by_window(const struct config *c, long i, bool alternate)
{
    const char *pattern = config_text(c, "sliding_window_pattern");
    if (config_window(c) == 0)
        return LAYER_FULL;
    if (pattern && strspn(pattern, "LG") == strlen(pattern)) /* "LLLG": local, global */
        return pattern[(size_t)i % strlen(pattern)] == 'L' ? LAYER_WINDOW : LAYER_FULL;
    if (pattern && atol(pattern) > 0)
        return (i + 1) % atol(pattern) ? LAYER_WINDOW : LAYER_FULL;
    if (alternate)
        return i % 2 == 0 ? LAYER_WINDOW : LAYER_FULL;
    return i >= config_number(c, "max_window_layers") || !config_find(c, "use_sliding_window")
               ? LAYER_WINDOW
               : LAYER_FULL;
}

enum layer_kind layer_kind(const struct config *c, long i, bool alternate, char unknown[64])
{
    enum layer_kind kind;
    const char *word = config_element(c, config_find(c, "layer_types|layers_block_type"), i);
    if (word)
        return by_word(c, word, unknown);
    const char *pattern = config_text(c, "hybrid_override_pattern");
    if (pattern)
        return (size_t)i < strlen(pattern) ? by_letter(pattern[i]) : LAYER_NOTHING;
    word = config_element(c, config_find(c, "attn_type_list"), i);
    if (word)
        return strcmp(word, "0") == 0 ? LAYER_LIGHTNING : LAYER_FULL;
    word = config_element(c, config_find(c, "hybrid_layer_pattern"), i);
    if (word)
        return strcmp(word, "1") == 0 ? LAYER_WINDOW : LAYER_FULL;
    if (by_index(c, i, &kind))
        return kind;
    if (config_number(c, "attention_chunk_size") > 0)
        return layer_rotates(c, i) ? LAYER_CHUNK : LAYER_FULL;
    return by_window(c, i, alternate);
}

bool layer_rotates(const struct config *c, long i)
{
    const char *position = config_text(c, "position_embedding_type");
    if (position && strcmp(position, "nope") == 0)
        return false;
    const char *flag = config_element(c, config_find(c, "no_rope_layers"), i);
    if (flag)
        return strcmp(flag, "0") != 0; /* the list says which layers rotate, despite its name */
    const long interval = config_number(c, "no_rope_layer_interval");
    return interval <= 0 || (i + 1) % interval != 0;
}

/* A word for each layer, a letter, or every n-th: max(i - offset + 1, 0) mod n is 0. */
bool layer_indexes(const struct config *c, long i)
{
    const char *word = config_element(c, config_find(c, "indexer_types"), i);
    if (word)
        return strcmp(word, "shared") != 0;
    const char *pattern = config_text(c, "index_topk_pattern");
    if (pattern)
        return (size_t)i >= strlen(pattern) || pattern[i] != 'S';
    const long every = config_number(c, "index_topk_freq");
    const bool given = config_find(c, "index_skip_topk_offset") != NULL;
    const long offset = given ? config_number(c, "index_skip_topk_offset") : 2;
    const long from = offset > 1 ? offset - 1 : 0;
    return every <= 1 || i < from || (i - from) % every == 0;
}

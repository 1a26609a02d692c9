/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the sizes of a model's attention: heads of each layer, latent attention, rotated
 * elements.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/describe/model_read.h"

/* Most heads of a layer, and most elements of a head. */
enum { MAX_HEADS = 65536, MAX_DIM = 65536 };

/* Settings that only layers with a window, or only layers with full attention, have. */
static const struct {
    enum layer_shape shape;
    enum config_key heads, kv_heads, head_dim, head_dim_v;
} overrides[] = {
    {SHAPE_WINDOW, CONFIG_WINDOW_HEADS, CONFIG_WINDOW_KV_HEADS, CONFIG_WINDOW_HEAD_DIM,
     CONFIG_WINDOW_VALUE_DIM},
    {SHAPE_FULL, CONFIG_GLOBAL_HEADS, CONFIG_GLOBAL_KV_HEADS, CONFIG_GLOBAL_HEAD_DIM,
     CONFIG_GLOBAL_VALUE_DIM},
};

/* Sets *to to `value` if that is 1 to MAX_HEADS. */
static void set_if(long *to, long value)
{
    if (value > 0 && value <= MAX_HEADS)
        *to = value;
}

/* Sets *to to the value of a key if that is 1 to MAX_HEADS. */
static void set_size(const struct config *c, long *to, enum config_key key)
{
    set_if(to, config_number(c, key));
}

/* Returns the KV heads of a model that has the same number in all layers; `given` is the file's
 * number, -1: none. Falcon's first version and GPT-BigCode have a single KV head. */
static long default_kv_heads(const struct reader *r, long heads, long given)
{
    const struct config *const c = &r->c;
    const bool falcon = strcmp(c->type, "falcon") == 0;
    if (falcon && !config_flag(c, CONFIG_FALCON_NEW, false))
        return config_flag(c, CONFIG_MULTI_QUERY, true) ? 1 : heads;
    const bool one = config_flag(c, CONFIG_MULTI_QUERY, false);
    if (given >= 0)
        return given <= MAX_HEADS ? given : 0;
    return one ? 1 : heads;
}

/* Returns the heads of layer `i` by settings that are one number, or a list by layers. */
static struct model_group base_heads(struct reader *r, long i)
{
    const struct config *const c = &r->c;
    const long layers = r->rules.layers;
    struct model_group g = {0};
    set_if(&g.heads, config_whole_of_layer(c, CONFIG_HEADS, i, layers));
    set_if(&g.heads, config_whole_of_layer(c, CONFIG_LAYER_HEADS, i, layers));
    g.kv_heads = default_kv_heads(r, g.heads, config_whole_of_layer(c, CONFIG_KV_HEADS, i, layers));
    set_if(&g.kv_heads, config_whole_of_layer(c, CONFIG_LAYER_KV_HEADS, i, layers));
    const long hidden = config_number(c, CONFIG_HIDDEN);
    set_if(&g.head_dim, config_whole_of_layer(c, CONFIG_HEAD_DIM, i, layers));
    if (g.head_dim <= 0 && g.heads > 0)
        g.head_dim = hidden / g.heads;
    set_if(&g.head_dim_v, config_whole_of_layer(c, CONFIG_VALUE_DIM, i, layers));
    return g;
}

/* Replaces head counts and dims by the settings that only layers of this kind have. */
static void apply_overrides(struct reader *r, enum layer_kind kind, struct model_group *g)
{
    const struct config *const c = &r->c;
    for (size_t i = 0; i < sizeof(overrides) / sizeof(overrides[0]); i++) {
        if (overrides[i].shape != layer_shape(kind))
            continue;
        set_size(c, &g->heads, overrides[i].heads);
        set_size(c, &g->kv_heads, overrides[i].kv_heads);
        set_size(c, &g->head_dim, overrides[i].head_dim);
        set_size(c, &g->head_dim_v, overrides[i].head_dim_v);
    }
}

/* Replaces head counts and dims by attention_other_setting, if that is for layers of this kind
 * (Step-3.5). */
static void apply_other(struct reader *r, enum layer_kind kind, struct model_group *g)
{
    const struct config *const c = &r->c;
    const char *word = config_text(c, CONFIG_OTHER_KIND);
    if (!word || (strncmp(word, "sliding", 7) == 0) != (layer_shape(kind) == SHAPE_WINDOW))
        return;
    set_size(c, &g->heads, CONFIG_OTHER_HEADS);
    set_size(c, &g->kv_heads, CONFIG_OTHER_KV_HEADS);
    set_size(c, &g->head_dim, CONFIG_OTHER_HEAD_DIM);
    set_size(c, &g->head_dim_v, CONFIG_OTHER_VALUE_DIM);
}

/* Returns the integer `key` in the settings of a single layer; 0 if it is absent. Other values are
 * a fault. */
static long number_of(const struct config *c, const struct attnc_yaml_node *map, const char *key)
{
    double number = 0;
    const struct attnc_yaml_node *n = config_child(c, map, key);
    if (!n || (config_parse(c, n, &number) && number >= 0 && number <= INT32_MAX &&
               number == (double)(long)number))
        return (long)number;
    config_fault(c, "%s of a single layer is no whole number", key);
    return 0;
}

/* Replaces head counts and dims by the entry of layer `i` in per_layer_config (Transformers), whose
 * names are layer numbers. */
static void apply_per_layer(struct reader *r, long i, struct model_group *g)
{
    static const struct {
        const char *name;
        size_t offset;
    } sizes[] = {
        {"num_attention_heads", offsetof(struct model_group, heads)},
        {"num_key_value_heads", offsetof(struct model_group, kv_heads)},
        {"head_dim", offsetof(struct model_group, head_dim)},
        {"v_head_dim", offsetof(struct model_group, head_dim_v)},
    };
    static const char *const formats[] = {"%ld", "%02ld", "%03ld"};
    const struct attnc_yaml_node *map = config_find(&r->c, CONFIG_PER_LAYER);
    for (size_t f = 0; map && f < sizeof(formats) / sizeof(formats[0]); f++) {
        char name[24];
        snprintf(name, sizeof(name), formats[f], i);
        const struct attnc_yaml_node *own = config_child(&r->c, map, name);
        for (size_t s = 0; own && s < sizeof(sizes) / sizeof(sizes[0]); s++)
            set_if((long *)((char *)g + sizes[s].offset), number_of(&r->c, own, sizes[s].name));
    }
}

/* Returns the flag `key` in the settings of a single layer; false if it is absent. */
static bool flag_of(const struct config *c, const struct attnc_yaml_node *map, const char *key)
{
    const struct attnc_yaml_node *n = config_child(c, map, key);
    if (n && !config_is(c, n, "b"))
        config_fault(c, "%s of a single layer is neither true nor false", key);
    return n && config_is(c, n, "b") && strcmp(attnc_yaml_text(c->yaml, n), "true") == 0;
}

/* Applies the entry of layer `i` in block_configs (Nemotron-NAS, arXiv 2411.19146): KV heads, a
 * window, or no attention. */
static void apply_block(struct reader *r, long i, enum layer_kind *kind, struct model_group *g)
{
    const struct config *const c = &r->c;
    const struct attnc_yaml_node *list = config_find(c, CONFIG_BLOCKS);
    if (!list)
        return;
    const struct attnc_yaml_node *block = config_item(c, list, i);
    if (!block) {
        config_fault(c, "block_configs has %ld entries, the model %ld layers",
                     config_length(c, list), r->rules.layers);
        return;
    }
    const struct attnc_yaml_node *a = config_child(c, block, "attention");
    config_child(c, block, "ffn"); /* belongs to the MLP, and is marked as read */
    const long shared = number_of(c, a, "n_heads_in_group");
    const long window = number_of(c, a, "window_length");
    if (shared > 0)
        g->kv_heads = g->heads / shared;
    set_if(&g->kv_heads, number_of(c, a, "num_key_value_heads"));
    if (window > 0) {
        *kind = LAYER_WINDOW;
        g->window = window;
    }
    if (flag_of(c, a, "no_op") | flag_of(c, a, "replace_with_linear"))
        *kind = LAYER_NOTHING;
}

struct model_group read_heads_of(struct reader *r, long i, enum layer_kind *kind)
{
    const struct model_latent *const l = &r->m->latent;
    struct model_group g = base_heads(r, i);
    apply_block(r, i, kind, &g);
    apply_overrides(r, *kind, &g);
    apply_other(r, *kind, &g);
    apply_per_layer(r, i, &g);
    /* Without absorption, as in prefill, each query head has a key and a value of its own. */
    if (l->kv_lora_rank) {
        g.head_dim = l->nope + l->rope;
        g.head_dim_v = l->value;
        g.kv_heads = g.heads;
    }
    if (g.head_dim_v <= 0)
        g.head_dim_v = g.head_dim;
    return g;
}

/* Records a fault if `value`, of setting `key`, is absent or 0. `because` ends the sentence. */
static void need(const struct reader *r, long value, enum config_key key, const char *because)
{
    char name[CONFIG_PATH];
    if (value <= 0)
        config_fault(&r->c, "%s is not there, or 0%s", config_name(&r->c, key, name), because);
}

/* True if `name`, a module that is not quantised, includes a kv_b_proj. It names kv_b_proj itself,
 * the attention around it, or a pattern that ends in ".*". */
static bool names_kv_b(const char *name)
{
    static const char whole[] = "self_attn";
    if (strstr(name, "kv_b_proj"))
        return true;
    const char *rest = strstr(name, whole);
    return rest && !rest[strlen(whole) + strspn(rest + strlen(whole), ".*$")];
}

/* True if every layer's kv_b_proj is quantised. */
static bool converts_kv_b(const struct config *c)
{
    const struct attnc_yaml_node *const kept = config_find(c, CONFIG_WEIGHTS_KEPT);
    for (long i = 0; kept && i < config_length(c, kept); i++) {
        const char *const name = config_element(c, kept, i);
        if (name && names_kv_b(name))
            return false;
    }
    return true;
}

/* True if kv_b_proj is fp8 with a scale for each block of 128 x 128, and W_UK and W_UV of each head
 * are whole blocks. */
static bool has_block_weights(const struct config *c, const struct model_latent *l)
{
    enum { BLOCK = 128 };
    const char *const method = config_text(c, CONFIG_WEIGHTS_METHOD);
    const struct attnc_yaml_node *const block = config_find(c, CONFIG_WEIGHTS_BLOCK);
    if (!method || strcmp(method, "fp8") || !block || config_length(c, block) != 2)
        return false;
    for (long i = 0; i < 2; i++) {
        const char *const size = config_element(c, block, i);
        if (!size || strtol(size, NULL, 10) != BLOCK)
            return false;
    }
    return (l->nope | l->value | l->kv_lora_rank) % BLOCK == 0 && converts_kv_b(c);
}

/* Reads the sizes of latent attention; does nothing if the model does not have it. */
static void read_latent(struct reader *r)
{
    const struct config *const c = &r->c;
    struct model_latent l = {.kv_lora_rank = config_number(c, CONFIG_KV_LORA)};
    if (l.kv_lora_rank <= 0)
        return;
    l.q_lora_rank = config_number(c, CONFIG_Q_LORA);
    l.nope = config_number(c, CONFIG_NOPE_DIM);
    l.rope = config_number(c, CONFIG_ROPE_DIM);
    l.value = config_number(c, CONFIG_VALUE_DIM);
    l.index_heads = config_number(c, CONFIG_INDEX_HEADS);
    l.index_dim = config_number(c, CONFIG_INDEX_DIM);
    l.index_topk = config_number(c, CONFIG_INDEX_TOPK);
    l.index_pool =
        config_number(c, CONFIG_INDEX_POOL) > 1 ? config_number(c, CONFIG_INDEX_POOL) : 1;
    config_text(c, CONFIG_ATTENTION_METHOD);
    l.index_rope =
        config_flag(c, CONFIG_INDEX_INTERLEAVE, false) ? MODEL_ROPE_GPTJ : MODEL_ROPE_NEOX;
    need(r, l.nope, CONFIG_NOPE_DIM, ", which latent attention (kv_lora_rank) needs");
    need(r, l.value, CONFIG_VALUE_DIM, ", which latent attention (kv_lora_rank) needs");
    l.block_weights = has_block_weights(c, &l);
    if (!config_text(c, CONFIG_ROPE_DIM))
        config_fault(c,
                     "qk_rope_head_dim is not there, which latent attention (kv_lora_rank) needs");
    if (config_given(c, CONFIG_QK_DIM) && config_number(c, CONFIG_QK_DIM) != l.nope + l.rope)
        config_fault(c,
                     "qk_head_dim is %ld, qk_nope_head_dim and qk_rope_head_dim are %ld together",
                     config_number(c, CONFIG_QK_DIM), l.nope + l.rope);
    r->m->latent = l;
}

/* True if the value is in 1 to `most`. */
static bool is_size(long value, long most) { return value > 0 && value <= most; }

/* Checks head counts and dims of a layer. Records a fault for the first that is absent or out of
 * range. */
static void check_heads(const struct reader *r, const struct model_group *g)
{
    char heads[CONFIG_PATH], kv_heads[CONFIG_PATH];
    const struct config *const c = &r->c;
    const long hidden = config_number(c, CONFIG_HIDDEN);
    config_name(c, CONFIG_HEADS, heads);
    config_name(c, CONFIG_KV_HEADS, kv_heads);
    if (!is_size(g->heads, MAX_HEADS))
        config_fault(c, "%s is not there, or not 1 to %d", heads, MAX_HEADS);
    else if (g->kv_heads <= 0 || g->heads % g->kv_heads)
        config_fault(c, "%ld query heads (%s) are no multiple of %ld key/value heads (%s)",
                     g->heads, heads, g->kv_heads, kv_heads);
    else if (!r->m->latent.kv_lora_rank && config_whole_of_layer(c, CONFIG_HEAD_DIM, 0, 1) <= 0 &&
             hidden <= 0)
        config_fault(c, "neither head_dim nor hidden_size is there");
    else if (!r->m->latent.kv_lora_rank && config_whole_of_layer(c, CONFIG_HEAD_DIM, 0, 1) <= 0 &&
             hidden % g->heads)
        config_fault(c, "hidden_size %ld is no multiple of %ld heads, and head_dim is not there",
                     hidden, g->heads);
    else if (!is_size(g->head_dim, MAX_DIM) || !is_size(g->head_dim_v, MAX_DIM))
        config_fault(c, "heads of %ld elements (head_dim), values of %ld: not 1 to %d", g->head_dim,
                     g->head_dim_v, MAX_DIM);
}

/* Returns the number of layers; if the file lacks it, the length of the list of their kinds. */
static long count_layers(const struct config *c)
{
    const char *letters = config_text(c, CONFIG_KIND_LETTERS);
    if (config_text(c, CONFIG_LAYERS))
        return config_number(c, CONFIG_LAYERS);
    if (letters)
        return (long)strlen(letters);
    const long words = config_length(c, config_find(c, CONFIG_KIND_WORDS));
    return words ? words : config_length(c, config_find(c, CONFIG_BLOCKS));
}

void read_sizes(struct reader *r)
{
    const struct config *const c = &r->c;
    const bool nothing =
        !config_text(c, CONFIG_LAYERS) && !config_given(c, CONFIG_HEADS) && !c->type[0];
    if (nothing)
        config_fault(c, "not a model's config.json: it has neither num_hidden_layers nor "
                        "num_attention_heads nor model_type");
    const long layers = count_layers(c);
    if (!is_size(layers, MAX_LAYERS))
        config_fault(c, "num_hidden_layers is not there, or not 1 to %d", MAX_LAYERS);
    r->m->layers = r->class.traits & DOUBLE ? 2 * layers : layers;
    r->rules.layers = is_size(layers, MAX_LAYERS) ? r->m->layers : 0;
    read_latent(r);
    for (long i = 0; i < r->rules.layers && !c->fault[0]; i++) {
        enum layer_kind kind = LAYER_FULL;
        const struct model_group g = read_heads_of(r, i, &kind);
        if (kind != LAYER_NOTHING && g.heads + g.kv_heads > 0)
            check_heads(r, &g);
    }
    if (!config_given(c, CONFIG_LAYER_HEADS) && !config_given(c, CONFIG_HEADS) &&
        !config_text(c, CONFIG_HEADS))
        config_fault(c, "num_attention_heads is not there");
}

/* Returns the rotated fraction of a head of layer `i`: the setting for layers of this shape,
 * otherwise the general one. */
static double part_of(const struct reader *r, long i, enum layer_shape shape)
{
    const struct config *const c = &r->c;
    const double part = config_of_layer(c, CONFIG_PARTIAL, i, r->rules.layers);
    const double full = config_real(c, CONFIG_PARTIAL_FULL, -1);
    const double window = config_real(c, CONFIG_PARTIAL_WINDOW, -1);
    const char *full_type = config_text(c, CONFIG_ROPE_TYPE_FULL);
    const char *window_type = config_text(c, CONFIG_ROPE_TYPE_WINDOW);
    const char *general = config_text(c, CONFIG_ROPE_TYPE);
    const char *own_type = shape == SHAPE_WINDOW ? window_type : full_type;
    const char *type = own_type ? own_type : general;
    const double own = shape == SHAPE_WINDOW ? window : full;
    if (type && strcmp(type, "proportional") == 0)
        return 1; /* every pair rotates, the later ones by an angle of 0 */
    return own >= 0 ? own : part >= 0 ? part : 1;
}

long read_rotation_of(const struct reader *r, long i, enum layer_kind kind,
                      const struct model_group *g)
{
    const double part = part_of(r, i, layer_shape(kind));
    const long dim = config_number(&r->c, CONFIG_ROTARY_DIM);
    const bool off = config_is_null_at(&r->c, layer_shape(kind) == SHAPE_WINDOW
                                                  ? "rope_parameters.sliding_attention"
                                                  : "rope_parameters.full_attention");
    const bool rotates = layer_rotates(&r->c, i, r->rules.layers) && !off;
    if (r->m->rope == MODEL_ROPE_NO_ROPE || !rotates)
        return 0;
    if (r->m->latent.kv_lora_rank)
        return r->m->latent.rope;
    const double rotating = dim > 0 ? (double)dim : (double)g->head_dim * part;
    if (rotating < 0 || rotating > (double)g->head_dim) {
        config_fault(&r->c, "%.0f elements of a head of %ld rotate", rotating, g->head_dim);
        return 0;
    }
    return (long)rotating & ~1L;
}

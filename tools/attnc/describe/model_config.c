/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/model_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/describe/config_unread.h"
#include "tools/attnc/describe/model_read.h"

/* The model types of models.def. */
static const struct model_class classes[] = {
#define MODEL(type, rope, norm, norm_by_key, traits) \
    {type, MODEL_ROPE_##rope, MODEL_NORM_##norm, norm_by_key, traits},
#include "tools/attnc/describe/models.def"
};

/* The facts that are assumed of a model type which models.def lacks. */
static const struct model_class unknown_class = {
    .type = "", .rope = MODEL_ROPE_NEOX, .norm = MODEL_NORM_NONE};

/* Model types, with the kind of layers that their files call linear attention. */
static const struct {
    const char *type;
    enum layer_kind kind;
} linear_kinds[] = {
#define LINEAR_KIND(type, name) {type, LAYER_##name},
#include "tools/attnc/describe/models.def"
};

/* Model types of whole files, with the traits that these add to their language model. */
static const struct {
    const char *type;
    unsigned traits;
} outers[] = {
#define OUTER(type, traits) {type, traits},
#include "tools/attnc/describe/models.def"
};

/* Model types without softmax attention, with the layers that they have. */
static const struct {
    const char *type, *layers;
} without_softmax[] = {
#define NO_SOFTMAX(type, sentence) {type, sentence},
#include "tools/attnc/describe/models.def"
};

/* Returns the facts of model type `type`; the ones of an unknown type if models.def lacks it. */
static const struct model_class *find_class(const char *type)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strcmp(classes[i].type, type) == 0)
            return &classes[i];
    }
    return &unknown_class;
}

/* Returns the kind of layers that files of a model type call linear attention. */
static enum layer_kind find_linear(const char *type)
{
    for (size_t i = 0; i < sizeof(linear_kinds) / sizeof(linear_kinds[0]); i++) {
        if (strcmp(linear_kinds[i].type, type) == 0)
            return linear_kinds[i].kind;
    }
    return LAYER_LINEAR;
}

/* Returns the traits that the model_type of the whole file adds to its language model's. */
static unsigned outer_traits(const struct config *c)
{
    const struct attnc_yaml_node *type = config_child(c, c->top, "model_type");
    for (size_t i = 0; type && i < sizeof(outers) / sizeof(outers[0]); i++) {
        if (type->kind == ATTNC_YAML_SCALAR &&
            strcmp(attnc_yaml_text(c->yaml, type), outers[i].type) == 0)
            return outers[i].traits;
    }
    return 0;
}

/* Adds a fault if no layer of the model type has softmax attention. */
static void refuse_without_softmax(struct reader *r)
{
    for (size_t i = 0; i < sizeof(without_softmax) / sizeof(without_softmax[0]); i++) {
        if (strcmp(without_softmax[i].type, r->c.type) == 0)
            config_fault(&r->c, "model_type '%s' has no attention layers: they are of %s",
                         r->c.type, without_softmax[i].layers);
    }
}

/* Adds a copy of a sentence to the list, unless it is there. The last place says that there are
 * more. */
static void add_text(struct model_texts *t, const char *text)
{
    for (unsigned i = 0; i < t->count; i++) {
        if (strcmp(t->texts[i], text) == 0)
            return;
    }
    if (t->count == MODEL_MAX_GAPS)
        return;
    if (t->count == MODEL_MAX_GAPS - 1)
        text = "more than is listed here";
    t->texts[t->count] = strdup(text);
    t->count += t->texts[t->count] != NULL;
}

void model_lacks(struct model *m, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_text(&m->gaps, text);
}

void model_note(struct model *m, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_text(&m->notes, text);
}

/* Frees the sentences of a list. */
static void free_texts(struct model_texts *t)
{
    for (unsigned i = 0; i < t->count; i++)
        free(t->texts[i]);
    t->count = 0;
}

void model_free(struct model *m)
{
    free_texts(&m->gaps);
    free_texts(&m->notes);
    free(m->latent.scores);
    free(m->read);
    free(m->neutral);
    m->latent.scores = NULL;
    m->read = m->neutral = NULL;
}

/* True if two groups of layers have the same attention in every respect. */
static bool same_group(const struct model_group *a, const struct model_group *b)
{
    return a->window == b->window && a->chunk == b->chunk && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->head_dim_v == b->head_dim_v && a->rotates == b->rotates &&
           a->rotary_dim == b->rotary_dim && a->sinks == b->sinks && a->both_ways == b->both_ways &&
           a->rows == b->rows && a->pool == b->pool && a->chosen == b->chosen &&
           a->scale == b->scale;
}

/* Counts a layer in the group of its kind, or begins a new group with it. */
static void add_layer(struct model *m, const struct model_group *layer)
{
    for (unsigned i = 0; i < m->group_count; i++) {
        if (same_group(&m->groups[i], layer)) {
            m->groups[i].layers++;
            return;
        }
    }
    if (m->group_count == MODEL_MAX_GROUPS) {
        model_lacks(m, "more than %d kinds of attention layers: the others are left out",
                    MODEL_MAX_GROUPS);
        return;
    }
    m->groups[m->group_count] = *layer;
    m->groups[m->group_count++].layers = 1;
}

void lacks_in_layers(struct reader *r, const bool set[], const char *sentence)
{
    char layers[100];
    long count = 0;
    for (long i = 0; i < r->m->layers; i++)
        count += set[i];
    layers_text(set, r->m->layers, layers, sizeof(layers));
    model_lacks(r->m, "%ld layers of %s (layers %s)", count, sentence, layers);
}

/* Marks the kinds of layers whose settings hybrid layers of kind `k` use too. */
static void own_settings_of(struct reader *r, enum layer_kind k)
{
    if (k == LAYER_HYBRID || k == LAYER_HYBRID_WINDOW)
        r->kinds[LAYER_MAMBA] = true;
    if (k == LAYER_HYBRID_MAMBA1)
        r->kinds[LAYER_MAMBA1] = true;
    if (k == LAYER_HYBRID_MAMBA2)
        r->kinds[LAYER_MAMBA2] = true;
    if (k == LAYER_MEMORY)
        model_note(r->m, "Layers from n / 2 + 2 on: the Mamba only multiplies silu of a projection "
                         "with the output of layer n / 2's scan");
}

/* Reads the settings of each kind of layer that the model has. Adds a gap for each kind that attnc
 * lacks. `kinds` is by layer. */
static void report_kinds(struct reader *r, const enum layer_kind kinds[])
{
    bool set[MAX_LAYERS];
    for (int k = 0; k < LAYER_KINDS; k++) {
        long count = 0;
        for (long i = 0; i < r->m->layers; i++) {
            set[i] = (int)kinds[i] == k;
            count += set[i];
        }
        if (count == 0)
            continue;
        r->kinds[k] = true;
        own_settings_of(r, (enum layer_kind)k);
        read_mixer(r, (enum layer_kind)k, count);
        const bool known = k == LAYER_BLOCKS && read_choice(r, count);
        if (layer_gap((enum layer_kind)k) && !known)
            lacks_in_layers(r, set, layer_gap((enum layer_kind)k));
    }
}

/* True if a layer has attention sinks: by its class, or by a setting. `window` says that the layer
 * has a window. */
static bool has_sinks(const struct reader *r, bool window)
{
    const bool class = r->class.traits & SINKS;
    const bool all = config_flag(&r->c, CONFIG_SINKS, class);
    const bool windows = config_flag(&r->c, CONFIG_WINDOW_SINKS, all);
    const bool full = config_flag(&r->c, CONFIG_FULL_SINKS, all);
    return window ? windows : full;
}

/* Returns the window of layer `i` in keys, its own token included; 0: none. */
static long window_of(const struct reader *r, long i, const struct model_group *g)
{
    const long window = g->window ? g->window : layer_window(&r->c, i, r->m->layers);
    return g->both_ways && r->class.traits & HALF_WINDOW ? window / 2 + 1 : window;
}

/* Reads layer `i` and adds it to a group. *kind changes if the layer's own settings say so. */
static void read_layer(struct reader *r, long i, enum layer_kind *kind)
{
    struct model_group g = read_heads_of(r, i, kind);
    const enum layer_shape shape = layer_shape(*kind);
    if (shape == SHAPE_NONE || r->c.fault[0])
        return;
    if (g.kv_heads <= 0 || g.heads % g.kv_heads) {
        config_fault(&r->c, "layer %ld: %ld query heads are no multiple of %ld key/value heads", i,
                     g.heads, g.kv_heads);
        return;
    }
    g.both_ways = sees_both_ways(r);
    g.window = shape == SHAPE_WINDOW ? window_of(r, i, &g) : 0;
    g.chunk = shape == SHAPE_CHUNK ? config_number(&r->c, CONFIG_CHUNK) : 0;
    g.rotary_dim = read_rotation_of(r, i, *kind, &g);
    if (r->class.traits & FULL_NOPE && shape == SHAPE_FULL && layer_window(&r->c, i, r->m->layers))
        g.rotary_dim = 0;
    if (*kind == LAYER_COMPRESSED)
        read_pool_of(r, i, &g);
    g.rotates = g.rotary_dim > 0;
    g.sinks = has_sinks(r, g.window > 0);
    g.scale = read_scale(r, &g);
    r->softmax[i] = true;
    add_layer(r->m, &g);
}

/* Adds a gap for each list by layers that has more elements than the model has layers, layers for
 * drafts included. */
static void report_long_lists(struct reader *r)
{
    static const enum config_key keys[] = {
        CONFIG_KIND_WORDS, CONFIG_KIND_WINDOW_BITS, CONFIG_KIND_BITS, CONFIG_HEADS,
        CONFIG_KV_HEADS,   CONFIG_WINDOW,           CONFIG_BLOCKS,    CONFIG_LAYER_HEADS,
    };
    const long most = r->m->layers + config_number(&r->c, CONFIG_DRAFT_LAYERS);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char name[CONFIG_PATH];
        const long length = config_length(&r->c, config_find(&r->c, keys[i]));
        if (length > most)
            model_lacks(r->m, "%s: it has %ld entries, the model %ld layers",
                        config_name(&r->c, keys[i], name), length, r->m->layers);
    }
}

/* Reads all layers: groups the ones with equal attention, and adds gaps for the others. */
static void read_layers(struct reader *r)
{
    enum layer_kind kinds[MAX_LAYERS];
    char disagrees[CONFIG_PATH] = "", unknown[CONFIG_PATH] = "";
    bool set[MAX_LAYERS];
    bool any = false;
    for (long i = 0; i < r->m->layers && !r->c.fault[0]; i++) {
        kinds[i] = r->class.traits & COMPRESSED
                       ? LAYER_COMPRESSED
                       : layer_kind(&r->c, &r->rules, i, disagrees, unknown);
        set[i] = kinds[i] == LAYER_UNKNOWN;
        any = any || set[i];
        read_layer(r, i, &kinds[i]);
    }
    if (r->c.fault[0])
        return;
    report_kinds(r, kinds);
    report_long_lists(r);
    long count = 0;
    for (long i = 0; i < r->m->layers; i++)
        count += set[i];
    if (any)
        model_lacks(r->m, "%ld layers of kind '%.40s', which is not known", count, unknown);
    if (disagrees[0])
        model_lacks(r->m, "%s: it says other kinds of layers than the setting that counts",
                    disagrees);
}

/* Sets latent.scores by layer: true if the layer has an indexer of its own. It stays NULL if the
 * model has no indexer or memory is exhausted. */
static void read_index_layers(struct reader *r)
{
    struct model_latent *const l = &r->m->latent;
    char disagrees[CONFIG_PATH] = "";
    l->scores = l->index_topk > 0 ? calloc((size_t)r->m->layers, sizeof(*l->scores)) : NULL;
    for (long i = 0; l->scores && i < r->m->layers; i++)
        l->scores[i] = r->softmax[i] && layer_indexes(&r->c, i, disagrees);
    if (disagrees[0])
        model_lacks(r->m, "%s: it says other layers than the setting that counts", disagrees);
}

/* Returns the number that a map has under the first of `names` that it has; 0: none. */
static long number_in(const struct config *c, const struct attnc_yaml_node *map,
                      const char *const names[])
{
    double number;
    for (size_t i = 0; names[i]; i++) {
        const struct attnc_yaml_node *n = config_child(c, map, names[i]);
        if (n && config_parse(c, n, &number) && number > 0 && number < MAX_LAYERS * 64)
            return (long)number;
    }
    return 0;
}

/* Reads the heads of the image encoder. Adds a gap if vision_config lacks them. */
static void read_vision(struct reader *r)
{
    static const char *const heads[] = {"num_attention_heads", "num_heads", "n_heads",
                                        "attention_heads", NULL};
    static const char *const dims[] = {"head_dim", NULL};
    /* in Qwen2-VL hidden_size belongs to the language model, and embed_dim to the encoder */
    static const char *const widths[] = {"embed_dim", "hidden_size", NULL};
    struct model_encoder *const v = &r->m->vision;
    const struct attnc_yaml_node *map = config_child(&r->c, r->c.top, "vision_config");
    if (!map || map->kind != ATTNC_YAML_MAP)
        return;
    v->heads = number_in(&r->c, map, heads);
    v->head_dim = number_in(&r->c, map, dims);
    if (v->heads > 0 && !v->head_dim)
        v->head_dim = number_in(&r->c, map, widths) / v->heads;
    if (v->heads <= 0 || v->head_dim <= 0) {
        *v = (struct model_encoder){0};
        model_lacks(r->m, "the vision encoder: vision_config does not say its heads");
    }
}

/* Reads the encoder of a model whose decoder attends to it, such as Whisper or BART. */
static void read_encoder(struct reader *r)
{
    struct model_encoder *const v = &r->m->vision;
    const long heads = config_number(&r->c, CONFIG_ENCODER_HEADS);
    const long layers = config_number(&r->c, CONFIG_ENCODER_LAYERS);
    const long hidden = config_number(&r->c, CONFIG_HIDDEN);
    if (heads <= 0 || v->heads > 0)
        return;
    if (hidden % heads)
        config_fault(&r->c, "hidden_size %ld is no multiple of the encoder's %ld heads", hidden,
                     heads);
    *v = (struct model_encoder){.layers = layers, .heads = heads, .head_dim = hidden / heads};
}

/* Copies a name that goes into a comment. Characters other than printable ASCII become '?'. */
static void copy_name(char to[MODEL_MAX_NAME], const char *from)
{
    snprintf(to, MODEL_MAX_NAME, "%s", from ? from : "");
    for (char *c = to; *c; c++) {
        if (*c < ' ' || *c > '~')
            *c = '?'; /* the name goes into a comment */
    }
}

/* Returns the text of `name` in a map; NULL if it is absent. With `lists` the value may be a list,
 * whose first element is taken. */
static const char *text_in(const struct config *c, const struct attnc_yaml_node *map,
                           const char *name, bool lists)
{
    const struct attnc_yaml_node *n = config_child(c, map, name);
    if (n && n->kind == ATTNC_YAML_LIST && lists)
        n = config_item(c, n, 0);
    if (n && config_is(c, n, "t"))
        return attnc_yaml_text(c->yaml, n);
    if (n)
        config_fault(c, "%s is no text", name);
    return NULL;
}

/* Reads the model's architecture, model_type and element type. */
static void read_names(struct reader *r)
{
    const struct config *const c = &r->c;
    const struct attnc_yaml_node *const maps[] = {c->model, c->top};
    const char *dtype = NULL;
    for (size_t i = 0; i < 2 && !dtype; i++) {
        dtype = text_in(c, maps[i], "dtype", false);
        dtype = dtype ? dtype : text_in(c, maps[i], "torch_dtype", false);
    }
    copy_name(r->m->architecture, text_in(c, c->top, "architectures", true));
    copy_name(r->m->type, c->type);
    r->m->fp16 = dtype && strcmp(dtype, "float16") == 0;
    if (dtype && !r->m->fp16 && strcmp(dtype, "bfloat16") != 0)
        model_note(r->m, "the model's dtype is neither bfloat16 nor float16: these kernels take "
                         "bf16; change dtype in defaults for an engine that computes in fp16");
}

/* Adds a sentence about a setting that was not read to the model's gaps. `context` is the struct
 * model. */
static void report_unknown(void *context, const char *sentence)
{
    struct model *const m = context;
    model_lacks(m, "%s", sentence);
}

/* Returns a list of settings, which the caller frees: the ones that were read, or with `neutral`
 * the others that change no kernel. NULL if memory is exhausted. */
static char *list_settings(const struct reader *r, bool neutral)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    config_list(&r->c, r->kinds, neutral, out);
    fclose(out);
    return text;
}

/* Returns the kind of linear layers of the model. Ling 3 and Ring 2.5 share a model_type; only Ling
 * 3, with KDA, has a bound of decays. */
static enum layer_kind linear_kind(const struct reader *r)
{
    const enum layer_kind kind = find_linear(r->c.type);
    return kind == LAYER_LIGHTNING && config_given(&r->c, CONFIG_KDA_BOUND) ? LAYER_KDA : kind;
}

/* Sets r->rules from the traits of the model's class. */
static void set_rules(struct reader *r)
{
    const unsigned traits = r->class.traits;
    r->rules = (struct layer_rules){
        .alternate = traits & ALTERNATE,
        .global_first = traits & GLOBAL_FIRST,
        .local = traits & LOCAL,
        .beside = traits & BESIDE,
        .memory = traits & MEMORY,
        .linear = linear_kind(r),
    };
}

/* Marks the settings of the class's linear layers as known even if the model has no such layer,
 * since files of hybrid models have them. */
static void own_linear_settings(struct reader *r)
{
    const enum layer_kind linear = r->rules.linear;
    if (linear == LAYER_LINEAR || r->m->mixer_count)
        return;
    r->kinds[linear] = true;
    const bool mamba = linear == LAYER_MAMBA || linear == LAYER_MAMBA1 || linear == LAYER_MAMBA2;
    r->kinds[mamba ? LAYER_MAMBA : LAYER_LINEAR] = true;
}

/* Reads all facts of the model from its configuration. */
static void read_all(struct reader *r)
{
    struct model *const m = r->m;
    const struct model_class *const class = find_class(r->c.type);
    m->known = class != &unknown_class;
    m->rope = class->rope;
    r->class = *class;
    r->class.traits |= outer_traits(&r->c);
    read_names(r);
    refuse_without_softmax(r);
    set_rules(r);
    read_sizes(r);
    if (r->c.fault[0])
        return;
    read_position(r);
    read_scores(r);
    read_layers(r);
    if (r->c.fault[0])
        return;
    read_index_layers(r);
    read_pooled(r);
    if (r->c.fault[0])
        return;
    read_vision(r);
    read_encoder(r);
    m->draft_tokens = config_number(&r->c, CONFIG_DRAFT_LAYERS);
    if (!m->known)
        model_lacks(m,
                    "knowledge of model_type '%s': bias, norm, gate, scale, mask and rotation are "
                    "those of Llama where no setting says otherwise",
                    m->type);
    own_linear_settings(r);
    config_report_unread(&r->c, r->kinds, report_unknown, m);
    m->read = list_settings(r, false);
    m->neutral = list_settings(r, true);
}

bool model_read(struct model *m, const struct attnc_yaml *y, char why[MODEL_WHY])
{
    struct reader r = {.m = m};
    *m = (struct model){0};
    why[0] = '\0';
    if (config_open(&r.c, y, why))
        read_all(&r);
    else
        snprintf(why, MODEL_WHY, "not a model's config.json: expected a map of settings");
    config_close(&r.c);
    return !why[0];
}

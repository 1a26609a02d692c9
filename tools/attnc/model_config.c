/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/model_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/config_json.h"
#include "tools/attnc/model_layers.h"

enum { MAX_LAYERS = 4096, MAX_HEADS = 65536 };

enum { BIAS = 1, SINKS = 2, GATE = 4, ALIBI = 8, ALTERNATE = 16, FULL_NOPE = 32 };

static const struct model_class {
    const char *type;
    enum model_rope rope;
    enum model_norm norm;
    const char *norm_key;
    unsigned traits;
} classes[] = {
#define MODEL(type, rope, norm, norm_key, traits) \
    {type, MODEL_ROPE_##rope, MODEL_NORM_##norm, norm_key, traits},
#include "tools/attnc/models.def"
};

static const struct model_class unknown_class = {
    .type = "", .rope = MODEL_ROPE_NEOX, .norm = MODEL_NORM_NONE};

static const struct model_class *find_class(const char *type)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strcmp(classes[i].type, type) == 0)
            return &classes[i];
    }
    return &unknown_class;
}

void model_lacks(struct model *m, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (unsigned i = 0; i < m->gap_count; i++) {
        if (strcmp(m->gaps[i], text) == 0)
            return;
    }
    if (m->gap_count < MODEL_MAX_GAPS)
        m->gaps[m->gap_count++] = strdup(text);
}

void model_free(struct model *m)
{
    for (unsigned i = 0; i < m->gap_count; i++)
        free(m->gaps[i]);
    m->gap_count = 0;
    free(m->latent.scores);
    m->latent.scores = NULL;
}

/* KV heads: most keys count them; Falcon's first and GPT-BigCode say that there is only one. */
static long read_kv_heads(const struct config *c, long heads)
{
    const long given = config_number(c, "num_key_value_heads|num_kv_heads|n_head_kv|"
                                        "multi_query_group_num|attn_config.kv_n_heads|"
                                        "num_attention_groups");
    const bool falcon = strcmp(c->type, "falcon") == 0;
    if (falcon && !config_flag(c, "new_decoder_architecture", false))
        return config_flag(c, "multi_query", true) ? 1 : heads;
    if (given > 0)
        return given;
    return config_flag(c, "multi_query", false) ? 1 : heads;
}

static struct model_group read_heads(const struct config *c)
{
    struct model_group g = {
        .heads = config_number(c, "num_attention_heads|n_head|n_heads|num_heads"),
        .head_dim = config_number(c, "head_dim|kv_channels|attention_head_dim"),
        .head_dim_v = config_number(c, "v_head_dim"),
    };
    g.kv_heads = read_kv_heads(c, g.heads);
    if (g.head_dim <= 0 && g.heads > 0)
        g.head_dim = config_number(c, "hidden_size|n_embd|d_model") / g.heads;
    if (g.head_dim_v <= 0)
        g.head_dim_v = g.head_dim;
    return g;
}

/* MiMo's layers with a window have KV heads of their own number. */
static void apply_window_heads(const struct config *c, struct model_group *g)
{
    const long kv_heads = config_number(c, "swa_num_key_value_heads");
    const long heads = config_number(c, "swa_num_attention_heads");
    g->kv_heads = kv_heads > 0 ? kv_heads : g->kv_heads;
    g->heads = heads > 0 ? heads : g->heads;
}

static bool same_group(const struct model_group *a, const struct model_group *b)
{
    return a->window == b->window && a->chunk == b->chunk && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->rotates == b->rotates && a->sinks == b->sinks;
}

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

static void report_other_layers(struct model *m, const long count[], const char *unknown)
{
    static const char *const texts[LAYER_KINDS] = {
        [LAYER_DELTA_NET] = "gated delta net: causal_conv1d and the gated delta rule",
        [LAYER_KDA] = "Kimi delta attention: causal_conv1d and the delta rule with a gate per "
                      "channel",
        [LAYER_MAMBA] = "Mamba: causal_conv1d and the state space scan",
        [LAYER_LIGHTNING] = "lightning (linear) attention",
        [LAYER_CONVOLUTION] = "short convolutions",
    };
    for (int k = 0; k < LAYER_KINDS; k++) {
        if (count[k] && texts[k])
            model_lacks(m, "%ld layers of %s", count[k], texts[k]);
    }
    if (count[LAYER_UNKNOWN])
        model_lacks(m, "%ld layers of kind '%s', which is not known", count[LAYER_UNKNOWN],
                    unknown);
}

/* Sorts the layers into groups of equal attention. */
static void read_layers(struct model *m, const struct config *c, const struct model_class *class,
                        const struct model_group *heads)
{
    long count[LAYER_KINDS] = {0};
    char unknown[64] = "";
    const bool sinks = class->traits & SINKS;
    for (long i = 0; i < m->layers; i++) {
        const enum layer_kind kind = layer_kind(c, i, class->traits & ALTERNATE, unknown);
        count[kind]++;
        if (kind > LAYER_CHUNK)
            continue;
        struct model_group g = *heads;
        g.window = kind == LAYER_WINDOW ? config_window(c) : 0;
        g.chunk = kind == LAYER_CHUNK ? config_number(c, "attention_chunk_size") : 0;
        g.rotates = m->rope != MODEL_ROPE_NO_ROPE && layer_rotates(c, i);
        if (class->traits & FULL_NOPE && kind == LAYER_FULL && config_window(c) > 0)
            g.rotates = false;
        g.sinks =
            sinks &&
            config_flag(
                c, g.window ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias", true);
        if (g.window)
            apply_window_heads(c, &g);
        add_layer(m, &g);
    }
    report_other_layers(m, count, unknown);
}

static void read_rotation(struct model *m, const struct config *c, const struct model_group *heads)
{
    const double part = config_real(c,
                                    "partial_rotary_factor|rope_parameters.partial_rotary_factor|"
                                    "rotary_pct|rope_pct|"
                                    "rope_parameters.full_attention.partial_rotary_factor",
                                    1);
    m->rotary_dim = config_number(c, "rotary_dim");
    if (m->rotary_dim <= 0)
        m->rotary_dim = (long)((double)heads->head_dim * part);
    m->rotary_dim &= ~1L;
    if (config_find(c, "rope_scaling.mrope_section|rope_parameters.mrope_section"))
        m->mrope = config_flag(c,
                               "rope_scaling.mrope_interleaved|"
                               "rope_parameters.mrope_interleaved",
                               strncmp(c->type, "qwen3_5", 7) == 0)
                       ? MODEL_MROPE_INTERLEAVED
                       : MODEL_MROPE_SECTIONS;
}

/* Reads the steps that q, k and the scores go through. */
static void read_scores(struct model *m, const struct config *c, const struct model_class *class)
{
    m->norm = class->norm;
    if (class->norm_key && !config_flag(c, class->norm_key, false))
        m->norm = MODEL_NORM_NONE;
    m->bias = config_flag(c,
                          "attention_bias|qkv_bias|use_qkv_bias|add_qkv_bias|use_bias|"
                          "attention_qkv_bias",
                          class->traits & BIAS);
    m->gate = class->traits & GATE;
    m->soft_cap = config_real(c, "attn_logit_softcapping|attn_logit_softcap", 0) > 0;
    if (class->traits & ALIBI || config_flag(c, "alibi|use_alibi|attn_config.alibi", false)) {
        m->rope = MODEL_ROPE_NO_ROPE;
        model_lacks(m, "ALiBi as a field: add `logits: hooks/alibi.c` (examples/hooks) to prefill "
                       "and decode");
    }
    if (m->norm == MODEL_NORM_LAYER_NORM)
        model_lacks(m, "LayerNorm of q and k: it has to run before rope_qk_norm_cache");
    if (m->norm == MODEL_NORM_AFTER_ROPE)
        model_lacks(m, "a norm of q and k behind the rotation: rope_qk_norm_cache has it before");
    if (config_real(c, "clip_qkv|attn_config.clip_qkv", 0) > 0)
        model_lacks(m, "clip_qkv: q, k and v have to be clamped before rope_qk_norm_cache");
    if (config_flag(c, "attn_temperature_tuning", false))
        model_lacks(m, "temperature tuning: q of layers without rotation has to be scaled before "
                       "attention");
}

/* Multi-head latent attention: not absorbed, each query head has a key and a value of its own. */
static void read_latent(struct model *m, const struct config *c, struct model_group *heads)
{
    struct model_latent l = {
        .q_lora_rank = config_number(c, "q_lora_rank"),
        .kv_lora_rank = config_number(c, "kv_lora_rank"),
        .nope = config_number(c, "qk_nope_head_dim"),
        .rope = config_number(c, "qk_rope_head_dim"),
        .value = config_number(c, "v_head_dim"),
        .index_heads = config_number(c, "index_n_heads"),
        .index_dim = config_number(c, "index_head_dim"),
        .index_topk = config_number(c, "index_topk"),
    };
    if (l.kv_lora_rank <= 0)
        return;
    l.index_rope =
        config_flag(c, "indexer_rope_interleave", false) ? MODEL_ROPE_GPTJ : MODEL_ROPE_NEOX;
    m->latent = l;
    heads->head_dim = l.nope + l.rope;
    heads->head_dim_v = l.value;
    heads->kv_heads = heads->heads;
}

/* Layers that choose keys; without memory no layer is said to take another's. */
static void read_index_layers(struct model *m, const struct config *c)
{
    struct model_latent *const l = &m->latent;
    l->scores = l->index_topk > 0 ? calloc((size_t)m->layers, sizeof(*l->scores)) : NULL;
    for (long i = 0; l->scores && i < m->layers; i++)
        l->scores[i] = layer_indexes(c, i);
}

static void read_vision(struct model *m, const struct config *c)
{
    struct config v = *c;
    const struct attnc_yaml_node *map = config_child(c, c->top, "vision_config");
    if (!map || map->kind != ATTNC_YAML_MAP)
        return;
    v.model = map;
    v.type = "";
    m->vision.heads = config_number(&v, "num_attention_heads|num_heads|n_heads");
    m->vision.head_dim = config_number(&v, "head_dim");
    /* Qwen2-VL's hidden_size is that of the language model, embed_dim the encoder's own. */
    if (m->vision.heads > 0 && !m->vision.head_dim)
        m->vision.head_dim = config_number(&v, "embed_dim|hidden_size") / m->vision.heads;
    if (m->vision.heads <= 0 || m->vision.head_dim <= 0) {
        m->vision = (struct model_encoder){0};
        model_lacks(m, "the vision encoder: vision_config does not say its heads");
    }
}

static void copy_name(char to[MODEL_MAX_NAME], const char *from)
{
    snprintf(to, MODEL_MAX_NAME, "%s", from ? from : "");
    for (char *c = to; *c; c++) {
        if (*c < ' ' || *c > '~')
            *c = '?'; /* it goes into a comment */
    }
}

static bool are_sane(const struct model *m, const struct model_group *g)
{
    return m->layers > 0 && m->layers <= MAX_LAYERS && g->heads > 0 && g->heads <= MAX_HEADS &&
           g->kv_heads > 0 && g->heads % g->kv_heads == 0 && g->head_dim > 0 && g->head_dim_v > 0;
}

static void read_names(struct model *m, const struct config *c)
{
    const struct config top = {.yaml = c->yaml, .top = c->top, .model = c->top, .type = ""};
    const char *dtype = config_text(c, "dtype|torch_dtype");
    copy_name(m->architecture, config_text(&top, "architectures"));
    copy_name(m->type, c->type);
    dtype = dtype ? dtype : config_text(&top, "dtype|torch_dtype");
    m->fp16 = dtype && strcmp(dtype, "float16") == 0;
}

bool model_read(struct model *m, const struct attnc_yaml *y, char why[200])
{
    *m = (struct model){0};
    struct config c;
    if (!config_open(&c, y)) {
        snprintf(why, 200, "not a model's config.json: expected a map of settings");
        return false;
    }
    why[0] = '\0';
    c.fault = why;
    const struct model_class *class = find_class(c.type);
    read_names(m, &c);
    m->known = class != &unknown_class;
    m->rope = class->rope;
    m->layers = config_number(&c, "num_hidden_layers|n_layer|n_layers|num_layers");
    struct model_group heads = read_heads(&c);
    read_latent(m, &c, &heads);
    if (why[0])
        return false;
    if (!are_sane(m, &heads)) {
        snprintf(why, 200,
                 "not a model's config.json? It says %ld layers (num_hidden_layers), %ld query "
                 "heads (num_attention_heads), %ld key/value heads of %ld elements",
                 m->layers, heads.heads, heads.kv_heads, heads.head_dim);
        return false;
    }
    read_rotation(m, &c, &heads);
    read_scores(m, &c, class);
    read_layers(m, &c, class, &heads);
    read_index_layers(m, &c);
    read_vision(m, &c);
    m->draft_tokens = config_number(&c, "num_nextn_predict_layers|mtp_num_hidden_layers|"
                                        "num_mtp_modules");
    if (!m->known)
        model_lacks(m, "knowledge of model_type '%s': bias, norm and rotation are those of Llama",
                    m->type);
    return !why[0];
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the steps of q, k, v and the scores besides their products: norms, biases, gates,
 * scale, caps, and which keys a query sees.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/attnc/describe/model_read.h"

/* Settings for which descriptions have no field. A value becomes a gap unless it is null, false, 0
 * or `idle`. */
static const struct {
    enum config_key key;
    double idle;
    const char *sentence;
} needs[] = {
    {CONFIG_CLIP, 0, "clip_qkv: q, k and v have to be clamped before rope_qk_norm_cache"},
    {CONFIG_TEMPERATURE, 0,
     "temperature tuning: q of layers without rotation has to be scaled before attention"},
    {CONFIG_TEMPERATURE_BETA, 0,
     "q scaled by its position (llama_4_scaling_beta): it has to be multiplied before attention"},
    {CONFIG_LOGN, 0,
     "q scaled by the log of its position: it has to be multiplied before attention"},
    {CONFIG_RELATIVE, 0, "relative position buckets: a bias that is added to the scores"},
    {CONFIG_SCALE_BY_LAYER, 0,
     "a scale divided by the number of the layer: pass each layer its own"},
    {CONFIG_V_NORM, 0, "a norm of v: it has to run before rope_qk_norm_cache"},
    {CONFIG_KIND_CROSS_EVERY, 0,
     "cross attention layers between the others (cross_layer_interval): prefill with `mask: none`"},
    {CONFIG_CROSS_SHARES, 0, "layers that read the cache of an earlier layer (use_cla)"},
};

/* Sentences on needs of a model type that its config.json does not say. */
static const struct {
    const char *type, *sentence;
} class_needs[] = {
#define LACKS(type, sentence) {type, sentence},
#include "tools/attnc/describe/models.def"
};

/* Adds a gap for each setting that attnc lacks, and for what the model's class needs. */
static void report_needs(struct reader *r)
{
    /* One sentence covers all three settings. */
    if (config_flag(&r->c, CONFIG_TEMPERATURE, false)) {
        config_number(&r->c, CONFIG_TEMPERATURE_FLOOR);
        config_real(&r->c, CONFIG_TEMPERATURE_SCALE, 0);
    }
    if (config_number(&r->c, CONFIG_RELATIVE) > 0)
        config_number(&r->c, CONFIG_RELATIVE_MOST);
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        const bool idle =
            needs[i].idle != 0 && config_real(&r->c, needs[i].key, 0) == needs[i].idle;
        if (config_flag(&r->c, needs[i].key, false) && !idle)
            model_lacks(r->m, "%s", needs[i].sentence);
    }
    for (size_t i = 0; i < sizeof(class_needs) / sizeof(class_needs[0]); i++) {
        if (strcmp(class_needs[i].type, r->c.type) == 0)
            model_lacks(r->m, "%s", class_needs[i].sentence);
    }
}

/* True if `word` is in a list that NULL ends. */
static bool is_word(const char *word, const char *const list[])
{
    for (size_t i = 0; list[i]; i++) {
        if (strcmp(word, list[i]) == 0)
            return true;
    }
    return false;
}

/* Sets the norm of q and k by a word: of each head, or over all heads. */
static void apply_norm_type(struct model *m, const char *type)
{
    static const char *const per_head[] = {"per_head", "head", "qwen3", "rms", "rmsnorm", NULL};
    static const char *const full[] = {"per_layer", "full", "olmo", "olmo2", NULL};
    if (m->norm == MODEL_NORM_NONE)
        return;
    if (is_word(type, full))
        m->norm = MODEL_NORM_FULL;
    else if (is_word(type, per_head))
        m->norm = m->norm == MODEL_NORM_GEMMA_RMS ? MODEL_NORM_GEMMA_RMS : MODEL_NORM_RMS;
    else
        model_lacks(m, "qk_norm_type '%s': a norm of q and k that attnc does not know", type);
}

/* Reads the norm of q and k, by class and settings. */
static void read_norm(struct reader *r)
{
    struct model *const m = r->m;
    char name[CONFIG_PATH];
    const bool given = config_text(&r->c, CONFIG_QK_NORM) != NULL;
    const bool on = config_flag(&r->c, CONFIG_QK_NORM, false);
    m->norm = r->class.norm;
    if (r->class.norm_by_key && !on)
        m->norm = MODEL_NORM_NONE;
    if (given && on && r->class.norm == MODEL_NORM_NONE) {
        m->norm = MODEL_NORM_RMS;
        model_lacks(m, "knowledge of the norm of q and k (%s): it is taken for RMS of each head",
                    config_name(&r->c, CONFIG_QK_NORM, name));
    }
    if (given && !on && !r->class.norm_by_key && r->class.norm != MODEL_NORM_NONE)
        model_lacks(m, "%s is false, models of type %s have the norm",
                    config_name(&r->c, CONFIG_QK_NORM, name), r->c.type);
    const char *type = config_text(&r->c, CONFIG_QK_NORM_TYPE);
    if (config_flag(&r->c, CONFIG_GEMMA_NORM, false) && m->norm == MODEL_NORM_RMS)
        m->norm = MODEL_NORM_GEMMA_RMS;
    if (type)
        apply_norm_type(m, type);
    if (m->norm == MODEL_NORM_LAYER_NORM)
        model_lacks(m, "LayerNorm of q and k: it has to run before rope_qk_norm_cache");
    if (m->norm == MODEL_NORM_AFTER_ROPE)
        model_lacks(m, "a norm of q and k after the rotation: rope_qk_norm_cache has it before");
}

/* Reads the gates and the factor of attention's output. */
static void read_gate(struct reader *r)
{
    static const char *const per_head[] = {"per-head",  "per_head", "headwise",
                                           "head_wise", "head",     NULL};
    static const char *const apart[] = {"per-element", "per_element", "elementwise", "true", NULL};
    struct model *const m = r->m;
    const char *word = config_text(&r->c, CONFIG_GATING);
    const bool known = r->class.traits & (GATE | GATE_APART | GATE_HEADS);
    const bool apart_key = config_flag(&r->c, CONFIG_GATE_APART, false);
    const bool elements = config_flag(&r->c, CONFIG_GATE_ELEMENTS, false);
    bool beside = r->class.traits & GATE_APART || apart_key || elements;
    bool heads = r->class.traits & GATE_HEADS;
    m->gate = config_flag(&r->c, CONFIG_GATE, r->class.traits & GATE);
    m->gates_out = config_flag(&r->c, CONFIG_LATENT_GATE, false);
    m->gates_heads = config_flag(&r->c, CONFIG_GATE_HEADS, false);
    m->out_scale = config_real(&r->c, CONFIG_VALUE_SCALE, 1);
    if (word && strcmp(word, "false") == 0)
        heads = beside = false;
    else if (word && (is_word(word, per_head) || (strcmp(word, "true") == 0 && heads)))
        heads = true;
    else if (word && is_word(word, apart))
        beside = !(heads = false);
    else if (word && !known)
        model_lacks(m, "an output gate ('%s'): the output of attention has to be multiplied", word);
    if (heads)
        model_lacks(m, "knowledge of the function of the gate per head: rope_heads has sigmoid and "
                       "silu");
    if (beside && !m->gate)
        model_note(m, "gate: true takes each head's gate after its q: interleave the rows of the "
                      "gate's own projection and q's");
    m->gate = m->gate || beside;
}

/* Reads the words of attention_type and attn_type, and adds gaps for what attnc lacks. */
static void read_attention_type(struct reader *r)
{
    static const char *const plain[] = {"multihead_attention",
                                        "grouped_query_attention",
                                        "full",
                                        "multiquery_attention",
                                        "original_full",
                                        "softmax",
                                        "causal",
                                        "GQA",
                                        "MHA",
                                        "MLA",
                                        "gqa",
                                        "mha",
                                        "mla",
                                        "MQA",
                                        "uni",
                                        "default",
                                        NULL};
    const enum config_key keys[] = {CONFIG_ATTENTION_TYPE, CONFIG_ATTENTION_IN_ATTN};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *word = config_text(&r->c, keys[i]);
        if (word && !is_word(word, plain))
            model_lacks(r->m, "attention of type '%s'", word);
    }
}

/* Adds gaps for models whose queries see keys other than the earlier ones. */
static void read_sight(struct reader *r)
{
    struct model *const m = r->m;
    const struct config *const c = &r->c;
    const char *word = config_text(c, CONFIG_BOTH_WAYS);
    const bool vision = word && strcmp(word, "vision") == 0;
    const bool prefix = config_flag(c, CONFIG_PREFIX, false);
    const bool added = config_flag(c, CONFIG_CROSS_ADDED, false);
    m->image_prefix = vision || prefix || r->class.traits & IMAGE_PREFIX;
    if (word && !vision && strcmp(word, "all") != 0 && strcasecmp(word, "true") != 0 &&
        strcasecmp(word, "false") != 0)
        model_lacks(m, "bidirectional attention of kind '%s'", word);
    config_flag(c, CONFIG_SEQUENCES, false);
    if (config_flag(c, CONFIG_ENCODER_DECODER, r->class.traits & CROSS) || added) {
        r->kinds[LAYER_CROSS] = true;
        model_lacks(m, "%ld layers' %s", m->layers, layer_gap(LAYER_CROSS));
    }
    read_attention_type(r);
}

bool sees_both_ways(const struct reader *r)
{
    const struct config *const c = &r->c;
    const char *word = config_text(c, CONFIG_BOTH_WAYS);
    const bool decoder = config_flag(c, CONFIG_DECODER, false);
    const bool encoder = r->class.traits & ENCODER && !decoder;
    const bool causal = config_flag(c, CONFIG_CAUSAL, true);
    const bool given = word && (strcmp(word, "all") == 0 || strcasecmp(word, "true") == 0);
    return given || encoder || !causal;
}

/* Adds a gap for each type of rotation that is not only another table of cosines and sines. */
static void read_rope_types(struct reader *r)
{
    static const char *const tables[] = {"default",
                                         "linear",
                                         "dynamic",
                                         "yarn",
                                         "longrope",
                                         "su",
                                         "llama3",
                                         "ntk",
                                         "mrope",
                                         "proportional",
                                         "original",
                                         "deepseek_yarn",
                                         "deepseek_llama_scaling",
                                         "xdrope",
                                         NULL};
    static const enum config_key keys[] = {CONFIG_ROPE_TYPE, CONFIG_ROPE_TYPE_OLD,
                                           CONFIG_ROPE_TYPE_FULL, CONFIG_ROPE_TYPE_WINDOW};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *word = config_text(&r->c, keys[i]);
        if (word && !is_word(word, tables))
            model_lacks(r->m, "rotation of type '%s'", word);
    }
}

void read_position(struct reader *r)
{
    static const char *const plain[] = {"nope",     "rope",       "rope_gptj", "rotary",
                                        "absolute", "learned",    "none",      "learned_absolute",
                                        "alibi",    "sinusoidal", NULL};
    static const char *const still[] = {
        "absolute", "learned", "learned_absolute", "none", "alibi", "sinusoidal", NULL};
    const char *word = config_text(&r->c, CONFIG_POSITION);
    if (word && !is_word(word, plain))
        model_lacks(r->m, "positions of kind '%s': a bias that is added to the scores", word);
    if (word && is_word(word, still))
        r->m->rope = MODEL_ROPE_NO_ROPE;
    const bool off = !config_flag(&r->c, CONFIG_ROPE_ON, true);
    const bool latent_off = config_flag(&r->c, CONFIG_LATENT_NOPE, false);
    const bool neighbours = config_flag(&r->c, CONFIG_ROPE_INTERLEAVE, false);
    const bool alibi = config_flag(&r->c, CONFIG_ALIBI, r->class.traits & ALIBI);
    if (off || latent_off)
        r->m->rope = MODEL_ROPE_NO_ROPE;
    if (r->m->rope != MODEL_ROPE_NO_ROPE && config_given(&r->c, CONFIG_ROPE_INTERLEAVE))
        r->m->rope = neighbours ? MODEL_ROPE_GPTJ : MODEL_ROPE_NEOX;
    config_number(&r->c, CONFIG_ALIBI_MAX);
    read_rope_types(r);
    if (alibi || (word && strcmp(word, "alibi") == 0)) {
        r->m->rope = MODEL_ROPE_NO_ROPE;
        model_lacks(r->m,
                    "ALiBi as a field: add `logits: hooks/alibi.c` (examples/hooks) to prefill "
                    "and decode");
    }
    if (config_given(&r->c, CONFIG_MROPE))
        r->m->mrope = config_flag(&r->c, CONFIG_MROPE_INTERLEAVED, false) ? MODEL_MROPE_INTERLEAVED
                                                                          : MODEL_MROPE_SECTIONS;
}

/* Reads which layers attend to keys and values of an earlier layer, and adds gaps and notes. */
static void read_sharing(struct reader *r)
{
    struct model *const m = r->m;
    const long shared = config_number(&r->c, CONFIG_KV_SHARED);
    const struct attnc_yaml_node *sources = config_find(&r->c, CONFIG_KV_SOURCES);
    bool set[MAX_LAYERS] = {false};
    bool any = false;
    config_number(&r->c, CONFIG_CROSS_SHARED);
    for (long i = 0; i < m->layers; i++) {
        const char *source = config_element(&r->c, sources, i);
        double number;
        set[i] = i >= m->layers - shared ||
                 (source && sscanf(source, "%lf", &number) == 1 && number != (double)i);
        any = any || set[i];
    }
    if (any)
        lacks_in_layers(r, set,
                        "attention over the cache of an earlier layer: they rotate q and "
                        "write nothing");
    if (config_flag(&r->c, CONFIG_K_IS_V, false))
        model_note(m, "layers without a window have no projection of v (attention_k_eq_v): pass "
                      "k's before its norm");
    const bool q_scale = config_flag(&r->c, CONFIG_LATENT_Q_SCALE, false);
    const bool kv_scale = config_flag(&r->c, CONFIG_LATENT_KV_SCALE, false);
    if (q_scale || kv_scale)
        model_note(m, "q_a and kv_a are scaled after their norms (mla_scale_q_lora, "
                      "mla_scale_kv_lora): fold that into the weights of the norms");
}

void read_scores(struct reader *r)
{
    struct model *const m = r->m;
    read_norm(r);
    read_gate(r);
    read_sight(r);
    read_sharing(r);
    m->bias = config_flag(&r->c, CONFIG_BIAS, r->class.traits & BIAS);
    if (m->bias && m->latent.kv_lora_rank)
        model_note(m, "biases of the projections (attention_bias) belong to the matrix products");
    if (config_number(&r->c, CONFIG_RESIDUAL_BLOCK) > 0)
        model_note(m, "attention residuals (attn_res_block_size) weigh the sums of earlier blocks "
                      "between layers, in a launch of the engine's own");
    m->soft_cap = config_real(&r->c, CONFIG_SOFT_CAP, 0);
    if (m->soft_cap < 0)
        config_fault(&r->c, "the cap of the scores is %g, expected a number above 0", m->soft_cap);
    report_needs(r);
}

/* Returns the square of DeepSeek's yarn_get_mscale, by which q and k are each scaled; 1: none. */
static double yarn_scale(const struct config *c)
{
    const double all = config_real(c, CONFIG_YARN_MSCALE_ALL, 0);
    const double factor = config_real(c, CONFIG_YARN_FACTOR, 1);
    const double mscale = factor > 1 ? 0.1 * all * log(factor) + 1 : 1;
    return all > 0 ? mscale * mscale : 1;
}

double read_scale(const struct reader *r, const struct model_group *g)
{
    struct model *const m = r->m;
    const struct config *const c = &r->c;
    char name[CONFIG_PATH], from[MODEL_MAX_NAME] = "1 / sqrt(head_dim)";
    double scale = 1 / sqrt((double)g->head_dim);
    if (r->class.traits & SCALE_HALF) {
        scale *= sqrt(2);
        snprintf(from, sizeof(from), "1 / sqrt(head_dim / 2)");
    }
    if (r->class.traits & SCALE_ONE || !config_flag(c, CONFIG_SCALED, true)) {
        scale = 1;
        snprintf(from, sizeof(from), "no scale");
    }
    const double root = config_real(c, CONFIG_SCALE_ROOT, 0);
    if (root > 0) {
        scale = 1 / sqrt(root);
        snprintf(from, sizeof(from), "1 / sqrt(query_pre_attn_scalar)");
    }
    const double given = config_real(c, CONFIG_SCALE, 0);
    if (given > 0) {
        scale = given;
        snprintf(from, sizeof(from), "%.60s", config_name(c, CONFIG_SCALE, name));
    }
    if (given < 0 || root < 0)
        config_fault(c, "the scale of the scores is not above 0");
    /* Other models have this factor in their tables of cosines. */
    const double yarn = yarn_scale(c);
    const double times =
        config_real(c, CONFIG_SCALE_TIMES, 1) * (m->latent.kv_lora_rank ? yarn : 1);
    if (times != 1) {
        const size_t length = strlen(from);
        snprintf(from + length, sizeof(from) - length, " times %g", times);
    }
    snprintf(m->scale_from, sizeof(m->scale_from), "%s", from);
    return scale * times;
}

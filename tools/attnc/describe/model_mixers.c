/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the sizes of a model's linear layers: heads, states, the short convolution, gates
 * and norms. A size that neither the file nor the class has becomes a gap; attention layers are
 * still described.
 */
#include <stdio.h>
#include <string.h>

#include "tools/attnc/describe/model_read.h"

/* Largest size; channels that form a head of selective_scan. */
enum { MAX_SIZE = 1 << 20, SCAN_CHANNELS = 64 };

/* The settings with the sizes of each kind of linear layer; CONFIG_KEYS: the kind has no such
 * setting. */
static const struct {
    enum layer_kind layer;
    enum model_recurrence recurrence;
    enum config_key heads, value_heads, head_dim, head_dim_v, taps;
} kinds[] = {
    {LAYER_DELTA_NET, MODEL_DELTA_NET, CONFIG_DELTA_HEADS, CONFIG_DELTA_VALUE_HEADS,
     CONFIG_DELTA_DIM, CONFIG_DELTA_VALUE_DIM, CONFIG_DELTA_TAPS},
    {LAYER_KDA, MODEL_KDA, CONFIG_KDA_HEADS, CONFIG_KDA_HEADS, CONFIG_KDA_DIM, CONFIG_KDA_DIM,
     CONFIG_KDA_TAPS},
    {LAYER_MAMBA1, MODEL_MAMBA1, CONFIG_KEYS, CONFIG_KEYS, CONFIG_MAMBA_STATE, CONFIG_KEYS,
     CONFIG_MAMBA_TAPS},
    {LAYER_HYBRID_MAMBA1, MODEL_MAMBA1, CONFIG_KEYS, CONFIG_KEYS, CONFIG_MAMBA_STATE, CONFIG_KEYS,
     CONFIG_MAMBA_TAPS},
    {LAYER_MAMBA2, MODEL_MAMBA2, CONFIG_MAMBA_GROUPS, CONFIG_MAMBA_HEADS, CONFIG_MAMBA_STATE,
     CONFIG_MAMBA_DIM, CONFIG_MAMBA_TAPS},
    {LAYER_HYBRID_MAMBA2, MODEL_MAMBA2, CONFIG_MAMBA_GROUPS, CONFIG_MAMBA_HEADS, CONFIG_MAMBA_STATE,
     CONFIG_MAMBA_DIM, CONFIG_MAMBA_TAPS},
    {LAYER_LIGHTNING, MODEL_LIGHTNING, CONFIG_HEADS, CONFIG_HEADS, CONFIG_HEAD_DIM, CONFIG_HEAD_DIM,
     CONFIG_KEYS},
};

const char *mixer_name(enum model_recurrence r)
{
    static const char *const names[] = {"gated delta net", "Kimi delta attention", "Mamba1",
                                        "Mamba2", "lightning attention"};
    return names[r];
}

/* Adds a gap about the linear layers `x`. */
static void lacks(struct reader *r, const struct model_mixer *x, const char *sentence)
{
    model_lacks(r->m, "%ld layers of %s: %s", x->layers, mixer_name(x->recurrence), sentence);
}

/* Reads the size `key` into *to. If it is absent or out of range, adds a gap and returns false. */
static bool read_size(struct reader *r, const struct model_mixer *x, enum config_key key, long *to)
{
    char name[CONFIG_PATH], text[CONFIG_PATH + 40];
    *to = config_number(&r->c, key);
    if (*to > 0 && *to <= MAX_SIZE)
        return true;
    snprintf(text, sizeof(text), *to ? "%s is out of range" : "%s is not there",
             config_name(&r->c, key, name));
    lacks(r, x, text);
    return false;
}

/* Returns the elements of all heads of a Mamba layer; 0 if unknown. */
static long mamba_inner(const struct config *c)
{
    const long given = config_number(c, CONFIG_MAMBA_INNER);
    const long expand = config_number(c, CONFIG_MAMBA_EXPAND);
    return given > 0 ? given : expand * config_number(c, CONFIG_HIDDEN);
}

/* Reads the elements of a Mamba2 head; "auto" means the elements of all heads divided by their
 * number. Returns false after a gap or a fault. */
static bool read_mamba_dim(struct reader *r, struct model_mixer *x)
{
    const struct attnc_yaml_node *n = config_find(&r->c, CONFIG_MAMBA_DIM);
    const long inner = mamba_inner(&r->c);
    const char *text = config_text(&r->c, CONFIG_MAMBA_DIM);
    if (n ? config_is(&r->c, n, "n") : text != NULL)
        return read_size(r, x, CONFIG_MAMBA_DIM, &x->head_dim_v);
    if (n && strcmp(text, "auto") != 0) {
        config_fault(&r->c, "%s is '%.40s', expected a number, or auto",
                     config_name(&r->c, CONFIG_MAMBA_DIM, (char[CONFIG_PATH]){0}), text);
        return false;
    }
    if (inner <= 0 || inner % x->value_heads) {
        lacks(r, x, "the elements of a head are not there");
        return false;
    }
    x->head_dim_v = inner / x->value_heads;
    return true;
}

/* Returns the setting `own` of KDA layers. Files of Ling 3 lack it and use `other`, the setting of
 * attention. */
static enum config_key own_key(const struct reader *r, enum config_key own, enum config_key other)
{
    const bool kda = own == CONFIG_KDA_HEADS || own == CONFIG_KDA_DIM;
    return kda && !config_find(&r->c, own) && config_given(&r->c, CONFIG_KDA_BOUND) ? other : own;
}

/* Reads the sizes of Mamba1. All channels share b and c, or with n_mamba_heads (Zamba) the channels
 * of a head do. selective_scan has heads of 64 channels. Returns false after a gap. */
static bool read_channels(struct reader *r, size_t k, struct model_mixer *x)
{
    const long inner = mamba_inner(&r->c);
    if (!read_size(r, x, kinds[k].head_dim, &x->head_dim) ||
        !read_size(r, x, kinds[k].taps, &x->taps))
        return false;
    if (inner <= 0 || inner % SCAN_CHANNELS) {
        lacks(r, x, "its channels are not there, or no multiple of 64");
        return false;
    }
    const long heads = config_number(&r->c, CONFIG_MAMBA_HEADS);
    x->heads = heads > 1 ? heads : 1;
    x->value_heads = inner / SCAN_CHANNELS;
    if (x->value_heads % x->heads) {
        lacks(r, x, "its channels divided by its heads are no multiple of 64");
        return false;
    }
    x->head_dim_v = SCAN_CHANNELS;
    return true;
}

/* Reads the head counts and sizes of linear layers by row `k` of `kinds`. Returns false after a
 * gap. */
static bool read_sizes_of(struct reader *r, size_t k, struct model_mixer *x)
{
    if (x->recurrence == MODEL_MAMBA1)
        return read_channels(r, k, x);
    if (!read_size(r, x, own_key(r, kinds[k].value_heads, CONFIG_HEADS), &x->value_heads) ||
        !read_size(r, x, own_key(r, kinds[k].heads, CONFIG_HEADS), &x->heads) ||
        (kinds[k].taps != CONFIG_KEYS && !read_size(r, x, kinds[k].taps, &x->taps)))
        return false;
    if (x->value_heads % x->heads) {
        lacks(r, x, "its value heads are no multiple of its heads");
        return false;
    }
    if (x->recurrence == MODEL_LIGHTNING) { /* its heads are like the heads of attention */
        x->head_dim = config_number(&r->c, CONFIG_HEAD_DIM);
        x->head_dim = x->head_dim ? x->head_dim : config_number(&r->c, CONFIG_HIDDEN) / x->heads;
        x->head_dim_v = x->head_dim;
        return true;
    }
    const enum config_key value = own_key(r, kinds[k].head_dim_v, CONFIG_HEAD_DIM);
    if (!read_size(r, x, own_key(r, kinds[k].head_dim, CONFIG_HEAD_DIM), &x->head_dim))
        return false;
    return x->recurrence == MODEL_MAMBA2 ? read_mamba_dim(r, x)
                                         : read_size(r, x, value, &x->head_dim_v);
}

/* Reads the output gate of GDN layers: silu, unless the class or a setting has another. */
static void read_delta_gate(struct reader *r, struct model_mixer *x)
{
    const char *type = config_text(&r->c, CONFIG_DELTA_GATE);
    x->act = type && strcmp(type, "sigmoid") == 0 ? "sigmoid" : "silu";
    if (type && strcmp(type, "sigmoid") && strcmp(type, "silu") && strcmp(type, "swish"))
        config_fault(&r->c, "%s is '%.40s', expected sigmoid, silu or swish",
                     config_name(&r->c, CONFIG_DELTA_GATE, (char[CONFIG_PATH]){0}), type);
    if (config_flag(&r->c, CONFIG_DELTA_NEGATIVE, false))
        lacks(r, x, "betas from 0 to 2: gated_delta computes betas from 0 to 1");
    x->norm_groups = x->value_heads;
}

/* Reads the output gate of KDA layers and the bound of their decays. */
static void read_kda_gate(struct reader *r, struct model_mixer *x)
{
    const double bound = config_real(&r->c, CONFIG_KDA_BOUND, 0);
    x->lower_bound = config_flag(&r->c, CONFIG_KDA_SAFE, true) ? bound : 0;
    if (bound > 0)
        config_fault(&r->c, "%s is positive",
                     config_name(&r->c, CONFIG_KDA_BOUND, (char[CONFIG_PATH]){0}));
    x->act = "sigmoid";
    x->norm_groups = x->value_heads;
}

/* Reads where Mamba2 applies its gate: before the norm, after it, or in the recurrence if there is
 * no norm. */
static void read_mamba_gate(struct reader *r, struct model_mixer *x)
{
    const char *act = config_text(&r->c, CONFIG_MAMBA_ACT);
    const bool norm = config_flag(&r->c, CONFIG_MAMBA_NORM, true);
    const bool after = config_flag(&r->c, CONFIG_MAMBA_NORM_FIRST, false);
    x->conv_bias = config_flag(&r->c, CONFIG_MAMBA_BIAS, true);
    x->act = after && norm ? "silu" : "silu_first";
    x->norm_groups = norm ? x->heads : 0;
    if (act && strcmp(act, "silu") && strcmp(act, "swish"))
        lacks(r, x, "an activation that is not silu");
}

/* Reads the gate of Mamba1, silu(z) in the recurrence, and whether its convolution has a bias. */
static void read_scan_gate(struct reader *r, struct model_mixer *x)
{
    const char *act = config_text(&r->c, CONFIG_MAMBA_ACT);
    x->conv_bias = config_flag(&r->c, CONFIG_MAMBA_BIAS, true);
    x->act = "silu";
    if (act && strcmp(act, "silu") && strcmp(act, "swish"))
        lacks(r, x, "an activation that is not silu");
    model_note(r->m, "Mamba1: norms of dt, b and c stay in the projections");
}

/* Reads the norm and gate of lightning attention, and whether q and k rotate. The norm spans all
 * heads, or groups of them. */
static void read_lightning_gate(struct reader *r, struct model_mixer *x)
{
    const long groups = config_number(&r->c, CONFIG_LIGHTNING_GROUPS);
    const bool silu = config_flag(&r->c, CONFIG_LIGHTNING_SILU, r->class.traits & LINEAR_SILU);
    x->act = "sigmoid";
    x->norm_groups = groups > 0 ? groups : 1;
    x->rotates = config_flag(&r->c, CONFIG_LIGHTNING_ROPE, !(r->class.traits & LINEAR_SILU));
    x->qk_norm = x->rotates && config_flag(&r->c, CONFIG_QK_NORM, false);
    if (silu)
        model_note(r->m, "Lightning attention: apply silu to q, k and v, in their projection");
    if (x->value_heads * x->head_dim_v % x->norm_groups)
        config_fault(&r->c, "%ld groups of the norm do not divide %ld heads of %ld", x->norm_groups,
                     x->value_heads, x->head_dim_v);
}

void read_mixer(struct reader *r, enum layer_kind layer, long layers)
{
    static void (*const gates[])(struct reader *, struct model_mixer *) = {
        [MODEL_DELTA_NET] = read_delta_gate,     [MODEL_KDA] = read_kda_gate,
        [MODEL_MAMBA1] = read_scan_gate,         [MODEL_MAMBA2] = read_mamba_gate,
        [MODEL_LIGHTNING] = read_lightning_gate,
    };
    size_t k = 0;
    while (k < sizeof(kinds) / sizeof(kinds[0]) && kinds[k].layer != layer)
        k++;
    if (k == sizeof(kinds) / sizeof(kinds[0]))
        return;
    for (size_t i = 0; i < r->m->mixer_count; i++) {
        /* A model may have these layers both with and without attention. */
        if (r->m->mixers[i].recurrence == kinds[k].recurrence) {
            r->m->mixers[i].layers += layers;
            return;
        }
    }
    struct model_mixer x = {.recurrence = kinds[k].recurrence, .layers = layers};
    if (!read_sizes_of(r, k, &x))
        return;
    gates[x.recurrence](r, &x);
    r->m->mixers[r->m->mixer_count++] = x;
}

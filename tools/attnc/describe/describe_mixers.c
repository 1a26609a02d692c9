/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_mixers.h"

#include <string.h>

/* Divisor of the channels of conv1d; divisor of the tokens of a page; bytes of an element of
 * conv1d's state. */
enum { CONV_CHANNELS = 64, PAGE_TOKENS = 16, CONV_BYTES = 2 };
enum { STEP_TOKENS = 8 /* most tokens of a sequence in gated_delta_step with drafts */ };

/* Sets *out to the key heads of each of `ranks` ranks. Ranks of Mamba may have copies of one.
 * Returns false if the ranks cannot share the heads. */
static bool share_groups(const struct model_mixer *x, long ranks, long *out)
{
    const bool copies =
        (x->recurrence == MODEL_MAMBA1 || x->recurrence == MODEL_MAMBA2) && ranks % x->heads == 0;
    if (x->heads % ranks && !copies)
        return false;
    *out = copies ? 1 : x->heads / ranks;
    return true;
}

/* Sets the norm's members of *out, for a rank with `values` elements of the output: whole groups of
 * the norm, or a part of one group. Leaves them 0 if ranks would have parts of several groups. */
static void share_norm(const struct model_mixer *x, long ranks, long values, struct rank_mixer *out)
{
    if (!x->norm_groups || (x->norm_groups % ranks && ranks % x->norm_groups))
        return;
    out->norm_ranks = ranks > x->norm_groups ? ranks / x->norm_groups : 1;
    out->norm_groups = ranks > x->norm_groups ? 1 : x->norm_groups / ranks;
    out->norm_width = values / out->norm_groups;
}

bool share_mixer(const struct model_mixer *x, long ranks, struct rank_mixer *out)
{
    *out = (struct rank_mixer){0};
    if (x->value_heads % ranks || !share_groups(x, ranks, &out->heads))
        return false;
    out->value_heads = x->value_heads / ranks;
    const long keys = out->heads * x->head_dim, values = out->value_heads * x->head_dim_v;
    out->channels = !x->taps ? 0 : x->recurrence == MODEL_MAMBA1 ? values : 2 * keys + values;
    share_norm(x, ranks, values, out);
    return true;
}

/* Returns the bytes of a token's keys and values in the attention cache of a rank; 0 if the ranks
 * cannot share the heads. */
static long token_bytes(const struct model *m, const struct deployment *d, long ranks)
{
    const long bytes = strcmp(d->kv_dtype, "same") ? 1 : 2;
    struct rank_heads r;
    if (m->latent.kv_lora_rank)
        return (m->latent.kv_lora_rank + m->latent.rope) * bytes;
    if (!m->group_count || !share_heads(&m->groups[0], ranks, &r))
        return 0;
    return r.kv_heads * (m->groups[0].head_dim + m->groups[0].head_dim_v) * bytes;
}

long mixer_page(const struct model *m, const struct model_mixer *x, const struct deployment *d,
                long ranks, long state_bytes)
{
    const long token = token_bytes(m, d, ranks);
    struct rank_mixer r;
    if (!token || !share_mixer(x, ranks, &r))
        return 0;
    const long taps = x->taps ? x->taps - 1 : 0;
    const long bytes =
        r.value_heads * x->head_dim * x->head_dim_v * state_bytes + r.channels * taps * CONV_BYTES;
    const long page = PAGE_TOKENS * token;
    return (bytes + page - 1) / page * PAGE_TOKENS;
}

/* The functions from here on write entries of a description. */

/* Adds the field `tree`, if drafts may form a tree. */
static void tree_field(struct entry_writer *w)
{
    if (w->d->draft_tree)
        entry_field(w, "tree: [false, true] # true: `parents` names the token that each follows");
}

/* Writes the entry of the short convolution. Adds a gap for ranks whose channels are no multiple of
 * CONV_CHANNELS. */
static void write_conv(struct entry_writer *w, const struct model_mixer *x)
{
    if (!x->taps)
        return;
    for (unsigned i = 0; i < w->d->rank_count; i++) {
        struct rank_mixer r;
        if (share_mixer(x, w->d->ranks[i], &r) && r.channels % CONV_CHANNELS)
            model_lacks(w->m, "conv1d at TP %ld: %ld channels are no multiple of %d",
                        w->d->ranks[i], r.channels, CONV_CHANNELS);
    }
    entry_begin(w, "conv1d");
    entry_field(w, "taps: %ld", x->taps);
    entry_field(w, "act: silu");
    if (x->conv_bias)
        entry_field(w, "bias: true");
    tree_field(w);
    entry_end(w, "the short convolution",
              "The short convolution before linear layers, of prompts, decode and drafts.");
}

/* Adds the fields that gated_delta, gated_delta_step, gated_delta_prefill and gated_delta_commit
 * have in common. */
static void delta_fields(struct entry_writer *w, const struct model_mixer *x)
{
    entry_field(w, "head_dim: %ld", x->head_dim);
    entry_field(w, "head_dim_v: %ld", x->head_dim_v);
    if (x->recurrence == MODEL_KDA)
        entry_field(w, "decay: channel");
    entry_field(w, "state_layout: v_major # k_major: as ATOM keeps states");
    entry_field(w, "state_dtype: f32 # bf16: half the bytes");
}

/* Adds the fields of the gates of GDN and KDA layers. */
static void gate_fields(struct entry_writer *w, const struct model_mixer *x)
{
    entry_field(w, "gates: %s", x->lower_bound < 0 ? "bounded" : "softplus");
    entry_field(w, "l2_norm: true");
}

/* Writes the entry that verifies trees of drafts, with a stored state for each draft. */
static void write_delta_tree(struct entry_writer *w, const struct model_mixer *x)
{
    char label[80];
    snprintf(label, sizeof(label), "trees of drafts in %s", mixer_name(x->recurrence));
    entry_begin(w, "gated_delta");
    delta_fields(w, x);
    gate_fields(w, x);
    entry_field(w, "tree: true");
    entry_end(w, label, "Trees of drafts; `parents` names the token that each follows.");
}

/* Writes the entries of GDN or KDA layers: decode, commit of drafts, and prompts. */
static void write_delta(struct entry_writer *w, const struct model_mixer *x)
{
    char label[80];
    entry_begin(w, "gated_delta");
    delta_fields(w, x);
    gate_fields(w, x);
    if (w->d->draft_tokens > 0)
        entry_field(w, "replay: [false, true] # true: drafts leave records, and the state stays");
    entry_end(w, mixer_name(x->recurrence), "Decode and drafts of linear layers.");
    if (w->d->draft_tokens > 0) {
        entry_begin(w, "gated_delta_commit");
        delta_fields(w, x);
        entry_end(w, "commit of drafts", "States advance by the drafts that were accepted.");
    }
    if (w->d->draft_tree)
        write_delta_tree(w, x);
    snprintf(label, sizeof(label), "prompts of %s in chunks", mixer_name(x->recurrence));
    entry_begin(w, "gated_delta_prefill");
    delta_fields(w, x);
    gate_fields(w, x);
    entry_field(w, "stage: [all, chunks, segments, scan, outputs] # one launch, or several for few "
                   "long prompts");
    entry_end(w, label, "Prompts of linear layers, in chunks.");
}

/* Writes the entry of gated_delta_step, a whole decode step in one launch, if every target has the
 * kernel. Adds verification if there are few enough drafts. */
static void write_delta_step(struct entry_writer *w, const struct model_mixer *x)
{
    char good[64], bad[64], why[200];
    entry_begin(w, "gated_delta_step");
    delta_fields(w, x);
    entry_field(w, "taps: %ld", x->taps);
    entry_field(w, "gqa: %ld", x->value_heads / x->heads);
    entry_field(w, "act: %s", x->act);
    gate_fields(w, x);
    if (w->d->draft_tokens > 0 && w->d->draft_tokens < STEP_TOKENS)
        entry_field(w, "drafts: [false, true] # true: verification of up to %d tokens",
                    STEP_TOKENS);
    entry_sort_targets(w, good, bad, why);
    if (!bad[0])
        entry_end(w, "", "A decode step of linear layers in one launch, in place of three.");
}

/* Adds the fields of Mamba2 and lightning attention. */
static void ssd_fields(struct entry_writer *w, const struct model_mixer *x)
{
    const bool mamba = x->recurrence == MODEL_MAMBA2;
    entry_field(w, "head_dim: %ld", x->head_dim);
    entry_field(w, "head_dim_v: %ld", x->head_dim_v);
    entry_field(w, "gates: %s", mamba ? "softplus" : "constant");
    entry_field(w, "act: %s", x->norm_groups ? "none" : "silu");
    entry_field(w, "state_layout: %s", mamba ? "v_major" : "k_major");
    entry_field(w, "state_dtype: f32%s", mamba ? " # fp16: half the bytes" : "");
}

/* Writes the entries of Mamba2 or lightning attention: decode and prompts. */
static void write_ssd(struct entry_writer *w, const struct model_mixer *x)
{
    char label[80];
    entry_begin(w, "ssd");
    ssd_fields(w, x);
    tree_field(w);
    entry_end(w, mixer_name(x->recurrence), "Decode and drafts of linear layers.");
    snprintf(label, sizeof(label), "prompts of %s in chunks", mixer_name(x->recurrence));
    entry_begin(w, "ssd_prefill");
    ssd_fields(w, x);
    entry_end(w, label, "Prompts of linear layers, in chunks.");
}

/* Writes the entry of selective_scan, for Mamba1. */
static void write_scan(struct entry_writer *w, const struct model_mixer *x)
{
    entry_begin(w, "selective_scan");
    entry_field(w, "head_dim: %ld", x->head_dim);
    entry_field(w, "head_dim_v: %ld", x->head_dim_v);
    entry_field(w, "gates: softplus");
    entry_field(w, "act: %s", x->act);
    entry_field(w, "state_dtype: f32 # fp16: half the bytes");
    entry_end(w, mixer_name(x->recurrence), "Prompts, decode and drafts of linear layers.");
    if (w->d->draft_tree)
        model_lacks(w->m, "trees of drafts in %s: selective_scan verifies chains",
                    mixer_name(x->recurrence));
}

/* Writes the entry that normalises and rotates q and k of lightning attention; nothing if these do
 * not rotate. */
static void write_mixer_rope(struct entry_writer *w, const struct model_mixer *x)
{
    const struct model_group *g = &w->m->groups[0];
    const long rotary = g->rotary_dim && g->rotary_dim < x->head_dim ? g->rotary_dim : x->head_dim;
    if (!x->rotates)
        return;
    entry_begin(w, "rope_qk_norm_cache");
    entry_field(w, "head_dim: %ld", x->head_dim);
    entry_field(w, "rope: neox");
    if (rotary != x->head_dim)
        entry_field(w, "rotary_dim: %ld", rotary);
    if (x->qk_norm)
        entry_field(w, "norm: rms");
    entry_field(w, "keep_kv: true");
    entry_end(
        w, "rotation of linear layers",
        "Rotation of q and k in linear layers; slot_mapping is NULL, since nothing is cached.");
}

/* Lists the widths of parts of norm groups, for numbers of ranks that divide a group: "[2048,
 * 1024]". Returns false if there are none. */
static bool list_parts(const struct entry_writer *w, const struct model_mixer *x,
                       char list[ENTRY_LIST])
{
    unsigned count = 0;
    size_t length = 0;
    for (unsigned i = 0; i < w->d->rank_count; i++) {
        struct rank_mixer r;
        if (share_mixer(x, w->d->ranks[i], &r) && r.norm_ranks > 1)
            length += (size_t)snprintf(list + length, ENTRY_LIST - length, "%s%ld",
                                       count++ ? ", " : "[", r.norm_width);
    }
    if (count)
        snprintf(list + length, ENTRY_LIST - length, "]");
    return count > 0;
}

/* Writes an entry of gated_rmsnorm. `stage` NULL: one launch does all. */
static void write_norm_entry(struct entry_writer *w, const char *width, const char *act,
                             const char *stage, const char *comment)
{
    entry_begin(w, "gated_rmsnorm");
    entry_field(w, "width: %s", width);
    entry_field(w, "act: %s", act);
    if (stage)
        entry_field(w, "stage: %s", stage);
    entry_end(w, stage ? "the gated norm over ranks" : "the gated norm", comment);
}

/* Writes the entries of the gated norm: one launch for ranks with whole groups, two launches for
 * ranks with parts of a group. */
static void write_norm(struct entry_writer *w, const struct model_mixer *x)
{
    const bool first = strcmp(x->act, "silu_first") == 0;
    char width[ENTRY_LIST] = "";
    for (unsigned i = 0; x->norm_groups && i < w->d->rank_count; i++) {
        struct rank_mixer r;
        if (!share_mixer(x, w->d->ranks[i], &r))
            continue;
        if (!r.norm_groups)
            model_lacks(w->m, "gated norm at TP %ld: ranks have parts of several of %ld groups",
                        w->d->ranks[i], x->norm_groups);
        else if (r.norm_ranks == 1)
            snprintf(width, sizeof(width), "%ld", r.norm_width);
    }
    if (width[0])
        write_norm_entry(w, width, x->act, NULL,
                         "The gated norm of linear layers; out_dtype: fp8 quantises it.");
    if (!list_parts(w, x, width))
        return;
    write_norm_entry(w, width, first ? x->act : "none", "sums",
                     "Sums of squares for the gated norm, where its groups lie over several ranks, "
                     "which add them.");
    write_norm_entry(w, width, x->act, "outputs",
                     "The gated norm by these sums; out_dtype: fp8 quantises it.");
}

/* Adds a gap for each number of ranks that cannot share the heads. */
static void check_ranks(struct entry_writer *w, const struct model_mixer *x)
{
    for (unsigned i = 0; i < w->d->rank_count; i++) {
        struct rank_mixer r;
        if (!share_mixer(x, w->d->ranks[i], &r))
            model_lacks(w->m, "TP %ld: %ld heads and %ld value heads of %s cannot be shared out",
                        w->d->ranks[i], x->heads, x->value_heads, mixer_name(x->recurrence));
    }
}

void write_mixers(struct entry_writer *w)
{
    for (unsigned i = 0; i < w->m->mixer_count; i++) {
        const struct model_mixer *x = &w->m->mixers[i];
        check_ranks(w, x);
        write_mixer_rope(w, x);
        write_conv(w, x);
        if (x->recurrence == MODEL_DELTA_NET || x->recurrence == MODEL_KDA) {
            write_delta(w, x);
            write_delta_step(w, x);
        } else if (x->recurrence == MODEL_MAMBA1) {
            write_scan(w, x);
        } else {
            write_ssd(w, x);
        }
        write_norm(w, x);
    }
    if (w->m->mixer_count) {
        entry_begin(w, "state_copy");
        entry_end(w, "state_copy", "Checkpoints and forks of the states of all layers.");
    }
}

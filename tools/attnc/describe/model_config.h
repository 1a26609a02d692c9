/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the attention of a model, as read from its config.json (Hugging Face layout):
 * heads, layers by kind, the steps of q and k, and what attnc lacks for it.
 */
#ifndef TOOLS_ATTNC_MODEL_CONFIG_H
#define TOOLS_ATTNC_MODEL_CONFIG_H

#include <stdbool.h>

#include "compiler/yaml.h"

/** Most sentences of a list, groups of layers, and shares of pooled layers; bytes of a name and of
 * a message. */
enum {
    MODEL_MAX_GAPS = 128,
    MODEL_MAX_GROUPS = 8,
    MODEL_MAX_SHARES = 16,
    MODEL_MAX_NAME = 64,
    MODEL_WHY = 200,
    MODEL_LISTED = 200 /* bytes of a list of layers */
};

/** The elements of a head that rotate as a pair: none; i and i + n / 2 (NEOX); 2 i and 2 i + 1
 * (GPTJ). */
enum model_rope { MODEL_ROPE_NO_ROPE, MODEL_ROPE_NEOX, MODEL_ROPE_GPTJ };

/** The norm of q and k: none, RMS of each head, the same with a weight of 1 + w, RMS over all
 * heads. */
enum model_norm {
    MODEL_NORM_NONE,
    MODEL_NORM_RMS,
    MODEL_NORM_GEMMA_RMS,
    MODEL_NORM_FULL,
    MODEL_NORM_LAYER_NORM, /* layer norm, which attnc lacks */
    MODEL_NORM_AFTER_ROPE, /* a norm after the rotation, which attnc lacks */
};

/** The recurrences of linear layers. */
enum model_recurrence {
    MODEL_DELTA_NET, /* of Qwen3-Next: a decay for each head */
    MODEL_KDA,       /* of Kimi-Linear: a decay for each element of a key */
    MODEL_MAMBA1,    /* a decay for each channel and element of the state */
    MODEL_MAMBA2,
    MODEL_LIGHTNING, /* of MiniMax-Text-01 and Ring: constant decays */
    MODEL_RECURRENCES,
};

/** Positions of tokens in images: none, in sections of the head, or interleaved. */
enum model_mrope { MODEL_MROPE_NONE, MODEL_MROPE_SECTIONS, MODEL_MROPE_INTERLEAVED };

/** A group of layers with the same attention. Head counts are of the whole model, not of a rank. */
struct model_group {
    long layers;
    /* Keys that a query sees, its own token included; 0: no window. */
    long window;
    /* Tokens of a chunk, to which attention is limited; 0: no chunks. */
    long chunk;
    long heads, kv_heads, head_dim, head_dim_v;
    long rotary_dim; /* elements of a head that rotate; 0: none */
    /* Q and k are rotated; the layers have attention sinks. */
    bool rotates, sinks;
    /* True: no causal mask. A query sees `window` keys on each side, or all keys. */
    bool both_ways;
    /* True: a cached row of head_dim elements is key and value of all heads. */
    bool rows;
    /* With `rows`: tokens of a group that has a pooled row, beside the rows of the window; 0:
     * none. */
    long pool;
    /* True: an indexer chooses among the pooled rows; false: a query sees all of them. */
    bool chosen;
    double scale; /* factor of the scores before the softmax */
};

/** The linear layers of one recurrence. Head counts are of the whole model, not of a rank. */
struct model_mixer {
    enum model_recurrence recurrence;
    long layers;
    /* Key heads; groups of Mamba2; of Mamba1 1, or the heads that share b and c. */
    long heads;
    long value_heads;          /* value heads; each has a state of head_dim x head_dim_v elements */
    long head_dim, head_dim_v; /* elements of a key and of a value */
    long taps;                 /* taps of the short convolution; 0: there is none */
    /* True: the convolution has a bias. */
    bool conv_bias;
    double lower_bound; /* least logarithm of KDA's decays, negative; 0: no bound */
    /* Activation of the output gate, a value of gated_rmsnorm's field `act`. */
    const char *act;
    long norm_groups; /* groups of an output that are normalised each; 0: no norm */
    bool rotates;     /* true: q and k rotate (lightning attention) */
    bool qk_norm;     /* true: q and k are normalised before the rotation */
};

/** An encoder of images or audio, whose attention has no mask and no cache. */
struct model_encoder {
    long layers;          /* number of layers; 0: unknown */
    long heads, head_dim; /* number of heads and elements of each; heads 0: no encoder */
};

/** Latent attention (MLA; DeepSeek-V2, arXiv 2405.04434). kv_lora_rank 0: the model does not have
 * it. */
struct model_latent {
    long q_lora_rank; /* elements of compressed q; 0: q is not compressed */
    /* Elements of the latent, of a key without rotation, of the rotated part, and of a value. */
    long kv_lora_rank, nope, rope, value;
    /* True: W_UK and W_UV are fp8, with a scale for each block of 128 x 128 elements. */
    bool block_weights;
    /* Heads and elements of the sparse indexer, and keys that it chooses; 0: no indexer. */
    long index_heads, index_dim, index_topk;
    /* Tokens from which one key of the indexer is made; 1: each token has a key. */
    long index_pool;
    /* Rotation of the indexer's queries and keys. */
    enum model_rope index_rope;
    /* By layer: true if its indexer chooses keys; false: it uses the choice of an earlier layer.
     * Owned; NULL: no indexer. */
    bool *scores;
};

/** Attention to groups of keys that an indexer chooses for each query and KV head (MiniMax-M3,
 * Qwen3.8-Flash-Next). */
struct model_choice {
    long layers;     /* number of such layers; 0: none */
    long group, top; /* tokens in a group, and groups that are chosen */
    long heads, dim; /* heads and elements of the indexer */
    /* True: the indexer has one key for each group, a mean; false: one for each token. */
    bool pooled;
    /* Groups at the begin and at the end of a sequence that are always chosen. */
    long first, last;
};

/** The pooled rows among which a layer chooses. */
enum model_level {
    MODEL_ALL_ROWS,      /* all rows */
    MODEL_ROWS_BLOCKS,   /* all rows; the layer also chooses blocks of rows for later layers */
    MODEL_ROWS_OF_BLOCKS /* rows of the blocks that an earlier layer chose */
};

/** Layers of pooled attention that get their rows and their choice in the same way. */
struct model_share {
    long layers; /* number of such layers */
    long pool;   /* tokens of a group; 0: the layers attend to their window only */
    bool chosen; /* true: the layers attend to chosen rows; false: to all rows */
    bool makes;  /* true: the layers make rows; false: an earlier layer does */
    /* True: the layers choose rows; false: an earlier layer does, or `chosen` is false. */
    bool chooses;
    enum model_level level; /* valid if `chooses` is true */
};

/** Pooled attention (DeepSeek-V4): to rows made from groups of tokens, beside a window. */
struct model_pooled {
    bool is;          /* true: the model has such layers */
    long q_lora_rank; /* elements of compressed q; 0: q is not compressed */
    /* Heads, elements and chosen rows of the indexer; index_topk 0: no indexer. */
    long index_heads, index_dim, index_topk;
    /* Blocks of rows that a layer chooses first, and rows of a block; 0: no blocks. */
    long top_blocks, block_size;
    bool shared; /* true: layers use rows and choices of earlier layers */
    /* Layers that make rows, as "2, 8"; set if `shared` is true. */
    char makers[MODEL_LISTED];
    char choosers[MODEL_LISTED]; /* layers that choose rows, as "2, 8" */
    /* All layers, grouped by what they make and choose. */
    struct model_share shares[MODEL_MAX_SHARES];
    unsigned share_count;
};

/** A list of different sentences about a model. */
struct model_texts {
    char *texts[MODEL_MAX_GAPS];
    unsigned count;
};

/** A model, as read from its config.json. */
struct model {
    /* First of `architectures`, and model_type; "": absent. */
    char architecture[MODEL_MAX_NAME], type[MODEL_MAX_NAME];
    bool known; /* true: models.def has the model type */
    /* True: elements are fp16; false: bf16. */
    bool fp16;
    long layers;
    struct model_group groups[MODEL_MAX_GROUPS];
    unsigned group_count;
    struct model_mixer mixers[MODEL_RECURRENCES];
    unsigned mixer_count;
    struct model_latent latent;
    struct model_pooled pooled;
    struct model_choice choice;
    struct model_encoder vision;
    enum model_rope rope;
    enum model_norm norm;
    enum model_mrope mrope;
    /* Q, k and v have a bias; q's projection also has a gate of the output. */
    bool bias, gate;
    /* True: the output of latent attention is multiplied by the sigmoid of a gate. */
    bool gates_out;
    /* True: each head of the output is multiplied by the sigmoid of one number. */
    bool gates_heads;
    double out_scale; /* factor of the output; 1: none */
    /* True: tokens of an image, or of a prefix, see each other. */
    bool image_prefix;
    double soft_cap; /* soft cap of the scores; 0: none */
    /* The setting or the formula that the scale of the scores comes from. */
    char scale_from[MODEL_MAX_NAME];
    long draft_tokens;        /* layers of multi-token prediction; 0: none */
    struct model_texts gaps;  /* what the model needs and attnc lacks */
    struct model_texts notes; /* what the caller has to do besides launching kernels */
    /* Lists of the settings that were read, and of the others that change no kernel. Owned; may be
     * NULL. */
    char *read, *neutral;
};

/** Returns the name of a recurrence, such as "Mamba2", for sentences. */
const char *mixer_name(enum model_recurrence r);

/** Fills *m from a parsed config.json. Returns false, with a sentence in `why`, if it is none or
 * lacks a setting. Call model_free() in either case. */
bool model_read(struct model *m, const struct attnc_yaml *y, char why[MODEL_WHY]);

/** Adds a sentence to m->gaps, what attnc lacks, unless it is there. */
void model_lacks(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Adds a sentence to m->notes, what the caller has to do, unless it is there. */
void model_note(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Frees the memory of a model. */
void model_free(struct model *m);

#endif

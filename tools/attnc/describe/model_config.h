/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention of a model, read from its config.json (the Hugging Face layout): heads, layers by
 * kind, what happens to q and k, and what attnc lacks for it.
 */
#ifndef TOOLS_ATTNC_MODEL_CONFIG_H
#define TOOLS_ATTNC_MODEL_CONFIG_H

#include <stdbool.h>

#include "compiler/yaml.h"

enum {
    MODEL_MAX_GAPS = 128,
    MODEL_MAX_GROUPS = 8,
    MODEL_MAX_SHARES = 16,
    MODEL_MAX_NAME = 64,
    MODEL_WHY = 200,
    MODEL_LISTED = 200 /* characters of a list of layers */
};

enum model_rope { MODEL_ROPE_NO_ROPE, MODEL_ROPE_NEOX, MODEL_ROPE_GPTJ };

enum model_norm {
    MODEL_NORM_NONE,
    MODEL_NORM_RMS,
    MODEL_NORM_GEMMA_RMS,
    MODEL_NORM_FULL,
    MODEL_NORM_LAYER_NORM, /* attnc has none */
    MODEL_NORM_AFTER_ROPE, /* attnc has none */
};

/** The recurrences of linear layers. */
enum model_recurrence {
    MODEL_DELTA_NET, /* Qwen3-Next's, a decay of each head */
    MODEL_KDA,       /* Kimi-Linear's, a decay of each element of a key */
    MODEL_MAMBA1,    /* a decay of each channel and element of the state */
    MODEL_MAMBA2,
    MODEL_LIGHTNING, /* MiniMax-Text-01's and Ring's, constant decays */
    MODEL_RECURRENCES,
};

enum model_mrope { MODEL_MROPE_NONE, MODEL_MROPE_SECTIONS, MODEL_MROPE_INTERLEAVED };

/** Layers whose attention is the same; heads of all ranks together. */
struct model_group {
    long layers;
    long window; /* tokens that a query sees, its own among them; 0: all */
    long chunk;  /* tokens of a chunk; a query sees its own chunk only; 0: none */
    long heads, kv_heads, head_dim, head_dim_v;
    long rotary_dim;     /* elements of a head that rotate; 0: none */
    bool rotates, sinks; /* q and k are rotated; heads have attention sinks */
    bool both_ways;      /* no causal mask: `window` keys on each side, or all */
    bool rows;           /* one row of head_dim elements is the key and the value of all heads */
    long pool;    /* with rows: tokens of a group that has a row beside the window's; 0: none */
    bool chosen;  /* an indexer chooses among the rows of groups; false: all are seen */
    double scale; /* of the scores before the softmax */
};

/** Linear layers: a recurrence and what is around it; heads of all ranks together. */
struct model_mixer {
    enum model_recurrence recurrence;
    long layers;
    long heads;                /* of keys; groups of Mamba2; 1 for Mamba1 */
    long value_heads;          /* each has a state of head_dim x head_dim_v */
    long head_dim, head_dim_v; /* of a key, of a value */
    long taps;                 /* inputs of an output of the short convolution; 0: there is none */
    bool conv_bias;
    double lower_bound; /* of KDA's decays; 0: none */
    const char *act;    /* of the gate, as gated_rmsnorm has it */
    long norm_groups;   /* groups of a token that are normalised; 0: no norm */
    bool rotates;       /* q and k of lightning attention rotate */
    bool qk_norm;       /* q and k are normalised before the rotation */
};

/** An encoder beside the language model, whose attention has no mask and no cache. */
struct model_encoder {
    long layers;          /* 0: not known */
    long heads, head_dim; /* heads 0: there is none */
};

/** Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); kv_lora_rank 0: another kind. */
struct model_latent {
    long q_lora_rank; /* 0: q is not compressed */
    long kv_lora_rank, nope, rope, value;
    bool block_weights; /* W_UK and W_UV are fp8 with a scale for each 128 x 128 of a head */
    long index_heads, index_dim, index_topk; /* of the sparse indexer; 0: none */
    long index_pool; /* tokens that share one of its keys; 1: each has its own */
    enum model_rope index_rope;
    bool *scores; /* [layers]: true if the layer's indexer chooses keys; false: it uses the choice
                     of the layer before */
};

/** Attention to groups of keys that an indexer chooses for each query and KV head. */
struct model_choice {
    long layers;      /* 0: there is no such layer */
    long group, top;  /* tokens of a group; groups that are chosen */
    long heads, dim;  /* of the indexer */
    bool pooled;      /* the indexer has a key for each group, a mean; false: for each token */
    long first, last; /* groups at a sequence's beginning and end that are always chosen */
};

/** The rows of groups of tokens among which a layer chooses. */
enum model_level {
    MODEL_ALL_ROWS,      /* all of them */
    MODEL_ROWS_BLOCKS,   /* all, and it also chooses blocks of rows for later layers */
    MODEL_ROWS_OF_BLOCKS /* only rows in the blocks that an earlier layer chose */
};

/** Layers that get their rows of groups, and a choice among these, in the same way. */
struct model_share {
    long layers;  /* how many there are */
    long pool;    /* tokens of a group; 0: they attend to the window only */
    bool chosen;  /* they attend to chosen rows; false: to all */
    bool makes;   /* they make the rows; false: an earlier layer does */
    bool chooses; /* they choose rows; false: an earlier layer does, or `chosen` is false */
    enum model_level level; /* read if `chooses` is true */
};

/** Attention to rows of groups of tokens, beside a window (DeepSeek-V4). */
struct model_pooled {
    bool is;                                     /* true: the model has such layers */
    long q_lora_rank;                            /* 0: q is not compressed */
    long index_heads, index_dim, index_topk;     /* of the indexer; index_topk 0: there is none */
    long top_blocks, block_size;                 /* blocks of rows that it chooses first; 0: none */
    bool shared;                                 /* other layers use a layer's rows and choices */
    char makers[MODEL_LISTED];                   /* layers that make rows, as "2, 8"; with shared */
    char choosers[MODEL_LISTED];                 /* layers that choose rows */
    struct model_share shares[MODEL_MAX_SHARES]; /* all layers, by what they make and choose */
    unsigned share_count;
};

/** Sentences of a model, each once. */
struct model_texts {
    char *texts[MODEL_MAX_GAPS];
    unsigned count;
};

struct model {
    char architecture[MODEL_MAX_NAME], type[MODEL_MAX_NAME];
    bool known; /* the type is in models.def */
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
    bool bias, gate;
    bool gates_out;    /* latent attention's output is multiplied by sigmoid of a gate */
    bool gates_heads;  /* each head of the output is multiplied by the sigmoid of one number */
    double out_scale;  /* factor of the output, or of values; 1: none */
    bool image_prefix; /* tokens of an image, or of a prefix, see each other */
    double soft_cap;   /* of the scores; 0: none */
    char scale_from[MODEL_MAX_NAME]; /* the setting or the rule that the scale follows */
    long draft_tokens;               /* of multi-token prediction; 0: none */
    struct model_texts gaps;         /* what the model needs and attnc lacks */
    struct model_texts notes;        /* what the caller has to do besides launching kernels */
    char *read, *neutral; /* settings that were read, and those without effect; may be NULL */
};

/** Returns the name of a recurrence, as in "36 layers of NAME". */
const char *mixer_name(enum model_recurrence r);

/** Reads the model of a parsed config.json. Returns false if it is no config.json or lacks a
 * setting; `why` then has the reason. */
bool model_read(struct model *m, const struct attnc_yaml *y, char why[MODEL_WHY]);

/** Adds a sentence to m->gaps, unless it is there already. */
void model_lacks(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Adds a sentence to m->notes, unless it is there already. */
void model_note(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Frees the texts of a model. */
void model_free(struct model *m);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the parts that read a config.json: sizes, layers and scores. Each reads
 * settings from `c` of struct reader and stores the facts in `m`.
 */
#ifndef TOOLS_ATTNC_MODEL_READ_H
#define TOOLS_ATTNC_MODEL_READ_H

#include "tools/attnc/describe/config_json.h"
#include "tools/attnc/describe/model_config.h"
#include "tools/attnc/describe/model_layers.h"

/** The most layers of a model. */
enum { MAX_LAYERS = 4096 };

/** Traits of a model's class; models.def says what each means. */
enum {
    BIAS = 1 << 0,
    SINKS = 1 << 1,
    GATE = 1 << 2,
    ALIBI = 1 << 3,
    ALTERNATE = 1 << 4,
    FULL_NOPE = 1 << 5,
    GATE_APART = 1 << 6,
    GATE_HEADS = 1 << 7,
    ENCODER = 1 << 8,
    CROSS = 1 << 9,
    DOUBLE = 1 << 10,
    BESIDE = 1 << 11,
    LOCAL = 1 << 12,
    GLOBAL_FIRST = 1 << 13,
    SCALE_ONE = 1 << 14,
    SCALE_HALF = 1 << 15,
    COMPRESSED = 1 << 16,
    HALF_WINDOW = 1 << 17,
    IMAGE_PREFIX = 1 << 18,
    LINEAR_SILU = 1 << 19,
    MEMORY = 1 << 20,
};

/** A row of models.def: facts that the class of a model type decides. */
struct model_class {
    const char *type;
    enum model_rope rope;
    enum model_norm norm;
    bool norm_by_key; /* true: a setting switches the norm on */
    unsigned traits;
};

/** A config.json that is being read. */
struct reader {
    /* The model whose members are set from the file. */
    struct model *m;
    struct config c;
    struct model_class class; /* the class, with the traits that the whole file's model_type adds */
    struct layer_rules rules;
    /* By enum layer_kind: true if the model has such layers. */
    bool kinds[LAYER_KINDS];
    bool softmax[MAX_LAYERS]; /* by layer: true if it has softmax attention */
};

/** Reads the number of layers, the head counts and latent attention. Absent sizes are faults. */
void read_sizes(struct reader *r);

/** Returns the heads of layer `i`. *kind, the layer's kind, changes if its own settings say so. */
struct model_group read_heads_of(struct reader *r, long i, enum layer_kind *kind);

/** Reads the sizes of the linear layers of one kind, `layers` of them; does nothing for other
 * kinds. What is absent becomes a gap. */
void read_mixer(struct reader *r, enum layer_kind layer, long layers);

/** Reads the window and the pooled rows of layer `i` into `g`. */
void read_pool_of(struct reader *r, long i, struct model_group *g);

/** Reads how `layers` layers choose groups of keys. Returns false if a setting for it is absent. */
bool read_choice(struct reader *r, long layers);

/** Reads the indexer of pooled attention, and which layers make and choose rows. */
void read_pooled(struct reader *r);

/** Returns the elements of a head that rotate in layer `i`, of kind `kind`, with heads `g`; 0:
 * none. */
long read_rotation_of(const struct reader *r, long i, enum layer_kind kind,
                      const struct model_group *g);

/** Reads the steps of q, k, v and the scores besides their products: norm, gate, bias, soft cap. */
void read_scores(struct reader *r);

/** True if queries also see later keys, as in an encoder. */
bool sees_both_ways(const struct reader *r);

/** Reads the kind of positions, such as rotation and its sections. Single layers may still have
 * none. */
void read_position(struct reader *r);

/** Returns the factor of the scores in layers with the heads `g`, and names its source in
 * m->scale_from. */
double read_scale(const struct reader *r, const struct model_group *g);

/** Adds the gap "N layers of SENTENCE (layers 0-3)", for the layers that are set. */
void lacks_in_layers(struct reader *r, const bool set[], const char *sentence);

#endif

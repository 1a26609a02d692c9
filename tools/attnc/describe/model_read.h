/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of reading a config.json: sizes, layers, scores. Each reads its settings from `c` and
 * writes what they mean into `m`.
 */
#ifndef TOOLS_ATTNC_MODEL_READ_H
#define TOOLS_ATTNC_MODEL_READ_H

#include "tools/attnc/describe/config_json.h"
#include "tools/attnc/describe/model_config.h"
#include "tools/attnc/describe/model_layers.h"

enum { MAX_LAYERS = 4096 };

/** Traits of a class; models.def says what each means. */
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

struct model_class {
    const char *type;
    enum model_rope rope;
    enum model_norm norm;
    bool norm_by_key; /* a setting switches the norm on */
    unsigned traits;
};

struct reader {
    struct model *m;
    struct config c;
    struct model_class class; /* with the traits that the whole file's type adds */
    struct layer_rules rules;
    bool kinds[LAYER_KINDS];  /* the model has layers of that kind */
    bool softmax[MAX_LAYERS]; /* layer i has softmax attention */
};

/** Reads the number of layers, the heads of the whole model and latent attention. Faults name what
 * is missing. */
void read_sizes(struct reader *r);

/** Returns the heads of layer i, of `kind`, which the layer's own settings may change. */
struct model_group read_heads_of(struct reader *r, long i, enum layer_kind *kind);

/** Sorts the layers into groups of equal attention, and reports what other layers need. */
void read_layers(struct reader *r);

/** Reads the sizes of the linear layers of one kind; what is not there becomes a gap. */
void read_mixer(struct reader *r, enum layer_kind layer, long layers);

/** Reads the pool of layer i, whose keys are rows of groups, into `g`. */
void read_pool_of(struct reader *r, long i, struct model_group *g);

/** Reads how `layers` layers choose groups of keys. Returns false if the file does not say all of
 * it. */
bool read_choice(struct reader *r, long layers);

/** Reads the indexer of layers whose keys are rows of groups, and which layers have one. */
void read_pooled(struct reader *r);

/** Returns the elements of a head that rotate in layer i, of `kind`, with heads `g`; 0: none. */
long read_rotation_of(const struct reader *r, long i, enum layer_kind kind,
                      const struct model_group *g);

/** Reads the steps that q, k, v and the scores go through. */
void read_scores(struct reader *r);

/** True if queries see the keys after them too, as in an encoder. */
bool sees_both_ways(const struct reader *r);

/** Reads the kind of positions into `m`, such as rotation and its sections. Single layers may still
 * have none. */
void read_position(struct reader *r);

/** Returns the scale of the scores of layers with the heads `g`. */
double read_scale(const struct reader *r, const struct model_group *g);

/** Adds "N layers of SENTENCE (layers 0-3)" to the gaps, for the layers that are set. */
void lacks_in_layers(struct reader *r, const bool set[], const char *sentence);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The kind of each layer: model_layers.def has the kinds, their words, and the settings that say
 * the kind of each layer.
 */
#ifndef TOOLS_ATTNC_MODEL_LAYERS_H
#define TOOLS_ATTNC_MODEL_LAYERS_H

#include "tools/attnc/describe/config_json.h"

/** The ops of one layer between its projections. */
enum layer_kind {
#define LAYER_KIND(name, shape, gap) LAYER_##name,
#include "tools/attnc/describe/model_layers.def"
    LAYER_KINDS,
};

/** The softmax attention in a layer. */
enum layer_shape { SHAPE_FULL, SHAPE_WINDOW, SHAPE_CHUNK, SHAPE_NONE };

/** Rules of a class for the kinds of layers, which its settings leave open. */
struct layer_rules {
    long layers;
    bool alternate;         /* every other layer has the window, from the first one on */
    bool global_first;      /* layer 0 is the first of KIND_GLOBAL_EVERY, not the n-th */
    bool local;             /* layers that the class calls attention have the window */
    bool beside;            /* Mamba runs beside attention in every layer */
    bool memory;            /* Mamba of the second half only gates an earlier layer's output */
    enum layer_kind linear; /* the kind of a linear layer of this class */
};

/** Returns the kind of layer i. `disagrees` receives the name of a setting that contradicts the
 * deciding one, and `unknown` a word that no kind has. Both have CONFIG_PATH bytes and are
 * otherwise unchanged. */
enum layer_kind layer_kind(const struct config *c, const struct layer_rules *r, long i,
                           char *disagrees, char *unknown);

/** Returns the softmax attention in layers of this kind. */
enum layer_shape layer_shape(enum layer_kind kind);

/** Returns what attnc lacks for layers of a kind, after "N layers of "; NULL if it lacks nothing.*/
const char *layer_gap(enum layer_kind kind);

/** True if layer i rotates q and k, by the settings that switch rotation off for single layers. */
bool layer_rotates(const struct config *c, long i, long layers);

/** True if layer i has a sparse indexer of its own; others take the keys that the layer before them
 * has chosen (GLM-5.2's IndexShare). `disagrees`, of CONFIG_PATH bytes, receives the name of a
 * setting that contradicts the deciding one; else it is unchanged. */
bool layer_indexes(const struct config *c, long i, char *disagrees);

/** Returns the tokens of layer i's sliding window; 0: there is none, or it holds every sequence. */
long layer_window(const struct config *c, long i, long layers);

/** Writes "0-2, 6, 10" for the layers that are set, cut with "..." if `size` bytes are too few. */
void layers_text(const bool set[], long layers, char *text, size_t size);

#endif

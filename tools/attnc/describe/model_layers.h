/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the kind of each layer. model_layers.def lists the kinds, words for them, and
 * the settings that say each layer's kind.
 */
#ifndef TOOLS_ATTNC_MODEL_LAYERS_H
#define TOOLS_ATTNC_MODEL_LAYERS_H

#include "tools/attnc/describe/config_json.h"

/** The kind of a layer: what is between its projections. */
enum layer_kind {
#define LAYER_KIND(name, shape, gap) LAYER_##name,
#include "tools/attnc/describe/model_layers.def"
    LAYER_KINDS,
};

/** The softmax attention of a layer: all keys, a window, a chunk, or none. */
enum layer_shape { SHAPE_FULL, SHAPE_WINDOW, SHAPE_CHUNK, SHAPE_NONE };

/** Rules of a model's class that decide the kind of a layer where its settings do not. */
struct layer_rules {
    /* Number of layers of the model. */
    long layers;
    bool alternate; /* every other layer has the window, from layer 0 on */
    /* KIND_GLOBAL_EVERY n means layers 0, n, 2 n; false: layers n - 1, 2 n - 1. */
    bool global_first;
    bool local;  /* layers that the file calls attention have the window */
    bool beside; /* every layer has Mamba beside attention */
    /* Mamba layers from n / 2 + 2 on only gate the output of an earlier layer. */
    bool memory;
    enum layer_kind linear; /* kind of the layers that the file calls linear attention */
};

/** Returns the kind of layer `i`. `disagrees` gets the name of a setting that contradicts the
 * deciding one, `unknown` a word that no kind has. Both have CONFIG_PATH bytes, and stay unchanged
 * otherwise. */
enum layer_kind layer_kind(const struct config *c, const struct layer_rules *r, long i,
                           char *disagrees, char *unknown);

/** Returns the softmax attention of layers of this kind. */
enum layer_shape layer_shape(enum layer_kind kind);

/** Returns what attnc lacks for layers of this kind, the end of "N layers of ..."; NULL:
 * nothing. */
const char *layer_gap(enum layer_kind kind);

/** True if layer `i` rotates q and k, by the settings that switch rotation off for single
 * layers. */
bool layer_rotates(const struct config *c, long i, long layers);

/** True if layer `i` has a sparse indexer of its own; other layers use the choice of the layer
 * before (IndexShare of GLM-5.2). A word for each layer prevails over a letter, and a letter over
 * an interval. `disagrees`, CONFIG_PATH bytes, gets the name of a setting that contradicts the
 * deciding one. */
bool layer_indexes(const struct config *c, long i, char *disagrees);

/** Returns the sliding window of layer `i` in tokens; 0: there is none, or no sequence is
 * longer. */
long layer_window(const struct config *c, long i, long layers);

/** Writes the numbers of the layers that are set, such as "0-2, 6, 10". Ends with "..." if `size`
 * bytes are too few. */
void layers_text(const bool set[], long layers, char *text, size_t size);

#endif

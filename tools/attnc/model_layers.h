/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_MODEL_LAYERS_H
#define TOOLS_ATTNC_MODEL_LAYERS_H

#include "tools/attnc/config_json.h"

/** The ops of one layer between its projections. */
enum layer_kind {
    LAYER_FULL,
    LAYER_WINDOW,
    LAYER_CHUNK,   /* a query sees its own chunk of the sequence up to itself */
    LAYER_NOTHING, /* no attention: a layer of experts or an MLP alone */
    LAYER_DELTA_NET,
    LAYER_KDA,
    LAYER_MAMBA,
    LAYER_LIGHTNING,
    LAYER_CONVOLUTION,
    LAYER_UNKNOWN,
    LAYER_KINDS,
};

/**
 * The kind of layer i, from layer_types or the key that this model has in its place. `alternate`:
 * the class's layers have a window in turn. A word that is not known is copied to `unknown`.
 */
enum layer_kind layer_kind(const struct config *c, long i, bool alternate, char unknown[64]);

/** Returns whether layer i rotates q and k, by the keys that switch rotation off for single
 * layers. */
bool layer_rotates(const struct config *c, long i);

/** Returns whether layer i has a sparse indexer of its own; others take the keys that the layer
 * before them has chosen (GLM-5.2's IndexShare). */
bool layer_indexes(const struct config *c, long i);

/** Tokens of the sliding window; 0: there is none, or it holds every sequence of the model. */
long config_window(const struct config *c);

#endif

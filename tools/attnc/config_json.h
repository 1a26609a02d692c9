/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a model's config.json. Models name the same number differently, keep it one or two maps
 * down, or leave it to their class's default (models.def).
 */
#ifndef TOOLS_ATTNC_CONFIG_JSON_H
#define TOOLS_ATTNC_CONFIG_JSON_H

#include "compiler/yaml.h"

enum { CONFIG_FAULT = 200 };

struct config {
    const struct attnc_yaml *yaml;
    const struct attnc_yaml_node *top;   /* the whole file */
    const struct attnc_yaml_node *model; /* the language model's map: top, or one inside it */
    const char *type;                    /* model_type of that map; "" where it has none */
    char *fault; /* CONFIG_FAULT bytes, or NULL: which number was fractional first */
};

/** Finds the language model's map. False where the document is no map. */
bool config_open(struct config *c, const struct attnc_yaml *y);

/** A child of a map; NULL where there is none, or it is null. */
const struct attnc_yaml_node *config_child(const struct config *c,
                                           const struct attnc_yaml_node *map, const char *key);

/**
 * A value of the model's map; NULL where neither the map nor the class's defaults have it. `keys`
 * are alternatives, separated by '|': the first that is there counts. A dot goes into a map:
 * "rope_parameters.rotary_dim".
 */
const struct attnc_yaml_node *config_find(const struct config *c, const char *keys);

/** The text of a value; of a list, that of its first element. */
const char *config_text(const struct config *c, const char *keys);

/** A value as an integer, 32.0 as well. 0 where it is absent; 0 and a fault where it is no number
 * or fractional. */
long config_number(const struct config *c, const char *keys);

double config_real(const struct config *c, const char *keys, double absent);
bool config_flag(const struct config *c, const char *keys, bool absent);

/** The text of element i of a list; NULL past its end. */
const char *config_element(const struct config *c, const struct attnc_yaml_node *list, long i);

/** Returns whether a list of numbers holds n. */
bool config_holds(const struct config *c, const struct attnc_yaml_node *list, long n);

#endif

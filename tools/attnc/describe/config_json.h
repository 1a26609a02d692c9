/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a model's config.json. Models name the same number differently, keep it one or two
 * maps down, or leave it to their class's default (models.def). Every setting that is read is
 * marked, so that config_unread.c can report the others.
 */
#ifndef TOOLS_ATTNC_CONFIG_JSON_H
#define TOOLS_ATTNC_CONFIG_JSON_H

#include "compiler/yaml.h"

enum { CONFIG_FAULT = 200, CONFIG_PATH = 160 };

/** One number or choice of a model, under any of its spellings. */
enum config_key {
#define KEY(name, kinds, spellings) CONFIG_##name,
#include "tools/attnc/describe/config_keys.def"
    CONFIG_KEYS,
};

struct config {
    const struct attnc_yaml *yaml;
    const struct attnc_yaml_node *top;   /* the whole file */
    const struct attnc_yaml_node *model; /* the language model's map: top, or one inside it */
    const char *type;                    /* model_type of that map; "" if it has none */
    char *fault;    /* CONFIG_FAULT bytes: the first value of a wrong kind; "" if there is none */
    bool *was_read; /* [yaml->count], by the node of the name; NULL: nothing is marked */
    struct config_found
        *found; /* [CONFIG_KEYS], so that a key is looked for once; NULL: each time */
};

/** Finds the language model's map. Returns false if the document is no map or memory is exhausted.
 * `fault` has CONFIG_FAULT bytes and outlives `c`. Call config_close() in either case. */
bool config_open(struct config *c, const struct attnc_yaml *y, char *fault);
/** Frees what the configuration has allocated. */
void config_close(struct config *c);

/** Returns a value of a map and marks it as read; NULL if it is absent or null. */
const struct attnc_yaml_node *config_child(const struct config *c,
                                           const struct attnc_yaml_node *map, const char *key);

/** Returns the value of a key in the model's map and marks it as read; NULL if it is absent or
 * null. A value of a wrong kind is reported, and counts as absent. */
const struct attnc_yaml_node *config_find(const struct config *c, enum config_key key);

/** True if the file has a null at a path, as "rope_parameters.full_attention"; marks it as read. */
bool config_is_null_at(const struct config *c, const char *path);

/** True if the file itself has the key; a class's default does not count. */
bool config_given(const struct config *c, enum config_key key);

/** Returns the spelling of a key that the file has, else the key's first one. */
const char *config_name(const struct config *c, enum config_key key, char name[CONFIG_PATH]);

/** Returns the text of a scalar in the file, else the default of the model's class; NULL if there
 * is neither. */
const char *config_text(const struct config *c, enum config_key key);

/** Returns a value as an integer; 32.0 counts as one. Returns 0 if it is absent, and 0 with a fault
 * if it is no whole number. */
long config_number(const struct config *c, enum config_key key);

/** Returns the number of a key, or `absent` if the configuration does not have it. */
double config_real(const struct config *c, enum config_key key, double absent);

/** Returns a value as a choice: true, or a number other than 0; `absent` if there is none. */
bool config_flag(const struct config *c, enum config_key key, bool absent);

/** Returns a number that a model has for all layers, or as a list with one for each of `layers`; -1
 * if it is absent, or null for this layer. A list that is too short is a fault. */
double config_of_layer(const struct config *c, enum config_key key, long layer, long layers);

/** Like config_of_layer(), for a whole number; -1 and a fault if it is not one. */
long config_whole_of_layer(const struct config *c, enum config_key key, long layer, long layers);

/** Returns the text of element i of a list; NULL past its end, or if it is null. */
const char *config_element(const struct config *c, const struct attnc_yaml_node *list, long i);

/** Returns element i of a list; NULL past its end. */
const struct attnc_yaml_node *config_item(const struct config *c,
                                          const struct attnc_yaml_node *list, long i);

/** Returns the number of a list's elements. */
long config_length(const struct config *c, const struct attnc_yaml_node *list);

/** True if a list of numbers holds n. */
bool config_holds(const struct config *c, const struct attnc_yaml_node *list, long n);

/** Parses a scalar's number. Returns false if it is not a finite number. */
bool config_parse(const struct config *c, const struct attnc_yaml_node *n, double *number);

/** Records the first fault. */
void config_fault(const struct config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** True if a value is of one of `kinds`, letters: n number, b true or false, t text, l list, m
 * map. */
bool config_is(const struct config *c, const struct attnc_yaml_node *n, const char *kinds);

/** True if files of the model's type have this setting and its class does not read it. */
bool config_is_ignored(const struct config *c, const char *path);

/** True if a node is null, written without quotes. */
bool config_is_null(const struct config *c, const struct attnc_yaml_node *n);

/** Returns the value that an absent setting has in the model's class; NULL if it is not known. */
const char *config_default(const struct config *c, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a model's config.json. Models name the same setting differently, put it one or two
 * maps down, or leave it to the default of their class (models.def). Each setting that is read is
 * marked, so that config_unread.c can report the others.
 */
#ifndef TOOLS_ATTNC_CONFIG_JSON_H
#define TOOLS_ATTNC_CONFIG_JSON_H

#include "compiler/yaml.h"

/** Bytes of a message about a fault, and of a setting's path. */
enum { CONFIG_FAULT = 200, CONFIG_PATH = 160 };

/** A setting of models, under all its spellings (config_keys.def). */
enum config_key {
#define KEY(name, kinds, spellings) CONFIG_##name,
#include "tools/attnc/describe/config_keys.def"
    CONFIG_KEYS,
};

/** An open config.json. */
struct config {
    const struct attnc_yaml *yaml;
    const struct attnc_yaml_node *top;   /* map of the whole file */
    const struct attnc_yaml_node *model; /* map of the language model: `top`, or one inside it */
    const char *type;                    /* value of model_type in `model`; "": absent */
    /* Message about the first value of a wrong kind, CONFIG_FAULT bytes of the caller; "": none. */
    char *fault;
    /* True for the node of each name that was read, owned; NULL: nothing is marked. */
    bool *was_read;
    struct config_found
        *found; /* [CONFIG_KEYS], so that a key is looked for once; NULL: each time */
};

/** Opens a parsed config.json and finds the language model's map. `fault` has CONFIG_FAULT bytes
 * and must outlive `c`. Returns false if the file is no map or memory is exhausted. Call
 * config_close() in either case. */
bool config_open(struct config *c, const struct attnc_yaml *y, char *fault);
/** Frees what config_open() has allocated. */
void config_close(struct config *c);

/** Returns the value of `key` in a map and marks it as read. NULL if it is absent or null. */
const struct attnc_yaml_node *config_child(const struct config *c,
                                           const struct attnc_yaml_node *map, const char *key);

/** Returns the value of a key in the model's map and marks it as read. NULL if it is absent or
 * null; also, with a fault, if it is of a wrong kind. */
const struct attnc_yaml_node *config_find(const struct config *c, enum config_key key);

/** True if the model's map has a null at a path such as "rope_parameters.full_attention"; marks it
 * as read. */
bool config_is_null_at(const struct config *c, const char *path);

/** True if the file has the key. A class's default does not count. */
bool config_given(const struct config *c, enum config_key key);

/** Writes the spelling of a key that the file has, otherwise its first one, to `name`, and returns
 * it. For messages. */
const char *config_name(const struct config *c, enum config_key key, char name[CONFIG_PATH]);

/** Returns the text of a key's value in the file, otherwise the default of the model's class. NULL
 * if there is neither, or if the value is a list or a map. */
const char *config_text(const struct config *c, enum config_key key);

/** Returns a key's value as an integer, 32.0 included. Returns 0 if it is absent, and 0 with a
 * fault if it is no integer. */
long config_number(const struct config *c, enum config_key key);

/** Returns a key's value as a number; `absent` if neither the file nor the class has it. */
double config_real(const struct config *c, enum config_key key, double absent);

/** Returns a key's value as a choice: true, or a number other than 0. `absent` if neither the file
 * nor the class has it. */
bool config_flag(const struct config *c, enum config_key key, bool absent);

/** Returns the number that a key has for layer `layer` of `layers`: its only number, or the layer's
 * element of its list. -1 if it is absent, or null for this layer. A list that is too short is a
 * fault. */
double config_of_layer(const struct config *c, enum config_key key, long layer, long layers);

/** Returns the integer that a key has for layer `layer` of `layers`, like config_of_layer(). -1
 * with a fault if it is no integer. */
long config_whole_of_layer(const struct config *c, enum config_key key, long layer, long layers);

/** Returns the text of element `i` of a list, counted from 0. NULL past the end, or if the element
 * is null or no scalar. */
const char *config_element(const struct config *c, const struct attnc_yaml_node *list, long i);

/** Returns element `i` of a list, counted from 0; NULL past its end. */
const struct attnc_yaml_node *config_item(const struct config *c,
                                          const struct attnc_yaml_node *list, long i);

/** Returns the number of a list's elements; 0 if `list` is NULL or no list. */
long config_length(const struct config *c, const struct attnc_yaml_node *list);

/** True if a list has the number `n`. */
bool config_holds(const struct config *c, const struct attnc_yaml_node *list, long n);

/** Parses a scalar without quotes as a number. Returns false if it is not a finite one. */
bool config_parse(const struct config *c, const struct attnc_yaml_node *n, double *number);

/** Stores a message as c->fault, unless an earlier fault is stored. */
void config_fault(const struct config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** True if a value is null or of one of `kinds`, letters: n number, b true or false, t text, l
 * list, m map. */
bool config_is(const struct config *c, const struct attnc_yaml_node *n, const char *kinds);

/** True if the class of the model's type does not read the setting at `path`, though its files have
 * it. */
bool config_is_ignored(const struct config *c, const char *path);

/** True if a value is null, written without quotes. */
bool config_is_null(const struct config *c, const struct attnc_yaml_node *n);

/** Returns the value that the model's class gives to the setting `name` if the file lacks it; NULL
 * if none is known. */
const char *config_default(const struct config *c, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/config_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Doubles hold every whole number up to it. */
#define LARGEST 0x1p53

static const struct {
    const char *type, *key, *value;
} defaults[] = {
#define DEFAULT_VALUE(type, key, value) {type, key, value},
#include "tools/attnc/models.def"
};

/* The maps in which models that see or hear keep their language model. */
static const char *const inner_maps[] = {
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config.text_config",
};

static const char *scalar(const struct config *c, const struct attnc_yaml_node *n)
{
    if (n && n->kind == ATTNC_YAML_LIST && n->first)
        n = attnc_yaml_node(c->yaml, n->first);
    return n && n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(c->yaml, n) : NULL;
}

const struct attnc_yaml_node *config_child(const struct config *c,
                                           const struct attnc_yaml_node *map, const char *key)
{
    for (uint32_t id = map && map->kind == ATTNC_YAML_MAP ? map->first : 0; id;) {
        const struct attnc_yaml_node *name = attnc_yaml_node(c->yaml, id);
        const uint32_t value = c->yaml->nodes[id].next;
        if (name->kind == ATTNC_YAML_SCALAR && strcmp(attnc_yaml_text(c->yaml, name), key) == 0) {
            const struct attnc_yaml_node *n = attnc_yaml_node(c->yaml, value);
            const char *text = n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(c->yaml, n) : "";
            return n->plain && strcasecmp(text, "null") == 0 ? NULL : n;
        }
        id = c->yaml->nodes[value].next;
    }
    return NULL;
}

/* "a.b" from a map. */
static const struct attnc_yaml_node *walk(const struct config *c, const struct attnc_yaml_node *map,
                                          const char *path, size_t length)
{
    while (map && length) {
        char key[64];
        size_t part = strcspn(path, ".|");
        part = part < length ? part : length;
        snprintf(key, sizeof(key), "%.*s", (int)part, path);
        map = config_child(c, map, key);
        part += part < length;
        path += part;
        length -= part;
    }
    return map;
}

bool config_open(struct config *c, const struct attnc_yaml *y)
{
    *c = (struct config){.yaml = y, .type = ""};
    if (y->count < 2)
        return false;
    c->top = c->model = attnc_yaml_node(y, 1);
    if (c->top->kind != ATTNC_YAML_MAP)
        return false;
    for (size_t i = 0; i < sizeof(inner_maps) / sizeof(inner_maps[0]); i++) {
        const struct attnc_yaml_node *inner = walk(c, c->top, inner_maps[i], strlen(inner_maps[i]));
        if (inner && inner->kind == ATTNC_YAML_MAP) {
            c->model = inner;
            break;
        }
    }
    const char *type = scalar(c, config_child(c, c->model, "model_type"));
    c->type = type ? type : "";
    return true;
}

/* Moves `keys` to the alternative that the map has. */
static const struct attnc_yaml_node *find(const struct config *c, const char **keys)
{
    for (const char *at = *keys; *at;) {
        const size_t length = strcspn(at, "|");
        const struct attnc_yaml_node *n = walk(c, c->model, at, length);
        if (n) {
            *keys = at;
            return n;
        }
        at += length + (at[length] == '|');
    }
    return NULL;
}

const struct attnc_yaml_node *config_find(const struct config *c, const char *keys)
{
    return find(c, &keys);
}

static const char *default_value(const struct config *c, const char *keys)
{
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (strcmp(defaults[i].type, c->type) != 0)
            continue;
        const size_t length = strlen(defaults[i].key);
        for (const char *at = keys; *at;) {
            const size_t part = strcspn(at, "|");
            if (part == length && strncmp(at, defaults[i].key, length) == 0)
                return defaults[i].value;
            at += part + (at[part] == '|');
        }
    }
    return NULL;
}

const char *config_text(const struct config *c, const char *keys)
{
    const char *text = scalar(c, config_find(c, keys));
    return text ? text : default_value(c, keys);
}

long config_number(const struct config *c, const char *keys)
{
    const char *text = config_text(c, keys);
    if (!text)
        return 0;
    char *end;
    const double number = strtod(text, &end);
    if (end == text)
        return 0;
    if (!*end && fabs(number) <= LARGEST && number == floor(number))
        return (long)number;
    find(c, &keys);
    if (c->fault && !c->fault[0])
        snprintf(c->fault, CONFIG_FAULT, "%.*s is '%.40s', no whole number",
                 (int)strcspn(keys, "|"), keys, text);
    return 0;
}

double config_real(const struct config *c, const char *keys, double absent)
{
    const char *text = config_text(c, keys);
    return text ? strtod(text, NULL) : absent;
}

bool config_flag(const struct config *c, const char *keys, bool absent)
{
    const char *text = config_text(c, keys);
    return text ? strcasecmp(text, "true") == 0 : absent;
}

const char *config_element(const struct config *c, const struct attnc_yaml_node *list, long i)
{
    uint32_t id = list && list->kind == ATTNC_YAML_LIST ? list->first : 0;
    while (id && i--)
        id = c->yaml->nodes[id].next;
    return id ? scalar(c, attnc_yaml_node(c->yaml, id)) : NULL;
}

bool config_holds(const struct config *c, const struct attnc_yaml_node *list, long n)
{
    const char *text;
    for (long i = 0; (text = config_element(c, list, i)) != NULL; i++) {
        if (strtol(text, NULL, 10) == n)
            return true;
    }
    return false;
}

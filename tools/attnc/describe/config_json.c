/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/config_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The largest integer below which a double holds every integer. */
#define LARGEST 0x1p53

/* The rows of KEY in config_keys.def, by enum config_key. */
static const struct {
    const char *kinds, *spellings;
} keys[] = {
#define KEY(name, kinds, spellings) {kinds, spellings},
#include "tools/attnc/describe/config_keys.def"
};

/* The value of a key in the file, cached. */
struct config_found {
    const struct attnc_yaml_node *value;
    const char *name;     /* spelling that was found, or the first one; NULL: not searched yet */
    const char *fallback; /* default of the model's class; NULL: none */
};

/* Defaults of settings that files of a model type may lack. */
static const struct {
    const char *type, *key, *value;
} defaults[] = {
#define DEFAULT_VALUE(type, key, value) {type, key, value},
#include "tools/attnc/describe/models.def"
};

/* Settings that files of a model type have and its class does not read. */
static const struct {
    const char *type, *setting;
} ignored[] = {
#define IGNORES(type, setting) {type, setting},
#include "tools/attnc/describe/models.def"
};

/* Paths of the map that has the language model's settings, in models with an image or audio
 * part. */
static const char *const inner_maps[] = {
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config.text_config",
};

void config_fault(const struct config *c, const char *format, ...)
{
    va_list args;
    if (c->fault[0])
        return;
    va_start(args, format);
    vsnprintf(c->fault, CONFIG_FAULT, format, args);
    va_end(args);
}

bool config_is_null(const struct config *c, const struct attnc_yaml_node *n)
{
    return n->kind == ATTNC_YAML_SCALAR && n->plain &&
           strcasecmp(attnc_yaml_text(c->yaml, n), "null") == 0;
}

/* True if `text` is "true" or "false", in any case. */
static bool is_flag(const char *text)
{
    return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

bool config_parse(const struct config *c, const struct attnc_yaml_node *n, double *number)
{
    if (n->kind != ATTNC_YAML_SCALAR || !n->plain)
        return false;
    const char *text = attnc_yaml_text(c->yaml, n);
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number);
}

bool config_is(const struct config *c, const struct attnc_yaml_node *n, const char *kinds)
{
    double number;
    if (n->kind == ATTNC_YAML_LIST)
        return strchr(kinds, 'l') != NULL;
    if (n->kind != ATTNC_YAML_SCALAR)
        return n->kind == ATTNC_YAML_MAP && strchr(kinds, 'm');
    if (config_is_null(c, n))
        return true;
    if (!n->plain) /* a quoted "true" is not accepted where true or false is allowed */
        return strchr(kinds, 't') && !(strchr(kinds, 'b') && is_flag(attnc_yaml_text(c->yaml, n)));
    if (is_flag(attnc_yaml_text(c->yaml, n)))
        return strchr(kinds, 'b') != NULL;
    return strpbrk(kinds, "nb") && config_parse(c, n, &number);
}

/* Returns the node id of the name `key` in a map; 0 if the map lacks it. */
static uint32_t name_in(const struct config *c, const struct attnc_yaml_node *map, const char *key)
{
    for (uint32_t id = map && map->kind == ATTNC_YAML_MAP ? map->first : 0; id;) {
        const struct attnc_yaml_node *name = attnc_yaml_node(c->yaml, id);
        if (name->kind == ATTNC_YAML_SCALAR && strcmp(attnc_yaml_text(c->yaml, name), key) == 0)
            return id;
        id = c->yaml->nodes[c->yaml->nodes[id].next].next;
    }
    return 0;
}

const struct attnc_yaml_node *config_child(const struct config *c,
                                           const struct attnc_yaml_node *map, const char *key)
{
    const uint32_t id = name_in(c, map, key);
    if (!id)
        return NULL;
    const struct attnc_yaml_node *n = attnc_yaml_node(c->yaml, c->yaml->nodes[id].next);
    if (c->was_read)
        c->was_read[id] = true;
    return config_is_null(c, n) ? NULL : n;
}

/* Returns the value at the path "a.b", `length` characters, below `map`; NULL if there is none.
 * Marks the names of the path as read, but a value on the way only if it is a map or null. */
static const struct attnc_yaml_node *walk(const struct config *c, const struct attnc_yaml_node *map,
                                          const char *path, size_t length)
{
    const struct config quiet = {.yaml = c->yaml};
    while (map && length) {
        char key[64];
        size_t part = strcspn(path, ".|");
        part = part < length ? part : length;
        snprintf(key, sizeof(key), "%.*s", (int)part, path);
        const struct attnc_yaml_node *n = config_child(&quiet, map, key);
        if (part == length || !n || n->kind == ATTNC_YAML_MAP)
            config_child(c, map, key);
        map = n;
        part += part < length;
        path += part;
        length -= part;
    }
    return map;
}

bool config_is_null_at(const struct config *c, const char *path)
{
    const struct config quiet = {.yaml = c->yaml};
    const char *dot = strrchr(path, '.');
    const size_t length = dot ? (size_t)(dot - path) : 0;
    const struct attnc_yaml_node *map = length ? walk(&quiet, c->model, path, length) : c->model;
    const char *name = dot ? dot + 1 : path;
    return name_in(c, map, name) && !config_child(c, map, name);
}

bool config_open(struct config *c, const struct attnc_yaml *y, char *fault)
{
    *c = (struct config){.yaml = y, .type = "", .fault = fault};
    fault[0] = '\0';
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
    c->was_read = calloc(y->count, sizeof(*c->was_read));
    const struct attnc_yaml_node *type = config_child(c, c->model, "model_type");
    if (type && type->kind == ATTNC_YAML_SCALAR)
        c->type = attnc_yaml_text(y, type);
    c->found = calloc(CONFIG_KEYS, sizeof(*c->found));
    return c->was_read && c->found;
}

void config_close(struct config *c)
{
    free(c->was_read);
    free(c->found);
    c->was_read = NULL;
    c->found = NULL;
}

/* True if two values are equal. Numbers may be written differently. */
static bool same_value(const struct config *c, const struct attnc_yaml_node *a,
                       const struct attnc_yaml_node *b)
{
    double x, y;
    if (a->kind != b->kind || a->kind == ATTNC_YAML_ALIAS)
        return false;
    if (a->kind != ATTNC_YAML_SCALAR) {
        uint32_t i = a->first, j = b->first;
        while (i && j && same_value(c, &c->yaml->nodes[i], &c->yaml->nodes[j])) {
            i = c->yaml->nodes[i].next;
            j = c->yaml->nodes[j].next;
        }
        return !i && !j;
    }
    if (config_parse(c, a, &x) && config_parse(c, b, &y))
        return x == y;
    return a->plain == b->plain &&
           strcmp(attnc_yaml_text(c->yaml, a), attnc_yaml_text(c->yaml, b)) == 0;
}

bool config_is_ignored(const struct config *c, const char *path)
{
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        if (strcmp(ignored[i].type, c->type) == 0 && strcmp(ignored[i].setting, path) == 0)
            return true;
    }
    return false;
}

/* Returns the next spelling in a list that '|' separates; the end of the text after the last. */
static const char *next_spelling(const char *at)
{
    const size_t length = strcspn(at, "|");
    return at + length + (at[length] == '|');
}

/* Returns the value of the first spelling of a key that the model's map has, and sets *name to that
 * spelling. Spellings with the same value or null are marked as read too. */
static const struct attnc_yaml_node *search(const struct config *c, enum config_key key,
                                            const char **name)
{
    const struct config quiet = {.yaml = c->yaml};
    const struct attnc_yaml_node *found = NULL;
    for (const char *at = keys[key].spellings; *at; at = next_spelling(at)) {
        char path[CONFIG_PATH];
        const size_t length = strcspn(at, "|");
        snprintf(path, sizeof(path), "%.*s", (int)length, at);
        if (config_is_ignored(c, path))
            continue;
        const struct attnc_yaml_node *n = walk(&quiet, c->model, at, length);
        if (n && !found)
            *name = at;
        if (!n || !found || same_value(c, n, found))
            walk(c, c->model, at, length);
        found = found ? found : n;
    }
    return found;
}

const char *config_default(const struct config *c, const char *name)
{
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (strcmp(defaults[i].type, c->type) == 0 && strcmp(defaults[i].key, name) == 0)
            return defaults[i].value;
    }
    return NULL;
}

/* Returns the default that the model's class has for a key; NULL if none is known. */
static const char *search_default(const struct config *c, enum config_key key)
{
    for (const char *at = keys[key].spellings; *at; at = next_spelling(at)) {
        char name[CONFIG_PATH];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "|"), at);
        const char *value = config_default(c, name);
        if (value)
            return value;
    }
    return NULL;
}

/* Returns the value of a key in the file, NULL if it is absent, and sets *name to its spelling.
 * Searches once and caches the result. */
static const struct attnc_yaml_node *find(const struct config *c, enum config_key key,
                                          const char **name)
{
    *name = keys[key].spellings;
    if (!c->found)
        return search(c, key, name);
    struct config_found *const f = &c->found[key];
    if (!f->name) {
        f->name = keys[key].spellings;
        f->value = search(c, key, &f->name);
        f->fallback = search_default(c, key);
    }
    *name = f->name;
    return f->value;
}

/* Returns a description of the kinds of value that a key has, for messages. */
static const char *kind_text(const char *kinds)
{
    switch (kinds[0]) {
    case 'b': return "true or false";
    case 't': return "text";
    case 'l': return "a list";
    case 'm': return "a map";
    default: return strchr(kinds, 'l') ? "a number, or a list of them" : "a whole number";
    }
}

/* Returns a value's text for messages; "[...]" for a list, "{...}" for a map. */
static const char *show(const struct config *c, const struct attnc_yaml_node *n)
{
    return n->kind == ATTNC_YAML_LIST  ? "[...]"
           : n->kind == ATTNC_YAML_MAP ? "{...}"
                                       : attnc_yaml_text(c->yaml, n);
}

const struct attnc_yaml_node *config_find(const struct config *c, enum config_key key)
{
    const char *name;
    const struct attnc_yaml_node *n = find(c, key, &name);
    if (!n || config_is(c, n, keys[key].kinds))
        return n;
    const bool quoted = n->kind == ATTNC_YAML_SCALAR && !n->plain;
    config_fault(c, "%.*s is %s%.40s%s, expected %s", (int)strcspn(name, "|"), name,
                 quoted ? "\"" : "", show(c, n), quoted ? "\"" : "", kind_text(keys[key].kinds));
    return NULL;
}

bool config_given(const struct config *c, enum config_key key)
{
    return config_find(c, key) != NULL;
}

const char *config_name(const struct config *c, enum config_key key, char name[CONFIG_PATH])
{
    const char *at;
    find(c, key, &at);
    snprintf(name, CONFIG_PATH, "%.*s", (int)strcspn(at, "|"), at);
    return name;
}

const char *config_text(const struct config *c, enum config_key key)
{
    const struct attnc_yaml_node *n = config_find(c, key);
    if (n && n->kind == ATTNC_YAML_SCALAR)
        return attnc_yaml_text(c->yaml, n);
    return n ? NULL : c->found ? c->found[key].fallback : search_default(c, key);
}

/* True if a number is an integer of at most LARGEST. */
static bool is_whole(double number) { return fabs(number) <= LARGEST && number == floor(number); }

long config_number(const struct config *c, enum config_key key)
{
    char name[CONFIG_PATH];
    const char *text = config_text(c, key);
    const double number = text ? strtod(text, NULL) : 0;
    if (is_whole(number))
        return (long)number;
    config_fault(c, "%s is '%.40s', no whole number", config_name(c, key, name), text);
    return 0;
}

double config_real(const struct config *c, enum config_key key, double absent)
{
    const char *text = config_text(c, key);
    return text ? strtod(text, NULL) : absent;
}

bool config_flag(const struct config *c, enum config_key key, bool absent)
{
    const char *text = config_text(c, key);
    if (!text)
        return absent;
    return is_flag(text) ? strcasecmp(text, "true") == 0 : strtod(text, NULL) != 0;
}

double config_of_layer(const struct config *c, enum config_key key, long layer, long layers)
{
    char name[CONFIG_PATH];
    double number;
    const struct attnc_yaml_node *n = config_find(c, key);
    if (!n || n->kind != ATTNC_YAML_LIST) {
        const char *text = config_text(c, key);
        return text ? strtod(text, NULL) : -1;
    }
    const long length = config_length(c, n);
    if (length < layers) {
        config_fault(c, "%s has %ld entries, the model %ld layers", config_name(c, key, name),
                     length, layers);
        return -1;
    }
    const struct attnc_yaml_node *item = config_item(c, n, layer);
    if (config_is_null(c, item))
        return -1;
    if (config_parse(c, item, &number))
        return number;
    config_fault(c, "%s: entry %ld is %.40s, expected a number", config_name(c, key, name), layer,
                 show(c, item));
    return -1;
}

long config_whole_of_layer(const struct config *c, enum config_key key, long layer, long layers)
{
    char name[CONFIG_PATH];
    const double number = config_of_layer(c, key, layer, layers);
    if (is_whole(number))
        return (long)number;
    const char *text = config_text(c, key); /* NULL if the value is a list */
    config_fault(c, "%s is '%.40s', no whole number", config_name(c, key, name),
                 text ? text : "[...]");
    return -1;
}

const struct attnc_yaml_node *config_item(const struct config *c,
                                          const struct attnc_yaml_node *list, long i)
{
    uint32_t id = list && list->kind == ATTNC_YAML_LIST ? list->first : 0;
    while (id && i--)
        id = c->yaml->nodes[id].next;
    return id ? attnc_yaml_node(c->yaml, id) : NULL;
}

const char *config_element(const struct config *c, const struct attnc_yaml_node *list, long i)
{
    const struct attnc_yaml_node *n = config_item(c, list, i);
    return n && n->kind == ATTNC_YAML_SCALAR && !config_is_null(c, n) ? attnc_yaml_text(c->yaml, n)
                                                                      : NULL;
}

long config_length(const struct config *c, const struct attnc_yaml_node *list)
{
    long length = 0;
    for (uint32_t id = list && list->kind == ATTNC_YAML_LIST ? list->first : 0; id;
         id = c->yaml->nodes[id].next)
        length++;
    return length;
}

bool config_holds(const struct config *c, const struct attnc_yaml_node *list, long n)
{
    double number;
    for (uint32_t id = list && list->kind == ATTNC_YAML_LIST ? list->first : 0; id;
         id = c->yaml->nodes[id].next) {
        if (config_parse(c, attnc_yaml_node(c->yaml, id), &number) && number == (double)n)
            return true;
    }
    return false;
}

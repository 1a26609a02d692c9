/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/config_unread.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes of a value in a message. */
enum { MAX_SHOWN = 60 };

/* Words of the names of settings that concern attention. */
static const char *const words[] = {
#define CONCERNS(word) word,
#include "tools/attnc/describe/config_keys.def"
};

/* Settings on which no kernel depends, with the kinds of value for which that holds. */
static const struct {
    const char *pattern, *kinds;
} neutrals[] = {
#define NEUTRAL(pattern, kinds) {pattern, kinds},
#include "tools/attnc/describe/config_keys.def"
};

/* Settings on which no kernel depends in models with layers of a certain kind. */
static const struct {
    const char *pattern, *kinds;
    enum layer_kind layers;
} owned[] = {
#define OWNED(pattern, kinds, layers) {pattern, kinds, LAYER_##layers},
#include "tools/attnc/describe/config_keys.def"
};

/* A walk over all settings, which reports the ones that were not read, or lists settings. */
struct walk {
    const struct config *c;
    /* By enum layer_kind: true if the model has such layers. */
    const bool *kinds;
    config_report *report;
    void *context;
    /* Receives the list; NULL: settings are reported. */
    FILE *out;
    /* List settings without effect, not the ones that were read. Idle: the walk is inside a map
     * without effect. */
    bool neutral, idle;
    /* Text before the next listed setting: "", then ", ". */
    const char *comma;
};

bool config_concerns(const char *name)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(name, words[i]))
            return true;
    }
    return false;
}

/* True if a path matches a pattern. '*' is any text without a dot. */
static bool matches(const char *pattern, const char *path)
{
    for (; *pattern; pattern++, path++) {
        if (*pattern == '*') {
            for (; !matches(pattern + 1, path); path++) {
                if (!*path || *path == '.')
                    return false;
            }
            return true;
        }
        if (*pattern != *path)
            return false;
    }
    return !*path;
}

/* Returns the kinds of value with which the setting at `path` changes no kernel; NULL if it may
 * change one with every value. */
static const char *neutral_kinds(const char *path)
{
    for (size_t i = 0; i < sizeof(neutrals) / sizeof(neutrals[0]); i++) {
        if (matches(neutrals[i].pattern, path))
            return neutrals[i].kinds;
    }
    return NULL;
}

/* Returns the kinds of value with which the setting changes no kernel, since it belongs to layers
 * that the model has. `layers` is by enum layer_kind. NULL if there is no such rule. */
static const char *owned_kinds(const bool layers[], const char *path)
{
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        if (layers[owned[i].layers] && matches(owned[i].pattern, path))
            return owned[i].kinds;
    }
    return NULL;
}

/* True if a value is null, false, an empty text, an empty list or an empty map. */
static bool is_empty(const struct config *c, const struct attnc_yaml_node *n)
{
    if (n->kind != ATTNC_YAML_SCALAR)
        return !n->first;
    if (!attnc_yaml_text(c->yaml, n)[0])
        return true;
    return n->plain &&
           (config_is_null(c, n) || strcasecmp(attnc_yaml_text(c->yaml, n), "false") == 0);
}

/* True if a scalar in the file equals the default of the model's class for `path`. */
static bool is_default(const struct config *c, const char *path, const struct attnc_yaml_node *n)
{
    const char *value = config_default(c, path);
    double number;
    if (!value || n->kind != ATTNC_YAML_SCALAR)
        return false;
    if (config_parse(c, n, &number))
        return number == strtod(value, NULL);
    return strcasecmp(value, attnc_yaml_text(c->yaml, n)) == 0;
}

/* Returns the node `id`. An alias is resolved only if it is of a scalar, since others may form a
 * cycle. */
static const struct attnc_yaml_node *node_of(const struct config *c, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(c->yaml, id);
    return n->kind == ATTNC_YAML_SCALAR ? n : &c->yaml->nodes[id];
}

/* True if any setting inside the list or map was read. */
static bool any_read(const struct config *c, const struct attnc_yaml_node *n)
{
    const bool holds = n->kind == ATTNC_YAML_LIST || n->kind == ATTNC_YAML_MAP;
    for (uint32_t id = holds ? n->first : 0; id; id = c->yaml->nodes[id].next) {
        if (c->was_read[id] || any_read(c, node_of(c, id)))
            return true;
    }
    return false;
}

/* Writes a value for a message to `text`: "4", "\"LLLG\"", "[1, 2, 3]", "{ 3 settings }". Texts and
 * lists are shortened if they are long, and then have "..." before their last character. `text` has
 * room for `size` bytes, at least 16. */
static void show(const struct config *c, const struct attnc_yaml_node *n, char *text, size_t size)
{
    size_t length = 0;
    if (n->kind == ATTNC_YAML_SCALAR) {
        const char *quote = n->plain ? "" : "\"";
        const char *value = attnc_yaml_text(c->yaml, n);
        if ((size_t)snprintf(text, size, "%s%s%s", quote, value, quote) >= size)
            snprintf(text + size - sizeof("...\""), sizeof("...\""), "...%s", quote);
    } else if (n->kind == ATTNC_YAML_ALIAS) {
        snprintf(text, size, "*");
    } else if (n->kind == ATTNC_YAML_MAP) {
        long count = 0;
        for (uint32_t id = n->first; id; id = c->yaml->nodes[id].next)
            count++;
        snprintf(text, size, "{ %ld settings }", count / 2);
    } else {
        length = (size_t)snprintf(text, size, "[");
        for (uint32_t id = n->first; id && length + 8 < size; id = c->yaml->nodes[id].next) {
            char item[24];
            show(c, node_of(c, id), item, sizeof(item));
            length += (size_t)snprintf(text + length, size - length, "%s%s", item,
                                       c->yaml->nodes[id].next ? ", " : "");
        }
        length = length < size - 6 ? length : size - 6;
        snprintf(text + length, size - length, length >= size - 8 ? "...]" : "]");
    }
    for (char *at = text; *at; at++)
        /* The text goes into a comment of the description. */
        *at = *at < ' ' || *at > '~' ? '?' : *at;
}

/* Reports the setting at `path` with its value and the sentence `fault`. */
static void say(const struct walk *w, const char *path, const struct attnc_yaml_node *n,
                const char *fault)
{
    char text[CONFIG_PATH + MAX_SHOWN + 80], value[MAX_SHOWN];
    show(w->c, n, value, sizeof(value));
    if (strstr(path, "[]"))
        snprintf(text, sizeof(text), "%s, of one block or more: %s", path, fault);
    else
        snprintf(text, sizeof(text), "%s: %s, %s", path, value, fault);
    w->report(w->context, text);
}

/* Returns the kinds of value with which the setting changes no kernel of this model; NULL if it may
 * change one. */
static const char *idle_kinds(const struct walk *w, const char *path)
{
    const char *kinds = neutral_kinds(path);
    kinds = kinds ? kinds : owned_kinds(w->kinds, path);
    return kinds || !config_is_ignored(w->c, path) ? kinds : "nbtl";
}

/* Reports a setting that was not read, unless it is empty, changes no kernel, or has its
 * default. */
static void check(const struct walk *w, const char *path, const struct attnc_yaml_node *n)
{
    const char *kinds = idle_kinds(w, path);
    if (is_empty(w->c, n) || (kinds && config_is(w->c, n, kinds)))
        return;
    if (kinds)
        say(w, path, n, "a value of a kind that attnc does not know there");
    else if (!is_default(w->c, path, n))
        say(w, path, n, "a setting that attnc does not know");
}

/* Lists the setting at `path`: with w->neutral if it was not read and has no effect, otherwise if
 * it was read. `concerns`: its name concerns attention, so that only an empty or default value has
 * no effect. */
static void list_one(struct walk *w, const char *path, const struct attnc_yaml_node *n, bool read,
                     bool concerns)
{
    char value[MAX_SHOWN];
    const bool idle = w->idle || idle_kinds(w, path) ||
                      (concerns && (is_empty(w->c, n) || is_default(w->c, path, n)));
    if (w->neutral ? read || !idle : !read)
        return;
    show(w->c, n, value, sizeof(value));
    fprintf(w->out, "%s%s %s", w->comma, path, value);
    w->comma = ", ";
}

static void walk_map(struct walk *w, const struct attnc_yaml_node *map, const char *prefix,
                     bool inherited);

/* Reports or lists the settings in a value, which may be a map or a list of maps. `read`: the
 * value's name was read. `concerns`: its name, or a name above it, concerns attention. */
static void walk_value(struct walk *w, const char *path, const struct attnc_yaml_node *n, bool read,
                       bool concerns)
{
    const struct config *const c = w->c;
    const char *kinds = neutral_kinds(path);
    if (n->kind == ATTNC_YAML_MAP) {
        const bool outside = w->idle;
        w->idle = w->idle || (kinds && strchr(kinds, 'm'));
        if (w->out || !w->idle)
            walk_map(w, n, path, concerns);
        w->idle = outside;
    } else if (n->kind == ATTNC_YAML_LIST && any_read(c, n)) {
        char inner[CONFIG_PATH + 4];
        snprintf(inner, sizeof(inner), "%s[]", path);
        for (uint32_t id = n->first; id && !w->out; id = c->yaml->nodes[id].next)
            walk_map(w, node_of(c, id), inner, concerns);
    } else if (w->out) {
        list_one(w, path, n, read, concerns);
    } else if (!read && concerns) {
        check(w, path, n);
    }
}

bool config_is_apart(const char *name)
{
    const size_t length = strlen(name);
    return length > 7 && strcmp(name + length - 7, "_config") == 0 && !config_concerns(name);
}

/* Reports or lists the settings of a map at the path `prefix`. `inherited`: a name above them
 * concerns attention. */
static void walk_map(struct walk *w, const struct attnc_yaml_node *map, const char *prefix,
                     bool inherited)
{
    const struct config *const c = w->c;
    for (uint32_t id = map->kind == ATTNC_YAML_MAP ? map->first : 0; id;) {
        const struct attnc_yaml_node *name = attnc_yaml_node(c->yaml, id);
        const uint32_t value = c->yaml->nodes[id].next;
        if (name->kind == ATTNC_YAML_SCALAR) {
            char path[CONFIG_PATH];
            const char *text = attnc_yaml_text(c->yaml, name);
            const struct attnc_yaml_node *n = node_of(c, value);
            /* Names of layers become "[]". */
            if (*prefix && strspn(text, "0123456789") == strlen(text))
                snprintf(path, sizeof(path), "%s[]", prefix);
            else
                snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", text);
            if (!(n->kind == ATTNC_YAML_MAP && config_is_apart(text)))
                walk_value(w, path, n, c->was_read[id], inherited || config_concerns(text));
        }
        id = c->yaml->nodes[value].next;
    }
}

void config_report_unread(const struct config *c, const bool kinds[LAYER_KINDS],
                          config_report *report, void *context)
{
    struct walk w = {.c = c, .kinds = kinds, .report = report, .context = context};
    walk_map(&w, c->model, "", false);
}

/* Lists the settings outside the language model's map that were read, such as the model_type of the
 * whole file. */
static void list_outside(struct walk *w)
{
    const struct config *const c = w->c;
    for (uint32_t id = c->top->first; id;) {
        const struct attnc_yaml_node *name = attnc_yaml_node(c->yaml, id);
        const uint32_t value = c->yaml->nodes[id].next;
        const struct attnc_yaml_node *n = node_of(c, value);
        if (name->kind == ATTNC_YAML_SCALAR && n->kind != ATTNC_YAML_MAP) {
            char path[CONFIG_PATH];
            snprintf(path, sizeof(path), "file.%s", attnc_yaml_text(c->yaml, name));
            list_one(w, path, n, c->was_read[id], false);
        }
        id = c->yaml->nodes[value].next;
    }
}

void config_list(const struct config *c, const bool kinds[LAYER_KINDS], bool neutral, FILE *out)
{
    struct walk w = {.c = c, .kinds = kinds, .out = out, .neutral = neutral, .comma = ""};
    walk_map(&w, c->model, "", false);
    if (c->top != c->model)
        list_outside(&w);
}

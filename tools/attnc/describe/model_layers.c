/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/model_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The method by which a source says the kind of a layer; model_layers.def describes each method. */
enum method {
    METHOD_WORDS,
    METHOD_CYCLE,
    METHOD_PAIRS,
    METHOD_LETTERS,
    METHOD_BITS,
    METHOD_HOLDS,
    METHOD_HOLDS_1,
    METHOD_LAST,
    METHOD_GROUP,
    METHOD_FIRST,
    METHOD_GLOBAL,
    METHOD_PERIOD,
    METHOD_PATTERN,
    METHOD_ALL,
};

/* As `miss` of a source: a window if the model has one, otherwise the linear kind of its class. */
enum { LAYER_REST = LAYER_KINDS };

/* The kinds of layers, by enum layer_kind. */
static const struct {
    enum layer_shape shape;
    const char *gap;
} kinds[] = {
#define LAYER_KIND(name, shape, gap) {SHAPE_##shape, gap},
#include "tools/attnc/describe/model_layers.def"
};

/* Words for kinds of layers. */
static const struct {
    const char *word;
    enum layer_kind kind;
} words[] = {
#define LAYER_WORD(word, name) {word, LAYER_##name},
#include "tools/attnc/describe/model_layers.def"
};

/* Settings that say the kinds of all layers. The first that a file has decides. */
static const struct {
    enum config_key key;
    enum method method;
    int hit, miss;
} sources[] = {
#define LAYER_SOURCE(key, method, hit, miss) \
    {CONFIG_##key, METHOD_##method, LAYER_##hit, LAYER_##miss},
#include "tools/attnc/describe/model_layers.def"
};

/* Settings that change the kind of layers with full attention. */
static const struct {
    enum config_key key;
    enum method method;
    enum layer_kind kind;
} overlays[] = {
#define LAYER_OVERLAY(key, method, name) {CONFIG_##key, METHOD_##method, LAYER_##name},
#include "tools/attnc/describe/model_layers.def"
};

enum layer_shape layer_shape(enum layer_kind kind) { return kinds[kind].shape; }
const char *layer_gap(enum layer_kind kind) { return kinds[kind].gap; }

long layer_window(const struct config *c, long i, long layers)
{
    /* ModernBERT's window, which counts the keys of both sides. */
    const long whole = config_number(c, CONFIG_WINDOW_WHOLE);
    const long given = config_whole_of_layer(c, CONFIG_WINDOW, i, layers);
    const long window = given < 0 && whole > 0 ? whole / 2 : given;
    const long longest = config_number(c, CONFIG_LONGEST);
    const bool on = config_flag(c, CONFIG_WINDOW_ON, true);
    /* Marks it as read, since it has no effect without a window. */
    config_number(c, CONFIG_WINDOW_FROM);
    if (!on || window <= 0 || (longest > 0 && window >= longest))
        return 0;
    return window;
}

/* Returns the kind of layer that a word names. Copies an unknown word to `unknown`, CONFIG_PATH
 * bytes. */
static enum layer_kind by_word(const char *word, char *unknown)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(words[i].word, word) == 0)
            return words[i].kind;
    }
    snprintf(unknown, CONFIG_PATH, "%s", word);
    return LAYER_UNKNOWN;
}

/* Returns the kind of a letter in NVIDIA's pattern: M Mamba, * attention, - MLP, E experts. Copies
 * an unknown letter to `unknown`. */
static enum layer_kind by_letter(char letter, char *unknown)
{
    switch (letter) {
    case 'M': return LAYER_MAMBA;
    case '*': return LAYER_FULL;
    case '-':
    case 'E': return LAYER_NOTHING;
    default: snprintf(unknown, CONFIG_PATH, "%c", letter); return LAYER_UNKNOWN;
    }
}

/* True if layer `i` has full attention by a pattern: letters such as "LLLG", which repeat, or the
 * distance between such layers. */
static bool pattern_hits(const struct config *c, const char *pattern, long i)
{
    if (strspn(pattern, "LG") == strlen(pattern))
        return pattern[(size_t)i % strlen(pattern)] == 'G';
    const struct attnc_yaml_node *n = config_find(c, CONFIG_KIND_PATTERN);
    char *end;
    long every = strtol(pattern, &end, 10);
    every = (n && !n->plain) || *end ? 0 : every;
    if (every <= 0)
        config_fault(c,
                     "sliding_window_pattern is '%.40s', expected a number above 0, or letters "
                     "L and G",
                     pattern);
    return every > 0 && (i + 1) % every == 0;
}

/* True if layer `i` is one of every n layers, counted from layer `offset`; n is the value of
 * `key`. */
static bool every_hits(const struct config *c, enum config_key key, long i, long offset)
{
    const long every = config_number(c, key);
    return every > 0 && i % every == offset % every;
}

/* True if `key` selects layer `i` by this method. */
static bool hits(const struct config *c, const struct layer_rules *r, enum config_key key,
                 enum method method, long i)
{
    const bool counts = method == METHOD_LAST || method == METHOD_GROUP || method == METHOD_GLOBAL;
    const long every = counts ? config_number(c, key) : 0;
    switch (method) {
    case METHOD_BITS: return config_of_layer(c, key, i, r->layers) != 0;
    case METHOD_HOLDS: return config_holds(c, config_find(c, key), i);
    case METHOD_HOLDS_1: return config_holds(c, config_find(c, key), i + 1);
    case METHOD_LAST: return every_hits(c, key, i, every - 1);
    case METHOD_GROUP:
        return every > 0 && (i % every == every - 1 || i >= r->layers / every * every);
    case METHOD_FIRST: return every_hits(c, key, i, 0);
    case METHOD_GLOBAL: return every_hits(c, key, i, r->global_first ? 0 : every - 1);
    case METHOD_PERIOD: return every_hits(c, key, i, config_number(c, CONFIG_KIND_OFFSET));
    case METHOD_PATTERN: return pattern_hits(c, config_text(c, key), i);
    default: return true;
    }
}

/* Returns the kind of layer `i` by the list of words in setting `key`. With `repeats` the list is
 * repeated. Copies an unknown word to `unknown`. */
static enum layer_kind by_list(const struct config *c, const struct layer_rules *r,
                               enum config_key key, bool repeats, long i, char *unknown)
{
    char name[CONFIG_PATH];
    const struct attnc_yaml_node *list = config_find(c, key);
    const long length = config_length(c, list);
    const char *word = length ? config_element(c, list, repeats ? i % length : i) : NULL;
    if (word)
        return by_word(word, unknown);
    if (i < length)
        config_fault(c, "%s: entry %ld is no word", config_name(c, key, name), i);
    else
        config_fault(c, "%s has %ld entries, the model %ld layers", config_name(c, key, name),
                     length, r->layers);
    return LAYER_UNKNOWN;
}

/* Returns the kind of layer `i` from attention_types of GPT-Neo, such as [[["global", "local"],
 * 12]]: words, and how often these repeat. */
static enum layer_kind by_pairs(const struct config *c, const struct layer_rules *r, long i,
                                char *unknown)
{
    const struct attnc_yaml_node *list = config_find(c, CONFIG_KIND_PAIRS), *pair;
    for (long p = 0, first = 0; (pair = config_item(c, list, p)) != NULL; p++) {
        const struct attnc_yaml_node *group = config_item(c, pair, 0);
        const char *times = config_element(c, pair, 1);
        const long length = config_length(c, group);
        const long last = first + length * (times ? atol(times) : 0);
        const char *word = i < last ? config_element(c, group, (i - first) % length) : NULL;
        if (word)
            return by_word(word, unknown);
        first = last;
    }
    config_fault(c, "attention_types has no word for layer %ld of %ld", i, r->layers);
    return LAYER_UNKNOWN;
}

/* Returns the kind of layer `i` by source number `s`. Copies an unknown word to `unknown`. */
static enum layer_kind by_source(const struct config *c, const struct layer_rules *r, size_t s,
                                 long i, char *unknown)
{
    const enum config_key key = sources[s].key;
    if (sources[s].method == METHOD_WORDS || sources[s].method == METHOD_CYCLE)
        return by_list(c, r, key, sources[s].method == METHOD_CYCLE, i, unknown);
    if (sources[s].method == METHOD_PAIRS)
        return by_pairs(c, r, i, unknown);
    if (sources[s].method == METHOD_LETTERS) {
        const char *letters = config_text(c, key);
        if ((size_t)i < strlen(letters))
            return by_letter(letters[i], unknown);
        config_fault(c, "hybrid_override_pattern has %zu letters, the model %ld layers",
                     strlen(letters), r->layers);
        return LAYER_UNKNOWN;
    }
    const int kind = hits(c, r, key, sources[s].method, i) ? sources[s].hit : sources[s].miss;
    if (kind == LAYER_REST)
        return layer_window(c, i, r->layers) ? LAYER_WINDOW : LAYER_LINEAR;
    return (enum layer_kind)kind;
}

/* True if the file has source number `s`. A value that switches it off, such as an interval of 0 or
 * null, counts as absent. */
static bool has_source(const struct config *c, size_t s)
{
    const char *text = config_text(c, sources[s].key);
    if (sources[s].method <= METHOD_PAIRS || sources[s].method == METHOD_BITS ||
        sources[s].method == METHOD_HOLDS || sources[s].method == METHOD_HOLDS_1 ||
        sources[s].method == METHOD_ALL)
        return config_find(c, sources[s].key) != NULL;
    return text && strcmp(text, "0") != 0;
}

/* Returns the kind of a layer that has attention and Mamba side by side. `linear` is the Mamba kind
 * of the class. */
static enum layer_kind beside_attention(int linear)
{
    return linear == LAYER_MAMBA2   ? LAYER_HYBRID_MAMBA2
           : linear == LAYER_MAMBA1 ? LAYER_HYBRID_MAMBA1
                                    : LAYER_HYBRID;
}

/* Returns the kind of layer `i` after rules of the model's class, for names that mean several
 * kinds. */
static enum layer_kind settle(const struct config *c, const struct layer_rules *r,
                              enum layer_kind kind, long i)
{
    const struct attnc_yaml_node *windows = config_find(c, CONFIG_WINDOW);
    const bool listed = windows && windows->kind == ATTNC_YAML_LIST;
    const bool window = layer_window(c, i, r->layers) > 0;
    if (kind == LAYER_LINEAR ||
        (kind == LAYER_MAMBA && (r->linear == LAYER_MAMBA1 || r->linear == LAYER_MAMBA2)))
        kind = r->linear;
    if (kind == LAYER_HYBRID)
        kind = beside_attention(r->linear);
    if (kind == LAYER_MAMBA1 && r->memory && i >= r->layers / 2 + 2)
        kind = LAYER_MEMORY;
    if (kind == LAYER_FULL && window && (r->local || listed))
        kind = LAYER_WINDOW;
    /* A window as long as every sequence masks nothing. */
    if (kind == LAYER_WINDOW && !window)
        kind = LAYER_FULL;
    return kind;
}

/* Returns the kind of layer `i` if no source says it: all layers have the window, or all from a
 * certain layer on, or every other layer. */
static enum layer_kind by_window(const struct config *c, const struct layer_rules *r, long i)
{
    if (layer_window(c, i, r->layers) == 0)
        return LAYER_FULL;
    if (r->alternate)
        return i % 2 == 0 ? LAYER_WINDOW : LAYER_FULL;
    return i >= config_number(c, CONFIG_WINDOW_FROM) || !config_given(c, CONFIG_WINDOW_ON)
               ? LAYER_WINDOW
               : LAYER_FULL;
}

/* Returns the kind of layer `i` after the settings that change single layers. */
static enum layer_kind overlay(const struct config *c, const struct layer_rules *r,
                               enum layer_kind kind, long i)
{
    const bool sparse = config_flag(c, CONFIG_SPARSE_ON, true);
    config_number(c, CONFIG_SPARSE_BUDGET); /* fails if the number of keys is no integer */
    for (size_t s = 0; s < sizeof(overlays) / sizeof(overlays[0]); s++) {
        const bool hit =
            config_find(c, overlays[s].key) && hits(c, r, overlays[s].key, overlays[s].method, i);
        if (hit && kind == LAYER_FULL && (sparse || overlays[s].kind != LAYER_BLOCKS))
            kind = overlays[s].kind;
    }
    return kind;
}

enum layer_kind layer_kind(const struct config *c, const struct layer_rules *r, long i,
                           char *disagrees, char *unknown)
{
    enum layer_kind kind = LAYER_KINDS;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        if (!has_source(c, s))
            continue;
        const enum layer_kind other = settle(c, r, by_source(c, r, s, i, unknown), i);
        if (kind == LAYER_KINDS)
            kind = other;
        else if (kind != other && config_given(c, sources[s].key))
            config_name(c, sources[s].key, disagrees);
    }
    if (kind == LAYER_KINDS && config_number(c, CONFIG_CHUNK) > 0)
        kind = layer_rotates(c, i, r->layers) ? LAYER_CHUNK : LAYER_FULL;
    if (kind == LAYER_KINDS)
        kind = by_window(c, r, i);
    kind = overlay(c, r, kind, i);
    if (r->beside && kind <= LAYER_WINDOW)
        kind = kind == LAYER_WINDOW ? LAYER_HYBRID_WINDOW : beside_attention(r->linear);
    return kind;
}

bool layer_rotates(const struct config *c, long i, long layers)
{
    const char *position = config_text(c, CONFIG_POSITION);
    if (position && strcmp(position, "nope") == 0)
        return false;
    const double theta = config_of_layer(c, CONFIG_LAYER_THETA, i, layers);
    if (theta == 0)
        return false;
    const struct attnc_yaml_node *list = config_find(c, CONFIG_NO_ROPE_LAYERS);
    /* Despite its name, the list says which layers rotate. */
    if (list && config_length(c, list) > 0)
        return config_of_layer(c, CONFIG_NO_ROPE_LAYERS, i, layers) != 0;
    const long interval = config_number(c, CONFIG_NO_ROPE_EVERY);
    return interval <= 0 || (i + 1) % interval != 0;
}

/* True if layer `i` has an indexer by index_topk_freq: max(i - offset + 1, 0) is a multiple of
 * it. */
static bool indexes_by_number(const struct config *c, long i)
{
    const long every = config_number(c, CONFIG_INDEX_EVERY);
    const bool given = config_given(c, CONFIG_INDEX_OFFSET);
    const long offset = given ? config_number(c, CONFIG_INDEX_OFFSET) : 2;
    const long from = offset > 1 ? offset - 1 : 0;
    return every <= 1 || i < from || (i - from) % every == 0;
}

bool layer_indexes(const struct config *c, long i, char *disagrees)
{
    const char *word = config_element(c, config_find(c, CONFIG_INDEX_TYPES), i);
    const char *pattern = config_text(c, CONFIG_INDEX_PATTERN);
    const bool number = indexes_by_number(c, i);
    const bool letter = pattern ? (size_t)i >= strlen(pattern) || pattern[i] != 'S' : number;
    const bool indexes = word ? strcmp(word, "shared") != 0 : letter;
    if (pattern && strspn(pattern, "FS") != strlen(pattern))
        config_fault(c, "index_topk_pattern is '%.40s', expected letters F and S", pattern);
    if (pattern && letter != indexes)
        config_name(c, CONFIG_INDEX_PATTERN, disagrees);
    return indexes;
}

void layers_text(const bool set[], long layers, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (long i = 0; i < layers; i++) {
        const long first = i;
        if (!set[i])
            continue;
        while (i + 1 < layers && set[i + 1])
            i++;
        if (length + 32 > size) {
            snprintf(text + length, size - length, ", ...");
            return;
        }
        length += (size_t)snprintf(text + length, size - length, i > first ? "%s%ld-%ld" : "%s%ld",
                                   length ? ", " : "", first, i);
    }
}

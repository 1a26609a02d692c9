/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests changes of settings in a model's config.json. Each setting of each model of models.txt is
 * renamed, dropped, or given another value or another kind of value. Then the comments of the
 * description change, a gap is named, or the file is refused. No change is silent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/read_file.h"
#include "compiler/yaml.h"
#include "tests/unit_test.h"
#include "tools/attnc/describe/config_unread.h"
#include "tools/attnc/describe/describe_model.h"

enum { LEAST_MUTATIONS = 10000, MAX_SETTINGS = 512 };

enum mutation {
    RENAME,
    DROP,
    LIST,     /* the value in a list of one */
    MAP,      /* a map in its place */
    TEXT,     /* a word in its place */
    QUOTE,    /* a number or a choice in quotes */
    FRACTION, /* a number and a half */
    OTHER,    /* another value of the same kind: number, choice or length of a list */
    MUTATIONS,
};

static const char *const names[] = {"rename", "drop",  "list",     "map",
                                    "text",   "quote", "fraction", "other"};

/* A setting in the map of the language model. `name` and `value` are ids of nodes in the YAML
 * document. */
struct setting {
    char path[CONFIG_PATH]; /* path as it is written in the lists of settings */
    uint32_t name, value;
    bool concerns; /* its name, or its map's name, is of attention */
};

/* The result of reading a config.json. */
struct outcome {
    bool refused;
    unsigned gaps;
    char *text; /* comments without the settings, or the sentence of a refusal */
    char *read, *neutral;
};

static char *models; /* models.txt */
static size_t faults;

static void free_outcome(struct outcome *o)
{
    free(o->text);
    free(o->read);
    free(o->neutral);
}

static struct outcome read_outcome(const char *bytes, size_t size)
{
    static const struct deployment one = {.ranks = {1}, .rank_count = 1, .kv_dtype = "same"};
    struct outcome o = {.refused = true};
    struct attnc_diag d = {.file = "config.json", .text = bytes, .size = size};
    struct attnc_yaml y;
    struct model m = {0};
    char why[MODEL_WHY];
    size_t length;
    if (!attnc_yaml_parse(&y, bytes, size, &d))
        fail_msg("the mutated file is no JSON: %.*s", (int)size, bytes);
    FILE *out = open_memstream(&o.text, &length);
    assert_non_null(out);
    if (model_read(&m, &y, why)) {
        o.refused = m.group_count == 0;
        o.gaps = m.gaps.count;
        print_model(&m, &one, out);
        assert_true(m.read && m.neutral);
        o.read = strdup(m.read);
        o.neutral = strdup(m.neutral);
    } else {
        assert_true(why[0]);
        fputs(why, out);
    }
    fclose(out);
    model_free(&m);
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    return o;
}

/* Writes a document with one setting changed. */
struct writer {
    const struct attnc_yaml *y;
    const struct setting *setting;
    enum mutation mutation;
    FILE *out;
};

static void write_node(const struct writer *w, uint32_t id);

static bool is_flag(const char *text)
{
    return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

/* Writes another value of the same kind. */
static void write_other(const struct writer *w, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(w->y, id);
    const char *text = n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(w->y, n) : "";
    if (n->kind != ATTNC_YAML_SCALAR)
        fputs(n->kind == ATTNC_YAML_LIST ? "[]" : "{}", w->out);
    else if (!n->plain)
        fprintf(w->out, "\"%sx\"", text);
    else if (is_flag(text))
        fputs(text[0] == 't' ? "false" : "true", w->out);
    else
        fprintf(w->out, "%.17g", 2 * strtod(text, NULL) + 8);
}

static void write_mutated(const struct writer *w, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(w->y, id);
    switch (w->mutation) {
    case LIST:
        fputc('[', w->out);
        write_node(w, id);
        fputc(']', w->out);
        break;
    case MAP: fputs("{\"a\": 1}", w->out); break;
    case TEXT: fputs("\"dream\"", w->out); break;
    case QUOTE: fprintf(w->out, "\"%s\"", attnc_yaml_text(w->y, n)); break;
    case FRACTION: fprintf(w->out, "%.17g", strtod(attnc_yaml_text(w->y, n), NULL) + 0.5); break;
    case OTHER: write_other(w, id); break;
    default: write_node(w, id);
    }
}

static void write_map(const struct writer *w, const struct attnc_yaml_node *n)
{
    const char *comma = "";
    for (uint32_t id = n->first; id;) {
        const uint32_t value = w->y->nodes[id].next;
        const bool here = w->setting && w->setting->name == id;
        const char *text = attnc_yaml_text(w->y, attnc_yaml_node(w->y, id));
        if (!here || w->mutation != DROP) {
            fprintf(w->out, "%s\"%s%s\": ", comma, text, here && w->mutation == RENAME ? "_x" : "");
            comma = ", ";
        }
        if (!here)
            write_node(w, value);
        else if (w->mutation != DROP)
            write_mutated(w, value);
        id = w->y->nodes[value].next;
    }
}

static void write_node(const struct writer *w, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(w->y, id);
    if (n->kind == ATTNC_YAML_SCALAR) {
        const char *quote = n->plain ? "" : "\"";
        fprintf(w->out, "%s%s%s", quote, attnc_yaml_text(w->y, n), quote);
        return;
    }
    fputc(n->kind == ATTNC_YAML_LIST ? '[' : '{', w->out);
    if (n->kind == ATTNC_YAML_MAP)
        write_map(w, n);
    for (uint32_t i = n->kind == ATTNC_YAML_LIST ? n->first : 0; i; i = w->y->nodes[i].next) {
        write_node(w, i);
        fputs(w->y->nodes[i].next ? ", " : "", w->out);
    }
    fputc(n->kind == ATTNC_YAML_LIST ? ']' : '}', w->out);
}

static struct outcome mutate(const struct attnc_yaml *y, const struct setting *s,
                             enum mutation kind)
{
    char *text = NULL;
    size_t size;
    struct writer w = {.y = y, .setting = s, .mutation = kind};
    w.out = open_memstream(&text, &size);
    assert_non_null(w.out);
    write_node(&w, 1);
    fclose(w.out);
    struct outcome o = read_outcome(text, size);
    free(text);
    return o;
}

static size_t list_settings(const struct attnc_yaml *y, const struct attnc_yaml_node *map,
                            const struct setting *inside, struct setting out[], size_t count)
{
    for (uint32_t id = map->kind == ATTNC_YAML_MAP ? map->first : 0; id;) {
        const char *name = attnc_yaml_text(y, attnc_yaml_node(y, id));
        const uint32_t value = y->nodes[id].next;
        const struct attnc_yaml_node *n = attnc_yaml_node(y, value);
        if (!(n->kind == ATTNC_YAML_MAP && config_is_apart(name))) {
            assert_true(count < MAX_SETTINGS);
            struct setting *s = &out[count++];
            *s = (struct setting){.name = id, .value = value};
            s->concerns = (inside && inside->concerns) || config_concerns(name);
            snprintf(s->path, sizeof(s->path), "%.70s%s%.80s", inside ? inside->path : "",
                     inside ? "." : "", name);
            count = list_settings(y, n, s, out, count);
        }
        id = y->nodes[value].next;
    }
    return count;
}

/* True if a value is not null, not false and not empty. */
static bool is_said(const struct attnc_yaml *y, uint32_t value)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(y, value);
    const char *text = n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(y, n) : "";
    if (n->kind != ATTNC_YAML_SCALAR)
        return n->first != 0;
    return text[0] && (!n->plain || (strcmp(text, "null") && strcmp(text, "false")));
}

/* True if a mutation applies: quotes need a number or a choice; null has no other value. */
static bool applies(const struct attnc_yaml *y, const struct setting *s, enum mutation kind)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(y, s->value);
    const bool scalar = n->kind == ATTNC_YAML_SCALAR;
    const bool null = scalar && n->plain && strcmp(attnc_yaml_text(y, n), "null") == 0;
    if (kind == QUOTE)
        return scalar && n->plain && !null;
    if (kind == FRACTION)
        return scalar && n->plain && !null && !is_flag(attnc_yaml_text(y, n));
    if (kind == OTHER)
        return !null && (scalar || n->first);
    return kind != TEXT || !scalar || n->plain;
}

static bool is_listed(const char *list, const char *path)
{
    const size_t length = strlen(path);
    for (const char *at = list; at && (at = strstr(at, path)) != NULL; at += length) {
        if (at[length] == ' ' && (at == list || at[-1] == ' '))
            return true;
    }
    return false;
}

/* True for settings that may be fractions, or that have no effect in some models. */
static bool takes_fractions(const char *path)
{
    static const char *const names[] = {
        "factor",   "mscale_all_dim",       "partial_rotary_factor", "llama_4_scaling_beta",
        "clip_qkv", "attention_value_scale"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], dot ? dot + 1 : path) == 0)
            return true;
    }
    return false;
}

static bool same_text(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/*
 * Returns what is wrong with a mutation's outcome; NULL: nothing. A setting that was read and
 * concerns attention cannot be renamed, or become a value of another kind, without a gap or another
 * description. Other mutations show in the lists of settings at least.
 */
static const char *judge(const struct attnc_yaml *y, const struct setting *s, enum mutation kind,
                         const struct outcome *plain, const struct outcome *o)
{
    const bool wrong_kind = kind == MAP || kind == TEXT || kind == QUOTE ||
                            (kind == FRACTION && !takes_fractions(s->path));
    if (o->refused || o->gaps > plain->gaps || !same_text(o->text, plain->text))
        return NULL;
    if (same_text(o->read, plain->read) && same_text(o->neutral, plain->neutral))
        return "is silent";
    if (!s->concerns || !is_listed(plain->read, s->path))
        return NULL;
    if (kind == RENAME && is_said(y, s->value))
        return "changes nothing and is no gap";
    return wrong_kind ? "is taken for a value" : NULL;
}

static void check(const char *model, const struct attnc_yaml *y, const struct setting *s,
                  enum mutation kind, const struct outcome *plain)
{
    struct outcome o = mutate(y, s, kind);
    const char *fault = judge(y, s, kind, plain, &o);
    if (fault)
        print_error("%s: %s of %s %s\n", model, names[kind], s->path, fault);
    faults += fault != NULL;
    free_outcome(&o);
}

static size_t check_model(const char *model, const char *config)
{
    struct attnc_diag d = {.file = "config.json", .text = config, .size = strlen(config)};
    struct attnc_yaml y;
    struct setting settings[MAX_SETTINGS];
    struct config c;
    char fault[CONFIG_FAULT];
    size_t done = 0;
    assert_true(attnc_yaml_parse(&y, config, strlen(config), &d));
    assert_true(config_open(&c, &y, fault));
    const size_t count = list_settings(&y, c.model, NULL, settings, 0);
    struct outcome plain = read_outcome(config, strlen(config));
    for (size_t i = 0; i < count; i++) {
        if (!settings[i].concerns && !is_listed(plain.read, settings[i].path))
            continue;
        for (int kind = 0; kind < MUTATIONS; kind++) {
            if (!applies(&y, &settings[i], (enum mutation)kind))
                continue;
            check(model, &y, &settings[i], (enum mutation)kind, &plain);
            done++;
        }
    }
    free_outcome(&plain);
    config_close(&c);
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    return done;
}

TEST(no_change_of_a_setting_is_silent)
{
    size_t done = 0;
    char name[80] = "";
    for (char *line = strtok(models, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "model ", 6) == 0)
            snprintf(name, sizeof(name), "%s", line + 6);
        else if (strncmp(line, "  config ", 9) == 0)
            done += check_model(name, line + 9);
    }
    print_message("%zu mutations\n", done);
    assert_int_equal(faults, 0);
    assert_true(done >= LEAST_MUTATIONS);
}

int main(int argc, char **argv)
{
    size_t size;
    if (argc != 2 || !attnc_read_file(argv[1], ATTNC_MAX_BYTES, &models, &size))
        return 1;
    const int failed = run_unit_tests();
    free(models);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hip_rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A rule. A key that the line lacks is NULL and matches everything. */
struct rule {
    char *text; /* text of the line, into which the other members point */
    const char *check, *kernel, *pc, *source;
    struct rule *next;
};

struct rules {
    struct rule *first;
};

void rules_destroy(struct rules *rules)
{
    if (!rules)
        return;
    while (rules->first) {
        struct rule *rule = rules->first;
        rules->first = rule->next;
        free(rule->text);
        free(rule);
    }
    free(rules);
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Returns the next word "key=value" of *rest, and moves *rest past it. NULL if there is none. */
static char *next_word(char **rest)
{
    char *word = *rest;

    while (is_blank(*word))
        word++;
    const bool last = strncmp(word, "source=", 7) == 0;
    char *end = last ? word + strlen(word) : word + strcspn(word, " \t");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* Sets the keys of a rule from its text. Returns the first word that is no valid key; NULL if all
 * are valid. */
static const char *parse_rule(struct rule *rule)
{
    char *rest = rule->text, *word;

    while ((word = next_word(&rest))) {
        const struct {
            const char *key;
            const char **value;
        } keys[] = {
            {"check=", &rule->check},
            {"kernel=", &rule->kernel},
            {"pc=", &rule->pc},
            {"source=", &rule->source},
        };
        bool known = false;
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !known; i++) {
            const size_t length = strlen(keys[i].key);
            known = strncmp(word, keys[i].key, length) == 0 && word[length];
            if (known)
                *keys[i].value = word + length;
        }
        if (!known)
            return word;
    }
    return NULL;
}

/* Returns the rule of a line. On failure NULL; *wrong is then the wrong word, or NULL without
 * memory. */
static struct rule *make_rule(const char *line, const char **wrong)
{
    struct rule *rule = calloc(1, sizeof(*rule));

    *wrong = NULL;
    if (rule)
        rule->text = strdup(line);
    if (rule && rule->text)
        *wrong = parse_rule(rule);
    return rule;
}

/* Removes blanks and line ends from the end of a line. */
static void strip(char *line)
{
    size_t length = strlen(line);

    while (length &&
           (line[length - 1] == '\n' || line[length - 1] == '\r' || is_blank(line[length - 1])))
        line[--length] = '\0';
}

/* Appends the rules of a file. On failure false, with a sentence in `why`. */
static bool read_lines(FILE *file, const char *path, struct rules *rules, char *why, size_t size)
{
    struct rule **end = &rules->first;
    char line[1000];

    for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
        const char *wrong;
        strip(line);
        if (line[strspn(line, " \t")] == '\0' || line[strspn(line, " \t")] == '#')
            continue;
        struct rule *rule = make_rule(line, &wrong);
        if (!rule || !rule->text) {
            free(rule);
            snprintf(why, size, "out of memory");
            return false;
        }
        *end = rule;
        end = &rule->next;
        if (!wrong)
            continue;
        snprintf(why, size, "%s:%u: \"%.60s\" is none of check=, kernel=, pc=, source=", path,
                 number, wrong);
        return false;
    }
    return true;
}

struct rules *rules_read(const char *path, char *why, size_t why_size)
{
    FILE *file = fopen(path, "r");
    struct rules *rules = file ? calloc(1, sizeof(*rules)) : NULL;

    if (!rules) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
    } else if (!read_lines(file, path, rules, why, why_size)) {
        rules_destroy(rules);
        rules = NULL;
    }
    if (file)
        fclose(file);
    return rules;
}

/* True if the pattern fits one of the place's source lines. */
static bool matches_source(const char *pattern, const struct finding_place *place)
{
    for (unsigned i = 0; i < place->nsource; i++)
        if (fnmatch(pattern, place->source[i].text, 0) == 0)
            return true;
    return false;
}

bool rules_match(const struct rules *rules, const struct finding_place *place)
{
    char pc[40];

    if (!rules)
        return false;
    snprintf(pc, sizeof(pc), "entry%+" PRId64, place->offset);
    for (const struct rule *r = rules->first; r; r = r->next)
        if ((!r->check || strcmp(r->check, place->check) == 0) &&
            (!r->kernel || fnmatch(r->kernel, place->kernel, 0) == 0) &&
            (!r->pc || strcmp(r->pc, pc) == 0) && (!r->source || matches_source(r->source, place)))
            return true;
    return false;
}

/* Writes a name as a pattern that matches only this name. */
static void write_literal(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (strchr("*?[\\", *text))
            fputc('\\', file);
        fputc(*text, file);
    }
}

void rules_write(FILE *file, const struct finding_place *place)
{
    fprintf(file, "check=%s kernel=", place->check);
    write_literal(file, place->kernel);
    fprintf(file, " pc=entry%+" PRId64, place->offset);
    if (place->nsource) {
        fprintf(file, " source=");
        write_literal(file, place->source[0].text);
    }
    fputc('\n', file);
}

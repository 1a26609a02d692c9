/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the texts of options. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The forms of an option's value. */
enum parser { PARSE_NUMBER, PARSE_TARGETS, PARSE_CHECKS, PARSE_SWITCH, PARSE_TEXT };

enum { TARGET_BITS = 4 }; /* bits per GPU in struct options.targets */

/* A row of the table of options: its key, the byte offset of its member in struct options, its form
 * and range. */
struct option {
    const char *key;
    size_t field;
    enum parser parser;
    uint64_t smallest, largest;
    bool fixed;
    const char *help;
};

static const struct option table[] = {
#define OPTION(key, field, parser, smallest, largest, fixed, help) \
    {#key, offsetof(struct options, field), parser, smallest, largest, fixed, help},
#include "options.def"
};

#define OPTIONS (sizeof(table) / sizeof(*table))

/* ten times the instructions of a wave in the largest known attention kernels */
#define DEFAULT_BUDGET UINT64_C(100000000)

struct options options_default(void)
{
    return (struct options){
        .targets = PART_mi300x + 1,
        .devices = 1,
        .checks = CHECK_DEFAULT,
        .budget = DEFAULT_BUDGET,
        .halt = CHECK_HALTS,
        .hip = 5,
        .latency = 1,
        .fail_error = 2,
        .summary = 1,
    };
}

/* Reads a number. False if the text is none. */
static bool parse_number(const char *text, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && *end == 0;
}

/* Parses a list of parts. *value has TARGET_BITS bits for each, the first in the lowest bits: 1 +
 * index in gfx_parts. */
static bool parse_targets(const char *text, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += TARGET_BITS) {
        size_t length = strcspn(text, "+");
        const struct gfx_part *part = gfx_part_find(text, length);
        if (!part)
            return false;
        *value |= (uint64_t)(part - gfx_parts + 1) << shift;
        if (text[length] == 0)
            return true;
        text += length + 1;
    }
    return false;
}

const struct gfx_part *options_part(const struct options *options, unsigned ordinal)
{
    uint64_t targets = options->targets;

    while (ordinal-- > 0 && targets >> TARGET_BITS)
        targets >>= TARGET_BITS;
    return &gfx_parts[(targets & ((1u << TARGET_BITS) - 1)) - 1];
}

/* Reads "on" or "off". False if the text is neither. */
static bool parse_switch(const char *text, uint64_t *value)
{
    *value = strcmp(text, "on") == 0;
    return *value || strcmp(text, "off") == 0;
}

/* Reads a list of checks as a mask. False if a name is unknown. */
static bool parse_checks(const char *text, uint64_t *value)
{
    static const struct {
        const char *name;
        uint64_t bit;
    } names[] = {
        {"memory", CHECK_MEMORY},   {"align", CHECK_ALIGN},     {"uninit", CHECK_UNINIT},
        {"wait", CHECK_WAIT},       {"hazard", CHECK_HAZARD},   {"race", CHECK_RACE},
        {"barrier", CHECK_BARRIER}, {"diverge", CHECK_DIVERGE}, {"strict", CHECK_STRICT},
        {"stale", CHECK_STALE},     {"fence", CHECK_FENCE},
    };

    if (parse_switch(text, value)) {
        *value = *value ? CHECK_ALL : 0;
        return true;
    }
    *value = 0;
    while (true) {
        size_t length = strcspn(text, "+");
        uint64_t bit = 0;
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (strlen(names[i].name) == length && memcmp(names[i].name, text, length) == 0)
                bit = names[i].bit;
        if (!bit)
            return false;
        *value |= bit;
        if (text[length] == 0)
            return true;
        text += length + 1;
    }
}

/* Reads the value of an option. False if it is invalid. */
static bool parse_value(const struct option *option, const char *text, uint64_t *value)
{
    switch (option->parser) {
    case PARSE_NUMBER:
        return parse_number(text, value) && *value >= option->smallest && *value <= option->largest;
    case PARSE_TARGETS: return parse_targets(text, value);
    case PARSE_CHECKS: return parse_checks(text, value);
    case PARSE_SWITCH: return parse_switch(text, value);
    case PARSE_TEXT: return strlen(text) < OPTION_TEXT;
    }
    return false;
}

/* Returns the option with the key. NULL: none. */
static const struct option *find_option(const char *key)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

/* Writes the keys of all options. */
static void list_keys(char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < OPTIONS && used < size; i++) {
        int n = snprintf(text + used, size - used, "%s%s", i ? ", " : "", table[i].key);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Sets the option of a text "KEY=VALUE". False with a reason if it is invalid. */
static bool apply(struct options *options, char *setting, bool frozen, char *why, size_t why_size)
{
    char *value = strchr(setting, '=');
    uint64_t number;

    if (value)
        *value++ = 0;
    const struct option *option = find_option(setting);
    if (!option || !value) {
        char keys[300] = "";
        list_keys(keys, sizeof(keys));
        snprintf(why, why_size, "option \"%.60s\" %s; the keys are %s", setting,
                 option ? "has no value" : "is unknown", keys);
        return false;
    }
    if (!parse_value(option, value, &number)) {
        snprintf(why, why_size, "option %s does not take \"%.60s\": %s", option->key, value,
                 option->help);
        return false;
    }
    if (option->fixed && frozen) {
        snprintf(why, why_size, "option %s cannot change after the first HIP call", option->key);
        return false;
    }
    if (option->parser == PARSE_TEXT)
        strcpy((char *)options + option->field, value);
    else
        memcpy((char *)options + option->field, &number, sizeof(number));
    return true;
}

bool options_parse(struct options *options, const char *text, bool frozen, char *why,
                   size_t why_size)
{
    struct options changed = *options;
    char *copy = strdup(text);
    char *rest = copy;
    char *setting;
    bool ok = copy != NULL;

    if (!ok)
        snprintf(why, why_size, "out of memory");
    while (ok && (setting = strsep(&rest, ",")))
        if (*setting)
            ok = apply(&changed, setting, frozen, why, why_size);
    free(copy);
    if (ok)
        *options = changed;
    return ok;
}

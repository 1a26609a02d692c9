/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tuning_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/tgt.h"
#include "templates/template.h"

/* True if field `f` is part of the dispatch key of the variant's op. */
static bool has_field(const struct att_variant *v, int f)
{
    return (v->op->takes >> f & 1) && att_fields[f].role == ATT_ROLE_KEY;
}

/* True if the variant's field `f` has its default. */
static bool is_at_default(const struct att_variant *v, int f)
{
    const struct att_field_info *const info = &att_fields[f];
    if (info->kind == ATT_KIND_FILE)
        return !att_get_file(v, f);
    if (info->required)
        return false;
    return att_get(v, f) == (info->follows ? att_get(v, info->like) : info->dflt);
}

void attnc_key_text(const struct att_variant *v, char text[ATT_TEXT_MAX])
{
    size_t at = (size_t)snprintf(text, ATT_TEXT_MAX, "%s %s", v->target, v->op->name);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        char value[ATT_NAME_MAX];
        if (!has_field(v, f) || is_at_default(v, f))
            continue;
        att_format_value(v, f, value, sizeof(value));
        if (at < ATT_TEXT_MAX)
            at +=
                (size_t)snprintf(text + at, ATT_TEXT_MAX - at, " %s=%s", att_fields[f].name, value);
    }
}

/* Sets *value to the index of the field's enum value called `text`. Returns false if there is
 * none. */
static bool parse_enum(const struct att_field_info *info, const char *text, int *value)
{
    *value = 0;
    while (*value < info->value_count && strcmp(info->values[*value].name, text))
        ++*value;
    return *value < info->value_count;
}

/* Sets *value to the number in `text`; returns false if it is no number within the field's
 * bounds. */
static bool parse_int(const struct att_field_info *info, const char *text, int *value)
{
    char *end;
    if (info->zero && !strcmp(text, info->zero)) {
        *value = 0;
        return true;
    }
    const long number = strtol(text, &end, 10);
    *value = (int)number;
    return end != text && !*end && number >= info->min && number <= info->max;
}

/* Sets *value to 1 for "true" and 0 for "false"; returns false for other texts. */
static bool parse_flag(const char *text, int *value)
{
    *value = !strcmp(text, "true");
    return *value || !strcmp(text, "false");
}

/* Sets field `f` to the value `text` of a key. Returns false if the field has no such value. */
static bool set_value(struct att_variant *v, int f, const char *text)
{
    const struct att_field_info *const info = &att_fields[f];
    int value = 0;
    if (info->kind == ATT_KIND_FILE) {
        att_set_file(v, f, strcmp(text, "none") ? text : NULL);
        return true;
    }
    const bool good = info->kind == ATT_KIND_ENUM  ? parse_enum(info, text, &value)
                      : info->kind == ATT_KIND_INT ? parse_int(info, text, &value)
                                                   : parse_flag(text, &value);
    if (good)
        att_set(v, f, value);
    return good;
}

/* Returns the field (enum att_field) called `name` in the dispatch key of the variant's op, or
 * ATT_FIELD_COUNT if there is none. */
static int find_field(const struct att_variant *v, const char *name)
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (has_field(v, f) && !strcmp(att_fields[f].name, name))
            return f;
    }
    return ATT_FIELD_COUNT;
}

/* Reads one field of a key, such as "gqa=8", into `v`; `word` is cut at its '='. Returns false with
 * a message in `why` on an error. */
static bool read_word(struct att_variant *v, char *word, char why[ATTNC_KEY_WHY])
{
    char *const value = strchr(word, '=');
    if (value)
        *value = '\0';
    const int f = find_field(v, word);
    if (!value) {
        snprintf(why, ATTNC_KEY_WHY, "'%.40s' is not FIELD=VALUE", word);
    } else if (!strcmp(word, "tile")) {
        snprintf(why, ATTNC_KEY_WHY, "a key has no tile but auto");
        return !strcmp(value + 1, "auto");
    } else if (f == ATT_FIELD_COUNT) {
        snprintf(why, ATTNC_KEY_WHY, "%s has no field '%.40s'", v->op->name, word);
    } else if (v->loc[f].line) {
        snprintf(why, ATTNC_KEY_WHY, "%s is given twice", word);
    } else if (!set_value(v, f, value + 1)) {
        snprintf(why, ATTNC_KEY_WHY, "%s has no value '%.40s'", word, value + 1);
    } else {
        v->loc[f].line = 1; /* the value counts as given, so that att_variant_resolve() keeps it */
        return true;
    }
    return false;
}

/* True if a key has all fields that its op requires; else writes a message to `why`. */
static bool has_required(const struct att_variant *v, char why[ATTNC_KEY_WHY])
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!has_field(v, f) || !att_fields[f].required || v->loc[f].line)
            continue;
        snprintf(why, ATTNC_KEY_WHY, "%s needs %s", v->op->name, att_fields[f].name);
        return false;
    }
    return true;
}

const struct att_template *attnc_find_op(const char *name)
{
    const struct att_template *const *t = att_templates;
    while (*t && name && strcmp((*t)->name, name))
        t++;
    return name ? *t : NULL;
}

bool attnc_key_variant(const char *key, char copy[ATT_TEXT_MAX], struct att_variant *v,
                       char why[ATTNC_KEY_WHY])
{
    char *rest = copy;
    if (strlen(key) >= ATT_TEXT_MAX) {
        snprintf(why, ATTNC_KEY_WHY, "longer than any key");
        return false;
    }
    memcpy(copy, key, strlen(key) + 1);
    const char *const target_name = strtok_r(rest, " ", &rest);
    const char *const op_name = strtok_r(NULL, " ", &rest);
    const struct tgt *const target = target_name ? tgt_find(target_name) : NULL;
    const struct att_template *const op = attnc_find_op(op_name);
    if (!target || !op) {
        const char *const name = target ? op_name : target_name;
        snprintf(why, ATTNC_KEY_WHY, "there is no %s '%.40s'", target ? "op" : "target",
                 name ? name : "");
        return false;
    }
    att_variant_init(v, op, target->machine.name);
    for (char *word; (word = strtok_r(NULL, " ", &rest));) {
        if (!read_word(v, word, why))
            return false;
    }
    if (!has_required(v, why))
        return false;
    att_variant_resolve(v);
    return true;
}

bool attnc_key_normalise(const char *key, char text[ATT_TEXT_MAX], char why[ATTNC_KEY_WHY])
{
    char copy[ATT_TEXT_MAX];
    struct att_variant v;
    if (!attnc_key_variant(key, copy, &v, why))
        return false;
    attnc_key_text(&v, text);
    return true;
}

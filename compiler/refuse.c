/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/refuse.h"

#include <stdio.h>
#include <string.h>

/* Numbers that are tried instead of a wrong one: some template takes each of them. */
static const int numbers[] = {64, 128, 256, 16, 32, 1, 2, 4};

enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

/* Sets *value to the i-th value (from 0) to try for field `f`. Returns false if there are at most
 * `i` values to try. */
static bool alternative(enum att_field f, int i, int *value)
{
    const struct att_field_info *info = &att_fields[f];
    switch (info->kind) {
    case ATT_KIND_ENUM: *value = i; return i < info->value_count;
    case ATT_KIND_FLAG: *value = i; return i < 2;
    case ATT_KIND_INT: *value = i < NUMBERS ? numbers[i] : info->dflt; return i <= NUMBERS;
    default: return false;
    }
}

/* True if the template's check accepts the variant on the machine; if not, `why` has the reason. */
static bool accepts(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    *why = (struct att_why){.field = ATT_FIELD_COUNT};
    return v->op->check(v, m, why);
}

/* Returns a copy of `v` with the fields in `wrong` set to their defaults. Required fields, which
 * have no default, get numbers[0]. */
static struct att_variant without(const struct att_variant *v, att_field_set wrong)
{
    struct att_variant good = *v;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *info = &att_fields[f];
        if (!(wrong >> f & 1))
            continue;
        good.loc[f] = (struct att_loc){0};
        if (info->kind == ATT_KIND_FILE)
            att_set_file(&good, f, NULL);
        else
            att_set(&good, f, info->required ? numbers[0] : info->dflt);
    }
    att_variant_resolve(&good);
    return good;
}

/* True if `v` is refused at field `other` with the message `text` for every value of field `f` that
 * is valid itself. */
static bool is_wrong_for_all(const struct att_variant *v, const struct tir_machine *m,
                             enum att_field f, enum att_field other, const char *text)
{
    struct att_why why = {.text = ""};
    int value;
    for (int i = 0; alternative(f, i, &value); i++) {
        struct att_variant changed = *v;
        /* the field counts as given, for fields that default to its value */
        changed.loc[f].line = v->at.line;
        att_set(&changed, f, value);
        att_variant_resolve(&changed);
        if (accepts(&changed, m, &why))
            return false;
        if (why.field == f)
            continue; /* this value of `f` is invalid itself */
        if (why.field != other || strcmp(why.text, text) != 0)
            return false;
    }
    return true;
}

/* True if the value of the field that `why` names would be valid with another value of another
 * given field. */
static bool depends_on_others(const struct att_variant *v, const struct tir_machine *m,
                              const struct att_why *why)
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if ((enum att_field)f != why->field && v->loc[f].line &&
            att_fields[f].kind != ATT_KIND_FILE &&
            !is_wrong_for_all(v, m, f, why->field, why->text))
            return true;
    }
    return false;
}

/* Returns the place of the last given field for which another value would make the variant valid.
 * Returns the entry's place if there is no such field. */
static struct att_loc decisive_place(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_why why = {.text = ""};
    int value;
    for (int f = ATT_FIELD_COUNT; f-- > 0;) {
        if (!v->loc[f].line || !(v->op->takes >> f & 1))
            continue;
        for (int i = 0; alternative(f, i, &value); i++) {
            struct att_variant changed = *v;
            if (value == att_fields[f].dflt)
                /* the field counts as not given: it may default to another field */
                changed.loc[f] = (struct att_loc){0};
            att_set(&changed, f, value);
            att_variant_resolve(&changed);
            if (accepts(&changed, m, &why))
                return v->loc[f];
        }
    }
    return v->at;
}

void attnc_report_refusal(struct attnc_diag *d, const struct att_variant *v,
                          const struct tir_machine *m, const struct att_why *why, bool together)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    if (why->field >= ATT_FIELD_COUNT || !v->loc[why->field].line) {
        attnc_diag_error(d, decisive_place(v, m), "%s: %s", name, why->text);
        return;
    }
    char note[ATT_NAME_MAX + 40];
    snprintf(note, sizeof(note), "    in the combination %s\n", name);
    if (attnc_diag_error(d, v->loc[why->field], "%s", why->text) && together &&
        depends_on_others(v, m, why))
        attnc_diag_attach(d, note);
}

void attnc_report_others(struct attnc_diag *d, const struct att_variant *v,
                         const struct tir_machine *m, att_field_set wrong)
{
    for (;;) {
        struct att_why why = {.text = ""};
        const struct att_variant rest = without(v, wrong);
        if (accepts(&rest, m, &why) || why.field >= ATT_FIELD_COUNT || wrong >> why.field & 1 ||
            !v->loc[why.field].line)
            return;
        for (int f = 0; f < ATT_FIELD_COUNT; f++) {
            if (wrong >> f & 1 && att_fields[f].kind != ATT_KIND_FILE &&
                !is_wrong_for_all(&rest, m, f, why.field, why.text))
                return;
        }
        attnc_diag_error(d, v->loc[why.field], "%s", why.text);
        wrong |= ATT_FIELD(why.field);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file sets the knobs of a tile: first by the family's rules, then by fitted rows. Fitted rows
 * are the rows of targets/tuning/, or of a build's own tuning file. A row names an op and words,
 * such as "prefill tile_head_dim=64 plain=1". It applies to kernels of the op whose tile or
 * dispatch key has all of these values.
 *
 * A row is compared with the tile that the rules made, before any fitted row changes it. So no row
 * depends on another.
 */
#include <stdio.h>
#include <string.h>

#include "ir/machine.h"
#include "templates/template.h"

/* Writes the value of word `name` to `value` as text: a limit or a knob of tile `t`, or a field of
 * the variant's dispatch key. Returns false if no such name exists. */
static bool find_word(const struct att_variant *v, const struct att_tile *t, const char *name,
                      char value[ATT_NAME_MAX])
{
    const struct {
        const char *name;
        int value;
    } limits[] = {{"tile_head_dim", t->head_dim},
                  {"tile_head_dim_v", t->head_dim_v},
                  {"plain", t->plain},
                  {"exact", t->exact}};
    int number;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (!strcmp(name, limits[i].name))
            return snprintf(value, ATT_NAME_MAX, "%d", limits[i].value) > 0;
    if (att_get_knob(v->op, t, name, &number))
        return snprintf(value, ATT_NAME_MAX, "%d", number) > 0;
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        if ((v->op->takes >> f & 1) && !strcmp(att_fields[f].name, name))
            return att_format_value(v, f, value, ATT_NAME_MAX) >= 0;
    return false;
}

/* True if `text` equals one of the values in `values`, which "|" separates. */
static bool is_any_of(const char *values, const char *text)
{
    const size_t length = strlen(text);
    for (const char *at = values; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == length && !strncmp(at, text, length))
            return true;
    }
    return false;
}

/* Returns the op whose name is the first word of `kernels`, the words of a fitted row; NULL if no
 * op has it. */
static const struct att_template *find_op(const char *kernels)
{
    const size_t length = strcspn(kernels, " ");
    for (const struct att_template *const *op = att_templates; *op; op++)
        if (strlen((*op)->name) == length && !strncmp((*op)->name, kernels, length))
            return *op;
    return NULL;
}

bool att_is_fitted_by(const struct att_variant *v, const struct att_tile *t, const char *kernels)
{
    char copy[ATT_TEXT_MAX], value[ATT_NAME_MAX], *rest = copy;
    if (find_op(kernels) != v->op || strlen(kernels) >= sizeof(copy))
        return false;
    memcpy(copy, kernels, strlen(kernels) + 1);
    strtok_r(rest, " ", &rest);
    for (char *word; (word = strtok_r(NULL, " ", &rest));) {
        char *const values = strchr(word, '=');
        if (!values)
            return false;
        *values = '\0';
        if (!find_word(v, t, word, value) || !is_any_of(values + 1, value))
            return false;
    }
    return true;
}

bool att_check_fitted(const struct tir_fitted *row, struct att_why *why)
{
    const struct att_template *const op = find_op(row->kernels);
    char copy[ATT_TEXT_MAX], value[ATT_NAME_MAX], *rest = copy;
    if (!op || !op->n_fitted)
        return att_reject(why, ATT_FIELD_COUNT, "'%.40s' names no op with fitted knobs",
                          row->kernels);
    struct att_tile tile = {0};
    struct att_variant v;
    unsigned i = 0;
    while (i < op->n_fitted && strcmp(op->fitted[i].member, row->knob))
        i++;
    if (i == op->n_fitted)
        return att_reject(why, ATT_FIELD_COUNT, "%s has no fitted knob '%.40s'", op->name,
                          row->knob);
    if (strlen(row->kernels) >= sizeof(copy))
        return att_reject(why, ATT_FIELD_COUNT, "more words than a key has");
    if (!att_check_knob_names(op, row->kernels, why))
        return false;
    att_variant_init(&v, op, "");
    memcpy(copy, row->kernels, strlen(row->kernels) + 1);
    strtok_r(rest, " ", &rest);
    for (char *word; (word = strtok_r(NULL, " ", &rest));) {
        word[strcspn(word, "=")] = '\0';
        if (!find_word(&v, &tile, word, value))
            return att_reject(why, ATT_FIELD_COUNT, "tiles and keys of %s have no '%.40s'",
                              op->name, word);
    }
    return true;
}

struct att_tile att_row_tile(const struct att_variant *v, const struct tir_machine *m, unsigned row)
{
    struct att_tile tile = v->op->tiles[row];
    if (v->op->rules)
        v->op->rules(v, m, &tile);
    if (!v->op->n_fitted)
        return tile;
    const struct att_tile by_rule = tile;
    const struct tir_fitted *const rows = v->fitted ? v->fitted : m->fitted;
    unsigned count = 0;
    while (rows && rows[count].kernels)
        count++;
    while (count--) /* from the last one, since the first row of a knob has precedence */
        if (att_is_fitted_by(v, &by_rule, rows[count].kernels))
            att_set_knob(v->op, &tile, rows[count].knob, rows[count].value);
    return tile;
}

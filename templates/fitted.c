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
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"
#include "templates/template.h"

/* Sets *value to the value of `name`, a limit of the variant's kernel or a knob of tile `t`.
 * Returns false if no such name exists. */
static bool find_number(const struct att_variant *v, const struct att_tile *t, const char *name,
                        int *value)
{
    const struct {
        const char *name;
        int value;
    } limits[] = {{"tile_head_dim", t->head_dim},
                  {"tile_head_dim_v", t->head_dim_v},
                  {"plain", t->plain},
                  {"exact", t->exact}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (!strcmp(name, limits[i].name)) {
            *value = limits[i].value;
            return true;
        }
    return att_get_knob(v->op, t, name, value);
}

/* Returns the field `name` of the op's dispatch key; ATT_FIELD_COUNT if no such name exists. */
static enum att_field find_field(const struct att_template *op, const char *name)
{
    int f = 0;
    while (f < ATT_FIELD_COUNT && !((op->takes >> f & 1) && !strcmp(att_fields[f].name, name)))
        f++;
    return (enum att_field)f;
}

/* True if `text` equals one of the values at `values`, which "|" separates and a space ends. */
static bool is_any_of(const char *values, const char *text)
{
    const size_t length = strlen(text);
    for (;; values++) {
        const size_t other = strcspn(values, "| ");
        if (other == length && !strncmp(values, text, length))
            return true;
        values += other;
        if (*values != '|')
            return false;
    }
}

/* True if `number` is one of the values at `values`, as in is_any_of(). */
static bool is_any_number(const char *values, int number)
{
    for (;; values++) {
        char *end;
        const long value = strtol(values, &end, 10);
        const bool is_number = end > values && strcspn(end, "| ") == 0;
        if (is_number && value == number)
            return true;
        values = end + strcspn(end, "| ");
        if (*values != '|')
            return false;
    }
}

/* True if the kernel has one of the values of a word "NAME=VALUE|VALUE", which ends at a space. */
static bool has_value(const struct att_variant *v, const struct att_tile *t, const char *word)
{
    char name[ATT_NAME_MAX], value[ATT_NAME_MAX];
    const size_t length = strcspn(word, "= ");
    int number;
    if (word[length] != '=' || length >= sizeof(name))
        return false;
    memcpy(name, word, length);
    name[length] = '\0';
    word += length + 1;
    if (find_number(v, t, name, &number))
        return is_any_number(word, number);
    const enum att_field f = find_field(v->op, name);
    return f < ATT_FIELD_COUNT && att_format_value(v, f, value, sizeof(value)) >= 0 &&
           is_any_of(word, value);
}

/* True if the first word of `kernels`, the words of a fitted row, is the name of the op. */
static bool is_of_op(const char *kernels, const struct att_template *op)
{
    const size_t length = strlen(op->name);
    return !strncmp(kernels, op->name, length) && (!kernels[length] || kernels[length] == ' ');
}

/* Returns the op whose name is the first word of `kernels`, the words of a fitted row; NULL if no
 * op has that name. */
static const struct att_template *find_op(const char *kernels)
{
    for (const struct att_template *const *op = att_templates; *op; op++)
        if (is_of_op(kernels, *op))
            return *op;
    return NULL;
}

bool att_is_fitted_by(const struct att_variant *v, const struct att_tile *t, const char *kernels)
{
    if (!is_of_op(kernels, v->op))
        return false;
    const char *word = strchr(kernels, ' ');
    while (word && (word += strspn(word, " "), *word)) {
        if (!has_value(v, t, word))
            return false;
        word = strchr(word, ' ');
    }
    return true;
}

bool att_check_fitted(const struct tir_fitted *row, struct att_why *why)
{
    const struct att_template *const op = find_op(row->kernels);
    char copy[ATT_TEXT_MAX], *rest = copy;
    if (!op || !op->n_fitted)
        return att_reject(why, ATT_FIELD_COUNT, "'%.40s' names no op with fitted knobs",
                          row->kernels);
    struct att_tile tile = {0};
    struct att_variant v;
    unsigned i = 0;
    int number;
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
        if (!find_number(&v, &tile, word, &number) && find_field(op, word) == ATT_FIELD_COUNT)
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
    /* Applies rows from the last to the first. If several rows set a knob, the first one thus has
     * precedence. */
    while (count--)
        if (att_is_fitted_by(v, &by_rule, rows[count].kernels))
            att_set_knob(v->op, &tile, rows[count].knob, rows[count].value);
    return tile;
}

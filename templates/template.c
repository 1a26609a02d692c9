/* SPDX-License-Identifier: Apache-2.0 */
/* This file lists the op families; a new one is its file and its row in templates.def. */
#include "templates/template.h"

#include <stdarg.h>
#include <stdio.h>

#define TEMPLATE(name) extern const struct att_template att_template_##name;
#include "templates/templates.def"

const struct att_template *const att_templates[] = {
#define TEMPLATE(name) &att_template_##name,
#include "templates/templates.def"
    NULL,
};

static const struct att_tile *named_tile(const struct att_variant *v, const struct tir_machine *m,
                                         struct att_why *why)
{
    const unsigned n = (unsigned)v->tile;
    if (n > v->op->n_tiles) {
        att_reject(why, ATT_TILE, "%s has %u tiles, and no tile %u", v->op->name, v->op->n_tiles,
                   n);
        return NULL;
    }
    const struct att_tile *const t = &v->op->tiles[n - 1];
    struct att_why reason;
    if (v->op->fits(v, t, m, &reason))
        return t;
    att_reject(why, ATT_TILE, "tile %u does not fit: %s", n, reason.text);
    return NULL;
}

const struct att_tile *att_find_tile(const struct att_variant *v, const struct tir_machine *m,
                                     struct att_why *why)
{
    struct att_why ignored;
    if (!why)
        why = &ignored;
    if (v->tile)
        return named_tile(v, m, why);
    for (unsigned i = 0; i < v->op->n_tiles; i++)
        if (v->op->fits(v, &v->op->tiles[i], m, why))
            return &v->op->tiles[i];
    return NULL;
}

bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    why->field = field;
    return false;
}

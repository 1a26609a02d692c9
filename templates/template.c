/* SPDX-License-Identifier: Apache-2.0 */
/* This file lists the op families; a new one is its file and its row in templates.def. */
#include "templates/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEMPLATE(name) extern const struct att_template att_template_##name;
#include "templates/templates.def"

const struct att_template *const att_templates[] = {
#define TEMPLATE(name) &att_template_##name,
#include "templates/templates.def"
    NULL,
};

/* The members of a tile that make the kernel, by name; others say what it is for. */
#define MEMBER(name) {#name, offsetof(struct att_tile, name), sizeof(((struct att_tile *)0)->name)}
static const struct member {
    const char *name;
    size_t offset, size;
} members[] = {
    MEMBER(rows),       MEMBER(keys),         MEMBER(keys_by_row),
    MEMBER(panel),      MEMBER(waves),        MEMBER(waves_per_simd),
    MEMBER(copy_bytes), MEMBER(hoist_vgprs),  MEMBER(memory_priority),
    MEMBER(late_power), MEMBER(late_maximum), MEMBER(ascending),
};
#undef MEMBER

static int get_member(const struct att_tile *t, const struct member *m)
{
    const char *const at = (const char *)t + m->offset;
    uint16_t wide;
    if (m->size == 1)
        return *(const uint8_t *)at;
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static void set_member(struct att_tile *t, const struct member *m, int value)
{
    char *const at = (char *)t + m->offset;
    const uint16_t wide = (uint16_t)value;
    if (m->size == 1)
        *(uint8_t *)at = (uint8_t)value;
    else
        memcpy(at, &wide, sizeof(wide));
}

static const struct member *find_member(const char *name)
{
    const struct member *m = members;
    while (strcmp(m->name, name))
        m++;
    return m;
}

void att_tile_text(const struct att_tile *t, char text[ATT_TILE_TEXT_MAX])
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && at < ATT_TILE_TEXT_MAX; i++) {
        const int value = get_member(t, &members[i]);
        if (value)
            at += (size_t)snprintf(text + at, ATT_TILE_TEXT_MAX - at, "%s%s=%d", at ? " " : "",
                                   members[i].name, value);
    }
}

unsigned att_count_tiles(const struct att_template *t)
{
    unsigned count = t->n_tiles;
    for (unsigned i = 0; i < t->n_knobs; i++)
        count *= t->knobs[i].count + 1u;
    return count;
}

/* A value that is the row's own would be the same tile under another number. */
static bool turn_knobs(const struct att_template *op, unsigned digits, struct att_tile *t,
                       struct att_why *why)
{
    for (unsigned i = 0; i < op->n_knobs; i++) {
        const struct att_knob *const k = &op->knobs[i];
        const struct member *const m = find_member(k->member);
        const unsigned digit = digits % (k->count + 1u);
        digits /= k->count + 1u;
        if (digit && get_member(t, m) == k->values[digit - 1])
            return att_reject(why, ATT_TILE, "its row has %s %d already", k->member,
                              k->values[digit - 1]);
        if (digit)
            set_member(t, m, k->values[digit - 1]);
    }
    return true;
}

static bool named_tile(const struct att_variant *v, const struct tir_machine *m,
                       struct att_tile *tile, struct att_why *why)
{
    const unsigned n = (unsigned)v->tile, count = att_count_tiles(v->op);
    if (n > count)
        return att_reject(why, ATT_TILE, "%s has %u tiles, and no tile %u", v->op->name, count, n);
    struct att_why reason;
    *tile = v->op->tiles[(n - 1) % v->op->n_tiles];
    if (turn_knobs(v->op, (n - 1) / v->op->n_tiles, tile, &reason) &&
        v->op->fits(v, tile, m, &reason))
        return true;
    return att_reject(why, ATT_TILE, "tile %u does not fit: %s", n, reason.text);
}

bool att_find_tile(const struct att_variant *v, const struct tir_machine *m, struct att_tile *tile,
                   struct att_why *why)
{
    struct att_why ignored;
    if (!why)
        why = &ignored;
    if (v->tile)
        return named_tile(v, m, tile, why);
    for (unsigned i = 0; i < v->op->n_tiles; i++) {
        *tile = v->op->tiles[i];
        if (v->op->fits(v, &v->op->tiles[i], m, why))
            return true;
    }
    return false;
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

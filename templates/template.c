/* SPDX-License-Identifier: Apache-2.0 */
/* This file lists the op families (ops/ops.def has a row for each), and finds tiles and their
 * knobs. */
#include "templates/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP(name) extern const struct att_template att_template_##name;
#include "ops/ops.def"

const struct att_template *const att_templates[] = {
#define OP(name) &att_template_##name,
#include "ops/ops.def"
    NULL,
};

/* The members of struct att_tile that are knobs of every family, with their names. Other members
 * say which variants a tile serves. Knobs of one family are in att_tile.own. */
#define MEMBER(name) {#name, offsetof(struct att_tile, name), sizeof(((struct att_tile *)0)->name)}
static const struct member {
    const char *name;
    size_t offset, size;
} members[] = {
    MEMBER(rows),       MEMBER(keys),         MEMBER(keys_by_row),
    MEMBER(panel),      MEMBER(waves),        MEMBER(waves_per_simd),
    MEMBER(copy_bytes), MEMBER(hoist_vgprs),  MEMBER(memory_priority),
    MEMBER(late_power), MEMBER(late_maximum), MEMBER(whole_keys),
    MEMBER(ascending),
};
#undef MEMBER

enum { N_MEMBERS = sizeof(members) / sizeof(members[0]) };

/* Returns knob `i` of a family: the knobs in members[], then the knobs of att_template.own. The
 * name is NULL after the last one. */
static struct member find_member(const struct att_template *op, unsigned i)
{
    if (i < N_MEMBERS)
        return members[i];
    i -= N_MEMBERS;
    const size_t size = sizeof(((struct att_tile *)0)->own[0]);
    const char *const name = i < ATT_OWN_MAX ? op->own[i] : NULL;
    return (struct member){name, offsetof(struct att_tile, own) + i * size, size};
}

/* Returns the value of a tile's member. */
static int get_member(const struct att_tile *t, const struct member *m)
{
    const char *const at = (const char *)t + m->offset;
    uint16_t wide;
    if (m->size == 1)
        return *(const uint8_t *)at;
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

/* Sets a tile's member to `value`. */
static void set_member(struct att_tile *t, const struct member *m, int value)
{
    char *const at = (char *)t + m->offset;
    const uint16_t wide = (uint16_t)value;
    if (m->size == 1)
        *(uint8_t *)at = (uint8_t)value;
    else
        memcpy(at, &wide, sizeof(wide));
}

/* Returns the member with name `name`; the result's name is NULL if the family has no such
 * member. */
static struct member named_member(const struct att_template *op, const char *name)
{
    unsigned i = 0;
    while (find_member(op, i).name && strcmp(find_member(op, i).name, name))
        i++;
    return find_member(op, i);
}

bool att_set_knob(const struct att_template *op, struct att_tile *t, const char *name, int value)
{
    const struct member m = named_member(op, name);
    if (m.name)
        set_member(t, &m, value);
    return m.name;
}

bool att_get_knob(const struct att_template *op, const struct att_tile *t, const char *name,
                  int *value)
{
    const struct member m = named_member(op, name);
    if (m.name)
        *value = get_member(t, &m);
    return m.name;
}

void att_tile_text(const struct att_template *op, const struct att_tile *t,
                   char text[ATT_TILE_TEXT_MAX])
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; find_member(op, i).name && at < ATT_TILE_TEXT_MAX; i++) {
        const struct member m = find_member(op, i);
        const int value = get_member(t, &m);
        if (value)
            at += (size_t)snprintf(text + at, ATT_TILE_TEXT_MAX - at, "%s%s=%d", at ? " " : "",
                                   m.name, value);
    }
}

unsigned att_count_tiles(const struct att_template *t)
{
    unsigned count = t->n_tiles;
    for (unsigned i = 0; i < t->n_knobs; i++)
        count *= t->knobs[i].count + 1u;
    return count;
}

/* Returns the text after "name=" in `text`, which has words "knob=value"; NULL if no word has that
 * name. */
static const char *find_value(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (; text; text = strchr(text, ' ')) {
        text += *text == ' ';
        if (!strncmp(text, name, length) && text[length] == '=')
            return text + length + 1;
    }
    return NULL;
}

bool att_check_knob_names(const struct att_template *op, const char *text, struct att_why *why)
{
    const struct att_renamed *const r = &op->renamed;
    if (!r->before || !find_value(text, r->before))
        return true;
    return att_reject(why, ATT_FIELD_COUNT, "%s's knob '%s' is named '%s' now", op->name, r->before,
                      r->now);
}

unsigned att_find_candidate(const struct att_variant *v, const struct tir_machine *m, unsigned row,
                            const char *text)
{
    const struct att_template *const op = v->op;
    const struct att_tile tile = att_row_tile(v, m, row);
    unsigned number = row + 1, weight = op->n_tiles;
    for (unsigned i = 0; i < op->n_knobs; i++) {
        const struct att_knob *const k = &op->knobs[i];
        const struct member knob = named_member(op, k->member);
        const char *const written = find_value(text, k->member);
        const int value = written ? atoi(written) : 0;
        unsigned digit = 0;
        if (get_member(&tile, &knob) != value) {
            while (digit < k->count && k->values[digit] != value)
                digit++;
            if (digit++ == k->count)
                return 0;
        }
        number += digit * weight;
        weight *= k->count + 1u;
    }
    return number;
}

unsigned att_count_changed(const struct att_template *t, unsigned n)
{
    unsigned count = 0, digits = (n - 1) / t->n_tiles;
    for (unsigned i = 0; i < t->n_knobs; i++) {
        count += digits % (t->knobs[i].count + 1u) != 0;
        digits /= t->knobs[i].count + 1u;
    }
    return count;
}

/* Sets the knobs of tile `t` to the values that the digits of `digits` select; see att_find_tile().
 * Returns false if a value equals the row's own value, so that each tile has only one number. */
static bool set_knobs(const struct att_template *op, unsigned digits, struct att_tile *t,
                      struct att_why *why)
{
    for (unsigned i = 0; i < op->n_knobs; i++) {
        const struct att_knob *const k = &op->knobs[i];
        const struct member m = named_member(op, k->member);
        const unsigned digit = digits % (k->count + 1u);
        digits /= k->count + 1u;
        if (digit && get_member(t, &m) == k->values[digit - 1])
            return att_reject(why, ATT_TILE, "its row has %s %d already", k->member,
                              k->values[digit - 1]);
        if (digit)
            set_member(t, &m, k->values[digit - 1]);
    }
    return true;
}

/* Sets *tile to candidate `n`, from 1. Returns false if it does not exist or does not fit the
 * variant; the reason is in `why`. */
static bool named_tile(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                       struct att_tile *tile, struct att_why *why)
{
    const unsigned count = att_count_tiles(v->op);
    if (n > count)
        return att_reject(why, ATT_TILE, "%s has %u tiles, and no tile %u", v->op->name, count, n);
    struct att_why reason = {.text = ""};
    *tile = att_row_tile(v, m, (n - 1) % v->op->n_tiles);
    if (set_knobs(v->op, (n - 1) / v->op->n_tiles, tile, &reason) &&
        v->op->fits(v, tile, m, &reason))
        return true;
    return att_reject(why, ATT_TILE, "tile %u does not fit: %s", n, reason.text);
}

bool att_find_tile(const struct att_variant *v, const struct tir_machine *m, struct att_tile *tile,
                   struct att_why *why)
{
    if (v->tile || v->spare_tile)
        return named_tile(v, m, (unsigned)(v->tile ? v->tile : v->spare_tile), tile, why);
    bool found = false;
    for (unsigned i = 0; i < v->op->n_tiles; i++) {
        const struct att_tile row = att_row_tile(v, m, i);
        if (!v->op->fits(v, &row, m, found ? NULL : why))
            continue;
        const bool fills = att_fills(v, &row, m);
        if (!found || !fills)
            *tile = row;
        found = true;
        if (!fills)
            return true;
    }
    return found;
}

bool att_fills(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m)
{
    return v->op->fills && v->op->fills(v, t, m);
}

bool att_fits_waves(const struct att_variant *v, const struct att_tile *t,
                    const struct tir_machine *m, struct att_why *why)
{
    (void)v;
    (void)m;
    return t->waves <= 4 * t->waves_per_simd ||
           att_reject(why, ATT_TILE, "%d waves do not fit a compute unit", t->waves);
}

bool att_check_none(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    (void)v;
    (void)m;
    (void)why;
    return true;
}

bool att_check_tile(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    return att_find_tile(v, m, &tile, why);
}

struct tir_func *att_begin_kernel(const struct att_variant *v, const struct tir_machine *m,
                                  unsigned waves, unsigned waves_per_simd)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    struct tir_func *const f = tir_func_create(name, m, waves);
    f->waves_per_simd = waves_per_simd;
    return f;
}

bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
{
    va_list args;
    if (!why)
        return false;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    why->field = field;
    return false;
}

unsigned att_dtype(const struct att_variant *v)
{
    return v->dtype == ATT_DTYPE_BF16 ? TIR_BF16 : TIR_F16;
}

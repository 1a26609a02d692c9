/* SPDX-License-Identifier: Apache-2.0
 *
 * This file writes a variant's name and its canonical text, which have the values of its op's
 * fields, and compares two variants.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "templates/template.h"

/* True if the variant's op has field `f`. */
static bool takes(const struct att_variant *v, enum att_field f) { return v->op->takes >> f & 1; }

/* True if field `f` has its default value. */
static bool at_default(const struct att_variant *v, enum att_field f)
{
    const struct att_field_info *info = &att_fields[f];
    if (info->kind == ATT_KIND_FILE)
        return att_get_file(v, f) == NULL;
    if (info->follows)
        return att_get(v, f) == att_get(v, info->like);
    return att_get(v, f) == info->dflt;
}

/* Writes `text` at buf[at]; bytes beyond buf[size - 1] are lost. Returns the length that the whole
 * text needs. A test over the table of fields proves that callers' buffers are long enough. */
static size_t append(char *buf, size_t size, size_t at, const char *text)
{
    if (at >= size)
        return at;
    return at + (size_t)snprintf(buf + at, size - at, "%s", text);
}

void att_variant_name(const struct att_variant *v, char name[ATT_NAME_MAX])
{
    size_t at = append(name, ATT_NAME_MAX, 0, v->op->name);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!takes(v, f) || (f != ATT_DTYPE && f != ATT_HEAD_DIM && at_default(v, f)))
            continue;
        char value[ATT_NAME_MAX];
        att_format_value(v, f, value, sizeof(value));
        at = append(name, ATT_NAME_MAX, at, "_");
        at = append(name, ATT_NAME_MAX, at, att_fields[f].tag);
        if (att_fields[f].kind != ATT_KIND_FLAG)
            at = append(name, ATT_NAME_MAX, at, value);
    }
    at = append(name, ATT_NAME_MAX, at, "_");
    append(name, ATT_NAME_MAX, at, v->target);
    for (char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c))
            *c = '_';
    }
}

void att_variant_text(const struct att_variant *v, char text[ATT_TEXT_MAX])
{
    size_t at = append(text, ATT_TEXT_MAX, 0, v->target);
    at = append(text, ATT_TEXT_MAX, at, " ");
    at = append(text, ATT_TEXT_MAX, at, v->op->name);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!takes(v, f))
            continue;
        char value[ATT_NAME_MAX];
        att_format_value(v, f, value, sizeof(value));
        at = append(text, ATT_TEXT_MAX, at, " ");
        at = append(text, ATT_TEXT_MAX, at, att_fields[f].name);
        at = append(text, ATT_TEXT_MAX, at, "=");
        at = append(text, ATT_TEXT_MAX, at, value);
    }
}

bool att_variant_same(const struct att_variant *a, const struct att_variant *b)
{
    if (a->op != b->op || strcmp(a->target, b->target) != 0)
        return false;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!takes(a, f))
            continue;
        if (att_fields[f].kind != ATT_KIND_FILE) {
            if (att_get(a, f) != att_get(b, f))
                return false;
            continue;
        }
        const char *p = att_get_file(a, f), *q = att_get_file(b, f);
        if ((p || q) && (!p || !q || strcmp(p, q) != 0))
            return false;
    }
    return true;
}

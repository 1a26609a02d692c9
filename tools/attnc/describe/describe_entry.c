/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_entry.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/description.h"
#include "targets/tgt.h"

void entry_begin(struct entry_writer *w, const char *op)
{
    w->length = (size_t)snprintf(w->entry, MAX_ENTRY, "  - op: %s\n", op);
}

void entry_field(struct entry_writer *w, const char *format, ...)
{
    const size_t room = MAX_ENTRY - w->length;
    va_list args;
    va_start(args, format);
    int n = snprintf(w->entry + w->length, room, "    ");
    n += vsnprintf(w->entry + w->length + n, room - (size_t)n, format, args);
    va_end(args);
    if ((size_t)n + 1 < room) {
        w->length += (size_t)n;
        w->entry[w->length++] = '\n';
        w->entry[w->length] = '\0';
    }
}

bool entry_is_accepted(const char *entry, const char *dtype, const char *target, char why[200])
{
    char text[MAX_ENTRY + 200];
    const char *const targets[] = {target, NULL};
    const struct attnc_read_options options = {.targets = targets};
    struct attnc_description description = {0};
    struct attnc_diag d = {.file = "entry"};
    const int size =
        snprintf(text, sizeof(text), "defaults: { dtype: %s }\nkernels:\n%s", dtype, entry);
    const bool good =
        attnc_read_description_bytes(text, (size_t)size, ".", &options, &description, &d);
    if (!good)
        snprintf(why, 200, "%s", d.count ? d.messages[0].text : "out of memory");
    attnc_description_free(&description);
    attnc_diag_clear(&d);
    return good;
}

const char *entry_dtype(const struct model *m) { return m->fp16 ? "fp16" : "bf16"; }

void entry_sort_targets(const struct entry_writer *w, char good[64], char bad[64], char why[200])
{
    good[0] = bad[0] = why[0] = '\0';
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const char *name = (*t)->machine.name;
        char *list = entry_is_accepted(w->entry, entry_dtype(w->m), name, why) ? good : bad;
        const size_t at = strlen(list);
        snprintf(list + at, 64 - at, "%s%s", at ? ", " : "", name);
    }
}

bool entry_end(struct entry_writer *w, const char *label, const char *comment)
{
    char good[64], bad[64], why[200];
    entry_sort_targets(w, good, bad, why);
    if (bad[0] && good[0])
        model_lacks(w->m, "%s on %s: %s", label, bad, why);
    else if (bad[0])
        model_lacks(w->m, "%s: %s", label, why);
    if (!good[0])
        return false;
    if (bad[0])
        entry_field(w, "targets: [%s]", good);
    if (comment[0])
        fprintf(w->out, "  # %s\n", comment);
    fputs(w->entry, w->out);
    w->entries++;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/describe/describe_entry.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/description.h"
#include "targets/tgt.h"
#include "templates/template.h"

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

bool entry_is_tuned(const struct tgt *t) { return t->machine.fitted->kernels != NULL; }

void entry_sort_targets(const struct entry_writer *w, char good[64], char bad[64], char why[200])
{
    good[0] = bad[0] = why[0] = '\0';
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const char *name = (*t)->machine.name;
        if (!entry_is_tuned(*t))
            continue;
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

void entry_one_launch(struct entry_writer *w)
{
    char good[64], single[64], bad[64], why[200];
    const size_t length = w->length;
    if (!w->d->one_launch)
        return;
    entry_sort_targets(w, good, bad, why);
    entry_field(w, "one_launch: true");
    entry_sort_targets(w, single, bad, why);
    w->length = length;
    w->entry[length] = '\0';
    if (good[0] && strcmp(good, single) == 0)
        entry_field(w, "one_launch: [false, true] # true: no combine, for steps of few sequences");
}

bool entry_ratios(const struct entry_writer *w, const struct model_group *g, char list[ENTRY_LIST])
{
    long ratios[MAX_TENSOR_PARALLEL];
    unsigned count = 0;
    for (unsigned i = 0; i < w->d->rank_count; i++) {
        struct rank_heads r;
        if (!share_heads(g, w->d->ranks[i], &r))
            continue;
        unsigned at = 0;
        while (at < count && ratios[at] != r.heads / r.kv_heads)
            at++;
        ratios[at] = r.heads / r.kv_heads;
        count += at == count;
    }
    size_t length = 0;
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, ENTRY_LIST - length, "%s%ld",
                                   i           ? ", "
                                   : count > 1 ? "["
                                               : "",
                                   ratios[i]);
    if (count > 1)
        snprintf(list + length, ENTRY_LIST - length, "]");
    return count > 0;
}

void entry_written_index_keys(struct entry_writer *w)
{
    entry_field(w, "index_keys: fp8 # mxfp4, here and below: half the bytes, on MI355X only");
}

void entry_index_layout(struct entry_writer *w, long pool)
{
    enum { TILE = 16 }; /* keys that the layout stores together */
    const long tokens = strtol(w->d->page_size, NULL, 10);
    if (tokens > 0 && tokens % (TILE * pool) == 0)
        entry_field(w, "kv_layout: shuffle # nhd where the engine's own kernels read the keys too");
}

long entry_list_page(const struct entry_writer *w, long group)
{
    return list_page_size(strtol(w->d->page_size, NULL, 10), group);
}

/* Adds the cache's element type and its scale, if these are not the defaults. */
static void add_numbers(struct entry_writer *w)
{
    if (strcmp(w->d->kv_dtype, "same") != 0)
        entry_field(w, "kv_dtype: %s", w->d->kv_dtype);
    if (strcmp(w->d->kv_scale, "none") != 0)
        entry_field(w, "kv_scale: %s", w->d->kv_scale);
}

void entry_cache(struct entry_writer *w)
{
    add_numbers(w);
    if (strcmp(w->d->kv_layout, "nhd") != 0)
        entry_field(w, "kv_layout: %s", w->d->kv_layout);
}

void entry_row_caches(struct entry_writer *w)
{
    if (!deployment_has_e2m1_rows(w->d)) {
        entry_cache(w);
        return;
    }
    add_numbers(w);
    entry_field(w, "kv_layout: [%s, packed_mxfp8] # packed_mxfp8: rows of windows and of chunks",
                w->d->kv_layout);
}

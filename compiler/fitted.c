/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes tables of fitted knobs:
 *
 * defaults: 1
 * target: gfx950
 * knobs:
 * - {kernels: prefill tile_head_dim=64, knob: hoist_vgprs, value: 8, gain: 0.61, range: [0.2, 0.9]}
 *
 * The trap: targets/fitted.py reads the same files while attnc is built, a row per line.
 */
#include "compiler/fitted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/read_file.h"
#include "compiler/yaml_map.h"
#include "targets/tgt.h"

enum { FORMAT = 1, MOST_VALUE = 255 };

static const struct att_loc nowhere;

bool attnc_fitted_add(struct attnc_fitted *f, size_t at, const struct tir_fitted *row)
{
    struct tir_fitted *grown = realloc(f->rows, (f->count + 2) * sizeof(*grown));
    struct tir_fitted copy = *row;
    if (!grown)
        return false;
    f->rows = grown;
    if (!f->count)
        grown[0] = (struct tir_fitted){0};
    copy.kernels = strdup(row->kernels);
    copy.knob = strdup(row->knob);
    if (!copy.kernels || !copy.knob) {
        free((char *)copy.kernels);
        free((char *)copy.knob);
        return false;
    }
    memmove(&grown[at + 1], &grown[at], (f->count - at + 1) * sizeof(*grown));
    grown[at] = copy;
    f->count++;
    return true;
}

/* Frees the texts of a row. */
static void free_row(struct tir_fitted *row)
{
    free((char *)row->kernels);
    free((char *)row->knob);
}

void attnc_fitted_remove(struct attnc_fitted *f, size_t at)
{
    free_row(&f->rows[at]);
    memmove(&f->rows[at], &f->rows[at + 1], (f->count - at) * sizeof(f->rows[0]));
    f->count--;
}

void attnc_fitted_free(struct attnc_fitted *f)
{
    for (size_t i = 0; i < f->count; i++)
        free_row(&f->rows[i]);
    free(f->rows);
    free(f->bytes);
    *f = (struct attnc_fitted){0};
}

/* Reads the range of a row's gain from the list at node `id`, "[-0.10, 0.55]", to row->low and
 * row->high. */
static void read_range(const struct attnc_yaml *y, uint32_t id, struct tir_fitted *row,
                       struct attnc_diag *d)
{
    const struct attnc_yaml_node *list = attnc_yaml_node(y, id);
    const uint32_t first = list->kind == ATTNC_YAML_LIST ? list->first : 0;
    const uint32_t second = first ? y->nodes[first].next : 0;
    double low, high;
    if (!second || y->nodes[second].next)
        attnc_diag_error(d, y->nodes[id].at, "expected [LEAST, MOST] of the gain");
    else if (attnc_yaml_read_real(y, first, &low, d) && attnc_yaml_read_real(y, second, &high, d)) {
        row->low = (float)low;
        row->high = (float)high;
    }
}

/* Reads node `id`, a row of a table of fitted knobs, and appends it to `f`. Returns false only if
 * memory is exhausted. */
static bool read_row(struct attnc_fitted *f, const struct attnc_yaml *y, uint32_t id,
                     struct attnc_diag *d)
{
    static const char *const names[] = {"kernels", "knob", "value", "gain", "range", NULL};
    if (!attnc_yaml_check_keys(y, id, names, d))
        return true;
    struct tir_fitted row = {.kernels = attnc_yaml_get_text(y, id, "kernels"),
                             .knob = attnc_yaml_get_text(y, id, "knob")};
    const uint32_t value = attnc_yaml_get(y, id, "value"), gain = attnc_yaml_get(y, id, "gain");
    const uint32_t range = attnc_yaml_get(y, id, "range");
    const struct att_loc at = y->nodes[id].at;
    struct att_why why = {.text = ""};
    int64_t number;
    double real = 0;
    if (!row.kernels || !row.knob || !value) {
        attnc_diag_error(d, at,
                         "a row has kernels, \"prefill tile_head_dim=64\", a knob and a value");
        return true;
    }
    if (!attnc_yaml_read_number(y, value, &number, d) ||
        (gain && !attnc_yaml_read_real(y, gain, &real, d)))
        return true;
    row.gain = (float)real;
    row.value = (int)number;
    if (range)
        read_range(y, range, &row, d);
    if (number < 0 || number > MOST_VALUE)
        attnc_diag_error(d, y->nodes[value].at, "a value is 0 to %d", MOST_VALUE);
    else if (!att_check_fitted(&row, &why))
        attnc_diag_error(d, at, "%s", why.text);
    return attnc_fitted_add(f, f->count, &row) || attnc_diag_no_memory(d);
}

/* Reads a whole table of fitted knobs to `f`. Returns false only if memory is exhausted. */
static bool read_document(struct attnc_fitted *f, const struct attnc_yaml *y, struct attnc_diag *d)
{
    static const char *const names[] = {"defaults", "target", "knobs", NULL};
    int64_t format = 0;
    if (y->count < 2)
        return attnc_diag_error(d, nowhere, "an empty file"), true;
    if (!attnc_yaml_check_keys(y, 1, names, d))
        return true;
    const uint32_t version = attnc_yaml_get(y, 1, "defaults"), rows = attnc_yaml_get(y, 1, "knobs");
    const char *const target = attnc_yaml_get_text(y, 1, "target");
    if (!version || !attnc_yaml_read_number(y, version, &format, d) || format != FORMAT)
        return attnc_diag_error(d, y->nodes[1].at, "expected 'defaults: %d'", FORMAT), true;
    if (!target || !tgt_find(target))
        return attnc_diag_error(d, y->nodes[1].at, "expected the target of the kernels"), true;
    snprintf(f->target, sizeof(f->target), "%s", target);
    const struct attnc_yaml_node *list = attnc_yaml_node(y, rows);
    if (!rows || list->kind != ATTNC_YAML_LIST)
        return attnc_diag_error(d, y->nodes[1].at, "expected a list of knobs"), true;
    for (uint32_t id = list->first; id; id = y->nodes[id].next)
        if (!read_row(f, y, id, d))
            return false;
    return true;
}

bool attnc_fitted_read(const char *path, struct attnc_fitted *f, struct attnc_diag *d)
{
    struct attnc_yaml y;
    *f = (struct attnc_fitted){.rows = calloc(1, sizeof(*f->rows))};
    *d = (struct attnc_diag){.file = path};
    if (!f->rows)
        return attnc_diag_no_memory(d);
    if (!attnc_read_file(path, ATTNC_MAX_BYTES, &f->bytes, &f->size)) {
        if (errno == ENOMEM)
            return attnc_diag_no_memory(d);
        attnc_diag_error(d, nowhere, "%s", strerror(errno));
        d->unreadable = true;
        return false;
    }
    d->text = f->bytes;
    d->size = f->size;
    if (attnc_yaml_parse(&y, f->bytes, f->size, d))
        read_document(f, &y, d);
    attnc_yaml_free(&y);
    return d->errors == 0 && !d->no_memory;
}

void attnc_fitted_apply(const struct attnc_fitted *f, struct attnc_description *desc)
{
    for (size_t i = 0; i < desc->count; i++)
        if (!strcmp(desc->variants[i].target, f->target))
            desc->variants[i].fitted = f->rows;
}

void attnc_fitted_write(const struct attnc_fitted *f, FILE *out)
{
    fprintf(
        out,
        "# Fitted knobs of kernels, which no rule finds. `attnc tune --defaults` writes this "
        "file: docs/tuning.md.\n"
        "# The first row that names a kernel's knob decides. Gain and range: %% of the modelled "
        "time of a launch.\n"
        "defaults: %d\ntarget: %s\nknobs:%s\n",
        FORMAT, f->target, f->count ? "" : " []");
    for (size_t i = 0; i < f->count; i++) {
        const struct tir_fitted *row = &f->rows[i];
        fprintf(out, "  - { kernels: %s, knob: %s, value: %d, gain: %.2f, range: [%.2f, %.2f] }\n",
                row->kernels, row->knob, row->value, (double)row->gain, (double)row->low,
                (double)row->high);
    }
}

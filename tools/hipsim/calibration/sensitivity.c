/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows how rows depend on parameters that sources leave open: runs all rows again with each
 * parameter at both ends of its range.
 */
#include <stdio.h>
#include <string.h>

#include "tools/hipsim/calibration/calibrate.h"

static const struct parameter {
    const char *name, *tag;
    double value, low, high;
} tables[2][128] = {
    {
#define P(field, value, unit, tag, low, high, source) {#field, #tag, value, low, high},
#include "targets/facts/gfx942.def"
    },
    {
#define P(field, value, unit, tag, low, high, source) {#field, #tag, value, low, high},
#include "targets/facts/gfx950.def"
    },
};

static bool is_open(const struct parameter *p) { return p->low < p->high; }

void list_parameters(bool gfx950)
{
    for (const struct parameter *p = tables[gfx950]; p->name; p++)
        if (is_open(p))
            printf("%s %g %g %g %s\n", p->name, p->value, p->low, p->high, p->tag);
}

double parameter_value(bool gfx950, const char *name)
{
    const struct parameter *p = tables[gfx950];
    while (strcmp(p->name, name) != 0)
        p++;
    return p->value;
}

static double percent(double sum, unsigned rows) { return rows ? 100 * sum / rows : 0; }

/* Prints which results change from `base` to `t` with the parameter at `value`. */
static void print_changes(const struct parameter *p, double value, const struct tally *base,
                          const struct tally *t)
{
    const double attention = percent(t->error, t->rows) - percent(base->error, base->rows);
    const double decode =
        percent(t->decode_error, t->decode_rows) - percent(base->decode_error, base->decode_rows);
    unsigned changed = 0;
    printf("%-22s %-4s %9g", p->name, p->tag, value);
    if (t->rows)
        printf("  attention error %+5.1f", attention);
    if (t->decode_rows)
        printf("  decode error %+5.1f", decode);
    for (unsigned i = 0; i < t->orders && i < ORDERS_MAX; i++) {
        if (t->wrong[i] == base->wrong[i])
            continue;
        printf("%s%s is %s", changed++ ? "; " : "  CHANGES ", t->names[i],
               t->wrong[i] ? "wrong" : "right");
    }
    printf("\n");
}

void calibrate_sensitivity(struct target t, const struct tally *base)
{
    char text[100];
    printf("%-22s %-4s %9s  against the tables\n", "parameter", "tag", "value");
    for (const struct parameter *p = tables[strcmp(t.name, "gfx950") == 0]; p->name; p++) {
        const double ends[2] = {p->low, p->high};
        for (unsigned i = 0; is_open(p) && i < 2; i++) {
            if (ends[i] == p->value)
                continue;
            snprintf(text, sizeof(text), "%s=%g", p->name, ends[i]);
            const struct tally tally = run_quietly(t, text);
            print_changes(p, ends[i], base, &tally);
        }
    }
}

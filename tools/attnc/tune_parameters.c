/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/tune_parameters.h"

#include <stddef.h>
#include <string.h>

/* The tag of a row, from its letter. */
enum { TAG_D, TAG_M, TAG_F, TAG_U };

static const struct tune_parameter gfx942[] = {
#define P(field, value, unit, tag, low, high, source) \
    {#field,                                          \
     value,                                           \
     low,                                             \
     high,                                            \
     TAG_##tag == TAG_U && (low) < (high),            \
     TAG_##tag == TAG_F && (low) < (high)},
#include "targets/facts/gfx942.def"
    {0},
};

static const struct tune_parameter gfx950[] = {
#define P(field, value, unit, tag, low, high, source) \
    {#field,                                          \
     value,                                           \
     low,                                             \
     high,                                            \
     TAG_##tag == TAG_U && (low) < (high),            \
     TAG_##tag == TAG_F && (low) < (high)},
#include "targets/facts/gfx950.def"
    {0},
};

const struct tune_parameter *tune_parameters(const char *target)
{
    static const struct tune_parameter none;
    static const struct {
        const char *target;
        const struct tune_parameter *rows;
    } tables[] = {{"gfx942", gfx942}, {"gfx950", gfx950}};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (!strcmp(tables[i].target, target))
            return tables[i].rows;
    }
    return &none;
}

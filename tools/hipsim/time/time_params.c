/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the parameter tables into C arrays. */
#include "time_params.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "gfx_part.h"

#define ROW(field, value, unit, tag, low, high, source) \
    {#field, unit, source, value, low, high, TIME_##tag, offsetof(struct time_params, field)},

#define P ROW
static const struct time_param_row gfx942_rows[] = {
#include "gfx942.def"
};

#define P ROW
static const struct time_param_row gfx950_rows[] = {
#include "gfx950.def"
};

#define P ROW
static const struct time_param_row gfx1250_rows[] = {
#include "gfx1250.def"
};

enum {
#define F(field, value, ...) GFX942_##field = (value),
#include "gfx942.def"
#define F(field, value, ...) GFX950_##field = (value),
#include "gfx950.def"
#define F(field, value, ...) GFX1250_##field = (value),
#include "gfx1250.def"
};
static_assert(GFX942_simds == (int)SIMDS && GFX950_simds == (int)SIMDS &&
                  GFX1250_simds == (int)SIMDS,
              "so many SIMDs are modelled");

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
static_assert(COUNT(gfx942_rows) == COUNT(gfx950_rows) && COUNT(gfx942_rows) == COUNT(gfx1250_rows),
              "the tables have the same rows");
static_assert(COUNT(gfx942_rows) * sizeof(double) == sizeof(struct time_params),
              "a row for every parameter");

const struct time_param_row *time_param_rows(enum gfx_target target, size_t *count)
{
    *count = COUNT(gfx942_rows);
    return target == GFX942 ? gfx942_rows : target == GFX950 ? gfx950_rows : gfx1250_rows;
}

static double *field(struct time_params *params, const struct time_param_row *row)
{
    return (double *)(void *)((char *)params + row->offset);
}

struct time_params time_params_default(enum gfx_target target)
{
    struct time_params params;
    size_t n;
    const struct time_param_row *rows = time_param_rows(target, &n);
    for (size_t i = 0; i < n; i++)
        *field(&params, &rows[i]) = rows[i].value;
    return params;
}

struct time_params time_params_of_part(const struct gfx_part *part)
{
    struct time_params params = time_params_default(part->target);
    params.cus = part->compute_units;
    params.xcds = part->xcds;
    params.max_mhz = part->mhz;
    params.hbm_peak_gb_per_s = part->hbm_peak_gb_per_s;
    params.hbm_gb_per_s = part->hbm_gb_per_s;
    params.law_mhz *= part->law;
    params.law_slope *= part->law;
    return params;
}

bool time_params_set(struct time_params *params, const char *name, double value)
{
    if (!(value >= 0) || isinf(value))
        return false;
    for (size_t i = 0; i < COUNT(gfx942_rows); i++) {
        if (strcmp(gfx942_rows[i].name, name) != 0)
            continue;
        *field(params, &gfx942_rows[i]) = value;
        return true;
    }
    return false;
}

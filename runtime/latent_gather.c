/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses by modelled time whether calls of mla_decode read rows of 584 bytes from the cache, or
 * rows that cache_gather has converted to 16 bits. */
#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"
#include "runtime/pace.h"

#include <string.h>

/* Bytes of a converted row; most compute units and heads. */
enum { ROW_BYTES = 2 * 512, UNITS_MOST = 4096, HEADS_MOST = 128 };

/* Most queries, list entries, rows and launches of a call, so that modelled times are below
 * 2^63. */
enum { COUNT_MOST = 1 << 24 };

/* Forms of the rows of a call, which cache_gather may convert. */
enum form {
    MIXED,      /* rows of 584 bytes, in one tensor or two */
    FP4,        /* rows of e2m1 */
    FP4_BESIDE, /* rows of e2m1, and rows of 528 bytes in the second source */
    MXFP8,      /* rows of 528 bytes */
    N_FORMS
};

/* Modelled times on a target, in hundredths of a microsecond. */
static const struct costs {
    const char *target;
    int heads;               /* the costs are for calls of at most this many heads */
    int64_t narrow[N_FORMS]; /* times of mla_decode for 1,000 list entries, by the form of rows */
    int64_t plain; /* time of mla_decode for 1,000 list entries with rows of 16-bit elements */
    int64_t gather[N_FORMS]; /* times of cache_gather for 1,000 rows, by the form of rows */
    int64_t launch;          /* time of the start of a launch of any kind */
} all_costs[] = {
#define COSTS(...) {__VA_ARGS__},
#include "runtime/latent_costs.def"
#undef COSTS
};

/* Returns the costs of a call with `heads` heads on a target: its first row for as many heads or
 * more. If `target` is NULL or has no row, the rows of gfx942 apply. */
static const struct costs *find_costs(const char *target, int heads)
{
    const struct costs *found = NULL;
    for (size_t i = 0; i < sizeof(all_costs) / sizeof(all_costs[0]); i++) {
        const struct costs *const c = &all_costs[i];
        const bool own = target && !strcmp(target, c->target);
        if (heads <= c->heads && (!found || (own && strcmp(found->target, target))))
            found = c;
    }
    return found;
}

/* Returns the time that mla_decode saves with rows of 16 bits, before the time of the gather, in
 * hundredths of a microsecond. */
static int64_t time_saved(const struct costs *c, enum form form,
                          const struct attn_mla_decode_gather_shape *s)
{
    const int64_t queries = attn_parts(s->queries, s->compute_units);
    return queries * s->entries * (c->narrow[form] - c->plain) / 1000;
}

/* Checks the members of a descriptor and a shape on which the choice depends. Returns ATTN_OK or
 * ATTN_BAD_ARGUMENT. */
static int check(const struct attn_mla_decode_desc *d, const struct attn_mla_decode_gather_shape *s)
{
    if (d->heads < 1 || d->heads > HEADS_MOST)
        return attn_fail(ATTN_BAD_ARGUMENT, "mla_decode: heads %d is not in 1 to %d", d->heads,
                         HEADS_MOST);
    const struct {
        const char *name;
        int32_t value;
    } counts[] = {{"queries", s->queries},
                  {"entries", s->entries},
                  {"rows", s->rows},
                  {"launches", s->launches}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i].value < 0 || counts[i].value > COUNT_MOST)
            return attn_fail(ATTN_BAD_ARGUMENT, "mla_decode: %s %d is not in 0 to %d",
                             counts[i].name, counts[i].value, COUNT_MOST);
    if (s->compute_units < 1 || s->compute_units > UNITS_MOST)
        return attn_fail(ATTN_BAD_ARGUMENT, "mla_decode: compute_units %d is not in 1 to %d",
                         s->compute_units, UNITS_MOST);
    return ATTN_OK;
}

/* Returns the form of the rows of the descriptor's call; N_FORMS: they are not converted. */
static enum form form_of(const struct attn_mla_decode_desc *d)
{
    switch (d->cache.layout) {
    case ATTN_KV_SCALES_LAST:
    case ATTN_KV_PLANES: return MIXED;
    case ATTN_KV_PACKED_FP4:
    case ATTN_KV_PACKED_MXFP4: return d->two_sources && !d->same_rows ? FP4_BESIDE : FP4;
    case ATTN_KV_PACKED_MXFP8: return MXFP8;
    default: return N_FORMS;
    }
}

/* Chooses whether rows are gathered. attn_adopt() has copied the structs `d` and `s`. */
static int find_gather(const struct attn_mla_decode_desc *d,
                       const struct attn_mla_decode_gather_shape *s,
                       struct attn_mla_decode_gather *gather)
{
    const int r = check(d, s);
    if (r)
        return r;
    if (!gather)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "mla_decode: gather is NULL");
    *gather = (struct attn_mla_decode_gather){0};
    const struct costs *const c = find_costs(s->target, d->heads);
    const enum form form = form_of(d);
    if (form == N_FORMS)
        return ATTN_OK;
    const int64_t launches = s->launches ? s->launches : 1;
    const int64_t gathers = launches * c->launch + s->rows * c->gather[form] / 1000;
    const size_t bytes = (size_t)s->rows * ROW_BYTES;
    if (time_saved(c, form, s) <= gathers || (s->bytes_most && bytes > s->bytes_most))
        return ATTN_OK;
    gather->rows = s->rows;
    gather->bytes = bytes;
    return ATTN_OK;
}

ATTN_PUBLIC int attn_mla_decode_gather_plan(const struct attn_mla_decode_desc *given_desc,
                                            const struct attn_mla_decode_gather_shape *given_shape,
                                            struct attn_mla_decode_gather *gather)
{
    struct attn_mla_decode_desc desc;
    struct attn_mla_decode_gather_shape shape;
    if (!given_desc || !given_shape)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "mla_decode: desc or shape is NULL");
    int r = attn_adopt_named("mla_decode: desc", &desc, sizeof(desc), given_desc);
    if (!r)
        r = attn_adopt_named("mla_decode: shape", &shape, sizeof(shape), given_shape);
    return r ? r : find_gather(&desc, &shape, gather);
}

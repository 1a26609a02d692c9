/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses by modelled time the segments into which ssd_prefill cuts few long sequences. */
#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"
#include "runtime/pace.h"

#include <string.h>

/* Tokens of a chunk; value elements of a workgroup; most segments of a sequence, rows of segments
 * and compute units. */
enum { CHUNK = 64, VALUES = 64, SEGMENTS_MOST = 64, ROWS_MOST = 65535, UNITS_MOST = 4096 };

/* Modelled times on a target, in hundredths of a microsecond. */
static const struct costs {
    const char *target;
    struct attn_pace outputs; /* time of a chunk in a workgroup of the launch of outputs */
    struct attn_pace states;  /* time of a chunk in a workgroup of the launch of states */
    /* time of each segment before a workgroup's own segment, in the launch of outputs */
    struct attn_pace fold;
    int launch; /* time of the start of a launch of any kind */
} all_costs[] = {
#define COSTS(gfx, ...) {gfx, __VA_ARGS__},
#include "runtime/ssd_costs.def"
#undef COSTS
};

/* The sizes of a call, and the costs that apply to it. */
struct load {
    const struct costs *costs;
    int64_t workgroups; /* number of workgroups of a launch if sequences are not cut */
    int64_t units;      /* number of compute units */
    int64_t chunks;     /* number of chunks of the longest sequence */
};

/* Returns the costs of a target. If `target` is NULL or has no row, returns the first row. */
static const struct costs *find_costs(const char *target)
{
    for (size_t i = 1; target && i < sizeof(all_costs) / sizeof(all_costs[0]); i++) {
        if (!strcmp(target, all_costs[i].target))
            return &all_costs[i];
    }
    return &all_costs[0];
}

/* Returns the modelled time of a call whose segments have up to `each` chunks, in hundredths of a
 * microsecond. */
static int64_t time_of(const struct load *l, int64_t each)
{
    enum { PLACES = 2 /* workgroups that a compute unit has at once */ };
    const struct costs *const c = l->costs;
    const int64_t segments = attn_parts(l->chunks, each), all = l->workgroups * segments;
    const int64_t outputs = each * attn_pace_time(&c->outputs, all, l->units, PLACES) + c->launch;
    if (segments == 1)
        return outputs;
    const int64_t before = segments - 1, others = l->workgroups * before;
    return outputs + each * attn_pace_time(&c->states, others, l->units, PLACES) +
           before * attn_pace_time(&c->fold, all, l->units, PLACES) + c->launch;
}

/* Returns the number of chunks of a segment with which the call is fastest; all chunks of the
 * longest sequence: no segments. Segments change the rounding of results, so they must save a
 * twentieth of the time. */
static int64_t choose(const struct load *l, int64_t batch)
{
    int64_t best = l->chunks, least = time_of(l, best) * 19 / 20;
    for (int64_t n = 2; n <= SEGMENTS_MOST && n <= l->chunks && n * batch <= ROWS_MOST; n++) {
        const int64_t each = attn_parts(l->chunks, n), time = time_of(l, each);
        if (time < least) {
            least = time;
            best = each;
        }
    }
    return best;
}

/* Checks the members of a descriptor and a shape on which the segments depend. Returns ATTN_OK or
 * ATTN_BAD_ARGUMENT. */
static int check(const struct attn_ssd_prefill_desc *d, const struct attn_ssd_prefill_shape *s)
{
    if (d->head_dim < 1 || d->head_dim > 256 || d->head_dim_v < 1 || d->head_dim_v > 256 ||
        d->value_heads < 1)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "ssd_prefill: head_dim %d or head_dim_v %d is not in 1 to 256, or "
                         "value_heads %d is below 1",
                         d->head_dim, d->head_dim_v, d->value_heads);
    if (s->batch < 0 || s->batch > ROWS_MOST || s->max_seqlen < 0)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "ssd_prefill: batch %d is not in 0 to %d, or max_seqlen %d is negative",
                         s->batch, ROWS_MOST, s->max_seqlen);
    if (s->compute_units < 1 || s->compute_units > UNITS_MOST)
        return attn_fail(ATTN_BAD_ARGUMENT, "ssd_prefill: compute_units %d is not in 1 to %d",
                         s->compute_units, UNITS_MOST);
    return ATTN_OK;
}

/* Chooses the segments. attn_adopt() has copied the structs `d` and `s`. */
static int find_segments(const struct attn_ssd_prefill_desc *d,
                         const struct attn_ssd_prefill_shape *s,
                         struct attn_ssd_prefill_segments *segments)
{
    const int r = check(d, s);
    if (r)
        return r;
    if (!segments)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "ssd_prefill: segments is NULL");
    *segments = (struct attn_ssd_prefill_segments){0};
    const struct load load = {
        .costs = find_costs(s->target),
        .workgroups = (int64_t)s->batch * d->value_heads * attn_parts(d->head_dim_v, VALUES),
        .units = s->compute_units,
        .chunks = attn_parts(s->max_seqlen, CHUNK),
    };
    const int64_t each = s->batch && s->max_seqlen ? choose(&load, s->batch) : load.chunks;
    if (each == load.chunks)
        return ATTN_OK;
    const int64_t tokens = each * CHUNK, rows = s->batch * attn_parts(load.chunks, each);
    const size_t sums = (size_t)(rows * d->value_heads);
    segments->segment_tokens = (int32_t)tokens;
    segments->segment_rows = (int32_t)rows;
    segments->state_bytes = 4 * sums * (size_t)d->head_dim * (size_t)d->head_dim_v;
    segments->sum_bytes = 4 * sums;
    return ATTN_OK;
}

ATTN_PUBLIC int attn_ssd_prefill_plan(const struct attn_ssd_prefill_desc *given_desc,
                                      const struct attn_ssd_prefill_shape *given_shape,
                                      struct attn_ssd_prefill_segments *segments)
{
    struct attn_ssd_prefill_desc desc;
    struct attn_ssd_prefill_shape shape;
    if (!given_desc || !given_shape)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "ssd_prefill: desc or shape is NULL");
    int r = attn_adopt_named("ssd_prefill: desc", &desc, sizeof(desc), given_desc);
    if (!r)
        r = attn_adopt_named("ssd_prefill: shape", &shape, sizeof(shape), given_shape);
    return r ? r : find_segments(&desc, &shape, segments);
}

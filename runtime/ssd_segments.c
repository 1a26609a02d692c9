/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the segments into which ssd_prefill cuts few long sequences. */
#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* Tokens of a chunk, value elements of a workgroup, the most segments of a sequence. */
enum { CHUNK = 64, VALUES = 64, SEGMENTS_MOST = 64, ROWS_MOST = 65535, UNITS_MOST = 4096 };

/* Times in hundredths of ALONE: the time in which the kernel of outputs does a chunk while it is
   the only workgroup of a compute unit. STATES is a chunk of the kernel of states, FOLD the
   folding of one state, LAUNCH a launch. Each further workgroup of a compute unit adds PAIRED.
   Modelled for keys of 128 elements: a chunk of states takes 2,990 of 8,190 cycles on MI300X and
   2,220 of 4,960 on MI355X. There 4 us of a launch are one and two chunks. */
enum { ALONE = 100, STATES = 40, FOLD = 27, LAUNCH = 200, PAIRED = 63 };

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Returns the time of a chunk where a compute unit has its share of `workgroups`. */
static int64_t chunk_time(int64_t workgroups, int64_t units)
{
    const int64_t each = ceiling(workgroups, units);
    return each <= 1 ? ALONE : PAIRED * each;
}

/* Returns the modelled time of `segments` segments of each sequence; 1: it is not cut. */
static int64_t time_of(int64_t workgroups, int64_t chunks, int64_t units, int64_t segments)
{
    const int64_t each = ceiling(chunks, segments);
    const int64_t outputs = chunk_time(workgroups * segments, units);
    if (segments == 1)
        return each * outputs;
    const int64_t states = chunk_time(workgroups * (segments - 1), units) * STATES / ALONE;
    const int64_t folds = outputs * (segments - 1) * FOLD / ALONE;
    return each * (outputs + states) + folds + LAUNCH;
}

static int64_t choose(const struct attn_ssd_prefill_desc *d, const struct attn_ssd_prefill_shape *s)
{
    const int64_t chunks = ceiling(s->max_seqlen, CHUNK);
    const int64_t workgroups = (int64_t)s->batch * d->value_heads * ceiling(d->head_dim_v, VALUES);
    int64_t best = 1, least = time_of(workgroups, chunks, s->compute_units, 1);
    for (int64_t n = 2; n <= SEGMENTS_MOST && n <= chunks && n * s->batch <= ROWS_MOST; n++) {
        const int64_t time = time_of(workgroups, chunks, s->compute_units, n);
        if (time < least) {
            least = time;
            best = n;
        }
    }
    return best;
}

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

/* Chooses the segments; both structs have the library's size. */
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
    const int64_t count = s->batch && s->max_seqlen ? choose(d, s) : 1;
    if (count == 1)
        return ATTN_OK;
    const int64_t tokens = ceiling(ceiling(s->max_seqlen, CHUNK), count) * CHUNK;
    const int64_t rows = s->batch * ceiling(s->max_seqlen, tokens);
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

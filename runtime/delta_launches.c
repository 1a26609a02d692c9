/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses between the two ways to run gated_delta_prefill by modelled time. One launch computes
 * everything, or a launch each computes chunks, scan and outputs. In the second case few long
 * sequences are cut into segments, which one more launch joins. */
#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"
#include "runtime/pace.h"

#include <string.h>

/* CHUNK: tokens of a chunk. NARROW, WIDE: value elements of a workgroup of the single launch, in
 * its narrow and its wide kernel. SLICE: value elements of a wave of the scan. WIDE_SLICE: columns
 * of a wave of the launch of segments. SEGMENTS_MOST: most segments of a sequence. */
enum { CHUNK = 64, NARROW = 64, WIDE = 128, SLICE = 16, WIDE_SLICE = 32, SEGMENTS_MOST = 64 };
/* Most rows of chunks or segments, most compute units, and most elements of a key or value. */
enum { ROWS_MOST = 65535, UNITS_MOST = 4096, DIM_MOST = 256 };

/* Bytes: of the coefficients in a chunk's record; of the record's factors for a decay per head; of
 * an element of 16 bits and of a float. */
enum { COEFFICIENTS = 11008, HEAD_FADE = 16, HALF = 2, FLOAT = 4 };

/* Modelled times of a decay on a target, in hundredths of a microsecond. */
static const struct costs {
    const char *target;
    enum attn_decay decay;
    /* time of a chunk in the narrow and in the wide kernel, if one launch computes everything */
    int narrow, wide;
    int chunk; /* time of a value head's chunk on a compute unit, in the launch of chunks */
    /* time of memory for 100 chunks of the whole device, in addition to `chunk` */
    int chunks;
    int output;  /* like `chunk`, in the launch of outputs */
    int outputs; /* like `chunks`, in the launch of outputs */
    /* times of a chunk in a wave: of the scan; of the launch of segments */
    struct attn_pace scan, segment;
    /* time of each segment before a wave's own segment, in a wave of the scan */
    struct attn_pace fold;
    int launch; /* time of the start of a launch of any kind */
} all_costs[] = {
#define COSTS(gfx, of, ...) {gfx, ATTN_DECAY_##of, __VA_ARGS__},
#include "runtime/delta_costs.def"
#undef COSTS
};

/* The sizes of a call, and the costs that apply to it. */
struct shape {
    const struct costs *costs;
    int64_t units;    /* number of compute units */
    int64_t heads;    /* number of sequences times value heads */
    int64_t longest;  /* number of chunks of the longest sequence */
    int64_t all;      /* most chunks that all sequences can have, times value heads */
    int keys, values; /* elements of a key and of a value */
};

/* Returns the costs of a decay on a target. If `target` is NULL or has no row, returns the first
 * row of the decay. */
static const struct costs *find_costs(const char *target, enum attn_decay decay)
{
    const struct costs *found = NULL;
    for (size_t i = 0; i < sizeof(all_costs) / sizeof(all_costs[0]); i++) {
        const struct costs *const c = &all_costs[i];
        if (c->decay == decay && (!found || (target && !strcmp(target, c->target))))
            found = c;
    }
    return found;
}

/* Returns the time if one launch computes everything, in hundredths of a microsecond. The
 * conditions in a pack choose the narrow kernel for few workgroups: at most a quarter of the
 * compute units of the largest GPU. */
static int64_t time_of_one(const struct shape *s)
{
    enum { FEW = 32 /* wide workgroups, two narrow ones each, on 256 / 4 compute units */ };
    const struct costs *const c = s->costs;
    const int64_t wide = s->heads * attn_parts(s->values, WIDE);
    if (s->values >= WIDE && wide > FEW)
        return c->launch + s->longest * c->wide * attn_parts(wide, s->units);
    return c->launch +
           s->longest * c->narrow * attn_parts(s->heads * (s->values / NARROW), s->units);
}

/* Returns the time in which each of `waves` waves does `count` steps of pace `p`, in hundredths of
 * a microsecond. A SIMD runs one wave at a time. */
static int64_t time_of_waves(const struct shape *s, int64_t waves, const struct attn_pace *p,
                             int64_t count)
{
    enum { SIMDS = 4 };
    return count * attn_pace_time(p, waves, s->units, SIMDS);
}

/* Returns the time of a launch that computes all chunks at once, without the launch's start. `each`
 * is the time of a chunk on a compute unit. `hundred` is memory's time for 100 chunks. Both are
 * added. The unit is a hundredth of a microsecond. */
static int64_t time_of_chunks(const struct shape *s, int each, int hundred)
{
    const int64_t all = s->all > s->units ? s->all : s->units;
    return all * each / s->units + s->all * hundred / 100;
}

/* Returns the time of the launches of chunks, scan and outputs for segments of `each` chunks, in
 * hundredths of a microsecond. It includes the launch of segments if the longest sequence has
 * several segments. */
static int64_t time_of_several(const struct shape *s, int64_t each)
{
    const struct costs *const c = s->costs;
    const int64_t n = attn_parts(s->longest, each), columns = (s->values + s->keys) / WIDE_SLICE;
    const int64_t waves = s->heads * n * (s->values / SLICE);
    const int64_t whole = time_of_chunks(s, c->chunk, c->chunks) +
                          time_of_chunks(s, c->output, c->outputs) +
                          time_of_waves(s, waves, &c->scan, each) + 3 * c->launch;
    if (n == 1)
        return whole;
    return whole + time_of_waves(s, s->heads * (n - 1) * columns, &c->segment, each) +
           time_of_waves(s, waves, &c->fold, n - 1) + c->launch;
}

/* Returns the best number of segments of the longest sequence. 1: several launches without
 * segments; 0: one launch. Segments change the rounding of results, so they must save a twentieth
 * of the time. */
static int64_t choose(const struct shape *s, int64_t batch)
{
    const int64_t one = time_of_one(s), several = time_of_several(s, s->longest);
    int64_t best = several < one, least = (best ? several : one) * 19 / 20;
    for (int64_t n = 2; n <= SEGMENTS_MOST && n <= s->longest && n * batch <= ROWS_MOST; n++) {
        const int64_t time = time_of_several(s, attn_parts(s->longest, n));
        if (time < least) {
            least = time;
            best = n;
        }
    }
    return best;
}

/* Checks the members of a descriptor and a shape on which the choice depends. Returns ATTN_OK or
 * ATTN_BAD_ARGUMENT. */
static int check(const struct attn_gated_delta_prefill_desc *d,
                 const struct attn_gated_delta_prefill_shape *s)
{
    if (d->head_dim < 64 || d->head_dim > DIM_MOST || d->head_dim_v < 0 ||
        d->head_dim_v > DIM_MOST || d->value_heads < 1)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "gated_delta_prefill: head_dim %d or head_dim_v %d is not in 64 to %d, or "
                         "value_heads %d is below 1",
                         d->head_dim, d->head_dim_v, DIM_MOST, d->value_heads);
    if (s->batch < 0 || s->batch > ROWS_MOST || s->max_seqlen < 0 || s->tokens < 0)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "gated_delta_prefill: batch %d is not in 0 to %d, or max_seqlen %d or "
                         "tokens %d is negative",
                         s->batch, ROWS_MOST, s->max_seqlen, s->tokens);
    if (d->decay != ATTN_DECAY_HEAD && d->decay != ATTN_DECAY_CHANNEL)
        return attn_fail(ATTN_BAD_ARGUMENT, "gated_delta_prefill: decay %d is unknown",
                         (int)d->decay);
    if (s->compute_units < 1 || s->compute_units > UNITS_MOST)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "gated_delta_prefill: compute_units %d is not in 1 to %d",
                         s->compute_units, UNITS_MOST);
    return ATTN_OK;
}

/* Returns the number of rows of a tensor that has a row for each piece of `each` tokens. The first
 * piece of sequence s, which begins at token t, has row t / each + s. */
static int32_t rows_of(const struct attn_gated_delta_prefill_shape *s, int32_t each)
{
    return (s->tokens - 1) / each + s->batch;
}

/* Returns the bytes of a chunk's record in the buffer between the launches. `keys` and `values` are
 * the elements of a key and a value. `channels` is true if each channel of a key has its own
 * decay. */
static size_t record_bytes(int keys, int values, bool channels)
{
    const size_t k = (size_t)keys, v = (size_t)values, rows = (size_t)CHUNK * HALF;
    const size_t factors = channels ? 3 * rows * k + FLOAT * k : rows * k + HEAD_FADE;
    return COEFFICIENTS + factors + rows * v + HALF * k * v;
}

/* Describes in `out` several launches, whose longest sequence is cut into `n` segments. */
static void describe(const struct attn_gated_delta_prefill_desc *d,
                     const struct attn_gated_delta_prefill_shape *s, const struct shape *in,
                     int64_t n, struct attn_gated_delta_prefill_launches *out)
{
    const size_t k = (size_t)in->keys, v = (size_t)in->values, heads = (size_t)d->value_heads;
    out->chunk_rows = rows_of(s, CHUNK);
    out->segment_tokens = n > 1 ? (int32_t)(attn_parts(in->longest, n) * CHUNK) : 0;
    out->segment_rows = n > 1 ? rows_of(s, out->segment_tokens) : 0;
    out->chunk_bytes = (size_t)out->chunk_rows * heads *
                       record_bytes(in->keys, in->values, d->decay == ATTN_DECAY_CHANNEL);
    if (n > 1)
        out->segment_bytes = (size_t)out->segment_rows * heads * k * (FLOAT * v + HALF * k);
}

/* Chooses the launches. attn_adopt() has copied the structs `d` and `s`. */
static int find_launches(const struct attn_gated_delta_prefill_desc *d,
                         const struct attn_gated_delta_prefill_shape *s,
                         struct attn_gated_delta_prefill_launches *launches)
{
    const int r = check(d, s);
    if (r)
        return r;
    if (!launches)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "gated_delta_prefill: launches is NULL");
    *launches = (struct attn_gated_delta_prefill_launches){0};
    const int32_t longest = s->max_seqlen < s->tokens ? s->max_seqlen : s->tokens;
    if (!s->batch || !longest || rows_of(s, CHUNK) > ROWS_MOST)
        return ATTN_OK;
    const struct shape in = {
        .costs = find_costs(s->target, d->decay),
        .units = s->compute_units,
        .heads = (int64_t)s->batch * d->value_heads,
        .longest = attn_parts(longest, CHUNK),
        .all = (int64_t)rows_of(s, CHUNK) * d->value_heads,
        .keys = d->head_dim,
        .values = d->head_dim_v ? d->head_dim_v : d->head_dim,
    };
    struct attn_gated_delta_prefill_launches found = {0};
    const int64_t n = choose(&in, s->batch);
    if (n)
        describe(d, s, &in, n, &found);
    if (!s->bytes_most || found.chunk_bytes + found.segment_bytes <= s->bytes_most)
        *launches = found;
    return ATTN_OK;
}

ATTN_PUBLIC int attn_gated_delta_prefill_plan(
    const struct attn_gated_delta_prefill_desc *given_desc,
    const struct attn_gated_delta_prefill_shape *given_shape,
    struct attn_gated_delta_prefill_launches *launches)
{
    struct attn_gated_delta_prefill_desc desc;
    struct attn_gated_delta_prefill_shape shape;
    if (!given_desc || !given_shape)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "gated_delta_prefill: desc or shape is NULL");
    int r = attn_adopt_named("gated_delta_prefill: desc", &desc, sizeof(desc), given_desc);
    if (!r)
        r = attn_adopt_named("gated_delta_prefill: shape", &shape, sizeof(shape), given_shape);
    return r ? r : find_launches(&desc, &shape, launches);
}

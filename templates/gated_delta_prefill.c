/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the gated delta rule over prompts, in chunks of 64 tokens.
 * templates/gated_delta_prefill/chunk.h has the formulas. In a call of one launch a workgroup goes
 * over the chunks of one sequence and value head. Each of its four waves keeps some value elements
 * of the state in registers, in f32, over all chunks. The loads of the next chunk's rows run while
 * a wave computes one chunk.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/blocks.h"
#include "templates/linear/tile.h"
#include "templates/linear/triangle.h"
#include "templates/template.h"
#include "templates/workgroup/grid.h"

#include <stdio.h>

/* Indices in att_tile.own. VALUES: number of value elements (columns of V) of a wave. STAGES: mask
 * of the stages (bit enum att_stage) that the row serves. */
enum { VALUES, STAGES };

static const struct att_tile tiles[] = {
    {.waves = DELTA_WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 32, [STAGES] = 1 << ATT_STAGE_ALL},
     .why = "a strip of keys that is read from LDS is multiplied with two blocks of the state"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 16, [STAGES] = 1 << ATT_STAGE_ALL},
     .why = "values of 64 elements, and few sequences and heads"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 2,
     .own = {[VALUES] = 16, [STAGES] = 1 << ATT_STAGE_CHUNKS},
     .why = "two workgroups of a compute unit hide each other's waits"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 16, [STAGES] = 1 << ATT_STAGE_CHUNKS},
     .why = "likewise, where LDS has no room for two"},
    {.waves = 1,
     .waves_per_simd = 1,
     .own = {[VALUES] = 32, [STAGES] = 1 << ATT_STAGE_SEGMENTS},
     .why = "registers hold all of a chunk, which is loaded for two blocks of value elements"},
    {.waves = 1,
     .waves_per_simd = 1,
     .own = {[VALUES] = 16, [STAGES] = 1 << ATT_STAGE_SCAN},
     .why = "few sequences and heads still have many waves, and each chunk takes less time"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 2,
     .own = {[VALUES] = 32, [STAGES] = 1 << ATT_STAGE_OUTPUTS},
     .why = "queries are multiplied with two blocks of the state"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 2,
     .own = {[VALUES] = 16, [STAGES] = 1 << ATT_STAGE_OUTPUTS},
     .why = "values of 64 elements"},
};

static const struct att_knob knobs[] = {
    {"values", 1, {16}},
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned lds = delta_lds_bytes(v), most = m->lds_bytes / t->waves_per_simd;
    if (att_triangle_instr(m) < 0 || tir_find_mma(m, DELTA_BLOCK, DELTA_BLOCK, 0, att_dtype(v)) < 0)
        return att_reject(why, ATT_FIELD_COUNT, "%s has no matrix instruction of 16 x 16 floats",
                          m->name);
    if (!(t->own[STAGES] & 1u << v->stage))
        return att_reject(why, ATT_STAGE, "the row is for other launches");
    if (t->own[VALUES] * t->waves > (unsigned)v->head_dim_v)
        return att_reject(why, ATT_HEAD_DIM_V, "%u waves have %u value elements each", t->waves,
                          t->own[VALUES]);
    if (lds > most)
        return att_reject(why, ATT_HEAD_DIM, "a chunk takes %u B of LDS, %s has %u", lds, m->name,
                          most);
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    enum { KEY_MAX = 128 };
    if (!att_state_check_dims(v, why))
        return false;
    if (v->head_dim > KEY_MAX)
        return att_reject(why, ATT_HEAD_DIM, "%d is not 64 or 128", v->head_dim);
    if (v->gates == ATT_GATES_CONSTANT)
        return att_reject(why, ATT_GATES, "the delta rule has decays of each token");
    if (v->stage == ATT_STAGE_SUMS)
        return att_reject(why, ATT_STAGE, "stage sums is for gated_rmsnorm");
    return att_check_tile(v, m, why);
}

/* Sets *second to the kernel for few sequences and heads, which would leave compute units without a
 * workgroup. Returns false if there is none, or if n > 0. Half as many value elements for each wave
 * give twice as many workgroups, with half as many products for each chunk. The limit is a quarter
 * of the target's compute units. All workgroups of such a launch then run at once even on the
 * smallest part of a target (MI308X: 80 of 304 units). */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    enum { HALF_VALUES = 2 /* 1 + index of the kernel's row in tiles[] */, SMALLEST_PART = 4 };
    const int least = (int)(tiles[0].own[VALUES] * tiles[0].waves);
    if (n || v->head_dim_v < least || v->stage != ATT_STAGE_ALL)
        return false;
    *second = (struct att_second){
        .tile = HALF_VALUES,
        .calls = {.rows = {{ARG_WORKGROUPS, 0, (int64_t)m->cus / SMALLEST_PART / 2}}, .count = 1}};
    return true;
}

/* ---- Kernels ---- */

/* A launch of a call (enum att_stage), and the work of its workgroups. A unit of work is one value
 * head of a row; a row is a sequence, a chunk or a segment. */
struct stage {
    /* Name of the argument that has the call's number of units: chunks or segments, times value
     * heads. NULL: a row is a sequence, and the grid has the value heads and the sequences. */
    const char *units;
    /* Sets d's sequence and tokens to row `row` (i32, index). Returns an i1: false if the row has
     * no tokens. */
    struct tir_value (*find)(struct delta *d, struct tir_value row);
    /* Builds the work of a workgroup on its row and value head. */
    void (*visit)(struct delta *d);
    /* Columns that the workgroups of a unit divide among each other. SLICE: the columns of V.
     * VALUES_AND_KEYS: the columns of V, then of the transition. ALL_VALUES: none, since a unit has
     * one workgroup. */
    enum { SLICE, ALL_VALUES, VALUES_AND_KEYS } columns;
};

/* Sets d->sequence and its slots for sequence `row` (i32, index). Returns an i1: false if it has no
 * tokens. */
static struct tir_value find_sequence(struct delta *d, struct tir_value row)
{
    d->sequence = att_sequence_of_prompt(&d->b, row);
    delta_find_slot(d);
    d->block_row = att_block_row(&d->b, &d->sequence);
    return tir_cmp_gt(&d->b, d->sequence.count, tir_i32(&d->b, 0));
}

/* Sets d's sequence and tokens for the chunk with row `row` (i32, index) of `chunks`. Returns an
 * i1: false if it has no tokens. */
static struct tir_value find_chunk(struct delta *d, struct tir_value row)
{
    const struct tir_value token = delta_find_chunk(d, row);
    delta_find_slot(d);
    delta_begin_chunk(d, token);
    return tir_cmp_gt(&d->b, d->left, tir_i32(&d->b, 0));
}

/* Sets d's sequence and tokens for the segment with row `row` (i32, index) of `segments`. Returns
 * an i1: false if it has no tokens. */
static struct tir_value find_segment(struct delta *d, struct tir_value row)
{
    delta_find_segment(d, row);
    delta_find_slot(d);
    if (d->v->stage == ATT_STAGE_SCAN)
        d->block_row = att_block_row(&d->b, &d->sequence);
    return tir_cmp_lt(&d->b, d->token, d->sequence.end);
}

/* The launches, by enum att_stage. */
static const struct stage stages[] = {
    [ATT_STAGE_ALL] = {NULL, find_sequence, delta_visit_sequence, SLICE},
    [ATT_STAGE_CHUNKS] = {ARG_CHUNK_UNITS, find_chunk, delta_make_chunk, ALL_VALUES},
    [ATT_STAGE_SEGMENTS] = {ARG_SEGMENT_UNITS, find_segment, delta_make_segment, VALUES_AND_KEYS},
    [ATT_STAGE_SCAN] = {ARG_SEGMENT_UNITS, find_segment, delta_scan_segment, SLICE},
    [ATT_STAGE_OUTPUTS] = {ARG_CHUNK_UNITS, find_chunk, delta_make_outputs, SLICE},
};

/* Returns the number of workgroups of a unit (a row and a value head), which divide its columns. It
 * is the size of the grid in x if a row is a sequence. */
static int parts_of(const struct att_variant *v, const struct att_tile *t)
{
    const int all = v->head_dim_v + (stages[v->stage].columns == VALUES_AND_KEYS ? v->head_dim : 0);
    return stages[v->stage].columns == ALL_VALUES ? 1 : all / (t->own[VALUES] * t->waves);
}

/* Sets the workgroup's heads, and its wave's value elements. Returns its row (i32, index). If
 * s->units is not NULL, the `parts` workgroups of a unit, which read the same data, are neighbours
 * on one XCD. */
static struct tir_value choose_work(struct delta *d, const struct stage *s, int parts)
{
    struct tir_builder *b = &d->b;
    struct tir_value part = tir_block_id(b, 0), row = tir_block_id(b, 2);
    d->value_head = tir_block_id(b, 1);
    if (s->units) {
        const struct tir_value units = tir_arg(b, s->units, TIR_I32), zero = tir_i32(b, 0);
        const struct tir_value heads = tir_arg(b, ARG_VALUE_HEADS, TIR_I32);
        const struct tir_value item = att_xcd_item(b, part, zero, att_times(b, units, parts));
        const struct tir_value unit = tir_div(b, item, tir_i32(b, parts));
        part = tir_sub(b, item, att_times(b, unit, parts));
        row = tir_div(b, unit, heads);
        d->value_head = tir_sub(b, unit, tir_mul(b, row, heads));
    }
    d->wave = tir_wave_id(b);
    part = tir_add(b, att_times(b, part, (int)d->waves), d->wave);
    d->first = att_times(b, part, (int)d->values);
    d->head = tir_div(b, d->value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    return row;
}

/* Builds the kernel of launch `s`, in which each unit has `parts` workgroups. A workgroup whose row
 * has no tokens does nothing. */
static void visit(struct delta *d, const struct stage *s, int parts)
{
    const struct tir_value row = choose_work(d, s, parts);
    delta_choose(d);
    struct tir_if has_tokens = att_begin_if(&d->b, s->find(d, row));
    s->visit(d);
    tir_end_if(&d->b, &has_tokens, NULL);
    tir_return(&d->b);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct delta d = {.v = v, .m = m, .dtype = att_dtype(v)};
    const struct stage *const stage = &stages[v->stage];
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const int parts = parts_of(v, &tile);
    d.values = tile.own[VALUES];
    d.waves = tile.waves;
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    d.b = tir_at_end(f, f->body);
    visit(&d, stage, parts);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{stage->units, 1, parts}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    if (!stage->units) {
        out->grid[1].arg = ARG_VALUE_HEADS;
        out->grid[2].arg = ARG_BATCH;
    }
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", d.values, tile.waves);
}

const struct att_template att_template_gated_delta_prefill = {
    .name = "gated_delta_prefill",
    .description = "gated delta rule over prompts, in chunks, with states",
    .takes = OP_TAKES_GATED_DELTA_PREFILL | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"values", "stages"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies spans of bytes between two tensors, such as checkpoints of the states of all layers in one
 * launch. A list on the device has each span's offsets and size. A workgroup copies a piece of one
 * span. The buffer resource ends with the span, so that its last piece may be short.
 */
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    WORD = 4 /* bytes */,
    CHUNK = 4 /* words that a lane copies at once */,
    SPAN = 24 /* bytes of a list entry: i64 offsets of source and target, i64 size in bytes */,
    KIB = 1024 /* bytes */
};

/* Index in att_tile.own of the number of passes. In a pass each lane of a workgroup copies 16
 * bytes. */
enum { PASSES };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 4, .own = {[PASSES] = 4}, .why = "four loads under way"},
};

static const struct att_knob knobs[] = {
    {"passes", 3, {1, 2, 8}},
    {"waves", 2, {8, 16}},
    {"waves_per_simd", 2, {2, 8}},
};

/* Returns the number of bytes that a workgroup copies with tile `t`, its piece of a span. */
static int piece_bytes(const struct att_tile *t, const struct tir_machine *m)
{
    return t->own[PASSES] * t->waves * (int)tir_lanes(m) * CHUNK * WORD;
}

/* Returns the tile type of a workgroup's piece: i32 words in rows of 16 bytes, one row for each
 * lane and pass. */
static struct tir_type piece_type(struct tir_builder *b, const struct att_tile *t)
{
    const unsigned rows = (unsigned)piece_bytes(t, b->f->machine) / (CHUNK * WORD);
    const struct tir_layout l = tir_spread_chunks(b->f->machine, t->waves, CHUNK, rows, CHUNK);
    return tir_tile(b->f, TIR_I32, rows, CHUNK, &l);
}

/* Returns a view of `bytes` bytes (i32) at address `base` (i64), with 16 bytes in each row. */
static struct tir_view words_view(struct tir_builder *b, struct tir_value base,
                                  struct tir_value bytes)
{
    return (struct tir_view){tir_make_rsrc(b, base, bytes), tir_i32(b, CHUNK * WORD),
                             tir_i32(b, 0)};
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const int piece = piece_bytes(&tile, m);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct tir_builder at_end = tir_at_end(f, f->body), *b = &at_end;
    const struct tir_value zero = tir_i32(b, 0), none = tir_i64(b, 0);
    const struct tir_value span = tir_mul(b, att_wide(b, tir_block_id(b, 1)), tir_i64(b, SPAN));
    const struct tir_value list = att_at(b, ARG_SPANS, span);
    const struct tir_value source = tir_scalar_load(b, list, zero, TIR_I64);
    const struct tir_value target = tir_scalar_load(b, list, tir_i32(b, 8), TIR_I64);
    const struct tir_value bytes = tir_scalar_load(b, list, tir_i32(b, 16), TIR_I64);
    const struct tir_value first = tir_mul(b, att_wide(b, tir_block_id(b, 0)), tir_i64(b, piece));
    const struct tir_value left = tir_min(b, tir_sub(b, bytes, first), tir_i64(b, piece));
    const struct tir_value there =
        tir_and(b, tir_cmp_ge(b, tir_or(b, source, target), none), tir_cmp_gt(b, left, none));
    struct tir_if some = att_begin_if(b, there);
    const struct tir_value size = tir_convert(b, left, TIR_I32);
    const struct tir_value from = att_at(b, ARG_SOURCE, tir_add(b, source, first));
    const struct tir_value to = att_at(b, ARG_TARGET, tir_add(b, target, first));
    const struct tir_value words =
        tir_tile_load(b, words_view(b, from, size), zero, piece_type(b, &tile));
    tir_tile_store(b, words_view(b, to, size), zero, words);
    tir_end_if(b, &some, NULL);
    tir_return(b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_SPAN_KIB, piece / KIB, 1}, {ARG_SPAN_COUNT, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "bytes=%d waves=%d", piece, tile.waves);
}

const struct att_template att_template_state_copy = {
    .name = "state_copy",
    .description = "spans of bytes, as states of all layers",
    .takes = OP_TAKES_STATE_COPY | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"passes"},
    .fits = att_fits_waves,
    .check = att_check_tile,
    .build = build,
};

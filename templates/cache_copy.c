/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that copies whole pages from one cache to another, or within one, as
 * bytes of any content.
 *
 * A page of K or V has outer x inner parts, and each part is a run of contiguous bytes. A page
 * without gaps is one run. A workgroup copies a piece of one run of one tensor, for one pair of
 * pages. The buffer resource ends with the run, so that the last piece may be short.
 */
#include "ir/builder.h"
#include "templates/cache/cache.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

/* Bytes of a word, and of a pair of page numbers (two i64). */
enum { WORD = 4, PAIR = 16 };
/* The tensors of a cache, as indices in names[]. */
enum { K, V, K_SCALE, V_SCALE, TENSORS };

/* CHUNK: number of words of 4 bytes that a lane copies at once from K or V; from scales a lane
 * copies one word. SCALE_WEIGHT: ratio of the bytes of keys to the bytes of scales that a workgroup
 * copies, as in runtime/host_cache_copy.c. */
enum { CHUNK = 4, SCALE_WEIGHT = 8 };

/* Index in att_tile.own of the number of times that each lane copies 16 bytes of K or V. */
enum { PASSES };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 2, .own = {[PASSES] = 2}, .why = "two loads under way"},
};

static const struct att_knob knobs[] = {
    {"passes", 3, {1, 4, 8}},
    {"waves", 4, {1, 2, 8, 16}},
    {"waves_per_simd", 2, {4, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct copy {
    struct tir_builder b;
    /* The row of tiles[] that the variant uses. */
    struct att_tile tile;
    /* i32, indices: part: the run of bytes in the page. piece: this workgroup's piece of the
     * run. */
    struct tir_value part, piece;
    /* i64: number of the page that is read, and of the page that is written. */
    struct tir_value from_page, to_page;
};

/* Names of the arguments that describe a tensor's pages. A page has outer parts, and each of these
 * has inner parts. */
struct names {
    /* Names of arguments: addresses of the tensors that are read and written; bytes in each from a
     * page to the next (I64). */
    const char *from, *to, *from_step, *to_step;
    /* Names of arguments: bytes from an outer part of a page to the next (I64), from an inner part
     * to the next (I64), and of a run (I32). outer_step is NULL if the page has one outer part. */
    const char *outer_step, *inner_step, *run;
};

/* The arguments of each tensor. */
static const struct names names[TENSORS] = {
    [K] = {ARG_K_FROM, ARG_K, ARG_K_FROM_PAGE_BYTES, ARG_K_PAGE_BYTES, ARG_K_OUTER_BYTES,
           ARG_K_INNER_BYTES, ARG_K_RUN_BYTES},
    [V] = {ARG_V_FROM, ARG_V, ARG_V_FROM_PAGE_BYTES, ARG_V_PAGE_BYTES, ARG_V_OUTER_BYTES,
           ARG_V_INNER_BYTES, ARG_V_RUN_BYTES},
    [K_SCALE] = {ARG_K_SCALE_FROM, ARG_K_SCALE, ARG_SCALE_FROM_PAGE_BYTES, ARG_SCALE_PAGE_BYTES,
                 NULL, ARG_SCALE_INNER_BYTES, ARG_SCALE_RUN_BYTES},
    [V_SCALE] = {ARG_V_SCALE_FROM, ARG_V_SCALE, ARG_SCALE_FROM_PAGE_BYTES, ARG_SCALE_PAGE_BYTES,
                 NULL, ARG_SCALE_INNER_BYTES, ARG_SCALE_RUN_BYTES},
};

/* Copies this workgroup's piece of a run of the tensor with argument names `n`. The piece has
 * `words` words of 4 bytes; each lane copies `per_lane` adjacent words at once. Does nothing if the
 * page has no such run or piece. */
static void copy_piece(struct copy *c, const struct names *n, unsigned words, unsigned per_lane)
{
    struct tir_builder *b = &c->b;
    const struct tir_value inner =
        tir_arg(b, n->outer_step ? ARG_INNER_PARTS : ARG_SCALE_PARTS, TIR_I32);
    const struct tir_value outer_index = tir_div(b, c->part, inner);
    const struct tir_value inner_index = tir_sub(b, c->part, tir_mul(b, outer_index, inner));
    const int first = (int)words * WORD;
    struct tir_value at = tir_mul(b, att_wide(b, inner_index), tir_arg(b, n->inner_step, TIR_I64));
    if (n->outer_step)
        at = tir_add(b, at,
                     tir_mul(b, att_wide(b, outer_index), tir_arg(b, n->outer_step, TIR_I64)));
    const struct tir_value piece = att_wide_times(b, c->piece, first);
    const struct tir_value offset = tir_add(b, at, piece);
    const struct tir_value left = tir_sub(b, att_wide(b, tir_arg(b, n->run, TIR_I32)), piece);
    const struct tir_value outer =
        n->outer_step ? tir_arg(b, ARG_OUTER_PARTS, TIR_I32) : tir_i32(b, 1);
    const struct tir_value there =
        tir_and(b, tir_cmp_lt(b, outer_index, outer), tir_cmp_gt(b, left, tir_i64(b, 0)));
    struct tir_if some = att_begin_if(b, there);
    const struct tir_value bytes = tir_convert(b, left, TIR_I32), zero = tir_i32(b, 0);
    const struct tir_value from = tir_add(
        b, att_at(b, n->from, offset), tir_mul(b, c->from_page, tir_arg(b, n->from_step, TIR_I64)));
    const struct tir_value to = tir_add(b, att_at(b, n->to, offset),
                                        tir_mul(b, c->to_page, tir_arg(b, n->to_step, TIR_I64)));
    const struct att_token_tile tile = {
        .cols = per_lane,
        .lanes = 1,
        .run = 1,
        .passes = words / (per_lane * c->tile.waves * tir_lanes(b->f->machine)),
    };
    unsigned rows;
    const struct tir_layout l = att_token_layout(b->f->machine, &tile, c->tile.waves, &rows);
    const struct tir_type t = tir_tile(b->f, TIR_I32, rows, per_lane, &l);
    const struct tir_value step = tir_i32(b, (int)per_lane * WORD);
    const struct tir_view source = {tir_make_rsrc(b, from, bytes), step, zero};
    const struct tir_view target = {tir_make_rsrc(b, to, bytes), step, zero};
    tir_tile_store(b, target, zero, tir_tile_load(b, source, zero, t));
    tir_end_if(b, &some, NULL);
}

/* Returns the number of words of 4 bytes of K or V that a workgroup copies. */
static unsigned piece_words(const struct att_tile *t, const struct tir_machine *m)
{
    return t->own[PASSES] * (unsigned)t->waves * tir_lanes(m) * CHUNK;
}

/* Copies this workgroup's piece of tensor `tensor` (index in names[]). */
static void copy_tensor(struct copy *c, int tensor)
{
    const struct tir_machine *const m = c->b.f->machine;
    const unsigned words = piece_words(&c->tile, m), least = c->tile.waves * tir_lanes(m);
    if (tensor < K_SCALE)
        copy_piece(c, &names[tensor], words, CHUNK);
    else
        copy_piece(c, &names[tensor], words / SCALE_WEIGHT > least ? words / SCALE_WEIGHT : least,
                   1);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct copy c = {0};
    att_find_tile(v, m, &c.tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, c.tile.waves, c.tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    struct tir_builder *b = &c.b;
    c.piece = tir_block_id(b, 0);
    c.part = tir_block_id(b, 1);
    const struct tir_value z = tir_block_id(b, 2);
    const struct tir_value pair = tir_shr(b, z, tir_i32(b, 2));
    const struct tir_value tensor = tir_and(b, z, tir_i32(b, TENSORS - 1));
    const struct tir_value list = att_at(b, ARG_PAGE_PAIRS, att_wide_times(b, pair, PAIR));
    c.from_page = tir_scalar_load(b, list, tir_i32(b, 0), TIR_I64);
    c.to_page = tir_scalar_load(b, list, tir_i32(b, PAIR / 2), TIR_I64);
    /* Pairs that pad a list have a negative page number, and are not copied. */
    const struct tir_value real = tir_cmp_ge(b, tir_or(b, c.from_page, c.to_page), tir_i64(b, 0));
    for (int i = 0; i < TENSORS; i++) {
        const struct tir_value mine = tir_cmp_eq(b, tensor, tir_i32(b, i));
        struct tir_if is = att_begin_if(b, tir_and(b, mine, real));
        copy_tensor(&c, i);
        tir_end_if(b, &is, NULL);
    }
    tir_return(b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_COPY_BYTES, (int)piece_words(&c.tile, m) * WORD, 1},
                 {ARG_COPY_PARTS, 1, 1},
                 {ARG_PAIRS, 1, TENSORS}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "bytes=%u waves=%d", piece_words(&c.tile, m) * WORD,
             c.tile.waves);
}

const struct att_template att_template_cache_copy = {
    .name = "cache_copy",
    .description = "whole pages of a cache into others",
    .takes = OP_TAKES_CACHE_COPY | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"passes"},
    .fits = att_fits_waves,
    .check = att_check_tile,
    .build = build,
};

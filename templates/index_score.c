/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/index_score.h"

#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/scalar.h"

#include <assert.h>

enum {
    DIM = ATT_INDEX_DIM,
    GROUP = ATT_INDEX_GROUP,
    ROWS = 32, /* of the matrix instruction */
    VECTOR = 16,
    TILE = 16, /* tokens, and elements of each, that SHUFFLE keeps together */
    LANES = 64,
    PARTS = ATT_INDEX_PARTS,
    WIDTH = DIM / PARTS, /* elements of a key's part */
    CARRY_KEYS = 0,      /* PARTS of them */
    CARRY_SCALE = PARTS,
    CARRY_PAGE,
};
static_assert(CARRY_PAGE + 1 == ATT_INDEX_CARRIED, "what a group carries");
static_assert(WIDTH * GROUP == LANES * VECTOR, "a part is one load");

bool att_index_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (tir_find_mma(m, ROWS, ROWS, 0, TIR_FP8) < 0)
        return att_reject(why, ATT_FIELD_COUNT, "%s has no %dx%d matrix product of fp8", m->name,
                          ROWS, ROWS);
    if (v->kv_layout == ATT_KV_LAYOUT_SHUFFLE && !v->paged)
        return att_reject(why, ATT_KV_LAYOUT, "kv_layout shuffle is for pages: paged is false");
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_LAYOUT, "packed rows are latents: keys are nhd or shuffle");
    if (v->small_pages && !v->paged)
        return att_reject(why, ATT_SMALL_PAGES, "small_pages is set, paged is false");
    return true;
}

static struct tir_value number(const struct att_index *x, struct tir_value scalar)
{
    return tir_splat(x->b, scalar, x->lane);
}

static struct tir_value constant(const struct att_index *x, int n)
{
    return number(x, tir_i32(x->b, n));
}

static struct tir_value part_offset(const struct att_index *x, struct tir_value inside);

struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v)
{
    const struct tir_machine *const m = b->f->machine;
    const struct tir_layout lane = tir_spread_column(m, 1, LANES);
    struct att_index x = {.b = b,
                          .paged = v->paged,
                          .shuffle = v->kv_layout == ATT_KV_LAYOUT_SHUFFLE,
                          .by_lane = v->paged && v->small_pages,
                          .heads = (unsigned)v->index_heads,
                          .blocks = ((unsigned)v->index_heads + ROWS - 1) / ROWS};
    assert(x.blocks <= ATT_INDEX_BLOCKS_MAX);
    x.mma = tir_find_mma(m, ROWS, ROWS, 0, TIR_FP8);
    x.lane = tir_tile(b->f, TIR_I32, LANES, 1, &lane);
    struct tir_spread s = tir_spread(m, 1);
    tir_spread_cols(&s, TIR_REGS, tir_bits(VECTOR));
    tir_spread_rows(&s, TIR_LANES, tir_bits(LANES));
    const struct tir_layout chunk = tir_spread_layout(&s);
    x.chunk = tir_tile(b->f, TIR_FP8, LANES, VECTOR, &chunk);
    const struct tir_layout products =
        tir_mma_result(&m->mma[x.mma], ROWS, GROUP, (struct tir_waves){0});
    x.products = tir_tile(b->f, TIR_F32, ROWS, GROUP, &products);
    x.lane_index = tir_row_index(b, x.lane);
    x.token = tir_and(b, x.lane_index, constant(&x, GROUP - 1));
    x.key_offset = part_offset(&x, x.token);
    x.scale_offset = tir_shl(b, x.token, constant(&x, 2));
    x.keys = tir_arg(b, "keys", TIR_I64);
    if (x.paged) {
        x.page_stride = tir_arg(b, "page_stride", TIR_I64);
        x.shift = tir_arg(b, "page_shift", TIR_I32);
        const struct tir_value tokens = tir_shl(b, tir_i32(b, 1), x.shift);
        x.scales = tir_add(b, x.keys, att_wide(b, att_times(b, tokens, DIM)));
    } else {
        x.scales = tir_arg(b, "key_scales", TIR_I64);
    }
    return x;
}

/* ---- The row ---- */

/* Rows beyond the last head are 0: they add nothing. */
static void load_query(struct att_index *x, struct tir_value row)
{
    struct tir_builder *b = x->b;
    const struct tir_mma *const mma = &b->f->machine->mma[x->mma];
    const struct tir_contraction k = tir_contract_rows(mma, WIDTH, VECTOR);
    const struct tir_layout left = tir_mma_left(mma, ROWS, &k, (struct tir_waves){0});
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, x->products), 1);
    const struct tir_type part = tir_tile(b->f, TIR_FP8, ROWS, WIDTH, &left);
    const struct tir_type weight = tir_tile(b->f, TIR_F32, ROWS, 1, &rows);
    const struct tir_value heads = tir_i32(b, (int)x->heads);
    const struct tir_value at = tir_mul(b, att_wide(b, row), att_stride(b, "q_token_stride", 1));
    const struct tir_value w_at =
        tir_mul(b, att_wide(b, row), att_stride(b, "weights_token_stride", 4));
    const struct tir_value head_stride = tir_convert(b, att_stride(b, "q_head_stride", 1), TIR_I32);
    struct tir_view q =
        att_view(b, tir_add(b, tir_arg(b, "q", TIR_I64), at), heads, head_stride, DIM, 0);
    const struct tir_view weights =
        att_view(b, tir_add(b, tir_arg(b, "weights", TIR_I64), w_at), heads, tir_i32(b, 4), 4, 0);
    for (unsigned i = 0; i < x->blocks; i++) {
        const struct tir_value first = tir_i32(b, (int)(i * ROWS));
        for (int g = 0; g < PARTS; g++) {
            q.byte = tir_i32(b, g * WIDTH);
            x->q[i][g] = tir_named(b, "q", tir_tile_load(b, q, first, part));
        }
        const struct tir_value w = tir_tile_load(b, weights, first, weight);
        x->weights[i] = tir_named(b, "w", tir_broadcast(b, w, x->products));
    }
}

/* The row of the block table of the row's sequence. */
static struct tir_value find_table(struct att_index *x, struct tir_value row)
{
    struct tir_builder *b = x->b;
    const struct tir_value rows = tir_arg(b, "row_sequences", TIR_I64);
    const struct tir_value null = tir_cmp_eq(b, rows, tir_i64(b, 0));
    const struct tir_type type = tir_scalar(TIR_I32);
    struct tir_value sequence = row;
    struct tir_if own = tir_begin_if(b, null, false, &type, 1);
    tir_else(b, &own, &row);
    sequence = tir_scalar_load(b, rows, tir_shl(b, row, tir_i32(b, 2)), TIR_I32);
    tir_end_if(b, &own, &sequence);
    const struct tir_value at =
        tir_mul(b, att_wide(b, sequence), att_stride(b, "block_table_stride", 4));
    return tir_add(b, tir_arg(b, "block_table", TIR_I64), at);
}

void att_index_row(struct att_index *x, struct tir_value row, struct tir_value end)
{
    x->last = att_plus(x->b, end, -1);
    if (x->paged)
        x->table = find_table(x, row);
    load_query(x, row);
}

/* ---- Keys ---- */

/* A group of whole tiles of tokens lies together in a page of that size or more: its address is a
 * scalar. The first key is a multiple of the group. */
struct group {
    struct tir_value keys, scales; /* resources */
};

static struct tir_value last_group(const struct att_index *x, struct tir_value key)
{
    struct tir_builder *b = x->b;
    return tir_min(b, key, tir_and(b, x->last, tir_i32(b, -GROUP)));
}

static struct tir_value scalar_page(const struct att_index *x, struct tir_value key)
{
    struct tir_builder *b = x->b;
    const struct tir_value entry = tir_shr(b, last_group(x, key), x->shift);
    return tir_scalar_load(b, x->table, tir_shl(b, entry, tir_i32(b, 2)), TIR_I32);
}

static struct tir_value behind(const struct att_index *x, struct tir_value base,
                               struct tir_value index, int bytes)
{
    struct tir_builder *b = x->b;
    return tir_add(b, base, att_wide(b, att_times(b, index, bytes)));
}

static struct group find_group(const struct att_index *x, struct tir_value key,
                               struct tir_value page)
{
    struct tir_builder *b = x->b;
    const struct tir_value first = last_group(x, key);
    if (x->paged) {
        const struct tir_value tokens = tir_shl(b, tir_i32(b, 1), x->shift);
        const struct tir_value inside = tir_and(b, first, att_plus(b, tokens, -1));
        const struct tir_value start = tir_mul(b, att_wide(b, page), x->page_stride);
        return (struct group){
            tir_make_rsrc(b, behind(x, tir_add(b, x->keys, start), inside, DIM),
                          tir_i32(b, GROUP * DIM)),
            tir_make_rsrc(b, behind(x, tir_add(b, x->scales, start), inside, 4),
                          tir_i32(b, GROUP * 4)),
        };
    }
    const struct tir_value left = att_plus(b, tir_sub(b, x->last, first), 1);
    const struct tir_value n = tir_min(b, left, tir_i32(b, GROUP));
    const struct tir_value at = att_wide(b, first);
    return (struct group){
        tir_make_rsrc(b, tir_add(b, x->keys, tir_mul(b, at, tir_i64(b, DIM))),
                      att_times(b, n, DIM)),
        tir_make_rsrc(b, tir_add(b, x->scales, tir_mul(b, at, tir_i64(b, 4))), att_times(b, n, 4)),
    };
}

static struct tir_type scale_type(const struct att_index *x)
{
    struct tir_type t = x->lane;
    t.dtype = TIR_F32;
    return t;
}

/* Bytes from a lane's part of its key to the next one. */
static int apart(const struct att_index *x) { return x->shuffle ? 2 * TILE * TILE : 2 * VECTOR; }

static void load_group(const struct att_index *x, const struct group *g, struct tir_value *out)
{
    struct tir_builder *b = x->b;
    for (int i = 0; i < PARTS; i++)
        out[i] = tir_tile_fetch(b, g->keys, x->key_offset, (unsigned)(i * apart(x)), x->chunk);
    out[CARRY_SCALE] = tir_tile_fetch(b, g->scales, x->scale_offset, 0, scale_type(x));
}

/* Smaller pages: each lane looks its own key's up, and waits for it. */

static struct tir_value wide(const struct att_index *x, struct tir_value a)
{
    return tir_zext(x->b, a, TIR_I64);
}

/* Byte offset of each lane's part of token `inside` of its page, or of a group, i32. */
static struct tir_value part_offset(const struct att_index *x, struct tir_value inside)
{
    struct tir_builder *b = x->b;
    const struct tir_value half = tir_shr(b, x->lane_index, constant(x, (int)tir_bits(GROUP)));
    if (!x->shuffle)
        return tir_add(b, tir_shl(b, inside, constant(x, (int)tir_bits(DIM))),
                       tir_shl(b, half, constant(x, (int)tir_bits(VECTOR))));
    /* 16 tokens: their first 16 elements, their next 16 ... */
    const struct tir_value tile = tir_shr(b, inside, constant(x, (int)tir_bits(TILE)));
    const struct tir_value token = tir_and(b, inside, constant(x, TILE - 1));
    const struct tir_value at = tir_add(b, tir_shl(b, tile, constant(x, (int)tir_bits(TILE * DIM))),
                                        tir_shl(b, token, constant(x, (int)tir_bits(TILE))));
    return tir_add(b, at, tir_shl(b, half, constant(x, (int)tir_bits(TILE * TILE))));
}

static void load_lanes(const struct att_index *x, struct tir_value first, struct tir_value *out)
{
    struct tir_builder *b = x->b;
    const struct tir_value key =
        tir_min(b, tir_add(b, x->token, number(x, first)), number(x, x->last));
    const struct tir_value entry = tir_shr(b, key, number(x, x->shift));
    const struct tir_value page =
        wide(x, tir_tile_gather(b, x->table, wide(x, tir_shl(b, entry, constant(x, 2))),
                                tir_i32(b, 0), x->lane));
    const struct tir_value inside = tir_sub(b, key, tir_shl(b, entry, number(x, x->shift)));
    const struct tir_value start =
        tir_mul(b, page, tir_splat(b, x->page_stride, tir_typeof(b->f, page)));
    const struct tir_value own = tir_add(b, start, wide(x, part_offset(x, inside)));
    const struct tir_value scale = tir_add(b, start, wide(x, tir_shl(b, inside, constant(x, 2))));
    for (int i = 0; i < PARTS; i++)
        out[i] = tir_tile_gather(b, x->keys, own, tir_i32(b, i * apart(x)), x->chunk);
    out[CARRY_SCALE] = tir_tile_gather(b, x->scales, scale, tir_i32(b, 0), scale_type(x));
}

/* Sends for a group's keys; the page is that of its first. */
static void send_keys(const struct att_index *x, struct tir_value key,
                      struct tir_value carried[ATT_INDEX_CARRIED])
{
    if (x->by_lane) {
        load_lanes(x, key, carried);
        return;
    }
    const struct group g = find_group(x, key, carried[CARRY_PAGE]);
    load_group(x, &g, carried);
}

void att_index_send(const struct att_index *x, struct tir_value key, struct tir_value after,
                    struct tir_value carried[ATT_INDEX_CARRIED])
{
    carried[CARRY_PAGE] = x->paged && !x->by_lane ? scalar_page(x, key) : tir_i32(x->b, 0);
    send_keys(x, key, carried);
    if (x->paged && !x->by_lane)
        carried[CARRY_PAGE] = scalar_page(x, after);
}

/* ---- Scores ---- */

/* The fourths of a tile's rows, as registers tell them apart. */
static void cut(const struct att_index *x, struct tir_value a, struct tir_value out[PARTS])
{
    struct tir_builder *b = x->b;
    for (int i = 0; i < 2; i++) {
        const struct tir_value half = tir_half(b, a, i);
        out[2 * i] = tir_half(b, half, 0);
        out[2 * i + 1] = tir_half(b, half, 1);
    }
}

/* Products whose turn to be added up has not come: that is done between the next ones, so that
 * both pipes are busy. */
struct pending {
    struct tir_value products[PARTS], weights[PARTS]; /* a fourth of a block's rows each */
    struct tir_value *sum;                            /* of its group */
    bool is;
};

/* max(NaN, 0) is 0, so the NaN is kept by a product with 0; every head's score has it. */
static void add_part(const struct att_index *x, const struct pending *p, int i)
{
    struct tir_builder *b = x->b;
    if (!p->is)
        return;
    const struct tir_value zero = tir_float_like(b, p->products[i], 0.0f);
    if (!p->sum->id)
        *p->sum = tir_mul(b, p->products[i], zero);
    *p->sum = tir_fma(b, tir_max(b, p->products[i], zero), p->weights[i], *p->sum);
}

/* A group's products with every block of heads; what they replace in `p` is added up meanwhile. */
static void multiply(const struct att_index *x, const struct tir_value *keys, struct pending *p,
                     struct tir_value *sum)
{
    struct tir_builder *b = x->b;
    for (unsigned i = 0; i < x->blocks; i++) {
        struct tir_value s = tir_splat(b, tir_f32(b, 0.0f), x->products);
        for (int g = 0; g < PARTS; g++) {
            const struct tir_value k = tir_join_blocks(b, keys[g], GROUP);
            s = tir_mma(b, x->mma, x->q[i][g], tir_transpose(b, k), s);
            add_part(x, p, g);
        }
        cut(x, tir_named(b, "s", s), p->products);
        cut(x, x->weights[i], p->weights);
        p->sum = sum;
        p->is = true;
    }
}

/* The next keys and pages of a group, in place of those that have arrived. */
static void send_next(const struct att_index *x, struct att_index_set *set, int i)
{
    send_keys(x, att_plus(x->b, set->next, i * GROUP), set->carried[i]);
    if (x->paged && !x->by_lane)
        set->carried[i][CARRY_PAGE] = scalar_page(x, att_plus(x->b, set->after, i * GROUP));
}

/* 64 scores of two groups' sums. */
static struct tir_value finish(const struct att_index *x, const struct tir_value sums[2],
                               const struct tir_value scales[2])
{
    struct tir_builder *b = x->b;
    const struct tir_value low = tir_transpose(b, tir_col_sum(b, sums[0]));
    const struct tir_value high = tir_transpose(b, tir_col_sum(b, sums[1]));
    const struct tir_value both =
        tir_relayout(b, tir_stack(b, low, high), tir_layout_of(b->f, x->lane));
    const struct tir_value first = tir_cmp_lt(b, x->lane_index, constant(x, GROUP));
    return tir_mul(b, both, tir_select(b, first, scales[0], scales[1]));
}

void att_index_score(const struct att_index *x, struct att_index_set *sets, unsigned n,
                     struct tir_value *scores)
{
    struct tir_value sums[ATT_INDEX_SETS_MAX][2] = {0}, scales[ATT_INDEX_SETS_MAX][2];
    struct pending p = {0};
    assert(n <= ATT_INDEX_SETS_MAX);
    for (unsigned j = 0; j < n; j++)
        for (int i = 0; i < 2; i++) {
            struct tir_value keys[PARTS];
            for (int g = 0; g < PARTS; g++)
                keys[g] = sets[j].carried[i][CARRY_KEYS + g];
            scales[j][i] = sets[j].carried[i][CARRY_SCALE];
            send_next(x, &sets[j], i);
            multiply(x, keys, &p, &sums[j][i]);
        }
    for (int g = 0; g < PARTS; g++)
        add_part(x, &p, g);
    for (unsigned j = 0; j < n; j++)
        scores[j] = finish(x, sums[j], scales[j]);
}

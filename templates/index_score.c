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

struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v)
{
    const struct tir_machine *const m = b->f->machine;
    const struct tir_layout lane = tir_spread_column(m, 1, LANES);
    struct att_index x = {.b = b,
                          .paged = v->paged,
                          .shuffle = v->kv_layout == ATT_KV_LAYOUT_SHUFFLE,
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

/* The key of each lane, in a group from `key` on. */
static struct tir_value key_of(const struct att_index *x, struct tir_value key)
{
    return tir_min(x->b, tir_add(x->b, x->token, number(x, key)), number(x, x->last));
}

static struct tir_value wide(const struct att_index *x, struct tir_value a)
{
    return tir_zext(x->b, a, TIR_I64);
}

static struct tir_value find_page(const struct att_index *x, struct tir_value key)
{
    struct tir_builder *b = x->b;
    const struct tir_value entry = tir_shr(b, key_of(x, key), number(x, x->shift));
    const struct tir_value byte = wide(x, tir_shl(b, entry, constant(x, 2)));
    return tir_tile_gather(b, x->table, byte, tir_i32(b, 0), x->lane);
}

/* Byte offsets of each lane's part of its key, and of the key's scale, from the page's start. */
static void find_key(const struct att_index *x, struct tir_value key, struct tir_value *own,
                     struct tir_value *scale)
{
    struct tir_builder *b = x->b;
    const struct tir_value half = tir_shr(b, x->lane_index, constant(x, (int)tir_bits(GROUP)));
    struct tir_value inside = key_of(x, key);
    if (x->paged) {
        const struct tir_value page = tir_shl(b, tir_i32(b, 1), x->shift);
        inside = tir_and(b, inside, number(x, att_plus(b, page, -1)));
    }
    *scale = tir_shl(b, inside, constant(x, 2));
    if (!x->shuffle) {
        *own = tir_mul(b, tir_convert(b, inside, TIR_I64),
                       tir_int_like(b, tir_convert(b, inside, TIR_I64), DIM));
        *own = tir_add(b, *own, wide(x, tir_shl(b, half, constant(x, (int)tir_bits(VECTOR)))));
        return;
    }
    /* 16 tokens: their first 16 elements, their next 16 ... */
    const struct tir_value tile = tir_shr(b, inside, constant(x, 4));
    const struct tir_value token = tir_and(b, inside, constant(x, 15));
    const struct tir_value at =
        tir_add(b, tir_shl(b, tile, constant(x, 11)), tir_shl(b, token, constant(x, 4)));
    *own = wide(x, tir_add(b, at, tir_shl(b, half, constant(x, 8))));
}

static struct tir_value splat_wide(const struct att_index *x, struct tir_value scalar,
                                   struct tir_value like)
{
    return tir_splat(x->b, scalar, tir_typeof(x->b->f, like));
}

static void send_keys(const struct att_index *x, struct tir_value key,
                      struct tir_value carried[ATT_INDEX_CARRIED])
{
    struct tir_builder *b = x->b;
    struct tir_value own, scale;
    find_key(x, key, &own, &scale);
    struct tir_value scale_at = wide(x, scale);
    if (x->paged) {
        const struct tir_value page = wide(x, carried[CARRY_PAGE]);
        const struct tir_value start = tir_mul(b, page, splat_wide(x, x->page_stride, page));
        own = tir_add(b, own, start);
        scale_at = tir_add(b, scale_at, start);
    }
    const int apart = x->shuffle ? 512 : 2 * VECTOR;
    for (int i = 0; i < PARTS; i++)
        carried[CARRY_KEYS + i] = tir_tile_gather(b, x->keys, own, tir_i32(b, i * apart), x->chunk);
    struct tir_type f32 = x->lane;
    f32.dtype = TIR_F32;
    carried[CARRY_SCALE] = tir_tile_gather(b, x->scales, scale_at, tir_i32(b, 0), f32);
}

void att_index_send(const struct att_index *x, struct tir_value key, struct tir_value after,
                    struct tir_value carried[ATT_INDEX_CARRIED])
{
    carried[CARRY_PAGE] = x->paged ? find_page(x, key) : x->lane_index;
    send_keys(x, key, carried);
    if (x->paged)
        carried[CARRY_PAGE] = find_page(x, after);
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

/* Of a NaN and 0 the maximum is 0: the product with 0 keeps a NaN, which is in every head's. */
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
    if (x->paged)
        set->carried[i][CARRY_PAGE] = find_page(x, att_plus(x->b, set->after, i * GROUP));
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * New keys and values into the pages of a cache: token i of k_in and v_in goes to slot_mapping[i],
 * which is page * page_size + token, and nowhere where that is negative.
 *
 * A workgroup takes a few tokens of one head, K and V, and reads them once. A lane holds 16 bytes
 * of a row or more, which is a store of the same size; V's SHUFFLE layout puts tokens side by side,
 * so there a lane holds x rows, and where x tokens stay together they are turned in registers.
 */
#include "ir/builder.h"
#include "templates/cache.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum { ROWS = 128 /* at least */, ELEM = 2 /* bytes of bf16 and fp16 */, SLOT = 8 };

/* What becomes of K or of V. */
struct side {
    struct att_cache cache;
    struct att_cache_tiles tiles;
    struct tir_value x[ATT_CACHE_PANELS];
    struct tir_value slot, row;
};

struct write {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned waves, rows;
    struct tir_value head, token, left; /* the first token, and how many it has of them */
    struct side sides[2];
};

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    (void)m;
    if (v->kv_scale == ATT_KV_SCALE_BLOCK)
        return att_reject(why, ATT_KV_SCALE, "cache_write scales per tensor or per token");
    return att_cache_check_dims(v, why) && att_cache_check(v, why);
}

static void load(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const char *tensor = s->cache.value ? "v_in" : "k_in";
    char token_stride[32], head_stride[32];
    snprintf(token_stride, sizeof(token_stride), "%s_token_stride", tensor);
    snprintf(head_stride, sizeof(head_stride), "%s_head_stride", tensor);
    const struct tir_value step = att_stride(b, token_stride, ELEM);
    const struct tir_value head =
        tir_mul(b, att_wide(b, w->head), att_stride(b, head_stride, ELEM));
    const struct tir_value base =
        tir_add(b, tir_add(b, tir_arg(b, tensor, TIR_I64), head),
                tir_mul(b, att_wide(b, w->token), step));
    const struct tir_value row = tir_convert(b, step, TIR_I32);
    for (unsigned i = 0; i < s->tiles.n; i++) {
        const struct tir_view view =
            att_view(b, base, w->left, row, s->cache.dim * ELEM, s->tiles.first[i] * ELEM);
        s->x[i] = tir_tile_load(b, view, tir_i32(b, 0), s->tiles.panel[i]);
    }
}

/* Slots of this workgroup's tokens; rows behind the last token have none. */
static void load_slots(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct tir_value at = tir_mul(b, att_wide(b, w->token), tir_i64(b, SLOT));
    const struct tir_value base = tir_add(b, tir_arg(b, "slot_mapping", TIR_I64), at);
    const struct tir_view view = att_view(b, base, w->left, tir_i32(b, SLOT), SLOT, 0);
    const struct tir_value slot = tir_tile_load(b, view, tir_i32(b, 0), s->tiles.column);
    const struct tir_value index = tir_row_index(b, s->tiles.column);
    const struct tir_value last = tir_splat(b, att_plus(b, w->left, -1), tir_typeof(b->f, index));
    const struct tir_value sign =
        tir_sar(b, tir_sub(b, last, index), tir_int_like(b, index, 31));
    s->slot = tir_or(b, slot, tir_convert(b, sign, TIR_I64));
    s->row = att_cache_slot_row(&s->cache, s->slot);
}

/* The panels as the cache holds them; with a scale per token that is found here and stored. */
static void quantise(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct att_cache *c = &s->cache;
    if (c->dtype == att_dtype(w->v))
        return;
    struct tir_value inverse = {0}, absmax = {0};
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = tir_convert(b, s->x[i], TIR_F32);
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        inverse = tir_rcp(b, att_cache_tensor_scale(c));
    if (c->scaling == ATT_KV_SCALE_TOKEN) {
        for (unsigned i = 0; i < s->tiles.n; i++) {
            const struct tir_value own = att_absmax(b, s->x[i]);
            absmax = i ? tir_max(b, absmax, own) : own;
        }
        const struct tir_value scale = att_cache_scale_of(c, absmax);
        att_cache_store_scales(c, att_cache_scale_row(c, s->slot), scale);
        inverse = att_cache_inverse(c, scale);
    }
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = att_cache_quantise(c, s->x[i], inverse);
}

static void store(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct att_cache *c = &s->cache;
    if (!c->shuffle || !c->value) {
        for (unsigned i = 0; i < s->tiles.n; i++)
            att_cache_store(c, s->row, s->tiles.first[i], s->x[i]);
        return;
    }
    struct tir_if runs = tir_begin_if(b, att_cache_has_runs(c, s->slot), false, NULL, 0);
    for (unsigned i = 0; i < s->tiles.n; i++)
        att_cache_store_runs(c, s->row, s->tiles.first[i], s->x[i]);
    tir_else(b, &runs, NULL);
    for (unsigned i = 0; i < s->tiles.n; i++)
        att_cache_store(c, s->row, s->tiles.first[i], s->x[i]);
    tir_end_if(b, &runs, NULL);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    char name[ATT_NAME_MAX];
    const bool shuffle = v->kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    struct write w = {.v = v, .m = m, .waves = shuffle ? 1 : 4, .rows = shuffle ? 1 : ROWS};
    att_variant_name(v, name);
    struct tir_func *f = tir_func_create(name, m, w.waves);
    f->waves_per_simd = 2;
    w.b = tir_at_end(f, f->body);
    w.head = tir_block_id(&w.b, 1);
    for (int i = 0; i < 2; i++) {
        w.sides[i].cache = att_cache(&w.b, v, m, i == 1, w.head);
        const unsigned rows = att_cache_least_rows(&w.sides[i].cache, w.waves);
        w.rows = rows > w.rows ? rows : w.rows;
    }
    w.token = att_times(&w.b, tir_block_id(&w.b, 0), (int)w.rows);
    w.left = tir_min(&w.b, tir_sub(&w.b, tir_arg(&w.b, "tokens", TIR_I32), w.token),
                     tir_i32(&w.b, (int)w.rows));
    for (int i = 0; i < 2; i++) {
        w.sides[i].tiles = att_cache_tiles(&w.sides[i].cache, att_dtype(v), w.waves, w.rows);
        if (att_cache_lane_elements(&w.sides[i].cache, &w.sides[i].tiles) > 64)
            f->waves_per_simd = 1; /* as f32, what is to be scaled would not fit 256 */
        load(&w, &w.sides[i]);
    }
    for (int i = 0; i < 2; i++)
        load_slots(&w, &w.sides[i]);
    for (int i = 0; i < 2; i++) {
        quantise(&w, &w.sides[i]);
        store(&w, &w.sides[i]);
    }
    tir_return(&w.b);

    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1},
        .grid = {{"tokens", (int)w.rows, 1}, {"kv_heads", 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "tokens=%u waves=%u", w.rows, w.waves);
}

const struct att_template att_template_cache_write = {
    .name = "cache_write",
    .description = "new keys and values into the pages of a cache",
    .takes = ATT_BIT(DTYPE) | ATT_BIT(HEAD_DIM) | ATT_BIT(HEAD_DIM_V) | ATT_BIT(PAGE_SIZE) |
             ATT_BIT(KV_DTYPE) | ATT_BIT(KV_LAYOUT) | ATT_BIT(KV_SCALE),
    .check = check,
    .build = build,
};

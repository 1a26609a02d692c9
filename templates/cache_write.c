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

enum { MAX_PANELS = 8, MAX_DIM = 512, ROWS = 32 /* at least */, LANES = 64 };
enum { ELEM = 2 /* bytes of bf16 and fp16 */, SLOT = 8 };

/* A head dim is cut into panels of power-of-two width, on the same lanes: 192 is 128 + 64. */
struct panel {
    int first;
    struct tir_type type; /* of the dtype of k_in and v_in */
    struct tir_value x;
};

/* What becomes of K or of V. */
struct side {
    struct att_cache cache;
    struct panel panels[MAX_PANELS];
    unsigned n_panels;
    struct tir_type column; /* i64, one element a row, beside the panels' rows */
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
    static const enum att_field fields[] = {ATT_HEAD_DIM, ATT_HEAD_DIM_V};
    for (int i = 0; i < 2; i++) {
        const int dim = att_get(v, fields[i]);
        if (dim % 16 || dim > MAX_DIM)
            return att_reject(why, fields[i], "%d is not a multiple of 16 up to %d", dim, MAX_DIM);
    }
    return att_cache_check(v, why);
}

static unsigned largest_power(int n)
{
    unsigned p = 1;
    while (2 * p <= (unsigned)n)
        p *= 2;
    return p;
}

/* The lanes and rows of a side, as its widest panel has them: a lane has 16 bytes of what is stored
 * or, of runs of tokens, x of them and 64 elements. */
static struct att_token_tile tile_of(const struct att_cache *c)
{
    const unsigned width = largest_power(c->dim), x = (unsigned)c->x;
    const bool runs = c->shuffle && c->value;
    const unsigned lanes = width / (runs ? 64 / x : x);
    return (struct att_token_tile){
        .cols = width, .lanes = lanes < LANES ? lanes : LANES, .run = runs ? x : 1, .passes = 1,
    };
}

static unsigned rows_of(const struct write *w, const struct att_token_tile *t)
{
    return LANES / t->lanes * t->run * w->waves;
}

static void choose_layouts(struct write *w, struct side *s)
{
    const int dim = s->cache.dim;
    struct att_token_tile tile = tile_of(&s->cache);
    tile.passes = w->rows / rows_of(w, &tile);
    for (int first = 0; first < dim; first += (int)tile.cols) {
        while (first + (int)tile.cols > dim)
            tile.cols /= 2;
        struct panel *p = &s->panels[s->n_panels++];
        unsigned rows;
        const struct tir_layout l = att_token_layout(&tile, w->waves, &rows);
        p->first = first;
        p->type = tir_tile(w->b.f, att_dtype(w->v), rows, tile.cols, &l);
    }
    const struct tir_layout l = tir_layout_slice(tir_layout_of(w->b.f, s->panels[0].type), 1);
    s->column = tir_tile(w->b.f, TIR_I64, w->rows, 1, &l);
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
    for (unsigned i = 0; i < s->n_panels; i++) {
        struct panel *p = &s->panels[i];
        const struct tir_view view =
            att_view(b, base, w->left, row, s->cache.dim * ELEM, p->first * ELEM);
        p->x = tir_tile_load(b, view, tir_i32(b, 0), p->type);
    }
}

/* Slots of this workgroup's tokens; rows behind the last token have none. */
static void load_slots(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct tir_value at = tir_mul(b, att_wide(b, w->token), tir_i64(b, SLOT));
    const struct tir_value base = tir_add(b, tir_arg(b, "slot_mapping", TIR_I64), at);
    const struct tir_view view = att_view(b, base, w->left, tir_i32(b, SLOT), SLOT, 0);
    const struct tir_value slot = tir_tile_load(b, view, tir_i32(b, 0), s->column);
    const struct tir_value index = tir_row_index(b, s->column);
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
    for (unsigned i = 0; i < s->n_panels; i++)
        s->panels[i].x = tir_convert(b, s->panels[i].x, TIR_F32);
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        inverse = tir_rcp(b, att_cache_tensor_scale(c));
    if (c->scaling == ATT_KV_SCALE_TOKEN) {
        for (unsigned i = 0; i < s->n_panels; i++) {
            const struct tir_value own = att_absmax(b, s->panels[i].x);
            absmax = i ? tir_max(b, absmax, own) : own;
        }
        const struct tir_value scale = att_cache_scale_of(c, absmax);
        att_cache_store_scales(c, att_cache_scale_row(c, s->slot), scale);
        inverse = att_cache_inverse(c, scale);
    }
    for (unsigned i = 0; i < s->n_panels; i++)
        s->panels[i].x = att_cache_quantise(c, s->panels[i].x, inverse);
}

static void store(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct att_cache *c = &s->cache;
    if (!c->shuffle || !c->value) {
        for (unsigned i = 0; i < s->n_panels; i++)
            att_cache_store(c, s->row, s->panels[i].first, s->panels[i].x);
        return;
    }
    struct tir_if runs = tir_begin_if(b, att_cache_has_runs(c, s->slot), false, NULL, 0);
    for (unsigned i = 0; i < s->n_panels; i++)
        att_cache_store_runs(c, s->row, s->panels[i].first, s->panels[i].x);
    tir_else(b, &runs, NULL);
    for (unsigned i = 0; i < s->n_panels; i++)
        att_cache_store(c, s->row, s->panels[i].first, s->panels[i].x);
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
        const struct att_token_tile t = tile_of(&w.sides[i].cache);
        if (rows_of(&w, &t) > w.rows)
            w.rows = rows_of(&w, &t);
    }
    w.token = att_times(&w.b, tir_block_id(&w.b, 0), (int)w.rows);
    w.left = tir_min(&w.b, tir_sub(&w.b, tir_arg(&w.b, "tokens", TIR_I32), w.token),
                     tir_i32(&w.b, (int)w.rows));
    for (int i = 0; i < 2; i++) {
        choose_layouts(&w, &w.sides[i]);
        if (shuffle && w.sides[i].n_panels > 1)
            f->waves_per_simd = 1; /* as f32, both panels of a scaled V take half of 512 */
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

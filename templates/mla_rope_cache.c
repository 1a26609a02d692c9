/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the step before absorbed latent attention in one pass. It rotates each head's q_pe and
 * the token's k_pe, and normalises the token's latent kv_c. Latent and k_pe become a row of the
 * paged cache. R is the rotation, and ‖ appends elements:
 *
 *   q_out = q_nope ‖ R q_pe        a head
 *   row   = norm(kv_c) ‖ R k_pe    a token
 *
 * Three parts of the grid divide the work, so that no wave has a long chain of loads. In the first
 * part each wave has the latents of a run of tokens. In the second part each wave rotates 16 heads
 * of a token, and k_pe with the token's first heads. In the third part each wave copies q_nope, the
 * latents of queries, for 4 of a workgroup's 16 heads. A lane loads 16 bytes of a latent at a time.
 * With many items each workgroup has some work of all three parts, see visit_whole().
 *
 * With field product_dim the latents of queries are products of a head's q_nope and its part of
 * W_UK. Each wave of the third part then multiplies 16 rows of W_UK (workgroup/row_product.h). The
 * 64 elements that rotate have the layout of rope_qk_norm_cache's heads (rope/rope.h).
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/cache/e2m1.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/row_product.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>
#include <string.h>

/* Sizes by which the host (runtime/host_mla.c) counts workgroups, for every tile: waves of a
 * workgroup, query heads of a wave, and query heads of a workgroup. */
enum { WAVES = 4, WAVE_HEADS = 4, HEADS = WAVES * WAVE_HEADS };
enum { CHUNK = 8 /* elements of a lane's load */, FLOAT = 4 };

static const struct att_tile tiles[] = {
    {.waves = WAVES, .waves_per_simd = 8, .why = "a wave has little to hold, and waits for loads"},
};

static const struct att_knob knobs[] = {
    {"waves", 4, {1, 2, 8, 16}},
    {"waves_per_simd", 2, {2, 4}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct mla_rope {
    const struct att_variant *v;
    /* the variant for `rope`: the rotated part as heads of `width` elements */
    struct att_variant pe;
    /* loads, rotates and stores the rotated part; rope.b is the kernel's builder */
    struct rope rope;
    int width; /* number of elements of the rotated part: 64; 0: there is none */
    /* f32: the cache's scale; no value: the cache has none, or several */
    struct tir_value kv_scale;
};

/* True if the template serves a variant with cache rows that are key and value (att_is_pooled());
 * if not, the reason is in `why`. The norm of such a row spans all 512 elements, and a launch
 * normalises only the latent. */
static bool check_pooled(const struct att_variant *v, struct att_why *why)
{
    if (v->head_dim != ATT_MIXED_FP8 + ATT_MIXED_ROTATED || v->head_dim_v != ATT_MIXED_FP8 ||
        v->kv_dtype != ATT_KV_DTYPE_FP8 || v->kv_scale != ATT_KV_SCALE_NONE)
        return att_reject(
            why, ATT_KV_LAYOUT,
            "rows of kv_layout %s have head_dim 512, head_dim_v 448, kv_dtype fp8 and "
            "kv_scale none",
            att_layout_name(v));
    if (v->norm != ATT_NORM_NONE)
        return att_reject(why, ATT_NORM, "rows of kv_layout %s need norm none", att_layout_name(v));
    return !v->product_dim || att_reject(why, ATT_PRODUCT_DIM,
                                         "rows of kv_layout %s are for queries without product_dim",
                                         att_layout_name(v));
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    const bool pooled = att_is_pooled(v);
    if (pooled && !check_pooled(v, why))
        return false;
    if (!pooled && v->head_dim_v != 256 && v->head_dim_v != 512)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d, the latent's width, is not 256 or 512", v->head_dim_v);
    if (v->head_dim != v->head_dim_v && v->head_dim != v->head_dim_v + 64)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is neither head_dim_v %d nor 64 more",
                          v->head_dim, v->head_dim_v);
    if (v->head_dim == v->head_dim_v && v->rope != ATT_ROPE_NONE)
        return att_reject(why, ATT_ROPE, "head_dim equals head_dim_v: nothing rotates");
    if (v->norm != ATT_NORM_NONE && v->norm != ATT_NORM_RMS)
        return att_reject(why, ATT_NORM, "the norm of a latent is none or rms");
    if (att_is_shuffled(v))
        return att_reject(
            why, ATT_KV_LAYOUT,
            "a latent cache has kv_layout nhd, or one whose rows contain their scales");
    if (att_cache_dtype(v) == TIR_I8)
        return att_reject(why, ATT_KV_DTYPE, "a latent cache of int8 is not known");
    if (att_scales_rows(v) || v->kv_scale == ATT_KV_SCALE_HEAD)
        return att_reject(why, ATT_KV_SCALE, "a latent cache has one scale, or those in its rows");
    const bool block = v->weights == ATT_WEIGHTS_FP8_BLOCK;
    if (!att_row_product_check(v, m, block ? ATT_PRODUCT_BLOCK : ATT_PRODUCT_COLUMNS, why))
        return false;
    return (pooled || att_cache_check(v, why)) && att_find_tile(v, m, &tile, why);
}

/* A part of the latent: `width` elements, a power of two, from element `first` on. */
struct panel {
    int first, width;
};
/* Most panels into which the latent is divided. */
enum { PANELS_MAX = 3 };

/* Divides the latent into panels whose widths are powers of two, the widest first. Returns their
 * number. */
static unsigned find_panels(const struct mla_rope *k, struct panel panels[PANELS_MAX])
{
    unsigned n = 0;
    for (int first = 0, left = k->v->head_dim_v; left; n++) {
        panels[n] = (struct panel){first, 1 << tir_bits_floor((unsigned)left)};
        first += panels[n].width;
        left -= panels[n].width;
    }
    return n;
}

/* Returns the tile type of `rows` rows of a panel of `columns` columns. A lane has 8 adjacent
 * elements, and adjacent lanes continue the row. A row that is wider than all lanes takes further
 * registers. */
static struct tir_type latent_tile(struct mla_rope *k, unsigned rows, int columns)
{
    const unsigned width = (unsigned)columns;
    const struct tir_layout l = tir_spread_chunks(k->rope.m, 1, CHUNK, rows, width);
    return tir_tile(k->rope.b.f, k->rope.dtype, rows, width, &l);
}

/* Returns x converted to f32. */
static struct tir_value as_f32(struct mla_rope *k, struct tir_value x)
{
    return tir_convert(&k->rope.b, x, TIR_F32);
}

/* Returns x times `scalar`, or x if `scalar` has no value. */
static struct tir_value times(struct tir_builder *b, struct tir_value x, struct tir_value scalar)
{
    return scalar.id ? tir_mul(b, x, att_like(b, scalar, x)) : x;
}

/* ---- The latents of queries ---- */

/* Up to 16 query heads of a token: the work of an item. */
struct heads {
    struct tir_value part; /* i32: index of the group of 16 heads among the token's heads */
    /* i32: indices of the first head, and of the head after the last one */
    struct tir_value first, end;
    struct tir_value scale; /* f32: scale of q_out; no value: q_out has no scale */
};

/* Sets rope.token to item / parts, and returns the heads of group item % parts of that token.
 * `item` is i32; parts is argument head_parts, the groups of 16 heads of a token. */
static struct heads find_heads(struct mla_rope *k, struct tir_value item)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value parts = tir_arg(b, ARG_HEAD_PARTS, TIR_I32);
    k->rope.token = tir_div(b, item, parts);
    struct heads h = {.part = tir_sub(b, item, tir_mul(b, k->rope.token, parts))};
    h.first = att_times(b, h.part, HEADS);
    h.end = tir_arg(b, ARG_HEADS, TIR_I32);
    if (k->rope.narrow_q)
        h.scale = att_scale(b, ARG_OUT_SCALE);
    return h;
}

/* Returns the inverse of q_out's scale (f32), by which elements are multiplied before they are
 * stored. Returns no value if q_out has no scale. */
static struct tir_value inverse(struct mla_rope *k, const struct heads *h)
{
    return h->scale.id ? tir_rcp(&k->rope.b, h->scale) : h->scale;
}

/* Returns a view of panel `p` of the token's heads in tensor `t`, up to head h->end - 1. */
static struct tir_view heads_view(struct mla_rope *k, const struct heads *h,
                                  const struct rope_tensor *t, const struct panel *p)
{
    return att_view(&k->rope.b, rope_token_base(&k->rope, t), h->end, t->head_stride,
                    (p->first + p->width) * t->size, p->first * t->size);
}

/* Copies panel `part` of q_nope of WAVE_HEADS heads to q_out, from head `first` (i32) on, and
 * converts it if q_out is fp8. */
static void copy_panel(struct mla_rope *k, const struct heads *h, struct tir_value first,
                       const struct panel *part)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_tensor from = rope_open_tensor(p, ATT_HEADS(Q_NOPE), ROPE_ELEM);
    const struct rope_tensor to =
        rope_open_tensor(p, ATT_HEADS(Q_OUT), p->narrow_q ? 1 : ROPE_ELEM);
    struct heads some = *h;
    some.end = tir_min(b, att_plus(b, first, WAVE_HEADS), h->end);
    struct tir_value x = tir_tile_load(b, heads_view(k, &some, &from, part), first,
                                       latent_tile(k, WAVE_HEADS, part->width));
    if (p->narrow_q)
        x = tir_convert_short(b, times(b, as_f32(k, x), inverse(k, h)), TIR_FP8);
    tir_tile_store(b, heads_view(k, &some, &to, part), first, x);
}

/* Copies q_nope of WAVE_HEADS heads to q_out, from head `first` (i32) on: the latents of
 * queries. */
static void copy_latents(struct mla_rope *k, const struct heads *h, struct tir_value first)
{
    struct panel panels[PANELS_MAX];
    const unsigned n = find_panels(k, panels);
    for (unsigned i = 0; i < n; i++)
        copy_panel(k, h, first, &panels[i]);
}

/* Copies q_nope to q_out, 4 heads of item `item` (i32) in each wave. Does nothing if q_nope is
 * NULL, since q_out then has these elements. */
static void visit_queries(struct mla_rope *k, struct tir_value item)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value given = att_is_given(b, ATT_HEADS(Q_NOPE).arg);
    struct tir_if some = att_begin_if(b, given);
    const struct heads h = find_heads(k, item);
    copy_latents(k, &h, tir_add(b, h.first, att_times(b, k->rope.wave, WAVE_HEADS)));
    tir_end_if(b, &some, NULL);
}

/* Returns the sums (f32) of a product with W_UK, rounded to the variant's dtype and divided by
 * q_out's scale. A separate launch of the product would round in the same way. `family` is the
 * struct mla_rope. */
static struct tir_value convert_product(void *family, struct tir_value sums)
{
    struct mla_rope *const k = family;
    struct tir_builder *b = &k->rope.b;
    const struct tir_value x = tir_convert(b, sums, k->rope.dtype);
    if (!k->rope.narrow_q)
        return x;
    const struct tir_value inverse = tir_rcp(b, att_scale(b, ARG_OUT_SCALE));
    return tir_convert(b, times(b, as_f32(k, x), inverse), TIR_FP8);
}

/* Multiplies rows of W_UK by q_nope of all tokens, one slice of rows in each wave. `block` (i32):
 * index of the workgroup among the workgroups that multiply by W_UK. */
static void visit_products(struct mla_rope *k, struct tir_value block)
{
    struct rope *const p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct att_row_product product = {.b = b,
                                            .dtype = p->dtype,
                                            .weights = k->v->weights,
                                            .columns = (unsigned)k->v->product_dim,
                                            .rows = k->v->head_dim_v,
                                            .w = ARG_W_UK,
                                            .w_head_stride = ARG_W_UK_HEAD_STRIDE,
                                            .w_row_stride = ARG_W_UK_ROW_STRIDE,
                                            .w_scale = ARG_W_UK_SCALE,
                                            .x = ATT_HEADS(Q_NOPE),
                                            .out = ATT_HEADS(Q_OUT),
                                            .out_size = p->narrow_q ? 1 : ROPE_ELEM,
                                            .tokens = tir_arg(b, ARG_TOKENS, TIR_I32),
                                            .convert = convert_product,
                                            .family = k};
    att_row_product_slice(&product, tir_add(b, att_times(b, block, WAVES), p->wave));
}

/* ---- A token's place in the cache ---- */

/* Issues the load of the cache's scale. Without argument slot_mapping the scale's pointer may be
 * NULL, so the first bytes of another tensor are loaded and not used. */
static void load_cache_scale(struct mla_rope *k)
{
    struct tir_builder *b = &k->rope.b;
    if (k->v->kv_scale != ATT_KV_SCALE_TENSOR)
        return;
    const struct tir_value slots = tir_arg(b, ARG_SLOT_MAPPING, TIR_I64);
    const struct tir_value from =
        tir_select(b, tir_cmp_ne(b, slots, tir_i64(b, 0)), tir_arg(b, ARG_K_SCALE, TIR_I64),
                   tir_arg(b, ARG_KV_C, TIR_I64));
    k->kv_scale = tir_scalar_load(b, from, tir_i32(b, 0), TIR_F32);
}

/* Returns the inverse of the cache's scale (f32), by which elements are multiplied before they are
 * stored. Returns no value if the cache has no scale. */
static struct tir_value inverse_scale(const struct mla_rope *k, const struct att_cache *c)
{
    return k->kv_scale.id ? att_cache_inverse(c, k->kv_scale) : k->kv_scale;
}

/* Begins a branch that runs if the token has a slot in the cache, which is 0 or more. The builder
 * is in the branch afterwards. */
static struct tir_if begin_slot(struct mla_rope *k)
{
    struct tir_builder *b = &k->rope.b;
    return att_begin_if(b, tir_cmp_ge(b, k->rope.slot, tir_i64(b, 0)));
}

/* Ends the branch of begin_slot(). */
static void end_slot(struct mla_rope *k, struct tir_if *some)
{
    tir_else(&k->rope.b, some, NULL);
    tir_end_if(&k->rope.b, some, NULL);
}

/* Returns the address (i64) of element `first` of the token's row in the cache. */
static struct tir_value slot_at(struct mla_rope *k, const struct att_cache *c, int first)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value row = tir_add(b, c->base, att_cache_slot_row(c, k->rope.slot));
    return tir_add(b, row, tir_i64(b, first * c->size));
}

/* Returns the address (i64) of the token's row in tensor `t` [token, width]. */
static struct tir_value token_at(struct mla_rope *k, struct att_tensor t)
{
    struct tir_builder *b = &k->rope.b;
    return att_at(b, t.arg, att_offset(b, k->rope.token, t.token_stride, ROPE_ELEM));
}

/* ---- Elements that rotate ---- */

/* Rotates the loaded heads raw[], multiplies them by `factor`, and converts them to `dtype`. */
static void rotate(struct mla_rope *k, struct tir_value *raw, struct tir_value factor,
                   unsigned dtype)
{
    struct rope *p = &k->rope;
    const struct rope_shape *s = &p->rotated;
    struct rope_parts x = rope_unpack(p, s, raw);
    if (k->v->rope != ATT_ROPE_NONE)
        rope_rotate(p, &x);
    for (unsigned i = 0; i < s->n_parts; i++)
        x.v[i] = times(&p->b, x.v[i], factor);
    rope_convert(p, s, &x, dtype);
    rope_pack(p, s, &x, raw);
}

/* Returns a view of the bytes of panel `p` of the token's cache row, whose layout is packed: the
 * row contains scales. */
static struct tir_view row_view(struct mla_rope *k, const struct att_cache *c,
                                const struct panel *p)
{
    struct tir_builder *b = &k->rope.b;
    return att_view(b, slot_at(k, c, 0), tir_i32(b, 1), tir_i32(b, 0),
                    att_row_bytes(c->rows, p->first + p->width), att_row_bytes(c->rows, p->first));
}

/* Stores the scales of k_pe's runs in the token's cache row. `stored`: a tile of `heads` heads,
 * with a row for each run of each head; only head 0 is a key and is stored. `first` is the index in
 * the cache row of the runs' first element. */
static void store_run_scales(struct mla_rope *k, const struct att_cache *c, unsigned heads,
                             int first, struct tir_value stored)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value base = tir_add(b, c->base, att_packed_scale_row(c, k->rope.slot));
    const struct tir_value row =
        tir_row_index(b, tir_with_dtype(tir_typeof(b->f, stored), TIR_I32));
    const struct tir_value own = tir_and(b, row, tir_int_like(b, row, heads - 1));
    const struct tir_value run = tir_shr(b, row, tir_int_like(b, row, tir_bits(heads)));
    const struct tir_value key = tir_cmp_eq(b, own, tir_int_like(b, own, 0));
    const struct tir_value at =
        tir_convert(b, tir_select(b, key, run, tir_int_like(b, run, -1)), TIR_I64);
    tir_tile_scatter(b, base, at, tir_i32(b, first / c->rows->run), stored);
}

/* Quantises and stores some runs of k_pe, from element panel->first of the cache row on. x[] has n
 * tiles: one with all elements, or two with the even and the odd elements. */
static void store_runs(struct mla_rope *k, const struct att_cache *c, const struct panel *panel,
                       const struct tir_value *x, unsigned n)
{
    struct tir_builder *b = &k->rope.b;
    const unsigned heads = tir_typeof(b->f, x[0]).rows, run = (unsigned)c->rows->run / n;
    struct tir_value size = tir_abs(b, x[0]), y[2];
    if (n == 2)
        size = tir_max(b, size, tir_abs(b, x[1]));
    const struct att_run_scales scales =
        att_run_scales(c, tir_row_max(b, tir_split_blocks(b, size, run)));
    store_run_scales(k, c, heads, panel->first, scales.stored);
    for (unsigned i = 0; i < n; i++)
        y[i] = tir_join_blocks(b, att_scaled(b, tir_split_blocks(b, x[i], run), scales.inverse),
                               heads);
    struct tir_value bytes;
    if (c->rows->bits == 4) {
        bytes = n == 2 ? att_e2m1_pairs(b, y[0], y[1]) : att_e2m1_bytes(b, y[0]);
    } else {
        for (unsigned i = 0; i < n; i++)
            y[i] = tir_convert_in_range(b, y[i], TIR_FP8);
        bytes = n == 2 ? rope_join(&k->rope, y[0], y[1]) : y[0];
    }
    tir_tile_store(b, row_view(k, c, panel), tir_i32(b, 0), bytes);
}

/* Stores the token's k_pe, loaded as raw[], in a cache row whose rotated elements have scales
 * too. */
static void store_scaled_key(struct mla_rope *k, const struct att_cache *c,
                             const struct tir_value *raw)
{
    struct rope *const p = &k->rope;
    const struct rope_shape *const s = &p->rotated;
    struct rope_parts x = rope_unpack(p, s, raw);
    if (k->v->rope != ATT_ROPE_NONE)
        rope_rotate(p, &x);
    for (unsigned span = 0, part = 0; span < s->n_spans; span++) {
        const unsigned n = s->packed && span < s->n_pieces ? 2 : 1;
        const struct panel panel = {k->v->head_dim_v + s->spans[span].first,
                                    (int)(n * tir_typeof(p->b.f, x.v[part]).cols)};
        store_runs(k, c, &panel, x.v + part, n);
        part += n;
    }
}

/* Rotates the token's k_pe, loaded as raw[], and stores it in the cache, and with field keep_kv in
 * k_pe_out. */
static void store_key(struct mla_rope *k, const struct tir_value *raw)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    struct tir_value x[ROPE_MAX_SPANS];
    memcpy(x, raw, sizeof(x));
    rotate(k, x, (struct tir_value){0}, p->dtype);
    if (k->v->keep_kv)
        rope_store(p, s, token_at(k, ATT_TOKENS(K_PE_OUT)), one, zero, ROPE_ELEM, zero, x);
    struct tir_if some = begin_slot(k);
    struct att_cache c = att_cache(b, k->v, p->m, false, zero);
    int first = k->v->head_dim_v;
    if (c.packed && !c.rows->rotated) {
        store_scaled_key(k, &c, raw);
        end_slot(k, &some);
        return;
    }
    if (c.packed) {
        c = att_cache_rotated(&c, p->dtype);
        first = 0;
    }
    if (c.dtype != p->dtype) {
        memcpy(x, raw, sizeof(x));
        rotate(k, x, inverse_scale(k, &c), c.dtype);
    }
    rope_store(p, s, slot_at(k, &c, first), one, zero, c.size, zero, x);
    end_slot(k, &some);
}

/* Issues the loads of the token's position, slot and scales, and waits for all of them at once. */
static void load_token(struct mla_rope *k, const struct heads *h)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    struct tir_value loaded[4];
    unsigned n = 0;
    rope_load_slot(p);
    load_cache_scale(k);
    if (k->v->rope != ATT_ROPE_NONE) {
        rope_load_positions(p);
        loaded[n++] = p->position[0];
    }
    if (h->scale.id)
        loaded[n++] = h->scale;
    if (k->kv_scale.id)
        loaded[n++] = k->kv_scale;
    loaded[n++] = p->slot;
    tir_anchor_all(b, loaded, n);
}

/* Rotates and stores q_pe of the heads `h`, and k_pe together with the token's first heads. */
static void visit_rotated(struct mla_rope *k, struct heads h)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    const struct rope_tensor from = rope_open_tensor(p, ATT_HEADS(Q_PE), ROPE_ELEM);
    const struct rope_tensor to =
        rope_open_tensor(p, ATT_HEADS(Q_PE_OUT), p->narrow_q ? 1 : ROPE_ELEM);
    const struct tir_value first = tir_cmp_eq(b, h.part, zero);
    struct tir_value q[ROPE_MAX_SPANS], key[ROPE_MAX_SPANS];
    rope_load(p, &p->rotated, rope_token_base(p, &from), h.end, from.head_stride, h.first, false,
              q);
    /* For heads after the token's first ones the view has no rows, so that the load of k_pe causes
     * no traffic. */
    rope_load(p, &p->rotated, token_at(k, ATT_TOKENS(K_PE)), tir_select(b, first, one, zero), zero,
              zero, false, key);
    load_token(k, &h);
    if (k->v->rope != ATT_ROPE_NONE) {
        rope_load_angles(p);
        rope_widen_angles(p);
    }
    rotate(k, q, inverse(k, &h), p->narrow_q ? TIR_FP8 : p->dtype);
    rope_store(p, &p->rotated, rope_token_base(p, &to), h.end, to.head_stride, to.size, h.first, q);
    struct tir_if of_key = att_begin_if(b, first);
    store_key(k, key);
    tir_end_if(b, &of_key, NULL);
}

/* Returns the number (i32) of items: groups of 16 heads, over all tokens. */
static struct tir_value count_items(struct mla_rope *k)
{
    struct tir_builder *b = &k->rope.b;
    return tir_mul(b, tir_arg(b, ARG_TOKENS, TIR_I32), tir_arg(b, ARG_HEAD_PARTS, TIR_I32));
}

/* Rotates and stores the heads of one item in each wave of workgroup `block` (i32). */
static void visit_all_rotated(struct mla_rope *k, struct tir_value block)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value item = tir_add(b, att_times(b, block, WAVES), k->rope.wave);
    struct tir_if some = att_begin_if(b, tir_cmp_lt(b, item, count_items(k)));
    visit_rotated(k, find_heads(k, item));
    tir_end_if(b, &some, NULL);
}

/* ---- The latents of tokens ---- */

/* Returns a view of panel `p` of a latent at address `base` (i64), whose elements have `size`
 * bytes. */
static struct tir_view latent_view(struct mla_rope *k, struct tir_value base, int size,
                                   const struct panel *p)
{
    struct tir_builder *b = &k->rope.b;
    return att_view(b, base, tir_i32(b, 1), tir_i32(b, 0), (p->first + p->width) * size,
                    p->first * size);
}

/* Returns x / sqrt(mean(x^2) + eps) * weight of one row. */
static struct tir_value normalise(struct mla_rope *k, struct tir_value x, struct tir_value weight)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value sum = tir_row_sum(b, tir_mul(b, x, x));
    const struct tir_type t = tir_typeof(b->f, sum);
    const struct tir_value eps = tir_splat(b, tir_arg(b, ARG_EPS, TIR_F32), t);
    const struct tir_value share = tir_float_like(b, sum, 1.0f / (float)k->v->head_dim_v);
    const struct tir_value inverse = tir_rsq(b, tir_fma(b, sum, share, eps));
    const struct tir_value scaled = att_scaled(b, x, inverse);
    return tir_mul(b, scaled, as_f32(k, weight));
}

/* Quantises panel x (f32) of a row, and stores the scale of each run where the cache's layout has
 * it. Returns the elements to store. */
static struct tir_value pack_latent(struct mla_rope *k, const struct att_cache *c,
                                    const struct panel *p, struct tir_value x)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value row = tir_add(b, c->base, att_packed_scale_row(c, k->rope.slot));
    const struct att_packed packed = att_pack(c, x);
    const int size = att_row_scale_bytes(c->rows), step = size * c->rows->copies;
    for (int copy = 0; copy < c->rows->copies; copy++) {
        const int first = p->first / c->rows->run * step + copy * size;
        const struct tir_view to =
            att_view(b, tir_add(b, row, tir_i64(b, first)), tir_i32(b, p->width / c->rows->run),
                     tir_i32(b, step), size, 0);
        tir_tile_store(b, to, tir_i32(b, 0), packed.scales);
    }
    return packed.elements;
}

/* Stores panel `part` of a token's latent, loaded as `raw`. `weight` has the loaded weights of the
 * norm, or no value. Only a latent of one panel has a norm. */
static void visit_panel(struct mla_rope *k, const struct panel *part, struct tir_value raw,
                        struct tir_value weight)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value x = as_f32(k, raw);
    if (k->v->norm != ATT_NORM_NONE) {
        x = normalise(k, x, weight);
        raw = tir_convert_short(b, x, p->dtype);
    }
    if (k->v->keep_kv)
        tir_tile_store(b, latent_view(k, token_at(k, ATT_TOKENS(KV_C_OUT)), ROPE_ELEM, part), zero,
                       raw);
    struct tir_if some = begin_slot(k);
    const struct att_cache c = att_cache(b, k->v, p->m, false, zero);
    if (c.packed)
        raw = pack_latent(k, &c, part, x);
    else if (c.dtype != p->dtype)
        raw = att_cache_quantise(&c, x, inverse_scale(k, &c));
    const struct tir_view to =
        c.packed ? row_view(k, &c, part) : latent_view(k, slot_at(k, &c, 0), c.size, part);
    tir_tile_store(b, to, zero, raw);
    end_slot(k, &some);
}

/* Normalises and stores the token's latent. `weight` is the loaded weight of the norm. */
static void visit_latent(struct mla_rope *k, struct tir_value weight)
{
    struct tir_builder *b = &k->rope.b;
    struct panel panels[PANELS_MAX];
    struct tir_value raw[PANELS_MAX];
    const unsigned n = find_panels(k, panels);
    const struct tir_value at = token_at(k, ATT_TOKENS(KV_C));
    for (unsigned i = 0; i < n; i++)
        raw[i] = tir_tile_load(b, latent_view(k, at, ROPE_ELEM, &panels[i]), tir_i32(b, 0),
                               latent_tile(k, 1, panels[i].width));
    rope_load_slot(&k->rope);
    for (unsigned i = 0; i < n; i++)
        visit_panel(k, &panels[i], raw[i], weight);
}

/* Normalises and stores the latents of run `wave` (i32) of tokens, and loads the weight of the norm
 * once. A run has run_tokens tokens. */
static void visit_latents(struct mla_rope *k, struct tir_value wave)
{
    struct tir_builder *b = &k->rope.b;
    struct tir_value weight = {0};
    const struct panel all = {0, k->v->head_dim_v};
    if (k->v->norm != ATT_NORM_NONE)
        weight =
            tir_tile_load(b, latent_view(k, tir_arg(b, ARG_KV_WEIGHT, TIR_I64), ROPE_ELEM, &all),
                          tir_i32(b, 0), latent_tile(k, 1, all.width));
    load_cache_scale(k);
    const struct tir_value run = tir_arg(b, ARG_RUN_TOKENS, TIR_I32);
    const struct tir_value first = tir_mul(b, wave, run);
    const struct tir_value end =
        tir_min(b, tir_add(b, first, run), tir_arg(b, ARG_TOKENS, TIR_I32));
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    k->rope.token = loop.index;
    visit_latent(k, weight);
    tir_end_for(b, &loop, NULL, 0);
}

/* Computes a run of `run` items (i32) in each wave of workgroup `block` (i32): rotates the heads of
 * each item and copies their latents. A cache line of q_out that has elements of both is then
 * complete before it leaves the L2. Wave 0 also writes the latents of a run of tokens. */
static void visit_whole(struct mla_rope *k, struct tir_value block, struct tir_value run)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value wave = tir_add(b, att_times(b, block, WAVES), k->rope.wave);
    const struct tir_value first = tir_mul(b, wave, run);
    const struct tir_value end = tir_min(b, tir_add(b, first, run), count_items(k));
    struct tir_loop items = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    const struct heads h = find_heads(k, items.index);
    visit_rotated(k, h);
    const struct tir_value last = tir_min(b, att_plus(b, h.first, HEADS), h.end);
    struct tir_loop heads = tir_begin_for(b, h.first, last, tir_i32(b, WAVE_HEADS), NULL, 0);
    copy_latents(k, &h, heads.index);
    tir_end_for(b, &heads, NULL, 0);
    tir_end_for(b, &items, NULL, 0);
    struct tir_if of_rows = att_begin_if(b, tir_cmp_eq(b, k->rope.wave, tir_i32(b, 0)));
    visit_latents(k, block);
    tir_end_if(b, &of_rows, NULL);
}

/* Copies the latents of queries. If argument ARG_RUN_PARTS is not 0, the same waves also rotate the
 * heads of these items. `block` and `after_rotated` (i32) are the workgroup's number with and
 * without the workgroups that only rotate. */
static void visit_latent_queries(struct mla_rope *k, struct tir_value block,
                                 struct tir_value after_rotated)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value run = tir_arg(b, ARG_RUN_PARTS, TIR_I32);
    struct tir_if apart = att_begin_if(b, tir_cmp_eq(b, run, tir_i32(b, 0)));
    visit_queries(k, after_rotated);
    tir_else(b, &apart, NULL);
    visit_whole(k, block, run);
    tir_end_if(b, &apart, NULL);
}

/* Computes query heads. The first ARG_ROTATED_GROUPS workgroups rotate; the other workgroups copy
 * or multiply latents. `block` (i32) is the workgroup's number after the workgroups for tokens'
 * latents. */
static void visit_heads(struct mla_rope *k, struct tir_value block)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value rotated = tir_arg(b, ARG_ROTATED_GROUPS, TIR_I32);
    const struct tir_value after = tir_sub(b, block, rotated);
    struct tir_if of_rotated = att_begin_if(b, tir_cmp_lt(b, block, rotated));
    visit_all_rotated(k, block);
    tir_else(b, &of_rotated, NULL);
    if (k->v->product_dim)
        visit_products(k, after);
    else
        visit_latent_queries(k, block, after);
    tir_end_if(b, &of_rotated, NULL);
}

/* Computes the work of workgroup `block` (i32): latents of tokens, or heads, by its part of the
 * grid. */
static void visit_block(struct mla_rope *k, struct tir_value block)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value rows = tir_arg(b, ARG_ROW_GROUPS, TIR_I32);
    const struct tir_value after_rows = tir_sub(b, block, rows);
    struct tir_if of_rows = att_begin_if(b, tir_cmp_lt(b, block, rows));
    visit_latents(k, tir_add(b, att_times(b, block, WAVES), k->rope.wave));
    tir_else(b, &of_rows, NULL);
    if (k->width)
        visit_heads(k, after_rows);
    else if (k->v->product_dim)
        visit_products(k, after_rows);
    else
        visit_queries(k, after_rows);
    tir_end_if(b, &of_rows, NULL);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    const int width = v->head_dim - v->head_dim_v;
    struct mla_rope k = {
        .v = v,
        .pe = *v,
        .width = width,
        .rope = {.m = m,
                 /* Elements of a lane, if HEADS heads fill a wave. */
                 .elements = width * HEADS / (int)tir_lanes(m),
                 .dtype = att_dtype(v),
                 .narrow_q = v->out_dtype == ATT_OUT_DTYPE_FP8},
    };
    k.pe.head_dim = k.pe.head_dim_v = k.pe.rotary_dim = (int16_t)k.width;
    k.rope.v = &k.pe;
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct tir_builder *b = &k.rope.b;
    *b = tir_at_end(f, f->body);
    if (k.width)
        rope_choose_shapes(&k.rope);
    struct att_counted_wave own = att_begin_counted(b, tile.waves, WAVES, ARG_WORKGROUPS);
    k.rope.wave = own.wave;
    visit_block(&k, own.block);
    att_end_counted(b, &own);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {att_counted_grid(tile.waves, WAVES, ARG_WORKGROUPS), {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "waves=%d heads=%d", tile.waves,
             tile.waves * WAVE_HEADS);
}

const struct att_template att_template_mla_rope_cache = {
    .name = "mla_rope_cache",
    .description = "rotary embedding, norm and cache rows of latent attention in one pass",
    .takes = OP_TAKES_MLA_ROPE_CACHE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = att_fits_waves,
    .check = check,
    .build = build,
};

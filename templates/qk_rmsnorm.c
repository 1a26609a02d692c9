/* SPDX-License-Identifier: Apache-2.0
 *
 * RMS norms of two tensors in one launch: the compressed q and the latent kv of latent attention. A
 * row x becomes x / sqrt(mean(x^2) + eps) times the weight w, or times 1 + w with field gemma.
 *
 * The first half of the workgroups normalises q, the other half kv. A wave processes one token
 * after the other, and has the weight in registers for all of its tokens. With many tokens a
 * workgroup processes q and kv, with the weights in LDS. q may become fp8, with a scale that this
 * kernel computes for each 128 elements or for each row. A residual may be added to q first.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/linear/gates.h"
#include "templates/linear/norm.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <stdio.h>

/* Number of waves of a workgroup as the host (runtime/host_mla.c) counts workgroups, for every
 * tile. */
enum { COUNTED = 4 };
/* CHUNK: elements of a lane's load. ELEM: bytes of a 16-bit element. GROUP: elements that share an
 * fp8 scale. LEAST_PANEL: least columns of a wave's load. MAX_WIDTH: most elements of a row. */
enum { CHUNK = 8, ELEM = 2, GROUP = 128, LEAST_PANEL = 256, MAX_WIDTH = 4096 };
/* Most panels of a row: full panels, and three narrower ones at its end. */
enum { MAX_PANELS = MAX_WIDTH / LEAST_PANEL + 3 };

static const struct att_tile tiles[] = {
    {.head_dim = 2048,
     .waves = COUNTED,
     .waves_per_simd = 4,
     .why = "a wave has a row and the weight in registers, more waves hide the latency"},
    {.head_dim = MAX_WIDTH,
     .waves = COUNTED,
     .waves_per_simd = 2,
     .why = "wide rows and their weight take registers"},
};

static const struct att_knob knobs[] = {
    {"waves", 4, {1, 2, 8, 16}},
    {"waves_per_simd", 4, {1, 2, 4, 8}},
};

/* A tensor that is normalised: q or kv. */
struct side {
    /* in: input. residual: tensor added to the input; its `arg` is NULL if there is none. sum: the
     * sum of the two, before the norm. out: output */
    struct att_tensor in, residual, sum, out;
    const char *weight;                /* name of the weight's argument */
    int width;                         /* number of elements of a row */
    bool narrow;                       /* true: the output is fp8 */
    unsigned n;                        /* number of panels of a row */
    int first[MAX_PANELS];             /* first column of each panel */
    struct tir_type panel[MAX_PANELS]; /* type of each panel of a row */
    /* Panels of the weight as loaded, 16-bit; no values: the weight is in LDS. */
    struct tir_value w[MAX_PANELS];
    struct tir_value lds; /* i32: LDS address of the weight; no value: the weight is in `w` */
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct norm {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype; /* 16-bit type of both tensors */
    bool shares;    /* true: waves share weights in LDS, which needs a workgroup of COUNTED waves */
    struct tir_value wave; /* i32: the wave's number in its group of COUNTED waves */
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. The tile's head_dim is the
 * widest row, of q or kv, that it serves. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const int width = v->width > v->width_kv ? v->width : v->width_kv;
    if (width > t->head_dim)
        return att_reject(why, ATT_WIDTH, "is for rows of up to %d elements", t->head_dim);
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    static const enum att_field fields[] = {ATT_WIDTH, ATT_WIDTH_KV};
    for (int i = 0; i < 2; i++) {
        const int width = att_get(v, fields[i]);
        if (width % GROUP || width > MAX_WIDTH)
            return att_reject(why, fields[i], "%d is not a multiple of %d of at most %d", width,
                              GROUP, MAX_WIDTH);
    }
    if (v->row_scale && v->out_dtype != ATT_OUT_DTYPE_FP8)
        return att_reject(why, ATT_ROW_SCALE, "the rows of 16-bit numbers have no scale");
    return att_check_tile(v, m, why);
}

/* Returns the tile type of one row of `width` columns. Each lane has 16 adjacent bytes. */
static struct tir_type panel_type(struct norm *k, unsigned width)
{
    const struct tir_layout l = tir_spread_chunks(k->m, 1, CHUNK, 1, width);
    return tir_tile(k->b.f, k->dtype, 1, width, &l);
}

/* Returns the number of elements that a wave loads at once, 8 in each lane. */
static int widest_panel(const struct norm *k) { return CHUNK * (int)tir_lanes(k->m); }

/* Divides a row of `s` into panels whose widths are powers of two. A panel is at most as wide as a
 * wave loads at once. */
static void choose_panels(struct norm *k, struct side *s)
{
    const unsigned widest = (unsigned)widest_panel(k);
    assert(widest >= LEAST_PANEL);
    for (int first = 0; first < s->width; s->n++) {
        const unsigned left = (unsigned)(s->width - first);
        const unsigned width = left < widest ? 1u << tir_bits_floor(left) : widest;
        s->first[s->n] = first;
        s->panel[s->n] = panel_type(k, width);
        first += (int)width;
    }
}

/* Returns a view of `rows` rows (i32), 1 or 0, of tensor `s` at address `base` (i64), from column
 * `first` on. Elements have `size` bytes. */
static struct tir_view rows_view(struct norm *k, struct tir_value base, struct tir_value rows,
                                 const struct side *s, int first, int size)
{
    return att_view(&k->b, base, rows, tir_i32(&k->b, 0), s->width * size, first * size);
}

/* Returns a view of the row of tensor `s` at address `base` (i64), with elements of `size` bytes,
 * from column `first` on. */
static struct tir_view row_view(struct norm *k, struct tir_value base, const struct side *s,
                                int first, int size)
{
    return rows_view(k, base, tir_i32(&k->b, 1), s, first, size);
}

/* Returns the address (i64) of the row of token `token` (i32) in tensor `t`, whose elements have
 * `size` bytes. */
static struct tir_value row_at(struct norm *k, struct att_tensor t, struct tir_value token,
                               int size)
{
    struct tir_builder *b = &k->b;
    return att_at(b, t.arg, att_offset(b, token, t.token_stride, size));
}

/* Returns 1 / sqrt(mean(x^2) + eps) of the row x[], a tile of 1 x 1. */
static struct tir_value inverse_rms(struct norm *k, const struct side *s, const struct tir_value *x)
{
    struct tir_builder *b = &k->b;
    const struct tir_value sum = att_norm_over_rows(b, x, s->n, false);
    const struct tir_value eps = att_arg_like(b, ARG_EPS, sum);
    const struct tir_value share = tir_float_like(b, sum, 1.0f / (float)s->width);
    return tir_rsq(b, tir_fma(b, sum, share, eps));
}

/* Converts the panels y[] of the token's row to fp8 with one scale, and stores the scale. The
 * caller stores the elements. */
static void quantise_row(struct norm *k, const struct side *s, struct tir_value token,
                         struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    const struct tir_value absmax = att_norm_over_rows(b, y, s->n, true);
    const struct tir_value scale = att_fp8_scale(&k->b, absmax);
    const struct tir_value base = row_at(k, ATT_TOKENS(Q_OUT_SCALE), token, sizeof(float));
    const struct tir_view to = att_view(b, base, tir_i32(b, 1), tir_i32(b, 0), sizeof(float), 0);
    tir_tile_store(b, to, tir_i32(b, 0), scale);
    for (unsigned i = 0; i < s->n; i++)
        y[i] = att_fp8_divide(&k->b, y[i], scale);
}

/* Stores the scales of panel i, one for each group of 128 elements, in the token's row of argument
 * q_out_scale. `scale` is a tile with a row for each group. */
static void store_scales(struct norm *k, const struct side *s, unsigned i, struct tir_value token,
                         struct tir_value scale)
{
    struct tir_builder *b = &k->b;
    const struct tir_value stride = att_stride(b, ARG_Q_OUT_SCALE_GROUP_STRIDE, sizeof(float));
    const struct tir_value first = tir_mul(b, stride, tir_i64(b, s->first[i] / GROUP));
    const struct tir_value base =
        tir_add(b, row_at(k, ATT_TOKENS(Q_OUT_SCALE), token, sizeof(float)), first);
    const struct tir_value rows = tir_i32(b, (int)s->panel[i].cols / GROUP);
    const struct tir_view to =
        att_view(b, base, rows, tir_convert(b, stride, TIR_I32), sizeof(float), 0);
    tir_tile_store(b, to, tir_i32(b, 0), scale);
}

/* Converts the panels y[] of the token's row to fp8 with a scale for each 128 elements, and stores
 * the scales. Each step is done for all panels before the next step begins, so that a step rarely
 * waits for the previous step's result. */
static void quantise_groups(struct norm *k, const struct side *s, struct tir_value token,
                            struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    struct tir_value groups[MAX_PANELS], scale[MAX_PANELS];
    for (unsigned i = 0; i < s->n; i++)
        groups[i] = tir_split_blocks(b, y[i], GROUP);
    for (unsigned i = 0; i < s->n; i++)
        scale[i] = att_fp8_scale(&k->b, tir_row_max(b, tir_abs(b, groups[i])));
    for (unsigned i = 0; i < s->n; i++)
        store_scales(k, s, i, token, scale[i]);
    for (unsigned i = 0; i < s->n; i++)
        y[i] = tir_join_blocks(b, att_fp8_divide(&k->b, groups[i], scale[i]), 1);
}

/* Returns the LDS map of a panel of type *t. */
static struct tir_layout panel_map(const struct tir_type *t)
{
    return tir_row_major(t->rows, t->cols);
}

/* Returns panel i of the weight in its stored type, from registers or from LDS. */
static struct tir_value weight_of(struct norm *k, const struct side *s, unsigned i)
{
    struct tir_builder *b = &k->b;
    if (!s->lds.id)
        return s->w[i];
    const struct tir_layout map = panel_map(&s->panel[i]);
    const struct tir_value at = att_plus(b, s->lds, s->first[i] * ELEM);
    return tir_tile_lds_load(b, at, s->panel[i], &map);
}

/* Returns panel x of a row times `inverse` (1 / rms) and the weight, or 1 + weight with field
 * gemma. */
static struct tir_value weighted(struct norm *k, struct tir_value x, struct tir_value inverse,
                                 struct tir_value weight)
{
    struct tir_builder *b = &k->b;
    struct tir_value w = tir_convert(b, weight, TIR_F32);
    if (k->v->gemma)
        w = tir_add(b, w, tir_float_like(b, w, 1.0f));
    return tir_mul(b, att_scaled(b, x, inverse), w);
}

/* Issues the loads of the row of token `token` (i32) of tensor `t` into x[]. Loads nothing if
 * `rows` (i32) is 0. */
static void load_row(struct norm *k, const struct side *s, struct att_tensor t,
                     struct tir_value token, struct tir_value rows, struct tir_value *x)
{
    struct tir_builder *b = &k->b;
    const struct tir_value from = row_at(k, t, token, ELEM);
    for (unsigned i = 0; i < s->n; i++)
        x[i] = tir_tile_load(b, rows_view(k, from, rows, s, s->first[i], ELEM), tir_i32(b, 0),
                             s->panel[i]);
}

/* Issues the loads of a token into raw[]: its row, and then the residual's row if there is one.
 * Loads nothing if `rows` (i32) is 0. */
static void load_token(struct norm *k, const struct side *s, struct tir_value token,
                       struct tir_value rows, struct tir_value *raw)
{
    load_row(k, s, s->in, token, rows, raw);
    if (s->residual.arg)
        load_row(k, s, s->residual, token, rows, raw + s->n);
}

/* Adds the residual to the row of token `token` (i32, index), and stores the sum. x[] has the row's
 * panels, which become the sum, and then the residual's panels, all f32. */
static void add_residual(struct norm *k, const struct side *s, struct tir_value token,
                         struct tir_value *x)
{
    struct tir_builder *b = &k->b;
    const struct tir_value to = row_at(k, s->sum, token, ELEM);
    for (unsigned i = 0; i < s->n; i++) {
        x[i] = tir_add(b, x[i], x[s->n + i]);
        tir_tile_store(b, row_view(k, to, s, s->first[i], ELEM), tir_i32(b, 0),
                       tir_convert_short(b, x[i], k->dtype));
    }
}

/* Returns the number of tiles that load_token() loads: a row, and its residual if there is one. */
static unsigned tile_count(const struct side *s) { return s->residual.arg ? 2 * s->n : s->n; }

/* Sets x[] to the tiles raw[] of load_token(), converted to f32. */
static void widen(struct norm *k, const struct side *s, const struct tir_value *raw,
                  struct tir_value *x)
{
    for (unsigned i = 0; i < tile_count(s); i++)
        x[i] = tir_convert(&k->b, raw[i], TIR_F32);
}

/* Normalises and stores the row x[] of token `token` (i32). */
static void visit_token(struct norm *k, const struct side *s, struct tir_value token,
                        struct tir_value *x)
{
    struct tir_builder *b = &k->b;
    const int size = s->narrow ? 1 : ELEM;
    if (s->residual.arg)
        add_residual(k, s, token, x);
    const struct tir_value inverse = inverse_rms(k, s, x);
    const struct tir_value to = row_at(k, s->out, token, size);
    for (unsigned i = 0; i < s->n; i++)
        x[i] = weighted(k, x[i], inverse, weight_of(k, s, i));
    if (s->narrow && k->v->row_scale)
        quantise_row(k, s, token, x);
    else if (s->narrow)
        quantise_groups(k, s, token, x);
    for (unsigned i = 0; i < s->n; i++) {
        const struct tir_value y = s->narrow ? x[i] : tir_convert_short(b, x[i], k->dtype);
        tir_tile_store(b, row_view(k, to, s, s->first[i], size), tir_i32(b, 0), y);
    }
}

/* Sets *first and *end to the range of this wave's tokens (i32). `block` (i32) is the index of the
 * wave's workgroup among the workgroups of q, or of kv. */
static void find_run(struct norm *k, struct tir_value block, struct tir_value *first,
                     struct tir_value *end)
{
    struct tir_builder *b = &k->b;
    const struct tir_value run = tir_arg(b, ARG_RUN_TOKENS, TIR_I32);
    const struct tir_value wave = tir_add(b, att_times(b, block, COUNTED), k->wave);
    *first = tir_mul(b, wave, run);
    *end = tir_min(b, tir_add(b, *first, run), tir_arg(b, ARG_TOKENS, TIR_I32));
}

/* Issues the load of panel i of the weight. */
static struct tir_value load_weight(struct norm *k, const struct side *s, unsigned i)
{
    struct tir_builder *b = &k->b;
    const struct tir_view view = row_view(k, tir_arg(b, s->weight, TIR_I64), s, s->first[i], ELEM);
    return tir_tile_load(b, view, tir_i32(b, 0), s->panel[i]);
}

/* Normalises and stores this wave's tokens of tensor `s`, with the weight in registers. `block`
 * (i32) is the workgroup's number among the workgroups of `s`. */
static void visit_side(struct norm *k, struct side *s, struct tir_value block)
{
    struct tir_builder *b = &k->b;
    struct tir_value raw[2 * MAX_PANELS], x[2 * MAX_PANELS], first, end;
    s->lds = (struct tir_value){0};
    for (unsigned i = 0; i < s->n; i++)
        s->w[i] = load_weight(k, s, i);
    find_run(k, block, &first, &end);
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    load_token(k, s, loop.index, tir_i32(b, 1), raw);
    widen(k, s, raw, x);
    visit_token(k, s, loop.index, x);
    tir_end_for(b, &loop, NULL, 0);
}

/* ---- Both sides of many tokens ---- */

/* Issues the loads of token `token` (i32) into raw[], unless it is `end` (i32) or later. */
static void load_ahead(struct norm *k, const struct side *s, struct tir_value token,
                       struct tir_value end, struct tir_value *raw)
{
    struct tir_builder *b = &k->b;
    const struct tir_value there = tir_cmp_lt(b, token, end);
    load_token(k, s, token, tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0)), raw);
}

/* Normalises and stores tokens `first` to `end` - 1 (i32), with the weight in LDS. When a token's
 * row has arrived, the loads of the next one are issued. raw[] is the loaded first token. */
static void visit_ahead(struct norm *k, const struct side *s, struct tir_value first,
                        struct tir_value end, struct tir_value *raw)
{
    struct tir_builder *b = &k->b;
    struct tir_value x[2 * MAX_PANELS];
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), raw, tile_count(s));
    widen(k, s, raw, x);
    load_ahead(k, s, att_plus(b, loop.index, 1), end, raw);
    visit_token(k, s, loop.index, x);
    tir_end_for(b, &loop, raw, tile_count(s));
}

/* The parts of weights that one wave copies to LDS, each of widest_panel() elements. The waves
 * divide the parts. */
struct copies {
    unsigned n; /* number of parts */
    /* to: i32, LDS address of each part. part: the parts as loaded; elements after the weight's
     * last one are 0 */
    struct tir_value to[MAX_PANELS], part[MAX_PANELS];
};

/* Returns the number of parts of the weight of `s`, of widest_panel() elements each. */
static int part_count(const struct norm *k, const struct side *s)
{
    return (s->width + widest_panel(k) - 1) / widest_panel(k);
}

/* Returns the bytes of LDS for the weight of `s`, rounded up to the same number of whole parts for
 * each wave. */
static int shared_bytes(const struct norm *k, const struct side *s)
{
    return (part_count(k, s) + COUNTED - 1) / COUNTED * COUNTED * widest_panel(k) * ELEM;
}

/* Issues the loads of this wave's parts of the weight of `s`, and appends the parts to *c. The
 * weight's LDS address will be `lds` (i32). */
static void send_weight(struct norm *k, struct side *s, struct tir_value lds, struct copies *c)
{
    struct tir_builder *b = &k->b;
    const struct tir_value weight = tir_arg(b, s->weight, TIR_I64);
    const int panel = widest_panel(k);
    const struct tir_type t = panel_type(k, (unsigned)panel);
    s->lds = lds;
    for (int i = 0; i < part_count(k, s); i += COUNTED) {
        const struct tir_value part = att_plus(b, k->wave, i);
        const struct tir_view view =
            att_view(b, weight, tir_i32(b, 1), tir_i32(b, panel * ELEM), s->width * ELEM, 0);
        c->to[c->n] = tir_add(b, lds, att_times(b, part, panel * ELEM));
        c->part[c->n++] = tir_tile_load(b, view, part, t);
    }
}

/* Stores the parts in *c to LDS. */
static void store_weights(struct norm *k, const struct copies *c)
{
    struct tir_builder *b = &k->b;
    for (unsigned i = 0; i < c->n; i++) {
        const struct tir_type t = tir_typeof(b->f, c->part[i]);
        const struct tir_layout map = panel_map(&t);
        tir_tile_lds_store(b, c->to[i], c->part[i], &map);
    }
}

/* Normalises and stores the tokens of workgroup `block` (i32) of q and then of kv, with both
 * weights in LDS. */
static void visit_shared(struct norm *k, struct side *q, struct side *kv, struct tir_value block)
{
    struct tir_builder *b = &k->b;
    struct copies weights = {0};
    struct tir_value of_q[2 * MAX_PANELS], of_kv[2 * MAX_PANELS], first, end;
    const int bytes = shared_bytes(k, q);
    const struct tir_value lds = tir_lds_buffer(b, (unsigned)(bytes + shared_bytes(k, kv)), 16);
    send_weight(k, q, lds, &weights);
    send_weight(k, kv, att_plus(b, lds, bytes), &weights);
    find_run(k, block, &first, &end);
    load_ahead(k, q, first, end, of_q);
    store_weights(k, &weights);
    att_lds_barrier(b);
    visit_ahead(k, q, first, end, of_q);
    load_ahead(k, kv, first, end, of_kv);
    visit_ahead(k, kv, first, end, of_kv);
}

/* Normalises and stores the tokens of workgroup `block` (i32) of q and then of kv. If waves of a
 * workgroup may end at different times, no weight is in LDS, since that would need a barrier. */
static void visit_both(struct norm *k, struct side *q, struct side *kv, struct tir_value block)
{
    if (k->shares) {
        visit_shared(k, q, kv, block);
        return;
    }
    visit_side(k, q, block);
    visit_side(k, kv, block);
}

/* Normalises the tokens of workgroup `block` (i32): of q, of kv, or of both. */
static void visit_sides(struct norm *k, struct side *q, struct side *kv, struct tir_value block)
{
    struct tir_builder *b = &k->b;
    const struct tir_value groups = tir_arg(b, ARG_ROW_GROUPS, TIR_I32);
    choose_panels(k, q);
    choose_panels(k, kv);
    struct tir_if of_q = att_begin_if(b, tir_cmp_lt(b, block, groups));
    visit_side(k, q, block);
    tir_else(b, &of_q, NULL);
    struct tir_if both = att_begin_if(b, tir_cmp_eq(b, groups, tir_i32(b, 0)));
    visit_both(k, q, kv, block);
    tir_else(b, &both, NULL);
    visit_side(k, kv, tir_sub(b, block, groups));
    tir_end_if(b, &both, NULL);
    tir_end_if(b, &of_q, NULL);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct norm k = {.v = v, .m = m, .dtype = att_dtype(v)};
    struct side q = {.in = ATT_TOKENS(Q),
                     .weight = ARG_Q_WEIGHT,
                     .out = ATT_TOKENS(Q_OUT),
                     .width = v->width,
                     .narrow = v->out_dtype == ATT_OUT_DTYPE_FP8};
    if (v->residual) {
        q.residual = ATT_TOKENS(Q_RESIDUAL);
        q.sum = ATT_TOKENS(Q_SUM);
    }
    struct side kv = {.in = ATT_TOKENS(KV),
                      .weight = ARG_KV_WEIGHT,
                      .out = ATT_TOKENS(KV_OUT),
                      .width = v->width_kv};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct tir_builder *b = &k.b;
    *b = tir_at_end(f, f->body);
    struct att_counted_wave own = att_begin_counted(b, tile.waves, COUNTED, ARG_WORKGROUPS);
    k.wave = own.wave;
    k.shares = tile.waves == COUNTED;
    visit_sides(&k, &q, &kv, own.block);
    att_end_counted(b, &own);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {att_counted_grid(tile.waves, COUNTED, ARG_WORKGROUPS), {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "waves=%d", tile.waves);
}

const struct att_template att_template_qk_rmsnorm = {
    .name = "qk_rmsnorm",
    .description = "RMS norm of the compressed q and of the latent in one launch",
    .takes = OP_TAKES_QK_RMSNORM | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = fits,
    .check = check,
    .build = build,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrence of Mamba2 and of lightning attention in chunks of 64 tokens. With G the sums of g
 * over a chunk up to each token, and S, N x P, the state before it, transposed as a wave has it:
 *
 *     M^T[s][t] = (b[s] . c[t]) exp(G[t] - G[s]) w[s] for s <= t, else 0
 *     out^T = exp(G) (S^T c^T) + x^T M^T
 *     S = exp(G[63]) S + (exp(G[63] - G) w b)^T x
 *
 * A workgroup has one sequence, one value head and some of its value elements, and goes over the
 * chunks; its waves have 16 tokens each of M^T and out^T, and N / 4 keys each of S. The next chunk
 * is on its way to registers while this one is multiplied out of LDS. M^T and S become operands of
 * the products after them where they are: M^T in registers, S by way of LDS, since all waves need
 * it. No exponent is positive, and one below -150 is 0 in float, so sums stay small.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/linear/chunk.h"
#include "templates/linear/gates.h"
#include "templates/linear/tile.h"
#include "templates/template.h"
#include "templates/workgroup/lds_map.h"

#include <stdio.h>

enum { ELEM = 2, FLOAT = 4, WAVES = 4, BLOCK = 16 /* rows and columns of a product */, VECTOR = 8 };

/* Index in att_tile.own: value elements of a workgroup. */
enum { VALUES };

static const struct att_tile tiles[] = {
    {.waves = WAVES, .waves_per_simd = 1, .own = {[VALUES] = 64}, .why = "b and c are read once"},
    {.waves = WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 32},
     .why = "LDS has room for keys of 256 elements"},
};

static const struct att_knob knobs[] = {
    {"values", 2, {32, 64}},
    {"waves_per_simd", 1, {2}},
};

/* Numbers of each token of a chunk, which a wave keeps in LDS for itself. */
enum {
    SUMS /* G, of logarithms to the base 2 */,
    WEIGHTS /* w */,
    GROWN /* exp(G) */,
    LEFT /* exp(G[63] - G) w */,
    NUMBERS
};

/* Tensors of the next chunk, which are loaded while one is multiplied. */
enum { B, X, C, DT, LOADED };

struct scan {
    const struct att_variant *v;
    struct tir_builder b;
    unsigned dtype, values; /* of tokens; value elements of the workgroup */
    int instr;
    struct tir_contraction keys, tokens;
    struct tir_type scores, out; /* M^T, 64 x 64, and out^T, values x 64; f32 */
    struct att_state state;
    struct tir_layout b_map, x_map, s_map;
    struct tir_value b_lds, x_lds, s_lds, numbers; /* i32: buffers; `numbers` of this wave */
    struct att_sequence sequence;
    struct tir_value head, value_head, first; /* i32; first value element */
    struct tir_value real;                    /* i1: no padding */
    struct tir_value rate, bias, skip;        /* f32 scalars; rate for exponents to the base 2 */
};

static unsigned keys_of(const struct scan *s) { return (unsigned)s->v->head_dim; }

static bool has_steps(const struct scan *s) { return s->v->gates != ATT_GATES_CONSTANT; }

/* ---- Choices ---- */

static int instruction(const struct att_variant *v, const struct tir_machine *m)
{
    return tir_find_mma(m, BLOCK, BLOCK, 0, att_dtype(v));
}

static struct tir_layout rows_map(const struct tir_machine *m, unsigned rows, unsigned cols)
{
    return att_lds_rows(m, rows, cols, ELEM);
}

static unsigned bytes_of_lds(const struct att_variant *v, const struct att_tile *t,
                             const struct tir_machine *m)
{
    const unsigned n = (unsigned)v->head_dim, p = t->own[VALUES];
    const struct tir_layout maps[] = {rows_map(m, ATT_CHUNK, n), rows_map(m, ATT_CHUNK, p),
                                      rows_map(m, p, n)};
    unsigned bytes = WAVES * NUMBERS * ATT_CHUNK * FLOAT;
    for (int i = 0; i < 3; i++)
        bytes += (att_lds_bytes(&maps[i], ELEM) + 15) / 16 * 16;
    return bytes;
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned bytes = bytes_of_lds(v, t, m);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_HEAD_DIM, "needs %u bytes of LDS, %s has %u", bytes, m->name,
                          m->lds_bytes);
    if (t->own[VALUES] > (unsigned)v->head_dim_v)
        return att_reject(why, ATT_HEAD_DIM_V, "a workgroup has %u of %d elements", t->own[VALUES],
                          v->head_dim_v);
    return att_fits_waves(v, t, m, why);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (!att_state_check_dims(v, why))
        return false;
    if (v->gates == ATT_GATES_BOUNDED)
        return att_reject(why, ATT_GATES, "decays of state spaces have no lower bound");
    if (v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU)
        return att_reject(why, ATT_ACT, "z goes through silu");
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS)
        return att_reject(why, ATT_STATE_LAYOUT, "is v_major or k_major");
    return att_find_tile(v, m, &tile, why);
}

static const struct tir_waves by_token = {.cols = 2}, by_key = {.rows = 2};

static void choose_layouts(struct scan *s)
{
    struct tir_func *f = s->b.f;
    const struct tir_mma *mma = &f->machine->mma[s->instr];
    const unsigned n = keys_of(s), p = s->values;
    s->keys = tir_contract_rows(mma, n, VECTOR);
    const struct tir_layout scores = tir_mma_result(mma, ATT_CHUNK, ATT_CHUNK, by_token);
    const struct tir_layout out = tir_mma_result(mma, p, ATT_CHUNK, by_token);
    const struct tir_layout state = tir_mma_result(mma, n, p, by_key);
    const struct tir_layout turned = tir_layout_transpose(&state);
    s->tokens = tir_contract_acc(&scores, tir_bits(BLOCK));
    s->scores = tir_tile(f, TIR_F32, ATT_CHUNK, ATT_CHUNK, &scores);
    s->out = tir_tile(f, TIR_F32, p, ATT_CHUNK, &out);
    s->state = att_state_of_layout(&s->b, s->v, s->v->head_dim, s->v->head_dim_v, p, &turned);
    s->b_map = rows_map(f->machine, ATT_CHUNK, n);
    s->x_map = rows_map(f->machine, ATT_CHUNK, p);
    s->s_map = rows_map(f->machine, p, n);
}

static void reserve_lds(struct scan *s)
{
    struct tir_builder *b = &s->b;
    const int each = NUMBERS * ATT_CHUNK * FLOAT;
    s->b_lds = tir_lds_buffer(b, att_lds_bytes(&s->b_map, ELEM), 16);
    s->x_lds = tir_lds_buffer(b, att_lds_bytes(&s->x_map, ELEM), 16);
    s->s_lds = tir_lds_buffer(b, att_lds_bytes(&s->s_map, ELEM), 16);
    s->numbers = tir_add(b, tir_lds_buffer(b, (unsigned)(WAVES * each), 16),
                         att_times(b, tir_wave_id(b), each));
}

/* ---- The numbers of a token ---- */

static struct tir_value uniform(struct tir_builder *b, const char *arg, struct tir_value like)
{
    return tir_splat(b, tir_arg(b, arg, TIR_F32), tir_typeof(b->f, like));
}

/* Returns the time steps of a chunk, 64 x 1. */
static struct tir_value steps_of(struct scan *s, struct tir_value raw)
{
    struct tir_builder *b = &s->b;
    if (!has_steps(s))
        return tir_splat(b, tir_f32(b, 1), att_chunk_numbers_type(b, TIR_F32));
    const struct tir_value dt = tir_convert(b, raw, TIR_F32);
    const struct tir_value x = tir_add(b, dt, tir_splat(b, s->bias, tir_typeof(b->f, dt)));
    const struct tir_value w = s->v->gates == ATT_GATES_SOFTPLUS ? att_softplus(b, x) : x;
    return tir_min(b, tir_max(b, w, uniform(b, ARG_DT_MIN, w)), uniform(b, ARG_DT_MAX, w));
}

/* Returns zero for the rows that the sequence does not have. */
static struct tir_value clear_rows(struct tir_builder *b, struct tir_value a, struct tir_value left)
{
    struct tir_type t = tir_typeof(b->f, a);
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t);
    return tir_select(b, tir_cmp_lt(b, row, tir_splat(b, left, t)), a, tir_float_like(b, a, 0));
}

static struct tir_value numbers_at(struct scan *s, int which)
{
    return att_plus(&s->b, s->numbers, which * ATT_CHUNK * FLOAT);
}

static void store_numbers(struct scan *s, int which, struct tir_value a)
{
    const struct tir_layout map = tir_row_major(1, ATT_CHUNK);
    tir_tile_lds_store(&s->b, numbers_at(s, which), a, &map);
}

/* Makes the numbers of a chunk; returns exp(G[63]), a scalar. */
static struct tir_value make_numbers(struct scan *s, struct tir_value raw, struct tir_value left)
{
    enum { LEAST = -150 };
    struct tir_builder *b = &s->b;
    const struct tir_value steps = clear_rows(b, steps_of(s, raw), left);
    const struct tir_value w = tir_transpose(b, steps);
    const struct tir_value g = tir_mul(b, w, tir_splat(b, s->rate, tir_typeof(b->f, w)));
    const struct tir_value sums = tir_row_prefix_sum(b, tir_max(b, g, tir_float_like(b, g, LEAST)));
    const struct tir_value all = tir_lane_read(b, sums, tir_i32(b, ATT_CHUNK - 1));
    const struct tir_value after =
        tir_exp2(b, tir_sub(b, tir_splat(b, all, tir_typeof(b->f, sums)), sums));
    store_numbers(s, SUMS, sums);
    store_numbers(s, WEIGHTS, w);
    store_numbers(s, GROWN, tir_exp2(b, sums));
    store_numbers(s, LEFT, tir_mul(b, after, w));
    tir_wait(b, TIR_LDS_ORDER, 0);
    return tir_exp2(b, all);
}

/* Loads a number for each row (axis 1) or column (axis 0) of a tile, and repeats it. */
static struct tir_value spread_numbers(struct scan *s, int which, struct tir_type over, int axis)
{
    struct tir_builder *b = &s->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, over), axis);
    const struct tir_layout map = axis ? tir_row_major(ATT_CHUNK, 1) : tir_row_major(1, ATT_CHUNK);
    const struct tir_type t = axis ? tir_tile(b->f, TIR_F32, ATT_CHUNK, 1, &l)
                                   : tir_tile(b->f, TIR_F32, 1, ATT_CHUNK, &l);
    over.dtype = TIR_F32;
    return tir_broadcast(b, tir_tile_lds_load(b, numbers_at(s, which), t, &map), over);
}

/* ---- Loads and stores ---- */

/* Returns the type of c as an operand of products, 64 x N. */
static struct tir_type c_type(struct scan *s)
{
    struct tir_func *f = s->b.f;
    const struct tir_layout l =
        tir_mma_right(&f->machine->mma[s->instr], ATT_CHUNK, &s->keys, by_token);
    return tir_tile(f, s->dtype, ATT_CHUNK, keys_of(s), &l);
}

/* Returns the type of x or out as out^T has it, 64 x values. */
static struct tir_type token_type(struct scan *s)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(s->b.f, s->out));
    return tir_tile(s->b.f, s->dtype, ATT_CHUNK, s->values, &l);
}

static void load_chunk(struct scan *s, struct tir_value token, struct tir_value left,
                       struct tir_value loaded[LOADED])
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0);
    const unsigned n = keys_of(s);
    struct tir_view view = att_chunk_rows(b, ATT_HEADS(K_IN), token, left, s->head, zero, n);
    loaded[B] = tir_tile_load(b, view, zero, att_chunk_staged(b, s->dtype, ATT_CHUNK, n));
    view = att_chunk_rows(b, ATT_HEADS(V_IN), token, left, s->value_head, s->first, s->values);
    loaded[X] = tir_tile_load(b, view, zero, att_chunk_staged(b, s->dtype, ATT_CHUNK, s->values));
    view = att_chunk_rows(b, ATT_HEADS(Q), token, left, s->head, zero, n);
    loaded[C] = tir_tile_load(b, view, zero, c_type(s));
    if (!has_steps(s))
        return;
    view = att_chunk_numbers(b, ATT_TOKENS(DT), token, left, s->value_head, ELEM);
    loaded[DT] = tir_tile_load(b, view, zero, att_chunk_numbers_type(b, s->dtype));
}

static unsigned loaded_count(const struct scan *s) { return has_steps(s) ? LOADED : DT; }

/* Stores b and x of a chunk, and the state before it, to LDS. */
static void stage(struct scan *s, const struct tir_value loaded[LOADED], struct tir_value state)
{
    struct tir_builder *b = &s->b;
    const struct tir_value rounded = tir_transpose(b, tir_convert_short(b, state, s->dtype));
    tir_barrier(b);
    tir_tile_lds_store(b, s->b_lds, loaded[B], &s->b_map);
    tir_tile_lds_store(b, s->x_lds, loaded[X], &s->x_map);
    tir_tile_lds_store(b, s->s_lds, rounded, &s->s_map);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

/* ---- Products ---- */

/* Loads rows x k of a buffer in LDS, as the left operand of a product. */
static struct tir_value left_operand(struct scan *s, struct tir_value lds,
                                     const struct tir_layout *map, unsigned rows,
                                     struct tir_waves waves)
{
    struct tir_func *f = s->b.f;
    const struct tir_layout l = tir_mma_left(&f->machine->mma[s->instr], rows, &s->keys, waves);
    return tir_tile_lds_load(&s->b, lds, tir_tile(f, s->dtype, rows, keys_of(s), &l), map);
}

/* Loads the transpose of a buffer of 64 tokens, rows x 64, likewise. */
static struct tir_value turned_operand(struct scan *s, struct tir_value lds,
                                       const struct tir_layout *map, unsigned rows,
                                       struct tir_waves waves)
{
    struct tir_builder *b = &s->b;
    const struct tir_layout l =
        tir_mma_left(&b->f->machine->mma[s->instr], rows, &s->tokens, waves);
    const struct tir_layout turned = tir_layout_transpose(&l);
    const struct tir_type t = tir_tile(b->f, s->dtype, ATT_CHUNK, rows, &turned);
    return tir_transpose(b, tir_tile_lds_load(b, lds, t, map));
}

static struct tir_value zeros(struct scan *s, struct tir_type t)
{
    return tir_splat(&s->b, tir_f32(&s->b, 0), t);
}

/* Returns M^T. */
static struct tir_value weights_of(struct scan *s, struct tir_value c)
{
    struct tir_builder *b = &s->b;
    const struct tir_value keys = left_operand(s, s->b_lds, &s->b_map, ATT_CHUNK, by_token);
    const struct tir_value products = tir_mma(b, s->instr, keys, c, zeros(s, s->scores));
    const struct tir_value g =
        tir_sub(b, spread_numbers(s, SUMS, s->scores, 0), spread_numbers(s, SUMS, s->scores, 1));
    const struct tir_value factor =
        tir_mul(b, tir_exp2(b, g), spread_numbers(s, WEIGHTS, s->scores, 1));
    struct tir_type index = s->scores;
    index.dtype = TIR_I32;
    const struct tir_value seen = tir_cmp_le(b, tir_row_index(b, index), tir_col_index(b, index));
    return tir_select(b, seen, tir_mul(b, products, factor), zeros(s, s->scores));
}

/* Returns what tokens get of the state before the chunk. */
static struct tir_value carried_part(struct scan *s, struct tir_value c)
{
    struct tir_builder *b = &s->b;
    const struct tir_value state = left_operand(s, s->s_lds, &s->s_map, s->values, by_token);
    const struct tir_value sum = tir_mma(b, s->instr, state, c, zeros(s, s->out));
    return tir_mul(b, sum, spread_numbers(s, GROWN, s->out, 0));
}

/* Returns the state after the chunk. */
static struct tir_value advance(struct scan *s, struct tir_value state, struct tir_value all,
                                struct tir_value x)
{
    struct tir_builder *b = &s->b;
    const struct tir_value raw = turned_operand(s, s->b_lds, &s->b_map, keys_of(s), by_key);
    const struct tir_value weights = spread_numbers(s, LEFT, tir_typeof(b->f, raw), 0);
    const struct tir_value weighted = tir_mul(b, tir_convert(b, raw, TIR_F32), weights);
    const struct tir_value faded = tir_mul(b, state, tir_splat(b, all, tir_typeof(b->f, state)));
    return tir_mma(b, s->instr, tir_convert_short(b, weighted, s->dtype), tir_transpose(b, x),
                   faded);
}

/* ---- The walk ---- */

static void store_out(struct scan *s, struct tir_value token, struct tir_value left,
                      struct tir_value sum)
{
    struct tir_builder *b = &s->b;
    const struct tir_type t = token_type(s);
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value there = tir_select(b, s->real, left, zero);
    const struct tir_value x = tir_transpose(b, tir_tile_lds_load(b, s->x_lds, t, &s->x_map));
    const struct tir_value skipped =
        tir_mul(b, tir_convert(b, x, TIR_F32), tir_splat(b, s->skip, s->out));
    struct tir_value out = tir_fma(b, sum, uniform(b, ARG_SCALE, sum), skipped);
    if (s->v->act != ATT_ACT_NONE) {
        const struct tir_view z =
            att_chunk_rows(b, ATT_HEADS(Z_IN), token, there, s->value_head, s->first, s->values);
        const struct tir_value raw = tir_transpose(b, tir_tile_load(b, z, zero, t));
        out = tir_mul(b, out, att_silu(b, tir_convert(b, raw, TIR_F32)));
    }
    const struct tir_view view =
        att_chunk_rows(b, ATT_HEADS(OUT), token, left, s->value_head, s->first, s->values);
    tir_tile_store(b, view, zero, tir_transpose(b, tir_convert_short(b, out, s->dtype)));
}

/* Loads the chunk that begins at `token`: zeros where the sequence has ended. */
static void load_next(struct scan *s, struct tir_value token, struct tir_value loaded[LOADED])
{
    struct tir_builder *b = &s->b;
    const struct tir_value left = tir_sub(b, s->sequence.end, token);
    load_chunk(s, token, tir_select(b, s->real, left, tir_i32(b, 0)), loaded);
}

static void visit_chunks(struct scan *s, struct tir_value *state)
{
    struct tir_builder *b = &s->b;
    struct tir_value carried[LOADED + 1], next[LOADED];
    const unsigned n = loaded_count(s);
    load_next(s, s->sequence.start, carried);
    carried[n] = *state;
    struct tir_loop loop =
        tir_begin_for(b, s->sequence.start, s->sequence.end, tir_i32(b, ATT_CHUNK), carried, n + 1);
    const struct tir_value left = tir_sub(b, s->sequence.end, loop.index);
    const struct tir_value c = tir_transpose(b, carried[C]);
    stage(s, carried, carried[n]);
    load_next(s, att_plus(b, loop.index, ATT_CHUNK), next);
    const struct tir_value all = make_numbers(s, carried[DT], left);
    const struct tir_value sum = carried_part(s, c);
    const struct tir_value m = tir_convert_short(b, weights_of(s, c), s->dtype);
    const struct tir_value x = turned_operand(s, s->x_lds, &s->x_map, s->values, by_token);
    const struct tir_value out = tir_mma(b, s->instr, x, m, sum);
    carried[n] = advance(s, carried[n], all, x);
    store_out(s, loop.index, left, out);
    for (unsigned i = 0; i < n; i++)
        carried[i] = next[i];
    tir_end_for(b, &loop, carried, n + 1);
    *state = carried[n];
}

static void open(struct scan *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_f32(b, 0);
    s->first = att_times(b, tir_block_id(b, 0), (int)s->values);
    s->value_head = tir_block_id(b, 1);
    s->head = tir_div(b, s->value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    s->sequence = att_sequence_of_prompt(b, tir_block_id(b, 2));
    s->rate = tir_mul(b, att_entry(b, ARG_RATE, s->value_head, TIR_F32), tir_f32(b, 1.44269504f));
    s->skip = att_entry_or(b, ARG_SKIP, s->value_head, zero);
    if (has_steps(s))
        s->bias = att_entry_or(b, ARG_DT_BIAS, s->value_head, zero);
}

static void scan_sequence(struct scan *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value in = att_strided_entry(
        b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, s->sequence.index);
    const struct tir_value out =
        att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, s->sequence.index);
    s->real = att_is_slot(b, in);
    struct tir_value state =
        tir_transpose(b, att_state_load(b, &s->state, att_state_at(b, &s->state, in, s->value_head),
                                        s->first, tir_and(b, s->real, s->sequence.has_state)));
    visit_chunks(s, &state);
    att_state_store(b, &s->state, att_state_at(b, &s->state, out, s->value_head), s->first,
                    tir_and(b, s->real, att_is_slot(b, out)), tir_transpose(b, state));
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct scan s = {.v = v,
                     .b = tir_at_end(f, f->body),
                     .dtype = att_dtype(v),
                     .values = tile.own[VALUES],
                     .instr = instruction(v, m)};
    struct tir_builder *b = &s.b;
    choose_layouts(&s);
    reserve_lds(&s);
    open(&s);
    struct tir_if some =
        tir_begin_if(b, tir_cmp_gt(b, s.sequence.count, tir_i32(b, 0)), false, NULL, 0);
    scan_sequence(&s);
    tir_end_if(b, &some, NULL);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, v->head_dim_v / (int)s.values},
                 {ARG_VALUE_HEADS, 1, 1},
                 {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", s.values, tile.waves);
}

const struct att_template att_template_ssd_prefill = {
    .name = "ssd_prefill",
    .description = "state-space recurrence in chunks, for prompts",
    .takes = OP_TAKES_SSD_PREFILL | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"values"},
    .fits = fits,
    .check = check,
    .build = build,
};

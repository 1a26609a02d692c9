/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrence of Mamba2 and of lightning attention in chunks of 64 tokens. b, c and x are a
 * token's vectors, w its time step, and g = rate w the log of its decay. G[t] is the sum of g over
 * the chunk's tokens up to t. S, N x P, is the state before the chunk, transposed as a wave has it:
 *
 *      M^T[s][t] = (b[s] . c[t]) exp(G[t] - G[s]) w[s] for s <= t, else 0
 *      out^T = exp(G) (S^T c^T) + x^T M^T
 *      S = exp(G[63]) S + (exp(G[63] - G) w b)^T x
 *
 * A workgroup has one sequence, or a segment of it, one value head and some of its value elements,
 * and goes over the chunks. Its four waves have 16 tokens each of M^T and out^T, and N / 4 keys
 * each of S. The next chunk is loaded to registers while one is multiplied from LDS. M^T is an
 * operand of the next product in its registers. S passes through LDS, since all waves need it. No
 * exponent is positive, and a power below 2^-150 is 0 in float, so sums stay small.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/linear/gates.h"
#include "templates/linear/tile.h"
#include "templates/ssd_prefill/ssd_prefill.h"
#include "templates/workgroup/lds_map.h"

#include <stdio.h>

enum {
    BLOCK = 16 /* rows and columns of a matrix instruction */,
    VECTOR = 8,
    WAVES = ATT_CHUNK / BLOCK
};

/* Indices in att_tile.own: number of value elements of a workgroup; 1 if b and the state S use one
 * LDS buffer. */
enum { VALUES, SHARED_LDS };

static const struct att_tile tiles[] = {
    {.waves = WAVES,
     .waves_per_simd = 2,
     .own = {[VALUES] = 64},
     .why = "two workgroups of a compute unit hide each other's waits"},
    {.waves = WAVES,
     .waves_per_simd = 2,
     .own = {[VALUES] = 64, [SHARED_LDS] = 1},
     .why = "likewise, where LDS has no room for b and S of both"},
    {.waves = WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 64},
     .why = "registers hold a state of 256 x 64"},
    {.waves = WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 64, [SHARED_LDS] = 1},
     .why = "likewise, where LDS has no room for b and S"},
};

static const struct att_knob knobs[] = {
    {"values", 1, {32}},
    {"shared_lds", 2, {0, 1}},
    {"waves_per_simd", 2, {1, 2}},
};

/* ---- Choices ---- */

/* Returns N, the number of elements of b, c and of a state's rows (head_dim). */
static unsigned keys_of(const struct ssd_prefill *s) { return (unsigned)s->v->head_dim; }

/* Returns the LDS layout of a buffer of rows x cols elements of 16 bits. */
static struct tir_layout rows_map(const struct tir_machine *m, unsigned rows, unsigned cols)
{
    return att_lds_rows(m, rows, cols, SSD_ELEM);
}

/* Returns the bytes of LDS of a buffer of rows x cols elements of 16 bits, as tir_lds_buffer()
 * reserves them. */
static unsigned buffer_bytes(const struct tir_machine *m, unsigned rows, unsigned cols)
{
    enum { ALIGN = 16 };
    const struct tir_layout map = rows_map(m, rows, cols);
    return (att_lds_bytes(&map, SSD_ELEM) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns the bytes of LDS that a workgroup with tile `t` reserves. */
static unsigned bytes_of_lds(const struct att_variant *v, const struct att_tile *t,
                             const struct tir_machine *m)
{
    const unsigned n = (unsigned)v->head_dim, p = t->own[VALUES];
    const unsigned keys = buffer_bytes(m, ATT_CHUNK, n);
    const unsigned state = v->segments == ATT_SEGMENTS_STATES ? 0 : buffer_bytes(m, p, n);
    const unsigned shared = state > keys ? state : keys;
    return ssd_numbers_bytes(t->waves) + buffer_bytes(m, ATT_CHUNK, p) +
           (t->own[SHARED_LDS] ? shared : keys + state);
}

/* Returns the number of registers that a wave needs: for the state S, weights M^T of a chunk's
 * tokens, out^T, and loads of a chunk. */
static unsigned registers(const struct att_variant *v, const struct att_tile *t,
                          const struct tir_machine *m)
{
    enum { OTHERS = 120 };
    const unsigned n = (unsigned)v->head_dim, p = t->own[VALUES];
    return OTHERS + (n * p / t->waves + n * ATT_CHUNK / t->waves) / tir_lanes(m);
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned bytes = bytes_of_lds(v, t, m), most = m->lds_bytes / t->waves_per_simd;
    const unsigned have = tir_wave_vgprs(m, t->waves_per_simd);
    if (bytes > most)
        return att_reject(why, ATT_HEAD_DIM, "a workgroup needs %u bytes of LDS of %u", bytes,
                          most);
    if (registers(v, t, m) > have)
        return att_reject(why, ATT_HEAD_DIM, "%d elements of a key take %u registers of %u",
                          v->head_dim, registers(v, t, m), have);
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->act != ATT_ACT_NONE && v->segments == ATT_SEGMENTS_STATES)
        return att_reject(why, ATT_ACT, "states of segments have no gate");
    return att_state_space_check(v, m, why);
}

/* Sets s->state, the form of a state in the pool. Sets s->entry, the form of a state in
 * segment_states, which is f32 in the order [value elements, head_dim]. `transposed`: layout in
 * registers of the wave's part of a state, value elements x head_dim. */
static void choose_states(struct ssd_prefill *s, const struct tir_layout *transposed)
{
    struct att_variant entry = *s->v;
    const int n = s->v->head_dim, p = s->v->head_dim_v;
    entry.state_dtype = ATT_STATE_DTYPE_F32;
    entry.state_layout = ATT_STATE_LAYOUT_V_MAJOR;
    s->state = att_state_of_layout(&s->b, s->v, n, p, s->values, transposed);
    s->entry = att_state_of_layout(&s->b, &entry, n, p, s->values, transposed);
}

/* Sets the types of tiles, the layouts of products, and the LDS layouts. */
static void choose_layouts(struct ssd_prefill *s)
{
    struct tir_func *f = s->b.f;
    const struct tir_mma *mma = &f->machine->mma[s->instr];
    const unsigned n = keys_of(s), p = s->values;
    s->by_token = (struct tir_waves){.cols = (uint8_t)tir_bits(s->waves)};
    s->by_key = (struct tir_waves){.rows = (uint8_t)tir_bits(s->waves)};
    s->keys = tir_contract_rows(mma, n, VECTOR);
    const struct tir_layout scores = tir_mma_result(mma, ATT_CHUNK, ATT_CHUNK, s->by_token);
    const struct tir_layout out = tir_mma_result(mma, p, ATT_CHUNK, s->by_token);
    const struct tir_layout state = tir_mma_result(mma, n, p, s->by_key);
    const struct tir_layout transposed = tir_layout_transpose(&state);
    s->tokens = tir_contract_acc(&scores, tir_bits(BLOCK));
    s->scores = tir_tile(f, TIR_F32, ATT_CHUNK, ATT_CHUNK, &scores);
    s->out = tir_tile(f, TIR_F32, p, ATT_CHUNK, &out);
    choose_states(s, &transposed);
    s->b_map = rows_map(f->machine, ATT_CHUNK, n);
    s->x_map = rows_map(f->machine, ATT_CHUNK, p);
    s->s_map = rows_map(f->machine, p, n);
}

/* Reserves LDS for b, x, the state S and the tokens' numbers. */
static void reserve_lds(struct ssd_prefill *s)
{
    enum { ALIGN = 16 };
    struct tir_builder *b = &s->b;
    const unsigned keys = att_lds_bytes(&s->b_map, SSD_ELEM);
    const unsigned state = ssd_has_outputs(s) ? att_lds_bytes(&s->s_map, SSD_ELEM) : 0;
    s->b_lds = tir_lds_buffer(b, s->shares_lds && state > keys ? state : keys, ALIGN);
    s->x_lds = tir_lds_buffer(b, att_lds_bytes(&s->x_map, SSD_ELEM), ALIGN);
    if (state)
        s->s_lds = s->shares_lds ? s->b_lds : tir_lds_buffer(b, state, ALIGN);
    s->numbers = tir_lds_buffer(b, ssd_numbers_bytes(s->waves), ALIGN);
}

/* ---- Loads and stores ---- */

/* Returns the tile type of a chunk's c, 64 x N, as the right operand of products. */
static struct tir_type c_type(struct ssd_prefill *s)
{
    struct tir_func *f = s->b.f;
    const struct tir_layout l =
        tir_mma_right(&f->machine->mma[s->instr], ATT_CHUNK, &s->keys, s->by_token);
    return tir_tile(f, s->dtype, ATT_CHUNK, keys_of(s), &l);
}

/* Returns the tile type of a chunk's x, z or out: 64 tokens x values, in the layout of out^T
 * transposed. */
static struct tir_type token_type(struct ssd_prefill *s)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(s->b.f, s->out));
    return tir_tile(s->b.f, s->dtype, ATT_CHUNK, s->values, &l);
}

/* Returns the number of tokens (i32) from token `token` on that may be read: 0 for a padding
 * sequence. */
static struct tir_value left_from(struct ssd_prefill *s, struct tir_value token)
{
    struct tir_builder *b = &s->b;
    return tir_select(b, s->real, tir_sub(b, s->end, token), tir_i32(b, 0));
}

/* Returns the number of tensors of a chunk that are loaded: b, x, and c if outputs are computed. */
static unsigned loaded_count(const struct ssd_prefill *s)
{
    return ssd_has_outputs(s) ? SSD_LOADED : SSD_C;
}

/* Issues the loads of b, x and c of the chunk from token `token` (i32) on into loaded[]: zeros
 * after the last token. */
static void load_chunk(struct ssd_prefill *s, struct tir_value token, struct tir_value *loaded)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0), left = left_from(s, token);
    const unsigned n = keys_of(s), p = s->values;
    struct tir_view view = att_chunk_rows(b, ATT_HEADS(K_IN), token, left, s->head, zero, n);
    loaded[SSD_B] = tir_tile_load(b, view, zero, att_chunk_staged(b, s->dtype, ATT_CHUNK, n));
    view = att_chunk_rows(b, ATT_HEADS(V_IN), token, left, s->value_head, s->first, p);
    loaded[SSD_X] = tir_tile_load(b, view, zero, att_chunk_staged(b, s->dtype, ATT_CHUNK, p));
    if (!ssd_has_outputs(s))
        return;
    view = att_chunk_rows(b, ATT_HEADS(Q), token, left, s->head, zero, n);
    loaded[SSD_C] = tir_tile_load(b, view, zero, c_type(s));
}

/* Issues the loads of the gates z of the chunk from token `token` (i32) on. Returns an unused i32
 * if the variant has no gates. */
static struct tir_value load_gates(struct ssd_prefill *s, struct tir_value token)
{
    struct tir_builder *b = &s->b;
    if (s->v->act == ATT_ACT_NONE)
        return tir_i32(b, 0);
    const struct tir_view z = att_chunk_rows(b, ATT_HEADS(Z_IN), token, left_from(s, token),
                                             s->value_head, s->first, s->values);
    return tir_tile_load(b, z, tir_i32(b, 0), token_type(s));
}

/* Places a barrier, after which all waves have read the values in LDS that the next stage
 * overwrites. */
static void begin_stage(struct ssd_prefill *s) { tir_barrier(&s->b); }

/* Places a wait and a barrier, after which all waves have written this stage's values to LDS. */
static void end_stage(struct ssd_prefill *s)
{
    tir_wait(&s->b, TIR_LDS_WRITES, 0);
    tir_barrier(&s->b);
}

/* Stores `state` (f32, N x values) in LDS, rounded to the type of the products. */
static void stage_state(struct ssd_prefill *s, struct tir_value state)
{
    struct tir_builder *b = &s->b;
    const struct tir_value rounded = tir_convert_ties_any(b, state, s->dtype);
    tir_tile_lds_store(b, s->s_lds, tir_transpose(b, rounded), &s->s_map);
}

/* ---- Products ---- */

/* Reads rows x N elements of the buffer at LDS address `lds` (i32) with layout `map`, as the left
 * operand of a product. */
static struct tir_value left_operand(struct ssd_prefill *s, struct tir_value lds,
                                     const struct tir_layout *map, unsigned rows)
{
    struct tir_func *f = s->b.f;
    const struct tir_layout l =
        tir_mma_left(&f->machine->mma[s->instr], rows, &s->keys, s->by_token);
    return tir_tile_lds_load(&s->b, lds, tir_tile(f, s->dtype, rows, keys_of(s), &l), map);
}

/* Reads the buffer of 64 tokens x `rows` elements at LDS address `lds` (i32), with layout `map`, as
 * a left operand: its transpose, which `waves` divide. */
static struct tir_value transposed_operand(struct ssd_prefill *s, struct tir_value lds,
                                           const struct tir_layout *map, unsigned rows,
                                           struct tir_waves waves)
{
    struct tir_builder *b = &s->b;
    const struct tir_layout l =
        tir_mma_left(&b->f->machine->mma[s->instr], rows, &s->tokens, waves);
    const struct tir_layout transposed = tir_layout_transpose(&l);
    const struct tir_type t = tir_tile(b->f, s->dtype, ATT_CHUNK, rows, &transposed);
    return tir_transpose(b, tir_tile_lds_load(b, lds, t, map));
}

/* Returns a tile of type `t` with 0 in all elements. */
static struct tir_value zeros(struct ssd_prefill *s, struct tir_type t)
{
    return tir_splat(&s->b, tir_f32(&s->b, 0), t);
}

/* Returns M^T, the weights of a chunk's tokens (rows) in its outputs (columns): decayed products of
 * b and c, and 0 for tokens after the output's own token. `c` is the operand c^T. */
static struct tir_value weights_of(struct ssd_prefill *s, struct tir_value c)
{
    struct tir_builder *b = &s->b;
    const struct tir_value keys = left_operand(s, s->b_lds, &s->b_map, ATT_CHUNK);
    const struct tir_value products = tir_mma(b, s->instr, keys, c, zeros(s, s->scores));
    const struct tir_value g = tir_sub(b, ssd_spread_numbers(s, SSD_SUMS, s->scores, 0),
                                       ssd_spread_numbers(s, SSD_SUMS, s->scores, 1));
    const struct tir_value factor =
        tir_mul(b, tir_exp2(b, g), ssd_spread_numbers(s, SSD_WEIGHTS, s->scores, 1));
    struct tir_type index = s->scores;
    index.dtype = TIR_I32;
    const struct tir_value seen = tir_cmp_le(b, tir_row_index(b, index), tir_col_index(b, index));
    return tir_select(b, seen, tir_mul(b, products, factor), zeros(s, s->scores));
}

/* Returns the part of a chunk's out^T that comes from the state before the chunk, which LDS has:
 * the product of the state with c, decayed. `c` is the operand c^T. */
static struct tir_value carried_part(struct ssd_prefill *s, struct tir_value c)
{
    struct tir_builder *b = &s->b;
    const struct tir_value state = left_operand(s, s->s_lds, &s->s_map, s->values);
    const struct tir_value sum = tir_mma(b, s->instr, state, c, zeros(s, s->out));
    return tir_mul(b, sum, ssd_spread_numbers(s, SSD_GROWN, s->out, 0));
}

/* Returns the state after the chunk (f32, N x values), from `state` before it. `sum`: log2 of the
 * decay over the whole chunk (G[63] log2(e)). x: the operand x^T. */
static struct tir_value advance(struct ssd_prefill *s, struct tir_value state, struct tir_value sum,
                                struct tir_value x)
{
    struct tir_builder *b = &s->b;
    const struct tir_type t = tir_typeof(b->f, state);
    const struct tir_value raw = transposed_operand(s, s->b_lds, &s->b_map, keys_of(s), s->by_key);
    const struct tir_value weights = ssd_spread_numbers(s, SSD_LEFT, tir_typeof(b->f, raw), 0);
    const struct tir_value weighted = tir_mul(b, tir_convert(b, raw, TIR_F32), weights);
    const struct tir_value faded = tir_mul(b, state, tir_splat(b, tir_exp2(b, sum), t));
    return tir_mma(b, s->instr, tir_convert_ties_any(b, weighted, s->dtype), tir_transpose(b, x),
                   faded);
}

/* ---- The walk ---- */

/* Stores the outputs of the chunk from token `token` (i32) on: scale `sum` + d x, times silu(z) if
 * the variant has gates. `sum` is out^T. */
static void store_out(struct ssd_prefill *s, struct tir_value token, struct tir_value sum,
                      struct tir_value z)
{
    struct tir_builder *b = &s->b;
    const struct tir_type t = token_type(s);
    const struct tir_value x = tir_transpose(b, tir_tile_lds_load(b, s->x_lds, t, &s->x_map));
    const struct tir_value skipped =
        tir_mul(b, tir_convert(b, x, TIR_F32), tir_splat(b, s->skip, s->out));
    const struct tir_value scale = tir_splat(b, tir_arg(b, ARG_SCALE, TIR_F32), s->out);
    struct tir_value out = tir_fma(b, sum, scale, skipped);
    if (s->v->act != ATT_ACT_NONE)
        out = tir_mul(b, out, att_silu(b, tir_convert(b, tir_transpose(b, z), TIR_F32)));
    const struct tir_view view = att_chunk_rows(b, ATT_HEADS(OUT), token, tir_sub(b, s->end, token),
                                                s->value_head, s->first, s->values);
    tir_tile_store(b, view, tir_i32(b, 0), tir_transpose(b, tir_convert_short(b, out, s->dtype)));
}

/* Stores the tensors loaded[] of the chunk from token `token` (i32) on in LDS. Issues the loads
 * next[] of the next chunk, and the loads *z of this chunk's gates. Returns the part of out^T that
 * comes from `state`. */
static struct tir_value stage_chunk(struct ssd_prefill *s, struct tir_value token,
                                    const struct tir_value *loaded, struct tir_value state,
                                    struct tir_value *next, struct tir_value *z)
{
    struct tir_builder *b = &s->b;
    struct tir_value carried = {0};
    begin_stage(s);
    tir_tile_lds_store(b, s->x_lds, loaded[SSD_X], &s->x_map);
    if (ssd_has_outputs(s))
        stage_state(s, state);
    if (s->shares_lds && ssd_has_outputs(s)) {
        end_stage(s);
        carried = carried_part(s, tir_transpose(b, loaded[SSD_C]));
        begin_stage(s);
    }
    tir_tile_lds_store(b, s->b_lds, loaded[SSD_B], &s->b_map);
    end_stage(s);
    if (ssd_has_outputs(s))
        *z = load_gates(s, token);
    load_chunk(s, att_plus(b, token, ATT_CHUNK), next);
    if (ssd_has_outputs(s) && !s->shares_lds)
        carried = carried_part(s, tir_transpose(b, loaded[SSD_C]));
    return carried;
}

/* Computes the chunk from token `token` (i32) on. carried[] has the chunk's loaded tensors, the
 * state before the chunk and, in kernels without outputs, the sum of g. Replaces all of these by
 * the next chunk's. */
static void visit_chunk(struct ssd_prefill *s, struct tir_value token, struct tir_value *carried)
{
    struct tir_builder *b = &s->b;
    const unsigned n = loaded_count(s);
    const struct tir_waves none = {0};
    struct tir_value next[SSD_LOADED], z = {0};
    struct tir_value *const state = &carried[n];
    const struct tir_value part = stage_chunk(s, token, carried, *state, next, &z);
    const struct tir_value sum = ssd_sum_of_chunk(s);
    struct tir_value m = {0};
    if (ssd_has_outputs(s))
        m = tir_convert_ties_any(b, weights_of(s, tir_transpose(b, carried[SSD_C])), s->dtype);
    const struct tir_value x = transposed_operand(s, s->x_lds, &s->x_map, s->values, none);
    if (ssd_has_outputs(s))
        store_out(s, token, tir_mma(b, s->instr, x, m, part), z);
    else
        carried[n + 1] = tir_add(b, carried[n + 1], sum);
    *state = advance(s, *state, sum, x);
    if (ssd_has_outputs(s))
        ssd_store_block_state(s, att_plus(b, token, ATT_CHUNK), *state);
    for (unsigned i = 0; i < n; i++)
        carried[i] = next[i];
}

/* Computes a group of chunks from token `group` (i32) on, one after the other. A group has a chunk
 * for each wave, whose numbers that wave has made. carried[]: the `n` values that the loop over
 * groups carries. */
static void visit_group(struct ssd_prefill *s, struct tir_value group, struct tir_value *carried,
                        unsigned n)
{
    enum { TOKEN = SSD_NUMBERS * SSD_FLOAT };
    struct tir_builder *b = &s->b;
    const int tokens = (int)s->waves * ATT_CHUNK;
    const struct tir_value end = tir_min(b, att_plus(b, group, tokens), s->end);
    struct tir_loop loop = tir_begin_for(b, group, end, tir_i32(b, ATT_CHUNK), carried, n);
    s->chunk_numbers = tir_add(b, s->numbers, att_times(b, tir_sub(b, loop.index, group), TOKEN));
    visit_chunk(s, loop.index, carried);
    tir_end_for(b, &loop, carried, n);
}

/* Computes the workgroup's tokens. *state is the state before these tokens, and is set to the state
 * after them. Kernels without outputs also set *sum to the sum of g log2(e) over the tokens (log2
 * of their decay). */
static void visit_tokens(struct ssd_prefill *s, struct tir_value *state, struct tir_value *sum)
{
    struct tir_builder *b = &s->b;
    const int tokens = (int)s->waves * ATT_CHUNK;
    const unsigned n = loaded_count(s), all = n + (ssd_has_outputs(s) ? 1 : 2);
    struct tir_value carried[SSD_LOADED + 2];
    load_chunk(s, s->first_token, carried);
    carried[n] = *state;
    carried[n + 1] = *sum;
    struct tir_value steps = ssd_load_steps(s, s->first_token);
    carried[all] = steps;
    const unsigned outer = all + (ssd_has_steps(s) ? 1 : 0);
    struct tir_loop loop =
        tir_begin_for(b, s->first_token, s->end, tir_i32(b, tokens), carried, outer);
    steps = carried[all];
    tir_barrier(b);
    ssd_make_numbers(s, loop.index, steps);
    steps = ssd_load_steps(s, att_plus(b, loop.index, tokens));
    visit_group(s, loop.index, carried, all);
    carried[all] = steps;
    tir_end_for(b, &loop, carried, outer);
    *state = carried[n];
    *sum = carried[n + 1];
}

/* Sets the workgroup's heads, value elements and tokens, and loads its value head's rate, skip and
 * bias. */
static void open(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_f32(b, 0);
    s->first = att_times(b, tir_block_id(b, 0), (int)s->values);
    s->value_head = tir_block_id(b, 1);
    s->head = tir_div(b, s->value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    ssd_choose_tokens(s);
    s->rate = tir_mul(b, att_entry(b, ARG_RATE, s->value_head, TIR_F32), tir_f32(b, ATT_LOG2E));
    if (ssd_has_outputs(s))
        s->skip = att_entry_or(b, ARG_SKIP, s->value_head, zero);
    if (ssd_has_steps(s))
        s->bias = att_entry_or(b, ARG_DT_BIAS, s->value_head, zero);
}

/* Computes the state that a segment's tokens make from zeros, and their sum of g. Stores both in
 * segment_states and segment_sums if another segment follows. */
static void make_segment(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    struct tir_value state = ssd_first_state(s), sum = tir_f32(b, 0);
    ssd_share_first_state(s);
    struct tir_if followed = att_begin_if(b, tir_cmp_lt(b, s->end, s->sequence.end));
    visit_tokens(s, &state, &sum);
    ssd_store_segment(s, state, sum);
    tir_end_if(b, &followed, NULL);
}

/* Computes and stores the outputs of the workgroup's tokens, and the state after the sequence. */
static void make_outputs(struct ssd_prefill *s)
{
    struct tir_value state = ssd_first_state(s), sum = tir_f32(&s->b, 0);
    visit_tokens(s, &state, &sum);
    ssd_store_last_state(s, state);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct ssd_prefill s = {.v = v,
                            .b = tir_at_end(f, f->body),
                            .dtype = att_dtype(v),
                            .values = tile.own[VALUES],
                            .waves = tile.waves,
                            .shares_lds = tile.own[SHARED_LDS],
                            .instr = tir_find_mma(m, BLOCK, BLOCK, 0, att_dtype(v))};
    struct tir_builder *b = &s.b;
    choose_layouts(&s);
    reserve_lds(&s);
    open(&s);
    struct tir_if some = att_begin_if(b, tir_cmp_lt(b, s.first_token, s.end));
    if (ssd_has_outputs(&s))
        make_outputs(&s);
    else
        make_segment(&s);
    tir_end_if(b, &some, NULL);
    tir_return(b);

    const char *const rows = v->segments == ATT_SEGMENTS_NONE ? ARG_BATCH : ARG_SEGMENT_ROWS;
    *out = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, v->head_dim_v / (int)s.values}, {ARG_VALUE_HEADS, 1, 1}, {rows, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d shared_lds=%d", s.values,
             tile.waves, s.shares_lds);
}

const struct att_template att_template_ssd_prefill = {
    .name = "ssd_prefill",
    .description = "state-space recurrence in chunks, for prompts",
    .takes = OP_TAKES_SSD_PREFILL | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"values", "shared_lds"},
    .renamed = {"turns", "shared_lds"},
    .fits = fits,
    .check = check,
    .build = build,
};

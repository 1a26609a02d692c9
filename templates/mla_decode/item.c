/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: a work item. An item with more rows than the tile has columns is worked on in passes.
 * A pass loads Q, runs the pipeline over the item's keys, and stores results or split-KV partials.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <math.h>
#include <string.h>

struct tir_value mla_query_offsets(struct mla *s, const struct split_kv_rows *rows)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value token = tir_convert(b, rows->token, TIR_I64);
    const struct tir_value head = tir_convert(b, rows->head, TIR_I64);
    const int bytes = (int)tir_dtype_bits(s->number.q) / 8;
    return tir_add(b,
                   tir_mul(b, token, mla_like(s, att_stride(b, ARG_Q_TOKEN_STRIDE, bytes), token)),
                   tir_mul(b, head, mla_like(s, att_stride(b, ARG_Q_HEAD_STRIDE, bytes), head)));
}

/* Loads the wave's columns of Q^T, panel by panel, in stage `stage` of the loop's prologue. The
 * last mla_query.n_in_lds panels are stored to LDS. Addresses are computed in stage
 * `first_stage`. */
static void load_panels(struct mla *s, uint8_t first_stage, uint8_t stage)
{
    struct split_kv *const d = &s->d;
    struct tir_builder *const b = &d->b;
    b->stage = first_stage;
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, s->query.panel->q), 1);
    const struct split_kv_rows r =
        split_kv_rows(d, tir_row_index(b, tir_tile(b->f, TIR_I32, d->columns, 1, &rows)));
    const unsigned bytes = tir_dtype_bits(s->number.q) / 8;
    const struct tir_value at = mla_query_offsets(s, &r);
    for (unsigned i = 0; i < s->query.n_panels; i++) {
        const struct panel *const p = &s->query.panel[i];
        const struct tir_layout map = mla_query_map(s, p);
        b->stage = stage;
        const struct tir_value byte = mla_own_first(s, p, bytes);
        const struct tir_type loaded = tir_with_dtype(p->q, s->number.q);
        struct tir_value there,
            q = tir_tile_gather(b, tir_arg(b, ARG_Q, TIR_I64), at, byte, loaded);
        if (s->number.q != s->number.kq)
            q = tir_convert(b, q, s->number.kq);
        /* Only the waves with part 0 of the columns multiply this panel; in other waves Q is 0. */
        if (s->split.depth && !p->divided)
            q = tir_select(b, tir_cmp_eq(b, mla_row_part(s), tir_i32(b, 0)), q,
                           tir_float_like(b, q, 0.0f));
        s->query.q[i] = tir_named(b, "q", q);
        if (mla_find_query(s, i, &there))
            tir_tile_lds_store(b, there, s->query.q[i], &map);
    }
    if (s->query.n_in_lds)
        tir_wait(b, TIR_LDS_WRITES, 0);
    b->stage = TIR_NO_STAGE;
}

/* Returns the index (i32) in this shard of the last key that a query at `position` sees; -1: it
 * sees none. `position` (i32) counts tokens of the context. Key j of a shard is token j * shards +
 * shard of the context. A sequence of more queries than tokens has positions below 0, which see no
 * keys; the division is unsigned. */
static struct tir_value last_seen(struct mla *s, struct tir_value position)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value shards = tir_arg(b, ARG_SHARDS, TIR_I32);
    const struct tir_value ahead = tir_sub(b, shards, tir_arg(b, ARG_SHARD, TIR_I32));
    const struct tir_type t = tir_typeof(b->f, position);
    const bool scalar = t.kind == TIR_SCALAR;
    const struct tir_value sum = tir_add(b, position, scalar ? ahead : tir_splat(b, ahead, t));
    const struct tir_value x = tir_max(b, sum, tir_int_like(b, sum, 0));
    const struct tir_value quotient = tir_div(b, x, scalar ? shards : tir_splat(b, shards, t));
    return tir_sub(b, quotient, tir_int_like(b, quotient, 1));
}

/* Converts the positions of the mask, s->d.attention.at, from tokens of the context to keys of this
 * shard. Does nothing without shards or without a causal mask. */
static void find_shard_position(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    struct att_position *const at = &s->d.attention.at;
    if (!s->d.v->sharded || s->d.v->mask != ATT_MASK_CAUSAL)
        return;
    const struct tir_value sequence = tir_zext(b, s->d.item.sequence, TIR_I64);
    const struct tir_value byte = tir_mul(b, sequence, tir_i64(b, sizeof(int32_t)));
    const struct tir_value context =
        tir_scalar_load(b, att_at(b, ARG_CONTEXT_LENS, byte), tir_i32(b, 0), TIR_I32);
    const struct tir_value others = tir_sub(b, context, s->d.item.kv_len);
    at->diagonal = last_seen(s, tir_add(b, at->diagonal, mla_like(s, others, at->diagonal)));
    at->lowest = last_seen(s, tir_add(b, at->lowest, others));
    at->highest = last_seen(s, tir_add(b, at->highest, others));
}

/* Returns the product (f32) of the scales of Q and of the cache, by which scores are multiplied
 * besides the softmax scale; no value: neither has a scale. */
static struct tir_value tensor_scale(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    if (s->d.v->q_dtype != ATT_Q_DTYPE_FP8)
        return s->kv_scale;
    const struct tir_value q_scale = att_scale(b, ARG_Q_SCALE);
    return s->kv_scale.id ? tir_mul(b, s->kv_scale, q_scale) : q_scale;
}

/* Computes the factor in the exponent and the zeros of O^T while the first blocks are in flight.
 * Otherwise LLVM would load the scales just before the first softmax, and write the zeros again in
 * iterations of the loop. `inside`: the values that the loop carries. */
static void begin_early(struct mla *s, struct tir_value inside[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    b->stage = MLA_STAGE_ARRIVES;
    if (s->d.v->q_dtype == ATT_Q_DTYPE_FP8) {
        att_attention_scale(&s->d.attention, s->d.scores, tensor_scale(s));
        s->softmax.exponent = s->d.attention.softmax.exponent;
        tir_anchor(b, s->softmax.exponent);
    }
    inside[ATT_CARRY_O] = tir_materialize(b, inside[ATT_CARRY_O]);
    b->stage = TIR_NO_STAGE;
}

/* Waits for the loads of split_kv.part_ends while the first blocks are in flight. Without the wait,
 * LLVM would move these loads to the end of the kernel. */
static void await_part_ends(struct mla *s)
{
    s->d.b.stage = MLA_STAGE_ARRIVES;
    tir_anchor_all(&s->d.b, s->d.part_ends, 2);
    s->d.b.stage = TIR_NO_STAGE;
}

void mla_load_tensor_scales(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_variant *const v = s->d.v;
    struct tir_value scales[2];
    unsigned n = 0;
    if (v->kv_scale == ATT_KV_SCALE_TENSOR)
        scales[n++] = att_scale(b, ARG_K_SCALE);
    if (v->q_dtype == ATT_Q_DTYPE_FP8)
        scales[n++] = att_scale(b, ARG_Q_SCALE);
    tir_anchor_all(b, scales, n);
}

struct tir_value mla_count_blocks(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value keys = tir_sub(b, s->d.item.end_key, s->d.item.first_key);
    return tir_sar(b, att_plus(b, keys, (int)s->d.keys - 1), tir_i32(b, (int)tir_bits(s->d.keys)));
}

void mla_find_position(struct mla *s)
{
    split_kv_find_position(&s->d);
    find_shard_position(s);
}

void mla_load_q(struct mla *s, uint8_t stage) { load_panels(s, TIR_NO_STAGE, stage); }

/* Loads Q for waves that share scores: mla_form.load_q. If all panels stay in registers, loads Q
 * after the first block. Otherwise loads Q before that block: stores of panels to LDS wait for Q,
 * and so for all loads issued before Q. */
static void load_shared_q(struct mla *s)
{
    const uint8_t stage = s->query.n_in_lds ? MLA_STAGE_LOADS : MLA_STAGE_ARRIVES;
    if (s->query.shared)
        mla_share_query(s);
    else
        load_panels(s, stage, stage);
}

/* ---- The loop over an item's blocks of keys ---- */

/* The loop over an item's blocks of keys while it is built, and the branch around it for items
 * without keys. */
struct walk {
    struct tir_if some;
    struct tir_loop loop;
    struct tir_value n; /* i32: number of the item's blocks */
    /* carried: m, l and O before the first key. inside: m, l and O as the loop carries them. */
    struct tir_value carried[ATT_N_CARRY], inside[ATT_N_CARRY];
};

/* Sets m, l and O before the first key, loads Q, and begins the branch of items that have keys. */
static void begin_walk(struct mla *s, struct walk *w)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_type types[ATT_N_CARRY];
    struct att_attention own = s->d.attention;
    own.softmax = s->softmax;
    att_attention_begin(&own, s->d.output, w->carried);
    for (int i = 0; i < ATT_N_CARRY; i++) {
        const struct tir_type t = tir_typeof(b->f, w->carried[i]);
        types[i] = s->form->ends_beside_output && i != ATT_CARRY_O ? s->type.vector : t;
    }
    w->n = mla_count_blocks(s);
    w->some = tir_begin_if(b, tir_cmp_gt(b, w->n, tir_i32(b, 0)), false, types, ATT_N_CARRY);
    memcpy(w->inside, w->carried, sizeof(w->inside));
    s->last_block = att_plus(b, w->n, -1);
    mla_find_position(s);
    s->form->load_q(s);
}

/* Begins the loop over the item's blocks and builds the pipeline as its body. The caller ends the
 * loop. */
static void run_loop(struct mla *s, struct walk *w)
{
    struct tir_builder *const b = &s->d.b;
    if (s->d.v->one_launch)
        await_part_ends(s);
    w->loop = tir_begin_for(b, tir_i32(b, 0), w->n, tir_i32(b, 1), w->inside, ATT_N_CARRY);
    att_begin_block(&s->d.attention, w->loop.index, w->inside);
    pipe_build(b, &s->plan, &s->d.attention);
}

struct split_kv_state mla_walk(struct mla *s)
{
    struct walk w;
    if (s->plan.of->late)
        tir_barrier_signal(&s->d.b);
    begin_walk(s, &w);
    run_loop(s, &w);
    struct split_kv_state state = split_kv_end_keys(&s->d, &w.some, &w.loop, w.inside, w.carried);
    if (s->plan.of->late)
        tir_barrier_wait(&s->d.b);
    state.l = mla_sum_own(s, state.l);
    return state;
}

/* Builds the loop over an item's keys, if blocks are copied to LDS an iteration early:
 * mla_form.walk. Returns the state of the wave's columns. */
static struct split_kv_state walk_early(struct mla *s)
{
    struct walk w;
    begin_walk(s, &w);
    begin_early(s, w.inside);
    run_loop(s, &w);
    return mla_share_end(s, &w.some, &w.loop, w.inside);
}

/* ---- A pass over an item's rows, and its end ---- */

/* Waits for all waves, so that LDS is free for the next item. If waves split columns, exchanges m
 * and l through LDS, so that `state` has them for all columns of the wave's O^T: mla_form.join. */
static void join_shared(struct mla *s, struct split_kv_state *state)
{
    struct tir_builder *const b = &s->d.b;
    if (s->source.moved) /* copies of blocks after the last one */
        tir_wait(b, 0, 0);
    tir_barrier(b);
    if (!mla_exchanges(s))
        return;
    struct tir_if writers = mla_begin_writers(s);
    mla_store_vector(s, tir_i32(b, VECTOR_M), state->m);
    mla_store_vector(s, tir_i32(b, VECTOR_L), state->l);
    mla_end_writers(s, &writers);
    att_lds_barrier(&s->d.b);
    state->m = mla_load_vector(s, tir_i32(b, VECTOR_M), 0, s->type.vector);
    state->l = mla_load_vector(s, tir_i32(b, VECTOR_L), 0, s->type.vector);
    for (unsigned part = 1; part < mla_parts(s); part++) {
        const struct tir_value l = mla_load_vector(s, tir_i32(b, VECTOR_L), part, s->type.vector);
        state->l = tir_add(b, state->l, l);
    }
}

/* Sets s->d.attention and s->softmax for a pass over an item's keys, with the factors of the
 * scores. */
static void begin_attention(struct mla *s)
{
    struct split_kv *const d = &s->d;
    s->kv_scale = (struct tir_value){0};
    if (d->v->kv_scale == ATT_KV_SCALE_TENSOR)
        s->kv_scale = att_cache_tensor_scale(&d->k.c);
    const struct tir_value scale = tensor_scale(s);
    d->attention =
        (struct att_attention){.b = &d->b, .v = d->v, .family = s, .first_key = mla_first_key};
    if (s->form->begin_pass)
        s->form->begin_pass(s);
    att_attention_scale(&d->attention, d->scores, scale);
    if (mla_weights_fp8(s))
        att_softmax_range_fp8(&d->b, &d->attention.softmax);
    if (s->plan.has & ATT_HAS(SUM_PRODUCT))
        att_attention_sum_by_product(&d->attention);
    s->softmax = d->attention.softmax;
    if (s->split.softmax_keys && s->split.agree != MLA_EXCHANGE_MAX) {
        const unsigned keys = d->keys >> s->split.softmax_keys,
                       columns = d->columns << s->split.softmax_keys;
        const struct tir_layout own =
            tir_layout_join_blocks(tir_layout_of(d->b.f, d->scores), keys, d->columns);
        s->softmax = att_softmax(&d->b, tir_tile(d->b.f, TIR_F32, keys, columns, &own),
                                 d->attention.softmax.exponent);
        if (mla_weights_fp8(s))
            att_softmax_range_fp8(&d->b, &s->softmax);
    }
    s->softmax.from_zero = s->form->ends_beside_output;
}

void mla_walk_and_store(struct mla *s)
{
    struct split_kv *const d = &s->d;
    struct split_kv_state state = s->form->walk(s);
    if (s->form->join)
        s->form->join(s, &state);
    d->attention.softmax.vector = tir_typeof(d->b.f, state.m);
    if (d->v->one_launch)
        split_kv_touch_ticket(d);
    split_kv_write_state(d, &state);
}

/* Returns the index (i32) after the last key that may be loaded: the item's end, or else the
 * sequence's. Some pipelines load blocks past the item's end. If HBM limits the loop, these blocks
 * repeat the item's last page, which is in the L2. */
static struct tir_value loaded_keys(const struct mla *s)
{
    const bool limited = mla_pv(s)->by_k || s->type.scaled >= 0 || s->form->hbm_bound;
    return limited ? s->d.item.end_key : s->d.item.kv_len;
}

void mla_work_on(struct mla *s, struct tir_value index, const struct mla_passes *passes)
{
    struct split_kv *const d = &s->d;
    struct tir_builder *const b = &d->b;
    if (s->form->load_arguments)
        s->form->load_arguments(s);
    split_kv_find_item(d, index);
    d->k.c = d->value.c = att_cache(b, d->v, d->m, false, tir_i32(b, 0));
    s->source.pages = att_pages(b, d->v, d->item.sequence, loaded_keys(s), d->item.first_key);
    if (s->form->find_source)
        s->form->find_source(s);
    d->n_rows = tir_mul(b, tir_sub(b, d->item.end_token, d->item.first_token), d->gqa);
    const bool shares = d->v->one_launch;
    if (shares)
        split_kv_load_part_ends(d);
    d->touched = split_kv_untouched(d);
    struct tir_loop pass =
        tir_begin_for(b, passes->first, d->n_rows, passes->step, &d->touched, shares);
    d->first_row = pass.index;
    begin_attention(s);
    s->form->pass(s);
    tir_end_for(b, &pass, &d->touched, shares);
    if (shares) {
        d->lds = s->source.part[0].buffer;
        split_kv_share_parts(d);
    }
}

/* Returns the number of operands that may be read from LDS ahead of their MFMA; 0: the scheduler's
 * default. Blocks of 64 keys and 128 rows of Q leave registers for only 2 operands. */
static uint8_t read_ahead(const struct mla *s)
{
    return s->d.keys == 64 && s->d.columns == 128 ? 2 : 0;
}

/* Sets members of *schedule that depend on the matrix instruction of O^T += c^T P^T:
 * mla_form.adjust_schedule. MFMAs with scales take so long that all other work fits beside the
 * first few. */
static void adjust_schedule(const struct mla *s, struct tir_schedule *schedule)
{
    if (s->type.scaled >= 0)
        schedule->cover = TIR_COVER_FILL;
    schedule->read_ahead = read_ahead(s);
}

const struct mla_form mla_shared_form = {
    .choose_layouts = mla_choose_layouts,
    .take_lds = mla_take_lds,
    .find_source = mla_find_pieces,
    .load_q = load_shared_q,
    .read_panel = mla_read_panel,
    .walk = mla_walk,
    .join = join_shared,
    .pass = mla_walk_and_store,
    .adjust_schedule = adjust_schedule,
    .hbm_bound = 1,
};

const struct mla_form mla_early_form = {
    .choose_layouts = mla_choose_layouts,
    .take_lds = mla_take_lds,
    .find_source = mla_find_pieces,
    .load_q = load_shared_q,
    .read_panel = mla_read_panel,
    .walk = walk_early,
    .pass = mla_walk_and_store,
    .adjust_schedule = adjust_schedule,
    .ends_beside_output = 1,
};

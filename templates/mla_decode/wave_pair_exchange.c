/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, wave pairs: the exchange of weights through LDS, the exchange of l at the end, and
 * the steps and passes of pipeline row_pairs (fp8).
 *
 * An fp8 block has 64 keys, and each wave computes scores and weights of 32. The product with c has
 * a scale for each 32 keys, so no wave needs the other's exponents before that product.
 *
 * HBM is idle before the first block and after the last one. To shorten that, an item's arguments
 * are loaded together with the item, and the loads of Q are issued at once. The last block's
 * product is after the loop: each part of the results is stored when its own product ends, and l is
 * exchanged beside the product of the first part.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>
#include <string.h>

enum {
    PARTS = 2,
    PART = 32,          /* columns of the latent in an instruction's result: a part of O^T */
    EARLY = 32,         /* columns of c that are read from LDS in the phase before their product */
    SETTLED_EARLY = 14, /* MFMA wait states that pass while a store to LDS ends */
    ALL_STATES = 20     /* most wait states from any MFMA to a VALU read of its result */
};

struct tir_layout mla_exchange_with_keys(const struct tir_layout *l)
{
    static const uint8_t key[] = {0, 1, 3, 2, 4, 5};
    return tir_layout_permute_rows(l, key);
}

/* Returns the LDS address (i32) at which a map of all waves' columns begins for this wave. Both
 * waves of a pair have the same columns, so the second wave's address is lower by `bytes`. `bytes`:
 * bytes of the columns of one wave of each pair. */
static struct tir_value own_columns(struct mla *s, struct tir_value buffer, unsigned bytes)
{
    struct tir_builder *const b = &s->d.b;
    return tir_sub(b, buffer, att_times(b, mla_one_wave_half(s), (int)bytes));
}

/* Reads the wave's operands of Q from LDS into s->query.q. The rows of Q are in the place of block
 * `block` (i32). The LDS map covers the columns of all waves: twice the rows of a block. */
static void read_queries(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned bytes = mla_one_wave_before(s, s->source.part, s->d.row_columns);
    const struct tir_value place =
        own_columns(s, mla_one_wave_place(s, s->source.part, block), bytes);
    for (unsigned i = 0; i < s->query.n_panels; i++)
        s->query.q[i] = tir_named(b, "q",
                                  mla_row_pairs_read(s, place, s->query.panel[i].q, s->d.columns,
                                                     s->query.panel[i].first));
}

/* ---- Weights and their exponents in LDS, between the waves of a pair ---- */

/* Returns the order in which c^T P^T sums over a block's keys. In a lane, registers with keys of
 * the pair's second wave follow registers with keys of the first wave. */
static struct tir_contraction keys_order(struct mla *s)
{
    const struct tir_mma *const mma = &s->d.m->mma[s->d.pv];
    const struct tir_layout held =
        mla_has_row_pairs(s) ? *tir_layout_of(s->d.b.f, s->d.scores) : mla_one_wave_weights(s);
    struct tir_contraction k = tir_contract_acc(&held, tir_bits(mma->n));
    k.reg[k.n_reg++] = s->d.scores.rows;
    return k;
}

/* Returns the layout of the weights of both waves for a block, [columns x keys], as right operand
 * of c^T P^T. */
static struct tir_layout all_weights(struct mla *s)
{
    const struct tir_contraction k = keys_order(s);
    return tir_mma_right(&s->d.m->mma[s->d.pv], s->d.columns, &k, mla_own_waves(s));
}

/* Returns the number of a lane's weights that are contiguous in LDS, 16 bytes. */
static unsigned vector(const struct mla *s) { return 16 / mla_kq_bytes(s); }

/* Returns the LDS map of the weights of both waves for a block: 16 bytes of a lane are
 * contiguous. */
static struct tir_layout weights_map(struct mla *s)
{
    const struct tir_layout right = all_weights(s), l = tir_layout_transpose(&right);
    return tir_lane_major(&l, vector(s));
}

/* Returns the bytes in LDS from the weights of a pair's first wave to the weights of its second
 * wave. */
static unsigned weights_before(struct mla *s)
{
    const struct tir_layout map = weights_map(s);
    return tir_lds_address(&map, vector(s) << s->d.m->lane_bits, mla_kq_bytes(s));
}

/* Returns the bytes of a place in LDS for a block's weights; columns of both waves of a pair count
 * once. LDS has one such place, or two between which blocks alternate. */
static unsigned weights_bytes(const struct mla *s)
{
    return s->d.keys * s->d.row_columns * mla_kq_bytes(s);
}

/* Returns the bytes in LDS of a place for a block's exponents, f32. Blocks alternate between two
 * places, or all use one. */
static unsigned exponents_bytes(const struct mla *s)
{
    return (PARTS * s->d.columns - s->d.row_columns) * (unsigned)sizeof(float);
}

void mla_exchange_take_lds(struct mla *s, unsigned blocks)
{
    struct tir_builder *const b = &s->d.b;
    s->lds.p_places = mla_one_wave_gathers(s) ? 1 : 2;
    if (mla_has_row_pairs(s)) {
        s->source.part->bytes = mla_row_pairs_bytes(s);
        s->source.part->buffer = tir_lds_buffer(b, blocks * s->source.part->bytes, 16);
    }
    s->lds.p = tir_lds_buffer(b, s->lds.p_places * weights_bytes(s), 16);
    s->lds.scales = tir_lds_buffer(b, s->lds.p_places * exponents_bytes(s), 16);
}

/* Returns the LDS address (i32) of the place of block `block` (i32): one of s->lds.p_places places
 * of `bytes` bytes, which blocks use in turn. `first` (i32): LDS address of the first place. */
static struct tir_value place_of(struct mla *s, struct tir_value first, struct tir_value block,
                                 unsigned bytes)
{
    return att_ring_buffer(&s->d.b, first, block, s->lds.p_places, bytes);
}

/* Returns the LDS address (i32) of block `block`'s weights, at which weights_map() begins for the
 * wave. */
static struct tir_value weights_place(struct mla *s, struct tir_value block)
{
    return own_columns(s, place_of(s, s->lds.p, block, weights_bytes(s)), weights_bytes(s));
}

/* Returns the LDS address (i32) of block `block`'s exponents, at which a row-major map of all
 * columns begins for the wave. */
static struct tir_value exponents_place(struct mla *s, struct tir_value block)
{
    return own_columns(s, place_of(s, s->lds.scales, block, exponents_bytes(s)),
                       s->d.row_columns * sizeof(float));
}

void mla_exchange_store(struct mla *s, struct tir_value block, struct tir_value weights,
                        struct tir_value e)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = weights_map(s), exponents = tir_row_major(PARTS, s->d.columns);
    const unsigned part = s->d.columns * sizeof(float);
    const struct tir_value half = mla_one_wave_half(s);
    tir_tile_lds_store(
        b, tir_add(b, weights_place(s, block), att_times(b, half, (int)weights_before(s))), weights,
        &map);
    tir_tile_lds_store(b, tir_add(b, exponents_place(s, block), att_times(b, half, (int)part)), e,
                       &exponents);
}

struct tir_value mla_exchange_load_exponent(struct mla *s, struct tir_value block,
                                            struct tir_type t)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = tir_row_major(1, s->d.columns);
    const int part = (int)(s->d.columns * sizeof(float));
    const struct tir_value first = att_plus(b, exponents_place(s, block), part);
    return tir_tile_lds_load(b, tir_sub(b, first, att_times(b, mla_one_wave_half(s), part)), t,
                             &map);
}

struct tir_value mla_exchange_load_weights(struct mla *s, struct tir_value block, unsigned part)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = weights_map(s), held = mla_one_wave_weights(s);
    const struct tir_type t = tir_tile(b->f, s->number.p, s->d.scores.rows, s->d.columns, &held);
    return tir_tile_lds_load(
        b, att_plus(b, weights_place(s, block), (int)(part * weights_before(s))), t, &map);
}

/* Returns the type of the weights of both waves for a block, [keys x columns]; its transpose is the
 * right operand of c^T P^T. */
static struct tir_type weights_type(struct mla *s)
{
    const struct tir_layout right = all_weights(s), l = tir_layout_transpose(&right);
    return tir_tile(s->d.b.f, s->number.p, s->d.keys, s->d.columns, &l);
}

/* Reads the weights of both waves for block `block` from LDS: weights_type(). */
static struct tir_value read_weights(struct mla *s, struct tir_value block)
{
    const struct tir_layout map = weights_map(s);
    return tir_tile_lds_load(&s->d.b, weights_place(s, block), weights_type(s), &map);
}

/* Reads from LDS the exponents that both waves' weights for block `block` are relative to: f32, in
 * the layout of the scales of c^T P^T. */
static struct tir_value read_exponents(struct mla *s, struct tir_value block)
{
    const struct tir_layout right = all_weights(s), map = tir_row_major(PARTS, s->d.columns);
    const struct tir_type t = tir_with_dtype(mla_one_wave_scales_type(s, &right), TIR_F32);
    return tir_tile_lds_load(&s->d.b, exponents_place(s, block), t, &map);
}

/* Returns the LDS address (i32) of the wave's half of the latent's columns in block `block`
 * (i32). */
static struct tir_value own_half(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const int bytes = (int)mla_row_pairs_before(s, s->d.output.rows);
    return tir_add(b, mla_one_wave_place(s, s->source.part, block),
                   att_times(b, mla_one_wave_half(s), bytes));
}

/* Returns the type of `width` columns of c, [keys x columns]; its transpose is the left operand of
 * c^T P^T. */
static struct tir_type columns_type(struct mla *s, unsigned width)
{
    const struct tir_contraction k = keys_order(s);
    const struct tir_layout a = tir_mma_left(&s->d.m->mma[s->d.pv], width, &k, mla_own_waves(s));
    const struct tir_layout l = tir_layout_transpose(&a);
    return tir_tile(s->d.b.f, s->number.kq, s->d.keys, width, &l);
}

/* Reads c^T for `width` columns of the latent from LDS, [columns x keys]. `first`: index of the
 * first of these columns in the wave's half of the latent. */
static struct tir_value read_columns(struct mla *s, struct tir_value block, unsigned first,
                                     unsigned width)
{
    struct tir_builder *const b = &s->d.b;
    if (width > MLA_ROW_PAIR_COLUMNS) {
        const struct tir_value upper = read_columns(s, block, first, width / 2);
        return tir_stack(b, upper, read_columns(s, block, first + width / 2, width / 2));
    }
    const struct tir_type t = columns_type(s, width);
    return tir_transpose(b, mla_row_pairs_read(s, own_half(s, block), t, s->d.keys, first));
}

/* Returns c^T of the wave's half of the latent. `first`: its first EARLY columns, which were read
 * before. Reads the other columns from LDS. */
static struct tir_value read_values(struct mla *s, struct tir_value block, struct tir_value first)
{
    struct tir_value v = first;
    for (unsigned width = EARLY; width < s->d.output.rows; width *= 2)
        v = tir_stack(&s->d.b, v, read_columns(s, block, width, width));
    return v;
}

/* Indices of further values that the loop carries, for the last block's product, which is built
 * after the loop: O^T before that product, scales and weights P, and the first columns of c^T. */
enum { BEFORE = ATT_N_CARRY, SCALES, WEIGHTS, FIRST, N_CARRY };

/* ---- The steps of the loop of wave pairs in fp8 ---- */

/* Rounds the wave's weights to fp8. Stores them and their exponents in LDS, where the other wave of
 * the pair reads them. */
static void store_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const p = &s->d.attention.now.p;
    *p = tir_convert_in_range(&s->d.b, tir_named(&s->d.b, "p", *p), TIR_FP8);
    mla_exchange_store(s, mla_block_of(s), *p, s->d.attention.now.exponent);
}

/* Reads the weights and exponents of both waves of the pair from LDS. */
static void load_weights(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.other_exponent = read_exponents(s, mla_block_of(s));
    s->now.pair_weights[0] = read_weights(s, mla_block_of(s));
}

/* Sums the rounded weights P of the wave's keys, to be added to l. */
static void sum_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    s->d.attention.now.weights.sum = tir_col_fold_dot(
        b, tir_convert(b, now->p, TIR_BF16), tir_float_like(b, now->carried[ATT_CARRY_L], 0.0f));
}

/* Reads c^T of the wave's half of the latent from LDS. Part 0 reads the first EARLY columns, part 1
 * the other columns. */
static void read_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const v = &s->d.attention.now.v;
    if (part) {
        *v = read_values(s, mla_block_of(s), *v);
        return;
    }
    *v = read_columns(s, mla_block_of(s), 0, EARLY);
    s->d.attention.now.carried[FIRST] = *v;
}

/* Raises m, and rescales O and l, if an exponent of either wave exceeds m by more than
 * MLA_GROWTH. */
static void rescale(void *context)
{
    struct mla *const s = mla_of(context);
    mla_one_wave_rescale_to(s, s->now.other_exponent, s->d.attention.now.carried);
}

/* Computes the scales of P for the product, and adds the sum of weights to l. The product is inline
 * assembly that needs one or two wait states after the scales. The update of l fills them. */
static void make_scales(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value m = s->d.attention.now.carried[ATT_CARRY_M], all = s->now.other_exponent;
    s->now.scales = mla_one_wave_scales(s, all, m, tir_typeof(b->f, all));
    mla_add_scaled_sum(s, s->d.attention.now.weights.sum, s->d.attention.now.exponent);
}

/* Adds the block's product c^T P^T to O^T. The loop also carries P, its scales and O^T without this
 * product. From them finish() computes the last block's product again, part by part, so that it can
 * store each part early. */
static void product(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const carried = s->d.attention.now.carried, *const o = &carried[ATT_CARRY_O];
    carried[BEFORE] = *o;
    carried[SCALES] = s->now.scales;
    carried[WEIGHTS] = s->now.pair_weights[0];
    *o = mla_one_wave_multiply(s, s->d.attention.now.v, s->now.pair_weights[0], s->now.scales, *o);
    tir_named(&s->d.b, "o", *o);
}

#define P_LDS (1u << MLA_LDS_PAIR_P)
#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))

const struct pipe_op mla_lines_store_p = {"P to LDS", store_weights, ATT_SLOT(P) | ATT_SLOT(E),
                                          ATT_SLOT(P), .lds_writes = P_LDS};
const struct pipe_op mla_lines_read_p = {"read P", load_weights, .writes = ATT_SLOT(P16),
                                         .lds_reads = P_LDS};
const struct pipe_op mla_lines_sum = {"sum P", sum_weights, ATT_SLOT(P), ATT_SLOT(TOP), .flags = 0};
const struct pipe_op mla_lines_read_c = {"read c", .build_part = read_c, .writes = ATT_SLOT(V),
                                         .lds_reads = 1u << MLA_LDS_FIRST | 1u << MLA_LDS_LAST};
const struct pipe_op mla_lines_rescale = {"rescale", rescale, CARRIED | ATT_SLOT(P16), CARRIED,
                                          .flags = PIPE_BRANCH};
const struct pipe_op mla_lines_scales = {
    "scales", make_scales, ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(E) | ATT_SLOT(TOP) | ATT_SLOT(P16),
    ATT_SLOT(L) | ATT_SLOT(EXPONENT), .flags = 0};
const struct pipe_op mla_lines_product = {
    "PV", product, ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O) | ATT_SLOT(EXPONENT), ATT_SLOT(O),
    .flags = PIPE_PRODUCT};

/* Adds up l of the pair's two waves, which have the same m: mla_form.join. Sets d.value.width and
 * d.first_value, so that each wave writes its half of the latent's columns. */
void mla_exchange_join(struct mla *s, struct split_kv_state *state)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned part = s->d.row_columns * sizeof(float);
    const struct tir_layout map = tir_row_major(1, s->d.columns);
    const struct tir_value at = s->lds.unread, half = mla_one_wave_half(s);
    const struct tir_value l = mla_beside_output(s, state->l);
    tir_wait(b, GROUP, 0); /* waits for copies of blocks after the last one */
    tir_barrier(b);
    tir_tile_lds_store(b, at, l, &map);
    att_lds_barrier(&s->d.b);
    const struct tir_value first = tir_sub(b, at, att_times(b, half, PARTS * (int)part));
    const struct tir_value other =
        tir_tile_lds_load(b, att_plus(b, first, (int)part), tir_typeof(b->f, l), &map);
    state->m = mla_beside_output(s, state->m);
    state->l = tir_add(b, l, other);
    tir_barrier(b); /* after it, waves may store vectors of the next item */
    s->d.value.width = s->d.output.rows;
    s->d.first_value = att_times(b, half, s->d.output.rows);
}

/* ---- An item of wave pairs in fp8: its loads, its last product, its results ---- */

void mla_exchange_load_arguments(struct mla *s)
{
    struct split_kv *const d = &s->d;
    const bool table = d->v->page_table == ATT_PAGE_TABLE_BLOCKS;
    const char *const args[] = {
        ARG_Q,
        ARG_Q_TOKEN_STRIDE,
        ARG_Q_HEAD_STRIDE,
        table ? ARG_BLOCK_TABLE : ARG_KV_INDICES,
        table ? ARG_BLOCK_TABLE_STRIDE : ARG_KV_INDPTR,
        ARG_K,
        ARG_K_PAGE_STRIDE,
        ARG_K_TOKEN_STRIDE,
        ARG_Q_SCALE,
        ARG_OUT,
        ARG_OUT_TOKEN_STRIDE,
        ARG_OUT_HEAD_STRIDE,
    };
    enum { N = sizeof(args) / sizeof(args[0]) };
    d->n_beside = 0;
    for (unsigned i = 0; i < N; i++)
        d->beside[d->n_beside++] = tir_arg(&d->b, args[i], TIR_I64);
    if (d->v->kv_scale == ATT_KV_SCALE_TENSOR)
        d->beside[d->n_beside++] = tir_arg(&d->b, ARG_K_SCALE, TIR_I64);
    d->beside[d->n_beside++] = tir_arg(&d->b, ARG_SCALE_LOG2, TIR_F32);
    static_assert(N + 2 <= SPLIT_KV_BESIDE, "all have room");
}

/* Loads Q to registers through the place of the third block in LDS. Computes the addresses of Q
 * before the first list entries are loaded. Issues the loads of Q after the loads of the entries,
 * so that HBM has work until the entries arrive. Returns the addresses of the item's results. */
static struct split_kv_places load_queries(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    enum { THIRD = 2 };
    const struct tir_value block = tir_i32(b, THIRD);
    const int own = (int)(s->d.keys / s->d.waves);
    mla_gather_begin(s);
    const struct mla_row_pairs lines =
        mla_row_pairs_find(s, mla_wave_pair_query_rows(s, att_times(b, s->d.wave, own)));
    tir_anchor_all(b, (struct tir_value[]){lines.even, lines.middle, lines.odd}, 3);
    b->stage = mla_one_wave_stage(s, A_FIND);
    mla_gather_lines(s, QUERIES, block, &lines);
    b->stage = mla_one_wave_stage(s, A_SCORES);
    mla_find_position(s);
    const struct split_kv_places places = split_kv_find_result(&s->d);
    mla_load_tensor_scales(s); /* the first scores need the scales */
    tir_wait(b, QUERIES, 0);
    tir_barrier(b);
    read_queries(s, block);
    att_lds_barrier(&s->d.b);
    b->stage = TIR_NO_STAGE;
    return places;
}

/* Operands and results of the item's last product c^T P^T, which is built after the loop. */
struct last {
    struct mla *s;
    struct tir_value weights, scales; /* P of the last block, and its scales */
    struct tir_value first_part;      /* first PART rows of O^T, with the product added */
};

/* Returns part `number` of O^T (PART rows) with the last block's product added:
 * split_kv.finish_part. `part`: the same rows without that product. `family`: the struct last. */
static struct tir_value finish_part(void *family, struct tir_value part, unsigned number)
{
    struct last *const last = family;
    if (!number)
        return last->first_part;
    const struct tir_value c = read_columns(last->s, last->s->last_block, number * PART, PART);
    return mla_one_wave_multiply(last->s, c, last->weights, last->scales, part);
}

/* Returns the first PART rows of `o`, which is O^T, with the last block's product added. `c`: c^T
 * of these rows. */
static struct tir_value first_part(const struct last *last, struct tir_value o, struct tir_value c)
{
    struct tir_builder *const b = &last->s->d.b;
    while (tir_typeof(b->f, o).rows > PART)
        o = tir_half(b, o, 0);
    return mla_one_wave_multiply(last->s, c, last->weights, last->scales, o);
}

/* Returns the sum of l of the pair's two waves, of type `vector`. The waves exchange l through LDS,
 * lane by lane, which is faster than a sum over lanes before the exchange. The first part of the
 * last product runs at the same time, and its MFMA wait states pass during the wait for LDS. Sets
 * last->weights and last->first_part. `made`: the values that the loop carried. */
static struct tir_value share_l(struct last *last, const struct tir_value made[N_CARRY],
                                struct tir_type vector)
{
    struct mla *const s = last->s;
    struct tir_builder *const b = &s->d.b;
    const struct tir_value l = made[ATT_CARRY_L];
    const unsigned rows = tir_typeof(b->f, l).rows;
    const int part = (int)(s->d.row_columns * sizeof(float)), row = PARTS * part;
    const struct tir_layout map = tir_row_major(rows, s->d.columns),
                            one = tir_row_major(1, s->d.columns);
    const struct tir_value half = att_times(b, mla_one_wave_half(s), PARTS * part);
    const struct tir_value at = att_plus(b, tir_sub(b, s->lds.unread, half), part);
    tir_tile_lds_store(b, s->lds.unread, l, &map);
    /* Without this copy, LLVM would use the result of the same product in the loop's last
     * iteration, and wait for that result before the store. */
    last->weights = tir_materialize(b, made[WEIGHTS]);
    last->first_part = first_part(last, made[BEFORE], made[FIRST]);
    tir_settle(b, SETTLED_EARLY);
    tir_anchor(b, at);
    att_lds_barrier(&s->d.b);
    struct tir_value other[PARTS];
    assert(rows <= PARTS);
    for (unsigned i = 0; i < rows; i++)
        other[i] = tir_tile_lds_load(b, att_plus(b, at, (int)i * row), vector, &one);
    tir_wait(b, GROUP, 0); /* waits for copies of blocks after the last one */
    tir_wait(b, LATER, 0);
    struct tir_value all = mla_beside_output(s, tir_col_sum(b, l));
    tir_settle(b, ALL_STATES);
    for (unsigned i = 0; i < rows; i++)
        all = tir_add(b, all, other[i]);
    return all;
}

/* Writes the wave's part of the item's result or partial. `state`: m, l and O^T of the wave. */
static void write(struct mla *s, const struct split_kv_state *state)
{
    s->d.attention.softmax.vector = tir_typeof(s->d.b.f, state->m);
    split_kv_write_state(&s->d, state);
}

/* Writes an item's results part by part, each part once its own product ends, so that HBM does not
 * wait for the last product. `made`: the values that the loop carried. `places`: the results'
 * addresses. */
static void finish(struct mla *s, const struct tir_value made[N_CARRY],
                   const struct split_kv_places *places)
{
    struct split_kv *const d = &s->d;
    struct tir_builder *const b = &d->b;
    struct last last = {.s = s, .scales = made[SCALES]};
    const struct tir_value m = mla_beside_output(s, made[ATT_CARRY_M]);
    const struct split_kv_state state = {
        .m = m,
        .l = share_l(&last, made, tir_typeof(b->f, m)),
        .o = made[BEFORE],
    };
    d->finish_part = finish_part;
    d->family = &last;
    d->found = places;
    write(s, &state);
    d->finish_part = NULL;
    d->found = NULL;
    /* without it, Q of the next item might overwrite rows of the latent that other waves still
     * read */
    tir_barrier(b);
}

/* Builds the loop over the n (i32) blocks of an item, and the store of its results. `begun`: m, l
 * and O^T before the first block. `places`: the results' addresses. */
static void walk(struct mla *s, struct tir_value n, const struct tir_value begun[ATT_N_CARRY],
                 const struct split_kv_places *places)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout right = all_weights(s);
    struct tir_value inside[N_CARRY] = {
        [BEFORE] = begun[ATT_CARRY_O],
        [SCALES] = tir_undef(b, mla_one_wave_scales_type(s, &right)),
        [WEIGHTS] = tir_undef(b, weights_type(s)),
        [FIRST] = tir_transpose(b, tir_undef(b, columns_type(s, EARLY))),
    };
    memcpy(inside, begun, ATT_N_CARRY * sizeof(begun[0]));
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), inside, N_CARRY);
    att_begin_block(&s->d.attention, loop.index, inside);
    pipe_build(b, &s->plan, &s->d.attention);
    tir_end_for(b, &loop, inside, N_CARRY);
    finish(s, inside, places);
}

void mla_exchange_pass(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value begun[ATT_N_CARRY];
    struct att_attention own = s->d.attention;
    own.softmax = s->softmax;
    att_attention_begin(&own, s->d.output, begun);
    s->d.value.width = s->d.output.rows;
    s->d.first_value = att_times(b, mla_one_wave_half(s), s->d.output.rows);
    const struct tir_value n = mla_count_blocks(s);
    struct tir_if some = att_begin_if(b, tir_cmp_gt(b, n, tir_i32(b, 0)));
    s->last_block = att_plus(b, n, -1);
    const struct split_kv_places places = load_queries(s);
    walk(s, n, begun, &places);
    tir_else(b, &some, NULL);
    const struct split_kv_state none = {
        .m = mla_beside_output(s, begun[ATT_CARRY_M]),
        .l = mla_beside_output(s, tir_col_sum(b, begun[ATT_CARRY_L])),
        .o = tir_materialize(b, begun[ATT_CARRY_O]),
    };
    write(s, &none);
    tir_end_if(b, &some, NULL);
}

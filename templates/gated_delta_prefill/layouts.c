/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/triangle.h"
#include "templates/workgroup/lds_map.h"

enum { ACCESS = 8 /* number of 16-bit elements that a lane loads or stores at once */ };

/* The waves that share a matrix product: only one, since each wave multiplies tiles of its own. */
static const struct tir_waves one_wave;

/* ---- Orders of rows and columns ----
 *
 * A lane has four neighbours of each 16 rows of an accumulator, or eight in waves of 32 lanes. The
 * rows of the state (elements of a key) are numbered so that a lane has eight neighbours, since it
 * loads eight keys from LDS at once. Columns of 32 value elements are numbered so that a lane has
 * two neighbours. */

/* Returns layout `l` with its rows, elements of a key, numbered so that a lane has eight adjacent
 * ones. */
static struct tir_layout order_keys(const struct delta *d, const struct tir_layout *l)
{
    static const uint8_t fours[] = {0, 1, 3, 4, 2, 5, 6}, eights[] = {0, 1, 2, 3, 4, 5, 6};
    return tir_layout_permute_rows(l, tir_lanes(d->m) == 2 * DELTA_BLOCK ? eights : fours);
}

/* Returns layout `l` with its rows, value elements, numbered so that a lane has two adjacent ones.
 * Returns `l` if a wave has 16 value elements. */
static struct tir_layout order_values(const struct delta *d, const struct tir_layout *l)
{
    static const uint8_t pairs[] = {1, 2, 3, 4, 0}, single[] = {0, 1, 2, 3};
    return tir_layout_permute_rows(l, d->values == 2 * DELTA_BLOCK ? pairs : single);
}

/* Returns layout `l` with its columns, value elements, numbered so that a lane has two adjacent
 * ones. Returns `l` if a wave has 16 value elements. */
static struct tir_layout order_value_columns(const struct delta *d, const struct tir_layout *l)
{
    const struct tir_layout transposed = tir_layout_transpose(l),
                            rows = order_values(d, &transposed);
    return tir_layout_transpose(&rows);
}

/* ---- Types ---- */

static struct tir_type tile(struct delta *d, unsigned dtype, unsigned rows, unsigned cols,
                            struct tir_layout l)
{
    return tir_tile(d->b.f, dtype, rows, cols, &l);
}

/* Returns the f32 type of a vector with one number for each column (axis 0) or row (axis 1) of `t`.
 * The number is in the lanes that have this column or row. */
static struct tir_type slice(struct delta *d, struct tir_type t, int axis)
{
    return tile(d, TIR_F32, axis ? t.rows : 1, axis ? 1 : t.cols,
                tir_layout_slice(tir_layout_of(d->b.f, t), axis));
}

/* Sets the types strip, keys, left and right: 16 tokens x head_dim as loaded, a row of it in f32,
 * and both operands of products over head_dim. */
static void choose_strips(struct delta *d)
{
    const struct tir_mma *const mma = &d->m->mma[d->over_keys];
    const unsigned key = (unsigned)d->v->head_dim;
    struct delta_types *t = &d->t;
    struct tir_spread s = tir_spread(d->m, 1);
    tir_spread_cols(&s, TIR_REGS, tir_bits(key) - d->m->lane_bits);
    tir_spread_cols(&s, TIR_LANES, d->m->lane_bits);
    tir_spread_rows(&s, TIR_REGS, tir_bits(DELTA_BLOCK));
    t->strip = tile(d, d->dtype, DELTA_BLOCK, key, tir_spread_layout(&s));
    t->keys = slice(d, t->strip, 0);
    t->left =
        tile(d, d->dtype, DELTA_BLOCK, key, tir_mma_left(mma, DELTA_BLOCK, &d->keys, one_wave));
    t->right =
        tile(d, d->dtype, DELTA_BLOCK, key, tir_mma_right(mma, DELTA_BLOCK, &d->keys, one_wave));
}

/* Sets the types line, block, rows, cols and coefficients: blocks of 16 x 16 tokens, and a number
 * for each token. */
static void choose_blocks(struct delta *d)
{
    const struct tir_mma *const mma = &d->m->mma[d->by_block];
    struct delta_types *t = &d->t;
    const struct tir_layout result = tir_mma_result(mma, DELTA_BLOCK, DELTA_BLOCK, one_wave);
    const struct tir_contraction k = tir_contract_acc(&result, tir_bits(mma->n));
    t->line = tile(d, TIR_F32, DELTA_CHUNK, 1, tir_spread_column(d->m, 1, DELTA_CHUNK));
    t->block = tile(d, TIR_F32, DELTA_BLOCK, DELTA_BLOCK, result);
    t->rows = slice(d, t->block, 1);
    t->cols = slice(d, t->block, 0);
    t->coefficients =
        tile(d, d->dtype, DELTA_BLOCK, DELTA_BLOCK, tir_mma_left(mma, DELTA_BLOCK, &k, one_wave));
}

/* Sets the types of tiles of 16 and of 32 tokens x the wave's value elements. Sets the type of keys
 * as left operand of products over tokens. */
static void choose_values(struct delta *d)
{
    const struct tir_mma *const mma = &d->m->mma[d->over_tokens];
    const unsigned key = (unsigned)d->v->head_dim;
    struct delta_types *t = &d->t;
    const struct tir_layout own = tir_mma_result(mma, DELTA_BLOCK, d->values, one_wave);
    const struct tir_layout values = order_value_columns(d, &own);
    t->values = tile(d, TIR_F32, DELTA_BLOCK, d->values, values);
    t->value_rows = slice(d, t->values, 1);
    t->stored = tile(d, d->dtype, DELTA_BLOCK, d->values,
                     tir_layout_regs_first(&values, TIR_RC(0, d->values - 1)));

    const struct tir_layout all = tir_mma_result(mma, DELTA_CHUNK / 2, d->values, one_wave);
    const struct tir_contraction acc = tir_contract_acc(&all, tir_bits(mma->n));
    const struct tir_contraction k =
        delta_in_stages(d) ? tir_contract_rows(mma, DELTA_CHUNK / 2,
                                               DELTA_CHUNK / 2 / (tir_lanes(d->m) / DELTA_BLOCK))
                           : acc;
    const struct tir_layout padded = tir_mma_right(mma, d->values, &acc, one_wave);
    const struct tir_layout columns = order_values(d, &padded);
    t->padded = tile(d, d->dtype, DELTA_CHUNK / 2, d->values, tir_layout_transpose(&columns));
    const struct tir_layout right = tir_mma_right(mma, d->values, &k, one_wave);
    const struct tir_layout ordered = order_values(d, &right);
    t->tokens = tile(d, d->dtype, DELTA_CHUNK / 2, d->values, tir_layout_transpose(&ordered));
    const struct tir_layout left = tir_mma_left(mma, key, &k, one_wave);
    t->transposed = tile(d, d->dtype, key, DELTA_CHUNK / 2, order_keys(d, &left));
    const struct tir_layout transposed = *tir_layout_of(d->b.f, t->transposed);
    t->packed_transposed = tile(d, d->dtype, key * DELTA_CHUNK / 2 / ACCESS, ACCESS,
                                tir_layout_split_blocks(&transposed, key, ACCESS));
}

/* Sets the types of loads of a record's blocks and of V: a lane loads 16 bytes at once. Sets V's
 * layouts in LDS. */
static void choose_wide(struct delta *d)
{
    enum { FOUR = 4 };
    struct delta_types *t = &d->t;
    const struct tir_layout block = *tir_layout_of(d->b.f, t->coefficients);
    const struct tir_layout groups = tir_layout_split_blocks(&block, DELTA_BLOCK, FOUR);
    const struct tir_layout transposed = tir_layout_transpose(&groups);
    const struct tir_layout pair = tir_layout_stack(&transposed, FOUR);
    t->packed_blocks = tile(d, d->dtype, FOUR * DELTA_BLOCK, ACCESS, tir_layout_transpose(&pair));
    t->v_rows = tile(d, d->dtype, DELTA_CHUNK, d->values,
                     tir_spread_chunks(d->m, 1, ACCESS, DELTA_CHUNK, d->values));
    d->map.v = tir_row_major(DELTA_CHUNK, d->values);
    d->map.v_block = tir_row_major(DELTA_BLOCK, d->values);
}

/* Sets the types of the state (as result, operand and transposed), of the updates W in a record,
 * and of a segment's transition. */
static void choose_state(struct delta *d)
{
    const struct tir_mma *const mma = &d->m->mma[d->over_keys];
    const unsigned key = (unsigned)d->v->head_dim;
    struct delta_types *t = &d->t;
    const struct tir_layout result = tir_mma_result(mma, key, d->values, one_wave);
    const struct tir_layout keys = order_keys(d, &result);
    t->state = tile(d, TIR_F32, key, d->values, order_value_columns(d, &keys));
    t->state_rows = slice(d, t->state, 1);
    const struct tir_layout right = tir_mma_right(mma, d->values, &d->keys, one_wave);
    const struct tir_layout ordered = order_values(d, &right);
    t->operand = tile(d, d->dtype, key, d->values, tir_layout_transpose(&ordered));
    t->value_keys = tile(d, d->dtype, d->values, key, ordered);
    t->value_tokens = tile(d, d->dtype, d->values, DELTA_BLOCK,
                           tir_layout_transpose(tir_layout_of(d->b.f, t->values)));
    t->value_numbers = tile(d, TIR_F32, 1, DELTA_BLOCK,
                            tir_layout_transpose(tir_layout_of(d->b.f, t->value_rows)));
    const struct tir_layout over = tir_mma_left(mma, key, &d->keys, one_wave);
    t->transition = tile(d, d->dtype, key, key, order_keys(d, &over));
    t->one = tile(d, TIR_F32, 1, 1, tir_spread_one(d->m));
}

/* ---- LDS ---- */

/* Sets the layouts in LDS of all tiles but V. */
static void choose_maps(struct delta *d)
{
    const unsigned key = (unsigned)d->v->head_dim;
    const struct tir_layout panels = tir_row_major(DELTA_BLOCKS / 2 * key, DELTA_BLOCK);
    d->map = (struct delta_maps){
        .strip = att_lds_swizzled(DELTA_BLOCK, key, ACCESS, 0, tir_bits(key / ACCESS)),
        .panel = tir_row_major(key, DELTA_BLOCK),
        .transposed = tir_layout_join_blocks(&panels, key, DELTA_BLOCK),
        .block = tir_row_major(DELTA_BLOCK, DELTA_BLOCK),
        .line = tir_row_major(DELTA_CHUNK, 1),
        .rows = tir_row_major(DELTA_BLOCK, 1),
        .cols = tir_row_major(1, DELTA_BLOCK),
        .keys = tir_row_major(1, key),
        .state = tir_row_major(key, 1),
    };
}

/* Returns the LDS bytes of the keys, or of the queries, of 64 tokens. */
static unsigned rows_bytes(const struct att_variant *v)
{
    return (unsigned)(DELTA_CHUNK * v->head_dim * DELTA_ELEM);
}

/* Returns the LDS bytes of delta_lds.totals: the decay of each channel over each block. Returns 0
 * if all channels share a decay. */
static unsigned totals_bytes(const struct att_variant *v)
{
    return v->decay == ATT_DECAY_CHANNEL ? (unsigned)(DELTA_BLOCKS * v->head_dim * DELTA_FLOAT) : 0;
}

/* Returns the LDS bytes of one wave's lines of enum delta_line: DELTA_BETA only with a decay per
 * channel, else all. */
static unsigned sums_bytes(const struct att_variant *v)
{
    return (v->decay == ATT_DECAY_CHANNEL ? 1 : DELTA_LINES) * DELTA_LINE_BYTES;
}

/* Returns the LDS bytes of keys, queries and keys as columns. The launch of chunks has none of
 * these in LDS if all channels share a decay. With a decay per channel it has the keys of all
 * blocks but the last, and a scratch strip for each wave. */
static unsigned factors_bytes(const struct att_variant *v)
{
    enum { EARLY = DELTA_BLOCKS - 1 };
    if (v->stage != ATT_STAGE_CHUNKS)
        return 3 * rows_bytes(v);
    return v->decay == ATT_DECAY_HEAD ? 0 : (EARLY + DELTA_WAVES) * rows_bytes(v) / DELTA_BLOCKS;
}

/* Returns the LDS bytes of the blocks of N and P up to the diagonal; 0 in the launch of chunks,
 * which stores them to records. */
static unsigned triangles_bytes(const struct att_variant *v)
{
    return v->stage == ATT_STAGE_CHUNKS ? 0 : 2 * DELTA_TRIANGLE * DELTA_BLOCK_BYTES;
}

unsigned delta_lds_bytes(const struct att_variant *v)
{
    if (v->stage == ATT_STAGE_OUTPUTS)
        return 0;
    if (v->stage == ATT_STAGE_SCAN || v->stage == ATT_STAGE_SEGMENTS)
        return (unsigned)(DELTA_CHUNK * v->head_dim_v * DELTA_ELEM);
    return factors_bytes(v) + triangles_bytes(v) + DELTA_WAVES * sums_bytes(v) +
           2 * DELTA_LINE_BYTES + totals_bytes(v);
}

/* Reserves the regions of LDS and sets d->lds. With a decay per channel, lds.k and lds.q hold keys
 * and scratch strips while coefficients are computed. In a kernel of one launch the operands of the
 * scan then overwrite these. */
static void choose_lds(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const int rows = (int)rows_bytes(d->v);
    struct delta_lds *l = &d->lds;
    if (d->v->stage == ATT_STAGE_OUTPUTS)
        return;
    if (d->v->stage == ATT_STAGE_SCAN || d->v->stage == ATT_STAGE_SEGMENTS) {
        const int bytes = DELTA_CHUNK * (int)d->values * DELTA_ELEM;
        l->v = delta_own(d, tir_lds_buffer(b, d->waves * (unsigned)bytes, 0), bytes);
        return;
    }
    if (factors_bytes(d->v)) {
        l->k = tir_lds_buffer(b, factors_bytes(d->v), 0);
        l->q = att_plus(b, l->k, rows);
        l->transposed = att_plus(b, l->q, rows);
    }
    if (triangles_bytes(d->v)) {
        l->n = tir_lds_buffer(b, DELTA_TRIANGLE * DELTA_BLOCK_BYTES, 0);
        l->p = tir_lds_buffer(b, DELTA_TRIANGLE * DELTA_BLOCK_BYTES, 0);
    }
    const struct tir_value sums = tir_lds_buffer(b, DELTA_WAVES * sums_bytes(d->v), 0);
    l->sums = delta_own(d, sums, (int)sums_bytes(d->v));
    l->scales = tir_lds_buffer(b, 2 * DELTA_LINE_BYTES, 0);
    if (delta_by_channel(d))
        l->totals = tir_lds_buffer(b, totals_bytes(d->v), 0);
    if (factors_bytes(d->v)) {
        const int strip = rows / DELTA_BLOCKS;
        const struct tir_value scratch =
            d->v->stage == ATT_STAGE_CHUNKS ? att_plus(b, l->k, rows - strip) : l->q;
        l->scratch = delta_own(d, scratch, strip);
    }
}

struct tir_value delta_own(struct delta *d, struct tir_value region, int bytes)
{
    return tir_add(&d->b, region, att_times(&d->b, d->wave, bytes));
}

void delta_sync(struct delta *d)
{
    tir_wait(&d->b, TIR_LDS_WRITES, 0);
    tir_barrier(&d->b);
}

void delta_choose(struct delta *d)
{
    d->over_keys = d->over_tokens = tir_find_mma(d->m, DELTA_BLOCK, DELTA_BLOCK, 0, d->dtype);
    d->by_block = tir_find_mma(d->m, DELTA_BLOCK, DELTA_BLOCK, DELTA_BLOCK, d->dtype);
    if (d->by_block < 0)
        d->by_block = d->over_tokens;
    d->keys = tir_contract_rows(&d->m->mma[d->over_keys], (unsigned)d->v->head_dim, ACCESS);
    choose_strips(d);
    choose_blocks(d);
    choose_values(d);
    choose_state(d);
    choose_maps(d);
    choose_wide(d);
    choose_lds(d);
}

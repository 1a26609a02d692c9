/* SPDX-License-Identifier: Apache-2.0
 *
 * Absorbed multi-head latent attention of a few queries per sequence over a paged cache
 * (DeepSeek-V2, arXiv 2405.04434, section 2.1; the weights absorbed as in appendix C). A token's
 * row of the cache is its latent c, which all heads share as key and as value, and its rotated key
 * k_pe:
 *
 *     O = softmax(scale (q_nope c^T + q_pe k_pe^T) + mask) c
 *
 * The queries and heads of a sequence are the columns of S^T = K Q^T and O^T = c^T P^T. The waves
 * of a workgroup work on the same blocks of keys. A block is copied to LDS once, and read twice: as
 * K, and transposed as V.
 *
 * O^T is 512 x columns of f32, which exceeds the registers of a wave. The forms differ in how waves
 * divide it:
 *
 *     shared scores       waves split the rows of O^T, and the columns of S^T, 16 a wave; further
 *                         waves split its keys. P passes through LDS. With 16 columns every wave
 *                         has all of S^T. Where LDS is small, or a wave has 32 lanes, they split
 *                         the latent or the keys of S^T too, which costs a barrier and saves many
 *                         matrix instructions
 *     one wave per SIMD   a wave has 32 of 128 columns and all of O^T for them: one_wave.c,
 *                         tensor_rows.c where the tensor data mover copies blocks, and
 *                         register_transpose.c where LDS does not transpose c
 *     wave pairs          two waves have the same 32 columns, each with half of the keys in S^T and
 *                         half of O^T; two workgroups share a list: wave_pair.c
 *     dv split            a wave has all columns and a part of the latent: dv_split.c
 *
 * The tables in pipelines/ say when each step runs, and how many blocks LDS has.
 *
 *     columns  waves  registers of a wave, 4 bytes a lane             LDS (gfx942, gfx950)
 *          16      4  O 32, Q 24 or 72, S 8, block 18 or 36           23 KiB, 76 KiB
 *          32      8  O 32, Q 18 or 72, S 8, block in flight 18       47 KiB, 117 KiB
 *          64      8  O 64, Q 36 or 72, S 8, block in flight 18       48 KiB, 157 KiB
 *          64      4  O 128, Q 144, S 8, or 128, 72, 16               157 or 158 KiB of gfx950
 *         128      4  O 256, Q 144, S 8 or 16                         55 KiB, 146 KiB
 *         128      8  O 128, Q 72 or 24, S 4 or 8, block 9 or 18      43 KiB, 143 KiB
 *
 * A wave has 256 registers, and operands in flight and addresses take 40 to 60 of them. With 128
 * columns that is too much. gfx942, whose LDS is nearly full, therefore has blocks of 16 keys, and
 * gfx950 keeps a part of Q in LDS.
 *
 * Queries and keys in fp8 take half of these registers and LDS, so a block has twice as many keys.
 * Both products are then in fp8. P is rounded to fp8 (attention/softmax.h has its range, and
 * scaled.c the products of gfx950 with more than 32 columns), and c is an operand without
 * conversion.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
/* Most columns (a query and head each) of a sequence in one call. */
enum { MAX_ROWS = 1024 };

/* Indices of att_tile.own. LDS_KIB: KiB of LDS of the targets that the row is for. Q_IN_LDS: panels
 * of Q that are in LDS, since registers have no room. BUFFERS: most blocks of keys in LDS; 0: as
 * many as fit. ONE_WAVE: SINGLE: one wave per SIMD; IN_PAIRS: wave pairs; 0: neither. LOOP_AT:
 * tir_schedule.loop_at. SINGLE_EIGHTHS: most work lists, in eighths of the compute units, that the
 * second kernel runs in place of wave pairs. */
enum { LDS_KIB, Q_IN_LDS, BUFFERS, ONE_WAVE, LOOP_AT, SINGLE_EIGHTHS };
enum { SINGLE = 1, IN_PAIRS };

/* Member `rows` is the number of columns (a query and head each) that a workgroup computes at once.
 * A variant uses the first row with enough columns, or else the last row that fits. */
static const struct att_tile tiles[] = {
    {.rows = 16, .waves = 4, .keys = 32, .own = {[LDS_KIB] = 160}},
    {.rows = 32, .waves = 8, .keys = 32, .own = {[LDS_KIB] = 160}},
    {.rows = 64, .waves = 8, .keys = 32, .own = {[LDS_KIB] = 160}},
    {.rows = 64,
     .waves = 4,
     .keys = 32,
     .own = {[LDS_KIB] = 160, [ONE_WAVE] = IN_PAIRS, [SINGLE_EIGHTHS] = 7}},
    {.rows = 128, .waves = 4, .keys = 32, .own = {[LDS_KIB] = 160, [ONE_WAVE] = 1}},
    {.rows = 128, .waves = 8, .keys = 32, .own = {[LDS_KIB] = 160, [Q_IN_LDS] = 4}},
    {.rows = 16, .waves = 4, .keys = 16, .own = {[LDS_KIB] = 64}},
    {.rows = 32, .waves = 8, .keys = 16, .own = {[LDS_KIB] = 64}},
    {.rows = 64, .waves = 8, .keys = 16, .own = {[LDS_KIB] = 64}},
    {.rows = 128, .waves = 4, .keys = 16, .own = {[LDS_KIB] = 64, [ONE_WAVE] = 1}},
    {.rows = 128, .waves = 8, .keys = 16, .own = {[LDS_KIB] = 64}},
    {.rows = 16, .waves = 4, .keys = 32, .own = {[LDS_KIB] = 320}},
    {.rows = 32, .waves = 8, .keys = 32, .own = {[LDS_KIB] = 320}},
    {.rows = 64, .waves = 8, .keys = 32, .own = {[LDS_KIB] = 320}},
    {.rows = 128, .waves = 4, .keys = 32, .own = {[LDS_KIB] = 320, [ONE_WAVE] = 1}},
};

static const struct att_knob knobs[] = {
    {"keys", 1, {16}},
    {"buffers", 2, {1, 2}},
    {"q_in_lds", 2, {2, 6}},
};

/* knobs of fitted rows */
static const struct att_knob fitted[] = {{"loop_at", 6, {0, 1, 2, 3, 4, 6}}};

/* True if the pipelines of one wave per SIMD serve the variant's lists of slots. Without
 * transposing LDS reads, LDS has no room for both list entries and rotated keys. */
static bool takes_lists(const struct att_variant *v, const struct tir_machine *m)
{
    return v->q_dtype != ATT_Q_DTYPE_FP8 &&
           (att_transposes_8_bytes(m) || v->head_dim == v->head_dim_v);
}

/* True if waves of 32 lanes that share scores have registers for a workgroup's 64 columns. A wave
 * holds Q of 16 columns, O of all 64 columns for an eighth of the latent, and IN_FLIGHT registers.
 */
static bool has_room_for_64(const struct att_variant *v, const struct tir_machine *m)
{
    enum { COLUMNS = 64, WAVES = 8, IN_FLIGHT = 60 /* operands and addresses */, REGISTER = 4 };
    const unsigned q_bytes = v->q_dtype == ATT_Q_DTYPE_FP8 ? 1 : 2;
    const unsigned q = MFMA_ROWS * (unsigned)v->head_dim * q_bytes / REGISTER;
    const unsigned o = COLUMNS * (unsigned)v->head_dim_v / WAVES;
    return (q + o) / tir_lanes(m) + IN_FLIGHT <= tir_wave_vgprs(m, 2);
}

/* Returns the most columns that a workgroup has registers for. With 128 columns no registers are
 * left for addresses of a mask's bytes. Waves of 32 lanes that share scores have at most 64: LLVM
 * spills their O of 128 columns as it is rescaled. */
static int count_most_columns(const struct att_variant *v, const struct tir_machine *m)
{
    if (m->lane_bits == TIR_WAVE_BITS)
        return v->mask == ATT_MASK_CUSTOM ? 64 : 128;
    if (tir_tensor_copy(m) && mla_one_wave_takes(v, m))
        return 128;
    return has_room_for_64(v, m) ? 64 : 32;
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const int rows = (v->gqa ? v->gqa : 64) * v->q_len;
    const int most = count_most_columns(v, m);
    if (t->own[LDS_KIB] * 1024u != m->lds_bytes)
        return att_reject(why, ATT_TILE, "the tile is for %d KiB of LDS", t->own[LDS_KIB]);
    if (tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, t->keys < 32 ? 16 : 0, att_dtype(v)) < 0)
        return att_reject(why, ATT_TILE, "the tile has %d keys, fewer than a product of %s takes",
                          t->keys, m->name);
    if (t->rows > most)
        return att_reject(why, ATT_TILE, "the tile has no registers for %d columns", t->rows);
    if (t->own[ONE_WAVE] && !mla_one_wave_takes(v, m))
        return att_reject(why, ATT_TILE,
                          "the tile is for pages of 16 keys or a multiple, stored as q is");
    const int keys = t->own[LDS_KIB] > 64 ? 32 : 16;
    if (t->own[ONE_WAVE] && (t->keys != keys || t->own[BUFFERS] || t->own[Q_IN_LDS]))
        return att_reject(why, ATT_TILE,
                          "the tile has %d keys, all blocks that fit and no Q in LDS", keys);
    if (t->own[ONE_WAVE] == SINGLE && v->sparse != ATT_SPARSE_NONE && !takes_lists(v, m))
        return att_reject(
            why, ATT_TILE,
            "the tile takes lists of rows of 16 bits, with a rotated part only where LDS "
            "transposes");
    if (t->own[ONE_WAVE] == IN_PAIRS)
        return mla_wave_pair_take(v) ||
               att_reject(why, ATT_TILE,
                          "the tile is for 65 to 128 rows, gqa times q_len, without one_launch");
    if (!v->tile && t->rows < rows && t->rows < most)
        return att_reject(why, ATT_TILE, "the tile has %d columns, fewer than gqa times q_len, %d",
                          t->rows, rows);
    return true;
}

/* Sets the calls that run the second kernel (one wave per SIMD), by the number of work lists, or of
 * sequences without a plan. Other calls run wave pairs, with tile `pairs`. */
static void set_calls(const struct att_variant *v, const struct tir_machine *m,
                      const struct att_tile *pairs, struct att_second *second)
{
    const int cus = (int)m->cus, most = cus * pairs->own[SINGLE_EIGHTHS] / 8;
    second->calls = (struct att_box){{{ARG_WORKGROUPS, cus / 2 + 1, most}}, 1};
    if (v->sparse == ATT_SPARSE_NONE)
        return;
    /* A wave pair takes two workgroups' places for each work list. So n rounds of the second kernel
     * replace 2n - 1 or 2n rounds of wave pairs. A workgroup of the second kernel computes as much
     * as the two of a pair, but copies rows only once. In launches of several rounds, that takes
     * less than 5/3 of a pair's time. Wave pairs therefore run launches of one round and of three
     * rounds of pairs. */
    second->calls.rows[0].max = cus;
    second->also[0] = (struct att_box){{{ARG_WORKGROUPS, cus * 3 / 2 + 1, INT32_MAX}}, 1};
}

/* Sets *second to the second kernel of a variant whose first one has wave pairs: one wave per SIMD,
 * with one workgroup for each work list. Returns false if there is none, or if n > 0. Wave pairs
 * have two workgroups, so lists for more than half of the compute units need a second round. The
 * second kernel runs such launches, unless that round is nearly full. fp8 pairs start sooner, and
 * have no second kernel. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    struct att_tile first;
    if (n || v->kv_dtype != ATT_KV_DTYPE_SAME)
        return false;
    if (!att_find_tile(v, m, &first, NULL) || first.own[ONE_WAVE] != IN_PAIRS)
        return false;
    for (unsigned i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        if (tiles[i].own[ONE_WAVE] != SINGLE || !fits(v, &tiles[i], m, NULL))
            continue;
        *second = (struct att_second){.tile = i + 1};
        set_calls(v, m, &first, second);
        return true;
    }
    return false;
}

/* Adapts the tile to the type of keys; `large` is true with more than 64 KiB of LDS. In fp8 a block
 * and Q take half of the room, so a block has twice as many keys, and Q stays in registers. A
 * 16-bit block in flight takes twice the registers of an fp8 block, which leaves fewer registers
 * for Q. fp8 products of gfx1250 need at least 64 keys. */
static void fit_tile(struct mla *s, bool large)
{
    /* The bytes of a mask of 64 keys do not fit in registers. */
    const bool masked = s->d.v->mask == ATT_MASK_CUSTOM;
    if (mla_kq_bytes(s) == 1) {
        enum { KEYS = 32 };
        const int product = tir_find_mma(s->d.m, MFMA_ROWS, MFMA_ROWS, 0, TIR_FP8);
        const bool wide = product < 0 || s->d.m->mma[product].k > KEYS;
        s->d.keys = wide || (large && !masked) ? 2 * KEYS : KEYS;
        s->query.n_in_lds = 0;
    } else if (large && s->query.n_in_lds && s->d.kv_bytes > 1) {
        s->query.n_in_lds += 2;
    }
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const int rope = v->head_dim - v->head_dim_v;
    if (v->head_dim_v != 256 && v->head_dim_v != 512)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d, the latent's width, is not 256 or 512", v->head_dim_v);
    if (rope != 0 && rope != PANEL)
        return att_reject(why, ATT_HEAD_DIM,
                          "head_dim %d is not head_dim_v %d plus 0 or 64 rotated elements",
                          v->head_dim, v->head_dim_v);
    if (v->gqa > 128)
        return att_reject(why, ATT_GQA, "gqa %d: there are at most 128 heads", v->gqa);
    if (v->gqa * v->q_len > MAX_ROWS)
        return att_reject(why, ATT_Q_LEN, "gqa %d times q_len %d is more than %d rows", v->gqa,
                          v->q_len, MAX_ROWS);
    if (att_hides_early(v) || v->mask == ATT_MASK_BLOCKS)
        return att_reject(why, ATT_MASK,
                          "mla_decode has no window and no chunks, and no blocks: "
                          "causal, custom or none");
    if (att_is_shuffled(v))
        return att_reject(
            why, ATT_KV_LAYOUT,
            "a latent cache has kv_layout nhd, or one whose rows contain their scales");
    if (v->kv_dtype == ATT_KV_DTYPE_INT8)
        return att_reject(why, ATT_KV_DTYPE, "a latent cache of int8 is not known");
    if (att_scales_rows(v) || v->kv_scale == ATT_KV_SCALE_HEAD)
        return att_reject(why, ATT_KV_SCALE, "a latent cache has one scale, or those in its rows");
    if (v->q_dtype == ATT_Q_DTYPE_FP8 && v->kv_dtype != ATT_KV_DTYPE_FP8)
        return att_reject(why, ATT_Q_DTYPE, "q_dtype fp8 is for a cache of kv_dtype fp8");
    if (v->sharded && (v->mask != ATT_MASK_CAUSAL || v->sparse != ATT_SPARSE_NONE))
        return att_reject(why, ATT_SHARDED, "shards are of causal masks over pages");
    const bool narrow = v->kv_dtype == ATT_KV_DTYPE_FP8 || att_is_packed(v);
    if (v->two_sources && (v->sparse != ATT_SPARSE_SLOTS || (narrow && !att_is_pooled(v))))
        return att_reject(
            why, ATT_TWO_SOURCES,
            "two_sources needs sparse slots, and rows of 16 bits or rows that are key "
            "and value");
    if (v->same_rows && (!v->two_sources || !att_has_e2m1_rows(v)))
        return att_reject(why, ATT_SAME_ROWS,
                          "same_rows needs two_sources and a cache of rows of e2m1");
    if (v->sparse != ATT_SPARSE_NONE && v->mask == ATT_MASK_CUSTOM)
        return att_reject(why, ATT_SPARSE, "a custom mask has no bytes for a list of slots");
    struct att_tile tile;
    return att_latent_check(v, why) && mla_product_check(v, m, why) &&
           att_find_tile(v, m, &tile, why);
}

/* Returns log2 of the number of groups of keys into which waves divide S^T. Waves that would
 * compute the same columns get different keys, as long as each wave has the rows of a matrix
 * instruction. */
static unsigned find_product_keys(const struct mla *s)
{
    const unsigned most = tir_bits(s->d.keys / MFMA_ROWS),
                   left = mla_wave_bits(s) - s->split.columns;
    if (!mla_exchanges(s))
        return 0;
    return left < most ? left : most;
}

/* Returns the form of a tile: how waves divide the products. */
static const struct mla_form *find_form(const struct att_variant *v, const struct att_tile *t,
                                        const struct tir_machine *m)
{
    const bool fp8 = v->q_dtype == ATT_Q_DTYPE_FP8;
    if (!t->own[ONE_WAVE])
        return &mla_shared_form;
    if (t->own[ONE_WAVE] == IN_PAIRS)
        return fp8 ? &mla_row_pairs_form : &mla_wave_pair_form;
    if (att_transposes_8_bytes(m) || tir_tensor_copy(m))
        return &mla_one_wave_form;
    return fp8 ? &mla_dv_split_form : &mla_transpose_form;
}

/* Returns the index (tir_machine.mma) of the matrix instruction of the product with V. For fp8,
 * some targets have an instruction of twice the rate, for blocks of 64 keys and 32 columns. P is
 * then read from LDS in the order of that instruction. `one_wave`: the kernel has one wave per
 * SIMD. */
static int find_values_product(const struct mla *s, bool one_wave)
{
    enum { WIDE_ROWS = 32, WIDE_KEYS = 64 };
    const struct tir_machine *const m = s->d.m;
    const unsigned dtype = s->number.p;
    const unsigned keys = mla_weights_fp8(s) && att_transposes_8_bytes(m) ? WIDE_KEYS : 0;
    int wide = -1;
    if (one_wave)
        wide = tir_find_mma(m, WIDE_ROWS, WIDE_ROWS, keys, dtype);
    else if (mla_weights_fp8(s) && mla_exchanges(s) && s->d.keys >= WIDE_KEYS)
        wide = tir_find_mma(m, WIDE_ROWS, WIDE_ROWS, WIDE_KEYS, dtype);
    return wide >= 0 ? wide : tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, s->d.keys < 32 ? 16 : 0, dtype);
}

/* Returns the index (tir_machine.mma) of the fp8 matrix instruction with a scale for each 32 keys,
 * for the product with V. Returns -1 if there is none, or if one wave does not have all 32 keys. */
static int find_scaled_product(const struct mla *s)
{
    const struct tir_mma *const mma = &s->d.m->mma[s->d.pv];
    if (!mla_weights_fp8(s) || !mma->by_k || s->d.keys >> s->split.softmax_keys < TIR_MX_BLOCK)
        return -1;
    return tir_find_mma_scaled(s->d.m, mma->m, mma->n, TIR_MX_E4M3, TIR_MX_E4M3);
}

/* Sets *s to a variant's kernel: the sizes of its tile, its form, and its matrix instructions. The
 * builder and layouts are set later. */
static void begin(struct mla *s, const struct att_variant *v, const struct tir_machine *m)
{
    struct att_tile tile, *const t = &tile;
    att_find_tile(v, m, t, NULL);
    const unsigned dtype = att_dtype(v), latent = (unsigned)v->head_dim_v;
    const bool pairs = t->own[ONE_WAVE] == IN_PAIRS;
    *s = (struct mla){
        .d = {.v = v,
              .m = m,
              .dtype = dtype,
              .kv_dtype = att_cache_dtype(v),
              .waves = t->waves,
              .keys = t->keys,
              .columns = pairs ? 2 * t->rows : t->rows,
              .own_columns = t->own[ONE_WAVE],
              .row_columns = pairs ? t->rows : 0,
              /* With one wave per SIMD, O is in accumulation registers. */
              .zero_late = !t->own[ONE_WAVE],
              .k = {.width = (unsigned)v->head_dim},
              .value = {.width = latent}},
        .form = find_form(v, t, m),
        .split = {.columns = t->own[ONE_WAVE] ? 0 : (uint8_t)tir_bits(t->rows / MFMA_ROWS),
                  .pairs = pairs},
        .source = {.part = {{.width = latent}, {.first = latent, .width = PANEL}}},
        .lds = {.blocks = t->own[BUFFERS] ? t->own[BUFFERS] : 3},
        .query = {.n_in_lds = t->own[Q_IN_LDS]},
    };
    s->d.kv_bytes = tir_dtype_bits(s->d.kv_dtype) / 8;
    s->number.q = v->q_dtype == ATT_Q_DTYPE_FP8 ? TIR_FP8 : dtype;
    s->number.kq = att_is_packed(v) ? dtype : s->number.q;
    /* P has the dtype of K as operand, so that the latent is an operand of both products without a
     * conversion. The dtype is fp8 if q and the cache are fp8. */
    s->number.p = s->number.kq;
    fit_tile(s, m->lds_bytes > 64 * 1024);
    if (!t->own[ONE_WAVE])
        mla_divide_scores(s, find_product_keys(s));
    s->d.qk = tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, 0, s->number.kq);
    s->d.pv = find_values_product(s, t->own[ONE_WAVE]);
    s->type.scaled = find_scaled_product(s);
    if (s->type.scaled >= 0) {
        s->d.pv = s->type.scaled;
        s->split.agree = MLA_SCALE_OWN_WEIGHTS;
    }
    assert(s->d.qk >= 0 && s->split.columns <= mla_wave_bits(s));
}

/* Returns tir_schedule.loop_at of the variant's tile. */
static uint8_t loop_at(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    return (uint8_t)tile.own[LOOP_AT];
}

/* Builds the loop over the items of the workgroup's work list, and with product_dim the product
 * with their results. */
static void build_items(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_variant *const v = s->d.v;
    /* early: loads of arguments before the loop over items make launches with a short sum of
     * split-KV partials shorter. In other launches, the scalar registers that the arguments occupy
     * cost more time. */
    const bool early = v->one_launch && s->d.columns == MFMA_ROWS;
    struct tir_value range[2];
    s->d.wave = tir_wave_id(b);
    s->d.neighbours = v->one_launch;
    if (early)
        split_kv_load_arguments(&s->d, true);
    s->d.gqa = v->gqa ? tir_i32(b, v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    const struct mla_passes passes = mla_find_passes(s);
    split_kv_find_items(&s->d, range);
    /* These loads are in flight together with the loads of the work list's ends. If issued later,
     * they would delay the first page number. */
    if (early)
        mla_load_tensor_scales(s);
    struct tir_loop items = tir_begin_for(b, range[0], range[1], tir_i32(b, 1), NULL, 0);
    mla_work_on(s, items.index, &passes);
    tir_end_for(b, &items, NULL, 0);
    if (v->product_dim)
        mla_multiply_output(s, tir_cmp_lt(b, range[0], range[1]));
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_variant variant = *v;
    struct mla s;
    /* A single query sees every key, so its position is not needed. */
    if (v->mask == ATT_MASK_CAUSAL && v->q_len == 1)
        variant.mask = ATT_MASK_NONE;
    begin(&s, &variant, m);
    struct tir_func *const f = att_begin_kernel(v, m, s.d.waves, s.d.own_columns ? 1 : 2);
    s.d.b = tir_at_end(f, f->body);
    s.form->choose_layouts(&s);
    s.form->take_lds(&s);
    build_items(&s);
    tir_return(&s.d.b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_WORKGROUPS, 1, (int)mla_sharers(&s)}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    k->schedule = pipe_schedule(&s.plan);
    if (s.form->adjust_schedule)
        s.form->adjust_schedule(&s, &k->schedule);
    k->schedule.loop_at = loop_at(v, m);
    snprintf(k->tuning, sizeof(k->tuning), "rows=%u kv=%u waves=%u buffers=%u stages=%u%s",
             s.d.columns, s.d.keys, s.d.waves, s.lds.blocks, k->schedule.loop.stages,
             s.type.scaled >= 0 ? " weights=scaled" : "");
}

const struct att_template att_template_mla_decode = {
    .name = "mla_decode",
    .description = "absorbed multi-head latent attention of a few queries over a paged cache",
    .takes = OP_TAKES_MLA_DECODE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .pipelines = mla_pipelines,
    .own = {"lds_kib", "q_in_lds", "buffers", "one_wave", "loop_at", "single_eighths"},
    .renamed = {"alone", "one_wave"},
    .fitted = fitted,
    .n_fitted = sizeof(fitted) / sizeof(fitted[0]),
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of the pipeline of a prefill kernel, one of pipelines/, and of the features that
 * select its rows.
 */
#include "templates/prefill/pipelines/pipelines.h"
#include "templates/prefill/prefill.h"

const struct pipe_buffer prefill_buffers[] = {{"K", PREFILL_COPIES_OF_K, .scope = PIPE_WORKGROUP},
                                              {"V", PREFILL_COPIES_OF_V, .scope = PIPE_WORKGROUP},
                                              {0}};

const char *const prefill_features[] = {"checks scores",
                                        "checks the previous m",
                                        "checks weights",
                                        "fp8 weights",
                                        "sum by product",
                                        "l in rows of O",
                                        "last rows of O",
                                        "custom mask",
                                        "pages",
                                        "V through registers",
                                        "K in slices",
                                        "V in parts",
                                        "V in quarters",
                                        "late exp2",
                                        "early mask",
                                        "early copies",
                                        "K first",
                                        "all of K first",
                                        "late V",
                                        "copies of pages",
                                        NULL};

const struct pipeline *const prefill_pipelines[] = {&prefill_ping_pong, &prefill_one_wave,
                                                    &prefill_one_wave_transposed,
                                                    &prefill_one_wave_pages, NULL};

/* True if the loop over keys is unrolled by two, which needs registers for two iterations. Kernels
 * with key groups and 16-bit keys, and kernels with four waves on a SIMD, have too few. The same
 * holds on targets without transposing LDS reads if a lane has more than 32 values of a tile of V.
 * There, D 128 gains nothing: its loop is within 2 % of its matrix clocks. */
bool prefill_unrolls(const struct prefill *p)
{
    enum { VALUES = 32 /* most values of a tile of V in a lane */ };
    if (prefill_has_few_registers(p))
        return false;
    const bool full =
        prefill_fills_registers(p) || (prefill_groups(p) > 1 && prefill_bytes(p) == 2);
    const bool square = p->v->head_dim == 128 && p->v->head_dim_v == 128;
    const unsigned values = p->tile->keys * prefill_dv(p) / (p->tile->waves * tir_lanes(p->m));
    const bool fits = att_transposes_8_bytes(p->m) || (!square && values <= VALUES);
    const bool moves = p->source.kind == PREFILL_PAGES;
    return !moves && !att_scales_scores(p->v) && !full && fits;
}

/* True if the rescale check compares weights P, not scores S. S stays in registers until P is
 * ready, which takes 32 more VGPRs. A loop unrolled by two alternates between two sets of registers
 * for S, and needs no copies. */
bool prefill_checks_weights(const struct prefill *p)
{
    const int most = p->m->has_pk_max3 ? 96 : 64;
    /* With a check of weights, a causal kernel with 96 columns would spill two scalar registers. */
    if (p->v->head_dim > 64 && p->value.tail != PREFILL_TAIL_SUM && p->v->mask == ATT_MASK_CAUSAL)
        return false;
    return prefill_unrolls(p) && prefill_bytes(p) == 2 && prefill_side(p) == 32 &&
           p->v->head_dim <= most && p->v->head_dim_v <= most;
}

/* True if the memory phase M2 of a wave takes longer than the matrix phase C1 that the other role's
 * wave runs meanwhile. */
static bool has_long_m2(const struct prefill *p)
{
    return prefill_checks_weights(p) && p->value.tail == PREFILL_TAIL_SUM;
}

/* True if V of a tile's first keys is read from LDS during the rescale check of weights. With this
 * read, the modelled loop of more than 80 columns is 1 % longer. */
bool prefill_reads_before_check(const struct prefill *p)
{
    enum { COLUMNS = 80 };
    return has_long_m2(p) && p->v->head_dim <= COLUMNS;
}

/* Returns the number of eighths of a tile's exponentials that are computed beside the first product
 * of the next iteration; 0: none. If the rescale check of weights is also placed beside that
 * product, the result is half of the usual number. */
uint8_t prefill_late_eighths(const struct prefill *p)
{
    enum { HALF = 4 };
    const uint16_t own = p->tile->own[PREFILL_LATE_EIGHTHS];
    if (!p->tile->late_power)
        return 0;
    return (prefill_checks_weights(p) && p->m->has_pk_max3) || !own ? HALF : (uint8_t)own;
}

bool prefill_sums_by_product(const struct prefill *p)
{
    const bool alone = p->value.tail == PREFILL_TAIL_NONE && !prefill_checks_weights(p);
    return prefill_has_halves(p) && alone && prefill_bytes(p) == 2 && !p->v->lse;
}

uint8_t prefill_find_check(const struct prefill *p)
{
    if (prefill_checks_weights(p))
        return ATT_CHECK_WEIGHTS;
    return p->tile->late_maximum ? ATT_CHECK_PREVIOUS : ATT_CHECK_SCORES;
}

/* True if scores are masked before V is read from LDS, which saves registers. False with a soft cap
 * or a hook, whose code hides the latency of V. False with a long phase M2, which reads V before
 * the mask's branch. */
static bool has_early_mask(const struct prefill *p)
{
    return p->tile->late_maximum && !att_scales_scores(p->v) && !has_long_m2(p);
}

/* True if copies of K are issued before scores are capped. Their scalar instructions then run while
 * the last product is not ready. They would lengthen phase M2 after the cap, which is longer than
 * the other role's products. With up to 112 columns, modelled launches take 0.97 to 1.03 of the
 * cycles with early copies. */
static bool has_early_copies(const struct prefill *p)
{
    enum { NARROW = 112 };
    return p->v->soft_cap && p->v->head_dim > NARROW;
}

/* Returns the kernel's features (enum att_feature, enum prefill_feature) as bits of
 * pipe_variant.has. */
static uint32_t find_features(const struct prefill *p)
{
    enum { QUARTERS = 4 };
    const struct {
        bool has;
        unsigned bit;
    } all[] = {
        {true, ATT_HAS_CHECK_SCORES + prefill_find_check(p)},
        {p->shape.dtype == TIR_FP8, ATT_HAS_FP8_WEIGHTS},
        {p->shape.dtype == TIR_FP8 || prefill_sums_by_product(p), ATT_HAS_SUM_PRODUCT},
        {p->value.tail == PREFILL_TAIL_SUM, ATT_HAS_SUM_ROWS},
        {p->value.tail == PREFILL_TAIL_REST, ATT_HAS_REST},
        {att_has_mask_rows(p->v), ATT_HAS_MASK_BYTES},
        {p->source.kind == PREFILL_PAGES, PREFILL_HAS_PAGES},
        {p->source.kind == PREFILL_PAGE_COPIES, PREFILL_HAS_PAGE_COPIES},
        {prefill_transposes_v(p) || (p->source.kind == PREFILL_PAGES), PREFILL_HAS_V_STORED},
        {p->k.n_panels > 1, PREFILL_HAS_PANELS},
        {prefill_v_part_keys(p) < p->tile->keys, PREFILL_HAS_V_PARTS},
        {p->tile->keys / prefill_v_part_keys(p) >= QUARTERS, PREFILL_HAS_V_QUARTERS},
        {p->tile->late_power, PREFILL_HAS_LATE_EXP2},
        {has_early_mask(p), PREFILL_HAS_EARLY_MASK},
        {has_early_copies(p), PREFILL_HAS_EARLY_COPIES},
        {p->tile->own[PREFILL_KEYS_FIRST], PREFILL_HAS_KEYS_FIRST},
        {p->tile->whole_keys, PREFILL_HAS_WHOLE_KEYS},
        {p->v->kv_dtype == ATT_KV_DTYPE_SAME, PREFILL_HAS_LATE_V},
    };
    uint32_t has = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        has |= all[i].has ? 1u << all[i].bit : 0;
    return has;
}

/* Returns the pipeline that the kernel's tile and source of K and V need. */
static const struct pipeline *choose(const struct prefill *p)
{
    if (!prefill_is_one_wave(p))
        return &prefill_ping_pong;
    if (p->source.kind == PREFILL_PAGES)
        return &prefill_one_wave_pages;
    return prefill_transposes_v(p) ? &prefill_one_wave_transposed : &prefill_one_wave;
}

bool prefill_plan(struct prefill *p, char why[PIPE_WHY])
{
    const struct pipe_variant v = {
        .has = find_features(p), .waves = prefill_shares_no_simd(p) ? 0 : (uint8_t)p->tile->waves};
    return pipe_resolve(choose(p), &v, &p->plan, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file chooses how the keys of a decode step or of a planned prefill are split. It takes the
 * row of a tuned pack whose numbers are the fewest doublings away.
 */
#include <stdlib.h>

#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/op.h"
#include "runtime/pack.h"

/* item_cost and merge_rate of latent decode in one launch, whose workgroups share the sum of parts.
 * They make short items and many parts. One to eight sequences of up to 64 rows (heads times
 * queries) then take at most 5 % more than their least modelled time. With 128 rows the parts take
 * longer than the keys. */
enum { SHARED_COST = 1, SHARED_RATE = 128, SHARED_ROWS = 64 };

/* The numbers of a call, to compare with the rows of struct attn_pack_split. */
struct wanted {
    int32_t batch, keys, heads, kv_heads;
};

/* Costs of a planned prefill without tuning. An item's beginning and its end take 15,000 clocks, as
 * long as 440 keys on gfx950 and 200 on gfx942. A cost between these two makes plans within 5 % of
 * the best on both. combine has a workgroup for each token. Modelled for D 128. */
enum {
    PREFILL_COST = 6,
    SMALL_COST = 2 * PREFILL_COST, /* item_cost of small tiles, whose keys take half as long */
    PREFILL_RATE = 16,
    SMALL_RATE = 8,                /* merge_rate of small tiles, which take 128 keys at a time */
    PREFILL_ROWS = 256,            /* query rows of a workgroup */
    SMALL_ROWS = PREFILL_ROWS / 2, /* the same for small tiles */
    SMALL_WINDOW = 192,            /* most keys of a window for workgroups that share a
                                      compute unit */
};

/* True if the op is a latent decode (MLA). */
static bool is_mla(const struct attn_op *op) { return op->family == &attn_family_mla_decode; }

/* True if the op is a fused decode step. */
static bool is_step(const struct attn_op *op) { return op->family == &attn_family_rope_decode; }

/* True if the op is a prefill. */
static bool is_prefill(const struct attn_op *op) { return op->family == &attn_family_prefill; }

/* Sets *most to the largest number of workgroups that share a compute unit, over the op's
 * kernels. */
static int find_sharers(const struct attn_op *op, int32_t *most)
{
    enum { SIMDS = 4 };
    *most = 1;
    for (uint32_t i = 0; i < op->kernel_count; i++) {
        const struct attn_pack_record *record;
        const int r = attn_pack_read(op->device->packs[op->pack], op->kernels[i].number, &record);
        if (r)
            return r;
        const uint32_t waves = op->kernels[i].workgroup[0] / (uint32_t)op->device->lanes;
        const int32_t sharers = (int32_t)(record->k->occupancy * SIMDS / (waves ? waves : 1));
        *most = sharers > *most ? sharers : *most;
    }
    return ATTN_OK;
}

/* True if whole small tiles fill the lists, and at most a sixth of the lists stays empty. Large
 * tiles would then be cut. A chunk's tiles have nearly equal keys: a list takes one. Prompts have
 * tiles of few and of many keys: a list takes one of each. */
static bool fills_lists(const struct attn_decode_step *step, int32_t ratio, int64_t rows,
                        int32_t lists)
{
    const int64_t tiles = (rows + SMALL_ROWS - 1) / SMALL_ROWS;
    const bool prompts = (int64_t)step->kv_len * step->batch < 2 * (int64_t)step->tokens;
    const int64_t most = prompts ? 2 * (int64_t)lists : lists;
    const bool known = step->kv_len > 0;
    const bool full = (int64_t)step->tokens * ratio >= (int64_t)step->batch * SMALL_ROWS;
    return known && full && tiles <= most && 6 * tiles >= 5 * most;
}

/* True if small tiles, of key groups, are faster. Their items have twice the keys of a large
 * tile's, so a row has half as many parts. They are slower if the call is one tile. They are also
 * slower if it has large tiles for a quarter of the lists, unless small ones need no parts. */
static bool is_small(const struct attn_op *op, const struct attn_decode_step *step, int32_t ratio,
                     int64_t rows, int32_t lists)
{
    enum { QUARTER = PREFILL_ROWS / 4 };
    const bool one = step->batch == 1 && (int64_t)step->tokens * ratio <= SMALL_ROWS;
    const bool few = rows < (int64_t)lists * QUARTER;
    return op->kernel_count > 1 && rows && !one && (few || fills_lists(step, ratio, rows, lists));
}

/* Sets split->q_tile, the query tokens whose heads fill a workgroup of prefill. A second kernel is
 * for small tiles. Either its waves form key groups, or its workgroups share a compute unit, and
 * each has a list. */
static int choose_tile(const struct attn_op *op, const struct attn_decode_step *step,
                       const struct wanted *w, struct attn_decode_split *split)
{
    const int32_t ratio = w->heads / w->kv_heads;
    int32_t sharers;
    const int r = find_sharers(op, &sharers);
    const bool shared = sharers > 1 && step->window > 0 && step->window <= SMALL_WINDOW;
    const bool grouped =
        sharers == 1 && is_small(op, step, ratio, (int64_t)step->tokens * w->heads, split->lists);
    const int32_t most = shared || grouped ? SMALL_ROWS : PREFILL_ROWS;
    split->q_tile = ratio < most ? most / ratio : 1;
    if (shared && !split->tuned)
        split->lists *= sharers;
    if (grouped && !split->tuned) {
        split->item_cost = SMALL_COST;
        split->merge_rate = SMALL_RATE;
    }
    return r;
}

/* Returns the sizes for which the op's table of splits is searched. */
static struct wanted wanted_of(const struct attn_op *op, const struct attn_decode_step *step)
{
    struct wanted w = {.batch = step->batch, .keys = step->kv_len, .kv_heads = 1};
    if (is_mla(op)) {
        w.heads = op->desc.mla_decode.heads;
    } else if (is_prefill(op)) {
        w.heads = op->desc.prefill.heads;
        w.kv_heads = op->desc.prefill.kv_heads;
    } else if (is_step(op)) {
        w.heads = op->desc.rope_decode.heads;
        w.kv_heads = op->desc.rope_decode.kv_heads;
    } else {
        w.heads = op->desc.decode.heads;
        w.kv_heads = op->desc.decode.kv_heads;
    }
    return w;
}

/* True if the op combines its partial results in the same launch. */
static bool launches_once(const struct attn_op *op)
{
    if (is_prefill(op))
        return op->desc.prefill.one_launch;
    if (is_step(op))
        return op->desc.rope_decode.one_launch;
    return is_mla(op) ? op->desc.mla_decode.one_launch : op->desc.decode.one_launch;
}

/* True if the op may divide the keys of a sequence over workgroups. */
static bool has_splits(const struct attn_op *op)
{
    if (!op)
        return false;
    return op->family == &attn_family_decode || is_step(op) || is_mla(op) ||
           (is_prefill(op) && op->desc.prefill.planned);
}

/* Returns 16 log2(n) for n > 0: exact for powers of two, interpolated linearly between them. */
static int logarithm(int32_t n)
{
    const int power = 31 - __builtin_clz((unsigned)n);
    return 16 * power + (int)(((int64_t)n << 4 >> power) - 16);
}

/* Returns the distance of two numbers; 0 if either is unset. */
static int distance(int32_t a, int32_t b)
{
    return a > 0 && b > 0 ? abs(logarithm(a) - logarithm(b)) : 0;
}

/* Returns how far a row of the table of splits is from the wanted sizes. */
static int distance_of(const struct attn_pack_split *s, const struct wanted *w)
{
    return distance(s->batch, w->batch) + distance(s->keys, w->keys) +
           distance(s->heads, w->heads) + distance(s->kv_heads, w->kv_heads);
}

/* Sets *nearest to the nearest row of the op's kernels, NULL if they have no rows. */
static int find_nearest(const struct attn_op *op, const struct wanted *w,
                        const struct attn_pack_split **nearest)
{
    const struct attn_pack *pack = op->device->packs[op->pack];
    int least = 0;
    *nearest = NULL;
    for (uint32_t i = 0; i < op->kernel_count; i++) {
        const struct attn_pack_record *record;
        int r = attn_pack_read(pack, op->kernels[i].number, &record);
        if (r)
            return r;
        for (uint32_t s = 0; s < record->k->split_count; s++) {
            const int away = distance_of(&record->splits[s], w);
            if (*nearest && away >= least)
                continue;
            *nearest = &record->splits[s];
            least = away;
        }
    }
    return ATTN_OK;
}

/* Returns how many workgroups process one list: the grid multiplies lists by it. */
static int32_t workgroups_of_list(const struct attn_op *op)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < op->kernel_count; i++) {
        const struct attn_kernel *kernel = &op->kernels[i];
        for (uint32_t f = 0; f < kernel->factor_count[0]; f++)
            if (kernel->factors[0][f].value == ATTN_ARG_COUNT &&
                kernel->factors[0][f].number > most)
                most = kernel->factors[0][f].number;
    }
    return (int32_t)most;
}

/* True if the workgroups of a latent decode share the sums of a few rows. */
static bool shares_few_rows(const struct attn_op *op)
{
    const struct attn_mla_decode_desc *d = &op->desc.mla_decode;
    return is_mla(op) && d->one_launch && d->heads * d->q_len <= SHARED_ROWS;
}

/* Returns the merge_rate of decode in one launch; 0, the planner's own: the keys are not known. The
 * plan's parts then have at least 256 keys in sequences of 4k to 32k keys. With at most FEW pairs
 * of sequence and KV head they have 128 keys or more, in sequences of 1k to 8k. Longer sequences
 * have longer parts, since the workgroups share the sum, and shorter ones shorter parts. */
static int32_t rate_of_step(const struct wanted *w)
{
    enum { UNIT = 64, FEW = 2, SHORT = 2, USUAL = 4, LEAST_RATE = 4, MOST_RATE = 32 };
    const int32_t units = w->keys / UNIT;
    const int32_t part = (int64_t)w->batch * w->kv_heads <= FEW ? SHORT : USUAL;
    const int32_t rate = (units + part * part - 1) / (part * part);
    if (!units)
        return 0;
    return rate < LEAST_RATE ? LEAST_RATE : rate > MOST_RATE ? MOST_RATE : rate;
}

/* Sets the costs for ops and sizes for which the planner's own are not the best. */
static void set_usual_costs(const struct attn_op *op, const struct wanted *w,
                            struct attn_decode_split *split)
{
    if (is_prefill(op)) {
        split->item_cost = PREFILL_COST;
        split->merge_rate = PREFILL_RATE;
    } else if (shares_few_rows(op)) {
        split->item_cost = SHARED_COST;
        split->merge_rate = SHARED_RATE;
    } else if (!is_mla(op) && launches_once(op)) {
        split->merge_rate = rate_of_step(w);
    }
}

/* Chooses the split without tuning data: one workgroup per compute unit. */
static int choose_usual(const struct attn_op *op, const struct wanted *w,
                        struct attn_decode_split *split)
{
    struct attn_device_info info = {.size = sizeof(info)};
    int r = attn_device_describe(op->device, &info);
    const int32_t lists = info.compute_units / workgroups_of_list(op);
    *split = (struct attn_decode_split){
        .size = sizeof(*split),
        .lists = lists > w->kv_heads ? lists : w->kv_heads,
        .one_launch = launches_once(op),
    };
    set_usual_costs(op, w, split);
    return r;
}

ATTN_PUBLIC int attn_decode_choose_split(const struct attn_op *op,
                                         const struct attn_decode_step *given,
                                         struct attn_decode_split *given_split)
{
    struct attn_decode_step known;
    struct attn_decode_split split;
    const struct attn_decode_step *const step = &known;
    if (!has_splits(op))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "attn_decode_choose_split: op is NULL, or none of decode, "
                               "mla_decode and a planned prefill");
    if (!given || !given_split || !attn_can_give(given_split))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "attn_decode_choose_split: NULL, or split->size is not set");
    int r = attn_adopt_named("attn_decode_choose_split: step", &known, sizeof(known), given);
    if (r)
        return r;
    if (step->batch < 0 || step->kv_len < 0 || step->tokens < 0 || step->window < 0)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "attn_decode_choose_split: batch %d, kv_len %d, tokens %d, window %d",
                         step->batch, step->kv_len, step->tokens, step->window);
    const struct wanted w = wanted_of(op, step);
    const struct attn_pack_split *nearest;
    r = find_nearest(op, &w, &nearest);
    if (!r && !nearest)
        r = choose_usual(op, &w, &split);
    else if (!r)
        split = (struct attn_decode_split){
            .size = sizeof(split),
            .lists = nearest->lists,
            .item_cost = nearest->item_cost,
            .merge_rate = nearest->merge_rate,
            .one_launch = nearest->one_launch,
            .tuned = true,
        };
    if (!r && is_prefill(op))
        r = choose_tile(op, step, &w, &split);
    if (!r)
        attn_give(given_split, &split, sizeof(split));
    return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the split of the keys of a decode step or of a planned prefill. If the pack is tuned, it
 * is the row of its table of splits whose sizes are the fewest doublings from the call's. Otherwise
 * rules choose it.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/cache_args.h"
#include "runtime/error.h"
#include "runtime/op.h"
#include "runtime/pack.h"

/* Constants for latent decode in one launch, whose workgroups share the addition of partials:
 * item_cost, merge_rate, and the most rows (heads times queries) of a sequence for which both
 * apply. The costs make short items and many parts. One to eight sequences of up to 64 rows then
 * take at most 5 % more than their least modelled time. With 128 rows the partials take longer than
 * the keys. */
enum { SHARED_COST = 1, SHARED_RATE = 128, SHARED_ROWS = 64 };

/* Constants for latent decode in one launch over lists of rows of 16 bits, whose blocks have at
 * most 32 keys: the keys of a unit, and limits of rows and keys. 640 rows are then four equal
 * parts, in place of three of 192 and one of 64. Up to 16 rows add the parts of any list in time.
 * 64 rows do so for short lists: parts of 32 of 2,048 keys take 2 to 5 % longer than parts of 64.
 * Sequences of more than half of the lists have no equal parts. */
enum { SHORT_UNIT = 32, QUICK_ROWS = 16, SHORT_KEYS = 1024 };

/* The sizes of a call, which are compared with the rows of a pack's table of splits; 0: not
 * known. */
struct wanted {
    int32_t batch, keys, heads, kv_heads;
};

/* Constants of the plan of a prefill without tuning, modelled for a head dim of 128. The beginning
 * and end of a work item take 15,000 clocks, as long as 440 keys on gfx950 and 200 keys on gfx942.
 * An item_cost between these two makes plans within 5 % of the best on both targets. The kernel of
 * combine has a workgroup for each token. */
enum {
    PREFILL_COST = 6,              /* item_cost, in units of 64 keys */
    SMALL_COST = 2 * PREFILL_COST, /* item_cost of small tiles, whose keys take half as long */
    PREFILL_RATE = 16,             /* merge_rate: partial results added in the time of 64 keys */
    SMALL_RATE = 8,                /* merge_rate of small tiles, which take 128 keys at a time */
    PREFILL_ROWS = 256,            /* query rows of a workgroup: tokens times heads of a KV head */
    SMALL_ROWS = PREFILL_ROWS / 2, /* query rows of a workgroup with small tiles */
    SMALL_WINDOW = 256, /* most keys of a window for which workgroups share a compute unit */
};

/* Most bytes of keys and values of a step of decode with lists for groups of query heads. It
 * applies if the workgroups of a list do not keep HBM busy (group_costs.def). On gfx950 four groups
 * load 1.8 KB of different keys a clock, and HBM has 2.7 KB. A kernel for all 64 heads takes 16,000
 * clocks more to load, merge and add up its rows. By these numbers both take equally long with
 * 90 MB. */
enum { GROUPED_BYTES = 64 << 20 };

/* Rows of group_costs.def: a target, and the most workgroups of a list that keep HBM busy. */
static const struct busy {
    const char *target;
    int32_t groups;
} busy[] = {
#define GROUPS(target, groups) {target, groups},
#include "runtime/group_costs.def"
#undef GROUPS
};

/* True if the op is a latent decode (MLA). */
static bool is_mla(const struct attn_op *op) { return op->family == &attn_family_mla_decode; }

/* True if the op is rope_decode, a decode step in one launch. */
static bool is_step(const struct attn_op *op) { return op->family == &attn_family_rope_decode; }

/* True if the op is a prefill. */
static bool is_prefill(const struct attn_op *op) { return op->family == &attn_family_prefill; }

/* Sets *most to the number of workgroups that a compute unit holds at once, the largest among the
 * op's kernels. Returns ATTN_OK or an error. */
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

/* True if uncut small tiles fill the `lists` work lists but for at most a sixth: large tiles would
 * be cut. `ratio` is the GQA ratio, `rows` tokens times heads. Tiles of a chunk have nearly equal
 * numbers of keys, so a list takes one. Tiles of prompts have few or many keys, so a list takes one
 * of each. */
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

/* True if small tiles, whose waves form key groups, are faster. Their items have twice the keys of
 * a large tile's items, so a row has half as many parts. Small tiles are slower if the call is one
 * tile. They are also slower if the call has large tiles for a quarter of the lists, unless small
 * tiles need no parts. Parameters as in fills_lists(). */
static bool is_small(const struct attn_op *op, const struct attn_decode_step *step, int32_t ratio,
                     int64_t rows, int32_t lists)
{
    enum { QUARTER = PREFILL_ROWS / 4 };
    const bool one = step->batch == 1 && (int64_t)step->tokens * ratio <= SMALL_ROWS;
    const bool few = rows < (int64_t)lists * QUARTER;
    return op->kernel_count > 1 && rows && !one && (few || fills_lists(step, ratio, rows, lists));
}

/* Returns the number of lists of a launch whose workgroups share compute units, which hold `held`
 * workgroups at once: up to two lists for each of these, if there are as many tiles. A compute unit
 * begins a list where another one has ended, so that all units end at about the same time. */
static int32_t shared_lists(const struct attn_decode_step *step, const struct wanted *w,
                            int32_t q_tile, int32_t held)
{
    const int64_t tiles = ((int64_t)step->tokens + q_tile - 1) / q_tile * w->kv_heads;
    const int64_t most = 2 * (int64_t)held;
    return (int32_t)(tiles < held ? held : tiles < most ? tiles : most);
}

/* Sets split->q_tile, the query tokens of a work item of prefill, and for small tiles the lists and
 * costs. Small tiles are for the op's second kernel: either its waves form key groups, or its
 * workgroups share a compute unit and each has a list. */
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
        split->lists = shared_lists(step, w, split->q_tile, split->lists * sharers);
    if (grouped && !split->tuned) {
        split->item_cost = SMALL_COST;
        split->merge_rate = SMALL_RATE;
    }
    return r;
}

/* Returns the sizes of a call, which are looked up in the op's table of splits. */
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

/* True if the op's kernel also adds the split-KV partials. */
static bool launches_once(const struct attn_op *op)
{
    if (is_prefill(op))
        return op->desc.prefill.one_launch;
    if (is_step(op))
        return op->desc.rope_decode.one_launch;
    return is_mla(op) ? op->desc.mla_decode.one_launch : op->desc.decode.one_launch;
}

/* True if the op may divide the keys of a sequence among workgroups. False if `op` is NULL. */
static bool has_splits(const struct attn_op *op)
{
    if (!op)
        return false;
    return op->family == &attn_family_decode || is_step(op) || is_mla(op) ||
           (is_prefill(op) && op->desc.prefill.planned);
}

/* Returns 16 * log2(n) for n > 0: exact for powers of two, interpolated linearly between powers. */
static int logarithm(int32_t n)
{
    const int power = 31 - __builtin_clz((unsigned)n);
    return 16 * power + (int)(((int64_t)n << 4 >> power) - 16);
}

/* Returns the distance of two sizes in sixteenths of a doubling; 0 if either is 0, not known. */
static int distance(int32_t a, int32_t b)
{
    return a > 0 && b > 0 ? abs(logarithm(a) - logarithm(b)) : 0;
}

/* Returns how far the sizes of a row of the table of splits are from the wanted ones, in sixteenths
 * of a doubling. */
static int distance_of(const struct attn_pack_split *s, const struct wanted *w)
{
    return distance(s->batch, w->batch) + distance(s->keys, w->keys) +
           distance(s->heads, w->heads) + distance(s->kv_heads, w->kv_heads);
}

/* Sets *nearest to the row of a table of splits of the op's kernels that is nearest to the wanted
 * sizes. NULL: there are no rows. Returns ATTN_OK or an error. */
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

/* Returns the number of workgroups of a kernel that process one work list: a constant factor in x
 * of its grid. */
static int32_t workgroups_of_list(const struct attn_kernel *kernel)
{
    uint32_t most = 1;
    for (uint32_t f = 0; f < kernel->factor_count[0]; f++)
        if (kernel->factors[0][f].value == ATTN_ARG_COUNT && kernel->factors[0][f].number > most)
            most = kernel->factors[0][f].number;
    return (int32_t)most;
}

/* True if lists for a kernel of decode with `groups` groups of query heads are faster than lists
 * for a kernel of all heads. */
static bool prefers_groups(const struct attn_op *op, const struct wanted *w, int32_t groups)
{
    if (op->family != &attn_family_decode)
        return false;
    for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++)
        if (groups <= busy[i].groups && !strcmp(op->device->target, busy[i].target))
            return true;
    const struct attn_decode_desc *d = &op->desc.decode;
    const int64_t row = ((int64_t)d->head_dim + d->head_dim_v) * attn_dtype_size(d->cache.dtype);
    const bool known = w->batch && w->keys;
    return known && (int64_t)w->batch * w->keys <= GROUPED_BYTES / (row * w->kv_heads);
}

/* Returns the number of workgroups that process one work list. Kernels of decode differ in it: the
 * result is the largest if the step prefers groups of heads, else the least. */
static int32_t sharers_of_list(const struct attn_op *op, const struct wanted *w)
{
    int32_t least = workgroups_of_list(&op->kernels[0]), most = least;
    for (uint32_t i = 1; i < op->kernel_count; i++) {
        const int32_t n = workgroups_of_list(&op->kernels[i]);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    return is_mla(op) || prefers_groups(op, w, most) ? most : least;
}

/* True if the op is a latent decode whose workgroups share the addition of partials, of few
 * rows. */
static bool shares_few_rows(const struct attn_op *op)
{
    const struct attn_mla_decode_desc *d = &op->desc.mla_decode;
    return is_mla(op) && d->one_launch && d->heads * d->q_len <= SHARED_ROWS;
}

/* True if plans for the op may have units of fewer than 64 keys. */
static bool takes_units(const struct attn_op *op)
{
    const struct attn_mla_decode_desc *d = &op->desc.mla_decode;
    return is_mla(op) && d->sparse == ATTN_SPARSE_SLOTS && d->cache.layout == ATTN_KV_NHD &&
           d->cache.dtype != ATTN_FP8;
}

/* True if a plan of `lists` work lists for the op, whose workgroups share the addition of a few
 * rows, is faster with short units. False if the number of sequences is not known. */
static bool has_short_units(const struct attn_op *op, const struct wanted *w, int32_t lists)
{
    const struct attn_mla_decode_desc *d = &op->desc.mla_decode;
    const bool quick = d->heads * d->q_len <= QUICK_ROWS;
    const bool few = w->batch > 0 && w->batch <= lists / 2;
    const bool brief = w->keys > 0 && w->keys <= SHORT_KEYS;
    return takes_units(op) && few && (quick || brief);
}

/* Sets the split's units to SHORT_UNIT keys, with the same costs in keys as before. */
static void set_short_units(struct attn_decode_split *split)
{
    enum { UNITS = 64 / SHORT_UNIT };
    split->unit_keys = SHORT_UNIT;
    split->item_cost *= UNITS;
    split->merge_rate /= UNITS;
}

/* Returns the merge_rate of decode in one launch. 0 selects the planner's default, because the keys
 * are not known. Parts then have at least 256 keys in sequences of 4k to 32k keys. With at most FEW
 * pairs of sequence and KV head, parts have at least 128 keys in sequences of 1k to 8k keys. Longer
 * sequences have longer parts, since the workgroups share the addition, and shorter sequences have
 * shorter parts. */
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

/* Sets item_cost and merge_rate for ops and sizes for which the planner's defaults are not the
 * best. */
static void set_usual_costs(const struct attn_op *op, const struct wanted *w,
                            struct attn_decode_split *split)
{
    if (is_prefill(op)) {
        split->item_cost = PREFILL_COST;
        split->merge_rate = PREFILL_RATE;
    } else if (shares_few_rows(op)) {
        split->item_cost = SHARED_COST;
        split->merge_rate = SHARED_RATE;
        if (has_short_units(op, w, split->lists))
            set_short_units(split);
    } else if (!is_mla(op) && launches_once(op)) {
        split->merge_rate = rate_of_step(w);
    }
}

/* Chooses the split without a tuned pack: as many lists as give each compute unit a workgroup.
 * Returns ATTN_OK or an error. */
static int choose_usual(const struct attn_op *op, const struct wanted *w,
                        struct attn_decode_split *split)
{
    struct attn_device_info info = {.size = sizeof(info)};
    int r = attn_device_describe(op->device, &info);
    const int32_t lists = info.compute_units / sharers_of_list(op, w);
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
                               "attn_decode_choose_split: NULL, or split->size is not 16 to 4096");
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
            .unit_keys = takes_units(op) ? nearest->unit_keys : 0,
        };
    if (!r && is_prefill(op))
        r = choose_tile(op, step, &w, &split);
    if (!r)
        attn_give(given_split, &split, sizeof(split));
    return r;
}

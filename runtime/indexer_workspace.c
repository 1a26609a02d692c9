/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses into how many parts the keys of a row of indexer_topk are cut, and the constants of a
 * plan. Computes the workspace for the parts' results. */
#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* Constants by which the parts of a row are chosen. With more parts scores take less time, and the
 * merge takes more. The times are modelled on MI355X with one row. A round of 2,048 keys takes
 * 11,000 clocks, even if the part ends within it. */
enum {
    PART_KEYS = 1024,  /* fewest keys of a part */
    ROUND_KEYS = 2048, /* keys that a workgroup of four waves scores at once */
    /* number of list entries whose merge takes as long as the score of one key */
    ENTRIES_PER_KEY = 12,
    /* number of keys whose scores take as long as the selection at the end of a part; a part of
     * top_k keys or fewer selects nothing */
    SELECTION_KEYS = 1300
};

/* Constants of a plan, as in attn_decode_plan_shape, in units of UNIT_KEYS keys. The beginning and
 * end of an item take as long as about 1,000 keys if every compute unit reads keys. The rate is the
 * best for a row of 1,048,576 keys among short rows. With its merge that row takes 101 us at a rate
 * of 4 and 129 us at 1 (modelled, MI300X). */
enum { ITEM_COST = 16, MERGE_RATE = 4, UNIT_KEYS = 64 };

/* A row of more than MERGED_AT_ONCE parts is merged in two launches: the first merges runs of RUN
 * lists, the second merges the runs. */
enum { RUN = 16, MERGED_AT_ONCE = 32 };

/* Limits: bytes of the parts' lists of a call without a plan; compute units of a GPU. */
enum { PARTS_BYTES = 32 << 20, UNITS_MOST = 4096 };

/* Limits of a call with a plan: bytes of the parts' lists; rows, whose items take 44 bytes each.
 * The workspace stays below 32 MiB. */
enum { LISTS_BYTES = 24 << 20, PLANNED_ROWS = 131072 };

/* Returns the bytes of a part's lists: an index and a score for each key and block that it
 * selects. */
static int64_t part_bytes(const struct attn_indexer_topk_desc *d)
{
    return 8 * ((int64_t)d->top_k + d->top_blocks);
}

/* Returns how long scores and merge of a row of `keys` keys in `parts` parts take together, in
 * units of a key's score. `listed` is the number of entries of a part's list. */
static int64_t cost_of_parts(int64_t keys, int64_t parts, int64_t listed)
{
    const int64_t part = (keys + parts - 1) / parts;
    const int64_t rounds = (part + ROUND_KEYS - 1) / ROUND_KEYS;
    const int64_t selection = part > listed ? SELECTION_KEYS : 0;
    const int64_t merge = parts > 1 ? parts * listed / ENTRIES_PER_KEY : 0;
    return rounds * ROUND_KEYS + selection + merge;
}

/* Returns the number of parts of a row, at most `most`, with which scores and merge take the least
 * time together. `listed` is the number of entries of a part's list. */
static int32_t balanced_parts(int64_t keys, int64_t listed, int32_t most)
{
    int32_t parts = 1;
    for (int32_t more = 2; more <= most; more++) {
        if (cost_of_parts(keys, more, listed) < cost_of_parts(keys, parts, listed))
            parts = more;
    }
    return parts;
}

/* Returns the number of entries of a part's list: of keys or of blocks, whichever is more. */
static int32_t entries_of(const struct attn_indexer_topk_desc *d)
{
    return d->top_k > d->top_blocks ? d->top_k : d->top_blocks;
}

/* Returns the most parts that a row of max_keys keys has: each has enough keys. */
static int32_t most_parts(const struct attn_indexer_topk_desc *d,
                          const struct attn_indexer_topk_shape *s)
{
    return s->max_keys / (entries_of(d) > PART_KEYS ? entries_of(d) : PART_KEYS);
}

/* Returns the most parts of all rows of a call without a plan: one per compute unit, or fewer if
 * their lists would exceed PARTS_BYTES. */
static int32_t all_parts(const struct attn_indexer_topk_desc *d,
                         const struct attn_indexer_topk_shape *s)
{
    const int64_t room = PARTS_BYTES / part_bytes(d) - 1;
    return s->compute_units < room ? s->compute_units : (int32_t)room;
}

/* Returns the number of parts into which a call without a plan divides the keys of each row. */
static int32_t choose_splits(const struct attn_indexer_topk_desc *d,
                             const struct attn_indexer_topk_shape *s)
{
    const int32_t most = most_parts(d, s), all = all_parts(d, s);
    const int32_t units = s->rows ? all / s->rows : all;
    return balanced_parts(s->max_keys, entries_of(d), most < units ? most : units);
}

/* Returns the number of lists for which the workspace of a call without a plan has memory. It is at
 * least the number of any call with at most these rows and keys. Parts can be fewer with more keys,
 * so the chosen number of parts is no such bound. */
static int64_t room_for_lists(const struct attn_indexer_topk_desc *d,
                              const struct attn_indexer_topk_shape *s)
{
    const int64_t most = most_parts(d, s), all = all_parts(d, s);
    if (most < 2)
        return 0;
    return s->rows * most < all ? s->rows * most : all;
}

/* Returns the largest number of parts that a plan with `lists` work lists makes of one row. */
static int32_t row_parts(const struct attn_indexer_topk_shape *s, int32_t lists)
{
    const int64_t units = ((int64_t)s->max_keys + UNIT_KEYS - 1) / UNIT_KEYS;
    int64_t parts = units / (2 * ITEM_COST) + 2, root = 1;
    while (root * root < MERGE_RATE * units)
        root++;
    parts = parts > root ? parts : root;
    return (int32_t)(parts < lists ? parts : lists);
}

/* Reserves `bytes` bytes for a tensor of the workspace. Returns the tensor's byte offset, a
 * multiple of 16. */
static size_t reserve(struct attn_indexer_topk_workspace *w, size_t bytes)
{
    const size_t at = w->bytes;
    w->bytes += (bytes + 15) / 16 * 16;
    return at;
}

/* Sets the number of parts of a call without a plan, the byte offsets of their lists in the
 * workspace, and the workspace's bytes. */
static void place_parts(const struct attn_indexer_topk_desc *d,
                        const struct attn_indexer_topk_shape *s,
                        struct attn_indexer_topk_workspace *w)
{
    const size_t lists = (size_t)room_for_lists(d, s);
    *w = (struct attn_indexer_topk_workspace){.splits = choose_splits(d, s)};
    w->indices = reserve(w, lists * (size_t)d->top_k * 4);
    w->values = reserve(w, lists * (size_t)d->top_k * 4);
    w->blocks = reserve(w, lists * (size_t)d->top_blocks * 4);
    w->block_values = reserve(w, lists * (size_t)d->top_blocks * 4);
}

/* Returns the most partial results that `lists` work lists can have over `rows` rows. The lists
 * make `lists` - 1 cuts, and a row in one piece has no partial result. */
static int64_t partials_of(int64_t rows, int64_t lists)
{
    return rows + lists - 1 < 2 * (lists - 1) ? rows + lists - 1 : 2 * (lists - 1);
}

/* Returns the number of work lists: one per compute unit, or fewer if the parts' results would
 * exceed LISTS_BYTES. */
static int32_t choose_lists(const struct attn_indexer_topk_desc *d,
                            const struct attn_indexer_topk_shape *s)
{
    int32_t lists = s->compute_units;
    while (lists > 1 && partials_of(s->rows, lists) * 3 / 2 * part_bytes(d) > LISTS_BYTES)
        lists--;
    return lists;
}

/* Sets the tensors' byte offsets in the workspace of a planned call, the workspace's bytes, and the
 * constants of the plan. */
static void plan_workspace(const struct attn_indexer_topk_desc *d,
                           const struct attn_indexer_topk_shape *s,
                           struct attn_indexer_topk_workspace *w)
{
    const int32_t lists = choose_lists(d, s), parts = row_parts(s, lists);
    const size_t rows = (size_t)s->rows, partials = (size_t)partials_of(s->rows, lists);
    const size_t keys = 4 * (size_t)d->top_k, blocks = 4 * (size_t)d->top_blocks;
    const size_t runs = parts > MERGED_AT_ONCE ? partials / 2 : 0;
    *w = (struct attn_indexer_topk_workspace){
        .splits = 1,
        .lists = lists,
        .item_cost = ITEM_COST,
        .merge_rate = MERGE_RATE,
        .run = runs ? RUN : 0,
        .runs = runs ? (parts + RUN - 1) / RUN : 1,
    };
    w->indices = reserve(w, partials * keys);
    w->values = reserve(w, partials * keys);
    w->blocks = reserve(w, partials * blocks);
    w->block_values = reserve(w, partials * blocks);
    w->run_indices = reserve(w, runs * keys);
    w->run_values = reserve(w, runs * keys);
    w->run_blocks = reserve(w, runs * blocks);
    w->run_block_values = reserve(w, runs * blocks);
    w->work_indptr = reserve(w, 4 * ((size_t)lists + 1));
    w->work_info = reserve(w, 32 * (rows + (size_t)lists));
    w->reduce_indptr = reserve(w, 4 * (rows + 1));
    w->reduce_final_map = reserve(w, 8 * rows);
    w->reduce_partial_map = reserve(w, 4 * partials);
}

/* Checks the members of a descriptor and a shape on which the workspace depends. Returns ATTN_OK or
 * ATTN_BAD_ARGUMENT. */
static int check(const struct attn_indexer_topk_desc *d, const struct attn_indexer_topk_shape *s)
{
    if (d->top_k < 1 || d->top_k > 4096 || d->top_blocks < 0 || d->top_blocks > 4096)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "indexer_topk: top_k %d is not in 1 to 4096, or top_blocks %d not in 0 to "
                         "4096",
                         d->top_k, d->top_blocks);
    if (s->rows < 0 || s->max_keys < 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "indexer_topk: rows %d or max_keys %d is negative",
                         s->rows, s->max_keys);
    if (s->compute_units < 1 || s->compute_units > UNITS_MOST)
        return attn_fail(ATTN_BAD_ARGUMENT, "indexer_topk: compute_units %d is not in 1 to %d",
                         s->compute_units, UNITS_MOST);
    if (d->planned && d->listed)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "indexer_topk: planned is set, and listed");
    if (d->planned && s->rows > PLANNED_ROWS)
        return attn_fail(ATTN_BAD_ARGUMENT, "indexer_topk: %d rows of a planned call, above %d",
                         s->rows, PLANNED_ROWS);
    return ATTN_OK;
}

/* Computes the workspace. attn_adopt() has copied the structs `desc` and `shape`. */
static int find_workspace(const struct attn_indexer_topk_desc *desc,
                          const struct attn_indexer_topk_shape *shape,
                          struct attn_indexer_topk_workspace *workspace)
{
    int r = check(desc, shape);
    if (r)
        return r;
    if (!workspace)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "indexer_topk: workspace is NULL");
    if (desc->planned) {
        plan_workspace(desc, shape, workspace);
        return ATTN_OK;
    }
    place_parts(desc, shape, workspace);
    return ATTN_OK;
}

ATTN_PUBLIC int attn_indexer_topk_workspace_size(const struct attn_indexer_topk_desc *given_desc,
                                                 const struct attn_indexer_topk_shape *given_shape,
                                                 struct attn_indexer_topk_workspace *workspace)
{
    struct attn_indexer_topk_desc desc;
    struct attn_indexer_topk_shape shape;
    if (!given_desc || !given_shape)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "indexer_topk: desc or shape is NULL");
    int r = attn_adopt_named("indexer_topk: desc", &desc, sizeof(desc), given_desc);
    if (!r)
        r = attn_adopt_named("indexer_topk: shape", &shape, sizeof(shape), given_shape);
    return r ? r : find_workspace(&desc, &shape, workspace);
}

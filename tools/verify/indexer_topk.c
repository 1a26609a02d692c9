/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of indexer_topk kernels. Errors of float32 scores make some ranks ambiguous, so that
 * lists are checked by three rules. Each selected key must score at least as much as each other
 * key, within the bounds of both. Of equal keys the first ones must be selected. Lists of parts of
 * a row, merged, must be the row's list, with equal parts and with a plan's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/reference/topk.h"
#include "tools/verify/indexer_data.h"
#include "tools/verify/call.h"

/* Flags of a shape. */
enum {
    STARTS = 1 << 0, /* rows begin at any key */
    SLOTS = 1 << 1,  /* lists have slots of the cache if keys are in pages */
    PARTS = 1 << 2,  /* the call has two launches: one with parts of rows, one with whole rows */
    EQUAL = 1 << 3,  /* all rows see all keys; without PARTS the kernel writes positions only */
    RAGGED = 1 << 4, /* rows have from 0 to `long_row` keys, for a plan */
    COARSE = 1 << 5, /* plans have fewer work lists than rows */
    MANY = 1 << 6,   /* many rows: four have about `long_row` keys, the others a few */
    /* the first block and the two newest blocks are selected, whatever their scores */
    PINNED = 1 << 7,
};

/* The shapes. Rows have row_length() keys, or `long_row` if that is not 0. */
static const struct shape {
    struct verify_shape is;
    enum index_keys keys;
    /* Number of rows; keys of each row, 0: row_length() keys. */
    int rows, long_row;
    struct {
        /* splits: parts of a row. shared: 1 if all rows share one sequence. page: tokens of a
         * page. */
        int splits, shared, page;
        int longest; /* keys of the first row; 0: as many as the others */
        int lists;   /* work lists of a plan */
    } trace;
} shapes[] = {
    {{"around k", STARTS}, KEYS_RANDOM, 7, 0, {0}},
    {{"equal", SLOTS}, KEYS_EQUAL, 1, 13001, {0}},
    {{"zeros", VERIFY_VIEWS}, KEYS_NEGATIVE, 1, 9500, {0}},
    {{"two keys", STARTS}, KEYS_TWO, 2, 9100, {0}},
    {{"rising", 0}, KEYS_RISING, 1, 15000, {0}},
    {{"whole rounds", 0}, KEYS_RISING, 1, 8192, {0}},
    {{"falling", SLOTS}, KEYS_FALLING, 1, 13000, {0}},
    {{"huge range", VERIFY_VIEWS}, KEYS_HUGE_RANGE, 1, 17000, {0}},
    {{"nans", STARTS}, KEYS_NANS, 2, 9500, {0}},
    {{"parts", STARTS | SLOTS | PARTS}, KEYS_RANDOM, 3, 9000, {0}},
    {{"pinned blocks", STARTS | PINNED}, KEYS_NANS, 5, 9100, {0}},
    {{"parts, pinned", STARTS | PARTS | PINNED}, KEYS_FALLING, 3, 9000, {0}},
    {{"parts of equals", PARTS}, KEYS_TWO, 1, 5000, {0}},
    {{"many rows", MANY | STARTS | SLOTS}, KEYS_TWO, 515, 9000, {0}},
    {{"pairs of rows", MANY | SLOTS | VERIFY_VIEWS}, KEYS_RANDOM, 514, 12100, {0}},
    {{"parts of pairs", MANY | PARTS | STARTS}, KEYS_RANDOM, 174, 9200, {0}},
    {{"ragged", RAGGED | SLOTS | PARTS}, KEYS_RANDOM, 9, 131072, {0}},
    {{"ragged, few lists", RAGGED | STARTS | PARTS | COARSE}, KEYS_NANS, 9, 12000, {0}},
    {{"ragged, pinned", RAGGED | PARTS | PINNED}, KEYS_RANDOM, 9, 12000, {0}},
    {{"ragged equals", RAGGED | PARTS | VERIFY_VIEWS}, KEYS_TWO, 5, 9000, {0}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", EQUAL}, KEYS_RANDOM, 304, 65536, {1, 0, 64, 0, 304}};

/* Number of parts of each row with PARTS and without a plan; largest number of candidates of a row
 * in a trace. */
enum { SPLITS = 3, TRACED_BLOCKS = 2048 };

/* The lists that a kernel selects: of keys, and of blocks of keys. */
enum { OF_KEYS, OF_BLOCKS, LISTS };

enum { INFO = 8 }; /* integers of a work item */

/* The operands of each kind of list. */
static const struct list {
    int indices, values, counts; /* numbers of operands */
    int partial_indices, partial_values;
} lists[LISTS] = {
    {INDEXER_TOPK_INDICES, INDEXER_TOPK_VALUES, INDEXER_TOPK_COUNTS, INDEXER_TOPK_PARTIAL_INDICES,
     INDEXER_TOPK_PARTIAL_VALUES},
    {INDEXER_TOPK_BLOCKS, INDEXER_TOPK_BLOCK_VALUES, INDEXER_TOPK_BLOCK_COUNTS,
     INDEXER_TOPK_PARTIAL_BLOCKS, INDEXER_TOPK_PARTIAL_BLOCK_VALUES},
};

/* A plan and its sizes. plan.reduce_indptr has the first list of parts of each row; its last entry
 * is the number of lists. */
struct work {
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan plan;
};

/* The data of a call, in call->own. */
struct own {
    struct index_data data;
    /* plans of the first and of the second launch, if the kernel is planned */
    struct work cut, whole;
    int32_t *merged[LISTS]; /* [row, k]: the merged lists of parts, or NULL */
};

/* Returns the number of entries of a list: of keys, or of blocks. */
static int top_k(const struct call *c, int list)
{
    return list == OF_KEYS ? c->desc.indexer_topk.top_k : c->desc.indexer_topk.top_blocks;
}

/* Returns the number of keys of a block. */
static int block_size(const struct call *c)
{
    const int size = c->desc.indexer_topk.block_size;
    return size ? size : 8;
}

/* Returns the queries and keys of the call. */
static const struct index_data *data_of(const struct call *c)
{
    return &((const struct own *)c->own)->data;
}

/* Returns the number of keys of a row, often near a list's length. */
static int row_length(const struct call *c, int row)
{
    const struct shape *s = c->shape;
    const int k = top_k(c, OF_KEYS), around[] = {k, k - 1, k + 1, 0, 1, 2 * k + 5, 63};
    if (c->traced && s->trace.longest && row == 0)
        return s->trace.longest;
    if (call_has(c, RAGGED) && row > 0)
        return row % 4 == 3 ? s->long_row / (4 * row) : around[(row + 2) % (int)COUNT(around)];
    if (call_has(c, MANY) && row > 3)
        return (row + row / 7) % 70;
    if (!s->long_row)
        return around[row % (int)COUNT(around)];
    return call_has(c, EQUAL) ? s->long_row : s->long_row - 13 * row;
}

/* Sets the sequence and the keys of each row. Two rows share a sequence and see different numbers
 * of its keys. Without pages all rows share one sequence. */
static void make_rows(struct call *c, struct index_data *d)
{
    const bool shared = !d->paged || (c->traced && ((const struct shape *)c->shape)->trace.shared);
    const int of_sequence = c->traced ? 1 : 2;
    d->sequences = shared ? 1 : (d->rows + of_sequence - 1) / of_sequence;
    d->has_starts = call_has(c, STARTS);
    for (int r = 0; r < d->rows; r++) {
        d->starts[r] =
            call_has(c, STARTS) && r % 3 != 1 ? (int32_t)(random_bits(&c->random) % 100) : 0;
        if (top_k(c, OF_BLOCKS))
            d->starts[r] -= d->starts[r] % block_size(c);
        d->ends[r] = d->starts[r] + row_length(c, r);
        d->row_sequences[r] = shared ? 0 : (d->rows - 1 - r) / of_sequence;
    }
}

/* True if the lists have cache slots instead of positions. */
static bool wants_slots(const struct call *c) { return call_has(c, SLOTS) && data_of(c)->paged; }

/* The functions from here on make plans of a call. */

/* True if a plan divides the rows. */
static bool is_planned(const struct call *c) { return c->desc.indexer_topk.planned; }

/* True if the kernel is verified on the shape. Shapes with many rows are for kernels with two rows
 * in a workgroup, which not all descriptors have. */
static bool takes(const struct call *c)
{
    const struct attn_indexer_topk_desc *d = &c->desc.indexer_topk;
    if (call_has(c, MANY))
        return !d->planned && !d->listed && !d->top_blocks;
    return is_planned(c) || !call_has(c, RAGGED);
}

/* Makes a plan for `work_lists` lists of work. */
static struct work make_work(struct call *c, int work_lists, int item_cost)
{
    const struct index_data *d = data_of(c);
    struct work w = {0};
    int32_t *lengths = call_allocate(c, (size_t)d->rows, sizeof(*lengths));
    for (int r = 0; r < d->rows; r++)
        lengths[r] = d->ends[r] - d->starts[r];
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = d->rows,
        .q_len = 1,
        .heads = 1,
        .kv_heads = 1,
        .lists = work_lists,
        .item_cost = item_cost,
        .merge_rate = 4,
    };
    const struct attn_decode_plan_lengths plan_lengths = {.kv_lens = lengths};
    attn_decode_plan_sizes(&shape, &w.sizes);
    w.plan = (struct attn_decode_plan){
        .work_indptr = call_allocate(c, (size_t)work_lists + 1, 4),
        .work_info = call_allocate(c, (size_t)w.sizes.work_items, 4 * INFO),
        .reduce_indptr = call_allocate(c, (size_t)d->rows + 1, 4),
        .reduce_final_map = call_allocate(c, (size_t)d->rows, 8),
        .reduce_partial_map = call_allocate(c, (size_t)w.sizes.partials + 1, 4),
    };
    attn_decode_plan(&shape, &plan_lengths, &w.plan);
    return w;
}

/* Makes both plans of a planned call: one whose work lists cut rows into parts, and one with a
 * single work list, which cuts no row. */
static void size_work(struct call *c)
{
    struct own *own = c->own;
    const struct shape *s = c->shape;
    const int rows = own->data.rows;
    const int many = c->traced             ? s->trace.lists
                     : !call_has(c, PARTS) ? 1
                     : call_has(c, COARSE) ? 4
                                           : 3 * rows + 2;
    if (!is_planned(c))
        return;
    own->cut = make_work(c, many, c->traced ? 16 : 2);
    own->whole = make_work(c, 1, 2);
    c->args.indexer_topk.work_lists = many;
}

/* Sets the sizes of the work items and partial lists. */
static void place_work(struct call *c)
{
    const struct own *own = c->own;
    if (!is_planned(c))
        return;
    const int partials = own->cut.sizes.partials ? own->cut.sizes.partials : 1;
    operand_resize(call_operand(c, INDEXER_TOPK_WORK_INFO), 0, own->cut.sizes.work_items);
    for (int of = 0; of < LISTS; of++)
        if (top_k(c, of)) {
            operand_resize(call_operand(c, lists[of].partial_indices), 0, partials);
            operand_resize(call_operand(c, lists[of].partial_values), 0, partials);
        }
}

/* Fills the work lists. Unused items and lists have invalid numbers. */
static void fill_work(struct call *c, const struct work *w, int work_lists)
{
    struct operand *indptr = call_operand(c, INDEXER_TOPK_WORK_INDPTR);
    struct operand *info = call_operand(c, INDEXER_TOPK_WORK_INFO);
    const int items = w->plan.work_indptr[work_lists];
    for (int i = 0; i <= c->args.indexer_topk.work_lists; i++)
        operand_set_int(indptr, AT(i), i < work_lists ? w->plan.work_indptr[i] : items);
    for (int i = 0; i < items * INFO; i++)
        operand_set_int(info, AT(i / INFO, i % INFO), w->plan.work_info[i]);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    const struct attn_indexer_topk_desc *desc = &c->desc.indexer_topk;
    struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    struct index_data *d = &((struct own *)c->own)->data;
    const int page =
        s->trace.page ? s->trace.page : index_data_page(desc->small_pages, (unsigned)c->number);
    const struct index_cache cache = {desc->paged ? page : 0, desc->layout, desc->index_keys};
    *d = index_data_of(c, desc->heads, s->rows, &cache, s->keys);
    d->all_signs = desc->all_signs;
    d->pairs = desc->index_keys == ATTN_INDEX_KEYS_FP8 && !d->all_signs &&
               strcmp(c->target, "gfx950") == 0 && !call_is_tuned(c, "precision=single");
    make_rows(c, d);
    index_data_make(d);
    for (int r = 0; desc->listed && r < s->rows; r++) {
        const int blocks = (d->ends[r] - d->starts[r]) / block_size(c) + 1;
        a->max_candidates = blocks > a->max_candidates ? blocks : a->max_candidates;
    }
    a->rows = s->rows;
    a->splits = is_planned(c) ? 1 : c->traced ? s->trace.splits : call_has(c, PARTS) ? SPLITS : 1;
    size_work(c);
    a->slots = a->splits == 1 && wants_slots(c);
    if (call_has(c, PINNED) && desc->top_blocks) {
        a->first_blocks = desc->top_blocks > 2;
        a->last_blocks = desc->top_blocks > 1 ? 2 : 1;
    }
    if (d->paged) {
        a->page_size = d->page;
        a->page_stride = d->page_bytes;
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    index_data_place(data_of(c), call_operand(c, INDEXER_TOPK_Q));
    place_work(c);
    if (call_has(c, EQUAL)) {
        operand_leave_out(call_operand(c, INDEXER_TOPK_COUNTS));
        operand_leave_out(call_operand(c, INDEXER_TOPK_KV_INDPTR));
    }
    if (call_has(c, EQUAL) && c->args.indexer_topk.splits == 1)
        operand_leave_out(call_operand(c, INDEXER_TOPK_VALUES));
}

/* Fills the lists of candidates: two of three blocks that a row sees, in a trace the first 2,048
 * blocks. Lists of odd rows also have blocks after the row's end. */
static void fill_candidates(struct call *c)
{
    const struct index_data *d = data_of(c);
    struct operand *candidates = call_operand(c, INDEXER_TOPK_CANDIDATES);
    for (int r = 0; candidates->given && r < d->rows; r++) {
        const int blocks = (d->ends[r] - d->starts[r] + block_size(c) - 1) / block_size(c);
        int n = 0;
        for (int i = 0; i < blocks; i++)
            if (c->traced ? n < TRACED_BLOCKS : random_bits(&c->random) % 3 != 0)
                operand_set_int(candidates, AT(r, n++), i);
        for (int i = n; i < c->args.indexer_topk.max_candidates; i++)
            operand_set_int(candidates, AT(r, i), r % 2 ? blocks + i : -1);
        if (r % 2 && !c->traced)
            n = (int)c->args.indexer_topk.max_candidates;
        operand_set_int(call_operand(c, INDEXER_TOPK_CANDIDATE_COUNTS), AT(r), n);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    index_data_fill(data_of(c), call_operand(c, INDEXER_TOPK_Q));
    fill_candidates(c);
    if (is_planned(c))
        fill_work(c, &((const struct own *)c->own)->cut, c->args.indexer_topk.work_lists);
}

/* The functions from here on compare the results of a call. */

/* Sets `at` to the indices of entry i of a list, and returns `at`. With fewer parts than the output
 * has room for, lists are consecutive. */
static const int64_t *entry_at(const struct call *c, int of, int64_t list, int i, int64_t at[])
{
    at[0] = at[1] = 0;
    at[2] = list * top_k(c, of) + i;
    return at;
}

/* Returns entry `i` of a list that the kernel wrote, and marks the entry as checked. */
static int32_t read_index(struct call *c, int of, int64_t list, int i)
{
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    struct operand *o = call_operand(c, lists[of].indices);
    operand_allow(o, entry_at(c, of, list, i, at));
    return (int32_t)operand_result_int(o, at);
}

/* The keys or blocks of a row: their expected scores with bounds of errors, and bytes that are 1 if
 * a key may be selected, or was selected. An infinite bound means that the rank is not known:
 * index_data_score(). */
struct scored {
    /* Number of keys or blocks, and number of them that may be selected. */
    int n, there;
    double *score, *bound;
    uint8_t *allowed, *selected;
};

/* Allocates struct scored for `n` keys or blocks. */
static struct scored make_scored(struct call *c, int n)
{
    struct scored s = {.n = n};
    s.score = call_allocate(c, (size_t)n + 1, sizeof(*s.score));
    s.bound = call_allocate(c, (size_t)n + 1, sizeof(*s.bound));
    s.allowed = call_allocate(c, (size_t)n + 1, 1);
    s.selected = call_allocate(c, (size_t)n + 1, 1);
    return s;
}

/* Computes the scores of all keys of a row, and which keys may be selected. */
static struct scored score_row(struct call *c, int row)
{
    const struct index_data *d = data_of(c);
    struct scored s = make_scored(c, d->ends[row] - d->starts[row]);
    for (int i = 0; i < s.n; i++) {
        s.score[i] = index_data_score(d, row, d->starts[row] + i, &s.bound[i]).score;
        s.allowed[i] = !c->desc.indexer_topk.listed;
    }
    s.there = s.n;
    if (!c->desc.indexer_topk.listed)
        return s;
    s.there = 0;
    const int64_t n = operand_int(call_operand(c, INDEXER_TOPK_CANDIDATE_COUNTS), AT(row));
    for (int64_t i = 0; i < n; i++) {
        const int64_t block = operand_int(call_operand(c, INDEXER_TOPK_CANDIDATES), AT(row, i));
        for (int k = 0; k < block_size(c) && block * block_size(c) + k < s.n; k++, s.there++)
            s.allowed[block * block_size(c) + k] = 1;
    }
    return s;
}

/* True if the block is selected whatever its score. */
static bool is_pinned(const struct call *c, int block, int blocks)
{
    const struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    return block < a->first_blocks || block >= blocks - a->last_blocks;
}

/* Computes the scores of blocks. A block's score is between the largest lower bound and the largest
 * upper bound of its keys' scores. */
static struct scored score_blocks(struct call *c, const struct scored *keys)
{
    const int size = block_size(c);
    struct scored s = make_scored(c, (keys->n + size - 1) / size);
    s.there = s.n;
    for (int i = 0; i < s.n; i++) {
        double low = NAN, high = NAN;
        bool unsure = false;
        for (int k = i * size; k < (i + 1) * size && k < keys->n; k++) {
            const double bound = isinf(keys->score[k]) ? 0 : keys->bound[k];
            unsure |= isinf(keys->bound[k]);
            if (isinf(keys->bound[k]))
                continue;
            low = fmax(low, keys->score[k] - bound);
            high = fmax(high, keys->score[k] + bound);
        }
        unsure &= low < INFINITY || isnan(low);
        high = is_pinned(c, i, s.n) ? INFINITY : high;
        s.score[i] = isinf(high) ? high : (low + high) / 2;
        s.bound[i] = unsure && !is_pinned(c, i, s.n) ? INFINITY
                     : isinf(high)                   ? 0
                                                     : (high - low) / 2;
        s.allowed[i] = 1;
    }
    return s;
}

/* Returns the position of the row's key that a list's entry names; -1: none. If entries are slots,
 * the slot is searched from position `from` on. */
static int position_of(const struct call *c, int row, int32_t entry, int from, int n)
{
    const struct index_data *d = data_of(c);
    if (!c->args.indexer_topk.slots)
        return entry;
    for (int i = from; i < n; i++)
        if (index_data_slot(d, row, d->starts[row] + i) == entry)
            return i;
    return -1;
}

/* Compares the value of a list's entry with the expected score. */
static void compare_value(struct call *c, int of, const int64_t at[], double expected, double bound)
{
    struct operand *values = call_operand(c, lists[of].values);
    operand_allow(values, at);
    if (isinf(bound)) {
        if (of == OF_KEYS && isfinite(operand_result(values, at)))
            verify_fail(c->row, "a value is %g, expected an infinity or a NaN",
                        operand_result(values, at));
    } else if (isnan(expected) && !isnan(operand_result(values, at)))
        verify_fail(c->row, "a value is %g, expected a NaN", operand_result(values, at));
    else if (isinf(expected))
        call_check(c, values, at, expected, 0);
    else if (!isnan(expected))
        call_compare(c, values, at, expected, bound);
}

/* Reads the list of a row, and sets s->selected. Fails the row for entries that are not allowed. */
static void read_list(struct call *c, int of, int row, struct scored *s)
{
    const int k = top_k(c, of), count = s->there < k ? s->there : k;
    int previous = -1;
    call_compare_int(c, call_operand(c, lists[of].counts), AT(0, row), count);
    for (int i = 0; i < k && !c->row->fault[0]; i++) {
        int64_t at[ATTN_DIMENSIONS_MAX] = {0};
        const int32_t entry = read_index(c, of, row, i);
        entry_at(c, of, row, i, at);
        if (i >= count) {
            call_compare_int(c, call_operand(c, lists[of].indices), at, -1);
            call_compare_int(c, call_operand(c, lists[of].values), at, UINT32_MAX);
            continue;
        }
        const int position = of == OF_KEYS ? position_of(c, row, entry, previous + 1, s->n) : entry;
        if (position <= previous || position >= s->n || !s->allowed[position]) {
            verify_fail(c->row, "row %d has %d as entry %d, after position %d of %d", row, entry, i,
                        previous, s->n);
            return;
        }
        compare_value(c, of, at, s->score[position], s->bound[position]);
        s->selected[position] = 1;
        previous = position;
    }
}

/* Compares scores: no selected key may score less than an unselected one, within the bounds.
 * Ignores keys whose rank is not known. */
static void compare_ranks(struct call *c, int row, const struct scored *s)
{
    int least = -1, most = -1;
    bool nan = false;
    for (int i = 0; i < s->n; i++) {
        if (s->allowed[i] && isinf(s->bound[i]))
            continue;
        if (!s->allowed[i] || isnan(s->score[i])) {
            nan |= s->selected[i];
            continue;
        }
        if (s->selected[i] &&
            (least < 0 || s->score[i] + s->bound[i] < s->score[least] + s->bound[least]))
            least = i;
        if (!s->selected[i] &&
            (most < 0 || s->score[i] - s->bound[i] > s->score[most] - s->bound[most]))
            most = i;
    }
    if (most >= 0 && nan)
        verify_fail(c->row, "row %d: a NaN was selected before %g at %d", row, s->score[most],
                    most);
    if (most >= 0 && least >= 0 &&
        s->score[least] + s->bound[least] < s->score[most] - s->bound[most])
        verify_fail(c->row, "row %d: %g at %d was selected before %g at %d", row, s->score[least],
                    least, s->score[most], most);
}

/* True if the last ones of equal keys must be selected, not the first. */
static bool has_later_ties(const struct call *c)
{
    return c->desc.indexer_topk.ties == ATTN_TIES_LARGER;
}

/* Compares ties: the first ones of equal keys must be selected, or the last ones, as desc.ties
 * says. */
static void compare_ties(struct call *c, int row, const struct scored *s)
{
    const bool later = has_later_ties(c);
    const struct index_data *d = data_of(c);
    const int *classes = d->classes[d->row_sequences[row]] + d->starts[row];
    int left_out[2] = {-1, -1};
    for (int n = 0; n < s->n; n++) {
        const int i = later ? s->n - 1 - n : n;
        if (classes[i] > 1 || !s->allowed[i])
            continue;
        if (!s->selected[i])
            left_out[classes[i]] = i;
        else if (left_out[classes[i]] >= 0 && d->kind != KEYS_RANDOM)
            verify_fail(c->row, "row %d: of keys alike %d was selected before %d", row, i,
                        left_out[classes[i]]);
    }
}

/* True if many keys have equal scores, so that ties are compared. */
static bool has_classes(const struct call *c)
{
    const enum index_keys kind = data_of(c)->kind;
    const bool zeros = kind == KEYS_NEGATIVE && !c->desc.indexer_topk.all_signs;
    return kind == KEYS_EQUAL || zeros || kind == KEYS_TWO;
}

/* The lists that the parts of a row wrote, or the row's own list if it has one part. */
struct parts {
    int first, count;
    int indices, values; /* numbers of operands */
    bool whole;
};

/* Returns the lists of a row's parts, from the plan or by the number of splits. */
static struct parts parts_of(const struct call *c, int of, int row)
{
    const int32_t *indptr = ((const struct own *)c->own)->cut.plan.reduce_indptr;
    if (!is_planned(c))
        return (struct parts){row * SPLITS, SPLITS, lists[of].indices, lists[of].values, false};
    if (indptr[row] == indptr[row + 1])
        return (struct parts){row, 1, lists[of].indices, lists[of].values, true};
    return (struct parts){indptr[row], indptr[row + 1] - indptr[row], lists[of].partial_indices,
                          lists[of].partial_values, false};
}

/* Returns entry `i` of the lists of a row's parts, with `k` entries each, and marks the entry as
 * checked. */
static int32_t read_part(struct call *c, const struct parts *p, int k, int i)
{
    struct operand *o = call_operand(c, p->indices);
    const int64_t *at =
        o->schema.ndim == 2 ? AT(p->first + i / k, i % k) : AT(0, 0, p->first * k + i);
    operand_allow(o, at);
    return (int32_t)operand_result_int(o, at);
}

/* Returns value `i` of the lists of a row's parts, with `k` values each, and marks the value as
 * checked. */
static float read_value(struct call *c, const struct parts *p, int k, int i)
{
    struct operand *o = call_operand(c, p->values);
    const int64_t *at =
        o->schema.ndim == 2 ? AT(p->first + i / k, i % k) : AT(0, 0, p->first * k + i);
    const uint32_t bits = operand_result_bits(o, at);
    float value;
    memcpy(&value, &bits, sizeof(value));
    operand_allow(o, at);
    return value;
}

/* Merges the lists of a row's parts into `merged`. */
static void merge_row(struct call *c, int of, int row, int32_t *merged)
{
    const struct index_data *d = data_of(c);
    const struct parts p = parts_of(c, of, row);
    const int k = top_k(c, of), columns = p.count * k;
    float *values = malloc((size_t)columns * sizeof(*values));
    int32_t *found = malloc((size_t)columns * sizeof(*found));
    for (int i = 0; values && i < columns; i++) {
        values[i] = read_value(c, &p, k, i);
        read_part(c, &p, k, i);
    }
    const int32_t count =
        values && found ? ref_topk(values, columns, k, has_later_ties(c), found) : 0;
    for (int i = 0; !is_planned(c) && i < p.count; i++)
        operand_allow(call_operand(c, lists[of].counts), AT(row, i));
    if (p.whole)
        call_compare_int(c, call_operand(c, lists[of].counts), AT(row, 0), count);
    for (int i = 0; i < k; i++) {
        merged[i] = i < count ? read_part(c, &p, k, found[i]) : -1;
        if (merged[i] >= 0 && of == OF_KEYS && wants_slots(c) && !p.whole)
            merged[i] = index_data_slot(d, row, d->starts[row] + merged[i]);
    }
    free(values);
    free(found);
}

/* Merges the lists of all rows. The comparison of the merged list also covers the positions in the
   parts. */
static void merge(struct call *c, int of)
{
    struct own *own = c->own;
    const int k = top_k(c, of);
    own->merged[of] = call_allocate(c, (size_t)(own->data.rows * k), sizeof(*own->merged[of]));
    for (int r = 0; r < own->data.rows; r++)
        merge_row(c, of, r, own->merged[of] + r * k);
}

/* Compares the list of a row with the list that was merged from parts. */
static void compare_merged(struct call *c, int of, int row)
{
    const int32_t *merged = ((const struct own *)c->own)->merged[of];
    for (int i = 0; merged && i < top_k(c, of); i++) {
        const int32_t whole = read_index(c, of, row, i), entry = merged[row * top_k(c, of) + i];
        if (entry != whole)
            verify_fail(c->row, "row %d: entry %d is %d in parts, and %d as a whole", row, i, entry,
                        whole);
    }
}

/* Compares the list of a row: entries, order and ties. */
static void compare_list(struct call *c, int of, int row, struct scored *s)
{
    read_list(c, of, row, s);
    if (!c->row->fault[0])
        compare_ranks(c, row, s);
    if (!c->row->fault[0] && of == OF_KEYS && has_classes(c))
        compare_ties(c, row, s);
    compare_merged(c, of, row);
}

/* Compares the prefix sums of the rows' numbers of selected entries. */
static void compare_indptr(struct call *c)
{
    const struct index_data *d = data_of(c);
    struct operand *indptr = call_operand(c, INDEXER_TOPK_KV_INDPTR);
    int64_t sum = 0;
    for (int r = 0; indptr->given && r <= d->rows; r++) {
        call_compare_int(c, indptr, AT(r), sum);
        const int n = r < d->rows ? d->ends[r] - d->starts[r] : 0;
        sum += n < top_k(c, OF_KEYS) ? n : top_k(c, OF_KEYS);
    }
}

/* Compares all lists of the call. */
static void compare(struct call *c)
{
    compare_indptr(c);
    const bool blocks = top_k(c, OF_BLOCKS) > 0;
    if (call_has(c, PARTS) && !c->launches) {
        merge(c, OF_KEYS);
        if (blocks)
            merge(c, OF_BLOCKS);
        return;
    }
    for (int r = 0; r < data_of(c)->rows && !c->row->fault[0]; r++) {
        struct scored keys = score_row(c, r);
        compare_list(c, OF_KEYS, r, &keys);
        if (!blocks || c->row->fault[0])
            continue;
        struct scored s = score_blocks(c, &keys);
        compare_list(c, OF_BLOCKS, r, &s);
    }
}

/* Prepares the launch with whole rows, after the launch with parts. Returns false if there is
 * none. */
static bool again(struct call *c)
{
    struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    a->splits = 1;
    a->slots = wants_slots(c);
    if (is_planned(c))
        fill_work(c, &((const struct own *)c->own)->whole, 1);
    return call_has(c, PARTS) && c->launches == 1;
}

/* The functions from here on serve traces of a call. */

/* Completes a trace's shape: replaces an unsupported page size by the smallest usual one that the
 * kernel takes. */
static const char *complete(const struct call *c, void *shape)
{
    struct shape *s = shape;
    const bool small = s->trace.page < 32 || s->trace.page & (s->trace.page - 1);
    if (small != c->desc.indexer_topk.small_pages)
        s->trace.page = c->desc.indexer_topk.small_pages ? 16 : 64;
    return NULL;
}

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    return index_data_bytes(data_of(c)) +
           (double)a->rows * a->splits * top_k(c, OF_KEYS) * (a->splits > 1 ? 8 : 4);
}

const struct verify_op verify_indexer_topk = {
    .op = "indexer_topk",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"rows=64,keys=8192"},
    .dimensions =
        {
            {"rows", offsetof(struct shape, rows), 1 << 16, "queries"},
            {"keys", offsetof(struct shape, long_row), 1 << 20, "of each"},
            {"splits", offsetof(struct shape, trace.splits), 65535, "parts that they are cut into"},
            {"shared", offsetof(struct shape, trace.shared), 1, "1: all rows are of one sequence"},
            {"page", offsetof(struct shape, trace.page), 65536, "tokens in a page"},
            {"longest", offsetof(struct shape, trace.longest), 1 << 20, "keys of the first row"},
            {"lists", offsetof(struct shape, trace.lists), 65535, "of a plan"},
        },
    .complete = complete,
    .takes = takes,
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .again = again,
    .least_bytes = least_bytes,
};

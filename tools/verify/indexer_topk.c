/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of indexer_topk kernels. Scores in single precision make some ranks ambiguous: each
 * selected key must score at least what each other does, within the bounds of both; of keys that
 * are alike the first ones must be selected; and parts of rows, merged, must give the same list.
 */
#include <math.h>
#include <string.h>

#include "tools/reference/topk.h"
#include "tools/verify/indexer_data.h"
#include "tools/verify/call.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
    STARTS = 1 << 0, /* rows begin anywhere */
    SLOTS = 1 << 1,  /* where there are pages */
    PARTS = 1 << 2,  /* once in parts, once as a whole */
    EQUAL = 1 << 3,  /* all rows have all keys, and only positions are written, unless in parts */
};

/* Lengths of rows are k and what row_length() says, or `long_row`. */
static const struct shape {
    struct verify_shape is;
    enum index_keys keys;
    int rows, long_row;
    int splits, shared, page; /* of traces */
} shapes[] = {
    {{"around k", STARTS}, KEYS_RANDOM, 7, 0, 0, 0, 0},
    {{"equal", SLOTS}, KEYS_EQUAL, 1, 13001, 0, 0, 0},
    {{"zeros", VERIFY_VIEWS}, KEYS_NEGATIVE, 1, 9500, 0, 0, 0},
    {{"two keys", STARTS}, KEYS_TWO, 2, 9100, 0, 0, 0},
    {{"rising", 0}, KEYS_RISING, 1, 15000, 0, 0, 0},
    {{"whole rounds", 0}, KEYS_RISING, 1, 8192, 0, 0, 0},
    {{"falling", SLOTS}, KEYS_FALLING, 1, 13000, 0, 0, 0},
    {{"huge range", VERIFY_VIEWS}, KEYS_HUGE_RANGE, 1, 17000, 0, 0, 0},
    {{"nans", STARTS}, KEYS_NANS, 2, 9500, 0, 0, 0},
    {{"parts", STARTS | SLOTS | PARTS}, KEYS_RANDOM, 3, 9000, 0, 0, 0},
    {{"parts of equals", PARTS}, KEYS_TWO, 1, 5000, 0, 0, 0},
};

static const struct shape traced = {{"trace", EQUAL}, KEYS_RANDOM, 304, 65536, 1, 0, 64};

enum { SPLITS = 3, TRACED_BLOCKS = 2048 };

/* A kernel's selections: keys, and blocks of them. */
enum { OF_KEYS, OF_BLOCKS, LISTS };

static const struct list {
    int indices, values, counts; /* operands */
} lists[LISTS] = {
    {INDEXER_TOPK_INDICES, INDEXER_TOPK_VALUES, INDEXER_TOPK_COUNTS},
    {INDEXER_TOPK_BLOCKS, INDEXER_TOPK_BLOCK_VALUES, INDEXER_TOPK_BLOCK_COUNTS},
};

struct own {
    struct index_data data;
    int32_t *merged[LISTS]; /* [row, k]: what the lists of parts make, or NULL */
};

static bool is(const struct call *c, unsigned flags) { return c->flags & flags; }

static int top_k(const struct call *c, int list)
{
    return list == OF_KEYS ? c->desc.indexer_topk.top_k : c->desc.indexer_topk.top_blocks;
}

static int block_size(const struct call *c)
{
    const int size = c->desc.indexer_topk.block_size;
    return size ? size : 8;
}

static const struct index_data *data_of(const struct call *c)
{
    return &((const struct own *)c->own)->data;
}

static int row_length(const struct call *c, int row)
{
    const struct shape *s = c->shape;
    const int k = top_k(c, OF_KEYS), around[] = {k, k - 1, k + 1, 0, 1, 2 * k + 5, 63};
    if (!s->long_row)
        return around[row % (int)COUNT(around)];
    return is(c, EQUAL) ? s->long_row : s->long_row - 13 * row;
}

/* Two rows share a sequence, and see different numbers of its keys; without pages all do. */
static void make_rows(struct call *c, struct index_data *d)
{
    const bool shared = !d->paged || (c->traced && ((const struct shape *)c->shape)->shared);
    const int of_sequence = c->traced ? 1 : 2;
    d->sequences = shared ? 1 : (d->rows + of_sequence - 1) / of_sequence;
    d->has_starts = is(c, STARTS);
    for (int r = 0; r < d->rows; r++) {
        d->starts[r] = is(c, STARTS) && r % 3 != 1 ? (int32_t)(random_bits(&c->random) % 100) : 0;
        if (top_k(c, OF_BLOCKS))
            d->starts[r] -= d->starts[r] % block_size(c);
        d->ends[r] = d->starts[r] + row_length(c, r);
        d->row_sequences[r] = shared ? 0 : (d->rows - 1 - r) / of_sequence;
    }
}

static bool wants_slots(const struct call *c) { return is(c, SLOTS) && data_of(c)->paged; }

static void size(struct call *c)
{
    const struct shape *s = c->shape;
    const struct attn_indexer_topk_desc *desc = &c->desc.indexer_topk;
    struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    struct index_data *d = &((struct own *)c->own)->data;
    const int page = s->page ? s->page : index_data_page(desc->small_pages, (unsigned)c->number);
    *d = index_data_of(c, desc->heads, s->rows, desc->paged ? page : 0, desc->layout, s->keys);
    make_rows(c, d);
    index_data_make(d);
    for (int r = 0; desc->listed && r < s->rows; r++) {
        const int blocks = (d->ends[r] - d->starts[r]) / block_size(c) + 1;
        a->max_candidates = blocks > a->max_candidates ? blocks : a->max_candidates;
    }
    a->rows = s->rows;
    a->splits = c->traced ? s->splits : is(c, PARTS) ? SPLITS : 1;
    a->slots = a->splits == 1 && wants_slots(c);
    if (d->paged) {
        a->page_size = d->page;
        a->page_stride = d->page_bytes;
    }
}

static void place(struct call *c)
{
    index_data_place(data_of(c), call_operand(c, INDEXER_TOPK_Q));
    if (is(c, EQUAL)) {
        operand_leave_out(call_operand(c, INDEXER_TOPK_COUNTS));
        operand_leave_out(call_operand(c, INDEXER_TOPK_KV_INDPTR));
    }
    if (is(c, EQUAL) && c->args.indexer_topk.splits == 1)
        operand_leave_out(call_operand(c, INDEXER_TOPK_VALUES));
}

/* Two of three blocks of what each row sees; of a trace the first 2,048. */
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
            operand_set_int(candidates, AT(r, i), -1);
        operand_set_int(call_operand(c, INDEXER_TOPK_CANDIDATE_COUNTS), AT(r), n);
    }
}

static void fill(struct call *c)
{
    index_data_fill(data_of(c), call_operand(c, INDEXER_TOPK_Q));
    fill_candidates(c);
}

/* ---- Comparing ---- */

/* Entry i of a list; with fewer parts than there is room for, lists lie one after the other. */
static const int64_t *entry_at(const struct call *c, int of, int64_t list, int i, int64_t at[])
{
    at[0] = at[1] = 0;
    at[2] = list * top_k(c, of) + i;
    return at;
}

static int32_t read_index(struct call *c, int of, int64_t list, int i)
{
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    struct operand *o = call_operand(c, lists[of].indices);
    operand_allow(o, entry_at(c, of, list, i, at));
    return (int32_t)operand_result_int(o, at);
}

/* A row's keys, or blocks: what they score, which may be selected, and which were. */
struct scored {
    int n, there;
    double *score, *bound;
    uint8_t *allowed, *selected;
};

static struct scored make_scored(struct call *c, int n)
{
    struct scored s = {.n = n};
    s.score = call_allocate(c, (size_t)n + 1, sizeof(*s.score));
    s.bound = call_allocate(c, (size_t)n + 1, sizeof(*s.bound));
    s.allowed = call_allocate(c, (size_t)n + 1, 1);
    s.selected = call_allocate(c, (size_t)n + 1, 1);
    return s;
}

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

/* A block scores between the largest of its keys' lower bounds and that of the upper ones. */
static struct scored score_blocks(struct call *c, const struct scored *keys)
{
    const int size = block_size(c);
    struct scored s = make_scored(c, (keys->n + size - 1) / size);
    s.there = s.n;
    for (int i = 0; i < s.n; i++) {
        double low = NAN, high = NAN;
        for (int k = i * size; k < (i + 1) * size && k < keys->n; k++) {
            const double bound = isinf(keys->score[k]) ? 0 : keys->bound[k];
            low = fmax(low, keys->score[k] - bound);
            high = fmax(high, keys->score[k] + bound);
        }
        s.score[i] = isinf(high) ? high : (low + high) / 2;
        s.bound[i] = isinf(high) ? 0 : (high - low) / 2;
        s.allowed[i] = 1;
    }
    return s;
}

/* The position that an entry of the list means, or -1; slots are looked for behind `from`. */
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

static void compare_value(struct call *c, int of, const int64_t at[], double expected, double bound)
{
    struct operand *values = call_operand(c, lists[of].values);
    operand_allow(values, at);
    if (isnan(expected) && !isnan(operand_result(values, at)))
        verify_fail(c->row, "a value is %g, expected a NaN", operand_result(values, at));
    else if (isinf(expected))
        call_check(c, values, at, expected, 0);
    else if (!isnan(expected))
        call_compare(c, values, at, expected, bound);
}

/* Reads a row's list. */
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

/* The least that a selected key may score, and the most that another does. */
static void compare_ranks(struct call *c, int row, const struct scored *s)
{
    int least = -1, most = -1;
    bool nan = false;
    for (int i = 0; i < s->n; i++) {
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

/* No key may be selected that follows an equal one that is not. */
static void compare_ties(struct call *c, int row, const struct scored *s)
{
    const struct index_data *d = data_of(c);
    const int *classes = d->classes[d->row_sequences[row]] + d->starts[row];
    int left_out[2] = {-1, -1};
    for (int i = 0; i < s->n; i++) {
        if (classes[i] > 1 || !s->allowed[i])
            continue;
        if (!s->selected[i])
            left_out[classes[i]] = i;
        else if (left_out[classes[i]] >= 0 && d->kind != KEYS_RANDOM)
            verify_fail(c->row, "row %d: of keys alike %d was selected before %d", row, i,
                        left_out[classes[i]]);
    }
}

static bool has_classes(const struct call *c)
{
    const enum index_keys kind = data_of(c)->kind;
    return kind == KEYS_EQUAL || kind == KEYS_NEGATIVE || kind == KEYS_TWO;
}

/* The lists of parts: which positions they have is compared when they are merged. */
static void merge(struct call *c, int of)
{
    struct own *own = c->own;
    struct operand *operand = call_operand(c, lists[of].values);
    const int k = top_k(c, of), columns = SPLITS * k;
    float *values = call_allocate(c, (size_t)columns, sizeof(*values));
    int32_t *found = call_allocate(c, (size_t)columns, sizeof(*found));
    own->merged[of] = call_allocate(c, (size_t)(own->data.rows * k), sizeof(*own->merged[of]));
    for (int r = 0; r < own->data.rows; r++) {
        for (int i = 0; i < columns; i++) {
            const int64_t *at = AT(r, i / k, i % k);
            const uint32_t bits = operand_result_bits(operand, at);
            memcpy(&values[i], &bits, sizeof(bits));
            operand_allow(operand, at);
            read_index(c, of, r * SPLITS + i / k, i % k);
            operand_allow(call_operand(c, lists[of].counts), AT(r, i / k));
        }
        const int32_t count = ref_topk(values, columns, k, found);
        for (int i = 0; i < k; i++) {
            const int list = r * SPLITS + found[i] / k;
            int32_t entry = i < count ? read_index(c, of, list, found[i] % k) : -1;
            if (entry >= 0 && of == OF_KEYS && wants_slots(c))
                entry = index_data_slot(&own->data, r, own->data.starts[r] + entry);
            own->merged[of][r * k + i] = entry;
        }
    }
}

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

static void compare_list(struct call *c, int of, int row, struct scored *s)
{
    read_list(c, of, row, s);
    if (!c->row->fault[0])
        compare_ranks(c, row, s);
    if (!c->row->fault[0] && of == OF_KEYS && has_classes(c))
        compare_ties(c, row, s);
    compare_merged(c, of, row);
}

/* Sums of what rows have selected. */
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

static void compare(struct call *c)
{
    compare_indptr(c);
    const bool blocks = top_k(c, OF_BLOCKS) > 0;
    if (c->args.indexer_topk.splits > 1) {
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

/* After the parts, the whole. */
static bool again(struct call *c)
{
    struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    const bool parts = a->splits > 1;
    a->splits = 1;
    a->slots = wants_slots(c);
    return parts;
}

/* ---- Traces ---- */

/* A page that the kernel does not take becomes the smallest usual one that it does. */
static const char *complete(const struct call *c, void *shape)
{
    struct shape *s = shape;
    const bool small = s->page < 32 || s->page & (s->page - 1);
    if (small != c->desc.indexer_topk.small_pages)
        s->page = c->desc.indexer_topk.small_pages ? 16 : 64;
    return NULL;
}

static double least_bytes(const struct call *c)
{
    const struct attn_indexer_topk_args *a = &c->args.indexer_topk;
    return index_data_bytes(data_of(c)) +
           (double)a->rows * a->splits * top_k(c, OF_KEYS) * (a->splits > 1 ? 8 : 4);
}

const struct verify_op verify_indexer_topk = {
    .op = "indexer_topk",
    .shapes = shapes,
    .shape_size = sizeof(shapes[0]),
    .shape_count = COUNT(shapes),
    .trace = &traced,
    .dimensions =
        {
            {"rows", offsetof(struct shape, rows), 1 << 16, "queries"},
            {"keys", offsetof(struct shape, long_row), 1 << 20, "of each"},
            {"splits", offsetof(struct shape, splits), 65535, "parts that they are cut into"},
            {"shared", offsetof(struct shape, shared), 1, "1: all rows are of one sequence"},
            {"page", offsetof(struct shape, page), 65536, "tokens in a page"},
        },
    .complete = complete,
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .again = again,
    .least_bytes = least_bytes,
};

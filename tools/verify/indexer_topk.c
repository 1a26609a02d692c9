/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for indexer_topk kernels. Scores in single precision make some ranks ambiguous: each
 * selected key must score at least what each other does, within the bounds of both; of keys that
 * are alike the first ones must be selected; and parts of rows, merged, must give the same list.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/reference/topk.h"
#include "tools/verify/indexer_data.h"
#include "tools/verify/call.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
    STARTS = 1 << 0, /* rows begin anywhere */
    SLOTS = 1 << 1,  /* where there are pages */
    PARTS = 1 << 2,  /* once as a whole, once in parts */
};

/* Lengths of rows are k and what row_length() says, or `long_row`. */
static const struct shape {
    const char *name;
    enum index_keys keys;
    unsigned flags;
    int rows, long_row;
} shapes[] = {
    {"around k", KEYS_RANDOM, STARTS, 7, 0},
    {"equal", KEYS_EQUAL, SLOTS, 1, 13001},
    {"zeros", KEYS_NEGATIVE, 0, 1, 9500},
    {"two keys", KEYS_TWO, STARTS, 2, 9100},
    {"rising", KEYS_RISING, 0, 1, 15000},
    {"falling", KEYS_FALLING, SLOTS, 1, 13000},
    {"huge range", KEYS_HUGE_RANGE, 0, 1, 17000},
    {"nans", KEYS_NANS, STARTS, 2, 9500},
    {"parts", KEYS_RANDOM, STARTS | SLOTS | PARTS, 3, 9000},
    {"parts of equals", KEYS_TWO, PARTS, 1, 5000},
};

enum { SPLITS = 3, GUARD = 16 };

struct problem {
    struct verify_run *run;
    const struct shape *shape;
    struct attn_indexer_topk_desc desc;
    struct attn_indexer_topk_args args;
    struct index_data data;
    int k;
    struct device_memory memory;
    struct verify_row *row;
};

static bool is(const struct problem *p, unsigned flags) { return p->shape->flags & flags; }

static int row_length(const struct problem *p, int row)
{
    const int around[] = {p->k, p->k - 1, p->k + 1, 0, 1, 2 * p->k + 5, 63};
    return p->shape->long_row ? p->shape->long_row - 13 * row : around[row % (int)COUNT(around)];
}

/* Two rows share a sequence, and see different numbers of its keys; without pages all do. */
static void make_rows(struct problem *p, uint64_t *random)
{
    struct index_data *d = &p->data;
    const size_t rows = (size_t)d->rows;
    d->starts = index_data_allocate(d, rows, sizeof(*d->starts));
    d->ends = index_data_allocate(d, rows, sizeof(*d->ends));
    d->row_sequences = index_data_allocate(d, rows, sizeof(*d->row_sequences));
    d->sequences = d->paged ? (d->rows + 1) / 2 : 1;
    for (int r = 0; r < d->rows; r++) {
        d->starts[r] = is(p, STARTS) ? (int32_t)(random_bits(random) % 100) : 0;
        d->ends[r] = d->starts[r] + row_length(p, r);
        d->row_sequences[r] = d->paged ? (d->rows - 1 - r) / 2 : 0;
    }
    index_data_make(d, random);
}

static void upload(struct problem *p)
{
    const struct index_data *d = &p->data;
    struct attn_indexer_topk_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const size_t rows = (size_t)d->rows, heads = (size_t)d->heads;
    a->rows = d->rows;
    a->q = device_copy(m, d->q_bytes, rows * heads * REF_INDEX_DIM);
    a->q_head_stride = REF_INDEX_DIM;
    a->q_token_stride = (int64_t)heads * REF_INDEX_DIM;
    a->weights = device_copy(m, d->weights, rows * heads * sizeof(float));
    a->weights_token_stride = (int64_t)heads;
    a->keys = device_copy(m, d->image, d->image_bytes);
    a->row_starts = is(p, STARTS) ? device_copy(m, d->starts, rows * sizeof(int32_t)) : NULL;
    a->row_ends = device_copy(m, d->ends, rows * sizeof(int32_t));
    if (!d->paged) {
        a->key_scales = device_copy(m, d->scales[0], ((size_t)d->keys[0] + 1) * sizeof(float));
        return;
    }
    a->page_size = d->page;
    a->page_stride = d->page * INDEX_TOKEN_BYTES;
    a->block_table = device_copy(m, d->table, (size_t)d->pages * sizeof(int32_t));
    a->block_table_stride = d->table_stride;
    a->row_sequences = device_copy(m, d->row_sequences, rows * sizeof(int32_t));
}

/* ---- Results ---- */

struct lists {
    size_t n; /* of indices and of values */
    int32_t *indices, *counts;
    float *values;
};

static void set_outputs(struct problem *p, int splits, int32_t **indices, float **values,
                        int32_t **counts)
{
    const size_t lists = (size_t)(p->data.rows * splits), n = lists * (size_t)p->k;
    *indices = device_allocate(&p->memory, n * sizeof(int32_t));
    *values = device_allocate(&p->memory, n * sizeof(float));
    *counts = device_allocate(&p->memory, lists * sizeof(int32_t));
}

static struct lists download(struct problem *p, const int32_t *indices, const float *values,
                             const int32_t *counts)
{
    const size_t rows = (size_t)p->data.rows;
    struct lists l = {.n = rows * (size_t)p->k};
    l.indices = verify_allocate(l.n, sizeof(*l.indices));
    l.values = verify_allocate(l.n, sizeof(*l.values));
    l.counts = verify_allocate(rows, sizeof(*l.counts));
    device_read(&p->memory, l.indices, indices, l.n * sizeof(*l.indices));
    device_read(&p->memory, l.values, values, l.n * sizeof(*l.values));
    device_read(&p->memory, l.counts, counts, rows * sizeof(*l.counts));
    return l;
}

static void free_lists(struct lists *l)
{
    free(l->indices);
    free(l->values);
    free(l->counts);
}

/* ---- Comparing ---- */

/* A row's keys: what they score, and which of them were selected. */
struct scored {
    int n;
    double *score, *bound;
    uint8_t *selected;
};

static struct scored score_row(const struct problem *p, int row)
{
    const struct index_data *d = &p->data;
    struct scored s = {.n = d->ends[row] - d->starts[row]};
    s.score = verify_allocate((size_t)s.n + 1, sizeof(*s.score));
    s.bound = verify_allocate((size_t)s.n + 1, sizeof(*s.bound));
    s.selected = verify_allocate((size_t)s.n + 1, 1);
    for (int i = 0; i < s.n; i++)
        s.score[i] = index_data_score(d, row, d->starts[row] + i, &s.bound[i]).score;
    return s;
}

static void free_scored(struct scored *s)
{
    free(s->score);
    free(s->bound);
    free(s->selected);
}

/* The position that an entry of the list means, or -1; slots are looked for behind `from`. */
static int position_of(const struct problem *p, int row, int32_t entry, int from, bool slots, int n)
{
    if (!slots)
        return entry;
    for (int i = from; i < n; i++)
        if (index_data_slot(&p->data, row, p->data.starts[row] + i) == entry)
            return i;
    return -1;
}

static void note_value(struct problem *p, int row, int position, double got, double expected,
                       double bound)
{
    const double error = fabs(got - expected);
    if (isnan(expected) ? isnan(got) : isinf(expected) ? got == expected : error <= bound) {
        if (isfinite(expected) && bound > 0 &&
            error / bound * p->row->largest_bound >= p->row->largest) {
            p->row->largest = error;
            p->row->largest_bound = bound;
        }
        return;
    }
    verify_fail(p->row, "row %d, position %d scores %g, expected %g within %g", row, position, got,
                expected, bound);
}

/* Reads a row's list. */
static void read_list(struct problem *p, const struct lists *l, int row, bool slots,
                      struct scored *s)
{
    const int count = s->n < p->k ? s->n : p->k;
    int previous = -1;
    if (l->counts[row] != count)
        verify_fail(p->row, "row %d of %d keys has %d selected, expected %d", row, s->n,
                    l->counts[row], count);
    for (int i = 0; i < p->k && !p->row->fault[0]; i++) {
        const int32_t entry = l->indices[row * p->k + i];
        if (i >= count) {
            if (entry != -1)
                verify_fail(p->row, "row %d has %d behind its last position", row, entry);
            continue;
        }
        const int at = position_of(p, row, entry, previous + 1, slots, s->n);
        if (at <= previous || at >= s->n) {
            verify_fail(p->row, "row %d has %d as entry %d, after position %d of %d", row, entry, i,
                        previous, s->n);
            return;
        }
        note_value(p, row, at, l->values[row * p->k + i], s->score[at], s->bound[at]);
        s->selected[at] = 1;
        previous = at;
    }
}

/* The least that a selected key may score, and the most that another does. */
static void compare_ranks(struct problem *p, int row, const struct scored *s)
{
    int least = -1, most = -1;
    bool nan = false;
    for (int i = 0; i < s->n; i++) {
        if (isnan(s->score[i])) {
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
        verify_fail(p->row, "row %d: a NaN was selected before %g at %d", row, s->score[most],
                    most);
    if (most >= 0 && least >= 0 &&
        s->score[least] + s->bound[least] < s->score[most] - s->bound[most])
        verify_fail(p->row, "row %d: %g at %d was selected before %g at %d", row, s->score[least],
                    least, s->score[most], most);
}

/* Of keys that are alike none may be selected behind one that is not. */
static void compare_ties(struct problem *p, int row, const struct scored *s)
{
    const int *classes = p->data.classes[p->data.row_sequences[row]] + p->data.starts[row];
    int left_out[2] = {-1, -1};
    for (int i = 0; i < s->n; i++) {
        if (classes[i] > 1)
            continue;
        if (!s->selected[i])
            left_out[classes[i]] = i;
        else if (left_out[classes[i]] >= 0 && p->shape->keys != KEYS_RANDOM)
            verify_fail(p->row, "row %d: of keys alike %d was selected before %d", row, i,
                        left_out[classes[i]]);
    }
}

static bool has_classes(const struct problem *p)
{
    return p->shape->keys == KEYS_EQUAL || p->shape->keys == KEYS_NEGATIVE ||
           p->shape->keys == KEYS_TWO;
}

static void compare(struct problem *p, const struct lists *l, bool slots)
{
    p->row->largest_bound = 1;
    for (int r = 0; r < p->data.rows && !p->row->fault[0]; r++) {
        struct scored s = score_row(p, r);
        read_list(p, l, r, slots, &s);
        if (!p->row->fault[0])
            compare_ranks(p, r, &s);
        if (!p->row->fault[0] && has_classes(p))
            compare_ties(p, r, &s);
        free_scored(&s);
    }
}

/* ---- Running ---- */

/* The lists of parts, merged by topk of the same pack or not at all. */
static void run_parts(struct problem *p, const struct lists *whole)
{
    struct attn_indexer_topk_args a = p->args;
    a.splits = SPLITS;
    a.slots = false;
    set_outputs(p, SPLITS, &a.indices, &a.values, &a.counts);
    if (!verify_launch(p->run, &p->memory, &p->desc, &a, p->row))
        return;
    const int columns = SPLITS * p->k;
    const size_t n = (size_t)(p->data.rows * columns);
    int32_t *const indices = verify_allocate(n, sizeof(*indices));
    float *const values = verify_allocate(n, sizeof(*values));
    device_read(&p->memory, indices, a.indices, n * sizeof(*indices));
    device_read(&p->memory, values, a.values, n * sizeof(*values));
    int32_t *const found = verify_allocate((size_t)columns, sizeof(*found));
    for (int r = 0; verify_copied(&p->memory, p->row) && r < p->data.rows; r++) {
        const int32_t count = ref_topk(values + r * columns, columns, p->k, found);
        for (int i = 0; i < count; i++) {
            int32_t entry = indices[r * columns + found[i]];
            if (p->args.slots)
                entry = index_data_slot(&p->data, r, p->data.starts[r] + entry);
            if (entry != whole->indices[r * p->k + i])
                verify_fail(p->row, "row %d: entry %d is %d in parts, and %d as a whole", r, i,
                            entry, whole->indices[r * p->k + i]);
        }
    }
    free(indices);
    free(values);
    free(found);
}

static void run_problem(struct problem *p)
{
    struct attn_indexer_topk_args *a = &p->args;
    a->slots = is(p, SLOTS) && p->data.paged;
    set_outputs(p, 1, &a->indices, &a->values, &a->counts);
    if (!verify_launch(p->run, &p->memory, &p->desc, a, p->row))
        return;
    struct lists l = download(p, a->indices, a->values, a->counts);
    if (verify_copied(&p->memory, p->row))
        compare(p, &l, a->slots);
    if (is(p, PARTS) && !p->row->fault[0])
        run_parts(p, &l);
    free_lists(&l);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_indexer_topk_desc *desc)
{
    struct verify_row row = {.kernel = info->name, .shape = shapes[i].name};
    struct problem p = {
        .run = run,
        .shape = &shapes[i],
        .desc = *desc,
        .args = {.size = sizeof(p.args)},
        .k = desc->top_k,
        .data = {.fp8 = find_cache_precision(ATTN_FP8, info->target),
                 .heads = desc->heads,
                 .rows = shapes[i].rows,
                 .paged = desc->paged,
                 .page = index_data_page(desc->small_pages, (unsigned)i),
                 .shuffle = desc->layout == ATTN_KV_SHUFFLE,
                 .kind = shapes[i].keys},
        .memory = {.gpu = run->gpu},
        .row = &row,
    };
    uint64_t random = run->seed * 1000003 + i;
    make_rows(&p, &random);
    upload(&p);
    run_problem(&p);
    device_free(&p.memory);
    index_data_free(&p.data);
    verify_report(run, &row);
}

struct attn_indexer_topk_desc verify_indexer_topk_desc(const struct attn_pack *pack, uint32_t n)
{
    return (struct attn_indexer_topk_desc){
        .size = sizeof(struct attn_indexer_topk_desc),
        .top_k = atoi(verify_field(pack, n, "top_k")),
        .heads = atoi(verify_field(pack, n, "index_heads")),
        .paged = verify_flag(pack, n, "paged"),
        .small_pages = verify_flag(pack, n, "small_pages"),
        .layout = VERIFY_NUMBER_OF(pack, n, "kv_layout", "nhd", "shuffle"),
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_indexer_topk_desc desc = verify_indexer_topk_desc(run->pack, n);
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i, &desc);
}

const struct verify_op verify_indexer_topk = {.op = "indexer_topk", .verify = verify};

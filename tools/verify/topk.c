/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for topk kernels: every position, score and count is the reference's, and nothing
 * else is written.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/reference/topk.h"
#include "tools/verify/tensor.h"
#include "tools/verify/call.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { GUARD = 16 /* elements */, POISON = 0x5a5a5a5a };

/* How the scores of a row are made. */
enum scores {
    NORMAL,     /* around 0 */
    EQUAL,      /* all alike */
    ZEROS,      /* of both signs */
    TWO,        /* of two values */
    RISING,     /* sorted upwards: every chunk is above the last */
    FALLING,    /* and downwards */
    HUGE_RANGE, /* every exponent, infinities too */
    NANS,       /* most of them NaNs, and padding */
};

enum {
    STARTS = 1 << 0,  /* rows begin anywhere */
    TABLE = 1 << 1,   /* slots by a block table */
    PLAIN = 1 << 2,   /* neither values nor counts */
    NO_ENDS = 1 << 3, /* rows have all columns */
};

/* Lengths of rows are k and what stands here, or `long_row` where that is set. */
static const struct shape {
    const char *name;
    enum scores scores;
    unsigned flags;
    int rows, long_row, splits, page;
} shapes[] = {
    {"around k", NORMAL, STARTS, 7, 0, 1, 0},
    {"equal", EQUAL, 0, 2, 9000, 1, 0},
    {"zeros", ZEROS, STARTS | TABLE, 2, 7000, 1, 64},
    {"two values", TWO, PLAIN, 2, 13000, 1, 0},
    {"rising", RISING, 0, 1, 15000, 1, 0},
    {"falling", FALLING, NO_ENDS, 1, 15000, 1, 0},
    {"huge range", HUGE_RANGE, TABLE, 2, 12000, 1, 17},
    {"nans", NANS, STARTS, 3, 11000, 1, 0},
    {"parts", NORMAL, STARTS | TABLE, 2, 30000, 3, 272},
    {"parts of equals", TWO, 0, 2, 9000, 5, 0},
    {"parts of nans", NANS, 0, 2, 5000, 4, 0},
    {"long", NORMAL, 0, 1, 131072, 1, 0},
};

struct problem {
    struct verify_run *run;
    const struct shape *shape;
    struct attn_topk_desc desc;
    int columns, k, page;
    float *scores;
    int32_t *starts, *ends, *table, *sequences;
    int64_t table_stride;
    struct device_memory memory;
    struct verify_row *row;
};

static bool is(const struct problem *p, unsigned flags) { return p->shape->flags & flags; }

/* ---- Inputs ---- */

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float make_score(enum scores kind, int column, uint64_t *random)
{
    const uint64_t bits = random_bits(random);
    const double uniform = (double)(bits >> 11) * 0x1p-53;
    switch (kind) {
    case EQUAL: return 0.25f;
    case ZEROS: return bits & 1 ? -0.0f : 0.0f;
    case TWO: return bits % 5 ? -3.5f : 1e-20f;
    case RISING: return (float)column;
    case FALLING: return (float)-column;
    case HUGE_RANGE: {
        const uint32_t word = (uint32_t)bits;
        return isnan(from_bits(word)) ? from_bits(word & 0xff800000u) : from_bits(word);
    }
    case NANS:
        if (bits % 16 == 0)
            return (float)uniform;
        return bits % 16 == 1 ? from_bits(UINT32_MAX)
                              : from_bits(bits & 32 ? 0x7fc00000 : 0xff800001);
    default: return (float)(uniform + (double)(random_bits(random) % 3) - 1.5);
    }
}

static int row_length(const struct problem *p, int row)
{
    const int around[] = {p->k, p->k - 1, p->k + 1, 0, 1, 3 * p->k + 5, 63};
    if (p->shape->long_row)
        return p->shape->long_row - 13 * row;
    return around[row % (int)COUNT(around)];
}

static void make_rows(struct problem *p, uint64_t *random)
{
    const int rows = p->shape->rows;
    p->starts = verify_allocate((size_t)rows, sizeof(*p->starts));
    p->ends = verify_allocate((size_t)rows, sizeof(*p->ends));
    p->sequences = verify_allocate((size_t)rows, sizeof(*p->sequences));
    for (int r = 0; r < rows; r++) {
        p->starts[r] = is(p, STARTS) ? (int32_t)(random_bits(random) % 100) : 0;
        p->ends[r] = p->starts[r] + row_length(p, r);
        p->sequences[r] = rows - 1 - r;
        p->columns = p->ends[r] > p->columns ? p->ends[r] : p->columns;
    }
    for (int r = 0; is(p, NO_ENDS) && r < rows; r++)
        p->ends[r] = p->columns;
    p->scores = verify_allocate((size_t)rows * (size_t)p->columns, sizeof(*p->scores));
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < p->columns; c++)
            p->scores[r * p->columns + c] = make_score(p->shape->scores, c, random);
    p->table_stride = p->columns / p->page + 2;
    const size_t entries = (size_t)(rows * p->table_stride);
    p->table = verify_allocate(entries, sizeof(*p->table));
    for (size_t i = 0; i < entries; i++)
        p->table[i] = (int32_t)(random_bits(random) % 100000);
}

/* ---- Outputs ---- */

/* An array of 32 bits between guards: what it should hold, and where it is. */
struct array {
    const char *name;
    size_t count;
    int32_t *expected;
    char *device;
};

static struct array make_array(struct problem *p, const char *name, size_t count)
{
    const size_t all = count + 2 * GUARD;
    struct array a = {.name = name, .count = count};
    a.expected = verify_allocate(all, sizeof(*a.expected));
    for (size_t i = 0; i < all; i++)
        a.expected[i] = POISON;
    a.device = device_copy(&p->memory, a.expected, all * sizeof(*a.expected));
    return a;
}

static void *begin_of(const struct array *a)
{
    return a->device ? a->device + GUARD * sizeof(int32_t) : NULL;
}

static void compare_array(struct problem *p, struct array *a)
{
    const size_t all = a->count + 2 * GUARD;
    int32_t *got = verify_allocate(all, sizeof(*got));
    device_read(&p->memory, got, a->device, all * sizeof(*got));
    for (size_t i = 0; verify_copied(&p->memory, p->row) && i < all; i++) {
        if (got[i] == a->expected[i])
            continue;
        verify_fail(p->row, "%s[%lld] is %d (bits), expected %d", a->name, (long long)i - GUARD,
                    got[i], a->expected[i]);
        break;
    }
    free(got);
}

struct lists {
    struct array indices, values, counts;
};

static struct lists make_lists(struct problem *p, size_t lists)
{
    return (struct lists){make_array(p, "indices", lists * (size_t)p->k),
                          make_array(p, "values", lists * (size_t)p->k),
                          make_array(p, "counts", lists)};
}

static int32_t slot_of(const struct problem *p, int row, int32_t position)
{
    if (!is(p, TABLE))
        return position;
    return p->table[p->sequences[row] * p->table_stride + position / p->page] * p->page +
           position % p->page;
}

/* The list of positions first .. end - 1 of a row. */
static void expect_list(struct problem *p, struct lists *l, size_t list, int row, int first,
                        int end, bool slots)
{
    const float *scores = p->scores + (size_t)row * (size_t)p->columns + p->starts[row] + first;
    int32_t *const found = verify_allocate((size_t)(end - first) + 1, sizeof(*found));
    const int32_t n = ref_topk(scores, end - first, p->k, found);
    int32_t *const indices = l->indices.expected + GUARD + list * (size_t)p->k;
    int32_t *const values = l->values.expected + GUARD + list * (size_t)p->k;
    for (int i = 0; i < p->k; i++) {
        indices[i] = values[i] = -1;
        if (i >= n)
            continue;
        indices[i] = slots ? slot_of(p, row, first + found[i]) : first + found[i];
        memcpy(&values[i], &scores[found[i]], sizeof(values[i]));
    }
    l->counts.expected[GUARD + list] = n;
    free(found);
}

static void set_outputs(struct attn_topk_args *a, const struct lists *l, bool plain)
{
    a->indices = begin_of(&l->indices);
    a->values = plain ? NULL : begin_of(&l->values);
    a->counts = plain ? NULL : begin_of(&l->counts);
}

static void compare_lists(struct problem *p, struct lists *l, bool plain)
{
    compare_array(p, &l->indices);
    if (plain)
        return;
    compare_array(p, &l->values);
    compare_array(p, &l->counts);
}

static void free_lists(struct lists *l)
{
    free(l->indices.expected);
    free(l->values.expected);
    free(l->counts.expected);
}

/* ---- Running ---- */

static void set_table(struct problem *p, struct attn_topk_args *a)
{
    const size_t rows = (size_t)p->shape->rows;
    if (!is(p, TABLE))
        return;
    a->block_table_stride = p->table_stride;
    a->page_size = p->page;
    a->block_table =
        device_copy(&p->memory, p->table, rows * (size_t)p->table_stride * sizeof(*p->table));
    a->row_sequences = device_copy(&p->memory, p->sequences, rows * sizeof(*p->sequences));
}

static int part_end(int length, int splits, int part)
{
    const int each = (length + splits - 1) / splits;
    return part * each < length ? part * each : length;
}

/* One list of the parts' lists. */
static void run_merge(struct problem *p, const struct lists *parts)
{
    const int rows = p->shape->rows, columns = p->shape->splits * p->k;
    struct attn_topk_args a = {.size = sizeof(a), .rows = rows, .columns = columns};
    struct lists whole = make_lists(p, (size_t)rows);
    set_table(p, &a);
    set_outputs(&a, &whole, false);
    a.scores = begin_of(&parts->values);
    a.source = begin_of(&parts->indices);
    a.scores_row_stride = a.source_row_stride = columns;
    for (int r = 0; r < rows; r++)
        expect_list(p, &whole, (size_t)r, r, 0, p->ends[r] - p->starts[r], true);
    if (verify_launch(p->run, &p->memory, &p->desc, &a, p->row))
        compare_lists(p, &whole, false);
    free_lists(&whole);
}

static void run_problem(struct problem *p)
{
    const int rows = p->shape->rows, splits = p->shape->splits;
    const size_t row_bytes = (size_t)rows * sizeof(int32_t);
    struct attn_topk_args a = {
        .size = sizeof(a), .rows = rows, .columns = p->columns, .splits = splits};
    struct lists lists = make_lists(p, (size_t)(rows * splits));
    if (splits == 1)
        set_table(p, &a);
    set_outputs(&a, &lists, is(p, PLAIN));
    a.scores =
        device_copy(&p->memory, p->scores, (size_t)rows * (size_t)p->columns * sizeof(*p->scores));
    a.scores_row_stride = p->columns;
    a.row_starts = is(p, STARTS) ? device_copy(&p->memory, p->starts, row_bytes) : NULL;
    a.row_ends = is(p, NO_ENDS) ? NULL : device_copy(&p->memory, p->ends, row_bytes);
    for (int r = 0; r < rows; r++)
        for (int part = 0; part < splits; part++) {
            const int n = p->ends[r] - p->starts[r];
            expect_list(p, &lists, (size_t)(r * splits + part), r, part_end(n, splits, part),
                        part_end(n, splits, part + 1), splits == 1);
        }
    if (verify_launch(p->run, &p->memory, &p->desc, &a, p->row)) {
        compare_lists(p, &lists, is(p, PLAIN));
        if (splits > 1 && !p->row->fault[0])
            run_merge(p, &lists);
    }
    free_lists(&lists);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_topk_desc *desc)
{
    struct verify_row row = {.kernel = info->name, .shape = shapes[i].name};
    struct problem p = {
        .run = run,
        .shape = &shapes[i],
        .desc = *desc,
        .k = desc->top_k,
        .columns = 1,
        .page = shapes[i].page ? shapes[i].page : 1,
        .memory = {.gpu = run->gpu},
        .row = &row,
    };
    uint64_t random = run->seed * 1000003 + i;
    make_rows(&p, &random);
    run_problem(&p);
    device_free(&p.memory);
    free(p.scores);
    free(p.starts);
    free(p.ends);
    free(p.table);
    free(p.sequences);
    verify_report(run, &row);
}

struct attn_topk_desc verify_topk_desc(const struct attn_pack *pack, uint32_t n)
{
    return (struct attn_topk_desc){.size = sizeof(struct attn_topk_desc),
                                   .top_k = atoi(verify_field(pack, n, "top_k"))};
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_topk_desc desc = verify_topk_desc(run->pack, n);
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i, &desc);
}

const struct verify_op verify_topk = {.op = "topk", .verify = verify};

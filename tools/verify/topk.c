/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of topk kernels: every position, score and count must equal the reference's, and
 * nothing else may be written.
 */
#include <math.h>
#include <string.h>

#include "tools/reference/topk.h"
#include "tools/verify/call.h"

/* Kinds of scores of a row. */
enum scores {
    NORMAL, /* uniformly distributed around 0 */
    BELL,   /* distributed around 0 like a bell */
    EQUAL,  /* all equal */
    ZEROS,  /* zeros of both signs */
    TWO,    /* two different values */
    /* increasing, each the next float after the one before: every chunk exceeds the chunk before */
    RISING,
    FALLING,    /* decreasing, each the next float below the one before */
    HUGE_RANGE, /* scores with every exponent, and infinities */
    NANS,       /* mostly NaNs, also as padding */
};

/* Flags of a shape. */
enum {
    STARTS = 1 << 0,  /* rows begin at any column */
    TABLE = 1 << 1,   /* the output is slots of a block table, if a row has one list */
    PLAIN = 1 << 2,   /* the call has no outputs of values and counts */
    NO_ENDS = 1 << 3, /* the call has no row_ends: rows have all columns */
    MERGE = 1 << 4,   /* the second launch merges the lists of a row's parts */
    BEYOND = 1 << 5,  /* rows begin before column 0 and end after the last column */
    /* the input is the lists of a plan's parts; each row has its own number of parts */
    PLANNED = 1 << 6,
    RUNS = 1 << 7,    /* the shape of the first of two launches, which merges runs of RUN parts */
    OF_RUNS = 1 << 8, /* the shape of the second of two launches, which merges the lists of runs */
};

/* Largest number of parts that a run merges. */
enum { RUN = 3 };

/* The shapes. Rows have row_length() columns, or `long_row` if that is not 0. With a plan, `splits`
 * is the number of parts of the first row; others have fewer, and some are not split. */
static const struct shape {
    struct verify_shape is;
    enum scores scores;
    /* Rows; columns of each row, 0: row_length() columns; parts of a row; tokens of a page. */
    int rows, long_row, splits, page;
} shapes[] = {
    {{"around k", STARTS}, NORMAL, 7, 0, 1, 0},
    {{"equal", 0}, EQUAL, 2, 9000, 1, 0},
    {{"zeros", STARTS | TABLE}, ZEROS, 2, 7000, 1, 64},
    {{"two values", PLAIN | VERIFY_VIEWS}, TWO, 2, 13000, 1, 0},
    {{"rising", 0}, RISING, 1, 15000, 1, 0},
    {{"falling", NO_ENDS}, FALLING, 1, 15000, 1, 0},
    {{"huge range", TABLE | VERIFY_VIEWS}, HUGE_RANGE, 2, 12000, 1, 17},
    {{"nans", STARTS}, NANS, 3, 11000, 1, 0},
    {{"parts", STARTS}, NORMAL, 2, 30000, 3, 0},
    {{"parts, merged", STARTS | TABLE | MERGE}, NORMAL, 2, 30000, 3, 272},
    {{"parts of equals", 0}, TWO, 2, 9000, 5, 0},
    {{"equals, merged", MERGE | VERIFY_VIEWS}, TWO, 2, 9000, 5, 0},
    {{"parts of nans", 0}, NANS, 2, 5000, 4, 0},
    {{"nans, merged", MERGE}, NANS, 2, 5000, 4, 0},
    {{"few, merged", MERGE}, NORMAL, 2, 400, 2, 0},
    {{"beyond", BEYOND}, NORMAL, 3, 9000, 1, 0},
    {{"parts of beyond", BEYOND | TABLE}, NORMAL, 2, 9000, 3, 64},
    {{"long", 0}, BELL, 1, 131072, 1, 0},
    {{"planned", STARTS | TABLE | PLANNED}, NORMAL, 7, 30000, 9, 64},
    {{"planned nans", PLANNED | VERIFY_VIEWS}, NANS, 5, 5000, 4, 0},
    {{"planned, plain", PLANNED | PLAIN}, BELL, 3, 9000, 2, 0},
    {{"runs", PLANNED | RUNS}, NORMAL, 7, 30000, 10, 0},
    {{"runs of equals", PLANNED | RUNS}, TWO, 5, 9000, 5, 0},
    {{"of runs", STARTS | TABLE | PLANNED | OF_RUNS}, NORMAL, 7, 30000, 10, 272},
    {{"of runs of equals", PLANNED | OF_RUNS}, TWO, 5, 9000, 5, 0},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", PLAIN | NO_ENDS}, BELL, 304, 65536, 1, 0};

/* The data of a call, in call->own. */
struct own {
    /* Columns of `scores`; entries of a row of the block table. */
    int columns, table_stride;
    float *scores; /* [row, columns] */
    /* [rows]: first column of each row, and the column after its last */
    int32_t *starts, *ends;
    int32_t *indptr; /* for a plan: the first list of each row */
    int32_t *found;  /* [columns], output of ref_topk() */
};

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c) { return c->desc.topk.planned == call_has(c, PLANNED); }

/* The functions from here on make plans of a call. */

/* Returns the number of parts into which a plan splits a row; some rows are not split. */
static int row_parts(const struct call *c, int row)
{
    const int parts = ((const struct shape *)c->shape)->splits - row;
    return row % 3 == 1 ? 0 : parts < 2 ? 2 : parts;
}

/* Returns the number of runs into which `parts` parts are divided. */
static int runs_of(int parts) { return (parts + RUN - 1) / RUN; }

/* Sets the first list of each row, and the sizes of lists in the arguments. */
static void size_plan(struct call *c)
{
    struct own *own = c->own;
    struct attn_topk_args *a = &c->args.topk;
    own->indptr = call_allocate(c, (size_t)a->rows + 1, sizeof(*own->indptr));
    for (int r = 0; r < a->rows; r++)
        own->indptr[r + 1] =
            own->indptr[r] +
            (c->traced ? (r == 0) * ((const struct shape *)c->shape)->splits : row_parts(c, r));
    a->columns = own->indptr[a->rows] * c->desc.topk.top_k;
    a->run = call_has(c, RUNS | OF_RUNS) ? RUN : 0;
    a->of_runs = call_has(c, OF_RUNS);
    a->splits = call_has(c, RUNS) ? runs_of(row_parts(c, 0)) : 1;
}

/* Sets the sizes of the lists of parts and of the results. */
static void place_plan(struct call *c)
{
    const struct own *own = c->own;
    for (int i = 0; i < 2; i++)
        operand_resize(call_operand(c, i ? TOPK_SOURCE : TOPK_SCORES), 0,
                       own->indptr[c->args.topk.rows]);
    if (call_has(c, RUNS))
        for (int i = 0; i < 3; i++) {
            static const unsigned outs[] = {TOPK_INDICES, TOPK_VALUES, TOPK_COUNTS};
            operand_resize(call_operand(c, outs[i]), 0, own->indptr[c->args.topk.rows] / 2 + 1);
        }
}

/* The functions from here on fill the inputs of a call. */

/* Returns the float32 with these bits. */
static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Returns a random score of the given kind. */
static float make_score(enum scores kind, int column, uint64_t *random)
{
    const uint64_t bits = random_bits(random);
    const double uniform = (double)(bits >> 11) * 0x1p-53;
    switch (kind) {
    case BELL: {
        double sum = uniform - 0.5;
        for (int i = 1; i < 4; i++)
            sum += (double)(random_bits(random) >> 11) * 0x1p-53 - 0.5;
        return (float)sum;
    }
    case EQUAL: return 0.25f;
    case ZEROS: return bits & 1 ? -0.0f : 0.0f;
    case TWO: return bits % 5 ? -3.5f : 1e-20f;
    case RISING: return from_bits(0x3f800000u + (uint32_t)column);
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

/* Returns the number of entries of a list. */
static int top_k(const struct call *c) { return c->desc.topk.top_k; }

/* Returns the number of scores of a row, often near a list's length. */
static int row_length(const struct call *c, int row)
{
    const struct shape *s = c->shape;
    const int k = top_k(c), around[] = {k, k - 1, k + 1, 0, 1, 3 * k + 5, 63};
    return s->long_row ? s->long_row - 13 * row : around[row % (int)COUNT(around)];
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_topk_args *a = &c->args.topk;
    own->columns = 1;
    own->starts = call_allocate(c, (size_t)s->rows, sizeof(*own->starts));
    own->ends = call_allocate(c, (size_t)s->rows, sizeof(*own->ends));
    for (int r = 0; r < s->rows; r++) {
        own->starts[r] = call_has(c, STARTS) ? (int32_t)(random_bits(&c->random) % 100) : 0;
        own->ends[r] = own->starts[r] + row_length(c, r);
        own->columns = own->ends[r] > own->columns ? own->ends[r] : own->columns;
    }
    for (int r = 0; call_has(c, NO_ENDS | BEYOND) && r < s->rows; r++)
        own->ends[r] = own->columns;
    const size_t columns = (size_t)own->columns;
    own->found = call_allocate(c, columns, sizeof(*own->found));
    own->scores = call_allocate(c, (size_t)s->rows * columns, sizeof(*own->scores));
    for (size_t i = 0; i < (size_t)s->rows * columns; i++)
        own->scores[i] = make_score(s->scores, (int)(i % columns), &c->random);
    own->table_stride = own->columns / (s->page ? s->page : 1) + 2;
    a->rows = s->rows;
    a->columns = call_has(c, MERGE) ? s->splits * top_k(c) : own->columns;
    a->splits = call_has(c, MERGE) ? 1 : s->splits;
    a->page_size = s->page;
    if (c->desc.topk.planned)
        size_plan(c);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    struct operand *table = call_operand(c, TOPK_BLOCK_TABLE);
    operand_resize(table, 0, c->args.topk.rows);
    operand_resize(table, 1, own->table_stride);
    if (!call_has(c, TABLE)) {
        operand_leave_out(table);
        operand_leave_out(call_operand(c, TOPK_ROW_SEQUENCES));
    }
    if (c->desc.topk.planned)
        place_plan(c);
    if (!call_has(c, MERGE) && !c->desc.topk.planned)
        operand_leave_out(call_operand(c, TOPK_SOURCE));
    if (!call_has(c, STARTS | BEYOND) || call_has(c, MERGE | PLANNED))
        operand_leave_out(call_operand(c, TOPK_ROW_STARTS));
    if (call_has(c, NO_ENDS | MERGE | PLANNED))
        operand_leave_out(call_operand(c, TOPK_ROW_ENDS));
    if (call_has(c, PLAIN)) {
        operand_leave_out(call_operand(c, TOPK_VALUES));
        operand_leave_out(call_operand(c, TOPK_COUNTS));
    }
}

/* Returns the bits of a float32 score. */
static uint32_t bits_of(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof(bits));
    return bits;
}

/* A part of a row, and the list that the reference selects from it. */
struct list {
    const float *scores;
    /* first: column of scores[0]. count: number of selected columns, which are in own->found */
    int first, count;
};

/* Returns the column after a part of a row. Lengths of parts are multiples of 64. */
static int part_end(int length, int splits, int part)
{
    const int each = ((length + splits - 1) / splits + 63) / 64 * 64;
    return part * each < length ? part * each : length;
}

/* Selects the top_k columns of `count` parts of a row, from part number `part` on. The row has
 * `splits` parts. */
static struct list select_parts(const struct call *c, int row, int part, int count, int splits)
{
    const struct own *own = c->own;
    const int n = own->ends[row] - own->starts[row], first = part_end(n, splits, part);
    const float *scores =
        own->scores + (size_t)row * (size_t)own->columns + own->starts[row] + first;
    return (struct list){
        .scores = scores,
        .first = first,
        .count = ref_topk(scores, part_end(n, splits, part + count) - first, top_k(c),
                          c->desc.topk.ties == ATTN_TIES_LARGER, own->found),
    };
}

/* Returns the expected list of one part of a row. */
static struct list select_part(const struct call *c, int row, int part, int splits)
{
    return select_parts(c, row, part, 1, splits);
}

/* Writes the list `l` to the input operands, as a first launch would: to row `row`, from entry
 * `first` on. */
static void fill_list(struct call *c, const struct list *l, int row, int first)
{
    const struct own *own = c->own;
    const int k = top_k(c);
    struct operand *scores = call_operand(c, TOPK_SCORES), *source = call_operand(c, TOPK_SOURCE);
    for (int i = 0; i < k; i++) {
        const int64_t *at = AT(row, first + i);
        const bool there = i < l->count;
        operand_set_int(source, at, there ? l->first + own->found[i] : -1);
        operand_set_bits(scores, at, there ? bits_of(l->scores[own->found[i]]) : UINT32_MAX);
    }
}

/* Writes the lists of a row's parts to the input operands, as a first launch would. */
static void fill_lists(struct call *c, int row)
{
    const int splits = ((const struct shape *)c->shape)->splits;
    for (int part = 0; part < splits; part++) {
        const struct list l = select_part(c, row, part, splits);
        fill_list(c, &l, row, part * top_k(c));
    }
}

/* Writes the lists of a row's parts of a plan, or of runs of parts, to the input operands. */
static void fill_plan(struct call *c, int row)
{
    const struct own *own = c->own;
    const int parts = row_parts(c, row), each = call_has(c, OF_RUNS) ? RUN : 1;
    for (int part = 0; part < parts; part += each) {
        const struct list l = select_parts(c, row, part, each, parts);
        const int first = call_has(c, OF_RUNS) ? own->indptr[row] / 2 : own->indptr[row];
        fill_list(c, &l, first + part / each, 0);
    }
}

/* Fills the block table and the sequence of each row. */
static void fill_table(struct call *c)
{
    const int rows = c->args.topk.rows;
    struct operand *table = call_operand(c, TOPK_BLOCK_TABLE);
    for (int r = 0; table->given && r < rows; r++) {
        operand_set_int(call_operand(c, TOPK_ROW_SEQUENCES), AT(r), rows - 1 - r);
        for (int i = 0; i < table->dims[1]; i++)
            operand_set_int(table, AT(r, i), (int64_t)(random_bits(&c->random) % 100000));
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct own *own = c->own;
    struct operand *scores = call_operand(c, TOPK_SCORES);
    operand_set_ints(call_operand(c, TOPK_ROW_STARTS), own->starts, c->args.topk.rows);
    operand_set_ints(call_operand(c, TOPK_ROW_ENDS), own->ends, c->args.topk.rows);
    for (int r = 0; call_has(c, BEYOND) && r < c->args.topk.rows; r++) {
        operand_set_int(call_operand(c, TOPK_ROW_STARTS), AT(r), r ? -1 - 70 * r : INT32_MIN);
        operand_set_int(call_operand(c, TOPK_ROW_ENDS), AT(r), own->columns + 1 + 70 * r);
    }
    fill_table(c);
    if (c->desc.topk.planned)
        operand_set_ints(call_operand(c, TOPK_REDUCE_INDPTR), own->indptr, c->args.topk.rows + 1);
    for (int i = 0; c->traced && c->desc.topk.planned && i < c->args.topk.columns; i++)
        operand_set_bits(scores, AT(i / top_k(c), i % top_k(c)),
                         bits_of(own->scores[i % own->columns]));
    for (int r = 0; r < c->args.topk.rows && c->desc.topk.planned && !c->traced; r++)
        fill_plan(c, r);
    for (int r = 0; r < c->args.topk.rows && !c->desc.topk.planned; r++) {
        const float *row = own->scores + (size_t)r * (size_t)own->columns;
        if (call_has(c, MERGE))
            fill_lists(c, r);
        for (int i = 0; !call_has(c, MERGE) && i < own->columns; i++)
            operand_set_bits(scores, AT(r, i), bits_of(row[i]));
    }
}

/* The functions from here on compare the results of a call. */

/* Returns the cache slot of a position, or the position if there is no table. */
static int64_t slot_of(struct call *c, int row, int32_t position)
{
    const struct operand *table = call_operand(c, TOPK_BLOCK_TABLE);
    if (!table->given)
        return position;
    const int page = c->args.topk.page_size;
    const int64_t sequence = operand_int(call_operand(c, TOPK_ROW_SEQUENCES), AT(row));
    return operand_int(table, AT(sequence, position / page)) * page + position % page;
}

/* Compares list number `to` of the output with `list`, the expected list of part `part` of a
 * row. */
static void compare_list(struct call *c, const struct list *list, int row, int to, int part)
{
    const struct own *own = c->own;
    const struct list l = *list;
    struct operand *values = call_operand(c, TOPK_VALUES), *counts = call_operand(c, TOPK_COUNTS);
    for (int i = 0; i < top_k(c); i++) {
        const int64_t *at = AT(to, part, i);
        const bool there = i < l.count;
        call_compare_int(c, call_operand(c, TOPK_INDICES), at,
                         there ? slot_of(c, row, l.first + own->found[i]) : -1);
        if (values->given)
            call_compare_int(c, values, at,
                             there ? bits_of(l.scores[own->found[i]]) : (int64_t)UINT32_MAX);
    }
    if (counts->given)
        call_compare_int(c, counts, AT(to, part), l.count);
}

/* Compares the results of a row with a plan. Rows that are not split must not be written. */
static void compare_plan(struct call *c, int row)
{
    const struct own *own = c->own;
    const int parts = row_parts(c, row), each = call_has(c, RUNS) ? RUN : parts ? parts : 1;
    for (int part = 0; part < parts; part += each) {
        const struct list l = select_parts(c, row, part, each, parts);
        compare_list(c, &l, row, call_has(c, RUNS) ? own->indptr[row] / 2 + part / each : row, 0);
    }
}

/* Compares the lists of all rows. */
static void compare(struct call *c)
{
    for (int r = 0; r < c->args.topk.rows; r++) {
        if (c->desc.topk.planned)
            compare_plan(c, r);
        for (int part = 0; !c->desc.topk.planned && part < c->args.topk.splits; part++) {
            const struct list l = select_part(c, r, part, c->args.topk.splits);
            compare_list(c, &l, r, r, part);
        }
    }
}

const struct verify_op verify_topk = {
    .op = "topk",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"rows=64,columns=16384"},
    .dimensions =
        {
            {"rows", offsetof(struct shape, rows), 1 << 16, "of scores"},
            {"columns", offsetof(struct shape, long_row), 1 << 24, "of each"},
            {"splits", offsetof(struct shape, splits), 65535, "parts that each is cut into"},
        },
    .takes = takes,
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};

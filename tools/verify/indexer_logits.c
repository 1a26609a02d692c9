/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of indexer_logits kernels: each score must be within the bound of
 * index_data_score(). With CLEAN other elements must be minus infinity; without it they must be
 * unchanged.
 */
#include <math.h>

#include "tools/verify/indexer_data.h"

/* Flags of a shape. */
enum {
    /* The kernel writes minus infinity for keys that a row does not see. */
    CLEAN = 1 << 0,
    STARTS = 1 << 1, /* rows begin at any key */
    EQUAL = 1 << 2,  /* all rows see all keys */
    SHARED = 1 << 3, /* all rows see one sequence */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    enum index_keys keys;
    /* columns: largest number of keys of a row; page: argument of index_data_page() */
    int rows, columns, page;
} shapes[] = {
    {{"one", 0}, KEYS_RANDOM, 1, 1, 0},
    {{"ranges", STARTS | VERIFY_VIEWS}, KEYS_RANDOM, 9, 700, 1},
    {{"clean", STARTS | CLEAN | VERIFY_VIEWS}, KEYS_RANDOM, 5, 4500, 2},
    {{"negative", CLEAN}, KEYS_NEGATIVE, 2, 300, 0},
    {{"huge range", SHARED}, KEYS_HUGE_RANGE, 3, 2050, 1},
    /* rows are processed in two large parts */
    {{"many rows", STARTS | SHARED | CLEAN}, KEYS_RANDOM, 180, 3000, 0},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", EQUAL | SHARED}, KEYS_RANDOM, 304, 16384, 0};

/* Sets the first key and the end of keys of each row. */
static void make_rows(struct call *c, struct index_data *d)
{
    const struct shape *s = c->shape;
    d->sequences = d->paged && !call_has(c, SHARED) ? (s->rows + 1) / 2 : 1;
    d->has_starts = call_has(c, STARTS);
    for (int r = 0; r < s->rows; r++) {
        const int length = 1 + (int)(random_bits(&c->random) % (unsigned)s->columns);
        d->ends[r] = call_has(c, EQUAL) || r == 0 ? s->columns : length;
        if (call_has(c, STARTS) && r % 3 != 1)
            d->starts[r] = (int32_t)(random_bits(&c->random) % (unsigned)s->columns);
        if (d->sequences > 1)
            d->row_sequences[r] = r / 2;
    }
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_indexer_logits_args *a = &c->args.indexer_logits;
    const struct attn_indexer_logits_desc *desc = &c->desc.indexer_logits;
    struct index_data *d = c->own;
    const int page = desc->paged ? index_data_page(desc->small_pages, (unsigned)s->page) : 0;
    const struct index_cache cache = {page, desc->layout, desc->index_keys};
    *d = index_data_of(c, desc->heads, s->rows, &cache, s->keys);
    make_rows(c, d);
    index_data_make(d);
    a->rows = s->rows;
    a->columns = s->columns;
    a->clean = call_has(c, CLEAN);
    if (d->paged) {
        a->page_size = d->page;
        a->page_stride = d->page_bytes;
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c) { index_data_place(c->own, call_operand(c, INDEXER_LOGITS_Q)); }

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c) { index_data_fill(c->own, call_operand(c, INDEXER_LOGITS_Q)); }

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct index_data *d = c->own;
    const struct shape *s = c->shape;
    struct operand *out = call_operand(c, INDEXER_LOGITS_LOGITS);
    for (int r = 0; r < d->rows; r++)
        for (int n = 0; n < s->columns; n++) {
            double bound = 0, score = -INFINITY;
            const bool seen = n >= d->starts[r] && n < d->ends[r];
            if (seen)
                score = index_data_score(d, r, n, &bound).score;
            if (seen)
                call_compare(c, out, AT(r, n), score, bound);
            else if (call_has(c, CLEAN))
                call_check(c, out, AT(r, n), score, bound);
        }
}

const struct verify_op verify_indexer_logits = {
    .op = "indexer_logits",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"rows=304,keys=16384"},
    .dimensions =
        {
            {"rows", offsetof(struct shape, rows), 1 << 16, "queries"},
            {"keys", offsetof(struct shape, columns), 1 << 20, "that all of them see"},
        },
    .own_size = sizeof(struct index_data),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};

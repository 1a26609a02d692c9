/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of indexer_gather kernels: compares every byte of gathered keys and scales, of whole
 * sequences and of parts, from pages in random order.
 */
#include <stdlib.h>

#include "tools/verify/paged.h"

/* Bytes of a key and of its scale; keys of a group in SHUFFLE pages; largest number of
 * sequences. */
enum { DIM = 128, SCALE_BYTES = 4, TILE = 16, SEQUENCES_MAX = 4 };

/* Flags of a shape. */
enum {
    WHOLE = 1 << 0, /* seq_starts is NULL */
    /* outputs have rows after the last sequence, and some workgroups have no work */
    PADDED = 1 << 1,
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int page_size, count;
    struct {
        /* First gathered token of the sequence, and number of gathered tokens. */
        int first, rows;
    } sequences[SEQUENCES_MAX];
} shapes[] = {
    {{"one", WHOLE}, 64, 1, {{0, 1}}},
    {{"none", 0}, 16, 2, {{3, 0}, {0, 0}}},
    {{"whole", WHOLE}, 64, 3, {{0, 130}, {0, 64}, {0, 7}}},
    {{"chunks", 0}, 32, 4, {{5, 77}, {32, 32}, {39, 1}, {0, 65}}},
    {{"views", VERIFY_VIEWS | PADDED}, 48, 2, {{100, 200}, {0, 17}}},
    {{"272 tokens", PADDED}, 272, 3, {{271, 2}, {0, 0}, {260, 300}}},
    {{"single slots", 0}, 1, 2, {{3, 20}, {0, 5}}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", WHOLE}, 64, 1, {{0, 16384}}};

/* The data of a call, in call->own. */
struct own {
    /* First gathered token of each sequence, and its first row in the output. */
    int32_t starts[SEQUENCES_MAX], cu[SEQUENCES_MAX + 1];
    int32_t *table; /* page numbers: [count, stride] */
    /* Entries of a row of `table`; number of pages of the cache. */
    int stride, pages;
};

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c)
{
    const struct shape *s = c->shape;
    return c->desc.indexer_gather.layout != ATTN_KV_SHUFFLE || s->page_size % TILE == 0;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_indexer_gather_args *a = &c->args.indexer_gather;
    a->batch = s->count;
    a->page_size = s->page_size;
    const int64_t bytes = (int64_t)s->page_size * (DIM + SCALE_BYTES);
    a->page_stride = (bytes + 15) / 16 * 16 + (call_has(c, VERIFY_VIEWS) ? 48 : 0);
    for (int i = 0; i < s->count; i++) {
        const int rows = s->sequences[i].rows, end = s->sequences[i].first + rows;
        const int pages = (end + s->page_size - 1) / s->page_size;
        own->starts[i] = s->sequences[i].first;
        own->cu[i + 1] = own->cu[i] + rows;
        own->stride = pages > own->stride ? pages : own->stride;
        a->max_seqlen_k = rows > a->max_seqlen_k ? rows : a->max_seqlen_k;
    }
    a->total_k = own->cu[s->count] + (call_has(c, PADDED) ? 5 : 0);
    a->max_seqlen_k += call_has(c, PADDED) ? 300 : 0;
    own->pages = s->count * own->stride;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    operand_resize(call_operand(c, INDEXER_GATHER_KEYS), 0,
                   own->pages * c->args.indexer_gather.page_stride);
    operand_resize(call_operand(c, INDEXER_GATHER_BLOCK_TABLE), 0, c->args.indexer_gather.batch);
    operand_resize(call_operand(c, INDEXER_GATHER_BLOCK_TABLE), 1, own->stride);
    if (call_has(c, WHOLE))
        operand_leave_out(call_operand(c, INDEXER_GATHER_SEQ_STARTS));
}

/* The functions from here on place and fill keys in the cache. */

/* Returns the offset in the cache, in bytes, of the page of token t of sequence s. */
static int64_t page_of(const struct call *c, int s, int t)
{
    const struct own *own = c->own;
    const struct attn_indexer_gather_args *a = &c->args.indexer_gather;
    return own->table[s * own->stride + t / a->page_size] * a->page_stride;
}

/* Returns the offset in the cache, in bytes, of byte e of the key of token t of sequence s. */
static int64_t key_at(const struct call *c, int s, int t, int e)
{
    const int token = t % c->args.indexer_gather.page_size;
    const int64_t page = page_of(c, s, t);
    if (c->desc.indexer_gather.layout != ATTN_KV_SHUFFLE)
        return page + token * DIM + e;
    return page + token / TILE * TILE * DIM + e / TILE * TILE * TILE + token % TILE * TILE +
           e % TILE;
}

/* Returns the offset in the cache, in bytes, of byte e of the scale of token t of sequence s. */
static int64_t scale_at(const struct call *c, int s, int t, int e)
{
    const int page_size = c->args.indexer_gather.page_size;
    return page_of(c, s, t) + page_size * DIM + t % page_size * SCALE_BYTES + e;
}

/* Returns a scale that is different for each sequence and token. */
static float scale_of(int s, int t) { return (float)(1 + t) + 0.125f * (float)s; }

/* Fills the key and scale of token `t` of sequence `s`. */
static void fill_token(struct call *c, int s, int t)
{
    struct operand *keys = call_operand(c, INDEXER_GATHER_KEYS);
    union {
        float value;
        uint8_t bytes[SCALE_BYTES];
    } scale = {scale_of(s, t)};
    for (int e = 0; e < DIM; e++)
        operand_set_int(keys, AT(key_at(c, s, t, e)), (int64_t)(random_bits(&c->random) & 255));
    for (int e = 0; e < SCALE_BYTES; e++)
        operand_set_int(keys, AT(scale_at(c, s, t, e)), scale.bytes[e]);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    struct own *own = c->own;
    const struct attn_indexer_gather_args *a = &c->args.indexer_gather;
    int32_t *const pages = shuffled_pages(own->pages, &c->random);
    own->table = call_allocate(c, (size_t)own->pages, sizeof(*pages));
    for (int i = 0; i < own->pages; i++) {
        own->table[i] = c->traced ? i : pages[i];
        operand_set_int(call_operand(c, INDEXER_GATHER_BLOCK_TABLE),
                        AT(i / own->stride, i % own->stride), own->table[i]);
    }
    free(pages);
    operand_set_ints(call_operand(c, INDEXER_GATHER_CU_SEQLENS_K), own->cu, a->batch + 1);
    if (!call_has(c, WHOLE))
        operand_set_ints(call_operand(c, INDEXER_GATHER_SEQ_STARTS), own->starts, a->batch);
    if (c->traced) {
        operand_set_table(call_operand(c, INDEXER_GATHER_KEYS), 1, &c->random);
        return;
    }
    for (int s = 0; s < a->batch; s++)
        for (int t = 0; t < own->starts[s] + own->cu[s + 1] - own->cu[s]; t++)
            fill_token(c, s, t);
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    const struct operand *keys = call_operand(c, INDEXER_GATHER_KEYS);
    for (int s = 0; s < c->args.indexer_gather.batch; s++)
        for (int i = own->cu[s]; i < own->cu[s + 1]; i++) {
            const int t = own->starts[s] + i - own->cu[s];
            for (int e = 0; e < DIM; e++)
                call_compare_int(c, call_operand(c, INDEXER_GATHER_KEYS_OUT), AT(i, e),
                                 operand_int(keys, AT(key_at(c, s, t, e))));
            call_compare(c, call_operand(c, INDEXER_GATHER_KEY_SCALES_OUT), AT(i), scale_of(s, t),
                         0);
        }
}

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    return 2.0 * (DIM + SCALE_BYTES) * c->args.indexer_gather.total_k +
           4.0 * ((const struct own *)c->own)->pages;
}

const struct verify_op verify_indexer_gather = {
    .op = "indexer_gather",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=16384"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, sequences[0].rows), 1 << 20, "of one sequence"},
            {"page_size", offsetof(struct shape, page_size), 65536, "tokens of a page"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .takes = takes,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};

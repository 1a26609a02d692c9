/* SPDX-License-Identifier: Apache-2.0 */
/* Copies work lists, reduce lists and chosen groups from the device and checks their entries, for
 * ATTN_CHECK_DATA. */
#include <stdlib.h>

#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* Checks the indptr array `data` of `batch` + 1 elements in device memory: ascending from 0 or more
 * to at most `total`. `name` is for messages. */
static int check_indptr(const struct attn_device *device, const char *name, const int32_t *data,
                        int32_t batch, int32_t total, void *stream)
{
    const struct attn_indptr indptr = {
        .name = name, .data = data, .batch = batch, .total = total, .longest = INT32_MAX};
    return attn_check_indptr(device, &indptr, stream);
}

/* Returns the most query tokens of a sequence: q_len, where 0 means 1. */
static int32_t queries(const struct attn_combine_args *a) { return a->q_len ? a->q_len : 1; }

/* Checks a tile of a combine with CSR lists, given as host copies: its tokens are rows of `out`,
 * and its split-KV partials are rows of partial_out. A tile without partials is not checked. */
static int check_tile(const struct attn_combine_args *a, int32_t tile, const int32_t *indptr,
                      const int32_t *tokens, const int32_t *map)
{
    if (indptr[tile] == indptr[tile + 1])
        return ATTN_OK;
    const int32_t first = tokens[2 * tile], end = tokens[2 * tile + 1];
    if (first < 0 || end < first || end > a->tokens || end - first > queries(a))
        return attn_fail(ATTN_BAD_DATA,
                         "reduce_final_map[%d] is %d to %d of %d tokens, at most "
                         "%d in a tile",
                         tile, first, end, a->tokens, queries(a));
    for (int32_t i = indptr[tile]; a->partial_rows && i < indptr[tile + 1]; i++) {
        if (map[i] < 0 || map[i] > a->partial_rows - (end - first))
            return attn_fail(ATTN_BAD_DATA,
                             "reduce_partial_map[%d] is %d, partial_out has %d "
                             "rows",
                             i, map[i], a->partial_rows);
    }
    return ATTN_OK;
}

int attn_combine_check_lists(const struct attn_op *op, const struct attn_combine_args *a)
{
    if (op->desc.combine.partials != ATTN_PARTIALS_CSR)
        return ATTN_OK;
    const struct attn_device *device = op->device;
    const size_t tiles = (size_t)a->reduce_tiles;
    void *indptr = NULL, *tokens = NULL, *map = NULL;
    int r = check_indptr(device, "reduce_indptr", a->reduce_indptr, a->reduce_tiles, INT32_MAX,
                         a->stream);
    if (!r)
        r = attn_read_back(device, a->reduce_indptr, (tiles + 1) * sizeof(int32_t), a->stream,
                           &indptr);
    if (!r && indptr)
        r = attn_read_back(device, a->reduce_final_map, 2 * tiles * sizeof(int32_t), a->stream,
                           &tokens);
    const size_t parts = indptr ? (size_t)((int32_t *)indptr)[tiles] : 0;
    if (!r && tokens && parts)
        r = attn_read_back(device, a->reduce_partial_map, parts * sizeof(int32_t), a->stream, &map);
    for (int32_t i = 0; !r && map && i < a->reduce_tiles; i++)
        r = check_tile(a, i, indptr, tokens, map);
    free(indptr);
    free(tokens);
    free(map);
    return r;
}

/* The most groups of tokens of a sequence that shared_lists reads, as in
 * templates/shared_lists.c. */
enum { SHARED_GROUPS = 8192 };

/* Checks that none of the `count` groups of row `row` of `chosen` is in the row twice. seen[group]
 * is 1 + the last row that has the group; 0: none. */
static int check_groups(const int32_t *groups, int32_t count, int32_t row, int32_t *seen)
{
    for (int32_t i = 0; i < count; i++) {
        if (groups[i] < 0 || groups[i] >= SHARED_GROUPS)
            continue;
        if (seen[groups[i]] == row + 1)
            return attn_fail(ATTN_BAD_DATA, "chosen[%d][%d] is %d, which row %d has already", row,
                             i, groups[i], row);
        seen[groups[i]] = row + 1;
    }
    return ATTN_OK;
}

int attn_shared_lists_check_groups(const struct attn_op *op, const struct attn_shared_lists_args *a)
{
    const int64_t stride = a->chosen_row_stride ? a->chosen_row_stride : a->top_k;
    const size_t size = sizeof(int32_t), rows = (size_t)a->rows;
    if (a->rows <= 0 || a->top_k <= 0)
        return ATTN_OK;
    const size_t words = (rows - 1) * (size_t)stride + (size_t)a->top_k;
    void *counts = NULL, *chosen = NULL;
    int r = attn_read_back(op->device, a->counts, rows * size, a->stream, &counts);
    if (!r && counts)
        r = attn_read_back(op->device, a->chosen, words * size, a->stream, &chosen);
    int32_t *const seen = chosen ? calloc(SHARED_GROUPS, size) : NULL;
    if (!r && chosen && !seen)
        r = attn_fail_fixed(ATTN_NO_MEMORY, "ATTN_CHECK_DATA: out of memory");
    for (int32_t row = 0; !r && seen && row < a->rows; row++) {
        const int32_t n = ((const int32_t *)counts)[row];
        r = check_groups((const int32_t *)chosen + row * stride, n < a->top_k ? n : a->top_k, row,
                         seen);
    }
    free(counts);
    free(chosen);
    free(seen);
    return r;
}

enum {
    WORK_WORDS = 8,   /* integers of a work item in work_info: struct attn_decode_plan */
    TICKET_LINE = 32, /* integers of a cache line; counters are a line apart */
};

/* The work lists of a call, and limits of the numbers in their items. */
struct work {
    const struct attn_device *device;
    void *stream;
    const int32_t *indptr, *info; /* work_indptr, NULL without work lists; work_info */
    int32_t lists;                /* number of work lists */
    int32_t batch, tokens;        /* numbers of sequences and of query tokens */
    int32_t q_len;                /* most query tokens of an item */
    int32_t heads;                /* number of query heads */
    int64_t keys;                 /* keys that all pages together have room for; 0: not known */
    int32_t partial_rows;         /* rows of partial_out; 0: not known */

    /* For a kernel that also adds its partials: the first partial of each sequence, and counters in
     * device memory. tickets NULL: combine adds the partials. */
    const int32_t *reduce_indptr, *tickets;
    int64_t ticket_words; /* integers of `tickets` for a sequence */
};

/* Returns ATTN_BAD_DATA with a message that word `word` of work item `i` is `value`; `what` and
 * `limit` describe the allowed range. */
static int bad_item(int32_t i, int word, int32_t value, const char *what, int32_t limit)
{
    return attn_fail(ATTN_BAD_DATA, "work_info[%d][%d] is %d, %s %d", i, word, value, what, limit);
}

/* Checks the WORK_WORDS words `w` of item `i` of work_info: struct attn_decode_plan. */
static int check_item(const struct work *work, int32_t i, const int32_t *w)
{
    const int32_t rows = work->partial_rows ? work->partial_rows : INT32_MAX;
    const int32_t room = work->keys && work->keys < INT32_MAX ? (int32_t)work->keys : INT32_MAX;
    const int32_t heads = w[7] & 0xffff, heads_end = w[7] >> 16 & 0xffff;
    if (w[0] < 0 || w[0] >= work->batch)
        return bad_item(i, 0, w[0], "sequences are", work->batch);
    if (w[2] < 0 || w[2] > w[3] || w[3] > work->tokens)
        return bad_item(i, 3, w[3], "queries begin at 0, end in order, and their room is",
                        work->tokens);
    if (w[3] - w[2] > work->q_len)
        return bad_item(i, 3, w[3], "and a sequence's queries are at most", work->q_len);
    if (w[1] < -1 || (w[1] >= 0 && w[1] > rows - (w[3] - w[2])))
        return bad_item(i, 1, w[1], "partial rows are", rows);
    if (w[4] < 0 || w[4] > w[5] || w[5] > room)
        return bad_item(i, 5, w[5], "keys begin at 0, end in order, and their pages have room for",
                        room);
    if (w[6] < 0 || w[6] > room - w[5])
        return bad_item(i, 6, w[6], "and keys after the item have room for", room - w[5]);
    if (heads >= heads_end || heads_end > work->heads)
        return bad_item(i, 7, w[7], "head ranges are not empty and end by", work->heads);
    return ATTN_OK;
}

/* Checks the first `count` items of work_info. */
static int check_items(const struct work *work, int32_t count)
{
    const size_t bytes = (size_t)count * WORK_WORDS * sizeof(int32_t);
    void *copy;
    int r = attn_read_back(work->device, work->info, bytes, work->stream, &copy);
    for (int32_t i = 0; !r && copy && i < count; i++)
        r = check_item(work, i, (const int32_t *)copy + (size_t)i * WORK_WORDS);
    free(copy);
    return r;
}

/* Checks that `count` integers of `tickets`, in device memory, are 0. A counter that an interrupted
 * launch has left makes the wrong workgroup the last one, or leaves rows whose partials are never
 * added. */
static int check_tickets(const struct attn_device *device, const int32_t *tickets, int64_t count,
                         void *stream)
{
    void *copy;
    int r = attn_read_back(device, tickets, (size_t)count * sizeof(int32_t), stream, &copy);
    const int32_t *const words = copy;
    for (int64_t i = 0; !r && copy && i < count; i++)
        if (words[i])
            r = attn_fail(ATTN_BAD_DATA, "tickets[%lld] is %d, and 0 between launches",
                          (long long)i, words[i]);
    free(copy);
    return r;
}

/* Checks that the partials of each sequence are rows of partial_out, and that the tickets are 0. */
static int check_parts(const struct work *work)
{
    const int r = check_indptr(work->device, "reduce_indptr", work->reduce_indptr, work->batch,
                               work->partial_rows ? work->partial_rows : INT32_MAX, work->stream);
    return r ? r
             : check_tickets(work->device, work->tickets, work->ticket_words * work->batch,
                             work->stream);
}

/* Checks the work lists of a call, if it has any, and the data for adding their partials. */
static int check_work(const struct work *work)
{
    if (!work->indptr)
        return ATTN_OK;
    int r = check_indptr(work->device, "work_indptr", work->indptr, work->lists, INT32_MAX,
                         work->stream);
    if (r)
        return r;
    void *last;
    r = attn_read_back(work->device, work->indptr + work->lists, sizeof(int32_t), work->stream,
                       &last);
    if (!r && last)
        r = check_items(work, *(const int32_t *)last);
    free(last);
    return r || !work->tickets ? r : check_parts(work);
}

/* Initialises the members of struct work that decode, mla_decode and rope_decode have under the
 * same names. */
#define DECODE_WORK(op, d, a)                                                                     \
    .device = (op)->device, .stream = (a)->stream, .indptr = (a)->work_indptr,                    \
    .info = (a)->work_info, .lists = (a)->work_lists, .batch = (a)->batch, .tokens = (a)->tokens, \
    .q_len = (a)->q_len ? (a)->q_len : (d)->q_len, .heads = (d)->heads,                           \
    .partial_rows = (a)->partial_rows, .reduce_indptr = (a)->reduce_indptr,                       \
    .tickets = (d)->one_launch ? (a)->tickets : NULL

int attn_decode_check_work(const struct attn_op *op, const struct attn_decode_args *a)
{
    const struct attn_decode_desc *d = &op->desc.decode;
    return check_work(&(struct work){DECODE_WORK(op, d, a),
                                     .keys = (int64_t)a->pages.entries * d->cache.page_size,
                                     .ticket_words = TICKET_LINE * d->kv_heads});
}

int attn_mla_decode_check_work(const struct attn_op *op, const struct attn_mla_decode_args *a)
{
    const struct attn_mla_decode_desc *d = &op->desc.mla_decode;
    const int page = d->sparse == ATTN_SPARSE_SLOTS    ? 1
                     : d->sparse == ATTN_SPARSE_BLOCKS ? 64
                                                       : d->cache.page_size;
    return check_work(&(struct work){DECODE_WORK(op, d, a),
                                     .keys = (int64_t)a->pages.entries * page,
                                     .ticket_words = TICKET_LINE});
}

/* Checks that the partials of each tile of a prefill are rows of partial_out, and that the tickets
 * are 0. */
static int check_tile_parts(const struct attn_op *op, const struct attn_prefill_args *a)
{
    int r = check_indptr(op->device, "reduce_indptr", a->reduce_indptr, a->reduce_tiles,
                         a->partial_rows ? a->partial_rows : INT32_MAX, a->stream);
    void *last = NULL;
    if (!r)
        r = attn_read_back(op->device, a->reduce_indptr + a->reduce_tiles, sizeof(int32_t),
                           a->stream, &last);
    const int64_t parts = last ? *(const int32_t *)last : 0;
    free(last);
    if (r || !parts)
        return r;
    return check_tickets(op->device, a->tickets, TICKET_LINE * parts * op->desc.prefill.kv_heads,
                         a->stream);
}

/* Checks the work items of a planned prefill, which are tiles of at most q_tile query tokens, and
 * the split-KV partials. */
int attn_prefill_check_work(const struct attn_op *op, const struct attn_prefill_args *a)
{
    const struct attn_prefill_desc *d = &op->desc.prefill;
    const int32_t q_tile = a->q_tile ? a->q_tile : a->max_seqlen_q;
    const struct work work = {
        .device = op->device,
        .stream = a->stream,
        .indptr = d->planned ? a->work_indptr : NULL,
        .info = a->work_info,
        .lists = a->work_lists,
        .batch = a->batch,
        .tokens = a->tokens,
        .q_len = q_tile < a->max_seqlen_q ? q_tile : a->max_seqlen_q,
        .heads = d->heads,
        .keys = (int64_t)a->pages.entries * d->cache.page_size,
        .partial_rows = a->partial_rows,
    };
    const int r = check_work(&work);
    return r || !d->one_launch ? r : check_tile_parts(op, a);
}

/* Checks the items of a plan. For the plan each row of scores is a sequence of one query and one
 * head. */
int attn_indexer_topk_check_work(const struct attn_op *op, const struct attn_indexer_topk_args *a)
{
    const struct work work = {
        .device = op->device,
        .stream = a->stream,
        .indptr = op->desc.indexer_topk.planned ? a->work_indptr : NULL,
        .info = a->work_info,
        .lists = a->work_lists,
        .batch = a->rows,
        .tokens = a->rows,
        .q_len = 1,
        .heads = 1,
        .partial_rows = a->partials,
    };
    return check_work(&work);
}

/* Checks that each of the `count` positions, in device memory, is 0 to `rows` - 1: a row of
 * cos_sin. */
static int check_stream(const struct attn_op *op, const int64_t *positions, int32_t count,
                        int32_t rows, void *stream)
{
    const struct attn_elements e = {
        .name = "positions",
        .data = positions,
        .size = sizeof(*positions),
        .count = count,
        .least = 0,
        .most = rows - 1,
    };
    return attn_check_elements(op->device, &e, stream);
}

int attn_rope_check_positions(const struct attn_op *op,
                              const struct attn_rope_qk_norm_cache_args *a)
{
    const struct attn_rope_qk_norm_cache_desc *d = &op->desc.rope_qk_norm_cache;
    const int streams = d->mrope == ATTN_MROPE_NONE ? 1 : 3;
    const int64_t stride = a->positions_stride ? a->positions_stride : a->tokens;
    int r = ATTN_OK;
    for (int i = 0; i < streams && !r && d->rope != ATTN_ROPE_NONE && a->max_position; i++)
        r = check_stream(op, a->positions + i * stride, a->tokens, a->max_position, a->stream);
    return r;
}

int attn_rope_decode_check_work(const struct attn_op *op, const struct attn_rope_decode_args *a)
{
    const struct attn_rope_decode_desc *d = &op->desc.rope_decode;
    const int r = check_work(&(struct work){DECODE_WORK(op, d, a),
                                            .keys = (int64_t)a->pages.entries * d->cache.page_size,
                                            .ticket_words = TICKET_LINE * d->kv_heads});
    if (r || d->rope == ATTN_ROPE_NONE || !a->max_position)
        return r;
    return check_stream(op, a->positions, a->tokens, a->max_position, a->stream);
}

int attn_metadata_check_indptr(const struct attn_op *op, const struct attn_metadata_args *a)
{
    const struct attn_indptr indptr = {
        .name = "kv_indptr",
        .data = a->kv_indptr,
        .batch = a->batch,
        .total = INT32_MAX,
        .longest = a->entries,
    };
    return op->desc.metadata.kind == ATTN_METADATA_KV_INDICES
               ? attn_check_indptr(op->device, &indptr, a->stream)
               : ATTN_OK;
}

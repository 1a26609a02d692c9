/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the slots of recurrent states and the spans of state_copy for ATTN_CHECK_DATA. */
#include <stdlib.h>

#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/fill.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* An int32 tensor [rows, columns] of slots of states in device memory. Entries below `first` are
 * padding. */
struct slots {
    const char *name; /* name of the argument in messages */
    const int32_t *data;
    int64_t rows, columns, row_stride, column_stride; /* strides in entries; 0: contiguous */
    int32_t first, count; /* the first valid slot; number of slots of the pool, 0: not known */
    /* true: a slot may be in the list only once */
    bool written;
};

/* Compares two slot numbers, for qsort(). */
static int compare_slots(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Checks that no slot is twice among the `n` in `found`, which it sorts. `s` names the argument. */
static int check_alone(const struct slots *s, int32_t *found, size_t n)
{
    qsort(found, n, sizeof(*found), compare_slots);
    for (size_t i = 1; i < n; i++)
        if (found[i] == found[i - 1])
            return attn_fail(ATTN_BAD_DATA, "%s has slot %d twice", s->name, found[i]);
    return ATTN_OK;
}

/* Checks that the entries of `data`, a host copy of s->data, are below the number of slots of the
 * pool. Appends entries that are no padding to `found`, which has *n elements. */
static int check_range(const struct slots *s, const int32_t *data, int32_t *found, size_t *n)
{
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->columns; k++) {
            const int32_t slot = data[i * s->row_stride + k * s->column_stride];
            if (s->count && slot >= s->count)
                return attn_fail(ATTN_BAD_DATA, "%s[%lld] is %d, the state has %d slots", s->name,
                                 (long long)i, slot, s->count);
            if (slot >= s->first)
                found[(*n)++] = slot;
        }
    return ATTN_OK;
}

/* Checks the slots `s`: all are in the pool, and none is twice if the op writes the slots. Strides
 * of 0 are replaced by the strides of a contiguous tensor. */
static int check_slots(const struct attn_device *device, struct slots *s, void *stream)
{
    s->column_stride = attn_stride(s->column_stride, s->columns, 1);
    s->row_stride = attn_stride(s->row_stride, s->rows, s->columns * s->column_stride);
    const int64_t last = (s->rows - 1) * s->row_stride + (s->columns - 1) * s->column_stride;
    void *copy;
    int r = attn_read_back(device, s->data, (size_t)(last + 1) * sizeof(int32_t), stream, &copy);
    int32_t *found = malloc((size_t)(s->rows * s->columns) * sizeof(*found));
    size_t n = 0;
    if (!r && copy && !found)
        r = attn_fail_fixed(ATTN_NO_MEMORY, "ATTN_CHECK_DATA: out of memory");
    if (!r && copy)
        r = check_range(s, copy, found, &n);
    if (!r && copy && s->written)
        r = check_alone(s, found, n);
    free(found);
    free(copy);
    return r;
}

/* Checks the slots `s`, which an op writes, and the slots `data_in`, which it reads, in a tensor
 * with the given strides. If data_in is NULL, the op reads the slots that it writes. */
static int check_steps(const struct attn_op *op, struct slots s, const int32_t *data_in,
                       int64_t row_stride, int64_t column_stride, void *stream)
{
    s.name = "state_slots";
    s.written = true;
    const int r = check_slots(op->device, &s, stream);
    if (r || !data_in)
        return r;
    s.name = "state_slots_in";
    s.data = data_in;
    s.row_stride = row_stride;
    s.column_stride = column_stride;
    s.written = false;
    return check_slots(op->device, &s, stream);
}

/* The draft tokens of a call and the tree that they form. */
struct drafts {
    /* in device memory; cu_seqlens NULL: each sequence has max_seqlen drafts */
    const int32_t *parents, *cu_seqlens;
    int32_t batch, max_seqlen; /* number of sequences; most drafts of a sequence */
    bool tree;                 /* false: a chain, whose `parents` are not read */
};

/* Initialises struct drafts from the arguments `a` of a call of op family `family`. */
#define DRAFTS_OF(op, a, family)                                                 \
    ((struct drafts){(a)->parents, (a)->cu_seqlens, (a)->batch, (a)->max_seqlen, \
                     (op)->desc.family.tree})

/* Checks the parents of a sequence's `count` drafts: each is an earlier draft. The first draft is
 * the root and has no parent. */
static int check_sequence(const int32_t *parents, int32_t sequence, int32_t count)
{
    for (int32_t t = 1; t < count; t++)
        if (parents[t] < 0 || parents[t] >= t)
            return attn_fail(ATTN_BAD_DATA, "parents of token %d of sequence %d is %d, not 0 to %d",
                             t, sequence, parents[t], t - 1);
    return ATTN_OK;
}

/* Checks, if the drafts form a tree, that the parent of each draft is an earlier draft of its
 * sequence. */
static int check_parents(const struct attn_op *op, const struct drafts *d, void *stream)
{
    void *starts = NULL, *parents = NULL;
    if (!d->tree)
        return ATTN_OK;
    int r = ATTN_OK;
    if (d->cu_seqlens)
        r = attn_read_back(op->device, d->cu_seqlens, ((size_t)d->batch + 1) * sizeof(int32_t),
                           stream, &starts);
    const int32_t *const cu = starts;
    const int64_t rows = cu ? cu[d->batch] : (int64_t)d->batch * d->max_seqlen;
    if (!r && (cu || !d->cu_seqlens))
        r = attn_read_back(op->device, d->parents, (size_t)rows * sizeof(int32_t), stream,
                           &parents);
    const int32_t *const all = parents;
    for (int32_t i = 0; !r && all && i < d->batch; i++) {
        const int64_t start = cu ? cu[i] : (int64_t)i * d->max_seqlen;
        r = check_sequence(&all[start], i, cu ? cu[i + 1] - cu[i] : d->max_seqlen);
    }
    free(parents);
    free(starts);
    return r;
}

/* Initialises struct slots from the arguments `a` of a call that writes a state after each of
 * several steps. */
#define SLOTS_OF(a)                                                 \
    ((struct slots){.data = (a)->state_slots,                       \
                    .rows = (a)->batch,                             \
                    .columns = (a)->state_steps,                    \
                    .row_stride = (a)->state_slots_sequence_stride, \
                    .column_stride = (a)->state_slots_step_stride,  \
                    .first = (a)->first_slot,                       \
                    .count = (a)->state_slot_count})

int attn_gated_delta_check_slots(const struct attn_op *op, const struct attn_gated_delta_args *a)
{
    const struct drafts drafts = DRAFTS_OF(op, a, gated_delta);
    const int r = check_parents(op, &drafts, a->stream);
    return r ? r
             : check_steps(op, SLOTS_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride,
                           a->state_slots_in_step_stride, a->stream);
}

int attn_ssd_check_slots(const struct attn_op *op, const struct attn_ssd_args *a)
{
    const struct drafts drafts = DRAFTS_OF(op, a, ssd);
    const int r = check_parents(op, &drafts, a->stream);
    return r ? r
             : check_steps(op, SLOTS_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride,
                           a->state_slots_in_step_stride, a->stream);
}

int attn_selective_scan_check_slots(const struct attn_op *op,
                                    const struct attn_selective_scan_args *a)
{
    return check_steps(op, SLOTS_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride,
                       a->state_slots_in_step_stride, a->stream);
}

/* Like SLOTS_OF(), for a call that writes one state of each sequence. */
#define SLOT_LIST_OF(a)                                             \
    ((struct slots){.data = (a)->state_slots,                       \
                    .rows = (a)->batch,                             \
                    .columns = 1,                                   \
                    .row_stride = (a)->state_slots_sequence_stride, \
                    .first = (a)->first_slot,                       \
                    .count = (a)->state_slot_count})

/* Initialises struct slots with the slots of a prefix cache: one for each block of tokens of each
 * sequence. */
#define BLOCK_SLOTS_OF(a)                                           \
    ((struct slots){.name = "block_slots",                          \
                    .data = (a)->block_slots,                       \
                    .rows = (a)->batch,                             \
                    .columns = (a)->block_columns,                  \
                    .row_stride = (a)->block_slots_sequence_stride, \
                    .column_stride = (a)->block_slots_block_stride, \
                    .first = (a)->first_slot,                       \
                    .count = (a)->state_slot_count,                 \
                    .written = true})

/* Checks the slots of an op on prompts: `own`, one for each sequence, and `blocks`, if the call has
 * any. `data_in` has the slots to read, `stride_in` entries apart; NULL: the slots in `own`. */
static int check_prompts(const struct attn_op *op, struct slots own, const int32_t *data_in,
                         int64_t stride_in, struct slots blocks, void *stream)
{
    const int r = check_steps(op, own, data_in, stride_in, 1, stream);
    return r || !blocks.data || !blocks.columns ? r : check_slots(op->device, &blocks, stream);
}

int attn_conv1d_check_slots(const struct attn_op *op, const struct attn_conv1d_args *a)
{
    const struct drafts drafts = DRAFTS_OF(op, a, conv1d);
    const int r = check_parents(op, &drafts, a->stream);
    return r ? r
             : check_prompts(op, SLOT_LIST_OF(a), a->state_slots_in,
                             a->state_slots_in_sequence_stride, BLOCK_SLOTS_OF(a), a->stream);
}

int attn_compress_check_slots(const struct attn_op *op, const struct attn_compress_args *a)
{
    return check_steps(op, SLOT_LIST_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride, 1,
                       a->stream);
}

int attn_ssd_prefill_check_slots(const struct attn_op *op, const struct attn_ssd_prefill_args *a)
{
    return check_prompts(op, SLOT_LIST_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride,
                         BLOCK_SLOTS_OF(a), a->stream);
}

int attn_gated_delta_prefill_check_slots(const struct attn_op *op,
                                         const struct attn_gated_delta_prefill_args *a)
{
    return check_prompts(op, SLOT_LIST_OF(a), a->state_slots_in, a->state_slots_in_sequence_stride,
                         BLOCK_SLOTS_OF(a), a->stream);
}

int attn_gated_delta_step_check_slots(const struct attn_op *op,
                                      const struct attn_gated_delta_step_args *a)
{
    struct slots own = SLOT_LIST_OF(a);
    if (op->desc.gated_delta_step.drafts) {
        own.columns = a->state_steps;
        own.column_stride = a->state_slots_step_stride;
    }
    return check_steps(op, own, a->state_slots_in, a->state_slots_in_sequence_stride,
                       a->state_slots_in_step_stride, a->stream);
}

/* Checks a span of state_copy: bytes span[2] at byte offset span[i]. Both are multiples of 16, the
 * bytes are at most `most`, and the span ends within `room` bytes; room 0: not known. */
static int check_span(const int64_t *span, int64_t i, int64_t room, int64_t most)
{
    const int64_t bytes = span[2], at = span[i];
    if (at % 16 || bytes % 16)
        return attn_fail_fixed(ATTN_BAD_DATA, "spans has a number that is no multiple of 16");
    if (bytes > most)
        return attn_fail(ATTN_BAD_DATA, "spans has %lld bytes, max_bytes is %lld", (long long)bytes,
                         (long long)most);
    if (room && (at > room || bytes > room - at))
        return attn_fail(ATTN_BAD_DATA, "spans has %lld bytes at %lld, there are %lld",
                         (long long)bytes, (long long)at, (long long)room);
    return ATTN_OK;
}

int attn_state_copy_check_spans(const struct attn_op *op, const struct attn_state_copy_args *a)
{
    const int64_t room[] = {a->source ? a->source_bytes : 0, a->target ? a->target_bytes : 0};
    void *copy;
    int r = attn_read_back(op->device, a->spans, (size_t)a->span_count * 3 * sizeof(int64_t),
                           a->stream, &copy);
    const int64_t *span = copy;
    for (int64_t i = 0; !r && copy && i < a->span_count; i++, span += 3)
        for (int k = 0; !r && k < 2; k++)
            if (span[0] >= 0 && span[1] >= 0 && span[2] >= 0)
                r = check_span(span, k, room[k], a->max_bytes);
    free(copy);
    return r;
}

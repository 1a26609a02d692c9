/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the metadata family: arrays that attention reads, made of lengths and pages. */
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

enum { PAGE_SIZE_MAX = 65536 };

static int normalise(const void *given, union attn_desc *out)
{
    const struct attn_metadata_desc *d = given;
    if ((unsigned)d->kind > ATTN_METADATA_DRAFT_SLOTS)
        return attn_fail(ATTN_BAD_ARGUMENT, "metadata: kind %d is none of enum attn_metadata",
                         (int)d->kind);
    out->metadata = *d;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    static const char *const kinds[] = {"indptr", "kv_indices", "page_table", "last_page_len",
                                        "draft_slots"};
    attn_key_add(key, "metadata", kinds[desc->metadata.kind]);
}

static bool copies(enum attn_metadata kind)
{
    return kind == ATTN_METADATA_KV_INDICES || kind == ATTN_METADATA_PAGE_TABLE;
}

static int check_counts(enum attn_metadata kind, const struct attn_metadata_args *a)
{
    if (a->batch < 0 || a->entries < 0 || a->advance < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: a negative count");
    if (a->page_size < 1 || a->page_size > PAGE_SIZE_MAX || a->page_size & (a->page_size - 1))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: page_size is not a power of two of "
                                                  "at most 65536");
    if (copies(kind) && a->entries > PAGE_SIZE_MAX * 256)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: entries is above 2^24");
    return ATTN_OK;
}

/* What the kind reads and writes. */
static int check_pointers(enum attn_metadata kind, const struct attn_metadata_args *a)
{
    if (kind != ATTN_METADATA_KV_INDICES && !a->kv_lens)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: kv_lens is NULL");
    if (kind <= ATTN_METADATA_KV_INDICES && !a->kv_indptr)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: kv_indptr is NULL");
    if ((copies(kind) || kind == ATTN_METADATA_DRAFT_SLOTS) && !a->block_table)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: block_table is NULL");
    if (kind == ATTN_METADATA_KV_INDICES && !a->kv_indices)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: kv_indices is NULL");
    if (kind == ATTN_METADATA_PAGE_TABLE && !a->page_table)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: page_table is NULL");
    if (kind == ATTN_METADATA_LAST_PAGE_LEN && !a->last_page_lens)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: last_page_lens is NULL");
    if (kind == ATTN_METADATA_DRAFT_SLOTS && !a->slot_mapping)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: slot_mapping is NULL");
    if (kind == ATTN_METADATA_DRAFT_SLOTS && a->table_of_slots)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "metadata: draft slots need page numbers, not "
                                                  "table_of_slots");
    return ATTN_OK;
}

static void set_values(const struct attn_metadata_args *a, union attn_value *v)
{
    const int shift = __builtin_ctz((unsigned)a->page_size);
    v[ATTN_ARG_KV_LENS].ptr = a->kv_lens;
    v[ATTN_ARG_BLOCK_TABLE].ptr = a->block_table;
    v[ATTN_ARG_REQUEST_ROWS].ptr = a->request_rows;
    v[ATTN_ARG_KV_START].ptr = a->kv_start;
    v[ATTN_ARG_KV_INDPTR].ptr = a->kv_indptr;
    v[ATTN_ARG_KV_INDICES].ptr = a->kv_indices;
    v[ATTN_ARG_PAGE_TABLE].ptr = a->page_table;
    v[ATTN_ARG_LAST_PAGE_LENS].ptr = a->last_page_lens;
    v[ATTN_ARG_SLOT_MAPPING].ptr = a->slot_mapping;
    v[ATTN_ARG_POSITIONS].ptr = a->positions;
    v[ATTN_ARG_BLOCK_TABLE_STRIDE].i64 = a->block_table_stride;
    v[ATTN_ARG_PAGE_TABLE_STRIDE].i64 = a->page_table_stride ? a->page_table_stride : a->entries;
    v[ATTN_ARG_BATCH].i64 = a->batch;
    v[ATTN_ARG_PAGE_SHIFT].i64 = shift;
    v[ATTN_ARG_ENTRIES].i64 = a->entries;
    v[ATTN_ARG_ENTRY_STEP].i64 = a->table_of_slots ? a->page_size : 1;
    v[ATTN_ARG_ENTRY_SHIFT].i64 = a->table_of_slots ? shift : 0;
    v[ATTN_ARG_ADVANCE].i64 = a->advance;
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const enum attn_metadata kind = desc->metadata.kind;
    const struct attn_metadata_args *a = args;
    int r = check_counts(kind, a);
    if (r)
        return r;
    call->stream = a->stream;
    /* An indptr has an entry even then. */
    call->empty =
        (a->batch == 0 && kind != ATTN_METADATA_INDPTR) || (a->entries == 0 && copies(kind));
    if (call->empty)
        return ATTN_OK;
    r = check_pointers(kind, a);
    if (r)
        return r;
    set_values(a, call->values);
    return ATTN_OK;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_metadata_args *a = args;
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

const struct attn_family attn_family_metadata = {
    .op = "metadata",
    .desc_size = sizeof(struct attn_metadata_desc),
    .args_size = sizeof(struct attn_metadata_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_SETS(KV_LENS),
            ATTN_SETS(BLOCK_TABLE),
            ATTN_SETS(BLOCK_TABLE_STRIDE),
            ATTN_SETS(REQUEST_ROWS),
            ATTN_SETS(KV_START),
            ATTN_SETS(KV_INDPTR),
            ATTN_SETS(KV_INDICES),
            ATTN_SETS(PAGE_TABLE),
            ATTN_SETS(PAGE_TABLE_STRIDE),
            ATTN_SETS(LAST_PAGE_LENS),
            ATTN_SETS(SLOT_MAPPING),
            ATTN_SETS(POSITIONS),
            ATTN_SETS(BATCH),
            ATTN_SETS(PAGE_SHIFT),
            ATTN_SETS(ENTRIES),
            ATTN_SETS(ENTRY_STEP),
            ATTN_SETS(ENTRY_SHIFT),
            ATTN_SETS(ADVANCE),
        },
};

ATTN_PUBLIC int attn_metadata_lookup(struct attn_device *device,
                                     const struct attn_metadata_desc *desc, struct attn_op **op)
{
    return attn_lookup(device, &attn_family_metadata, desc, op);
}

ATTN_PUBLIC int attn_metadata_launch(const struct attn_op *op,
                                     const struct attn_metadata_args *args)
{
    return attn_launch(op, &attn_family_metadata, args);
}

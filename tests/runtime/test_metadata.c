/* SPDX-License-Identifier: Apache-2.0 */
/* Tests libattn's messages for wrong metadata calls, and the values of correct ones. Only the
 * family's functions run, no kernel. */
#include <stdlib.h>
#include <string.h>

#include "runtime/family.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static int32_t memory[16];
static int64_t wide[16];

static struct attn_metadata_args metadata_args(void)
{
    int32_t *m = memory;
    return (struct attn_metadata_args){
        .size = sizeof(struct attn_metadata_args),
        .kv_lens = m,
        .block_table = m,
        .kv_indptr = m,
        .kv_indices = m,
        .page_table = m,
        .last_page_lens = m,
        .slot_mapping = wide,
        .block_table_stride = 40,
        .batch = 3,
        .page_size = 64,
        .entries = 10,
        .advance = 1,
    };
}

static int fill(enum attn_metadata kind, const struct attn_metadata_args *a, struct attn_call *call)
{
    const struct attn_metadata_desc d = {.size = sizeof(d), .kind = kind};
    union attn_desc desc;
    assert_int_equal(attn_family_metadata.normalise(&d, &desc), ATTN_OK);
    return attn_family_metadata.fill(&desc, a, call);
}

static void fails(enum attn_metadata kind, const struct attn_metadata_args *a, const char *text)
{
    struct attn_call call;
    assert_int_equal(fill(kind, a, &call), ATTN_BAD_ARGUMENT);
    says(text);
}

TEST(unknown_kinds_are_refused)
{
    const struct attn_metadata_desc d = {.size = sizeof(d), .kind = 5};
    union attn_desc desc;
    assert_int_equal(attn_family_metadata.normalise(&d, &desc), ATTN_BAD_ARGUMENT);
    says("kind 5 is none of enum attn_metadata");
}

TEST(pointers_that_are_needed_are_named)
{
    static const struct {
        enum attn_metadata kind;
        size_t pointer;
        const char *name;
    } needed[] = {
#define P(member) offsetof(struct attn_metadata_args, member), #member " is NULL"
        {ATTN_METADATA_INDPTR, P(kv_lens)},
        {ATTN_METADATA_INDPTR, P(kv_indptr)},
        {ATTN_METADATA_KV_INDICES, P(kv_indptr)},
        {ATTN_METADATA_KV_INDICES, P(block_table)},
        {ATTN_METADATA_KV_INDICES, P(kv_indices)},
        {ATTN_METADATA_PAGE_TABLE, P(kv_lens)},
        {ATTN_METADATA_PAGE_TABLE, P(block_table)},
        {ATTN_METADATA_PAGE_TABLE, P(page_table)},
        {ATTN_METADATA_LAST_PAGE_LEN, P(kv_lens)},
        {ATTN_METADATA_LAST_PAGE_LEN, P(last_page_lens)},
        {ATTN_METADATA_DRAFT_SLOTS, P(kv_lens)},
        {ATTN_METADATA_DRAFT_SLOTS, P(block_table)},
        {ATTN_METADATA_DRAFT_SLOTS, P(slot_mapping)},
#undef P
    };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        struct attn_metadata_args a = metadata_args();
        memset((char *)&a + needed[i].pointer, 0, sizeof(void *));
        fails(needed[i].kind, &a, needed[i].name);
    }
}

TEST(counts_are_checked)
{
    struct attn_metadata_args a = metadata_args();
    a.batch = -1;
    fails(ATTN_METADATA_INDPTR, &a, "batch is not 0 to 134217728");
    a.batch = (1 << 27) + 1; /* above the limit that keeps byte offsets below 2^31 */
    fails(ATTN_METADATA_INDPTR, &a, "batch is not 0 to 134217728");
    a = metadata_args();
    a.page_size = 65537;
    fails(ATTN_METADATA_LAST_PAGE_LEN, &a, "page_size is not 1 to 65536");
    a = metadata_args();
    a.entries = (1 << 24) + 1;
    fails(ATTN_METADATA_PAGE_TABLE, &a, "entries is not 0 to 16777216");
    a = metadata_args();
    a.table_of_slots = true;
    fails(ATTN_METADATA_DRAFT_SLOTS, &a, "draft slots need page numbers");
}

TEST(a_table_of_slots_is_read_page_by_page)
{
    struct attn_metadata_args a = metadata_args();
    struct attn_call call;
    a.table_of_slots = true;
    assert_int_equal(fill(ATTN_METADATA_PAGE_TABLE, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_ENTRY_STEP].i64, 64);
    assert_int_equal(call.values[ATTN_ARG_ENTRY_DIVISOR].i64, 64);
    assert_int_equal(call.values[ATTN_ARG_PAGE_TABLE_STRIDE].i64, 10);
    a.table_of_slots = false;
    assert_int_equal(fill(ATTN_METADATA_KV_INDICES, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_ENTRY_STEP].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_ENTRY_DIVISOR].i64, 1);
}

/* Without sequences an indptr still has its first element, 0. */
TEST(empty_batches_need_no_pointers)
{
    const struct attn_metadata_args none = {.size = sizeof(none), .page_size = 16};
    struct attn_metadata_args a = metadata_args();
    struct attn_call call;
    assert_int_equal(fill(ATTN_METADATA_DRAFT_SLOTS, &none, &call), ATTN_OK);
    assert_true(call.empty);
    a.batch = 0;
    assert_int_equal(fill(ATTN_METADATA_INDPTR, &a, &call), ATTN_OK);
    assert_false(call.empty);
    a = metadata_args();
    a.entries = 0;
    assert_int_equal(fill(ATTN_METADATA_KV_INDICES, &a, &call), ATTN_OK);
    assert_true(call.empty);
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures an engine's work before the layers of a decode step into one HIP graph on the simulator:
 * lengths that grow by a token, the slot of that token, indptr, page numbers, last page lengths,
 * and the work lists. Each launch reads what earlier ones wrote. Every replay is compared with the
 * host's planner and the reference. Arguments: the simulator's HIP library, a pack of the kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/graph.h"
#include "tests/unit_test.h"
#include "tools/verify/numbers.h"
#include "tools/reference/metadata.h"

enum {
    BATCH = 9,
    PAGE = 16,
    ENTRIES = 40,
    LONGEST = ENTRIES * PAGE,
    LISTS = 48,
    KV_HEADS = 3,
    HEADS = 12,
    REPLAYS = 60,
    ITEMS = (BATCH + LISTS / KV_HEADS - 1) * KV_HEADS,
    PARTIALS = 2 * (LISTS / KV_HEADS - 1),
};

static const struct attn_decode_plan_shape shape = {
    .size = sizeof(shape),
    .batch = BATCH,
    .q_len = 1,
    .heads = HEADS,
    .kv_heads = KV_HEADS,
    .lists = LISTS,
};

/* The device memory of the test. A copy of this struct on the host has the expected contents. */
struct step {
    int32_t kv_lens[BATCH], table[BATCH * ENTRIES], kv_indptr[BATCH + 1];
    int32_t kv_indices[BATCH * ENTRIES], last_page_lens[BATCH];
    int64_t slots[BATCH];
    int32_t work_indptr[LISTS + 1];
    _Alignas(16) int32_t work_info[8 * ITEMS];
    int32_t reduce_indptr[BATCH + 1], final_map[2 * BATCH], partial_map[PARTIALS];
};

static struct attn_decode_plan plan_of(struct step *s)
{
    return (struct attn_decode_plan){
        .work_indptr = s->work_indptr,
        .work_info = s->work_info,
        .reduce_indptr = s->reduce_indptr,
        .reduce_final_map = s->final_map,
        .reduce_partial_map = s->partial_map,
    };
}

/* Returns the arguments; `d` is on the device. */
static struct attn_metadata_args metadata_of(struct step *d, void *stream)
{
    return (struct attn_metadata_args){
        .size = sizeof(struct attn_metadata_args),
        .kv_lens = d->kv_lens,
        .block_table = d->table,
        .kv_indptr = d->kv_indptr,
        .kv_indices = d->kv_indices,
        .last_page_lens = d->last_page_lens,
        .slot_mapping = d->slots,
        .block_table_stride = ENTRIES,
        .batch = BATCH,
        .page_size = PAGE,
        .entries = ENTRIES,
        .advance = 1,
        .stream = stream,
    };
}

enum { N_KINDS = 4 };
static const enum attn_metadata kinds[N_KINDS] = {
    ATTN_METADATA_DRAFT_SLOTS,
    ATTN_METADATA_INDPTR,
    ATTN_METADATA_KV_INDICES,
    ATTN_METADATA_LAST_PAGE_LEN,
};

static void *capture(struct attn_op *const *ops, struct step *d, void *stream)
{
    const struct attn_metadata_args metadata = metadata_of(d, stream);
    const struct attn_plan_args plan = {
        .size = sizeof(plan),
        .shape = shape,
        .plan = plan_of(d),
        .stream = stream,
        .lengths = {.kv_lens = d->kv_lens},
    };
    graph_capture(stream);
    for (int i = 0; i < N_KINDS; i++)
        assert_int_equal(attn_metadata_launch(ops[i], &metadata), ATTN_OK);
    assert_int_equal(attn_plan_launch(ops[N_KINDS], &plan), ATTN_OK);
    return graph_captured(stream);
}

/* Computes the contents of memory after the next replay from the current ones. */
static void expect(struct step *s)
{
    int32_t before[BATCH];
    memcpy(before, s->kv_lens, sizeof(before));
    struct ref_metadata r = {
        .batch = BATCH,
        .page_size = PAGE,
        .advance = 1,
        .kv_lens = before,
        .table = s->table,
        .stride = ENTRIES,
    };
    for (int b = 0; b < BATCH; b++) {
        s->slots[b] = ref_metadata_slot(&r, b);
        s->kv_lens[b] = ref_metadata_length(&r, b);
    }
    r.kv_lens = s->kv_lens;
    for (int b = 0; b < BATCH; b++) {
        s->kv_indptr[b] = ref_metadata_indptr(&r, b);
        s->kv_indptr[b + 1] = ref_metadata_indptr(&r, b + 1);
        s->last_page_lens[b] = ref_metadata_last_page_len(&r, b);
        for (int i = 0; i < s->kv_indptr[b + 1] - s->kv_indptr[b]; i++)
            s->kv_indices[s->kv_indptr[b] + i] = ref_metadata_page(&r, b, i);
    }
    const struct attn_decode_plan_lengths lengths = {.kv_lens = s->kv_lens};
    const struct attn_decode_plan plan = plan_of(s);
    assert_int_equal(attn_decode_plan(&shape, &lengths, &plan), ATTN_OK);
}

static void compare(const struct step *got, const struct step *expected)
{
#define SAME(member) assert_memory_equal(got->member, expected->member, sizeof(got->member))
    SAME(kv_lens);
    SAME(slots);
    SAME(kv_indptr);
    SAME(kv_indices);
    SAME(last_page_lens);
    SAME(work_indptr);
    SAME(work_info);
    SAME(reduce_indptr);
    SAME(final_map);
    SAME(partial_map);
#undef SAME
}

/* Changes to another batch with padding, and pages in another order. */
static void change(struct step *s, uint64_t *random)
{
    for (int b = 0; b < BATCH; b++)
        s->kv_lens[b] = b % 4 == 3 ? 0 : 1 + (int32_t)(random_bits(random) % (LONGEST / 2));
    for (int i = 0; i < BATCH * ENTRIES; i++)
        s->table[i] = (int32_t)(random_bits(random) % 100000);
}

static void replay(void *exec, void *stream, struct step *d)
{
    static struct step expected, got;
    uint64_t random = 11;
    memset(&expected, 0x3c, sizeof(expected));
    for (int i = 0; i < REPLAYS; i++) {
        if (i % 20 == 0)
            change(&expected, &random);
        /* The host's copy also supplies the initial contents of memory that is not written. */
        assert_int_equal(hip.hipMemcpy(d, &expected, sizeof(*d), HIP_TO_DEVICE), 0);
        expect(&expected);
        graph_replay(exec, stream);
        assert_int_equal(hip.hipMemcpy(&got, d, sizeof(got), HIP_TO_HOST), 0);
        compare(&got, &expected);
    }
}

TEST(a_captured_step_follows_its_lengths)
{
    struct attn_op *ops[N_KINDS + 1];
    struct graph_bench g = graph_open(0);
    for (int i = 0; i < N_KINDS; i++) {
        const struct attn_metadata_desc d = {.size = sizeof(d), .kind = kinds[i]};
        assert_int_equal(attn_metadata_lookup(g.device, &d, &ops[i]), ATTN_OK);
    }
    const struct attn_plan_desc plan = {.size = sizeof(plan)};
    assert_int_equal(attn_plan_lookup(g.device, &plan, &ops[N_KINDS]), ATTN_OK);
    void *memory;
    assert_int_equal(hip.hipMalloc(&memory, sizeof(struct step)), 0);
    void *exec = capture(ops, memory, g.stream);
    replay(exec, g.stream, memory);
    hip.hipFree(memory);
    for (int i = 0; i <= N_KINDS; i++)
        attn_op_destroy(ops[i]);
    graph_close(&g, exec);
}

int main(int argc, char **argv)
{
    if (!graph_begin(argc, argv))
        return 2;
    return run_unit_tests();
}

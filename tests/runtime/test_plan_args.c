/* SPDX-License-Identifier: Apache-2.0 */
/* Tests libattn's messages for wrong plan calls, and the values of correct ones. Only the family's
 * functions run, no kernel. */
#include <stdlib.h>
#include <string.h>

#include "runtime/family.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static _Alignas(16) int32_t memory[16];

static struct attn_plan_args plan_args(void)
{
    int32_t *m = memory;
    return (struct attn_plan_args){
        .size = sizeof(struct attn_plan_args),
        .shape = {.size = sizeof(struct attn_decode_plan_shape),
                  .batch = 5,
                  .q_len = 2,
                  .heads = 24,
                  .kv_heads = 4,
                  .lists = 304},
        .lengths = {.kv_lens = m},
        .plan = {m, m, m, m, m},
    };
}

static int fill(const struct attn_plan_args *a, struct attn_call *call)
{
    const union attn_desc desc = {.plan = {.size = sizeof(struct attn_plan_desc)}};
    return attn_family_plan.fill(&desc, a, call);
}

static void fails(const struct attn_plan_args *a, const char *text)
{
    struct attn_call call;
    refused(fill(a, &call), ATTN_BAD_ARGUMENT, text);
}

TEST(bad_shapes_are_refused)
{
    struct attn_plan_args a = plan_args();
    a.shape.size = 4;
    fails(&a, "shape->size");
    a = plan_args();
    a.shape.heads = 25;
    fails(&a, "25 heads are not a multiple of 4 kv_heads");
    a = plan_args();
    a.shape.lists = 0;
    fails(&a, "lists 0");
    a = plan_args();
    a.shape.lists = 4 * 65472;
    fails(&a, "more than 65471 lists for a kv head");
}

TEST(pointers_that_are_needed_are_named)
{
    struct attn_plan_args a = plan_args();
    a.lengths.kv_lens = NULL;
    fails(&a, "kv_lens is NULL");
    a = plan_args();
    a.plan.work_info = memory + 1;
    fails(&a, "work_info is not aligned to 16 bytes");
    for (int i = 0; i < 4; i++) {
        a = plan_args();
        int32_t **const tensors[] = {&a.plan.work_indptr, &a.plan.reduce_indptr,
                                     &a.plan.reduce_final_map, &a.plan.reduce_partial_map};
        *tensors[i] = NULL;
        fails(&a, "is NULL");
    }
}

TEST(values_are_those_of_the_definition)
{
    struct attn_plan_args a = plan_args();
    struct attn_call call;
    assert_int_equal(fill(&a, &call), ATTN_OK);
    assert_false(call.empty);
    assert_int_equal(call.values[ATTN_ARG_PARTS].i64, 76);
    assert_int_equal(call.values[ATTN_ARG_PAIRS_PER_LIST].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_GQA].i64, 6);
    assert_int_equal(call.values[ATTN_ARG_REACH].i64, INT32_MAX);
    assert_int_equal(call.values[ATTN_ARG_ITEM_COST].i64, 2);
    assert_int_equal(call.values[ATTN_ARG_MERGE_RATE].i64, 4);
    a.shape.item_cost = 7;
    a.shape.merge_rate = 9;
    a.shape.window = 128;
    assert_int_equal(fill(&a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_ITEM_COST].i64, 7);
    assert_int_equal(call.values[ATTN_ARG_MERGE_RATE].i64, 9);
    assert_int_equal(call.values[ATTN_ARG_REACH].i64, 129);
    a.shape.window = INT32_MAX;
    assert_int_equal(fill(&a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_REACH].i64, INT32_MAX);
    a.shape.lists = 3; /* fewer than heads */
    assert_int_equal(fill(&a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_PARTS].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_PAIRS_PER_LIST].i64, 2);
    a.shape.batch = 0;
    assert_int_equal(fill(&a, &call), ATTN_OK);
    assert_true(call.empty);
}

int main(void) { return run_unit_tests(); }

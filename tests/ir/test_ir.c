/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests functions of the IR, changes to them, and the builder.
 */
#include "ir/builder.h"
#include "ir/passes.h"
#include "tests/unit_test.h"

#include <string.h>

static const struct tir_machine no_machine = {.name = "test"};

TEST(op_pointers_stay_good_while_ops_are_added)
{
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    const struct tir_value first = tir_i32(&b, 42);
    const struct tir_op *const op = tir_op(f, f->values[first.id].def);
    for (int i = 0; i < 5000; i++)
        tir_i32(&b, i);
    assert_ptr_equal(op, tir_op(f, f->values[first.id].def));
    assert_int_equal(op->imm[0], 42);
    assert_int_equal(f->body->n_ops, 5001);
    for (uint32_t i = 1; i <= 5000; i++)
        assert_int_equal(tir_op(f, f->body->ops[i])->imm[0], i - 1);
    tir_func_destroy(f);
}

TEST(args_are_laid_out_naturally_aligned_and_found_by_name)
{
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    tir_arg(&b, "n", TIR_I32);
    tir_arg(&b, "q", TIR_I64);
    tir_arg(&b, "n", TIR_I32);
    tir_arg(&b, "scale", TIR_F32);
    assert_int_equal(f->n_args, 3);
    assert_int_equal(f->args[0].offset, 0);
    assert_int_equal(f->args[1].offset, 8);
    assert_int_equal(f->args[2].offset, 16);
    tir_func_destroy(f);
}

TEST(for_turns_carried_values_into_params_and_then_results)
{
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_value sum = tir_i32(&b, 0);
    struct tir_loop loop =
        tir_begin_for(&b, tir_i32(&b, 0), tir_i32(&b, 10), tir_i32(&b, 1), &sum, 1);
    const struct tir_block *const body = tir_op(f, loop.op)->blocks[0];
    assert_int_equal(sum.id, body->params[1].id);
    sum = tir_add(&b, sum, loop.index);
    tir_end_for(&b, &loop, &sum, 1);
    assert_int_equal(sum.id, tir_op(f, loop.op)->result.id);
    assert_ptr_equal(b.block, f->body);
    assert_int_equal(tir_op(f, body->ops[body->n_ops - 1])->opcode, TIR_yield);
    tir_func_destroy(f);
}

TEST(if_without_results_may_leave_out_its_else)
{
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_if s = tir_begin_if(&b, tir_bool(&b, true), true, NULL, 0);
    tir_barrier(&b);
    tir_end_if(&b, &s, NULL);
    const struct tir_op *const op = tir_op(f, s.op);
    assert_int_equal(op->blocks[0]->n_ops, 2);
    assert_int_equal(op->blocks[1]->n_ops, 1);
    assert_int_equal(op->imm[0], 1);
    tir_func_destroy(f);
}

/* A loop and a branch have three results each. Only the middle one of the branch is read, which is
 * made of the middle one of the loop. */
TEST(dead_results_are_dropped)
{
    enum { ALL = 3, READ = 1 };
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_value sum[ALL], out[ALL];
    struct tir_type types[ALL];
    for (int i = 0; i < ALL; i++) {
        sum[i] = tir_i32(&b, i);
        types[i] = tir_scalar(TIR_I32);
    }
    struct tir_loop loop =
        tir_begin_for(&b, tir_i32(&b, 0), tir_i32(&b, 10), tir_i32(&b, 1), sum, ALL);
    for (int i = 0; i < ALL; i++)
        sum[i] = tir_add(&b, sum[i], loop.index);
    tir_end_for(&b, &loop, sum, ALL);
    struct tir_if branch = tir_begin_if(&b, tir_bool(&b, true), false, types, ALL);
    for (int i = 0; i < ALL; i++)
        out[i] = tir_add(&b, sum[READ], tir_i32(&b, i));
    tir_else(&b, &branch, out);
    for (int i = 0; i < ALL; i++)
        out[i] = sum[READ];
    tir_end_if(&b, &branch, out);
    tir_anchor_all(&b, &out[READ], 1);

    assert_true(tir_opt_dce(f, NULL));
    const struct tir_op *const is_loop = tir_op(f, loop.op), *const is_if = tir_op(f, branch.op);
    const struct tir_block *const body = is_loop->blocks[0];
    assert_int_equal(is_loop->n_results, 1);
    assert_int_equal(is_loop->n_operands, 3 + 1);
    assert_int_equal(body->n_params, 1 + 1);
    assert_int_equal(tir_op(f, body->ops[body->n_ops - 1])->n_operands, 1);
    assert_int_equal(is_if->n_results, 1);
    for (int side = 0; side < 2; side++) {
        const struct tir_block *const block = is_if->blocks[side];
        assert_int_equal(tir_op(f, block->ops[block->n_ops - 1])->n_operands, 1);
    }
    assert_int_equal(tir_op(f, f->body->ops[f->body->n_ops - 1])->operands[0].id, is_if->result.id);
    assert_false(tir_opt_dce(f, NULL));
    tir_func_destroy(f);
}

TEST(insertion_keeps_the_order_of_the_cursor)
{
    struct tir_func *const f = tir_func_create("f", &no_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    tir_i32(&b, 1);
    tir_i32(&b, 4);
    b.at = 1;
    tir_i32(&b, 2);
    tir_i32(&b, 3);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(tir_op(f, f->body->ops[i])->imm[0], i + 1);
    tir_remove(f->body, 1);
    assert_int_equal(f->body->n_ops, 3);
    assert_int_equal(tir_op(f, f->body->ops[1])->imm[0], 3);
    tir_func_destroy(f);
}

TEST(packed_types_come_back)
{
    const struct tir_type t = {
        .kind = TIR_TILE, .dtype = TIR_BF16, .rows = 64, .cols = 32768, .layout = 77};
    assert_true(tir_type_equal(t, tir_unpack_type(tir_pack_type(t))));
}

int main(void) { return run_unit_tests(); }

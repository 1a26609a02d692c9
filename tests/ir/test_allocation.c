/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the builder without memory. tir_func_create() returns NULL. Later allocations that fail
 * call tir_out_of_memory, which must not return.
 */
#include "tests/ir/fixture.h"

/* number of the allocation that fails, from 0; -1: none */
static int fails_at = -1;
static jmp_buf escape;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    if (fails_at >= 0 && fails_at-- == 0)
        return NULL;
    return __real_calloc(n, size);
}

static void leave(void)
{
    fails_at = -1;
    longjmp(escape, 1);
}

TEST(creation_without_memory_gives_no_function)
{
    struct tir_func *f = NULL;
    int failures = 0;
    for (; !f; failures++) {
        fails_at = failures;
        f = tir_func_create("f", &test_machine, 4);
    }
    fails_at = -1;
    assert_true(failures > 2); /* the arena and its first chunk each failed once */
    tir_func_destroy(f);
}

TEST(building_without_memory_calls_the_hook)
{
    struct tir_func *const f = tir_func_create("f", &test_machine, 4);
    tir_out_of_memory = leave;
    fails_at = 0;
    if (!setjmp(escape)) {
        struct tir_builder b = tir_at_end(f, f->body);
        for (int i = 0; i < 100000; i++)
            tir_i32(&b, i);
        fail_msg("100,000 ops fit into one chunk");
    }
    tir_out_of_memory = NULL;
    fails_at = -1;
    /* The function that was built is complete: it can be read and freed. */
    assert_true(f->body->n_ops > 0);
    for (uint32_t i = 0; i < f->body->n_ops; i++)
        assert_int_equal(tir_op(f, f->body->ops[i])->opcode, TIR_const_int);
    tir_func_destroy(f);
}

TEST(passes_without_scratch_memory_call_the_hook)
{
    struct tir_func *const f = parsed_body("  %0 = arg {index=1} : i32\n"
                                           "  %1 = add %0, %0 : i32\n  return\n");
    tir_out_of_memory = leave;
    fails_at = 0;
    volatile bool returned = true;
    if (!setjmp(escape))
        tir_opt_dce(f, NULL);
    else
        returned = false;
    tir_out_of_memory = NULL;
    assert_false(returned);
    tir_func_destroy(f);
}

int main(void) { return run_unit_tests(); }

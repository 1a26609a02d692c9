/* SPDX-License-Identifier: Apache-2.0
 *
 * The printed form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/builder.h"
#include "ir/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct tir_layout acc32 = {
    .reg_bits = 4,
    .lane_bits = 6,
    .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(8, 0), TIR_RC(16, 0), TIR_RC(0, 1), TIR_RC(0, 2),
              TIR_RC(0, 4), TIR_RC(0, 8), TIR_RC(0, 16), TIR_RC(4, 0)},
};
static const struct tir_mma mma[] = {{.name = "mfma_test", .a = acc32, .b = acc32, .d = acc32}};
static const struct tir_machine machine = {.name = "test", .mma = mma, .n_mma = 1};

static char *printed(const struct tir_func *f)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    tir_print(f, out);
    fclose(out);
    return text;
}

static void print_numbers_by_appearance_and_shows_layouts_once(void **state)
{
    (void)state;
    struct tir_func *const f = tir_func_create("f", &machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_layout unused = acc32;
    unused.basis[0] = 0;
    tir_intern_layout(f, &unused);
    const struct tir_value dropped = tir_i32(&b, 7);
    (void)dropped;
    tir_remove(f->body, 0);
    const struct tir_type t = tir_tile(f, TIR_F32, 32, 32, &acc32);
    struct tir_value acc = tir_named(&b, "acc", tir_splat(&b, tir_f32(&b, 0.5f), t));
    const struct tir_value zero = tir_i32(&b, 0);
    const struct tir_value n = tir_arg(&b, "n", TIR_I32);
    const struct tir_value one = tir_i32(&b, 1);
    struct tir_loop loop = tir_begin_for(&b, zero, n, one, &acc, 1);
    b.stage = 1;
    b.phase = 2;
    acc = tir_mma(&b, 0, acc, acc, acc);
    b.stage = TIR_NO_STAGE;
    b.phase = 0;
    tir_end_for(&b, &loop, &acc, 1);
    tir_row_max(&b, acc);
    tir_return(&b);
    char *const text = printed(f);
    assert_string_equal(
        text,
        "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=tile\n"
        "arg \"n\" : i32 at 0\n"
        "layout #0 = regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #1 = regs(r1 r2 r8 r16) lanes(0 0 0 0 0 r4)\n"
        "{\n"
        "  %0 = const_float {bits=0.5} : f32\n"
        "  %1.acc = splat %0 : tile<32x32, f32, #0>\n"
        "  %2 = const_int {value=0} : i32\n"
        "  %3.n = arg {index=0} : i32\n"
        "  %4 = const_int {value=1} : i32\n"
        "  %5 = for %6 = %2 to %3.n step %4 with (%7.acc = %1.acc) : tile<32x32, f32, #0> {\n"
        "    %8 = mma %7.acc, %7.acc, %7.acc {instr=\"mfma_test\"} : tile<32x32, f32, #0> @1.2\n"
        "    yield %8\n"
        "  }\n"
        "  %9 = row_max %5 : tile<32x1, f32, #1>\n"
        "  return\n"
        "}\n");
    free(text);
    tir_func_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(print_numbers_by_appearance_and_shows_layouts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

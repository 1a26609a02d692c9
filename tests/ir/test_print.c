/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the printed form of functions, and parsing.
 */
#include "tests/ir/fixture.h"

TEST(print_numbers_by_appearance_and_shows_layouts_once)
{
    struct tir_func *const f = tir_func_create("f", &test_machine, 1);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_layout unused = test_machine.mma[0].d;
    unused.basis[0] = 0;
    tir_intern_layout(f, &unused);
    const struct tir_value dropped = tir_i32(&b, 7);
    (void)dropped;
    tir_remove(f->body, 0);
    const struct tir_type t = tir_tile(f, TIR_F32, 32, 32, &test_machine.mma[0].d);
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
        text, "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=tile\n"
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
              "    %8 = mma %7.acc, %7.acc, %7.acc {instr=\"mfma_f32_32x32x8_bf16_1k\"}"
              " : tile<32x32, f32, #0> @1.2\n"
              "    yield %8\n"
              "  }\n"
              "  %9 = row_max %5 : tile<32x1, f32, #1>\n"
              "  return\n"
              "}\n");
    free(text);
    tir_func_destroy(f);
}

TEST(parse_of_every_construct_prints_alike)
{
    static const char whole[] =
        "func \"a\\x22b\\x0a\" machine=\"test\" waves=2 waves_per_simd=1 lds=4096 level=tile\n"
        "arg \"q\" : i64 at 0\n"
        "arg \"n\" : i32 at 8\n"
        "hook \"alibi\"\n"
        "layout #0 = regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 c16 r4) waves(r32)\n"
        "layout #1 = regs(c1 c2 c4 r1+c8 r2+c16) pad(8 per 64)\n"
        "layout #2 = lanes(0 c2 c4 c8 c16 r4) waves(c1)\n"
        "{\n"
        "  %0.q = arg {index=0} : i64\n"
        "  %1.n = arg {index=1} : i32\n"
        "  %2.rsrc = make_rsrc %0.q, %1.n : rsrc\n"
        "  %3 = const_int {value=-9223372036854775808} : i64\n"
        "  %4 = const_float {bits=-0.333333343} : f32\n"
        "  %5 = const_float {bits=0xff800000} : f32\n"
        "  %6 = const_float {bits=-0} : f32\n"
        "  copy_to_lds %2.rsrc, %1.n, %1.n, %1.n, %1.n {group=1, shape=tile<64x32, bf16, #0>, "
        "layout=#1} @0.0\n"
        "  wait {group=-1, pending=0}\n"
        "  %7 = const_int {value=1} : i1\n"
        "  %8, %9 = if %7 {cold} : i32, f32 @-.3 {\n"
        "    yield %1.n, %4\n"
        "  } else {\n"
        "    %10 = const_int {value=-1} : i32 @7.31\n"
        "    yield %10, %5\n"
        "  }\n"
        "  %11 = splat %9 : tile<64x32, f32, #0>\n"
        "  %12 = call_hook %11, %8 {hook=\"alibi\"} : tile<64x32, f32, #0>\n"
        "  %13 = splat %4 : vec<8, f32>\n"
        "  anchor\n"
        "  %14 = splat %4 : tile<2x32, f32, #2>\n"
        "  for %15 = %1.n to %8 step %1.n {\n"
        "    yield\n"
        "  }\n"
        "  return\n"
        "}\n";
    struct tir_func *const f = parsed(whole);
    char *const again = printed(f);
    assert_string_equal(again, whole);
    free(again);
    tir_func_destroy(f);
}

TEST(parse_takes_comments_and_any_numbering)
{
    struct tir_func *const f = parsed(
        "// a comment\nfunc \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=vec\n"
        "{ // another\n  %900.x = const_int {value=3} : i32\n"
        "%5 = add %900.x, %900 : i32\n  return }");
    char *const text = printed(f);
    assert_string_equal(text,
                        "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=vec\n"
                        "{\n"
                        "  %0.x = const_int {value=3} : i32\n"
                        "  %1 = add %0.x, %0.x : i32\n"
                        "  return\n"
                        "}\n");
    free(text);
    tir_func_destroy(f);
}

TEST(parse_points_at_what_is_wrong)
{
#define HEAD "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=tile\n"
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "1:1: expected func"},
        {"func \"f\" machine=\"gfx1\"", "1:24: function for gfx1, not for test"},
        {HEAD "{ %0 = add %1, %1 : i32 }", "2:14: %1 is not defined before this"},
        {HEAD "{ %0 = const_int {value=1} : i32 %0 = ", "2:36: %0 is defined twice"},
        {HEAD "{ %0 = frobnicate", "2:18: there is no op \"frobnicate\""},
        {HEAD "{ %0 = const_int {value=1} : q7", "2:32: \"q7\" is no dtype"},
        {HEAD "{ %0 = const_int {worth=1} : i32", "2:19: expected value"},
        {HEAD "{ %0 = const_int {value=9223372036854775808} : i32",
         "2:43: integer of more than 64 bits"},
        {HEAD "{ %0 = const_float {bits=inf} : f32",
         "2:26: not a finite number; others are written as bits"},
        {HEAD "{ %0 = const_int {value=1} : tile<1x1, i32, #0>", "2:47: layout #0 is not defined"},
        {HEAD "{ %0 = const_int {value=1} : vec<0, i32>", "2:41: vec of no elements"},
        {HEAD "{ %4294967296 = ", "2:10: number above 1048575"},
        {HEAD "layout #0 = regs(q1)", "2:18: expected 0, r<row>, c<col> or r<row>+c<col>"},
        {HEAD "layout #0 = pad(1 per 3)", "2:25: padding is a number of elements per power of two"},
        {HEAD "arg \"n\" : i32 at 0 arg \"n\" : i32 at 4", "2:38: there are two arguments \"n\""},
        {HEAD "{ } }", "2:5: text after the function"},
        {HEAD "{ return", "2:9: expected a word"},
        {HEAD "{ %0 = mfma %1", "2:15: %1 is not defined before this"},
        {HEAD "{ %0 = undef : vec<4, f32> %1 = mfma %0, %0, %0 {instr=\"mfma_none\"}",
         "2:67: test has no \"mfma_none\""},
        {HEAD "{ %0 = undef : tile<1x1, f32, #0>", "2:33: layout #0 is not defined"},
        {HEAD "{ %0 = const_float {bits=1e} : f32", "2:26: expected a float, or 0x and its bits"},
        {HEAD "{ %0 = const_int {value=-} : i32", "2:26: expected an integer"},
        {HEAD "{ %x = ", "2:4: expected a number"},
        {HEAD "{ %0 = const_int {value=1} : vec<x, i32>", "2:34: expected a number"},
        {HEAD "{ %0 = a23456789012345678901234567890123456789012345678901234567890123456789",
         "2:8: word of 69 characters, at most 31"},
        {HEAD "layout #0 = regs() layout #0 = regs()", "2:38: layout #0 is defined twice"},
        {HEAD "layout #0 = pad(0 per 4)", "2:25: padding is a number of elements per power of two"},
        {HEAD "layout #0 = pad(1 per 0)", "2:25: padding is a number of elements per power of two"},
        {HEAD "layout #0 = pad(65536 per 4)", "2:21: number above 65535"},
        {HEAD "arg \"n\" : i1 at 0", "2:18: an argument is at least a byte"},
        {HEAD "arg \"n\" : i32 at 4097", "2:21: number above 4096"},
        {HEAD "arg \"\\x0g\" : i32 at 0", "2:6: expected \\xhh"},
        {HEAD "arg \"\\x00\" : i32 at 0", "2:6: expected \\xhh"},
        {HEAD "arg \"\t\" : i32 at 0", "2:6: unprintable character in a string"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char error[256] = "no error";
        assert_null(tir_parse(cases[i].text, strlen(cases[i].text), &test_machine, error));
        assert_string_equal(error, cases[i].error);
    }
}

/* Parses a head, `before`, n times `one` with a comma between two, and `after`; the error must
   match. */
static void refuse_long(const char *before, const char *one, unsigned n, const char *after,
                        const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    fputs(before, out);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s%s", i ? ", " : "", one);
    fputs(after, out);
    fclose(out);
    char error[256] = "no error";
    assert_null(tir_parse(text, size, &test_machine, error));
    const char *const sentence = strchr(error, ' ');
    assert_non_null(sentence);
    assert_string_equal(sentence + 1, expected);
    free(text);
}

TEST(parse_refuses_long_lists)
{
    refuse_long(HEAD "{ %0 = const_int {value=1} : i32 %1 = concat ", "%0", 4097, " : i32 }",
                "more than 4096 operands");
    refuse_long(HEAD "{ ", "%1", 4097, " = undef : i32 }", "more than 4096 results");
    refuse_long(HEAD "layout #0 = regs(", "0", 2, ")",
                "expected 0, r<row>, c<col> or r<row>+c<col>");
    refuse_long(HEAD "arg \"", "name", 100, "\" : i32 at 0", "string of more than 255 characters");
}

TEST(parse_refuses_endless_nesting)
{
    enum { DEPTH = 100000 };
    static const char head[] = HEAD "{ %0 = const_int {value=1} : i1\n";
    static const char nest[] = "if %0 {\n";
    char *const text = malloc(sizeof(head) + DEPTH * sizeof(nest));
    assert_non_null(text);
    char *end = stpcpy(text, head);
    for (int i = 0; i < DEPTH; i++)
        end = stpcpy(end, nest);
    char error[256];
    assert_null(tir_parse(text, (size_t)(end - text), &test_machine, error));
    assert_string_equal(error, "34:8: blocks nest deeper than 32");
    free(text);
}

int main(void) { return run_unit_tests(); }

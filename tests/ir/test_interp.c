/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the interpreter: number formats, results of single ops, and functions that it refuses.
 */
#include <math.h>

#include "ir/arith.h"
#include "ir/interp.h"
#include "tests/ir/fixture.h"

/* Every bit pattern of f16, bf16 and both fp8 rounds back to itself. */
TEST(every_narrow_float_rounds_to_itself)
{
    static const struct {
        unsigned dtype, patterns;
        bool fnuz;
    } formats[] = {
        {TIR_F16, 65536, false},
        {TIR_BF16, 65536, false},
        {TIR_FP8, 256, false},
        {TIR_FP8, 256, true},
    };
    for (unsigned f = 0; f < 4; f++)
        for (unsigned bits = 0; bits < formats[f].patterns; bits++) {
            const float v = tir_to_float(formats[f].dtype, bits, formats[f].fnuz);
            const int64_t again = tir_from_float(formats[f].dtype, v, formats[f].fnuz);
            if (isnan(v))
                assert_true(isnan(tir_to_float(formats[f].dtype, again, formats[f].fnuz)));
            else
                assert_int_equal(again, bits);
        }
}

/* Halfway between neighbours the even one is taken, and a little above or below it the nearer
   one. */
TEST(rounding_is_to_nearest_even)
{
    static const struct {
        unsigned dtype, top; /* top: bits of the largest finite number */
    } formats[] = {{TIR_F16, 0x7bff}, {TIR_BF16, 0x7f7f}, {TIR_FP8, 0x7e}};
    for (unsigned f = 0; f < 3; f++)
        for (unsigned bits = 0; bits < formats[f].top; bits++) {
            const unsigned dtype = formats[f].dtype;
            const float low = tir_to_float(dtype, bits, false);
            const float high = tir_to_float(dtype, bits + 1, false);
            const float half = low + (high - low) / 2;
            assert_int_equal(tir_from_float(dtype, half, false), bits + (bits & 1));
            if (half == 0 || nextafterf(half, 0) == low || nextafterf(half, INFINITY) == high)
                continue; /* there is no float between */
            assert_int_equal(tir_from_float(dtype, nextafterf(half, 0), false), bits);
            assert_int_equal(tir_from_float(dtype, nextafterf(half, INFINITY), false), bits + 1);
        }
}

TEST(special_numbers_are_those_of_the_formats)
{
    assert_int_equal(tir_from_float(TIR_F16, 65520, false), 0x7c00);
    assert_int_equal(tir_cut_float(TIR_F16, 1e6f), 0x7bff);
    assert_int_equal(tir_cut_float(TIR_F16, -INFINITY), 0xfc00);
    assert_int_equal(tir_cut_float(TIR_F16, 0x1.7p-24f), 1);
    assert_int_equal(tir_cut_float(TIR_BF16, -0x1.01fp0f), 0xbf80);
    assert_int_equal(tir_from_float(TIR_F16, 65519, false), 0x7bff);
    assert_int_equal(tir_from_float(TIR_BF16, 3.4e38f, false), 0x7f80);
    assert_int_equal(tir_from_float(TIR_BF16, -INFINITY, false), 0xff80);
    assert_int_equal(tir_from_float(TIR_FP8, 1000, false), 0x7e); /* OCP: 448 */
    assert_true(tir_to_float(TIR_FP8, 0x7e, false) == 448);
    assert_true(isnan(tir_to_float(TIR_FP8, 0x7f, false)));
    assert_int_equal(tir_from_float(TIR_FP8, 1000, true), 0x7f); /* fnuz: 240 */
    assert_true(tir_to_float(TIR_FP8, 0x7f, true) == 240);
    assert_true(isnan(tir_to_float(TIR_FP8, 0x80, true)));
    assert_int_equal(tir_from_float(TIR_FP8, -0.0f, true), 0);
    assert_true(tir_to_float(TIR_FP8, 1, true) == ldexpf(1, -10));
    assert_true(tir_to_float(TIR_FP8, 1, false) == ldexpf(1, -9));
}

TEST(integers_wrap_and_refuse_what_has_no_value)
{
    int64_t d;
    assert_true(tir_eval_int(TIR_add, TIR_I32, (int64_t[]){INT32_MAX, 1, 0}, &d));
    assert_int_equal(d, INT32_MIN);
    assert_true(tir_eval_int(TIR_shr, TIR_I32, (int64_t[]){-1, 28, 0}, &d));
    assert_int_equal(d, 15);
    assert_true(tir_eval_int(TIR_sar, TIR_I32, (int64_t[]){-16, 2, 0}, &d));
    assert_int_equal(d, -4);
    assert_true(tir_eval_int(TIR_div, TIR_I32, (int64_t[]){-2, 2, 0}, &d));
    assert_int_equal(d, INT32_MAX);
    assert_true(tir_eval_int(TIR_cmp_ult, TIR_I32, (int64_t[]){1, -1, 0}, &d));
    assert_int_equal(d, 1);
    assert_false(tir_eval_int(TIR_div, TIR_I32, (int64_t[]){1, 0, 0}, &d));
    assert_false(tir_eval_int(TIR_shl, TIR_I32, (int64_t[]){1, 32, 0}, &d));
    assert_false(tir_eval_int(TIR_shl, TIR_I32, (int64_t[]){1, -1, 0}, &d));
}

static int64_t unit_pair(float a, float b)
{
    int64_t d;
    const int64_t operands[3] = {tir_from_float(TIR_F32, a, false),
                                 tir_from_float(TIR_F32, b, false), 0};
    assert_true(tir_eval_float(TIR_unit_pair, TIR_F32, false, operands, &d));
    return d;
}

TEST(pairs_of_f16_are_between_0_and_1)
{
    assert_int_equal(unit_pair(-1, 2), 0x3c000000);
    assert_int_equal(unit_pair(0.5f + 0x1p-12f, 0x1p-24f), 0x00013800); /* a tie; a denormal */
    assert_int_equal(unit_pair(NAN, -INFINITY), 0);
    int64_t d;
    const int64_t two_and_half = INT64_C(0x4000) | INT64_C(0x3800) << 16; /* 2, 0.5 */
    const int64_t minus_one = tir_from_float(TIR_F32, -1, false);
    assert_true(
        tir_eval_int(TIR_dot2, TIR_I32, (int64_t[]){two_and_half, two_and_half, minus_one}, &d));
    assert_true(tir_to_float(TIR_F32, d, false) == 3.25f);
    assert_true(tir_eval_int(TIR_dot2, TIR_I32, (int64_t[]){0x03ff0400, 0x3c003c00, 0}, &d));
    assert_true(tir_to_float(TIR_F32, d, false) == 0x1p-14f); /* the other one is subnormal */
}

/* Runs a body whose %0 is the pointer `p`, on 256 words. Returns why it failed, or "". */
static const char *run_body(const char *body, int32_t words[256])
{
    static char why[TIR_WHY];
    char *text = NULL;
    assert_true(asprintf(&text,
                         "  %%0 = arg {index=0} : i64\n  %%1 = lane_id : vec<1, i32>\n"
                         "  %%2 = const_int {value=2} : vec<1, i32>\n"
                         "  %%3 = shl %%1, %%2 : vec<1, i32>\n%s  return\n",
                         body) > 0);
    struct tir_func *const f = parsed_body(text);
    free(text);
    if (!tir_verify(f, "reading", stderr))
        fail_msg("the body is not sound");
    const struct {
        int32_t *p;
        int32_t n;
    } kernarg = {words, 256};
    why[0] = 0;
    const bool ok = tir_interpret(f, &kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why);
    assert_int_equal(ok, !why[0]);
    tir_func_destroy(f);
    return why;
}

TEST(lanes_move_as_the_manual_says)
{
    int32_t w[256] = {0};
    assert_string_equal(
        "",
        run_body("  %4 = const_int {value=100} : vec<1, i32>\n  %5 = add %1, %4 : vec<1, i32>\n"
                 "  %6 = lane_swap %1, %5 {half=32, which=0} : vec<1, i32>\n"
                 "  %7 = lane_swap %1, %5 {half=32, which=1} : vec<1, i32>\n"
                 "  %8 = lane_xor %1 {mask=5} : vec<1, i32>\n"
                 "  %9 = lane_gather %3, %5 : vec<1, i32>\n"
                 "  global_store %0, %3, %6 {offset=0}\n  global_store %0, %3, %7 {offset=256}\n"
                 "  global_store %0, %3, %8 {offset=512}\n  global_store %0, %3, %9 {offset=768}\n",
                 w));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(w[i], i < 32 ? i : 100 + i - 32);
        assert_int_equal(w[64 + i], i < 32 ? i + 32 : 100 + i);
        assert_int_equal(w[128 + i], i ^ 5);
        assert_int_equal(w[192 + i], 100 + i);
    }
}

TEST(bytes_permute_as_v_perm_b32_does)
{
    int32_t w[256] = {0};
    /* selector 0x07020500: bytes 0 and 2 of b, 1 and 3 of a */
    assert_string_equal(
        "", run_body("  %4 = const_int {value=1144201745} : vec<1, i32>\n"  /* 0x44332211 */
                     "  %5 = const_int {value=-2003195205} : vec<1, i32>\n" /* 0x8899aabb */
                     "  %6 = byte_perm %4, %5 {selector=117572864} : vec<1, i32>\n"
                     "  global_store %0, %3, %6 {offset=0}\n",
                     w));
    assert_int_equal((uint32_t)w[7], 0x449922bb);
}

TEST(beyond_a_resource_reads_zero_and_drops_writes)
{
    int32_t w[256];
    for (int i = 0; i < 256; i++)
        w[i] = i + 1;
    assert_string_equal(
        "", run_body("  %4 = const_int {value=40} : i32\n  %5 = make_rsrc %0, %4 : rsrc\n"
                     "  %6 = const_int {value=0} : i32\n"
                     "  %7 = buffer_load %5, %3, %6 {offset=0} : vec<1, i32>\n"
                     "  global_store %0, %3, %7 {offset=256}\n"
                     "  %8 = const_int {value=-7} : vec<1, i32>\n"
                     "  buffer_store %5, %3, %6, %8 {offset=8}\n",
                     w));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(w[64 + i], i < 10 ? i + 1 : 0);
        assert_int_equal(w[i], i >= 2 && i < 10 ? -7 : i + 1);
    }
}

/* 1,029 strides of 4 MiB and a row of 256 bytes are more than 4 GiB; 1,023 strides are less. */
TEST(bytes_of_a_resource_do_not_wrap)
{
    static const char body[] = "  %%4 = const_int {value=%d} : i32\n"
                               "  %%5 = const_int {value=4194304} : i32\n"
                               "  %%6 = const_int {value=256} : i32\n"
                               "  %%7 = mul %%4, %%5 : i32\n  %%8 = add %%7, %%6 : i32\n"
                               "  %%9 = const_int {value=0} : i32\n  %%10 = cmp_gt %%4, %%9 : i1\n"
                               "  %%11 = select %%10, %%8, %%9 : i32\n"
                               "  %%12 = make_rsrc %%0, %%11 : rsrc\n";
    static const struct {
        int rows;
        const char *why;
    } cases[] = {{1029, "a buffer resource of 4315939072 bytes"}, {1023, ""}, {-1029, ""}};
    int32_t w[256] = {0};
    for (int i = 0; i < 3; i++) {
        char text[sizeof(body) + 16];
        snprintf(text, sizeof(text), body, cases[i].rows);
        const char *const why = run_body(text, w);
        if (cases[i].why[0])
            assert_non_null(strstr(why, cases[i].why));
        else
            assert_string_equal(why, "");
    }
}

TEST(transposing_read_takes_columns_of_4_by_16_blocks)
{
    int32_t w[256] = {0};
    /* Each lane writes its number twice into its 8 bytes, as four 16-bit elements 0, 0, n, 0. */
    assert_string_equal(
        "",
        run_body("  %4 = const_int {value=3} : vec<1, i32>\n  %5 = shl %1, %4 : vec<1, i32>\n"
                 "  %6 = const_int {value=0} : vec<1, i32>\n  %7 = concat %6, %1 : vec<2, i32>\n"
                 "  lds_write %5, %7 {offset=0}\n"
                 "  %8 = lds_read_tr %5 {offset=0} : vec<4, i16>\n"
                 "  %9 = bitcast %8 : vec<2, i32>\n  %10 = shl %1, %4 : vec<1, i32>\n"
                 "  global_store %0, %10, %9 {offset=0}\n",
                 w));
    for (int lane = 0; lane < 64; lane++)
        for (int e = 0; e < 4; e++) {
            const int t = lane % 16, from = lane - t + 4 * e + t / 4;
            const int found = w[2 * lane + e / 2] >> 16 * (e % 2) & 0xffff;
            assert_int_equal(found, t % 4 == 2 ? from : 0);
        }
}

/* Each lane writes 8 elements of 16 bits: 16 times its number, plus the element's. Element e of
 * lane t is then element t % 8 of lane e of the same 8 lanes (CDNA5 ISA, 11.2.4). */
TEST(transposing_read_of_16_bytes_takes_columns_of_8_by_8_blocks)
{
    int32_t w[256] = {0};
    assert_string_equal(
        "", run_body("  %4 = const_int {value=4} : vec<1, i32>\n  %5 = shl %1, %4 : vec<1, i32>\n"
                     "  %6 = const_int {value=65537} : vec<1, i32>\n"
                     "  %7 = mul %5, %6 : vec<1, i32>\n"
                     "  %8 = const_int {value=65536} : vec<1, i32>\n"
                     "  %9 = const_int {value=131074} : vec<1, i32>\n"
                     "  %10 = add %7, %8 : vec<1, i32>\n  %11 = add %10, %9 : vec<1, i32>\n"
                     "  %12 = add %11, %9 : vec<1, i32>\n  %13 = add %12, %9 : vec<1, i32>\n"
                     "  %14 = concat %10, %11, %12, %13 : vec<4, i32>\n"
                     "  lds_write %5, %14 {offset=0}\n"
                     "  %15 = lds_read_tr %5 {offset=0} : vec<8, i16>\n"
                     "  %16 = bitcast %15 : vec<4, i32>\n"
                     "  global_store %0, %5, %16 {offset=0}\n",
                     w));
    for (int lane = 0; lane < 64; lane++)
        for (int e = 0; e < 8; e++) {
            const int found = w[4 * lane + e / 2] >> 16 * (e % 2) & 0xffff;
            assert_int_equal(found, 16 * (lane / 8 * 8 + e) + lane % 8);
        }
}

/* Each lane writes 8 bytes. Byte b of lane t gets the value 8 t + b. The read gives lane
 * t as byte e: byte t % 8 of lane 8 (e / 4) + 4 (t / 8) + e % 4 of the same 16 lanes (CDNA5 ISA,
 * 11.2.4). */
TEST(transposing_read_of_8_bytes_has_runs_of_lanes)
{
    int32_t w[256] = {0};
    assert_string_equal(
        "", run_body("  %4 = const_int {value=3} : vec<1, i32>\n  %5 = shl %1, %4 : vec<1, i32>\n"
                     "  %6 = const_int {value=31} : vec<1, i32>\n"
                     "  %7 = and %1, %6 : vec<1, i32>\n"
                     "  %8 = const_int {value=134744072} : vec<1, i32>\n" /* 0x08080808 */
                     "  %9 = mul %7, %8 : vec<1, i32>\n"
                     "  %10 = const_int {value=50462976} : vec<1, i32>\n"  /* 0x03020100 */
                     "  %11 = const_int {value=117835012} : vec<1, i32>\n" /* 0x07060504 */
                     "  %12 = add %9, %10 : vec<1, i32>\n  %13 = add %9, %11 : vec<1, i32>\n"
                     "  %14 = concat %12, %13 : vec<2, i32>\n"
                     "  lds_write %5, %14 {offset=0}\n"
                     "  %15 = lds_read_tr %5 {offset=0} : vec<8, i8>\n"
                     "  %16 = bitcast %15 : vec<2, i32>\n"
                     "  global_store %0, %5, %16 {offset=0}\n",
                     w));
    for (int lane = 0; lane < 64; lane++)
        for (int e = 0; e < 8; e++) {
            const int t = lane % 16, from = lane - t + 8 * (e / 4) + 4 * (t / 8) + e % 4;
            assert_int_equal(w[2 * lane + e / 4] >> 8 * (e % 4) & 0xff, 8 * (from % 32) + t % 8);
        }
}

/* Copies 3 rows of 8 bytes that lie 12 bytes apart, with 4 bytes of padding after each. The third
 * row is missing. */
TEST(the_tensor_mover_pads_rows_and_clears_missing_ones)
{
    int32_t w[256];
    for (int i = 0; i < 256; i++)
        w[i] = i + 1;
    assert_string_equal(
        "", run_body("  %4 = const_int {value=-1} : vec<1, i32>\n  lds_write %3, %4 {offset=64}\n"
                     "  %5 = const_int {value=12} : i64\n  %6 = const_int {value=2} : i32\n"
                     "  %7 = const_int {value=64} : i32\n"
                     "  tensor_to_lds %0, %5, %6, %7 {group=0, rows=3, bytes=8, span=8, pad=4}\n"
                     "  wait_tensor {most=0}\n"
                     "  %8 = lds_read %3 {offset=64} : vec<1, i32>\n"
                     "  global_store %0, %3, %8 {offset=0}\n",
                     w));
    const int32_t expected[] = {1, 2, -1, 4, 5, -1, 0, 0, -1};
    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(w[i], expected[i]);
}

TEST(waves_may_take_branches_apart)
{
    struct tir_func *const f = parsed(
        "func \"f\" machine=\"test\" waves=4 waves_per_simd=1 lds=0 level=vec\n"
        "arg \"p\" : i64 at 0\n{\n  %0 = arg {index=0} : i64\n  %1 = lane_id : vec<1, i32>\n"
        "  %2 = wave_id : i32\n  %3 = const_int {value=2} : i32\n  %4 = cmp_lt %2, %3 : i1\n"
        "  %5 = if %4 : i32 {\n    barrier\n    %6 = add %2, %3 : i32\n    yield %6\n"
        "  } else {\n    yield %2\n  }\n  %7 = const_int {value=1} : i32\n"
        "  %8 = for %9 = %2 to %3 step %7 with (%10 = %5) : i32 {\n"
        "    %11 = mul %10, %3 : i32\n    yield %11\n  }\n"
        "  %12 = splat %8 : vec<1, i32>\n  %13 = convert %2 : i64\n"
        "  %14 = const_int {value=2} : i64\n  %15 = shl %13, %14 : i64\n  %16 = add %0, %15 : i64\n"
        "  %17 = const_int {value=0} : vec<1, i32>\n  global_store %16, %17, %12 {offset=0}\n"
        "  return\n}\n");
    int32_t w[4] = {0}, *p = w;
    char why[TIR_WHY];
    assert_true(tir_interpret(f, &p, sizeof(p), (const unsigned[]){1, 1, 1}, why));
    assert_int_equal(w[0], 8); /* 2, doubled twice */
    assert_int_equal(w[1], 6); /* 3, doubled once */
    assert_int_equal(w[2], 2);
    assert_int_equal(w[3], 3);
    tir_func_destroy(f);
}

TEST(carried_values_may_trade_places)
{
    int32_t w[256] = {0};
    assert_string_equal(
        "",
        run_body("  %4 = const_int {value=0} : i32\n  %5 = const_int {value=3} : i32\n"
                 "  %6 = const_int {value=1} : i32\n"
                 "  %7, %8 = for %9 = %4 to %5 step %6 with (%10 = %4, %11 = %6) : i32, i32 {\n"
                 "    yield %11, %10\n  }\n"
                 "  %12 = splat %7 : vec<1, i32>\n  %13 = splat %8 : vec<1, i32>\n"
                 "  global_store %0, %3, %12 {offset=0}\n  global_store %0, %3, %13 {offset=256}\n",
                 w));
    assert_int_equal(w[0], 1);
    assert_int_equal(w[64], 0);
}

/* The ops that align code have no effect in the interpreter. */
TEST(the_place_of_code_means_nothing)
{
    int32_t w[256] = {0};
    assert_string_equal("", run_body("  align_code {words=7, of=8}\n"
                                     "  %4 = const_int {value=5} : vec<1, i32>\n"
                                     "  align_code {words=0, of=2}\n"
                                     "  global_store %0, %3, %4 {offset=0}\n",
                                     w));
    assert_int_equal(w[63], 5);
}

/* An undefined value is NaN, and so is every result that depends on it. */
TEST(undef_is_no_number)
{
    int32_t w[256] = {0};
    float found;
    assert_string_equal("", run_body("  %4 = undef : vec<1, f32>\n"
                                     "  global_store %0, %3, %4 {offset=0}\n",
                                     w));
    memcpy(&found, &w[5], sizeof(found));
    assert_true(isnan(found));
}

TEST(failures_name_the_op)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"  %4.x = lds_read %3 {offset=64} : vec<1, i32>\n",
         "workgroup 0,0,0, op 5, lds_read x: reads LDS byte 64, which nobody wrote"},
        {"  lds_write %3, %1 {offset=3844}\n",
         "workgroup 0,0,0, op 5, lds_write: LDS byte 4096 of 4096"},
        {"  %4 = const_int {value=0} : i32\n  %5 = div %4, %4 : i32\n",
         "workgroup 0,0,0, op 6, div: has no value for these operands: 0, 0"},
        {"  %4 = arg {index=1} : i32\n  %5 = shl %4, %4 : i32\n",
         "workgroup 0,0,0, op 6, shl: has no value for these operands: 256, 256"},
    };
    int32_t w[256] = {0};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(run_body(cases[i].body, w), cases[i].why);
}

int main(void) { return run_unit_tests(); }

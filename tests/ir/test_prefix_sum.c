/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests row_prefix_sum in the interpreter, as an op of tiles and of registers. Sums are of one
 * tree, so their bits do not depend on which registers and lanes have a column.
 */
#include "ir/interp.h"
#include "ir/spread.h"
#include "tests/ir/fixture.h"

enum { ROW_BITS = 3, COL_BITS = 5, BITS = ROW_BITS + COL_BITS, REG_BITS = 2 };
enum { ROWS = 1 << ROW_BITS, COLS = 1 << COL_BITS, ORDERS = 60 };

static float in[ROWS][COLS], out[ROWS][COLS];

/* Fills the input with numbers whose sum has another rounding in any other order. */
static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            in[i][j] = (j % 3 == 1 ? -1 : 1) / (float)(1 + 5 * i + 7 * j + (i ^ j));
    return 0;
}

/* Returns a layout whose images are in an order that depends on `seed`. */
static struct tir_layout layout_of_order(unsigned seed)
{
    struct tir_layout l = {.reg_bits = REG_BITS, .lane_bits = BITS - REG_BITS};
    for (unsigned i = 0; i < BITS; i++)
        l.basis[i] = i < ROW_BITS ? TIR_RC(1u << i, 0) : TIR_RC(0, 1u << (i - ROW_BITS));
    for (unsigned i = BITS - 1; i > 0; i--) {
        seed = seed * 1103515245u + 12345u;
        const unsigned pick = (seed >> 16) % (i + 1);
        const uint32_t image = l.basis[i];
        l.basis[i] = l.basis[pick];
        l.basis[pick] = image;
    }
    return l;
}

static struct tir_func *program(const struct tir_layout *l, unsigned waves)
{
    struct tir_func *f = tir_func_create("k", &test_machine, waves);
    assert_non_null(f);
    struct tir_builder b = tir_at_end(f, f->body);
    struct tir_view view[2];
    for (int i = 0; i < 2; i++) {
        const struct tir_value base = tir_arg(&b, i ? "out" : "in", TIR_I64);
        view[i].rsrc = tir_make_rsrc(&b, base, tir_i32(&b, sizeof(in)));
        view[i].row_stride = tir_i32(&b, sizeof(in[0]));
        view[i].byte = tir_i32(&b, 0);
    }
    const struct tir_type t = tir_tile(f, TIR_F32, ROWS, COLS, l);
    const struct tir_value a = tir_tile_load(&b, view[0], tir_i32(&b, 0), t);
    tir_tile_store(&b, view[1], tir_i32(&b, 0), tir_row_prefix_sum(&b, a));
    tir_return(&b);
    return f;
}

/* Returns the sum of n columns from `first` on, n a power of two: the sum of the halves' sums. */
static float block_sum(const float *a, int first, int n)
{
    return n == 1 ? a[first] : block_sum(a, first, n / 2) + block_sum(a, first + n / 2, n / 2);
}

/* Returns the sum of columns 0 to j: adds blocks of powers of two before j, the smallest first. */
static float prefix_sum(const float *a, int j)
{
    float sum = a[j];
    for (int block = 1; block < COLS; block *= 2)
        if (j & block)
            sum = block_sum(a, (j & -block) - block, block) + sum;
    return sum;
}

static void check(struct tir_func *f, const char *as)
{
    const uint64_t kernarg[] = {(uintptr_t)in, (uintptr_t)out};
    interpret_once(f, as, kernarg, 2, sizeof(out));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            const float expected = prefix_sum(in[i], j);
            assert_memory_equal(&out[i][j], &expected, sizeof(expected));
        }
}

TEST(every_layout_gives_the_sums_of_one_tree)
{
    for (unsigned i = 0; i < ORDERS; i++) {
        const struct tir_layout l = layout_of_order(i);
        struct tir_func *const f = program(&l, 1);
        check(f, "as a tile");
        tir_lower_tiles(f, &(struct tir_schedule){0});
        check(f, "in registers");
        tir_func_destroy(f);
    }
}

/* Lanes with copies of elements do not change the sum. */
TEST(repeated_elements_have_one_sum)
{
    struct tir_spread s = tir_spread(&test_machine, 1);
    tir_spread_rows(&s, TIR_REGS, ROW_BITS);
    tir_spread_repeat(&s, TIR_LANES, 1);
    tir_spread_cols(&s, TIR_LANES, COL_BITS);
    const struct tir_layout l = tir_spread_layout(&s);
    struct tir_func *const f = program(&l, 1);
    check(f, "as a tile");
    tir_lower_tiles(f, &(struct tir_schedule){0});
    check(f, "in registers");
    tir_func_destroy(f);
}

TEST(rows_of_several_waves_are_refused)
{
    struct tir_spread s = tir_spread(&test_machine, 2);
    tir_spread_rows(&s, TIR_REGS, ROW_BITS);
    tir_spread_cols(&s, TIR_WAVES, 1);
    tir_spread_cols(&s, TIR_LANES, COL_BITS - 1);
    const struct tir_layout l = tir_spread_layout(&s);
    struct tir_func *const f = program(&l, 2);
    char *const text = findings(f);
    assert_non_null(strstr(text, "waves have parts of a row"));
    free(text);
    tir_func_destroy(f);
}

TEST(columns_that_registers_mix_with_rows_are_refused)
{
    struct tir_layout l = layout_of_order(1);
    for (int i = 0; i < BITS; i++)
        if (l.basis[i] == TIR_RC(0, 1))
            l.basis[i] = TIR_RC(1, 1);
    struct tir_func *const f = program(&l, 1);
    char *const text = findings(f);
    assert_non_null(strstr(text, "a bit of the column is no input bit of its own"));
    free(text);
    tir_func_destroy(f);
}

int main(void) { return run_unit_tests_after(fill); }

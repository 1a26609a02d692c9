/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests linear layouts: the operand maps of every matrix instruction, random matrices, and
 * conversions.
 */
#include "ir/matrix.h"
#include "targets/tgt.h"
#include "tests/ir/fixture.h"

#define ACC32 (test_machine.mma[0].d)

static uint32_t random_state = 12345;

static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

TEST(apply_gives_the_documented_row_and_column)
{
    for (unsigned reg = 0; reg < 16; reg++)
        for (unsigned lane = 0; lane < 64; lane++) {
            const uint32_t rc = tir_layout_apply(&ACC32, reg, lane, 0);
            assert_int_equal(tir_rc_row(rc), 8 * (reg / 4) + 4 * (lane / 32) + reg % 4);
            assert_int_equal(tir_rc_col(rc), lane % 32);
        }
}

/* Checks that every element is held once: operands of matrix instructions are bijections. */
static void covers_once(const struct tir_layout *l, unsigned rows, unsigned cols)
{
    bool *const seen = calloc((size_t)rows * cols, sizeof(*seen));
    assert_non_null(seen);
    assert_true(tir_layout_covers(l, rows, cols));
    assert_int_equal(1u << tir_layout_bits(l), rows * cols);
    for (unsigned reg = 0; reg < 1u << l->reg_bits; reg++)
        for (unsigned lane = 0; lane < 1u << l->lane_bits; lane++) {
            const uint32_t rc = tir_layout_apply(l, reg, lane, 0);
            const size_t i = (size_t)tir_rc_row(rc) * cols + tir_rc_col(rc);
            assert_true(tir_rc_row(rc) < rows && tir_rc_col(rc) < cols && !seen[i]);
            seen[i] = true;
        }
    free(seen);
}

TEST(operand_maps_of_every_matrix_instruction_are_bijections)
{
    unsigned n = 0;
    for (int t = 0; tgt_all[t]; t++)
        for (unsigned i = 0; i < tgt_all[t]->machine.n_mma; i++, n++) {
            const struct tir_mma *const m = &tgt_all[t]->machine.mma[i];
            covers_once(&m->a, m->m, m->k);
            covers_once(&m->b, m->k >> (m->right_format == TIR_MX_E2M1), m->n);
            covers_once(&m->d, m->m, m->n);
        }
    assert_true(n >= 4);
}

/* The accumulator of S^T = K Q^T is not the B operand of the next product in the instruction's own
 * order of k. It becomes that operand without any move between lanes if k is renamed. */
TEST(accumulator_becomes_an_operand_by_renaming_the_contraction)
{
    const struct tir_mma *const m = &test_machine.mma[0];
    const struct tir_layout acc = tir_mma_result(m, 64, 32, (struct tir_waves){0});
    const struct tir_contraction k = tir_contract_acc(&acc, 5);
    const struct tir_layout a = tir_mma_right(m, 32, &k, (struct tir_waves){0}),
                            b = tir_layout_transpose(&a);
    struct tir_conversion c;
    assert_true(tir_layout_conversion(&acc, &b, &c));
    assert_int_equal(c.kind, TIR_CONVERT_NONE);
    struct tir_conversion direct;
    const struct tir_contraction rows = tir_contract_rows(m, 64, 4);
    const struct tir_layout in_order = tir_mma_right(m, 32, &rows, (struct tir_waves){0});
    const struct tir_layout wanted = tir_layout_transpose(&in_order);
    assert_true(tir_layout_conversion(&acc, &wanted, &direct));
    assert_true(direct.kind <= TIR_CONVERT_LANES);
}

/* Returns a random invertible layout of 4 register bits, 6 lane bits and 1 wave bit onto 32 x
   64. */
static struct tir_layout random_layout(void)
{
    struct tir_layout l = {.reg_bits = 4, .lane_bits = 6, .wave_bits = 1};
    do
        for (int i = 0; i < 11; i++) {
            const uint32_t image = random_word();
            l.basis[i] = TIR_RC(image & 31, image >> 5 & 63);
        }
    while (!tir_layout_covers(&l, 32, 64));
    return l;
}

/* Returns the image of x under a map: the XOR of the images of its set bits. */
static uint32_t apply_matrix(const struct tir_matrix *m, uint32_t x)
{
    uint32_t y = 0;
    for (; x; x &= x - 1)
        y ^= m->column[__builtin_ctz(x)];
    return y;
}

static uint32_t apply_packed(const struct tir_layout *l, uint32_t x)
{
    return tir_layout_apply(l, x & ((1u << l->reg_bits) - 1), x >> l->reg_bits & 63,
                            x >> (l->reg_bits + 6));
}

TEST(conversion_map_finds_the_same_element)
{
    for (int i = 0; i < 300; i++) {
        const struct tir_layout from = random_layout(), to = random_layout();
        struct tir_conversion c;
        assert_true(tir_layout_conversion(&from, &to, &c));
        for (uint32_t x = 0; x < 1u << 11; x += 1 + x / 16)
            assert_int_equal(apply_packed(&from, apply_matrix(&c.map, x)), apply_packed(&to, x));
    }
}

TEST(solve_agrees_with_conversion)
{
    for (int i = 0; i < 100; i++) {
        const struct tir_layout from = random_layout(), to = random_layout();
        struct tir_conversion c;
        uint32_t m[TIR_LAYOUT_MAX_BITS];
        assert_true(tir_layout_solve(&from, &to, m));
        assert_true(tir_layout_conversion(&from, &to, &c));
        assert_memory_equal(m, c.map.column, 11 * sizeof(m[0])); /* bijections have one answer */
    }
}

TEST(conversion_kind_is_the_cheapest)
{
    static const struct tir_layout base = {
        .reg_bits = 2,
        .lane_bits = 6,
        .wave_bits = 1,
        .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4),
                  TIR_RC(0, 8), TIR_RC(0, 16), TIR_RC(4, 0), TIR_RC(8, 0)},
    };
    struct tir_layout to = base;
    struct tir_conversion c;
    assert_true(tir_layout_conversion(&base, &to, &c));
    assert_int_equal(c.kind, TIR_CONVERT_NONE);

    to.basis[0] = TIR_RC(2, 0);
    to.basis[1] = TIR_RC(1, 0);
    assert_true(tir_layout_conversion(&base, &to, &c));
    assert_int_equal(c.kind, TIR_CONVERT_REGISTERS);
    assert_false(c.selects);

    to = base;
    to.basis[7] = TIR_RC(5, 0); /* the upper half has rows 0 and 1 exchanged */
    assert_true(tir_layout_conversion(&base, &to, &c));
    assert_int_equal(c.kind, TIR_CONVERT_REGISTERS);
    assert_true(c.selects);

    to = base;
    to.basis[1] = TIR_RC(4, 0);
    to.basis[7] = TIR_RC(2, 0); /* a half-wave swap */
    assert_true(tir_layout_conversion(&base, &to, &c));
    assert_int_equal(c.kind, TIR_CONVERT_LANES);
    assert_int_equal(c.lanes, 32);

    to = base;
    to.basis[1] = TIR_RC(8, 0);
    to.basis[8] = TIR_RC(2, 0);
    assert_true(tir_layout_conversion(&base, &to, &c));
    assert_int_equal(c.kind, TIR_CONVERT_LDS);
}

TEST(repeated_elements_are_taken_from_the_own_lane)
{
    const struct tir_layout row = tir_layout_slice(&ACC32, 0); /* 1 x 32 in both halves */
    struct tir_layout split = row;
    split.reg_bits = 1;
    memmove(split.basis + 1, row.basis, 6 * sizeof(row.basis[0]));
    split.basis[0] = 0; /* a second register with the same element */
    struct tir_conversion c;
    assert_true(tir_layout_conversion(&row, &split, &c));
    assert_true(c.kind <= TIR_CONVERT_REGISTERS);
    assert_int_equal(c.lanes, 0);
}

TEST(conversion_without_the_elements_is_refused)
{
    const struct tir_layout row = tir_layout_slice(&ACC32, 0);
    struct tir_conversion c;
    assert_false(tir_layout_conversion(&row, &ACC32, &c));
}

TEST(covers_refuses_what_is_outside_or_missing)
{
    assert_true(tir_layout_covers(&ACC32, 32, 32));
    assert_false(tir_layout_covers(&ACC32, 16, 32));
    assert_false(tir_layout_covers(&ACC32, 32, 64));
}

TEST(fold_rows_keeps_the_row_bits_of_lanes)
{
    unsigned rows;
    const struct tir_layout f = tir_layout_fold_rows(&ACC32, &rows);
    assert_int_equal(rows, 2);
    assert_int_equal(f.reg_bits, 0);
    for (unsigned lane = 0; lane < 64; lane++)
        assert_int_equal(tir_layout_apply(&f, 0, lane, 0), TIR_RC(lane / 32, lane % 32));
    const struct tir_layout t = tir_layout_transpose(&ACC32);
    const struct tir_layout g = tir_layout_fold_rows(&t, &rows);
    assert_int_equal(rows, 32);
    assert_true(tir_layout_equal(&g, &t));
    struct tir_layout mixed = ACC32;
    mixed.basis[1] = TIR_RC(3, 1);
    mixed.basis[0] = TIR_RC(3, 0);
    tir_layout_fold_rows(&mixed, &rows);
    assert_int_equal(rows, 0);
}

TEST(columns_that_are_split_are_joined_again)
{
    const struct tir_layout split = tir_layout_split_cols(&ACC32, 2);
    const struct tir_layout joined = tir_layout_join_cols(&split, 2);
    covers_once(&split, 32, 4 * 32);
    assert_true(tir_layout_has_neighbours(&split, 2));
    for (unsigned reg = 0; reg < 1u << ACC32.reg_bits; reg++)
        for (unsigned lane = 0; lane < 64; lane++)
            assert_int_equal(tir_layout_apply(&joined, reg, lane, 0),
                             tir_layout_apply(&ACC32, reg, lane, 0));
}

TEST(contiguous_counts_the_low_register_bits_of_an_axis)
{
    assert_int_equal(tir_layout_contiguous(&ACC32, 0), 2);
    assert_int_equal(tir_layout_contiguous(&ACC32, 1), 0);
}

TEST(blocks_are_joined_and_split_element_by_element)
{
    const struct tir_layout split = tir_layout_split_blocks(&ACC32, 32, 8);
    const struct tir_layout joined = tir_layout_join_blocks(&split, 32, 8);
    assert_true(tir_layout_equal(&joined, &ACC32));
    for (unsigned reg = 0; reg < 16; reg++)
        for (unsigned lane = 0; lane < 64; lane++) {
            const uint32_t a = tir_layout_apply(&ACC32, reg, lane, 0);
            const unsigned row = tir_rc_row(a), col = tir_rc_col(a);
            assert_int_equal(tir_layout_apply(&split, reg, lane, 0),
                             TIR_RC(col / 8 * 32 + row, col % 8));
        }
}

TEST(dealt_registers_are_those_of_a_wave)
{
    const struct tir_layout dealt = tir_layout_deal_regs(&ACC32, 3, 2);
    assert_int_equal(dealt.reg_bits, 2);
    assert_int_equal(dealt.wave_bits, 2);
    for (unsigned reg = 0; reg < 4; reg++)
        for (unsigned lane = 0; lane < 64; lane++)
            for (unsigned wave = 0; wave < 4; wave++)
                assert_int_equal(
                    tir_layout_apply(&dealt, reg, lane, wave),
                    tir_layout_apply(&ACC32, reg % 2 + 2 * wave + 8 * (reg / 2), lane, 0));
}

#define ROW(n) TIR_RC(n, 0)
#define COL(n) TIR_RC(0, n)

static void expect_regs(const struct tir_layout *l, unsigned n, const uint32_t *images,
                        const struct tir_layout *from)
{
    assert_int_equal(l->reg_bits, n);
    assert_int_equal(l->lane_bits, from->lane_bits);
    assert_int_equal(l->wave_bits, from->wave_bits);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(l->basis[i], images[i]);
    for (int i = 0; i < from->lane_bits + from->wave_bits; i++) /* lanes and waves stay */
        assert_int_equal(l->basis[n + (unsigned)i], from->basis[from->reg_bits + i]);
}

TEST(registers_are_put_in_order_stacked_and_halved)
{
    const struct tir_layout l = {.reg_bits = 4,
                                 .lane_bits = 3,
                                 .wave_bits = 1,
                                 .basis = {ROW(8), COL(2), ROW(2), COL(1), /* lanes */ ROW(1),
                                           COL(4), ROW(4), /* wave */ COL(8)}};
    const struct tir_layout sorted = tir_layout_sort_regs(&l);
    expect_regs(&sorted, 4, (uint32_t[]){ROW(2), ROW(8), COL(1), COL(2)}, &l);
    const struct tir_layout columns = tir_layout_regs_first(&l, COL(0xffff));
    expect_regs(&columns, 4, (uint32_t[]){COL(2), COL(1), ROW(8), ROW(2)}, &l);
    const struct tir_layout stack = tir_layout_stack(&l, 16);
    expect_regs(&stack, 5, (uint32_t[]){ROW(8), COL(2), ROW(2), COL(1), ROW(16)}, &l);
    const struct tir_layout half = tir_layout_half(&stack);
    assert_true(tir_layout_equal(&half, &l));
    assert_true(tir_layout_has_halves(&stack, 32));
    assert_false(tir_layout_has_halves(&stack, 64));
    assert_false(tir_layout_has_halves(&l, 32));
    const struct tir_layout none = {.lane_bits = 1, .basis = {ROW(1)}};
    assert_false(tir_layout_has_halves(&none, 2));
    assert_int_equal(tir_layout_find_bit(&l, ROW(4)), 6);
    assert_int_equal(tir_layout_find_bit(&l, ROW(8)), 0);
    assert_int_equal(tir_layout_find_bit(&l, ROW(16)), -1);
    const struct tir_layout swapped = tir_layout_swap(&l, ROW(8), COL(8));
    assert_int_equal(swapped.basis[0], COL(8));
    assert_int_equal(swapped.basis[7], ROW(8));
    const struct tir_layout same = tir_layout_swap(&l, ROW(8), ROW(16));
    assert_true(tir_layout_equal(&same, &l));
    static const uint8_t to[] = {1, 2, 0, 3};
    const struct tir_layout permuted = tir_layout_permute_rows(&l, to);
    static const uint32_t images[] = {ROW(8), COL(2), ROW(4), COL(1),
                                      ROW(2), COL(4), ROW(1), COL(8)};
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(permuted.basis[i], images[i]);
}

int main(void) { return run_unit_tests(); }

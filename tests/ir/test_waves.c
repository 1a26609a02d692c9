/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests products that the waves of a workgroup share, by rows, by columns, or by both. They run in
 * the interpreter at both levels of the IR, and are compared with the sums.
 */
#include "ir/address_map.h"
#include "ir/interp.h"
#include "ir/matrix.h"
#include "tests/ir/fixture.h"

enum { ROWS = 128, COLS = 64, DEPTH = 32, MAX_BYTES = 4 * ROWS * COLS };

static uint16_t a_in[ROWS * DEPTH], b_in[COLS * DEPTH]; /* bf16 */
static float out[ROWS * COLS];

static const struct tir_waves shapes[] = {{0, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static uint16_t bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static int a_of(int row, int k) { return (row * 5 + k * 3) % 7 - 3; }
static int b_of(int col, int k) { return (col * 3 + k * 11) % 5 - 2; }

static int fill(void **state)
{
    (void)state;
    for (int k = 0; k < DEPTH; k++) {
        for (int row = 0; row < ROWS; row++)
            a_in[row * DEPTH + k] = bf16((float)a_of(row, k));
        for (int col = 0; col < COLS; col++)
            b_in[col * DEPTH + k] = bf16((float)b_of(col, k));
    }
    return 0;
}

struct program {
    struct tir_func *f;
    struct tir_builder b;
    const struct tir_mma *mma;
};

static struct program begin(struct tir_waves w)
{
    struct program p = {.f = tir_func_create("k", &test_machine, 1u << (w.rows + w.cols))};
    p.b = tir_at_end(p.f, p.f->body);
    p.mma = &test_machine.mma[0];
    tir_arg(&p.b, "a", TIR_I64); /* in the order of interpret() */
    tir_arg(&p.b, "b", TIR_I64);
    tir_arg(&p.b, "out", TIR_I64);
    return p;
}

static struct tir_value load(struct program *p, const char *arg, unsigned rows,
                             const struct tir_layout *l)
{
    struct tir_builder *b = &p->b;
    const struct tir_value rsrc = tir_make_rsrc(b, tir_arg(b, arg, TIR_I64), tir_i32(b, MAX_BYTES));
    const struct tir_view view = {rsrc, tir_i32(b, DEPTH * 2), tir_i32(b, 0)};
    return tir_tile_load(b, view, tir_i32(b, 0), tir_tile(p->f, TIR_BF16, rows, DEPTH, l));
}

static void store(struct program *p, struct tir_value d, unsigned cols)
{
    struct tir_builder *b = &p->b;
    const struct tir_value rsrc =
        tir_make_rsrc(b, tir_arg(b, "out", TIR_I64), tir_i32(b, MAX_BYTES));
    const struct tir_view view = {rsrc, tir_i32(b, (int)cols * 4), tir_i32(b, 0)};
    tir_tile_store(b, view, tir_i32(b, 0), d);
}

static struct tir_value zeros(struct program *p, unsigned rows, unsigned cols,
                              const struct tir_layout *l)
{
    return tir_splat(&p->b, tir_f32(&p->b, 0), tir_tile(p->f, TIR_F32, rows, cols, l));
}

static void interpret(struct tir_func *f)
{
    const uint64_t kernarg[] = {(uintptr_t)a_in, (uintptr_t)b_in, (uintptr_t)out};
    interpret_once(f, "building", kernarg, 3, sizeof(out));
}

static unsigned count(const struct tir_block *block, const struct tir_func *f, enum tir_opcode o)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < block->n_ops; i++)
        n += tir_op(f, block->ops[i])->opcode == o;
    return n;
}

/* Interprets the program as tiles and as registers. Both results must be the expected ones. */
static void check_both_levels(const struct program *p, int (*expected)(int row, int col))
{
    for (int lowered = 0; lowered < 2; lowered++) {
        if (lowered)
            tir_lower_tiles(p->f, &(struct tir_schedule){0});
        interpret(p->f);
        for (int row = 0; row < ROWS; row++)
            for (int col = 0; col < COLS; col++)
                assert_int_equal((int)out[row * COLS + col], expected(row, col));
    }
}

static int product(int row, int col)
{
    int sum = 0;
    for (int i = 0; i < DEPTH; i++)
        sum += a_of(row, i) * b_of(col, i);
    return sum;
}

TEST(each_wave_does_its_share_of_a_product)
{
    for (unsigned s = 0; s < N_SHAPES; s++) {
        const struct tir_waves w = shapes[s];
        struct program p = begin(w);
        const struct tir_contraction k = tir_contract_rows(p.mma, DEPTH, 4);
        const struct tir_layout a = tir_mma_left(p.mma, ROWS, &k, w);
        const struct tir_layout b = tir_mma_right(p.mma, COLS, &k, w);
        const struct tir_layout d = tir_mma_result(p.mma, ROWS, COLS, w);
        const struct tir_value left = load(&p, "a", ROWS, &a);
        const struct tir_value right = tir_transpose(&p.b, load(&p, "b", COLS, &b));
        store(&p, tir_mma(&p.b, 0, left, right, zeros(&p, ROWS, COLS, &d)), COLS);
        tir_return(&p.b);
        check_both_levels(&p, product);
        assert_int_equal(count(p.f->body, p.f, TIR_mfma),
                         ROWS / 32 * (COLS / 32) * (DEPTH / 8) >> (w.rows + w.cols));
        tir_func_destroy(p.f);
    }
}

/* Scores have at most 8 bits, so they are exact in bf16. */
static int product_of_products(int row, int col)
{
    int sum = 0;
    for (int key = 0; key < 32; key++)
        sum += a_of(row, key) * product(key, col);
    return sum;
}

/* O^T = V^T P^T: every wave has the same P, from the accumulator of the product before it, and its
 * own slice of the rows. */
TEST(waves_share_the_accumulator_before_and_split_the_rows_after)
{
    const struct tir_waves w = {.rows = 2};
    struct program p = begin(w);
    const struct tir_contraction k = tir_contract_rows(p.mma, DEPTH, 4);
    const struct tir_layout a = tir_mma_left(p.mma, 32, &k, (struct tir_waves){0});
    const struct tir_layout b = tir_mma_right(p.mma, COLS, &k, (struct tir_waves){0});
    const struct tir_layout s = tir_mma_result(p.mma, 32, COLS, (struct tir_waves){0});
    const struct tir_value right = tir_transpose(&p.b, load(&p, "b", COLS, &b));
    const struct tir_value scores =
        tir_mma(&p.b, 0, load(&p, "a", 32, &a), right, zeros(&p, 32, COLS, &s));
    const struct tir_contraction keys = tir_contract_acc(&s, 5);
    const struct tir_layout v = tir_mma_left(p.mma, ROWS, &keys, w);
    const struct tir_layout o = tir_mma_result(p.mma, ROWS, COLS, w);
    const struct tir_value p16 = tir_convert(&p.b, scores, TIR_BF16);
    store(&p, tir_mma(&p.b, 0, load(&p, "a", ROWS, &v), p16, zeros(&p, ROWS, COLS, &o)), COLS);
    tir_return(&p.b);
    check_both_levels(&p, product_of_products);
    assert_int_equal(count(p.f->body, p.f, TIR_mfma), 2 * 4 + 2 * 4);
    tir_func_destroy(p.f);
}

TEST(operands_that_all_waves_hold_have_no_wave_bits)
{
    const struct tir_mma *const m = &test_machine.mma[0];
    const struct tir_contraction k = tir_contract_rows(m, DEPTH, 4);
    const struct tir_layout alone = tir_mma_left(m, ROWS, &k, (struct tir_waves){0});
    const struct tir_layout shared = tir_mma_left(m, ROWS, &k, (struct tir_waves){.cols = 2});
    assert_true(tir_layout_equal(&alone, &shared));
    const struct tir_layout split = tir_mma_left(m, ROWS, &k, (struct tir_waves){1, 1});
    assert_int_equal(split.wave_bits, 2);
    assert_int_equal(split.basis[tir_layout_bits(&split) - 2], 0);
    assert_int_equal(split.basis[tir_layout_bits(&split) - 1], TIR_RC(ROWS / 2, 0));
}

/* One of two waves takes a branch that copies 64 numbers to LDS. Operands of the other wave are the
 * addresses of other numbers, which must not be copied. */
TEST(a_copy_is_made_by_the_waves_that_take_its_branch)
{
    enum { N = 64, BYTES = 4 };
    for (unsigned test = 0; test < 4; test++) {
        const unsigned wave = test / 2;
        struct program p = begin((struct tir_waves){1, 0});
        struct tir_builder *b = &p.b;
        const struct tir_layout map = tir_row_major(N, 1);
        const struct tir_layout l = tir_map_lanes(&map, &test_machine, 2, BYTES);
        const struct tir_type t = tir_tile(p.f, TIR_I32, N, 1, &l);
        const struct tir_value own = tir_wave_id(b), lds = tir_lds_buffer(b, N * BYTES, 16);
        const struct tir_value before = tir_mul(b, own, tir_i32(b, N * BYTES));
        const struct tir_value base =
            tir_add(b, tir_arg(b, "a", TIR_I64), tir_convert(b, before, TIR_I64));
        const struct tir_value taken = tir_cmp_eq(b, own, tir_i32(b, (int)wave));
        struct tir_if only = tir_begin_if(b, taken, false, NULL, 0);
        if (test % 2) {
            const struct tir_rows rows = {base, tir_i64(b, BYTES), tir_i32(b, N), N, BYTES};
            tir_tensor_to_lds(b, 0, &rows, lds, BYTES, 0);
        } else {
            const struct tir_value row = tir_row_index(b, t);
            const struct tir_value at = tir_mul(b, row, tir_int_like(b, row, BYTES));
            tir_gather_to_lds(b, 0, base, at, tir_i32(b, 0), lds, 0, t, &map);
        }
        tir_end_if(b, &only, NULL);
        tir_barrier(b);
        store(&p, tir_tile_lds_load(b, lds, t, &map), 1);
        tir_return(b);
        interpret(p.f);
        assert_memory_equal(out, a_in + wave * N * BYTES / sizeof(a_in[0]), N * BYTES);
        tir_func_destroy(p.f);
    }
}

int main(void) { return run_unit_tests_after(fill); }

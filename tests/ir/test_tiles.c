/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that lower_tiles keeps results: each program runs in the interpreter at both levels.
 * Elements have one or two bytes. Layouts have whole registers and parts of them, in every order.
 */
#include <math.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "tests/ir/tile_program.h"

/* A layout in which a lane has fewer elements than fit in a register: two rows of one element. */
static const struct tir_layout narrow = {
    .reg_bits = 1,
    .lane_bits = 6,
    .basis = {TIR_RC(1, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4), TIR_RC(0, 8), TIR_RC(0, 16),
              TIR_RC(0, 32)},
};

TEST(registers_are_reordered_element_by_element)
{
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tile_program p = tile_program();
            const struct tir_layout from = tile_layout(order);
            const struct tir_value a =
                tile_load(&p, tir_tile(p.f, tile_dtypes[d], ROWS, COLS, &from));
            for (unsigned other = 0; other < 24; other += 5) {
                const struct tir_layout to = tile_layout((order + other) % 24);
                tile_keep(&p, tir_relayout(&p.b, a, &to));
            }
            const int bytes = ELEMENTS * tile_element(tile_dtypes[d]);
            tile_run(&p);
            for (int i = 0; i < 5; i++)
                assert_memory_equal(tile_out + i * bytes, tile_in, (size_t)bytes);
        }
}

TEST(conversions_keep_every_element_in_its_place)
{
    static const unsigned from[] = {TIR_I8, TIR_FP8, TIR_BF16, TIR_F32};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 2; k++) {
            struct tile_program p = tile_program();
            const struct tir_layout wide = tile_layout(7);
            const struct tir_type t =
                tir_tile(p.f, from[i], k ? 2 : ROWS, COLS, k ? &narrow : &wide);
            const struct tir_value a = tile_load(&p, t);
            for (unsigned to = 0; to < TILE_DTYPES; to++)
                if (tile_dtypes[to] != TIR_I16)
                    tile_keep(&p, tir_convert(&p.b, a, tile_dtypes[to]));
            tile_run(&p);
        }
}

/* Returns row addresses: row i of the tile is row 15 - i of memory, or no row. */
static struct tir_value reversed_rows(struct tile_program *p, struct tir_type t, bool gaps)
{
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(p->f, t), 1);
    const struct tir_type vector = tir_tile(p->f, TIR_I32, t.rows, 1, &rows);
    const struct tir_value row = tir_row_index(&p->b, vector);
    const struct tir_value back = tir_sub(&p->b, tir_int_like(&p->b, row, t.rows - 1), row);
    const struct tir_value at =
        tir_mul(&p->b, back, tir_int_like(&p->b, back, COLS * tile_element(t.dtype)));
    struct tir_value wide = tir_convert(&p->b, at, TIR_I64);
    if (gaps) {
        const struct tir_value odd = tir_and(&p->b, row, tir_int_like(&p->b, row, 1));
        wide = tir_select(&p->b, tir_cmp_eq(&p->b, odd, tir_int_like(&p->b, odd, 1)),
                          tir_int_like(&p->b, wide, -1), wide);
    }
    return wide;
}

TEST(rows_anywhere_are_read_and_written)
{
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct tile_program p = tile_begin(tile_dtypes[d], order, &t);
            const struct tir_value a =
                tir_tile_gather(&p.b, p.in, reversed_rows(&p, t, false), tir_i32(&p.b, 0), t);
            tir_tile_scatter(&p.b, p.out, reversed_rows(&p, t, true), tir_i32(&p.b, 0), a);
            tile_run(&p);
            const int row = COLS * tile_element(tile_dtypes[d]);
            for (int i = 0; i < ROWS * row; i++) /* tile row i is memory row 15 - i; no odd row */
                assert_int_equal(tile_out[i], (ROWS - 1 - i / row) % 2 ? 0xa5 : tile_in[i]);
        }
}

static bool count_scalar_load(void *program, struct tir_block *b, struct tir_ref ref)
{
    struct tile_program *const p = program;
    (void)b;
    p->scalar_loads += tir_op(p->f, ref)->opcode == TIR_scalar_load;
    return false;
}

/* An index that all lanes of a wave share needs no vector load, which would wait inside the
   loop. */
TEST(constants_that_lanes_share_are_scalars)
{
    const struct tir_layout shared = {
        .reg_bits = 4,
        .lane_bits = 6,
        .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(4, 0), TIR_RC(8, 0)},
    };
    const struct tir_layout apart = tile_layout(0);
    for (int each = 0; each < 2; each++) {
        struct tile_program p = tile_program();
        const struct tir_type t = each ? tir_tile(p.f, TIR_I32, ROWS, COLS, &apart)
                                       : tir_tile(p.f, TIR_I32, ROWS, 1, &shared);
        const struct tir_value rows = reversed_rows(&p, t, false);
        tile_keep(&p, tir_tile_gather_constant(&p.b, p.in, rows, t));
        tir_return(&p.b);
        tile_interpret(p.f, tile_out);
        tir_lower_tiles(p.f, &(struct tir_schedule){0});
        tir_walk(p.f, p.f->body, count_scalar_load, &p);
        assert_int_equal(p.scalar_loads, each ? 0 : ROWS);
        static uint8_t lowered[BYTES];
        tile_interpret(p.f, lowered);
        assert_memory_equal(lowered, tile_out, BYTES);
        tir_func_destroy(p.f);
    }
}

/* Rows are in reverse order, and the resource ends within the last of them. */
TEST(rows_are_fetched_through_a_resource)
{
    for (unsigned order = 0; order < 24; order++) {
        struct tile_program p = tile_program();
        struct tir_builder *b = &p.b;
        const struct tir_layout l = tile_layout(order), column = tir_layout_slice(&l, 1);
        const struct tir_type t = tir_tile(p.f, TIR_I8, ROWS, COLS, &l);
        const struct tir_type rows = tir_tile(p.f, TIR_I32, ROWS, 1, &column);
        const struct tir_value row = tir_row_index(b, rows);
        const struct tir_value last = tir_sub(b, tir_int_like(b, row, ROWS - 1), row);
        const struct tir_value at = tir_mul(b, last, tir_int_like(b, row, COLS));
        const struct tir_value rsrc = tir_make_rsrc(b, p.in, tir_i32(b, ELEMENTS));
        tile_keep(&p, tir_tile_fetch(b, rsrc, at, COLS, t));
        tile_run(&p);
        for (int i = 0; i < ELEMENTS; i++) {
            const int from = (ROWS - i / COLS) * COLS + i % COLS;
            assert_int_equal(tile_out[i], from < ELEMENTS ? tile_in[from] : 0);
        }
    }
}

TEST(elements_of_a_row_may_lie_apart)
{
    enum { APART = 8 };
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct tile_program p = tile_begin(tile_dtypes[d], order, &t);
            const int size = tile_element(tile_dtypes[d]), row = COLS * APART;
            const struct tir_value rows = reversed_rows(&p, t, true);
            const struct tir_value wider = tir_int_like(&p.b, rows, APART / size);
            tir_tile_scatter_apart(&p.b, p.out, tir_mul(&p.b, rows, wider), tir_i32(&p.b, 0), APART,
                                   tile_load(&p, t));
            tile_run(&p);
            for (int i = 0; i < ROWS * row; i++) {
                const int r = ROWS - 1 - i / row, col = i % row / APART, byte = i % APART;
                assert_int_equal(tile_out[i], r % 2 || byte >= size
                                                  ? 0xa5
                                                  : tile_in[(r * COLS + col) * size + byte]);
            }
        }
}

/* For any layout, the first register of a wave's first lane is element (0, 0). */
TEST(the_first_lane_of_a_tile_is_a_scalar)
{
    for (unsigned order = 0; order < 24; order++) {
        struct tile_program p = tile_program();
        const struct tir_layout l = tile_layout(order);
        const struct tir_type t = tir_tile(p.f, TIR_I32, ROWS, COLS, &l);
        const struct tir_value a = tile_load(&p, t);
        const struct tir_value top = tir_row_max(&p.b, a);
        tile_keep(&p, tir_splat(&p.b, tir_first_lane(&p.b, a), t));
        tile_keep(&p, tir_splat(&p.b, tir_first_lane(&p.b, top), t));
        tile_run(&p);
        int32_t most = INT32_MIN;
        for (int i = 0; i < COLS; i++) {
            int32_t v;
            memcpy(&v, tile_in + 4 * i, 4);
            most = v > most ? v : most;
        }
        for (int i = 0; i < ELEMENTS; i++) {
            assert_memory_equal(tile_out + 4 * i, tile_in, 4);
            assert_memory_equal(tile_out + 4 * (ELEMENTS + i), &most, 4);
        }
    }
}

/* Stacks two tiles, the lower one of memory first. With `halves` they are halves of a stack. */
static void check_stacks(bool halves)
{
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct tile_program p = tile_begin(tile_dtypes[d], order, &t);
            const struct tir_view from = tile_view(&p, p.in, tile_element(tile_dtypes[d]));
            const struct tir_value low = tir_tile_load(&p.b, from, tir_i32(&p.b, ROWS), t);
            const struct tir_value high = tile_load(&p, t);
            const struct tir_value both = halves ? tir_stack(&p.b, high, low) : high;
            tile_keep(&p, tir_stack(&p.b, halves ? tir_half(&p.b, both, 1) : low,
                                    halves ? tir_half(&p.b, both, 0) : high));
            tile_run(&p);
            const size_t bytes = (size_t)(ELEMENTS * tile_element(tile_dtypes[d]));
            assert_memory_equal(tile_out, tile_in + bytes, bytes);
            assert_memory_equal(tile_out + bytes, tile_in, bytes);
        }
}

TEST(stacked_tiles_are_one_above_the_other) { check_stacks(false); }

TEST(halves_are_what_was_stacked) { check_stacks(true); }

/* Neighbouring narrow elements of a row are joined to a word, changed, and split again. */
TEST(neighbours_are_words)
{
    static const unsigned narrow_dtypes[] = {TIR_I8, TIR_FP8, TIR_I16};
    for (unsigned d = 0; d < 3; d++) {
        struct tir_type t;
        struct tile_program p = tile_begin(narrow_dtypes[d], 0, &t);
        const int bits = tile_element(t.dtype) == 1 ? 2 : 1, row = COLS * tile_element(t.dtype);
        const struct tir_layout l = tir_layout_join_cols(tir_layout_of(p.f, t), (unsigned)bits);
        const struct tir_type wide = tir_tile(p.f, TIR_I32, ROWS, COLS >> bits, &l);
        const struct tir_value a = tile_load(&p, t);
        const struct tir_value words = bits == 2 ? tir_words(&p.b, a) : tir_bitcast(&p.b, a, wide);
        tile_keep(&p, tir_bitcast(&p.b, tir_xor(&p.b, words, tir_int_like(&p.b, words, 255)), t));
        p.written = BYTES / 2;
        tile_keep(&p, words);
        tile_run(&p);
        for (int i = 0; i < ROWS; i++)
            assert_memory_equal(tile_out + BYTES / 2 + 4 * COLS * i, tile_in + row * i,
                                (size_t)row);
        for (int i = 0; i < ROWS * row; i++)
            assert_int_equal(tile_out[i], i % 4 ? tile_in[i] : tile_in[i] ^ 255);
    }
}

/* Registers hold some of the flipped columns and lanes the others. */
TEST(flipped_columns_change_places)
{
    for (unsigned order = 0; order < 24; order++) {
        struct tir_type t;
        struct tile_program p = tile_begin(TIR_I32, order, &t);
        const struct tir_value a = tile_load(&p, t);
        int n = 0;
        for (unsigned cols = 1; cols < COLS; cols <<= 1, n++)
            tile_keep(&p, tir_col_flip(&p.b, a, cols));
        tile_run(&p);
        for (int i = 0; i < n * ELEMENTS; i++) {
            const int from = i % ELEMENTS ^ 1 << i / ELEMENTS;
            assert_memory_equal(tile_out + 4 * i, tile_in + 4 * from, 4);
        }
    }
}

/* Without wave bits, the contents of each wave's tile depend only on its scalars. */
TEST(waves_have_tiles_of_their_own)
{
    enum { WAVES = 4 };
    struct tile_program p = {.f = tir_func_create("k", &test_machine, WAVES)};
    p.b = tir_at_end(p.f, p.f->body);
    p.in = tir_arg(&p.b, "in", TIR_I64);
    p.out = tir_arg(&p.b, "out", TIR_I64);
    const struct tir_layout l = tile_layout(5);
    const struct tir_type t = tir_tile(p.f, TIR_I32, ROWS, COLS, &l);
    const struct tir_value wave = tir_wave_id(&p.b);
    const struct tir_value row = tir_mul(&p.b, wave, tir_i32(&p.b, ROWS));
    const struct tir_value a = tir_tile_load(&p.b, tile_view(&p, p.in, 4), row, t);
    const struct tir_value sum = tir_broadcast(&p.b, tir_row_sum(&p.b, a), t);
    tir_tile_store(&p.b, tile_view(&p, p.out, 4), row, tir_sub(&p.b, a, sum));
    tile_run(&p);
    for (int r = 0; r < WAVES * ROWS; r++) {
        uint32_t all = 0, own, got;
        for (int i = 0; i < COLS; i++) {
            memcpy(&own, tile_in + 4 * (r * COLS + i), 4);
            all += own;
        }
        for (int i = 0; i < COLS; i++) {
            memcpy(&own, tile_in + 4 * (r * COLS + i), 4);
            memcpy(&got, tile_out + 4 * (r * COLS + i), 4);
            assert_int_equal(got, own - all);
        }
    }
}

/* Returns small integers, whose sums are all exact. */
static struct tir_value numbers_below(struct tir_builder *b, struct tir_type t, int power)
{
    t.dtype = TIR_I32;
    const struct tir_value both = tir_xor(b, tir_row_index(b, t), tir_col_index(b, t));
    const struct tir_value bits = tir_and(b, both, tir_int_like(b, both, power - 1));
    return tir_convert(b, tir_convert(b, bits, TIR_F32), TIR_BF16);
}

static struct tir_value small_numbers(struct tir_builder *b, struct tir_type t)
{
    return numbers_below(b, t, 8);
}

TEST(rows_are_multiplied_and_added_up)
{
    struct tile_program p = tile_program();
    const struct tir_layout l = tile_layout(3);
    const struct tir_type t = tir_tile(p.f, TIR_BF16, ROWS, COLS, &l);
    const struct tir_value a = tir_convert(&p.b, small_numbers(&p.b, t), TIR_F32);
    const struct tir_value twice = tir_add(&p.b, a, a);
    const struct tir_type f32 = tir_typeof(p.f, a);
    tile_keep(&p, tir_broadcast(&p.b, tir_row_dot(&p.b, a, twice), f32));
    tile_run(&p);
    for (int i = 0; i < ROWS; i++) {
        float got, sum = 0;
        for (int j = 0; j < COLS; j++)
            sum += 2 * (float)(((i ^ j) & 7) * ((i ^ j) & 7));
        for (int j = 0; j < COLS; j++) {
            memcpy(&got, tile_out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
    }
}

/* Returns a type of ROWS x COLS of bf16: a lane has all rows of a column. */
static struct tir_type rows_in_registers(struct tile_program *p)
{
    struct tir_spread s = tir_spread(&test_machine, 1);
    tir_spread_rows(&s, TIR_REGS, 4);
    tir_spread_cols(&s, TIR_LANES, 6);
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->f, TIR_BF16, ROWS, COLS, &l);
}

TEST(pairs_of_rows_are_added_in_f32)
{
    struct tile_program p = tile_program();
    const struct tir_type t = rows_in_registers(&p);
    const struct tir_value rows = small_numbers(&p.b, t);
    const struct tir_value first = tir_col_fold_sum(&p.b, tir_convert(&p.b, rows, TIR_F32));
    tile_keep(&p, tir_col_fold_dot(&p.b, rows, first));
    tile_run(&p);
    for (int j = 0; j < COLS; j++) {
        float got, sum = 0;
        for (int i = 0; i < ROWS; i++)
            sum += 2 * (float)((i ^ j) & 7);
        memcpy(&got, tile_out + 4 * j, sizeof(got));
        assert_float_equal(got, sum, 0);
    }
}

/* Even rows of the map below are in the low half of a lane's word, odd rows in the high half. */
TEST(largest_of_rows_are_found_two_at_a_time)
{
    struct tile_program p = tile_program();
    const struct tir_type t = rows_in_registers(&p);
    const struct tir_value top = tir_col_fold_top(&p.b, small_numbers(&p.b, t));
    tile_keep(&p, top);
    tile_run(&p);
    for (int j = 0; j < COLS; j++) {
        uint32_t got;
        memcpy(&got, tile_out + 4 * j, sizeof(got));
        /* All values 0 to 7 occur: 7 in rows whose last bit differs from j's, 6 in the others. */
        const uint32_t odd = 0x40e0, even = 0x40c0;
        assert_int_equal(got, j % 2 ? even << 16 | odd : odd << 16 | even);
    }
}

/* Elements beyond k are not multiplied, even if they are NaN. */
TEST(a_product_may_leave_out_the_last_columns)
{
    enum { SIZE = 32, K = 32, USED = 24, VECTOR = 4 };
    struct tile_program p = tile_program();
    struct tir_builder *b = &p.b;
    const int instr = tir_find_mma(&test_machine, SIZE, SIZE, 8, TIR_BF16);
    const struct tir_mma *const m = &test_machine.mma[instr];
    const struct tir_contraction k = tir_contract_rows(m, K, VECTOR);
    const struct tir_waves waves = {0};
    const struct tir_layout left = tir_mma_left(m, SIZE, &k, waves),
                            right = tir_mma_right(m, SIZE, &k, waves),
                            result = tir_mma_result(m, SIZE, SIZE, waves);
    const struct tir_type t = tir_tile(p.f, TIR_BF16, SIZE, K, &left);
    struct tir_type indices = t;
    indices.dtype = TIR_I32;
    const struct tir_value col = tir_col_index(b, indices);
    const struct tir_value beyond = tir_cmp_ge(b, col, tir_int_like(b, col, USED));
    const struct tir_value small = small_numbers(b, t);
    const struct tir_value a = tir_select(b, beyond, tir_float_like(b, small, NAN), small);
    const struct tir_type c = tir_tile(p.f, TIR_BF16, SIZE, K, &right);
    const struct tir_value zero =
        tir_splat(b, tir_f32(b, 0), tir_tile(p.f, TIR_F32, SIZE, SIZE, &result));
    tile_keep(&p, tir_mma_first(b, instr, a, tir_transpose(b, small_numbers(b, c)), zero, USED));
    tile_run(&p);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            float got, sum = 0;
            for (int n = 0; n < USED; n++)
                sum += (float)((i ^ n) & 7) * (float)((j ^ n) & 7);
            memcpy(&got, tile_out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
}

/* Checks a product of two by two blocks: its numbers, and which operand consecutive matrix
 * instructions share. */
static void check_blocks(bool by_rows)
{
    enum { SIZE = 32, BLOCK = 16, K = 32, VECTOR = 4, N = 8 /* instructions */ };
    struct tile_program p = tile_program();
    struct tir_builder *b = &p.b;
    const int instr = tir_find_mma(&test_machine, BLOCK, BLOCK, BLOCK, TIR_BF16);
    const struct tir_mma *const m = &test_machine.mma[instr];
    const struct tir_contraction k = tir_contract_rows(m, K, VECTOR);
    const struct tir_layout left = tir_mma_left(m, SIZE, &k, (struct tir_waves){0}),
                            right = tir_mma_right(m, SIZE, &k, (struct tir_waves){0}),
                            result = tir_mma_result(m, SIZE, SIZE, (struct tir_waves){0});
    const struct tir_value a = small_numbers(b, tir_tile(p.f, TIR_BF16, SIZE, K, &left));
    const struct tir_value rows = small_numbers(b, tir_tile(p.f, TIR_BF16, SIZE, K, &right));
    const struct tir_value c = tir_transpose(b, rows);
    const struct tir_value zero =
        tir_splat(b, tir_f32(b, 0), tir_tile(p.f, TIR_F32, SIZE, SIZE, &result));
    tile_keep(&p, by_rows ? tir_mma_by_rows(b, instr, a, c, zero) : tir_mma(b, instr, a, c, zero));
    tir_return(b);
    tir_lower_tiles(p.f, &(struct tir_schedule){0});
    tir_opt_cse(p.f, &(struct tir_schedule){0});
    tile_interpret(p.f, tile_out);
    const struct tir_op *product[N + 1];
    unsigned n = 0;
    for (uint32_t i = 0; i < p.f->body->n_ops && n <= N; i++)
        if (tir_op(p.f, p.f->body->ops[i])->opcode == TIR_mfma)
            product[n++] = tir_op(p.f, p.f->body->ops[i]);
    assert_int_equal(n, N);
    for (unsigned i = 0; i < N; i += 2) {
        const struct tir_value *const one = product[i]->operands, *const next =
                                                                      product[i + 1]->operands;
        assert_int_equal(one[0].id == next[0].id, by_rows);
        assert_int_equal(one[1].id == next[1].id, !by_rows);
    }
    tir_func_destroy(p.f);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            float got, sum = 0;
            for (int e = 0; e < K; e++)
                sum += (float)((i ^ e) & 7) * (float)((j ^ e) & 7);
            memcpy(&got, tile_out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
}

TEST(consecutive_instructions_share_rows_or_columns)
{
    check_blocks(true);
    check_blocks(false);
}

/* Rows 8 to 15 belong to the columns 16 further on, or 16 before. */
TEST(eight_rows_take_an_operand_of_32_columns)
{
    enum { SIZE = 32, HALF = 16, ROWS_OF_IT = 8, K = 16, VECTOR = 4 };
    struct tile_program p = tile_program();
    struct tir_builder *b = &p.b;
    const struct tir_mma *const m =
        &test_machine.mma[tir_find_mma(&test_machine, SIZE, SIZE, 8, TIR_BF16)];
    const int instr = tir_find_mma(&test_machine, HALF, HALF, HALF, TIR_BF16);
    const struct tir_contraction k = tir_contract_rows(m, K, VECTOR);
    const struct tir_layout right = tir_mma_right(m, SIZE, &k, (struct tir_waves){0}),
                            left = tir_mma_halves_left(&right),
                            result = tir_mma_halves_result(&test_machine.mma[instr], &right);
    const struct tir_value a = numbers_below(b, tir_tile(p.f, TIR_BF16, HALF, K, &left), HALF);
    const struct tir_value c = numbers_below(b, tir_tile(p.f, TIR_BF16, SIZE, K, &right), SIZE);
    const struct tir_type t = tir_tile(p.f, TIR_F32, ROWS_OF_IT, SIZE, &result);
    tile_keep(&p, tir_mma_halves(b, instr, a, tir_transpose(b, c), tir_splat(b, tir_f32(b, 1), t)));
    tile_run(&p);
    for (int i = 0; i < ROWS_OF_IT; i++)
        for (int j = 0; j < SIZE; j++) {
            float got, sum = 1;
            for (int n = 0; n < K; n++)
                sum += (float)(i ^ n) * (float)(j ^ n) +
                       (float)((i + ROWS_OF_IT) ^ n) * (float)(j ^ HALF ^ n);
            memcpy(&got, tile_out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
}

/* A column of 128 rows: each of 64 lanes has two registers with one row each. */
enum { COLUMN = 128 };

TEST(lanes_count_and_add_up_those_below)
{
    struct tile_program p = tile_program();
    struct tir_builder *b = &p.b;
    const struct tir_layout l = tir_spread_column(&test_machine, 1, COLUMN);
    const struct tir_type t = tir_tile(p.f, TIR_I32, COLUMN, 1, &l);
    const struct tir_value index = tir_row_index(b, t);
    const struct tir_value odd =
        tir_cmp_eq(b, tir_and(b, index, tir_int_like(b, index, 1)), tir_int_like(b, index, 1));
    const struct tir_value lane = tir_i32(b, 5);
    struct tir_view to = tile_view(&p, p.out, 4);
    to.row_stride = tir_i32(b, 4);
    const struct tir_value tiles[] = {
        tir_lanes_below(b, odd),
        tir_lane_sum_below(b, index),
        tir_splat(b, tir_lane_count(b, odd), t),
        tir_splat(b, tir_lane_read(b, index, lane), t),
        tir_splat(b, tir_convert(b, tir_shr(b, tir_lane_mask(b, odd), tir_i64(b, 33)), TIR_I32), t),
    };
    for (int i = 0; i < 5; i++)
        tir_tile_store(b, to, tir_i32(b, i * COLUMN), tiles[i]);
    p.written = 5 * COLUMN * 4;
    tile_run(&p);
    int32_t got[5][COLUMN];
    memcpy(got, tile_out, sizeof(got));
    for (int i = 0; i < COLUMN; i++) {
        const int own = i % 64, first = i - own;
        assert_int_equal(got[0][i], own / 2);
        assert_int_equal(got[1][i], first * own + own * (own - 1) / 2);
        assert_int_equal(got[2][i], COLUMN / 2);
        assert_int_equal(got[3][i], 5);
        assert_int_equal(got[4][i], 0x55555555);
    }
}

/* Returns the limit of column `col`: numbers around the rows, or a multiple of
 * 2^27 from INT32_MIN on. */
static int32_t limit_of(int col)
{
    const uint32_t far = (uint32_t)col << 26;
    return col & 1 ? col - 4 : (int32_t)far;
}

/* Returns limit_of() each column, in tiles of type `t`. */
static struct tir_value limits(struct tir_builder *b, struct tir_type t)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 0);
    const struct tir_value col = tir_col_index(b, tir_tile(b->f, TIR_I32, 1, t.cols, &l));
    const struct tir_value far = tir_shl(b, col, tir_int_like(b, col, 26));
    const struct tir_value odd =
        tir_cmp_eq(b, tir_and(b, col, tir_int_like(b, col, 1)), tir_int_like(b, col, 1));
    const struct tir_value near = tir_sub(b, col, tir_int_like(b, col, 4));
    return tir_broadcast(b, tir_select(b, odd, near, far), t);
}

TEST(row_numbers_are_compared_with_any_limits)
{
    for (unsigned order = 0; order < 24; order++) {
        struct tir_type t;
        struct tile_program p = tile_begin(TIR_I32, order, &t);
        const struct tir_value row = tir_row_index(&p.b, t), limit = limits(&p.b, t);
        tile_keep(&p, tir_zext(&p.b, tir_cmp_gt(&p.b, row, limit), TIR_I32));
        tile_keep(&p, tir_zext(&p.b, tir_cmp_lt(&p.b, row, limit), TIR_I32));
        tile_run(&p);
        int32_t got[2][ROWS][COLS];
        memcpy(got, tile_out, sizeof(got));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++) {
                assert_int_equal(got[0][i][j], i > limit_of(j));
                assert_int_equal(got[1][i][j], i < limit_of(j));
            }
    }
}

int main(void) { return run_unit_tests_after(tile_fill); }

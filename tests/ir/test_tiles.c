/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles mean the same before and after lower_tiles: each program runs in the interpreter at both
 * levels. Elements of one and two bytes, whole registers of them and parts, in every order.
 */
#include <math.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/interp.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "tests/ir/fixture.h"

enum { ROWS = 16, COLS = 64, ELEMENTS = ROWS * COLS, BYTES = 64 * 1024 };

static const unsigned dtypes[] = {TIR_I8, TIR_FP8, TIR_I16, TIR_BF16, TIR_F32};
enum { N_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* Returns a layout of 16 elements in each lane, in one of the 4! orders of its register bits. */
static struct tir_layout layout_in_order(unsigned order)
{
    uint32_t images[4] = {TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(1, 0), TIR_RC(2, 0)};
    struct tir_layout l = {
        .reg_bits = 4,
        .lane_bits = 6,
        .basis = {[4] = TIR_RC(0, 4),
                  TIR_RC(0, 8),
                  TIR_RC(0, 16),
                  TIR_RC(0, 32),
                  TIR_RC(4, 0),
                  TIR_RC(8, 0)},
    };
    for (unsigned i = 0; i < 4; i++) {
        const unsigned pick = i + order % (4 - i);
        order /= 4 - i;
        l.basis[i] = images[pick];
        images[pick] = images[i];
    }
    return l;
}

/* Fewer elements in a lane than fit in a register: two rows of one element each. */
static const struct tir_layout narrow = {
    .reg_bits = 1,
    .lane_bits = 6,
    .basis = {TIR_RC(1, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4), TIR_RC(0, 8), TIR_RC(0, 16),
              TIR_RC(0, 32)},
};

struct program {
    struct tir_func *f;
    struct tir_builder b;
    struct tir_value in, out;
    int written;      /* bytes of out */
    int scalar_loads; /* as counted */
};

static struct program begin(void)
{
    struct program p = {.f = tir_func_create("k", &test_machine, 1)};
    assert_non_null(p.f);
    p.b = tir_at_end(p.f, p.f->body);
    p.in = tir_arg(&p.b, "in", TIR_I64);
    p.out = tir_arg(&p.b, "out", TIR_I64);
    return p;
}

static struct tir_view view_of(struct program *p, struct tir_value base, int size)
{
    return (struct tir_view){tir_make_rsrc(&p->b, base, tir_i32(&p->b, BYTES)),
                             tir_i32(&p->b, COLS * size), tir_i32(&p->b, 0)};
}

static int size_of(unsigned dtype) { return (int)tir_dtype_bits(dtype) / 8; }

static struct tir_value load(struct program *p, struct tir_type t)
{
    return tir_tile_load(&p->b, view_of(p, p->in, size_of(t.dtype)), tir_i32(&p->b, 0), t);
}

static void keep(struct program *p, struct tir_value tile)
{
    const struct tir_type t = tir_typeof(p->f, tile);
    struct tir_view to = view_of(p, p->out, size_of(t.dtype));
    to.byte = tir_i32(&p->b, p->written);
    tir_tile_store(&p->b, to, tir_i32(&p->b, 0), tile);
    p->written += t.rows * t.cols * size_of(t.dtype);
}

static void interpret(struct tir_func *f, const uint8_t *in, uint8_t *out)
{
    const uint64_t kernarg[] = {(uintptr_t)in, (uintptr_t)out};
    char why[TIR_WHY];
    memset(out, 0xa5, BYTES);
    if (!tir_verify(f, "building", stderr))
        fail_msg("not sound");
    if (!tir_interpret(f, kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why))
        fail_msg("%s", why);
}

/* Runs the program on both levels, frees it, and leaves its output in `out`. */
static void both_levels_agree(struct program *p, const uint8_t *in, uint8_t *out)
{
    static uint8_t lowered[BYTES];
    assert_true(p->written <= BYTES);
    tir_return(&p->b);
    interpret(p->f, in, out);
    tir_lower_tiles(p->f, &(struct tir_schedule){0});
    interpret(p->f, in, lowered);
    for (int i = 0; i < BYTES; i++)
        if (out[i] != lowered[i])
            fail_msg("byte %d is %02x as a tile and %02x in registers", i, out[i], lowered[i]);
    tir_func_destroy(p->f);
}

/* Every byte value at every alignment. */
static uint8_t in[BYTES], out[BYTES];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < BYTES; i++)
        in[i] = (uint8_t)(i ^ i >> 8);
    return 0;
}

/* Begins a program on tiles whose layout has the order `order`. */
static struct program begin_tile(unsigned dtype, unsigned order, struct tir_type *t)
{
    struct program p = begin();
    const struct tir_layout l = layout_in_order(order);
    *t = tir_tile(p.f, dtype, ROWS, COLS, &l);
    return p;
}

static void registers_are_reordered_element_by_element(void **state)
{
    (void)state;
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct program p = begin();
            const struct tir_layout from = layout_in_order(order);
            const struct tir_value a = load(&p, tir_tile(p.f, dtypes[d], ROWS, COLS, &from));
            for (unsigned other = 0; other < 24; other += 5) {
                const struct tir_layout to = layout_in_order((order + other) % 24);
                keep(&p, tir_relayout(&p.b, a, &to));
            }
            const int bytes = ELEMENTS * size_of(dtypes[d]);
            both_levels_agree(&p, in, out);
            for (int i = 0; i < 5; i++)
                assert_memory_equal(out + i * bytes, in, (size_t)bytes);
        }
}

static void conversions_keep_every_element_in_its_place(void **state)
{
    (void)state;
    static const unsigned from[] = {TIR_I8, TIR_FP8, TIR_BF16, TIR_F32};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 2; k++) {
            struct program p = begin();
            const struct tir_layout wide = layout_in_order(7);
            const struct tir_type t =
                tir_tile(p.f, from[i], k ? 2 : ROWS, COLS, k ? &narrow : &wide);
            const struct tir_value a = load(&p, t);
            for (unsigned to = 0; to < N_DTYPES; to++)
                if (dtypes[to] != TIR_I16)
                    keep(&p, tir_convert(&p.b, a, dtypes[to]));
            both_levels_agree(&p, in, out);
        }
}

/* Returns row addresses: row i of the tile is row 15 - i of memory, or no row. */
static struct tir_value reversed_rows(struct program *p, struct tir_type t, bool gaps)
{
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(p->f, t), 1);
    const struct tir_type vector = tir_tile(p->f, TIR_I32, t.rows, 1, &rows);
    const struct tir_value row = tir_row_index(&p->b, vector);
    const struct tir_value back = tir_sub(&p->b, tir_int_like(&p->b, row, t.rows - 1), row);
    const struct tir_value at =
        tir_mul(&p->b, back, tir_int_like(&p->b, back, COLS * size_of(t.dtype)));
    struct tir_value wide = tir_convert(&p->b, at, TIR_I64);
    if (gaps) {
        const struct tir_value odd = tir_and(&p->b, row, tir_int_like(&p->b, row, 1));
        wide = tir_select(&p->b, tir_cmp_eq(&p->b, odd, tir_int_like(&p->b, odd, 1)),
                          tir_int_like(&p->b, wide, -1), wide);
    }
    return wide;
}

static void rows_anywhere_are_read_and_written(void **state)
{
    (void)state;
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct program p = begin_tile(dtypes[d], order, &t);
            const struct tir_value a =
                tir_tile_gather(&p.b, p.in, reversed_rows(&p, t, false), tir_i32(&p.b, 0), t);
            tir_tile_scatter(&p.b, p.out, reversed_rows(&p, t, true), tir_i32(&p.b, 0), a);
            both_levels_agree(&p, in, out);
            const int row = COLS * size_of(dtypes[d]);
            for (int i = 0; i < ROWS * row; i++) /* tile row i is memory row 15 - i, the odd stay */
                assert_int_equal(out[i], (ROWS - 1 - i / row) % 2 ? 0xa5 : in[i]);
        }
}

static bool count_scalar_load(void *program, struct tir_block *b, struct tir_ref ref)
{
    struct program *const p = program;
    (void)b;
    p->scalar_loads += tir_op(p->f, ref)->opcode == TIR_scalar_load;
    return false;
}

/* An index that all lanes of a wave share needs no vector load, which would wait inside the
   loop. */
static void constants_that_lanes_share_are_scalars(void **state)
{
    (void)state;
    const struct tir_layout shared = {
        .reg_bits = 4,
        .lane_bits = 6,
        .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(4, 0), TIR_RC(8, 0)},
    };
    const struct tir_layout apart = layout_in_order(0);
    for (int each = 0; each < 2; each++) {
        struct program p = begin();
        const struct tir_type t = each ? tir_tile(p.f, TIR_I32, ROWS, COLS, &apart)
                                       : tir_tile(p.f, TIR_I32, ROWS, 1, &shared);
        const struct tir_value rows = reversed_rows(&p, t, false);
        keep(&p, tir_tile_gather_constant(&p.b, p.in, rows, t));
        tir_return(&p.b);
        interpret(p.f, in, out);
        tir_lower_tiles(p.f, &(struct tir_schedule){0});
        tir_walk(p.f, p.f->body, count_scalar_load, &p);
        assert_int_equal(p.scalar_loads, each ? 0 : ROWS);
        static uint8_t lowered[BYTES];
        interpret(p.f, in, lowered);
        assert_memory_equal(lowered, out, BYTES);
        tir_func_destroy(p.f);
    }
}

/* Rows are in reverse order, and the resource ends within the last of them. */
static void rows_are_fetched_through_a_resource(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 24; order++) {
        struct program p = begin();
        struct tir_builder *b = &p.b;
        const struct tir_layout l = layout_in_order(order), column = tir_layout_slice(&l, 1);
        const struct tir_type t = tir_tile(p.f, TIR_I8, ROWS, COLS, &l);
        const struct tir_type rows = tir_tile(p.f, TIR_I32, ROWS, 1, &column);
        const struct tir_value row = tir_row_index(b, rows);
        const struct tir_value last = tir_sub(b, tir_int_like(b, row, ROWS - 1), row);
        const struct tir_value at = tir_mul(b, last, tir_int_like(b, row, COLS));
        const struct tir_value rsrc = tir_make_rsrc(b, p.in, tir_i32(b, ELEMENTS));
        keep(&p, tir_tile_fetch(b, rsrc, at, COLS, t));
        both_levels_agree(&p, in, out);
        for (int i = 0; i < ELEMENTS; i++) {
            const int from = (ROWS - i / COLS) * COLS + i % COLS;
            assert_int_equal(out[i], from < ELEMENTS ? in[from] : 0);
        }
    }
}

static void elements_of_a_row_may_lie_apart(void **state)
{
    (void)state;
    enum { APART = 8 };
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct program p = begin_tile(dtypes[d], order, &t);
            const int size = size_of(dtypes[d]), row = COLS * APART;
            const struct tir_value rows = reversed_rows(&p, t, true);
            const struct tir_value wider = tir_int_like(&p.b, rows, APART / size);
            tir_tile_scatter_apart(&p.b, p.out, tir_mul(&p.b, rows, wider), tir_i32(&p.b, 0), APART,
                                   load(&p, t));
            both_levels_agree(&p, in, out);
            for (int i = 0; i < ROWS * row; i++) {
                const int r = ROWS - 1 - i / row, col = i % row / APART, byte = i % APART;
                assert_int_equal(out[i],
                                 r % 2 || byte >= size ? 0xa5 : in[(r * COLS + col) * size + byte]);
            }
        }
}

/* For any layout, the first register of a wave's first lane is element (0, 0). */
static void the_first_lane_of_a_tile_is_a_scalar(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 24; order++) {
        struct program p = begin();
        const struct tir_layout l = layout_in_order(order);
        const struct tir_type t = tir_tile(p.f, TIR_I32, ROWS, COLS, &l);
        const struct tir_value a = load(&p, t);
        const struct tir_value top = tir_row_max(&p.b, a);
        keep(&p, tir_splat(&p.b, tir_first_lane(&p.b, a), t));
        keep(&p, tir_splat(&p.b, tir_first_lane(&p.b, top), t));
        both_levels_agree(&p, in, out);
        int32_t most = INT32_MIN;
        for (int i = 0; i < COLS; i++) {
            int32_t v;
            memcpy(&v, in + 4 * i, 4);
            most = v > most ? v : most;
        }
        for (int i = 0; i < ELEMENTS; i++) {
            assert_memory_equal(out + 4 * i, in, 4);
            assert_memory_equal(out + 4 * (ELEMENTS + i), &most, 4);
        }
    }
}

/* Stacks two tiles, the lower one of memory first. With `halves` they are halves of a stack. */
static void check_stacks(bool halves)
{
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tir_type t;
            struct program p = begin_tile(dtypes[d], order, &t);
            const struct tir_view from = view_of(&p, p.in, size_of(dtypes[d]));
            const struct tir_value low = tir_tile_load(&p.b, from, tir_i32(&p.b, ROWS), t);
            const struct tir_value high = load(&p, t);
            const struct tir_value both = halves ? tir_stack(&p.b, high, low) : high;
            keep(&p, tir_stack(&p.b, halves ? tir_half(&p.b, both, 1) : low,
                               halves ? tir_half(&p.b, both, 0) : high));
            both_levels_agree(&p, in, out);
            const size_t bytes = (size_t)(ELEMENTS * size_of(dtypes[d]));
            assert_memory_equal(out, in + bytes, bytes);
            assert_memory_equal(out + bytes, in, bytes);
        }
}

static void stacked_tiles_are_one_above_the_other(void **state)
{
    (void)state;
    check_stacks(false);
}

static void halves_are_what_was_stacked(void **state)
{
    (void)state;
    check_stacks(true);
}

/* Neighbouring narrow elements of a row are joined to a word, changed, and split again. */
static void neighbours_are_words(void **state)
{
    (void)state;
    static const unsigned narrow_dtypes[] = {TIR_I8, TIR_FP8, TIR_I16};
    for (unsigned d = 0; d < 3; d++) {
        struct tir_type t;
        struct program p = begin_tile(narrow_dtypes[d], 0, &t);
        const int bits = size_of(t.dtype) == 1 ? 2 : 1, row = COLS * size_of(t.dtype);
        const struct tir_layout l = tir_layout_join_cols(tir_layout_of(p.f, t), (unsigned)bits);
        const struct tir_type wide = tir_tile(p.f, TIR_I32, ROWS, COLS >> bits, &l);
        const struct tir_value a = load(&p, t);
        const struct tir_value words = bits == 2 ? tir_words(&p.b, a) : tir_bitcast(&p.b, a, wide);
        keep(&p, tir_bitcast(&p.b, tir_xor(&p.b, words, tir_int_like(&p.b, words, 255)), t));
        p.written = BYTES / 2;
        keep(&p, words);
        both_levels_agree(&p, in, out);
        for (int i = 0; i < ROWS; i++)
            assert_memory_equal(out + BYTES / 2 + 4 * COLS * i, in + row * i, (size_t)row);
        for (int i = 0; i < ROWS * row; i++)
            assert_int_equal(out[i], i % 4 ? in[i] : in[i] ^ 255);
    }
}

/* Registers hold some of the flipped columns and lanes the others. */
static void flipped_columns_change_places(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 24; order++) {
        struct tir_type t;
        struct program p = begin_tile(TIR_I32, order, &t);
        const struct tir_value a = load(&p, t);
        int n = 0;
        for (unsigned cols = 1; cols < COLS; cols <<= 1, n++)
            keep(&p, tir_col_flip(&p.b, a, cols));
        both_levels_agree(&p, in, out);
        for (int i = 0; i < n * ELEMENTS; i++) {
            const int from = i % ELEMENTS ^ 1 << i / ELEMENTS;
            assert_memory_equal(out + 4 * i, in + 4 * from, 4);
        }
    }
}

/* Without wave bits, the contents of each wave's tile depend only on its scalars. */
static void waves_have_tiles_of_their_own(void **state)
{
    (void)state;
    enum { WAVES = 4 };
    struct program p = {.f = tir_func_create("k", &test_machine, WAVES)};
    p.b = tir_at_end(p.f, p.f->body);
    p.in = tir_arg(&p.b, "in", TIR_I64);
    p.out = tir_arg(&p.b, "out", TIR_I64);
    const struct tir_layout l = layout_in_order(5);
    const struct tir_type t = tir_tile(p.f, TIR_I32, ROWS, COLS, &l);
    const struct tir_value wave = tir_wave_id(&p.b);
    const struct tir_value row = tir_mul(&p.b, wave, tir_i32(&p.b, ROWS));
    const struct tir_value a = tir_tile_load(&p.b, view_of(&p, p.in, 4), row, t);
    const struct tir_value sum = tir_broadcast(&p.b, tir_row_sum(&p.b, a), t);
    tir_tile_store(&p.b, view_of(&p, p.out, 4), row, tir_sub(&p.b, a, sum));
    both_levels_agree(&p, in, out);
    for (int r = 0; r < WAVES * ROWS; r++) {
        uint32_t all = 0, own, got;
        for (int i = 0; i < COLS; i++) {
            memcpy(&own, in + 4 * (r * COLS + i), 4);
            all += own;
        }
        for (int i = 0; i < COLS; i++) {
            memcpy(&own, in + 4 * (r * COLS + i), 4);
            memcpy(&got, out + 4 * (r * COLS + i), 4);
            assert_int_equal(got, own - all);
        }
    }
}

static void lds_holds_elements_of_every_size(void **state)
{
    (void)state;
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct program p = begin();
            const struct tir_layout l = layout_in_order(order), back = layout_in_order(23 - order);
            const struct tir_layout map = tir_row_major(ROWS, COLS);
            const struct tir_type t = tir_tile(p.f, dtypes[d], ROWS, COLS, &l);
            const struct tir_type to = tir_tile(p.f, dtypes[d], ROWS, COLS, &back);
            const unsigned bytes = ELEMENTS * (unsigned)size_of(dtypes[d]);
            const struct tir_value lds = tir_lds_buffer(&p.b, bytes, 16);
            tir_tile_lds_store(&p.b, lds, load(&p, t), &map);
            tir_barrier(&p.b);
            keep(&p, tir_tile_lds_load(&p.b, lds, to, &map));
            both_levels_agree(&p, in, out);
            assert_memory_equal(out, in, bytes);
        }
}

/* Loads a quarter of the columns at a time, from panels whose rows flip columns that lanes have,
 * with odd rows after all even ones. */
static void lds_loads_begin_with_any_column(void **state)
{
    (void)state;
    enum { QUARTERS = 4, WIDTH = COLS / QUARTERS, PANEL = COLS / 2 };
    struct tir_layout map = tir_row_pairs(ROWS, COLS, PANEL);
    tir_map_flip(&map, tir_bits(PANEL), TIR_RC(0, PANEL / 4));
    tir_map_flip(&map, map.reg_bits - 1u, TIR_RC(0, PANEL / 2));
    struct tir_spread s = tir_spread(&test_machine, 1);
    tir_spread_cols(&s, TIR_REGS, 2);
    tir_spread_cols(&s, TIR_LANES, 2);
    tir_spread_rows(&s, TIR_LANES, 4);
    const struct tir_layout narrow = tir_spread_layout(&s);
    for (unsigned order = 0; order < 24; order++) {
        struct program p = begin();
        const struct tir_layout l = layout_in_order(order);
        const struct tir_type part = tir_tile(p.f, TIR_BF16, ROWS, WIDTH, &narrow);
        const struct tir_value lds = tir_lds_buffer(&p.b, 2 * ELEMENTS, 16);
        tir_tile_lds_store(&p.b, lds, load(&p, tir_tile(p.f, TIR_BF16, ROWS, COLS, &l)), &map);
        tir_barrier(&p.b);
        for (unsigned i = 0; i < QUARTERS; i++) {
            struct tir_view to = view_of(&p, p.out, 2);
            to.byte = tir_i32(&p.b, (int)(i * WIDTH * 2));
            tir_tile_store(&p.b, to, tir_i32(&p.b, 0),
                           tir_tile_lds_load_from(&p.b, lds, part, &map, i * WIDTH));
        }
        both_levels_agree(&p, in, out);
        assert_memory_equal(out, in, 2 * ELEMENTS);
    }
}

/* Gaps are as large as the spans between them, so no access may cross a gap. */
static void lds_elements_may_have_gaps(void **state)
{
    (void)state;
    for (unsigned d = 0; d < N_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++)
            for (uint8_t shift = 0; shift < 4; shift++) {
                struct program p = begin();
                const struct tir_layout l = layout_in_order(order);
                const struct tir_layout dense = tir_row_major(ROWS, COLS);
                struct tir_layout gaps = dense;
                gaps.pad_shift = shift;
                gaps.pad = (uint8_t)(1u << shift);
                const struct tir_type t = tir_tile(p.f, dtypes[d], ROWS, COLS, &l);
                const int size = size_of(dtypes[d]), bytes = ELEMENTS * size;
                const struct tir_value lds = tir_lds_buffer(&p.b, 2 * (unsigned)bytes, 16);
                const struct tir_value upper = tir_add(&p.b, lds, tir_i32(&p.b, bytes));
                const struct tir_value v = load(&p, t);
                tir_tile_lds_store(&p.b, lds, v, &dense);
                tir_tile_lds_store(&p.b, upper, v, &dense);
                tir_barrier(&p.b);
                tir_tile_lds_store(&p.b, lds, v, &gaps);
                tir_barrier(&p.b);
                keep(&p, tir_tile_lds_load(&p.b, lds, t, &dense));
                keep(&p, tir_tile_lds_load(&p.b, upper, t, &dense));
                both_levels_agree(&p, in, out);
                for (int i = 0; i < ELEMENTS; i++) {
                    const int at = i + (i >> shift << shift), hole = at + (1 << shift);
                    assert_memory_equal(out + at * size, in + i * size, (size_t)size);
                    assert_memory_equal(out + hole * size, in + hole % ELEMENTS * size,
                                        (size_t)size);
                }
            }
}

/* Padding follows spans of less than a row to four rows, and registers continue in the last one. */
static void columns_that_are_not_there_are_the_padding(void **state)
{
    (void)state;
    enum { BF16_ONE = 0x3f80, WORD = 0x3f803f80, PAD = 8, THERE = 40 };
    for (unsigned order = 0; order < 24; order++)
        for (uint8_t shift = 5; shift < 9; shift++) {
            struct program p = begin();
            struct tir_builder *b = &p.b;
            const struct tir_layout l = layout_in_order(order);
            struct tir_layout map = tir_row_major(ROWS, COLS);
            map.pad_shift = shift;
            map.pad = PAD;
            const struct tir_type t = tir_tile(p.f, TIR_BF16, ROWS, COLS, &l);
            const unsigned bytes = 2 * (ELEMENTS + (ELEMENTS >> shift) * PAD);
            const struct tir_value lds = tir_lds_buffer(b, bytes, 16);
            const struct tir_layout words = tir_spread_column(&test_machine, 1, 2 * ELEMENTS);
            const struct tir_type w = tir_tile(p.f, TIR_I32, 2 * ELEMENTS, 1, &words);
            const struct tir_value index = tir_row_index(b, w);
            const struct tir_value at =
                tir_add(b, tir_shl(b, index, tir_int_like(b, index, 2)), tir_splat(b, lds, w));
            tir_lds_scatter_if(b, tir_cmp_lt(b, index, tir_int_like(b, index, bytes / 4)), at,
                               tir_int_like(b, at, WORD));
            tir_barrier(b);
            tir_tile_lds_store(b, lds, load(&p, t), &map);
            tir_barrier(b);
            keep(&p, tir_tile_lds_load_first(b, lds, t, &map, THERE));
            both_levels_agree(&p, in, out);
            for (unsigned i = 0; i < ELEMENTS; i++) {
                const uint16_t one = BF16_ONE;
                assert_memory_equal(out + 2 * i,
                                    i % COLS < THERE ? &in[2 * i] : (const uint8_t *)&one, 2);
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

static void rows_are_multiplied_and_added_up(void **state)
{
    (void)state;
    struct program p = begin();
    const struct tir_layout l = layout_in_order(3);
    const struct tir_type t = tir_tile(p.f, TIR_BF16, ROWS, COLS, &l);
    const struct tir_value a = tir_convert(&p.b, small_numbers(&p.b, t), TIR_F32);
    const struct tir_value twice = tir_add(&p.b, a, a);
    const struct tir_type f32 = tir_typeof(p.f, a);
    keep(&p, tir_broadcast(&p.b, tir_row_dot(&p.b, a, twice), f32));
    both_levels_agree(&p, in, out);
    for (int i = 0; i < ROWS; i++) {
        float got, sum = 0;
        for (int j = 0; j < COLS; j++)
            sum += 2 * (float)(((i ^ j) & 7) * ((i ^ j) & 7));
        for (int j = 0; j < COLS; j++) {
            memcpy(&got, out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
    }
}

/* Returns a type of ROWS x COLS of bf16: a lane has all rows of a column. */
static struct tir_type rows_in_registers(struct program *p)
{
    struct tir_spread s = tir_spread(&test_machine, 1);
    tir_spread_rows(&s, TIR_REGS, 4);
    tir_spread_cols(&s, TIR_LANES, 6);
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->f, TIR_BF16, ROWS, COLS, &l);
}

static void pairs_of_rows_are_added_in_f32(void **state)
{
    (void)state;
    struct program p = begin();
    const struct tir_type t = rows_in_registers(&p);
    const struct tir_value rows = small_numbers(&p.b, t);
    const struct tir_value first = tir_col_fold_sum(&p.b, tir_convert(&p.b, rows, TIR_F32));
    keep(&p, tir_col_fold_dot(&p.b, rows, first));
    both_levels_agree(&p, in, out);
    for (int j = 0; j < COLS; j++) {
        float got, sum = 0;
        for (int i = 0; i < ROWS; i++)
            sum += 2 * (float)((i ^ j) & 7);
        memcpy(&got, out + 4 * j, sizeof(got));
        assert_float_equal(got, sum, 0);
    }
}

/* Even rows of the map below are in the low half of a lane's word, odd rows in the high half. */
static void largest_of_rows_are_found_two_at_a_time(void **state)
{
    (void)state;
    struct program p = begin();
    const struct tir_type t = rows_in_registers(&p);
    const struct tir_value top = tir_col_fold_top(&p.b, small_numbers(&p.b, t));
    keep(&p, top);
    both_levels_agree(&p, in, out);
    for (int j = 0; j < COLS; j++) {
        uint32_t got;
        memcpy(&got, out + 4 * j, sizeof(got));
        /* All values 0 to 7 occur: 7 in rows whose last bit differs from j's, 6 in the others. */
        const uint32_t odd = 0x40e0, even = 0x40c0;
        assert_int_equal(got, j % 2 ? even << 16 | odd : odd << 16 | even);
    }
}

/* Elements beyond k are not multiplied, even if they are NaN. */
static void a_product_may_leave_out_the_last_columns(void **state)
{
    (void)state;
    enum { SIZE = 32, K = 32, USED = 24, VECTOR = 4 };
    struct program p = begin();
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
    keep(&p, tir_mma_first(b, instr, a, tir_transpose(b, small_numbers(b, c)), zero, USED));
    both_levels_agree(&p, in, out);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            float got, sum = 0;
            for (int n = 0; n < USED; n++)
                sum += (float)((i ^ n) & 7) * (float)((j ^ n) & 7);
            memcpy(&got, out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
}

/* Rows 8 to 15 belong to the columns 16 further on, or 16 before. */
static void eight_rows_take_an_operand_of_32_columns(void **state)
{
    (void)state;
    enum { SIZE = 32, HALF = 16, ROWS_OF_IT = 8, K = 16, VECTOR = 4 };
    struct program p = begin();
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
    keep(&p, tir_mma_halves(b, instr, a, tir_transpose(b, c), tir_splat(b, tir_f32(b, 1), t)));
    both_levels_agree(&p, in, out);
    for (int i = 0; i < ROWS_OF_IT; i++)
        for (int j = 0; j < SIZE; j++) {
            float got, sum = 1;
            for (int n = 0; n < K; n++)
                sum += (float)(i ^ n) * (float)(j ^ n) +
                       (float)((i + ROWS_OF_IT) ^ n) * (float)(j ^ HALF ^ n);
            memcpy(&got, out + 4 * (i * COLS + j), sizeof(got));
            assert_float_equal(got, sum, 0);
        }
}

/* Two registers of a row a lane each. */
enum { COLUMN = 128, MODULUS = 7 };

static struct tir_value address_of(struct tir_builder *b, struct tir_value lds,
                                   struct tir_value index)
{
    const struct tir_type t = tir_typeof(b->f, index);
    return tir_add(b, tir_shl(b, index, tir_int_like(b, index, 2)), tir_splat(b, lds, t));
}

static void lanes_count_and_add_up_those_below(void **state)
{
    (void)state;
    struct program p = begin();
    struct tir_builder *b = &p.b;
    const struct tir_layout l = tir_spread_column(&test_machine, 1, COLUMN);
    const struct tir_type t = tir_tile(p.f, TIR_I32, COLUMN, 1, &l);
    const struct tir_value index = tir_row_index(b, t);
    const struct tir_value odd =
        tir_cmp_eq(b, tir_and(b, index, tir_int_like(b, index, 1)), tir_int_like(b, index, 1));
    const struct tir_value lane = tir_i32(b, 5);
    struct tir_view to = view_of(&p, p.out, 4);
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
    both_levels_agree(&p, in, out);
    int32_t got[5][COLUMN];
    memcpy(got, out, sizeof(got));
    for (int i = 0; i < COLUMN; i++) {
        const int own = i % 64, first = i - own;
        assert_int_equal(got[0][i], own / 2);
        assert_int_equal(got[1][i], first * own + own * (own - 1) / 2);
        assert_int_equal(got[2][i], COLUMN / 2);
        assert_int_equal(got[3][i], 5);
        assert_int_equal(got[4][i], 0x55555555);
    }
}

static void lds_elements_have_addresses_of_their_own(void **state)
{
    (void)state;
    struct program p = begin();
    struct tir_builder *b = &p.b;
    const struct tir_layout l = tir_spread_column(&test_machine, 1, COLUMN);
    const struct tir_type t = tir_tile(p.f, TIR_I32, COLUMN, 1, &l);
    const struct tir_value index = tir_row_index(b, t), lds = tir_lds_buffer(b, COLUMN * 4, 16);
    const struct tir_value all =
        tir_splat(b, tir_bool(b, true), tir_typeof(b->f, tir_cmp_eq(b, index, index)));
    const struct tir_value last = tir_sub(b, tir_int_like(b, index, COLUMN - 1), index);
    tir_lds_scatter_if(b, all, address_of(b, lds, last), index);
    tir_barrier(b);
    const struct tir_value bin = tir_rem(b, index, tir_int_like(b, index, MODULUS));
    const struct tir_value some = tir_cmp_ne(b, bin, tir_int_like(b, index, 3));
    tir_lds_add_if(b, some, address_of(b, lds, bin), tir_int_like(b, index, 1000));
    tir_barrier(b);
    struct tir_view to = view_of(&p, p.out, 4);
    to.row_stride = tir_i32(b, 4);
    tir_tile_store(b, to, tir_i32(b, 0), tir_lds_gather(b, address_of(b, lds, index), TIR_I32));
    p.written = COLUMN * 4;
    both_levels_agree(&p, in, out);
    int32_t got[COLUMN];
    memcpy(got, out, sizeof(got));
    for (int i = 0; i < COLUMN; i++) {
        int n = 0;
        for (int k = 0; k < COLUMN; k++)
            n += k % MODULUS == i && i != 3;
        assert_int_equal(got[i], COLUMN - 1 - i + 1000 * n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_are_reordered_element_by_element),
        cmocka_unit_test(conversions_keep_every_element_in_its_place),
        cmocka_unit_test(rows_anywhere_are_read_and_written),
        cmocka_unit_test(elements_of_a_row_may_lie_apart),
        cmocka_unit_test(constants_that_lanes_share_are_scalars),
        cmocka_unit_test(rows_are_fetched_through_a_resource),
        cmocka_unit_test(the_first_lane_of_a_tile_is_a_scalar),
        cmocka_unit_test(stacked_tiles_are_one_above_the_other),
        cmocka_unit_test(halves_are_what_was_stacked),
        cmocka_unit_test(neighbours_are_words),
        cmocka_unit_test(flipped_columns_change_places),
        cmocka_unit_test(waves_have_tiles_of_their_own),
        cmocka_unit_test(lds_holds_elements_of_every_size),
        cmocka_unit_test(lds_loads_begin_with_any_column),
        cmocka_unit_test(lds_elements_may_have_gaps),
        cmocka_unit_test(columns_that_are_not_there_are_the_padding),
        cmocka_unit_test(rows_are_multiplied_and_added_up),
        cmocka_unit_test(pairs_of_rows_are_added_in_f32),
        cmocka_unit_test(largest_of_rows_are_found_two_at_a_time),
        cmocka_unit_test(a_product_may_leave_out_the_last_columns),
        cmocka_unit_test(eight_rows_take_an_operand_of_32_columns),
        cmocka_unit_test(lanes_count_and_add_up_those_below),
        cmocka_unit_test(lds_elements_have_addresses_of_their_own),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the ops that store tiles in LDS and load them from there, at both levels of the IR.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "tests/ir/tile_program.h"

TEST(lds_holds_elements_of_every_size)
{
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++) {
            struct tile_program p = tile_program();
            const struct tir_layout l = tile_layout(order), back = tile_layout(23 - order);
            const struct tir_layout map = tir_row_major(ROWS, COLS);
            const struct tir_type t = tir_tile(p.f, tile_dtypes[d], ROWS, COLS, &l);
            const struct tir_type to = tir_tile(p.f, tile_dtypes[d], ROWS, COLS, &back);
            const unsigned bytes = ELEMENTS * (unsigned)tile_element(tile_dtypes[d]);
            const struct tir_value lds = tir_lds_buffer(&p.b, bytes, 16);
            tir_tile_lds_store(&p.b, lds, tile_load(&p, t), &map);
            tir_barrier(&p.b);
            tile_keep(&p, tir_tile_lds_load(&p.b, lds, to, &map));
            tile_run(&p);
            assert_memory_equal(tile_out, tile_in, bytes);
        }
}

/* Loads a quarter of the columns at a time, from panels whose rows flip columns that lanes have,
 * with odd rows after all even ones. */
TEST(lds_loads_begin_with_any_column)
{
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
        struct tile_program p = tile_program();
        const struct tir_layout l = tile_layout(order);
        const struct tir_type part = tir_tile(p.f, TIR_BF16, ROWS, WIDTH, &narrow);
        const struct tir_value lds = tir_lds_buffer(&p.b, 2 * ELEMENTS, 16);
        tir_tile_lds_store(&p.b, lds, tile_load(&p, tir_tile(p.f, TIR_BF16, ROWS, COLS, &l)), &map);
        tir_barrier(&p.b);
        for (unsigned i = 0; i < QUARTERS; i++) {
            struct tir_view to = tile_view(&p, p.out, 2);
            to.byte = tir_i32(&p.b, (int)(i * WIDTH * 2));
            tir_tile_store(&p.b, to, tir_i32(&p.b, 0),
                           tir_tile_lds_load_from(&p.b, lds, part, &map, i * WIDTH));
        }
        tile_run(&p);
        assert_memory_equal(tile_out, tile_in, 2 * ELEMENTS);
    }
}

/* Gaps are as large as the spans of elements between them, so an access must not include a gap. */
TEST(lds_elements_may_have_gaps)
{
    for (unsigned d = 0; d < TILE_DTYPES; d++)
        for (unsigned order = 0; order < 24; order++)
            for (uint8_t shift = 0; shift < 4; shift++) {
                struct tile_program p = tile_program();
                const struct tir_layout l = tile_layout(order);
                const struct tir_layout dense = tir_row_major(ROWS, COLS);
                struct tir_layout gaps = dense;
                gaps.pad_shift = shift;
                gaps.pad = (uint8_t)(1u << shift);
                const struct tir_type t = tir_tile(p.f, tile_dtypes[d], ROWS, COLS, &l);
                const int size = tile_element(tile_dtypes[d]), bytes = ELEMENTS * size;
                const struct tir_value lds = tir_lds_buffer(&p.b, 2 * (unsigned)bytes, 16);
                const struct tir_value upper = tir_add(&p.b, lds, tir_i32(&p.b, bytes));
                const struct tir_value v = tile_load(&p, t);
                tir_tile_lds_store(&p.b, lds, v, &dense);
                tir_tile_lds_store(&p.b, upper, v, &dense);
                tir_barrier(&p.b);
                tir_tile_lds_store(&p.b, lds, v, &gaps);
                tir_barrier(&p.b);
                tile_keep(&p, tir_tile_lds_load(&p.b, lds, t, &dense));
                tile_keep(&p, tir_tile_lds_load(&p.b, upper, t, &dense));
                tile_run(&p);
                for (int i = 0; i < ELEMENTS; i++) {
                    const int at = i + (i >> shift << shift), hole = at + (1 << shift);
                    assert_memory_equal(tile_out + at * size, tile_in + i * size, (size_t)size);
                    assert_memory_equal(tile_out + hole * size, tile_in + hole % ELEMENTS * size,
                                        (size_t)size);
                }
            }
}

/* A load of the first THERE columns reads the padding, here 1, in place of the others. Padding
 * follows spans of half a row to four rows. */
TEST(columns_that_are_not_there_are_the_padding)
{
    enum { BF16_ONE = 0x3f80, WORD = 0x3f803f80, PAD = 8, THERE = 40 };
    for (unsigned order = 0; order < 24; order++)
        for (uint8_t shift = 5; shift < 9; shift++) {
            struct tile_program p = tile_program();
            struct tir_builder *b = &p.b;
            const struct tir_layout l = tile_layout(order);
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
            tir_tile_lds_store(b, lds, tile_load(&p, t), &map);
            tir_barrier(b);
            tile_keep(&p, tir_tile_lds_load_first(b, lds, t, &map, THERE));
            tile_run(&p);
            for (unsigned i = 0; i < ELEMENTS; i++) {
                const uint16_t one = BF16_ONE;
                assert_memory_equal(tile_out + 2 * i,
                                    i % COLS < THERE ? &tile_in[2 * i] : (const uint8_t *)&one, 2);
            }
        }
}

/* A column of 128 rows: each of 64 lanes has two registers with one row each. */
enum { COLUMN = 128, MODULUS = 7 };

static struct tir_value address_of(struct tir_builder *b, struct tir_value lds,
                                   struct tir_value index)
{
    const struct tir_type t = tir_typeof(b->f, index);
    return tir_add(b, tir_shl(b, index, tir_int_like(b, index, 2)), tir_splat(b, lds, t));
}

TEST(lds_elements_have_addresses_of_their_own)
{
    struct tile_program p = tile_program();
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
    struct tir_view to = tile_view(&p, p.out, 4);
    to.row_stride = tir_i32(b, 4);
    tir_tile_store(b, to, tir_i32(b, 0), tir_lds_gather(b, address_of(b, lds, index), TIR_I32));
    p.written = COLUMN * 4;
    tile_run(&p);
    int32_t got[COLUMN];
    memcpy(got, tile_out, sizeof(got));
    for (int i = 0; i < COLUMN; i++) {
        int n = 0;
        for (int k = 0; k < COLUMN; k++)
            n += k % MODULUS == i && i != 3;
        assert_int_equal(got[i], COLUMN - 1 - i + 1000 * n);
    }
}

int main(void) { return run_unit_tests_after(tile_fill); }

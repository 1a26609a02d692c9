/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the tensor data mover of gfx1250: padding, elements beyond the tensor, iteration, waits. */
#include <string.h>

#include "tools/hipsim/tests/device.h"

static struct program wave32(void)
{
    struct program p = program_new(GFX1250);
    p.block = 32;
    return p;
}

enum { ROWS = 6, COLUMNS = 24, TILE_ROWS = 5, TILE_COLUMNS = 16, PADDED = 20 };

/* Copies a tile of dwords. Two of its rows are outside of the tensor, and LDS has 4 dwords of
 * padding after each row. */
TEST(the_tensor_mover_copies_a_tile)
{
    uint32_t data[ROWS][COLUMNS], out[TILE_ROWS * PADDED];
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        data[i / COLUMNS][i % COLUMNS] = 1000 + i;
    void *memory = device_alloc(sizeof(data), data), *copy = device_alloc(sizeof(out), out);
    struct program p = wave32();
    const uint64_t tile = (uint64_t)(uintptr_t)memory + (3 * COLUMNS + 12) * 4;
    p.lds_bytes = 1024;
    p.s[0] = 1;  /* valid */
    p.s[1] = 64; /* LDS address */
    p.s[2] = (uint32_t)tile;
    p.s[3] = (uint32_t)(tile >> 32) | 2u << 30;
    p.s[4] = 2u << 16 | 1u << 20 | 3u << 22 | 3u << 25; /* dwords; 4 dwords of padding after 16 */
    p.s[5] = (COLUMNS - 12) << 16;                      /* tensor_dim0 */
    p.s[6] = (ROWS - 3) << 16;                          /* tensor_dim1 */
    p.s[7] = (uint32_t)TILE_COLUMNS << 16;
    p.s[8] = TILE_ROWS;
    p.s[9] = COLUMNS; /* stride */
    p.s[10] = p.s[11] = 0;
    program_s64_set(&p, 12, (uint64_t)(uintptr_t)copy);
    program_lanes(&p, 1, 4);
    program_run(&p, "tensor_load_to_lds s[0:3], s[4:11]\n"
                    "s_wait_tensorcnt 0\n"
                    "ds_load_b32 v2, v1 offset:64\n"
                    "ds_load_b32 v3, v1 offset:224\n"
                    "s_wait_dscnt 0\n");
    for (unsigned l = 0; l < 32; l++) {
        const unsigned row = l / PADDED, column = l % PADDED;
        if (column >= TILE_COLUMNS)
            continue;
        assert_int_equal(p.v[2][l], column < 12 ? data[3 + row][12 + column] : 0);
        assert_int_equal(p.v[3][l], row == 0 && column < 12 ? data[5][12 + column] : 0);
    }
    /* AMD's assembler leaves DIM, DMASK and VADDR4 0. A tensor without rows gives zeros. A
     * descriptor without a type copies nothing. */
    struct program empty = p, untyped = p;
    empty.s[6] = 0;
    untyped.s[3] &= ~(2u << 30);
    static const char load[] = "ds_store_b32 v1, v1 offset:64\n"
                               "s_wait_dscnt 0\n"
                               ".long 0xd0310000, 0, 0x7c7c0400\n"
                               "s_wait_tensorcnt 0\n"
                               "ds_load_b32 v2, v1 offset:64\n"
                               "s_wait_dscnt 0\n";
    program_run(&empty, load);
    program_run(&untyped, load);
    for (unsigned l = 0; l < 16; l++) {
        assert_int_equal(empty.v[2][l], 0);
        assert_int_equal(untyped.v[2][l], 4 * l);
    }
    struct program early = p;
    early.s[0] = 1;
    program_try(&early, "tensor_load_to_lds s[0:3], s[4:11]\nds_load_b32 v2, v1 offset:64\n");
    assert_int_equal(early.fault.kind, FAULT_WAIT);
    hipsim_mem_free(memory);
    hipsim_mem_free(copy);
}

/* Checks that descriptors are refused that differ from the iterating one of `p`: with 257 tiles,
 * where LLVM's dialect amdgpu allows 256, and of a gather, which has its rows in that place. */
static void expect_refused_iterations(struct program p)
{
    struct program many = p;
    many.s[15] = 256 << 16;
    program_try(&many, "tensor_load_to_lds s[0:3], s[4:11], s[12:15], s[16:19]\n");
    assert_int_equal(many.fault.kind, FAULT_TRAP);
    assert_non_null(strstr(many.fault.text, "more than 256 iterations"));
    p.s[0] |= 1u << 31;
    program_try(&p, "tensor_load_to_lds s[0:3], s[4:11], s[12:15], s[16:19]\n");
    assert_int_equal(p.fault.kind, FAULT_TRAP);
}

/* Copies every second row of a tensor, each as a tile of its own, 80 bytes apart in LDS. */
TEST(the_tensor_mover_iterates)
{
    enum { TILES = 3, WIDTH = 8, APART = 20 };
    (void)state;
    uint32_t data[ROWS][COLUMNS], out[ROWS][COLUMNS] = {0};
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        data[i / COLUMNS][i % COLUMNS] = 1000 + i;
    void *memory = device_alloc(sizeof(data), data), *copy = device_alloc(sizeof(out), out);
    const uint64_t from = (uint64_t)(uintptr_t)memory + 4 * 4, to = (uint64_t)(uintptr_t)copy;
    struct program p = wave32();
    p.lds_bytes = 1024;
    p.s[0] = 1;  /* valid */
    p.s[1] = 64; /* LDS address */
    p.s[2] = (uint32_t)from;
    p.s[3] = (uint32_t)(from >> 32) | 2u << 30;
    p.s[4] = 2u << 16 | 1u << 19; /* dwords; iteration */
    p.s[5] = (COLUMNS - 4) << 16; /* tensor_dim0 */
    p.s[6] = 1 << 16;             /* tensor_dim1 */
    p.s[7] = (uint32_t)WIDTH << 16;
    p.s[8] = 1; /* tile_dim1 */
    p.s[9] = COLUMNS;
    p.s[10] = p.s[11] = p.s[12] = 0;
    program_s64_set(&p, 16, 0);
    program_s64_set(&p, 18, 0);
    p.s[13] = APART;             /* LDS increment, in elements */
    p.s[14] = 2 * COLUMNS;       /* increment in memory */
    p.s[15] = (TILES - 1) << 16; /* tiles - 1 */
    program_lanes(&p, 1, 4);
    program_run(&p, "ds_store_b32 v1, v1 offset:64\n"
                    "ds_store_b32 v1, v1 offset:192\n"
                    "s_wait_dscnt 0\n"
                    "tensor_load_to_lds s[0:3], s[4:11], s[12:15], s[16:19]\n"
                    "s_wait_tensorcnt 0\n"
                    "ds_load_b32 v2, v1 offset:64\n"
                    "ds_load_b32 v3, v1 offset:192\n"
                    "s_wait_dscnt 0\n");
    for (unsigned i = 0; i < 64; i++) {
        const unsigned tile = i / APART, column = i % APART, got = p.v[2 + i / 32][i % 32];
        const bool copied = tile < TILES && column < WIDTH;
        assert_int_equal(got, copied ? data[2 * tile][4 + column] : 4 * (i % 32));
    }
    /* The store writes each tile to the address that its descriptor has. */
    p.s[2] = (uint32_t)to;
    p.s[3] = (uint32_t)(to >> 32) | 2u << 30;
    program_run(&p, "ds_store_b32 v1, v1 offset:64\n"
                    "ds_store_b32 v1, v1 offset:192\n"
                    "s_wait_dscnt 0\n"
                    "tensor_store_from_lds s[0:3], s[4:11], s[12:15], s[16:19]\n"
                    "s_wait_tensorcnt 0\n");
    memcpy(out, copy, sizeof(out));
    for (unsigned i = 0; i < ROWS * COLUMNS; i++) {
        const unsigned row = i / COLUMNS, column = i % COLUMNS;
        const unsigned at = row / 2 * APART + column;
        assert_int_equal(out[row][column], row % 2 || column >= WIDTH ? 0 : 4 * (at % 32));
    }
    expect_refused_iterations(p);
    hipsim_mem_free(memory);
    hipsim_mem_free(copy);
}

int main(void) { return run_unit_tests(); }

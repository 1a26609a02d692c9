/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the loops over all lanes with a loop over single lanes, for each instruction set of the
 * host. */
#include <string.h>

#include "tests/unit_test.h"
#include "tools/hipsim/exec/lane_mem.h"
#include "tools/hipsim/exec/tables.h"

enum { BYTES = 512, ROUNDS = 200 };

static const enum host_isa isas[] = {HOST_PLAIN, HOST_AVX2, HOST_AVX512};

static uint32_t random32(void)
{
    static uint32_t state = 1;

    state = state * 1664525 + 1013904223;
    return state >> 16 | state << 16;
}

static void fill(void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = (uint8_t)random32();
}

/* Makes random addresses of any alignment. Some are equal and some accesses overlap. */
static void make_access(struct lane_mem *m, uint8_t *base)
{
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        m->addr[l] = random32() % (BYTES - 16);
        m->ptr[l] = base + m->addr[l];
    }
}

TEST(test_addresses)
{
    for (unsigned k = 0; k < sizeof(isas) / sizeof(*isas); k++) {
        if (!host_isa_supported(isas[k]))
            continue;
        host_isa_force(isas[k]);
        for (unsigned round = 0; round < ROUNDS; round++) {
            const uint32_t offset = random32() % 65536;
            const uint64_t stride = round % 2 ? 96 : 0;
            uint64_t low = UINT64_MAX, top = 0, bits = 0;
            static uint8_t base[1];
            uint32_t row[WAVE_LANES];
            struct lane_mem m;
            fill(row, sizeof(row));
            lane_loops()->address(row, offset, m.addr);
            const uint64_t highest = lane_loops()->resolve(&m, base, stride);
            for (unsigned l = 0; l < WAVE_LANES; l++) {
                const uint64_t at = (uint32_t)(row[l] + offset);
                assert_int_equal(m.addr[l], at);
                assert_ptr_equal(m.ptr[l], (void *)((uintptr_t)base + l * stride + at));
                low = at < low ? at : low;
                top = at > top ? at : top;
                bits |= at;
            }
            assert_int_equal(highest, top);
            assert_int_equal(m.low, low);
            assert_int_equal(m.bits, bits);
        }
    }
    host_isa_force(HOST_BEST);
}

static void compare_moves(unsigned bytes)
{
    uint8_t memory[BYTES], expected[BYTES];
    uint32_t row[4][WAVE_LANES], kept[4][WAVE_LANES];
    struct lane_mem m;

    make_access(&m, memory);
    fill(memory, sizeof(memory));
    fill(row, sizeof(row));
    memcpy(kept, row, sizeof(row));
    lane_loops()->load(m.ptr, bytes / 4, row);
    for (unsigned l = 0; l < WAVE_LANES; l++)
        for (unsigned i = 0; i < 4; i++) {
            uint32_t is = kept[i][l];
            if (i < bytes / 4)
                memcpy(&is, m.ptr[l] + 4 * (size_t)i, sizeof(is));
            assert_int_equal(row[i][l], is);
        }
    fill(row, sizeof(row));
    memcpy(expected, memory, sizeof(memory));
    for (unsigned l = 0; l < WAVE_LANES; l++)
        for (unsigned i = 0; i < bytes / 4; i++)
            memcpy(expected + m.addr[l] + 4 * (size_t)i, &row[i][l], 4);
    lane_loops()->store(m.ptr, bytes / 4, row);
    assert_memory_equal(memory, expected, sizeof(memory));
}

static void compare_states(unsigned bytes)
{
    uint8_t states[BYTES], expected[BYTES];
    struct lane_mem m;
    uint8_t all = 0xff, any = 0, all_of = 0xff, any_of = 0;

    make_access(&m, states);
    for (unsigned i = 0; i < BYTES; i++) /* mostly 1, so that one byte decides */
        states[i] = random32() % 256 ? 1 : (uint8_t)(random32() % 8);
    const struct lane_states s = lane_loops()->states(states, m.addr, bytes);
    for (unsigned l = 0; l < WAVE_LANES; l++)
        for (unsigned i = 0; i < bytes; i++) {
            all &= states[m.addr[l] + i];
            any |= states[m.addr[l] + i];
        }
    for (unsigned i = 0; i < 8; i++) {
        all_of &= (uint8_t)(s.all >> 8 * i);
        any_of |= (uint8_t)(s.any >> 8 * i);
    }
    assert_int_equal(all_of, all);
    assert_int_equal(any_of, any);
    memcpy(expected, states, sizeof(states));
    for (unsigned l = 0; l < WAVE_LANES; l++)
        memset(expected + m.addr[l], 5, bytes);
    lane_loops()->mark(states, m.addr, bytes, 5);
    assert_memory_equal(states, expected, sizeof(states));
}

TEST(test_moves_and_states)
{
    for (unsigned k = 0; k < sizeof(isas) / sizeof(*isas); k++) {
        if (!host_isa_supported(isas[k]))
            continue;
        host_isa_force(isas[k]);
        for (unsigned round = 0; round < ROUNDS; round++)
            for (unsigned bytes = 4; bytes <= 16; bytes *= 2) {
                compare_moves(bytes);
                compare_states(bytes);
            }
    }
    host_isa_force(HOST_BEST);
}

int main(void) { return run_unit_tests(); }

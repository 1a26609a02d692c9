/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the simulated device memory: slots, quarantine, checks, the shadow. */
#include "tests/unit_test.h"
#include "tools/hipsim/core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t allocate(uint64_t size, enum hipsim_mem_kind kind)
{
    struct hipsim_mem_request request = {.size = size, .kind = kind};
    void *p = hipsim_mem_alloc(&request);

    assert_non_null(p);
    return (uintptr_t)p;
}

static enum hipsim_mem_verdict check(uint64_t address, uint64_t size, bool is_store)
{
    struct hipsim_mem_cursor cursor = {0};

    return hipsim_mem_check(&cursor, address, size, is_store);
}

static void release(uint64_t address) { assert_true(hipsim_mem_free((void *)(uintptr_t)address)); }

TEST(bounds_are_exact)
{
    uint64_t p = allocate(1000, HIPSIM_MEM_DEVICE);

    assert_int_equal(p & 255, 0);
    assert_int_equal(check(p, 4, false), HIPSIM_MEM_OK);
    assert_int_equal(check(p + 996, 4, true), HIPSIM_MEM_OK);
    assert_int_equal(check(p, 1000, true), HIPSIM_MEM_OK);
    assert_int_equal(check(p + 997, 4, false), HIPSIM_MEM_OUT_OF_BOUNDS);
    assert_int_equal(check(p + 1000, 1, false), HIPSIM_MEM_OUT_OF_BOUNDS);
    assert_int_not_equal(check(p - 1, 1, false), HIPSIM_MEM_OK);
    assert_int_equal(check(p, UINT64_MAX, false), HIPSIM_MEM_OUT_OF_BOUNDS);
    assert_int_equal(check(16, 4, false), HIPSIM_MEM_NOT_MAPPED);
    assert_int_equal(check(UINT64_MAX, 4, false), HIPSIM_MEM_NOT_MAPPED);
    assert_int_equal(check((uintptr_t)&p, 4, false), HIPSIM_MEM_NOT_MAPPED);
    release(p);
    assert_int_equal(check(p, 4, false), HIPSIM_MEM_USE_AFTER_FREE);
    assert_false(hipsim_mem_free((void *)(uintptr_t)p));
}

TEST(huge_allocations_cost_nothing)
{
    const uint64_t size = UINT64_C(12) << 30;
    uint64_t before = hipsim_mem_in_use(0);
    uint64_t p = allocate(size, HIPSIM_MEM_DEVICE);

    assert_int_equal(hipsim_mem_in_use(0) - before, size);
    assert_int_equal(check(p + size - 8, 8, false), HIPSIM_MEM_OK);
    *(uint64_t *)(uintptr_t)(p + size - 8) = 42;
    hipsim_mem_mark_small(p + size - 8, 8);
    assert_int_equal(hipsim_mem_written_mask(p + size - 16, 16), 0xff00);
    hipsim_mem_unmark(p, size);
    assert_int_equal(hipsim_mem_written_mask(p + size - 16, 16), 0);
    release(p);
    assert_int_equal(hipsim_mem_in_use(0), before);
}

TEST(freed_slots_are_quarantined)
{
    uint64_t first = allocate(8192, HIPSIM_MEM_DEVICE);
    int reused_after = 0;

    hipsim_mem_mark(first, 8192);
    release(first);
    for (int i = 1; i <= 200 && !reused_after; i++) {
        uint64_t p = allocate(8192, HIPSIM_MEM_DEVICE);
        if (p == first) {
            reused_after = i;
            assert_int_equal(hipsim_mem_written_mask(p, 32), 0);
        }
        release(p);
    }
    assert_true(reused_after > 50);
}

static uint64_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    fclose(f);
    return pages * UINT64_C(4096);
}

/* Allocates sizes of many classes: 3 GiB in total, with a shadow of 400 MiB. */
TEST(quarantined_slots_keep_no_pages)
{
    const uint64_t before = resident_bytes();
    for (uint64_t i = 0; i < 100; i++) {
        const uint64_t size = (UINT64_C(65536) << i % 12) + 4096 * i;
        const uint64_t p = allocate(size, HIPSIM_MEM_DEVICE);
        memset((void *)(uintptr_t)p, 1, size < 1 << 20 ? size : 1 << 20);
        hipsim_mem_mark(p, size);
        release(p);
    }
    assert_true(resident_bytes() < before + (UINT64_C(8) << 20));
}

TEST(shadow_follows_bytes)
{
    struct hipsim_mem_cursor cursor = {0};
    uint64_t a = allocate(4096, HIPSIM_MEM_DEVICE);
    uint64_t b = allocate(4096, HIPSIM_MEM_DEVICE);

    assert_false(hipsim_mem_is_written(&cursor, a, 1));
    hipsim_mem_mark(a + 3, 130);
    assert_int_equal(hipsim_mem_written_mask(a, 8), 0xf8);
    assert_int_equal(hipsim_mem_written_mask(a + 128, 8), 0x1f);
    assert_true(hipsim_mem_is_written(&cursor, a + 3, 130));
    assert_false(hipsim_mem_is_written(&cursor, a + 3, 131));
    hipsim_mem_mark_small(a + 190, 16);
    assert_int_equal(hipsim_mem_written_mask(a + 188, 20), 0x3fffc);

    hipsim_mem_copy_marks(b + 1, a, 300);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(hipsim_mem_written_mask(b + 1 + i, 1), hipsim_mem_written_mask(a + i, 1));
    hipsim_mem_trust_existing();
    assert_true(hipsim_mem_is_written(&cursor, a, 4096));
    release(a);
    release(b);
    a = allocate(4096, HIPSIM_MEM_DEVICE);
    assert_false(hipsim_mem_is_written(&cursor, a, 1));
    release(a);
    a = allocate(64, HIPSIM_MEM_HOST);
    assert_true(hipsim_mem_is_written(&cursor, a, 64));
    release(a);
}

TEST(registrations_come_and_go)
{
    struct hipsim_mem_cursor cursor = {0};
    char *host = malloc(4096);
    uint64_t address = (uintptr_t)host;

    assert_true(hipsim_mem_register(host, 4096, 0, 0));
    assert_false(hipsim_mem_register(host + 100, 4096, 0, 0));
    assert_int_equal(hipsim_mem_check(&cursor, address, 4, true), HIPSIM_MEM_OK);
    assert_int_equal(check(address + 4095, 2, true), HIPSIM_MEM_OUT_OF_BOUNDS);
    assert_true(hipsim_mem_is_written(&cursor, address, 4096));
    assert_true(hipsim_mem_unregister(host));
    assert_false(hipsim_mem_unregister(host));
    assert_int_equal(hipsim_mem_check(&cursor, address, 4, true), HIPSIM_MEM_USE_AFTER_FREE);
    assert_true(hipsim_mem_register(host, 64, 0, 0));
    assert_int_equal(hipsim_mem_check(&cursor, address, 4, true), HIPSIM_MEM_OK);
    assert_true(hipsim_mem_unregister(host));
    free(host);
}

TEST(arguments_and_text_are_read_only)
{
    uint64_t args = allocate(256, HIPSIM_MEM_KERNARG);
    uint64_t code = allocate(8192, HIPSIM_MEM_CODE);

    assert_int_equal(check(args, 8, false), HIPSIM_MEM_OK);
    assert_int_equal(check(args, 8, true), HIPSIM_MEM_READ_ONLY);
    hipsim_mem_protect_text((void *)(uintptr_t)code, code, code + 4096);
    assert_int_equal(check(code + 4092, 4, true), HIPSIM_MEM_READ_ONLY);
    assert_int_equal(check(code + 4096, 4, true), HIPSIM_MEM_OK);
    release(args);
    release(code);
}

TEST(descriptions_name_the_neighbour)
{
    char text[256];
    uint64_t p = allocate(4096, HIPSIM_MEM_DEVICE);

    hipsim_mem_describe(p + 4096 + 16, 4, text, sizeof(text));
    assert_non_null(strstr(text, "16 bytes past the end of the 4096 B allocation"));
    assert_non_null(strstr(text, "hipMalloc"));
    hipsim_mem_describe(p + 4094, 4, text, sizeof(text));
    assert_non_null(strstr(text, "2 bytes across the end"));
    release(p);
    hipsim_mem_describe(p + 8, 4, text, sizeof(text));
    assert_non_null(strstr(text, "8 bytes into the freed 4096 B allocation"));
    hipsim_mem_describe(8, 4, text, sizeof(text));
    assert_non_null(strstr(text, "null pointer"));
    hipsim_mem_describe((uintptr_t)text, 4, text, sizeof(text));
    assert_non_null(strstr(text, "not device memory"));
}

TEST(nonsense_is_refused)
{
    struct hipsim_mem_request absurd = {.size = UINT64_MAX - 7};

    assert_null(hipsim_mem_alloc(&absurd));
    absurd.size = 0;
    assert_null(hipsim_mem_alloc(&absurd));
    assert_false(hipsim_mem_register((void *)(uintptr_t)4096, UINT64_MAX, 0, 0));
    assert_false(hipsim_mem_free(&absurd));
    assert_false(hipsim_mem_free(NULL));
}

int main(void) { return run_unit_tests(); }

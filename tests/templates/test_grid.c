/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests in the interpreter which items and lists the workgroups of a grid have.
 */
#include "ir/interp.h"
#include "ir/spread.h"
#include "targets/tgt.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/scalar.h"
#include "tests/unit_test.h"

enum { MOST = 67 /* workgroups */, LANES_MAX = 64 };

/* Runs `n` workgroups of a kernel that stores att_xcd_item(), or with `sharers` att_shared_list().
 * Sets item[] to the results by workgroup; a list's part p is p * MOST more. */
static void find_items(const struct tir_machine *m, unsigned n, int sharers, int32_t item[MOST])
{
    static int32_t out[MOST * LANES_MAX];
    struct tir_func *const f = tir_func_create("test", m, 1);
    struct tir_builder builder = tir_at_end(f, f->body), *const b = &builder;
    const int lanes = (int)tir_lanes(m);
    const struct tir_layout l = tir_spread_column(m, 1, tir_lanes(m));
    const struct tir_value count = tir_i32(b, (int)n), place = tir_block_id(b, 0);
    struct tir_value part = tir_i32(b, 0), own;
    if (sharers)
        own = att_shared_list(b, sharers, tir_i32(b, (int)n / sharers), &part);
    else
        own = att_xcd_item(b, place, part, count);
    const struct tir_value all = tir_add(b, own, att_times(b, part, MOST));
    const struct tir_view to =
        att_view(b, tir_arg(b, "out", TIR_I64), att_times(b, count, lanes), tir_i32(b, 4), 4, 0);
    tir_tile_store(b, to, att_times(b, place, lanes),
                   tir_splat(b, all, tir_tile(f, TIR_I32, lanes, 1, &l)));
    tir_return(b);
    const uint64_t kernarg[] = {(uintptr_t)out};
    char why[TIR_WHY];
    if (!tir_interpret(f, kernarg, sizeof(kernarg), (const unsigned[]){n, 1, 1}, why))
        fail_msg("%s", why);
    tir_func_destroy(f);
    for (unsigned i = 0; i < n; i++)
        item[i] = out[i * (unsigned)lanes];
}

/* Workgroup i runs on XCD i modulo the number of XCDs. */
TEST(an_xcd_has_consecutive_items)
{
    static const struct {
        const char *name;
        unsigned xcds;
    } targets[] = {{"gfx942", 8}, {"gfx950", 8}, {"gfx1250", 8}, {"gfx1201", 1}};
    for (unsigned t = 0; t < 4; t++)
        for (unsigned n = 1; n <= MOST; n += 11) {
            int32_t item[MOST];
            int next = 0;
            find_items(&tgt_find(targets[t].name)->machine, n, 0, item);
            for (unsigned x = 0; x < targets[t].xcds; x++)
                for (unsigned i = x; i < n; i += targets[t].xcds)
                    assert_int_equal(item[i], next++);
        }
}

/* One XCD takes the parts of a list one after the other, eight take the parts of eight lists. */
TEST(parts_of_a_list_are_on_one_xcd)
{
    enum { PARTS = 3, LISTS = 16, N = PARTS * LISTS, XCDS = 8 };
    int32_t item[MOST];
    find_items(&tgt_find("gfx1201")->machine, N, PARTS, item);
    for (int i = 0; i < N; i++)
        assert_int_equal(item[i], i / PARTS + i % PARTS * MOST);
    find_items(&tgt_find("gfx942")->machine, N, PARTS, item);
    for (int i = 0; i < N; i++) {
        const int turn = i / XCDS;
        assert_int_equal(item[i], turn / PARTS * XCDS + i % XCDS + turn % PARTS * MOST);
    }
}

int main(void) { return run_unit_tests(); }

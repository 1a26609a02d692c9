/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/workgroup/grid.h"

#include "ir/bits.h"
#include "templates/workgroup/scalar.h"

/* Returns `a` limited to the range from `low` to `high`. */
static struct tir_value clamp(struct tir_builder *b, struct tir_value a, struct tir_value low,
                              struct tir_value high)
{
    return tir_max(b, tir_min(b, a, high), low);
}

/*
 * Implements the declaration in grid.h. The layer's first workgroup runs on XCD s = before mod X,
 * with X XCDs. Each XCD has n / X workgroups, and the remaining n mod X ones are on XCDs s, s + 1,
 * ..., modulo X. XCD x gets the items from x (n / X) + (number of XCDs below x that have one
 * more).
 */
struct tir_value att_xcd_item(struct tir_builder *b, struct tir_value place,
                              struct tir_value before, struct tir_value n)
{
    const int xcds = (int)b->f->machine->xcds;
    const struct tir_value zero = tir_i32(b, 0), bits = tir_i32(b, (int)tir_bits((unsigned)xcds));
    const struct tir_value last = tir_i32(b, xcds - 1);
    const struct tir_value start = tir_and(b, before, last), rest = tir_and(b, n, last);
    const struct tir_value xcd = tir_and(b, tir_add(b, start, place), last);
    const struct tir_value above = clamp(b, tir_sub(b, xcd, start), zero, rest);
    const struct tir_value wrapped = att_plus(b, tir_add(b, start, rest), -xcds);
    const struct tir_value below = clamp(b, wrapped, zero, xcd);
    const struct tir_value first =
        tir_add(b, tir_mul(b, xcd, tir_shr(b, n, bits)), tir_add(b, above, below));
    return tir_add(b, first, tir_shr(b, place, bits));
}

struct tir_value att_shared_list(struct tir_builder *b, int n, struct tir_value lists,
                                 struct tir_value *part)
{
    const struct tir_value own = tir_block_id(b, 0), by = tir_i32(b, n);
    const int xcds = (int)b->f->machine->xcds;
    const struct tir_value even = tir_and(b, lists, tir_i32(b, -xcds));
    const struct tir_value rest = tir_sub(b, own, att_times(b, even, n));
    const struct tir_value apart = tir_cmp_lt(b, rest, tir_i32(b, 0));
    const struct tir_value number =
        tir_select(b, apart, tir_shr(b, own, tir_i32(b, (int)tir_bits((unsigned)xcds))), rest);
    const struct tir_value list = tir_div(b, number, by);
    const struct tir_value first =
        tir_add(b, att_times(b, list, xcds), tir_and(b, own, tir_i32(b, xcds - 1)));
    *part = tir_sub(b, number, att_times(b, list, n));
    return tir_select(b, apart, first, tir_add(b, even, list));
}

struct att_counted_wave att_begin_counted(struct tir_builder *b, int waves, int counted,
                                          const char *workgroups)
{
    const struct tir_value block = tir_block_id(b, 0), wave = tir_wave_id(b);
    if (waves == counted)
        return (struct att_counted_wave){.block = block, .wave = wave};
    const struct tir_value n = tir_add(b, att_times(b, block, waves), wave);
    struct att_counted_wave w = {
        .block = tir_shr(b, n, tir_i32(b, __builtin_ctz((unsigned)counted))),
        .wave = tir_and(b, n, tir_i32(b, counted - 1)),
    };
    w.some = waves > counted;
    if (w.some) {
        const struct tir_value all = tir_arg(b, workgroups, TIR_I32);
        w.there = att_begin_if(b, tir_cmp_lt(b, w.block, all));
    }
    return w;
}

void att_end_counted(struct tir_builder *b, struct att_counted_wave *w)
{
    if (w->some)
        tir_end_if(b, &w->there, NULL);
}

struct att_grid att_counted_grid(int waves, int counted, const char *workgroups)
{
    return waves > counted ? (struct att_grid){workgroups, waves / counted, 1}
                           : (struct att_grid){workgroups, 1, counted / waves};
}

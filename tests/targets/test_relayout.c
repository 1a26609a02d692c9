/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests changes of layout on the simulator with its checks, on every target. Tiles are loaded in
 * one random layout, converted and stored in another, within a lane, a wave and a workgroup.
 */
#include <string.h>

#include "ir/passes.h"
#include "tests/targets/run.h"

enum { CASES = 18 };

static uint32_t random_state = 88172645;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

static struct tir_layout random_layout(const struct tir_machine *m, unsigned row_bits,
                                       unsigned col_bits, unsigned wave_bits, unsigned reg_bits)
{
    const unsigned n = row_bits + col_bits;
    struct tir_layout l = {
        .reg_bits = (uint8_t)reg_bits, .lane_bits = m->lane_bits, .wave_bits = (uint8_t)wave_bits};
    for (unsigned i = 0; i < n; i++)
        l.basis[i] = i < row_bits ? TIR_RC(1u << i, 0) : TIR_RC(0, 1u << (i - row_bits));
    for (unsigned i = 0; i < n; i++) {
        const unsigned k = i + random_below(n - i);
        const uint32_t image = l.basis[i];
        l.basis[i] = l.basis[k];
        l.basis[k] = image;
    }
    return l;
}

static struct tir_view view(struct kernel *k, const char *arg, unsigned row_bytes)
{
    struct tir_builder *b = &k->b;
    const struct tir_value bytes = tir_i32(b, sizeof(((struct values *)0)->in));
    return (struct tir_view){tir_make_rsrc(b, tir_arg(b, arg, TIR_I64), bytes),
                             tir_i32(b, (int)row_bytes), tir_i32(b, 0)};
}

static void check_copy(const struct tgt *t, unsigned dtype, unsigned reg_bits, unsigned wave_bits)
{
    static struct values v;
    const struct tir_machine *const m = &t->machine;
    const unsigned n = reg_bits + m->lane_bits + wave_bits, row_bits = random_below(n + 1);
    const unsigned rows = 1u << row_bits, cols = 1u << (n - row_bits);
    const unsigned size = tir_dtype_bits(dtype) / 8;
    struct kernel k = kernel_create(t->machine.name, 1u << wave_bits, 1);
    k.f->lowered = false;
    const struct tir_layout from = random_layout(m, row_bits, n - row_bits, wave_bits, reg_bits);
    const struct tir_layout to = random_layout(m, row_bits, n - row_bits, wave_bits, reg_bits);
    const struct tir_value a = tir_tile_load(&k.b, view(&k, "in", cols * size), tir_i32(&k.b, 0),
                                             tir_tile(k.f, dtype, rows, cols, &from));
    const struct tir_view out = view(&k, "out", cols * size);
    tir_tile_store(&k.b, out, tir_i32(&k.b, 0), tir_relayout(&k.b, a, &to));

    tir_return(&k.b);
    const struct tir_schedule schedule = {0};
    const struct tir_pass_options options = {.schedule = &schedule};
    char why[128];
    if (!tir_run_passes(k.f, &options, why))
        fail_msg("%s", why);
    struct compiled c = kernel_compile(&k);
    uint8_t *const bytes = (uint8_t *)v.in;
    for (unsigned i = 0; i < sizeof(v.in); i++)
        bytes[i] = (uint8_t)(i * 31 ^ i >> 8);
    run(&c, &v, NULL, 0);
    if (memcmp(v.out, v.in, (size_t)size << n) != 0)
        fail_msg("%s: %u bits in %u registers and %u waves", t->machine.name, 8 * size,
                 1u << reg_bits, 1u << wave_bits);
    compiled_free(&c);
}

TEST(every_element_arrives)
{
    static const unsigned dtypes[] = {TIR_F32, TIR_BF16, TIR_I8, TIR_I64};
    for (int t = 0; tgt_all[t]; t++)
        for (unsigned i = 0; i < CASES; i++) {
            const unsigned wave_bits = i % 3 == 2 ? 1 + i % 2 : 0;
            check_copy(tgt_all[t], dtypes[i % 4], 1 + random_below(wave_bits ? 2 : 4), wave_bits);
        }
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests SWMMAC, products whose A is sparse (RDNA4 ISA, 7.12.3; CDNA5 ISA, 7.12.3 to 7.12.5). The
 * expected layouts are those that AMD's matrix instruction calculator prints for RDNA4, and the
 * lists of B's registers in the CDNA5 manual.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

enum { A = 8, B = 16, INDEX = 56, D = 48, MOST_K = 128 };

/* A SWMMAC instruction, whose elements are small integers in the tests. `bits`: of an element. `k`:
 * columns of A, half of them stored. The halves of the wave alternately hold `run` stored elements
 * of a row of A, and 2 `run` elements of a column of B. */
struct sparse {
    enum gfx_target target;
    const char *name;
    unsigned bits, k, run;
    bool integers;
    unsigned fraction, bias; /* bits of the fraction, and bias of the exponent; 0 for integers */
    int most;                /* largest magnitude of an element */
};

/* Operands and expected result of a product. */
struct product {
    int a[16][MOST_K], b[MOST_K][16], d[16][16];
};

/* Returns an element from -most to most - 1. */
static int draw(const struct sparse *t, uint32_t *seed)
{
    return (int)(next_random(seed) % (unsigned)(2 * t->most)) - t->most;
}

/* Returns the code of a small integer in the format of the product's factors. */
static uint32_t encode(const struct sparse *t, int value)
{
    if (t->integers || !value)
        return (uint32_t)value;
    const unsigned m = (unsigned)abs(value), e = 31 - (unsigned)__builtin_clz(m);
    const uint32_t fraction = (m << t->fraction >> e) & ((1u << t->fraction) - 1);
    return (value < 0 ? 1u << (t->bits - 1) : 0) | (e + t->bias) << t->fraction | fraction;
}

/* Returns the lane that holds (row, k), and in *e the number of the lane's element. `run`: elements
 * along k before the other half of the wave holds the next. */
static unsigned place(unsigned run, unsigned row, unsigned k, unsigned *e)
{
    *e = k / (2 * run) * run + k % run;
    return k / run % 2 * 16 + row;
}

/* Sets element (row, k) of an operand in registers from `first` on. */
static void put(struct program *p, const struct sparse *t, unsigned run, unsigned first,
                unsigned row, unsigned k, int value)
{
    unsigned e;
    const unsigned lane = place(run, row, k, &e), at = e * t->bits;
    const uint32_t mask = t->bits == 32 ? UINT32_MAX : (1u << t->bits) - 1;
    p->v[first + at / 32][lane] |= (encode(t, value) & mask) << at % 32;
}

/* Sets the indices of A's stored elements (row, k) and (row, k + 1) to i0 and i1, from 0 to 3. A
 * lane with indices of 16 bits has them in the upper half of the register. */
static void put_index(struct program *p, const struct sparse *t, unsigned row, unsigned k,
                      unsigned i0, unsigned i1)
{
    unsigned e;
    const unsigned lane = place(t->run, row, k, &e), at = 2 * e + (t->k < 64 ? 16 : 0);
    p->v[INDEX + at / 32][lane] |= (i0 | i1 << 2) << at % 32;
}

/* Fills the operands' registers with random numbers, and *x with them and the result. */
static void fill(struct program *p, const struct sparse *t, struct product *x)
{
    uint32_t seed = 5;
    memset(x, 0, sizeof(*x));
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned k = 0; k < t->k / 2; k += 2) {
            const unsigned i0 = next_random(&seed) % 3, i1 = i0 + 1 + next_random(&seed) % (3 - i0);
            put_index(p, t, m, k, i0, i1);
            for (unsigned i = 0; i < 2; i++) {
                const int value = x->a[m][2 * k + (i ? i1 : i0)] = draw(t, &seed);
                put(p, t, t->run, A, m, k + i, value);
            }
        }
    }
    for (unsigned i = 0; i < 16 * t->k; i++) {
        x->b[i / 16][i % 16] = draw(t, &seed);
        put(p, t, 2 * t->run, B, i % 16, i / 16, x->b[i / 16][i % 16]);
    }
    for (unsigned i = 0; i < 256; i++) {
        const unsigned m = i / 16, n = i % 16;
        const int c = x->d[m][n] = (int)(next_random(&seed) % 100);
        p->v[D + m % 8][m / 8 * 16 + n] = t->integers ? (uint32_t)c : bits_of((float)c);
        for (unsigned k = 0; k < t->k; k++)
            x->d[m][n] += x->a[m][k] * x->b[k][n];
    }
}

static struct program wave32(enum gfx_target target)
{
    struct program p = program_new(target);
    p.block = 32;
    return p;
}

/* Writes LLVM's name of `n` registers from `first` on, such as v[8:11], to `text`. Returns it. */
static const char *range(char text[16], unsigned first, unsigned n)
{
    snprintf(text, 16, n > 1 ? "v[%u:%u]" : "v%u", first, first + n - 1);
    return text;
}

static void check(const struct sparse *t)
{
    struct program p = wave32(t->target);
    struct product x;
    char text[160], a[16], b[16], index[16];
    const unsigned dwords = t->k * t->bits / 128;
    fill(&p, t, &x);
    snprintf(text, sizeof(text), "v_swmmac_%s v[48:55], %s, %s, %s%s%s\n", t->name,
             range(a, A, dwords), range(b, B, 2 * dwords), range(index, INDEX, t->k > 64 ? 2 : 1),
             t->k < 64 ? " index_key:1" : "", t->integers ? " neg_lo:[1,1,0]" : "");
    program_run(&p, text);
    for (unsigned i = 0; i < 256; i++) {
        const unsigned m = i / 16, n = i % 16;
        const uint32_t got = p.v[D + m % 8][m / 8 * 16 + n];
        const int is = t->integers ? (int)got : (int)float_of(got);
        if (is != x.d[m][n])
            print_error("%s: D[%u][%u] is %d, not %d\n", t->name, m, n, is, x.d[m][n]);
        assert_int_equal(is, x.d[m][n]);
    }
}

TEST(products_follow_the_index)
{
    static const struct sparse products[] = {
        {GFX1201, "f32_16x16x32_f16", 16, 32, 4, false, 10, 15, 8},
        {GFX1201, "f32_16x16x32_bf16", 16, 32, 4, false, 7, 127, 8},
        {GFX1201, "f32_16x16x32_fp8_fp8", 8, 32, 8, false, 3, 7, 8},
        {GFX1201, "f32_16x16x32_bf8_bf8", 8, 32, 8, false, 2, 15, 4},
        {GFX1201, "i32_16x16x32_iu8", 8, 32, 8, true, 0, 0, 128},
        {GFX1201, "i32_16x16x32_iu4", 4, 32, 8, true, 0, 0, 8},
        {GFX1201, "i32_16x16x64_iu4", 4, 64, 16, true, 0, 0, 8},
        {GFX1250, "f32_16x16x64_f16", 16, 64, 8, false, 10, 15, 8},
        {GFX1250, "f32_16x16x64_bf16", 16, 64, 8, false, 7, 127, 8},
        {GFX1250, "bf16f32_16x16x64_bf16", 16, 64, 8, false, 7, 127, 8},
        {GFX1250, "f32_16x16x128_fp8_fp8", 8, 128, 8, false, 3, 7, 8},
        {GFX1250, "f32_16x16x128_bf8_bf8", 8, 128, 8, false, 2, 15, 4},
        {GFX1250, "i32_16x16x128_iu8", 8, 128, 8, true, 0, 0, 128},
    };
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        check(&products[i]);
}

/* Fills `n` registers from `first` on. */
static void fill_registers(struct program *p, unsigned first, unsigned n, uint32_t value)
{
    for (unsigned r = first; r < first + n; r++)
        program_fill(p, r, value);
}

#define ONES 0x3f803f80u /* two bf16 */
#define PRODUCT "v_swmmac_f32_16x16x64_bf16 v[48:55], v[8:15], v[16:31], v56\n"

/* An element of B that the index does not name is not multiplied, so infinity there has no
 * effect. */
TEST(other_elements_are_skipped)
{
    struct program p = wave32(GFX1250);
    program_fill(&p, INDEX, 0x44444444); /* elements 0 and 1 of every four */
    fill_registers(&p, A, 8, ONES);
    for (unsigned r = 0; r < 16; r++)
        program_fill(&p, B + r, r % 2 ? 0x7f807f80 : ONES);
    fill_registers(&p, D, 8, 0);
    program_run(&p, PRODUCT);
    assert_true(float_of(p.v[D + 2][20]) == 32);
}

/* A result is undefined if the index of its row is. */
TEST(undefined_indices_give_undefined_rows)
{
    for (unsigned known = 0; known < 2; known++) {
        struct program p = wave32(GFX1250);
        p.checks = CHECK_ALL;
        p.v_valid[INDEX] = known ? UINT64_MAX : 0;
        program_try(&p, PRODUCT ".rept 9\nv_nop\n.endr\n"
                                "v_readfirstlane_b32 s4, v48\ns_cmp_eq_u32 s4, 0\n"
                                "s_cbranch_scc1 0\n");
        assert_int_equal(p.fault.kind, known ? FAULT_NONE : FAULT_UNINIT);
    }
}

int main(void) { return run_unit_tests(); }

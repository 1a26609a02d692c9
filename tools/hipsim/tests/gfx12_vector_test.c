/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests vector instructions that GFX12 has and gfx9 lacks: both halves of VOPD, permutations of
 * lanes, and products of all pairs of types whose sums other tests do not cover (RDNA4 ISA, 7.6 and
 * 7.12; CDNA5 ISA, 7.6, 7.9 and 7.12).
 */
#include <math.h>
#include <stdio.h>

#include "tools/hipsim/tests/program.h"

#define EACH_TARGET for (unsigned t = 0; t < 2; t++)
static const enum gfx_target targets[] = {GFX1250, GFX1201};

#define FIRST(text) "v_mov_b32 v0, v6\nv_dual_" text " :: v_dual_mov_b32 v1, v7"
#define SECOND(text) "v_mov_b32 v0, v6\nv_dual_mov_b32 v1, v7 :: v_dual_" text
#define BOTH(text, ...) \
    {FIRST(text), __VA_ARGS__}, { SECOND(text), __VA_ARGS__ }
#define ONE 0x3f800000
#define TWO 0x40000000
#define QUIET 0x7fc00001

TEST(halves_of_vopd)
{
    static const struct op_case cases[] = {
        BOTH("fmac_f32 v0, v2, v4", TWO, TWO, ONE, 0x40a00000),
        BOTH("fmac_f32 v0, v2, v4", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000),
        BOTH("fmaak_f32 v0, v2, v4, 0x3f800000", TWO, TWO, 0, 0x40a00000),
        BOTH("fmamk_f32 v0, v2, 0x40000000, v4", TWO, ONE, 0, 0x40a00000),
        BOTH("mul_f32 v0, v2, v4", TWO, TWO, 0, 0x40800000),
        BOTH("add_f32 v0, v2, v4", ONE, ONE, 0, TWO),
        BOTH("sub_f32 v0, v2, v4", TWO, ONE, 0, ONE),
        BOTH("subrev_f32 v0, v2, v4", ONE, TWO, 0, ONE),
        BOTH("mul_dx9_zero_f32 v0, v2, v4", 0, QUIET, 0, 0),
        BOTH("mul_dx9_zero_f32 v0, v2, v4", TWO, TWO, 0, 0x40800000),
        BOTH("mov_b32 v0, v2", 0x12345678, 0, 0, 0x12345678),
        {"s_mov_b32 vcc_lo, -1\n" FIRST("cndmask_b32 v0, v2, v4"), 1, 2, 0, 2},
        {"s_mov_b32 vcc_lo, 0\n" SECOND("cndmask_b32 v0, v2, v4"), 1, 2, 0, 1},
        BOTH("max_num_f32 v0, v2, v4", QUIET, ONE, 0, ONE),
        BOTH("max_num_f32 v0, v2, v4", 0x80000000, 0, 0, 0),
        BOTH("min_num_f32 v0, v2, v4", ONE, TWO, 0, ONE),
        {SECOND("add_nc_u32 v0, v2, v4"), 0xffffffff, 2, 0, 1},
        {SECOND("lshlrev_b32 v0, v2, v4"), 36, 3, 0, 48},
    };
    static const struct op_case gfx1201[] = {
        {SECOND("and_b32 v0, v2, v4"), 0xff00ff00, 0x12345678, 0, 0x12005600},
    };
    EACH_TARGET CHECK_CASES(targets[t], MODE_DEFAULT, cases);
    CHECK_CASES(GFX1201, MODE_DEFAULT, gfx1201);
}

/* Fills v0 with numbers of the lanes and v2 with random numbers, for permutations of v0. */
static struct program lanes_program(enum gfx_target target)
{
    struct program p = program_new(target);
    uint32_t seed = 5;
    p.block = 32;
    for (unsigned l = 0; l < 32; l++) {
        p.v[0][l] = 100 + l;
        p.v[2][l] = next_random(&seed);
    }
    p.s[0] = 0x12fe7a30;
    p.s[1] = 0x89456bdc;
    return p;
}

/* Returns nibble i of s[0:1]: the lane of its row that lane i of a row reads. */
static unsigned selected(const struct program *p, unsigned i)
{
    return p->s[i / 8] >> 4 * (i % 8) & 15;
}

TEST(rows_are_permuted)
{
    EACH_TARGET
    {
        struct program p = lanes_program(targets[t]);
        program_run(&p, "v_permlane16_b32 v4, v0, s0, s1\nv_permlanex16_b32 v5, v0, s0, s1\n"
                        "v_permlane16_var_b32 v6, v0, v2\nv_permlanex16_var_b32 v7, v0, v2\n");
        for (unsigned l = 0; l < 32; l++) {
            const unsigned row = l / 16 * 16, select = selected(&p, l % 16), var = p.v[2][l] & 15;
            assert_int_equal(p.v[4][l], 100 + row + select);
            assert_int_equal(p.v[5][l], 100 + (row ^ 16) + select);
            assert_int_equal(p.v[6][l], 100 + row + var);
            assert_int_equal(p.v[7][l], 100 + (row ^ 16) + var);
        }
    }
}

/* A source lane outside of EXEC: without modifiers the result stays, BOUND_CTRL makes it 0, FI
 * reads the lane nevertheless. */
TEST(permutations_read_inactive_lanes)
{
    const uint32_t exec = 0x0ff00ff0;
    EACH_TARGET
    {
        struct program p = lanes_program(targets[t]);
        p.exec = exec;
        for (unsigned i = 4; i < 7; i++)
            program_fill(&p, i, 7);
        program_run(&p, "v_permlane16_b32 v4, v0, s0, s1\n"
                        "v_permlane16_b32 v5, v0, s0, s1 op_sel:[0,1]\n"
                        "v_permlane16_b32 v6, v0, s0, s1 op_sel:[1,0]\n");
        for (unsigned l = 0; l < 32; l++) {
            const unsigned from = l / 16 * 16 + selected(&p, l % 16);
            const bool active = exec >> l & 1, known = exec >> from & 1;
            assert_int_equal(p.v[4][l], active && known ? 100 + from : 7);
            assert_int_equal(p.v[5][l], active ? known ? 100 + from : 0 : 7);
            assert_int_equal(p.v[6][l], active ? 100 + from : 7);
        }
    }
}

/* The functions from here on test products of matrices of small integers. */

/* A type of elements: name, bits, and the codes of 0 to 4. */
struct type {
    const char *name;
    unsigned bits;
    uint32_t code[5];
};

static const struct type f16_type = {"f16", 16, {0, 0x3c00, 0x4000, 0x4200, 0x4400}};
static const struct type bf16_type = {"bf16", 16, {0, 0x3f80, 0x4000, 0x4040, 0x4080}};
static const struct type fp8_type = {"fp8", 8, {0, 0x38, 0x40, 0x44, 0x48}};
static const struct type bf8_type = {"bf8", 8, {0, 0x3c, 0x40, 0x42, 0x44}};

enum { MAX_K = 128 };

/* A product: rows of A, columns of B, and the registers that hold them. */
struct product {
    int a[16][MAX_K], b[16][MAX_K];
};

/* Fills registers from v[first] on with random integers from -most to most. Element e of a lane in
 * half h of the wave has k = e / 8 * 16 + 8 h + e % 8. */
static void fill(struct program *p, unsigned first, const struct type *type, int most,
                 uint32_t *seed, int (*to)[MAX_K])
{
    const unsigned per_register = 32 / type->bits, k_of_registers = per_register * 32;
    const unsigned k_count = k_of_registers < MAX_K ? k_of_registers : MAX_K;
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned e = 0; e < k_count / 2; e++) {
            const int x = (int)(next_random(seed) % (2 * (unsigned)most + 1)) - most;
            const uint32_t sign = x < 0 ? 1u << (type->bits - 1) : 0;
            const uint32_t code = type->code[x < 0 ? -x : x] | sign;
            p->v[first + e / per_register][l] |= code << type->bits * (e % per_register);
            to[l % 16][e / 8 * 16 + l / 16 * 8 + e % 8] = x;
        }
    }
}

/* Returns D[m][n] from the registers from v[first] on. */
static float result(const struct program *p, unsigned first, const char *type, unsigned m,
                    unsigned n)
{
    const unsigned lane = m / 8 * 16 + n;
    if (type[0] == 'f' && type[1] == '3')
        return float_of(p->v[first + m % 8][lane]);
    const uint32_t half = p->v[first + m % 8 / 2][lane] >> 16 * (m % 2) & 0xffff;
    if (type[0] == 'b')
        return float_of(half << 16);
    float value;
    for (value = 0; value < 4096 && half; value++) { /* the f16 of an integer, by search */
        const int e = ilogbf(value + 1);
        const uint32_t mantissa = (uint32_t)ldexpf(value + 1, 10 - e) & 0x3ff;
        if ((half & 0x7fff) == ((uint32_t)(e + 15) << 10 | mantissa))
            return half & 0x8000 ? -(value + 1) : value + 1;
    }
    return half ? NAN : 0;
}

/* One product of a program: type of D, k, and the first register of D. */
struct wanted {
    const char *type;
    unsigned k, first;
};

/* Runs the products of A and B that `wanted` lists: A in v[8:23], B in v[24:39]. */
static void check_products(enum gfx_target target, const struct type *ta, const struct type *tb,
                           int most, const struct wanted *wanted, size_t n)
{
    static struct product x;
    struct program p = program_new(target);
    uint32_t seed = ta->code[1] + tb->code[1];
    char text[1024];
    size_t used = 0;

    p.block = 32;
    fill(&p, 8, ta, most, &seed, x.a);
    fill(&p, 24, tb, most, &seed, x.b);
    for (size_t i = 0; i < n; i++) {
        const struct wanted *d = &wanted[i];
        const unsigned ra = d->k * ta->bits / 64, rb = d->k * tb->bits / 64;
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "v_wmma_%s_16x16x%u_%s%s%s v[%u:%u], v[8:%u], v[24:%u], 0\n",
                                 d->type, d->k, ta->name, ta->bits == 8 ? "_" : "",
                                 ta->bits == 8 ? tb->name : "", d->first,
                                 d->first + (d->type[1] == '3' ? 7 : 3), 7 + ra, 23 + rb);
    }
    program_run(&p, text);
    for (size_t i = 0; i < n; i++) {
        for (unsigned at = 0; at < 256; at++) {
            const unsigned m = at / 16, c = at % 16;
            int want = 0;
            for (unsigned k = 0; k < wanted[i].k; k++)
                want += x.a[m][k] * x.b[c][k];
            const float got = result(&p, wanted[i].first, wanted[i].type, m, c);
            if (got != (float)want)
                fail_msg("%s x %s to %s, k %u, [%u][%u]: %g, not %d", ta->name, tb->name,
                         wanted[i].type, wanted[i].k, m, c, (double)got, want);
        }
    }
}

#define CHECK(target, a, b, most, wanted) \
    check_products(target, a, b, most, wanted, sizeof(wanted) / sizeof((wanted)[0]))

TEST(products_of_16_bits)
{
    static const struct wanted f16[] = {{"f32", 32, 40}, {"f16", 32, 48}};
    static const struct wanted bf16[] = {{"f32", 32, 40}, {"bf16", 32, 48}};
    static const struct wanted small_f16[] = {{"f32", 16, 40}, {"f16", 16, 48}};
    static const struct wanted small_bf16[] = {{"f32", 16, 40}, {"bf16", 16, 48}};
    CHECK(GFX1250, &f16_type, &f16_type, 4, f16);
    CHECK(GFX1250, &bf16_type, &bf16_type, 2, bf16); /* sums of 128 at most */
    CHECK(GFX1201, &f16_type, &f16_type, 4, small_f16);
    CHECK(GFX1201, &bf16_type, &bf16_type, 2, small_bf16);
}

TEST(products_of_8_bits)
{
    static const struct wanted all[] = {
        {"f32", 64, 40}, {"f32", 128, 48}, {"f16", 64, 56}, {"f16", 128, 60}};
    static const struct wanted small[] = {{"f32", 16, 40}};
    static const struct type *const types[] = {&fp8_type, &bf8_type};
    for (unsigned i = 0; i < 4; i++) {
        CHECK(GFX1250, types[i / 2], types[i % 2], 4, all);
        CHECK(GFX1201, types[i / 2], types[i % 2], 4, small);
    }
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the differences between gfx1201 and gfx1250: matrix instructions, buffer resources, the
 * distance of products, and missing instructions. gfx1250_test.c tests GFX12's formats and
 * counters.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

static struct program wave32(void)
{
    struct program p = program_new(GFX1201);
    p.block = 32;
    return p;
}

static uint32_t *numbers(unsigned n)
{
    uint32_t init[64];
    for (unsigned i = 0; i < n; i++)
        init[i] = 1000 + i;
    return device_alloc(n * sizeof(uint32_t), init);
}

/* The functions from here on test products. */

/* A product in the layout of the RDNA4 ISA manual, 7.12.2. Lane, register and position of B[k][n]:
 *     16 bits:  { k[2], n[3:0] }   { k[3], k[1] }   k[0]
 *      8 bits:  { k[3], n[3:0] }   k[2]             k[1:0]
 *      4 bits:  { k[3], n[3:0] }   0                k[2:0]    (16 k)
 *               { k[4], n[3:0] }   k[3]             k[2:0]    (32 k)
 * A[m][k] is where B[k][m] would be. D[m][n] is in lane { m[3], n[3:0] }, register m[2:0]. */
struct product {
    const char *name;
    unsigned bits, k, registers;
    bool integers;
    uint32_t (*encode)(int value);
    int least, most; /* range of the elements */
};

static uint32_t bf16_of(int value) { return bits_of((float)value) >> 16; }

static uint32_t f16_of(int value)
{
    const unsigned m = (unsigned)abs(value);
    if (!m)
        return 0;
    const unsigned e = 31 - (unsigned)__builtin_clz(m);
    return (value < 0 ? 0x8000u : 0) | (e + 15) << 10 | ((m << 10 >> e) & 0x3ff);
}

static uint32_t fp8_of(int value)
{
    const unsigned m = (unsigned)abs(value);
    if (!m)
        return 0;
    const unsigned e = 31 - (unsigned)__builtin_clz(m);
    return (value < 0 ? 0x80u : 0) | (e + 7) << 3 | ((m << 3 >> e) & 7);
}

static uint32_t bf8_of(int value)
{
    const unsigned m = (unsigned)abs(value);
    if (!m)
        return 0;
    const unsigned e = 31 - (unsigned)__builtin_clz(m);
    return (value < 0 ? 0x80u : 0) | (e + 15) << 2 | ((m << 2 >> e) & 3);
}

static uint32_t integer_of(int value) { return (uint32_t)value; }

static unsigned bit(unsigned value, unsigned n) { return value >> n & 1; }

/* Stores element (k, n) in the registers from `first` on. */
static void put(struct program *p, const struct product *t, unsigned first, unsigned k, unsigned n,
                uint32_t code)
{
    unsigned half = bit(k, 3), reg = 0, at = 0;
    if (t->bits == 16) {
        half = bit(k, 2);
        reg = 2 * bit(k, 3) + bit(k, 1);
        at = bit(k, 0);
    } else if (t->bits == 8) {
        reg = bit(k, 2);
        at = k & 3;
    } else {
        half = t->k == 32 ? bit(k, 4) : bit(k, 3);
        reg = t->k == 32 ? bit(k, 3) : 0;
        at = k & 7;
    }
    const uint32_t mask = t->bits == 32 ? UINT32_MAX : (1u << t->bits) - 1;
    p->v[first + reg][16 * half + n] |= (code & mask) << t->bits * at;
}

static int element(uint32_t *seed, const struct product *t)
{
    return t->least + (int)(next_random(seed) % (unsigned)(t->most - t->least + 1));
}

static void check_product(const struct product *t)
{
    struct program p = wave32();
    int a[16][32], b[32][16], c[16][16];
    char text[160];
    uint32_t seed = 1;
    for (unsigned k = 0; k < t->k; k++) {
        for (unsigned n = 0; n < 16; n++) {
            put(&p, t, 8, k, n, t->encode(a[n][k] = element(&seed, t)));
            put(&p, t, 16, k, n, t->encode(b[k][n] = element(&seed, t)));
        }
    }
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            c[m][n] = (int)(next_random(&seed) % 100);
            const uint32_t code = t->integers ? (uint32_t)c[m][n] : bits_of((float)c[m][n]);
            p.v[m % 8][m / 8 * 16 + n] = code;
        }
    }
    snprintf(text, sizeof(text), "v_wmma_%s v[24:31], v[8:%u], v[16:%u], v[0:7]%s\n", t->name,
             8 + t->registers - 1, 16 + t->registers - 1, t->integers ? " neg_lo:[1,1,0]" : "");
    if (t->registers == 1)
        snprintf(text, sizeof(text), "v_wmma_%s v[24:31], v8, v16, v[0:7] neg_lo:[1,1,0]\n",
                 t->name);
    program_run(&p, text);
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            int want = c[m][n];
            for (unsigned k = 0; k < t->k; k++)
                want += a[m][k] * b[k][n];
            const uint32_t got = p.v[24 + m % 8][m / 8 * 16 + n];
            const int is = t->integers ? (int)got : (int)float_of(got);
            if (is != want)
                print_error("%s: D[%u][%u] is %d, not %d\n", t->name, m, n, is, want);
            assert_int_equal(is, want);
        }
    }
}

TEST(products_follow_the_layouts)
{
    static const struct product products[] = {
        {"f32_16x16x16_bf16", 16, 16, 4, false, bf16_of, -8, 8},
        {"f32_16x16x16_f16", 16, 16, 4, false, f16_of, -8, 8},
        {"f32_16x16x16_fp8_fp8", 8, 16, 2, false, fp8_of, -8, 8},
        {"f32_16x16x16_bf8_bf8", 8, 16, 2, false, bf8_of, -4, 4},
        {"i32_16x16x16_iu8", 8, 16, 2, true, integer_of, -128, 127},
        {"i32_16x16x16_iu4", 4, 16, 1, true, integer_of, -8, 7},
        {"i32_16x16x32_iu4", 4, 32, 2, true, integer_of, -8, 7},
    };
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        check_product(&products[i]);
}

/* Dot products of bytes, with formats in the order of the sources. NEG negates source 2, and NEG_HI
 * takes its magnitude (RDNA4 ISA, V_DOT4_F32_FP8_BF8). */
TEST(dot_products_of_bytes)
{
    struct program p = wave32();
    const uint32_t fp8[4] = {fp8_of(1), fp8_of(-2), fp8_of(3), fp8_of(8)};
    const uint32_t bf8[4] = {bf8_of(4), bf8_of(1), bf8_of(-2), bf8_of(2)};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned l = 0; l < 32; l++) {
            p.v[0][l] |= fp8[i] << 8 * i;
            p.v[1][l] |= bf8[i] << 8 * i;
        }
    program_fill(&p, 2, bits_of(-100));
    program_run(&p, "v_dot4_f32_fp8_bf8 v3, v0, v1, v2\n"
                    "v_dot4_f32_bf8_fp8 v4, v1, v0, v2 neg_lo:[0,0,1]\n"
                    "v_dot4_f32_fp8_fp8 v5, v0, v0, v2 neg_hi:[0,0,1]\n"
                    "v_dot4_f32_bf8_bf8 v6, v1, v1, v2\n");
    assert_true(float_of(p.v[3][9]) == -100 + 4 - 2 - 6 + 16);
    assert_true(float_of(p.v[4][9]) == 100 + 4 - 2 - 6 + 16);
    assert_true(float_of(p.v[5][9]) == 100 + 1 + 4 + 9 + 64);
    assert_true(float_of(p.v[6][9]) == -100 + 16 + 1 + 4 + 4);
}

/* OPSEL selects halves of source 2 and of the result. Sums are rounded (RDNA4 ISA,
 * V_DOT2_BF16_BF16). */
TEST(dot_products_of_bf16)
{
    struct program p = wave32();
    program_fill(&p, 0, bf16_of(3) << 16 | bf16_of(5));
    program_fill(&p, 1, bf16_of(-7) << 16 | bf16_of(11));
    program_fill(&p, 2, bf16_of(100) << 16 | bf16_of(1000));
    program_fill(&p, 3, 0x1234);
    program_fill(&p, 4, bf16_of(257)); /* 8 bits of the fraction are too few: 256 */
    program_run(&p, "v_dot2_bf16_bf16 v5, v0, v1, v2\n"
                    "v_dot2_bf16_bf16 v3, v0, v1, v2 op_sel:[0,0,1,1]\n"
                    "v_dot2_bf16_bf16 v6, v4, 1.0, 1.0\n");
    assert_int_equal(p.v[5][4] & 0xffff, bf16_of(1032)); /* 1034 is between 1032 and 1040 */
    assert_int_equal(p.v[3][4], bf16_of(134) << 16 | 0x1234);
    assert_int_equal(p.v[6][4] & 0xffff, bf16_of(256)); /* 257 is halfway */
}

/* Both products read an inline constant, whatever OPSEL is. A literal has 32 bits (RDNA4 ISA, 7.2.2
 * and 7.7.2). */
TEST(dot_products_of_bf16_repeat_constants)
{
    struct program p = wave32();
    program_fill(&p, 0, bf16_of(3) << 16 | bf16_of(5));
    program_run(&p, "v_dot2_bf16_bf16 v5, v0, 1.0, 0\n"
                    "v_dot2_bf16_bf16 v6, 2.0, v0, 1.0\n"
                    "v_dot2_bf16_bf16 v7, v0, 0x4110, 0\n"
                    "v_dot2_f32_bf16 v8, v0, 1.0, 0\n"
                    "v_dot2_f32_bf16 v9, 4.0, v0, 1.0 op_sel_hi:[0,1,1]\n");
    assert_int_equal(p.v[5][4] & 0xffff, bf16_of(8));
    assert_int_equal(p.v[6][4] & 0xffff, bf16_of(17));
    assert_int_equal(p.v[7][4] & 0xffff, bf16_of(45)); /* 9.0 */
    assert_int_equal(p.v[8][4], bf16_of(8) << 16);
    assert_int_equal(p.v[9][4], bf16_of(33) << 16);
}

/* V_PERMLANE64 does nothing in a wave of 32 lanes. */
TEST(halves_of_64_lanes_are_not_exchanged)
{
    struct program p = wave32();
    for (unsigned l = 0; l < 32; l++)
        p.v[0][l] = l;
    program_fill(&p, 1, 77);
    program_run(&p, "v_permlane64_b32 v1, v0\n");
    assert_int_equal(p.v[1][3], 77);
}

/* The clamp bit limits sums of integers (RDNA4 ISA, 7.7, field CM). */
TEST(sums_of_integers_are_clamped)
{
    struct program p = wave32();
    program_fill(&p, 8, 0x01010101);
    program_fill(&p, 9, 0x01010101);
    for (unsigned r = 0; r < 8; r++)
        program_fill(&p, r, 0x7ffffff8);
    program_run(&p, "v_wmma_i32_16x16x16_iu8 v[24:31], v[8:9], v[8:9], v[0:7]\n"
                    "v_wmma_i32_16x16x16_iu8 v[32:39], v[8:9], v[8:9], v[0:7] clamp\n");
    assert_int_equal(p.v[24][3], 0x80000008);
    assert_int_equal(p.v[32][3], 0x7fffffff);
}

/* Tests NEG, which negates the elements in low halves, and NEG_HI, which negates the others (RDNA4
 * ISA, 7.12). */
TEST(products_negate_halves)
{
    struct program p = wave32();
    for (unsigned r = 8; r < 12; r++)
        program_fill(&p, r, bf16_of(3) << 16 | bf16_of(5));
    for (unsigned r = 16; r < 20; r++)
        program_fill(&p, r, bf16_of(1) << 16 | bf16_of(1));
    program_run(&p, "v_wmma_f32_16x16x16_bf16 v[24:31], v[8:11], v[16:19], 0\n"
                    "v_wmma_f32_16x16x16_bf16 v[32:39], v[8:11], v[16:19], 0 neg_lo:[1,0,0]\n"
                    "v_wmma_f32_16x16x16_bf16 v[40:47], v[8:11], v[16:19], 0 neg_hi:[0,1,0]\n");
    assert_true((double)float_of(p.v[24][7]) == 8 * 5 + 8 * 3);
    assert_true((double)float_of(p.v[32][7]) == -8 * 5 + 8 * 3);
    assert_true((double)float_of(p.v[40][7]) == 8 * 5 - 8 * 3);
}

/* Register v of a 16-bit result has rows 2 v and 2 v + 1 (RDNA4 ISA, 7.12.2). */
TEST(results_of_16_bits_are_packed)
{
    struct program p = wave32();
    const struct product t = {"", 16, 16, 4, false, f16_of, 0, 0};
    for (unsigned n = 0; n < 16; n++) {
        put(&p, &t, 8, 0, n, f16_of((int)n));      /* A[m][0] = m */
        put(&p, &t, 16, 0, n, f16_of(1 + (int)n)); /* B[0][n] = 1 + n */
    }
    program_run(&p, "v_wmma_f16_16x16x16_f16 v[24:27], v[8:11], v[16:19], 0\n");
    for (unsigned m = 0; m < 16; m++)
        for (unsigned n = 0; n < 16; n++)
            assert_int_equal(p.v[24 + m % 8 / 2][m / 8 * 16 + n] >> 16 * (m % 2) & 0xffff,
                             f16_of((int)(m * (1 + n))));
}

/* If the A or B of a product is the previous product's result, a vector instruction has to be in
 * between. The hardware waits for all other dependences (RDNA4 ISA, 7.12.1). */
TEST(factors_need_distance)
{
#define PRODUCT "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[16:19], v[0:7]\n"
#define MULTIPLIES "v_wmma_f32_16x16x16_bf16 v[24:31], v[4:7], v[16:19], 0\n"
    static const char *const good[] = {PRODUCT "v_nop\n" MULTIPLIES, PRODUCT PRODUCT,
                                       PRODUCT "v_mov_b32 v40, v3\n", PRODUCT "v_mov_b32 v9, 0\n",
                                       "v_exp_f32 v1, v2\nv_add_f32 v3, v1, v4\n"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct program fine = wave32(), bad = wave32();
        fine.checks = bad.checks = CHECK_ALL;
        program_try(&fine, good[i]);
        const char *const near = i % 2 ? PRODUCT MULTIPLIES : PRODUCT "s_nop 3\n" MULTIPLIES;
        program_try(&bad, near);
        check_pair(FAULT_HAZARD, &bad.fault, near, &fine.fault, good[i]);
    }
}

/* A store of one half of a register does not wait for a load of the other half (RDNA4 ISA,
 * 11.4). */
TEST(halves_are_loaded_apart)
{
    static const char *const good[] = {
        "global_load_d16_hi_b16 v2, v0, s[2:3] offset:2\nds_store_b16 v0, v2\n",
        "global_load_d16_hi_b16 v2, v0, s[2:3] offset:2\nds_store_b8 v0, v2\n",
        "global_load_d16_b16 v2, v0, s[2:3]\nds_store_b16_d16_hi v0, v2\n",
    };
    static const char *const bad[] = {
        "global_load_d16_hi_b16 v2, v0, s[2:3] offset:2\nds_store_b16_d16_hi v0, v2\n",
        "global_load_d16_b16 v2, v0, s[2:3]\nds_store_b8 v0, v2\n",
        "global_load_d16_hi_b16 v2, v0, s[2:3] offset:2\nds_store_b32 v0, v2\n",
        "global_load_b32 v2, v0, s[2:3]\nds_store_b16 v0, v2\n",
    };
    uint32_t *data = numbers(64);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const texts[] = {good[i % (sizeof(good) / sizeof(good[0]))], bad[i]};
        struct program p[2] = {wave32(), wave32()};
        for (unsigned n = 0; n < 2; n++) {
            char text[200];
            p[n].checks = CHECK_ALL;
            p[n].lds_bytes = 256;
            program_lanes(&p[n], 0, 4);
            program_fill(&p[n], 2, 7);
            program_s64_set(&p[n], 2, (uint64_t)(uintptr_t)data);
            snprintf(text, sizeof(text), "%sds_load_u16 v3, v0\ns_wait_loadcnt_dscnt 0\n",
                     texts[n]);
            program_try(&p[n], text);
        }
        check_pair(FAULT_WAIT, &p[1].fault, texts[1], &p[0].fault, texts[0]);
        assert_int_equal(p[0].v[3][5], i % 3 == 2 ? 0 : 7);
    }
    hipsim_mem_free(data);
}

/* Loads of a half keep the other one on gfx1201. On gfx1250, which has ECC, they write zeros to it
 * (CDNA5 ISA, 13.1.2 and 13.1.3). */
TEST(loads_of_a_half_keep_or_clear_the_other)
{
    static const struct {
        enum gfx_target target;
        uint32_t low, high; /* bits that v4 to v8 keep when the other half is loaded */
    } cases[] = {{GFX1201, 0xbbbb, 0xaaaa0000}, {GFX1250, 0, 0}};
    uint32_t *data = numbers(64);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint32_t low = cases[i].low, high = cases[i].high;
        struct program p = program_new(cases[i].target);
        p.block = 32;
        p.lds_bytes = 256;
        program_lanes(&p, 0, 4);
        program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
        for (unsigned v = 4; v < 9; v++)
            program_fill(&p, v, 0xaaaabbbb);
        program_run(&p, "v_mov_b32 v1, 0x80f0\nds_store_b32 v0, v1\ns_wait_dscnt 0\n"
                        "global_load_d16_b16 v4, v0, s[2:3]\n"
                        "global_load_d16_hi_b16 v5, v0, s[2:3]\n"
                        "ds_load_u8_d16_hi v6, v0\nds_load_i8_d16 v7, v0\n"
                        "ds_load_u16_d16_hi v8, v0\ns_wait_loadcnt_dscnt 0\n");
        for (unsigned l = 0; l < 32; l++) {
            assert_int_equal(p.v[4][l], high | data[l]);
            assert_int_equal(p.v[5][l], data[l] << 16 | low);
            assert_int_equal(p.v[6][l], 0xf00000 | low);
            assert_int_equal(p.v[7][l], high | 0xfff0);
            assert_int_equal(p.v[8][l], 0x80f00000 | low);
        }
    }
    hipsim_mem_free(data);
}

/* The functions from here on test pairs of instructions in one. */

/* V_DUAL_AND_B32 has the opcode that V_DUAL_BITOP2_B32 has on gfx1250 (RDNA4 ISA, 7.8). */
TEST(pairs_have_and)
{
    struct program p = wave32();
    program_fill(&p, 2, 0xff00ff00);
    program_fill(&p, 3, 0x12345678);
    program_run(&p, "v_dual_mov_b32 v5, v3 :: v_dual_and_b32 v4, v2, v3\n");
    assert_int_equal(p.v[5][31], 0x12345678);
    assert_int_equal(p.v[4][31], 0x12005600);
}

/* The functions from here on test buffers. */

/* Sets a resource (RDNA4 ISA, table 57). */
static void set_resource(struct program *p, const void *base, uint32_t stride, uint32_t records,
                         uint32_t select)
{
    program_s64_set(p, 4, (uint64_t)(uintptr_t)base | (uint64_t)stride << 48);
    p->s[6] = records;
    p->s[7] = select << 28 | 4 << 12;
}

TEST(buffers_end_as_the_select_says)
{
    uint32_t *data = numbers(64);
    struct program p = wave32();
    program_lanes(&p, 1, 4);
    program_lanes(&p, 2, 1);
    set_resource(&p, data, 0, 62, 3); /* select 3: all bytes of the access are in range */
    program_run(&p, "buffer_load_b32 v8, v1, s[4:7], null offen\n"
                    "buffer_load_b64 v[10:11], v1, s[4:7], null offen\ns_wait_loadcnt 0\n");
    assert_int_equal(p.v[8][14], 1014);
    assert_int_equal(p.v[8][15], 0); /* bytes 60 to 63, of 62 */
    assert_int_equal(p.v[10][14], 1014);
    assert_int_equal(p.v[11][14], 0);
    /* select 0: checks the index, and the offset against the stride */
    set_resource(&p, data, 8, 5, 0);
    program_run(&p, "buffer_load_b32 v8, v2, s[4:7], null idxen offset:4\n"
                    "buffer_load_b32 v9, v2, s[4:7], null idxen offset:8\ns_wait_loadcnt 0\n");
    assert_int_equal(p.v[8][4], 1009);
    assert_int_equal(p.v[8][5], 0);
    assert_int_equal(p.v[9][0], 0);
    set_resource(&p, data, 0, 1, 2); /* select 2: num_records is no limit */
    program_run(&p, "buffer_load_b32 v8, v1, s[4:7], null offen\ns_wait_loadcnt 0\n");
    assert_int_equal(p.v[8][31], 1031);
    hipsim_mem_free(data);
}

/* The functions from here on test that missing instructions are refused. */

/* A workgroup of one wave has no barrier. S_BARRIER_SIGNAL_ISFIRST then clears SCC (RDNA4 ISA), and
 * changes nothing on gfx1250 (CDNA5 ISA). */
TEST(no_wave_is_first_without_a_barrier)
{
    static const enum gfx_target targets[] = {GFX1201, GFX1250};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct program p = program_new(targets[i]);
        p.block = 32;
        program_run(&p, "s_cmp_eq_u32 0, 0\ns_barrier_signal_isfirst -1\ns_wait_kmcnt 0\n"
                        "s_cselect_b32 s4, 1, 2\nv_mov_b32 v2, s4\n");
        assert_int_equal(p.v[2][0], targets[i] == GFX1201 ? 2 : 1);
    }
}

/* gfx1201 does not decode these instructions of gfx1250: asynchronous loads, tensor data mover,
 * upper VGPRs, packed f32, longer products. */
TEST(other_encodings_are_refused)
{
    static const char *const texts[] = {
        ".long 0xee180002, 0x00000001, 0x00000001\n", /* global_load_async_to_lds_b32 */
        ".long 0xd0710001, 0x7c000000, 0x7c7c0400\n", /* tensor_load_to_lds */
        ".long 0xbfca0000\n",                         /* s_wait_asynccnt */
        ".long 0xbf860000\n",                         /* s_set_vgpr_msb */
        ".long 0xcc294000, 0x18020902\n",             /* v_pk_add_f32 */
        ".long 0xcc620000, 0x1c022108\n",             /* v_wmma_f32_16x16x32_bf16 */
        ".long 0x7e009301\n",                         /* v_permlane16_swap_b32 */
        ".long 0xdbf00000, 0x00000004\n",             /* ds_load_tr16_b128 */
        /* an instruction of gfx1201 that is not simulated */
        "ds_bvh_stack_push4_pop1_rtn_b32 v1, v0, v1, v[2:5]\n",
        /* instructions of LLVM whose opcodes are reserved (RDNA4 ISA, tables 79 and 83) */
        "s_barrier_init 1\n",
        "s_barrier_join 1\n",
        "s_barrier_leave\n",
        "s_ttracedata\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct program p = wave32();
        program_try(&p, texts[i]);
        if (p.fault.kind != FAULT_DECODE)
            print_error("not refused: %s", texts[i]);
        assert_int_equal(p.fault.kind, FAULT_DECODE);
    }
}

/* MODE has no upper bits of register numbers (RDNA4 ISA, table 7). On gfx1250 they are in bits
 * 19:12. */
TEST(mode_moves_no_registers)
{
    struct program p = wave32();
    program_fill(&p, 2, 7);
    program_run(&p, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 8), 0xff\nv_mov_b32 v3, v2\n");
    assert_int_equal(p.v[3][31], 7);
}

/* Tests hardware registers of gfx1250 whose numbers RDNA4 uses for other registers, or not at all
 * (RDNA4 ISA, 3.4). */
TEST(hardware_registers_of_gfx1250_are_refused)
{
    static const unsigned numbers_of[] = {20, 26, 28};
    for (size_t i = 0; i < sizeof(numbers_of) / sizeof(numbers_of[0]); i++) {
        struct program p = wave32();
        char text[64];
        snprintf(text, sizeof(text), "s_getreg_b32 s4, hwreg(%u, 0, 32)\n", numbers_of[i]);
        program_try(&p, text);
        assert_int_equal(p.fault.kind, FAULT_TRAP);
        assert_non_null(strstr(p.fault.text, "is not simulated"));
    }
}

/* A flat address of private memory does not include the lane, unlike on gfx1250 (CDNA5 ISA,
 * 10.2). */
TEST(flat_addresses_name_no_lane)
{
    struct program p = wave32();
    p.private_bytes = 16;
    program_fill(&p, 0, (uint32_t)PRIVATE_APERTURE + 8);
    program_fill(&p, 1, (uint32_t)(PRIVATE_APERTURE >> 32));
    program_lanes(&p, 2, 1000);
    program_run(&p, "flat_store_b32 v[0:1], v2\ns_wait_storecnt 0\ns_wait_dscnt 0\n"
                    "scratch_load_b32 v4, off, off offset:8\ns_wait_loadcnt 0\n");
    for (unsigned l = 0; l < 32; l++)
        assert_int_equal(p.v[4][l], 1000 * l);
}

/* VGPRs are allocated in blocks of 24. A work-group processor has the LDS of two workgroups. */
TEST(the_machine_is_as_the_manual_says)
{
    const struct isa *isa = isa_of(GFX1201);
    assert_int_equal(isa->lanes, 32);
    assert_int_equal(isa->vgprs / (isa->vgpr_granule * 11), 5); /* 256 registers take 264 */
    assert_int_equal(isa->lds_bytes, 2 * isa->lds_group);
    assert_int_equal(isa->lds_group, 64 * 1024);
}

int main(void) { return run_unit_tests(); }

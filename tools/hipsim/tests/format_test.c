/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests format accesses of buffers (CDNA3 ISA, 9.1, TBUFFER_LOAD_FORMAT_X and following: "VDATA =
 * ConvertFromFormat(MEM[addr + ChannelOffset])"). It tests each data format with each number
 * format, in all forms. The tables of components, ranges and values are independent of the
 * simulator's.
 */
#include <math.h>
#include <stdio.h>

#include "tools/hipsim/tests/device.h"
#include "tools/hipsim/exec/smallfloat.h"

enum { UNORM, SNORM, USCALED, SSCALED, UINT, SINT, RESERVED, FLOAT };

static const unsigned component_bits[16][4] = {
    {0},
    {8},
    {16},
    {8, 8},
    {32},
    {16, 16},
    {11, 11, 10},
    {10, 11, 11},
    {2, 10, 10, 10},
    {10, 10, 10, 2},
    {8, 8, 8, 8},
    {32, 32},
    {16, 16, 16, 16},
    {32, 32, 32},
    {32, 32, 32, 32},
    {0},
};

static bool exists(unsigned data, unsigned number)
{
    unsigned bits = component_bits[data][0];

    if (!bits || number == RESERVED)
        return false;
    if (bits == 32)
        return number >= UINT;
    return number != FLOAT || bits == 16 || data == 6 || data == 7;
}

static unsigned bytes_of(unsigned data)
{
    const unsigned *b = component_bits[data];

    return (b[0] + b[1] + b[2] + b[3]) / 8;
}

/* Returns component `c` of an element, assembled bit by bit. */
static uint32_t code_at(const uint8_t *element, unsigned data, unsigned c)
{
    unsigned at = 0;
    uint32_t code = 0;

    for (unsigned i = 0; i < c; i++)
        at += component_bits[data][i];
    for (unsigned i = 0; i < component_bits[data][c]; i++)
        code |= (uint32_t)(element[(at + i) / 8] >> (at + i) % 8 & 1) << i;
    return code;
}

static double small_float(uint32_t code, unsigned bits)
{
    unsigned mbits = bits == 16 ? 10 : bits - 5, e = code >> mbits & 31;
    double m = code & ((1u << mbits) - 1), sign = bits == 16 && code >> 15 ? -1 : 1;

    if (e == 31)
        return m != 0 ? NAN : sign * INFINITY;
    return sign *
           (e ? ldexp(m + (1 << mbits), (int)e - 15 - (int)mbits) : ldexp(m, -14 - (int)mbits));
}

static int64_t as_signed(uint32_t code, unsigned bits)
{
    return code >> (bits - 1) & 1 ? (int64_t)code - (INT64_C(1) << bits) : code;
}

static double real_value(uint32_t code, unsigned bits, unsigned number)
{
    double v = (double)as_signed(code, bits) / (double)((INT64_C(1) << (bits - 1)) - 1);

    switch (number) {
    case UNORM: return code / (double)((INT64_C(1) << bits) - 1);
    case SNORM: return v < -1 ? -1 : v;
    case USCALED: return code;
    case SSCALED: return (double)as_signed(code, bits);
    default: return bits == 32 ? float_from_bits(code) : small_float(code, bits);
    }
}

static void check_value(uint32_t got, uint32_t code, unsigned data, unsigned c, unsigned number,
                        bool d16)
{
    unsigned bits = component_bits[data][c];
    double got_real = d16 ? f32_from_f16((uint16_t)got) : float_from_bits(got);

    if (number == UINT || number == SINT) {
        uint32_t want = number == UINT ? code : (uint32_t)as_signed(code, bits);
        if (got != (d16 ? want & 0xffff : want))
            fail_msg("data %u number %u component %u code %x: %x", data, number, c, code, got);
        return;
    }
    double want = real_value(code, bits, number);
    double rounded = d16 ? f32_from_f16(f16_from_f32((float)want)) : (float)want;
    if (got_real != rounded && !(isnan(got_real) && isnan(rounded)))
        fail_msg("data %u number %u component %u code %x: %g not %g", data, number, c, code,
                 got_real, rounded);
}

static const char *const names[4] = {"x", "xy", "xyz", "xyzw"};

/* Returns the first register of loads of n components, of 32 or 16 bits. */
static unsigned first_register(unsigned n, bool d16)
{
    static const uint8_t registers[2][5] = {{0, 8, 10, 12, 16}, {0, 20, 21, 22, 24}};

    return registers[d16][n];
}

/* Returns instructions that load each number of components from s[4:7]. The loads of four
 * components are stored again, through s[8:11], and with 16 bits through s[12:15]. */
static const char *access_text(unsigned data, unsigned number)
{
    static char text[2000];
    int end = 0;

    for (unsigned i = 0; i < 8; i++) {
        unsigned n = i / 2 + 1, from = first_register(n, i % 2);
        end += snprintf(text + end, sizeof(text) - (unsigned)end,
                        "tbuffer_load_format_%s%s v[%u:%u], v0, s[4:7], 0 format:%u idxen\n",
                        i % 2 ? "d16_" : "", names[n - 1], from,
                        from + (i % 2 ? (n + 1) / 2 : n) - 1, data | number << 4);
    }
    snprintf(text + end, sizeof(text) - (unsigned)end,
             "s_waitcnt vmcnt(0)\n"
             "tbuffer_store_format_xyzw v[16:19], v0, s[8:11], 0 format:%u idxen\n"
             "tbuffer_store_format_d16_xyzw v[24:25], v0, s[12:15], 0 format:%u idxen\n"
             "s_waitcnt vmcnt(0)",
             data | number << 4, data | number << 4);
    return text;
}

static uint8_t *random_elements(void)
{
    static uint8_t init[64 * 16];
    static uint32_t state = 7;

    for (unsigned i = 0; i < sizeof(init); i++) {
        state = state * 1664525 + 1013904223;
        init[i] = (uint8_t)(state >> 24);
    }
    memset(init, 0, 16); /* includes the ends of the ranges */
    memset(init + 16, 0xff, 16);
    return device_alloc(sizeof(init), init);
}

static void check_load(const struct program *p, const uint8_t *elements, unsigned data,
                       unsigned number, unsigned n, bool d16)
{
    uint32_t one = number == UINT || number == SINT ? 1 : d16 ? 0x3c00 : 0x3f800000;
    const uint32_t (*v)[64] = p->v + first_register(n, d16);

    for (unsigned l = 0; l < 60; l++) {
        for (unsigned c = 0; c < n; c++) {
            uint32_t got = d16 ? v[c / 2][l] >> c % 2 * 16 & 0xffff : v[c][l];
            if (component_bits[data][c])
                check_value(got, code_at(elements + l * bytes_of(data), data, c), data, c, number,
                            d16);
            else
                assert_int_equal(got, c == 3 ? one : 0);
        }
    }
    for (unsigned r = 0; r < n && !d16; r++)
        assert_int_equal(v[r][60], 0); /* out of range */
    if (d16 && n % 2)
        assert_int_equal(v[n / 2][5] >> 16, 0); /* bits 31:16 are cleared (CDNA3 ISA, 9.1.6) */
}

/* Checks that stores of the loaded values give the same bytes, except for values that have two
 * codes. */
static void check_store(const uint8_t *copy, const uint8_t *elements, unsigned data,
                        unsigned number, bool d16)
{
    unsigned size = bytes_of(data), bits = component_bits[data][0];

    if (d16 && (bits > 11 || (number == FLOAT && data < 8)) && !(number == FLOAT && bits == 16))
        return; /* f16 cannot represent all values */
    for (unsigned l = 0; l < 60; l++) {
        for (unsigned c = 0; c < 4 && component_bits[data][c]; c++) {
            uint32_t want = code_at(elements + l * size, data, c);
            unsigned n = component_bits[data][c];
            uint32_t got = code_at(copy + l * size, data, c);
            bool same = number == SNORM && want == 1u << (n - 1) ? got == want + 1
                        : number == FLOAT && isnan(real_value(want, n, FLOAT))
                            ? isnan(real_value(got, n, FLOAT))
                            : got == want;
            if (!same)
                fail_msg("data %u number %u component %u: stored %x, was %x", data, number, c, got,
                         want);
        }
    }
    for (unsigned i = 60 * size; i < 64 * size; i++)
        assert_int_equal(copy[i], 0x5a); /* out of range */
}

static void check_format(const uint8_t *elements, unsigned data, unsigned number)
{
    static uint8_t init[64 * 16];
    struct program p = program_new(GFX942);
    unsigned size = bytes_of(data);
    uint8_t *copy[2];

    memset(init, 0x5a, sizeof(init));
    program_lanes(&p, 0, 1);
    program_resource(&p, 4, elements, size, 60);
    for (unsigned i = 0; i < 2; i++) {
        copy[i] = device_alloc(sizeof(init), init);
        program_resource(&p, 8 + 4 * i, copy[i], size, 60);
    }
    for (unsigned r = 8; r < 26; r++)
        program_fill(&p, r, 0xabcdabcd);
    program_run(&p, access_text(data, number));
    for (unsigned i = 0; i < 8; i++)
        check_load(&p, elements, data, number, i / 2 + 1, i % 2);
    check_store(copy[0], elements, data, number, false);
    check_store(copy[1], elements, data, number, true);
}

TEST(every_format_converts_both_ways)
{
    const uint8_t *elements = random_elements();
    for (unsigned data = 0; data < 16; data++)
        for (unsigned number = 0; number < 8; number++)
            if (exists(data, number))
                check_format(elements, data, number);
}

TEST(formats_that_do_not_exist_are_refused)
{
    uint8_t *elements = random_elements();
    struct program p = program_new(GFX950);
    for (unsigned data = 0; data < 16; data += 5) {
        for (unsigned number = 0; number < 8; number += 6) {
            program_resource(&p, 4, elements, 16, 60);
            p.s[7] = 4 | 5 << 3 | 6 << 6 | 7 << 9 | number << 12 | data << 15;
            program_lanes(&p, 0, 1);
            program_try(&p, "buffer_load_format_x v8, v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
            assert_int_equal(p.fault.kind, exists(data, number) ? FAULT_NONE : FAULT_TRAP);
        }
    }
}

/* Select i of the resource gives register i of MUBUF forms: 0, 1, or a component. */
TEST(resources_select_components)
{
    struct program p = program_new(GFX942);
    uint8_t *elements = random_elements();
    program_resource(&p, 4, elements, 4, 64);
    p.s[7] = 6 | 1 << 3 | 0 << 6 | 4 << 9 | UNORM << 12 | 10 << 15; /* selects z 1 0 x of 8_8_8_8 */
    program_lanes(&p, 0, 1);
    p.s[12] = p.s[4], p.s[13] = p.s[5], p.s[14] = 10, p.s[15] = p.s[7];
    program_fill(&p, 20, 0xabcdabcd);
    program_run(&p, "buffer_load_format_xyzw v[8:11], v0, s[4:7], 0 idxen\n"
                    "buffer_load_format_xy v[12:13], v0, s[12:15], 0 idxen\n"
                    "buffer_load_format_d16_hi_x v20, v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        const uint8_t *e = elements + 4 * l;
        assert_int_equal(p.v[8][l], bits_of((float)(e[2] / 255.0)));
        assert_int_equal(p.v[9][l], 0x3f800000);
        assert_int_equal(p.v[10][l], 0);
        assert_int_equal(p.v[11][l], bits_of((float)(e[0] / 255.0)));
        assert_int_equal(p.v[12][l], l < 10 ? p.v[8][l] : 0);
        assert_int_equal(p.v[13][l], 0x3f800000); /* "except for components with SEL_1" */
        assert_int_equal(p.v[20][l] >> 16, f16_from_f32((float)(e[2] / 255.0)));
        assert_int_equal(p.v[20][l] & 0xffff, 0);
    }
}

TEST(stores_write_the_components_they_have)
{
    struct program p = program_new(GFX942);
    static const uint8_t init[16] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t *e = device_alloc(sizeof(init), init);
    program_resource(&p, 4, e, 4, 1);
    p.s[7] = 6 | 5 << 3 | 4 << 6 | 7 << 9 | UNORM << 12 | 10 << 15; /* selects z y x w of 8_8_8_8 */
    /* above the range of the format */
    program_fill(&p, 8, bits_of(2.0f));
    program_fill(&p, 9, bits_of(0.5f)); /* 127.5 rounds to even */
    program_lanes(&p, 0, 1);
    program_run(&p, "buffer_store_format_xy v[8:9], v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    const uint8_t want[] = {1, 128, 255, 4, 5};
    assert_memory_equal(e, want, sizeof(want));
    program_fill(&p, 8, 0xffc00000); /* NaN becomes zero */
    program_run(&p, "buffer_store_format_x v8, v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    assert_int_equal(e[2], 0);
    p.s[7] = 4 | 5 << 3 | 6 << 6 | 7 << 9 | FLOAT << 12 | 6 << 15; /* format 10_11_11 float */
    program_fill(&p, 8, bits_of(1.0f + 127.0f / 128));             /* truncated to 1.984375 */
    program_fill(&p, 9, bits_of(-3.0f));
    program_fill(&p, 10, bits_of(1e9f));
    program_run(&p, "buffer_store_format_xyz v[8:10], v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    uint32_t packed;
    memcpy(&packed, e, sizeof(packed));
    assert_int_equal(packed & 0x7ff, 15 << 6 | 63);
    assert_int_equal(packed >> 11 & 0x7ff, 0);
    assert_int_equal(packed >> 22, 30 << 5 | 31);
}

int main(void) { return run_unit_tests(); }

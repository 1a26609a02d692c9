/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests V_CMP and V_CMPX of all types and relations on gfx942 and gfx1250 (VOPC of the CDNA3 and
 * CDNA5 ISA). The numbers include denormals, both zeros, infinity and NaN.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"

enum { NUMBERS = 8, PAIRS = NUMBERS * NUMBERS };

/* A type of operands: its name and numbers, as bits and as values. */
struct type {
    const char *name;
    bool wide; /* true: 64 bits */
    uint64_t bits[NUMBERS];
    double value[NUMBERS]; /* floats only */
    int integer;           /* bits of an integer, negative: signed; 0: a float */
};

#define FLOATS(least) {0.0, -0.0, 1.0, -1.0, 2.0, INFINITY, NAN, least}
#define INTEGERS {0, 1, UINT64_MAX, UINT64_C(0x8000000080008000), INT64_MAX, 2, 0x7fff, 0x7fffffff}

static const struct type types[] = {
    {"f16", false, {0, 0x8000, 0x3c00, 0xbc00, 0x4000, 0x7c00, 0x7e00, 1}, FLOATS(0x1p-24), 0},
    {"f32",
     false,
     {0, 0x80000000, 0x3f800000, 0xbf800000, 0x40000000, 0x7f800000, 0x7fc00000, 1},
     FLOATS(0x1p-149),
     0},
    {"f64",
     true,
     {0, UINT64_C(1) << 63, UINT64_C(0x3ff) << 52, UINT64_C(0xbff) << 52, UINT64_C(1) << 62,
      UINT64_C(0x7ff) << 52, UINT64_C(0x7ff8) << 48, 1},
     FLOATS(0x1p-1074),
     0},
    {"i16", false, INTEGERS, {0}, -16},
    {"u16", false, INTEGERS, {0}, 16},
    {"i32", false, INTEGERS, {0}, -32},
    {"u32", false, INTEGERS, {0}, 32},
    {"i64", true, INTEGERS, {0}, -64},
    {"u64", true, INTEGERS, {0}, 64},
};

/* Relations of floats and of integers by opcode; the first and the last are on gfx9 only. */
static const char *const of_floats[] = {"f", "lt",  "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                        "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"};
static const char *const of_integers[] = {"f", "lt", "eq", "le", "gt", "ne", "ge", "t"};

/* Returns an integer of `type` as one that compares as unsigned. */
static uint64_t ordered(const struct type *type, uint64_t bits)
{
    const unsigned size = (unsigned)(type->integer < 0 ? -type->integer : type->integer);
    const uint64_t top = UINT64_C(1) << (size - 1), mask = top | (top - 1);
    return (bits & mask) ^ (type->integer < 0 ? top : 0);
}

/* True if a and b, the numbers i and j of `type`, have relation r. */
static bool holds(const struct type *type, unsigned r, unsigned i, unsigned j)
{
    bool lt, eq, gt;
    if (type->integer) {
        const uint64_t a = ordered(type, type->bits[i]), b = ordered(type, type->bits[j]);
        lt = a<b, eq = a == b, gt = a> b;
    } else {
        const double a = type->value[i], b = type->value[j];
        lt = a<b, eq = a == b, gt = a> b;
    }
    /* The low three bits of an opcode choose among less, equal and greater. */
    const bool chosen = (r & 1 && lt) || (r & 2 && eq) || (r & 4 && gt);
    if (type->integer)
        return chosen;
    const bool unordered = !lt && !eq && !gt;
    return chosen || (r >= 8 && unordered);
}

/* Returns the name of relation r of `type`. */
static const char *name_of(const struct type *type, unsigned r)
{
    return type->integer ? of_integers[r] : of_floats[r];
}

/* Writes V_CMP and V_CMPX of relation r to `text`. Their masks go to s[20 + 2 r] and to
 * s[52 + 2 r]. Returns the number of characters. */
static int relation_text(char *text, size_t size, const struct type *type, unsigned r,
                         unsigned lanes)
{
    const char *operands = type->wide ? "v[2:3], v[4:5]" : "v2, v4", *name = name_of(type, r);
    const unsigned plain = 20 + 2 * r, to_exec = 52 + 2 * r;
    if (lanes == 32)
        return snprintf(text, size,
                        "v_cmp_%s_%s_e64 s%u, %s\nv_cmpx_%s_%s_e64 %s\n"
                        "s_mov_b32 s%u, exec_lo\ns_mov_b32 exec_lo, -1\n",
                        name, type->name, plain, operands, name, type->name, operands, to_exec);
    return snprintf(text, size,
                    "v_cmp_%s_%s_e64 s[%u:%u], %s\nv_cmpx_%s_%s_e64 s[8:9], %s\n"
                    "s_and_b64 s[%u:%u], exec, s[8:9]\ns_mov_b64 exec, -1\n",
                    name, type->name, plain, plain + 1, operands, name, type->name, operands,
                    to_exec, to_exec + 1);
}

/* Checks all relations from `begin` to `end` on the pairs from `first` on, one in each lane. */
static void check_pairs(enum gfx_target target, const struct type *type, unsigned begin,
                        unsigned end, unsigned first)
{
    const unsigned lanes = isa_of(target)->lanes;
    struct program p = program_new(target);
    char text[16 * 200];
    size_t used = 0;

    p.block = lanes;
    for (unsigned l = 0; l < lanes; l++) {
        const uint64_t a = type->bits[(first + l) / NUMBERS], b = type->bits[(first + l) % NUMBERS];
        p.v[2][l] = (uint32_t)a;
        p.v[3][l] = (uint32_t)(a >> 32);
        p.v[4][l] = (uint32_t)b;
        p.v[5][l] = (uint32_t)(b >> 32);
    }
    for (unsigned r = begin; r < end; r++)
        used += (size_t)relation_text(text + used, sizeof(text) - used, type, r, lanes);
    program_run(&p, text);
    for (unsigned r = begin; r < end; r++) {
        for (unsigned l = 0; l < lanes; l++) {
            const unsigned i = (first + l) / NUMBERS, j = (first + l) % NUMBERS;
            const bool want = holds(type, r, i, j);
            const uint64_t plain = program_s64(&p, 20 + 2 * r),
                           to_exec = program_s64(&p, 52 + 2 * r);
            if ((plain >> l & 1) != want || (to_exec >> l & 1) != want)
                fail_msg("v_cmp_%s_%s of numbers %u and %u", name_of(type, r), type->name, i, j);
        }
    }
}

/* Checks all relations that the target has. */
static void check_type(enum gfx_target target, const struct type *type)
{
    const unsigned lanes = isa_of(target)->lanes, most = type->integer ? 8 : 16;
    const bool constants = lanes == 64;
    for (unsigned first = 0; first < PAIRS; first += lanes)
        check_pairs(target, type, !constants, constants ? most : most - 1, first);
}

TEST(all_relations_of_all_types)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        check_type(GFX942, &types[i]);
}

TEST(all_relations_of_all_types_in_waves_of_32)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        check_type(GFX1250, &types[i]);
}

int main(void) { return run_unit_tests(); }

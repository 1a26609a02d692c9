/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every matrix instruction of both targets against a plain matrix product in double precision, by
 * iteration over the op rows. Lane layouts are written down here once more, from AMD's matrix
 * instruction calculator and the ROCm blog "Matrix core programming on AMD CDNA3 and CDNA4", in
 * its formulas and not in the simulator's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hipsim/program.h"
#include "tools/hipsim/mfma.h"
#include "tools/hipsim/smallfloat.h"
#include "tools/hipsim/tables.h"

enum { D = 0, A = 32, B = 40, SCALE_A = 48, SCALE_B = 49, INDEX = 50 };

static uint32_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8 ^ random_state << 13;
}

/* What the name says: v_mfma_f32_32x32x4_2b_f16, v_smfmac_f32_16x16x64_fp8_bf8, ... */
struct spec {
    char name[48];
    char out[8], a[8], b[8];
    unsigned m, n, k, blocks;
    bool sparse, formats, scaled;
};

static struct spec parse(const char *name)
{
    struct spec s = { .blocks = 1 };
    char rest[48] = "";

    snprintf(s.name, sizeof s.name, "%s", name);
    s.sparse = strstr(name, "smfmac") != NULL;
    s.formats = strstr(name, "f8f6f4") != NULL;
    s.scaled = strstr(name, "scale") != NULL;
    const char *type = strchr(name, '_');
    type = strchr(type + 1, '_') + 1;
    if (s.scaled)
        type = strchr(type, '_') + 1;
    assert_int_equal(sscanf(type, "%7[^_]_%ux%ux%u_%47s", s.out, &s.m, &s.n, &s.k, rest), 5);
    unsigned blocks;
    int used = 0;
    if (sscanf(rest, "%ub_%n", &blocks, &used) == 1 && used) {
        s.blocks = blocks;
        memmove(rest, rest + used, strlen(rest + used) + 1);
    }
    sscanf(rest, "%7[^_]_%7s", s.a, s.b);
    if (!s.b[0])
        strcpy(s.b, s.a);
    return s;
}

/* -- formats of the test's own, bit by bit -------------------------------------------------------- */

static double power(int e)
{
    return ldexp(1, e);
}

static double minifloat(unsigned code, int ebits, int mbits, int bias)
{
    int e = (int)(code >> mbits & ((1u << ebits) - 1)), m = (int)(code & ((1u << mbits) - 1));
    double v = e ? (power(mbits) + m) * power(e - bias - mbits) : m * power(1 - bias - mbits);

    return code >> (ebits + mbits) & 1 ? -v : v;
}

static unsigned bits_of_format(const char *f)
{
    if (!strcmp(f, "f64"))
        return 64;
    if (!strcmp(f, "f32") || !strcmp(f, "xf32"))
        return 32;
    if (!strcmp(f, "f16") || !strcmp(f, "bf16"))
        return 16;
    return !strcmp(f, "fp6") || !strcmp(f, "bf6") ? 6 : !strcmp(f, "fp4") ? 4 : 8;
}

/* A random code of the format whose value is a small multiple of 1/2 where the format has those. */
static uint64_t random_code(const char *f)
{
    float v = (float)((int)(random32() % 9) - 4);
    uint64_t bits;
    double d = v;

    if (!strcmp(f, "f64")) {
        memcpy(&bits, &d, sizeof bits);
        return bits;
    }
    if (!strcmp(f, "f32") || !strcmp(f, "xf32"))
        return bits_from_float(v);
    if (!strcmp(f, "bf16"))
        return bits_from_float(v) >> 16;
    if (!strcmp(f, "f16"))
        return f16_from_f32(v);
    if (!strcmp(f, "fp8")) /* 0.5 .. 3.75 and negative ones, for both biases */
        return 0x30 + random32() % 24 + (random32() & 0x80);
    if (!strcmp(f, "bf8"))
        return 0x38 + random32() % 14 + (random32() & 0x80);
    return random32() & ((1u << bits_of_format(f)) - 1);
}

static double value(const char *f, uint64_t code, enum gfx_target target)
{
    double d;

    if (!strcmp(f, "f64")) {
        memcpy(&d, &code, sizeof d);
        return d;
    }
    if (!strcmp(f, "f32") || !strcmp(f, "xf32"))
        return float_from_bits((uint32_t)code);
    if (!strcmp(f, "bf16"))
        return float_from_bits((uint32_t)code << 16);
    if (!strcmp(f, "f16"))
        return minifloat((unsigned)code, 5, 10, 15);
    if (!strcmp(f, "i8"))
        return (int8_t)code;
    if (!strcmp(f, "fp8"))
        return minifloat((unsigned)code, 4, 3, target == GFX942 ? 8 : 7);
    if (!strcmp(f, "bf8"))
        return minifloat((unsigned)code, 5, 2, target == GFX942 ? 16 : 15);
    if (!strcmp(f, "fp6"))
        return minifloat((unsigned)code, 2, 3, 1);
    if (!strcmp(f, "bf6"))
        return minifloat((unsigned)code, 3, 2, 3);
    assert_string_equal(f, "fp4");
    return minifloat((unsigned)code, 2, 1, 1);
}

/* -- layouts ------------------------------------------------------------------------------------------- */

/* Element and lane of A[i][k] (B[k][j]) of a block; k counts stored elements of a sparse A. */
static void input_place(unsigned width, unsigned k_all, unsigned blocks, unsigned bits, bool sparse,
                        unsigned i, unsigned k, unsigned block, unsigned *element, unsigned *lane)
{
    unsigned per_lane = k_all * width * blocks / 64;

    if (bits == 8 && per_lane == 32 && !sparse) { /* two stripes of 16 */
        unsigned half = k_all / 2;
        *element = k / half * 16 + k % 16;
        *lane = i + width * (k % half / 16);
        return;
    }
    *element = k % per_lane;
    *lane = block * width + k / per_lane * width * blocks + i;
}

static void output_place(const struct spec *s, unsigned i, unsigned j, unsigned block,
                         unsigned *reg, unsigned *lane)
{
    unsigned height = strcmp(s->out, "f64") ? 4 : 1;
    unsigned multirows = 64 / s->n;
    unsigned area = s->n * s->m / height;
    unsigned blocks_per_register = (64 + area - 1) / area;

    *reg = block * (s->m * s->n / 64) + i / (height * multirows) * height + i % height;
    if (blocks_per_register > 1)
        *reg = block / blocks_per_register * height + i % height;
    *lane = block % blocks_per_register * s->n +
            i / height % multirows * blocks_per_register * s->n + j;
}

static uint64_t get(const struct program *p, unsigned reg, unsigned bits, unsigned element,
                    unsigned lane)
{
    unsigned at = element * bits, word = at / 32, shift = at % 32;
    uint64_t v = p->v[reg + word][lane];

    if (shift + bits > 32)
        v |= (uint64_t)p->v[reg + word + 1][lane] << 32;
    return bits == 64 ? v : v >> shift & ((UINT64_C(1) << bits) - 1);
}

static void put(struct program *p, unsigned reg, unsigned bits, unsigned element, unsigned lane,
                uint64_t code)
{
    for (unsigned b = 0; b < bits; b++) {
        unsigned at = element * bits + b;
        uint32_t bit = 1u << at % 32;
        p->v[reg + at / 32][lane] &= ~bit;
        p->v[reg + at / 32][lane] |= code >> b & 1 ? bit : 0;
    }
}

/* -- one instruction -------------------------------------------------------------------------------- */

static unsigned registers(unsigned elements, unsigned bits)
{
    return (elements * bits + 31) / 32;
}

static void operand_text(char *text, size_t size, unsigned reg, unsigned count)
{
    if (count == 1)
        snprintf(text, size, "v%u", reg);
    else
        snprintf(text, size, "v[%u:%u]", reg, reg + count - 1);
}

static void instruction(const struct spec *s, const char *modifiers, char *text, size_t size)
{
    unsigned out_bits = strcmp(s->out, "f64") ? 32 : 64;
    unsigned ka = s->sparse ? s->k / 2 : s->k;
    char d[16], a[16], b[16];

    operand_text(d, sizeof d, D, registers(s->m * s->n * s->blocks / 64, out_bits));
    operand_text(a, sizeof a, A, registers(ka * s->m * s->blocks / 64, bits_of_format(s->a)));
    operand_text(b, sizeof b, B, registers(s->k * s->n * s->blocks / 64, bits_of_format(s->b)));
    if (s->sparse)
        snprintf(text, size, "%s %s, %s, %s, v%u %s", s->name, d, a, b, INDEX, modifiers);
    else if (s->scaled)
        snprintf(text, size, "%s %s, %s, %s, %s, v%u, v%u %s", s->name, d, a, b, d, SCALE_A,
                 SCALE_B, modifiers);
    else
        snprintf(text, size, "%s %s, %s, %s, %s %s", s->name, d, a, b, d, modifiers);
}

/* Random operands, in place. */
static void fill(struct program *p, const struct spec *s)
{
    unsigned bits_a = bits_of_format(s->a), bits_b = bits_of_format(s->b);
    unsigned ka = s->sparse ? s->k / 2 : s->k;

    for (unsigned l = 0; l < 64; l++) {
        for (unsigned e = 0; e < ka * s->m * s->blocks / 64; e++)
            put(p, A, bits_a, e, l, random_code(s->a));
        for (unsigned e = 0; e < s->k * s->n * s->blocks / 64; e++)
            put(p, B, bits_b, e, l, random_code(s->b));
        p->v[INDEX][l] = random32();
        for (unsigned byte = 0; byte < 4; byte++) {
            p->v[SCALE_A][l] = p->v[SCALE_A][l] << 8 | (124 + random32() % 7);
            p->v[SCALE_B][l] = p->v[SCALE_B][l] << 8 | (124 + random32() % 7);
        }
        for (unsigned r = 0; r < s->m * s->n * s->blocks / 64; r++) {
            int c = (int)(random32() % 17) - 8;
            double d = c;
            uint64_t wide;
            memcpy(&wide, &d, sizeof wide);
            if (!strcmp(s->out, "f64"))
                put(p, D, 64, r, l, wide);
            else
                p->v[D + r][l] = !strcmp(s->out, "i32") ? (uint32_t)c : bits_from_float((float)c);
        }
    }
}

static double output(const struct spec *s, const struct program *p, unsigned i, unsigned j,
                     unsigned block)
{
    unsigned reg, lane;

    output_place(s, i, j, block, &reg, &lane);
    if (!strcmp(s->out, "f64"))
        return value("f64", get(p, D, 64, reg, lane), GFX942);
    if (!strcmp(s->out, "i32"))
        return (int32_t)p->v[D + reg][lane];
    return float_from_bits(p->v[D + reg][lane]);
}

static double scale(const struct program *p, unsigned reg, unsigned byte, unsigned width,
                    unsigned i, unsigned k)
{
    return power((int)(p->v[reg][i + width * (k / 32)] >> (8 * byte) & 255) - 127);
}

/* C + A * B of one element; `size` gets the sum of magnitudes. */
static double plain_product(const struct spec *s, const struct program *p, unsigned i, unsigned j,
                            unsigned block, unsigned byte, double *size)
{
    unsigned bits_a = bits_of_format(s->a), bits_b = bits_of_format(s->b), e, l;
    double sum = output(s, p, i, j, block);

    *size = fabs(sum);
    for (unsigned ka = 0; ka < (s->sparse ? s->k / 2 : s->k); ka++) {
        unsigned k = ka;
        input_place(s->m, s->sparse ? s->k / 2 : s->k, s->blocks, bits_a, s->sparse, i, ka, block,
                    &e, &l);
        double a = value(s->a, get(p, A, bits_a, e, l), p->target);
        if (s->sparse) /* the stored pair ka / 2 stands for four k; two bits say which */
            k = ka / 2 * 4 + (p->v[INDEX][l] >> (2 * e) & 3);
        input_place(s->n, s->k, s->blocks, bits_b, s->sparse, j, k, block, &e, &l);
        double b = value(s->b, get(p, B, bits_b, e, l), p->target);
        if (s->scaled)
            a *= scale(p, SCALE_A, byte, s->m, i, k) * scale(p, SCALE_B, byte, s->n, j, k);
        sum += a * b;
        *size += fabs(a * b);
    }
    return sum;
}

static void check(const struct spec *s, enum gfx_target target, const char *modifiers,
                  unsigned byte)
{
    struct program *p = malloc(sizeof *p), *before = malloc(sizeof *before);
    char text[160];

    *p = program_new(target);
    fill(p, s);
    *before = *p;
    instruction(s, modifiers, text, sizeof text);
    program_run(p, text);
    for (unsigned block = 0; block < s->blocks; block++)
        for (unsigned i = 0; i < s->m; i++)
            for (unsigned j = 0; j < s->n; j++) {
                double size, want = plain_product(s, before, i, j, block, byte, &size);
                double have = output(s, p, i, j, block);
                /* Aligned to 24 fractional bits of the largest term, k terms, one rounding. */
                if (fabs(have - want) > size * s->k * 0x1p-24)
                    fail_msg("%s: D[%u][%u] of block %u is %.9g, not %.9g", text, i, j, block,
                             have, want);
            }
    free(before);
    free(p);
}

static void every_shape_is_a_matrix_product(void **state)
{
    static const char *const formats[] = { "fp8", "bf8", "fp6", "bf6", "fp4" };
    unsigned checked = 0;

    (void)state;
    for (const struct op_row *row = exec_mfma_rows; row->name; row++) {
        struct spec s = parse(row->name);
        for (enum gfx_target t = GFX942; t <= GFX950; t++) {
            if (row->targets && !(row->targets & t))
                continue;
            checked++;
            if (!s.formats) {
                check(&s, t, "", 0);
                continue;
            }
            for (unsigned f = 0; f < 25; f++) {
                char modifiers[96];
                unsigned byte = s.scaled ? f % 4 : 0;
                int n = snprintf(modifiers, sizeof modifiers, "cbsz:%u blgp:%u", f % 5, f / 5);
                strcpy(s.a, formats[f % 5]);
                strcpy(s.b, formats[f / 5]);
                if (s.scaled)
                    snprintf(modifiers, sizeof modifiers,
                             "op_sel:[%u,%u,0] op_sel_hi:[%u,%u,0] cbsz:%u blgp:%u", byte & 1,
                             byte & 1, byte >> 1, byte >> 1, f % 5, f / 5);
                assert_true(n > 0);
                check(&s, t, modifiers, byte);
            }
        }
    }
    assert_true(checked > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_a_matrix_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

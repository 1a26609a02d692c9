/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares each matrix instruction of both targets with a plain matrix product in double precision.
 * The op rows list the instructions. The lane layouts are independent of the simulator. Their
 * formulas come from AMD's matrix instruction calculator and the ROCm blog "Matrix core programming
 * on AMD CDNA3 and CDNA4".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/exec/mfma.h"
#include "tools/hipsim/exec/smallfloat.h"
#include "tools/hipsim/exec/tables.h"

enum { D = 0, A = 32, B = 40, SCALE_A = 48, SCALE_B = 49, INDEX = 50 };

static uint32_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8 ^ random_state << 13;
}

/* Parts of an instruction's name: v_mfma_f32_32x32x4_2b_f16, v_smfmac_f32_16x16x64_fp8_bf8, ... */
struct spec {
    char name[48];
    char out[8], a[8], b[8];
    unsigned m, n, k, blocks;
    bool sparse, formats, scaled;
};

static struct spec parse(const char *name)
{
    struct spec s = {.blocks = 1};
    char rest[48] = "";

    snprintf(s.name, sizeof(s.name), "%s", name);
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

/* The functions from here on convert formats, bit by bit and independently of the simulator. */

static double power(int e) { return ldexp(1, e); }

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

/* Returns a random code of the format. Its value is a small multiple of 1/2 if the format has
 * these. */
static uint64_t random_code(const char *f)
{
    float v = (float)((int)(random32() % 9) - 4);
    uint64_t bits;
    double d = v;

    if (!strcmp(f, "f64")) {
        memcpy(&bits, &d, sizeof(bits));
        return bits;
    }
    if (!strcmp(f, "f32") || !strcmp(f, "xf32"))
        return bits_from_float(v);
    if (!strcmp(f, "bf16"))
        return bits_from_float(v) >> 16;
    if (!strcmp(f, "f16"))
        return f16_from_f32(v);
    if (!strcmp(f, "fp8")) /* 0.5 to 3.75, either sign, with both biases */
        return 0x30 + random32() % 24 + (random32() & 0x80);
    if (!strcmp(f, "bf8"))
        return 0x38 + random32() % 14 + (random32() & 0x80);
    return random32() & ((1u << bits_of_format(f)) - 1);
}

static double value(const char *f, uint64_t code, enum gfx_target target)
{
    double d;

    if (!strcmp(f, "f64")) {
        memcpy(&d, &code, sizeof(d));
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

/* The functions from here on place elements in registers and lanes. */

/* Finds element and lane of A[i][k] or B[k][j] of a block. For a sparse A, k counts stored
 * elements. */
static void input_place(unsigned width, unsigned k_all, unsigned blocks, unsigned bits, unsigned i,
                        unsigned k, unsigned block, unsigned *element, unsigned *lane)
{
    unsigned per_lane = k_all * width * blocks / 64;

    if (bits >= 8 && per_lane * bits == 256) { /* two stripes of four registers each */
        unsigned half = k_all / 2, stripe = 128 / bits;
        *element = k / half * stripe + k % stripe;
        *lane = i + width * (k % half / stripe);
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

/* The functions from here on run one instruction. */

static unsigned registers(unsigned elements, unsigned bits) { return (elements * bits + 31) / 32; }

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

    operand_text(d, sizeof(d), D, registers(s->m * s->n * s->blocks / 64, out_bits));
    operand_text(a, sizeof(a), A, registers(ka * s->m * s->blocks / 64, bits_of_format(s->a)));
    operand_text(b, sizeof(b), B, registers(s->k * s->n * s->blocks / 64, bits_of_format(s->b)));
    if (s->sparse)
        snprintf(text, size, "%s %s, %s, %s, v%u %s", s->name, d, a, b, INDEX, modifiers);
    else if (s->scaled)
        snprintf(text, size, "%s %s, %s, %s, %s, v%u, v%u %s", s->name, d, a, b, d, SCALE_A,
                 SCALE_B, modifiers);
    else
        snprintf(text, size, "%s %s, %s, %s, %s %s", s->name, d, a, b, d, modifiers);
}

/* Fills the operands with random numbers. */
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
            memcpy(&wide, &d, sizeof(wide));
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

/* Returns an element of C + A * B; *size is the sum of its terms' magnitudes. */
static double plain_product(const struct spec *s, const struct program *p, unsigned i, unsigned j,
                            unsigned block, unsigned byte, double *size)
{
    unsigned bits_a = bits_of_format(s->a), bits_b = bits_of_format(s->b), e, l;
    double sum = output(s, p, i, j, block);

    *size = fabs(sum);
    for (unsigned ka = 0; ka < (s->sparse ? s->k / 2 : s->k); ka++) {
        unsigned k = ka;
        input_place(s->m, s->sparse ? s->k / 2 : s->k, s->blocks, bits_a, i, ka, block, &e, &l);
        double a = value(s->a, get(p, A, bits_a, e, l), p->target);
        if (s->sparse) /* stored pair ka / 2 has four k; two index bits select one of them */
            k = ka / 2 * 4 + (p->v[INDEX][l] >> (2 * e) & 3);
        input_place(s->n, s->k, s->blocks, bits_b, j, k, block, &e, &l);
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
    struct program *p = malloc(sizeof(*p)), *before = malloc(sizeof(*before));
    char text[160];

    *p = program_new(target);
    fill(p, s);
    *before = *p;
    instruction(s, modifiers, text, sizeof(text));
    program_run(p, text);
    for (unsigned block = 0; block < s->blocks; block++)
        for (unsigned i = 0; i < s->m; i++)
            for (unsigned j = 0; j < s->n; j++) {
                double size, want = plain_product(s, before, i, j, block, byte, &size);
                double have = output(s, p, i, j, block);
                /* Error bound: alignment to 24 fractional bits of the largest term, for k terms,
                 * and one rounding. */
                if (fabs(have - want) > size * s->k * 0x1p-24)
                    fail_msg("%s: D[%u][%u] of block %u is %.9g, not %.9g", text, i, j, block, have,
                             want);
            }
    free(before);
    free(p);
}

TEST(every_shape_is_a_matrix_product)
{
    static const char *const formats[] = {"fp8", "bf8", "fp6", "bf6", "fp4"};
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
                int n = snprintf(modifiers, sizeof(modifiers), "cbsz:%u blgp:%u", f % 5, f / 5);
                strcpy(s.a, formats[f % 5]);
                strcpy(s.b, formats[f / 5]);
                if (s.scaled)
                    snprintf(modifiers, sizeof(modifiers),
                             "op_sel:[%u,%u,0] op_sel_hi:[%u,%u,0] cbsz:%u blgp:%u", byte & 1,
                             byte & 1, byte >> 1, byte >> 1, f % 5, f / 5);
                assert_true(n > 0);
                check(&s, t, modifiers, byte);
            }
        }
    }
    assert_true(checked > 100);
}

/* The functions from here on compare the kernels' results bit by bit. */

struct rows {
    uint32_t a[8][64], b[8][64], c[32][64], d[32][64];
    uint32_t scale_a[64], scale_b[64];
};

static uint32_t wild(enum mfma_format format, unsigned round)
{
    uint32_t r = random32();

    if (round % 6 == 0) /* any bits: includes subnormals, infinities, NaN */
        return r;
    if (round % 6 == 1 && format == FORMAT_BF16) /* numbers near 1 */
        return (r & 0x81ff81ff) | 0x3f003f00;
    if (round % 6 == 1 && format == FORMAT_F16)
        return (r & 0x87ff87ff) | 0x38003800;
    if (round % 6 == 2) /* most are zero */
        return r & random32() & random32() & 0xffff0000;
    if (round % 6 == 3 && format == FORMAT_BF16) /* 2^-64 to 2^-33 */
        return (r & 0x8fff8fff) | 0x10001000;
    return r & 0xbf3fbf3f; /* finite in each format */
}

static uint32_t wild_c(unsigned round)
{
    uint32_t r = random32();

    switch (round % 5) {
    case 0: return r;
    case 1: return r & 0x80000000;
    case 2: return (r & 0x9fffffff) | (r & 1 ? 0 : 0x04000000); /* below 2^-64 */
    default: return (r & 0x8fffffff) | 0x38000000;
    }
}

static struct mfma_job wild_job(struct rows *r, enum mfma_format format, unsigned round)
{
    unsigned bits = mfma_element_bits(format), k = bits == 32 ? 4 : bits == 16 ? 8 : 16;

    for (unsigned l = 0; l < 64; l++) {
        /* In rounds 4 and 5 of six some rows of A are zero, as with masked keys. */
        bool masked = round % 6 > 3 && (l & 1 || l % 32 < 16);
        for (unsigned i = 0; i < 8; i++) {
            r->a[i][l] = masked ? random32() & 0x80008000 : wild(format, round);
            r->b[i][l] = wild(format, round);
        }
        for (unsigned i = 0; i < 32; i++)
            r->c[i][l] = wild_c(round);
        r->scale_a[l] = 127 - 160 * (round & 1) / 2 + random32() % 64;
        r->scale_b[l] = round % 4 == 1 && l == 3 ? 255 : 64 + random32() % 32;
    }
    return (struct mfma_job){
        .shape = {32, 32, (uint8_t)k, 1, false},
        .a_format = (uint8_t)format,
        .b_format = (uint8_t)format,
        .a = (const uint32_t (*)[64])r->a,
        .b = (const uint32_t (*)[64])r->b,
        .c = (const uint32_t (*)[64])r->c,
        .d = r->d,
    };
}

/* Creates a random job of V_MFMA_SCALE_F32_32X32X64_F8F6F4. */
static struct mfma_job wild_scaled_job(struct rows *r, enum mfma_format format, unsigned round)
{
    struct mfma_job job = wild_job(r, format, round);

    job.shape.k = 64;
    job.scale_a = r->scale_a;
    job.scale_b = r->scale_b;
    return job;
}

static double decoded_byte(enum mfma_format format, unsigned code, int *exponent)
{
    bool wide = format == FORMAT_BF8 || format == FORMAT_BF8_FNUZ;
    bool fnuz = format == FORMAT_FP8_FNUZ || format == FORMAT_BF8_FNUZ;
    int mbits = wide ? 2 : 3, bias = (wide ? 15 : 7) + fnuz;
    int field = (int)(code & 0x7f) >> mbits;
    double v = minifloat(code, 7 - mbits, mbits, bias);

    *exponent = v == 0 ? EXPONENT_OF_ZERO : (field ? field : 1) - bias;
    if (fnuz ? code == 0x80 : format == FORMAT_FP8 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c)
        return NAN;
    return format == FORMAT_BF8 && (code & 0x7f) == 0x7c ? copysign(INFINITY, v) : v;
}

/* Decodes an element of A or B with the formulas above. */
static double decoded(const struct mfma_job *job, bool is_b, unsigned line, unsigned k,
                      int *exponent)
{
    enum mfma_format format = (enum mfma_format)job->a_format;
    unsigned bits = mfma_element_bits(format), e, l;

    input_place(32, job->shape.k, 1, bits, line, k, 0, &e, &l);
    uint32_t code = (is_b ? job->b : job->a)[e * bits / 32][l] >> e * bits % 32;
    if (format == FORMAT_BF16 || format == FORMAT_XF32) {
        uint32_t f = format == FORMAT_BF16 ? code << 16 : code & 0xffffe000;
        if (format == FORMAT_XF32 && (code & 0x7fffffff) > 0x7f800000)
            f |= 0x400000;
        int field = (int)(f >> 23 & 255);
        *exponent = (field ? field : 1) - 127;
        return float_from_bits(f);
    }
    if (format == FORMAT_F16) {
        int field = (int)(code >> 10 & 31);
        float v = f32_from_f16((uint16_t)code);
        *exponent = v == 0 ? EXPONENT_OF_ZERO : (field ? field : 1) - 15;
        return v;
    }
    return decoded_byte(format, code & 255, exponent);
}

/* Returns one element of the result, computed in exact steps. */
static uint32_t exact(const struct rows *r, const struct mfma_job *job, unsigned i, unsigned j)
{
    unsigned bits = mfma_element_bits((enum mfma_format)job->a_format), reg, lane;
    unsigned size = bits == 32 ? 4 : bits == 16 ? 8 : 16;
    struct spec s = {.out = "f32", .m = 32, .n = 32, .blocks = 1};

    output_place(&s, i, j, 0, &reg, &lane);
    float c = float_from_bits(r->c[reg][lane]);
    for (unsigned from = 0; from < job->shape.k; from += size) {
        double product[16];
        int exponent[16], scale = 0;
        for (unsigned k = 0; k < size; k++) {
            int ea, eb;
            product[k] = decoded(job, false, i, from + k, &ea);
            product[k] *= decoded(job, true, j, from + k, &eb);
            exponent[k] = ea + eb;
        }
        if (job->scale_a) {
            unsigned a = job->scale_a[i + 32 * (from / 32)] & 255;
            unsigned b = job->scale_b[j + 32 * (from / 32)] & 255;
            scale = (int)(a + b) - 254;
            product[0] = a == 255 || b == 255 ? NAN : product[0];
        }
        c = mfma_fused_step(product, exponent, size, scale, c, bits == 8);
    }
    return bits_from_float(c);
}

static void compare_with_exact(struct rows *r, const struct mfma_job *job, unsigned round)
{
    mfma_run(job);
    for (unsigned i = 0; i < 32; i++) {
        for (unsigned j = round % 3; j < 32; j += 3) {
            struct spec s = {.out = "f32", .m = 32, .n = 32, .blocks = 1};
            unsigned reg, lane;
            output_place(&s, i, j, 0, &reg, &lane);
            uint32_t want = exact(r, job, i, j), have = r->d[reg][lane];
            if (have != want)
                fail_msg("format %u%s round %u [%u][%u]: %08x, not %08x (c %08x)", job->a_format,
                         job->scale_a ? " scaled" : "", round, i, j, have, want, r->c[reg][lane]);
        }
    }
}

TEST(vectors_and_exact_steps_agree)
{
    static const enum mfma_format formats[] = {
        FORMAT_BF16, FORMAT_F16,      FORMAT_XF32,     FORMAT_FP8,
        FORMAT_BF8,  FORMAT_FP8_FNUZ, FORMAT_BF8_FNUZ,
    };
    static struct rows r;

    (void)state;
    for (unsigned f = 0; f < sizeof(formats) / sizeof(*formats); f++) {
        for (unsigned round = 0; round < 30; round++) {
            struct mfma_job job = wild_job(&r, formats[f], round);
            compare_with_exact(&r, &job, round);
            if (formats[f] != FORMAT_FP8 && formats[f] != FORMAT_BF8)
                continue;
            job = wild_scaled_job(&r, formats[f], round);
            compare_with_exact(&r, &job, round);
        }
    }
}

/* Compares results. A NaN of a binary32 product may be any NaN, since the host's operation gives
 * it. */
static bool same_bits(enum mfma_format format, uint32_t a, uint32_t b)
{
    return a == b ||
           (format == FORMAT_F32 && isnan(float_from_bits(a)) && isnan(float_from_bits(b)));
}

TEST(all_instruction_sets_give_the_same_bits)
{
    static const enum host_isa isas[] = {HOST_PLAIN, HOST_AVX2};
    static struct rows r;
    static uint32_t first[16][64];

    (void)state;
    for (unsigned format = FORMAT_F32; format < FORMAT_COUNT; format++) {
        for (unsigned round = 0; round < 30; round++) {
            struct mfma_job job = wild_job(&r, (enum mfma_format)format, round);
            if (format == FORMAT_F32 || format == FORMAT_XF32)
                job.shape.k = 2 * (format == FORMAT_F32 ? 1 : 2);
            if (format >= FORMAT_FP8 && round % 2)
                job = wild_scaled_job(&r, (enum mfma_format)format, round);
            mfma_run(&job);
            memcpy(first, r.d, sizeof(first));
            for (unsigned k = 0; k < 2; k++) {
                if (!host_isa_supported(isas[k]))
                    continue;
                host_isa_force(isas[k]);
                memset(r.d, 0, sizeof(r.d));
                mfma_run(&job);
                host_isa_force(HOST_BEST);
                for (unsigned i = 0; i < 16; i++)
                    for (unsigned l = 0; l < 64; l++)
                        if (!same_bits((enum mfma_format)format, first[i][l], r.d[i][l]))
                            fail_msg("format %u: %08x with the best, %08x with instruction set %u",
                                     format, first[i][l], r.d[i][l], isas[k]);
            }
        }
    }
}

/* Tests single steps against the published model of CDNA3 (tools/hipsim/docs/hipsim-matrix.md). */
TEST(a_step_truncates_products_and_floors_c)
{
    int e[8] = {0, -25, -25, -25, -25, -25, -25, -25};
    double p[8] = {1, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25};

    (void)state;
    /* Seven terms of half the last bit vanish, since each is truncated. An exact sum would have
     * them. */
    assert_true(mfma_fused_step(p, e, 8, 0, 0, false) == 1);
    /* With 2^-24 they count, and the sum is rounded once, to even. */
    for (unsigned i = 1; i < 8; i++) {
        p[i] = 0x1p-24;
        e[i] = -24;
    }
    assert_true(mfma_fused_step(p, e, 8, 0, 0, false) == 1 + 0x1p-21f);
    assert_true(mfma_fused_step(p, e, 3, 0, 0, false) == 1 + 0x1p-23f);
    assert_true(mfma_fused_step(p, e, 2, 0, 0, false) == 1); /* a tie */
    /* Products round toward zero, C toward minus infinity. */
    p[1] = -0x1p-25;
    e[1] = -25;
    assert_true(mfma_fused_step(p, e, 2, 0, 0, false) == 1);
    assert_true(mfma_fused_step(p, e, 1, 0, -0x1p-40f, false) == 1 - 0x1p-24f);
    assert_true(mfma_fused_step(p, e, 1, 0, 0x1p-40f, false) == 1);
    /* Steps of 8-bit formats sum even and odd k separately, and round both sums down. */
    assert_true(mfma_fused_step(p, e, 2, 0, 0, true) == 1 - 0x1p-24f);
    /* Steps of 8-bit formats drop a C below 2^(e - 25). */
    p[1] = 0;
    assert_true(mfma_fused_step(p, e, 2, 0, -0x1p-40f, true) == 1);
    /* A sum of zero is +0. Infinities and NaN are kept. */
    p[0] = 0;
    assert_int_equal(bits_from_float(mfma_fused_step(p, e, 1, 0, -0.0f, false)), 0);
    assert_true(isinf(mfma_fused_step(p, e, 1, 0, INFINITY, false)));
    p[0] = -INFINITY;
    assert_int_equal(bits_from_float(mfma_fused_step(p, e, 1, 0, INFINITY, false)), 0x7fc00000);
    /* A product that exceeds binary32 gives an infinity, unless there is an infinity of the other
     * sign. */
    p[0] = 0x1p200;
    e[0] = 200;
    assert_true(mfma_fused_step(p, e, 1, 0, 1, false) == INFINITY);
    assert_true(mfma_fused_step(p, e, 1, 0, -INFINITY, false) == -INFINITY);
    p[1] = -0x1p150;
    e[1] = 150;
    assert_int_equal(bits_from_float(mfma_fused_step(p, e, 2, 0, 1, false)), 0x7fc00000);
}

TEST(undefined_operands_affect_their_row_and_column)
{
    struct program p = program_new(GFX942);
    p.v_valid[A] &= ~(UINT64_C(1) << 37); /* row 5 of A */
    p.v_valid[B + 1] &= ~UINT64_C(2);     /* column 1 of B */
    program_run(&p, "v_mfma_f32_32x32x8_bf16 v[0:15], v[32:33], v[40:41], 0");
    /* Row 5 is register 1 of the upper 32 lanes. Column 1 is lanes 1 and 33 of each register. */
    assert_int_equal(p.v_valid[0], 0xfffffffdfffffffd);
    assert_int_equal(p.v_valid[1], 0x00000000fffffffd);
    assert_int_equal(p.v_valid[15], 0xfffffffdfffffffd);
}

TEST(broadcast_controls_move_blocks_and_lanes)
{
    struct program p = program_new(GFX942);
    for (unsigned l = 0; l < 64; l++) {
        p.v[A][l] = bits_from_float((float)(l + 1)); /* A[l % 16], block l / 16 */
        p.v[B][l] = bits_from_float(1);
    }
    /* cbsz 1, abid 1: each pair of blocks uses the A of its second block. */
    program_run(&p, "v_mfma_f32_16x16x1_4b_f32 v[0:15], v32, v40, 0 cbsz:1 abid:1");
    assert_true(float_from_bits(p.v[0][0]) == 17); /* block 0, row 0 */
    assert_true(float_from_bits(p.v[4][0]) == 17); /* block 1 */
    assert_true(float_from_bits(p.v[8][0]) == 49); /* block 2 */
    for (unsigned l = 0; l < 64; l++) {
        p.v[A][l] = bits_from_float(1);
        p.v[B][l] = bits_from_float((float)l);
    }
    /* blgp 2 uses the upper 32 lanes for all; blgp 3 rotates by 16. */
    program_run(&p, "v_mfma_f32_16x16x1_4b_f32 v[0:15], v32, v40, 0 blgp:2\n"
                    "v_mfma_f32_16x16x1_4b_f32 v[16:31], v32, v40, 0 blgp:3");
    assert_true(float_from_bits(p.v[0][3]) == 35);
    assert_true(float_from_bits(p.v[12][3]) == 51);
    assert_true(float_from_bits(p.v[16][3]) == 19);
    assert_true(float_from_bits(p.v[28][3]) == 3);
}

/* MODE's input denormals apply to A and B of F32 matrices: CDNA4 ISA, 7.4. */
TEST(f32_inputs_follow_mode)
{
    for (unsigned keep = 0; keep < 2; keep++) {
        struct program p = program_new(GFX942);
        p.mode = keep ? MODE_DEFAULT : MODE_DEFAULT & ~0x10u;
        program_fill(&p, A, 0x00400000); /* 2^-127 */
        program_fill(&p, B, bits_of(0x1p127f));
        program_run(&p, "v_mfma_f32_4x4x1_16b_f32 v[0:3], v32, v40, 2.0\n"
                        "v_mfma_f32_4x4x1_16b_f32 v[4:7], v40, v32, 2.0\ns_nop 7\ns_nop 7");
        assert_int_equal(p.v[0][0], bits_of(keep ? 3.0f : 2.0f));
        assert_int_equal(p.v[4][63], bits_of(keep ? 3.0f : 2.0f));
    }
}

/* A scale of 255 is NaN (OCP Microscaling Formats 1.0, 5.4.1), here for one block of a row of A.
 * The scale exponents are added before an overflow is possible: 240 and 5 give 2^-9. */
TEST(scales_have_a_nan_and_the_whole_range)
{
    struct program p = program_new(GFX950);
    for (unsigned r = 0; r < 8; r++) {
        program_fill(&p, A + r, 0x38383838); /* 1 in e4m3 */
        program_fill(&p, B + r, 0x44444444); /* 2 in e2m1 */
    }
    program_fill(&p, SCALE_A, 240);
    program_fill(&p, SCALE_B, 5);
    p.v[SCALE_A][33] = 255; /* row 1, k 32 to 63 */
    program_run(&p, "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[32:39], v[40:43], 0, v48, v49 "
                    "op_sel_hi:[0,0,0] blgp:4\ns_nop 15\ns_nop 15");
    for (unsigned l = 0; l < 64; l++)
        for (unsigned r = 0; r < 16; r++)
            assert_int_equal(p.v[r][l], l < 32 && r == 1 ? 0x7fc00000 : bits_of(128 * 0x1p-9f));
}

/* Runs the instruction with its `dwords` result registers from v`d` on. */
static void run_to(struct program *p, const char *text, unsigned d, unsigned dwords)
{
    char full[160], to[16];
    const char *at = strchr(text, '@');
    snprintf(to, sizeof(to), "v[%u:%u]", d, d + dwords - 1);
    snprintf(full, sizeof(full), "%.*s%s%s\ns_nop 15\ns_nop 15", (int)(at - text), text, to,
             at + 1);
    for (unsigned r = 32; r < 52; r++)
        for (unsigned l = 0; l < 64; l++) /* bits that are finite as halves, bytes and doubles */
            p->v[r][l] = (r * 64 + l) * 2654435761u & 0x3f3f3f3f;
    for (unsigned r = SCALE_A; r <= SCALE_B; r++)
        for (unsigned l = 0; l < 64; l++)
            p->v[r][l] = 120 + (r + 3 * l) % 13;
    program_run(p, full);
}

/* D = A * B + C (CDNA4 ISA, 7.1) uses the original operands even if D overlaps them. LLVM keeps D
 * separate from A and B only if D has more than four registers (VOP3PInstructions.td,
 * NoDstOverlap), and never from the scales. */
TEST(results_may_replace_operands)
{
    static const struct {
        const char *text; /* "@" is D */
        unsigned dwords, to[5];
    } cases[] = {
        {"v_mfma_f64_4x4x4_4b_f64 @, v[32:33], v[40:41], 1.0", 2, {32, 40}},
        {"v_mfma_f32_4x4x4_16b_f16 @, v[32:33], v[40:41], 1.0", 4, {32, 40, 30, 38}},
        {"v_mfma_i32_16x16x64_i8 @, v[32:35], v[40:43], 1", 4, {32, 40, 34, 38}},
        {"v_mfma_f32_16x16x32_f16 @, v[32:35], v[40:43], 1.0", 4, {32, 40, 34, 38}},
        {"v_mfma_scale_f32_16x16x128_f8f6f4 @, v[32:39], v[40:47], 0, v48, v49 op_sel_hi:[0,0,0]",
         4,
         {32, 42, 46, SCALE_A, SCALE_B - 3}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program apart = program_new(GFX950);
        run_to(&apart, cases[i].text, 0, cases[i].dwords);
        for (unsigned n = 0; n < 5 && cases[i].to[n]; n++) {
            struct program p = program_new(GFX950);
            run_to(&p, cases[i].text, cases[i].to[n], cases[i].dwords);
            for (unsigned r = 0; r < cases[i].dwords; r++)
                assert_memory_equal(p.v[cases[i].to[n] + r], apart.v[r], sizeof(apart.v[r]));
        }
    }
}

TEST(f64_negates_and_agprs_accumulate)
{
    struct program p = program_new(GFX942);
    for (unsigned l = 0; l < 64; l++) {
        p.v[A][l] = p.v[B][l] = 0;
        p.v[A + 1][l] = 0x40000000; /* 2.0 */
        p.v[B + 1][l] = 0x40080000; /* 3.0 */
    }
    program_run(&p, "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[32:33], v[40:41], 1.0 neg:[1,0,1]\n"
                    "v_mfma_f64_4x4x4_4b_f64 a[0:1], v[32:33], v[40:41], -4.0\ns_nop 15\n"
                    "v_accvgpr_read_b32 v4, a1");
    assert_int_equal(program_v64(&p, 0, 9), bits_of64(-25.0));
    assert_int_equal(p.v[4][9], bits_of64(20.0) >> 32);
}

int main(void) { return run_unit_tests(); }

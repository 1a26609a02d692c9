/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ir/fixture.h"
#include "ir/interp.h"

/* The operand maps of v_mfma_f32_32x32x8_f16 and 16x16x16. Source: AMD's matrix instruction
 * calculator. Lane i of a has row i mod m and the four columns from 4 * (i / m). In b, columns take
 * the place of rows. */
#define ACC32                                     \
    {                                             \
        .reg_bits = 4, .lane_bits = 6, .basis = { \
            TIR_RC(1, 0),                         \
            TIR_RC(2, 0),                         \
            TIR_RC(8, 0),                         \
            TIR_RC(16, 0),                        \
            TIR_RC(0, 1),                         \
            TIR_RC(0, 2),                         \
            TIR_RC(0, 4),                         \
            TIR_RC(0, 8),                         \
            TIR_RC(0, 16),                        \
            TIR_RC(4, 0)                          \
        }                                         \
    }
static const struct tir_mma mma[] = {
    {
        .name = "mfma_f32_32x32x8_bf16_1k",
        .m = 32,
        .n = 32,
        .k = 8,
        .in_dtype = TIR_BF16,
        .right_dtype = TIR_BF16,
        .acc_dtype = TIR_F32,
        .cycles = 32,
        .shadow_slots = 7,
        .a = {.reg_bits = 2,
              .lane_bits = 6,
              .basis = {TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(4, 0),
                        TIR_RC(8, 0), TIR_RC(16, 0), TIR_RC(0, 4)}},
        .b = {.reg_bits = 2,
              .lane_bits = 6,
              .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4),
                        TIR_RC(0, 8), TIR_RC(0, 16), TIR_RC(4, 0)}},
        .d = ACC32,
    },
    {
        .name = "mfma_f32_16x16x16_bf16_1k",
        .m = 16,
        .n = 16,
        .k = 16,
        .in_dtype = TIR_BF16,
        .right_dtype = TIR_BF16,
        .acc_dtype = TIR_F32,
        .cycles = 16,
        .shadow_slots = 3,
        .a = {.reg_bits = 2,
              .lane_bits = 6,
              .basis = {TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(4, 0),
                        TIR_RC(8, 0), TIR_RC(0, 4), TIR_RC(0, 8)}},
        .b = {.reg_bits = 2,
              .lane_bits = 6,
              .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4),
                        TIR_RC(0, 8), TIR_RC(4, 0), TIR_RC(8, 0)}},
        .d = {.reg_bits = 2,
              .lane_bits = 6,
              .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(0, 4),
                        TIR_RC(0, 8), TIR_RC(4, 0), TIR_RC(8, 0)}},
    },
};
/* The copies that CDNA4 has, and the copies of CDNA5 with another shape. */
static const struct tir_copy copies[] = {
    {"global_load_lds_dwordx4", TIR_IN_MEMORY, TIR_IN_LDS, 16, 0, 0, 0, false, TIR_COUNTER_VM},
    {"global_load_lds_dword", TIR_IN_MEMORY, TIR_IN_LDS, 4, 0, 0, 0, false, TIR_COUNTER_VM},
    {"tensor_load_to_lds", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, 0, 0, true, TIR_COUNTER_TENSOR},
    {"ds_read_b64_tr_b16", TIR_IN_LDS, TIR_IN_REGISTERS, 8, 16, 16, 1, false, TIR_COUNTER_LGKM},
    {"ds_load_tr8_b64", TIR_IN_LDS, TIR_IN_REGISTERS, 8, 8, 16, 4, false, TIR_COUNTER_LGKM},
    {"ds_load_tr16_b128", TIR_IN_LDS, TIR_IN_REGISTERS, 16, 16, 8, 8, false, TIR_COUNTER_LGKM},
};

const struct tir_machine test_machine = {
    .name = "test",
    .mma = mma,
    .n_mma = sizeof(mma) / sizeof(mma[0]),
    .cus = 304,
    .lane_bits = 6,
    .counters = {[TIR_COUNTER_VM] = 63, [TIR_COUNTER_LGKM] = 15, [TIR_COUNTER_TENSOR] = 31},
    .lds_bytes = 65536,
    .lds_granule = 512,
    .lds_bank_bytes = 128,
    .wave_vgprs = 512,
    .vgprs_per_simd = 512,
    .copies = copies,
    .n_copies = sizeof(copies) / sizeof(copies[0]),
    .has_lane_swap = true,
    .has_cvt_pk_bf16 = true,
    .has_dot_bf16 = true,
    .has_pk_max3 = true,
    .exp_slots = 4,
    .swap_slots = 5,
};

char *printed(const struct tir_func *f)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    tir_print(f, out);
    fclose(out);
    return text;
}

struct tir_func *parsed(const char *text)
{
    char error[256];
    struct tir_func *const f = tir_parse(text, strlen(text), &test_machine, error);
    if (!f)
        fail_msg("%s\n%s", error, text);
    return f;
}

struct tir_func *parsed_body(const char *body)
{
    static const char head[] =
        "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=4096 level=tile\n"
        "arg \"p\" : i64 at 0\n"
        "arg \"n\" : i32 at 8\n"
        "layout #0 = regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 c16 r4)\n"
        "{\n";
    char *text = NULL;
    if (asprintf(&text, "%s%s}\n", head, body) < 0)
        fail_msg("out of memory");
    struct tir_func *const f = parsed(text);
    free(text);
    return f;
}

char *printed_body(const struct tir_func *f)
{
    char *const text = printed(f);
    char *const begin = strstr(text, "\n{\n") + 3;
    const size_t n = strlen(begin) - 2;
    memmove(text, begin, n);
    text[n] = 0;
    return text;
}

char *findings(const struct tir_func *f)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    tir_verify(f, "the test", out);
    fclose(out);
    return text;
}

void interpret_once(struct tir_func *f, const char *when, const uint64_t *kernarg, size_t count,
                    size_t size)
{
    char why[TIR_WHY];
    memset((void *)(uintptr_t)kernarg[count - 1], 0xa5, size);
    if (!tir_verify(f, when, stderr))
        fail_msg("%s: not sound", when);
    if (!tir_interpret(f, kernarg, (unsigned)(count * sizeof(*kernarg)),
                       (const unsigned[]){1, 1, 1}, why))
        fail_msg("%s: %s", when, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Measures rates of matrix instructions per core and host instruction set, with C accumulating over
 * 16 steps. Prints the ratio of the best rate to plain C. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/hipsim/exec/mfma.h"
#include "tools/hipsim/exec/tables.h"

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t random32(void)
{
    static uint32_t state = 1;

    state = state * 1664525 + 1013904223;
    return state >> 16 | state << 16;
}

/* Returns millions of instructions per second of CPU time. */
static double rate(const struct mfma_job *job, enum host_isa isa)
{
    double start = seconds(), now;
    unsigned n = 0;

    host_isa_force(isa);
    do {
        for (unsigned i = 0; i < 1600; i++, n++) {
            if (i % 16 == 0)
                memset(job->d, 0, 16 * sizeof(*job->d));
            mfma_run(job);
        }
        now = seconds();
    } while (now - start < 0.5);
    return n / (now - start) * 1e-6;
}

int main(void)
{
    static const struct {
        const char *name;
        struct mfma_shape shape;
        enum mfma_format format;
        bool every_8th; /* true: only every 8th lane of A and B has `other` values */
        uint32_t other;
    } cases[] = {
        {"v_mfma_f32_32x32x8_bf16", {32, 32, 8, 1, false}, FORMAT_BF16, false, 0},
        {"v_mfma_f32_32x32x8_f16", {32, 32, 8, 1, false}, FORMAT_F16, false, 0},
        {"the same with NaN", {32, 32, 8, 1, false}, FORMAT_F16, true, 0x7e007e00},
        {"v_mfma_f32_16x16x16_bf16", {16, 16, 16, 1, false}, FORMAT_BF16, false, 0},
        {"v_mfma_f32_32x32x16_fp8_fp8", {32, 32, 16, 1, false}, FORMAT_FP8, false, 0},
        {"the same with NaN", {32, 32, 16, 1, false}, FORMAT_FP8, true, 0x7f7f7f7f},
        {"the same with zeros", {32, 32, 16, 1, false}, FORMAT_FP8, true, 0},
        {"v_mfma_f32_32x32x2_f32", {32, 32, 2, 1, false}, FORMAT_F32, false, 0},
        {"v_mfma_i32_32x32x16_i8", {32, 32, 16, 1, false}, FORMAT_I8, false, 0},
    };
    static uint32_t a[8][MFMA_LANES], b[8][MFMA_LANES], d[32][MFMA_LANES];

    printf("%-28s %9s %9s %9s %8s\n", "M/s of one core", "AVX-512", "AVX2", "plain C", "ratio");
    for (unsigned c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        /* 16-bit formats have magnitudes 2^-8 to 2^1, other formats any finite numbers. */
        uint32_t keep = cases[c].format == FORMAT_FP8   ? 0xb7b7b7b7
                        : cases[c].format == FORMAT_F16 ? 0x9fff9fff
                                                        : 0x83ff83ff;
        uint32_t set = cases[c].format == FORMAT_BF16 || cases[c].format == FORMAT_F32 ? 0x3c003c00
                       : cases[c].format == FORMAT_F16                                 ? 0x20002000
                                                                                       : 0;
        for (unsigned r = 0; r < 8; r++)
            for (unsigned l = 0; l < MFMA_LANES; l++) {
                a[r][l] = (random32() & keep) | set;
                b[r][l] = (random32() & keep) | set;
                if (cases[c].every_8th && l % 8 == 0)
                    a[r][l] = b[r][l] = cases[c].other;
            }
        struct mfma_job job = {
            .shape = cases[c].shape,
            .a_format = (uint8_t)cases[c].format,
            .b_format = (uint8_t)cases[c].format,
            .a = (const uint32_t (*)[MFMA_LANES])a,
            .b = (const uint32_t (*)[MFMA_LANES])b,
            .c = (const uint32_t (*)[MFMA_LANES])d,
            .d = d,
        };
        double rates[4] = {0}, best = 0;
        for (enum host_isa isa = HOST_PLAIN; isa <= HOST_AVX512; isa++) {
            if (host_isa_supported(isa))
                best = rates[isa] = rate(&job, isa);
        }
        printf("%-28s %9.3f %9.3f %9.3f %8.1f\n", cases[c].name, rates[HOST_AVX512],
               rates[HOST_AVX2], rates[HOST_PLAIN], best / rates[HOST_PLAIN]);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how many wave64 instructions per second one core simulates with checks on, by kind of
 * instruction and instruction set of the host. Prints the ratio of the best rate to the plain C
 * kernels. The goal of 15 M/s is for `mixed`, the blend of a softmax.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/exec/tables.h"

#define UNROLL 16

static const struct {
    const char *name, *text;
    unsigned instructions;
} blends[] = {
    {"v_fma_f32", "v_fma_f32 v1, v2, v3, v4\n", 1},
    {"v_mul_f32 sgpr", "v_mul_f32 v1, s2, v3\n", 1},
    {"v_pk_mul_f32", "v_pk_mul_f32 v[10:11], v[2:3], v[4:5]\n", 1},
    {"v_max3_f32", "v_max3_f32 v1, v2, v3, v4\n", 1},
    {"v_exp_f32", "v_exp_f32 v1, v2\n", 1},
    {"v_log_f32", "v_log_f32 v1, v2\n", 1},
    {"v_rcp_f32", "v_rcp_f32 v1, v2\n", 1},
    {"v_rsq_f32", "v_rsq_f32 v1, v2\n", 1},
    {"v_sin_f32", "v_sin_f32 v1, v2\n", 1},
    {"v_add_u32", "v_add_u32 v1, v2, v3\n", 1},
    {"v_cvt_pk_fp8_f32", "v_cvt_pk_fp8_f32 v1, v2, v3\n", 1},
    {"v_pk_add_f16", "v_pk_add_f16 v1, v2, v3\n", 1},
    {"v_mov_b32_dpp", "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf\n", 1},
    {"v_cmp, v_cndmask", "v_cmp_gt_f32 vcc, v2, v3\nv_cndmask_b32 v1, v4, v5, vcc\n", 2},
    {"s_add_u32", "s_add_u32 s4, s5, s6\n", 1},
    {"mixed",
     "v_mul_f32 v1, s2, v2\nv_mov_b32 v6, v3\nv_max3_f32 v7, v1, v6, v7\n"
     "v_pk_mul_f32 v[10:11], v[2:3], v[4:5]\n"
     "v_fma_f32 v8, v1, s3, -v7\nv_exp_f32 v9, v8\ns_nop 0\nv_add_f32 v12, v12, v9\n"
     "v_cndmask_b32 v13, v9, v2, vcc\nv_add_u32 v14, v14, v15\nv_perm_b32 v16, v9, v8, s7\n"
     "v_and_b32 v17, v16, v14\ns_add_u32 s4, s4, 1\n",
     13},
};

#define BLENDS (sizeof(blends) / sizeof(blends[0]))

/* Returns the processor time. It includes neither other processes nor the assembler. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the rate of a blend in millions of instructions per second. */
static double rate(size_t blend, uint32_t mode)
{
    size_t room = UNROLL * strlen(blends[blend].text) + 128;
    char *text = malloc(room);
    if (!text)
        abort();
    strcpy(text, "s_mov_b32 s0, 40000\nloop:\n");
    for (unsigned i = 0; i < UNROLL; i++)
        strcat(text, blends[blend].text);
    strcat(text, "s_sub_u32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\ns_cbranch_scc1 loop");
    struct program p = program_new(GFX942);
    p.mode = mode;
    p.budget = UINT64_MAX;
    p.checks = CHECK_DEFAULT;
    for (unsigned r = 0; r < 32; r++)
        for (unsigned i = 0; i < 64; i++)
            p.v[r][i] = bits_of((float)(i + 1) * 0.01f + (float)r);
    p.s[2] = p.s[3] = bits_of(0.5f);
    p.s[7] = 0x07060302;
    double best = 0;
    for (unsigned k = 0; k < 3; k++) {
        struct program q = p;
        double start = seconds();
        program_run(&q, text);
        double taken = seconds() - start;
        double m = (double)q.counters.instructions / taken * 1e-6;
        best = m > best ? m : best;
    }
    free(text);
    return best;
}

/* Measures the rates of all blends with an instruction set of the host. Runs in a child, since a
 * process can only select kernels once. */
static void measure(enum host_isa isa, double *rates)
{
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        host_isa_force(isa);
        for (size_t k = 0; k < BLENDS; k++)
            rates[k] = rate(k, MODE_DEFAULT);
        rates[BLENDS] = rate(BLENDS - 1, MODE_DEFAULT & ~(uint32_t)MODE_DENORM_F32);
        ssize_t n = write(ends[1], rates, (BLENDS + 1) * sizeof(*rates));
        _exit(n > 0 ? 0 : 1);
    }
    ssize_t n = read(ends[0], rates, (BLENDS + 1) * sizeof(*rates));
    int status = 0;
    waitpid(pid, &status, 0);
    if (n <= 0 || status != 0)
        abort();
}

int main(void)
{
    static const enum host_isa isas[] = {HOST_AVX512, HOST_AVX2, HOST_PLAIN};
    double rates[3][BLENDS + 1] = {{0}};
    unsigned best = 2;
    for (unsigned i = 3; i-- > 0;) {
        if (!host_isa_supported(isas[i]))
            continue;
        measure(isas[i], rates[i]);
        best = i;
    }
    printf("%-24s %9s %9s %9s %8s\n", "M/s of one core", "AVX-512", "AVX2", "plain C", "ratio");
    for (size_t k = 0; k <= BLENDS; k++)
        printf("%-24s %9.1f %9.1f %9.1f %8.1f\n",
               k < BLENDS ? blends[k].name : "mixed, f32 flushed", rates[0][k], rates[1][k],
               rates[2][k], rates[best][k] / rates[2][k]);
    return 0;
}

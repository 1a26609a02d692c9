/* SPDX-License-Identifier: Apache-2.0
 *
 * This file tests properties of every program: it verifies, it reads back as it prints, and no pass
 * that takes any function changes what it computes.
 */
#include "ir/interp.h"
#include "tests/ir/fixture.h"
#include "tests/ir/program.h"

enum { PROGRAMS = 400, MAX_BYTES = 160 };

static uint64_t random_state = 88172645463325252u;

static uint8_t random_byte(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint8_t)(random_state >> 24);
}

static struct tir_func *random_program(void)
{
    uint8_t bytes[MAX_BYTES];
    const size_t n = 8 + random_byte() % (MAX_BYTES - 8);
    for (size_t i = 0; i < n; i++)
        bytes[i] = random_byte();
    return program_of_bytes(bytes, n);
}

/* Runs the function and returns the outputs that it writes. */
static void outputs_of(const struct tir_func *f, int32_t out[2 * PROGRAM_OUTPUTS])
{
    static int32_t in[PROGRAM_INPUTS];
    for (int i = 0; i < PROGRAM_INPUTS; i++)
        in[i] = i * 0x9e3779b1u >> (i % 20);
    memset(out, 0x55, 2 * PROGRAM_OUTPUTS * sizeof(out[0]));
    const uint64_t kernarg[] = {(uintptr_t)in, (uintptr_t)out};
    char why[TIR_WHY];
    if (!tir_interpret(f, kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why)) {
        tir_print(f, stderr);
        fail_msg("%s", why);
    }
}

static void must_verify(const struct tir_func *f, const char *after)
{
    if (!tir_verify(f, after, stderr))
        fail_msg("not sound after %s", after);
}

TEST(every_program_reads_back_as_it_prints)
{
    for (int i = 0; i < PROGRAMS; i++) {
        struct tir_func *const f = random_program();
        must_verify(f, "building");
        char *const text = printed(f);
        struct tir_func *const again = parsed(text);
        char *const again_text = printed(again);
        must_verify(again, "reading");
        assert_string_equal(text, again_text);
        free(text);
        free(again_text);
        tir_func_destroy(again);
        tir_func_destroy(f);
    }
}

TEST(reading_back_keeps_what_a_program_computes)
{
    static int32_t first[2 * PROGRAM_OUTPUTS], second[2 * PROGRAM_OUTPUTS];
    for (int i = 0; i < PROGRAMS / 8; i++) {
        struct tir_func *const f = random_program();
        char *const text = printed(f);
        struct tir_func *const again = parsed(text);
        outputs_of(f, first);
        outputs_of(again, second);
        assert_memory_equal(first, second, sizeof(first));
        free(text);
        tir_func_destroy(again);
        tir_func_destroy(f);
    }
}

TEST(passes_keep_what_a_program_computes)
{
    static const struct {
        const char *name;
        bool (*run)(struct tir_func *, const struct tir_schedule *);
    } passes[] = {
        {"opt_fold", tir_opt_fold}, {"opt_cse", tir_opt_cse},   {"opt_hoist", tir_opt_hoist},
        {"opt_dce", tir_opt_dce},   {"opt_sink", tir_opt_sink}, {"opt_fold", tir_opt_fold},
        {"opt_dce", tir_opt_dce},
    };
    static const struct tir_schedule schedule = {0};
    static int32_t expected[2 * PROGRAM_OUTPUTS], found[2 * PROGRAM_OUTPUTS];
    for (int i = 0; i < PROGRAMS; i++) {
        struct tir_func *const f = random_program();
        char *const before = printed(f);
        outputs_of(f, expected);
        for (size_t k = 0; k < sizeof(passes) / sizeof(passes[0]); k++) {
            passes[k].run(f, &schedule);
            must_verify(f, passes[k].name);
            outputs_of(f, found);
            if (memcmp(expected, found, sizeof(found))) {
                fprintf(stderr, "%s\n// becomes\n", before);
                tir_print(f, stderr);
                fail_msg("%s changes what program %d computes", passes[k].name, i);
            }
        }
        free(before);
        tir_func_destroy(f);
    }
}

int main(void) { return run_unit_tests(); }

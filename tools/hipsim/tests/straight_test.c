/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares straight-line code executed at once with its instructions executed one by one:
 * registers, defined bits, findings and counts are the same. Random programs have undefined
 * registers, loads without waits, missing wait states and disabled lanes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/hipsim/core/straight.h"
#include "tools/hipsim/exec/tables.h"
#include "tools/hipsim/tests/program.h"

static unsigned length_of(const char *text)
{
    size_t bytes;
    void *machine = assemble(GFX942, text, &bytes);
    struct code *code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    const unsigned n = straight_of(code, code_inst(code, 0))->n;
    code_destroy(code);
    free(machine);
    return n;
}

TEST(what_may_be_straight)
{
    static const struct {
        const char *text;
        unsigned n;
    } cases[] = {
        {"v_add_f32 v1, v2, v3\ns_add_u32 s1, s2, s3\ns_nop 0\nv_cmp_gt_f32 vcc, v1, -v2\n", 4},
        {"v_mov_b32 v1, v2\nds_read_b32 v1, v2\nv_mov_b32 v1, v2\n", 1},
        {"v_fma_f32 v1, v2, |v3|, s4\nv_accvgpr_write_b32 a1, v1\ns_mov_b64 exec, 0\n", 2},
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[1,0]\ns_nop 0\n", 2},
        {"s_mov_b64 exec, 0\n", 0},
        {"s_cmov_b32 s1, s2\n", 0},
        {"s_cbranch_scc1 0\n", 0},
        {"s_waitcnt vmcnt(0)\n", 0},
        {"v_cmpx_gt_f32 exec, v1, v2\n", 0},
        {"v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf\n", 0},
        {"v_add_f32 v1, v2, v3 clamp\n", 0},
        {"v_mfma_f32_4x4x1_16b_f32 a[0:3], v1, v2, a[0:3]\n", 0},
        {"s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0\n", 0},
        {"v_mov_b32 v0, src_shared_base\n", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (length_of(cases[i].text) != cases[i].n)
            fail_msg("%u instructions, not %u:\n%s", length_of(cases[i].text), cases[i].n,
                     cases[i].text);
}

/* Waves of 32 lanes run no instructions as straight-line code, since EXEC never has 64 lanes. */
TEST(waves_of_32_lanes_have_none)
{
    const char *const text = "v_mov_b32 v1, v2\nv_mov_b32 v3, v1\ns_endpgm\n";
    static const enum gfx_target targets[] = {GFX942, GFX1250, GFX1201};
    for (unsigned i = 0; i < 3; i++) {
        struct program p = program_new(targets[i]);
        size_t bytes;
        void *machine = assemble(targets[i], text, &bytes);
        struct code *code = code_create(targets[i], machine, bytes, (uint64_t)(uintptr_t)machine);
        assert_non_null(code);
        program_at(&p, code, 0);
        assert_int_equal(p.fault.kind, FAULT_NONE);
        assert_int_equal(code_inst(code, 0)->straight != NULL, targets[i] == GFX942);
        code_destroy(code);
        free(machine);
    }
}

static uint32_t random_below(uint32_t n)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
}

/* Lines from which random programs are made. %v is one of v0 to v19, %s one of s2 to s15, %a one
 * of a0 to a3. %p is an aligned pair of s2 to s15, as "2:3". v30 has LDS addresses. The first 30
 * lines may be part of straight-line code. */
static const char *const lines[] = {
    "v_add_f32 %v, %v, %v",
    "v_fma_f32 %v, %v, %s, -|%v|",
    "v_mul_f32 %v, 0.5, %v",
    "v_exp_f32 %v, %v",
    "v_max3_f32 %v, %v, %v, 1.0",
    "v_pk_mul_f32 v[10:11], v[4:5], v[6:7]",
    "v_pk_fma_f32 v[10:11], v[4:5], v[6:7], v[8:9] op_sel_hi:[0,1,0] neg_lo:[1,0,0]",
    "v_pk_mul_f32 v[12:13], v[2:3], v[14:15] op_sel:[1,0] op_sel_hi:[1,0]",
    "v_pk_add_f16 %v, %v, %v op_sel:[1,0] neg_hi:[0,1]",
    "v_and_b32 %v, 0xff, %v",
    "v_lshl_or_b32 %v, %v, 4, %v",
    "v_add_u32 %v, %v, %v",
    "v_perm_b32 %v, %v, %v, %s",
    "v_lshlrev_b64 v[8:9], 3, v[6:7]",
    "v_cmp_lt_f32 vcc, %v, %v",
    "v_cmp_eq_u32 s[%p], %v, %v",
    "v_cndmask_b32 %v, %v, %v, vcc",
    "v_cvt_f16_f32 %v, %v",
    "v_accvgpr_write_b32 %a, %v",
    "v_accvgpr_read_b32 %v, %a",
    "v_mov_b32 %v, %s",
    "v_readfirstlane_b32 %s, %v",
    "s_add_u32 %s, %s, %s",
    "s_addc_u32 %s, %s, 3",
    "s_and_b64 s[%p], s[%p], vcc",
    "s_cmp_gt_i32 %s, %s",
    "s_cselect_b32 %s, %s, 7",
    "s_cmov_b32 %s, %s",
    "s_nop 1",
    "s_mov_b64 vcc, s[%p]",
    "ds_read_b32 %v, v30",
    "ds_read_b32 %a, v30",
    "ds_write_b32 v30, %v",
    "s_waitcnt lgkmcnt(0)",
    "s_mov_b64 exec, s[18:19]",
    "s_mov_b64 exec, -1",
    "v_mfma_f32_4x4x1_16b_f32 v[16:19], %v, %v, v[16:19]",
    "v_mov_b32_dpp %v, %v row_shr:1 row_mask:0xf bank_mask:0xf",
};

/* Appends a line with random registers. */
static char *append(char *at, const char *line)
{
    for (; *line; line++) {
        if (*line != '%') {
            *at++ = *line;
            continue;
        }
        const uint32_t pair = 2 + 2 * random_below(7);
        switch (*++line) {
        case 'v': at += sprintf(at, "v%u", random_below(20)); break;
        case 's': at += sprintf(at, "s%u", 2 + random_below(14)); break;
        case 'a': at += sprintf(at, "a%u", random_below(4)); break;
        default: at += sprintf(at, "%u:%u", pair, pair + 1); break;
        }
    }
    return at + sprintf(at, "\n");
}

enum { PROGRAMS = 60, LINES = 120 };

/* Writes a loop of three iterations with random lines. `number` determines how often a line ends
 * straight-line code. */
static void write_program(char *text, unsigned number)
{
    const uint32_t all = sizeof(lines) / sizeof(lines[0]), straight = 30;
    char *at = text + sprintf(text, "ds_write_b32 v30, v31\ns_waitcnt lgkmcnt(0)\n"
                                    "s_mov_b32 s0, 3\nloop:\n");
    for (unsigned i = 0; i < LINES; i++)
        at = append(at, lines[random_below(random_below(2 + number % 8) ? straight : all)]);
    if (number % 2) /* late result: the next iteration's first instructions come before it */
        at = append(at, "v_mfma_f32_32x32x2_f32 v[4:19], %v, %v, v[4:19]");
    strcpy(at, "s_waitcnt lgkmcnt(0)\ns_sub_u32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\n"
               "s_cbranch_scc1 loop\ns_endpgm\n");
}

/* Returns a program with random initial registers. `number` determines checks, budget and undefined
 * registers. */
static struct program prepare(unsigned number)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 256;
    p.checks = number % 4 == 1 ? CHECK_ALL & ~(uint32_t)CHECK_FENCE : CHECK_DEFAULT;
    p.keep_going = CHECK_ALL;
    p.budget = number % 16 == 3 ? 100 + random_below(200) : UINT64_MAX;
    for (unsigned r = 0; r < 32; r++)
        for (unsigned l = 0; l < 64; l++)
            p.v[r][l] = r == 30 ? 4 * l : random_below(1 << 24) << 8;
    for (unsigned i = 2; i < 20; i++)
        p.s[i] = random_below(1 << 24) << 8 | random_below(256);
    if (number % 3 == 1)
        p.v_valid[random_below(20)] = number % 2 ? 0 : ~UINT64_C(0xff);
    if (number % 3 == 2)
        p.s_valid[2 + random_below(14)] = number % 2 ? 0 : 0xffff;
    if (number % 5 == 1)
        p.scc_valid = 0;
    if (number % 7 == 1)
        p.mode &= ~(uint32_t)MODE_DENORM_F32;
    return p;
}

static void compare(const struct program *a, const struct program *b, const char *text)
{
    if (memcmp(a->v, b->v, sizeof(a->v)) || memcmp(a->a, b->a, sizeof(a->a)) ||
        memcmp(a->s, b->s, sizeof(a->s)) || a->scc != b->scc)
        fail_msg("other values:\n%s", text);
    if (memcmp(a->v_valid, b->v_valid, sizeof(a->v_valid)) ||
        memcmp(a->s_valid, b->s_valid, sizeof(a->s_valid)) || a->scc_valid != b->scc_valid)
        fail_msg("other defined bits:\n%s", text);
    if (a->findings != b->findings || a->places != b->places || a->fault.kind != b->fault.kind)
        fail_msg("%llu and %llu findings:\n%s", (unsigned long long)a->findings,
                 (unsigned long long)b->findings, text);
    for (unsigned i = 0; i < a->places; i++)
        assert_string_equal(a->found[i].text, b->found[i].text);
    assert_memory_equal(a->margins, b->margins, sizeof(a->margins));
    assert_int_equal(a->counters.instructions, b->counters.instructions);
    assert_int_equal(a->counters.valu, b->counters.valu);
    assert_int_equal(a->counters.salu, b->counters.salu);
}

/* Decodes the machine code and runs it. It is decoded again because decoded instructions remember
 * their findings. */
static void run(struct program *p, void *machine, size_t bytes)
{
    struct code *code = code_create(p->target, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    program_at(p, code, 0);
    code_destroy(code);
}

TEST(same_as_one_by_one)
{
    static char text[LINES * 64 + 256];
    for (unsigned number = 0; number < PROGRAMS; number++) {
        write_program(text, number);
        struct program together = prepare(number), alone = together;
        alone.one_by_one = true;
        size_t bytes;
        void *machine = assemble(GFX942, text, &bytes);
        run(&together, machine, bytes);
        run(&alone, machine, bytes);
        free(machine);
        compare(&together, &alone, text);
    }
}

static uint32_t random_word(void) { return random_below(1 << 16) << 16 | random_below(1 << 16); }

/* Returns the code of a vector source. The number of a register is reduced to less than 64. */
static uint32_t below_64(uint32_t code) { return code >= 256 ? code & ~0xc0u : code; }

/* Writes two random dwords of the forms VOP1, VOP2, VOPC, VOP3, VOP3P or SOP2 to SOPC. */
static void write_encoding(uint32_t *words)
{
    const uint32_t w = random_word(), sources = random_word();
    const uint32_t tail = below_64(w & 0x1ff), narrow = w & 0x013e7e00; /* VDST, VSRC1 below 32 */
    words[1] = sources;
    switch (random_below(6)) {
    case 0: words[0] = 0x7e000000 | (w & 0x013ffe00) | tail; break;
    case 1: words[0] = (w & 0x7e000000) | narrow | tail; break;
    case 2: words[0] = 0x7c000000 | (w & 0x01fe7e00) | tail; break;
    case 3: words[0] = 0x80000000 | (w & 0x3fffffff); break;
    default:
        words[0] = (w & 1 << 26 ? 0xd3800000 | (w & 0x007f7f3f) : 0xd0000000 | (w & 0x03ff7f3f));
        words[0] &= random_below(2) ? ~0x7800u : ~0u; /* op_sel is often 0 */
        words[1] = below_64(sources & 0x1ff) | below_64(sources >> 9 & 0x1ff) << 9 |
                   below_64(sources >> 18 & 0x1ff) << 18 | (sources & 0xe0000000) |
                   (random_below(2) ? 0x18000000 & sources : 0x18000000);
    }
}

/* Returns a random number of 32 bits, or a value at which operations differ. */
static uint32_t random_value(void)
{
    static const uint32_t edges[] = {
        0,          1,          0x80000000, 0x80000001, 0x007fffff, 0x00800000, 0x7f800000,
        0xff800000, 0x7fc00000, 0x7f800001, 0x3f800000, 0xffffffff, 0x7f7fffff, 0x00010001,
        0x80018001, 0x03ff03ff, 0x7c007c00, 0x7c017e00, 0x3c003c00, 31,         64};
    const uint32_t w = random_word();
    return w & 3 ? edges[(w >> 2) % (sizeof(edges) / sizeof(edges[0]))] : w;
}

/* Compares a random instruction, followed by s_nop, in random modes of denormals. False if the
 * instruction may not be part of straight-line code. */
static bool compare_encoding(enum gfx_target target)
{
    static const uint32_t nop = 0xbf800000, end = 0xbf810000;
    static struct program together, alone;
    uint32_t machine[5] = {0, 0, nop, nop, end};
    char text[256];
    write_encoding(machine);
    for (unsigned shorter = 0; shorter < 2; shorter++) { /* shorter: 4 bytes, so s_nop follows at
                                                            once */
        struct code *code =
            code_create(target, machine, sizeof(machine), (uint64_t)(uintptr_t)machine);
        const struct inst *in = code_inst(code, 0);
        const bool joins = in->row && in->max_vgpr < 64 && in->max_agpr < 8 && in->size <= 8 &&
                           straight_of(code, in)->n >= 2;
        machine[1] = in->size == 4 ? nop : machine[1];
        code_text(code, 0, text, sizeof(text));
        code_destroy(code);
        if (!joins)
            return false;
    }
    together = program_new(target);
    for (unsigned r = 0; r < 64; r++)
        for (unsigned l = 0; l < 64; l++)
            together.v[r][l] = random_value();
    for (unsigned i = 0; i < SGPR_TTMP0; i++)
        together.s[i] = random_value();
    together.mode ^= random_word() & (MODE_DENORM_F32 | MODE_DENORM_F16_F64 | MODE_IEEE);
    alone = together;
    alone.one_by_one = true;
    run(&together, machine, sizeof(machine));
    run(&alone, machine, sizeof(machine));
    compare(&together, &alone, text);
    return true;
}

TEST(same_for_random_encodings)
{
    enum { ENCODINGS = 1000 };
    for (unsigned n = 0; n < ENCODINGS;)
        n += compare_encoding(n % 2 ? GFX950 : GFX942);
}

/* Runs the tests with each instruction set of the host, each in its own process. */
int main(void)
{
    bool failed = false;
    for (enum host_isa isa = HOST_PLAIN; isa <= HOST_AVX512; isa++) {
        if (!host_isa_supported(isa))
            continue;
        const pid_t pid = fork();
        if (pid == 0) {
            host_isa_force(isa);
            return run_unit_tests();
        }
        int status = 1;
        failed |= pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests each scalar ALU operation: result, SCC and EXEC by the pseudo-code of the CDNA3 ISA manual,
 * SOP sections. It fails if a row of the tables has no case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/exec/tables.h"

#define CASE_BYTES 64
#define UNTOUCHED UINT64_C(0xdeadbeefdeadbeef) /* initial contents of the destination */

/* A case with the operands s[2:3] and s[4:5]. The result is s0, or s[0:1] if the text names it. */
struct scalar_case {
    const char *text;
    uint64_t a, b;
    bool scc;
    uint64_t want;
    bool scc_after;
};

static struct code *assemble_cases(const char *text, void **machine)
{
    size_t bytes = 0;
    *machine = assemble(GFX942, text, &bytes);
    struct code *code = code_create(GFX942, *machine, bytes, (uint64_t)(uintptr_t)*machine);
    assert_non_null(code);
    return code;
}

static void check_scalars(const struct scalar_case *cases, size_t n)
{
    char *text = malloc(n * 100), *at = text;
    void *machine;
    unsigned wrong = 0;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, ".p2align 6\n%s\ns_endpgm\n", cases[i].text);
    struct code *code = assemble_cases(text, &machine);
    for (size_t i = 0; i < n; i++) {
        const struct scalar_case *c = &cases[i];
        struct program p = program_new(GFX942);
        p.s[0] = p.s[1] = (uint32_t)UNTOUCHED;
        p.s[2] = (uint32_t)c->a, p.s[3] = (uint32_t)(c->a >> 32);
        p.s[4] = (uint32_t)c->b, p.s[5] = (uint32_t)(c->b >> 32);
        p.scc = c->scc;
        program_at(&p, code, i * CASE_BYTES);
        const bool wide = strstr(c->text, "s[0:1]") != NULL;
        const uint64_t want = wide ? c->want : (uint32_t)c->want | UNTOUCHED >> 32 << 32;
        const uint64_t got = program_s64(&p, 0);
        if (p.fault.kind == FAULT_NONE && got == want && p.scc == c->scc_after)
            continue;
        print_error("%s, a %#llx b %#llx: %#llx, SCC %u, not %#llx, SCC %u %s\n", c->text,
                    (unsigned long long)c->a, (unsigned long long)c->b, (unsigned long long)got,
                    p.scc, (unsigned long long)want, c->scc_after, p.fault.text);
        wrong++;
    }
    code_destroy(code);
    free(machine);
    free(text);
    assert_int_equal(wrong, 0);
}

#define N(cases) (sizeof(cases) / sizeof((cases)[0]))
#define TOP UINT64_C(0x8000000000000000)
#define WIDE_A UINT64_C(0xf0f0ff00aaaa5555)
#define WIDE_B UINT64_C(0x0ff0f0f0cccc3333)

static const struct scalar_case logic[] = {
    {"s_mov_b32 s0, s2", 7, 0, 1, 7, 1},
    {"s_mov_b64 s[0:1], s[2:3]", WIDE_A, 0, 0, WIDE_A, 0},
    {"s_cmov_b32 s0, s2", 7, 0, 1, 7, 1},
    {"s_cmov_b32 s0, s2", 7, 0, 0, UNTOUCHED, 0},
    {"s_cmov_b64 s[0:1], s[2:3]", WIDE_A, 0, 1, WIDE_A, 1},
    {"s_cmov_b64 s[0:1], s[2:3]", WIDE_A, 0, 0, UNTOUCHED, 0},
    {"s_cselect_b32 s0, s2, s4", 7, 9, 1, 7, 1},
    {"s_cselect_b32 s0, s2, s4", 7, 9, 0, 9, 0},
    {"s_cselect_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 1, WIDE_A, 1},
    {"s_cselect_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_B, 0},
    {"s_not_b32 s0, s2", 0x0f0f00ff, 0, 0, 0xf0f0ff00, 1},
    {"s_not_b32 s0, s2", 0xffffffff, 0, 1, 0, 0},
    {"s_not_b64 s[0:1], s[2:3]", WIDE_A, 0, 0, ~WIDE_A, 1},
    {"s_not_b64 s[0:1], s[2:3]", UINT64_MAX, 0, 1, 0, 0},
    {"s_and_b32 s0, s2, s4", 12, 10, 0, 8, 1},
    {"s_and_b32 s0, s2, s4", 12, 3, 1, 0, 0},
    {"s_and_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_A & WIDE_B, 1},
    {"s_and_b64 s[0:1], s[2:3], s[4:5]", TOP, TOP, 0, TOP, 1}, /* SCC is set for either half */
    {"s_or_b32 s0, s2, s4", 12, 10, 0, 14, 1},
    {"s_or_b32 s0, s2, s4", 0, 0, 1, 0, 0},
    {"s_or_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_A | WIDE_B, 1},
    {"s_xor_b32 s0, s2, s4", 12, 10, 0, 6, 1},
    {"s_xor_b32 s0, s2, s4", 12, 12, 1, 0, 0},
    {"s_xor_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_A ^ WIDE_B, 1},
    {"s_andn2_b32 s0, s2, s4", 12, 10, 0, 4, 1},
    {"s_andn2_b32 s0, s2, s4", 12, 14, 1, 0, 0},
    {"s_andn2_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_A & ~WIDE_B, 1},
    {"s_orn2_b32 s0, s2, s4", 12, 10, 0, 0xfffffffd, 1},
    {"s_orn2_b32 s0, s2, s4", 0, 0xffffffff, 1, 0, 0},
    {"s_orn2_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, WIDE_A | ~WIDE_B, 1},
    {"s_nand_b32 s0, s2, s4", 12, 10, 0, 0xfffffff7, 1},
    {"s_nand_b32 s0, s2, s4", 0xffffffff, 0xffffffff, 1, 0, 0},
    {"s_nand_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, ~(WIDE_A & WIDE_B), 1},
    {"s_nor_b32 s0, s2, s4", 12, 10, 0, 0xfffffff1, 1},
    {"s_nor_b32 s0, s2, s4", 0xffff0000, 0xffff, 1, 0, 0},
    {"s_nor_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, ~(WIDE_A | WIDE_B), 1},
    {"s_xnor_b32 s0, s2, s4", 12, 10, 0, 0xfffffff9, 1},
    {"s_xnor_b32 s0, s2, s4", 0xffff0000, 0xffff, 1, 0, 0},
    {"s_xnor_b64 s[0:1], s[2:3], s[4:5]", WIDE_A, WIDE_B, 0, ~(WIDE_A ^ WIDE_B), 1},
    {"s_pack_ll_b32_b16 s0, s2, s4", 0x11112222, 0x33334444, 1, 0x44442222, 1},
    {"s_pack_lh_b32_b16 s0, s2, s4", 0x11112222, 0x33334444, 0, 0x33332222, 0},
    {"s_pack_hh_b32_b16 s0, s2, s4", 0x11112222, 0x33334444, 1, 0x33331111, 1},
};

static const struct scalar_case bits[] = {
    {"s_wqm_b32 s0, s2", 0x10020400, 0, 0, 0xf00f0f00, 1},
    {"s_wqm_b32 s0, s2", 0, 0, 1, 0, 0},
    {"s_wqm_b64 s[0:1], s[2:3]", UINT64_C(0x8000000000000010), 0, 0, UINT64_C(0xf0000000000000f0),
     1},
    {"s_quadmask_b32 s0, s2", 0x10020400, 0, 0, 0x94, 1},
    {"s_quadmask_b32 s0, s2", 0, 0, 1, 0, 0},
    {"s_quadmask_b64 s[0:1], s[2:3]", UINT64_C(0x8000000000000010), 0, 0, 0x8002, 1},
    {"s_brev_b32 s0, s2", 0x00f00010, 0, 0, 0x08000f00, 0},
    {"s_brev_b64 s[0:1], s[2:3]", UINT64_C(0x0000000100f00010), 0, 1, UINT64_C(0x08000f0080000000),
     1},
    {"s_bcnt0_i32_b32 s0, s2", 0xff000001, 0, 0, 23, 1},
    {"s_bcnt0_i32_b32 s0, s2", 0xffffffff, 0, 1, 0, 0},
    {"s_bcnt0_i32_b64 s0, s[2:3]", UINT64_C(0xff00000000000001), 0, 0, 55, 1},
    {"s_bcnt1_i32_b32 s0, s2", 0xff000001, 0, 0, 9, 1},
    {"s_bcnt1_i32_b32 s0, s2", 0, 0, 1, 0, 0},
    {"s_bcnt1_i32_b64 s0, s[2:3]", UINT64_C(0xff00000000000003), 0, 0, 10, 1},
    {"s_ff0_i32_b32 s0, s2", 0xff0f, 0, 1, 4, 1},
    {"s_ff0_i32_b32 s0, s2", 0xffffffff, 0, 0, UINT32_MAX, 0},
    {"s_ff0_i32_b64 s0, s[2:3]", UINT64_C(0xfffffeffffffffff), 0, 0, 40, 0},
    {"s_ff0_i32_b64 s0, s[2:3]", UINT64_MAX, 0, 0, UINT32_MAX, 0},
    {"s_ff1_i32_b32 s0, s2", 0x00f00010, 0, 1, 4, 1},
    {"s_ff1_i32_b32 s0, s2", 0, 0, 0, UINT32_MAX, 0},
    {"s_ff1_i32_b64 s0, s[2:3]", UINT64_C(0x0000010000000000), 0, 0, 40, 0},
    {"s_flbit_i32_b32 s0, s2", 0x00f00010, 0, 0, 8, 0},
    {"s_flbit_i32_b32 s0, s2", 0, 0, 0, UINT32_MAX, 0},
    {"s_flbit_i32_b64 s0, s[2:3]", 1, 0, 0, 63, 0},
    {"s_flbit_i32 s0, s2", 0xffff0000, 0, 0, 16, 0},
    {"s_flbit_i32 s0, s2", 0x0000ffff, 0, 0, 16, 0},
    {"s_flbit_i32 s0, s2", 0xffffffff, 0, 0, UINT32_MAX, 0},
    {"s_flbit_i32_i64 s0, s[2:3]", UINT64_C(0xffffffff7fffffff), 0, 0, 32, 0},
    {"s_flbit_i32_i64 s0, s[2:3]", 1, 0, 0, 63, 0},
    {"s_sext_i32_i8 s0, s2", 0x12345680, 0, 1, 0xffffff80, 1},
    {"s_sext_i32_i8 s0, s2", 0xffffff7f, 0, 0, 0x7f, 0},
    {"s_sext_i32_i16 s0, s2", 0x12348000, 0, 1, 0xffff8000, 1},
    {"s_sext_i32_i16 s0, s2", 0xffff7fff, 0, 0, 0x7fff, 0},
    {"s_bitreplicate_b64_b32 s[0:1], s2", 0x80000005, 0, 1, UINT64_C(0xc000000000000033), 1},
    {"s_bfm_b32 s0, s2, s4", 4 + 32, 8 + 32, 1, 0xf00, 1}, /* five bits of each operand count */
    {"s_bfm_b64 s[0:1], s2, s4", 40 + 64, 8 + 64, 0, UINT64_C(0x0000ffffffffff00), 0},
    {"s_bfe_u32 s0, s2, s4", 0x12345f80, 4 | 12 << 16, 0, 0x5f8, 1},
    {"s_bfe_u32 s0, s2, s4", 0x12345f80, 0 | 7 << 16, 1, 0, 0},
    {"s_bfe_u32 s0, s2, s4", 0x12345f80, 8 | 64 << 16, 0, 0x12345f, 1},
    {"s_bfe_i32 s0, s2, s4", 0x0000ff00, 8 | 8 << 16, 0, 0xffffffff, 1},
    {"s_bfe_i32 s0, s2, s4", 0x0000ff00, 8 | 0 << 16, 1, 0, 0},
    {"s_bfe_i32 s0, s2, s4", 0x80000000, 28 | 64 << 16, 0, 0xfffffff8, 1},
    {"s_bfe_u64 s[0:1], s[2:3], s4", TOP, 60 | 4 << 16, 0, 8, 1},
    {"s_bfe_u64 s[0:1], s[2:3], s4", WIDE_A, 0 | 64 << 16, 0, WIDE_A, 1},
    {"s_bfe_i64 s[0:1], s[2:3], s4", TOP, 60 | 4 << 16, 0, UINT64_C(0xfffffffffffffff8), 1},
    {"s_bfe_i64 s[0:1], s[2:3], s4", TOP, 0 | 63 << 16, 1, 0, 0},
    {"s_bitcmp0_b32 s2, s4", 0x10, 4, 1, UNTOUCHED, 0},
    {"s_bitcmp0_b32 s2, s4", 0x10, 5 + 32, 0, UNTOUCHED, 1},
    {"s_bitcmp1_b32 s2, s4", 0x10, 4 + 32, 0, UNTOUCHED, 1},
    {"s_bitcmp1_b32 s2, s4", 0x10, 5, 1, UNTOUCHED, 0},
    {"s_bitcmp0_b64 s[2:3], s4", UINT64_C(1) << 40, 40, 1, UNTOUCHED, 0},
    {"s_bitcmp0_b64 s[2:3], s4", UINT64_C(1) << 40, 8, 0, UNTOUCHED, 1},
    {"s_bitcmp1_b64 s[2:3], s4", UINT64_C(1) << 40, 40 + 64, 0, UNTOUCHED, 1},
    {"s_bitcmp1_b64 s[2:3], s4", UINT64_C(1) << 8, 40, 1, UNTOUCHED, 0},
    {"s_bitset0_b32 s0, s2", 4 + 32, 0, 1, 0xdeadbeef & ~0x10u, 1},
    {"s_bitset1_b32 s0, s2", 4 + 32, 0, 0, 0xdeadbeef | 0x10, 0},
    {"s_bitset0_b64 s[0:1], s2", 63 + 64, 0, 1, UNTOUCHED & ~TOP, 1},
    {"s_bitset1_b64 s[0:1], s2", 36 + 64, 0, 0, UNTOUCHED | UINT64_C(1) << 36, 0},
};

static const struct scalar_case sums[] = {
    {"s_add_u32 s0, s2, s4", 0xffffffff, 2, 0, 1, 1},
    {"s_add_u32 s0, s2, s4", 0x7fffffff, 2, 1, 0x80000001, 0},
    {"s_sub_u32 s0, s2, s4", 1, 2, 0, 0xffffffff, 1},
    {"s_sub_u32 s0, s2, s4", 0x80000000, 1, 1, 0x7fffffff, 0},
    {"s_add_i32 s0, s2, s4", 0x7fffffff, 1, 0, 0x80000000, 1},
    {"s_add_i32 s0, s2, s4", 0xffffffff, 2, 1, 1, 0},
    {"s_sub_i32 s0, s2, s4", 0x80000000, 1, 0, 0x7fffffff, 1},
    {"s_sub_i32 s0, s2, s4", 1, 2, 1, 0xffffffff, 0},
    {"s_addc_u32 s0, s2, s4", 0xfffffffe, 1, 1, 0, 1},
    {"s_addc_u32 s0, s2, s4", 0xfffffffe, 1, 0, 0xffffffff, 0},
    {"s_addc_u32 s0, s2, s4", 3, 4, 1, 8, 0},
    {"s_subb_u32 s0, s2, s4", 1, 1, 1, 0xffffffff, 1},
    {"s_subb_u32 s0, s2, s4", 0, 0xffffffff, 1, 0, 1}, /* the operand and borrow are 2^32
                                                          together */
    {"s_subb_u32 s0, s2, s4", 9, 4, 0, 5, 0},
    {"s_subb_u32 s0, s2, s4", 9, 4, 1, 4, 0},
    {"s_abs_i32 s0, s2", 0xfffffffb, 0, 0, 5, 1},
    {"s_abs_i32 s0, s2", 5, 0, 0, 5, 1},
    {"s_abs_i32 s0, s2", 0x80000000, 0, 0, 0x80000000, 1},
    {"s_abs_i32 s0, s2", 0, 0, 1, 0, 0},
    {"s_absdiff_i32 s0, s2, s4", 5, 0xffffffff, 0, 6, 1},
    {"s_absdiff_i32 s0, s2, s4", 3, 10, 0, 7, 1},
    {"s_absdiff_i32 s0, s2, s4", 10, 10, 1, 0, 0},
    {"s_min_i32 s0, s2, s4", 0xffffffff, 1, 0, 0xffffffff, 1}, /* SCC: the first operand is the
                                                                  result */
    {"s_min_i32 s0, s2, s4", 1, 0xffffffff, 1, 0xffffffff, 0},
    {"s_min_i32 s0, s2, s4", 4, 4, 1, 4, 0},
    {"s_min_u32 s0, s2, s4", 0xffffffff, 1, 1, 1, 0},
    {"s_min_u32 s0, s2, s4", 1, 0xffffffff, 0, 1, 1},
    {"s_min_u32 s0, s2, s4", 4, 4, 1, 4, 0},
    {"s_max_i32 s0, s2, s4", 0xffffffff, 1, 1, 1, 0},
    {"s_max_i32 s0, s2, s4", 1, 0xffffffff, 0, 1, 1},
    {"s_max_i32 s0, s2, s4", 4, 4, 0, 4, 1},
    {"s_max_u32 s0, s2, s4", 0xffffffff, 1, 0, 0xffffffff, 1},
    {"s_max_u32 s0, s2, s4", 1, 0xffffffff, 1, 0xffffffff, 0},
    {"s_max_u32 s0, s2, s4", 4, 4, 0, 4, 1},
    {"s_mul_i32 s0, s2, s4", 0x11112222, 0x33334444, 1, 0x11112222u * 0x33334444u, 1},
    {"s_mul_hi_u32 s0, s2, s4", 0x80000000, 0xffffffff, 1, 0x7fffffff, 1},
    {"s_mul_hi_i32 s0, s2, s4", 0x80000000, 0xffffffff, 0, 0, 0},
    {"s_mul_hi_i32 s0, s2, s4", 0x80000000, 2, 0, 0xffffffff, 0},
    {"s_lshl1_add_u32 s0, s2, s4", 0x80000001, 5, 0, 7, 1}, /* SCC: the sum exceeds 32 bits */
    {"s_lshl1_add_u32 s0, s2, s4", 0x40000001, 5, 1, 0x80000007, 0},
    {"s_lshl2_add_u32 s0, s2, s4", 0x40000001, 5, 0, 9, 1},
    {"s_lshl2_add_u32 s0, s2, s4", 0x20000001, 5, 1, 0x80000009, 0},
    {"s_lshl3_add_u32 s0, s2, s4", 0x20000001, 5, 0, 13, 1},
    {"s_lshl3_add_u32 s0, s2, s4", 0x10000001, 5, 1, 0x8000000d, 0},
    {"s_lshl4_add_u32 s0, s2, s4", 0x10000001, 5, 0, 21, 1},
    {"s_lshl4_add_u32 s0, s2, s4", 0x08000001, 5, 1, 0x80000015, 0},
    {"s_lshl_b32 s0, s2, s4", 0x80000001, 36, 0, 0x10, 1},
    {"s_lshl_b32 s0, s2, s4", 0x80000000, 1, 1, 0, 0},
    {"s_lshl_b64 s[0:1], s[2:3], s4", 0x9, 40 + 64, 0, UINT64_C(9) << 40, 1},
    {"s_lshl_b64 s[0:1], s[2:3], s4", TOP, 1, 1, 0, 0},
    {"s_lshr_b32 s0, s2, s4", 0x80000010, 36, 0, 0x08000001, 1},
    {"s_lshr_b32 s0, s2, s4", 1, 1, 1, 0, 0},
    {"s_lshr_b64 s[0:1], s[2:3], s4", TOP, 40 + 64, 0, 0x800000, 1},
    {"s_lshr_b64 s[0:1], s[2:3], s4", 1, 1, 1, 0, 0},
    {"s_ashr_i32 s0, s2, s4", 0x80000000, 36, 0, 0xf8000000, 1},
    {"s_ashr_i32 s0, s2, s4", 0x40000000, 31, 1, 0, 0},
    {"s_ashr_i64 s[0:1], s[2:3], s4", TOP, 40 + 64, 0, UINT64_C(0xffffffffff800000), 1},
    {"s_ashr_i64 s[0:1], s[2:3], s4", TOP >> 1, 63, 1, 0, 0},
    {"s_movk_i32 s0, 0x8000", 0, 0, 1, 0xffff8000, 1},
    {"s_cmovk_i32 s0, 0x8000", 0, 0, 1, 0xffff8000, 1},
    {"s_cmovk_i32 s0, 0x8000", 0, 0, 0, UNTOUCHED, 0},
    {"s_addk_i32 s0, 0x8000", 0, 0, 1, 0xdeadbeef - 0x8000, 0},
    {"s_mov_b32 s0, s2\ns_addk_i32 s0, 0x8000", 0x80000000, 0, 0, 0x7fff8000, 1},
    {"s_mulk_i32 s0, 0xfffe", 0, 0, 1, (uint32_t)(0xdeadbeef * 0xfffffffeu), 1},
};

TEST(logic_of_scalars) { check_scalars(logic, N(logic)); }

TEST(bits_of_scalars) { check_scalars(bits, N(bits)); }

TEST(sums_and_shifts_of_scalars) { check_scalars(sums, N(sums)); }

/* Names of the relations, in the order of the results in `holds`. */
static const char *const relations[] = {"eq", "lg", "gt", "ge", "lt", "le"};

static bool holds(unsigned relation, int64_t a, int64_t b)
{
    switch (relation) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a > b;
    case 3: return a >= b;
    case 4: return a < b;
    default: return a <= b;
    }
}

#define RELATIONS 6
#define PAIRS 4

/* Tests S_CMP and S_CMPK. The constant of S_CMPK is sign-extended, in _u32 forms zero-extended. */
TEST(compares_of_scalars)
{
    static const uint32_t a[PAIRS] = {5, 0xffff8000, 0x8000, 0x7fffffff};
    static const uint32_t b[PAIRS] = {5, 0x8000, 0x8000, 0xfffe};
    static struct scalar_case cases[RELATIONS * PAIRS * 4];
    static char text[RELATIONS * PAIRS * 4][40];
    unsigned n = 0;
    for (unsigned i = 0; i < RELATIONS * PAIRS * 4; i++) {
        const unsigned r = i / PAIRS % RELATIONS, pair = i % PAIRS;
        const bool constant = i / (PAIRS * RELATIONS) & 1, is_signed = i < 2 * PAIRS * RELATIONS;
        const uint32_t right = constant && is_signed ? (uint32_t)(int16_t)b[pair] : b[pair];
        const bool want =
            is_signed ? holds(r, (int32_t)a[pair], (int32_t)right) : holds(r, a[pair], right);
        if (constant)
            snprintf(text[n], sizeof(text[n]), "s_cmpk_%s_%s s2, 0x%x", relations[r],
                     is_signed ? "i32" : "u32", b[pair]);
        else
            snprintf(text[n], sizeof(text[n]), "s_cmp_%s_%s s2, s4", relations[r],
                     is_signed ? "i32" : "u32");
        cases[n] = (struct scalar_case){text[n], a[pair], right, !want, UNTOUCHED, want};
        n++;
    }
    check_scalars(cases, n);
    static const struct scalar_case wide[] = {
        {"s_cmp_eq_u64 s[2:3], s[4:5]", TOP | 1, 1, 1, UNTOUCHED, 0},
        {"s_cmp_eq_u64 s[2:3], s[4:5]", TOP | 1, TOP | 1, 0, UNTOUCHED, 1},
        {"s_cmp_lg_u64 s[2:3], s[4:5]", TOP | 1, 1, 0, UNTOUCHED, 1},
        {"s_cmp_lg_u64 s[2:3], s[4:5]", TOP | 1, TOP | 1, 1, UNTOUCHED, 0},
    };
    check_scalars(wide, N(wide));
}

/* Tests D = EXEC, EXEC = S0 op EXEC, SCC = EXEC != 0. The _wrexec forms write the new EXEC to D. */
TEST(exec_is_combined)
{
    const uint64_t s = UINT64_C(0xff0000ff00ff00ff), exec = UINT64_C(0xf0f0f0f0f0f0f0f0);
    const struct {
        const char *name;
        uint64_t now;
        bool writes;
    } forms[] = {
        {"s_and_saveexec_b64", s & exec, false},    {"s_or_saveexec_b64", s | exec, false},
        {"s_xor_saveexec_b64", s ^ exec, false},    {"s_andn2_saveexec_b64", s & ~exec, false},
        {"s_orn2_saveexec_b64", s | ~exec, false},  {"s_nand_saveexec_b64", ~(s & exec), false},
        {"s_nor_saveexec_b64", ~(s | exec), false}, {"s_xnor_saveexec_b64", ~(s ^ exec), false},
        {"s_andn1_saveexec_b64", ~s & exec, false}, {"s_orn1_saveexec_b64", ~s | exec, false},
        {"s_andn1_wrexec_b64", ~s & exec, true},    {"s_andn2_wrexec_b64", s & ~exec, true},
    };
    char text[N(forms) * 80], *at = text;
    void *machine;
    for (unsigned i = 0; i < N(forms); i++)
        at += sprintf(at, ".p2align 6\n%s s[0:1], s[2:3]\ns_endpgm\n", forms[i].name);
    struct code *code = assemble_cases(text, &machine);
    for (unsigned i = 0; i < N(forms); i++) {
        struct program p = program_new(GFX942);
        p.s[2] = (uint32_t)s, p.s[3] = (uint32_t)(s >> 32);
        p.exec = exec;
        program_at(&p, code, i * CASE_BYTES);
        if (p.exec != forms[i].now || !p.scc ||
            program_s64(&p, 0) != (forms[i].writes ? forms[i].now : exec))
            fail_msg("%s: EXEC is %016llx", forms[i].name, (unsigned long long)p.exec);
    }
    struct program p = program_new(GFX942);
    p.exec = 0xf0;
    p.s[2] = 0x0f;
    p.scc = 1;
    program_at(&p, code, 0);
    assert_int_equal(p.exec, 0);
    assert_int_equal(p.scc, 0);
    code_destroy(code);
    free(machine);
}

static bool is_tried(const struct scalar_case *cases, size_t n, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (strncmp(cases[i].text, name, length) == 0 && cases[i].text[length] == ' ')
            return true;
    return false;
}

TEST(every_row_has_a_case)
{
    for (const struct op_row *row = exec_sop_rows; row->name; row++)
        if (strncmp(row->name, "s_cmp_", 6) != 0 && !is_tried(logic, N(logic), row->name) &&
            !is_tried(bits, N(bits), row->name) && !is_tried(sums, N(sums), row->name))
            fail_msg("%s", row->name);
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that all variants of the lane kernels give the same bits: for plain C, for AVX2, and the
 * best ones for this CPU. On gfx950 and gfx1250 every VALU row that plain assembler syntax can
 * express runs on random and special operands. On gfx950 a row with DPP runs in several forms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/exec/tables.h"

/* Writes the name of an operand of `dwords` registers from `first` on. Sources may be any vector
 * registers, results are v0 and up. */
static void operand(char *text, size_t room, unsigned first, unsigned dwords)
{
    if (dwords == 1)
        snprintf(text, room, "v%u", first);
    else
        snprintf(text, room, "v[%u:%u]", first, first + dwords - 1);
}

/* True for rows that the assembler does not take for gfx1250 in the plain form: their sources may
 * not all be vector registers, they need modifiers, or only gfx1201 has them. */
static bool is_special(const struct op_row *row)
{
    static const char *const parts[] = {"v_s_", "permlane",  "movrel",    "_scale",
                                        "_iu",  "pipeflush", "dot2_f32_", "v_mov_b16"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(row->name, parts[i]))
            return true;
    return false;
}

/* Writes "v_name dst, src0, src1, src2" with the row's types. False if the row has another
 * shape. */
static bool write_instruction(enum gfx_target target, const struct op_row *row, char *text,
                              size_t room)
{
    const char *const vcc = isa_of(target)->lanes == 32 ? "vcc_lo" : "vcc";
    if (target == GFX1250 && is_special(row))
        return false;
    bool simple = row->flags & ROW_VALU && row->kernel && row->dst && row->dst != T_MASK &&
                  !(row->flags & (ROW_LITERAL_K | ROW_ACC_MOV | ROW_BITOP3)) &&
                  row->src[3] != T_MASK && !strstr(row->name, "accvgpr");
    if (!simple || TYPE_DWORDS(row->dst) > 2)
        return false;
    char o[32];
    operand(o, sizeof(o), 0, TYPE_DWORDS(row->dst));
    int at = snprintf(text, room, "%s %s", row->name, o);
    if (row->dst2)
        at += snprintf(text + at, room - (size_t)at, ", %s", vcc);
    unsigned last = row->flags & ROW_DST_IS_SRC && !row->src[3] ? 2 : 3;
    for (unsigned k = 0; k < last && row->src[k]; k++) {
        if (TYPE_DWORDS(row->src[k]) > 2)
            return false;
        if (row->src[k] == T_MASK)
            snprintf(o, sizeof(o), "%s", vcc);
        else
            operand(o, sizeof(o), 8 + 4 * k, TYPE_DWORDS(row->src[k]));
        at += snprintf(text + at, room - (size_t)at, ", %s", o);
    }
    return true;
}

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void fill_registers(struct program *p, uint32_t seed)
{
    static const uint32_t special[] = {
        0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
        0x7f800001, 1,          0x80000001, 0x00800000, 0x7f7fffff, 0x3c003c00, 0x7c007c00,
        0x7e010001, 0xffffffff, 0x7fffffff, 0x42fe0000, 0x3eaaaaab, 0xc3000000,
    };
    uint32_t state = seed;
    for (unsigned r = 0; r < 24; r++) {
        for (unsigned i = 0; i < 64; i++) {
            uint32_t u = next(&state);
            p->v[r][i] = u & 0x300 ? u * 0x9e3779b9u : special[u % 20];
        }
    }
    p->s[SGPR_VCC] = next(&state);
    p->s[SGPR_VCC + 1] = next(&state);
}

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const uint8_t *b = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ b[i]) * UINT64_C(1099511628211);
    return h;
}

#define CASE_BYTES 64
#define MAX_ROWS 1024

static const char *row_names[MAX_ROWS];

/* Stores a hash per row of its results under several modes, in the order of the tables. */
static unsigned run_all(enum gfx_target target, uint64_t *hashes)
{
    char *text = malloc(MAX_ROWS * 160), *at = text, line[160];
    unsigned n = 0;
    if (!text)
        return 0;
    for (const struct op_row *const *table = exec_tables(); *table; table++) {
        for (const struct op_row *row = *table; row->name; row++) {
            if (n == MAX_ROWS - 8 || row_find(target, row->name) != row ||
                !write_instruction(target, row, line, sizeof(line)))
                continue;
            row_names[n++] = row->name;
            at += sprintf(at, ".p2align 6\n%s\ns_endpgm\n", line);
        }
    }
    static const char *const controls[] = {"quad_perm:[3,1,0,2]", "row_shl:5",  "row_ror:3",
                                           "row_half_mirror",     "wave_ror:1", "row_newbcast:9"};
    for (unsigned k = 0; target == GFX950 && k < sizeof(controls) / sizeof(controls[0]); k++) {
        row_names[n++] = controls[k];
        at += sprintf(at,
                      ".p2align 6\nv_sub_f32_dpp v0, -v8, v12 %s row_mask:0xf bank_mask:0xb\n"
                      "s_endpgm\n",
                      controls[k]);
    }
    size_t bytes = 0;
    void *machine = assemble(target, text, &bytes);
    struct code *code = code_create(target, machine, bytes, (uint64_t)(uintptr_t)machine);
    static const uint32_t modes[] = {MODE_DEFAULT, MODE_DENORM_F16_F64, MODE_DEFAULT | 0xd};
    for (unsigned i = 0; i < n; i++) {
        hashes[i] = UINT64_C(14695981039346656037);
        for (unsigned m = 0; m < 3; m++) {
            struct program p = program_new(target);
            p.mode = modes[m];
            fill_registers(&p, 12345 + i * 7 + m);
            program_at(&p, code, i * CASE_BYTES);
            hashes[i] = hash(hashes[i], p.v, 4 * sizeof(p.v[0]));
            hashes[i] = hash(hashes[i], &p.s[SGPR_VCC], 8);
            hashes[i] ^= (uint64_t)p.fault.kind << 56;
        }
    }
    code_destroy(code);
    free(machine);
    free(text);
    return n;
}

/* Computes the hashes with the kernels of `isa`. Runs in a child, since a process can only select
 * kernels once. */
static size_t run_in_child(enum gfx_target target, enum host_isa isa, uint64_t *hashes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        host_isa_force(isa);
        unsigned n = run_all(target, hashes);
        ssize_t done = write(ends[1], hashes, n * sizeof(hashes[0]));
        _exit(done == (ssize_t)(n * sizeof(hashes[0])) ? 0 : 1);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t r;
         (r = read(ends[0], (char *)hashes + got, MAX_ROWS * sizeof(hashes[0]) - got)) > 0;)
        got += (size_t)r;
    close(ends[0]);
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    return got / sizeof(hashes[0]);
}

/* Hashes of a target's rows, with plain C and AVX2, and their numbers. */
struct results {
    size_t with_plain, with_avx2;
    uint64_t plain[MAX_ROWS], avx2[MAX_ROWS];
};

/* Expects that the best kernels for this CPU have the results `r` for the target's rows. */
static void compare_kernels(enum gfx_target target, const struct results *r)
{
    static uint64_t best[MAX_ROWS];
    const bool has_avx2 = host_isa_supported(HOST_AVX2);
    const unsigned n = run_all(target, best);
    assert_true(n > 300);
    assert_int_equal(r->with_plain, n);
    assert_true(!has_avx2 || r->with_avx2 == n);
    unsigned wrong = 0;
    for (unsigned i = 0; i < n; i++) {
        if (r->plain[i] != best[i] || (has_avx2 && r->avx2[i] != best[i])) {
            print_error("%s differs\n", row_names[i]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* All children run before this process selects its kernels, which they would inherit. */
TEST(all_kernels_agree)
{
    static const enum gfx_target targets[] = {GFX950, GFX1250};
    static struct results results[2];
    for (unsigned t = 0; t < 2; t++) {
        results[t].with_plain = run_in_child(targets[t], HOST_PLAIN, results[t].plain);
        if (host_isa_supported(HOST_AVX2))
            results[t].with_avx2 = run_in_child(targets[t], HOST_AVX2, results[t].avx2);
    }
    for (unsigned t = 0; t < 2; t++)
        compare_kernels(targets[t], &results[t]);
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that enough vector instructions are between each WMMA and the next use of its registers.
 *
 * A WMMA executes for several clocks while the wave issues further vector instructions, and the
 * hardware does not detect dependences between them (CDNA5 ISA, 5.7.2 and 7.12.1). LLVM inserts
 * v_nop for that. Its later passes may move instructions, so the linked code is checked.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "targets/analyze.h"

/* Indices of operands, and their number; more vector instructions than any WMMA needs; most
 * characters of a mnemonic in messages. */
enum { DST, FIRST_SOURCE, OPERANDS = 5, PAST_ALL = 255, MNEMONIC = 40 };

/* The VGPRs of an operand: number of the first, and count. count 0: the operand is no VGPR. */
struct registers {
    unsigned first, count;
};

/* The VGPRs of an instruction's operands: the destination, then the sources. */
struct operands {
    struct registers at[OPERANDS];
};

/* A search forwards from a WMMA, on every path, for a use of its registers. */
struct search {
    const struct tgt_code *code;
    const struct tgt *t;
    /* for each instruction the operand of the last s_set_vgpr_msb: bits 9:8 of register numbers */
    const uint8_t *msb;
    size_t from;             /* index of the WMMA */
    struct operands product; /* registers of the WMMA */
    unsigned gap;    /* number of vector instructions that must be between the WMMA and a use */
    uint32_t *stamp; /* for each instruction: `from` + 1 if the search has reached it */
    /* for each instruction that the search has reached: fewest vector instructions since the
     * WMMA */
    uint8_t *between;
    char *why;
};

/* True if `text` begins with `prefix`. */
static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True if the assembly text is of a WMMA. */
static bool is_product(const char *text) { return starts(text, "v_wmma_"); }

/* Returns the low byte of the operand of an s_set_vgpr_msb: bits 9:8 of register numbers, two bits
 * for each operand of an instruction. */
static uint8_t msb_of(const char *text)
{
    return (uint8_t)(strtoul(strchr(text, ' ') + 1, NULL, 0) & 0xff);
}

/* Returns the VGPRs of the operand at `text`, such as "v1" or "v[2:5]". `high` is bits 9:8 of their
 * numbers. */
static struct registers read_registers(const char *text, unsigned high)
{
    while (*text == ' ' || *text == '-' || *text == '|')
        text++;
    if (text[0] != 'v' || !(isdigit((unsigned char)text[1]) || text[1] == '['))
        return (struct registers){0};
    char *end;
    const bool several = text[1] == '[';
    const unsigned first = (unsigned)strtoul(text + 1 + several, &end, 10);
    const unsigned last = several && *end == ':' ? (unsigned)strtoul(end + 1, NULL, 10) : first;
    return (struct registers){first + 256 * high, last - first + 1};
}

/* Returns the text after the next comma outside of brackets, which begins the next operand; NULL:
 * there is none. */
static const char *next_operand(const char *text)
{
    for (int depth = 0; *text; text++) {
        depth += (*text == '[') - (*text == ']');
        if (*text == ',' && depth == 0)
            return text + 1;
    }
    return NULL;
}

/* True if the second operand of a vector instruction is a scalar result: a carry or a mask. */
static bool has_scalar_result(const char *text)
{
    return strstr(text, "_co_") || starts(text, "v_div_scale") || starts(text, "v_mad_u64") ||
           starts(text, "v_mad_i64");
}

/* Returns the VGPRs of a vector instruction's operands. `msb` has bits 9:8 of their numbers as
 * s_set_vgpr_msb has them: 2 bits each for the first three sources, then for the destination. */
static struct operands read_operands(const char *text, uint8_t msb)
{
    static const uint8_t shift[OPERANDS] = {6, 0, 2, 4, 4};
    struct operands o = {0};
    const char *at = strchr(text, ' ');
    for (unsigned i = 0; at && i < OPERANDS; i++) {
        o.at[i] = read_registers(at, msb >> shift[i] & 3);
        at = next_operand(at);
        if (i == DST && at && has_scalar_result(text))
            at = next_operand(at);
    }
    return o;
}

/* True if two ranges of registers have a register in common. */
static bool overlap(struct registers a, struct registers b)
{
    return a.count && b.count && a.first < b.first + b.count && b.first < a.first + a.count;
}

/* Returns how many vector instructions must be between the WMMA of the search and the vector
 * instruction number `at`. 0: the instruction does not use the WMMA's registers, or the hardware
 * waits. Transcendentals do not execute beside a WMMA. */
static unsigned needed(const struct search *s, size_t at)
{
    const char *const text = s->code->insts[at].text;
    const struct operands o = read_operands(text, s->msb[at]);
    const struct registers *const p = s->product.at;
    if (is_product(text)) {
        const bool factor =
            overlap(o.at[FIRST_SOURCE], p[DST]) || overlap(o.at[FIRST_SOURCE + 1], p[DST]);
        return factor ? s->gap + s->t->factor_gap : 0;
    }
    if (!s->gap || tgt_is_transcendental(text))
        return 0;
    bool uses = false;
    for (unsigned i = 0; i < OPERANDS; i++)
        uses |= overlap(o.at[i], p[DST]);
    for (unsigned i = 0; i <= (strstr(text, "swap") ? FIRST_SOURCE : DST); i++)
        uses |= overlap(o.at[i], p[FIRST_SOURCE]) || overlap(o.at[i], p[FIRST_SOURCE + 1]);
    return uses ? s->gap : 0;
}

/* Returns the number of vector instructions that an s_nop or a wait replaces. 0: it is another
 * instruction, or the target needs vector instructions. A wait for all vector instructions returns
 * PAST_ALL. */
static unsigned pause_of(const struct search *s, const char *text)
{
    if (!s->t->gap_clocks)
        return 0;
    if (starts(text, "s_nop "))
        return (unsigned)strtoul(text + strlen("s_nop "), NULL, 0) + 1;
    const bool all =
        starts(text, "s_wait_idle") || (starts(text, "s_wait_alu") && strstr(text, "va_vdst(0)"));
    return all ? PAST_ALL : 0;
}

/* Searches from instruction number `at` on, on every path; `between` vector instructions are before
 * it. Returns false with a sentence in s->why if an instruction uses the WMMA's registers too
 * early. */
static bool follow(struct search *s, size_t at, unsigned between)
{
    while (at < s->code->count && between < s->gap + s->t->factor_gap) {
        const struct tgt_inst *const inst = &s->code->insts[at];
        if (s->stamp[at] == s->from + 1 && s->between[at] <= between)
            return true;
        s->stamp[at] = (uint32_t)s->from + 1;
        s->between[at] = (uint8_t)between;
        if (starts(inst->text, "v_")) {
            const unsigned need = needed(s, at);
            if (between < need) {
                snprintf(s->why, TGT_WHY,
                         "byte %u: %.*s uses registers of the WMMA at byte %u after %u vector "
                         "instructions, %.8s needs %u",
                         inst->offset, (int)strcspn(inst->text, " ") % MNEMONIC, inst->text,
                         s->code->insts[s->from].offset, between, s->t->machine.name, need);
                return false;
            }
            between++;
        }
        between += pause_of(s, inst->text);
        const ptrdiff_t target = tgt_inst_at(s->code, inst->target);
        if (target >= 0 && !follow(s, (size_t)target, between))
            return false;
        if (!inst->falls_through)
            return true;
        at++;
    }
    return true;
}

/* Sets msb[i] to the operand of the last s_set_vgpr_msb before instruction i. LLVM resets it to 0
 * before each branch. */
static void find_msb(const struct tgt_code *code, uint8_t *msb)
{
    uint8_t now = 0;
    for (size_t i = 0; i < code->count; i++) {
        if (starts(code->insts[i].text, "s_set_vgpr_msb "))
            now = msb_of(code->insts[i].text);
        msb[i] = now;
        if (!code->insts[i].falls_through)
            now = 0;
    }
}

/* Searches after each WMMA for an instruction that uses its registers too early. Returns false with
 * a sentence in s->why if there is one. */
static bool search_all(struct search *s)
{
    for (s->from = 0; s->from < s->code->count; s->from++) {
        const char *const text = s->code->insts[s->from].text;
        if (!is_product(text))
            continue;
        const struct tir_mma *const row = tgt_find_product(text, s->t, s->why);
        if (!row)
            return false;
        if (row->in_dtype == TIR_F32) /* no other instruction executes beside a product of f32 */
            continue;
        s->product = read_operands(text, s->msb[s->from]);
        s->gap = s->t->gap_clocks ? row->cycles / s->t->gap_clocks : 0;
        if (!follow(s, s->from + 1, 0))
            return false;
    }
    return true;
}

bool tgt_check_gaps(const struct tgt_code *code, const struct tgt *t, char why[TGT_WHY])
{
    if (!t->gap_clocks && !t->factor_gap)
        return true;
    uint8_t *const msb = calloc(2 * code->count + 1, sizeof(*msb));
    uint32_t *const stamp = calloc(code->count + 1, sizeof(*stamp));
    bool ok = msb && stamp;
    if (ok) {
        struct search s = {.code = code,
                           .t = t,
                           .msb = msb,
                           .stamp = stamp,
                           .between = msb + code->count,
                           .why = why};
        find_msb(code, msb);
        ok = search_all(&s);
    } else {
        snprintf(why, TGT_WHY, "out of memory");
    }
    free(msb);
    free(stamp);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests each load, store and atomic of each memory: which bytes it moves, merges, extends and
 * returns by the pseudo-code of the CDNA3 ISA manual (DS, BUFFER, FLAT, GLOBAL, SCRATCH, S_ATOMIC,
 * S_BUFFER).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

#define CASE_BYTES 128
#define STRIDE 32            /* bytes per lane; accesses are in the upper half */
#define OFF UINT64_C(0x0200) /* mask of the only lane that is inactive */
#define KEPT 0xaaaabbbbu     /* contents of result registers before the instruction */

enum { DATA = 4, RESULT = 8, FILL = 48, DUMP = 56 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Instructions of a memory. Loads and stores get a name and registers. `all` stores the bytes of
 * each lane and, after the bar, loads them again. */
static const struct memory {
    const char *load, *store, *all, *wait;
    bool lds;
} memories[] = {
    {"global_load_%s %s, v[0:1], off offset:16", "global_store_%s v[0:1], %s, off offset:16",
     "global_store_dwordx4 v[0:1], v[48:51], off\n"
     "global_store_dwordx4 v[0:1], v[52:55], off offset:16\n|"
     "global_load_dwordx4 v[56:59], v[0:1], off\n"
     "global_load_dwordx4 v[60:63], v[0:1], off offset:16\n",
     "s_waitcnt vmcnt(0)\n", false},
    {"flat_load_%s %s, v[0:1] offset:16", "flat_store_%s v[0:1], %s offset:16",
     "flat_store_dwordx4 v[0:1], v[48:51]\nflat_store_dwordx4 v[0:1], v[52:55] offset:16\n|"
     "flat_load_dwordx4 v[56:59], v[0:1]\nflat_load_dwordx4 v[60:63], v[0:1] offset:16\n",
     "s_waitcnt vmcnt(0) lgkmcnt(0)\n", false},
    {"buffer_load_%s %s, v2, s[4:7], 0 offen offset:16",
     "buffer_store_%s %s, v2, s[4:7], 0 offen offset:16",
     "buffer_store_dwordx4 v[48:51], v2, s[4:7], 0 offen\n"
     "buffer_store_dwordx4 v[52:55], v2, s[4:7], 0 offen offset:16\n|"
     "buffer_load_dwordx4 v[56:59], v2, s[4:7], 0 offen\n"
     "buffer_load_dwordx4 v[60:63], v2, s[4:7], 0 offen offset:16\n",
     "s_waitcnt vmcnt(0)\n", false},
    {"scratch_load_%s %s, v3, off offset:16", "scratch_store_%s v3, %s, off offset:16",
     "scratch_store_dwordx4 v3, v[48:51], off\nscratch_store_dwordx4 v3, v[52:55], off offset:16\n|"
     "scratch_load_dwordx4 v[56:59], v3, off\nscratch_load_dwordx4 v[60:63], v3, off offset:16\n",
     "s_waitcnt vmcnt(0)\n", false},
    {"ds_read_%s %s, v2 offset:16", "ds_write_%s v2, %s offset:16",
     "ds_write_b128 v2, v[48:51]\nds_write_b128 v2, v[52:55] offset:16\n|"
     "ds_read_b128 v[56:59], v2\nds_read_b128 v[60:63], v2 offset:16\n",
     "s_waitcnt lgkmcnt(0)\n", true},
};

enum part { ALL, LOW, HIGH };

/* A form of access: its names in memory and LDS, bytes, sign extension, part of the register. */
struct form {
    const char *name, *lds;
    unsigned bytes;
    bool sext;
    enum part part;
};

static const struct form loads[] = {
    {"ubyte", "u8", 1, false, ALL},          {"sbyte", "i8", 1, true, ALL},
    {"ushort", "u16", 2, false, ALL},        {"sshort", "i16", 2, true, ALL},
    {"dword", "b32", 4, false, ALL},         {"dwordx2", "b64", 8, false, ALL},
    {"dwordx3", "b96", 12, false, ALL},      {"dwordx4", "b128", 16, false, ALL},
    {"ubyte_d16", "u8_d16", 1, false, LOW},  {"ubyte_d16_hi", "u8_d16_hi", 1, false, HIGH},
    {"sbyte_d16", "i8_d16", 1, true, LOW},   {"sbyte_d16_hi", "i8_d16_hi", 1, true, HIGH},
    {"short_d16", "u16_d16", 2, false, LOW}, {"short_d16_hi", "u16_d16_hi", 2, false, HIGH},
};

static const struct form stores[] = {
    {"byte", "b8", 1, false, ALL},      {"byte_d16_hi", "b8_d16_hi", 1, false, HIGH},
    {"short", "b16", 2, false, ALL},    {"short_d16_hi", "b16_d16_hi", 2, false, HIGH},
    {"dword", "b32", 4, false, ALL},    {"dwordx2", "b64", 8, false, ALL},
    {"dwordx3", "b96", 12, false, ALL}, {"dwordx4", "b128", 16, false, ALL},
};

static const char *registers(char *text, unsigned first, unsigned bytes)
{
    if (bytes <= 4)
        sprintf(text, "v%u", first);
    else
        sprintf(text, "v[%u:%u]", first, first + bytes / 4 - 1);
    return text;
}

/* Writes a case: instructions that store to all of a memory, `body`, and instructions that load all
 * of it. */
static char *write_case(char *at, const struct memory *m, const char *body)
{
    const size_t fill = (size_t)(strchr(m->all, '|') - m->all);
    return at + sprintf(at, ".p2align 7\n%.*s%s%s\n%s%s%ss_endpgm\n", (int)fill, m->all, m->wait,
                        body, m->wait, m->all + fill + 1, m->wait);
}

static struct code *assemble_cases(const char *text, void **machine)
{
    size_t bytes = 0;
    *machine = assemble(GFX942, text, &bytes);
    struct code *code = code_create(GFX942, *machine, bytes, (uint64_t)(uintptr_t)*machine);
    assert_non_null(code);
    return code;
}

/* Creates a program in which each lane has its own STRIDE bytes in each memory. */
static struct program memory_program(void)
{
    static uint8_t *data;
    struct program p = program_new(GFX942);
    if (!data)
        data = device_alloc((size_t)64 * STRIDE, NULL);
    p.exec = ~OFF;
    p.lds_bytes = 64 * STRIDE;
    p.private_bytes = STRIDE;
    program_addresses(&p, 0, data, STRIDE);
    program_lanes(&p, 2, STRIDE);
    program_resource(&p, 4, data, 0, 64 * STRIDE);
    for (unsigned l = 0; l < 64; l++) {
        for (unsigned i = 0; i < 8; i++)
            p.v[FILL + i][l] = l * 0x9e3779b9u ^ i * 0x85ebca6bu ^ 0x80;
        for (unsigned i = 0; i < 4; i++)
            p.v[DATA + i][l] = l * 0xc2b2ae35u ^ i * 0x27d4eb2fu;
    }
    for (unsigned r = RESULT; r < RESULT + 4; r++)
        program_fill(&p, r, KEPT);
    return p;
}

static uint32_t loaded(const struct form *f, uint32_t memory)
{
    uint32_t v = memory;
    if (f->bytes == 1)
        v = f->sext ? (uint32_t)(int8_t)memory : memory & 0xff;
    else if (f->bytes == 2)
        v = f->sext ? (uint32_t)(int16_t)memory : memory & 0xffff;
    /* Loads of a half write zeros to the other one (CDNA3 ISA, 9.1.6). */
    return f->part == ALL ? v : f->part == LOW ? v & 0xffff : v << 16;
}

TEST(every_load)
{
    for (const struct memory *m = memories; m < memories + COUNT(memories); m++) {
        char text[COUNT(loads) * 400], *at = text, body[100], reg[16];
        void *machine;
        for (unsigned i = 0; i < COUNT(loads); i++) {
            const struct form *f = &loads[i];
            snprintf(body, sizeof(body), m->load, m->lds ? f->lds : f->name,
                     registers(reg, RESULT, f->bytes));
            at = write_case(at, m, body);
        }
        struct code *code = assemble_cases(text, &machine);
        for (unsigned i = 0; i < COUNT(loads); i++) {
            const unsigned dwords = (loads[i].bytes + 3) / 4;
            struct program p = memory_program();
            program_at(&p, code, i * CASE_BYTES);
            assert_string_equal(p.fault.text, "");
            for (unsigned l = 0; l < 64; l++)
                for (unsigned k = 0; k < 4; k++) {
                    const bool on = ~OFF >> l & 1 && k < dwords;
                    const uint32_t want = on ? loaded(&loads[i], p.v[FILL + 4 + k][l]) : KEPT;
                    if (p.v[RESULT + k][l] != want)
                        fail_msg("%s of %s, lane %u: %08x, not %08x", m->load, loads[i].name, l,
                                 p.v[RESULT + k][l], want);
                }
        }
        code_destroy(code);
        free(machine);
    }
}

TEST(every_store)
{
    for (const struct memory *m = memories; m < memories + COUNT(memories); m++) {
        char text[COUNT(stores) * 400], *at = text, body[100], reg[16];
        void *machine;
        for (unsigned i = 0; i < COUNT(stores); i++) {
            const struct form *f = &stores[i];
            snprintf(body, sizeof(body), m->store, m->lds ? f->lds : f->name,
                     registers(reg, DATA, f->bytes));
            at = write_case(at, m, body);
        }
        struct code *code = assemble_cases(text, &machine);
        for (unsigned i = 0; i < COUNT(stores); i++) {
            const struct form *f = &stores[i];
            struct program p = memory_program();
            program_at(&p, code, i * CASE_BYTES);
            assert_string_equal(p.fault.text, "");
            for (unsigned l = 0; l < 64; l++) {
                uint32_t want[8], got[8], data[4];
                for (unsigned k = 0; k < 8; k++)
                    want[k] = ~OFF >> l & 1 ? p.v[FILL + k][l] : 0, got[k] = p.v[DUMP + k][l];
                for (unsigned k = 0; k < 4; k++)
                    data[k] = p.v[DATA + k][l] >> (f->part == HIGH ? 16 : 0);
                if (~OFF >> l & 1)
                    memcpy(&want[4], data, f->bytes);
                if (memcmp(want, got, sizeof(want)) != 0)
                    fail_msg("%s of %s, lane %u", m->store, f->name, l);
            }
        }
        code_destroy(code);
        free(machine);
    }
}

/* The functions from here on test atomics. */

enum op { SWAP, ADD, SUB, SMIN, UMIN, SMAX, UMAX, AND, OR, XOR, INC, DEC, CMPSWAP, RSUB, MSKOR };

/* The names of each operation: in memory, and in LDS for 32 and 64 bits. The last two operations
 * only exist in LDS. */
static const struct {
    const char *name, *lds[2];
} ops[] = {
    [SWAP] = {"swap", {"wrxchg_b32", "wrxchg_b64"}},
    [ADD] = {"add", {"add_u32", "add_u64"}},
    [SUB] = {"sub", {"sub_u32", "sub_u64"}},
    [SMIN] = {"smin", {"min_i32", "min_i64"}},
    [UMIN] = {"umin", {"min_u32", "min_u64"}},
    [SMAX] = {"smax", {"max_i32", "max_i64"}},
    [UMAX] = {"umax", {"max_u32", "max_u64"}},
    [AND] = {"and", {"and_b32", "and_b64"}},
    [OR] = {"or", {"or_b32", "or_b64"}},
    [XOR] = {"xor", {"xor_b32", "xor_b64"}},
    [INC] = {"inc", {"inc_u32", "inc_u64"}},
    [DEC] = {"dec", {"dec_u32", "dec_u64"}},
    [CMPSWAP] = {"cmpswap", {"cmpst_b32", "cmpst_b64"}},
    [RSUB] = {NULL, {"rsub_u32", "rsub_u64"}},
    [MSKOR] = {NULL, {"mskor_b32", "mskor_b64"}},
};

/* Returns the result of an atomic. tmp is the memory, src the operand, `extra` the second operand
 * in LDS: the new value of a compare-and-swap. */
static uint64_t computed(enum op op, bool wide, uint64_t tmp, uint64_t src, uint64_t extra)
{
    const int64_t a = wide ? (int64_t)tmp : (int32_t)tmp, b = wide ? (int64_t)src : (int32_t)src;
    uint64_t r;
    switch (op) {
    case SWAP: r = src; break;
    case ADD: r = tmp + src; break;
    case SUB: r = tmp - src; break;
    case RSUB: r = src - tmp; break;
    case SMIN: r = (uint64_t)(b < a ? b : a); break;
    case SMAX: r = (uint64_t)(b > a ? b : a); break;
    case UMIN: r = src < tmp ? src : tmp; break;
    case UMAX: r = src > tmp ? src : tmp; break;
    case AND: r = tmp & src; break;
    case OR: r = tmp | src; break;
    case XOR: r = tmp ^ src; break;
    case INC: r = tmp >= src ? 0 : tmp + 1; break;
    case DEC: r = tmp == 0 || tmp > src ? src : tmp - 1; break;
    case MSKOR: r = (tmp & ~src) | extra; break;
    default: r = tmp == src ? extra : tmp; break;
    }
    return wide ? r : (uint32_t)r;
}

#define PAIRS 8
static const struct {
    uint64_t memory, data;
} pairs[PAIRS] = {
    {5, 7},
    {7, 5},
    {0, 7},
    {5, 5},
    {UINT64_MAX, 1},
    {1, UINT64_MAX},
    {UINT64_C(0x80000000ffff0000), UINT64_C(0x7fffffff12345678)},
    {UINT64_C(0x7fffffff0000ffff), UINT64_C(0x80000000edcba987)},
};
#define EXTRA UINT64_C(0x1122334455667788)

enum { GLOBAL, FLAT, BUFFER, LDS };

/* Writes the instruction. False if the memory lacks the operation. */
static bool write_atomic(char *body, unsigned memory, enum op op, bool wide, bool returns)
{
    const char *x2 = wide ? "_x2" : "", *sc0 = returns ? " sc0" : "";
    const bool swap = op == CMPSWAP;
    char data[16], result[16] = "", extra[16] = "";
    registers(data, DATA,
              wide && memory != LDS && swap     ? 16
              : wide || (memory != LDS && swap) ? 8
                                                : 4);
    if (returns)
        registers(result, RESULT, wide ? 8 : 4), strcat(result, ", ");
    if (memory == LDS) {
        const char *name = ops[op].lds[wide], *type = strchr(name, '_');
        if (op == CMPSWAP || op == MSKOR)
            sprintf(extra, ", %s", wide ? "v[12:13]" : "v12");
        if (op == SWAP && !returns)
            return false;
        sprintf(body, "ds_%.*s%s%s %sv2, %s%s offset:16", (int)(type - name), name,
                returns ? "_rtn" : "", type, result, data, extra);
        return true;
    }
    if (!ops[op].name)
        return false;
    if (memory == BUFFER)
        sprintf(body, "buffer_atomic_%s%s %s, v2, s[4:7], 0 offen offset:16%s", ops[op].name, x2,
                data, sc0);
    else if (memory == FLAT)
        sprintf(body, "flat_atomic_%s%s %sv[0:1], %s offset:16%s", ops[op].name, x2, result, data,
                sc0);
    else
        sprintf(body, "global_atomic_%s%s %sv[0:1], %s, off offset:16%s", ops[op].name, x2, result,
                data, sc0);
    return true;
}

/* Sets the operands of an atomic. LDS takes the compared value first and the new value in another
 * register. Memory takes the new value first, then the compared value. */
static void put_data(struct program *p, unsigned lane, unsigned memory, enum op op, bool wide,
                     uint64_t data)
{
    const uint64_t first = op == CMPSWAP && memory != LDS ? EXTRA : data;
    const unsigned second = wide ? DATA + 2 : DATA + 1;
    p->v[DATA][lane] = (uint32_t)first, p->v[DATA + 1][lane] = (uint32_t)(first >> 32);
    if (op == CMPSWAP && memory != LDS)
        p->v[second][lane] = (uint32_t)data, p->v[second + 1][lane] = (uint32_t)(data >> 32);
    p->v[12][lane] = (uint32_t)EXTRA, p->v[13][lane] = (uint32_t)(EXTRA >> 32);
}

static void check_atomic(struct code *code, unsigned slot, unsigned memory, enum op op, bool wide,
                         bool returns)
{
    struct program p = memory_program();
    const uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
    for (unsigned l = 0; l < 64; l++) {
        p.v[FILL + 4][l] = (uint32_t)pairs[l % PAIRS].memory;
        p.v[FILL + 5][l] = (uint32_t)(pairs[l % PAIRS].memory >> 32);
        put_data(&p, l, memory, op, wide, pairs[l % PAIRS].data);
    }
    const struct program before = p;
    program_at(&p, code, slot * CASE_BYTES);
    assert_string_equal(p.fault.text, "");
    for (unsigned l = 0; l < 64; l++) {
        const uint64_t old = pairs[l % PAIRS].memory & mask, data = pairs[l % PAIRS].data & mask;
        const uint64_t want = computed(op, wide, old, data, EXTRA & mask);
        const unsigned reg = memory == BUFFER ? DATA : RESULT;
        const bool on = ~OFF >> l & 1;
        const uint64_t got = program_v64(&p, DUMP + 4, l) & mask;
        const uint64_t result = on && returns ? old : program_v64(&before, reg, l) & mask;
        if ((on && got != want) || (program_v64(&p, reg, l) & mask) != result)
            fail_msg("memory %u, %s of %u bytes, lane %u: %llx, not %llx; returns %llx", memory,
                     ops[op].lds[0], wide ? 8 : 4, l, (unsigned long long)got,
                     (unsigned long long)want, (unsigned long long)program_v64(&p, reg, l));
    }
}

TEST(every_atomic)
{
    for (unsigned memory = GLOBAL; memory <= LDS; memory++) {
        const struct memory *m = &memories[memory == LDS ? COUNT(memories) - 1 : memory];
        static char text[COUNT(ops) * 4 * 500];
        char *at = text, body[100];
        void *machine;
        for (unsigned i = 0; i < COUNT(ops) * 4; i++)
            if (write_atomic(body, memory, i / 4, i & 1, i & 2))
                at = write_case(at, m, body);
        struct code *code = assemble_cases(text, &machine);
        for (unsigned i = 0, slot = 0; i < COUNT(ops) * 4; i++)
            if (write_atomic(body, memory, i / 4, i & 1, i & 2))
                check_atomic(code, slot++, memory, i / 4, i & 1, i & 2);
        code_destroy(code);
        free(machine);
    }
}

/* Tests exact sums and comparisons of floats, in each memory that has them. */
TEST(every_atomic_of_floats)
{
    static const struct {
        const char *name, *lds;
        uint64_t memory, data, want;
    } cases[] = {
        {"add_f32", "add_rtn_f32", 0x3f800000, 0x40000000, 0x40400000},
        {"add_f64", "add_rtn_f64", UINT64_C(0x3ff0000000000000), UINT64_C(0x4000000000000000),
         UINT64_C(0x4008000000000000)},
        {"min_f64", "min_rtn_f64", UINT64_C(0x3ff0000000000000), UINT64_C(0xc000000000000000),
         UINT64_C(0xc000000000000000)},
        {"max_f64", "max_rtn_f64", UINT64_C(0x3ff0000000000000), UINT64_C(0xc000000000000000),
         UINT64_C(0x3ff0000000000000)},
        {"pk_add_f16", "pk_add_rtn_f16", 0x3c004000, 0x3c003c00, 0x40004200},
        {"pk_add_bf16", "pk_add_rtn_bf16", 0x3f804000, 0x3f803f80, 0x40004040},
    };

    (void)state;
    for (unsigned memory = GLOBAL; memory <= LDS; memory++)
        for (unsigned i = 0; i < COUNT(cases); i++) {
            const struct memory *m = &memories[memory == LDS ? COUNT(memories) - 1 : memory];
            const bool wide = cases[i].want >> 32;
            char text[500], data[16], result[16];
            struct program p = memory_program();
            if (memory == BUFFER && i == 5) /* only gfx950 has this one */
                continue;
            registers(data, DATA, wide ? 8 : 4), registers(result, RESULT, wide ? 8 : 4);
            const size_t fill = (size_t)(strchr(m->all, '|') - m->all);
            int n = snprintf(text, sizeof(text), "%.*s%s", (int)fill, m->all, m->wait);
            char *at = text + n;
            if (memory == LDS)
                at += sprintf(at, "ds_%s %s, v2, %s offset:16\n", cases[i].lds, result, data);
            else if (memory == BUFFER)
                at += sprintf(at, "buffer_atomic_%s %s, v2, s[4:7], 0 offen offset:16\n",
                              cases[i].name, data);
            else
                at += sprintf(at, "%s_atomic_%s %s, v[0:1], %s%s offset:16 sc0\n",
                              memory == FLAT ? "flat" : "global", cases[i].name, result, data,
                              memory == FLAT ? "" : ", off");
            sprintf(at, "%s%s%s", m->wait, m->all + fill + 1, m->wait);
            program_fill64(&p, FILL + 4, cases[i].memory);
            program_fill64(&p, DATA, cases[i].data);
            program_run(&p, text);
            const uint64_t got = program_v64(&p, DUMP + 4, 3),
                           mask = wide ? UINT64_MAX : UINT32_MAX;
            if ((got & mask) != cases[i].want ||
                (memory != BUFFER && (program_v64(&p, RESULT, 3) & mask) != cases[i].memory))
                fail_msg("%s: %llx", text, (unsigned long long)got);
        }
}

int main(void) { return run_unit_tests(); }

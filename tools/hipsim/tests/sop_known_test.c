/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the defined bits of each scalar ALU result with the definition. Each operation runs with
 * all values of the undefined bits. A result bit that is always the same is defined.
 *
 * No operation may report an undefined bit as defined. Most operations may not miss a defined bit
 * either, since that would cause a false report for a correct program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/exec/tables.h"

enum { TRIALS = 300, MOST_UNDEFINED = 7 };

static bool begins_with_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return true;
    return false;
}

/* True if an operation may miss defined bits: positions and counts of bits, products, and shifts
 * and fields with an undefined amount. */
static bool is_loose(const char *name, uint64_t undefined_b)
{
    static const char *const loose[] = {"s_mul", "s_bcnt", "s_ff",  "s_flbit",
                                        "s_abs", "s_min",  "s_max", "s_bfm"};
    static const char *const shifts[] = {"s_lshl_", "s_lshr_", "s_ashr_", "s_bfe_", "s_bitcmp"};
    return begins_with_one_of(name, loose, sizeof(loose) / sizeof(loose[0])) ||
           (undefined_b && begins_with_one_of(name, shifts, sizeof(shifts) / sizeof(shifts[0])));
}

static uint64_t random64(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 32 << 32 | (*seed * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

/* Sources of an operation, two of 64 bits and SCC, with masks of their undefined bits. */
struct sources {
    uint64_t value[2], undefined[2];
    bool scc, scc_undefined;
};

/* Returns random sources. Values are often small or all ones at the top. Few of the `bits[i]` bits
 * of source i are undefined. */
static struct sources draw(uint64_t *seed, const unsigned bits[2], bool reads_scc)
{
    struct sources s = {{0}, {0}, random64(seed) & 1, false};
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t r = random64(seed);
        s.value[i] = random64(seed) >> (r & 1 ? 0 : r >> 1 & 63);
        s.value[i] ^= r >> 7 & 1 ? UINT64_MAX : 0;
        for (unsigned n = 0; bits[i] && n < (r >> 8) % (MOST_UNDEFINED / 2 + 1); n++)
            s.undefined[i] |= UINT64_C(1) << random64(seed) % bits[i];
    }
    s.scc_undefined = reads_scc && !(random64(seed) & 7);
    return s;
}

/* An operation with the sources s[2:3] and s[4:5] and the result s[0:1]. */
struct operation {
    const struct inst *in;
    struct wave *w;
    struct launch *launch;
};

struct result {
    uint64_t value, valid;
    bool scc, scc_valid;
};

static struct result run(const struct operation *o, const struct sources *s,
                         const uint64_t valid[2], bool scc_valid)
{
    struct wave *w = o->w;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned half = 0; half < 2; half++) {
            w->sgpr[2 + 2 * i + half] = (uint32_t)(s->value[i] >> 32 * half);
            w->s_valid[2 + 2 * i + half] = (uint32_t)(valid[i] >> 32 * half);
        }
    }
    w->sgpr[0] = w->sgpr[1] = 0;
    w->s_valid[0] = w->s_valid[1] = UINT32_MAX;
    w->scc = s->scc;
    w->scc_valid = scc_valid;
    o->in->exec(w, o->in);
    return (struct result){w->sgpr[0] | (uint64_t)w->sgpr[1] << 32,
                           w->s_valid[0] | (uint64_t)w->s_valid[1] << 32, w->scc, w->scc_valid};
}

/* Sets *same to the result bits that are the same for all values of the undefined bits, and
 * *same_scc for SCC. */
static void enumerate(const struct operation *o, const struct sources *s, uint64_t *same,
                      bool *same_scc)
{
    static const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    struct result first = {0};
    bool any = false;
    *same = UINT64_MAX;
    *same_scc = true;
    for (uint64_t a = s->undefined[0];; a = (a - 1) & s->undefined[0]) {
        for (uint64_t b = s->undefined[1];; b = (b - 1) & s->undefined[1]) {
            for (unsigned c = 0; c < (s->scc_undefined ? 2u : 1u); c++) {
                struct sources t = *s;
                t.value[0] = (s->value[0] & ~s->undefined[0]) | a;
                t.value[1] = (s->value[1] & ~s->undefined[1]) | b;
                t.scc = s->scc_undefined ? c : s->scc;
                const struct result r = run(o, &t, all, true);
                first = any ? first : r;
                any = true;
                *same &= ~(r.value ^ first.value);
                *same_scc &= r.scc == first.scc;
            }
            if (!b)
                break;
        }
        if (!a)
            break;
    }
}

/* Compares one trial. True if no undefined bit is reported as defined and, where required, no
 * defined bit is missed. */
static bool try_once(const struct operation *o, const struct sources *s)
{
    const uint64_t valid[2] = {~s->undefined[0], ~s->undefined[1]};
    uint64_t same;
    bool same_scc;
    enumerate(o, s, &same, &same_scc);
    const struct result r = run(o, s, valid, !s->scc_undefined);
    const bool sound = !(r.valid & ~same) && (!r.scc_valid || same_scc);
    const bool exact = r.valid == same && r.scc_valid == same_scc;
    if (sound && (exact || is_loose(o->in->row->name, s->undefined[1])))
        return true;
    print_error(
        "%s: a %#llx undefined %#llx, b %#llx undefined %#llx, SCC %u%s: defined %#llx SCC %u, "
        "the same are %#llx SCC %u\n",
        o->in->row->name, (unsigned long long)s->value[0], (unsigned long long)s->undefined[0],
        (unsigned long long)s->value[1], (unsigned long long)s->undefined[1], s->scc,
        s->scc_undefined ? " undefined" : "", (unsigned long long)r.valid, r.scc_valid,
        (unsigned long long)same, same_scc);
    return false;
}

static const char *reg(uint16_t type, unsigned at, char *text)
{
    sprintf(text, TYPE_DWORDS(type) >= 2 ? "s[%u:%u]" : "s%u", at, at + 1);
    return text;
}

TEST(defined_bits_of_every_result_are_right)
{
    unsigned wrong = 0, tried = 0;
    struct launch launch = {.checks = CHECK_ALL};
    struct wave *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->launch = &launch;
    for (const struct op_row *row = exec_sop_rows; row->name; row++) {
        char text[200], d[16], a[16], b[16];
        int n = snprintf(text, sizeof(text), "%s ", row->name);
        if (row->dst)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "%s, ", reg(row->dst, 0, d));
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s", reg(row->src[0], 2, a));
        if (row->src[1])
            snprintf(text + n, sizeof(text) - (size_t)n, ", %s", reg(row->src[1], 4, b));
        size_t bytes = 0;
        void *machine = assemble(GFX942, text, &bytes);
        struct code *code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
        const struct operation o = {code_inst(code, 0), w, &launch};
        const unsigned bits[2] = {32 * TYPE_DWORDS(row->src[0]), 32 * TYPE_DWORDS(row->src[1])};
        uint64_t seed = 1 + (uint64_t)(row - exec_sop_rows);
        assert_true(o.in && o.in->row == row);
        for (unsigned i = 0; i < TRIALS && wrong < 10; i++, tried++) {
            const struct sources s = draw(&seed, bits, true);
            wrong += !try_once(&o, &s);
        }
        code_destroy(code);
        free(machine);
    }
    free(w);
    assert_int_equal(wrong, 0);
    assert_true(tried > 90 * TRIALS);
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the simulator with a second implementation, on mutated code of real kernels. reference.h
 * executes scalar and vector instructions one lane and one bit-field at a time. It is written from
 * the pseudo-code (CDNA3 and CDNA4 ISA, chapter 12) and the microcode formats (chapter 13), and
 * shares no code with the simulator. Registers, SCC, VCC and EXEC are compared after every
 * instruction. Instructions that the reference does not know (memory, branches, matrices) are left
 * out of the program.
 *
 * An input is a header of eight bytes (seed of the registers, EXEC, MODE), then words of code. A
 * window of these words runs. */
#include "reference.h"
#include "tools/hipsim/core/decode.h"
#include "tools/hipsim/core/engine.h"
#include "tools/hipsim/core/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 8
#define MAX_WORDS 256
#define MUTATIONS 16
#define S_ENDPGM 0xbf810000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

struct comparison {
    struct reference_state state;
    const uint32_t *words; /* words of the program that both implementations run */
    size_t next;           /* index of the instruction that runs next */
    const uint8_t *header;
};

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Returns a random register value: a small number, a float, or one of the special floats. */
static uint32_t random_value(uint32_t *state)
{
    static const uint32_t special[] = {
        0,          1,          2,          31,         32,         0x80000000, 0x7fffffff,
        0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001,
        0x00000123, 0x807fffff, 0x00800000, 0x7f7fffff, 0x0000ffff, 0x00ff00ff,
    };
    const uint32_t u = next_random(state), v = next_random(state);
    switch (u & 7) {
    case 0: return special[v % (sizeof(special) / sizeof(special[0]))];
    case 1: return v & 63;
    case 2: return 0x3f000000 + (v & 0x81ffffff);
    default: return v;
    }
}

static void preset(void *ctx, struct workgroup *wg)
{
    struct comparison *c = ctx;
    struct reference_state *s = &c->state;
    struct wave *w = wg->waves[0];
    uint32_t seed = 1 + c->header[0] + 256u * c->header[1] + 65536u * c->header[2];
    for (unsigned i = 0; i < SGPR_FILE; i++)
        w->sgpr[i] = random_value(&seed);
    for (unsigned r = 0; r < 256; r++)
        for (unsigned i = 0; i < WAVE_LANES; i++)
            w->v[r][i] = random_value(&seed);
    const uint64_t lanes = (uint64_t)next_random(&seed) << 32 | next_random(&seed);
    sgpr_write64(w, SGPR_EXEC, c->header[3] & 3 ? UINT64_MAX : lanes, true);
    w->scc = c->header[3] >> 2 & 1;
    memcpy(s->sgpr, w->sgpr, sizeof(s->sgpr));
    memcpy(s->v, w->v, sizeof(s->v));
    s->scc = w->scc;
    s->mode = w->mode;
}

static void differ(const struct comparison *c, const struct inst *in, const char *what,
                   unsigned place, unsigned lane, uint32_t have, uint32_t want)
{
    fprintf(stderr, "%s at word %zu (%08x %08x): %s%u lane %u is %08x, the manual says %08x\n",
            in->row ? in->row->name : "?", c->next, c->words[c->next], c->words[c->next + 1], what,
            place, lane, have, want);
    abort();
}

static void compare(const struct comparison *c, const struct wave *w, const struct inst *in)
{
    const struct reference_state *s = &c->state;
    const unsigned encoded = sizeof(s->sgpr) / sizeof(s->sgpr[0]); /* CDNA cannot name the others */
    for (unsigned i = 0; i < encoded; i++)
        if (w->sgpr[i] != s->sgpr[i])
            differ(c, in, "s", i, 0, w->sgpr[i], s->sgpr[i]);
    if (w->scc != s->scc)
        differ(c, in, "scc", 0, 0, w->scc, s->scc);
    if (memcmp(w->v, s->v, sizeof(s->v)) == 0)
        return;
    for (unsigned r = 0; r < 256; r++)
        for (unsigned i = 0; i < WAVE_LANES; i++)
            if (w->v[r][i] != s->v[r][i])
                differ(c, in, "v", r, i, w->v[r][i], s->v[r][i]);
}

static void after(void *ctx, const struct wave *w, const struct inst *in,
                  const struct mem_access *access)
{
    struct comparison *c = ctx;
    (void)access;
    if (c->words[c->next] == S_ENDPGM)
        return;
    const char *name = reference_name(&c->words[c->next]);
    if (in->row && strcmp(in->row->name, name) != 0) {
        fprintf(stderr, "%s is %s in the manual\n", in->row->name, name);
        abort();
    }
    reference_execute(&c->state, &c->words[c->next]);
    compare(c, w, in);
    c->next += reference_words(&c->words[c->next]);
}

static void run(const uint32_t *words, size_t count, const uint8_t *header)
{
    static struct comparison c;
    c.words = words;
    c.next = 0;
    c.header = header;
    const enum gfx_target target = header[4] & 1 ? GFX950 : GFX942;
    const struct observer observer = {.ctx = &c, .workgroup_begin = preset, .inst = after};
    struct code *code = code_create(target, words, count * 4, (uint64_t)(uintptr_t)words);
    if (!code)
        abort();
    struct launch launch = {
        .code = code,
        .kernel = "words",
        .entry_pc = code_address(code),
        .grid = {64, 1, 1},
        .block = {64, 1, 1},
        .nvgpr = 256,
        .nagpr = 256,
        .nsgpr = 102,
        .mode = MODE_IEEE | MODE_DX10_CLAMP | MODE_DENORM_F16_F64 |
                (header[4] & 2 ? MODE_DENORM_F32 : 0),
        .budget = 4 * MAX_WORDS,
        .threads = 1,
        .observer = &observer,
    };
    engine_run(&launch);
    code_destroy(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint32_t in[MAX_WORDS + 4], program[MAX_WORDS + 4];
    if (size < HEADER + 4)
        return 0;
    size_t count = (size - HEADER) / 4, n = 0;
    const size_t first = (data[5] | (size_t)data[6] << 8) % count;
    count = count - first > MAX_WORDS ? MAX_WORDS : count - first;
    memcpy(in, data + HEADER + first * 4, count * 4);
    in[count] = in[count + 1] = S_ENDPGM;
    for (size_t i = 0; i < count;) {
        const size_t length = reference_words(&in[i]);
        if (length && i + length <= count) {
            memcpy(&program[n], &in[i], length * 4);
            n += length;
        }
        i += length ? length : 1;
    }
    program[n] = program[n + 1] = S_ENDPGM;
    run(program, n + 1, data);
    return 0;
}

/* Changes fields of instructions where a random change would rarely leave one. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint32_t random = seed | 1;
    if (size < HEADER + 8 || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (unsigned i = 0; i < HEADER; i++)
        data[i] = (uint8_t)(next_random(&random) >> 8);
    const size_t count = (size - HEADER) / 4, first = (data[5] | (size_t)data[6] << 8) % count;
    const size_t window = count - first > MAX_WORDS ? MAX_WORDS : count - first;
    for (unsigned i = 0; i < MUTATIONS && window > 1; i++) {
        const size_t at = HEADER + (first + next_random(&random) % (window - 1)) * 4;
        uint32_t words[2];
        memcpy(words, data + at, sizeof(words));
        reference_mutate(words, next_random(&random), next_random(&random));
        memcpy(data + at, words, sizeof(words));
    }
    return size;
}

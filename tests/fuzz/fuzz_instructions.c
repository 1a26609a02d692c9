/* SPDX-License-Identifier: Apache-2.0 */
/* Runs any instruction words in two waves. They must end or fault within the budget of
 * instructions. Registers start with values that many instructions need: addresses of an
 * allocation, a buffer resource, small numbers.
 *
 * An input is a header of eight bytes (checks, MODE, EXEC) and the words. */
#include "tools/hipsim/core/decode.h"
#include "tools/hipsim/core/engine.h"
#include "tools/hipsim/core/memory.h"

#include <stdlib.h>
#include <string.h>

#define HEADER 8
#define MAX_WORDS 256
#define DATA_BYTES 65536
#define BUDGET 4096
#define S_ENDPGM 0xbf810000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static uint64_t memory_base(void)
{
    static uint64_t base;
    const struct hipsim_mem_request request = {.size = DATA_BYTES, .kind = HIPSIM_MEM_DEVICE};

    if (base)
        return base;
    if (!hipsim_mem_init())
        abort();
    base = (uint64_t)(uintptr_t)hipsim_mem_alloc(&request);
    if (!base)
        abort();
    hipsim_mem_mark(base, DATA_BYTES / 2); /* the rest was never written */
    return base;
}

static void preset_scalars(struct wave *w, uint64_t base)
{
    for (unsigned i = 0; i < SGPR_TTMP0; i++) {
        w->sgpr[i] = i % 8 * 4;
        w->s_valid[i] = i % 16 == 15 ? 0 : UINT32_MAX;
    }
    for (unsigned i = 0; i < 64; i += 16) {
        sgpr_write64(w, i, base, true);
        sgpr_write64(w, i + 4, base, true); /* a buffer resource: base, size, no format */
        w->sgpr[i + 6] = DATA_BYTES;
        w->sgpr[i + 7] = 0x00020000;
    }
    w->sgpr[SGPR_M0] = 0x100;
    w->s_valid[SGPR_M0] = UINT32_MAX;
}

static void preset_vectors(struct wave *w, uint64_t base)
{
    for (unsigned r = 0; r < 256; r++) {
        uint64_t at = base + 1024 * (r % 16);
        for (unsigned i = 0; i < WAVE_LANES; i++) {
            uint64_t value = r % 4 < 2 ? at + 4 * i : (uint64_t)r * i * 4 % 2048;
            w->v[r][i] = (uint32_t)(r % 4 == 1 ? value >> 32 : value);
            w->a[r][i] = 0x3f800000 + r;
        }
        w->v_valid[r] = w->a_valid[r] = r % 32 == 31 ? 0xff : UINT64_MAX;
    }
}

static void preset(void *ctx, struct workgroup *wg)
{
    const uint64_t exec = *(const uint64_t *)ctx;
    for (uint32_t n = 0; n < wg->nwaves; n++) {
        struct wave *w = wg->waves[n];
        preset_scalars(w, memory_base());
        preset_vectors(w, memory_base());
        sgpr_write64(w, SGPR_EXEC, exec, true);
        w->scc_valid = 1;
    }
}

static void run(const uint32_t *words, size_t bytes, enum gfx_target target, const uint8_t *header)
{
    uint64_t exec = header[7] & 1 ? UINT64_MAX : header[6] * UINT64_C(0x0102040810204081);
    const struct observer observer = {.ctx = &exec, .workgroup_begin = preset};
    struct code *code = code_create(target, words, bytes, (uint64_t)(uintptr_t)words);
    if (!code)
        abort();
    struct launch launch = {
        .code = code,
        .kernel = "words",
        .entry_pc = code_address(code),
        .grid = {128, 1, 1},
        .block = {128, 1, 1},
        .nvgpr = 256,
        .nagpr = 256,
        .mode = (uint32_t)header[1] | (uint32_t)(header[2] & 0xf) << 8,
        .lds_bytes = 8192,
        .private_bytes = 128,
        .checks = header[0] & 2   ? CHECK_ALL
                  : header[0] & 4 ? 0
                                  : CHECK_DEFAULT,
        .order = header[0] & 8 ? ORDER_SEEDED : ORDER_BY_CLOCK,
        .seed = header[3] + 1u,
        .budget = BUDGET,
        .threads = 1,
        .observer = &observer,
    };
    engine_run(&launch);
    if (launch.fault.kind != FAULT_NONE && !launch.fault.text[0])
        abort();
    code_destroy(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER + 4)
        return 0;
    size_t count = (size - HEADER) / 4;
    count = count > MAX_WORDS ? MAX_WORDS : count;
    uint32_t *words = malloc((count + 1) * 4);
    if (!words)
        return 0;
    memcpy(words, data + HEADER, count * 4);
    words[count] = S_ENDPGM;
    run(words, (count + 1) * 4, data[0] & 1 ? GFX950 : GFX942, data);
    free(words);
    return 0;
}

/* The leading bits of each encoding of instructions. Source: CDNA3 ISA, "Microcode formats". */
static const struct {
    uint32_t bits, mask;
} encodings[] = {
    {0x80000000, 0xc0000000}, /* SOP2 */
    {0xb0000000, 0xf0000000}, /* SOPK */
    {0xbe800000, 0xff800000}, /* SOP1 */
    {0xbf000000, 0xff800000}, /* SOPC */
    {0xbf800000, 0xff800000}, /* SOPP */
    {0xc0000000, 0xfc000000}, /* SMEM */
    {0x00000000, 0x80000000}, /* VOP2 */
    {0x000000f9, 0x800001ff}, /* VOP2 with SDWA */
    {0x000000fa, 0x800001ff}, /* VOP2 with DPP */
    {0x7e000000, 0xfe000000}, /* VOP1 */
    {0x7e0000f9, 0xfe0001ff}, {0x7e0000fa, 0xfe0001ff}, {0x7c000000, 0xfe000000}, /* VOPC */
    {0xd0000000, 0xfc000000},                                                     /* VOP3 */
    {0xd3800000, 0xff800000},                                                     /* VOP3P */
    {0xd3c00000, 0xffc00000},                                                     /* MAI */
    {0xd8000000, 0xfc000000},                                                     /* DS */
    {0xdc000000, 0xfc000000},                                                     /* FLAT */
    {0xe0000000, 0xfc000000},                                                     /* MUBUF */
    {0xe8000000, 0xfc000000},                                                     /* MTBUF */
};

/* Makes a random word the first word of an instruction, since few random words are one. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size < HEADER + 4 || seed % 4 == 0)
        return size;
    size_t at = HEADER + seed / 4 % ((size - HEADER) / 4) * 4;
    unsigned e = seed / 64 % (sizeof(encodings) / sizeof(encodings[0]));
    uint32_t word;
    memcpy(&word, data + at, 4);
    word = (word & ~encodings[e].mask) | encodings[e].bits;
    memcpy(data + at, &word, 4);
    return size;
}

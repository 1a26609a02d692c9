/* SPDX-License-Identifier: Apache-2.0 */
#include "debug_show.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "memory.h"
#include "registers.h"

/* Lanes or dwords in a line of output. */
enum { PER_LINE = 8 };

void debug_show_place(FILE *out, const struct wave *w, const struct debug_lines *lines)
{
    const struct launch *l = w->launch;
    const uint64_t offset = w->pc - code_address(l->code);
    const struct inst *in = code_inst(l->code, offset);
    char text[2048] = "", line[400] = "", disassembly[256];
    if (in)
        registers_describe(w, in, 0, text, sizeof(text));
    if (lines->describe)
        lines->describe(lines->ctx, w->pc, line, sizeof(line));
    fprintf(out, "entry%+lld in kernel %s, workgroup (%u, %u, %u), wave %u: %s%s\n",
            (long long)(w->pc - l->entry_pc), l->kernel, w->wg->id[0], w->wg->id[1], w->wg->id[2],
            w->id, code_text(l->code, offset, disassembly, sizeof(disassembly)), text);
    if (*line)
        fprintf(out, "  source %s\n", line);
}

void debug_show_trail(FILE *out, const struct wave *w, unsigned n)
{
    const struct launch *l = w->launch;
    uint64_t most = w->executed < WAVE_TRAIL ? w->executed : WAVE_TRAIL;
    char disassembly[256];
    for (uint64_t back = n < most ? n : most; back > 0; back--) {
        const uint64_t offset = 4 * (uint64_t)w->trail[(w->executed - back) % WAVE_TRAIL];
        fprintf(out, "  entry%+lld: %s\n",
                (long long)(code_address(l->code) + offset - l->entry_pc),
                code_text(l->code, offset, disassembly, sizeof(disassembly)));
    }
}

/* Prints the operand's value in one lane. `as_float` prints a single dword as a float. */
static void show_value(FILE *out, const struct wave *w, const struct opnd *o, unsigned lane,
                       bool as_float)
{
    char value[64];
    register_value(w, o, lane, value, sizeof(value));
    if (as_float && o->dwords == 1 && !strchr(value, '?')) {
        const uint32_t bits = (uint32_t)strtoul(value, NULL, 16);
        float f;
        memcpy(&f, &bits, sizeof(f));
        fprintf(out, " %g", (double)f);
    } else {
        fprintf(out, " %s", value);
    }
}

/* Prints the register that `word` names, in all lanes or in one. `as_float`: as f32 numbers. */
static void show_register(FILE *out, const struct wave *w, const char *word, bool as_float)
{
    char name[32];
    unsigned lane = 0;
    struct opnd o;
    snprintf(name, sizeof(name), "%s", word);
    char *bracket = strchr(name, '[');
    const bool one_lane = bracket && bracket > name + 1 && !strchr(bracket, ':');
    if (one_lane) {
        lane = (unsigned)strtoul(bracket + 1, NULL, 10);
        *bracket = 0;
    }
    if (strcmp(word, "pc") == 0) {
        fprintf(out, "pc = 0x%llx\n", (unsigned long long)w->pc);
        return;
    }
    if (!register_find(name, &o) || lane >= WAVE_LANES) {
        fprintf(out, "there is no register %s\n", word);
        return;
    }
    const bool vector = o.kind == OPND_VGPR || o.kind == OPND_AGPR;
    fprintf(out, "%s =", word);
    for (unsigned i = lane; i < (vector && !one_lane ? WAVE_LANES : lane + 1); i++) {
        if (i > lane && (i - lane) % PER_LINE == 0)
            fputs("\n  ", out);
        show_value(out, w, &o, i, as_float);
    }
    fputc('\n', out);
}

void debug_show_registers(FILE *out, const struct wave *w, const char *names)
{
    const bool as_float = strncmp(names, "f ", 2) == 0;
    const char *word = names + (as_float ? 2 : 0);
    while (*word) {
        char one[32];
        const int n = (int)strcspn(word, " ");
        snprintf(one, sizeof(one), "%.*s", n, word);
        if (n)
            show_register(out, w, one, as_float);
        word += n + (word[n] == ' ');
    }
}

void debug_show_memory(FILE *out, uint64_t address, unsigned dwords)
{
    struct hipsim_mem_cursor cursor = {0};
    for (unsigned i = 0; i < dwords; i++) {
        const uint64_t at = address + 4 * (uint64_t)i;
        const enum hipsim_mem_verdict verdict = hipsim_mem_check(&cursor, at, 4, false);
        uint32_t value;
        if (i % PER_LINE == 0)
            fprintf(out, "%s0x%llx:", i ? "\n" : "", (unsigned long long)at);
        if (verdict != HIPSIM_MEM_OK && verdict != HIPSIM_MEM_READ_ONLY) {
            char why[200];
            hipsim_mem_describe(at, 4, why, sizeof(why));
            fprintf(out, " %s", why);
            break;
        }
        memcpy(&value, (const void *)(uintptr_t)at, sizeof(value));
        if (hipsim_mem_is_written(&cursor, at, 4))
            fprintf(out, " %08x", value);
        else
            fputs(" ?", out);
    }
    fputc('\n', out);
}

void debug_show_lds(FILE *out, const struct workgroup *wg, uint64_t offset, unsigned dwords)
{
    for (unsigned i = 0; i < dwords; i++) {
        const uint64_t at = offset + 4 * (uint64_t)i;
        uint32_t value;
        if (at > wg->lds_bytes || wg->lds_bytes - at < 4) {
            fprintf(out, "%sthe workgroup has %u bytes of LDS", i ? " " : "", wg->lds_bytes);
            break;
        }
        if (i % PER_LINE == 0)
            fprintf(out, "%slds %llu:", i ? "\n" : "", (unsigned long long)at);
        bool defined = true;
        for (unsigned b = 0; b < 4; b++)
            defined &= wg->lds_valid[at + b] & LDS_DEFINED;
        memcpy(&value, wg->lds + at, sizeof(value));
        if (defined)
            fprintf(out, " %08x", value);
        else
            fputs(" ?", out);
    }
    fputc('\n', out);
}

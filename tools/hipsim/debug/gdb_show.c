/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb_show.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "memory.h"

enum { SGPRS = 106 }; /* number of SGPRs, s0 to s105 (CDNA3 ISA, 3.6.1) */

/* First registers of the description, by number; s0 to s105, the VGPRs and the AGPRs follow. */
enum special { PC, EXEC, VCC, M0, SCC, MODE, SPECIALS };

/* Names and sizes of the special registers. */
static const struct {
    const char *name;
    unsigned bits; /* number of bits; 0: a bit for each lane */
} specials[SPECIALS] = {
    [PC] = {"pc", 64}, [EXEC] = {"exec", 0}, [VCC] = {"vcc", 0},
    [M0] = {"m0", 32}, [SCC] = {"scc", 32},  [MODE] = {"mode", 32},
};

/* Returns the number of lanes of a wave. */
static unsigned lanes_of(const struct wave *w) { return code_isa(w->launch->code)->lanes; }

/* Returns the number of AGPRs of the wave's target, which only targets with waves of 64 lanes
 * have. */
static unsigned agprs_of(const struct wave *w) { return lanes_of(w) == WAVE_LANES ? AGPR_FILE : 0; }

/* Returns the number of vector registers that the target has beside accumulation registers. */
static unsigned vgprs_of(const struct wave *w)
{
    const unsigned vgprs = code_isa(w->launch->code)->vgprs - agprs_of(w);
    return vgprs < VGPR_FILE ? vgprs : VGPR_FILE;
}

/* Writes the description of n vector registers, named `file` and a number. */
static void describe_vectors(FILE *out, char file, unsigned n, unsigned lanes)
{
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "<reg name=\"%c%u\" bitsize=\"%u\" type=\"lanes\"/>", file, i, 32 * lanes);
}

void gdb_show_description(FILE *out, const struct wave *w)
{
    const struct isa *isa = code_isa(w->launch->code);
    fprintf(out,
            "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">"
            "<target version=\"1.0\"><architecture>amdgcn:%s</architecture>"
            "<feature name=\"hipsim.%s\"><vector id=\"lanes\" type=\"uint32\" count=\"%u\"/>",
            isa->name, isa->name, isa->lanes);
    for (unsigned i = 0; i < SPECIALS; i++) {
        const unsigned bits = specials[i].bits ? specials[i].bits : isa->lanes;
        const char *const type = i == PC ? "code_ptr" : bits == 64 ? "uint64" : "uint32";
        fprintf(out, "<reg name=\"%s\" bitsize=\"%u\" type=\"%s\"/>", specials[i].name, bits, type);
    }
    for (unsigned i = 0; i < SGPRS; i++)
        fprintf(out, "<reg name=\"s%u\" bitsize=\"32\" type=\"uint32\"/>", i);
    describe_vectors(out, 'v', vgprs_of(w), isa->lanes);
    describe_vectors(out, 'a', agprs_of(w), isa->lanes);
    fputs("</feature></target>", out);
}

/* The functions from here on show values of registers. */

/* Writes `n` bytes of a value, the lowest first. */
static void show_bytes(FILE *out, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%02x", (unsigned)(value >> 8 * i & 0xff));
}

/* Writes an unavailable register of `n` bytes: an 'x' for each digit. */
static void show_unavailable(FILE *out, unsigned n)
{
    for (unsigned i = 0; i < 2 * n; i++)
        fputc('x', out);
}

/* Writes the values of n scalar registers. If one is undefined, all are shown as unavailable. */
static void show_sgprs(FILE *out, const struct wave *w, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        if (w->s_valid[i] != UINT32_MAX) {
            show_unavailable(out, 4 * n);
            return;
        }
    for (unsigned i = first; i < first + n; i++)
        show_bytes(out, w->sgpr[i], 4);
}

/* Writes the value of a special register. */
static void show_special(FILE *out, const struct wave *w, enum special which)
{
    switch (which) {
    case PC: show_bytes(out, w->pc, 8); break;
    case EXEC: show_sgprs(out, w, SGPR_EXEC, lanes_of(w) / 32); break;
    case VCC: show_sgprs(out, w, SGPR_VCC, lanes_of(w) / 32); break;
    case M0: show_sgprs(out, w, SGPR_M0, 1); break;
    case SCC: w->scc_valid ? show_bytes(out, w->scc, 4) : show_unavailable(out, 4); break;
    default: show_bytes(out, w->mode, 4); break;
    }
}

/* Writes a vector register of `lanes` lanes. It is unavailable if `defined`, the mask of defined
 * lanes, is 0. */
static void show_row(FILE *out, const uint32_t *row, uint64_t defined, unsigned lanes)
{
    if (!defined)
        show_unavailable(out, 4 * lanes);
    for (unsigned i = 0; defined && i < lanes; i++)
        show_bytes(out, row[i], 4);
}

bool gdb_show_register(FILE *out, const struct wave *w, uint64_t number)
{
    const unsigned lanes = lanes_of(w), vgprs = vgprs_of(w), agprs = agprs_of(w);
    const uint64_t s = number - SPECIALS, v = s - SGPRS, a = v - vgprs;
    const struct launch *l = w->launch;
    if (number < SPECIALS)
        show_special(out, w, (enum special)number);
    else if (s < SGPRS)
        show_sgprs(out, w, (unsigned)s, 1);
    else if (v < vgprs)
        show_row(out, v < l->nvgpr ? w->v[v] : NULL, v < l->nvgpr ? w->v_valid[v] : 0, lanes);
    else if (a < agprs)
        show_row(out, a < l->nagpr ? w->a[a] : NULL, a < l->nagpr ? w->a_valid[a] : 0, lanes);
    else
        return false;
    return true;
}

void gdb_show_scalars(FILE *out, const struct wave *w)
{
    for (unsigned i = 0; i < SPECIALS + SGPRS; i++)
        gdb_show_register(out, w, i);
}

/* The functions from here on show memory. */

/* Returns the host address of the byte at a flat address; NULL if it is in no memory. */
static const uint8_t *byte_at(const struct wave *w, struct hipsim_mem_cursor *cursor,
                              uint64_t address)
{
    if (address - SHARED_APERTURE < APERTURE_BYTES)
        return address - SHARED_APERTURE < w->wg->lds_bytes
                   ? w->wg->lds + (address - SHARED_APERTURE)
                   : NULL;
    const enum hipsim_mem_verdict verdict = hipsim_mem_check(cursor, address, 1, false);
    return verdict == HIPSIM_MEM_OK || verdict == HIPSIM_MEM_READ_ONLY
               ? (const uint8_t *)(uintptr_t)address
               : NULL;
}

uint64_t gdb_show_memory(FILE *out, const struct wave *w, uint64_t address, uint64_t bytes)
{
    struct hipsim_mem_cursor cursor = {0};
    uint64_t n = 0;
    const uint8_t *byte;
    while (n < bytes && (byte = byte_at(w, &cursor, address + n))) {
        fprintf(out, "%02x", *byte);
        n++;
    }
    return n;
}

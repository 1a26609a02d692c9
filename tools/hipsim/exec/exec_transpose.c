/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gfx1250's loads that transpose a tile of 16 x 16 or 16 x 32 elements (M x K) between lanes, from
 * global memory and from LDS (CDNA5 ISA, 10.9.2 and 11.2.4). A lane loads neighbouring elements of
 * one k, from m to m + 7 or m + 15; the manual's figure says which. It receives elements of m =
 * lane % 16: lanes 0 to 15 the first half of K, lanes 16 to 31 the second.
 */
#include <string.h>

#include "exec_ds.h"
#include "exec_flat.h"
#include "mem.h"
#include "tables.h"

enum { LANES = 32, MAX_DWORDS = 4 };

/* Returns the lane that loads element (m, k) of the tile; elements have `bits` bits. */
static unsigned loader(unsigned bits, unsigned m, unsigned k)
{
    switch (bits) {
    case 16: return k / 8 * 16 + m / 8 * 8 + k % 8;
    case 8: return k / 4 * 8 + m / 8 * 4 + k % 4;
    case 4: return (k / 8 & 1) * 16 + k / 16 * 8 + k % 8;
    default: return (k / 16) * 16 + (k / 4 & 1) * 8 + (k / 8 & 1) * 4 + k % 4;
    }
}

/* Returns element `e` of `lane` from rows of the lanes' dwords. Elements have `bits` bits. */
static uint32_t element(uint32_t (*rows)[LANES], unsigned lane, unsigned bits, unsigned e)
{
    const unsigned at = bits * e, shift = at % 32;
    uint64_t word = rows[at / 32][lane];
    if (shift + bits > 32)
        word |= (uint64_t)rows[at / 32 + 1][lane] << 32;
    return (uint32_t)(word >> shift) & ((1u << bits) - 1);
}

/* Sets element `e` of `lane`, of `bits` bits, in rows that are zero there. */
static void put(uint32_t (*rows)[LANES], unsigned lane, unsigned bits, unsigned e, uint32_t value)
{
    const unsigned at = bits * e, shift = at % 32;
    rows[at / 32][lane] |= value << shift;
    if (shift + bits > 32)
        rows[at / 32 + 1][lane] |= value >> (32 - shift);
}

/* Transposes the loaded elements of m->lanes between lanes and writes the destination. */
static void transpose(struct wave *w, const struct inst *in, struct lane_mem *m)
{
    const unsigned bits = in->row->arg >> 24, dwords = in->dst.dwords;
    /* elements that a lane receives, half of the tile's K */
    const unsigned each = 32 * dwords / bits;
    uint32_t from[MAX_DWORDS][LANES], to[MAX_DWORDS][LANES] = {{0}};
    uint64_t loaded[MAX_DWORDS];
    unsigned l;

    for (unsigned i = 0; i < dwords; i++) {
        loaded[i] = mem_written(w, m, 4 * i, 4) | m->dropped;
        memset(from[i], 0, sizeof(from[i]));
        FOR_LANES(l, m->lanes)
        from[i][l] = mem_get32(m->ptr[l] + 4 * i);
    }
    uint64_t defined = UINT64_MAX;
    for (l = 0; l < LANES; l++) {
        for (unsigned e = 0; e < each; e++) {
            const unsigned column = l % 16, k = l / 16 * each + e;
            const unsigned source = loader(bits, column, k);
            const unsigned at = bits >= 8 ? column % 8 : column;
            put(to, l, bits, e, element(from, source, bits, at));
            if (!(loaded[bits * at / 32] >> source & 1))
                defined &= ~(UINT64_C(1) << l);
        }
    }
    const struct reg_rows r = reg_rows(w, &in->dst);
    for (unsigned i = 0; i < dwords; i++) {
        memcpy(r.row[i], to[i], sizeof(to[i]));
        r.valid[i] = (r.valid[i] & ~w->all) | (defined & w->all);
        r.copied[i] &= ~w->all;
    }
}

/* Executes a transposing load from LDS, which ignores EXEC. */
static void exec_ds(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.space = MEM_LDS, .lanes = w->all};

    if (!mem_lds_addresses(w, in, &in->src[0], (uint32_t)in->imm_offset, &m) ||
        !mem_resolve(w, in, &m, MEM_BYTES(in->row->arg), MEM_READ))
        return;
    transpose(w, in, &m);
    ds_issue(w, in);
}

/* Executes a transposing load from global memory. All lanes must be active. */
static void exec_global(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.space = MEM_GLOBAL, .lanes = wave_exec(w)};

    if (m.lanes && m.lanes != w->all &&
        !wave_finding(w, in, FAULT_DIVERGE, w->all & ~m.lanes,
                      "a transposing load needs all lanes, these are inactive"))
        return;
    if (!flat_addresses(w, in, m.lanes, m.addr) ||
        !mem_resolve(w, in, &m, MEM_BYTES(in->row->arg), MEM_READ))
        return;
    if (m.lanes | m.dropped)
        transpose(w, in, &m);
    wave_issue(w, in, WAIT_VM, OPND_VGPR, in->dst.reg, in->dst.dwords, false);
}

#define TRANSPOSE(space, run, f, wait_for, n, d, bytes, bits)           \
    {.name = space "_load_" n,                                          \
     .exec = run,                                                       \
     .dst = d,                                                          \
     .src = {T_B64, T_NONE, T_B64},                                     \
     .flags = ROW_SHARED | ROW_LOAD | (f),                              \
     .wait = 1 + (wait_for),                                            \
     .arg = MEM_ARG(bytes, 0, 0, ATOMIC_NONE) | (uint32_t)(bits) << 24, \
     .targets = GFX1250}
#define FROM_LDS(n, d, bytes, bits)                                     \
    {.name = "ds_load_" n,                                              \
     .exec = exec_ds,                                                   \
     .dst = d,                                                          \
     .src = {T_B32},                                                    \
     .flags = ROW_SHARED | ROW_LOAD | ROW_LDS | ROW_NO_EXEC,            \
     .wait = 1 + WAIT_LGKM,                                             \
     .arg = MEM_ARG(bytes, 0, 0, ATOMIC_NONE) | (uint32_t)(bits) << 24, \
     .targets = GFX1250}
#define GLOBAL(n, d, bytes, bits) \
    TRANSPOSE("global", exec_global, ROW_VMEM | ROW_ADDR64, WAIT_VM, n, d, bytes, bits)

const struct op_row exec_transpose_rows[] = {
    FROM_LDS("tr16_b128", T_B128, 16, 16),
    FROM_LDS("tr8_b64", T_B64, 8, 8),
    FROM_LDS("tr6_b96", T_B96, 12, 6),
    FROM_LDS("tr4_b64", T_B64, 8, 4),
    GLOBAL("tr16_b128", T_B128, 16, 16),
    GLOBAL("tr8_b64", T_B64, 8, 8),
    GLOBAL("tr6_b96", T_B96, 12, 6),
    GLOBAL("tr4_b64", T_B64, 8, 4),
    {.name = NULL},
};

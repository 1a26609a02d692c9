/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and atomics between registers and resolved memory, validity included. */
#include <string.h>

#include "tools/hipsim/decode.h"
#include "tools/hipsim/wait.h"

static uint32_t load_small(const uint8_t *p, unsigned bytes, bool sext)
{
    if (bytes == 1) {
        uint8_t v = __atomic_load_n(p, __ATOMIC_RELAXED);
        return sext ? (uint32_t)(int32_t)(int8_t)v : v;
    }
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return sext ? (uint32_t)(int32_t)(int16_t)v : v;
}

static void load_part(struct lane_mem *m, uint32_t arg, uint32_t *row)
{
    unsigned bytes = MEM_BYTES(arg), l;
    bool sext = MEM_SEXT(arg);
    uint64_t lanes = m->lanes | m->dropped;

    FOR_LANES(l, lanes) {
        uint32_t v = m->lanes >> l & 1 ? load_small(m->ptr[l], bytes, sext) : 0;
        switch (MEM_PART(arg)) {
        case PART_ALL:
            row[l] = v;
            break;
        case PART_LOW:
            row[l] = (row[l] & 0xffff0000) | (v & 0xffff);
            break;
        case PART_HIGH:
            row[l] = (row[l] & 0xffff) | v << 16;
            break;
        }
    }
}

static void note_loaded(struct wave *w, struct reg_rows *r, unsigned i, uint64_t lanes,
                        uint64_t valid)
{
    r->valid[i] = (r->valid[i] & ~lanes) | valid;
    if (!(lanes & ~valid))
        return;
    r->copied[i] |= lanes & ~valid;
    w->copies = true;
}

void mem_load(struct wave *w, struct lane_mem *m, uint32_t arg, const struct opnd *o)
{
    struct reg_rows r = reg_rows(w, o);
    uint64_t lanes = m->lanes | m->dropped;
    unsigned bytes = MEM_BYTES(arg), l;

    if (bytes < 4) {
        uint64_t valid = mem_written(w, m, 0, bytes) | m->dropped;
        load_part(m, arg, r.row[0]);
        note_loaded(w, &r, 0, lanes, valid);
        return;
    }
    for (unsigned i = 0; i < bytes / 4; i++) {
        note_loaded(w, &r, i, lanes, mem_written(w, m, 4 * i, 4) | m->dropped);
        FOR_LANES(l, m->dropped)
            r.row[i][l] = 0;
    }
    if (bytes == 16) {
        FOR_LANES(l, m->lanes)
            for (unsigned i = 0; i < 4; i++)
                r.row[i][l] = mem_get32(m->ptr[l] + 4 * i);
        return;
    }
    for (unsigned i = 0; i < bytes / 4; i++)
        FOR_LANES(l, m->lanes)
            r.row[i][l] = mem_get32(m->ptr[l] + 4 * i);
}

static void store_part(struct lane_mem *m, uint32_t arg, const uint32_t *row)
{
    unsigned shift = MEM_PART(arg) == PART_HIGH ? 16 : 0, l;

    FOR_LANES(l, m->lanes) {
        uint32_t v = row[l] >> shift;
        if (MEM_BYTES(arg) == 1) {
            __atomic_store_n(m->ptr[l], (uint8_t)v, __ATOMIC_RELAXED);
        } else {
            uint16_t half = (uint16_t)v;
            memcpy(m->ptr[l], &half, sizeof half);
        }
    }
}

/* Is what the lanes store fit for global memory? `partly`: lanes that store undefined dwords, all
 * of them copies, among defined ones. */
static bool storable(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     const struct reg_rows *r, const struct opnd *o, unsigned n, uint64_t *partly)
{
    uint64_t all = UINT64_MAX, any = 0, other = 0;

    for (unsigned i = 0; i < n; i++) {
        all &= r->valid[i];
        any |= r->valid[i];
        other |= ~(r->valid[i] | r->copied[i]);
    }
    *partly = 0;
    if (!(m->lanes & ~all) || !mem_checks(w, CHECK_UNINIT))
        return true;
    uint64_t bad = m->lanes & (other | ~any);
    *partly = m->lanes & ~all & ~bad;
    return !bad || mem_defined(w, in, o, bad, "the stored data");
}

/* Dwords that were copied undefined leave memory so. */
static void mark_parts(struct wave *w, struct lane_mem *m, const struct reg_rows *r, unsigned n,
                       uint64_t partly)
{
    unsigned l;

    for (unsigned i = 0; i < n; i++) {
        mem_mark(w, m, 4 * i, 4, r->valid[i] | ~partly);
        FOR_LANES(l, partly & ~r->valid[i])
            hipsim_mem_unmark(m->addr[l] + 4 * i, 4);
    }
}

bool mem_store(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
               const struct opnd *o)
{
    uint64_t partly = 0;
    struct reg_rows r = reg_rows(w, o);
    unsigned bytes = MEM_BYTES(arg), n = bytes < 4 ? 1 : bytes / 4, l;

    if (m->space == MEM_GLOBAL && !storable(w, in, m, &r, o, n, &partly))
        return false;
    if (bytes < 4) {
        store_part(m, arg, r.row[0]);
        mem_mark(w, m, 0, bytes, r.valid[0]);
        return true;
    }
    /* Lane after lane: where lanes collide, the highest one wins, in every dword of it. */
    FOR_LANES(l, m->lanes)
        for (unsigned i = 0; i < n; i++)
            mem_put32(m->ptr[l] + 4 * i, r.row[i][l]);
    if (m->space == MEM_GLOBAL) {
        if (partly)
            mark_parts(w, m, &r, n, partly);
        else
            mem_mark(w, m, 0, bytes, m->lanes);
        return true;
    }
    uint64_t all = UINT64_MAX;
    for (unsigned i = 0; i < n; i++)
        all &= r.valid[i];
    if (!(m->lanes & ~all)) {
        mem_mark(w, m, 0, bytes, m->lanes);
        return true;
    }
    for (unsigned i = 0; i < n; i++)
        mem_mark(w, m, 4 * i, 4, r.valid[i]);
    return true;
}

static uint64_t lane_value(struct reg_rows r, unsigned bytes, unsigned l)
{
    return bytes == 8 ? r.row[0][l] | (uint64_t)r.row[1][l] << 32 : r.row[0][l];
}

uint64_t mem_modify(void *p, enum atomic_op op, unsigned bytes, uint64_t data, uint64_t data2,
                    uint32_t mode)
{
    if (bytes == 8) {
        uint64_t old = __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n((uint64_t *)p, &old,
                                            atomic_result(op, 8, old, data, data2, mode), true,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            ;
        return old;
    }
    uint32_t old = __atomic_load_n((uint32_t *)p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((uint32_t *)p, &old,
                                        (uint32_t)atomic_result(op, 4, old, data, data2, mode),
                                        true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

/* L2 flushes the inputs of ADD_F32 and nothing else: CDNA4 ISA, 9.2.2, table 53. */
#define L2_DENORMALS (MODE_DENORM_F16_F64 | (MODE_DENORM_F32 & 0x20))

bool mem_atomic(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                const struct opnd *data, const struct opnd *data2, const struct opnd *dst)
{
    enum atomic_op op = MEM_ATOMIC(arg);
    unsigned bytes = MEM_BYTES(arg), l;
    struct reg_rows d = reg_rows(w, data), d2 = data2 ? reg_rows(w, data2) : d;
    struct reg_rows out = dst ? reg_rows(w, dst) : d;
    uint32_t mode = m->space == MEM_LDS ? w->mode : L2_DENORMALS;
    uint64_t written = mem_written(w, m, 0, bytes), lanes = m->lanes | m->dropped;

    if (!mem_defined(w, in, data, m->lanes, "the operand of an atomic") ||
        (data2 && !mem_defined(w, in, data2, m->lanes, "the operand of an atomic")))
        return false;
    if (op != ATOMIC_SWAP && mem_checks(w, CHECK_UNINIT) && (m->lanes & ~written)
        && !wave_finding(w, in, FAULT_UNINIT, m->lanes & ~written,
                         "atomic operation on memory that was never written, at 0x%llx",
                         (unsigned long long)m->addr[__builtin_ctzll(m->lanes & ~written)]))
        return false;
    FOR_LANES(l, lanes) {
        uint64_t old = 0;
        if (m->lanes >> l & 1)
            old = mem_modify(m->ptr[l], op, bytes, lane_value(d, bytes, l),
                             lane_value(d2, bytes, l), mode);
        if (!dst)
            continue;
        out.row[0][l] = (uint32_t)old;
        if (bytes == 8)
            out.row[1][l] = (uint32_t)(old >> 32);
    }
    mem_mark(w, m, 0, bytes, m->lanes);
    for (unsigned i = 0; dst && i < bytes / 4; i++)
        out.valid[i] = (out.valid[i] & ~lanes) | written | m->dropped;
    return true;
}

bool mem_atomic_split(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                      const struct opnd *data, const struct opnd *dst)
{
    if (MEM_ATOMIC(arg) != ATOMIC_CMPSWAP)
        return mem_atomic(w, in, m, arg, data, NULL, dst);
    struct opnd value = *data, comparand = *data;
    value.dwords = comparand.dwords = (uint8_t)(MEM_BYTES(arg) / 4);
    comparand.reg = (uint16_t)(data->reg + value.dwords);
    return mem_atomic(w, in, m, arg, &comparand, &value, dst);
}

/* Copies the dword at byte `from` of each lane's access to byte `at` of LDS, validity too. */
static void dword_to_lds(struct wave *w, struct lane_mem *m, unsigned from, struct lane_mem *to,
                         unsigned at, uint32_t arg)
{
    unsigned bytes = MEM_BYTES(arg), l;
    uint64_t valid = mem_written(w, m, from, bytes < 4 ? bytes : 4) | m->dropped;

    FOR_LANES(l, to->lanes) {
        uint32_t v = 0;
        if (m->lanes >> l & 1)
            v = bytes < 4 ? load_small(m->ptr[l], bytes, MEM_SEXT(arg))
                          : mem_get32(m->ptr[l] + from);
        mem_put32(to->ptr[l] + at, v);
    }
    mem_mark(w, to, at, 4, valid);
}

bool mem_load_to_lds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned parts,
                     uint32_t arg)
{
    unsigned bytes = MEM_BYTES(arg), size = bytes < 4 ? 4 : bytes, l;
    struct lane_mem to = { .space = MEM_LDS, .lanes = m->lanes | m->dropped };
    const struct mem_access source = w->access;
    /* M0 holds the LDS offset in bytes, a multiple of four, in 16 bits (18 on CDNA4 with its 160
     * KiB); the instruction's offset and a place per lane are added (CDNA3 ISA, "Memory buffer
     * load to LDS"). */
    uint32_t m0_mask = code_target(w->launch->code) == GFX950 ? 0x3fffc : 0xfffc;
    uint32_t base = (w->sgpr[SGPR_M0] & m0_mask) + (uint32_t)in->imm_offset;

    if (!mem_m0_defined(w, in))
        return false;
    FOR_LANES(l, to.lanes)
        to.addr[l] = base + (uint64_t)l * size;
    if (!mem_resolve(w, in, &to, size, MEM_WRITE))
        return false;
    w->access = source;
    struct late_lds *late = lds_keep(w, &to, base, size);
    for (unsigned i = 0; i < size / 4; i++)
        dword_to_lds(w, parts > 1 ? &m[i] : m, parts > 1 ? 0 : 4 * i, &to, 4 * i, arg);
    lds_issue(w, in, late);
    return true;
}

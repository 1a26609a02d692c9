/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and atomics between registers and resolved memory. They also move which bytes are
 * defined. */
#include <stdatomic.h>
#include <string.h>

#include "bits.h"
#include "decode.h"
#include "lane_mem.h"
#include "mem.h"
#include "wait.h"

/* Returns 1 or 2 bytes at p, extended to 32 bits by the sign (`sext`) or by zeros. */
static uint32_t load_small(const uint8_t *p, unsigned bytes, bool sext)
{
    if (bytes == 1) {
        uint8_t v = __atomic_load_n(p, __ATOMIC_RELAXED);
        return sext ? (uint32_t)(int32_t)(int8_t)v : v;
    }
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return sext ? (uint32_t)(int32_t)(int16_t)v : v;
}

uint32_t mem_kept_bits(const struct wave *w, enum mem_part part)
{
    if (part == PART_ALL || code_isa(w->launch->code)->whole_loads)
        return 0;
    return part == PART_LOW ? 0xffff0000 : 0x0000ffff;
}

/* Returns the mask of the register bits that a load with this MEM_ARG() takes from memory, signs
 * included. Zeros that extend the loaded value are not. */
static uint32_t bits_from_memory(uint32_t arg)
{
    const uint32_t value = MEM_SEXT(arg) ? UINT32_MAX : (1u << 8 * MEM_BYTES(arg)) - 1;
    switch (MEM_PART(arg)) {
    case PART_LOW: return value & 0xffff;
    case PART_HIGH: return value << 16;
    default: return value;
    }
}

/* Loads a byte or a half of each lane to `row`, which keeps its bits in `kept`. */
static void load_part(struct lane_mem *m, uint32_t arg, uint32_t kept, uint32_t *row)
{
    const unsigned bytes = MEM_BYTES(arg), shift = MEM_PART(arg) == PART_HIGH ? 16 : 0;
    const uint32_t mask = MEM_PART(arg) == PART_LOW ? 0xffff : UINT32_MAX;
    const bool sext = MEM_SEXT(arg);
    unsigned l;

    FOR_LANES(l, m->lanes | m->dropped)
    {
        const uint32_t v = m->lanes >> l & 1 ? load_small(m->ptr[l], bytes, sext) & mask : 0;
        row[l] = (row[l] & kept) | v << shift;
    }
}

/* Records which of `lanes` are defined (`valid`) in register `i` after a load. Undefined lanes
 * count as copies of memory if `whole`: Clang copies padding in dwords or more, not in smaller
 * pieces. */
static void note_loaded(struct wave *w, struct reg_rows *r, unsigned i, uint64_t lanes,
                        uint64_t valid, bool whole)
{
    r->valid[i] = (r->valid[i] & ~lanes) | valid;
    if (!(lanes & ~valid))
        return;
    r->copied[i] = whole ? r->copied[i] | (lanes & ~valid) : r->copied[i] & ~lanes;
    w->copies = true;
}

/* Records the defined bits of register `i` in lanes whose dword has both initialised and
 * uninitialised bytes. */
static void note_partial(struct wave *w, const struct lane_mem *m, const struct opnd *o, unsigned i,
                         uint64_t valid)
{
    unsigned l;

    FOR_LANES(l, m->lanes & valid)
    {
        const uint32_t bits = mem_defined_bits(w, m, l, 4 * i);
        if (bits == UINT32_MAX)
            continue;
        bits_set(w, o, i, l, bits);
        reg_rows(w, o).copied[i] |= UINT64_C(1) << l;
    }
}

void mem_note_part(struct wave *w, const struct opnd *o, unsigned i, uint64_t lanes, uint64_t valid,
                   uint32_t loaded, uint32_t kept)
{
    struct reg_rows r = reg_rows(w, o);
    /* Lanes that are defined before and after need no look at their bits. */
    const uint64_t partly = lanes & ~(kept ? valid & r.valid[i] & ~r.part[i] : valid);
    uint64_t counts = lanes & valid;
    unsigned l;

    if (!mem_checks(w, CHECK_UNINIT)) {
        note_loaded(w, &r, i, lanes, valid & lanes, false);
        return;
    }
    r.part[i] &= ~(lanes & ~partly);
    FOR_LANES(l, partly)
    {
        const uint64_t bit = UINT64_C(1) << l;
        const uint32_t old = bits_of_lane(w, o, i, l) & kept;
        const uint32_t bits = old | ~(loaded | kept) | (valid & bit ? loaded : 0);
        if (old && r.valid[i] & bit)
            counts |= bit;
        r.part[i] &= ~bit;
        if (bits && bits != UINT32_MAX)
            bits_set(w, o, i, l, bits);
    }
    note_loaded(w, &r, i, lanes, counts, false);
}

void mem_load(struct wave *w, struct lane_mem *m, uint32_t arg, const struct opnd *o)
{
    struct reg_rows r = reg_rows(w, o);
    uint64_t lanes = m->lanes | m->dropped;
    unsigned bytes = MEM_BYTES(arg), l;

    if (bytes < 4) {
        const uint32_t kept = mem_kept_bits(w, MEM_PART(arg));
        load_part(m, arg, kept, r.row[0]);
        mem_note_part(w, o, 0, lanes, mem_written(w, m, 0, bytes) | m->dropped,
                      bits_from_memory(arg), kept);
        return;
    }
    for (unsigned i = 0; i < bytes / 4; i++) {
        const uint64_t valid = mem_written(w, m, 4 * i, 4);
        note_loaded(w, &r, i, lanes, valid | m->dropped, true);
        if (m->tracked && mem_checks(w, CHECK_UNINIT))
            note_partial(w, m, o, i, valid);
        FOR_LANES(l, m->dropped)
        r.row[i][l] = 0;
    }
    if (lane_loops_apply(m, bytes)) {
        lane_loops()->load(m->ptr, bytes / 4, r.row);
        return;
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

/* Stores a byte or a half of each lane's register, from the half that `arg` selects. */
static void store_part(struct lane_mem *m, uint32_t arg, const uint32_t *row)
{
    unsigned shift = MEM_PART(arg) == PART_HIGH ? 16 : 0, l;

    FOR_LANES(l, m->lanes)
    {
        uint32_t v = row[l] >> shift;
        if (MEM_BYTES(arg) == 1) {
            __atomic_store_n(m->ptr[l], (uint8_t)v, __ATOMIC_RELAXED);
        } else {
            uint16_t half = (uint16_t)v;
            memcpy(m->ptr[l], &half, sizeof(half));
        }
    }
}

/* Returns the lanes in which the stored part of register `i` counts as defined. Either all its bits
 * are defined, or some are and the register counts as defined. */
static uint64_t stored_whole(const struct wave *w, const struct reg_rows *r, const struct opnd *o,
                             unsigned i, uint32_t arg)
{
    const unsigned bytes = MEM_BYTES(arg), shift = MEM_PART(arg) == PART_HIGH ? 16 : 0;
    uint64_t whole = r->valid[i] & ~r->part[i];
    unsigned l;

    if (bytes >= 4)
        return whole;
    const uint32_t mask = ((1u << 8 * bytes) - 1) << shift;
    FOR_LANES(l, r->part[i])
    {
        const uint32_t bits = bits_of_lane(w, o, i, l) & mask;
        if (bits == mask || (bits && r->valid[i] >> l & 1))
            whole |= UINT64_C(1) << l;
    }
    return whole;
}

/* Bytes of code before and after a store in which block_lanes() searches for stores of the same
 * block. */
#define BLOCK_BYTES 256

/* True if both stores have the same opcode and address registers but different offsets. */
static bool is_of_same_block(const struct inst *a, const struct inst *b)
{
    return a->row == b->row && a->imm_offset != b->imm_offset && a->src[0].kind == b->src[0].kind &&
           a->src[0].reg == b->src[0].reg && a->src[2].kind == b->src[2].kind &&
           a->src[2].reg == b->src[2].reg;
}

/*
 * Returns the lanes of the mask `lanes` in which an undefined 16-byte store is padding, as in
 * Clang's copies of structures. Such a store is one of several of the same block, and another of
 * these stores something defined.
 */
static uint64_t block_lanes(struct wave *w, const struct inst *in, const struct lane_mem *m,
                            uint64_t lanes)
{
    struct code *code = w->launch->code;
    const struct code_slots slots = code_slots(code);
    const uint64_t begin = in->offset > BLOCK_BYTES ? in->offset - BLOCK_BYTES : 0;
    const struct inst *other;
    uint64_t found = 0;
    unsigned l;

    for (uint64_t at = begin; at < in->offset; at += 4) { /* NULL: never executed */
        other = atomic_load_explicit(&slots.slots[at / 4], memory_order_acquire);
        if (!other || !is_of_same_block(in, other))
            continue;
        FOR_LANES(l, lanes)
        {
            const int64_t apart = (int64_t)other->imm_offset - in->imm_offset;
            const uint64_t address = m->addr[l] + (uint64_t)apart;
            found |= (uint64_t)mem_holds_data(address, 16) << l;
        }
    }
    for (uint64_t at = in->offset; at < in->offset + BLOCK_BYTES; at += other->size) {
        other = code_inst(code, at);
        if (!other || !other->row || other->row->flags & ROW_BRANCH || !other->size)
            break;
        if (!is_of_same_block(in, other))
            continue;
        const struct reg_rows data = reg_rows(w, &other->src[1]);
        for (unsigned i = 0; i < 4; i++)
            found |= data.valid[i];
    }
    return found & lanes;
}

/* True if the data of m->lanes may be stored to global memory; otherwise reports the undefined
 * ones. Sets *partly to the lanes whose data are partly undefined, where all undefined bytes are
 * copies. */
static bool storable(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     const struct reg_rows *r, const struct opnd *o, uint32_t arg, uint64_t *partly)
{
    const unsigned bytes = MEM_BYTES(arg), n = bytes < 4 ? 1 : bytes / 4;
    uint64_t all = UINT64_MAX, any = 0, other = 0;

    for (unsigned i = 0; i < n; i++) {
        const uint64_t whole = stored_whole(w, r, o, i, arg);
        all &= whole;
        any |= bytes < 4 ? whole : r->valid[i];
        other |= ~(whole | r->copied[i]);
    }
    *partly = 0;
    if (!(m->lanes & ~all) || !mem_checks(w, CHECK_UNINIT))
        return true;
    if (bytes == 16 && m->lanes & ~any & ~other)
        any |= block_lanes(w, in, m, m->lanes & ~any & ~other);
    uint64_t bad = m->lanes & (other | ~any);
    *partly = m->lanes & ~all & ~bad;
    return !bad || mem_undefined(w, in, o, bad, "the stored data");
}

/* Records which stored bytes are undefined, in the `n` registers of a store. `partly`: lanes with
 * partly undefined data. */
static void mark_parts(struct wave *w, struct lane_mem *m, const struct reg_rows *r,
                       const struct opnd *o, unsigned n, uint64_t partly)
{
    unsigned l;

    for (unsigned i = 0; i < n; i++) {
        const uint64_t whole = r->valid[i] & ~r->part[i];
        mem_mark(w, m, 4 * i, 4, m->space == MEM_GLOBAL ? whole | ~partly : whole);
        FOR_LANES(l, partly & (r->part[i] | ~r->valid[i]))
        mem_mark_bits(w, m, l, 4 * i, r->valid[i] >> l & 1 ? bits_of_lane(w, o, i, l) : 0);
    }
}

bool mem_store(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
               const struct opnd *o)
{
    uint64_t partly = m->lanes, whole = UINT64_MAX;
    struct reg_rows r = reg_rows(w, o);
    unsigned bytes = MEM_BYTES(arg), n = bytes < 4 ? 1 : bytes / 4, l;

    if (m->space == MEM_GLOBAL && !storable(w, in, m, &r, o, arg, &partly))
        return false;
    if (bytes < 4) {
        store_part(m, arg, r.row[0]);
        mem_mark(w, m, 0, bytes, stored_whole(w, &r, o, 0, arg));
        return true;
    }
    /* Lanes are stored in order: where several store to the same bytes, all dwords of the highest
     * lane remain. */
    if (lane_loops_apply(m, bytes))
        lane_loops()->store(m->ptr, n, r.row);
    else
        FOR_LANES(l, m->lanes)
    for (unsigned i = 0; i < n; i++)
        mem_put32(m->ptr[l] + 4 * i, r.row[i][l]);
    for (unsigned i = 0; i < n; i++)
        whole &= r.valid[i] & ~r.part[i];
    if (!(m->lanes & ~whole) || !partly)
        mem_mark(w, m, 0, bytes, m->lanes);
    else
        mark_parts(w, m, &r, o, n, partly);
    return true;
}

/* Returns the value of lane l, 4 or 8 bytes, from one or two rows. */
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

/* MODE of atomics in L2, which flushes the inputs of ADD_F32 only: CDNA4 ISA, 9.2.2, table 53. */
#define L2_DENORMALS (MODE_DENORM_F16_F64 | (MODE_DENORM_F32 & 0x20))

bool mem_atomic_finds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes)
{
    const uint64_t bad = m->lanes & ~mem_written(w, m, 0, bytes);
    return !bad || !mem_checks(w, CHECK_UNINIT) ||
           wave_finding(w, in, FAULT_UNINIT, bad,
                        "atomic operation on memory that was never written, at 0x%llx",
                        (unsigned long long)m->addr[__builtin_ctzll(bad)]);
}

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
    if (op != ATOMIC_SWAP && !mem_atomic_finds(w, in, m, bytes))
        return false;
    FOR_LANES(l, lanes)
    {
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

/* Copies the dword at byte `from` of each lane's access, and whether it is defined, to byte `at` of
 * its access of LDS. Accesses of less than a dword are extended. */
static void dword_to_lds(struct wave *w, struct lane_mem *m, unsigned from, struct lane_mem *to,
                         unsigned at, uint32_t arg)
{
    unsigned bytes = MEM_BYTES(arg), l;
    uint64_t valid = mem_written(w, m, from, bytes < 4 ? bytes : 4) | m->dropped;

    FOR_LANES(l, to->lanes)
    {
        uint32_t v = 0;
        if (m->lanes >> l & 1)
            v = bytes < 4 ? load_small(m->ptr[l], bytes, MEM_SEXT(arg))
                          : mem_get32(m->ptr[l] + from);
        mem_put32(to->ptr[l] + at, v);
    }
    mem_mark(w, to, at, 4, valid);
}

/* Returns the LDS byte offset of a load to LDS: M0[15:2] * 4, or M0[17:2] * 4 on CDNA4 with its 160
 * KiB, plus the instruction's offset (CDNA3 ISA, "Memory buffer load to LDS"). */
static uint32_t lds_offset(const struct wave *w, const struct inst *in)
{
    uint32_t m0_mask = code_target(w->launch->code) == GFX950 ? 0x3fffc : 0xfffc;

    return (w->sgpr[SGPR_M0] & m0_mask) + (uint32_t)in->imm_offset;
}

bool mem_lds_is_nowhere(const struct wave *w, const struct inst *in)
{
    return w->s_valid[SGPR_M0] == UINT32_MAX && w->sgpr[SGPR_M0] == INT32_MAX &&
           lds_offset(w, in) >= w->wg->lds_bytes;
}

bool mem_load_to_lds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned parts,
                     uint32_t arg)
{
    unsigned bytes = MEM_BYTES(arg), size = bytes < 4 ? 4 : bytes, l;
    struct lane_mem to = {.space = MEM_LDS, .lanes = m->lanes | m->dropped};
    const struct mem_access source = w->access;
    uint32_t base = lds_offset(w, in);

    if (!m0_defined(w, in, UINT32_MAX, "the LDS address"))
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

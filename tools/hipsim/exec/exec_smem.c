/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar memory (CDNA3 ISA, chapter 8 "Scalar memory operations"). Addresses:
 *
 *   S_LOAD, S_STORE, S_ATOMIC:  sbase + offset + soffset
 *   S_BUFFER_*:                 base of the resource + offset + soffset, range-checked
 *   S_SCRATCH_*:                sbase + offset + soffset * 64
 *
 * The hardware ignores the two low bits of an address. An address in which they are not 0 is
 * reported. Results of loads return in any order, so only lgkmcnt(0) waits for them.
 */
#include <string.h>

#include "check.h"
#include "decode.h"
#include "mem.h"
#include "spin.h"
#include "tables.h"

#define SRC_BASE 0
#define SRC_SOFFSET 1
#define SRC_DATA 2

/* The address computations in the file's comment: of S_LOAD and its like, of S_BUFFER_*, of
 * S_SCRATCH_*. */
enum smem_kind { SMEM_GLOBAL, SMEM_BUFFER, SMEM_SCRATCH };

#define SMEM_ARG(kind, bytes, atomic) (MEM_ARG(bytes, 0, 0, atomic) | (uint32_t)(kind) << 24)
#define SMEM_KIND(arg) ((enum smem_kind)((arg) >> 24))

/* True if all bits of the SGPRs from `reg` on are defined. */
static bool scalars_valid(const struct wave *w, unsigned reg, unsigned dwords)
{
    for (unsigned i = 0; i < dwords; i++)
        if (w->s_valid[reg + i] != UINT32_MAX)
            return false;
    return true;
}

/* Checks that the base and the offset are defined. False after a fault. */
static bool operands_valid(struct wave *w, const struct inst *in)
{
    const struct opnd *base = &in->src[SRC_BASE], *soffset = &in->src[SRC_SOFFSET];
    unsigned dwords = SMEM_KIND(in->row->arg) == SMEM_BUFFER ? 4 : 2;

    if (!mem_checks(w, CHECK_UNINIT))
        return true;
    if (!scalars_valid(w, base->reg, dwords) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the base address s[%u:%u]",
                      base->reg, base->reg + dwords - 1))
        return false;
    return soffset->kind == OPND_NONE || src_scalar_valid(w, soffset) ||
           wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the address offset (s%u)",
                        soffset->reg);
}

/* Returns the bytes of the buffer resource `d` for scalar accesses: num_records, times the stride
 * unless that is 0 (CDNA3 ISA, 8.2.1.1). */
static uint64_t buffer_size(const uint32_t *d)
{
    uint32_t stride = d[1] >> 16 & 0x3fff;

    return stride ? (uint64_t)stride * d[2] : d[2];
}

/* Returns the base address of the instruction's buffer resource. */
static uint64_t base_of(const struct wave *w, const struct inst *in)
{
    const uint64_t mask =
        code_isa(w->launch->code)->wide_buffers ? ~UINT64_C(0) >> 7 : ~UINT64_C(0) >> 16;
    return sgpr_read64(w, in->src[SRC_BASE].reg) & mask;
}

/* Returns the bytes of the instruction's buffer resource. gfx1250 has num_records in bits 101:57
 * and the stride in 121:108, and ignores the stride's scale (CDNA5 ISA, 8.1.2). */
static uint64_t size_of(const struct wave *w, const struct inst *in)
{
    const uint32_t *d = w->sgpr + in->src[SRC_BASE].reg;
    if (!code_isa(w->launch->code)->wide_buffers)
        return buffer_size(d);
    const uint64_t records = d[1] >> 25 | (uint64_t)d[2] << 7 | (uint64_t)(d[3] & 0x3f) << 39;
    const uint32_t stride = d[3] >> 12 & 0x3fff;
    return stride ? stride * records : records;
}

/* Sets the addresses of the access in *m. False after a fault. */
static bool address(struct wave *w, const struct inst *in, struct lane_mem *m)
{
    const struct opnd *base = &in->src[SRC_BASE], *s = &in->src[SRC_SOFFSET];
    enum smem_kind kind = SMEM_KIND(in->row->arg);
    uint64_t soffset = s->kind != OPND_NONE ? (uint32_t)src_scalar(w, s) : 0;
    unsigned bytes = MEM_BYTES(in->row->arg);
    const unsigned unit = kind == SMEM_SCRATCH ? 64 : in->scale_offset ? bytes : 1;
    uint64_t offset = (uint64_t)(int64_t)in->imm_offset + soffset * unit;

    if (!operands_valid(w, in))
        return false;
    m->space = MEM_GLOBAL;
    m->lanes = 1;
    m->addr[0] = sgpr_read64(w, base->reg) + offset;
    if (kind == SMEM_BUFFER) {
        const uint64_t dword = bytes < 4 ? 0 : 3;
        m->addr[0] = base_of(w, in) + (offset & ~dword);
        if (MEM_ATOMIC(in->row->arg) && offset + bytes > size_of(w, in)) {
            m->lanes = 0;
            m->dropped = 1;
        }
    }
    if (bytes >= 4 && m->addr[0] & 3) {
        if (mem_checks(w, CHECK_ALIGN)) {
            wave_fault(w, in, FAULT_ALIGN, 0,
                       "scalar access at 0x%llx: the address must be a "
                       "multiple of 4",
                       (unsigned long long)m->addr[0]);
            return false;
        }
        m->addr[0] &= ~UINT64_C(3);
    }
    return true;
}

/* Returns how many dwords of the access are in the buffer's range; all for instructions without a
 * buffer. */
static unsigned dwords_in_range(struct wave *w, const struct inst *in, const struct lane_mem *m)
{
    unsigned dwords = MEM_BYTES(in->row->arg) / 4;

    if (SMEM_KIND(in->row->arg) != SMEM_BUFFER)
        return dwords;
    uint64_t offset = m->addr[0] - base_of(w, in);
    uint64_t size = size_of(w, in);
    if (offset >= size)
        return 0;
    return (size - offset) / 4 < dwords ? (unsigned)((size - offset) / 4) : dwords;
}

/* Records the access of `dwords` dwords for the observer, if there is one. */
static void note(struct wave *w, const struct lane_mem *m, unsigned dwords,
                 enum mem_direction direction)
{
    struct mem_access *a = &w->access;
    if (!w->launch->observer)
        return;
    a->space = ACCESS_SCALAR;
    a->is_load = (direction & MEM_READ) != 0;
    a->is_store = (direction & MEM_WRITE) != 0;
    a->bytes = (uint8_t)(4 * dwords);
    a->lanes = 1;
    a->addr[0] = m->addr[0];
}

/* Executes a scalar load. */
static void exec_load(struct wave *w, const struct inst *in)
{
    struct lane_mem m;
    unsigned dwords = MEM_BYTES(in->row->arg) / 4;

    lane_mem_begin(&m, MEM_GLOBAL, 0);
    if (!address(w, in, &m))
        return;
    unsigned have = dwords_in_range(w, in, &m);
    if (have && !mem_resolve(w, in, &m, 4 * have, MEM_READ))
        return;
    have = m.lanes ? have : 0;
    note(w, &m, have, MEM_READ);
    for (unsigned i = 0; i < dwords; i++) {
        bool inside = i < have;
        w->sgpr[in->dst.reg + i] = inside ? mem_get32(m.ptr[0] + 4 * i) : 0;
        bool valid = !inside || mem_written(w, &m, 4 * i, 4);
        w->s_valid[in->dst.reg + i] = valid ? UINT32_MAX : 0;
        w->s_copied[in->dst.reg + i] = valid ? 0 : UINT64_MAX;
        w->copies |= !valid;
    }
    wave_issue(w, in, WAIT_LGKM, OPND_SGPR, in->dst.reg, dwords, true);
}

/* Executes loads of 8 and 16 bits, extended to 32 (CDNA5 ISA, 8.1.3). Loads from a buffer have the
 * range of its resource. */
static void exec_load_small(struct wave *w, const struct inst *in)
{
    const uint32_t arg = in->row->arg;
    const unsigned bytes = MEM_BYTES(arg);
    struct lane_mem m = {.lanes = 0};
    uint32_t value = 0;

    if (!address(w, in, &m))
        return;
    const bool inside =
        SMEM_KIND(arg) != SMEM_BUFFER || m.addr[0] - base_of(w, in) < size_of(w, in);
    if (inside && !mem_resolve(w, in, &m, bytes, MEM_READ))
        return;
    note(w, &m, 1, MEM_READ);
    const bool reads = inside && m.lanes;
    if (reads)
        memcpy(&value, m.ptr[0], bytes);
    if (MEM_SEXT(arg))
        value = bytes == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
    const bool valid = !reads || mem_written(w, &m, 0, bytes);
    w->sgpr[in->dst.reg] = value;
    w->s_valid[in->dst.reg] = valid ? UINT32_MAX : 0;
    w->s_copied[in->dst.reg] = valid ? 0 : UINT64_MAX;
    w->copies |= !valid;
    wave_issue(w, in, WAIT_LGKM, OPND_SGPR, in->dst.reg, 1, true);
}

/* Executes a scalar store. */
static void exec_store(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.lanes = 0};
    unsigned reg = in->src[SRC_DATA].reg;

    if (!address(w, in, &m))
        return;
    unsigned have = dwords_in_range(w, in, &m);
    if (mem_checks(w, CHECK_UNINIT) && !scalars_valid(w, reg, have) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the stored data (s%u)", reg))
        return;
    if (have && !mem_resolve(w, in, &m, 4 * have, MEM_WRITE))
        return;
    have = m.lanes ? have : 0;
    note(w, &m, have, MEM_WRITE);
    for (unsigned i = 0; i < have; i++) {
        mem_put32(m.ptr[0] + 4 * i, w->sgpr[reg + i]);
        mem_mark(w, &m, 4 * i, 4, 1);
    }
    wave_issue(w, in, WAIT_LGKM, OPND_NONE, 0, 0, true);
}

/* Returns 4 or 8 bytes from the SGPRs from `reg` on. */
static uint64_t scalar_value(const struct wave *w, unsigned reg, unsigned bytes)
{
    return bytes == 8 ? sgpr_read64(w, reg) : w->sgpr[reg];
}

/* Executes a scalar atomic. */
static void exec_atomic(struct wave *w, const struct inst *in)
{
    uint32_t arg = in->row->arg;
    enum atomic_op op = MEM_ATOMIC(arg);
    unsigned bytes = MEM_BYTES(arg), reg = in->src[SRC_DATA].reg;
    bool compare = op == ATOMIC_CMPSWAP, returns = in->dst.kind != OPND_NONE;
    uint64_t data = scalar_value(w, reg, bytes), data2 = 0, old = 0;
    struct lane_mem m = {.lanes = 0};

    if (compare) { /* compare-and-swap: the new value is before the comparand */
        data2 = data;
        data = scalar_value(w, reg + bytes / 4, bytes);
    }
    if (mem_checks(w, CHECK_UNINIT) && !scalars_valid(w, reg, bytes / 4 * (compare ? 2 : 1)) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the operand of an atomic (s%u)",
                      reg))
        return;
    if (!address(w, in, &m) || !mem_resolve(w, in, &m, bytes, MEM_MODIFY))
        return;
    note(w, &m, bytes / 4, MEM_MODIFY);
    if (m.lanes)
        old = mem_modify(m.ptr[0], op, bytes, data, data2, 0);
    mem_mark(w, &m, 0, bytes, m.lanes);
    if (returns && bytes == 8)
        sgpr_write64(w, in->dst.reg, old, true);
    else if (returns) {
        w->sgpr[in->dst.reg] = (uint32_t)old;
        w->s_valid[in->dst.reg] = UINT32_MAX;
    }
    wave_issue(w, in, WAIT_LGKM, returns ? OPND_SGPR : OPND_NONE, in->dst.reg,
               returns ? bytes / 4 : 0, true);
}

/* Executes scalar cache control. Nothing is flushed: the simulator has no caches. */
static void exec_cache(struct wave *w, const struct inst *in) { checks_cache(w, in); }

/* Executes an instruction without an effect here. */
static void exec_nothing(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

/* Executes S_ATC_PROBE, which only counts in lgkmcnt. */
static void exec_probe(struct wave *w, const struct inst *in)
{
    wave_issue(w, in, WAIT_LGKM, OPND_NONE, 0, 0, true);
}

/*
 * S_MEMTIME reads core clocks, S_MEMREALTIME ticks of 100 MHz (CDNA3 ISA, 8.2.4). A read advances
 * the wave's clock by 128, about its latency. A program that polls the clock therefore executes no
 * more instructions than on hardware.
 */
static void exec_time(struct wave *w, const struct inst *in)
{
    const uint64_t clocks = w->launch->timed ? w->tick : w->clock;
    const unsigned clocks_of_tick = code_target(w->launch->code) == GFX950 ? 24 : 21;

    w->clock += 128;
    if (w->spin)
        spin_changed(w->spin);
    sgpr_write64(w, in->dst.reg, in->row->arg ? clocks / clocks_of_tick : clocks, true);
    wave_issue(w, in, WAIT_LGKM, OPND_SGPR, in->dst.reg, 2, true);
}

#define LGKM (1 + WAIT_LGKM)
#define ROW(n, run, d, base, data, f, a)   \
    {.name = n,                            \
     .exec = run,                          \
     .dst = d,                             \
     .src = {base, T_U32, data},           \
     .flags = ROW_SMEM | ROW_SHARED | (f), \
     .wait = LGKM,                         \
     .arg = a}
#define LOAD(n, base, kind, d, bytes) \
    ROW(n, exec_load, d, base, T_NONE, ROW_LOAD, SMEM_ARG(kind, bytes, ATOMIC_NONE))
#define STORE(n, base, kind, d, bytes) \
    ROW(n, exec_store, T_NONE, base, d, ROW_STORE, SMEM_ARG(kind, bytes, ATOMIC_NONE))
#define LOADS(prefix, base, kind)                            \
    LOAD(prefix "load_dword", base, kind, T_B32, 4),         \
        LOAD(prefix "load_dwordx2", base, kind, T_B64, 8),   \
        LOAD(prefix "load_dwordx4", base, kind, T_B128, 16), \
        STORE(prefix "store_dword", base, kind, T_B32, 4),   \
        STORE(prefix "store_dwordx2", base, kind, T_B64, 8), \
        STORE(prefix "store_dwordx4", base, kind, T_B128, 16)
#define WIDE_LOADS(prefix, base, kind)                   \
    LOAD(prefix "load_dwordx8", base, kind, T_B256, 32), \
        LOAD(prefix "load_dwordx16", base, kind, T_B512, 64)
#define ATOMIC(prefix, base, kind, n, op)                                                    \
    ROW(prefix "atomic_" n, exec_atomic, T_B32, base, T_B32, ROW_LOAD | ROW_STORE,           \
        SMEM_ARG(kind, 4, op)),                                                              \
        ROW(prefix "atomic_" n "_x2", exec_atomic, T_B64, base, T_B64, ROW_LOAD | ROW_STORE, \
            SMEM_ARG(kind, 8, op))
#define ATOMICS(prefix, base, kind)                                                             \
    ATOMIC(prefix, base, kind, "swap", ATOMIC_SWAP),                                            \
        ATOMIC(prefix, base, kind, "add", ATOMIC_ADD),                                          \
        ATOMIC(prefix, base, kind, "sub", ATOMIC_SUB),                                          \
        ATOMIC(prefix, base, kind, "smin", ATOMIC_SMIN),                                        \
        ATOMIC(prefix, base, kind, "umin", ATOMIC_UMIN),                                        \
        ATOMIC(prefix, base, kind, "smax", ATOMIC_SMAX),                                        \
        ATOMIC(prefix, base, kind, "umax", ATOMIC_UMAX),                                        \
        ATOMIC(prefix, base, kind, "and", ATOMIC_AND),                                          \
        ATOMIC(prefix, base, kind, "or", ATOMIC_OR),                                            \
        ATOMIC(prefix, base, kind, "xor", ATOMIC_XOR),                                          \
        ATOMIC(prefix, base, kind, "inc", ATOMIC_INC),                                          \
        ATOMIC(prefix, base, kind, "dec", ATOMIC_DEC),                                          \
        ROW(prefix "atomic_cmpswap", exec_atomic, T_B32, base, T_B64, ROW_LOAD | ROW_STORE,     \
            SMEM_ARG(kind, 4, ATOMIC_CMPSWAP)),                                                 \
        ROW(prefix "atomic_cmpswap_x2", exec_atomic, T_B64, base, T_B128, ROW_LOAD | ROW_STORE, \
            SMEM_ARG(kind, 8, ATOMIC_CMPSWAP))
/* Rows of gfx1250's loads of 8 and 16 bits and of three dwords. */
#define OWN(n, run, d, base, kind, bytes, sext) \
    {.name = n,                                 \
     .exec = run,                               \
     .dst = d,                                  \
     .src = {base, T_U32},                      \
     .flags = ROW_SMEM | ROW_SHARED | ROW_LOAD, \
     .wait = LGKM,                              \
     .targets = GFX1250,                        \
     .arg = SMEM_ARG(kind, bytes, ATOMIC_NONE) | MEM_ARG(0, 0, sext, 0)}
#define SMALL(prefix, base, kind)                                    \
    OWN(prefix "u8", exec_load_small, T_B32, base, kind, 1, 0),      \
        OWN(prefix "i8", exec_load_small, T_B32, base, kind, 1, 1),  \
        OWN(prefix "u16", exec_load_small, T_B32, base, kind, 2, 0), \
        OWN(prefix "i16", exec_load_small, T_B32, base, kind, 2, 1), \
        OWN(prefix "b96", exec_load, T_B96, base, kind, 12, 0)
#define PREFETCH(n) {.name = n, .exec = exec_nothing, .flags = ROW_SMEM, .targets = GFX1250}
#define CACHE(n) {.name = n, .exec = exec_cache, .flags = ROW_SMEM}

const struct op_row exec_smem_rows[] = {
    LOADS("s_", T_B64, SMEM_GLOBAL),
    WIDE_LOADS("s_", T_B64, SMEM_GLOBAL),
    LOADS("s_buffer_", T_B128, SMEM_BUFFER),
    WIDE_LOADS("s_buffer_", T_B128, SMEM_BUFFER),
    LOADS("s_scratch_", T_B64, SMEM_SCRATCH),
    ATOMICS("s_", T_B64, SMEM_GLOBAL),
    ATOMICS("s_buffer_", T_B128, SMEM_BUFFER),
    {.name = "s_memtime", .exec = exec_time, .dst = T_B64, .flags = ROW_SMEM, .wait = LGKM},
    {.name = "s_memrealtime",
     .exec = exec_time,
     .dst = T_B64,
     .flags = ROW_SMEM,
     .wait = LGKM,
     .arg = 1},
    SMALL("s_load_", T_B64, SMEM_GLOBAL),
    SMALL("s_buffer_load_", T_B128, SMEM_BUFFER),
    PREFETCH("s_prefetch_inst"),
    PREFETCH("s_prefetch_inst_pc_rel"),
    PREFETCH("s_prefetch_data"),
    PREFETCH("s_prefetch_data_pc_rel"),
    PREFETCH("s_buffer_prefetch_data"),
    CACHE("s_dcache_inv"),
    CACHE("s_dcache_wb"),
    CACHE("s_dcache_inv_vol"),
    CACHE("s_dcache_wb_vol"),
    CACHE("s_dcache_discard"),
    CACHE("s_dcache_discard_x2"),
    {.name = "s_atc_probe", .exec = exec_probe, .flags = ROW_SMEM, .wait = LGKM},
    {.name = "s_atc_probe_buffer", .exec = exec_probe, .flags = ROW_SMEM, .wait = LGKM},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FLAT, GLOBAL and SCRATCH instructions (CDNA3 ISA, chapter 10 "Flat memory instructions").
 *
 * FLAT addresses in one aperture are the workgroup's LDS (shared), in another the lane's own
 * segment (private); all others are global. Lanes of one instruction may differ. A wave's private
 * segments follow each other, lane by lane. The hardware interleaves them, which a kernel cannot
 * see.
 */
#include <string.h>

#include "check.h"
#include "decode.h"
#include "exec_flat.h"
#include "mem.h"
#include "tables.h"

#define SRC_ADDR 0
#define SRC_DATA 1
#define SRC_SADDR 2

/* True if the instruction has the operand. */
static bool has(const struct opnd *o) { return o->kind != OPND_NONE; }

/* True if the instruction loads; atomics are loads too. */
static bool is_load(const struct inst *in) { return in->row->flags & ROW_LOAD; }

/* Adds each lane's signed offset to `base` (gfx1250; CDNA5 ISA, 10.2). The offsets count bytes, or
 * elements if in->scale_offset. */
static void signed_offsets(const struct inst *in, uint64_t base, const uint32_t *offset,
                           uint64_t addr[WAVE_LANES])
{
    const int64_t unit = in->scale_offset ? MEM_BYTES(in->row->arg) : 1;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = base + (uint64_t)((int32_t)offset[l] * unit);
}

/* Computes the addresses: vaddr64 + offset, or for GLOBAL with an SGPR saddr64 + vaddr32 +
 * offset. */
bool flat_addresses(struct wave *w, const struct inst *in, uint64_t lanes,
                    uint64_t addr[WAVE_LANES])
{
    const struct opnd *v = &in->src[SRC_ADDR], *s = &in->src[SRC_SADDR];
    uint64_t offset = (uint64_t)(int64_t)in->imm_offset;
    uint32_t tmp[2 * WAVE_LANES];

    if (has(v) && !mem_defined(w, in, v, lanes, "the address"))
        return false;
    if (has(s)) {
        if (lanes && mem_checks(w, CHECK_UNINIT) && !src_scalar_valid(w, s) &&
            !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the base address (s%u)",
                          s->reg))
            return false;
        offset += src_scalar(w, s);
        const uint32_t *low = has(v) ? src_rows(w, v, tmp) : NULL;
        if (low && v->type == T_I32) {
            signed_offsets(in, offset, low, addr);
            return true;
        }
        for (unsigned l = 0; l < WAVE_LANES; l++)
            addr[l] = offset + (low ? low[l] : 0);
        return true;
    }
    const uint32_t *low = src_rows(w, v, tmp), *high = low + WAVE_LANES;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = (low[l] | (uint64_t)high[l] << 32) + offset;
    return true;
}

/* Computes byte offsets in the private segment: vaddr32 + saddr32 + offset, where an absent operand
 * is 0. False after a report. */
static bool scratch_addresses(struct wave *w, const struct inst *in, uint64_t lanes,
                              uint64_t addr[WAVE_LANES])
{
    const struct opnd *v = &in->src[SRC_ADDR], *s = &in->src[SRC_SADDR];
    uint32_t offset = (uint32_t)in->imm_offset, tmp[2 * WAVE_LANES];

    if (has(v) && !mem_defined(w, in, v, lanes, "the address"))
        return false;
    if (has(s)) {
        if (lanes && mem_checks(w, CHECK_UNINIT) && !src_scalar_valid(w, s) &&
            !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the address (s%u)", s->reg))
            return false;
        offset += (uint32_t)src_scalar(w, s);
    }
    const uint32_t *low = has(v) ? src_rows(w, v, tmp) : NULL;
    const uint32_t unit = in->scale_offset ? MEM_BYTES(in->row->arg) : 1;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = offset + (low ? low[l] * unit : 0);
    return true;
}

/* Resolves the addresses of `m` and loads, stores or executes the atomic. False after a report. */
static bool perform(struct wave *w, const struct inst *in, struct lane_mem *m)
{
    uint32_t arg = in->row->arg;
    bool returns = has(&in->dst);

    if (!mem_resolve(w, in, m, MEM_BYTES(arg), mem_direction_of(in)))
        return false;
    if (in->row->flags & ROW_LDS_DMA)
        return mem_load_to_lds(w, in, m, 1, arg);
    if (MEM_ATOMIC(arg) == ATOMIC_NONE && is_load(in)) {
        mem_load(w, m, arg, &in->dst);
        return true;
    }
    if (MEM_ATOMIC(arg) == ATOMIC_NONE)
        return mem_store(w, in, m, arg, &in->src[SRC_DATA]);
    return mem_atomic_split(w, in, m, arg, &in->src[SRC_DATA], returns ? &in->dst : NULL);
}

/* Counts the instruction as in flight in `counter`. `delivers`: this counter's return writes the
 * destination. `unordered`: it may return out of order. */
static void issue(struct wave *w, const struct inst *in, enum wait_counter counter, bool delivers,
                  bool unordered)
{
    const struct opnd *d = &in->dst;

    if (in->row->flags & ROW_LDS_DMA) /* mem_load_to_lds() has issued the instruction */
        return;
    if (has(d) && delivers)
        wave_issue(w, in, counter, d->kind, d->reg, d->dwords, unordered);
    else
        wave_issue(w, in, counter, OPND_NONE, 0, 0, unordered);
}

/* Executes a GLOBAL instruction. */
static void exec_global(struct wave *w, const struct inst *in)
{
    struct lane_mem m;

    lane_mem_begin(&m, MEM_GLOBAL, wave_exec(w));
    if (flat_addresses(w, in, m.lanes, m.addr) && perform(w, in, &m))
        issue(w, in, WAIT_VM, true, false);
}

/* Executes a SCRATCH instruction. */
static void exec_scratch(struct wave *w, const struct inst *in)
{
    struct lane_mem m;

    lane_mem_begin(&m, MEM_SCRATCH, wave_exec(w));
    if (scratch_addresses(w, in, m.lanes, m.addr) && perform(w, in, &m))
        issue(w, in, WAIT_VM, true, false);
}

/*
 * Removes the lane number, bits 56:52, from gfx1250's flat addresses of private memory (CDNA5 ISA,
 * 10.2). False after a report that a lane in `exec` addresses another lane's private memory.
 */
static bool own_private(struct wave *w, const struct inst *in, uint64_t exec,
                        uint64_t addr[WAVE_LANES])
{
    unsigned l;
    FOR_LANES(l, exec)
    {
        const uint64_t plain = addr[l] & ~(UINT64_C(31) << 52);
        if (plain - PRIVATE_APERTURE >= APERTURE_BYTES)
            continue;
        if ((addr[l] >> 52 & 31) != l) {
            wave_fault(w, in, FAULT_TRAP, UINT64_C(1) << l,
                       "lane %u accesses the private memory of lane %u, which is not simulated", l,
                       (unsigned)(addr[l] >> 52 & 31));
            return false;
        }
        addr[l] = plain;
    }
    return true;
}

/*
 * Executes FLAT. The instruction counts in vmcnt and lgkmcnt and is unordered in both if a lane
 * addresses LDS (CDNA3 ISA, 10.4 "Ordering"). Data arrive in order with the counter of the memory
 * that the addresses are in. For code that cannot reach LDS (-mtgsplit), Clang waits for vmcnt only
 * and relies on that order.
 */
static void exec_flat(struct wave *w, const struct inst *in)
{
    uint64_t exec = wave_exec(w), addr[WAVE_LANES], space[3] = {0};
    unsigned l;

    if (!flat_addresses(w, in, exec, addr) ||
        (code_isa(w->launch->code)->upper_vgprs && !own_private(w, in, exec, addr)))
        return;
    FOR_LANES(l, exec)
    {
        uint64_t bit = UINT64_C(1) << l;
        if (addr[l] - SHARED_APERTURE < APERTURE_BYTES)
            space[MEM_LDS] |= bit;
        else if (addr[l] - PRIVATE_APERTURE < APERTURE_BYTES)
            space[MEM_SCRATCH] |= bit;
        else
            space[MEM_GLOBAL] |= bit;
    }
    for (unsigned s = 0; s < 3; s++) {
        struct lane_mem m;
        if (!space[s])
            continue;
        lane_mem_begin(&m, (enum mem_space)s, space[s]);
        for (l = 0; l < WAVE_LANES; l++)
            m.addr[l] = s == MEM_GLOBAL ? addr[l] : (uint32_t)addr[l];
        if (!perform(w, in, &m))
            return;
    }
    bool lds = space[MEM_LDS];
    issue(w, in, WAIT_VM, space[MEM_LDS] != exec || !exec, lds);
    issue(w, in, WAIT_LGKM, lds, lds);
}

#define VM (1 + WAIT_VM)
#define FLAGS (ROW_VMEM | ROW_SHARED)

/* Rows of one space (global, flat, scratch): each macro has the exec function and the operands'
 * types. Those that begin with GFX12 are for GFX12's own operations. */
#define GLOBAL_OF(t, n, d, data, f, a)  \
    {.name = "global_" n,               \
     .exec = exec_global,               \
     .dst = d,                          \
     .src = {T_B64, data, T_B64},       \
     .flags = FLAGS | ROW_ADDR64 | (f), \
     .wait = VM,                        \
     .targets = t,                      \
     .arg = a}
#define GLOBAL(...) GLOBAL_OF(0, __VA_ARGS__)
#define GFX12_GLOBAL(...) GLOBAL_OF(GFX1250, __VA_ARGS__)
#define FLAT_OF(t, n, d, data, f, a)    \
    {.name = "flat_" n,                 \
     .exec = exec_flat,                 \
     .dst = d,                          \
     .src = {T_B64, data},              \
     .flags = FLAGS | ROW_ADDR64 | (f), \
     .wait = VM,                        \
     .wait_also = 1 + WAIT_LGKM,        \
     .targets = t,                      \
     .arg = a}
#define FLAT(...) FLAT_OF(0, __VA_ARGS__)
#define GFX12_FLAT(...) FLAT_OF(GFX1250, __VA_ARGS__)
#define SCRATCH(n, d, data, f, a) \
    {.name = "scratch_" n,        \
     .exec = exec_scratch,        \
     .dst = d,                    \
     .src = {T_B32, data, T_B32}, \
     .flags = ROW_VMEM | (f),     \
     .wait = VM,                  \
     .arg = a}

#define LOAD_STORE(SPACE)                                                                   \
    SPACE("load_ubyte", T_B32, T_NONE, ROW_LOAD, MEM_ARG(1, PART_ALL, 0, 0)),               \
        SPACE("load_sbyte", T_B32, T_NONE, ROW_LOAD, MEM_ARG(1, PART_ALL, 1, 0)),           \
        SPACE("load_ushort", T_B32, T_NONE, ROW_LOAD, MEM_ARG(2, PART_ALL, 0, 0)),          \
        SPACE("load_sshort", T_B32, T_NONE, ROW_LOAD, MEM_ARG(2, PART_ALL, 1, 0)),          \
        SPACE("load_dword", T_B32, T_NONE, ROW_LOAD, MEM_ARG(4, 0, 0, 0)),                  \
        SPACE("load_dwordx2", T_B64, T_NONE, ROW_LOAD, MEM_ARG(8, 0, 0, 0)),                \
        SPACE("load_dwordx3", T_B96, T_NONE, ROW_LOAD, MEM_ARG(12, 0, 0, 0)),               \
        SPACE("load_dwordx4", T_B128, T_NONE, ROW_LOAD, MEM_ARG(16, 0, 0, 0)),              \
        SPACE("load_ubyte_d16", T_B32, T_NONE, LOAD_D16, MEM_ARG(1, PART_LOW, 0, 0)),       \
        SPACE("load_ubyte_d16_hi", T_B32, T_NONE, LOAD_D16, MEM_ARG(1, PART_HIGH, 0, 0)),   \
        SPACE("load_sbyte_d16", T_B32, T_NONE, LOAD_D16, MEM_ARG(1, PART_LOW, 1, 0)),       \
        SPACE("load_sbyte_d16_hi", T_B32, T_NONE, LOAD_D16, MEM_ARG(1, PART_HIGH, 1, 0)),   \
        SPACE("load_short_d16", T_B32, T_NONE, LOAD_D16, MEM_ARG(2, PART_LOW, 0, 0)),       \
        SPACE("load_short_d16_hi", T_B32, T_NONE, LOAD_D16, MEM_ARG(2, PART_HIGH, 0, 0)),   \
        SPACE("store_byte", T_NONE, T_B32, ROW_STORE, MEM_ARG(1, PART_ALL, 0, 0)),          \
        SPACE("store_byte_d16_hi", T_NONE, T_B32, ROW_STORE, MEM_ARG(1, PART_HIGH, 0, 0)),  \
        SPACE("store_short", T_NONE, T_B32, ROW_STORE, MEM_ARG(2, PART_ALL, 0, 0)),         \
        SPACE("store_short_d16_hi", T_NONE, T_B32, ROW_STORE, MEM_ARG(2, PART_HIGH, 0, 0)), \
        SPACE("store_dword", T_NONE, T_B32, ROW_STORE, MEM_ARG(4, 0, 0, 0)),                \
        SPACE("store_dwordx2", T_NONE, T_B64, ROW_STORE, MEM_ARG(8, 0, 0, 0)),              \
        SPACE("store_dwordx3", T_NONE, T_B96, ROW_STORE, MEM_ARG(12, 0, 0, 0)),             \
        SPACE("store_dwordx4", T_NONE, T_B128, ROW_STORE, MEM_ARG(16, 0, 0, 0))
#define LOAD_D16 (ROW_LOAD | ROW_DST_IS_SRC | ROW_PARTIAL)

#define ATOMIC4(SPACE, n, op) \
    SPACE("atomic_" n, T_B32, T_B32, ROW_LOAD | ROW_STORE, MEM_ARG(4, 0, 0, op))
#define ATOMIC8(SPACE, n, op) \
    SPACE("atomic_" n, T_B64, T_B64, ROW_LOAD | ROW_STORE, MEM_ARG(8, 0, 0, op))
#define ATOMIC(SPACE, n, op) ATOMIC4(SPACE, n, op), ATOMIC8(SPACE, n "_x2", op)

#define ATOMICS(SPACE)                                                                    \
    ATOMIC(SPACE, "swap", ATOMIC_SWAP), ATOMIC(SPACE, "add", ATOMIC_ADD),                 \
        ATOMIC(SPACE, "sub", ATOMIC_SUB), ATOMIC(SPACE, "smin", ATOMIC_SMIN),             \
        ATOMIC(SPACE, "umin", ATOMIC_UMIN), ATOMIC(SPACE, "smax", ATOMIC_SMAX),           \
        ATOMIC(SPACE, "umax", ATOMIC_UMAX), ATOMIC(SPACE, "and", ATOMIC_AND),             \
        ATOMIC(SPACE, "or", ATOMIC_OR), ATOMIC(SPACE, "xor", ATOMIC_XOR),                 \
        ATOMIC(SPACE, "inc", ATOMIC_INC), ATOMIC(SPACE, "dec", ATOMIC_DEC),               \
        SPACE("atomic_cmpswap", T_B32, T_B64, ROW_LOAD | ROW_STORE,                       \
              MEM_ARG(4, 0, 0, ATOMIC_CMPSWAP)),                                          \
        SPACE("atomic_cmpswap_x2", T_B64, T_B128, ROW_LOAD | ROW_STORE,                   \
              MEM_ARG(8, 0, 0, ATOMIC_CMPSWAP)),                                          \
        ATOMIC4(SPACE, "add_f32", ATOMIC_ADD_F), ATOMIC8(SPACE, "add_f64", ATOMIC_ADD_F), \
        ATOMIC8(SPACE, "min_f64", ATOMIC_MIN_F), ATOMIC8(SPACE, "max_f64", ATOMIC_MAX_F), \
        ATOMIC4(SPACE, "pk_add_f16", ATOMIC_PK_ADD_F16),                                  \
        ATOMIC4(SPACE, "pk_add_bf16", ATOMIC_PK_ADD_BF16)

#define GFX12_ATOMICS(SPACE)                             \
    ATOMIC4(SPACE, "min_num_f32", ATOMIC_MIN_NUM_F),     \
        ATOMIC4(SPACE, "max_num_f32", ATOMIC_MAX_NUM_F), \
        ATOMIC8(SPACE, "min_num_f64", ATOMIC_MIN_NUM_F), \
        ATOMIC8(SPACE, "max_num_f64", ATOMIC_MAX_NUM_F), \
        ATOMIC4(SPACE, "cond_sub_u32", ATOMIC_COND_SUB), \
        ATOMIC4(SPACE, "sub_clamp_u32", ATOMIC_SUB_CLAMP)

/* Executes gfx1250's cache control: calls cache() of the checks. It moves no data, since every
 * store is visible at once. */
static void exec_cache(struct wave *w, const struct inst *in)
{
    checks_cache(w, in);
    wave_issue(w, in, in->row->arg ? WAIT_STORE : WAIT_VM, OPND_NONE, 0, 0, false);
}

/* Executes an instruction without an effect here. */
static void exec_nothing(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

#define TO_LDS (ROW_LOAD | ROW_LDS_DMA)
/* Row of a cache control instruction. `arg_` is 1 if it writes back, which STOREcnt counts. */
#define CACHE(n, arg_, counter) \
    {.name = n,                 \
     .exec = exec_cache,        \
     .flags = FLAGS,            \
     .wait = 1 + (counter),     \
     .arg = arg_,               \
     .targets = GFX1250}
#define PREFETCH(n) {.name = n, .exec = exec_nothing, .flags = ROW_VMEM, .targets = GFX1250}
#define OWN_FLAT(n, d, a)                    \
    {.name = n,                              \
     .exec = exec_flat,                      \
     .dst = d,                               \
     .src = {T_B64},                         \
     .flags = FLAGS | ROW_ADDR64 | ROW_LOAD, \
     .wait = VM,                             \
     .wait_also = 1 + WAIT_LGKM,             \
     .targets = GFX1250,                     \
     .arg = a}
#define OWN_GLOBAL(n, d, f, a)          \
    {.name = n,                         \
     .exec = exec_global,               \
     .dst = d,                          \
     .src = {T_B64, T_NONE, T_B64},     \
     .flags = FLAGS | ROW_ADDR64 | (f), \
     .wait = VM,                        \
     .targets = GFX1250,                \
     .arg = a}

const struct op_row exec_flat_rows[] = {
    LOAD_STORE(GLOBAL),
    LOAD_STORE(FLAT),
    LOAD_STORE(SCRATCH),
    ATOMICS(GLOBAL),
    ATOMICS(FLAT),
    GFX12_ATOMICS(GFX12_GLOBAL),
    GFX12_ATOMICS(GFX12_FLAT),
    GLOBAL("load_lds_ubyte", T_NONE, T_NONE, TO_LDS, MEM_ARG(1, 0, 0, 0)),
    GLOBAL("load_lds_sbyte", T_NONE, T_NONE, TO_LDS, MEM_ARG(1, 0, 1, 0)),
    GLOBAL("load_lds_ushort", T_NONE, T_NONE, TO_LDS, MEM_ARG(2, 0, 0, 0)),
    GLOBAL("load_lds_sshort", T_NONE, T_NONE, TO_LDS, MEM_ARG(2, 0, 1, 0)),
    GLOBAL("load_lds_dword", T_NONE, T_NONE, TO_LDS, MEM_ARG(4, 0, 0, 0)),
    GLOBAL("load_lds_dwordx3", T_NONE, T_NONE, TO_LDS | ROW_GFX950, MEM_ARG(12, 0, 0, 0)),
    GLOBAL("load_lds_dwordx4", T_NONE, T_NONE, TO_LDS | ROW_GFX950, MEM_ARG(16, 0, 0, 0)),
    SCRATCH("load_lds_ubyte", T_NONE, T_NONE, TO_LDS, MEM_ARG(1, 0, 0, 0)),
    SCRATCH("load_lds_sbyte", T_NONE, T_NONE, TO_LDS, MEM_ARG(1, 0, 1, 0)),
    SCRATCH("load_lds_ushort", T_NONE, T_NONE, TO_LDS, MEM_ARG(2, 0, 0, 0)),
    SCRATCH("load_lds_sshort", T_NONE, T_NONE, TO_LDS, MEM_ARG(2, 0, 1, 0)),
    SCRATCH("load_lds_dword", T_NONE, T_NONE, TO_LDS, MEM_ARG(4, 0, 0, 0)),
    CACHE("global_inv", 0, WAIT_VM),
    CACHE("global_wb", 1, WAIT_STORE),
    CACHE("global_wbinv", 1, WAIT_STORE),
    PREFETCH("global_prefetch_b8"),
    PREFETCH("flat_prefetch_b8"),
    OWN_GLOBAL("global_load_monitor_b32", T_B32, ROW_LOAD, MEM_ARG(4, 0, 0, 0)),
    OWN_GLOBAL("global_load_monitor_b64", T_B64, ROW_LOAD, MEM_ARG(8, 0, 0, 0)),
    OWN_GLOBAL("global_load_monitor_b128", T_B128, ROW_LOAD, MEM_ARG(16, 0, 0, 0)),
    OWN_FLAT("flat_load_monitor_b32", T_B32, MEM_ARG(4, 0, 0, 0)),
    OWN_FLAT("flat_load_monitor_b64", T_B64, MEM_ARG(8, 0, 0, 0)),
    OWN_FLAT("flat_load_monitor_b128", T_B128, MEM_ARG(16, 0, 0, 0)),
    OWN_GLOBAL("cluster_load_b32", T_B32, ROW_LOAD, MEM_ARG(4, 0, 0, 0)),
    OWN_GLOBAL("cluster_load_b64", T_B64, ROW_LOAD, MEM_ARG(8, 0, 0, 0)),
    OWN_GLOBAL("cluster_load_b128", T_B128, ROW_LOAD, MEM_ARG(16, 0, 0, 0)),
    {.name = NULL},
};

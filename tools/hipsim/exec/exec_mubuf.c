/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MUBUF and MTBUF: memory through a buffer resource (CDNA3 ISA, 9.1 "Vector memory buffer
 * instructions").
 *
 *   address = base + sgpr_offset + buffer_offset
 *   offset = vgpr_offset + inst_offset
 *   buffer_offset = stride * index + offset                                      (linear)
 *   buffer_offset = (index / n * stride + offset / 4 * 4) * n + index % n * 4 + offset % 4
 *                                                        (swizzled, n = the index stride)
 *
 * Swizzled elements have four bytes, since GFX9 has no field for their size. Each dword of a wider
 * element is swizzled separately. Without add_tid the swizzle bit has no effect. rocjitsu's
 * addr_calc_buffer.h says so. HipKittens' kernels, which ran on MI325X and MI355X, set it and read
 * rows in the order in which they are stored.
 *
 * Reads out of range return zero, and writes out of range are dropped. Neither is reported, since
 * kernels rely on it (CDNA4 ISA, 9.1.5.1). Which accesses are out of range depends on the resource:
 *   private:    add_tid without idxen; nothing is out of range
 *   structured: idxen and a stride; index >= num_records
 *   raw:        all others; offset + sgpr_offset + bytes > num_records
 * Each dword of a wide access is checked separately. A format access (exec_format.c) or an atomic
 * is in range as a whole or not at all. The manual says no more. From rocjitsu's measurements
 * (addr_calc_buffer.h): the SGPR's offset is part of the check of raw buffers. `offset` wraps at 32
 * bits; the sum with sgpr_offset does not. Linear buffers with idxen ignore add_tid.
 *
 * LLVM treats a negative offset in the register as out of range (splitBufferOffsets() of its AMDGPU
 * backend). This is so even if the instruction's offset makes the sum positive. CHECK_STRICT
 * reports such accesses. All accesses are out of range of a resource whose last dword is zero. The
 * manual calls a resource of zeros unbound, and MIOpen's Winograd kernels clear that dword to drop
 * stores. An access in range of the resource but outside of any allocation is reported as an error.
 */
#include <string.h>

#include "check.h"
#include "decode.h"
#include "exec_mubuf.h"
#include "tables.h"

/* True if the instruction has the operand. */
static bool has(const struct opnd *o) { return o->kind != OPND_NONE; }

/*
 * Reads gfx1250's resource (CDNA5 ISA, table 57) to *r: base 56:0, num_records in bytes 101:57,
 * stride 121:108 with its scale 123:122, swizzle 124, OOB select 125. False after a report that the
 * resource is swizzled, which is not simulated.
 */
static bool read_gfx1250(struct wave *w, const struct inst *in, struct buffer_resource *r)
{
    static const uint8_t scales[4] = {1, 4, 8, 32};
    const uint32_t *d = w->sgpr + in->src[SRC_RSRC].reg;
    *r = (struct buffer_resource){
        .base = d[0] | (uint64_t)(d[1] & 0x1ffffff) << 32,
        .num_records = d[1] >> 25 | (uint64_t)d[2] << 7 | (uint64_t)(d[3] & 0x3f) << 39,
        .stride = (d[3] >> 12 & 0x3fff) * scales[d[3] >> 26 & 3],
        .soffset = (uint32_t)src_scalar(w, &in->src[SRC_SOFFSET]),
        .within_stride = d[3] >> 29 & 1,
    };
    if (d[3] >> 28 & 1)
        wave_fault(w, in, FAULT_TRAP, 0, "swizzled buffers are not simulated on this target");
    return !(d[3] >> 28 & 1);
}

/*
 * Reads gfx1201's resource (RDNA4 ISA, table 57) to *r: base 47:0, stride 61:48 with its scale
 * 115:114, swizzle 63:62, num_records 95:64, OOB select 125:124. Select 3, which that table leaves
 * out, compares bytes (RDNA3 ISA, table 46). False after a report that the resource swizzles or
 * adds thread ids, which is not simulated.
 */
static bool read_gfx12(struct wave *w, const struct inst *in, struct buffer_resource *r)
{
    enum { SELECT_STRUCTURED, SELECT_INDEX, SELECT_EMPTY, SELECT_BYTES };
    static const uint8_t scales[4] = {1, 4, 8, 32};
    const uint32_t *d = w->sgpr + in->src[SRC_RSRC].reg;
    const unsigned select = d[3] >> 28 & 3;
    *r = (struct buffer_resource){
        .base = d[0] | (uint64_t)(d[1] & 0xffff) << 32,
        .num_records = d[2],
        .stride = (d[1] >> 16 & 0x3fff) * scales[d[3] >> 18 & 3],
        .soffset = (uint32_t)src_scalar(w, &in->src[SRC_SOFFSET]),
        .within_stride = select == SELECT_STRUCTURED,
        .by_index = select == SELECT_STRUCTURED || select == SELECT_INDEX,
        .unlimited = select == SELECT_EMPTY,
    };
    const bool plain = !(d[1] >> 30) && !(d[3] >> 23 & 1);
    if (!plain)
        wave_fault(w, in, FAULT_TRAP, 0,
                   "buffers with swizzle or thread ids are not simulated on this target");
    return plain;
}

/* Reads the buffer resource. False after a fault. */
static bool read_resource(struct wave *w, const struct inst *in, bool formatted,
                          struct buffer_resource *r)
{
    const struct opnd *rsrc = &in->src[SRC_RSRC], *soffset = &in->src[SRC_SOFFSET];
    const uint32_t *d = w->sgpr + rsrc->reg;
    bool unbound =
        !code_isa(w->launch->code)->gfx12 && !d[3] && w->s_valid[rsrc->reg + 3] == UINT32_MAX;

    if (mem_checks(w, CHECK_UNINIT) && wave_exec(w) && !unbound) {
        uint32_t valid = w->s_valid[rsrc->reg] & w->s_valid[rsrc->reg + 1] &
                         w->s_valid[rsrc->reg + 2] & w->s_valid[rsrc->reg + 3];
        if (valid != UINT32_MAX &&
            !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the buffer resource s[%u:%u]",
                          rsrc->reg, rsrc->reg + 3))
            return false;
        if (has(soffset) && !src_scalar_valid(w, soffset) &&
            !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the buffer offset"))
            return false;
    }
    const struct isa *isa = code_isa(w->launch->code);
    if (isa->gfx12)
        return isa->wide_buffers ? read_gfx1250(w, in, r) : read_gfx12(w, in, r);
    *r = (struct buffer_resource){
        .base = d[0] | (uint64_t)(d[1] & 0xffff) << 32,
        .stride = d[1] >> 16 & 0x3fff,
        .num_records = d[3] ? d[2] : 0, /* format 0: an unbound resource */
        .soffset = has(soffset) ? (uint32_t)src_scalar(w, soffset) : 0,
        .select = d[3] & 0xfff,
        .num_format = d[3] >> 12 & 7,
        .data_format = d[3] >> 15 & 15,
        .index_stride = (uint8_t)(8 << (d[3] >> 21 & 3)),
        .add_tid = d[3] >> 23 & 1,
        .swizzled = (d[1] & d[3] << 8) >> 31,
    };
    if (!r->swizzled && in->idxen)
        r->add_tid = false;
    if (r->add_tid && !formatted) /* with add_tid, data_format has bits 17:14 of the stride */
        r->stride |= (uint32_t)r->data_format << 14;
    return true;
}

/* Returns the number that the resource's num_records limits. */
static enum buffer_range range_of(const struct isa *isa, const struct inst *in,
                                  const struct buffer_resource *r)
{
    if (isa->wide_buffers)
        return RANGE_LINEAR;
    if (isa->gfx12)
        return r->by_index                      ? RANGE_RECORDS
               : r->unlimited && r->num_records ? RANGE_PRIVATE
                                                : RANGE_BYTES;
    if (in->idxen && r->stride)
        return RANGE_RECORDS;
    return !in->idxen && r->add_tid ? RANGE_PRIVATE : RANGE_BYTES;
}

/* Sets the index and offset of each lane. False after a fault. */
static bool lane_offsets(struct wave *w, const struct inst *in, struct buffer_access *b)
{
    const struct buffer_resource *r = &b->resource;
    const struct opnd *v = &in->src[SRC_ADDR];
    const uint32_t *rows = NULL, *index = NULL, *offset = NULL;
    uint32_t tmp[2 * WAVE_LANES];

    if (in->idxen || in->offen) {
        /* If every lane is out of range, no lane uses its address, which may be undefined. */
        bool reached = r->num_records || r->add_tid;
        if (!mem_defined(w, in, v, reached ? b->lanes : 0, "the address"))
            return false;
        rows = src_rows(w, v, tmp);
        index = in->idxen ? rows : NULL;
        offset = in->offen ? rows + (in->idxen ? WAVE_LANES : 0) : NULL;
    }
    b->range = range_of(code_isa(w->launch->code), in, r);
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        b->index[l] = (index ? index[l] : 0) + (uint64_t)(r->add_tid ? l : 0);
        b->offset[l] = (offset ? offset[l] : 0) + (uint32_t)in->imm_offset;
        b->linear[l] = b->index[l] * r->stride + b->offset[l];
    }
    return true;
}

/* Reports lanes that are in range only since the sum of the register's and the instruction's offset
 * wraps at 2^32. False if the report ends the wave. */
static bool check_wrapping(struct wave *w, const struct inst *in, const struct buffer_access *b)
{
    const uint32_t own = (uint32_t)in->imm_offset;
    uint64_t lanes = 0;

    if (!mem_checks(w, CHECK_STRICT) || b->range != RANGE_BYTES || !own)
        return true;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        lanes |= (uint64_t)(b->offset[l] < own) << l;
    lanes = buffer_in_range(b, lanes & b->lanes, 0, 1);
    if (!lanes)
        return true;
    const unsigned first = (unsigned)__builtin_ctzll(lanes);
    return wave_finding(w, in, FAULT_STRICT, lanes,
                        "the register's offset of lane %u is %#x, and with the instruction's %u it "
                        "wraps into the range of the resource: LLVM takes that for out of range",
                        first, (uint32_t)b->offset[first] - own, own);
}

bool buffer_begin(struct wave *w, const struct inst *in, bool formatted, struct buffer_access *b)
{
    b->lanes = wave_exec(w);
    return read_resource(w, in, formatted, &b->resource) && lane_offsets(w, in, b) &&
           check_wrapping(w, in, b);
}

/* Returns the offset in a swizzled buffer of byte `first` of lane l's access. */
static uint64_t swizzled(const struct buffer_access *b, unsigned l, unsigned first)
{
    uint64_t index = b->index[l], offset = b->offset[l] + first, n = b->resource.index_stride;

    return (index / n * b->resource.stride + offset / 4 * 4) * n + index % n * 4 + offset % 4;
}

uint64_t buffer_in_range(const struct buffer_access *b, uint64_t lanes, unsigned first,
                         unsigned bytes)
{
    const struct buffer_resource *r = &b->resource;
    uint64_t end = (uint64_t)first + bytes + r->soffset, ok = 0;

    if (b->range == RANGE_PRIVATE)
        return lanes;
    if (b->range == RANGE_RECORDS) {
        for (unsigned l = 0; l < WAVE_LANES; l++) {
            const bool inside = b->index[l] - (r->add_tid ? l : 0) < r->num_records &&
                                (!r->within_stride || b->offset[l] + end <= r->stride);
            ok |= (uint64_t)inside << l;
        }
        return ok & lanes;
    }
    if (b->range == RANGE_LINEAR) { /* CDNA5 ISA, 9.4.1 */
        for (unsigned l = 0; l < WAVE_LANES; l++) {
            const bool inside = b->linear[l] + end <= r->num_records &&
                                (!r->within_stride || b->offset[l] + end <= r->stride);
            ok |= (uint64_t)inside << l;
        }
        return ok & lanes;
    }
    if (end > r->num_records)
        return 0;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        ok |= (uint64_t)(b->offset[l] <= r->num_records - end) << l;
    return ok & lanes;
}

/* Sets m->addr to the address of byte `first` of each lane's access. */
static void find_addresses(const struct buffer_access *b, unsigned first, struct lane_mem *m)
{
    uint64_t base = b->resource.base + b->resource.soffset;

    if (b->resource.swizzled) {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            m->addr[l] = base + swizzled(b, l, first);
        return;
    }
    for (unsigned l = 0; l < WAVE_LANES; l++)
        m->addr[l] = base + first + b->linear[l];
}

/* Resolves the access of `m` and moves its data between memory and `reg`, or to LDS. False after a
 * report. */
static bool move(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                 const struct opnd *reg)
{
    if (!mem_resolve(w, in, m, MEM_BYTES(arg), mem_direction_of(in)))
        return false;
    if (in->lds)
        return mem_load_to_lds(w, in, m, 1, arg);
    if (MEM_ATOMIC(arg) != ATOMIC_NONE)
        return mem_atomic_split(w, in, m, arg, reg, has(&in->dst) ? &in->dst : NULL);
    if (in->row->flags & ROW_LOAD) {
        mem_load(w, m, arg, reg);
        return true;
    }
    return mem_store(w, in, m, arg, reg);
}

bool buffer_part(struct wave *w, const struct inst *in, const struct buffer_access *b,
                 unsigned first, unsigned bytes, struct lane_mem *m)
{
    const struct mem_access whole = w->access;

    m->space = MEM_GLOBAL;
    m->dropped = b->lanes & ~m->lanes;
    find_addresses(b, first, m);
    if (!mem_resolve(w, in, m, bytes, mem_direction_of(in)))
        return false;
    if (first)
        w->access = whole;
    w->access.bytes = (uint8_t)(first + bytes);
    return true;
}

/* Loads dwords to LDS. False after a fault. */
static bool dwords_to_lds(struct wave *w, const struct inst *in, const struct buffer_access *b)
{
    unsigned dwords = MEM_BYTES(in->row->arg) / 4;
    struct lane_mem m[4];

    for (unsigned i = 0; i < dwords; i++) {
        m[i] = (struct lane_mem){.lanes = buffer_in_range(b, b->lanes, 4 * i, 4)};
        if (!buffer_part(w, in, b, 4 * i, 4, &m[i]))
            return false;
    }
    return mem_load_to_lds(w, in, m, dwords, in->row->arg);
}

/* Moves the access dword by dword between memory and `reg`, for swizzled buffers and if a lane is
 * partly out of range. False after a report. */
static bool move_dwords(struct wave *w, const struct inst *in, const struct buffer_access *b,
                        const struct opnd *reg)
{
    if (in->lds)
        return dwords_to_lds(w, in, b);
    for (unsigned i = 0; i < MEM_BYTES(in->row->arg) / 4; i++) {
        struct lane_mem m = {.lanes = buffer_in_range(b, b->lanes, 4 * i, 4)};
        struct opnd one = *reg;
        one.reg = (uint16_t)(reg->reg + i);
        one.dwords = 1;
        if (!buffer_part(w, in, b, 4 * i, 4, &m))
            return false;
        if (in->row->flags & ROW_LOAD)
            mem_load(w, &m, MEM_ARG(4, 0, 0, 0), &one);
        else if (!mem_store(w, in, &m, MEM_ARG(4, 0, 0, 0), &one))
            return false;
    }
    return true;
}

void buffer_issue(struct wave *w, const struct inst *in)
{
    const struct opnd *d = &in->dst;

    if (in->lds) /* mem_load_to_lds() has issued the instruction */
        return;
    if (has(d))
        wave_issue(w, in, WAIT_VM, d->kind, d->reg, d->dwords, false);
    else
        wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
}

/* Executes a buffer instruction. */
static void exec_mubuf(struct wave *w, const struct inst *in)
{
    uint32_t arg = in->row->arg;
    const struct opnd *reg = &in->src[SRC_DATA];
    struct buffer_access b;
    struct lane_mem m;

    if (MEM_ATOMIC(arg) == ATOMIC_NONE && in->row->flags & ROW_LOAD)
        reg = &in->dst;
    if (!buffer_begin(w, in, false, &b))
        return;
    if (in->lds && mem_lds_is_nowhere(w, in))
        b.lanes = 0;
    lane_mem_begin(&m, MEM_GLOBAL, buffer_in_range(&b, b.lanes, 0, MEM_BYTES(arg)));
    m.dropped = b.lanes & ~m.lanes;
    bool dwords = MEM_BYTES(arg) > 4 && MEM_ATOMIC(arg) == ATOMIC_NONE;
    if (dwords && (b.resource.swizzled || buffer_in_range(&b, m.dropped, 0, 4))) {
        if (move_dwords(w, in, &b, reg))
            buffer_issue(w, in);
        return;
    }
    find_addresses(&b, 0, &m);
    if (move(w, in, &m, arg, reg))
        buffer_issue(w, in);
}

/* Executes cache control. Nothing is flushed: the simulator has no caches, so every store is
 * visible at once. */
static void exec_cache(struct wave *w, const struct inst *in)
{
    checks_cache(w, in);
    if (in->row->wait)
        wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
}

#define VM (1 + WAIT_VM)
#define FLAGS (ROW_VMEM | ROW_SHARED)
#define BUFFER_OF(t, n, d, data, f, a)    \
    {.name = "buffer_" n,                 \
     .exec = exec_mubuf,                  \
     .dst = d,                            \
     .src = {T_B64, data, T_B128, T_U32}, \
     .flags = FLAGS | (f),                \
     .wait = VM,                          \
     .targets = t,                        \
     .arg = a}
#define BUFFER(...) BUFFER_OF(0, __VA_ARGS__)
#define LOAD(n, d, a) BUFFER("load_" n, d, T_NONE, ROW_LOAD, a)
#define LOAD_D16(n, a) BUFFER("load_" n, T_B32, T_NONE, ROW_LOAD | ROW_DST_IS_SRC | ROW_PARTIAL, a)
#define STORE(n, d, a) BUFFER("store_" n, T_NONE, d, ROW_STORE, a)
#define ATOMIC4(n, op) BUFFER("atomic_" n, T_B32, T_B32, ROW_LOAD | ROW_STORE, MEM_ARG(4, 0, 0, op))
#define ATOMIC8(n, op) BUFFER("atomic_" n, T_B64, T_B64, ROW_LOAD | ROW_STORE, MEM_ARG(8, 0, 0, op))
#define ATOMIC(n, op) ATOMIC4(n, op), ATOMIC8(n "_x2", op)
#define GFX12_ATOMIC(n, t, bytes, op) \
    BUFFER_OF(GFX1250, "atomic_" n, t, t, ROW_LOAD | ROW_STORE, MEM_ARG(bytes, 0, 0, op))

const struct op_row exec_mubuf_rows[] = {
    LOAD("ubyte", T_B32, MEM_ARG(1, PART_ALL, 0, 0)),
    LOAD("sbyte", T_B32, MEM_ARG(1, PART_ALL, 1, 0)),
    LOAD("ushort", T_B32, MEM_ARG(2, PART_ALL, 0, 0)),
    LOAD("sshort", T_B32, MEM_ARG(2, PART_ALL, 1, 0)),
    LOAD("dword", T_B32, MEM_ARG(4, 0, 0, 0)),
    LOAD("dwordx2", T_B64, MEM_ARG(8, 0, 0, 0)),
    LOAD("dwordx3", T_B96, MEM_ARG(12, 0, 0, 0)),
    LOAD("dwordx4", T_B128, MEM_ARG(16, 0, 0, 0)),
    LOAD_D16("ubyte_d16", MEM_ARG(1, PART_LOW, 0, 0)),
    LOAD_D16("ubyte_d16_hi", MEM_ARG(1, PART_HIGH, 0, 0)),
    LOAD_D16("sbyte_d16", MEM_ARG(1, PART_LOW, 1, 0)),
    LOAD_D16("sbyte_d16_hi", MEM_ARG(1, PART_HIGH, 1, 0)),
    LOAD_D16("short_d16", MEM_ARG(2, PART_LOW, 0, 0)),
    LOAD_D16("short_d16_hi", MEM_ARG(2, PART_HIGH, 0, 0)),
    STORE("byte", T_B32, MEM_ARG(1, PART_ALL, 0, 0)),
    STORE("byte_d16_hi", T_B32, MEM_ARG(1, PART_HIGH, 0, 0)),
    STORE("short", T_B32, MEM_ARG(2, PART_ALL, 0, 0)),
    STORE("short_d16_hi", T_B32, MEM_ARG(2, PART_HIGH, 0, 0)),
    STORE("dword", T_B32, MEM_ARG(4, 0, 0, 0)),
    STORE("dwordx2", T_B64, MEM_ARG(8, 0, 0, 0)),
    STORE("dwordx3", T_B96, MEM_ARG(12, 0, 0, 0)),
    STORE("dwordx4", T_B128, MEM_ARG(16, 0, 0, 0)),
    ATOMIC("swap", ATOMIC_SWAP),
    ATOMIC("add", ATOMIC_ADD),
    ATOMIC("sub", ATOMIC_SUB),
    ATOMIC("smin", ATOMIC_SMIN),
    ATOMIC("umin", ATOMIC_UMIN),
    ATOMIC("smax", ATOMIC_SMAX),
    ATOMIC("umax", ATOMIC_UMAX),
    ATOMIC("and", ATOMIC_AND),
    ATOMIC("or", ATOMIC_OR),
    ATOMIC("xor", ATOMIC_XOR),
    ATOMIC("inc", ATOMIC_INC),
    ATOMIC("dec", ATOMIC_DEC),
    BUFFER("atomic_cmpswap", T_B32, T_B64, ROW_LOAD | ROW_STORE, MEM_ARG(4, 0, 0, ATOMIC_CMPSWAP)),
    BUFFER("atomic_cmpswap_x2", T_B64, T_B128, ROW_LOAD | ROW_STORE,
           MEM_ARG(8, 0, 0, ATOMIC_CMPSWAP)),
    ATOMIC4("add_f32", ATOMIC_ADD_F),
    ATOMIC8("add_f64", ATOMIC_ADD_F),
    ATOMIC8("min_f64", ATOMIC_MIN_F),
    ATOMIC8("max_f64", ATOMIC_MAX_F),
    ATOMIC4("pk_add_f16", ATOMIC_PK_ADD_F16),
    BUFFER("atomic_pk_add_bf16", T_B32, T_B32, ROW_LOAD | ROW_STORE | ROW_GFX950,
           MEM_ARG(4, 0, 0, ATOMIC_PK_ADD_BF16)),
    GFX12_ATOMIC("min_num_f32", T_B32, 4, ATOMIC_MIN_NUM_F),
    GFX12_ATOMIC("max_num_f32", T_B32, 4, ATOMIC_MAX_NUM_F),
    GFX12_ATOMIC("min_num_f64", T_B64, 8, ATOMIC_MIN_NUM_F),
    GFX12_ATOMIC("max_num_f64", T_B64, 8, ATOMIC_MAX_NUM_F),
    GFX12_ATOMIC("cond_sub_u32", T_B32, 4, ATOMIC_COND_SUB),
    GFX12_ATOMIC("sub_clamp_u32", T_B32, 4, ATOMIC_SUB_CLAMP),
    {.name = "buffer_wbl2", .exec = exec_cache, .flags = ROW_VMEM, .wait = VM},
    {.name = "buffer_inv", .exec = exec_cache, .flags = ROW_VMEM},
    {.name = NULL},
};

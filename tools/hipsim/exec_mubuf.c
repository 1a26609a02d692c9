/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MUBUF and MTBUF: memory through a buffer resource (CDNA3 ISA, 9.1 "Vector memory buffer
 * instructions").
 *
 *   address = base + sgpr_offset + buffer_offset
 *   buffer_offset = stride * index + vgpr_offset + inst_offset        (linear addressing)
 *
 * Out of range reads return zero and writes are dropped, silently, because kernels rely on it:
 *   raw:        buffer_offset + bytes > num_records - sgpr_offset
 *   structured: index >= num_records, when there is an index (idxen or add_tid) and a stride
 * Each dword of a wide access is checked on its own; format accesses and atomics go all or
 * nothing. The arithmetic saturates (LLVM, AMDGPUUsage, "Relaxed Buffer OOB Mode").
 * What is in range of the resource and yet outside of an allocation is an error like any other.
 */
#include <string.h>

#include "tools/hipsim/decode.h"
#include "tools/hipsim/mem.h"

#define SRC_ADDR 0
#define SRC_DATA 1
#define SRC_RSRC 2
#define SRC_SOFFSET 3

struct resource {
    uint64_t base;
    uint32_t stride;
    uint32_t num_records;
    uint32_t soffset;
    uint8_t num_format, data_format;
    bool add_tid;
};

/* The offset part and the index of each lane, and the address they make. */
struct buffer_lanes {
    uint64_t offset[WAVE_LANES]; /* buffer_offset: may exceed 32 bits, which saturates */
    uint64_t index[WAVE_LANES];
    bool structured;
};

static bool has(const struct opnd *o)
{
    return o->kind != OPND_NONE;
}

static bool read_resource(struct wave *w, const struct inst *in, struct resource *r)
{
    const struct opnd *rsrc = &in->src[SRC_RSRC], *soffset = &in->src[SRC_SOFFSET];
    const uint32_t *d = w->sgpr + rsrc->reg;

    if (mem_checks(w, CHECK_UNINIT) && wave_exec(w)) {
        uint32_t valid = w->s_valid[rsrc->reg] & w->s_valid[rsrc->reg + 1] &
                         w->s_valid[rsrc->reg + 2] & w->s_valid[rsrc->reg + 3];
        if (valid != UINT32_MAX
            && !wave_finding(w, in, FAULT_UNINIT, 0,
                             "undefined value in the buffer resource s[%u:%u]", rsrc->reg,
                             rsrc->reg + 3))
            return false;
        if (has(soffset) && !src_scalar_valid(w, soffset)
            && !wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in the buffer offset"))
            return false;
    }
    *r = (struct resource){
        .base = d[0] | (uint64_t)(d[1] & 0xffff) << 32,
        .stride = d[1] >> 16 & 0x3fff,
        .num_records = d[2],
        .soffset = has(soffset) ? (uint32_t)src_scalar(w, soffset) : 0,
        .num_format = d[3] >> 12 & 7,
        .data_format = d[3] >> 15 & 15,
        .add_tid = d[3] >> 23 & 1,
    };
    if (r->add_tid) { /* data_format then holds bits 17:14 of the stride */
        r->stride |= (uint32_t)r->data_format << 14;
    }
    if (d[1] >> 31) {
        wave_fault(w, in, FAULT_TRAP, 0, "swizzled buffer resource s[%u:%u] = %08x %08x %08x %08x: "
                   "swizzled addressing is not simulated", rsrc->reg, rsrc->reg + 3, d[0], d[1],
                   d[2], d[3]);
        return false;
    }
    return true;
}

static bool lane_offsets(struct wave *w, const struct inst *in, const struct resource *r,
                         uint64_t lanes, struct buffer_lanes *b)
{
    const struct opnd *v = &in->src[SRC_ADDR];
    const uint32_t *rows = NULL, *index = NULL, *offset = NULL;
    uint32_t tmp[2 * WAVE_LANES];

    if (in->idxen || in->offen) {
        if (!mem_defined(w, in, v, lanes, "the address"))
            return false;
        rows = src_rows(w, v, tmp);
        index = in->idxen ? rows : NULL;
        offset = in->offen ? rows + (in->idxen ? WAVE_LANES : 0) : NULL;
    }
    b->structured = (in->idxen || r->add_tid) && r->stride;
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        b->index[l] = (index ? index[l] : 0) + (uint64_t)(r->add_tid ? l : 0);
        b->offset[l] = b->index[l] * r->stride + (offset ? offset[l] : 0) +
                       (uint32_t)in->imm_offset;
    }
    return true;
}

/* Lanes of `lanes` whose bytes [first, first + bytes) are in range of the resource. */
static uint64_t in_range(const struct resource *r, const struct buffer_lanes *b, uint64_t lanes,
                         unsigned first, unsigned bytes)
{
    uint64_t ok = 0;

    for (unsigned l = 0; l < WAVE_LANES; l++) {
        bool inside = b->structured
            ? b->index[l] < r->num_records
            : b->offset[l] + first + bytes + r->soffset <= r->num_records;
        ok |= (uint64_t)inside << l;
    }
    return ok & lanes;
}

static void addresses(const struct resource *r, const struct buffer_lanes *b, unsigned first,
                      uint64_t addr[WAVE_LANES])
{
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = r->base + r->soffset + b->offset[l] + first;
}

static enum mem_direction direction(const struct inst *in)
{
    bool load = in->row->flags & ROW_LOAD, store = in->row->flags & ROW_STORE;

    return load && store ? MEM_MODIFY : store ? MEM_WRITE : MEM_READ;
}

static bool move(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                 const struct opnd *reg)
{
    if (!mem_resolve(w, in, m, MEM_BYTES(arg), direction(in)))
        return false;
    if (in->lds)
        return mem_load_to_lds(w, in, m, arg);
    if (MEM_ATOMIC(arg) != ATOMIC_NONE)
        return mem_atomic_split(w, in, m, arg, reg, has(&in->dst) ? &in->dst : NULL);
    if (in->row->flags & ROW_LOAD) {
        mem_load(w, m, arg, reg);
        return true;
    }
    return mem_store(w, in, m, arg, reg);
}

/* Some lane is partly out of range: dword after dword. */
static bool move_dwords(struct wave *w, const struct inst *in, const struct resource *r,
                        const struct buffer_lanes *b, uint64_t lanes, const struct opnd *reg)
{
    unsigned dwords = MEM_BYTES(in->row->arg) / 4;
    struct mem_access whole = w->access;

    for (unsigned i = 0; i < dwords; i++) {
        struct lane_mem m = { .space = MEM_GLOBAL, .lanes = in_range(r, b, lanes, 4 * i, 4) };
        struct opnd one = *reg;
        m.dropped = lanes & ~m.lanes;
        one.reg = (uint16_t)(reg->reg + i);
        one.dwords = 1;
        addresses(r, b, 4 * i, m.addr);
        if (!move(w, in, &m, MEM_ARG(4, 0, 0, 0), &one))
            return false;
        if (i == 0)
            whole = w->access;
    }
    w->access = whole;
    w->access.bytes = (uint8_t)(4 * dwords);
    return true;
}

static void issue(struct wave *w, const struct inst *in)
{
    const struct opnd *d = &in->dst;

    if (in->lds) /* mem_load_to_lds() has */
        return;
    if (has(d))
        wave_issue(w, in, WAIT_VM, d->kind, d->reg, d->dwords, false);
    else
        wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
}

static void exec_mubuf(struct wave *w, const struct inst *in)
{
    uint32_t arg = in->row->arg;
    uint64_t lanes = wave_exec(w);
    const struct opnd *reg = &in->src[SRC_DATA];
    struct resource r;
    struct buffer_lanes b;
    struct lane_mem m = { .space = MEM_GLOBAL };

    if (MEM_ATOMIC(arg) == ATOMIC_NONE && in->row->flags & ROW_LOAD)
        reg = &in->dst;
    if (!read_resource(w, in, &r) || !lane_offsets(w, in, &r, lanes, &b))
        return;
    m.lanes = in_range(&r, &b, lanes, 0, MEM_BYTES(arg));
    m.dropped = lanes & ~m.lanes;
    bool partly = m.dropped && MEM_BYTES(arg) > 4 && MEM_ATOMIC(arg) == ATOMIC_NONE && !in->lds &&
                  in_range(&r, &b, m.dropped, 0, 4);
    if (partly) {
        if (move_dwords(w, in, &r, &b, lanes, reg))
            issue(w, in);
        return;
    }
    addresses(&r, &b, 0, m.addr);
    if (move(w, in, &m, arg, reg))
        issue(w, in);
}

/* -- format accesses --------------------------------------------------------------------------- */

/*
 * Formats of whole dwords only: data format 32, 32_32, 32_32_32, 32_32_32_32 with number format
 * uint, sint or float, which convert nothing. The rest is refused.
 */
enum { DATA_32 = 4, DATA_32_32 = 11, DATA_32_32_32 = 13, DATA_32_32_32_32 = 14 };
enum { NUM_UINT = 4, NUM_SINT = 5, NUM_FLOAT = 7 };

static unsigned format_components(const struct resource *r)
{
    if (r->num_format != NUM_UINT && r->num_format != NUM_SINT && r->num_format != NUM_FLOAT)
        return 0;
    switch (r->data_format) {
    case DATA_32: return 1;
    case DATA_32_32: return 2;
    case DATA_32_32_32: return 3;
    case DATA_32_32_32_32: return 4;
    default: return 0;
    }
}

/* Component selects of a load: 0 and 1 are constants, 4 .. 7 are x .. w. */
static void select_components(struct wave *w, const struct inst *in, const uint32_t *select,
                              uint32_t one, const uint32_t (*from)[WAVE_LANES], uint64_t lanes,
                              const uint64_t *valid)
{
    struct reg_rows out = reg_rows(w, &in->dst);
    unsigned l;

    for (unsigned i = 0; i < in->row->arg; i++) {
        uint64_t ok = select[i] >= 4 ? valid[select[i] - 4] : lanes;
        FOR_LANES(l, lanes)
            out.row[i][l] = select[i] >= 4 ? from[select[i] - 4][l] : select[i] == 1 ? one : 0;
        out.valid[i] = (out.valid[i] & ~lanes) | (ok & lanes);
    }
}

static bool load_format(struct wave *w, const struct inst *in, const struct resource *r,
                        struct lane_mem *m, unsigned components)
{
    uint32_t word3 = w->sgpr[in->src[SRC_RSRC].reg + 3], select[4];
    uint32_t from[4][WAVE_LANES] = { { 0 } };
    uint64_t valid[4], lanes = m->lanes | m->dropped;
    unsigned l;

    if (!mem_resolve(w, in, m, 4 * components, MEM_READ))
        return false;
    for (unsigned i = 0; i < 4; i++) {
        valid[i] = lanes;
        select[i] = word3 >> (3 * i) & 7;
        if (i >= components)
            continue;
        valid[i] = mem_written(w, m, 4 * i, 4) | m->dropped;
        FOR_LANES(l, m->lanes)
            from[i][l] = mem_get32(m->ptr[l] + 4 * i);
    }
    select_components(w, in, select, r->num_format == NUM_FLOAT ? 0x3f800000 : 1,
                      (const uint32_t (*)[WAVE_LANES])from, lanes, valid);
    return true;
}

static void exec_format(struct wave *w, const struct inst *in)
{
    uint64_t lanes = wave_exec(w);
    struct resource r;
    struct buffer_lanes b;
    struct lane_mem m = { .space = MEM_GLOBAL };

    if (!read_resource(w, in, &r) || !lane_offsets(w, in, &r, lanes, &b))
        return;
    if (in->encoding == ENC_MTBUF) {
        r.data_format = in->raw[0] >> 19 & 15;
        r.num_format = in->raw[0] >> 23 & 7;
    }
    unsigned components = format_components(&r);
    if (!components) {
        wave_fault(w, in, FAULT_TRAP, 0, "buffer data format %u with number format %u is not "
                   "simulated", r.data_format, r.num_format);
        return;
    }
    m.lanes = in_range(&r, &b, lanes, 0, 4 * components);
    m.dropped = lanes & ~m.lanes;
    addresses(&r, &b, 0, m.addr);
    if (in->row->flags & ROW_LOAD) {
        if (load_format(w, in, &r, &m, components))
            issue(w, in);
        return;
    }
    if (components > in->row->arg)
        components = in->row->arg;
    if (mem_resolve(w, in, &m, 4 * components, MEM_WRITE) &&
        mem_store(w, in, &m, MEM_ARG(4 * components, 0, 0, 0), &in->src[SRC_DATA]))
        issue(w, in);
}

static void exec_d16_format(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_TRAP, 0, "buffer formats with 16-bit components are not simulated");
}

/* Caches hold nothing back in this simulator: every store is visible at once. */
static void exec_cache(struct wave *w, const struct inst *in)
{
    if (in->row->wait)
        wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
}

#define VM (1 + WAIT_VM)
#define FLAGS (ROW_VMEM | ROW_SHARED)
#define BUFFER(n, d, data, f, a) \
    { .name = "buffer_" n, .exec = exec_mubuf, .dst = d, \
      .src = { T_B64, data, T_B128, T_U32 }, .flags = FLAGS | (f), .wait = VM, .arg = a }
#define LOAD(n, d, a) BUFFER("load_" n, d, T_NONE, ROW_LOAD, a)
#define LOAD_D16(n, a) BUFFER("load_" n, T_B32, T_NONE, ROW_LOAD | ROW_DST_IS_SRC | ROW_PARTIAL, a)
#define STORE(n, d, a) BUFFER("store_" n, T_NONE, d, ROW_STORE, a)
#define FORMAT(prefix, n, run, d, data, f, components) \
    { .name = prefix n, .exec = run, .dst = d, .src = { T_B64, data, T_B128, T_U32 }, \
      .flags = FLAGS | (f), .wait = VM, .arg = components }
#define FORMATS(prefix, n, run, d, c) \
    FORMAT(prefix, "load_format_" n, run, d, T_NONE, ROW_LOAD, c), \
    FORMAT(prefix, "store_format_" n, run, T_NONE, d, ROW_STORE, c)
#define D16_FORMATS(prefix, n, d, c) \
    FORMAT(prefix, "load_format_d16_" n, exec_d16_format, d, T_NONE, ROW_LOAD, c), \
    FORMAT(prefix, "store_format_d16_" n, exec_d16_format, T_NONE, d, ROW_STORE, c)
#define ALL_FORMATS(prefix) \
    FORMATS(prefix, "x", exec_format, T_B32, 1), FORMATS(prefix, "xy", exec_format, T_B64, 2), \
    FORMATS(prefix, "xyz", exec_format, T_B96, 3), \
    FORMATS(prefix, "xyzw", exec_format, T_B128, 4), \
    D16_FORMATS(prefix, "x", T_B32, 1), D16_FORMATS(prefix, "xy", T_B32, 2), \
    D16_FORMATS(prefix, "xyz", T_B64, 3), D16_FORMATS(prefix, "xyzw", T_B64, 4)
#define ATOMIC4(n, op) BUFFER("atomic_" n, T_B32, T_B32, ROW_LOAD | ROW_STORE, MEM_ARG(4, 0, 0, op))
#define ATOMIC8(n, op) BUFFER("atomic_" n, T_B64, T_B64, ROW_LOAD | ROW_STORE, MEM_ARG(8, 0, 0, op))
#define ATOMIC(n, op) ATOMIC4(n, op), ATOMIC8(n "_x2", op)

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
    ATOMIC("swap", ATOMIC_SWAP), ATOMIC("add", ATOMIC_ADD), ATOMIC("sub", ATOMIC_SUB),
    ATOMIC("smin", ATOMIC_SMIN), ATOMIC("umin", ATOMIC_UMIN), ATOMIC("smax", ATOMIC_SMAX),
    ATOMIC("umax", ATOMIC_UMAX), ATOMIC("and", ATOMIC_AND), ATOMIC("or", ATOMIC_OR),
    ATOMIC("xor", ATOMIC_XOR), ATOMIC("inc", ATOMIC_INC), ATOMIC("dec", ATOMIC_DEC),
    BUFFER("atomic_cmpswap", T_B32, T_B64, ROW_LOAD | ROW_STORE, MEM_ARG(4, 0, 0, ATOMIC_CMPSWAP)),
    BUFFER("atomic_cmpswap_x2", T_B64, T_B128, ROW_LOAD | ROW_STORE,
           MEM_ARG(8, 0, 0, ATOMIC_CMPSWAP)),
    ATOMIC4("add_f32", ATOMIC_ADD_F), ATOMIC8("add_f64", ATOMIC_ADD_F),
    ATOMIC8("min_f64", ATOMIC_MIN_F), ATOMIC8("max_f64", ATOMIC_MAX_F),
    ATOMIC4("pk_add_f16", ATOMIC_PK_ADD_F16),
    BUFFER("atomic_pk_add_bf16", T_B32, T_B32, ROW_LOAD | ROW_STORE | ROW_GFX950,
           MEM_ARG(4, 0, 0, ATOMIC_PK_ADD_BF16)),
    ALL_FORMATS("buffer_"), ALL_FORMATS("tbuffer_"),
    FORMAT("buffer_", "load_format_d16_hi_x", exec_d16_format, T_B32, T_NONE, ROW_LOAD, 1),
    FORMAT("buffer_", "store_format_d16_hi_x", exec_d16_format, T_NONE, T_B32, ROW_STORE, 1),
    { .name = "buffer_wbl2", .exec = exec_cache, .flags = ROW_VMEM, .wait = VM },
    { .name = "buffer_inv", .exec = exec_cache, .flags = ROW_VMEM },
    { .name = NULL },
};

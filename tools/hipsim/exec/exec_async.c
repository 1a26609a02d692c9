/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gfx1250's copies between memory and LDS that pass no register: asynchronous loads and stores with
 * an address per lane (CDNA5 ISA, 10.8), and the tensor data mover (10.11). The bytes are copied at
 * issue. LDS bytes count as in flight until the wave has waited for ASYNCcnt or TENSORcnt. They
 * also land when a wave has seen that a later arrival completed the phase of an LDS barrier
 * (11.2.2).
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "exec_flat.h"
#include "mem.h"
#include "tables.h"
#include "wait.h"

#define SRC_LDS 3 /* index in op->src of the VGPR with the LDS address, for asynchronous copies */

/* Copies `bytes` bytes (1, 4, 8 or 16) per lane from `from` to `to`; both have resolved addresses.
 * Lanes that `to` has and `from` lacks are filled with zeros. */
static void copy_lanes(struct wave *w, struct lane_mem *from, struct lane_mem *to, unsigned bytes)
{
    const uint64_t zero = to->lanes & ~from->lanes;
    unsigned l;

    for (unsigned at = 0; at < bytes; at += 4) {
        const unsigned n = bytes < 4 ? bytes : 4;
        const uint64_t valid = mem_written(w, from, at, n) | zero;
        FOR_LANES(l, to->lanes)
        {
            if (zero >> l & 1)
                memset(to->ptr[l] + at, 0, n);
            else if (n == 4)
                mem_put32(to->ptr[l] + at, mem_get32(from->ptr[l] + at));
            else
                memcpy(to->ptr[l] + at, from->ptr[l] + at, n);
        }
        mem_mark(w, to, at, n, valid);
    }
}

/* The functions from here on execute asynchronous loads and stores. */

/* Returns a bit for each lane whose LDS address is beyond the whole LDS of a work-group processor.
 * Triton masks lanes by such addresses: hardware drops writes beyond the kernel's allocation (CDNA5
 * ISA, 3.3.3). Lanes beyond the allocation but within that LDS have no bit; mem_resolve() reports
 * them. */
static uint64_t beyond_lds(const struct wave *w, const struct lane_mem *lds)
{
    const uint32_t limit = code_isa(w->launch->code)->lds_bytes;
    uint64_t masked = 0;
    unsigned l;

    FOR_LANES(l, lds->lanes)
    masked |= (uint64_t)(lds->addr[l] >= limit) << l;
    return masked;
}

/* Sets to->addr and to->lanes to the dwords that the bytes at `lds` are in. Returns the lanes whose
 * dword another lane has too. */
static uint64_t dwords_of(const struct lane_mem *lds, struct lane_mem *to)
{
    uint64_t shared = 0;
    unsigned l, k;

    to->lanes = lds->lanes;
    FOR_LANES(l, lds->lanes)
    to->addr[l] = lds->addr[l] & ~UINT64_C(3);
    FOR_LANES(l, lds->lanes)
    for (k = 0; k < l; k++)
        if (lds->lanes >> k & 1 && to->addr[k] == to->addr[l])
            shared |= UINT64_C(1) << l | UINT64_C(1) << k;
    return shared;
}

/* Loads a byte of each lane to LDS, and zeros to the other bytes of its dword, since the target has
 * ECC (CDNA5 ISA, 13.1.4). The manual has no rule for several lanes with the same dword. All bytes
 * of such a dword become undefined. */
static void load_bytes(struct wave *w, const struct inst *in, struct lane_mem *from,
                       const struct lane_mem *lds)
{
    struct lane_mem to = {.space = MEM_LDS};
    struct lds_range range = {0};
    const uint64_t shared = dwords_of(lds, &to);
    unsigned l;

    if (!mem_resolve(w, in, &to, 4, MEM_WRITE) || !mem_resolve(w, in, from, 1, MEM_READ))
        return;
    const uint64_t valid = mem_written(w, from, 0, 1) | ~from->lanes;
    FOR_LANES(l, to.lanes)
    {
        const unsigned at = 8 * (lds->addr[l] & 3);
        const uint32_t bits = valid >> l & 1 ? UINT32_MAX : ~(UINT32_C(0xff) << at);
        mem_put32(to.ptr[l], from->lanes >> l & 1 ? (uint32_t)*from->ptr[l] << at : 0);
        mem_mark_bits(w, &to, l, 0, shared >> l & 1 ? 0 : bits);
    }
    lds_mark(w, &to, 4, &range);
    lds_issue_range(w, in, WAIT_VM, &range);
}

/* Executes an asynchronous load or store: resolves both addresses of each lane and copies the
 * bytes. */
static void exec_async(struct wave *w, const struct inst *in)
{
    const unsigned bytes = MEM_BYTES(in->row->arg);
    const bool load = in->row->flags & ROW_LOAD;
    struct lane_mem global = {.space = MEM_GLOBAL, .lanes = wave_exec(w)};
    struct lane_mem lds = {.space = MEM_LDS, .lanes = global.lanes};
    struct lds_range range = {0};

    if (!flat_addresses(w, in, global.lanes, global.addr) ||
        !mem_lds_addresses(w, in, &in->src[SRC_LDS], (uint32_t)in->imm_offset, &lds))
        return;
    if (load)
        global.lanes = lds.lanes &= ~beyond_lds(w, &lds);
    if (load && bytes == 1) {
        load_bytes(w, in, &global, &lds);
        return;
    }
    if (!mem_resolve(w, in, &lds, bytes, load ? MEM_WRITE : MEM_READ) ||
        !mem_resolve(w, in, &global, bytes, load ? MEM_READ : MEM_WRITE))
        return;
    if (load) {
        global.lanes &= lds.lanes;
        copy_lanes(w, &global, &lds, bytes);
        lds_mark(w, &lds, bytes, &range);
    } else {
        lds.lanes &= global.lanes;
        global.lanes = lds.lanes;
        copy_lanes(w, &lds, &global, bytes);
    }
    lds_issue_range(w, in, WAIT_VM, &range);
}

/* Executes an arrival of each lane of `m` at the LDS barrier at its address. The newest operation
 * of `counter` is the arrival, or ends with it. */
static void arrive(struct wave *w, const struct inst *in, struct lane_mem *m,
                   enum wait_counter counter)
{
    unsigned l;

    if (!mem_resolve(w, in, m, 8, MEM_MODIFY) || !mem_atomic_finds(w, in, m, 8))
        return;
    lds_arrives(w, counter, m);
    FOR_LANES(l, m->lanes)
    mem_modify(m->ptr[l], ATOMIC_ARRIVE, 8, 1, 0, w->mode);
    mem_mark(w, m, 0, 8, m->lanes);
}

/* Executes DS_ATOMIC_ASYNC_BARRIER_ARRIVE, which the hardware keeps in order with the wave's
 * asynchronous loads. */
static void exec_async_arrive(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.space = MEM_LDS, .lanes = wave_exec(w)};

    if (!mem_lds_addresses(w, in, &in->src[0], (uint32_t)in->imm_offset, &m))
        return;
    wave_issue(w, in, WAIT_ASYNC, OPND_NONE, 0, 0, false);
    arrive(w, in, &m, WAIT_ASYNC);
}

/* The functions from here on simulate the tensor data mover. */

enum { TENSOR_DIMS = 5, TENSOR_ROWS = 16, TENSOR_IMAGE = 2 /* of a descriptor's field `type` */ };

/* A decoded tensor descriptor. Sizes and strides count elements unless a comment names bytes. */
struct tensor {
    /* true: the copy is made; false: kernels clear `type` so that nothing is copied */
    bool valid;
    unsigned element; /* bytes of an element */
    uint32_t lds;     /* byte address of the tile in LDS */
    uint64_t global;  /* byte address of the tile in global memory */
    /* size of the tensor in each dimension, counted from the tile's start */
    uint64_t dim[TENSOR_DIMS];
    uint64_t tile[TENSOR_DIMS]; /* size of the tile; 1 in dimensions that are not used */
    bool used[TENSOR_DIMS];     /* true: the descriptor has a tile size for the dimension */
    /* elements between neighbours in each dimension; the first is 1 */
    uint64_t stride[TENSOR_DIMS];
    /* bytes of LDS data between two paddings; bytes of a padding; 0: no padding */
    uint32_t interval, pad;
    bool gather;
    uint32_t row[TENSOR_ROWS]; /* indices of the tensor's rows that `gather` collects */
    /* workgroups of the cluster that a multicast load serves, a bit each; 0: no multicast */
    uint32_t mask;
    bool early;           /* true: multicast uses the early timeout; false: the standard one */
    uint32_t times;       /* tiles that are copied one after the other */
    uint32_t lds_step;    /* bytes in LDS from the start of a tile to the start of the next */
    uint64_t global_step; /* the same in global memory */
    bool arrives;         /* true: the copy ends with an arrival at the LDS barrier `barrier` */
    uint32_t barrier;     /* byte address of the barrier in LDS */
};

/* Returns the `n` bits that begin at bit `at` of a descriptor group. */
static uint64_t field(const uint32_t *group, unsigned at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)(group[(at + i) / 32] >> (at + i) % 32 & 1) << i;
    return value;
}

/* Copies group `k` of the descriptor to `group`; an absent group becomes zeros. False after a
 * report of an undefined register. */
static bool read_group(struct wave *w, const struct inst *in, unsigned k, uint32_t *group)
{
    const struct opnd *o = &in->src[k];
    memset(group, 0, 8 * sizeof(*group));
    if (o->kind != OPND_SGPR)
        return true;
    memcpy(group, w->sgpr + o->reg, o->dwords * sizeof(*group));
    for (unsigned i = 0; i < o->dwords; i++)
        if (mem_checks(w, CHECK_UNINIT) && w->s_valid[o->reg + i] != UINT32_MAX)
            return wave_finding(w, in, FAULT_UNINIT, 0,
                                "undefined value in the tensor descriptor (s%u)", o->reg + i);
    return true;
}

/* Reads the row indices of a gathering descriptor, in groups 2 and 3, to t->row. */
static void read_rows(struct tensor *t, const uint32_t *g0, const uint32_t *g2, const uint32_t *g3)
{
    const bool wide = g0[0] >> 30 & 1;
    for (unsigned i = 0; i < TENSOR_ROWS; i++) {
        const unsigned bit = i * (wide ? 32 : 16), n = wide ? 32 : 16;
        if (bit + n <= 256)
            t->row[i] = (uint32_t)field(bit < 128 ? g2 : g3, bit % 128, n);
    }
}

/* True if `mask` is a set of workgroups of the wave's cluster that includes its own. Otherwise
 * reports a fault, which ends the wave. Each workgroup of the mask issues the load and gets the
 * data in its own LDS (CDNA5 ISA, 10.7). Each load is therefore executed for a single workgroup. */
static bool mask_is_right(struct wave *w, const struct inst *in, uint32_t mask)
{
    const uint32_t *n = w->launch->cluster, *at = w->wg->in_cluster;
    const uint32_t own = at[0] + n[0] * (at[1] + n[1] * at[2]);
    if (n[0] && mask >> own & 1)
        return true;
    wave_fault(w, in, FAULT_TRAP, 0,
               n[0] ? "the tensor descriptor's mask %#x lacks the workgroup itself, %u"
                    : "the tensor descriptor has a mask of workgroups, %#x, outside of a cluster",
               mask, own);
    return false;
}

/* True if the descriptor *t is invalid, so that nothing is copied, or hipsim simulates all of its
 * fields; false after a report. `flags` is the first dword of group 1. g2 is group 2, where rows to
 * gather take the bits of an iteration, so both at once are refused. So are iterations over more
 * than 256 tiles, the limit of LLVM's dialect amdgpu. */
static bool is_simulated(struct wave *w, const struct inst *in, const struct tensor *t,
                         uint32_t flags, const uint32_t *g2)
{
    const bool iterates = flags >> 19 & 1;
    const char *const lacking = iterates && t->gather ? "iteration with a gather of rows"
                                : iterates && field(g2, 112, 16) > 255 ? "more than 256 iterations"
                                                                       : NULL;
    if (!t->valid || !lacking)
        return true;
    wave_fault(w, in, FAULT_TRAP, 0, "the tensor descriptor asks for %s, which is not simulated",
               lacking);
    return false;
}

/* Reads the iteration from group 2, where it replaces the upper dimensions (CDNA5 ISA, 10.11.3.1,
 * table 64). The field of the count has one less than the tiles, as LLVM's dialect amdgpu writes
 * it. */
static void read_iteration(struct tensor *t, const uint32_t *g2)
{
    t->lds_step = g2[1] * t->element;
    t->global_step = field(g2, 64, 48) * t->element;
    t->times = (uint32_t)field(g2, 112, 16) + 1;
    t->tile[3] = t->tile[4] = 0;
}

/* Decodes the descriptor (CDNA5 ISA, tables 62 to 67) to *t. False after a report. */
static bool read_tensor(struct wave *w, const struct inst *in, struct tensor *t)
{
    uint32_t g[4][8];
    for (unsigned k = 0; k < 4; k++)
        if (!read_group(w, in, k, g[k]))
            return false;
    *t = (struct tensor){
        .valid = field(g[0], 0, 2) == 1 && field(g[0], 126, 2) == TENSOR_IMAGE,
        .element = 1u << field(g[1], 16, 2),
        .lds = g[0][1],
        .global = field(g[0], 64, 57),
        .dim = {field(g[1], 48, 32), field(g[1], 80, 32), g[2][0], g[2][1], field(g[3], 48, 32)},
        .tile = {field(g[1], 112, 16), field(g[1], 128, 16), field(g[1], 144, 16),
                 field(g[2], 112, 16), field(g[3], 80, 16)},
        .stride = {1, field(g[1], 160, 48), field(g[1], 208, 48), field(g[2], 64, 48),
                   field(g[3], 0, 48)},
        .gather = g[0][0] >> 31,
        .mask = in->row->flags & ROW_LOAD ? g[1][0] & 0xffff : 0, /* only loads have a mask */
        .early = g[1][0] >> 21 & 1,
        .times = 1,
        .arrives = g[1][0] >> 18 & 1,
        .barrier = (uint32_t)field(g[1], 32, 16) << 3,
    };
    if (!is_simulated(w, in, t, g[1][0], g[2]))
        return false;
    if (g[1][0] >> 19 & 1)
        read_iteration(t, g[2]);
    if (t->valid && g[1][0] & 0xffff && !mask_is_right(w, in, g[1][0] & 0xffff))
        return false;
    if (g[1][0] >> 20 & 1 && in->row->flags & ROW_LOAD) {
        t->interval = 8u << field(g[1], 22, 3); /* 2^(n + 1) dwords */
        t->pad = 4 * ((uint32_t)field(g[1], 25, 7) + 1);
    }
    if (t->gather) {
        read_rows(t, g[0], g[2], g[3]);
        t->tile[2] = t->tile[3] = t->tile[4] = 0;
    }
    for (unsigned d = 1; d < TENSOR_DIMS; d++) {
        t->used[d] = t->tile[d] > 0;
        t->tile[d] = t->used[d] ? t->tile[d] : 1;
    }
    return true;
}

/* Returns the largest unit, in bytes, that divides the addresses, strides and lengths of the copy:
 * 1, 4, 8 or 16. */
static unsigned unit_of(const struct tensor *t)
{
    const uint64_t valid = t->dim[0] < t->tile[0] ? t->dim[0] : t->tile[0];
    uint64_t all = 16 | t->lds | t->global | t->tile[0] * t->element | valid * t->element | t->pad;
    all |= t->lds_step | t->global_step;
    for (unsigned d = 1; d < TENSOR_DIMS; d++)
        all |= t->tile[d] > 1 ? t->stride[d] * t->element : 0;
    const unsigned unit = (unsigned)(all & -all);
    return unit == 2 ? 1 : unit; /* copy_lanes() has no unit of 2 */
}

/* Sets *address to the global address of byte `x` of row `row` of the tile. False if that byte is
 * outside of the tensor. */
static bool place(const struct tensor *t, uint64_t row, uint64_t x, uint64_t *address)
{
    bool inside = x / t->element < t->dim[0];
    *address = t->global + x;
    for (unsigned d = 1; d < TENSOR_DIMS; d++) {
        uint64_t at = row % t->tile[d];
        row /= t->tile[d];
        if (d == 1 && t->gather)
            at = at < TENSOR_ROWS ? t->row[at] : 0;
        inside &= !t->used[d] || at < t->dim[d];
        *address += at * t->stride[d] * t->element;
    }
    return inside;
}

/* Sets the addresses and lanes of a batch of at most WAVE_LANES units, of `unit` bytes each. The
 * batch begins at unit `first` of the copy's `units`. Returns the number of units in it. */
static unsigned gather_lanes(const struct tensor *t, uint64_t first, uint64_t units, unsigned unit,
                             struct lane_mem *global, struct lane_mem *lds)
{
    const uint64_t row_bytes = t->tile[0] * t->element;
    unsigned n = 0;
    for (; n < WAVE_LANES && first + n < units; n++) {
        const uint64_t byte = (first + n) * unit;
        const uint64_t bit = UINT64_C(1) << n;
        if (place(t, byte / row_bytes, byte % row_bytes, &global->addr[n]))
            global->lanes |= bit;
        lds->lanes |= bit;
        lds->addr[n] = t->lds + byte + (t->pad ? byte / t->interval * t->pad : 0);
    }
    return n;
}

/* Copies a batch of units between `global` and `lds`, in the direction of the instruction. Loads
 * add the written LDS bytes to *range. False after a report. */
static bool copy_batch(struct wave *w, const struct inst *in, struct lane_mem *global,
                       struct lane_mem *lds, unsigned unit, struct lds_range *range)
{
    const bool load = in->row->flags & ROW_LOAD;
    if (!load)
        lds->lanes &= global->lanes;
    if (!mem_resolve(w, in, lds, unit, load ? MEM_WRITE : MEM_READ) ||
        !mem_resolve(w, in, global, unit, load ? MEM_READ : MEM_WRITE))
        return false;
    if (load) {
        global->lanes &= lds->lanes;
        copy_lanes(w, global, lds, unit);
        lds_mark(w, lds, unit, range);
        return true;
    }
    global->lanes &= lds->lanes;
    lds->lanes = global->lanes;
    copy_lanes(w, lds, global, unit);
    return true;
}

/* Appends `line`, an address divided by the line size, to the record; sets t->failed if memory runs
 * out. */
static void append_line(struct tensor_lines *t, uint64_t line)
{
    if (t->n == t->room) {
        const uint32_t room = t->room ? 2 * t->room : 256;
        uint64_t *const larger = realloc(t->line, room * sizeof(*larger));
        if (!larger) {
            t->failed = true;
            return;
        }
        t->line = larger;
        t->room = room;
    }
    t->line[t->n++] = line;
}

/* Adds the bytes of a batch to w->tensor_bytes, and its cache lines to the launch's record if it
 * has one. The `unit` bytes of a lane are in one line. */
static void note_piece(struct wave *w, const struct lane_mem *global, unsigned unit)
{
    enum { LINE = 128 };
    struct tensor_lines *const t = w->launch->tensor;
    unsigned l;
    w->tensor_bytes += (uint64_t)__builtin_popcountll(global->lanes) * unit;
    if (!t)
        return;
    FOR_LANES(l, global->lanes)
    {
        const uint64_t line = global->addr[l] / LINE;
        if (!t->n || t->line[t->n - 1] != line)
            append_line(t, line);
    }
}

/* Copies a tile of `units` units of `unit` bytes. Loads add the written LDS bytes to *range. False
 * after a report. */
static bool copy_tile(struct wave *w, const struct inst *in, const struct tensor *t, uint64_t units,
                      unsigned unit, struct lds_range *range)
{
    for (uint64_t first = 0; first < units;) {
        struct lane_mem global = {.space = MEM_GLOBAL}, lds = {.space = MEM_LDS};
        first += gather_lanes(t, first, units, unit, &global, &lds);
        if (!copy_batch(w, in, &global, &lds, unit, range))
            return false;
        note_piece(w, &global, unit);
    }
    return true;
}

/* Executes a copy of the tensor data mover: reads the descriptor and copies its tiles one after the
 * other. */
static void exec_tensor(struct wave *w, const struct inst *in)
{
    struct tensor t;
    struct lds_range range = {0};

    if (!read_tensor(w, in, &t))
        return;
    if (w->launch->tensor) {
        w->launch->tensor->n = 0;
        w->launch->tensor->mask = t.mask;
        w->launch->tensor->early = t.early;
    }
    const unsigned unit = unit_of(&t);
    uint64_t units = t.valid ? t.tile[0] * t.element / unit : 0;
    for (unsigned d = 1; d < TENSOR_DIMS; d++)
        units *= t.tile[d];
    for (uint32_t i = 0; i < t.times; i++) {
        if (!copy_tile(w, in, &t, units, unit, &range))
            return;
        t.lds += t.lds_step;
        t.global += t.global_step;
    }
    if (w->launch->tensor && w->launch->tensor->failed) {
        wave_fault(w, in, FAULT_TRAP, 0, "out of memory for the lines of a tensor copy");
        return;
    }
    lds_issue_range(w, in, WAIT_TENSOR, &range);
    if (t.valid && t.arrives) {
        struct lane_mem m = {.space = MEM_LDS, .lanes = 1, .addr = {t.barrier}};
        arrive(w, in, &m, WAIT_TENSOR);
    }
}

/* Rows of asynchronous copies name the counter of vector memory; the decoder replaces it by
 * ASYNCcnt. */
#define ASYNC(n, bytes, f)                               \
    {.name = n,                                          \
     .exec = exec_async,                                 \
     .src = {T_B64, T_NONE, T_B64, T_U32},               \
     .flags = ROW_VMEM | ROW_SHARED | ROW_LDS_DMA | (f), \
     .wait = 1 + WAIT_VM,                                \
     .arg = MEM_ARG(bytes, PART_ALL, 0, ATOMIC_NONE),    \
     .targets = GFX1250}
#define ASYNCS(n, f) \
    ASYNC(n "_b8", 1, f), ASYNC(n "_b32", 4, f), ASYNC(n "_b64", 8, f), ASYNC(n "_b128", 16, f)
#define TENSOR(n, f)                                                   \
    {.name = n,                                                        \
     .exec = exec_tensor,                                              \
     .src = {T_B128, T_B256, T_B128, T_B128},                          \
     .flags = ROW_VMEM | ROW_SHARED | ROW_LDS_DMA | ROW_NO_EXEC | (f), \
     .wait = 1 + WAIT_TENSOR,                                          \
     .targets = GFX1250}

const struct op_row exec_async_rows[] = {
    ASYNCS("global_load_async_to_lds", ROW_LOAD),
    ASYNCS("global_store_async_from_lds", ROW_STORE),
    ASYNCS("cluster_load_async_to_lds", ROW_LOAD), /* without a cluster it equals
                                                      global_load_async_to_lds */
    {.name = "ds_atomic_async_barrier_arrive_b64",
     .exec = exec_async_arrive,
     .src = {T_B32},
     .flags = ROW_LDS | ROW_SHARED | ROW_LOAD | ROW_STORE,
     .wait = 1 + WAIT_ASYNC,
     .targets = GFX1250},
    TENSOR("tensor_load_to_lds", ROW_LOAD),
    TENSOR("tensor_store_from_lds", ROW_STORE),
    {.name = NULL},
};

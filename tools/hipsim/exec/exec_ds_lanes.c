/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LDS instructions that exchange data between lanes, compute addresses from the lane's number, or
 * transpose. Sources: CDNA3 and CDNA4 ISA, 12.16, pseudo-code of each instruction.
 */
#include <string.h>

#include "check.h"
#include "exec_ds.h"
#include "mem.h"

#define SRC_ADDR 0
#define SRC_DATA 1

/* Writes `value` to the destination in the active lanes and counts the instruction as in flight.
 * `valid` is the mask of defined lanes. */
static void write_lanes(struct wave *w, const struct inst *in, const uint32_t *value,
                        uint64_t valid)
{
    dst_write_rows(w, &in->dst, value, wave_exec(w), valid);
    ds_issue(w, in);
}

/* The operands of DS_PERMUTE and DS_BPERMUTE, as rows of lanes. */
struct lane_move {
    uint32_t room[2][WAVE_LANES];
    const uint32_t *addr, *data;
    uint64_t exec;
};

/* Reads the operands to *m. False after a report that the lane addresses are undefined. */
static bool read_move(struct wave *w, const struct inst *in, struct lane_move *m)
{
    m->exec = wave_exec(w);
    if (!mem_defined(w, in, &in->src[SRC_ADDR], m->exec, "the lane address"))
        return false;
    m->addr = src_rows(w, &in->src[SRC_ADDR], m->room[0]);
    m->data = src_rows(w, &in->src[SRC_DATA], m->room[1]);
    return true;
}

/* Returns the lane that the address operand of `lane` selects. */
static unsigned named_lane(const struct wave *w, const struct inst *in, const struct lane_move *m,
                           unsigned lane)
{
    const unsigned lanes = w->all == UINT64_MAX ? 64 : 32;
    return (m->addr[lane] + (uint32_t)in->imm_offset) / 4 % lanes;
}

/* DS_PERMUTE_B32: each lane sends its value to the lane that it selects. The highest sender wins;
 * lanes without a sender get zero. */
void ds_exec_permute(struct wave *w, const struct inst *in)
{
    uint32_t out[WAVE_LANES] = {0};
    uint64_t data_valid = src_valid(w, &in->src[SRC_DATA]), valid = UINT64_MAX;
    struct lane_move m;
    unsigned l;

    if (!read_move(w, in, &m))
        return;
    FOR_LANES(l, m.exec)
    {
        unsigned to = named_lane(w, in, &m, l);
        out[to] = m.data[l];
        valid = (valid & ~(UINT64_C(1) << to)) | (data_valid >> l & 1) << to;
    }
    write_lanes(w, in, out, valid);
}

/* DS_BPERMUTE_B32: each lane reads the lane that it selects; lanes outside of EXEC read as zero.
 * DS_BPERMUTE_FI_B32 (op_row.arg 1) reads them (RDNA4 ISA, chapter 16). */
void ds_exec_bpermute(struct wave *w, const struct inst *in)
{
    uint32_t out[WAVE_LANES] = {0};
    uint64_t data_valid = src_valid(w, &in->src[SRC_DATA]), valid = 0;
    struct lane_move m;
    unsigned l;

    if (!read_move(w, in, &m))
        return;
    const uint64_t read = in->row->arg ? UINT64_MAX : m.exec;
    data_valid |= ~read;
    FOR_LANES(l, m.exec)
    {
        unsigned from = named_lane(w, in, &m, l);
        out[l] = read >> from & 1 ? m.data[from] : 0;
        valid |= (data_valid >> from & 1) << l;
    }
    write_lanes(w, in, out, valid);
}

/* Returns the 5-bit number i with its bits in reverse order. */
static unsigned reverse5(unsigned i)
{
    return (i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | (i & 16) >> 4;
}

/*
 * Returns the lane that lane `l` reads. `offset` selects the mode: from 0xe000 on FFT, from 0xc000
 * rotation, from 0x8000 permutation in quads, below and/or/xor masks. All but the quads permute
 * groups of 32 lanes. Sources: Vega ISA, "DS_SWIZZLE_B32 details"; LLVM's swizzle() operands.
 */
static unsigned swizzle_source(unsigned l, uint32_t offset)
{
    unsigned i = l & 31, group = l & 32, mask = offset & 31;

    if (offset >= 0xe000)
        return group | reverse5(i) >> __builtin_popcount(mask) | (i & mask);
    if (offset >= 0xc000) {
        unsigned by = offset >> 5 & 31;
        if (offset & 0x400)
            by = 32 - by;
        return group | (i & mask) | ((i + by) & ~mask & 31);
    }
    if (offset >= 0x8000)
        return (l & ~3u) | (offset >> (2 * (l & 3)) & 3);
    return group | (((i & mask) | (offset >> 5 & 31)) ^ (offset >> 10 & 31));
}

void ds_exec_swizzle(struct wave *w, const struct inst *in)
{
    uint32_t tmp[WAVE_LANES], out[WAVE_LANES] = {0};
    const struct opnd *src = &in->src[SRC_ADDR];
    uint64_t exec = wave_exec(w), data_valid = src_valid(w, src) | ~exec, valid = 0;
    const uint32_t *data = src_rows(w, src, tmp);
    unsigned l;

    FOR_LANES(l, exec)
    {
        unsigned from = swizzle_source(l, (uint32_t)in->imm_offset & 0xffff);
        out[l] = exec >> from & 1 ? data[from] : 0;
        valid |= (data_valid >> from & 1) << l;
    }
    write_lanes(w, in, out, valid);
}

/* Sets the addresses of the _addtid_ forms: M0[15:0] + offset + 4 * lane. False after a report that
 * M0 is undefined. */
static bool addtid_addresses(struct wave *w, const struct inst *in, struct lane_mem *m)
{
    if (!m0_defined(w, in, UINT32_MAX, "the LDS address"))
        return false;
    m->space = MEM_LDS;
    m->lanes = wave_exec(w);
    for (unsigned l = 0; l < WAVE_LANES; l++)
        m->addr[l] = (uint32_t)in->imm_offset + (w->sgpr[SGPR_M0] & 0xffff) + 4 * l;
    return true;
}

void ds_exec_read_addtid(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.lanes = 0};

    if (!addtid_addresses(w, in, &m) || !mem_resolve(w, in, &m, 4, MEM_READ))
        return;
    mem_load(w, &m, in->row->arg, &in->dst);
    ds_issue(w, in);
}

void ds_exec_write_addtid(struct wave *w, const struct inst *in)
{
    struct lane_mem m = {.lanes = 0};

    if (addtid_addresses(w, in, &m) && mem_resolve(w, in, &m, 4, MEM_WRITE) &&
        mem_store(w, in, &m, in->row->arg, &in->src[SRC_DATA]))
        ds_issue(w, in);
}

/*
 * DS_APPEND adds the number of active lanes to the dword at M0[15:0] + offset; DS_CONSUME subtracts
 * it. Every active lane gets the old value (CDNA3 ISA, "DS_APPEND", "DS_CONSUME").
 */
void ds_exec_append(struct wave *w, const struct inst *in)
{
    uint64_t exec = wave_exec(w);
    uint32_t out[WAVE_LANES], count = (uint32_t)__builtin_popcountll(exec);
    struct lane_mem m = {.space = MEM_LDS, .lanes = exec ? 1 : 0};

    if (!m0_defined(w, in, UINT32_MAX, "the LDS address"))
        return;
    m.addr[0] = (w->sgpr[SGPR_M0] & 0xffff) + (uint32_t)in->imm_offset;
    if (!mem_resolve(w, in, &m, 4, MEM_MODIFY))
        return;
    if (m.lanes && !mem_written(w, &m, 0, 4) &&
        !wave_finding(w, in, FAULT_UNINIT, 0,
                      "atomic operation on memory that was never "
                      "written, at 0x%llx",
                      (unsigned long long)m.addr[0]))
        return;
    uint32_t old = m.lanes ? mem_get32(m.ptr[0]) : 0;
    if (m.lanes)
        mem_put32(m.ptr[0], in->row->arg ? old - count : old + count);
    for (unsigned l = 0; l < WAVE_LANES; l++)
        out[l] = old;
    write_lanes(w, in, out, UINT64_MAX);
}

/* Returns element `index` of a string of elements of `bits` bits each. */
static inline unsigned element(const uint32_t *words, unsigned index, unsigned bits)
{
    unsigned at = index * bits, word = at / 32, shift = at % 32;
    uint64_t pair = words[word];

    if (shift + bits > 32)
        pair |= (uint64_t)words[word + 1] << 32;
    return (unsigned)(pair >> shift) & ((1u << bits) - 1);
}

/*
 * The data of DS_READ_B64_TR_B16, _TR_B8, _TR_B4 and DS_READ_B96_TR_B6 (CDNA4). Each group of
 * sixteen lanes loads an n x 16 matrix, row by row: n elements a lane, n = 4, 8, 16, 16. Lane c of
 * the group receives column c. Its element e is therefore number e * 16 + c of the matrix, which
 * lane (e * 16 + c) / n loads.
 *
 * For b16, FlyDSL documents the same: element c % 4 of lane e * 4 + c / 4. For b8 it is Mojo's "two
 * interleaved 8 x 8 byte transposes per 16 lanes". The address is aligned to 8 bytes (b6: 16) and
 * EXEC must be all ones (CDNA4 ISA, 11.4).
 */
struct transpose {
    uint32_t loaded[WAVE_LANES][4];
    uint32_t out[3][WAVE_LANES];
};

/* Sets the results of all lanes from t->loaded. Elements have `bits` bits; a lane has `per_lane`
 * elements. Both are compile-time constants. */
static inline __attribute__((always_inline)) void gather_columns(struct transpose *t, unsigned bits,
                                                                 unsigned per_lane)
{
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        for (unsigned e = 0; e < per_lane; e++) {
            unsigned linear = e * 16 + l % 16, from = (l & ~15u) + linear / per_lane;
            unsigned v = element(t->loaded[from], linear % per_lane, bits);
            unsigned word = e * bits / 32, shift = e * bits % 32;
            t->out[word][l] |= v << shift;
            if (shift + bits > 32)
                t->out[word + 1][l] |= v >> (32 - shift);
        }
    }
}

/* Sets t->out to the transposed elements of `bits` bits: 4, 6, 8 or 16. */
static void gather(struct transpose *t, unsigned bits)
{
    switch (bits) {
    case 16: gather_columns(t, 16, 4); break;
    case 8: gather_columns(t, 8, 8); break;
    case 6: gather_columns(t, 6, 16); break;
    default: gather_columns(t, 4, 16); break;
    }
}

/* Returns the mask of lanes whose column is defined. `whole` is the mask of lanes that loaded only
 * defined data; a lane loads `per_lane` elements. */
static uint64_t columns_defined(uint64_t whole, unsigned per_lane)
{
    uint64_t defined = 0;

    if (whole == UINT64_MAX)
        return whole;
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        uint64_t all = 1;
        for (unsigned e = 0; e < per_lane; e++)
            all &= whole >> ((l & ~15u) + (e * 16 + l % 16) / per_lane);
        defined |= all << l;
    }
    return defined;
}

/* Sets m->addr to the lanes' addresses. False after a report that EXEC is not all ones, or that an
 * address is undefined or no multiple of `align`. */
static bool transpose_addresses(struct wave *w, const struct inst *in, struct lane_mem *m,
                                unsigned align)
{
    uint64_t bad = 0;

    if (m->lanes != UINT64_MAX) {
        wave_fault(w, in, FAULT_TRAP, ~m->lanes, "transposing LDS read with EXEC not all ones");
        return false;
    }
    if (!mem_lds_addresses(w, in, &in->src[SRC_ADDR], (uint32_t)in->imm_offset, m))
        return false;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        bad |= (uint64_t)((m->addr[l] & (align - 1)) != 0) << l;
    if (!bad || !mem_checks(w, CHECK_ALIGN))
        return true;
    wave_fault(w, in, FAULT_ALIGN, bad,
               "transposing LDS read at offset 0x%llx: must be a "
               "multiple of %u",
               (unsigned long long)m->addr[__builtin_ctzll(bad)], align);
    return false;
}

void ds_exec_transpose(struct wave *w, const struct inst *in)
{
    unsigned bits = in->row->arg, bytes = bits == 6 ? 12 : 8;
    struct transpose t;
    struct lane_mem m;
    uint64_t whole;

    lane_mem_begin(&m, MEM_LDS, wave_exec(w));
    if (!transpose_addresses(w, in, &m, bits == 6 ? 16 : 8) ||
        !mem_resolve(w, in, &m, bytes, MEM_READ))
        return;
    whole = mem_written(w, &m, 0, 8) | m.dropped;
    if (bytes == 12)
        whole &= mem_written(w, &m, 8, 4) | m.dropped;
    memset(&t, 0, sizeof(t));
    for (unsigned l = 0; l < WAVE_LANES; l++)
        if (m.lanes >> l & 1)
            memcpy(t.loaded[l], m.ptr[l], bytes);
    gather(&t, bits);
    dst_write_rows(w, &in->dst, t.out[0], UINT64_MAX, columns_defined(whole, bytes * 8 / bits));
    ds_issue(w, in);
}

void ds_exec_nop(struct wave *w, const struct inst *in) { ds_issue(w, in); }

/* Returns the global-wave-sync barrier of the instruction, and sets *id to its number, M0[21:16] +
 * offset. */
static struct grid_barrier *grid_barrier(const struct wave *w, const struct inst *in, uint32_t *id)
{
    *id = ((w->sgpr[SGPR_M0] >> 16 & 63) + (uint32_t)in->imm_offset) % GRID_BARRIERS;
    return &w->launch->grid_barrier[*id];
}

/* Sets *value to the address register in the first active lane, the number of waves. False after a
 * report that it or M0 is undefined. */
static bool gws_value(struct wave *w, const struct inst *in, uint32_t *value)
{
    const uint64_t exec = wave_exec(w), lane = exec ? exec & -exec : 1;
    uint32_t tmp[WAVE_LANES];

    if (!m0_defined(w, in, 0x3f0000, "the number of the barrier") ||
        !mem_defined(w, in, &in->src[SRC_ADDR], lane, "the number of waves"))
        return false;
    *value = src_rows(w, &in->src[SRC_ADDR], tmp)[__builtin_ctzll(lane)];
    return true;
}

void ds_exec_gws_init(struct wave *w, const struct inst *in)
{
    uint32_t id, value;

    if (!gws_value(w, in, &value))
        return;
    grid_barrier(w, in, &id)->left = value;
    ds_issue(w, in);
}

/*
 * DS_GWS_BARRIER: a wave that finds the count at zero opens the barrier and sets the count to its
 * operand. All other waves decrement the count and wait.
 */
void ds_exec_gws_barrier(struct wave *w, const struct inst *in)
{
    uint32_t id, value;
    struct grid_barrier *barrier = grid_barrier(w, in, &id);

    if (!w->launch->cooperative) {
        wave_fault(w, in, FAULT_TRAP, 0,
                   "a barrier of the grid in a launch that is not cooperative");
        return;
    }
    if (!gws_value(w, in, &value))
        return;
    ds_issue(w, in);
    checks_grid_arrive(w);
    if (barrier->left == 0) {
        barrier->left = value;
        barrier->opened++;
        checks_grid_pass(w);
        return;
    }
    barrier->left--;
    w->grid_barrier = barrier;
    w->grid_opened = barrier->opened;
    w->state = WAVE_AT_GRID_BARRIER;
}

void ds_exec_gws_semaphore(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_TRAP, 0, "semaphores of global wave sync are not simulated");
}

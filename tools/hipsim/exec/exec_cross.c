/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations between lanes: SDWA, which selects bytes and words of operands (CDNA3 ISA, "Sub-dword
 * addressing"); reads and writes of single lanes; swaps of lanes.
 */
#include "exec_cross.h"
#include "tables.h"

const uint32_t *sdwa_select(const struct opnd *o, const uint32_t *from, uint32_t *to)
{
    unsigned width = o->sel <= SDWA_BYTE_3 ? 8 : o->sel <= SDWA_WORD_1 ? 16 : 32;
    unsigned at = o->sel <= SDWA_BYTE_3 ? 8u * o->sel : o->sel == SDWA_WORD_1 ? 16 : 0;
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t up = from[i] << (32 - width - at);
        to[i] = o->sext ? (uint32_t)((int32_t)up >> (32 - width)) : up >> (32 - width);
    }
    return to;
}

void sdwa_merge(const struct inst *in, const uint32_t *old, uint32_t *d)
{
    unsigned sel = in->dst_sel;
    if (sel == SDWA_DWORD)
        return;
    unsigned width = sel <= SDWA_BYTE_3 ? 8 : 16;
    unsigned at = sel <= SDWA_BYTE_3 ? 8 * sel : sel == SDWA_WORD_1 ? 16 : 0;
    uint32_t mask = (width == 8 ? 0xffu : 0xffffu) << at;
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t value = d[i] << at & mask;
        uint32_t rest = 0;
        if (in->dst_unused == SDWA_UNUSED_PRESERVE)
            rest = old[i] & ~mask;
        else if (in->dst_unused == SDWA_UNUSED_SEXT && d[i] >> (width - 1) & 1)
            rest = at + width < 32 ? ~0u << (at + width) : 0; /* copies of the sign end with the
                                                                 dword */
        d[i] = value | rest;
    }
}

/* Returns the number of the wave's last lane, which is also the mask of lane numbers. */
static unsigned last_lane(const struct wave *w) { return w->all == UINT64_MAX ? 63 : 31; }

/* Writes `lane` of src0 to an SGPR, whatever EXEC is. For V_READFIRSTLANE and V_READLANE; `lane` is
 * less than the wave's lanes. */
static void write_scalar(struct wave *w, const struct inst *in, unsigned lane)
{
    uint32_t tmp[WAVE_LANES];
    const uint32_t *row = src_rows(w, &in->src[0], tmp);
    w->sgpr[in->dst.reg] = row[lane];
    w->s_valid[in->dst.reg] = src_valid(w, &in->src[0]) >> lane & 1 ? UINT32_MAX : 0;
}

/* V_READFIRSTLANE reads the first active lane, or lane 0 if none is active. The result is undefined
 * if an EXEC bit up to that lane's is undefined. */
static void exec_readfirstlane(struct wave *w, const struct inst *in)
{
    const uint64_t exec = wave_exec(w), unknown = ~sgpr_valid64(w, SGPR_EXEC) & w->all;
    write_scalar(w, in, exec ? (unsigned)__builtin_ctzll(exec) : 0);
    if (unknown & (exec ? exec ^ (exec - 1) : UINT64_MAX))
        w->s_valid[in->dst.reg] = 0;
}

/* V_READLANE: writes the lane of src0 that src1 selects to an SGPR. */
static void exec_readlane(struct wave *w, const struct inst *in)
{
    write_scalar(w, in, (unsigned)src_scalar(w, &in->src[1]) & last_lane(w));
}

/* V_WRITELANE. Clang spills lane masks to lanes of a VGPR, in which bits of absent lanes may be
 * undefined. A VGPR's lane has one valid bit: it is set if any bit of the mask is defined. */
static void exec_writelane(struct wave *w, const struct inst *in)
{
    unsigned lane = (unsigned)src_scalar(w, &in->src[1]) & last_lane(w);
    w->v[in->dst.reg][lane] = (uint32_t)src_scalar(w, &in->src[0]);
    uint64_t bit = UINT64_C(1) << lane;
    w->v_valid[in->dst.reg] &= ~bit;
    if ((uint32_t)src_scalar_bits(w, &in->src[0]) && src_scalar_valid(w, &in->src[1]))
        w->v_valid[in->dst.reg] |= bit;
}

/* Exchanges a lane of the destination with a lane of source 0: values and whether they are
 * defined. */
static void swap_lane(struct wave *w, const struct inst *in, unsigned dst_lane, unsigned src_lane)
{
    uint32_t *a = &w->v[in->dst.reg][dst_lane], *b = &w->v[in->src[0].reg][src_lane];
    uint32_t t = *a;
    *a = *b;
    *b = t;
    uint64_t *va = &w->v_valid[in->dst.reg], *vb = &w->v_valid[in->src[0].reg];
    uint64_t bit_a = *va >> dst_lane & 1, bit_b = *vb >> src_lane & 1;
    *va = (*va & ~(UINT64_C(1) << dst_lane)) | bit_b << dst_lane;
    *vb = (*vb & ~(UINT64_C(1) << src_lane)) | bit_a << src_lane;
}

/* V_SWAP: exchanges two registers in the active lanes. */
static void exec_swap(struct wave *w, const struct inst *in)
{
    uint64_t exec = wave_exec(w);
    for (unsigned i = 0; i < WAVE_LANES; i++)
        if (exec >> i & 1)
            swap_lane(w, in, i, i);
}

/* V_PERMLANE16_SWAP: swaps odd rows (of 16 lanes) of vdst with even rows of src0. */
static void exec_permlane16_swap(struct wave *w, const struct inst *in)
{
    for (unsigned lane = 0; lane < 16; lane++) {
        swap_lane(w, in, lane + 16, lane);
        swap_lane(w, in, lane + 48, lane + 32);
    }
}

/* V_PERMLANE32_SWAP: swaps the upper 32 lanes of vdst with the lower 32 of src0. */
static void exec_permlane32_swap(struct wave *w, const struct inst *in)
{
    for (unsigned lane = 0; lane < 32; lane++)
        swap_lane(w, in, lane + 32, lane);
}

/* V_NOP and V_CLREXCP: have no effect here. */
static void exec_nothing(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

/* V_SCREEN_PARTITION: faults. It reads a table of the rasteriser whose contents the manual does not
 * give. */
static void exec_screen_partition(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_TRAP, 0, "only graphics shaders use this instruction");
}

const struct op_row exec_cross_rows[] = {
    {.name = "v_screen_partition_4se_b32",
     .exec = exec_screen_partition,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU},
    {.name = "v_nop", .exec = exec_nothing, .flags = ROW_VALU},
    {.name = "v_clrexcp", .exec = exec_nothing, .flags = ROW_VALU},
    {.name = "v_readfirstlane_b32",
     .exec = exec_readfirstlane,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU | ROW_SGPR_DST | ROW_NO_EXEC},
    {.name = "v_readlane_b32",
     .exec = exec_readlane,
     .dst = T_B32,
     .src = {T_B32, T_B32},
     .flags = ROW_VALU | ROW_SGPR_DST | ROW_NO_EXEC},
    {.name = "v_writelane_b32",
     .exec = exec_writelane,
     .dst = T_B32,
     .src = {T_B32, T_B32},
     .flags = ROW_VALU | ROW_NO_EXEC},
    {.name = "v_swap_b32", .exec = exec_swap, .dst = T_B32, .src = {T_B32}, .flags = ROW_VALU},
    {.name = "v_swaprel_b32",
     .exec = exec_swap,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU | (uint32_t)ROW_RELATIVE,
     .arg = RELATIVE_SRC | RELATIVE_DST | RELATIVE_FIELDS,
     .targets = GFX1250},
    {.name = "v_permlane16_swap_b32",
     .exec = exec_permlane16_swap,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU | ROW_NO_EXEC,
     .targets = GFX950},
    {.name = "v_permlane32_swap_b32",
     .exec = exec_permlane32_swap,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU | ROW_NO_EXEC,
     .targets = GFX950},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gfx1250's permutations of lanes (CDNA5 ISA, 7.9 and VOP3, V_PERMLANE*). Each lane that EXEC
 * enables gets source 0 of another lane. All lanes are read before any is written. In V_PERMLANE16
 * and X16, two bits of op_sel decide what a lane gets from a source outside of EXEC; other
 * instructions read any lane.
 */
#include <string.h>

#include "row.h"
#include "tables.h"

/* The ways in which a lane finds the lane that it reads; op_row.arg has one of them. */
enum permute { SAME_ROW, OTHER_ROW, SAME_ROW_VAR, OTHER_ROW_VAR, BROADCAST, UP, DOWN, XOR };

/* Returns the lane that `lane` reads in its group of `width` lanes; `by` is the distance, lane or
 * mask of the operation. */
static unsigned in_group(enum permute how, unsigned lane, uint32_t by, uint32_t width)
{
    const unsigned base = lane / width * width, at = lane - base;
    switch (how) {
    case BROADCAST: return base + (by & 31 & (width - 1));
    case UP: return at < by ? lane : lane - by;
    case DOWN: return by >= width - at ? lane : lane + by;
    default: return by >= 32 || (lane ^ by) - base >= width ? lane : lane ^ by;
    }
}

/* Returns the lane that `lane` reads. `s1` and `s2` are the rows of sources 1 and 2. */
static unsigned source_of(const struct inst *in, const uint32_t *s1, const uint32_t *s2,
                          unsigned lane)
{
    const enum permute how = (enum permute)in->row->arg;
    const unsigned row = lane / 16 * 16, i = lane % 16;
    const uint64_t select = s1[lane] | (uint64_t)s2[lane] << 32;
    const uint32_t width = s2[lane] & 63;
    switch (how) {
    case SAME_ROW: return row + (select >> 4 * i & 15);
    case OTHER_ROW: return (row ^ 16) + (select >> 4 * i & 15);
    case SAME_ROW_VAR: return row + (s1[lane] & 15);
    case OTHER_ROW_VAR: return (row ^ 16) + (s1[lane] & 15);
    default: /* a lane reads itself if the width is no power of two up to 32 */
        return width && width <= 32 && !(width & (width - 1)) ? in_group(how, lane, s1[lane], width)
                                                              : lane;
    }
}

/* Source 0 after the permutation: each lane's value, the mask of lanes in which it is defined, and
 * the mask of lanes to write. */
struct picked {
    uint32_t row[WAVE_LANES];
    uint64_t valid, writes;
};

/* Executes a permutation: reads source 0 of the selected lanes and writes the active lanes. */
static void exec_permute(struct wave *w, const struct inst *in)
{
    uint32_t room[3][WAVE_LANES];
    const uint32_t *from = src_rows(w, &in->src[0], room[0]);
    const uint32_t *s1 = src_rows(w, &in->src[1], room[1]);
    const uint32_t *s2 = in->src[2].kind == OPND_NONE ? s1 : src_rows(w, &in->src[2], room[2]);
    const uint64_t exec = wave_exec(w), known = src_valid(w, &in->src[0]);
    const uint64_t selects = src_valid(w, &in->src[1]) & src_valid(w, &in->src[2]);
    const bool masked = in->row->arg <= OTHER_ROW_VAR;
    struct picked p = {.valid = 0, .writes = exec};

    for (unsigned l = 0; l < 32; l++) {
        const unsigned source = source_of(in, s1, s2, l);
        const bool active = exec >> source & 1 || !masked || in->op_sel & 1;
        p.row[l] = active ? from[source] : 0;
        p.valid |= (!active || known >> source & 1 ? UINT64_C(1) : 0) << l;
        if (!active && !(in->op_sel & 2)) /* without BOUND_CTRL the lane keeps its old value */
            p.writes &= ~(UINT64_C(1) << l);
    }
    dst_write_rows(w, &in->dst, p.row, p.writes & w->all, p.valid & selects);
}

/* V_PERMLANE16_SWAP: exchanges lanes 0 to 15 of src0 with lanes 16 to 31 of vdst, in lanes that
 * EXEC enables. */
static void exec_swap(struct wave *w, const struct inst *in)
{
    uint32_t low[WAVE_LANES], high[WAVE_LANES];
    const struct opnd *d = &in->dst, *s = &in->src[0];
    const uint64_t exec = wave_exec(w), from = w->v_valid[s->reg], to = w->v_valid[d->reg];

    memcpy(low, w->v[s->reg], sizeof(low));
    memcpy(high, w->v[d->reg], sizeof(high));
    for (unsigned l = 16; l < 32; l++) {
        const uint32_t value = low[l - 16];
        low[l - 16] = high[l];
        high[l] = value;
    }
    dst_write_rows(w, s, low, exec & 0xffff, to >> 16);
    dst_write_rows(w, d, high, exec & 0xffff0000, from << 16);
}

/* V_PERMLANE64 exchanges the halves of a wave of 64 lanes. In a wave of 32 it does nothing (RDNA4
 * ISA, VOP1). */
static void exec_no_exchange(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

#define PERMUTE(n, how, t2)         \
    {.name = "v_permlane" n "_b32", \
     .exec = exec_permute,          \
     .dst = T_B32,                  \
     .src = {T_B32, T_B32, t2},     \
     .flags = ROW_VALU,             \
     .targets = GFX1250,            \
     .arg = how}

const struct op_row exec_permute_rows[] = {
    PERMUTE("16", SAME_ROW, T_B32),
    PERMUTE("x16", OTHER_ROW, T_B32),
    PERMUTE("16_var", SAME_ROW_VAR, T_NONE),
    PERMUTE("x16_var", OTHER_ROW_VAR, T_NONE),
    PERMUTE("_bcast", BROADCAST, T_B32),
    PERMUTE("_up", UP, T_B32),
    PERMUTE("_down", DOWN, T_B32),
    PERMUTE("_xor", XOR, T_B32),
    {.name = "v_permlane16_swap_b32",
     .exec = exec_swap,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_VALU,
     .targets = GFX1250},
    {.name = "v_permlane64_b32", .exec = exec_no_exchange, .flags = ROW_VALU, .targets = GFX1201},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LDS instructions that access memory (CDNA3 ISA, chapter 11 "Data share operations"; pseudo-code
 * in 12.16). The address is the 32-bit sum of the address register and the 16-bit offset. The
 * two-address forms scale two 8-bit offsets by the element size, times 64 for "st64".
 * exec_ds_lanes.c has the instructions that move data between lanes.
 */
#include <string.h>

#include "exec_ds.h"
#include "lane_mem.h"
#include "mem.h"
#include "tables.h"

#define SRC_ADDR 0
#define SRC_DATA 1
#define SRC_DATA2 2

/* Flags in op_row.arg: TWO is the form with two addresses; ST64 multiplies its offsets by 64
 * elements. */
#define TWO 1u << 24
#define ST64 1u << 25

/* True if the instruction has the operand. */
static bool has(const struct opnd *o) { return o->kind != OPND_NONE; }

/* Sets m->addr to each lane's LDS address plus `offset`. False after a report. */
static bool lds_addresses(struct wave *w, const struct inst *in, uint32_t offset,
                          struct lane_mem *m)
{
    return mem_lds_addresses(w, in, &in->src[SRC_ADDR], offset, m);
}

void ds_issue(struct wave *w, const struct inst *in)
{
    const struct opnd *d = &in->dst;

    if (has(d))
        wave_issue(w, in, WAIT_LGKM, d->kind, d->reg, d->dwords, false);
    else
        wave_issue(w, in, WAIT_LGKM, OPND_NONE, 0, 0, false);
}

/* DS_READ with one address. */
static void exec_read(struct wave *w, const struct inst *in)
{
    struct lane_mem m;

    lane_mem_begin(&m, MEM_LDS, wave_exec(w));
    if (!lds_addresses(w, in, (uint32_t)in->imm_offset, &m) ||
        !mem_resolve(w, in, &m, MEM_BYTES(in->row->arg), MEM_READ))
        return;
    mem_load(w, &m, in->row->arg, &in->dst);
    ds_issue(w, in);
}

/* DS_WRITE with one address. */
static void exec_write(struct wave *w, const struct inst *in)
{
    struct lane_mem m;

    lane_mem_begin(&m, MEM_LDS, wave_exec(w));
    if (lds_addresses(w, in, (uint32_t)in->imm_offset, &m) &&
        mem_resolve(w, in, &m, MEM_BYTES(in->row->arg), MEM_WRITE) &&
        mem_store(w, in, &m, in->row->arg, &in->src[SRC_DATA]))
        ds_issue(w, in);
}

/* Returns the byte offset of access `which`, 0 or 1, of a form with two addresses. */
static uint32_t pair_offset(const struct inst *in, unsigned which)
{
    uint32_t unit = MEM_BYTES(in->row->arg) * (in->row->arg & ST64 ? 64 : 1);

    return unit * (which ? in->offset1 : in->offset0);
}

/* Returns the registers of element `which` (0 or 1) of a destination `o` of two elements. */
static struct opnd half_of(const struct opnd *o, unsigned which)
{
    struct opnd half = *o;

    half.dwords = o->dwords / 2;
    half.reg = (uint16_t)(o->reg + which * half.dwords);
    return half;
}

/* Executes DS_READ2. Computes both addresses before it writes a result, since the destination may
 * overlap the address register. */
static void exec_read2(struct wave *w, const struct inst *in)
{
    struct lane_mem m[2];
    uint64_t lanes = wave_exec(w);

    for (unsigned i = 2; i-- > 0;) { /* element 0 last: the observer reports the address of the last
                                        call */
        lane_mem_begin(&m[i], MEM_LDS, lanes);
        if (!lds_addresses(w, in, pair_offset(in, i), &m[i]) ||
            !mem_resolve(w, in, &m[i], MEM_BYTES(in->row->arg), MEM_READ))
            return;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct opnd half = half_of(&in->dst, i);
        mem_load(w, &m[i], in->row->arg, &half);
    }
    ds_issue(w, in);
}

/* DS_WRITE2: stores two elements of each lane at two addresses. */
static void exec_write2(struct wave *w, const struct inst *in)
{
    struct lane_mem m[2];

    for (unsigned i = 2; i-- > 0;) {
        lane_mem_begin(&m[i], MEM_LDS, wave_exec(w));
        if (!lds_addresses(w, in, pair_offset(in, i), &m[i]) ||
            !mem_resolve(w, in, &m[i], MEM_BYTES(in->row->arg), MEM_WRITE))
            return;
    }
    for (unsigned i = 0; i < 2; i++)
        if (!mem_store(w, in, &m[i], in->row->arg, &in->src[SRC_DATA + i]))
            return;
    ds_issue(w, in);
}

/* Executes an atomic on LDS with one or two data operands, with or without a returned value. */
static void exec_atomic(struct wave *w, const struct inst *in)
{
    const struct opnd *data2 = has(&in->src[SRC_DATA2]) ? &in->src[SRC_DATA2] : NULL;
    struct lane_mem m;

    lane_mem_begin(&m, MEM_LDS, wave_exec(w));
    if (lds_addresses(w, in, (uint32_t)in->imm_offset, &m) &&
        mem_resolve(w, in, &m, MEM_BYTES(in->row->arg), MEM_MODIFY) &&
        mem_atomic(w, in, &m, in->row->arg, &in->src[SRC_DATA], data2,
                   has(&in->dst) ? &in->dst : NULL))
        ds_issue(w, in);
}

/* DS_CMPSTORE: the first data operand is the new value, the second the comparand; exec_atomic() has
 * them in the other order. */
static void exec_cmpstore(struct wave *w, const struct inst *in)
{
    struct inst swapped = *in;
    swapped.src[SRC_DATA] = in->src[SRC_DATA2];
    swapped.src[SRC_DATA2] = in->src[SRC_DATA];
    exec_atomic(w, &swapped);
}

/* DS_WRXCHG2: exchanges two elements with LDS. */
static void exec_exchange2(struct wave *w, const struct inst *in)
{
    struct lane_mem m[2];

    for (unsigned i = 2; i-- > 0;) {
        lane_mem_begin(&m[i], MEM_LDS, wave_exec(w));
        if (!lds_addresses(w, in, pair_offset(in, i), &m[i]) ||
            !mem_resolve(w, in, &m[i], MEM_BYTES(in->row->arg), MEM_MODIFY))
            return;
    }
    struct opnd data[2] = {in->src[SRC_DATA], in->src[SRC_DATA2]};
    for (unsigned i = 0; i < 2; i++) {
        struct opnd half = half_of(&in->dst, i);
        if (!mem_atomic(w, in, &m[i], in->row->arg, &data[i], NULL, &half))
            return;
    }
    ds_issue(w, in);
}

#define LGKM (1 + WAIT_LGKM)
#define FLAGS (ROW_LDS | ROW_SHARED)
#define READ(n, d, a)           \
    {.name = "ds_read_" n,      \
     .exec = exec_read,         \
     .dst = d,                  \
     .src = {T_B32},            \
     .flags = FLAGS | ROW_LOAD, \
     .wait = LGKM,              \
     .arg = a}
#define READ_D16(n, a)                                         \
    {.name = "ds_read_" n,                                     \
     .exec = exec_read,                                        \
     .dst = T_B32,                                             \
     .src = {T_B32},                                           \
     .flags = FLAGS | ROW_LOAD | ROW_DST_IS_SRC | ROW_PARTIAL, \
     .wait = LGKM,                                             \
     .arg = a}
#define WRITE(n, d, a)           \
    {.name = "ds_write_" n,      \
     .exec = exec_write,         \
     .src = {T_B32, d},          \
     .flags = FLAGS | ROW_STORE, \
     .wait = LGKM,               \
     .arg = a}
#define READ2(n, d, bytes, st)  \
    {.name = "ds_read2" n,      \
     .exec = exec_read2,        \
     .dst = d,                  \
     .src = {T_B32},            \
     .flags = FLAGS | ROW_LOAD, \
     .wait = LGKM,              \
     .arg = MEM_ARG(bytes, 0, 0, 0) | TWO | (st)}
#define WRITE2(n, d, bytes, st)  \
    {.name = "ds_write2" n,      \
     .exec = exec_write2,        \
     .src = {T_B32, d, d},       \
     .flags = FLAGS | ROW_STORE, \
     .wait = LGKM,               \
     .arg = MEM_ARG(bytes, 0, 0, 0) | TWO | (st)}
#define EXCHANGE2(n, d, data, bytes, st)    \
    {.name = "ds_wrxchg2" n,                \
     .exec = exec_exchange2,                \
     .dst = d,                              \
     .src = {T_B32, data, data},            \
     .flags = FLAGS | ROW_LOAD | ROW_STORE, \
     .wait = LGKM,                          \
     .arg = MEM_ARG(bytes, 0, 0, ATOMIC_SWAP) | TWO | (st)}
#define RMW_OF(t, n, d, data, data2, bytes, op) \
    {.name = "ds_" n,                           \
     .exec = exec_atomic,                       \
     .dst = d,                                  \
     .src = {T_B32, data, data2},               \
     .flags = FLAGS | ROW_LOAD | ROW_STORE,     \
     .wait = LGKM,                              \
     .targets = t,                              \
     .arg = MEM_ARG(bytes, 0, 0, op)}
#define RMW(...) RMW_OF(0, __VA_ARGS__)
/* Rows of DS_READ_*_TR_*, which transpose elements of `bits` bits between lanes. */
#define TRANSPOSE(n, d, bits)   \
    {.name = "ds_read_" n,      \
     .exec = ds_exec_transpose, \
     .dst = d,                  \
     .src = {T_B32},            \
     .flags = FLAGS | ROW_LOAD, \
     .targets = GFX950,         \
     .wait = LGKM,              \
     .arg = bits}
#define PERMUTE(n, fn)       \
    {.name = "ds_" n "_b32", \
     .exec = fn,             \
     .dst = T_B32,           \
     .src = {T_B32, T_B32},  \
     .flags = ROW_LDS,       \
     .wait = LGKM}
/* Rows of an atomic without and with return, such as ds_add_u32 and ds_add_rtn_u32. ATOMIC2's
 * atomics have two data operands. */
#define ATOMIC(n, suffix, t, bytes, op) \
    RMW(n "_" suffix, T_NONE, t, T_NONE, bytes, op), RMW(n "_rtn_" suffix, t, t, T_NONE, bytes, op)
#define ATOMIC2(n, suffix, t, bytes, op) \
    RMW(n "_" suffix, T_NONE, t, t, bytes, op), RMW(n "_rtn_" suffix, t, t, t, bytes, op)
#define GFX12_ATOMIC(n, suffix, t, bytes, op)                    \
    RMW_OF(GFX1250, n "_" suffix, T_NONE, t, T_NONE, bytes, op), \
        RMW_OF(GFX1250, n "_rtn_" suffix, t, t, T_NONE, bytes, op)
#define BOTH(n, s32, s64, op) ATOMIC(n, s32, T_B32, 4, op), ATOMIC(n, s64, T_B64, 8, op)
#define BOTH2(n, s32, s64, op) ATOMIC2(n, s32, T_B32, 4, op), ATOMIC2(n, s64, T_B64, 8, op)

#define CMPSTORE(n, d, t, bytes)            \
    {.name = "ds_cmpstore_" n,              \
     .exec = exec_cmpstore,                 \
     .dst = d,                              \
     .src = {T_B32, t, t},                  \
     .flags = FLAGS | ROW_LOAD | ROW_STORE, \
     .wait = LGKM,                          \
     .targets = GFX1250,                    \
     .arg = MEM_ARG(bytes, 0, 0, ATOMIC_CMPSWAP)}

const struct op_row exec_ds_rows[] = {
    CMPSTORE("b32", T_NONE, T_B32, 4),
    CMPSTORE("b64", T_NONE, T_B64, 8),
    CMPSTORE("rtn_b32", T_B32, T_B32, 4),
    CMPSTORE("rtn_b64", T_B64, T_B64, 8),
    READ("u8", T_B32, MEM_ARG(1, PART_ALL, 0, 0)),
    READ("i8", T_B32, MEM_ARG(1, PART_ALL, 1, 0)),
    READ("u16", T_B32, MEM_ARG(2, PART_ALL, 0, 0)),
    READ("i16", T_B32, MEM_ARG(2, PART_ALL, 1, 0)),
    READ("b32", T_B32, MEM_ARG(4, 0, 0, 0)),
    READ("b64", T_B64, MEM_ARG(8, 0, 0, 0)),
    READ("b96", T_B96, MEM_ARG(12, 0, 0, 0)),
    READ("b128", T_B128, MEM_ARG(16, 0, 0, 0)),
    READ_D16("u8_d16", MEM_ARG(1, PART_LOW, 0, 0)),
    READ_D16("u8_d16_hi", MEM_ARG(1, PART_HIGH, 0, 0)),
    READ_D16("i8_d16", MEM_ARG(1, PART_LOW, 1, 0)),
    READ_D16("i8_d16_hi", MEM_ARG(1, PART_HIGH, 1, 0)),
    READ_D16("u16_d16", MEM_ARG(2, PART_LOW, 0, 0)),
    READ_D16("u16_d16_hi", MEM_ARG(2, PART_HIGH, 0, 0)),
    WRITE("b8", T_B32, MEM_ARG(1, PART_ALL, 0, 0)),
    WRITE("b8_d16_hi", T_B32, MEM_ARG(1, PART_HIGH, 0, 0)),
    WRITE("b16", T_B32, MEM_ARG(2, PART_ALL, 0, 0)),
    WRITE("b16_d16_hi", T_B32, MEM_ARG(2, PART_HIGH, 0, 0)),
    WRITE("b32", T_B32, MEM_ARG(4, 0, 0, 0)),
    WRITE("b64", T_B64, MEM_ARG(8, 0, 0, 0)),
    WRITE("b96", T_B96, MEM_ARG(12, 0, 0, 0)),
    WRITE("b128", T_B128, MEM_ARG(16, 0, 0, 0)),
    READ2("_b32", T_B64, 4, 0),
    READ2("_b64", T_B128, 8, 0),
    READ2("st64_b32", T_B64, 4, ST64),
    READ2("st64_b64", T_B128, 8, ST64),
    WRITE2("_b32", T_B32, 4, 0),
    WRITE2("_b64", T_B64, 8, 0),
    WRITE2("st64_b32", T_B32, 4, ST64),
    WRITE2("st64_b64", T_B64, 8, ST64),
    BOTH("add", "u32", "u64", ATOMIC_ADD),
    BOTH("sub", "u32", "u64", ATOMIC_SUB),
    BOTH("rsub", "u32", "u64", ATOMIC_RSUB),
    BOTH("inc", "u32", "u64", ATOMIC_INC),
    BOTH("dec", "u32", "u64", ATOMIC_DEC),
    BOTH("min", "i32", "i64", ATOMIC_SMIN),
    BOTH("max", "i32", "i64", ATOMIC_SMAX),
    BOTH("min", "u32", "u64", ATOMIC_UMIN),
    BOTH("max", "u32", "u64", ATOMIC_UMAX),
    BOTH("and", "b32", "b64", ATOMIC_AND),
    BOTH("or", "b32", "b64", ATOMIC_OR),
    BOTH("xor", "b32", "b64", ATOMIC_XOR),
    BOTH("add", "f32", "f64", ATOMIC_ADD_F),
    BOTH("min", "f32", "f64", ATOMIC_MIN_F),
    BOTH("max", "f32", "f64", ATOMIC_MAX_F),
    ATOMIC("pk_add", "f16", T_B32, 4, ATOMIC_PK_ADD_F16),
    ATOMIC("pk_add", "bf16", T_B32, 4, ATOMIC_PK_ADD_BF16),
    GFX12_ATOMIC("min_num", "f32", T_B32, 4, ATOMIC_MIN_NUM_F),
    GFX12_ATOMIC("max_num", "f32", T_B32, 4, ATOMIC_MAX_NUM_F),
    GFX12_ATOMIC("min_num", "f64", T_B64, 8, ATOMIC_MIN_NUM_F),
    GFX12_ATOMIC("max_num", "f64", T_B64, 8, ATOMIC_MAX_NUM_F),
    GFX12_ATOMIC("cond_sub", "u32", T_B32, 4, ATOMIC_COND_SUB),
    GFX12_ATOMIC("sub_clamp", "u32", T_B32, 4, ATOMIC_SUB_CLAMP),
    RMW_OF(GFX1250, "atomic_barrier_arrive_rtn_b64", T_B64, T_B64, T_NONE, 8, ATOMIC_ARRIVE),
    BOTH2("mskor", "b32", "b64", ATOMIC_MSKOR),
    BOTH2("cmpst", "b32", "b64", ATOMIC_CMPSWAP),
    BOTH2("cmpst", "f32", "f64", ATOMIC_CMPSWAP_F),
    RMW("wrap_rtn_b32", T_B32, T_B32, T_B32, 4, ATOMIC_WRAP),
    RMW("wrxchg_rtn_b32", T_B32, T_B32, T_NONE, 4, ATOMIC_SWAP),
    RMW("wrxchg_rtn_b64", T_B64, T_B64, T_NONE, 8, ATOMIC_SWAP),
    RMW("condxchg32_rtn_b64", T_B64, T_B64, T_NONE, 8, ATOMIC_CONDXCHG32),
    EXCHANGE2("_rtn_b32", T_B64, T_B32, 4, 0),
    EXCHANGE2("_rtn_b64", T_B128, T_B64, 8, 0),
    EXCHANGE2("st64_rtn_b32", T_B64, T_B32, 4, ST64),
    EXCHANGE2("st64_rtn_b64", T_B128, T_B64, 8, ST64),
    PERMUTE("permute", ds_exec_permute),
    PERMUTE("bpermute", ds_exec_bpermute),
    {.name = "ds_bpermute_fi_b32",
     .exec = ds_exec_bpermute,
     .dst = T_B32,
     .src = {T_B32, T_B32},
     .flags = ROW_LDS,
     .wait = LGKM,
     .targets = GFX1250,
     .arg = 1},
    {.name = "ds_swizzle_b32",
     .exec = ds_exec_swizzle,
     .dst = T_B32,
     .src = {T_B32},
     .flags = ROW_LDS,
     .wait = LGKM},
    {.name = "ds_read_addtid_b32",
     .exec = ds_exec_read_addtid,
     .dst = T_B32,
     .flags = FLAGS | ROW_LOAD,
     .wait = LGKM,
     .arg = MEM_ARG(4, 0, 0, 0)},
    {.name = "ds_write_addtid_b32",
     .exec = ds_exec_write_addtid,
     .src = {T_NONE, T_B32},
     .flags = FLAGS | ROW_STORE,
     .wait = LGKM,
     .arg = MEM_ARG(4, 0, 0, 0)},
    {.name = "ds_append",
     .exec = ds_exec_append,
     .dst = T_B32,
     .flags = FLAGS | ROW_LOAD | ROW_STORE,
     .wait = LGKM},
    {.name = "ds_consume",
     .exec = ds_exec_append,
     .dst = T_B32,
     .flags = FLAGS | ROW_LOAD | ROW_STORE,
     .wait = LGKM,
     .arg = 1},
    TRANSPOSE("b64_tr_b16", T_B64, 16),
    TRANSPOSE("b64_tr_b8", T_B64, 8),
    TRANSPOSE("b64_tr_b4", T_B64, 4),
    TRANSPOSE("b96_tr_b6", T_B96, 6),
    {.name = "ds_nop", .exec = ds_exec_nop, .flags = ROW_LDS, .wait = LGKM},
    {.name = "ds_gws_init",
     .exec = ds_exec_gws_init,
     .src = {T_B32},
     .flags = ROW_LDS | ROW_SHARED,
     .wait = LGKM},
    {.name = "ds_gws_barrier",
     .exec = ds_exec_gws_barrier,
     .src = {T_B32},
     .flags = ROW_LDS | ROW_SHARED,
     .wait = LGKM},
    {.name = "ds_gws_sema_v", .exec = ds_exec_gws_semaphore, .flags = ROW_LDS},
    {.name = "ds_gws_sema_p", .exec = ds_exec_gws_semaphore, .flags = ROW_LDS},
    {.name = "ds_gws_sema_br", .exec = ds_exec_gws_semaphore, .src = {T_B32}, .flags = ROW_LDS},
    {.name = "ds_gws_sema_release_all", .exec = ds_exec_gws_semaphore, .flags = ROW_LDS},
    {.name = NULL},
};

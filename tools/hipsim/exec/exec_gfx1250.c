/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar instructions that GFX12 has and CDNA lacks: waits for single counters, the upper bits of
 * VGPR numbers, hardware registers, messages with a result; and VOPD, pairs of vector instructions
 * (CDNA5 ISA, chapters 5 and 6, VOPD).
 */
#include <string.h>

#include "check.h"
#include "exec_salu.h"
#include "parts.h"
#include "spin.h"
#include "tables.h"
#include "time_slice.h"

/* Executes an instruction without an effect here. */
static void exec_nothing(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

/* The functions from here on execute waits. */

/* op_row.arg of a wait: two counters (enum wait_counter). The limit of `low` is in bits 5:0 of
 * SIMM16, and the limit of `high` in bits 13:8. `high` NO_WAIT: one counter only. */
#define WAITS(low, high) ((low) | (high) << 8)
#define NO_WAIT 15u

/* Executes a wait for one counter, or for two. */
static void exec_wait(struct wave *w, const struct inst *in)
{
    const unsigned low = in->row->arg & 0xff, high = in->row->arg >> 8;
    wave_wait(w, (enum wait_counter)low, in->simm16 & 63u);
    if (high != NO_WAIT)
        wave_wait(w, (enum wait_counter)high, in->simm16 >> 8 & 63u);
}

/* Executes S_WAIT_IDLE: waits for all counters. */
static void exec_wait_idle(struct wave *w, const struct inst *in)
{
    (void)in;
    for (unsigned c = 0; c < WAIT_COUNTERS; c++)
        wave_wait(w, (enum wait_counter)c, 0);
}

/* The functions from here on read and write hardware registers. */

/* Numbers of hardware registers in hwreg(). */
enum hwreg {
    HWREG_MODE = 1,
    HWREG_STATUS = 2,
    HWREG_STATE_PRIV = 4,
    HWREG_XCC_ID = 20,
    HWREG_HW_ID1 = 23,
    HWREG_SCHED_MODE = 26,
    HWREG_IB_STS2 = 28,
};

enum { STATE_SCC = 9 }; /* bit of SCC in STATE_PRIV */

/* Returns the upper bits of VGPR numbers as wave->vgpr_msb has them. MODE has them in bits 19:12,
 * with the destination's in the lowest two. */
static uint32_t msb_of_mode(uint32_t mode)
{
    const uint32_t field = mode >> 12 & 0xff;
    return field >> 2 | (field & 3) << 6;
}

/* Returns the bits 19:12 of MODE for a value of wave->vgpr_msb. */
static uint32_t mode_of_msb(uint32_t msb) { return ((msb << 2 & 0xff) | msb >> 6) << 12; }

/* Bits of wave->mode that gfx1250's MODE has too. The others, MODE_IEEE and MODE_DX10_CLAMP, cannot
 * be written and are always set. */
#define MODE_SHARED                                                                \
    (MODE_ROUND_F32 | MODE_ROUND_F16_F64 | MODE_DENORM_F32 | MODE_DENORM_F16_F64 | \
     (uint32_t)MODE_FP16_OVFL)

/* Returns hardware register IB_STS2: the cluster's number, 1 to 15, in bits 9:6, and the
 * workgroup's index in it in 24:21. 0 outside of clusters. */
static uint32_t cluster_state(const struct wave *w)
{
    const uint32_t *n = w->launch->cluster, *at = w->wg->in_cluster;
    if (!n[0])
        return 0;
    return (uint32_t)(w->wg->cluster % 15 + 1) << 6 | (at[0] + n[0] * (at[1] + n[1] * at[2])) << 21;
}

/* Sets *value to the hardware register number `id`. False if the target lacks it. */
static bool hwreg_read(const struct wave *w, unsigned id, uint32_t *value)
{
    const bool of_gfx1250 = id == HWREG_XCC_ID || id == HWREG_SCHED_MODE || id == HWREG_IB_STS2;
    if (of_gfx1250 && !code_isa(w->launch->code)->clusters)
        return false; /* RDNA4 ISA, 3.4: this number belongs to no or another register there */
    switch (id) {
    case HWREG_MODE: *value = (w->mode & MODE_SHARED) | mode_of_msb(w->vgpr_msb); return true;
    case HWREG_STATE_PRIV: *value = (uint32_t)w->scc << STATE_SCC; return true;
    case HWREG_STATUS: *value = 1u << 16; return true;
    case HWREG_HW_ID1: *value = (w->id / 4 & 31) | (w->id & 3) << 8; return true;
    case HWREG_XCC_ID: *value = (uint32_t)(w->wg->index % 8); return true;
    case HWREG_SCHED_MODE: *value = 0; return true;
    case HWREG_IB_STS2: *value = cluster_state(w); return true;
    default: return false;
    }
}

/* Executes S_GETREG: reads a field of a hardware register. */
static void exec_getreg(struct wave *w, const struct inst *in)
{
    const unsigned id = in->simm16 & 63;
    const unsigned offset = in->simm16 >> 6 & 31, size = (in->simm16 >> 11) + 1u;
    uint32_t value;
    if (!hwreg_read(w, id, &value)) {
        wave_fault(w, in, FAULT_TRAP, 0, "hardware register %u is not simulated", id);
        return;
    }
    const bool has_scc = id == HWREG_STATE_PRIV && offset <= STATE_SCC && STATE_SCC < offset + size;
    if (has_scc && !wave_check_scc(w, in))
        return;
    salu_write(w, &in->dst, value >> offset & (uint32_t)((UINT64_C(1) << size) - 1), UINT32_MAX);
}

/* S_SETREG: writes bits of MODE. Writes to other registers have no effect here. */
static void exec_setreg(struct wave *w, const struct inst *in)
{
    const unsigned offset = in->simm16 >> 6 & 31;
    const uint32_t mask = (uint32_t)(((UINT64_C(1) << ((in->simm16 >> 11) + 1u)) - 1) << offset);
    const uint32_t source = in->row->arg ? in->literal : (uint32_t)src_scalar(w, &in->src[0]);
    if ((in->simm16 & 63) != HWREG_MODE)
        return;
    const uint32_t old = (w->mode & MODE_SHARED) | mode_of_msb(w->vgpr_msb);
    const uint32_t now = (old & ~mask) | (source << offset & mask);
    w->mode = (w->mode & ~MODE_SHARED) | (now & MODE_SHARED);
    if (code_isa(w->launch->code)->upper_vgprs)
        w->vgpr_msb = (uint8_t)msb_of_mode(now);
}

/* Executes S_SET_VGPR_MSB: sets the upper bits of VGPR numbers. */
static void exec_set_vgpr_msb(struct wave *w, const struct inst *in)
{
    w->vgpr_msb = (uint8_t)in->simm16;
}

/* S_ROUND_MODE, S_DENORM_MODE: write four bits of MODE, from bit op_row.arg on. */
static void exec_set_mode(struct wave *w, const struct inst *in)
{
    w->mode = (w->mode & ~(15u << in->row->arg)) | (in->simm16 & 15u) << in->row->arg;
}

/* The functions from here on access the program counter and the time, and send messages. */

/* Executes S_GETPC: stores the address of the next instruction. */
static void exec_getpc(struct wave *w, const struct inst *in)
{
    salu_write(w, &in->dst, w->pc, UINT64_MAX);
}

/* S_SET_PC, S_SWAP_PC, S_ADD_PC. With op_row.arg 1 the source is an offset from the next
 * instruction. */
static void exec_setpc(struct wave *w, const struct inst *in)
{
    const uint64_t source = src_scalar(w, &in->src[0]), next = w->pc;
    if (w->launch->checks & CHECK_UNINIT && !src_scalar_valid(w, &in->src[0]) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "the address of the jump is undefined"))
        return;
    w->pc = in->row->arg ? next + source : source;
    if (in->dst.kind != OPND_NONE)
        salu_write(w, &in->dst, next, UINT64_MAX);
}

/* Executes S_CALL: stores the return address and jumps. */
static void exec_call(struct wave *w, const struct inst *in)
{
    const uint64_t next = w->pc;
    w->pc = code_address(w->launch->code) + in->target;
    salu_write(w, &in->dst, next, UINT64_MAX);
}

/* S_GET_SHADER_CYCLES_U64. A read advances the wave's clock by 8, about its latency, as S_MEMTIME
 * does. */
static void exec_cycles(struct wave *w, const struct inst *in)
{
    w->clock += 8;
    if (w->spin)
        spin_changed(w->spin);
    salu_write(w, &in->dst, w->clock, UINT64_MAX);
}

/* Numbers of messages that return a value. */
enum message {
    MSG_RTN_GET_DOORBELL = 128,
    MSG_RTN_GET_REALTIME = 131,
    MSG_RTN_GET_TMA = 133,
    MSG_RTN_GET_TBA = 134,
};

/* S_SENDMSG_RTN: the encoded source is the message's number. */
static void exec_sendmsg_rtn(struct wave *w, const struct inst *in)
{
    const unsigned message = in->raw[0] & 0xff;
    uint64_t value = 0;
    if (message == MSG_RTN_GET_REALTIME) {
        w->clock += 128;
        if (w->spin)
            spin_changed(w->spin);
        value = w->clock / 24; /* clocks at 2,400 MHz to ticks of 100 MHz */
    } else if (message != MSG_RTN_GET_DOORBELL && message != MSG_RTN_GET_TMA &&
               message != MSG_RTN_GET_TBA) {
        wave_fault(w, in, FAULT_TRAP, 0, "message %u is not simulated", message);
        return;
    }
    salu_write(w, &in->dst, value, UINT64_MAX);
    wave_issue(w, in, WAIT_KM, OPND_SGPR, in->dst.reg, in->dst.dwords, true);
}

/* The functions from here on execute two vector instructions in one. */

/* A copy of a destination's registers, at most two, and of their masks of defined, copied and
 * partly defined lanes. */
struct kept_rows {
    uint32_t row[2][WAVE_LANES];
    uint64_t valid[2], copied[2], part[2];
};

/* Exchanges the operand's registers with the kept rows. */
static void exchange(struct wave *w, const struct opnd *o, struct kept_rows *k)
{
    const struct reg_rows r = reg_rows(w, o);
    for (unsigned i = 0; i < o->dwords; i++) {
        uint32_t row[WAVE_LANES];
        memcpy(row, r.row[i], sizeof(row));
        memcpy(r.row[i], k->row[i], sizeof(row));
        memcpy(k->row[i], row, sizeof(row));
        uint64_t *now[3] = {&r.valid[i], &r.copied[i], &r.part[i]};
        uint64_t *then[3] = {&k->valid[i], &k->copied[i], &k->part[i]};
        for (unsigned m = 0; m < 3; m++) {
            const uint64_t old = *now[m];
            *now[m] = *then[m];
            *then[m] = old;
        }
    }
}

/* True if a source of the instruction overlaps the vector registers of `d`. */
static bool reads(const struct inst *in, const struct opnd *d)
{
    for (unsigned k = 0; k < in->nsrc; k++) {
        const struct opnd *o = &in->src[k];
        if (o->kind == OPND_VGPR && o->reg < d->reg + d->dwords && d->reg < o->reg + o->dwords)
            return true;
    }
    return false;
}

/* Executes the two instructions of a VOPD as if both read their sources before either writes. */
static void exec_dual(struct wave *w, const struct inst *in)
{
    const struct inst *x = in->pair[0], *y = in->pair[1];
    if (!reads(y, &x->dst)) {
        simulator_parts.execute(w, x);
        simulator_parts.execute(w, y);
        return;
    }
    if (!reads(x, &y->dst)) {
        simulator_parts.execute(w, y);
        simulator_parts.execute(w, x);
        return;
    }
    struct kept_rows kept;
    const struct reg_rows r = reg_rows(w, &x->dst);
    for (unsigned i = 0; i < x->dst.dwords; i++) {
        memcpy(kept.row[i], r.row[i], sizeof(kept.row[i]));
        kept.valid[i] = r.valid[i];
        kept.copied[i] = r.copied[i];
        kept.part[i] = r.part[i];
    }
    simulator_parts.execute(w, x);
    exchange(w, &x->dst, &kept); /* gives y the registers as they were before x */
    simulator_parts.execute(w, y);
    exchange(w, &x->dst, &kept);
}

/* The table of the instructions' rows follows. */

#define OWN .targets = GFX1250
#define CONTROL(op, fn, how, flag) \
    {.name = #op, .exec = fn, .arg = how, .flags = ROW_SALU | (flag), OWN}
#define WAIT(op, low, high) CONTROL(op, exec_wait, WAITS(low, high), 0)
/* Waits of gfx1201: WAIT_OF() for one counter, NO_WAIT_OF() for images and rays, which are not
 * simulated. */
#define WAIT_OF(op, counter)         \
    {.name = #op,                    \
     .exec = exec_wait,              \
     .arg = WAITS(counter, NO_WAIT), \
     .flags = ROW_SALU,              \
     .targets = GFX1201}
#define NO_WAIT_OF(op) {.name = #op, .exec = exec_nothing, .flags = ROW_SALU, .targets = GFX1201}
#define DUAL(op) {.name = "v_dual_" #op, .exec = exec_dual, .flags = ROW_VALU, OWN}

const struct op_row exec_gfx1250_rows[] = {
    WAIT(s_wait_loadcnt, WAIT_VM, NO_WAIT),
    WAIT(s_wait_storecnt, WAIT_STORE, NO_WAIT),
    WAIT(s_wait_dscnt, WAIT_LGKM, NO_WAIT),
    WAIT(s_wait_kmcnt, WAIT_KM, NO_WAIT),
    WAIT(s_wait_asynccnt, WAIT_ASYNC, NO_WAIT),
    WAIT(s_wait_tensorcnt, WAIT_TENSOR, NO_WAIT),
    WAIT(s_wait_loadcnt_dscnt, WAIT_LGKM, WAIT_VM),
    WAIT(s_wait_storecnt_dscnt, WAIT_LGKM, WAIT_STORE),
    CONTROL(s_wait_xcnt, exec_nothing, 0, 0), /* no effect: addresses are translated at issue */
    CONTROL(s_wait_alu, exec_nothing, 0, 0),  /* no effect: the ALU has no latency here */
    CONTROL(s_wait_idle, exec_wait_idle, 0, 0),
    WAIT_OF(s_wait_expcnt, WAIT_EXP),
    NO_WAIT_OF(s_wait_samplecnt),
    NO_WAIT_OF(s_wait_bvhcnt),
    {.name = "v_pipeflush", .exec = exec_nothing, .flags = ROW_VALU, OWN},
    {.name = "s_sleep_var", .exec = exec_nothing, .src = {T_B32}, .flags = ROW_SALU, OWN},
    CONTROL(s_delay_alu, exec_nothing, 0, 0),
    CONTROL(s_clause, exec_nothing, 0, 0),
    CONTROL(s_code_end, exec_nothing, 0, 0),
    CONTROL(s_version, exec_nothing, 0, 0),
    CONTROL(s_setprio_inc_wg, exec_nothing, 0, 0),
    CONTROL(s_monitor_sleep, exec_nothing, 0, 0),
    CONTROL(s_set_vgpr_msb, exec_set_vgpr_msb, 0, 0),
    CONTROL(s_round_mode, exec_set_mode, 0, 0),
    CONTROL(s_denorm_mode, exec_set_mode, 4, 0),
    {.name = "s_getreg_b32", .exec = exec_getreg, .dst = T_B32, .flags = ROW_SALU, OWN},
    {.name = "s_setreg_b32", .exec = exec_setreg, .src = {T_B32}, .flags = ROW_SALU, OWN},
    {.name = "s_setreg_imm32_b32", .exec = exec_setreg, .arg = 1, .flags = ROW_SALU, OWN},
    {.name = "s_get_pc_i64", .exec = exec_getpc, .dst = T_B64, .flags = ROW_SALU, OWN},
    {.name = "s_set_pc_i64",
     .exec = exec_setpc,
     .src = {T_B64},
     .flags = ROW_SALU | ROW_BRANCH,
     OWN},
    {.name = "s_swap_pc_i64",
     .exec = exec_setpc,
     .dst = T_B64,
     .src = {T_B64},
     .flags = ROW_SALU | ROW_BRANCH,
     OWN},
    {.name = "s_add_pc_i64",
     .exec = exec_setpc,
     .src = {T_I64},
     .arg = 1,
     .flags = ROW_SALU | ROW_BRANCH,
     OWN},
    {.name = "s_call_i64", .exec = exec_call, .dst = T_B64, .flags = ROW_SALU | ROW_BRANCH, OWN},
    {.name = "s_get_shader_cycles_u64", .exec = exec_cycles, .dst = T_B64, .flags = ROW_SALU, OWN},
    {.name = "s_sendmsg_rtn_b32",
     .exec = exec_sendmsg_rtn,
     .dst = T_B32,
     .flags = ROW_SMEM,
     .wait = 1 + WAIT_KM,
     OWN},
    {.name = "s_sendmsg_rtn_b64",
     .exec = exec_sendmsg_rtn,
     .dst = T_B64,
     .flags = ROW_SMEM,
     .wait = 1 + WAIT_KM,
     OWN},
    DUAL(fmac_f32),
    DUAL(fmaak_f32),
    DUAL(fmamk_f32),
    DUAL(mul_f32),
    DUAL(add_f32),
    DUAL(sub_f32),
    DUAL(subrev_f32),
    DUAL(mul_dx9_zero_f32),
    DUAL(mov_b32),
    DUAL(cndmask_b32),
    DUAL(max_num_f32),
    DUAL(min_num_f32),
    DUAL(add_nc_u32),
    DUAL(lshlrev_b32),
    DUAL(fma_f32),
    DUAL(sub_nc_u32),
    DUAL(lshrrev_b32),
    DUAL(ashrrev_i32),
    DUAL(fma_f64),
    DUAL(add_f64),
    DUAL(mul_f64),
    DUAL(max_num_f64),
    DUAL(min_num_f64),
    {.name = NULL},
};

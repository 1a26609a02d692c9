/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar instructions with side effects: EXEC, branches and calls, waits, barriers, hardware
 * registers, indexed registers (CDNA3 ISA, SOP1, SOPK, SOPC and SOPP sections).
 */
#include "exec_salu.h"
#include "spin.h"
#include "tables.h"

/* Makes the instruction at address `pc` the wave's next one. */
static void jump(struct wave *w, uint64_t pc) { w->pc = pc; }

/* Returns the address at which the kernel's code begins, the base of branch targets. */
static uint64_t code_base(const struct wave *w) { return code_address(w->launch->code); }

/* Conditions of branches, on SCC, VCC or EXEC; the value is op_row.arg. */
enum branch_on { ON_ALWAYS, ON_SCC0, ON_SCC1, ON_VCCZ, ON_VCCNZ, ON_EXECZ, ON_EXECNZ, ON_NEVER };

/* True if the registers that condition `on` reads are defined. */
static bool condition_valid(const struct wave *w, enum branch_on on)
{
    switch (on) {
    case ON_SCC0:
    case ON_SCC1: return w->scc_valid;
    case ON_VCCZ:
    case ON_VCCNZ: return mask_known(w, SGPR_VCC);
    case ON_EXECZ:
    case ON_EXECNZ: return mask_known(w, SGPR_EXEC);
    default: return true;
    }
}

/* True if condition `on` holds. */
static bool condition(const struct wave *w, enum branch_on on)
{
    switch (on) {
    case ON_ALWAYS: return true;
    case ON_SCC0: return !w->scc;
    case ON_SCC1: return w->scc;
    case ON_VCCZ: return wave_mask(w, SGPR_VCC) == 0;
    case ON_VCCNZ: return wave_mask(w, SGPR_VCC) != 0;
    case ON_EXECZ: return wave_exec(w) == 0;
    case ON_EXECNZ: return wave_exec(w) != 0;
    default: return false; /* conditions of the debugger: never set */
    }
}

/* Executes a branch if its condition holds. */
static void exec_branch(struct wave *w, const struct inst *in)
{
    enum branch_on on = (enum branch_on)in->row->arg;
    if ((on == ON_SCC0 || on == ON_SCC1) && !wave_check_scc(w, in))
        return;
    if (w->launch->checks & CHECK_UNINIT && !condition_valid(w, on) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "the branch condition is undefined"))
        return;
    if (!condition(w, on))
        return;
    w->went_round |= on == ON_EXECZ;
    jump(w, code_base(w) + in->target);
}

/* S_GETPC writes the address of the next instruction to the destination. */
static void exec_getpc(struct wave *w, const struct inst *in)
{
    salu_write(w, &in->dst, w->pc, UINT64_MAX);
}

/* Executes S_SETPC and S_SWAPPC: jumps to an address in registers. */
static void exec_setpc(struct wave *w, const struct inst *in)
{
    uint64_t pc = src_scalar(w, &in->src[0]);
    if (w->launch->checks & CHECK_UNINIT && !src_scalar_valid(w, &in->src[0]) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "the address of the jump is undefined"))
        return;
    if (in->dst.kind != OPND_NONE)
        salu_write(w, &in->dst, w->pc, UINT64_MAX);
    jump(w, pc);
}

/* Executes S_CALL: stores the return address and jumps. */
static void exec_call(struct wave *w, const struct inst *in)
{
    salu_write(w, &in->dst, w->pc, UINT64_MAX);
    jump(w, code_base(w) + in->target);
}

/* Operations of S_*_SAVEEXEC on EXEC: D = EXEC; EXEC = S0 op EXEC. op_row.arg has the operation,
 * and EXEC_WRITES for the _WREXEC forms, which write the new EXEC to D instead. */
enum exec_op {
    EXEC_AND,
    EXEC_OR,
    EXEC_XOR,
    EXEC_ANDN2,
    EXEC_ORN2,
    EXEC_NAND,
    EXEC_NOR,
    EXEC_XNOR,
    EXEC_ANDN1,
    EXEC_ORN1,
    EXEC_OP = 15,
    EXEC_WRITES = 16,
};

/* Returns S0 op EXEC. */
static uint64_t combine(enum exec_op op, uint64_t s, uint64_t exec)
{
    switch (op) {
    case EXEC_AND: return s & exec;
    case EXEC_OR: return s | exec;
    case EXEC_XOR: return s ^ exec;
    case EXEC_ANDN2: return s & ~exec;
    case EXEC_ORN2: return s | ~exec;
    case EXEC_NAND: return ~(s & exec);
    case EXEC_NOR: return ~(s | exec);
    case EXEC_XNOR: return ~(s ^ exec);
    case EXEC_ANDN1: return ~s & exec;
    case EXEC_ORN1: return ~s | exec;
    default: return 0;
    }
}

/* Returns the bits of the result that are the same for any value of the undefined bits. The
 * operands' undefined bits are 0 in s[0] and exec[0], and 1 in s[1] and exec[1]. */
static uint64_t combine_valid(enum exec_op op, const uint64_t s[2], const uint64_t exec[2])
{
    uint64_t changes = 0;
    for (unsigned i = 1; i < 4; i++)
        changes |= combine(op, s[i & 1], exec[i >> 1]) ^ combine(op, s[0], exec[0]);
    return ~changes;
}

/* Executes the _saveexec instructions: stores EXEC and combines it with the source. */
static void exec_saveexec(struct wave *w, const struct inst *in)
{
    enum exec_op op = (enum exec_op)(in->row->arg & EXEC_OP);
    uint64_t old = wave_exec(w), s = src_scalar(w, &in->src[0]);
    uint64_t known = src_scalar_bits(w, &in->src[0]), old_known = sgpr_valid64(w, SGPR_EXEC);
    uint64_t valid = combine_valid(op, (uint64_t[]){s & known, s | ~known},
                                   (uint64_t[]){old & old_known, old | ~old_known});
    uint64_t now = combine(op, s, old) & w->all;
    valid |= ~w->all;
    struct opnd exec = {.kind = OPND_SGPR, .dwords = 2, .reg = SGPR_EXEC};
    salu_write(w, &exec, now, valid);
    const bool writes = in->row->arg & EXEC_WRITES;
    salu_write(w, &in->dst, writes ? now : old, writes ? valid : old_known);
    w->scc = now != 0;
    w->scc_valid = valid == UINT64_MAX || (now & valid) != 0;
}

/* S_MOVK_I32 and S_CMOVK_I32, which writes only if SCC is 1. SIMM16 is sign-extended. */
static void exec_movk(struct wave *w, const struct inst *in)
{
    if (in->row->arg && !wave_check_scc(w, in))
        return;
    if (!in->row->arg || w->scc)
        salu_write(w, &in->dst, (uint32_t)(int16_t)in->simm16, UINT32_MAX);
}

/* Executes S_ADDK: adds the constant to a register. */
static void exec_addk(struct wave *w, const struct inst *in)
{
    int32_t sum, old = (int32_t)w->sgpr[in->dst.reg];
    w->scc = __builtin_add_overflow(old, (int16_t)in->simm16, &sum);
    w->scc_valid = w->s_valid[in->dst.reg] == UINT32_MAX;
    salu_write(w, &in->dst, (uint32_t)sum, w->scc_valid ? UINT32_MAX : 0);
}

/* Executes S_MULK: multiplies a register by the constant. */
static void exec_mulk(struct wave *w, const struct inst *in)
{
    bool valid = w->s_valid[in->dst.reg] == UINT32_MAX;
    salu_write(w, &in->dst, w->sgpr[in->dst.reg] * (uint32_t)(int16_t)in->simm16,
               valid ? UINT32_MAX : 0);
}

/* Comparisons of S_CMPK. op_row.arg has one of them, and CMPK_UNSIGNED for unsigned numbers. */
enum cmpk { CMPK_EQ, CMPK_LG, CMPK_GT, CMPK_GE, CMPK_LT, CMPK_LE, CMPK_UNSIGNED = 8 };

/* Executes S_CMPK: compares a register with the constant. */
static void exec_cmpk(struct wave *w, const struct inst *in)
{
    bool u = in->row->arg & CMPK_UNSIGNED;
    uint32_t s = w->sgpr[in->src[0].reg];
    int64_t a = u ? (int64_t)s : (int32_t)s, b = u ? in->simm16 : (int16_t)in->simm16;
    switch (in->row->arg & 7) {
    case CMPK_EQ: w->scc = a == b; break;
    case CMPK_LG: w->scc = a != b; break;
    case CMPK_GT: w->scc = a > b; break;
    case CMPK_GE: w->scc = a >= b; break;
    case CMPK_LT: w->scc = a < b; break;
    default: w->scc = a <= b; break;
    }
    w->scc_valid = w->s_valid[in->src[0].reg] == UINT32_MAX;
}

/* Executes S_BITSET0 and S_BITSET1: clears or sets a bit of the destination. */
static void exec_bitset(struct wave *w, const struct inst *in)
{
    unsigned size = in->dst.dwords * 32u;
    unsigned at = (unsigned)src_scalar(w, &in->src[0]) & (size - 1);
    uint64_t bit = UINT64_C(1) << at;
    uint64_t old = src_scalar(w, &in->dst), valid = src_scalar_bits(w, &in->dst);
    salu_write(w, &in->dst, in->row->arg ? old | bit : old & ~bit,
               src_scalar_valid(w, &in->src[0]) ? valid | bit : 0);
}

/* S_MOVRELS, S_MOVRELD: M0 is added to the register number of the source (op_row.arg 0) or the
 * destination (1), modulo 2^32. */
static void exec_movrel(struct wave *w, const struct inst *in)
{
    struct opnd dst = in->dst, src = in->src[0];
    struct opnd *moved = in->row->arg ? &dst : &src;
    uint32_t reg = moved->reg + w->sgpr[SGPR_M0];
    if (!m0_defined(w, in, UINT32_MAX, "the register index"))
        return;
    if (moved->kind != OPND_SGPR || (uint64_t)reg + moved->dwords > SGPR_FLAT_SCRATCH) {
        wave_fault(w, in, FAULT_REGISTER, 0, "relative scalar register s%u does not exist", reg);
        return;
    }
    moved->reg = (uint16_t)reg;
    salu_write(w, &dst, src_scalar(w, &src), src_scalar_bits(w, &src));
}

/* S_CBRANCH_G_FORK, S_CBRANCH_I_FORK and S_CBRANCH_JOIN execute both sides of a divergent branch,
 * one after the other. The side with fewer lanes is first. The address and EXEC of the other side
 * are saved in four SGPRs of a stack. MODE.CSP is the stack's depth, which this function returns
 * (CDNA4 ISA, 4.6 "Arbitrary divergent control flow"). */
static unsigned stack_depth(const struct wave *w) { return w->mode >> MODE_CSP_SHIFT; }

/* Sets the number of entries of the stack of S_CBRANCH_G_FORK. */
static void set_stack_depth(struct wave *w, unsigned depth)
{
    w->mode = (w->mode & ((1u << MODE_CSP_SHIFT) - 1)) | depth << MODE_CSP_SHIFT;
}

/* Returns an SGPR pair of the stack entry at the current depth. `half`: 0 for the mask of lanes, 1
 * for the address. */
static struct opnd stack_entry(const struct wave *w, unsigned half)
{
    return (struct opnd){
        .kind = OPND_SGPR, .dwords = 2, .reg = (uint16_t)(4 * stack_depth(w) + 2 * half)};
}

/* Sets EXEC to the mask of lanes. */
static void write_exec(struct wave *w, uint64_t lanes)
{
    struct opnd exec = {.kind = OPND_SGPR, .dwords = 2, .reg = SGPR_EXEC};
    salu_write(w, &exec, lanes, UINT64_MAX);
}

/* Pushes a side of a fork: its mask of lanes and its address. */
static void push_side(struct wave *w, uint64_t lanes, uint64_t pc)
{
    struct opnd mask = stack_entry(w, 0), address = stack_entry(w, 1);
    salu_write(w, &mask, lanes, UINT64_MAX);
    salu_write(w, &address, pc, UINT64_MAX);
    set_stack_depth(w, stack_depth(w) + 1);
}

/* Executes S_CBRANCH_G_FORK: continues on the side with fewer lanes, and pushes the other side. If
 * one side has all lanes, continues there. */
static void exec_fork(struct wave *w, const struct inst *in)
{
    uint64_t exec = wave_exec(w), pass = src_scalar(w, &in->src[0]) & exec, fail = exec & ~pass;
    uint64_t next = w->pc;
    uint64_t target = in->row->arg ? src_scalar(w, &in->src[1]) : code_base(w) + in->target;

    if (w->launch->checks & CHECK_UNINIT && !src_scalar_valid(w, &in->src[0]) &&
        !wave_finding(w, in, FAULT_UNINIT, 0, "the lanes of the fork are undefined"))
        return;
    if (pass == exec) {
        jump(w, target);
    } else if (fail != exec && __builtin_popcountll(fail) < __builtin_popcountll(pass)) {
        push_side(w, pass, target);
        write_exec(w, fail);
    } else if (fail != exec) {
        push_side(w, fail, next);
        write_exec(w, pass);
        jump(w, target);
    }
}

/* Executes S_CBRANCH_JOIN: continues on the pushed side, or after the join if both were
 * executed. */
static void exec_join(struct wave *w, const struct inst *in)
{
    if (stack_depth(w) == src_scalar(w, &in->src[0])) /* both sides have been executed */
        return;
    set_stack_depth(w, stack_depth(w) - 1);
    struct opnd mask = stack_entry(w, 0), address = stack_entry(w, 1);
    uint64_t pc = src_scalar(w, &address);
    write_exec(w, src_scalar(w, &mask));
    jump(w, pc);
}

/* Numbers of hardware registers in hwreg(). */
enum hwreg {
    HWREG_MODE = 1,
    HWREG_STATUS = 2,
    HWREG_TRAPSTS = 3,
    HWREG_HW_ID = 4,
    HWREG_GPR_ALLOC = 5,
    HWREG_LDS_ALLOC = 6,
    HWREG_IB_STS = 7,
    HWREG_SH_MEM_BASES = 15,
    HWREG_XCC_ID = 20,
};

/* Sets *value to hardware register `id`. False if the register is not simulated. */
static bool hwreg_read(const struct wave *w, unsigned id, uint32_t *value)
{
    const struct launch *l = w->launch;
    /* bytes by which LDS is allocated */
    const uint32_t granule = code_target(l->code) == GFX950 ? 1280 : 512;
    switch (id) {
    case HWREG_MODE: *value = w->mode; return true;
    case HWREG_STATUS:
        *value = w->scc | (uint32_t)w->priority << 3 | (uint32_t)(wave_exec(w) == 0) << 9 |
                 (uint32_t)(sgpr_read64(w, SGPR_VCC) == 0) << 10 |
                 (uint32_t)(w->wg->nwaves > 1) << 11 | 1u << 16;
        return true;
    case HWREG_TRAPSTS: *value = w->trapsts; return true;
    case HWREG_HW_ID: /* bits 3:0: slot of the wave; 5:4: SIMD */
        *value = (w->id / 4 & 15) | (w->id & 3) << 4;
        return true;
    case HWREG_GPR_ALLOC: /* granules minus 1: all VGPRs 11:6, ArchVGPRs 17:12, SGPRs 27:24 */
        *value =
            ((l->nvgpr + l->nagpr + 7) / 8 - 1) << 6 | ((l->nvgpr + 3) / 4 - 1) << 12 | 6u << 24;
        return true;
    case HWREG_LDS_ALLOC: /* bits 20:12: bytes of LDS, in units of 64 dwords */
        *value = (l->lds_bytes + granule - 1) / granule * (granule / 256) << 12;
        return true;
    case HWREG_IB_STS:
        *value = (wave_count(w, WAIT_VM) & 15u) | (wave_count(w, WAIT_EXP) & 7u) << 4 |
                 (wave_count(w, WAIT_LGKM) & 15u) << 8 | (wave_count(w, WAIT_VM) >> 4 & 3u) << 22;
        return true;
    case HWREG_SH_MEM_BASES:
        *value = (uint32_t)(PRIVATE_APERTURE >> 48) | (uint32_t)(SHARED_APERTURE >> 48) << 16;
        return true;
    case HWREG_XCC_ID: *value = (uint32_t)(w->wg->index % 8); return true;
    default: return false;
    }
}

/* Executes S_GETREG: reads a field of a hardware register. */
static void exec_getreg(struct wave *w, const struct inst *in)
{
    unsigned offset = in->simm16 >> 6 & 31, size = (in->simm16 >> 11) + 1u;
    uint32_t value;
    if (!hwreg_read(w, in->simm16 & 63, &value)) {
        wave_fault(w, in, FAULT_TRAP, 0, "hardware register %u is not simulated", in->simm16 & 63);
        return;
    }
    uint32_t mask = (uint32_t)((UINT64_C(1) << size) - 1);
    salu_write(w, &in->dst, value >> offset & mask, UINT32_MAX);
}

/* S_SETREG: writes bits of MODE or TRAPSTS. Writes to other registers have no effect, as if their
 * HwRegWriteMask were 0. */
static void exec_setreg(struct wave *w, const struct inst *in)
{
    unsigned id = in->simm16 & 63, offset = in->simm16 >> 6 & 31;
    uint64_t ones = (UINT64_C(1) << ((in->simm16 >> 11) + 1u)) - 1;
    uint32_t mask = (uint32_t)(ones << offset);
    uint32_t source = in->row->arg ? in->literal : w->sgpr[in->src[0].reg];
    uint32_t value = source << offset & mask;
    if (id == HWREG_MODE)
        w->mode = (w->mode & ~mask) | value;
    else if (id == HWREG_TRAPSTS)
        w->trapsts = (w->trapsts & ~mask) | value;
}

/* Writes the bits of M0 in the mask `bits`. `valid`: they are defined. */
static void write_m0(struct wave *w, uint32_t bits, uint32_t value, bool valid)
{
    w->sgpr[SGPR_M0] = (w->sgpr[SGPR_M0] & ~bits) | (value & bits);
    w->s_valid[SGPR_M0] = (w->s_valid[SGPR_M0] & ~bits) | (valid ? bits : 0);
}

/* S_SET_GPR_IDX_ON: enables indexed VGPRs. The field SSRC1 itself is the enable mask, and S0[7:0]
 * the index. */
static void exec_gpr_idx_on(struct wave *w, const struct inst *in)
{
    write_m0(w, 0xf000, in->raw[0] >> 8 << 12, true);
    write_m0(w, 0xff, (uint32_t)src_scalar(w, &in->src[0]), src_scalar_valid(w, &in->src[0]));
    w->mode |= MODE_GPR_IDX_EN;
}

/* Executes S_SET_GPR_IDX_OFF: ends VGPR indexing. */
static void exec_gpr_idx_off(struct wave *w, const struct inst *in)
{
    (void)in;
    w->mode &= ~(uint32_t)MODE_GPR_IDX_EN;
}

/* Executes S_SET_GPR_IDX_MODE: sets the operands that are indexed. */
static void exec_gpr_idx_mode(struct wave *w, const struct inst *in)
{
    write_m0(w, 0xf000, (uint32_t)in->simm16 << 12, true);
}

/* Executes S_SET_GPR_IDX_IDX: sets the index. */
static void exec_gpr_idx_idx(struct wave *w, const struct inst *in)
{
    write_m0(w, 0xff, (uint32_t)src_scalar(w, &in->src[0]), src_scalar_valid(w, &in->src[0]));
}

/* Executes S_SETVSKIP: sets whether vector instructions are skipped. */
static void exec_setvskip(struct wave *w, const struct inst *in)
{
    uint64_t on = src_scalar(w, &in->src[0]) >> (src_scalar(w, &in->src[1]) & 31) & 1;
    w->mode = (w->mode & ~(uint32_t)MODE_VSKIP) | (on ? (uint32_t)MODE_VSKIP : 0);
}

/* S_WAITCNT: SIMM16 has vmcnt in bits 15:14 and 3:0, expcnt in 6:4, lgkmcnt in 11:8. A count of all
 * ones does not wait. */
static void exec_waitcnt(struct wave *w, const struct inst *in)
{
    unsigned s = in->simm16;
    unsigned vm = (s & 15) | (s >> 14 & 3) << 4, exp = s >> 4 & 7, lgkm = s >> 8 & 15;
    if (vm != 63)
        wave_wait(w, WAIT_VM, vm);
    if (exp != 7)
        wave_wait(w, WAIT_EXP, exp);
    if (lgkm != 15)
        wave_wait(w, WAIT_LGKM, lgkm);
}

/* Executes an instruction without an effect here. */
static void exec_nothing(struct wave *w, const struct inst *in)
{
    (void)w;
    (void)in;
}

/* Executes S_ENDPGM: ends the wave. */
static void exec_endpgm(struct wave *w, const struct inst *in)
{
    (void)in;
    w->state = WAVE_ENDED;
}

/* Executes S_SETKILL: ends the wave if the constant is odd. */
static void exec_setkill(struct wave *w, const struct inst *in)
{
    if (in->simm16 & 1)
        w->state = WAVE_ENDED;
}

/*
 * Reports lanes that are active at this barrier and were inactive at the wave's previous one: they
 * have skipped it. The hardware's barrier counts waves, whatever EXEC is, but a program's
 * work-items must all reach it. Lanes that returned early never become active again and are not
 * reported.
 */
void salu_check_divergence(struct wave *w, const struct inst *in)
{
    uint64_t exec = wave_exec(w), skipped = exec & w->skipped_barrier;
    uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);

    if (skipped)
        wave_finding(w, in, FAULT_DIVERGE, skipped,
                     "these lanes were inactive at the wave's "
                     "barrier before this one, at entry%+lld",
                     (long long)(w->barrier_at - entry));
    w->skipped_barrier = w->all & ~exec;
    w->barrier_at = in->offset;
}

/* Executes S_BARRIER: the wave waits for the other waves of its workgroup. */
static void exec_barrier(struct wave *w, const struct inst *in)
{
    w->state = WAVE_AT_BARRIER;
    if (w->launch->checks & CHECK_DIVERGE)
        salu_check_divergence(w, in);
}

/* S_SETPRIO: sets the wave's priority among the waves of its SIMD, 0 to 3. */
static void exec_setprio(struct wave *w, const struct inst *in) { w->priority = in->simm16 & 3; }

/* Executes S_SETHALT: halts the wave if the constant is odd. */
static void exec_sethalt(struct wave *w, const struct inst *in)
{
    if (in->simm16 & 1)
        w->state = WAVE_HALTED;
}

/* Executes S_TRAP. */
static void exec_trap(struct wave *w, const struct inst *in)
{
    if (w->launch->trap) {
        w->launch->trap(w, in);
        return;
    }
    /* AMDGPU ABI: trap 2 is llvm.trap, an abort; 3 is llvm.debugtrap, without effect here. */
    if ((in->simm16 & 0xff) == 3)
        return;
    wave_fault(w, in, FAULT_TRAP, wave_exec(w), "the kernel executed s_trap %u", in->simm16 & 0xff);
}

/* Executes S_SENDMSG. */
static void exec_sendmsg(struct wave *w, const struct inst *in)
{
    if (w->launch->sendmsg)
        w->launch->sendmsg(w, in);
    if (w->spin)
        spin_changed(w->spin);
    if (in->row->arg) /* op_row.arg 1: S_SENDMSGHALT */
        w->state = WAVE_HALTED;
}

/* Reports an instruction that only trap handlers use. */
static void exec_refused(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_TRAP, 0, "only trap handlers use this instruction");
}

#define CONTROL(op, fn, how, flag) {.name = #op, .exec = fn, .arg = how, .flags = ROW_SALU | (flag)}
#define SAVEEXEC(op, how)   \
    {.name = #op,           \
     .exec = exec_saveexec, \
     .dst = T_B64,          \
     .src = {T_B64},        \
     .arg = how,            \
     .flags = ROW_SALU}
#define SAVEEXEC32(op, how) \
    {.name = #op,           \
     .exec = exec_saveexec, \
     .dst = T_B32,          \
     .src = {T_B32},        \
     .arg = how,            \
     .flags = ROW_SALU,     \
     .targets = GFX1250}
#define CMPK(op, how) \
    {.name = #op, .exec = exec_cmpk, .src = {T_I32}, .arg = how, .flags = ROW_SALU}
#define BRANCH(op, on) CONTROL(op, exec_branch, on, ROW_BRANCH)

const struct op_row exec_control_rows[] = {
    BRANCH(s_branch, ON_ALWAYS),
    BRANCH(s_cbranch_scc0, ON_SCC0),
    BRANCH(s_cbranch_scc1, ON_SCC1),
    BRANCH(s_cbranch_vccz, ON_VCCZ),
    BRANCH(s_cbranch_vccnz, ON_VCCNZ),
    BRANCH(s_cbranch_execz, ON_EXECZ),
    BRANCH(s_cbranch_execnz, ON_EXECNZ),
    BRANCH(s_cbranch_cdbgsys, ON_NEVER),
    BRANCH(s_cbranch_cdbguser, ON_NEVER),
    BRANCH(s_cbranch_cdbgsys_or_user, ON_NEVER),
    BRANCH(s_cbranch_cdbgsys_and_user, ON_NEVER),
    {.name = "s_getpc_b64", .exec = exec_getpc, .dst = T_B64, .flags = ROW_SALU},
    {.name = "s_setpc_b64", .exec = exec_setpc, .src = {T_B64}, .flags = ROW_SALU | ROW_BRANCH},
    {.name = "s_swappc_b64",
     .exec = exec_setpc,
     .dst = T_B64,
     .src = {T_B64},
     .flags = ROW_SALU | ROW_BRANCH},
    {.name = "s_call_b64", .exec = exec_call, .dst = T_B64, .flags = ROW_SALU | ROW_BRANCH},
    SAVEEXEC(s_and_saveexec_b64, EXEC_AND),
    SAVEEXEC(s_or_saveexec_b64, EXEC_OR),
    SAVEEXEC(s_xor_saveexec_b64, EXEC_XOR),
    SAVEEXEC(s_andn2_saveexec_b64, EXEC_ANDN2),
    SAVEEXEC(s_orn2_saveexec_b64, EXEC_ORN2),
    SAVEEXEC(s_nand_saveexec_b64, EXEC_NAND),
    SAVEEXEC(s_nor_saveexec_b64, EXEC_NOR),
    SAVEEXEC(s_xnor_saveexec_b64, EXEC_XNOR),
    SAVEEXEC(s_andn1_saveexec_b64, EXEC_ANDN1),
    SAVEEXEC(s_orn1_saveexec_b64, EXEC_ORN1),
    SAVEEXEC(s_andn1_wrexec_b64, EXEC_ANDN1 | EXEC_WRITES),
    SAVEEXEC(s_andn2_wrexec_b64, EXEC_ANDN2 | EXEC_WRITES),
    SAVEEXEC32(s_and_saveexec_b32, EXEC_AND),
    SAVEEXEC32(s_or_saveexec_b32, EXEC_OR),
    SAVEEXEC32(s_xor_saveexec_b32, EXEC_XOR),
    SAVEEXEC32(s_and_not1_saveexec_b32, EXEC_ANDN2),
    SAVEEXEC32(s_or_not1_saveexec_b32, EXEC_ORN2),
    SAVEEXEC32(s_nand_saveexec_b32, EXEC_NAND),
    SAVEEXEC32(s_nor_saveexec_b32, EXEC_NOR),
    SAVEEXEC32(s_xnor_saveexec_b32, EXEC_XNOR),
    SAVEEXEC32(s_and_not0_saveexec_b32, EXEC_ANDN1),
    SAVEEXEC32(s_or_not0_saveexec_b32, EXEC_ORN1),
    SAVEEXEC32(s_and_not0_wrexec_b32, EXEC_ANDN1 | EXEC_WRITES),
    SAVEEXEC32(s_and_not1_wrexec_b32, EXEC_ANDN2 | EXEC_WRITES),
    {.name = "s_movk_i32", .exec = exec_movk, .dst = T_I32, .flags = ROW_SALU},
    {.name = "s_cmovk_i32", .exec = exec_movk, .dst = T_I32, .arg = 1, .flags = ROW_SALU},
    {.name = "s_addk_i32", .exec = exec_addk, .dst = T_I32, .flags = ROW_SALU | ROW_DST_IS_SRC},
    {.name = "s_mulk_i32", .exec = exec_mulk, .dst = T_I32, .flags = ROW_SALU | ROW_DST_IS_SRC},
    CMPK(s_cmpk_eq_i32, CMPK_EQ),
    CMPK(s_cmpk_lg_i32, CMPK_LG),
    CMPK(s_cmpk_gt_i32, CMPK_GT),
    CMPK(s_cmpk_ge_i32, CMPK_GE),
    CMPK(s_cmpk_lt_i32, CMPK_LT),
    CMPK(s_cmpk_le_i32, CMPK_LE),
    CMPK(s_cmpk_eq_u32, CMPK_EQ | CMPK_UNSIGNED),
    CMPK(s_cmpk_lg_u32, CMPK_LG | CMPK_UNSIGNED),
    CMPK(s_cmpk_gt_u32, CMPK_GT | CMPK_UNSIGNED),
    CMPK(s_cmpk_ge_u32, CMPK_GE | CMPK_UNSIGNED),
    CMPK(s_cmpk_lt_u32, CMPK_LT | CMPK_UNSIGNED),
    CMPK(s_cmpk_le_u32, CMPK_LE | CMPK_UNSIGNED),
    {.name = "s_bitset0_b32", .exec = exec_bitset, .dst = T_B32, .src = {T_U32}, .flags = ROW_SALU},
    {.name = "s_bitset1_b32",
     .exec = exec_bitset,
     .dst = T_B32,
     .src = {T_U32},
     .arg = 1,
     .flags = ROW_SALU},
    {.name = "s_bitset0_b64", .exec = exec_bitset, .dst = T_B64, .src = {T_U32}, .flags = ROW_SALU},
    {.name = "s_bitset1_b64",
     .exec = exec_bitset,
     .dst = T_B64,
     .src = {T_U32},
     .arg = 1,
     .flags = ROW_SALU},
    {.name = "s_movrels_b32", .exec = exec_movrel, .dst = T_B32, .src = {T_B32}, .flags = ROW_SALU},
    {.name = "s_movrels_b64", .exec = exec_movrel, .dst = T_B64, .src = {T_B64}, .flags = ROW_SALU},
    {.name = "s_movreld_b32",
     .exec = exec_movrel,
     .dst = T_B32,
     .src = {T_B32},
     .arg = 1,
     .flags = ROW_SALU},
    {.name = "s_movreld_b64",
     .exec = exec_movrel,
     .dst = T_B64,
     .src = {T_B64},
     .arg = 1,
     .flags = ROW_SALU},
    {.name = "s_getreg_b32", .exec = exec_getreg, .dst = T_B32, .flags = ROW_SALU},
    {.name = "s_setreg_b32", .exec = exec_setreg, .src = {T_B32}, .flags = ROW_SALU},
    {.name = "s_setreg_imm32_b32", .exec = exec_setreg, .arg = 1, .flags = ROW_SALU},
    {.name = "s_set_gpr_idx_on", .exec = exec_gpr_idx_on, .src = {T_B32}, .flags = ROW_SALU},
    CONTROL(s_set_gpr_idx_off, exec_gpr_idx_off, 0, 0),
    CONTROL(s_set_gpr_idx_mode, exec_gpr_idx_mode, 0, 0),
    {.name = "s_set_gpr_idx_idx", .exec = exec_gpr_idx_idx, .src = {T_B32}, .flags = ROW_SALU},
    {.name = "s_setvskip", .exec = exec_setvskip, .src = {T_B32, T_B32}, .flags = ROW_SALU},
    CONTROL(s_waitcnt, exec_waitcnt, 0, 0),
    CONTROL(s_nop, exec_nothing, 0, 0),
    CONTROL(s_endpgm, exec_endpgm, 0, ROW_SHARED),
    CONTROL(s_endpgm_saved, exec_endpgm, 0, ROW_SHARED),
    CONTROL(s_endpgm_ordered_ps_done, exec_endpgm, 0, ROW_SHARED),
    CONTROL(s_barrier, exec_barrier, 0, ROW_SHARED),
    CONTROL(s_sleep, exec_nothing, 0, 0),
    CONTROL(s_wakeup, exec_nothing, 0, 0),
    CONTROL(s_setprio, exec_setprio, 0, 0),
    CONTROL(s_sethalt, exec_sethalt, 0, ROW_SHARED),
    CONTROL(s_setkill, exec_setkill, 0, ROW_SHARED),
    CONTROL(s_trap, exec_trap, 0, ROW_SHARED),
    CONTROL(s_sendmsg, exec_sendmsg, 0, ROW_SHARED),
    CONTROL(s_sendmsghalt, exec_sendmsg, 1, ROW_SHARED),
    CONTROL(s_icache_inv, exec_nothing, 0, 0),
    CONTROL(s_incperflevel, exec_nothing, 0, 0),
    CONTROL(s_decperflevel, exec_nothing, 0, 0),
    CONTROL(s_ttracedata, exec_nothing, 0, 0),
    {.name = "s_rfe_b64", .exec = exec_refused, .src = {T_B64}, .flags = ROW_SALU},
    {.name = "s_rfe_restore_b64", .exec = exec_refused, .src = {T_B64, T_B32}, .flags = ROW_SALU},
    {.name = "s_cbranch_join", .exec = exec_join, .src = {T_B32}, .flags = ROW_SALU | ROW_BRANCH},
    {.name = "s_cbranch_g_fork",
     .exec = exec_fork,
     .src = {T_B64, T_B64},
     .arg = 1,
     .flags = ROW_SALU | ROW_BRANCH},
    {.name = "s_cbranch_i_fork", .exec = exec_fork, .src = {T_B64}, .flags = ROW_SALU | ROW_BRANCH},
    {.name = NULL},
};

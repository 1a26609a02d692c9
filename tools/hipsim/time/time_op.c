/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the cost of an instruction: its port, the clocks for which the port is busy, and when
 * its result can be read. */
#include "time_op.h"

#include <math.h>
#include <string.h>

#include "isa.h"
#include "row.h"

enum { CLUSTER_BARRIER = -3 }; /* number of the cluster's barrier (CDNA5 ISA, 5.6) */

const char *time_unit_name(enum time_unit unit)
{
    static const char *const names[UNIT_COUNT] = {
        [UNIT_NONE] = "wave",   [UNIT_VALU] = "VALU",     [UNIT_MATRIX] = "MFMA",
        [UNIT_SCALAR] = "SALU", [UNIT_BRANCH] = "branch", [UNIT_SMEM] = "SMEM",
        [UNIT_LDS] = "LDS",     [UNIT_VMEM] = "VMEM",
    };
    return unit < UNIT_COUNT ? names[unit] : "?";
}

/* True if `text` contains `word`. */
static bool contains(const char *text, const char *word) { return strstr(text, word) != NULL; }

/* True if `text` begins with `prefix`. */
static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool time_is_jump(const struct inst *in)
{
    return in->row && in->row->flags & ROW_BRANCH &&
           (starts(in->row->name, "s_branch") || starts(in->row->name, "s_cbranch"));
}

/* Returns the part of a mnemonic with shape and operand types, for WMMA, SWMMAC, MFMA and SMFMAC.
 * NULL for other instructions. */
static const char *matrix_shape(const char *mnemonic)
{
    static const char *const families[] = {"v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"};
    static const char *const scales[] = {"scale_", "scale16_"};
    const char *type = NULL;
    for (unsigned i = 0; i < 4; i++)
        if (starts(mnemonic, families[i]))
            type = mnemonic + strlen(families[i]);
    for (unsigned i = 0; type && i < 2; i++)
        if (starts(type, scales[i]))
            type += strlen(scales[i]);
    /* Mnemonics have the result type, the shape, and the operand types, in this order. */
    const char *shape = type ? strchr(type, '_') : NULL;
    return shape ? shape + 1 : NULL;
}

unsigned time_matrix_cycles(enum gfx_target target, const char *mnemonic, unsigned cbsz,
                            unsigned blgp)
{
    const char *const shape = matrix_shape(mnemonic);
    if (!shape)
        return 0;
    const struct matrix_clocks *row = time_matrix_rows(target);
    const bool gfx12 = isa_of(target)->gfx12;
    const size_t family = gfx12 ? strlen("wmma_") : 0;
    while (row->shape && !starts(shape, row->shape + family))
        row++;
    /* gfx1250 has fp6 at the rate of fp8 */
    const unsigned narrow = gfx12 ? 4 : 2;
    const bool twice = contains(shape, "f8f6f4") && cbsz >= narrow && blgp >= narrow;
    return twice ? row->clocks / 2 : row->clocks;
}

/* Returns an operand's registers as a struct time_regs; count 0 for a constant. */
static struct time_regs regs_of(const struct opnd *o)
{
    const unsigned base = o->kind == OPND_AGPR ? TIME_AGPR : o->kind == OPND_SGPR ? TIME_SGPR : 0;
    if (o->kind != OPND_VGPR && o->kind != OPND_AGPR && o->kind != OPND_SGPR)
        return (struct time_regs){0};
    return (struct time_regs){.first = (uint16_t)(base + o->reg), .count = o->dwords};
}

/* Adds the registers that the instruction reads through `o`. Scalar registers are added if their
 * results have a latency (p->salu_latency). */
static void add_read(const struct time_params *p, struct time_op *op, const struct opnd *o)
{
    const struct time_regs regs = regs_of(o);
    if (regs.count && (o->kind != OPND_SGPR || p->salu_latency > 0))
        op->reads[op->nreads++] = regs;
}

/* Returns the registers of destination `o` that later instructions may wait for. None for scalar
 * registers unless p->salu_latency is above 0. */
static struct time_regs written(const struct time_params *p, const struct opnd *o)
{
    return o->kind == OPND_SGPR && p->salu_latency <= 0 ? (struct time_regs){0} : regs_of(o);
}

/* Returns the operand class of a matrix instruction. f8f6f4 forms have the rate of the wider
 * operand; cbsz and blgp 0 and 1 are 8-bit formats. */
static enum time_matrix matrix_class(const struct inst *in)
{
    const char *name = in->row->name;
    if (contains(name, "f8f6f4"))
        return in->cbsz > 1 && in->blgp > 1 ? MATRIX_4 : MATRIX_8;
    if (contains(name, "128_f4"))
        return MATRIX_4;
    if (contains(name, "fp8") || contains(name, "bf8") || contains(name, "i8") ||
        contains(name, "iu8"))
        return MATRIX_8;
    return contains(name, "f16") || contains(name, "bf16") ? MATRIX_16 : MATRIX_32;
}

/* Sets the timing of a matrix instruction. */
static void make_matrix(const struct time_params *p, enum gfx_target target, const struct inst *in,
                        struct time_op *op)
{
    op->unit = UNIT_MATRIX;
    op->issue = (uint16_t)p->issue_period;
    op->matrix = (uint16_t)time_matrix_cycles(target, in->row->name, in->cbsz, in->blgp);
    if (!op->matrix)
        op->matrix = (uint16_t)(8 * p->issue_period);
    op->matrix_class = (uint8_t)matrix_class(in);
    /* VALU instructions cannot issue during f32 and f64 matrix instructions (AMD matrix instruction
     * calculator). */
    const char *name = in->row->name;
    size_t length = strlen(name);
    bool full = contains(name, "f64") || (length > 4 && strcmp(name + length - 4, "_f32") == 0);
    op->closed = full ? op->matrix
                      : (uint16_t)(op->matrix <= 16 ? p->matrix_closed_short : p->matrix_closed);
    if (op->closed > op->matrix)
        op->closed = op->matrix;
    double states = op->matrix <= 8 ? p->matrix_result_states_short : p->matrix_result_states;
    op->result = (uint16_t)(op->matrix + (states + 1) * p->issue_period);
    op->nreads = 0;
    add_read(p, op, &in->src[0]);
    add_read(p, op, &in->src[1]);
    /* sparse ones accumulate into the destination, and src[2] is the index */
    if (starts(name, "v_smfmac_") || starts(name, "v_swmmac_")) {
        add_read(p, op, &in->src[2]);
        op->acc = op->writes;
    } else if (in->src[2].kind != OPND_SGPR) {
        op->acc = regs_of(&in->src[2]);
    }
}

/* True for the name of a packed f32 instruction. */
static bool is_packed_f32(const char *name)
{
    return starts(name, "v_pk_") && contains(name, "_f32") && !contains(name, "f16");
}

/* Sets the timing of a vector ALU instruction. */
static void make_valu(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    const char *name = in->row->name;
    op->unit = UNIT_VALU;
    op->issue = (uint16_t)p->valu_cycles;
    op->result = (uint16_t)p->valu_latency;
    if (in->pair[1])
        op->writes_too = written(p, &in->pair[1]->dst);
    if (in->row->flags & ROW_TRANS) {
        op->kind = KIND_TRANS;
        op->issue = (uint16_t)p->trans_cycles;
        op->result = (uint16_t)p->trans_latency;
    } else if (is_packed_f32(name)) {
        op->kind = KIND_PACKED_F32;
    } else if (starts(name, "v_permlane") && contains(name, "swap")) {
        op->issue = (uint16_t)p->lane_swap_cycles;
    } else if (contains(name, "_f64")) {
        op->issue = (uint16_t)p->valu_f64_cycles;
    } else if (starts(name, "v_mul_lo_u32") || starts(name, "v_mul_hi_") ||
               starts(name, "v_mad_u64") || starts(name, "v_mad_i64")) {
        op->issue = (uint16_t)p->valu_mul32_cycles;
    }
}

/* Sets the cost of an LDS instruction. ds_read2, ds_write2 and similar ones access two
 * addresses. */
static void make_lds(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    const char *name = in->row->name;
    op->unit = UNIT_LDS;
    if (starts(name, "ds_write_b128")) {
        op->wide_store = true;
        op->issue = (uint16_t)p->lds_write_b128_issue;
    }
    if (!starts(name, "ds_read2") && !starts(name, "ds_write2") && !starts(name, "ds_wrxchg2"))
        return;
    const int unit = (contains(name, "_b64") ? 8 : 4) * (contains(name, "st64") ? 64 : 1);
    op->two = true;
    op->second = (in->offset1 - in->offset0) * unit;
}

/* Decodes SIMM16 of s_waitcnt: vmcnt in bits 15:14 and 3:0, expcnt in 6:4, lgkmcnt in 11:8. All
 * ones means no wait. */
static void make_waitcnt(const struct inst *in, struct time_op *op)
{
    unsigned s = in->simm16;
    unsigned vm = (s & 15) | (s >> 14 & 3) << 4, exp = s >> 4 & 7, lgkm = s >> 8 & 15;
    op->wait[WAIT_VM] = vm == 63 ? UINT16_MAX : (uint16_t)vm;
    op->wait[WAIT_LGKM] = lgkm == 15 ? UINT16_MAX : (uint16_t)lgkm;
    op->wait[WAIT_EXP] = exp == 7 ? UINT16_MAX : (uint16_t)exp;
}

/* Decodes GFX12's waits for one or two counters: SIMM16 has the counts in bits 5:0 and 13:8. */
static void make_wait(const struct inst *in, struct time_op *op)
{
    static const struct {
        const char *name;
        /* counters of the low and the high count; WAIT_COUNTERS: none */
        enum wait_counter low, high;
    } waits[] = {
        {"s_wait_loadcnt", WAIT_VM, WAIT_COUNTERS},
        {"s_wait_storecnt", WAIT_STORE, WAIT_COUNTERS},
        {"s_wait_dscnt", WAIT_LGKM, WAIT_COUNTERS},
        {"s_wait_kmcnt", WAIT_KM, WAIT_COUNTERS},
        {"s_wait_asynccnt", WAIT_ASYNC, WAIT_COUNTERS},
        {"s_wait_tensorcnt", WAIT_TENSOR, WAIT_COUNTERS},
        {"s_wait_loadcnt_dscnt", WAIT_LGKM, WAIT_VM},
        {"s_wait_storecnt_dscnt", WAIT_LGKM, WAIT_STORE},
    };
    for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        if (strcmp(in->row->name, waits[i].name) != 0)
            continue;
        op->wait[waits[i].low] = in->simm16 & 63;
        if (waits[i].high != WAIT_COUNTERS)
            op->wait[waits[i].high] = in->simm16 >> 8 & 63;
    }
    for (unsigned c = 0; c < WAIT_COUNTERS && strcmp(in->row->name, "s_wait_idle") == 0; c++)
        op->wait[c] = 0;
}

/* Sets the cost of a scalar instruction. Comparisons write SCC, which branches read. */
static void make_scalar(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    op->unit = UNIT_SCALAR;
    op->issue = (uint16_t)p->scalar_cycles;
    op->result = (uint16_t)p->salu_latency;
    if (op->result && (starts(in->row->name, "s_cmp") || starts(in->row->name, "s_bitcmp")))
        op->writes = (struct time_regs){TIME_SCC, 1};
}

/* Sets the cost of a branch, which reads SCC or VCC. */
static void make_branch(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    op->unit = UNIT_BRANCH;
    if (p->salu_latency <= 0)
        return;
    if (contains(in->row->name, "_scc"))
        op->reads[op->nreads++] = (struct time_regs){TIME_SCC, 1};
    else if (contains(in->row->name, "_vcc"))
        op->reads[op->nreads++] = (struct time_regs){TIME_SGPR + SGPR_VCC, 1};
}

/* Sets the timing of a control instruction, such as a branch, wait or barrier. */
static void make_control(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    const char *name = in->row->name;
    op->unit = UNIT_NONE;
    op->issue = (uint16_t)p->issue_period;
    if (strcmp(name, "s_nop") == 0) {
        op->kind = KIND_NOP;
        op->issue = (uint16_t)(p->nop_cycles * ((in->simm16 & 15) + 1));
    } else if (strcmp(name, "s_waitcnt") == 0) {
        op->kind = KIND_WAITCNT;
        op->issue = (uint16_t)p->wait_cycles;
        make_waitcnt(in, op);
    } else if (starts(name, "s_wait_")) {
        op->kind = KIND_WAITCNT;
        op->issue = (uint16_t)p->wait_cycles;
        make_wait(in, op);
    } else if (strcmp(name, "s_set_vgpr_msb") == 0) {
        op->kind = KIND_MSB;
    } else if (starts(name, "s_barrier_signal") || strcmp(name, "s_delay_alu") == 0 ||
               strcmp(name, "s_clause") == 0) {
        op->kind = KIND_PLAIN;
    } else if (strcmp(name, "s_barrier") == 0 || strcmp(name, "s_barrier_wait") == 0) {
        op->kind = KIND_BARRIER;
        op->cluster = (int16_t)in->simm16 == CLUSTER_BARRIER;
    } else if (strcmp(name, "s_sleep") == 0) {
        op->kind = KIND_SLEEP;
        op->issue = (uint16_t)(p->sleep_cycles * (in->simm16 & 0x7f) + p->issue_period);
    } else if (strcmp(name, "s_sleep_var") == 0) {
        op->kind = KIND_SLEEP; /* time_pause_clocks() adds the clocks that its source has */
    } else if (starts(name, "s_endpgm")) {
        op->kind = KIND_END;
    } else {
        make_scalar(p, in, op);
    }
}

/* Sets the cost of a vector memory instruction. buffer_wbl2 without SC1 has workgroup scope, so it
 * costs nothing with an L2 that all its waves use (LLVM, memory model gfx942). */
static void make_vmem(const struct inst *in, struct time_op *op)
{
    op->unit = UNIT_VMEM;
    if (starts(in->row->name, "tensor_"))
        op->kind = KIND_TENSOR;
    else if (strcmp(in->row->name, "buffer_wbl2") == 0 && in->sc1)
        op->kind = KIND_WRITE_BACK;
    else if (strcmp(in->row->name, "buffer_inv") == 0)
        op->kind = KIND_INVALIDATE;
}

/* Sets op->late_scalar and op->late_vector, the extra clocks before the instruction can read a
 * scalar or a vector result. */
static void make_late(const struct time_params *p, struct time_op *op)
{
    double scalar = 0, vector = 0;
    if (op->unit == UNIT_VALU || op->unit == UNIT_MATRIX)
        scalar = p->salu_valu_latency - p->salu_latency;
    else if (op->unit == UNIT_LDS || op->unit == UNIT_VMEM || op->unit == UNIT_SMEM)
        scalar = p->salu_memory_latency - p->salu_latency;
    else if (op->unit == UNIT_BRANCH)
        scalar = p->salu_branch_latency - p->salu_latency;
    if (op->unit == UNIT_VMEM)
        vector = p->valu_memory_latency - p->valu_latency;
    op->late_scalar = (uint16_t)(scalar > 0 ? scalar : 0);
    op->late_vector = (uint16_t)(vector > 0 ? vector : 0);
}

struct time_op time_op_make(const struct time_params *p, enum gfx_target target,
                            const struct inst *in)
{
    struct time_op op = {.issue = (uint16_t)p->issue_period};
    for (unsigned i = 0; i < WAIT_COUNTERS; i++)
        op.wait[i] = UINT16_MAX;
    if (!in->row)
        return op;
    for (unsigned i = 0; i < in->nsrc; i++)
        add_read(p, &op, &in->src[i]);
    op.writes = written(p, &in->dst);
    uint32_t flags = in->row->flags;
    if (flags & ROW_MFMA)
        make_matrix(p, target, in, &op);
    else if (flags & ROW_VALU)
        make_valu(p, in, &op);
    else if (flags & ROW_VMEM)
        make_vmem(in, &op);
    else if (flags & ROW_LDS)
        make_lds(p, in, &op);
    else if (flags & ROW_SMEM)
        op.unit = UNIT_SMEM;
    else if (flags & ROW_BRANCH)
        make_branch(p, in, &op);
    else
        make_control(p, in, &op);
    make_late(p, &op);
    return op;
}

void time_mix_add(struct time_mix *mix, const struct time_op *op)
{
    if (op->unit == UNIT_MATRIX) {
        mix->matrix += op->matrix;
        mix->closed += op->closed;
    } else if (op->kind == KIND_PACKED_F32) {
        mix->packed_f32++;
    } else if (op->unit == UNIT_VALU) {
        mix->valu += op->issue;
    }
}

double time_loop_bound(const struct time_params *p, const struct time_mix *mix, double waves)
{
    const double open = (double)(mix->matrix - mix->closed);
    const double beyond = fmax(mix->valu - open, 0), room = fmax(open - mix->valu, 0);
    const double fit = p->packed_f32_stalls > 0 ? 0 : room / p->packed_f32_shadow;
    return waves * (mix->matrix + beyond + p->valu_cycles * fmax(mix->packed_f32 - fit, 0));
}

void time_classify(enum gfx_target target, struct inst *in)
{
    const struct time_params params = time_params_default(target);
    const struct time_op op = time_op_make(&params, target, in);
    in->clocks = (uint16_t)(op.issue + (op.kind == KIND_BARRIER ? params.barrier_cycles : 0));
    in->matrix_passes =
        (uint8_t)(time_matrix_cycles(target, in->row->name, in->cbsz, in->blgp) / 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the cost of an instruction: its port, for how long, and when its result can be read. */
#include "time_op.h"

#include <string.h>

#include "row.h"

#define TURN 4

const char *time_unit_name(enum time_unit unit)
{
    static const char *const names[UNIT_COUNT] = {
        [UNIT_NONE] = "wave",   [UNIT_VALU] = "VALU",     [UNIT_MATRIX] = "MFMA",
        [UNIT_SCALAR] = "SALU", [UNIT_BRANCH] = "branch", [UNIT_SMEM] = "SMEM",
        [UNIT_LDS] = "LDS",     [UNIT_VMEM] = "VMEM",
    };
    return unit < UNIT_COUNT ? names[unit] : "?";
}

static bool contains(const char *text, const char *word) { return strstr(text, word) != NULL; }

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool time_is_jump(const struct inst *in)
{
    return in->row && in->row->flags & ROW_BRANCH &&
           (starts(in->row->name, "s_branch") || starts(in->row->name, "s_cbranch"));
}

/* Clocks by shape and operand types. The first matching prefix applies. f8f6f4 takes half the
 * clocks if both operands are narrower than fp8. */
static const struct matrix_clocks {
    const char *shape;
    unsigned clocks;
} gfx942_matrix[] =
    {
#define M(shape, clocks, tag, source) {#shape, clocks},
#include "gfx942.def"
        {0},
},
  gfx950_matrix[] = {
#define M(shape, clocks, tag, source) {#shape, clocks},
#include "gfx950.def"
      {0},
};

unsigned time_matrix_cycles(enum gfx_target target, const char *mnemonic, unsigned cbsz,
                            unsigned blgp)
{
    bool sparse = starts(mnemonic, "v_smfmac_");
    if (!sparse && !starts(mnemonic, "v_mfma_"))
        return 0;
    /* Mnemonics have the result type, then the shape, then the operand types. */
    const char *shape = mnemonic + strlen(sparse ? "v_smfmac_" : "v_mfma_");
    if (starts(shape, "scale_"))
        shape += strlen("scale_");
    shape = strchr(shape, '_');
    if (!shape)
        return 0;
    shape++;
    const struct matrix_clocks *row = target == GFX950 ? gfx950_matrix : gfx942_matrix;
    while (row->shape && !starts(shape, row->shape))
        row++;
    return contains(shape, "f8f6f4") && cbsz > 1 && blgp > 1 ? row->clocks / 2 : row->clocks;
}

static void add_read(struct time_op *op, const struct opnd *o)
{
    if (o->kind != OPND_VGPR && o->kind != OPND_AGPR)
        return;
    op->reads[op->nreads++] = (struct time_regs){
        .first = (uint16_t)(o->reg + (o->kind == OPND_AGPR ? TIME_VGPRS : 0)), .count = o->dwords};
}

static struct time_regs vector_regs(const struct opnd *o)
{
    if (o->kind != OPND_VGPR && o->kind != OPND_AGPR)
        return (struct time_regs){0};
    return (struct time_regs){.first = (uint16_t)(o->reg + (o->kind == OPND_AGPR ? TIME_VGPRS : 0)),
                              .count = o->dwords};
}

/* Returns the operand class. f8f6f4 forms run at the rate of the wider operand; cbsz and blgp 0 and
 * 1 are 8-bit formats. */
static enum time_matrix matrix_class(const struct inst *in)
{
    const char *name = in->row->name;
    if (contains(name, "f8f6f4"))
        return in->cbsz > 1 && in->blgp > 1 ? MATRIX_4 : MATRIX_8;
    if (contains(name, "fp8") || contains(name, "bf8") || contains(name, "i8"))
        return MATRIX_8;
    return contains(name, "f16") || contains(name, "bf16") ? MATRIX_16 : MATRIX_32;
}

static void make_matrix(const struct time_params *p, enum gfx_target target, const struct inst *in,
                        struct time_op *op)
{
    op->unit = UNIT_MATRIX;
    op->issue = TURN;
    op->matrix = (uint16_t)time_matrix_cycles(target, in->row->name, in->cbsz, in->blgp);
    if (!op->matrix)
        op->matrix = 8 * TURN;
    op->matrix_class = (uint8_t)matrix_class(in);
    /* f32 and f64 matrix instructions admit no VALU instruction (AMD matrix instruction
     * calculator). */
    const char *name = in->row->name;
    size_t length = strlen(name);
    bool full = contains(name, "f64") || (length > 4 && strcmp(name + length - 4, "_f32") == 0);
    op->closed = full ? op->matrix
                      : (uint16_t)(op->matrix <= 16 ? p->matrix_closed_short : p->matrix_closed);
    if (op->closed > op->matrix)
        op->closed = op->matrix;
    double states = op->matrix <= 8 ? p->matrix_result_states_short : p->matrix_result_states;
    op->result = (uint16_t)(op->matrix + (states + 1) * TURN);
    op->nreads = 0;
    add_read(op, &in->src[0]);
    add_read(op, &in->src[1]);
    if (starts(name, "v_smfmac_")) { /* accumulates into its destination; src[2] is the index */
        add_read(op, &in->src[2]);
        op->acc = op->writes;
    } else {
        op->acc = vector_regs(&in->src[2]);
    }
}

static bool is_packed_f32(const char *name)
{
    return starts(name, "v_pk_") && contains(name, "_f32") && !contains(name, "f16");
}

static void make_valu(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    const char *name = in->row->name;
    op->unit = UNIT_VALU;
    op->issue = (uint16_t)p->valu_cycles;
    if (in->row->flags & ROW_TRANS) {
        op->kind = KIND_TRANS;
        op->issue = (uint16_t)p->trans_cycles;
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

/* Fills in the cost of an LDS instruction. ds_read2, ds_write2 and similar ones access two
 * locations. */
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

/* Decodes SIMM16 of s_waitcnt: vmcnt {15:14, 3:0}, expcnt 6:4, lgkmcnt 11:8. All ones: no wait. */
static void make_waitcnt(const struct inst *in, struct time_op *op)
{
    unsigned s = in->simm16;
    unsigned vm = (s & 15) | (s >> 14 & 3) << 4, exp = s >> 4 & 7, lgkm = s >> 8 & 15;
    op->kind = KIND_WAITCNT;
    op->wait_vm = vm == 63 ? UINT16_MAX : (uint16_t)vm;
    op->wait_lgkm = lgkm == 15 ? UINT16_MAX : (uint16_t)lgkm;
    op->wait_exp = exp == 7 ? UINT16_MAX : (uint16_t)exp;
}

static void make_control(const struct time_params *p, const struct inst *in, struct time_op *op)
{
    const char *name = in->row->name;
    op->unit = UNIT_NONE;
    op->issue = (uint16_t)p->issue_period;
    if (strcmp(name, "s_nop") == 0) {
        op->kind = KIND_NOP;
        op->issue = (uint16_t)(p->nop_cycles * ((in->simm16 & 15) + 1));
    } else if (strcmp(name, "s_waitcnt") == 0) {
        make_waitcnt(in, op);
    } else if (strcmp(name, "s_barrier") == 0) {
        op->kind = KIND_BARRIER;
    } else if (strcmp(name, "s_sleep") == 0) {
        op->kind = KIND_SLEEP;
        op->issue = (uint16_t)(p->sleep_cycles * (in->simm16 & 0x7f) + p->issue_period);
    } else if (starts(name, "s_endpgm")) {
        op->kind = KIND_END;
    } else {
        op->unit = UNIT_SCALAR;
        op->issue = (uint16_t)p->scalar_cycles;
    }
}

/* Fills in the cost of a vector memory instruction. buffer_wbl2 without SC1 has workgroup scope, so
 * the shared L2 makes it free (LLVM, memory model gfx942). */
static void make_vmem(const struct inst *in, struct time_op *op)
{
    op->unit = UNIT_VMEM;
    if (strcmp(in->row->name, "buffer_wbl2") == 0 && in->sc1)
        op->kind = KIND_WRITE_BACK;
    else if (strcmp(in->row->name, "buffer_inv") == 0)
        op->kind = KIND_INVALIDATE;
}

struct time_op time_op_make(const struct time_params *p, enum gfx_target target,
                            const struct inst *in)
{
    struct time_op op = {
        .wait_vm = UINT16_MAX,
        .wait_lgkm = UINT16_MAX,
        .wait_exp = UINT16_MAX,
        .issue = (uint16_t)p->issue_period,
    };
    if (!in->row)
        return op;
    for (unsigned i = 0; i < in->nsrc; i++)
        add_read(&op, &in->src[i]);
    op.writes = vector_regs(&in->dst);
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
        op.unit = UNIT_BRANCH;
    else
        make_control(p, in, &op);
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

double time_loop_bound(const struct time_params *p, const struct time_mix *mix, unsigned waves)
{
    double open = (double)(mix->matrix - mix->closed);
    double beyond = mix->valu > open ? mix->valu - open : 0;
    return waves * (mix->matrix + beyond + p->valu_cycles * mix->packed_f32);
}

void time_classify(enum gfx_target target, struct inst *in)
{
    const struct time_params params = time_params_default(target);
    const struct time_op op = time_op_make(&params, target, in);
    in->clocks = (uint16_t)(op.issue + (op.kind == KIND_BARRIER ? params.barrier_cycles : 0));
    in->matrix_passes =
        (uint8_t)(time_matrix_cycles(target, in->row->name, in->cbsz, in->blgp) / 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V_MFMA_* and V_SMFMAC_* (CDNA3 ISA, chapter 7 "Matrix arithmetic instructions"): their operands,
 * and which results are defined. mfma.h has the arithmetic. EXEC is ignored: all 64 lanes compute.
 * Of MODE only FP16_OVFL and the denormals of F32 inputs matter; results round to nearest even.
 */
#include <string.h>

#include "decode.h"
#include "row.h"
#include "mfma.h"
#include "tables.h"

/* Shape of an instruction and formats of A and B. FORMAT_FP8 and FORMAT_BF8 in a row are the
 * target's own: FNUZ on gfx942, OCP on gfx950. */
struct kind {
    struct mfma_shape shape;
    uint8_t a, b;
};

/* The registers of an operand, or a copy of them; see operand(). */
struct operand_rows {
    const uint32_t (*rows)[WAVE_LANES];
    uint32_t copy[32][WAVE_LANES];
};

/* Returns the element format on the wave's target. gfx942 has the FNUZ formats of 8 bits. */
static enum mfma_format target_format(const struct wave *w, uint8_t format)
{
    if (code_target(w->launch->code) != GFX942)
        return (enum mfma_format)format;
    return format == FORMAT_FP8   ? FORMAT_FP8_FNUZ
           : format == FORMAT_BF8 ? FORMAT_BF8_FNUZ
                                  : (enum mfma_format)format;
}

/* Returns the format that `select`, CBSZ or BLGP of an F8F6F4 instruction, names; FORMAT_COUNT if
 * it is reserved. */
static enum mfma_format selected_format(unsigned select)
{
    static const uint8_t formats[] = {FORMAT_FP8, FORMAT_BF8, FORMAT_FP6, FORMAT_BF6, FORMAT_FP4};

    return select < sizeof(formats) ? (enum mfma_format)formats[select] : FORMAT_COUNT;
}

/* Points r->rows to the registers of an operand, or to a copy if the result overwrites some of
 * them. Constants fill a copy. C may be in the result's registers, since each element is read
 * before it is written. */
static void operand(const struct wave *w, const struct inst *in, const struct opnd *o,
                    struct operand_rows *r)
{
    const bool same = o == &in->src[2] && o->reg == in->dst.reg && o->dwords == in->dst.dwords;
    bool accumulator = o->kind == OPND_AGPR;

    if (accumulator || o->kind == OPND_VGPR) {
        r->rows = (const uint32_t (*)[WAVE_LANES])(accumulator ? w->a + o->reg : w->v + o->reg);
        if (same || !opnd_overlap(o, &in->dst))
            return;
        memcpy(r->copy, r->rows, o->dwords * sizeof(r->copy[0]));
    } else {
        bool wide = TYPE_CLASS(o->type) == CLASS_F64;
        for (unsigned i = 0; i < o->dwords; i++)
            for (unsigned l = 0; l < WAVE_LANES; l++)
                r->copy[i][l] = (uint32_t)(o->imm >> (wide && i % 2 ? 32 : 0));
    }
    r->rows = (const uint32_t (*)[WAVE_LANES])r->copy;
}

/* The functions from here on track undefined bits of operands and results. */

/* Returns the mask of lanes after BLGP has moved the lanes of B. */
static uint64_t moved_lanes(uint64_t lanes, unsigned blgp)
{
    uint64_t moved = 0;

    for (unsigned l = 0; l < WAVE_LANES; l++)
        moved |= (lanes >> mfma_blgp_lane(l, blgp) & 1) << l;
    return moved;
}

/* Returns a mask with bit i set if all lanes that have row i of A (column i of B) of block `block`
 * are in `lanes`. A has `width` rows (B columns) and `blocks` blocks. */
static uint32_t lines_defined(uint64_t lanes, unsigned width, unsigned blocks, unsigned block)
{
    uint32_t defined = UINT32_MAX;

    for (unsigned lane = block * width; lane < WAVE_LANES; lane += width * blocks)
        defined &= (uint32_t)(lanes >> lane);
    return defined;
}

/* Records which results are defined, from the masks `a` and `b` of the lanes in which A and B
 * are. */
static void set_validity(struct wave *w, const struct inst *in, const struct mfma_job *job,
                         uint64_t a, uint64_t b)
{
    const struct mfma_shape *s = &job->shape;
    const struct opnd *c = s->sparse ? &in->dst : &in->src[2];
    bool wide = job->a_format == FORMAT_F64;
    uint64_t *valid = (in->dst.kind == OPND_AGPR ? w->a_valid : w->v_valid) + in->dst.reg;
    uint64_t result[32] = {0};

    for (unsigned block = 0; block < s->blocks; block++) {
        uint32_t rows = lines_defined(a, s->m, s->blocks, mfma_block_of_a(job, block));
        uint64_t columns = lines_defined(b, s->n, s->blocks, block);
        columns &= (UINT64_C(1) << s->n) - 1;
        for (unsigned i = 0; i < s->m; i++) {
            unsigned reg, lane;
            mfma_d_place(s, wide, block, i, &reg, &lane);
            if (rows >> i & 1)
                result[wide ? 2 * reg : reg] |= columns << lane;
        }
    }
    for (unsigned r = 0; r < in->dst.dwords; r++) {
        struct opnd one = *c;
        one.reg = (uint16_t)(c->reg + r);
        one.dwords = 1;
        uint64_t from_c =
            c->kind == OPND_VGPR || c->kind == OPND_AGPR ? src_valid(w, &one) : UINT64_MAX;
        result[r] = result[wide ? r & ~1u : r] & from_c;
    }
    memcpy(valid, result, in->dst.dwords * sizeof(*valid));
}

/* True if the operand is defined in all lanes. */
static bool all_defined(const struct wave *w, const struct opnd *o)
{
    return (o->kind != OPND_VGPR && o->kind != OPND_AGPR) || src_valid(w, o) == UINT64_MAX;
}

/* Masks of the lanes of A and B that are defined, computed before execution; `all`: every lane of
 * A, B and C is. */
struct defined {
    bool all;
    uint64_t a, b;
};

/* Returns the lanes in which each operand is defined. `scaled`: the instruction has scales. */
static struct defined defined_lanes(const struct wave *w, const struct inst *in, bool scaled)
{
    struct defined d = {.a = src_valid(w, &in->src[0]), .b = src_valid(w, &in->src[1])};
    bool sparse = in->row->flags & ROW_DST_IS_SRC;

    if (sparse)
        d.a &= src_valid(w, &in->src[2]);
    if (scaled) {
        d.a &= src_valid(w, &in->src[3]);
        d.b &= src_valid(w, &in->src[4]);
    }
    d.all =
        d.a == UINT64_MAX && d.b == UINT64_MAX && all_defined(w, sparse ? &in->dst : &in->src[2]);
    return d;
}

/* The functions from here on execute the instructions. */

/* Records which results of the executed job are defined. `d`: the operands' masks before
 * execution. */
static void finish(struct wave *w, const struct inst *in, const struct mfma_job *job,
                   const struct defined *d)
{
    uint64_t *valid = (in->dst.kind == OPND_AGPR ? w->a_valid : w->v_valid) + in->dst.reg;

    if (d->all) {
        for (unsigned r = 0; r < in->dst.dwords; r++)
            valid[r] = UINT64_MAX;
        return;
    }
    set_validity(w, in, job, d->a, job->blgp ? moved_lanes(d->b, job->blgp) : d->b);
}

/* Returns the job of the instruction without its operands: shape, formats, broadcast and
 * saturation. */
static struct mfma_job job_of(struct wave *w, const struct inst *in)
{
    const struct kind *k = in->row->lanes;

    return (struct mfma_job){
        .shape = k->shape,
        .a_format = (uint8_t)target_format(w, k->a),
        .b_format = (uint8_t)target_format(w, k->b),
        .d = in->dst.kind == OPND_AGPR ? w->a + in->dst.reg : w->v + in->dst.reg,
        .saturate = w->mode & MODE_FP16_OVFL,
    };
}

/* Replaces denormals of an F32 operand by zeros of their sign. MODE's input denormals govern A and
 * B (CDNA4 ISA, 7.4); C and narrower formats keep theirs. */
static void flush_inputs(const struct opnd *o, struct operand_rows *r)
{
    for (unsigned i = 0; i < o->dwords; i++)
        for (unsigned l = 0; l < WAVE_LANES; l++) {
            uint32_t u = r->rows[i][l];
            r->copy[i][l] = u & 0x7f800000 ? u : u & 0x80000000;
        }
    r->rows = (const uint32_t (*)[WAVE_LANES])r->copy;
}

/* Executes a matrix instruction. */
static void exec_mfma(struct wave *w, const struct inst *in)
{
    struct operand_rows a, b, c;
    struct mfma_job job = job_of(w, in);
    struct defined d = defined_lanes(w, in, false);

    if (job.a_format == FORMAT_F64) {
        job.negate = in->blgp;
    } else {
        job.cbsz = in->cbsz;
        job.abid = in->abid;
        job.blgp = in->blgp;
    }
    operand(w, in, &in->src[0], &a);
    operand(w, in, &in->src[1], &b);
    operand(w, in, &in->src[2], &c);
    if (job.a_format == FORMAT_F32 && !(w->mode & MODE_DENORM_F32 & 0x10)) {
        flush_inputs(&in->src[0], &a);
        flush_inputs(&in->src[1], &b);
    }
    job.a = a.rows;
    job.b = b.rows;
    job.c = c.rows;
    mfma_run(&job);
    finish(w, in, &job, &d);
}

/* Executes V_SMFMAC: A has two of every four k, which the index (source 2) names; C is D. */
static void exec_smfmac(struct wave *w, const struct inst *in)
{
    struct operand_rows a, b;
    uint32_t tmp[WAVE_LANES];
    struct mfma_job job = job_of(w, in);
    struct defined d = defined_lanes(w, in, false);
    unsigned set = 2 * mfma_a_per_lane(&job.shape); /* bits of the index per lane */

    operand(w, in, &in->src[0], &a);
    operand(w, in, &in->src[1], &b);
    job.a = a.rows;
    job.b = b.rows;
    job.c = (const uint32_t (*)[WAVE_LANES])job.d;
    job.index = src_rows(w, &in->src[2], tmp);
    /* CBSZ 0: ABID selects a set of indices in the register; other values of CBSZ select the first
     * set. */
    job.index_shift = in->cbsz ? 0 : (uint8_t)(in->abid * set % 32);
    mfma_run(&job);
    finish(w, in, &job, &d);
}

/* Copies a row of scales to `copy` and returns it. Results are written one by one and may overwrite
 * the registers of the scales. */
static const uint32_t *scales(const struct wave *w, const struct opnd *o,
                              uint32_t copy[static WAVE_LANES])
{
    const uint32_t *row = src_rows(w, o, copy);
    if (row != copy)
        memcpy(copy, row, WAVE_LANES * sizeof(*copy));
    return copy;
}

/* Executes F8F6F4. CBSZ selects A's format, and BLGP selects B's. The scaled form has one E8M0
 * scale per 32 k, in the byte of a register that OP_SEL and OP_SEL_HI select. */
static void exec_f8f6f4(struct wave *w, const struct inst *in)
{
    struct operand_rows a, b, c;
    uint32_t tmp[2][WAVE_LANES];
    struct mfma_job job = job_of(w, in);
    bool scaled = in->src[3].kind != OPND_NONE;
    struct defined d = defined_lanes(w, in, scaled);

    job.a_format = (uint8_t)selected_format(in->cbsz);
    job.b_format = (uint8_t)selected_format(in->blgp);
    if (job.a_format == FORMAT_COUNT || job.b_format == FORMAT_COUNT) {
        wave_fault(w, in, FAULT_DECODE, 0, "reserved matrix format: cbsz %u, blgp %u", in->cbsz,
                   in->blgp);
        return;
    }
    operand(w, in, &in->src[0], &a);
    operand(w, in, &in->src[1], &b);
    operand(w, in, &in->src[2], &c);
    job.a = a.rows;
    job.b = b.rows;
    job.c = c.rows;
    if (scaled) {
        job.scale_a = scales(w, &in->src[3], tmp[0]);
        job.scale_b = scales(w, &in->src[4], tmp[1]);
        job.scale_a_shift = (uint8_t)(8 * ((in->op_sel & 1) | (in->op_sel_hi & 1) << 1));
        job.scale_b_shift = (uint8_t)(8 * ((in->op_sel >> 1 & 1) | (in->op_sel_hi & 2)));
    }
    mfma_run(&job);
    finish(w, in, &job, &d);
}

#define KIND(m, n, k, blocks, a, b) \
    (const void *)&(const struct kind) { {m, n, k, blocks, false}, FORMAT_##a, FORMAT_##b }
#define SPARSE(m, n, k, a, b) \
    (const void *)&(const struct kind) { {m, n, k, 1, true}, FORMAT_##a, FORMAT_##b }
#define MFMA(n, d, ab, on, kind) \
    {.name = "v_mfma_" n,        \
     .exec = exec_mfma,          \
     .dst = d,                   \
     .src = {ab, ab, d},         \
     .flags = ROW_MFMA,          \
     .targets = on,              \
     .lanes = kind}
#define SMFMAC(n, d, a, b, on, kind)     \
    {.name = "v_smfmac_" n,              \
     .exec = exec_smfmac,                \
     .dst = d,                           \
     .src = {a, b, T_B32},               \
     .flags = ROW_MFMA | ROW_DST_IS_SRC, \
     .targets = on,                      \
     .lanes = kind}
#define F8F6F4(n, d, s3, kind)           \
    {.name = n,                          \
     .exec = exec_f8f6f4,                \
     .dst = d,                           \
     .src = {T_B256, T_B256, d, s3, s3}, \
     .flags = ROW_MFMA,                  \
     .targets = GFX950,                  \
     .lanes = kind}
/* Rows with all four pairs of 8-bit formats. */
#define MFMA_FP8(n, d, m, k)                                         \
    MFMA(n "_fp8_fp8", d, T_B64, 0, KIND(m, m, k, 1, FP8, FP8)),     \
        MFMA(n "_fp8_bf8", d, T_B64, 0, KIND(m, m, k, 1, FP8, BF8)), \
        MFMA(n "_bf8_fp8", d, T_B64, 0, KIND(m, m, k, 1, BF8, FP8)), \
        MFMA(n "_bf8_bf8", d, T_B64, 0, KIND(m, m, k, 1, BF8, BF8))
#define SMFMAC_FP8(n, d, a, b, on, m, k)                              \
    SMFMAC(n "_fp8_fp8", d, a, b, on, SPARSE(m, m, k, FP8, FP8)),     \
        SMFMAC(n "_fp8_bf8", d, a, b, on, SPARSE(m, m, k, FP8, BF8)), \
        SMFMAC(n "_bf8_fp8", d, a, b, on, SPARSE(m, m, k, BF8, FP8)), \
        SMFMAC(n "_bf8_bf8", d, a, b, on, SPARSE(m, m, k, BF8, BF8))

const struct op_row exec_mfma_rows[] = {
    MFMA("f32_32x32x1_2b_f32", T_F32X32, T_B32, 0, KIND(32, 32, 1, 2, F32, F32)),
    MFMA("f32_16x16x1_4b_f32", T_F32X16, T_B32, 0, KIND(16, 16, 1, 4, F32, F32)),
    MFMA("f32_4x4x1_16b_f32", T_F32X4, T_B32, 0, KIND(4, 4, 1, 16, F32, F32)),
    MFMA("f32_32x32x2_f32", T_F32X16, T_B32, 0, KIND(32, 32, 2, 1, F32, F32)),
    MFMA("f32_16x16x4_f32", T_F32X4, T_B32, 0, KIND(16, 16, 4, 1, F32, F32)),
    MFMA("f32_32x32x4_xf32", T_F32X16, T_B64, GFX942, KIND(32, 32, 4, 1, XF32, XF32)),
    MFMA("f32_16x16x8_xf32", T_F32X4, T_B64, GFX942, KIND(16, 16, 8, 1, XF32, XF32)),
    MFMA("f32_32x32x4_2b_f16", T_F32X32, T_B64, 0, KIND(32, 32, 4, 2, F16, F16)),
    MFMA("f32_16x16x4_4b_f16", T_F32X16, T_B64, 0, KIND(16, 16, 4, 4, F16, F16)),
    MFMA("f32_4x4x4_16b_f16", T_F32X4, T_B64, 0, KIND(4, 4, 4, 16, F16, F16)),
    MFMA("f32_32x32x8_f16", T_F32X16, T_B64, 0, KIND(32, 32, 8, 1, F16, F16)),
    MFMA("f32_16x16x16_f16", T_F32X4, T_B64, 0, KIND(16, 16, 16, 1, F16, F16)),
    MFMA("f32_32x32x16_f16", T_F32X16, T_B128, GFX950, KIND(32, 32, 16, 1, F16, F16)),
    MFMA("f32_16x16x32_f16", T_F32X4, T_B128, GFX950, KIND(16, 16, 32, 1, F16, F16)),
    MFMA("f32_32x32x4_2b_bf16", T_F32X32, T_B64, 0, KIND(32, 32, 4, 2, BF16, BF16)),
    MFMA("f32_16x16x4_4b_bf16", T_F32X16, T_B64, 0, KIND(16, 16, 4, 4, BF16, BF16)),
    MFMA("f32_4x4x4_16b_bf16", T_F32X4, T_B64, 0, KIND(4, 4, 4, 16, BF16, BF16)),
    MFMA("f32_32x32x8_bf16", T_F32X16, T_B64, 0, KIND(32, 32, 8, 1, BF16, BF16)),
    MFMA("f32_16x16x16_bf16", T_F32X4, T_B64, 0, KIND(16, 16, 16, 1, BF16, BF16)),
    MFMA("f32_32x32x16_bf16", T_F32X16, T_B128, GFX950, KIND(32, 32, 16, 1, BF16, BF16)),
    MFMA("f32_16x16x32_bf16", T_F32X4, T_B128, GFX950, KIND(16, 16, 32, 1, BF16, BF16)),
    MFMA("f64_16x16x4_f64", T_F64X4, T_F64, 0, KIND(16, 16, 4, 1, F64, F64)),
    MFMA("f64_4x4x4_4b_f64", T_F64, T_F64, 0, KIND(4, 4, 4, 4, F64, F64)),
    MFMA("i32_32x32x4_2b_i8", T_I32X32, T_B32, 0, KIND(32, 32, 4, 2, I8, I8)),
    MFMA("i32_16x16x4_4b_i8", T_I32X16, T_B32, 0, KIND(16, 16, 4, 4, I8, I8)),
    MFMA("i32_4x4x4_16b_i8", T_I32X4, T_B32, 0, KIND(4, 4, 4, 16, I8, I8)),
    MFMA("i32_32x32x16_i8", T_I32X16, T_B64, 0, KIND(32, 32, 16, 1, I8, I8)),
    MFMA("i32_16x16x32_i8", T_I32X4, T_B64, 0, KIND(16, 16, 32, 1, I8, I8)),
    MFMA("i32_32x32x32_i8", T_I32X16, T_B128, GFX950, KIND(32, 32, 32, 1, I8, I8)),
    MFMA("i32_16x16x64_i8", T_I32X4, T_B128, GFX950, KIND(16, 16, 64, 1, I8, I8)),
    MFMA_FP8("f32_32x32x16", T_F32X16, 32, 16),
    MFMA_FP8("f32_16x16x32", T_F32X4, 16, 32),
    F8F6F4("v_mfma_f32_32x32x64_f8f6f4", T_F32X16, T_NONE, KIND(32, 32, 64, 1, FP8, FP8)),
    F8F6F4("v_mfma_f32_16x16x128_f8f6f4", T_F32X4, T_NONE, KIND(16, 16, 128, 1, FP8, FP8)),
    F8F6F4("v_mfma_scale_f32_32x32x64_f8f6f4", T_F32X16, T_B32, KIND(32, 32, 64, 1, FP8, FP8)),
    F8F6F4("v_mfma_scale_f32_16x16x128_f8f6f4", T_F32X4, T_B32, KIND(16, 16, 128, 1, FP8, FP8)),
    SMFMAC("f32_32x32x16_f16", T_F32X16, T_B64, T_B128, 0, SPARSE(32, 32, 16, F16, F16)),
    SMFMAC("f32_16x16x32_f16", T_F32X4, T_B64, T_B128, 0, SPARSE(16, 16, 32, F16, F16)),
    SMFMAC("f32_32x32x16_bf16", T_F32X16, T_B64, T_B128, 0, SPARSE(32, 32, 16, BF16, BF16)),
    SMFMAC("f32_16x16x32_bf16", T_F32X4, T_B64, T_B128, 0, SPARSE(16, 16, 32, BF16, BF16)),
    SMFMAC("i32_32x32x32_i8", T_I32X16, T_B64, T_B128, 0, SPARSE(32, 32, 32, I8, I8)),
    SMFMAC("i32_16x16x64_i8", T_I32X4, T_B64, T_B128, 0, SPARSE(16, 16, 64, I8, I8)),
    SMFMAC_FP8("f32_32x32x32", T_F32X16, T_B64, T_B128, 0, 32, 32),
    SMFMAC_FP8("f32_16x16x64", T_F32X4, T_B64, T_B128, 0, 16, 64),
    SMFMAC("f32_32x32x32_f16", T_F32X16, T_B128, T_B256, GFX950, SPARSE(32, 32, 32, F16, F16)),
    SMFMAC("f32_16x16x64_f16", T_F32X4, T_B128, T_B256, GFX950, SPARSE(16, 16, 64, F16, F16)),
    SMFMAC("f32_32x32x32_bf16", T_F32X16, T_B128, T_B256, GFX950, SPARSE(32, 32, 32, BF16, BF16)),
    SMFMAC("f32_16x16x64_bf16", T_F32X4, T_B128, T_B256, GFX950, SPARSE(16, 16, 64, BF16, BF16)),
    SMFMAC("i32_32x32x64_i8", T_I32X16, T_B128, T_B256, GFX950, SPARSE(32, 32, 64, I8, I8)),
    SMFMAC("i32_16x16x128_i8", T_I32X4, T_B128, T_B256, GFX950, SPARSE(16, 16, 128, I8, I8)),
    SMFMAC_FP8("f32_32x32x64", T_F32X16, T_B128, T_B256, GFX950, 32, 64),
    SMFMAC_FP8("f32_16x16x128", T_F32X4, T_B128, T_B256, GFX950, 16, 128),
    {.name = NULL},
};

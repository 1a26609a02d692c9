/* SPDX-License-Identifier: Apache-2.0
 *
 * This file checks matrix products: operands and results must have the layouts of the instruction.
 * It also checks folds of 16-bit elements in pairs, which dot and max3 instructions compute.
 */
#include <string.h>

#include "ir/matrix.h"
#include "ir/verify.h"

/*
 * True if A and B (transposed here, so that both have k in their columns) agree on the contraction:
 * every multiplication joins elements of the same k. Any bijection of the instruction's k will do
 * if both have it. The low lanes and further registers are rows of A and columns of B, in any
 * order.
 */
static bool operands_agree(const struct tir_layout *a, const struct tir_layout *b,
                           const struct tir_mma *m)
{
    const struct tir_layout *const both[] = {a, b};
    uint32_t k[2][TIR_MAX_K_BITS];
    const unsigned n = tir_mma_contraction(m, false, a, k[0]);
    if (!n || m->m != m->n || n != tir_mma_contraction(m, true, b, k[1]) ||
        memcmp(k[0], k[1], n * sizeof(k[0][0])) != 0)
        return false;
    for (int o = 0; o < 2; o++) {
        const struct tir_layout *const l = both[o];
        const int m_bits = __builtin_ctz(m->m), inner = (o ? m->b : m->a).reg_bits;
        for (int i = inner + (int)n - __builtin_ctz(m->k); i < l->reg_bits + m_bits; i++)
            if (tir_rc_col(l->basis[i]))
                return false;
    }
    return true;
}

/* Returns the row (or column) of the product that row `index` of an instruction's block is, read
 * off the low lanes of an operand. */
static unsigned outer_index(const struct tir_layout *operand, unsigned index)
{
    unsigned sum = 0;
    for (int i = 0; index >> i; i++)
        if (index >> i & 1)
            sum ^= tir_rc_row(operand->basis[operand->reg_bits + i]);
    return sum;
}

/* True if `d` holds the instruction's block in its low registers and lanes, with rows and columns
 * in the order of A and B (transposed). */
static bool is_product(const struct tir_layout *d, const struct tir_layout *a,
                       const struct tir_layout *b, const struct tir_mma *m)
{
    const struct tir_layout *const block = &m->d;
    if (d->reg_bits < block->reg_bits || d->lane_bits != block->lane_bits)
        return false;
    for (int i = 0; i < block->reg_bits + block->lane_bits; i++) {
        const uint32_t rc = block->basis[i];
        const int at = i < block->reg_bits ? i : d->reg_bits + i - block->reg_bits;
        if (d->basis[at] != TIR_RC(outer_index(a, tir_rc_row(rc)), outer_index(b, tir_rc_col(rc))))
            return false;
    }
    return true;
}

/* True if waves split rows and columns of the result alike in A, B and D, and never split the
   contraction. */
static bool waves_agree(const struct tir_layout *a, const struct tir_layout *b,
                        const struct tir_layout *d)
{
    for (int i = 0; i < a->wave_bits || i < b->wave_bits || i < d->wave_bits; i++) {
        const uint32_t image = tir_wave_image(d, i);
        if (tir_wave_image(a, i) != TIR_RC(tir_rc_row(image), 0) ||
            tir_wave_image(b, i) != TIR_RC(tir_rc_col(image), 0))
            return false;
    }
    return true;
}

/* True if the registers of A and B step over the blocks of D in the order of D's own registers. */
static bool blocks_agree(const struct tir_layout *a, const struct tir_layout *b,
                         const struct tir_layout *d, const struct tir_mma *m)
{
    int rows = 0, cols = 0, i = m->d.reg_bits;
    while (rows < a->reg_bits && !tir_rc_row(a->basis[rows]))
        rows++;
    while (cols < b->reg_bits && !tir_rc_row(b->basis[cols]))
        cols++;
    for (; rows < a->reg_bits; rows++, i++)
        if (i >= d->reg_bits || d->basis[i] != TIR_RC(tir_rc_row(a->basis[rows]), 0))
            return false;
    for (; cols < b->reg_bits; cols++, i++)
        if (i >= d->reg_bits || d->basis[i] != TIR_RC(0, tir_rc_row(b->basis[cols])))
            return false;
    return i == d->reg_bits;
}

/* Returns the matrix instruction that `op` names, or NULL with a finding if it is invalid. */
static const struct tir_mma *instruction(struct tir_verifier *v, const struct tir_op *op)
{
    const struct tir_machine *const m = v->f->machine;
    if (!tir_check(v, m && op->imm[0] >= 0 && op->imm[0] < (int64_t)m->n_mma,
                   "no such instruction"))
        return NULL;
    return &m->mma[op->imm[0]];
}

/* Checks a scale: it is one for the whole op, or one for each 32 elements of k. */
static void check_scale(struct tir_verifier *v, const struct tir_op *op, bool right,
                        const struct tir_layout *operand, const struct tir_mma *m)
{
    const unsigned at = right ? 4 : 3;
    const struct tir_type t = tir_typeof(v->f, op->operands[at]);
    if (t.kind == TIR_SCALAR) {
        tir_check(v, t.dtype == TIR_I32, "operand %u is neither a scalar i32 nor a tile of i8", at);
        return;
    }
    struct tir_layout want;
    if (!tir_check(v, t.kind == TIR_TILE && t.dtype == TIR_I8,
                   "operand %u is neither a scalar i32 nor a tile of i8", at) ||
        !tir_check(v, tir_mma_scales(m, right, operand, &want),
                   "%s takes no scales of operand %d as it is laid out", m->name, (int)right))
        return;
    const struct tir_layout *const own = tir_layout_of(v->f, t);
    const struct tir_layout transposed = right ? tir_layout_transpose(own) : *own;
    tir_check(v, tir_layout_equal(&transposed, &want), "operand %u is not laid out for %s", at,
              m->name);
}

/* Checks the attr k: each instruction multiplies columns below k only, or is left out. */
static void check_first_k(struct tir_verifier *v, int64_t k, const struct tir_layout *a,
                          const struct tir_mma *m)
{
    const unsigned elements = tir_mma_in_regs(m), lanes = 1u << a->lane_bits;
    unsigned regs = 1;
    while (regs < 1u << a->reg_bits && !tir_rc_row(tir_layout_apply(a, regs, 0, 0)))
        regs *= 2;
    bool in_order = k > 0;
    int64_t covered = 0;
    for (unsigned r = 0; r < regs; r += elements) {
        unsigned below = 0;
        for (unsigned i = 0; i < elements * lanes; i++)
            below += tir_rc_col(tir_layout_apply(a, r + i % elements, i / elements, 0)) < k;
        in_order &= !below || (below == elements * lanes && covered == r);
        covered += below ? elements : 0;
    }
    tir_check(v, in_order && covered, "k %lld is not that of whole instructions", (long long)k);
}

/* Returns the op's instruction if it takes scales as the op does. Checks the dtypes too. */
static const struct tir_mma *fitting_instruction(struct tir_verifier *v, const struct tir_op *op,
                                                 struct tir_op_types t, bool scaled)
{
    const struct tir_mma *const m = instruction(v, op);
    if (!m ||
        !tir_check(v, m->scaled == scaled, "%s %s scales", m->name, m->scaled ? "takes" : "has no"))
        return NULL;
    tir_check(v,
              t.a.dtype == m->in_dtype && t.b.dtype == m->right_dtype && t.c.dtype == m->acc_dtype,
              "dtypes are not those of %s", m->name);
    return m;
}

void tir_check_mma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const bool scaled = op->opcode == TIR_mma_scaled;
    const struct tir_mma *const m = fitting_instruction(v, op, t, scaled);
    if (!m)
        return;
    const unsigned left = m->left_format == TIR_MX_E2M1, right = m->right_format == TIR_MX_E2M1;
    tir_check(v,
              t.a.cols << left == t.b.rows << right && t.a.rows == t.c.rows && t.b.cols == t.c.cols,
              "%ux%u times %ux%u is not %ux%u", t.a.rows, t.a.cols << left, t.b.rows << right,
              t.b.cols, t.c.rows, t.c.cols);
    const struct tir_layout *const a = tir_layout_of(v->f, t.a);
    const struct tir_layout b = tir_layout_transpose(tir_layout_of(v->f, t.b));
    const struct tir_layout *const d = tir_layout_of(v->f, t.c);
    if (!tir_check(v, operands_agree(a, &b, m), "operands are not laid out for %s", m->name) ||
        !tir_check(v, is_product(d, a, &b, m), "operand 2 is not laid out for %s", m->name))
        return;
    tir_check(v, blocks_agree(a, &b, d, m),
              "registers walk the blocks of operands and result "
              "differently");
    tir_check(v, waves_agree(a, &b, d), "waves split the operands and the result differently");
    if (op->opcode == TIR_mma && op->imm[1])
        check_first_k(v, op->imm[1], a, m);
    if (scaled) {
        check_scale(v, op, false, a, m);
        check_scale(v, op, true, &b, m);
    }
}

/* True if `l`, [cols x k], is B of an instruction of 32 columns, with one block in each wave. */
static bool is_one_block(const struct tir_layout *l)
{
    const uint32_t *const lane = l->basis + l->reg_bits;
    enum { LAST = 5 /* the last lane bit; the others select columns */ };
    bool fits = l->lane_bits == LAST + 1;
    for (int i = 0; fits && i < l->reg_bits; i++)
        fits = !tir_rc_row(l->basis[i]);
    for (unsigned i = 0; fits && i < LAST; i++)
        fits = lane[i] == TIR_RC(1u << i, 0);
    return fits && !tir_rc_row(lane[LAST]);
}

void tir_check_mma_halves(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    enum { SIZE = 16, ROWS = 8 };
    const struct tir_mma *const m = fitting_instruction(v, op, t, false);
    if (!m || !tir_check(v, m->m == SIZE && m->n == SIZE, "%s has not %d rows", m->name, SIZE))
        return;
    tir_check(v,
              t.a.rows == SIZE && t.c.rows == ROWS && t.a.cols == t.b.rows && t.b.cols == t.c.cols,
              "%ux%u times %ux%u is not eight rows of %ux%u", t.a.rows, t.a.cols, t.b.rows,
              t.b.cols, t.c.rows, t.c.cols);
    const struct tir_layout b = tir_layout_transpose(tir_layout_of(v->f, t.b));
    if (!tir_check(v, is_one_block(&b), "operand 1 is not laid out for 32 columns"))
        return;
    const struct tir_layout left = tir_mma_halves_left(&b), d = tir_mma_halves_result(m, &b);
    tir_check(v, tir_layout_equal(&left, tir_layout_of(v->f, t.a)),
              "operand 0 is not laid out for %s", m->name);
    tir_check(v, tir_layout_equal(&d, tir_layout_of(v->f, t.c)), "operand 2 is not laid out for %s",
              m->name);
}

/* Checks a scale byte: byte `byte` of a scalar, or of the bytes that a lane has. */
static void check_scale_byte(struct tir_verifier *v, struct tir_type t, int64_t byte)
{
    const bool word = t.kind == TIR_SCALAR && t.dtype == TIR_I32;
    const bool bytes = t.kind == TIR_VEC && t.dtype == TIR_I8 && t.count <= 4 && t.count != 3;
    if (tir_check(v, word || bytes, "a scale is a scalar i32, or 1, 2 or 4 i8 a lane"))
        tir_check(v, byte >= 0 && byte < (word ? 4 : t.count), "the scale has no byte %lld",
                  (long long)byte);
}

void tir_check_mfma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const bool scaled = op->opcode == TIR_mfma_scaled;
    const struct tir_mma *const m = fitting_instruction(v, op, t, scaled);
    if (!m)
        return;
    if (scaled) {
        check_scale_byte(v, tir_typeof(v->f, op->operands[3]), op->imm[1]);
        check_scale_byte(v, tir_typeof(v->f, op->operands[4]), op->imm[2]);
    }
    tir_check(v,
              t.a.count == 1u << m->a.reg_bits && t.b.count == 1u << m->b.reg_bits &&
                  t.c.count == 1u << m->d.reg_bits,
              "element counts are not those of %s", m->name);
}

/* Checks the layouts of a fold in pairs. Registers of `from` hold rows only, which the machine
   takes in pairs. `to` has the remaining rows. */
static void check_fold_pairs(struct tir_verifier *v, struct tir_type from, struct tir_type to,
                             const char *others)
{
    const struct tir_layout *const l = tir_layout_of(v->f, from);
    unsigned rows = 1;
    const struct tir_layout want = tir_layout_fold_rows(l, &rows);
    uint32_t cols = 0;
    for (int i = 0; i < l->reg_bits; i++)
        cols |= tir_rc_col(l->basis[i]);
    if (tir_check(v, rows && l->reg_bits && !cols, "registers are not all of them rows"))
        tir_check(v,
                  to.rows == rows && to.cols == from.cols &&
                      tir_layout_equal(tir_layout_of(v->f, to), &want),
                  "%s is not the rows that lanes hold of operand 0", others);
}

void tir_check_fold_dot(struct tir_verifier *v, struct tir_op_types t)
{
    tir_check(v, v->f->machine->has_dot_bf16, "the machine has no sum of pairs");
    tir_check(v, t.a.dtype == TIR_BF16 && t.b.dtype == TIR_F32, "operands are not bf16 and f32");
    check_fold_pairs(v, t.a, t.b, "operand 1");
}

void tir_check_fold_top(struct tir_verifier *v, struct tir_op_types t)
{
    tir_check(v, v->f->machine->has_pk_max3, "the machine has no maximum of pairs");
    tir_check(v, t.a.dtype == TIR_BF16 || t.a.dtype == TIR_F16, "operand 0 is no 16-bit float");
    tir_check(v, t.d.dtype == TIR_I32, "result is not i32");
    check_fold_pairs(v, t.a, t.d, "result");
}

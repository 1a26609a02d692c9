/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/matrix.h"

#include <string.h>

#include "ir/bits.h"

unsigned tir_mma_in_regs(const struct tir_mma *mma) { return 1u << mma->a.reg_bits; }

unsigned tir_mma_acc_regs(const struct tir_mma *mma) { return 1u << mma->d.reg_bits; }

struct tir_contraction tir_contract_rows(const struct tir_mma *mma, unsigned extent,
                                         unsigned vector)
{
    const unsigned lanes = mma->a.lane_bits - tir_bits(mma->m);
    const unsigned bits = tir_bits(extent), low = tir_bits(vector);
    struct tir_contraction k = {.n_lane = (uint8_t)lanes};
    assert(vector >= tir_mma_in_regs(mma) && low + lanes <= bits);
    for (unsigned i = 0; i < bits; i++) {
        if (i >= low && i < low + lanes)
            k.lane[i - low] = (uint16_t)(1u << i);
        else
            k.reg[k.n_reg++] = (uint16_t)(1u << i);
    }
    return k;
}

struct tir_contraction tir_contract_acc(const struct tir_layout *d, unsigned lane_low_bits)
{
    struct tir_contraction k = {0};
    for (int i = d->reg_bits + d->lane_bits; i < tir_layout_bits(d); i++)
        assert(!tir_rc_row(d->basis[i]));
    for (int i = 0; i < d->reg_bits; i++) {
        const unsigned row = tir_rc_row(d->basis[i]);
        if (row)
            k.reg[k.n_reg++] = (uint16_t)row;
    }
    for (unsigned i = lane_low_bits; i < d->lane_bits; i++)
        k.lane[k.n_lane++] = (uint16_t)tir_rc_row(d->basis[d->reg_bits + i]);
    return k;
}

/* Without the waves at the top that repeat the others. */
static struct tir_layout trimmed(struct tir_layout l)
{
    while (l.wave_bits && !l.basis[tir_layout_bits(&l) - 1])
        l.wave_bits--;
    return l;
}

/* A[outer x k], or B transposed. Waves from bit `first` on split the outer index, the others hold
 * the same. */
static struct tir_layout operand(const struct tir_mma *mma, unsigned outer,
                                 const struct tir_contraction *k, struct tir_waves waves,
                                 unsigned first, unsigned split)
{
    const unsigned m_bits = tir_bits(mma->m), outer_bits = tir_bits(outer);
    struct tir_layout l = {.lane_bits = mma->a.lane_bits,
                           .wave_bits = (uint8_t)(waves.rows + waves.cols)};
    unsigned n = 0;
    assert(mma->m == mma->n && outer_bits >= m_bits + split && k->n_lane == l.lane_bits - m_bits);
    for (unsigned i = 0; i < k->n_reg; i++)
        l.basis[n++] = TIR_RC(0, k->reg[i]);
    for (unsigned i = m_bits; i < outer_bits - split; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    l.reg_bits = (uint8_t)n;
    for (unsigned i = 0; i < m_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    for (unsigned i = 0; i < k->n_lane; i++)
        l.basis[n++] = TIR_RC(0, k->lane[i]);
    for (unsigned i = 0; i < split; i++)
        l.basis[n + first + i] = TIR_RC(1u << (outer_bits - split + i), 0);
    return trimmed(l);
}

struct tir_layout tir_mma_left(const struct tir_mma *mma, unsigned rows,
                               const struct tir_contraction *k, struct tir_waves waves)
{
    return operand(mma, rows, k, waves, waves.cols, waves.rows);
}

struct tir_layout tir_mma_right(const struct tir_mma *mma, unsigned cols,
                                const struct tir_contraction *k, struct tir_waves waves)
{
    return operand(mma, cols, k, waves, 0, waves.cols);
}

struct tir_layout tir_mma_result(const struct tir_mma *mma, unsigned rows, unsigned cols,
                                 struct tir_waves waves)
{
    const struct tir_layout *d = &mma->d;
    const unsigned row_bits = tir_bits(rows), col_bits = tir_bits(cols);
    const unsigned m_bits = tir_bits(mma->m), n_bits = tir_bits(mma->n);
    struct tir_layout l = {.lane_bits = d->lane_bits,
                           .wave_bits = (uint8_t)(waves.rows + waves.cols)};
    unsigned n = d->reg_bits;
    assert(row_bits >= m_bits + waves.rows && col_bits >= n_bits + waves.cols);
    memcpy(l.basis, d->basis, n * sizeof(l.basis[0]));
    for (unsigned i = m_bits; i < row_bits - waves.rows; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    for (unsigned i = n_bits; i < col_bits - waves.cols; i++)
        l.basis[n++] = TIR_RC(0, 1u << i);
    l.reg_bits = (uint8_t)n;
    memcpy(l.basis + n, d->basis + d->reg_bits, d->lane_bits * sizeof(l.basis[0]));
    n += d->lane_bits;
    for (unsigned i = col_bits - waves.cols; i < col_bits; i++)
        l.basis[n++] = TIR_RC(0, 1u << i);
    for (unsigned i = row_bits - waves.rows; i < row_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    return l;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/matrix.h"

#include <assert.h>
#include <string.h>

static unsigned log2u(unsigned x)
{
    assert(x && !(x & (x - 1)));
    return (unsigned)__builtin_ctz(x);
}

unsigned tir_mma_in_regs(const struct tir_mma *mma) { return 1u << mma->a.reg_bits; }

unsigned tir_mma_acc_regs(const struct tir_mma *mma) { return 1u << mma->d.reg_bits; }

struct tir_contraction tir_contract_rows(const struct tir_mma *mma, unsigned extent,
                                         unsigned vector)
{
    const unsigned lanes = 6 - log2u(mma->m);
    const unsigned bits = log2u(extent), low = log2u(vector);
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
    for (int i = 0; i < d->reg_bits; i++) {
        const unsigned row = tir_rc_row(d->basis[i]);
        if (row)
            k.reg[k.n_reg++] = (uint16_t)row;
    }
    for (unsigned i = lane_low_bits; i < d->lane_bits; i++)
        k.lane[k.n_lane++] = (uint16_t)tir_rc_row(d->basis[d->reg_bits + i]);
    return k;
}

struct tir_layout tir_mma_operand(const struct tir_mma *mma, unsigned outer, unsigned wave_bits,
                                  const struct tir_contraction *k)
{
    const unsigned m_bits = log2u(mma->m), outer_bits = log2u(outer);
    struct tir_layout l = {.lane_bits = 6, .wave_bits = (uint8_t)wave_bits};
    unsigned n = 0;
    assert(outer_bits >= m_bits + wave_bits && k->n_lane == 6 - m_bits);
    for (unsigned i = 0; i < k->n_reg; i++)
        l.basis[n++] = TIR_RC(0, k->reg[i]);
    for (unsigned i = m_bits; i < outer_bits - wave_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    l.reg_bits = (uint8_t)n;
    for (unsigned i = 0; i < m_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    for (unsigned i = 0; i < k->n_lane; i++)
        l.basis[n++] = TIR_RC(0, k->lane[i]);
    for (unsigned i = outer_bits - wave_bits; i < outer_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    return l;
}

struct tir_layout tir_mma_result(const struct tir_mma *mma, unsigned rows, unsigned cols,
                                 unsigned wave_bits)
{
    const unsigned row_bits = log2u(rows), col_bits = log2u(cols);
    const struct tir_layout *d = &mma->d;
    struct tir_layout l = {.lane_bits = 6, .wave_bits = (uint8_t)wave_bits};
    unsigned n = 0;
    assert(col_bits >= log2u(mma->n) + wave_bits);
    memcpy(l.basis, d->basis, d->reg_bits * sizeof(l.basis[0]));
    n = d->reg_bits;
    for (unsigned i = log2u(mma->m); i < row_bits; i++)
        l.basis[n++] = TIR_RC(1u << i, 0);
    for (unsigned i = log2u(mma->n); i < col_bits - wave_bits; i++)
        l.basis[n++] = TIR_RC(0, 1u << i);
    l.reg_bits = (uint8_t)n;
    for (int i = 0; i < 6; i++)
        l.basis[n++] = d->basis[d->reg_bits + i];
    for (unsigned i = col_bits - wave_bits; i < col_bits; i++)
        l.basis[n++] = TIR_RC(0, 1u << i);
    return l;
}

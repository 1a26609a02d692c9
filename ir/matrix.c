/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/matrix.h"

#include <string.h>

#include "ir/bits.h"

unsigned tir_mma_in_regs(const struct tir_mma *mma) { return 1u << mma->a.reg_bits; }

unsigned tir_mma_right_regs(const struct tir_mma *mma) { return 1u << mma->b.reg_bits; }

unsigned tir_mma_acc_regs(const struct tir_mma *mma) { return 1u << mma->d.reg_bits; }

struct tir_contraction tir_contract_rows(const struct tir_mma *mma, unsigned extent,
                                         unsigned vector)
{
    const unsigned lanes = mma->a.lane_bits - tir_bits(mma->m);
    const unsigned bits = tir_bits(extent), low = tir_bits(vector);
    struct tir_contraction k = {.n_lane = (uint8_t)lanes};
    assert(low + lanes <= bits);
    for (unsigned i = 0; i < bits; i++) {
        if (i >= low && i < low + lanes)
            k.lane[i - low] = (uint16_t)(1u << i);
        else
            k.reg[k.n_reg++] = (uint16_t)(1u << i);
    }
    return k;
}

/* Returns log2 of the numbers along k that one element of an operand contains: 0, or 1 for e2m1. */
static unsigned pair_bits(const struct tir_mma *mma, bool right)
{
    return (right ? mma->right_format : mma->left_format) == TIR_MX_E2M1;
}

struct tir_contraction tir_contract_instruction(const struct tir_mma *mma, bool right,
                                                unsigned extent)
{
    const struct tir_layout own = right ? tir_layout_transpose(&mma->b) : mma->a;
    const unsigned pair = pair_bits(mma, right);
    struct tir_contraction k = {0};
    for (unsigned i = 0; i < own.reg_bits; i++)
        k.reg[k.n_reg++] = (uint16_t)tir_rc_col(own.basis[i]);
    for (unsigned i = own.reg_bits + tir_bits(mma->m); i < (unsigned)tir_layout_bits(&own); i++)
        k.lane[k.n_lane++] = (uint16_t)tir_rc_col(own.basis[i]);
    for (unsigned i = tir_bits(mma->k); i < tir_bits(extent); i++)
        k.reg[k.n_reg++] = (uint16_t)(1u << (i - pair));
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

/* Returns the layout without the top wave bits that only repeat elements. */
static struct tir_layout trimmed(struct tir_layout l)
{
    while (l.wave_bits && !l.basis[tir_layout_bits(&l) - 1])
        l.wave_bits--;
    return l;
}

/* Returns the layout of A[outer x k], or of B transposed. Waves from bit `first` on split the outer
 * index. The waves below hold the same elements. */
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

enum { HALF_BITS = 4, HALF_COLS = 1 << HALF_BITS }; /* columns of the instruction of mma_halves */

struct tir_layout tir_mma_halves_left(const struct tir_layout *right)
{
    struct tir_layout l = *right;
    uint32_t *const lane = l.basis + l.reg_bits;
    for (unsigned i = 0; i < HALF_BITS; i++)
        lane[i] = TIR_RC(1u << i, 0);
    lane[HALF_BITS] = lane[HALF_BITS - 1];
    l.wave_bits = 0;
    memset(lane + l.lane_bits, 0, (TIR_LAYOUT_MAX_BITS - l.reg_bits - l.lane_bits) * sizeof(*lane));
    return l;
}

struct tir_layout tir_mma_halves_result(const struct tir_mma *mma, const struct tir_layout *right)
{
    struct tir_layout l = {
        .reg_bits = mma->d.reg_bits, .lane_bits = right->lane_bits, .wave_bits = right->wave_bits};
    unsigned n = l.reg_bits;
    memcpy(l.basis, mma->d.basis, (n + l.lane_bits) * sizeof(l.basis[0]));
    l.basis[n + l.lane_bits - 1] = TIR_RC(0, HALF_COLS); /* rows 8 to 15 of the instruction */
    n += l.lane_bits;
    for (int i = 0; i < l.wave_bits; i++)
        l.basis[n++] = TIR_RC(0, tir_rc_row(right->basis[right->reg_bits + right->lane_bits + i]));
    return l;
}

unsigned tir_mma_contraction(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                             uint32_t k[TIR_MAX_K_BITS])
{
    const struct tir_layout own = right ? tir_layout_transpose(&mma->b) : mma->a;
    const unsigned pair = pair_bits(mma, right);
    unsigned n = tir_bits(mma->k);
    if (l->lane_bits != own.lane_bits || l->reg_bits < own.reg_bits)
        return 0;
    k[0] = 1; /* the second number of a pair; other formats have an image for it */
    for (unsigned i = 0; i < (unsigned)own.reg_bits + own.lane_bits; i++) {
        const unsigned of = tir_rc_col(own.basis[i]);
        const unsigned at = i < own.reg_bits ? i : l->reg_bits + i - own.reg_bits;
        if (!of)
            continue;
        if (tir_rc_row(l->basis[at]))
            return 0;
        k[tir_bits(of) + pair] = tir_rc_col(l->basis[at]) << pair;
    }
    for (unsigned i = own.reg_bits; i < l->reg_bits && !tir_rc_row(l->basis[i]); i++) {
        if (n == TIR_MAX_K_BITS)
            return 0;
        k[n++] = tir_rc_col(l->basis[i]) << pair;
    }
    return n;
}

bool tir_mma_scales(const struct tir_mma *mma, bool right, const struct tir_layout *l,
                    struct tir_layout *scales)
{
    uint32_t k[TIR_MAX_K_BITS], inside = 0;
    const unsigned n = tir_mma_contraction(mma, right, l, k);
    const unsigned block = tir_bits(TIR_MX_BLOCK), own = tir_bits(mma->k), low = tir_bits(mma->m);
    for (unsigned i = 0; i < n; i++) {
        if (i < block ? k[i] >= TIR_MX_BLOCK : k[i] % TIR_MX_BLOCK != 0)
            return false;
        inside |= i < block ? k[i] : 0;
    }
    if (!n || inside != TIR_MX_BLOCK - 1)
        return false;
    /* register bits that walk k */
    const unsigned regs = (right ? mma->b : mma->a).reg_bits + n - own;
    *scales = (struct tir_layout){.lane_bits = l->lane_bits, .wave_bits = l->wave_bits};
    unsigned to = 0;
    for (unsigned i = own; i < n; i++)
        scales->basis[to++] = TIR_RC(0, k[i] / TIR_MX_BLOCK);
    for (unsigned i = regs; i < l->reg_bits; i++)
        scales->basis[to++] = l->basis[i];
    scales->reg_bits = (uint8_t)to;
    for (unsigned i = 0; i < l->lane_bits; i++)
        scales->basis[to++] =
            i < low ? l->basis[l->reg_bits + i] : TIR_RC(0, k[block + i - low] / TIR_MX_BLOCK);
    for (unsigned i = 0; i < l->wave_bits; i++)
        scales->basis[to++] = l->basis[l->reg_bits + l->lane_bits + i];
    return true;
}

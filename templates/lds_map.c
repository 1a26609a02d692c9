/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/lds_map.h"

#include <assert.h>

enum { CHUNK = 16 }; /* bytes of the widest LDS access of a lane */

struct tir_layout att_lds_rows(const struct tir_machine *m, unsigned rows, unsigned cols,
                               unsigned elem_bytes)
{
    const unsigned row_bytes = cols * elem_bytes;
    const unsigned load_bytes = m->to_lds_max_bytes << m->lane_bits;
    const unsigned span = load_bytes > row_bytes ? load_bytes : row_bytes;
    const unsigned col_bits = tir_bits(cols), row_bits = tir_bits(rows);
    const unsigned wide = row_bytes < m->lds_bank_bytes ? row_bytes : m->lds_bank_bytes;
    struct tir_layout map = {
        .reg_bits = (uint8_t)(col_bits + row_bits),
        .pad_shift = (uint8_t)tir_bits(span / elem_bytes),
        .pad = (uint8_t)(CHUNK / elem_bytes),
    };
    for (unsigned i = 0; i < col_bits; i++)
        map.basis[i] = TIR_RC(0, 1u << i);
    /* Rows of one span that start at the same bank flip a chunk bit each, from the top down; the
     * low two are left to the padding, which moves one span against the next. */
    unsigned flip = wide / elem_bytes / 2;
    for (unsigned i = 0; i < row_bits; i++) {
        const unsigned step = row_bytes << i;
        unsigned col = 0;
        if (step < span && step >= m->lds_bank_bytes && flip * elem_bytes >= 4 * CHUNK) {
            col = flip;
            flip /= 2;
        }
        map.basis[col_bits + i] = TIR_RC(1u << i, col);
    }
    return map;
}

struct tir_layout att_lds_columns(const struct tir_machine *m, unsigned rows, unsigned cols,
                                  unsigned elem_bytes, const struct tir_contraction *k)
{
    const unsigned row_bits = tir_bits(rows), col_bits = tir_bits(cols);
    const unsigned widest = tir_bits(CHUNK / elem_bytes);
    const unsigned vector_bits = k->n_reg < widest ? k->n_reg : widest;
    struct tir_layout map = {.reg_bits = (uint8_t)(row_bits + col_bits)};
    unsigned n = 0;
    assert(k->n_reg + k->n_lane == row_bits);
    for (unsigned i = 0; i < vector_bits; i++)
        map.basis[n++] = TIR_RC(k->reg[i], 0);
    for (unsigned i = 0; i < k->n_lane; i++)
        map.basis[n++] = TIR_RC(k->lane[i], 0);
    for (unsigned i = vector_bits; i < k->n_reg; i++)
        map.basis[n++] = TIR_RC(k->reg[i], 0);
    /* Columns that start at the same bank flip a chunk bit of the rows each. */
    unsigned chunk_bit = vector_bits;
    for (unsigned i = 0; i < col_bits; i++) {
        const unsigned step = (rows * elem_bytes) << i;
        unsigned row = 0;
        if (step >= m->lds_bank_bytes && chunk_bit < row_bits)
            row = tir_rc_row(map.basis[chunk_bit++]);
        map.basis[n++] = TIR_RC(row, 1u << i);
    }
    return map;
}

struct tir_layout att_lds_swizzled(unsigned rows, unsigned cols, unsigned chunk, unsigned row_bit,
                                   unsigned bits)
{
    struct tir_layout map = tir_row_major(rows, cols);
    for (unsigned i = 0; i < bits; i++)
        map.basis[tir_bits(cols) + row_bit + i] = TIR_RC(1u << (row_bit + i), chunk << i);
    return map;
}

unsigned att_lds_bytes(const struct tir_layout *map, unsigned elem_bytes)
{
    const unsigned n = 1u << map->reg_bits;
    return tir_lds_address(map, n - 1, elem_bytes) + elem_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/workgroup/lds_map.h"

#include <assert.h>

enum { CHUNK = 16 }; /* bytes of the widest LDS access of a lane */

struct tir_layout att_lds_rows(const struct tir_machine *m, unsigned rows, unsigned cols,
                               unsigned elem_bytes)
{
    const unsigned row_bytes = cols * elem_bytes;
    const unsigned load_bytes = tir_lane_copy(m, 0)->bytes << m->lane_bits;
    const unsigned span = load_bytes > row_bytes ? load_bytes : row_bytes;
    const unsigned col_bits = tir_bits(cols), row_bits = tir_bits(rows);
    const unsigned wide = row_bytes < m->lds_bank_bytes ? row_bytes : m->lds_bank_bytes;
    struct tir_layout map = tir_row_major(rows, cols);
    tir_map_pad(&map, span / elem_bytes, CHUNK / elem_bytes);
    /* Rows of a span that start at the same bank: each bit of the row's index flips one bit of the
     * chunk's index, from the top bit down. The low two bits stay, since padding shifts each span
     * against the next one. */
    unsigned flip = wide / elem_bytes / 2;
    for (unsigned i = 0; i < row_bits; i++) {
        const unsigned step = row_bytes << i;
        if (step < span && step >= m->lds_bank_bytes && flip * elem_bytes >= 4 * CHUNK) {
            tir_map_flip(&map, col_bits + i, TIR_RC(0, flip));
            flip /= 2;
        }
    }
    return map;
}

struct tir_layout att_lds_columns(const struct tir_machine *m, unsigned rows, unsigned cols,
                                  unsigned elem_bytes, const struct tir_contraction *k)
{
    const unsigned row_bits = tir_bits(rows), col_bits = tir_bits(cols);
    const unsigned widest = tir_bits(CHUNK / elem_bytes);
    const unsigned vector_bits = k->n_reg < widest ? k->n_reg : widest;
    struct tir_layout map = tir_contraction_major(k, vector_bits, cols);
    assert(k->n_reg + k->n_lane == row_bits);
    /* Each bit of a column's index, among columns that start at the same bank, flips one bit of the
     * chunk's index. The bit for 16 columns flips one of these bits again, so that eight lanes that
     * write every other column have no bank conflict either. */
    const unsigned bits = row_bits - vector_bits, again = bits == 3 ? 1 : 0;
    for (unsigned i = 0, n = 0; i < col_bits && n < bits + again; i++) {
        const unsigned step = (rows * elem_bytes) << i;
        if (step >= m->lds_bank_bytes)
            tir_map_flip(&map, row_bits + i,
                         tir_layout_apply(&map, 1u << (vector_bits + n++ % bits), 0, 0));
    }
    return map;
}

struct tir_layout att_lds_swizzled(unsigned rows, unsigned cols, unsigned chunk, unsigned row_bit,
                                   unsigned bits)
{
    struct tir_layout map = tir_row_major(rows, cols);
    for (unsigned i = 0; i < bits; i++)
        tir_map_flip(&map, tir_bits(cols) + row_bit + i, TIR_RC(0, chunk << i));
    return map;
}

unsigned att_lds_bytes(const struct tir_layout *map, unsigned elem_bytes)
{
    const unsigned n = 1u << map->reg_bits;
    return tir_lds_address(map, n - 1, elem_bytes) + elem_bytes;
}

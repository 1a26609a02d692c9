/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/address_map.h"

#include <assert.h>
#include <string.h>

#include "ir/bits.h"

/* Appends a register bit with the image `image` (packed row and column) to `map`. */
static void add(struct tir_layout *map, uint32_t image)
{
    assert(map->reg_bits < TIR_LAYOUT_MAX_BITS);
    map->basis[map->reg_bits++] = image;
}

struct tir_layout tir_row_major(unsigned rows, unsigned cols)
{
    struct tir_layout map = {0};
    for (unsigned i = 0; i < tir_bits(cols); i++)
        add(&map, TIR_RC(0, 1u << i));
    for (unsigned i = 0; i < tir_bits(rows); i++)
        add(&map, TIR_RC(1u << i, 0));
    return map;
}

struct tir_layout tir_row_pairs(unsigned rows, unsigned cols, unsigned width)
{
    struct tir_layout map = tir_row_major(1, width);
    for (unsigned row = 2; row < rows; row *= 2)
        add(&map, TIR_RC(row, 0));
    for (unsigned first = width; first < cols; first *= 2)
        add(&map, TIR_RC(0, first));
    add(&map, TIR_RC(1, 0));
    return map;
}

/* Returns the input bit of `l` that becomes bit i of its lane-major map. */
static unsigned lane_major_bit(const struct tir_layout *l, unsigned vector_bits, unsigned i)
{
    const unsigned regs = l->reg_bits, lanes = l->lane_bits;
    return i < vector_bits           ? i
           : i < vector_bits + lanes ? regs + i - vector_bits
           : i < regs + lanes        ? i - lanes
                                     : i;
}

struct tir_layout tir_lane_major(const struct tir_layout *l, unsigned vector)
{
    const unsigned low = tir_bits(vector);
    struct tir_layout map = {0};
    assert(low <= l->reg_bits);
    for (unsigned i = 0; i < (unsigned)tir_layout_bits(l); i++)
        add(&map, l->basis[lane_major_bit(l, low, i)]);
    return map;
}

struct tir_layout tir_lane_major_once(const struct tir_layout *l, unsigned vector_bits)
{
    struct tir_layout map = {0};
    uint32_t seen[TIR_LAYOUT_MAX_BITS];
    unsigned n_seen = 0;
    for (unsigned i = 0; i < (unsigned)tir_layout_bits(l); i++) {
        const uint32_t image = l->basis[lane_major_bit(l, vector_bits, i)];
        uint32_t v = image;
        for (unsigned k = 0; k < n_seen; k++)
            if (v & (0x80000000u >> __builtin_clz(seen[k])))
                v ^= seen[k];
        if (!v)
            continue;
        seen[n_seen++] = v;
        add(&map, image);
    }
    return map;
}

struct tir_layout tir_contraction_major(const struct tir_contraction *k, unsigned vector_bits,
                                        unsigned cols)
{
    struct tir_layout map = {0};
    for (unsigned i = 0; i < vector_bits; i++)
        add(&map, TIR_RC(k->reg[i], 0));
    for (unsigned i = 0; i < k->n_lane; i++)
        add(&map, TIR_RC(k->lane[i], 0));
    for (unsigned i = vector_bits; i < k->n_reg; i++)
        add(&map, TIR_RC(k->reg[i], 0));
    for (unsigned i = 0; i < tir_bits(cols); i++)
        add(&map, TIR_RC(0, 1u << i));
    return map;
}

void tir_map_flip(struct tir_layout *map, unsigned bit, uint32_t image)
{
    assert(bit < map->reg_bits && !map->lane_bits && !map->wave_bits);
    map->basis[bit] ^= image;
}

void tir_map_pad(struct tir_layout *map, unsigned span, unsigned pad)
{
    map->pad_shift = (uint8_t)tir_bits(span);
    map->pad = (uint16_t)pad;
}

struct tir_layout tir_map_cut(const struct tir_layout *map, unsigned vector_bits,
                              unsigned lane_bits, unsigned run_bits, unsigned wave_bits)
{
    const unsigned run = vector_bits + lane_bits, waves = run + run_bits;
    struct tir_layout l = {0};
    for (unsigned i = 0; i < vector_bits; i++)
        add(&l, map->basis[i]);
    for (unsigned i = run; i < waves; i++)
        add(&l, map->basis[i]);
    for (unsigned i = waves + wave_bits; i < map->reg_bits; i++)
        add(&l, map->basis[i]);
    l.lane_bits = (uint8_t)lane_bits;
    l.wave_bits = (uint8_t)wave_bits;
    for (unsigned i = 0; i < lane_bits + wave_bits; i++) {
        const unsigned bit = i < lane_bits ? vector_bits + i : waves + i - lane_bits;
        l.basis[l.reg_bits + i] = bit < map->reg_bits ? map->basis[bit] : 0;
    }
    return l;
}

bool tir_map_column(const struct tir_layout *map, unsigned column, uint32_t *element)
{
    const struct tir_layout one = {.reg_bits = 1, .basis = {TIR_RC(0, column)}};
    uint32_t m[TIR_LAYOUT_MAX_BITS] = {0};
    const bool there = !column || tir_layout_solve(map, &one, m);
    *element = m[0];
    return there;
}

unsigned tir_map_access(const struct tir_layout *map, const struct tir_machine *m, unsigned element)
{
    const unsigned widest = tir_lane_copy(m, 0)->bytes;
    return widest << m->lane_bits <= element << map->reg_bits ? widest : 4;
}

struct tir_layout tir_map_lanes(const struct tir_layout *map, const struct tir_machine *m,
                                unsigned waves, unsigned element)
{
    const unsigned bytes = tir_map_access(map, m, element);
    struct tir_layout l = tir_map_cut(map, tir_bits(bytes / element), m->lane_bits, 0, 0);
    for (; l.wave_bits < tir_bits(waves); l.wave_bits++)
        l.basis[tir_layout_bits(&l)] = 0;
    return l;
}

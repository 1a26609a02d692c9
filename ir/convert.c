/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/convert.h"

uint32_t tir_xor_images(const uint32_t *images, uint32_t x)
{
    uint32_t sum = 0;
    for (; x; x &= x - 1)
        sum ^= images[__builtin_ctz(x)];
    return sum;
}

/* Linear equations in echelon form. An unknown linear map X sends the bits lane[i] to the bits
 * reg[i], for each i < n. */
struct equations {
    unsigned n;
    uint32_t lane[TIR_MAX_LANE_BITS], reg[TIR_MAX_LANE_BITS];
};

/* Subtracts equations of `e` from the equation X *lane = *reg, until *lane has no leading bit of
 * any of them. */
static void reduce(const struct equations *e, uint32_t *lane, uint32_t *reg)
{
    for (unsigned i = 0; i < e->n; i++)
        if (*lane & (0x80000000u >> __builtin_clz(e->lane[i]))) {
            *lane ^= e->lane[i];
            *reg ^= e->reg[i];
        }
}

/* Adds the equation X `lane` = `reg`. Returns false if it contradicts the others. */
static bool add_equation(struct equations *e, uint32_t lane, uint32_t reg)
{
    reduce(e, &lane, &reg);
    if (!lane)
        return !reg;
    e->lane[e->n] = lane;
    e->reg[e->n++] = reg;
    return true;
}

/* Returns the rank of the map's source lanes: log2 of the number of source lanes that are read. */
static unsigned lanes_read(const struct tir_lane_map *m)
{
    struct equations e = {0};
    for (unsigned i = 0; i < m->to_regs; i++)
        add_equation(&e, m->reg_lane[i], 0);
    for (unsigned j = 0; j < m->lanes; j++)
        add_equation(&e, m->lane_lane[j], 0);
    return e.n;
}

/* Finds sets of register and lane bits of `l` whose images xor to 0: an input with such a set
 * flipped holds the same element. Returns their number. */
static unsigned repeats_of(const struct tir_layout *l, uint32_t repeats[TIR_LAYOUT_MAX_BITS])
{
    uint32_t vector[TIR_LAYOUT_MAX_BITS], inputs[TIR_LAYOUT_MAX_BITS];
    unsigned n = 0, n_repeats = 0;
    for (int i = 0; i < l->reg_bits + l->lane_bits; i++) {
        uint32_t v = l->basis[i], from = 1u << i;
        for (unsigned k = 0; k < n; k++)
            if (v & (0x80000000u >> __builtin_clz(vector[k]))) {
                v ^= vector[k];
                from ^= inputs[k];
            }
        if (!v) {
            repeats[n_repeats++] = from;
            continue;
        }
        vector[n] = v;
        inputs[n++] = from;
    }
    return n_repeats;
}

/* Uses source lanes that repeat elements. A map that reads more lanes is easier to split into
 * steps. So the result's lanes read different source lanes wherever those hold the same element. */
static void read_all_lanes(const struct tir_layout *from, unsigned unit_bits,
                           struct tir_lane_map *m)
{
    uint32_t repeats[TIR_LAYOUT_MAX_BITS];
    const unsigned n = repeats_of(from, repeats), low = (1u << unit_bits) - 1;
    unsigned read = lanes_read(m);
    for (unsigned j = 0; j < m->lanes; j++)
        for (unsigned i = 0; i < n && read < m->lanes; i++) {
            if (repeats[i] & low)
                continue;
            struct tir_lane_map with = *m;
            with.lane_reg[j] ^= (repeats[i] & ((1u << from->reg_bits) - 1)) >> unit_bits;
            with.lane_lane[j] ^= repeats[i] >> from->reg_bits;
            if (lanes_read(&with) <= read)
                continue;
            *m = with;
            read++;
        }
}

bool tir_lane_map(const struct tir_layout *from, const struct tir_layout *to,
                  const struct tir_conversion *c, unsigned unit_bits, struct tir_lane_map *m)
{
    const unsigned low = (1u << unit_bits) - 1;
    if (from->reg_bits < unit_bits || to->reg_bits < unit_bits)
        return false;
    *m = (struct tir_lane_map){.to_regs = (uint8_t)(to->reg_bits - unit_bits),
                               .from_regs = (uint8_t)(from->reg_bits - unit_bits),
                               .lanes = to->lane_bits,
                               .waves = to->wave_bits};
    const uint32_t regs = (1u << from->reg_bits) - 1, lanes = (1u << from->lane_bits) - 1;
    for (int i = 0; i < tir_layout_bits(to); i++) {
        const uint32_t reg = c->map.column[i] & regs;
        const uint32_t lane = c->map.column[i] >> from->reg_bits & lanes;
        const int at = i - (int)unit_bits, l = i - to->reg_bits, w = l - to->lane_bits;
        if ((reg & low) != (at < 0 ? 1u << i : 0) || (at < 0 && (reg & ~low || lane)))
            return false;
        if (at < 0)
            continue;
        if (l < 0) {
            m->reg_reg[at] = reg >> unit_bits;
            m->reg_lane[at] = lane;
        } else if (w < 0) {
            m->lane_reg[l] = reg >> unit_bits;
            m->lane_lane[l] = lane;
        } else {
            m->wave_reg[w] = reg >> unit_bits;
        }
    }
    read_all_lanes(from, unit_bits, m);
    return true;
}

/* Finds a set of register bits of the result (*regs) whose images in the source's lane number xor
 * to `wanted`. Returns false if there is none. The echelon form is rebuilt each time, since
 * register bits are few. */
static bool find_exchange(const struct tir_lane_map *m, uint32_t wanted, uint32_t *regs)
{
    struct equations e = {0};
    for (unsigned i = 0; i < m->to_regs && e.n < TIR_MAX_LANE_BITS; i++) {
        uint32_t lane = m->reg_lane[i], reg = 1u << i;
        reduce(&e, &lane, &reg);
        if (lane) {
            e.lane[e.n] = lane;
            e.reg[e.n++] = reg;
        }
    }
    *regs = 0;
    reduce(&e, &wanted, regs);
    return !wanted;
}

/* Chooses the registers that lane bit j of the result exchanges. The first choice is none, if lane
 * bit j then stays in its place. The second moves lane bit j to its place. The last is none, or the
 * first register for which the equations have a solution. */
static bool choose_exchange(const struct tir_lane_map *m, unsigned j, struct equations *e,
                            struct tir_lane_steps *s)
{
    uint32_t tries[TIR_MAX_REG_BITS + 2];
    unsigned n = 0;
    if (find_exchange(m, m->lane_lane[j] ^ 1u << j, &tries[n]))
        n++;
    tries[n++] = 0;
    for (unsigned i = 0; i < m->to_regs; i++)
        tries[n++] = 1u << i;
    for (unsigned i = 0; i < n; i++) {
        struct equations with = *e;
        const uint32_t lane = m->lane_lane[j] ^ tir_xor_images(m->reg_lane, tries[i]);
        const uint32_t reg = m->lane_reg[j] ^ tir_xor_images(m->reg_reg, tries[i]);
        if (!add_equation(&with, lane, reg))
            continue;
        *e = with;
        s->after[j] = tries[i];
        s->move[j] = lane;
        return true;
    }
    return false;
}

bool tir_lane_steps(const struct tir_lane_map *m, struct tir_lane_steps *s)
{
    struct equations e = {0};
    *s = (struct tir_lane_steps){.exchanges = true};
    for (unsigned j = 0; j < m->lanes; j++) {
        if (!choose_exchange(m, j, &e, s))
            return false;
        s->exchanges = s->exchanges && s->move[j] == 1u << j;
    }
    for (unsigned j = 0; j < m->lanes; j++) {
        uint32_t lane = 1u << j, reg = 0;
        reduce(&e, &lane, &reg);
        if (lane) /* no result reads this lane */
            add_equation(&e, 1u << j, 0);
    }
    for (unsigned j = 0; j < m->lanes; j++) {
        uint32_t lane = 1u << j;
        reduce(&e, &lane, &s->before[j]);
    }
    for (unsigned i = 0; i < m->to_regs; i++)
        s->reg[i] = m->reg_reg[i] ^ tir_xor_images(s->before, m->reg_lane[i]);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A change of layout within a wave, in steps that machines have.
 *
 * The conversion says which register and lane of the source each register r and lane l of the
 * result reads: a linear map over bits,
 *
 *     register = A r + B l + W w      lane = C r + D l        (w: the wave, which is the same)
 *
 * An instruction either picks a register by a bit of the lane (a select) or moves one register
 * across lanes by a fixed pattern. None does both. So the map is taken apart: with
 *
 *     r' = r + Y l      lane = C r' + E l      register = P r' + X lane + W w
 *
 * selects by the wave and by the source's lane come first, then one move for each register, and
 * selects by the result's lane last. E is the identity wherever some Y makes it so: moves are then
 * an exchange of lanes at a constant distance.
 */
#ifndef IR_CONVERT_H
#define IR_CONVERT_H

#include "ir/layout.h"

/* Most bits of lane, register and wave numbers in a map. */
enum { TIR_MAX_LANE_BITS = TIR_WAVE_BITS, TIR_MAX_REG_BITS = 16, TIR_MAX_WAVE_BITS = 5 };

struct tir_lane_map {
    /* Bits of the result's and the source's register numbers, of lane numbers, and of wave
     * numbers. */
    uint8_t to_regs, from_regs, lanes, waves;
    /* Images of the result's register and lane bits: the source's register and lane. */
    uint32_t reg_reg[TIR_MAX_REG_BITS], reg_lane[TIR_MAX_REG_BITS];     /* A, C */
    uint32_t lane_reg[TIR_MAX_LANE_BITS], lane_lane[TIR_MAX_LANE_BITS]; /* B, D */
    uint32_t wave_reg[TIR_MAX_WAVE_BITS];                               /* W */
};

struct tir_lane_steps {
    uint32_t before[TIR_MAX_LANE_BITS]; /* X: source registers that a source lane bit exchanges */
    uint32_t reg[TIR_MAX_REG_BITS];     /* P */
    uint32_t move[TIR_MAX_LANE_BITS];   /* E */
    uint32_t after[TIR_MAX_LANE_BITS];  /* Y: result registers that a result lane bit exchanges */
    bool exchanges;                     /* E is the identity: a lane only reads lane ^ constant */
};

/** Computes the map of a conversion of kind TIR_CONVERT_LANES or an earlier one in the enum. A
 * register has 2^unit_bits elements. If the source repeats elements, the map reads all of its lanes
 * if such a map exists. Returns false if the low unit_bits register bits of both layouts differ in
 * meaning. */
bool tir_lane_map(const struct tir_layout *from, const struct tir_layout *to,
                  const struct tir_conversion *c, unsigned unit_bits, struct tir_lane_map *m);

/** Splits a map into steps. Returns false if no such steps exist. */
bool tir_lane_steps(const struct tir_lane_map *m, struct tir_lane_steps *s);

/** Returns the xor of images[i] over the set bits i of x. */
uint32_t tir_xor_images(const uint32_t *images, uint32_t x);

#endif

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
    /* Images of the bits of the result's register number (reg_), lane number (lane_) and wave
     * number (wave_): register (_reg) and lane (_lane) of the source. A number's source is the xor
     * of the images of its set bits. In the header of this file reg_reg is A, lane_reg B, reg_lane
     * C, lane_lane D and wave_reg W. */
    uint32_t reg_reg[TIR_MAX_REG_BITS], reg_lane[TIR_MAX_REG_BITS];
    uint32_t lane_reg[TIR_MAX_LANE_BITS], lane_lane[TIR_MAX_LANE_BITS];
    uint32_t wave_reg[TIR_MAX_WAVE_BITS];
};

struct tir_lane_steps {
    /* First step, matrix X: by bit of the source's lane, change of the source's register number if
     * the bit is set. */
    uint32_t before[TIR_MAX_LANE_BITS];
    /* Second step, matrix P: by bit of the result's register number, change of the source's
     * register number if the bit is set. */
    uint32_t reg[TIR_MAX_REG_BITS];
    /* Second step, matrix E: by bit of the result's lane, change of the lane from which a register
     * is moved if the bit is set. */
    uint32_t move[TIR_MAX_LANE_BITS];
    /* Third step, matrix Y: by bit of the result's lane, change of the result's register number if
     * the bit is set. */
    uint32_t after[TIR_MAX_LANE_BITS];
    bool exchanges; /* true: bit i of `move` is 1 << i, so a lane only reads lane ^ constant */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Address maps: layouts of register bits alone, whose input is the place of an element in a buffer
 * in LDS, counted in elements. They are composed here and in ir/spread.h; nobody else writes
 * images.
 */
#ifndef IR_ADDRESS_MAP_H
#define IR_ADDRESS_MAP_H

#include "ir/matrix.h"

/** Rows x cols, row after row. */
struct tir_layout tir_row_major(unsigned rows, unsigned cols);

/** Panels of `width` columns, one after the other, each row after row: all of the even rows, then
 * all of the odd ones. */
struct tir_layout tir_row_pairs(unsigned rows, unsigned cols, unsigned width);

/** Each lane's first `vector` elements (a power of two) of `l` lie side by side, those of all lanes
 * follow one another, then come the other registers, then the waves: accesses of that width have no
 * bank conflicts. */
struct tir_layout tir_lane_major(const struct tir_layout *l, unsigned vector);

/** As tir_lane_major(), with 2^vector_bits elements side by side and elements that several holders
 * of `l` repeat only once. */
struct tir_layout tir_lane_major_once(const struct tir_layout *l, unsigned vector_bits);

/** Columns of `cols`, one after the other; in each, the rows stand as the contraction takes them:
 * its first 2^vector_bits registers, then its lanes, then its other registers. */
struct tir_layout tir_contraction_major(const struct tir_contraction *k, unsigned vector_bits,
                                        unsigned cols);

/** The same map, with the rows (columns) of `image`, a TIR_RC(), flipped where input bit `bit` is
 * set: a step of a swizzle. */
void tir_map_flip(struct tir_layout *map, unsigned bit, uint32_t image);

/** The same map, with `pad` elements left out after every `span`, a power of two. */
void tir_map_pad(struct tir_layout *map, unsigned span, unsigned pad);

/** The layout of a copy that walks the map upwards: 2^vector_bits elements a lane, then lanes, then
 * the loads of a run, then waves, then rounds; loads and rounds become registers. Lanes and waves
 * beyond the map repeat the others. */
struct tir_layout tir_map_cut(const struct tir_layout *map, unsigned vector_bits,
                              unsigned lane_bits, unsigned run_bits, unsigned wave_bits);

/** Finds the element of row 0 in a column; false if the map has no such. */
bool tir_map_column(const struct tir_layout *map, unsigned column, uint32_t *element);

/** Bytes a lane with which a wave copies all that the map has of elements of `element` bytes: as
 * many as the machine can, or 4 where lanes would be left over. */
unsigned tir_map_access(const struct tir_layout *map, const struct tir_machine *m,
                        unsigned element);

/** Says which lane copies what then. The `waves` of a workgroup do so alike. */
struct tir_layout tir_map_lanes(const struct tir_layout *map, const struct tir_machine *m,
                                unsigned waves, unsigned element);

#endif

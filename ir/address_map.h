/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares address maps: layouts of LDS buffers. They have register bits only, and map an
 * element's index in the buffer to its row and column. Only this file, ir/matrix.c, ir/spread.h and
 * ir/layout.c write images of a basis.
 */
#ifndef IR_ADDRESS_MAP_H
#define IR_ADDRESS_MAP_H

#include "ir/matrix.h"

/** Returns the map of a row-major buffer of rows x cols. */
struct tir_layout tir_row_major(unsigned rows, unsigned cols);

/** Returns the map of a buffer that consists of panels of `width` columns. A panel is row-major,
 * with all even rows first and then all odd rows. */
struct tir_layout tir_row_pairs(unsigned rows, unsigned cols, unsigned width);

/** Returns a map in which the first `vector` elements (a power of two) of each lane of `l` are
 * adjacent. The lanes follow one another, then the other registers, then the waves. Accesses of
 * `vector` elements have no bank conflicts. */
struct tir_layout tir_lane_major(const struct tir_layout *l, unsigned vector);

/** Like tir_lane_major(), with 2^vector_bits adjacent elements. An element that several registers,
 * lanes or waves of `l` hold is stored once. */
struct tir_layout tir_lane_major_once(const struct tir_layout *l, unsigned vector_bits);

/** Returns a map of `cols` columns, one after the other. The rows of a column are in the order of
 * the contraction: its first 2^vector_bits registers, then its lanes, then its other registers. */
struct tir_layout tir_contraction_major(const struct tir_contraction *k, unsigned vector_bits,
                                        unsigned cols);

/** Xors `image`, a TIR_RC(), into the row and column of each element whose index has bit `bit` set:
 * one step of an xor swizzle. Changes the map in place. */
void tir_map_flip(struct tir_layout *map, unsigned bit, uint32_t image);

/** Inserts `pad` unused elements after every `span` elements of the map, in place; `span` is a
 * power of two. */
void tir_map_pad(struct tir_layout *map, unsigned span, unsigned pad);

/** Returns the layout of a copy that walks the map in ascending order. The order is: 2^vector_bits
 * elements of a lane, the lanes, the loads of a run, the waves, the rounds. Loads and rounds become
 * registers. Lanes and waves beyond the map's size repeat others. */
struct tir_layout tir_map_cut(const struct tir_layout *map, unsigned vector_bits,
                              unsigned lane_bits, unsigned run_bits, unsigned wave_bits);

/** Finds the index of the element in row 0 of a column. Returns false if the map has no such
 * column. */
bool tir_map_column(const struct tir_layout *map, unsigned column, uint32_t *element);

/** Returns the bytes a lane copies with one load when a wave copies the whole map. It is the widest
 * that the machine has, or 4 if that would leave lanes idle. `element` is the size of an element in
 * bytes. */
unsigned tir_map_access(const struct tir_layout *map, const struct tir_machine *m,
                        unsigned element);

/** Returns which lane copies which elements with accesses of tir_map_access() bytes. All `waves` of
 * the workgroup take equal parts. */
struct tir_layout tir_map_lanes(const struct tir_layout *map, const struct tir_machine *m,
                                unsigned waves, unsigned element);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the maps of tiles in LDS, with which the reads that follow find every bank
 * busy once.
 */
#ifndef TEMPLATES_WORKGROUP_LDS_MAP_H
#define TEMPLATES_WORKGROUP_LDS_MAP_H

#include "ir/matrix.h"

/**
 * Rows in memory order, as direct-to-LDS loads write them: one load of 64 lanes fills a contiguous
 * span, so padding stands only between spans, and the rows of one span are told apart by an XOR
 * of 16-byte chunks. Read back 16 bytes a lane with consecutive lanes in consecutive rows, or
 * transposed, 4 rows at a time.
 */
struct tir_layout att_lds_rows(const struct tir_machine *m, unsigned rows, unsigned cols,
                               unsigned elem_bytes);

/**
 * The transpose of a rows x cols tile: for each column its rows, those that one matrix instruction
 * after another takes (contraction `k`) side by side, so that a lane reads 16 bytes at once.
 */
struct tir_layout att_lds_columns(const struct tir_machine *m, unsigned rows, unsigned cols,
                                  unsigned elem_bytes, const struct tir_contraction *k);

/**
 * Rows one after the other, without padding, of which 2^bits are told apart by an XOR of chunks of
 * `chunk` elements: bit `row_bit + i` of the row flips bit i of the chunk's number, so that lanes
 * which read one column of these rows meet every bank once.
 */
struct tir_layout att_lds_swizzled(unsigned rows, unsigned cols, unsigned chunk, unsigned row_bit,
                                   unsigned bits);

/** Bytes that a buffer with this address map takes. */
unsigned att_lds_bytes(const struct tir_layout *map, unsigned elem_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares layouts of tiles in LDS (address maps, ir/LANGUAGE.md), with which the reads
 * that follow find every bank busy once.
 */
#ifndef TEMPLATES_WORKGROUP_LDS_MAP_H
#define TEMPLATES_WORKGROUP_LDS_MAP_H

#include "ir/matrix.h"

/**
 *
 * Returns the LDS layout of a rows x cols tile in memory order, as direct-to-LDS loads write it. An
 * element has `elem_bytes` bytes. One load of 64 lanes fills a contiguous span, so padding is only
 * between spans. An XOR of 16-byte chunks separates the rows of a span. A tile is read 16 bytes for
 * each lane with consecutive lanes in consecutive rows, or transposed, 4 rows at a time.
 */
struct tir_layout att_lds_rows(const struct tir_machine *m, unsigned rows, unsigned cols,
                               unsigned elem_bytes);

/**
 *
 * Returns the LDS layout of the transpose of a rows x cols tile with elements of `elem_bytes`
 * bytes. Each column has its rows in the order in which matrix instructions take them (contraction
 * *k), so that a lane reads 16 bytes at once.
 */
struct tir_layout att_lds_columns(const struct tir_machine *m, unsigned rows, unsigned cols,
                                  unsigned elem_bytes, const struct tir_contraction *k);

/**
 *
 * Returns the LDS layout of `rows` consecutive rows of `cols` elements without padding, swizzled in
 * chunks of `chunk` elements. Bit `row_bit + i` of the row flips bit i of the chunk's index, for
 * `bits` bits. Lanes that read one column of 2^bits rows then access every bank once.
 */
struct tir_layout att_lds_swizzled(unsigned rows, unsigned cols, unsigned chunk, unsigned row_bit,
                                   unsigned bits);

/** True if the machine's transposing read of LDS exchanges 8 bytes of each of 16 lanes. Tiles,
 * pipelines and layouts of some ops are either for these reads or for no transposing reads. To
 * them, a machine with transposing reads of another shape has none. */
static inline bool att_transposes_8_bytes(const struct tir_machine *m)
{
    const struct tir_copy *const read = tir_transposing_read(m, 8, 16);
    return read && read->block_lanes == 16;
}

/** Returns the bytes of an LDS buffer with layout *map and elements of `elem_bytes` bytes. */
unsigned att_lds_bytes(const struct tir_layout *map, unsigned elem_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts in words: which bits of a tile's rows and columns go to registers, which to lanes, which
 * to waves. Only this file, ir/layout.c, ir/matrix.c and ir/address_map.c write a basis.
 *
 *     struct tir_spread s = tir_spread(machine, waves);
 *     tir_spread_cols(&s, TIR_REGS, 3);        8 neighbouring columns a lane
 *     tir_spread_cols(&s, TIR_LANES, 4);       16 lanes walk the rest of the row
 *     tir_spread_rows(&s, TIR_LANES, 2);       4 rows a wave
 *     tir_spread_rows(&s, TIR_WAVES, 2);       and 4 waves
 *     const struct tir_layout l = tir_spread_layout(&s);        of a tile of 16 x 128
 *
 * Each call takes the next bits of its axis, lowest first, and the next bits of the holder. Lanes
 * and waves that nothing was given to repeat the others' elements.
 */
#ifndef IR_SPREAD_H
#define IR_SPREAD_H

#include "ir/machine.h"

/* Holders of bits of an index: registers of a lane, lanes of a wave, waves of a workgroup. */
enum tir_holder { TIR_REGS, TIR_LANES, TIR_WAVES, TIR_N_HOLDERS };

struct tir_spread {
    uint8_t limit[TIR_N_HOLDERS]; /* bits that each holder has in total */
    uint8_t n[TIR_N_HOLDERS];     /* bits of each holder assigned so far */
    uint8_t rows, cols;           /* bits of each axis assigned so far */
    /* By holder and bit: the TIR_RC() that the bit selects. */
    uint32_t image[TIR_N_HOLDERS][TIR_LAYOUT_MAX_BITS];
};

/** Begins a layout over `waves` waves (a power of two) of the machine, with no bit assigned. */
struct tir_spread tir_spread(const struct tir_machine *m, unsigned waves);

/** Assigns the next `bits` bits of the rows (or columns) to the holder, which must have room. */
void tir_spread_rows(struct tir_spread *s, enum tir_holder to, unsigned bits);
void tir_spread_cols(struct tir_spread *s, enum tir_holder to, unsigned bits);

/** Skips `bits` bits of the holder, which then repeats elements over them. */
void tir_spread_repeat(struct tir_spread *s, enum tir_holder to, unsigned bits);

/** Assigns the remaining bits of the columns, then of the rows, of a tile of rows x cols, as far as
 * the holder has room. */
void tir_spread_fill(struct tir_spread *s, enum tir_holder to, unsigned rows, unsigned cols);

/** Returns the number of the holder's bits that are not assigned yet. */
unsigned tir_spread_room(const struct tir_spread *s, enum tir_holder of);

/** Returns the layout with the bits that have been assigned. */
struct tir_layout tir_spread_layout(const struct tir_spread *s);

/** Returns the layout of a single element that all lanes and waves hold. */
struct tir_layout tir_spread_one(const struct tir_machine *m);

/** Returns the layout of a tile of rows x cols elements, spread row by row over lanes, then waves,
 * then registers. A lane has `chunk` adjacent elements of a row. The four numbers are powers
 * of two. */
struct tir_layout tir_spread_chunks(const struct tir_machine *m, unsigned waves, unsigned chunk,
                                    unsigned rows, unsigned cols);

/** Returns the layout of a column of `rows` rows, spread over lanes, then waves, then registers. */
struct tir_layout tir_spread_column(const struct tir_machine *m, unsigned waves, unsigned rows);

#endif

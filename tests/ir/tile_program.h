/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs on tiles that run in the interpreter before and after lower_tiles.
 */
#ifndef TESTS_IR_TILE_PROGRAM_H
#define TESTS_IR_TILE_PROGRAM_H

#include "tests/ir/fixture.h"

/** A tile of ROWS x COLS elements. BYTES is the size of the input and of the output. */
enum { ROWS = 16, COLS = 64, ELEMENTS = ROWS * COLS, BYTES = 64 * 1024, TILE_DTYPES = 5 };

/** The dtypes of tiles that the tests use. */
extern const unsigned tile_dtypes[TILE_DTYPES];

/** A kernel that reads `in` and writes `out`, BYTES bytes each. */
struct tile_program {
    struct tir_func *f;
    struct tir_builder b;
    struct tir_value in, out;
    int written;      /* number of bytes of `out` that were written */
    int scalar_loads; /* loads to scalars that a test counted */
};

/** The input of all programs, and the output of the last one. */
extern uint8_t tile_in[BYTES], tile_out[BYTES];

/** Fills tile_in with each byte value at each alignment, as a setup function of cmocka. */
int tile_fill(void **state);

/** Returns a layout of 16 elements in each lane, in one of the 4! orders of its register bits. */
struct tir_layout tile_layout(unsigned order);

/** Returns a program without ops, which tile_run() frees. */
struct tile_program tile_program(void);

/** Returns a program without ops. Stores the type of a tile in tile_layout(order) in *t. */
struct tile_program tile_begin(unsigned dtype, unsigned order, struct tir_type *t);

/** Returns a view of rows of COLS elements of `size` bytes at `base`. */
struct tir_view tile_view(struct tile_program *p, struct tir_value base, int size);

/** Returns the size of an element of a dtype, in bytes. */
int tile_element(unsigned dtype);

/** Loads the first tile of `in`. */
struct tir_value tile_load(struct tile_program *p, struct tir_type t);

/** Stores a tile in `out` after earlier stores, at p->written. */
void tile_keep(struct tile_program *p, struct tir_value tile);

/** Interprets a function of tiles or registers on tile_in. Stores BYTES bytes in `out`. */
void tile_interpret(struct tir_func *f, uint8_t *out);

/** Runs the program on tiles and in registers, compares the bytes that both write, and frees it.
 * Its output is in tile_out. */
void tile_run(struct tile_program *p);

#endif

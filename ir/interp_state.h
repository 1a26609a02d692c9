/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is internal to the interpreter (ir/interp*.c).
 *
 * An element is an int64_t: an integer wrapped to its dtype, or the bits of a float. A wave has one
 * element of a scalar (two of a buffer resource: base, bytes). It has lanes * count elements of a
 * vec and rows * cols of a tile. Of a tile only the elements that the layout gives to the wave are
 * valid.
 */
#ifndef IR_INTERP_STATE_H
#define IR_INTERP_STATE_H

#include "ir/interp.h"

/* A run of one workgroup. */
struct interp {
    const struct tir_func *f;
    /* The kernel arguments, owned by the caller, and their bytes. */
    const uint8_t *kernarg;
    size_t kernarg_size;
    /* Workgroup number in each dimension of the grid. */
    unsigned block[3];
    uint32_t active;  /* bit per wave: set if the wave runs the current op */
    int64_t **values; /* elements of each value, by value id; NULL: not made yet */
    /* By layout index: TIR_RC() of every register of every lane of every wave; NULL: not made
     * yet. */
    uint32_t **owned;
    uint8_t *lds, *lds_written; /* bytes of LDS, and a flag for each byte that was written */
    struct tir_ref at;          /* the op being run */
    bool failed;
    char *why; /* text of TIR_WHY bytes for the first failure */
};

/** Returns the lanes of a wave. */
static inline unsigned interp_lanes(const struct interp *x) { return tir_lanes(x->f->machine); }

/** Records the failure of the op being run. Returns false. */
bool interp_fail(struct interp *x, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Returns the elements of v, which are allocated at the first use. */
int64_t *interp_value(struct interp *x, struct tir_value v);

/** Returns the number of elements that one wave holds of a value of type `t`, repeated ones
 * included. */
size_t interp_wave_elements(struct interp *x, struct tir_type t);
/** Returns the index of a wave's element k in the value: lane * count + i for a vec, and by layout
 * for a tile. */
size_t interp_index(struct interp *x, struct tir_type t, unsigned wave, size_t k);
/** Returns the (row, col) of element k of a wave's part of a tile. */
uint32_t interp_rc(struct interp *x, struct tir_type t, unsigned wave, size_t k);

/** Returns the index at which a wave keeps element (row, col) of a tile. */
static inline size_t interp_element(struct tir_type t, unsigned wave, unsigned row, unsigned col)
{
    return ((size_t)wave * t.rows + row) * t.cols + col;
}

/* True if `wave` executes the current op. */
static inline bool interp_runs(const struct interp *x, unsigned wave)
{
    return x->active >> wave & 1;
}

/** Returns the value of a scalar operand in this wave. */
int64_t interp_scalar(struct interp *x, const struct tir_op *op, unsigned operand, unsigned wave);

/* Runs one family of ops. Returns false if the op does not belong to the family. */
bool interp_elementwise(struct interp *x, const struct tir_op *op);
bool interp_registers(struct interp *x, const struct tir_op *op);
bool interp_tile(struct interp *x, const struct tir_op *op);
bool interp_memory(struct interp *x, const struct tir_op *op);

#endif

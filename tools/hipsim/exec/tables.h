/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_TABLES_H
#define HIPSIM_TABLES_H

#include "parts.h"
#include "row.h"

/* Instruction sets of the host for which the lane kernels are compiled. */
enum host_isa { HOST_BEST, HOST_PLAIN, HOST_AVX2, HOST_AVX512 };

/* True if this CPU can execute the kernels of `isa`. */
bool host_isa_supported(enum host_isa isa);

/*
 * Selects the kernels of `isa`, which this CPU must support, for all later decoding. For tests and
 * benchmarks; call it before the process's first row_find() or code_create().
 */
void host_isa_force(enum host_isa isa);

/* Returns the host instruction set whose kernels decoding selects. */
enum host_isa host_isa(void);

/*
 * Returns the list of all tables of op rows. A table ends with a row whose name is NULL, and the
 * list with NULL. Files of lane kernels are compiled once per host instruction set; the list has
 * the variants of host_isa().
 */
const struct op_row *const *exec_tables(void);
/* Executes `n` instructions of straight-line code with the lane kernels of host_isa(). */
void exec_straight(struct wave *w, const struct inst *const *in, unsigned n);

extern const struct row_alias exec_aliases[];
extern const struct op_row exec_barrier_rows[];
extern const struct op_row exec_gfx1250_rows[];
extern const struct op_row exec_sfloat_rows[];
extern const struct op_row exec_permute_rows[];
extern const struct op_row exec_sop_gfx1250_rows[];
extern const struct op_row exec_async_rows[];
extern const struct op_row exec_transpose_rows[];
extern const struct op_row exec_sop_rows[];
extern const struct op_row exec_control_rows[];
extern const struct op_row exec_cross_rows[];
extern const struct op_row exec_smem_rows[];
extern const struct op_row exec_flat_rows[];
extern const struct op_row exec_mubuf_rows[];
extern const struct op_row exec_format_rows[];
extern const struct op_row exec_ds_rows[];
extern const struct op_row exec_mfma_rows[];

#endif

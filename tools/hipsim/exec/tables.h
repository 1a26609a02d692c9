/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_TABLES_H
#define HIPSIM_TABLES_H

#include "exec.h"

/* Instruction sets of the host for which the lane kernels are compiled. */
enum host_isa { HOST_BEST, HOST_PLAIN, HOST_AVX2, HOST_AVX512 };

/* Can this CPU run the kernels of `isa`? */
bool host_isa_supported(enum host_isa isa);

/*
 * Makes all later decoding use the kernels of `isa`, which this CPU must support; for tests and
 * benchmarks, before the first row_find() or code_create() of the process.
 */
void host_isa_force(enum host_isa isa);

/* The one in use. */
enum host_isa host_isa(void);

#endif

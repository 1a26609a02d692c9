/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file defines REF_CLONES. A function with it is compiled for several instruction sets of the
 * host, and the loader takes the best one. Elements have the same bits in all of them, since FMAs
 * are never contracted. The order of a sum in `#pragma omp simd` depends on the width.
 */
#ifndef REFERENCE_CLONES_H
#define REFERENCE_CLONES_H

#include <features.h> /* __GLIBC__: the loader must know IFUNC */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#    define REF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#    define REF_CLONES
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file defines REF_CLONES. A function with it is compiled for several instruction sets of the
 * host, and the loader takes the best one. Elements have the same bits in all of them, since
 * products and sums are not contracted to FMAs. Sums of a reduction in `#pragma omp simd` may
 * differ in their last bits, because their order depends on the vectors' width.
 */
#ifndef REFERENCE_CLONES_H
#define REFERENCE_CLONES_H

#include <features.h> /* __GLIBC__, whose loader supports IFUNC */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#    define REF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#    define REF_CLONES
#endif

#endif

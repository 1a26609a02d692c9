/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions as pure functions over register rows: no wave, no validity, no faults.
 * tools/hipsim/docs/hipsim-matrix.md describes the arithmetic and its sources.
 */
#ifndef HIPSIM_MFMA_H
#define HIPSIM_MFMA_H

#include <stdbool.h>
#include <stdint.h>

#define MFMA_LANES 64
#define MFMA_MAX_PER_LANE 32 /* elements of A or B per lane */

enum mfma_format {
    FORMAT_F64,
    FORMAT_F32,
    FORMAT_XF32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_I8,
    FORMAT_FP8_FNUZ,
    FORMAT_BF8_FNUZ, /* e4m3, e5m2 of CDNA3 */
    FORMAT_FP8,
    FORMAT_BF8, /* OCP e4m3, e5m2 */
    FORMAT_FP6,
    FORMAT_BF6, /* OCP e2m3, e3m2 */
    FORMAT_FP4, /* OCP e2m1 */
    FORMAT_COUNT,
};

/* Shape m x k by k x n, `blocks` times. Sparse: A holds two of every four k. */
struct mfma_shape {
    uint8_t m, n, k, blocks;
    bool sparse;
};

/*
 * The lane and the element that hold A[i][k], B[k][j] and D[i][j] (AMD matrix instruction
 * calculator; ROCm blog "Matrix core programming on AMD CDNA3 and CDNA4"): with E = k * m * blocks
 * / 64 elements per lane, lane = block * m + i + m * blocks * (k / E) and element k % E. 8-bit
 * operands of 32 elements per lane are two halves of 16: k = 16 * lane group + element % 16 +
 * (element / 16) * K / 2. D of 32-bit elements has 4 consecutive rows in 4 registers, then the next
 * lanes.
 */
struct mfma_job {
    struct mfma_shape shape;
    uint8_t a_format, b_format;      /* enum mfma_format */
    const uint32_t (*a)[MFMA_LANES]; /* register rows of the operands */
    const uint32_t (*b)[MFMA_LANES];
    const uint32_t (*c)[MFMA_LANES]; /* the same rows as d, or no row of d */
    uint32_t (*d)[MFMA_LANES];
    uint8_t cbsz, abid, blgp;          /* broadcast controls; 0 if they encode a format */
    uint8_t negate;                    /* f64: bit 0 negates A, bit 1 B, bit 2 C; else 0 */
    const uint32_t *index;             /* sparse: row with two bits per stored element of A */
    uint8_t index_shift;               /* bit of the dword at which a lane's indices begin */
    const uint32_t *scale_a, *scale_b; /* E8M0 exponents, in lane i + m * (k / 32), or NULL */
    uint8_t scale_a_shift, scale_b_shift;
    bool saturate; /* MODE.FP16_OVFL: an overflow gives the largest number; ignored for f64 */
};

/* Exponent that the hardware is assumed to use for a zero operand. */
#define EXPONENT_OF_ZERO (-126)

/* Codes of a small format that are infinities or NaNs. */
enum mfma_special {
    SPECIAL_NONE,
    SPECIAL_TOP_FIELD,  /* the largest exponent, as in IEEE 754 */
    SPECIAL_ALL_ONES,   /* S.1111.111, a NaN: OCP e4m3 */
    SPECIAL_MINUS_ZERO, /* a NaN: the FNUZ formats */
};

struct mfma_small {
    uint8_t exponent_bits, mantissa_bits, bias, special;
};

/** Returns the layout of a format of at most 16 bits, except bf16 and i8. */
static inline struct mfma_small mfma_small_format(enum mfma_format format)
{
    switch (format) {
    case FORMAT_F16: return (struct mfma_small){5, 10, 15, SPECIAL_TOP_FIELD};
    case FORMAT_FP8_FNUZ: return (struct mfma_small){4, 3, 8, SPECIAL_MINUS_ZERO};
    case FORMAT_BF8_FNUZ: return (struct mfma_small){5, 2, 16, SPECIAL_MINUS_ZERO};
    case FORMAT_FP8: return (struct mfma_small){4, 3, 7, SPECIAL_ALL_ONES};
    case FORMAT_BF8: return (struct mfma_small){5, 2, 15, SPECIAL_TOP_FIELD};
    case FORMAT_FP6: return (struct mfma_small){2, 3, 1, SPECIAL_NONE};
    case FORMAT_BF6: return (struct mfma_small){3, 2, 3, SPECIAL_NONE};
    default: return (struct mfma_small){2, 1, 1, SPECIAL_NONE}; /* FP4 */
    }
}

/** Returns the bits per element of `format`. */
static inline unsigned mfma_element_bits(enum mfma_format format)
{
    switch (format) {
    case FORMAT_F64: return 64;
    case FORMAT_F32:
    case FORMAT_XF32: return 32;
    case FORMAT_F16:
    case FORMAT_BF16: return 16;
    case FORMAT_FP6:
    case FORMAT_BF6: return 6;
    case FORMAT_FP4: return 4;
    default: return 8;
    }
}

/** Returns the elements of A per lane (stored ones if sparse); the function below does the same for
 *  B. */
static inline unsigned mfma_a_per_lane(const struct mfma_shape *s)
{
    return (unsigned)s->k * s->m * s->blocks / MFMA_LANES / (s->sparse ? 2 : 1);
}

static inline unsigned mfma_b_per_lane(const struct mfma_shape *s)
{
    return (unsigned)s->k * s->n * s->blocks / MFMA_LANES;
}

/** True if an operand of `per_lane` elements per lane has eight registers, whose k are two stripes
 *  of four registers in each lane group. Elements of 6 bits are contiguous instead. */
static inline bool mfma_is_striped(enum mfma_format format, unsigned per_lane)
{
    unsigned bits = mfma_element_bits(format);

    return bits >= 8 && per_lane == 2 * (128 / bits);
}

/** Returns the logical k of element `e` in lane group `group` (of m or n times blocks lanes). For a
 *  sparse A, k counts the stored elements. */
static inline unsigned mfma_k(const struct mfma_shape *s, enum mfma_format format, bool is_a,
                              unsigned group, unsigned e)
{
    unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    unsigned stripe = 128 / mfma_element_bits(format);

    if (mfma_is_striped(format, per_lane))
        return e / stripe * (s->k / 2) + group * stripe + e % stripe;
    return group * per_lane + e;
}

/** Returns the k of the `k`-th element that row i of a sparse A stores. */
static inline unsigned mfma_sparse_k(const struct mfma_job *job, unsigned i, unsigned k)
{
    unsigned per_lane = mfma_a_per_lane(&job->shape);
    uint32_t bits = job->index[k / per_lane * job->shape.m + i] >> job->index_shift;

    return k / 2 * 4 + (bits >> (2 * (k % per_lane)) & 3);
}

/** Returns the number of k that a fused step adds; shapes with four k have steps of four. */
static inline unsigned mfma_step_size(enum mfma_format format)
{
    switch (format) {
    case FORMAT_XF32: return 4;
    case FORMAT_F16:
    case FORMAT_BF16: return 8;
    default: return 16;
    }
}

/** Finds the register, and the lane of column 0, that hold row i of C or D in a block. 64-bit
 *  elements use the register pair 2r, 2r + 1. */
static inline void mfma_d_place(const struct mfma_shape *s, bool is_f64, unsigned block, unsigned i,
                                unsigned *reg, unsigned *lane)
{
    if (is_f64) {
        *reg = s->n == 16 ? i / 4 : 0;
        *lane = s->n == 16 ? i % 4 * 16 : i * 16 + block * 4;
    } else if (s->n == 32) {
        *reg = block * 16 + i / 8 * 4 + i % 4;
        *lane = i / 4 % 2 * 32;
    } else if (s->n == 16) {
        *reg = block * 4 + i % 4;
        *lane = i / 4 * 16;
    } else {
        *reg = i;
        *lane = block * 4;
    }
}

/** Returns c + the n products * 2^scale, summed as the hardware does. exponent[] has the products'
 *  exponents, without `scale`. With `two_stage` products of even and of odd index are summed
 *  separately first. Slow: vector kernels call it for cases that they cannot handle. */
float mfma_fused_step(const double *product, const int *exponent, unsigned n, int scale, float c,
                      bool two_stage);

/** Returns the block whose A is used for `block`: one A serves 2^CBSZ neighbours, ABID selects
 *  it. */
unsigned mfma_block_of_a(const struct mfma_job *job, unsigned block);

/** Returns the source lane of B for BLGP = 0 .. 7 (legacy broadcast controls). */
unsigned mfma_blgp_lane(unsigned lane, unsigned blgp);

/** Runs the job with the kernels for host_isa(). */
void mfma_run(const struct mfma_job *job);

/** Replaces overflowed elements of `d`, the job's result, by the largest finite number of their
 *  sign; see mfma_saturate.c. The job's operands must be unchanged. */
void mfma_clamp(const struct mfma_job *job, uint32_t (*d)[MFMA_LANES]);

void mfma_run_plain(const struct mfma_job *job);
void mfma_run_avx2(const struct mfma_job *job);
void mfma_run_avx512(const struct mfma_job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions as pure functions of register rows. They see no wave, no undefined values and
 * report no faults. tools/hipsim/docs/hipsim-matrix.md describes the arithmetic and its sources.
 */
#ifndef HIPSIM_MFMA_H
#define HIPSIM_MFMA_H

#include <stdbool.h>
#include <stdint.h>

#define MFMA_LANES 64
#define MFMA_MAX_PER_LANE 32 /* most elements of A or B per lane */

enum mfma_format {
    FORMAT_F64,
    FORMAT_F32,
    FORMAT_XF32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_I8,
    FORMAT_FP8_FNUZ,
    FORMAT_BF8_FNUZ, /* FORMAT_FP8_FNUZ is e4m3, FORMAT_BF8_FNUZ e5m2, both of CDNA3 */
    FORMAT_FP8,
    FORMAT_BF8, /* FORMAT_FP8 is OCP e4m3, FORMAT_BF8 OCP e5m2 */
    FORMAT_FP6,
    FORMAT_BF6, /* FORMAT_FP6 is OCP e2m3, FORMAT_BF6 OCP e3m2 */
    FORMAT_FP4, /* OCP e2m1 */
    FORMAT_COUNT,
};

/* Shape of a product: m x k by k x n, in `blocks` independent blocks. Sparse: A has two of every
 * four k. */
struct mfma_shape {
    uint8_t m, n, k, blocks;
    bool sparse;
};

/*
 * A matrix instruction with its operands.
 *
 * Elements are in lanes as follows (AMD matrix instruction calculator; ROCm blog "Matrix core
 * programming on AMD CDNA3 and CDNA4"). A lane has E = k * m * blocks / 64 elements of A. A[i][k]
 * is element k % E of lane block * m + i + m * blocks * (k / E); B[k][j] likewise. Operands of 32
 * elements of 8 bits per lane are two halves of 16: element e has k = 16 * lane group + e % 16 + (e
 * / 16) * K / 2, where K is the shape's k. D[i][j] of 32 bits: four consecutive rows are in four
 * registers, and the next four rows in the next lanes.
 */
struct mfma_job {
    struct mfma_shape shape;
    uint8_t a_format, b_format;      /* enum mfma_format */
    const uint32_t (*a)[MFMA_LANES]; /* registers of the operand, a row of lanes each */
    const uint32_t (*b)[MFMA_LANES];
    const uint32_t (*c)[MFMA_LANES]; /* either the same rows as d, or rows that share none with d */
    uint32_t (*d)[MFMA_LANES];
    /* broadcast controls of the instruction; 0 for formats that encode other things in these
     * bits */
    uint8_t cbsz, abid, blgp;
    /* bit 0 negates A, bit 1 B, bit 2 C; f64 only, otherwise 0 */
    uint8_t negate;
    /* row of lanes with two bits per stored element of A; sparse only */
    const uint32_t *index;
    uint8_t index_shift; /* number of the bit at which a lane's indices begin */
    /* rows with an E8M0 exponent in lane i + m * (k / 32); NULL: no scales */
    const uint32_t *scale_a, *scale_b;
    uint8_t scale_a_shift, scale_b_shift;
    /* true: an overflow gives the largest number (MODE.FP16_OVFL); no effect on f64 */
    bool saturate;
};

/* Exponent that this model uses for a zero operand; the hardware's is not published. */
#define EXPONENT_OF_ZERO (-126)

/* Codes of a small format that are infinities or NaNs. */
enum mfma_special {
    SPECIAL_NONE,
    SPECIAL_TOP_FIELD,  /* codes with the largest exponent, as in IEEE 754 */
    SPECIAL_ALL_ONES,   /* codes S.1111.111 are NaNs: OCP e4m3 */
    SPECIAL_MINUS_ZERO, /* the code of -0 is a NaN: FNUZ formats */
};

/* The fields of a float format: bits of the exponent and of the mantissa, the exponent's bias, and
 * enum mfma_special. */
struct mfma_small {
    uint8_t exponent_bits, mantissa_bits, bias, special;
};

/** Returns the bits and the bias of a format of at most 16 bits; not for bf16 and i8. */
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

/** Return the number of elements of A, and of B, that a lane holds. A sparse A's are the stored
 * ones. */
static inline unsigned mfma_a_per_lane(const struct mfma_shape *s)
{
    return (unsigned)s->k * s->m * s->blocks / MFMA_LANES / (s->sparse ? 2 : 1);
}

static inline unsigned mfma_b_per_lane(const struct mfma_shape *s)
{
    return (unsigned)s->k * s->n * s->blocks / MFMA_LANES;
}

/** True if a lane's `per_lane` elements are in eight registers, in two stripes of four: the second
 * stripe is half of K after the first. Elements of 6 bits are not in stripes. */
static inline bool mfma_is_striped(enum mfma_format format, unsigned per_lane)
{
    unsigned bits = mfma_element_bits(format);

    return bits >= 8 && per_lane == 2 * (128 / bits);
}

/** Returns the k of element `e` in a lane of group `group`, the lane number divided by m * blocks
 * (B: n * blocks). For a sparse A it counts the stored elements. */
static inline unsigned mfma_k(const struct mfma_shape *s, enum mfma_format format, bool is_a,
                              unsigned group, unsigned e)
{
    unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    unsigned stripe = 128 / mfma_element_bits(format);

    if (mfma_is_striped(format, per_lane))
        return e / stripe * (s->k / 2) + group * stripe + e % stripe;
    return group * per_lane + e;
}

/** Returns the logical k of stored element `k` in row i of a sparse A. */
static inline unsigned mfma_sparse_k(const struct mfma_job *job, unsigned i, unsigned k)
{
    unsigned per_lane = mfma_a_per_lane(&job->shape);
    uint32_t bits = job->index[k / per_lane * job->shape.m + i] >> job->index_shift;

    return k / 2 * 4 + (bits >> (2 * (k % per_lane)) & 3);
}

/** Returns the number of k whose products a fused step adds. A shape with fewer has steps of its
 * own k. */
static inline unsigned mfma_step_size(enum mfma_format format)
{
    switch (format) {
    case FORMAT_XF32: return 4;
    case FORMAT_F16:
    case FORMAT_BF16: return 8;
    default: return 16;
    }
}

/** Sets *reg and *lane to the register and the lane of C or D that hold row i, column 0 of a block.
 * Elements of 64 bits are in registers 2 * *reg and 2 * *reg + 1. */
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

/** Returns c plus the sum of n products * 2^scale, rounded as the hardware does. exponent[] has the
 * products' exponents, without `scale`. With `two_stage`, products with even and with odd index
 * have separate sums, which are then added. Slow: kernels call it only for cases that vectors
 * cannot compute. */
float mfma_fused_step(const double *product, const int *exponent, unsigned n, int scale, float c,
                      bool two_stage);

/** Returns the block whose A block `block` uses: 2^CBSZ neighbouring blocks share one A, which ABID
 * selects among theirs. */
unsigned mfma_block_of_a(const struct mfma_job *job, unsigned block);

/** Returns the lane of B that `lane` reads with BLGP 0 to 7, the broadcast controls of formats
 * without a format field. */
unsigned mfma_blgp_lane(unsigned lane, unsigned blgp);

/** Computes the job with the kernels for host_isa(). */
void mfma_run(const struct mfma_job *job);

/** Replaces overflowed elements of `d`, the job's result, by the largest finite number of their
 * sign; see mfma_saturate.c. Requires that the job's operands are as before mfma_run(). */
void mfma_clamp(const struct mfma_job *job, uint32_t (*d)[MFMA_LANES]);

/* Compute a job as mfma_run() does, with the kernels of one host instruction set. */
void mfma_run_plain(const struct mfma_job *job);
void mfma_run_avx2(const struct mfma_job *job);
void mfma_run_avx512(const struct mfma_job *job);

#endif

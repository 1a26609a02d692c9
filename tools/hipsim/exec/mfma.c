/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions: layouts of operands, one exact fused step, and the choice of kernels. */
#include "mfma.h"

#include <math.h>
#include <string.h>

#include "smallfloat.h"
#include "tables.h"

/* The functions from here on map lanes and blocks of A for BLGP and CBSZ. */

unsigned mfma_blgp_lane(unsigned lane, unsigned blgp)
{
    switch (blgp) {
    case 1: return lane % 32;
    case 2: return lane % 32 + 32;
    case 3: return (lane + 16) % 64;
    case 4:
    case 5:
    case 6:
    case 7: return lane % 16 + (blgp - 4) * 16;
    default: return lane;
    }
}

unsigned mfma_block_of_a(const struct mfma_job *job, unsigned block)
{
    if (!job->cbsz || job->shape.sparse)
        return block;
    return ((block >> job->cbsz << job->cbsz) + job->abid) % job->shape.blocks;
}

/* The functions from here on compute the fused step. */

/* Returns floor(log2 |x|), but -126 (binary32's least normal exponent) for subnormals and zero. */
static int exponent_of(float x)
{
    uint32_t field = bits_from_float(x) >> 23 & 255;

    return field ? (int)field - 127 : -126;
}

/* Returns x * 2^e, as ldexp() does, which takes ten times as long. */
static double times_power(double x, int e)
{
    enum { BIAS = 1023, MANTISSA_BITS = 52 };
    double power;

    if (e <= -BIAS || e > BIAS)
        return ldexp(x, e);
    const uint64_t bits = (uint64_t)(e + BIAS) << MANTISSA_BITS;
    memcpy(&power, &bits, sizeof(power));
    return x * power;
}

/* Sum of some products of a step. */
struct partial {
    double sum; /* sum of products, in units of 2^(exponent - 24) */
    /* Exponent to which the products are aligned. */
    int exponent;
};

/* Returns the sum of the products `first`, first + step, ... below n. They are aligned to their
 * largest exponent and truncated to 24 fractional bits. */
static struct partial add_products(const double *product, const int *exponent, unsigned n,
                                   unsigned first, unsigned step)
{
    struct partial p = {0, exponent[first]};

    for (unsigned k = first; k < n; k += step)
        p.exponent = exponent[k] > p.exponent ? exponent[k] : p.exponent;
    for (unsigned k = first; k < n; k += step)
        p.sum += trunc(times_power(product[k], 24 - p.exponent));
    return p;
}

float mfma_fused_step(const double *product, const int *exponent, unsigned n, int scale, float c,
                      bool two_stage)
{
    double total = c;
    bool above = false, below = false; /* some product is above, below binary32's range */

    for (unsigned k = 0; k < n; k++) {
        double p = times_power(product[k], scale);
        above |= p >= 0x1p128;
        below |= p <= -0x1p128;
        total += p;
    }
    if (isnan(total) || (above && below && !isinf(total)))
        return float_from_bits(0x7fc00000);
    if (isinf(total))
        return (float)total;
    if (above || below)
        return above ? INFINITY : -INFINITY;

    struct partial s = add_products(product, exponent, n, 0, two_stage ? 2 : 1);
    if (two_stage) {
        struct partial odd = add_products(product, exponent, n, 1, 2);
        int e = s.exponent > odd.exponent ? s.exponent : odd.exponent;
        s.sum = floor(times_power(s.sum, s.exponent - e)) +
                floor(times_power(odd.sum, odd.exponent - e));
        s.exponent = e;
    }
    s.exponent += scale;
    int ec = exponent_of(c), e = s.exponent > ec ? s.exponent : ec;
    double sum = floor(times_power(s.sum, 7 + s.exponent - e)); /* in units of 2^(e - 31) */
    double addend = floor(times_power(c, 24 - e));              /* in units of 2^(e - 24) */
    if (two_stage && ec < e - 25)
        addend = 0;
    return (float)times_power(sum + 128 * addend, e - 31);
}

/* The functions from here on choose the kernels for the host and run them. */

/* Computes the job with the kernels of host_isa(). */
static void run(const struct mfma_job *job)
{
#ifdef HIPSIM_X86
    switch (host_isa()) {
    case HOST_AVX512: mfma_run_avx512(job); return;
    case HOST_AVX2: mfma_run_avx2(job); return;
    default: break;
    }
#endif
    mfma_run_plain(job);
}

void mfma_run(const struct mfma_job *job)
{
    if (!job->saturate || job->a_format == FORMAT_F64) {
        run(job);
        return;
    }
    /* mfma_clamp() reads A, B and C after the run, and D may overlap them. */
    _Alignas(64) uint32_t d[32][MFMA_LANES];
    const struct mfma_shape *s = &job->shape;
    struct mfma_job aside = *job;
    aside.d = d;
    run(&aside);
    mfma_clamp(&aside, d);
    memcpy(job->d, d, (size_t)s->m * s->n * s->blocks * sizeof(uint32_t));
}

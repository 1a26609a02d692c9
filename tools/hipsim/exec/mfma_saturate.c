/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions with MODE.FP16_OVFL: "If set, F32 Result on overflow is clamped to +/- MAX".
 * Results of 32-bit integers are limited likewise (CDNA4 ISA, 7.1.2, 7.1.5, 7.5).
 *
 * The kernels run first, without the mode. A float element that overflows in some step is an
 * infinity or NaN at the end. Only such elements are computed again, one by one, with each infinite
 * step of finite inputs clamped.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#define ISA plain
#include "mfma_decode.h"
#include "smallfloat.h"

/* True if the bits of an f32 are neither an infinity nor a NaN. */
static bool finite_bits(uint32_t u) { return (u & 0x7f800000) != 0x7f800000; }

/* Returns the result r of a step, or the largest number of its sign if r is infinite and `finite`:
 * the inputs of the step were finite. */
static float clamped(float r, bool finite)
{
    return finite && isinf(r) ? copysignf(FLT_MAX, r) : r;
}

/* Row i, column j of the result. */
struct element {
    const struct mfma_job *job;
    const struct operands *o;
    unsigned i, j;
};

/* Returns the element of an FP32 shape: a chain of fused multiply-adds along k, each clamped. */
static float chain(const struct element *e, float c)
{
    for (unsigned k = 0; k < e->job->shape.k; k++) {
        const float a = e->o->a[k][e->i], b = e->o->b[k][e->j];
        c = clamped(fmaf(a, b, c), isfinite(a) && isfinite(b) && isfinite(c));
    }
    return c;
}

/* Sets *scale to the sum of the exponents of A's and B's scales for the element; 0 without scales.
 * The scales are of the block of 32 that includes `k`. False if a scale is NaN. */
static bool scale_of(const struct element *e, unsigned k, int *scale)
{
    const struct mfma_job *job = e->job;
    *scale = 0;
    if (!job->scale_a)
        return true;
    const unsigned a = job->scale_a[k / 32 * job->shape.m + e->i] >> job->scale_a_shift & 255;
    const unsigned b = job->scale_b[k / 32 * job->shape.n + e->j] >> job->scale_b_shift & 255;
    *scale = (int)(a + b) - 254;
    return a != 255 && b != 255;
}

/* Returns the element after the fused step of `size` lines from line `from` on, clamped. `c` is the
 * element before it. */
static float one_step(const struct element *e, unsigned from, unsigned size, float c)
{
    const struct mfma_job *job = e->job;
    const unsigned bits = mfma_element_bits((enum mfma_format)job->a_format);
    double product[16];
    int exponent[16], scale;
    bool finite = isfinite(c);

    if (!scale_of(e, from, &scale))
        return float_from_bits(0x7fc00000);
    for (unsigned n = 0; n < size; n++) {
        const unsigned k = from + n, line = job->shape.sparse ? mfma_sparse_k(job, e->i, k) : k;
        product[n] = (double)e->o->a[k][e->i] * e->o->b[line][e->j];
        exponent[n] = (int8_t)e->o->ea[k][e->i] + e->o->eb[line][e->j];
        finite &= isfinite(product[n]);
    }
    return clamped(mfma_fused_step(product, exponent, size, scale, c, bits <= 8), finite);
}

/* Returns the element, computed from C's element `c` step by step with each step clamped. */
static float recompute(const struct element *e, float c)
{
    const struct mfma_shape *s = &e->job->shape;
    const unsigned count = s->sparse ? s->k / 2u : s->k;
    unsigned size = mfma_step_size((enum mfma_format)e->job->a_format);

    if (e->job->a_format == FORMAT_F32)
        return chain(e, c);
    size = size < count ? size : count;
    for (unsigned k = 0; k < count; k += size)
        c = one_step(e, k, size, c);
    return c;
}

/* Recomputes the elements of d that are infinities or NaNs. */
static void clamp_floats(const struct mfma_job *job, uint32_t (*d)[MFMA_LANES])
{
    const struct mfma_shape *s = &job->shape;
    unsigned reg, lane;
    struct operands o;

    for (unsigned block = 0; block < s->blocks; block++) {
        bool decoded = false;
        for (unsigned i = 0; i < s->m; i++) {
            mfma_d_place(s, false, block, i, &reg, &lane);
            for (unsigned j = 0; j < s->n; j++) {
                if (finite_bits(d[reg][lane + j]))
                    continue;
                if (!decoded)
                    mfma_decode_plain(&o, job, block);
                decoded = true;
                const struct element e = {job, &o, i, j};
                const float c = float_from_bits(job->c[reg][lane + j]);
                d[reg][lane + j] = bits_from_float(recompute(&e, c));
            }
        }
    }
}

/* The functions from here on saturate results of integers. */

/* Decoded A and B of a block of INT8: for each k, a line of rows of A or columns of B. */
struct bytes {
    int8_t a[MAX_K][LINE], b[MAX_K][LINE];
};

/* Decodes A (`is_a`) or B of a block: line out[k] has the elements of k. */
static void decode_bytes(int8_t (*out)[LINE], const struct mfma_job *job, bool is_a, unsigned block)
{
    const struct mfma_shape *s = &job->shape;
    const uint32_t (*rows)[MFMA_LANES] = is_a ? job->a : job->b;
    const unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    const unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);

    for (unsigned lane = 0; lane < MFMA_LANES; lane++) {
        if (lane % lanes / width != block)
            continue;
        const unsigned from = is_a ? lane : mfma_blgp_lane(lane, job->blgp);
        for (unsigned e = 0; e < per_lane; e++)
            out[mfma_k(s, FORMAT_I8, is_a, lane / lanes, e)][lane % width] =
                (int8_t)(rows[e / 4][from] >> (8 * (e % 4)));
    }
}

/* True if no element of C is so near to the ends of the 32-bit range that a sum of products could
 * leave it. */
static bool far_from_ends(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    const unsigned rows = (unsigned)s->m * s->n * s->blocks / MFMA_LANES;
    const int32_t most = INT32_MAX - MAX_K * 128 * 128;

    for (unsigned r = 0; r < rows; r++)
        for (unsigned l = 0; l < MFMA_LANES; l++)
            if ((int32_t)job->c[r][l] > most || (int32_t)job->c[r][l] < -most)
                return false;
    return true;
}

/* Recomputes integer results, limited to the range of 32 bits, unless no sum can have left it. */
static void clamp_integers(const struct mfma_job *job, uint32_t (*d)[MFMA_LANES])
{
    const struct mfma_shape *s = &job->shape;
    const unsigned count = s->sparse ? s->k / 2u : s->k;
    unsigned reg, lane;
    struct bytes o;

    if (far_from_ends(job))
        return;
    for (unsigned block = 0; block < s->blocks; block++) {
        decode_bytes(o.a, job, true, mfma_block_of_a(job, block));
        decode_bytes(o.b, job, false, block);
        for (unsigned i = 0; i < s->m; i++) {
            mfma_d_place(s, false, block, i, &reg, &lane);
            for (unsigned j = 0; j < s->n; j++) {
                int64_t sum = (int32_t)job->c[reg][lane + j];
                for (unsigned k = 0; k < count; k++)
                    sum += o.a[k][i] * o.b[s->sparse ? mfma_sparse_k(job, i, k) : k][j];
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
                d[reg][lane + j] = (uint32_t)sum;
            }
        }
    }
}

void mfma_clamp(const struct mfma_job *job, uint32_t (*d)[MFMA_LANES])
{
    if (job->a_format == FORMAT_I8)
        clamp_integers(job, d);
    else
        clamp_floats(job, d);
}

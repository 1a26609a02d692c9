/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixteen columns of a matrix as compiler vectors: 16-bit lanes in one vector of 32 bytes, 32-bit
 * lanes in PARTS vectors of the machine's width. The same source gives the same bits for every
 * width, because each operation is exact or rounds as IEEE 754 says.
 */
#ifndef HIPSIM_MFMA_VEC_H
#define HIPSIM_MFMA_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

#define COLS 16
#define PARTS (COLS * 4 / VEC_BYTES)
#define PART_COLS (VEC_BYTES / 4)

typedef float vec_f __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vec_i __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vec_u __attribute__((vector_size(VEC_BYTES)));
typedef int16_t half_s __attribute__((vector_size(VEC_BYTES / 2))); /* as many as a vec_i */
#define SHORT_BYTES (VEC_BYTES < 32 ? VEC_BYTES : 32)
#define SHORTS (32 / SHORT_BYTES) /* vectors of 16-bit lanes per 16 columns */
typedef int16_t vec_s __attribute__((vector_size(SHORT_BYTES)));

static inline vec_f load_f(const float *p)
{
    vec_f v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store_f(float *p, vec_f v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec_s load_s(const int16_t *p)
{
    vec_s v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* The 16-bit lanes of part `part`, widened. */
static inline vec_i load_wide(const void *p, unsigned part)
{
    half_s h;

    memcpy(&h, (const char *)p + part * sizeof h, sizeof h);
#if defined(__AVX512F__)
    return (vec_i)_mm512_cvtepi16_epi32((__m256i)h);
#elif defined(__AVX2__)
    return (vec_i)_mm256_cvtepi16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vec_i);
#endif
}

static inline vec_s vec_max_s(vec_s a, vec_s b)
{
#if defined(__AVX2__)
    return (vec_s)_mm256_max_epi16((__m256i)a, (__m256i)b);
#else
    vec_s m = a > b;
    return (a & m) | (b & ~m);
#endif
}

static inline bool vec_any_s(vec_s m)
{
#if defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    uint64_t w[sizeof m / 8];
    memcpy(w, &m, sizeof m);
    return (w[0] | w[1]) != 0;
#endif
}

static inline bool vec_any_i(vec_i m)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    uint64_t w[2];
    memcpy(w, &m, sizeof m);
    return (w[0] | w[1]) != 0;
#endif
}

/* Both halves of a dword in every pair of 16-bit lanes. */
static inline vec_s vec_pair(uint32_t halves)
{
    typedef uint32_t pairs __attribute__((vector_size(SHORT_BYTES)));

    return (vec_s)((pairs){ 0 } + halves);
}

static inline vec_f vec_pick(vec_i mask, vec_f yes, vec_f no)
{
    return (vec_f)((mask & (vec_i)yes) | (~mask & (vec_i)no));
}

/* Through the bits: 0 + x would be an addition to the compiler. */
static inline vec_f vec_f_from(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (vec_f)((vec_i){ 0 } + bits);
}

/* Arithmetic that may wrap in lanes whose result is not used. */
static inline vec_i vec_add(vec_i a, vec_i b)
{
    return (vec_i)((vec_u)a + (vec_u)b);
}

/* 2^(bias + e): `bias` includes the 127 of binary32. */
static inline vec_f vec_power(int bias, vec_i e)
{
    return (vec_f)(((vec_u)e + (uint32_t)bias) << 23);
}

static inline vec_i vec_shl(vec_i v, int by)
{
    return (vec_i)((vec_u)v << by);
}

static inline vec_f vec_to_f(vec_i v)
{
    return __builtin_convertvector(v, vec_f);
}

/* Truncates; the caller sees to the range. */
static inline vec_i vec_to_i(vec_f v)
{
    return __builtin_convertvector(v, vec_i);
}

#endif

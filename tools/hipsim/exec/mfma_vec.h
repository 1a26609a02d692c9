/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of a matrix as compiler vectors: bytes of 32 columns in SPANS vectors, 32-bit numbers of
 * 16 columns in PARTS vectors of the machine's width. Results are the same for every width, because
 * each operation is exact or rounds according to IEEE 754.
 */
#ifndef HIPSIM_MFMA_VEC_H
#define HIPSIM_MFMA_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
#    define VEC_BYTES 64
#elif defined(__AVX2__)
#    define VEC_BYTES 32
#else
#    define VEC_BYTES 16
#endif

#define COLS 16
#define PARTS (COLS * 4 / VEC_BYTES)
#define PART_COLS (VEC_BYTES / 4)

typedef float vec_f __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vec_i __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vec_u __attribute__((vector_size(VEC_BYTES)));
typedef uint8_t part_ub __attribute__((vector_size(VEC_BYTES / 4))); /* bytes, as many as a vec_i
                                                                        has elements */
typedef int16_t part_s __attribute__((vector_size(VEC_BYTES / 2)));

#define BYTE_COLS 32
#define SPAN_COLS (VEC_BYTES < 32 ? VEC_BYTES : 32)
#define SPANS (BYTE_COLS / SPAN_COLS)
typedef int8_t vec_b __attribute__((vector_size(SPAN_COLS)));
typedef uint8_t vec_ub __attribute__((vector_size(SPAN_COLS)));

static inline vec_f load_f(const float *p)
{
    vec_f v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store_f(float *p, vec_f v) { memcpy(p, &v, sizeof(v)); }

static inline vec_u load_u(const uint32_t *p)
{
    vec_u v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline vec_b load_b(const int8_t *p)
{
    vec_b v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Return elements from number PART_COLS * part on, extended to 32 bits; the first function reads
 * bytes, the second 16-bit numbers. */
static inline vec_i widen_ub(const uint8_t *p, unsigned part)
{
    part_ub h;

    memcpy(&h, p + part * PART_COLS, sizeof(h));
#if defined(__AVX512F__)
    return (vec_i)_mm512_cvtepu8_epi32((__m128i)h);
#elif defined(__AVX2__)
    return (vec_i)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)h));
#else
    return __builtin_convertvector(h, vec_i);
#endif
}

static inline vec_i widen_s(const int16_t *p, unsigned part)
{
    part_s h;

    memcpy(&h, p + part * PART_COLS, sizeof(h));
#if defined(__AVX512F__)
    return (vec_i)_mm512_cvtepi16_epi32((__m256i)h);
#elif defined(__AVX2__)
    return (vec_i)_mm256_cvtepi16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vec_i);
#endif
}

/* Returns the greater of a and b in each byte, as signed numbers. */
static inline vec_b vec_max_b(vec_b a, vec_b b)
{
#if defined(__AVX2__)
    return (vec_b)_mm256_max_epi8((__m256i)a, (__m256i)b);
#else
    vec_b m = a > b;
    return (a & m) | (b & ~m);
#endif
}

/* Returns the lesser of a and b in each byte, as signed numbers. */
static inline vec_b vec_min_b(vec_b a, vec_b b)
{
#if defined(__AVX2__)
    return (vec_b)_mm256_min_epi8((__m256i)a, (__m256i)b);
#else
    vec_b m = a < b;
    return (a & m) | (b & ~m);
#endif
}

/* Returns a + b, limited to -128 .. 127. */
static inline vec_b vec_add_b(vec_b a, vec_b b)
{
#if defined(__AVX2__)
    return (vec_b)_mm256_adds_epi8((__m256i)a, (__m256i)b);
#else
    vec_b sum = (vec_b)((vec_ub)a + (vec_ub)b);
    vec_b over = ((a ^ sum) & (b ^ sum)) < 0, limit = (a < 0) ^ 0x7f;
    return (limit & over) | (sum & ~over);
#endif
}

/* True if any bit of the vector is set. */
static inline bool vec_any_b(vec_b m)
{
#if defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    uint64_t w[2];
    memcpy(w, &m, sizeof(m));
    return (w[0] | w[1]) != 0;
#endif
}

/* True if any bit of the vector is set. */
static inline bool vec_any_i(vec_i m)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    uint64_t w[2];
    memcpy(w, &m, sizeof(m));
    return (w[0] | w[1]) != 0;
#endif
}

/* True if `a` and `b` are equal in any lane. */
static inline bool vec_any_equal(vec_i a, vec_i b)
{
#if defined(__AVX512F__)
    return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b) != 0;
#else
    return vec_any_i(a == b);
#endif
}

/* True if `a` is greater than `b` in any lane. */
static inline bool vec_any_above(vec_i a, vec_i b)
{
#if defined(__AVX512F__)
    return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b) != 0;
#else
    return vec_any_i(a > b);
#endif
}

/* Returns a vector that repeats the four bytes of a dword. */
static inline vec_b vec_quad(uint32_t bytes)
{
    typedef uint32_t quads __attribute__((vector_size(SPAN_COLS)));

    return (vec_b)((quads){0} + bytes);
}

/* Returns each element of v shifted right by `by` bits, with its sign. 31 or more bits yield 0 or
 * -1. */
static inline vec_i vec_shr(vec_i v, vec_i by)
{
#if defined(__AVX512F__)
    return (vec_i)_mm512_srav_epi32((__m512i)v, (__m512i)by);
#elif defined(__AVX2__)
    return (vec_i)_mm256_srav_epi32((__m256i)v, (__m256i)by);
#else
    vec_i many = by > 31;
    return v >> ((by & ~many) | (many & 31));
#endif
}

/* Returns the greater of a and b in each element. */
static inline vec_i vec_max_i(vec_i a, vec_i b)
{
#if defined(__AVX512F__)
    return (vec_i)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_i)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    vec_i m = a > b;
    return (a & m) | (b & ~m);
#endif
}

/* Returns v / 4 rounded to odd: floor(v / 4), with bit 0 set if v is no multiple of 4. */
static inline vec_i vec_quarter_to_odd(vec_i v)
{
#if defined(__AVX512F__)
    __m512i whole = _mm512_srai_epi32((__m512i)v, 2), one = _mm512_set1_epi32(1);
    __mmask16 inexact = _mm512_test_epi32_mask((__m512i)v, _mm512_set1_epi32(3));
    return (vec_i)_mm512_mask_or_epi32(whole, inexact, whole, one);
#else
    return (v | ((v & 3) + 3)) >> 2;
#endif
}

/* Stores each element of v as a byte at p. Elements must be in -128 .. 127. */
static inline void narrow_b(int8_t *p, vec_i v)
{
#if defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v),
                                    _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
#else
    for (unsigned i = 0; i < PART_COLS; i++)
        p[i] = (int8_t)v[i];
#endif
}

/* Returns the low byte of each element in all four of its bytes. */
static inline vec_u vec_four_times(vec_i v)
{
#if defined(__AVX512F__)
    return (vec_u)_mm512_shuffle_epi8((__m512i)v,
                                      _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
#elif defined(__AVX2__)
    return (vec_u)_mm256_shuffle_epi8((__m256i)v,
                                      _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0,
                                                       0x0c0c0c0c, 0x08080808, 0x04040404, 0));
#else
    vec_u u = (vec_u)v & 255;
    u |= u << 8;
    return u | u << 16;
#endif
}

/* Returns `yes` in elements whose mask is all ones, and `no` in elements whose mask is 0. */
static inline vec_f vec_pick(vec_i mask, vec_f yes, vec_f no)
{
    return (vec_f)((mask & (vec_i)yes) | (~mask & (vec_i)no));
}

/* Returns x in every element. Broadcasts its bits, because the compiler would treat 0 + x as an
 * addition. */
static inline vec_f vec_f_from(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (vec_f)((vec_i){0} + bits);
}

/* Returns a + b modulo 2^32, so that unused elements may overflow. */
static inline vec_i vec_add(vec_i a, vec_i b) { return (vec_i)((vec_u)a + (vec_u)b); }

/* Returns, in each element, low(a) * low(b) + high(a) * high(b) of signed 16-bit halves. */
static inline vec_i vec_dot_halves(vec_u a, vec_u b)
{
#if defined(__AVX512F__)
    return (vec_i)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_i)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    const vec_i low = ((vec_i)(a << 16) >> 16) * ((vec_i)(b << 16) >> 16);
    return low + ((vec_i)a >> 16) * ((vec_i)b >> 16);
#endif
}

static inline vec_i vec_shl(vec_i v, int by) { return (vec_i)((vec_u)v << by); }

static inline vec_f vec_to_f(vec_i v) { return __builtin_convertvector(v, vec_f); }

/* Returns v rounded toward zero. Elements must be in the range of int32. */
static inline vec_i vec_to_i(vec_f v) { return __builtin_convertvector(v, vec_i); }

/* Returns v rounded toward minus infinity. Elements must be in the range of int32. */
static inline vec_i vec_floor(vec_f v)
{
#if defined(__AVX512F__)
    return (vec_i)_mm512_cvt_roundps_epi32((__m512)v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return vec_to_i((vec_f)_mm256_floor_ps((__m256)v));
#else
    const vec_i whole = vec_to_i(v);
    return vec_add(whole, v < vec_to_f(whole));
#endif
}

#endif

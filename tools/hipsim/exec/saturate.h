/* SPDX-License-Identifier: Apache-2.0 */
/* Saturation and absolute differences of integers, for lane kernels. */
#ifndef HIPSIM_SATURATE_H
#define HIPSIM_SATURATE_H

#include <stdbool.h>
#include <stdint.h>

/* Return v as an integer of the type in the name; with `clamp` it saturates, otherwise its low bits
 * are kept. */
static inline uint32_t sat_u32(uint64_t v, bool clamp)
{
    return clamp && v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static inline uint32_t sat_i32(int64_t v, bool clamp)
{
    const int64_t c = v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v;
    return (uint32_t)(clamp ? c : v);
}

static inline uint32_t sat_u16(int64_t v, bool clamp)
{
    const int64_t c = v < 0 ? 0 : v > UINT16_MAX ? UINT16_MAX : v;
    return (uint32_t)(clamp ? c : v);
}

static inline uint32_t sat_i16(int64_t v, bool clamp)
{
    const int64_t c = v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v;
    return (uint32_t)(clamp ? c : v);
}

/* Returns |a - b| of unsigned integers. */
static inline uint32_t absdiff(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

/* Returns the sum of the absolute differences of four bytes. With `masked`, bytes that are zero in
 * b do not count. */
static inline uint32_t sad_u8(uint32_t a, uint32_t b, bool masked)
{
    uint32_t sum = 0;
    for (unsigned k = 0; k < 32; k += 8)
        sum += masked && !(b >> k & 0xff) ? 0 : absdiff(a >> k & 0xff, b >> k & 0xff);
    return sum;
}

#endif

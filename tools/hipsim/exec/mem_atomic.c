/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of atomics. Sources: CDNA3 ISA, chapter 13, pseudo-code of DS_*, BUFFER_ATOMIC_* and
 * FLAT_ATOMIC_*, where `tmp` is the old value and `src` the operand. For floats: CDNA4 ISA, 9.2
 * "Float memory atomics". Sums round to nearest even. The parameter `infinity`, the bits of a
 * format's infinity, identifies a float format. GFX12's own operations: RDNA4 ISA, chapter 16.
 */
#include <string.h>

#include "mem.h"
#include "smallfloat.h"

#define INFINITY64 UINT64_C(0x7ff0000000000000)
#define INFINITY32 0x7f800000u
#define INFINITY_F16 0x7c00u
#define INFINITY_BF16 0x7f80u

/* Return, for the float format with these bits of infinity: the lowest bit of its exponent, its
 * sign bit, and the mantissa bit that makes a NaN quiet. */
static uint64_t lowest_of(uint64_t infinity) { return infinity & -infinity; }

static uint64_t sign_of(uint64_t infinity) { return infinity + lowest_of(infinity); }

static uint64_t quiet_of(uint64_t infinity) { return lowest_of(infinity) / 2; }

/* True if the bits are a NaN of the format. */
static bool is_nan(uint64_t bits, uint64_t infinity)
{
    return (bits & ~sign_of(infinity)) > infinity;
}

/* True if the bits are a signalling NaN of the format. */
static bool is_signaling(uint64_t bits, uint64_t infinity)
{
    return is_nan(bits, infinity) && !(bits & quiet_of(infinity));
}

/* Returns `bits`, with a denormal replaced by a zero of its sign unless `keep`. */
static uint64_t flushed(uint64_t bits, uint64_t infinity, bool keep)
{
    return keep || bits & infinity ? bits : bits & sign_of(infinity);
}

/* True if MODE keeps denormal inputs of the float format. */
static bool keeps_inputs(uint64_t infinity, uint32_t mode)
{
    return mode & (infinity == INFINITY32 ? MODE_DENORM_F32 : MODE_DENORM_F16_F64) & 0x50;
}

/* True if MODE keeps denormal results of the float format. */
static bool keeps_outputs(uint64_t infinity, uint32_t mode)
{
    return mode & (infinity == INFINITY32 ? MODE_DENORM_F32 : MODE_DENORM_F16_F64) & 0xa0;
}

/* Returns the bits of a + b in the format, rounded to nearest even, by the host's addition. */
static uint64_t plain_sum(uint64_t a, uint64_t b, uint64_t infinity)
{
    double x, y;

    switch (infinity) {
    case INFINITY_F16: return f16_from_f32(f32_from_f16((uint16_t)a) + f32_from_f16((uint16_t)b));
    case INFINITY_BF16:
        return bf16_from_f32(f32_from_bf16((uint16_t)a) + f32_from_bf16((uint16_t)b));
    case INFINITY32:
        return bits_from_float(float_from_bits((uint32_t)a) + float_from_bits((uint32_t)b));
    default:
        memcpy(&x, &a, sizeof(x));
        memcpy(&y, &b, sizeof(y));
        x += y;
        memcpy(&a, &x, sizeof(a));
        return a;
    }
}

/* Returns old + data as floats. A NaN result is the first NaN source made quiet, or the default NaN
 * if no source is NaN. F64 sums keep denormals. */
static uint64_t add_float(uint64_t old, uint64_t data, uint64_t infinity, uint32_t mode)
{
    bool keep_in = infinity == INFINITY64 || keeps_inputs(infinity, mode);
    bool keep_out = infinity == INFINITY64 || keeps_outputs(infinity, mode);
    uint64_t sum =
        plain_sum(flushed(old, infinity, keep_in), flushed(data, infinity, keep_in), infinity);

    if (!is_nan(sum, infinity))
        return flushed(sum, infinity, keep_out);
    if (is_nan(old, infinity))
        return old | quiet_of(infinity);
    return quiet_of(infinity) | (is_nan(data, infinity) ? data : sign_of(infinity) | infinity);
}

/* Returns an integer that orders floats of the format by value, -0 below +0. */
static uint64_t rank(uint64_t bits, uint64_t infinity)
{
    uint64_t sign = sign_of(infinity);

    return bits & sign ? sign - 1 - (bits & ~sign) : bits | sign;
}

/* Returns the minimum, or with `max` the maximum, of two floats. A signalling NaN wins and becomes
 * quiet; a quiet NaN loses. Unless `keep`, denormals compare as zeros. */
static uint64_t select_float(uint64_t old, uint64_t data, uint64_t infinity, bool max, bool keep)
{
    uint64_t a = rank(flushed(old, infinity, keep), infinity);
    uint64_t b = rank(flushed(data, infinity, keep), infinity);

    if (is_signaling(old, infinity))
        return old | quiet_of(infinity);
    if (is_signaling(data, infinity))
        return data | quiet_of(infinity);
    if (is_nan(data, infinity))
        return old;
    return is_nan(old, infinity) || (max ? b > a : b < a) ? data : old;
}

/* Returns the minimum, or with `max` the maximum, of two floats. A number wins over any NaN. Of two
 * NaNs `data` wins and becomes quiet. */
static uint64_t select_number(uint64_t old, uint64_t data, uint64_t infinity, bool max)
{
    const uint64_t a = rank(old, infinity), b = rank(data, infinity);

    if (is_nan(data, infinity))
        return is_nan(old, infinity) ? data | quiet_of(infinity) : old;
    return is_nan(old, infinity) || (max ? b > a : b < a) ? data : old;
}

/* Returns the value that a float compare-and-swap leaves in memory. Zeros are equal whatever their
 * sign, and a NaN equals nothing. Unless `keep`, denormals count as zeros. */
static uint64_t compare_and_swap(uint64_t old, uint64_t comparand, uint64_t data, uint64_t infinity,
                                 bool keep)
{
    uint64_t a = flushed(old, infinity, keep), b = flushed(comparand, infinity, keep);
    bool zeros = !((a | b) & ~sign_of(infinity));

    return (a == b && !is_nan(a, infinity)) || zeros ? flushed(data, infinity, keep) : a;
}

/* Returns the sums of two pairs of 16-bit floats. */
static uint64_t add_pairs(uint64_t old, uint64_t data, uint64_t infinity, uint32_t mode)
{
    return add_float(old & 0xffff, data & 0xffff, infinity, mode) |
           add_float(old >> 16 & 0xffff, data >> 16 & 0xffff, infinity, mode) << 16;
}

/* DS_CONDXCHG32_RTN_B64: returns the new value of two dwords. Each is replaced by the operand's
 * dword, without bit 31, if that bit is set. */
static uint64_t conditional_exchange(uint64_t old, uint64_t data)
{
    uint64_t low = data & 0x80000000 ? data & 0x7fffffff : old & 0xffffffff;
    uint64_t high = data >> 63 ? data >> 32 & 0x7fffffff : old >> 32;

    return low | high << 32;
}

/* DS_ATOMIC_BARRIER_ARRIVE: returns the barrier after `count` arrivals (CDNA5 ISA, 11.2.2). Each
 * arrival takes 1 from the count, bits 28:0. A count that would be negative gets the value of
 * bits 47:32, and 1 is subtracted from the phase, bits 31:29. The manual allows other widths of the
 * count; 29 bits are what Triton 3.8 reads. */
static uint64_t arrived(uint64_t barrier, uint32_t count)
{
    enum { WIDTH = 29 };
    const uint32_t mask = (1u << WIDTH) - 1, first = (uint32_t)(barrier >> 32) & 0xffff;
    const uint32_t state = (uint32_t)barrier - count;
    const bool complete = state >> (WIDTH - 1) & 1;
    return (barrier & ~UINT64_C(0xffffffff)) | (complete ? (state & ~mask) | first : state);
}

uint64_t atomic_result(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                       uint64_t data2, uint32_t mode)
{
    bool wide = bytes == 8;
    int64_t sold = wide ? (int64_t)old : (int32_t)old;
    int64_t sdata = wide ? (int64_t)data : (int32_t)data;
    uint64_t infinity = wide ? INFINITY64 : INFINITY32;

    switch (op) {
    case ATOMIC_ADD: return old + data;
    case ATOMIC_SUB: return old - data;
    case ATOMIC_RSUB: return data - old;
    case ATOMIC_INC: return old >= data ? 0 : old + 1;
    case ATOMIC_DEC: return old == 0 || old > data ? data : old - 1;
    case ATOMIC_SMIN: return sdata < sold ? data : old;
    case ATOMIC_SMAX: return sdata >= sold ? data : old;
    case ATOMIC_UMIN: return data < old ? data : old;
    case ATOMIC_UMAX: return data >= old ? data : old;
    case ATOMIC_AND: return old & data;
    case ATOMIC_OR: return old | data;
    case ATOMIC_XOR: return old ^ data;
    case ATOMIC_MSKOR: return (old & ~data) | data2;
    case ATOMIC_SWAP: return data;
    case ATOMIC_CMPSWAP: return old == data ? data2 : old;
    case ATOMIC_WRAP: return old >= data ? old - data : old + data2;
    case ATOMIC_CONDXCHG32: return conditional_exchange(old, data);
    case ATOMIC_ADD_F: return add_float(old, data, infinity, mode);
    case ATOMIC_CMPSWAP_F:
        return compare_and_swap(old, data, data2, infinity, keeps_inputs(infinity, mode));
    case ATOMIC_MIN_F:
    case ATOMIC_MAX_F:
        return select_float(old, data, infinity, op == ATOMIC_MAX_F, keeps_inputs(infinity, mode));
    case ATOMIC_MIN_NUM_F:
    case ATOMIC_MAX_NUM_F: return select_number(old, data, infinity, op == ATOMIC_MAX_NUM_F);
    case ATOMIC_COND_SUB: return old >= data ? old - data : old;
    case ATOMIC_SUB_CLAMP: return old >= data ? old - data : 0;
    case ATOMIC_ARRIVE: return arrived(old, (uint32_t)data);
    case ATOMIC_PK_ADD_F16: return add_pairs(old, data, INFINITY_F16, mode);
    case ATOMIC_PK_ADD_BF16: return add_pairs(old, data, INFINITY_BF16, mode);
    case ATOMIC_NONE: break;
    }
    return old;
}

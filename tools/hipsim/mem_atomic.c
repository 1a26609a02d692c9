/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What atomics compute. Pseudo-code: CDNA3 ISA, chapter 13, DS_*, BUFFER_ATOMIC_*, FLAT_ATOMIC_*:
 * `tmp` is the old value, `src` the operand. Floating-point minimum and maximum are plain
 * comparisons there, so a NaN operand leaves memory as it is.
 */
#include <string.h>

#include "tools/hipsim/mem.h"
#include "tools/hipsim/smallfloat.h"

#define INFINITY64 UINT64_C(0x7ff0000000000000)

static double f64_of(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t bits_of(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static float flushed(float f, bool keep)
{
    if (keep || fpclassify(f) != FP_SUBNORMAL)
        return f;
    return copysignf(0.0f, f);
}

/* A sum's NaN: the first of its sources, quiet, else the default one. Hosts differ in this. */
static uint64_t nan_sum(uint64_t old, uint64_t data, uint64_t infinity, uint64_t quiet)
{
    uint64_t magnitude = infinity | (infinity - 1);

    if ((old & magnitude) > infinity)
        return old | quiet;
    return (data & magnitude) > infinity ? data | quiet : infinity | quiet;
}

static uint64_t add_double(uint64_t old, uint64_t data)
{
    double sum = f64_of(old) + f64_of(data);
    return sum == sum ? bits_of(sum) : nan_sum(old, data, INFINITY64, UINT64_C(1) << 51);
}

static uint64_t add_float(unsigned bytes, uint64_t old, uint64_t data, uint32_t mode)
{
    if (bytes == 8)
        return add_double(old, data);
    bool keep_in = mode & MODE_DENORM_F32 & 0x10, keep_out = mode & MODE_DENORM_F32 & 0x20;
    float sum = flushed(float_from_bits((uint32_t)old), keep_in) +
                flushed(float_from_bits((uint32_t)data), keep_in);
    if (sum != sum)
        return nan_sum((uint32_t)old, (uint32_t)data, 0x7f800000, 1u << 22);
    return bits_from_float(flushed(sum, keep_out));
}

static uint64_t compare_float(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                              uint64_t data2)
{
    double tmp = bytes == 8 ? f64_of(old) : float_from_bits((uint32_t)old);
    double src = bytes == 8 ? f64_of(data) : float_from_bits((uint32_t)data);

    switch (op) {
    case ATOMIC_MIN_F:
        return src < tmp ? data : old;
    case ATOMIC_MAX_F:
        return src > tmp ? data : old;
    default:
        return tmp == src ? data2 : old;
    }
}

static uint16_t add_f16(uint16_t a, uint16_t b)
{
    float sum = f32_from_f16(a) + f32_from_f16(b);
    return sum == sum ? f16_from_f32(sum) : (uint16_t)nan_sum(a, b, 0x7c00, 1u << 9);
}

static uint16_t add_bf16(uint16_t a, uint16_t b)
{
    float sum = f32_from_bf16(a) + f32_from_bf16(b);
    return sum == sum ? bf16_from_f32(sum) : (uint16_t)nan_sum(a, b, 0x7f80, 1u << 6);
}

static uint64_t add_pairs(uint16_t (*add)(uint16_t, uint16_t), uint64_t old, uint64_t data)
{
    return add((uint16_t)old, (uint16_t)data) |
           (uint32_t)add((uint16_t)(old >> 16), (uint16_t)(data >> 16)) << 16;
}

/* DS_CONDXCHG32_RTN_B64: two dwords, each exchanged if bit 31 of its operand is set. */
static uint64_t conditional_exchange(uint64_t old, uint64_t data)
{
    uint64_t low = data & 0x80000000 ? data & 0x7fffffff : old & 0xffffffff;
    uint64_t high = data >> 63 ? data >> 32 & 0x7fffffff : old >> 32;

    return low | high << 32;
}

uint64_t atomic_result(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                       uint64_t data2, uint32_t mode)
{
    bool wide = bytes == 8;
    int64_t sold = wide ? (int64_t)old : (int32_t)old;
    int64_t sdata = wide ? (int64_t)data : (int32_t)data;

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
    case ATOMIC_ADD_F: return add_float(bytes, old, data, mode);
    case ATOMIC_CMPSWAP_F:
    case ATOMIC_MIN_F:
    case ATOMIC_MAX_F: return compare_float(op, bytes, old, data, data2);
    case ATOMIC_PK_ADD_F16: return add_pairs(add_f16, old, data);
    case ATOMIC_PK_ADD_BF16: return add_pairs(add_bf16, old, data);
    case ATOMIC_NONE: break;
    }
    return old;
}

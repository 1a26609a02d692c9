/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VOPC: compares of every type in every relation, their v_cmpx forms, which also write EXEC, and
 * v_cmp_class (CDNA3 ISA, VOPC section). A kernel's result is 0 or ~0 in each lane.
 */
#include "lanes.h"

#define COMPARE(op, load, cond) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        EACH_LANE { \
            load \
            (void)a, (void)b; \
            d[i] = (cond) ? ~0u : 0u; \
        } \
    }

#define PAIR(t, get) t a = (t)get(s0); t b = (t)get(s1);
#define GET32(s) s[i]
#define GET16(s) s[i]
#define GET64(s) row64(s, i)
#define GETF16(s) f16_to_f32(s[i] & 0xffff)
#define GETF32(s) as_f32(s[i])
#define GETF64(s) as_f64(row64(s, i))

/* Relations of integers: always false, <, =, <=, >, !=, >=, always true. */
#define INT_RELATIONS(R, ty) \
    R(f, ty, false) R(lt, ty, a < b) R(eq, ty, a == b) R(le, ty, a <= b) \
    R(gt, ty, a > b) R(ne, ty, a != b) R(ge, ty, a >= b) R(t, ty, true)

/* Relations of floats; those whose names begin with n, and u, are true if an operand is NaN. */
#define FLOAT_RELATIONS(R, ty) \
    R(f, ty, false) R(lt, ty, a < b) R(eq, ty, a == b) R(le, ty, a <= b) \
    R(gt, ty, a > b) R(lg, ty, a < b || a > b) R(ge, ty, a >= b) R(o, ty, a == a && b == b) \
    R(u, ty, a != a || b != b) R(nge, ty, !(a >= b)) R(nlg, ty, !(a < b || a > b)) \
    R(ngt, ty, !(a > b)) R(nle, ty, !(a <= b)) R(neq, ty, !(a == b)) R(nlt, ty, !(a < b)) \
    R(tru, ty, true)

#define ALL_COMPARES(R) \
    INT_RELATIONS(R, i16) INT_RELATIONS(R, u16) INT_RELATIONS(R, i32) INT_RELATIONS(R, u32) \
    INT_RELATIONS(R, i64) INT_RELATIONS(R, u64) \
    FLOAT_RELATIONS(R, f16) FLOAT_RELATIONS(R, f32) FLOAT_RELATIONS(R, f64)

#define LOAD_i16 PAIR(int16_t, GET16)
#define LOAD_u16 PAIR(uint16_t, GET16)
#define LOAD_i32 PAIR(int32_t, GET32)
#define LOAD_u32 PAIR(uint32_t, GET32)
#define LOAD_i64 PAIR(int64_t, GET64)
#define LOAD_u64 PAIR(uint64_t, GET64)
#define LOAD_f16 PAIR(float, GETF16)
#define LOAD_f32 PAIR(float, GETF32)
#define LOAD_f64 PAIR(double, GETF64)

#define KERNEL(rel, t, cond) COMPARE(rel##_##t, LOAD_##t, cond)
ALL_COMPARES(KERNEL)

/*
 * V_CMP_CLASS: returns the bit of S1 that tests for a number's class. From bit 0 on: signalling
 * NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf.
 */
static inline uint32_t class_bit(bool negative, bool nan, bool quiet, bool inf, bool zero, bool sub)
{
    uint32_t positive = zero ? 6 : sub ? 7 : inf ? 9 : 8;
    uint32_t bit = negative ? 11 - positive : positive;
    bit = nan ? quiet : bit;
    return 1u << bit;
}

/* Returns the bit for the class of an f16, as class_bit() does. */
static inline uint32_t class_f16(uint32_t u)
{
    uint32_t m = u & 0x7fff;
    return class_bit(u >> 15 & 1, m > 0x7c00, m >> 9 & 1, m == 0x7c00, m == 0, m < 0x400);
}

/* Returns the bit for the class of an f32, as class_bit() does. */
static inline uint32_t class_f32(uint32_t u)
{
    uint32_t m = u & 0x7fffffff;
    return class_bit(u >> 31, m > 0x7f800000, m >> 22 & 1, m == 0x7f800000, m == 0, m < 0x800000);
}

/* Returns the bit for the class of an f64, as class_bit() does. */
static inline uint32_t class_f64(uint64_t u)
{
    uint64_t m = u & INT64_MAX, inf = UINT64_C(0x7ff0000000000000);
    return class_bit(u >> 63, m > inf, m >> 51 & 1, m == inf, m == 0, m < UINT64_C(1) << 52);
}

#define CLASS_KERNEL(t, get) \
    COMPARE(class_##t, uint32_t a = class_##t(get(s0)); uint32_t b = s1[i];, a & b)
CLASS_KERNEL(f16, GET16)
CLASS_KERNEL(f32, GET32)
CLASS_KERNEL(f64, GET64)

#define TYPE_i16 T_B16
#define TYPE_u16 T_B16
#define TYPE_i32 T_I32
#define TYPE_u32 T_U32
#define TYPE_i64 T_I64
#define TYPE_u64 T_U64
#define TYPE_f16 T_F16
#define TYPE_f32 T_F32
#define TYPE_f64 T_F64

#define CMP_ROW(prefix, rel, t, t0, t1, fl) \
    {.name = prefix #rel "_" #t, .exec = LOCAL(exec_lanes), .dst = T_MASK, .src = {t0, t1}, \
     .kernel = (void (*)(void))k_##rel##_##t, .flags = ROW_VALU | (fl)},
#define ROWS(rel, t, cond) \
    CMP_ROW("v_cmp_", rel, t, TYPE_##t, TYPE_##t, 0) \
    CMP_ROW("v_cmpx_", rel, t, TYPE_##t, TYPE_##t, ROW_CMPX)
#define CLASS_ROWS(t) \
    CMP_ROW("v_cmp_", class, t, TYPE_##t, T_U32, ROW_NO_FLUSH) \
    CMP_ROW("v_cmpx_", class, t, TYPE_##t, T_U32, ROW_NO_FLUSH | ROW_CMPX)
/* GFX12: S1 has 16 bits, so that VOPC can name a register's high half. */
#define GFX12_CLASS(n, fl) \
    {.name = n, .exec = LOCAL(exec_lanes), .dst = T_MASK, .src = {T_F16, T_B16}, \
     .kernel = (void (*)(void))k_class_f16, .flags = ROW_VALU | ROW_NO_FLUSH | (fl), \
     .targets = GFX1250},
const struct op_row LOCAL(vop_cmp_rows)[] = {
    ALL_COMPARES(ROWS)
    CLASS_ROWS(f16)
    CLASS_ROWS(f32)
    CLASS_ROWS(f64)
    GFX12_CLASS("v_cmp_class_f16", 0)
    GFX12_CLASS("v_cmpx_class_f16", ROW_CMPX)
    {.name = NULL},
};

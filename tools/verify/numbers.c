/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * The element types, as struct precision has their members. `unit` is half the distance of
 * neighbours relative to the smaller one: 2^-p for p significant bits, with the hidden one. `tiny`
 * is half the smallest step. int8 has a step of 1 everywhere.
 */
static const struct precision precisions[] = {
    {ATTN_BF16, "bf16", NULL, 2, 0x1p-8, 0x1p-134, INFINITY, 0x7fc5},
    {ATTN_FP16, "fp16", NULL, 2, 0x1p-11, 0x1p-25, INFINITY, 0x7e05},
    {ATTN_FP8, "fp8", "gfx942", 1, 0x1p-4, 0x1p-11, 240, 0x80},
    {ATTN_FP8, "fp8", NULL, 1, 0x1p-4, 0x1p-10, 448, 0x7f},
    {ATTN_INT8, "int8", NULL, 1, 0, 0.5, 127, 0x80},
};

enum { COUNT = sizeof(precisions) / sizeof(precisions[0]) };

const struct precision *find_precision(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (precisions[i].size == 2 && !strcmp(precisions[i].name, name))
            return &precisions[i];
    }
    return NULL;
}

const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target)
{
    for (int i = 0; i < COUNT; i++) {
        const struct precision *p = &precisions[i];
        if (p->dtype == dtype && (!p->target || !strcmp(p->target, target)))
            return p;
    }
    return NULL;
}

uint16_t encode_fp8(double value, bool fnuz)
{
    const int bias = fnuz ? 8 : 7;
    int exponent;
    const double fraction = frexp(fabs(value), &exponent); /* 0.5 .. 1 */
    if (value == 0)
        return 0;
    const int field = exponent - 1 + bias;
    const int bits = field > 0 ? field << 3 | ((int)ldexp(fraction, 4) & 7)
                               : (int)ldexp(fabs(value), bias - 1 + 3);
    return (uint16_t)(bits | (value < 0) << 7);
}

uint16_t random_element(const struct precision *p, double limit, uint64_t *state)
{
    if (p->size == 2)
        return encode_element(p, limit / 2 * random_value(state));
    for (;;) {
        const uint16_t bits = (uint16_t)(random_bits(state) & 0xff);
        if (fabs(decode_element(p, bits)) <= limit)
            return bits;
    }
}

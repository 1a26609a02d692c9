/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/scaled_row.h"

#include <math.h>
#include <string.h>

bool scaled_row_has(double got, double absmax, double error, double largest, bool powers)
{
    const double f = 0x1p-24, least = fmax(absmax - error, 1e-4) / largest * (1 - 4 * f);
    const double most = fmax(absmax + error, 1e-4) / largest * (1 + 4 * f);
    if (!powers)
        return got >= least && got <= most;
    return got == exp2(ceil(log2(least))) || got == exp2(ceil(log2(most)));
}

double scaled_row_bound(const struct precision *fp8, double y, double error, double scale)
{
    const double before = error + 4 * 0x1p-24 * fabs(y);
    return fp8->unit * (fabs(y) + before) + fp8->tiny * scale + before;
}

float scaled_row_read(struct operand *o, int64_t at)
{
    uint32_t bits = 0;
    float value;
    for (int i = 0; i < 4; i++) {
        bits |= (uint32_t)(operand_result_int(o, AT(at + i)) & 0xff) << 8 * i;
        operand_allow(o, AT(at + i));
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

int64_t scaled_row_byte(int64_t inside, int e, int bytes, bool shuffle)
{
    enum { TILE = 16 };
    if (!shuffle)
        return inside * bytes + e;
    return inside / TILE * TILE * bytes + e / TILE * TILE * TILE + inside % TILE * TILE + e % TILE;
}

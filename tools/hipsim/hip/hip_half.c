/* SPDX-License-Identifier: Apache-2.0 */
/* Half-precision helpers that Debian's library exports, since host code may be linked with them. */
#include <stdint.h>
#include <string.h>

#define HIP_EXPORT __attribute__((visibility("default")))

__extension__ typedef _Float16 half;

float __gnu_h2f_ieee(uint16_t bits);
uint16_t __gnu_f2h_ieee(float value);

HIP_EXPORT float __gnu_h2f_ieee(uint16_t bits)
{
    half value;

    memcpy(&value, &bits, sizeof(value));
    return (float)value;
}

HIP_EXPORT uint16_t __gnu_f2h_ieee(float value)
{
    half rounded = (half)value;
    uint16_t bits;

    memcpy(&bits, &rounded, sizeof(bits));
    return bits;
}

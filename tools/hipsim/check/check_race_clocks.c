/* SPDX-License-Identifier: Apache-2.0 */
/* The order that atomics and flags create among the waves of a workgroup. */
#include "check_race_clocks.h"

#include <string.h>

/* Value of `now` at which the clock restarts, before it could wrap. */
#define RENEW (UINT32_C(1) << 31)

/* Sets each wave's stamp in `into` to the larger of the stamps in `into` and `from`. */
static void join(const struct race_clocks *c, uint32_t *into, const uint32_t *from)
{
    for (unsigned n = c->waves; n; n -= CLOCK_STEP, into += CLOCK_STEP, from += CLOCK_STEP)
        for (unsigned i = 0; i < CLOCK_STEP; i++)
            into[i] = from[i] > into[i] ? from[i] : into[i];
}

/* Returns the index of the entry for an LDS address. */
static uint32_t slot_of(uint64_t address)
{
    return (uint32_t)((address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % CLOCK_LOCATIONS;
}

void clocks_begin(struct race_clocks *c, unsigned waves)
{
    if (clocks_run(c)) {
        memset(c->seen, 0, sizeof(c->seen));
        c->base = c->now;
    }
    if (c->now > RENEW)
        memset(c, 0, sizeof(*c));
    c->waves = (waves + CLOCK_STEP - 1) / CLOCK_STEP * CLOCK_STEP;
}

void clocks_release(struct race_clocks *c, unsigned wave) { c->seen[wave][wave] = ++c->now; }

void clocks_leave(struct race_clocks *c, unsigned wave, uint64_t address)
{
    const uint32_t i = slot_of(address);
    if (c->tag[i] != c->base + 1) {
        c->tag[i] = c->base + 1;
        memset(c->left[i], 0, sizeof(c->left[i]));
    }
    join(c, c->left[i], c->seen[wave]);
}

void clocks_acquire(struct race_clocks *c, unsigned wave, uint64_t address)
{
    const uint32_t i = slot_of(address);
    if (c->tag[i] == c->base + 1)
        join(c, c->seen[wave], c->left[i]);
}

void clocks_follow(struct race_clocks *c, unsigned wave, unsigned other, uint32_t time)
{
    if (c->seen[wave][other] > time)
        return;
    clocks_release(c, other);
    join(c, c->seen[wave], c->seen[other]);
}

uint32_t clocks_ordered(const struct race_clocks *c, unsigned wave, uint32_t waves, uint32_t time)
{
    uint32_t ordered = 0;
    if (!clocks_run(c))
        return 0;
    for (uint32_t left = waves; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        if (c->seen[wave][i] > time)
            ordered |= UINT32_C(1) << i;
    }
    return ordered;
}

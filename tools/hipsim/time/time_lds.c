/* SPDX-License-Identifier: Apache-2.0 */
#include "time_lds.h"

#include <math.h>
#include <string.h>

#include "isa.h"

#define MAX_PHASES 8
#define MAX_BANKS 64

#define LANES(first, last) ((UINT64_MAX >> (63 - (last) + (first))) << (first))

static const uint64_t b128_gfx942[MAX_PHASES] = {
    LANES(0, 3) | LANES(20, 23),   LANES(32, 35) | LANES(52, 55), LANES(4, 7) | LANES(16, 19),
    LANES(36, 39) | LANES(48, 51), LANES(8, 11) | LANES(28, 31),  LANES(40, 43) | LANES(60, 63),
    LANES(12, 15) | LANES(24, 27), LANES(44, 47) | LANES(56, 59),
};

static const uint64_t b128_gfx950[4] = {
    LANES(0, 3) | LANES(12, 15) | LANES(20, 27),
    LANES(32, 35) | LANES(44, 47) | LANES(52, 59),
    LANES(4, 11) | LANES(16, 19) | LANES(28, 31),
    LANES(36, 43) | LANES(48, 51) | LANES(60, 63),
};

static const uint64_t b96_gfx950[MAX_PHASES] = {
    LANES(0, 3) | LANES(20, 23),   LANES(4, 7) | LANES(16, 19),   LANES(8, 11) | LANES(28, 31),
    LANES(12, 15) | LANES(24, 27), LANES(32, 35) | LANES(52, 55), LANES(36, 39) | LANES(48, 51),
    LANES(40, 43) | LANES(60, 63), LANES(44, 47) | LANES(56, 59),
};

/* Divides the first `lanes` lanes into `count` phases of neighbours. Returns `count`. */
static unsigned sequential(unsigned lanes, unsigned count, uint64_t phases[MAX_PHASES])
{
    unsigned width = lanes / count;
    for (unsigned i = 0; i < count; i++)
        phases[i] = LANES(i * width, i * width + width - 1);
    return count;
}

/* Copies `count` masks of lanes, one per phase. Returns the count. */
static unsigned table(const uint64_t *from, unsigned count, uint64_t phases[MAX_PHASES])
{
    memcpy(phases, from, count * sizeof(*from));
    return count;
}

unsigned time_lds_phases(enum gfx_target target, bool is_store, unsigned bytes,
                         uint64_t phases[MAX_PHASES])
{
    bool gfx950 = target == GFX950;
    const struct isa *isa = isa_of(target);
    if (isa->gfx12) { /* the lanes of a phase are not published for gfx1250 */
        unsigned count = 1;
        while (count * isa->lds_phase_bytes < isa->lanes * bytes)
            count *= 2;
        return sequential(isa->lanes, count, phases);
    }
    if (bytes <= 4)
        return sequential(WAVE_LANES, gfx950 && !is_store ? 1 : 2, phases);
    if (bytes <= 8)
        return sequential(WAVE_LANES, gfx950 && !is_store ? 2 : 4, phases);
    if (is_store)
        return sequential(WAVE_LANES, MAX_PHASES, phases);
    if (!gfx950) /* b96 was not measured on gfx950 */
        return table(b128_gfx942, MAX_PHASES, phases);
    return bytes <= 12 ? table(b96_gfx950, MAX_PHASES, phases) : table(b128_gfx950, 4, phases);
}

/* Returns the rounds that a phase needs: the most different dwords in a bank, of `banks` banks.
 * Each of `lanes` has `dwords` dwords. */
static unsigned rounds(uint64_t lanes, const uint64_t addr[WAVE_LANES], unsigned dwords,
                       unsigned banks)
{
    uint32_t seen[MAX_BANKS][WAVE_LANES];
    uint8_t count[MAX_BANKS] = {0};
    unsigned most = 0;
    for (; lanes; lanes &= lanes - 1) {
        uint64_t at = addr[__builtin_ctzll(lanes)] / 4;
        for (unsigned d = 0; d < dwords; d++) {
            uint32_t dword = (uint32_t)(at + d);
            unsigned bank = dword % banks, i = 0;
            while (i < count[bank] && seen[bank][i] != dword)
                i++;
            if (i < count[bank])
                continue;
            seen[bank][count[bank]++] = dword;
            if (count[bank] > most)
                most = count[bank];
        }
    }
    return most;
}

struct time_lds_cost time_lds_cost(const struct time_params *p, enum gfx_target target,
                                   bool is_store, unsigned bytes, uint64_t lanes,
                                   const uint64_t addr[WAVE_LANES])
{
    uint64_t phases[MAX_PHASES];
    unsigned n = time_lds_phases(target, is_store, bytes, phases);
    /* Writes, and reads of 96 bits on gfx950, use 32 banks (HipKittens phase solver). */
    const bool half = !isa_of(target)->gfx12 && (is_store || (bytes > 8 && bytes <= 12));
    unsigned banks = half ? 32 : (unsigned)p->lds_banks;
    unsigned dwords = bytes < 4 ? 1 : bytes / 4;
    double clocks = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned r = rounds(phases[i] & lanes, addr, dwords, banks);
        const double most = p->lds_conflict_full;
        clocks += r < 1 ? 1 : r <= most ? r : most + (r - most) * p->lds_conflict_scale;
    }
    return (struct time_lds_cost){
        .clocks = (unsigned)lround(clocks),
        .floor = n,
        .bus_bytes = (unsigned)__builtin_popcountll(lanes) * bytes,
    };
}

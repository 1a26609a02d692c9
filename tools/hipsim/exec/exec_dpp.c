/* SPDX-License-Identifier: Apache-2.0 */
/* DPP (CDNA3 ISA, "Data Parallel Processing"): an instruction's source 0 comes from other lanes. */
#include <pthread.h>

#ifdef __AVX2__
#    include <immintrin.h>
#endif

#include "exec_cross.h"
#include "lanes.h"

/* Values of the field DPP_CTRL. Rows that shift, rotate, broadcast or exclusive-or have 16 values;
 * the low 4 bits are the distance or lane. */
enum dpp_ctrl {
    DPP_ROW_SHL = 0x100, /* 0x101 .. 0x10f */
    DPP_ROW_SHR = 0x110,
    DPP_ROW_ROR = 0x120,
    DPP_WAVE_SHL = 0x130,
    DPP_WAVE_ROL = 0x134,
    DPP_WAVE_SHR = 0x138,
    DPP_WAVE_ROR = 0x13c,
    DPP_ROW_MIRROR = 0x140,
    DPP_ROW_HALF_MIRROR = 0x141,
    DPP_ROW_BCAST15 = 0x142,
    DPP_ROW_BCAST31 = 0x143,
    DPP_ROW_NEWBCAST = 0x150, /* 0x150 .. 0x15f */
    DPP_ROW_XMASK = 0x160,    /* gfx1250 */
};

/* Returns the lane from which `lane` reads with DPP_CTRL `ctrl`; -1: none. */
static int dpp_source(unsigned ctrl, int lane)
{
    int row = lane & ~15, in_row = lane & 15, n = (int)(ctrl & 15);
    if (ctrl <= 0xff)
        return (lane & ~3) | (int)(ctrl >> 2 * (lane & 3) & 3);
    switch (ctrl & 0x1f0) {
    case DPP_ROW_SHL: return in_row + n < 16 ? lane + n : -1;
    case DPP_ROW_SHR: return in_row >= n ? lane - n : -1;
    case DPP_ROW_ROR: return row | ((in_row - n) & 15);
    case DPP_ROW_NEWBCAST: return row | n;
    case DPP_ROW_XMASK: return lane ^ n;
    default: break;
    }
    switch (ctrl) {
    case DPP_WAVE_SHL: return lane < 63 ? lane + 1 : -1;
    case DPP_WAVE_ROL: return (lane + 1) & 63;
    case DPP_WAVE_SHR: return lane > 0 ? lane - 1 : -1;
    case DPP_WAVE_ROR: return (lane - 1) & 63;
    case DPP_ROW_MIRROR: return row | (15 - in_row);
    case DPP_ROW_HALF_MIRROR: return (lane & ~7) | (7 - (lane & 7));
    case DPP_ROW_BCAST15: return lane >= 16 ? row - 1 : -1; /* lane 15 of the row before */
    case DPP_ROW_BCAST31: return lane >= 32 ? 31 : -1;      /* rows 2 and 3 read lane 31 */
    default: return -1;
    }
}

#define DPP_CTRLS (DPP_ROW_XMASK + 16)

/* The lanes that a DPP instruction reads, by DPP_CTRL. source[i] is the lane that lane i reads, i
 * if there is none. `there` is the mask of lanes with a source. */
static struct dpp_map {
    uint8_t source[WAVE_LANES];
    uint64_t there;
} dpp_maps[DPP_CTRLS];

/* Fills dpp_maps for all values of DPP_CTRL. */
static void make_dpp_maps(void)
{
    for (unsigned ctrl = 0; ctrl < DPP_CTRLS; ctrl++) {
        for (int lane = 0; lane < WAVE_LANES; lane++) {
            int source = dpp_source(ctrl, lane);
            dpp_maps[ctrl].source[lane] = (uint8_t)(source < 0 ? lane : source);
            dpp_maps[ctrl].there |= (uint64_t)(source >= 0) << lane;
        }
    }
}

/* Returns the lanes that an instruction with DPP_CTRL `ctrl` reads. The tables are made at the
 * first call. */
static const struct dpp_map *dpp_map(unsigned ctrl)
{
    static const struct dpp_map none;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_dpp_maps);
    return ctrl < DPP_CTRLS ? &dpp_maps[ctrl] : &none;
}

/* Sets *map to the permutation of DPP8. `lanes` has 3 bits for each lane of a group of 8. */
static const struct dpp_map *dpp8_map(uint32_t lanes, struct dpp_map *map)
{
    for (unsigned lane = 0; lane < WAVE_LANES; lane++)
        map->source[lane] = (uint8_t)((lane & ~7u) | (lanes >> 3 * (lane & 7) & 7));
    map->there = UINT64_MAX;
    return map;
}

/* Permutes a lane mask: bit i of the result is bit source[i] of `mask`. */
static uint64_t permute_mask(const struct dpp_map *map, uint64_t mask)
{
    uint64_t out = 0;
    if (mask == UINT64_MAX)
        return mask;
    for (unsigned lane = 0; lane < WAVE_LANES; lane++)
        out |= (mask >> map->source[lane] & 1) << lane;
    return out;
}

/* Returns the mask of lanes that row_mask and bank_mask let the instruction write. */
static uint64_t dpp_enabled(const struct inst *in)
{
    uint64_t row = 0, enabled = 0;
    if (in->bank_mask == 0xf && in->row_mask == 0xf)
        return UINT64_MAX;
    for (unsigned i = 0; i < 4; i++)
        row |= in->bank_mask >> i & 1 ? UINT64_C(0xf) << 4 * i : 0;
    for (unsigned i = 0; i < 4; i++)
        enabled |= in->row_mask >> i & 1 ? row << 16 * i : 0;
    return enabled;
}

/* Permutes the lanes of a row of values: to[i] = from[source[i]]. */
static void permute_row(const struct dpp_map *map, const uint32_t *from, uint32_t *to)
{
#ifdef __AVX2__
    /* Eight neighbours read from at most two blocks of eight lanes: those with the sources of the
     * first and of the last neighbour. */
    for (unsigned i = 0; i < WAVE_LANES; i += 8) {
        const unsigned a = map->source[i] & ~7u, b = map->source[i + 7] & ~7u;
        const __m256i source =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(map->source + i)));
        const __m256i in_a = _mm256_cmpeq_epi32(_mm256_and_si256(source, _mm256_set1_epi32(~7)),
                                                _mm256_set1_epi32((int)a));
        const __m256i x =
            _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)(from + a)), source);
        const __m256i y =
            _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)(from + b)), source);
        _mm256_storeu_si256((void *)(to + i), _mm256_blendv_epi8(y, x, in_a));
    }
#else
    for (unsigned i = 0; i < WAVE_LANES; i++)
        to[i] = from[map->source[i]];
#endif
}

const uint32_t *LOCAL(dpp_permute)(const struct wave *w, const struct inst *in,
                                   const uint32_t *from, uint32_t *to, uint64_t *lanes,
                                   uint64_t *valid)
{
    struct dpp_map eight;
    const struct dpp_map *map = dpp_map(in->dpp_ctrl);
    if (in->dpp_ctrl == DPP_CTRL_8)
        map = dpp8_map(in->dpp_lanes, &eight);
    const uint64_t active = in->fetch_inactive ? UINT64_MAX : wave_exec(w);
    const uint64_t there = map->there & permute_mask(map, active);
    for (unsigned r = 0; r < in->src[0].dwords; r++) {
        uint32_t *o = to + r * WAVE_LANES;
        permute_row(map, from + r * WAVE_LANES, o);
        for (uint64_t none = ~there; none && in->bound_ctrl; none &= none - 1)
            o[__builtin_ctzll(none)] = 0;
    }
    *lanes &= dpp_enabled(in) & (in->bound_ctrl ? UINT64_MAX : there);
    *valid = ~there | permute_mask(map, *valid);
    return to;
}

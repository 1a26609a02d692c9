/* SPDX-License-Identifier: Apache-2.0 */
#include "time_dispatch.h"

#include <math.h>
#include <stdlib.h>

#include "isa.h"

#define MANY (UINT64_C(1) << 22)

/* Returns n rounded up to a multiple of `granule`. */
static uint32_t round_up(uint32_t n, uint32_t granule)
{
    return (n + granule - 1) / granule * granule;
}

struct time_occupancy time_occupancy(const struct time_params *p, const struct isa *isa,
                                     const struct launch *l)
{
    uint32_t items = l->block[0] * l->block[1] * l->block[2];
    uint32_t waves = (items + isa->lanes - 1u) / isa->lanes;
    uint32_t registers = l->nagpr ? round_up(l->nvgpr, 4) + l->nagpr : l->nvgpr;
    registers = round_up(registers ? registers : 1, (uint32_t)p->vgpr_granule);
    uint32_t per_simd = isa->vgprs / registers;
    if (per_simd > (uint32_t)p->wave_slots)
        per_simd = (uint32_t)p->wave_slots;
    uint32_t per_cu = per_simd * SIMDS / waves;
    if (l->lds_bytes) {
        uint32_t by_lds = (uint32_t)p->lds_bytes / round_up(l->lds_bytes, (uint32_t)p->lds_granule);
        per_cu = per_cu < by_lds ? per_cu : by_lds;
    }
    per_cu = per_cu ? per_cu : 1;
    return (struct time_occupancy){
        .waves_per_workgroup = waves,
        .workgroups_per_cu = per_cu,
        .waves_per_simd = (per_cu * waves + SIMDS - 1) / SIMDS,
        .part = fmin(1, (double)waves * registers / (SIMDS * isa->vgprs)),
    };
}

/* Restores the order of a heap of n times after heap[0] has grown; the earliest is then heap[0]. */
static void sift(double *heap, size_t n)
{
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (heap[child] < heap[least])
                least = child;
        if (least == i)
            return;
        double t = heap[i];
        heap[i] = heap[least];
        heap[least] = t;
        i = least;
    }
}

/* Dispatches every xcds-th workgroup from `first` on. Returns the clock at which the last one
 * ends. */
static double run_xcd(const struct time_params *p, uint64_t first, uint64_t workgroups,
                      double *slots, size_t nslots, time_duration_fn *duration, const void *ctx,
                      double *sum, struct time_busy *busy)
{
    double end = 0, next = 0;
    for (size_t i = 0; i < nslots; i++)
        slots[i] = 0;
    for (uint64_t w = first; w < workgroups; w += (uint64_t)p->xcds) {
        double start = slots[0] > next ? slots[0] : next;
        double d = duration(ctx, w);
        next = start + p->dispatch_cycles;
        time_busy_add(busy, (unsigned)first, start, start + d);
        slots[0] = start + d;
        end = slots[0] > end ? slots[0] : end;
        *sum += d;
        sift(slots, nslots);
    }
    return end;
}

struct time_dispatch time_dispatch(const struct time_params *p, uint64_t workgroups,
                                   uint32_t workgroups_per_cu, time_duration_fn *duration,
                                   const void *ctx, struct time_busy *busy)
{
    size_t nslots = (size_t)(p->cus / p->xcds) * workgroups_per_cu;
    double all = (double)nslots * p->xcds, sum = 0, end = 0;
    if (workgroups > MANY) {
        double longest = 0;
        for (uint64_t i = 0; i < 1024; i++) {
            double d = duration(ctx, workgroups / 1024 * i);
            longest = d > longest ? d : longest;
            sum += d * ((double)workgroups / 1024);
        }
        end = sum / all + longest;
        return (struct time_dispatch){.clocks = end, .busy = sum / all / end};
    }
    double *slots = calloc(nslots, sizeof(*slots));
    if (!slots)
        return (struct time_dispatch){.clocks = INFINITY};
    for (uint64_t x = 0; x < (uint64_t)p->xcds; x++) {
        double t = run_xcd(p, x, workgroups, slots, nslots, duration, ctx, &sum, busy);
        end = t > end ? t : end;
    }
    free(slots);
    return (struct time_dispatch){.clocks = end, .busy = end > 0 ? sum / all / end : 0};
}

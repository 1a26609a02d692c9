/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The occupancy of a compute unit: 4 SIMDs, each with wave slots and vector registers. Registers
 * are allocated in units (on gfx9 8 slots and 512 registers in each lane, units of eight; see
 * struct isa), and LDS in granules. The number of workgroups of more than one wave on a compute
 * unit is limited. Sources: occupancy rules of the ISA manuals and of LLVM (GCNSubtarget) for
 * gfx90a and later.
 */
#include "hip.h"

#define SIMDS 4u

int hip_occupancy(const struct kernel *kernel, uint32_t threads, uint64_t dynamic_lds,
                  const struct device_facts *facts)
{
    uint64_t lds = kernel->descriptor.group_segment_bytes + dynamic_lds;
    const struct isa *isa = facts->isa;
    const uint32_t unit = isa->vgpr_granule;
    uint32_t registers = (kernel->vgprs + kernel->agprs + unit - 1) / unit * unit;
    uint32_t most = kernel->metadata.max_workgroup ? kernel->metadata.max_workgroup : 1024;

    if (threads == 0 || threads > 1024 || threads > most || lds > facts->lds_bytes)
        return 0;
    uint32_t waves = (threads + isa->lanes - 1) / isa->lanes;
    uint32_t slots = registers ? isa->vgprs / registers : isa->wave_slots;
    if (slots > isa->wave_slots)
        slots = isa->wave_slots;
    /* The waves of a workgroup go to the SIMDs in rotation, and a workgroup starts where there is
     * room. The wave slots of all SIMDs together therefore limit whole workgroups. */
    uint32_t groups = slots * SIMDS / waves;
    if ((waves + SIMDS - 1) / SIMDS > slots)
        groups = 0;
    if (waves > 1 && groups > isa->groups)
        groups = isa->groups;
    if (lds > 0) {
        uint64_t rounded = (lds + facts->lds_granule - 1) / facts->lds_granule * facts->lds_granule;
        uint64_t by_lds = isa->lds_bytes / rounded;
        if (by_lds < groups)
            groups = (uint32_t)by_lds;
    }
    return (int)groups;
}

/* Sets *blocks to the number of blocks of `threads` work-items that a compute unit holds at
 * once. */
static hipError_t active_blocks(int *blocks, const void *handle, int threads, size_t lds)
{
    struct hip_device *device = hip_current_device();
    struct ihipModuleSymbol_t *function;

    if (!blocks || threads <= 0)
        return hipErrorInvalidValue;
    hipError_t error = hip_any_function(handle, &function);
    if (error != hipSuccess)
        return error;
    *blocks = hip_occupancy(function->kernel, (uint32_t)threads, lds, device->facts);
    hip_object_put(function);
    return hipSuccess;
}

/* Sets *block to the largest workgroup, of at most `limit` work-items, with which a compute unit
 * has the most work-items. Sets *grid to the workgroups that then fill the device. */
static hipError_t potential(int *grid, int *block, const void *handle, size_t lds, int limit)
{
    struct hip_device *device = hip_current_device();
    struct ihipModuleSymbol_t *function;
    uint32_t best_threads = 0, best_resident = 0;

    if (!grid || !block || limit < 0)
        return hipErrorInvalidValue;
    hipError_t error = hip_any_function(handle, &function);
    if (error != hipSuccess)
        return error;
    const uint32_t lanes = device->facts->isa->lanes;
    for (uint32_t threads = lanes; threads <= 1024; threads += lanes) {
        if (limit > 0 && threads > (uint32_t)limit)
            break;
        uint32_t resident =
            threads * (uint32_t)hip_occupancy(function->kernel, threads, lds, device->facts);
        if (resident >= best_resident && resident > 0) {
            best_resident = resident;
            best_threads = threads;
        }
    }
    hip_object_put(function);
    if (best_resident == 0)
        return hipErrorInvalidValue;
    *block = (int)best_threads;
    *grid = (int)(best_resident / best_threads) * device->facts->compute_units;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                         hipFunction_t function,
                                                                         int threads, size_t lds)
{
    return HIP_CALL(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
                    active_blocks(blocks, function, threads, lds));
}

HIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, hipFunction_t function, int threads, size_t lds, unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                    active_blocks(blocks, function, threads, lds));
}

HIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                   const void *function,
                                                                   int threads, size_t lds)
{
    return HIP_CALL(hipOccupancyMaxActiveBlocksPerMultiprocessor,
                    active_blocks(blocks, function, threads, lds));
}

HIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                            const void *function,
                                                                            int threads, size_t lds,
                                                                            unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                    active_blocks(blocks, function, threads, lds));
}

HIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block,
                                                              hipFunction_t function, size_t lds,
                                                              int limit)
{
    return HIP_CALL(hipModuleOccupancyMaxPotentialBlockSize,
                    potential(grid, block, function, lds, limit));
}

HIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                                       hipFunction_t function,
                                                                       size_t lds, int limit,
                                                                       unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipModuleOccupancyMaxPotentialBlockSizeWithFlags,
                    potential(grid, block, function, lds, limit));
}

HIP_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *function,
                                                        size_t lds, int limit)
{
    return HIP_CALL(hipOccupancyMaxPotentialBlockSize,
                    potential(grid, block, function, lds, limit));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads code objects into simulated device memory.
 *
 * A code object is an ELF64 shared object for amdgcn-amd-amdhsa, code object version 4, 5 or 6
 * (LLVM, AMDGPUUsage, "ELF Code Object"). It is untrusted: a malformed one yields a status and a
 * sentence. A loaded object never changes, so every host thread may read it.
 */
#ifndef HIPSIM_CODE_OBJECT_H
#define HIPSIM_CODE_OBJECT_H

#include "decode.h"
#include "metadata.h"

enum code_object_status {
    CODE_OBJECT_OK,
    CODE_OBJECT_INVALID,      /* not a code object, truncated or corrupt */
    CODE_OBJECT_OTHER_TARGET, /* valid, but for a GPU that is not simulated here */
    CODE_OBJECT_OUT_OF_MEMORY,
};

/* Fields of the kernel descriptor (AMDGPUUsage, "Kernel Descriptor"). */
struct kernel_descriptor {
    uint32_t group_segment_bytes;
    uint32_t private_segment_bytes;
    uint32_t kernarg_bytes;
    int64_t entry_offset; /* entry minus the descriptor's address, in bytes */
    uint32_t rsrc1, rsrc2, rsrc3;
    uint16_t properties;     /* enum kernel_code_properties */
    uint8_t preload_dwords;  /* dwords of arguments that the hardware loads to user SGPRs */
    uint16_t preload_offset; /* offset of the first of these in the argument segment, in dwords */
};

enum kernel_code_properties {
    KERNEL_PRIVATE_SEGMENT_BUFFER = 1 << 0,
    KERNEL_DISPATCH_PTR = 1 << 1,
    KERNEL_QUEUE_PTR = 1 << 2,
    KERNEL_KERNARG_SEGMENT_PTR = 1 << 3,
    KERNEL_DISPATCH_ID = 1 << 4,
    KERNEL_FLAT_SCRATCH_INIT = 1 << 5,
    KERNEL_PRIVATE_SEGMENT_SIZE = 1 << 6,
    KERNEL_WAVEFRONT_SIZE32 = 1 << 10,
    KERNEL_USES_DYNAMIC_STACK = 1 << 11,
};

struct kernel {
    char *name; /* the symbol's name without ".kd" */
    uint64_t descriptor_address;
    uint64_t entry; /* address of the first instruction */
    struct kernel_descriptor descriptor;
    /* metadata; only kernarg_bytes is set if the note lacks the kernel */
    struct kernel_metadata metadata;
    const struct code_object *object;

    /* The members that follow are derived from the descriptor. */
    uint32_t vgprs; /* allocated architectural VGPRs */
    uint32_t agprs;
    uint32_t sgprs;
    uint32_t named_barriers; /* named barriers of a workgroup; gfx1250 only */
    uint32_t mode;           /* initial value of the MODE register */
    uint32_t user_sgprs;
};

struct global_variable {
    char *name;
    uint64_t address;
    uint64_t size;
};

struct code_object {
    enum gfx_target target;
    unsigned version; /* code object version: 4, 5 or 6 */
    unsigned device;
    uint8_t *base; /* beginning of the segments in device memory */
    uint64_t size;
    struct code *code;      /* the executable segment, decoded on use */
    struct kernel *kernels; /* sorted by name */
    size_t nkernels;
    struct global_variable *variables; /* sorted by name */
    size_t nvariables;
    bool has_metadata;        /* true: the object has a metadata note, even if it names no kernel */
    struct metadata metadata; /* printf formats and target; the kernels are in `kernels` */
};

/** Loads an ELF image of `size` bytes for `target` into memory of `device` (its number). The image
 * may be freed afterwards. On failure *object is NULL, and `why`, of `why_size` bytes, gets a
 * sentence. */
enum code_object_status code_object_load(const void *image, size_t size, enum gfx_target target,
                                         unsigned device, struct code_object **object, char *why,
                                         size_t why_size);
void code_object_destroy(struct code_object *object);

/** Returns the kernel named `name`; NULL if there is none. */
const struct kernel *code_object_kernel(const struct code_object *object, const char *name);
const struct global_variable *code_object_variable(const struct code_object *object,
                                                   const char *name);

/** Returns the processor name of a target, such as "gfx942". */
const char *gfx_name(enum gfx_target target);

#endif

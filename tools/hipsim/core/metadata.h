/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel metadata of a code object: the NT_AMDGPU_METADATA note, a MessagePack document described
 * in LLVM's AMDGPUUsage, "Code Object Metadata" V3 to V6.
 */
#ifndef HIPSIM_METADATA_H
#define HIPSIM_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum argument_kind {
    ARG_VALUE,       /* bytes from the caller: by_value, global_buffer, image, sampler and others */
    ARG_DYNAMIC_LDS, /* dynamic_shared_pointer: the byte offset of dynamic LDS */
#define HIDDEN_ARGUMENT(id, name) ARG_##id,
#include "hidden_args.def"
    ARG_KINDS,
};

struct kernel_argument {
    uint32_t offset;
    uint32_t size;
    enum argument_kind kind;
};

struct kernel_metadata {
    char *symbol; /* symbol of the kernel descriptor: name.kd */
    char *name;
    uint32_t kernarg_bytes;
    uint32_t max_workgroup;         /* most work-items of a workgroup; 0: not stated */
    uint32_t required_workgroup[3]; /* work-items of a workgroup by dimension; 0: any */
    bool uniform_workgroup;         /* true: the grid must be a multiple of the workgroup */
    struct kernel_argument *args;   /* arguments in the compiler's order, with ascending offsets */
    uint32_t nargs;
};

struct metadata {
    struct kernel_metadata *kernels;
    size_t nkernels;
    char **printf_formats; /* "id:argument sizes:format" of each buffered printf */
    size_t nprintf_formats;
    char *target; /* such as "amdgcn-amd-amdhsa--gfx942"; NULL: not stated */
};

/** Reads the note's contents, `size` bytes at `data`, to *metadata. If they are malformed, false
 * with a sentence in `why`, of `why_size` bytes; `metadata` is empty then. Free with
 * metadata_free(). */
bool metadata_read(const void *data, size_t size, struct metadata *metadata, char *why,
                   size_t why_size);
void metadata_free(struct metadata *metadata);
/** Frees what a kernel's metadata point to, and zeroes the struct. */
void kernel_metadata_clear(struct kernel_metadata *kernel);

/** Returns the bytes of the arguments that the caller passes, without the hidden ones. */
uint32_t metadata_explicit_bytes(const struct kernel_metadata *kernel);

/* True if the runtime sets the argument, not the program. */
static inline bool argument_is_hidden(enum argument_kind kind) { return kind > ARG_DYNAMIC_LDS; }

#endif

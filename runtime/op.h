/* SPDX-License-Identifier: Apache-2.0 */
/* An op: a descriptor, the kernels chosen for it, and their launch. */
#ifndef ATTN_OP_H
#define ATTN_OP_H

#include "runtime/device.h"
#include "runtime/family.h"

/* A kernel argument: an enum attn_arg, and its offset in the kernarg segment in bytes. */
struct attn_slot {
    uint16_t value;
    uint16_t offset;
};

/* Factor of a grid dimension: ceil(v / number) for the call's value v of enum attn_arg `value`;
 * `number` if that is ATTN_ARG_COUNT. Powers of two divide by a shift, so most launches divide
 * nothing. */
struct attn_factor {
    uint32_t value;
    uint32_t number;
    bool narrow;   /* the value is an int32, else an int64 */
    uint8_t shift; /* log2 of number; ATTN_NO_SHIFT: not a power of two */
};

enum { ATTN_NO_SHIFT = 255 };

/* Most workgroups in y and z: hipModuleLaunchKernel of ROCm's clr refuses more, and more than
 * INT32_MAX in x. */
enum { ATTN_GRID_YZ_MAX = 65536 };

struct attn_condition {
    uint32_t value;
    bool narrow;
    int64_t min, max;
};

/* A loaded kernel, with its record translated for launches. */
struct attn_kernel {
    void *function;
    struct attn_module *module;
    uint32_t number; /* number in its pack */
    uint32_t kernarg_size;
    uint32_t workgroup[3];
    uint32_t grid_max[3];     /* most workgroups: HIP limits work items to below 2^32 */
    uint32_t workgroups_most; /* most workgroups of a launch; 0: no limit */
    uint32_t lds_dynamic;
    uint16_t wide_count, narrow_count; /* 8-byte and 4-byte slots */
    uint16_t hole_count;               /* words of the kernarg segment without a value */
    uint16_t factor_count[3];
    uint16_t condition_count;
    struct attn_slot wide[ATTN_PACK_KERNARGS_MAX];
    struct attn_slot narrow[ATTN_PACK_KERNARGS_MAX];
    uint16_t holes[ATTN_PACK_KERNARG_BYTES_MAX / 4]; /* offsets of the holes in bytes */
    struct attn_factor factors[3][ATTN_PACK_FACTORS_MAX];
    struct attn_condition conditions[ATTN_PACK_WHENS_MAX];
};

struct attn_op {
    struct attn_device *device;
    const struct attn_family *family;
    union attn_desc desc;
    uint32_t pack; /* number of the kernels' pack */
    char why[200];
    uint32_t kernel_count;
    struct attn_kernel kernels[];
};

/* Finds the kernels for the descriptor `desc` and creates `*op` with them. */
int attn_lookup(struct attn_device *device, const struct attn_family *family, const void *desc,
                struct attn_op **op);
/* Checks the arguments of a call and launches the kernel that they choose. Launch path. */
int attn_launch(const struct attn_op *op, const struct attn_family *family, const void *args);

#endif

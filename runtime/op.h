/* SPDX-License-Identifier: Apache-2.0 */
/* An op: a descriptor, the kernels that lookup has found for it, and their launch. */
#ifndef ATTN_OP_H
#define ATTN_OP_H

#include "runtime/device.h"
#include "runtime/family.h"

/* A kernel argument: the enum attn_arg of its value, and its byte offset in the kernarg segment. */
struct attn_slot {
    uint16_t value;
    uint16_t offset;
};

/* A factor of a grid dimension: the argument `value` (enum attn_arg) of the call, divided by
 * `number` and rounded up. It is `number` itself if `value` is ATTN_ARG_COUNT. Launches divide by a
 * power of two with a shift. */
struct attn_factor {
    uint32_t value;
    uint32_t number;
    bool narrow;   /* true: the argument is an int32; false: an int64 */
    uint8_t shift; /* log2 of number; ATTN_NO_SHIFT: not a power of two */
};

enum { ATTN_NO_SHIFT = 255 };

/* Most workgroups in y and in z. ROCm's hipModuleLaunchKernel() refuses more; in x it refuses more
 * than INT32_MAX. */
enum { ATTN_GRID_YZ_MAX = 65536 };

/* A condition on calls: the argument `value` (enum attn_arg) is `min` to `max`, both included. */
struct attn_condition {
    uint32_t value;
    bool narrow; /* true: the argument is an int32; false: an int64 */
    int64_t min, max;
};

/* A loaded kernel. Names in its record have become numbers of enum attn_arg, so that launches look
 * nothing up. */
struct attn_kernel {
    void *function; /* HIP's handle of the kernel, a hipFunction_t */
    struct attn_module *module;
    uint32_t number;          /* index of the kernel in its pack */
    uint32_t kernarg_size;    /* bytes of the kernarg segment */
    uint32_t workgroup[3];    /* work-items in x, y, z */
    uint32_t grid_max[3];     /* most workgroups in x, y, z: HIP limits work-items to below 2^32 */
    uint32_t workgroups_most; /* most workgroups of a launch; 0: no limit */
    uint32_t lds_dynamic;     /* bytes of LDS that a launch adds to a workgroup */
    uint16_t wide_count, narrow_count; /* numbers of 8-byte and of 4-byte arguments */
    /* number of 4-byte words of the segment without an argument */
    uint16_t hole_count;
    uint16_t factor_count[3];
    uint16_t condition_count;
    struct attn_slot wide[ATTN_PACK_KERNARGS_MAX];
    struct attn_slot narrow[ATTN_PACK_KERNARGS_MAX];
    uint16_t holes[ATTN_PACK_KERNARG_BYTES_MAX / 4]; /* byte offsets of words without an argument */
    struct attn_factor factors[3][ATTN_PACK_FACTORS_MAX];
    struct attn_condition conditions[ATTN_PACK_WHENS_MAX];
};

struct attn_op {
    struct attn_device *device;
    const struct attn_family *family;
    union attn_desc desc;
    uint32_t pack; /* index of the kernels' pack in attn_device.packs */
    char why[200]; /* how exactly the kernels match the key: text of attn_explain() */
    uint32_t kernel_count;
    struct attn_kernel kernels[];
};

/* Finds and loads the kernels for the descriptor `desc`, and creates *op with them. Returns ATTN_OK
 * or an error. */
int attn_lookup(struct attn_device *device, const struct attn_family *family, const void *desc,
                struct attn_op **op);
/* Checks the argument struct of a call and launches the kernel that its values choose. `family` is
 * the caller's, to find an op of another family. It allocates and locks nothing. */
int attn_launch(const struct attn_op *op, const struct attn_family *family, const void *args);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of attnc verify: values on the host, bits on the device in whatever layout a shape asks
 * for. Memory that belongs to no element holds NaNs, in inputs so that reading it shows, in outputs
 * so that writing it does.
 */
#ifndef TOOLS_VERIFY_TENSOR_H
#define TOOLS_VERIFY_TENSOR_H

#include "tools/verify/verify.h"
#include "tools/verify/numbers.h"

enum { DEVICE_BLOCKS_MAX = 40 };

/** What one shape has on the device; `error` is the first hipError_t, after which nothing is
 * done. */
struct device_memory {
    struct gpu *gpu;
    void *blocks[DEVICE_BLOCKS_MAX];
    int count;
    int error;
};

/** Strides are in elements and may be changed until the upload. */
struct tensor {
    const struct precision *precision; /* NULL: float32 */
    int tokens, heads, dim;
    int first; /* tokens before this one have no values */
    int64_t token_stride, head_stride;
    bool sparse;          /* too large for an image: elements go up or down row by row */
    size_t guard;         /* elements before and behind, for outputs */
    struct tensor *owner; /* whose memory it lies in, or NULL */
    int64_t offset;       /* there */
    double *values;       /* of inputs: [token - first, head, dim] */
    uint8_t *image;       /* what is or was on the device, guards included */
    char *device;         /* of element 0, behind the guard */
};

/** Zeroed memory, free() it; a program without memory ends. */
void *verify_allocate(size_t count, size_t size);

/** Contiguous; values are not there yet. */
struct tensor tensor_dense(const struct precision *precision, int tokens, int heads, int dim);

/** float32 [head, token]. */
struct tensor tensor_lse(int tokens, int heads);

/** Puts `t` into the memory of `owner`, whose token_stride has room for it. */
void tensor_place_inside(struct tensor *t, struct tensor *owner, int64_t offset);

/** Gives an input random values. */
void tensor_fill(struct tensor *t, uint64_t *random);
void tensor_set(struct tensor *t, int token, int head, int d, double value);

/** Allocates and fills; an owner before what lies inside it. Gives the address of element 0. */
void *tensor_upload(struct tensor *t, struct device_memory *m);

/** Reads an output back. */
void tensor_download(struct tensor *t, struct device_memory *m);

/** An element of a downloaded output. */
double tensor_get(const struct tensor *t, int64_t token, int head, int d);

/** Is all as it was but the tokens whose byte in `written` is nonzero? Else *at is where it is
 * not. */
bool tensor_untouched_but(const struct tensor *t, const uint8_t *written, size_t *at);

void tensor_free(struct tensor *t);

/** Memory with undefined contents; NULL after an error. */
void *device_allocate(struct device_memory *m, size_t size);
void device_write(struct device_memory *m, void *to, const void *from, size_t size);

/** Both at once. */
void *device_copy(struct device_memory *m, const void *bytes, size_t size);
void device_read(struct device_memory *m, void *to, const void *from, size_t size);
void device_free(struct device_memory *m);

#endif

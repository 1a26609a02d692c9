/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the tensors of a call as data: what DLPack is checked against. */
#ifndef ATTN_TENSORS_H
#define ATTN_TENSORS_H

#include "runtime/cache_args.h"

/* Element types besides those of enum attn_dtype. */
enum { ATTN_F32 = ATTN_INT8 + 1, ATTN_I32, ATTN_I64, ATTN_U8 };

enum { ATTN_DIMENSIONS_MAX = 5, ATTN_TENSORS_MAX = 40 };

/* *count + more, where *count is a count of the call, at least `least`; without one `more`, and -1
 * is any. */
struct attn_dimension {
    int32_t *count;
    int64_t more;
    int64_t least; /* 1 where a count of 0 stands for another */
};

struct attn_tensor {
    const char *name;
    void *pointer; /* of the pointer in the arguments */
    int element;   /* enum attn_dtype, or of those above */
    bool needed;   /* by this descriptor */
    bool optional; /* may be NULL all the same */
    bool written;  /* by the kernel */
    bool paged;    /* the first dimension is the pages of a cache */
    int vector;    /* elements that are aligned together */
    int ndim;
    struct attn_dimension dims[ATTN_DIMENSIONS_MAX]; /* outermost first */
    int free;                                        /* leading dimensions with free strides */
    int64_t *strides[ATTN_DIMENSIONS_MAX];           /* theirs, in the arguments; NULL: unused */
};

/* Describe what struct attn_cache and struct attn_pages hold; they return how many tensors. */
unsigned attn_cache_tensors(const struct attn_cache_desc *desc,
                            const struct attn_cache_heads *heads, struct attn_cache *cache,
                            bool needed, bool optional, struct attn_tensor *t);
unsigned attn_latent_tensors(const struct attn_cache_desc *desc,
                             const struct attn_cache_heads *heads, struct attn_cache *cache,
                             bool needed, bool optional, struct attn_tensor *t);
unsigned attn_pages_tensors(enum attn_page_table table, struct attn_pages *pages, int32_t *batch,
                            bool needed, bool lens_optional, struct attn_tensor *t);

/* The tensors of a call of an op, as struct attn_family describes them. */
#define OP(name) \
    unsigned attn_tensors_##name(const union attn_desc *desc, void *args, struct attn_tensor *t);
#include "ops/ops.def"

/* Fills `args` from a struct of DLPack tensors, `size` bytes, in the order of family->tensors. */
int attn_set_tensors(const struct attn_op *op, const struct attn_family *family,
                     const void *tensors, size_t size, void *args);

#endif

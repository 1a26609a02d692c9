/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor descriptions of a call, against which DLPack tensors are checked. */
#ifndef ATTN_TENSORS_H
#define ATTN_TENSORS_H

#include "runtime/cache_args.h"

/* Element types that enum attn_dtype lacks. */
enum { ATTN_F32 = ATTN_INT8 + 1, ATTN_I32, ATTN_I64, ATTN_U8 };

enum { ATTN_DIMENSIONS_MAX = 5, ATTN_TENSORS_MAX = 40 };

/* Most members of an op's arguments that receive counts and strides of its tensors. */
enum { ATTN_NUMBERS_MAX = 32 };

/* Size of a dimension: *count + more, where `count` points to a member of the arguments, at least
 * `least`. With count NULL it is `more`, and a `more` of -1 accepts any size. */
struct attn_dimension {
    int32_t *count;
    int64_t more;
    int64_t least; /* 1 if a count of 0 has another meaning */
};

struct attn_tensor {
    const char *name;
    void *pointer; /* address of the pointer in the arguments */
    int element;   /* enum attn_dtype, or an element type above */
    bool needed;   /* required by this descriptor */
    bool optional; /* may be NULL even if needed */
    bool written;  /* the kernel writes it */
    bool paged;    /* the first dimension counts pages of a cache */
    bool shared;   /* per-sequence scales: the first dimension may be 1, for all sequences, and a
                    * stride of 0 means 0, not contiguous */
    int vector;    /* elements of one vector access, which sets the alignment */
    int ndim;
    struct attn_dimension dims[ATTN_DIMENSIONS_MAX]; /* outermost first */
    int free;                                        /* leading dimensions whose strides the caller
                                                      * may choose */
    int64_t *strides[ATTN_DIMENSIONS_MAX];           /* addresses of these strides in the arguments;
                                                      * NULL: unused */
};

/* Describe the tensors of struct attn_cache and struct attn_pages in t; return their number.
 * `batch` is the call's count of sequences; NULL: it has none. `needed` and `optional` as in struct
 * attn_tensor. */
unsigned attn_cache_tensors(const struct attn_cache_desc *desc,
                            const struct attn_cache_heads *heads, struct attn_cache *cache,
                            int32_t *batch, bool needed, bool optional, struct attn_tensor *t);
/* Gives a tensor [sequence, KV head] the strides of the cache's scales, whose first dimension may
 * also be 1. */
void attn_take_scale_strides(struct attn_cache *cache, struct attn_tensor *t);
/* Describes the tensors of a latent cache in t; returns their number. Parameters are as in
 * attn_cache_tensors(). */
unsigned attn_latent_tensors(const struct attn_cache_desc *desc,
                             const struct attn_cache_heads *heads, struct attn_cache *cache,
                             bool needed, bool optional, struct attn_tensor *t);
/* Describes the tensors of page lists in t; returns their number. `lens_optional` says that kv_lens
 * may be NULL. */
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

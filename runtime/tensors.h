/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of the tensors of a call. DLPack tensors are checked against them. */
#ifndef ATTN_TENSORS_H
#define ATTN_TENSORS_H

#include "runtime/cache_args.h"

/* Element types that enum attn_dtype lacks. */
enum { ATTN_F32 = ATTN_INT8 + 1, ATTN_I32, ATTN_I64, ATTN_U8 };

/* Most dimensions of a tensor, and most tensors of a call. */
enum { ATTN_DIMENSIONS_MAX = 5, ATTN_TENSORS_MAX = 40 };

/* Most members of an op's argument struct that receive counts and strides of its tensors. */
enum { ATTN_NUMBERS_MAX = 32 };

/* The size of a dimension: *count + more. `count` points to a member of the argument struct, which
 * is at least `least`. If `count` is NULL, the size is `more`, and a `more` of -1 accepts any
 * size. */
struct attn_dimension {
    int32_t *count;
    int64_t more;
    int64_t least; /* least value of *count: 1 if a count of 0 has another meaning, else 0 */
};

/* A tensor of a call. */
struct attn_tensor {
    const char *name; /* name of the argument */
    void *pointer;    /* address of the tensor's pointer in the argument struct */
    int element;      /* enum attn_dtype, or ATTN_F32 to ATTN_U8 */
    bool needed;      /* true: the op with this descriptor has the tensor; false: ignored */
    bool optional;    /* true: the tensor may be NULL even if it is needed */
    bool written;     /* true: the kernel writes it */
    bool paged;       /* true: the first dimension counts pages of a cache */
    /* true: scales of sequences. The first dimension may be 1, for all sequences, and a stride of 0
     * means 0, not contiguous */
    bool shared;
    int vector; /* number of elements of a vector access, which sets the alignment */
    int ndim;   /* number of dimensions */
    struct attn_dimension dims[ATTN_DIMENSIONS_MAX]; /* the outermost dimension first */
    int free; /* number of leading dimensions whose strides the caller may choose */
    /* By dimension: address of the stride's member in the argument struct; NULL: the struct has no
     * member for it. */
    int64_t *strides[ATTN_DIMENSIONS_MAX];
};

/* Describes the tensors of a call's `cache` in `t` and returns their number. `batch` points to the
 * call's number of sequences; NULL: the call has none. `needed` and `optional` as in struct
 * attn_tensor. */
unsigned attn_cache_tensors(const struct attn_cache_desc *desc,
                            const struct attn_cache_heads *heads, struct attn_cache *cache,
                            int32_t *batch, bool needed, bool optional, struct attn_tensor *t);
/* Gives a tensor [sequence, KV head] of scales the members of `cache` for strides of scales. The
 * tensor's first dimension may also be 1. */
void attn_take_scale_strides(struct attn_cache *cache, struct attn_tensor *t);
/* Describes the tensors of a call's latent cache in `t` and returns their number. Parameters as in
 * attn_cache_tensors(). */
unsigned attn_latent_tensors(const struct attn_cache_desc *desc,
                             const struct attn_cache_heads *heads, struct attn_cache *cache,
                             bool needed, bool optional, struct attn_tensor *t);
/* Describes the tensors of a call's page lists in `t` and returns their number. If `lens_optional`
 * is true, kv_lens may be NULL. Other parameters as in attn_cache_tensors(). */
unsigned attn_pages_tensors(enum attn_page_table table, struct attn_pages *pages, int32_t *batch,
                            bool needed, bool lens_optional, struct attn_tensor *t);

/* The function attn_family.tensors of each op. */
#define OP(name) \
    unsigned attn_tensors_##name(const union attn_desc *desc, void *args, struct attn_tensor *t);
#include "ops/ops.def"

/* Sets the pointers, strides and counts of `args`, an op's argument struct, from `tensors`. That is
 * a struct of `size` bytes: its size, then pointers to DLPack tensors in the order of
 * family->tensors(). Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
int attn_set_tensors(const struct attn_op *op, const struct attn_family *family,
                     const void *tensors, size_t size, void *args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares where an element of a paged cache is, and its value. */
#ifndef REFERENCE_CACHE_H
#define REFERENCE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Scales of a cache's elements: none, one for the tensor, per token, per page, e8m0 exponents in
 * rows, one per head of a sequence. */
enum ref_scale {
    REF_SCALE_NONE,
    REF_SCALE_TENSOR,
    REF_SCALE_TOKEN,
    REF_SCALE_BLOCK,
    REF_SCALE_E8M0,
    REF_SCALE_HEAD,
};

/* The K or V of a cache. Strides are in elements; strides of scales are in floats. */
struct ref_cache {
    bool shuffle;    /* SHUFFLE; false: NHD */
    bool transposed; /* of a SHUFFLE V: the tokens of 16 bytes are adjacent */
    bool columns;    /* of a SHUFFLE V: [page, head, d, token] */
    /* Tokens of a page, elements of a row, bytes of an element. */
    int page_size, dim, element_size;
    int64_t page_stride, token_stride, head_stride;
    const void *elements;
    /* Returns the number with these bits; `type` is the member below. */
    double (*decode)(const void *type, uint32_t bits);
    const void *type; /* argument of decode for elements; as tools/verify, a struct precision */
    enum ref_scale scale;
    /* Scales in a tensor; NULL if `scale` has none there. */
    const float *scales;
    int64_t scale_page_stride, scale_head_stride;
    /* With REF_SCALE_HEAD, the row of the scales; rows are scale_page_stride floats apart. */
    int sequence;

    /* Latent rows of DeepSeek-V3.2. REF_PACKED_LATENT elements of one byte; then a float32 scale
     * for each 128 of them, or an e8m0 exponent for each 32; then elements of 16 bits. Strides are
     * in bytes. */
    bool packed;
    /* Rows of REF_MIXED_FP8 elements of one byte and 64 of 16 bits. The rows of a page are followed
     * by 8 bytes for each: e8m0 exponents of 64 elements of one byte. Strides are in bytes. */
    bool scales_last;
    /* The same rows in two tensors: `elements` has 512 bytes for each, REF_MIXED_FP8 elements
     * and then the exponent of each 64 twice; `plane` has the 64 elements of 16 bits. Strides
     * are in bytes. */
    bool planes;
    const void *plane;
    int64_t plane_page_stride, plane_token_stride;
    /* Rows of 512 elements and then their scales. Strides are in bytes. NULL: another layout. */
    const struct ref_pooled_row *row;
    const void *rotated; /* type of the rotated elements, an argument of decode */
};

/* Packed rows (PACKED): elements of the latent part, bytes of its scales, and bytes of a row. */
enum { REF_PACKED_LATENT = 512, REF_PACKED_SCALES = 16, REF_PACKED_ROW = 656 };

/* Rows of SCALES_LAST and PLANES: fp8 elements, bytes of a row of SCALES_LAST without its scales,
 * bytes of its scales, and elements of a scale. */
enum { REF_MIXED_FP8 = 448, REF_MIXED_ROW = 576, REF_MIXED_SCALES = 8, REF_MIXED_RUN = 64 };

/* Return the byte offsets of element d of a row of scales_last, and of its scale, in a page of
 * `tokens` tokens. */
int64_t ref_mixed_element(int token, int d);
int64_t ref_mixed_scale(int tokens, int token, int d);

/* A format of rows that have 512 elements of one type, and then their scales of a byte each. */
struct ref_pooled_row {
    /* Bits of an element: 4 is e2m1, the even one of two in the low half of a byte; 8 is a
     * cache's type. */
    int bits;
    int run;      /* elements that share a scale */
    int scales;   /* bytes of a row before its scales */
    int bytes;    /* bytes of a row with its scales */
    bool e8m0;    /* a scale is an exponent of e8m0; false: an element of a cache's type */
    double least; /* lower limit of a scale as a number */
};
extern const struct ref_pooled_row ref_pooled_fp4, ref_pooled_mxfp4, ref_pooled_mxfp8;

/* Returns the number that byte `byte` stores for element d, without its scale. `decode` and
 * `type` are members of struct ref_cache. */
double ref_pooled_number(const struct ref_pooled_row *r, uint32_t byte, int d,
                         double (*decode)(const void *type, uint32_t bits), const void *type);

/* Returns the number that a scale's byte stores. */
double ref_pooled_scale(const struct ref_pooled_row *r, uint32_t byte,
                        double (*decode)(const void *type, uint32_t bits), const void *type);

/* Returns the byte of a row of planes that has the scale of element d. The next byte has it too. */
int64_t ref_plane_scale(int d);

/* Return, for packed rows, the number of elements that share a scale, and the bytes of a scale. */
int ref_packed_run(enum ref_scale s);
int ref_packed_scale_size(enum ref_scale s);

/* Return the byte offsets of element d of a packed row, and of its scale. */
int64_t ref_packed_element(int d);
int64_t ref_packed_scale(enum ref_scale s, int d);

/* Returns the number that the bits of a packed row's scale store: an e8m0 exponent, else a
 * float32. */
double ref_packed_decode(enum ref_scale s, uint32_t bits);

/* Returns the offset of element d from the cache's first one, in elements. NHD: [page, token,
 * head, d]. SHUFFLE, with x elements in 16 bytes: K [page, head, d / x, token, d % x], V [page,
 * head, token / x, d, token % x] or, with `columns`, [page, head, d, token]. */
int64_t ref_cache_offset(const struct ref_cache *c, int64_t page, int token, int head, int d);

/* Returns the value of element d of a token and head: the stored number times its scale. */
double ref_cache_value(const struct ref_cache *c, int64_t page, int token, int head, int d);

/*
 * Returns the new scale of a page and head after `count` numbers x were written at once, for tokens
 * from `begin` on. It is max(1e-6, max |x|) / largest if begin is 0, and at least `old` otherwise.
 * `largest` is the cache type's largest number (reshape_and_cache_with_block_quant in ROCm/aiter).
 */
double ref_cache_block_scale(const double *x, int64_t count, int begin, double old, double largest);

/* Copies one head of a sequence to `to`, [tokens, dim]. `pages` has the page numbers of the
 * sequence. */
void ref_cache_gather(const struct ref_cache *c, const int32_t *pages, int64_t tokens, int head,
                      double *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the layouts of a paged cache: where an element is, and its value. */
#ifndef REFERENCE_CACHE_H
#define REFERENCE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* The kinds of scales: none, one for the tensor, for each token, for each page, for each run of a
 * row (e8m0 exponents), or for each head of a sequence. */
enum ref_scale {
    REF_SCALE_NONE,
    REF_SCALE_TENSOR,
    REF_SCALE_TOKEN,
    REF_SCALE_BLOCK,
    REF_SCALE_E8M0,
    REF_SCALE_HEAD,
};

/* The K or the V of a paged cache. Strides are in elements unless a comment says bytes; strides of
 * scales are in floats. */
struct ref_cache {
    bool shuffle; /* true: the SHUFFLE layout; false: NHD */
    /* True for V in a SHUFFLE cache: 16 bytes have one element of successive tokens. */
    bool transposed;
    bool columns; /* V of a SHUFFLE cache is [page, head, d, token] */
    /* Tokens of a page, elements of a row, bytes of an element. */
    int page_size, dim, element_size;
    int64_t page_stride, token_stride, head_stride;
    const void *elements;
    /* Returns the number with these bits. `type` is the member `type` or `rotated`. */
    double (*decode)(const void *type, uint32_t bits);
    /* Type of the elements, an argument of decode; in tools/verify a struct precision. */
    const void *type;
    enum ref_scale scale;
    /* The tensor of scales; NULL if `scale` is REF_SCALE_NONE or scales are in the rows. */
    const float *scales;
    int64_t scale_page_stride, scale_head_stride;
    /* With REF_SCALE_HEAD, the sequence: the row of `scales`. Rows are scale_page_stride floats
     * apart. */
    int sequence;

    /* Latent rows of DeepSeek-V3.2. REF_PACKED_LATENT elements of one byte; then a float32 scale
     * for each 128 of them, or an e8m0 exponent for each 32; then elements of 16 bits. Strides are
     * in bytes. */
    bool packed;
    /* The layout SCALES_LAST: rows of REF_MIXED_FP8 elements of one byte and 64 elements of 16
     * bits. After the rows of a page there are 8 bytes for each row: an e8m0 exponent for each 64
     * one-byte elements. Strides are in bytes. */
    bool scales_last;
    /* The layout PLANES: the same elements in two tensors. `elements` has 512 bytes a row:
     * REF_MIXED_FP8 elements, then the exponent of each 64 twice. `plane` has the 64 elements of 16
     * bits. Strides are in bytes. */
    bool planes;
    const void *plane;
    int64_t plane_page_stride, plane_token_stride;
    /* Format of rows of 512 elements of one type that are followed by their scales. Strides are in
     * bytes. NULL: another layout. */
    const struct ref_pooled_row *row;
    const void *rotated; /* type of the elements of 16 bits, an argument of decode */
};

/* Packed rows (PACKED): elements of the latent part, bytes of its scales, and bytes of a row. */
enum { REF_PACKED_LATENT = 512, REF_PACKED_SCALES = 16, REF_PACKED_ROW = 656 };

/* Rows of SCALES_LAST and PLANES: fp8 elements, bytes of a row of SCALES_LAST without its scales,
 * bytes of its scales, and elements of a scale. */
enum { REF_MIXED_FP8 = 448, REF_MIXED_ROW = 576, REF_MIXED_SCALES = 8, REF_MIXED_RUN = 64 };

/* Returns the byte offset of element d of a token's row in a page of the layout SCALES_LAST. */
int64_t ref_mixed_element(int token, int d);

/* Returns the byte offset of the scale of element d in a page of SCALES_LAST with `tokens`
 * tokens. */
int64_t ref_mixed_scale(int tokens, int token, int d);

/* A format of rows that have 512 elements of one type, and then their scales, a byte each. */
struct ref_pooled_row {
    /* Bits of an element. 4: e2m1, two in a byte, the even element in the low half; 8: the cache's
     * type. */
    int bits;
    int run;      /* elements that share a scale */
    int scales;   /* offset of the scales from the row's begin, in bytes */
    int bytes;    /* bytes of a row with its scales */
    bool e8m0;    /* true: a scale is an e8m0 exponent; false: a number of the cache's type */
    double least; /* least value of a scale */
};
extern const struct ref_pooled_row ref_pooled_fp4, ref_pooled_mxfp4, ref_pooled_mxfp8;

/* Returns the number that is stored in `byte`, which has element d of the row, before it is scaled.
 * `decode` and `type` are members of struct ref_cache. */
double ref_pooled_number(const struct ref_pooled_row *r, uint32_t byte, int d,
                         double (*decode)(const void *type, uint32_t bits), const void *type);

/* Returns the scale that a byte stores. `decode` and `type` are members of struct ref_cache. */
double ref_pooled_scale(const struct ref_pooled_row *r, uint32_t byte,
                        double (*decode)(const void *type, uint32_t bits), const void *type);

/* Returns the offset in a row of PLANES of the byte with the scale of element d. The next byte has
 * the same scale. */
int64_t ref_plane_scale(int d);

/* Returns the number of elements of a packed row that share a scale of kind `s`. */
int ref_packed_run(enum ref_scale s);

/* Returns the bytes of a scale of kind `s` in a packed row. */
int ref_packed_scale_size(enum ref_scale s);

/* Returns the byte offset of element d of a packed row. */
int64_t ref_packed_element(int d);

/* Returns the byte offset of the scale of element d of a packed row. */
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

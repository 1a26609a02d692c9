/* SPDX-License-Identifier: Apache-2.0 */
/* This file defines the layouts of a paged cache as ROCm/aiter's kernels read them. */
#include "tools/reference/cache.h"

#include "tools/reference/indexer_rope.h"

#include <math.h>
#include <string.h>

int64_t ref_cache_offset(const struct ref_cache *c, int64_t page, int token, int head, int d)
{
    const int64_t at = page * c->page_stride + head * c->head_stride;
    if (!c->shuffle)
        return at + token * c->token_stride + d;
    const int x = 16 / c->element_size;
    if (c->transposed && c->columns)
        return at + (int64_t)d * c->page_size + token;
    if (c->transposed)
        return at + ((int64_t)(token / x) * c->dim + d) * x + token % x;
    return at + ((int64_t)(d / x) * c->page_size + token) * x + d % x;
}

int64_t ref_packed_element(int d)
{
    return d < REF_PACKED_LATENT ? d : REF_PACKED_SCALES + 2 * d - REF_PACKED_LATENT;
}

int64_t ref_mixed_element(int token, int d)
{
    const int more = d > REF_MIXED_FP8 ? d - REF_MIXED_FP8 : 0;
    return (int64_t)token * REF_MIXED_ROW + d + more;
}

int64_t ref_mixed_scale(int tokens, int token, int d)
{
    return (int64_t)tokens * REF_MIXED_ROW + token * REF_MIXED_SCALES + d / REF_MIXED_RUN;
}

int64_t ref_plane_scale(int d) { return REF_MIXED_FP8 + (int64_t)d / REF_MIXED_RUN * 2; }

const struct ref_pooled_row ref_pooled_fp4 = {4, 16, 256, 288, false, 0x1p-6};
const struct ref_pooled_row ref_pooled_mxfp4 = {4, 32, 256, 272, true, 0x1p-39};
const struct ref_pooled_row ref_pooled_mxfp8 = {8, 32, 512, 528, true, 0x1p-39};

double ref_pooled_number(const struct ref_pooled_row *r, uint32_t byte, int d,
                         double (*decode)(const void *type, uint32_t bits), const void *type)
{
    return r->bits == 4 ? ref_e2m1_value(byte >> 4 * (d % 2) & 15) : decode(type, byte);
}

double ref_pooled_scale(const struct ref_pooled_row *r, uint32_t byte,
                        double (*decode)(const void *type, uint32_t bits), const void *type)
{
    return r->e8m0 ? ref_packed_decode(REF_SCALE_E8M0, byte) : decode(type, byte);
}

int ref_packed_scale_size(enum ref_scale s) { return s == REF_SCALE_E8M0 ? 1 : 4; }

int ref_packed_run(enum ref_scale s)
{
    return REF_PACKED_LATENT * ref_packed_scale_size(s) / REF_PACKED_SCALES;
}

int64_t ref_packed_scale(enum ref_scale s, int d)
{
    return REF_PACKED_LATENT + (int64_t)(d / ref_packed_run(s)) * ref_packed_scale_size(s);
}

double ref_packed_decode(enum ref_scale s, uint32_t bits)
{
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    return s == REF_SCALE_E8M0 ? ldexp(1, (int)bits - 127) : (double)scale;
}

/* Returns element `d` of a packed row: a latent number times its scale, or a rotated number of 16
 * bits. */
static double packed_value(const struct ref_cache *c, const char *row, int d)
{
    uint32_t bits = 0;
    const bool latent = d < REF_PACKED_LATENT;
    memcpy(&bits, row + ref_packed_element(d), latent ? 1 : 2);
    if (!latent)
        return c->decode(c->rotated, bits);
    uint32_t scale = 0;
    memcpy(&scale, row + ref_packed_scale(c->scale, d), (size_t)ref_packed_scale_size(c->scale));
    return c->decode(c->type, bits) * ref_packed_decode(c->scale, scale);
}

/* Returns element `d` of a token in a page of the layout SCALES_LAST. */
static double mixed_value(const struct ref_cache *c, const char *page, int token, int d)
{
    uint32_t bits = 0;
    const bool narrow = d < REF_MIXED_FP8;
    memcpy(&bits, page + ref_mixed_element(token, d), narrow ? 1 : 2);
    if (!narrow)
        return c->decode(c->rotated, bits);
    uint32_t scale = 0;
    memcpy(&scale, page + ref_mixed_scale(c->page_size, token, d), 1);
    return c->decode(c->type, bits) * ref_packed_decode(REF_SCALE_E8M0, scale);
}

/* Returns element `d` of a row in the format c->row. */
static double row_value(const struct ref_cache *c, const char *row, int d)
{
    uint32_t bits = 0, scale = 0;
    memcpy(&bits, row + d * c->row->bits / 8, 1);
    memcpy(&scale, row + c->row->scales + d / c->row->run, 1);
    return ref_pooled_number(c->row, bits, d, c->decode, c->type) *
           ref_pooled_scale(c->row, scale, c->decode, c->type);
}

/* Returns element `d` of a token in the layout PLANES. */
static double plane_value(const struct ref_cache *c, int64_t page, int token, int d)
{
    const char *row = (const char *)c->elements + page * c->page_stride + token * c->token_stride;
    const char *plane =
        (const char *)c->plane + page * c->plane_page_stride + token * c->plane_token_stride;
    uint32_t bits = 0, scale = 0;
    if (d >= REF_MIXED_FP8) {
        memcpy(&bits, plane + 2 * (d - REF_MIXED_FP8), 2);
        return c->decode(c->rotated, bits);
    }
    memcpy(&bits, row + d, 1);
    memcpy(&scale, row + ref_plane_scale(d), 1);
    return c->decode(c->type, bits) * ref_packed_decode(REF_SCALE_E8M0, scale);
}

/* Returns the offset of the scale of a token and head, in floats. */
static int64_t scale_offset(const struct ref_cache *c, int64_t page, int token, int head)
{
    if (c->scale == REF_SCALE_TENSOR)
        return 0;
    const int64_t row = c->scale == REF_SCALE_HEAD ? c->sequence : page;
    return row * c->scale_page_stride + head * c->scale_head_stride +
           (c->scale == REF_SCALE_TOKEN ? token : 0);
}

double ref_cache_value(const struct ref_cache *c, int64_t page, int token, int head, int d)
{
    uint32_t bits = 0;
    if (c->scales_last)
        return mixed_value(c, (const char *)c->elements + page * c->page_stride, token, d);
    if (c->row)
        return row_value(
            c, (const char *)c->elements + page * c->page_stride + token * c->token_stride, d);
    if (c->planes)
        return plane_value(c, page, token, d);
    if (c->packed)
        return packed_value(
            c, (const char *)c->elements + page * c->page_stride + token * c->token_stride, d);
    const char *const element =
        (const char *)c->elements + ref_cache_offset(c, page, token, head, d) * c->element_size;
    memcpy(&bits, element, 1); /* copies of constant size: this runs for millions of elements */
    if (c->element_size == 2)
        memcpy(&bits, element, 2);
    const double value = c->decode(c->type, bits);
    return c->scale == REF_SCALE_NONE ? value
                                      : value * c->scales[scale_offset(c, page, token, head)];
}

double ref_cache_block_scale(const double *x, int64_t count, int begin, double old, double largest)
{
    double absmax = 1e-6;
    for (int64_t i = 0; i < count; i++)
        absmax = fmax(absmax, fabs(x[i]));
    const double scale = absmax / largest;
    return begin > 0 && !(old < scale) ? old : scale;
}

void ref_cache_gather(const struct ref_cache *c, const int32_t *pages, int64_t tokens, int head,
                      double *to)
{
    for (int64_t t = 0; t < tokens; t++) {
        for (int d = 0; d < c->dim; d++)
            *to++ = ref_cache_value(c, pages[t / c->page_size], (int)(t % c->page_size), head, d);
    }
}

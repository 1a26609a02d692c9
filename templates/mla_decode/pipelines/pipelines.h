/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and features of mla_decode's pipelines, each a file of this folder.
 */
#ifndef TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_MLA_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/mla_decode/alone.h"

/** Buffers of tiles in LDS. */
enum { MLA_LDS_BLOCK };

/** Features of a kernel, beside attention's own: bits of pipe_row.needs. */
enum mla_feature {
    MLA_HAS_SCALED = ATT_HAS_FAMILY, /* weights of fp8 with a scale for each block */
};
extern const char *const mla_features[];

/* Steps of one wave a SIMD: alone.c. */
extern const struct pipe_op mla_find_pages, mla_copy_block, mla_read_k, mla_product_qk;
extern const struct pipe_op
    mla_read_c; /* parts 0 and 1: of the first keys; others: of later ones */
extern const struct pipe_op mla_make_scaled, mla_rescale_scaled, mla_round_scaled,
    mla_product_scaled;

/** All of mla_decode's pipelines; NULL at the end. */
extern const struct pipeline *const mla_pipelines[];
extern const struct pipeline mla_one_wave;

#endif

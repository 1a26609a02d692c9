/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares decode's software pipelines, each in a file of this folder, with their steps
 * and features.
 */
#ifndef TEMPLATES_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/decode/decode.h"

/** Stages of the loop: page numbers are looked up, tiles are loaded, loaded tiles are used. */
enum decode_stage { DECODE_LOOKUP, DECODE_LOAD, DECODE_USE };

/** Features of a kernel besides enum att_feature: indices of bits of pipe_row.needs. */
enum decode_feature {
    DECODE_HAS_LANE_PAGES = ATT_HAS_FAMILY, /* each lane looks up the pages of its own keys */
    DECODE_HAS_ARRIVALS,                    /* the newest keys are not in the cache */
};
/* Names of the features' bits, with NULL after the last one. */
extern const char *const decode_features[];

/* Steps, which decode.c defines. decode_find_tile looks up page numbers. */
extern const struct pipe_op decode_find_tile;
extern const struct pipe_op decode_issue_k, decode_issue_v, decode_issue_mask;
/* Step with a barrier of all waves, which keeps waves in step in launches that memory limits. */
extern const struct pipe_op decode_keep_step;
extern const struct pipe_op decode_new_keys, decode_new_values; /* replace the rows of keys that are
                                                                   not in the cache */
/* Steps: compute S^T = K Q^T; multiply P by the scales of values; convert V to an operand. */
extern const struct pipe_op decode_product_qk, decode_scale_p, decode_convert_v;

/** All of decode's pipelines, with NULL after the last one. */
extern const struct pipeline *const decode_pipelines[];
extern const struct pipeline decode_register_stream;

#endif

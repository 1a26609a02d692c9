/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and features of decode's pipelines, each a file of this folder.
 */
#ifndef TEMPLATES_DECODE_PIPELINES_PIPELINES_H
#define TEMPLATES_DECODE_PIPELINES_PIPELINES_H

#include "templates/attention/steps.h"
#include "templates/decode/decode.h"

/** Stages: page numbers, loads, and all that uses what was loaded. */
enum decode_stage { DECODE_LOOKUP, DECODE_LOAD, DECODE_USE };

/** Features of a kernel, beside attention's own: bits of pipe_row.needs. */
enum decode_feature {
    DECODE_HAS_LANE_PAGES = ATT_HAS_FAMILY, /* a lane looks up the page of each of its keys */
    DECODE_HAS_ARRIVALS,                    /* the newest keys are not in the cache */
};
extern const char *const decode_features[];

/* Steps: decode.c. */
extern const struct pipe_op decode_find_tile; /* page numbers */
extern const struct pipe_op decode_issue_k, decode_issue_v, decode_issue_mask;
extern const struct pipe_op decode_keep_step; /* waves meet, where many workgroups limit memory */
extern const struct pipe_op decode_new_keys, decode_new_values; /* those not in the cache */
extern const struct pipe_op decode_product_qk, decode_scale_p, decode_convert_v;

/** All of decode's pipelines; NULL at the end. */
extern const struct pipeline *const decode_pipelines[];
extern const struct pipeline decode_register_stream;

#endif

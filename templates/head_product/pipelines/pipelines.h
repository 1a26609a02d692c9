/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares head_product's software pipelines, each in a file of this folder, and their
 * steps.
 */
#ifndef TEMPLATES_HEAD_PRODUCT_PIPELINES_PIPELINES_H
#define TEMPLATES_HEAD_PRODUCT_PIPELINES_PIPELINES_H

#include "templates/head_product/head_product.h"
#include "templates/pipeline/pipeline.h"

enum {
    HEAD_PRODUCT_AHEAD = 2, /* number of tiles by which the copy of a tile precedes its product */
    HEAD_PRODUCT_RING = 4   /* number of panels of x and w for which LDS has places in stream.c */
};

/** The slots and steps of pipeline weight_stationary, which shared.c defines. */
extern const struct pipe_slot head_product_slots[];
extern const struct pipe_op head_product_read_first, head_product_copy, head_product_raise;
extern const struct pipe_op head_product_multiply, head_product_lower, head_product_store;

/** All of head_product's pipelines, with NULL after the last one. */
extern const struct pipeline *const head_product_pipelines[];
extern const struct pipeline head_product_weight_stationary, head_product_panel_ring;

#endif

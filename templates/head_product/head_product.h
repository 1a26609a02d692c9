/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of the `head_product` template share.
 */
#ifndef TEMPLATES_HEAD_PRODUCT_HEAD_PRODUCT_H
#define TEMPLATES_HEAD_PRODUCT_HEAD_PRODUCT_H

#include "templates/template.h"

/** Members of att_tile.own, 1 or 0: waves share a contraction; one x for all heads; all operands
 * are copied to LDS directly. */
enum { HEAD_PRODUCT_SHARE_COLUMNS, HEAD_PRODUCT_ONE_X, HEAD_PRODUCT_STREAM };

/** Builds the kernel of head_product.c: an x for each head. */
void head_product_each_build(const struct att_variant *v, const struct tir_machine *m,
                             const struct att_tile *tile, struct att_kernel *k);

/** Checks and builds the kernel of shared.c: one x for all heads. */
bool head_product_shared_check(const struct att_variant *v, const struct tir_machine *m,
                               struct att_why *why);
void head_product_shared_build(const struct att_variant *v, const struct tir_machine *m,
                               struct att_kernel *k);

/** Checks and builds the kernel of stream.c: an x for each head, up to 64 tokens at once. */
bool head_product_stream_fits(const struct att_variant *v, const struct tir_machine *m,
                              struct att_why *why);
void head_product_stream_build(const struct att_variant *v, const struct tir_machine *m,
                               const struct att_tile *tile, struct att_kernel *k);

#endif

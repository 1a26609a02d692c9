/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of template head_product share: out[t, h] = w[h] x[t, h] for
 * each token t and head h.
 */
#ifndef TEMPLATES_HEAD_PRODUCT_HEAD_PRODUCT_H
#define TEMPLATES_HEAD_PRODUCT_HEAD_PRODUCT_H

#include "templates/template.h"

/** Indices of att_tile.own; a value is 1 for yes, 0 for no. SHARE_COLUMNS: several waves divide the
 * columns over which a product w x^T sums. ONE_X: all heads multiply one x. STREAM: w and x are
 * copied to LDS directly. */
enum { HEAD_PRODUCT_SHARE_COLUMNS, HEAD_PRODUCT_ONE_X, HEAD_PRODUCT_STREAM };

/** Builds the kernel of head_product.c with tile *tile into `k`: each head multiplies an x of its
 * own. */
void head_product_each_build(const struct att_variant *v, const struct tir_machine *m,
                             const struct att_tile *tile, struct att_kernel *k);

/** True if the kernel of shared.c serves the variant; if not, the reason is in `why`. In that
 * kernel all heads multiply one x. */
bool head_product_shared_check(const struct att_variant *v, const struct tir_machine *m,
                               struct att_why *why);
/** Builds the kernel of shared.c into `k`: all heads multiply one x. */
void head_product_shared_build(const struct att_variant *v, const struct tir_machine *m,
                               struct att_kernel *k);

/** True if the kernel of stream.c serves the variant; if not, the reason is in `why`. In that
 * kernel each head multiplies an x of its own, for up to 64 tokens at once. */
bool head_product_stream_fits(const struct att_variant *v, const struct tir_machine *m,
                              struct att_why *why);
/** Builds the kernel of stream.c with tile *tile into `k`. */
void head_product_stream_build(const struct att_variant *v, const struct tir_machine *m,
                               const struct att_tile *tile, struct att_kernel *k);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of the `head_product` template share.
 */
#ifndef TEMPLATES_HEAD_PRODUCT_H
#define TEMPLATES_HEAD_PRODUCT_H

#include "templates/template.h"

/** head_product_shared.c: one x for all heads. */
bool head_product_shared_check(const struct att_variant *v, const struct tir_machine *m,
                               struct att_why *why);
void head_product_shared_build(const struct att_variant *v, const struct tir_machine *m,
                               struct att_kernel *k);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Two small op families for tests of the front end, which must not depend on the real ones: `toy`
 * takes the fields of a prefill, `paged` the fields of a cache.
 */
#ifndef TESTS_COMPILER_TOY_H
#define TESTS_COMPILER_TOY_H

#include "templates/template.h"

/** Both families' templates, then NULL. */
extern const struct att_template *const toy_templates[];

#endif

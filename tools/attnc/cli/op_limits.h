/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the limits of ops, which the build makes of the checks of the templates, for
 * `attnc help OP` and `attnc help limits`. */
#ifndef TOOLS_ATTNC_OP_LIMITS_H
#define TOOLS_ATTNC_OP_LIMITS_H

/** Returns a Markdown list, a string for each line and NULL after the last. It has the values of
 * each field of an op that can be built, and pairs of values that exclude each other. Returns NULL
 * for an unknown op. */
const char *const *op_limits(const char *op);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the limits of an op, for `attnc help`. */
#ifndef TOOLS_ATTNC_HELP_LIMITS_H
#define TOOLS_ATTNC_HELP_LIMITS_H

struct att_template;

/** Prints, as a Markdown list, which values of each field have a kernel, and which combinations of
 * two have none. */
void print_limits(const struct att_template *op);

#endif

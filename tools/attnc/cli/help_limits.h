/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the limits of an op, for `attnc help`. */
#ifndef TOOLS_ATTNC_HELP_LIMITS_H
#define TOOLS_ATTNC_HELP_LIMITS_H

struct att_template;

/** Prints a Markdown list to standard output: the values of each field that have a kernel, and
 * combinations of two fields' values that have none. */
void print_limits(const struct att_template *op);

#endif

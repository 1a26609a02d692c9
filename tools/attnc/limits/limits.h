/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how the limits of an op are printed, for the file that the build makes of
 * them. */
#ifndef TOOLS_ATTNC_LIMITS_H
#define TOOLS_ATTNC_LIMITS_H

struct att_template;

/** Prints the lines of a Markdown list as strings of C: the values of each field that can be built,
 * and pairs of values that exclude each other. */
void print_limits(const struct att_template *op);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the help texts that the build makes from the schemas in ops/, for `attnc help
 * OP`. */
#ifndef TOOLS_ATTNC_OP_HELP_H
#define TOOLS_ATTNC_OP_HELP_H

/** Returns the help text of an op, a string for each line and NULL after the last. Returns NULL for
 * an op without a schema. */
const char *const *op_help(const char *op);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what the schemas in ops/ say of an op, for `attnc help OP`. */
#ifndef TOOLS_ATTNC_OP_HELP_H
#define TOOLS_ATTNC_OP_HELP_H

/** Returns the help text of an op, NULL after the last line; NULL for an op without a schema. */
const char *const *op_help(const char *op);

#endif

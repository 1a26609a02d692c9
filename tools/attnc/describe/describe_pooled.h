/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of layers that attend to rows of groups of tokens, beside a window.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_POOLED_H
#define TOOLS_ATTNC_DESCRIBE_POOLED_H

#include "tools/attnc/describe/describe_entry.h"

/** Writes the steps before attention, the indexer, and attention over lists of rows. */
void write_pooled(struct entry_writer *w);

#endif

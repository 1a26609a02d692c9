/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the entries of layers that attend to pooled rows, each made from a group of
 * tokens, beside a window.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_POOLED_H
#define TOOLS_ATTNC_DESCRIBE_POOLED_H

#include "tools/attnc/describe/describe_entry.h"

/** Writes the entries of the steps before attention, of the indexer, and of attention over lists of
 * rows. */
void write_pooled(struct entry_writer *w);

#endif

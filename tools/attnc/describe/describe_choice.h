/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of layers that attend to chosen groups of keys: MiniMax-M3's and
 * Qwen3.8-Flash-Next's.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_CHOICE_H
#define TOOLS_ATTNC_DESCRIBE_CHOICE_H

#include "tools/attnc/describe/describe_entry.h"

enum { ENTRY_INDEX_DIM = 128 /* elements of an indexer's keys */ };

/** Writes the entries of the model's indexer and of the lists of chosen groups. Decode takes each
 * list as the pages of a sequence. */
void write_choice_layers(struct entry_writer *w);

/** Writes the entry that makes lists of what an indexer chose. */
void write_chosen_lists(struct entry_writer *w, const char *comment);

/** Writes the entry that merges the lists of a row's parts: lists of `top_k` keys, and of
 * `top_blocks` blocks. 0: no blocks are chosen. */
void write_topk_merge(struct entry_writer *w, long top_k, long top_blocks);

#endif

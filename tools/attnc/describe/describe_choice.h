/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the entries of layers that attend to chosen groups of keys: MiniMax-M3 and
 * Qwen3.8-Flash-Next.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_CHOICE_H
#define TOOLS_ATTNC_DESCRIBE_CHOICE_H

#include "tools/attnc/describe/describe_entry.h"

enum { ENTRY_INDEX_DIM = 128 /* elements of an indexer's key */ };

/** Writes the entries of the model's indexer, of the lists of chosen groups, and of attention over
 * these lists. */
void write_choice_layers(struct entry_writer *w);

/** Writes the entry of chosen_lists, which makes lists of what an indexer chose. `comment` precedes
 * it. */
void write_chosen_lists(struct entry_writer *w, const char *comment);

/** Writes the entry of chosen_lists for groups of `group` tokens. Its comment says how many tokens
 * a page of the lists has. */
void write_group_lists(struct entry_writer *w, long group);

/** Writes the entry of topk, which merges the lists that parts of a row give: `top_k` keys, and
 * `top_blocks` blocks. 0: no blocks are chosen. */
void write_topk_merge(struct entry_writer *w, long top_k, long top_blocks);

#endif

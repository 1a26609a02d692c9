/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the trees of drafts in verified calls. */
#ifndef TOOLS_VERIFY_TREE_H
#define TOOLS_VERIFY_TREE_H

/** Returns the index of the parent of draft t of sequence i; -1 for the root, draft 0. Every third
 * draft has the draft before it as its parent. The others form a binary tree. */
static inline int tree_parent(int i, int t) { return (i + t) % 3 == 1 ? t - 1 : (t + 1) / 2 - 1; }

#endif

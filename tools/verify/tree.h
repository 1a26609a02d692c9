/* SPDX-License-Identifier: Apache-2.0 */
/* The trees of drafts that calls are verified with. */
#ifndef TOOLS_VERIFY_TREE_H
#define TOOLS_VERIFY_TREE_H

/** Returns the number of the draft that draft t of sequence i follows; -1 for the root, draft 0.
 * Every third draft follows the one before it. The others form a binary tree. */
static inline int tree_parent(int i, int t) { return (i + t) % 3 == 1 ? t - 1 : (t + 1) / 2 - 1; }

#endif

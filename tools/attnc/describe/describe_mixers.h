/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the entries of linear layers: convolution, recurrence, gated norm and copies
 * of states. docs/linear.md describes them.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_MIXERS_H
#define TOOLS_ATTNC_DESCRIBE_MIXERS_H

#include "tools/attnc/describe/describe_entry.h"

/** The sizes of a linear layer on one rank. */
struct rank_mixer {
    /* Key heads and value heads. A single key head may be a copy that several ranks have. */
    long heads, value_heads;
    long channels; /* channels of the short convolution; 0: there is none */
    /* Groups of the gated norm on the rank; 0: no norm, or ranks would have parts of several
     * groups. */
    long norm_groups;
    long norm_width; /* elements of a group, or of its part, on the rank */
    long norm_ranks; /* ranks that share a group; 1: ranks have whole groups */
};

/** Sets *out to the sizes of a linear layer on each of `ranks` ranks. Returns false if the ranks
 * cannot share the heads. */
bool share_mixer(const struct model_mixer *x, long ranks, struct rank_mixer *out);

/** Returns the tokens of an attention page that is as large as a linear layer's state on a rank: a
 * multiple of 16. An element of the state has `state_bytes` bytes. Returns 0 if the ranks cannot
 * share the heads. */
long mixer_page(const struct model *m, const struct model_mixer *x, const struct deployment *d,
                long ranks, long state_bytes);

/** Writes the entries of all linear layers of the model, and adds gaps. */
void write_mixers(struct entry_writer *w);

#endif

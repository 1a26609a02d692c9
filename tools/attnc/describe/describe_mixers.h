/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the entries of linear layers: convolution, recurrence, gated norm and copies
 * of states, as docs/linear.md has them.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_MIXERS_H
#define TOOLS_ATTNC_DESCRIBE_MIXERS_H

#include "tools/attnc/describe/describe_entry.h"

/** A rank's share of a linear layer. */
struct rank_mixer {
    long heads, value_heads; /* heads 1: ranks may have copies of one group */
    long channels;           /* of the convolution */
    long norm_groups;        /* of a token; 0: no norm, or parts of several groups */
    long norm_width;         /* elements of such a group on the rank */
    long norm_ranks;         /* ranks that share a group; 1: each has whole groups */
};

/** Shares a linear layer out to `ranks` ranks. Returns false if its heads cannot be shared out. */
bool share_mixer(const struct model_mixer *x, long ranks, struct rank_mixer *out);

/** Returns tokens of a page of attention that is as large as the state of a linear layer on a rank,
 * whose numbers have `state_bytes`: a multiple of 16. 0: ranks cannot share the heads. */
long mixer_page(const struct model *m, const struct model_mixer *x, const struct deployment *d,
                long ranks, long state_bytes);

/** Writes the entries of all linear layers of the model. */
void write_mixers(struct entry_writer *w);

#endif

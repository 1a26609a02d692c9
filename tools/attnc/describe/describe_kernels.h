/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how a model becomes the entries of a description: the kernels that its steps
 * launch. The description reader tries each entry for every target, and what a target refuses
 * becomes a gap.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_KERNELS_H
#define TOOLS_ATTNC_DESCRIBE_KERNELS_H

#include <stdio.h>

#include "tools/attnc/describe/model_config.h"

/** The most numbers of ranks in --tp. */
enum { MAX_TENSOR_PARALLEL = 8 };

/** The way in which an engine runs the model. */
struct deployment {
    /* Numbers of ranks of tensor parallelism, `rank_count` of them. */
    long ranks[MAX_TENSOR_PARALLEL];
    unsigned rank_count;
    /* Fields of the cache, as a description has them. */
    const char *page_size, *kv_dtype, *kv_scale, *kv_layout;
    long draft_tokens; /* draft tokens of a sequence in a step; 0: none */
    /* True: drafts may form a tree, and kernels with custom masks and parents are added. */
    bool draft_tree;
    /* True: decode kernels that add split-KV partials themselves are added. */
    bool one_launch;
    /* True: kernels are added that also do the step before or after decode in the same launch. */
    bool whole;
};

/** Heads of one rank. kv_heads is 1 if there are more ranks than KV heads; several ranks then have
 * copies of a KV head. */
struct rank_heads {
    long heads, kv_heads;
    /* True: several ranks have the same KV head. */
    bool copies;
};

/** Sets *out to the heads of each of `ranks` ranks. Returns false if the ranks cannot share the
 * heads. */
bool share_heads(const struct model_group *g, long ranks, struct rank_heads *out);

/** True if a row of the deployment's cache is key and value of 512 elements, and has scales in it
 * or beside it. */
bool deployment_has_pooled_rows(const struct deployment *d);

/** True if the main rows of the cache are e2m1. Rows of windows and of a prompt's chunk are then
 * fp8 with scales, 528 bytes. */
bool deployment_has_e2m1_rows(const struct deployment *d);

/** Returns the tokens of a page in a list of groups of `group` tokens: the greatest common divisor
 * of `group` and the cache's `page_size`. If that is 0, for pages of any number of whole groups:
 * `group`. */
long list_page_size(long page_size, long group);

/** True if the cache of the deployment is possible; otherwise `why` gets the description reader's
 * message. */
bool check_deployment(const struct deployment *d, char why[200]);

/** Writes the entries of `kernels:` to `out`, and adds what no kernel covers to the model's gaps.
 * Returns the number of entries. */
unsigned write_kernels(struct model *m, const struct deployment *d, FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * From a model to the kernels that one step of it launches, as the entries of a description. Every
 * entry is read back by the description reader for every target: what it refuses becomes a gap.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_KERNELS_H
#define TOOLS_ATTNC_DESCRIBE_KERNELS_H

#include <stdio.h>

#include "tools/attnc/describe/model_config.h"

enum { MAX_TENSOR_PARALLEL = 8 };

/** The way in which an engine runs the model. */
struct deployment {
    long ranks[MAX_TENSOR_PARALLEL]; /* sizes of the tensor-parallel group */
    unsigned rank_count;
    const char *page_size, *kv_dtype, *kv_scale, *kv_layout; /* as a description says them */
    long draft_tokens;                                       /* speculative tokens of a step */
    bool draft_tree; /* they may be a tree: kernels with custom masks and parents are added */
    bool one_launch; /* adds decode in one launch, without a combine */
    bool whole;      /* adds kernels that do a step beside decode, or two steps, in one launch */
};

/** A rank's share of the heads; kv_heads is 1 if there are more ranks than KV heads, so that
 * several ranks have copies of one. */
struct rank_heads {
    long heads, kv_heads;
    bool copies;
};

/** Computes the heads of each of `ranks` ranks. Returns false if the heads cannot be divided among
 * them. */
bool share_heads(const struct model_group *g, long ranks, struct rank_heads *out);

/** True if rows of the cache are key and value, 512 elements, and contain or precede their scales.
 */
bool deployment_has_pooled_rows(const struct deployment *d);

/** True if these rows have 512 elements of one type, and then their scales. */
bool deployment_has_packed_rows(const struct deployment *d);

/** True if main rows of the cache are e2m1. Rows of windows, and of a prompt's chunk, are then 528
 * bytes of fp8 with their scales. */
bool deployment_has_e2m1_rows(const struct deployment *d);

/** Returns whether the cache that `d` names is valid; if not, `why` has the reader's sentence. */
bool check_deployment(const struct deployment *d, char why[200]);

/**
 * Writes the entries of `kernels:` to `out`, and adds to the gaps of `m` what no kernel covers.
 * Returns how many entries there are.
 */
unsigned write_kernels(struct model *m, const struct deployment *d, FILE *out);

#endif

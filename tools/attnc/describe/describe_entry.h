/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the writer of a description's entries. The description reader tries each entry
 * for every target, and what a target refuses becomes a gap of the model.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_ENTRY_H
#define TOOLS_ATTNC_DESCRIBE_ENTRY_H

#include "tools/attnc/describe/describe_kernels.h"

/** Bytes of an entry, and of a list of numbers. */
enum { MAX_ENTRY = 2048, ENTRY_LIST = 96 /* characters of a list of ratios */ };

/** A description that is being written. */
struct entry_writer {
    struct model *m;
    const struct deployment *d;
    /* Stream that receives the entries. */
    FILE *out;
    /* Number of entries that were written. */
    unsigned entries;
    /* True: a planned prefill was written, so that plans with tiles of queries are needed. */
    bool tiles;
    char entry[MAX_ENTRY]; /* text of the present entry */
    /* Bytes of that text. */
    size_t length;
};

/** Begins an entry of `op`. */
void entry_begin(struct entry_writer *w, const char *op);

/** Adds a field to the entry, such as "page_size: 16". */
void entry_field(struct entry_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Adds "index_keys: fp8" for an indexer that writes its keys, with a comment about mxfp4. */
void entry_written_index_keys(struct entry_writer *w);

/** Adds the layout of an indexer's keys, one for `pool` tokens. Tiles of 16 keys are read faster,
 * and are taken if pages consist of whole tiles. Otherwise adds nothing, and keys are rows. */
void entry_index_layout(struct entry_writer *w, long pool);

/** Returns the tokens of a page in a list of groups of `group` tokens: list_page_size() of the
 * deployment. */
long entry_list_page(const struct entry_writer *w, long group);

/** Adds the fields of the deployment's cache that differ from the defaults: type, scale and
 * layout. */
void entry_cache(struct entry_writer *w);

/** Adds the cache's fields for ops that write or convert rows which are key and value. Beside main
 * rows of e2m1, these ops also have rows of fp8, for windows and chunks of prompts. */
void entry_row_caches(struct entry_writer *w);

/** Adds one_launch to an entry with split keys, if all its targets have that kernel. A step with
 * few sequences then needs no combine launch; kernels with combine stay in the entry. */
void entry_one_launch(struct entry_writer *w);

/** Writes the GQA ratios of all numbers of ranks to `list`: "8", or "[8, 16]". Returns false if no
 * number of ranks can share the heads. */
bool entry_ratios(const struct entry_writer *w, const struct model_group *g, char list[ENTRY_LIST]);

/** Ends the entry: writes it, after `comment`, for the targets that accept it. Adds a gap called
 * `label` for the others. Returns true if any target accepts it. */
bool entry_end(struct entry_writer *w, const char *label, const char *comment);

struct tgt;
/** True if kernels of the target are tuned: its table of fitted knobs has rows. Descriptions of
 * models name only such targets. */
bool entry_is_tuned(const struct tgt *t);

/** Lists the tuned targets that accept the present entry in `good`, the others in `bad`. `why` gets
 * the last refusal. */
void entry_sort_targets(const struct entry_writer *w, char good[64], char bad[64], char why[200]);

/** True if a target accepts a description with this one entry and the default type `dtype`.
 * Otherwise `why` gets the first error. */
bool entry_is_accepted(const char *entry, const char *dtype, const char *target, char why[200]);

/** Returns the model's element type, "bf16" or "fp16". */
const char *entry_dtype(const struct model *m);

#endif

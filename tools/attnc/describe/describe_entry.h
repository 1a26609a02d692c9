/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the writer of a description's entries. Every entry is read back by the
 * description reader for every target: what a target refuses becomes a gap of the model.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_ENTRY_H
#define TOOLS_ATTNC_DESCRIBE_ENTRY_H

#include "tools/attnc/describe/describe_kernels.h"

enum { MAX_ENTRY = 2048, ENTRY_LIST = 96 /* characters of a list of ratios */ };

struct entry_writer {
    struct model *m;
    const struct deployment *d;
    FILE *out;
    unsigned entries;
    bool tiles;            /* a planned prefill was written, so plans of query tiles are needed */
    char entry[MAX_ENTRY]; /* text of the entry that is being written */
    size_t length;
};

/** Begins an entry of an op. */
void entry_begin(struct entry_writer *w, const char *op);

/** Adds a field, "name: value". */
void entry_field(struct entry_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Adds index_keys: fp8 of an indexer that writes its keys, and a comment about the other type. */
void entry_written_index_keys(struct entry_writer *w);

/** Writes the layout of an indexer's keys, one for `pool` tokens: tiles of 16 keys, which are read
 * faster, if the pages have whole tiles. Else it writes nothing, which means rows. */
void entry_index_layout(struct entry_writer *w, long pool);

/** Adds the fields of the deployment's cache that are not the defaults. */
void entry_cache(struct entry_writer *w);

/** Adds the same fields for ops that write or convert rows that are key and value. Beside main rows
 * of e2m1 they also have rows of 528 bytes, as windows and chunks of prompts have them. */
void entry_row_caches(struct entry_writer *w);

/**
 * Adds one_launch to an entry whose keys a plan cuts, if all targets of the entry have that
 * kernel. A step of few sequences then takes one launch. Splits that `combine` sums stay possible.
 */
void entry_one_launch(struct entry_writer *w);

/** Writes the query heads per KV head of the ranks: "8", or "[8, 16]". Returns false if no rank can
 * run the model. */
bool entry_ratios(const struct entry_writer *w, const struct model_group *g, char list[ENTRY_LIST]);

/** Ends an entry: writes it for the targets that take it, and a gap named `label` for the others.
 * Returns whether there is such a target. */
bool entry_end(struct entry_writer *w, const char *label, const char *comment);

struct tgt;
/** True if kernels for the target are tuned: its table of fitted knobs has rows. Descriptions of
 * models name only such targets. */
bool entry_is_tuned(const struct tgt *t);

/** Lists the targets that have a kernel for the entry in `good`, and the others in `bad`; `why` is
 * the last refusal. */
void entry_sort_targets(const struct entry_writer *w, char good[64], char bad[64], char why[200]);

/** True if a target takes a description of this one entry; else `why` is the first error. */
bool entry_is_accepted(const char *entry, const char *dtype, const char *target, char why[200]);

/** Returns the element type of the model, as a description names it. */
const char *entry_dtype(const struct model *m);

#endif

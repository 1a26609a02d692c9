/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning files: the tiles of each key's kernels, and the calls that each kernel is for. `attnc
 * tune` writes them, users commit them, `attnc build --tuning` applies them. docs/tuning.md is
 * their manual.
 */
#ifndef COMPILER_TUNING_H
#define COMPILER_TUNING_H

#include "compiler/description.h"

/** A kernel of a key. */
struct attnc_tuned {
    char *key;  /* attnc_key_text(); the file's text if no kernel has such a key */
    char *tile; /* att_tile_text(); ATTNC_AUTO: a build chooses it */
    char *open; /* timing parameters whose uncertainty could change the best tile; NULL: none */
    struct att_choice choice; /* arg of each row is from attnc_launch_value(), not owned */
    struct att_loc at;
    bool matched; /* set by attnc_tuning_apply(): a variant of the description has the key */
};

#define ATTNC_AUTO "auto"

/** The best split of a call's keys. libattn recommends it to callers, who make the plan. */
struct attnc_split {
    char *key, *call;              /* attnc_key_text(); a shape: "batch=16,k=4096" */
    int64_t lists;                 /* lists of the plan; 0: no work list */
    int64_t item_cost, merge_rate; /* constants of the plan as in attn_decode_plan_shape; 0: their
                                    * default */
    bool one_launch;     /* the kernel of this descriptor sums the parts; else combine does */
    double us, whole_us; /* modelled or measured time, with and without lists; not in the file */
};

struct attnc_tuning {
    struct attnc_tuned *rows; /* rows of a key are adjacent */
    size_t count, cap;
    struct attnc_split *splits;
    size_t split_count;
    char *bytes; /* the file's text, for messages */
    size_t size;
};

/** Returns the name of a call's value that a choice may test, as in the compiler's tables. These
 * are the i32 arguments of the op's kernels. Returns NULL if the op has no such argument. */
const char *attnc_launch_value(const char *op, const char *name);

/** Adds an empty row; returns NULL if memory is exhausted. */
struct attnc_tuned *attnc_tuning_add(struct attnc_tuning *t, const char *key, const char *tile);

/** Removes the kernels of a key. */
void attnc_tuning_remove(struct attnc_tuning *t, const char *key);

/** Removes all splits. */
void attnc_tuning_remove_splits(struct attnc_tuning *t);

/** Adds a copy; returns NULL if memory is exhausted. */
struct attnc_split *attnc_tuning_add_split(struct attnc_tuning *t, const struct attnc_split *split);

/** Reads the numbers of a call, "batch=4,k=8192,heads=32,kv_heads=4", and ignores others. Returns
 * false if the text is no call, or if batch or k is missing. */
bool attnc_split_call(const char *call, struct att_split *out);

/** Copies the splits of each key to the choice of its kernel without boxes, which is for all other
 * calls. Call before attnc_tuning_apply(), for a tuning that was not read from a file. Returns
 * false if memory is exhausted. */
bool attnc_tuning_link(struct attnc_tuning *t);

/** Compute the kernels that splits of the decode kernel `v` may need besides `v`: its sibling that
 * also sums the parts, and the combine kernel for its parts. Returns false if no such kernel
 * exists. */
bool attnc_split_sibling(const struct att_variant *v, struct att_variant *sibling);
bool attnc_split_combine(const struct att_variant *v, struct att_variant *combine);

/** Adds a box without rows to a choice; returns NULL if memory is exhausted. */
struct att_box *attnc_choice_add(struct att_choice *choice);

/** Reads a file and collects all errors in `d`: unknown keys, reversed ranges, overlapping boxes of
 * one key, a key without a kernel for all other calls. Free `t` in either case. */
bool attnc_tuning_read(const char *path, struct attnc_tuning *t, struct attnc_diag *d);

/** Like attnc_tuning_read(), for bytes in memory, which remain the caller's. */
bool attnc_tuning_read_bytes(const char *bytes, size_t size, struct attnc_tuning *t,
                             struct attnc_diag *d);

/** Frees the rows of a tuning. */
void attnc_tuning_free(struct attnc_tuning *t);

/** Writes a file that attnc_tuning_read() can read. */
void attnc_tuning_write(const struct attnc_tuning *t, FILE *out);

/**
 * Replaces each variant of `desc` that leaves its tile open by the kernels that the file has for
 * its key. Adds the kernels that their splits need. Their choices point into `t`. A tile that no
 * table has any more, or that does not fit, is an error in `d`.
 */
bool attnc_tuning_apply(struct attnc_tuning *t, struct attnc_description *desc,
                        struct attnc_diag *d);

/** Reports each key that matched no variant in attnc_tuning_apply() as an error with the reason.
 * Only keys for `targets` (NULL at the end) are reported, or all keys if `targets` is NULL. Returns
 * false if an error was reported. */
bool attnc_tuning_check_matched(const struct attnc_tuning *t, const char *const *targets,
                                struct attnc_diag *d);

/** Returns the number of the candidate tile with this text for variant `v`, as in att_variant.tile.
 * 0: no table row has it, or it does not fit. */
int attnc_find_candidate(const struct att_variant *v, const char *tile);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A tuning file: which tiles the kernels of a key have, and which calls each is meant for. `attnc
 * tune` writes it, people commit it, `attnc build --tuning` honours it. docs/tuning.md is its
 * manual.
 */
#ifndef COMPILER_TUNING_H
#define COMPILER_TUNING_H

#include "compiler/description.h"

/** A kernel of a key. */
struct attnc_tuned {
    char *key;  /* attnc_key_text(), or as the file has it where no kernel has such a key */
    char *tile; /* att_tile_text(), or ATTNC_AUTO: what a build makes by itself */
    char *open; /* timing parameters within whose range another tile would win, or NULL */
    struct att_choice choice; /* arg of each row is attnc_launch_value()'s, not owned */
    struct att_loc at;
    bool matched; /* a description has the key: attnc_tuning_apply() */
};

#define ATTNC_AUTO "auto"

/** The best split of a call's keys. libattn tells it to callers, who make the plan. */
struct attnc_split {
    char *key, *call;              /* attnc_key_text(); a shape: "batch=16,k=4096" */
    int64_t lists;                 /* of the plan; 0: no work list */
    int64_t item_cost, merge_rate; /* of the plan; 0: what it has by itself */
    bool one_launch;     /* parts are added up in the kernel of this descriptor; else by combine */
    double us, whole_us; /* modelled or measured, and without lists; not in the file */
};

struct attnc_tuning {
    struct attnc_tuned *rows; /* those of a key stand together */
    size_t count, cap;
    struct attnc_split *splits;
    size_t split_count;
    char *bytes; /* the file, for messages about it */
    size_t size;
};

/** The values of a call that a choice may look at: the i32 arguments of the op's kernels. The name
 * as the compiler's own tables have it, or NULL where the op has none of this name. */
const char *attnc_launch_value(const char *op, const char *name);

/** Adds an empty row; NULL: out of memory. */
struct attnc_tuned *attnc_tuning_add(struct attnc_tuning *t, const char *key, const char *tile);

/** Removes the kernels of a key. */
void attnc_tuning_remove(struct attnc_tuning *t, const char *key);

/** Removes all splits. */
void attnc_tuning_remove_splits(struct attnc_tuning *t);

/** Adds a copy; NULL: out of memory. */
struct attnc_split *attnc_tuning_add_split(struct attnc_tuning *t, const struct attnc_split *split);

/** Reads the numbers of a call, "batch=4,k=8192,heads=32,kv_heads=4", and passes over others.
 * False: it is none, or has no batch or k. */
bool attnc_split_call(const char *call, struct att_split *out);

/** Gives each key's kernel for all other calls the splits of the key: before attnc_tuning_apply(),
 * of a tuning that no file was read for. False: out of memory. */
bool attnc_tuning_link(struct attnc_tuning *t);

/** The kernels that a decode kernel's splits may need besides it: its sibling that adds up parts
 * itself, and the combine kernel of its parts. False: there is none. */
bool attnc_split_sibling(const struct att_variant *v, struct att_variant *sibling);
bool attnc_split_combine(const struct att_variant *v, struct att_variant *combine);

/** Adds a box without rows to a choice; NULL: out of memory. */
struct att_box *attnc_choice_add(struct att_choice *choice);

/** Reads a file. All that is wrong is in `d`: unknown keys, ranges the wrong way round, boxes of
 * one key that overlap, a key without a kernel for all other calls. Free in either case. */
bool attnc_tuning_read(const char *path, struct attnc_tuning *t, struct attnc_diag *d);

/** The same for bytes in memory, which stay with the caller. */
bool attnc_tuning_read_bytes(const char *bytes, size_t size, struct attnc_tuning *t,
                             struct attnc_diag *d);

void attnc_tuning_free(struct attnc_tuning *t);

/** Writes what attnc_tuning_read() reads. */
void attnc_tuning_write(const struct attnc_tuning *t, FILE *out);

/**
 * Replaces each variant of `desc` that leaves its tile open and whose key the file has by the
 * file's kernels, and adds those that its splits need. Their choices point into `t`. A tile that no
 * table has any more, or that does not fit, is an error in `d`.
 */
bool attnc_tuning_apply(struct attnc_tuning *t, struct attnc_description *desc,
                        struct attnc_diag *d);

/** Reports each key that no description had to which attnc_tuning_apply() was applied, as an error
 * with the reason. `targets`, NULL at its end, are those that were built, whose keys count; NULL:
 * all do. False where there are any. */
bool attnc_tuning_check_matched(const struct attnc_tuning *t, const char *const *targets,
                                struct attnc_diag *d);

/** The number of the candidate with this text for a variant, 0 where none fits that has it. */
int attnc_find_candidate(const struct att_variant *v, const char *tile);

#endif

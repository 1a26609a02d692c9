/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning files: the tiles of the kernels of each dispatch key, and the calls that each kernel is
 * for. `attnc tune` writes them, users commit them, `attnc build --tuning` applies them.
 * docs/tuning.md is their manual.
 */
#ifndef COMPILER_TUNING_H
#define COMPILER_TUNING_H

#include "compiler/description.h"

/** A row of a tuning file: one of the kernels of a dispatch key. */
struct attnc_tuned {
    /* the dispatch key by attnc_key_text(); the file's own text if no kernel can have it */
    char *key;
    char *tile; /* the tile by att_tile_text(); ATTNC_AUTO: a build chooses it */
    /* names of timing parameters that are so uncertain that another tile may be the best; NULL:
     * none */
    char *open;
    /* the calls that the kernel is for; names of arguments are not owned */
    struct att_choice choice;
    struct att_loc at; /* place of the row in the file */
    bool matched;      /* true: attnc_tuning_apply() has found a variant with the key */
};

/** The text of a tile that leaves the choice to the build. */
#define ATTNC_AUTO "auto"

/** The best split-KV division of a decode call's keys. libattn recommends it to callers, who make
 * the plan. */
struct attnc_split {
    /* the kernel's dispatch key; the call's shape, "batch=16,k=4096" */
    char *key, *call;
    int64_t lists; /* number of work lists of the plan; 0: no plan, keys are not split */
    /* the plan's constants as in attn_decode_plan_shape; 0: the default */
    int64_t item_cost, merge_rate;
    int64_t unit_keys; /* keys of a unit of the plan: 16, 32 or 64; 0: 64 */
    /* true: the decode kernel itself adds the partials; false: combine adds them */
    bool one_launch;
    /* microseconds, modelled or measured: with this split; without a split. Not in the file */
    double us, whole_us;
};

struct attnc_tuning {
    struct attnc_tuned *rows; /* the rows of a key are adjacent */
    size_t count, cap;
    struct attnc_split *splits;
    size_t split_count;
    char *bytes; /* the file's text, for messages; NULL: not read from a file */
    size_t size; /* length of `bytes` */
};

/** Returns `name` as a static string if it is an i32 argument of the op's kernels: conditions on
 * calls may test such arguments. Otherwise returns NULL. */
const char *attnc_launch_value(const char *op, const char *name);

/** Appends a row with this key and tile, for all calls. Returns NULL if memory is exhausted. */
struct attnc_tuned *attnc_tuning_add(struct attnc_tuning *t, const char *key, const char *tile);

/** Removes the rows of a key. */
void attnc_tuning_remove(struct attnc_tuning *t, const char *key);

/** Appends a copy of `split`. Returns NULL if memory is exhausted. */
struct attnc_split *attnc_tuning_add_split(struct attnc_tuning *t, const struct attnc_split *split);

/** Reads the numbers of a call, "batch=4,k=8192,heads=32,kv_heads=4", to `out`. Other names are
 * ignored. Returns false if the text has another form, or if batch or k is missing or 0. */
bool attnc_split_call(const char *call, struct att_split *out);

/** True if plans for a kernel of the variant may have units of fewer than 64 keys: mla_decode with
 * sparse slots and a cache in the dtype of q. */
bool attnc_split_takes_units(const struct att_variant *v);

/** Copies the splits of each key to that row of the key which has no boxes of calls. A tuning that
 * was not read from a file needs this before attnc_tuning_apply(). Returns false if memory is
 * exhausted. */
bool attnc_tuning_link(struct attnc_tuning *t);

/** Sets *sibling to the variant that differs from the decode kernel `v` in that it also adds the
 * split-KV partials. Returns false if `v` does so itself, or if the template refuses the
 * sibling. */
bool attnc_split_sibling(const struct att_variant *v, struct att_variant *sibling);
/** Sets *combine to the variant of op `combine` that adds the split-KV partials of the decode
 * kernel `v`. Returns false if `v` adds them itself, or if the template refuses the variant. */
bool attnc_split_combine(const struct att_variant *v, struct att_variant *combine);

/** Appends a box without ranges to the calls of a choice. Returns NULL if memory is exhausted. */
struct att_box *attnc_choice_add(struct att_choice *choice);

/** Reads the tuning file `path` and collects all errors in `d`: unknown keys, reversed ranges,
 * overlapping boxes of one key, a key without a kernel for all other calls. Returns false if `d`
 * has errors. Free `t` in either case. */
bool attnc_tuning_read(const char *path, struct attnc_tuning *t, struct attnc_diag *d);

/** Like attnc_tuning_read(), for bytes in memory, which remain the caller's. The caller zeroes `t`,
 * and `d` except d->file. */
bool attnc_tuning_read_bytes(const char *bytes, size_t size, struct attnc_tuning *t,
                             struct attnc_diag *d);

/** Frees the rows, splits and text of a tuning. */
void attnc_tuning_free(struct attnc_tuning *t);

/** Writes a file that attnc_tuning_read() can read. */
void attnc_tuning_write(const struct attnc_tuning *t, FILE *out);

/**
 * Replaces each variant of `desc` that leaves its tile open by the kernels that `t` has for its
 * key. Adds the kernels that their splits need. The new variants point into `t`. A tile that the
 * template lacks, or that does not fit, is an error in `d`. Returns false after an error.
 */
bool attnc_tuning_apply(struct attnc_tuning *t, struct attnc_description *desc,
                        struct attnc_diag *d);

/** Reports each row whose key no variant had in attnc_tuning_apply() as an error with the reason.
 * Valid keys are reported only if they are for one of `targets` (NULL at the end), or if `targets`
 * is NULL. Returns false if an error was reported. */
bool attnc_tuning_check_matched(const struct attnc_tuning *t, const char *const *targets,
                                struct attnc_diag *d);

/** Returns the number of the candidate tile, as in att_variant.tile, that has the text `tile` for
 * variant `v`. Returns 0 if no candidate has that text or it does not fit. */
int attnc_find_candidate(const struct att_variant *v, const char *tile);

#endif

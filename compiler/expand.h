/* SPDX-License-Identifier: Apache-2.0
 *
 * Second half of the description reader. Expands the settings of one entry of `kernels` to
 * variants, one for each combination of values.
 */
#ifndef COMPILER_EXPAND_H
#define COMPILER_EXPAND_H

#include "compiler/description.h"
#include "compiler/yaml.h"

struct tgt;

/** One key of a kernel entry: the node ids of key and value in struct attnc_yaml, 0 if the entry
 * lacks the key. */
struct attnc_setting {
    uint32_t key, value;
    bool from_defaults; /* true: the key comes from `defaults`, not from the entry */
};

/** The keys of one kernel entry, after defaults and merge keys. */
struct attnc_settings {
    struct att_loc at; /* place of the entry in the description */
    struct attnc_setting op, targets, where;
    struct attnc_setting fields[ATT_FIELD_COUNT];
    /* ATT_BIT() of each field that an error for an unknown key has suggested */
    att_field_set misspelt;
};

struct attnc_choice;

/** State of one expansion. The caller sets the members before `used`; the others begin as 0. */
struct attnc_expander {
    const struct attnc_yaml *yaml;
    struct attnc_diag *d;
    const struct att_template *const *templates; /* the known ops, NULL at the end */
    const char *directory;                       /* base of relative paths of hook files */
    struct attnc_description *out;               /* receives the variants */

    att_field_set used; /* ATT_BIT() of the fields that any kernel uses */
    size_t work;        /* number of values processed, at most MAX_WORK */
    /* true for `where: possible`: combinations that an op refuses are left out without an error */
    bool leaves_out;
    size_t left_out;              /* combinations of the current entry that were left out */
    struct attnc_choice *choices; /* the values of all fields of the current entry */
    size_t choice_count, choice_cap;
    /* hash table of variants, open addressing, twice ATTNC_MAX_VARIANTS places: index in
     * out->variants plus 1; 0: free */
    uint32_t *table;
    size_t variant_cap; /* variants that out->variants has room for */
};

/** Frees the expander's memory; the variants remain in `out`. */
void attnc_expander_free(struct attnc_expander *x);

/**
 * Adds `n` to the number of values processed, x->work. If that exceeds MAX_WORK, returns false and
 * adds an error at `at`.
 */
bool attnc_spend(struct attnc_expander *x, size_t n, struct att_loc at);

/** Adds a variant for each combination of the values in `s` and each of `targets` (NULL at the
 * end). Faulty values are errors in `x->d`. Returns false if expansion cannot continue (memory,
 * limits). */
bool attnc_expand(struct attnc_expander *x, const struct attnc_settings *s,
                  const struct tgt *const *targets);

#endif

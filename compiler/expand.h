/* SPDX-License-Identifier: Apache-2.0
 *
 * Second half of the description reader: expands the settings of one kernel entry to variants.
 */
#ifndef COMPILER_EXPAND_H
#define COMPILER_EXPAND_H

#include "compiler/description.h"
#include "compiler/yaml.h"

struct tgt;

/** One key of a kernel entry: the node ids of key and value (struct attnc_yaml), 0 if the entry
 * lacks the key. */
struct attnc_setting {
    uint32_t key, value;
    bool from_defaults;
};

struct attnc_settings {
    struct att_loc at; /* place of the entry */
    struct attnc_setting op, targets, where;
    struct attnc_setting fields[ATT_FIELD_COUNT];
    att_field_set misspelt; /* ATT_BIT() of each field that an error for an unknown key has
                             * suggested */
};

struct attnc_choice;

/** State of one expansion. The caller sets the members before `used`; the others begin as 0. */
struct attnc_expander {
    const struct attnc_yaml *yaml;
    struct attnc_diag *d;
    const struct att_template *const *templates;
    const char *directory;
    struct attnc_description *out;

    att_field_set used; /* ATT_BIT() of the fields that any kernel uses */
    size_t work;        /* values processed, limited by MAX_WORK */
    bool leaves_out;    /* true for `where: possible`: combinations that an op refuses are left out
                         * without an error */
    size_t left_out;    /* combinations of the current entry that were left out */
    struct attnc_choice *choices;
    size_t choice_count, choice_cap;
    uint32_t *table; /* open addressing, index + 1 of a variant; twice ATTNC_MAX_VARIANTS */
    size_t variant_cap;
};

/** Frees the expander's memory; the variants remain in `out`. */
void attnc_expander_free(struct attnc_expander *x);

/**
 * Counts `n` more values against MAX_WORK, which limits the values of an expansion. Returns false
 * if the limit is exceeded, and an error is added at `at`.
 */
bool attnc_spend(struct attnc_expander *x, size_t n, struct att_loc at);

/** Adds a variant for each combination of the values in `s` and each of `targets` (NULL at the
 * end). Faulty values are errors in `x->d`. Returns false if expansion cannot continue (memory,
 * limits). */
bool attnc_expand(struct attnc_expander *x, const struct attnc_settings *s,
                  const struct tgt *const *targets);

#endif

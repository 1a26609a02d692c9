/* SPDX-License-Identifier: Apache-2.0
 *
 * Second half of the description reader: expands the settings of one kernel entry to variants.
 */
#ifndef COMPILER_EXPAND_H
#define COMPILER_EXPAND_H

#include "compiler/description.h"
#include "compiler/yaml.h"

struct tgt;

/** One key of a kernel entry: its node ids, 0 if it is absent. */
struct attnc_setting {
    uint32_t key, value;
    bool from_defaults;
};

struct attnc_settings {
    struct att_loc at; /* place of the entry */
    struct attnc_setting op, targets, where;
    struct attnc_setting fields[ATT_FIELD_COUNT];
    att_field_set misspelt; /* bit per field that was suggested for an unknown key */
};

struct attnc_choice;

/** State of one expansion. The caller sets the first group. */
struct attnc_expander {
    const struct attnc_yaml *yaml;
    struct attnc_diag *d;
    const struct att_template *const *templates;
    const char *directory;
    struct attnc_description *out;

    att_field_set used; /* ATT_BIT() of the fields that any kernel uses */
    size_t work;        /* values processed, limited by MAX_WORK */
    bool leaves_out;    /* where: possible, so combinations that an op refuses are left out */
    size_t left_out;    /* combinations of the current entry */
    struct attnc_choice *choices;
    size_t choice_count, choice_cap;
    uint32_t *table; /* open addressing, index + 1 of a variant; twice ATTNC_MAX_VARIANTS */
    size_t variant_cap;
};

/** Frees the expander's memory; the variants remain in `out`. */
void attnc_expander_free(struct attnc_expander *x);

/**
 * Charges `n` steps of work to the budget that bounds aliases and products. False: the budget is
 * exhausted, and an error is added at `at`.
 */
bool attnc_spend(struct attnc_expander *x, size_t n, struct att_loc at);

/** Adds the product of `s` for the NULL-terminated `targets`. Other errors are added to `x->d`.
 * False: expansion cannot continue (memory, limits). */
bool attnc_expand(struct attnc_expander *x, const struct attnc_settings *s,
                  const struct tgt *const *targets);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of the description reader: from the settings of one kernel entry to variants.
 */
#ifndef COMPILER_EXPAND_H
#define COMPILER_EXPAND_H

#include "compiler/description.h"
#include "compiler/yaml.h"

struct tgt;

/** One key of a kernel entry: node ids, 0 where it was not given. */
struct attnc_setting {
    uint32_t key, value;
    bool from_defaults;
};

struct attnc_settings {
    struct att_loc at; /* the entry */
    struct attnc_setting op, targets, where;
    struct attnc_setting fields[ATT_FIELD_COUNT];
    uint64_t misspelt; /* bit per field that an unknown key was taken for in a message */
};

struct attnc_choice;

/** State of one reading. The first group is the caller's. */
struct attnc_expander {
    const struct attnc_yaml *yaml;
    struct attnc_diag *d;
    const struct att_template *const *templates;
    const char *directory;
    struct attnc_description *out;

    uint64_t used;   /* ATT_BIT() of the fields that some kernel took */
    size_t work;     /* values looked at, against MAX_WORK */
    bool leaves_out; /* combinations that an op refuses are left out: where: possible */
    size_t left_out; /* by the entry that is expanded */
    struct attnc_choice *choices;
    size_t choice_count, choice_cap;
    uint32_t *table; /* open addressing, index + 1 of a variant; twice ATTNC_MAX_VARIANTS */
    size_t variant_cap;
};

/** Frees what the expander holds; the variants stay with `out`. */
void attnc_expander_free(struct attnc_expander *x);

/**
 * Counts `n` steps of work against the budget that keeps aliases and products in bounds; false,
 * with an error at `at`, when it is spent.
 */
bool attnc_spend(struct attnc_expander *x, size_t n, struct att_loc at);

/** Adds the product of `s` for the NULL-terminated `targets`. False only when it makes no sense to
 * go on (memory, limits); what else is wrong is in `x->d`. */
bool attnc_expand(struct attnc_expander *x, const struct attnc_settings *s,
                  const struct tgt *const *targets);

#endif

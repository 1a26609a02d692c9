/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a template: one op family, its algorithm and what it accepts. The front end
 * and the tests iterate over att_templates[]; nothing outside templates/ knows a family by name.
 */
#ifndef ATT_TEMPLATE_H
#define ATT_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "templates/variant.h"

struct tgt;
struct tir_func;

/* Why a variant cannot be built: a sentence, and the field that it is about. */
struct att_why {
    enum att_field field; /* ATT_FIELD_COUNT: the combination as a whole */
    char text[200];
};

/* Fills `why`; returns false, so that a check reads `return att_reject(why, ATT_HEAD_DIM, ...)`. */
bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct att_template {
    const char *name;        /* what a description's `op` says: "prefill" */
    const char *description; /* one line for `attnc help ops` */
    uint64_t takes;          /* ATT_BIT() of every field that it understands */

    /* Is this variant possible on this target? Called once per variant, from any thread. */
    bool (*check)(const struct att_variant *v, const struct tgt *t, struct att_why *why);

    /* Writes the algorithm as tile IR. `check` has said yes. */
    struct tir_func *(*build)(const struct att_variant *v, const struct tgt *t);
};

/* Every family, NULL at the end. */
extern const struct att_template *const att_templates[];

#endif

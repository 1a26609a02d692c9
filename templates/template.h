/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a template: one op family, its algorithm and what it accepts. The front end
 * and the tests iterate over att_templates[]; nothing outside templates/ knows a family by name.
 */
#ifndef ATT_TEMPLATE_H
#define ATT_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/passes.h"
#include "op_names.h"
#include "templates/variant.h"

struct tir_func;
struct tir_machine;

/* Why a variant cannot be built: a sentence, and the field that it is about. */
struct att_why {
    enum att_field field; /* ATT_FIELD_COUNT: the combination as a whole */
    char text[200];
};

/* Fills `why`; returns false, so that a check reads `return att_reject(why, ATT_HEAD_DIM, ...)`. */
bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One dimension of the grid: ceil(argument / divide) * times. */
struct att_grid {
    const char *arg; /* a name of op_args.def, which is made from ops/, or NULL for 1 */
    int divide;
    int times;
};

/* What a template makes of a variant. */
struct att_kernel {
    struct tir_func *func;        /* owned by the caller: tir_func_destroy() */
    struct tir_schedule schedule; /* for the pass pipeline */
    struct att_grid grid[3];
    char tuning[128]; /* the tile, for `attnc list`: "q=256 kv=32 waves=8 ..." */
};

struct att_template {
    const char *name;        /* what a description's `op` says: "prefill" */
    const char *description; /* one line for `attnc help ops` */
    uint64_t takes;          /* the fields of its key: OP_TAKES_<op>, made from ops/ */

    /* Is this variant possible on this target? Called once per variant, from any thread. */
    bool (*check)(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

    /* Writes the algorithm as tile IR. `check` has said yes. */
    void (*build)(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k);
};

/* Every family, NULL at the end. */
extern const struct att_template *const att_templates[];

#endif

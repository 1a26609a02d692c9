/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and tables that the core calls in other folders. parts.c sets them. */
#ifndef HIPSIM_PARTS_H
#define HIPSIM_PARTS_H

#include "check.h"

/* A mnemonic of GFX12 and the name of gfx950's row for the same operation. */
struct row_alias {
    const char *name, *row;
};

struct parts {
    /** Returns the tables of op rows. A table ends with a row without a name, the list with
     * NULL. */
    const struct op_row *const *(*rows)(void);
    /** GFX12's names for rows of gfx950; the last entry has no name. */
    const struct row_alias *aliases;
    /** Sets in->clocks and in->matrix_passes of a decoded instruction. */
    void (*clocks)(enum gfx_target target, struct inst *in);
    /** Calls in->exec() and records which of its results are defined. */
    void (*execute)(struct wave *w, const struct inst *in);
    /** Executes `n` instructions of straight-line code, for which straight_applies() must be
     * true. */
    void (*straight)(struct wave *w, const struct inst *const *in, unsigned n);
    const struct check *checks[CHECKS_MAX];
};

extern const struct parts simulator_parts;

#endif

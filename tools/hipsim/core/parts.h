/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and tables that the core uses from the folders above it. parts.c fills them in. */
#ifndef HIPSIM_PARTS_H
#define HIPSIM_PARTS_H

#include "check.h"

/* A mnemonic of GFX12 and the row of gfx950 that it means. */
struct row_alias {
    const char *name, *row;
};

struct parts {
    /** Returns the tables of op rows. A table ends with a row without a name, the list with
     *  NULL. */
    const struct op_row *const *(*rows)(void);
    /** GFX12's names for rows of gfx950; the last one has no name. */
    const struct row_alias *aliases;
    /** Sets in->clocks and in->matrix_passes of a decoded instruction. */
    void (*clocks)(enum gfx_target target, struct inst *in);
    /** Runs in->exec() and tracks undefined values through it. */
    void (*execute)(struct wave *w, const struct inst *in);
    /** Executes the first `n` instructions of straight-line code. straight_applies() must be true
     *  for it. */
    void (*straight)(struct wave *w, const struct inst *const *in, unsigned n);
    const struct check *checks[CHECKS_MAX];
};

extern const struct parts simulator_parts;

#endif

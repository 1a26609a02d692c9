/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of fitted knobs, targets/tuning/GFX.yaml: numbers of kernels' schedules that no rule of a
 * template gives. `attnc tune --defaults` writes the table, and a build of attnc compiles it in.
 * `attnc build --defaults` uses another table instead. docs/tuning.md is the manual.
 */
#ifndef COMPILER_FITTED_H
#define COMPILER_FITTED_H

#include <stdio.h>

#include "compiler/description.h"
#include "templates/template.h"

struct attnc_fitted {
    char target[16];         /* GPU architecture, such as "gfx950" */
    struct tir_fitted *rows; /* `count` rows, then one whose `kernels` is NULL; texts are owned */
    size_t count;
    char *bytes; /* the file's text, for messages; NULL: not read from a file */
    size_t size; /* length of `bytes` */
};

/** Reads the table in the file `path` and collects all errors in `d`: unknown keys, ops, knobs and
 * words. Returns false if `d` has errors. Free `f` in either case. */
bool attnc_fitted_read(const char *path, struct attnc_fitted *f, struct attnc_diag *d);

/** Makes all variants for f->target use the rows of `f` instead of the rows that are compiled in.
 * The variants then point into `f`. */
void attnc_fitted_apply(const struct attnc_fitted *f, struct attnc_description *desc);

/** Inserts a copy of `row` before the row with index `at`; if `at` is f->count, the copy becomes
 * the last row. Returns false if memory is exhausted. */
bool attnc_fitted_add(struct attnc_fitted *f, size_t at, const struct tir_fitted *row);

/** Removes the row with index `at`. */
void attnc_fitted_remove(struct attnc_fitted *f, size_t at);

/** Writes a file that attnc_fitted_read() and a build of attnc can read. */
void attnc_fitted_write(const struct attnc_fitted *f, FILE *out);

/** Frees the rows and the text of a table of fitted knobs. */
void attnc_fitted_free(struct attnc_fitted *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of fitted knobs, targets/tuning/GFX.yaml: numbers of kernels' schedules that no rule
 * finds. `attnc tune --defaults` writes it, a build of attnc compiles it in, and `attnc build
 * --defaults` takes another one in its place. docs/tuning.md is the manual.
 */
#ifndef COMPILER_FITTED_H
#define COMPILER_FITTED_H

#include <stdio.h>

#include "compiler/description.h"
#include "templates/template.h"

struct attnc_fitted {
    char target[16];
    struct tir_fitted *rows; /* ends with a row without kernels; texts are owned */
    size_t count;            /* without that row */
    char *bytes;             /* the file's text, for messages */
    size_t size;
};

/** Reads a table and collects all errors in `d`: unknown keys, ops, knobs and words. Free `f` in
 * either case. */
bool attnc_fitted_read(const char *path, struct attnc_fitted *f, struct attnc_diag *d);

/** Sets the fitted knobs of all variants for f->target to `f`'s rows, instead of the ones compiled
 * in. The variants then point into `f`. */
void attnc_fitted_apply(const struct attnc_fitted *f, struct attnc_description *desc);

/** Inserts a copy of `row` before row number `at`; with `at` = `count` it becomes the last. Returns
 * false if memory is exhausted. */
bool attnc_fitted_add(struct attnc_fitted *f, size_t at, const struct tir_fitted *row);

/** Removes row number `at`. */
void attnc_fitted_remove(struct attnc_fitted *f, size_t at);

/** Writes a file that attnc_fitted_read() and a build of attnc can read. */
void attnc_fitted_write(const struct attnc_fitted *f, FILE *out);

/** Frees the rows of a table of fitted defaults. */
void attnc_fitted_free(struct attnc_fitted *f);

#endif

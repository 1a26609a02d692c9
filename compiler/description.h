/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a description, which lists in YAML or JSON the kernels that an engine needs, and expands it
 * to variants. docs/description.md is its manual.
 */
#ifndef COMPILER_DESCRIPTION_H
#define COMPILER_DESCRIPTION_H

#include "compiler/diag.h"
#include "templates/template.h"

/** Most kernels of one description, before and after equal ones are merged. */
enum { ATTNC_MAX_VARIANTS = 1 << 16 };

struct attnc_description {
    struct att_variant *variants; /* no two equal, each accepted by its template's check */
    size_t count;                 /* number of variants */
    /* the block of att_choice and att_box to which variants point after attnc_add_seconds(); NULL
     * before it */
    void *seconds;
    char **paths; /* paths of the files that variants name, each once */
    size_t path_count;
    char *bytes; /* the file's text, for messages */
    size_t size; /* length of `bytes` */
};

struct attnc_read_options {
    /* names of targets, NULL at the end, instead of the file's targets; NULL: use the file's */
    const char *const *targets;
    /* the known ops, NULL at the end; NULL: att_templates */
    const struct att_template *const *templates;
};

/**
 * Reads the description `path` ("-": standard input) and collects all errors in `d`. Returns false
 * if `d` has errors; `out` then has no variants. In either case free `out` with
 * attnc_description_free() after the last use of `d`.
 */
bool attnc_read_description(const char *path, const struct attnc_read_options *options,
                            struct attnc_description *out, struct attnc_diag *d);

/**
 * Like attnc_read_description(), for bytes in memory, which remain the caller's. Relative paths in
 * the description start at `directory`. The caller zeroes `out` and `d`, except d->file.
 */
bool attnc_read_description_bytes(const char *bytes, size_t size, const char *directory,
                                  const struct attnc_read_options *options,
                                  struct attnc_description *out, struct attnc_diag *d);

/** Writes all targets with their products to `text`, which has `size` bytes: "gfx942 (MI300X) and
 * gfx950 (MI355X)". */
void attnc_list_targets(char *text, size_t size);

/** Frees what the description has allocated. */
void attnc_description_free(struct attnc_description *desc);

#endif

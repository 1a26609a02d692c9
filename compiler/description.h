/* SPDX-License-Identifier: Apache-2.0
 *
 * A description: which kernels an engine wants, as YAML or JSON, expanded to variants.
 * docs/description.md is its manual.
 */
#ifndef COMPILER_DESCRIPTION_H
#define COMPILER_DESCRIPTION_H

#include "compiler/diag.h"
#include "templates/template.h"

/** Kernels of one description, before equal ones are merged and after. */
enum { ATTNC_MAX_VARIANTS = 1 << 16 };

struct attnc_description {
    struct att_variant *variants; /* all different, each accepted by its template's check */
    size_t count;
    void *seconds; /* what attnc_add_seconds() has added points to: it is called once */
    char **paths;  /* what variants' file fields point to */
    size_t path_count;
    char *bytes; /* the file, for messages about it */
    size_t size;
};

struct attnc_read_options {
    const char *const *targets; /* NULL-terminated, in place of the file's; or NULL */
    const struct att_template *const *templates; /* NULL: att_templates */
};

/**
 * Reads `path` ("-": standard input). All that is wrong is collected in `d`; false when anything
 * is, and then `out` holds no variants. Free with attnc_description_free() after the last use of
 * `d`, in either case.
 */
bool attnc_read_description(const char *path, const struct attnc_read_options *options,
                            struct attnc_description *out, struct attnc_diag *d);

/**
 * The same for bytes in memory, which stay with the caller; `directory` is where relative paths
 * start. `out` and `d` begin zeroed, but for d->file.
 */
bool attnc_read_description_bytes(const char *bytes, size_t size, const char *directory,
                                  const struct attnc_read_options *options,
                                  struct attnc_description *out, struct attnc_diag *d);

/** "gfx942 (MI300X) and gfx950 (MI355X)": what there is to compile for. */
void attnc_list_targets(char *text, size_t size);

void attnc_description_free(struct attnc_description *desc);

#endif

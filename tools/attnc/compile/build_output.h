/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the outputs of `attnc build`: the kinds of --emit, each made of built kernels.
 */
#ifndef TOOLS_ATTNC_BUILD_OUTPUT_H
#define TOOLS_ATTNC_BUILD_OUTPUT_H

#include "compiler/driver.h"

/** One description of a build. */
struct build_unit {
    const char *path;
    struct attnc_description desc;
    struct attnc_diag d;
    struct attnc_build_result built;
};

enum container { VARIANTS, TEXT, FILES, PACK, HEADER, OBJECT, NINJA };

struct emit_row {
    const char *name;
    enum container container;
    enum attnc_stage stage;
    const char *suffix; /* FILES: of each kernel's file */
};

/** The kinds of --emit, the default first; a row without a name ends them. */
extern const struct emit_row emits[];

/**
 * Drops from a description what those before it have. `seen` is a tsearch() tree of all names, NULL
 * at first; tdestroy(seen, free) ends it. Equal names of different variants are two hook files of
 * one name: an error. Returns an exit_code after a message that names the command.
 */
int drop_seen(const char *command, struct attnc_description *desc, void **seen);

/**
 * Writes what `emit` says to `path`. `name` is the symbol's for a header or object, NULL to take
 * the file's. Sets *pack_bytes where there is a pack. Returns an exit_code after a message.
 */
int write_build(const struct build_unit *units, size_t count, const struct emit_row *emit,
                const char *path, const char *name, size_t *pack_bytes);

#endif

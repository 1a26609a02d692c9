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

/** The kinds of --emit, the default first. The last row has no name. */
extern const struct emit_row emits[];

/**
 * Removes from a description the variants that earlier descriptions have. `seen` is a tsearch()
 * tree of all names, NULL at first; tdestroy(seen, free) ends it. Equal names of different variants
 * are two hook files of one name: an error. Returns an exit_code after a message that names the
 * command.
 */
int drop_seen(const char *command, struct attnc_description *desc, void **seen);

/**
 * Writes the output of kind `emit` to `path`. `name` is the name of the symbol in a header or
 * object; NULL: it follows from the file's name. Sets *pack_bytes to the size if a pack is made.
 * Returns an exit_code after a message.
 */
int write_build(const struct build_unit *units, size_t count, const struct emit_row *emit,
                const char *path, const char *name, size_t *pack_bytes);

#endif

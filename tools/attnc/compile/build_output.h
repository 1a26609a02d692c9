/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the outputs of `attnc build`: the kinds of --emit, and how each is made of
 * compiled kernels.
 */
#ifndef TOOLS_ATTNC_BUILD_OUTPUT_H
#define TOOLS_ATTNC_BUILD_OUTPUT_H

#include "compiler/driver.h"

/** A description of a build, with its messages and its compiled kernels. */
struct build_unit {
    const char *path;
    struct attnc_description desc;
    struct attnc_diag d;
    struct attnc_build_result built;
};

/** The form of an output. VARIANTS and TEXT are text; FILES are files with one kernel each; HEADER
 * and OBJECT are a C header and an object file that contain a pack; NINJA is a ninja file. */
enum container { VARIANTS, TEXT, FILES, PACK, HEADER, OBJECT, NINJA };

/** A kind of --emit. */
struct emit_row {
    /* Name of the kind in the argument of --emit. */
    const char *name;
    /* Form of the output. */
    enum container container;
    /* The last stage of the compiler that runs for it. */
    enum attnc_stage stage;
    /* Suffix of each kernel's file, without the point; NULL unless `container` is FILES. */
    const char *suffix;
};

/** The kinds of --emit, the default first. The last row has no name. */
extern const struct emit_row emits[];

/** Removes from a description the variants that earlier descriptions have. `seen` is a tsearch()
 * tree of all kernel names, NULL before the first call; the caller ends it with tdestroy(seen,
 * free). Two different variants have equal names only if their hook files have; that is an error.
 * Returns an exit_code after a message that begins with `command`. */
int drop_seen(const char *command, struct attnc_description *desc, void **seen);

/** Writes the output of kind `emit` of all `count` descriptions to `path`. `name` is the C name of
 * the pack in a header or object file; NULL: derived from the path. *pack_bytes gets the size of
 * the pack, or 0 if none is made. Returns an exit_code after a message. */
int write_build(const struct build_unit *units, size_t count, const struct emit_row *emit,
                const char *path, const char *name, size_t *pack_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_BUILD_NINJA_H
#define TOOLS_ATTNC_BUILD_NINJA_H

#include "tools/attnc/compile/build_output.h"

/** Options that every edge's command repeats; NULL: not given. */
struct ninja_options {
    const char *targets, *tuning, *defaults;
};

/**
 * Writes `path`, "out/x.ninja": edges that make out/x.kernels/KERNEL.attnpack, and out/x.attnpack
 * of them, from the folder in which attnc runs now. Returns an exit_code after a message.
 */
int write_ninja(const struct build_unit *units, size_t count, const struct ninja_options *o,
                const char *path);

#endif

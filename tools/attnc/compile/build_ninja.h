/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_BUILD_NINJA_H
#define TOOLS_ATTNC_BUILD_NINJA_H

#include "tools/attnc/compile/build_output.h"

/** Options of `attnc build` that the command of each edge repeats; NULL: not given. */
struct ninja_options {
    const char *targets, *tuning, *defaults;
};

/** Writes the ninja file `path`, such as "out/x.ninja". Its edges make
 * out/x.kernels/KERNEL.attnpack for each kernel and join these to out/x.attnpack. Paths are
 * relative to the folder in which attnc runs now. Returns an exit_code after a message. */
int write_ninja(const struct build_unit *units, size_t count, const struct ninja_options *o,
                const char *path);

#endif

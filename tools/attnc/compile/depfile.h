/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_DEPFILE_H
#define TOOLS_ATTNC_DEPFILE_H

#include "tools/attnc/compile/build_output.h"

/** Writes the file `path` with a rule of make, which Ninja and CMake read too: `output` depends on
 * every description, every hook file and the files that hooks include. Returns an exit_code after a
 * message. */
int write_depfile(const struct build_unit *units, size_t count, const char *output,
                  const char *path);

#endif

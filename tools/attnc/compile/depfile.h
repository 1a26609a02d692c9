/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_DEPFILE_H
#define TOOLS_ATTNC_DEPFILE_H

#include "tools/attnc/compile/build_output.h"

/**
 * Writes to `path` a rule of make: `output` depends on every description, every hook file and what
 * those include. Ninja and CMake read the same. Returns an exit_code after a message.
 */
int write_depfile(const struct build_unit *units, size_t count, const char *output,
                  const char *path);

#endif

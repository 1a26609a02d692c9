/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the C files that a description names into the archive of attnc on-gpu.
 */
#ifndef TOOLS_ATTNC_COPY_HOOKS_H
#define TOOLS_ATTNC_COPY_HOOKS_H

/**
 * Copies the hooks of the description `path` (absolute, without links) and the files that they
 * include into `folder`, the archive's folder of descriptions. Each file keeps its path relative to
 * the description's folder. A file outside the description's folder is not copied; a line on the
 * standard error names it. `hooks` (PATH_MAX bytes) is "" before the first call, and each call sets
 * it to the folder of the description's hooks, if it has hooks. Hooks in two folders are an error,
 * since `attnc verify` takes one folder. Two different files with the same path in `folder` are
 * another. Copies nothing if the description has errors. `target` is the GPU's name, such as
 * "gfx950". Returns an exit_code after a message.
 */
int copy_hooks(const char *path, const char *target, const char *folder, char *hooks);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the C files that a description names into the archive of attnc on-gpu.
 */
#ifndef TOOLS_ATTNC_COPY_HOOKS_H
#define TOOLS_ATTNC_COPY_HOOKS_H

/**
 * Copies the hooks of the description `path` (absolute, without links) and the files that they
 * include into `folder`, a folder for descriptions in the archive. A file has the same path
 * relative to the description there, and a link becomes a file. A file outside the description's
 * folder is not copied; a line on the standard error names it. So does one for a file that the
 * description or a hook names by an absolute path. `hooks` has the folder of the hooks copied
 * before, or "", and gets the folder of these (PATH_MAX bytes). Hooks in two folders are an error,
 * since `attnc verify` takes one folder, and so are two different files for one place. Copies
 * nothing if the description has errors. `target` is the GPU's name, such as "gfx950". Returns an
 * exit_code after a message.
 */
int copy_hooks(const char *path, const char *target, const char *folder, char *hooks);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's C file, compiled by Clang to bitcode that the lowering inlines (runtime/attn_hook.h).
 */
#ifndef COMPILER_HOOKS_H
#define COMPILER_HOOKS_H

#include <stdbool.h>

#include "targets/codegen.h"

enum attnc_hook_result {
    ATTNC_HOOK_COMPILED,
    ATTNC_HOOK_REJECTED, /* `messages` is what Clang says about the file */
    ATTNC_HOOK_NO_CLANG, /* errno says why it does not run */
};

/** Compiles `path` for `target`. `bitcode` and `messages` (warnings, too) are the caller's to free.
 * Any thread. */
enum attnc_hook_result attnc_compile_hook(const char *path, const char *target,
                                          struct tgt_blob *bitcode, struct tgt_blob *messages);

/**
 * Compiles `path` for this machine, as the shared object `output`, so that a reference can call the
 * function that a kernel inlines. `messages` as above.
 */
enum attnc_hook_result attnc_compile_hook_for_host(const char *path, const char *output,
                                                   struct tgt_blob *messages);

/**
 * The files that a hook depends on, itself first, as the right-hand side of a rule of make: spaces
 * and backslashes at line ends between them. `text` and `messages` are the caller's to free.
 */
enum attnc_hook_result attnc_hook_dependencies(const char *path, struct tgt_blob *text,
                                               struct tgt_blob *messages);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a hook, a user's C file that changes logits (runtime/attn_hook.h), with Clang to
 * bitcode. The lowering inlines the bitcode in the kernel.
 */
#ifndef COMPILER_HOOKS_H
#define COMPILER_HOOKS_H

#include <stdbool.h>

#include "targets/codegen.h"

enum attnc_hook_result {
    ATTNC_HOOK_COMPILED,
    ATTNC_HOOK_REJECTED, /* Clang refused the hook; `messages` has its errors */
    ATTNC_HOOK_NO_CLANG, /* Clang could not be run; errno has the reason */
};

/** Compiles the C file `path` for `target` ("gfx942") to LLVM bitcode. `messages` receives Clang's
 * errors and warnings as text. The caller frees `bitcode` and `messages`. May run on any thread. */
enum attnc_hook_result attnc_compile_hook(const char *path, const char *target,
                                          struct tgt_blob *bitcode, struct tgt_blob *messages);

/**
 * Compiles the hook `path` for the CPU to the shared object `output`, so that a reference
 * computation on the host can call it. `messages` as in attnc_compile_hook().
 */
enum attnc_hook_result attnc_compile_hook_for_host(const char *path, const char *output,
                                                   struct tgt_blob *messages);

/**
 * Lists in `text` the hook `path` and the files that it includes, in the syntax of a make rule's
 * right-hand side: separated by spaces, with backslashes at line ends. The caller frees `text` and
 * `messages`.
 */
enum attnc_hook_result attnc_hook_dependencies(const char *path, struct tgt_blob *text,
                                               struct tgt_blob *messages);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs Clang on a hook file. Bitcode is not cached: only Clang knows the included files, and a run
 * takes less than 50 ms. The cache keys of kernels need the bitcode.
 */
#include "compiler/hooks.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/process.h"

/* The program Clang and its options for a hook, for every target. Signed integers and pointers
 * wrap, so that no value of a hook is poison: targets/codegen.c relies on that. */
#define HOOK_DIALECT                                                                            \
    ATTNC_CLANG, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fwrapv", \
        "-fwrapv-pointer"

/* Folders in which attn_hook.h can be, relative to the folder of the running program: when
 * installed, and in the build tree. */
static const char *const places[] = {"../" ATTNC_INCLUDEDIR, "../../compiler"};

/* Paths of the folder and the file of attn_hook.h, which has the prototype of attn_logits(). Clang
 * reads it before each hook, so that it reports a mismatch at the hook's parameters. */
struct prototype {
    char folder[PATH_MAX], header[PATH_MAX + 16];
};

/* Finds attn_hook.h by the path of the running program. Returns false if it is not installed. */
static bool find_prototype(struct prototype *p)
{
    char self[PATH_MAX], place[PATH_MAX + 64];
    if (!attnc_program_path(self))
        return false;
    const char *const directory = dirname(self);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(place, sizeof(place), "%s/%s", directory, places[i]);
        if (!realpath(place, p->folder))
            continue;
        snprintf(p->header, sizeof(p->header), "%s/attn_hook.h", p->folder);
        if (access(p->header, R_OK) == 0)
            return true;
    }
    return false;
}

/* Compiles a hook, as attnc_compile_hook(). `debug` is Clang's option for debug information. */
static enum attnc_hook_result compile(const char *path, const char *target, const char *debug,
                                      struct tgt_blob *bitcode, struct tgt_blob *messages)
{
    struct prototype p;
    const bool found = find_prototype(&p);
    char cpu[64];
    snprintf(cpu, sizeof(cpu), "-mcpu=%s", target);
    const char *const argv[] = {
        HOOK_DIALECT,
        "-target",
        "amdgcn-amd-amdhsa",
        cpu,
        "-nogpulib",
        "-ffreestanding",
        "-O2",
        debug,
        "-fno-math-errno",
        "-fno-vectorize",
        "-fno-slp-vectorize",
        "-mcode-object-version=5", /* the version of kernels: bitcode of another version would not
                                    * link */
        "-emit-llvm",
        "-c",
        "-o",
        "-",
        path,
        found ? "-I" : NULL,
        p.folder,
        "-include",
        p.header,
        NULL,
    };
    int status;
    if (!attnc_run_process(argv, bitcode, messages, &status))
        return ATTNC_HOOK_NO_CLANG;
    if (status == 0 && bitcode->size > 0)
        return ATTNC_HOOK_COMPILED;
    tgt_blob_free(bitcode);
    return ATTNC_HOOK_REJECTED;
}

/* Rejects the hook because its variable `v` outlives a call. A second run of Clang, with debug
 * information, finds the variable's line. Replaces `messages`. */
static enum attnc_hook_result refuse_variable(const char *path, const char *target,
                                              struct tgt_hook_variable *v, struct tgt_blob *bitcode,
                                              struct tgt_blob *messages)
{
    tgt_blob_free(bitcode);
    tgt_blob_free(messages);
    if (compile(path, target, "-g", bitcode, messages) == ATTNC_HOOK_COMPILED)
        tgt_find_hook_variable(bitcode, v);
    tgt_blob_free(bitcode);
    tgt_blob_free(messages);
    char *text = NULL;
    const int size = asprintf(&text,
                              "%s:%u: error: '%s' keeps its value from call to call, and calls run "
                              "side by side: make it const, or a variable of the function\n",
                              path, v->line, v->name);
    if (size < 0) {
        errno = ENOMEM;
        return ATTNC_HOOK_NO_CLANG;
    }
    *messages = (struct tgt_blob){(uint8_t *)text, (size_t)size};
    return ATTNC_HOOK_REJECTED;
}

enum attnc_hook_result attnc_compile_hook(const char *path, const char *target,
                                          struct tgt_blob *bitcode, struct tgt_blob *messages)
{
    struct tgt_hook_variable v;
    const enum attnc_hook_result result = compile(path, target, "-g0", bitcode, messages);
    if (result == ATTNC_HOOK_COMPILED && tgt_find_hook_variable(bitcode, &v))
        return refuse_variable(path, target, &v, bitcode, messages);
    return result;
}

enum attnc_hook_result attnc_compile_hook_for_host(const char *path, const char *output,
                                                   struct tgt_blob *messages)
{
    struct prototype p;
    const bool found = find_prototype(&p);
    const char *const argv[] = {
        HOOK_DIALECT,
        "-O2",
        "-ffreestanding",
        "-fno-math-errno",
        "-fPIC",
        "-shared",
        "-nostdlib",
        "-fuse-ld=lld",
        "-o",
        output,
        path,
        found ? "-I" : NULL,
        p.folder,
        "-include",
        p.header,
        NULL,
    };
    struct tgt_blob nothing = {0};
    int status;
    if (!attnc_run_process(argv, &nothing, messages, &status))
        return ATTNC_HOOK_NO_CLANG;
    tgt_blob_free(&nothing);
    return status ? ATTNC_HOOK_REJECTED : ATTNC_HOOK_COMPILED;
}

enum attnc_hook_result attnc_hook_dependencies(const char *path, struct tgt_blob *text,
                                               struct tgt_blob *messages)
{
    struct prototype p;
    const bool found = find_prototype(&p);
    const char *const argv[] = {
        ATTNC_CLANG, "-x",
        "c",         "-std=c11",
        "-target",   "amdgcn-amd-amdhsa",
        "-nogpulib", "-ffreestanding",
        "-MM", /* lists the files that a file includes, without system headers */
        "-MT",       "x",
        path,        found ? "-I" : NULL,
        p.folder,    NULL,
    };
    int status;
    if (!attnc_run_process(argv, text, messages, &status))
        return ATTNC_HOOK_NO_CLANG;
    if (status == 0 && text->size > 2 && memcmp(text->data, "x:", 2) == 0) {
        memmove(text->data, text->data + 2, text->size - 2);
        text->size -= 2;
        text->data[text->size] = 0;
        return ATTNC_HOOK_COMPILED;
    }
    tgt_blob_free(text);
    return ATTNC_HOOK_REJECTED;
}

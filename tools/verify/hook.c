/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/hook.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/hooks.h"

/* A loaded logits function. */
struct hook {
    void *library;
    ref_logits *function;
};

/* Compiles the logits function in the file `source` to the shared library `output`. Returns false
 * with a message in `why` on failure. */
static bool compile(const char *source, const char *output, char *why, size_t why_size)
{
    struct tgt_blob messages = {0};
    const enum attnc_hook_result r = attnc_compile_hook_for_host(source, output, &messages);
    if (r == ATTNC_HOOK_NO_CLANG)
        snprintf(why, why_size, "clang cannot be run");
    else if (r == ATTNC_HOOK_REJECTED)
        snprintf(why, why_size, "%s does not compile for the host: %s", source,
                 (const char *)messages.data);
    tgt_blob_free(&messages);
    return r == ATTNC_HOOK_COMPILED;
}

/* Loads the compiled logits function at `path`. Returns NULL with a message in `why` on failure. */
static struct hook *load(const char *path, char *why, size_t why_size)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "attn_logits") : NULL;
    struct hook *hook = address ? malloc(sizeof(*hook)) : NULL;
    if (!hook) {
        snprintf(why, why_size, "the logits function cannot be loaded: %s",
                 library ? "no attn_logits()" : dlerror());
        if (library)
            dlclose(library);
        return NULL;
    }
    hook->library = library;
    memcpy(&hook->function, &address, sizeof(address));
    return hook;
}

struct hook *hook_open(const char *directory, const char *name, char *why, size_t why_size)
{
    if (!directory) {
        snprintf(why, why_size, "it calls the logits function '%s': --hooks DIR says where %s.c is",
                 name, name);
        return NULL;
    }
    char source[4096], output[] = "/tmp/attnc-hook-XXXXXX";
    snprintf(source, sizeof(source), "%s/%s.c", directory, name);
    int fd = mkstemp(output);
    if (fd < 0) {
        snprintf(why, why_size, "no temporary file can be made");
        return NULL;
    }
    close(fd);
    struct hook *hook = compile(source, output, why, why_size) ? load(output, why, why_size) : NULL;
    unlink(output);
    return hook;
}

void hook_close(struct hook *hook)
{
    if (!hook)
        return;
    dlclose(hook->library);
    free(hook);
}

ref_logits *hook_function(const struct hook *hook) { return hook->function; }

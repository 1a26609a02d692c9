/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads comgr, the library of ROCm that reads the metadata of code objects.
 */
#include "targets/comgr.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TEXT(number) #number
#define LIBRARY(major) "libamd_comgr.so." TEXT(major)

struct tgt_comgr tgt_comgr;

static struct {
    pthread_once_t once;
    bool loaded;     /* true if tgt_comgr is complete */
    char error[256]; /* message of dlerror() if `loaded` is false */
} state = {.once = PTHREAD_ONCE_INIT};

/* Loads the library and looks up its functions. A callback of pthread_once(). */
static void load(void)
{
    void *library = dlopen(LIBRARY(AMD_COMGR_INTERFACE_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);
    state.loaded = library != NULL;
#define LOOK_UP(name)                                     \
    if (state.loaded) {                                   \
        void *found = dlsym(library, "amd_comgr_" #name); \
        memcpy(&tgt_comgr.name, &found, sizeof(found));   \
        state.loaded = found != NULL;                     \
    }
    TGT_COMGR_CALLS(LOOK_UP)
#undef LOOK_UP
    if (state.loaded)
        return;
    const char *sentence = dlerror();
    /* The sentences of glibc for a failed mmap() and malloc(). */
    const bool memory = strstr(sentence, "failed to map") || strstr(sentence, "allocate memory");
    snprintf(state.error, sizeof(state.error), "comgr: %s%s", memory ? "out of memory: " : "",
             sentence);
}

bool tgt_load_comgr(char *why, size_t size)
{
    pthread_once(&state.once, load);
    if (!state.loaded)
        snprintf(why, size, "%s", state.error);
    return state.loaded;
}

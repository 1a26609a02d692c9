/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the simulated GPU. */
#include "tests/runtime/simulator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulator simulator_load(const char *path)
{
    struct simulator s;
    void *library = dlopen(path, RTLD_NOW);
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
#define SIMULATED(type, name, parameters) {#name, &s.name},
        SIMULATOR_FUNCTIONS(SIMULATED)
#undef SIMULATED
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *address = library ? dlsym(library, functions[i].name) : NULL;
        if (!address) {
            fprintf(stderr, "%s\n", dlerror());
            exit(2);
        }
        memcpy(functions[i].slot, &address, sizeof(address));
    }
    return s;
}

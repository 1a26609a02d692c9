/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds entry points by name, for hipGetProcAddress(). This file has no prototypes of HIP: each
 * function is only an address here.
 */
#include "hip_entry.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void entry_point(void);

#define HIP_API(name, version, how) extern entry_point name;
#include "hip_api.def"
#undef HIP_API

struct entry {
    const char *name;
    entry_point *function;
};

static const struct entry entries[] = {
#define HIP_API(name, version, how) {#name, name},
#include "hip_api.def"
#undef HIP_API
};

/* Returns the name in this library of a function that HIP's headers have renamed since 6.0, because
 * a struct among its arguments changed. */
static const char *renamed(const char *name, int version)
{
    if (version >= 600 && strcmp(name, "hipGetDeviceProperties") == 0)
        return "hipGetDevicePropertiesR0600";
    if (version >= 600 && strcmp(name, "hipChooseDevice") == 0)
        return "hipChooseDeviceR0600";
    return name;
}

void *hip_entry_point(const char *name, int version)
{
    name = renamed(name, version);
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        void *address;
        if (strcmp(entries[i].name, name) != 0)
            continue;
        memcpy(&address, &entries[i].function, sizeof(address));
        return address;
    }
    return NULL;
}

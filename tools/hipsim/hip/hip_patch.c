/* SPDX-License-Identifier: Apache-2.0 */
#include "hip_patch.h"

#include <stdio.h>
#include <string.h>

/* A dword of a kernel to replace. */
struct patch {
    char kernel[OPTION_TEXT];
    unsigned long long offset; /* bytes from the kernel's entry */
    uint32_t word;
};

/* Parses "KERNEL+BYTES:WORD" to *p. False if the text is something else. */
static bool read_patch(const char *text, struct patch *p)
{
    const char *plus = strrchr(text, '+');
    int read = 0;

    if (!plus || plus == text || sscanf(plus, "+%llu:%x%n", &p->offset, &p->word, &read) != 2 ||
        plus[read] || p->offset % 4)
        return false;
    snprintf(p->kernel, sizeof(p->kernel), "%.*s", (int)(plus - text), text);
    return true;
}

bool hip_patch_configure(const struct options *options, char *why, size_t why_size)
{
    struct patch unused;

    if (!*options->patch || read_patch(options->patch, &unused))
        return true;
    snprintf(why, why_size,
             "option patch does not take \"%.60s\": KERNEL+BYTES:WORD, BYTES a multiple of 4",
             options->patch);
    return false;
}

void hip_patch_apply(const struct code_object *code)
{
    const struct options options = hip_options();
    struct patch p;

    if (!*options.patch || !read_patch(options.patch, &p))
        return;
    const struct kernel *kernel = code_object_kernel(code, p.kernel);
    const uint64_t begin = code->code ? code_address(code->code) : 0;
    const uint64_t at = kernel ? kernel->entry + p.offset : 0;
    if (kernel && at >= begin && at + sizeof(p.word) <= begin + code_size(code->code))
        memcpy((void *)(uintptr_t)at, &p.word, sizeof(p.word));
}

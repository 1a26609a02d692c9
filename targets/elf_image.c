/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/elf_image.h"

#include <pthread.h>
#include <stdint.h>

/* Initialises libelf, once per process. */
static void start_libelf(void) { elf_version(EV_CURRENT); }

Elf *tgt_open_elf(const void *data, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_libelf);
    /* libelf takes a pointer to mutable memory, but only reads it. */
    return elf_memory((char *)(uintptr_t)data, size);
}

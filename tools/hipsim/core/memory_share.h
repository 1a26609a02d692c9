/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that other processes can map.
 *
 * A process has one sparse memory file, as large as its arena. A shared page is a mapping of that
 * file, at the page's offset in the arena, until its allocation is freed. All other pages are
 * private. Another process opens the file through /proc and maps the shared part.
 */
#ifndef HIPSIM_MEMORY_SHARE_H
#define HIPSIM_MEMORY_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes in another process's memory file. */
struct hipsim_mem_place {
    pid_t process;
    int file;        /* file descriptor in that process */
    uint64_t offset; /* byte offset in the file */
    uint64_t size;
};

/** Shares the bytes from `address` to the end of its allocation. Sets *place to where another
 * process can open them. The bytes count as initialised, since other processes may write them. On
 * failure false, with errno set. */
bool hipsim_mem_share(uint64_t address, struct hipsim_mem_place *place);

/** Makes the pages of the allocation that contains `address` private again. Call it before freeing
 * the allocation. */
void hipsim_mem_unshare(uint64_t address);

/** Maps another process's bytes as memory of `device`. They do not count as memory in use. On
 * failure NULL, with errno set. */
void *hipsim_mem_open(const struct hipsim_mem_place *place, unsigned device);

/** Unmaps the memory that hipsim_mem_open() has returned. */
void hipsim_mem_close(void *pointer);

/** True if this process shares memory or has opened another's. Memory that a kernel polls may
 * change at any time then. */
bool hipsim_mem_is_shared(void);

#endif

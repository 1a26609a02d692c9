/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that other processes see.
 *
 * A process has one sparse file in memory, as large as its arena. A page that is shared is a part
 * of it, at its offset in the arena, from then on until what is allocated there is freed; all
 * others stay private. Another process opens the file by /proc and maps the part.
 */
#ifndef HIPSIM_MEMORY_SHARE_H
#define HIPSIM_MEMORY_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of another process. */
struct hipsim_mem_place {
    pid_t process;
    int file;        /* its descriptor there */
    uint64_t offset; /* in the file */
    uint64_t size;
};

/** Shares the allocation from `address`, inside of it, to its end: its bytes count as written,
 *  since others may write them. False: errno says why. */
bool hipsim_mem_share(uint64_t address, struct hipsim_mem_place *place);

/** Makes an allocation's pages private again; called before it is freed. */
void hipsim_mem_unshare(uint64_t address);

/** Maps another process's bytes as memory of `device`, of whose memory they take none. NULL: errno
 *  says why. */
void *hipsim_mem_open(const struct hipsim_mem_place *place, unsigned device);

/** Ends what hipsim_mem_open() began. */
void hipsim_mem_close(void *pointer);

/** Has this process shared memory, or opened another's? What it polls may change then. */
bool hipsim_mem_is_shared(void);

#endif

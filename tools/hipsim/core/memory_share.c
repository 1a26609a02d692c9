/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/falloc.h>

#include "memory.h"

#define PAGE UINT64_C(4096)

struct range { /* pages that are shared: byte offsets in the arena */
    uint64_t begin, end;
    struct range *next;
};

static struct {
    pthread_mutex_t lock;
    int file; /* file descriptor + 1; 0: the file does not exist yet */
    struct range *ranges;
    _Atomic bool used;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool hipsim_mem_is_shared(void) { return atomic_load(&shared.used); }

/* Returns the shared range that has the arena offset. NULL: none. */
static struct range *range_of(uint64_t offset)
{
    struct range *r = shared.ranges;

    while (r && (offset < r->begin || offset >= r->end))
        r = r->next;
    return r;
}

/* Creates the file of shared pages at first use. False on failure. */
static bool make_file(void)
{
    if (shared.file)
        return true;
    const int file = memfd_create("hipsim-shared", MFD_CLOEXEC);
    if (file < 0)
        return false;
    if (ftruncate(file, (off_t)hipsim_arena.size) != 0) {
        close(file);
        return false;
    }
    shared.file = file + 1;
    return true;
}

/* Copies to the file all pages of the range that were ever accessed: the ones that proc(5) calls
 * present or swapped. `begin` and `end` are byte offsets in the arena. False if a write fails. */
static bool save(uint64_t begin, uint64_t end)
{
    const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool ok = true;

    for (uint64_t at = begin; ok && at < end; at += PAGE) {
        const char *p = (const char *)(uintptr_t)(hipsim_arena.base + at);
        uint64_t entry;
        const off_t place = (off_t)((uintptr_t)p / PAGE * sizeof(entry));
        const bool known = pread(map, &entry, sizeof(entry), place) == (ssize_t)sizeof(entry);
        if (!known || entry >> 62)
            ok = pwrite(shared.file - 1, p, PAGE, (off_t)at) == (ssize_t)PAGE;
    }
    if (map >= 0)
        close(map);
    return ok;
}

/* Moves the pages of an arena range to the shared file. False on failure. */
static bool share_pages(uint64_t begin, uint64_t end)
{
    struct range *r = malloc(sizeof(*r));

    if (!r || !save(begin, end) ||
        mmap((void *)(uintptr_t)(hipsim_arena.base + begin), end - begin, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, shared.file - 1, (off_t)begin) == MAP_FAILED) {
        free(r);
        return false;
    }
    *r = (struct range){.begin = begin, .end = end, .next = shared.ranges};
    shared.ranges = r;
    return true;
}

/* Shares the pages of the range that are not shared yet; its ends are byte offsets in the arena.
 * The caller has locked the list. False on failure. */
static bool share_missing(uint64_t begin, uint64_t end)
{
    bool ok = make_file();

    for (uint64_t at = begin; ok && at < end;) {
        const struct range *r = range_of(at);
        uint64_t stop = r ? r->end : at + PAGE;
        while (!r && stop < end && !range_of(stop))
            stop += PAGE;
        ok = r || share_pages(at, stop);
        at = stop;
    }
    return ok;
}

/* Returns the slot of the live allocation that has the address. NULL: none. */
static struct hipsim_mem_slot *live(uint64_t address)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search(address);

    return slot && (atomic_load(&slot->state) & 3) == HIPSIM_MEM_LIVE
               ? (struct hipsim_mem_slot *)(uintptr_t)slot
               : NULL;
}

bool hipsim_mem_share(uint64_t address, struct hipsim_mem_place *place)
{
    struct hipsim_mem_slot *slot = live(address);

    errno = EINVAL;
    if (!slot || address - hipsim_arena.base >= hipsim_arena.size)
        return false;
    const uint64_t base = slot->base - hipsim_arena.base, size = hipsim_mem_slot_size(slot);
    const uint64_t offset = address - hipsim_arena.base;
    if (offset >= base + size)
        return false;
    pthread_mutex_lock(&shared.lock);
    const bool ok = share_missing(base & ~(PAGE - 1), (base + size + PAGE - 1) & ~(PAGE - 1));
    *place = (struct hipsim_mem_place){.process = getpid(),
                                       .file = shared.file - 1,
                                       .offset = offset,
                                       .size = base + size - offset};
    if (ok) {
        slot->host_visible = 1;
        atomic_store(&shared.used, true);
    }
    pthread_mutex_unlock(&shared.lock);
    return ok;
}

/* Replaces the pages at `address` by private ones of zeros, the arena's original state. */
static void map_private(uint64_t address, uint64_t size)
{
    if (size)
        mmap((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Removes [begin, end), byte offsets in the arena, from the list of shared pages. A range with both
 * ends outside becomes two entries. */
static void cut(uint64_t begin, uint64_t end)
{
    for (struct range **link = &shared.ranges; *link;) {
        struct range *r = *link;
        if (r->end <= begin || r->begin >= end) {
            link = &r->next;
            continue;
        }
        struct range *rest = r->begin < begin && r->end > end ? malloc(sizeof(*rest)) : NULL;
        if (rest) {
            *rest = (struct range){.begin = end, .end = r->end, .next = r->next};
            r->next = rest;
        }
        if (r->begin < begin) {
            r->end = begin;
        } else if (r->end > end) {
            r->begin = end;
        } else {
            *link = r->next;
            free(r);
        }
    }
}

/* Makes the allocation's pages private again, as memory_share.h says. Pages that also contain bytes
 * of other allocations remain shared. */
void hipsim_mem_unshare(uint64_t address)
{
    const struct hipsim_mem_slot *slot = live(address);

    if (!slot || !hipsim_mem_is_shared())
        return;
    const uint64_t begin = (slot->base - hipsim_arena.base + PAGE - 1) & ~(PAGE - 1);
    const uint64_t end = (slot->limit - hipsim_arena.base) & ~(PAGE - 1);
    pthread_mutex_lock(&shared.lock);
    for (uint64_t at = begin; at < end; at += PAGE) {
        const struct range *r = range_of(at);
        if (!r)
            continue;
        const uint64_t stop = r->end < end ? r->end : end;
        map_private(hipsim_arena.base + at, stop - at);
        (void)fallocate(shared.file - 1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                        (off_t)(stop - at));
        cut(at, stop);
        at = stop - PAGE;
    }
    pthread_mutex_unlock(&shared.lock);
}

/* The functions from here on open another process's memory. */

/* Opens the shared file of another process. -1: failure. */
static int open_file(const struct hipsim_mem_place *place)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)place->process, place->file);
    return open(path, O_RDWR | O_CLOEXEC);
}

void *hipsim_mem_open(const struct hipsim_mem_place *place, unsigned device)
{
    const uint64_t inside = place->offset & (PAGE - 1);
    const uint64_t span = (inside + place->size + PAGE - 1) & ~(PAGE - 1);
    const struct hipsim_mem_request request = {.size = inside + place->size,
                                               .alignment = PAGE,
                                               .kind = HIPSIM_MEM_OPENED,
                                               .device = device};
    const int file = open_file(place);

    if (file < 0)
        return NULL;
    char *p = hipsim_mem_alloc(&request);
    if (p && mmap(p, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                  (off_t)(place->offset - inside)) == MAP_FAILED) {
        hipsim_mem_free(p);
        p = NULL;
    }
    if (p)
        atomic_store(&shared.used, true);
    close(file);
    return p ? p + inside : NULL;
}

void hipsim_mem_close(void *pointer)
{
    const struct hipsim_mem_slot *slot = live((uintptr_t)pointer);

    if (!slot || slot->kind != HIPSIM_MEM_OPENED)
        return;
    map_private(slot->base, (hipsim_mem_slot_size(slot) + PAGE - 1) & ~(PAGE - 1));
    hipsim_mem_free((void *)(uintptr_t)slot->base);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device memory.
 *
 * One arena of address space is reserved for the whole process, and all simulated devices share it.
 * A device pointer is a host virtual address in the arena, so a checked access is a plain load or
 * store. The host adds a page when it is first accessed, so an allocation of many GiB costs
 * nothing.
 *
 * The arena is a sequence of *slots* by address, which never move. A slot has at most one
 * allocation, followed by a redzone. A freed slot is in quarantine before it is reused, to detect
 * use after free. The table of slots only grows, and the state of a slot is one atomic word.
 * Lookups therefore need no lock and may run while other threads allocate and free.
 *
 * A shadow has one bit per byte of the arena: 1 if the byte has been written. Registered host
 * memory is outside of the arena: it can be looked up and checked, but has no shadow. Memory that
 * the host may write directly (pinned, managed, registered) counts as initialised.
 */
#ifndef HIPSIM_MEMORY_H
#define HIPSIM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hipsim_mem_kind {
    HIPSIM_MEM_DEVICE,     /* memory of hipMalloc and of pools */
    HIPSIM_MEM_MANAGED,    /* hipMallocManaged: memory that the host may access too */
    HIPSIM_MEM_HOST,       /* hipHostMalloc: pinned host memory, which is in the arena */
    HIPSIM_MEM_REGISTERED, /* hipHostRegister: the caller's memory, outside of the arena */
    HIPSIM_MEM_CODE,       /* a loaded code object; kernels may not store to its text */
    /* kernel arguments and dispatch packets; kernels may not store to them */
    HIPSIM_MEM_KERNARG,
    HIPSIM_MEM_RUNTIME,  /* buffers of hostcalls and printf */
    HIPSIM_MEM_SCRATCH,  /* memory of private segments */
    HIPSIM_MEM_RESERVED, /* hipMemAddressReserve: addresses, and memory where some is mapped */
    HIPSIM_MEM_OPENED,   /* hipIpcOpenMemHandle: memory of another process */
};

/* State of a slot, in the low two bits of its state word. */
enum hipsim_mem_state {
    HIPSIM_MEM_EMPTY,
    HIPSIM_MEM_LIVE,
    HIPSIM_MEM_FREED,
    HIPSIM_MEM_PARTIAL, /* live; only the granules that hipsim_mem_permit() allows are accessible */
};

/* Bytes of a granule, the unit in which hipsim_mem_permit() allows access. */
#define HIPSIM_MEM_GRANULE UINT64_C(4096)

struct hipsim_mem_slot {
    uint64_t base;           /* address of the first byte; constant once published */
    uint64_t limit;          /* address of the next slot's first byte; constant once published */
    _Atomic uint64_t state;  /* bytes of the allocation << 2 | enum hipsim_mem_state */
    _Atomic uint64_t serial; /* number of the allocation, from 1 in the order of creation */
    uint64_t text_begin;     /* range that kernels may not write; HIPSIM_MEM_CODE only */
    uint64_t text_end;
    /* index of the next slot in the quarantine's queue; needs the allocator's lock */
    uint32_t next_free;
    uint8_t kind; /* enum hipsim_mem_kind */
    uint8_t device;
    /* true: the host writes the memory directly, so all bytes count as initialised */
    uint8_t host_visible;
    uint8_t read_only; /* true: kernels may not write the memory */
    uint32_t flags;    /* flags of the API call that allocated the memory */
};

/* Returns the size of the slot's allocation in bytes. */
static inline uint64_t hipsim_mem_slot_size(const struct hipsim_mem_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) >> 2;
}

struct hipsim_arena {
    uint64_t base;
    uint64_t size;
    /* a bit per byte, 1: initialised; word i is for bytes [64 i, 64 i + 64) */
    _Atomic uint64_t *shadow;
    _Atomic uint64_t used; /* bytes of the arena that are in slots; all of them are mapped */
    /* largest serial of the allocations that count as initialised without a shadow */
    _Atomic uint64_t untracked_serial;
};

/** The process's arena. All members are 0 before hipsim_mem_init(). */
extern struct hipsim_arena hipsim_arena;

/** Limits the arena to what devices with `bytes` bytes of memory in total need. Valgrind's time is
 * proportional to it. No effect after hipsim_mem_init(). */
void hipsim_mem_expect(uint64_t bytes);

/** Reserves the arena; later calls do nothing. Thread-safe. On failure false, with errno set. */
bool hipsim_mem_init(void);

struct hipsim_mem_request {
    uint64_t size;      /* bytes of the allocation; 0 is refused */
    uint64_t alignment; /* a power of two; 0: as hipMalloc guarantees it */
    enum hipsim_mem_kind kind;
    unsigned device;
    uint32_t flags; /* flags that the slot records for the caller */
};

/** Allocates memory and returns its address. Does not access the pages. The bytes count as
 * uninitialised unless the host may write them. NULL if the arena or the slot table is full.
 * Thread-safe. */
void *hipsim_mem_alloc(const struct hipsim_mem_request *request);

/** Frees the allocation that begins at `pointer`. False if there is none. Thread-safe. */
bool hipsim_mem_free(const void *pointer);

/** Sets whether kernels may read and write the granules in [address, address + size) of a
 * reservation. Both ends must be multiples of a granule. Thread-safe. */
void hipsim_mem_permit(uint64_t address, uint64_t size, bool reads, bool writes);

/** Adds `bytes`, possibly negative, to the device's memory in use, for memory that no live slot
 * counts. */
void hipsim_mem_account(unsigned device, int64_t bytes);

/** Sets `size` bytes of the arena to zero. Returns whole pages to the host instead. */
void hipsim_mem_clear(void *pointer, uint64_t size);

/** Makes the addresses [begin, end) of a code allocation read-only for kernels. */
void hipsim_mem_protect_text(const void *pointer, uint64_t begin, uint64_t end);

/** Makes host memory of the caller accessible to kernels of `device`. False if it overlaps the
 * arena or another registration, or if the table is full. */
bool hipsim_mem_register(void *pointer, uint64_t size, unsigned device, uint32_t flags);

/** Removes the registration that begins at `pointer`. False if there is none. */
bool hipsim_mem_unregister(const void *pointer);

/** Returns the bytes of the live allocations that use memory of `device`. */
uint64_t hipsim_mem_in_use(unsigned device);

/* The functions from here on look up and check addresses; they take no lock, and kernels may run
 * meanwhile. */

/* The slot that a thread found last. Zero-initialise it; one per thread. */
struct hipsim_mem_cursor {
    const struct hipsim_mem_slot *slot;
};

/** Returns the slot whose allocation or redzone contains `address`; NULL if none does. */
const struct hipsim_mem_slot *hipsim_mem_search(uint64_t address);

/* Returns the slot that has the address, and remembers it in the cursor. NULL: none. */
static inline const struct hipsim_mem_slot *hipsim_mem_find(struct hipsim_mem_cursor *cursor,
                                                            uint64_t address)
{
    const struct hipsim_mem_slot *slot = cursor->slot;

    if (slot && address - slot->base < slot->limit - slot->base)
        return slot;
    slot = hipsim_mem_search(address);
    if (slot)
        cursor->slot = slot;
    return slot;
}

enum hipsim_mem_verdict {
    HIPSIM_MEM_OK,
    HIPSIM_MEM_OUT_OF_BOUNDS, /* the access has bytes of a redzone */
    HIPSIM_MEM_USE_AFTER_FREE,
    HIPSIM_MEM_NOT_MAPPED, /* there has never been an allocation at this address */
    HIPSIM_MEM_READ_ONLY,  /* a store to code or kernel arguments */
};

/** Checks an access that the cursor's slot does not allow, for hipsim_mem_check(). Searches the
 * slot of `address`. */
enum hipsim_mem_verdict hipsim_mem_check_again(struct hipsim_mem_cursor *cursor, uint64_t address,
                                               uint64_t size, bool is_store);

/** Checks a kernel's access of `size` bytes at `address`. The host can access the bytes if the
 * verdict is HIPSIM_MEM_OK or HIPSIM_MEM_READ_ONLY. For other verdicts see hipsim_mem_mapped(). */
static inline enum hipsim_mem_verdict hipsim_mem_check(struct hipsim_mem_cursor *cursor,
                                                       uint64_t address, uint64_t size,
                                                       bool is_store)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_find(cursor, address);

    if (!slot)
        return HIPSIM_MEM_NOT_MAPPED;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint64_t allocated = state >> 2;
    if ((state & 3) == HIPSIM_MEM_LIVE && size <= allocated &&
        address - slot->base <= allocated - size && !(is_store && slot->read_only))
        return HIPSIM_MEM_OK;
    return hipsim_mem_check_again(cursor, address, size, is_store);
}

/** True if the host can access [address, address + size) without a fault, whether the bytes are
 * allocated or not. With the checks off this is the only test. */
static inline bool hipsim_mem_mapped(uint64_t address, uint64_t size)
{
    uint64_t used = atomic_load_explicit(&hipsim_arena.used, memory_order_acquire);
    uint64_t offset = address - hipsim_arena.base;

    return offset < used && size <= used - offset;
}

/** Writes a sentence about `size` bytes at `address` and the nearest allocation to `text`, of
 * `length` bytes. An example: "16 bytes past the end of the 4096 B allocation #3 at 0x200000001000
 * (hipMalloc)". */
void hipsim_mem_describe(uint64_t address, uint64_t size, char *text, size_t length);

/* The functions from here on keep the shadow of initialised bytes. */

/** Returns a mask with bit i set if the byte at address + i is initialised; `bytes` is at most 32.
 * `address` must be in the arena. */
static inline uint32_t hipsim_mem_written_mask(uint64_t address, unsigned bytes)
{
    uint64_t offset = address - hipsim_arena.base;
    const _Atomic uint64_t *word = hipsim_arena.shadow + (offset >> 6);
    unsigned shift = offset & 63;
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed) >> shift;

    if (shift + bytes > 64)
        bits |= atomic_load_explicit(word + 1, memory_order_relaxed) << (64 - shift);
    return (uint32_t)(bits & ((UINT64_C(1) << bytes) - 1));
}

/** True if the slot's allocation has a shadow; false if all of it counts as initialised. */
static inline bool hipsim_mem_tracked(const struct hipsim_mem_slot *slot)
{
    return !slot->host_visible &&
           atomic_load_explicit(&slot->serial, memory_order_relaxed) >
               atomic_load_explicit(&hipsim_arena.untracked_serial, memory_order_relaxed);
}

/** Sets the shadow bits in `mask` for the 64 bytes at `address`, a multiple of 64. Other threads
 * may set other bits of the same line at the same time. */
static inline void hipsim_mem_mark_line(uint64_t address, uint64_t mask)
{
    _Atomic uint64_t *word = hipsim_arena.shadow + ((address - hipsim_arena.base) >> 6);

    if ((atomic_load_explicit(word, memory_order_relaxed) & mask) != mask)
        atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
}

/** Marks `bytes` bytes at `address` as initialised; at most 64 bytes, at any address in the
 * arena. */
static inline void hipsim_mem_mark_small(uint64_t address, unsigned bytes)
{
    unsigned shift = (address - hipsim_arena.base) & 63;
    uint64_t mask = bytes == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bytes) - 1;

    hipsim_mem_mark_line(address - shift, mask << shift);
    if (shift + bytes > 64)
        hipsim_mem_mark_line(address - shift + 64, mask >> (64 - shift));
}

/** Mark `size` bytes at `address` as initialised, and as uninitialised. Parts outside of the arena
 * are ignored. */
void hipsim_mem_mark(uint64_t address, uint64_t size);
void hipsim_mem_unmark(uint64_t address, uint64_t size);

/** Copies the shadow of `size` copied bytes, so that copying uninitialised memory is allowed and
 * its use is still detected. A source outside of the arena counts as initialised. */
void hipsim_mem_copy_marks(uint64_t destination, uint64_t source, uint64_t size);

/** True if all `size` bytes are initialised or in memory without a shadow. */
bool hipsim_mem_is_written(struct hipsim_mem_cursor *cursor, uint64_t address, uint64_t size);

/** Makes all existing allocations count as initialised. Called before a kernel runs with the checks
 * off, since its stores are not marked. */
void hipsim_mem_trust_existing(void);

#endif

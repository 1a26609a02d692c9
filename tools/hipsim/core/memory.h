/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device memory.
 *
 * One arena of address space is reserved for the whole process and shared by all simulated devices.
 * A device pointer is a host virtual address inside it, so a checked access is a plain load or
 * store. Pages are backed when first touched, so an allocation of many GiB costs nothing.
 *
 * The arena is a sequence of *slots*, in ascending address order and never moved. A slot holds at
 * most one allocation, followed by a redzone. A freed slot is quarantined before reuse, to detect
 * use after free. The slot table only grows, and the state of a slot is one atomic word. Lookups
 * therefore take no lock and may run while other threads allocate and free.
 *
 * A shadow holds one bit per byte of the arena: 1 if the byte has been written. Registered host
 * memory lies outside the arena: it can be looked up and checked, but has no shadow. Memory that
 * the host may write directly (pinned, managed, registered) counts as initialised.
 */
#ifndef HIPSIM_MEMORY_H
#define HIPSIM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hipsim_mem_kind {
    HIPSIM_MEM_DEVICE,     /* hipMalloc and pools */
    HIPSIM_MEM_MANAGED,    /* hipMallocManaged: plain memory that the host may touch */
    HIPSIM_MEM_HOST,       /* hipHostMalloc: pinned memory inside the arena */
    HIPSIM_MEM_REGISTERED, /* hipHostRegister: the caller's memory, outside the arena */
    HIPSIM_MEM_CODE,       /* a loaded code object; kernels may not store to its text */
    HIPSIM_MEM_KERNARG,    /* kernel arguments, dispatch packets: kernels may not store to it */
    HIPSIM_MEM_RUNTIME,    /* hostcall and printf buffers */
    HIPSIM_MEM_SCRATCH,    /* backing of private segments */
    HIPSIM_MEM_RESERVED,   /* hipMemAddressReserve: addresses, and memory where some is mapped */
    HIPSIM_MEM_OPENED,     /* hipIpcOpenMemHandle: another process's */
};

/* State of a slot: the low bits of its state word. */
enum hipsim_mem_state {
    HIPSIM_MEM_EMPTY,
    HIPSIM_MEM_LIVE,
    HIPSIM_MEM_FREED,
    HIPSIM_MEM_PARTIAL, /* live; only the granules set by hipsim_mem_permit() are accessible */
};

/* Granule in which access to reservations is permitted. */
#define HIPSIM_MEM_GRANULE UINT64_C(4096)

struct hipsim_mem_slot {
    uint64_t base;           /* first byte; constant once published */
    uint64_t limit;          /* first byte of the next slot; constant once published */
    _Atomic uint64_t state;  /* size << 2 | enum hipsim_mem_state */
    _Atomic uint64_t serial; /* allocations are numbered from 1 in order of creation */
    uint64_t text_begin;     /* HIPSIM_MEM_CODE: range that a kernel may not write */
    uint64_t text_end;
    uint32_t next_free; /* quarantine queue, guarded by the allocator's lock */
    uint8_t kind;       /* enum hipsim_mem_kind */
    uint8_t device;
    uint8_t host_visible; /* the host writes it directly, so it counts as initialised */
    uint8_t read_only;    /* for kernels */
    uint32_t flags;       /* flags of the API call */
};

static inline uint64_t hipsim_mem_slot_size(const struct hipsim_mem_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) >> 2;
}

struct hipsim_arena {
    uint64_t base;
    uint64_t size;
    _Atomic uint64_t *shadow; /* a bit per byte, 1: initialised; word i: bytes [64 i, 64 i + 64) */
    _Atomic uint64_t used;    /* bytes handed out to slots; all of them are mapped */
    _Atomic uint64_t untracked_serial; /* allocations with serials up to this one count as
                                        * initialised */
};

/** The process's arena. All zero before hipsim_mem_init(). */
extern struct hipsim_arena hipsim_arena;

/** Limits the arena to what devices with `bytes` of memory in total need; valgrind needs time in
 *  proportion to it. No effect after hipsim_mem_init(). */
void hipsim_mem_expect(uint64_t bytes);

/** Reserves the arena; later calls do nothing. Thread-safe. False with errno set if the address
 *  space is not available. */
bool hipsim_mem_init(void);

struct hipsim_mem_request {
    uint64_t size;      /* bytes; 0 is refused */
    uint64_t alignment; /* power of two; 0: the guarantee of hipMalloc */
    enum hipsim_mem_kind kind;
    unsigned device;
    uint32_t flags; /* kept in the slot for the caller */
};

/** Allocates without touching the pages. The bytes count as uninitialised unless the host may write
 *  them. NULL if the arena or the slot table is exhausted. Thread-safe. */
void *hipsim_mem_alloc(const struct hipsim_mem_request *request);

/** Frees the allocation that starts at `pointer`. False if there is none. Thread-safe. */
bool hipsim_mem_free(const void *pointer);

/** Sets whether kernels may read and write the granules in [address, address + size) of a
 *  reservation. Whole granules only. Thread-safe. */
void hipsim_mem_permit(uint64_t address, uint64_t size, bool reads, bool writes);

/** Adds `bytes` to the device's memory in use, for memory that has no slot or whose slot is
 *  free. */
void hipsim_mem_account(unsigned device, int64_t bytes);

/** Zeroes bytes of the arena; whole pages are returned to the host instead. */
void hipsim_mem_clear(void *pointer, uint64_t size);

/** Makes [begin, end) of a code allocation read-only for kernels. */
void hipsim_mem_protect_text(const void *pointer, uint64_t begin, uint64_t end);

/** Makes host memory of the caller accessible to the device. False if it overlaps the arena or
 *  another registration, or if the table is full. */
bool hipsim_mem_register(void *pointer, uint64_t size, unsigned device, uint32_t flags);

/** Removes the registration that starts at `pointer`. False if there is none. */
bool hipsim_mem_unregister(const void *pointer);

/** Returns the bytes of live allocations that count against the memory of `device`. */
uint64_t hipsim_mem_in_use(unsigned device);

/* -- lookup and checks: lock-free, for use while kernels run ----------------------------------- */

/* The last slot that a thread has hit. Zero-initialise; one per thread. */
struct hipsim_mem_cursor {
    const struct hipsim_mem_slot *slot;
};

/** Returns the slot whose span (allocation and redzone) holds `address`, or NULL. */
const struct hipsim_mem_slot *hipsim_mem_search(uint64_t address);

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
    HIPSIM_MEM_OUT_OF_BOUNDS, /* in or across the redzone of an allocation */
    HIPSIM_MEM_USE_AFTER_FREE,
    HIPSIM_MEM_NOT_MAPPED, /* no allocation has ever been at this address */
    HIPSIM_MEM_READ_ONLY,  /* a store to code or to kernel arguments */
};

/** Slow path of hipsim_mem_check(): looks the address up again. */
enum hipsim_mem_verdict hipsim_mem_check_again(struct hipsim_mem_cursor *cursor, uint64_t address,
                                               uint64_t size, bool is_store);

/** Checks a kernel's access of `size` bytes at `address`. Only HIPSIM_MEM_OK and
 *  HIPSIM_MEM_READ_ONLY guarantee that the bytes can be touched; see hipsim_mem_mapped() for the
 *  others. */
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

/** True if [address, address + size) can be touched without a fault, allocated or not: everything
 *  below the arena's high-water mark. The only test when the checks are off. */
static inline bool hipsim_mem_mapped(uint64_t address, uint64_t size)
{
    uint64_t used = atomic_load_explicit(&hipsim_arena.used, memory_order_acquire);
    uint64_t offset = address - hipsim_arena.base;

    return offset < used && size <= used - offset;
}

/** Writes a sentence about `address` and the nearest allocation, such as "16 bytes past the end of
 *  the 4096 B allocation #3 at 0x200000001000 (hipMalloc)". */
void hipsim_mem_describe(uint64_t address, uint64_t size, char *text, size_t length);

/* -- the shadow of initialised bytes ----------------------------------------------------------- */

/** Returns a mask with bit i set if byte address + i is initialised. `bytes` <= 32. `address` must
 *  be inside the arena. */
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

/** True if the slot's allocation keeps a shadow; false if all of it counts as initialised. */
static inline bool hipsim_mem_tracked(const struct hipsim_mem_slot *slot)
{
    return !slot->host_visible &&
           atomic_load_explicit(&slot->serial, memory_order_relaxed) >
               atomic_load_explicit(&hipsim_arena.untracked_serial, memory_order_relaxed);
}

/** Sets the shadow bits in `mask` of the 64-byte line that holds `address` (`address` & 63 must be
 *  0). Safe against other threads' bits of the same line. */
static inline void hipsim_mem_mark_line(uint64_t address, uint64_t mask)
{
    _Atomic uint64_t *word = hipsim_arena.shadow + ((address - hipsim_arena.base) >> 6);

    if ((atomic_load_explicit(word, memory_order_relaxed) & mask) != mask)
        atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
}

/** Marks up to 64 bytes at any address inside the arena as initialised. */
static inline void hipsim_mem_mark_small(uint64_t address, unsigned bytes)
{
    unsigned shift = (address - hipsim_arena.base) & 63;
    uint64_t mask = bytes == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bytes) - 1;

    hipsim_mem_mark_line(address - shift, mask << shift);
    if (shift + bytes > 64)
        hipsim_mem_mark_line(address - shift + 64, mask >> (64 - shift));
}

/** Marks any range as initialised or uninitialised. Parts outside the arena are ignored. */
void hipsim_mem_mark(uint64_t address, uint64_t size);
void hipsim_mem_unmark(uint64_t address, uint64_t size);

/** Copies the shadow of a copied range, so that copying uninitialised memory is allowed and using
 *  it is still detected. A source outside the arena counts as initialised. */
void hipsim_mem_copy_marks(uint64_t destination, uint64_t source, uint64_t size);

/** True if every byte is initialised or in memory without a shadow. */
bool hipsim_mem_is_written(struct hipsim_mem_cursor *cursor, uint64_t address, uint64_t size);

/** Makes all existing allocations count as initialised. Called before a kernel runs with the checks
 *  off, since its stores are not marked. */
void hipsim_mem_trust_existing(void);

#endif

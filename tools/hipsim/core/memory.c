/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device memory: the arena, its slots and their quarantine, the shadow. */
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __has_feature
#    define HAS_FEATURE(x) __has_feature(x)
#else
#    define HAS_FEATURE(x) 0
#endif

#define TIB (UINT64_C(1) << 40)
#define GIB (UINT64_C(1) << 30)
#define PAGE UINT64_C(4096)

/*
 * Address at which the arena is wanted. It is above AddressSanitizer's shadow (up to 0x10007fff8000
 * on x86-64) and far below the region that the kernel uses for mmap(). A fixed address makes runs
 * repeatable. ThreadSanitizer allows only three narrow windows, so the kernel chooses the address
 * there.
 */
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#    define ARENA_HINT UINT64_C(0)
#    define ARENA_SIZE (256 * GIB)
#    define MAX_SLOTS (UINT32_C(1) << 20)
#else
#    define ARENA_HINT UINT64_C(0x200000000000)
#    define ARENA_SIZE (16 * TIB)
#    define MAX_SLOTS (UINT32_C(1) << 26)
#endif

#define MAX_REGISTERED 65536u
#define MAX_DEVICES 256

/* Number of later frees in a freed slot's size class after which the slot is reused. */
#define QUARANTINE 64
#define NO_SLOT UINT32_MAX

/* Least bytes of a quarantined slot that returns its pages and its shadow to the host. 64 slots of
 * every smaller class have 50 MiB at most. */
#define RETURNED_BYTES UINT64_C(65536)

/* Number of size classes: eight per power of two. */
#define CLASSES (48 * 8)

/* Freed slots of a size class, the oldest at the head: indices of slots. */
struct queue {
    uint32_t head;
    uint32_t tail;
    uint32_t length;
};

struct hipsim_arena hipsim_arena;

static struct {
    pthread_mutex_t lock;
    struct hipsim_mem_slot *slots; /* slots of the arena, by address */
    _Atomic uint32_t slot_count;
    /* registrations of host memory, in the order of their creation */
    struct hipsim_mem_slot *registered;
    _Atomic uint32_t registered_count;
    uint64_t mapped; /* bytes of the arena that are readable and writable */
    uint64_t last_serial;
    struct queue freed[CLASSES];
    _Atomic uint64_t in_use[MAX_DEVICES];
    uint64_t arena_size;
    _Atomic uint64_t *readable; /* a bit per granule of the arena; only for reservations */
    _Atomic uint64_t *writable;
    bool ready;
} mem = {.lock = PTHREAD_MUTEX_INITIALIZER, .arena_size = ARENA_SIZE};

/* Reserves address space, at `hint` if possible. NULL: not possible. */
static void *reserve(uint64_t hint, uint64_t size, int protection)
{
    void *p = mmap((void *)(uintptr_t)hint, size, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, size, MADV_DONTDUMP);
    return p;
}

/* Reserves the arena, the shadow and the tables. False on failure. */
static bool reserve_all(void)
{
    void *arena = reserve(ARENA_HINT, mem.arena_size, PROT_NONE);
    void *shadow = reserve(0, mem.arena_size / 8 + PAGE, PROT_NONE);
    void *slots = reserve(0, MAX_SLOTS * sizeof(*mem.slots), PROT_READ | PROT_WRITE);
    void *registered = reserve(0, MAX_REGISTERED * sizeof(*mem.slots), PROT_READ | PROT_WRITE);

    const uint64_t granule_bytes = mem.arena_size / HIPSIM_MEM_GRANULE / 8 + PAGE;
    void *permitted = reserve(0, 2 * granule_bytes, PROT_READ | PROT_WRITE);

    if (!arena || !shadow || !slots || !registered || !permitted)
        return false;
    mem.readable = permitted;
    mem.writable = (void *)((char *)permitted + granule_bytes);
    mem.slots = slots;
    mem.registered = registered;
    for (unsigned i = 0; i < CLASSES; i++)
        mem.freed[i] = (struct queue){.head = NO_SLOT, .tail = NO_SLOT};
    hipsim_arena.base = (uintptr_t)arena;
    hipsim_arena.size = mem.arena_size;
    hipsim_arena.shadow = shadow;
    return true;
}

/* Limits the arena, as memory.h says. The arena is a multiple of the memory, since freed memory is
 * in quarantine before it is reused. */
void hipsim_mem_expect(uint64_t bytes)
{
    const uint64_t resting = 256;

    pthread_mutex_lock(&mem.lock);
    if (!mem.ready)
        mem.arena_size = bytes < ARENA_SIZE / resting ? bytes * resting : ARENA_SIZE;
    pthread_mutex_unlock(&mem.lock);
}

bool hipsim_mem_init(void)
{
    pthread_mutex_lock(&mem.lock);
    if (!mem.ready)
        mem.ready = reserve_all();
    bool ready = mem.ready;
    pthread_mutex_unlock(&mem.lock);
    return ready;
}

/* Returns the value rounded up to a multiple of the alignment, a power of 2. */
static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Returns `span` rounded up to its size class, in steps of one eighth of a power of two. Sets
 * *class to the class's number. */
static uint64_t class_span(uint64_t span, unsigned *class)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(span);
    uint64_t step = UINT64_C(1) << (log - 3);

    span = align_up(span, step);
    log = 63 - (unsigned)__builtin_clzll(span);
    *class = log * 8 + (unsigned)(span >> (log - 3) & 7);
    return span;
}

/* Makes the first `end` bytes of the arena and their shadow accessible. False if the host
 * refuses. */
static bool map_up_to(uint64_t end)
{
    if (end <= mem.mapped)
        return true;
    uint64_t grown = align_up(end, 64 * 1024 * 1024);
    if (grown > hipsim_arena.size)
        grown = hipsim_arena.size;
    char *arena = (char *)(uintptr_t)hipsim_arena.base;
    char *shadow = (char *)hipsim_arena.shadow;
    if (mprotect(arena + mem.mapped, grown - mem.mapped, PROT_READ | PROT_WRITE) != 0)
        return false;
    /* one more page, since a mask that ends at the last byte reads the next word */
    if (mprotect(shadow, grown / 8 + PAGE, PROT_READ | PROT_WRITE) != 0)
        return false;
    mem.mapped = grown;
    return true;
}

/* Returns a new slot of `span` bytes at the end of the arena. NULL: no room. */
static struct hipsim_mem_slot *append_slot(uint64_t span, uint64_t alignment)
{
    uint32_t index = atomic_load_explicit(&mem.slot_count, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&hipsim_arena.used, memory_order_relaxed);
    /* The first page has no slot, so that the first allocation also has a redzone before it. */
    const uint64_t first = hipsim_arena.base + (used ? used : PAGE);
    uint64_t begin = align_up(first, alignment) - hipsim_arena.base;

    if (index == MAX_SLOTS || begin > hipsim_arena.size || span > hipsim_arena.size - begin)
        return NULL;
    if (!map_up_to(begin + span))
        return NULL;
    struct hipsim_mem_slot *slot = &mem.slots[index];
    slot->base = hipsim_arena.base + begin;
    slot->limit = slot->base + span;
    atomic_store_explicit(&hipsim_arena.used, begin + span, memory_order_release);
    atomic_store_explicit(&mem.slot_count, index + 1, memory_order_release);
    return slot;
}

/* Returns the first freed slot of the class. NULL: only `rest` or fewer slots are free, or the
 * first one lacks the alignment. */
static struct hipsim_mem_slot *reuse_slot(unsigned class, uint64_t alignment, uint32_t rest)
{
    struct queue *queue = &mem.freed[class];

    if (queue->length <= rest)
        return NULL;
    struct hipsim_mem_slot *slot = &mem.slots[queue->head];
    if (slot->base & (alignment - 1))
        return NULL;
    queue->head = slot->next_free;
    if (--queue->length == 0)
        queue->tail = NO_SLOT;
    return slot;
}

/* Returns a slot of `span` bytes: a freed one, otherwise a new one. NULL: no room. */
static struct hipsim_mem_slot *take_slot(uint64_t span, unsigned class, uint64_t alignment)
{
    struct hipsim_mem_slot *slot = reuse_slot(class, alignment, QUARANTINE);

    if (!slot)
        slot = append_slot(span, alignment);
    if (!slot)
        slot = reuse_slot(class, alignment, 0);
    return slot;
}

void *hipsim_mem_alloc(const struct hipsim_mem_request *request)
{
    uint64_t size = request->size;
    uint64_t alignment = request->alignment;
    unsigned class;

    if (size == 0 || size > mem.arena_size / 2 || request->device >= MAX_DEVICES ||
        !hipsim_mem_init())
        return NULL;
    if (alignment == 0)
        alignment = size >= PAGE ? PAGE : 256;
    /* The redzone grows with the allocation, to detect a stride that is wrong by one row. */
    uint64_t redzone = size < 1024 ? 256 : size < 4 * 65536 ? size / 4 : 65536;
    uint64_t span = class_span(align_up(size + redzone, 256), &class);

    const bool reserved = request->kind == HIPSIM_MEM_RESERVED;
    const bool counts = !reserved && request->kind != HIPSIM_MEM_OPENED;
    pthread_mutex_lock(&mem.lock);
    struct hipsim_mem_slot *slot = take_slot(span, class, alignment);
    if (slot) {
        slot->kind = (uint8_t)request->kind;
        slot->device = (uint8_t)request->device;
        slot->flags = request->flags;
        slot->host_visible = request->kind == HIPSIM_MEM_HOST ||
                             request->kind == HIPSIM_MEM_MANAGED ||
                             request->kind == HIPSIM_MEM_OPENED;
        slot->read_only = request->kind == HIPSIM_MEM_KERNARG;
        slot->text_begin = slot->base;
        slot->text_end = slot->base + size;
        if (atomic_load_explicit(&slot->serial, memory_order_relaxed))
            hipsim_mem_unmark(slot->base, size);
        if (size & 3) /* bytes to the end of the last dword count as initialised, see
                         check_lane() */
            hipsim_mem_mark(slot->base + size, 4 - (size & 3));
        atomic_store_explicit(&slot->serial, ++mem.last_serial, memory_order_relaxed);
        if (counts)
            atomic_fetch_add_explicit(&mem.in_use[slot->device], size, memory_order_relaxed);
        atomic_store_explicit(&slot->state,
                              size << 2 | (reserved ? HIPSIM_MEM_PARTIAL : HIPSIM_MEM_LIVE),
                              memory_order_release);
    }
    pthread_mutex_unlock(&mem.lock);
    return slot ? (void *)(uintptr_t)slot->base : NULL;
}

/* Returns the slot of the live allocation that begins at `pointer`; NULL if there is none. */
static struct hipsim_mem_slot *live_slot(const void *pointer)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search((uintptr_t)pointer);

    if (!slot || slot->base != (uintptr_t)pointer)
        return NULL;
    const uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire) & 3;
    if (state != HIPSIM_MEM_LIVE && state != HIPSIM_MEM_PARTIAL)
        return NULL;
    return (struct hipsim_mem_slot *)(uintptr_t)slot;
}

bool hipsim_mem_free(const void *pointer)
{
    unsigned class;

    pthread_mutex_lock(&mem.lock);
    struct hipsim_mem_slot *slot = live_slot(pointer);
    if (!slot || slot->kind == HIPSIM_MEM_REGISTERED) {
        pthread_mutex_unlock(&mem.lock);
        return false;
    }
    uint64_t size = hipsim_mem_slot_size(slot);
    if (slot->kind != HIPSIM_MEM_RESERVED && slot->kind != HIPSIM_MEM_OPENED)
        atomic_fetch_sub_explicit(&mem.in_use[slot->device], size, memory_order_relaxed);
    atomic_store_explicit(&slot->state, size << 2 | HIPSIM_MEM_FREED, memory_order_release);
    if (size >= RETURNED_BYTES) {
        madvise((void *)(uintptr_t)slot->base, align_up(size, PAGE), MADV_DONTNEED);
        hipsim_mem_unmark(slot->base, size);
    }
    class_span(slot->limit - slot->base, &class);
    struct queue *queue = &mem.freed[class];
    uint32_t index = (uint32_t)(slot - mem.slots);
    if (queue->length++ == 0)
        queue->head = index;
    else
        mem.slots[queue->tail].next_free = index;
    queue->tail = index;
    pthread_mutex_unlock(&mem.lock);
    return true;
}

void hipsim_mem_clear(void *pointer, uint64_t size)
{
    uint64_t begin = (uintptr_t)pointer, end = begin + size;
    uint64_t first = align_up(begin, PAGE), last = end & ~(PAGE - 1);

    if (first >= last || madvise((void *)(uintptr_t)first, last - first, MADV_DONTNEED) != 0) {
        memset(pointer, 0, size);
        return;
    }
    memset(pointer, 0, first - begin);
    memset((void *)(uintptr_t)last, 0, end - last);
}

void hipsim_mem_protect_text(const void *pointer, uint64_t begin, uint64_t end)
{
    pthread_mutex_lock(&mem.lock);
    struct hipsim_mem_slot *slot = live_slot(pointer);
    if (slot) {
        slot->text_begin = begin;
        slot->text_end = end;
        slot->read_only = 1;
    }
    pthread_mutex_unlock(&mem.lock);
}

uint64_t hipsim_mem_in_use(unsigned device)
{
    if (device >= MAX_DEVICES)
        return 0;
    return atomic_load_explicit(&mem.in_use[device], memory_order_relaxed);
}

void hipsim_mem_account(unsigned device, int64_t bytes)
{
    if (device < MAX_DEVICES)
        atomic_fetch_add_explicit(&mem.in_use[device], (uint64_t)bytes, memory_order_relaxed);
}

/* The functions from here on permit accesses to reservations. */

/* Sets or clears the bit of a granule. */
static void set_granule(_Atomic uint64_t *bits, uint64_t granule, bool on)
{
    const uint64_t mask = UINT64_C(1) << (granule & 63);

    if (on)
        atomic_fetch_or_explicit(&bits[granule >> 6], mask, memory_order_release);
    else
        atomic_fetch_and_explicit(&bits[granule >> 6], ~mask, memory_order_release);
}

/* True if the bits of all granules of the range are set. */
static bool granules_are_set(const _Atomic uint64_t *bits, uint64_t address, uint64_t size)
{
    const uint64_t begin = address - hipsim_arena.base;

    for (uint64_t g = begin / HIPSIM_MEM_GRANULE; g <= (begin + size - 1) / HIPSIM_MEM_GRANULE; g++)
        if (!(atomic_load_explicit(&bits[g >> 6], memory_order_acquire) >> (g & 63) & 1))
            return false;
    return true;
}

void hipsim_mem_permit(uint64_t address, uint64_t size, bool reads, bool writes)
{
    const uint64_t begin = (address - hipsim_arena.base) / HIPSIM_MEM_GRANULE;

    for (uint64_t g = begin; g < begin + size / HIPSIM_MEM_GRANULE; g++) {
        set_granule(mem.readable, g, reads);
        set_granule(mem.writable, g, writes);
    }
}

/* The functions from here on register host memory. */

/* Returns a slot for registered host memory. NULL: not possible. */
static struct hipsim_mem_slot *new_registration(uint64_t base, uint64_t size)
{
    uint32_t count = atomic_load_explicit(&mem.registered_count, memory_order_relaxed);
    struct hipsim_mem_slot *reuse = NULL;

    if (base < hipsim_arena.base + hipsim_arena.size && base + size > hipsim_arena.base)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct hipsim_mem_slot *slot = &mem.registered[i];
        bool live =
            (atomic_load_explicit(&slot->state, memory_order_relaxed) & 3) == HIPSIM_MEM_LIVE;
        if (live && base < slot->limit && slot->base < base + size)
            return NULL;
        if (slot->base == base && slot->limit == base + size)
            reuse = slot;
    }
    if (reuse)
        return reuse;
    return count < MAX_REGISTERED ? &mem.registered[count] : NULL;
}

bool hipsim_mem_register(void *pointer, uint64_t size, unsigned device, uint32_t flags)
{
    uint64_t base = (uintptr_t)pointer;

    if (size == 0 || base + size < base || !hipsim_mem_init())
        return false;
    pthread_mutex_lock(&mem.lock);
    struct hipsim_mem_slot *slot = new_registration(base, size);
    if (slot) {
        uint32_t index = (uint32_t)(slot - mem.registered);
        if (index == atomic_load_explicit(&mem.registered_count, memory_order_relaxed)) {
            slot->base = base;
            slot->limit = base + size;
            slot->kind = HIPSIM_MEM_REGISTERED;
            slot->host_visible = 1;
            atomic_store_explicit(&mem.registered_count, index + 1, memory_order_release);
        }
        slot->device = (uint8_t)device;
        slot->flags = flags;
        atomic_store_explicit(&slot->serial, ++mem.last_serial, memory_order_relaxed);
        atomic_store_explicit(&slot->state, size << 2 | HIPSIM_MEM_LIVE, memory_order_release);
    }
    pthread_mutex_unlock(&mem.lock);
    return slot != NULL;
}

bool hipsim_mem_unregister(const void *pointer)
{
    pthread_mutex_lock(&mem.lock);
    struct hipsim_mem_slot *slot = live_slot(pointer);
    bool found = slot && slot->kind == HIPSIM_MEM_REGISTERED;
    if (found)
        atomic_store_explicit(&slot->state, hipsim_mem_slot_size(slot) << 2 | HIPSIM_MEM_FREED,
                              memory_order_release);
    pthread_mutex_unlock(&mem.lock);
    return found;
}

/* The functions from here on look up addresses. */

/* Returns the registration that contains `address`; NULL if there is none. Removed registrations
 * may overlap a live one, which has priority. */
static const struct hipsim_mem_slot *search_registered(uint64_t address)
{
    const struct hipsim_mem_slot *dead = NULL;
    uint32_t count = atomic_load_explicit(&mem.registered_count, memory_order_acquire);

    while (count-- > 0) {
        const struct hipsim_mem_slot *slot = &mem.registered[count];
        if (address < slot->base || address >= slot->limit)
            continue;
        if ((atomic_load_explicit(&slot->state, memory_order_acquire) & 3) == HIPSIM_MEM_LIVE)
            return slot;
        dead = slot;
    }
    return dead;
}

const struct hipsim_mem_slot *hipsim_mem_search(uint64_t address)
{
    if (address - hipsim_arena.base >= hipsim_arena.size)
        return search_registered(address);
    uint32_t low = 0;
    uint32_t high = atomic_load_explicit(&mem.slot_count, memory_order_acquire);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mem.slots[middle].limit <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == atomic_load_explicit(&mem.slot_count, memory_order_acquire))
        return NULL;
    const struct hipsim_mem_slot *slot = &mem.slots[low];
    return address >= slot->base ? slot : NULL;
}

enum hipsim_mem_verdict hipsim_mem_check_again(struct hipsim_mem_cursor *cursor, uint64_t address,
                                               uint64_t size, bool is_store)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search(address);

    if (!slot)
        return HIPSIM_MEM_NOT_MAPPED;
    cursor->slot = slot;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint64_t offset = address - slot->base;
    if ((state & 3) == HIPSIM_MEM_FREED)
        return HIPSIM_MEM_USE_AFTER_FREE;
    if ((state & 3) == HIPSIM_MEM_EMPTY)
        return HIPSIM_MEM_NOT_MAPPED;
    if (size > state >> 2 || offset > (state >> 2) - size)
        return HIPSIM_MEM_OUT_OF_BOUNDS;
    if ((state & 3) == HIPSIM_MEM_PARTIAL && !granules_are_set(mem.readable, address, size))
        return HIPSIM_MEM_NOT_MAPPED;
    if (is_store && (state & 3) == HIPSIM_MEM_PARTIAL &&
        !granules_are_set(mem.writable, address, size))
        return HIPSIM_MEM_READ_ONLY;
    if (is_store && slot->read_only && address < slot->text_end &&
        address + size > slot->text_begin)
        return HIPSIM_MEM_READ_ONLY;
    return HIPSIM_MEM_OK;
}

static const char *const kind_names[] = {
    [HIPSIM_MEM_DEVICE] = "hipMalloc",
    [HIPSIM_MEM_MANAGED] = "hipMallocManaged",
    [HIPSIM_MEM_HOST] = "hipHostMalloc",
    [HIPSIM_MEM_REGISTERED] = "hipHostRegister",
    [HIPSIM_MEM_CODE] = "code object",
    [HIPSIM_MEM_KERNARG] = "kernel arguments",
    [HIPSIM_MEM_RUNTIME] = "runtime buffer",
    [HIPSIM_MEM_SCRATCH] = "private memory",
    [HIPSIM_MEM_RESERVED] = "hipMemAddressReserve",
    [HIPSIM_MEM_OPENED] = "hipIpcOpenMemHandle",
};

/* Writes the position of an access of `size` bytes relative to the slot's allocation. */
static void describe_slot(const struct hipsim_mem_slot *slot, uint64_t address, uint64_t size,
                          char *text, size_t length)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint64_t allocated = state >> 2;
    uint64_t offset = address - slot->base;
    const char *freed = (state & 3) == HIPSIM_MEM_FREED ? "freed " : "";
    const char *where = "bytes into";
    const char *mapped = "";
    uint64_t distance = offset;

    if ((state & 3) == HIPSIM_MEM_PARTIAL && address >= slot->base && offset < allocated &&
        !granules_are_set(mem.readable, address, 1))
        mapped = ", where nothing is mapped or access was not set";
    if (address < slot->base) {
        where = "bytes before";
        distance = slot->base - address;
    } else if (offset >= allocated) {
        where = "bytes past the end of";
        distance = offset - allocated;
    } else if (size > allocated - offset) {
        where = "bytes across the end of";
        distance = size - (allocated - offset);
    }
    snprintf(text, length,
             "%" PRIu64 " %s the %s%" PRIu64 " B allocation #%" PRIu64 " at 0x%" PRIx64 " (%s%s)",
             distance, where, freed, allocated,
             atomic_load_explicit(&slot->serial, memory_order_relaxed), slot->base,
             kind_names[slot->kind], mapped);
}

void hipsim_mem_describe(uint64_t address, uint64_t size, char *text, size_t length)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search(address);
    uint64_t offset = address - hipsim_arena.base;

    if (slot && slot->kind != HIPSIM_MEM_REGISTERED) {
        /* In a redzone, the next allocation may be nearer. */
        const struct hipsim_mem_slot *next = hipsim_mem_search(slot->limit);
        uint64_t end = slot->base + hipsim_mem_slot_size(slot);
        if (next && address >= end && next->base - address < address - end)
            slot = next;
    }
    if (slot)
        describe_slot(slot, address, size, text, length);
    else if (address < 65536)
        snprintf(text, length, "%" PRIu64 " bytes from the null pointer", address);
    else if (offset < hipsim_arena.size)
        snprintf(text, length, "device address space where nothing was ever allocated");
    else
        snprintf(text, length,
                 "not device memory, and not host memory that was registered or "
                 "allocated with HIP");
}

/* The functions from here on mark bytes in the shadow. */

/* Limits the range to its part in the arena. False if that is empty. */
static bool clip(uint64_t *address, uint64_t *size)
{
    uint64_t used = atomic_load_explicit(&hipsim_arena.used, memory_order_acquire);

    if (*address - hipsim_arena.base >= used)
        return false;
    uint64_t room = used - (*address - hipsim_arena.base);
    if (*size > room)
        *size = room;
    return *size > 0;
}

/* Marks `count` bytes of a shadow word from byte `shift` on as written or never written. */
static void set_bits(uint64_t line, unsigned shift, unsigned count, bool written)
{
    uint64_t mask = (count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << shift;
    _Atomic uint64_t *word = &hipsim_arena.shadow[line];

    if (count == 64)
        atomic_store_explicit(word, written ? mask : 0, memory_order_relaxed);
    else if (written)
        atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
}

/* Marks the bytes of a range as written or never written. */
static void set_range(uint64_t address, uint64_t size, bool written)
{
    if (!clip(&address, &size))
        return;
    uint64_t offset = address - hipsim_arena.base;
    while (size > 0) {
        unsigned shift = offset & 63;
        unsigned count = size < 64 - shift ? (unsigned)size : 64 - shift;
        set_bits(offset >> 6, shift, count, written);
        offset += count;
        size -= count;
    }
}

void hipsim_mem_mark(uint64_t address, uint64_t size) { set_range(address, size, true); }

void hipsim_mem_unmark(uint64_t address, uint64_t size)
{
    /* Whole pages of the shadow are returned to the host, so that a huge allocation costs
     * nothing. */
    const uint64_t covered = PAGE * 8;

    if (!clip(&address, &size))
        return;
    uint64_t begin = align_up(address - hipsim_arena.base, covered);
    uint64_t end = (address - hipsim_arena.base + size) & ~(covered - 1);
    if (begin >= end) {
        set_range(address, size, false);
        return;
    }
    madvise((char *)hipsim_arena.shadow + begin / 8, (end - begin) / 8, MADV_DONTNEED);
    set_range(address, begin - (address - hipsim_arena.base), false);
    set_range(hipsim_arena.base + end, address - hipsim_arena.base + size - end, false);
}

void hipsim_mem_copy_marks(uint64_t destination, uint64_t source, uint64_t size)
{
    struct hipsim_mem_cursor cursor = {0};

    if (hipsim_mem_is_written(&cursor, source, size)) {
        hipsim_mem_mark(destination, size);
        return;
    }
    for (uint64_t done = 0; done < size;) {
        unsigned count = size - done < 32 ? (unsigned)(size - done) : 32;
        uint32_t mask = hipsim_mem_written_mask(source + done, count);
        for (unsigned i = 0; i < count; i++)
            set_range(destination + done + i, 1, mask >> i & 1);
        done += count;
    }
}

bool hipsim_mem_is_written(struct hipsim_mem_cursor *cursor, uint64_t address, uint64_t size)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_find(cursor, address);

    if (address - hipsim_arena.base >= hipsim_arena.size || !slot || !hipsim_mem_tracked(slot))
        return true;
    while (size > 0) {
        unsigned count = size < 32 ? (unsigned)size : 32;
        uint32_t all = count == 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1;
        if (hipsim_mem_written_mask(address, count) != all)
            return false;
        address += count;
        size -= count;
    }
    return true;
}

void hipsim_mem_trust_existing(void)
{
    pthread_mutex_lock(&mem.lock);
    atomic_store_explicit(&hipsim_arena.untracked_serial, mem.last_serial, memory_order_relaxed);
    pthread_mutex_unlock(&mem.lock);
}

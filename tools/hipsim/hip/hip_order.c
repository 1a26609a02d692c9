/* SPDX-License-Identifier: Apache-2.0 */
#include "hip_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_race.h"
#include "hip_findings.h"

#define BUCKETS 65536u
#define TOUCHES_MAX 65536u /* most recorded accesses, in 100 MiB; further ones are not compared */
#define RACES_MAX 64u      /* most pairs of operations that are reported */
#define SHARED_SLOT (ORDER_SLOTS - 1)

/* An operation that waits or runs. */
struct operation {
    struct ihipStream_t *stream; /* stream, which the operation references */
    struct hip_work work;        /* work, which the operation owns while it waits */
    struct hip_order before;     /* this operation, and the operations that precede it */
    /* The operation's slot and its number there. */
    unsigned slot;
    uint64_t number;
    char name[128];
    /* True: a thread is running it. */
    bool running;
    uint64_t tried;         /* value of state.round when the operation was postponed */
    struct operation *next; /* next operation in the order of submission */
};

/* The accesses of one operation to one page. */
struct touch {
    struct race_page page;
    unsigned slot;
    uint64_t number, stream;
    char name[128];
    struct touch *next;
};

/* The operations that wait or run, and the accesses of earlier ones. */
static struct {
    pthread_mutex_t lock;
    /* Signalled when an operation ends. */
    pthread_cond_t ended;
    uint64_t numbers[ORDER_SLOTS]; /* number of operations submitted so far, by slot */
    /* True: a stream has the slot. */
    bool taken[ORDER_SLOTS];
    unsigned streams; /* number of streams that have had work */
    bool made;        /* true: the program has created a stream */
    /* Operations for which the host has waited. */
    struct hip_order host;
    struct operation *waiting;
    uint64_t seed, random;
    /* number of operations that have ended, plus waits of the host */
    uint64_t round;
    struct touch *touches[BUCKETS]; /* recorded accesses, by hash of the page */
    unsigned ntouches;
    /* Numbers of the lists of `touches` that may have accesses, so that a wait visits no others. */
    uint16_t used[BUCKETS];
    unsigned nused;
    bool listed[BUCKETS];      /* true: the list's number is in `used` */
    uint64_t races[RACES_MAX]; /* hashes of the reported pairs */
    unsigned nraces;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* Operation that this thread runs; NULL: none. */
static _Thread_local struct operation *current;
/* True: the running operation may return hipErrorNotReady. */
static _Thread_local bool may_postpone;

bool hip_order_may_postpone(void) { return may_postpone; }

/* The functions from here on handle clocks of streams and events. */

/* Adds to *a the operations that are in *b. True if *a did not have all of them. */
static bool join(struct hip_order *a, const struct hip_order *b)
{
    bool more = false;

    for (unsigned i = 0; i < ORDER_SLOTS; i++) {
        if (b->at[i] <= a->at[i])
            continue;
        a->at[i] = b->at[i];
        more = true;
    }
    return more;
}

/* True if operation `number` of the slot is in *order. */
static bool comes_before(unsigned slot, uint64_t number, const struct hip_order *order)
{
    return slot == SHARED_SLOT || order->at[slot] >= number;
}

unsigned hip_order_slot(bool is_null)
{
    unsigned slot = 0;

    pthread_mutex_lock(&state.lock);
    while (slot < SHARED_SLOT && state.taken[slot])
        slot++;
    state.taken[slot] = true;
    state.made |= !is_null;
    pthread_mutex_unlock(&state.lock);
    return slot;
}

void hip_order_free_slot(unsigned slot)
{
    pthread_mutex_lock(&state.lock);
    state.taken[slot] = false;
    pthread_mutex_unlock(&state.lock);
}

/* True if the stream waits for the null stream. */
static bool is_blocking(const struct ihipStream_t *stream)
{
    return !(stream->flags & hipStreamNonBlocking);
}

/* Returns the operations that precede work submitted to the stream now. The caller has locked the
 * state. */
static struct hip_order submitted_after(struct ihipStream_t *stream)
{
    struct hip_order order = stream->order;
    struct hip_device *device = stream->device;

    join(&order, &state.host);
    pthread_mutex_lock(&device->lock);
    if (stream->is_null) {
        for (struct ihipStream_t *other = stream->next; other; other = other->next)
            if (is_blocking(other))
                join(&order, &other->order);
    } else if (is_blocking(stream)) {
        join(&order, &device->null_stream->order);
    }
    pthread_mutex_unlock(&device->lock);
    return order;
}

/* The functions from here on find races. */

/* Returns the list of the hash table for the page of the address. */
static struct touch **bucket_of(uint64_t address)
{
    const uint64_t page = address / RACE_PAGE;
    return &state.touches[page * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

/* Removes from a bucket's list the accesses with which no later operation can race. The caller has
 * locked the state. */
static void prune(struct touch **link)
{
    while (*link) {
        struct touch *t = *link;
        if (!comes_before(t->slot, t->number, &state.host)) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        free(t);
        state.ntouches--;
    }
}

/* Records that the host has waited for the operations of *order. Forgets accesses that can no
 * longer race. */
static void host_waited(const struct hip_order *order)
{
    if (!join(&state.host, order))
        return;
    for (unsigned i = 0; i < state.nused;) {
        const unsigned list = state.used[i];
        prune(&state.touches[list]);
        if (state.touches[list]) {
            i++;
            continue;
        }
        state.listed[list] = false;
        state.used[i] = state.used[--state.nused];
    }
}

/* Sets *address to the first byte that one side changes and the other uses, unless both do so by
 * atomics. False if there is none. */
static bool find_conflict(const struct race_page *a, const struct race_page *b, uint64_t *address,
                          bool *wrote)
{
    for (unsigned i = 0; i < RACE_PAGE / 64; i++) {
        const uint64_t atomic = a->atomic[i] & b->atomic[i];
        const uint64_t bad =
            ((a->written[i] & (b->read[i] | b->written[i])) | (a->read[i] & b->written[i])) &
            ~atomic;
        if (!bad)
            continue;
        const unsigned bit = (unsigned)__builtin_ctzll(bad);
        *address = a->address + 64 * i + bit;
        *wrote = a->written[i] >> bit & 1;
        return true;
    }
    return false;
}

/* True if no race between operations of these two names was reported. Records the pair then. */
static bool is_new_race(const char *one, const char *other)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *text = one; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    for (const char *text = other; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b4);
    for (unsigned i = 0; i < state.nraces; i++)
        if (state.races[i] == hash)
            return false;
    if (state.nraces == RACES_MAX)
        return false;
    state.races[state.nraces++] = hash;
    return true;
}

/* The report of a race, and the name of the later operation. */
struct race {
    char text[900], kernel[128];
};

/* Compares an operation's accesses to a page with earlier ones. True if they race; *race has the
 * report, which the caller makes after it has unlocked the state. */
static bool compare(const struct operation *op, const struct race_page *page, struct race *race)
{
    for (const struct touch *t = *bucket_of(page->address); t; t = t->next) {
        uint64_t address;
        bool wrote;
        char near[256];
        if (t->page.address != page->address || comes_before(t->slot, t->number, &op->before) ||
            !find_conflict(page, &t->page, &address, &wrote) || !is_new_race(t->name, op->name))
            continue;
        hipsim_mem_describe(address, 1, near, sizeof(near));
        const uint64_t bit = address % RACE_PAGE;
        snprintf(race->text, sizeof(race->text),
                 "data race between streams: %s in stream %" PRIu64 " %s 0x%" PRIx64
                 ", which %s in stream %" PRIu64 " %s; %s\n"
                 "  no event, synchronisation or order of streams lies between the two",
                 op->name, op->stream->id, wrote ? "stores to" : "loads from", address, t->name,
                 t->stream, t->page.written[bit / 64] >> bit % 64 & 1 ? "stores to" : "loads from",
                 near);
        snprintf(race->kernel, sizeof(race->kernel), "%s", op->name);
        return true;
    }
    return false;
}

/* Records an operation's accesses to a page. */
static void remember(const struct operation *op, const struct race_page *page)
{
    struct touch **bucket = bucket_of(page->address);

    prune(bucket);
    for (struct touch *t = *bucket; t; t = t->next) {
        if (t->page.address != page->address || t->slot != op->slot || t->number != op->number)
            continue;
        for (unsigned i = 0; i < RACE_PAGE / 64; i++) {
            t->page.read[i] |= page->read[i];
            t->page.written[i] |= page->written[i];
            t->page.atomic[i] |= page->atomic[i];
        }
        return;
    }
    struct touch *t = state.ntouches < TOUCHES_MAX ? malloc(sizeof(*t)) : NULL;
    if (!t)
        return;
    state.ntouches++;
    *t = (struct touch){.page = *page,
                        .slot = op->slot,
                        .number = op->number,
                        .stream = op->stream->id,
                        .next = *bucket};
    memcpy(t->name, op->name, sizeof(t->name));
    *bucket = t;
    const size_t list = (size_t)(bucket - state.touches);
    if (state.listed[list])
        return;
    state.listed[list] = true;
    state.used[state.nused++] = (uint16_t)list;
}

/* Compares an operation's accesses to a page with earlier ones, records them, and reports a
 * race. */
static void touch_page(void *ctx, const struct race_page *page)
{
    const struct operation *op = ctx;
    struct race race;

    pthread_mutex_lock(&state.lock);
    const bool races = compare(op, page, &race);
    remember(op, page);
    pthread_mutex_unlock(&state.lock);
    if (races)
        hip_findings_between(race.kernel, race.text);
}

/* True if accesses are recorded. With one stream there is nothing to compare. */
static bool is_followed(void)
{
    return current && (state.made || state.streams > 1) && current->slot != SHARED_SLOT &&
           hip_options().checks & CHECK_RACE;
}

/* Sets the bits from `first` up to `end`. */
static void set_bits(uint64_t *bits, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++)
        bits[i / 64] |= UINT64_C(1) << i % 64;
}

void hip_order_touch(const void *address, size_t size, bool writes)
{
    const uint64_t begin = (uintptr_t)address, end = begin + size;

    if (!is_followed())
        return;
    for (uint64_t at = begin; at < end;) {
        struct race_page page = {.address = at / RACE_PAGE * RACE_PAGE};
        const uint64_t stop = page.address + RACE_PAGE < end ? page.address + RACE_PAGE : end;
        set_bits(writes ? page.written : page.read, at - page.address, stop - page.address);
        touch_page(current, &page);
        at = stop;
    }
}

void hip_order_watch(struct launch *launch)
{
    if (!is_followed())
        return;
    launch->touched = touch_page;
    launch->touched_ctx = current;
}

void hip_order_forget(const void *address, size_t size)
{
    const uint64_t begin = (uintptr_t)address, end = begin + size;

    pthread_mutex_lock(&state.lock);
    for (uint64_t at = begin / RACE_PAGE * RACE_PAGE; state.ntouches && at < end; at += RACE_PAGE) {
        for (struct touch **link = bucket_of(at); *link;) {
            struct touch *t = *link;
            if (t->page.address != at) {
                link = &t->next;
                continue;
            }
            *link = t->next;
            free(t);
            state.ntouches--;
        }
    }
    pthread_mutex_unlock(&state.lock);
}

/* The functions from here on place and run operations. */

/* Sets the operation's name to its kernel's, or to the API call's. */
static void name_operation(struct operation *op)
{
    const struct hip_work *work = &op->work;
    const char *call = hip_thread()->call;
    const char *kernel = work->kind == WORK_KERNEL ? work->kernel.function->kernel->name : NULL;

    snprintf(op->name, sizeof(op->name), "%s", kernel ? kernel : call ? call : "HIP");
}

/* Numbers the operation and sets the operations that precede it. */
static void place(struct operation *op)
{
    struct ihipStream_t *stream = op->stream;

    pthread_mutex_lock(&state.lock);
    op->before = submitted_after(stream);
    op->slot = stream->slot;
    if (op->work.kind == WORK_WAIT)
        join(&op->before, &op->work.event->order);
    op->number = ++state.numbers[op->slot];
    state.streams += op->number == 1;
    op->before.at[op->slot] = op->number;
    stream->order = op->before;
    if (op->work.kind == WORK_RECORD)
        op->work.event->order = op->before;
    pthread_mutex_unlock(&state.lock);
}

/* True if work can run again. A graph cannot, since it would repeat what it did before it
 * waited. */
static bool can_run_again(const struct hip_work *work)
{
    return work->kind == WORK_KERNEL || work->kind == WORK_VALUE;
}

/* Runs an operation. With `postpone` the result is hipErrorNotReady if the operation waits for a
 * value that the host has not stored yet. */
static hipError_t run(struct operation *op, bool postpone)
{
    struct operation *outer = current;

    current = op;
    may_postpone = postpone && !outer && can_run_again(&op->work);
    const hipError_t error = hip_stream_run(op->stream, &op->work);
    may_postpone = false;
    current = outer;
    return error;
}

/* Frees an operation that was executed, and releases its stream. */
static void retire(struct operation *op)
{
    hip_work_release(&op->work);
    hip_object_put(op->stream);
    free(op);
}

/* The functions from here on choose among the work that waits. */

/* Returns the next pseudo-random number of 64 bits. */
static uint64_t next_random(void)
{
    uint64_t z = state.random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* True if no waiting or running operation precedes `op`, and it does not run. */
static bool is_ready(const struct operation *op)
{
    if (op->running)
        return false;
    for (const struct operation *other = state.waiting; other != op; other = other->next)
        if (comes_before(other->slot, other->number, &op->before))
            return false;
    return true;
}

/* Rules for the operation that runs next, among the ready ones. They are tried in this order until
 * one allows an operation. */
enum choice {
    /* at a query by the host: operations that it needs, or any if the seed selects that */
    CHOOSE_QUERIED,
    /* at a wait by the host: operations that it needs, or any if the seed selects that */
    CHOOSE_WANTED,
    CHOOSE_ANY,      /* any operation, since it may store values that others wait for */
    CHOOSE_DEADLOCK, /* operations that the host needs although they cannot proceed */
};

/* True if `choice` allows the operation to run next. `order` has the operations that the host
 * needs. */
static bool is_candidate(const struct operation *op, const struct hip_order *order,
                         enum choice choice)
{
    const bool fresh = op->tried != state.round;
    const bool wanted = comes_before(op->slot, op->number, order);

    if (!is_ready(op))
        return false;
    switch (choice) {
    case CHOOSE_QUERIED: return wanted || hip_options().streams;
    case CHOOSE_WANTED: return fresh && (wanted || hip_options().streams);
    case CHOOSE_ANY: return fresh;
    case CHOOSE_DEADLOCK: break;
    }
    return wanted;
}

/* Returns an operation that `choice` allows, by the seed; NULL if there is none. */
static struct operation *pick(const struct hip_order *order, enum choice choice)
{
    unsigned ready = 0;

    for (struct operation *op = state.waiting; op; op = op->next)
        ready += is_candidate(op, order, choice);
    if (!ready)
        return NULL;
    unsigned left = (unsigned)(next_random() % ready);
    for (struct operation *op = state.waiting;; op = op->next)
        if (is_candidate(op, order, choice) && left-- == 0)
            return op;
}

/* True if an operation of *order has not run yet. */
static bool is_needed(const struct hip_order *order)
{
    for (const struct operation *op = state.waiting; op; op = op->next)
        if (comes_before(op->slot, op->number, order))
            return true;
    return false;
}

/* Runs an operation that is ready, or waits until another thread has run one. The caller has locked
 * the state. */
static void advance(const struct hip_order *order, bool host_waits)
{
    enum choice choice = host_waits ? CHOOSE_WANTED : CHOOSE_QUERIED;
    struct operation *op = pick(order, choice);

    while (!op && host_waits && choice < CHOOSE_DEADLOCK)
        op = pick(order, ++choice);
    if (!op) {
        pthread_cond_wait(&state.ended, &state.lock);
        return;
    }
    op->running = true;
    pthread_mutex_unlock(&state.lock);
    const hipError_t error = run(op, choice != CHOOSE_DEADLOCK);
    if (error != hipSuccess && error != hipErrorNotReady)
        hip_stream_fail(op->stream, error);
    pthread_mutex_lock(&state.lock);
    if (error == hipErrorNotReady) {
        op->running = false;
        op->tried = state.round;
        pthread_cond_broadcast(&state.ended);
        return;
    }
    struct operation **link = &state.waiting;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    state.round++;
    pthread_cond_broadcast(&state.ended);
    pthread_mutex_unlock(&state.lock);
    retire(op);
    pthread_mutex_lock(&state.lock);
}

/* Runs operations until all that precede `order` have run. Does nothing in an operation (a host
 * function), which would wait for itself. */
static void drain(const struct hip_order *order)
{
    state.round++;
    while (!current && is_needed(order))
        advance(order, true);
}

/* True if work must run at submission. Copies from and to memory that HIP does not know are made at
 * once, as the runtime does. */
static bool must_run_now(const struct hip_work *work)
{
    return work->kind == WORK_COPY &&
           (!hip_in_arena(work->copy.dst) || !hip_in_arena(work->copy.src));
}

/* Appends a copy of the operation to the waiting ones, with a copy of its work. */
static hipError_t keep(struct operation *op)
{
    struct operation *kept = malloc(sizeof(*kept));

    if (!kept)
        return hipErrorOutOfMemory;
    *kept = *op;
    const hipError_t error = hip_work_copy(&op->work, &kept->work);
    if (error != hipSuccess) {
        free(kept);
        return error;
    }
    hip_object_ref(kept->stream);
    pthread_mutex_lock(&state.lock);
    struct operation **end = &state.waiting;
    while (*end)
        end = &(*end)->next;
    kept->next = NULL;
    *end = kept;
    pthread_mutex_unlock(&state.lock);
    return hipSuccess;
}

hipError_t hip_order_submit(struct ihipStream_t *stream, const struct hip_work *work)
{
    struct operation op = {.stream = stream, .work = *work};
    const uint64_t seed = hip_options().streams;

    name_operation(&op);
    place(&op);
    if (seed && !current && !must_run_now(work)) {
        pthread_mutex_lock(&state.lock);
        if (seed != state.seed)
            state.seed = state.random = seed;
        pthread_mutex_unlock(&state.lock);
        return keep(&op);
    }
    pthread_mutex_lock(&state.lock);
    /* true if an operation that must run before this one is postponed */
    const bool postponed = !current && is_needed(&op.before);
    if (!postponed || must_run_now(work))
        drain(&op.before);
    pthread_mutex_unlock(&state.lock);
    if (postponed && !must_run_now(work))
        return keep(&op);
    const hipError_t error = run(&op, true);
    return error == hipErrorNotReady ? keep(&op) : error;
}

/* The functions from here on let the host wait. */

void hip_order_wait_stream(struct ihipStream_t *stream)
{
    pthread_mutex_lock(&state.lock);
    const struct hip_order order = stream->is_null ? submitted_after(stream) : stream->order;
    drain(&order);
    host_waited(&order);
    pthread_mutex_unlock(&state.lock);
}

void hip_order_wait_event(struct ihipEvent_t *event)
{
    pthread_mutex_lock(&state.lock);
    const struct hip_order order = event->order;
    drain(&order);
    host_waited(&order);
    pthread_mutex_unlock(&state.lock);
}

void hip_order_wait_all(void)
{
    struct hip_order all;

    pthread_mutex_lock(&state.lock);
    memcpy(all.at, state.numbers, sizeof(all.at));
    drain(&all);
    host_waited(&all);
    pthread_mutex_unlock(&state.lock);
}

void hip_order_drain(void)
{
    struct hip_order all;

    pthread_mutex_lock(&state.lock);
    memcpy(all.at, state.numbers, sizeof(all.at));
    drain(&all);
    pthread_mutex_unlock(&state.lock);
}

/* True if all operations of *order have run, for a query by the host. May run one of them
 * otherwise. */
static bool is_done(const struct hip_order *order)
{
    bool needed = is_needed(order);

    if (needed && !current) {
        advance(order, false);
        needed = is_needed(order);
    }
    if (!needed)
        host_waited(order);
    return !needed;
}

bool hip_order_stream_done(struct ihipStream_t *stream)
{
    pthread_mutex_lock(&state.lock);
    const struct hip_order order = stream->order;
    const bool done = is_done(&order);
    pthread_mutex_unlock(&state.lock);
    return done;
}

bool hip_order_event_done(struct ihipEvent_t *event)
{
    pthread_mutex_lock(&state.lock);
    const struct hip_order order = event->order;
    const bool done = is_done(&order);
    pthread_mutex_unlock(&state.lock);
    return done;
}

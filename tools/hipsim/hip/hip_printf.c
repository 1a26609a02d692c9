/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostcalls, by which a kernel's printf reaches the host.
 *
 * A wave removes a packet from a free list in the buffer and writes a service number and eight
 * words for each lane. It pushes the packet on the ready list, rings a doorbell (a signal, with a
 * message), and spins until the packet's ready bit is clear. The message arrives here in the wave's
 * host thread, so the packet is served at once. Layout and protocol: ROCm's device library
 * (ockl/src/hostcall_impl.cl).
 *
 * printf sends a message in pieces. Word 0 of a lane describes the piece: begin, end, number of
 * words, and which message. A message begins with the output stream and the format, with its zero
 * byte, in whole words. A word for each argument follows, or for %s the whole words of a string.
 */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKETS 4096u /* more than waves can be in flight, since the device does not check */
#define WORDS 8
#define SERVICE_PRINTF 2
#define MAX_MESSAGE_WORDS (1u << 20)

/* Bits and fields of a piece's descriptor. */
enum descriptor { BEGIN = 1 << 0, END = 1 << 1, LENGTH_SHIFT = 5, LENGTH_MASK = 7, ID_SHIFT = 8 };

/* A packet of the hostcall buffer: index of the next one in its list, lanes, and service. */
struct packet_header {
    uint64_t next;
    uint64_t active; /* mask of the active lanes */
    uint32_t service;
    _Atomic uint32_t control; /* bit 0: the packet is ready, and the wave waits */
};

/* Words of a packet, by lane. */
struct payload {
    uint64_t words[WAVE_LANES][WORDS];
};

/* The buffer as the device library declares it. The lists begin with index + flags of a packet; 0:
 * empty. */
struct hostcall_buffer {
    struct packet_header *headers;
    struct payload *payloads;
    uint64_t doorbell;
    _Atomic uint64_t free_list;
    _Atomic uint64_t ready_list;
    uint64_t index_mask;
};

/* Members of amd_signal_t that a device uses. */
struct signal {
    int64_t kind;
    _Atomic int64_t value;
    uint64_t mailbox;
    uint32_t event;
    uint32_t unused[9];
};

struct region { /* one allocation with everything */
    struct hostcall_buffer buffer;
    struct signal signal;
    uint64_t mailbox;
    struct packet_header headers[PACKETS];
    struct payload payloads[PACKETS];
};

/* A message whose pieces have not all arrived. */
struct message {
    uint64_t *words;
    size_t count, capacity;
    uint64_t id;
    struct message *next;
};

static struct {
    pthread_mutex_t lock;
    struct region *regions[HIP_MAX_DEVICES];
    struct message *open;
    uint64_t last_id;
} hostcalls = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The functions from here on create the buffer. */

/* Allocates and initialises the buffer of a device. NULL without memory. */
static struct region *create_region(unsigned device)
{
    struct hipsim_mem_request request = {
        .size = sizeof(struct region), .kind = HIPSIM_MEM_RUNTIME, .device = device};
    struct region *r = hipsim_mem_alloc(&request);

    if (!r)
        return NULL;
    hipsim_mem_mark((uintptr_t)r, sizeof(*r));
    r->signal = (struct signal){.kind = 1, .mailbox = (uintptr_t)&r->mailbox, .event = 1};
    r->buffer = (struct hostcall_buffer){
        .headers = r->headers,
        .payloads = r->payloads,
        .doorbell = (uintptr_t)&r->signal,
        .index_mask = PACKETS - 1,
    };
    /* An entry of a list is an index with bits above the mask set, since zero ends the list. */
    uint64_t next = PACKETS;
    for (uint64_t i = 1; i < PACKETS; i++) {
        r->headers[i].next = next;
        next = i;
    }
    atomic_store(&r->buffer.free_list, next);
    return r;
}

uint64_t hip_hostcall_buffer(struct hip_device *device, const struct kernel *kernel)
{
    bool wanted = false;

    for (uint32_t i = 0; i < kernel->metadata.nargs; i++)
        wanted |= kernel->metadata.args[i].kind == ARG_HOSTCALL_BUFFER;
    if (!wanted)
        return 0;
    pthread_mutex_lock(&hostcalls.lock);
    struct region **region = &hostcalls.regions[device->ordinal];
    if (!*region)
        *region = create_region((unsigned)device->ordinal);
    uint64_t address = (uintptr_t)*region;
    pthread_mutex_unlock(&hostcalls.lock);
    return address;
}

/* The functions from here on format the text of a message. */

/* The words of a message that are not read yet. */
struct reader {
    const uint64_t *words;
    size_t count;
    bool failed; /* true: the message ended early */
};

/* Returns the next word, or 0 with `failed` set after the last one. */
static uint64_t take_word(struct reader *r)
{
    if (r->count == 0) {
        r->failed = true;
        return 0;
    }
    r->count--;
    return *r->words++;
}

/* Returns the string at the reader's position, and moves the reader past its words. The string must
 * end within the message; otherwise the reader fails. */
static const char *take_string(struct reader *r)
{
    const char *text = (const char *)r->words;
    size_t length = strnlen(text, r->count * sizeof(*r->words));

    if (length == r->count * sizeof(*r->words)) {
        r->failed = true;
        return "";
    }
    r->words += length / sizeof(*r->words) + 1;
    r->count -= length / sizeof(*r->words) + 1;
    return text;
}

/* A conversion of a printf format. */
struct conversion {
    char spec[64]; /* flags, width and precision, after a % */
    size_t used;
    char length[3];
    char type;
};

/* Appends a character to the conversion's specification, if there is room. */
static void put(struct conversion *c, char ch)
{
    if (c->used + 1 < sizeof(c->spec) - 4)
        c->spec[c->used++] = ch;
}

/* Parses a conversion after its %, with `*` replaced by the argument. Returns the text after it. */
static const char *parse_conversion(const char *p, struct reader *r, struct conversion *c)
{
    *c = (struct conversion){.spec = "%", .used = 1};
    for (; *p && strchr("-+ #0123456789.*", *p); p++) {
        char number[16];
        if (*p != '*') {
            put(c, *p);
            continue;
        }
        snprintf(number, sizeof(number), "%d", (int)take_word(r));
        for (const char *d = number; *d; d++)
            put(c, *d);
    }
    for (unsigned n = 0; *p && strchr("hlLqjzt", *p); p++)
        if (n < 2)
            c->length[n++] = *p;
    c->type = *p;
    return *p ? p + 1 : p;
}

/* Prints one conversion. The specification is made anew for the host's types: integers are long
 * long. */
static int print_conversion(FILE *to, struct conversion *c, struct reader *r)
{
    uint64_t word;

    switch (c->type) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
    case 'c': word = take_word(r); break;
    case 's': c->spec[c->used] = 's'; return fprintf(to, c->spec, take_string(r));
    case 'p': c->spec[c->used] = 'p'; return fprintf(to, c->spec, (void *)(uintptr_t)take_word(r));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
        double value;
        word = take_word(r);
        memcpy(&value, &word, sizeof(value));
        c->spec[c->used] = c->type;
        return fprintf(to, c->spec, value);
    }
    default: r->failed = true; return 0;
    }
    if (c->type == 'c') {
        c->spec[c->used] = 'c';
        return fprintf(to, c->spec, (int)word);
    }
    bool is_signed = c->type == 'd' || c->type == 'i';
    if (c->length[0] == 'h' && c->length[1] == 'h')
        word = is_signed ? (uint64_t)(int64_t)(int8_t)word : (uint8_t)word;
    else if (c->length[0] == 'h')
        word = is_signed ? (uint64_t)(int64_t)(int16_t)word : (uint16_t)word;
    else if (c->length[0] == 0)
        word = is_signed ? (uint64_t)(int64_t)(int32_t)word : (uint32_t)word;
    c->spec[c->used] = 'l';
    c->spec[c->used + 1] = 'l';
    c->spec[c->used + 2] = c->type;
    return fprintf(to, c->spec, word);
}

/* Prints a message. Returns the value that printf returns to the kernel. */
static int print_message(const struct message *message)
{
    struct reader r = {.words = message->words, .count = message->count};
    FILE *to = take_word(&r) == 1 ? stderr : stdout;
    const char *p = take_string(&r);
    int printed = 0;

    while (*p && !r.failed) {
        size_t plain = strcspn(p, "%");
        printed += (int)fwrite(p, 1, plain, to);
        p += plain;
        if (!*p)
            break;
        if (p[1] == '%') {
            printed += fputc('%', to) == '%';
            p += 2;
            continue;
        }
        struct conversion conversion;
        p = parse_conversion(p + 1, &r, &conversion);
        printed += print_conversion(to, &conversion, &r);
    }
    fflush(to);
    return r.failed ? -1 : printed;
}

/* The functions from here on collect and serve messages. */

/* Returns the link to the open message with this number, or to the end of the list. */
static struct message **find_message(uint64_t id)
{
    struct message **link = &hostcalls.open;

    while (*link && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

/* Appends words to a message. False if it becomes too long or memory is short. */
static bool append_words(struct message *message, const uint64_t *words, size_t count)
{
    if (message->count + count > MAX_MESSAGE_WORDS)
        return false;
    if (message->count + count > message->capacity) {
        size_t capacity = message->capacity ? message->capacity * 2 : 32;
        uint64_t *bigger = realloc(message->words, capacity * sizeof(*bigger));
        if (!bigger)
            return false;
        message->words = bigger;
        message->capacity = capacity;
    }
    for (size_t i = 0; i < count; i++)
        message->words[message->count++] = words[i];
    return true;
}

/* Serves a lane's piece. Word 0 becomes the message's descriptor, or with the last piece printf's
 * result. */
static void serve_printf(uint64_t words[WORDS])
{
    uint64_t descriptor = words[0];
    uint64_t id = descriptor >> ID_SHIFT;

    if (descriptor & BEGIN) {
        struct message *fresh = calloc(1, sizeof(*fresh));
        if (!fresh)
            return;
        id = fresh->id = ++hostcalls.last_id;
        fresh->next = hostcalls.open;
        hostcalls.open = fresh;
    }
    struct message **link = find_message(id);
    struct message *message = *link;
    if (!message) {
        words[0] = (uint64_t)-1;
        return;
    }
    append_words(message, words + 1, descriptor >> LENGTH_SHIFT & LENGTH_MASK);
    words[0] = (descriptor & 0xff & ~(uint64_t)BEGIN) | id << ID_SHIFT;
    if (!(descriptor & END))
        return;
    words[0] = (uint64_t)(int64_t)print_message(message);
    *link = message->next;
    free(message->words);
    free(message);
}

/* Serves the requests of all active lanes of a packet, and lets its wave continue. */
static void serve_packet(struct packet_header *header, struct payload *payload)
{
    if (header->service == SERVICE_PRINTF) {
        for (unsigned lane = 0; lane < WAVE_LANES; lane++)
            if (header->active >> lane & 1)
                serve_printf(payload->words[lane]);
    } else {
        struct hipsim_report report = {
            .kind = "api",
            .text = "a kernel asked the host for a service that is not simulated (only printf is)",
        };
        hip_report(&report);
    }
    atomic_fetch_and(&header->control, ~UINT32_C(1));
}

/* Serves all packets in the order in which they were pushed. The list has the last one first. */
static void serve_region(struct region *r)
{
    uint64_t entry = atomic_exchange(&r->buffer.ready_list, 0);
    uint64_t reversed[PACKETS];
    unsigned count = 0;

    for (; entry && count < PACKETS; entry = r->headers[entry & (PACKETS - 1)].next)
        reversed[count++] = entry & (PACKETS - 1);
    while (count-- > 0)
        serve_packet(&r->headers[reversed[count]], &r->payloads[reversed[count]]);
}

void hip_hostcall_serve(struct hip_device *device)
{
    pthread_mutex_lock(&hostcalls.lock);
    if (hostcalls.regions[device->ordinal])
        serve_region(hostcalls.regions[device->ordinal]);
    pthread_mutex_unlock(&hostcalls.lock);
}

void hip_hostcall_message(struct wave *wave, const struct inst *in)
{
    (void)wave;
    (void)in;
    for (int i = 0; i < hip_device_count(); i++)
        hip_hostcall_serve(hip_device(i));
}

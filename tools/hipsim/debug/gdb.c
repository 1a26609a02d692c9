/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "decode.h"
#include "gdb_show.h"

enum {
    PACKET_BYTES = 4096, /* bytes of the longest packet; longer ones are refused */
    MEMORY_MAX = 8192,   /* most bytes of memory in a reply */
    INTERRUPT = 3        /* byte that a client sends outside of packets to interrupt */
};

/* A server and its client. */
struct gdb {
    int listener, client;      /* sockets; -1: closed */
    char path[108];            /* path of the listener's socket; empty: it has a port */
    bool quiet;                /* true: neither side acknowledges packets */
    bool waits;                /* true: the client expects a reply that a wave has stopped */
    char packet[PACKET_BYTES]; /* current request */
    pid_t owner;               /* process that listens; a forked child has copies of its sockets */
    const struct gdb_ops *ops;
    const struct wave *stopped; /* wave that has stopped */
    const struct wave *shown;   /* wave whose registers are read */
    const struct wave *stepped; /* wave that request "s" steps */
    struct gdb_stop stop;
};

/* The functions from here on keep the connection. */

/* Removes the socket file of a server that was killed: a connection to it is refused. The test uses
 * a datagram socket, which a live server does not notice, since the error is another. */
static void remove_dead(const struct sockaddr_un *at)
{
    struct stat file;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (lstat(at->sun_path, &file) == 0 && S_ISSOCK(file.st_mode) &&
        connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 && errno == ECONNREFUSED)
        unlink(at->sun_path);
    close(fd);
}

/* Listens at a Unix socket. Returns its descriptor; -1 on failure. */
static int listen_at_path(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    remove_dead(&at);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Listens at a TCP port of this host and prints it to `log`. Returns the descriptor; -1 on
 * failure. */
static int listen_at_port(uint16_t port, FILE *log)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        fprintf(log, "hipsim: gdb may connect to 127.0.0.1:%u\n", ntohs(at.sin_port));
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

struct gdb *gdb_listen(const char *address, FILE *log, char *why, size_t why_size)
{
    char *end;
    const unsigned long port = strtoul(address, &end, 10);
    const bool is_port = isdigit((unsigned char)*address) && !*end && port <= UINT16_MAX;
    struct gdb *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    if (!is_port && (!strchr(address, '/') || strlen(address) >= sizeof(g->path))) {
        snprintf(why, why_size, "option gdb does not take \"%.60s\": a port, or a path with /",
                 address);
        free(g);
        return NULL;
    }
    g->client = -1;
    g->owner = getpid();
    g->listener = is_port ? listen_at_port((uint16_t)port, log) : listen_at_path(address);
    if (g->listener < 0) {
        snprintf(why, why_size, "option gdb: %.60s: %s", address, strerror(errno));
        free(g);
        return NULL;
    }
    if (!is_port) {
        snprintf(g->path, sizeof(g->path), "%s", address);
        fprintf(log, "hipsim: gdb may connect to %s\n", address);
    }
    fflush(log);
    return g;
}

/* Closes the connection to the client. */
static void hang_up(struct gdb *g)
{
    if (g->client >= 0)
        close(g->client);
    g->client = -1;
}

/* Returns the next byte from the client; -1 if the connection is lost. */
static int get(struct gdb *g)
{
    unsigned char byte;
    ssize_t n;
    do
        n = g->client < 0 ? 0 : recv(g->client, &byte, 1, 0);
    while (n < 0 && errno == EINTR);
    return n == 1 ? byte : -1;
}

/* Sends n bytes to the client. False if the connection is closed. */
static bool put(struct gdb *g, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t sent = g->client < 0 ? -1 : send(g->client, text, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR && g->client >= 0)
            continue;
        if (sent <= 0)
            return false;
        text += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Sends `text` as a packet, again until the client acknowledges it. False if the connection is
 * lost. */
static bool send_packet(struct gdb *g, const char *text)
{
    char end[4];
    uint8_t sum = 0;
    for (const char *c = text; *c; c++)
        sum = (uint8_t)(sum + (uint8_t)*c);
    snprintf(end, sizeof(end), "#%02x", sum);
    for (;;) {
        if (!put(g, "$", 1) || !put(g, text, strlen(text)) || !put(g, end, 3))
            return false;
        const int byte = g->quiet ? '+' : get(g);
        if (byte != '-')
            return byte >= 0;
    }
}

/* Reads a packet after its '$' to g->packet. Returns its bytes, PACKET_BYTES if it is too long, or
 * -1 if its checksum is wrong or the connection is lost. */
static int read_packet(struct gdb *g)
{
    uint8_t sum = 0;
    int n = 0, byte;
    char digits[3] = "";
    while ((byte = get(g)) != '#') {
        if (byte < 0)
            return -1;
        sum = (uint8_t)(sum + byte);
        if (n < PACKET_BYTES)
            g->packet[n++] = (char)byte;
    }
    for (int i = 0; i < 2; i++)
        digits[i] = (char)get(g);
    if (n < PACKET_BYTES)
        g->packet[n] = 0;
    return strtoul(digits, NULL, 16) == sum ? n : -1;
}

/* Waits for a request and reads it to g->packet. False if the connection is lost. */
static bool next_packet(struct gdb *g)
{
    int byte, n;
    while ((byte = get(g)) >= 0) {
        if (byte != '$')
            continue;
        n = read_packet(g);
        if (!g->quiet && !put(g, n < 0 ? "-" : "+", 1))
            return false;
        if (n == PACKET_BYTES) {
            if (!send_packet(g, "E.packets of 4096 bytes or more are not taken"))
                return false;
        } else if (n >= 0) {
            return true;
        }
    }
    return false;
}

/* The functions from here on answer requests. */

/* Writes the error reply "E." with the texts `why` and `what`. Replaces the protocol's characters
 * by spaces. */
static void refuse(FILE *reply, const char *why, const char *what)
{
    fputs("E.", reply);
    for (const char *part = why; part; part = part == why ? what : NULL)
        for (; *part; part++)
            fputc(strchr("#$}*", *part) ? ' ' : *part, reply);
}

/* Writes n bytes as hexadecimal digits. */
static void show_hex(FILE *reply, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(reply, "%02x", (unsigned)(uint8_t)text[i]);
}

/* Parses the hexadecimal number before character `end`, and moves *text past that character. False
 * if there is none. */
static bool read_hex(const char **text, char end, uint64_t *value)
{
    char *rest;
    errno = 0;
    *value = strtoull(*text, &rest, 16);
    if (rest == *text || !isxdigit((unsigned char)**text) || *rest != end || errno)
        return false;
    *text = rest + (end != 0);
    return true;
}

/* Decodes bytes of two hexadecimal digits each to `to`. Returns their number, or -1 if `text` has
 * other characters or more than `size` bytes. */
static int read_bytes(const char *text, char *to, int size)
{
    int n = 0;
    for (; *text; text += 2) {
        const char digits[3] = {text[0], text[1], 0};
        if (n == size || !isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
            return -1;
        to[n++] = (char)strtoul(digits, NULL, 16);
    }
    return n;
}

/* Returns the thread number of a wave, which is at least 1. */
static uint64_t thread_of(const struct wave *w) { return w->wg->index * WAVES_MAX + w->id + 1; }

/* Returns the wave of a thread number in hexadecimal; 0 and -1 mean the stopped wave. NULL if the
 * workgroup has no such wave, or it has ended. */
static const struct wave *find_wave(const struct gdb *g, const char *text)
{
    const struct workgroup *wg = g->stopped->wg;
    uint64_t number;
    if (strcmp(text, "-1") == 0)
        return g->stopped;
    if (!read_hex(&text, 0, &number))
        return NULL;
    for (uint32_t i = 0; number && i < wg->nwaves; i++)
        if (thread_of(wg->waves[i]) == number && wg->waves[i]->state != WAVE_ENDED)
            return wg->waves[i];
    return number ? NULL : g->stopped;
}

/* Replies with the reason for which the wave has stopped. */
static void on_stop(struct gdb *g, const char *text, FILE *reply)
{
    (void)text;
    fprintf(reply, "T%02xthread:%" PRIx64 ";", g->stop.interrupted ? 2 : 5, thread_of(g->stopped));
    if (g->stop.stored)
        fprintf(reply, "watch:%" PRIx64 ";", g->stop.address);
}

/* Replies with the features that the server supports. */
static void on_supported(struct gdb *g, const char *text, FILE *reply)
{
    (void)g, (void)text;
    fprintf(reply, "PacketSize=%x;qXfer:features:read+;QStartNoAckMode+;vContSupported+",
            PACKET_BYTES - 1);
}

/* Ends acknowledgements of packets. */
static void on_quiet(struct gdb *g, const char *text, FILE *reply)
{
    (void)text;
    fputs("OK", reply);
    g->quiet = true;
}

/* Replies with a part of the target description; `text` is "OFFSET,LENGTH". */
static void on_description(struct gdb *g, const char *text, FILE *reply)
{
    uint64_t offset, length;
    char *all = NULL;
    size_t size = 0;
    if (!read_hex(&text, ',', &offset) || !read_hex(&text, 0, &length)) {
        refuse(reply, "offset and length are missing in ", g->packet);
        return;
    }
    FILE *out = open_memstream(&all, &size);
    if (out) {
        gdb_show_description(out, g->stopped);
        fclose(out);
    }
    if (!all || offset > size) {
        refuse(reply, "the description has no such offset: ", g->packet);
    } else {
        const uint64_t n = size - offset < length ? size - offset : length;
        fprintf(reply, "%c%.*s", offset + n < size ? 'm' : 'l', (int)n, all + offset);
    }
    free(all);
}

/* Replies that the server attached to a running process. */
static void on_attached(struct gdb *g, const char *text, FILE *reply)
{
    (void)g, (void)text;
    fputc('1', reply);
}

/* Replies with the thread number of the stopped wave. */
static void on_current(struct gdb *g, const char *text, FILE *reply)
{
    (void)text;
    fprintf(reply, "QC%" PRIx64, thread_of(g->stopped));
}

/* Replies with the thread numbers of the workgroup's running waves. */
static void on_threads(struct gdb *g, const char *text, FILE *reply)
{
    const struct workgroup *wg = g->stopped->wg;
    char mark = 'm';
    (void)text;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        if (wg->waves[i]->state == WAVE_ENDED)
            continue;
        fprintf(reply, "%c%" PRIx64, mark, thread_of(wg->waves[i]));
        mark = ',';
    }
}

/* Replies that the list of threads is complete. */
static void on_no_more(struct gdb *g, const char *text, FILE *reply)
{
    (void)g, (void)text;
    fputc('l', reply);
}

/* Replies with the workgroup and the number of a wave as text. */
static void on_thread_text(struct gdb *g, const char *text, FILE *reply)
{
    char line[256];
    const struct wave *w = find_wave(g, text);
    if (!w) {
        refuse(reply, "no such wave in this workgroup: ", text);
        return;
    }
    const int n = snprintf(line, sizeof(line), "workgroup (%u, %u, %u), wave %u", w->wg->id[0],
                           w->wg->id[1], w->wg->id[2], w->id);
    show_hex(reply, line, (size_t)n);
}

/* Replies whether a thread is a running wave of the workgroup. */
static void on_alive(struct gdb *g, const char *text, FILE *reply)
{
    if (find_wave(g, text))
        fputs("OK", reply);
    else
        refuse(reply, "no such wave in this workgroup: ", text);
}

/* Selects the wave to show ("gTHREAD") or to step ("cTHREAD"). */
static void on_select(struct gdb *g, const char *text, FILE *reply)
{
    const struct wave *w = *text ? find_wave(g, text + 1) : NULL;
    if (!w || !strchr("gc", *text)) {
        refuse(reply, "no such wave in this workgroup: ", text);
        return;
    }
    *(*text == 'g' ? &g->shown : &g->stepped) = w;
    fputs("OK", reply);
}

/* Replies with the values of all scalar registers. */
static void on_registers(struct gdb *g, const char *text, FILE *reply)
{
    (void)text;
    gdb_show_scalars(reply, g->shown);
}

/* Replies with the value of the register whose number is in `text`. */
static void on_register(struct gdb *g, const char *text, FILE *reply)
{
    const char *number = text;
    uint64_t n;
    if (!read_hex(&number, 0, &n) || !gdb_show_register(reply, g->shown, n))
        refuse(reply, "no such register: ", text);
}

/* Replies with bytes of memory; `text` is "ADDRESS,LENGTH". */
static void on_memory(struct gdb *g, const char *text, FILE *reply)
{
    uint64_t address, length;
    if (!read_hex(&text, ',', &address) || !read_hex(&text, 0, &length))
        refuse(reply, "address and length are missing in ", g->packet);
    else if (length &&
             !gdb_show_memory(reply, g->shown, address, length < MEMORY_MAX ? length : MEMORY_MAX))
        refuse(reply, "no memory of the device at ", g->packet + 1);
}

/* Refuses writes of registers and memory. */
static void on_write(struct gdb *g, const char *text, FILE *reply)
{
    (void)g, (void)text;
    refuse(reply, "registers and memory can only be read", "");
}

/* True if an instruction begins at `address`. Instructions are decoded one after the other from the
 * stopped kernel's entry on. For addresses before it they are decoded from the beginning of the
 * code. */
static bool begins_instruction(const struct gdb *g, uint64_t address)
{
    const struct launch *const l = g->stopped->launch;
    const uint64_t base = code_address(l->code), entry = l->entry_pc + l->entry_skip;
    uint64_t at = address < entry ? base : entry;
    while (at < address) {
        const struct inst *const in = code_inst(l->code, at - base);
        at += in ? in->size : 4; /* 4 bytes for padding and data too */
    }
    return at == address;
}

/* Adds ("Z") or removes ("z") the place in "TYPE,ADDRESS,KIND". Types 0 and 1 are places to stop
 * at, type 2 is stores to KIND bytes. Other types are not supported and have an empty reply. */
static void on_place(struct gdb *g, const char *text, FILE *reply)
{
    const bool add = g->packet[0] == 'Z';
    const struct code *code = g->stopped->launch->code;
    uint64_t type, address, kind;
    if (!read_hex(&text, ',', &type) || !read_hex(&text, ',', &address) ||
        !read_hex(&text, 0, &kind)) {
        refuse(reply, "type, address and kind are wanted in ", g->packet);
        return;
    }
    if (type > 2)
        return;
    const uint64_t lds = address - SHARED_APERTURE;
    const bool is_lds = lds < APERTURE_BYTES;
    if (type < 2 && add && (address - code_address(code) >= code_size(code) || address % 4))
        refuse(reply, "no instruction of this kernel is at ", g->packet + 1);
    else if (type < 2 && add && !begins_instruction(g, address))
        refuse(reply, "inside of an instruction: ", g->packet + 1);
    else if (type == 2 && add && (kind == 0 || address + kind < address))
        refuse(reply, "no range of bytes: ", g->packet);
    else if (type == 2 ? g->ops->watch(g->ops->ctx, is_lds ? lds : address, kind, is_lds, add)
                       : g->ops->place(g->ops->ctx, address, add))
        fputs("OK", reply);
    else
        refuse(reply, add ? "no room for another place or range: " : "was not set: ", g->packet);
}

/* Executes a command of the debugger's prompt; `text` has two digits for each byte of it. */
static void on_command(struct gdb *g, const char *text, FILE *reply)
{
    char command[PACKET_BYTES / 2], *printed = NULL;
    size_t size = 0;
    const int n = read_bytes(text, command, sizeof(command) - 1);
    if (n < 0) {
        refuse(reply, "a byte of the command is not two digits: ", text);
        return;
    }
    command[n] = 0;
    FILE *out = open_memstream(&printed, &size);
    if (!out) {
        refuse(reply, "out of memory", "");
        return;
    }
    g->ops->command(g->ops->ctx, g->shown, command, out);
    fclose(out);
    if (size)
        show_hex(reply, printed, size);
    else
        fputs("OK", reply);
    free(printed);
}

/* Replies with the forms of vCont that the server has. */
static void on_resume_forms(struct gdb *g, const char *text, FILE *reply)
{
    (void)g, (void)text;
    fputs("vCont;c;C;s;S", reply);
}

static const struct request {
    const char *name; /* beginning of its packets; longer names are before shorter ones */
    void (*handle)(struct gdb *g, const char *text, FILE *reply);
} requests[] = {
    {"?", on_stop},
    {"qSupported", on_supported},
    {"QStartNoAckMode", on_quiet},
    {"qXfer:features:read:target.xml:", on_description},
    {"qAttached", on_attached},
    {"qThreadExtraInfo,", on_thread_text},
    {"qfThreadInfo", on_threads},
    {"qsThreadInfo", on_no_more},
    {"qRcmd,", on_command},
    {"qC", on_current},
    {"vCont?", on_resume_forms},
    {"T", on_alive},
    {"H", on_select},
    {"g", on_registers},
    {"p", on_register},
    {"m", on_memory},
    {"G", on_write},
    {"P", on_write},
    {"M", on_write},
    {"X", on_write},
    {"Z", on_place},
    {"z", on_place},
};

/* Replies to a request that resumes nothing. The reply is empty if `requests` lacks it. False if
 * the connection is lost. */
static bool answer(struct gdb *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *reply = open_memstream(&text, &size);
    if (!reply)
        return false;
    const bool was_quiet = g->quiet;
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        const size_t n = strlen(requests[i].name);
        if (strncmp(g->packet, requests[i].name, n) == 0) {
            requests[i].handle(g, g->packet + n, reply);
            break;
        }
    }
    fclose(reply);
    bool sent = send_packet(g, text);
    if (g->quiet && !was_quiet) /* the reply to this request is still acknowledged */
        sent = sent && get(g) >= 0;
    free(text);
    return sent;
}

/* The functions from here on resume the waves. */

/* Parses vCont's "ACTION[:THREAD];..." and sets *wish to the first step among the actions,
 * otherwise to continue. False if a thread or an action is unknown. */
static bool read_actions(struct gdb *g, char *text, struct gdb_wish *wish)
{
    char *rest = NULL;
    *wish = (struct gdb_wish){.action = GDB_CONTINUE};
    for (char *one = strtok_r(text, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
        const char *thread = strchr(one, ':');
        const struct wave *w = thread ? find_wave(g, thread + 1) : g->stopped;
        if (!w || !strchr("cCsS", *one))
            return false;
        if ((*one == 's' || *one == 'S') && wish->action == GDB_CONTINUE)
            *wish = (struct gdb_wish){.action = GDB_STEP, .wave = w};
    }
    return true;
}

/* True if g->packet is a request that resumes or ends the program, which sets *wish. Sets *refusal
 * to the error reply if the request cannot be met, otherwise to NULL. */
static bool read_wish(struct gdb *g, struct gdb_wish *wish, const char **refusal)
{
    char *p = g->packet;
    *refusal = NULL;
    if (strncmp(p, "vCont;", 6) == 0) {
        if (!read_actions(g, p + 6, wish))
            *refusal = "E.no such action, or no such wave in this workgroup";
        return true;
    }
    if (*p == 'k' || strncmp(p, "vKill;", 6) == 0) {
        *wish = (struct gdb_wish){.action = GDB_KILL};
        return true;
    }
    if (*p == 'D') {
        *wish = (struct gdb_wish){.action = GDB_DETACH};
        return true;
    }
    if (!*p || !strchr("cCsS", *p))
        return false;
    if (strchr("cs", *p) && p[1])
        *refusal = "E.a wave goes on where it has stopped";
    *wish = *p == 's' || *p == 'S' ? (struct gdb_wish){.action = GDB_STEP, .wave = g->stepped}
                                   : (struct gdb_wish){.action = GDB_CONTINUE};
    return true;
}

/* Waits for a client unless one is connected. False if none can connect. */
static bool accept_client(struct gdb *g)
{
    if (g->client >= 0)
        return true;
    if (g->listener < 0)
        return false;
    do
        g->client = accept(g->listener, NULL, NULL);
    while (g->client < 0 && errno == EINTR);
    return g->client >= 0;
}

/* Closes the connection and the socket, so that no client can connect again. `asked`: sends the
 * client the reply to its request first. */
static struct gdb_wish detach(struct gdb *g, bool asked)
{
    if (asked)
        send_packet(g, "OK");
    gdb_close(g, -1);
    return (struct gdb_wish){.action = GDB_DETACH};
}

struct gdb_wish gdb_converse(struct gdb *g, const struct wave *w, const struct gdb_stop *stop,
                             const struct gdb_ops *ops)
{
    struct gdb_wish wish = {.action = GDB_DETACH};
    const char *refusal;
    g->stopped = g->shown = g->stepped = w;
    g->stop = *stop;
    g->ops = ops;
    if (g->owner != getpid() || !accept_client(g))
        return wish;
    if (g->waits) {
        snprintf(g->packet, sizeof(g->packet), "?");
        g->waits = false;
        if (!answer(g))
            return detach(g, false);
    }
    while (next_packet(g)) {
        if (!read_wish(g, &wish, &refusal)) {
            if (!answer(g))
                break;
        } else if (refusal) {
            if (!send_packet(g, refusal))
                break;
        } else if (wish.action == GDB_DETACH) {
            return detach(g, true);
        } else {
            g->waits = wish.action != GDB_KILL;
            if (*g->packet == 'v' && wish.action == GDB_KILL) /* unlike "k", vKill has a reply */
                send_packet(g, "OK");
            return wish;
        }
    }
    return detach(g, false);
}

bool gdb_interrupted(const struct gdb *g)
{
    char byte;
    if (g->client < 0 || g->owner != getpid())
        return false;
    const ssize_t n = recv(g->client, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n == 1 && byte == INTERRUPT);
}

void gdb_close(struct gdb *g, int status)
{
    char reply[8];
    if (g->owner != getpid()) /* connection and path are the parent process's */
        return;
    if (g->client >= 0 && g->waits && status >= 0) {
        snprintf(reply, sizeof(reply), "W%02x", status & 0xff);
        send_packet(g, reply);
    }
    hang_up(g);
    if (g->listener >= 0)
        close(g->listener);
    if (*g->path && g->listener >= 0)
        unlink(g->path);
    g->listener = -1;
}

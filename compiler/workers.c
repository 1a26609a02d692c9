/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel loop in child processes. Each child has one end of a socket. It reads the index of an
 * item, then writes the result's size and the result, until the parent closes the other end.
 */
#include "compiler/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/process.h"

enum {
    MAX_WORKERS = 64,
    NO_MEMORY = 99,         /* exit status of a child that has no memory */
    STACK_BYTES = 64 << 20, /* bytes of a child's stack: LLVM recurses deeply on large blocks */
    PROBE_BYTES = 32 << 20, /* more memory than LLVM requests at once while it compiles a kernel */
};

/* A child process. */
struct worker {
    pid_t pid;
    int fd;      /* the parent's end of the socket; -1: no child */
    size_t item; /* index of the item that it processes */
};

struct loop {
    const struct attnc_workers *w;
    size_t next, count; /* index of the next item to start; number of items */
    struct worker workers[MAX_WORKERS];
};

/* Sends (`out` is true) or receives exactly `size` bytes at `data` over socket `fd`. Returns false
 * on an error or at the end of the data. */
static bool transfer_all(int fd, void *data, size_t size, bool out)
{
    for (char *at = data; size;) {
        const ssize_t n = out ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Processes item `i` in this process. Returns the result, which the caller frees, or NULL if memory
 * is exhausted. */
static char *do_item(const struct attnc_workers *w, size_t i, size_t *size)
{
    char *result = NULL;
    FILE *out = open_memstream(&result, size);
    if (!out)
        return NULL;
    w->work(w->context, i, out);
    if (fclose(out) == 0)
        return result;
    free(result);
    return NULL;
}

/* Raises this process's limit of the stack to STACK_BYTES, as far as the system allows. */
static void grow_stack(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) || r.rlim_cur >= STACK_BYTES)
        return;
    r.rlim_cur = r.rlim_max < STACK_BYTES ? r.rlim_max : STACK_BYTES;
    setrlimit(RLIMIT_STACK, &r);
}

/* Handles a fatal signal. LLVM aborts or follows a null pointer if it gets no memory. So if
 * PROBE_BYTES cannot be allocated, lack of memory was the cause, and the exit status is
 * NO_MEMORY. */
static void on_fatal_signal(int number)
{
    const void *probe =
        mmap(NULL, PROBE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED)
        _exit(NO_MEMORY);
    signal(number, SIG_DFL);
    raise(number);
}

/* Installs a handler of fatal signals that distinguishes exhausted memory from other causes. */
static void watch_memory(void)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], on_fatal_signal);
}

/* Processes in a child the items whose indices arrive at socket `fd`, until its other end is
 * closed. */
_Noreturn static void serve(const struct attnc_workers *w, int fd, pid_t parent)
{
    attnc_die_with(parent);
    grow_stack();
    watch_memory();
    for (size_t item; transfer_all(fd, &item, sizeof(item), false);) {
        size_t size = 0;
        char *result = do_item(w, item, &size);
        if (!result)
            _exit(NO_MEMORY);
        if (!transfer_all(fd, &size, sizeof(size), true) || !transfer_all(fd, result, size, true))
            _exit(1);
        free(result);
    }
    _exit(0);
}

/* Starts a worker process and its socket in `k`. Returns false if the system starts none. */
static bool start(struct loop *l, struct worker *k)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return false;
    const pid_t parent = getpid();
    k->pid = fork();
    if (k->pid == 0) {
        /* Close inherited sockets: open ones would hide from the other children that the parent
         * has gone. */
        for (int i = 0; i < MAX_WORKERS; i++)
            if (l->workers[i].fd >= 0)
                close(l->workers[i].fd);
        close(ends[0]);
        serve(l->w, ends[1], parent);
    }
    close(ends[1]);
    k->fd = k->pid < 0 ? -1 : ends[0];
    if (k->pid < 0)
        close(ends[0]);
    return k->pid > 0;
}

/* Ends a worker by closing its socket, waits for it, and returns its status from waitpid(). */
static int stop(struct worker *k)
{
    int status = 0;
    close(k->fd);
    k->fd = -1;
    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* Sends the index of the next item to the worker, or ends the worker if no item is left. */
static void feed(struct loop *l, struct worker *k)
{
    if (l->next == l->count) {
        stop(k);
        return;
    }
    k->item = l->next++;
    /* an error is ignored: take() notices that the worker is dead */
    transfer_all(k->fd, &k->item, sizeof(k->item), true);
}

/* Receives the answer of a worker, passes it to done(), and sends the next item. Replaces a worker
 * that has died. */
static void take(struct loop *l, struct worker *k)
{
    size_t size;
    uint8_t *result = NULL;
    const bool answered = transfer_all(k->fd, &size, sizeof(size), false);
    if (answered)
        result = malloc(size ? size : 1);
    if (result && transfer_all(k->fd, result, size, false)) {
        l->w->done(l->w->context, k->item, result, size, 0);
        free(result);
        feed(l, k);
        return;
    }
    const bool held = !answered || result;
    free(result);
    const int status = stop(k);
    const bool no_memory = !held || (WIFEXITED(status) && WEXITSTATUS(status) == NO_MEMORY);
    l->w->done(l->w->context, k->item, NULL, 0, no_memory ? 0 : status);
    if (l->next < l->count && start(l, k))
        feed(l, k);
}

/* Waits until a worker has an answer or has died, and handles all answers that have arrived.
 * Returns false if no worker is left. */
static bool wait_for_answers(struct loop *l)
{
    struct pollfd fds[MAX_WORKERS];
    struct worker *of[MAX_WORKERS];
    nfds_t n = 0;
    for (int i = 0; i < MAX_WORKERS; i++)
        if (l->workers[i].fd >= 0) {
            of[n] = &l->workers[i];
            fds[n++] = (struct pollfd){l->workers[i].fd, POLLIN, 0};
        }
    if (n == 0)
        return false;
    while (poll(fds, n, -1) < 0 && errno == EINTR) {
    }
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents)
            take(l, of[i]);
    return true;
}

/* Processes the remaining items in this process, because no worker is left. */
static void do_rest(struct loop *l)
{
    while (l->next < l->count) {
        const size_t i = l->next++;
        size_t size = 0;
        char *result = do_item(l->w, i, &size);
        l->w->done(l->w->context, i, (const uint8_t *)result, size, 0);
        free(result);
    }
}

void attnc_run_workers(unsigned jobs, size_t count, const struct attnc_workers *w)
{
    struct loop l = {.w = w, .count = count};
    for (int i = 0; i < MAX_WORKERS; i++)
        l.workers[i].fd = -1;
    fflush(NULL); /* children that end abnormally would write buffered output again */
    for (unsigned i = 0; i < MAX_WORKERS && i < jobs && l.next < count; i++)
        if (start(&l, &l.workers[i]))
            feed(&l, &l.workers[i]);
    while (wait_for_answers(&l)) {
    }
    do_rest(&l);
}

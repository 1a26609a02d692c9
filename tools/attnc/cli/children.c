/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/children.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/process.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/progress.h"

/* A message from a child to its parent: a step begins, or the child's sums. It is smaller than
 * PIPE_BUF, so that write() sends it whole. */
struct record {
    /* True: the child's last record, with `results`; false: a step begins. */
    bool last;
    /* Name of the step. */
    char step[160];
    size_t results[CHILD_MAX_RESULTS];
};

/* The parent's record of one child process. */
struct child {
    /* Process id; 0: not started. */
    pid_t pid;
    /* Reading end of the child's pipe; -1: the child has ended. */
    int fd;
    /* exit_code of the child. */
    int code;
    /* Temporary file that receives the child's standard output. */
    FILE *printed;
    size_t results[CHILD_MAX_RESULTS];
};

void child_step(struct child_report *report, const char *name)
{
    struct record r = {0};
    snprintf(r.step, sizeof(r.step), "%s", name);
    if (write(report->fd, &r, sizeof(r)) != sizeof(r))
        _exit(EXIT_ENVIRONMENT);
}

void child_result(struct child_report *report, const size_t *results, size_t count)
{
    struct record r = {.last = true};
    memcpy(r.results, results, count * sizeof(*results));
    if (write(report->fd, &r, sizeof(r)) != sizeof(r))
        _exit(EXIT_ENVIRONMENT);
}

void each_printed_line(FILE *printed, void (*take)(void *context, char *line), void *context)
{
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, printed)) > 0;) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        take(context, line);
    }
    free(line);
}

void copy_printed(FILE *printed)
{
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), printed)) > 0;)
        fwrite(buffer, 1, n, stdout);
    fflush(stdout);
}

/* Starts a child process that does part `part`. Returns false after a message. */
static bool start(const struct children *c, size_t part, struct child *child)
{
    int ends[2];
    child->printed = tmpfile();
    if (!child->printed || pipe(ends) != 0) {
        complain(EXIT_ENVIRONMENT, "cannot run a child process: %s", strerror(errno));
        return false;
    }
    fflush(stdout);
    const pid_t parent = getpid();
    child->pid = fork();
    if (child->pid == 0) {
        attnc_die_with(parent); /* ends this child with its parent: a simulation may run for long */
        struct child_report report = {.fd = ends[1]};
        close(ends[0]);
        dup2(fileno(child->printed), STDOUT_FILENO);
        int code = c->work(c->context, part, &report);
        fflush(stdout);
        _exit(code);
    }
    close(ends[1]);
    child->fd = ends[0];
    if (child->pid > 0)
        return true;
    close(child->fd);
    complain(EXIT_ENVIRONMENT, "cannot run a child process: %s", strerror(errno));
    return false;
}

/* Waits for a child that has closed its pipe, and sets its exit code. Reports a child that a signal
 * ended. */
static void finish(const struct children *c, size_t part, struct child *child)
{
    int status = 0;
    close(child->fd);
    child->fd = -1;
    if (waitpid(child->pid, &status, 0) != child->pid)
        child->code = complain(EXIT_ENVIRONMENT, "waitpid: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        child->code = complain(EXIT_USER, "%s: died of signal %d", c->name(c->context, part),
                               WTERMSIG(status));
    else
        child->code = WEXITSTATUS(status);
}

/* Reads one record from the child of part `part`, or collects the child if its pipe is closed. For
 * the begin of a step, raises *begun by one and moves the progress bar. */
static void take_record(const struct children *c, size_t part, struct child *child, size_t *begun)
{
    struct record r;
    if (read(child->fd, &r, sizeof(r)) != sizeof(r)) {
        finish(c, part, child);
    } else if (r.last) {
        memcpy(child->results, r.results, sizeof(r.results));
    } else if (c->steps) {
        show_progress(++*begun, c->steps, r.step);
    }
}

/* Waits until at least one of the `started` children writes to its pipe or closes it, and reads a
 * record from each of these. Returns false if none is running or poll() fails. */
static bool wait_for_any(const struct children *c, struct child *children, size_t started,
                         size_t *begun)
{
    struct pollfd fds[CHILDREN_MAX_JOBS];
    size_t parts[CHILDREN_MAX_JOBS];
    nfds_t count = 0;
    for (size_t i = 0; i < started; i++) {
        if (children[i].fd < 0)
            continue;
        fds[count] = (struct pollfd){.fd = children[i].fd, .events = POLLIN};
        parts[count++] = i;
    }
    if (count == 0)
        return false;
    if (poll(fds, count, -1) < 0)
        return errno == EINTR;
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].revents)
            take_record(c, parts[i], &children[parts[i]], begun);
    }
    return true;
}

/* Returns the number of started children that still run. */
static size_t count_running(const struct child *children, size_t started)
{
    size_t running = 0;
    for (size_t i = 0; i < started; i++)
        running += children[i].fd >= 0;
    return running;
}

/* Returns the worse of two exit codes: failed work (EXIT_USER) is worse than a missing device
 * (EXIT_ENVIRONMENT). */
static int worse(int a, int b)
{
    if (a == EXIT_USER || b == EXIT_USER)
        return EXIT_USER;
    return a != EXIT_GOOD ? a : b;
}

int run_children(const struct children *c)
{
    struct child *children = calloc(c->parts + 1, sizeof(*children));
    size_t started = 0, collected = 0, begun = 0;
    const size_t jobs = c->jobs < CHILDREN_MAX_JOBS ? c->jobs : CHILDREN_MAX_JOBS;
    int code = children ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "out of memory");
    for (bool go_on = children != NULL; go_on;) {
        while (started < c->parts && count_running(children, started) < jobs) {
            if (!start(c, started, &children[started])) {
                children[started].fd = -1;
                code = EXIT_ENVIRONMENT;
                break;
            }
            started++;
        }
        go_on = wait_for_any(c, children, started, &begun);
        for (; collected < started && children[collected].fd < 0; collected++) {
            struct child *child = &children[collected];
            rewind(child->printed);
            clear_progress();
            c->collect(c->context, collected, child->printed, child->results);
            fclose(child->printed);
            code = worse(code, child->code);
        }
    }
    clear_progress();
    free(children);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/child_call.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/process.h"
#include "runtime/attn.h"
#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/verify/verify.h"

/* Reads at most `size` bytes from a child's pipe `fd`, until the child closes it or `seconds` have
 * passed. Returns the number of bytes. */
static size_t read_answer(int fd, void *bytes, size_t size, double seconds)
{
    const double end = steady_seconds() + seconds;
    size_t at = 0;
    while (at < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const double left = end - steady_seconds();
        const int ready = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        const ssize_t n = ready > 0 ? read(fd, (char *)bytes + at, size - at) : 0;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    return at;
}

/* Copies the last line of `log`, a child's standard error, to `fault`, without the leading "attnc:
 * ". */
static void read_fault(FILE *log, char *fault, size_t size)
{
    char line[200];
    rewind(log);
    while (fgets(line, sizeof(line), log)) {
        line[strcspn(line, "\n")] = '\0';
        const char *text = strncmp(line, "attnc: ", 7) ? line : line + 7;
        if (*text)
            snprintf(fault, size, "%s", text);
    }
}

/* Waits for a child to end, and returns its status as waitpid() gives it. If `late` is true, kills
 * the child first. */
static int end_child(pid_t pid, bool late)
{
    int status = 0;
    if (late)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

bool child_call(int (*call)(void *context, void *answer), void *context, void *answer, size_t size,
                double seconds, char fault[200])
{
    int ends[2];
    FILE *log = tmpfile();
    if (!log || pipe(ends)) {
        snprintf(fault, 200, "no child process: %s", strerror(errno));
        return false;
    }
    const double end = steady_seconds() + seconds;
    fflush(NULL);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        attnc_die_with(parent);
        close(ends[0]);
        dup2(fileno(log), STDERR_FILENO);
        int code = call(context, answer);
        if (code == EXIT_GOOD && write(ends[1], answer, size) != (ssize_t)size)
            code = EXIT_ENVIRONMENT;
        _exit(code);
    }
    close(ends[1]);
    const bool whole = pid > 0 && read_answer(ends[0], answer, size, seconds) == size;
    close(ends[0]);
    const bool late = !whole && steady_seconds() >= end;
    const int status = pid > 0 ? end_child(pid, late) : 0;
    fault[0] = '\0';
    if (!whole)
        read_fault(log, fault, 200);
    if (late)
        snprintf(fault, 200, "hung for %.0f s", seconds);
    else if (!whole && WIFSIGNALED(status))
        snprintf(fault, 200, "died of signal %d", WTERMSIG(status));
    else if (!whole && !fault[0])
        snprintf(fault, 200, "ended with status %d", WEXITSTATUS(status));
    fclose(log);
    return whole;
}

/* Opens the GPU for the pack `context` and fills the struct gpu_identity `answer`, in a child
 * process. Returns an exit_code. */
static int call_open(void *context, void *answer)
{
    struct attn_pack *pack = context;
    struct attn_device *device;
    if (attn_device_open(&pack, 1, NULL, &device))
        return complain(EXIT_ENVIRONMENT, "%s", attn_last_error());
    gpu_identify(device, answer);
    return EXIT_GOOD;
}

bool probe_gpu(struct attn_pack *pack, struct gpu_identity *id, char why[200])
{
    enum { SECONDS = 120 }; /* the first start of a driver takes long */
    return child_call(call_open, pack, id, sizeof(*id), SECONDS, why);
}

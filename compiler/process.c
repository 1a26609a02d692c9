/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a child process, which returns its standard output and error through two pipes. A third pipe
 * reports that the program could not be started.
 */
#include "compiler/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads once from `fd` and appends the bytes to a blob of capacity *cap, which may grow. Returns
 * false at the end of the file or on an error. */
static bool drain(int fd, struct tgt_blob *b, size_t *cap)
{
    if (*cap - b->size < 4096) {
        size_t wanted = *cap * 2;
        uint8_t *grown = realloc(b->data, wanted);
        if (!grown)
            return false;
        b->data = grown;
        *cap = wanted;
    }
    ssize_t n = read(fd, b->data + b->size, *cap - b->size - 1);
    if (n <= 0)
        return false;
    b->size += (size_t)n;
    b->data[b->size] = '\0';
    return true;
}

/* Reads two pipes, the standard output and the standard error of a process, to `out` and `err`
 * until both are closed. Returns false on an error. */
static bool collect(int out_fd, int err_fd, struct tgt_blob *out, struct tgt_blob *err)
{
    size_t out_cap = 1 << 14, err_cap = 1 << 14;
    out->data = calloc(1, out_cap);
    err->data = calloc(1, err_cap);
    if (!out->data || !err->data)
        return false;
    struct pollfd fds[2] = {{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return false;
        if (fds[0].revents && !drain(fds[0].fd, out, &out_cap))
            fds[0].fd = -1;
        if (fds[1].revents && !drain(fds[1].fd, err, &err_cap))
            fds[1].fd = -1;
    }
    return true;
}

bool attnc_program_path(char path[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

void attnc_die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
}

/* Replaces the calling child process by the program argv[0]. `fds` become its standard input,
 * output and error. If that fails, writes errno to the pipe `failed`. */
_Noreturn static void become(const char *const argv[], const int fds[3], pid_t parent, int failed)
{
    attnc_die_with(parent);
    const bool ready = fds[0] >= 0 && dup2(fds[0], STDIN_FILENO) >= 0 &&
                       dup2(fds[1], STDOUT_FILENO) >= 0 && dup2(fds[2], STDERR_FILENO) >= 0;
    if (ready)
        execv(argv[0], (char *const *)argv);
    const int error = errno;
    _exit(write(failed, &error, sizeof(error)) == sizeof(error) ? 127 : 126);
}

/* Starts the program argv[0] and sets *pid. Returns 0, or an errno. Uses fork() because
 * posix_spawn() cannot bind a child's life to its parent's. */
static int start(const char *const argv[], int out_fd, int err_fd, pid_t *pid)
{
    int report[2], error = 0;
    const int fds[3] = {open("/dev/null", O_RDONLY | O_CLOEXEC), out_fd, err_fd};
    const pid_t parent = getpid();
    if (fds[0] < 0 || pipe2(report, O_CLOEXEC) != 0) {
        error = errno;
        if (fds[0] >= 0)
            close(fds[0]);
        return error;
    }
    *pid = fork();
    if (*pid == 0)
        become(argv, fds, parent, report[1]);
    if (*pid < 0)
        error = errno;
    close(report[1]);
    close(fds[0]);
    /* If the program runs, exec closes the pipe and the read returns nothing. */
    if (*pid > 0 && read(report[0], &error, sizeof(error)) == sizeof(error))
        waitpid(*pid, NULL, 0);
    close(report[0]);
    return error;
}

/* Closes both ends of a pipe that are open. */
static void close_both(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

bool attnc_run_process(const char *const argv[], struct tgt_blob *out, struct tgt_blob *err,
                       int *status)
{
    int out_pipe[2] = {-1, -1}, err_pipe[2] = {-1, -1};
    *out = *err = (struct tgt_blob){0};
    int error = 0;
    pid_t pid = 0;
    if (pipe2(out_pipe, O_CLOEXEC) != 0 || pipe2(err_pipe, O_CLOEXEC) != 0)
        error = errno;
    else
        error = start(argv, out_pipe[1], err_pipe[1], &pid);
    if (!error) {
        close(out_pipe[1]);
        close(err_pipe[1]);
        out_pipe[1] = err_pipe[1] = -1;
        if (!collect(out_pipe[0], err_pipe[0], out, err))
            error = errno;
        close_both(out_pipe); /* a child that still writes gets SIGPIPE, so the wait ends */
        close_both(err_pipe);
        int code;
        while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
        }
        *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    }
    close_both(out_pipe);
    close_both(err_pipe);
    if (!error)
        return true;
    tgt_blob_free(out);
    tgt_blob_free(err);
    errno = error;
    return false;
}

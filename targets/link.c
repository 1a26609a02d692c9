/* SPDX-License-Identifier: Apache-2.0
 *
 * Object to code object: LLVM 22's ld.lld as a child process without a shell or a file. The object
 * is its standard input, the code object its standard output, both anonymous memory.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "targets/codegen.h"

/* The child's descriptors 0, 1 and 2, close-on-exec here. */
struct streams {
    int fd[3];
};

static bool fail(char why[TGT_WHY], const char *what, int error)
{
    snprintf(why, TGT_WHY, "%s: %s", what, strerror(error));
    return false;
}

static bool open_streams(struct streams *s, char why[TGT_WHY])
{
    static const char *const names[3] = {"object", "code object", "messages"};
    for (int i = 0; i < 3; i++)
        s->fd[i] = -1;
    for (int i = 0; i < 3; i++) {
        s->fd[i] = memfd_create(names[i], MFD_CLOEXEC);
        if (s->fd[i] < 0)
            return fail(why, "memfd_create", errno);
    }
    return true;
}

static void close_streams(struct streams *s)
{
    for (int i = 0; i < 3; i++)
        if (s->fd[i] >= 0)
            close(s->fd[i]);
}

static bool write_all(int fd, const uint8_t *data, size_t size, char why[TGT_WHY])
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(why, "write", errno);
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* The whole of a memory file. */
static bool read_all(int fd, struct tgt_blob *out, char why[TGT_WHY])
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail(why, "fstat", errno);
    size_t size = (size_t)st.st_size, done = 0;
    uint8_t *data = malloc(size + 1);
    if (!data)
        return fail(why, "malloc", ENOMEM);
    while (done < size) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            free(data);
            return fail(why, "read", n ? errno : EIO);
        }
        done += (size_t)n;
    }
    data[size] = 0;
    *out = (struct tgt_blob){data, size};
    return true;
}

static bool wait_for(pid_t child, int *status, char why[TGT_WHY])
{
    while (waitpid(child, status, 0) < 0) {
        if (errno != EINTR)
            return fail(why, "waitpid", errno);
    }
    return true;
}

static bool run_linker(const struct streams *s, int *status, char why[TGT_WHY])
{
    char *argv[] = {"ld.lld", "-shared", "--no-undefined",  "--threads=1",
                    "-o",     "-",       "/proc/self/fd/0", NULL};
    char *envp[] = {NULL}; /* nothing of the caller's environment may change the output */
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return fail(why, "posix_spawn", error);
    for (int i = 0; i < 3 && !error; i++)
        error = posix_spawn_file_actions_adddup2(&actions, s->fd[i], i);
    pid_t child = 0;
    if (!error)
        error = posix_spawn(&child, TGT_LD_LLD, &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return fail(why, TGT_LD_LLD, error);
    return wait_for(child, status, why);
}

/* The linker's first message. */
static bool linker_says(int messages, int status, char why[TGT_WHY])
{
    struct tgt_blob text;
    if (!read_all(messages, &text, why))
        return false;
    char *line = (char *)text.data;
    line[strcspn(line, "\n")] = 0;
    if (*line)
        snprintf(why, TGT_WHY, "%s", line);
    else
        snprintf(why, TGT_WHY, "ld.lld ended with status %#x", (unsigned)status);
    tgt_blob_free(&text);
    return false;
}

bool tgt_link(const struct tgt_blob *object, struct tgt_blob *code_object, char why[TGT_WHY])
{
    struct streams s;
    int status = 0;
    bool ok = open_streams(&s, why) && write_all(s.fd[0], object->data, object->size, why) &&
              run_linker(&s, &status, why);
    if (ok && status != 0)
        ok = linker_says(s.fd[2], status, why);
    else if (ok)
        ok = read_all(s.fd[1], code_object, why);
    close_streams(&s);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/place_file.h"
#include "compiler/read_file.h"
#include "tools/attnc/cli/command.h"

/* A file that this run reads or will write. It is known by its inode, or, if it does not exist yet,
 * by its directory's inode and its name. Entries are never freed. */
struct noted {
    /* Device and inode of the file; of its directory if `name` is not NULL. */
    dev_t device;
    ino_t inode;
    char *name; /* name in the directory `inode`; NULL: the file exists */
    struct noted *next;
};

/* The files that this run reads, and the files that it will write. */
static struct noted *inputs, *outputs;

/* Adds a file to `list`, with device and inode from `st`. `name` is NULL unless `st` is the
 * directory of a file that does not exist yet. Exits if memory is exhausted. */
static void note(struct noted **list, const struct stat *st, const char *name)
{
    struct noted *noted = malloc(sizeof(*noted));
    if (noted)
        *noted = (struct noted){.device = st->st_dev, .inode = st->st_ino, .next = *list};
    if (noted && name)
        noted->name = strdup(name);
    if (!noted || (name && !noted->name))
        exit(complain(EXIT_ENVIRONMENT, "out of memory"));
    *list = noted;
}

/* True if `list` has a file with the device and inode of `st` and this `name`. */
static bool is_noted(const struct noted *list, const struct stat *st, const char *name)
{
    for (; list; list = list->next) {
        if (list->device == st->st_dev && list->inode == st->st_ino &&
            (name && list->name ? strcmp(name, list->name) == 0 : name == list->name))
            return true;
    }
    return false;
}

void note_input(const char *path)
{
    struct stat st;
    if ((strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &st) : stat(path, &st)) == 0 &&
        S_ISREG(st.st_mode))
        note(&inputs, &st, NULL);
}

/* True if this run reads the file of `st`. */
static bool is_input(const struct stat *st) { return is_noted(inputs, st, NULL); }

/* Reports that the output `path` would replace an input. Returns EXIT_USER. */
static int refuse_input(const char *path)
{
    return complain(EXIT_USER, "%s: is an input of this command; the output needs another name",
                    path);
}

/* Adds a path to the outputs. `st` is the file, or its directory if the file does not exist yet and
 * is called `name`. Returns EXIT_USER after a message if this run has the same output already. */
static int claim(const char *path, const struct stat *st, const char *name)
{
    if (is_noted(outputs, st, name))
        return complain(EXIT_USER, "%s: is another output of this command too", path);
    note(&outputs, st, name);
    return EXIT_GOOD;
}

int check_output(const char *path)
{
    if (!path || strcmp(path, "-") == 0)
        return EXIT_GOOD;
    struct stat st;
    if (stat(path, &st) == 0) {
        if (is_input(&st))
            return refuse_input(path);
        return S_ISREG(st.st_mode) ? claim(path, &st, NULL) : EXIT_GOOD;
    }
    /* For example a name that is too long, or a file where a directory must be. */
    if (errno != ENOENT)
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    char directory[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(directory, sizeof(directory), "%.*s", slash == path ? 1 : (int)(slash - path),
                 path);
    if (access(directory, W_OK | X_OK) != 0 || stat(directory, &st) != 0)
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    return claim(path, &st, slash ? slash + 1 : path);
}

/* Writes `size` bytes to the file descriptor `fd`. Returns false on an error, with errno set. */
static bool write_all(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)bytes + at, size - at);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Returns the permissions of a new file: read and write for all, less the process's umask. */
static mode_t default_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Writes `size` bytes to a temporary file in the directory of `path` and renames it to `path`. So
 * readers never see a part of the file. Returns false on an error, with errno set. */
static bool write_by_rename(const char *path, const void *bytes, size_t size)
{
    char temporary[PATH_MAX];
    /* The same directory, since rename() cannot move between file systems. */
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash + 1 - path) : 0;
    if (snprintf(temporary, sizeof(temporary), "%.*s.attnc-XXXXXX", length, path) >=
        (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool good = fchmod(fd, default_mode()) == 0 && write_all(fd, bytes, size);
    return attnc_place_file(fd, good, temporary, path);
}

bool file_holds(const char *path, const void *bytes, size_t size)
{
    char *old;
    size_t length;
    if (!attnc_read_file(path, size, &old, &length))
        return false;
    const bool same = length == size && memcmp(old, bytes, size) == 0;
    free(old);
    return same;
}

int write_output(const char *path, const void *bytes, size_t size)
{
    struct stat st;
    bool good;
    if (strcmp(path, "-") == 0) {
        good = fwrite(bytes, 1, size, stdout) == size;
    } else if (stat(path, &st) != 0) {
        good = write_by_rename(path, bytes, size);
    } else if (is_input(&st)) {
        return refuse_input(path);
    } else if (!S_ISREG(st.st_mode)) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        good = fd >= 0 && write_all(fd, bytes, size);
        if (fd >= 0)
            good = close(fd) == 0 && good;
    } else {
        good = ((size_t)st.st_size == size && file_holds(path, bytes, size)) ||
               write_by_rename(path, bytes, size);
    }
    if (good)
        return EXIT_GOOD;
    return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
}

int begin_output(struct output *o)
{
    *o = (struct output){0};
    o->out = open_memstream(&o->bytes, &o->size);
    return o->out ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "out of memory");
}

int end_output(struct output *o, const char *path, int code)
{
    if (fclose(o->out) != 0 && code == EXIT_GOOD)
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    if (code == EXIT_GOOD)
        code = write_output(path, o->bytes, o->size);
    free(o->bytes);
    return code;
}

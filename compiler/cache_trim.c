/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the kernels of a cache directory and removes the least recently used ones. Another process
 * that reads a removed kernel has its file open and can finish.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/cache.h"

struct file {
    char name[64]; /* relative to the cache directory: "ab/cdef..." */
    uint64_t bytes;
    struct timespec used; /* time of the last use */
};

struct listing {
    struct file *files;
    size_t count, cap;
};

/* True if `s` consists of exactly `length` lower-case hexadecimal digits. The path of an entry is
 * two digits, a slash and 30 digits; other files are never touched. */
static bool is_hex(const char *s, size_t length)
{
    return strlen(s) == length && strspn(s, "0123456789abcdef") == length;
}

/* Adds the file `name` of the subdirectory `part` to the listing; `st` has its size and time.
 * Returns false if memory is exhausted. */
static bool add_file(struct listing *l, const char *part, const char *name, const struct stat *st)
{
    if (l->count == l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 256;
        struct file *grown = realloc(l->files, cap * sizeof(*grown));
        if (!grown)
            return false;
        l->files = grown;
        l->cap = cap;
    }
    struct file *f = &l->files[l->count++];
    *f = (struct file){.bytes = (uint64_t)st->st_size, .used = st->st_mtim};
    snprintf(f->name, sizeof(f->name), "%.2s/%.40s", part, name);
    return true;
}

/* Adds the kernels in the subdirectory `part` of the directory open at `dir` to the listing. A
 * missing subdirectory adds nothing. Returns false if memory is exhausted. */
static bool list_part(struct listing *l, int dir, const char *part)
{
    const int fd = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    bool good = true;
    for (const struct dirent *e; good && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (is_hex(e->d_name, 30) && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            good = add_file(l, part, e->d_name, &st);
    }
    closedir(d);
    return good;
}

/* Compares two files by the time of their last use, for qsort(); the oldest is first. */
static int compare_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct file *)a)->used;
    const struct timespec *y = &((const struct file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

bool attnc_cache_trim(const char *path, uint64_t limit, struct attnc_cache_size *size)
{
    struct listing l = {0};
    *size = (struct attnc_cache_size){0};
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT;
    bool good = true;
    for (const struct dirent *e; good && (e = readdir(d)) != NULL;) {
        if (is_hex(e->d_name, 2))
            good = list_part(&l, dirfd(d), e->d_name);
    }
    qsort(l.files, l.count, sizeof(*l.files), compare_use);
    for (size_t i = 0; i < l.count; i++)
        size->bytes += l.files[i].bytes;
    size->kernels = l.count;
    for (size_t i = 0; good && i < l.count && size->bytes > limit; i++) {
        if (unlinkat(dirfd(d), l.files[i].name, 0) != 0 && errno != ENOENT) {
            good = false;
            break;
        }
        size->bytes -= l.files[i].bytes;
        size->kernels--;
        size->removed++;
    }
    const int error = errno;
    closedir(d);
    free(l.files);
    errno = good ? errno : error ? error : ENOMEM;
    return good;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/pack_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/pack_writer.h"
#include "compiler/read_file.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* The most packs of a run that come from pipes. */
enum { MOST_SPOOLED = 16 };

/* The packs of this run that can be read only once, from standard input or a pipe, kept in
 * memory. */
static struct spooled {
    const char *path; /* path on the command line; NULL: the entry is free */
    char *bytes;
    size_t size;
} spooled[MOST_SPOOLED];

/* Returns how messages name a file: "<stdin>" for "-", else the path. */
static const char *shown_name(const char *path) { return strcmp(path, "-") ? path : "<stdin>"; }

/* True if a file can be read only once: standard input or a pipe. */
static bool is_read_once(const char *path)
{
    struct stat st;
    return strcmp(path, "-") == 0 || (stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

/* Sets *found to the bytes of the pack at `path`, standard input or a pipe. Reads them at the first
 * call; later calls find them in memory. Returns an exit_code after a message. */
static int spool(const char *path, const struct spooled **found)
{
    size_t i = 0;
    while (i < MOST_SPOOLED && spooled[i].path && strcmp(spooled[i].path, path) != 0)
        i++;
    if (i == MOST_SPOOLED)
        return complain(EXIT_USER, "%s: more than %d packs from pipes", path, MOST_SPOOLED);
    *found = &spooled[i];
    if (spooled[i].path)
        return EXIT_GOOD;
    if (!attnc_read_file(path, SIZE_MAX / 2, &spooled[i].bytes, &spooled[i].size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", shown_name(path), strerror(errno));
    spooled[i].path = path;
    return EXIT_GOOD;
}

/* Reports why a file is no pack. `status` is libattn's error, `head` the file's first `size` bytes.
 * Returns an exit_code. */
static int refuse(const char *path, int status, const char *head, size_t size)
{
    const int code = status == ATTN_IO ? EXIT_ENVIRONMENT : EXIT_USER;
    const char *said = attn_last_error(), *name = shown_name(path);
    if (status == ATTN_BAD_PACK && size == 0)
        return complain(code, "%s: empty, not a pack", name);
    /* Descriptions are text without zero bytes; packs have some. */
    if (status == ATTN_BAD_PACK && !memchr(head, '\0', size))
        return complain(code, "%s: text, not a pack; `attnc build` makes a pack of a description",
                        name);
    return strstr(said, path) ? complain(code, "%s", said) : complain(code, "%s: %s", name, said);
}

/* Reads the first 512 bytes of a file, or all if it has fewer, to `head`. Returns their number; 1
 * if the file cannot be opened, so that it does not count as empty. */
static size_t read_head(const char *path, char head[512])
{
    FILE *const file = fopen(path, "rb");
    const size_t size = file ? fread(head, 1, 512, file) : 1;
    if (file)
        fclose(file);
    return size;
}

/* Opens a pack from standard input or a pipe, whose bytes spool() keeps. Returns an exit_code after
 * a message. */
static int open_spooled(const char *path, struct attn_pack **pack)
{
    const struct spooled *s;
    int status, code = spool(path, &s);
    if (code != EXIT_GOOD)
        return code;
    if ((status = attn_pack_open_memory(s->bytes, s->size, pack)) == ATTN_OK)
        return EXIT_GOOD;
    return refuse(path, status, s->bytes, s->size < 512 ? s->size : 512);
}

int open_pack(const char *path, struct attn_pack **pack)
{
    char head[512] = "";
    if (is_read_once(path))
        return open_spooled(path, pack);
    note_input(path);
    const int status = attn_pack_open(path, pack);
    return status == ATTN_OK ? EXIT_GOOD : refuse(path, status, head, read_head(path, head));
}

/* Reads the pack's bytes; the caller frees them. A pack from a pipe is copied from memory. Returns
 * an exit_code after a message. */
static int read_bytes(const char *path, char **bytes, size_t *size)
{
    const struct spooled *s;
    if (!is_read_once(path))
        return attnc_read_file(path, SIZE_MAX / 2, bytes, size)
                   ? EXIT_GOOD
                   : complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    const int code = spool(path, &s);
    if (code != EXIT_GOOD)
        return code;
    *size = s->size;
    *bytes = malloc(s->size + 1);
    if (!*bytes)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    memcpy(*bytes, s->bytes, s->size);
    return EXIT_GOOD;
}

int read_pack(const char *path, char **bytes)
{
    struct attn_pack *pack;
    size_t size;
    const int code = read_bytes(path, bytes, &size);
    if (code != EXIT_GOOD)
        return code;
    int status = attn_pack_open_memory(*bytes, size, &pack);
    if (status == ATTN_OK) {
        status = attn_pack_check(pack);
        attn_pack_close(pack);
    }
    if (status == ATTN_OK)
        return EXIT_GOOD;
    free(*bytes);
    *bytes = NULL;
    return complain(EXIT_USER, "%s: %s", shown_name(path), attn_last_error());
}

int pack_for_children(const char *path, const char **name)
{
    static char names[MOST_SPOOLED][32];
    const struct spooled *s;
    *name = path;
    if (!is_read_once(path))
        return EXIT_GOOD;
    const int code = spool(path, &s);
    if (code != EXIT_GOOD)
        return code;
    const int fd = memfd_create("pack", 0); /* child processes inherit it under the same number */
    for (size_t at = 0; fd >= 0 && at < s->size;) {
        const ssize_t n = write(fd, s->bytes + at, s->size - at);
        if (n < 0 && errno != EINTR)
            return complain(EXIT_ENVIRONMENT, "%s: %s", shown_name(path), strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0)
        return complain(EXIT_ENVIRONMENT, "%s: %s", shown_name(path), strerror(errno));
    char *own = names[s - spooled];
    snprintf(own, sizeof(names[0]), "/proc/self/fd/%d", fd);
    *name = own;
    return EXIT_GOOD;
}

struct attn_pack *isolate_kernel(const void *bytes, uint32_t n, void **copy)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_pack *pack = NULL;
    size_t size;
    *copy = NULL;
    if (w && attnc_pack_copy(w, bytes, n, true) && attnc_pack_writer_finish(w, copy, &size) &&
        attn_pack_open_memory(*copy, size, &pack))
        pack = NULL;
    attnc_pack_writer_destroy(w);
    return pack;
}

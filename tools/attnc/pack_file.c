/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/pack_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pack_writer.h"
#include "compiler/read_file.h"
#include "tools/attnc/command.h"
#include "tools/attnc/output.h"

/* Is the file text, as descriptions are and packs are not? */
static bool is_text(const char *path)
{
    char head[512];
    FILE *const file = fopen(path, "rb");
    const size_t size = file ? fread(head, 1, sizeof(head), file) : 0;
    if (file)
        fclose(file);
    return size && !memchr(head, '\0', size);
}

int open_pack(const char *path, struct attn_pack **pack)
{
    note_input(path);
    int status = attn_pack_open(path, pack);
    if (status == ATTN_OK)
        return EXIT_GOOD;
    /* The library's own message names a file that cannot be read. */
    int code = status == ATTN_IO ? EXIT_ENVIRONMENT : EXIT_USER;
    const char *said = attn_last_error();
    if (status == ATTN_BAD_PACK && is_text(path))
        return complain(code, "%s: text, not a pack; `attnc build` makes a pack of a description",
                        path);
    return strstr(said, path) ? complain(code, "%s", said) : complain(code, "%s: %s", path, said);
}

int read_pack(const char *path, char **bytes)
{
    struct attn_pack *pack;
    size_t size;
    if (!attnc_read_file(path, SIZE_MAX / 2, bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    int status = attn_pack_open_memory(*bytes, size, &pack);
    if (status == ATTN_OK) {
        status = attn_pack_check(pack);
        attn_pack_close(pack);
    }
    if (status == ATTN_OK)
        return EXIT_GOOD;
    free(*bytes);
    *bytes = NULL;
    return complain(EXIT_USER, "%s: %s", path, attn_last_error());
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

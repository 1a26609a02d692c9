/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/on_gpu/copy_hooks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/description.h"
#include "compiler/hooks.h"
#include "compiler/place_file.h"
#include "compiler/read_file.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* Most bytes of a C file. */
enum { MOST_BYTES = 16 << 20 };

/* True if the path `rest`, which continues a folder's path with a slash, never leaves that folder.
 * Goes by the names, since the archive has no links. */
static bool stays_inside(const char *rest)
{
    int depth = 0;
    for (size_t length; *rest; rest += length) {
        rest += strspn(rest, "/");
        length = strcspn(rest, "/");
        if (length == 2 && !strncmp(rest, "..", 2))
            depth--;
        else if (length && !(length == 1 && *rest == '.'))
            depth++;
        if (depth < 0)
            return false;
    }
    return true;
}

/* Copies the file `path` to its place in the archive's folder, by the path's names: a link becomes
 * a file. `base` is the description's folder, without a slash at its end. Returns an exit_code
 * after a message. */
static int copy_file(const char *path, const char *base, const char *folder)
{
    char place[PATH_MAX], *bytes;
    size_t size;
    const size_t length = strlen(base);
    const char *name = strrchr(path, '/') + 1;
    if (strncmp(path, base, length) != 0 || path[length] != '/' || !stays_inside(path + length)) {
        if (strcmp(name, "attn_hook.h") != 0) /* attnc has this file itself */
            fprintf(stderr, "%s is outside %s, so the archive lacks it\n", path, base);
        return EXIT_GOOD;
    }
    if (snprintf(place, sizeof(place), "%s%s", folder, path + length) >= (int)sizeof(place))
        return complain(EXIT_USER, "on-gpu: the path of %s is too long", name);
    if (!attnc_read_file(path, MOST_BYTES, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    int code = EXIT_GOOD;
    if (!attnc_make_parents(place)) /* first: `x/../a.h` opens only if x exists */
        code = complain(EXIT_ENVIRONMENT, "%s: %s", place, strerror(errno));
    else if (!access(place, F_OK) && !file_holds(place, bytes, size))
        code = complain(EXIT_USER, "on-gpu: the archive has another %s; rename one of them",
                        path + length + 1);
    else
        code = write_output(place, bytes, size);
    free(bytes);
    return code;
}

/* Reports that the file `file` names the file `name` by its absolute path, if it does. */
static void report_absolute(const char *file, const char *name)
{
    char *bytes;
    size_t size;
    if (!attnc_read_file(file, MOST_BYTES, &bytes, &size))
        return;
    /* The name of another file may begin with this one. */
    const char *at = memmem(bytes, size, name, strlen(name)), *end = at ? at + strlen(name) : NULL;
    if (at && (end == bytes + size || strchr("\"> \t\r\n,}", *end)))
        fprintf(stderr,
                "%s names %s by its absolute path, so elsewhere it does not find the "
                "archive's copy\n",
                file, name);
    free(bytes);
}

/* Reads the next file name of a make rule's right-hand side into `name`, and moves *at to its end.
 * A backslash precedes a blank or # of a name, and a $ is written twice. Returns false at the
 * end. */
static bool next_name(const char **at, char name[PATH_MAX])
{
    size_t length = 0;
    while (**at == ' ' || **at == '\n' || (**at == '\\' && (*at)[1] == '\n'))
        ++*at;
    for (; **at && **at != ' ' && **at != '\n' && length < PATH_MAX - 1; ++*at) {
        const char next = (*at)[1];
        if ((**at == '\\' && (next == ' ' || next == '#')) || (**at == '$' && next == '$'))
            ++*at;
        name[length++] = **at;
    }
    name[length] = '\0';
    return length > 0;
}

/* Copies a hook and the files that it includes, as copy_file(), and reports absolute paths among
 * the includes. Copies nothing if Clang refuses the hook. */
static int copy_hook(const char *hook, const char *base, const char *folder)
{
    struct tgt_blob text = {0}, messages = {0};
    char name[PATH_MAX], file[PATH_MAX];
    int code = EXIT_GOOD;
    if (attnc_hook_dependencies(hook, &text, &messages) == ATTNC_HOOK_COMPILED) {
        const char *at = (const char *)text.data;
        while (code == EXIT_GOOD && next_name(&at, name)) {
            code = copy_file(name, base, folder);
            const char *other = (const char *)text.data;
            while (code == EXIT_GOOD && next_name(&other, file))
                report_absolute(file, name);
        }
    }
    tgt_blob_free(&text);
    tgt_blob_free(&messages);
    return code;
}

/* Sets `folder`, PATH_MAX bytes, to the folder of the hook; it has to be that folder, or "". A hook
 * that is a link is in the folder that its path names, since kernels have the link's name. Returns
 * an exit_code after a message. */
static int find_folder(const char *hook, char *folder)
{
    char place[PATH_MAX], real[PATH_MAX];
    snprintf(place, sizeof(place), "%.*s/", (int)(strrchr(hook, '/') - hook), hook);
    if (!realpath(place, real))
        return complain(EXIT_USER, "%s: %s", place, strerror(errno));
    if (folder[0] && strcmp(folder, real) != 0)
        return complain(EXIT_USER,
                        "on-gpu: hooks are in %s and in %s; put them into one folder, since "
                        "attnc verify takes one",
                        folder, real);
    memcpy(folder, real, strlen(real) + 1);
    return EXIT_GOOD;
}

int copy_hooks(const char *path, const char *target, const char *folder, char *hooks)
{
    const char *const targets[] = {target, NULL};
    const struct attnc_read_options options = {.targets = targets};
    struct attnc_description d = {0};
    struct attnc_diag diag = {.file = path};
    char base[PATH_MAX];
    int code = EXIT_GOOD;
    snprintf(base, sizeof(base), "%.*s", (int)(strrchr(path, '/') - path), path);
    if (attnc_read_description(path, &options, &d, &diag)) {
        for (size_t i = 0; i < d.path_count && code == EXIT_GOOD; i++) {
            code = find_folder(d.paths[i], hooks);
            if (code == EXIT_GOOD)
                code = copy_hook(d.paths[i], base, folder);
            report_absolute(path, d.paths[i]);
        }
    }
    attnc_diag_clear(&diag);
    attnc_description_free(&d);
    return code;
}

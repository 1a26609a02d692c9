/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/on_gpu/copy_hooks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/description.h"
#include "compiler/hooks.h"
#include "compiler/read_file.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* Largest size in bytes of a C file that is copied. */
enum { MOST_BYTES = 16 << 20 };

/* Makes the folders above the file `path` that do not exist. Returns false with errno if one cannot
 * be made. */
static bool make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

/* True if the file `path` does not exist, or its contents are the `size` bytes at `bytes`. */
static bool is_free_or_same(const char *path, const char *bytes, size_t size)
{
    char *old;
    size_t length;
    if (!attnc_read_file(path, MOST_BYTES, &old, &length))
        return errno == ENOENT;
    const bool same = length == size && !memcmp(old, bytes, size);
    free(old);
    return same;
}

/* Copies the file `path` into `folder`, to the same place there as in `base`, the description's
 * folder, without a slash at its end. Prints a line and copies nothing if the file is outside
 * `base`. Returns an exit_code after a message. */
static int copy_file(const char *path, const char *base, const char *folder)
{
    char real[PATH_MAX], place[PATH_MAX], *bytes;
    size_t size;
    const size_t length = strlen(base);
    if (!realpath(path, real))
        return complain(EXIT_USER, "%s: %s", path, strerror(errno));
    const char *name = strrchr(real, '/') + 1;
    if (strncmp(real, base, length) != 0 || real[length] != '/') {
        if (strcmp(name, "attn_hook.h") != 0) /* attnc has this file itself */
            fprintf(stderr, "%s is outside %s, so the archive lacks it\n", real, base);
        return EXIT_GOOD;
    }
    if (snprintf(place, sizeof(place), "%s%s", folder, real + length) >= (int)sizeof(place))
        return complain(EXIT_USER, "on-gpu: the path of %s is too long", name);
    if (!attnc_read_file(real, MOST_BYTES, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", real, strerror(errno));
    int code = EXIT_GOOD;
    if (!is_free_or_same(place, bytes, size))
        code = complain(EXIT_USER, "on-gpu: the archive has another %s; rename one of them",
                        real + length + 1);
    else if (!make_parents(place))
        code = complain(EXIT_ENVIRONMENT, "%s: %s", place, strerror(errno));
    else
        code = write_output(place, bytes, size);
    free(bytes);
    return code;
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

/* Copies a hook and the files that it includes, each by copy_file(), whose parameters and result
 * this function has. Copies nothing if Clang refuses the hook. */
static int copy_hook(const char *hook, const char *base, const char *folder)
{
    struct tgt_blob text = {0}, messages = {0};
    char name[PATH_MAX];
    int code = EXIT_GOOD;
    if (attnc_hook_dependencies(hook, &text, &messages) == ATTNC_HOOK_COMPILED) {
        const char *at = (const char *)text.data;
        while (code == EXIT_GOOD && next_name(&at, name))
            code = copy_file(name, base, folder);
    }
    tgt_blob_free(&text);
    tgt_blob_free(&messages);
    return code;
}

/* Sets `folder` (PATH_MAX bytes, "" before the first hook) to the hook's folder. Another folder in
 * `folder` is an error: all hooks must be in one. Returns an exit_code after a message. */
static int find_folder(const char *hook, char *folder)
{
    char real[PATH_MAX];
    if (!realpath(hook, real))
        return complain(EXIT_USER, "%s: %s", hook, strerror(errno));
    *strrchr(real, '/') = '\0';
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
        }
    }
    attnc_diag_clear(&diag);
    attnc_description_free(&d);
    return code;
}

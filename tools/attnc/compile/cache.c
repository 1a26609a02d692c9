/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc cache: prints how many compiled kernels the cache has, and removes the least recently used
 * ones.
 */
#include "tools/attnc/compile/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/cache.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"

static struct {
    const char *cache, *limit;
    bool clear, json;
} args;

static const struct option_row options[] = {
    {"cache", 0, "DIR", "the cache (default: ~/.cache/attnc)", &args.cache, NULL},
    {"limit", 0, "SIZE", "remove what was not used for longest, until SIZE (512M, 2G) is left",
     &args.limit, NULL},
    {"clear", 0, NULL, "remove every kernel", NULL, &args.clear},
    {"json", 0, NULL, "print a JSON object", NULL, &args.json},
    {0},
};

const char *cache_directory(const char *given, char path[PATH_MAX])
{
    if (given)
        return given;
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        snprintf(path, PATH_MAX, "%s/attnc", xdg);
    else if (home && home[0] == '/')
        snprintf(path, PATH_MAX, "%s/.cache/attnc", home);
    else
        return NULL;
    return path;
}

int read_cache_limit(const char *command, const char *option, const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGT";
    char *end;
    errno = 0;
    const uintmax_t n = strtoumax(text, &end, 10);
    const char *letter = *end ? strchr(letters, *end) : NULL;
    const unsigned shift = letter ? 10 * (unsigned)(letter - letters + 1) : 0;
    end += letter != NULL;
    if (end == text || *end || errno || text[0] == '-' || n > UINT64_MAX >> shift)
        return complain(EXIT_USER, "%s: expected --%s to be a size like 512M or 2G, saw '%s'",
                        command, option, text);
    *bytes = (uint64_t)n << shift;
    return EXIT_GOOD;
}

/* Prints the directory, kernels and bytes of the cache, and how many kernels this run has
 * removed. */
static void print_size(const char *path, const struct attnc_cache_size *size)
{
    if (args.json) {
        struct json j = {.out = stdout};
        json_begin_object(&j, NULL);
        json_string(&j, "directory", path);
        json_integer(&j, "kernels", (int64_t)size->kernels);
        json_integer(&j, "bytes", (int64_t)size->bytes);
        json_integer(&j, "removed", (int64_t)size->removed);
        json_end(&j);
        return;
    }
    printf("%s: %zu kernel%s, %.1f MiB", path, size->kernels, size->kernels == 1 ? "" : "s",
           (double)size->bytes / (1 << 20));
    if (args.clear || args.limit)
        printf("; %zu removed", size->removed);
    putchar('\n');
}

/* Runs `attnc cache`. */
static int run(int argc, char **argv)
{
    char room[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    struct attnc_cache_size size;
    if (argc)
        return complain(EXIT_USER, "cache: unexpected operand '%s'", argv[0]);
    const char *path = cache_directory(args.cache, room);
    if (!path)
        return complain(EXIT_ENVIRONMENT, "cache: HOME is not set; --cache names a directory");
    if (args.limit && read_cache_limit("cache", "limit", args.limit, &limit) != EXIT_GOOD)
        return EXIT_USER;
    if (!attnc_cache_trim(path, args.clear ? 0 : limit, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    print_size(path, &size);
    return EXIT_GOOD;
}

const struct command command_cache = {
    .name = "cache",
    .usage = "[OPTION]...",
    .summary = "Show or empty the cache of compiled kernels",
    .options = options,
    .details =
        "A build keeps every kernel that it compiles, and afterwards removes what was not used\n"
        "for longest until --cache-limit is kept. Files that are no kernels are never touched.\n",
    .run = run,
};

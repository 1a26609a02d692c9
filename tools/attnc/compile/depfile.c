/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/compile/depfile.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/hooks.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* Prints a file name for make: a backslash before blanks and #, and each $ twice. */
static void print_name(FILE *out, const char *name)
{
    for (; *name; name++) {
        if (*name == ' ' || *name == '#' || *name == '\\')
            fputc('\\', out);
        else if (*name == '$')
            fputc('$', out);
        fputc(*name, out);
    }
}

/* Writes the C file `hook` and the files that it includes to the rule. Returns EXIT_USER after a
 * message if the compiler cannot list them. */
static int print_hook(FILE *out, const char *hook)
{
    struct tgt_blob text = {0}, messages = {0};
    const bool good = attnc_hook_dependencies(hook, &text, &messages) == ATTNC_HOOK_COMPILED;
    size_t size = good ? text.size : 0;
    while (size && (text.data[size - 1] == '\n' || text.data[size - 1] == ' '))
        size--;
    if (good)
        fprintf(out, " \\\n%.*s", (int)size, (const char *)text.data);
    tgt_blob_free(&text);
    tgt_blob_free(&messages);
    return good ? EXIT_GOOD : complain(EXIT_USER, "%s: cannot tell which files it includes", hook);
}

/* Writes the rule: `output` depends on the `count` descriptions, their hooks and what the hooks
 * include. Returns an exit_code. */
static int print_rule(const struct build_unit *units, size_t count, const char *output, FILE *out)
{
    print_name(out, output);
    fputc(':', out);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].path, "-") != 0) {
            fputs(" \\\n ", out);
            print_name(out, units[i].path);
        }
        for (size_t n = 0; n < units[i].desc.path_count; n++) {
            const int code = print_hook(out, units[i].desc.paths[n]);
            if (code != EXIT_GOOD)
                return code;
        }
    }
    fputc('\n', out);
    return EXIT_GOOD;
}

int write_depfile(const struct build_unit *units, size_t count, const char *output,
                  const char *path)
{
    struct output text;
    const int code = begin_output(&text);
    if (code != EXIT_GOOD)
        return code;
    return end_output(&text, path, print_rule(units, count, output, text.out));
}

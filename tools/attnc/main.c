/* SPDX-License-Identifier: Apache-2.0
 *
 * The attnc command: finds the subcommand, takes its options, runs it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "compiler/nearest.h"
#include "tools/attnc/command.h"

#define COMMAND(name) extern const struct command command_##name;
#include "tools/attnc/commands.def"

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "tools/attnc/commands.def"
    NULL,
};

static int run(const char *name, int argc, char **argv)
{
    struct attnc_nearest nearest = attnc_nearest_to(name);
    for (const struct command *const *c = commands; *c; c++) {
        attnc_nearest_offer(&nearest, (*c)->name);
        if (strcmp((*c)->name, name) != 0)
            continue;
        bool help = false;
        if (!parse_options(*c, &argc, argv, &help))
            return EXIT_USER;
        if (!help)
            return (*c)->run(argc, argv);
        print_command_help(*c);
        return EXIT_GOOD;
    }
    return complain_nearest(nearest.name, "unknown command '%s'", name);
}

int main(int argc, char **argv)
{
    /* A reader that goes away (`attnc list | head`) is an error of write(), not a death. */
    signal(SIGPIPE, SIG_IGN);
    int code;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        code = run("help", 0, argv + 1);
    else if (strcmp(argv[1], "--version") == 0)
        code = run("version", 0, argv + 1);
    else
        code = run(argv[1], argc - 2, argv + 2);
    if (fflush(stdout) != 0 && code == EXIT_GOOD)
        return complain(EXIT_ENVIRONMENT, "cannot write to standard output");
    return code == EXIT_GOOD && argc < 2 ? EXIT_USER : code;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The attnc command: finds the subcommand, reads its options and runs it.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compiler/nearest.h"
#include "tools/attnc/cli/command.h"

#define COMMAND(name) extern const struct command command_##name;
#include "tools/attnc/cli/commands.def"

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "tools/attnc/cli/commands.def"
    NULL,
};

/* Runs the command `name` on its arguments, or prints its help if --help is among them. Returns an
 * exit_code. */
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
    if (nearest.name)
        return complain_nearest(nearest.name, "unknown command '%s'", name);
    return complain(EXIT_USER, "unknown command '%s'; `attnc help` lists them", name);
}

/* True if no process reads standard output any more, as after `attnc list | head`. */
static bool reader_has_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* Flushes standard output at the end of a command that returned `code`. Returns `code`, the shell's
 * code for SIGPIPE if the reader is gone, or EXIT_ENVIRONMENT after a message. */
static int close_output(int code)
{
    const bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (!lost || code != EXIT_GOOD)
        return code;
    if (reader_has_gone())
        return 128 + SIGPIPE; /* the code that a shell reports for a program that SIGPIPE ended */
    return complain(EXIT_ENVIRONMENT, "cannot write to standard output");
}

int main(int argc, char **argv)
{
    /* Without SIGPIPE, write() returns an error when the reader is gone, and files are still
     * closed. */
    signal(SIGPIPE, SIG_IGN);
    int code;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        code = run("help", 0, argv + 1);
    else if (strcmp(argv[1], "--version") == 0)
        code = run("version", 0, argv + 1);
    else
        code = run(argv[1], argc - 2, argv + 2);
    code = close_output(code);
    return code == EXIT_GOOD && argc < 2 ? EXIT_USER : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/attnc/command.h"

static int run(int argc, char **argv)
{
    if (argc)
        return complain(EXIT_USER, "version: unexpected operand '%s'", argv[0]);
    puts(ATTNC_PROVENANCE);
    return EXIT_GOOD;
}

const struct command command_version = {
    .name = "version",
    .usage = "",
    .summary = "Print the versions of attnc and of the LLVM that it uses",
    .run = run,
};

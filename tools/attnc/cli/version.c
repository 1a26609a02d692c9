/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"

static struct {
    bool json;
} args;

static const struct option_row options[] = {
    {"json", 0, NULL, "print a JSON object, with the targets", NULL, &args.json},
    {0},
};

/* Prints the versions of attnc and LLVM, and all targets, as a JSON object. */
static void print_json(void)
{
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    json_string(&j, "attnc", ATTNC_VERSION);
    json_string(&j, "llvm", ATTNC_LLVM_VERSION);
    json_begin_list(&j, "targets");
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", (*t)->machine.name);
        json_string(&j, "product", (*t)->product);
        json_integer(&j, "compute_units", (*t)->machine.cus);
        json_integer(&j, "lds_bytes", (*t)->machine.lds_bytes);
        json_integer(&j, "clock_mhz", (*t)->clock_mhz);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

/* Runs `attnc version`. */
static int run(int argc, char **argv)
{
    if (argc)
        return complain(EXIT_USER, "version: unexpected operand '%s'", argv[0]);
    if (args.json)
        print_json();
    else
        puts(ATTNC_PROVENANCE);
    return EXIT_GOOD;
}

const struct command command_version = {
    .name = "version",
    .usage = "[--json]",
    .summary = "Print the versions of attnc and of the LLVM that it uses",
    .options = options,
    .run = run,
};

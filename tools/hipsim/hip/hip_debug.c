/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the debugger with launches, source lines, standard input and standard error. */
#include "hip_debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"
#include "source_line.h"

/* The process's debugger, created before the first launch; NULL: none. */
static struct debugger *debugger;

/* Ends the connection to the debugger's client when the process exits. */
static void at_exit(int status, void *unused)
{
    (void)unused;
    debug_hang_up(debugger, status);
}

bool hip_debug_configure(const struct options *options, char *why, size_t why_size)
{
    if (debugger || !(*options->break_at || *options->gdb))
        return true;
    /* Without a place, waves stop at the first instruction of every kernel. */
    debugger = debug_create(*options->break_at ? options->break_at : "+0", stdin, stderr);
    if (!debugger) {
        snprintf(why, why_size,
                 "option break does not take \"%.60s\": KERNEL, KERNEL:LINE or KERNEL+BYTES",
                 options->break_at);
        return false;
    }
    if (!*options->gdb)
        return true;
    if (debug_listen(debugger, options->gdb, why, why_size) && on_exit(at_exit, NULL) == 0)
        return true;
    debug_destroy(debugger);
    debugger = NULL;
    return false;
}

/* Returns the address of the module's code. */
static uint64_t base_of(const struct ihipModule_t *module)
{
    return (uint64_t)(uintptr_t)module->code->base;
}

/* Writes the source line of a code address. */
static void describe(const void *ctx, uint64_t address, char *text, size_t size)
{
    const struct ihipModule_t *module = ctx;
    struct source_place places[SOURCE_PLACES];
    *text = 0;
    if (!module->lines || !source_lines_find(module->lines, address - base_of(module), places))
        return;
    snprintf(text, size, "%s%s%s", places[0].text, *places[0].function ? " in " : "",
             places[0].function);
}

/* Stores up to `most` addresses of the code of a source line. Returns their number. */
static unsigned find(const void *ctx, unsigned line, uint64_t *addresses, unsigned most)
{
    const struct ihipModule_t *module = ctx;
    const unsigned n =
        module->lines ? source_lines_addresses(module->lines, line, addresses, most) : 0;
    for (unsigned i = 0; i < n; i++)
        addresses[i] += base_of(module);
    return n;
}

bool hip_debug_begin(struct launch *launch, const struct ihipModule_t *module)
{
    const struct debug_lines lines = {.ctx = module, .describe = describe, .find = find};
    return debugger && debug_begin(debugger, launch, &lines);
}

void hip_debug_end(void) { debug_end(debugger); }

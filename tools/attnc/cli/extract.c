/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc extract: writes one kernel of a pack as a file, the code object that the HIP runtime loads.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/nearest.h"
#include "runtime/attn.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    const char *output;
    bool json;
} args;

static const struct option_row options[] = {
    {"output", 'o', "FILE", "where to write the code object (required; - is standard output)",
     &args.output, NULL},
    {"json", 0, NULL, "print what was written as a JSON object", NULL, &args.json},
    {0},
};

/* Prints the kernel's name, the output file and the size in bytes as a JSON object. */
static void print_json(const char *name, size_t size)
{
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    json_string(&j, "kernel", name);
    json_string(&j, "output", args.output);
    json_integer(&j, "bytes", (int64_t)size);
    json_end(&j);
}

/* Writes the code object of kernel `n`, of `size` bytes, to the output file. `path` names the pack
 * in messages. Returns an exit_code. */
static int extract(const struct attn_pack *pack, const char *path, uint32_t n, const char *name,
                   size_t size)
{
    void *code = malloc(size);
    if (!code)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    int r = attn_pack_kernel_code(pack, n, code, size, &size) == ATTN_OK
                ? write_output(args.output, code, size)
                : complain(EXIT_USER, "%s: %s", path, attn_last_error());
    if (r == EXIT_GOOD && args.json)
        print_json(name, size);
    free(code);
    return r;
}

/* Writes the code object of the kernel called `name`, the first of that name in the pack. Returns
 * an exit_code after a message. */
static int find_and_extract(const struct attn_pack *pack, const char *path, const char *name)
{
    struct attnc_nearest nearest = attnc_nearest_to(name);
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        if (attn_pack_kernel(pack, n, &info) != ATTN_OK)
            return complain(EXIT_USER, "%s: %s", path, attn_last_error());
        if (strcmp(info.name, name) == 0)
            return extract(pack, path, n, info.name, info.object_bytes);
        attnc_nearest_offer(&nearest, info.name);
    }
    return complain_nearest(nearest.name, "%s has no kernel '%s'; `attnc list` shows their names",
                            path, name);
}

extern const struct command command_extract;

/* Runs `attnc extract`. */
static int run(int argc, char **argv)
{
    if (argc == 2 && !args.output)
        return complain(EXIT_USER, "extract: -o says where the code object goes");
    if (argc != 2)
        return wrong_operands(&command_extract, argc, argv);
    if (args.json && strcmp(args.output, "-") == 0)
        return complain(EXIT_USER, "extract: --json and -o - both write to standard output");
    struct attn_pack *pack;
    int code = open_pack(argv[0], &pack);
    if (code != EXIT_GOOD)
        return code;
    code = check_output(args.output);
    if (code == EXIT_GOOD)
        code = find_and_extract(pack, argv[0], argv[1]);
    attn_pack_close(pack);
    return code;
}

const struct command command_extract = {
    .name = "extract",
    .usage = "PACK KERNEL -o FILE",
    .summary = "Write one kernel of a pack as a plain code object",
    .options = options,
    .run = run,
};

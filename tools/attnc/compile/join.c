/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc join: writes one pack with the kernels of several packs.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pack_writer.h"
#include "templates/template.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    const char *output;
    bool complete, json;
} args;

static const struct option_row options[] = {
    {"output", 'o', "PACK", "where to write the pack (required)", &args.output, NULL},
    {"complete", 0, NULL,
     "give kernels of an older attnc the key fields that they lack, at their defaults", NULL,
     &args.complete},
    {"json", 0, NULL, "print what was written as a JSON object", NULL, &args.json},
    {0},
};

/* Lists name and default of each key field of op `op` that has a default. Such a field is neither
 * required nor follows another. `values` is the memory of the texts. Returns the number of
 * pairs. */
static size_t list_defaults(const char *op, const char *target,
                            struct attnc_pack_pair pairs[ATT_FIELD_COUNT],
                            char values[ATT_FIELD_COUNT][ATT_NAME_MAX])
{
    const struct att_template *const *t = att_templates;
    struct att_variant v;
    size_t count = 0;
    while (*t && strcmp((*t)->name, op))
        t++;
    if (!*t)
        return 0;
    att_variant_init(&v, *t, target);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *const info = &att_fields[f];
        if (!((*t)->takes >> f & 1) || info->role != ATT_ROLE_KEY || info->required ||
            info->follows)
            continue;
        att_format_value(&v, f, values[count], ATT_NAME_MAX);
        pairs[count] = (struct attnc_pack_pair){info->name, values[count]};
        count++;
    }
    return count;
}

/* Adds kernel `n` of a pack to the joined pack. With --complete the key gets the fields that it
 * lacks, at their defaults. Returns false if the writer has an error. */
static bool add_kernel(struct attnc_pack_writer *w, const struct attn_pack *pack, const char *bytes,
                       uint32_t n)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    struct attnc_pack_pair pairs[ATT_FIELD_COUNT];
    char values[ATT_FIELD_COUNT][ATT_NAME_MAX];
    /* Open_pack() has checked the kernel, so that attn_pack_kernel() cannot fail. */
    if (!args.complete || attn_pack_kernel(pack, n, &info))
        return attnc_pack_copy(w, bytes, n, false);
    return attnc_pack_copy_completed(w, bytes, n, pairs,
                                     list_defaults(info.op, info.target, pairs, values));
}

/* Adds all kernels of the pack at `path`, and their number to *kernels. Two kernels of one name are
 * an error. Returns an exit_code after a message. */
static int add_pack(struct attnc_pack_writer *w, const char *path, size_t *kernels)
{
    struct attn_pack *pack;
    char *bytes;
    int code = open_pack(path, &pack);
    if (code != EXIT_GOOD)
        return code;
    code = read_pack(path, &bytes);
    const uint32_t count = attn_pack_kernel_count(pack);
    for (uint32_t n = 0; code == EXIT_GOOD && n < count; n++) {
        if (!add_kernel(w, pack, bytes, n))
            code = complain(EXIT_USER, "%s: %s", path, attnc_pack_writer_error(w));
    }
    attn_pack_close(pack);
    *kernels += count;
    if (code == EXIT_GOOD)
        free(bytes);
    return code;
}

/* Adds the pack `operand`; for "@FILE" the packs that FILE lists, a path on each line. Such a file
 * has room for more paths than a command line. Returns an exit_code after a message. */
static int add_operand(struct attnc_pack_writer *w, const char *operand, size_t *kernels)
{
    char path[PATH_MAX];
    if (operand[0] != '@')
        return add_pack(w, operand, kernels);
    note_input(operand + 1);
    FILE *list = fopen(operand + 1, "r");
    if (!list)
        return complain(EXIT_ENVIRONMENT, "%s: %s", operand + 1, strerror(errno));
    int code = EXIT_GOOD;
    while (code == EXIT_GOOD && fgets(path, sizeof(path), list)) {
        path[strcspn(path, "\n")] = '\0';
        if (path[0])
            code = add_pack(w, path, kernels);
    }
    fclose(list);
    return code;
}

/* Prints the output's path, the counts of packs and kernels, and the pack's bytes as a JSON
 * object. */
static void print_json(size_t packs, size_t kernels, size_t size)
{
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    json_string(&j, "output", args.output);
    json_integer(&j, "packs", (int64_t)packs);
    json_integer(&j, "kernels", (int64_t)kernels);
    json_integer(&j, "pack_bytes", (int64_t)size);
    json_end(&j);
}

extern const struct command command_join;

/* Runs `attnc join`. */
static int run(int argc, char **argv)
{
    if (argc >= 1 && !args.output)
        return complain(EXIT_USER, "join: -o says where the pack goes");
    if (argc < 1)
        return wrong_operands(&command_join, argc, argv);
    if (args.json && !strcmp(args.output, "-"))
        return complain(EXIT_USER, "join: --json and -o - both write to standard output");
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    if (!w)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    int code = EXIT_GOOD;
    size_t kernels = 0, size = 0;
    void *bytes = NULL;
    for (int i = 0; i < argc && code == EXIT_GOOD; i++)
        code = add_operand(w, argv[i], &kernels);
    if (code == EXIT_GOOD)
        code = check_output(args.output);
    if (code == EXIT_GOOD && !attnc_pack_writer_finish(w, &bytes, &size))
        code = complain(EXIT_USER, "%s", attnc_pack_writer_error(w));
    if (code == EXIT_GOOD)
        code = write_output(args.output, bytes, size);
    if (code == EXIT_GOOD && args.json)
        print_json((size_t)argc, kernels, size);
    free(bytes);
    attnc_pack_writer_destroy(w);
    return code;
}

const struct command command_join = {
    .name = "join",
    .usage = "PACK... -o PACK",
    .summary = "Put the kernels of several packs into one",
    .details = "The pack is the one that a single build of all kernels would have written. Two\n"
               "kernels of one name are an error. @FILE in place of PACK has a path in each line.\n"
               "A field that came after a pack was built is in none of its keys, so that no call\n"
               "finds its kernels. --complete adds such fields.",
    .options = options,
    .run = run,
};

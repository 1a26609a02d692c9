/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc list: prints the kernels of a pack with their resources, as a table or as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/attn.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    bool json;
    const char *path; /* path of the pack as the user gave it */
} args;

static const struct option_row options[] = {
    {"json", 0, NULL, "print a JSON array, with every field of the dispatch key", NULL, &args.json},
    {0},
};

/* Fills `info` for kernel `n` of a pack. Returns EXIT_USER after a message if the pack is
 * damaged. */
static int read_kernel(const struct attn_pack *pack, uint32_t n, struct attn_kernel_info *info)
{
    *info = (struct attn_kernel_info){.size = sizeof(*info)};
    if (attn_pack_kernel(pack, n, info) == ATTN_OK)
        return EXIT_GOOD;
    return complain(EXIT_USER, "%s: %s", args.path, attn_last_error());
}

/* Returns the columns of the longest kernel name, or of the heading; -1 after a message if the pack
 * is damaged. */
static int name_width(const struct attn_pack *pack)
{
    size_t width = strlen("KERNEL");
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info;
        if (read_kernel(pack, n, &info) != EXIT_GOOD)
            return -1;
        width = strlen(info.name) > width ? strlen(info.name) : width;
    }
    return (int)width;
}

/* Prints a table with registers, LDS, spills and code bytes of each kernel. The first column has
 * `width` characters. Returns an exit_code. */
static int print_table(const struct attn_pack *pack, int width)
{
    unsigned spilling = 0;
    printf("%-*s  VGPR  AGPR  SGPR     LDS  OCC  SPILL  SCRATCH    CODE\n", width, "KERNEL");
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info k;
        if (read_kernel(pack, n, &k) != EXIT_GOOD)
            return EXIT_USER;
        printf("%-*s  %4u  %4u  %4u  %6u  %3u  %5u  %7u  %6u\n", width, k.name, k.vgprs, k.agprs,
               k.sgprs, k.lds_static + k.lds_dynamic, k.occupancy, k.spills, k.scratch,
               k.code_bytes);
        spilling += k.spills || k.scratch;
    }
    if (spilling)
        printf("warning: %u of %u kernels spill registers or use scratch memory, and are slower "
               "for it\n",
               spilling, attn_pack_kernel_count(pack));
    return EXIT_GOOD;
}

/* Writes the `count` fields of the dispatch key of kernel `n` as a JSON object. Returns an
 * exit_code after a message. */
static int print_key(struct json *j, const struct attn_pack *pack, uint32_t n, uint32_t count)
{
    json_begin_object(j, "key");
    for (uint32_t i = 0; i < count; i++) {
        const char *field, *value;
        if (attn_pack_kernel_field(pack, n, i, &field, &value) != ATTN_OK)
            return complain(EXIT_USER, "%s: %s", args.path, attn_last_error());
        json_string(j, field, value);
    }
    json_end(j);
    return EXIT_GOOD;
}

/* Writes a kernel's workgroup size, registers, LDS, scratch, occupancy and code bytes as JSON
 * members. */
static void print_resources(struct json *j, const struct attn_kernel_info *k)
{
    json_begin_list(j, "workgroup");
    for (int i = 0; i < 3; i++)
        json_integer(j, NULL, k->workgroup[i]);
    json_end(j);
    json_integer(j, "lds_static", k->lds_static);
    json_integer(j, "lds_dynamic", k->lds_dynamic);
    json_integer(j, "vgprs", k->vgprs);
    json_integer(j, "agprs", k->agprs);
    json_integer(j, "sgprs", k->sgprs);
    json_integer(j, "spills", k->spills);
    json_integer(j, "scratch", k->scratch);
    json_integer(j, "occupancy", k->occupancy);
    if (k->mfma_duty >= 0)
        json_real(j, "mfma_duty_bound", k->mfma_duty / 10.0);
    else
        json_null(j, "mfma_duty_bound");
    json_integer(j, "code_bytes", k->code_bytes);
    json_integer(j, "object_bytes", (int64_t)k->object_bytes);
}

/* Prints all kernels of a pack as a JSON list. Returns an exit_code. */
static int print_json(const struct attn_pack *pack)
{
    struct json j = {.out = stdout};
    json_begin_list(&j, NULL);
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info k;
        if (read_kernel(pack, n, &k) != EXIT_GOOD)
            return EXIT_USER;
        json_begin_object(&j, NULL);
        json_string(&j, "name", k.name);
        json_string(&j, "op", k.op);
        json_string(&j, "target", k.target);
        if (print_key(&j, pack, n, k.field_count) != EXIT_GOOD)
            return EXIT_USER;
        json_string(&j, "tuning", k.tuning);
        json_string(&j, "provenance", k.provenance);
        print_resources(&j, &k);
        json_end(&j);
    }
    json_end(&j);
    return EXIT_GOOD;
}

extern const struct command command_list;

/* Runs `attnc list`. */
static int run(int argc, char **argv)
{
    if (argc != 1)
        return wrong_operands(&command_list, argc, argv);
    struct attn_pack *pack;
    int code = open_pack(argv[0], &pack);
    if (code != EXIT_GOOD)
        return code;
    args.path = argv[0];
    const int width = name_width(pack); /* also checks all records, before anything is printed */
    if (width < 0)
        code = EXIT_USER;
    else
        code = args.json ? print_json(pack) : print_table(pack, width);
    attn_pack_close(pack);
    return code;
}

const struct command command_list = {
    .name = "list",
    .usage = "PACK [--json]",
    .summary = "Show the kernels of a pack, and the registers, LDS and code of each",
    .options = options,
    .details =
        "VGPR, AGPR, SGPR  registers a wave\n"
        "LDS               bytes a workgroup\n"
        "OCC               waves that one SIMD holds at once\n"
        "SPILL, SCRATCH    spilled registers; bytes of scratch a work item\n"
        "CODE              bytes of machine code\n"
        "`attnc trace` models how busy the matrix pipe is; mfma_duty_bound of --json is what the\n"
        "loop's instructions allow at most.\n",
    .run = run,
};

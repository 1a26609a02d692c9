/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc list: what is in a pack, as a table or as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/attn.h"
#include "tools/attnc/command.h"
#include "tools/attnc/pack_file.h"

static struct {
    bool json;
} args;

static const struct option_row options[] = {
    {"json", 0, NULL, "print a JSON array, with every field of the dispatch key", NULL, &args.json},
    {0},
};

static int read_kernel(const struct attn_pack *pack, uint32_t n, struct attn_kernel_info *info)
{
    *info = (struct attn_kernel_info){.size = sizeof(*info)};
    if (attn_pack_kernel(pack, n, info) == ATTN_OK)
        return EXIT_GOOD;
    return complain(EXIT_USER, "kernel %u: %s", n, attn_last_error());
}

/* Wide enough for every name, so that the numbers stand in columns. */
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

static int print_table(const struct attn_pack *pack)
{
    int width = name_width(pack);
    if (width < 0)
        return EXIT_USER;
    printf("%-*s  VGPR  AGPR  SGPR     LDS  OCC  SPILL  SCRATCH    CODE   DUTY\n", width, "KERNEL");
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info k;
        if (read_kernel(pack, n, &k) != EXIT_GOOD)
            return EXIT_USER;
        char duty[16] = "-";
        if (k.mfma_duty >= 0)
            snprintf(duty, sizeof(duty), "%d.%d%%", k.mfma_duty / 10, k.mfma_duty % 10);
        printf("%-*s  %4u  %4u  %4u  %6u  %3u  %5u  %7u  %6u  %5s\n", width, k.name, k.vgprs,
               k.agprs, k.sgprs, k.lds_static + k.lds_dynamic, k.occupancy, k.spills, k.scratch,
               k.code_bytes, duty);
    }
    return EXIT_GOOD;
}

/* Strings of a pack are printable ASCII: two characters need an escape. */
static void print_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putchar('\\');
        putchar(*s);
    }
    putchar('"');
}

static void print_member(const char *name, const char *value, const char *after)
{
    printf("\"%s\": ", name);
    print_string(value);
    fputs(after, stdout);
}

static int print_key(const struct attn_pack *pack, uint32_t n, uint32_t count)
{
    fputs("    \"key\": {", stdout);
    for (uint32_t i = 0; i < count; i++) {
        const char *field, *value;
        if (attn_pack_kernel_field(pack, n, i, &field, &value) != ATTN_OK)
            return complain(EXIT_USER, "kernel %u: %s", n, attn_last_error());
        fputs(i ? ", " : "", stdout);
        print_member(field, value, "");
    }
    fputs("},\n", stdout);
    return EXIT_GOOD;
}

static int print_json(const struct attn_pack *pack)
{
    puts("[");
    uint32_t count = attn_pack_kernel_count(pack);
    for (uint32_t n = 0; n < count; n++) {
        struct attn_kernel_info k;
        if (read_kernel(pack, n, &k) != EXIT_GOOD)
            return EXIT_USER;
        fputs("  {", stdout);
        print_member("name", k.name, ", ");
        print_member("op", k.op, ", ");
        print_member("target", k.target, ",\n");
        if (print_key(pack, n, k.field_count) != EXIT_GOOD)
            return EXIT_USER;
        fputs("    ", stdout);
        print_member("tuning", k.tuning, ",\n    ");
        print_member("provenance", k.provenance, ",\n");
        printf("    \"workgroup\": [%u, %u, %u], \"lds_static\": %u, \"lds_dynamic\": %u,\n"
               "    \"vgprs\": %u, \"agprs\": %u, \"sgprs\": %u, \"spills\": %u, "
               "\"scratch\": %u, \"occupancy\": %u,\n",
               k.workgroup[0], k.workgroup[1], k.workgroup[2], k.lds_static, k.lds_dynamic, k.vgprs,
               k.agprs, k.sgprs, k.spills, k.scratch, k.occupancy);
        if (k.mfma_duty >= 0)
            printf("    \"mfma_duty\": %d.%d, ", k.mfma_duty / 10, k.mfma_duty % 10);
        else
            fputs("    \"mfma_duty\": null, ", stdout);
        printf("\"code_bytes\": %u, \"object_bytes\": %zu}%s\n", k.code_bytes, k.object_bytes,
               n + 1 < count ? "," : "");
    }
    puts("]");
    return EXIT_GOOD;
}

static int run(int argc, char **argv)
{
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc list PACK [--json]");
    struct attn_pack *pack;
    int code = open_pack(argv[0], &pack);
    if (code != EXIT_GOOD)
        return code;
    code = args.json ? print_json(pack) : print_table(pack);
    attn_pack_close(pack);
    return code;
}

const struct command command_list = {
    .name = "list",
    .usage = "PACK [--json]",
    .summary = "Show the kernels of a pack and what each asks of the hardware",
    .options = options,
    .details =
        "VGPR, AGPR, SGPR  registers a wave\n"
        "LDS               bytes a workgroup\n"
        "OCC               waves that one SIMD holds at once\n"
        "SPILL, SCRATCH    spilled registers; bytes of scratch a work item\n"
        "CODE              bytes of machine code\n"
        "DUTY              share of the hot loop in which the matrix pipe is busy: a first-order\n"
        "                  bound from the loop's instructions, not a measurement\n",
    .run = run,
};

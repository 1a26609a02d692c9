/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc diff: which kernels two packs have, and what has changed in those that both have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    bool json;
} args;

static const struct option_row options[] = {
    {"json", 0, NULL, "print a JSON object", NULL, &args.json},
    {0},
};

/* The resources that a kernel takes, and its machine code. */
struct facts {
    const char *name;
    int64_t values[8];
    uint64_t code;
    bool damaged; /* its code object does not match its checksum */
};

static const char *const value_names[] = {"vgprs",  "agprs",   "sgprs",     "lds",
                                          "spills", "scratch", "occupancy", "code_bytes"};

enum { VALUES = sizeof(value_names) / sizeof(value_names[0]) };

struct side {
    struct attn_pack *pack;
    struct facts *kernels; /* by name */
    size_t count;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct facts *)a)->name, ((const struct facts *)b)->name);
}

/* Sets the kernel's FNV-1a number, which equal code objects share. A damaged one is reported and
 * marked. Returns an exit_code. */
static int hash_code(const struct attn_pack *pack, const char *path, uint32_t n, size_t size,
                     struct facts *f)
{
    f->code = UINT64_C(14695981039346656037);
    uint8_t *code = malloc(size + 1);
    if (!code)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (attn_pack_kernel_code(pack, n, code, size, &size) != ATTN_OK) {
        complain(EXIT_USER, "%s: %s", path, attn_last_error());
        f->damaged = true;
        size = 0;
    }
    for (size_t i = 0; i < size; i++)
        f->code = (f->code ^ code[i]) * UINT64_C(1099511628211);
    free(code);
    return EXIT_GOOD;
}

static int open_side(struct side *s, const char *path)
{
    int code = open_pack(path, &s->pack);
    if (code != EXIT_GOOD)
        return code;
    s->count = attn_pack_kernel_count(s->pack);
    s->kernels = calloc(s->count + 1, sizeof(*s->kernels));
    if (!s->kernels)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (uint32_t n = 0; n < s->count; n++) {
        struct attn_kernel_info k = {.size = sizeof(k)};
        if (attn_pack_kernel(s->pack, n, &k) != ATTN_OK)
            return complain(EXIT_USER, "%s: %s", path, attn_last_error());
        s->kernels[n] = (struct facts){
            .name = k.name,
            .values = {k.vgprs, k.agprs, k.sgprs, (int64_t)k.lds_static + k.lds_dynamic, k.spills,
                       k.scratch, k.occupancy, k.code_bytes},
        };
        code = hash_code(s->pack, path, n, k.object_bytes, &s->kernels[n]);
        if (code != EXIT_GOOD)
            return code;
    }
    qsort(s->kernels, s->count, sizeof(*s->kernels), compare_names);
    return EXIT_GOOD;
}

static void print_change(const struct facts *a, const struct facts *b)
{
    if (a->damaged || b->damaged) {
        printf("! %s: corrupted in %s\n", a->name,
               a->damaged && b->damaged ? "both packs"
               : a->damaged             ? "the first pack"
                                        : "the second pack");
        return;
    }
    printf("~ %s:", a->name);
    bool any = false;
    for (int i = 0; i < VALUES; i++) {
        if (a->values[i] == b->values[i])
            continue;
        printf(" %s %lld -> %lld", value_names[i], (long long)a->values[i],
               (long long)b->values[i]);
        any = true;
    }
    puts(any ? "" : " other code, the same resources");
}

static void change_json(struct json *j, const struct facts *a, const struct facts *b)
{
    json_begin_object(j, NULL);
    json_string(j, "kernel", (a ? a : b)->name);
    const bool damaged = (a && a->damaged) || (b && b->damaged);
    json_string(j, "change", damaged ? "corrupted" : !a ? "added" : !b ? "removed" : "changed");
    for (int i = 0; a && b && i < VALUES; i++) {
        if (a->values[i] == b->values[i])
            continue;
        json_begin_list(j, value_names[i]);
        json_integer(j, NULL, a->values[i]);
        json_integer(j, NULL, b->values[i]);
        json_end(j);
    }
    json_end(j);
}

static void report(struct json *j, const struct facts *a, const struct facts *b)
{
    if (args.json)
        change_json(j, a, b);
    else if (a && b)
        print_change(a, b);
    else
        printf("%c %s\n", a ? '-' : '+', (a ? a : b)->name);
}

static int compare(const struct side *a, const struct side *b)
{
    struct json j = {.out = stdout};
    size_t differences = 0, same = 0;
    if (args.json) {
        json_begin_object(&j, NULL);
        json_begin_list(&j, "changes");
    }
    for (size_t x = 0, y = 0; x < a->count || y < b->count;) {
        const struct facts *f = x < a->count ? &a->kernels[x] : NULL;
        const struct facts *g = y < b->count ? &b->kernels[y] : NULL;
        const int order = !f ? 1 : !g ? -1 : strcmp(f->name, g->name);
        f = order <= 0 ? f : NULL;
        g = order >= 0 ? g : NULL;
        x += f != NULL;
        y += g != NULL;
        if (f && g && f->code == g->code && !f->damaged && !g->damaged) {
            same++;
            continue;
        }
        differences++;
        report(&j, f, g);
    }
    if (args.json) {
        json_end(&j);
        json_integer(&j, "same", (int64_t)same);
        json_end(&j);
    } else {
        printf("%zu kernels differ, %zu are the same\n", differences, same);
    }
    return differences ? EXIT_USER : EXIT_GOOD;
}

extern const struct command command_diff;

static int run(int argc, char **argv)
{
    struct side sides[2] = {0};
    if (argc != 2)
        return wrong_operands(&command_diff, argc, argv);
    int code = EXIT_GOOD;
    for (int i = 0; i < 2 && code == EXIT_GOOD; i++)
        code = open_side(&sides[i], argv[i]);
    if (code == EXIT_GOOD)
        code = compare(&sides[0], &sides[1]);
    for (int i = 0; i < 2; i++) {
        free(sides[i].kernels);
        attn_pack_close(sides[i].pack);
    }
    return code;
}

const struct command command_diff = {
    .name = "diff",
    .usage = "PACK PACK [--json]",
    .summary = "Say which kernels of two packs differ",
    .options = options,
    .details =
        "+ is a kernel of the second pack alone, - one of the first, ~ one that both have with\n"
        "other code, ! one whose code is corrupted in either. Exit code: 0 all are the same, 1 "
        "some\n"
        "differ. `attnc report A B` draws both.\n",
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc diff: lists the kernels that only one of two packs has, and what differs in the kernels of
 * both.
 */
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "targets/elf_image.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    bool json, by_key;
} args;

static const struct option_row options[] = {
    {"by-key", 0, NULL,
     "pair kernels by target, op and dispatch key, whatever their names, and compare machine code",
     NULL, &args.by_key},
    {"json", 0, NULL, "print a JSON object", NULL, &args.json},
    {0},
};

/* A kernel of a pack, with what is compared. */
struct facts {
    const char *name;
    /* Kernels of both packs with equal keys are compared: the name, or with --by-key the target, op
     * and dispatch key. Owned. A pack may have a key twice. */
    char *key;
    /* Resources in the order of value_names. */
    int64_t values[8];
    /* FNV-1a hash of the code object, or of its machine code with --by-key. */
    uint64_t code;
    bool damaged; /* true: the code object does not match its checksum */
};

/* Names of struct facts' values, as they are printed. */
static const char *const value_names[] = {"vgprs",  "agprs",   "sgprs",     "lds",
                                          "spills", "scratch", "occupancy", "code_bytes"};

enum { VALUES = sizeof(value_names) / sizeof(value_names[0]) };

/* One of the two packs. */
struct side {
    struct attn_pack *pack;
    /* All kernels, sorted by key, then by name. */
    struct facts *kernels;
    size_t count;
};

/* Compares two struct facts by key, then by name, for qsort(). */
static int compare_kernels(const void *a, const void *b)
{
    const struct facts *f = a, *g = b;
    const int order = strcmp(f->key, g->key);
    return order ? order : strcmp(f->name, g->name);
}

/* Compares two strings by the pointers to them, for qsort(). */
static int compare_fields(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns "field=value" for field `i` of the dispatch key of kernel `n`. The caller frees it.
 * Returns NULL if memory is exhausted. */
static char *field_text(const struct attn_pack *pack, uint32_t n, uint32_t i)
{
    const char *field = "", *value = "";
    attn_pack_kernel_field(pack, n, i, &field, &value); /* opening the pack has checked it */
    const size_t size = strlen(field) + strlen(value) + 2;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s=%s", field, value);
    return text;
}

/* Returns a text of target, op and sorted fields of the dispatch key of kernel `n`, whose facts are
 * `k`. Packs may have the fields in different orders. The caller frees the text. Returns NULL if
 * memory is exhausted. */
static char *dispatch_key(const struct attn_pack *pack, uint32_t n,
                          const struct attn_kernel_info *k)
{
    char **fields = calloc(k->field_count + 1, sizeof(*fields)), *key = NULL;
    size_t size = strlen(k->target) + strlen(k->op) + 2;
    bool good = fields != NULL;
    for (uint32_t i = 0; good && i < k->field_count; i++) {
        fields[i] = field_text(pack, n, i);
        good = fields[i] != NULL;
        size += good ? strlen(fields[i]) + 1 : 0;
    }
    if (good)
        key = malloc(size);
    if (key) {
        qsort(fields, k->field_count, sizeof(*fields), compare_fields);
        size_t used = (size_t)snprintf(key, size, "%s %s", k->target, k->op);
        for (uint32_t i = 0; i < k->field_count; i++)
            used += (size_t)snprintf(key + used, size - used, " %s", fields[i]);
    }
    for (uint32_t i = 0; fields && i < k->field_count; i++)
        free(fields[i]);
    free(fields);
    return key;
}

/* Returns the FNV-1a hash of what `hash` covers followed by these bytes. */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Returns the FNV-1a hash of what `hash` covers followed by the executable sections of an ELF code
 * object. Symbols and metadata are left out. */
static uint64_t hash_machine_code(uint64_t hash, const uint8_t *object, size_t size)
{
    Elf *elf = tgt_open_elf(object, size);
    for (Elf_Scn *s = elf ? elf_nextscn(elf, NULL) : NULL; s; s = elf_nextscn(elf, s)) {
        GElf_Shdr header;
        Elf_Data *data = elf_getdata(s, NULL);
        if (data && gelf_getshdr(s, &header) && header.sh_flags & SHF_EXECINSTR)
            hash = hash_bytes(hash, data->d_buf, data->d_size);
    }
    elf_end(elf);
    return hash;
}

/* Sets f->code, the hash of kernel `n`, whose code object has `size` bytes. With --by-key only
 * machine code counts. Reports a damaged code object and sets f->damaged. Returns an exit_code. */
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
    f->code =
        args.by_key ? hash_machine_code(f->code, code, size) : hash_bytes(f->code, code, size);
    free(code);
    return EXIT_GOOD;
}

/* Opens the pack at `path` and fills `s` with its kernels, sorted. Returns an exit_code after a
 * message. */
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
            .key = args.by_key ? dispatch_key(s->pack, n, &k) : strdup(k.name),
        };
        if (!s->kernels[n].key)
            return complain(EXIT_ENVIRONMENT, "out of memory");
        code = hash_code(s->pack, path, n, k.object_bytes, &s->kernels[n]);
        if (code != EXIT_GOOD)
            return code;
    }
    qsort(s->kernels, s->count, sizeof(*s->kernels), compare_kernels);
    return EXIT_GOOD;
}

/* True if both kernels have the same code and resources, and neither is damaged. */
static bool is_same(const struct facts *a, const struct facts *b)
{
    return a->code == b->code && !a->damaged && !b->damaged &&
           memcmp(a->values, b->values, sizeof(a->values)) == 0;
}

/* Prints which resources of two kernels with the same key differ, or that only their code
 * differs. */
static void print_change(const struct facts *a, const struct facts *b)
{
    if (a->damaged || b->damaged) {
        printf("! %s: corrupted in %s\n", a->name,
               a->damaged && b->damaged ? "both packs"
               : a->damaged             ? "the first pack"
                                        : "the second pack");
        return;
    }
    printf("~ %s", a->name);
    if (strcmp(a->name, b->name) != 0)
        printf(" -> %s", b->name);
    putchar(':');
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

/* Writes one difference as a JSON object; `a` or `b` is NULL if only the other pack has the
 * kernel. */
static void change_json(struct json *j, const struct facts *a, const struct facts *b)
{
    json_begin_object(j, NULL);
    json_string(j, "kernel", (a ? a : b)->name);
    if (a && b && strcmp(a->name, b->name) != 0)
        json_string(j, "new_name", b->name);
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

/* Reports one difference as JSON or text; `a` or `b` is NULL if only the other pack has the
 * kernel. */
static void report(struct json *j, const struct facts *a, const struct facts *b)
{
    if (args.json)
        change_json(j, a, b);
    else if (a && b)
        print_change(a, b);
    else
        printf("%c %s\n", a ? '-' : '+', (a ? a : b)->name);
}

/* Walks the sorted kernels of both packs and reports each difference. Returns an exit_code. */
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
        const int order = !f ? 1 : !g ? -1 : strcmp(f->key, g->key);
        f = order <= 0 ? f : NULL;
        g = order >= 0 ? g : NULL;
        x += f != NULL;
        y += g != NULL;
        if (f && g && is_same(f, g)) {
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

/* Runs `attnc diff`. */
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
        for (size_t n = 0; sides[i].kernels && n < sides[i].count; n++)
            free(sides[i].kernels[n].key);
        free(sides[i].kernels);
        attn_pack_close(sides[i].pack);
    }
    return code;
}

const struct command command_diff = {
    .name = "diff",
    .usage = "PACK PACK [--by-key] [--json]",
    .summary = "Say which kernels of two packs differ",
    .options = options,
    .details =
        "+ is a kernel of the second pack alone, - one of the first, ~ one that both have with\n"
        "other code, ! one whose code is corrupted in either. Exit code: 0 all are the same, 1 "
        "some\n"
        "differ. `attnc report A B` draws both.\n"
        "\n"
        "--by-key compares kernels of the same target, op and dispatch key, whatever their names:\n"
        "after a change of tile numbers alone all are the same. Kernels of one dispatch key, "
        "which\n"
        "differ in their conditions, are paired in the order of their names.\n",
    .run = run,
};

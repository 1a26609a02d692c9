/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests random descriptions. A refused one has a reason. An accepted one builds without messages of
 * LLVM, reports its spills, is listed, is found by its descriptor, and computes the reference's
 * results.
 *
 *     test_property ATTNC HOOKS [COUNT [SEED [VERIFIED]]]
 *
 * makes COUNT kernels that a template accepts, for all targets alternately, from SEED, and verifies
 * VERIFIED of them on two shapes.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/process.h"
#include "runtime/attn.h"
#include "targets/tgt.h"
#include "templates/template.h"

enum {
    COUNT = 300,
    VERIFIED = 24,
    SHAPES = 2,
    SPILLING_PERCENT = 1, /* percent of the kernels that may spill; the build must report it */
    LINE = 1024,
    MOST_SECONDS = 32, /* most alternative kernels of a key in a pack */
};

struct made {
    struct att_variant v;
    char name[ATT_NAME_MAX + 16];
    /* an alternative kernel that the build adds to the previous one: att_template.second */
    bool second;
    bool refused; /* the build has refused it with a sentence of attnc */
    char *spills; /* the build's message about spills, or NULL */
};

static struct {
    const char *attnc;
    char hook[512], dir[64];
    uint64_t random;
    struct made *made;
    size_t count, tried, failures;
} test;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    test.failures++;
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static unsigned below(unsigned n)
{
    uint64_t z = test.random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (unsigned)((z ^ z >> 31) % n);
}

/* Returns a number for the field: one that models use, or one that users might try. */
static int random_number(enum att_field f)
{
    static const int dims[] = {64,  64,  80,  96,  112, 128, 128, 128, 192, 256, 256,
                               16,  32,  48,  144, 160, 176, 208, 240, 272, 288, 304,
                               320, 336, 384, 400, 448, 480, 496, 512, 576, 4,   72};
    static const int pages[] = {1, 16, 16, 32, 64, 128, 256, 1024, 48, 272, 544, 8192};
    static const int groups[] = {1, 2, 4, 5, 6, 7, 8, 8, 12, 16, 24, 32, 64, 128, 256};
    static const int queries[] = {2, 3, 4, 5, 8, 16, 33, 64};
    static const int rotary[] = {2, 4, 8, 16, 20, 24, 32, 64, 64, 96, 128, 256};
    static const int tiles[] = {0, 0, 0, 1, 2, 3, 5};
#define ONE_OF(list) list[below(sizeof(list) / sizeof(list[0]))]
    const struct att_field_info *info = &att_fields[f];
    if (below(16) == 0)
        return info->min + (int)below((unsigned)(info->max - info->min) + 1);
    switch (f) {
    case ATT_HEAD_DIM:
    case ATT_HEAD_DIM_V: return ONE_OF(dims);
    case ATT_PAGE_SIZE: return ONE_OF(pages);
    case ATT_GQA: return ONE_OF(groups);
    case ATT_Q_LEN: return ONE_OF(queries);
    case ATT_TILE: return ONE_OF(tiles);
    default: break;
    }
    const int n = ONE_OF(rotary);
    return n >= info->min && n <= info->max
               ? n
               : info->min + (int)below((unsigned)(info->max - info->min) + 1);
#undef ONE_OF
}

/* Sets a field randomly; half of the optional fields keep their defaults. */
static void choose_field(struct att_variant *v, enum att_field f)
{
    const struct att_field_info *info = &att_fields[f];
    if (!info->required && below(2))
        return;
    v->loc[f].line = 1;
    switch (info->kind) {
    case ATT_KIND_ENUM: att_set(v, f, (int)below((unsigned)info->value_count)); break;
    case ATT_KIND_FLAG: att_set(v, f, (int)below(2)); break;
    case ATT_KIND_FILE: att_set_file(v, f, below(2) ? test.hook : NULL); break;
    default: att_set(v, f, random_number(f));
    }
}

/* True if a kernel with the same descriptor, of any tile, is known. */
static bool is_known(const struct att_variant *v)
{
    struct att_variant other = *v;
    for (size_t i = 0; i < test.count; i++) {
        other.tile = test.made[i].v.tile;
        if (att_variant_same(&test.made[i].v, &other))
            return true;
    }
    return false;
}

static void add(const struct att_variant *v, bool second)
{
    struct made *made = &test.made[test.count++];
    *made = (struct made){.v = *v, .second = second};
    att_variant_name(v, made->name);
}

/* Adds the alternative kernels that the build makes for this one. A pack has a record for each box
 * of calls; further records have a number in their names. */
static void add_seconds(const struct att_variant *v, const struct tgt *target)
{
    struct att_second second;
    for (unsigned n = 0;
         !v->tile && v->op->second && v->op->second(v, &target->machine, n, &second); n++) {
        struct att_variant other = *v;
        other.tile = (int)second.tile;
        add(&other, true);
        for (unsigned i = 0; i < ATT_SECOND_ALSO && second.also[i].count; i++) {
            add(&other, true);
            struct made *const made = &test.made[test.count - 1];
            const size_t used = strlen(made->name);
            snprintf(made->name + used, sizeof(made->name) - used, "_calls%u", i + 2);
        }
    }
}

/* Adds a random variant if its template accepts it, with its alternative kernels. */
static void try_one(const struct att_template *op, const struct tgt *target)
{
    struct att_variant v;
    struct att_why why = {.field = ATT_FIELD_COUNT};
    att_variant_init(&v, op, target->machine.name);
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        if (op->takes >> f & 1)
            choose_field(&v, (enum att_field)f);
    att_variant_resolve(&v);
    test.tried++;
    if (!v.op->check(&v, &target->machine, &why)) {
        char text[ATT_TEXT_MAX];
        att_variant_text(&v, text);
        if (strlen(why.text) < 10)
            fail("refused without a reason: %s", text);
        return;
    }
    if (is_known(&v))
        return;
    add(&v, false);
    add_seconds(&v, target);
}

static void make(size_t count)
{
    int ops = 0, targets = 0;
    while (att_templates[ops])
        ops++;
    while (tgt_all[targets])
        targets++;
    while (test.count < count)
        try_one(att_templates[below((unsigned)ops)], tgt_all[test.count % (size_t)targets]);
}

/* Prints "  - {op: prefill, head_dim: 128}" with the fields that differ from their defaults. */
static void print_entry(const struct att_variant *v, FILE *out)
{
    struct att_variant plain;
    att_variant_init(&plain, v->op, v->target);
    plain.head_dim = v->head_dim;
    att_variant_resolve(&plain);
    fprintf(out, "  - {op: %s", v->op->name);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *info = &att_fields[f];
        char value[LINE];
        if (!(v->op->takes >> f & 1))
            continue;
        if (info->kind == ATT_KIND_FILE ? !att_get_file(v, (enum att_field)f)
                                        : !info->required && att_get(v, (enum att_field)f) ==
                                                                 att_get(&plain, (enum att_field)f))
            continue;
        att_format_value(v, (enum att_field)f, value, sizeof(value));
        fprintf(out, ", %s: %s", info->name,
                info->kind == ATT_KIND_FILE ? att_get_file(v, (enum att_field)f) : value);
    }
    fputs("}\n", out);
}

/* Writes a description of every `step`-th kernel of the target that no build has refused; returns
 * their number. */
static size_t write_description(const char *path, const char *target, size_t step)
{
    size_t n = 0, written = 0;
    FILE *out = fopen(path, "w");
    if (!out)
        exit(2);
    fprintf(out, "targets: %s\nkernels:\n", target);
    for (size_t i = 0; i < test.count; i++) {
        const struct made *made = &test.made[i];
        if (made->refused || made->second || strcmp(made->v.target, target) != 0 || n++ % step)
            continue;
        print_entry(&made->v, out);
        written++;
        for (size_t k = i + 1; k < test.count && test.made[k].second; k++)
            written++;
    }
    fclose(out);
    return written;
}

/* Runs attnc and returns its output of both streams. */
static char *run(const char *const argv[], int *status)
{
    struct tgt_blob out, err;
    char *both = NULL;
    if (!attnc_run_process(argv, &out, &err, status)) {
        perror(argv[0]);
        exit(2);
    }
    if (asprintf(&both, "%s%s", (const char *)out.data, (const char *)err.data) < 0)
        exit(2);
    tgt_blob_free(&out);
    tgt_blob_free(&err);
    return both;
}

static struct made *find(const char *name)
{
    for (size_t i = 0; i < test.count; i++)
        if (strcmp(test.made[i].name, name) == 0)
            return &test.made[i];
    return NULL;
}

/* Reads one line of the build's output about a kernel that spills, or that needs more than the
 * target has. */
static void read_message(char *line, size_t *refused)
{
    char *text = strstr(line, "warning: "), name[ATT_NAME_MAX];
    const bool error = !text;
    text = text ? text : strstr(line, "error: ");
    if (!text)
        return;
    text = strchr(text, ' ') + 1;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, ": "), text);
    struct made *made = find(name);
    const bool spills = strstr(text, " spills ") != NULL;
    const bool known =
        error ? strstr(text, "bytes of LDS") || (spills && strstr(text, "at most")) : spills;
    if (!made || !known || strstr(text, "LLVM")) {
        fail("attnc build says: %s", line);
        return;
    }
    free(made->spills);
    made->spills = spills ? strdup(text) : NULL;
    made->refused = error;
    *refused += error;
}

/* Builds the target's kernels; a second build leaves out those that the first refuses. */
static bool build(const char *target, size_t step, const char *pack, size_t *kernels)
{
    char path[128], cache[128];
    snprintf(path, sizeof(path), "%s/%s.yaml", test.dir, target);
    snprintf(cache, sizeof(cache), "%s/cache", test.dir);
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t refused = 0;
        int status;
        *kernels = write_description(path, target, step);
        const char *const argv[] = {test.attnc, "build",   path,  "-o", pack,
                                    "--quiet",  "--cache", cache, NULL};
        char *said = run(argv, &status);
        for (char *state, *line = strtok_r(said, "\n", &state); line;
             line = strtok_r(NULL, "\n", &state))
            read_message(line, &refused);
        free(said);
        if (status == 0)
            return true;
        if (!refused || status != 1) {
            fail("attnc build of %s ends with status %d", path, status);
            return false;
        }
    }
    return false;
}

/* Checks that every kernel is in the pack under its name, and that its spills were reported. */
static void check_pack(const char *path, size_t kernels)
{
    struct attn_pack *pack;
    if (attn_pack_open(path, &pack)) {
        fail("%s: %s", path, attn_last_error());
        return;
    }
    if (attn_pack_kernel_count(pack) != kernels)
        fail("%s has %u kernels, not %zu", path, attn_pack_kernel_count(pack), kernels);
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        attn_pack_kernel(pack, n, &info);
        const struct made *made = find(info.name);
        if (!made)
            fail("%s lists %s, which nobody described", path, info.name);
        else if ((info.spills || info.scratch) && !made->spills)
            fail("%s spills %u and the build does not say so", info.name, info.spills);
    }
    attn_pack_close(pack);
}

/* Returns how many kernels `attnc verify` left out, since the pack lacks other stages of their
 * calls, according to its output `said`. */
static size_t without_stage(const char *said)
{
    const char *line = strstr(said, " NOT VERIFIED: their calls have other stages");
    while (line && line > said && line[-1] != '\n')
        line--;
    return line ? strtoul(line, NULL, 10) : 0;
}

/* Looks up and runs each kernel of the pack. */
static void verify(const char *pack, size_t kernels)
{
    char shapes[16], hooks[512], good[64];
    int status;
    snprintf(shapes, sizeof(shapes), "%d", SHAPES);
    snprintf(hooks, sizeof(hooks), "%.*s", (int)(strrchr(test.hook, '/') - test.hook), test.hook);
    const char *const argv[] = {test.attnc, "verify", pack,      "--device", "sim",
                                "--shapes", shapes,   "--hooks", hooks,      NULL};
    char *said = run(argv, &status);
    const size_t left_out = without_stage(said);
    snprintf(good, sizeof(good), "%zu of %zu kernels verified", kernels - left_out, kernels);
    if (status != (left_out ? 3 : 0) || !strstr(said, good))
        fail("attnc verify %s ends with status %d", pack, status);
    for (char *state, *line = strtok_r(said, "\n", &state), *before = ""; line;
         before = line, line = strtok_r(NULL, "\n", &state))
        if (strstr(before, " FAIL") || strstr(line, " FAIL") || strstr(line, "died"))
            printf("%s\n", line);
    free(said);
}

static void run_target(const char *target, size_t step)
{
    char pack[128];
    size_t kernels;
    snprintf(pack, sizeof(pack), "%s/%s.attnpack", test.dir, target);
    if (!build(target, 1, pack, &kernels))
        return;
    check_pack(pack, kernels);
    if (step && build(target, step, pack, &kernels))
        verify(pack, kernels);
}

/* Counts the kernels that spill, prints a line for each, and fails if there are too many. */
static size_t check_spills(void)
{
    size_t spilling = 0;
    for (size_t i = 0; i < test.count; i++) {
        const struct made *m = &test.made[i];
        if (!m->spills || m->refused)
            continue;
        printf("%s\n", m->spills);
        spilling++;
    }
    if (100 * spilling > SPILLING_PERCENT * test.count)
        fail("%zu of %zu kernels spill", spilling, test.count);
    return spilling;
}

static void finish(void)
{
    size_t refused = 0;
    for (size_t i = 0; i < test.count; i++)
        refused += test.made[i].refused;
    const size_t spilling = check_spills();
    printf(
        "%zu descriptions tried, %zu kernels, %zu refused by the build, %zu spill, %zu findings\n",
        test.tried, test.count, refused, spilling, test.failures);
    if (test.failures) {
        printf("what was built is in %s\n", test.dir);
        return;
    }
    const char *const argv[] = {"/bin/rm", "-r", test.dir, NULL};
    int status;
    free(run(argv, &status));
}

int main(int argc, char **argv)
{
    const size_t count = argc > 3 ? strtoul(argv[3], NULL, 10) : COUNT;
    const size_t verified = argc > 5 ? strtoul(argv[5], NULL, 10) : VERIFIED;
    if (argc < 3 || count == 0)
        return 2;
    test.attnc = argv[1];
    test.random = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    char *hooks = realpath(argv[2], NULL);
    if (!hooks)
        return 2;
    snprintf(test.hook, sizeof(test.hook), "%s/alibi.c", hooks);
    free(hooks);
    strcpy(test.dir, "/tmp/attnc-property-XXXXXX");
    test.made = calloc(count + MOST_SECONDS, sizeof(*test.made));
    if (!test.made || !mkdtemp(test.dir))
        return 2;
    make(count);
    for (int t = 0; tgt_all[t]; t++)
        run_target(tgt_all[t]->machine.name, verified == 0      ? 0
                                             : verified < count ? count / verified
                                                                : 1);
    finish();
    for (size_t i = 0; i < test.count; i++)
        free(test.made[i].spills);
    free(test.made);
    return test.failures ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc build: a description in, a pack out, or any of the steps between.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "compiler/driver.h"
#include "compiler/nearest.h"
#include "compiler/pack_writer.h"
#include "compiler/package.h"
#include "ir/passes.h"
#include "targets/tgt.h"
#include "tools/attnc/command.h"
#include "tools/attnc/progress.h"

enum { MAX_JOBS = 64, MAX_TARGETS = 16 };

static struct {
    const char *output, *jobs, *targets, *only, *cache, *emit, *name, *print, *stop_after, *disable;
    bool no_cache, quiet;
} args;

static const struct option_row options[] = {
    { "output", 'o', "FILE", "what to write (- is standard output, the default for text)",
      &args.output, NULL },
    { "jobs", 'j', "N", "kernels to compile at once (default: the processors there are)",
      &args.jobs, NULL },
    { "target", 0, "GFX[,GFX]", "compile for these targets instead of the description's",
      &args.targets, NULL },
    { "only", 0, "GLOB", "build only the kernels whose names match", &args.only, NULL },
    { "emit", 0, "KIND", "what to produce, see below (default: pack)", &args.emit, NULL },
    { "name", 0, "NAME", "--emit=header|object: the symbol is attn_pack_NAME", &args.name, NULL },
    { "cache", 0, "DIR", "where compiled kernels are kept (default: ~/.cache/attnc)",
      &args.cache, NULL },
    { "no-cache", 0, NULL, "compile everything, keep nothing", NULL, &args.no_cache },
    { "print", 0, "PASS|all", "print the tile IR after a pass to standard error", &args.print,
      NULL },
    { "stop-after", 0, "PASS", "with --emit=ir: the last pass to run", &args.stop_after, NULL },
    { "disable", 0, "PASS[,PASS]", "leave passes out, to find the one that breaks something",
      &args.disable, NULL },
    { "quiet", 'q', NULL, "no progress, no summary", NULL, &args.quiet },
    { 0 },
};

enum container { VARIANTS, TEXT, FILES, PACK, HEADER, OBJECT };

static const struct emit_row {
    const char *name;
    enum container container;
    enum attnc_stage stage;
    const char *suffix; /* FILES: of each kernel's file */
} emits[] = {
    { "pack", PACK, ATTNC_STAGE_LINKED, NULL },
    { "header", HEADER, ATTNC_STAGE_LINKED, NULL },
    { "object", OBJECT, ATTNC_STAGE_LINKED, NULL },
    { "variants", VARIANTS, ATTNC_STAGE_LINKED, NULL },
    { "ir", TEXT, ATTNC_STAGE_IR, NULL },
    { "llvm", TEXT, ATTNC_STAGE_LLVM, NULL },
    { "asm", TEXT, ATTNC_STAGE_ASM, NULL },
    { "obj", FILES, ATTNC_STAGE_OBJECT, "o" },
    { "co", FILES, ATTNC_STAGE_LINKED, "co" },
};
enum { EMIT_COUNT = sizeof(emits) / sizeof(emits[0]) };

static const struct emit_row *find_emit(const char *name)
{
    struct attnc_nearest nearest = attnc_nearest_to(name);
    for (int i = 0; i < EMIT_COUNT; i++) {
        if (strcmp(emits[i].name, name) == 0)
            return &emits[i];
        attnc_nearest_offer(&nearest, emits[i].name);
    }
    complain_nearest(nearest.name, "build: --emit cannot be '%s'", name);
    return NULL;
}

/* Splits args.targets in place into names that the target table knows. */
static bool split_targets(char *list, const char *names[MAX_TARGETS + 1])
{
    size_t count = 0;
    for (char *state, *name = strtok_r(list, ",", &state); name;
         name = strtok_r(NULL, ",", &state)) {
        struct attnc_nearest nearest = attnc_nearest_to(name);
        for (const struct tgt *const *t = tgt_all; *t; t++)
            attnc_nearest_offer(&nearest, (*t)->machine.name);
        if (!tgt_find(name)) {
            complain_nearest(nearest.name, "build: unknown target '%s'", name);
            return false;
        }
        if (count == MAX_TARGETS) {
            complain(EXIT_USER, "build: more than %d targets", MAX_TARGETS);
            return false;
        }
        names[count++] = name;
    }
    names[count] = NULL;
    if (count == 0)
        complain(EXIT_USER, "build: --target names no target");
    return count > 0;
}

/* Every name of a comma-separated list is a pass. */
static bool check_passes(const char *option, const char *list)
{
    for (const char *at = list; at && *at;) {
        char name[64];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof(name), "%.*s", (int)length, at);
        at += length + (at[length] == ',');
        struct attnc_nearest nearest = attnc_nearest_to(name);
        bool known = false;
        for (unsigned i = 0; i < tir_n_passes; i++) {
            known = known || strcmp(tir_passes[i].name, name) == 0;
            attnc_nearest_offer(&nearest, tir_passes[i].name);
        }
        if (!known && strcmp(name, "all") != 0) {
            complain_nearest(nearest.name, "build: --%s: unknown pass '%s'", option, name);
            return false;
        }
    }
    return true;
}

static unsigned processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < MAX_JOBS ? (unsigned)count : MAX_JOBS;
}

static bool parse_jobs(const char *text, unsigned *jobs)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > MAX_JOBS) {
        complain(EXIT_USER, "build: expected --jobs to be 1 to %d, saw '%s'", MAX_JOBS, text);
        return false;
    }
    *jobs = (unsigned)n;
    return true;
}

/* The XDG base directory specification's place for what can be made again. */
static const char *cache_dir(char path[PATH_MAX])
{
    if (args.no_cache)
        return NULL;
    if (args.cache)
        return args.cache;
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        snprintf(path, PATH_MAX, "%s/attnc", xdg);
    else if (home && home[0] == '/')
        snprintf(path, PATH_MAX, "%s/.cache/attnc", home);
    else
        return NULL;
    return path;
}

static void keep_matching(struct attnc_description *desc, const char *glob)
{
    size_t kept = 0;
    for (size_t i = 0; i < desc->count; i++) {
        char name[ATT_NAME_MAX];
        att_variant_name(&desc->variants[i], name);
        if (fnmatch(glob, name, 0) == 0)
            desc->variants[kept++] = desc->variants[i];
    }
    desc->count = kept;
}

static int print_variants(const struct attnc_description *desc)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < desc->count; i++) {
        char line[ATT_TEXT_MAX];
        att_variant_text(&desc->variants[i], line);
        fprintf(out, "%s\n", line);
    }
    fclose(out);
    int code = write_output(args.output ? args.output : "-", text, size);
    free(text);
    return code;
}

static int write_text(const struct attnc_build_result *built)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < built->count; i++)
        fwrite(built->kernels[i].code.data, 1, built->kernels[i].code.size, out);
    fclose(out);
    int code = write_output(args.output ? args.output : "-", text, size);
    free(text);
    return code;
}

/* One kernel goes to the file that -o names; several into the directory that it names. */
static int write_files(const struct attnc_build_result *built, const char *suffix)
{
    struct stat st;
    bool directory = stat(args.output, &st) == 0 && S_ISDIR(st.st_mode);
    if (!directory && built->count != 1) {
        if (mkdir(args.output, 0777) != 0)
            return complain(EXIT_ENVIRONMENT, "%s: %s", args.output, strerror(errno));
        directory = true;
    }
    for (size_t i = 0; i < built->count; i++) {
        const struct attnc_kernel *k = &built->kernels[i];
        char path[PATH_MAX];
        int n = directory ? snprintf(path, sizeof(path), "%s/%s.%s", args.output, k->name, suffix)
                          : snprintf(path, sizeof(path), "%s", args.output);
        if (n >= (int)sizeof(path))
            return complain(EXIT_USER, "%s: %s", args.output, strerror(ENAMETOOLONG));
        int code = write_output(path, k->code.data, k->code.size);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

/* The symbol's name from --name, or from the output file's: "out/qwen3.h" gives "qwen3". */
static void symbol_name(char name[ATT_NAME_MAX])
{
    const char *from = args.name ? args.name : args.output;
    const char *slash = strrchr(from, '/');
    from = slash && !args.name ? slash + 1 : from;
    snprintf(name, ATT_NAME_MAX, "%.*s", (int)(args.name ? strlen(from) : strcspn(from, ".")),
             from);
    for (char *c = name; *c && !args.name; c++) {
        if (!isalnum((unsigned char)*c))
            *c = '_';
    }
}

static int write_pack(const struct attnc_description *desc,
                      const struct attnc_build_result *built, enum container container,
                      size_t *written)
{
    struct tgt_blob pack;
    char why[ATTNC_WHY], name[ATT_NAME_MAX];
    if (!attnc_package(desc, built, &pack, why))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    void *bytes = pack.data;
    size_t size = pack.size;
    bool good = true;
    symbol_name(name);
    if (container == HEADER)
        good = attnc_pack_to_header(pack.data, pack.size, name, &bytes, &size);
    else if (container == OBJECT)
        good = attnc_pack_to_object(pack.data, pack.size, name, &bytes, &size);
    int code = good ? write_output(args.output, bytes, size)
                    : complain(EXIT_USER, "build: '%s' is not a C identifier; see --name", name);
    if (good && bytes != pack.data)
        free(bytes);
    *written = pack.size;
    tgt_blob_free(&pack);
    return code;
}

static void on_progress(void *user, const struct attnc_progress *p)
{
    (void)user;
    char step[ATT_NAME_MAX + 16];
    snprintf(step, sizeof(step), "%s%s", p->name,
             p->failed ? ": failed" : p->cached ? " (cached)" : "");
    show_progress(p->done, p->total, step);
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* Compiles the variants and writes what was asked for. */
static int build(const struct attnc_description *desc, const struct emit_row *emit,
                 unsigned jobs, struct attnc_diag *d)
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    char cache[PATH_MAX];
    struct attnc_build_options o = {
        .compile = { .stage = emit->stage, .print = args.print, .stop_after = args.stop_after,
                     .disable = args.disable },
        .compile_one = attnc_compile,
        .jobs = jobs,
        .cache_dir = cache_dir(cache),
        .identity = attnc_compiler_identity(),
        .log = stderr,
        .progress = args.quiet ? NULL : on_progress,
    };
    struct attnc_build_result built;
    bool good = attnc_build(desc, &o, &built, d);
    if (!args.quiet)
        clear_progress();
    attnc_diag_print(d, stderr);
    int code = good ? EXIT_GOOD : d->no_memory ? EXIT_ENVIRONMENT : EXIT_USER;
    size_t size = 0;
    if (good && emit->container == TEXT)
        code = write_text(&built);
    else if (good && emit->container == FILES)
        code = write_files(&built, emit->suffix);
    else if (good)
        code = write_pack(desc, &built, emit->container, &size);
    if (built.cache_error)
        complain(code, "warning: cannot keep kernels in %s: %s", o.cache_dir,
                 strerror(built.cache_error));
    if (code == EXIT_GOOD && size && !args.quiet)
        fprintf(stderr, "%s: %zu kernels, %zu KiB; %zu compiled, %zu from the cache, %.2f s\n",
                args.output, built.count, (size + 1023) >> 10, built.count - built.cached,
                built.cached, seconds_since(&start));
    attnc_build_result_free(&built);
    return code;
}

/* Reads the description and does with it what the options say. */
static int read_and_build(const char *path, const struct attnc_read_options *read,
                          const struct emit_row *emit, unsigned jobs)
{
    struct attnc_description desc;
    struct attnc_diag d;
    int code;
    bool good = attnc_read_description(path, read, &desc, &d);
    if (!good || d.count)
        attnc_diag_print(&d, stderr);
    bool no_memory = d.no_memory;
    attnc_diag_clear(&d);
    if (good && args.only)
        keep_matching(&desc, args.only);
    if (!good)
        code = no_memory ? EXIT_ENVIRONMENT : EXIT_USER;
    else if (desc.count == 0)
        code = complain(EXIT_USER, "build: no kernel's name matches '%s'", args.only);
    else if (emit->container == VARIANTS)
        code = print_variants(&desc);
    else
        code = build(&desc, emit, jobs, &d);
    attnc_diag_clear(&d);
    attnc_description_free(&desc);
    return code;
}

static int run(int argc, char **argv)
{
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc build DESC -o PACK; see attnc build --help");
    const struct emit_row *emit = find_emit(args.emit ? args.emit : "pack");
    if (!emit)
        return EXIT_USER;
    bool text = emit->container == TEXT || emit->container == VARIANTS;
    if (!args.output && !text)
        return complain(EXIT_USER, "build: -o says where the %s goes", emit->name);
    if (args.stop_after && emit->stage != ATTNC_STAGE_IR)
        return complain(EXIT_USER, "build: --stop-after needs --emit=ir");
    if (!check_passes("print", args.print) || !check_passes("stop-after", args.stop_after) ||
        !check_passes("disable", args.disable))
        return EXIT_USER;
    unsigned jobs = processors();
    if (args.jobs && !parse_jobs(args.jobs, &jobs))
        return EXIT_USER;

    const char *names[MAX_TARGETS + 1];
    char *list = args.targets ? strdup(args.targets) : NULL;
    int code = EXIT_USER;
    if (args.targets && !list)
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    else if (!list || split_targets(list, names))
        code = read_and_build(
            argv[0], &(struct attnc_read_options){ .targets = list ? names : NULL }, emit, jobs);
    free(list);
    return code;
}

const struct command command_build = {
    .name = "build",
    .usage = "DESC -o PACK [OPTION]...",
    .summary = "Compile the kernels of a description into a pack",
    .options = options,
    .details =
        "DESC is YAML or JSON (- is standard input); docs/description.md is its manual, and\n"
        "`attnc help fields` lists what a kernel can say. After any error no output is touched.\n"
        "\n"
        "KIND is pack, header or object (the pack as C source, or to be linked), variants (what\n"
        "the description expands to), ir, llvm, asm (text), obj or co (ELF; with several kernels\n"
        "FILE is a directory).\n",
    .run = run,
};

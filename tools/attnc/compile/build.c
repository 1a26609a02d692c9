/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc build: compiles the kernels of descriptions into a pack, or prints an intermediate form of
 * them (--emit).
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/cache.h"
#include "compiler/nearest.h"
#include "compiler/package.h"
#include "compiler/second.h"
#include "compiler/fitted.h"
#include "compiler/tuning.h"
#include "ir/passes.h"
#include "targets/tgt.h"
#include "tools/attnc/compile/build_ninja.h"
#include "tools/attnc/compile/build_output.h"
#include "tools/attnc/compile/cache.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/compile/depfile.h"
#include "tools/attnc/cli/diag_json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/cli/shard.h"

/* The most names in --target. */
enum { MAX_TARGETS = 16 };

static struct {
    const char *output, *jobs, *targets, *only, *cache, *emit, *name, *print, *stop_after, *disable,
        *depfile, *cache_limit, *werror, *tuning, *defaults, *shard;
    bool no_cache, quiet, json, lines, allow_stale;
} args;

/* The share of the kernels that --shard gives to this run. */
static struct shard shard;
static char output_path[PATH_MAX]; /* -o, with the share in its name if there are several shares */
static struct json json;           /* with --json: the list of messages, then the summary */

static const struct option_row options[] = {
    {"output", 'o', "FILE", "what to write (- is standard output, the default for text)",
     &args.output, NULL},
    {"jobs", 'j', "N", "kernels to compile at once (default: the processors there are)", &args.jobs,
     NULL},
    {"target", 0, "GFX[,GFX]", "compile for these targets instead of the description's",
     &args.targets, NULL},
    {"only", 0, "GLOB", "build only the kernels whose names match", &args.only, NULL},
    {"emit", 0, "KIND", "what to produce, see below (default: pack)", &args.emit, NULL},
    {"name", 0, "NAME", "--emit=header|object: the symbol is attn_pack_NAME", &args.name, NULL},
    {"cache", 0, "DIR", "where compiled kernels are kept (default: ~/.cache/attnc)", &args.cache,
     NULL},
    {"no-cache", 0, NULL, "compile everything, keep nothing", NULL, &args.no_cache},
    {"print", 0, "PASS|all", "print the tile IR after a pass to standard error", &args.print, NULL},
    {"stop-after", 0, "PASS", "with --emit=ir: the last pass to run", &args.stop_after, NULL},
    {"disable", 0, "PASS[,PASS]", "leave passes out, to find the one that breaks something",
     &args.disable, NULL},
    {"lines", 'g', NULL,
     "keep the tile IR in the code objects, and the line that each instruction comes from, for "
     "report, trace and debuggers",
     NULL, &args.lines},
    {"cache-limit", 0, "SIZE", "what the cache may hold after the build (default: 1G)",
     &args.cache_limit, NULL},
    {"depfile", 0, "FILE", "write a rule of make: what the output depends on", &args.depfile, NULL},
    {"json", 0, NULL, "print messages and summary as a JSON object", NULL, &args.json},
    {"werror", 0, "spill", "a kernel that spills registers is an error, not a warning",
     &args.werror, NULL},
    {"shard", 0, "I/N",
     "the I-th of N shares of the kernels, to PACK.IofN; auto: by what Slurm and MPI say",
     &args.shard, NULL},
    {"tuning", 0, "FILE", "tiles that attnc tune has found, and which calls each is for",
     &args.tuning, NULL},
    {"defaults", 0, "FILE", "fitted knobs in place of those that attnc has for FILE's target",
     &args.defaults, NULL},
    {"allow-stale", 0, NULL, "pass over kernels of --tuning that no description has", NULL,
     &args.allow_stale},
    {"quiet", 'q', NULL, "no progress, no summary", NULL, &args.quiet},
    {0},
};

/* Returns the row of the kind of output called `name`; NULL after a message if there is none. */
static const struct emit_row *find_emit(const char *name)
{
    struct attnc_nearest nearest = attnc_nearest_to(name);
    for (const struct emit_row *e = emits; e->name; e++) {
        if (strcmp(e->name, name) == 0)
            return e;
        attnc_nearest_offer(&nearest, e->name);
    }
    if (nearest.name)
        complain_nearest(nearest.name, "build: --emit cannot be '%s'", name);
    else
        complain(EXIT_USER, "build: --emit cannot be '%s'; `attnc help build` lists the kinds",
                 name);
    return NULL;
}

/* Splits `list`, the argument of --target, in place into names of known targets, NULL at the end.
 * Returns false after a message. */
static bool split_targets(char *list, const char *names[MAX_TARGETS + 1])
{
    size_t count = 0;
    for (char *state, *name = strtok_r(list, ",", &state); name;
         name = strtok_r(NULL, ",", &state)) {
        if (!tgt_find(name)) {
            char all[256];
            attnc_list_targets(all, sizeof(all));
            complain(EXIT_USER, "build: unknown target '%s'; there are %s", name, all);
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

/* True if every name of the comma-separated `list` is a pass or "all". Otherwise prints a message
 * that names the option. */
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

/* Returns the number of processors that this process may use, at most MAX_JOBS. */
static unsigned processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < MAX_JOBS ? (unsigned)count : MAX_JOBS;
}

/* Prints the messages of `d` to standard error, or with --json adds them to the JSON list. */
static void report(struct attnc_diag *d)
{
    if (args.json)
        diag_json(&json, d);
    else
        attnc_diag_print(d, stderr);
}

/* For the progress bar: kernels of the descriptions that are already built, and of all
 * descriptions. */
struct steps {
    size_t before, total;
};

/* Shows one finished kernel on the progress bar. `user` is a struct steps. */
static void on_progress(void *user, const struct attnc_progress *p)
{
    const struct steps *steps = user;
    char step[ATT_NAME_MAX + 16];
    snprintf(step, sizeof(step), "%s%s", p->name,
             p->failed   ? ": failed"
             : p->cached ? " (cached)"
                         : "");
    show_progress(steps->before + p->done, steps->total, step);
}

/* Returns the seconds that have passed since `start`. */
static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* Removes the variants whose kernel names do not match `glob`. */
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

/* Removes the variants that other shares of --shard build. Kernels that differ only in the tile
 * stay in one share. */
static void keep_share(struct attnc_description *desc)
{
    size_t kept = 0;
    for (size_t i = 0; i < desc->count; i++) {
        char name[ATT_NAME_MAX];
        struct att_variant key = desc->variants[i];
        key.tile = 0;
        att_variant_name(&key, name);
        if (in_shard(&shard, name))
            desc->variants[kept++] = desc->variants[i];
    }
    desc->count = kept;
}

/* Reads every description, even after an error, so that one run reports all errors. Returns an
 * exit_code. */
static int read_units(struct build_unit *units, size_t count, const struct attnc_read_options *read)
{
    int code = EXIT_GOOD;
    size_t errors = 0, files = 0;
    for (size_t i = 0; i < count; i++) {
        struct build_unit *u = &units[i];
        note_input(u->path);
        bool good = attnc_read_description(u->path, read, &u->desc, &u->d);
        for (size_t n = 0; n < u->desc.path_count; n++)
            note_input(u->desc.paths[n]);
        report(&u->d);
        if (!good && code != EXIT_ENVIRONMENT)
            code = u->d.no_memory || u->d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
        errors += u->d.errors;
        files += u->d.errors > 0;
        attnc_diag_clear(&u->d);
    }
    if (errors)
        complain(code, "%zu error%s in %zu file%s; nothing was built", errors,
                 errors == 1 ? "" : "s", files, files == 1 ? "" : "s");
    return code;
}

/* Applies the file of --tuning: its tiles replace the defaults of kernels whose description names
 * no tile. A kernel of the file that no description has is an error unless --allow-stale is given.
 * Returns an exit_code. */
static int tune_units(struct build_unit *units, size_t count, const char *const *targets,
                      struct attnc_tuning *tuning)
{
    struct attnc_diag d;
    note_input(args.tuning);
    bool good = attnc_tuning_read(args.tuning, tuning, &d);
    for (size_t i = 0; good && i < count; i++)
        good = attnc_tuning_apply(tuning, &units[i].desc, &d);
    if (good && !args.allow_stale)
        good = attnc_tuning_check_matched(tuning, targets, &d);
    report(&d);
    const int code = good ? EXIT_GOOD : d.no_memory || d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
    attnc_diag_clear(&d);
    return code;
}

/* Applies the file of --defaults: its fitted knobs replace the built-in ones of its target. Returns
 * an exit_code. */
static int fit_units(struct build_unit *units, size_t count, struct attnc_fitted *fitted)
{
    struct attnc_diag d;
    note_input(args.defaults);
    const bool good = attnc_fitted_read(args.defaults, fitted, &d);
    report(&d);
    const int code = good ? EXIT_GOOD : d.no_memory || d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
    attnc_diag_clear(&d);
    for (size_t i = 0; good && i < count; i++)
        attnc_fitted_apply(fitted, &units[i].desc);
    return code;
}

/* Adds the few-tiles kernels of each key, which libattn launches for some shapes. Text outputs such
 * as --emit=ir show only the first kernel of a key. Returns an exit_code. */
static int add_seconds(struct build_unit *units, size_t count, const struct emit_row *emit)
{
    int code = EXIT_GOOD;
    for (size_t i = 0; i < count && emit->container != TEXT && code == EXIT_GOOD; i++) {
        if (!attnc_add_seconds(&units[i].desc, &units[i].d))
            code = units[i].d.no_memory ? EXIT_ENVIRONMENT : EXIT_USER;
        report(&units[i].d);
        attnc_diag_clear(&units[i].d);
    }
    return code;
}

/* Removes the variants that --only or --shard does not select, and those that an earlier
 * description has already. *total gets the number that remains. Returns an exit_code. */
static int select_variants(struct build_unit *units, size_t count, size_t *total)
{
    void *seen = NULL;
    size_t all = 0;
    int code = EXIT_GOOD;
    for (size_t i = 0; i < count && code == EXIT_GOOD; i++) {
        if (args.only)
            keep_matching(&units[i].desc, args.only);
        code = drop_seen("build", &units[i].desc, &seen);
        all += units[i].desc.count;
        keep_share(&units[i].desc);
        *total += units[i].desc.count;
    }
    tdestroy(seen, free);
    if (code == EXIT_GOOD && all == 0)
        code = complain(EXIT_USER, "build: no kernel's name matches '%s'", args.only);
    return code;
}

/* Compiles the kernels of all `count` descriptions with the options `o`. `steps` counts the
 * finished ones for the progress bar. Returns an exit_code. */
static int compile_units(struct build_unit *units, size_t count, struct attnc_build_options *o,
                         struct steps *steps)
{
    int code = EXIT_GOOD, cache_error = 0;
    for (size_t i = 0; i < count; i++) {
        struct build_unit *u = &units[i];
        bool good = attnc_build(&u->desc, o, &u->built, &u->d);
        if (!args.quiet)
            clear_progress();
        report(&u->d);
        if (!good && code != EXIT_ENVIRONMENT)
            code = u->d.no_memory ? EXIT_ENVIRONMENT : EXIT_USER;
        cache_error = cache_error ? cache_error : u->built.cache_error;
        steps->before += u->desc.count;
    }
    if (cache_error && !args.quiet)
        complain(code, "warning: cannot keep kernels in %s: %s", o->cache_dir,
                 strerror(cache_error));
    return code;
}

/* Prints how many of the `total` kernels were compiled and how many the cache had, the size of the
 * pack and the time. Prints the number of the pack's entries if a kernel has several. */
static void print_summary(const struct build_unit *units, size_t count, size_t total,
                          size_t pack_bytes, double seconds)
{
    size_t cached = 0, entries = 0;
    char listed[40] = "";
    for (size_t i = 0; i < count; i++) {
        cached += units[i].built.cached;
        entries += attnc_count_entries(&units[i].desc);
    }
    if (entries != total)
        snprintf(listed, sizeof(listed), " (%zu in attnc list)", entries);
    if (args.json) {
        json_string(&json, "output", args.output);
        json_integer(&json, "kernels", (int64_t)total);
        json_integer(&json, "entries", (int64_t)entries);
        json_integer(&json, "compiled", (int64_t)(total - cached));
        json_integer(&json, "cached", (int64_t)cached);
        json_integer(&json, "pack_bytes", (int64_t)pack_bytes);
        json_real(&json, "seconds", seconds);
        return;
    }
    fprintf(stderr, "%s: %zu kernel%s%s, %zu KiB; %zu compiled, %zu from the cache, %.2f s\n",
            args.output, total, total == 1 ? "" : "s", listed, (pack_bytes + 1023) >> 10,
            total - cached, cached, seconds);
}

/* Removes the least recently used kernels of the directory `cache` until it keeps --cache-limit. A
 * failure is only a warning. */
static void trim_cache(const char *cache)
{
    struct attnc_cache_size size;
    uint64_t limit = CACHE_DEFAULT_LIMIT;
    if (args.cache_limit)
        read_cache_limit("build", "cache-limit", args.cache_limit, &limit);
    if (!attnc_cache_trim(cache, limit, &size) && !args.quiet)
        complain(EXIT_GOOD, "warning: cannot make the cache smaller: %s: %s", cache,
                 strerror(errno));
}

/* Selects and compiles the kernels of `count` descriptions, and writes the output of kind `emit`.
 * Returns an exit_code. */
static int build(struct build_unit *units, size_t count, const struct emit_row *emit, unsigned jobs)
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    struct steps steps = {0};
    int code = select_variants(units, count, &steps.total);
    char room[PATH_MAX];
    const char *cache = args.no_cache ? NULL : cache_directory(args.cache, room);
    if (!cache && !args.no_cache && !args.quiet && emit->container == PACK)
        complain(code, "HOME is not set: compiled kernels are not kept; --cache names a directory");
    struct attnc_build_options o = {
        .compile = {.stage = emit->stage,
                    .print = args.print,
                    .stop_after = args.stop_after,
                    .disable = args.disable,
                    .lines = args.lines},
        .compile_one = attnc_compile_unspilled,
        .jobs = jobs,
        .cache_dir = cache,
        .identity = attnc_compiler_identity(),
        .spills_are_errors = args.werror,
        .log = stderr,
        .progress = args.quiet ? NULL : on_progress,
        .user = &steps,
    };
    const bool compiles = emit->container != VARIANTS && emit->container != NINJA;
    if (code == EXIT_GOOD && compiles)
        code = compile_units(units, count, &o, &steps);
    size_t pack_bytes = 0;
    if (code == EXIT_GOOD && emit->container == NINJA)
        code = write_ninja(units, count,
                           &(struct ninja_options){args.targets, args.tuning, args.defaults},
                           args.output);
    else if (code == EXIT_GOOD)
        code = write_build(units, count, emit, args.output ? args.output : "-", args.name,
                           &pack_bytes);
    if (code == EXIT_GOOD && args.depfile)
        code = write_depfile(units, count, args.output, args.depfile);
    if (cache && code == EXIT_GOOD)
        trim_cache(cache);
    if (args.json)
        json_end(&json); /* the list of messages */
    if (code == EXIT_GOOD && pack_bytes && (!args.quiet || args.json))
        print_summary(units, count, steps.total, pack_bytes, seconds_since(&start));
    return code;
}

/* Reads the `count` descriptions at `paths`, builds their kernels and writes the output. Returns an
 * exit_code. */
static int read_and_build(char **paths, size_t count, const struct attnc_read_options *read,
                          const struct emit_row *emit, unsigned jobs)
{
    struct attnc_tuning tuning = {0};
    struct attnc_fitted fitted = {0};
    struct build_unit *units = calloc(count, sizeof(*units));
    if (!units)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < count; i++)
        units[i].path = paths[i];
    if (args.json) {
        json = (struct json){.out = stdout};
        json_begin_object(&json, NULL);
        json_begin_list(&json, "messages");
    }
    int code = read_units(units, count, read);
    if (code == EXIT_GOOD && args.defaults)
        code = fit_units(units, count, &fitted);
    if (code == EXIT_GOOD && args.tuning)
        code = tune_units(units, count, read->targets, &tuning);
    if (code == EXIT_GOOD)
        code = add_seconds(units, count, emit);
    if (code == EXIT_GOOD)
        code = check_output(args.output);
    if (code == EXIT_GOOD)
        code = check_output(args.depfile);
    if (code == EXIT_GOOD)
        code = build(units, count, emit, jobs);
    else if (args.json)
        json_end(&json);
    if (args.json) {
        json_integer(&json, "exit_code", code);
        json_end(&json);
    }
    for (size_t i = 0; i < count; i++) {
        attnc_build_result_free(&units[i].built);
        attnc_diag_clear(&units[i].d);
        attnc_description_free(&units[i].desc);
    }
    free(units);
    attnc_tuning_free(&tuning);
    attnc_fitted_free(&fitted);
    return code;
}

extern const struct command command_build;

/* Runs `attnc build`. */
static int run(int argc, char **argv)
{
    if (argc == 0)
        return wrong_operands(&command_build, argc, argv);
    const struct emit_row *emit = args.emit ? find_emit(args.emit) : emits;
    if (!emit || read_shard("build", args.shard, &shard) != EXIT_GOOD)
        return EXIT_USER;
    if (args.output) {
        if (shard_path(&shard, args.output, output_path) != EXIT_GOOD)
            return EXIT_USER;
        args.output = output_path;
    }
    if (!args.output && emit->container != TEXT && emit->container != VARIANTS)
        return complain(EXIT_USER, "build: -o says where the %s goes", emit->name);
    if (args.stop_after && emit->stage != ATTNC_STAGE_IR)
        return complain(EXIT_USER, "build: --stop-after needs --emit=ir");
    if (!check_passes("print", args.print) || !check_passes("stop-after", args.stop_after) ||
        !check_passes("disable", args.disable))
        return EXIT_USER;
    if (args.json && (!args.output || strcmp(args.output, "-") == 0))
        return complain(EXIT_USER, "build: --json needs -o FILE: both write to standard output");
    if (args.depfile && (!args.output || strcmp(args.output, "-") == 0))
        return complain(EXIT_USER, "build: --depfile needs -o FILE: the rule is about it");
    uint64_t limit;
    if (args.cache_limit &&
        read_cache_limit("build", "cache-limit", args.cache_limit, &limit) != EXIT_GOOD)
        return EXIT_USER;
    if (args.werror && strcmp(args.werror, "spill") != 0)
        return complain(EXIT_USER, "build: --werror is spill, not '%s'", args.werror);
    unsigned jobs = processors();
    if (args.jobs && !parse_jobs("build", args.jobs, &jobs))
        return EXIT_USER;

    const char *names[MAX_TARGETS + 1];
    char *list = args.targets ? strdup(args.targets) : NULL;
    int code = EXIT_USER;
    if (args.targets && !list) {
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    } else if (!list || split_targets(list, names)) {
        const struct attnc_read_options read = {.targets = list ? names : NULL};
        code = read_and_build(argv, (size_t)argc, &read, emit, jobs);
    }
    free(list);
    return code;
}

const struct command command_build = {
    .name = "build",
    .usage = "DESC... -o PACK [OPTION]...",
    .summary = "Compile the kernels of descriptions into one pack",
    .options = options,
    .details =
        "DESC is YAML or JSON (- is standard input); docs/description.md is its manual, and\n"
        "`attnc help fields` lists what a kernel can say. After any error no output is touched.\n"
        "\n"
        "KIND is pack, header or object (the pack as C source, or to be linked), variants (what\n"
        "the description expands to), ninja (a build file with an edge for each kernel), ir, "
        "llvm,\n"
        "asm (text), obj or co (ELF; with several kernels FILE is a directory).\n",
    .run = run,
};

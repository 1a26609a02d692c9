/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune: times the tiles that the kernels of descriptions may have. Writes a pack with the
 * fastest, and the tuning file that describes them.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <sched.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/cache.h"
#include "compiler/fitted.h"
#include "compiler/read_file.h"
#include "compiler/second.h"
#include "tools/attnc/compile/build_output.h"
#include "tools/attnc/compile/cache.h"
#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/tune/model.h"
#include "tools/verify/verify.h"

static struct {
    const char *output, *tuning, *db, *shapes, *model, *ranks, *targets, *only, *jobs, *budget,
        *kernels, *tiles, *verify, *parameters, *cache, *merge, *shard, *device, *finalists,
        *seconds, *flush, *patience, *report, *hooks, *defaults, *corners, *sample, *seed;
    bool show, csv, sensitivity, calibrate, quiet, json, revise, check, rules;
} args;

static const struct option_row options[] = {
    {"output", 'o', "PACK", "where the tuned kernels go", &args.output, NULL},
    {"tuning", 0, "FILE", "where the tuning file goes (default: PACK's name with .yaml)",
     &args.tuning, NULL},
    {"db", 0, "FILE", "the results (default: PACK's name with .sqlite)", &args.db, NULL},
    {"shapes", 0, "FILE", "what to tune for, lines of \"prefill batch=1,q=512\"", &args.shapes,
     NULL},
    {"model", 0, "JSON", "a model's config.json: its heads, and without DESC its kernels",
     &args.model, NULL},
    {"tp", 0, "N", "ranks of tensor parallelism, which share the model's heads (default: 1)",
     &args.ranks, NULL},
    {"target", 0, "GFX", "only this target", &args.targets, NULL},
    {"device", 0, "DEVICE",
     "sim: the timing model (default); hip: then a race on this machine's GPU", &args.device, NULL},
    {"finalists", 0, "N", "with hip: how many of the model's fastest race (default: 3)",
     &args.finalists, NULL},
    {"seconds", 0, "S", "with hip: of a race at most (default: 10)", &args.seconds, NULL},
    {"flush", 0, "MIB", "with hip: overwritten before each launch (default: 512)", &args.flush,
     NULL},
    {"patience", 0, "S", "with hip: after so long a launch counts as hung (default: 120)",
     &args.patience, NULL},
    {"only", 0, "GLOB", "only the kernels whose names match", &args.only, NULL},
    {"jobs", 'j', "N", "launches at once (default: the processors there are)", &args.jobs, NULL},
    {"budget", 0, "SECONDS", "of the whole run; keys that are not reached stay as a build has them",
     &args.budget, NULL},
    {"kernels", 0, "N", "kernels of a key at most (default: 4)", &args.kernels, NULL},
    {"tiles", 0, "N",
     "tiles of a key at most, those first that are closest to what a build takes (default: 96)",
     &args.tiles, NULL},
    {"verify", 0, "N", "shapes on which each winner is verified (default: all of attnc verify)",
     &args.verify, NULL},
    {"hooks", 0, "DIR", "where the C files of kernels with a logits function are", &args.hooks,
     NULL},
    {"parameters", 0, "LIST", "of the timing model: trans_cycles=8,hbm_ns=400", &args.parameters,
     NULL},
    {"cache", 0, "DIR", "where compiled kernels are kept (default: ~/.cache/attnc)", &args.cache,
     NULL},
    {"merge", 0, "DB", "add the results of another database to --db, and DESC are databases too",
     &args.merge, NULL},
    {"shard", 0, "I/N", "measure the I-th of N shares only (default: what Slurm or MPI say)",
     &args.shard, NULL},
    {"sensitivity", 0, NULL,
     "try every winner at the ends of the model's open parameters; what changes is for hardware",
     NULL, &args.sensitivity},
    {"calibrate", 0, NULL,
     "fit the model's open parameters to what --db has of GPUs, and do nothing else", NULL,
     &args.calibrate},
    {"defaults", 0, "FILE",
     "fit a target's knobs that no rule finds to kernels of DESC: targets/tuning/GFX.yaml",
     &args.defaults, NULL},
    {"revise", 0, NULL, "with --defaults: keep the rows whose values still gain, find none", NULL,
     &args.revise},
    {"check", 0, NULL, "with --defaults: derive rows again; exit status 1 if one may lose", NULL,
     &args.check},
    {"rules", 0, NULL, "with --defaults: time its kernels beside those of the rules alone", NULL,
     &args.rules},
    {"corners", 0, "N", "with --defaults: of the model's open parameters (default: 8)",
     &args.corners, NULL},
    {"sample", 0, "N", "with --check: how many rows (default: all)", &args.sample, NULL},
    {"seed", 0, "N", "with --defaults: of corners and sample (default: 1)", &args.seed, NULL},
    {"report", 0, "FILE", "an HTML page: chosen against default, and all tiles on pairs of shapes",
     &args.report, NULL},
    {"show", 0, NULL, "print what --db holds, fastest first", NULL, &args.show},
    {"csv", 0, NULL, "print what --db holds as CSV", NULL, &args.csv},
    {"json", 0, NULL, "print the summary as a JSON object", NULL, &args.json},
    {"quiet", 'q', NULL, "no summary", NULL, &args.quiet},
    {0},
};

/* The state of one run of the command. */
struct tuning_run {
    struct tune_sweep sweep;
    struct tune_shapes shapes;
    struct tune_model model;
    struct build_unit *units;
    size_t unit_count;
    struct attnc_tuning tuning;
    /* Paths of the database and of the tuning file. */
    char db[PATH_MAX], yaml[PATH_MAX];
};

/* Writes `given` to `path`. If it is NULL, writes the path of --output with another suffix:
 * "out/x.attnpack" becomes "out/x.yaml". Returns an exit_code after a message. */
static int name_beside(char path[PATH_MAX], const char *given, const char *suffix)
{
    if (!given && !args.output)
        return complain(EXIT_USER, "tune: -o says where the pack goes, or --db where the results "
                                   "are");
    const char *base = given ? given : args.output;
    const char *slash = strrchr(base, '/'), *dot = strrchr(base, '.');
    const int stem = dot && (!slash || dot > slash) ? (int)(dot - base) : (int)strlen(base);
    const int length = given ? snprintf(path, PATH_MAX, "%s", given)
                             : snprintf(path, PATH_MAX, "%.*s%s", stem, base, suffix);
    return length < PATH_MAX ? EXIT_GOOD
                             : complain(EXIT_USER, "%s: %s", base, strerror(ENAMETOOLONG));
}

/* Sets *hash to a hash of hipsim's library, which contains the timing model. Returns an exit_code
 * after a message. */
static int hash_model(uint64_t *hash)
{
    enum { MOST = 256 << 20 };
    char path[PATH_MAX], *bytes;
    size_t size;
    if (!gpu_find_simulator(path, sizeof(path)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    if (!attnc_read_file(path, MOST, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    *hash = XXH3_64bits(bytes, size);
    free(bytes);
    return EXIT_GOOD;
}

/* Reads the options of the sweep. Returns an exit_code after a message. */
static int read_sweep(struct tune_sweep *s)
{
    long kernels = 4, tiles = 96, verify = 0, budget = 0;
    cpu_set_t set;
    const int processors = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
    s->jobs = processors < MAX_JOBS ? (unsigned)processors : MAX_JOBS;
    s->parameters = args.parameters;
    s->hooks = args.hooks;
    if (tune_check_parameters(s->parameters) ||
        (args.jobs && !parse_jobs("tune", args.jobs, &s->jobs)) ||
        read_number("tune", "budget", args.budget, 1, INT_MAX, &budget) ||
        read_number("tune", "kernels", args.kernels, 1, 12, &kernels) ||
        read_number("tune", "tiles", args.tiles, 1, INT_MAX, &tiles) ||
        read_number("tune", "verify", args.verify, 1, INT_MAX, &verify))
        return EXIT_USER;
    s->started = steady_seconds();
    s->deadline = budget ? s->started + (double)budget : 0;
    s->max_kernels = (unsigned)kernels;
    s->max_tiles = (size_t)tiles;
    s->verify_shapes = (size_t)verify;
    return hash_model(&s->model);
}

/* Reads --device and its options. Returns an exit_code after a message. */
static int read_device(struct tuning_run *r)
{
    long finalists = 3, seconds = 10, flush = 512, patience = 120;
    bool hip = false;
    if (read_device_name(args.device, &hip) ||
        read_number("tune", "finalists", args.finalists, 1, 15, &finalists) ||
        read_number("tune", "seconds", args.seconds, 1, 3600, &seconds) ||
        read_number("tune", "flush", args.flush, 1, 65536, &flush) ||
        read_number("tune", "patience", args.patience, 1, 86400, &patience))
        return EXIT_USER;
    r->sweep.gpu_races = hip;
    r->sweep.finalists = (unsigned)finalists;
    r->sweep.race_seconds = (double)seconds;
    r->sweep.patience = (double)patience;
    r->sweep.flush = (size_t)flush << 20;
    return EXIT_GOOD;
}

/* Reads a description and applies --only to it. `text`, of `size` bytes, is the description; NULL:
 * it is in the file u->path. Returns an exit_code after a message. */
static int read_unit(struct build_unit *u, const char *text, size_t size)
{
    const char *const target[] = {args.targets, NULL};
    const struct attnc_read_options read = {.targets = args.targets ? target : NULL};
    bool good;
    if (text) {
        u->d = (struct attnc_diag){.file = u->path};
        good = attnc_read_description_bytes(text, size, ".", &read, &u->desc, &u->d);
    } else {
        note_input(u->path);
        good = attnc_read_description(u->path, &read, &u->desc, &u->d);
    }
    attnc_diag_print(&u->d, stderr);
    const int code = good ? EXIT_GOOD : u->d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
    attnc_diag_clear(&u->d);
    size_t kept = 0;
    for (size_t i = 0; args.only && i < u->desc.count; i++) {
        char name[ATT_NAME_MAX];
        att_variant_name(&u->desc.variants[i], name);
        if (fnmatch(args.only, name, 0) == 0)
            u->desc.variants[kept++] = u->desc.variants[i];
    }
    u->desc.count = args.only ? kept : u->desc.count;
    return code;
}

/* Checks that the sweep has a key, and a shape for any of them. Returns an exit_code after a
 * message. */
static int check_work(const struct tune_sweep *s)
{
    size_t shapes = 0;
    for (size_t k = 0; k < s->key_count; k++)
        shapes += s->keys[k].shape_count;
    if (!s->key_count)
        return complain(EXIT_USER, "tune: no kernel%s%s has a choice of tiles",
                        args.only ? " whose name matches " : "", args.only ? args.only : "");
    if (!shapes)
        return complain(EXIT_USER, "%s: no shape is for any of the kernels",
                        args.shapes ? args.shapes : "tune");
    return EXIT_GOOD;
}

/* Reads the shapes, the model and the `count` descriptions at `paths`, and makes the keys of the
 * sweep. Returns an exit_code after a message. */
static int read_inputs(struct tuning_run *r, char **paths, size_t count)
{
    long ranks = 1;
    void *seen = NULL;
    int code = read_number("tune", "tp", args.ranks, 1, 1024, &ranks);
    if (code == EXIT_GOOD)
        code = tune_read_shapes(args.shapes, &r->shapes);
    if (code == EXIT_GOOD && args.model)
        code = tune_read_model(args.model, ranks, &r->model);
    if (code != EXIT_GOOD)
        return code;
    r->unit_count = count ? count : 1;
    r->units = calloc(r->unit_count, sizeof(*r->units));
    if (!r->units)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < r->unit_count && code == EXIT_GOOD; i++) {
        r->units[i].path = count ? paths[i] : args.model;
        code = count ? read_unit(&r->units[i], NULL, 0)
                     : read_unit(&r->units[i], r->model.text, r->model.size);
        if (code == EXIT_GOOD)
            code = drop_seen("tune", &r->units[i].desc, &seen);
        if (code == EXIT_GOOD && !tune_add_keys(&r->sweep, &r->units[i].desc))
            code = complain(EXIT_ENVIRONMENT, "out of memory");
    }
    tdestroy(seen, free);
    if (code == EXIT_GOOD && !tune_add_split_keys(&r->sweep, &r->shapes))
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < r->sweep.key_count && code == EXIT_GOOD; i++) {
        if (!tune_choose_shapes(&r->shapes, r->model.heads, r->model.head_count, &r->sweep.keys[i]))
            code = complain(EXIT_ENVIRONMENT, "out of memory");
    }
    if (code == EXIT_GOOD && !tune_add_combine_shapes(&r->sweep))
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    return code == EXIT_GOOD ? check_work(&r->sweep) : code;
}

/* Writes the tuning file. `context` is the struct tuning_run. Returns an exit_code after a
 * message. */
static int write_tuning(void *context)
{
    struct tuning_run *r = context;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    attnc_tuning_write(&r->tuning, f);
    fclose(f);
    const int code = write_output(r->yaml, text, size);
    free(text);
    return code;
}

/* Builds the kernels of the descriptions under the tuning and writes the pack. Returns an exit_code
 * after a message. */
static int write_pack(struct tuning_run *r, const struct attnc_build_options *o)
{
    size_t bytes;
    /* The names of all kernels, since splits of several descriptions may need the same one. */
    void *seen = NULL;
    int code = EXIT_GOOD;
    for (size_t i = 0; i < r->unit_count && code == EXIT_GOOD; i++) {
        struct build_unit *u = &r->units[i];
        code = attnc_tuning_apply(&r->tuning, &u->desc, &u->d) ? EXIT_GOOD : EXIT_USER;
        if (code == EXIT_GOOD && !attnc_add_seconds(&u->desc, &u->d))
            code = u->d.no_memory ? EXIT_ENVIRONMENT : EXIT_USER;
        if (code == EXIT_GOOD)
            code = drop_seen("tune", &u->desc, &seen);
        if (code == EXIT_GOOD && !attnc_build(&u->desc, o, &u->built, &u->d))
            code = EXIT_USER;
        attnc_diag_print(&u->d, stderr);
        attnc_diag_clear(&u->d);
    }
    tdestroy(seen, free);
    if (code != EXIT_GOOD)
        return code;
    return write_build(r->units, r->unit_count, &emits[0], args.output, NULL, &bytes);
}

/* Chooses the splits of calls and their costs, for the kernels that were chosen. Returns an
 * exit_code after a message. */
static int choose_splits(struct tuning_run *r)
{
    if (!tune_choose_splits(&r->sweep, &r->tuning))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (!tune_choose_costs(&r->sweep, &r->tuning))
        return complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (!attnc_tuning_link(&r->tuning))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    return EXIT_GOOD;
}

/* Returns the exit_code of a sweep whose results are written: EXIT_USER if a launch failed or a
 * result was refused, EXIT_PARTIAL if the budget left launches out. */
static int judge(const struct tune_sweep *s)
{
    return s->failed || s->refused ? EXIT_USER : tune_count_left(s) ? EXIT_PARTIAL : EXIT_GOOD;
}

/* Prints the counts of a share of --shard, which only times launches; `attnc tune --merge` chooses
 * winners later. Returns an exit_code. */
static int finish_share(const struct tuning_run *r)
{
    const struct tune_sweep *s = &r->sweep;
    if (!args.quiet)
        printf("share %u of %u: %zu measured, %zu known, %zu left out by the budget: %s\n",
               s->shard.index + 1, s->shard.count, s->measured, s->known, tune_count_left(s),
               r->db);
    return judge(s);
}

/* Chooses splits, and writes the tuning file, the pack, the report and the summary. Returns an
 * exit_code. */
static int finish(struct tuning_run *r)
{
    int code = choose_splits(r);
    if (code == EXIT_GOOD && args.sensitivity && !tune_find_open(&r->sweep, &r->tuning))
        code = complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (code == EXIT_GOOD)
        code = write_tuning(r);
    if (code == EXIT_GOOD && args.output)
        code = write_pack(r, r->sweep.build);
    if (code == EXIT_GOOD && args.report)
        code = tune_write_report(&r->sweep, &r->tuning, args.report);
    if (code == EXIT_GOOD && (args.json || !args.quiet))
        tune_print_summary(&r->sweep, &r->tuning, args.json);
    return code == EXIT_GOOD ? judge(&r->sweep) : code;
}

/* Runs the sweep, or the calibration, and writes the results. Returns an exit_code after a
 * message. */
static int sweep(struct tuning_run *r)
{
    char room[PATH_MAX];
    const struct attnc_build_options o = {
        .compile = {.stage = ATTNC_STAGE_LINKED},
        .compile_one = attnc_compile_unspilled,
        .jobs = r->sweep.jobs,
        .cache_dir = cache_directory(args.cache, room),
        .identity = attnc_compiler_identity(),
        .log = stderr,
    };
    r->sweep.build = &o;
    r->sweep.db = tune_db_open(r->db, true);
    if (!r->sweep.db)
        return EXIT_ENVIRONMENT;
    if (args.calibrate)
        return tune_calibrate(&r->sweep);
    if (!args.quiet)
        tune_print_estimate(&r->sweep);
    const int code = tune_run(&r->sweep, &r->tuning, write_tuning, r);
    if (code != EXIT_GOOD)
        return code;
    return r->sweep.shard.count > 1 ? finish_share(r) : finish(r);
}

/* Frees what the run has read and built. */
static void free_run(struct tuning_run *r)
{
    tune_sweep_free(&r->sweep);
    for (size_t i = 0; i < r->unit_count; i++) {
        attnc_build_result_free(&r->units[i].built);
        attnc_description_free(&r->units[i].desc);
    }
    free(r->units);
    free(r->shapes.rows);
    free(r->model.text);
    attnc_tuning_free(&r->tuning);
}

/* Prints the database at `path`. Returns an exit_code after a message. */
static int show(const char *path)
{
    struct tune_db *db = tune_db_open(path, false);
    const bool good = db && tune_db_print(db, args.csv, stdout);
    tune_db_close(db);
    return good ? EXIT_GOOD : EXIT_ENVIRONMENT;
}

/* Merges the `count` databases `others` and the one of --merge into the one at `path`. Returns an
 * exit_code after a message. */
static int merge(const char *path, char **others, size_t count)
{
    struct tune_db *db = tune_db_open(path, true);
    bool good = db != NULL;
    for (size_t i = 0; good && i <= count; i++) {
        const char *other = i < count ? others[i] : args.merge;
        if (access(other, R_OK)) {
            complain(EXIT_ENVIRONMENT, "%s: %s", other, strerror(errno));
            good = false;
        }
        good = good && tune_db_merge(db, other);
    }
    good = good && tune_db_tidy(db);
    tune_db_close(db);
    return good ? EXIT_GOOD : EXIT_ENVIRONMENT;
}

/* Reads the table of --defaults, which is empty if the file does not exist, and the options of the
 * fit. Returns an exit_code after a message. */
static int read_table(struct attnc_fitted *table, struct tune_fit_options *o)
{
    struct attnc_diag d = {0};
    long corners = 8, sample = 0, seed = 1;
    if (read_number("tune", "corners", args.corners, 2, TUNE_FIT_CORNERS, &corners) ||
        read_number("tune", "sample", args.sample, 1, INT_MAX, &sample) ||
        read_number("tune", "seed", args.seed, 1, INT_MAX, &seed))
        return EXIT_USER;
    *o = (struct tune_fit_options){.mode = args.rules    ? TUNE_FIT_RULES
                                           : args.check  ? TUNE_FIT_CHECK
                                           : args.revise ? TUNE_FIT_REVISE
                                                         : TUNE_FIT,
                                   .path = args.defaults,
                                   .corners = (unsigned)corners,
                                   .sample = (unsigned)sample,
                                   .seed = (unsigned long)seed};
    if (o->mode == TUNE_FIT && args.targets && access(args.defaults, F_OK)) {
        snprintf(table->target, sizeof(table->target), "%s", args.targets);
        return tgt_find(args.targets)
                   ? EXIT_GOOD
                   : complain(EXIT_USER, "tune: there is no target '%s'", args.targets);
    }
    if (o->mode > TUNE_FIT_REVISE) /* otherwise the file is also written */
        note_input(args.defaults);
    const bool good = attnc_fitted_read(args.defaults, table, &d);
    attnc_diag_print(&d, stderr);
    const int code = good ? EXIT_GOOD : d.no_memory || d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
    attnc_diag_clear(&d);
    args.targets = table->target;
    return code;
}

/* Fits the table of --defaults to the kernels of the run. Returns an exit_code. */
static int fit_table(struct tuning_run *r, struct attnc_fitted *table,
                     const struct tune_fit_options *o)
{
    char room[PATH_MAX];
    const struct attnc_build_options build = {
        .compile = {.stage = ATTNC_STAGE_LINKED},
        .compile_one = attnc_compile, /* without another tile for kernels that spill */
        .jobs = r->sweep.jobs,
        .cache_dir = cache_directory(args.cache, room),
        .identity = attnc_compiler_identity(),
        .log = stderr,
    };
    r->sweep.build = &build;
    r->sweep.db = tune_db_open(args.db ? args.db : ":memory:", true);
    return r->sweep.db ? tune_fit(&r->sweep, table, o) : EXIT_ENVIRONMENT;
}

/* Runs `attnc tune --defaults` on the `count` descriptions at `paths`. Returns an exit_code. */
static int run_defaults(char **paths, size_t count)
{
    struct tuning_run r = {0};
    struct attnc_fitted table = {0};
    struct tune_fit_options o;
    void *seen = NULL;
    if (!count)
        return complain(EXIT_USER, "usage: attnc tune DESC... --defaults FILE --shapes FILE");
    int code = read_table(&table, &o);
    if (code == EXIT_GOOD)
        code = read_sweep(&r.sweep);
    if (code == EXIT_GOOD)
        code = tune_read_shapes(args.shapes, &r.shapes);
    r.units = calloc(count, sizeof(*r.units));
    r.unit_count = r.units ? count : 0;
    if (!r.units)
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < r.unit_count && code == EXIT_GOOD; i++) {
        struct build_unit *const u = &r.units[i];
        u->path = paths[i];
        code = read_unit(u, NULL, 0);
        if (code == EXIT_GOOD)
            code = drop_seen("tune", &u->desc, &seen);
        if (code == EXIT_GOOD &&
            (!attnc_add_seconds(&u->desc, &u->d) || !tune_fit_add(&r.sweep, &u->desc, &r.shapes)))
            code = complain(EXIT_ENVIRONMENT, "out of memory");
    }
    tdestroy(seen, free);
    if (code == EXIT_GOOD)
        code = check_work(&r.sweep);
    if (code == EXIT_GOOD)
        code = fit_table(&r, &table, &o);
    free_run(&r);
    attnc_fitted_free(&table);
    return code;
}

/* Runs `attnc tune`. */
static int run(int argc, char **argv)
{
    if (args.defaults)
        return run_defaults(argv, (size_t)argc);
    struct tuning_run r = {0};
    char db[PATH_MAX];
    int code = name_beside(db, args.db, ".sqlite");
    if (code == EXIT_GOOD)
        code = read_shard("tune", args.shard ? args.shard : "auto", &r.sweep.shard);
    if (code == EXIT_GOOD)
        code = shard_path(&r.sweep.shard, db, r.db);
    if (code == EXIT_GOOD && args.merge)
        return merge(r.db, argv, (size_t)argc);
    if (code == EXIT_GOOD && (args.show || args.csv))
        return show(r.db);
    if (code != EXIT_GOOD)
        return code;
    if (argc == 0 && !args.model)
        return complain(EXIT_USER, "usage: attnc tune DESC... -o PACK; see attnc tune --help");
    code = args.tuning || args.output ? name_beside(r.yaml, args.tuning, ".yaml")
                                      : complain(EXIT_USER, "tune: -o says where the pack goes");
    if (code == EXIT_GOOD)
        code = read_sweep(&r.sweep);
    if (code == EXIT_GOOD)
        code = read_device(&r);
    if (code == EXIT_GOOD)
        code = read_inputs(&r, argv, (size_t)argc);
    if (code == EXIT_GOOD)
        code = check_output(args.output);
    if (code == EXIT_GOOD)
        code = check_output(r.yaml);
    if (code == EXIT_GOOD && args.report)
        code = check_output(args.report);
    if (code == EXIT_GOOD)
        code = check_output(r.db);
    if (code == EXIT_GOOD)
        code = sweep(&r);
    free_run(&r);
    return code;
}

const struct command command_tune = {
    .name = "tune",
    .usage = "DESC... -o PACK [OPTION]...",
    .summary = "Find the fastest tiles of a description's kernels on the timing model",
    .options = options,
    .details =
        "One key after the other: every tile that fits is timed on every shape, in modelled time,\n"
        "and the fastest are verified and take the calls around the shapes on which they won. All\n"
        "other calls have the kernels of a plain build. The tuning file says the same for `attnc\n"
        "build --tuning`. Results stay in the database: what it has is not measured again, and a\n"
        "run that was ended goes on where it was. docs/tuning.md is the manual. Exit status 1:\n"
        "launches failed, the rest is written; 3: the budget was too small for all.\n"
        "With --defaults FILE the knobs of a target that no rule finds are fitted to the kernels\n"
        "of DESC, and FILE is written: a row for each knob that gains more at the middle of the\n"
        "model's open parameters than it loses at any corner of their ranges.\n",
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune: times the tiles that the kernels of a description may have, and writes the pack and
 * the tuning file of those that won.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/cache.h"
#include "compiler/read_file.h"
#include "compiler/second.h"
#include "tools/attnc/build_output.h"
#include "tools/attnc/cache.h"
#include "tools/attnc/clock.h"
#include "tools/attnc/command.h"
#include "tools/attnc/json.h"
#include "tools/attnc/output.h"
#include "tools/attnc/progress.h"
#include "tools/attnc/tune/model.h"
#include "tools/verify/verify.h"

static struct {
    const char *output, *tuning, *db, *shapes, *model, *ranks, *targets, *only, *jobs, *budget,
        *kernels, *tiles, *verify, *parameters, *cache, *merge, *shard, *device, *finalists,
        *seconds, *flush, *patience, *report, *hooks;
    bool show, csv, sensitivity, calibrate, quiet, json;
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
    {"budget", 0, "SECONDS", "start no launch after so long; what is missing stays as it is",
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
    {"report", 0, "FILE", "an HTML page: chosen against default, and all tiles on pairs of shapes",
     &args.report, NULL},
    {"show", 0, NULL, "print what --db holds, fastest first", NULL, &args.show},
    {"csv", 0, NULL, "print what --db holds as CSV", NULL, &args.csv},
    {"json", 0, NULL, "print the summary as a JSON object", NULL, &args.json},
    {"quiet", 'q', NULL, "no summary", NULL, &args.quiet},
    {0},
};

/* Everything of one run. */
struct tuning_run {
    struct tune_sweep sweep;
    struct tune_shapes shapes;
    struct tune_model model;
    struct build_unit *units;
    size_t unit_count;
    struct attnc_tuning tuning;
    char db[PATH_MAX], yaml[PATH_MAX];
    bool gpu;
    unsigned finalists;
};

/* "out/x.attnpack" gives "out/x.yaml". */
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

/* The simulator's library is the timing model. */
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
    s->deadline = budget ? steady_seconds() + (double)budget : 0;
    s->max_kernels = (unsigned)kernels;
    s->max_tiles = (size_t)tiles;
    s->verify_shapes = (size_t)verify;
    return hash_model(&s->model);
}

/* --device hip and what goes with it. */
static int read_device(struct tuning_run *r)
{
    long finalists = 3, seconds = 10, flush = 512, patience = 120;
    if (args.device && strcmp(args.device, "hip") && strcmp(args.device, "sim"))
        return complain(EXIT_USER, "tune: --device is hip or sim, not '%s'", args.device);
    if (read_number("tune", "finalists", args.finalists, 1, 15, &finalists) ||
        read_number("tune", "seconds", args.seconds, 1, 3600, &seconds) ||
        read_number("tune", "flush", args.flush, 1, 65536, &flush) ||
        read_number("tune", "patience", args.patience, 1, 86400, &patience))
        return EXIT_USER;
    r->gpu = args.device && !strcmp(args.device, "hip");
    r->finalists = (unsigned)finalists;
    r->sweep.race_seconds = (double)seconds;
    r->sweep.patience = (double)patience;
    r->sweep.flush = (size_t)flush << 20;
    return EXIT_GOOD;
}

/* One description; `text` NULL: the file of the unit's path. */
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
    return code;
}

/* Logarithms of what tuning gained, of some pairs of key and shape. */
struct gain {
    double sum;
    size_t pairs, slower;
};

static double mean(const struct gain *g) { return g->pairs ? exp(g->sum / (double)g->pairs) : 1; }

static struct gain find_gain(const struct tuning_run *r, const struct tune_key *key)
{
    struct gain g = {0};
    for (size_t s = 0; s < key->shape_count && !key->extra; s++) {
        const double first = tune_times(key, 0)[s].us;
        const double tuned = tune_chosen_time(key, &r->tuning, s);
        if (first > 0 && tuned > 0) {
            g.sum += log(first / tuned);
            g.pairs++;
            g.slower += tuned > first;
        }
    }
    return g;
}

static void add_gain(struct gain *to, const struct gain *g)
{
    to->sum += g->sum;
    to->pairs += g->pairs;
    to->slower += g->slower;
}

/* Kernels that the key has in the pack. */
static size_t count_kernels(const struct tuning_run *r, const struct tune_key *key)
{
    size_t kernels = 0;
    for (size_t i = 0; i < r->tuning.count; i++)
        kernels += !strcmp(r->tuning.rows[i].key, key->text);
    return kernels;
}

static void print_key(const struct tuning_run *r, const struct tune_key *key)
{
    const struct gain g = find_gain(r, key);
    const size_t kernels = count_kernels(r, key);
    char name[ATT_NAME_MAX];
    att_variant_name(&key->variant, name);
    printf("%-56s %5zu %6zu %7zu  %.3f\n", name, key->candidate_count, g.pairs, kernels, mean(&g));
}

/* A line for each op and target. */
static void print_families(const struct tuning_run *r)
{
    const struct tune_sweep *s = &r->sweep;
    for (size_t i = 0; i < s->key_count; i++) {
        const struct att_variant *v = &s->keys[i].variant;
        struct gain g = {0};
        bool first = true;
        for (size_t k = 0; k < s->key_count; k++) {
            const struct att_variant *w = &s->keys[k].variant;
            if (v->op != w->op || strcmp(v->target, w->target) || s->keys[k].extra)
                continue;
            first = first && k >= i;
            const struct gain one = find_gain(r, &s->keys[k]);
            add_gain(&g, &one);
        }
        if (first && g.pairs && !s->keys[i].extra)
            printf("%s on %s: %zu pairs, %.3f\n", v->op->name, v->target, g.pairs, mean(&g));
    }
}

static void print_summary(const struct tuning_run *r)
{
    struct gain all = {0};
    const struct tune_sweep *s = &r->sweep;
    printf("%-56s %5s %6s %7s  %s\n", "KEY", "TILES", "SHAPES", "KERNELS", "GAIN");
    for (size_t i = 0; i < s->key_count; i++) {
        const struct gain g = find_gain(r, &s->keys[i]);
        if (!s->keys[i].extra)
            print_key(r, &s->keys[i]);
        add_gain(&all, &g);
    }
    print_families(r);
    printf("%zu pairs of key and shape: %.3f times as fast on the %s, geometric mean; %zu slower\n",
           all.pairs, mean(&all), r->gpu ? "GPU" : "model", all.slower);
    printf(
        "%zu measured, %zu known, %zu left out by the budget, %zu failed; %zu candidates pruned, "
        "%zu wrong\n",
        s->measured, s->known, s->skipped, s->failed, s->pruned, s->wrong);
}

static void key_json(struct json *j, const struct tuning_run *r, const struct tune_key *key,
                     const struct gain *g)
{
    char name[ATT_NAME_MAX];
    att_variant_name(&key->variant, name);
    json_begin_object(j, NULL);
    json_string(j, "kernel", name);
    json_string(j, "key", key->text);
    json_integer(j, "tiles", (int64_t)key->candidate_count);
    json_integer(j, "shapes", (int64_t)g->pairs);
    json_integer(j, "kernels", (int64_t)count_kernels(r, key));
    json_real(j, "gain", mean(g));
    json_end(j);
}

static void open_json(struct json *j, const struct tuning_run *r)
{
    json_begin_list(j, "for_hardware");
    for (size_t i = 0; i < r->tuning.count; i++) {
        const struct attnc_tuned *row = &r->tuning.rows[i];
        if (!row->open)
            continue;
        json_begin_object(j, NULL);
        json_string(j, "key", row->key);
        json_string(j, "tile", row->tile);
        json_string(j, "unless", row->open);
        json_end(j);
    }
    json_end(j);
}

static void splits_json(struct json *j, const struct tuning_run *r)
{
    json_begin_list(j, "splits");
    for (size_t i = 0; i < r->tuning.split_count; i++) {
        const struct attnc_split *row = &r->tuning.splits[i];
        json_begin_object(j, NULL);
        json_string(j, "key", row->key);
        json_string(j, "call", row->call);
        json_integer(j, "lists", row->lists);
        json_integer(j, "one_launch", row->one_launch);
        json_integer(j, "item_cost", row->item_cost);
        json_integer(j, "merge_rate", row->merge_rate);
        json_real(j, "us", row->us);
        json_real(j, "whole_us", row->whole_us);
        json_end(j);
    }
    json_end(j);
}

static void print_json(const struct tuning_run *r)
{
    struct json j = {.out = stdout};
    struct gain all = {0};
    const struct tune_sweep *s = &r->sweep;
    json_begin_object(&j, NULL);
    json_string(&j, "device", r->gpu ? "hip" : "sim");
    json_begin_list(&j, "keys");
    for (size_t i = 0; i < s->key_count; i++) {
        if (s->keys[i].extra)
            continue;
        const struct gain g = find_gain(r, &s->keys[i]);
        key_json(&j, r, &s->keys[i], &g);
        add_gain(&all, &g);
    }
    json_end(&j);
    json_integer(&j, "pairs", (int64_t)all.pairs);
    json_integer(&j, "slower", (int64_t)all.slower);
    json_real(&j, "gain", mean(&all));
    json_integer(&j, "measured", (int64_t)s->measured);
    json_integer(&j, "known", (int64_t)s->known);
    json_integer(&j, "left_out", (int64_t)s->skipped);
    json_integer(&j, "failed", (int64_t)s->failed);
    json_integer(&j, "pruned", (int64_t)s->pruned);
    json_integer(&j, "wrong", (int64_t)s->wrong);
    open_json(&j, r);
    splits_json(&j, r);
    json_end(&j);
}

/* Decisions that need a GPU. */
static void print_open(const struct tuning_run *r)
{
    for (size_t i = 0; i < r->tuning.count; i++) {
        const struct attnc_tuned *row = &r->tuning.rows[i];
        if (row->open)
            printf("for hardware: %s\n    %s wins, unless %s\n", row->key, row->tile, row->open);
    }
}

static void print_split(const struct attnc_split *row)
{
    if (!row->lists) {
        printf("    %s: no lists: %.1f us\n", row->call, row->us);
        return;
    }
    printf("    %s: %lld lists, added up %s", row->call, (long long)row->lists,
           row->one_launch ? "in one launch" : "by combine");
    if (row->item_cost)
        printf(", item_cost %lld", (long long)row->item_cost);
    if (row->merge_rate)
        printf(", merge_rate %lld", (long long)row->merge_rate);
    printf(": %.1f us", row->us);
    if (row->whole_us > 0)
        printf(", %.1f without", row->whole_us);
    printf("\n");
}

/* Prints the best splits of calls' keys, which the caller chooses. */
static void print_splits(const struct tuning_run *r)
{
    for (size_t k = 0; r->tuning.split_count && k < r->sweep.key_count; k++) {
        const struct tune_key *key = &r->sweep.keys[k];
        char name[ATT_NAME_MAX];
        size_t printed = 0;
        att_variant_name(&key->variant, name);
        for (size_t i = 0; i < r->tuning.split_count; i++) {
            if (strcmp(r->tuning.splits[i].key, key->text))
                continue;
            if (!printed++)
                printf("splits of %s:\n", name);
            print_split(&r->tuning.splits[i]);
        }
    }
}

static int write_tuning(struct tuning_run *r)
{
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

static int write_pack(struct tuning_run *r, const struct attnc_build_options *o)
{
    size_t bytes;
    void *seen = NULL; /* splits of several descriptions may need the same kernel */
    int code = EXIT_GOOD;
    for (size_t i = 0; i < r->unit_count && code == EXIT_GOOD; i++) {
        struct build_unit *u = &r->units[i];
        code = attnc_tuning_apply(&r->tuning, &u->desc, &u->d) ? EXIT_GOOD : EXIT_USER;
        if (code == EXIT_GOOD && !attnc_add_seconds(&u->desc, &u->d))
            code = EXIT_ENVIRONMENT;
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

static int choose(struct tuning_run *r)
{
    for (size_t i = 0; i < r->sweep.key_count; i++) {
        if (r->sweep.keys[i].shape_count && !tune_choose(&r->sweep, &r->sweep.keys[i], &r->tuning))
            return complain(EXIT_ENVIRONMENT, "out of memory");
    }
    if (!tune_choose_splits(&r->sweep, &r->tuning))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (!tune_choose_costs(&r->sweep, &r->tuning))
        return complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (!attnc_tuning_link(&r->tuning))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    return EXIT_GOOD;
}

/* A share measures; what wins is decided when all are merged. */
static int finish_share(const struct tuning_run *r)
{
    const struct tune_sweep *s = &r->sweep;
    if (!args.quiet)
        printf("share %u of %u: %zu measured, %zu known, %zu left out by the budget: %s\n",
               s->shard.index + 1, s->shard.count, s->measured, s->known, s->skipped, r->db);
    return s->skipped ? EXIT_PARTIAL : EXIT_GOOD;
}

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
    r->sweep.db = tune_db_open(r->db, true);
    if (!r->sweep.db)
        return EXIT_ENVIRONMENT;
    if (!tune_compile(&r->sweep, &o))
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (args.calibrate)
        return tune_calibrate(&r->sweep);
    if (!tune_measure(&r->sweep))
        return complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (r->gpu && !tune_measure_gpu(&r->sweep, r->finalists))
        return complain(EXIT_ENVIRONMENT, "the race has stopped");
    if (r->sweep.shard.count > 1)
        return finish_share(r);
    int code = choose(r);
    if (code == EXIT_GOOD && args.sensitivity && !tune_find_open(&r->sweep, &r->tuning))
        code = complain(EXIT_ENVIRONMENT, "the sweep has stopped");
    if (code == EXIT_GOOD)
        code = write_tuning(r);
    if (code == EXIT_GOOD && args.output)
        code = write_pack(r, &o);
    if (code == EXIT_GOOD && args.report)
        code = tune_write_report(&r->sweep, &r->tuning, args.report);
    if (code == EXIT_GOOD && args.json) {
        print_json(r);
    } else if (code == EXIT_GOOD && !args.quiet) {
        print_summary(r);
        print_open(r);
        print_splits(r);
    }
    return code == EXIT_GOOD && r->sweep.skipped ? EXIT_PARTIAL : code;
}

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

static int show(const char *path)
{
    struct tune_db *db = tune_db_open(path, false);
    const bool good = db && tune_db_print(db, args.csv, stdout);
    tune_db_close(db);
    return good ? EXIT_GOOD : EXIT_ENVIRONMENT;
}

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

static int run(int argc, char **argv)
{
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
        "Every tile that fits a kernel is timed on every shape, in modelled time; the fastest are\n"
        "verified and become the pack's kernels, with rows that tell libattn which calls each is\n"
        "for. The tuning file says the same for `attnc build --tuning`. Results stay in the\n"
        "database: what it has is not measured again, and a run that was ended goes on where it\n"
        "was. docs/tuning.md is the manual. Exit status 3: the budget was too small for all.\n",
    .run = run,
};

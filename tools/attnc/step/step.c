/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc step: times the launches of one step of a model on one rank. The kernels are the ones that
 * attnc describe writes for the model, launched as docs/decode.md says.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/cache.h"
#include "targets/tgt.h"
#include "tools/attnc/compile/cache.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/describe/report_gaps.h"
#include "tools/attnc/step/step.h"
#include "tools/attnc/tune/model.h"

/* Most ranks, most sequences of a step, kernels that are compiled at once. */
enum { MAX_RANKS = 1024, MAX_BATCH = 4096, JOBS = 4 };

static struct {
    const char *ranks, *batch, *context, *queries, *target, *device, *page_size, *kv_dtype,
        *kv_scale, *kv_layout, *tuning, *cache, *seconds;
    bool json;
} args;

static const struct option_row options[] = {
    {"tp", 0, "N", "ranks of tensor parallelism, which share the heads (default: 1)", &args.ranks,
     NULL},
    {"batch", 0, "N", "sequences of the step (default: 1)", &args.batch, NULL},
    {"context", 0, "N", "keys of each sequence, its new tokens among them (default: 4096)",
     &args.context, NULL},
    {"queries", 0, "N", "new tokens of each sequence (default: 1)", &args.queries, NULL},
    {"target", 0, "GFX", "the GPU (default: gfx950)", &args.target, NULL},
    {"device", 0, "DEVICE", "sim: the timing model (default); hip: this machine's GPU",
     &args.device, NULL},
    {"page-size", 0, "N|any", "tokens in a page of the engine's cache (default: 16)",
     &args.page_size, NULL},
    {"kv-dtype", 0, "TYPE", "element type of the cache (default: same)", &args.kv_dtype, NULL},
    {"kv-scale", 0, "KIND", "which elements of the cache share a scale (default: none)",
     &args.kv_scale, NULL},
    {"kv-layout", 0, "ORDER", "order inside a page of the cache (default: nhd)", &args.kv_layout,
     NULL},
    {"tuning", 0, "FILE", "tiles and splits that attnc tune has found", &args.tuning, NULL},
    {"cache", 0, "DIR", "compiled kernels, as attnc build keeps them", &args.cache, NULL},
    {"seconds", 0, "S", "with hip: for a launch at most (default: 5)", &args.seconds, NULL},
    {"json", 0, NULL, "print a JSON object", NULL, &args.json},
    {0},
};

/* One run of the command. */
struct run {
    struct model model;
    struct deployment deployment;
    struct step step;
    struct step_kernels kernels;
    struct step_device device;
};

/* Returns the parameter `name` of the target's timing model; 0 if it has none of this name. */
static double parameter(const struct tgt *target, const char *name)
{
    const struct tgt_parameter *p = target->parameters;
    while (p->name && strcmp(p->name, name))
        p++;
    return p->name ? p->value : 0;
}

/* Reads --target. For the simulator also sets the launch overheads of its timing model. Returns an
 * exit_code after a message. */
static int read_target(struct step *s, bool hip)
{
    s->load.target = args.target ? args.target : "gfx950";
    const struct tgt *target = tgt_find(s->load.target);
    char all[200];
    if (!target) {
        attnc_list_targets(all, sizeof(all));
        return complain(EXIT_USER, "step: unknown target '%s'; there are %s", s->load.target, all);
    }
    if (!hip) { /* times of a GPU include the overhead */
        s->launch_us = parameter(target, "launch_us");
        s->node_us = parameter(target, "graph_node_us");
    }
    return EXIT_GOOD;
}

/* Reads the sizes of the step: --tp, --batch, --context and --queries. Returns an exit_code after a
 * message. */
static int read_load(struct step_load *l)
{
    *l = (struct step_load){.ranks = 1, .batch = 1, .context = 4096, .queries = 1};
    int code = read_number("step", "tp", args.ranks, 1, MAX_RANKS, &l->ranks);
    if (code == EXIT_GOOD)
        code = read_number("step", "batch", args.batch, 1, MAX_BATCH, &l->batch);
    if (code == EXIT_GOOD)
        code = read_number("step", "context", args.context, 1, STEP_MOST_KEYS, &l->context);
    if (code == EXIT_GOOD)
        code = read_number("step", "queries", args.queries, 1, STEP_MOST_KEYS, &l->queries);
    return code;
}

/* Reads --device and --seconds. Returns an exit_code after a message. */
static int read_device(struct step_device *d)
{
    double seconds = 5;
    char *end = NULL;
    bool hip = false;
    if (read_device_name(args.device, &hip))
        return EXIT_USER;
    if (args.seconds)
        seconds = strtod(args.seconds, &end);
    if (end && (end == args.seconds || *end || !(seconds >= 0.01 && seconds <= 3600)))
        return complain(EXIT_USER, "step: expected --seconds to be 0.01 to 3600, saw '%s'",
                        args.seconds);
    *d = (struct step_device){
        .hip = hip,
        .bench = {.race = {.warm_up = 3,
                           .least = 15,
                           .most = RACE_ROUNDS,
                           .precision = 0.005,
                           .seconds = seconds},
                  .patience = 120,
                  .flush = (size_t)512 << 20},
    };
    return EXIT_GOOD;
}

/* Reads the options of the cache, and checks that the model's kernels can have it. Returns an
 * exit_code after a message. */
static int read_deployment(struct run *r)
{
    char why[200];
    struct deployment *d = &r->deployment;
    const struct step_load *l = &r->step.load;
    *d = (struct deployment){
        .ranks = {l->ranks},
        .rank_count = 1,
        .page_size = args.page_size ? args.page_size : "16",
        .kv_dtype = args.kv_dtype ? args.kv_dtype : "same",
        .kv_scale = args.kv_scale ? args.kv_scale : "none",
        .kv_layout = args.kv_layout ? args.kv_layout : "nhd",
        .draft_tokens = l->queries <= 64 ? l->queries - 1 : 0,
        .one_launch = true,
        .whole = true,
    };
    if (!check_deployment(d, why))
        return complain(EXIT_USER, "step: the cache: %s", why);
    r->step.load.page_size = strtol(d->page_size, NULL, 10);
    r->step.load.fp8_windows = deployment_has_e2m1_rows(d);
    return EXIT_GOOD;
}

/* Makes the description that attnc describe writes for the model, and reads its variants. `path` is
 * the model's file, for messages. Returns an exit_code after a message. */
static int read_kernels(struct run *r, const char *path)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    fprintf(f, "targets: [%s]\ndefaults: { dtype: %s }\nkernels:\n", r->step.load.target,
            r->model.fp16 ? "fp16" : "bf16");
    const unsigned entries = write_kernels(&r->model, &r->deployment, f);
    fclose(f);
    struct attnc_diag d = {.file = path};
    const struct attnc_read_options o = {0};
    const bool good =
        text && entries &&
        attnc_read_description_bytes(text, size, ".", &o, &r->kernels.description, &d);
    attnc_diag_print(&d, stderr);
    attnc_diag_clear(&d);
    free(text);
    return good ? EXIT_GOOD : complain(EXIT_USER, "%s: no kernel of the model can be built", path);
}

/* Reads the file of --tuning; does nothing without it. Returns an exit_code. */
static int read_tuning(struct run *r)
{
    struct attnc_diag d;
    if (!args.tuning)
        return EXIT_GOOD;
    const bool good = attnc_tuning_read(args.tuning, &r->kernels.tuning, &d);
    attnc_diag_print(&d, stderr);
    const int code = good ? EXIT_GOOD : d.no_memory || d.unreadable ? EXIT_ENVIRONMENT : EXIT_USER;
    attnc_diag_clear(&d);
    return code;
}

/* Compiles and times the kernels of the step, and prints the result. `path` is the model's file.
 * Returns an exit_code. */
static int measure(struct run *r, const char *path)
{
    char room[PATH_MAX];
    r->kernels.build = (struct attnc_build_options){
        .compile = {.stage = ATTNC_STAGE_LINKED},
        .compile_one = attnc_compile_unspilled,
        .jobs = JOBS,
        .cache_dir = cache_directory(args.cache, room),
        .identity = attnc_compiler_identity(),
        .log = stderr,
    };
    const struct step_count count = step_measure(&r->step, &r->kernels, &r->device);
    if (!count.timed)
        return complain(EXIT_ENVIRONMENT, "%s: no launch was timed", path);
    (args.json ? step_print_json : step_print)(&r->step, &r->model);
    const int code = report_gaps(&r->model, path);
    return count.failed ? EXIT_PARTIAL : code;
}

/* Lists the launches of the step and measures them. `path` is the model's file. Returns an
 * exit_code. */
static int list_and_measure(struct run *r, const char *path)
{
    char why[200];
    if (r->model.group_count == 0) {
        report_gaps(&r->model, path);
        return complain(EXIT_USER, "%s: no layer has softmax attention", path);
    }
    if (!step_list_layers(&r->model, &r->step, why))
        return complain(EXIT_USER, "%s: %s", path, why);
    int code = read_kernels(r, path);
    if (code == EXIT_GOOD)
        code = read_tuning(r);
    return code == EXIT_GOOD ? measure(r, path) : code;
}

extern const struct command command_step;

/* Runs `attnc step`. */
static int run(int argc, char **argv)
{
    if (argc != 1)
        return wrong_operands(&command_step, argc, argv);
    struct run *r = calloc(1, sizeof(*r));
    if (!r)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    int code = read_load(&r->step.load);
    if (code == EXIT_GOOD)
        code = read_device(&r->device);
    if (code == EXIT_GOOD)
        code = read_target(&r->step, r->device.hip);
    if (code == EXIT_GOOD)
        code = read_deployment(r);
    if (code == EXIT_GOOD)
        code = tune_parse_model(argv[0], &r->model);
    if (code == EXIT_GOOD)
        code = list_and_measure(r, argv[0]);
    step_free_kernels(&r->kernels);
    model_free(&r->model);
    free(r);
    return code;
}

const struct command command_step = {
    .name = "step",
    .usage = "CONFIG_JSON [OPTION]...",
    .summary = "Time the launches of one step of a model: per layer and in all",
    .options = options,
    .details =
        "CONFIG_JSON is a file in the Hugging Face layout. Its kernels are those of attnc\n"
        "describe; each is launched on the step's batch and timed on the timing model, or with\n"
        "--device hip on a GPU. Attention is timed in one launch, with a combine launch and\n"
        "without a plan, by the lists that libattn chooses; the fastest is taken. A layer's table\n"
        "is that of its own graph: LAUNCH is the overhead in US, more for the first launch. The\n"
        "step is a graph of all layers with the plans that they share. Products of the engine and\n"
        "what joins the ranks are not in it. Exit status 3: the model needs what attnc lacks, or\n"
        "launches failed, which standard error names.\n",
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify: compares every kernel of a pack with its reference, on a GPU or on the simulator.
 * Each target is verified in child processes: a simulator is one GPU for its whole life, and HIP
 * does not survive a fork.
 */
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/pack_writer.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/children.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"
#include "tools/attnc/cli/shard.h"
#include "tools/attnc/cli/turns.h"
#include "tools/verify/verify.h"

static struct {
    const char *device;
    const char *only;
    const char *seed;
    const char *hooks;
    const char *jobs;
    const char *shapes;
    const char *every;
    const char *save;
    const char *shard;
    bool json, quiet;
} args;

/* The share of the kernels that --shard gives to this run. */
static struct shard shard;

static const struct option_row options[] = {
    {"device", 0, "DEVICE",
     "hip: a GPU of this machine; sim: the simulator; "
     "left out: hip where there is a GPU, else sim",
     &args.device, NULL},
    {"only", 0, "GLOB", "only the kernels whose name matches", &args.only, NULL},
    {"seed", 0, "N", "of the random inputs, 1 where it is left out", &args.seed, NULL},
    {"shapes", 0, "N", "at most N shapes of each kernel, the first that choose it", &args.shapes,
     NULL},
    {"every", 0, "N",
     "one in N shapes of each kernel; other ones for its next target and for the op's next kernel",
     &args.every, NULL},
    {"hooks", 0, "DIR", "where the C files of kernels with a logits function are", &args.hooks,
     NULL},
    {"jobs", 'j', "N", "simulated GPUs at once (default: one of each target)", &args.jobs, NULL},
    {"shard", 0, "I/N", "the I-th of N shares of the kernels, or by what Slurm and MPI say (auto)",
     &args.shard, NULL},
    {"save", 0, "FILE", "write the JSON object to a file, beside what is printed", &args.save,
     NULL},
    {"quiet", 'q', NULL, "print failures, and a line for each op and target", NULL, &args.quiet},
    {"json", 0, NULL, "print a JSON object, with a row per kernel and shape", NULL, &args.json},
    {0},
};

/* With --quiet: the sums of one op's kernels on one target. */
struct summary {
    char op[40], target[16];
    size_t kernels, shapes, failures;
    /* Largest error as a fraction of its bound, 1: the error equals the bound. */
    double worst;
};

/* First bytes of lines that a child prints for its parent, and limits. */
enum {
    SUMMARY_MARK = '\001', /* first byte of a child's line with a kernel's sums */
    ROW_MARK = '\002',     /* first byte of a verified shape as JSON */
    DEVICE_MARK = '\003',  /* first byte of a target's device as JSON */
    MAX_SUMMARIES = 256,
    TARGETS_MAX = 16,
    /* The most kernels that a child verifies on a simulated GPU. */
    PART_KERNELS = 8,
};

/* Kernels of one target that one child process verifies. */
struct part {
    const char *target;
    /* The first kernel of the pack, and the one after the last. Kernels of other targets between
     * them are skipped. */
    uint32_t first, end;
    bool heads_table; /* true: the first part of its target, whose child prints the heading */
    /* True: the only kernel of its part, verified in a pack without the other kernels of its
     * key. */
    bool isolated;
};

/* The inputs of one run, and what it has found so far. */
struct plan {
    struct attn_pack *pack;
    char *bytes; /* the pack's file in memory */
    const char *targets[TARGETS_MAX];
    size_t target_count;
    size_t kernels; /* kernels that --only selects */
    size_t hooked;  /* kernels among these with a logits function whose C file is unknown */
    /* File names of these functions, each after ", ". */
    char hooks[200];
    size_t partial; /* kernels of a stage whose call has another stage that the pack lacks */
    /* The first of these kernels, and the stage that the pack lacks. */
    const char *partial_kernel, *missing_stage;
    /* The GPU of this machine; unused if `simulator` is not NULL. */
    struct gpu_identity found;
    char *devices; /* JSON objects of the devices, a comma between two; NULL: none yet */
    /* Characters of the longest kernel name and of the longest name of a shape. */
    int name_width, shape_width;
    const char *simulator; /* path of the simulator's HIP library; NULL: a GPU of this machine */
    uint64_t seed;
    size_t shapes;      /* shapes to verify of each kernel; 0: all */
    size_t every;       /* one in this many shapes is verified; 1: all */
    struct turn *turns; /* share of the shapes of each kernel of the pack */
    struct part *parts;
    size_t part_count;
    unsigned threads; /* of each child, for its simulator and for comparisons; 0: one per core */
    struct json json; /* with --json: the list of rows is open in it */
    struct summary *summaries;
    size_t summary_count;
    size_t sums[3]; /* verified kernels, rows, failures */
};

/* Prints one verified shape as a line of JSON. */
static void print_row_json(const struct verify_row *row)
{
    struct json j = {.out = stdout, .compact = true};
    json_begin_object(&j, NULL);
    json_string(&j, "kernel", row->kernel);
    json_string(&j, "shape", row->shape);
    json_real(&j, "relative_error", row->relative);
    json_real(&j, "relative_bound", row->relative_bound);
    json_real(&j, "largest_error", row->largest);
    json_real(&j, "largest_bound", row->largest_bound);
    json_flag(&j, "passed", !row->fault[0]);
    json_string(&j, "fault", row->fault[0] ? row->fault : NULL);
    json_end(&j);
}

/* Prints one verified shape: as a line of the table, or as JSON for the parent process. With
 * --quiet only failures. */
static void print_row(const struct verify_run *run, const struct verify_row *row)
{
    const bool failed = row->fault[0];
    if (args.json || args.save) {
        if (!args.json)
            putchar(ROW_MARK);
        print_row_json(row);
    }
    if (args.json || (args.quiet && !failed))
        return;
    printf("%-*s  %-*s  %9.2e  %9.2e  %9.2e  %9.2e  %s\n", run->name_width, row->kernel,
           run->shape_width, row->shape, row->relative, row->relative_bound, row->largest,
           row->largest_bound, failed ? "FAIL" : "ok");
    if (failed)
        printf("    %s\n", row->fault);
    fflush(stdout);
}

/* True if --only and --shard select the kernel. */
static bool wanted(const struct attn_kernel_info *info)
{
    return (!args.only || fnmatch(args.only, info->name, 0) == 0) && in_shard(&shard, info->name);
}

/* Returns the name of a kernel's logits function if no --hooks was given, so that the reference
 * lacks its C file. Returns NULL if the kernel has none or --hooks was given. */
static const char *unknown_hook(const struct attn_pack *pack, uint32_t n)
{
    const char *name = args.hooks ? "none" : verify_field(pack, n, "logits");
    return name[0] && strcmp(name, "none") != 0 ? name : NULL;
}

/* True if kernel `n` of op `op` cannot be verified: no --hooks was given for its logits function,
 * or the pack lacks another stage of the call. */
static bool is_left_out(const struct attn_pack *pack, uint32_t n, const char *op)
{
    return unknown_hook(pack, n) || verify_lacks(pack, n, op);
}

/* True if kernel `n` is for `target`, is selected and can be verified. Fills `info`. */
static bool is_of(const struct attn_pack *pack, uint32_t n, const char *target,
                  struct attn_kernel_info *info)
{
    *info = (struct attn_kernel_info){.size = sizeof(*info)};
    return attn_pack_kernel(pack, n, info) == ATTN_OK && !strcmp(info->target, target) &&
           wanted(info) && !is_left_out(pack, n, info->op);
}

/* Prints the device's name and the heading of the table. */
static void print_heading(const struct plan *plan, const struct gpu *gpu)
{
    printf("\nDevice: %s\n%-*s  %-*s  %9s  %9s  %9s  %9s  %s\n", gpu->title, plan->name_width,
           "KERNEL", plan->shape_width, "SHAPE", "REL.ERR", "BOUND", "MAX.ERR", "BOUND", "VERDICT");
}

/* Prints the device as JSON, for the parent process, after DEVICE_MARK. */
static void print_device_json(const struct gpu_identity *id)
{
    struct json j = {.out = stdout, .compact = true};
    putchar(DEVICE_MARK);
    json_begin_object(&j, NULL);
    json_string(&j, "target", id->target);
    json_string(&j, "name", id->name);
    json_flag(&j, "simulated", id->simulated);
    json_string(&j, "hip_library", id->library);
    json_integer(&j, "hip_version", id->hip_version);
    json_end(&j);
}

/* True if kernel `i` has the op and target of kernel `n`, described by `own`, but another key. The
 * pack in which `n` is verified keeps such kernels: a call may launch one before or after `n`. */
static bool keeps(const struct plan *plan, const struct attn_kernel_info *own, uint32_t n,
                  uint32_t i)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    return attn_pack_kernel(plan->pack, i, &info) == ATTN_OK && !strcmp(info.op, own->op) &&
           !strcmp(info.target, own->target) && !attnc_pack_same_key(plan->bytes, i, n);
}

/* Replaces, in the child, the plan's pack by one in which kernel *n is the only one of its key.
 * libattn then chooses it for every call. Sets *n to its number there. Returns false after a
 * message. */
static bool isolate(struct plan *plan, uint32_t *n)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_kernel_info own = {.size = sizeof(own)};
    void *bytes;
    size_t size;
    uint32_t at = 0;
    bool good = w && attn_pack_kernel(plan->pack, *n, &own) == ATTN_OK;
    for (uint32_t i = 0; good && i < attn_pack_kernel_count(plan->pack); i++) {
        if (i != *n && !keeps(plan, &own, *n, i))
            continue;
        good = attnc_pack_copy(w, plan->bytes, i, i == *n);
        at += i < *n;
    }
    good = good && attnc_pack_writer_finish(w, &bytes, &size) &&
           attn_pack_open_memory(bytes, size, &plan->pack) == ATTN_OK;
    if (!good)
        complain(EXIT_ENVIRONMENT, "%s", w ? attnc_pack_writer_error(w) : "out of memory");
    attnc_pack_writer_destroy(w);
    *n = at;
    return good;
}

/* Verifies, in a child process, the kernels of part `n`. `context` is the struct plan. Returns an
 * exit_code. */
static int verify_part(void *context, size_t n, struct child_report *report)
{
    struct plan *plan = context;
    const struct part *part = &plan->parts[n];
    struct gpu gpu;
    char why[600];
    uint32_t first = part->first;
    if (part->isolated && !isolate(plan, &first))
        return EXIT_ENVIRONMENT;
    const uint32_t end = part->isolated ? first + 1 : part->end;
    const struct gpu_choice choice = {.target = part->target,
                                      .simulator = plan->simulator,
                                      .checks = "on",
                                      .threads = plan->threads};
    if (!gpu_open(&gpu, &choice, plan->pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s: %s", part->target, why);
    if (part->heads_table && (args.json || args.save))
        print_device_json(&gpu.id);
    if (part->heads_table && !args.json && !args.quiet)
        print_heading(plan, &gpu);
    struct verify_run run = {
        .pack = plan->pack,
        .gpu = &gpu,
        .seed = plan->seed,
        .hooks = args.hooks,
        .threads = plan->threads,
        .name_width = plan->name_width,
        .shape_width = plan->shape_width,
        .print = print_row,
    };
    size_t kernels = 0;
    for (uint32_t i = first; i < end; i++) {
        struct attn_kernel_info info;
        if (!is_of(plan->pack, i, part->target, &info))
            continue;
        const struct verify_run before = run;
        child_step(report, info.name);
        run.worst = 0;
        const struct turn *turn = &plan->turns[part->isolated ? part->first : i];
        run.every = turn->every;
        run.turn = turn->place;
        verify_kernel(&run, i, &info, plan->shapes * (plan->every / turn->every));
        kernels++;
        if (args.quiet && !args.json)
            printf("%c%s %s %zu %zu %g\n", SUMMARY_MARK, info.op, info.target,
                   run.rows - before.rows, run.failures - before.failures, run.worst);
    }
    gpu_close(&gpu);
    child_result(report, (const size_t[]){kernels, run.rows, run.failures}, 3);
    return run.failures ? EXIT_USER : EXIT_GOOD;
}

/* Adds a kernel's line, such as "prefill gfx942 12 0 0.31", to the summary of its op and target.
 * The numbers are shapes, failures and the worst error. */
static void add_summary(struct plan *plan, const char *line)
{
    struct summary k = {.kernels = 1};
    if (sscanf(line, "%39s %15s %zu %zu %lf", k.op, k.target, &k.shapes, &k.failures, &k.worst) !=
        5)
        return;
    size_t i = 0;
    while (i < plan->summary_count &&
           (strcmp(plan->summaries[i].op, k.op) || strcmp(plan->summaries[i].target, k.target)))
        i++;
    if (i == MAX_SUMMARIES)
        return;
    if (i == plan->summary_count) {
        plan->summaries[plan->summary_count++] = k;
        return;
    }
    struct summary *s = &plan->summaries[i];
    s->kernels++;
    s->shapes += k.shapes;
    s->failures += k.failures;
    s->worst = s->worst > k.worst ? s->worst : k.worst;
}

/* Prints a line for each op and target: kernels, shapes, failures and the worst error in percent of
 * its bound. */
static void print_summaries(const struct plan *plan)
{
    printf("%-20s  %-8s  %7s  %7s  %7s  %s\n", "OP", "TARGET", "KERNELS", "SHAPES", "FAILED",
           "WORST ERROR");
    for (size_t i = 0; i < plan->summary_count; i++) {
        const struct summary *s = &plan->summaries[i];
        printf("%-20s  %-8s  %7zu  %7zu  %7zu  %.0f %% of its bound\n", s->op, s->target,
               s->kernels, s->shapes, s->failures, s->worst * 100);
    }
}

/* Appends a device's JSON object to plan->devices. */
static void add_device(struct plan *plan, const char *line)
{
    char *longer = NULL;
    if (asprintf(&longer, "%s%s%s", plan->devices ? plan->devices : "", plan->devices ? ", " : "",
                 line) < 0)
        return;
    free(plan->devices);
    plan->devices = longer;
}

/* Passes on a line of a child by its first byte: adds a device or a summary to the plan `context`,
 * a row to the JSON output, or prints the line. */
static void take_line(void *context, char *line)
{
    struct plan *plan = context;
    if (line[0] == DEVICE_MARK)
        add_device(plan, line + 1);
    else if (args.json)
        json_raw(&plan->json, NULL, line);
    else if (line[0] == ROW_MARK)
        json_raw(&plan->json, NULL, line + 1);
    else if (line[0] == SUMMARY_MARK)
        add_summary(plan, line + 1);
    else
        puts(line);
}

/* Adds, in the parent, the sums of part `n` to the sums of the plan, and passes on the lines that
 * its child printed. */
static void collect_part(void *context, size_t n, FILE *printed, const size_t results[])
{
    struct plan *plan = context;
    (void)n;
    for (int i = 0; i < 3; i++)
        plan->sums[i] += results[i];
    if (!args.json && !args.quiet && !args.save)
        copy_printed(printed);
    else
        each_printed_line(printed, take_line, plan);
}

/* Returns the name of part `n` for messages: its target. */
static const char *name_part(void *context, size_t n)
{
    const struct plan *plan = context;
    return plan->parts[n].target;
}

/* Chooses by --device; without it a GPU if this machine has one, else the simulator. Sets
 * plan->found or plan->simulator. Returns an exit_code after a message. */
static int choose_device(struct plan *plan)
{
    static char simulator[4096];
    char why[200] = "";
    bool hip = true;
    if (read_device_name(args.device, &hip))
        return EXIT_USER;
    if (hip && probe_gpu(plan->pack, &plan->found, why))
        return EXIT_GOOD;
    if (args.device && hip)
        return complain(EXIT_ENVIRONMENT,
                        "there is no AMD GPU to verify on (%s); "
                        "--device sim verifies on the simulator",
                        why);
    if (!gpu_find_simulator(simulator, sizeof(simulator)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    plan->simulator = simulator;
    if (!args.device && !args.json)
        printf("No AMD GPU here (%s): using the simulator.\n", why);
    return EXIT_GOOD;
}

/* Counts a kernel whose logits function `name` lacks its C file. Adds the file's name to
 * plan->hooks unless it is there. */
static void note_hook(struct plan *plan, const char *name)
{
    char file[80];
    const size_t length = strlen(plan->hooks);
    snprintf(file, sizeof(file), ", %s.c", name);
    plan->hooked++;
    if (!strstr(plan->hooks, file))
        snprintf(plan->hooks + length, sizeof(plan->hooks) - length, "%s", file);
}

/* Counts the kernel `name`, whose call has the stage `stage`, which the pack lacks. */
static void note_partial(struct plan *plan, const char *name, const char *stage)
{
    if (!plan->partial++) {
        plan->partial_kernel = name;
        plan->missing_stage = stage;
    }
}

/* Returns the number of selected kernels that cannot be verified. */
static size_t left_out(const struct plan *plan) { return plan->hooked + plan->partial; }

/* Sets *width to `characters` if it is less. */
static void widen(int *width, size_t characters)
{
    if (*width < (int)characters)
        *width = (int)characters;
}

/* Counts the selected kernels, and lists their targets and the widths of the table's columns.
 * Returns an exit_code: EXIT_USER after a message if none is selected, all lack their hooks, or the
 * pack is unreadable. */
static int survey(struct plan *plan)
{
    plan->shape_width = (int)strlen("SHAPE");
    for (uint32_t n = 0; n < attn_pack_kernel_count(plan->pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        if (attn_pack_kernel(plan->pack, n, &info))
            return complain(EXIT_USER, "%s", attn_last_error());
        if (!wanted(&info))
            continue;
        plan->kernels++;
        const char *hook = unknown_hook(plan->pack, n);
        const char *stage = verify_lacks(plan->pack, n, info.op);
        if (hook)
            note_hook(plan, hook);
        else if (stage)
            note_partial(plan, info.name, stage);
        if (hook || stage)
            continue;
        widen(&plan->name_width, strlen(info.name));
        widen(&plan->shape_width, verify_shape_width(info.op));
        size_t t = 0;
        while (t < plan->target_count && strcmp(plan->targets[t], info.target))
            t++;
        if (t == plan->target_count && t < TARGETS_MAX)
            plan->targets[plan->target_count++] = info.target;
    }
    if (plan->kernels && plan->hooked == plan->kernels)
        return complain(EXIT_USER,
                        "verify: the kernels call logits functions, which the reference needs too: "
                        "--hooks DIR names the folder of %s",
                        plan->hooks + 2);
    if (plan->kernels)
        return EXIT_GOOD;
    if (shard.count > 1) {
        if (!args.json)
            printf("share %u of %u has no kernel\n", shard.index + 1, shard.count);
        return EXIT_GOOD;
    }
    return args.only ? complain(EXIT_USER, "no kernel matches '%s'", args.only)
                     : complain(EXIT_USER, "the pack has no kernel");
}

/* Cuts the selected kernels into parts of one target each. A kernel that shares its key with
 * another one has a part to itself. On a GPU, where one part runs at a time, other parts are as
 * large as possible. Simulated GPUs start quickly, so their parts are small and occupy all jobs.
 * Returns an exit_code after a message. */
static int cut_into_parts(struct plan *plan)
{
    const uint32_t count = attn_pack_kernel_count(plan->pack);
    plan->parts = calloc((size_t)count + TARGETS_MAX, sizeof(*plan->parts));
    if (!plan->parts)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t t = 0; t < plan->target_count; t++) {
        struct part *part = NULL;
        size_t kernels = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct attn_kernel_info info;
            if (!is_of(plan->pack, i, plan->targets[t], &info))
                continue;
            const bool isolated = attnc_pack_shares_key(plan->bytes, i);
            if (!part || isolated || part->isolated ||
                (plan->simulator && kernels == PART_KERNELS)) {
                const bool first = !part;
                part = &plan->parts[plan->part_count++];
                *part = (struct part){plan->targets[t], i, i, first, isolated};
                kernels = 0;
            }
            part->end = i + 1;
            kernels++;
        }
    }
    return EXIT_GOOD;
}

/* Returns the number of threads for each of `children` processes: the cores divided by the
 * processes, 1 to the 1,024 that hipsim accepts. A simulator with two threads on one core is slower
 * than with one thread. */
static unsigned share_cores(size_t children)
{
    enum { MOST = 1024 };
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t each = cores > 0 && children ? (size_t)cores / children : 1;
    if (!each)
        return 1;
    return each < MOST ? (unsigned)each : MOST;
}

/* Verifies all parts in child processes, at most `jobs` at once. Returns an exit_code. */
static int run_parts(struct plan *plan, unsigned jobs)
{
    if (plan->simulator)
        plan->threads = share_cores(jobs < plan->part_count ? jobs : plan->part_count);
    const struct children children = {
        .parts = plan->part_count,
        .jobs = plan->simulator ? jobs : 1, /* one real GPU runs one part at a time */
        .steps = plan->kernels - left_out(plan),
        .work = verify_part,
        .collect = collect_part,
        .name = name_part,
        .context = plan,
    };
    return run_children(&children);
}

/* Ends the JSON list of rows, and writes the devices and the counts. */
static void finish_json(struct plan *plan)
{
    json_end(&plan->json);
    json_begin_list(&plan->json, "devices");
    if (plan->devices)
        json_raw(&plan->json, NULL, plan->devices);
    json_end(&plan->json);
    json_integer(&plan->json, "without_hook", (int64_t)plan->hooked);
    json_integer(&plan->json, "without_stage", (int64_t)plan->partial);
    json_integer(&plan->json, "kernels", (int64_t)plan->kernels);
    json_integer(&plan->json, "verified", (int64_t)plan->sums[0]);
    json_integer(&plan->json, "shapes", (int64_t)plan->sums[1]);
    json_integer(&plan->json, "failed", (int64_t)plan->sums[2]);
    json_end(&plan->json);
}

/* Prints the sums. Kernels that a child did not reach, because it died or its device did not open,
 * are counted as not verified. */
static void print_sums(const struct plan *plan)
{
    const size_t left = plan->kernels - left_out(plan) - plan->sums[0];
    printf("\n%zu of %zu kernels verified, %zu shapes, %zu failed", plan->sums[0], plan->kernels,
           plan->sums[1], plan->sums[2]);
    if (left)
        printf(", %zu NOT VERIFIED: their device ended first", left);
    putchar('\n');
    if (plan->hooked)
        printf(
            "%zu NOT VERIFIED: they call logits functions, which the reference needs too; --hooks "
            "DIR names the folder of %s\n",
            plan->hooked, plan->hooks + 2);
    if (plan->partial)
        printf("%zu NOT VERIFIED: their calls have other stages, which the pack lacks; %s needs "
               "stage: %s\n",
               plan->partial, plan->partial_kernel, plan->missing_stage);
}

/* Verifies all selected kernels and prints the results. Returns an exit_code. */
static int verify_all(struct plan *plan)
{
    unsigned jobs = 0;
    int code = survey(plan);
    if (code == EXIT_GOOD && args.jobs && !parse_jobs("verify", args.jobs, &jobs))
        code = EXIT_USER;
    if (code == EXIT_GOOD)
        code = choose_device(plan);
    if (code == EXIT_GOOD)
        code = cut_into_parts(plan);
    if (code != EXIT_GOOD)
        return code;
    plan->summaries = calloc(MAX_SUMMARIES, sizeof(*plan->summaries));
    plan->turns = find_turns(plan->pack, plan->every);
    if (!plan->summaries || !plan->turns)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    char *text = NULL;
    size_t size = 0;
    plan->json = (struct json){.out = args.json ? stdout : open_memstream(&text, &size)};
    if (!plan->json.out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    json_begin_object(&plan->json, NULL);
    json_flag(&plan->json, "simulated", plan->simulator || plan->found.simulated);
    json_begin_list(&plan->json, "rows");
    /* The simulator has threads of its own, so that one child for each target is a good default. */
    code = run_parts(plan, jobs ? jobs : (unsigned)plan->target_count);
    if (code == EXIT_GOOD && left_out(plan))
        code = EXIT_PARTIAL;
    finish_json(plan);
    if (args.json)
        return code;
    fclose(plan->json.out);
    const int saved = args.save ? write_output(args.save, text, size) : EXIT_GOOD;
    free(text);
    if (args.quiet)
        print_summaries(plan);
    print_sums(plan);
    return code == EXIT_GOOD ? saved : code;
}

extern const struct command command_verify;

/* Runs `attnc verify`. */
static int run(int argc, char **argv)
{
    if (argc != 1)
        return wrong_operands(&command_verify, argc, argv);
    if (read_shard("verify", args.shard, &shard) != EXIT_GOOD)
        return EXIT_USER;
    long seed = 1, shapes = 0, every = 1;
    if (read_number("verify", "seed", args.seed, 0, LONG_MAX, &seed) ||
        read_number("verify", "shapes", args.shapes, 1, INT_MAX, &shapes) ||
        read_number("verify", "every", args.every, 1, INT_MAX, &every))
        return EXIT_USER;
    struct plan plan = {.seed = (uint64_t)seed, .shapes = (size_t)shapes, .every = (size_t)every};
    int code = open_pack(argv[0], &plan.pack);
    if (code != EXIT_GOOD)
        return code;
    code = read_pack(argv[0], &plan.bytes);
    if (code == EXIT_GOOD)
        code = check_output(args.save);
    if (code == EXIT_GOOD)
        code = verify_all(&plan);
    free(plan.parts);
    free(plan.summaries);
    free(plan.turns);
    free(plan.devices);
    free(plan.bytes);
    attn_pack_close(plan.pack);
    return code;
}

const struct command command_verify = {
    .name = "verify",
    .usage = "PACK [OPTION]...",
    .summary = "Run every kernel of a pack and compare it with the reference",
    .details =
        "Each kernel runs on a matrix of shapes: small, tails, long, more or fewer keys than\n"
        "queries, empty sequences, views with strides, offsets beyond 4 GiB, a huge logit. Its\n"
        "output is compared with plain C in double precision; every element must have been\n"
        "written, and nothing else. Exit status: 0 all passed, 1 a kernel failed, 2 no device,\n"
        "3 kernels were left out: their logits functions lack --hooks, or the pack lacks other\n"
        "stages of their calls.",
    .options = options,
    .run = run,
};

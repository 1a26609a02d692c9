/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify: every kernel of a pack against its reference, on a GPU or on the simulator. Each
 * target is verified in a child process of its own: a simulator is one GPU for its whole life, and
 * HIP does not survive a fork.
 */
#include "tools/attnc/verify.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/attnc/command.h"
#include "tools/attnc/pack_file.h"
#include "tools/attnc/progress.h"

static struct {
    const char *device;
    const char *only;
    const char *seed;
    const char *hooks;
} args;

static const struct option_row options[] = {
    {"device", 0, "DEVICE",
     "hip: a GPU of this machine; sim: the simulator; "
     "left out: hip where there is a GPU, else sim",
     &args.device, NULL},
    {"only", 0, "GLOB", "only the kernels whose name matches", &args.only, NULL},
    {"seed", 0, "N", "of the random inputs, 1 where it is left out", &args.seed, NULL},
    {"hooks", 0, "DIR", "where the C files of kernels with a logits function are", &args.hooks,
     NULL},
    {0},
};

enum { TARGETS_MAX = 16 };

/* What is to be verified. */
struct plan {
    struct attn_pack *pack;
    const char *targets[TARGETS_MAX];
    size_t target_count;
    size_t kernels;        /* that --only leaves */
    int name_width;        /* of the longest of their names */
    const char *simulator; /* path, or NULL: the HIP runtime */
    uint64_t seed;
};

/* What a child says at its end; what it does not say was not verified. */
struct tally {
    size_t kernels, rows, failures;
};

static const struct verify_family *const families[] = {
#define FAMILY(op) &verify_##op,
#include "runtime/families.def"
};

void verify_fail(struct verify_row *row, const char *format, ...)
{
    if (row->fault[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->fault, sizeof(row->fault), format, arguments);
    va_end(arguments);
}

void verify_report(struct verify_run *run, const struct verify_row *row)
{
    if (row->elsewhere)
        return;
    clear_progress();
    run->rows++;
    const bool failed = row->fault[0];
    run->failures += failed;
    printf("%-*s  %-12s  %9.2e  %9.2e  %9.2e  %9.2e  %s\n", run->name_width, row->kernel,
           row->shape, row->relative, row->relative_bound, row->largest, row->largest_bound,
           failed ? "FAIL" : "ok");
    if (failed)
        printf("    %s\n", row->fault);
    fflush(stdout);
}

void verify_report_fault(struct verify_run *run, const char *kernel, const char *fault)
{
    struct verify_row row = {.kernel = kernel, .shape = "-"};
    verify_fail(&row, "%s", fault);
    verify_report(run, &row);
}

static bool wanted(const struct attn_kernel_info *info)
{
    return !args.only || fnmatch(args.only, info->name, 0) == 0;
}

static void verify_kernel(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const size_t rows = run->rows;
    const struct verify_family *family = NULL;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (!strcmp(families[i]->op, info->op))
            family = families[i];
    }
    run->calls = find_op_calls(info->op);
    if (family)
        family->verify(run, n, info);
    if (run->rows == rows)
        verify_report_fault(run, info->name,
                            family ? "none of the shapes' arguments choose it "
                                     "from the pack"
                                   : "there is no reference for its op");
}

/* In the child: all kernels of one target. */
static int verify_target(const struct plan *plan, const char *target, size_t done, int results)
{
    struct gpu gpu;
    char why[600];
    if (!gpu_open(&gpu, plan->simulator, "on", target, plan->pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s: %s", target, why);
    printf("\nDevice: %s\n%-*s  %-12s  %9s  %9s  %9s  %9s  %s\n", gpu.title, plan->name_width,
           "KERNEL", "SHAPE", "REL.ERR", "BOUND", "MAX.ERR", "BOUND", "VERDICT");
    struct verify_run run = {
        .pack = plan->pack,
        .gpu = &gpu,
        .seed = plan->seed,
        .hooks = args.hooks,
        .name_width = plan->name_width,
    };
    struct tally tally = {0};
    for (uint32_t n = 0; n < attn_pack_kernel_count(plan->pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        if (attn_pack_kernel(plan->pack, n, &info))
            return complain(EXIT_USER, "%s", attn_last_error());
        if (strcmp(info.target, target) || !wanted(&info))
            continue;
        show_progress(done + tally.kernels, plan->kernels, info.name);
        verify_kernel(&run, n, &info);
        tally.kernels++;
    }
    clear_progress();
    gpu_close(&gpu);
    tally.rows = run.rows;
    tally.failures = run.failures;
    if (write(results, &tally, sizeof(tally)) != sizeof(tally))
        return EXIT_ENVIRONMENT;
    return tally.failures ? EXIT_USER : EXIT_GOOD;
}

/* One target's child. */
struct child {
    pid_t pid;
    int results;  /* the reading end: one struct tally */
    FILE *output; /* what it prints, for later; NULL: straight to our own output */
};

/* Starts a target in a child. Of several that run at once only the first prints as it goes. */
static int start_target(const struct plan *plan, const char *target, size_t done, bool later,
                        struct child *c)
{
    int results[2];
    fflush(stdout);
    *c = (struct child){.output = later ? tmpfile() : NULL};
    if ((later && !c->output) || pipe(results))
        return complain(EXIT_ENVIRONMENT, "pipe: %s", strerror(errno));
    c->pid = fork();
    if (c->pid == 0) {
        close(results[0]);
        if (later) {
            dup2(fileno(c->output), STDOUT_FILENO);
            dup2(fileno(c->output), STDERR_FILENO);
        }
        int code = verify_target(plan, target, done, results[1]);
        fflush(stdout);
        _exit(code);
    }
    close(results[1]);
    c->results = results[0];
    return EXIT_GOOD;
}

static void copy_output(FILE *from)
{
    char buffer[4096];
    rewind(from);
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), from)) > 0;)
        fwrite(buffer, 1, n, stdout);
    fclose(from);
}

/* Waits for a target's child; adds what it did to `sum`. */
static int finish_target(const char *target, struct child *c, struct tally *sum)
{
    struct tally tally;
    bool whole = c->pid > 0 && read(c->results, &tally, sizeof(tally)) == sizeof(tally);
    close(c->results);
    int status = 0;
    bool waited = c->pid > 0 && waitpid(c->pid, &status, 0) == c->pid;
    if (c->output)
        copy_output(c->output);
    if (!waited)
        return complain(EXIT_ENVIRONMENT, "cannot run a child process: %s", strerror(errno));
    if (WIFSIGNALED(status))
        return complain(EXIT_USER, "%s: verification died of signal %d", target, WTERMSIG(status));
    if (whole) {
        sum->kernels += tally.kernels;
        sum->rows += tally.rows;
        sum->failures += tally.failures;
    }
    return WEXITSTATUS(status);
}

/* Does the HIP runtime of this machine have a GPU? Asked in a child, since asking starts HIP. */
static bool probe_hip(const struct plan *plan, char *why, size_t why_size)
{
    int answer[2];
    if (pipe(answer))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        struct attn_device *device;
        int r = attn_device_open(&plan->pack, 1, NULL, &device);
        const char *error = r ? attn_last_error() : "";
        _exit(r == ATTN_OK || write(answer[1], error, strlen(error)) < 0 ? EXIT_GOOD
                                                                         : EXIT_ENVIRONMENT);
    }
    close(answer[1]);
    ssize_t length = read(answer[0], why, why_size - 1);
    why[length > 0 ? length : 0] = '\0';
    close(answer[0]);
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == EXIT_GOOD;
}

static int choose_device(struct plan *plan)
{
    static char simulator[4096];
    char why[600] = "";
    if (args.device && strcmp(args.device, "hip") && strcmp(args.device, "sim"))
        return complain(EXIT_USER, "--device is hip or sim, not '%s'", args.device);
    const bool sim_only = args.device && !strcmp(args.device, "sim");
    if (!sim_only && probe_hip(plan, why, sizeof(why)))
        return EXIT_GOOD;
    if (args.device && !sim_only)
        return complain(EXIT_ENVIRONMENT,
                        "there is no AMD GPU to verify on (%s); "
                        "--device sim verifies on the simulator",
                        why);
    if (!gpu_find_simulator(simulator, sizeof(simulator)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    plan->simulator = simulator;
    if (!args.device)
        printf("No AMD GPU here (%s): using the simulator.\n", why);
    return EXIT_GOOD;
}

/* Counts the kernels that --only leaves, by target. */
static int survey(struct plan *plan)
{
    for (uint32_t n = 0; n < attn_pack_kernel_count(plan->pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        if (attn_pack_kernel(plan->pack, n, &info))
            return complain(EXIT_USER, "%s", attn_last_error());
        if (!wanted(&info))
            continue;
        plan->kernels++;
        if (plan->name_width < (int)strlen(info.name))
            plan->name_width = (int)strlen(info.name);
        size_t t = 0;
        while (t < plan->target_count && strcmp(plan->targets[t], info.target))
            t++;
        if (t == plan->target_count && t < TARGETS_MAX)
            plan->targets[plan->target_count++] = info.target;
    }
    if (plan->kernels)
        return EXIT_GOOD;
    return args.only ? complain(EXIT_USER, "no kernel matches '%s'", args.only)
                     : complain(EXIT_USER, "the pack has no kernel");
}

static int verify_all(struct plan *plan)
{
    int code = survey(plan);
    if (code == EXIT_GOOD)
        code = choose_device(plan);
    if (code != EXIT_GOOD)
        return code;
    struct tally sum = {0};
    struct child children[TARGETS_MAX];
    /* Simulated GPUs run side by side; there is only one of the real kind. */
    const size_t at_once = plan->simulator ? plan->target_count : 1;
    for (size_t first = 0; first < plan->target_count; first += at_once) {
        for (size_t t = first; t < first + at_once; t++) {
            code = start_target(plan, plan->targets[t], sum.kernels, t > first, &children[t]);
            if (code != EXIT_GOOD)
                return code;
        }
        for (size_t t = first; t < first + at_once; t++) {
            int r = finish_target(plan->targets[t], &children[t], &sum);
            if (r == EXIT_USER || code == EXIT_GOOD)
                code = r; /* a failure weighs more than a device that is not there */
        }
    }
    printf("\n%zu of %zu kernels verified, %zu shapes, %zu failed\n", sum.kernels, plan->kernels,
           sum.rows, sum.failures);
    return code;
}

static int run(int argc, char **argv)
{
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc verify PACK [OPTION]...");
    struct plan plan = {.seed = 1};
    char *end = "";
    if (args.seed)
        plan.seed = strtoull(args.seed, &end, 10);
    if (*end || (args.seed && !*args.seed))
        return complain(EXIT_USER, "--seed is a number, not '%s'", args.seed);
    int code = open_pack(argv[0], &plan.pack);
    if (code != EXIT_GOOD)
        return code;
    code = verify_all(&plan);
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
        "written, and nothing else. Exit status: 0 all passed, 1 a kernel failed, 2 no device.",
    .options = options,
    .run = run,
};

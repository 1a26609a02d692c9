/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate [--hsa DIR] [--rows FAMILY] [--shape SHAPE] [--parameters TEXT] [--sensitivity]
 *           [TARGET]
 * calibrate --list TARGET
 *
 * Compares the timing model with published figures (tools/hipsim/docs/timing.md), of loops and of
 * whole kernels of ROCm/aiter. DIR is aiter's directory `hsa`, which has the code objects; this
 * repository has none of them. Without it the rows of kernels are reported as not run. FAMILY is
 * loops, products, streams, attention or decode; TEXT changes parameters of the model.
 * --sensitivity runs the rows again for both ends of the range of each parameter that sources leave
 * open. --list prints these. Exit status: 0, or 1 if an ordering is wrong or the mean error of the
 * attention rows is over 6 %.
 */
#include "tools/hipsim/calibration/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND 0.06 /* most mean error of the attention rows */

void print_row(const char *id, const char *what, double published, double modelled,
               const char *unit, bool fitted, const char *source)
{
    printf("%-4s %-46s %9.1f %9.1f %-7s %+6.1f %%  %-9s  %s\n", id, what, published, modelled, unit,
           100 * (modelled / published - 1), fitted ? "fitted" : "predicted", source);
}

void print_not_run(struct target *t, const char *id, const char *what, const char *why)
{
    t->tally->not_run++;
    printf("%-4s %-46s NO FIGURE: %s\n", id, what, why);
}

void print_order(struct target *t, const char *id, const char *what, bool right)
{
    if (t->tally->orders < ORDERS_MAX) {
        t->tally->names[t->tally->orders] = what;
        t->tally->wrong[t->tally->orders] = !right;
    }
    t->tally->orders++;
    t->tally->orders_wrong += !right;
    printf("%-4s %-46s order %s\n", id, what, right ? "right" : "WRONG");
}

/* Parameter changes for all rows, in the form of hipsim_time_options.parameters. */
static const char *all_parameters = "";

static bool all_workgroups;
static uint32_t samples = 1;

void execute_all(bool all)
{
    all_workgroups = all;
    samples = all ? 256 : 1;
    set_parameters(NULL);
}

void execute_samples(uint32_t n)
{
    all_workgroups = false;
    samples = n;
    set_parameters(NULL);
}

void set_parameters(const char *parameters)
{
    char text[1000], why[200];
    snprintf(text, sizeof(text), "%s%s%s", all_parameters, *all_parameters && parameters ? "," : "",
             parameters ? parameters : "");
    const struct hipsim_time_options time = {
        .size = sizeof(time),
        .samples = samples,
        .samples_only = !all_workgroups,
        .parameters = text,
    };
    if (hipsim_time_enable(&time, why, sizeof(why)))
        return;
    fprintf(stderr, "calibrate: %s\n", why);
    exit(2);
}

void check(hipError_t error, const char *what)
{
    if (error == hipSuccess)
        return;
    fprintf(stderr, "calibrate: %s: %s\n", what, hipGetErrorString(error));
    exit(2);
}

struct hipsim_time_report launch_with_lds(hipFunction_t function, const uint32_t grid[3],
                                          uint32_t block, uint32_t lds, void *args, size_t bytes)
{
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     HIP_LAUNCH_PARAM_END};
    check(hipModuleLaunchKernel(function, grid[0], grid[1], grid[2], block, 1, 1, lds, NULL, NULL,
                                args ? extra : NULL),
          "launch");
    check(hipDeviceSynchronize(), "launch");
    struct hipsim_time_report report = {.size = sizeof(report)};
    if (!hipsim_time_last(&report)) {
        fprintf(stderr, "calibrate: the launch was not timed\n");
        exit(2);
    }
    return report;
}

struct hipsim_time_report launch(hipFunction_t function, const uint32_t grid[3], uint32_t block,
                                 void *args, size_t bytes)
{
    return launch_with_lds(function, grid, block, 0, args, bytes);
}

static const struct {
    const char *name;
    void (*run)(struct target *t);
} families[] = {
    {"loops", calibrate_loops},     {"products", calibrate_products},
    {"streams", calibrate_streams}, {"attention", calibrate_attention},
    {"decode", calibrate_decode},   {"backward", calibrate_backward},
};

/* Runs a target's rows in a process of its own, since a process simulates one target. Returns its
 * results. */
static struct tally run_target(struct target t)
{
    const char *name = t.name;
    struct tally tally = {0};
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        char options[64], why[200];
        t.gfx950 = strcmp(name, "gfx950") == 0;
        t.tally = &tally;
        snprintf(options, sizeof(options), "target=%s,checks=off", name);
        if (!hipsim_configure(options, why, sizeof(why))) {
            fprintf(stderr, "calibrate: %s\n", why);
            _exit(2);
        }
        set_parameters(NULL);
        if (t.shape)
            time_attention_shape(&t);
        for (size_t i = 0; !t.shape && i < sizeof(families) / sizeof(families[0]); i++)
            if (!t.family || strcmp(t.family, families[i].name) == 0)
                families[i].run(&t);
        fflush(stdout);
        _exit(write(ends[1], &tally, sizeof(tally)) == sizeof(tally) ? 0 : 2);
    }
    close(ends[1]);
    bool got = read(ends[0], &tally, sizeof(tally)) == sizeof(tally);
    close(ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (!got || status != 0)
        exit(2);
    return tally;
}

struct tally run_quietly(struct target t, const char *parameters)
{
    const char *before = all_parameters;
    fflush(stdout);
    const int out = dup(1);
    if (out < 0 || !freopen("/dev/null", "w", stdout))
        exit(2);
    all_parameters = parameters;
    const struct tally tally = run_target(t);
    all_parameters = before;
    fflush(stdout);
    if (dup2(out, 1) < 0)
        exit(2);
    close(out);
    return tally;
}

/* Prints a target's mean errors. True if the bound holds for attention and all orderings are
 * right. */
static bool summarise(const char *name, const struct tally *t)
{
    double mean = t->rows ? t->error / t->rows : 0;
    printf("%s: attention rows: ", name);
    if (t->rows)
        printf("%u, mean error %.1f %% (bound %.0f %%)", t->rows, 100 * mean, 100 * BOUND);
    else
        printf("NONE RUN");
    if (t->decode_rows)
        printf("; %u decode rows, mean error %.1f %%", t->decode_rows,
               100 * t->decode_error / t->decode_rows);
    if (t->short_rows)
        printf("; %u short launches, mean error %.1f %%", t->short_rows,
               100 * t->short_error / t->short_rows);
    printf("; orderings: %u of %u right; without a figure: %u\n\n", t->orders - t->orders_wrong,
           t->orders, t->not_run);
    return t->orders_wrong == 0 && mean <= BOUND;
}

/* The parsed command line. */
struct request {
    const char *hsa, *only, *family, *shape;
    bool sensitivity;
};

/* Prints how the program is called. Returns the exit status for wrong usage. */
static int usage(void)
{
    fprintf(stderr, "usage: calibrate [--hsa DIR] [--rows FAMILY] [--shape SHAPE] "
                    "[--parameters TEXT] [--sensitivity] [gfx942|gfx950]\n"
                    "       calibrate --list TARGET\n");
    return 2;
}

/* Parses the command line to *r. False if the program must end, with exit status *status. */
static bool read_request(int argc, char **argv, struct request *r, int *status)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--hsa") == 0 && i + 1 < argc) {
            r->hsa = argv[++i];
        } else if (strcmp(argv[i], "--rows") == 0 && i + 1 < argc) {
            r->family = argv[++i];
        } else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc) {
            r->shape = argv[++i];
        } else if (strcmp(argv[i], "--parameters") == 0 && i + 1 < argc) {
            all_parameters = argv[++i];
        } else if (strcmp(argv[i], "--sensitivity") == 0) {
            r->sensitivity = true;
        } else if (strcmp(argv[i], "--list") == 0 && i + 1 < argc) {
            list_parameters(strcmp(argv[++i], "gfx950") == 0);
            *status = 0;
            return false;
        } else if (strncmp(argv[i], "gfx", 3) == 0) {
            r->only = argv[i];
        } else {
            *status = usage();
            return false;
        }
    }
    return true;
}

/* Prints the heading of the table. */
static void print_head(void)
{
    printf("%-4s %-46s %9s %9s %-7s %8s\n", "id", "what", "published", "modelled", "unit", "error");
    printf("Times are modelled, at the power-limited clock: gfx950 by a measured law, gfx942 by a "
           "fitted one.\n");
}

int main(int argc, char **argv)
{
    struct target targets[] = {
        {.name = "gfx942",
         .loops = LOOPS_GFX942,
         .streams = STREAMS_GFX942,
         .gemm = GEMM_GFX942,
         .reduce = REDUCE_GFX942},
        {.name = "gfx950",
         .loops = LOOPS_GFX950,
         .streams = STREAMS_GFX950,
         .gemm = GEMM_GFX950,
         .reduce = REDUCE_GFX950},
    };
    struct request r = {0};
    int status;
    if (!read_request(argc, argv, &r, &status))
        return status;
    if (!r.shape)
        print_head();
    bool good = true, any = false;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        if (r.only && strcmp(r.only, targets[i].name) != 0)
            continue;
        any = true;
        targets[i].hsa = r.hsa;
        targets[i].family = r.family;
        targets[i].shape = r.shape;
        struct tally tally = run_target(targets[i]);
        good &= r.shape || summarise(targets[i].name, &tally);
        if (r.sensitivity)
            calibrate_sensitivity(targets[i], &tally);
    }
    if (!any)
        fprintf(stderr, "calibrate: no target %s\n", r.only);
    return any && good ? 0 : any ? 1 : 2;
}

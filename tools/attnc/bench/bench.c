/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc bench: prints the time of each kernel of a pack on a GPU, beside the time that hipsim's
 * timing model gives.
 */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pack_writer.h"
#include "tools/attnc/bench/bench.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/tune/tune.h"

static struct {
    const char *shape, *shapes, *device, *only, *seconds, *flush, *patience;
    bool json, no_model;
} args;

static const struct option_row options[] = {
    {"shape", 0, "SHAPE", "one shape for all kernels, as attnc trace takes it", &args.shape, NULL},
    {"shapes", 0, "FILE", "shapes by op, lines of \"prefill batch=1,q=512\"", &args.shapes, NULL},
    {"device", 0, "DEVICE",
     "hip: a GPU of this machine; sim: the timing model alone; left out: hip where there is a GPU",
     &args.device, NULL},
    {"only", 0, "GLOB", "only the kernels whose name matches", &args.only, NULL},
    {"seconds", 0, "S", "for a kernel and shape at most (default: 5)", &args.seconds, NULL},
    {"flush", 0, "MIB", "overwritten before each launch, so that caches are cold (default: 512)",
     &args.flush, NULL},
    {"patience", 0, "S", "after so long a launch counts as hung (default: 120)", &args.patience,
     NULL},
    {"no-model", 0, NULL, "leave the model's figures out", NULL, &args.no_model},
    {"json", 0, NULL, "print a JSON object, with a row per kernel and shape", NULL, &args.json},
    {0},
};

/* One row of the printed table: a kernel with a shape, and its times. */
struct row {
    const char *kernel, *target;
    struct tune_shape shape;
    struct bench_model model;
    struct bench_measured measured;
    /* The reason if the model, or the GPU, gave no time; "": it gave one. */
    char model_fault[200], fault[200];
};

/* State of one run of the command: its inputs, the chosen device and counts of what was printed. */
struct bench {
    struct attn_pack *pack;
    /* The pack's file in memory, owned. */
    char *bytes;
    struct tune_shapes shapes;
    struct bench_options o;
    /* True: kernels are timed on a GPU; false: only the timing model runs. */
    bool hip;
    struct gpu_identity gpu; /* filled if `hip` is true */
    /* Columns of the kernel names: the length of the longest one. */
    int name_width;
    struct json json;
    /* Rows printed, rows without a time, and rows begun. */
    size_t rows, failures, begun;
    /* Title of the GPU, as the heading has it; "": not printed yet. */
    char device[160];
};

/* Reads the number `text` of option --`option` into *value. Leaves *value unchanged if `text` is
 * NULL. Returns an exit_code: EXIT_USER, after a message, unless it is in `least` to `most`. */
static int read_real(const char *option, const char *text, double least, double most, double *value)
{
    char *end;
    if (!text)
        return EXIT_GOOD;
    *value = strtod(text, &end);
    if (end != text && !*end && *value >= least && *value <= most)
        return EXIT_GOOD;
    return complain(EXIT_USER, "bench: expected --%s to be %g to %g, saw '%s'", option, least, most,
                    text);
}

/* Sets b->hip: true if --device is hip, or if it is left out and this machine has a GPU. Returns an
 * exit_code after a message. */
static int choose_device(struct bench *b)
{
    char why[200] = "";
    bool hip = true;
    if (read_device_name(args.device, &hip))
        return EXIT_USER;
    if (!hip)
        return EXIT_GOOD;
    b->hip = probe_gpu(b->pack, &b->gpu, why);
    if (args.device && !b->hip)
        return complain(EXIT_ENVIRONMENT,
                        "there is no AMD GPU to measure on (%s); --device sim is "
                        "the timing model",
                        why);
    if (!b->hip && !args.json)
        printf("No AMD GPU here (%s): the timing model alone.\n", why);
    return EXIT_GOOD;
}

/* Prints the column names of the table. */
static void print_heading(const struct bench *b)
{
    printf("%-*s  %-32s ", b->name_width, "KERNEL", "SHAPE");
    if (b->hip)
        printf("%9s %7s ", "US", "+-%");
    else
        printf("%9s ", "MODEL US");
    printf("%8s %8s %7s %7s", "TFLOP/S", "GB/S", "MATRIX", "MEMORY");
    printf(b->hip ? " %9s %9s\n" : "\n", "MODEL US", "OF MODEL");
}

/* Converts `fraction`, the share of a roofline that the modelled time reaches, to the percentage
 * that the time `us` reaches. 0 if either time is unknown. */
static double share(double fraction, const struct row *r, double us)
{
    return us > 0 && r->model.us > 0 ? 100 * fraction * r->model.us / us : 0;
}

/* Prints the table's line for one kernel with one shape, or why it has no times. */
static void print_row(const struct bench *b, const struct row *r)
{
    const struct race_figure *f = &r->measured.figure;
    const double us = b->hip ? f->us : r->model.us;
    const struct bench_work *w = b->hip ? &r->measured.work : &r->model.work;
    printf("%-*s  %-32s ", b->name_width, r->kernel, r->shape.text[0] ? r->shape.text : "-");
    if (us <= 0) {
        printf("FAILED: %s\n", b->hip ? r->fault : r->model_fault);
        return;
    }
    printf("%9.2f ", us);
    if (b->hip)
        printf("%7.2f ", 50 * (f->high - f->low) / f->us);
    printf("%8.1f %8.0f %6.1f%% %6.1f%%", w->flops / us / 1e6, w->bytes / us / 1e3,
           share(r->model.matrix_fraction, r, us), share(r->model.memory_fraction, r, us));
    if (b->hip && r->model.us > 0)
        printf(" %9.2f %9.2f", r->model.us, us / r->model.us);
    if (b->hip && fabs(r->measured.drift - 1) > 0.05)
        printf("  the clock drifted by %.0f %%", 100 * (r->measured.drift - 1));
    if (r->measured.mhz_low > 0 && r->measured.mhz_low < 0.9 * r->measured.mhz)
        printf("  throttled to %.0f MHz", r->measured.mhz_low);
    putchar('\n');
}

/* Writes the measured time and its 95 % interval in microseconds, the number of runs, the drift and
 * the clock in MHz. */
static void measured_json(struct json *j, const struct bench_measured *m)
{
    json_real(j, "us", m->figure.us);
    json_real(j, "us_low", m->figure.low);
    json_real(j, "us_high", m->figure.high);
    json_integer(j, "runs", m->figure.runs);
    json_real(j, "drift", m->drift);
    json_real(j, "mhz", m->mhz);
    json_real(j, "mhz_low", m->mhz_low);
}

/* Writes one kernel with one shape as a JSON object: its times and rates, or why it has none. */
static void print_row_json(struct bench *b, const struct row *r)
{
    struct json *j = &b->json;
    const struct race_figure *f = &r->measured.figure;
    const double us = b->hip ? f->us : r->model.us;
    const struct bench_work *w = b->hip ? &r->measured.work : &r->model.work;
    json_begin_object(j, NULL);
    json_string(j, "kernel", r->kernel);
    json_string(j, "target", r->target);
    json_string(j, "shape", r->shape.text);
    json_string(j, "fault",
                b->hip ? (r->fault[0] ? r->fault : NULL)
                       : (r->model_fault[0] ? r->model_fault : NULL));
    if (b->hip)
        measured_json(j, &r->measured);
    json_real(j, "model_us", r->model.us);
    json_real(j, "model_cycles", r->model.cycles);
    json_real(j, "flops", w->flops);
    json_real(j, "least_bytes", w->bytes);
    json_real(j, "tflops", us > 0 ? w->flops / us / 1e6 : 0);
    json_real(j, "gb_per_s", us > 0 ? w->bytes / us / 1e3 : 0);
    json_real(j, "matrix_share", share(r->model.matrix_fraction, r, us) / 100);
    json_real(j, "memory_share", share(r->model.memory_fraction, r, us) / 100);
    json_end(j);
}

/* Times one kernel with one shape by the model, on the GPU if b->hip, and prints the row. */
static void bench_pair(struct bench *b, struct attn_pack *pack, struct row *r)
{
    const struct bench_pair pair = {pack, r->shape.text[0] ? r->shape.text : NULL};
    show_progress(b->begun, b->begun + 1, r->kernel);
    b->begun++;
    if ((!args.no_model || !b->hip) && !bench_model(&pair, &r->model, r->model_fault))
        r->model = (struct bench_model){0};
    if (b->hip && !bench_measure(&pair, &b->o, &r->measured, r->fault))
        r->measured = (struct bench_measured){0};
    clear_progress();
    if (b->hip && !b->device[0] && r->measured.device[0] && !args.json) {
        snprintf(b->device, sizeof(b->device), "%s", r->measured.device);
        printf("Device: %s\n", b->device);
        print_heading(b);
    } else if (b->rows == 0 && !args.json) {
        print_heading(b);
    }
    b->rows++;
    b->failures += (b->hip ? r->measured.figure.us : r->model.us) <= 0;
    if (args.json)
        print_row_json(b, r);
    else
        print_row(b, r);
    fflush(stdout);
}

/* Times kernel `n` with each shape that --shapes lists for its op; otherwise with --shape or the
 * op's default. */
static int bench_kernel(struct bench *b, uint32_t n, const struct attn_kernel_info *info)
{
    void *bytes;
    struct attn_pack *pack = isolate_kernel(b->bytes, n, &bytes);
    if (!pack)
        return complain(EXIT_ENVIRONMENT, "%s: out of memory", info->name);
    size_t shapes = 0;
    for (size_t i = 0; i < b->shapes.count; i++) {
        if (strcmp(b->shapes.rows[i].op, info->op))
            continue;
        struct row r = {.kernel = info->name, .target = info->target, .shape = b->shapes.rows[i]};
        bench_pair(b, pack, &r);
        shapes++;
    }
    if (!args.shapes && !shapes) {
        struct row r = {.kernel = info->name, .target = info->target};
        snprintf(r.shape.text, sizeof(r.shape.text), "%s", args.shape ? args.shape : "");
        bench_pair(b, pack, &r);
    }
    attn_pack_close(pack);
    free(bytes);
    return EXIT_GOOD;
}

/* Times the kernels that --only selects, with all their shapes. Returns an exit_code: EXIT_USER if
 * no kernel is selected or a row has no time. */
static int bench_all(struct bench *b)
{
    int code = EXIT_GOOD;
    const uint32_t count = attn_pack_kernel_count(b->pack);
    size_t kernels = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < count && code == EXIT_GOOD; n++) {
            struct attn_kernel_info info = {.size = sizeof(info)};
            if (attn_pack_kernel(b->pack, n, &info) ||
                (args.only && fnmatch(args.only, info.name, 0)))
                continue;
            const int width = (int)strlen(info.name);
            b->name_width = b->name_width > width ? b->name_width : width;
            kernels++;
            if (pass)
                code = bench_kernel(b, n, &info);
        }
    }
    if (!kernels)
        return complain(EXIT_USER, "no kernel matches '%s'", args.only ? args.only : "*");
    return code != EXIT_GOOD ? code : b->failures ? EXIT_USER : EXIT_GOOD;
}

/* Reads the options and the pack at `path`, and chooses the device. Returns an exit_code after a
 * message. */
static int prepare(struct bench *b, const char *path)
{
    double seconds = 5, flush = 512, patience = 120;
    int code = read_real("seconds", args.seconds, 0.01, 3600, &seconds);
    if (code == EXIT_GOOD)
        code = read_real("flush", args.flush, 0, 65536, &flush);
    if (code == EXIT_GOOD)
        code = read_real("patience", args.patience, 0.01, 86400, &patience);
    if (code == EXIT_GOOD && args.shape && args.shapes)
        code = complain(EXIT_USER, "bench: --shape and --shapes exclude each other");
    if (code == EXIT_GOOD && args.shapes)
        code = tune_read_shapes(args.shapes, &b->shapes);
    if (code == EXIT_GOOD)
        code = open_pack(path, &b->pack);
    if (code == EXIT_GOOD)
        code = read_pack(path, &b->bytes);
    b->o = (struct bench_options){
        .race = {.warm_up = 3,
                 .least = 15,
                 .most = RACE_ROUNDS,
                 .precision = 0.005,
                 .seconds = seconds},
        .patience = patience,
        .flush = (size_t)(flush * (1 << 20)),
    };
    return code == EXIT_GOOD ? choose_device(b) : code;
}

extern const struct command command_bench;

/* Writes which device gives the times, as members of the top JSON object. */
static void device_json(struct bench *b)
{
    json_string(&b->json, "device", b->hip ? "hip" : "model");
    json_flag(&b->json, "simulated", !b->hip || b->gpu.simulated);
    json_string(&b->json, "gpu", b->hip ? b->gpu.name : NULL);
    json_string(&b->json, "hip_library", b->hip ? b->gpu.library : NULL);
}

/* Runs `attnc bench`. */
static int run(int argc, char **argv)
{
    struct bench b = {0};
    if (argc != 1)
        return wrong_operands(&command_bench, argc, argv);
    int code = prepare(&b, argv[0]);
    if (code == EXIT_GOOD && args.json) {
        b.json = (struct json){.out = stdout};
        json_begin_object(&b.json, NULL);
        device_json(&b);
        json_begin_list(&b.json, "rows");
    }
    const bool begun = code == EXIT_GOOD;
    if (code == EXIT_GOOD)
        code = bench_all(&b);
    if (begun && args.json) {
        json_end(&b.json);
        json_end(&b.json);
    }
    attn_pack_close(b.pack);
    free(b.bytes);
    free(b.shapes.rows);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .usage = "PACK [OPTION]...",
    .summary = "Measure the kernels of a pack on a GPU, beside the timing model",
    .details =
        "Every kernel is launched on every shape of its op with cold caches and timed by HIP\n"
        "events: the median, half its 95 % confidence interval in percent, tensor operations and\n"
        "least bytes a second, shares of the matrix and memory rooflines, and the model's time.\n"
        "Each pair runs in a process of its own, so that a kernel that faults or hangs is a line.\n"
        "Without a GPU, or with --device sim, the figures are the model's alone.",
    .options = options,
    .run = run,
};

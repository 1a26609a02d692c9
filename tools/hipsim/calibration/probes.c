/* SPDX-License-Identifier: Apache-2.0
 *
 * probes measure [-o FILE] [--target GFX] [--library PATH] [--parameters LIST]
 * probes fit FILE [--simulator PATH]
 *
 * `measure` runs small loops (probes.s) on the machine's GPU and writes what they took: clocks by
 * s_memtime, and microseconds by events for whole launches. Each loop measures one number of the
 * timing model that sources leave open. `fit` runs the same loops on the simulator and changes one
 * parameter at a time until the results agree; it prints the value for --parameters. `measure` can
 * also run on the simulator with other --parameters, which `fit` must then find.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/time/hipsim_time.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { RUNS = 15, STEPS = 14, PASSES = 4, LAW_PASSES = 8, TEXT = 2048 };
enum { LINK_STRIDE = (16 << 20) + 4352, LINKS = 32, ROOM = LINK_STRIDE * LINKS };
enum { COPIED = 64 << 20 /* bytes in each of two buffers */ };
enum { AGAIN = 256 /* workgroups, 32 per XCD */ };
/* Number of workgroups that takes milliseconds, so that the power law decides the clock. */
enum { HOT = 262144 };
enum { MET = 256 /* workgroups of a cooperative launch; all are resident on both targets */ };

/* A row of targets/facts/. */
struct row {
    const char *name;
    double value, low, high; /* range that sources leave open */
};
#define P(field, value, unit, tag, low, high, source) {#field, value, low, high},
static const struct row gfx942[] = {
#include "targets/facts/gfx942.def"
    {0},
};
#define P(field, value, unit, tag, low, high, source) {#field, value, low, high},
static const struct row gfx950[] = {
#include "targets/facts/gfx950.def"
    {0},
};

/* A loop and the parameter it measures. An `event` measures a whole launch, in microseconds. */
static const struct probe {
    const char *kernel, *parameter, *target; /* target NULL: any */
    unsigned waves, groups;
    bool event;
} probes[] = {
    /* All launches' microseconds follow from these; the law of gfx950 was measured. */
    {"heat_16", "law_slope", "gfx942", 4, HOT, true},
    {"warm_16", "law_mhz", "gfx942", 4, HOT, true},
    {"mul32", "valu_mul32_cycles", NULL, 1, 1, false},
    {"trans", "trans_cycles", NULL, 1, 1, false},
    {"lane_swap", "lane_swap_cycles", "gfx950", 1, 1, false},
    {"packed_f32", "packed_f32_hazard", NULL, 1, 1, false},
    {"branch_taken", "branch_taken_cycles", NULL, 1, 1, false},
    {"branch_fall", "branch_fall_cycles", NULL, 1, 1, false},
    {"straddle", "straddle_cycles", NULL, 1, 1, false},
    {"branch_straddle", "branch_straddle_cycles", NULL, 1, 1, false},
    {"barrier", "barrier_cycles", NULL, 4, 1, false},
    {"fetch", "ifetch_latency", NULL, 1, 1, false},
    {"lds_chain", "lds_latency", NULL, 1, 1, false},
    {"lds_stride", "lds_conflict_scale", "gfx942", 4, 1, false},
    {"lds_write", "lds_write_b128_issue", NULL, 1, 1, false},
    {"scalar_chain", "scalar_latency", NULL, 1, 1, false},
    {"near_chain", "l1_latency", NULL, 1, 1, false},
    {"far_chain", "hbm_ns", NULL, 1, 1, false},
    {"tiny", "launch_us", NULL, 1, 1, true},
    {"tiny", "dispatch_cycles", NULL, 1, 65536, true},
    {"idle", "workgroup_idle_cycles", NULL, 4, 8192, true},
    {"full", "workgroup_cycles", NULL, 4, 8192, true},
    {"copy", "hbm_gb_per_s", NULL, 4, COPIED / 4096, true},
    {"again", "mall_gb_per_s", NULL, 4, AGAIN, true},
    {"atomic", "atomic_cycles", NULL, 4, 1, false},
    {"code", "code_warm", NULL, 1, 1, false},
    {"meet", "grid_barrier_cycles", NULL, 1, MET, true},
    {"heat_8", "power_matrix_8", NULL, 4, HOT, true},
    {"heat_32", "power_matrix_32", NULL, 4, HOT, true},
    {"heat_4", "power_matrix_4", "gfx950", 4, HOT, true},
};

/* HIP functions of a library that is loaded at run time: the machine's or the simulator. */
static struct {
    int (*init)(unsigned);
    int (*load)(void **, const char *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*cooperate)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void *, void **);
    int (*allocate)(void **, size_t);
    int (*copy)(void *, const void *, size_t, int);
    int (*set)(void *, int, size_t);
    int (*synchronize)(void);
    int (*event)(void **);
    int (*record)(void *, void *);
    int (*elapsed)(float *, void *, void *);
    bool (*time)(const struct hipsim_time_options *, char *, size_t); /* NULL: a real device */
} hip;

enum { TO_DEVICE = 1, TO_HOST = 2 };

/* Device objects of a run. */
static struct {
    void *module, *results, *data, *links, *start, *stop, *flush;
} gpu;

static _Noreturn void stop(const char *what)
{
    fprintf(stderr, "probes: %s\n", what);
    exit(2);
}

static void check(int error, const char *what)
{
    if (error)
        stop(what);
}

static void *open_library(const char *path)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !path && !library && i < COUNT(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        stop(dlerror());
    return library;
}

static void bind(void *library)
{
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
        {"hipInit", &hip.init},
        {"hipModuleLoad", &hip.load},
        {"hipModuleGetFunction", &hip.function},
        {"hipModuleLaunchKernel", &hip.launch},
        {"hipModuleLaunchCooperativeKernel", &hip.cooperate},
        {"hipMalloc", &hip.allocate},
        {"hipMemcpy", &hip.copy},
        {"hipMemset", &hip.set},
        {"hipDeviceSynchronize", &hip.synchronize},
        {"hipEventCreate", &hip.event},
        {"hipEventRecord", &hip.record},
        {"hipEventElapsedTime", &hip.elapsed},
        {"hipsim_time_enable", &hip.time},
    };
    for (size_t i = 0; i < COUNT(functions); i++) {
        void *address = dlsym(library, functions[i].name);
        if (!address && functions[i].slot != (void *)&hip.time)
            stop(functions[i].name);
        memcpy(functions[i].slot, &address, sizeof(address));
    }
}

/* True for probes that need execute only the timed workgroups. */
static bool is_sampled(const struct probe *p) { return p->groups == HOT || p->groups == AGAIN; }

static void set_parameters(const char *text, bool sampled)
{
    char why[400];
    const struct hipsim_time_options options = {
        .size = sizeof(options), .samples_only = sampled, .parameters = text};
    if (hip.time && !hip.time(&options, why, sizeof(why)))
        stop(why);
}

/* Prepares the data: scalar loads repeat one address, vector loads follow a chain of links that was
 * never visited. */
static void prepare(const char *target)
{
    check(hip.init(0), "no device");
    check(hip.load(&gpu.module, strcmp(target, "gfx950") ? PROBES_GFX942 : PROBES_GFX950),
          "the code objects do not load here");
    check(hip.allocate(&gpu.results, COPIED), "hipMalloc");
    check(hip.allocate(&gpu.data, COPIED), "hipMalloc");
    check(hip.allocate(&gpu.links, ROOM), "hipMalloc");
    check(hip.set(gpu.results, 0, COPIED), "hipMemset");
    check(hip.set(gpu.data, 0, COPIED), "hipMemset");
    check(hip.event(&gpu.start), "hipEventCreate");
    check(hip.event(&gpu.stop), "hipEventCreate");
    for (uint32_t i = 0; i < LINKS; i++) {
        const uint32_t next = i + 1 < LINKS ? (i + 1) * LINK_STRIDE : 0;
        check(hip.copy((char *)gpu.links + (size_t)i * LINK_STRIDE, &next, sizeof(next), TO_DEVICE),
              "hipMemcpy");
    }
}

/* Evicts all data from the caches by writing more than they hold. The simulator starts with empty
 * caches. */
static void flush(void)
{
    enum { MORE = 512 << 20 };
    if (hip.time)
        return;
    if (!gpu.flush)
        check(hip.allocate(&gpu.flush, MORE), "hipMalloc");
    check(hip.set(gpu.flush, 1, MORE), "hipMemset");
}

/* Launches a probe. Workgroups that synchronise need a cooperative launch, which accepts no buffer
 * of arguments. */
static int launch(const struct probe *p, void *function, void **extra)
{
    if (!strcmp(p->kernel, "meet"))
        return hip.cooperate(function, p->groups, 1, 1, 64 * p->waves, 1, 1, 0, NULL, NULL);
    return hip.launch(function, p->groups, 1, 1, 64 * p->waves, 1, 1, 0, NULL, NULL, extra);
}

/* Runs one launch. Returns clocks or microseconds. */
static double run_once(const struct probe *p)
{
    void *function, *args[2] = {gpu.results, gpu.data};
    size_t size = sizeof(args);
    void *extra[] = {(void *)1, args, (void *)2, &size, (void *)3}; /* buffer, its size, end */
    uint32_t clocks = 0;
    float milliseconds = 0;
    check(hip.function(&function, gpu.module, p->kernel), p->kernel);
    if (!strcmp(p->kernel, "far_chain") || !strcmp(p->kernel, "copy"))
        flush();
    if (!strcmp(p->kernel, "far_chain")) {
        args[1] = gpu.links;
    } else if (!strcmp(p->kernel, "scalar_chain")) {
        check(hip.copy(gpu.data, &gpu.data, sizeof(gpu.data), TO_DEVICE), "hipMemcpy");
    } else {
        check(hip.set(gpu.data, 0, 4096), "hipMemset");
    }
    check(hip.synchronize(), "hipDeviceSynchronize");
    check(hip.record(gpu.start, NULL), "hipEventRecord");
    check(launch(p, function, extra), p->kernel);
    check(hip.record(gpu.stop, NULL), "hipEventRecord");
    check(hip.synchronize(), p->kernel);
    if (p->event)
        check(hip.elapsed(&milliseconds, gpu.start, gpu.stop), "hipEventElapsedTime");
    else
        check(hip.copy(&clocks, gpu.results, sizeof(clocks), TO_HOST), "hipMemcpy");
    return p->event ? 1000.0 * milliseconds : clocks;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median of the runs and its bounds. The true median is between the 3rd and the 13th of
 * 15 runs with 99.3 % confidence (both tails of a binomial distribution: 242 of 32,768). */
static void run(const struct probe *p, unsigned runs, double out[3])
{
    double values[RUNS];
    for (unsigned i = 0; i < runs; i++)
        values[i] = run_once(p);
    qsort(values, runs, sizeof(values[0]), by_value);
    out[0] = values[runs / 2];
    out[1] = values[runs / 6];
    out[2] = values[runs - 1 - runs / 6];
}

static bool is_for(const struct probe *p, const char *target)
{
    return !p->target || !strcmp(p->target, target);
}

static int measure(const char *target, const char *parameters, FILE *out)
{
    prepare(target);
    fprintf(out, "probes 1 %s%s\n", target, hip.time ? " simulated" : "");
    for (size_t i = 0; i < COUNT(probes); i++) {
        double v[3];
        if (!is_for(&probes[i], target))
            continue;
        set_parameters(parameters, is_sampled(&probes[i]));
        const double first = run_once(&probes[i]); /* warm-up */
        run(&probes[i], 1, v);
        if (!hip.time || v[0] != first) /* only the simulator repeats exactly */
            run(&probes[i], RUNS, v);
        fprintf(out, "%-24s %14.4f %14.4f %14.4f %s\n", probes[i].parameter, v[0], v[1], v[2],
                probes[i].event ? "us" : "clk");
    }
    return 0;
}

/* ---- fit ---- */

struct fit {
    const struct row *rows;
    double measured[COUNT(probes)], low[COUNT(probes)], high[COUNT(probes)]; /* 0: missing */
    double values[COUNT(probes)];
};

static const struct row *find_row(const struct fit *f, size_t i)
{
    const struct row *row = f->rows;
    while (row->name && strcmp(row->name, probes[i].parameter))
        row++;
    return row;
}

/* Returns the simulated result of a probe with its parameter set to `value` and the others
 * unchanged. */
static double model(const struct fit *f, size_t which, double value)
{
    char text[TEXT];
    size_t at = 0;
    double shown[3];
    for (size_t i = 0; i < COUNT(probes) && at < TEXT; i++)
        if (f->measured[i] > 0)
            at += (size_t)snprintf(text + at, TEXT - at, "%s%s=%.7g", at ? "," : "",
                                   probes[i].parameter, i == which ? value : f->values[i]);
    set_parameters(text, is_sampled(&probes[which]));
    run(&probes[which], 1, shown);
    return shown[0];
}

/* True if `shown` is within the bounds of the measurement, or within 0.1 %. */
static bool agrees(const struct fit *f, size_t i, double shown)
{
    const double slack = 0.001 * f->measured[i];
    return shown >= f->low[i] - slack && shown <= f->high[i] + slack;
}

/* Bisects a parameter's range until the simulator reproduces the measurement; every probe is
 * monotonic in its parameter. Prefers a whole number that fits as well, since most parameters are
 * whole clocks. False if nothing has changed. */
static bool fit_one(struct fit *f, size_t i)
{
    const struct row *row = find_row(f, i);
    const double before = f->values[i];
    double low = row->low, high = row->high;
    if (agrees(f, i, model(f, i, f->values[i])))
        return false;
    const bool rises = model(f, i, high) > model(f, i, low);
    for (unsigned step = 0; step < STEPS; step++) {
        const double middle = (low + high) / 2;
        if ((model(f, i, middle) < f->measured[i]) == rises)
            low = middle;
        else
            high = middle;
    }
    const double found = (low + high) / 2;
    const double tries[] = {floor(found), floor(found) - 1, ceil(found), found};
    double least = INFINITY;
    for (size_t t = 0; t < COUNT(tries); t++) {
        const bool inside = tries[t] >= row->low && tries[t] <= row->high;
        const double error = inside ? fabs(model(f, i, tries[t]) - f->measured[i]) : INFINITY;
        if (error < least) {
            least = error;
            f->values[i] = tries[t];
        }
    }
    return f->values[i] != before;
}

static void print_fit(const struct fit *f, const char *target)
{
    const char *comma = "";
    printf("%-24s %10s %10s %12s %12s  range\n", "parameter", "was", "is", "measured", "modelled");
    for (size_t i = 0; i < COUNT(probes); i++) {
        const struct row *row = find_row(f, i);
        if (f->measured[i] <= 0)
            continue;
        const double shown = model(f, i, f->values[i]);
        printf("%-24s %10.5g %10.5g %12.2f %12.2f  %g to %g%s\n", row->name, row->value,
               f->values[i], f->measured[i], shown, row->low, row->high,
               row->low >= row->high ? ", no range"
               : agrees(f, i, shown) ? ""
                                     : ", NOT REACHED");
    }
    printf("%s --parameters ", target);
    for (size_t i = 0; i < COUNT(probes); i++) {
        if (f->measured[i] <= 0 || f->values[i] == find_row(f, i)->value)
            continue;
        printf("%s%s=%.6g", comma, probes[i].parameter, f->values[i]);
        comma = ",";
    }
    printf("%s\n", *comma ? "" : "(nothing changes)");
}

static void read_line(struct fit *f, const char *line)
{
    char name[64];
    double v[3];
    if (sscanf(line, "%63s %lf %lf %lf", name, &v[0], &v[1], &v[2]) != 4)
        return;
    for (size_t i = 0; i < COUNT(probes); i++) {
        if (strcmp(probes[i].parameter, name) || !find_row(f, i)->name)
            continue;
        f->measured[i] = v[0];
        f->low[i] = v[1];
        f->high[i] = v[2];
        f->values[i] = find_row(f, i)->value;
    }
}

/* Fits the first `count` probes repeatedly until nothing changes. */
static void fit_in_turn(struct fit *f, size_t count, unsigned passes)
{
    bool changed = true;
    for (unsigned pass = 0; changed && pass < passes; pass++) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            const struct row *row = find_row(f, i);
            if (f->measured[i] > 0 && row->low < row->high)
                changed = fit_one(f, i) || changed;
        }
    }
}

/* Fits all parameters. They influence each other's probes a little, so all are fitted
 * repeatedly. The two parameters of the clock law interact strongly and are fitted first,
 * without the others. */
static int fit(const char *path, const char *simulator)
{
    char line[256], target[16];
    struct fit f = {0};
    FILE *in = fopen(path, "r");
    if (!in || !fgets(line, sizeof(line), in) || sscanf(line, "probes 1 %15s", target) != 1)
        stop("the file is not what `probes measure` writes");
    f.rows = strcmp(target, "gfx950") ? gfx942 : gfx950;
    while (fgets(line, sizeof(line), in))
        read_line(&f, line);
    fclose(in);
    snprintf(line, sizeof(line), "target=%s,checks=off", target);
    setenv("HIPSIM", line, 1);
    bind(open_library(simulator));
    prepare(target);
    fit_in_turn(&f, 2, LAW_PASSES);
    fit_in_turn(&f, COUNT(probes), PASSES);
    print_fit(&f, target);
    return 0;
}

int main(int argc, char **argv)
{
    const char *output = NULL, *target = "gfx942", *library = NULL, *parameters = NULL;
    const char *simulator = SIMULATOR, *file = NULL;
    if (argc < 2)
        stop("usage: probes measure [-o FILE] [--target GFX] [--library PATH], or probes fit FILE");
    for (int i = 2; i < argc; i++) {
        const char **const slot = !strcmp(argv[i], "-o")             ? &output
                                  : !strcmp(argv[i], "--target")     ? &target
                                  : !strcmp(argv[i], "--library")    ? &library
                                  : !strcmp(argv[i], "--parameters") ? &parameters
                                  : !strcmp(argv[i], "--simulator")  ? &simulator
                                                                     : &file;
        if (slot != &file && ++i == argc)
            stop("an option has no value");
        *slot = argv[i];
    }
    if (!strcmp(argv[1], "fit") && file)
        return fit(file, simulator);
    if (strcmp(argv[1], "measure"))
        stop("measure or fit FILE?");
    FILE *out = output ? fopen(output, "w") : stdout;
    if (!out)
        stop("the output cannot be written");
    bind(open_library(library));
    const int code = measure(target, parameters, out);
    return fclose(out) ? 2 : code;
}

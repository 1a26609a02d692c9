/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc probes: runs each loop that measures a parameter of the timing model, in a child process of
 * its own. A loop that faults or hangs is then only a line of the output.
 */
#include "tools/attnc/on_gpu/probes.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "targets/tgt.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/progress.h"
#include "tools/verify/verify.h"

/* Seconds after which a loop counts as hung; the first start of a driver takes long. */
enum { PATIENCE = 120 };

static struct {
    const char *output, *device, *target, *only, *parameters, *fit;
} args;

static const struct option_row options[] = {
    {"output", 'o', "FILE", "where the results go (default: standard output)", &args.output, NULL},
    {"device", 0, "DEVICE", "hip: the GPU of this machine (default); sim: the simulator",
     &args.device, NULL},
    {"target", 0, "GFX", "of the GPU (default: gfx942)", &args.target, NULL},
    {"only", 0, "GLOB", "only the loops of parameters whose names match", &args.only, NULL},
    {"parameters", 0, "LIST", "of the timing model where the device is simulated", &args.parameters,
     NULL},
    {"fit", 0, "FILE", "no loops: find the model's parameters for these results", &args.fit, NULL},
    {0},
};

/* The probe that a child process runs, and where. */
struct call {
    const char *library; /* path of the HIP library; NULL: the machine's */
    const char *target;
    const struct probe *probe;
};

/* Runs one probe in a child process. `context` is a struct call; fills the struct probe_result
 * `answer`. Returns an exit_code. */
static int call_probe(void *context, void *answer)
{
    const struct call *c = context;
    char why[200];
    if (!probe_open(c->library, c->target, why) ||
        !probe_run(c->probe, args.parameters, answer, why))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    return EXIT_GOOD;
}

/* Runs the loops that --only selects, and prints a line for each result to `out`. Returns
 * EXIT_ENVIRONMENT if no loop has a result, EXIT_PARTIAL if some have none. */
static int measure(const struct call *device, FILE *out)
{
    size_t good = 0, failed = 0;
    char why[200] = "no loop has such a name";
    for (size_t i = 0; i < probe_count; i++) {
        const struct probe *p = &probes[i];
        struct call call = *device;
        struct probe_result r;
        call.probe = p;
        if (!probe_is_for(p, call.target) ||
            (args.only && fnmatch(args.only, p->parameter, 0) != 0))
            continue;
        show_progress(i, probe_count, p->parameter);
        const bool ran = child_call(call_probe, &call, &r, sizeof(r), PATIENCE, why);
        clear_progress();
        if (ran && !good++)
            fprintf(out, "probes 1 %s%s\n", call.target, r.simulated ? " simulated" : "");
        if (ran)
            fprintf(out, "%-24s %14.4f %14.4f %14.4f %s\n", p->parameter, r.median, r.low, r.high,
                    p->event ? "us" : "clk");
        else
            complain(EXIT_PARTIAL, "probes: %s: %s", p->parameter, why);
        failed += !ran;
        /* Probably there is no device, so that the other loops would fail too. */
        if (!good && failed == 2)
            break;
    }
    if (!good)
        return complain(EXIT_ENVIRONMENT, "probes: no result: %s", why);
    return failed ? EXIT_PARTIAL : EXIT_GOOD;
}

/* Sets `path` to the path of hipsim. Returns an exit_code after a message. */
static int find_simulator(char *path, size_t size)
{
    if (gpu_find_simulator(path, size))
        return EXIT_GOOD;
    return complain(EXIT_ENVIRONMENT, "probes: this attnc was installed without the simulator");
}

/* Sets target and library of `c` by --device and --target; `path` is the library's memory. Returns
 * an exit_code after a message. */
static int choose_device(struct call *c, char *path, size_t size)
{
    char text[64];
    bool hip = true;
    c->target = args.target ? args.target : "gfx942";
    if (!tgt_find(c->target))
        return complain(EXIT_USER, "probes: no target %s; `attnc help targets` lists them",
                        c->target);
    if (read_device_name(args.device, &hip))
        return EXIT_USER;
    if (hip)
        return EXIT_GOOD;
    snprintf(text, sizeof(text), "target=%s,checks=off", c->target);
    setenv("HIPSIM", text, 1);
    c->library = path;
    return find_simulator(path, size);
}

/* Runs `attnc probes`. */
static int run(int argc, char **argv)
{
    char path[4096];
    struct call device = {0};
    struct output o;
    if (argc)
        return complain(EXIT_USER, "probes: unexpected operand '%s'", argv[0]);
    if (args.fit) {
        const int code = find_simulator(path, sizeof(path));
        return code == EXIT_GOOD ? probes_fit(args.fit, path) : code;
    }
    int code = choose_device(&device, path, sizeof(path));
    if (code == EXIT_GOOD)
        code = check_output(args.output ? args.output : "-");
    if (code == EXIT_GOOD)
        code = begin_output(&o);
    if (code != EXIT_GOOD)
        return code;
    code = measure(&device, o.out);
    const int written =
        end_output(&o, args.output ? args.output : "-", code == EXIT_PARTIAL ? EXIT_GOOD : code);
    return written == EXIT_GOOD ? code : written;
}

const struct command command_probes = {
    .name = "probes",
    .usage = "[-o FILE] [OPTION]... | --fit FILE",
    .summary = "Measure single numbers of the timing model by small loops on a GPU",
    .details =
        "A line for each loop: the parameter of the timing model that it measures, the median of\n"
        "15 runs, its confidence interval of 99 %, and clk (clocks by s_memtime) or us\n"
        "(microseconds of a launch by events). --fit runs the same loops on the simulator and\n"
        "changes the model until it gives these results; it prints the value for --parameters of\n"
        "the other commands. docs/first-gpu.md says what the loops decide.",
    .options = options,
    .run = run,
};

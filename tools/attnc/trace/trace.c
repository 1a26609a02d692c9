/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace: runs one launch of a kernel on the simulator and models its time. Writes a summary,
 * a trace for Perfetto, or a listing with cycles for each instruction.
 */
#include "tools/attnc/trace/trace.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/nearest.h"
#include "tools/attnc/cli/children.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/trace/ir_lines.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"

static struct {
    const char *shape;
    const char *output;
    const char *annotate;
    const char *parameters;
    const char *jobs;
    const char *part;
    const char *samples;
    bool samples_only, chosen, json;
} args;

static const struct option_row options[] = {
    {"shape", 0, "SHAPE",
     "what the kernel is launched on, batch=1,heads=8 and the like; 'help' "
     "says what its op takes",
     &args.shape, NULL},
    {"output", 'o', "FILE", "the trace, JSON for Perfetto", &args.output, NULL},
    {"annotate", 0, "FILE", "the disassembly with cycles and stalls per line", &args.annotate,
     NULL},
    {"parameters", 0, "LIST", "of the timing model: trans_cycles=8,hbm_ns=400", &args.parameters,
     NULL},
    {"part", 0, "GPU", "the GPU model to simulate, such as mi308x (default: mi300x, mi355x)",
     &args.part, NULL},
    {"samples", 0, "N",
     "time at most N workgroups; a launch of at most N runs with all of them in time (default: 8)",
     &args.samples, NULL},
    {"samples-only", 0, NULL, "execute only the workgroups that are timed, for large shapes", NULL,
     &args.samples_only},
    {"chosen", 0, NULL, "fail where the pack gives the launch to another kernel", NULL,
     &args.chosen},
    {"jobs", 'j', "N", "kernels at once, where KERNEL matches several (default: 1)", &args.jobs,
     NULL},
    {"json", 0, NULL, "print a JSON list of reports", NULL, &args.json},
    {0},
};

/* Prints the modelled time of a launch, its stalls and the bytes that it moved. */
static void print_report(const struct trace_run *run, const struct trace_timing *timing,
                         const struct hipsim_time_report *report)
{
    char text[4096];
    timing->format(report, text, sizeof(text));
    fputs(text, stdout);
    printf("  %.3f MB loaded, %.3f MB stored\n", report->load_bytes / 1e6,
           report->store_bytes / 1e6);
    if (run->least_bytes <= 0)
        return;
    const double bytes = report->load_bytes + report->store_bytes;
    const double least_us = run->least_bytes / report->memory_gb_per_s / 1e3;
    printf(
        "  least bytes %.3f MB: %.3f times that loaded and stored, %.3f times beyond L2; at %.0f "
        "GB/s "
        "they take %.2f us, of the modelled time without launch %.1f %% at the maximum clock and "
        "%.1f %% at the power-limited one\n",
        run->least_bytes / 1e6, bytes / run->least_bytes, report->memory_bytes / run->least_bytes,
        report->memory_gb_per_s, least_us, 100 * least_us / (report->us_at_max - report->launch_us),
        100 * least_us / (report->us_at_power - report->launch_us));
}

/* Writes the dimensions of a launch's shape as a JSON object. */
static void shape_json(struct json *j, const struct trace_run *run, const struct verify_op *op)
{
    json_begin_object(j, "shape");
    for (unsigned i = 0; i < VERIFY_DIMENSIONS && op->dimensions[i].name; i++)
        json_integer(j, op->dimensions[i].name, run->shape[i]);
    json_end(j);
}

/* Writes for each XCD a list of shares, 0 to 1: how much of its room for workgroups was used in
 * each of HIPSIM_TIME_PARTS equal parts of the launch. */
static void taken_json(struct json *j, const struct hipsim_time_report *r)
{
    json_begin_list(j, "taken");
    for (unsigned x = 0; x < r->xcds && x < HIPSIM_TIME_XCDS; x++) {
        json_begin_list(j, NULL);
        for (unsigned i = 0; i < HIPSIM_TIME_PARTS; i++)
            json_real(j, NULL, (double)(int)(1000 * r->taken[x][i] + 0.5f) / 1000);
        json_end(j);
    }
    json_end(j);
}

/* Writes the cycles in which waves issued, and the cycles of each kind of stall, as JSON
 * members. */
static void stalls_json(struct json *j, const struct trace_timing *timing,
                        const struct hipsim_time_report *r)
{
    json_integer(j, "issue_cycles", (int64_t)r->issue_cycles);
    json_begin_object(j, "stall_cycles");
    for (int s = HIPSIM_STALL_NONE + 1; s < HIPSIM_STALL_COUNT; s++) {
        if (r->stall_cycles[s])
            json_integer(j, timing->stall_name(s), (int64_t)r->stall_cycles[s]);
    }
    json_end(j);
}

/* Prints the report of a launch as a JSON object in one line, since the parent process reads a line
 * for each kernel. */
static void print_json(const struct trace_run *run, const struct verify_op *op,
                       const struct trace_timing *timing, const struct hipsim_time_report *r)
{
    struct json j = {.out = stdout, .compact = true};
    json_begin_object(&j, NULL);
    json_string(&j, "kernel", run->info->name);
    json_string(&j, "target", r->target);
    shape_json(&j, run, op);
    json_integer(&j, "workgroups", (int64_t)r->workgroups);
    json_integer(&j, "workgroups_per_cu", r->workgroups_per_cu);
    json_real(&j, "cycles", r->cycles);
    json_real(&j, "launch_us", r->launch_us);
    json_real(&j, "us_at_max_clock", r->us_at_max);
    json_real(&j, "us_at_power_clock", r->us_at_power);
    json_real(&j, "power_mhz", r->power_mhz);
    json_real(&j, "matrix_duty", r->matrix_duty);
    json_real(&j, "matrix_fraction", r->matrix_fraction);
    json_real(&j, "memory_fraction", r->memory_fraction);
    json_real(&j, "memory_gb_per_s", r->memory_gb_per_s);
    json_real(&j, "memory_bytes", r->memory_bytes);
    json_real(&j, "load_bytes", r->load_bytes);
    json_real(&j, "store_bytes", r->store_bytes);
    json_real(&j, "least_bytes", run->least_bytes);
    json_real(&j, "tail", r->tail);
    json_real(&j, "loop_bound", r->loop_bound);
    json_real(&j, "loop_cycles", r->loop_cycles);
    stalls_json(&j, timing, r);
    taken_json(&j, r);
    json_end(&j);
}

/* An output that the simulator writes to a file in memory. attnc then writes it to its path, so
 * that a failure has its usual message. */
struct written {
    const char *to; /* path of the output; NULL: there is none */
    /* File descriptor of the file in memory; -1: none. */
    int fd;
    /* Path under which the simulator opens it. */
    char path[32];
};

/* Opens a file in memory for the output `to`; does nothing if `to` is NULL. Returns an exit_code
 * after a message. */
static int begin_written(struct written *w, const char *to)
{
    *w = (struct written){.to = to, .fd = -1};
    if (!to)
        return EXIT_GOOD;
    w->fd = memfd_create("attnc-trace", MFD_CLOEXEC);
    snprintf(w->path, sizeof(w->path), "/proc/self/fd/%d", w->fd);
    return w->fd >= 0 ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "%s: %s", to, strerror(errno));
}

/* Writes the file in memory to its path if `code` is EXIT_GOOD, and closes it. Returns `code`, or
 * the exit_code of a failed write. */
static int end_written(struct written *w, int code)
{
    struct stat st;
    void *bytes = MAP_FAILED;
    if (w->fd < 0)
        return code;
    if (code == EXIT_GOOD && fstat(w->fd, &st) == 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, w->fd, 0);
    if (bytes != MAP_FAILED) {
        code = write_output(w->to, bytes, (size_t)st.st_size);
        munmap(bytes, (size_t)st.st_size);
    } else if (code == EXIT_GOOD) {
        code = complain(EXIT_ENVIRONMENT, "%s: %s", w->to, strerror(errno));
    }
    close(w->fd);
    return code;
}

/* Models a launch of kernel `n`, and writes the files of -o and --annotate. Returns an exit_code
 * after a message. */
static int time_and_write(struct trace_session *t, const struct attn_pack *pack, uint32_t n,
                          struct hipsim_time_report *report)
{
    struct written trace = {.fd = -1}, listing = {.fd = -1};
    long samples = 0;
    int code = read_number("trace", "samples", args.samples, 1, UINT32_MAX, &samples);
    if (code == EXIT_GOOD)
        code = begin_written(&trace, args.output);
    if (code == EXIT_GOOD)
        code = begin_written(&listing, args.annotate);
    const struct hipsim_time_options time = {
        .size = sizeof(time),
        .samples = (uint32_t)samples,
        .samples_only = args.samples_only,
        .parameters = args.parameters,
        .trace_path = args.output ? trace.path : NULL,
        .annotate_path = args.annotate ? listing.path : NULL,
    };
    if (code == EXIT_GOOD)
        code = trace_time(t, &time, report);
    if (code == EXIT_GOOD && args.annotate)
        code = add_ir_lines(pack, n, listing.path);
    code = end_written(&trace, code);
    return end_written(&listing, code);
}

/* Models a launch of kernel `n` of `pack` and prints its report. `isolated` has only this kernel,
 * so that libattn must choose it. With --chosen the launch is from `pack`, and an error if libattn
 * chooses another kernel. Returns an exit_code after a message. */
static int trace_kernel(struct attn_pack *pack, uint32_t n, struct attn_pack *isolated,
                        const struct attn_kernel_info *info)
{
    struct trace_session t;
    const struct verify_op *op = trace_find_op(info->op);
    if (op && args.shape && !strcmp(args.shape, "help")) {
        trace_explain_shape(op);
        return EXIT_GOOD;
    }
    struct hipsim_time_report report = {.size = sizeof(report)};
    const struct trace_gpu gpu = {.part = args.part};
    int code = args.chosen ? trace_open(&t, pack, n, args.shape, &gpu)
                           : trace_open(&t, isolated, 0, args.shape, &gpu);
    if (code == EXIT_GOOD)
        code = time_and_write(&t, pack, n, &report);
    if (code == EXIT_GOOD && args.json)
        print_json(&t.run, op, &t.timing, &report);
    else if (code == EXIT_GOOD)
        print_report(&t.run, &t.timing, &report);
    trace_close(&t);
    return code;
}

/* The kernels that the command line selects. Each is traced in a child process. */
struct selection {
    struct attn_pack *pack;
    char *bytes; /* the pack's file in memory */
    /* Numbers of the selected kernels, `count` of them. */
    uint32_t *kernels;
    size_t count;
    /* With --json: the list of reports is open in it. */
    struct json json;
};

/* Returns the facts of kernel `n`; ends the process after a message if the pack is damaged. */
static struct attn_kernel_info kernel_info(const struct attn_pack *pack, uint32_t n)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    if (attn_pack_kernel(pack, n, &info) != ATTN_OK)
        exit(complain(EXIT_USER, "%s", attn_last_error()));
    return info;
}

/* Traces kernel `part` of the selection `context`, in a child process. Returns an exit_code. */
static int trace_part(void *context, size_t part, struct child_report *report)
{
    struct selection *s = context;
    const struct attn_kernel_info info = kernel_info(s->pack, s->kernels[part]);
    child_step(report, info.name);
    if (!args.json && s->count > 1)
        printf("%s\n", info.name);
    void *copy;
    struct attn_pack *const isolated = isolate_kernel(s->bytes, s->kernels[part], &copy);
    const int code = isolated ? trace_kernel(s->pack, s->kernels[part], isolated, &info)
                              : complain(EXIT_ENVIRONMENT, "out of memory");
    attn_pack_close(isolated);
    free(copy);
    return code;
}

/* Adds a line of a child, a JSON object, to the list of the selection `context`. */
static void add_row(void *context, char *line)
{
    struct selection *s = context;
    json_raw(&s->json, NULL, line);
}

/* Adds what a child has printed to the JSON list, or copies it to standard output. */
static void collect_part(void *context, size_t part, FILE *printed, const size_t results[])
{
    (void)part, (void)results;
    if (args.json)
        each_printed_line(printed, add_row, context);
    else
        copy_printed(printed);
}

/* Returns the kernel name of part `part`, for messages. */
static const char *name_part(void *context, size_t part)
{
    const struct selection *s = context;
    return kernel_info(s->pack, s->kernels[part]).name;
}

/* Selects every kernel whose name matches the glob `pattern`. Returns an exit_code after a message
 * if there is none; `path` is the pack. */
static int select_kernels(struct selection *s, const char *path, const char *pattern)
{
    const uint32_t count = attn_pack_kernel_count(s->pack);
    struct attnc_nearest nearest = attnc_nearest_to(pattern);
    s->kernels = calloc((size_t)count + 1, sizeof(*s->kernels));
    if (!s->kernels)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (uint32_t n = 0; n < count; n++) {
        const struct attn_kernel_info info = kernel_info(s->pack, n);
        if (fnmatch(pattern, info.name, 0) == 0)
            s->kernels[s->count++] = n;
        attnc_nearest_offer(&nearest, info.name);
    }
    if (s->count)
        return EXIT_GOOD;
    return complain_nearest(nearest.name, "%s has no kernel '%s'; `attnc list` shows their names",
                            path, pattern);
}

/* Traces the selected kernels in child processes. Returns an exit_code. */
static int trace_selection(struct selection *s)
{
    unsigned jobs = 1;
    if (args.jobs && !parse_jobs("trace", args.jobs, &jobs))
        return EXIT_USER;
    if (s->count > 1 && (args.output || args.annotate))
        return complain(EXIT_USER, "trace: -o and --annotate are files of one kernel, not of %zu",
                        s->count);
    if (args.shape && !strcmp(args.shape, "help"))
        s->count = 1;
    const struct children children = {
        .parts = s->count,
        .jobs = jobs,
        .steps = s->count > 1 ? s->count : 0,
        .work = trace_part,
        .collect = collect_part,
        .name = name_part,
        .context = s,
    };
    s->json = (struct json){.out = stdout};
    if (args.json)
        json_begin_list(&s->json, NULL);
    const int code = run_children(&children);
    if (args.json)
        json_end(&s->json);
    return code;
}

/* Checks the path of an output before the launch, and refuses a directory. Returns an exit_code
 * after a message. */
static int check_file(const char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(EISDIR));
    return check_output(path);
}

extern const struct command command_trace;

/* Runs `attnc trace`. */
static int run(int argc, char **argv)
{
    if (argc != 2)
        return wrong_operands(&command_trace, argc, argv);
    struct selection s = {0};
    int code = open_pack(argv[0], &s.pack);
    if (code != EXIT_GOOD)
        return code;
    code = read_pack(argv[0], &s.bytes);
    if (code == EXIT_GOOD)
        code = check_file(args.output);
    if (code == EXIT_GOOD)
        code = check_file(args.annotate);
    if (code == EXIT_GOOD)
        code = select_kernels(&s, argv[0], argv[1]);
    if (code == EXIT_GOOD)
        code = trace_selection(&s);
    free(s.kernels);
    free(s.bytes);
    attn_pack_close(s.pack);
    return code;
}

const struct command command_trace = {
    .name = "trace",
    .usage = "PACK KERNEL [OPTION]...",
    .summary = "Run one kernel on the simulator in modelled time",
    .details =
        "KERNEL is a name or a pattern (prefill_*), for a report of each kernel that matches.\n"
        "Prints modelled cycles, rooflines and stalls. -o writes a trace for ui.perfetto.dev: a\n"
        "track per wave with instructions and stall causes, counters of the units. Everything is\n"
        "modelled, nothing is measured: tools/hipsim/docs/timing.md.",
    .options = options,
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace: one launch of one kernel on the simulator with its timing model: a summary, a
 * trace to open in Perfetto, the disassembly with cycles per line.
 */
#include "tools/attnc/trace.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/nearest.h"
#include "tools/attnc/children.h"
#include "tools/attnc/command.h"
#include "tools/attnc/json.h"
#include "tools/attnc/output.h"
#include "tools/attnc/pack_file.h"
#include "tools/hipsim/time/hipsim_time.h"

static struct {
    const char *shape;
    const char *output;
    const char *annotate;
    const char *parameters;
    const char *jobs;
    bool samples_only, json;
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
    {"samples-only", 0, NULL, "execute only the workgroups that are timed, for large shapes", NULL,
     &args.samples_only},
    {"jobs", 'j', "N", "kernels at once, where KERNEL matches several (default: 1)", &args.jobs,
     NULL},
    {"json", 0, NULL, "print a JSON list of reports", NULL, &args.json},
    {0},
};

enum { TENSOR_MAX = 1 << 30 }; /* elements that a traced tensor may have */

/* Ops whose calls are not yet those of verification. */
static const struct trace_family *const families[] = {
    &trace_prefill, &trace_decode, &trace_mla_decode, &trace_plan, &trace_rope_qk_norm_cache,
    &trace_topk,
};

/* The simulator's timing interface, from its library. */
struct timing {
    bool (*enable)(const struct hipsim_time_options *options, char *why, size_t why_size);
    bool (*last)(struct hipsim_time_report *report);
    int (*format)(const struct hipsim_time_report *report, char *text, size_t size);
    const char *(*stall_name)(enum hipsim_stall stall);
};

static int *number_of(const struct verify_op *op, unsigned i, void *shape)
{
    return (int *)((char *)shape + op->dimensions[i].offset);
}

/* The call that verification makes of the op's shape for traces, with the numbers of --shape. */
static int prepare_call(struct trace_run *run)
{
    struct call *c = &run->call;
    char why[200];
    void *shape = call_allocate(c, 1, c->op->shape_size);
    memcpy(shape, c->op->trace, c->op->shape_size);
    for (unsigned i = 0; i < VERIFY_DIMENSIONS && c->op->dimensions[i].name; i++)
        *number_of(c->op, i, shape) = run->shape[i];
    c->shape = shape;
    c->pack = run->pack;
    c->n = run->n;
    c->target = run->info->target;
    c->memory.gpu = run->memory.gpu;
    if (!call_prepare(c, why, sizeof(why)))
        return complain(EXIT_USER, "--shape: %s", why);
    run->memory.error = c->memory.error;
    run->least_bytes = call_least_bytes(c);
    memcpy(run->args, &c->args, sizeof(c->args));
    return trace_lookup(run, &c->desc);
}

/* The dimensions of a verification's shape, as this file sees them. */
static const struct trace_family *family_of_call(const struct verify_op *op)
{
    static struct trace_family f;
    f = (struct trace_family){
        .op = op->op,
        .args_size = sizeof(union verify_args),
        .prepare = prepare_call,
    };
    for (unsigned i = 0; i < VERIFY_DIMENSIONS && op->dimensions[i].name; i++) {
        const struct verify_dimension *d = &op->dimensions[i];
        f.dimensions[i] = (struct trace_dimension){d->name, *number_of(op, i, (void *)op->trace),
                                                   d->most, d->help};
    }
    return &f;
}

static const struct trace_family *find_family(const char *name)
{
    const struct verify_op *op = verify_op_of(name);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (!strcmp(families[i]->op, name))
            return families[i];
    }
    return op && op->trace ? family_of_call(op) : NULL;
}

int trace_lookup(struct trace_run *run, const void *desc)
{
    if (verify_schema_of(run->info->op)->lookup(run->memory.gpu->device, desc, &run->op))
        return complain(EXIT_USER, "%s", attn_last_error());
    return EXIT_GOOD;
}

int trace_check_elements(double elements)
{
    if (elements <= TENSOR_MAX)
        return EXIT_GOOD;
    return complain(EXIT_USER,
                    "--shape: a tensor of %.0f elements is more than the %d that trace "
                    "allocates",
                    elements, TENSOR_MAX);
}

/* Inputs. */

static bool keep(struct trace_run *run, void *bytes, size_t size, void **device)
{
    *device = bytes ? device_copy(&run->memory, bytes, size) : NULL;
    free(bytes);
    return *device != NULL;
}

void *trace_random(struct trace_run *run, const char *dtype, size_t count)
{
    const struct precision *precision = find_precision(dtype);
    const bool f32 = !strcmp(dtype, "f32");
    const size_t size = f32 ? 4 : precision ? 2 : 1;
    uint64_t random = 1;
    uint8_t *bytes = malloc(count * size + 16);
    for (size_t i = 0; bytes && i < count; i++) {
        if (f32) {
            const float value = (float)random_value(&random);
            memcpy(bytes + i * size, &value, size);
        } else if (precision) {
            const uint16_t value = encode_element(precision, random_value(&random));
            memcpy(bytes + i * size, &value, size);
        } else {
            bytes[i] = (uint8_t)(random_bits(&random) & 0x3f); /* at most 1.875 in every fp8 */
        }
    }
    void *device;
    keep(run, bytes, count * size + 16, &device);
    return device;
}

void *trace_room(struct trace_run *run, size_t count, size_t size)
{
    void *device;
    keep(run, calloc(count + 1, size), (count + 1) * size, &device);
    return device;
}

static void *ones(struct trace_run *run, size_t count)
{
    float *scales = malloc(count * sizeof(*scales));
    for (size_t i = 0; scales && i < count; i++)
        scales[i] = 1;
    void *device;
    keep(run, scales, count * sizeof(*scales), &device);
    return device;
}

void trace_cache(struct trace_run *run, const struct attn_cache_desc *desc, size_t slots,
                 int head_dim, int head_dim_v, struct attn_cache *cache)
{
    static const char *const dtypes[] = {
        [ATTN_BF16] = "bf16", [ATTN_FP16] = "fp16", [ATTN_FP8] = "fp8", [ATTN_INT8] = "int8"};
    cache->k = trace_random(run, dtypes[desc->dtype], slots * head_dim);
    cache->v = trace_random(run, dtypes[desc->dtype], slots * head_dim_v);
    cache->k_scale = ones(run, slots + 1);
    cache->v_scale = ones(run, slots + 1);
}

int32_t *trace_steps(struct trace_run *run, size_t count, int32_t first, int32_t step)
{
    int32_t *values = malloc((count + 1) * sizeof(*values));
    for (size_t i = 0; values && i < count; i++)
        values[i] = first + (int32_t)i * step;
    void *device;
    keep(run, values, (count + 1) * sizeof(*values), &device);
    return device;
}

/* The shape. */

static unsigned count_dimensions(const struct trace_family *f)
{
    unsigned n = 0;
    while (n < TRACE_DIMENSIONS && f->dimensions[n].name)
        n++;
    return n;
}

static void explain_shape(const struct trace_family *f)
{
    printf("--shape of %s:\n", f->op);
    for (unsigned i = 0; i < count_dimensions(f); i++) {
        printf("  %-12s %s", f->dimensions[i].name, f->dimensions[i].help);
        if (f->dimensions[i].fallback)
            printf(" (%d)", f->dimensions[i].fallback);
        printf("\n");
    }
}

static int set_dimension(const struct trace_family *f, struct trace_run *run, const char *name,
                         size_t length, long value)
{
    for (unsigned i = 0; i < count_dimensions(f); i++) {
        const struct trace_dimension *d = &f->dimensions[i];
        if (strlen(d->name) != length || strncmp(d->name, name, length))
            continue;
        if (value < 1 || value > d->most)
            return complain(EXIT_USER, "--shape: %s is 1 to %d, not %ld", d->name, d->most, value);
        run->shape[i] = (int)value;
        return EXIT_GOOD;
    }
    char given[32];
    snprintf(given, sizeof(given), "%.*s", (int)length, name);
    struct attnc_nearest nearest = attnc_nearest_to(given);
    for (unsigned i = 0; i < count_dimensions(f); i++)
        attnc_nearest_offer(&nearest, f->dimensions[i].name);
    return complain_nearest(nearest.name, "--shape: %s has no '%s'; --shape help lists what it has",
                            f->op, given);
}

static int parse_shape(const struct trace_family *f, const char *text, struct trace_run *run)
{
    for (unsigned i = 0; i < count_dimensions(f); i++)
        run->shape[i] = f->dimensions[i].fallback;
    while (text && *text) {
        size_t length = strcspn(text, "=,");
        char *end = NULL;
        long value = text[length] == '=' ? strtol(text + length + 1, &end, 10) : 0;
        if (!end || end == text + length + 1 || (*end && *end != ','))
            return complain(EXIT_USER, "--shape: '%s' is not NAME=NUMBER", text);
        int code = set_dimension(f, run, text, length, value);
        if (code != EXIT_GOOD)
            return code;
        text = *end ? end + 1 : end;
    }
    return EXIT_GOOD;
}

/* The launch. */

static bool find(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    memcpy(slot, &address, sizeof(address));
    return address != NULL;
}

static bool open_timing(const char *simulator, struct timing *t)
{
    void *library = dlopen(simulator, RTLD_NOW | RTLD_LOCAL);
    return library && find(library, "hipsim_time_enable", &t->enable) &&
           find(library, "hipsim_time_last", &t->last) &&
           find(library, "hipsim_time_format", &t->format) &&
           find(library, "hipsim_stall_name", &t->stall_name);
}

static void print_report(const struct trace_run *run, const struct timing *timing,
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
    const double us = report->us_at_power - report->launch_us;
    printf("  least bytes %.3f MB: %.3f times that were moved; at %.0f GB/s they take %.2f us, "
           "%.1f %% of the modelled time without launch\n",
           run->least_bytes / 1e6, bytes / run->least_bytes, report->memory_gb_per_s,
           run->least_bytes / report->memory_gb_per_s / 1e3,
           run->least_bytes / report->memory_gb_per_s / 10 / us);
}

static void shape_json(struct json *j, const struct trace_run *run, const struct trace_family *f)
{
    json_begin_object(j, "shape");
    for (unsigned i = 0; i < count_dimensions(f); i++)
        json_integer(j, f->dimensions[i].name, run->shape[i]);
    json_end(j);
}

/* Per XCD, how much of its room for workgroups was taken in each part of the launch's time. */
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

static void stalls_json(struct json *j, const struct timing *timing,
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

/* One report in one line: run_children() keeps lines together. */
static void print_json(const struct trace_run *run, const struct trace_family *f,
                       const struct timing *timing, const struct hipsim_time_report *r)
{
    struct json j = {.out = stdout, .compact = true};
    json_begin_object(&j, NULL);
    json_string(&j, "kernel", run->info->name);
    json_string(&j, "target", r->target);
    shape_json(&j, run, f);
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

static int launch(const struct trace_family *f, const struct trace_run *run,
                  const struct timing *timing)
{
    char why[400];
    struct attn_op_info info = {.size = sizeof(info)};
    attn_op_describe(run->op, &info);
    const struct hipsim_time_options time = {
        .samples_only = args.samples_only,
        .parameters = args.parameters,
        .trace_path = args.output,
        .annotate_path = args.annotate,
    };
    struct hipsim_time_report report;
    const struct gpu *gpu = run->memory.gpu;
    int error;
    if (strcmp(info.kernel.name, run->info->name))
        return complain(EXIT_USER, "for this shape lookup takes another kernel: %s",
                        info.kernel.name);
    if (!timing->enable(&time, why, sizeof(why)))
        return complain(EXIT_USER, "--parameters: %s", why);
    if (verify_schema_of(f->op)->launch(run->op, run->args))
        return complain(EXIT_USER, "%s", attn_last_error());
    if ((error = gpu->hipDeviceSynchronize()))
        return complain(EXIT_ENVIRONMENT, "%s", gpu->hipGetErrorName(error));
    if (!timing->last(&report))
        return complain(EXIT_ENVIRONMENT, "the launch was not timed");
    if (args.json)
        print_json(run, f, timing, &report);
    else
        print_report(run, timing, &report);
    return EXIT_GOOD;
}

/* Races are what attnc verify looks for; shapes that are traced are too large to follow. */
static const char checks[] = "memory+align+uninit+wait+hazard+barrier+diverge";

static int trace_kernel(struct attn_pack *pack, uint32_t n, const struct attn_kernel_info *info)
{
    char simulator[4096], why[600];
    struct timing timing;
    struct gpu gpu;
    struct trace_run run = {.pack = pack, .n = n, .info = info, .memory = {.gpu = &gpu}};
    run.call.op = verify_op_of(info->op);
    const struct trace_family *f = find_family(info->op);
    if (!f)
        return complain(EXIT_USER, "%s: trace has no inputs for %s kernels", info->name, info->op);
    if (args.shape && !strcmp(args.shape, "help")) {
        explain_shape(f);
        return EXIT_GOOD;
    }
    int code = parse_shape(f, args.shape, &run);
    if (code != EXIT_GOOD)
        return code;
    if (!gpu_find_simulator(simulator, sizeof(simulator)) || !open_timing(simulator, &timing))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    if (!gpu_open(&gpu, simulator, checks, info->target, pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    run.args = calloc(1, f->args_size);
    code = run.args ? f->prepare(&run) : complain(EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_GOOD && run.memory.error)
        code = complain(EXIT_ENVIRONMENT, "no memory for the shape: %s",
                        gpu.hipGetErrorName(run.memory.error));
    if (code == EXIT_GOOD)
        code = launch(f, &run, &timing);
    attn_op_destroy(run.op);
    device_free(&run.memory);
    call_free(&run.call);
    free(run.args);
    gpu_close(&gpu);
    return code;
}

/* The kernels that the command line names, for children where there are several. */
struct selection {
    struct attn_pack *pack;
    uint32_t *kernels;
    size_t count;
    struct json json;
};

static struct attn_kernel_info kernel_info(const struct attn_pack *pack, uint32_t n)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    if (attn_pack_kernel(pack, n, &info) != ATTN_OK)
        exit(complain(EXIT_USER, "%s", attn_last_error()));
    return info;
}

static int trace_part(void *context, size_t part, struct child_report *report)
{
    struct selection *s = context;
    const struct attn_kernel_info info = kernel_info(s->pack, s->kernels[part]);
    child_step(report, info.name);
    if (!args.json && s->count > 1)
        printf("%s\n", info.name);
    return trace_kernel(s->pack, s->kernels[part], &info);
}

static void collect_part(void *context, size_t part, FILE *printed, const size_t results[])
{
    struct selection *s = context;
    (void)part, (void)results;
    if (!args.json) {
        copy_printed(printed);
        return;
    }
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, printed)) > 0;) {
        line[length - 1] = '\0';
        json_raw(&s->json, NULL, line);
    }
    free(line);
}

static const char *name_part(void *context, size_t part)
{
    const struct selection *s = context;
    return kernel_info(s->pack, s->kernels[part]).name;
}

/* Every kernel whose name is `pattern` or matches it. */
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

static int run(int argc, char **argv)
{
    if (argc != 2)
        return complain(EXIT_USER, "usage: attnc trace PACK KERNEL [OPTION]...");
    struct selection s = {0};
    int code = open_pack(argv[0], &s.pack);
    if (code != EXIT_GOOD)
        return code;
    code = check_output(args.output);
    if (code == EXIT_GOOD)
        code = check_output(args.annotate);
    if (code == EXIT_GOOD)
        code = select_kernels(&s, argv[0], argv[1]);
    if (code == EXIT_GOOD)
        code = trace_selection(&s);
    free(s.kernels);
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
        "modelled, nothing is measured: docs/timing.md.",
    .options = options,
    .run = run,
};

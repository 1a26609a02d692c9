/* SPDX-License-Identifier: Apache-2.0
 *
 * This file prepares a launch: opens a device, makes the arguments of a shape and checks which
 * kernel libattn chooses. attnc trace, tune, bench and step use it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/nearest.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/trace/trace.h"

/* Returns how many dimensions the op's shape has. */
static unsigned count_dimensions(const struct verify_op *op)
{
    unsigned n = 0;
    while (n < VERIFY_DIMENSIONS && op->dimensions[n].name)
        n++;
    return n;
}

/* Returns a pointer to dimension `i` in `shape`, a struct of the op's own type. */
static int *number_of(const struct verify_op *op, unsigned i, void *shape)
{
    return (int *)((char *)shape + op->dimensions[i].offset);
}

const struct verify_op *trace_find_op(const char *name)
{
    const struct verify_op *op = verify_op_of(name);
    return op && op->trace ? op : NULL;
}

/* Makes inputs and outputs of the shape in `run`, as verification does, and looks up the op. Sizes
 * of the shape may change. Returns an exit_code after a message. */
static int prepare(struct trace_run *run)
{
    struct call *c = &run->call;
    char why[200];
    void *shape = call_allocate(c, 1, c->op->shape_size);
    memcpy(shape, c->op->trace, c->op->shape_size);
    for (unsigned i = 0; i < count_dimensions(c->op); i++)
        *number_of(c->op, i, shape) = run->shape[i];
    c->pack = run->pack;
    c->n = run->n;
    c->target = run->info->target;
    const bool made = call_prepare(c, shape, why, sizeof(why));
    for (unsigned i = 0; i < count_dimensions(c->op); i++)
        run->shape[i] = *number_of(c->op, i, shape);
    if (!made)
        return complain(EXIT_USER, "--shape: %s", why);
    run->least_bytes = call_least_bytes(c);
    if (c->schema->lookup(c->memory.gpu->device, &c->desc, &run->op))
        return complain(EXIT_USER, "%s", attn_last_error());
    return EXIT_GOOD;
}

/* The functions from here on read and explain shapes. */

void trace_explain_shape(const struct verify_op *op)
{
    printf("--shape of %s:\n", op->op);
    for (unsigned i = 0; i < count_dimensions(op); i++) {
        const int fallback = *number_of(op, i, (void *)op->trace);
        printf("  %-12s %s", op->dimensions[i].name, op->dimensions[i].help);
        if (fallback)
            printf(" (%d)", fallback);
        printf("\n");
    }
}

int trace_dimension(const struct verify_op *op, const int *shape, const char *name)
{
    for (unsigned i = 0; i < count_dimensions(op); i++) {
        if (!strcmp(op->dimensions[i].name, name))
            return shape[i];
    }
    return 0;
}

/* Sets the dimension called `name`, of `length` characters, to `value`. Returns an exit_code after
 * a message: EXIT_USER if it is unknown, given twice or out of range. */
static int set_dimension(const struct verify_op *op, int *shape, const char *name, size_t length,
                         long value)
{
    for (unsigned i = 0; i < count_dimensions(op); i++) {
        const struct verify_dimension *d = &op->dimensions[i];
        if (strlen(d->name) != length || strncmp(d->name, name, length))
            continue;
        if (shape[i])
            return complain(EXIT_USER, "--shape: %s is given twice", d->name);
        if (value < 1 || value > d->most)
            return complain(EXIT_USER, "--shape: %s is 1 to %d, not %ld", d->name, d->most, value);
        shape[i] = (int)value;
        return EXIT_GOOD;
    }
    char given[32];
    snprintf(given, sizeof(given), "%.*s", (int)length, name);
    struct attnc_nearest nearest = attnc_nearest_to(given);
    for (unsigned i = 0; i < count_dimensions(op); i++)
        attnc_nearest_offer(&nearest, op->dimensions[i].name);
    return complain_nearest(nearest.name, "--shape: %s has no '%s'; --shape help lists what it has",
                            op->op, given);
}

int trace_parse_shape(const struct verify_op *op, const char *text, int *shape)
{
    memset(shape, 0, count_dimensions(op) * sizeof(*shape));
    while (text && *text) {
        size_t length = strcspn(text, "=,");
        char *end = NULL;
        long value = text[length] == '=' ? strtol(text + length + 1, &end, 10) : 0;
        if (!end || end == text + length + 1 || (*end && *end != ','))
            return complain(EXIT_USER, "--shape: '%s' is not NAME=NUMBER", text);
        int code = set_dimension(op, shape, text, length, value);
        if (code != EXIT_GOOD)
            return code;
        text = *end ? end + 1 : end;
    }
    for (unsigned i = 0; i < count_dimensions(op); i++)
        shape[i] = shape[i] ? shape[i] : *number_of(op, i, (void *)op->trace);
    return EXIT_GOOD;
}

/* The functions from here on open sessions and time launches. */

/* Loads the timing functions from the library at `simulator`. Returns false if one is absent. */
static bool open_timing(const char *simulator, struct trace_timing *t)
{
    void *library = dlopen(simulator, RTLD_NOW | RTLD_LOCAL);
    return library && gpu_find_function(library, "hipsim_time_enable", &t->enable) &&
           gpu_find_function(library, "hipsim_time_last", &t->last) &&
           gpu_find_function(library, "hipsim_time_format", &t->format) &&
           gpu_find_function(library, "hipsim_stall_name", &t->stall_name);
}

int trace_time(struct trace_session *t, const struct hipsim_time_options *time,
               struct hipsim_time_report *report)
{
    char why[400];
    struct trace_run *run = &t->run;
    int error;
    if (!t->timing.enable)
        return complain(EXIT_ENVIRONMENT, "only the simulator has a timing model");
    if (!t->timing.enable(time, why, sizeof(why)))
        return complain(EXIT_USER, "--parameters: %s", why);
    if (run->call.schema->launch(run->op, &run->call.args))
        return complain(EXIT_USER, "%s", attn_last_error());
    if ((error = t->gpu.hipDeviceSynchronize()))
        return complain(EXIT_ENVIRONMENT, "%s", t->gpu.hipGetErrorName(error));
    if (!t->timing.last(report))
        return complain(EXIT_ENVIRONMENT, "the launch was not timed");
    return EXIT_GOOD;
}

/* Sets *kernel to the kernel that libattn chooses for the arguments. Returns an exit_code after a
 * message. */
static int find_choice(const struct trace_run *run, struct attn_kernel_info *kernel)
{
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_op_describe_launch(run->op, &run->call.args, &info))
        return complain(EXIT_USER, "%s", attn_last_error());
    *kernel = info.kernel;
    return EXIT_GOOD;
}

/* Checks that libattn chooses the kernel of `run` for its arguments. Returns EXIT_USER after a
 * message if not. */
static int check_choice(const struct trace_run *run)
{
    struct attn_kernel_info kernel;
    const int code = find_choice(run, &kernel);
    if (code != EXIT_GOOD || !strcmp(kernel.name, run->info->name))
        return code;
    return complain(EXIT_USER, "for this shape lookup takes another kernel: %s", kernel.name);
}

/* The simulator's checks during a trace: all but races, which would take too long on shapes of this
 * size. */
static const char checks[] = "memory+align+uninit+wait+hazard+barrier+diverge";

/* Opens the GPU or the simulator with the pack. Returns an exit_code after a message. */
static int open_gpu(struct trace_session *t, struct attn_pack *pack, const struct trace_gpu *gpu)
{
    char simulator[4096], why[600];
    const bool simulated = !gpu || !gpu->real;
    if (simulated &&
        (!gpu_find_simulator(simulator, sizeof(simulator)) || !open_timing(simulator, &t->timing)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    const struct gpu_choice choice = {.target = t->info.target,
                                      .simulator = simulated ? simulator : NULL,
                                      .checks = checks,
                                      .part = gpu ? gpu->part : NULL};
    t->opened = gpu_open(&t->gpu, &choice, pack, why, sizeof(why));
    if (!t->opened && choice.part)
        return complain(EXIT_USER, "--part: %s", why);
    return t->opened ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "%s", why);
}

/* Opens the device and makes the arguments, but does not check which kernel libattn chooses.
 * Returns an exit_code after a message. */
static int open_shape(struct trace_session *t, struct attn_pack *pack, uint32_t n,
                      const char *shape, const struct trace_gpu *gpu)
{
    *t = (struct trace_session){.info = {.size = sizeof(t->info)}};
    t->run = (struct trace_run){.pack = pack, .n = n, .info = &t->info};
    t->run.call.memory.gpu = &t->gpu;
    if (attn_pack_kernel(pack, n, &t->info))
        return complain(EXIT_USER, "%s", attn_last_error());
    const struct verify_op *op = t->run.call.op = trace_find_op(t->info.op);
    if (!op)
        return complain(EXIT_USER, "%s: trace has no inputs for %s kernels", t->info.name,
                        t->info.op);
    int code = trace_parse_shape(op, shape, t->run.shape);
    if (code == EXIT_GOOD)
        code = open_gpu(t, pack, gpu);
    if (code != EXIT_GOOD)
        return code;
    code = prepare(&t->run);
    if (code == EXIT_GOOD && t->run.call.memory.error)
        code = complain(EXIT_ENVIRONMENT, "no memory for the shape: %s",
                        t->gpu.hipGetErrorName(t->run.call.memory.error));
    return code;
}

int trace_open(struct trace_session *t, struct attn_pack *pack, uint32_t n, const char *shape,
               const struct trace_gpu *gpu)
{
    const int code = open_shape(t, pack, n, shape, gpu);
    return code == EXIT_GOOD ? check_choice(&t->run) : code;
}

int trace_open_any(struct trace_session *t, struct attn_pack *pack, const char *shape,
                   const struct trace_gpu *gpu)
{
    const int code = open_shape(t, pack, 0, shape, gpu);
    return code == EXIT_GOOD ? find_choice(&t->run, &t->info) : code;
}

void trace_close(struct trace_session *t)
{
    attn_op_destroy(t->run.op);
    if (!t->opened)
        return;
    call_free(&t->run.call);
    gpu_close(&t->gpu);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel on a device with the arguments of a shape, ready to be launched: for attnc trace, tune
 * and bench. An op's inputs are those of tools/verify/<op>.c, or trace_<op>.c.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/nearest.h"
#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum { TENSOR_MAX = 1 << 30 }; /* elements that a traced tensor may have */

/* Ops whose calls are not yet those of verification. */
static const struct trace_family *const families[] = {
    &trace_topk,
    &trace_indexer_topk,
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
    c->pack = run->pack;
    c->n = run->n;
    c->target = run->info->target;
    c->memory.gpu = run->memory.gpu;
    const bool made = call_prepare(c, shape, why, sizeof(why));
    for (unsigned i = 0; i < VERIFY_DIMENSIONS && c->op->dimensions[i].name; i++)
        run->shape[i] = *number_of(c->op, i, shape);
    if (!made)
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

const struct trace_family *trace_find_family(const char *name)
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

void trace_explain_shape(const struct trace_family *f)
{
    printf("--shape of %s:\n", f->op);
    for (unsigned i = 0; i < count_dimensions(f); i++) {
        printf("  %-12s %s", f->dimensions[i].name, f->dimensions[i].help);
        if (f->dimensions[i].fallback)
            printf(" (%d)", f->dimensions[i].fallback);
        printf("\n");
    }
}

static int set_dimension(const struct trace_family *f, int *shape, const char *name, size_t length,
                         long value)
{
    for (unsigned i = 0; i < count_dimensions(f); i++) {
        const struct trace_dimension *d = &f->dimensions[i];
        if (strlen(d->name) != length || strncmp(d->name, name, length))
            continue;
        if (value < 1 || value > d->most)
            return complain(EXIT_USER, "--shape: %s is 1 to %d, not %ld", d->name, d->most, value);
        shape[i] = (int)value;
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

int trace_parse_shape(const struct trace_family *f, const char *text, int *shape)
{
    for (unsigned i = 0; i < count_dimensions(f); i++)
        shape[i] = f->dimensions[i].fallback;
    while (text && *text) {
        size_t length = strcspn(text, "=,");
        char *end = NULL;
        long value = text[length] == '=' ? strtol(text + length + 1, &end, 10) : 0;
        if (!end || end == text + length + 1 || (*end && *end != ','))
            return complain(EXIT_USER, "--shape: '%s' is not NAME=NUMBER", text);
        int code = set_dimension(f, shape, text, length, value);
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

static bool open_timing(const char *simulator, struct trace_timing *t)
{
    void *library = dlopen(simulator, RTLD_NOW | RTLD_LOCAL);
    return library && find(library, "hipsim_time_enable", &t->enable) &&
           find(library, "hipsim_time_last", &t->last) &&
           find(library, "hipsim_time_format", &t->format) &&
           find(library, "hipsim_stall_name", &t->stall_name);
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
    if (verify_schema_of(t->family->op)->launch(run->op, run->args))
        return complain(EXIT_USER, "%s", attn_last_error());
    if ((error = t->gpu.hipDeviceSynchronize()))
        return complain(EXIT_ENVIRONMENT, "%s", t->gpu.hipGetErrorName(error));
    if (!t->timing.last(report))
        return complain(EXIT_ENVIRONMENT, "the launch was not timed");
    return EXIT_GOOD;
}

/* Does the pack give these arguments to the kernel? */
static int check_choice(const struct trace_run *run)
{
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_op_describe_launch(run->op, run->args, &info))
        return complain(EXIT_USER, "%s", attn_last_error());
    if (!strcmp(info.kernel.name, run->info->name))
        return EXIT_GOOD;
    return complain(EXIT_USER, "for this shape lookup takes another kernel: %s", info.kernel.name);
}

/* Races are what attnc verify looks for; shapes that are traced are too large to follow. */
static const char checks[] = "memory+align+uninit+wait+hazard+barrier+diverge";

static int open_gpu(struct trace_session *t, struct attn_pack *pack, const char *hip)
{
    char simulator[4096], why[600];
    const bool simulated = !hip;
    if (simulated &&
        (!gpu_find_simulator(simulator, sizeof(simulator)) || !open_timing(simulator, &t->timing)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    t->opened = gpu_open(&t->gpu, simulated ? simulator : NULL, checks, t->info.target, pack, why,
                         sizeof(why));
    return t->opened ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "%s", why);
}

int trace_open(struct trace_session *t, struct attn_pack *pack, uint32_t n, const char *shape,
               const char *hip)
{
    *t = (struct trace_session){.info = {.size = sizeof(t->info)}};
    t->run = (struct trace_run){.pack = pack, .n = n, .info = &t->info, .memory = {.gpu = &t->gpu}};
    if (attn_pack_kernel(pack, n, &t->info))
        return complain(EXIT_USER, "%s", attn_last_error());
    t->run.call.op = verify_op_of(t->info.op);
    const struct trace_family *f = t->family = trace_find_family(t->info.op);
    if (!f)
        return complain(EXIT_USER, "%s: trace has no inputs for %s kernels", t->info.name,
                        t->info.op);
    int code = trace_parse_shape(f, shape, t->run.shape);
    if (code == EXIT_GOOD)
        code = open_gpu(t, pack, hip);
    if (code != EXIT_GOOD)
        return code;
    t->run.args = calloc(1, f->args_size);
    code = t->run.args ? f->prepare(&t->run) : complain(EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_GOOD && t->run.memory.error)
        code = complain(EXIT_ENVIRONMENT, "no memory for the shape: %s",
                        t->gpu.hipGetErrorName(t->run.memory.error));
    return code == EXIT_GOOD ? check_choice(&t->run) : code;
}

void trace_close(struct trace_session *t)
{
    attn_op_destroy(t->run.op);
    if (t->opened) {
        device_free(&t->run.memory);
        call_free(&t->run.call);
    }
    free(t->run.args);
    if (t->opened)
        gpu_close(&t->gpu);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace: one launch of one kernel on the simulator with its timing model: a summary, a
 * trace to open in Perfetto, the disassembly with cycles per line.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/command.h"
#include "tools/attnc/verify.h"
#include "tools/attnc/verify_tensor.h"
#include "tools/hipsim/hipsim_time.h"

enum { TENSOR_MAX = 1 << 28 }; /* elements that a traced tensor may have */

static struct {
    const char *shape;
    const char *output;
    const char *annotate;
    const char *parameters;
    bool samples_only;
} args;

static const struct option_row options[] = {
    { "shape", 0, "SHAPE", "batch=1,q=512,k=512,heads=8,kv_heads=1 and the like; what is left out "
      "is as small as the kernel allows", &args.shape, NULL },
    { "output", 'o', "FILE", "the trace, JSON for Perfetto", &args.output, NULL },
    { "annotate", 0, "FILE", "the disassembly with cycles and stalls per line", &args.annotate,
      NULL },
    { "parameters", 0, "LIST", "of the timing model: trans_cycles=8,hbm_ns=400", &args.parameters,
      NULL },
    { "samples-only", 0, NULL, "execute only the workgroups that are timed, for large shapes", NULL,
      &args.samples_only },
    { 0 },
};

struct shape {
    int batch, q, k, heads, kv_heads;
};

/* The simulator's timing interface, from its library. */
struct timing {
    bool (*enable)(const struct hipsim_time_options *options, char *why, size_t why_size);
    bool (*last)(struct hipsim_time_report *report);
    int (*format)(const struct hipsim_time_report *report, char *text, size_t size);
};

static bool set_dimension(struct shape *s, const char *name, size_t length, long value)
{
    const struct {
        const char *name;
        int *to;
    } names[] = {
        { "batch", &s->batch }, { "q", &s->q }, { "k", &s->k }, { "heads", &s->heads },
        { "kv_heads", &s->kv_heads },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i].name) == length && !strncmp(names[i].name, name, length)) {
            *names[i].to = (int)value;
            return true;
        }
    }
    return false;
}

static int parse_shape(const char *text, struct shape *s)
{
    while (text && *text) {
        size_t length = strcspn(text, "=");
        char *end = NULL;
        long value = text[length] ? strtol(text + length + 1, &end, 10) : 0;
        if (!end || end == text + length + 1 || (*end && *end != ',') || value < 1 ||
            value > 1 << 20)
            return complain(EXIT_USER, "--shape: '%s' is not NAME=NUMBER", text);
        if (!set_dimension(s, text, length, value))
            return complain(EXIT_USER,
                            "--shape: there is no '%.*s'; a shape has batch, q, k, heads "
                            "and kv_heads", (int)length, text);
        text = *end ? end + 1 : end;
    }
    return EXIT_GOOD;
}

/* Fills in what the user left out, for the kernel's ratio of heads. */
static int complete_shape(struct shape *s, const struct attn_prefill_desc *desc)
{
    int ratio = desc->heads ? desc->heads / desc->kv_heads : 0;
    s->batch = s->batch ? s->batch : 1;
    s->q = s->q ? s->q : 512;
    s->k = s->k ? s->k : s->q;
    if (!s->kv_heads)
        s->kv_heads = s->heads && ratio ? s->heads / ratio : 1;
    if (!s->heads)
        s->heads = s->kv_heads * (ratio ? ratio : 1);
    if (!s->kv_heads || s->heads % s->kv_heads || (ratio && s->heads / s->kv_heads != ratio))
        return complain(EXIT_USER, "--shape: %d heads over %d KV heads is not the kernel's ratio",
                        s->heads, s->kv_heads);
    double most = fmax((double)s->q * s->heads, (double)s->k * s->kv_heads) * s->batch
        * fmax(desc->head_dim, desc->head_dim_v);
    if (most > TENSOR_MAX)
        return complain(EXIT_USER, "--shape: a tensor of %.0f elements is more than the %d that "
                        "trace allocates", most, TENSOR_MAX);
    return EXIT_GOOD;
}

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
           find(library, "hipsim_time_format", &t->format);
}

struct tensors {
    struct tensor q, k, v, out;
    int32_t *cu_q, *cu_k;
    struct device_memory memory;
};

static bool upload(struct tensors *t, const struct shape *s, const struct attn_prefill_desc *desc,
                   const struct precision *precision, struct attn_prefill_args *a)
{
    uint64_t random = 1;
    size_t ends = (size_t)s->batch + 1;
    t->cu_q = calloc(ends, sizeof(*t->cu_q));
    t->cu_k = calloc(ends, sizeof(*t->cu_k));
    if (!t->cu_q || !t->cu_k)
        return false;
    for (int i = 0; i <= s->batch; i++) {
        t->cu_q[i] = i * s->q;
        t->cu_k[i] = i * s->k;
    }
    t->q = tensor_dense(precision, s->batch * s->q, s->heads, desc->head_dim);
    t->k = tensor_dense(precision, s->batch * s->k, s->kv_heads, desc->head_dim);
    t->v = tensor_dense(precision, s->batch * s->k, s->kv_heads, desc->head_dim_v);
    t->out = tensor_dense(precision, s->batch * s->q, s->heads, desc->head_dim_v);
    tensor_fill(&t->q, &random);
    tensor_fill(&t->k, &random);
    tensor_fill(&t->v, &random);
    *a = (struct attn_prefill_args){
        .size = sizeof(*a), .batch = s->batch, .max_seqlen_q = s->q, .max_seqlen_k = s->k,
        .total_q = s->batch * s->q, .total_k = s->batch * s->k,
        .scale = 1 / sqrtf((float)desc->head_dim), .soft_cap = 50, .window_left = -1,
        .window_right = -1,
        .q = tensor_upload(&t->q, &t->memory), .k = tensor_upload(&t->k, &t->memory),
        .v = tensor_upload(&t->v, &t->memory), .out = tensor_upload(&t->out, &t->memory),
        .cu_seqlens_q = device_copy(&t->memory, t->cu_q, ends * sizeof(*t->cu_q)),
        .cu_seqlens_k = device_copy(&t->memory, t->cu_k, ends * sizeof(*t->cu_k)),
        .q_token_stride = t->q.token_stride, .q_head_stride = t->q.head_stride,
        .k_token_stride = t->k.token_stride, .k_head_stride = t->k.head_stride,
        .v_token_stride = t->v.token_stride, .v_head_stride = t->v.head_stride,
        .out_token_stride = t->out.token_stride, .out_head_stride = t->out.head_stride,
    };
    return t->memory.error == 0;
}

static void release(struct tensors *t)
{
    device_free(&t->memory);
    tensor_free(&t->q);
    tensor_free(&t->k);
    tensor_free(&t->v);
    tensor_free(&t->out);
    free(t->cu_q);
    free(t->cu_k);
}

static int launch(struct gpu *gpu, const struct timing *timing, const char *kernel,
                  const struct attn_prefill_desc *desc, const struct attn_prefill_args *a)
{
    char text[4096];
    struct attn_op *op;
    if (attn_prefill_lookup(gpu->device, desc, &op))
        return complain(EXIT_USER, "%s", attn_last_error());
    struct attn_op_info info = { .size = sizeof(info) };
    attn_op_describe(op, &info);
    const struct hipsim_time_options time = {
        .samples_only = args.samples_only, .parameters = args.parameters,
        .trace_path = args.output, .annotate_path = args.annotate,
    };
    struct hipsim_time_report report;
    int code = EXIT_GOOD, error = 0;
    if (strcmp(info.kernel.name, kernel))
        code = complain(EXIT_USER, "for this shape lookup takes another kernel: %s",
                        info.kernel.name);
    else if (!timing->enable(&time, text, sizeof(text)))
        code = complain(EXIT_USER, "--parameters: %s", text);
    else if (attn_prefill_launch(op, a))
        code = complain(EXIT_USER, "%s", attn_last_error());
    else if ((error = gpu->hipDeviceSynchronize()))
        code = complain(EXIT_ENVIRONMENT, "%s", gpu->hipGetErrorName(error));
    else if (!timing->last(&report))
        code = complain(EXIT_ENVIRONMENT, "the launch was not timed");
    if (code == EXIT_GOOD) {
        timing->format(&report, text, sizeof(text));
        fputs(text, stdout);
    }
    attn_op_destroy(op);
    return code;
}

static int trace_kernel(struct attn_pack *pack, uint32_t n, const struct attn_kernel_info *info)
{
    char simulator[4096], why[600];
    struct timing timing;
    struct shape shape = {0};
    struct gpu gpu;
    if (strcmp(info->op, "prefill"))
        return complain(EXIT_USER, "%s: trace launches prefill kernels; this is a %s kernel",
                        info->name, info->op);
    struct attn_prefill_desc desc = verify_prefill_desc(pack, n);
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    if (!precision || desc.logits || desc.lse || desc.sinks)
        return complain(EXIT_USER, "%s: trace has no inputs for its dtype, logits function, lse or "
                        "sinks", info->name);
    int code = parse_shape(args.shape, &shape);
    if (code == EXIT_GOOD)
        code = complete_shape(&shape, &desc);
    if (code != EXIT_GOOD)
        return code;
    desc.heads = shape.heads;
    desc.kv_heads = shape.kv_heads;
    if (!gpu_find_simulator(simulator, sizeof(simulator)) || !open_timing(simulator, &timing))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    if (!gpu_open(&gpu, simulator, info->target, pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    struct tensors tensors = { .memory = { .gpu = &gpu } };
    struct attn_prefill_args a;
    if (upload(&tensors, &shape, &desc, precision, &a))
        code = launch(&gpu, &timing, info->name, &desc, &a);
    else
        code = complain(EXIT_ENVIRONMENT, "no memory for the shape");
    release(&tensors);
    gpu_close(&gpu);
    return code;
}

static int run(int argc, char **argv)
{
    if (argc != 2)
        return complain(EXIT_USER, "usage: attnc trace PACK KERNEL [OPTION]...");
    struct attn_pack *pack;
    int status = attn_pack_open(argv[0], &pack);
    if (status != ATTN_OK)
        return complain(status == ATTN_IO ? EXIT_ENVIRONMENT : EXIT_USER, "%s",
                        attn_last_error());
    int code = -1;
    for (uint32_t n = 0; code < 0 && n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = { .size = sizeof(info) };
        if (attn_pack_kernel(pack, n, &info))
            code = complain(EXIT_USER, "%s", attn_last_error());
        else if (!strcmp(info.name, argv[1]))
            code = trace_kernel(pack, n, &info);
    }
    if (code < 0)
        code = complain(EXIT_USER, "the pack has no kernel '%s'; `attnc list` shows their names",
                        argv[1]);
    attn_pack_close(pack);
    return code;
}

const struct command command_trace = {
    .name = "trace",
    .usage = "PACK KERNEL [OPTION]...",
    .summary = "Run one kernel on the simulator in modelled time",
    .details =
        "Prints modelled cycles, rooflines and stalls. -o writes a trace for ui.perfetto.dev: a\n"
        "track per wave with instructions and stall causes, counters of the units. Everything is\n"
        "modelled, nothing is measured: docs/timing.md.",
    .options = options,
    .run = run,
};

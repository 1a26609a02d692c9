/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times decode of multi-head latent attention with ROCm/aiter's persistent kernels, plus this
 * directory's reduction of split-KV partials. The arguments are struct KernelArgs of
 * csrc/py_itfs_cu/asm_mla.cu, 16 bytes each; the work list is struct MlaWorkInfo of
 * csrc/include/mla.h.
 *
 * The work is split as evenly as aiter's planner splits sequences of equal length. A sequence gets
 * an equal number of compute units, and each of these an equal part of its keys, in units of 16.
 * Rows of a few keys are assumed not to be split; the planner of the measurement is unknown.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

#define QK_DIM 576
#define V_DIM 512
#define KEY_UNIT 16

enum { MOST_CUS = 304, MOST_SPLITS = 16, REDUCE_OCCUPANCY = 8, COPIES = 101 };

static const struct decode_row {
    const char *object, *kernel;
    unsigned element; /* bytes of an element of Q */
    uint32_t heads, queries, batch, keys;
    double us;
    bool short_launch;
    const char *source;
    uint32_t rows;       /* rows of a sequence that the host passes; 0: the number of heads */
    uint32_t kv_element; /* bytes of an element of KV; 0: as `element` */
    /* rows of a workgroup in kernels without a work list; 0: the kernel has a work list */
    uint32_t tile;
} rows[] = {
#define R(...) ROW(__VA_ARGS__)
#define ROW(object, kernel, element, heads, queries, batch, keys, us, short_launch, source) \
    {object, kernel, element, heads, queries, batch, keys, us, short_launch, source, 0, 0, 0},
#include "tools/hipsim/calibration/decode.def"
};

struct argument {
    uint64_t value, unused;
};

enum argument_index {
    ARG_PARTIAL,
    ARG_PARTIAL_LSE,
    ARG_Q,
    ARG_KV,
    ARG_KV_INDPTR,
    ARG_PAGES,
    ARG_LAST_PAGE,
    ARG_SCALE,
    ARG_ROWS, /* rows of Q in a sequence */
    ARG_SPLITS,
    ARG_Q_STRIDE,
    ARG_PAGE_STRIDE,
    ARG_PAGE_LOG2,
    ARG_Q_INDPTR,
    ARG_WORK,
    ARG_OUT,
    ARG_Q_SCALE,
    ARG_KV_SCALE,
    ARG_OUT_SPLITS,
    ARG_LSE,
    ARG_GLOBAL_INDPTR,
    ARG_RANKS,
    ARG_RANK,
    ARG_COUNT,
};

struct work_info {
    /* partial: row of the partial result; -1: the work item writes the final result */
    int32_t sequence, partial;
    int32_t q_begin, q_end, kv_begin, kv_end, kv_behind, unused;
};

/* Device buffers of a row's launches. */
struct buffers {
    void *items[16];
    unsigned n;
};

/* Allocates device memory, which release() frees. */
static void *allocate(struct buffers *b, size_t bytes)
{
    void *p;
    check(hipMalloc(&p, bytes ? bytes : 16), "hipMalloc");
    b->items[b->n++] = p;
    return p;
}

/* Copies `bytes` bytes to new device memory. Returns its address. */
static uint64_t upload(struct buffers *b, const void *data, size_t bytes)
{
    void *p = allocate(b, bytes);
    check(hipMemcpy(p, data, bytes, hipMemcpyHostToDevice), "hipMemcpy");
    return (uintptr_t)p;
}

/* Frees all buffers of the list. */
static void release(struct buffers *b)
{
    while (b->n)
        check(hipFree(b->items[--b->n]), "hipFree");
}

/* Returns the number of compute units of the target. */
static uint32_t units_of(const struct target *t) { return t->gfx950 ? 256 : MOST_CUS; }

/* Returns the number of splits of a kernel without a work list, as get_meta_param() of aiter/mla.py
 * chooses it. */
static uint32_t splits_of(const struct target *t, const struct decode_row *r)
{
    double best = 0;
    uint32_t splits = 1;
    for (uint32_t i = 1; i <= MOST_SPLITS; i++) {
        const double rounds = (double)r->batch * i / units_of(t);
        const double value = rounds / ceil(rounds) * r->keys / (r->keys + 84.1 * i);
        splits = value > best ? i : splits;
        best = value > best ? value : best;
    }
    return splits;
}

/* Returns the number of compute units of a sequence. */
static uint32_t parts_of(const struct target *t, const struct decode_row *r)
{
    if (r->tile)
        return splits_of(t, r);
    const uint32_t units = (r->keys + KEY_UNIT - 1) / KEY_UNIT, cus = units_of(t) / r->batch;
    const uint32_t parts = cus && !r->short_launch ? cus : 1;
    return units < parts ? units : parts;
}

/* Uploads the work list of every compute unit; idle ones have an empty list. Returns its device
 * address. */
static uint64_t upload_work(struct buffers *b, const struct decode_row *r, uint32_t parts)
{
    static struct work_info info[MOST_CUS];
    int32_t first[MOST_CUS + 1];
    uint64_t lists[10] = {0};
    uint32_t n = 0;
    memset(info, 0, sizeof(info));
    for (uint32_t s = 0; s < r->batch; s++) {
        const uint32_t units = (r->keys + KEY_UNIT - 1) / KEY_UNIT;
        for (uint32_t part = 0; part < parts; part++) {
            const uint32_t begin = units * part / parts * KEY_UNIT;
            const uint32_t end = part + 1 < parts ? units * (part + 1) / parts * KEY_UNIT : r->keys;
            info[n++] = (struct work_info){
                .sequence = (int32_t)s,
                .partial = parts > 1 ? (int32_t)((s * parts + part) * r->queries) : -1,
                .q_begin = (int32_t)(s * r->queries),
                .q_end = (int32_t)((s + 1) * r->queries),
                .kv_begin = (int32_t)(s * r->keys + begin),
                .kv_end = (int32_t)(s * r->keys + end),
                .kv_behind = (int32_t)(r->keys - end),
            };
        }
    }
    for (uint32_t cu = 0; cu <= MOST_CUS; cu++)
        first[cu] = (int32_t)(cu < n ? cu : n);
    lists[0] = upload(b, first, sizeof(first));
    lists[1] = upload(b, info, sizeof(info));
    return upload(b, lists, sizeof(lists));
}

/* Copies the numbers 0, step, 2 step, ... n step to device memory. Returns its address. */
static uint64_t upload_steps(struct buffers *b, uint32_t n, uint32_t step)
{
    int32_t *list = malloc((n + 1) * sizeof(*list));
    if (!list)
        exit(2);
    for (uint32_t i = 0; i <= n; i++)
        list[i] = (int32_t)(i * step);
    const uint64_t p = upload(b, list, (n + 1) * sizeof(*list));
    free(list);
    return p;
}

/* Sets the arguments of the decode kernel. `parts` is the number of parts of each sequence. */
static void fill_arguments(struct buffers *b, const struct decode_row *r, uint32_t parts,
                           struct argument a[ARG_COUNT])
{
    const size_t rows_out = (size_t)r->batch * parts * r->queries * r->heads;
    const uint32_t kv_element = r->kv_element ? r->kv_element : r->element;
    const float scale = 1 / sqrtf(QK_DIM), one = 1;
    const int32_t ones[512] = {1};
    memset(a, 0, ARG_COUNT * sizeof(*a));
    a[ARG_PARTIAL].value = (uintptr_t)allocate(b, rows_out * V_DIM * 4);
    a[ARG_PARTIAL_LSE].value = (uintptr_t)allocate(b, rows_out * 4);
    a[ARG_Q].value =
        (uintptr_t)allocate(b, (size_t)r->batch * r->queries * r->heads * QK_DIM * r->element);
    a[ARG_KV].value = (uintptr_t)allocate(b, (size_t)r->batch * r->keys * QK_DIM * kv_element);
    a[ARG_KV_INDPTR].value = upload_steps(b, r->batch, r->keys);
    a[ARG_PAGES].value = upload_steps(b, r->batch * r->keys, 1);
    a[ARG_LAST_PAGE].value = upload(b, ones, sizeof(ones));
    memcpy(&a[ARG_SCALE].value, &scale, sizeof(scale));
    /* kernels for more queries than there are get the number of heads */
    a[ARG_ROWS].value = r->rows ? r->rows : r->heads;
    a[ARG_SPLITS].value = r->tile ? parts : 1;
    a[ARG_OUT_SPLITS].value = a[ARG_SPLITS].value == 1;
    a[ARG_Q_STRIDE].value = (uint64_t)r->heads * QK_DIM * r->element * r->queries;
    a[ARG_PAGE_STRIDE].value = (uint64_t)QK_DIM * kv_element;
    a[ARG_Q_INDPTR].value = upload_steps(b, r->batch, r->queries);
    a[ARG_WORK].value = r->tile ? upload_steps(b, r->batch, parts) : upload_work(b, r, parts);
    a[ARG_OUT].value = (uintptr_t)allocate(b, (size_t)r->batch * r->queries * r->heads * V_DIM * 2);
    a[ARG_Q_SCALE].value = a[ARG_KV_SCALE].value = upload(b, &one, sizeof(one));
    a[ARG_RANKS].value = 1;
}

/* Launches a kernel of the code object at `path`. Returns its modelled times. */
static struct hipsim_time_report time_kernel(const char *path, const char *kernel,
                                             const uint32_t grid[3], uint32_t block, void *args,
                                             size_t bytes)
{
    hipModule_t module;
    hipFunction_t function;
    check(hipModuleLoad(&module, path), path);
    check(hipModuleGetFunction(&function, module, kernel), kernel);
    const struct hipsim_time_report report = launch(function, grid, block, args, bytes);
    check(hipModuleUnload(module), "hipModuleUnload");
    return report;
}

/* Returns the modelled time of the kernel that adds the partial results of `parts` parts. */
static double time_reduction(const struct target *t, const struct decode_row *r, uint32_t parts,
                             const struct argument a[ARG_COUNT])
{
    struct {
        uint64_t partial, lse, out;
        uint32_t parts, heads;
    } args = {a[ARG_PARTIAL].value, a[ARG_PARTIAL_LSE].value, a[ARG_OUT].value, parts, r->heads};
    const uint32_t grid[3] = {r->heads, r->batch * r->queries, 1};
    if (parts == 1)
        return 0;
    return time_kernel(t->reduce, "reduce", grid, 128, &args, sizeof(args)).us_at_power;
}

/* Times the reduction kernel when no row was split, since it is launched nevertheless. Returns
 * microseconds without the launch. The number of workgroups is as in get_num_work_group_per_bh() of
 * aiter's reduce.cu: a row has at most as many as it has queries. The grid has at most the
 * workgroups of two full devices. */
static double time_no_reduction(const struct target *t, struct buffers *b,
                                const struct decode_row *r)
{
    const uint32_t slots = units_of(t) * REDUCE_OCCUPANCY, rows = r->batch * r->heads;
    const double wanted = ceil(floor(1.3 * slots) / rows);
    uint32_t each = 1;
    while (each < r->queries && each < wanted)
        each *= 2;
    const uint32_t all = rows * each, most = 2 * slots, grid[3] = {all < most ? all : most, 1, 1};
    struct {
        uint64_t places, out;
        uint32_t rows, heads;
    } args = {upload_steps(b, r->batch, 0), (uintptr_t)allocate(b, 16), r->batch, r->heads};
    const struct hipsim_time_report report =
        time_kernel(t->reduce, "reduce_nothing", grid, 128, &args, sizeof(args));
    return report.us_at_power - report.launch_us;
}

/* Models run_perftest(), which alternates between 101 copies of all tensors. If all copies fit in
 * the MALL, first loads have its latency. */
static void place_copies(const struct target *t, const struct decode_row *r)
{
    const double sequence = (double)r->keys * QK_DIM * r->element +
                            (double)r->heads * r->queries * (QK_DIM * r->element + V_DIM * 2);
    char text[64];
    snprintf(text, sizeof(text), "hbm_ns=%g", parameter_value(t->gfx950, "mall_ns"));
    if (COPIES * r->batch * sequence < parameter_value(t->gfx950, "mall_bytes"))
        set_parameters(text);
}

/* Times a row: *decode and *reduction are microseconds. False if the code object does not exist. */
static bool time_row(const struct target *t, const struct decode_row *r, double *decode,
                     double *reduction)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s/mla/%s.co", t->hsa ? t->hsa : "", t->name, r->object);
    if (!t->hsa || access(path, R_OK) != 0)
        return false;
    struct buffers buffers = {.n = 0};
    struct argument arguments[ARG_COUNT];
    const uint32_t parts = parts_of(t, r), all = r->heads * r->queries;
    const uint32_t listed[3] = {units_of(t), 1, 1};
    const uint32_t split[3] = {r->tile ? (all + r->tile - 1) / r->tile : 1, r->batch, parts};
    fill_arguments(&buffers, r, parts, arguments);
    execute_all(r->short_launch); /* most workgroups have no work, so one of them is no sample */
    if (r->short_launch)
        place_copies(t, r);
    const struct hipsim_time_report report =
        time_kernel(path, r->kernel, r->tile ? split : listed, 256, arguments, sizeof(arguments));
    *decode = report.us_at_power - (r->short_launch ? report.launch_us : 0);
    *reduction = r->short_launch ? time_no_reduction(t, &buffers, r)
                                 : time_reduction(t, r, parts, arguments);
    execute_all(false);
    release(&buffers);
    return true;
}

/* Measures a published row of latent decode and prints it. */
static void decode_row(struct target *t, const struct decode_row *r)
{
    char what[64];
    double decode, reduction;
    snprintf(what, sizeof(what), "MLA decode %s h%u q%u b%u k%u", r->element == 1 ? "fp8" : "bf16",
             r->heads, r->queries, r->batch, r->keys);
    if (!time_row(t, r, &decode, &reduction)) {
        print_not_run(t, "D", what, "needs --hsa, the public code objects of aiter");
        return;
    }
    print_row(r->short_launch ? "DS" : "D", what, r->us, decode + reduction, "us", false,
              r->source);
    printf("     of them %.1f us decode, %.1f us reduction\n", decode, reduction);
    const double error = fabs((decode + reduction) / r->us - 1);
    if (r->short_launch) {
        t->tally->short_error += error;
        t->tally->short_rows++;
    } else {
        t->tally->decode_error += error;
        t->tally->decode_rows++;
    }
}

void calibrate_decode(struct target *t)
{
    for (size_t i = 0; t->gfx950 && i < sizeof(rows) / sizeof(rows[0]); i++)
        decode_row(t, &rows[i]);
}

/* Times a shape: "OBJECT,KERNEL,element bytes,KV element
 * bytes,heads,queries,batch,keys,rows,tile". */
void time_decode_shape(struct target *t, const char *shape)
{
    char object[128], kernel[192];
    struct decode_row r = {.object = object, .kernel = kernel};
    double decode, reduction;
    if (sscanf(shape, "%127[^,],%191[^,],%u,%u,%u,%u,%u,%u,%u,%u", object, kernel, &r.element,
               &r.kv_element, &r.heads, &r.queries, &r.batch, &r.keys, &r.rows, &r.tile) != 10 ||
        !r.batch || !r.keys || r.batch > MOST_CUS) {
        fprintf(stderr, "calibrate: --shape mla: wants OBJECT,KERNEL,element,kv element,heads,"
                        "queries,batch,keys,rows,tile\n");
        _exit(2);
    }
    if (!time_row(t, &r, &decode, &reduction)) {
        fprintf(stderr, "calibrate: there is no %s in the directory of --hsa\n", object);
        _exit(2);
    }
    printf("{\"target\": \"%s\", \"us\": %.2f, \"reduction_us\": %.2f}\n", t->name, decode,
           reduction);
}

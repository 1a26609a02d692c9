/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times backward attention of ROCm/aiter, head dim 128, bf16, without a mask. It has three
 * launches: the products of O and dO, the kernel of dQ, dK and dV, and the conversion of dQ. Sums
 * of dQ are f32 (a32) or bf16 (a16) atomics. Arguments, 16 bytes each, and launches are as in
 * csrc/cpp_itfs/mha_bwd.cu of aiter. Published times are from aiter's op_tests/cpp/mha/README.md.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

enum { HEAD_DIM = 128, HEADS = 32, ARGUMENTS_MAX = 44 };

/* Columns: length of the sequence, whether it is a32, TFLOP/s on MI300X and on MI355X; 0: not
 * published. */
static const struct row {
    uint32_t length;
    bool a32;
    double gfx942, gfx950;
} rows[] = {
    {1024, false, 344, 0},
    {2048, false, 0, 852},
    {2048, true, 0, 701},
};

/* Time of a32 divided by time of a16: the published ratio of TFLOP/s at 4,096 keys on MI355X. */
#define RATIO_LENGTH 4096
#define RATIO 0.71

struct slot {
    uint64_t value, unused;
};

struct tensors {
    uint64_t q, k, v, o, d_o, lse, delta, dq, dq_sums, dk, dv;
};

/* Allocates zeros in device memory. Returns the address. */
static uint64_t device_bytes(size_t bytes)
{
    void *p;
    check(hipMalloc(&p, bytes), "hipMalloc");
    check(hipMemset(p, 0, bytes), "hipMemset");
    return (uintptr_t)p;
}

/* Allocates the tensors of a row. */
static struct tensors make_tensors(const struct row *r)
{
    const size_t row = (size_t)HEADS * r->length, bytes = row * HEAD_DIM * 2;
    return (struct tensors){
        .q = (uintptr_t)bf16_buffer(bytes),
        .k = (uintptr_t)bf16_buffer(bytes),
        .v = (uintptr_t)bf16_buffer(bytes),
        .o = (uintptr_t)bf16_buffer(bytes),
        .d_o = (uintptr_t)bf16_buffer(bytes),
        .lse = device_bytes(row * 4),
        .delta = device_bytes(row * 4),
        .dq = device_bytes(bytes),
        .dq_sums = device_bytes(2 * bytes),
        .dk = device_bytes(bytes),
        .dv = device_bytes(bytes),
    };
}

/* Frees the tensors of a row. */
static void free_tensors(const struct tensors *x)
{
    const uint64_t all[] = {x->q,     x->k,  x->v,       x->o,  x->d_o, x->lse,
                            x->delta, x->dq, x->dq_sums, x->dk, x->dv};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check(hipFree((void *)(uintptr_t)all[i]), "hipFree");
}

/* Returns the bits of a float. */
static uint64_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* Arguments of one launch. */
struct list {
    struct slot slots[ARGUMENTS_MAX];
    size_t n;
};

/* Appends an argument of 8 bytes to the list. */
static void add(struct list *l, uint64_t value) { l->slots[l->n++] = (struct slot){value, 0}; }

/* Appends n values to the list. */
static void add_all(struct list *l, const uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(l, values[i]);
}

/* Byte strides of a bf16 tensor [head, row, HEAD_DIM]. */
struct strides {
    uint64_t head, batch, row;
};

/* Returns the strides of the row's tensors in bytes. */
static struct strides strides_of(const struct row *r)
{
    const uint64_t row = 2 * HEAD_DIM, head = r->length * row;
    return (struct strides){head, HEADS * head, row};
}

/* Appends the strides of the row's tensors to the list: head, batch, row. */
static void add_strides(struct list *l, const struct row *r)
{
    const struct strides s = strides_of(r);
    add_all(l, (const uint64_t[]){s.head, s.batch, s.row}, 3);
}

/* Launches a kernel of the folder fmha_v3_bwd, with one workgroup for each `tile` rows of a head.
 * Returns its modelled microseconds without the launch; -1: the object is missing. */
static double launch_part(const struct target *t, const struct row *r, const char *name,
                          uint32_t tile, struct list *l)
{
    char path[4096], kernel[128];
    hipModule_t module;
    hipFunction_t function;
    const uint32_t grid[3] = {(r->length + tile - 1) / tile, HEADS, 1};
    snprintf(path, sizeof(path), "%s/%s/fmha_v3_bwd/bwd_%s.co", t->hsa, t->name, name);
    snprintf(kernel, sizeof(kernel), "_ZN5aiter%zufmha_bwd_%sE", strlen("fmha_bwd_") + strlen(name),
             name);
    if (access(path, R_OK) != 0)
        return -1;
    check(hipModuleLoad(&module, path), path);
    check(hipModuleGetFunction(&function, module, kernel), kernel);
    const struct hipsim_time_report report =
        launch(function, grid, 256, l->slots, l->n * sizeof(l->slots[0]));
    check(hipModuleUnload(module), "hipModuleUnload");
    return report.us_at_power - report.launch_us;
}

/* Times the row sums of O dO, one f32 per row. Returns microseconds; -1: the object is missing. */
static double time_delta(const struct target *t, const struct row *r, const struct tensors *x)
{
    const uint64_t per_head = 4 * (uint64_t)r->length;
    struct list l = {.n = 0};
    add_all(&l, (const uint64_t[]){x->o, x->d_o, x->delta}, 3);
    add_strides(&l, r);
    add_strides(&l, r);
    add_all(&l, (const uint64_t[]){per_head, HEADS * per_head, 4, r->length, HEAD_DIM, 0, 0}, 7);
    return launch_part(t, r, "hd128_odo_bf16", 128, &l);
}

/* Times dQ, dK and dV; dQ is summed in place unless a conversion follows. Returns microseconds; -1:
 * the object is missing. */
static double time_gradients(const struct target *t, const struct row *r, const struct tensors *x)
{
    /* The published rows do not name the rounding on gfx942; nearest-even is the default. */
    const char *name = !t->gfx950 ? "hd128_bf16_a16_rtne"
                       : r->a32   ? "hd128_bf16_a32_psskddv"
                                  : "hd128_bf16_a16_psskddv";
    const uint64_t s = r->length, tile = t->gfx950 ? 256 : 192;
    const struct strides stride = strides_of(r);
    struct list l = {.n = 0};
    add_all(&l,
            (const uint64_t[]){t->gfx950 ? x->dq_sums : x->dq, x->dk, x->dv, x->q, x->k, x->v,
                               x->d_o, x->lse, x->delta},
            9);
    add_all(&l, (const uint64_t[]){float_bits(1 / sqrtf(HEAD_DIM)), float_bits(1.44269504f)}, 2);
    add_all(&l, (const uint64_t[]){s, tile * stride.row}, 2);
    add_strides(&l, r); /* Q */
    add(&l, 1);         /* query heads per KV head */
    add_strides(&l, r); /* K */
    add_all(&l, (const uint64_t[]){stride.row, s, HEAD_DIM, HEAD_DIM, HEADS}, 5);
    add_strides(&l, r);                                            /* V */
    add_strides(&l, r);                                            /* dO */
    add_all(&l, (const uint64_t[]){stride.head, stride.batch}, 2); /* dK */
    add_strides(&l, r);                                            /* dV */
    add_all(&l, (const uint64_t[]){4 * s, 0, 0, 0, 0, s, 0, 0}, 8);
    return launch_part(t, r, name, (uint32_t)tile, &l);
}

/* Times the conversion of the sums to dQ. Returns microseconds; -1: the object is missing. */
static double time_conversion(const struct target *t, const struct row *r, const struct tensors *x)
{
    const uint64_t row = HEAD_DIM * (r->a32 ? 4 : 2);
    struct list l = {.n = 0};
    add_all(&l, (const uint64_t[]){x->dq_sums, x->dq, r->length * row, 0, row}, 5);
    add_strides(&l, r);
    add_all(&l, (const uint64_t[]){r->length, HEAD_DIM, 0, 0}, 4);
    return launch_part(t, r, r->a32 ? "hd128_dq_convert_bf16" : "hd128_dq_shuffle", 64, &l);
}

/* Times the three launches. Returns microseconds; -1: an object is missing. */
static double time_backward(const struct target *t, const struct row *r)
{
    const struct tensors x = make_tensors(r);
    const double us[] = {
        time_delta(t, r, &x),
        time_gradients(t, r, &x),
        t->gfx950 ? time_conversion(t, r, &x) : 0, /* gfx942's a16 sums in dQ itself */
    };
    free_tensors(&x);
    return us[0] < 0 || us[1] < 0 || us[2] < 0 ? -1 : us[0] + us[1] + us[2];
}

/* Returns the TFLOP/s of a row that takes `us` microseconds. */
static double tflops(const struct row *r, double us)
{
    return 10.0 * HEADS * r->length * (double)r->length * HEAD_DIM / us / 1e6;
}

/* Measures a published row of backward attention and prints it. */
static void backward_row(struct target *t, const struct row *r)
{
    char what[64];
    const double published = t->gfx950 ? r->gfx950 : r->gfx942;
    snprintf(what, sizeof(what), "backward b1 h%d S%u %s", HEADS, r->length,
             r->a32 ? "a32" : "a16");
    const double us = t->hsa ? time_backward(t, r) : -1;
    if (us < 0)
        print_not_run(t, "BW", what,
                      t->hsa ? "no code object in the directory of --hsa"
                             : "needs --hsa, the public code objects of aiter");
    else
        print_row("BW", what, published, tflops(r, us), "TFLOP/s", t->gfx950, "AITER README");
}

void calibrate_backward(struct target *t)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (t->gfx950 ? rows[i].gfx950 : rows[i].gfx942)
            backward_row(t, &rows[i]);
    if (!t->gfx950)
        return;
    const double a16 = t->hsa ? time_backward(t, &(struct row){RATIO_LENGTH, false, 0, 0}) : -1;
    const double a32 = a16 > 0 ? time_backward(t, &(struct row){RATIO_LENGTH, true, 0, 0}) : -1;
    if (a32 > 0)
        print_row("BW", "backward S4096, a32 / a16", 100 * RATIO, 100 * a16 / a32, "%", true,
                  "AITER README");
    else
        print_not_run(t, "BW", "backward S4096, a32 / a16",
                      "needs --hsa, the public code objects of aiter");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times forward attention of ROCm/aiter, head dim 128. The published rows are for its bf16 kernels.
 * Kernels for fp8, or for keys of 192 elements, run on request. Code objects come from the
 * directory that the user names. The arguments are fmha_fwd_v3_args of csrc/include/mha_fwd.h, 16
 * bytes each. Launches are as in csrc/cpp_itfs/mha_fwd.cu.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

#define HEAD_DIM 128
#define OUT_BYTES (HEAD_DIM * 2) /* bytes of an output row of a head */
/* Elements of a row of q and of k in kernels for keys of 192 elements. */
#define WIDE_DIM 192
#define PATTERN_BYTES (1u << 20)

static const struct published {
    uint32_t batch, heads, kv_heads, length;
    bool causal, fp8;
    double gfx942, gfx950;
    double growth; /* exponent to base 2 by which scores grow over 64 keys; 0: random data */
    bool wide;     /* true: q and k have 192 elements, bf16 */
} published[] = {
#define R(b, h, hk, s, causal, mi300x, mi355x) \
    {b, h, hk, s, causal, false, mi300x, mi355x, 0, false},
#include "tools/hipsim/calibration/attention.def"
};

struct argument {
    uint64_t value;
    uint64_t unused;
};

enum argument_index {
    ARG_O,
    ARG_Q,
    ARG_K,
    ARG_V,
    ARG_LSE,
    ARG_SCALE,
    ARG_LENGTH,
    ARG_Q_ROW,
    ARG_Q_TILE,
    ARG_Q_HEAD,
    ARG_Q_BATCH,
    ARG_GQA,
    ARG_K_ROW,
    ARG_K_HEAD,
    ARG_K_BATCH,
    ARG_TUNE,
    ARG_HAS_LSE,
    ARG_KV_LENGTH,
    ARG_QK_DIM,
    ARG_V_DIM,
    ARG_HEADS,
    ARG_V_ROW,
    ARG_V_HEAD,
    ARG_V_BATCH,
    ARG_O_ROW,
    ARG_O_HEAD,
    ARG_O_BATCH,
    ARG_Q_LENGTHS,
    ARG_K_LENGTHS,
    ARG_LSE_HEAD,
    ARG_Q_PADDING,
    ARG_K_PADDING,
    ARG_Q_DESCALE,
    ARG_K_DESCALE,
    ARG_V_DESCALE,
    ARG_COUNT = 41, /* the last of the arguments; the strides of the three scales are 0 */
};

/* Returns the number of Q's rows in a workgroup. */
static uint32_t tile_of(const struct published *p) { return p->wide ? 128 : 256; }

/* Sets values like those in attention, 1/8 to 2 with either sign: with zeros, shortcuts would
 * apply. */
static void make_pattern(uint16_t pattern[PATTERN_BYTES / 2], bool fp8)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < PATTERN_BYTES / 2; i++) {
        x = x * 1664525u + 1013904223u;
        pattern[i] = fp8 ? (uint16_t)((x >> 16 & 0x8f8f) + 0x2828)
                         : (uint16_t)(x >> 31 << 15 | (0x3e00 + (x >> 16 & 0x1ff)));
    }
}

/* Allocates device memory and fills it with a pattern of small numbers, of fp8 or of 16 bits. */
static void *filled(size_t bytes, bool fp8)
{
    static uint16_t patterns[2][PATTERN_BYTES / 2];
    uint16_t *const pattern = patterns[fp8];
    if (!pattern[0])
        make_pattern(pattern, fp8);
    void *p;
    check(hipMalloc(&p, bytes), "hipMalloc");
    for (size_t at = 0; at < bytes; at += PATTERN_BYTES)
        check(hipMemcpy((char *)p + at, pattern,
                        bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES,
                        hipMemcpyHostToDevice),
              "hipMemcpy");
    return p;
}

void *bf16_buffer(size_t bytes) { return filled(bytes, false); }

/* Returns the bf16 bits of the nearest number. */
static uint16_t to_bf16(double value)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns a device buffer with data as `attnc trace` has them with `growth`: queries are 1, and all
 * elements of a key are equal. `keys`: of keys. */
static void *growing(const struct published *p, uint32_t rows_per_token, size_t tokens, bool keys)
{
    const double step = p->growth / (64 * sqrt(HEAD_DIM) * 1.44269504);
    const size_t row = (size_t)rows_per_token * HEAD_DIM;
    uint16_t *host = malloc(tokens * row * sizeof(*host));
    void *device;
    if (!host)
        _exit(2);
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < row; i++)
            host[t * row + i] = to_bf16(keys ? step * (double)(t % p->length) : 1);
    check(hipMalloc(&device, tokens * row * sizeof(*host)), "hipMalloc");
    check(hipMemcpy(device, host, tokens * row * sizeof(*host), hipMemcpyHostToDevice),
          "hipMemcpy");
    free(host);
    return device;
}

/* Sets one scale for each tensor, with strides of 0. */
static void fill_scales(struct argument a[ARG_COUNT])
{
    const float one = 1;
    void *p;
    check(hipMalloc(&p, sizeof(one)), "hipMalloc");
    check(hipMemcpy(p, &one, sizeof(one), hipMemcpyHostToDevice), "hipMemcpy");
    a[ARG_Q_DESCALE].value = a[ARG_K_DESCALE].value = a[ARG_V_DESCALE].value = (uintptr_t)p;
}

/* Sets the arguments. All batches have the same Q and O, which concurrent workgroups do not notice.
 * `by_heads`: the grid's first dimension is the head. */
static void fill_arguments(const struct published *p, bool by_heads, struct argument a[ARG_COUNT])
{
    const uint32_t dim = p->wide ? WIDE_DIM : HEAD_DIM;
    const size_t row = dim * (p->fp8 ? 1 : 2), v_head = HEAD_DIM * (p->fp8 ? 1 : 2);
    const uint64_t k_row = (uint64_t)p->kv_heads * row, v_row = (uint64_t)p->kv_heads * v_head;
    const uint64_t q_row = (uint64_t)p->heads * row, o_row = (uint64_t)p->heads * OUT_BYTES;
    const size_t tokens = (size_t)p->batch * p->length;
    float scale = 1 / sqrtf((float)dim);
    void *o;
    memset(a, 0, ARG_COUNT * sizeof(*a));
    check(hipMalloc(&o, p->length * o_row), "hipMalloc");
    a[ARG_O].value = (uintptr_t)o;
    if (p->growth > 0) {
        a[ARG_Q].value = (uintptr_t)growing(p, p->heads, p->length, false);
        a[ARG_K].value = (uintptr_t)growing(p, p->kv_heads, tokens, true);
    } else {
        a[ARG_Q].value = (uintptr_t)filled(p->length * q_row, p->fp8);
        a[ARG_K].value = (uintptr_t)filled(tokens * k_row, p->fp8);
    }
    a[ARG_V].value = (uintptr_t)filled(tokens * v_row, p->fp8);
    memcpy(&a[ARG_SCALE].value, &scale, sizeof(scale));
    a[ARG_LENGTH].value = a[ARG_KV_LENGTH].value = p->length;
    a[ARG_Q_ROW].value = q_row;
    a[ARG_O_ROW].value = o_row;
    a[ARG_Q_TILE].value = tile_of(p) * q_row;
    a[ARG_Q_HEAD].value = row;
    a[ARG_O_HEAD].value = OUT_BYTES;
    a[ARG_GQA].value = p->heads / p->kv_heads;
    a[ARG_K_ROW].value = k_row;
    a[ARG_V_ROW].value = v_row;
    a[ARG_K_HEAD].value = row;
    a[ARG_V_HEAD].value = v_head;
    a[ARG_K_BATCH].value = k_row * p->length;
    a[ARG_V_BATCH].value = v_row * p->length;
    a[ARG_TUNE].value = p->causal && (p->heads % 8 || p->length > 16384) ? 3 : 5;
    if (by_heads)
        a[ARG_TUNE].value = 0;
    a[ARG_QK_DIM].value = dim;
    a[ARG_V_DIM].value = HEAD_DIM;
    a[ARG_HEADS].value = p->heads;
    if (p->fp8)
        fill_scales(a);
}

/* Frees the buffers of the arguments. */
static void free_arguments(const struct argument a[ARG_COUNT])
{
    const enum argument_index buffers[] = {ARG_O, ARG_Q, ARG_K, ARG_V, ARG_Q_DESCALE};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]) && a[buffers[i]].value; i++)
        check(hipFree((void *)(uintptr_t)a[buffers[i]].value), "hipFree");
}

/* Sets a code object's path and its kernel's name. The name is the file's, mangled as in C++. The
 * fp8 object of gfx950 also has the target as suffix, with a length that is 1 too small. */
static bool code_object(const struct target *t, const struct published *p, const char *rounding,
                        char *path, size_t size, char *kernel, size_t kernel_size)
{
    char name[64], symbol[96];
    snprintf(name, sizeof(name), "fwd_%s_%s%s%s",
             !p->wide    ? "hd128"
             : t->gfx950 ? "hd192_hd128"
                         : "hd192x128",
             p->fp8 ? "fp8" : "bf16", p->causal ? "_causal" : "", p->fp8 ? "" : rounding);
    snprintf(path, size, "%s/%s/fmha_v3_fwd/%s%s.co", t->hsa, t->name, t->gfx950 ? "" : "MI300/",
             name);
    const bool odd = p->fp8 && t->gfx950;
    snprintf(symbol, sizeof(symbol), "fmha_%s%s", name, odd ? "_gfx950" : "");
    snprintf(kernel, kernel_size, "_ZN5aiter%zu%sE", strlen(symbol) - odd, symbol);
    return access(path, R_OK) == 0;
}

/* Times one row and sets *report. False if the code object does not exist. */
static bool time_attention(const struct target *t, const struct published *p, const char *rounding,
                           struct hipsim_time_report *report)
{
    char path[4096], kernel[128];
    if (!code_object(t, p, rounding, path, sizeof(path), kernel, sizeof(kernel)))
        return false;
    hipModule_t module;
    hipFunction_t function;
    struct argument arguments[ARG_COUNT];
    const uint32_t tiles = (p->length + tile_of(p) - 1) / tile_of(p);
    const bool by_heads = p->wide && !t->gfx950;
    /* causal: a workgroup processes a tile from the beginning and one from the end */
    const uint32_t pairs = p->causal ? (tiles + 1) / 2 : tiles;
    const uint32_t grid[3] = {by_heads ? p->heads : pairs, by_heads ? tiles : p->heads, p->batch};
    check(hipModuleLoad(&module, path), path);
    check(hipModuleGetFunction(&function, module, kernel), kernel);
    fill_arguments(p, by_heads, arguments);
    *report = launch(function, grid, p->wide ? 256 : 512, arguments, sizeof(arguments));
    free_arguments(arguments);
    check(hipModuleUnload(module), "hipModuleUnload");
    return true;
}

/* Measures a published row of forward attention and prints it. */
static void attention_row(struct target *t, const struct published *p)
{
    char what[64];
    struct hipsim_time_report r;
    snprintf(what, sizeof(what), "attention b%u h%u/%u S%u%s", p->batch, p->heads, p->kv_heads,
             p->length, p->causal ? " causal" : "");
    /* The published rows do not name the rounding; nearest-even is the API's default. */
    if (!t->hsa || !time_attention(t, p, t->gfx950 ? "" : "_rtne", &r)) {
        print_not_run(t, "B", what,
                      t->hsa ? "no code object in the directory of --hsa"
                             : "needs --hsa, the public code objects of aiter");
        return;
    }
    double flops =
        4.0 * p->batch * p->heads * p->length * (double)p->length * HEAD_DIM / (p->causal ? 2 : 1);
    double modelled = flops / r.us_at_power / 1e6;
    double measured = t->gfx950 ? p->gfx950 : p->gfx942;
    /* workgroup_cycles, and on gfx942 the clock law, were fitted to these rows. */
    print_row("B", what, measured, modelled, "TFLOP/s", true, "aiter op_tests/cpp/mha/README.md");
    t->tally->error += fabs(modelled / measured - 1);
    t->tally->rows++;
}

/* Compares the modelled times of kernels with three kinds of rounding, and prints them. */
static void roundings(struct target *t)
{
    static const struct published p = {.batch = 4, .heads = 64, .kv_heads = 8, .length = 4096};
    static const char *const names[] = {"_rtz", "_rtna", "_rtne"};
    /* speed-ups of another kernel over these rows */
    static const double speedups[] = {1.08, 1.15, 1.18};
    double times[3];
    for (unsigned i = 0; i < 3; i++) {
        struct hipsim_time_report r;
        if (!t->hsa || !time_attention(t, &p, names[i], &r)) {
            print_not_run(t, "C3", "rounding: rtz < rtna < rtne", "needs --hsa");
            return;
        }
        times[i] = r.us_at_power;
    }
    print_row("C3", "time of rtna, rtz being 100", 100 * speedups[1] / speedups[0],
              100 * times[1] / times[0], "", false, "moonmath speed-ups");
    print_row("C3", "time of rtne, rtz being 100", 100 * speedups[2] / speedups[0],
              100 * times[2] / times[0], "", false, "moonmath speed-ups");
    print_order(t, "C3", "rounding: rtz < rtna < rtne", times[0] < times[1] && times[1] < times[2]);
}

void calibrate_attention(struct target *t)
{
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        attention_row(t, &published[i]);
    if (!t->gfx950)
        roundings(t);
}

/* Times a shape: "batch,heads,kv_heads,length,causal[,growth]". The prefixes "fp8:" and "d192:"
 * select fp8 and keys of 192 elements; these have no growth. */
void time_attention_shape(struct target *t)
{
    struct published p = {0};
    unsigned causal;
    struct hipsim_time_report r;
    if (strncmp(t->shape, "mla:", 4) == 0) {
        time_decode_shape(t, t->shape + 4);
        return;
    }
    if (strncmp(t->shape, "pa:", 3) == 0) {
        time_paged_shape(t, t->shape + 3);
        return;
    }
    if (strncmp(t->shape, "topk:", 5) == 0) {
        time_topk_shape(t, t->shape + 5);
        return;
    }
    if (strncmp(t->shape, "object:", 7) == 0) {
        time_object(t, t->shape + 7);
        return;
    }
    p.fp8 = strncmp(t->shape, "fp8:", 4) == 0;
    p.wide = strncmp(t->shape, "d192:", 5) == 0;
    const char *const numbers = t->shape + (p.fp8 ? 4 : p.wide ? 5 : 0);
    const int read = sscanf(numbers, "%u,%u,%u,%u,%u,%lf", &p.batch, &p.heads, &p.kv_heads,
                            &p.length, &causal, &p.growth);
    if (read < 5 || ((p.fp8 || p.wide) && read > 5)) {
        fprintf(stderr, "calibrate: --shape wants batch,heads,kv_heads,length,causal[,growth] or "
                        "fp8: or d192:batch,heads,kv_heads,length,causal\n");
        _exit(2);
    }
    p.causal = causal;
    if (p.wide) /* gfx942's workgroups do not pair tiles from both ends */
        execute_samples(6);
    if (!t->hsa || !time_attention(t, &p, t->gfx950 ? "" : "_rtne", &r)) {
        fprintf(stderr, "calibrate: --shape wants --hsa, a directory with the attention kernels\n");
        _exit(2);
    }
    printf("{\"target\": \"%s\", \"cycles\": %.0f, \"us\": %.2f, \"duty\": %.4f, "
           "\"idle\": %.4f, \"loop_cycles\": %.1f}\n",
           t->name, r.cycles, r.us_at_power, r.matrix_duty, r.tail, r.loop_cycles);
}

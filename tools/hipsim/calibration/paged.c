/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times paged decode of ROCm/aiter, head dim 128, from the directory that the user names. There is
 * a workgroup per sequence and KV head. Caches have SHUFFLE layout, fp8 ones with a scale per
 * token. The arguments are struct KernelArgs of csrc/py_itfs_cu/asm_pa.cu, 16 bytes each.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

#define HEAD_DIM 128
#define ALL_WORKGROUPS 256 /* largest grid that is executed whole; else 1 workgroup is executed */

struct shape {
    char object[128], kernel[192];
    uint32_t element; /* bytes of an element of K and V */
    uint32_t heads, kv_heads, batch, keys, page;
};

struct argument {
    union {
        uint64_t value;
        float number;
        void *pointer;
    };
    uint64_t unused;
};

enum argument_index {
    ARG_OUT,
    ARG_Q,
    ARG_K,
    ARG_V,
    ARG_BLOCK_TABLE,
    ARG_KV_LENS,
    ARG_K_SCALE,
    ARG_V_SCALE,
    ARG_SCALE, /* factor of the scores, times log2(e) */
    ARG_TABLE_ROW,
    ARG_KV_HEADS,
    ARG_Q_STRIDE,
    ARG_PAGE_STRIDE,
    ARG_HEAD_STRIDE,
    ARG_MORE_QUERIES,
    ARG_GQA,
    ARG_Q_INDPTR,
    ARG_COUNT,
};

/* Copies `bytes` bytes to new device memory. Returns its address. */
static void *upload(const void *data, size_t bytes)
{
    void *p;
    check(hipMalloc(&p, bytes), "hipMalloc");
    check(hipMemcpy(p, data, bytes, hipMemcpyHostToDevice), "hipMemcpy");
    return p;
}

/* Returns a device buffer of `bytes` bytes with values from 1/8 to 2, either sign. */
static void *cache(size_t bytes, uint32_t element)
{
    uint16_t *const values = malloc(bytes);
    uint32_t x = 12345;
    if (!values)
        exit(2);
    for (size_t i = 0; i < bytes / 2; i++) {
        x = x * 1664525u + 1013904223u;
        values[i] = element == 1 ? (uint16_t)((x >> 16 & 0x8f8f) + 0x2828)
                                 : (uint16_t)(x >> 31 << 15 | (0x3e00 + (x >> 16 & 0x1ff)));
    }
    void *const p = upload(values, bytes);
    free(values);
    return p;
}

/* Returns the address of n floats of 1 in device memory. */
static void *ones(size_t n)
{
    float *const values = malloc(n * sizeof(*values));
    if (!values)
        exit(2);
    for (size_t i = 0; i < n; i++)
        values[i] = 1;
    void *const p = upload(values, n * sizeof(*values));
    free(values);
    return p;
}

/* Returns a block table that scatters the `pages` pages of a sequence over the cache. */
static void *block_table(uint32_t pages)
{
    uint32_t *const table = malloc(pages * sizeof(*table));
    uint32_t x = 99;
    if (!table)
        exit(2);
    for (uint32_t i = 0; i < pages; i++)
        table[i] = i;
    for (uint32_t i = pages; i > 1; i--) {
        x = x * 1664525u + 1013904223u;
        const uint32_t other = (uint32_t)((uint64_t)x * i >> 32), kept = table[i - 1];
        table[i - 1] = table[other];
        table[other] = kept;
    }
    void *const p = upload(table, pages * sizeof(*table));
    free(table);
    return p;
}

/* Returns the address of the sequences' lengths in device memory. */
static void *lengths(const struct shape *s)
{
    uint32_t *const values = malloc(s->batch * sizeof(*values));
    if (!values)
        exit(2);
    for (uint32_t i = 0; i < s->batch; i++)
        values[i] = s->keys;
    void *const p = upload(values, s->batch * sizeof(*values));
    free(values);
    return p;
}

/* Sets the arguments of a shape's kernel. */
static void fill_arguments(const struct shape *s, struct argument a[ARG_COUNT])
{
    const uint32_t row = (s->keys + s->page - 1) / s->page, pages = row * s->batch;
    const size_t head = (size_t)s->page * HEAD_DIM * s->element;
    const size_t q = (size_t)s->batch * s->heads * HEAD_DIM * 2;
    check(hipMalloc(&a[ARG_OUT].pointer, q), "hipMalloc");
    a[ARG_Q].pointer = cache(q, 2);
    a[ARG_K].pointer = cache(head * s->kv_heads * pages, s->element);
    a[ARG_V].pointer = cache(head * s->kv_heads * pages, s->element);
    a[ARG_BLOCK_TABLE].pointer = block_table(pages);
    a[ARG_KV_LENS].pointer = lengths(s);
    if (s->element == 1) {
        a[ARG_K_SCALE].pointer = ones((size_t)pages * s->kv_heads * s->page);
        a[ARG_V_SCALE].pointer = ones((size_t)pages * s->kv_heads * s->page);
    }
    a[ARG_SCALE].number = 1.44269504f / sqrtf(HEAD_DIM);
    a[ARG_TABLE_ROW].value = row;
    a[ARG_KV_HEADS].value = s->kv_heads;
    a[ARG_Q_STRIDE].value = (uint64_t)s->heads * HEAD_DIM * 2;
    a[ARG_PAGE_STRIDE].value = head * s->kv_heads;
    a[ARG_HEAD_STRIDE].value = head;
    a[ARG_GQA].value = s->heads / s->kv_heads;
}

/* Frees the buffers of the arguments. */
static void free_arguments(const struct argument a[ARG_COUNT])
{
    for (unsigned i = ARG_OUT; i <= ARG_V_SCALE; i++)
        check(hipFree(a[i].pointer), "hipFree");
}

/* Reads a shape from its text. False if it is invalid. */
static bool read_shape(const char *text, struct shape *s)
{
    return sscanf(text, "%127[^,],%191[^,],%u,%u,%u,%u,%u,%u", s->object, s->kernel, &s->element,
                  &s->heads, &s->kv_heads, &s->batch, &s->keys, &s->page) == 8 &&
           s->kv_heads && s->page && s->keys && s->batch;
}

/* Times a shape: "OBJECT,KERNEL,element bytes,heads,KV heads,batch,keys,page". */
void time_paged_shape(const struct target *t, const char *text)
{
    struct shape s;
    struct argument arguments[ARG_COUNT] = {0};
    char path[4096];
    hipModule_t module;
    hipFunction_t function;
    if (!read_shape(text, &s)) {
        fprintf(stderr, "calibrate: --shape pa: wants OBJECT,KERNEL,element,heads,kv heads,batch,"
                        "keys,page\n");
        _exit(2);
    }
    snprintf(path, sizeof(path), "%s/%s/pa/%s.co", t->hsa ? t->hsa : "", t->name, s.object);
    if (!t->hsa || access(path, R_OK) != 0) {
        fprintf(stderr, "calibrate: there is no %s in the directory of --hsa\n", s.object);
        _exit(2);
    }
    const uint32_t grid[3] = {s.kv_heads, s.batch, 1};
    check(hipModuleLoad(&module, path), path);
    check(hipModuleGetFunction(&function, module, s.kernel), s.kernel);
    fill_arguments(&s, arguments);
    execute_all(s.kv_heads * s.batch <= ALL_WORKGROUPS);
    const struct hipsim_time_report r = launch(function, grid, 256, arguments, sizeof(arguments));
    execute_all(false);
    free_arguments(arguments);
    check(hipModuleUnload(module), "hipModuleUnload");
    printf("{\"target\": \"%s\", \"cycles\": %.0f, \"us\": %.2f, \"bytes\": %.0f, \"idle\": %.4f, "
           "\"duty\": %.4f, \"together\": %s}\n",
           t->name, r.cycles, r.us_at_power, r.memory_bytes, r.tail, r.matrix_duty,
           r.together ? "true" : "false");
}

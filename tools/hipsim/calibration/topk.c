/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the selection of 2,048 scores per row with ROCm/aiter's assembled kernels. The arguments
 * are as in csrc/py_itfs_cu/asm_topk_per_row_prefill.cu and asm_topk_per_row_decode.cu. The result
 * of every executed row is compared with a selection on the host.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

enum { SELECTED = 2048, LANES_OF_A_ROW = 1024, NOT_WRITTEN = -2 };

struct prefill_arguments {
    uint64_t workspace, scores, starts, ends, indices, values;
    int32_t row_stride, column_stride;
};

struct decode_arguments {
    uint64_t scores, lengths, indices;
    int32_t row_stride, column_stride, queries;
};

/* A launch in which every row has all columns. */
struct selection {
    bool decode;
    uint32_t rows, columns;
    float *host;
    uint64_t scores, starts, ends, indices, workspace;
};

/* Allocates device memory. Returns its address. */
static uint64_t allocate(size_t bytes)
{
    void *p;
    check(hipMalloc(&p, bytes), "hipMalloc");
    return (uintptr_t)p;
}

/* Copies `bytes` bytes to new device memory. Returns its address. */
static uint64_t upload(const void *data, size_t bytes)
{
    const uint64_t p = allocate(bytes);
    check(hipMemcpy((void *)(uintptr_t)p, data, bytes, hipMemcpyHostToDevice), "hipMemcpy");
    return p;
}

/* Copies n numbers of the same value to new device memory. Returns its address. */
static uint64_t upload_equal(int32_t value, size_t n)
{
    int32_t *list = malloc(n * sizeof(*list));
    if (!list)
        exit(2);
    for (size_t i = 0; i < n; i++)
        list[i] = value;
    const uint64_t p = upload(list, n * sizeof(*list));
    free(list);
    return p;
}

/* Fills scores[] with n bell-shaped values, as `attnc trace` does for topk. AITER's prefill kernel
 * sorts at most 512 scores that have the same 11 leading bits (as a half) as the least selected
 * one. Uniform scores exceed that, and the kernel then selects wrong ones. */
static void make_scores(float *scores, size_t n)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            sum += (double)(x >> 11) * 0x1p-53 - 0.5;
        }
        scores[i] = (float)sum;
    }
}

/* Allocates the scores and buffers of a selection. */
static void make_selection(struct selection *s)
{
    const size_t n = (size_t)s->rows * s->columns;
    s->host = malloc(n * sizeof(*s->host));
    if (!s->host)
        exit(2);
    make_scores(s->host, n);
    s->scores = upload(s->host, n * sizeof(*s->host));
    s->starts = upload_equal(0, s->rows);
    s->ends = upload_equal((int32_t)s->columns, s->rows);
    s->indices = upload_equal(NOT_WRITTEN, (size_t)s->rows * SELECTED);
    s->workspace = allocate((size_t)s->rows * SELECTED * 8);
}

/* Frees the buffers of a selection. */
static void free_selection(struct selection *s)
{
    const uint64_t all[] = {s->scores, s->starts, s->ends, s->indices, s->workspace};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check(hipFree((void *)(uintptr_t)all[i]), "hipFree");
    free(s->host);
}

/* Compares floats for qsort(), the largest first. */
static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* True if found[] has the largest scores of the row, each once. */
static bool is_right(const struct selection *s, uint32_t row, const int32_t *found)
{
    const float *scores = s->host + (size_t)row * s->columns;
    float *sorted = malloc(s->columns * sizeof(*sorted));
    bool *seen = calloc(s->columns, sizeof(*seen));
    if (!sorted || !seen)
        exit(2);
    memcpy(sorted, scores, s->columns * sizeof(*sorted));
    qsort(sorted, s->columns, sizeof(*sorted), falling);
    const float least = s->columns > SELECTED ? sorted[SELECTED - 1] : -INFINITY;
    const uint32_t n = s->columns < SELECTED ? s->columns : SELECTED;
    bool right = true;
    for (uint32_t i = 0; i < n && right; i++) {
        const int32_t at = found[i];
        right = at >= 0 && (uint32_t)at < s->columns && !seen[at] && scores[at] >= least;
        if (right)
            seen[at] = true;
    }
    free(sorted);
    free(seen);
    return right;
}

/* Returns the number of executed rows; -1 if one of them is wrong. */
static int count_right(const struct selection *s)
{
    const size_t bytes = (size_t)s->rows * SELECTED * sizeof(int32_t);
    int32_t *found = malloc(bytes);
    int rows = 0;
    if (!found)
        exit(2);
    check(hipMemcpy(found, (void *)(uintptr_t)s->indices, bytes, hipMemcpyDeviceToHost),
          "hipMemcpy");
    for (uint32_t r = 0; r < s->rows && rows >= 0; r++) {
        if (found[(size_t)r * SELECTED] == NOT_WRITTEN)
            continue;
        rows = is_right(s, r, found + (size_t)r * SELECTED) ? rows + 1 : -1;
    }
    free(found);
    return rows;
}

/* Launches the selection's kernel. Returns its modelled times. */
static struct hipsim_time_report launch_selection(hipFunction_t function, const struct selection *s)
{
    const uint32_t grid[3] = {s->rows, 1, 1};
    struct prefill_arguments prefill = {.workspace = s->workspace,
                                        .scores = s->scores,
                                        .starts = s->starts,
                                        .ends = s->ends,
                                        .indices = s->indices,
                                        .row_stride = (int32_t)s->columns,
                                        .column_stride = 1};
    struct decode_arguments decode = {.scores = s->scores,
                                      .lengths = s->ends,
                                      .indices = s->indices,
                                      .row_stride = (int32_t)s->columns,
                                      .column_stride = 1,
                                      .queries = 1};
    return s->decode ? launch(function, grid, LANES_OF_A_ROW, &decode, sizeof(decode))
                     : launch(function, grid, LANES_OF_A_ROW, &prefill, sizeof(prefill));
}

/* Times a shape: "prefill|decode,rows,columns". */
void time_topk_shape(struct target *t, const char *shape)
{
    static const char *const kernels[] = {
        "_ZN5aiter11PrefillTopKL10topKPerRowILi1024ELi2048ELi2048ELi512EEEvPvPKfPKiS6_PiPfii",
        "_ZN5aiter10DecodeTopKL19topk_per_row_decodeILi1024ELb0ELi4EEEvPKfPKiPiiii",
    };
    char path[4096], kind[16];
    struct selection s = {0};
    hipModule_t module;
    hipFunction_t function;
    if (sscanf(shape, "%15[^,],%u,%u", kind, &s.rows, &s.columns) != 3 || !s.rows || !s.columns ||
        (strcmp(kind, "prefill") != 0 && strcmp(kind, "decode") != 0)) {
        fprintf(stderr, "calibrate: --shape topk: wants prefill or decode,rows,columns\n");
        _exit(2);
    }
    s.decode = strcmp(kind, "decode") == 0;
    snprintf(path, sizeof(path), "%s/%s/topk_per_row_%s/asm_top_k_per_row_%s.co",
             t->hsa ? t->hsa : "", t->name, kind, kind);
    if (!t->hsa || access(path, R_OK) != 0) {
        fprintf(stderr, "calibrate: there is no topk_per_row_%s of %s in the directory of --hsa\n",
                kind, t->name);
        _exit(2);
    }
    make_selection(&s);
    check(hipModuleLoad(&module, path), path);
    check(hipModuleGetFunction(&function, module, kernels[s.decode]), path);
    const struct hipsim_time_report r = launch_selection(function, &s);
    const int right = count_right(&s);
    if (right < 1) {
        fprintf(stderr, "calibrate: %s selects other scores than the largest\n", path);
        _exit(2);
    }
    printf("{\"target\": \"%s\", \"us\": %.2f, \"cycles\": %.0f, \"rows_compared\": %d}\n", t->name,
           r.us_at_power, r.cycles, right);
    check(hipModuleUnload(module), "hipModuleUnload");
    free_selection(&s);
}

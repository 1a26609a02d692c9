/* SPDX-License-Identifier: Apache-2.0 */
/* Launches a rank's attention, through libattn only. */
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"
#include "pages.h"
#include "work.h"

extern const unsigned char attn_pack_tensor_parallel[]; /* kernels.yaml, in this program */
extern const size_t attn_pack_tensor_parallel_size;

enum { KINDS = 2 }; /* kinds of layers: 0 without a window, 1 with one */

struct layer {
    uint16_t *qkv, *q, *out; /* [TOKENS, QKV], [TOKENS, QUERY] twice */
    uint16_t *k_cache, *v_cache;
    float *sinks;
};

struct rank {
    int ordinal;
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *advance, *plan, *rotate, *prefill[KINDS], *decode[KINDS];
    struct layer layers[LAYERS];
    struct work work[KINDS]; /* work lists by kind of layer; with a window they have fewer keys */
    int32_t *tickets[KINDS]; /* [BATCH, KV_HEADS, 32]: counters, 0 between launches */
    int64_t *positions, *slots; /* [TOKENS]: position and cache slot of each token */
    int32_t *kv_lens;           /* [BATCH]: keys of each sequence; each step increments them */
    int32_t *cu_seqlens;        /* [BATCH + 1]: first token of each sequence of a prefill */
    int32_t *block_table;       /* [BATCH, PAGES]: page numbers of each sequence */
    float *cos_sin;             /* [LONGEST, DIM]: cosines, then sines, of each position */
    hipStream_t stream;
    hipGraphExec_t step;
};

static const struct paging paging = {BATCH, PAGES, PAGE};

/* The functions from here on allocate and free memory. */

static void allocate_work(struct rank *r, int kind)
{
    const struct attn_decode_plan_shape shape = {
        .batch = BATCH,
        .q_len = 1,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .window = kind ? WINDOW : 0,
    };
    work_allocate(&r->work[kind], r->decode[kind], &shape, LONGEST, DIM);
    const size_t size = BATCH * KV_HEADS * 32 * sizeof(*r->tickets[kind]);
    r->tickets[kind] = gpu_allocate(size);
    HIP(hipMemset(r->tickets[kind], 0, size));
}

static void allocate_layer(struct layer *l, const float *sinks)
{
    l->qkv = gpu_allocate(TOKENS * QKV * sizeof(*l->qkv));
    l->q = gpu_allocate(TOKENS * QUERY * sizeof(*l->q));
    l->out = gpu_allocate(TOKENS * QUERY * sizeof(*l->out));
    l->k_cache = gpu_allocate(TOKENS * KEY * sizeof(*l->k_cache));
    l->v_cache = gpu_allocate(TOKENS * KEY * sizeof(*l->v_cache));
    l->sinks = gpu_allocate(HEADS * sizeof(*sinks));
    gpu_upload(l->sinks, sinks, HEADS * sizeof(*sinks));
}

static void allocate_all(struct rank *r, const float *sinks)
{
    r->positions = gpu_allocate(TOKENS * sizeof(*r->positions));
    r->slots = gpu_allocate(TOKENS * sizeof(*r->slots));
    r->kv_lens = gpu_allocate(BATCH * sizeof(*r->kv_lens));
    r->cu_seqlens = gpu_allocate((BATCH + 1) * sizeof(*r->cu_seqlens));
    r->block_table = gpu_allocate(BATCH * PAGES * sizeof(*r->block_table));
    r->cos_sin = gpu_allocate(LONGEST * DIM * sizeof(*r->cos_sin));
    for (int layer = 0; layer < LAYERS; layer++)
        allocate_layer(&r->layers[layer], sinks + layer * HEADS);
    for (int kind = 0; kind < KINDS; kind++)
        allocate_work(r, kind);
    upload_paging(paging, r->block_table, r->cos_sin, LONGEST, DIM, rope_base);
}

static void free_all(struct rank *r)
{
    void *const memory[] = {r->positions,  r->slots,       r->kv_lens,
                            r->cu_seqlens, r->block_table, r->cos_sin};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        HIP(hipFree(memory[i]));
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *l = &r->layers[i];
        void *const of_layer[] = {l->qkv, l->q, l->out, l->k_cache, l->v_cache, l->sinks};
        for (size_t j = 0; j < sizeof(of_layer) / sizeof(of_layer[0]); j++)
            HIP(hipFree(of_layer[j]));
    }
    for (int i = 0; i < KINDS; i++) {
        work_free(&r->work[i]);
        HIP(hipFree(r->tickets[i]));
    }
}

/* Kernels: the choices that are fixed for a kind of layer. */

static const struct attn_cache_desc cache_desc = {.page_size = PAGE};

static void look_up_attention(struct rank *r, int kind)
{
    const enum attn_mask mask = kind ? ATTN_MASK_WINDOW : ATTN_MASK_CAUSAL;
    const struct attn_prefill_desc prefill = {
        .size = sizeof(prefill),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .mask = mask,
        .sinks = true,
        .paged = true,
        .cache = cache_desc,
    };
    const struct attn_decode_desc decode = {
        .size = sizeof(decode),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .mask = mask,
        .sinks = true,
        .one_launch = true,
        .cache = cache_desc,
    };
    ATTN(attn_prefill_lookup(r->device, &prefill, &r->prefill[kind]));
    ATTN(attn_decode_lookup(r->device, &decode, &r->decode[kind]));
}

static void look_up(struct rank *r)
{
    const struct attn_metadata_desc advance = {.size = sizeof(advance),
                                               .kind = ATTN_METADATA_DRAFT_SLOTS};
    const struct attn_plan_desc plan = {.size = sizeof(plan)};
    const struct attn_rope_qk_norm_cache_desc rotate = {
        .size = sizeof(rotate),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .rope = ATTN_ROPE_NEOX,
        .cache = cache_desc,
    };
    ATTN(attn_metadata_lookup(r->device, &advance, &r->advance));
    ATTN(attn_plan_lookup(r->device, &plan, &r->plan));
    ATTN(attn_rope_qk_norm_cache_lookup(r->device, &rotate, &r->rotate));
    for (int kind = 0; kind < KINDS; kind++)
        look_up_attention(r, kind);
}

/* The functions from here on launch kernels. */

static struct attn_cache cache_of(const struct layer *l)
{
    return (struct attn_cache){.k = l->k_cache, .v = l->v_cache, .page_count = BATCH * PAGES};
}

static struct attn_pages pages_of(const struct rank *r)
{
    return (struct attn_pages){
        .kv_lens = r->kv_lens, .block_table = r->block_table, .entries = PAGES};
}

/* Advances every live sequence by a token: length, position and slot. */
static void launch_advance(const struct rank *r)
{
    const struct attn_metadata_args args = {
        .size = sizeof(args),
        .kv_lens = r->kv_lens,
        .block_table = r->block_table,
        .slot_mapping = r->slots,
        .positions = r->positions,
        .block_table_stride = PAGES,
        .batch = BATCH,
        .page_size = PAGE,
        .entries = PAGES,
        .advance = 1,
        .stream = r->stream,
    };
    ATTN(attn_metadata_launch(r->advance, &args));
}

static void launch_plan(const struct rank *r, const struct work *w)
{
    const struct attn_plan_args args = {
        .size = sizeof(args),
        .shape = w->shape,
        .lengths = {.kv_lens = r->kv_lens},
        .plan = w->device,
        .stream = r->stream,
    };
    ATTN(attn_plan_launch(r->plan, &args));
}

static void launch_rotate(const struct rank *r, const struct layer *l, int tokens)
{
    const struct attn_rope_qk_norm_cache_args args = {
        .size = sizeof(args),
        .q = l->qkv,
        .k = l->qkv + QUERY,
        .v = l->qkv + QUERY + KEY,
        .q_token_stride = QKV,
        .k_token_stride = QKV,
        .v_token_stride = QKV,
        .q_out = l->q,
        .cache = cache_of(l),
        .slot_mapping = r->slots,
        .positions = r->positions,
        .cos_sin = r->cos_sin,
        .max_position = LONGEST,
        .tokens = tokens,
        .stream = r->stream,
    };
    ATTN(attn_rope_qk_norm_cache_launch(r->rotate, &args));
}

static void launch_prefill(const struct rank *r, int layer, int tokens, int longest)
{
    const struct layer *l = &r->layers[layer];
    const int kind = has_window(layer);
    const struct attn_prefill_args args = {
        .size = sizeof(args),
        .q = l->q,
        .out = l->out,
        .cache = cache_of(l),
        .pages = pages_of(r),
        .sinks = l->sinks,
        .cu_seqlens_q = r->cu_seqlens,
        .batch = BATCH,
        .tokens = tokens,
        .max_seqlen_q = longest,
        .max_seqlen_k = longest,
        .window_left = kind ? WINDOW - 1 : 0,
        .stream = r->stream,
    };
    ATTN(attn_prefill_launch(r->prefill[kind], &args));
}

static void launch_decode(const struct rank *r, int layer)
{
    const struct layer *l = &r->layers[layer];
    const int kind = has_window(layer);
    const struct work *w = &r->work[kind];
    const struct attn_decode_args args = {
        .size = sizeof(args),
        .q = l->q,
        .out = l->out,
        .cache = cache_of(l),
        .pages = pages_of(r),
        .sinks = l->sinks,
        .work_indptr = w->device.work_indptr,
        .work_info = w->device.work_info,
        .work_lists = w->shape.lists,
        .partial_out = w->partial_out,
        .partial_lse = w->partial_lse,
        .partial_rows = w->sizes.partial_rows,
        .reduce_indptr = w->device.reduce_indptr,
        .reduce_partial_map = w->device.reduce_partial_map,
        .tickets = r->tickets[kind],
        .batch = BATCH,
        .tokens = BATCH,
        .window_left = kind ? WINDOW - 1 : 0,
        .stream = r->stream,
    };
    ATTN(attn_decode_launch(r->decode[kind], &args));
}

/* Captures a step of all layers. Layers of a kind share a plan and the memory of its partial
 * results, because each layer merges them before the next one begins. */
static void capture_step(struct rank *r)
{
    gpu_capture(r->stream);
    launch_advance(r);
    for (int kind = 0; kind < KINDS; kind++)
        launch_plan(r, &r->work[kind]);
    for (int layer = 0; layer < LAYERS; layer++) {
        launch_rotate(r, &r->layers[layer], BATCH);
        launch_decode(r, layer);
    }
    r->step = gpu_captured(r->stream);
}

/* Returns the GPU of a rank; ranks share it on a machine with one GPU. */
static int gpu_of(int rank)
{
    int count;
    HIP(hipGetDeviceCount(&count));
    return rank % count;
}

struct rank *rank_open(int number, const float *sinks)
{
    struct rank *r = calloc(1, sizeof(*r));
    if (!r)
        exit(2);
    r->ordinal = gpu_of(number);
    HIP(hipSetDevice(r->ordinal));
    const struct attn_device_options options = {.size = sizeof(options), .ordinal = r->ordinal};
    ATTN(
        attn_pack_open_memory(attn_pack_tensor_parallel, attn_pack_tensor_parallel_size, &r->pack));
    ATTN(attn_device_open(&r->pack, 1, &options, &r->device));
    HIP(hipStreamCreate(&r->stream));
    look_up(r);
    allocate_all(r, sinks);
    capture_step(r);
    printf("rank %d on GPU %d\n", number, r->ordinal);
    return r;
}

void rank_close(struct rank *r)
{
    HIP(hipSetDevice(r->ordinal));
    HIP(hipGraphExecDestroy(r->step));
    HIP(hipStreamDestroy(r->stream));
    free_all(r);
    attn_op_destroy(r->advance);
    attn_op_destroy(r->plan);
    attn_op_destroy(r->rotate);
    for (int kind = 0; kind < KINDS; kind++) {
        attn_op_destroy(r->prefill[kind]);
        attn_op_destroy(r->decode[kind]);
    }
    attn_device_close(r->device);
    attn_pack_close(r->pack);
    free(r);
}

void rank_prefill(struct rank *r, int layer, const uint16_t *qkv, const int lengths[BATCH],
                  uint16_t *out)
{
    int32_t cu_seqlens[BATCH + 1];
    static int64_t positions[TOKENS], slots[TOKENS];
    const int tokens = pack_tokens(paging, lengths, lengths, cu_seqlens, positions, slots);
    HIP(hipSetDevice(r->ordinal));
    struct layer *l = &r->layers[layer];
    gpu_upload(l->qkv, qkv, (size_t)tokens * QKV * sizeof(*qkv));
    gpu_upload(r->positions, positions, (size_t)tokens * sizeof(positions[0]));
    gpu_upload(r->slots, slots, (size_t)tokens * sizeof(slots[0]));
    gpu_upload(r->kv_lens, lengths, BATCH * sizeof(*lengths));
    gpu_upload(r->cu_seqlens, cu_seqlens, sizeof(cu_seqlens));
    launch_rotate(r, l, tokens);
    launch_prefill(r, layer, tokens, longest_of(paging, lengths));
    HIP(hipStreamSynchronize(r->stream));
    HIP(hipMemcpy(out, l->out, (size_t)tokens * QUERY * sizeof(*out), hipMemcpyDeviceToHost));
}

void rank_begin_step(struct rank *r, const uint16_t *qkv)
{
    HIP(hipSetDevice(r->ordinal));
    for (int layer = 0; layer < LAYERS; layer++)
        gpu_upload(r->layers[layer].qkv, qkv + layer * BATCH * QKV, BATCH * QKV * sizeof(*qkv));
    HIP(hipGraphLaunch(r->step, r->stream));
}

void rank_end_step(struct rank *r, uint16_t *out)
{
    HIP(hipSetDevice(r->ordinal));
    HIP(hipStreamSynchronize(r->stream));
    for (int layer = 0; layer < LAYERS; layer++)
        HIP(hipMemcpy(out + layer * BATCH * QUERY, r->layers[layer].out,
                      BATCH * QUERY * sizeof(*out), hipMemcpyDeviceToHost));
}

void rank_drop(struct rank *r, int s)
{
    const int32_t none = 0;
    HIP(hipSetDevice(r->ordinal));
    gpu_upload(r->kv_lens + s, &none, sizeof(none));
}

void rank_read_queries(struct rank *r, int layer, int tokens, uint16_t *queries)
{
    HIP(hipSetDevice(r->ordinal));
    HIP(hipMemcpy(queries, r->layers[layer].q, (size_t)tokens * QUERY * sizeof(*queries),
                  hipMemcpyDeviceToHost));
}

void rank_read_cache(struct rank *r, int layer, int s, int tokens, uint16_t *keys, uint16_t *values)
{
    const struct layer *l = &r->layers[layer];
    HIP(hipSetDevice(r->ordinal));
    for (int t = 0; t < tokens; t++) {
        const size_t at = (size_t)slot_of(paging, s, t) * KEY, size = KEY * sizeof(*keys);
        HIP(hipMemcpy(keys + t * KEY, l->k_cache + at, size, hipMemcpyDeviceToHost));
        HIP(hipMemcpy(values + t * KEY, l->v_cache + at, size, hipMemcpyDeviceToHost));
    }
}

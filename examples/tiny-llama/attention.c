/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the layer's attention. */
#include "attention.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"
#include "pages.h"
#include "work.h"

extern const unsigned char attn_pack_tiny_llama[]; /* kernels.yaml, in this program */
extern const size_t attn_pack_tiny_llama_size;

/* Inputs that both kinds of call read from device memory, so that a replayed graph sees new
 * values. */
struct inputs {
    uint16_t *qkv;       /* [token, QKV]: queries, keys and values */
    int64_t *positions;  /* [token]: position in its sequence */
    int64_t *slots;      /* [token]: slot of the token's key and value; -1: none */
    int32_t *cu_seqlens; /* [BATCH + 1]: first token of each sequence of a prefill */
    int32_t *kv_lens;    /* [BATCH]: keys of each sequence in a decode step */
};

struct attention {
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *rotate, *prefill, *decode, *combine;
    struct attn_op *rotate_decode; /* a step in one launch; NULL: rotate, decode and combine */
    struct inputs in;
    struct work work;
    uint16_t *q, *k, *v, *out; /* q, k, v: rotated; out: the attention's result */
    uint16_t *q_norm, *k_norm;
    float *cos_sin;              /* [LONGEST, DIM]: cosines, then sines, of each position */
    uint16_t *k_cache, *v_cache; /* [page, PAGE, KV_HEADS, DIM]: cached keys and values */
    int32_t *block_table;        /* [BATCH, PAGES]: page numbers of each sequence */
    int32_t *tickets;            /* [BATCH, KV_HEADS, 32]: counters, 0 between launches */
    int64_t *no_slots;           /* [BATCH]: slots of a step that writes no cache, all -1 */
    hipStream_t stream;
    hipGraphExec_t step;
};

static const struct paging paging = {BATCH, PAGES, PAGE};

/* The functions from here on allocate and free memory. */

static void allocate_all(struct attention *a, const struct model *m)
{
    a->in.qkv = gpu_allocate(TOKENS * QKV * sizeof(*a->in.qkv));
    a->in.positions = gpu_allocate(TOKENS * sizeof(*a->in.positions));
    a->in.slots = gpu_allocate(TOKENS * sizeof(*a->in.slots));
    a->in.cu_seqlens = gpu_allocate((BATCH + 1) * sizeof(*a->in.cu_seqlens));
    a->in.kv_lens = gpu_allocate(BATCH * sizeof(*a->in.kv_lens));
    a->q = gpu_allocate(TOKENS * QUERY * sizeof(*a->q));
    a->k = gpu_allocate(TOKENS * KEY * sizeof(*a->k));
    a->v = gpu_allocate(TOKENS * KEY * sizeof(*a->v));
    a->out = gpu_allocate(TOKENS * QUERY * sizeof(*a->out));
    a->q_norm = gpu_allocate(sizeof(m->q_norm));
    a->k_norm = gpu_allocate(sizeof(m->k_norm));
    a->cos_sin = gpu_allocate(LONGEST * DIM * sizeof(*a->cos_sin));
    a->k_cache = gpu_allocate(TOKENS * KEY * sizeof(*a->k_cache));
    a->v_cache = gpu_allocate(TOKENS * KEY * sizeof(*a->v_cache));
    a->block_table = gpu_allocate(BATCH * PAGES * sizeof(*a->block_table));
    gpu_upload(a->q_norm, m->q_norm, sizeof(m->q_norm));
    gpu_upload(a->k_norm, m->k_norm, sizeof(m->k_norm));
    upload_paging(paging, a->block_table, a->cos_sin, LONGEST, DIM, rope_base);
    const size_t tickets = BATCH * KV_HEADS * 32 * sizeof(*a->tickets);
    a->tickets = gpu_allocate(tickets);
    HIP(hipMemset(a->tickets, 0, tickets));
    a->no_slots = gpu_allocate(BATCH * sizeof(*a->no_slots));
    HIP(hipMemset(a->no_slots, 0xff, BATCH * sizeof(*a->no_slots)));
    const struct attn_decode_plan_shape shape = {
        .batch = BATCH, .q_len = 1, .heads = HEADS, .kv_heads = KV_HEADS};
    work_allocate(&a->work, a->rotate_decode ? a->rotate_decode : a->decode, &shape, LONGEST, DIM);
}

static void free_all(struct attention *a)
{
    void *const memory[] = {
        a->in.qkv,      a->in.positions,
        a->in.slots,    a->in.cu_seqlens,
        a->in.kv_lens,  a->q,
        a->k,           a->v,
        a->out,         a->q_norm,
        a->k_norm,      a->cos_sin,
        a->k_cache,     a->v_cache,
        a->block_table, a->tickets,
        a->no_slots,
    };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        HIP(hipFree(memory[i]));
    work_free(&a->work);
}

/* Kernels: everything that is fixed for the layer. */

static const struct attn_cache_desc cache_desc = {.page_size = PAGE};

static void look_up(struct attention *a, bool separate)
{
    const struct attn_rope_qk_norm_cache_desc rotate = {
        .size = sizeof(rotate),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .rope = ATTN_ROPE_NEOX,
        .norm = ATTN_NORM_RMS,
        .keep_kv = true,
        .cache = cache_desc,
    };
    const struct attn_prefill_desc prefill = {
        .size = sizeof(prefill),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .mask = ATTN_MASK_CAUSAL,
    };
    const struct attn_decode_desc decode = {
        .size = sizeof(decode),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .cache = cache_desc,
    };
    const struct attn_rope_decode_desc rotate_decode = {
        .size = sizeof(rotate_decode),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .one_launch = true,
        .rope = ATTN_ROPE_NEOX,
        .norm = ATTN_NORM_RMS,
        .cache = cache_desc,
    };
    const struct attn_combine_desc combine = {
        .size = sizeof(combine),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .partials = ATTN_PARTIALS_CSR,
    };
    ATTN(attn_rope_qk_norm_cache_lookup(a->device, &rotate, &a->rotate));
    ATTN(attn_prefill_lookup(a->device, &prefill, &a->prefill));
    ATTN(attn_decode_lookup(a->device, &decode, &a->decode));
    ATTN(attn_combine_lookup(a->device, &combine, &a->combine));
    if (!separate)
        ATTN(attn_rope_decode_lookup(a->device, &rotate_decode, &a->rotate_decode));
}

static void say_which(const struct attention *a)
{
    const struct attn_op *const ops[] = {a->rotate, a->prefill, a->decode, a->combine,
                                         a->rotate_decode};
    struct attn_device_info device = {.size = sizeof(device)};
    ATTN(attn_device_describe(a->device, &device));
    printf("%s\n", device.name);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && ops[i]; i++) {
        struct attn_op_info info = {.size = sizeof(info)};
        ATTN(attn_op_describe(ops[i], &info));
        printf("  %s: %s\n", info.kernel.name, info.why);
    }
}

/* The functions from here on launch kernels. */

static struct attn_cache cache_of(const struct attention *a)
{
    return (struct attn_cache){.k = a->k_cache, .v = a->v_cache, .page_count = BATCH * PAGES};
}

/* Rotates queries and keys, and writes keys and values to the slots [token] of the cache. */
static void launch_rotate(const struct attention *a, const int64_t *slots, int tokens)
{
    const struct attn_rope_qk_norm_cache_args args = {
        .size = sizeof(args),
        .q = a->in.qkv,
        .k = a->in.qkv + QUERY,
        .v = a->in.qkv + QUERY + KEY,
        .q_token_stride = QKV,
        .k_token_stride = QKV,
        .v_token_stride = QKV,
        .q_out = a->q,
        .k_out = a->k,
        .v_out = a->v,
        .k_out_token_stride = KEY,
        .v_out_token_stride = KEY,
        .cache = cache_of(a),
        .slot_mapping = slots,
        .positions = a->in.positions,
        .cos_sin = a->cos_sin,
        .max_position = LONGEST,
        .q_weight = a->q_norm,
        .k_weight = a->k_norm,
        .eps = rms_eps,
        .tokens = tokens,
        .stream = a->stream,
    };
    ATTN(attn_rope_qk_norm_cache_launch(a->rotate, &args));
}

static void launch_prefill(const struct attention *a, int tokens, int longest)
{
    const struct attn_prefill_args args = {
        .size = sizeof(args),
        .q = a->q,
        .k = a->k,
        .v = a->v,
        .out = a->out,
        .cu_seqlens_q = a->in.cu_seqlens,
        .cu_seqlens_k = a->in.cu_seqlens,
        .batch = BATCH,
        .tokens = tokens,
        .total_k = tokens,
        .max_seqlen_q = longest,
        .max_seqlen_k = longest,
        .stream = a->stream,
    };
    ATTN(attn_prefill_launch(a->prefill, &args));
}

static void launch_decode(const struct attention *a)
{
    const struct work *w = &a->work;
    const struct attn_decode_args args = {
        .size = sizeof(args),
        .q = a->q,
        .out = a->out,
        .cache = cache_of(a),
        .pages = {.kv_lens = a->in.kv_lens, .block_table = a->block_table, .entries = PAGES},
        .work_indptr = w->device.work_indptr,
        .work_info = w->device.work_info,
        .work_lists = w->shape.lists,
        .partial_out = w->partial_out,
        .partial_lse = w->partial_lse,
        .partial_rows = w->sizes.partial_rows,
        .batch = BATCH,
        .tokens = BATCH,
        .stream = a->stream,
    };
    ATTN(attn_decode_launch(a->decode, &args));
}

/* Combines the parts of sequences that were cut; other results are final. */
static void launch_combine(const struct attention *a)
{
    const struct work *w = &a->work;
    const struct attn_combine_args args = {
        .size = sizeof(args),
        .out = a->out,
        .partial_out = w->partial_out,
        .partial_lse = w->partial_lse,
        .partial_rows = w->sizes.partial_rows,
        .reduce_indptr = w->device.reduce_indptr,
        .reduce_final_map = w->device.reduce_final_map,
        .reduce_partial_map = w->device.reduce_partial_map,
        .reduce_tiles = BATCH,
        .tokens = BATCH,
        .stream = a->stream,
    };
    ATTN(attn_combine_launch(a->combine, &args));
}

/* Rotates, writes the cache and attends. A new token's slot is where block_table has its key. */
static void launch_rotate_decode(const struct attention *a)
{
    const struct work *w = &a->work;
    const struct attn_rope_decode_args args = {
        .size = sizeof(args),
        .q = a->in.qkv,
        .k = a->in.qkv + QUERY,
        .v = a->in.qkv + QUERY + KEY,
        .q_token_stride = QKV,
        .k_token_stride = QKV,
        .v_token_stride = QKV,
        .out = a->out,
        .cache = cache_of(a),
        .pages = {.kv_lens = a->in.kv_lens, .block_table = a->block_table, .entries = PAGES},
        .positions = a->in.positions,
        .cos_sin = a->cos_sin,
        .max_position = LONGEST,
        .q_weight = a->q_norm,
        .k_weight = a->k_norm,
        .eps = rms_eps,
        .work_indptr = w->device.work_indptr,
        .work_info = w->device.work_info,
        .work_lists = w->shape.lists,
        .partial_out = w->partial_out,
        .partial_lse = w->partial_lse,
        .partial_rows = w->sizes.partial_rows,
        .reduce_indptr = w->device.reduce_indptr,
        .reduce_partial_map = w->device.reduce_partial_map,
        .tickets = a->tickets,
        .batch = BATCH,
        .tokens = BATCH,
        .stream = a->stream,
    };
    ATTN(attn_rope_decode_launch(a->rotate_decode, &args));
}

/* Captures a decode step. Each replay reads lengths, positions, slots and plan. */
static void capture_step(struct attention *a)
{
    gpu_capture(a->stream);
    if (a->rotate_decode) {
        launch_rotate_decode(a);
    } else {
        launch_rotate(a, a->in.slots, BATCH);
        launch_decode(a);
        launch_combine(a);
    }
    a->step = gpu_captured(a->stream);
}

struct attention *attention_open(const struct model *m, bool separate)
{
    struct attention *a = calloc(1, sizeof(*a));
    if (!a)
        exit(2);
    ATTN(attn_pack_open_memory(attn_pack_tiny_llama, attn_pack_tiny_llama_size, &a->pack));
    ATTN(attn_device_open(&a->pack, 1, NULL, &a->device));
    HIP(hipStreamCreate(&a->stream));
    look_up(a, separate);
    say_which(a);
    allocate_all(a, m);
    capture_step(a);
    return a;
}

void attention_close(struct attention *a)
{
    HIP(hipGraphExecDestroy(a->step));
    HIP(hipStreamDestroy(a->stream));
    free_all(a);
    attn_op_destroy(a->rotate);
    attn_op_destroy(a->prefill);
    attn_op_destroy(a->decode);
    attn_op_destroy(a->combine);
    attn_op_destroy(a->rotate_decode);
    attn_device_close(a->device);
    attn_pack_close(a->pack);
    free(a);
}

static void read_output(struct attention *a, int tokens, uint16_t *out)
{
    HIP(hipStreamSynchronize(a->stream));
    HIP(hipMemcpy(out, a->out, (size_t)tokens * QUERY * sizeof(*out), hipMemcpyDeviceToHost));
}

void attention_prefill(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                       uint16_t *out)
{
    int32_t cu_seqlens[BATCH + 1];
    int64_t positions[TOKENS], slots[TOKENS];
    const int tokens = pack_tokens(paging, lengths, lengths, cu_seqlens, positions, slots);
    gpu_upload(a->in.qkv, qkv, (size_t)tokens * QKV * sizeof(*qkv));
    gpu_upload(a->in.positions, positions, (size_t)tokens * sizeof(positions[0]));
    gpu_upload(a->in.slots, slots, (size_t)tokens * sizeof(slots[0]));
    gpu_upload(a->in.cu_seqlens, cu_seqlens, sizeof(cu_seqlens));
    launch_rotate(a, a->in.slots, tokens);
    launch_prefill(a, tokens, longest_of(paging, lengths));
    read_output(a, tokens, out);
}

void attention_step(struct attention *a, const uint16_t *qkv, const int lengths[BATCH],
                    uint16_t *out)
{
    int64_t positions[BATCH], slots[BATCH];
    int32_t kv_lens[BATCH];
    for (int s = 0; s < BATCH; s++) {
        positions[s] = lengths[s] ? lengths[s] - 1 : 0;
        slots[s] = lengths[s] ? slot_of(paging, s, lengths[s] - 1) : -1;
        kv_lens[s] = lengths[s];
    }
    gpu_upload(a->in.qkv, qkv, (size_t)BATCH * QKV * sizeof(*qkv));
    gpu_upload(a->in.positions, positions, sizeof(positions));
    gpu_upload(a->in.slots, slots, sizeof(slots));
    gpu_upload(a->in.kv_lens, kv_lens, sizeof(kv_lens));
    work_plan(&a->work, kv_lens);
    HIP(hipGraphLaunch(a->step, a->stream));
    if (a->rotate_decode) /* stores no rotated queries, which the checks read */
        launch_rotate(a, a->no_slots, BATCH);
    read_output(a, BATCH, out);
}

void attention_read_queries(struct attention *a, int tokens, uint16_t *queries)
{
    HIP(hipMemcpy(queries, a->q, (size_t)tokens * QUERY * sizeof(*queries), hipMemcpyDeviceToHost));
}

void attention_read_cache(struct attention *a, int sequence, int token, uint16_t *key,
                          uint16_t *value)
{
    const size_t at = (size_t)slot_of(paging, sequence, token) * KEY;
    HIP(hipMemcpy(key, a->k_cache + at, KEY * sizeof(*key), hipMemcpyDeviceToHost));
    HIP(hipMemcpy(value, a->v_cache + at, KEY * sizeof(*value), hipMemcpyDeviceToHost));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The layer's device memory, and the uploads of a call. */
#include "layer.h"

#include <math.h>
#include <stdlib.h>

#include "pages.h"
#include "parts.h"

int call_tokens(const struct call *call)
{
    int tokens = 0;
    for (int s = 0; s < BATCH; s++)
        tokens += call->added[s];
    return tokens;
}

int call_chunk(const struct call *call, int s, int number)
{
    const int cached = call->added[s] ? call->lengths[s] - call->added[s] : 0;
    const int rest = cached - number * CHUNK;
    return rest < 0 ? 0 : rest < CHUNK ? rest : CHUNK;
}

static struct paging paging_of(const struct layer *l)
{
    return (struct paging){BATCH, LONGEST / l->shape->page, l->shape->page};
}

/* The functions from here on allocate and free memory. */

enum { TICKETS = 32 /* ticket counters of a sequence, for attention and for the product each */ };

static void *keep(const void *from, size_t size)
{
    void *p = gpu_allocate(size);
    gpu_upload(p, from, size);
    return p;
}

static void allocate_tensors(struct tensors *t, const struct shape *s)
{
    const size_t element = sizeof(uint16_t), query = (size_t)query_size(s) * element;
    const size_t out = (size_t)out_size(s) * element, heads = (size_t)s->heads;
    t->q_a = gpu_allocate(TOKENS * (size_t)s->q_lora * element);
    t->kv_a = gpu_allocate(TOKENS * ROW * element);
    t->q = gpu_allocate(TOKENS * query);
    t->k = gpu_allocate(MOST_TOKENS * query);
    t->v = gpu_allocate(MOST_TOKENS * out);
    t->gathered = gpu_allocate(CHUNKED * ROW * element);
    const size_t absorbed = s->index_heads ? TOKENS : STEP;
    t->absorbed = gpu_allocate(absorbed * heads * ROW * element);
    t->latent = gpu_allocate(absorbed * heads * LATENT * element);
    t->out = gpu_allocate(TOKENS * out);
}

static void allocate_inputs(struct inputs *in)
{
    in->positions = gpu_allocate(TOKENS * sizeof(*in->positions));
    in->slots = gpu_allocate(TOKENS * sizeof(*in->slots));
    in->q_ends = gpu_allocate((BATCH + 1) * sizeof(int32_t));
    in->k_ends = gpu_allocate((BATCH + 1) * sizeof(int32_t));
    in->starts = gpu_allocate(BATCH * sizeof(int32_t));
    in->kv_lens = gpu_allocate(BATCH * sizeof(int32_t));
}

static void keep_tables(struct layer *l)
{
    static float angles[LONGEST][ROPE];
    for (int t = 0; t < LONGEST; t++) {
        for (int i = 0; i < ROPE / 2; i++) {
            angles[t][i] = (float)cos(rope_angle(l->shape, t, i));
            angles[t][i + ROPE / 2] = (float)sin(rope_angle(l->shape, t, i));
        }
    }
    int32_t pages[BATCH * LONGEST];
    const struct paging paging = paging_of(l);
    fill_block_table(paging, pages);
    l->memory.cos_sin = keep(angles, sizeof(angles));
    l->memory.block_table = keep(pages, (size_t)BATCH * paging.pages * sizeof(pages[0]));
}

static void allocate_all(struct layer *l)
{
    const struct model *model = l->model;
    const struct shape *s = l->shape;
    struct memory *m = &l->memory;
    const size_t heads = (size_t)s->heads, element = sizeof(uint16_t);
    allocate_inputs(&m->in);
    allocate_tensors(&m->t, s);
    const struct attn_decode_plan_shape steps = {
        .batch = BATCH, .q_len = QUERIES, .heads = s->heads, .kv_heads = 1};
    work_allocate(&m->work, l->kernels.decode, &steps, LONGEST, LATENT);
    static const int32_t zeros[(BATCH + 1) * TICKETS];
    m->tickets = keep(zeros, sizeof(zeros));
    m->product_tickets = m->tickets + BATCH * TICKETS;
    keep_tables(l);
    m->q_norm = keep(model->q_norm, (size_t)s->q_lora * element);
    m->kv_norm = keep(model->kv_norm, LATENT * element);
    m->kv_b = keep(model->kv_b, heads * (size_t)(s->nope + s->value) * LATENT * element);
    m->absorb = keep(model->absorb, heads * LATENT * (size_t)s->nope * element);
    m->chunk_out = gpu_allocate(TOKENS * (size_t)out_size(s) * element);
    m->lse = gpu_allocate(heads * TOKENS * sizeof(float));
    m->chunk_lse = gpu_allocate(heads * TOKENS * sizeof(float));
    m->cache = gpu_allocate(BATCH * LONGEST * ROW * (s->fp8 ? 1 : element));
    const float scale = 0.05f;
    m->scale = keep(&scale, sizeof(scale));
}

static void free_all(struct memory *m)
{
    const struct tensors *t = &m->t;
    void *const memory[] = {
        m->in.positions, m->in.slots,    m->in.q_ends, m->in.k_ends, m->in.starts, m->in.kv_lens,
        t->q_a,          t->kv_a,        t->q,         t->k,         t->v,         t->gathered,
        t->absorbed,     t->latent,      t->out,       m->q_norm,    m->kv_norm,   m->kv_b,
        m->absorb,       m->chunk_out,   m->lse,       m->chunk_lse, m->cos_sin,   m->cache,
        m->scale,        m->block_table, m->tickets,
    };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        HIP(hipFree(memory[i]));
    work_free(&m->work);
}

/* Captures a step. Each replay reads lengths, positions, slots and plan, and, with an indexer,
 * each token's sequence and number of visible keys. */
static void capture_step(struct layer *l)
{
    gpu_capture(l->stream);
    if (l->shape->index_heads)
        launch_sparse(l);
    else
        launch_step(l);
    l->step = gpu_captured(l->stream);
}

struct layer *layer_open(const struct model *m)
{
    struct layer *l = calloc(1, sizeof(*l));
    if (!l)
        exit(2);
    l->model = m;
    l->shape = m->shape;
    kernels_open(&l->kernels, l->shape);
    HIP(hipStreamCreate(&l->stream));
    struct attn_device_info device = {.size = sizeof(device)};
    ATTN(attn_device_describe(l->kernels.device, &device));
    l->fnuz = strcmp(device.target, "gfx942") == 0;
    allocate_all(l);
    if (l->shape->index_heads)
        sparse_allocate(l);
    capture_step(l);
    return l;
}

void layer_close(struct layer *l)
{
    HIP(hipGraphExecDestroy(l->step));
    HIP(hipStreamDestroy(l->stream));
    free_all(&l->memory);
    if (l->shape->index_heads)
        sparse_free(l);
    kernels_close(&l->kernels);
    free(l);
}

/* The functions from here on run calls. */

/* Uploads a call in `room` rows. Rows after the new tokens are padding, with slot -1. */
static void upload_call(struct layer *l, const struct call *call, int room)
{
    int64_t positions[TOKENS] = {0}, slots[TOKENS];
    int32_t ends[BATCH + 1];
    int n = pack_tokens(paging_of(l), call->lengths, call->added, ends, positions, slots);
    for (; n < room; n++)
        slots[n] = -1;
    const struct inputs *in = &l->memory.in;
    gpu_upload(in->positions, positions, (size_t)room * sizeof(positions[0]));
    gpu_upload(in->slots, slots, (size_t)room * sizeof(slots[0]));
    gpu_upload(in->q_ends, ends, sizeof(ends));
    gpu_upload(in->kv_lens, call->lengths, BATCH * sizeof(int32_t));
}

void layer_norm(struct layer *l, int tokens, uint16_t *q_a, uint16_t *kv_a)
{
    const size_t q_bytes = (size_t)tokens * (size_t)l->shape->q_lora * sizeof(*q_a);
    const size_t kv_bytes = (size_t)tokens * ROW * sizeof(*kv_a);
    const struct tensors *t = &l->memory.t;
    gpu_upload(t->q_a, q_a, q_bytes);
    gpu_upload(t->kv_a, kv_a, kv_bytes);
    launch_norm(l, tokens);
    layer_download(l, q_a, t->q_a, q_bytes);
    layer_download(l, kv_a, t->kv_a, kv_bytes);
}

static void upload_queries(struct layer *l, const struct call *call, const uint16_t *q)
{
    const size_t size = (size_t)call_tokens(call) * (size_t)query_size(l->shape) * sizeof(*q);
    gpu_upload(l->memory.t.q, q, size);
}

void layer_prefill(struct layer *l, const struct call *call, const uint16_t *q)
{
    const int tokens = call_tokens(call);
    upload_call(l, call, tokens);
    upload_queries(l, call, q);
    launch_rotate(l, tokens, false);
    launch_up(l, l->memory.t.kv_a, tokens);
    launch_prefill(l, call);
    HIP(hipStreamSynchronize(l->stream));
}

void layer_prefill_chunk(struct layer *l, const struct call *call, int number)
{
    int32_t ends[BATCH + 1] = {0}, starts[BATCH];
    for (int s = 0; s < BATCH; s++) {
        ends[s + 1] = ends[s] + call_chunk(call, s, number);
        starts[s] = number * CHUNK;
    }
    gpu_upload(l->memory.in.k_ends, ends, sizeof(ends));
    gpu_upload(l->memory.in.starts, starts, sizeof(starts));
    launch_gather(l);
    launch_up(l, l->memory.t.gathered, ends[BATCH]);
    launch_chunk(l, call);
    HIP(hipStreamSynchronize(l->stream));
}

void layer_step(struct layer *l, const struct call *call, const uint16_t *q)
{
    upload_call(l, call, STEP);
    upload_queries(l, call, q);
    HIP(hipGraphLaunch(l->step, l->stream));
    HIP(hipStreamSynchronize(l->stream));
}

void layer_sparse(struct layer *l, const struct call *call, const uint16_t *q,
                  const struct index_inputs *index)
{
    const size_t tokens = (size_t)call_tokens(call), heads = (size_t)l->shape->index_heads;
    const size_t element = sizeof(uint16_t);
    int32_t sequences[TOKENS] = {0}, ends[TOKENS] = {0}; /* padding sees no keys */
    for (int s = 0, n = 0; s < BATCH; s++) {
        for (int i = 0; i < call->added[s]; i++, n++) {
            sequences[n] = s;
            ends[n] = call->lengths[s] - call->added[s] + i + 1;
        }
    }
    upload_call(l, call, TOKENS);
    upload_queries(l, call, q);
    gpu_upload(l->memory.row_sequences, sequences, sizeof(sequences));
    gpu_upload(l->memory.row_ends, ends, sizeof(ends));
    gpu_upload(l->index.q, index->q, tokens * heads * INDEX * element);
    gpu_upload(l->index.k, index->k, tokens * INDEX * element);
    gpu_upload(l->index.weights, index->weights, tokens * heads * element);
    HIP(hipGraphLaunch(l->step, l->stream));
    HIP(hipStreamSynchronize(l->stream));
}

const struct index *layer_index(const struct layer *l) { return &l->index; }

const struct tensors *layer_tensors(const struct layer *l) { return &l->memory.t; }

void layer_download(struct layer *l, void *to, const void *from, size_t size)
{
    HIP(hipStreamSynchronize(l->stream));
    HIP(hipMemcpy(to, from, size, hipMemcpyDeviceToHost));
}

/* Returns the value of e4m3 bits. OCP's format has bias 7 and NaN in all ones; gfx942's FNUZ has
 * bias 8 and one NaN, -0. */
double layer_fp8(const struct layer *l, uint8_t bits)
{
    const bool fnuz = l->fnuz;
    const int exponent = bits >> 3 & 15, mantissa = bits & 7, bias = fnuz ? 8 : 7;
    if (fnuz ? bits == 0x80 : (bits & 0x7f) == 0x7f)
        return NAN;
    const double value =
        exponent ? ldexp(8 + mantissa, exponent - bias - 3) : ldexp(mantissa, 1 - bias - 3);
    return bits & 0x80 ? -value : value;
}

double layer_fp8_largest(const struct layer *l) { return l->fnuz ? 240 : 448; }

int64_t layer_slot(const struct layer *l, int sequence, int token)
{
    return slot_of(paging_of(l), sequence, token);
}

/* Returns the bytes of a key without its 4 bytes of scales. */
static size_t key_bytes(const struct layer *l) { return l->shape->mxfp4 ? INDEX / 2 : INDEX; }

size_t layer_index_page(const struct layer *l)
{
    return (size_t)l->shape->page * (key_bytes(l) + sizeof(float));
}

/* Returns an offset in the layout that interleaves 16 tokens: the first 16 bytes of each, the next
 * 16 ... */
size_t layer_index_key(const struct layer *l, int sequence, int token, int byte)
{
    const size_t page = (size_t)l->shape->page;
    const size_t slot = (size_t)slot_of(paging_of(l), sequence, token), inside = slot % page;
    return slot / page * layer_index_page(l) + inside / 16 * 16 * key_bytes(l) +
           (size_t)byte / 16 * 256 + inside % 16 * 16 + (size_t)byte % 16;
}

size_t layer_index_scale(const struct layer *l, int sequence, int token)
{
    const size_t page = (size_t)l->shape->page;
    const size_t slot = (size_t)slot_of(paging_of(l), sequence, token);
    return slot / page * layer_index_page(l) + page * key_bytes(l) + slot % page * sizeof(float);
}

float layer_read_row(struct layer *l, int sequence, int token, double row[ROW])
{
    uint8_t bytes[ROW * sizeof(uint16_t)];
    float scale;
    const size_t size = ROW * (l->shape->fp8 ? 1 : sizeof(uint16_t));
    layer_download(l, bytes,
                   l->memory.cache + (size_t)slot_of(paging_of(l), sequence, token) * size, size);
    layer_download(l, &scale, l->memory.scale, sizeof(scale));
    for (int i = 0; i < ROW; i++) {
        uint16_t bits;
        memcpy(&bits, bytes + 2 * (size_t)i, sizeof(bits));
        row[i] = l->shape->fp8 ? layer_fp8(l, bytes[i]) * scale : bf16_to_float(bits);
    }
    return scale;
}

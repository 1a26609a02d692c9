/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures decode with work lists and its combine into a HIP graph on the simulator. Replays have
 * other lengths, queries, pages and plans, which the kernels must read from device memory.
 * Arguments: the simulator's HIP library, the pack of graph_decode.yaml.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/graph.h"
#include "tests/unit_test.h"
#include "tools/verify/paged.h"
#include "tools/reference/decode.h"

enum { BATCH = 3, Q_LEN = 2, DIM = 128, HEADS = 4, KV_HEADS = 2, PAGE = 16, LONGEST = 400 };
enum { LISTS = 9, TOKENS = BATCH * Q_LEN, ROW_PAGES = LONGEST / PAGE, REPLAYS = 30, INFO = 8 };
enum { PARTS = LISTS / KV_HEADS, ITEMS = (BATCH + PARTS - 1) * KV_HEADS };
enum { PARTIALS = BATCH + PARTS - 1, ROWS = PARTIALS * Q_LEN };

/* The data that change between replays; the same struct is on host and device. */
struct step {
    _Alignas(16) uint16_t q[TOKENS * HEADS * DIM];
    uint16_t out[TOKENS * HEADS * DIM];
    int32_t work_info[ITEMS][INFO];
    int32_t work_indptr[LISTS + 1];
    int32_t reduce_indptr[BATCH + 1], reduce_final_map[BATCH][2], reduce_partial_map[PARTIALS];
    int32_t kv_lens[BATCH], qo[BATCH + 1], pages[BATCH * ROW_PAGES];
};

/* The handles and data that stay the same for all replays. */
struct bench {
    struct gpu gpu; /* the simulator's memory, in tools/verify's form */
    struct device_memory memory;
    const struct precision *bf16;
    uint16_t cache[CACHE_PARTS][BATCH * ROW_PAGES * PAGE * KV_HEADS * DIM];
    struct attn_cache cache_args;
    double sinks[HEADS], q[TOKENS * HEADS * DIM];
    float *device_sinks, *partial_out, *partial_lse;
    struct step *device;
};

static void make_bench(struct bench *b, uint64_t *random)
{
    b->gpu = (struct gpu){
        .hipMalloc = hip.hipMalloc,
        .hipFree = hip.hipFree,
        .hipMemcpy = hip.hipMemcpy,
    };
    b->memory.gpu = &b->gpu;
    b->bf16 = find_precision("bf16");
    for (size_t i = 0; i < sizeof(b->cache[0]) / sizeof(uint16_t); i++)
        for (int part = 0; part < CACHE_PARTS; part++)
            b->cache[part][i] = random_element(b->bf16, 2, random);
    b->cache_args = (struct attn_cache){
        .k = device_copy(&b->memory, b->cache[CACHE_K], sizeof(b->cache[CACHE_K])),
        .v = device_copy(&b->memory, b->cache[CACHE_V], sizeof(b->cache[CACHE_V])),
        .page_count = BATCH * ROW_PAGES,
    };
    float sinks[HEADS];
    for (int h = 0; h < HEADS; h++)
        b->sinks[h] = sinks[h] = (float)random_value(random);
    b->device_sinks = device_copy(&b->memory, sinks, sizeof(sinks));
    b->partial_out = device_allocate(&b->memory, sizeof(float) * ROWS * HEADS * DIM);
    b->partial_lse = device_allocate(&b->memory, sizeof(float) * ROWS * HEADS);
    b->device = device_allocate(&b->memory, sizeof(*b->device));
    assert_int_equal(b->memory.error, 0);
}

static void plan(struct step *s)
{
    static const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = BATCH,
        .q_len = Q_LEN,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .lists = LISTS,
    };
    const struct attn_decode_plan_lengths lengths = {s->kv_lens, s->qo};
    const struct attn_decode_plan plan = {
        .work_indptr = s->work_indptr,
        .work_info = s->work_info[0],
        .reduce_indptr = s->reduce_indptr,
        .reduce_final_map = s->reduce_final_map[0],
        .reduce_partial_map = s->reduce_partial_map,
    };
    assert_int_equal(attn_decode_plan(&shape, &lengths, &plan), ATTN_OK);
}

/* Makes a new step of random lengths, tensors and pages, and copies it to the device. Some rows are
 * padding: no queries, no keys. */
static void change(struct bench *b, struct step *s, uint64_t *random)
{
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < BATCH; i++) {
        const bool padding = random_bits(random) % 4 == 0;
        const int queries = padding ? 0 : 1 + (int)(random_bits(random) % Q_LEN);
        s->qo[i + 1] = s->qo[i] + queries;
        s->kv_lens[i] = padding ? 0 : 1 + (int)(random_bits(random) % LONGEST);
    }
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
        b->q[i] = random_value(random);
        s->q[i] = encode_element(b->bf16, b->q[i]);
        s->out[i] = b->bf16->poison;
    }
    int32_t *pages = shuffled_pages(BATCH * ROW_PAGES, random);
    memcpy(s->pages, pages, sizeof(s->pages));
    free(pages);
    plan(s);
    assert_int_equal(hip.hipMemcpy(b->device, s, sizeof(*s), HIP_TO_DEVICE), 0);
}

/* Checks a row of the output. The bound is two roundings of at most 2^-8 each, and a little for
 * float32, as in tools/verify/. The weights of parts are float32. */
static void check_row(const struct bench *b, const struct step *s, int64_t token, int head,
                      const struct ref_row *r)
{
    for (int d = 0; d < DIM; d++) {
        const double got = decode_element(b->bf16, s->out[(token * HEADS + head) * DIM + d]);
        const double bound = 1.05 * b->bf16->unit * (r->magnitude[d] + fabs(r->out[d]));
        if (!(fabs(got - r->out[d]) <= bound))
            fail_msg("token %lld, head %d, element %d is %g, expected %g", (long long)token, head,
                     d, got, r->out[d]);
    }
}

static double decode(const void *type, uint32_t bits)
{
    return decode_element(type, (uint16_t)bits);
}

static struct ref_cache cache_of(const struct bench *b, enum cache_part part)
{
    return (struct ref_cache){
        .page_size = PAGE,
        .dim = DIM,
        .element_size = sizeof(uint16_t),
        .page_stride = PAGE * KV_HEADS * DIM,
        .token_stride = KV_HEADS * DIM,
        .head_stride = DIM,
        .elements = b->cache[part],
        .decode = decode,
        .type = b->bf16,
    };
}

static void check(const struct bench *b, struct step *s)
{
    static double k[LONGEST * DIM], v[LONGEST * DIM], scratch[LONGEST];
    static struct ref_row row;
    static const int32_t first_page[BATCH] = {0, ROW_PAGES, 2 * ROW_PAGES};
    assert_int_equal(hip.hipMemcpy(s, b->device, sizeof(*s), HIP_TO_HOST), 0);
    const struct ref_decode reference = {
        .attention = {.dim = DIM, .dim_v = DIM, .scale = 1 / sqrtf(DIM)},
        .q = b->q,
        .qo_indptr = s->qo,
        .kv_lens = s->kv_lens,
        .pages = s->pages,
        .first_page = first_page,
        .k = cache_of(b, CACHE_K),
        .v = cache_of(b, CACHE_V),
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .sinks = b->sinks,
        .left = INT32_MAX,
    };
    for (int i = 0; i < BATCH * HEADS; i++) {
        const int sequence = i / HEADS, head = i % HEADS;
        ref_decode_gather(&reference, sequence, head / (HEADS / KV_HEADS), k, v);
        const struct ref_part whole = {.k = k, .v = v, .end = s->kv_lens[sequence]};
        for (int t = 0; t < s->qo[sequence + 1] - s->qo[sequence]; t++) {
            ref_decode_row(&reference, sequence, head, t, &whole, scratch, &row);
            check_row(b, s, s->qo[sequence] + t, head, &row);
        }
    }
    for (int i = s->qo[BATCH] * HEADS * DIM; i < TOKENS * HEADS * DIM; i++)
        assert_int_equal(s->out[i], b->bf16->poison); /* rows that belong to no sequence */
}

static struct attn_decode_args decode_args(const struct bench *b, void *stream)
{
    const struct step *s = b->device;
    return (struct attn_decode_args){
        .size = sizeof(struct attn_decode_args),
        .q = s->q,
        .out = b->device->out,
        .sinks = b->device_sinks,
        .cache = b->cache_args,
        .pages = {.kv_lens = s->kv_lens, .block_table = s->pages, .entries = ROW_PAGES},
        .qo_indptr = s->qo,
        .work_indptr = s->work_indptr,
        .work_info = s->work_info[0],
        .partial_out = b->partial_out,
        .partial_lse = b->partial_lse,
        .batch = BATCH,
        .tokens = TOKENS,
        .work_lists = LISTS,
        .partial_rows = ROWS,
        .stream = stream,
    };
}

static struct attn_combine_args combine_args(const struct bench *b, void *stream)
{
    const struct step *s = b->device;
    return (struct attn_combine_args){
        .size = sizeof(struct attn_combine_args),
        .out = b->device->out,
        .sinks = b->device_sinks,
        .partial_out = b->partial_out,
        .partial_lse = b->partial_lse,
        .reduce_indptr = s->reduce_indptr,
        .reduce_final_map = s->reduce_final_map[0],
        .reduce_partial_map = s->reduce_partial_map,
        .tokens = TOKENS,
        .reduce_tiles = BATCH,
        .q_len = Q_LEN,
        .partial_rows = ROWS,
        .stream = stream,
    };
}

static void *capture(const struct bench *b, struct attn_op *const ops[2], void *stream)
{
    const struct attn_decode_args decode = decode_args(b, stream);
    const struct attn_combine_args combine = combine_args(b, stream);
    graph_capture(stream);
    assert_int_equal(attn_decode_launch(ops[0], &decode), ATTN_OK);
    assert_int_equal(attn_combine_launch(ops[1], &combine), ATTN_OK);
    return graph_captured(stream);
}

static void look_up(struct attn_device *device, struct attn_op *ops[2])
{
    const struct attn_decode_desc decode = {
        .size = sizeof(decode),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .q_len = Q_LEN,
        .mask = ATTN_MASK_CAUSAL,
        .sinks = true,
        .cache = {.page_size = PAGE},
    };
    const struct attn_combine_desc combine = {
        .size = sizeof(combine),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
    };
    assert_int_equal(attn_decode_lookup(device, &decode, &ops[0]), ATTN_OK);
    assert_int_equal(attn_combine_lookup(device, &combine, &ops[1]), ATTN_OK);
}

TEST(replays_follow_new_plans)
{
    struct attn_op *ops[2];
    struct graph_bench g = graph_open(0);
    look_up(g.device, ops);
    static struct bench b;
    static struct step s;
    uint64_t random = 3;
    make_bench(&b, &random);
    void *exec = capture(&b, ops, g.stream);
    int cut = 0;
    for (int i = 0; i < REPLAYS; i++) {
        change(&b, &s, &random);
        graph_replay(exec, g.stream);
        check(&b, &s);
        cut += s.reduce_indptr[BATCH] > 0;
    }
    assert_true(cut > REPLAYS / 2 && cut < REPLAYS); /* with and without partial results */
    device_free(&b.memory);
    attn_op_destroy(ops[0]);
    attn_op_destroy(ops[1]);
    graph_close(&g, exec);
}

int main(int argc, char **argv)
{
    if (!graph_begin(argc, argv))
        return 2;
    return run_unit_tests();
}

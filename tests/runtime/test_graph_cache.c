/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures the life of a page into a HIP graph on the simulator. New keys and values are written.
 * The page is swapped out to pinned host memory and back in as another page. Its sequence is
 * gathered. Replays have other tokens, slots, pages and lengths, which the kernels must read from
 * device memory. After each replay every byte of both caches and of the gathered rows is compared
 * with plain copies. Arguments: the simulator's HIP library, the pack of graph_cache.yaml.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/graph.h"
#include "tests/unit_test.h"
#include "tools/verify/numbers.h"

enum { DIM = 64, KV_HEADS = 2, ROW = KV_HEADS * DIM, PAGE = 16 };
enum { PAGES = 12, HOST_PAGES = 5, MOVED = 4, TOKENS = 40, BATCH = 2, REPLAYS = 25 };
enum { FRESH = PAGES - MOVED, ROWS = MOVED * PAGE }; /* written pages; the swapped-in ones follow */

typedef uint16_t page[PAGE][ROW];

/* The device memory of the test. A copy of this struct on the host has the expected contents. */
struct step {
    _Alignas(16) page k[PAGES];
    page v[PAGES];
    uint16_t k_in[TOKENS][ROW], v_in[TOKENS][ROW];
    uint16_t k_out[ROWS][ROW], v_out[ROWS][ROW];
    _Alignas(16) int64_t out_pairs[MOVED][2], in_pairs[MOVED][2];
    int64_t slots[TOKENS];
    int32_t table[BATCH][MOVED], cu[BATCH + 1], starts[BATCH];
};

/* The cache in pinned host memory, to which pages are swapped out. */
struct host {
    _Alignas(16) page k[HOST_PAGES];
    page v[HOST_PAGES];
};

struct ops {
    struct attn_op *write, *copy, *gather;
};

static struct attn_cache cache_of(void *k, void *v) { return (struct attn_cache){.k = k, .v = v}; }

static void launch(const struct ops *ops, struct step *d, struct host *pinned, void *stream)
{
    const struct attn_cache device = cache_of(d->k, d->v), host = cache_of(pinned->k, pinned->v);
    const struct attn_cache_write_args write = {
        .size = sizeof(write),
        .k_in = d->k_in,
        .v_in = d->v_in,
        .cache = device,
        .slot_mapping = d->slots,
        .tokens = TOKENS,
        .stream = stream,
    };
    const struct attn_cache_copy_args out = {
        .size = sizeof(out),
        .from = device,
        .to = host,
        .page_pairs = d->out_pairs[0],
        .pairs = MOVED,
        .stream = stream,
    };
    const struct attn_cache_copy_args in = {
        .size = sizeof(in),
        .from = host,
        .to = device,
        .page_pairs = d->in_pairs[0],
        .pairs = MOVED,
        .stream = stream,
    };
    const struct attn_cache_gather_args gather = {
        .size = sizeof(gather),
        .k_out = d->k_out,
        .v_out = d->v_out,
        .cache = device,
        .pages = {.block_table = d->table[0], .entries = MOVED},
        .cu_seqlens_k = d->cu,
        .seq_starts = d->starts,
        .batch = BATCH,
        .total_k = ROWS,
        .max_seqlen_k = ROWS,
        .stream = stream,
    };
    assert_int_equal(attn_cache_write_launch(ops->write, &write), ATTN_OK);
    assert_int_equal(attn_cache_copy_launch(ops->copy, &out), ATTN_OK);
    assert_int_equal(attn_cache_copy_launch(ops->copy, &in), ATTN_OK);
    assert_int_equal(attn_cache_gather_launch(ops->gather, &gather), ATTN_OK);
}

static void *capture(const struct ops *ops, struct step *d, struct host *pinned, void *stream)
{
    graph_capture(stream);
    launch(ops, d, pinned, stream);
    return graph_captured(stream);
}

/* Fills `numbers` with 0 .. n - 1 in random order. */
static void shuffle(int32_t *numbers, int n, uint64_t *random)
{
    for (int i = 0; i < n; i++) {
        const int j = (int)(random_bits(random) % (unsigned)(i + 1));
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
}

/* Changes tokens for pages below FRESH. Some of these pages are swapped out and in; some pairs and
 * slots are to be skipped. */
static void change(struct step *s, uint64_t *random)
{
    int32_t slots[FRESH * PAGE], fresh[FRESH], host[HOST_PAGES], back[MOVED];
    shuffle(slots, FRESH * PAGE, random);
    shuffle(fresh, FRESH, random);
    shuffle(host, HOST_PAGES, random);
    shuffle(back, MOVED, random);
    for (int t = 0; t < TOKENS; t++) {
        s->slots[t] = random_bits(random) % 5 ? slots[t] : -1;
        for (int i = 0; i < ROW; i++) {
            s->k_in[t][i] = (uint16_t)random_bits(random);
            s->v_in[t][i] = (uint16_t)random_bits(random);
        }
    }
    for (int i = 0; i < MOVED; i++) {
        s->out_pairs[i][0] = random_bits(random) % 4 ? fresh[i] : -1;
        s->out_pairs[i][1] = s->in_pairs[i][0] = host[i];
        s->in_pairs[i][1] = random_bits(random) % 8 ? FRESH + back[i] : -1;
    }
    s->cu[1] = (int32_t)(random_bits(random) % (ROWS / 2));
    s->cu[2] = s->cu[1] + (int32_t)(random_bits(random) % (ROWS / 2));
    for (int b = 0; b < BATCH; b++) {
        s->starts[b] = (int32_t)(random_bits(random) % (ROWS / 2));
        for (int i = 0; i < MOVED; i++)
            s->table[b][i] = FRESH + back[(i + b) % MOVED];
    }
}

static void copy_pages(page *to_k, page *to_v, page *from_k, page *from_v, int64_t (*pairs)[2])
{
    for (int i = 0; i < MOVED; i++) {
        if (pairs[i][0] < 0 || pairs[i][1] < 0)
            continue;
        memcpy(to_k[pairs[i][1]], from_k[pairs[i][0]], sizeof(page));
        memcpy(to_v[pairs[i][1]], from_v[pairs[i][0]], sizeof(page));
    }
}

/* Computes the expected contents with plain copies. */
static void expect(struct step *s, struct host *host)
{
    for (int t = 0; t < TOKENS; t++) {
        if (s->slots[t] < 0)
            continue;
        memcpy(s->k[s->slots[t] / PAGE][s->slots[t] % PAGE], s->k_in[t], sizeof(s->k_in[t]));
        memcpy(s->v[s->slots[t] / PAGE][s->slots[t] % PAGE], s->v_in[t], sizeof(s->v_in[t]));
    }
    copy_pages(host->k, host->v, s->k, s->v, s->out_pairs);
    copy_pages(s->k, s->v, host->k, host->v, s->in_pairs);
    for (int b = 0; b < BATCH; b++) {
        for (int row = s->cu[b], token = s->starts[b]; row < s->cu[b + 1]; row++, token++) {
            const int32_t from = s->table[b][token / PAGE];
            memcpy(s->k_out[row], s->k[from][token % PAGE], sizeof(s->k_out[row]));
            memcpy(s->v_out[row], s->v[from][token % PAGE], sizeof(s->v_out[row]));
        }
    }
}

static void replay(void *exec, void *stream, struct step *d, struct host *pinned)
{
    static struct step expected, got;
    static struct host host;
    uint64_t random = 5;
    memset(&expected, 0x3c, sizeof(expected));
    memset(&host, 0x5a, sizeof(host));
    memcpy(pinned, &host, sizeof(host));
    for (int i = 0; i < REPLAYS; i++) {
        change(&expected, &random);
        assert_int_equal(hip.hipMemcpy(d, &expected, sizeof(*d), HIP_TO_DEVICE), 0);
        expect(&expected, &host);
        graph_replay(exec, stream);
        assert_int_equal(hip.hipMemcpy(&got, d, sizeof(got), HIP_TO_HOST), 0);
        assert_memory_equal(&got, &expected, sizeof(got));
        assert_memory_equal(pinned, &host, sizeof(host));
    }
}

static struct ops look_up(struct attn_device *device)
{
    const struct attn_cache_desc cache = {.dtype = ATTN_BF16, .page_size = PAGE};
    const struct attn_cache_write_desc write = {
        .size = sizeof(write),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .kv_heads = KV_HEADS,
        .cache = cache,
    };
    const struct attn_cache_copy_desc copy = {
        .size = sizeof(copy),
        .head_dim = DIM,
        .kv_heads = KV_HEADS,
        .cache = cache,
    };
    const struct attn_cache_gather_desc gather = {
        .size = sizeof(gather),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .kv_heads = KV_HEADS,
        .cache = cache,
    };
    struct ops ops;
    assert_int_equal(attn_cache_write_lookup(device, &write, &ops.write), ATTN_OK);
    assert_int_equal(attn_cache_copy_lookup(device, &copy, &ops.copy), ATTN_OK);
    assert_int_equal(attn_cache_gather_lookup(device, &gather, &ops.gather), ATTN_OK);
    return ops;
}

TEST(a_captured_page_goes_out_to_the_host_and_back)
{
    struct graph_bench g = graph_open(0);
    const struct ops ops = look_up(g.device);
    void *memory, *pinned;
    assert_int_equal(hip.hipMalloc(&memory, sizeof(struct step)), 0);
    assert_int_equal(hip.hipHostMalloc(&pinned, sizeof(struct host), 0), 0);
    void *exec = capture(&ops, memory, pinned, g.stream);
    replay(exec, g.stream, memory, pinned);
    hip.hipHostFree(pinned);
    hip.hipFree(memory);
    attn_op_destroy(ops.write);
    attn_op_destroy(ops.copy);
    attn_op_destroy(ops.gather);
    graph_close(&g, exec);
}

int main(int argc, char **argv)
{
    if (!graph_begin(argc, argv))
        return 2;
    return run_unit_tests();
}

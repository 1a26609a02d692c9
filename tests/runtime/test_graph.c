/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures one launch into a HIP graph on the simulator. Replays have other lengths and values,
 * which the kernel must read from device memory. Arguments: the simulator's HIP library, a pack of
 * one causal bf16 prefill kernel of head_dim 128, and optionally the number of replays.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/graph.h"
#include "tests/unit_test.h"
#include "tools/verify/numbers.h"
#include "tools/reference/prefill.h"

enum { BATCH = 2, LONGEST = 40, ROOM = BATCH * LONGEST, DIM = 128, HEADS = 1 };

static int replays = 1000;

/* The device memory of a launch, and host copies of its contents. */
struct step {
    void *device[4]; /* q, k, v, out */
    void *cu;        /* starts of the sequences, for queries and for keys */
    double values[3][ROOM * HEADS * DIM];
    uint16_t bits[ROOM * HEADS * DIM];
    int32_t lengths[BATCH + 1];
};

static void allocate(struct step *s)
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(hip.hipMalloc(&s->device[i], sizeof(s->bits)), 0);
    assert_int_equal(hip.hipMalloc(&s->cu, sizeof(s->lengths)), 0);
}

static void change(struct step *s, const struct precision *bf16, uint64_t *random)
{
    for (int i = 0; i < BATCH; i++)
        s->lengths[i + 1] = s->lengths[i] + (int32_t)(random_bits(random) % (LONGEST + 1));
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < ROOM * HEADS * DIM; i++) {
            s->values[t][i] = random_value(random);
            s->bits[i] = encode_element(bf16, s->values[t][i]);
        }
        assert_int_equal(hip.hipMemcpy(s->device[t], s->bits, sizeof(s->bits), HIP_TO_DEVICE), 0);
    }
    for (int i = 0; i < ROOM * HEADS * DIM; i++)
        s->bits[i] = bf16->poison;
    assert_int_equal(hip.hipMemcpy(s->device[3], s->bits, sizeof(s->bits), HIP_TO_DEVICE), 0);
    assert_int_equal(hip.hipMemcpy(s->cu, s->lengths, sizeof(s->lengths), HIP_TO_DEVICE), 0);
}

/* Checks a row of the output. The bound is two roundings of at most 2^-8 each, and a little for
 * float32, as in tools/verify/. */
static void check_row(const struct step *s, const struct precision *bf16, int64_t token, int head,
                      const struct ref_row *r)
{
    for (int d = 0; d < DIM; d++) {
        const double got = decode_element(bf16, s->bits[(token * HEADS + head) * DIM + d]);
        const double bound = 1.05 * bf16->unit * (r->magnitude[d] + fabs(r->out[d]));
        if (!(fabs(got - r->out[d]) <= bound))
            fail_msg("token %lld, head %d, element %d is %g, expected %g", (long long)token, head,
                     d, got, r->out[d]);
    }
}

static void check(struct step *s, const struct precision *bf16)
{
    assert_int_equal(hip.hipMemcpy(s->bits, s->device[3], sizeof(s->bits), HIP_TO_HOST), 0);
    const struct ref_prefill reference = {
        .q = s->values[0],
        .k = s->values[1],
        .v = s->values[2],
        .cu_q = s->lengths,
        .cu_k = s->lengths,
        .batch = BATCH,
        .heads = HEADS,
        .kv_heads = HEADS,
        .left = INT32_MAX,
        .attention = {.dim = DIM, .dim_v = DIM, .scale = 1 / sqrtf(DIM)},
    };
    static struct ref_row row;
    double scratch[LONGEST];
    for (int i = 0; i < BATCH; i++) {
        for (int64_t r = 0; r < s->lengths[i + 1] - s->lengths[i]; r++) {
            for (int h = 0; h < HEADS; h++) {
                ref_prefill_row(&reference, i, h, r, scratch, &row);
                check_row(s, bf16, s->lengths[i] + r, h, &row);
            }
        }
    }
    for (int i = s->lengths[BATCH] * HEADS * DIM; i < ROOM * HEADS * DIM; i++)
        assert_int_equal(s->bits[i], bf16->poison); /* rows that belong to no sequence */
}

static void *capture(const struct attn_op *op, const struct step *s, void *stream)
{
    const struct attn_prefill_args a = {
        .size = sizeof(a),
        .q = s->device[0],
        .k = s->device[1],
        .v = s->device[2],
        .out = s->device[3],
        .cu_seqlens_q = s->cu,
        .cu_seqlens_k = s->cu,
        .batch = BATCH,
        .tokens = ROOM,
        .total_k = ROOM,
        .max_seqlen_q = LONGEST,
        .max_seqlen_k = LONGEST,
        .stream = stream,
    };
    graph_capture(stream);
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    return graph_captured(stream);
}

TEST(replays_see_new_lengths)
{
    struct graph_bench g = graph_open(ATTN_CHECK_DATA);
    const struct attn_prefill_desc d = {
        .size = sizeof(d),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = HEADS,
        .mask = ATTN_MASK_CAUSAL,
    };
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(g.device, &d, &op), ATTN_OK);
    static struct step s;
    allocate(&s);
    void *exec = capture(op, &s, g.stream);
    uint64_t random = 5;
    for (int i = 0; i < replays; i++) {
        change(&s, find_precision("bf16"), &random);
        graph_replay(exec, g.stream);
        check(&s, find_precision("bf16"));
    }
    for (int i = 0; i < 4; i++)
        hip.hipFree(s.device[i]);
    hip.hipFree(s.cu);
    attn_op_destroy(op);
    graph_close(&g, exec);
}

int main(int argc, char **argv)
{
    if (!graph_begin(argc, argv))
        return 2;
    if (argc > 3)
        replays = atoi(argv[3]);
    return run_unit_tests();
}

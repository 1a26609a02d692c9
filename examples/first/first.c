/* SPDX-License-Identifier: Apache-2.0
 *
 * The first launch: one prefill with a pack. All queries and keys are zero, so each query weighs
 * all visible keys equally. Value t is t, so output t is the mean of 0 to t, which is t / 2.
 */
#include <attn.h>
#include <hip/hip_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 64, HEADS = 4, KV_HEADS = 1, DIM = 128 };

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, attn_last_error());
    return 1;
}

static uint16_t to_bf16(float f) /* exact for numbers with no more bits */
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Allocates device memory with these bytes, or zeros. */
static void *upload(const void *bytes, size_t size)
{
    void *p;
    if (hipMalloc(&p, size) != hipSuccess || hipMemset(p, 0, size) != hipSuccess ||
        (bytes && hipMemcpy(p, bytes, size, hipMemcpyHostToDevice) != hipSuccess))
        exit(fail("hipMalloc"));
    return p;
}

int main(int argc, char **argv)
{
    static uint16_t v[TOKENS][KV_HEADS][DIM], out[TOKENS][HEADS][DIM];
    const int32_t cu_seqlens[] = {0, TOKENS};
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *op;
    if (argc != 2 || attn_pack_open(argv[1], &pack) || attn_device_open(&pack, 1, NULL, &device))
        return fail("opening");

    /* Once per layer shape. */
    const struct attn_prefill_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .mask = ATTN_MASK_CAUSAL,
    };
    if (attn_prefill_lookup(device, &desc, &op))
        return fail("lookup");

    for (int t = 0; t < TOKENS; t++) {
        for (int d = 0; d < DIM; d++)
            v[t][0][d] = to_bf16((float)t);
    }
    const struct attn_prefill_args args = {
        .size = sizeof(args),
        .q = upload(NULL, sizeof(out)),
        .k = upload(NULL, sizeof(v)),
        .v = upload(v, sizeof(v)),
        .out = upload(NULL, sizeof(out)),
        .cu_seqlens_q = upload(cu_seqlens, sizeof(cu_seqlens)),
        .cu_seqlens_k = upload(cu_seqlens, sizeof(cu_seqlens)),
        .batch = 1,
        .tokens = TOKENS,
        .max_seqlen_q = TOKENS,
        .max_seqlen_k = TOKENS,
    };
    /* In every step: no allocation, no lock, on args.stream. */
    if (attn_prefill_launch(op, &args))
        return fail("launch");
    if (hipMemcpy(out, args.out, sizeof(out), hipMemcpyDeviceToHost) != hipSuccess)
        return fail("hipMemcpy");
    for (int t = 0; t < TOKENS; t++) {
        if (fabsf(from_bf16(out[t][HEADS - 1][DIM - 1]) - (float)t / 2) > 0.25f) {
            fprintf(stderr, "token %d: %g\n", t, from_bf16(out[t][HEADS - 1][DIM - 1]));
            return 1;
        }
    }
    printf("%d tokens, all right\n", TOKENS);
    attn_op_destroy(op);
    attn_device_close(device);
    attn_pack_close(pack);
    return 0;
}

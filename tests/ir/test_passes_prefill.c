/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the pass that makes a result wrong. Prefill runs in the interpreter as the template writes
 * it and after the last pass, against softmax(scale Q K^T) V in double; if that result is wrong,
 * after each pass. A template that is wrong fails at "building", a pass that breaks something at
 * its own name. If a result is right here and wrong on a device, the lowering to LLVM is at fault.
 */
#include <math.h>

#include <stdlib.h>
#include <string.h>

#include "targets/tgt.h"
#include "tests/ir/interpreted.h"

enum { HEADS = 2, KV_HEADS = 1, BATCH = 2, MAX_Q = 40, MAX_K = 160, MAX_DIM = 256, ELEM = 2 };

/* Two sequences; the second has more keys than queries, so bottom-right alignment shows. */
static const int32_t cu_q[BATCH + 1] = {0, MAX_Q, MAX_Q + 17};
static const int32_t cu_k[BATCH + 1] = {0, MAX_Q, MAX_Q + MAX_K - 7};

struct problem {
    struct att_variant v;
    uint16_t *q, *k, *out;
    uint16_t *value;
    double *expected;
};

static uint16_t *random_tensor(const struct att_variant *v, size_t n)
{
    uint16_t *const t = allocate(n, sizeof(*t));
    fill_random(t, dtype_of(v), n);
    return t;
}

static bool visible(const struct problem *p, int query, int key, int q_len, int k_len)
{
    return p->v.mask == ATT_MASK_NONE || key <= query + k_len - q_len;
}

/* Computes the expected output and LSE of a query of a sequence in one head. */
static void reference_row(const struct problem *p, int seq, int query, int head)
{
    const int d = p->v.head_dim, dv = p->v.head_dim_v;
    const int q_len = cu_q[seq + 1] - cu_q[seq], k_len = cu_k[seq + 1] - cu_k[seq];
    const uint16_t *const q = p->q + ((size_t)(cu_q[seq] + query) * HEADS + head) * d;
    double *const o = p->expected + ((size_t)(cu_q[seq] + query) * HEADS + head) * dv;
    double sum = 0, top = -INFINITY, s[MAX_K];
    for (int j = 0; j < k_len; j++) {
        const uint16_t *const k = p->k + (size_t)(cu_k[seq] + j) * KV_HEADS * d;
        s[j] = 0;
        for (int i = 0; i < d; i++)
            s[j] += number(&p->v, q[i]) * number(&p->v, k[i]);
        s[j] = visible(p, query, j, q_len, k_len) ? s[j] / sqrt(d) : -INFINITY;
        top = fmax(top, s[j]);
    }
    memset(o, 0, (size_t)dv * sizeof(*o));
    for (int j = 0; j < k_len; j++) {
        const double w = s[j] == -INFINITY ? 0 : exp(s[j] - top);
        sum += w;
        for (int i = 0; i < dv; i++)
            o[i] += w * number(&p->v, p->value[(size_t)(cu_k[seq] + j) * dv + i]);
    }
    for (int i = 0; i < dv && sum > 0; i++)
        o[i] /= sum;
}

static void make_tensors(struct problem *p)
{
    const size_t n_out = (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim_v;
    p->q = random_tensor(&p->v, (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim);
    p->k = random_tensor(&p->v, (size_t)cu_k[BATCH] * KV_HEADS * (size_t)p->v.head_dim);
    p->value = random_tensor(&p->v, (size_t)cu_k[BATCH] * KV_HEADS * (size_t)p->v.head_dim_v);
    p->out = allocate(n_out, sizeof(*p->out));
    p->expected = allocate(n_out, sizeof(*p->expected));
    for (int seq = 0; seq < BATCH; seq++)
        for (int i = 0; i < cu_q[seq + 1] - cu_q[seq]; i++)
            for (int head = 0; head < HEADS; head++)
                reference_row(p, seq, i, head);
}

static void free_tensors(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->value);
    free(p->out);
    free(p->expected);
}

static int64_t argument(const void *problem, const char *name)
{
    const struct problem *const p = problem;
    const float scale = 1 / sqrtf((float)p->v.head_dim), log2e = 1.44269504f;
    const struct known known[] = {
        {"q", (int64_t)(uintptr_t)p->q},
        {"k", (int64_t)(uintptr_t)p->k},
        {"v", (int64_t)(uintptr_t)p->value},
        {"out", (int64_t)(uintptr_t)p->out},
        {"cu_seqlens_q", (int64_t)(uintptr_t)cu_q},
        {"cu_seqlens_k", (int64_t)(uintptr_t)cu_k},
        {"q_token_stride", HEADS * p->v.head_dim},
        {"q_head_stride", p->v.head_dim},
        {"k_token_stride", KV_HEADS * p->v.head_dim},
        {"k_head_stride", p->v.head_dim},
        {"v_token_stride", KV_HEADS * p->v.head_dim_v},
        {"v_head_stride", p->v.head_dim_v},
        {"out_token_stride", HEADS * p->v.head_dim_v},
        {"out_head_stride", p->v.head_dim_v},
        {"heads", HEADS},
        {"kv_heads", KV_HEADS},
        {"gqa", HEADS / KV_HEADS},
        {"batch", BATCH},
        {"workgroups", INT32_MAX},
        {"tokens", cu_q[BATCH]},
        {"max_seqlen_q", MAX_Q},
        {"workgroups", INT32_MAX},
        {"max_seqlen_k", MAX_K},
        {"scale", bits_of(scale)},
        {"scale_log2", bits_of(scale * log2e)},
    };
    return known_value(known, sizeof(known) / sizeof(known[0]), name);
}

static struct attention_result result_of(const struct problem *p)
{
    return (struct attention_result){
        .v = &p->v, .tokens = cu_q[BATCH], .heads = HEADS, .out = p->out, .expected = p->expected};
}

static void run_problem(const struct tgt *t, int head_dim, int head_dim_v, enum att_dtype dtype,
                        enum att_mask mask)
{
    struct problem p = {0};
    att_variant_init(&p.v, template_of("prefill"), t->machine.name);
    p.v.head_dim = head_dim;
    p.v.head_dim_v = head_dim_v;
    p.v.loc[ATT_HEAD_DIM].line = p.v.loc[ATT_HEAD_DIM_V].line = 1;
    p.v.dtype = dtype;
    p.v.mask = mask;
    att_variant_resolve(&p.v);
    make_tensors(&p);
    interpret_kernel(&(struct interpreted){.v = &p.v,
                                           .problem = &p,
                                           .argument = argument,
                                           .attention = result_of(&p),
                                           .round_trip = true});
    free_tensors(&p);
}

TEST(passes_keep_what_prefill_computes_on_gfx942)
{
    run_problem(tgt_find("gfx942"), 128, 128, ATT_DTYPE_BF16, ATT_MASK_CAUSAL);
    run_problem(tgt_find("gfx942"), 64, 64, ATT_DTYPE_FP16, ATT_MASK_NONE);
}

TEST(passes_keep_what_prefill_computes_on_gfx950)
{
    run_problem(tgt_find("gfx950"), 128, 128, ATT_DTYPE_BF16, ATT_MASK_CAUSAL);
    run_problem(tgt_find("gfx950"), 192, 128, ATT_DTYPE_FP16, ATT_MASK_CAUSAL);
}

int main(void) { return run_unit_tests(); }

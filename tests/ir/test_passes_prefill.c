/* SPDX-License-Identifier: Apache-2.0
 *
 * Places a wrong result: prefill as the template writes it and after each pass runs in the
 * interpreter, against softmax(scale Q K^T) V in double. A template that is wrong fails at
 * "building", a pass that breaks something at its own name; what comes out right here and wrong on
 * a device is the lowering's fault.
 */
#include <math.h>

#include "ir/arith.h"
#include "ir/interp.h"
#include "targets/tgt.h"
#include "templates/template.h"
#include "tests/ir/fixture.h"

enum { HEADS = 2, KV_HEADS = 1, BATCH = 2, MAX_Q = 40, MAX_K = 160, MAX_DIM = 256, ELEM = 2 };

/* Two sequences; the second has more keys than queries, so bottom-right alignment shows. */
static const int32_t cu_q[BATCH + 1] = {0, MAX_Q, MAX_Q + 17};
static const int32_t cu_k[BATCH + 1] = {0, MAX_Q, MAX_Q + MAX_K - 7};

struct problem {
    struct att_kernel kernel;
    struct att_variant v;
    uint16_t *q, *k, *out;
    uint16_t *value;
    double *expected;
    const char *failed_after;
    char why[TIR_WHY];
};

static uint32_t random_state;

static uint16_t random_element(unsigned dtype)
{
    random_state = random_state * 1664525u + 1013904223u;
    const float f = (float)(int32_t)random_state / 2147483648.0f;
    return (uint16_t)tir_from_float(dtype, 2 * f, false);
}

static unsigned dtype_of(const struct problem *p)
{
    return p->v.dtype == ATT_DTYPE_BF16 ? TIR_BF16 : TIR_F16;
}

static uint16_t *random_tensor(unsigned dtype, size_t n)
{
    uint16_t *const t = malloc(n * sizeof(*t));
    assert_non_null(t);
    for (size_t i = 0; i < n; i++)
        t[i] = random_element(dtype);
    return t;
}

static bool visible(const struct problem *p, int query, int key, int q_len, int k_len)
{
    return p->v.mask == ATT_MASK_NONE || key <= query + k_len - q_len;
}

/* One row of one head. */
static void reference_row(const struct problem *p, int seq, int query, int head)
{
    const unsigned dtype = dtype_of(p);
    const int d = p->v.head_dim, dv = p->v.head_dim_v;
    const int q_len = cu_q[seq + 1] - cu_q[seq], k_len = cu_k[seq + 1] - cu_k[seq];
    const uint16_t *const q = p->q + ((size_t)(cu_q[seq] + query) * HEADS + head) * d;
    double *const o = p->expected + ((size_t)(cu_q[seq] + query) * HEADS + head) * dv;
    double sum = 0, top = -INFINITY, s[MAX_K];
    for (int j = 0; j < k_len; j++) {
        const uint16_t *const k = p->k + (size_t)(cu_k[seq] + j) * KV_HEADS * d;
        s[j] = 0;
        for (int i = 0; i < d; i++)
            s[j] += (double)tir_to_float(dtype, q[i], false) * tir_to_float(dtype, k[i], false);
        s[j] = visible(p, query, j, q_len, k_len) ? s[j] / sqrt(d) : -INFINITY;
        top = fmax(top, s[j]);
    }
    memset(o, 0, (size_t)dv * sizeof(*o));
    for (int j = 0; j < k_len; j++) {
        const double w = s[j] == -INFINITY ? 0 : exp(s[j] - top);
        sum += w;
        for (int i = 0; i < dv; i++)
            o[i] += w * tir_to_float(dtype, p->value[(size_t)(cu_k[seq] + j) * dv + i], false);
    }
    for (int i = 0; i < dv && sum > 0; i++)
        o[i] /= sum;
}

static void make_tensors(struct problem *p)
{
    const unsigned dtype = dtype_of(p);
    const size_t n_out = (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim_v;
    p->q = random_tensor(dtype, (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim);
    p->k = random_tensor(dtype, (size_t)cu_k[BATCH] * KV_HEADS * (size_t)p->v.head_dim);
    p->value = random_tensor(dtype, (size_t)cu_k[BATCH] * KV_HEADS * (size_t)p->v.head_dim_v);
    p->out = malloc(n_out * sizeof(*p->out));
    p->expected = malloc(n_out * sizeof(*p->expected));
    assert_true(p->out && p->expected);
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

static int64_t argument(const struct problem *p, const char *name)
{
    const float scale = 1 / sqrtf((float)p->v.head_dim), log2e = 1.44269504f;
    const struct {
        const char *name;
        int64_t value;
    } known[] = {
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
        {"total_q", cu_q[BATCH]},
        {"max_seqlen_q", MAX_Q},
        {"max_seqlen_k", MAX_K},
        {"scale", tir_from_float(TIR_F32, scale, false)},
        {"scale_log2", tir_from_float(TIR_F32, scale * log2e, false)},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(known[i].name, name))
            return known[i].value;
    fail_msg("no value for argument %s", name);
    return 0;
}

/* Relative error of the whole output, with what was not written counting as wrong. */
static double error_of(const struct problem *p)
{
    const size_t n = (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim_v;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = tir_to_float(dtype_of(p), p->out[i], false) - p->expected[i];
        difference += isnan(d) ? INFINITY : d * d;
        norm += p->expected[i] * p->expected[i];
    }
    return sqrt(difference / norm);
}

/* Rounding of P and of the output to 8 (bf16) or 11 bits, about 0.6 ulp each in the mean. */
static double bound_of(const struct problem *p)
{
    return p->v.dtype == ATT_DTYPE_BF16 ? 4e-3 : 5e-4;
}

static unsigned grid_dim(const struct problem *p, const struct att_grid *g)
{
    if (!g->arg)
        return 1;
    const unsigned n = (unsigned)argument(p, g->arg), divide = (unsigned)g->divide;
    return (n + divide - 1) / divide * (unsigned)g->times;
}

static void check_after(void *context, const char *pass, const struct tir_func *f)
{
    struct problem *const p = context;
    if (p->failed_after)
        return;
    uint8_t kernarg[512] = {0};
    for (uint32_t i = 0; i < f->n_args; i++) {
        const int64_t v = argument(p, f->args[i].name);
        memcpy(kernarg + f->args[i].offset, &v, tir_dtype_bits(f->args[i].dtype) / 8);
    }
    memset(p->out, 0xff, (size_t)cu_q[BATCH] * HEADS * (size_t)p->v.head_dim_v * ELEM); /* NaN */
    unsigned grid[3];
    for (int i = 0; i < 3; i++)
        grid[i] = grid_dim(p, &p->kernel.grid[i]);
    if (!tir_interpret(f, kernarg, sizeof(kernarg), grid, p->why)) {
        p->failed_after = pass ? pass : "building";
        return;
    }
    const double error = error_of(p);
    if (!(error <= bound_of(p))) {
        p->failed_after = pass ? pass : "building";
        snprintf(p->why, sizeof(p->why), "error %.3g, bound %.3g", error, bound_of(p));
    }
}

static void run_problem(const struct tgt *t, int head_dim, int head_dim_v, enum att_dtype dtype,
                        enum att_mask mask)
{
    struct problem p = {.failed_after = NULL};
    const struct att_template *op = NULL;
    for (int i = 0; att_templates[i]; i++)
        if (!strcmp(att_templates[i]->name, "prefill"))
            op = att_templates[i];
    assert_non_null(op);
    att_variant_init(&p.v, op, t->machine.name);
    p.v.head_dim = head_dim;
    p.v.head_dim_v = head_dim_v;
    p.v.loc[ATT_HEAD_DIM].line = p.v.loc[ATT_HEAD_DIM_V].line = 1;
    p.v.dtype = dtype;
    p.v.mask = mask;
    att_variant_resolve(&p.v);
    make_tensors(&p);
    struct att_kernel *const k = &p.kernel;
    op->build(&p.v, &t->machine, k);
    const struct tir_pass_options options = {
        .schedule = &k->schedule, .round_trip = true, .observe = check_after, .context = &p};
    char why[128];
    assert_true(tir_run_passes(k->func, &options, why));
    if (p.failed_after)
        fail_msg("%s is wrong after %s: %s", k->func->name, p.failed_after, p.why);
    tir_func_destroy(k->func);
    free_tensors(&p);
}

static void passes_keep_what_prefill_computes_on_gfx942(void **state)
{
    (void)state;
    run_problem(tgt_find("gfx942"), 128, 128, ATT_DTYPE_BF16, ATT_MASK_CAUSAL);
    run_problem(tgt_find("gfx942"), 64, 64, ATT_DTYPE_FP16, ATT_MASK_NONE);
}

static void passes_keep_what_prefill_computes_on_gfx950(void **state)
{
    (void)state;
    run_problem(tgt_find("gfx950"), 128, 128, ATT_DTYPE_BF16, ATT_MASK_CAUSAL);
    run_problem(tgt_find("gfx950"), 192, 128, ATT_DTYPE_FP16, ATT_MASK_CAUSAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_keep_what_prefill_computes_on_gfx942),
        cmocka_unit_test(passes_keep_what_prefill_computes_on_gfx950),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ir/interpreted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arith.h"
#include "targets/tgt.h"

const struct att_template *template_of(const char *op)
{
    for (int i = 0; att_templates[i]; i++)
        if (!strcmp(att_templates[i]->name, op))
            return att_templates[i];
    fail_msg("no template named %s", op);
    return NULL;
}

/* The functions from here on make arguments. */

const struct known *find_known(const struct known *known, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(known[i].name, name))
            return &known[i];
    return NULL;
}

int64_t known_value(const struct known *known, size_t count, const char *name)
{
    const struct known *const found = find_known(known, count, name);
    if (!found)
        fail_msg("no value for argument %s", name);
    return found->value;
}

int64_t address(const void *p) { return (int64_t)(uintptr_t)p; }

int64_t bits_of(float f) { return tir_from_float(TIR_F32, f, false); }

/* The functions from here on compute with numbers. */

static uint32_t random_state;

void seed_random(uint32_t seed) { random_state = seed; }

double random_number(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(int32_t)random_state / 2147483648.0;
}

void fill_random(uint16_t *elements, unsigned dtype, size_t n)
{
    for (size_t i = 0; i < n; i++)
        elements[i] = (uint16_t)tir_from_float(dtype, (float)(2 * random_number()), false);
}

void *allocate(size_t n, size_t size)
{
    void *const p = malloc(n * size + 1);
    assert_non_null(p);
    return p;
}

uint8_t *random_mask(const int32_t *kv_lens, int batch, int q_len, int64_t *indptr)
{
    for (int s = 0; s < batch; s++)
        indptr[s + 1] = indptr[s] + q_len * kv_lens[s];
    uint8_t *const mask = allocate((size_t)indptr[batch], 1);
    for (int64_t i = 0; i < indptr[batch]; i++)
        mask[i] = random_number() > 0.3;
    return mask;
}

/* Returns the first key of part `part` of n keys in `parts` parts. */
static int cut(int n, int part, int parts)
{
    const int at = (n * part / parts + 31) / 32 * 32;
    return at < n ? at : n;
}

bool work_item(int32_t item[8], int s, int n, int q_len, int part, int parts, int first, int end)
{
    const int last = cut(n, part + 1, parts);
    const int32_t words[8] = {s,
                              n ? (s * parts + part) * q_len : -1,
                              s * q_len,
                              (s + 1) * q_len,
                              cut(n, part, parts),
                              last,
                              n - last,
                              first | end << 16};
    memcpy(item, words, sizeof(words));
    return n || !part;
}

unsigned dtype_of(const struct att_variant *v)
{
    return v->dtype == ATT_DTYPE_BF16 ? TIR_BF16 : TIR_F16;
}

double number(const struct att_variant *v, uint16_t bits)
{
    return (double)tir_to_float(dtype_of(v), bits, false);
}

/* The functions from here on compute attention. */

static void poison_attention(const struct attention_result *r)
{
    const size_t rows = (size_t)r->tokens * (size_t)r->heads, dv = (size_t)r->v->head_dim_v;
    memset(r->out, 0xff, rows * dv * sizeof(*r->out));
    if (r->lse)
        memset(r->lse, 0xff, rows * sizeof(*r->lse));
    if (!r->partial_out)
        return;
    memset(r->partial_out, 0xff, (size_t)r->parts * rows * dv * sizeof(*r->partial_out));
    memset(r->partial_lse, 0xff, (size_t)r->parts * rows * sizeof(*r->partial_lse));
}

/* Combines the parts of a row: sum of o exp(lse), over the sum of exp(lse). */
static double combined(const struct attention_result *r, size_t row, size_t column, double *lse)
{
    const size_t heads = (size_t)r->heads, q_len = (size_t)r->q_len, parts = (size_t)r->parts;
    const size_t head = row % heads, token = row / heads, sequence = token / q_len;
    double sum = r->sinks ? exp((double)r->sinks[head]) : 0, o = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t at = ((sequence * parts + part) * q_len + token % q_len) * heads + head;
        const double w = exp((double)r->partial_lse[at]);
        sum += w;
        if (w > 0)
            o += w * (double)r->partial_out[at * (size_t)r->v->head_dim_v + column];
    }
    *lse = log(sum);
    return sum > 0 ? o / sum : 0;
}

static double result(const struct attention_result *r, size_t row, size_t column, double *lse)
{
    const size_t token = row / (size_t)r->heads, head = row % (size_t)r->heads;
    if (r->in_parts && r->kv_lens[token / (size_t)r->q_len])
        return combined(r, row, column, lse);
    if (r->lse)
        *lse = (double)r->lse[head * (size_t)r->tokens + token];
    return number(r->v, r->out[row * (size_t)r->v->head_dim_v + column]);
}

/* Returns the relative error of the whole output. A wrong log of the denominator counts fully. */
static double error_of(const struct attention_result *r)
{
    const size_t rows = (size_t)r->tokens * (size_t)r->heads, dv = (size_t)r->v->head_dim_v;
    double difference = 0, norm = 0, lse = NAN;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < dv; i++) {
            const double want = r->expected[row * dv + i];
            const double d = result(r, row, i, &lse) - want;
            difference += isnan(d) ? INFINITY : d * d;
            norm += want * want;
        }
        if (!(r->lse_bound > 0))
            continue;
        const double want = r->expected_lse[row];
        if (isinf(want) ? lse != want : !(fabs(lse - want) <= r->lse_bound))
            difference += INFINITY;
    }
    return sqrt(difference / norm);
}

/* Bounds the rounding of P and of the output to 8 (bf16) or 11 bits: about 0.6 ulp each on
   average. */
static double bound_of(const struct att_variant *v)
{
    return v->dtype == ATT_DTYPE_BF16 ? 4e-3 : 5e-4;
}

static bool attention_is_right(const struct attention_result *r, char why[TIR_WHY])
{
    const double error = error_of(r), bound = bound_of(r->v) + r->rounding;
    snprintf(why, TIR_WHY, "error %.3g, bound %.3g", error, bound);
    return error <= bound;
}

/* The functions from here on run functions. */

struct run {
    const struct interpreted *k;
    struct att_kernel built;
    unsigned grid[3];
    const char *failed_after;
    char why[TIR_WHY];
};

static unsigned grid_dimension(const struct run *r, int i)
{
    const struct att_grid *const g = &r->built.grid[i];
    if (r->k->grid[i])
        return r->k->grid[i];
    if (!g->arg)
        return 1;
    const unsigned n = (unsigned)r->k->argument(r->k->problem, g->arg),
                   divide = (unsigned)g->divide;
    return (n + divide - 1) / divide * (unsigned)g->times;
}

static void run_after(void *context, const char *pass, const struct tir_func *f)
{
    struct run *const r = context;
    const struct interpreted *const k = r->k;
    if (r->failed_after)
        return;
    uint8_t kernarg[512] = {0};
    for (uint32_t i = 0; i < f->n_args; i++) {
        const int64_t v = k->argument(k->problem, f->args[i].name);
        memcpy(kernarg + f->args[i].offset, &v, tir_dtype_bits(f->args[i].dtype) / 8);
    }
    if (k->attention.out)
        poison_attention(&k->attention);
    if (k->poison)
        k->poison(k->problem);
    if (!tir_interpret(f, kernarg, sizeof(kernarg), r->grid, r->why) ||
        (k->attention.out && !attention_is_right(&k->attention, r->why)) ||
        (k->is_right && !k->is_right(k->problem, r->why)))
        r->failed_after = pass ? pass : "building";
}

/* Builds the kernel. Runs it as the template writes it, and after each pass if `each_pass`, else
 * after the last pass only. Sets r->failed_after if a result is wrong. */
static void interpret(struct run *r, bool each_pass)
{
    const struct interpreted *const k = r->k;
    char why[128];
    k->v->op->build(k->v, &tgt_find(k->v->target)->machine, &r->built);
    for (int i = 0; i < 3; i++)
        r->grid[i] = grid_dimension(r, i);
    if (r->built.workgroups_most &&
        r->grid[0] * r->grid[1] * r->grid[2] > r->built.workgroups_most) {
        r->grid[0] = r->built.workgroups_most;
        r->grid[1] = r->grid[2] = 1;
    }
    const struct tir_pass_options options = {.schedule = &r->built.schedule,
                                             .round_trip = k->round_trip,
                                             .observe = each_pass ? run_after : NULL,
                                             .context = r};
    if (!each_pass)
        run_after(r, NULL, r->built.func);
    assert_true(tir_run_passes(r->built.func, &options, why));
    if (!each_pass)
        run_after(r, "the last pass", r->built.func);
}

void interpret_kernel(const struct interpreted *k)
{
    struct run r = {.k = k};
    struct att_why reason = {.text = ""};
    if (!k->v->op->check(k->v, &tgt_find(k->v->target)->machine, &reason))
        fail_msg("%s", reason.text);
    interpret(&r, k->each_pass);
    if (r.failed_after && !k->each_pass) {
        tir_func_destroy(r.built.func);
        r.failed_after = NULL;
        interpret(&r, true);
        if (!r.failed_after)
            r.failed_after = "the last pass of another run";
    }
    if (r.failed_after)
        fail_msg("%s is wrong after %s: %s", r.built.func->name, r.failed_after, r.why);
    tir_func_destroy(r.built.func);
}

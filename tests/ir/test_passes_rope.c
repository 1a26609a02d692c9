/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the pass that makes a result wrong. rope_qk_norm_cache runs in the interpreter as the
 * template writes it and after each pass, against the formulas in double.
 */
#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arith.h"
#include "targets/tgt.h"
#include "tests/ir/interpreted.h"
#include "tools/reference/rope_qk_norm_cache.h"

enum { TOKENS = 5, HEADS = 9, KV_HEADS = 2, DIM = 64, ROTARY = 32, PAGE = 8, PAGES = 3, X = 8 };
enum { N_SLOTS = PAGES * PAGE, POSITIONS = 40, N_CACHE = N_SLOTS * KV_HEADS * DIM };

extern const struct att_template att_template_rope_qk_norm_cache;

static const int64_t positions[TOKENS] = {0, 39, 7, 8, 39};
static const int64_t slots[TOKENS] = {17, -1, 0, 23, 6};

struct problem {
    struct att_variant v;
    uint16_t q[TOKENS * HEADS * DIM], k[TOKENS * KV_HEADS * DIM], value[TOKENS * KV_HEADS * DIM];
    uint16_t weight[DIM], out[TOKENS * HEADS * DIM], k_cache[N_CACHE], v_cache[N_CACHE];
    float cos_sin[POSITIONS * ROTARY];
};

static double decode(uint16_t bits) { return tir_to_float(TIR_BF16, bits, false); }

static int64_t argument(const void *problem, const char *name)
{
    const struct problem *const p = problem;
    const bool shuffle = p->v.kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    const int64_t page = PAGE * KV_HEADS * DIM, head = shuffle ? PAGE * DIM : DIM;
    const struct known known[] = {
        {"q", address(p->q)},
        {"k_in", address(p->k)},
        {"v_in", address(p->value)},
        {"out", address(p->out)},
        {"k", address(p->k_cache)},
        {"v", address(p->v_cache)},
        {"slot_mapping", address(slots)},
        {"positions", address(positions)},
        {"cos_sin", address(p->cos_sin)},
        {"q_weight", address(p->weight)},
        {"k_weight", address(p->weight)},
        {"q_token_stride", HEADS * DIM},
        {"q_head_stride", DIM},
        {"k_in_token_stride", KV_HEADS * DIM},
        {"k_in_head_stride", DIM},
        {"v_in_token_stride", KV_HEADS * DIM},
        {"v_in_head_stride", DIM},
        {"out_token_stride", HEADS * DIM},
        {"out_head_stride", DIM},
        {"k_page_stride", page},
        {"k_token_stride", KV_HEADS * DIM},
        {"k_head_stride", head},
        {"v_page_stride", page},
        {"v_token_stride", KV_HEADS * DIM},
        {"v_head_stride", head},
        {"page_size", PAGE},
        {"page_shift", 3},
        {"page_magic", INT32_MIN}, /* 2^31 */
        {"heads", HEADS},
        {"kv_heads", KV_HEADS},
        {"tokens", TOKENS},
        {"run_tokens", 2},
        {"token_runs", 3},
        {"head_part_shift", 1},
        {"eps", bits_of(1e-6f)},
    };
    return known_value(known, sizeof(known) / sizeof(known[0]), name);
}

/* Returns the index of an element of k or v. V in SHUFFLE has X adjacent tokens, and k X adjacent
 * elements. */
static size_t cache_index(const struct problem *p, bool value, int64_t slot, int head, int d)
{
    const size_t page = (size_t)slot / PAGE, t = (size_t)slot % PAGE, at = (size_t)d;
    if (p->v.kv_layout == ATT_KV_LAYOUT_NHD)
        return ((size_t)slot * KV_HEADS + (size_t)head) * DIM + at;
    const size_t base = (page * KV_HEADS + (size_t)head) * PAGE * DIM;
    return base + (value ? (t / X * DIM + at) * X + t % X : (at / X * PAGE + t) * X + at % X);
}

/* Computes the expected head of q or k and its error bound; see verify/rope_compare.c. */
static void expect(const struct problem *p, const uint16_t *x, int token, double *out,
                   double *bound)
{
    double head[DIM], weight[DIM], angles[ROTARY];
    struct ref_rope_head r;
    for (int d = 0; d < DIM; d++) {
        head[d] = decode(x[d]);
        weight[d] = decode(p->weight[d]);
    }
    for (int i = 0; i < ROTARY; i++)
        angles[i] = p->cos_sin[positions[token] * ROTARY + i];
    ref_rope_head(
        &(struct ref_rope){.dim = DIM,
                           .rotary_dim = ROTARY,
                           .norm = true,
                           .eps = 1e-6f,
                           .x = head,
                           .pairs = p->v.rope == ATT_ROPE_GPTJ ? REF_PAIRS_GPTJ : REF_PAIRS_NEOX,
                           .weight = weight,
                           .cos = angles,
                           .sin = angles + ROTARY / 2},
        &r);
    for (int d = 0; d < DIM; d++) {
        out[d] = r.out[d];
        bound[d] = 0x1p-8 * fabs(r.out[d]) + (DIM / 2 + 12) * 0x1p-24 * r.magnitude[d];
    }
}

static bool right(const struct problem *p)
{
    double out[DIM], bound[DIM];
    bool good = true;
    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < HEADS; h++) {
            const int at = (t * HEADS + h) * DIM;
            expect(p, p->q + at, t, out, bound);
            for (int d = 0; d < DIM; d++)
                good = good && fabs(decode(p->out[at + d]) - out[d]) <= bound[d];
        }
        for (int h = 0; h < KV_HEADS && slots[t] >= 0; h++) {
            const int at = (t * KV_HEADS + h) * DIM;
            expect(p, p->k + at, t, out, bound);
            for (int d = 0; d < DIM; d++) {
                const double k = decode(p->k_cache[cache_index(p, false, slots[t], h, d)]);
                good = good && fabs(k - out[d]) <= bound[d] &&
                       p->v_cache[cache_index(p, true, slots[t], h, d)] == p->value[at + d];
            }
        }
    }
    return good;
}

/* True if slots without a token are unchanged. */
static bool untouched(const struct problem *p)
{
    size_t written = 0;
    for (int i = 0; i < N_CACHE; i++)
        written += (p->k_cache[i] != 0xffff) + (p->v_cache[i] != 0xffff);
    return written == 2 * 4 * KV_HEADS * DIM; /* four tokens have slots; 0xffff is a NaN */
}

static void poison(void *problem)
{
    struct problem *const p = problem;
    memset(p->out, 0xff, sizeof(p->out));
    memset(p->k_cache, 0xff, sizeof(p->k_cache));
    memset(p->v_cache, 0xff, sizeof(p->v_cache));
}

static bool is_right(const void *problem, char why[TIR_WHY])
{
    snprintf(why, TIR_WHY, "%s", right(problem) ? "another slot was written" : "wrong");
    return right(problem) && untouched(problem);
}

static void run_problem(const struct tgt *t, enum att_rope rope, enum att_kv_layout layout)
{
    struct problem *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    att_variant_init(&p->v, &att_template_rope_qk_norm_cache, t->machine.name);
    att_set(&p->v, ATT_HEAD_DIM, DIM);
    att_set(&p->v, ATT_ROTARY_DIM, ROTARY);
    att_set(&p->v, ATT_NORM, ATT_NORM_RMS);
    att_set(&p->v, ATT_ROPE, (int)rope);
    att_set(&p->v, ATT_KV_LAYOUT, (int)layout);
    p->v.loc[ATT_ROTARY_DIM].line = 1;
    att_variant_resolve(&p->v);
    seed_random(1);
    fill_random(p->q, TIR_BF16, sizeof(p->q) / 2);
    fill_random(p->k, TIR_BF16, sizeof(p->k) / 2);
    fill_random(p->value, TIR_BF16, sizeof(p->value) / 2);
    fill_random(p->weight, TIR_BF16, DIM);
    for (int i = 0; i < POSITIONS * ROTARY; i++)
        p->cos_sin[i] = (float)cos(i * 0.37);
    interpret_kernel(&(struct interpreted){.v = &p->v,
                                           .problem = p,
                                           .argument = argument,
                                           .poison = poison,
                                           .is_right = is_right,
                                           .grid = {3, 1, 1},
                                           .each_pass = true,
                                           .round_trip = true});
    free(p);
}

TEST(every_pass_keeps_the_result)
{
    for (int t = 0; tgt_all[t]; t++)
        for (int rope = ATT_ROPE_NEOX; rope <= ATT_ROPE_GPTJ; rope++)
            for (int layout = ATT_KV_LAYOUT_NHD; layout <= ATT_KV_LAYOUT_SHUFFLE; layout++)
                run_problem(tgt_all[t], (enum att_rope)rope, (enum att_kv_layout)layout);
}

int main(void) { return run_unit_tests(); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests decode in the interpreter, as the template writes it and after the last pass. The reference
 * is softmax(scale Q K^T + mask) V in double over a paged cache. Further tests look at its machine
 * code.
 */
#include "ir/arith.h"
#include "targets/tgt.h"
#include "tests/ir/interpreted.h"
#include "tests/templates/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KV_HEADS = 2, BATCH = 3, MAX_KEYS = 300, PARTS = 3 };
enum { TICKET_INTS = 32 /* number of integers in `tickets` for a sequence and KV head */ };

/* Lengths that give a partial tile, more than one tile for every wave, and no keys. */
static const int32_t kv_lens[BATCH] = {37, MAX_KEYS, 0};

struct problem {
    struct att_variant v;
    bool listed; /* the kernel runs a work list, which splits every sequence */
    int gqa, q_len, heads, page, n_pages, window_left, window_right;
    uint16_t *q, *out;
    uint8_t *k, *value, *mask;
    int64_t mask_indptr[BATCH + 1];
    float *lse, *sinks, *partial_out, *partial_lse, *k_scale, *v_scale;
    int32_t *table, *indices, *info;
    int32_t kv_indptr[BATCH + 1], work_indptr[3];
    int32_t reduce_indptr[BATCH + 1], reduce_partial_map[BATCH * PARTS];
    int32_t tickets[BATCH * KV_HEADS * TICKET_INTS];
    int n_items;
    double *expected, *expected_lse;
};

static uint16_t *random_tensor(const struct problem *p, size_t n)
{
    uint16_t *const t = allocate(n, sizeof(*t));
    fill_random(t, dtype_of(&p->v), n);
    return t;
}

static int pages_of(const struct problem *p, int sequence)
{
    return (kv_lens[sequence] + p->page - 1) / p->page;
}

static unsigned cache_dtype(const struct problem *p)
{
    switch (p->v.kv_dtype) {
    case ATT_KV_DTYPE_FP8: return TIR_FP8;
    case ATT_KV_DTYPE_INT8: return TIR_I8;
    default: return dtype_of(&p->v);
    }
}

static int cache_bytes(const struct problem *p) { return (int)tir_dtype_bits(cache_dtype(p)) / 8; }

/* Returns the index of element i of a token's head in a cache: NHD [page, token, head, dim];
 * SHUFFLE K [page, head, dim / x, token, x], V [page, head, token / x, dim, x]. */
static size_t cache_index(const struct problem *p, bool value, int page, int token, int head, int i)
{
    const int dim = value ? p->v.head_dim_v : p->v.head_dim, x = 16 / cache_bytes(p);
    if (p->v.kv_layout == ATT_KV_LAYOUT_NHD)
        return (((size_t)page * (size_t)p->page + (size_t)token) * KV_HEADS + (size_t)head) *
                   (size_t)dim +
               (size_t)i;
    const size_t at = ((size_t)page * KV_HEADS + (size_t)head) * (size_t)(dim * p->page);
    if (value)
        return at + (size_t)(((token / x) * dim + i) * x + token % x);
    return at + (size_t)(((i / x) * p->page + token) * x + i % x);
}

static size_t scale_index(const struct problem *p, int page, int token, int head)
{
    switch (p->v.kv_scale) {
    case ATT_KV_SCALE_TOKEN: return (size_t)((page * KV_HEADS + head) * p->page + token);
    case ATT_KV_SCALE_BLOCK: return (size_t)(page * KV_HEADS + head);
    default: return 0;
    }
}

/* Returns element i of a sequence's key as a number. */
static double cached(const struct problem *p, bool value, int sequence, int key, int head, int i)
{
    const int page = p->indices[p->kv_indptr[sequence] + key / p->page], token = key % p->page;
    const unsigned dtype = cache_dtype(p);
    const bool fnuz = strcmp(p->v.target, "gfx942") == 0;
    const uint8_t *const at = (value ? p->value : p->k) +
                              cache_index(p, value, page, token, head, i) * (size_t)cache_bytes(p);
    const double scale =
        p->v.kv_scale == ATT_KV_SCALE_NONE
            ? 1
            : (double)(value ? p->v_scale : p->k_scale)[scale_index(p, page, token, head)];
    if (dtype == TIR_I8)
        return scale * (int8_t)*at;
    return scale * (double)tir_to_float(dtype, dtype == TIR_FP8 ? *at : at[0] | at[1] << 8, fnuz);
}

static bool visible(const struct problem *p, int sequence, int token, int key)
{
    const int diagonal = kv_lens[sequence] - p->q_len + token;
    switch (p->v.mask) {
    case ATT_MASK_NONE: return true;
    case ATT_MASK_CAUSAL: return key <= diagonal;
    case ATT_MASK_CUSTOM:
        return p->mask[p->mask_indptr[sequence] + (int64_t)token * kv_lens[sequence] + key];
    default: return key <= diagonal + p->window_right && key >= diagonal - p->window_left;
    }
}

static double score(const struct problem *p, int sequence, int token, int head, int key)
{
    const int d = p->v.head_dim;
    const uint16_t *const q =
        p->q +
        ((size_t)(sequence * p->q_len + token) * (size_t)p->heads + (size_t)head) * (size_t)d;
    double s = 0;
    for (int i = 0; i < d; i++)
        s += number(&p->v, q[i]) * cached(p, false, sequence, key, head / p->gqa, i);
    s /= sqrt(d);
    return p->v.soft_cap ? 5 * tanh(s / 5) : s;
}

static void reference_row(const struct problem *p, int sequence, int token, int head)
{
    const int dv = p->v.head_dim_v;
    const size_t row = (size_t)(sequence * p->q_len + token) * (size_t)p->heads + (size_t)head;
    double *const o = p->expected + row * (size_t)dv;
    double sum = p->v.sinks ? exp((double)p->sinks[head]) : 0;
    memset(o, 0, (size_t)dv * sizeof(*o));
    for (int key = 0; key < kv_lens[sequence]; key++) {
        if (!visible(p, sequence, token, key))
            continue;
        const double w = exp(score(p, sequence, token, head, key)); /* |score| is below 40 */
        sum += w;
        for (int i = 0; i < dv; i++)
            o[i] += w * cached(p, true, sequence, key, head / p->gqa, i);
    }
    for (int i = 0; i < dv && sum > 0; i++)
        o[i] /= sum;
    p->expected_lse[row] = log(sum);
}

static size_t rows_of(const struct problem *p) { return (size_t)(BATCH * p->q_len * p->heads); }

/* Makes pages in random order, one more than are used. */
static void make_pages(struct problem *p)
{
    const int most = (MAX_KEYS + p->page - 1) / p->page;
    p->n_pages = 1;
    for (int s = 0; s < BATCH; s++) {
        p->kv_indptr[s + 1] = p->kv_indptr[s] + pages_of(p, s);
        p->n_pages += pages_of(p, s);
    }
    p->indices = allocate((size_t)p->n_pages, sizeof(*p->indices));
    p->table = allocate((size_t)(BATCH * most), sizeof(*p->table));
    memset(p->table, 0x7f, (size_t)(BATCH * most) * sizeof(*p->table)); /* far beyond the cache */
    for (int i = 0; i < p->kv_indptr[BATCH]; i++)
        p->indices[i] = (int)((unsigned)i * 7919u % (unsigned)p->n_pages);
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < pages_of(p, s); i++)
            p->table[s * most + i] = p->indices[p->kv_indptr[s] + i];
}

/* Makes a work list: PARTS items for every sequence and KV head, and one for a sequence without
   keys. There are two lists. */
static void make_work(struct problem *p)
{
    p->info = allocate((size_t)(BATCH * KV_HEADS * PARTS) * 8, sizeof(*p->info));
    for (int s = 0; s < BATCH; s++)
        for (int h = 0; h < KV_HEADS; h++)
            for (int part = 0; part < PARTS; part++)
                p->n_items += work_item(p->info + 8 * p->n_items, s, kv_lens[s], p->q_len, part,
                                        PARTS, h * p->gqa, (h + 1) * p->gqa);
    for (int s = 0; s < BATCH; s++) {
        p->reduce_indptr[s + 1] = p->reduce_indptr[s];
        for (int part = 0; part < PARTS && pages_of(p, s); part++)
            p->reduce_partial_map[p->reduce_indptr[s + 1]++] = (s * PARTS + part) * p->q_len;
    }
    p->work_indptr[1] = p->n_items / 3;
    p->work_indptr[2] = p->n_items;
}

/* Makes a cache of numbers that are less than 2 after scaling. After a sequence's last key there is
   any number. */
static uint8_t *random_cache(const struct problem *p, bool value)
{
    const int dim = value ? p->v.head_dim_v : p->v.head_dim, bytes = cache_bytes(p);
    const unsigned dtype = cache_dtype(p);
    const bool fnuz = strcmp(p->v.target, "gfx942") == 0;
    const size_t size = (size_t)(p->n_pages * p->page * KV_HEADS * dim * bytes);
    uint8_t *const cache = allocate(size, 1);
    memset(cache, 0xff, size); /* NaN */
    for (int s = 0; s < BATCH; s++)
        for (int key = 0; key < kv_lens[s]; key++)
            for (int h = 0; h < KV_HEADS; h++)
                for (int i = 0; i < dim; i++) {
                    const int page = p->indices[p->kv_indptr[s] + key / p->page];
                    const size_t at = cache_index(p, value, page, key % p->page, h, i);
                    const double v = random_number();
                    const int64_t bits =
                        dtype == TIR_I8
                            ? (int64_t)(127 * v)
                            : tir_from_float(dtype, (float)(bytes == 1 ? 100 * v : 2 * v), fnuz);
                    memcpy(cache + at * (size_t)bytes, &bits, (size_t)bytes);
                }
    return cache;
}

static float *random_scales(const struct problem *p)
{
    const size_t n = (size_t)(p->n_pages * KV_HEADS * p->page);
    float *const s = allocate(n, sizeof(*s));
    for (size_t i = 0; i < n; i++)
        s[i] = (float)(0.015 + 0.005 * random_number());
    return s;
}

static void make_tensors(struct problem *p)
{
    const size_t dim = (size_t)p->v.head_dim, dim_v = (size_t)p->v.head_dim_v, rows = rows_of(p);
    make_pages(p);
    make_work(p);
    p->mask = random_mask(kv_lens, BATCH, p->q_len, p->mask_indptr);
    p->q = random_tensor(p, rows * dim);
    p->k = random_cache(p, false);
    p->value = random_cache(p, true);
    p->k_scale = random_scales(p);
    p->v_scale = random_scales(p);
    p->out = allocate(rows * dim_v, sizeof(*p->out));
    p->lse = allocate(rows, sizeof(*p->lse));
    p->sinks = allocate((size_t)p->heads, sizeof(*p->sinks));
    p->partial_out = allocate(PARTS * rows * dim_v, sizeof(*p->partial_out));
    p->partial_lse = allocate(PARTS * rows, sizeof(*p->partial_lse));
    p->expected = allocate(rows * dim_v, sizeof(*p->expected));
    p->expected_lse = allocate(rows, sizeof(*p->expected_lse));
    for (int h = 0; h < p->heads; h++)
        p->sinks[h] = (float)(2 * random_number());
    for (int s = 0; s < BATCH; s++)
        for (int t = 0; t < p->q_len; t++)
            for (int h = 0; h < p->heads; h++)
                reference_row(p, s, t, h);
}

static void free_tensors(struct problem *p)
{
    void *const all[] = {p->q,           p->k,       p->value,    p->mask,
                         p->out,         p->lse,     p->sinks,    p->partial_out,
                         p->partial_lse, p->k_scale, p->v_scale,  p->table,
                         p->indices,     p->info,    p->expected, p->expected_lse};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static bool find_tensor(const struct problem *p, const char *name, int64_t *value)
{
    const struct known known[] = {
        {"q", address(p->q)},
        {"k", address(p->k)},
        {"v", address(p->value)},
        {"out", address(p->out)},
        {"lse", address(p->lse)},
        {"sinks", address(p->sinks)},
        {"kv_lens", address(kv_lens)},
        {"qo_indptr", 0},
        {"block_table", address(p->table)},
        {"kv_indptr", address(p->kv_indptr)},
        {"kv_indices", address(p->indices)},
        {"work_indptr", p->listed ? address(p->work_indptr) : 0},
        {"custom_mask", address(p->mask)},
        {"mask_indptr", address(p->mask_indptr)},
        {"work_info", address(p->info)},
        {"partial_out", address(p->partial_out)},
        {"partial_lse", address(p->partial_lse)},
        {"reduce_indptr", address(p->reduce_indptr)},
        {"reduce_partial_map", address(p->reduce_partial_map)},
        {"tickets", address(p->tickets)},
        {"k_scale", address(p->k_scale)},
        {"v_scale", address(p->v_scale)},
    };
    const struct known *found = find_known(known, sizeof(known) / sizeof(known[0]), name);
    *value = found ? found->value : 0;
    return found;
}

static int64_t argument(const void *problem, const char *name)
{
    const struct problem *const p = problem;
    const float scale = 1 / sqrtf((float)p->v.head_dim), log2e = 1.44269504f;
    const int d = p->v.head_dim, dv = p->v.head_dim_v, total = BATCH * p->q_len;
    const bool shuffle = p->v.kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    const bool by_token = p->v.kv_scale == ATT_KV_SCALE_TOKEN;
    const struct known known[] = {
        {"q_token_stride", p->heads * d},
        {"q_head_stride", d},
        {"k_page_stride", p->page * KV_HEADS * d},
        {"k_token_stride", KV_HEADS * d},
        {"k_head_stride", shuffle ? p->page * d : d},
        {"v_page_stride", p->page * KV_HEADS * dv},
        {"v_token_stride", KV_HEADS * dv},
        {"v_head_stride", shuffle ? p->page * dv : dv},
        {"scale_page_stride", by_token ? KV_HEADS * p->page : KV_HEADS},
        {"scale_head_stride", by_token ? p->page : 1},
        {"out_token_stride", p->heads * dv},
        {"out_head_stride", dv},
        {"lse_token_stride", 1},
        {"lse_head_stride", total},
        {"block_table_stride", (MAX_KEYS + p->page - 1) / p->page},
        {"heads", p->heads},
        {"kv_heads", KV_HEADS},
        {"workgroups", 64}, /* enough for several waves at every tile */
        {"gqa", p->gqa},
        {"batch", BATCH},
        {"max_seqlen_q", p->q_len},
        {"page_size", p->page},
        {"page_shift", __builtin_ctz((unsigned)p->page)},
        {"scale", bits_of(scale)},
        {"scale_log2", bits_of(scale * log2e)},
        {"soft_cap", bits_of(5)},
        {"window_left", p->window_left},
        {"window_right", p->window_right},
    };
    int64_t tensor;
    if (find_tensor(p, name, &tensor))
        return tensor;
    return known_value(known, sizeof(known) / sizeof(known[0]), name);
}

static struct attention_result result_of(const struct problem *p)
{
    const bool in_parts = p->listed && !p->v.one_launch; /* a combine kernel would add the parts */
    return (struct attention_result){
        .v = &p->v,
        .tokens = BATCH * p->q_len,
        .heads = p->heads,
        .q_len = p->q_len,
        .parts = PARTS,
        .in_parts = in_parts,
        .kv_lens = kv_lens,
        .sinks = p->v.sinks ? p->sinks : NULL,
        .out = p->out,
        .lse = p->lse,
        .partial_out = p->partial_out,
        .partial_lse = p->partial_lse,
        .expected = p->expected,
        .expected_lse = p->expected_lse,
        .lse_bound = p->v.lse || in_parts ? 1e-4 : 0,
    };
}

/* True if all tickets are 0 after the launch, as they were before it. */
static bool is_right(const void *problem, char why[TIR_WHY])
{
    const struct problem *const p = problem;
    for (int i = 0; i < BATCH * KV_HEADS * TICKET_INTS; i++)
        if (p->tickets[i]) {
            snprintf(why, TIR_WHY, "tickets[%d] is left at %d", i, p->tickets[i]);
            return false;
        }
    return true;
}

/* Makes a variant. Fields that `s` does not set are bf16, D 128, G 8, page 16, causal. */
static struct att_variant variant(const char *target, const struct setting *s, unsigned n)
{
    struct att_variant v;
    att_variant_init(&v, template_of("decode"), target);
    att_set(&v, ATT_HEAD_DIM, 128);
    att_set(&v, ATT_GQA, 8);
    att_set(&v, ATT_PAGE_SIZE, 16);
    for (unsigned i = 0; i < n; i++) {
        att_set(&v, s[i].field, s[i].value);
        v.loc[s[i].field].line = 1;
    }
    att_variant_resolve(&v);
    struct att_why reason = {.text = ""};
    if (!template_of("decode")->check(&v, &tgt_find(target)->machine, &reason))
        fail_msg("%s", reason.text);
    return v;
}

static void run_case(const char *target, bool listed, const struct setting *s, unsigned n)
{
    const struct tgt *const t = tgt_find(target);
    struct problem p = {.listed = listed, .window_left = 20, .window_right = 0};
    p.v = variant(t->machine.name, s, n);
    p.gqa = p.v.gqa ? p.v.gqa : 3;
    p.q_len = p.v.q_len;
    p.heads = KV_HEADS * p.gqa;
    p.page = p.v.page_size ? p.v.page_size : p.v.kv_layout == ATT_KV_LAYOUT_SHUFFLE ? 32 : 4;
    seed_random(1);
    make_tensors(&p);
    interpret_kernel(&(struct interpreted){.v = &p.v,
                                           .problem = &p,
                                           .argument = argument,
                                           .attention = result_of(&p),
                                           .is_right = is_right,
                                           .grid = {listed ? 2 : BATCH * KV_HEADS, 1, 1},
                                           .round_trip = true});
    free_tensors(&p);
}

#define CASE(target, listed, ...) run_case(target, listed, SETTINGS(__VA_ARGS__))

TEST_IN("queries", one_query_a_sequence)
{
    CASE("gfx942", false, {ATT_GQA, 8}, {ATT_LSE, 1});
    CASE("gfx950", false, {ATT_GQA, 5}, {ATT_DTYPE, ATT_DTYPE_FP16}, {ATT_SINKS, 1});
    CASE("gfx942", false, {ATT_GQA, 1}, {ATT_HEAD_DIM, 256}, {ATT_PAGE_SIZE, 32});
    CASE("gfx950", false, {ATT_GQA, 16}, {ATT_HEAD_DIM, 64}, {ATT_PAGE_SIZE, 128});
    CASE("gfx942", false, {ATT_GQA, 0}, {ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 64});
}

TEST_IN("draft tokens", several_queries_see_up_to_themselves)
{
    CASE("gfx942", false, {ATT_GQA, 5}, {ATT_Q_LEN, 4}, {ATT_LSE, 1});
    CASE("gfx950", false, {ATT_GQA, 12}, {ATT_Q_LEN, 8}, {ATT_HEAD_DIM, 64});
    CASE("gfx950", false, {ATT_GQA, 6}, {ATT_Q_LEN, 3}, {ATT_HEAD_DIM, 256}, {ATT_SINKS, 1});
    CASE("gfx942", false, {ATT_GQA, 0}, {ATT_Q_LEN, 8}, {ATT_MASK, ATT_MASK_NONE});
}

TEST_IN("masks", windows_cut_both_ends)
{
    CASE("gfx942", false, {ATT_MASK, ATT_MASK_WINDOW}, {ATT_SINKS, 1}, {ATT_HEAD_DIM, 64});
    CASE("gfx950", false, {ATT_MASK, ATT_MASK_WINDOW}, {ATT_Q_LEN, 5}, {ATT_PAGE_SIZE, 64});
}

TEST_IN("masks", masks_of_bytes_say_what_is_seen)
{
    CASE("gfx942", false, {ATT_MASK, ATT_MASK_CUSTOM}, {ATT_Q_LEN, 7}, {ATT_GQA, 4}, {ATT_LSE, 1});
    CASE("gfx950", true, {ATT_MASK, ATT_MASK_CUSTOM}, {ATT_Q_LEN, 2}, {ATT_HEAD_DIM, 64},
         {ATT_LSE, 1});
}

TEST_IN("masks", scores_are_capped) { CASE("gfx942", false, {ATT_SOFT_CAP, 1}, {ATT_LSE, 1}); }

TEST_IN("work lists", work_lists_write_parts)
{
    CASE("gfx942", true, {ATT_LSE, 1}, {ATT_SINKS, 1});
    CASE("gfx950", true, {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES}, {ATT_LSE, 1}, {ATT_Q_LEN, 3},
         {ATT_GQA, 12}, {ATT_PAGE_SIZE, 32});
    CASE("gfx942", true, {ATT_MASK, ATT_MASK_WINDOW}, {ATT_LSE, 1}, {ATT_Q_LEN, 2});
}

TEST_IN("one launch", the_last_workgroup_adds_up_parts)
{
    CASE("gfx942", true, {ATT_ONE_LAUNCH, 1}, {ATT_LSE, 1}, {ATT_SINKS, 1});
    CASE("gfx950", true, {ATT_ONE_LAUNCH, 1}, {ATT_Q_LEN, 3}, {ATT_GQA, 12});
    CASE("gfx942", true, {ATT_ONE_LAUNCH, 1}, {ATT_MASK, ATT_MASK_WINDOW}, {ATT_HEAD_DIM, 64},
         {ATT_GQA, 0}, {ATT_LSE, 1});
}

TEST_IN("one launch, widths", the_last_workgroup_adds_up_parts_of_any_width)
{
    CASE("gfx950", true, {ATT_ONE_LAUNCH, 1}, {ATT_HEAD_DIM, 256}, {ATT_GQA, 1});
    CASE("gfx942", true, {ATT_ONE_LAUNCH, 1}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
         {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR});
    CASE("gfx950", false, {ATT_ONE_LAUNCH, 1});
}

TEST_IN("pages", pages_have_any_size)
{
    CASE("gfx942", false, {ATT_PAGE_SIZE, 1}, {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES});
    CASE("gfx950", true, {ATT_PAGE_SIZE, 8}, {ATT_LSE, 1});
    CASE("gfx950", false, {ATT_PAGE_SIZE, 0}, {ATT_Q_LEN, 2}, {ATT_HEAD_DIM, 64});
    CASE("gfx942", true, {ATT_PAGE_SIZE, 48}, {ATT_LSE, 1}, {ATT_HEAD_DIM, 64});
    CASE("gfx950", false, {ATT_PAGE_SIZE, 7}, {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES});
    CASE("gfx950", false, {ATT_PAGE_SIZE, 24}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE},
         {ATT_HEAD_DIM, 64});
}

TEST_IN("layouts", shuffled_caches_are_read_in_place)
{
    CASE("gfx942", false, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE});
    CASE("gfx950", true, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {ATT_PAGE_SIZE, 64}, {ATT_LSE, 1});
    CASE("gfx942", false, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {ATT_HEAD_DIM, 256});
    CASE("gfx950", false, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {ATT_PAGE_SIZE, 0});
    CASE("gfx942", false, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {ATT_PAGE_SIZE, 8},
         {ATT_HEAD_DIM, 64});
}

TEST_IN("scales", quantised_caches_are_scaled)
{
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR});
    CASE("gfx950", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
         {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {ATT_HEAD_DIM, 64});
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8}, {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
         {ATT_PAGE_SIZE, 4}, {ATT_DTYPE, ATT_DTYPE_FP16});
    CASE("gfx950", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK},
         {ATT_PAGE_SIZE, 32}, {ATT_HEAD_DIM, 256});
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK},
         {ATT_PAGE_SIZE, 0}, {ATT_SOFT_CAP, 1});
}

static void check_facts(const char *target, const struct setting *s, unsigned n)
{
    const struct att_variant v = variant(target, s, n);
    struct attnc_kernel k = compile_attention(&v);
    const struct tgt_kernel_facts *const f = &k.facts;
    if (f->loop.waits_vm0 || !f->loop.mfma)
        fail_msg("%s drains its loads in the loop", k.name);
    /* The loop has page numbers of the next two tiles in vectors, and the next tile's mask. With
     * small pages or a custom mask it may copy registers. */
    if (f->loop.copies && !f->agprs && v.page_size >= 16 && v.mask != ATT_MASK_CUSTOM)
        fail_msg("%s copies %u registers in the loop", k.name, f->loop.copies);
    attnc_kernel_free(&k);
}

#define FACTS(...)    \
    FOR_WIDE_WAVES(t) \
    check_facts(tgt_all[t]->machine.name, SETTINGS(__VA_ARGS__))

TEST_IN("kernels", kernels_fit_their_registers)
{
    FACTS({ATT_GQA, 8});
    FACTS({ATT_GQA, 8}, {ATT_Q_LEN, 4}, {ATT_MASK, ATT_MASK_WINDOW}, {ATT_SINKS, 1}, {ATT_LSE, 1},
          {ATT_SOFT_CAP, 1});
    FACTS({ATT_GQA, 2}, {ATT_SOFT_CAP, 1}, {ATT_PAGE_SIZE, 16});                   /* Gemma 2 */
    FACTS({ATT_HEAD_DIM, 256}, {ATT_GQA, 8}, {ATT_Q_LEN, 4}, {ATT_PAGE_SIZE, 16}); /* Qwen3.5 */
    FACTS({ATT_ONE_LAUNCH, 1});
    FACTS({ATT_ONE_LAUNCH, 1}, {ATT_GQA, 16}, {ATT_Q_LEN, 2}, {ATT_PAGE_SIZE, 64});
    FACTS({ATT_ONE_LAUNCH, 1}, {ATT_GQA, 0}, {ATT_Q_LEN, 4}, {ATT_LSE, 1});
    FACTS({ATT_ONE_LAUNCH, 1}, {ATT_HEAD_DIM, 256}, {ATT_GQA, 16});
    FACTS({ATT_HEAD_DIM, 256}, {ATT_Q_LEN, 2}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE});
    FACTS({ATT_HEAD_DIM, 64}, {ATT_Q_LEN, 8}, {ATT_MASK, ATT_MASK_CUSTOM});
    FACTS({ATT_Q_LEN, 8}, {ATT_MASK, ATT_MASK_CUSTOM});
    FACTS({ATT_GQA, 16}, {ATT_Q_LEN, 4}, {ATT_PAGE_SIZE, 64});
    FACTS({ATT_HEAD_DIM, 256}, {ATT_Q_LEN, 4}, {ATT_LSE, 1});
    FACTS({ATT_PAGE_SIZE, 0}, {ATT_Q_LEN, 4}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE});
    FACTS({ATT_PAGE_SIZE, 64}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
          {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN});
    FACTS({ATT_PAGE_SIZE, 1}, {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8}, {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
          {ATT_Q_LEN, 4});
    FACTS({ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK}, {ATT_Q_LEN, 4},
          {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE});
}

TEST_IN("kernels", what_cannot_be_built_says_why)
{
    static const struct {
        struct setting settings[2];
        const char *sentence;
    } refused[] = {
        {{{ATT_HEAD_DIM, 100}, {ATT_GQA, 8}}, "head_dim 100 is not a multiple of 8 from 64 to 512"},
        {{{ATT_TILE, 100000}, {ATT_GQA, 8}}, "tiles, and no tile 100000"},
        {{{ATT_TILE, 1}, {ATT_GQA, 8}}, "tile 1 does not fit: the tile is for head dims up to 64"},
        {{{ATT_PAGE_SIZE, 36}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
         "page_size 36 is no multiple of the 8 tokens"},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct att_variant v = variant("gfx942", NULL, 0);
        for (int k = 0; k < 2; k++)
            att_set(&v, refused[i].settings[k].field, refused[i].settings[k].value);
        expect_refused(&v, refused[i].settings[0].field, refused[i].sentence);
    }
}

/* Rows beyond the widest tile's are left to further passes, which read the keys again. */
TEST_IN("kernels", tiles_are_as_wide_as_the_rows)
{
    static const struct {
        int dim, gqa, q_len;
        struct setting more;
        unsigned rows;
    } cases[] = {
        {128, 8, 1, {ATT_LSE, 0}, 16},
        {128, 8, 4, {ATT_LSE, 0}, 32},
        {128, 16, 4, {ATT_LSE, 0}, 64},
        {128, 64, 1, {ATT_LSE, 0}, 64},
        {128, 32, 4, {ATT_LSE, 0}, 64},
        {64, 5, 8, {ATT_LSE, 0}, 64},
        {256, 8, 4, {ATT_LSE, 0}, 32},
        {512, 64, 1, {ATT_LSE, 0}, 16},
        {128, 8, 8, {ATT_MASK, ATT_MASK_CUSTOM}, 64},
        {256, 8, 4, {ATT_MASK, ATT_MASK_CUSTOM}, 32},
        {128, 8, 8, {ATT_SOFT_CAP, 1}, 64},
        {128, 8, 8, {ATT_PAGE_SIZE, 1}, 32},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct att_variant v = variant("gfx950", NULL, 0);
        att_set(&v, ATT_HEAD_DIM, cases[i].dim);
        att_set(&v, ATT_HEAD_DIM_V, cases[i].dim);
        att_set(&v, ATT_GQA, cases[i].gqa);
        att_set(&v, ATT_Q_LEN, cases[i].q_len);
        att_set(&v, cases[i].more.field, cases[i].more.value);
        struct att_tile tile;
        assert_true(att_find_tile(&v, &tgt_find(v.target)->machine, &tile, NULL));
        if (tile.rows != cases[i].rows)
            fail_msg("case %zu: a tile of %u rows", i, tile.rows);
    }
}

/* att_tile.own[2] is 1 if loads of an operand take whole rows. Otherwise a load takes 64 bytes of a
 * row, or whole lines of SHUFFLE. */
TEST_IN("kernels", waves_of_32_load_whole_rows)
{
    static const struct {
        const char *target;
        int dim;
        struct setting more;
        unsigned whole;
    } cases[] = {
        {"gfx1250", 128, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, 1},
        {"gfx1250", 64, {ATT_LSE, 1}, 1},
        {"gfx1250", 256, {ATT_LSE, 1}, 1},
        {"gfx1250", 192, {ATT_LSE, 1}, 0},
        {"gfx1250", 128, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, 0},
        {"gfx1250", 128, {ATT_PAGE_SIZE, 1}, 0},
        {"gfx950", 128, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct att_variant v = variant(cases[i].target, NULL, 0);
        att_set(&v, ATT_HEAD_DIM, cases[i].dim);
        att_set(&v, ATT_HEAD_DIM_V, cases[i].dim);
        att_set(&v, cases[i].more.field, cases[i].more.value);
        struct att_tile tile;
        assert_true(att_find_tile(&v, &tgt_find(v.target)->machine, &tile, NULL));
        if (tile.own[2] != cases[i].whole)
            fail_msg("case %zu: %u", i, tile.own[2]);
    }
}

/* A second kernel divides the heads into groups of at most 16 rows, if the first kernel has one
 * wave a SIMD. Each group of its largest launch has a compute unit. */
TEST_IN("kernels", many_heads_are_divided_into_groups)
{
    static const struct {
        const char *target;
        int gqa, q_len, groups; /* groups 0: there is no second kernel */
    } cases[] = {
        {"gfx950", 64, 1, 4}, {"gfx942", 64, 1, 4}, {"gfx950", 8, 8, 4},   {"gfx950", 40, 1, 4},
        {"gfx950", 36, 1, 3}, {"gfx950", 37, 1, 0}, {"gfx950", 256, 1, 0}, {"gfx950", 32, 1, 0},
        {"gfx950", 8, 1, 0},  {"gfx950", 0, 64, 0}, {"gfx1250", 64, 1, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct att_variant v = variant(cases[i].target, NULL, 0);
        att_set(&v, ATT_GQA, cases[i].gqa);
        att_set(&v, ATT_Q_LEN, cases[i].q_len);
        const struct tir_machine *const m = &tgt_find(v.target)->machine;
        struct att_second second;
        const bool has = v.op->second(&v, m, 0, &second);
        if (has != (cases[i].groups > 0) || v.op->second(&v, m, 1, &second))
            fail_msg("case %zu: %d", i, has);
        if (!has)
            continue;
        assert_int_equal(v.op->tiles[second.tile - 1].rows, 16);
        assert_string_equal(second.calls.rows[0].arg, "workgroups");
        assert_int_equal(second.calls.rows[0].max, (int)m->cus / cases[i].groups);
    }
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests absorbed latent attention in the interpreter, as the template writes it and after the last
 * pass. The reference is softmax(scale (q_nope c + q_pe k_pe) + mask) c in double over a paged
 * latent cache. Further tests look at its machine code.
 */
#include "ir/arith.h"
#include "targets/tgt.h"
#include "tests/ir/interpreted.h"
#include "tests/templates/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 3,
    MAX_KEYS = 75,
    PARTS = 3,
    PACKED_ROW = 656,
    MOST_PAGES = BATCH * (MAX_KEYS + 1),
    TICKET_INTS = 32
};

/* Lengths that give a partial block, more than one block, and no keys. */
static const int32_t kv_lens[BATCH] = {37, MAX_KEYS, 0};

/* The scale of the heads before absorption: 1 / sqrt(128 + 64), not 1 / sqrt(576). */
static const float scale = 0.07216878f;

struct problem {
    struct att_variant v;
    bool listed;    /* the kernel runs a work list, which splits every sequence */
    bool uncounted; /* kv_lens is NULL */
    int heads, q_len, page, n_pages;
    uint16_t *q, *out;
    uint8_t *cache, *mask;
    int64_t mask_indptr[BATCH + 1];
    float kv_scale, q_scale;
    float *lse, *partial_out, *partial_lse;
    int32_t table[BATCH][MAX_KEYS], indices[MOST_PAGES];
    int32_t slots[BATCH][MAX_KEYS], slot_list[BATCH * MAX_KEYS], slot_indptr[BATCH + 1];
    int32_t kv_indptr[BATCH + 1], work_indptr[3], info[BATCH * PARTS][8];
    int32_t reduce_indptr[BATCH + 1], reduce_partial_map[BATCH * PARTS];
    int32_t tickets[BATCH][TICKET_INTS];
    double *expected, *expected_lse;
};

static unsigned cache_dtype(const struct problem *p)
{
    return p->v.kv_dtype == ATT_KV_DTYPE_FP8 ? TIR_FP8 : dtype_of(&p->v);
}

static bool fnuz(const struct problem *p) { return strcmp(p->v.target, "gfx942") == 0; }

static int pages_of(const struct problem *p, int sequence)
{
    return (kv_lens[sequence] + p->page - 1) / p->page;
}

static size_t rows_of(const struct problem *p) { return (size_t)(BATCH * p->q_len * p->heads); }

static bool is_sparse(const struct problem *p) { return p->v.sparse == ATT_SPARSE_SLOTS; }

/* Returns the token of a list's entry. A list has the tokens of a sequence backwards, and every
   seventh entry is no key. */
static int key_of(const struct problem *p, int sequence, int key)
{
    return is_sparse(p) ? kv_lens[sequence] - 1 - key : key;
}

static bool is_gap(const struct problem *p, int key) { return is_sparse(p) && key % 7 == 3; }

/* Returns the row of a token in the cache. */
static size_t row_index(const struct problem *p, int sequence, int key)
{
    const int page = p->indices[p->kv_indptr[sequence] + key / p->page];
    return (size_t)page * (size_t)p->page + (size_t)(key % p->page);
}

/* Returns the index of element i of a token's row. */
static size_t cache_index(const struct problem *p, int sequence, int key, int i)
{
    return row_index(p, sequence, key) * (size_t)p->v.head_dim + (size_t)i;
}

static bool is_packed(const struct problem *p) { return p->v.kv_layout == ATT_KV_LAYOUT_PACKED; }

/* Returns the bytes between the rows of two tokens. */
static size_t row_bytes(const struct problem *p)
{
    const unsigned bytes = tir_dtype_bits(cache_dtype(p)) / 8;
    return is_packed(p) ? PACKED_ROW : (size_t)p->v.head_dim * bytes;
}

static bool is_e8m0(const struct problem *p) { return p->v.kv_scale == ATT_KV_SCALE_E8M0; }

/* Returns element i of a packed row: 512 fp8, a float for each 128 of them or an exponent for each
 * 32, and 64 elements of dtype. */
static double packed(const struct problem *p, const uint8_t *row, int i)
{
    float s;
    if (i >= 512) {
        const uint8_t *const at = row + 528 + (i - 512) * 2;
        return number(&p->v, (uint16_t)(at[0] | at[1] << 8));
    }
    memcpy(&s, row + 512 + i / 128 * 4, sizeof(s));
    if (is_e8m0(p))
        s = ldexpf(1, row[512 + i / 32] - 127);
    return (double)tir_to_float(TIR_FP8, row[i], fnuz(p)) * (double)s;
}

static void make_packed(const struct problem *p, uint8_t *row)
{
    for (int i = 0; i < 512; i++)
        row[i] = (uint8_t)tir_from_float(TIR_FP8, (float)(100 * random_number()), fnuz(p));
    for (int i = 0; i < 4; i++) {
        const float s = 0.011f + 0.003f * (float)i;
        memcpy(row + 512 + 4 * i, &s, sizeof(s));
    }
    for (int i = 0; i < 16 && is_e8m0(p); i++)
        row[512 + i] = (uint8_t)(119 + i * 5 % 3); /* 2^-8, 2^-7, 2^-6 */
    for (int i = 0; i < 64; i++) {
        const float v = (float)(1.5 * random_number());
        const int64_t bits = tir_from_float(dtype_of(&p->v), v, false);
        memcpy(row + 528 + 2 * i, &bits, 2);
    }
}

static double cached(const struct problem *p, int sequence, int key, int i)
{
    if (is_packed(p))
        return packed(p, p->cache + row_index(p, sequence, key) * PACKED_ROW, i);
    const unsigned bytes = tir_dtype_bits(cache_dtype(p)) / 8;
    const uint8_t *const at = p->cache + cache_index(p, sequence, key, i) * bytes;
    const int64_t bits = bytes == 1 ? at[0] : at[0] | at[1] << 8;
    const double v = (double)tir_to_float(cache_dtype(p), bits, fnuz(p));
    return p->v.kv_scale == ATT_KV_SCALE_TENSOR ? v * (double)p->kv_scale : v;
}

static bool q_is_fp8(const struct problem *p) { return p->v.q_dtype == ATT_Q_DTYPE_FP8; }

/* Returns element i of q; of fp8 the array holds bytes. */
static double query(const struct problem *p, size_t i)
{
    if (!q_is_fp8(p))
        return number(&p->v, p->q[i]);
    const uint8_t bits = ((const uint8_t *)p->q)[i];
    return (double)tir_to_float(TIR_FP8, bits, fnuz(p)) * (double)p->q_scale;
}

static void set_query(struct problem *p, size_t i, double v)
{
    if (q_is_fp8(p))
        ((uint8_t *)p->q)[i] = (uint8_t)tir_from_float(TIR_FP8, (float)(100 * v), fnuz(p));
    else
        p->q[i] = (uint16_t)tir_from_float(dtype_of(&p->v), (float)v, false);
}

static void reference_row(const struct problem *p, int sequence, int token, int head)
{
    const int dim = p->v.head_dim, latent = p->v.head_dim_v;
    const size_t row = (size_t)(sequence * p->q_len + token) * (size_t)p->heads + (size_t)head;
    double *const o = p->expected + row * (size_t)latent, sum = 0;
    memset(o, 0, (size_t)latent * sizeof(*o));
    for (int key = 0; key < kv_lens[sequence]; key++) {
        if (p->v.mask == ATT_MASK_CAUSAL && key > kv_lens[sequence] - p->q_len + token)
            continue;
        if (p->v.mask == ATT_MASK_CUSTOM &&
            !p->mask[p->mask_indptr[sequence] + (int64_t)token * kv_lens[sequence] + key])
            continue;
        if (is_gap(p, key))
            continue;
        const int token_of_key = key_of(p, sequence, key);
        double s = 0;
        for (int i = 0; i < dim; i++)
            s += query(p, row * (size_t)dim + (size_t)i) * cached(p, sequence, token_of_key, i);
        const double w = exp(s * (double)scale); /* |s| scale is below 20 */
        sum += w;
        for (int i = 0; i < latent; i++)
            o[i] += w * cached(p, sequence, token_of_key, i);
    }
    for (int i = 0; i < latent && sum > 0; i++)
        o[i] /= sum;
    p->expected_lse[row] = log(sum);
}

/* Makes pages in random order, one more than are used. Entries after the last are far outside the
   cache. */
static void make_pages(struct problem *p)
{
    p->n_pages = 1;
    for (int s = 0; s < BATCH; s++) {
        p->kv_indptr[s + 1] = p->kv_indptr[s] + pages_of(p, s);
        p->n_pages += pages_of(p, s);
    }
    memset(p->table, 0x7f, sizeof(p->table));
    /* Page 0 is unused, since a negative entry may be read as it. */
    const unsigned spare = is_sparse(p), pages = (unsigned)p->n_pages - spare;
    for (int i = 0; i < p->kv_indptr[BATCH]; i++)
        p->indices[i] = (int)((unsigned)i * 7919u % pages + spare);
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < pages_of(p, s); i++)
            p->table[s][i] = p->indices[p->kv_indptr[s] + i];
}

/* Makes the lists of sparse kernels, consecutive and divided by slot_indptr. */
static void make_slots(struct problem *p)
{
    int n = 0;
    for (int s = 0; s < BATCH; s++) {
        p->slot_indptr[s] = n;
        for (int i = 0; i < kv_lens[s]; i++) {
            const int key = key_of(p, s, i);
            const int page = p->indices[p->kv_indptr[s] + key / p->page];
            p->slots[s][i] = is_gap(p, i) ? -5 : page * p->page + key % p->page;
            p->slot_list[n++] = p->slots[s][i];
        }
    }
    p->slot_indptr[BATCH] = n;
}

/* Makes two work lists. A sequence without keys is one item. */
static void make_work(struct problem *p)
{
    int n_items = 0;
    for (int s = 0; s < BATCH; s++)
        for (int part = 0; part < PARTS; part++)
            n_items +=
                work_item(p->info[n_items], s, kv_lens[s], p->q_len, part, PARTS, 0, p->heads);
    for (int s = 0; s < BATCH; s++) {
        p->reduce_indptr[s + 1] = p->reduce_indptr[s];
        for (int part = 0; part < PARTS && kv_lens[s]; part++)
            p->reduce_partial_map[p->reduce_indptr[s + 1]++] = (s * PARTS + part) * p->q_len;
    }
    p->work_indptr[1] = n_items / 3;
    p->work_indptr[2] = n_items;
}

/* Makes the cache. After a sequence's last key a page holds NaN. */
static void make_cache(struct problem *p)
{
    const unsigned dtype = cache_dtype(p), bytes = tir_dtype_bits(dtype) / 8;
    const size_t size = (size_t)(p->n_pages * p->page) * row_bytes(p);
    p->cache = allocate(size, 1);
    memset(p->cache, fnuz(p) && bytes == 1 ? 0x80 : 0xff, size);
    for (int s = 0; s < BATCH; s++)
        for (int key = 0; key < kv_lens[s]; key++) {
            if (is_packed(p))
                make_packed(p, p->cache + row_index(p, s, key) * PACKED_ROW);
            for (int i = 0; i < p->v.head_dim && !is_packed(p); i++) {
                const double v = random_number() * (bytes == 1 ? 100 : 1.5);
                const int64_t bits = tir_from_float(dtype, (float)v, fnuz(p));
                memcpy(p->cache + cache_index(p, s, key, i) * bytes, &bits, bytes);
            }
        }
}

static void make_tensors(struct problem *p)
{
    const size_t rows = rows_of(p), dim = (size_t)p->v.head_dim, latent = (size_t)p->v.head_dim_v;
    make_pages(p);
    if (is_sparse(p))
        make_slots(p);
    make_work(p);
    make_cache(p);
    p->mask = random_mask(kv_lens, BATCH, p->q_len, p->mask_indptr);
    p->kv_scale = 0.0137f;
    p->q_scale = 0.0112f;
    p->q = allocate(rows * dim, sizeof(*p->q));
    for (size_t i = 0; i < rows * dim; i++)
        set_query(p, i, 1.5 * random_number());
    p->out = allocate(rows * latent, sizeof(*p->out));
    p->lse = allocate(rows, sizeof(*p->lse));
    p->partial_out = allocate(PARTS * rows * latent, sizeof(*p->partial_out));
    p->partial_lse = allocate(PARTS * rows, sizeof(*p->partial_lse));
    p->expected = allocate(rows * latent, sizeof(*p->expected));
    p->expected_lse = allocate(rows, sizeof(*p->expected_lse));
    for (int s = 0; s < BATCH; s++)
        for (int t = 0; t < p->q_len; t++)
            for (int h = 0; h < p->heads; h++)
                reference_row(p, s, t, h);
}

static void free_tensors(struct problem *p)
{
    void *const all[] = {p->q,           p->cache,       p->mask,     p->out,         p->lse,
                         p->partial_out, p->partial_lse, p->expected, p->expected_lse};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static int64_t argument(const void *problem, const char *name)
{
    const struct problem *const p = problem;
    const int dim = p->v.head_dim, latent = p->v.head_dim_v;
    const struct known known[] = {
        {"q", address(p->q)},
        {"k", address(p->cache)},
        {"k_scale", address(&p->kv_scale)},
        {"q_scale", address(&p->q_scale)},
        {"custom_mask", address(p->mask)},
        {"mask_indptr", address(p->mask_indptr)},
        {"out", address(p->out)},
        {"lse", address(p->lse)},
        {"kv_lens", p->uncounted ? 0 : address(kv_lens)},
        {"list_entries", 0},
        {"qo_indptr", 0},
        {"block_table", is_sparse(p) ? address(p->slots) : address(p->table)},
        {"block_table_stride", MAX_KEYS},
        {"kv_indptr", is_sparse(p) ? address(p->slot_indptr) : address(p->kv_indptr)},
        {"kv_indices", is_sparse(p) ? address(p->slot_list) : address(p->indices)},
        {"work_indptr", p->listed ? address(p->work_indptr) : 0},
        {"work_info", address(p->info)},
        {"partial_out", address(p->partial_out)},
        {"partial_lse", address(p->partial_lse)},
        {"reduce_indptr", address(p->reduce_indptr)},
        {"reduce_partial_map", address(p->reduce_partial_map)},
        {"tickets", address(p->tickets)},
        {"q_token_stride", p->heads * dim},
        {"q_head_stride", dim},
        {"k_page_stride", p->page * (is_packed(p) ? PACKED_ROW : dim)},
        {"k_token_stride", is_packed(p) ? PACKED_ROW : dim},
        {"k_head_stride", 0},
        {"out_token_stride", p->heads * latent},
        {"out_head_stride", latent},
        {"lse_token_stride", 1},
        {"lse_head_stride", BATCH * p->q_len},
        {"heads", p->heads},
        {"kv_heads", 1},
        {"gqa", p->heads},
        {"max_seqlen_q", p->q_len},
        {"workgroups", p->listed ? 2 : BATCH},
        {"page_size", p->page},
        {"page_shift", __builtin_ctz((unsigned)p->page)},
        {"scale_log2", bits_of(scale * 1.44269504f)},
    };
    return known_value(known, sizeof(known) / sizeof(known[0]), name);
}

/* True if P is rounded to fp8: by up to 2^-4 of a weight or 2^-14.8 of the largest. The sum is of
 * rounded weights. Roundings are evenly distributed: 2^-4 / sqrt(3) on average. */
static bool weights_are_fp8(const struct problem *p) { return q_is_fp8(p) && !is_packed(p); }

static double rounding(const struct problem *p)
{
    return weights_are_fp8(p) ? 0x1p-4 / sqrt(3) : 0;
}

/* Bounds the LSE. Keys that are rounded after scaling are off by 2^-9. Scores are off by 2^-9 of
 * scale sum |q k|, which is less than 16 here. */
static double lse_bound(const struct problem *p)
{
    if (weights_are_fp8(p))
        return -log(1 - (0x1p-4 + MAX_KEYS * 0x1p-14));
    return is_packed(p) ? 0x1p-5 : 1e-4;
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
        .out = p->out,
        .lse = p->lse,
        .partial_out = p->partial_out,
        .partial_lse = p->partial_lse,
        .expected = p->expected,
        .expected_lse = p->expected_lse,
        .lse_bound = p->v.lse || in_parts ? lse_bound(p) : 0,
        .rounding = rounding(p),
    };
}

/* True if all tickets are 0 after the launch, as they were before it. */
static bool is_right(const void *problem, char why[TIR_WHY])
{
    const struct problem *const p = problem;
    for (int s = 0; s < BATCH; s++)
        if (p->tickets[s][0]) {
            snprintf(why, TIR_WHY, "tickets[%d] is left at %d", s, p->tickets[s][0]);
            return false;
        }
    return true;
}

/* Makes a variant. Fields that `s` does not set are bf16, 512 + 64 elements, 16 heads, page 16,
 * causal, LSE. */
static struct att_variant variant(const char *target, const struct setting *s, unsigned n)
{
    struct att_variant v;
    att_variant_init(&v, template_of("mla_decode"), target);
    att_set(&v, ATT_HEAD_DIM, 576);
    att_set(&v, ATT_HEAD_DIM_V, 512);
    v.loc[ATT_HEAD_DIM_V].line = 1;
    att_set(&v, ATT_GQA, 16);
    att_set(&v, ATT_PAGE_SIZE, 16);
    att_set(&v, ATT_LSE, 1);
    for (unsigned i = 0; i < n; i++)
        att_set(&v, s[i].field, s[i].value);
    att_variant_resolve(&v);
    return v;
}

static void run_case(const char *target, bool listed, const struct setting *s, unsigned n)
{
    const struct tgt *const t = tgt_find(target);
    struct problem p = {.listed = listed};
    p.v = variant(t->machine.name, s, n);
    p.uncounted = is_sparse(&p) && p.v.page_table == ATT_PAGE_TABLE_INDICES;
    p.heads = p.v.gqa ? p.v.gqa : 6;
    p.q_len = p.v.q_len;
    p.page = p.v.page_size ? p.v.page_size : 4;
    seed_random(1);
    make_tensors(&p);
    interpret_kernel(&(struct interpreted){.v = &p.v,
                                           .problem = &p,
                                           .argument = argument,
                                           .attention = result_of(&p),
                                           .is_right = is_right});
    free_tensors(&p);
}

#define CASE(target, listed, ...) run_case(target, listed, SETTINGS(__VA_ARGS__))

TEST_IN("heads", heads_of_any_number_share_a_latent)
{
    CASE("gfx942", false, {ATT_GQA, 1});
    CASE("gfx950", false, {ATT_GQA, 12}, {ATT_LSE, 0});
    CASE("gfx942", false, {ATT_GQA, 24});
    CASE("gfx950", false, {ATT_GQA, 64}, {ATT_DTYPE, ATT_DTYPE_FP16});
    CASE("gfx942", false, {ATT_GQA, 96});
    CASE("gfx950", false, {ATT_GQA, 0});
}

TEST_IN("draft tokens", several_queries_see_up_to_themselves)
{
    CASE("gfx950", false, {ATT_GQA, 8}, {ATT_Q_LEN, 2});
    CASE("gfx942", false, {ATT_GQA, 5}, {ATT_Q_LEN, 8});
    CASE("gfx950", false, {ATT_GQA, 48}, {ATT_Q_LEN, 4}); /* two passes over the keys */
    CASE("gfx942", false, {ATT_GQA, 3}, {ATT_Q_LEN, 3}, {ATT_MASK, ATT_MASK_NONE});
    CASE("gfx950", false, {ATT_GQA, 6}, {ATT_Q_LEN, 7}, {ATT_MASK, ATT_MASK_CUSTOM});
}

TEST_IN("lists", latents_have_other_widths)
{
    CASE("gfx942", false, {ATT_HEAD_DIM, 512}, {ATT_GQA, 20});
    CASE("gfx950", false, {ATT_HEAD_DIM, 320}, {ATT_HEAD_DIM_V, 256}, {ATT_GQA, 40});
}

/* Splits without a visible key have a log of the denominator of -inf. */
TEST_IN("lists", work_lists_write_parts)
{
    CASE("gfx942", true, {ATT_GQA, 8});
    CASE("gfx950", true, {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES}, {ATT_GQA, 12}, {ATT_Q_LEN, 3},
         {ATT_PAGE_SIZE, 64});
}

/* Kernels add up parts in the launch itself: for whole rows and for halves, for an unknown number
 * of heads, and for a latent of 256. */
TEST_IN("one launch", parts_are_added_up_in_one_launch)
{
    CASE("gfx942", true, {ATT_ONE_LAUNCH, 1}, {ATT_GQA, 12});
    CASE("gfx950", true, {ATT_ONE_LAUNCH, 1}, {ATT_GQA, 0}, {ATT_LSE, 0});
    CASE("gfx950", true, {ATT_ONE_LAUNCH, 1}, {ATT_GQA, 48}, {ATT_Q_LEN, 3});
    CASE("gfx942", true, {ATT_ONE_LAUNCH, 1}, {ATT_HEAD_DIM, 320}, {ATT_HEAD_DIM_V, 256},
         {ATT_GQA, 5}, {ATT_DTYPE, ATT_DTYPE_FP16});
    CASE("gfx950", false, {ATT_ONE_LAUNCH, 1});
}

TEST_IN("lists", pages_have_any_size)
{
    CASE("gfx942", false, {ATT_PAGE_SIZE, 1}, {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES});
    CASE("gfx950", true, {ATT_PAGE_SIZE, 0}, {ATT_GQA, 17});
}

/* Lists of slots, backwards and with gaps. With kv_indptr only, they have no lengths of their
   own. */
TEST_IN("lists", lists_name_any_slots)
{
    CASE("gfx942", false, {ATT_SPARSE, ATT_SPARSE_SLOTS}, {ATT_GQA, 8});
    CASE("gfx950", true, {ATT_SPARSE, ATT_SPARSE_SLOTS}, {ATT_PAGE_SIZE, 0}, {ATT_GQA, 40});
    CASE("gfx950", false, {ATT_SPARSE, ATT_SPARSE_SLOTS}, {ATT_PAGE_SIZE, 1}, {ATT_Q_LEN, 2},
         {ATT_PAGE_TABLE, ATT_PAGE_TABLE_INDICES});
}

/* The scale of the cache applies twice: to scores, since keys have it, and to outputs, since
 * values have it. */
TEST_IN("packed rows", the_scale_of_the_cache_counts_twice)
{
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR});
    CASE("gfx950", true, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
         {ATT_GQA, 64}, {ATT_PAGE_SIZE, 64});
}

/* S is a sum of exact fp8 products. P is fp8 too, and so is c in the cache. */
TEST_IN("fp8 queries", queries_may_be_fp8)
{
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
         {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8});
    CASE("gfx950", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
         {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8}, {ATT_GQA, 40}, {ATT_DTYPE, ATT_DTYPE_FP16});
    CASE("gfx942", true, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
         {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8}, {ATT_GQA, 40});
    CASE("gfx950", true, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
         {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8}, {ATT_GQA, 8}, {ATT_PAGE_SIZE, 64});
}

/* Packed rows, which have their own scales, are in pages or in lists of slots. */
TEST_IN("packed rows", rows_may_be_packed)
{
    CASE("gfx942", true, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED});
    CASE("gfx950", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED},
         {ATT_GQA, 64}, {ATT_SPARSE, ATT_SPARSE_SLOTS});
    CASE("gfx942", false, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED},
         {ATT_KV_SCALE, ATT_KV_SCALE_E8M0}, {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8});
    CASE("gfx950", true, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED},
         {ATT_KV_SCALE, ATT_KV_SCALE_E8M0}, {ATT_GQA, 64}, {ATT_SPARSE, ATT_SPARSE_SLOTS});
}

static void check_facts(const char *target, const struct setting *s, unsigned n)
{
    const struct att_variant v = variant(target, s, n);
    const struct tgt *const t = tgt_find(target);
    struct attnc_kernel k = compile_attention(&v);
    const struct tgt_kernel_facts *const f = &k.facts;
    /* In blocks of 16 keys, a wave has three loads and the page numbers in flight. Some of them are
     * the last at their wait. Small LDS leads to such blocks for more than 16 columns. */
    const bool few_loads = v.gqa > 64 || (v.gqa > 16 && t->machine.lds_bytes <= 64 * 1024);
    /* The least products of a wave in a block of 16 keys and columns. S has 576 columns of K in
     * steps of 32 (16 where small), or of 128 and 32 in fp8. O += V P has 64 rows of 16 or of 32
     * each. With small LDS, waves of 16 and 32 columns have 144 columns of K, in steps of 16, or of
     * 32 twice. */
    const bool wide = v.q_dtype == ATT_Q_DTYPE_FP8 && v.kv_layout == ATT_KV_LAYOUT_NHD &&
                      tir_find_mma(&t->machine, 16, 16, 128, TIR_FP8) >= 0;
    const bool shares = v.gqa && v.gqa * v.q_len <= 32 && t->machine.lds_bytes <= 64 * 1024;
    const unsigned least = wide ? 6 + 2 : shares ? 9 + 8 : 18 + 8;
    if ((f->loop.waits_vm0 && !few_loads) || f->loop.mfma < least)
        fail_msg("%s has %u waits for all loads and %u matrix instructions in its loop", k.name,
                 f->loop.waits_vm0, f->loop.mfma);
    attnc_kernel_free(&k);
}

#define FACTS(...)    \
    FOR_WIDE_WAVES(t) \
    check_facts(tgt_all[t]->machine.name, SETTINGS(__VA_ARGS__))

TEST_IN("kernels", kernels_fit_their_registers)
{
    FACTS({ATT_GQA, 16});
    FACTS({ATT_GQA, 32});
    FACTS({ATT_GQA, 64}, {ATT_PAGE_SIZE, 0});
    FACTS({ATT_ONE_LAUNCH, 1}, {ATT_GQA, 16});
    FACTS({ATT_ONE_LAUNCH, 1}, {ATT_GQA, 128}, {ATT_Q_LEN, 2});
    FACTS({ATT_GQA, 128});
    FACTS({ATT_GQA, 128}, {ATT_SPARSE, ATT_SPARSE_SLOTS}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
          {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED});
    FACTS({ATT_GQA, 128}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR});
    FACTS({ATT_GQA, 128}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED},
          {ATT_KV_SCALE, ATT_KV_SCALE_E8M0}, {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8});
    FACTS({ATT_GQA, 128}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR},
          {ATT_Q_DTYPE, ATT_Q_DTYPE_FP8});
}

TEST_IN("kernels", what_cannot_be_built_says_why)
{
    static const struct {
        struct setting setting;
        const char *sentence;
    } refused[] = {
        {{ATT_HEAD_DIM_V, 128}, "head_dim_v 128, the latent's width, is not 256 or 512"},
        {{ATT_HEAD_DIM, 640}, "head_dim 640 is not head_dim_v 512 plus 0 or 64"},
        {{ATT_GQA, 160}, "gqa 160: there are at most 128 heads"},
        {{ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED}, "packed rows have 512 + 64 elements, kv_dtype fp8"},
        {{ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE},
         "a latent cache has kv_layout nhd, or one whose rows contain their scales"},
        {{ATT_KV_SCALE, ATT_KV_SCALE_E8M0}, "a cache of 16-bit numbers has no scale"},
        {{ATT_Q_DTYPE, ATT_Q_DTYPE_FP8}, "q_dtype fp8 is for a cache of kv_dtype fp8"},
        {{ATT_MASK, ATT_MASK_WINDOW}, "mla_decode has no window and no chunks"},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct att_variant v = variant("gfx942", &refused[i].setting, 1);
        expect_refused(&v, refused[i].setting.field, refused[i].sentence);
    }
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }

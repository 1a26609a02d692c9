/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for plan kernels: every integer is that of the host's planner, and nothing else is
 * written.
 */
#include <stdlib.h>

#include "tools/verify/call.h"
#include "tools/verify/tensor.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { POISON = 0x5aa55aa5, GUARD = 8 };

enum {
    ZEROS = 1 << 0, /* some sequences have no keys */
    ALL_ZERO = 1 << 1,
    ONE_LONG = 1 << 2, /* one has a hundred times the keys of the others */
    EQUAL = 1 << 3,
    RAGGED_Q = 1 << 4, /* qo_indptr, with fewer queries than q_len for some */
    INDICES = 1 << 5,  /* kv_indptr */
};

/* keys: the longest of the common lengths. Chunks of 64 sequences are planned at a time. */
static const struct shape {
    const char *name;
    unsigned flags;
    int keys, batch, q_len, page_size, gqa, kv_heads, lists, window;
} shapes[] = {
    {"one", 0, 9000, 1, 1, 16, 8, 8, 304, 0},
    {"one head", 0, 60000, 1, 1, 1, 16, 1, 304, 0},
    {"few", RAGGED_Q, 3000, 3, 4, 16, 6, 2, 304, 0},
    {"even", EQUAL, 4096, 64, 1, 16, 8, 8, 304, 0},
    {"ragged", RAGGED_Q | INDICES, 2000, 65, 2, 64, 5, 4, 304, 0},
    {"no keys", ALL_ZERO, 0, 63, 1, 16, 4, 1, 64, 0},
    {"padded", ZEROS, 700, 200, 1, 32, 12, 8, 304, 0},
    {"one long", ONE_LONG | INDICES, 900, 128, 3, 16, 8, 2, 256, 0},
    {"large pages", ZEROS, 40000, 30, 1, 1024, 10, 1, 304, 0},
    {"few lists", ZEROS, 1000, 20, 1, 16, 4, 8, 5, 0},
    {"odd heads", ONE_LONG, 3000, 70, 1, 128, 1, 5, 304, 0},
    {"full", ZEROS | ONE_LONG, 5000, 512, 1, 16, 8, 8, 304, 0},
    {"window", ZEROS | ONE_LONG | RAGGED_Q | INDICES, 16384, 130, 4, 16, 8, 8, 304, 128},
    {"window of one", RAGGED_Q, 300, 40, 3, 1, 8, 1, 256, 1},
    {"wide window", ONE_LONG, 2000, 64, 1, 1024, 8, 2, 304, 4096},
};

/* A tensor of the plan: what the host says, and what the device wrote, behind guards. */
struct integers {
    const char *name;
    size_t count;
    int32_t *expected, *device, *got;
};

enum tensor_name { WORK_INDPTR, WORK_INFO, REDUCE_INDPTR, FINAL_MAP, PARTIAL_MAP, N_TENSORS };

struct problem {
    struct verify_run *run;
    const struct shape *shape;
    struct attn_plan_args args;
    int32_t *kv_lens, *qo_indptr, *kv_indptr;
    struct integers tensors[N_TENSORS];
    struct device_memory memory;
    struct verify_row *row;
};

static bool is(const struct problem *p, unsigned flags) { return p->shape->flags & flags; }

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

static int32_t random_length(const struct problem *p, int b, uint64_t *random)
{
    const int keys = p->shape->keys;
    if (is(p, ALL_ZERO) || (is(p, ZEROS) && random_bits(random) % 4 == 0))
        return 0;
    if (is(p, ONE_LONG) && b == p->shape->batch / 3)
        return 100 * keys;
    return is(p, EQUAL) ? keys : 1 + (int32_t)(random_bits(random) % (unsigned)keys);
}

static void make_lengths(struct problem *p, uint64_t *random)
{
    const struct shape *s = p->shape;
    p->kv_lens = allocate((size_t)s->batch, sizeof(int32_t));
    p->qo_indptr = allocate((size_t)s->batch + 1, sizeof(int32_t));
    p->kv_indptr = allocate((size_t)s->batch + 1, sizeof(int32_t));
    for (int b = 0; b < s->batch; b++) {
        p->kv_lens[b] = random_length(p, b, random);
        const int q = (int)(random_bits(random) % (unsigned)(s->q_len + 1));
        const int pages = (p->kv_lens[b] + s->page_size - 1) / s->page_size;
        p->qo_indptr[b + 1] = p->qo_indptr[b] + q;
        p->kv_indptr[b + 1] = p->kv_indptr[b] + pages;
    }
    if (is(p, ZEROS))
        p->kv_lens[0] = -1; /* counts as 0 */
}

static void make_tensor(struct problem *p, enum tensor_name name, const char *text, size_t count)
{
    struct integers *t = &p->tensors[name];
    *t = (struct integers){.name = text, .count = count};
    const size_t all = count + 2 * GUARD;
    t->expected = allocate(all, sizeof(int32_t));
    t->got = allocate(all, sizeof(int32_t));
    for (size_t i = 0; i < all; i++)
        t->expected[i] = POISON;
    t->device = device_copy(&p->memory, t->expected, all * sizeof(int32_t));
}

static void make_tensors(struct problem *p)
{
    const struct attn_decode_plan_shape *s = &p->args.shape;
    struct attn_decode_plan_sizes sizes = {0};
    attn_decode_plan_sizes(s, &sizes);
    make_tensor(p, WORK_INDPTR, "work_indptr", (size_t)s->lists + 1);
    make_tensor(p, WORK_INFO, "work_info", 8 * (size_t)sizes.work_items);
    make_tensor(p, REDUCE_INDPTR, "reduce_indptr", (size_t)s->batch + 1);
    make_tensor(p, FINAL_MAP, "reduce_final_map", 2 * (size_t)s->batch);
    make_tensor(p, PARTIAL_MAP, "reduce_partial_map", (size_t)sizes.partials);
}

static struct attn_decode_plan plan_of(const struct problem *p, bool device)
{
    int32_t *at[N_TENSORS];
    for (int i = 0; i < N_TENSORS; i++)
        at[i] = (device ? p->tensors[i].device : p->tensors[i].expected) + GUARD;
    return (struct attn_decode_plan){at[WORK_INDPTR], at[WORK_INFO], at[REDUCE_INDPTR],
                                     at[FINAL_MAP], at[PARTIAL_MAP]};
}

static void upload_lengths(struct problem *p)
{
    const size_t n = (size_t)p->shape->batch, size = sizeof(int32_t);
    struct device_memory *m = &p->memory;
    p->args.lengths = (struct attn_decode_plan_lengths){
        .kv_lens = device_copy(m, p->kv_lens, n * size),
        .qo_indptr = is(p, RAGGED_Q) ? device_copy(m, p->qo_indptr, (n + 1) * size) : NULL,
        .kv_indptr = is(p, INDICES) ? device_copy(m, p->kv_indptr, (n + 1) * size) : NULL,
    };
}

/* The first integer that differs, guards and what is behind the plan included. */
static void compare(struct problem *p, const struct integers *t)
{
    for (size_t i = 0; i < t->count + 2 * GUARD; i++) {
        if (t->got[i] == t->expected[i])
            continue;
        if (t->got[i] == POISON || t->expected[i] == POISON)
            verify_fail(p->row, "%s[%lld] is %s", t->name, (long long)i - GUARD,
                        t->got[i] == POISON ? "not written" : "written, behind the plan");
        verify_fail(p->row, "%s[%lld] is %d, expected %d", t->name, (long long)i - GUARD, t->got[i],
                    t->expected[i]);
    }
}

static void run_problem(struct problem *p)
{
    const struct attn_plan_desc desc = {.size = sizeof(desc)};
    const struct attn_decode_plan_lengths lengths = {
        .kv_lens = p->kv_lens,
        .qo_indptr = is(p, RAGGED_Q) ? p->qo_indptr : NULL,
        .kv_indptr = is(p, INDICES) ? p->kv_indptr : NULL,
    };
    const struct attn_decode_plan expected = plan_of(p, false);
    if (attn_decode_plan(&p->args.shape, &lengths, &expected))
        verify_fail(p->row, "attn_decode_plan: %s", attn_last_error());
    if (!verify_launch(p->run, &p->memory, &desc, &p->args, p->row))
        return;
    for (int i = 0; i < N_TENSORS; i++) {
        struct integers *t = &p->tensors[i];
        device_read(&p->memory, t->got, t->device, (t->count + 2 * GUARD) * sizeof(int32_t));
    }
    if (!verify_copied(&p->memory, p->row))
        return;
    for (int i = 0; i < N_TENSORS; i++)
        compare(p, &p->tensors[i]);
}

static void destroy(struct problem *p)
{
    device_free(&p->memory);
    free(p->kv_lens);
    free(p->qo_indptr);
    free(p->kv_indptr);
    for (int i = 0; i < N_TENSORS; i++) {
        free(p->tensors[i].expected);
        free(p->tensors[i].got);
    }
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i)
{
    const struct shape *s = &shapes[i];
    struct verify_row row = {.kernel = info->name, .shape = s->name};
    struct problem p = {
        .run = run,
        .shape = s,
        .memory = {.gpu = run->gpu},
        .row = &row,
        .args =
            {
                .size = sizeof(p.args),
                .shape =
                    {
                        .size = sizeof(p.args.shape),
                        .batch = s->batch,
                        .q_len = s->q_len,
                        .page_size = s->page_size,
                        .heads = s->gqa * s->kv_heads,
                        .kv_heads = s->kv_heads,
                        .lists = s->lists,
                        .window = s->window,
                    },
            },
    };
    uint64_t random = run->seed * 1000003 + i;
    make_lengths(&p, &random);
    make_tensors(&p);
    upload_lengths(&p);
    p.args.plan = plan_of(&p, true);
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    (void)n;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i);
}

const struct verify_op verify_plan = {.op = "plan", .verify = verify};

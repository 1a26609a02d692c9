/* SPDX-License-Identifier: Apache-2.0 */
/* Shares handles between 16 threads; with -Db_sanitize=thread it is the race check. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { THREADS = 16 };

struct work {
    const struct bench *bench;
    const struct attn_op *op;
    long launches;
    int failures;
};

static void *launch_often(void *arg)
{
    struct work *w = arg;
    struct attn_prefill_args a = plain_args();
    for (long i = 0; i < w->launches; i++) {
        a.max_seqlen_q = 1 + (int32_t)(i & 127);
        w->failures += attn_prefill_launch(w->op, &a) != ATTN_OK;
    }
    return NULL;
}

static void *look_up_often(void *arg)
{
    struct work *w = arg;
    const struct attn_prefill_args a = plain_args();
    for (long i = 0; i < w->launches; i++) {
        struct attn_prefill_desc d = plain_desc();
        d.head_dim = i & 1 ? 64 : 128;
        struct attn_op *op;
        if (attn_prefill_lookup(w->bench->device, &d, &op)) {
            w->failures++;
            continue;
        }
        w->failures += attn_prefill_launch(op, &a) != ATTN_OK;
        d.head_dim = 72; /* errors are per thread */
        struct attn_op *none;
        w->failures += attn_prefill_lookup(w->bench->device, &d, &none) != ATTN_NO_KERNEL;
        w->failures += strstr(attn_last_error(), "head_dim") == NULL;
        attn_op_destroy(op);
    }
    return NULL;
}

static void run(void *(*body)(void *), const struct bench *b, const struct attn_op *op,
                long launches)
{
    pthread_t threads[THREADS];
    struct work work[THREADS];
    for (int t = 0; t < THREADS; t++) {
        work[t] = (struct work){.bench = b, .op = op, .launches = launches};
        assert_int_equal(pthread_create(&threads[t], NULL, body, &work[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_int_equal(work[t].failures, 0);
    }
}

static const struct made kernels[] = {{.head_dim = "64"}, {.head_dim = "128"}};

TEST(threads_launch_one_op)
{
    struct fakehip *f = fake_reset();
    struct bench b = open_bench(kernels, COUNT(kernels));
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    f->quiet = 1;
    const char *count = getenv("ATTN_TEST_LAUNCHES"); /* 1000000 for the long run */
    run(launch_often, &b, op, count ? atol(count) : 20000);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(threads_look_up_on_one_device)
{
    struct fakehip *f = fake_reset();
    struct bench b = open_bench(kernels, COUNT(kernels));
    f->quiet = 1;
    run(look_up_often, &b, NULL, 200);
    close_bench(&b);
    assert_int_equal(f->modules, 0);
}

int main(void) { return run_unit_tests(); }
